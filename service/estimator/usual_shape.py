"""The shape of a model of which only the size is known: a GPT of usual proportions."""

import math

from service.estimator.shapes import ModelShape

VOCABULARY = 50_304
HEAD_DIM = 128
# Hidden over layers of GPT-3 175B and of most 7B models.
HIDDEN_PER_LAYER = 128
# Matrices of a layer over the square of its width: four of attention, eight of a feed-forward layer four times as wide.
_SQUARES_PER_LAYER = 12
_WIDE = 4096


def usual_shape(parameters: float, layers: int | None = None, hidden: int | None = None) -> ModelShape:
    """A dense GPT of this size: its layers and width if they are known, else usual ones; the feed-forward width makes
    up the parameters."""
    hidden = hidden or _usual_hidden(parameters)
    layers = layers or max(1, round(hidden / HIDDEN_PER_LAYER))
    heads = max(1, hidden // HEAD_DIM)
    in_layers = parameters - VOCABULARY * hidden
    feed_forward = in_layers / layers - 4 * hidden * heads * HEAD_DIM
    width = max(hidden, feed_forward / (2 * hidden))
    return ModelShape(
        layers=layers,
        hidden=hidden,
        heads=heads,
        head_dim=HEAD_DIM,
        ffn_hidden=HEAD_DIM * max(1, round(width / HEAD_DIM)),
        ffn_matrices=2,
        vocabulary=VOCABULARY,
    )


def _usual_hidden(parameters: float) -> int:
    """N = 12 L h^2 with h = 128 L (Kaplan et al. 2020, section 2.1), in four heads or eight at a time."""
    hidden = math.cbrt(HIDDEN_PER_LAYER * parameters / _SQUARES_PER_LAYER)
    together = HEAD_DIM * (4 if hidden < _WIDE else 8)
    return together * max(1, round(hidden / together))
