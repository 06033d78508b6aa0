"""The server process: it listens, and ends cleanly."""

import asyncio
import gc
import json
import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from dirad.serve.access import Doorkeeper, is_loopback
from dirad.serve.app import create_app
from dirad.serve.guard import HEADERS, PAGE_POLICY
from dirad.serve.service import Service

HEAD_SECONDS = 10.0  # that a client may take to send the head of a request
KEEP_ALIVE_SECONDS = 30
REST_SECONDS = 2.0  # in which a body is still taken, and thrown away, after the answer to it
STUCK_SECONDS = 30.0  # that a client may leave an answer unread
MOST_CONNECTIONS = 1000
MOST_FILES = 4096  # open at once, connections included
CLOSING_SECONDS = 5  # that open requests get when the server ends
ENDING = (signal.SIGINT, signal.SIGTERM)
SWITCH_SECONDS = 0.00005  # after which a thread that computes lets another one answer
LOOK_SECONDS = 1.0  # between two looks at whether another server has taken over

log = logging.getLogger("dirad.serve")


class NoTokens(Exception):
    """A server that others can reach needs tokens."""


class TimedProtocol(H11Protocol):
    """HTTP whose clients must send requests and read answers within some seconds.

    When there are too many connections, the one that has been without a request for longest is
    closed, so that clients that open many of them keep nobody out.
    """

    _timer: Any = None
    _stuck: Any = None
    since = 0.0  # when it became idle

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait(HEAD_SECONDS)
        if len(self.connections) > MOST_CONNECTIONS:
            others: set[Any] = self.connections - {self}
            idle = [one for one in others if one.is_idle]
            min(idle, key=lambda one: one.since, default=self).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._timer, self._stuck):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    @property
    def is_idle(self) -> bool:
        """Is no request under way?"""
        return self.cycle is None or self.cycle.response_complete

    def on_response_complete(self) -> None:
        is_whole = self.conn.their_state is not h11.SEND_BODY
        self._wait(HEAD_SECONDS + KEEP_ALIVE_SECONDS if is_whole else REST_SECONDS)
        super().on_response_complete()

    def _wait(self, seconds: float) -> None:
        """Close the connection if no request is under way after some seconds."""
        self.since = self.loop.time()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(seconds, self._check_head)

    def _check_head(self) -> None:
        if self.is_idle:
            self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stuck = self.loop.call_later(STUCK_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stuck is not None:
            self._stuck.cancel()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP; if an answer is under way, end the connection."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()
            return
        body = json.dumps({"detail": msg}).encode()
        headers = {"Content-Type": "application/json", "Connection": "close", **HEADERS}
        headers |= {"Content-Length": str(len(body)), "Content-Security-Policy": PAGE_POLICY}
        start = h11.Response(status_code=400, headers=list(headers.items()), reason="Bad Request")
        for event in (start, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


class Server(uvicorn.Server):
    """A server that ends on a signal, and leaves it at that: the command ends with success."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        before = {one: signal.signal(one, self.handle_exit) for one in ENDING}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)


def check_host(host: str, doorkeeper: Doorkeeper) -> None:
    """Refuse to listen where others could reach a server without tokens."""
    if not doorkeeper.has_tokens and not is_loopback(host):
        raise NoTokens(
            f"without tokens, the server listens on this machine alone, not on {host}: create one "
            "first, with dirad token create"
        )


def run(service: Service, doorkeeper: Doorkeeper, host: str, port: int, ready: Any = None) -> bool:
    """Serve until a signal comes; False if another server has taken over the store."""
    sys.setswitchinterval(SWITCH_SECONDS)
    config = uvicorn.Config(
        create_app(service, doorkeeper),
        host=host,
        port=port,
        http=TimedProtocol,
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=CLOSING_SECONDS,
        backlog=1024,
    )
    server = Server(config)
    _allow_files()
    gc.freeze()  # what is there already stays: no collection, for which answers wait, looks at it
    asyncio.run(_serve(server, service, ready))
    return not service.engine.is_fenced


async def _serve(server: uvicorn.Server, service: Service, ready: Any) -> None:
    task = asyncio.create_task(server.serve())
    while not task.done():
        if server.started and ready is not None:
            ready(server.servers[0].sockets[0].getsockname()[1])
            ready = None
        if service.engine.is_fenced:
            server.should_exit = True
        await asyncio.wait([task], timeout=LOOK_SECONDS if ready is None else 0.05)
    await task


def _allow_files() -> None:
    """Let as many connections be open as the server takes, where the system allows it."""
    try:
        import resource
    except ImportError:  # not on every system
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < MOST_FILES:
        wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(MOST_FILES, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
