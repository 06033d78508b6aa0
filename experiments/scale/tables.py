"""Measured costs as rows of tables, with the law that each follows."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dirad.preval.preselection import EXPERTS_PER_SAMPLE, MIN_EXPERTS
from dirad.report.tables import Section
from experiments.scale.growth import Row
from experiments.scale.power_law import law_of
from experiments.scale.quantities import duration, figure, size
from experiments.scale.simulate import World, first_to_break, holds, laws_of, limits, needs

EXPONENT = "exponent"
MOST_OF_ONE, MOST_OTHERWISE, MOST_GROWTH = 20.0, 0.001, 0.10  # required

Cell = Callable[[float], str]
Columns = Mapping[str, tuple[str, Cell]]  # by key: heading, and how a value is written


def count(value: float) -> str:
    """Return a whole number."""
    return f"{value:,.0f}"


def megabytes(value: float) -> str:
    """Return an amount of memory."""
    return size(1e6 * value)


def share(value: float) -> str:
    """Return a share in percent."""
    return f"{value:.2%}"


INPUTS: Columns = {
    "size": ("inputs", count),
    "step": ("a step", duration),
    "round": ("a round of growth", duration),
    "fit": ("whole fit", duration),
    "steps": ("its steps", count),
    "edges": ("its edges", count),
    "accuracy": ("accuracy, fresh samples", share),
    "megabytes": ("memory", megabytes),
}
TARGETS: Columns = {
    "size": ("targets", count),
    "modes": ("modes", count),
    "L0": ("before L1 adapts", duration),
    "L1": ("L1", duration),
    "per_target": ("L1 per target", duration),
    "look": ("evaluation of a sample", duration),
    "numbers": ("numbers kept", count),
    "megabytes": ("memory", megabytes),
}
EDGES: Columns = {
    "size": ("edges", count),
    "hidden": ("hidden nodes", count),
    "step": ("a step", duration),
    "response": ("response per sample", duration),
    "megabytes": ("memory", megabytes),
}
MODELS: Columns = {
    "size": ("models", count),
    "one": ("one model, 10,000 samples", duration),
    "route": ("routing them", duration),
    "all": ("asking all", duration),
    "times": ("routing, × one model", figure),
    "otherwise": ("routed otherwise", share),
    "batch": ("taking a batch", duration),
    "learning": ("learning a task", duration),
    "numbers": ("numbers kept", count),
    "megabytes": ("memory of the process", megabytes),
}
SAMPLES: Columns = {
    "size": ("samples", count),
    "megabytes": ("peak of memory", megabytes),
    "above": ("above the first", share),
    "seconds": ("time", duration),
    "models": ("models", count),
    "reports": ("reports kept", count),
    "events": ("events kept", count),
}
SCREENING: Columns = {
    "size": ("models", count),
    "screen": ("screening, per sample", duration),
    "megabytes": ("screen", megabytes),
}
LAWS = {  # columns of which a law is fitted
    "inputs": ("step", "round", "fit", "megabytes"),
    "targets": ("L0", "L1", "per_target", "look", "numbers", "megabytes"),
    "edges": ("step", "response", "megabytes"),
    "permuted": ("route", "all", "batch", "numbers"),
    "turned": ("route", "all", "batch", "numbers"),
    "screening": ("screen", "megabytes"),
}


def written(rows: Sequence[Row], columns: Columns) -> list[dict[str, Any]]:
    """Return rows of text under their headings."""
    return [
        {heading: cell(row[key]) for key, (heading, cell) in columns.items() if key in row}
        for row in rows
    ]


def with_laws(part: str, rows: Sequence[Row], columns: Columns) -> list[dict[str, Any]]:
    """Return rows of text, and below them the exponents of their laws."""
    result = written(rows, columns)
    if len(rows) > 1:
        heading = columns["size"][0]
        laws = {columns[key][0]: law_of(rows, key) for key in LAWS[part]}
        found = {name: str(law) for name, law in laws.items() if law is not None}
        result.append({heading: EXPONENT, **found})
    return result


def inputs_table(rows: Sequence[Row]) -> Section:
    """L0 as inputs grow."""
    return Section(
        "Inputs: one L0",
        with_laws("inputs", rows, INPUTS),
        "Planted data: inputs share hidden causes in threes, a dozen of them tell two classes; "
        "2,000 samples whatever the number of inputs. A step of a batch of 200 copies its inputs "
        "and walks along the edges. A round looks at every input for every term, which is linear, "
        "and at products of two: their number grows with the square of the inputs until "
        "`product_budget` limits it, which is why a round is worse than linear among the smaller "
        "sizes and its exponent has a large spread. Memory is what adaptation takes beyond the "
        "samples given.",
    )


def targets_table(rows: Sequence[Row]) -> Section:
    """L1 of a default model as targets grow."""
    return Section(
        "Targets: the L1 of one model",
        with_laws("targets", rows, TARGETS),
        "Preset `default` on planted data, 1,200 samples, one thread. Targets are the inputs and "
        "the hidden nodes of L0, each with a predictor per cluster. Covariances are taken of all "
        "pairs of states, so that time and memory grow with the square of the inputs in the end. "
        "Before L1 there is L0; learning includes the interim fits of L1 while samples come in.",
    )


def strict_table(rows: Sequence[Row]) -> Section:
    """The paper's L1 at two sizes."""
    first, last = rows[0], rows[-1]
    ratio: dict[str, Any] = {
        "images": "× the first",
        "targets": figure(last["targets"] / first["targets"]),
        "edges grown": figure(last["edges"] / first["edges"]),
        "steps of all pathways": figure(last["pathway_steps"] / first["pathway_steps"]),
        "time": figure(last["seconds"] / first["seconds"]),
        "memory": figure(last["megabytes"] / max(first["megabytes"], 1e-9)),
    }
    table: list[dict[str, Any]] = [
        {
            "images": f"{row['size']:,.0f} pixels",
            "targets": count(row["targets"]),
            "edges grown": count(row["edges"]),
            "steps of all pathways": count(row["pathway_steps"]),
            "time": duration(row["seconds"]),
            "memory": megabytes(row["megabytes"]),
        }
        for row in rows
    ]
    cells = (last["size"] / first["size"]) ** 2
    return Section(
        "Targets: the paper's model, `strict`",
        [*table, ratio],
        "MNIST, digits 6 and 7, L0 and L1 until stable, one thread. Candidates × targets alone "
        f"would give {cells:.0f} ×.",
    )


def edges_table(rows: Sequence[Row]) -> Section:
    """One network as edges grow."""
    return Section(
        "Edges: one network",
        with_laws("edges", rows, EDGES),
        "Networks made by hand: 784 inputs, about ten edges per modulatory node, 2 outputs; steps "
        "of `default` on batches of 200, responses of 1,000 samples. Both walk along the edges "
        "once; small networks pay what every step costs.",
    )


def models_table(kind: str, rows: Sequence[Row]) -> Section:
    """One system as models grow."""
    rows = [{**row, "times": row["route"] / row["one"]} for row in rows]
    how = {
        "permuted": "pixels permuted",
        "turned": "images turned by quarters and mirrored, so that tasks are more alike",
    }[kind]
    worst = max(row["otherwise"] for row in rows)
    return Section(
        f"Models: one system, tasks {kind}",
        with_laws(kind, rows, MODELS),
        f"8×8 digits two by two, {how}; 200 samples of a task in batches of 50, quick settings. "
        f"Up to {MIN_EXPERTS} models all evaluate a sample; of more, the {EXPERTS_PER_SAMPLE} "
        "likeliest: so the number of evaluations stays. The cheap guess errs more where models are "
        "alike. "
        f"Required at 500 models: at most {MOST_OF_ONE:.0f} × one "
        f"model, and at most {MOST_OTHERWISE:.1%} of samples routed otherwise than by asking all; "
        f"most measured: {rows[-1]['times']:.1f} × at {rows[-1]['size']:,.0f} models, "
        f"{worst:.2%}. What still grows: the screen, two products of matrices, and one call per "
        "model that is asked at all.",
    )


def samples_table(rows: Sequence[Row]) -> Section:
    """A stream as it goes on."""
    first = rows[0]["megabytes"]
    rows = [{**row, "above": row["megabytes"] / first - 1.0} for row in rows]
    return Section(
        "Samples: a stream from a file",
        written(rows, SAMPLES),
        "Sixteen inputs, four tasks that come again every 20,000 samples, read from an IDX file "
        "2,000 at a time and taken in batches of 200 by `partial_fit`. Required: memory at most "
        f"{MOST_GROWTH:.0%} above that of the first row. What grows by design is the story of the "
        "stream: one report per batch, and an event whenever a task changes.",
    )


def screening_table(rows: Sequence[Row]) -> Section:
    """The screen as models grow."""
    return Section(
        "Models: the screen alone",
        with_laws("screening", rows, SCREENING),
        "784 inputs, made-up models: the screen knows no more of a model than the mean and the "
        "spread of its inputs.",
    )


def simulation_tables(rows: Mapping[str, Sequence[Row]], world: World) -> list[Section]:
    """What a larger world needs, and where it breaks."""
    laws = laws_of(rows)
    first = first_to_break(holds(), world.worker_bytes)
    return [
        Section(
            f"On paper: {world.models:,} models of {world.inputs:,} inputs",
            needs(laws, world),
            "From the laws above, far beyond what was measured: orders of magnitude, no more. A "
            f"worker has {size(world.worker_bytes)} and a link of "
            f"{size(world.link_bytes)} a second; samples travel as float32. The screen is small "
            "beside the models: a few workers hold it, each some inputs of all models, so that a "
            "sample crosses the network once in slices, once for each likely model, and never "
            "to all.",
        ),
        Section(
            "On paper: where it breaks first",
            limits(world),
            f"Not in routing but in learning. First: {first.name}. Whatever is held for every "
            "pair of inputs is the limit; the screen and all traffic are linear in the inputs. "
            "Counted from the arrays that the code makes, not measured.",
        ),
    ]


def sections(
    rows: Mapping[str, Sequence[Row]], world: World | None, known: Mapping[str, Sequence[Row]]
) -> list[Section]:
    """Return the tables of what was measured, and of the simulation if a world is given."""
    makers: dict[str, Callable[[Sequence[Row]], Section]] = {
        "inputs": inputs_table,
        "targets": targets_table,
        "strict": strict_table,
        "edges": edges_table,
        "permuted": lambda some: models_table("permuted", some),
        "turned": lambda some: models_table("turned", some),
        "screening": screening_table,
        "samples": samples_table,
    }
    found = [make(rows[part]) for part, make in makers.items() if rows.get(part)]
    return found + (simulation_tables(known, world) if world is not None else [])
