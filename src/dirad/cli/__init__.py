"""The command line: arguments -> experiments -> tables, files and pictures. No maths."""

from dirad.cli import (
    compare,
    continual,
    demo,
    growing,
    stream,
)  # the commands: each registers itself
from dirad.cli.app import app, main, run

__all__ = ["app", "compare", "continual", "demo", "growing", "main", "run", "stream"]
