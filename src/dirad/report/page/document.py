"""The page: one HTML file that loads nothing else."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dirad.atomic import replacing
from dirad.plot.responses import Feature
from dirad.report.page.contents import Given, contents
from dirad.report.page.samples import MOST_SAMPLES
from dirad.report.page.stream import matrix_table

HERE = Path(__file__).parent
LIBRARY = "vendor/cytoscape.min.js"
SCRIPTS = ("data", "elements", "theme", "charts", "network", "history", "nodes", "samples", "page")


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
    indicators: Sequence[Feature] = (),
) -> Path:
    """Write one self-contained HTML page about a fitted estimator, and return its path.

    Parameters
    ----------
    model : DIRADClassifier, DIRADRegressor or PREVALClassifier, fitted
    path : str or Path
    X, y : array-like, optional
        Samples as `predict` takes them, on which the page measures accuracy. The page stores up to
        `max_samples` of them, whose states the reader can see in the network.
    title : str, optional
    input_names : sequence of str, optional
        Of the columns of X; by default those of the data that the model was fitted to.
    shape : (rows, columns), optional
        Shape of the image whose pixels the inputs are; not for models of data with gaps.
    tasks : array-like, optional
        The true task, which a PREVALClassifier never saw, of each row of X.
    accuracy_matrix : array-like (tasks, tasks), optional
        Accuracy on each task (column) after each task (row).
    about : str
        A remark beside the accuracy on X, such as whether the model was fitted to X.
    held_out : mapping, optional
        Score on held-out rows: "accuracy" or "R²", and their number as "rows".
    indicators : sequence of Feature
        Columns of X that indicate the categories of one column of a data file.
    """
    given = Given(model, X, y, tasks, shape, about, held_out, indicators)
    written, drawn = contents(model, given, input_names, max_samples)
    if accuracy_matrix is not None:
        written["tables"].append(_accuracy_table(accuracy_matrix))
    scripts = [_read(LIBRARY), *(_read(f"script/{name}.js") for name in SCRIPTS)]
    text = _template().render(
        title=title or f"What the {'models' if len(drawn['models']) > 1 else 'network'} learned",
        kind=type(model).__name__,
        version=version("dirad"),
        style=_read("templates/style.css"),
        scripts=scripts,
        hashes=[_hash(text) for text in scripts],
        data=drawn,
        **written,
    )
    path = Path(path)
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8", newline="\n")
    return path


def _accuracy_table(matrix: ArrayLike) -> dict[str, Any]:
    values = np.asarray(matrix, float)
    if values.ndim != 2:
        raise ValueError(f"an accuracy matrix has rows and columns, got {values.shape}")
    rows = [f"after {i}" for i in range(len(values))]
    caption = "Accuracy on each task (column) after learning each task (row)"
    return matrix_table(caption, values, rows, list(range(values.shape[1])))


def _template() -> Any:
    """Return the page's template: it escapes everything, and its JSON is safe inside a script."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return environment.get_template("page.html")


def _read(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8").strip()


def _hash(script: str) -> str:
    """Return the hash by which the Content Security Policy allows a script."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"'sha256-{digest}'"
