"""What each section of a request means, and what the answer says about it."""

from typing import Any

import httpx
import pytest

H100 = "h100-sxm-80gb"


async def ask(api: httpx.AsyncClient, **sections: Any) -> dict[str, Any]:
    answer = await api.post("/v1/estimates", json=sections)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def refusal(api: httpx.AsyncClient, **sections: Any) -> dict[str, Any]:
    answer = await api.post("/v1/estimates", json=sections)
    assert answer.status_code == 422, answer.text
    body: dict[str, Any] = answer.json()
    return body


def codes(answer: dict[str, Any]) -> list[str]:
    return [note["code"] for note in answer["notes"]]


def assumption(answer: dict[str, Any], field: str) -> dict[str, Any]:
    found: dict[str, Any] = next(item for item in answer["assumptions"] if item["field"] == field)
    return found


async def test_an_empty_request_is_the_classic_default(api: httpx.AsyncClient) -> None:
    answer = await ask(api)
    assert answer["cost"]["total"] == "27950.00"
    assert answer["verdict"] is None
    assert {item["status"] for item in answer["assumptions"]} == {"default"}


async def test_the_same_request_gets_the_same_bytes(api: httpx.AsyncClient) -> None:
    answers = [(await api.post("/v1/estimates", content=b"{}", headers={"Content-Type": "application/json"})).content]
    answers += [(await api.get("/v1/estimates")).content for _ in range(2)]
    assert len(set(answers)) == 1


async def test_money_lost_to_waiting_is_said(api: httpx.AsyncClient) -> None:
    cost = (await ask(api))["cost"]
    assert cost["scaling_loss"] == "4800.00"  # 24,000 at 80 % would be 19,200 at 100 %
    assert cost["non_gpu_percent"] == pytest.approx(350 / 27950 * 100)
    assert cost["idle"] == "0.00"


async def test_rework_adds_time_as_well_as_money(api: httpx.AsyncClient) -> None:
    duration = (await ask(api, start_at="2027-01-04T09:00:00+01:00"))["duration"]
    assert duration["wall_clock_hours"] == 150
    assert duration["expected_wall_clock_hours"] == 172.5
    assert duration["expected_wall_clock_days"] == 172.5 / 24
    assert duration["finish_at"] == "2027-01-11T12:30:00Z"


async def test_unit_costs_spread_the_total(api: httpx.AsyncClient) -> None:
    answer = await ask(api)
    assert answer["gpu_hours"] == 9600
    assert answer["expected_gpu_hours"] == 11040
    assert answer["unit_costs"]["per_gpu_hour"] == "2.531703"  # 27,950 / 11,040
    assert answer["unit_costs"]["per_ideal_gpu_hour"] == "3.639323"  # 27,950 / 7,680
    assert answer["unit_costs"]["per_million_tokens"] is None


async def test_total_hours_are_divided_among_the_gpus(api: httpx.AsyncClient) -> None:
    answer = await ask(api, work={"kind": "gpu_hours", "hours": 120, "basis": "total"})
    # 120 GPU-hours on 64 GPUs at 80 %: 2.34375 h, 150 GPU-hours, 375 dollars.
    assert answer["duration"]["wall_clock_hours"] == 2.34375
    assert answer["gpu_hours"] == 150
    assert answer["cost"]["compute"] == "375.00"
    assert "basis_total" in codes(answer)
    assert assumption(answer, "work.hours_per_gpu")["status"] == "derived"


async def test_the_reading_of_the_hours_is_always_said(api: httpx.AsyncClient) -> None:
    assert "basis_per_gpu" in codes(await ask(api))


async def test_a_price_per_node_is_divided_by_its_gpus(api: httpx.AsyncClient) -> None:
    price = {"kind": "hourly", "amount": "20.00", "per": "node"}
    answer = await ask(api, price=price)
    assert answer["cost"]["total"] == "27950.00"  # 20.00 / 8 is the classic 2.50
    assert "price_per_node_divided" in codes(answer)
    assert assumption(answer, "price.per_gpu_hour") == {
        "field": "price.per_gpu_hour",
        "value": "2.50",
        "status": "derived",
        "source": "price.amount / cluster.gpus_per_node",
    }


async def test_a_node_price_that_does_not_divide_is_not_rounded_first(api: httpx.AsyncClient) -> None:
    price = {"kind": "hourly", "amount": "10", "per": "node"}
    answer = await ask(
        api,
        cluster={"gpu_count": 3, "gpus_per_node": 3},
        work={"kind": "gpu_hours", "hours": 100},
        scaling={"kind": "fixed", "efficiency_percent": 100},
        price=price,
    )
    assert answer["cost"]["compute"] == "1000.00"  # never 999.99
    assert answer["cost"]["lines"][0]["unit_price"] == "3.333333"


async def test_a_node_that_is_not_filled_is_noted(api: httpx.AsyncClient) -> None:
    answer = await ask(api, cluster={"gpu_count": 12}, price={"kind": "hourly", "amount": "20", "per": "node"})
    assert "partial_node" in codes(answer)


@pytest.mark.parametrize(("percent", "noted"), [(69.9, True), (70, False), (1, True), (100, False)])
async def test_efficiency_below_70_percent_is_noted(api: httpx.AsyncClient, percent: float, noted: bool) -> None:
    answer = await ask(api, scaling={"kind": "fixed", "efficiency_percent": percent})
    assert ("scaling_efficiency_low" in codes(answer)) is noted


async def test_zero_rework_is_noted(api: httpx.AsyncClient) -> None:
    answer = await ask(api, rework={"kind": "buffer", "rework_percent": 0})
    assert "rework_zero" in codes(answer)
    assert answer["cost"]["rework"] == "0.00"
    assert "rework_zero" not in codes(await ask(api))


@pytest.mark.parametrize(("level", "percent"), [("low", 85), ("typical", 90), ("high", 95)])
async def test_an_interconnect_gives_its_band(api: httpx.AsyncClient, level: str, percent: float) -> None:
    answer = await ask(api, scaling={"kind": "interconnect", "preset": "ib-ndr-400", "level": level})
    said = assumption(answer, "scaling.efficiency_percent")
    assert said["value"] == percent
    assert said["status"] == "catalogue"
    assert "classic calculator" in said["source"]


async def test_ten_gigabit_ethernet_between_nodes_is_noted(api: httpx.AsyncClient) -> None:
    scaling = {"kind": "interconnect", "preset": "eth-10-tcp"}
    assert "ethernet_10g_multi_node" in codes(await ask(api, scaling=scaling))
    assert "ethernet_10g_multi_node" not in codes(await ask(api, scaling=scaling, cluster={"gpu_count": 8}))


async def test_a_link_within_a_node_is_no_network_between_nodes(api: httpx.AsyncClient) -> None:
    scaling = {"kind": "interconnect", "preset": "nvlink4"}
    assert "scale_up_preset_multi_node" in codes(await ask(api, scaling=scaling))
    assert "scale_up_preset_multi_node" not in codes(await ask(api, scaling=scaling, cluster={"gpu_count": 8}))


async def test_an_assumed_band_is_noted(api: httpx.AsyncClient) -> None:
    assert "interconnect_band_assumed" in codes(await ask(api, scaling={"kind": "interconnect", "preset": "pcie4"}))


async def test_an_unknown_preset_names_the_nearest(api: httpx.AsyncClient) -> None:
    problem = await refusal(api, scaling={"kind": "interconnect", "preset": "ib-ndr"})
    assert problem["type"] == "/errors/unknown-name"
    assert problem["errors"][0]["pointer"] == "/scaling/preset"
    assert "ib-ndr-400" in problem["detail"]


async def test_a_well_known_spelling_is_named_by_its_id(api: httpx.AsyncClient) -> None:
    answer = await ask(api, cluster={"gpu": "NVIDIA H100 80GB HBM3"})
    said = assumption(answer, "cluster.gpu")
    assert said["value"] == H100
    assert said["status"] == "catalogue"
    assert said["source"]
    assert answer["cost"]["total"] == "27950.00"


@pytest.mark.parametrize(
    ("name", "code", "candidate"),
    [
        ("h100", "ambiguous-name", H100),
        ("a100", "ambiguous-name", "a100-sxm-40gb"),
        ("h100-sxm-80g0", "unknown-name", H100),
        ("vr200-288gb", "not-yet-available", "allow_announced"),
    ],
)
async def test_a_gpu_that_cannot_be_taken_is_refused_by_name(
    api: httpx.AsyncClient, name: str, code: str, candidate: str
) -> None:
    problem = await refusal(api, cluster={"gpu": name})
    assert problem["type"] == f"/errors/{code}"
    assert problem["errors"][0]["in"] == "body"
    assert problem["errors"][0]["pointer"] == "/cluster/gpu"
    assert candidate in problem["detail"]


async def test_an_announced_part_is_taken_when_asked_for(api: httpx.AsyncClient) -> None:
    answer = await ask(api, cluster={"gpu": "vr200-288gb", "allow_announced": True})
    assert assumption(answer, "cluster.gpu")["value"] == "vr200-288gb"


@pytest.mark.parametrize(
    ("currency", "total"), [("JPY", "27950"), ("EUR", "27950.00"), ("BHD", "27950.000"), ("CLF", "27950.0000")]
)
async def test_amounts_are_rounded_to_the_currency(api: httpx.AsyncClient, currency: str, total: str) -> None:
    answer = await ask(api, price={"kind": "hourly", "amount": "2.50", "currency": currency})
    assert answer["cost"]["currency"] == currency
    assert answer["cost"]["total"] == total


async def test_an_unknown_currency_is_refused(api: httpx.AsyncClient) -> None:
    for code in ("XXX", "ABC", "XAU"):
        problem = await refusal(api, price={"kind": "hourly", "amount": 1, "currency": code})
        assert problem["errors"][0]["pointer"] == "/price/currency"
        assert code in problem["errors"][0]["message"]


@pytest.mark.parametrize(
    ("budget", "status"),
    [
        ({"amount": "27950.00"}, "warn"),
        ({"amount": "27949.99"}, "exceeded"),
        ({"amount": "31055.56"}, "ok"),
        ({"amount": "31055.55"}, "warn"),
        ({"amount": "27950.00", "warn_percent": 100}, "warn"),
        ({"amount": "27950.01", "warn_percent": 100}, "ok"),
        ({"deadline": "2027-01-11T12:30:00Z"}, "warn"),
        ({"deadline": "2027-01-11T12:29:59Z"}, "exceeded"),
        ({"deadline": "2027-02-04T09:00:00Z"}, "ok"),
        ({"amount": "1", "deadline": "2027-02-04T09:00:00Z"}, "exceeded"),
        ({"amount": "1000000", "deadline": "2027-01-05T00:00:00Z"}, "exceeded"),
    ],
)
async def test_a_budget_is_judged(api: httpx.AsyncClient, budget: dict[str, Any], status: str) -> None:
    answer = await ask(api, start_at="2027-01-04T08:00:00Z", budget=budget)
    assert answer["verdict"]["status"] == status
    assert answer["verdict"]["judged"] == "expected"
    assert (answer["verdict"]["cost"] is None) == ("amount" not in budget)
    assert (answer["verdict"]["deadline"] is None) == ("deadline" not in budget)


async def test_headroom_is_what_is_left(api: httpx.AsyncClient) -> None:
    answer = await ask(
        api, start_at="2027-01-04T08:00:00Z", budget={"amount": "20000", "deadline": "2027-01-11T13:30:00Z"}
    )
    assert answer["verdict"]["cost"]["headroom"] == "-7950.00"
    assert answer["verdict"]["cost"]["used_percent"] == 139.75
    assert answer["verdict"]["deadline"]["headroom_hours"] == 1


@pytest.mark.parametrize(
    ("sections", "pointer"),
    [
        ({"budget": {}}, "/budget"),
        ({"budget": {"deadline": "2027-01-01T00:00:00Z"}}, "/budget/deadline"),
        ({"budget": {"deadline": "2027-01-01T00:00:00Z"}, "start_at": "2027-01-01T00:00:00Z"}, "/budget/deadline"),
        ({"start_at": "9999-12-31T00:00:00Z"}, "/start_at"),
        ({"start_at": "9999-12-31T23:00:00-05:00"}, "/start_at"),
        ({"price": {"kind": "hourly", "amount": "999999999999"}}, "/price/amount"),
    ],
)
async def test_what_cannot_be_true_together_names_the_field(
    api: httpx.AsyncClient, sections: dict[str, Any], pointer: str
) -> None:
    problem = await refusal(api, **sections)
    assert problem["type"] == "/errors/broken-rule"
    assert pointer in [fault["pointer"] for fault in problem["errors"]]


async def test_the_classic_form_names_its_own_fields(api: httpx.AsyncClient) -> None:
    answer = await api.get("/v1/estimates?gpu_count=1000000&ideal_gpu_hours=1e9&gpu_cost_per_hour=999999999999")
    assert answer.status_code == 422
    assert [(fault["in"], fault["pointer"]) for fault in answer.json()["errors"]] == [
        ("query", "gpu_count"),
        ("query", "ideal_gpu_hours"),
        ("query", "gpu_cost_per_hour"),
    ]


async def test_a_number_is_shown_as_it_was_taken(api: httpx.AsyncClient) -> None:
    answer = await ask(api, work={"kind": "gpu_hours", "hours": 3.9492000000000003})
    assert assumption(answer, "work.hours")["value"] == 3.9492


async def test_the_finish_is_judged_unrounded_and_shown_to_the_second(api: httpx.AsyncClient) -> None:
    exact = {
        "work": {"kind": "gpu_hours", "hours": 1},
        "scaling": {"kind": "fixed", "efficiency_percent": 100},
        "rework": {"kind": "buffer", "rework_percent": 0},
    }
    late = await ask(api, **exact, start_at="2027-01-01T00:00:00.9Z", budget={"deadline": "2027-01-01T01:00:00.5Z"})
    assert late["verdict"]["status"] == "exceeded"
    assert late["duration"]["finish_at"] == "2027-01-01T01:00:01Z"
    exact["work"] = {"kind": "gpu_hours", "hours": 0.00001}
    brief = await ask(api, **exact, start_at="2027-01-01T00:00:00.4Z", budget={"deadline": "2027-01-01T00:00:01Z"})
    assert brief["duration"]["finish_at"] == "2027-01-01T00:00:00.400000Z"
    assert 0 <= brief["verdict"]["deadline"]["used_percent"] < 100


async def test_a_budget_is_judged_and_shown_with_its_own_digits(api: httpx.AsyncClient) -> None:
    verdict = (await ask(api, budget={"amount": "27949.996"}))["verdict"]
    assert verdict["status"] == "exceeded"
    assert verdict["cost"]["amount"] == "27949.996"
    assert verdict["cost"]["headroom"] == "-0.004"


async def test_a_line_feed_is_no_part_of_a_gpu(api: httpx.AsyncClient) -> None:
    assert (await refusal(api, cluster={"gpu": "h100-sxm-80gb\n"}))["errors"][0]["pointer"] == "/cluster/gpu"


async def test_a_wrong_preset_gets_names_and_no_pattern(api: httpx.AsyncClient) -> None:
    problem = await refusal(api, scaling={"kind": "interconnect", "preset": "InfiniBand"})
    assert problem["type"] == "/errors/unknown-name"
    assert "ib-ndr-400" in problem["detail"]


async def test_every_line_names_the_decision_it_serves(api: httpx.AsyncClient) -> None:
    for line in (await ask(api))["cost"]["lines"]:
        assert line["decision"]
        assert line["description"]
        assert line["unit"]
