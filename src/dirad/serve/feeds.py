"""Server-sent events: clients that follow what happens to a stream."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from dirad.serve.errors import Busy, Refused
from dirad.serve.service import Service

QUIET_SECONDS = 15.0  # after which a comment is sent, so that a lost connection is noticed


class Feeds:
    """Wakes the clients that follow a stream when it has new events."""

    def __init__(self, service: Service, most: int, run: Callable[..., Awaitable[Any]]) -> None:
        self._service, self._most, self._run = service, most, run  # `run` asks the store
        self._waiting: dict[asyncio.Event, str] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to listen to the service; called in the event loop that serves the clients."""
        self._loop = loop
        self._service.listeners.append(self._heard)

    def _heard(self, name: str, events: list[dict[str, Any]]) -> None:
        """Called by a learning thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake, name)

    def _wake(self, name: str) -> None:
        for event, stream in self._waiting.items():
            if stream == name:
                event.set()

    def follow(self, name: str, after: int, is_allowed: Callable[[], bool]) -> AsyncIterator[bytes]:
        """Yield the events of a stream after a number, and those to come, as they happen.

        They end when the client is no longer allowed to see them.
        """
        if len(self._waiting) >= self._most:
            raise Busy("too many clients follow events", 30)
        return self._follow(name, after, is_allowed)

    async def _follow(
        self, name: str, after: int, is_allowed: Callable[[], bool]
    ) -> AsyncIterator[bytes]:
        woken = asyncio.Event()
        self._waiting[woken] = name  # here: a client may have left before its events begin
        try:
            yield b": connected\n\n"
            while self._service.is_ready and is_allowed():
                woken.clear()
                try:
                    found = await self._run(self._service.events, name, after)
                except Refused:
                    return  # the stream was deleted, or the store is away: the client comes back
                for event in found:
                    after = event["number"]
                    text = json.dumps(event, separators=(",", ":"))
                    yield f"id: {after}\nevent: {event['kind']}\ndata: {text}\n\n".encode()
                if found:
                    continue
                try:
                    async with asyncio.timeout(QUIET_SECONDS):
                        await woken.wait()
                except TimeoutError:
                    yield b": \n\n"
        finally:
            del self._waiting[woken]
