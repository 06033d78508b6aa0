"""Data files and model files as commands use them: opened and checked before any computation."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from dirad.atomic import destination
from dirad.cli.app import Output, Usage
from dirad.cli.options import Reading
from dirad.cli.printing import notice

if TYPE_CHECKING:
    from dirad.storage import ModelFile
    from dirad.tables import Encoder, Table

MAX_IGNORED = 5  # ignored columns that are named


def open_data(data: Path, reading: Reading) -> "Table":
    """Return a data file as a table."""
    from dirad.tables import open_table

    return open_table(data, **vars(reading))


def rows_of(
    found: "ModelFile", path: Path, table: "Table", most: int | None = None
) -> tuple[NDArray, NDArray | None]:
    """Return the inputs of a data file and, if it has that column, the targets."""
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


def tell_ignored(encoder: "Encoder", table: "Table", talk: Output) -> None:
    """Print which columns of a table the model does not use."""
    ignored = encoder.ignored(table)
    if ignored:
        more = " and others" if len(ignored) > MAX_IGNORED else ""
        names = ", ".join(ignored[:MAX_IGNORED]) + more
        notice(talk, f"ignored columns of {table.path}: {names}")


def ordered(table: "Table", encoder: "Encoder", talk: Output) -> "Table":
    """Return a table in order of time, if the encoder knows a column of times."""
    from dirad.tables import in_time_order

    if encoder.time is None:
        return table
    table.require(encoder.time.name)
    result = in_time_order(table, encoder.time)
    if result is not table:
        name = encoder.time.name
        notice(talk, f"the rows of {table.path} are not in order of {name}: they are sorted")
    return result


def encoder_of(found: "ModelFile", path: Path) -> "Encoder":
    """Return the encoder stored with a model, after checking that it fits the model."""
    from dirad.storage import ModelError
    from dirad.tables import Encoder

    if found.encoder is None:
        raise Usage(
            f"{path} was made in Python, not from a data file, so its columns are not known: "
            f"dirad.load({str(path)!r}) loads the model there"
        )
    try:
        encoder = Encoder.from_json(found.encoder)
    except OverflowError as error:
        raise ModelError(f"{path}: not a valid encoder: a number is too large") from error
    except ValueError as error:
        raise ModelError(f"{path}: {error}") from error
    problem = _mismatch(encoder, found.fitted)
    if problem:
        raise ModelError(f"{path}: its columns do not fit its model ({problem})")
    return encoder


def _mismatch(encoder: "Encoder", model: Any) -> str:
    """Say why an encoder cannot belong to a saved model; empty if it can."""
    classes = getattr(model.answers, "classes_", None)
    names, target = encoder.feature_names, encoder.target
    if len(names) != model.n_features_in_:
        return f"{len(names)} names for {model.n_features_in_} inputs"
    if (target.task == "regression") == (classes is not None):
        return f"{target.task}, by a {model.estimator}"
    kind = {"number": int, "boolean": bool, "category": str}[target.kind]
    if classes is not None and any(type(label) is not kind for label in classes.tolist()):
        return f"other classes than {target.kind}"
    return ""


def names_of(found: "ModelFile", path: Path) -> list[str] | None:
    """Return the names of the inputs, if they have any."""
    if found.encoder is not None:
        return list(encoder_of(found, path).feature_names)
    names = getattr(found.model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def network_names_of(found: "ModelFile", path: Path) -> list[str] | None:
    """Return the names of the inputs of a single network, if they have any.

    They are those of the model's inputs, and those of what it derives from them: whether a value
    is missing, or whether it is a category.
    """
    from dirad.estimators.columns import column_names, encoding_of

    names, encoding = names_of(found, path), encoding_of(found.model)
    if encoding is None or encoding.is_identity:
        return names
    return list(encoding.names(names or column_names(found.model)))


def was_fitted_to(found: "ModelFile", table: "Table") -> bool:
    """Return whether the model was fitted to exactly this file, possibly among others."""
    from dirad.tables import digest

    recorded = found.provenance.get("data")
    files = recorded if isinstance(recorded, list) else []
    known = [file.get("sha256") for file in files if isinstance(file, dict)]
    return bool(known) and all(digest(path) in known for path in table.files or (table.path,))


def n_rows_fitted(found: "ModelFile", n_rows: int) -> int | None:
    """Return how many of the `n_rows` rows of its own data a model was fitted to, if known."""
    if not hasattr(found.model, "network_"):
        return n_rows  # a continual model learns from all rows
    rows = found.provenance.get("rows")
    return rows if type(rows) is int else None


def rows_fitted_note(found: "ModelFile", n_rows: int) -> str:
    """Say how many of these rows, from its own data, a model was fitted to."""
    rows = n_rows_fitted(found, n_rows)
    if rows is None:
        return "this is the file that the model was fitted to"
    n_test = found.provenance.get("test rows")
    total = rows + n_test if type(n_test) is int else n_rows
    if rows == total:
        return "the model was fitted to all of these rows"
    these = "these rows" if total == n_rows else f"the {total:,} rows of this file"
    return f"the model was fitted to {rows:,} of {these}"


def stored_ranges(found: "ModelFile", path: Path) -> tuple[list[float], list[float]] | None:
    """Return the lowest and highest value of each input in the data fitted to, if it is stored."""
    from dirad.storage import ModelError

    seen = found.provenance
    if "low" not in seen or "high" not in seen:
        return None
    lows, highs = seen["low"], seen["high"]
    if not (
        all(isinstance(ends, list) and all(map(is_number, ends)) for ends in (lows, highs))
        and len(lows) == len(highs) == found.model.n_features_in_
        and all(low <= high for low, high in zip(lows, highs, strict=True))
    ):
        why = "the ranges of its inputs are not valid: give others by --low and --high"
        raise ModelError(f"{path}: {why}")
    return lows, highs


def scores(model: Any, X: NDArray, y: NDArray, prefix: str = "test ") -> dict[str, float]:
    """Return how good a model is on these rows, and what always guessing one class would give."""
    if not len(X):
        return {}
    if not hasattr(model, "classes_"):
        error = model.predict(X) - y
        return {
            f"{prefix}R²": float(model.score(X, y)) if len(X) > 1 else float("nan"),
            f"{prefix}RMSE": float(np.sqrt(np.mean(error**2))),
        }
    largest = float(np.unique(y, return_counts=True)[1].max() / len(y))
    return {f"{prefix}accuracy": float(model.score(X, y)), "share of the largest class": largest}


def model_rows(model: Any) -> list[dict[str, Any]]:
    """Return a table row for each model of a continual model."""
    rows = []
    for one in model.models_:
        row = {"model": one.number, "phase": "stable" if one.phase == "stable" else "learning"}
        if hasattr(model, "classes_"):
            row["classes"] = ", ".join(str(model._state.labels[code]) for code in one.classes)
        rows.append(row | {"edges of L0": one.network.n_edges, "numbers kept": one.n_parameters})
    return rows


def require_begun(found: "ModelFile", path: Path) -> None:
    """Refuse a continual model that has not learned anything yet."""
    stream = getattr(found.fitted, "_stream", None)
    if stream is not None and not stream.system.models:
        raise Usage(
            f"{path} has no model yet: {len(stream.waiting[0])} rows wait for a batch of "
            f"{stream.system.settings.l0.batch_size}; dirad learn {path} --finish learns them"
        )


def is_number(value: Any) -> TypeGuard[float]:
    """Return whether a value from a file is a number that a float can represent."""
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def check_output(output: Path, *inputs: Path | None) -> None:
    """Refuse an output file that cannot be written, or that is also an input."""
    try:
        destination(output)
    except OSError as error:
        raise Usage(f"--output {output}: {error.strerror}") from None
    check_not_input(output, *inputs)


def check_not_input(output: Path, *inputs: Path | None) -> None:
    """Refuse an output file that is also an input."""
    for path in inputs:
        if path is not None and output.exists() and path.exists() and output.samefile(path):
            raise Usage(f"--output {output}: this file is an input; choose another name")
