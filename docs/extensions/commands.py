"""The directive `commands`: the help of commands of `dirad`, as sections of a page."""

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from dirad.cli import app as command_line


class Commands(SphinxDirective):
    """The names of commands, one a line; each becomes a section."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return a section per command."""
        names = [line.strip() for line in self.content if line.strip()]
        text = "\n\n".join(described(name) for name in names)
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def described(name: str) -> str:
    """Return the help of a command in Markdown, its heading of the third level."""
    text = command_line[name].generate_docs(output_format="markdown", heading_level=3)
    text = text.replace(f"### {name}\n", f"### dirad {name}\n", 1)
    text = text.replace(f"```console\n{name} ", f"```text\ndirad {name} ", 1)
    text = re.sub(r"^```$\n(?=dirad )", "```sh\n", text, flags=re.MULTILINE)
    return text.replace("**Parameters**:", "")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True}
