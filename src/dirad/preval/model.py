"""A model: L0 answers, L1 predicts L0's states, statistics of its errors tell what is usual.

`StreamModel` is the paper's: each batch is one step, nothing is kept. `BufferModel` is ours: a
bounded sample of the task at hand serves many steps, and a part of it that neither network was
fitted to calibrates.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.stats import t as student

from dirad.core.network import LOGISTIC, Network
from dirad.core.propagate import respond
from dirad.core.random import uniform
from dirad.growth.adapt import Adaptation, Desk, new_data
from dirad.growth.state import N_SAMPLES, new_state, with_output
from dirad.history import History
from dirad.preval.prediction import Prediction
from dirad.preval.settings import Settings
from dirad.preval.validation import (
    Statistics,
    batch_limit,
    confident,
    conflict_ratio,
    conflicted,
    invalid,
    statistics,
)

GROWING_L0, GROWING_L1, STABLE = "L0", "L1", "stable"
RESERVOIR = 102  # purpose of the random key by which the buffer keeps samples
LEAST_DEVIATION = 0.05  # of ln(score): no model is surer of what is usual
FEW = 50  # samples up to which none can be spared for calibration
MANY_STEPS = 100  # taken at a time when a model is finished at once


class Verdict(NamedTuple):
    """What a stable model says of a batch: known, if `value` is at most `limit`."""

    model: int
    value: float
    limit: float

    @property
    def validated(self) -> bool:
        """Is the batch of the kind that the model adapted to?"""
        return self.value <= self.limit


class Model(ABC):
    """One task's networks. It adapts batch by batch and never changes once it is stable."""

    history: History  # of L0
    network: Network  # L0
    l1: Prediction | None
    known: Statistics | None
    classes: list[int]  # what each output stands for
    temperature: float  # by which answers are calibrated

    def __init__(self, number: int, settings: Settings, seed: int) -> None:
        self.number = number
        self.settings = settings
        self.seed = seed
        self.history = History()
        self.l1 = None
        self.known = None
        self.classes = []
        self.temperature = 1.0

    def __repr__(self) -> str:
        l1 = f", L1 with {self.l1.n_parameters:,} parameters" if self.l1 is not None else ""
        return f"Model {self.number} ({self.phase}): L0 with {self.network.n_edges} edges{l1}"

    @property
    def phase(self) -> str:
        """What is adapting: L0, L1, or nothing any more."""
        if self.known is not None:
            return STABLE
        return GROWING_L0 if self.l1 is None else GROWING_L1

    @abstractmethod
    def learn(self, X: NDArray, y: NDArray[np.int64], threads: int = 1) -> int:
        """Adapt to whole batches, in order, until the phase changes; return how many were used."""

    @abstractmethod
    def keep(self, X: NDArray, y: NDArray[np.int64]) -> None:
        """Take samples that make no whole batch, before the end."""

    @abstractmethod
    def finish(self, threads: int = 1) -> None:
        """Go on until the phase ends, with the data at hand."""

    @abstractmethod
    def judge(self, X: NDArray) -> Verdict:
        """Return whether this batch is of the kind that the model adapted to."""

    @abstractmethod
    def score(self, X: NDArray) -> NDArray[np.float64]:
        """Return how little the model knows each sample: the least goes to it."""

    @abstractmethod
    def unusual(self, scores: NDArray) -> NDArray[np.float64]:
        """Return scores on a scale that says how unusual they are to the model."""

    def scaled(self, X: NDArray) -> NDArray:
        """Return inputs as the networks see them."""
        return X

    def respond(self, X: NDArray) -> NDArray[np.float64]:
        """Return L0's outputs: (samples, outputs)."""
        return respond(self.network, self.scaled(X))

    def probabilities(self, X: NDArray) -> NDArray[np.float64]:
        """Return L0's outputs as probabilities: calibrated, then made to add up to 1."""
        answers = tempered(self.respond(X), self.temperature)
        return answers / np.maximum(answers.sum(axis=1, keepdims=True), 1e-300)

    def errors(self, X: NDArray) -> NDArray[np.float64]:
        """Return |prediction − state| of the nodes that L1 predicts: (samples, nodes)."""
        assert self.l1 is not None
        return self.l1.errors(self.scaled(X))

    def predicted_inputs(self, X: NDArray) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return which inputs L1 predicts, and their predicted values: (samples, these inputs)."""
        assert self.l1 is not None
        nodes, predicted = self.l1.predictions(self.scaled(X))
        inputs = nodes < self.network.n_inputs
        return nodes[inputs], predicted[:, inputs]

    def conflicted(self, X: NDArray) -> NDArray[np.bool_]:
        """Return which of L0's nodes are conflicted, per sample: (samples, nodes of L0)."""
        assert self.l1 is not None
        assert self.known is not None
        result = np.zeros((len(X), self.network.n_inputs + len(self.network.units)), bool)
        places = self.l1.nodes[self.l1.targets]
        result[:, places] = conflicted(self.errors(X), self.known, self.settings.T_conf)
        return result

    @property
    def n_parameters(self) -> int:
        """Edges, biases and Ks of L0 and L1, and the numbers kept for validation."""
        total = self.network.n_parameters
        if self.l1 is not None:
            total += self.l1.n_parameters
        if self.known is not None:
            total += 2 * len(self.known.mean) + 2
        return total + self._n_scale_parameters

    @property
    def _n_scale_parameters(self) -> int:
        return 0


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
        self.last = np.zeros((0, n_inputs)), np.zeros(0, np.int64)  # the last batch

    def learn(self, X: NDArray, y: NDArray[np.int64], threads: int = 1) -> int:
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

    def keep(self, X: NDArray, y: NDArray[np.int64]) -> None:
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

    def judge(self, X: NDArray) -> Verdict:
        assert self.known is not None
        bad = invalid(self.errors(X), self.known, self.settings.T_conf, self.settings.T_SV)
        limit = batch_limit(self.known, self.settings.epsilon_IS)
        return Verdict(self.number, float(bad.mean()), limit)

    def score(self, X: NDArray) -> NDArray[np.float64]:
        assert self.known is not None
        return conflict_ratio(self.errors(X), self.known, self.settings.T_conf)

    def unusual(self, scores: NDArray) -> NDArray[np.float64]:
        return scores


class BufferModel(Model):
    """Ours: many steps on a bounded sample of the task; outputs are added as classes appear."""

    def __init__(
        self, number: int, n_inputs: int, settings: Settings, seed: int, unit: float
    ) -> None:
        super().__init__(number, settings, seed)
        state = new_state(n_inputs, 0, transfer=LOGISTIC, seed=seed)
        self.l0 = Adaptation(state, settings.l0)
        self.network = state.network
        self.unit = unit  # of scores, the same for all models
        self.offset = np.zeros(n_inputs)  # inputs are standardized by the first samples
        self.spread = np.ones(n_inputs)
        self.seen = 0  # samples shown to this model
        self.X = np.zeros((0, n_inputs), np.float32)  # the buffer
        self.y = np.zeros(0, np.int64)
        self.for_calibration = np.zeros(0, bool)  # (buffer,) held out
        self.usual = (0.0, 1.0)  # mean and deviation of ln(score) on held-out samples
        self.calibrated_on = 0  # so many of them

    def learn(self, X: NDArray, y: NDArray[np.int64], threads: int = 1) -> int:
        size = self.settings.l0.batch_size
        phase = self.phase
        used = 0
        while used < len(X) // size and self.phase == phase:
            part = slice(used * size, (used + 1) * size)
            self.keep(X[part], y[part])
            if self.seen >= self.settings.begin:
                self._advance(self.settings.steps_per_batch, threads)
            used += 1
        return used

    def keep(self, X: NDArray, y: NDArray[np.int64]) -> None:
        """Put samples into the buffer, which stays a random sample of all that were shown."""
        room = self.settings.buffer_size - len(self.X)
        held_out = np.array(
            [
                uniform(self.seed, RESERVOIR, 1, self.seen + i) < self.settings.held_out
                for i in range(len(X))
            ]
        )
        new = min(room, len(X))
        self.X = np.concatenate([self.X, X[:new].astype(np.float32)])
        self.y = np.concatenate([self.y, y[:new]])
        self.for_calibration = np.concatenate([self.for_calibration, held_out[:new]])
        for i in range(new, len(X)):
            place = int(uniform(self.seed, RESERVOIR, 0, self.seen + i) * (self.seen + i + 1))
            # A held-out place takes held-out samples only: no sample is ever both.
            if place < len(self.X) and self.for_calibration[place] == held_out[i]:
                self.X[place], self.y[place] = X[i], y[i]
        self.seen += len(X)

    @property
    def _spared(self) -> NDArray[np.bool_]:
        """Which samples of the buffer calibrate: none where there are few."""
        return self.for_calibration & (len(self.X) > FEW)

    def _learn_scale(self) -> None:
        """Take mean and spread of the inputs from the buffer."""
        self.offset, spread = self.X.mean(axis=0), self.X.std(axis=0)
        # An input that did not vary yet may vary later: then by about as much as the others.
        floor = 0.1 * float(np.sqrt(np.mean(spread**2)))
        self.spread = np.maximum(spread, floor) if floor > 0 else np.ones(len(spread))

    def scaled(self, X: NDArray) -> NDArray:
        return (X - self.offset) / self.spread

    def _advance(self, steps: int, threads: int) -> None:
        """Take steps on the buffer; go on to the next phase where one ends."""
        if self.l0.state.step == 0:
            self._learn_scale()
        fitted = ~self._spared
        if self.l1 is None:
            for code in np.unique(self.y):
                if code not in self.classes:
                    self.classes.append(int(code))
                    self.l0.replace(with_output(self.l0.state))
            state = self.l0.state
            state.clock[N_SAMPLES] = np.count_nonzero(fitted)
            targets = (self.y[fitted, None] == np.array(self.classes)).astype(float)
            data = new_data(self.scaled(self.X[fitted]), targets, self.settings.l0)
            desk = Desk(self.settings.l0, len(targets))
            self.history.extend(self.l0.advance(data, state.step + steps, desk))
            self.network = self.l0.state.network
            if self.l0.stable:
                self._begin_l1()
        else:
            self.l1.advance_on(self.scaled(self.X[fitted]), steps, threads)
            if self.l1.stable:
                self._stabilize()

    def _begin_l1(self) -> None:
        held = self._spared
        if held.any():
            codes = np.array([self.classes.index(code) for code in self.y[held]])
            self.temperature = best_temperature(self.respond(self.X[held]), codes)
        self.l1 = Prediction(self.network, self.scaled(self.X[~held]), self.settings, self.seed)

    def _stabilize(self) -> None:
        assert self.l1 is not None
        self.l1.keep(np.ones(len(self.l1.targets), bool))
        held = self.X[self.for_calibration] if len(self.X) > FEW else self.X
        self.known = statistics(self.errors(held), self.settings.T_conf, self.settings.T_SV)
        logs = np.log(self.score(held))
        self.usual = float(logs.mean()), float(max(logs.std(), LEAST_DEVIATION))
        self.calibrated_on = len(held)
        self.X, self.y = self.X[:0], self.y[:0]
        self.for_calibration = self.for_calibration[:0]

    def finish(self, threads: int = 1) -> None:
        phase = self.phase
        while self.phase == phase:
            self._advance(MANY_STEPS, threads)

    def judge(self, X: NDArray) -> Verdict:
        """Compare the batch's mean of ln(score) with its distribution on held-out samples."""
        mean, deviation = self.usual
        spread = deviation * np.sqrt(1.0 / len(X) + 1.0 / self.calibrated_on)
        value = (float(np.mean(np.log(self.score(X)))) - mean) / spread
        limit = student.isf(self.settings.false_alarms, max(self.calibrated_on - 1, 1))
        return Verdict(self.number, float(value), float(limit))

    def score(self, X: NDArray) -> NDArray[np.float64]:
        """Return the mean squared prediction error over the inputs, in units common to models."""
        assert self.l1 is not None
        nodes = self.l1.nodes[self.l1.targets]
        inputs = nodes < self.network.n_inputs
        squared = (self.errors(X)[:, inputs] * self.spread[nodes[inputs]] / self.unit) ** 2
        return squared.mean(axis=1) + 1e-12

    def predicted_inputs(self, X: NDArray) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        inputs, predicted = super().predicted_inputs(X)
        return inputs, predicted * self.spread[inputs] + self.offset[inputs]

    def unusual(self, scores: NDArray) -> NDArray[np.float64]:
        """Return ln(score) in deviations from its mean on held-out samples."""
        return (np.log(scores) - self.usual[0]) / self.usual[1]

    @property
    def _n_scale_parameters(self) -> int:
        return 2 * self.network.n_inputs


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
