"""The formulas of how fast it runs: tokens a second by each method, utilisation, and how far they may be off."""

from service.estimator.answers import Performance
from service.estimator.constants import SEARCHED_THROUGHPUT_FACTOR, SIGMA_LN_LAYOUT_GIVEN
from service.estimator.evidence import Evidence, Fitted, Modelled, Usual
from service.estimator.explain_model import billed_utilisation
from service.estimator.formula import Page
from service.estimator.utilisation import P90_SIGMAS, REGIME_SIGMAS, spread
from service.units import PERCENT

_MFU = "MFU = tokens/s * FLOPs of a token / (GPUs * peak) (PaLM, Chowdhery et al. 2022, arXiv 2204.02311, App. B)"
_STEP = "analytic step model, checked against published throughput (GET /v1/backtest)"
_FIT = "least squares of relative errors of n / X (Amdahl 1967; log2 n where the batch grows)"
_SPREAD = "published runs against this method; each regime that no table covers widens it (root of the sum of squares)"


def pace_page(evidence: Evidence, performance: Performance, gpu_count: float, efficiency_percent: float) -> Page:
    """Tokens a second, by whatever they rest on."""
    page = Page()
    page.let("n", gpu_count, "GPU", "accelerators")
    page.let("e", efficiency_percent, "%", "scaling efficiency")
    found = _rate(page, evidence, performance)
    if found is not None:
        formula, source = found
        if efficiency_percent != PERCENT:
            formula = f"{formula} * e / {PERCENT}"
        rate = performance.tokens_per_second
        page.write("performance.tokens_per_second", "Tokens a second", formula, rate, "token/s", source)
    page.let("X", performance.tokens_per_second, "token/s", "tokens a second of all accelerators")
    page.write(
        "performance.tokens_per_second_per_gpu",
        "Tokens a second of one accelerator",
        "X / n",
        performance.tokens_per_second_per_gpu,
        "token/s",
        "by definition",
    )
    return page


def utilisation_page(
    evidence: Evidence, performance: Performance, gpu_count: float, billed_gpu_hours: float, billed_given: bool
) -> Page:
    """What share of the peak that is."""
    page = Page()
    if performance.flops_per_token is None or performance.peak_tflops_per_gpu is None:
        return page
    page.let("n", gpu_count, "GPU", "accelerators")
    page.let("X", performance.tokens_per_second, "token/s", "tokens a second of all accelerators")
    page.let("F", performance.flops_per_token, "FLOP/token", "model FLOPs of a token")
    page.let("peak", performance.peak_tflops_per_gpu, "TFLOPS", "dense peak of one accelerator")
    if performance.achieved_tflops_per_gpu is not None:
        page.write(
            "performance.achieved_tflops_per_gpu",
            "Model TFLOPS of one accelerator",
            "X * F / n / 1e12",
            performance.achieved_tflops_per_gpu,
            "TFLOPS",
            _MFU,
        )
    share = f"{PERCENT} * X * F / (n * peak * 1e12)"
    if performance.step_mfu_percent is not None:
        name = "Model FLOPs utilisation of a step"
        page.write("performance.step_mfu_percent", name, share, performance.step_mfu_percent, "%", _MFU)
    if performance.billed_mfu_percent is not None:
        if billed_given:
            name = "Model FLOPs utilisation of the whole bill"
            page.write("performance.billed_mfu_percent", name, share, performance.billed_mfu_percent, "%", _MFU)
        else:
            billed_utilisation(page, performance, billed_gpu_hours)
    return page


def spread_page(evidence: Evidence, performance: Performance) -> Page:
    """How far the throughput may be off."""
    page, given = Page(), performance.spread
    formula = _sigma(page, evidence, performance)
    at = "performance.spread"
    name = "Standard deviation of ln(real / predicted)"
    page.write(f"{at}.sigma_ln", name, formula, given.sigma_ln, "1", _SPREAD)
    page.let("sigma", given.sigma_ln, "1", "standard deviation of ln(real / predicted)")
    page.let("z", P90_SIGMAS, "1", "standard deviations from the median to P90 of a normal distribution")
    for field, sign, result in (("p10_percent", "-", given.p10_percent), ("p90_percent", "", given.p90_percent)):
        name = f"{field[:3].upper()} of the throughput"
        page.write(f"{at}.{field}", name, f"{PERCENT} * exp({sign}z * sigma)", result, "%", "a lognormal's quantile")
    return page


def _rate(page: Page, evidence: Evidence, performance: Performance) -> tuple[str, str] | None:
    """The formula before the efficiency, and its source."""
    if evidence.mfu_percent is not None or evidence.hfu_percent is not None:
        return _by_utilisation(page, evidence, performance), _MFU
    if evidence.throughput is not None:
        given = evidence.throughput
        page.let("x", given.tokens_per_second, "token/s", f"tokens a second as measured, of one {given.per}")
        page.let("n0", given.gpu_count, "GPU", "accelerators of the measurement")
        formula = "x * n" if given.per == "gpu" else "x / n0 * n"
        if given.gain != 1:
            page.let("u", given.gain, "1", "what fewer accelerators lose less, by the scaling law")
            formula += " * u"
        return formula, "measured; each accelerator as fast as there"
    if evidence.rates is not None and evidence.rates.measured is not None:
        page.let("x", evidence.rates.measured, "token/s", "tokens a second as measured")
        page.let("m", evidence.rates.here, "token/s", "what the step model says of this count")
        page.let("m0", evidence.rates.base, "token/s", f"and of the measured {evidence.rates.base_gpu_count} GPUs")
        return "x * m / m0", f"the shape of the {_STEP}, through one measurement"
    if evidence.fitted is not None:
        return _by_fit(page, evidence.fitted), _FIT
    if evidence.modelled is not None:
        return _by_step(page, evidence.modelled), _STEP
    if evidence.usual is not None:
        return _by_prior(page, evidence, evidence.usual), evidence.usual.source
    return None


def _by_utilisation(page: Page, evidence: Evidence, performance: Performance) -> str:
    page.let("F", performance.flops_per_token or 0.0, "FLOP/token", "model FLOPs of a token")
    page.let("P", evidence.peak_flops_per_second or 0.0, "FLOP/s", "dense peak of one accelerator")
    gain = ""
    if evidence.against is not None and evidence.against.gain > 1:
        page.let("u", evidence.against.gain, "1", "what fewer accelerators lose less, by the scaling law")
        gain = " * u"
    if evidence.hfu_percent is None:
        page.let("mfu", evidence.mfu_percent or 0.0, "%", "model FLOPs utilisation, as given")
        return f"mfu / {PERCENT} * n * P / F{gain}"
    page.let("hfu", evidence.hfu_percent, "%", "hardware FLOPs utilisation, as given")
    ratio = None if evidence.trained is None else evidence.trained.hardware_over_model
    page.let("r", ratio or 1.0, "1", "hardware FLOPs over model FLOPs")
    return f"hfu / r / {PERCENT} * n * P / F{gain}"


def _by_fit(page: Page, fitted: Fitted) -> str:
    fit = fitted.fit
    page.let("c0", fit.c0, "GPU*s/token", "fitted: what more accelerators share out")
    page.let("c1", fit.c1, "s/token", "fitted: what they do not shorten")
    per_token = "c0 + c1 * n" if fit.law == "amdahl" else "c0 + c1 * log(n) / log(2)"
    if fitted.tokens_per_step == 1:
        return f"n / ({per_token})"
    page.let("k", fitted.tokens_per_step, "token", "tokens of a step: times of a step were measured")
    return f"n / ({per_token}) * k"


def _by_step(page: Page, modelled: Modelled) -> str:
    page.let("B", modelled.workload.global_batch_sequences, "sequence", "global batch")
    page.let("s", modelled.workload.sequence_length, "token", "sequence length")
    page.let("T", modelled.step.total_seconds, "s", "seconds of a step")
    factors = (
        ("q", modelled.precision_factor, "narrow precision over BF16, as measured"),
        ("w", modelled.adapter_factor, "adapters over all weights: fewer FLOPs, and in 4 bits slower kernels"),
        ("u", SEARCHED_THROUGHPUT_FACTOR if modelled.searched else 1.0, "authors choose worse layouts than a search"),
    )
    formula = "B * s / T"
    for symbol, value, meaning in factors:
        if value != 1:
            page.let(symbol, value, "1", meaning)
            formula += f" * {symbol}"
    return formula


def _by_prior(page: Page, evidence: Evidence, usual: Usual) -> str:
    trained = evidence.trained
    page.let("mfu", usual.mfu, "1", "usual MFU of the accelerator's family, at BF16")
    page.let("P", usual.peak_flops_per_second, "FLOP/s", "dense peak that it is taken of")
    all_attention = 0.0 if trained is None else trained.flops_per_token_all_attention
    page.let("F", all_attention, "FLOP/token", "model FLOPs of a token, the whole attention matrix counted")
    formula = "mfu * n * P / F"
    for symbol, value, meaning in (
        ("q", usual.precision_factor, "narrow precision over BF16, as measured"),
        ("x", usual.mixture_factor, "a mixture of experts over a dense model, as published"),
        ("w", usual.adapter_factor, "kernels with weights in 4 bits over 16, assumed"),
        ("y", usual.network_factor or 1.0, "this network over the usual one: the step model of a GPT of that size"),
    ):
        if value != 1:
            page.let(symbol, value, "1", meaning)
            formula += f" * {symbol}"
    return formula


def _sigma(page: Page, evidence: Evidence, performance: Performance) -> str:
    """The method's, or the interval's of a fit, widened by every regime."""
    if performance.method == "measured_points":
        width = 1.0 if evidence.fitted is None else evidence.fitted.half_width
        if width >= 1:  # the interval reaches 0: as good as unknown
            return "1"
        page.let("w", width, "1", "half of the fit's 80 % interval, over the prediction")
        page.let("z", P90_SIGMAS, "1", "standard deviations from the median to P90 of a normal distribution")
        return "log((1 + w) / (1 - w)) / (2 * z)"
    if evidence.usual is not None:
        own = evidence.usual.sigma_ln
    elif performance.method == "one_point" and performance.layout is not None and not performance.layout.given:
        own = SIGMA_LN_LAYOUT_GIVEN
    else:
        own = spread(performance.method, ())
    page.let("s0", own, "1", "of the method")
    if not performance.regimes:
        return "s0"
    squares = ["s0 ** 2"]
    for index, regime in enumerate(performance.regimes, 1):
        page.let(f"s{index}", REGIME_SIGMAS[regime], "1", f"of {regime.replace('_', ' ')}")
        squares.append(f"s{index} ** 2")
    return f"sqrt({' + '.join(squares)})"
