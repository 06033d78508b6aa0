"""How Sphinx makes the site: `make docs`."""

import re
import sys
from pathlib import Path

from dirad import __version__

# The extensions, and `experiments`, which is not installed.
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

project = "dirad"
author = "The dirad developers"
release = version = __version__
copyright = author

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "extensions.commands",
    "extensions.fields",
]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
suppress_warnings = ["myst.header"]  # tables that commands write begin where they like

autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_use_rtype = False
napoleon_use_ivar = True
strip_signature_backslash = True  # or attributes lose the underscore at their end
add_module_names = False

html_theme = "furo"
html_title = f"dirad {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
pygments_style = "friendly"
pygments_dark_style = "native"


def setup(app):
    """Prepare docstrings."""
    app.connect("autodoc-skip-member", _skip)
    app.connect("autodoc-process-docstring", _one_attribute_a_line, priority=400)
    app.connect("autodoc-process-docstring", _absolute_values, priority=450)


def _skip(app, what, name, obj, skip, options):
    """Leave out what Python says of the fields of a named tuple: `fields` tells more."""
    return True if type(obj).__name__ == "_tuplegetter" else None


def _one_attribute_a_line(app, what, name, obj, options, lines):
    """Give each of `n_edges_, n_hidden_ : int` a line of its own, as napoleon wants it."""
    several = [re.match(r"^((?:\w+_, )+\w+_)( : .+)?$", line) for line in lines]
    lines[:] = [
        f"{attribute}{found[2] or ''}" if found else line
        for found, line in zip(several, lines, strict=True)
        for attribute in (found[1].split(", ") if found else [line])
    ]


def _absolute_values(app, what, name, obj, options, lines):
    """Keep reStructuredText from taking |x| for a substitution."""
    lines[:] = [line.replace("|", "\\|") if ">>>" not in line else line for line in lines]
