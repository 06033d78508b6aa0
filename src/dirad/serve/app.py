"""The HTTP interface: each route reads a request, asks the service, and writes the answer."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from dirad import __version__
from dirad.serve import bodies, documentation, hooks
from dirad.serve.access import EVERYONE, Doorkeeper, Token
from dirad.serve.errors import Busy, Refused
from dirad.serve.feeds import Feeds
from dirad.serve.guard import COOKIE, Guard, read_body
from dirad.serve.metrics import Metrics
from dirad.serve.page import add_page
from dirad.serve.reading import is_slow
from dirad.serve.rendering import FORMATS
from dirad.serve.service import Service
from dirad.serve.specification import Specification

BODIES_AT_ONCE = 4  # of the largest size, that may be in memory
MAX_KEY = 200  # characters of an Idempotency-Key
TITLE = "dirad"


def create_app(service: Service, doorkeeper: Doorkeeper) -> Any:
    """Return the ASGI application of a service."""
    # Feeds of events go through the same gate as all else that waits for the store.
    reading, stored = Gate(4, 100), Gate(10, 200 + service.limits.event_readers)
    metrics, feeds = Metrics(), Feeds(service, service.limits.event_readers, stored.run)
    metrics.watch(service)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        deliverer = hooks.Deliverer(service.store, metrics, service.limits.public_hooks)
        loop = asyncio.get_running_loop()

        def wake(*_: Any) -> None:
            loop.call_soon_threadsafe(deliverer.wake.set)

        service.listeners.append(wake)
        feeds.attach(loop)
        tasks = [asyncio.create_task(deliverer.run()), asyncio.create_task(doorkeeper.keep())]
        yield
        service.listeners.remove(wake)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    app = FastAPI(
        title=TITLE,
        version=__version__,
        description=documentation.ABOUT,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    _add_errors(app)
    _add_streams(app, service, stored)
    _add_learning(app, service, reading, stored)
    _add_answers(app, service, feeds, doorkeeper, reading, stored)
    _add_hooks(app, service, stored)
    _add_operation(app, service, doorkeeper, metrics)
    add_page(app)
    return Guard(app, doorkeeper, metrics, BODIES_AT_ONCE * service.limits.body)


class Gate:
    """Lets few requests of a slow kind into the threads that all requests share.

    Predictions would have to wait for a thread otherwise.
    """

    def __init__(self, at_once: int, waiting: int) -> None:
        self._free, self._most, self._inside = asyncio.Semaphore(at_once), at_once + waiting, 0

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function in a thread; refuse it if too many wait."""
        if self._inside >= self._most:
            raise Busy("too many requests of this kind at once", 5)
        self._inside += 1
        try:
            async with self._free:
                return await run_in_threadpool(function, *arguments)
        finally:
            self._inside -= 1


def token_of(request: Request) -> Token:
    """Return the token of a request, as the guard has found it."""
    return request.scope.get("token", EVERYONE)


def _add_errors(app: FastAPI) -> None:
    """Answer every error with a JSON object whose `detail` says what is wrong."""

    @app.exception_handler(Refused)
    async def refused(_: Request, error: Refused) -> Response:
        return JSONResponse({"detail": str(error)}, error.status, error.headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        found = error.errors()[0]
        place = ".".join(str(part) for part in found["loc"][1:])
        return JSONResponse({"detail": f"{place}: {found['msg']}"}, 422)

    @app.exception_handler(HTTPException)
    async def other(_: Request, error: HTTPException) -> Response:
        return JSONResponse({"detail": str(error.detail)}, error.status_code, error.headers)

    @app.exception_handler(Exception)
    async def unexpected(_: Request, error: Exception) -> Response:
        return JSONResponse({"detail": "an internal error, which the server has logged"}, 500)


def _add_streams(app: FastAPI, service: Service, stored: Gate) -> None:
    @app.get("/streams", summary="All streams", tags=["streams"])
    async def list_streams(request: Request) -> Any:
        token = token_of(request)
        token.require("read")
        names = [name for name in sorted(service.streams) if token.sees(name)]
        return {"streams": await stored.run(service.describe_all, names)}

    @app.put("/streams/{name}", summary="Create a stream", tags=["streams"], **documentation.CREATE)
    async def create(request: Request, name: str) -> Any:
        token_of(request).require("admin", name)
        body = await read_body(request, service.limits.body)

        def work() -> tuple[dict[str, Any], bool]:
            described = bodies.parsed_json(body)
            specification = Specification.from_json(described, service.limits.columns)
            is_new = service.create(name, specification)
            return service.describe(name), is_new

        found, is_new = await stored.run(work)
        return JSONResponse(found, 201 if is_new else 200)

    @app.get("/streams/{name}", summary="The state of a stream", tags=["streams"])
    async def describe(request: Request, name: str) -> Any:
        token_of(request).require("read", name)
        return await stored.run(service.describe, name)

    @app.delete("/streams/{name}", summary="Delete a stream", status_code=204, tags=["streams"])
    async def delete(request: Request, name: str) -> Response:
        token_of(request).require("admin", name)
        await stored.run(service.delete, name)
        return Response(status_code=204)


def _add_learning(app: FastAPI, service: Service, reading: Gate, stored: Gate) -> None:
    accepting = Gate(20, 1000)  # half of the threads, so that predictions find one

    async def accepted(
        request: Request,
        name: str,
        submit: Callable[[bytes, str | None, str], Any],
        *,
        asks_store: bool = False,
    ) -> Response:
        """Read a body, let it be accepted, and answer when it is on disk."""
        token_of(request).require("write", name)
        service.stream(name)
        key = _key_of(request)
        body = await read_body(request, service.limits.body)
        kind = request.headers.get("content-type", "")

        def work() -> Any:
            content = b"" if key is None else kind.encode() + b"\n" + body
            return submit(body, key, hashlib.sha256(content).hexdigest())

        gate = reading if is_slow(kind, body) else accepting
        gate = stored if asks_store else gate
        future = await gate.run(work)
        answer = await asyncio.wrap_future(future)
        return Response(answer, media_type="application/json")

    @app.post(
        "/streams/{name}/samples", summary="Learn rows", tags=["learning"], **documentation.SAMPLES
    )
    async def samples(request: Request, name: str) -> Response:
        kind = request.headers.get("content-type", "")

        def submit(body: bytes, key: str | None, digest: str) -> Any:
            return service.accept(name, kind, body, key, digest)

        return await accepted(request, name, submit)

    @app.post(
        "/streams/{name}/labels",
        summary="Add late labels",
        tags=["learning"],
        **documentation.LABELS,
    )
    async def labels(request: Request, name: str) -> Response:
        def submit(body: bytes, key: str | None, digest: str) -> Any:
            specification, most = service.stream(name).row.specification, service.limits.rows
            late = bodies.read_late_labels(specification, bodies.parsed_json(body), most)
            return service.accept_labels(name, late, key, digest)

        return await accepted(request, name, submit, asks_store=True)

    @app.post("/streams/{name}/finish", summary="Finish all models now", tags=["learning"],
              **documentation.FINISH)  # fmt: skip
    async def finish(request: Request, name: str) -> Response:
        return await accepted(request, name, lambda _, key, __: service.finish(name, key))

    @app.delete("/streams/{name}/models/{number}", summary="Remove a model", tags=["learning"],
                **documentation.REMOVE)  # fmt: skip
    async def remove(request: Request, name: str, number: int) -> Response:
        token_of(request).require("admin", name)

        def submit(_: bytes, key: str | None, __: str) -> Any:
            return service.remove(name, number, key)

        return await accepted(request, name, submit, asks_store=True)


def _key_of(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is not None and (not 0 < len(key) <= MAX_KEY or not key.isprintable()):
        raise Refused(f"Idempotency-Key must be a text of 1 to {MAX_KEY} characters")
    return key


def _add_answers(
    app: FastAPI,
    service: Service,
    feeds: Feeds,
    doorkeeper: Doorkeeper,
    reading: Gate,
    stored: Gate,
) -> None:
    rendering = Gate(2, 20)

    @app.post(
        "/streams/{name}/predict", summary="Predict rows", tags=["answers"], **documentation.PREDICT
    )
    async def predict(request: Request, name: str, explain: bool = False) -> Any:
        token_of(request).require("read", name)
        service.stream(name)
        body = await read_body(request, service.limits.body)
        kind = request.headers.get("content-type", "")

        answered = partial(service.predict, name, kind, body, explain=explain)
        if is_slow(kind, body):
            answer = await reading.run(answered)
        elif not explain and service.is_light(name, kind, body):
            answer = answered()
        else:
            answer = await run_in_threadpool(answered)
        return Response(answer, media_type="application/json")

    @app.get("/streams/{name}/events", summary="Events, as they happen", tags=["answers"],
             **documentation.EVENTS)  # fmt: skip
    async def events(
        request: Request, name: str, after: int = Query(-1, ge=-1, le=2**62)
    ) -> Response:
        token_of(request).require("read", name)
        service.stream(name)
        if "application/json" in request.headers.get("accept", ""):
            found = await stored.run(service.events, name, after)
            return JSONResponse({"events": found})
        last = request.headers.get("last-event-id", "")
        after = max(after, int(last)) if last.isdecimal() and len(last) < 19 else after
        token = token_of(request)
        found = feeds.follow(name, after, lambda: doorkeeper.knows(token))
        return StreamingResponse(found, media_type="text/event-stream")

    @app.get("/streams/{name}/models", summary="What was learned", tags=["answers"])
    async def models(
        request: Request,
        name: str,
        networks: bool = False,
        number: int | None = Query(None, ge=0, le=10**9),
    ) -> Any:
        token_of(request).require("read", name)
        answers = service.stream(name).answers
        found = [] if answers is None else await run_in_threadpool(answers.models, networks, number)
        return {"models": found}

    @app.get("/streams/{name}/history", summary="Scores and regimes over time", tags=["answers"])
    async def history(request: Request, name: str) -> Any:
        token_of(request).require("read", name)
        live = service.stream(name)
        scores = await stored.run(service.scores, name)
        timeline = [] if live.answers is None else live.answers.timeline()
        measure = "absolute error" if live.row.specification.kind == "regressor" else "accuracy"
        return {"scores": scores, "measure": measure, "timeline": timeline}

    @app.get("/streams/{name}/report", summary="A page about the models", tags=["answers"])
    async def report(request: Request, name: str) -> Response:
        token_of(request).require("read", name)
        page = await rendering.run(service.report, name)
        # The page carries a stricter policy of its own, with the hashes of its scripts.
        return HTMLResponse(page, headers={"Content-Security-Policy": "frame-ancestors 'none'"})

    @app.get("/streams/{name}/export", summary="The models in another form", tags=["answers"],
             **documentation.EXPORT)  # fmt: skip
    async def export(
        request: Request, name: str, to: str, number: int | None = Query(None, ge=0, le=10**9)
    ) -> Response:
        token_of(request).require("read", name)
        content = await rendering.run(service.export, name, to, number)
        kind, ending = FORMATS[to]
        file = {"Content-Disposition": f'attachment; filename="{name}.{ending}"'}
        return Response(content, media_type=kind, headers=file)


def _add_hooks(app: FastAPI, service: Service, stored: Gate) -> None:
    @app.get("/streams/{name}/hooks", summary="All webhooks", tags=["webhooks"])
    async def list_hooks(request: Request, name: str) -> Any:
        token_of(request).require("admin", name)
        stream = service.stream(name).row.id
        return {"hooks": await stored.run(hooks.hooks_of, service.store, stream)}

    @app.post("/streams/{name}/hooks", summary="Call an address on events", tags=["webhooks"],
              status_code=201, **documentation.HOOK)  # fmt: skip
    async def create_hook(request: Request, name: str) -> Any:
        token_of(request).require("admin", name)
        stream = service.stream(name).row.id
        obj = bodies.parsed_json(await read_body(request, service.limits.body))
        public_only = service.limits.public_hooks
        return await stored.run(hooks.create_hook, service.store, stream, obj, public_only)

    @app.delete("/streams/{name}/hooks/{hook}", summary="Delete a webhook", status_code=204,
                tags=["webhooks"])  # fmt: skip
    async def delete_hook(request: Request, name: str, hook: int) -> Response:
        token_of(request).require("admin", name)
        stream = service.stream(name).row.id
        if not 0 <= hook < 2**31:
            raise Refused(f"there is no hook {hook}", 404)
        await stored.run(hooks.delete_hook, service.store, stream, hook)
        return Response(status_code=204)


def _add_operation(
    app: FastAPI, service: Service, doorkeeper: Doorkeeper, metrics: Metrics
) -> None:
    @app.get("/healthz", summary="Is the server running?", tags=["operation"])
    async def healthz() -> Any:
        return {"status": "ok", "version": __version__}

    @app.get("/readyz", summary="Does it accept requests?", tags=["operation"])
    async def readyz() -> Response:
        ready = service.is_ready and not service.is_away
        return JSONResponse({"ready": ready}, 200 if ready else 503)

    @app.get("/metrics", summary="Measurements for Prometheus", tags=["operation"])
    async def read_metrics(request: Request) -> Response:
        token = token_of(request)
        token.require("read")
        if token.streams is not None:
            raise Refused("this needs a token for all streams", 403)
        return Response(await run_in_threadpool(metrics.text), media_type="text/plain")

    @app.post("/login", summary="Let the page use a token", tags=["operation"],
              **documentation.LOGIN)  # fmt: skip
    async def login(request: Request) -> Response:
        obj = bodies.parsed_json(await read_body(request, 10_000))
        text = obj.get("token") if isinstance(obj, dict) else None
        if not isinstance(text, str) or not text.isascii() or not text.isprintable():
            raise Refused("the body must be an object with a token")
        token = doorkeeper.bearer(text)
        answer = JSONResponse({"name": token.name, "scope": token.scope})
        secure = request.url.scheme == "https"
        answer.set_cookie(COOKIE, text, httponly=True, samesite="strict", secure=secure)
        return answer

    @app.get("/docs", summary="This documentation", tags=["operation"])
    async def docs() -> HTMLResponse:
        return HTMLResponse(documentation.page(app.openapi()))
