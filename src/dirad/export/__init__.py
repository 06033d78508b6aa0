"""Exports of a fitted model: C, ONNX, a stand-alone Python module, formulas, drawings."""

from dirad.export.c import c_size, fixed_bound, to_c
from dirad.export.c_source import CSize
from dirad.export.compact import Compacted, CompactNetwork, compact_source, to_compact
from dirad.export.drawing import to_dot, to_svg
from dirad.export.fixed_point import Fixed
from dirad.export.formula import Formula, formula_text, to_formula
from dirad.export.onnx import to_onnx
from dirad.export.python import to_python

__all__ = [
    "CSize",
    "CompactNetwork",
    "Compacted",
    "Fixed",
    "Formula",
    "c_size",
    "compact_source",
    "fixed_bound",
    "formula_text",
    "to_c",
    "to_compact",
    "to_dot",
    "to_formula",
    "to_onnx",
    "to_python",
    "to_svg",
]
