"""The formulas of what is trained: parameters, tokens, FLOPs, and the least loss that these FLOPs could have had."""

from service.estimator.answers import ComputeOptimal, Performance
from service.estimator.evidence import Evidence, Trained
from service.estimator.flops import BESIROGLU, CAUSAL_ATTENTION, FULL_ATTENTION
from service.estimator.formula import Page
from service.estimator.parameters import active_layers_parameters, attention_parameters
from service.estimator.shapes import ModelShape, dense_layers_of, head_dim_of, kv_heads_of, moe_layers_of
from service.units import PERCENT

_PARAMETERS = "matrices only: h*a*d + 2*h*kv*d + a*d*h + k*h*f a layer (Ainslie et al. 2023 for kv, Shazeer 2020 for k)"
_MIXTURE = "every routed expert is stored (DeepSeek-V3 report, arXiv 2412.19437, section 2.1)"
_EXACT = (
    "6*(L*W + V*h) + 12*L*a*d*s*c, forward and backward (PaLM, arXiv 2204.02311, App. B; "
    "NVIDIA-NeMo/Megatron-Bridge@067f987 src/megatron/bridge/training/utils/flop_utils.py for c = 0.5)"
)
_ADAPTERS = "frozen weights need no gradient of their own (NVIDIA-NeMo/Megatron-Bridge@067f987 flop_utils)"
_SIX_ND = "6*N*D (Kaplan et al. 2020, arXiv 2001.08361; Hoffmann et al. 2022, arXiv 2203.15556)"
_BESIROGLU = "Hoffmann et al. 2022, arXiv 2203.15556, refitted by Besiroglu et al. 2024, arXiv 2404.10102"
_RECOMPUTE = "Korthikanti et al. 2022, arXiv 2205.05198, section 5"


def model_pages(evidence: Evidence, performance: Performance) -> tuple[Page, ...]:
    """What is trained, as far as it is known."""
    page = Page()
    if evidence.tokens is not None:
        page.let("D1", evidence.tokens, "token", "tokens of one epoch")
        page.let("E", evidence.epochs, "1", "epochs")
        page.write(
            "performance.trained_tokens",
            "Trained tokens",
            "D1 * E",
            performance.trained_tokens,
            "token",
            "by definition",
        )
    trained = evidence.trained
    if trained is None or performance.flops_per_token is None or performance.model_flops is None:
        return (page,)
    page.let("F", performance.flops_per_token, "FLOP/token", "model FLOPs of a token")
    page.let("D", performance.trained_tokens, "token", "trained tokens")
    page.write("performance.model_flops", "FLOPs of the whole run", "F * D", performance.model_flops, "FLOP", _SIX_ND)
    pages = [page, _by_parameters(trained, performance)]
    if trained.shape is not None:
        pages.append(_by_shape(trained.shape, trained, performance))
    if trained.hardware_over_model is not None:
        pages.append(_recomputed(trained, trained.hardware_over_model, performance))
    if performance.compute_optimal is not None:
        pages.append(_optimal(performance, performance.compute_optimal))
    return tuple(pages)


def _by_parameters(trained: Trained, performance: Performance) -> Page:
    """6ND; and the parameters themselves where only their number was given."""
    page = Page()
    if trained.shape is not None:
        return page
    assert performance.flops_per_token is not None  # the caller has checked
    page.let("N", trained.active_parameters, "parameter", "parameters at work on a token")
    formula, source = ("6 * N", _SIX_ND) if trained.training == "full" else ("6 * N * 4 / 6", _ADAPTERS)
    page.write(
        "performance.flops_per_token", "FLOPs of a token", formula, performance.flops_per_token, "FLOP/token", source
    )
    return page


def _by_shape(shape: ModelShape, trained: Trained, performance: Performance) -> Page:
    page = shape_page(shape)
    assert performance.flops_per_token is not None  # the caller has checked
    assert performance.parameters is not None
    assert performance.active_parameters is not None
    in_all, active = layers_text(shape, "X"), layers_text(shape, "K")
    page.let("m", 1 if shape.tied_embeddings else 2, "1", "embedding matrices: one if tied, else two")
    page.let("s", trained.sequence_length, "token", "sequence length")
    counted = CAUSAL_ATTENTION if performance.attention == "causal" else FULL_ATTENTION
    page.let("c", counted, "1", "share of the attention matrix that is counted")
    page.let("A", trained.active_lora_parameters, "parameter", "parameters of the adapters at work on a token")
    source = _PARAMETERS if shape.moe is None else f"{_PARAMETERS}; {_MIXTURE}"
    page.write(
        "performance.parameters", "Parameters", f"{in_all} + m * V * h", performance.parameters, "parameter", source
    )
    page.write(
        "performance.active_parameters",
        "Parameters that multiply a token",
        f"{active} + V * h",
        performance.active_parameters,
        "parameter",
        "looking up the input embedding is no multiplication; of the experts only those that a token passes through",
    )
    attention = "12 * L * a * d * s * c"
    full = trained.training == "full"
    page.write(
        "performance.flops_per_token",
        "FLOPs of a token",
        f"6 * ({active} + V * h) + {attention}" if full else f"4 * ({active} + V * h) + 6 * A + {attention}",
        performance.flops_per_token,
        "FLOP/token",
        _EXACT if full else f"{_EXACT}; {_ADAPTERS}",
    )
    return page


def shape_page(shape: ModelShape) -> Page:
    """The letters of a shape."""
    page = Page()
    page.let("L", shape.layers, "layer", "layers")
    page.let("h", shape.hidden, "1", "hidden width")
    page.let("a", shape.heads, "head", "query heads")
    page.let("kv", kv_heads_of(shape), "head", "key and value heads")
    page.let("d", head_dim_of(shape), "1", "width of a head")
    page.let("k", shape.ffn_matrices, "1", "matrices of a feed-forward block")
    page.let("f", shape.ffn_hidden, "1", "inner width of a feed-forward block")
    page.let("V", shape.vocabulary, "token", "vocabulary")
    page.let("P", attention_parameters(shape), "parameter", "attention parameters of a layer")
    if shape.moe is not None:
        page.let("Ld", dense_layers_of(shape), "layer", "layers without experts")
        page.let("Lx", moe_layers_of(shape), "layer", "layers with experts")
        page.let("g", shape.moe.expert_ffn_hidden, "1", "inner width of an expert")
        page.let("X", shape.moe.experts, "expert", "routed experts of a layer")
        page.let("K", shape.moe.experts_per_token, "expert", "routed experts that a token passes through")
        page.let("S", shape.moe.shared_experts, "expert", "experts that every token passes through")
    return page


def layers_text(shape: ModelShape, routed: str) -> str:
    """The parameters of all layers; of a mixture with so many routed experts, and its router."""
    attention = "2 * h * d * (a + kv)" if shape.attention_parameters_per_layer is None else "P"
    dense = f"({attention} + k * h * f)"
    if shape.moe is None:
        return f"L * {dense}"
    mixed = f"Lx * ({attention} + k * h * g * ({routed} + S) + h * X)"
    return f"Ld * {dense} + {mixed}" if shape.moe.dense_layers else mixed


def _recomputed(trained: Trained, ratio: float, performance: Performance) -> Page:
    """Hardware FLOPs over model FLOPs; HFU is MFU times that."""
    page = Page()
    formula, shape = "1", trained.shape
    if shape is None:
        formula = "1" if ratio == 1 else "4 / 3"
    elif trained.recompute != "none":
        counted = CAUSAL_ATTENTION if performance.attention == "causal" else FULL_ATTENTION
        page.let("c", counted, "1", "share of the attention matrix that is counted")
        page.let("L", shape.layers, "layer", "layers")
        page.let("a", shape.heads, "head", "query heads")
        page.let("d", head_dim_of(shape), "1", "width of a head")
        page.let("s", trained.sequence_length, "token", "sequence length")
        page.let("N", trained.active_parameters, "parameter", "parameters that multiply a token")
        page.let("Nl", active_layers_parameters(shape), "parameter", "those of them in layers")
        again = "4 * L * a * d * s * c" + (" + 2 * Nl" if trained.recompute == "full" else "")
        formula = f"1 + ({again}) / (6 * N + 12 * L * a * d * s * c)"
    page.write(None, "Hardware FLOPs over model FLOPs", formula, ratio, "1", _RECOMPUTE)
    if performance.step_hfu_percent is not None and performance.step_mfu_percent is not None:
        page.let("mfu", performance.step_mfu_percent, "%", "MFU of a step")
        page.let("r", ratio, "1", "hardware FLOPs over model FLOPs")
        page.write(
            "performance.step_hfu_percent",
            "Hardware FLOPs utilisation of a step",
            "mfu * r",
            performance.step_hfu_percent,
            "%",
            _RECOMPUTE,
        )
    return page


def _optimal(performance: Performance, found: ComputeOptimal) -> Page:
    page, law = Page(), BESIROGLU
    assert performance.parameters is not None  # there is no optimum without a model
    for symbol, value, meaning in (
        ("E0", law.irreducible, "loss that no training removes"),
        ("A", law.parameter_scale, "fitted scale of the parameters' part"),
        ("B", law.token_scale, "fitted scale of the tokens' part"),
        ("alpha", law.parameter_exponent, "fitted exponent of parameters"),
        ("beta", law.token_exponent, "fitted exponent of tokens"),
    ):
        page.let(symbol, value, "1", meaning)
    page.let("N", performance.parameters, "parameter", "parameters of this run")
    page.let("D", performance.trained_tokens, "token", "trained tokens of this run")
    page.let("N1", found.parameters, "parameter", "compute-optimal parameters")
    page.let("D1", found.tokens, "token", "compute-optimal tokens")
    at = "performance.compute_optimal"
    best = "(alpha * A / (beta * B)) ** (1 / (alpha + beta)) * (N * D) ** (beta / (alpha + beta))"
    loss = "E0 + A / {0} ** alpha + B / {1} ** beta"
    for field, name, formula, result, unit in (
        ("parameters", "Compute-optimal parameters", best, found.parameters, "parameter"),
        ("tokens", "Compute-optimal tokens", "N * D / N1", found.tokens, "token"),
        ("tokens_per_parameter", "Their ratio", "D1 / N1", found.tokens_per_parameter, "token/parameter"),
        ("loss", "Loss at the optimum", loss.format("N1", "D1"), found.loss, "nat/token"),
        (
            "run_tokens_per_parameter",
            "The ratio of this run",
            "D / N",
            found.run_tokens_per_parameter,
            "token/parameter",
        ),
        ("run_loss", "Loss of this run", loss.format("N", "D"), found.run_loss, "nat/token"),
    ):
        page.write(f"{at}.{field}", name, formula, result, unit, f"{_BESIROGLU}; 6*N*D FLOPs at both")
    return page


def billed_utilisation(page: Page, performance: Performance, gpu_hours: float) -> None:
    """What is left of the peak over the whole bill."""
    assert performance.model_flops is not None  # the caller has checked
    assert performance.peak_tflops_per_gpu is not None
    page.let("C", performance.model_flops, "FLOP", "model FLOPs of the whole run")
    page.let("Q", gpu_hours, "GPU-hour", "all GPU-hours that are billed")
    page.let("peak", performance.peak_tflops_per_gpu, "TFLOPS", "dense peak of one accelerator")
    assert performance.billed_mfu_percent is not None
    page.write(
        "performance.billed_mfu_percent",
        "Model FLOPs utilisation of the whole bill",
        f"{PERCENT} * C / 3600 / (Q * peak * 1e12)",
        performance.billed_mfu_percent,
        "%",
        "model FLOPs over what the billed GPU-hours could have done (as PaLM, arXiv 2204.02311, App. B, of all hours)",
    )
