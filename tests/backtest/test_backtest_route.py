"""The back-test over HTTP: what `make backtest` prints, misses included."""

import asyncio

import httpx

from service.backtest.operations import report
from service.http.encoding import encoded


async def test_the_route_says_what_the_command_prints(api: httpx.AsyncClient) -> None:
    answer = await api.get("/v1/backtest", params={"rows": "true"})
    assert answer.status_code == 200
    assert answer.content == encoded(report())
    missed = [goal for goal in answer.json()["goals"] if not goal["reached"]]
    assert missed
    assert all(goal["missed_by"] > 0 for goal in missed)


async def test_rows_come_when_asked_for(api: httpx.AsyncClient) -> None:
    brief = (await api.get("/v1/backtest")).json()
    whole = (await api.get("/v1/backtest", params={"rows": "true"})).json()
    assert brief["rows"] == []
    assert sum(len(part["scores"]) for part in whole["rows"]) > 500
    assert {**brief, "rows": None} == {**whole, "rows": None}


async def test_it_may_be_kept_and_is_made_once(api: httpx.AsyncClient) -> None:
    answers = await asyncio.gather(*(api.get("/v1/backtest") for _ in range(4)))
    assert len({answer.content for answer in answers}) == 1
    again = await api.get("/v1/backtest", headers={"If-None-Match": answers[0].headers["etag"]})
    assert again.status_code == 304
