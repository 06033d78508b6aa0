"""The commands `dirad serve` and `dirad token`: a service, and who may use it."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter
from cyclopts.validators import Number

from dirad.cli.app import TALKATIVE, Output, PositiveInt, Usage, app
from dirad.cli.printing import Findings, notice

if TYPE_CHECKING:
    from dirad.serve.store import Store

StorePlace = Annotated[
    str,
    Parameter(help="Where everything is kept: a folder, or postgresql://user@host/database."),
]
DEFAULT_STORE = "dirad-store"
NEEDED = "this command needs more packages: pip install 'dirad[serve]'"


@Parameter(name="*")
@dataclass(frozen=True)
class LimitOptions:
    """Limits."""

    max_body: PositiveInt = 16_000_000
    """Bytes of a request."""
    max_rows: PositiveInt = 20_000
    """Rows of a request."""
    max_columns: PositiveInt = 2_000
    """Columns of a stream."""
    max_streams: PositiveInt = 200
    """Streams."""
    max_pending: PositiveInt = 100_000
    """Rows of a stream that may wait to be learned; more are refused until some are learned."""
    max_requests: Annotated[float, Parameter(validator=Number(gt=0))] = 1000.0
    """Requests per second and token (or address, without tokens)."""
    public_hooks: Annotated[bool, Parameter(negative="")] = False
    """Let webhooks call only public addresses, and nothing in the server's own network."""


LIMITS = LimitOptions()


@app.command
def serve(
    *,
    store: StorePlace = DEFAULT_STORE,
    host: str = "127.0.0.1",
    port: Annotated[int, Parameter(validator=Number(gte=0, lte=65535))] = 8000,
    processes: PositiveInt | None = None,
    wait: Annotated[float, Parameter(validator=Number(gte=0))] = 15.0,
    engine: Literal["local", "ray"] = "local",
    address: str | None = None,
    limits: LimitOptions = LIMITS,
    talk: Output = TALKATIVE,
) -> None:
    """Serve streams over HTTP: they learn while they answer, and raise alarms when tasks change.

    The service holds many named streams, each with a continual classifier, regressor or detector.
    What was answered with success is on disk; after a crash, learning continues where it was. See
    http://127.0.0.1:8000 for a live page, and /docs for all requests.

    ```
    dirad serve --store plant
    curl -X PUT localhost:8000/streams/pump -H 'Content-Type: application/json' \\
         -d '{"kind": "classifier", "columns": ["u", "v"]}'
    curl localhost:8000/streams/pump/samples -H 'Content-Type: application/json' \\
         -d '{"rows": [[0.1, 2.0]], "labels": [1]}'
    curl localhost:8000/streams/pump/predict -H 'Content-Type: application/json' \\
         -d '{"rows": [[0.1, 2.0]]}'
    curl -N localhost:8000/streams/pump/events
    ```

    Without tokens, only this machine can reach the server. `dirad token create` makes a token.

    Parameters
    ----------
    host
        The address to listen on; others than this machine's own need tokens.
    port
        The port to listen on; 0 takes a free one.
    processes
        Learning processes [default: one less than there are cores, or with Ray one per core of the
        cluster].
    wait
        Seconds to wait for a store that another server uses. With a large number, this server is a
        standby: it takes over when the other one ends.
    engine
        Where streams learn: in processes of this machine, or on the nodes of a Ray cluster (with
        the store in PostgreSQL).
    address
        Of a Ray cluster, as host:port [default: one is started on this machine].
    """
    _require_packages()
    from dirad.serve.access import Doorkeeper, is_loopback
    from dirad.serve.errors import Refused
    from dirad.serve.server import NoTokens, check_host, run
    from dirad.serve.service import Service, default_processes
    from dirad.serve.store import StoreError, StoreInUse, shown

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    if address is not None and engine != "ray":
        raise Usage("--address is that of a Ray cluster: it needs --engine ray")
    place = _opened(store)
    doorkeeper = Doorkeeper(place, limits.max_requests, needs_tokens=not is_loopback(host))
    try:
        check_host(host, doorkeeper)
        if engine == "ray":
            from dirad.serve.on_ray import Plan, serve_on_ray

            plan = Plan(store, _limits(limits), processes, wait)
            serve_on_ray(plan, place, host, port, address, _ready(talk, store, host, doorkeeper))
            return
        make = _local_engine(processes or default_processes())
        service = Service(place, _limits(limits), make, wait)
    except (NoTokens, StoreInUse, StoreError, Refused) as error:
        raise Usage(str(error)) from None

    try:
        if not run(service, doorkeeper, host, port, _ready(talk, store, host, doorkeeper)):
            raise Usage(f"{shown(store)}: another server has taken over this store")
    finally:
        service.close()


def _ready(talk: Output, store: str, host: str, doorkeeper: Any) -> Callable[[int], None]:
    """Return what says that the server listens, and where."""
    from dirad.serve.store import shown

    def ready(port: int) -> None:
        notice(talk, f"Serving {shown(store)} at http://{host}:{port}  (Ctrl-C ends)")
        if doorkeeper.is_open:
            notice(talk, "No tokens: everyone on this machine, and nobody else, has access.")

    return ready


def _local_engine(processes: int) -> Any:
    from dirad.serve.engine import Engine

    def make(store: "Store", published: Any, has_events: Any) -> Engine:
        return Engine.local(store, published, has_events, processes)

    return make


def _limits(options: LimitOptions) -> Any:
    from dirad.serve.service import Limits

    return Limits(
        options.max_body,
        options.max_rows,
        options.max_columns,
        options.max_streams,
        options.max_pending,
        options.max_requests,
        options.public_hooks,
    )


def _opened(store: str) -> "Store":
    from dirad.serve.errors import Refused
    from dirad.serve.store import Store, StoreError, shown

    try:
        return Store(store)
    except (StoreError, Refused, OSError) as error:
        reason = getattr(error, "reason", "")
        raise Usage(f"--store {shown(store)}: {error} {reason}".strip()) from None


def _require_packages() -> None:
    try:
        import fastapi
        import prometheus_client
        import sqlalchemy
        import uvicorn
    except ImportError as error:
        raise Usage(f"{NEEDED} ({error.name} is missing)") from None
    del fastapi, prometheus_client, sqlalchemy, uvicorn


# ------------------------------------------------------------------ tokens

token = App(
    name="token",
    help="""Create, list and revoke the tokens of a service.

Once there is a token, every request needs one. A running server knows of changes within seconds.

```
dirad token create --store plant --name sensors --scope write --stream pump
dirad token list --store plant
dirad token revoke 1a2b3c4d --store plant
```
""",
)
app.command(token)


@token.command
def create(
    *,
    name: str,
    scope: Literal["read", "write", "admin"] = "read",
    stream: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    store: StorePlace = DEFAULT_STORE,
    talk: Output = TALKATIVE,
) -> None:
    """Create a token, and print it: it is shown this once, since only a digest of it is stored.

    Parameters
    ----------
    name
        What or whom it is for.
    scope
        read: predictions and everything that can be looked at; write: also samples and labels;
        admin: also creating and deleting streams, and webhooks.
    stream
        A stream that it is for; repeat it for several [default: all streams].
    """
    _require_packages()
    from dirad.serve.access import new_token
    from dirad.serve.errors import Refused
    from dirad.serve.specification import check_name

    try:
        streams = tuple(map(check_name, stream)) or None
    except Refused as error:
        raise Usage(f"--stream: {error}") from None
    id, text = new_token(_opened(store), name, scope, streams)
    findings = Findings(talk)
    findings.facts("Token", {"id": id, "token": text})
    findings.print()


@token.command(name="list")
def list_tokens(*, store: StorePlace = DEFAULT_STORE, talk: Output = TALKATIVE) -> None:
    """List the tokens: what they are for, not their secrets."""
    _require_packages()
    from datetime import UTC, datetime

    from dirad.serve.access import all_tokens

    rows = [
        {
            "id": one.id,
            "name": one.name,
            "scope": one.scope,
            "streams": "all" if one.streams is None else ", ".join(one.streams),
            "created": datetime.fromtimestamp(one.created, UTC).isoformat(" ", "seconds"),
        }
        for one in all_tokens(_opened(store))
    ]
    findings = Findings(talk)
    if rows:
        findings.table("Tokens", rows)
    else:
        findings.facts("Tokens", {"tokens": 0}, "The server listens on its own machine alone.")
    findings.print()


@token.command
def revoke(id: str, *, store: StorePlace = DEFAULT_STORE, talk: Output = TALKATIVE) -> None:
    """Revoke a token by its id: whoever has it is refused from now on."""
    _require_packages()
    from dirad.serve.access import revoke_token

    if not revoke_token(_opened(store), id):
        raise Usage(f"there is no token {id}")
    notice(talk, f"Token {id} is revoked.")
