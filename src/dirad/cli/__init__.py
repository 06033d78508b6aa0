"""The command line: arguments -> models and experiments -> tables, files, pictures. No maths."""

from dirad.cli import (
    alarms,
    compare,
    continual,
    demo,
    growing,
    learning,
    scale,
    showing,
    stream,
)  # the commands: each registers itself
from dirad.cli.app import app, main, run

__all__ = [
    "alarms",
    "app",
    "compare",
    "continual",
    "demo",
    "growing",
    "learning",
    "main",
    "run",
    "scale",
    "showing",
    "stream",
]
