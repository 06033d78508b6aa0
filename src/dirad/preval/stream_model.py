"""The paper's model: all outputs from the start, a batch is a step, only the last is kept."""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from dirad.core.network import LOGISTIC
from dirad.growth.adapt import Adaptation, Desk, new_data
from dirad.growth.state import new_state
from dirad.preval.model import Model, Verdict
from dirad.preval.prediction import Prediction
from dirad.preval.settings import Settings
from dirad.preval.validation import batch_limit, confident, conflict_ratio, invalid, statistics

MANY_STEPS = 100  # taken at a time when a model is finished at once


class StreamModel(Model):
    """The paper's: all outputs from the start, a batch is a step, and none is kept but the last."""

    def __init__(
        self, number: int, n_inputs: int, n_classes: int, settings: Settings, seed: int
    ) -> None:
        super().__init__(number, settings, seed)
        self.classes = list(range(n_classes))
        state = new_state(n_inputs, n_classes, transfer=LOGISTIC, seed=seed)
        self.l0 = Adaptation(state, settings.l0)
        self.network = state.network
        self.temperature = 1.0  # by which answers are calibrated
        self.last = np.zeros((0, n_inputs)), np.zeros(0, np.int64)  # the last batch

    def learn(self, X: NDArray, y: NDArray[np.int64], threads: int = 1) -> int:
        """Adapt to whole batches, in order, until the phase changes; return how many were used."""
        size = self.settings.l0.batch_size
        whole = slice(len(X) // size * size)
        X, y = X[whole], y[whole]
        used = self._advance_l0(X, y) if self.l1 is None else self.l1.advance(X, threads)
        last = slice((used - 1) * size, used * size)
        self.last = X[last].copy(), y[last].copy()
        if self.l1 is None and self.l0.stable:
            self._begin_l1()
        elif self.l1 is not None and self.l1.stable:
            self._stabilize()
        return used

    def _advance_l0(self, X: NDArray, y: NDArray[np.int64]) -> int:
        before = self.l0.state.step
        targets = np.eye(len(self.classes))[y]
        data = new_data(X, targets, self.settings.l0, first=before)
        until = before + len(X) // self.settings.l0.batch_size
        self.history.extend(self.l0.advance(data, until, Desk(self.settings.l0, len(X))))
        self.network = self.l0.state.network
        return self.l0.state.step - before

    def _begin_l1(self) -> None:
        X, y = self.last
        self.temperature = best_temperature(self.respond(X), y)
        self.l1 = Prediction(self.network, X, self.settings, self.seed)

    def _stabilize(self) -> None:
        """Decide, on one common last batch, what is confidently predicted and what is usual."""
        assert self.l1 is not None
        errors = self.l1.all_errors(self.last[0])
        chosen = confident(errors, self.settings.T_CP)
        self.l1.keep(chosen)
        self.known = statistics(errors[:, chosen], self.settings.T_conf, self.settings.T_SV)
        self.last = np.zeros((0, self.network.n_inputs)), np.zeros(0, np.int64)

    def keep(self, X: NDArray, y: NDArray[np.int64]) -> None:
        """Take samples that make no whole batch, if there are no others."""
        if not len(self.last[0]):
            self.last = X.copy(), y.copy()

    def finish(self, threads: int = 1) -> None:
        """Go on until the phase ends, on the last batch, again and again."""
        phase = self.phase
        size = self.settings.l0.batch_size
        while self.phase == phase:
            # A batch too short is filled up with itself.
            whole = np.resize(np.arange(len(self.last[0])), size)
            repeated = np.tile(whole, MANY_STEPS)
            self.learn(self.last[0][repeated], self.last[1][repeated], threads)

    def probabilities(self, X: NDArray) -> NDArray[np.float64]:
        """Return L0's outputs as probabilities: calibrated, then made to add up to 1."""
        answers = tempered(self.respond(X), self.temperature)
        return answers / np.maximum(answers.sum(axis=1, keepdims=True), 1e-300)

    def judge(self, X: NDArray, y: NDArray[np.int64] | None = None) -> Verdict:
        return self.verdict(self.score(X))

    def verdict(self, ratio: NDArray[np.float64]) -> Verdict:
        """Return what the model says of a batch, given N_conf / N_CP of its samples."""
        assert self.known is not None
        bad = ratio >= self.settings.T_SV
        limit = batch_limit(self.known, self.settings.epsilon_IS)
        return Verdict(self.number, float(bad.mean()), limit)

    def score(self, X: NDArray) -> NDArray[np.float64]:
        assert self.known is not None
        return conflict_ratio(self.errors(X), self.known, self.settings.T_conf)

    def knows(self, X: NDArray, false_alarms: float) -> NDArray[np.bool_]:
        """Return which samples the paper's rule validates; it knows no rate of false alarms."""
        assert self.known is not None
        return ~invalid(self.errors(X), self.known, self.settings.T_conf, self.settings.T_SV)

    def novelty(self, X: NDArray) -> NDArray[np.float64]:
        return self.score(X)


def tempered(answers: NDArray, temperature: float) -> NDArray[np.float64]:
    """Return logistic outputs with their activations divided by a temperature."""
    inside = np.clip(answers, 1e-12, 1.0 - 1e-12)
    return 1.0 / (1.0 + ((1.0 - inside) / inside) ** (1.0 / temperature))


def best_temperature(answers: NDArray, columns: NDArray[np.int64]) -> float:
    """Return the temperature that makes the right columns most probable."""

    def surprise(log_temperature: float) -> float:
        warm = tempered(answers, float(np.exp(log_temperature)))
        share = warm[np.arange(len(warm)), columns] / np.maximum(warm.sum(axis=1), 1e-300)
        return float(-np.mean(np.log(np.maximum(share, 1e-12))))

    found = minimize_scalar(surprise, bounds=(-3.0, 3.0), method="bounded")
    return float(np.exp(found.x))  # type: ignore[attr-defined]
