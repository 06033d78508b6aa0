"""Prediction errors of the paper's models, recorded once, so that rules can be replayed on them.

Neither L0 nor L1 depends on the rules that turn prediction errors into verdicts. So the models of
a run are trained once for each connectivity of L1, and the errors of every L1 target are stored
for the last batches of the training, for further batches and for test samples.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.datasets import Dataset
from dirad.demo.recurring import draw
from dirad.preval.l1 import L1Training, new_l1
from dirad.preval.paper_model import PaperLearner, new_paper_learner
from dirad.preval.settings import PRESETS, Settings
from dirad.streams.run import CLASSES
from experiments.reproduction import published
from experiments.reproduction.protocol import BLOCK, TEST_SAMPLES, images

CONNECTIVITY = ("strict", "top_down")
EARLY = (50, 100, 200)  # steps after which L1 is also recorded, as if it were stopped there
STOPS = (*(f"step {step}" for step in EARLY), "each", "total")
WINDOW = 10  # last batches of the training that are recorded
PROBES = 10  # further batches of each task
TASKS = 3
CHECK_EVERY = 10  # steps between two tests of the total error
NEVER = 1 << 30  # patience of targets that do not stop by themselves

Pools = Sequence[NDArray[np.int64]]


class Recording(NamedTuple):
    """The errors and answers of one model: prediction − state of every L1 target, in float32."""

    last: NDArray  # (window, batch, targets) on the last batches of L1's training, in order
    at_stop: NDArray  # (batch, targets) of each target on the batch in which it became stable
    own: NDArray  # (probes, batch, targets) on further batches of the model's own task
    later: NDArray  # (later tasks, probes, batch, targets) on batches of the tasks that follow
    test: NDArray  # (samples, targets) on test samples of all tasks
    answers: NDArray  # (samples,) the class that L0 answers for these test samples
    sizes: NDArray  # (3,) steps of L1, edges of L1, edges of L0


class Stream(NamedTuple):
    """The samples of one run: the paper's digits in the paper's order."""

    digits: tuple[int, ...]  # two per task
    probes: NDArray  # (tasks, probes, batch) indices of training samples
    tests: NDArray  # (samples,) indices of test samples, equally many of each digit


def orders() -> list[tuple[int, ...]]:
    """Return the orders of digits in the paper's 32 runs, first runs of every T_CP first."""
    runs = [published.RUNS[T_CP] for T_CP in published.T_CP]
    return [tuple(table[run][-1]) for run in range(len(runs[0])) for table in runs]


def pools_of(labels: NDArray, digits: Sequence[int]) -> Pools:
    """Return the indices of the samples of each digit."""
    return [np.flatnonzero(labels == digit) for digit in digits]


def new_stream(data: Dataset, digits: tuple[int, ...], batch: int, seed: int) -> Stream:
    """Draw the batches and the test samples that all recordings of a run share."""
    rng = np.random.default_rng([seed, *digits])
    pairs = [digits[2 * task : 2 * task + 2] for task in range(TASKS)]
    probes = [draw(rng, pools_of(data.y_train, pair), PROBES, batch) for pair in pairs]
    each = TEST_SAMPLES // len(digits)
    tests = [rng.choice(pool, each, replace=False) for pool in pools_of(data.y_test, digits)]
    return Stream(digits, np.reshape(probes, (TASKS, PROBES, batch)), np.concatenate(tests))


def train_l0(data: Dataset, pools: Pools, settings: Settings, key: Sequence[int]) -> PaperLearner:
    """Return a model whose L0 is stable and whose L1 has not begun."""
    rng = np.random.default_rng(key)
    seed = int(rng.integers(2**62))
    model = new_paper_learner(0, data.X_train.shape[1], CLASSES, settings, seed)
    while model.l1 is None:
        chosen = draw(rng, pools, BLOCK, settings.l0.batch_size)
        model.learn(data.X_train[chosen], data.y_train[chosen])
    return model


def fresh_l1(model: PaperLearner, settings: Settings) -> L1Training:
    """Return an untrained L1 for the stable L0 of a model."""
    assert model.l1 is not None
    return new_l1(model.l1.states, model.last[0], settings, model.seed)


class Stopped(NamedTuple):
    """L1 at one of its possible stops."""

    stop: str  # of STOPS
    l1: L1Training
    batches: NDArray[np.int64]  # (steps, batch) training samples of all steps so far


def train_l1(
    data: Dataset, model: PaperLearner, pools: Pools, settings: Settings, key: Sequence[int]
) -> Iterator[Stopped]:
    """Train L1 until every target is stable by itself; yield it there and at earlier steps."""
    rng = np.random.default_rng(key)
    l1 = fresh_l1(model, settings)
    taken: list[NDArray[np.int64]] = []
    while not l1.stable:
        blocks = draw(rng, pools, BLOCK, settings.l1.batch_size).reshape(BLOCK, -1)
        used = l1.step_per_batch(data.X_train[blocks.ravel()])
        taken.append(blocks[:used])
        if l1.step in EARLY:
            yield Stopped(f"step {l1.step}", l1, np.concatenate(taken))
    yield Stopped("each", l1, np.concatenate(taken))


def train_l1_by_total(
    data: Dataset, model: PaperLearner, pools: Pools, settings: Settings, key: Sequence[int]
) -> Iterator[Stopped]:
    """Train all targets of L1 until their total error has not decreased for `patience` steps.

    The total is tested every CHECK_EVERY steps only, which is several times faster.
    """
    rng = np.random.default_rng(key)
    l1 = fresh_l1(model, settings.replace(l1=settings.l1.replace(patience=NEVER)))
    taken: list[NDArray[np.int64]] = []
    total = np.zeros(0)
    while not len(total) or len(total) - 1 - np.argmin(total) < settings.l1.patience:
        blocks = draw(rng, pools, CHECK_EVERY, settings.l1.batch_size).reshape(CHECK_EVERY, -1)
        l1.step_per_batch(data.X_train[blocks.ravel()])
        taken.append(blocks)
        total = np.sum([history.error for history in l1.histories], axis=0)
    yield Stopped("total", l1, np.concatenate(taken))


def errors_at_stop(stopped: Stopped, data: Dataset) -> NDArray:
    """Return each target's errors on the batch in which it became stable: (batch, targets)."""
    l1, batches = stopped.l1, stopped.batches
    steps = np.array([path.adaptation.state.step for path in l1.pathways])
    result = np.empty((batches.shape[1], len(steps)), np.float32)
    for step in np.unique(steps):
        chosen = steps == step
        result[:, chosen] = l1.residuals(data.X_train[batches[step - 1]])[:, chosen]
    return result


def record(
    data: Dataset, stream: Stream, task: int, model: PaperLearner, stopped: Stopped
) -> Recording:
    """Return all that the rules need of the model of one task."""
    l1 = stopped.l1

    def errors(chosen: NDArray[np.int64]) -> NDArray:
        found = l1.residuals(data.X_train[chosen.ravel()]).astype(np.float32)
        return found.reshape(*chosen.shape, len(l1.targets))

    X_test = data.X_test[stream.tests]
    edges = sum(path.network.n_edges for path in l1.pathways)
    return Recording(
        errors(stopped.batches[-WINDOW:]),
        errors_at_stop(stopped, data),
        errors(stream.probes[task]),
        errors(stream.probes[task + 1 :]),
        l1.residuals(X_test).astype(np.float32),
        model.l0_outputs(X_test).argmax(axis=1),
        np.array([l1.step, edges, model.network.n_edges]),
    )


def file_of(folder: Path, order: int, connectivity: str, stop: str, seed: int) -> Path:
    """Return the path of the recordings of one run."""
    return folder / f"{order:02d}-{seed}-{connectivity}-{stop.replace(' ', '-')}.npz"


def make(folder: Path, order: int, connectivity: str, seed: int, by_total: bool) -> None:
    """Train the three models of a run and record them at every stop, unless the files exist.

    `by_total`: L1 stops by its total error; otherwise every target by itself, or all of them early.
    """
    stops = STOPS[-1:] if by_total else STOPS[:-1]
    files = {stop: file_of(folder, order, connectivity, stop, seed) for stop in stops}
    if all(path.exists() for path in files.values()):
        return
    data, digits = images(14), orders()[order]
    settings = PRESETS["paper"].replace(connectivity=connectivity)
    stream = new_stream(data, digits, settings.l0.batch_size, seed)
    found: dict[str, dict[str, NDArray]] = {stop: {} for stop in stops}
    train = train_l1_by_total if by_total else train_l1
    for task in range(TASKS):
        pools = pools_of(data.y_train, digits[2 * task : 2 * task + 2])
        model = train_l0(data, pools, settings, [seed, order, task, 0])
        for stopped in train(data, model, pools, settings, [seed, order, task, 1 + by_total]):
            recording = record(data, stream, task, model, stopped)
            named = {f"{task}.{name}": array for name, array in recording._asdict().items()}
            found[stopped.stop] |= named
    folder.mkdir(parents=True, exist_ok=True)
    for stop, arrays in found.items():
        np.savez(files[stop], **arrays)  # type: ignore[arg-type]


def load(folder: Path, order: int, connectivity: str, stop: str, seed: int) -> list[Recording]:
    """Return the recordings of the three models of a run."""
    with np.load(file_of(folder, order, connectivity, stop, seed)) as stored:
        return [
            Recording(*(stored[f"{task}.{name}"] for name in Recording._fields))
            for task in range(TASKS)
        ]
