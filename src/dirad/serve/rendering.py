"""Reports and exports of a stream's models, made in a process of their own."""

import logging
import tempfile
from pathlib import Path
from typing import Any

from dirad.serve.children import Answer, Handler
from dirad.storage.model_file import read_bytes

FORMATS = {  # of exports: the type of the content, and the ending of a file's name
    "c": ("text/x-c; charset=utf-8", "h"),
    "onnx": ("application/octet-stream", "onnx"),
    "python": ("text/x-python; charset=utf-8", "py"),
    "formula": ("text/plain; charset=utf-8", "tex"),
    "dot": ("text/vnd.graphviz; charset=utf-8", "dot"),
    "svg": ("image/svg+xml", "svg"),
    "dirad": ("application/octet-stream", "dirad"),
}

log = logging.getLogger("dirad.serve")


def rendering_handler() -> Handler:
    """Return the handler of the process that makes reports and exports."""
    return render


def render(head: dict[str, Any], body: bytes) -> Answer:
    """Return the report or an export of a model, whose state is the body."""
    try:
        return _rendered(head, body)
    except (OSError, RuntimeError) as error:  # a program or package that is missing
        log.warning("a report or export failed: %s", error)
        raise ValueError(f"{type(error).__name__} on the server, which has logged it") from None


def _rendered(head: dict[str, Any], body: bytes) -> Answer:
    file = read_bytes(body)
    model, names = file.model, head["names"]
    if head["do"] == "report":
        from dirad.report.page import write_page

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "report.html"
            write_page(model, path, input_names=names, title=head["title"])
            return {}, path.read_bytes()
    from dirad import export

    if any(one.phase != "stable" for one in model.models_):
        model.finish()  # of this copy; the stream goes on learning
    to, number = head["to"], head["number"]
    if to == "c":
        content = export.to_c(model, name="model")
    elif to == "onnx":
        content = export.to_onnx(model)
    elif to == "python":
        content = export.to_python(model)
    elif to == "formula":
        content = export.to_formula(model, number=number).latex() + "\n"
    else:
        content = (export.to_dot if to == "dot" else export.to_svg)(model, number=number)
    return {}, content.encode() if isinstance(content, str) else content
