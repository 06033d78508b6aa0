"""Which runs the reproduction consists of; each is run once and its result saved."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dirad.engine import Progress, run_all
from experiments.reproduction import published, recurrence
from experiments.reproduction.protocol import Probe, Run, Setting, images, run
from experiments.reproduction.recurrence import Recurrence
from experiments.result_cache import ResultCache

PARTS = ("main", "told", "top_down", "batch_300", "full_size", "recurring")
FEW = 2  # runs with the full image, which take minutes each


def planned(preset: str, parts: Sequence[str], runs: int, tasks: int, seed: int) -> list[tuple]:
    """Return (setting, number) of every run, the long ones first."""
    base = Setting(preset=preset, tasks=tasks, seed=seed)
    if preset == "default":
        return [(base, number) for number in range(runs)]
    settings = []
    if "full_size" in parts:
        settings += [(replace(base, T_CP=0.05, side=28), min(runs, FEW))]
    if "batch_300" in parts:
        settings += [(replace(base, T_CP=0.05, batch_size=300), runs)]
    if "main" in parts:
        settings += [(replace(base, T_CP=T), runs) for T in published.T_CP]
    if "told" in parts:
        settings += [(replace(base, T_CP=T, told=True), runs) for T in published.T_CP]
    if "top_down" in parts:
        settings += [(replace(base, T_CP=T, connectivity="top_down"), runs) for T in published.T_CP]
    return [(setting, number) for setting, count in settings for number in range(count)]


def check(jobs: Sequence[tuple[Setting, int]]) -> None:
    """Raise an error before the first run if a data set is missing."""
    for side in {setting.side for setting, _ in jobs}:
        images(side)


def measure(
    jobs: Sequence[tuple[Setting, int]],
    path: Path,
    *,
    workers: int = 1,
    progress: Progress | None = None,
) -> list[Run]:
    """Return all runs; those whose results the file holds are not repeated."""
    check(jobs)
    keys = [ResultCache.key(*job) for job in jobs]
    found = ResultCache(path).run(run, jobs, keys, workers=workers, progress=progress)
    return [restored(plain) for plain in found]


def recheck(
    jobs: Sequence[tuple[Setting, int]],
    path: Path,
    *,
    workers: int = 1,
    progress: Progress | None = None,
) -> list[str]:
    """Accept results of older code where they have not changed (see `ResultCache.recheck`).

    Returns the settings whose results have changed.
    """
    check(jobs)
    keys, kinds = [ResultCache.key(*job) for job in jobs], [str(setting) for setting, _ in jobs]
    return ResultCache(path).recheck(run, jobs, keys, kinds, workers=workers, progress=progress)


def restored(plain: Any) -> Run:
    """Return a run from its line in the file of results."""
    return Run(
        **{
            **plain,
            "setting": Setting(**plain["setting"]),
            "tests": [{int(k): v for k, v in test.items()} for test in plain["tests"]],
            "probes": [Probe(**probe) for probe in plain["probes"]],
        }
    )


def measure_recurring(
    preset: str, seeds: Sequence[int], *, workers: int = 1, progress: Progress | None = None
) -> list[Recurrence]:
    """Return what a preset does in a stream A B A C B."""
    jobs = [(preset, seed) for seed in seeds]
    return run_all(recurrence.measure_recurring, jobs, workers=workers, progress=progress)
