"""Many models, one stream, no task labels: who takes a batch, who answers a sample.

While a model adapts it takes every batch. When all are stable, the batch goes to the validated
model with the least share of invalid samples; if none is validated, a new task has begun and a
new model is opened. Samples to be answered go, one by one, to the model with the least share of
conflicted nodes; of equals, to the oldest.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dirad.core.random import bits
from dirad.preval.model import STABLE, Model, Verdict
from dirad.preval.settings import Settings

MODEL = 100  # purpose of the random key of a model


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
        self, n_inputs: int, n_outputs: int, settings: Settings, *, seed: int = 0, threads: int = 1
    ) -> None:
        self.n_inputs = n_inputs
        self.n_outputs = n_outputs
        self.settings = settings
        self.seed = seed
        self.threads = threads
        self.models: list[Model] = []
        self.events: list[Event] = []
        self.batches = 0  # seen
        self.last: tuple[NDArray, NDArray] | None = None  # the last batch an adapting model took
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
    def n_parameters(self) -> int:
        """Every number that the models keep."""
        return sum(model.n_parameters for model in self.models)

    def judge(self, X: NDArray) -> list[Verdict]:
        """Return what each stable model says of a batch."""
        return [model.judge(X) for model in self.stable]

    def learn(self, X: NDArray, targets: NDArray) -> None:
        """Take whole batches, in order. X is (n, inputs), targets are (n, outputs)."""
        size = self.settings.l0.batch_size
        start = 0
        while start + size <= len(X):
            model = self.adapting
            if model is None:
                model = self._choose(X[start : start + size])
            if model is None:
                self.batches += 1
                start += size
                continue
            start += size * self._adapt(model, X[start:], targets[start:])

    def _choose(self, batch: NDArray) -> Model | None:
        """Return a new model where no stable one knows the batch, else None: it is processed."""
        verdicts = self.judge(batch)
        evidence = {
            "invalid_share": [v.invalid_share for v in verdicts],
            "limit": [v.limit for v in verdicts],
        }
        known = [v for v in verdicts if v.validated]
        if known:
            best = min(known, key=lambda v: v.invalid_share)  # of equals the oldest
            if best.model != self._latest:
                self.events.append(Event(self.batches, "chosen", best.model, evidence))
            self._latest = best.model
            return None
        number = len(self.models)
        seed = int(bits(self.seed, MODEL, 0, number)) % 2**62
        model = Model(number, self.n_inputs, self.n_outputs, self.settings, seed)
        self.models.append(model)
        self.events.append(Event(self.batches, "opened", number, evidence))
        self._latest = number
        return model

    def _adapt(self, model: Model, X: NDArray, targets: NDArray) -> int:
        """Let a model adapt to as many batches as it needs; return how many it used."""
        size = self.settings.l0.batch_size
        used, n_batches = 0, len(X) // size
        while used < n_batches and model.phase != STABLE:
            before = model.phase
            # One phase at a time, so that each event has its batch.
            taken = model.learn(X[used * size :], targets[used * size :], self.threads)
            used += taken
            self.batches += taken
            if model.phase != before:
                self._record_phase(model)
        last = slice((used - 1) * size, used * size)
        self.last = (X[last].copy(), targets[last].copy())
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

    def finish(self) -> None:
        """Bring an adapting model to stability now, on the last batch it took."""
        model = self.adapting
        if model is None or self.last is None:
            return
        if model.l1 is None:
            model.finish_l0(self.last[0])
            self._record_phase(model)
        model.finish_l1(self.last[0], self.threads)
        self._record_phase(model)

    # ---------------------------------------------------------------- answers

    def ratios(self, X: NDArray) -> NDArray[np.float64]:
        """Return the share of conflicted nodes per sample and stable model: (samples, models)."""
        if not self.stable:
            return np.zeros((len(X), 0))
        return np.stack([model.conflict_ratio(X) for model in self.stable], axis=1)

    def route(self, X: NDArray) -> NDArray[np.int64]:
        """Return the number of the model that answers each sample.

        A model without L1 cannot be compared: it answers only while there is no other.
        """
        if not self.models:
            raise ValueError("the system has no model yet: it has not seen a whole batch")
        if not self.stable:
            return np.zeros(len(X), np.int64)
        numbers = np.array([model.number for model in self.stable])
        return numbers[np.argmin(self.ratios(X), axis=1)]

    def respond(self, X: NDArray) -> NDArray[np.float64]:
        """Return the outputs of the model that each sample is routed to: (samples, outputs)."""
        route = self.route(X)
        result = np.empty((len(X), self.n_outputs))
        for number in np.unique(route):
            chosen = route == number
            result[chosen] = self.models[number].respond(X[chosen])
        return result
