"""Extrapolation: what more models and inputs would need, from measured curves.

Costs per input or model come from the fitted laws; what is held for pairs of inputs is counted
from the arrays that the code makes.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from dirad.core.network import EDGE
from dirad.core.sparse_regression import MAX_MATRIX
from dirad.preval.preselection import EXPERTS_PER_SAMPLE
from dirad.preval.settings import PRESETS
from experiments.scale.growth import Row
from experiments.scale.power_law import PowerLaw, fit_power_law, law_of
from experiments.scale.quantities import duration, figure, size

SINGLE, DOUBLE = 4, 8  # bytes of a number
NEEDED = ("targets", "screening")  # parts that the laws come from


@dataclass(frozen=True)
class World:
    """The system that is simulated, and what each worker has."""

    models: int = 10_000
    inputs: int = 1_000_000
    worker_bytes: float = 64e9
    link_bytes: float = 1.25e9  # a second: 10 Gbit/s
    day: float = 86_400.0  # seconds in which a model is to be learned


class Laws(NamedTuple):
    """How costs grow with the inputs of one model; of the screen, with its cells."""

    numbers: PowerLaw  # kept by a stable model
    begin: PowerLaw  # seconds before L1 adapts: L0, sketches, who may predict whom
    l1: PowerLaw  # seconds of all targets
    look: PowerLaw  # seconds to evaluate a sample fully
    peak: PowerLaw | None  # megabytes while a model is learned, where any were seen
    screen: PowerLaw  # seconds per sample, by models × inputs


class Hold(NamedTuple):
    """Something that one worker holds while it learns a model, if nothing is divided."""

    name: str
    bytes: Callable[[int], float]  # of the inputs
    answer: str  # the part of the design that divides it


class Routing(NamedTuple):
    """What a sample costs before its model is known."""

    workers: int  # that hold models
    screen_workers: int
    to_all: float  # bytes per sample if every worker screens for its own models
    to_screen: float  # bytes per sample to the screen and back
    to_likely: float  # bytes per sample to the likely models
    screen_seconds: float
    look_seconds: float

    @property
    def traffic(self) -> float:
        """Bytes per sample with a screen that is divided by inputs."""
        return self.to_screen + self.to_likely


def laws_of(rows: Mapping[str, Sequence[Row]]) -> Laws:
    """Return the laws of what was measured.

    The peak is fitted to the two largest sizes: what grows with pairs of inputs shows late.
    """
    missing = [part for part in NEEDED if len(rows.get(part, ())) < 2]
    if missing:
        raise ValueError(f"the simulation reads what was measured: run {', '.join(missing)} first")

    cells = [row["size"] * row["inputs"] for row in rows["screening"]]
    targets = rows["targets"]
    largest_two = sorted(targets, key=lambda row: row["size"])[-2:]
    return Laws(
        numbers=_law(targets, "numbers"),
        begin=_law(targets, "L0"),
        l1=_law(targets, "L1"),
        look=_law(targets, "look"),
        peak=law_of(largest_two, "megabytes"),
        screen=fit_power_law(cells, [row["screen"] for row in rows["screening"]]),
    )


def _law(rows: Sequence[Row], cost: str) -> PowerLaw:
    return fit_power_law([row["size"] for row in rows], [row[cost] for row in rows])


def holds(modes: int = 2 * PRESETS["default"].modes) -> list[Hold]:
    """Return what learning a model of two classes holds, by the arrays of the code."""
    buffer = PRESETS["default"].buffer_size
    return [
        Hold(
            "covariances, or the centered samples of a cluster",
            lambda n: DOUBLE * n * (n if n <= MAX_MATRIX else buffer / modes),
            f"of more than {MAX_MATRIX:,} inputs, rows are computed when they are needed",
        ),
        Hold(
            "who may predict whom: masks of pairs",
            lambda n: 3.0 * n * n,
            "targets are independent: a shard holds the rows of its own",
        ),
        Hold(
            f"buffer of {buffer:,} samples",
            lambda n: float(DOUBLE * buffer * n),
            "`buffer_size`; a shard needs the inputs that its targets are predicted from",
        ),
    ]


def largest(hold: Hold, memory: float) -> int:
    """Return the most inputs for which something fits into memory.

    >>> largest(Hold("a matrix", lambda n: 8.0 * n * n, ""), 8e6)
    1000
    """
    low, high = 0, 1
    while hold.bytes(high) <= memory:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if hold.bytes(middle) <= memory else (low, middle)
    return low


def first_to_break(found: Sequence[Hold], memory: float) -> Hold:
    """Return what fills a worker's memory at the fewest inputs."""
    return min(found, key=lambda hold: largest(hold, memory))


def model_bytes(laws: Laws, inputs: int) -> float:
    """Return the memory of a stable model: nearly all of its numbers are edges."""
    return laws.numbers.at(inputs) * EDGE.itemsize


def screen_bytes(world: World) -> float:
    """Return the memory of the screen: a precision and a weighted mean per input and model."""
    return 2.0 * SINGLE * world.inputs * world.models


def routing(laws: Laws, world: World) -> Routing:
    """Return what routing one sample costs."""
    sample = float(SINGLE * world.inputs)
    workers = math.ceil(world.models * model_bytes(laws, world.inputs) / world.worker_bytes)
    screeners = math.ceil(screen_bytes(world) / world.worker_bytes)
    return Routing(
        workers,
        screeners,
        workers * sample,
        sample + screeners * SINGLE * world.models,  # a slice to each, and all sums from each
        EXPERTS_PER_SAMPLE * sample,
        laws.screen.at(float(world.models) * world.inputs),
        EXPERTS_PER_SAMPLE * laws.look.at(world.inputs),
    )


def learners(laws: Laws, world: World) -> int:
    """Return the workers that learn one model in a day, its targets divided among them."""
    seconds = laws.begin.at(world.inputs) + laws.l1.at(world.inputs)
    return max(1, math.ceil(seconds / world.day))


def needs(laws: Laws, world: World) -> list[dict[str, Any]]:
    """Return rows of what a system of this size needs."""
    found = routing(laws, world)
    every = world.models * model_bytes(laws, world.inputs)
    seconds = found.screen_seconds + found.look_seconds
    rows = [
        _need("one stable model", size(model_bytes(laws, world.inputs)), "kept numbers"),
        _need(f"{world.models:,} stable models", size(every), f"{found.workers:,} workers"),
        _need(
            "screen of all models",
            size(screen_bytes(world)),
            f"{found.screen_workers:,} workers",
        ),
        _need(
            "traffic per sample, every worker screens its own models",
            size(found.to_all),
            f"{duration(found.to_all / world.link_bytes)} of one link",
        ),
        _need(
            "traffic per sample, the screen divided by inputs",
            size(found.traffic),
            f"{duration(found.traffic / world.link_bytes)} of one link; {EXPERTS_PER_SAMPLE} "
            f"likely models take {found.to_likely / found.traffic:.0%} of it",
        ),
        _need(
            "time per sample, one core",
            duration(seconds),
            f"screen {duration(found.screen_seconds)}, {EXPERTS_PER_SAMPLE} full evaluations "
            f"{duration(found.look_seconds)}",
        ),
        _need(
            "the same without a screen",
            duration(world.models * laws.look.at(world.inputs)),
            f"{world.models * laws.look.at(world.inputs) / seconds:,.0f} × as long",
        ),
        _need(
            "learning one model, one core",
            duration(laws.begin.at(world.inputs) + laws.l1.at(world.inputs)),
            f"{duration(laws.begin.at(world.inputs))} of it before L1 adapts; in a day by "
            f"{learners(laws, world):,} cores that share its targets",
        ),
    ]
    if laws.peak is not None:
        peak = 1e6 * laws.peak.at(world.inputs)
        times = figure(peak / world.worker_bytes)
        rows.append(
            _need(
                "memory while it is learned, undivided",
                size(peak),
                f"the measured peak, exponent {laws.peak.exponent:.2f}: {times} × a worker's",
            )
        )
    return rows


def _need(what: str, much: str, that_is: str) -> dict[str, Any]:
    return {"what": what, "needs": much, "that is": that_is}


def limits(world: World) -> list[dict[str, Any]]:
    """Return rows of what one worker holds while learning, the first to break first."""
    found = sorted(holds(), key=lambda hold: largest(hold, world.worker_bytes))
    return [
        {
            "held while a model is learned": hold.name,
            f"at {world.inputs:,} inputs": size(hold.bytes(world.inputs)),
            "full at inputs": f"{largest(hold, world.worker_bytes):,}",
            "answered by": hold.answer,
        }
        for hold in found
    ]
