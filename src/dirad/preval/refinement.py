"""The model in use follows slow changes of its task: a linear correction of its answers.

The model stays as it is. Its *refinement* is fitted to the last labelled samples again after every
batch: to the logarithms of the model's probabilities (or to its number) it adds a linear function
of the inputs and of these logarithms. A correction by few samples follows fast changes, one by many
is more exact: both are fitted, and whichever answered recent batches best, before it learned them,
is used; or the model as it is.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, log_softmax, softmax

from dirad.core.blas import one_blas_thread
from dirad.preval.expert import Expert, Scores
from dirad.preval.posterior import MIN_PROBABILITY
from dirad.preval.targets import class_codes, is_labelled
from dirad.preval.versions import MIN_BATCHES, is_better, with_one_more

WINDOWS = (600, 3000)  # last labelled samples that corrections are fitted to
RIDGE = 1.0  # added to the sum of squares of each weight's feature
DECAY = 0.9  # per batch, of the losses by which it is compared with the model
MAX_WEIGHTS = 2000  # where there would be more, a model is not refined
MAX_LOSS = 1e300  # of huge numbers
MAX_ITERATIONS = 20  # of a fit, which starts from the last one
# Batches after which corrections of many inputs, whose fits take long, are fitted again while they
# are not clearly better than the model.
BATCHES_BETWEEN_FITS, MANY_INPUTS = 4, 100


class Answered(NamedTuple):
    """Samples with their targets, and a model's own outputs for them."""

    X: NDArray[np.float64]
    y: NDArray
    outputs: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Refinement:
    """Corrections of a model's answers, the samples they were fitted to, and how good they are."""

    model: int
    classes: tuple[int, ...]
    fit: int  # of the model, which may have been fitted again
    X: NDArray[np.float64]  # (samples, inputs)
    y: NDArray[np.float64]  # (samples,) column of the class, or the number
    answers: NDArray[np.float64]  # (samples, outputs) of the model: log-probabilities, or numbers
    weights: NDArray[np.float64]  # (windows, features, outputs)
    # In recent batches: of the model, then of each correction, then of each version of the model.
    losses: tuple[float, ...]
    version: int = 0  # of the model, from which corrections start; 0: the model as it is
    origin: NDArray[np.float64] | None = None  # the weights of that version
    better_for: int = 0  # batches for which the slow correction was better than all versions

    @property
    def best(self) -> int:
        """Which correction answered recent batches best; -1: the model as it is did."""
        return int(np.argmin(self.losses)) - 1

    def best_version(self, model: Expert) -> int:
        """Return the number of the version that answers, or that the best correction is of."""
        if self.best < len(WINDOWS):
            return 0 if self.best < 0 else self.version
        return model.versions[self.best - len(WINDOWS)].number

    def corrections(self, model: Expert) -> list[NDArray[np.float64]]:
        """Return the weights of all corrections, and of the versions of the model."""
        return [*self.weights, *(one.weights for one in model.versions)]

    def outputs(
        self, model: Expert, X: NDArray, own: NDArray, correction: int
    ) -> NDArray[np.float64]:
        """Return the outputs for samples by one correction, given the model's own."""
        return corrected(model, X, own, self.corrections(model)[correction])

    def scores(self, model: Expert, X: NDArray, own: Scores) -> Scores:
        """Return the scores of samples with the best outputs and labels, given the model's own."""
        if self.model != model.number or self.best < 0 or self.classes != tuple(model.classes):
            return own
        return corrected_scores(model, X, own, self.corrections(model)[self.best])


def corrected(model: Expert, X: NDArray, own: NDArray, weights: NDArray) -> NDArray[np.float64]:
    """Return the outputs for samples by a correction, given the model's own."""
    answers = as_answers(model, own)
    result = answers + features(model, X, answers) @ weights
    return result if is_numeric(model) else softmax(result, axis=1)


def corrected_scores(model: Expert, X: NDArray, own: Scores, weights: NDArray) -> Scores:
    """Return the scores of samples with corrected outputs and labels, given the model's own."""
    outputs = corrected(model, X, own.outputs, weights)
    label = np.array(model.classes)[outputs.argmax(axis=1)]
    return own._replace(outputs=outputs, label=label)


def from_version(model: Expert, n_inputs: int, number: int) -> Refinement:
    """Return a refinement without samples, whose corrections start from a version of the model."""
    origin = next((one.weights for one in model.versions if one.number == number), None)
    n_outputs = len(model.classes)
    n_features = 1 + n_inputs + n_outputs
    start = np.zeros((n_features, n_outputs)) if origin is None else origin
    return Refinement(
        model.number,
        tuple(model.classes),
        -1,
        np.zeros((0, n_inputs)),
        np.zeros(0),
        np.zeros((0, n_outputs)),
        np.array([start] * len(WINDOWS)),
        (0.0,) * (1 + len(WINDOWS) + len(model.versions)),
        number,
        origin,
    )


def with_version(known: Refinement, model: Expert) -> tuple[Refinement, Expert]:
    """Keep the slow correction as a version of its model; corrections start from it."""
    versions = with_one_more(model.versions, known.weights[-1], model.settings.max_versions)
    first = 1 + len(WINDOWS)
    before = known.losses[first:][len(model.versions) + 1 - len(versions) :]
    losses = (*known.losses[:first], *before, known.losses[first - 1])
    model = replace(model, versions=versions)
    number, origin = versions[-1]
    known = replace(known, losses=losses, version=number, origin=origin, better_for=0)
    return known, model


def is_numeric(model: Expert) -> bool:
    """Does the model predict numbers?"""
    return model.evaluator.target_scaling is not None


def as_answers(model: Expert, outputs: NDArray) -> NDArray[np.float64]:
    """Return outputs as they are corrected: numbers, or logarithms of probabilities."""
    return outputs if is_numeric(model) else np.log(np.maximum(outputs, MIN_PROBABILITY))


def features(model: Expert, X: NDArray, answers: NDArray) -> NDArray[np.float64]:
    """Return what a correction is linear in: a constant, the inputs and the answers."""
    scaling = model.evaluator.target_scaling
    if scaling is not None:
        answers = scaling.standardize_and_clip(answers)
    inputs = model.evaluator.scaling.standardize_and_clip(X)
    return np.hstack([np.ones((len(X), 1)), inputs, answers])


def fitting_samples(model: Expert, batch: Answered) -> Answered:
    """Return the samples of a batch that a model can be compared on, with columns for classes."""
    X, y, outputs = batch
    if is_numeric(model):
        known = is_labelled(y)
        return Answered(X[known], y[known], outputs[known])
    known = np.isin(class_codes(y), model.classes)
    column = {code: i for i, code in enumerate(model.classes)}
    columns = np.array([column[code] for code in y[known].tolist()], np.float64)
    return Answered(X[known], columns, outputs[known])


def loss(model: Expert, y: NDArray, outputs: NDArray) -> float:
    """Return the mean loss of outputs: the share of wrong answers, or the squared error."""
    if is_numeric(model):
        with np.errstate(over="ignore"):
            return min(float(np.mean((y - outputs[:, 0]) ** 2)), MAX_LOSS)
    return float(np.mean(outputs.argmax(axis=1) != y))


def compared(known: Refinement, model: Expert, batch: Answered) -> Refinement | None:
    """Return a refinement with the losses of a batch that neither it nor the model has seen."""
    if known.model != model.number or known.classes != tuple(model.classes):
        return None
    X, targets, own = fitting_samples(model, batch)
    if not len(X):
        return known
    others = [corrected(model, X, own, weights) for weights in known.corrections(model)]
    new = [loss(model, targets, outputs) for outputs in (own, *others)]
    losses = tuple(DECAY * a + b for a, b in zip(known.losses, new, strict=True))
    slow, kept = losses[len(WINDOWS)], min(losses[0], *losses[1 + len(WINDOWS) :], np.inf)
    better = is_better(slow, kept, len(X), numeric=is_numeric(model))
    return replace(known, losses=losses, better_for=known.better_for + 1 if better else 0)


def is_worth_keeping(known: Refinement) -> bool:
    """Was the slow correction better than all versions of the model for long?"""
    return known.better_for >= MIN_BATCHES and len(known.X) >= max(WINDOWS)


def refined(
    known: Refinement | None, model: Expert, batch: Answered, fit: int, n_batches: int = 0
) -> Refinement | None:
    """Return the refinement of a model after another batch; none where it has too many weights.

    `n_batches` is how many the stream had before.
    """
    n_outputs, n_inputs = len(model.classes), batch.X.shape[1]
    if not n_outputs or (1 + n_inputs + n_outputs) * n_outputs > MAX_WEIGHTS:
        return None
    if not is_numeric(model) and n_outputs < 2:
        return None
    X, targets, own = fitting_samples(model, batch)
    answers = as_answers(model, own)
    classes = tuple(model.classes)
    if known is not None and known.model == model.number and known.classes == classes:
        before = known.answers
        if known.fit != fit and len(known.X):
            before = as_answers(model, model.evaluate(known.X).outputs)
        X, targets = np.concatenate([known.X, X]), np.concatenate([known.y, targets])
        answers = np.concatenate([before, answers])
        weights, losses = known.weights, known.losses
        origin, rest = known.origin, (known.version, known.origin, known.better_for)
        due = n_inputs <= MANY_INPUTS or n_batches % BATCHES_BETWEEN_FITS == 0
        due = due or known.fit != fit or is_clearly_better(known, model, len(batch.X))
    else:
        weights = np.zeros((len(WINDOWS), 1 + n_inputs + n_outputs, n_outputs))
        losses, due = (0.0,) * (1 + len(WINDOWS) + len(model.versions)), True
        origin, rest = None, (0, None, 0)
    X, targets, answers = (part[-max(WINDOWS) :] for part in (X, targets, answers))
    if len(X) and due:
        Z = features(model, X, answers)
        solve = least_squares if is_numeric(model) else logistic
        before = answers if origin is None else answers + Z @ origin
        first = 0.0 if origin is None else origin
        weights = np.array(
            [
                first + solve(Z[-n:], targets[-n:], before[-n:], start - first)
                for n, start in zip(WINDOWS, weights, strict=True)
            ]
        )
    return Refinement(model.number, classes, fit, X, targets, answers, weights, losses, *rest)


def is_clearly_better(known: Refinement, model: Expert, batch_size: int) -> bool:
    """Did a correction err less than the model lately, by more than a standard error?"""
    if known.best < 0 or is_numeric(model):
        return known.best >= 0
    own, corrected = known.losses[0] * batch_size, min(known.losses) * batch_size
    return own - corrected > np.sqrt(own + corrected)


def least_squares(Z: NDArray, y: NDArray, answers: NDArray, start: NDArray) -> NDArray[np.float64]:
    """Return the weights that correct numbers, by ridge regression."""
    del start
    with one_blas_thread():
        gram = Z.T @ Z + RIDGE * np.eye(Z.shape[1])
        return np.asarray(np.linalg.solve(gram, Z.T @ (y[:, None] - answers)), np.float64)


def logistic(Z: NDArray, y: NDArray, answers: NDArray, start: NDArray) -> NDArray[np.float64]:
    """Return the weights that correct log-probabilities, by multinomial logistic regression."""
    from scipy.optimize import minimize  # imported late: it takes half a second

    right = np.eye(answers.shape[1])[y.astype(np.int64)]

    def cost(flat: NDArray) -> tuple[float, NDArray]:
        weights = flat.reshape(start.shape)
        logs = log_softmax(answers + Z @ weights, axis=1)
        value = -np.sum(logs * right) + 0.5 * RIDGE * np.sum(flat**2)
        return float(value), (Z.T @ (np.exp(logs) - right) + RIDGE * weights).ravel()

    # Of two classes, the weights of one are those of the other with the sign changed. Divided by
    # √2, one column has the length of both: the same steps are taken in half of the time.
    sign = 2.0 * y - 1.0
    difference = (answers[:, -1] - answers[:, 0]) * sign
    signed = np.sqrt(2.0) * sign

    def cost_of_two(weights: NDArray) -> tuple[float, NDArray]:
        margin = difference + signed * (Z @ weights)
        value = -np.sum(log_expit(margin)) + 0.5 * RIDGE * np.sum(weights**2)
        return float(value), RIDGE * weights - (signed * expit(-margin)) @ Z

    two = answers.shape[1] == 2
    first = (start[:, 1] - start[:, 0]) / np.sqrt(2.0) if two else start.ravel()
    with one_blas_thread():
        found = minimize(
            cost_of_two if two else cost, first, jac=True, method="L-BFGS-B",
            options={"maxiter": MAX_ITERATIONS},
        )  # fmt: skip
    if two:
        return np.column_stack([-found.x, found.x]) / np.sqrt(2.0)
    return found.x.reshape(start.shape)
