"""The shape of a model of which only the size is known."""

import pytest

from service.estimator.parameters import total_parameters
from service.estimator.shapes import check_shape
from service.estimator.usual_shape import HIDDEN_PER_LAYER, usual_shape


@pytest.mark.parametrize("parameters", [1.3e9, 6.7e9, 13e9, 70e9, 175e9, 1e12])
def test_a_usual_shape_has_the_size_that_was_asked_for(parameters: float) -> None:
    shape = usual_shape(parameters)
    check_shape(shape)
    assert total_parameters(shape) == pytest.approx(parameters, rel=0.12)
    assert shape.hidden / shape.layers == pytest.approx(HIDDEN_PER_LAYER, rel=0.15)


def test_gpt_3_is_usual() -> None:
    # Brown et al. 2020, table 2.1: 96 layers, 12,288 wide, 96 heads.
    shape = usual_shape(175e9)
    assert (shape.layers, shape.hidden, shape.heads) == (96, 12_288, 96)


def test_known_layers_and_width_are_kept() -> None:
    shape = usual_shape(176e9, layers=70, hidden=14_336)
    assert (shape.layers, shape.hidden) == (70, 14_336)


@pytest.mark.parametrize("parameters", [1e3, 1e16])
def test_the_smallest_and_the_largest_have_a_shape(parameters: float) -> None:
    check_shape(usual_shape(parameters))
