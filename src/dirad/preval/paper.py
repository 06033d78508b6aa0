"""The paper's PREVAL: the flow of batches and samples among models.

While a model is trained it takes every batch. When all are stable, a batch goes to the validated
model with the lowest share of invalid samples; if no model validates it, a new task has begun and a
new model is opened.
"""

from copy import copy, deepcopy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dirad.core.random import bits
from dirad.preval.answers import Answers, conflicted_inputs
from dirad.preval.events import (
    KNOWN,
    LEARNING,
    NEW,
    Journal,
    Verdict,
    closest_verdicts,
    network_sizes,
)
from dirad.preval.expert import find_model
from dirad.preval.input_units import MAX_UNITS
from dirad.preval.paper_model import PaperExpert, PaperLearner, new_paper_learner
from dirad.preval.settings import Settings
from dirad.preval.system import MODEL_KEY


class PaperSystem:
    """The models, and the flow of batches and samples among them."""

    def __init__(
        self, n_inputs: int, n_classes: int, settings: Settings, *, seed: int = 0, threads: int = 1
    ) -> None:
        self.n_inputs = n_inputs
        self.n_classes = n_classes
        self.settings = settings
        self.seed = seed
        self.threads = threads
        self.models: list[PaperLearner | PaperExpert] = []  # oldest first
        self.journal = Journal()
        self.opened = 0  # models, removed ones included
        self.latest: int | None = None  # the model that took the last batch

    # ---------------------------------------------------------------- models

    @property
    def learners(self) -> list[PaperLearner]:
        """The model that is still trained, if there is one."""
        return [model for model in self.models if isinstance(model, PaperLearner)]

    @property
    def experts(self) -> list[PaperExpert]:
        """The models that are finished."""
        return [model for model in self.models if isinstance(model, PaperExpert)]

    calibrated = experts

    @property
    def adapting(self) -> PaperLearner | None:
        """The model that is still trained, if there is one."""
        return next(reversed(self.learners), None)

    def model(self, number: int) -> PaperLearner | PaperExpert:
        """Return a model by its number, which never changes."""
        return find_model(self.models, number)

    @property
    def n_parameters(self) -> int:
        """Every number that the models keep."""
        return sum(model.n_parameters for model in self.models)

    def working_copy(self) -> Self:
        """Return a copy to learn on, so that nothing in this one changes; experts are shared."""
        result = copy(self)
        result.models = deepcopy(self.models)
        result.journal = self.journal.copy()
        return result

    def open_model(self, evidence: dict[str, Any] | None = None) -> PaperLearner:
        """Open a model for the task of the next batch, whatever the others say of it."""
        number = self.opened
        self.opened += 1
        seed = int(bits(self.seed, MODEL_KEY, 0, number)) % 2**62
        model = new_paper_learner(number, self.n_inputs, self.n_classes, self.settings, seed)
        self.models.append(model)
        self.journal.record("opened", number, evidence)
        self.latest = number
        return model

    def remove(self, number: int, evidence: dict[str, Any] | None = None) -> None:
        """Remove a model; all others stay as they are."""
        model = self.model(number)
        self.journal.record("removed", number, evidence)
        self.models.remove(model)
        if self.latest == number:
            self.latest = self.models[-1].number if self.models else None

    # ---------------------------------------------------------------- learning

    def learn(self, X: NDArray, y: NDArray[np.int64], *, stop_when_stable: bool = False) -> int:
        """Learn whole batches in order; return how many samples were taken.

        X is (n, inputs), y are class codes from 0. Samples that do not fill a batch are left. With
        `stop_when_stable`, learning stops when no model is trained any more.
        """
        size = self.settings.l0.batch_size
        start = 0
        while start + size <= len(X):
            start += size * self._take_batches_of_one_phase(X[start:], y[start:])
            if stop_when_stable and self.adapting is None:
                break
        return start

    def _take_batches_of_one_phase(self, X: NDArray, y: NDArray[np.int64]) -> int:
        """Take as many batches as one model's phase needs, or one; return how many."""
        size = self.settings.l0.batch_size
        model, kind = self.adapting, LEARNING
        if model is None:
            model, kind = self._open_if_new(X[:size]), NEW
        if model is None:
            assert self.latest is not None  # `_open_if_new` set it
            self.journal.report(KNOWN, self.latest)
            self._count_samples_and_classes(y[:size])
            return 1
        before = model.phase
        used, expert = model.learn(X, y, self.threads)
        for i in range(used):
            self.journal.report(kind if i == 0 else LEARNING, model.number)
        self._after_training(model, before, expert)
        self._count_samples_and_classes(y[: used * size])
        return used

    def _open_if_new(self, batch: NDArray) -> PaperLearner | None:
        """Return a new model where no expert validates the batch; else None."""
        verdicts = self.judge(batch)
        known = [v for v in verdicts if v.validated]
        if not known:
            return self.open_model(closest_verdicts(verdicts))
        best = min(known, key=lambda v: v.value)  # of equals the oldest
        if best.model != self.latest:
            self.journal.record("chosen", best.model, closest_verdicts(verdicts))
        self.latest = best.model
        return None

    def _after_training(self, model: PaperLearner, before: str, expert: PaperExpert | None) -> None:
        """Record a change of phase; put the expert in the place of a learner that is done."""
        if expert is not None:
            self.models[self.models.index(model)] = expert
            self.journal.record("stable", model.number, network_sizes(expert))
        elif model.phase != before:
            self.journal.record("L0 stable", model.number, network_sizes(model))

    def _count_samples_and_classes(self, y: NDArray[np.int64]) -> None:
        self.journal.samples += len(y)
        self.n_classes = max(self.n_classes, int(y.max(initial=-1)) + 1)

    def judge(self, X: NDArray, y: NDArray[np.int64] | None = None) -> list[Verdict]:
        """Return what each expert says of a batch; labels are not used."""
        return [model.verdict(model.evaluate(X).score) for model in self.experts]

    def label(self, numbers: NDArray[np.int64], y: NDArray[np.int64]) -> int:
        """Refuse labels that came late."""
        raise ValueError("the paper's models keep no samples that a late label could belong to")

    def finish(self, X: NDArray, y: NDArray[np.int64]) -> None:
        """Finish the training of the model now; X and y are the rest of the stream, if any."""
        if len(X):
            model = self.adapting or self._open_if_new(X)
            if model is not None:
                model.keep_if_empty(X, y)
            self._count_samples_and_classes(y)
        while (model := self.adapting) is not None:
            before = model.phase
            self._after_training(model, before, model.finish_phase(self.threads))

    # ---------------------------------------------------------------- answers

    def clipped_to_float64(self, X: NDArray) -> NDArray:
        """Return inputs clipped to what float64 arithmetic can hold; ordinary ones unchanged."""
        return np.clip(X, -MAX_UNITS, MAX_UNITS)

    def answer(self, X: NDArray, false_alarms: float | None = None) -> Answers:
        """Return route, class probabilities and novelty of samples, in one pass.

        With a rate of false alarms, which the paper does not have, also what `is_known` says.

        The lowest conflict ratio decides; of equals, which are 5 to 10 % of samples at
        T_CP = 0.05, the newest model (the oldest instead costs about 0.02 of accuracy after three
        tasks).
        """
        experts = self.experts
        result = np.full((len(X), self.n_classes), 1.0 / max(self.n_classes, 1))
        if not experts:
            if self.latest is None:
                raise ValueError("no batch was seen yet, or its model was removed")
            model = self.model(self.latest)
            assert isinstance(model, PaperLearner)  # there is no expert
            result[:, list(model.classes)] = model.probabilities(X)
            return Answers(np.full(len(X), model.number), result, np.full(len(X), np.inf))
        scores = [model.evaluate(X) for model in experts]
        ratios = np.stack([one.score for one in scores], axis=1)
        best = len(experts) - 1 - np.argmin(ratios[:, ::-1], axis=1)
        for i, (model, one) in enumerate(zip(experts, scores, strict=True)):
            rows = np.flatnonzero(best == i)
            result[np.ix_(rows, np.array(model.classes, np.int64))] = one.outputs[rows]
        numbers = np.array([model.number for model in experts])
        known = None if false_alarms is None else self.is_known(X, false_alarms)
        return Answers(numbers[best], result, ratios.min(axis=1), known)

    def scores(self, X: NDArray) -> NDArray[np.float64]:
        """Return the conflict ratio by each expert: (samples, experts)."""
        return np.stack([m.evaluate(X).score for m in self._require_experts()], axis=1)

    def novelty(self, X: NDArray) -> NDArray[np.float64]:
        """Return the lowest conflict ratio of each sample."""
        self._require_experts()
        return self.answer(X).novelty

    def is_known(self, X: NDArray, false_alarms: float) -> NDArray[np.bool_]:
        """Return whether some expert validates each sample; the paper has no false-alarm rate."""
        return np.any([model.knows(X) for model in self._require_experts()], axis=0)

    def conflicted_inputs(self, X: NDArray) -> NDArray[np.bool_]:
        """Return which inputs contradict the prediction by each sample's model."""
        self._require_experts()
        return conflicted_inputs(self.answer(X).route, self.models, X)

    def _require_experts(self) -> list[PaperExpert]:
        experts = self.experts
        if not experts:
            raise ValueError("no model is stable yet, so that none can tell what it knows")
        return experts
