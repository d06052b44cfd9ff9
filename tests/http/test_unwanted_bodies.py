"""Bodies that nobody takes, and bodies that stop half-way, over a real socket: answered at once, no error of ours."""

import httpx
import pytest
from litestar import Litestar

from service.app import create_app
from service.http.requests import FastRequest
from service.settings import Settings
from tests.conftest import NewDatabase
from tests.support.server import Server
from tests.support.wire import opened, read_answer

TOKEN = "B" * 43
UNWANTED = [
    "GET /docs",
    "GET /health/live",
    f"GET /v1/shared/{TOKEN}",
    "GET /v1/scenarios/run",
    "DELETE /v1/scenarios/run",
    "POST /v1/scenarios/run/approve",
]
WANTED = ["POST /v1/estimates", "POST /v1/scenario-diffs", "PUT /v1/scenarios/run", "POST /v1/scenarios/run/reprice"]
JSON = "Content-Type: application/json"
CLOSE = "Connection: close"


@pytest.mark.parametrize("line", UNWANTED)
@pytest.mark.parametrize("length", ["5", "99999999999"])
@pytest.mark.parametrize("more", [(), ("Expect: 100-continue",)], ids=["", "asking"])
def test_a_body_that_nobody_takes_is_refused_before_it_comes(
    shared_server: Server, line: str, length: str, more: tuple[str, ...]
) -> None:
    with opened(shared_server, f"{line} HTTP/1.1", CLOSE, f"Content-Length: {length}", *more) as connection:
        answer = read_answer(connection)
    assert answer.startswith(b"HTTP/1.1 400 "), answer
    assert b"This operation takes no body" in answer


@pytest.mark.parametrize("line", UNWANTED)
def test_the_first_byte_of_a_body_in_chunks_is_enough_to_refuse_it(shared_server: Server, line: str) -> None:
    lines = (f"{line} HTTP/1.1", CLOSE, "Transfer-Encoding: chunked")
    with opened(shared_server, *lines, body=b"1\r\nx\r\n") as connection:
        answer = read_answer(connection)
    assert answer.startswith(b"HTTP/1.1 400 "), answer
    assert b"This operation takes no body" in answer


@pytest.mark.parametrize(
    ("header", "body"),
    [("Content-Length: 0", b""), ("Content-Length: 00", b""), ("Transfer-Encoding: chunked", b"0\r\n\r\n")],
)
@pytest.mark.parametrize("path", ["/health/live", "/docs"])
def test_a_body_without_a_byte_is_none_over_a_socket(
    shared_server: Server, path: str, header: str, body: bytes
) -> None:
    with opened(shared_server, f"GET {path} HTTP/1.1", CLOSE, header, body=body) as connection:
        assert read_answer(connection).startswith(b"HTTP/1.1 200 ")


def test_a_connection_goes_on_after_a_body_was_refused(shared_server: Server) -> None:
    again = b"hello" + f"GET /version HTTP/1.1\r\nHost: 127.0.0.1\r\n{CLOSE}\r\n\r\n".encode()
    with opened(shared_server, "GET /docs HTTP/1.1", "Content-Length: 5") as connection:
        connection.sendall(again)
        answer = read_answer(connection)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 200 ") == 1


def test_a_client_that_goes_away_before_its_body_has_come_is_no_error_here(new_database: NewDatabase) -> None:
    unfinished = [("Content-Length: 5", b""), ("Transfer-Encoding: chunked", b"")]
    cut = [("Content-Length: 500", b""), ("Content-Length: 500", b"{"), ("Transfer-Encoding: chunked", b"1\r\n{\r\n")]
    with Server(new_database("sqlite"), log_level="debug") as server:
        for lines, ends in ((UNWANTED, unfinished), (WANTED, cut)):
            for line in lines:
                for header, body in ends:
                    with opened(server, f"{line} HTTP/1.1", JSON, header, body=body):
                        pass
        assert httpx.get(f"{server.base}/health/ready", trust_env=False).status_code == 200
        printed = server.stop()
    assert "Traceback" not in printed
    assert " ERROR " not in printed
    gone = [line for line in printed.splitlines() if "the client went away before its body had come" in line]
    assert gone
    assert all(" DEBUG " in line for line in gone)


def test_every_body_that_is_taken_is_read_in_the_way_that_knows_of_clients_that_go_away() -> None:
    app: Litestar = create_app(Settings())
    taking = [
        handler
        for route in app.routes
        for handler in getattr(route, "route_handlers", ())
        if "body" in handler.opt or handler.parsed_data_field is not None
    ]
    assert len(taking) > 15
    assert [
        handler.operation_id for handler in taking if not issubclass(handler.resolve_request_class(), FastRequest)
    ] == []
