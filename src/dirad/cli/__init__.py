"""The command line: arguments -> models and experiments -> tables, files, pictures. No maths."""

from dirad.cli import (
    alarms,
    compare,
    continual,
    demo,
    export,
    fit,
    growing,
    inspection,
    learn,
    predict,
    report,
    scale,
    stream,
)  # the commands: each registers itself
from dirad.cli.app import app, main, run

__all__ = [
    "alarms",
    "app",
    "compare",
    "continual",
    "demo",
    "export",
    "fit",
    "growing",
    "inspection",
    "learn",
    "main",
    "predict",
    "report",
    "run",
    "scale",
    "stream",
]
