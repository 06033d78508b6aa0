"""Commands that show what a model file holds, or carry it elsewhere: inspect, export, report."""

import math
import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeGuard

import numpy as np
from cyclopts import Parameter
from numpy.typing import NDArray

from dirad.cli.app import TALKATIVE, Flag, Output, Usage, app, raw_stdout, spinner
from dirad.cli.learning import (
    FOUND_OUT,
    MaybeOut,
    ModelPath,
    OutFile,
    Reading,
    check_begun,
    check_place,
    encoder_of,
    model_rows,
    opened,
    scores,
)
from dirad.cli.printing import Findings

if TYPE_CHECKING:
    from dirad.storage import ModelFile
    from dirad.tables import Encoder, Table

SHORT = 40  # edges up to which a network is written as equations
IMPORTANT = 10  # inputs that are named
MEASURED = ("test rows", "test accuracy", "share of the largest class", "test R²", "test RMSE")
SAMPLES = 2000  # rows of a data file that a page measures on
ALIKE = 8  # number columns side by side up to which each has a line of its own
FIRST = 3  # of more, those that have

LARGEST_ERROR = "largest error within the ranges"
CLIPPED = (
    "Inputs of type float that lie outside the ranges (those of the rows fitted to, or --low and "
    "--high) are clipped to them, and then the error may be larger."
)
USELESS = 0.5  # error of a probability from which an answer says nothing
L0_ALONE = (
    "The formula is that of L0 alone. The model's answers also weigh how well each mode of L1 "
    "predicts the inputs: c, onnx and python compute all of it."
)
Target = Literal["c", "onnx", "python", "formula", "dot", "svg"]


@app.command
def inspect(
    model: ModelPath,
    *,
    data: Annotated[Path | None, Parameter(help="A data file to measure the model on.")] = None,
    inputs: Flag = False,
    reading: Reading = FOUND_OUT,
    talk: Output = TALKATIVE,
) -> None:
    """Tell what a model file holds: size, accuracy, the inputs that count, the formula if short.

    ```
    dirad inspect model.dirad
    dirad inspect model.dirad --data test.csv
    dirad inspect model.dirad --inputs    # every number that it takes, in order
    dirad inspect model.dirad --json | jq .Model
    ```

    Parameters
    ----------
    inputs
        List every input with its place, instead of the columns.
    """
    from dirad.names import quoted
    from dirad.storage import read

    found = read(model)
    names = names_of(found, model)
    findings = Findings(talk)
    findings.facts("Model", facts(found, model))
    if data is not None:
        table = opened(data, reading)
        X, y = rows_of(found, model, table)
        if y is None:
            raise Usage(f"{data} has no column of the target: there is nothing to measure")
        measured: dict[str, Any] = {"rows": len(X)}
        note = ""
        if was_shown(found, table):
            measured |= fitted_to(found, len(X))
            note = f"{fitted_words(found, len(X)).capitalize()}."
        findings.facts(f"On {data}", measured | scores(found.model, X, y, prefix=""), note)
    if inputs:
        findings.table("Inputs", input_rows(found, model))
    elif found.encoder is not None:
        rows = columns(encoder_of(found, model))
        findings.table("Columns", rows if talk.json else folded(rows))
    if hasattr(found.model, "network_"):
        findings.table("Inputs that count most", important(found.model, names))
        if found.model.n_edges_ <= SHORT:
            equations = found.model.network_.equations(quoted(names))
            findings.table("Formula", [{"equation": line} for line in equations],
                           meaning(found.model))  # fmt: skip
    else:
        events = [{"what happened": str(event)} for event in found.model.events_]
        findings.table("Models", model_rows(found.model))
        findings.table("Events", events[-20:])
    findings.print()


@app.command
def export(
    model: ModelPath,
    *,
    to: Target,
    output: MaybeOut = None,
    name: str | None = None,
    fixed: Literal[16, 32] | None = None,
    low: float | None = None,
    high: float | None = None,
    number: int | None = None,
    talk: Output = TALKATIVE,
) -> None:
    """Carry a model out of Python: C for a device, ONNX, a Python module, a formula, a drawing.

    C, ONNX and Python compute what the model computes, scaling included; so does the formula of one
    network. Of a continual model the formula, and the drawing, are those of one L0. What is
    exported answers and routes; novelty stays in Python.

    ```
    dirad export model.dirad --to c -o model.h            # C99, one header, no malloc
    dirad export model.dirad --to c --fixed 16 -o fixed.h # whole numbers only
    dirad export model.dirad --to onnx -o model.onnx
    dirad export model.dirad --to python -o standalone.py # imports nothing but math
    dirad export model.dirad --to formula                 # LaTeX
    dirad export model.dirad --to svg -o network.svg
    ```

    Parameters
    ----------
    to
        c, onnx, python, formula, dot or svg.
    output
        The file to write [default: standard output; onnx needs a file].
    name
        In C: what the functions begin with [default: model].
    fixed
        In C: bits of a weight, 16 or 32; then all is computed in whole numbers.
    low
        In fixed point: the least value of all inputs [default: of each, as in the data fitted to].
    high
        In fixed point: the largest value of all inputs [default: likewise].
    number
        Of a continual model, for a formula or a drawing: which of its models.
    """
    from dirad import export as exports
    from dirad.atomic import replacing
    from dirad.export.onnx import onnx_ends
    from dirad.storage import read

    found = read(model)
    one = found.model
    if output is not None:
        check_place(output, model)
    check_begun(found, model)
    if any(m.phase != "stable" for m in getattr(one, "models_", ())):
        raise Usage(f"{model} still learns: dirad learn {model} --finish brings it to an end")
    names = names_of(found, model)
    if names is not None:
        one.feature_names_in_ = np.array(names, object)
    if to == "onnx" and output is None:
        raise Usage("--to onnx needs a file: --output model.onnx")
    check_c_options(one, to, name, fixed, low, high)
    check_number(one, to, number)
    facts: dict[str, Any] = {}
    ends = ranges(found, model, low, high) if fixed is not None else ()
    try:
        if to == "c":
            point = None if fixed is None else exports.Fixed(fixed, *ends)
            content: str | bytes = exports.to_c(one, name=name or "model", fixed=point)
            size = exports.c_size(one, fixed=point)
            facts = {"flash, bytes": size.flash, "RAM, bytes": size.ram}
            if point is not None:
                bound = exports.fixed_bound(one, point)
                check_bound(one, bound, fixed)
                facts[LARGEST_ERROR] = bound
        elif to == "onnx":
            content = exports.to_onnx(one)
            facts = onnx_ends(content)
        elif to == "python":
            content = exports.to_python(one)
        elif to == "formula":
            content = exports.to_formula(one, number=number).latex() + "\n"
        else:
            draw = exports.to_dot if to == "dot" else exports.to_svg
            content = draw(one, number=number)
    except ValueError as error:  # what this model cannot become
        option = f"--to {to}" if fixed is None else f"--fixed {fixed}"
        raise Usage(f"{option}: {error}") from None
    raw = content.encode() if isinstance(content, str) else content
    if output is None:
        raw_stdout().write(raw)
        return
    with replacing(output) as part:
        part.write_bytes(raw)
    findings = Findings(talk)
    notes = [inputs_note(found, model) if to in ("c", "onnx", "python") else ""]
    if to == "formula" and hasattr(one, "models_"):
        notes.append(L0_ALONE)
    if LARGEST_ERROR in facts:
        notes.append(CLIPPED)
    about = {"file": str(output), "bytes": len(raw)} | facts
    findings.facts("Export", about, " ".join(filter(None, notes)))
    findings.print()


@app.command
def report(
    model: ModelPath,
    *,
    output: OutFile = Path("report.html"),
    data: Annotated[Path | None, Parameter(help="A data file whose samples can be picked.")] = None,
    title: str | None = None,
    shape: Annotated[
        tuple[int, int] | None, Parameter(negative="", help="Rows and columns of images.")
    ] = None,
    reading: Reading = FOUND_OUT,
    talk: Output = TALKATIVE,
) -> None:
    """Write one page to look at: the network as it grew, its equations, its states, its pictures.

    The page is one file and needs no network: mail it, or put it beside the model.

    ```
    dirad report model.dirad
    dirad report model.dirad --data test.csv -o flowers.html
    dirad report digits.dirad --data t10k-images-idx3-ubyte.gz --shape 28 28
    ```

    Parameters
    ----------
    output
        The page to write.
    title
        [default: what the model predicts]
    """
    from dirad.report.page import write_page
    from dirad.storage import read

    check_place(output, model, data)
    found = read(model)
    check_begun(found, model)
    X = y = None
    about = ""
    if data is not None:
        table = opened(data, reading)
        X, y = rows_of(found, model, table, most=SAMPLES)
        about = fitted_words(found, len(X)) if was_shown(found, table) else ""
    if shape is not None and shape[0] * shape[1] != found.model.n_features_in_:
        raise Usage(f"--shape {shape[0]} {shape[1]}: there are {found.model.n_features_in_} inputs")
    target = None if found.encoder is None else encoder_of(found, model).target.name
    with spinner(talk, "drawing"):
        write_page(
            found.model, output, X=X, y=y, shape=shape, input_names=names_of(found, model),
            title=title or (f"{target}, from {model.name}" if target else model.name),
            about=about, held_out=held_out(found),
        )  # fmt: skip
    findings = Findings(talk)
    findings.facts("Page", {"file": str(output), "bytes": output.stat().st_size})
    findings.print()


# ------------------------------------------------------------------ what they share


def names_of(found: "ModelFile", path: Path) -> list[str] | None:
    """Return what the inputs are called, if anybody named them."""
    if found.encoder is not None:
        return list(encoder_of(found, path).feature_names)
    own = getattr(found.model, "feature_names_in_", None)
    return None if own is None else [str(name) for name in own]


def ranges(
    found: "ModelFile", path: Path, low: float | None, high: float | None
) -> tuple[Any, Any]:
    """Return the range of the inputs: as said, or as `fit` saw it, or else from 0 to 1."""
    from dirad.storage import ModelError

    seen = found.provenance
    if low is not None or high is not None or "low" not in seen or "high" not in seen:
        return 0.0 if low is None else low, 1.0 if high is None else high
    lows, highs = seen["low"], seen["high"]
    if not (
        all(isinstance(ends, list) and all(map(is_number, ends)) for ends in (lows, highs))
        and len(lows) == len(highs) == found.model.n_features_in_
        and all(a <= b for a, b in zip(lows, highs, strict=True))
    ):
        why = "the ranges of its inputs are not sound: give others by --low and --high"
        raise ModelError(f"{path}: {why}")
    return lows, highs


def is_number(value: Any) -> TypeGuard[float]:
    """Is this, of a file, a number that a float holds?"""
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def check_c_options(
    model: Any, to: Target, name: str | None, fixed: int | None, low: float | None,
    high: float | None,
) -> None:  # fmt: skip
    """Refuse options of C and of fixed point where they mean nothing."""
    from dirad.export.c_source import NAMES, is_name

    if to != "c":
        for option, value in (("--name", name), ("--fixed", fixed)):
            if value is not None:
                raise Usage(f"{option} is for C, not for {to}")
    if name is not None and not is_name(name):
        raise Usage(f"--name: must be {NAMES}, not {name!r}")
    for option, value in (("--low", low), ("--high", high)):
        if value is not None and fixed is None:
            raise Usage(f"{option} is for fixed point, in C: it needs --fixed 16 or --fixed 32")
        if value is not None and not math.isfinite(value):
            raise Usage(f"{option}: must be a finite number, not {value}")
    if fixed is not None and not hasattr(model, "network_"):
        raise Usage(
            "--fixed: a continual model can only be exported in float, since in whole numbers the "
            "least error may choose another of its models"
        )
    least, most = 0.0 if low is None else low, 1.0 if high is None else high
    if least > most:
        raise Usage(f"--low is {least:g}, but --high is {most:g}")


def check_bound(model: Any, bound: float, fixed: int | None) -> None:
    """Refuse whole numbers in which the answers are lost."""
    if hasattr(model, "classes_") and bound >= USELESS:
        finer = "--fixed 32, or " if fixed == 16 else ""
        raise Usage(
            f"--fixed {fixed}: probabilities may be off by {bound:.2g}, so that they say nothing; "
            f"use {finer}narrower ranges (--low, --high), or float"
        )


def check_number(model: Any, to: Target, number: int | None) -> None:
    """Refuse a number where there is nothing to choose, and a choice that was not made."""
    if number is not None and to not in ("formula", "dot", "svg"):
        raise Usage(f"--number chooses what is drawn or written as a formula, not for {to}")
    if to not in ("formula", "dot", "svg"):
        return
    numbers = [one.number for one in getattr(model, "models_", ())]
    listed = ", ".join(map(str, numbers))
    if number is not None and not numbers:
        raise Usage("--number chooses a model of a continual model, and this is one network")
    if number is not None and number not in numbers:
        raise Usage(f"--number {number}: the models are {listed}")
    if number is None and len(numbers) > 1:
        raise Usage(f"--number: say which of the models {listed}")


def was_shown(found: "ModelFile", table: "Table") -> bool:
    """Is this the very file that the model was fitted to, or one of several?"""
    from dirad.tables import digest

    shown = found.provenance.get("data")
    files = shown if isinstance(shown, list) else []
    known = [file.get("sha256") for file in files if isinstance(file, dict)]
    return bool(known) and all(digest(path) in known for path in table.files or (table.path,))


def fitted_to(found: "ModelFile", n_rows: int) -> dict[str, int]:
    """Return how many rows of a file that was shown to it a model was fitted to, where known."""
    if not hasattr(found.model, "network_"):
        return {"rows fitted to": n_rows}  # a stream is learned from whole
    rows = found.provenance.get("rows")
    return {"rows fitted to": rows} if type(rows) is int else {}


def fitted_words(found: "ModelFile", n_rows: int) -> str:
    """Say how many of these rows, of a file that was shown to it, a model was fitted to."""
    rows = fitted_to(found, n_rows).get("rows fitted to")
    aside = found.provenance.get("test rows")
    total = n_rows if rows is None or type(aside) is not int else rows + aside
    if rows is None:
        return "this is the file that the model was fitted to"
    if rows == total:
        return "all of these rows were fitted to"
    these = "these rows" if total == n_rows else f"the {total:,} rows of this file"
    return f"of {these} {rows:,} were fitted to"


def held_out(found: "ModelFile") -> dict[str, float]:
    """Return what `fit` measured on the rows that it kept aside, if it did."""
    origin = found.provenance
    keys = {"rows": "test rows", "accuracy": "test accuracy", "R²": "test R²"}
    measured = {key: origin.get(name) for key, name in keys.items()}
    return {key: value for key, value in measured.items() if is_number(value)}


def rows_of(
    found: "ModelFile", path: Path, table: "Table", most: int | None = None
) -> tuple[NDArray, NDArray | None]:
    """Return inputs and, where they are there, targets of a data file."""
    encoder = encoder_of(found, path)
    encoder.ignored(table)
    labelled = encoder.target.name in table.names
    X, y = [], []
    for chunk in table.chunks():
        X.append(encoder.transform(chunk))
        if labelled:
            y.append(encoder.targets(chunk, new_classes=True))
        if most is not None and sum(map(len, X)) >= most:
            break
    inputs = np.concatenate(X)[:most]
    return inputs, np.concatenate(y)[:most] if labelled else None


def facts(found: "ModelFile", path: Path) -> dict[str, Any]:
    """Return what a model is, in short."""
    model, origin = found.model, found.provenance
    result: dict[str, Any] = {"file": str(path), "bytes": path.stat().st_size}
    result |= {"kind": type(model).__name__, "preset": model.preset, "made by": origin.get("dirad")}
    shown = origin.get("data")
    if isinstance(shown, list):
        files = [entry for entry in shown if isinstance(entry, dict)]
        texts = [f"{f.get('file')}, sha256 {f.get('sha256')}" for f in files]
        result["data"] = texts
    if found.encoder is not None:
        result["target"] = encoder_of(found, path).target.name
    if hasattr(model, "classes_"):
        result["classes"] = model.classes_.tolist()
    result["inputs"] = model.n_features_in_
    if hasattr(model, "network_"):
        result |= {
            "inputs used": int(np.count_nonzero(model.feature_importances_)),
            "edges": model.n_edges_,
            "hidden nodes": model.n_hidden_,
            "steps": model.n_steps_,
            "finished": model.is_stable_,
        }
    result["parameters"] = model.n_parameters_
    return result | {key: origin[key] for key in MEASURED if key in origin}


def columns(encoder: "Encoder") -> list[dict[str, Any]]:
    """Return how each column of a data file becomes inputs."""
    return [
        {
            "column": field.name,
            "kind": field.kind,
            "becomes": list(field.feature_names()),
            "missing values become": field.fill,
        }
        for field in encoder.inputs
    ]


def folded(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of `columns`, with long runs of number columns cut short."""
    result: list[dict[str, Any]] = []
    for kind, some in groupby(rows, key=lambda row: row["kind"]):
        run = list(some)
        if kind == "number" and len(run) > ALIKE:
            rest = run[FIRST:]
            filled = any(row["missing values become"] is not None for row in rest)
            more = {
                "column": f"… {rest[-1]['column']}: {len(rest):,} more",
                "kind": kind,
                "becomes": "itself, each",
                "missing values become": "its median, each" if filled else None,
            }
            run = [*run[:FIRST], more]
        result += run
    return result


def input_rows(found: "ModelFile", path: Path) -> list[dict[str, Any]]:
    """Return every number that a model takes, in order."""
    if found.encoder is None:
        names = names_of(found, path) or [f"x{i}" for i in range(found.model.n_features_in_)]
        return [{"place": place, "input": name} for place, name in enumerate(names)]
    meanings = {"number": "the number", "boolean": "1 if true, else 0"}
    inputs = [
        {
            "input": name,
            "holds": f"1 if {field.name} is {field.categories[i]!r}, else 0"
            if field.categories
            else meanings[field.kind],
            "missing values become": field.fill
            if not field.categories or field.fill is None
            else int(field.fill == field.categories[i]),
        }
        for field in encoder_of(found, path).inputs
        for i, name in enumerate(field.feature_names())
    ]
    return [{"place": place} | row for place, row in enumerate(inputs)]


def inputs_note(found: "ModelFile", path: Path) -> str:
    """Return what an export leaves to whoever calls it."""
    if found.encoder is None:
        return ""
    fields = encoder_of(found, path).inputs
    if all(field.kind == "number" and field.fill is None for field in fields):
        return ""
    filled = any(field.fill is not None for field in fields)
    how = "categories as 0 or 1" + (", missing values filled" if filled else "")
    numbers = f"It takes {found.model.n_features_in_} numbers: {how}."
    return f"{numbers} dirad inspect {path} --inputs lists them, in order."


def meaning(model: Any) -> str:
    """Return what the outputs of the equations stand for."""
    notes = []
    if hasattr(model, "classes_"):
        classes = model.classes_.tolist()
        if model.network_.n_outputs == 1:
            notes.append(f"y0 is the probability of {classes[1]}.")
        else:
            notes.append("; ".join(f"y{i}: {name}" for i, name in enumerate(classes)) + ".")
    if model.n_hidden_:
        notes.append("σ₁(z; K) = 4/(1 + e^(−K·z)) − 1 is how strongly a node lets through.")
    return " ".join(notes)


def important(model: Any, names: Sequence[str] | None) -> list[dict[str, Any]]:
    """Return the inputs whose slopes are largest."""
    shares = model.feature_importances_
    names = names or [f"x{i}" for i in range(len(shares))]
    best = np.argsort(-shares, kind="stable")[:IMPORTANT]
    return [{"input": names[i], "importance": float(shares[i])} for i in best if shares[i] > 0]
