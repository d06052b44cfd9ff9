"""Energy and emissions, for those who ask."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.asking import refused, said
from tests.support.bills import a_run, answer_to


def test_nobody_who_does_not_ask_is_told() -> None:
    assert "energy" not in answer_to()


def test_energy_by_hand() -> None:
    # 800 GPU-hours x 700 W x 10.2/5.6 (server) x 75 % (load) x 1.1 (PUE): 841.5 kWh.
    energy = answer_to(energy={})["energy"]
    assert energy["energy_kwh"] == pytest.approx(800 * 0.7 * 10.2 / 5.6 * 0.75 * 1.1, rel=1e-12)
    assert energy["energy_kwh"] == pytest.approx(841.5, rel=1e-12)
    assert energy["emissions_tonnes"] is None  # no grid was named: unknown, not 0
    assert (energy["tdp_watts"], energy["load_percent"], energy["pue"]) == (700, 75, 1.1)


def test_emissions_of_bloom() -> None:
    # Luccioni et al. 2022: 1,082,990 GPU-hours at 400 W and 57 g a kWh: 433,196 kWh, 24.692172 t ("24.7").
    asked = {"tdp_watts": 400, "server_power_ratio": 1, "load_percent": 100, "pue": 1, "grams_per_kwh": 57}
    energy = answer_to(1_082_990 / 384, 384, energy=asked)["energy"]
    assert energy["energy_kwh"] == pytest.approx(433_196, rel=1e-12)
    assert energy["emissions_tonnes"] == pytest.approx(24.692172, rel=1e-12)


def test_every_billed_hour_draws_power() -> None:
    idle = answer_to(
        energy={}, idle={"setup_hours": 4, "spare_nodes": 1}, rework={"kind": "buffer", "rework_percent": 10}
    )
    assert idle["energy"]["energy_kwh"] == pytest.approx(idle["expected_gpu_hours"] * 1.051875, rel=1e-12)


def test_an_a100_server_draws_more_for_each_watt_of_its_gpus() -> None:
    # 6.5 kW for 8 of 400 W.
    cluster = {"gpu": "a100-sxm-80gb", "gpu_count": 8}
    answer = answer_to(cluster=cluster, energy={})
    assert answer["energy"]["server_power_ratio"] == pytest.approx(6.5 / 3.2, rel=1e-12)
    assert said(answer, "energy.server_power_ratio")["status"] == "default"


@pytest.mark.parametrize(
    "cluster", [{"gpu_count": 8}, {"custom_gpu": {"name": "X1", "memory_gb": 128, "peak_tflops": 1200}}]
)
def test_a_power_limit_that_nobody_knows_is_asked_for(cluster: dict[str, Any]) -> None:
    assert refused(a_run(cluster=cluster, energy={})).pointer == "/energy/tdp_watts"
    assert answer_to(cluster=cluster, energy={"tdp_watts": 1000})["energy"]["tdp_watts"] == 1000


def test_an_accelerator_of_your_own_brings_its_power_limit() -> None:
    own = {"name": "X1", "memory_gb": 128, "peak_tflops": 1200, "tdp_watts": 900}
    assert answer_to(cluster={"gpu_count": 8, "custom_gpu": own}, energy={})["energy"]["tdp_watts"] == 900


@given(st.floats(1, 3), st.floats(1, 100), st.floats(0, 2000), st.integers(1, 4))
def test_energy_is_in_proportion(pue: float, load: float, grams: float, factor: int) -> None:
    asked = {"pue": pue, "load_percent": load, "grams_per_kwh": grams}
    once, more = (answer_to(hours, energy=asked)["energy"] for hours in (10, 10 * factor))
    assert more["energy_kwh"] == pytest.approx(factor * once["energy_kwh"], rel=1e-12)
    assert more["emissions_tonnes"] == pytest.approx(once["energy_kwh"] * factor * grams / 1e6, rel=1e-12)
