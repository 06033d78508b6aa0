"""The most accurate compact network that fits into a number of bytes.

Several ways to store weights and biases are tried: each is pruned to the bytes, adapted to its
rounding on most of the samples, and scored on the rest. The best is then made from all samples.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_sample_weight

from dirad.export.compact.draft import check_model, draft_of
from dirad.export.compact.encode import encoded
from dirad.export.compact.evaluate import evaluate, predict
from dirad.export.compact.flash import code_estimate, flash, has_compiler
from dirad.export.compact.form import (
    POWERS,
    CompactNetwork,
    OutOfRange,
    Weights,
    as_bytes,
    check_ranges,
)
from dirad.export.compact.pruning import importances, strongest
from dirad.export.compact.refit import BATCH, TrainingSamples, refit
from dirad.export.compact.scaling import Scaled, Storage, scaled


def _stored(hidden: Weights, output: Weights, bias_bytes: int) -> Storage:
    return Storage((hidden, output), bias_bytes)


STORAGES = (
    _stored(Weights(5, 3), Weights(4, 4), 1),
    _stored(Weights(5, 3), Weights(5, 3), 1),
    _stored(Weights(6, 2), Weights(4, 4), 1),
    _stored(Weights(4, 4), Weights(4, 4), 1),
    _stored(Weights(4, 4), Weights(4, 4), 2),
    _stored(Weights(3, 5), Weights(3, 5), 2),
    _stored(Weights(4, 4, POWERS), Weights(4, 4, POWERS), 2),
    _stored(Weights(8, 8), Weights(8, 8), 2),
)
UNLIMITED = 1 << 30  # bytes
HELD_OUT = 0.2
LEAST_HELD_OUT = 20  # samples; with fewer, all serve both to adapt and to choose
SEARCH_SHARE = 0.25  # of the steps of the last refit
EPOCHS, LEAST_STEPS, MOST_STEPS = 20, 1500, 8000
PRUNING_ROUNDS = 4  # where edges have to go: each halves the excess, and adapts the rest
FEW_BYTES = 0.5  # share of the table below which networks without hidden nodes are tried as well
CALIBRATION = 2000  # samples from which scales are chosen
TAILS = (0.0, 0.01)  # shares of samples beyond each end of an input's range that are tried
MANY_INPUTS, NOISE = 50, 0.4  # inputs are disturbed where there are many, as in thinning


class TooSmall(ValueError):
    """No network at all fits into the bytes."""


@dataclass(frozen=True)
class Samples:
    """Samples to adapt to and to score on."""

    X: NDArray[np.float64]
    y: NDArray  # labels or values: (samples,), or (samples, outputs)
    answers: NDArray[np.float64]  # what the model answers: probabilities, or values
    weight: NDArray[np.float64]  # (samples,)

    def take(self, rows: NDArray) -> "Samples":
        """Return some of the samples."""
        return Samples(self.X[rows], self.y[rows], self.answers[rows], self.weight[rows])


@dataclass(frozen=True)
class Compacted:
    """A compact network, and what it costs."""

    net: CompactNetwork
    flash: int  # bytes of model and code on a Cortex-M0
    is_measured: bool  # by a cross compiler; else estimated
    before: float | None  # accuracy or R² of the model on the samples given
    after: float | None  # of the compact network


def to_compact(
    model: Any,
    max_bytes: int | None = None,
    X: Any = None,
    y: Any = None,
    *,
    low: Any = None,
    high: Any = None,
    storages: Sequence[Storage] = STORAGES,
    fast: bool = False,
    seed: int = 0,
) -> Compacted:
    """Return the most accurate compact form of a fitted network in so many bytes of flash.

    The bytes contain the code, as compiled for a Cortex-M0; without `max_bytes`, edges are stored
    in two bytes each and none is removed. X and y are training samples, to which the weights are
    adapted. Without them, the network is rounded as it is: give them where bytes are few. `low` and
    `high` are the values that the input bytes 0 and 255 stand for, one for all inputs or one for
    each; by default the range of X is used (or four standard deviations around the mean in `fit`).
    `storages` are the ways to store numbers that are compared; where less than half of the network
    fits, each is also tried without hidden nodes, whose code takes about 120 bytes. With `fast`,
    the bytes are those of ``compact_source(net, fast=True)``, whose straight-line code takes
    several times as many for an edge, and a fraction of the instructions.
    """
    check_model(model)
    known = X is not None
    samples = _samples(model, X, y, seed)
    ranges = list(_ranges(model, samples.X, low, high, known))
    storages = storages if max_bytes is not None else storages[-1:]
    storages = [replace(storage, fast=fast) for storage in storages]
    choices = _choices(model, samples, ranges[0], storages, max_bytes)
    if not choices:
        raise TooSmall(f"{max_bytes} bytes are too few: the code alone takes more")
    fit, held = _split(model, samples, seed)
    ends = ranges[0]
    if len(ranges) > 1:
        scored = [_tried(model, fit, held, r, *choices[0], seed, known) for r in ranges]
        ends = ranges[int(np.argmin(scored))]
    if len(choices) > 1:
        scored = [_tried(model, fit, held, ends, *c, seed, known) for c in choices]
        choices = [choices[i] for i in np.argsort(scored, kind="stable")]
    made: list[CompactNetwork] = []
    failure: Exception | None = None
    for direct in (False, True):
        group = [one for one in choices if one[0].direct == direct]
        try:
            if group:
                made.append(_first_made(model, samples, ends, group, seed, known, max_bytes))
        except (OutOfRange, TooSmall) as error:
            failure = error
    if failure is not None and not made:
        raise failure
    net = min(made, key=lambda one: squared_error(one, samples))
    return _measured(model, net, samples if known and y is not None else None, fast)


def _choices(
    model: Any,
    samples: Samples,
    ends: tuple[NDArray, NDArray],
    storages: Sequence[Storage],
    most: int | None,
) -> list[tuple[Storage, int]]:
    """Return ways to store the network, each with the bytes that its table may take."""
    found = []
    for storage in storages:
        limit = _limit(model, samples, ends, storage, most)
        found.append((storage, limit))
        if most is not None and _is_little(limit, model, samples, ends, storage):
            direct = replace(storage, direct=True)
            found.append((direct, _limit(model, samples, ends, direct, most)))
    return [(storage, limit) for storage, limit in found if limit > 0]


def _is_little(
    limit: int, model: Any, samples: Samples, ends: tuple[NDArray, NDArray], storage: Storage
) -> bool:
    """Say whether so many bytes hold little of the network, or its sums could leave 32 bits."""
    try:
        return limit < FEW_BYTES * _size(_start(model, samples, ends, storage), storage)
    except OutOfRange:
        return True


def _start(model: Any, samples: Samples, ends: tuple[NDArray, NDArray], storage: Storage) -> Scaled:
    """Return the whole network in the units of integers, before any pruning."""
    draft = draft_of(model, *ends)
    if storage.direct:
        draft = draft.direct()
    return scaled(draft, storage, _bytes(samples, ends)[:CALIBRATION])


def _first_made(
    model: Any,
    samples: Samples,
    ends: tuple[NDArray, NDArray],
    choices: Sequence[tuple[Storage, int]],
    seed: int,
    known: bool,
    max_bytes: int | None,
) -> CompactNetwork:
    """Return the network of the first choice that fits, and whose sums stay within 32 bits."""
    for place, (storage, limit) in enumerate(choices):
        try:
            return _fitting(model, samples, ends, storage, limit, seed, known, max_bytes)
        except (OutOfRange, TooSmall):
            if place + 1 == len(choices):
                raise
    raise AssertionError("there is no choice")


def _fitting(
    model: Any,
    samples: Samples,
    ends: tuple[NDArray, NDArray],
    storage: Storage,
    limit: int,
    seed: int,
    known: bool,
    max_bytes: int | None,
) -> CompactNetwork:
    """Return a network that fits with its code, which may be larger than it was before pruning."""
    while True:
        net = _made(model, samples, ends, storage, limit, seed, known, 1.0)
        size = 0 if max_bytes is None else flash(net, fast=storage.fast)
        if max_bytes is None or size <= max_bytes:
            return net
        if not net.n_edges:
            raise TooSmall(f"{max_bytes} bytes are too few: without any edge it takes {size}")
        limit -= size - max_bytes


def _limit(
    model: Any, samples: Samples, ends: tuple[NDArray, NDArray], storage: Storage, most: int | None
) -> int:
    """Return the bytes for the table; 0 where sums stored in this way could leave 32 bits."""
    try:
        return limit_of(model, samples, ends, storage, most)
    except OutOfRange:
        return 0


def limit_of(
    model: Any, samples: Samples, ends: tuple[NDArray, NDArray], storage: Storage, most: int | None
) -> int:
    """Return the bytes that are left for the table, without the code; or those of all."""
    if most is None:
        return UNLIMITED
    if storage.fast:  # there is no table: the limit is that of the code
        return most
    net = _start(model, samples, ends, storage).rounded()
    code = flash(net) - len(encoded(net).stream) if has_compiler() else code_estimate(net)
    return most - code


def _samples(model: Any, X: Any, y: Any, seed: int) -> Samples:
    """Return the samples given, or drawn from the distribution that `fit` saw."""
    if X is None:
        rng = np.random.default_rng(seed)
        mean, spread = model.input_mean_, model.input_spread_
        X = rng.normal(mean, spread, (CALIBRATION, len(mean)))
    X = np.asarray(X, np.float64)
    if not np.isfinite(X).all():
        raise ValueError("X has missing or infinite values, which a compact network cannot take")
    answers = _answers(model, X)
    labels = model.predict(X) if y is None else np.asarray(y)
    weight = np.ones(len(X))
    if getattr(model, "class_weight", None) is not None:
        weight = compute_sample_weight(model.class_weight, labels)
        weight = weight / weight.mean()
    return Samples(X, labels, answers, weight)


def _answers(model: Any, X: NDArray) -> NDArray[np.float64]:
    if hasattr(model, "classes_"):
        return model.predict_proba(X)
    return np.asarray(model.predict(X), np.float64).reshape(len(X), -1)


def _ranges(
    model: Any, X: NDArray, low: Any, high: Any, known: bool
) -> Iterable[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Yield the ranges of the inputs that are tried."""
    n = X.shape[1]
    for tail in TAILS if known else TAILS[:1]:
        if known:
            ends = np.quantile(X, [tail, 1.0 - tail], axis=0)
        else:
            reach = 4.0 * model.input_spread_
            ends = np.stack([model.input_mean_ - reach, model.input_mean_ + reach])
        flat = ends[0] >= ends[1]
        ends = np.where(flat, np.stack([X.min(axis=0), X.max(axis=0)]), ends)
        lows = ends[0] if low is None else np.broadcast_to(np.asarray(low, float), n)
        highs = ends[1] if high is None else np.broadcast_to(np.asarray(high, float), n)
        check_ranges(lows, highs)
        yield lows.copy(), highs.copy()
        if low is not None and high is not None:
            return


def _split(model: Any, samples: Samples, seed: int) -> tuple[Samples, Samples]:
    """Return samples to adapt to, and samples to choose by."""
    n = int(HELD_OUT * len(samples.X))
    if n < LEAST_HELD_OUT:
        return samples, samples
    order = np.random.default_rng(seed).permutation(len(samples.X))
    return samples.take(np.sort(order[n:])), samples.take(np.sort(order[:n]))


def _bytes(samples: Samples, ends: tuple[NDArray, NDArray]) -> NDArray[np.uint8]:
    return as_bytes(samples.X, *ends)


def _training_samples(model: Any, samples: Samples, net: CompactNetwork) -> TrainingSamples:
    """Return the samples as `refit` takes them."""
    x = net.to_bytes(samples.X)
    weight = samples.weight.astype(np.float32)
    if net.classes is None:
        known = samples.y.reshape(len(x), -1).astype(np.float64)
        rows = ((known + samples.answers) / 2 - net.offset) / net.scale
        spread = float(rows.std()) or 1.0
        return TrainingSamples(x, rows.astype(np.float32), weight, "linear", 1.0 / spread)
    hot = samples.y[:, None] == np.asarray(net.classes)[None, :]
    target = ((hot + samples.answers) / 2).astype(np.float32)
    scale = float(net.scale[0])
    if net.n_outputs == 1:
        return TrainingSamples(x, target[:, 1:], weight, "logistic", scale)
    return TrainingSamples(x, target, weight, "softmax", scale)


def _made(
    model: Any,
    samples: Samples,
    ends: tuple[NDArray, NDArray],
    storage: Storage,
    limit: int,
    seed: int,
    known: bool,
    share: float,
) -> CompactNetwork:
    """Return a network that fits, adapted to its rounding where samples are known."""
    start = _start(model, samples, ends, storage)
    training = _training_samples(model, samples, start.net)
    n = len(samples.X)
    steps = int(np.clip(EPOCHS * n / BATCH, LEAST_STEPS, MOST_STEPS) * share)
    noise = NOISE if start.net.n_inputs >= MANY_INPUTS else 0.0
    size = 0 if limit >= UNLIMITED else _size(start, storage)
    for left in range(PRUNING_ROUNDS - 1, -1, -1):
        if size <= limit:
            break
        allowed = limit + (size - limit) * (0.0 if left == 0 else 0.5 ** (PRUNING_ROUNDS - left))
        matter = importances(start, training, seed)
        start = strongest(start, matter, lambda one, most=allowed: _size(one, storage) <= most)
        size = _size(start, storage)
        if known and left:
            start = refit(start, training, steps=max(steps // 8, 1), seed=seed, noise=noise)
    if known:
        start = refit(start, training, steps=steps, seed=seed, noise=noise)
    return start.rounded()


def _size(one: Scaled, storage: Storage) -> int:
    """Return the bytes that are limited: those of the table, or of straight-line code."""
    net = one.rounded()
    return flash(net, fast=True) if storage.fast else len(encoded(net).stream)


def _tried(
    model: Any,
    fit: Samples,
    held: Samples,
    ends: tuple[NDArray, NDArray],
    storage: Storage,
    limit: int,
    seed: int,
    known: bool,
) -> float:
    """Return the mean squared error on held-out samples, of probabilities or of values."""
    try:
        net = _made(model, fit, ends, storage, limit, seed, known, SEARCH_SHARE)
    except OutOfRange:
        return np.inf
    return squared_error(net, held)


def squared_error(net: CompactNetwork, samples: Samples) -> float:
    """Return the mean squared error of probabilities (Brier's score) or of values."""
    rows = net.offset + net.scale * evaluate(net, net.to_bytes(samples.X))
    if net.classes is None:
        wanted, answers = samples.y.reshape(len(rows), -1), rows
    else:
        wanted = samples.y[:, None] == np.asarray(net.classes)[None, :]
        answers = probabilities(rows)
    error = ((answers - wanted) ** 2).sum(axis=1)
    return float(np.average(error, weights=samples.weight))


def compact_error(net: CompactNetwork, X: NDArray, y: NDArray) -> float:
    """Return the mean squared error on samples of equal weight."""
    nothing = np.zeros((len(X), 0))
    return squared_error(net, Samples(X, y, nothing, np.ones(len(X))))


def probabilities(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probability of each class: (samples, classes)."""
    if logits.shape[1] == 1:
        upper = 0.5 * np.tanh(0.5 * logits) + 0.5
        return np.concatenate([1.0 - upper, upper], axis=1)
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def score(model: Any, answers: NDArray, y: NDArray) -> float:
    """Return the accuracy of labels, or R² of values."""
    if hasattr(model, "classes_"):
        return float(np.mean(answers == y))
    known = np.asarray(y, np.float64).reshape(len(answers), -1)
    rest = ((answers.reshape(known.shape) - known) ** 2).sum()
    total = ((known - known.mean(axis=0)) ** 2).sum()
    return float(1.0 - rest / total) if total else 0.0


def _measured(model: Any, net: CompactNetwork, samples: Samples | None, fast: bool) -> Compacted:
    before = after = None
    if samples is not None:
        before = score(model, np.asarray(model.predict(samples.X)), samples.y)
        after = score(model, predict(net, samples.X), samples.y)
    return Compacted(net, flash(net, fast=fast), has_compiler(), before, after)
