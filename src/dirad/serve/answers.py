"""What a stream answers: from the last complete state, never waiting for learning."""

import itertools
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dirad.core.network import MODULATORY, OUTPUT, Network
from dirad.estimators.number_stream import NumberAnswers
from dirad.estimators.stream_columns import input_names
from dirad.preval.answers import Answers as ModelAnswers
from dirad.preval.events import Report
from dirad.serve.errors import Conflict, Refused
from dirad.serve.journal import Score
from dirad.serve.learner import finite, progress_of
from dirad.serve.specification import Specification
from dirad.storage.model_file import read_bytes

FALSE_ALARMS = 0.05  # share of the rows of known tasks that are called unknown
NO_MODEL = "there is no model yet: fewer samples than one batch were learned"
_versions = itertools.count(1)
MAX_RUNS = 500  # of batches with the same verdict, that a timeline shows


class Answers:
    """The state of a stream's learner after some record, and what it says of rows."""

    def __init__(self, specification: Specification, state: bytes, is_own: bool = False) -> None:
        file = read_bytes(state, is_own=is_own)  # own: just now from a learning process
        self.specification = specification
        self.progress = progress_of(file)
        self.fitted = file.fitted
        self._answers: Any = file.fitted.answers
        self.state, self.version = state, next(_versions)

    def prepare(self) -> None:
        """Evaluate a row: what takes time once, and no client should wait for, is then done."""
        if self.has_models:
            self.predict(np.zeros((1, len(self.specification.encoder.feature_names))))

    @property
    def system(self) -> Any:
        """The system of models."""
        return self.fitted._stream.system

    @cached_property
    def n_parameters(self) -> int:
        """The parameters of all models: about as many steps take the answer for a row."""
        return sum(int(model.n_parameters) for model in self.system.models)

    @property
    def has_models(self) -> bool:
        """Are there models to ask?"""
        return bool(self.system.models)

    @property
    def can_predict(self) -> bool:
        """Is there a label, or a number, that could be predicted?"""
        if not self.has_models or self.specification.kind == "detector":
            return False
        if self.specification.kind == "regressor":
            return self.system.n_classes > 0
        return len(self._answers.classes_) > 0

    def recognized(
        self, X: NDArray[np.float64], labels: Sequence[Any] | None
    ) -> tuple[dict[str, list[Any]], Score | None]:
        """Return for each row the model that it belongs to, and whether that model knows it.

        The second result is how well the labelled rows would have been predicted; None if they
        cannot be.
        """
        if not self.has_models:
            return unknown(len(X)), None
        with np.errstate(all="ignore"):
            found = self._answers.answer(X, FALSE_ALARMS)
        recognized = {"models": found.route.tolist(), "known": _known(found)}
        return recognized, self._score(found, labels)

    def predict(
        self,
        X: NDArray[np.float64],
        *,
        explain: bool = False,
        labels: list[Any] | None = None,
        coverage: float | None = None,
    ) -> dict[str, Any]:
        """Return the answers for rows, as JSON."""
        if not self.has_models:
            raise Conflict(NO_MODEL)
        with np.errstate(all="ignore"):
            answered = self._answers.answer(X, FALSE_ALARMS)
            found: dict[str, Any] = {
                "models": answered.route.tolist(),
                "known": _known(answered),
                "novelty": [finite(one) for one in answered.novelty],
            }
            if self.can_predict:
                found["predictions"] = self._predicted(answered)
            if self.can_predict and self.specification.kind == "classifier":
                found["classes"] = self._answers.classes_.tolist()
                found["probabilities"] = answered.outputs.tolist()
            if coverage is not None:
                found["interval"] = self._interval(X, coverage)
            if explain:
                found["explanation"] = self._explanation(X, labels)
        return found

    def _predicted(self, answered: ModelAnswers) -> list[Any]:
        if self.specification.kind == "classifier":
            return self._answers.classes_[np.argmax(answered.outputs, axis=1)].tolist()
        return answered.outputs[:, 0].tolist()

    def _score(self, answered: ModelAnswers, labels: Sequence[Any] | None) -> Score | None:
        if labels is None or not self.can_predict:
            return None
        pairs = zip(self._predicted(answered), labels, strict=True)
        pairs = [(one, label) for one, label in pairs if label is not None]
        if not pairs:
            return None
        if self.specification.kind == "regressor":
            total = sum(abs(one - label) for one, label in pairs)
        else:
            total = sum(one == label for one, label in pairs)
        return Score(len(pairs), float(total))

    def models(self, networks: bool = False, only: int | None = None) -> list[dict[str, Any]]:
        """Return what each model is: its number, phase, size, classes and, if wanted, network.

        With `only`, the model of that number alone.
        """
        found = []
        for model in self.system.models:
            if only is not None and model.number != only:
                continue
            one = {
                "number": int(model.number),
                "phase": "stable" if model.phase == "stable" else "learning",
                "edges": int(model.network.n_edges),
                "hidden": int(model.network.n_hidden),
                "parameters": int(model.n_parameters),
            }
            if self.specification.kind != "regressor":
                one["classes"] = [self.fitted._stream.labels[code] for code in model.classes]
            if networks:
                classes = model.classes if self.specification.kind != "regressor" else [0]
                one["network"] = self._network(model.network, classes)
            found.append(one)
        return found

    def _network(self, network: Network, classes: Sequence[int]) -> dict[str, Any]:
        """Return nodes and edges for a drawing; inputs without an edge are left out.

        An edge is its source, its target, its weight, and the term that it enters: 0 or 1.
        """
        edges = network.edges[network.edges["source"] >= 0]
        names = input_names(self.fitted._stream, self.specification.encoder.feature_names)
        labels = self.fitted._stream.labels
        nodes: dict[int, dict[str, Any]] = {}
        for node in edges["source"].tolist():
            if node < network.n_inputs:
                nodes[node] = {"id": node, "kind": "input", "name": str(names[node])}
        for number, unit in enumerate(network.units):
            node = network.n_inputs + number
            if unit["kind"] == OUTPUT:
                code = classes[unit["output"]] if unit["output"] < len(classes) else 0
                nodes[node] = {"id": node, "kind": "output", "name": str(labels[code])}
            elif unit["kind"] == MODULATORY:
                nodes[node] = {"id": node, "kind": "hidden", "name": f"h{number}"}
        drawn = [
            [
                int(one["source"]),
                network.n_inputs + int(one["term"]) // 2,
                float(one["weight"]),
                int(one["term"]) % 2,
            ]
            for one in edges
        ]
        return {"nodes": list(nodes.values()), "edges": drawn}

    def timeline(self) -> list[dict[str, Any]]:
        """Return the runs of batches with the same verdict and model, oldest first."""
        names = input_names(self.fitted._stream, self.specification.encoder.feature_names)
        runs: list[dict[str, Any]] = []
        for report in self.system.journal.reports:
            run = _run(report, names)
            if runs and all(runs[-1][key] == run[key] for key in ("kind", "cause", "model")):
                runs[-1]["last"] = report.batch
            else:
                runs.append(run)
        return runs[-MAX_RUNS:]

    def _interval(self, X: NDArray[np.float64], coverage: float) -> list[list[float | None]]:
        if not isinstance(self._answers, NumberAnswers):
            raise Refused(f"a {self.specification.kind} has no intervals")
        ends = self._answers.predict_interval(X, coverage).tolist()
        return [[finite(low), finite(high)] for low, high in ends]

    def _explanation(self, X: NDArray[np.float64], labels: list[Any] | None) -> dict[str, Any]:
        """Say what kind of change the rows together show."""
        names = input_names(self.fitted._stream, self.specification.encoder.feature_names)
        try:
            found = self.fitted.build().explain(X, labels)
        except ValueError as error:
            raise Refused(f"no explanation: {error}") from None
        changed = [
            {"name": str(names[one.input])}
            | {key: finite(value) for key, value in one._asdict().items() if key != "input"}
            for one in found.inputs
        ]
        p = finite(found.p)
        facts = {"kind": found.kind, "model": int(found.model), "p": p, "inputs": changed}
        return facts | {"text": found.text(names)}


def _known(answered: ModelAnswers) -> list[bool | None]:
    """Return whether some model knows each row; None while no model can tell."""
    return [None] * len(answered.route) if answered.known is None else answered.known.tolist()


def unknown(rows: int) -> dict[str, list[Any]]:
    """Return what is recognized as long as there is no model."""
    return {"models": [None] * rows, "known": [None] * rows}


def _run(report: Report, names: Sequence[str]) -> dict[str, Any]:
    return {
        "first": report.batch,
        "last": report.batch,
        "kind": report.kind,
        "cause": report.cause,
        "model": int(report.model),
        "text": report.text(names),
    }
