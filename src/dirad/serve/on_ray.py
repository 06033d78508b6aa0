"""`dirad serve --engine ray`: the service on the nodes of a Ray cluster, its store in PostgreSQL.

Ray Serve listens, and keeps one front running: the process that answers requests and writes the
journal. The streams learn in actors that are spread over the nodes. If the node of the front is
lost, Ray Serve starts a new one elsewhere; the database lets only one of them write.
"""

import asyncio
import logging
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from dirad.engine.rays import ClusterError, on_ray
from dirad.serve.access import Doorkeeper, is_loopback
from dirad.serve.actors import Actor
from dirad.serve.app import create_app
from dirad.serve.engine import Engine
from dirad.serve.server import KEEP_ALIVE_SECONDS, MOST_CONNECTIONS
from dirad.serve.service import Limits, Service
from dirad.serve.store import Store, StoreError

NAME = "dirad"  # of the application of Ray Serve
CORES = 0.1  # that the front reserves: few, so that it finds a place when a node is lost
HEALTH_SECONDS = 2.0  # between two looks at whether the front is alive
CLOSING_SECONDS = 40.0  # for the last snapshots
LOOK_SECONDS = 1.0  # between two looks at whether another server has taken over
NEEDED = "the engine ray needs Ray Serve: pip install 'dirad[cluster]'"


@dataclass(frozen=True)
class Plan:
    """What a front is to do."""

    store: str
    limits: Limits
    processes: int | None  # None: one per core of the cluster
    lock_seconds: float
    needs_tokens: bool  # can others than this machine reach the front?


class Front:
    """The process that answers requests; Ray Serve runs one of it, on some node."""

    def __init__(self, plan: Plan) -> None:
        store = Store(plan.store)
        self.doorkeeper = Doorkeeper(store, plan.limits.requests, plan.needs_tokens)

        def make_engine(store: Store, published: Any, has_events: Any) -> Engine:
            actors = [Actor(f"learning-{i}") for i in range(plan.processes or 1)]
            return Engine(store, actors, published, has_events)

        self.service = Service(store, plan.limits, make_engine, plan.lock_seconds)

    def __serve_build_asgi_app__(self) -> Any:
        """Called by Ray Serve."""
        return create_app(self.service, self.doorkeeper)

    def is_fenced(self) -> bool:
        """Has another server taken over the store?"""
        return self.service.engine.is_fenced

    async def __del__(self) -> None:
        """Called by Ray Serve when the front is to end."""
        await asyncio.to_thread(self.service.close)


def serve_on_ray(
    plan: Plan,
    store: Store,
    host: str,
    port: int,
    address: str | None,
    ready: Callable[[int], None],
) -> None:
    """Serve on the cluster at `address`, or one that is started here, until a signal comes."""
    if not store.is_postgres:
        raise StoreError(
            "on a cluster, the store must be one that all nodes reach: --engine ray needs --store "
            "postgresql://user@host/database, not a folder"
        )
    try:
        serve = import_module("ray.serve")
    except ImportError as error:
        raise StoreError(f"{NEEDED} ({error})") from None
    store.own(plan.lock_seconds)  # a message that one can read, if another server has it
    store.close()
    logging.getLogger("ray.serve").setLevel(logging.WARNING)
    port = port or _free_port(host)
    with on_ray(address) as engine:
        # After Ray, whose own handler aborts: a service that is stopped ends as by Ctrl-C.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        plan = replace(plan, processes=plan.processes or engine.n_cpus)
        try:
            front = _started(serve, plan, host, port)
            ready(port)
            _watch(front)
        finally:
            with suppress(Exception):  # the cluster may be gone
                serve.delete(NAME)
                if not serve.status().applications:
                    serve.shutdown()


def _started(serve: Any, plan: Plan, host: str, port: int) -> Any:
    """Start the front, and let Ray Serve listen; return a handle of the front."""
    # A front that only this machine can reach needs no listener elsewhere.
    location = "HeadOnly" if is_loopback(host) else "EveryNode"
    listening = {"host": host, "port": port, "keep_alive_timeout_s": KEEP_ALIVE_SECONDS}
    quiet = {"enable_access_log": False, "log_level": "WARNING"}
    serve.start(location, listening, logging_config=quiet)
    deployment = serve.deployment(
        name="front",
        num_replicas=1,
        max_ongoing_requests=MOST_CONNECTIONS,
        ray_actor_options={"num_cpus": CORES},
        health_check_period_s=HEALTH_SECONDS,
        graceful_shutdown_timeout_s=CLOSING_SECONDS,
        graceful_shutdown_wait_loop_s=1.0,
        logging_config=quiet,
    )(serve.ingress()(Front))
    try:
        return serve.run(deployment.bind(plan), name=NAME, route_prefix="/")
    except RuntimeError as error:
        raise ClusterError(f"Ray Serve: {error}") from error


def _watch(front: Any) -> None:
    """Wait for a signal, or until another server has taken over the store."""
    while True:
        time.sleep(LOOK_SECONDS)
        try:
            is_fenced = front.is_fenced.remote().result(timeout_s=10)
        except Exception:  # it is being started again, on another node
            continue
        if is_fenced:
            raise ClusterError("another server has taken over the store")


def _free_port(host: str) -> int:
    with socket.create_server((host, 0)) as one:
        return one.getsockname()[1]
