"""One question, one rate: purchase and size are part of it, the newest holds, then specific, cheap, by name."""

import datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import BrokenRule
from service.estimator.charges import Tier, tiered_cost
from service.money import Money
from service.prices.lookup import (
    age_days,
    choose,
    doubts,
    gpu_hour_cost,
    holding_rates,
    price_segments,
    rate_on,
    rate_segments,
    stale_note,
)
from service.prices.schemas import GpuRate
from service.prices.tier_lookup import egress_tiers, storage_tiers
from tests.prices.rates import TODAY, asked, day, egress, gpu, indexed, storage


def price(rate: GpuRate) -> str:
    return str(rate.price_per_gpu_hour)


def test_the_cheapest_of_what_fits_answers_and_names_what_it_beat() -> None:
    choice = choose(indexed(gpu("3.00", provider="b"), gpu("2.00", provider="a"), gpu("4.00", provider="c")), asked())
    assert price(choice.rate) == "2.00"
    assert [price(rate) for rate in choice.beaten] == ["3.00", "4.00"]
    assert choice.candidate_count == 3


def test_at_most_ten_beaten_are_named() -> None:
    choice = choose(indexed(*(gpu(f"{n}.00", provider=f"p{n}") for n in range(1, 21))), asked())
    assert len(choice.beaten) == 10
    assert choice.candidate_count == 20


def test_equal_prices_are_decided_by_name() -> None:
    assert choose(indexed(gpu(provider="zeta"), gpu(provider="acme")), asked()).rate.provider == "acme"


@pytest.mark.parametrize("purchase", ["spot", "marketplace", "reserved", "capacity_block"])
def test_another_way_to_buy_never_answers(purchase: str) -> None:
    index = indexed(gpu("0.10", purchase=purchase, provider="cheap"), gpu("5.00"))
    assert price(choose(index, asked()).rate) == "5.00"
    assert price(choose(index, asked(purchase=purchase)).rate) == "0.10"


@pytest.mark.parametrize("offered", [0.5, 1, 2, 4])
def test_less_than_a_node_never_prices_a_cluster(offered: float) -> None:
    index = indexed(gpu("1.00", gpu_count=offered, provider="small"), gpu("5.00"))
    assert price(choose(index, asked(gpu_count=512)).rate) == "5.00"
    with pytest.raises(BrokenRule, match=r"gpu_count 512"):
        choose(indexed(gpu("1.00", gpu_count=offered)), asked(gpu_count=512))


@pytest.mark.parametrize(("offered", "wanted"), [(1, 1), (4, 4), (4, 3), (8, 8), (8, 512), (72, 512), (None, 512)])
def test_an_offer_that_holds_the_run_or_full_nodes_prices_it(offered: float | None, wanted: int) -> None:
    assert price(choose(indexed(gpu(gpu_count=offered)), asked(gpu_count=wanted)).rate) == "2.00"


def test_whole_offers_go_before_those_with_empty_places() -> None:
    index = indexed(gpu("4.29", gpu_count=1), gpu("3.99", gpu_count=8))
    assert price(choose(index, asked(gpu_count=1)).rate) == "4.29"
    assert price(choose(index, asked(gpu_count=8)).rate) == "3.99"


def test_nodes_of_another_size_make_clusters_where_they_are_the_accelerators_own() -> None:
    tray = indexed(gpu(accelerator_id="gb200-186gb", gpu_count=4))
    assert choose(tray, asked(accelerator_id="gb200-186gb", gpu_count=512)).candidate_count == 1
    superchip = indexed(gpu(accelerator_id="gh200-96gb", gpu_count=1))
    assert choose(superchip, asked(accelerator_id="gh200-96gb", gpu_count=64)).candidate_count == 1
    assert choose(indexed(gpu(gpu_count=4)), asked(gpu_count=512, gpus_per_node=4)).candidate_count == 1


def test_the_region_asked_for_goes_before_a_price_for_all_regions() -> None:
    index = indexed(gpu("1.00"), gpu("3.00", region="us-east-1"), gpu("0.50", region="eu-west-1"))
    assert price(choose(index, asked(region="US-EAST-1")).rate) == "3.00"
    assert price(choose(index, asked(region="ap-south-1")).rate) == "1.00"


def test_a_jurisdiction_keeps_others_out_and_the_unknown_too() -> None:
    index = indexed(gpu("1.00"), gpu("2.00", country="US", region="us"), gpu("3.00", country="DE", region="de"))
    assert price(choose(index, asked(country="DE")).rate) == "3.00"


def test_where_no_region_is_stated_the_country_tells_offers_apart() -> None:
    index = indexed(gpu("3.00", country="US", seen_on="2026-01-01"), gpu("2.00", country="DE", seen_on="2026-06-01"))
    assert price(choose(index, asked(country="US")).rate) == "3.00"
    assert price(choose(index, asked(country="DE")).rate) == "2.00"
    assert choose(index, asked()).candidate_count == 2


def test_offers_of_a_stated_size_go_before_those_of_none_even_if_dearer() -> None:
    index = indexed(gpu("2.00", gpu_count=None), gpu("2.50", gpu_count=8))
    assert price(choose(index, asked(gpu_count=512)).rate) == "2.50"
    assert price(choose(index, asked(gpu_count=1)).rate) == "2.00"  # the other would stand mostly empty


@pytest.mark.parametrize(
    ("fields", "question", "code"),
    [
        ({"gpu_count": None}, {}, "price_size_unstated"),
        ({"confidence": "low"}, {}, "price_doubtful"),
        ({}, {"region": "eu-west-1"}, "price_region_unstated"),
        ({}, {"gpu_count": 12}, "price_places_empty"),
        ({"seen_on": "2026-01-01"}, {}, "price_stale"),
    ],
)
def test_what_is_doubtful_about_a_rate_is_said(fields: dict[str, Any], question: dict[str, Any], code: str) -> None:
    assert doubts(gpu(), asked(), TODAY) == ()
    assert [note.code for note in doubts(gpu(**fields), asked(**question), TODAY)] == [code]


def test_an_unknown_price_is_never_chosen_and_is_no_zero() -> None:
    index = indexed(gpu(None, provider="silent"), gpu("9.00"))
    assert price(choose(index, asked()).rate) == "9.00"
    with pytest.raises(BrokenRule, match="price unknown"):
        choose(indexed(gpu(None)), asked())


def test_a_newer_unknown_price_hides_the_older_known_one() -> None:
    index = indexed(gpu("1.00", valid_from="2026-01-01"), gpu(None, valid_from="2026-06-01"))
    assert index.find_choice(asked()) is None
    with pytest.raises(BrokenRule, match="is not known"):
        choose(index, asked())


def test_the_newest_that_holds_replaces_the_older_even_if_dearer() -> None:
    index = indexed(gpu("1.00", valid_from="2026-01-01"), gpu("5.00", valid_from="2026-10-01"))
    assert price(choose(index, asked(as_of=day("2026-09-30"))).rate) == "1.00"
    assert price(choose(index, asked(as_of=day("2026-10-01"))).rate) == "5.00"
    assert choose(index, asked()).candidate_count == 1


def test_when_the_newer_ends_the_older_holds_again() -> None:
    offer = (gpu("2.00", valid_from="2026-01-01"), gpu("1.50", valid_from="2026-03-01", valid_to="2026-04-01"))
    for on, expected in (("2026-02-28", "2.00"), ("2026-03-01", "1.50"), ("2026-04-01", "2.00")):
        assert price(choose(indexed(*offer), asked(as_of=day(on))).rate) == expected


def test_a_price_without_dates_holds_from_the_day_it_was_read_and_the_first_one_before_too() -> None:
    index = indexed(gpu("3.49", seen_on="2026-10-07"), gpu("3.99", seen_on="2026-11-09"))
    for on, expected in (("2026-01-01", "3.49"), ("2026-10-08", "3.49"), ("2026-11-09", "3.99")):
        assert price(choose(index, asked(as_of=day(on))).rate) == expected


def test_an_upfront_payment_counts_when_the_cheapest_is_looked_for() -> None:
    upfront = gpu("1.00", purchase="reserved", provider="upfront", term_months=12, upfront=Money("140160"))
    monthly = gpu("2.00", purchase="reserved", provider="monthly", term_months=12)
    choice = choose(indexed(upfront, monthly), asked(purchase="reserved"))
    assert choice.rate.provider == "monthly"  # 140,160 / (8 x 12 x 730) = 2.00 on top of 1.00


def test_where_there_is_none_the_problem_says_what_there_is() -> None:
    index = indexed(gpu(purchase="spot", region="eastus"), gpu(accelerator_id="l40s-48gb"))
    with pytest.raises(BrokenRule, match=r"spot at aws \(eastus, 8 GPUs\)"):
        choose(index, asked())
    with pytest.raises(BrokenRule, match="l40s-48gb"):
        choose(index, asked(accelerator_id="t4-16gb"))
    with pytest.raises(BrokenRule) as raised:
        choose(index, asked(purchase="spot", provider="gcp"))
    assert raised.value.faults[0].pointer == "provider"


@given(st.permutations([gpu(f"{n}.00", provider=f"p{n % 3}", gpu_count=8 * (n % 2 + 1)) for n in range(1, 7)]))
def test_the_order_of_the_rates_does_not_matter(rates: list[GpuRate]) -> None:
    assert choose(indexed(*rates), asked()) == choose(indexed(*sorted(rates, key=price)), asked())


def moment(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC)


def test_a_run_is_cut_where_its_rate_changes() -> None:
    index = indexed(gpu("7.15", valid_to="2026-10-01"), gpu("8.50", valid_from="2026-10-01"))
    start, end = moment("2026-09-20T12:00"), moment("2026-10-05T06:00")
    first, second = price_segments(index, asked(), start, end)
    assert (first.start, first.end, price(first.rate)) == (start, moment("2026-10-01"), "7.15")
    assert (second.start, second.end, price(second.rate)) == (moment("2026-10-01"), end, "8.50")


def test_a_run_stays_with_the_offer_it_began_on() -> None:
    index = indexed(
        gpu("2.00", provider="a", valid_from="2026-01-01"),
        gpu("9.00", provider="a", valid_from="2026-02-01"),
        gpu("3.00", provider="b"),
    )
    pieces = price_segments(index, asked(), moment("2026-01-30T00:00"), moment("2026-02-03T00:00"))
    assert [(price(piece.rate), piece.rate.provider) for piece in pieces] == [("2.00", "a"), ("9.00", "a")]


def test_where_an_offer_ends_its_last_rate_goes_on_and_says_so() -> None:
    index = indexed(gpu("2.00", valid_to="2026-02-01"))
    pieces = price_segments(index, asked(), moment("2026-01-30T00:00"), moment("2026-02-03T00:00"))
    assert [(price(piece.rate), piece.ended) for piece in pieces] == [("2.00", False), ("2.00", True)]


def test_a_run_within_one_rate_is_one_piece() -> None:
    pieces = price_segments(indexed(gpu()), asked(), moment("2026-01-30T00:00"), moment("2026-02-03T00:00"))
    assert len(pieces) == 1


@given(
    st.lists(st.dates(datetime.date(2026, 1, 1), datetime.date(2026, 12, 31)), min_size=1, max_size=6, unique=True),
    st.integers(0, 300),
    st.integers(1, 200),
)
def test_the_pieces_of_a_run_join_and_each_is_priced_as_on_its_days(
    dates: list[datetime.date], offset: int, days: int
) -> None:
    index = indexed(*(gpu(f"{n + 1}.00", valid_from=date.isoformat()) for n, date in enumerate(sorted(dates))))
    start = moment("2026-01-01T05:00") + datetime.timedelta(days=offset)
    if start.date() < min(dates):
        return
    end = start + datetime.timedelta(days=days)
    pieces = price_segments(index, asked(), start, end)
    assert (pieces[0].start, pieces[-1].end) == (start, end)
    assert all(one.end == other.start for one, other in pairwise(pieces))
    for piece in pieces:
        last = (piece.end - datetime.timedelta(seconds=1)).date()
        for on in (piece.start.date(), last):
            assert choose(index, asked(as_of=on)).rate == piece.rate


_DAYS = st.dates(datetime.date(2026, 1, 1), datetime.date(2026, 3, 1))
_DATED = st.builds(
    lambda price, begin, end, seen: gpu(
        None if price is None else f"{price}.00",
        valid_from=None if begin is None else f"{begin}",
        valid_to=None if end is None else f"{end}",
        seen_on=None if seen is None else f"{seen}",
    ),
    st.none() | st.integers(1, 9),
    st.none() | _DAYS,
    st.none() | _DAYS,
    st.none() | _DAYS,
)


@given(st.lists(_DATED, min_size=1, max_size=8), _DAYS, st.integers(1, 90))
def test_each_piece_has_the_rate_of_its_first_day_or_the_last_one_known(
    rates: list[GpuRate], first_day: datetime.date, days: int
) -> None:
    offer = indexed(*rates).offers("h100-sxm-80gb", "on_demand")[0]
    chosen = rate_on(offer, first_day)
    if chosen is None:
        return
    start = datetime.datetime.combine(first_day, datetime.time(5), datetime.UTC)
    end = start + datetime.timedelta(days=days)
    pieces = rate_segments(offer, chosen, first_day, start, end)
    assert (pieces[0].start, pieces[0].rate, pieces[-1].end) == (start, chosen, end)
    held = chosen
    for today in (first_day + datetime.timedelta(days=number) for number in range(1, days + 1)):
        on = rate_on(offer, today)
        held = on or held
        noon = datetime.datetime.combine(today, datetime.time(1), datetime.UTC)
        (piece,) = (piece for piece in pieces if piece.start <= noon < piece.end)
        assert (gpu_hour_cost(piece.rate), piece.ended) == (gpu_hour_cost(held), on is None)


def test_a_rate_that_changes_too_often_for_one_run_is_refused() -> None:
    first = datetime.date(2026, 1, 1)
    dated = [
        gpu(f"{number % 7 + 1}.00", valid_from=f"{first + datetime.timedelta(days=number)}") for number in range(1100)
    ]
    index = indexed(*dated)
    assert len(price_segments(index, asked(), moment("2026-01-01T00:00"), moment("2028-09-01T00:00"))) > 900
    with pytest.raises(BrokenRule, match="1010 times"):
        price_segments(index, asked(), moment("2026-01-01T00:00"), moment("2028-10-08T00:00"))


def test_tiers_are_absolute_boundaries() -> None:
    index = indexed(egress("0", 0, 100), egress("0.09", 100, 10240), egress("0.05", 10240))
    tiers = egress_tiers(index, provider="AWS", as_of=TODAY).tiers
    assert tiers == (
        Tier(Decimal(100), Decimal(0)),
        Tier(Decimal(10240), Decimal("0.09")),
        Tier(None, Decimal("0.05")),
    )
    assert tiered_cost(Decimal(200), tiers) == Decimal("9.00")


def test_of_two_prices_for_one_tier_the_cheaper_counts() -> None:
    for prices in (("0.09", "0.01"), ("0.01", "0.09")):
        index = indexed(*(egress(price, source=f"source {n}") for n, price in enumerate(prices)))
        assert egress_tiers(index, provider="aws", as_of=TODAY).tiers[0].price_per_gb == Decimal("0.01")


def test_a_region_without_tiers_of_its_own_takes_those_for_all() -> None:
    index = indexed(storage("0.02"), storage("0.03", region="us-east-1"))
    assert storage_tiers(index, provider="aws", as_of=TODAY, region="eu").tiers[0].price_per_gb == Decimal("0.02")
    assert storage_tiers(index, provider="aws", as_of=TODAY, region="us-east-1").tiers[0].price_per_gb == Decimal(
        "0.03"
    )


def test_what_has_no_tiers_says_who_has() -> None:
    index = indexed(egress("0.09", region="us-east-1"))
    with pytest.raises(BrokenRule, match="There is: aws"):
        egress_tiers(index, provider="gcp", as_of=TODAY)
    with pytest.raises(BrokenRule, match="There is: us-east-1"):
        egress_tiers(index, provider="aws", region="eu", as_of=TODAY)


@pytest.mark.parametrize("tiers", [(egress("1", 10),), (egress("1", 0, 10), egress("1", 20)), (egress("1", 0, 10),)])
def test_tiers_that_leave_volume_without_a_price_are_refused(tiers: tuple[egress, ...]) -> None:  # type: ignore[valid-type]
    with pytest.raises(BrokenRule):
        egress_tiers(indexed(*tiers), provider="aws", as_of=TODAY)


def test_a_price_is_stale_from_ninety_days_on() -> None:
    fresh, stale = gpu(seen_on="2026-09-02"), gpu(seen_on="2026-09-01")
    assert age_days(fresh, TODAY, None) == 89
    assert stale_note(fresh, TODAY, None) is None
    note = stale_note(stale, TODAY, None)
    assert note is not None
    assert (note.code, note.severity) == ("price_stale", "warning")
    assert age_days(gpu(), TODAY, None) is None
    assert age_days(gpu(), TODAY, day("2026-11-20")) == 10


def test_rates_that_begin_on_one_day_all_hold() -> None:
    hosts = (gpu("1.00", purchase="marketplace"), gpu("2.00", purchase="marketplace"))
    assert len(holding_rates(hosts, TODAY)) == 2
