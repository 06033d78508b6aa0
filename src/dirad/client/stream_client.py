"""Client: a stream of a service with the verbs of a scikit-learn estimator."""

import json
import math
import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from dirad.client.rows import ROWS, listed, parts_of, rows_of
from dirad.client.tries import TRANSIENT, ClientError, Tries, detail_of

REQUEST_SECONDS = 60.0  # that an answer may take
QUIET_SECONDS = 45.0  # without a sign of life, after which a feed of events is opened again
EVENTS = 1000  # that an answer has at most


class Client:
    """A stream of a service, used like an estimator that learns elsewhere.

    Rows are arrays, lists of rows, or data frames, whose columns are found by their names. Requests
    that fail for the moment (the server is away, or has too much to do) are repeated for a while.
    Each request that changes the stream carries a key, so that it is carried out once, however
    often it is sent.

    Parameters
    ----------
    url : str
        Where the service is.
    stream : str, optional
        The name of the stream. Only `streams` can do without it.
    token : str, optional
        As `dirad token create` printed it.
    patience : float, optional
        Seconds for which a request is repeated before it fails; None: for ever.

    Attributes
    ----------
    row_numbers_ : array of shape (n_samples,)
        After `partial_fit`: the numbers that the service gave to the rows, for `label`.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        stream: str | None = None,
        token: str | None = None,
        *,
        patience: float | None = 120.0,
    ) -> None:
        try:
            import httpx
        except ImportError:
            raise ImportError("dirad.Client needs httpx: pip install 'dirad[serve]'") from None
        self.url, self.stream, self.patience = url.rstrip("/"), stream, patience
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._http = httpx.Client(headers=headers, timeout=REQUEST_SECONDS)
        self._away = httpx.TransportError
        self._columns: list[str] | None = None
        self._classes: list[Any] | None = None
        self.row_numbers_: NDArray[np.int64] = np.zeros(0, np.int64)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.url!r}, {self.stream!r})"

    # ---------------------------------------------------------------- streams

    def streams(self) -> list[dict[str, Any]]:
        """Return the states of all streams that the token is for."""
        return self._ask("GET", "/streams")["streams"]

    def create(
        self, kind: str, columns: Sequence[Any], settings: dict[str, Any] | None = None
    ) -> "Client":
        """Create the stream; if it exists already, and is the same, nothing happens.

        Parameters
        ----------
        kind : {"classifier", "regressor", "detector"}
        columns : list
            Names of columns with numbers, or objects such as
            ``{"name": "state", "kind": "category", "categories": ["on", "off"]}``. With
            ``"gaps": True`` its values may be missing; with ``"other": True`` a category may be
            new.
        settings : dict, optional
            Parameters of the learner, such as ``{"batch_size": 100}``.
        """
        body = {"kind": kind, "columns": list(columns), "settings": settings or {}}
        self._ask("PUT", self._path(), body)
        return self

    def delete(self) -> None:
        """Delete the stream and everything that it learned."""
        self._send("DELETE", self._path())

    def state(self) -> dict[str, Any]:
        """Return the state of the stream: among others, `samples`, `pending`, `models`, `events`.

        `samples` are the rows accepted so far, `pending` those of them that wait to be learned.
        """
        return self._ask("GET", self._path())

    def models(self, networks: bool = False) -> list[dict[str, Any]]:
        """Return what each model is, with its network if asked for."""
        return self._ask("GET", self._path(f"/models?networks={str(networks).lower()}"))["models"]

    def wait(self, timeout: float | None = None) -> "Client":
        """Wait until everything that was accepted is learned, and answers come from it."""
        end = math.inf if timeout is None else time.monotonic() + timeout
        pause = 0.01
        while True:
            state = self.state()
            if state["pending"] == 0 and state["current"]:
                return self
            if time.monotonic() > end:
                raise TimeoutError(f"{state['pending']} rows are not learned yet")
            time.sleep(pause)
            pause = min(2 * pause, 0.5)

    # ---------------------------------------------------------------- learning

    def partial_fit(self, X: Any, y: Any = None, ids: Any = None, key: str | None = None) -> Any:
        """Let the service learn rows; return when they are on its disk.

        Parameters
        ----------
        X : array, list of rows, or data frame
            NaN and None: missing.
        y : array or list, optional
            Labels, or numbers for a regressor; NaN and None: not known (yet).
        ids : list of str, optional
            Names of the rows by which `label` finds them. A row whose id is known is refused.
        key : str, optional
            Names this call: if it is repeated with the same key and rows within 24 hours, rows that
            were accepted already are not learned again.
        """
        rows = rows_of(X, lambda: self.columns)
        labels, names = listed(y, len(rows), "y"), listed(ids, len(rows), "ids")
        key = key or uuid.uuid4().hex
        numbers: list[int] = []
        for number, part in enumerate(parts_of(rows)):
            body: dict[str, Any] = {"rows": rows[part]}
            if labels is not None:
                body["labels"] = labels[part]
            if names is not None:
                body["ids"] = [str(one) for one in names[part]]
            try:
                found = self._ask("POST", self._path("/samples"), body, f"{key}.{number}")
            except ClientError as error:
                error.accepted = len(numbers)
                raise
            numbers += range(found["first_row"], found["first_row"] + found["rows"])
        self.row_numbers_ = np.array(numbers, np.int64)
        return self

    def label(self, rows: Any, y: Any) -> "Client":
        """Add labels that arrived late, for rows by their numbers or by their ids."""
        named = listed(rows, None, "rows") or []
        labels = listed(y, len(named), "y")
        by_id = bool(named) and isinstance(named[0], str)
        key = uuid.uuid4().hex
        for start in range(0, len(named), ROWS):
            part = slice(start, start + ROWS)
            body = {"ids" if by_id else "rows": named[part], "labels": (labels or [])[part]}
            self._ask("POST", self._path("/labels"), body, f"{key}.{start}")
        return self

    def finish(self) -> "Client":
        """Let the training of all models be finished now, with the samples so far."""
        self._ask("POST", self._path("/finish"), key=uuid.uuid4().hex)
        return self

    # ---------------------------------------------------------------- answers

    def predict(self, X: Any) -> NDArray:
        """Return the most probable class, or the number, of each row."""
        return np.array(self._answers(X, "predictions"))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class in `classes_`, for each row."""
        answers = self._predict(X)
        classes = sorted({one for answer in answers for one in _found(answer, "classes")})
        places = {one: i for i, one in enumerate(classes)}
        parts = []
        for answer in answers:  # between two answers, the service may have learned of a class
            part = np.zeros((len(answer["models"]), len(classes)))
            part[:, [places[one] for one in answer["classes"]]] = answer["probabilities"]
            parts.append(part)
        self._classes = classes
        return np.concatenate(parts)

    @property
    def classes_(self) -> NDArray:
        """The classes, in the order of the columns of the last `predict_proba`."""
        if self._classes is None:
            known = {one for model in self.models() for one in model.get("classes", ())}
            return np.array(sorted(known))
        return np.array(self._classes)

    def route(self, X: Any) -> NDArray[np.int64]:
        """Return for each row the number of the model that predicts it."""
        return np.array(self._answers(X, "models"), np.int64)

    def novelty(self, X: Any) -> NDArray[np.float64]:
        """Return how unusual each row is to the model that knows it best."""
        return np.array(self._answers(X, "novelty"), np.float64)

    def is_known(self, X: Any) -> NDArray[np.bool_]:
        """Return whether some model knows each row; 5 % of known ones are called unknown."""
        found = self._answers(X, "known")
        if None in found:
            raise ValueError("no model is calibrated yet, so that none can tell what it knows")
        return np.array(found, np.bool_)

    def predict_interval(self, X: Any, coverage: float = 0.9) -> NDArray[np.float64]:
        """Return for each row an interval that holds its number with this probability."""
        found = np.array(self._answers(X, "interval", coverage=coverage), np.float64)
        return np.where(np.isnan(found), [-np.inf, np.inf], found)

    def explain(self, X: Any, y: Any = None) -> dict[str, Any]:
        """Return what kind of change the rows together show, which inputs show it, and a text."""
        rows = rows_of(X, lambda: self.columns)
        body: dict[str, Any] = {"rows": rows, "explain": True}
        if y is not None:
            body["labels"] = listed(y, len(rows), "y")
        return self._ask("POST", self._path("/predict"), body)["explanation"]

    def export(self, to: str, number: int | None = None) -> bytes:
        """Return the models in another form: c, onnx, python, formula, dot, svg or dirad."""
        which = "" if number is None else f"&number={number}"
        return self._send("GET", self._path(f"/export?to={quote(to)}{which}")).content

    def _answers(self, X: Any, what: str, **asked: Any) -> list[Any]:
        return [one for answer in self._predict(X, **asked) for one in _found(answer, what)]

    def _predict(self, X: Any, **asked: Any) -> list[dict[str, Any]]:
        rows = rows_of(X, lambda: self.columns)
        path = self._path("/predict")
        return [self._ask("POST", path, {"rows": rows[part], **asked}) for part in parts_of(rows)]

    # ---------------------------------------------------------------- events

    def events(self, after: int = -1) -> list[dict[str, Any]]:
        """Return the events after a number, oldest first."""
        found: list[dict[str, Any]] = []
        while True:
            path = self._path(f"/events?after={after}")
            part = self._send("GET", path, accept="application/json").json()["events"]
            found += part
            if len(part) < EVENTS:
                return found
            after = part[-1]["number"]

    def follow(self, after: int = -1) -> Iterator[dict[str, Any]]:
        """Yield the events after a number, and those to come, as they happen; never ends.

        A lost connection is opened again, and no event is left out or yielded twice.
        """
        tries = Tries(self.patience)
        while True:
            try:
                for event in self._feed(after):
                    tries = Tries(self.patience)
                    if event is not None:
                        after = event["number"]
                        yield event
                tries.wait(None, "the feed of events has ended")
            except self._away as error:
                tries.wait(None, f"{self.url}: {error}")
            except ClientError as error:
                if error.status not in TRANSIENT:
                    raise
                tries.wait(error.status, error.detail)

    def _feed(self, after: int) -> Iterator[dict[str, Any] | None]:
        """Yield the events of one connection, and None once it is open."""
        headers = {"Accept": "text/event-stream"}
        if after >= 0:
            headers["Last-Event-ID"] = str(after)
        url = self.url + self._path("/events")
        with self._http.stream("GET", url, headers=headers, timeout=QUIET_SECONDS) as answer:
            if answer.status_code != 200:
                answer.read()
                raise ClientError(answer.status_code, detail_of(answer))
            yield None
            for line in answer.iter_lines():
                if line.startswith("data:"):
                    yield json.loads(line[5:])

    # ---------------------------------------------------------------- requests

    def _path(self, rest: str = "") -> str:
        if self.stream is None:
            raise ValueError("name a stream: Client(url, stream=...)")
        return f"/streams/{quote(self.stream, safe='')}{rest}"

    def _ask(self, method: str, path: str, body: Any = None, key: str | None = None) -> Any:
        return self._send(method, path, body, key).json()

    def _send(
        self,
        method: str,
        path: str,
        body: Any = None,
        key: str | None = None,
        accept: str = "*/*",
    ) -> Any:
        """Send a request, again and again if need be, and return the answer."""
        headers = {"Accept": accept}
        content = None
        if body is not None:
            content = json.dumps(body, separators=(",", ":"), allow_nan=False).encode()
            headers["Content-Type"] = "application/json"
        if key is not None:
            headers["Idempotency-Key"] = key
        tries = Tries(self.patience)
        while True:
            try:
                answer = self._http.request(
                    method, self.url + path, content=content, headers=headers
                )
            except self._away as error:
                tries.wait(None, f"{self.url}: {error}")
                continue
            if answer.status_code in TRANSIENT:
                after = answer.headers.get("Retry-After", "")
                tries.wait(answer.status_code, detail_of(answer), after)
            elif answer.is_success:
                return answer
            else:
                raise ClientError(answer.status_code, detail_of(answer))

    # ---------------------------------------------------------------- rows

    @property
    def columns(self) -> list[str]:
        """The names of the stream's columns."""
        if self._columns is None:
            found = self.state()["columns"]
            self._columns = [one if isinstance(one, str) else one["name"] for one in found]
        return self._columns


def _found(answer: dict[str, Any], what: str) -> list[Any]:
    if what not in answer:
        raise ValueError(f"the stream has no {what}: no label was learned yet, or it is a detector")
    return answer[what]
