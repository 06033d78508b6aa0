"""The command line: arguments -> models and streams -> tables, files, pictures. No maths."""

from dirad.cli import demo, learning, showing, stream  # the commands: each registers itself
from dirad.cli.app import app, main, run

__all__ = ["app", "demo", "learning", "main", "run", "showing", "stream"]
