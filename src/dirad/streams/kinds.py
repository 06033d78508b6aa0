"""Streams of samples whose tasks change unannounced: one function per kind of change.

A task is a few classes that belong to no other task, except where only labels change (`swapped`).
Its samples are drawn without replacement: each is shown once, and only after all were shown are
they shuffled and shown again. Everything depends on the seed alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dirad.datasets import Dataset

NEVER = -1  # the delay of a label that does not come

STREAM = 600  # first part of all random keys here
CLASSES, POOL, LENGTHS, MIXING, LABELS = range(5)  # second part: what is drawn


@dataclass(frozen=True, eq=False)
class Stream:
    """Samples in the order of their arrival, and the truth about them that no system is told."""

    name: str
    X: NDArray[np.float32]  # (n, inputs)
    y: NDArray[np.int64]  # (n,) true labels
    task: NDArray[np.int64]  # (n,)
    delay: NDArray[np.int64]  # (n,) samples after which the label arrives; 0: at once; or NEVER
    batch_size: int  # n is a multiple of it
    X_test: NDArray[np.float32]  # samples of all tasks of the stream
    y_test: NDArray[np.int64]
    task_test: NDArray[np.int64]
    classes: list[list[int]]  # of each task

    @property
    def n_batches(self) -> int:
        """Whole batches in the stream."""
        return len(self.y) // self.batch_size

    def batch(self, number: int) -> slice:
        """Return where a batch is."""
        return slice(number * self.batch_size, (number + 1) * self.batch_size)

    def shares(self) -> NDArray[np.float64]:
        """Return the share of each task in each batch: (batches, tasks)."""
        tasks = self.task.reshape(self.n_batches, self.batch_size, 1)
        return np.mean(tasks == np.arange(len(self.classes)), axis=1)


# ------------------------------------------------------------------ the kinds


def abrupt(
    data: Dataset,
    tasks: int = 5,
    per_task: int = 10_000,
    batch_size: int = 200,
    seed: int = 0,
    *,
    classes_per_task: int = 2,
    name: str = "abrupt",
    delay: NDArray[np.int64] | None = None,
) -> Stream:
    """One task after the other, each of `per_task` samples, changing from a sample to the next."""
    task = np.repeat(np.arange(tasks), per_task)
    return _assemble(name, data, task, batch_size, seed, classes_per_task, delay)


def recurring(
    data: Dataset,
    tasks: int = 3,
    per_task: int = 10_000,
    batch_size: int = 200,
    seed: int = 0,
    *,
    order: Sequence[int] | None = None,
) -> Stream:
    """Tasks that come again, as `order` says, `per_task` samples each time.

    Without an order every task comes again once the next is over: 0 1 0 2 1 of three tasks.
    """
    if order is None:
        order = [0, *(part for task in range(1, tasks) for part in (task, task - 1))]
    task = np.repeat(np.asarray(order, np.int64), per_task)
    return _assemble("recurring", data, task, batch_size, seed)


def gradual(
    data: Dataset,
    tasks: int = 5,
    per_task: int = 10_000,
    batch_size: int = 200,
    seed: int = 0,
    *,
    mixing: int = 20,
) -> Stream:
    """One task after the other; over `mixing` batches the next replaces it, at an even pace.

    Batch k = 1, 2, … of these holds a share of k / (mixing + 1) of the next task. They lie half
    before and half after the end of each `per_task` samples, and are at most half as many.
    """
    length = per_task // batch_size
    mixing = min(mixing, length // 2)
    rng = _rng(seed, MIXING)
    task = np.repeat(np.arange(tasks), length * batch_size).reshape(tasks * length, batch_size)
    for after in range(1, tasks):
        first = after * length - mixing // 2
        for k in range(mixing):
            is_next = np.arange(batch_size) < round(batch_size * (k + 1) / (mixing + 1))
            task[first + k] = after - 1 + rng.permutation(is_next)
    return _assemble("gradual", data, task.ravel(), batch_size, seed)


def early(
    data: Dataset,
    tasks: int = 5,
    per_task: int = 3000,
    batch_size: int = 200,
    seed: int = 0,
    *,
    rounds: int = 2,
) -> Stream:
    """Tasks that end before a model can be stable, and come again.

    Each visit lasts a random number of samples, from a fifth of `per_task` (at least three
    batches) to `per_task`; so a change falls anywhere in a batch. Each of the rounds visits every
    task once, the first in order, others in random order.
    """
    rng = _rng(seed, LENGTHS)
    order = list(range(tasks))
    for _ in range(rounds - 1):
        following = rng.permutation(tasks).tolist()
        if following[0] == order[-1]:  # that would be no change
            following = following[::-1]
        order += following
    shortest = max(per_task // 5, 3 * batch_size)
    lengths = rng.integers(shortest, max(per_task, shortest), len(order), endpoint=True)
    return _assemble("early", data, np.repeat(order, lengths), batch_size, seed)


def short(
    data: Dataset,
    tasks: int = 5,
    per_task: int = 2000,
    batch_size: int = 100,
    seed: int = 0,
) -> Stream:
    """Each task is seen once, and briefly."""
    return abrupt(data, tasks, per_task, batch_size, seed, name="short")


def mixed(
    data: Dataset,
    tasks: int = 5,
    per_task: int = 10_000,
    batch_size: int = 200,
    seed: int = 0,
    *,
    deployed: int = 20,
) -> Stream:
    """Abrupt tasks to learn; then `deployed` batches of samples of all tasks, without labels."""
    learned = tasks * per_task // batch_size * batch_size
    task = np.repeat(np.arange(tasks), per_task)[:learned]
    after = _rng(seed, MIXING).integers(0, tasks, deployed * batch_size)
    delay = np.repeat([0, NEVER], [len(task), len(after)])
    return _assemble("mixed", data, np.append(task, after), batch_size, seed, delay=delay)


def late_labels(
    data: Dataset,
    tasks: int = 5,
    per_task: int = 10_000,
    batch_size: int = 200,
    seed: int = 0,
    *,
    delay: int = 1000,
) -> Stream:
    """Abrupt tasks whose labels arrive `delay` samples after the sample itself."""
    delays = np.full(tasks * per_task, delay)
    return abrupt(data, tasks, per_task, batch_size, seed, name="late", delay=delays)


def few_labels(
    data: Dataset,
    tasks: int = 5,
    per_task: int = 10_000,
    batch_size: int = 200,
    seed: int = 0,
    *,
    share: float = 0.1,
) -> Stream:
    """Abrupt tasks in which each sample has a label with probability `share`."""
    labelled = _rng(seed, LABELS).random(tasks * per_task) < share
    delays = np.where(labelled, 0, NEVER)
    return abrupt(data, tasks, per_task, batch_size, seed, name="few", delay=delays)


def swapped(
    data: Dataset,
    tasks: int = 2,
    per_task: int = 10_000,
    batch_size: int = 200,
    seed: int = 0,
) -> Stream:
    """Rules that change on the same inputs, one of them back again: only labels show it.

    Of each two tasks the second shows the classes of the first, each labelled as the next of them.
    After the last task the first comes again. Test samples have the labels of the rule that was
    in force for them at the end.
    """
    task = np.repeat([*range(tasks), 0], per_task)
    return _assemble("swapped", data, task, batch_size, seed, rules=2)


# All of them take data, tasks, per_task, batch_size and seed.
KINDS: dict[str, Callable[..., Stream]] = {
    "abrupt": abrupt,
    "recurring": recurring,
    "gradual": gradual,
    "early": early,
    "short": short,
    "mixed": mixed,
    "late": late_labels,
    "few": few_labels,
    "swapped": swapped,
}


# ------------------------------------------------------------------ how one is made


def _rng(seed: int, *key: int) -> np.random.Generator:
    return np.random.default_rng([seed, STREAM, *key])


def _assemble(
    name: str,
    data: Dataset,
    task: NDArray[Any],
    batch_size: int,
    seed: int,
    classes_per_task: int = 2,
    delay: NDArray[np.int64] | None = None,
    *,
    rules: int = 1,
) -> Stream:
    """Return a stream whose samples belong to these tasks, cut to whole batches.

    Of each `rules` tasks in a row all show the classes of the first, the k-th after it labelled as
    the k-th next of these classes.
    """
    n = len(task) // batch_size * batch_size
    if n == 0:
        raise ValueError(f"{len(task)} samples make no batch of {batch_size}")
    task = task[:n].astype(np.int64)
    tasks = int(task.max()) + 1
    groups = _classes(data, -(-tasks // rules), classes_per_task, seed)
    chosen, y = np.empty(n, np.int64), np.empty(n, np.int64)
    task_test, y_test = np.full(len(data.y_test), -1), data.y_test.astype(np.int64)
    # The last rule of some classes comes last, so that test samples are labelled by it.
    last_seen = [max(np.flatnonzero(task == n).tolist(), default=-1) for n in range(tasks)]
    for number in np.argsort(last_seen).tolist():
        own, shift = groups[number // rules], number % rules
        label = dict(zip(own, np.roll(own, -shift).tolist(), strict=True))
        places = np.flatnonzero(task == number)
        pool = np.flatnonzero(np.isin(data.y_train, own))
        chosen[places] = _pass(pool, len(places), _rng(seed, POOL, number))
        y[places] = [label[c] for c in data.y_train[chosen[places]].tolist()]
        tested = np.isin(data.y_test, own)
        task_test[tested] = number
        y_test[tested] = [label[c] for c in data.y_test[tested].tolist()]
    seen = task_test >= 0
    return Stream(
        name,
        data.X_train[chosen],
        y,
        task,
        np.zeros(n, np.int64) if delay is None else delay[:n],
        batch_size,
        data.X_test[seen],
        y_test[seen],
        task_test[seen],
        [groups[number // rules] for number in range(tasks)],
    )


def _classes(data: Dataset, tasks: int, each: int, seed: int) -> list[list[int]]:
    """Return the classes of each task, in random order."""
    found = np.unique(data.y_train)
    if tasks * each > len(found):
        raise ValueError(
            f"{tasks} tasks of {each} classes need {tasks * each} classes; the data have "
            f"{len(found)}"
        )
    order = _rng(seed, CLASSES).permutation(found)
    return order[: tasks * each].reshape(tasks, each).tolist()


def _pass(pool: NDArray, n: int, rng: np.random.Generator) -> NDArray:
    """Return n members of the pool: all of them in random order, then all again, and so on."""
    times = -(-n // len(pool))
    return np.concatenate([pool[:0], *(rng.permutation(pool) for _ in range(times))])[:n]
