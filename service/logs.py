"""Logs on standard error: one line a message, whatever it holds."""

import logging
import sys


class OneLine(logging.Formatter):
    """A message on one line: text from outside cannot begin a line of its own. Tracebacks follow indented."""

    def format(self, record: logging.LogRecord) -> str:
        first, *rest = super().format(record).splitlines() or [""]
        return "\n".join([first, *(f"    {line}" for line in rest)])


def set_up(level: str) -> None:
    """Send every log of this process to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine("%(asctime)s %(levelname)s %(name)s %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
