"""Exports of a fitted model: C, libraries for boards, ONNX, Python, formulas, drawings."""

from dirad.export.arduino import to_arduino
from dirad.export.c import c_size, fixed_bound, rerouted_share, to_c
from dirad.export.c_source import CSize
from dirad.export.compact import Compacted, CompactNetwork, compact_source, to_compact
from dirad.export.drawing import to_dot, to_svg
from dirad.export.fixed_point import Fixed
from dirad.export.formula import Formula, formula_text, to_formula
from dirad.export.learner import to_c_learner
from dirad.export.library import write_library
from dirad.export.onnx import to_onnx
from dirad.export.python import to_python
from dirad.export.zephyr import to_zephyr

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
    "rerouted_share",
    "to_arduino",
    "to_c",
    "to_c_learner",
    "to_compact",
    "to_dot",
    "to_formula",
    "to_onnx",
    "to_python",
    "to_svg",
    "to_zephyr",
    "write_library",
]
