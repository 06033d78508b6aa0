"""The command `dirad inspect`: what a model file contains."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from cyclopts import Parameter

from dirad.cli.app import TALKATIVE, Flag, Output, Usage, app
from dirad.cli.files import (
    encoder_of,
    model_rows,
    n_rows_fitted,
    names_of,
    network_names_of,
    open_data,
    rows_fitted_note,
    rows_of,
    scores,
    was_fitted_to,
)
from dirad.cli.options import DETECTED, ModelPath, Reading
from dirad.cli.printing import Findings

if TYPE_CHECKING:
    from dirad.storage import ModelFile
    from dirad.tables import Encoder, Table
    from dirad.tables.fields import Input

SHORT = 40  # edges up to which a network is written as equations
IMPORTANT = 10  # inputs that are listed
MAX_EVENTS = 20  # events that are listed
LONG_RUN = 8  # adjacent number columns up to which each has its own line
MEAN = "its mean"  # what missing numbers become, beside an input that tells so
LISTED = 3  # of a longer run, those that have
MEASURED = ("test rows", "test accuracy", "share of the largest class", "test R²", "test RMSE")


@app.command
def inspect(
    model: ModelPath,
    *,
    data: Annotated[
        Path | None, Parameter(help="A data file on which the model is measured.")
    ] = None,
    inputs: Flag = False,
    reading: Reading = DETECTED,
    talk: Output = TALKATIVE,
) -> None:
    """Print what a model file contains: size, accuracy, important inputs, the formula if short.

    ```
    dirad inspect model.dirad
    dirad inspect model.dirad --data test.csv
    dirad inspect model.dirad --inputs    # every number that it takes, in order
    dirad inspect model.dirad --json | jq .Model
    ```

    Parameters
    ----------
    inputs
        List every input with its position, instead of the columns.
    """
    from dirad.storage import read

    found = read(model)
    names = names_of(found, model)
    findings = Findings(talk)
    findings.facts("Model", _facts(found, model))
    if data is not None:
        _add_scores(findings, found, model, open_data(data, reading))
    if inputs:
        findings.table("Inputs", _input_rows(found, model))
    elif found.encoder is not None:
        rows = _column_rows(encoder_of(found, model))
        findings.table("Columns", rows if talk.json else _shortened(rows))
    if hasattr(found.model, "network_"):
        _add_network(findings, found.model, names, network_names_of(found, model))
    else:
        events = [{"what happened": str(event)} for event in found.model.events_]
        findings.table("Models", model_rows(found.model))
        findings.table("Events", events[-MAX_EVENTS:])
    findings.print()


def _facts(found: "ModelFile", path: Path) -> dict[str, Any]:
    """Return a summary of a model file."""
    model, provenance = found.model, found.provenance
    facts: dict[str, Any] = {
        "file": str(path),
        "bytes": path.stat().st_size,
        "kind": type(model).__name__,
        "preset": model.preset,
        "made by": provenance.get("dirad"),
    }
    data = provenance.get("data")
    if isinstance(data, list):
        files = [file for file in data if isinstance(file, dict)]
        facts["data"] = [f"{file.get('file')}, sha256 {file.get('sha256')}" for file in files]
    if found.encoder is not None:
        encoder = encoder_of(found, path)
        facts["target"] = encoder.target.name
        if encoder.time is not None:
            facts |= {"time": encoder.time.name, "learned until": encoder.time.last}
    if hasattr(model, "classes_"):
        facts["classes"] = model.classes_.tolist()
    facts["inputs"] = model.n_features_in_
    if hasattr(model, "network_"):
        facts |= {
            "inputs used": int(np.count_nonzero(model.feature_importances_)),
            "edges": model.n_edges_,
            "hidden nodes": model.n_hidden_,
            "steps": model.n_steps_,
            "finished": model.is_stable_,
        }
    facts["parameters"] = model.n_parameters_
    return facts | {key: provenance[key] for key in MEASURED if key in provenance}


def _add_scores(findings: Findings, found: "ModelFile", path: Path, table: "Table") -> None:
    """Add how good the model is on a data file."""
    X, y = rows_of(found, path, table)
    if y is None:
        raise Usage(f"{table.path} has no column of the target: there is nothing to measure")
    facts: dict[str, Any] = {"rows": len(X)}
    note = ""
    if was_fitted_to(found, table):
        rows = n_rows_fitted(found, len(X))
        facts |= {} if rows is None else {"rows fitted to": rows}
        text = rows_fitted_note(found, len(X))
        note = f"{text[0].upper()}{text[1:]}."
    findings.facts(f"On {table.path}", facts | scores(found.model, X, y, prefix=""), note)


def _add_network(
    findings: Findings,
    model: Any,
    names: Sequence[str] | None,
    network_names: Sequence[str] | None,
) -> None:
    """Add the important inputs of a single network and, if it is short, its formula."""
    from dirad.core.describe import equations
    from dirad.estimators.reading import conditions_of
    from dirad.names import quoted

    findings.table("Inputs that count most", _important(model, names))
    if model.n_edges_ <= SHORT:
        conditions = conditions_of(model, names)
        spread = model.input_spread_
        lines = equations(model.network_, quoted(network_names), spread, conditions)
        findings.table("Formula", [{"equation": line} for line in lines], _meaning(model))


def _column_rows(encoder: "Encoder") -> list[dict[str, Any]]:
    """Return how each column of a data file becomes inputs."""
    return [
        {
            "column": field.name,
            "kind": field.kind,
            "becomes": list(field.feature_names()),
            "missing values become": _replacement(field),
        }
        for field in encoder.inputs
    ]


def _replacement(field: "Input") -> Any:
    """Return what missing values of a column become; None if they are refused."""
    if field.fill is not None or field.missing == "refuse":
        return field.fill
    if field.kind == "category":
        return field.feature_names()[-1] if field.missing == "indicate" else "no category"
    return MEAN


def _shortened(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of `_column_rows`, with long runs of number columns shortened."""
    result: list[dict[str, Any]] = []
    for kind, group in groupby(rows, key=lambda row: row["kind"]):
        run = list(group)
        if kind == "number" and len(run) > LONG_RUN:
            rest = run[LISTED:]
            filled = {row["missing values become"] for row in rest} - {None}
            more = {
                "column": f"… {rest[-1]['column']}: {len(rest):,} more",
                "kind": kind,
                "becomes": "itself, each",
                "missing values become": _of_each(filled),
            }
            run = [*run[:LISTED], more]
        result += run
    return result


def _of_each(filled: set[Any]) -> str | None:
    """Return what missing values of several columns of numbers become."""
    if not filled:
        return None
    return f"{MEAN}, each" if MEAN in filled else "its median, each"


def _input_rows(found: "ModelFile", path: Path) -> list[dict[str, Any]]:
    """Return every number that a model takes, in order."""
    if found.encoder is None:
        names = names_of(found, path) or [f"x{i}" for i in range(found.model.n_features_in_)]
        return [{"place": place, "input": name} for place, name in enumerate(names)]
    rows: list[dict[str, Any]] = []
    for field in encoder_of(found, path).inputs:
        for i, name in enumerate(field.feature_names()):
            holds = "the number" if field.kind == "number" else "1 if true, else 0"
            if field.categories:
                which = _which(field, i)
                holds = f"1 if {field.name} is {which}, else 0"
            fill = _replaced_feature(field, i)
            rows.append(
                {"place": len(rows), "input": name, "holds": holds, "missing values become": fill}
            )
    return rows


def _which(field: "Input", i: int) -> str:
    """Say which category the i-th feature of a column stands for."""
    if i < len(field.categories):
        return repr(field.categories[i])
    return "any other" if field.other and i == len(field.categories) else "missing"


def _replaced_feature(field: "Input", i: int) -> Any:
    """Return what the i-th feature of a column is where the value is missing; None: refused."""
    if field.fill is None and field.missing == "refuse":
        return None
    if not field.categories:
        return "NaN" if field.fill is None else field.fill
    if field.fill is None:
        return int(i == len(field.categories) + field.other)
    return int(field.fill == field.all_categories()[i])


def _important(model: Any, names: Sequence[str] | None) -> list[dict[str, Any]]:
    """Return the inputs to which the outputs are most sensitive."""
    shares = model.feature_importances_
    names = names or [f"x{i}" for i in range(len(shares))]
    best = np.argsort(-shares, kind="stable")[:IMPORTANT]
    return [{"input": names[i], "importance": float(shares[i])} for i in best if shares[i] > 0]


def _meaning(model: Any) -> str:
    """Return what the outputs and the notation of the equations mean."""
    from dirad.core.describe import notation
    from dirad.estimators.reading import conditions_of

    notes = []
    if hasattr(model, "classes_"):
        classes = model.classes_.tolist()
        if model.network_.n_outputs == 1:
            notes.append(f"y0 is the probability of {classes[1]}.")
        else:
            notes.append("; ".join(f"y{i}: {name}" for i, name in enumerate(classes)) + ".")
    network, spread = model.network_, model.input_spread_
    return " ".join([*notes, *notation(network, spread, conditions_of(model))])
