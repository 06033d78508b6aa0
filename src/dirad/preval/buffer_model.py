"""Our model: many steps on a bounded sample of the task; outputs are added as classes appear.

Samples are collected, and L0 adapts to them, until the buffer is full or the task is over; then
L1 adapts to what was collected, the held-out part of it calibrates, and all of it is forgotten.
Before that, a linear sketch of L1 says what is usual, so that a model has an opinion early.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from dirad.core.magnitudes import center_and_spread
from dirad.core.network import LOGISTIC
from dirad.growth.adapt import Adaptation, Desk, new_data
from dirad.growth.state import N_SAMPLES, new_state, with_output
from dirad.history import History
from dirad.inference import respond
from dirad.preval.buffer import FEW, UNLABELLED, Buffer
from dirad.preval.calibration import (
    MIN_CLASS_SHARE,
    RARE_CLASSES,
    Calibration,
    Tally,
    calibrated,
    frequent_classes,
    least_of,
    two_sided,
)
from dirad.preval.model import GROWING_L0, STABLE, Model, Verdict
from dirad.preval.prediction import Prediction
from dirad.preval.scale import Scale
from dirad.preval.settings import Settings, prior_of
from dirad.preval.sharing import continued
from dirad.preval.sketch import Sketch
from dirad.preval.validation import Statistics, conflict_ratio, squared_sum, statistics

MANY_STEPS = 1000  # taken at a time when a model is finished at once
LEAST_HELD_OUT = 20  # samples below which there is no opinion while a model adapts
ANEW = 2  # times as many labels as at its beginning for which L0 is grown anew
GROWN = 1.25  # times as many samples for which the sketch is made anew
TINY = 1e-12  # no answer is surer
MAX_SPREADS = 1e6  # inputs of L0 are clipped to this many spreads from their mean
# The error of a sample counts as the likelihood error^−n/2 of n normal errors of unknown spread;
# beyond some 16 inputs errors go together, and more of them say no more.
EXPONENT = 8.0
USUAL_TRUST = 0.3  # in networks, where that in modes is 1: networks are too sure of themselves
FIRM, LOOSE = 2.0, 2.0  # deviations of ln(trust): of this proportion, and of both


class Look(NamedTuple):
    """What a model makes of some samples, computed once."""

    score: NDArray[np.float64]  # by which they are routed
    logs: NDArray[np.float64]  # ln of the prediction error, by which they are judged
    group: NDArray[np.int64]  # in which they are judged
    named: NDArray[np.int64]  # the class L0 names, or -1 where it has none

    def part(self, chosen: NDArray[np.bool_]) -> "Look":
        """Return the same of some of the samples."""
        return Look(self.score[chosen], self.logs[chosen], self.group[chosen], self.named[chosen])


def power_mean(errors: NDArray, exponent: float) -> NDArray[np.float64]:
    """Return the power mean of each row, with −exponent: close to the least of its values.

    >>> power_mean(np.array([[1.0, 1.0], [1.0, 100.0]]), 8.0).round(3).tolist()
    [1.0, 1.091]
    """
    least = errors.min(axis=1, keepdims=True)
    return least[:, 0] * np.mean((least / errors) ** exponent, axis=1) ** (-1.0 / exponent)


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
        self.group = number  # models of one group have the same inputs and different answers
        self.buffer = Buffer(n_inputs, settings.buffer_size, settings.held_out, seed)
        self.sketch: Sketch | None = None
        self.usual: Calibration | None = None
        self.offset = np.zeros(n_inputs)  # inputs are standardized by the first samples
        self.spread = np.ones(n_inputs)
        # How much is made of what L0 and the gates say, and of how well each mode predicts.
        self.trust = (1.0, 1.0)
        if base is not None:
            self.offset, self.spread = base.offset, base.spread
        self._begin_l0()
        self.first_output = self.network.n_outputs
        self.inherited = self.network.n_parameters

    @property
    def has_opinion(self) -> bool:
        return self.usual is not None

    # ---------------------------------------------------------------- learning

    def keep(self, X: NDArray, y: NDArray[np.int64], numbers: NDArray[np.int64]) -> None:
        """Take samples, by their numbers in the stream, while they are collected."""
        if self.phase != GROWING_L0:
            return  # L1 adapts to what was collected
        self.buffer.add(X, y, numbers)
        enough = len(self.buffer) >= self.settings.begin
        fitted = np.count_nonzero(~self.buffer.held_out)
        if enough and (self.sketch is None or fitted > GROWN * self.sketch.n):
            self._draw_sketch()

    def label(self, numbers: NDArray[np.int64], y: NDArray[np.int64], threads: int = 1) -> int:
        """Take labels that came late, and return how many; many, or of new classes: learn now."""
        if self.phase != GROWING_L0:
            return 0
        found = self.buffer.label(numbers, y)
        if self._teaching.any() and self._outgrown:
            self.advance(threads)
        return found

    def advance(self, threads: int = 1) -> None:
        """Take the steps that are due after a batch."""
        if len(self.buffer) < self.settings.begin:
            return
        if self.l1 is not None:
            self._advance_l1(self.settings.steps_per_batch, threads)
            return
        self._advance_l0(self.settings.steps_per_batch)
        if self.buffer.full and self._l0_done:
            self._begin_l1()

    def finish(self, threads: int = 1) -> None:
        """Go on until the phase ends, with the data at hand."""
        if self.phase == GROWING_L0:
            self._begin_l1()
            return
        while self.phase != STABLE:
            self._advance_l1(MANY_STEPS, threads)

    def forget(self) -> None:
        """Give up all samples, and what only adaptation needs, when the model is stable."""
        self.buffer.clear()
        self.l0 = None

    @property
    def _teaching(self) -> NDArray[np.bool_]:
        """Which samples L0 learns from."""
        return self.buffer.labelled & ~self.buffer.held_out

    @property
    def _l0_done(self) -> bool:
        assert self.l0 is not None
        return self.l0.stable or not self._teaching.any()

    def _begin_l0(self) -> None:
        """Begin L0: from inputs alone, or on top of an earlier model, whose edges do not count."""
        params = self.settings.l0
        if self.base is None:
            state = new_state(len(self.offset), 0, transfer=LOGISTIC, seed=self.seed)
        else:
            state = continued(self.base.network, self.seed)
            params = params.replace(max_edges=params.max_edges + state.network.n_edges)
        self.classes = []
        self.history = History()
        self.taught_by = 0  # labels, when it began
        self.l0: Adaptation | None = Adaptation(state, params)
        self.network = state.network

    @property
    def _outgrown(self) -> bool:
        """Does L0 stand on far fewer labels, or on fewer classes, than there are?"""
        teaching = self._teaching
        classes = np.unique(self.buffer.y[teaching])
        if len(np.setdiff1d(classes, self.classes)):
            return True
        # Of the very first samples none was held out: what they taught must be learned again.
        return bool(np.count_nonzero(teaching) > ANEW * self.taught_by) or self.taught_by <= FEW

    def _advance_l0(self, steps: int) -> None:
        assert self.l0 is not None
        teaching = self._teaching
        if not teaching.any():
            return
        if self.l0.stable:
            if np.count_nonzero(teaching) <= ANEW**2 * self.taught_by or not self._outgrown:
                return
            self._begin_l0()
        if self.l0.state.step == 0:
            self.taught_by = int(np.count_nonzero(teaching))
            self._learn_scale()
        y = self.buffer.y[teaching]
        prior = prior_of(self.settings.l0, len(y))
        if prior != self.l0.params.prior:
            self.l0 = Adaptation(self.l0.state, self.l0.params.replace(prior=prior))
        for code in np.unique(y):
            if code not in self.classes:
                self.classes.append(int(code))
                self.l0.replace(with_output(self.l0.state))
        state = self.l0.state
        state.clock[N_SAMPLES] = len(y)
        targets = np.zeros((len(y), state.network.n_outputs))
        targets[:, self.first_output :] = y[:, None] == np.array(self.classes)
        data = new_data(self._clipped(self.buffer.X[teaching]), targets, self.settings.l0)
        desk = Desk(self.settings.l0, len(targets))
        self.history.extend(self.l0.advance(data, state.step + steps, desk))
        self.network = self.l0.state.network

    def _learn_scale(self) -> None:
        """Take mean and spread of the inputs from the buffer, unless an earlier model gave them."""
        X = self.buffer.X[~self.buffer.held_out]
        self.scale.learn(X)
        if self.base is not None:
            return
        self.offset, spread = center_and_spread(X)
        # An input that did not vary yet may vary later: then by about as much as the others.
        unit = self.scale.unit
        floor = 0.1 * float(np.sqrt(np.mean((spread / unit) ** 2)))
        self.spread = np.maximum(spread, floor * unit) if floor > 0 else np.ones(len(spread))

    def scaled(self, X: NDArray) -> NDArray:
        return (X - self.offset) / self.spread

    def _clipped(self, X: NDArray) -> NDArray:
        """Return scaled inputs, clipped so that float32 holds the squares of their products."""
        return np.clip(self.scaled(X), -MAX_SPREADS, MAX_SPREADS)

    def _draw_sketch(self) -> None:
        """Fit the linear stand-in for L1 and calibrate it."""
        held = self.buffer.held_out
        if np.count_nonzero(held) < LEAST_HELD_OUT:
            return
        self.scale.learn(self.buffer.X[~held])
        self.sketch = Sketch(self.buffer.X[~held] / self.scale.unit, self.settings.ridge)
        self._calibrate()

    def _begin_l1(self) -> None:
        """End what L0 does, and begin L1 on the samples that it may be fitted to."""
        if self._teaching.any() and self._outgrown:
            self._begin_l0()
        while not self._l0_done:
            self._advance_l0(MANY_STEPS)
        if not self.classes:
            self._learn_scale()  # without labels, L0 has not done it
        self._learn_trust()
        X, y = self.buffer.X[~self.buffer.held_out], self.buffer.y[~self.buffer.held_out]
        if self.settings.prediction != "grown":
            self._stand_in(X)
            return
        # Modes are found within classes; a sample without a label is of the class L0 names.
        self.l1 = Prediction(
            self.network,
            self.scaled(X),
            self.settings,
            self.seed,
            scale=self.spread / self.scale.unit,
            groups=np.where(y == UNLABELLED, self._named(self._surprises(X)), y),
            earlier=self._earlier,
        )

    @property
    def _earlier(self) -> list[Prediction]:
        """Return the L1 networks that this one's may build on."""
        if self.base is None or self.base.l1 is None:
            return []
        return [*self.base.l1.earlier, self.base.l1]

    def _stand_in(self, X: NDArray) -> None:
        """Take linear regression, or the mean, for L1: what is left if no network is grown."""
        ridge = float("inf") if self.settings.prediction == "mean" else self.settings.ridge
        self.sketch = Sketch(X / self.scale.unit, ridge)
        self.known = Statistics(np.zeros(0), np.zeros(0), 0.0)
        self._calibrate()

    def _advance_l1(self, steps: int, threads: int) -> None:
        assert self.l1 is not None
        held = self.buffer.held_out
        self.l1.advance_on(self.scaled(self.buffer.X[~held]), steps, threads)
        if not self.l1.stable:
            return
        self.l1.keep(np.ones(len(self.l1.targets), bool))
        errors = self.errors(self.buffer.X[held if held.any() else ~held])
        self.known = statistics(errors, self.settings.T_conf, self.settings.T_SV)
        self.sketch = None
        self._learn_trust()
        self._calibrate()

    def _calibrate(self) -> None:
        """Learn what is usual from samples that nothing was fitted to; of very few, from all."""
        held = self.buffer.held_out if self.buffer.held_out.any() else ~self.buffer.held_out
        X, y = self.buffer.X[held], self.buffer.y[held]
        seen = self.look(X)
        stable = self.phase == STABLE
        n_groups = max(len(self.classes), 1) if stable else 1
        # While L0 adapts, its mistakes are counted when they are asked for.
        mistakes = self._error_counts(seen.named, y) if stable else {}
        self.usual = calibrated(seen.logs, seen.group, n_groups, mistakes)

    def _error_counts(
        self, named: NDArray[np.int64], y: NDArray[np.int64]
    ) -> dict[int, tuple[float, float]]:
        """Return the wrong answers to held-out samples by class, and how frequent rare classes are.

        Held-out samples decide which classes are frequent, and the samples learned from tell the
        share of the others: if the same samples told both, a class that is missing from them by
        chance would be taken for new.
        """
        wrong = self._label_errors(named, y)
        mistakes = {
            label: (float(wrong[y == label].sum()), float(np.count_nonzero(y == label)))
            for label in np.unique(y[y != UNLABELLED]).tolist()
        }
        taught = self.buffer.y[self._teaching]
        strange = np.count_nonzero(~np.isin(taught, frequent_classes(mistakes)))
        return mistakes | {RARE_CLASSES: (float(strange), float(len(taught)))}

    def _current_errors(self) -> dict[int, tuple[float, float]]:
        """Return the errors that L0 makes on held-out samples as it is now.

        Its earlier errors are no reference for the next batch: L0 improves while it adapts, it is
        regrown, and without any signal it may come to prefer another class. Held-out samples and
        the next batch are exchangeable for it at any time.
        """
        held = self.buffer.held_out & self.buffer.labelled
        X, y = self.buffer.X[held], self.buffer.y[held]
        return self._error_counts(self._named(self._surprises(X)), y)

    # ---------------------------------------------------------------- answers

    def respond(self, X: NDArray) -> NDArray[np.float64]:
        return respond(self.network, self._clipped(X))[:, self.first_output :]

    def probabilities(self, X: NDArray) -> NDArray[np.float64]:
        """Return L0's answers; when the model is stable, together with what L1's modes say."""
        return softmax(-self._surprises(X), axis=1)

    def _surprises(self, X: NDArray, errors: NDArray | None = None) -> NDArray[np.float64]:
        """Return −ln of what is given to each class, but for a constant of each sample.

        `errors`, by mode, are those of X, where they are known already.
        """
        if not self.classes:
            return self.respond(X)
        said, predicted = self._evidence(X, errors)
        return self.trust[0] * said + self.trust[1] * predicted

    def _evidence(
        self, X: NDArray, errors: NDArray | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return −ln of what each class is given: by L0 and the gates, and by the modes' errors."""
        inside = np.clip(self.respond(X), TINY, 1.0 - TINY)
        odds = np.log(inside / (1.0 - inside))
        said = np.logaddexp.reduce(odds, axis=1, keepdims=True) - odds
        predicted = np.zeros(said.shape)
        if self.phase != STABLE or self.l1 is None:
            return said, predicted
        shares = self.l1.class_shares(self.scaled(X), self.classes)
        if shares is None:
            return said, predicted
        said = said - np.log(np.maximum(shares, TINY))
        if self.settings.score == "modes":
            errors = self._errors_by_mode(X) if errors is None else errors
            share = softmax(-self.exponent * np.log(errors), axis=1)
            shares = self.l1.by_class(share, self.classes)
            predicted = -np.log(np.maximum(shares, TINY))
        return said, predicted

    @property
    def exponent(self) -> float:
        """How much more likely a mode is that predicts a sample better."""
        assert self.l1 is not None
        return min(EXPONENT, 0.5 * max(np.count_nonzero(self.l1.predicts_input), 1))

    def _learn_trust(self) -> None:
        """Make answers as sure as they are right on held-out samples."""
        held = self.buffer.held_out & np.isin(self.buffer.y, self.classes)
        if not held.any() or len(self.classes) < 2:
            return
        said, predicted = self._evidence(self.buffer.X[held])
        columns = np.array([self.classes.index(code) for code in self.buffer.y[held]], np.int64)
        rows = np.arange(len(said))

        def cost(logs: NDArray) -> float:
            in_said, in_predicted = np.exp(logs)
            surprises = in_said * said + in_predicted * predicted
            missed = logsumexp(-surprises, axis=1) + surprises[rows, columns]
            odd = (logs[0] - logs[1] - np.log(USUAL_TRUST)) / FIRM
            return float(np.sum(missed) + 0.5 * odd**2 + 0.5 * (logs[1] / LOOSE) ** 2)

        first = np.array([np.log(USUAL_TRUST), 0.0])
        found = minimize(cost, first, method="L-BFGS-B", bounds=[(-6.0, 3.0)] * 2)
        self.trust = float(np.exp(found.x[0])), float(np.exp(found.x[1]))

    def _named(self, surprises: NDArray) -> NDArray[np.int64]:
        """Return the class of the least surprise, or -1 where there are no classes."""
        if not self.classes:
            return np.full(len(surprises), UNLABELLED)
        return np.array(self.classes)[surprises.argmin(axis=1)]

    # ---------------------------------------------------------------- what is known

    def look(self, X: NDArray) -> Look:
        """Return all that judging samples needs, at once."""
        return self.look_by(X, self._errors_by_mode(X))

    def look_by(self, X: NDArray, errors: NDArray[np.float64]) -> Look:
        """Return the same, given each mode's mean squared prediction error of each sample."""
        surprises = self._surprises(X, errors)
        error = power_mean(errors, self.exponent) if errors.shape[1] > 1 else errors[:, 0]
        score = error
        if self.settings.score == "conflicts" and self.phase == STABLE and self.l1 is not None:
            assert self.known is not None
            score = conflict_ratio(self.errors(X), self.known, self.settings.T_conf)
        # L0's answer tells the group, once it is not subject to change any more.
        group = np.zeros(len(X), np.int64)
        if self.phase == STABLE and self.classes:
            group = surprises.argmin(axis=1)
        return Look(score, np.log(error), group, self._named(surprises))

    def _errors_by_mode(self, X: NDArray) -> NDArray[np.float64]:
        """Return the mean square of each sample's prediction errors: (samples, modes).

        In units common to models. They are those of L1's modes, or of what stands in for L1.
        """
        if self.sketch is not None:
            return (self.sketch.errors(X / self.scale.unit) ** 2).mean(axis=1)[:, None] + TINY
        assert self.l1 is not None
        inputs = self.l1.predicts_input
        if self.settings.score == "modes":
            squares = self.l1.squares(self.scaled(X))
        else:
            squares = squared_sum(self.errors(X)[:, inputs])[:, None]
        return squares / np.count_nonzero(inputs) + TINY

    def mistaken(self, seen: Look, y: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which labels L0 does not give; no sample without a label is mistaken."""
        return self._label_errors(seen.named, y)

    def _label_errors(self, named: NDArray[np.int64], y: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which labels differ from L0's answers.

        Until enough samples are held out to tell how often L0 errs, only rare classes count.
        """
        labelled = y != UNLABELLED
        if self.phase == STABLE or self._has_enough_held_out:
            return labelled & (named != y)
        own = self.own_classes
        return labelled & ~np.isin(y, own) & bool(len(own))

    @property
    def _has_enough_held_out(self) -> bool:
        """Are enough labelled samples held out, none of which L0 learned, to tell how it errs?"""
        # Of the very first samples none is held out: an L0 that began with them learned them all.
        apart = self.settings.begin > FEW or self.taught_by > FEW
        held = np.count_nonzero(self.buffer.held_out & self.buffer.labelled)
        return apart and bool(self.classes) and bool(held >= LEAST_HELD_OUT)

    @property
    def own_classes(self) -> NDArray[np.int64]:
        """The classes that it has seen many samples of: of others some may have gone astray."""
        if self.phase == STABLE and self.usual is not None:
            return np.array(self.usual.frequent, np.int64)
        labels = self.buffer.y[self.buffer.labelled]
        classes, counts = np.unique(labels, return_counts=True)
        return classes[counts >= MIN_CLASS_SHARE * counts.max(initial=0)]

    def score(self, X: NDArray) -> NDArray[np.float64]:
        """Return the mean squared prediction error of its best modes, in units common to models."""
        return self.look(X).score

    def deviates(self, seen: Look) -> NDArray[np.float64]:
        """Return how unusual each sample is, as a standard normal deviate if it is known."""
        assert self.usual is not None
        return self.usual.deviates(seen.logs, seen.group)

    def tally(self, seen: Look) -> Tally:
        """Return what the samples add up to."""
        assert self.usual is not None
        return self.usual.tally(seen.logs, seen.group)

    def novelty(self, X: NDArray) -> NDArray[np.float64]:
        return self.novelty_of(self.look(X))

    def novelty_of(self, seen: Look) -> NDArray[np.float64]:
        """Return how unusual each sample is, without the bounds of a deviate."""
        assert self.usual is not None
        return self.usual.novelty(seen.logs, seen.group)

    def knows(self, X: NDArray, false_alarms: float) -> NDArray[np.bool_]:
        assert self.usual is not None
        seen = self.look(X)
        return self.usual.known(seen.logs, seen.group, false_alarms)

    def judge(self, X: NDArray, y: NDArray[np.int64] | None = None) -> Verdict:
        """Compare the batch with held-out samples: by prediction errors, and by L0's mistakes."""
        return self.verdict(self.look(X), y)

    def verdict(self, seen: Look, y: NDArray[np.int64] | None) -> Verdict:
        """Return what the model says of a batch it looked at."""
        assert self.usual is not None
        p = p_inputs = two_sided(self.usual.z(self.tally(seen)))
        p_labels = float("nan")
        if y is not None and self.settings.labels_in_detection and (y != UNLABELLED).any():
            p_labels = self.p_labels(seen, y)
            p = least_of(min(p_inputs, p_labels))
        limit = 1.0 - self.settings.false_alarms
        return Verdict(self.number, 1.0 - p, limit, p, p_inputs, p_labels)

    def p_labels(self, seen: Look, y: NDArray[np.int64]) -> float:
        """Return the chance of such labels. One who learned none does not know what they mean."""
        assert self.usual is not None
        labelled = y != UNLABELLED
        if self.phase == STABLE and not self.classes and labelled.any():
            return 0.0
        return self.p_mistakes(y[labelled], self.mistaken(seen, y)[labelled])

    def p_mistakes(self, y: NDArray[np.int64], wrong: NDArray[np.bool_]) -> float:
        """Return the chance of so many wrong answers to samples with these labels."""
        assert self.usual is not None
        if self.phase == STABLE:
            return self.usual.p_labels(y, wrong)
        return self.usual._replace(mistakes=self._current_errors()).p_labels(y, wrong)

    def predicted_inputs(self, X: NDArray) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        inputs, predicted = super().predicted_inputs(X)
        return inputs, predicted * self.spread[inputs] + self.offset[inputs]

    @property
    def _n_scale_parameters(self) -> int:
        stored = 2 * self.network.n_inputs - self.inherited + len(self.trust)
        if self.sketch is not None:
            stored += self.sketch.n_parameters
        if self.l1 is not None and self.l1.gates is not None:
            stored += self.l1.gates.n_modes
        return stored if self.usual is None else stored + self.usual.n_stored
