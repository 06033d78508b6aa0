"""The command `dirad report`: a model as one HTML page."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from dirad.cli.app import TALKATIVE, Output, Usage, app, spinner
from dirad.cli.files import (
    check_output,
    encoder_of,
    is_number,
    names_of,
    open_data,
    require_begun,
    rows_fitted_note,
    rows_of,
    was_fitted_to,
)
from dirad.cli.options import DETECTED, ModelPath, OutputFile, Reading
from dirad.cli.printing import Findings

if TYPE_CHECKING:
    from dirad.plot.responses import Feature
    from dirad.storage import ModelFile

SAMPLES = 2000  # rows of a data file that a page uses


@app.command
def report(
    model: ModelPath,
    *,
    output: OutputFile = Path("report.html"),
    data: Annotated[
        Path | None, Parameter(help="A data file, whose rows can be chosen on the page.")
    ] = None,
    title: str | None = None,
    shape: Annotated[tuple[int, int] | None, Parameter(negative="")] = None,
    reading: Reading = DETECTED,
    talk: Output = TALKATIVE,
) -> None:
    """Write a page that shows a model: how the network grew, its equations, its states, plots.

    The page is one file and works offline: you can mail it, or keep it beside the model.

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
        The title of the page [default: what the model predicts].
    shape
        If inputs are pixels of images: their rows and columns.
    """
    from dirad.report.page import write_page
    from dirad.storage import read

    check_output(output, model, data)
    found = read(model)
    require_begun(found, model)
    X, y, about = None, None, ""
    if data is not None:
        table = open_data(data, reading)
        X, y = rows_of(found, model, table, most=SAMPLES)
        about = rows_fitted_note(found, len(X)) if was_fitted_to(found, table) else ""
    if shape is not None:
        _check_shape(found.model, shape)
    with spinner(talk, "drawing"):
        write_page(
            found.model,
            output,
            X=X,
            y=y,
            shape=shape,
            input_names=names_of(found, model),
            title=title or _title(found, model),
            about=about,
            held_out=_held_out(found),
            indicators=_indicators(found, model),
        )
    findings = Findings(talk)
    findings.facts("Page", {"file": str(output), "bytes": output.stat().st_size})
    findings.print()


def _check_shape(model: Any, shape: tuple[int, int]) -> None:
    """Refuse the shape of an image whose pixels the inputs cannot be."""
    if shape[0] * shape[1] != model.n_features_in_:
        inputs = f"the model has {model.n_features_in_} inputs"
        raise Usage(f"--shape {shape[0]} {shape[1]}: {inputs}")
    encoding = getattr(model, "encoding_", None)
    if encoding is not None and not encoding.is_identity:
        raise Usage("--shape: the model was fitted to missing values, so its inputs are no pixels")


def _indicators(found: "ModelFile", path: Path) -> "list[Feature]":
    """Return which inputs indicate the categories of each column of the data file."""
    from dirad.plot.responses import Feature

    features, place = [], 0
    for field in [] if found.encoder is None else encoder_of(found, path).inputs:
        columns = tuple(range(place, place + len(field.feature_names())))
        place += len(columns)
        if field.kind == "category":
            features.append(Feature(field.name, columns, field.all_categories()))
    return features


def _title(found: "ModelFile", path: Path) -> str:
    if found.encoder is None:
        return path.name
    return f"{encoder_of(found, path).target.name}, from {path.name}"


def _held_out(found: "ModelFile") -> dict[str, float]:
    """Return what `fit` measured on its test rows, if it had any."""
    keys = {"rows": "test rows", "accuracy": "test accuracy", "R²": "test R²"}
    measured = {key: found.provenance.get(name) for key, name in keys.items()}
    return {key: value for key, value in measured.items() if is_number(value)}
