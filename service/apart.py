"""Work that takes longer still, beside the requests: in a process of its own, which has its own interpreter.

The child reads one job from its input, and that input stays open. When it ends, the parent is gone, and so is the child
at once, in the middle of whatever transaction it was in.
"""

import asyncio
import os
import pickle
import struct
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Self, TypeVar

from msgspec import Struct

from service.errors import TraincostError, Unavailable

T = TypeVar("T")

_NICE = 5  # as in `aside`
_PIECE_BYTES = 65_536
_LENGTH = struct.Struct("!Q")
_CHILD = (sys.executable, "-P", "-c", "from service.apart import answer_one; answer_one()")


class _Failed(Struct, frozen=True):
    """An error that is none of ours."""

    traceback: str


class Apart:
    """One such work at a time, so that their memory does not add up."""

    def __init__(self) -> None:
        self._turn = asyncio.Semaphore(1)

    def __deepcopy__(self, _: object) -> Self:
        """The framework copies its handlers with what they hold; this is shared, never copied."""
        return self

    async def run(self, function: Callable[..., Coroutine[Any, Any, T]], *args: object, data: bytes) -> T:
        """What a module's coroutine function makes of the arguments and, last, the data, in another process.

        An error of ours is raised here, another as RuntimeError; Unavailable if the child is ended from outside. What
        goes back and forth is pickled, but for the data, which is safe because both ends are ours.
        """
        pipe = asyncio.subprocess.PIPE
        async with self._turn:
            child = await asyncio.create_subprocess_exec(*_CHILD, stdin=pipe, stdout=pipe)
            to_child, from_child = child.stdin, child.stdout
            assert to_child is not None
            assert from_child is not None
            try:
                with suppress(ConnectionError):  # the child has ended: then it has no answer
                    for part in (pickle.dumps((function, args), protocol=5), data):
                        await _send(to_child, part)
                answer = await from_child.read()
            finally:  # whoever waited for it may have given up
                if not from_child.at_eof():
                    child.kill()
                to_child.close()
                await child.wait()
        if not answer:
            raise Unavailable("The process that did this ended before it was done. See what is there, and try again.")
        result = pickle.loads(answer)  # noqa: S301  # our own child has written it
        if isinstance(result, TraincostError):
            raise result
        if isinstance(result, _Failed):
            raise RuntimeError(f"In another process: {result.traceback}")  # noqa: TRY004  # whatever it was there
        return result  # type: ignore[no-any-return]  # the function's own


async def _send(child: asyncio.StreamWriter, part: bytes) -> None:
    """With its length, a piece at a time: it need not be held twice."""
    child.write(_LENGTH.pack(len(part)))
    for start in range(0, len(part), _PIECE_BYTES):
        child.write(part[start : start + _PIECE_BYTES])
        await child.drain()


def _receive() -> bytes:
    length = _LENGTH.unpack(sys.stdin.buffer.read(_LENGTH.size))[0]
    return sys.stdin.buffer.read(length)


def answer_one() -> None:
    """The child: one job from standard input, its result or its error to standard output."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever is printed on the way is no answer
    if sys.platform == "linux":
        os.nice(_NICE)
    function, args = pickle.loads(_receive())  # noqa: S301  # our own parent has written it
    data = _receive()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        result = asyncio.run(function(*args, data))
    except TraincostError as error:
        result = error
    except Exception:  # noqa: BLE001  # the parent raises it, where requests and their errors are logged
        result = _Failed(traceback.format_exc())
    with answers:
        pickle.dump(result, answers, protocol=5)


def _end_with_parent() -> None:
    os.read(0, 1)  # not through a buffer, whose lock would be missed when the child ends by itself
    os._exit(1)
