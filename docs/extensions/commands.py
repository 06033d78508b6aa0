"""The directive `commands`: the help of commands, of `dirad` or the experiments, as sections."""

import re
from typing import Any

from cyclopts import App
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from dirad.cli import app as dirad
from experiments.commands import app as experiments

PROGRAMS = {"dirad": dirad, "experiments": experiments}


class Commands(SphinxDirective):
    """``{commands} dirad`` with the names of commands, one per line; each becomes a section."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return a section per command."""
        names = [line.strip() for line in self.content if line.strip()]
        text = "\n\n".join(described(PROGRAMS[self.arguments[0]], name) for name in names)
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def described(program: App, name: str) -> str:
    """Return the help of a command in Markdown, with a heading of the third level."""
    call = f"{program.name[0]} {name}"
    text = program[name].generate_docs(output_format="markdown", heading_level=3)
    text = text.replace(f"### {name}\n", f"### {call}\n", 1)
    text = text.replace(f"```console\n{name} ", f"```text\n{call} ", 1)
    text = re.sub(rf"^```$\n(?={call}\b)", "```sh\n", text, flags=re.MULTILINE)
    return text.replace("**Parameters**:", "")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True}
