"""A CSV file of what was paid: all of it or nothing, once, and every fault by its line."""

import datetime
import time
from itertools import pairwise

import httpx
import pytest

from tests.scenarios.test_insight_diffs import put
from tests.support.bills import a_run

URL = "/v1/scenarios/run/actuals"
HEADER = "period_start,period_end,amount,gpu_hours,tokens_done\n"
FILE = HEADER + "2027-01-01,2027-02-01,118250.00,43000,310000000000\n2027-02-01,2027-03-01,-400.5,,\n"


@pytest.fixture
async def run(stored_api: httpx.AsyncClient) -> httpx.AsyncClient:
    await put(stored_api, "run", a_run())
    return stored_api


async def send(
    api: httpx.AsyncClient, file: str | bytes, headers: dict[str, str] | None = None, *, replace: bool = False
) -> httpx.Response:
    params = {"on_existing": "replace"} if replace else {}
    content = file if isinstance(file, bytes) else file.encode()
    return await api.post(
        f"{URL}/import", content=content, params=params, headers={"Content-Type": "text/csv", **(headers or {})}
    )


async def count(api: httpx.AsyncClient) -> int:
    return len((await api.get(URL)).json()["items"])


async def test_every_row_becomes_a_record(run: httpx.AsyncClient) -> None:
    answer = await send(run, FILE)
    assert answer.status_code == 200, answer.text
    report = answer.json()
    assert (report["created"], report["replaced"], report["unchanged"]) == (2, 0, 0)
    assert [(row["line"], row["outcome"]) for row in report["rows"]] == [(2, "created"), (3, "created")]
    items = (await run.get(URL)).json()["items"]
    assert [(item["amount"], item["gpu_hours"], item["tokens_done"]) for item in items] == [
        ("118250.00", 43000, 310000000000),
        ("-400.50", None, None),
    ]


async def test_a_file_from_a_spreadsheet_is_read(run: httpx.AsyncClient) -> None:
    file = '\ufeffAmount,Period_Start,period_end,note\r\n1,2027-01-01,2027-02-01,"a, ""b"""\r\n\r\n'
    assert (await send(run, file)).status_code == 200
    (item,) = (await run.get(URL)).json()["items"]
    assert (item["amount"], item["note"]) == ("1.00", 'a, "b"')


async def test_the_same_file_again_changes_nothing(run: httpx.AsyncClient) -> None:
    await send(run, FILE)
    before = (await run.get(URL)).content
    assert (await send(run, FILE)).json()["unchanged"] == 2
    assert (await run.get(URL)).content == before


async def test_a_record_is_replaced_only_if_that_is_asked_for(run: httpx.AsyncClient) -> None:
    await send(run, FILE)
    other = FILE.replace("118250.00", "118251.00")
    refused = await send(run, other)
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (409, "/2")
    assert (await send(run, other, replace=True)).json()["replaced"] == 1
    assert (await run.get(URL)).json()["items"][0]["version"] == 2


async def test_a_file_that_is_sent_twice_with_a_key_acts_once(run: httpx.AsyncClient) -> None:
    key = {"Idempotency-Key": "once"}
    first = await send(run, FILE, key)
    again = await send(run, FILE, key)
    assert (again.status_code, again.content) == (200, first.content)
    assert (await send(run, HEADER + "2028-01-01,2028-02-01,1,,\n", key)).status_code == 422


@pytest.mark.parametrize(
    ("rows", "pointers"),
    [
        ("2027-03-01,2027-04-01,ten,,\n2027-13-01,2027-04-01,1,,\n", ["/2/amount", "/3/period_start"]),
        ("2027-03-01,2027-04-01,1,nan,\n", ["/2/gpu_hours"]),
        ("2027-03-01,2027-04-01,1,,-5\n", ["/2/tokens_done"]),
        ("2027-03-01,2027-03-01,1,,\n", ["/2/period_start"]),
        ("2027-03-01,2027-04-01,1,\n", ["/2"]),
        ("2027-03-01,2027-05-01,1,,\n2027-04-01,2027-06-01,1,,\n", ["/3"]),
        ("2027-03-01,2027-04-01,1,,\n2027-03-01,2027-04-01,1,,\n", ["/3"]),
        ("2027-01-15,2027-01-20,1,,\n", ["/2"]),
        ('2027-03-01,2027-04-01,"1,,\n', ["/2"]),
        ("", ["/1"]),
    ],
)
async def test_faults_are_named_by_line_and_nothing_is_taken(
    run: httpx.AsyncClient, rows: str, pointers: list[str]
) -> None:
    await send(run, HEADER + "2027-01-01,2027-02-01,1,,\n")
    answer = await send(run, HEADER + rows)
    assert answer.status_code == 422, answer.text
    assert [error["pointer"] for error in answer.json()["errors"]] == pointers
    assert await count(run) == 1


@pytest.mark.parametrize(
    "file",
    [
        b"",
        b"\xff\xfe",
        b"period_start,period_end\n",
        b"period_start,period_end,amount,what\n",
        b"period_start,period_end,amount,amount\n",
        "period_start,period_end,amount\n2027-01-01,2027-02-01,1\u202e\n".encode(),
        b"period_start,period_end,amount\n2027-01-01,2027-02-01,1\x00\n",
    ],
)
async def test_what_is_no_such_file_is_refused(api: httpx.AsyncClient, file: bytes) -> None:
    await put(api, "run", a_run())
    answer = await send(api, file)
    assert answer.status_code == 422, answer.text


async def test_only_csv_is_read(api: httpx.AsyncClient) -> None:
    await put(api, "run", a_run())
    for headers in ({"Content-Type": "application/json"}, {"Content-Encoding": "gzip"}):
        assert (await send(api, FILE, headers)).status_code == 415
    assert (await send(api, "x" * 1_000_001)).status_code == 413


async def test_thousands_of_days_are_taken_at_once_and_replaced_at_once(run: httpx.AsyncClient) -> None:
    first = datetime.date(2027, 1, 1)
    days = [first + datetime.timedelta(days=number) for number in range(5001)]

    def file(amount: str, count: int = 5000) -> str:
        return HEADER + "".join(f"{day},{after},{amount},1,\n" for day, after in pairwise(days[: count + 1]))

    began = time.monotonic()
    assert (await send(run, file("1"))).json()["created"] == 5000
    assert (await send(run, file("2"), replace=True)).json()["replaced"] == 5000
    assert time.monotonic() - began < 10
    one_more = HEADER + "2050-01-01,2050-01-02,1,,\n"
    full = await send(run, one_more)
    assert (full.status_code, "5,000" in full.text) == (422, True)
    forecast = await run.get("/v1/scenarios/run/forecast")
    assert forecast.status_code == 422  # nobody has said when it starts
