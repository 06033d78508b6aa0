"""Networks of small integers for a budget of bytes: quantized, encoded, and written in C."""

from dirad.export.compact.budget import Compacted, TooSmall, to_compact
from dirad.export.compact.evaluate import evaluate, predict
from dirad.export.compact.form import CompactNetwork, Weights
from dirad.export.compact.source import compact_source

__all__ = [
    "CompactNetwork",
    "Compacted",
    "TooSmall",
    "Weights",
    "compact_source",
    "evaluate",
    "predict",
    "to_compact",
]
