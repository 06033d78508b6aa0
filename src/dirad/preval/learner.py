"""A model that still learns its task; when it is done, it returns an `Expert`.

Samples are collected, and L0 is trained on them, until the buffer is full or the task is over. As
samples come in, L1 is fitted again to all that are there: the learner answers, and detects changes,
by this `interim` expert, which is as a finished one is, but for the samples still to come.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from dirad.core.network import Network
from dirad.history import History
from dirad.inference import respond
from dirad.preval.buffer import MIN_SAMPLES_TO_HOLD_OUT, UNLABELLED, Buffer
from dirad.preval.calibration import MIN_CLASS_SHARE, Calibration, calibrate, label_errors_by_class
from dirad.preval.class_moments import ClassMoments, class_moments
from dirad.preval.dependence import autocorrelation_time, trend_time, without_class_means
from dirad.preval.exact_l1 import fit_exact_l1
from dirad.preval.expert import GROWING_L0, Evaluator, Expert, Scores, model_text
from dirad.preval.input_units import CommonInputUnits, InputScaling, fit_scaling
from dirad.preval.l0 import MANY_INPUTS, L0Training, new_l0
from dirad.preval.linear_predictor import LinearInputPredictor
from dirad.preval.posterior import ClassNLL, fit_evidence_weights, l0_class_nll
from dirad.preval.predictor import Predictor, fit_state_scaling
from dirad.preval.residuals import (
    ResidualCalibration,
    calibrate_residuals,
)
from dirad.preval.settings import Settings
from dirad.preval.stretches import LENGTH_IF_SAID, length_for
from dirad.preval.targets import NUMBERS, class_codes, fit_target_scaling, is_labelled
from dirad.preval.task_memory import memory_of
from dirad.preval.validation import ErrorStats, error_stats, prediction_error

STEPS_AT_ONCE = 1000  # of training, when a model is finished at once
MIN_HELD_OUT = 20  # samples without which a learner is not calibrated
FITTED_SCORE_SAMPLES = 300  # fitted samples whose mean score is computed
ERROR_STATS_SAMPLES = 300  # held-out samples by which errors of single nodes are judged
REFIT_FACTOR = 2.0  # times as many samples, for which L1 is fitted again,
LARGEST_REFIT_FACTOR = 3.0  # also while L0 is trained: when that is done, L1 is fitted anyway
SMALLEST_REFIT_FACTOR = 1.25  # while there are few samples, to which a fit takes little time
FEW_SAMPLES = 1000
MIN_CLASS_SAMPLES = 60  # of a class that is not frequent: fewer may be stray ones
AnyPredictor = Predictor | LinearInputPredictor


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
    interim: Expert | None = None  # by which it answers, once it is calibrated
    n_fitted: int = 0  # samples that this one was fitted to
    has_stable_l0: bool = False  # was L0 stable then?
    moments: ClassMoments | None = None  # of its classes, where a covariance is pooled

    phase = GROWING_L0

    def __repr__(self) -> str:
        return model_text(self)

    @property
    def network(self) -> Network:
        """L0 as it is now."""
        return self.l0.network

    @property
    def classes(self) -> list[int]:
        """The classes that it can answer."""
        return self.l0.classes if self.interim is None else list(self.interim.classes)

    @property
    def history(self) -> History:
        """The history of L0."""
        return self.l0.history

    @property
    def is_calibrated(self) -> bool:
        """Can it tell whether samples are of its task?"""
        return self.interim is not None

    @property
    def _known(self) -> Expert:
        assert self.interim is not None, "a learner is asked only when it is calibrated"
        return self.interim

    @property
    def calibration(self) -> Calibration:
        """The distribution of L1's errors."""
        return self._known.calibration

    @property
    def l1(self) -> Predictor | None:
        """L1 as it is now."""
        return None if self.interim is None else self.interim.l1

    @property
    def error_stats(self) -> ErrorStats | None:
        """The distribution of L1's errors on held-out samples, by node."""
        return None if self.interim is None else self.interim.error_stats

    # ---------------------------------------------------------------- training

    def label(
        self, numbers: NDArray[np.int64], y: NDArray, threads: int = 1
    ) -> tuple[int, Expert | None]:
        """Set late labels, and train if there are many or of new classes.

        Returns how many samples were found, and the expert if training is over.
        """
        found = self.buffer.label(numbers, y)
        y = self._taught_labels
        grown = len(y) and self.l0.grew_from_too_few_labels(y)
        return found, self.advance(threads) if grown else None

    def advance(self, threads: int = 1) -> Expert | None:
        """Take the training steps of one batch; return the expert if training is over."""
        if len(self.buffer) < self.settings.begin:
            return None
        self._advance_l0(self.settings.steps_per_batch)
        if self.buffer.full and self._l0_done:
            return self.finish(threads)
        n = int(np.count_nonzero(~self.buffer.held_out))
        enough = np.count_nonzero(self.buffer.held_out) >= MIN_HELD_OUT
        stable = self.l0.adaptation.stable
        more = self._has_many_more(n) or stable > self.has_stable_l0
        if enough and (more or not np.isin(self.frequent_classes, self.classes).all()):
            self.interim = replace(self._expert(threads), history=History())
            self.n_fitted, self.has_stable_l0 = n, stable
        return None

    def _has_many_more(self, n: int) -> bool:
        """Are n samples so many more than L1 was fitted to that it should be fitted again?"""
        if self.is_calibrated and 2 * len(self.buffer) > self.buffer.size:
            return False  # the last fit is near
        stable = self.l0.adaptation.stable
        restarted = self.has_stable_l0 and not stable  # L0 is not yet as good as it was
        if n <= FEW_SAMPLES and not restarted:
            return n >= SMALLEST_REFIT_FACTOR * self.n_fitted
        return n > (REFIT_FACTOR if stable else LARGEST_REFIT_FACTOR) * self.n_fitted

    def finish(self, threads: int = 1) -> Expert:
        """Train L0 to the end with the samples at hand, and return the expert."""
        taught = self._taught_labels
        if len(taught) and self.l0.grew_from_too_few_labels(taught):
            self._restart_l0()
        while not self._l0_done:
            self._advance_l0(STEPS_AT_ONCE)
        return self._expert(threads, last=True)

    def fitted_to_all(self, expert: Expert, threads: int = 1) -> Expert:
        """Return the expert that this became, with L1 fitted to the held-out samples as well.

        Only where samples are few, and inputs are many: else a tenth more makes no difference. What
        was found on the samples while they were held out stays. New samples can only be less
        unusual than it says.
        """
        few = len(self.buffer) <= FEW_SAMPLES and self.buffer.X.shape[1] > MANY_INPUTS
        independent = expert.calibration.memory.independent
        if expert.l1 is None or not (few and independent and self.buffer.held_out.any()):
            return expert
        everything = np.ones(len(self.buffer), bool)
        predictor = self._fitted_predictor(expert.network, threads, 1.0, everything, overlap=True)
        return replace(expert, evaluator=replace(expert.evaluator, predictor=predictor))

    def note_moments(self, expert: Expert) -> None:
        """Keep the moments of the samples to which the interim expert was fitted."""
        known = self.moments
        if known is None or known.n_fitted != self.n_fitted or known.k != len(expert.classes):
            self.moments = self.moments_of(expert)

    def held_out_of(self, expert: Expert, most: int) -> tuple[NDArray, NDArray[np.int64]]:
        """Return at most so many held-out samples, and which output of the expert is right."""
        y = class_codes(self.buffer.y)
        rows = np.flatnonzero(self.buffer.held_out & np.isin(y, expert.classes))
        rows = evenly_spaced(rows, most)
        return self.buffer.X[rows], (np.array(expert.classes)[:, None] == y[rows]).argmax(axis=0)

    def moments_of(self, expert: Expert, *, of_all: bool = False) -> ClassMoments | None:
        """Return the moments of an expert's classes: of the samples that were fitted, or of all."""
        chosen = ~self.buffer.held_out | of_all
        y = class_codes(self.buffer.y[chosen])
        own = frequent(y[y != UNLABELLED], enough=MIN_CLASS_SAMPLES)
        return class_moments(self.units.symmetric(self.buffer.X[chosen]), y, expert.classes, own)

    @property
    def _teaching(self) -> NDArray[np.bool_]:
        """Which samples L0 learns from."""
        return self.buffer.labelled & ~self.buffer.held_out

    @property
    def _taught_labels(self) -> NDArray:
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
            if self.settings.targets == NUMBERS:
                self.l0.target_scaling = fit_target_scaling(y)
            self._fit_scaling()
        taught, weight = self._teaching, self.buffer.weight
        X = self.scaling.standardize_and_clip(self.buffer.X[taught])
        self.l0.advance(X, y, self.settings, steps, None if weight is None else weight[taught])

    def _fit_scaling(self) -> None:
        """Take mean and spread of the inputs from the buffer, unless the base gives them."""
        X = self.buffer.X[~self.buffer.held_out]
        self.units.fit_once(X)
        if self.base is None:
            self.scaling = fit_scaling(X, self.units.unit)

    @property
    def _earlier(self) -> list[Predictor]:
        """The L1 networks that this one's may build on."""
        if self.base is None or self.base.l1 is None:
            return []
        return [*self.base.l1.states.earlier, self.base.l1]

    def _expert(self, threads: int, *, last: bool = False) -> Expert:
        """Return an expert of the samples at hand, calibrated on those that are held out.

        The last one of all may have clusters that overlap, which take longer to fit.

        When their order is first seen to matter, stretches are held out instead of single samples,
        and L0 is trained again on the others.
        """
        expert = self._fitted_expert(threads, last)
        memory = expert.calibration.memory
        if memory.independent:
            return expert
        if not self.buffer.hold_out_stretches(length_for(memory.inputs, self.buffer.share)):
            return expert
        steps, stable = self.l0.adaptation.state.step, self.l0.adaptation.stable
        self._restart_l0()
        while self._teaching.any() and not self.l0.adaptation.stable:
            left = steps - self.l0.adaptation.state.step
            if left <= 0 and not stable:
                break
            self._advance_l0(STEPS_AT_ONCE if stable else left)
        return self._fitted_expert(threads, last)

    def _fitted_expert(self, threads: int, last: bool) -> Expert:
        """Return an expert of the samples that are not held out, calibrated on those that are."""
        if not self.l0.classes:
            self._fit_scaling()  # without labels, training L0 has not done it
        network = self.network.copy()  # L0 may go on growing
        centred = without_class_means(self.buffer.X, class_codes(self.buffer.y))
        ordered = self.settings.order_matters != "no"
        memory = autocorrelation_time(centred) if ordered else 1.0
        fitted = ~self.buffer.held_out
        predictor = self._fitted_predictor(network, threads, memory, fitted, overlap=last)
        held_out = self.buffer.X[self.buffer.calibration_mask]
        evaluator = self._evaluator(network, predictor)
        if isinstance(predictor, Predictor):
            some = evenly_spaced(held_out, ERROR_STATS_SAMPLES)
            errors = prediction_error(evaluator.residuals(some), self.settings.error)
            stats = error_stats(errors, self.settings.T_conf, self.settings.T_SV)
            evaluator = replace(evaluator, error_stats=stats)
        nll = evaluator.class_nll(held_out)
        evaluator = replace(evaluator, evidence_weights=self._evidence_weights(nll))
        scores = evaluator.evaluate(held_out)
        y = class_codes(self.buffer.y[self.buffer.calibration_mask])
        wrong = (y != UNLABELLED) & (scores.label != y)
        counts = label_errors_by_class(wrong, y, class_codes(self._taught_labels))
        n_groups = max(len(self.l0.classes), 1)
        calibration = calibrate(scores.log_error, scores.group, n_groups, counts)
        drift = trend_time(centred, tau=memory) if memory > 1.0 else 1.0
        times = memory_of(self.buffer, evaluator, max(memory, drift))
        calibration = calibration._replace(
            memory=times,
            n_learned=len(self.buffer),
            stretch=max(self.buffer.stretch, 1.0),
        )
        if self.buffer.held_out.any():
            calibration = calibration._replace(
                fitted=self._fitted_score(evaluator, calibration),
                residuals=self._held_out_residuals(scores),
            )
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

    def _held_out_residuals(self, scores: Scores) -> ResidualCalibration | None:
        """Return the calibration by the residuals of held-out samples, given their scores."""
        scaling = self.l0.target_scaling
        if scaling is None or not self._has_held_out_apart:
            return None
        y = self.buffer.y[self.buffer.held_out]
        known = is_labelled(y)
        return calibrate_residuals(y[known] - scores.outputs[known, 0], scaling.spread)

    def _fitted_score(self, evaluator: Evaluator, calibration: Calibration) -> float:
        """Return the mean normal score of samples that were fitted; at most 0."""
        rows = evenly_spaced(np.flatnonzero(~self.buffer.held_out), FITTED_SCORE_SAMPLES)
        scores = evaluator.evaluate(self.buffer.X[rows])
        mean = calibration.normal_scores(scores.log_error, scores.group).mean()
        return min(float(mean), 0.0)

    def _fitted_predictor(
        self,
        network: Network,
        threads: int,
        memory: float,
        fitted: NDArray[np.bool_],
        *,
        overlap: bool,
    ) -> AnyPredictor:
        """Return L1 of some samples, or what takes its place in an ablation: regression, mean."""
        X, y = self.buffer.X[fitted], class_codes(self.buffer.y[fitted])
        if self.settings.prediction != "sparse":
            ridge = float("inf") if self.settings.prediction == "mean" else self.settings.ridge
            return LinearInputPredictor(X / self.units.unit, ridge)
        scaled = self.scaling.standardize(X)
        states = fit_state_scaling(
            network,
            scaled,
            standardize=self.settings.standardize,
            input_scale=self.scaling.spread / self.units.unit,
            earlier=self._earlier,
        )
        # Clusters are found within classes; an unlabelled sample is of the class that L0 predicts.
        unlabelled = y == UNLABELLED
        if unlabelled.any():
            y = np.where(unlabelled, self._labels(X), y)
        # A few samples of another class may be stray ones.
        own = np.isin(y, frequent(y, enough=MIN_CLASS_SAMPLES))
        return fit_exact_l1(
            states, scaled[own], self.settings, self.seed, y[own], threads, memory, overlap=overlap
        )

    def _evidence_weights(self, nll: ClassNLL) -> tuple[float, float]:
        """Return the weights that make probabilities as high as answers are right.

        `nll` is of the held-out samples.
        """
        y = self.buffer.y[self.buffer.calibration_mask]
        labelled = np.isin(y, self.l0.classes)
        if not self.buffer.held_out.any() or not labelled.any() or len(self.l0.classes) < 2:
            return 1.0, 1.0
        columns = np.array([self.l0.classes.index(code) for code in y[labelled]], np.int64)
        own = ClassNLL(nll.answers[labelled], nll.errors[labelled])
        return fit_evidence_weights(own, columns)

    def _evaluator(self, network: Network, predictor: AnyPredictor) -> Evaluator:
        return Evaluator(
            self.settings,
            network,
            self.l0.first_output,
            tuple(self.l0.classes),
            self.scaling,
            self.units,
            predictor,
            evidence_weights=(1.0, 1.0),
            by_class=True,
            target_scaling=self.l0.target_scaling,
        )

    # ---------------------------------------------------------------- answers

    def evaluate(self, X: NDArray) -> Scores:
        """Return the scores of samples by the interim expert."""
        return self._known.evaluate(X)

    def conflicted(self, X: NDArray) -> NDArray[np.bool_]:
        """Return which of L0's nodes are conflicted, per sample: (samples, nodes of L0)."""
        return self._known.conflicted(X)

    def network_inputs(self, X: NDArray) -> NDArray[np.float64]:
        """Return inputs as the networks see them."""
        return self.scaling.standardize(X)

    def l0_outputs(self, X: NDArray) -> NDArray[np.float64]:
        """Return L0's outputs: (samples, classes)."""
        outputs = respond(self.network, self.scaling.standardize_and_clip(X))
        return outputs[:, self.l0.first_output :]

    def outputs(self, X: NDArray) -> NDArray[np.float64]:
        """Return L0's class probabilities or number, also before the learner is calibrated."""
        if self.l0.target_scaling is not None:
            return self.l0.target_scaling.restore(self.l0_outputs(X))
        return softmax(-l0_class_nll(self.l0_outputs(X)).answers, axis=1)

    def _labels(self, X: NDArray) -> NDArray[np.int64]:
        """Return the class that L0 predicts, or UNLABELLED where it has none."""
        if not self.l0.classes:
            return np.full(len(X), UNLABELLED)
        return np.array(self.l0.classes)[self.outputs(X).argmax(axis=1)]

    # ---------------------------------------------------------------- label errors

    @property
    def frequent_classes(self) -> NDArray[np.int64]:
        """The frequent classes: a few samples of others may be stray ones."""
        return frequent(class_codes(self.buffer.y[self.buffer.labelled]))

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
        known = self.interim
        enough = known is not None and known.has_label_errors(MIN_HELD_OUT)
        return enough and self._has_held_out_apart

    @property
    def _has_held_out_apart(self) -> bool:
        """Has L0 learned from none of the held-out samples?"""
        # Of the very first samples none is held out: an L0 that began with them learned them all.
        few = MIN_SAMPLES_TO_HOLD_OUT
        return self.settings.begin > few or self.l0.labels_at_start > few

    @property
    def calibration_with_labels(self) -> Calibration:
        """The calibration by which wrong answers are tested."""
        if self._has_enough_held_out:
            return self.calibration
        held = self.buffer.held_out & self.buffer.labelled
        y = class_codes(self.buffer.y[held])
        taught = class_codes(self._taught_labels)
        counts = label_errors_by_class(self.label_errors(y, y), y, taught)
        return self.calibration._replace(label_errors=counts)

    @property
    def n_parameters(self) -> int:
        """Every number that the model keeps, but for its samples."""
        if self.interim is not None:
            moments = 0 if self.moments is None else self.moments.n_stored
            return self.interim.n_parameters + moments
        return self.network.n_parameters + 2 * self.network.n_inputs - self.inherited


def frequent(y: NDArray[np.int64], enough: float = np.inf) -> NDArray[np.int64]:
    """Return the classes with `enough` samples, or a tenth of those of the largest."""
    classes, counts = np.unique(y, return_counts=True)
    return classes[counts >= min(MIN_CLASS_SHARE * counts.max(initial=0), enough)]


def evenly_spaced(rows: NDArray, most: int) -> NDArray:
    """Return at most so many rows, evenly spaced."""
    return rows[np.linspace(0, len(rows) - 1, min(len(rows), most), dtype=int)]


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
    stretch = LENGTH_IF_SAID if settings.order_matters == "yes" else 0.0
    share, size = settings.held_out, settings.buffer_size
    return Learner(
        number=number,
        settings=settings,
        seed=seed,
        units=units,
        group=number,
        base=base,
        buffer=Buffer(n_inputs, size, share, seed, settings.targets, stretch),
        scaling=scaling if base is None else base.evaluator.scaling,
        l0=l0,
        inherited=l0.network.n_parameters,
    )
