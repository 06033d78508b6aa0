"""Which runs a comparison consists of; each is run once and its result saved."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from dirad.engine import Progress
from dirad.streams.run import measure
from experiments.comparison.alarms import DATA as ALARM_DATA
from experiments.comparison.alarms import measure as measure_alarms
from experiments.comparison.data_sets import SPLITS
from experiments.comparison.methods import METHODS, NEEDS_RIVER, WIDE
from experiments.comparison.reused import KINDS as REUSED_KINDS
from experiments.comparison.reused import METHODS_OF, measure_reused
from experiments.comparison.run import Result, restored, run
from experiments.comparison.scenario import Scenario, load, standard
from experiments.result_cache import ResultCache

PARTS = ("main", "wide", "sizes", "alarms", "samples", "ablation", "streams", "reused")
OURS = "ours (default)"
# Ours, smaller: modes of a class (the preset has 20), by how tables call it.
SIZED = {f"ours, {modes} mode{'s' * (modes > 1)} per class": modes for modes in (1, 3, 6)}
SAMPLES = (500, 2000, 10_000)  # of each task, in batches of 100
BRIEF = tuple(replace(standard("mnist"), per_task=n, batch_size=100) for n in SAMPLES)
FEW_SEEDS = 3  # of ablations and of streams
MODELS_PER_ORDER = 5  # models per order and data set whose false alarms are counted
ABLATION_SAMPLES = 2000  # of each task
STREAMS = ("abrupt", "recurring", "gradual", "early", "mixed", "late", "few", "swapped")
SLOW_ON_LARGE = ("Hoeffding tree",)  # minutes per stream at 28 × 28
TOO_WIDE_FOR_DIGITS = ("RanPAC, 5,000 features", "RanDumb, 5,000 features")  # of 1,150 samples
# Hours: 1,280 inputs, or 100 classes. No model of the paper's becomes stable in these tasks anyway.
SLOW_ON_MANY = ("Hoeffding tree", "ours (paper)")
LEFT_OUT = {
    "mnist-28": SLOW_ON_LARGE,
    "digits": TOO_WIDE_FOR_DIGITS,
    "cifar-10": SLOW_ON_MANY,
    "cifar-10-10tasks": SLOW_ON_MANY,
    "quickdraw": SLOW_ON_MANY,
    "quickdraw-features": (*SLOW_ON_MANY, "VAE per class"),
}
PROTOTYPES = "k-means prototypes per class"  # only where it is known how many bytes ours takes

# What is switched off or exchanged, one at a time: settings of ours.
ABLATIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "L1 replaced by linear regression": {"prediction": "linear"},
    "L1 replaced by the mean": {"prediction": "mean"},
    "error of the gated prediction, not of each mode": {"score": "squared"},
    "one mode per class": {"modes": 1},
    "three modes per class": {"modes": 3},
    "routing by the paper's conflict ratio": {"score": "conflicts"},
    "detection without labels": {"labels_in_detection": False},
    "no detection: one model": {"false_alarms": 0.0},
    "no opinion before a model is stable": {"begin": 2000},
    "models grown on top of earlier ones": {"models": "shared"},
}
# The same at 28 × 28: what makes a difference only there.
LARGE_ABLATIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "the closest inputs predict too": {"near": 0.0},
}

# Modules that a result depends on, beside those of our models.
COMPARISON = tuple(
    f"experiments.comparison.{name}"
    for name in ("constants", "data_sets", "methods", "run", "scenario", "size")
)
ALARM_CODE = ("experiments.comparison.alarms", *COMPARISON)
STREAM_CODE = tuple(f"dirad.streams.{name}" for name in ("kinds", "follow", "detection", "run"))
PEERS = (
    "autoencoder", "class_models", "factor_analysers", "fecam", "gradient", "memory", "peer",
    "prediction_error", "prototypes", "random_projection", "statistical", "trees",
)  # fmt: skip
CODE = (
    *COMPARISON, "experiments.metrics", "experiments.baselines.perceptron",
    "dirad.demo.baselines", *(f"experiments.peers.{name}" for name in PEERS),
    "experiments.embeddings.cifar", "experiments.embeddings.quickdraw",
)  # fmt: skip
REUSED_CODE = (*CODE, *STREAM_CODE, "experiments.comparison.reused")

Job = tuple[Scenario, int, str, dict[str, Any] | None]


def planned(
    parts: Sequence[str],
    data: Sequence[str],
    orders: int,
    seed: int,
    methods: Sequence[str] | None = None,
) -> list[Job]:
    """Return every run of a method, or of some methods, the long ones first."""
    numbers = range(seed, seed + orders)
    few = range(seed, seed + min(orders, FEW_SEEDS))
    jobs: list[Job] = []
    large = [name for name in data if name == "mnist-28"]
    others = [name for name in data if name != "mnist-28"]
    if "main" in parts:
        jobs += [job for name in large for job in on_all_methods(name, numbers)]
    if "ablation" in parts and large:
        jobs += ablations("mnist-28", LARGE_ABLATIONS, few)
    if "main" in parts:
        jobs += [job for name in others for job in on_all_methods(name, numbers)]
    if "wide" in parts:
        jobs += [(standard(name), n, method, None) for name in data for method in WIDE for n in few]
    base = standard("mnist")
    if "sizes" in parts:
        jobs += [
            (base, order, name, {"modes": modes})
            for name, modes in reversed(SIZED.items())
            for order in numbers
        ]
    if "samples" in parts:
        jobs += [(brief, order, OURS, {}) for brief in BRIEF[::-1] for order in numbers]
    if "ablation" in parts:
        jobs += ablations("mnist", ABLATIONS, few)
    return [job for job in jobs if methods is None or job[2] in methods]


def on_all_methods(data: str, orders: Iterable[int]) -> list[Job]:
    """Return the runs of every method on a data set."""
    return [
        (standard(data), order, method, None) for method in methods_on(data) for order in orders
    ]


def methods_on(data: str) -> list[str]:
    """Return the methods that are run on a data set."""
    left_out = LEFT_OUT.get(data, ())
    if SPLITS[data].our_bytes is None:
        left_out = (*left_out, PROTOTYPES)
    return [name for name in METHODS if name not in left_out]


def ablations(data: str, changes: Mapping[str, dict[str, Any]], orders: Iterable[int]) -> list[Job]:
    """Return the runs of ours on a data set, changed in every way."""
    shorter = replace(standard(data), per_task=ABLATION_SAMPLES)
    return [(shorter, order, name, changes[name]) for name in changes for order in orders]


def check(jobs: Sequence[Job]) -> None:
    """Raise an error before the first run if data or packages are missing."""
    for name in {job[0].data for job in jobs}:
        load(name)
    if any(job[2] in NEEDS_RIVER for job in jobs) and find_spec("river") is None:
        raise ValueError("some peers need river: pip install 'dirad[river]'")


def execute(
    jobs: Sequence[Job], path: Path, *, workers: int = 1, progress: Progress | None = None
) -> list[Result]:
    """Return the results of all runs; those whose results the file holds are not repeated."""
    check(jobs)
    found: dict[str, Mapping[str, Any]] = {}
    for ours in (True, False):  # peers are not run again when our models change
        some = {key_of(job): job for job in jobs if is_ours(job) == ours}
        shown = partial(_shown_from, progress, len(found), len(jobs))
        made = _cache(path, models=ours).run(
            run, list(some.values()), list(some), workers=workers, progress=shown
        )
        found |= zip(some, made, strict=True)
    return [result for job in jobs for result in restored(found[key_of(job)])]


def recheck(
    jobs: Sequence[Job], path: Path, *, workers: int = 1, progress: Progress | None = None
) -> list[str]:
    """Accept results of older code where they have not changed (see `ResultCache.recheck`).

    Returns the kinds of runs whose results have changed.
    """
    check(jobs)
    changed = []
    for ours in (True, False):
        some = {key_of(job): job for job in jobs if is_ours(job) == ours}
        kinds = [
            ResultCache.key(scenario, method, json.dumps(changes, sort_keys=True))
            for scenario, _, method, changes in some.values()
        ]
        changed += _cache(path, models=ours).recheck(
            run, list(some.values()), list(some), kinds, workers=workers, progress=progress
        )
    return changed


def _cache(path: Path, *, models: bool) -> ResultCache:
    return ResultCache(path, (*CODE, *STREAM_CODE), models=models)


def is_ours(job: Job) -> bool:
    """Does a run train models of ours?"""
    _, _, method, changes = job
    return changes is not None or method.startswith("ours")


def _shown_from(progress: Progress | None, first: int, total: int, n: int, _: int) -> None:
    if progress is not None:
        progress(first + n, total)


def key_of(job: Job) -> str:
    """Return what a run depends on."""
    scenario, order, method, changes = job
    return ResultCache.key(scenario, order, method, json.dumps(changes, sort_keys=True))


class Series(NamedTuple):
    """Runs beside those of the methods, that all depend on the same code."""

    name: str
    function: Callable[..., Any]
    jobs: list[tuple[Any, ...]]  # the first argument is the kind of a run
    code: tuple[str, ...]  # modules

    @property
    def keys(self) -> list[str]:
        """What each run depends on."""
        return [ResultCache.key(self.name, *job) for job in self.jobs]

    def execute(
        self, path: Path, *, workers: int = 1, progress: Progress | None = None
    ) -> list[Mapping[str, Any]]:
        """Return the results of all runs; those whose results the file holds are not repeated."""
        return self._cache(path).run(
            self.function, self.jobs, self.keys, workers=workers, progress=progress
        )

    def recheck(
        self, path: Path, *, workers: int = 1, progress: Progress | None = None
    ) -> list[str]:
        """Accept results of older code where they have not changed; return the kinds that have."""
        kinds = [f"{self.name}, {job[0]}" for job in self.jobs]
        return self._cache(path).recheck(
            self.function, self.jobs, self.keys, kinds, workers=workers, progress=progress
        )

    def _cache(self, path: Path) -> ResultCache:
        return ResultCache(path, self.code)


def streams(orders: int, seed: int) -> Series:
    """Return the runs of ours in streams of every kind; each gives `StreamScores`."""
    numbers = range(seed, seed + min(orders, FEW_SEEDS))
    jobs = [(kind, "default", number) for kind in STREAMS for number in numbers]
    return Series("stream", measure, jobs, STREAM_CODE)


def alarms(data: Sequence[str], orders: int, seed: int) -> Series:
    """Return the runs that count false alarms; each gives the `Alarms` of one model."""
    numbers = range(seed, seed + MODELS_PER_ORDER * orders)
    jobs = [(name, number) for name in ALARM_DATA if name in data for number in numbers]
    return Series("alarms", measure_alarms, jobs, ALARM_CODE)


def reused(data: Sequence[str], orders: int, seed: int) -> Series:
    """Return the runs in streams whose labels do not tell the task; each gives `Reused`."""
    numbers = range(seed, seed + orders)
    jobs = [
        (kind, name, method, number)
        for name in data
        if (SPLITS[name].classes, SPLITS[name].tasks) == (10, 5)  # which these streams are made of
        for kind in REUSED_KINDS
        for method in METHODS_OF[kind]
        for number in numbers
    ]
    return Series("reused", measure_reused, jobs, REUSED_CODE)
