"""What an answer says of where a figure came from: given where the request has it, even as usual; else default."""

from typing import Any

import pytest

from tests.support.asking import ask, said
from tests.support.bills import a_run

METERED_STORAGE = {"kind": "metered", "price_per_gb_month": "0.02", "dataset_gb": 10}
METERED_EGRESS = {"kind": "metered", "dataset_gb": 10, "tiers": [{"price_per_gb": "0.1"}]}
CHECKPOINTS = {"size_gb": 10, "every_hours": 1}
OWNED = {"kind": "owned", "capex": "100000", "energy_amount_per_kwh": "0.08"}
POINTS = {
    "kind": "measured",
    "points": [{"gpu_count": 8, "tokens_per_second": 100}, {"gpu_count": 16, "tokens_per_second": 190}],
}
USUAL: dict[str, tuple[str, dict[str, Any], Any]] = {
    "idle.setup_hours": ("idle", {"spare_nodes": 1}, 0.0),
    "idle.spare_nodes": ("idle", {"setup_hours": 4}, 0),
    "rework.spot.wait_hours": ("rework", {"kind": "failures", "spot": {}}, 0.5),
    "energy.load_percent": ("energy", {}, 75),
    "energy.pue": ("energy", {}, 1.1),
    "egress.passes": ("egress", METERED_EGRESS, 1.0),
    "storage.checkpoints.keep": ("storage", {**METERED_STORAGE, "checkpoints": CHECKPOINTS}, 3),
    "storage.checkpoints.archived": ("storage", {**METERED_STORAGE, "checkpoints": CHECKPOINTS}, 0),
    "price.life_years": ("price", OWNED, 5.0),
    "price.utilisation_percent": ("price", OWNED, 100.0),
    "scaling.law": ("scaling", POINTS, "amdahl"),
}


def with_it(section: dict[str, Any], path: list[str], value: Any) -> dict[str, Any]:
    """The section with this field given."""
    if len(path) == 1:
        return {**section, path[0]: value}
    return {**section, path[0]: with_it(section[path[0]], path[1:], value)}


@pytest.mark.parametrize("field", USUAL)
def test_a_usual_figure_is_a_default_unless_it_is_in_the_request(field: str) -> None:
    section, asked, usual = USUAL[field]
    unsaid = ask({**a_run(), section: asked})
    assert (said(unsaid, field)["value"], said(unsaid, field)["status"]) == (usual, "default")
    explicit = ask({**a_run(), section: with_it(asked, field.split(".")[1:], usual)})
    assert (said(explicit, field)["value"], said(explicit, field)["status"]) == (usual, "given")
    assert explicit["cost"] == unsaid["cost"]
    assert explicit["duration"] == unsaid["duration"]
