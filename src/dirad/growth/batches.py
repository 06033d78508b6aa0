"""Batches: how a data set is laid out for kernels, and which samples a step uses."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.core.compilation import borrowed_by_kernels, kernel
from dirad.core.propagate import LANES
from dirad.core.random import GROWTH_SAMPLE, SHUFFLE, write_permutation
from dirad.growth.state import SEED, STEP, working_type
from dirad.params import Params


@borrowed_by_kernels
class Data(NamedTuple):
    """A data set as kernels read it. A sample is a row: it is read from contiguous memory."""

    inputs: NDArray  # (samples, inputs)
    targets: NDArray  # (samples, outputs)
    sample_weight: NDArray  # (samples,)
    order: NDArray[np.int64]  # (samples,) the current epoch's order of samples
    epoch: NDArray[np.int64]  # (1,) the epoch `order` belongs to, -1: none
    first: NDArray[np.int64]  # (1,) step of the first batch if they come in given order, else -1
    resident: NDArray[np.int64]  # (2,) 1: the workspace of steps, of rounds holds all inputs


def new_data(
    X: NDArray,
    y: NDArray,
    params: Params,
    sample_weight: NDArray | None = None,
    first: int | None = None,
) -> Data:
    """Convert a data set for kernels. X is (n, inputs), y is (n, outputs), or (n,) for one output.

    Batches are drawn at random; with `first`, they are consecutive samples, from that step on.
    """
    dtype = working_type(params)
    X, y = np.asarray(X), np.asarray(y)
    y = y[:, None] if y.ndim == 1 else y
    if X.ndim != 2 or y.ndim != 2 or len(X) != len(y) or not len(X):
        raise ValueError(
            "X must be (n, inputs) and y (n, outputs) with the same n of at least 1, got "
            f"{X.shape} and {y.shape}"
        )
    weight = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, float)
    if weight.shape != (len(X),):
        raise ValueError(f"sample_weight must have shape ({len(X)},), got {weight.shape}")
    for name, values in (("X", X), ("y", y), ("sample_weight", weight)):
        if not np.isfinite(values).all():
            raise ValueError(f"{name} holds NaN or infinity")
    return Data(
        inputs=np.ascontiguousarray(X, dtype),
        targets=np.ascontiguousarray(y, dtype),
        sample_weight=np.ascontiguousarray(weight, dtype),
        order=np.arange(len(X)),
        epoch=np.array([-1], np.int64),
        first=np.array([-1 if first is None else first], np.int64),
        resident=np.zeros(2, np.int64),
    )


@kernel
def draw_batch(state, work, data, params):
    """Load the batch of the current step: the next samples of the epoch's random order."""
    n_samples = data.inputs.shape[0]
    n = min(params.batch_size, n_samples)
    per_epoch = max(n_samples // n, 1)
    step = state.clock[STEP]
    if data.first[0] >= 0:
        start = (step - data.first[0]) * n
        load_samples(data, data.order[start : start + n], n, work, 0)
        return
    if n == n_samples:
        if data.epoch[0] < 0:  # the whole data set is the batch: it never changes
            for m in range(n):
                data.order[m] = m
            load_samples(data, data.order, n, work, data.resident[0])
            data.resident[0] = 1
            data.epoch[0] = 0
        return
    epoch = step // per_epoch
    if data.epoch[0] != epoch:
        write_permutation(state.clock[SEED], SHUFFLE, epoch, data.order)
        data.epoch[0] = epoch
    start = (step % per_epoch) * n
    load_samples(data, data.order[start : start + n], n, work, 0)


@kernel
def draw_growth_batch(state, wide, data, params):
    """Load the batch of a round of growth: all samples or a random part, in random order.

    Products are compared on the first samples only, which must be random. Without products the
    order does not matter, and the samples stay loaded from round to round.
    """
    n_samples = data.inputs.shape[0]
    if params.product_order < 2 and n_samples <= params.growth_batch:
        load_samples(data, np.arange(n_samples), n_samples, wide, data.resident[1])
        data.resident[1] = 1
        return
    order = np.empty(n_samples, np.int64)
    write_permutation(state.clock[SEED], GROWTH_SAMPLE, state.clock[STEP], order)
    load_samples(data, order, min(params.growth_batch, n_samples), wide, 0)


@kernel
def load_samples(data, chosen, n, work, inputs_resident):
    """Copy the chosen samples into the workspace; where inputs are resident, only the targets."""
    width = -(-n // LANES) * LANES
    work.width[0], work.width[1] = n, width
    if not inputs_resident:
        copy_into_columns(data.inputs, chosen, n, work.state, width)
    copy_into_columns(data.targets, chosen, n, work.target, width)
    for m in range(n):
        work.sample_weight[m] = data.sample_weight[chosen[m]]
    for m in range(n, width):
        work.sample_weight[m] = 0.0


@kernel
def copy_into_columns(samples, chosen, n, rows, width):
    """Copy chosen samples into columns, a few at a time, so that they stay in the cache."""
    for lo in range(0, n, LANES):
        hi = min(lo + LANES, n)
        for f in range(samples.shape[1]):
            for m in range(lo, hi):
                rows[f, m] = samples[chosen[m], f]
    for f in range(samples.shape[1]):
        for m in range(n, width):
            rows[f, m] = 0.0
