"""What is measured: sizes by part, each once in a process of its own, with the result saved."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dirad.engine import Progress
from dirad.estimators.progress import load_kernels
from experiments.result_cache import ResultCache
from experiments.scale.clock import alone
from experiments.scale.growth import Row, measure_edges, measure_inputs
from experiments.scale.models import KINDS, measure_models
from experiments.scale.screening import measure_screening
from experiments.scale.stream import measure_stream
from experiments.scale.targets import measure_strict, measure_targets

MEASURED = ("inputs", "targets", "strict", "edges", "models", "screening", "samples")
PARTS = (*MEASURED, "simulate")

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class Extent:
    """How far each part goes."""

    inputs: Sizes = (196, 784, 3072, 10_000)
    targets: Sizes = (196, 784, 3072, 10_000)
    strict: Sizes = (14, 28)  # sides of images
    edges: Sizes = (1_000, 3_000, 10_000, 30_000, 100_000)
    permuted: Sizes = (1, 10, 50, 100, 200, 500)  # models
    turned: Sizes = (20, 30)  # of 80 classes: from some 40 models on, all are known
    screening: Sizes = (100, 1_000, 10_000)  # models
    samples: Sizes = (100_000, 1_000_000, 10_000_000)
    input_samples: int = 2000  # of L0 at every number of inputs
    target_samples: int = 1200
    routed: int = 10_000
    batches: int = 50  # taken by many models


FULL = Extent()
QUICK = Extent(
    inputs=(20, 40, 80),
    targets=(16, 32),
    strict=(4, 7),
    edges=(100, 300, 1000),
    permuted=(1, 2),
    turned=(2,),
    screening=(20, 200),
    samples=(20_000, 40_000),
    input_samples=300,
    target_samples=400,
    routed=200,
    batches=2,
)
WARM_UP = QUICK.inputs[0]  # inputs of a run that loads the kernels

# Modules that a measurement depends on, beside those of our models.
CODE = tuple(
    f"experiments.scale.{name}"
    for name in ("clock", "growth", "models", "planted", "screening", "stream", "targets")
)


@dataclass(frozen=True)
class Measured:
    """What one process measured."""

    part: str
    rows: list[Row]


Job = tuple[str, str, Sizes, Extent, int]  # part, kind of task, sizes, how far, seed


def planned(parts: Sequence[str], extent: Extent, seed: int) -> list[Job]:
    """Return every process; a system that grows, and a stream, are measured on the way."""
    jobs: list[Job] = []
    for part in parts:
        if part == "models":
            jobs += [(part, kind, getattr(extent, kind), extent, seed) for kind in KINDS]
        elif part == "samples":
            jobs.append((part, "", extent.samples, extent, seed))
        elif part in MEASURED:
            jobs += [(part, "", (size,), extent, seed) for size in getattr(extent, part)]
    return jobs


def execute(
    jobs: Sequence[Job], path: Path, progress: Progress | None = None
) -> dict[str, list[Row]]:
    """Return the rows of each part; those whose results the file holds are not measured again.

    One at a time: two would disturb each other.
    """
    cache = _cache(path)
    made = cache.run(measure, jobs, [key_of(job) for job in jobs], progress=progress)
    return _by_part(jobs, made)


def kept(jobs: Sequence[Job], path: Path) -> dict[str, list[Row]]:
    """Return the rows of what was measured before."""
    cache = _cache(path)
    found = [job for job in jobs if key_of(job) in cache.results]
    return _by_part(found, [cache.results[key_of(job)] for job in found])


def key_of(job: Job) -> str:
    """Return what a measurement depends on."""
    part, kind, sizes, extent, seed = job
    counts = (extent.input_samples, extent.target_samples, extent.routed, extent.batches)
    return ResultCache.key(part, kind, json.dumps([sizes, counts]), seed)


def measure(*job: object) -> Measured:
    """Return what a process of its own finds."""
    return alone(_measured, *job)


def _cache(path: Path) -> ResultCache:
    return ResultCache(path, CODE)


def _by_part(jobs: Sequence[Job], made: Sequence[Mapping]) -> dict[str, list[Row]]:
    rows: dict[str, list[Row]] = {}
    for job, found in zip(jobs, made, strict=True):
        name = job[1] or job[0]
        rows.setdefault(name, []).extend(found["rows"])
    return rows


def _measured(part: str, kind: str, sizes: Sizes, extent: Extent, seed: int) -> Measured:
    load_kernels()
    if part == "models":
        rows = measure_models(kind, sizes, extent.routed, extent.batches, seed)
    elif part == "samples":
        rows = measure_stream(sizes, seed)
    else:
        _measure_one(part, WARM_UP if part != "strict" else QUICK.strict[0], QUICK, seed)
        rows = [_measure_one(part, size, extent, seed) for size in sizes]
    return Measured(part, rows)


def _measure_one(part: str, size: int, extent: Extent, seed: int) -> Row:
    if part == "inputs":
        return measure_inputs(size, extent.input_samples, seed)
    if part == "targets":
        return measure_targets(size, extent.target_samples, seed)
    if part == "strict":
        return measure_strict(size, seed)
    return measure_screening(size, seed) if part == "screening" else measure_edges(size, seed)
