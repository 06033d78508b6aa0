"""Novel classes: two of four are known when a stream without labels begins.

The protocol is that of the README of the package StreamNDR: river's generator RandomRBF with 4
classes, 5 inputs and 10 centres; 1,000 labelled samples of the known classes, then 5,000 samples of
all four, without labels. Each is given a known class or called new. A sample of a new class is
right if it is called new, whatever name it gets.

The published figures are of one seed, 42. Centres are drawn at random and overlap; a seed for which
some class has no centre is left out. The generator's own density tells the least error that any
method could reach, and the least among those that keep the promise about false new ones.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.estimators import PREVALClassifier
from dirad.report.tables import Section
from dirad.streams.averages import mean, spread
from dirad.streams.novel_classes import NovelClassDetector
from experiments.peers.trees import ADVICE
from experiments.streams.ours import PREVAL

N_CLASSES, N_INPUTS, N_CENTRES = 4, 5, 10
KNOWN = (0, 1)
NEW = -1  # the answer "a new class"
OFFLINE, ONLINE = 1000, 5000  # samples
BATCH_SIZE = 200
PROMISED = 0.05  # share of samples of known classes that may be called new
PUBLISHED_SEED = 42
PUBLISHED = {"MINAS": 0.368, "ECSMiner, without feedback": 0.394, "ECHO": 0.227}  # errors

FROZEN = f"{PREVAL}, not learning online"
DETECTOR = f"{PREVAL} with NovelClassDetector"
NOTHING_NEW = "nothing is new"
ORACLE = "least possible error"
CAREFUL_ORACLE = "least possible error within the promise"
METHODS = (PREVAL, FROZEN, DETECTOR, NOTHING_NEW, ORACLE, CAREFUL_ORACLE)
NOTE = (
    f"{OFFLINE:,} labelled samples of two known classes, then {ONLINE:,} samples of four, without "
    "labels. Error: samples of known classes that are called new or given the other known class, "
    "and samples of new classes that are given a known one. False new: share of samples of known "
    f"classes that are called new; promised {PROMISED:g}. Missed new: share of samples of new "
    "classes that are given a known one. Mean ± standard deviation over seeds. Published figures "
    f"are of seed {PUBLISHED_SEED} alone, whose errors are in the last column. '{DETECTOR}': known "
    f"classes by {PREVAL}, new ones by mixtures of normal densities, each at several scales. "
    f"'{NOTHING_NEW}': "
    f"our learner, which gives every sample a known class. '{ORACLE}': by the generator's density; "
    "within the promise: with no more false new ones than promised."
)


class Problem(NamedTuple):
    """Labelled samples of known classes, the stream, and what generated them."""

    X_offline: NDArray[np.float64]
    y_offline: NDArray[np.int64]
    X: NDArray[np.float64]
    y: NDArray[np.int64]
    centres: NDArray[np.float64]  # (centres, inputs)
    deviations: NDArray[np.float64]  # (centres,)
    weights: NDArray[np.float64]  # (centres,), not normalized
    labels: NDArray[np.int64]  # (centres,), the class of each


@dataclass(frozen=True)
class Run:
    """The errors of one method."""

    method: str
    seed: int
    error: float
    false_new: float  # share of samples of known classes
    missed_new: float  # share of samples of new classes
    models: int  # ours; 0 where there is none
    seconds: float


def generate(seed: int) -> Problem:
    """Return the samples of a seed, as the protocol takes them from the generator."""
    generator = _generator(seed)
    offline: list[tuple[list[float], int]] = []
    samples = iter(generator)
    while len(offline) < OFFLINE:
        x, label = next(samples)
        if label in KNOWN:
            offline.append((list(x.values()), label))
    online = [(list(x.values()), label) for x, label in islice(samples, ONLINE)]
    centres = generator.centroids
    return Problem(
        np.array([x for x, _ in offline]),
        np.array([label for _, label in offline]),
        np.array([x for x, _ in online]),
        np.array([label for _, label in online]),
        np.array([centre.centre for centre in centres]),
        np.array([centre.std_dev for centre in centres]),
        np.array(generator.centroid_weights),
        np.array([centre.class_label for centre in centres]),
    )


def _generator(seed: int) -> Any:
    try:
        from river.datasets.synth import RandomRBF
    except ImportError as error:
        raise ImportError(f"RandomRBF {ADVICE}") from error
    return RandomRBF(
        seed_model=seed,
        seed_sample=seed,
        n_classes=N_CLASSES,
        n_features=N_INPUTS,
        n_centroids=N_CENTRES,
    )


def usable_seeds(n: int, first: int) -> list[int]:
    """Return the seed of the published figures, then seeds for which every class has a centre."""
    return [PUBLISHED_SEED, *islice(_complete(first), n - 1)]


def _complete(first: int) -> Iterator[int]:
    for seed in count(first):
        generator = _generator(seed)
        next(iter(generator))  # draws the centres
        found = {centre.class_label for centre in generator.centroids}
        if len(found) == N_CLASSES and seed != PUBLISHED_SEED:
            yield seed


def run(method: str, seed: int) -> Run:
    """Return the errors of one method on one seed."""
    problem = generate(seed)
    start = time.process_time()
    if method in (ORACLE, CAREFUL_ORACLE):
        answers, models = best_answers(problem, PROMISED if method == CAREFUL_ORACLE else 1.0), 0
    else:
        answers, models = our_answers(problem, method, seed)
    error, false_new, missed_new = errors(problem.y, answers)
    seconds = time.process_time() - start
    return Run(method, seed, error, false_new, missed_new, models, seconds)


def our_answers(problem: Problem, method: str, seed: int) -> tuple[NDArray[np.int64], int]:
    """Return our answers to all samples, each before its batch is learned, and how many models.

    A sample is called new if no model knows it, or if it is routed to a model that was opened in
    the stream: no labelled sample belongs to that model. With a detector of novel classes, it says
    which samples are new.
    """
    learner = PREVALClassifier(batch_size=BATCH_SIZE, random_state=seed, n_jobs=1)
    learner.partial_fit(problem.X_offline, problem.y_offline).finish()
    known = [model.number for model in learner.models_]
    detector = NovelClassDetector(false_new=PROMISED, random_state=seed)
    if method == DETECTOR:
        detector.fit(problem.X_offline, problem.y_offline)
    found = []
    for first in range(0, len(problem.X), BATCH_SIZE):
        X = problem.X[first : first + BATCH_SIZE]
        answers = learner.predict(X)
        if method == DETECTOR:
            answers = np.where(detector.is_new(X), NEW, answers)
            detector.partial_fit(X)
        elif method != NOTHING_NEW:
            old = learner.is_known(X, PROMISED) & np.isin(learner.route(X), known)
            answers = np.where(old, answers, NEW)
        found.append(answers)
        if method == PREVAL:
            learner.partial_fit(X)
    return np.concatenate(found), len(learner.models_)


def best_answers(problem: Problem, false_new: float = 1.0) -> NDArray[np.int64]:
    """Return the answers that are wrong least often, given what generated the samples.

    At most the share `false_new` of samples of known classes is called new. To call a sample new is
    wrong with the probability of the known classes; to give it the likeliest known class is wrong
    with one minus that of this class. Of all rules that keep to the share, a limit on the ratio of
    the two is the best (Neyman and Pearson).
    """
    chances = class_probabilities(problem)
    known = chances[:, KNOWN]
    ratio = (1 - known.max(1)) / np.maximum(known.sum(1), np.finfo(float).tiny)
    allowed = np.quantile(ratio[np.isin(problem.y, KNOWN)], 1 - false_new)
    answers = np.array(KNOWN)[known.argmax(1)]
    return np.where(ratio > max(1.0, allowed), NEW, answers)


def class_probabilities(problem: Problem) -> NDArray[np.float64]:
    """Return the probability of each class, given a sample and what generated it.

    RandomRBF draws a direction uniformly in a cube and scales it to a length |N(0, σ)|. At the
    distance r from a centre the density is that of the length, divided by r^(n−1) and, because
    directions are drawn in a cube, by the n-th power of the direction's largest component.
    """
    offsets = problem.X[:, None] - problem.centres  # (samples, centres, inputs)
    r = np.linalg.norm(offsets, axis=2)
    largest = np.abs(offsets).max(2) / r
    log_density = (
        np.log(problem.weights)
        - np.log(problem.deviations)
        - 0.5 * (r / problem.deviations) ** 2
        - (N_INPUTS - 1) * np.log(r)
        - N_INPUTS * np.log(largest)
    )
    density = np.exp(log_density - log_density.max(1, keepdims=True))
    by_class = [density[:, problem.labels == label].sum(1) for label in range(N_CLASSES)]
    return np.stack(by_class, axis=1) / density.sum(1, keepdims=True)


def errors(y: NDArray, answers: NDArray) -> tuple[float, float, float]:
    """Return the error, the share of false new ones, and the share of missed new ones.

    >>> errors(np.array([0, 1, 2, 3]), np.array([0, NEW, NEW, 1]))
    (0.5, 0.5, 0.5)
    """
    known, called_new = np.isin(y, KNOWN), answers == NEW
    wrong = np.where(known, answers != y, ~called_new)
    return float(wrong.mean()), float(called_new[known].mean()), float((~called_new)[~known].mean())


def section(runs: Sequence[Run]) -> Section:
    """Return a row per method, and the published figures."""
    rows: list[dict[str, Any]] = []
    for method in dict.fromkeys(one.method for one in runs):
        own = [one for one in runs if one.method == method]
        rows.append(
            {
                "method": method,
                "error": spread((one.error for one in own), 3),
                "false new": spread((one.false_new for one in own), 3),
                "missed new": spread((one.missed_new for one in own), 3),
                "models": f"{mean(one.models for one in own):.1f}" if own[0].models else "–",
                "seeds": len(own),
                "error, seed 42": mean(one.error for one in own if one.seed == PUBLISHED_SEED),
            }
        )
    rows += [{"method": f"{name}, published", "error, seed 42": e} for name, e in PUBLISHED.items()]
    return Section("Novel classes", rows, NOTE)
