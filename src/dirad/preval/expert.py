"""A finished model of one task. It never changes.

L0 answers; L1 predicts the states of L0's nodes; the errors of L1 on held-out samples tell how
unusual a new sample is. `evaluate` computes all that is asked of a model in one pass.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from dirad.core.network import Network
from dirad.history import History
from dirad.immutable import shared
from dirad.inference import evaluate, respond
from dirad.preval.buffer import UNLABELLED
from dirad.preval.calibration import Calibration
from dirad.preval.class_moments import ClassMoments
from dirad.preval.input_units import CommonInputUnits, InputScaling
from dirad.preval.linear_predictor import LinearInputPredictor
from dirad.preval.posterior import MIN_PROBABILITY, ClassNLL, l0_class_nll
from dirad.preval.predictor import MIN_ERROR, Predictor
from dirad.preval.program import (
    BY_CLUSTER,
    CLUSTER_ERRORS,
    GATES,
    RESIDUALS,
    ExpertParts,
    expert_program,
)
from dirad.preval.settings import Settings
from dirad.preval.targets import TargetScaling
from dirad.preval.validation import (
    ErrorStats,
    conflicted,
    largest_difference,
    prediction_error,
)
from dirad.preval.versions import Version
from dirad.program import OUTPUTS, SCORE, Program

GROWING_L0, GROWING_L1, PHASE_STABLE = "L0", "L1", "stable"  # phases of a model


class Scores(NamedTuple):
    """What a model computes for some samples."""

    score: NDArray[np.float64]  # the sample goes to the model with the lowest
    log_error: NDArray[np.float64]  # ln of the prediction error, which is tested
    group: NDArray[np.int64]  # of the calibration
    label: NDArray[np.int64]  # the most probable class, or UNLABELLED where there is none
    outputs: NDArray[np.float64]  # (samples, outputs): class probabilities, or a number

    def of(self, chosen: NDArray | slice) -> "Scores":
        """Return the scores of some of the samples."""
        return Scores(
            self.score[chosen],
            self.log_error[chosen],
            self.group[chosen],
            self.label[chosen],
            self.outputs[chosen],
        )


@dataclass(frozen=True, eq=False)
class Evaluator:
    """All that turns inputs into `Scores`."""

    settings: Settings
    network: Network  # L0
    first_output: int  # outputs before it belong to the model that this one is built on
    classes: tuple[int, ...]  # the class of each output from there on
    scaling: InputScaling
    units: CommonInputUnits
    predictor: Predictor | LinearInputPredictor
    evidence_weights: tuple[float, float]  # of L0's answers; of prediction errors
    error_stats: ErrorStats | None = None  # of L1's targets, where L1 was grown
    by_class: bool = False  # are samples grouped by predicted class for calibration?
    target_scaling: TargetScaling | None = None  # of a number that L0 predicts

    def __getstate__(self) -> dict[str, Any]:
        computed = ("program", "_codes")  # again when they are needed
        return {name: value for name, value in vars(self).items() if name not in computed}

    @property
    def parts(self) -> ExpertParts:
        """What the program of the model is made of, where L1 was grown."""
        l1 = self.predictor
        assert isinstance(l1, Predictor)
        columns = None
        classified = self.classes and self.target_scaling is None
        if l1.clusters is not None and classified and l1.clusters.cover(self.classes):
            column = {label: i for i, label in enumerate(self.classes)}
            columns = np.array([column.get(label, -1) for label in l1.clusters.classes.tolist()])
        stats = self.error_stats
        return ExpertParts(
            l0=self.network,
            first_output=self.first_output,
            l1=l1,
            score=self.settings.score,
            scaling=self.scaling,
            limits=None
            if stats is None
            else largest_difference(stats.limits(self.settings.T_conf), self.settings.error),
            weights=self.evidence_weights,
            cluster_columns=columns,
            target_scaling=self.target_scaling,
        )

    @cached_property
    def program(self) -> Program:
        """The program that computes the scores, where L1 was grown."""
        answers = [OUTPUTS] if self.classes else []
        return expert_program(self.parts, precise=True).only([*answers, SCORE, CLUSTER_ERRORS])

    def residuals(self, X: NDArray) -> NDArray[np.float64]:
        """Return prediction − state of the targets, where L1 was grown: (samples, targets)."""
        whole = expert_program(self.parts._replace(score=BY_CLUSTER), details=True)
        return evaluate(whole.only([RESIDUALS]), X)[RESIDUALS]

    def gates(self, X: NDArray) -> NDArray[np.float64]:
        """Return the mixture weights of the clusters, where L1 was grown: (samples, clusters)."""
        whole = expert_program(self.parts._replace(score=BY_CLUSTER), precise=True)
        return evaluate(whole.only([GATES]), X)[GATES]

    def l0_outputs(self, X: NDArray) -> NDArray[np.float64]:
        """Return L0's outputs: (samples, classes)."""
        return respond(self.network, self.scaling.standardize_and_clip(X))[:, self.first_output :]

    def l0_answers(self, X: NDArray) -> NDArray[np.float64]:
        """Return class probabilities, or the predicted number, by L0 alone."""
        if self.target_scaling is not None:
            return self.target_scaling.restore(self.l0_outputs(X))
        posterior = l0_class_nll(self.l0_outputs(X)).combined(self.evidence_weights)
        return softmax(-posterior, axis=1) if self.classes else posterior

    def evaluate(self, X: NDArray) -> Scores:
        """Return the scores of samples, in one pass through all networks."""
        if not isinstance(self.predictor, LinearInputPredictor):
            return self.scores_from(evaluate(self.program, X))
        error = (self.predictor.residuals(X / self.units.unit) ** 2).mean(axis=1) + MIN_ERROR
        return self._scores(error, error, self.l0_answers(X))

    def scores_from(self, found: Mapping[str, NDArray[np.float64]]) -> Scores:
        """Return the scores of samples, given the results of the program."""
        score, errors = found[SCORE][:, 0], found[CLUSTER_ERRORS]
        error = score if self.settings.score == BY_CLUSTER else errors[:, 0]
        outputs = found[OUTPUTS] if self.classes else np.zeros((len(score), 0))
        return self._scores(score, error, outputs)

    def _scores(self, score: NDArray, error: NDArray, outputs: NDArray) -> Scores:
        if not self.classes:
            none = np.full(len(score), UNLABELLED)
            return Scores(score, np.log(error), np.zeros(len(score), np.int64), none, outputs)
        best = outputs.argmax(axis=1)
        group = best if self.by_class else np.zeros(len(score), np.int64)
        return Scores(score, np.log(error), group, self._codes[best], outputs)

    @cached_property
    def _codes(self) -> NDArray[np.int64]:
        return np.array(self.classes)

    def class_nll(self, X: NDArray) -> ClassNLL:
        """Return what speaks for each class, before it is weighted."""
        result = l0_class_nll(self.l0_outputs(X))
        grown = isinstance(self.predictor, Predictor)
        columns = self.parts.cluster_columns if grown else None
        if columns is None:
            return result
        gates = self.gates(X)
        share = np.stack(
            [gates[:, columns == i].sum(axis=1) for i in range(len(self.classes))], axis=1
        )
        return ClassNLL(result.answers, -np.log(np.maximum(share, MIN_PROBABILITY)))


@dataclass(frozen=True, eq=False)
class Expert:
    """A finished model: it evaluates samples, and knows what is usual for its task."""

    number: int
    seed: int
    evaluator: Evaluator
    calibration: Calibration
    history: History  # of L0
    group: int  # models of one group know the same inputs and give different answers
    inherited: int  # parameters of L0 that belong to the model that this one is built on
    base: "Expert | None" = None  # that model (models="shared")
    versions: tuple[Version, ...] = ()  # corrections of its answers that were good for long
    moments: ClassMoments | None = None  # of its classes, where a covariance is pooled

    phase = PHASE_STABLE
    is_calibrated = True

    def __deepcopy__(self, memo: dict[Any, Any]) -> "Expert":
        return shared(self, memo)

    def __repr__(self) -> str:
        return model_text(self)

    @property
    def settings(self) -> Settings:
        """The constants of PREVAL."""
        return self.evaluator.settings

    @property
    def network(self) -> Network:
        """L0."""
        return self.evaluator.network

    @property
    def l1(self) -> Predictor | None:
        """L1, if one was grown."""
        predictor = self.evaluator.predictor
        return predictor if isinstance(predictor, Predictor) else None

    @property
    def error_stats(self) -> ErrorStats | None:
        """The distribution of L1's errors on held-out samples."""
        return self.evaluator.error_stats

    @property
    def classes(self) -> tuple[int, ...]:
        """The class of each of L0's outputs."""
        return self.evaluator.classes

    @property
    def frequent_classes(self) -> NDArray[np.int64]:
        """The frequent classes: a few samples of others may be stray ones."""
        return np.array(self.calibration.frequent, np.int64)

    @property
    def calibration_with_labels(self) -> Calibration:
        """The calibration by which wrong answers are tested."""
        return self.calibration

    def has_label_errors(self, least: int) -> bool:
        """Has it answered so many labelled held-out samples?"""
        return bool(self.classes) and self.calibration.n_labelled >= least

    def label_errors(self, label: NDArray[np.int64], y: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which labels y differ from the predicted ones; unlabelled samples do not."""
        return (y != UNLABELLED) & (label != y)

    def network_inputs(self, X: NDArray) -> NDArray[np.float64]:
        """Return inputs as the networks see them."""
        return self.evaluator.scaling.standardize(X)

    def evaluate(self, X: NDArray) -> Scores:
        """Return the scores of samples, in one pass through all networks."""
        return self.evaluator.evaluate(X)

    @property
    def parts(self) -> ExpertParts:
        """What the program of the model is made of."""
        return self.evaluator.parts

    def l0_outputs(self, X: NDArray) -> NDArray[np.float64]:
        """Return L0's outputs: (samples, classes)."""
        return self.evaluator.l0_outputs(X)

    def errors(self, X: NDArray) -> NDArray[np.float64]:
        """Return the prediction errors E of the nodes that L1 predicts: (samples, nodes)."""
        if self.l1 is None:
            return np.zeros((len(X), 0))
        return prediction_error(self.l1.residuals(self.network_inputs(X)), self.settings.error)

    def predicted_inputs(self, X: NDArray) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return which inputs L1 predicts, and their predicted values: (samples, these inputs)."""
        if self.l1 is None:
            return np.zeros(0, np.int64), np.zeros((len(X), 0))
        chosen, scaling = self.l1.is_input, self.evaluator.scaling
        inputs = self.l1.nodes[chosen]
        predicted = self.l1.predictions(self.network_inputs(X))[:, chosen]
        return inputs, predicted * scaling.spread[inputs] + scaling.offset[inputs]

    def conflicted(self, X: NDArray) -> NDArray[np.bool_]:
        """Return which of L0's nodes are conflicted, per sample: (samples, nodes of L0)."""
        result = np.zeros((len(X), self.network.n_inputs + len(self.network.units)), bool)
        if self.l1 is not None and self.error_stats is not None:
            found = conflicted(self.errors(X), self.error_stats, self.settings.T_conf)
            result[:, self.l1.nodes] = found
        return result

    @property
    def n_parameters(self) -> int:
        """Every number that the model keeps."""
        stats = 0 if self.error_stats is None else len(self.error_stats.mean)
        total = self.network.n_parameters + 2 * stats + 2
        total += 2 * self.network.n_inputs - self.inherited + len(self.evaluator.evidence_weights)
        total += self.evaluator.predictor.n_parameters + self.calibration.n_stored
        total += sum(one.weights.size for one in self.versions)
        total += 0 if self.moments is None else self.moments.n_stored
        if self.l1 is not None and self.l1.clusters is not None:
            total += self.l1.clusters.n
        return total


def model_text(model: Any) -> str:
    """Return a model in one line: its number, phase and size."""
    l1 = f", L1 with {model.l1.n_parameters:,} parameters" if model.l1 is not None else ""
    return f"Model {model.number} ({model.phase}): L0 with {model.network.n_edges} edges{l1}"


def find_model(models: Sequence[Any], number: int) -> Any:
    """Return a model by its number, which never changes."""
    for model in models:
        if model.number == number:
            return model
    raise ValueError(f"there is no model {number}: it was removed, or never opened")


def with_bases(models: Sequence[Any]) -> dict[int, Any]:
    """Return models by number, with those that they are built on, removed ones included."""
    result: dict[int, Any] = {}
    for model in models:
        below = model
        while below is not None:
            result[below.number] = below
            below = below.base
    return result
