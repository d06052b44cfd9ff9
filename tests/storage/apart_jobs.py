"""Jobs that are run in a process of their own."""

import asyncio
import os
from pathlib import Path

from service.errors import AmbiguousName


async def who_am_i(data: bytes) -> tuple[int, str]:
    print("not an answer")
    return os.getpid(), data.decode()


async def refuse(name: str, _: bytes) -> None:
    raise AmbiguousName("accelerator", name, ("h100-sxm-80gb", "h100-pcie-80gb")).placed("gpu", "query")


async def die(_: bytes) -> None:
    os.kill(os.getpid(), 9)


async def fail(_: bytes) -> float:
    return 1 / 0


async def write_and_stay(path: str, _: bytes) -> None:
    Path(path).write_text(f"{os.getpid()}\n")
    await asyncio.sleep(60)


async def begin_and_end(path: str, _: bytes) -> None:
    with Path(path).open("a") as log:
        log.write("begin\n")
    await asyncio.sleep(0.2)
    with Path(path).open("a") as log:
        log.write("end\n")
