"""Exports of a fitted model: C, ONNX, a stand-alone Python module, formulas, drawings."""

from dirad.export.c import c_size, fixed_bound, rerouted_share, to_c
from dirad.export.c_source import CSize
from dirad.export.drawing import to_dot, to_svg
from dirad.export.fixed_point import Fixed
from dirad.export.formula import Formula, formula_text, to_formula
from dirad.export.learner import to_c_learner
from dirad.export.onnx import to_onnx
from dirad.export.python import to_python

__all__ = [
    "CSize",
    "Fixed",
    "Formula",
    "c_size",
    "fixed_bound",
    "formula_text",
    "rerouted_share",
    "to_c",
    "to_c_learner",
    "to_dot",
    "to_formula",
    "to_onnx",
    "to_python",
    "to_svg",
]
