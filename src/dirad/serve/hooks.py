"""Webhooks: events are sent to addresses of the user's choice, signed, until they are received."""

import asyncio
import hashlib
import hmac
import json
import logging
import time
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx
import sqlalchemy as sa

from dirad.serve import journal, schema
from dirad.serve.addresses import check_literal, resolved
from dirad.serve.errors import NotFound, Refused
from dirad.serve.metrics import Metrics
from dirad.serve.store import Store

KINDS = ("alarm", "opened", "L0 stable", "stable", "chosen", "merged", "removed", "refused")
FORMATS = ("event", "text")  # all of an event; or {"text": …}, as chat programs take it
MOST_HOOKS = 20  # of a stream
FIRST_WAIT, LONGEST_WAIT = 1.0, 3600.0  # seconds between attempts: doubled each time
MOST_ATTEMPTS = 20  # about eight hours
CALL_SECONDS = 10.0
AT_ONCE = 20  # hooks that are called
REST_SECONDS = 5.0  # after the store failed

log = logging.getLogger("dirad.serve")


def create_hook(store: Store, stream: int, obj: Any, public_only: bool = False) -> dict[str, Any]:
    """Store a hook that a client describes, and return it without its secret."""
    if not isinstance(obj, dict):
        raise Refused("a hook is described by an object with url, secret, events and format")
    unknown = sorted(set(obj) - {"url", "secret", "events", "format"})
    if unknown:
        raise Refused(f"unknown field {unknown[0]!r:.80}; known: url, secret, events, format")
    kinds, format = obj.get("events", ["alarm"]), obj.get("format", "event")
    if not isinstance(kinds, list) or not kinds or any(one not in KINDS for one in kinds):
        raise Refused(f"events must be a list of some of {', '.join(KINDS)}")
    if format not in FORMATS:
        raise Refused(f"format must be one of {', '.join(FORMATS)}")
    secret = obj.get("secret")
    if not isinstance(secret, str) or not 16 <= len(secret) <= 200 or not secret.isprintable():
        raise Refused(
            "secret must be a text of 16 to 200 printable characters, by which calls are signed"
        )
    values = {"stream": stream, "url": _checked_url(obj.get("url"), public_only), "secret": secret}
    values |= {"kinds": json.dumps(kinds), "format": format, "created": time.time()}
    with store.changing() as connection:
        if not journal.has_stream(connection, stream):
            raise NotFound("the stream was deleted")
        hooks = schema.hooks
        own = sa.select(sa.func.count()).select_from(hooks).where(hooks.c.stream == stream)
        if connection.execute(own).scalar_one() >= MOST_HOOKS:
            raise Refused(f"a stream may have {MOST_HOOKS} hooks", 409)
        id = connection.execute(hooks.insert().values(**values)).inserted_primary_key
    assert id is not None
    return {"id": id[0], "url": values["url"], "events": kinds, "format": format}


def hooks_of(store: Store, stream: int) -> list[dict[str, Any]]:
    """Return the hooks of a stream without their secrets, and what is still to be delivered."""
    hooks, deliveries = schema.hooks, schema.deliveries
    waiting = (
        sa.select(sa.func.count())
        .select_from(deliveries)
        .where(deliveries.c.hook == hooks.c.id)
        .scalar_subquery()
    )
    failure = (
        sa.select(sa.func.max(deliveries.c.error))
        .where(deliveries.c.hook == hooks.c.id)
        .scalar_subquery()
    )
    query = sa.select(hooks, waiting.label("waiting"), failure.label("error"))
    with store.reading() as connection:
        found = connection.execute(query.where(hooks.c.stream == stream).order_by(hooks.c.id))
        return [
            {
                "id": row.id,
                "url": row.url,
                "events": json.loads(row.kinds),
                "format": row.format,
                "waiting": row.waiting,
                "last_error": row.error,
            }
            for row in found
        ]


def delete_hook(store: Store, stream: int, hook: int) -> None:
    """Delete a hook of a stream."""
    hooks = schema.hooks
    with store.changing() as connection:
        here = (hooks.c.stream == stream) & (hooks.c.id == hook)
        if connection.execute(hooks.delete().where(here)).rowcount == 0:
            raise NotFound(f"there is no hook {hook}")


def _checked_url(url: Any, public_only: bool) -> str:
    try:
        parts = urlsplit(url) if isinstance(url, str) and len(url) <= 2000 else None
        valid = parts is not None and parts.scheme in ("http", "https") and bool(parts.hostname)
        valid = valid and url.isprintable() and " " not in url and not (parts and parts.username)
        if parts is not None and valid:
            _ = parts.port  # a port that is no number is found here
            httpx.URL(url)
    except (ValueError, httpx.InvalidURL):
        valid = False
    if not valid:
        raise Refused(f"url must be an http or https address, got {url!r:.80}")
    try:
        check_literal(urlsplit(url).hostname or "", public_only)
    except ValueError as error:
        raise Refused(f"url: {error}") from None
    return url


def signature(secret: str, at: int, body: bytes) -> str:
    """Return the signature of a call: HMAC-SHA256 of the time, a dot and the body.

    >>> signature("0123456789abcdef", 1700000000, b"{}")[:26]
    't=1700000000,v1=e4f8e2ecae'
    """
    digest = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256)
    return f"t={at},v1={digest.hexdigest()}"


class Callers:
    """HTTP clients: one that calls addresses directly, and one for each proxy of the environment.

    Whether a call goes through a proxy is decided here alone: a client that read the environment
    as well might decide otherwise, and call an address that was not checked.
    """

    def __init__(self) -> None:
        self._clients: dict[str | None, httpx.AsyncClient] = {}
        self._certificates: Any = None

    def client(self, proxy: str | None) -> httpx.AsyncClient:
        """Return the client that calls through a proxy, or directly."""
        if proxy not in self._clients:
            self._certificates = self._certificates or httpx.create_ssl_context()
            self._clients[proxy] = httpx.AsyncClient(
                timeout=CALL_SECONDS,
                follow_redirects=False,
                trust_env=False,
                verify=self._certificates,
                proxy=proxy,
            )
        return self._clients[proxy]

    async def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            await client.aclose()


def proxy_of(url: httpx.URL) -> str | None:
    """Return the proxy that the environment names for an address; None: it is called directly."""
    proxies = getproxies()
    found = proxies.get(url.scheme) or proxies.get("all")
    if not found or proxy_bypass(url.netloc.decode("ascii")):
        return None
    return found if "://" in found else f"http://{found}"


class Deliverer:
    """A task that delivers what waits.

    Each hook has at most one call under way, so that a receiver that hangs delays no other one.
    """

    def __init__(self, store: Store, metrics: Metrics, public_only: bool = False) -> None:
        self._store, self._metrics, self._public_only = store, metrics, public_only
        self._done: set[tuple[int, int]] = set()  # delivered, while the store cannot be told
        self._called: set[int] = set()  # hooks with a call under way
        self.wake = asyncio.Event()

    async def run(self) -> None:
        """Deliver until cancelled."""
        callers = Callers()
        try:
            async with asyncio.TaskGroup() as tasks:
                while True:
                    self.wake.clear()
                    wait = await self._start_calls(tasks, callers)
                    try:
                        async with asyncio.timeout(wait):
                            await self.wake.wait()
                    except TimeoutError:
                        pass
        finally:
            await callers.close()

    async def _start_calls(self, tasks: asyncio.TaskGroup, callers: Callers) -> float:
        """Begin what is due; return how long the next one can wait."""
        try:
            due, wait = await asyncio.to_thread(self._due, list(self._called))
        except Refused as error:  # the store is away
            log.warning("webhooks wait: %s", error)
            return REST_SECONDS
        except Exception:
            log.exception("webhooks failed; trying again")
            return REST_SECONDS
        for one in due:
            if len(self._called) < AT_ONCE:
                self._called.add(one.hook)
                tasks.create_task(self._attempt(callers, one))
        return wait

    async def _attempt(self, callers: Callers, one: Any) -> None:
        """Make one attempt, and let the hook's next delivery follow."""
        try:
            await self._deliver(callers, one)
        except Refused as error:  # the store is full or away
            log.warning("webhooks wait: %s", error)
            await asyncio.sleep(REST_SECONDS)
        except Exception:
            log.exception("webhooks failed; trying again")
            await asyncio.sleep(REST_SECONDS)
        finally:
            self._called.discard(one.hook)
            self.wake.set()

    def _due(self, called: list[int]) -> tuple[list[Any], float]:
        """Return one delivery that is due of each hook, and how long the next one can wait."""
        d, h, e, s = schema.deliveries, schema.hooks, schema.events, schema.streams
        place = sa.func.row_number().over(partition_by=d.c.hook, order_by=(d.c.due, d.c.number))
        first = sa.select(d, place.label("place")).where(d.c.hook.not_in(called)).subquery()
        tables = (
            first.join(h, h.c.id == first.c.hook)
            .join(s, s.c.id == h.c.stream)
            .join(e, (e.c.stream == h.c.stream) & (e.c.number == first.c.number), isouter=True)
        )
        query = sa.select(first, h.c.url, h.c.secret, h.c.format, s.c.name, e.c.content)
        query = query.select_from(tables).where(first.c.place == 1)
        with self._store.reading() as connection:
            found = list(connection.execute(query.order_by(first.c.due).limit(AT_ONCE)))
        now = time.time()
        later = [one.due - now for one in found if one.due > now]
        return [one for one in found if one.due <= now], min([*later, 60.0])

    async def _deliver(self, callers: Callers, one: Any) -> None:
        """Make one attempt."""
        error, place = None, (one.hook, one.number)
        if one.content is not None and place not in self._done:
            error = await _call(callers, one, self._public_only)
            self._metrics.deliveries.labels("failed" if error else "delivered").inc()
        if error is None:
            self._done.add(place)
        await asyncio.to_thread(self._record, one, error)
        self._done.discard(place)
        if error is not None and one.attempts + 1 >= MOST_ATTEMPTS:
            self._metrics.deliveries.labels("given_up").inc()
            log.error("webhook %d of stream %s: event %d is given up after %d attempts: %s",
                      one.hook, one.name, one.number, MOST_ATTEMPTS, error)  # fmt: skip

    def _record(self, one: Any, error: str | None) -> None:
        """Delete what was delivered or has failed for good; else say when to try again."""
        d = schema.deliveries
        here = (d.c.hook == one.hook) & (d.c.number == one.number)
        attempts = one.attempts + 1
        with self._store.changing() as connection:
            if error is None or attempts >= MOST_ATTEMPTS:
                connection.execute(d.delete().where(here))
                return
            wait = min(FIRST_WAIT * 2**one.attempts, LONGEST_WAIT)
            values = {"attempts": attempts, "due": time.time() + wait, "error": error}
            connection.execute(d.update().where(here).values(**values))


async def _call(callers: Callers, one: Any, public_only: bool) -> str | None:
    """Call a hook; return what went wrong."""
    event = {"stream": one.name, **json.loads(one.content)}
    content = {"text": f"{one.name}: {event['text']}"} if one.format == "text" else event
    body = json.dumps(content).encode()
    headers = {
        "Content-Type": "application/json",
        "X-Dirad-Event": str(one.number),
        "X-Dirad-Signature": signature(one.secret, int(time.time()), body),
    }
    try:
        async with asyncio.timeout(CALL_SECONDS):
            proxy = proxy_of(httpx.URL(one.url))
            client = callers.client(proxy)
            request = client.build_request("POST", one.url, content=body, headers=headers)
            if proxy is None:
                await _check_and_pin(request, public_only)
            else:  # it resolves names, and its rules count
                check_literal(request.url.host, public_only)
            answer = await client.send(request, stream=True)
            await answer.aclose()
            status = answer.status_code
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError, ImportError) as error:
        return f"{type(error).__name__}: {error}"[:200]
    return None if 200 <= status < 300 else f"status {status}"


async def _check_and_pin(request: httpx.Request, public_only: bool) -> None:
    """Let a request call the address that its host has now, if that is allowed.

    Its headers, and the certificate that is asked for, remain those of the host.
    """
    host = request.url.host
    port = request.url.port or (443 if request.url.scheme == "https" else 80)
    address = await resolved(host, port, public_only)
    request.extensions = {**request.extensions, "sni_hostname": host}
    request.url = request.url.copy_with(host=address)
