"""A model that still learns its task; when it is done, it returns an `Expert`.

Samples are collected, and L0 is trained on them, until the buffer is full or the task is over. Then
L1 is trained on what was collected, and the held-out part of it calibrates the expert. Until then a
linear predictor takes the place of L1, so that a change of task is detected early.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from dirad.core.network import Network
from dirad.history import History
from dirad.inference import respond
from dirad.preval.buffer import MIN_SAMPLES_TO_HOLD_OUT, UNLABELLED, Buffer
from dirad.preval.calibration import MIN_CLASS_SHARE, Calibration, calibrate, label_errors_by_class
from dirad.preval.expert import GROWING_L0, GROWING_L1, Evaluator, Expert, Scores, model_text
from dirad.preval.input_units import CommonInputUnits, InputScaling, fit_scaling
from dirad.preval.l0 import L0Training, new_l0
from dirad.preval.l1 import L1Training, new_l1
from dirad.preval.linear_predictor import LinearInputPredictor
from dirad.preval.posterior import fit_evidence_weights, l0_class_nll
from dirad.preval.predictor import Predictor, fit_state_scaling
from dirad.preval.settings import Settings
from dirad.preval.validation import ErrorStats, error_stats, prediction_error

STEPS_AT_ONCE = 1000  # of training, when a model is finished at once
MIN_HELD_OUT = 20  # samples without which a learner is not calibrated
REFIT_FACTOR = 1.25  # times as many samples, for which the linear predictor is fitted again
AnyPredictor = Predictor | LinearInputPredictor


@dataclass
class Early:
    """What a learner detects changes with before L1 is trained."""

    predictor: LinearInputPredictor
    calibration: Calibration


@dataclass(eq=False)
class Learner:
    """A model in training. With a `base`, it grows on top of that expert's networks."""

    number: int
    settings: Settings
    seed: int
    units: CommonInputUnits  # shared by all models of a system
    group: int  # models of one group know the same inputs and give different answers
    base: Expert | None
    buffer: Buffer
    scaling: InputScaling
    l0: L0Training
    inherited: int  # parameters of L0 that belong to the base
    evidence_weights: tuple[float, float] = (1.0, 1.0)
    early: Early | None = None
    l1: L1Training | None = None  # once L0 is done

    error_stats = None  # only experts have them

    def __repr__(self) -> str:
        return model_text(self)

    @property
    def phase(self) -> str:
        """What is trained: L0 or L1."""
        return GROWING_L0 if self.l1 is None else GROWING_L1

    @property
    def network(self) -> Network:
        """L0 as it is now."""
        return self.l0.network

    @property
    def classes(self) -> list[int]:
        """The class of each of L0's outputs."""
        return self.l0.classes

    @property
    def history(self) -> History:
        """The history of L0."""
        return self.l0.history

    @property
    def is_calibrated(self) -> bool:
        """Can it tell whether samples are of its task?"""
        return self.early is not None

    @property
    def calibration(self) -> Calibration:
        """The distribution of the linear predictor's errors."""
        assert self.early is not None, "a learner is asked only when it is calibrated"
        return self.early.calibration

    # ---------------------------------------------------------------- training

    def add(self, X: NDArray, y: NDArray[np.int64], numbers: NDArray[np.int64]) -> None:
        """Collect samples, with their numbers in the stream; not while L1 is trained."""
        if self.l1 is not None:
            return
        self.buffer.add(X, y, numbers)
        fitted = np.count_nonzero(~self.buffer.held_out)
        if len(self.buffer) < self.settings.begin:
            return
        if self.early is None or fitted > REFIT_FACTOR * self.early.predictor.n:
            self._fit_early()

    def label(
        self, numbers: NDArray[np.int64], y: NDArray[np.int64], threads: int = 1
    ) -> tuple[int, Expert | None]:
        """Set late labels, and train if there are many or of new classes.

        Returns how many samples were found, and the expert if training is over.
        """
        if self.l1 is not None:
            return 0, None
        found = self.buffer.label(numbers, y)
        y = self._taught_labels
        grown = len(y) and self.l0.grew_from_too_few_labels(y)
        return found, self.advance(threads) if grown else None

    def advance(self, threads: int = 1) -> Expert | None:
        """Take the training steps of one batch; return the expert if training is over."""
        if len(self.buffer) < self.settings.begin:
            return None
        if self.l1 is not None:
            return self._advance_l1(self.l1, self.settings.steps_per_batch, threads)
        self._advance_l0(self.settings.steps_per_batch)
        if self.buffer.full and self._l0_done:
            return self._begin_l1()
        return None

    def finish_phase(self, threads: int = 1) -> Expert | None:
        """Train until the phase is over, with the samples at hand."""
        if self.l1 is None:
            return self._begin_l1()
        while (expert := self._advance_l1(self.l1, STEPS_AT_ONCE, threads)) is None:
            pass
        return expert

    @property
    def _teaching(self) -> NDArray[np.bool_]:
        """Which samples L0 learns from."""
        return self.buffer.labelled & ~self.buffer.held_out

    @property
    def _taught_labels(self) -> NDArray[np.int64]:
        return self.buffer.y[self._teaching]

    @property
    def _l0_done(self) -> bool:
        return self.l0.adaptation.stable or not self._teaching.any()

    def _restart_l0(self) -> None:
        base = None if self.base is None else self.base.network
        self.l0 = new_l0(self.settings, self.seed, len(self.scaling.offset), base)

    def _advance_l0(self, steps: int) -> None:
        y = self._taught_labels
        if not len(y):
            return
        if self.l0.must_restart(y):
            self._restart_l0()
        if self.l0.adaptation.stable:
            return
        if not self.l0.begun:
            self.l0.labels_at_start = len(y)
            self._fit_scaling()
        X = self.scaling.standardize_and_clip(self.buffer.X[self._teaching])
        self.l0.advance(X, y, self.settings, steps)

    def _fit_scaling(self) -> None:
        """Take mean and spread of the inputs from the buffer, unless the base gives them."""
        X = self.buffer.X[~self.buffer.held_out]
        self.units.fit_once(X)
        if self.base is None:
            self.scaling = fit_scaling(X, self.units.unit)

    def _fit_early(self) -> None:
        """Fit and calibrate the linear predictor."""
        held = self.buffer.held_out
        if np.count_nonzero(held) < MIN_HELD_OUT:
            return
        rest = self.buffer.X[~held]
        self.units.fit_once(rest)
        predictor = LinearInputPredictor(rest / self.units.unit, self.settings.ridge)
        scores = self._evaluator(predictor).evaluate(self.buffer.X[self.buffer.calibration_mask])
        self.early = Early(predictor, calibrate(scores.log_error, scores.group, 1))

    def _begin_l1(self) -> Expert | None:
        """Finish L0 and begin L1; return the expert at once where no L1 is grown."""
        taught = self._taught_labels
        if len(taught) and self.l0.grew_from_too_few_labels(taught):
            self._restart_l0()
        while not self._l0_done:
            self._advance_l0(STEPS_AT_ONCE)
        if not self.classes:
            self._fit_scaling()  # without labels, training L0 has not done it
        self._fit_evidence_weights(None)
        fitted = ~self.buffer.held_out
        X, y = self.buffer.X[fitted], self.buffer.y[fitted]
        if self.settings.prediction != "grown":
            ridge = float("inf") if self.settings.prediction == "mean" else self.settings.ridge
            return self._expert(LinearInputPredictor(X / self.units.unit, ridge), None)
        scaled = self.scaling.standardize(X)
        states = fit_state_scaling(
            self.network,
            scaled,
            standardize=self.settings.standardize,
            input_scale=self.scaling.spread / self.units.unit,
            earlier=self._earlier,
        )
        # Clusters are found within classes; an unlabelled sample is of the class that L0 predicts.
        classes = np.where(y == UNLABELLED, self._labels(X), y)
        self.l1 = new_l1(states, scaled, self.settings, self.seed, classes)
        return None

    @property
    def _earlier(self) -> list[Predictor]:
        """The L1 networks that this one's may build on."""
        if self.base is None or self.base.l1 is None:
            return []
        return [*self.base.l1.states.earlier, self.base.l1]

    def _advance_l1(self, l1: L1Training, steps: int, threads: int) -> Expert | None:
        held = self.buffer.held_out
        l1.advance(self.scaling.standardize(self.buffer.X[~held]), steps, threads)
        if not l1.stable:
            return None
        predictor = l1.finished()
        X = self.scaling.standardize(self.buffer.X[self.buffer.calibration_mask])
        errors = prediction_error(predictor.residuals(X), self.settings.error)
        stats = error_stats(errors, self.settings.T_conf, self.settings.T_SV)
        return self._expert(predictor, stats)

    def _expert(self, predictor: AnyPredictor, stats: ErrorStats | None) -> Expert:
        """Return the expert with this predictor, calibrated on held-out samples."""
        if isinstance(predictor, Predictor):
            self._fit_evidence_weights(predictor, stats)
        evaluator = self._evaluator(predictor, stats, by_class=True)
        chosen = self.buffer.calibration_mask
        scores = evaluator.evaluate(self.buffer.X[chosen])
        y = self.buffer.y[chosen]
        wrong = (y != UNLABELLED) & (scores.label != y)
        n_groups = max(len(self.classes), 1)
        counts = label_errors_by_class(wrong, y, self._taught_labels)
        calibration = calibrate(scores.log_error, scores.group, n_groups, counts)
        return Expert(
            self.number,
            self.seed,
            evaluator,
            calibration,
            self.history,
            self.group,
            self.inherited,
            self.base,
        )

    def _fit_evidence_weights(
        self, predictor: Predictor | None, stats: ErrorStats | None = None
    ) -> None:
        """Make probabilities as high as answers are right on held-out samples."""
        held = self.buffer.held_out & np.isin(self.buffer.y, self.classes)
        if not held.any() or len(self.classes) < 2:
            return
        X = self.buffer.X[held]
        if predictor is None:
            evidence = l0_class_nll(self.l0_outputs(X))
        else:
            evidence = self._evaluator(predictor, stats).class_nll(X)
        columns = np.array([self.classes.index(code) for code in self.buffer.y[held]], np.int64)
        self.evidence_weights = fit_evidence_weights(evidence, columns)

    def _evaluator(
        self,
        predictor: AnyPredictor,
        stats: ErrorStats | None = None,
        by_class: bool = False,
    ) -> Evaluator:
        return Evaluator(
            self.settings,
            self.network,
            self.l0.first_output,
            tuple(self.classes),
            self.scaling,
            self.units,
            predictor,
            self.evidence_weights,
            stats,
            by_class,
        )

    # ---------------------------------------------------------------- answers

    def evaluate(self, X: NDArray) -> Scores:
        """Return the scores of samples by the linear predictor and L0."""
        assert self.early is not None, "a learner is asked only when it is calibrated"
        return self._evaluator(self.early.predictor).evaluate(X)

    def network_inputs(self, X: NDArray) -> NDArray[np.float64]:
        """Return inputs as the networks see them."""
        return self.scaling.standardize(X)

    def l0_outputs(self, X: NDArray) -> NDArray[np.float64]:
        """Return L0's outputs: (samples, classes)."""
        outputs = respond(self.network, self.scaling.standardize_and_clip(X))
        return outputs[:, self.l0.first_output :]

    def probabilities(self, X: NDArray) -> NDArray[np.float64]:
        """Return L0's probability of each class, also before the learner is calibrated."""
        return softmax(-l0_class_nll(self.l0_outputs(X)).combined(self.evidence_weights), axis=1)

    def _labels(self, X: NDArray) -> NDArray[np.int64]:
        """Return the class that L0 predicts, or UNLABELLED where it has none."""
        if not self.classes:
            return np.full(len(X), UNLABELLED)
        return np.array(self.classes)[self.probabilities(X).argmax(axis=1)]

    # ---------------------------------------------------------------- label errors

    @property
    def frequent_classes(self) -> NDArray[np.int64]:
        """The frequent classes: a few samples of others may be stray ones."""
        labels = self.buffer.y[self.buffer.labelled]
        classes, counts = np.unique(labels, return_counts=True)
        return classes[counts >= MIN_CLASS_SHARE * counts.max(initial=0)]

    def label_errors(self, label: NDArray[np.int64], y: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which labels y differ from the predicted ones; unlabelled samples do not.

        Until enough samples are held out to estimate how often L0 errs, only classes that are not
        frequent count.
        """
        labelled = y != UNLABELLED
        if self._has_enough_held_out:
            return labelled & (label != y)
        own = self.frequent_classes
        return labelled & ~np.isin(y, own) & bool(len(own))

    @property
    def _has_enough_held_out(self) -> bool:
        """Are there enough labelled held-out samples, none of which L0 has learned from?"""
        # Of the very first samples none is held out: an L0 that began with them learned them all.
        few = MIN_SAMPLES_TO_HOLD_OUT
        apart = self.settings.begin > few or self.l0.labels_at_start > few
        held = np.count_nonzero(self.buffer.held_out & self.buffer.labelled)
        return apart and bool(self.classes) and bool(held >= MIN_HELD_OUT)

    @property
    def calibration_with_labels(self) -> Calibration:
        """The calibration by which wrong answers are tested: with the errors that L0 makes now.

        Its earlier errors are no reference for the next batch: L0 improves while it is trained, it
        is regrown, and without any signal it may come to prefer another class. Held-out samples
        and the next batch are exchangeable for it at any time.
        """
        held = self.buffer.held_out & self.buffer.labelled
        X, y = self.buffer.X[held], self.buffer.y[held]
        wrong = self.label_errors(self._labels(X), y)
        counts = label_errors_by_class(wrong, y, self._taught_labels)
        return self.calibration._replace(label_errors=counts)

    @property
    def n_parameters(self) -> int:
        """Every number that the model keeps, but for its samples."""
        total = self.network.n_parameters + 2 * self.network.n_inputs - self.inherited
        total += len(self.evidence_weights)
        if self.early is not None:
            total += self.early.predictor.n_parameters + self.early.calibration.n_stored
        if self.l1 is not None:
            total += self.l1.n_parameters
            total += 0 if self.l1.clusters is None else self.l1.clusters.n
        return total


def new_learner(
    number: int,
    n_inputs: int,
    settings: Settings,
    seed: int,
    units: CommonInputUnits,
    base: Expert | None = None,
) -> Learner:
    """Return a learner that has seen nothing yet."""
    l0 = new_l0(settings, seed, n_inputs, None if base is None else base.network)
    scaling = InputScaling(np.zeros(n_inputs), np.ones(n_inputs))
    return Learner(
        number=number,
        settings=settings,
        seed=seed,
        units=units,
        group=number,
        base=base,
        buffer=Buffer(n_inputs, settings.buffer_size, settings.held_out, seed),
        scaling=scaling if base is None else base.evaluator.scaling,
        l0=l0,
        inherited=l0.network.n_parameters,
    )
