"""Requests exactly as written, byte for byte: no client library tidies them up or finishes them."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.server import Server

_SECONDS = 10


@contextmanager
def opened(server: Server, *lines: str, body: bytes = b"") -> Iterator[socket.socket]:
    """A connection on which a request has been begun: its lines, and as much of its body as there is."""
    head = "".join(f"{line}\r\n" for line in (*lines, "Host: 127.0.0.1", ""))
    with socket.create_connection(("127.0.0.1", server.port), timeout=_SECONDS) as connection:
        connection.sendall(head.encode() + body)
        yield connection


def read_answer(connection: socket.socket) -> bytes:
    """What comes until the server closes the connection, for which the request must ask."""
    received = b""
    while part := connection.recv(65536):
        received += part
    return received
