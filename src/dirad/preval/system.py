"""Many models, one stream, no task labels: what the paper's system and ours have in common.

`StreamSystem` is the paper's, `BufferSystem` ours; `new_system` chooses by the settings. Both take
batches, open models, and send each sample to the model that knows it best.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy, deepcopy
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from dirad.core.random import bits
from dirad.preval.asking import Asking, ask_in_turn
from dirad.preval.events import Event, Report
from dirad.preval.model import STABLE, Model, Verdict
from dirad.preval.settings import Settings

MODEL = 100  # purpose of the random key of a model
MAX_EVENTS = 10_000  # events, and reports, that are kept: the last ones
MAX_UNITS = 1e100  # inputs are clipped to this many units before they are answered

M = TypeVar("M", bound=Model)


class System(ABC, Generic[M]):
    """The models, and the flow of batches and samples among them."""

    asking: Asking = staticmethod(ask_in_turn)  # models that live elsewhere are asked all at once

    def __init__(
        self, n_inputs: int, n_classes: int, settings: Settings, *, seed: int = 0, threads: int = 1
    ) -> None:
        self.n_inputs = n_inputs
        self.n_classes = n_classes  # known so far; only the paper's models need to know all
        self.settings = settings
        self.seed = seed
        self.threads = threads
        self.models: list[M] = []
        self.events: list[Event] = []
        self.reports: list[Report] = []  # one per batch
        self.batches = 0  # seen
        self.samples = 0  # seen
        self.opened = 0  # models, those that are gone included
        self._latest: int | None = None  # the model that took the last batch

    # ---------------------------------------------------------------- models

    @property
    def unfinished(self) -> list[M]:
        """The models that are not stable yet: with the paper's settings one at most."""
        return [model for model in self.models if model.phase != STABLE]

    @property
    def adapting(self) -> M | None:
        """The newest model that is not stable yet, if there is one."""
        unfinished = self.unfinished
        return unfinished[-1] if unfinished else None

    @property
    def stable(self) -> list[M]:
        """The models that adapt no more."""
        return [model for model in self.models if model.phase == STABLE]

    @property
    def judges(self) -> list[M]:
        """The models that have an opinion of batches and samples."""
        return [model for model in self.models if model.has_opinion]

    @property
    def latest(self) -> M:
        """The model that took the last batch."""
        if self._latest is None:
            raise ValueError("no batch was seen yet, or its model was removed")
        return self.model(self._latest)

    def model(self, number: int) -> M:
        """Return a model by its number, which it keeps for life."""
        for model in self.models:
            if model.number == number:
                return model
        raise ValueError(f"there is no model {number}: it was removed, or never opened")

    @property
    def n_parameters(self) -> int:
        """Every number that the models keep."""
        return sum(model.n_parameters for model in self.models)

    def open_model(self, evidence: dict[str, Any] | None = None) -> M:
        """Open a model for the task of the next batch, whatever the others say of it."""
        number = self.opened
        self.opened += 1
        model = self._new_model(number, int(bits(self.seed, MODEL, 0, number)) % 2**62)
        self.models.append(model)
        self._record("opened", number, evidence)
        self._latest = number
        return model

    @abstractmethod
    def _new_model(self, number: int, seed: int) -> M: ...

    def remove(self, number: int, evidence: dict[str, Any] | None = None) -> None:
        """Give up a model; all others stay as they are, and so does what they stand on."""
        self.model(number)  # an unknown one is an error, and leaves all as it was
        self._record("removed", number, evidence)
        self._drop(number)

    def _drop(self, number: int) -> None:
        """Take a model out of all that knows it."""
        self.models.remove(self.model(number))
        if self._latest == number:
            self._latest = self.models[-1].number if self.models else None

    # ---------------------------------------------------------------- learning

    @abstractmethod
    def learn(self, X: NDArray, y: NDArray[np.int64], *, until_stable: bool = False) -> int:
        """Take whole batches, in order; return how many samples were taken.

        X is (n, inputs), y are class codes from 0. A rest that makes no batch is left, and with
        `until_stable` also all that comes after no model is adapting any more.
        """

    @abstractmethod
    def finish(self, X: NDArray, y: NDArray[np.int64]) -> None:
        """Bring all adapting models to stability now, with the data at hand.

        X and y are what is left of the stream: fewer samples than a batch, or none.
        """

    def label(self, numbers: NDArray[np.int64], y: NDArray[np.int64]) -> int:
        """Take labels that came late; return how many found their sample still there.

        Samples are numbered as they were taken, from 0.
        """
        raise ValueError("the paper's models keep no samples that a late label could belong to")

    def judge(self, X: NDArray, y: NDArray[np.int64] | None = None) -> list[Verdict]:
        """Return what each model that has an opinion says of a batch."""
        return self._ask(self.judges, "judge", X, y)

    def _count(self, y: NDArray[np.int64]) -> None:
        """Count samples that were taken."""
        self.samples += len(y)
        self.n_classes = max(self.n_classes, int(y.max(initial=-1)) + 1)

    def _report(self, kind: str, model: int, p: float) -> None:
        self.reports.append(Report(self.batches, kind, model, p))
        del self.reports[:-MAX_EVENTS]
        self.batches += 1

    def _record(self, kind: str, model: int, evidence: dict[str, Any] | None = None) -> None:
        """Record an event; of very many the last are kept."""
        self.events.append(Event(self.batches, kind, model, evidence or {}))
        del self.events[:-MAX_EVENTS]

    def _record_phase(self, model: M, before: str) -> bool:
        """Note that a model entered another phase; did it?"""
        if model.phase == before:
            return False
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
        self._record(kind, model.number, evidence)
        return True

    # ---------------------------------------------------------------- answers

    def _ask(self, models: Sequence[M], question: str, *args: Any) -> list[Any]:
        """Return the answers of models to the same question."""
        return self.asking(models, question, [args] * len(models))

    def working_copy(self) -> Self:
        """Return a copy to learn on, by which nothing in this one changes.

        What never changes is shared: stable models, and what adapting ones are built on.
        """
        result = copy(self)
        result.models = deepcopy(self.models, self._unchanging())
        result.events, result.reports = list(self.events), list(self.reports)
        return result

    def _unchanging(self) -> dict[int, Any]:
        """Return what all copies share, by identity, as `deepcopy` takes it."""
        return {id(part): part for part in (self.settings, *self.stable)}

    @property
    def units(self) -> NDArray[np.float64] | float:
        """The units of the inputs, by which too large ones are told."""
        return 1.0

    def bounded(self, X: NDArray) -> NDArray:
        """Return inputs that the arithmetic of answers can hold; ordinary ones are as they were."""
        with np.errstate(over="ignore"):
            limit = MAX_UNITS * np.asarray(self.units)
        return np.clip(X, -limit, limit)

    def _opinions(self) -> list[M]:
        judges = self.judges
        if not judges:
            raise ValueError("no model has an opinion yet, so none can tell what it knows")
        return judges

    def scores(self, X: NDArray) -> NDArray[np.float64]:
        """Return how little each model with an opinion knows each sample: (samples, judges)."""
        return np.stack(self._ask(self._opinions(), "score", X), axis=1)

    def route(self, X: NDArray) -> NDArray[np.int64]:
        """Return the number of the model that answers each sample.

        The least score; of equals, which with the paper's settings are 5 to 10 % at T_CP = 0.05,
        the newest (the oldest instead costs about 0.02 of accuracy after three tasks).
        """
        judges = self.judges
        if not judges:
            return np.full(len(X), self.latest.number)
        newest_first = np.array([model.number for model in judges[::-1]])
        return newest_first[np.argmin(self.scores(X)[:, ::-1], axis=1)]

    def novelty(self, X: NDArray) -> NDArray[np.float64]:
        """Return how new each sample is to the model that it is least new to."""
        return np.min(self._ask(self._opinions(), "novelty", X), axis=0)

    def is_known(self, X: NDArray, false_alarms: float) -> NDArray[np.bool_]:
        """Return whether some model with an opinion knows each sample.

        `false_alarms` is the share of a model's own samples that it takes for unknown.
        """
        return np.any(self._ask(self._opinions(), "knows", X, false_alarms), axis=0)

    def conflicts(self, X: NDArray) -> NDArray[np.bool_]:
        """Return which inputs contradict the prediction of each sample's model."""
        self._opinions()
        route = self.route(X)
        result = np.zeros((len(X), self.n_inputs), bool)
        for number in np.unique(route):
            chosen = route == number
            result[chosen] = self.model(number).conflicted(X[chosen])[:, : self.n_inputs]
        return result

    def probabilities(self, X: NDArray) -> NDArray[np.float64]:
        """Return the probability of every class: (samples, classes), by each sample's model.

        A model that has no classes yet leaves the answer to the one of the others that knows the
        sample best; where there is none, all classes are as probable.
        """
        route = self.route(X)
        result = np.full((len(X), self.n_classes), 1.0 / max(self.n_classes, 1))
        able = [model for model in self.judges if model.classes]
        for number in np.unique(route):
            chosen, model = np.flatnonzero(route == number), self.model(number)
            if model.classes:
                self._answer(model, X, chosen, result)
            elif able:
                best = np.argmin([other.score(X[chosen]) for other in able], axis=0)
                for i, other in enumerate(able):
                    self._answer(other, X, chosen[best == i], result)
        return result

    @staticmethod
    def _answer(model: M, X: NDArray, chosen: NDArray[np.int64], result: NDArray) -> None:
        if len(chosen):
            result[chosen] = 0.0
            result[np.ix_(chosen, np.array(model.classes))] = model.probabilities(X[chosen])
