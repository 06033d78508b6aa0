"""The page itself: one HTML file that needs nothing else."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jinja2
from numpy.typing import ArrayLike

from dirad.atomic import replacing
from dirad.plot.matrices import AccuracyMatrixDisplay
from dirad.report.page.contents import Given, contents
from dirad.report.page.samples import MOST_SAMPLES
from dirad.report.page.stream import matrix_table

HERE = Path(__file__).parent
LIBRARY = "vendor/cytoscape.min.js"
SCRIPTS = ("elements", "theme", "charts", "network", "history", "nodes", "samples", "page")


def write_page(
    model: Any,
    path: str | Path,
    *,
    X: Any = None,
    y: Any = None,
    title: str | None = None,
    input_names: Sequence[str] | None = None,
    shape: tuple[int, int] | None = None,
    tasks: ArrayLike | None = None,
    accuracy_matrix: ArrayLike | None = None,
    max_samples: int = MOST_SAMPLES,
    about: str = "",
    held_out: Mapping[str, float] | None = None,
) -> Path:
    """Write one self-contained HTML page about a fitted estimator; return where.

    Parameters
    ----------
    model : DIRADClassifier, DIRADRegressor or PREVALClassifier, fitted
    path : str or Path
    X, y : array-like, optional
        Samples that the page measures accuracy on, and of which some can be picked to see their
        states; some fifty of them are stored in the page.
    title : str, optional
    input_names : sequence of str, optional
        By default those of the data that the model was fitted to.
    shape : (rows, columns), optional
        Of the image whose pixels the inputs are.
    tasks : array-like, optional
        The true task of each row of X, which a PREVALClassifier never knew.
    accuracy_matrix : array-like (tasks, tasks), optional
        Accuracy on each task (column) after each task (row).
    max_samples : int
        Samples stored at most.
    about : str
        What is to be said of X beside its accuracy: whether the model was fitted to it.
    held_out : mapping, optional
        What was measured on rows that the model was not fitted to: "accuracy" or "R²", and "rows".
    """
    text = page(
        model,
        Given(model, X, y, tasks, shape, about, held_out),
        title=title,
        input_names=input_names,
        accuracy_matrix=accuracy_matrix,
        max_samples=max_samples,
    )
    path = Path(path)
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8", newline="\n")
    return path


def page(
    model: Any,
    given: Given,
    *,
    title: str | None = None,
    input_names: Sequence[str] | None = None,
    accuracy_matrix: ArrayLike | None = None,
    max_samples: int = MOST_SAMPLES,
) -> str:
    """Return the page as text."""
    written, drawn = contents(model, given, input_names, max_samples)
    if accuracy_matrix is not None:
        written["tables"].append(_accuracy_table(accuracy_matrix))
    scripts = [_read(LIBRARY), *(_read(f"script/{name}.js") for name in SCRIPTS)]
    return _environment().get_template("page.html").render(
        title=title or f"What the {'models' if len(drawn['models']) > 1 else 'network'} learned",
        kind=type(model).__name__,
        version=version("dirad"),
        style=_read("templates/style.css"),
        scripts=scripts,
        hashes=[_hash(text) for text in scripts],
        data=drawn,
        **written,
    )  # fmt: skip


def _accuracy_table(matrix: ArrayLike) -> dict[str, Any]:
    display = AccuracyMatrixDisplay(matrix)
    rows = [f"after {i}" for i in range(len(display.matrix))]
    caption = "Accuracy on each task (column) after each task (row)"
    return matrix_table(caption, display.matrix, rows, display.task_names)


def _environment() -> jinja2.Environment:
    """Return the templates' environment: everything escaped, JSON safe inside a script element."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return environment


def _read(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8").strip()


def _hash(script: str) -> str:
    """Return what the page's policy calls a script by: nothing else may run."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"'sha256-{digest}'"
