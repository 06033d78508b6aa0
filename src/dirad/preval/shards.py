"""Validation by shards of a model's targets, each of which may stand on another machine.

A shard predicts its own targets from L0's states and says of every sample one number. Together
these give the verdict of the whole model, to the last bit:

- the paper's rule counts conflicted nodes, and whole numbers add up in any order;
- ours needs the sum of squared errors, and takes it in the order of the targets: a shard goes on
  from where the one before it ended. Errors, which are the work, are computed all at once.
"""

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.preval.buffer_model import TINY, BufferModel
from dirad.preval.model import Model, Verdict
from dirad.preval.prediction import Prediction
from dirad.preval.stream_model import StreamModel
from dirad.preval.validation import Statistics, conflicted, squared_sum


class Shard(NamedTuple):
    """Some targets of a stable model, and what is usual for them."""

    l1: Prediction  # of these targets alone
    known: Statistics  # of these targets


class Votes(NamedTuple):
    """What some shards say by the paper's rule."""

    conflicts: NDArray[np.int64]  # (samples,) N_conf
    nodes: int  # N_CP

    def with_more(self, other: "Votes") -> "Votes":
        """Return both together; the order does not matter."""
        return Votes(self.conflicts + other.conflicts, self.nodes + other.nodes)


def shards(model: Model, n: int) -> list[Shard]:
    """Return the targets of a stable model in n runs of neighbours, or fewer where they are few."""
    if model.known is None or model.l1 is None:
        raise ValueError(f"model {model.number} has no stable L1 that could be divided")
    l1, known = model.l1, model.known
    runs = np.array_split(np.arange(len(l1.targets)), max(1, min(n, len(l1.targets))))
    return [
        Shard(l1.part(run), known._replace(mean=known.mean[run], deviation=known.deviation[run]))
        for run in runs
    ]


def votes(shard: Shard, X: NDArray, T_conf: float) -> Votes:
    """Return a shard's votes on samples, as the model's networks see them (`Model.scaled`)."""
    errors = shard.l1.errors(X)
    return Votes(conflicted(errors, shard.known, T_conf).sum(axis=1), errors.shape[1])


def verdict_by_votes(model: StreamModel, found: Sequence[Votes]) -> Verdict:
    """Return the verdict of the paper's rule, from the votes of all shards in any order."""
    total = reduce(Votes.with_more, found)
    return model.verdict(total.conflicts / max(total.nodes, 1))


def input_errors(shard: Shard, X: NDArray) -> NDArray[np.float64]:
    """Return a shard's errors of inputs, by mode: what it adds to the sums of our rule."""
    return shard.l1.errors_by_mode(X)


def verdict_by_squares(
    model: BufferModel,
    X: NDArray,
    y: NDArray[np.int64] | None,
    sums: NDArray[np.float64],
    inputs: int,
) -> Verdict:
    """Return the verdict of our rule, from the sums that the last shard ends with.

    `sums` is what `squared_sum` makes of the shards' errors, one after the other; `inputs` how
    many columns they have together. L0's answers, which groups and mistakes need, are the model's.
    """
    return model.verdict(model.look_by(X, sums / inputs + TINY), y)


def chained(parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return the sum of squared errors of each sample over all shards, in their order, by mode."""
    first = np.zeros((parts[0].shape[0], *parts[0].shape[2:]))
    return reduce(lambda before, errors: squared_sum(errors, before), parts, first)
