"""Commands that show what a model file holds, or carry it elsewhere: inspect, export, report."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from cyclopts import Parameter
from numpy.typing import NDArray

from dirad.cli.app import TALKATIVE, Output, Usage, app, spinner
from dirad.cli.learning import (
    FOUND_OUT,
    MaybeOut,
    ModelPath,
    OutFile,
    Reading,
    check_place,
    encoder_of,
    model_rows,
    opened,
    scores,
)
from dirad.cli.printing import Findings

if TYPE_CHECKING:
    from dirad.storage import ModelFile
    from dirad.tables import Encoder

SHORT = 40  # edges up to which a network is written as equations
IMPORTANT = 10  # inputs that are named
MEASURED = ("test rows", "test accuracy", "share of the largest class", "test R²", "test RMSE")
SAMPLES = 2000  # rows of a data file that a page measures on

Target = Literal["c", "onnx", "python", "formula", "dot", "svg"]


@app.command
def inspect(
    model: ModelPath,
    *,
    data: Annotated[Path | None, Parameter(help="A data file to measure the model on.")] = None,
    reading: Reading = FOUND_OUT,
    talk: Output = TALKATIVE,
) -> None:
    """Tell what a model file holds: size, accuracy, the inputs that count, the formula if short.

    ```
    dirad inspect model.dirad
    dirad inspect model.dirad --data test.csv
    dirad inspect model.dirad --json | jq .Model
    ```
    """
    from dirad.storage import read

    found = read(model)
    names = names_of(found, model)
    findings = Findings(talk)
    findings.facts("Model", facts(found, model))
    if data is not None:
        X, y = rows_of(found, model, data, reading)
        if y is None:
            raise Usage(f"{data} has no column of the target: there is nothing to measure")
        findings.facts(f"On {data}", {"rows": len(X)} | scores(found.model, X, y, prefix=""))
    if found.encoder is not None:
        findings.table("Columns", columns(encoder_of(found, model)))
    if hasattr(found.model, "network_"):
        findings.table("Inputs that count most", important(found.model, names))
        if found.model.n_edges_ <= SHORT:
            equations = found.model.network_.equations(names)
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
    name: str = "model",
    fixed: Literal[16, 32] | None = None,
    low: float | None = None,
    high: float | None = None,
    number: int | None = None,
    talk: Output = TALKATIVE,
) -> None:
    """Carry a model out of Python: C for a device, ONNX, a Python module, a formula, a drawing.

    Every export computes what the model computes: scaling is part of it.

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
        In C: what the functions begin with.
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
    from dirad.storage import read

    found = read(model)
    one = found.model
    if output is not None:
        check_place(output)
    if any(m.phase != "stable" for m in getattr(one, "models_", ())):
        raise Usage(f"{model} still learns: dirad learn {model} --finish brings it to an end")
    names = names_of(found, model)
    if names is not None:
        one.feature_names_in_ = np.array(names, object)
    if fixed is not None and to != "c":
        raise Usage(f"--fixed is for C, not for {to}")
    if number is not None and to not in ("formula", "dot", "svg"):
        raise Usage(f"--number chooses what is drawn or written as a formula, not for {to}")
    point = None
    if fixed is not None:
        point = exports.Fixed(fixed, *ranges(found, low, high))
    facts: dict[str, Any] = {}
    if to == "c":
        content: str | bytes = exports.to_c(one, name=name, fixed=point)
        size = exports.c_size(one, fixed=point)
        facts = {"flash, bytes": size.flash, "RAM, bytes": size.ram}
        if point is not None and hasattr(one, "network_"):
            facts["largest error"] = exports.fixed_bound(one, point)
    elif to == "onnx":
        if output is None:
            raise Usage("--to onnx needs a file: --output model.onnx")
        content = exports.to_onnx(one)
    elif to == "python":
        content = exports.to_python(one)
    elif to == "formula":
        content = exports.to_formula(one, number=number).latex() + "\n"
    else:
        draw = exports.to_dot if to == "dot" else exports.to_svg
        content = draw(one, number=number)
    raw = content.encode() if isinstance(content, str) else content
    if output is None:
        sys.stdout.buffer.write(raw)
        return
    with replacing(output) as part:
        part.write_bytes(raw)
    findings = Findings(talk)
    findings.facts(
        "Export", {"file": str(output), "bytes": len(raw)} | facts, inputs_note(found, model)
    )
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

    check_place(output)
    found = read(model)
    X = y = None
    if data is not None:
        X, y = rows_of(found, model, data, reading, most=SAMPLES)
    if shape is not None and shape[0] * shape[1] != found.model.n_features_in_:
        raise Usage(f"--shape {shape[0]} {shape[1]}: there are {found.model.n_features_in_} inputs")
    target = (found.encoder or {}).get("target", {}).get("name")
    with spinner(talk, "drawing"):
        write_page(
            found.model, output, X=X, y=y, shape=shape, input_names=names_of(found, model),
            title=title or (f"{target}, from {model.name}" if target else model.name),
        )  # fmt: skip
    findings = Findings(talk)
    findings.facts("Page", {"file": str(output), "bytes": output.stat().st_size})
    findings.print()


# ------------------------------------------------------------------ what they share


def names_of(found: "ModelFile", path: Path) -> list[str] | None:
    """Return what the inputs are called, if anybody named them."""
    if found.encoder is not None:
        names = list(encoder_of(found, path).feature_names)
        if len(names) != found.model.n_features_in_:
            raise Usage(f"{path}: {len(names)} names for {found.model.n_features_in_} inputs")
        return names
    own = getattr(found.model, "feature_names_in_", None)
    return None if own is None else [str(name) for name in own]


def ranges(found: "ModelFile", low: float | None, high: float | None) -> tuple[Any, Any]:
    """Return the range of the inputs: as said, or as `fit` saw it, or else from 0 to 1."""
    seen = found.provenance
    if low is None and high is None and "low" in seen and "high" in seen:
        return seen["low"], seen["high"]
    return 0.0 if low is None else low, 1.0 if high is None else high


def rows_of(
    found: "ModelFile", path: Path, data: Path, reading: Reading, most: int | None = None
) -> tuple[NDArray, NDArray | None]:
    """Return inputs and, where they are there, targets of a data file."""
    from dirad.tables import Encoder

    if found.encoder is None:
        raise Usage(
            f"{path} was not made from a data file: nobody knows what its inputs are called"
        )
    encoder, table = Encoder.from_json(found.encoder), opened(data, reading)
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
        result["target"] = found.encoder["target"]["name"]
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


def inputs_note(found: "ModelFile", path: Path) -> str:
    """Return what an export leaves to whoever calls it."""
    if found.encoder is None:
        return ""
    fields = encoder_of(found, path).inputs
    if all(field.kind == "number" and field.fill is None for field in fields):
        return ""
    return (
        f"It takes {found.model.n_features_in_} numbers: categories as 0 or 1, missing values "
        f"filled. dirad inspect {path} lists them under Columns."
    )


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
