"""Work that takes long, beside the requests: in one thread that gives way to them."""

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# Of Linux' 19 steps of giving way: enough for a request to go first when it wakes, not so many that a busy service
# never gets round to this.
_NICE = 5


def _give_way() -> None:
    if sys.platform == "linux":  # where a thread has a priority of its own
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)


_thread = ThreadPoolExecutor(1, thread_name_prefix="aside", initializer=_give_way)


async def aside(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """The function's result. One such work at a time, so that their memory does not add up."""
    return await asyncio.get_running_loop().run_in_executor(_thread, partial(function, *args, **kwargs))
