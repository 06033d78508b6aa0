"""Many models, one stream, no task labels: who takes a batch, who answers a sample.

While a model adapts it takes every batch. When all are stable, the batch goes to the validated
model with the least share of invalid samples; if none is validated, a new task has begun and a
new model is opened. Samples to be answered go, one by one, to the model with the least share of
conflicted nodes; of equals, which are 5 to 10 % at T_CP = 0.05, to the newest (the oldest
instead costs about 0.02 of accuracy after three tasks).
"""

import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dirad.core.random import bits
from dirad.preval.model import STABLE, BufferModel, Model, StreamModel, Verdict
from dirad.preval.settings import Settings

MODEL = 100  # purpose of the random key of a model
UNUSUAL = 1.5  # novelty above which a sample is left to the model that is still adapting


def cores() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class Event:
    """Something that happened to the system, and why."""

    batch: int  # batches seen before it
    kind: str  # "opened", "L0 stable", "stable", "chosen"
    model: int
    evidence: dict[str, Any] = field(default_factory=dict)


class System:
    """The models, and the flow of batches and samples among them."""

    def __init__(
        self, n_inputs: int, n_classes: int, settings: Settings, *, seed: int = 0, threads: int = 1
    ) -> None:
        self.n_inputs = n_inputs
        self.n_classes = n_classes  # known so far; only the paper's models need to know all
        self.settings = settings
        self.seed = seed
        self.threads = threads
        self.models: list[Model] = []
        self.events: list[Event] = []
        self.batches = 0  # seen
        self.unit = 1.0  # of the inputs: their spread in the first batch, for scores
        self._latest: int | None = None  # the model that took the last batch

    @property
    def adapting(self) -> Model | None:
        """The model that is not stable yet, if there is one: always the latest."""
        return self.models[-1] if self.models and self.models[-1].phase != STABLE else None

    @property
    def stable(self) -> list[Model]:
        """The models that can validate."""
        return [model for model in self.models if model.phase == STABLE]

    @property
    def latest(self) -> Model:
        """The model that took the last batch."""
        if self._latest is None:
            raise ValueError("no batch was seen yet")
        return self.models[self._latest]

    @property
    def n_parameters(self) -> int:
        """Every number that the models keep."""
        return sum(model.n_parameters for model in self.models)

    def judge(self, X: NDArray) -> list[Verdict]:
        """Return what each stable model says of a batch."""
        return [model.judge(X) for model in self.stable]

    def learn(self, X: NDArray, y: NDArray[np.int64], *, until_stable: bool = False) -> int:
        """Take whole batches, in order; return how many samples were taken.

        X is (n, inputs), y are class codes from 0. A rest that makes no batch is left, and with
        `until_stable` also all that comes after no model is adapting any more.
        """
        size = self.settings.l0.batch_size
        start = 0
        while start + size <= len(X):
            model = self.adapting
            if model is None:
                model = self._choose(X[start : start + size])
            if model is None:
                self.batches += 1
                start += size
            else:
                start += size * self._adapt(model, X[start:], y[start:])
            if until_stable and self.adapting is None:
                break
        if start:
            self.n_classes = max(self.n_classes, int(y[:start].max()) + 1)
        return start

    def _choose(self, batch: NDArray) -> Model | None:
        """Return a new model where no stable one knows the batch, else None: it is processed."""
        verdicts = self.judge(batch)
        evidence = {"value": [v.value for v in verdicts], "limit": [v.limit for v in verdicts]}
        known = [v for v in verdicts if v.validated]
        if known:
            best = min(known, key=lambda v: v.value)  # of equals the oldest
            if best.model != self._latest:
                self.events.append(Event(self.batches, "chosen", best.model, evidence))
            self._latest = best.model
            return None
        return self.open_model(batch, evidence)

    def open_model(self, batch: NDArray, evidence: dict[str, Any] | None = None) -> Model:
        """Open a model for the task of this batch, whatever the others say of it."""
        number = len(self.models)
        seed = int(bits(self.seed, MODEL, 0, number)) % 2**62
        model: Model
        if self.settings.buffer_size:
            if number == 0:
                self.unit = float(np.sqrt(np.mean(np.var(batch, axis=0)))) or 1.0
            model = BufferModel(number, self.n_inputs, self.settings, seed, self.unit)
        else:
            model = StreamModel(number, self.n_inputs, self.n_classes, self.settings, seed)
        self.models.append(model)
        self.events.append(Event(self.batches, "opened", number, evidence or {}))
        self._latest = number
        return model

    def _adapt(self, model: Model, X: NDArray, y: NDArray[np.int64]) -> int:
        """Let a model adapt to as many batches as its phase needs; return how many it used."""
        before = model.phase
        used = model.learn(X, y, self.threads)
        self.batches += used
        if model.phase != before:
            self._record_phase(model)
        return used

    def _record_phase(self, model: Model) -> None:
        network = model.network
        evidence: dict[str, Any] = {"edges": network.n_edges, "hidden": network.n_hidden}
        if model.phase == STABLE and model.known is not None and model.l1 is not None:
            grown = model.l1.network
            evidence |= {
                "confident": len(model.known.mean),
                "R_IS": model.known.invalid_share,
                "L1_edges": grown.n_edges if grown is not None else 0,
            }
        kind = "stable" if model.phase == STABLE else "L0 stable"
        self.events.append(Event(self.batches, kind, model.number, evidence))

    def finish(self, X: NDArray, y: NDArray[np.int64]) -> None:
        """Bring an adapting model to stability now, with the data at hand.

        X and y are what is left of the stream: fewer samples than a batch, or none.
        """
        if len(X):
            self.n_classes = max(self.n_classes, int(y.max()) + 1)
            model = self.adapting or self._choose(X)
            if model is not None:
                model.keep(X, y)
        while (model := self.adapting) is not None:
            model.finish(self.threads)
            self._record_phase(model)

    # ---------------------------------------------------------------- answers

    def scores(self, X: NDArray) -> NDArray[np.float64]:
        """Return how little each stable model knows each sample: (samples, stable models)."""
        if not self.stable:
            return np.zeros((len(X), 0))
        return np.stack([model.score(X) for model in self.stable], axis=1)

    def route(self, X: NDArray) -> NDArray[np.int64]:
        """Return the number of the model that answers each sample: of equals, the newest.

        A model that still adapts cannot be compared. It answers while there is no other, and
        (ours) what is new to all others.
        """
        if not self.models:
            raise ValueError("the system has no model yet: it has not seen a whole batch")
        if not self.stable:
            return np.zeros(len(X), np.int64)
        scores = self.scores(X)
        newest_first = [model.number for model in self.stable[::-1]]
        result = np.array(newest_first)[np.argmin(scores[:, ::-1], axis=1)]
        if self.settings.buffer_size and self.adapting is not None:
            result[self._novelty(scores) > UNUSUAL] = self.adapting.number
        return result

    def novelty(self, X: NDArray) -> NDArray[np.float64]:
        """Return how new each sample is to the model that it is least new to."""
        if not self.stable:
            raise ValueError("no model is stable yet, so none can tell what is new")
        return self._novelty(self.scores(X))

    def _novelty(self, scores: NDArray) -> NDArray[np.float64]:
        each = [model.unusual(column) for model, column in zip(self.stable, scores.T, strict=True)]
        return np.min(each, axis=0)

    def conflicts(self, X: NDArray) -> NDArray[np.bool_]:
        """Return which inputs contradict the prediction of each sample's model."""
        route = self.route(X)
        result = np.zeros((len(X), self.n_inputs), bool)
        for number in np.unique(route):
            model = self.models[number]
            if model.phase == STABLE:
                chosen = route == number
                result[chosen] = model.conflicted(X[chosen])[:, : self.n_inputs]
        return result

    def probabilities(self, X: NDArray) -> NDArray[np.float64]:
        """Return the probability of every class: (samples, classes), by each sample's model."""
        route = self.route(X)
        result = np.zeros((len(X), self.n_classes))
        for number in np.unique(route):
            chosen, model = np.flatnonzero(route == number), self.models[number]
            result[np.ix_(chosen, model.classes)] = model.probabilities(X[chosen])
        return result
