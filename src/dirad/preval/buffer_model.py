"""Our model: many steps on a bounded sample of the task; outputs are added as classes appear.

Samples are collected, and L0 adapts to them, until the buffer is full or the task is over; then
L1 adapts to what was collected, the held-out part of it calibrates, and all of it is forgotten.
Before that, a linear sketch of L1 says what is usual, so that a model has an opinion early.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import ndtri, softmax

from dirad.core.network import LOGISTIC
from dirad.core.propagate import respond
from dirad.growth.adapt import Adaptation, Desk, new_data
from dirad.growth.state import N_SAMPLES, new_state, with_output
from dirad.history import History
from dirad.preval.buffer import UNLABELLED, Buffer
from dirad.preval.calibration import Calibration, both, calibrated, two_sided
from dirad.preval.model import GROWING_L0, Model, Verdict
from dirad.preval.prediction import Prediction
from dirad.preval.settings import Settings
from dirad.preval.sharing import continued
from dirad.preval.sketch import Sketch
from dirad.preval.validation import Statistics, conflict_ratio, statistics

MANY_STEPS = 100  # taken at a time when a model is finished at once
LEAST_HELD_OUT = 20  # samples below which nothing can be calibrated
ANEW = 2  # times as many samples as at its beginning for which L0 is grown anew at the end
GROWN = 1.25  # times as many samples for which the sketch is made anew
ASTRAY = 0.1  # of the most frequent class: rarer ones may have come to a new model by mistake
TINY = 1e-12  # no answer is surer
UNEVEN = 10.0  # times the usual range: an input of that much more is of another kind


class Scale:
    """The units of the inputs, the same for all models: taken from the first samples of all."""

    def __init__(self) -> None:
        self.unit: NDArray[np.float64] | None = None

    def of(self, X: NDArray) -> NDArray[np.float64]:
        """Return the units, taken from X if there are none yet: (inputs,).

        Inputs of one kind, such as pixels, keep their proportions and share a unit; inputs whose
        ranges differ widely have one each.
        """
        unit = self.unit
        if unit is None:
            spread = X.std(axis=0, dtype=np.float64)
            span = np.ptp(X, axis=0)
            varied = span[span > 0]
            if len(varied) and varied.max() > UNEVEN * np.median(varied):
                unit = np.where(spread > 0, spread, 1.0)
            else:
                unit = np.full(X.shape[1], float(np.sqrt(np.mean(spread**2))) or 1.0)
            self.unit = unit
        return unit


class BufferModel(Model):
    """Ours. `base`, if given, is the model on top of whose networks this one grows."""

    def __init__(
        self,
        number: int,
        n_inputs: int,
        settings: Settings,
        seed: int,
        scale: Scale,
        base: "BufferModel | None" = None,
    ) -> None:
        super().__init__(number, settings, seed)
        self.scale = scale
        self.base = base
        self.buffer = Buffer(n_inputs, settings.buffer_size, settings.held_out, seed)
        self.sketch: Sketch | None = None
        self.usual: Calibration | None = None
        self.offset = np.zeros(n_inputs)  # inputs are standardized by the first samples
        self.spread = np.ones(n_inputs)
        self.sharpness = 1.0  # by which answers are calibrated
        self.rival_of: int | None = None  # a model of the same inputs, with other answers
        if base is not None:
            self.offset, self.spread = base.offset, base.spread
        self._begin_l0()
        self.first_output = self.network.n_outputs
        self.inherited = self.network.n_parameters

    @property
    def has_opinion(self) -> bool:
        """Can it judge a batch?"""
        return self.usual is not None

    def _begin_l0(self) -> None:
        """Begin L0: from inputs alone, or on top of an earlier model's."""
        if self.base is None:
            state = new_state(len(self.offset), 0, transfer=LOGISTIC, seed=self.seed)
        else:
            state = continued(self.base.network, self.seed)
        self.classes = []
        self.begun_with = len(self.buffer)  # samples
        self.l0 = Adaptation(state, self.settings.l0)
        self.network = state.network

    # ---------------------------------------------------------------- learning

    def learn(self, X: NDArray, y: NDArray[np.int64], threads: int = 1) -> int:
        size = self.settings.l0.batch_size
        phase = self.phase
        used = 0
        while used < len(X) // size and self.phase == phase:
            part = slice(used * size, (used + 1) * size)
            self.keep(X[part], y[part])
            self.advance(threads)
            used += 1
        return used

    def keep(self, X: NDArray, y: NDArray[np.int64], first: int = 0) -> None:
        if self.phase != GROWING_L0:
            return  # L1 adapts to what was collected
        self.buffer.add(X, y, first)
        enough = len(self.buffer) >= self.settings.begin
        if enough and (
            self.sketch is None or np.count_nonzero(self._fitted) > GROWN * self.sketch.n
        ):
            self._draw_sketch()

    def advance(self, threads: int = 1) -> None:
        """Take the steps that are due after a batch."""
        if len(self.buffer) >= self.settings.begin:
            self._advance(self.settings.steps_per_batch, threads)
            if self.l1 is None and self.buffer.full and self._l0_done:
                self._begin_l1()

    def label(self, numbers: NDArray[np.int64], y: NDArray[np.int64]) -> None:
        """Take labels that came late."""
        if self.phase == GROWING_L0:
            self.buffer.label(numbers, y)

    @property
    def _fitted(self) -> NDArray[np.bool_]:
        return ~self.buffer.held_out

    @property
    def _l0_done(self) -> bool:
        return self.l0.stable or not (self.buffer.y != UNLABELLED).any()

    def _advance(self, steps: int, threads: int) -> None:
        if self.l1 is None:
            self._advance_l0(steps)
        else:
            self.l1.advance_on(self.scaled(self.buffer.X[self._fitted]), steps, threads)
            if self.l1.stable:
                self._stabilize()

    def _advance_l0(self, steps: int) -> None:
        labelled = self._fitted & (self.buffer.y != UNLABELLED)
        if self.l0.stable or not labelled.any():
            return
        if self.l0.state.step == 0:
            self.begun_with = len(self.buffer)
            if self.base is None:
                self._learn_scale()
        y = self.buffer.y[labelled]
        for code in np.unique(y):
            if code not in self.classes:
                self.classes.append(int(code))
                self.l0.replace(with_output(self.l0.state))
        state = self.l0.state
        state.clock[N_SAMPLES] = len(y)
        targets = np.zeros((len(y), state.network.n_outputs))
        targets[:, self.first_output :] = y[:, None] == np.array(self.classes)
        data = new_data(self.scaled(self.buffer.X[labelled]), targets, self.settings.l0)
        desk = Desk(self.settings.l0, len(targets))
        self.history.extend(self.l0.advance(data, state.step + steps, desk))
        self.network = self.l0.state.network

    def _learn_scale(self) -> None:
        """Take mean and spread of the inputs from the buffer."""
        X = self.buffer.X[self._fitted].astype(np.float64)
        self.offset, spread = X.mean(axis=0), X.std(axis=0)
        # An input that did not vary yet may vary later: then by about as much as the others.
        unit = self.scale.of(X)
        floor = 0.1 * float(np.sqrt(np.mean((spread / unit) ** 2)))
        self.spread = np.maximum(spread, floor * unit) if floor > 0 else np.ones(len(spread))

    def scaled(self, X: NDArray) -> NDArray:
        return (X - self.offset) / self.spread

    @property
    def _provisional(self) -> bool:
        """Is what the model knows still subject to change?"""
        return self.known is None

    def _draw_sketch(self) -> None:
        """Fit the linear stand-in for L1 and calibrate it."""
        held = self.buffer.held_out
        if np.count_nonzero(held) < LEAST_HELD_OUT:
            return
        unit = self.scale.of(self.buffer.X[~held])
        self.sketch = Sketch(self.buffer.X[~held] / unit, self.settings.ridge)
        self._calibrate()

    def _calibrate(self) -> None:
        """Learn what is usual from samples that nothing was fitted to."""
        held = self.buffer.held_out if self.buffer.held_out.any() else self._fitted
        X, y = self.buffer.X[held], self.buffer.y[held]
        known = y != UNLABELLED
        wrong = 0
        if not self._provisional:
            wrong = int(np.count_nonzero(self._wrong(X[known], y[known])))
        self.usual = calibrated(
            np.log(self.score(X)),
            self._groups(X),
            1 if self._provisional else max(len(self.classes), 1),
            wrong=wrong,
            labelled=int(np.count_nonzero(known)),
        )

    def _begin_l1(self) -> None:
        if len(self.buffer) > ANEW * self.begun_with:
            # What L0 grew from the first few samples gets in the way of what all of them ask for.
            self._begin_l0()
            self.history = History()
            while not self._l0_done:
                self._advance_l0(MANY_STEPS)
        if self.l0.state.step == 0 and self.base is None:
            self._learn_scale()  # without labels, L0 has not done it
        self._learn_sharpness()
        X = self.buffer.X[self._fitted]
        # Modes are found within classes; a sample without a label is of the class L0 names.
        y = self.buffer.y[self._fitted]
        groups = np.where(y == UNLABELLED, self._named(X), y)
        if self.settings.prediction != "grown":
            self._stand_in()
            return
        self.l1 = Prediction(
            self.network,
            self.scaled(X),
            self.settings,
            self.seed,
            scale=self.spread / self.scale.of(X),
            groups=groups,
            earlier=self._earlier,
        )

    @property
    def _earlier(self) -> list[Prediction]:
        """Return the L1 networks that this one's may build on."""
        if self.base is None or self.base.l1 is None:
            return []
        return [*self.base.l1.earlier, self.base.l1]

    def _stand_in(self) -> None:
        """Take linear regression, or the mean, for L1: what is left if no network is grown."""
        ridge = float("inf") if self.settings.prediction == "mean" else self.settings.ridge
        X = self.buffer.X[self._fitted]
        self.sketch = Sketch(X / self.scale.of(X), ridge)
        self.known = Statistics(np.zeros(0), np.zeros(0), 0.0)
        self._calibrate()

    def _stabilize(self) -> None:
        assert self.l1 is not None
        self.l1.keep(np.ones(len(self.l1.targets), bool))
        held = self.buffer.held_out if self.buffer.held_out.any() else self._fitted
        errors = self.errors(self.buffer.X[held])
        self.known = statistics(errors, self.settings.T_conf, self.settings.T_SV)
        self.sketch = None
        self._learn_sharpness()
        self._calibrate()

    def forget(self) -> None:
        """Give up all samples, when the model is stable."""
        self.buffer.clear()
        self.base = None

    def finish(self, threads: int = 1) -> None:
        if self.phase == GROWING_L0:
            while not self._l0_done:
                self._advance(MANY_STEPS, threads)
            self._begin_l1()
            return
        phase = self.phase
        while self.phase == phase:
            self._advance(MANY_STEPS, threads)

    # ---------------------------------------------------------------- answers

    def respond(self, X: NDArray) -> NDArray[np.float64]:
        return respond(self.network, self.scaled(X))[:, self.first_output :]

    def probabilities(self, X: NDArray) -> NDArray[np.float64]:
        """Return L0's answers; when the model is stable, together with what its gates say."""
        return self._sharpened(self._surprises(X), self.sharpness)

    def _surprises(self, X: NDArray) -> NDArray[np.float64]:
        """Return −ln of what L0 and the gates, where there are any, give to each class."""
        inside = np.clip(self.respond(X), TINY, 1.0 - TINY)
        odds = np.log(inside / (1.0 - inside))
        found = np.logaddexp.reduce(odds, axis=1, keepdims=True) - odds
        shares = None
        if self.l1 is not None and self.l1.network is not None:
            shares = self.l1.class_shares(self.scaled(X), self.classes)
        return found if shares is None else found - np.log(np.maximum(shares, TINY))

    @staticmethod
    def _sharpened(surprises: NDArray, sharpness: float) -> NDArray[np.float64]:
        return softmax(-sharpness * surprises, axis=1)

    def _learn_sharpness(self) -> None:
        """Make answers as sure as they are right on held-out samples."""
        held = self.buffer.held_out & np.isin(self.buffer.y, self.classes)
        if not held.any() or len(self.classes) < 2:
            return
        surprises = self._surprises(self.buffer.X[held])
        right = surprises[np.arange(len(surprises)), self._columns(self.buffer.y[held])]

        def cost(log_sharpness: float) -> float:
            sharp = float(np.exp(log_sharpness))
            return float(np.mean(np.logaddexp.reduce(-sharp * surprises, axis=1) + sharp * right))

        found = minimize_scalar(cost, bounds=(-3.0, 3.0), method="bounded")
        self.sharpness = float(np.exp(found.x))  # type: ignore[attr-defined]

    def _columns(self, y: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the outputs that stand for these classes."""
        return np.array([self.classes.index(code) for code in y], np.int64)

    def _named(self, X: NDArray) -> NDArray[np.int64]:
        """Return the class that L0 names, or -1 where it has none."""
        if not self.classes or not len(X):
            return np.full(len(X), UNLABELLED)
        return np.array(self.classes)[self._surprises(X).argmin(axis=1)]

    def _wrong(self, X: NDArray, y: NDArray[np.int64]) -> NDArray[np.bool_]:
        return self._named(X) != y

    def _groups(self, X: NDArray) -> NDArray[np.int64]:
        """Return the group in which each sample is judged: L0's answer, once L1 is there."""
        if self._provisional or not self.classes:
            return np.zeros(len(X), np.int64)
        return self._surprises(X).argmin(axis=1)

    def wrong(self, X: NDArray, y: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which labels L0 does not give; no sample without a label is wrong.

        While L0 adapts it may be wrong of itself: only classes that it hardly saw count.
        """
        labelled = y != UNLABELLED
        if self._provisional:
            classes, counts = np.unique(
                self.buffer.y[self.buffer.y != UNLABELLED], return_counts=True
            )
            own = classes[counts >= ASTRAY * counts.max(initial=0)]
            return labelled & ~np.isin(y, own)
        result = np.zeros(len(X), bool)
        if labelled.any():
            result[labelled] = self._wrong(X[labelled], y[labelled])
        return result

    def score(self, X: NDArray) -> NDArray[np.float64]:
        """Return the mean squared prediction error over the inputs, in units common to models."""
        if self.sketch is not None:
            errors = self.sketch.errors(X / self.scale.of(X))
        else:
            assert self.l1 is not None
            inputs = self.l1.nodes[self.l1.targets] < self.network.n_inputs
            errors = self.errors(X)[:, inputs]
            if self.settings.score == "conflicts" and self.known is not None:
                return conflict_ratio(self.errors(X), self.known, self.settings.T_conf) + 1e-3
        return (errors**2).mean(axis=1) + 1e-12

    def deviates(self, X: NDArray) -> NDArray[np.float64]:
        """Return how unusual each sample is, as a standard normal deviate if it is known."""
        assert self.usual is not None
        return self.usual.deviates(np.log(self.score(X)), self._groups(X))

    def novelty(self, X: NDArray) -> NDArray[np.float64]:
        assert self.usual is not None
        return self.usual.novelty(np.log(self.score(X)), self._groups(X))

    def knows(self, X: NDArray, false_alarms: float) -> NDArray[np.bool_]:
        return self.deviates(X) <= float(ndtri(1.0 - false_alarms))

    def spread_of_mean(self, X: NDArray) -> float:
        """Return the deviation of the mean deviate of so many known samples."""
        assert self.usual is not None
        return self.usual.spread(self._groups(X))

    def judge(self, X: NDArray, y: NDArray[np.int64] | None = None) -> Verdict:
        """Compare the batch with held-out samples: by prediction errors, and by L0's mistakes."""
        assert self.usual is not None
        z = float(self.deviates(X).mean()) / self.spread_of_mean(X)
        p = p_inputs = two_sided(z)
        p_labels = float("nan")
        if not self.settings.labels_in_detection:
            y = None
        if y is not None and (y != UNLABELLED).any():
            wrong = self.wrong(X, y)
            labelled = int(np.count_nonzero(y != UNLABELLED))
            p_labels = self.usual.p_labels(int(wrong.sum()), labelled)
            p = both(p_inputs, p_labels)
        return Verdict(
            self.number, 1.0 - p, 1.0 - self.settings.false_alarms, p, p_inputs, p_labels
        )

    def predicted_inputs(self, X: NDArray) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        inputs, predicted = super().predicted_inputs(X)
        return inputs, predicted * self.spread[inputs] + self.offset[inputs]

    @property
    def _n_scale_parameters(self) -> int:
        stored = 2 * self.network.n_inputs - self.inherited
        if self.sketch is not None:
            stored += self.sketch.n_parameters
        return stored if self.usual is None else stored + self.usual.n_stored
