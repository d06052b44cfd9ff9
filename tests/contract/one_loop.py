"""An ASGI application on one event loop of its own, whatever loops its callers come from.

The fuzzer runs each case on a fresh loop; database connections belong to the loop that opened them, and so does what an
application keeps running beside its requests: here it starts and ends without any of that.
"""

import asyncio
import threading
from typing import Any


class OnOneLoop:
    """Reads the request, runs the application on its own loop, and replays what it sent."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":  # the fuzzer begins and ends one with each case: the application has one life
            for phase in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{phase}.complete"})
            return
        incoming = []
        more = True
        while more:
            incoming.append(await receive())
            more = incoming[-1].get("more_body", False)
        outgoing: list[Any] = []

        async def replay() -> Any:
            return incoming.pop(0) if incoming else {"type": "http.disconnect"}

        async def collect(message: Any) -> None:
            outgoing.append(message)

        running = asyncio.run_coroutine_threadsafe(self.app(scope, replay, collect), self.loop)
        await asyncio.wrap_future(running)
        for message in outgoing:
            await send(message)

    def close(self, last: Any) -> None:
        """Run a last coroutine on the loop and end it."""
        asyncio.run_coroutine_threadsafe(last, self.loop).result(10)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)
        self.loop.close()
