"""The directive `fields`: a table of the fields of a class, from the remarks beside them."""

import ast
import importlib
import inspect
import io
import textwrap
import tokenize
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

HEADING = "--- "  # how a remark begins that is a heading of the fields below it


class Fields(SphinxDirective):
    """``{fields} dirad.Params`` with ``:presets: dirad.params.PRESETS``, whose values are shown."""

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {"presets": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        """Return the table; the file of the class is a source of the page."""
        cls = named(self.arguments[0])
        self.env.note_dependency(inspect.getfile(cls))
        presets = named(self.options["presets"]) if "presets" in self.options else {}
        return self.parse_text_to_nodes(table(cls, presets))


def named(path: str) -> Any:
    """Return what stands in a module under a name."""
    module, name = path.rsplit(".", 1)
    return getattr(importlib.import_module(module), name)


def table(cls: type, presets: dict[str, Any]) -> str:
    """Return the fields of a class as a Markdown table: name, value in each preset, remark."""
    head = ["name", *(f"`{name}`" for name in presets), "meaning"]
    lines = [row(head), row(["---"] * len(head))]
    for name, remark in remarks(cls):
        if name is None:
            lines.append(row([f"**{remark}**", *([""] * (len(head) - 1))]))
        else:
            values = [value(getattr(preset, name)) for preset in presets.values()]
            lines.append(row([f"`{name}`", *values, remark.replace("|", "\\|")]))
    return "\n".join(lines)


def row(cells: list[str]) -> str:
    """Return a line of a Markdown table."""
    return "| " + " | ".join(cells) + " |"


def value(given: Any) -> str:
    """Return a value as one would write it; of a value with fields only its kind."""
    if hasattr(given, "__dataclass_fields__"):
        return type(given).__name__
    return f"`{given:_}`" if type(given) is int else f"`{given!r}`"


def remarks(cls: type) -> list[tuple[str | None, str]]:
    """Return the name and the remark of each field in order; headings have no name."""
    source = textwrap.dedent(inspect.getsource(cls))
    comments = {
        token.start[0]: token.string.removeprefix("#").strip()
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    body = ast.parse(source).body[0]
    assert isinstance(body, ast.ClassDef)
    fields = [
        (node.lineno, node.end_lineno or node.lineno, node.target.id)
        for node in body.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    ]
    last = fields[-1][1]
    headings = [
        (line, None, text.removeprefix(HEADING))
        for line, text in comments.items()
        if text.startswith(HEADING) and line < last
    ]
    found = [(line, name, comments.get(end, "")) for line, end, name in fields]
    ordered = sorted([*headings, *found], key=lambda entry: entry[0])
    return [(name, remark) for _, name, remark in ordered]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("fields", Fields)
    return {"parallel_read_safe": True}
