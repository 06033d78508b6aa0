"""Who may do what: bearer tokens with scopes, of which only digests are stored."""

import asyncio
import hashlib
import hmac
import ipaddress
import json
import secrets
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from dirad.serve import schema
from dirad.serve.errors import Busy, NotFound, Refused
from dirad.serve.store import Store

SCOPES = ("read", "write", "admin")  # each includes those before it
PREFIX = "dirad"
RELOAD_SECONDS = 2.0  # after which a new or revoked token takes effect
MOST_CLIENTS = 10_000  # whose rates are remembered


@dataclass(frozen=True)
class Token:
    """What the bearer of a token may do."""

    id: str
    name: str
    scope: str
    streams: tuple[str, ...] | None = None  # None: all
    created: float = 0.0
    digest: str = ""

    def require(self, scope: str, stream: str | None = None) -> None:
        """Refuse what the token is not for. Other streams are as if they did not exist."""
        if stream is not None and self.streams is not None and stream not in self.streams:
            raise NotFound(f"there is no stream {stream!r:.80}")
        if SCOPES.index(self.scope) < SCOPES.index(scope):
            raise Refused(f"this needs a token with the scope {scope}, not {self.scope}", 403)

    def sees(self, stream: str) -> bool:
        """Say whether the token is for a stream."""
        return self.streams is None or stream in self.streams


EVERYONE = Token("", "anyone on this machine", "admin")


def new_token(
    store: Store, name: str, scope: str, streams: tuple[str, ...] | None = None
) -> tuple[str, str]:
    """Store a new token; return its id, and the text that its bearer sends."""
    if scope not in SCOPES:
        raise ValueError(f"scope must be one of {', '.join(SCOPES)}, not {scope!r}")
    id, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
    values: dict[str, Any] = {"id": id, "digest": digest_of(secret), "name": name, "scope": scope}
    values |= {"streams": None if streams is None else json.dumps(streams), "created": time.time()}
    with store.engine.begin() as connection:
        connection.execute(schema.tokens.insert().values(**values))
    return id, f"{PREFIX}_{id}_{secret}"


def revoke_token(store: Store, id: str) -> bool:
    """Delete a token; False if there is none."""
    with store.engine.begin() as connection:
        found = connection.execute(schema.tokens.delete().where(schema.tokens.c.id == id))
    return found.rowcount > 0


def all_tokens(store: Store) -> list[Token]:
    """Return all tokens, oldest first."""
    with store.reading() as connection:
        found = connection.execute(sa.select(schema.tokens).order_by(schema.tokens.c.created))
        return [
            Token(
                row.id,
                row.name,
                row.scope,
                None if row.streams is None else tuple(json.loads(row.streams)),
                row.created,
                row.digest,
            )
            for row in found
        ]


def digest_of(secret: str) -> str:
    """Return the digest of a secret; a random one of 256 bits needs no slow hash."""
    return hashlib.sha256(secret.encode()).hexdigest()


def is_loopback(host: str) -> bool:
    """Say whether a host is this machine itself.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Doorkeeper:
    """Finds the token of a request, and counts its requests."""

    def __init__(
        self, store: Store, requests_per_second: float, needs_tokens: bool = False
    ) -> None:
        self._store, self._rate = store, requests_per_second
        self._needs_tokens = needs_tokens  # others can reach the server
        self._tokens: dict[str, Token] = {}
        self._lock = threading.Lock()
        self._spent: dict[str, tuple[float, float]] = {}  # of each client: when, and how much
        self.reload()

    def reload(self) -> None:
        """Read the tokens; where the store is away, those that were read before stay valid."""
        self._tokens = {token.id: token for token in all_tokens(self._store)}

    async def keep(self) -> None:
        """Read the tokens again and again, without holding up requests."""
        while True:
            await asyncio.sleep(RELOAD_SECONDS)
            with suppress(Refused):
                await asyncio.to_thread(self.reload)

    @property
    def has_tokens(self) -> bool:
        """Is there a token?"""
        return bool(self._tokens)

    @property
    def is_open(self) -> bool:
        """Are there no tokens, so that everyone on this machine may do everything?

        A server that others can reach stays closed when its last token is revoked.
        """
        return not self._tokens and not self._needs_tokens

    def knows(self, token: Token) -> bool:
        """Say whether a token is still valid; it may have been revoked some seconds ago."""
        return self.is_open if token is EVERYONE else self._tokens.get(token.id) == token

    def bearer(self, text: str | None) -> Token:
        """Return the token that a request brings."""
        if self.is_open:
            return EVERYONE
        if not text:
            raise Refused("a token is needed: Authorization: Bearer …", 401, **CHALLENGE)
        prefix, _, rest = text.partition("_")
        id, _, secret = rest.partition("_")
        token = self._tokens.get(id)
        expected = digest_of("") if token is None else token.digest
        same = hmac.compare_digest(digest_of(secret), expected)
        if token is None or prefix != PREFIX or not same:
            raise Refused("this token is not valid", 401, **CHALLENGE)
        return token

    def count(self, client: str) -> None:
        """Count a request of a client; refuse it if there were too many in the last second."""
        now = time.monotonic()
        with self._lock:
            before, spent = self._spent.pop(client, (now, 0.0))
            spent = max(0.0, spent - (now - before) * self._rate) + 1.0
            burst = max(self._rate, 1.0)
            self._spent[client] = (now, min(spent, burst + 1))
            while len(self._spent) > MOST_CLIENTS:
                del self._spent[next(iter(self._spent))]
        if spent > burst:
            raise Busy(f"more than {self._rate:g} requests per second", 1 / self._rate)


CHALLENGE = {"WWW_Authenticate": "Bearer"}
