"""The command line: arguments -> models and streams -> tables, files, pictures. No maths."""

from dirad.cli import (
    demo,
    export,
    features,
    fit,
    inspection,
    learn,
    predict,
    report,
    serve,
    stream,
    tail,
)  # the commands: each registers itself
from dirad.cli.app import app, main, run

__all__ = [
    "app",
    "demo",
    "export",
    "features",
    "fit",
    "inspection",
    "learn",
    "main",
    "predict",
    "report",
    "run",
    "serve",
    "stream",
    "tail",
]
