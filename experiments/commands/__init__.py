"""The command line of the experiments: arguments -> runs -> tables, files, pictures."""

from experiments.commands import (
    ablate,
    alarms,
    compare,
    device,
    digits,
    embed,
    missing,
    pairs,
    paper_rules,
    parity,
    reproduce,
    scale,
    shapes,
    streams,
    tabular,
    xor,
)  # the commands: each registers itself
from experiments.commands.app import app, main, run

__all__ = [
    "ablate",
    "alarms",
    "app",
    "compare",
    "device",
    "digits",
    "embed",
    "main",
    "missing",
    "pairs",
    "paper_rules",
    "parity",
    "reproduce",
    "run",
    "scale",
    "shapes",
    "streams",
    "tabular",
    "xor",
]
