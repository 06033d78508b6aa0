"""What every request passes: the Host and Origin headers, the rate, and headers of the answer."""

import json
import time
import zlib
from asyncio import timeout
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request

from dirad.serve.access import Doorkeeper, is_loopback
from dirad.serve.errors import Busy, Refused, TooLarge
from dirad.serve.metrics import Metrics

FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
COOKIE = "dirad_token"
BODY_SECONDS = 30.0  # that a client may take to send a body
OPEN_PATHS = ("/healthz", "/readyz", "/", "/login", "/docs", "/openapi.json")
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]


class Bodies:
    """Counts the bytes of bodies that are in memory; beyond a limit, requests are refused."""

    def __init__(self, most: int) -> None:
        self.most, self.taken = most, 0


class BodyBytes:
    """The bytes of one request's body."""

    def __init__(self, bodies: Bodies) -> None:
        self._bodies, self._taken = bodies, 0

    def take(self, size: int) -> None:
        """Count more bytes; refuse them if all bodies together have too many."""
        others = self._bodies.taken - self._taken
        if others and self._bodies.taken + size > self._bodies.most:
            raise Busy("too many large requests at once", 1)
        self._bodies.taken += size
        self._taken += size

    def give_back(self) -> None:
        """Forget the body: its request is done."""
        self._bodies.taken -= self._taken
        self._taken = 0


class Guard:
    """An ASGI application around another, which refuses requests and completes answers."""

    def __init__(self, app: App, doorkeeper: Doorkeeper, metrics: Metrics, body_bytes: int) -> None:
        self._app, self._doorkeeper, self._metrics = app, doorkeeper, metrics
        self._bodies = Bodies(body_bytes)

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter(), 500

        async def completed(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Content-Security-Policy", PAGE_POLICY)
            await send(message)

        body = scope["body"] = BodyBytes(self._bodies)
        try:
            try:
                self._check(scope)
            except Refused as error:
                await _answer(completed, error)
            else:
                await self._app(scope, receive, completed)
        finally:  # also after an error of the application, which is answered with 500
            body.give_back()
            route = getattr(scope.get("route"), "path", "other")
            self._metrics.request(scope["method"], route, status, time.perf_counter() - start)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        client = (scope.get("client") or ("?",))[0]
        if self._doorkeeper.is_open:
            _check_host(headers)
        _check_origin(scope["method"], headers)
        path = scope["path"]
        if path in OPEN_PATHS or path.startswith("/static/"):
            self._doorkeeper.count(client)
            return
        try:
            token = self._doorkeeper.bearer(bearer_of(headers))
        except Refused:
            self._doorkeeper.count(client)
            raise
        self._doorkeeper.count(token.id or client)
        scope["token"] = token


def bearer_of(headers: Headers) -> str | None:
    """Return the token of a request: of its Authorization header, or of the page's cookie."""
    kind, _, token = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer" and token.strip():
        return token.strip()
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return None
    return None if found is None else found.value


def _check_host(headers: Headers) -> None:
    """Without tokens, answer only those who address this machine as such.

    Otherwise a web page could reach the service by a name of its own that leads to 127.0.0.1, and
    a reverse proxy would open it to everyone.
    """
    if any(name in headers for name in FORWARDED):
        raise Refused("without tokens, no requests by way of a proxy are answered", 421)
    try:
        host = urlsplit(f"//{headers.get('host', '')}").hostname or ""
    except ValueError:
        host = ""
    if not is_loopback(host):
        raise Refused("without tokens, only requests to localhost are answered", 421)


def _check_origin(method: str, headers: Headers) -> None:
    """Refuse changes that a page of another site asks for."""
    origin = headers.get("origin")
    if method in ("GET", "HEAD", "OPTIONS") or origin is None:
        return
    try:
        same = urlsplit(origin).netloc == headers.get("host", "")
    except ValueError:
        same = False
    if not same:
        raise Refused("this request comes from a page of another site", 403)


async def _answer(send: Any, error: Refused) -> None:
    """Send a refusal."""
    body = json.dumps({"detail": str(error)}).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body))}
    pairs = [(name.lower().encode(), value.encode()) for name, value in error.headers.items()]
    pairs += [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": error.status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})


async def read_body(request: Request, most: int) -> bytes:
    """Return the body of a request, unpacked; refuse one that is too large or comes too slowly."""
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and (len(declared) > 15 or int(declared) > most):
        raise TooLarge(f"the body has {declared:.20} bytes, and {most} are allowed")
    parts, size, memory = [], 0, request.scope["body"]
    try:
        async with timeout(BODY_SECONDS):
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise TooLarge(f"the body has more than {most} bytes")
                memory.take(len(part))
                parts.append(part)
    except TimeoutError:
        raise Refused(f"the body did not arrive within {BODY_SECONDS:g} seconds", 408) from None
    except ClientDisconnect:
        raise Refused("the client left before its request was complete", 400) from None
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    body = b"".join(parts)
    if encoding == "identity":
        return body
    if encoding != "gzip":
        raise Refused("Content-Encoding must be gzip, or left out", 415)
    content = unpacked_gzip(body, most)
    memory.take(len(content))
    return content


def unpacked_gzip(body: bytes, most: int) -> bytes:
    """Return the content of a gzipped body, of which no more than allowed is unpacked.

    >>> import gzip
    >>> unpacked_gzip(gzip.compress(b"abc"), 3)
    b'abc'
    """
    unpacker = zlib.decompressobj(wbits=31)
    try:
        content = unpacker.decompress(body, most + 1)
    except zlib.error as error:
        raise Refused(f"the body is not gzipped: {error}", 400) from None
    if len(content) > most:
        raise TooLarge(f"the body unpacks to more than {most} bytes")
    if not unpacker.eof:
        raise Refused("the gzipped body is not complete", 400)
    return content
