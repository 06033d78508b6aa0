"""The command line: arguments -> experiments -> tables, files and pictures. No maths."""

from dirad.cli import continual, demo, growing  # the commands: each registers itself
from dirad.cli.app import app, main, run

__all__ = ["app", "continual", "demo", "growing", "main", "run"]
