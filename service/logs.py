"""Logs on standard error: one line a message, whatever it holds."""

import logging
from contextvars import ContextVar
from typing import Any

# The request that is being answered, so that every line it causes can be found; in bytes, as it comes and goes.
REQUEST_ID: ContextVar[bytes] = ContextVar("request_id", default=b"-")


class OneLine(logging.Formatter):
    """A message on one line: text from outside cannot begin a line of its own. Tracebacks follow indented."""

    def format(self, record: logging.LogRecord) -> str:
        record.request_id = REQUEST_ID.get().decode()
        first, *rest = super().format(record).splitlines() or [""]
        return "\n".join([first, *(f"    {line}" for line in rest)])


def configuration(level: str) -> dict[str, Any]:
    """For logging.config.dictConfig: every log of a process on standard error. Each worker sets itself up by it."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "line": {"()": OneLine, "fmt": "%(asctime)s %(levelname)s %(name)s [%(request_id)s] %(message)s"}
        },
        "handlers": {
            "stderr": {"class": "logging.StreamHandler", "formatter": "line", "stream": "ext://sys.stderr"},
        },
        "loggers": {"alembic": {"level": "WARNING"}},  # it tells of every look at the revision
        "root": {"handlers": ["stderr"], "level": level.upper()},
    }
