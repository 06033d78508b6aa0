"""A model as one C99 header: in float, or in whole numbers with a bound of their error."""

import numpy as np
from numpy.typing import NDArray

from dirad.estimators import PREVALClassifier
from dirad.export.c_fixed import fixed_parts
from dirad.export.c_float import float_parts
from dirad.export.c_source import CSize, Parts, check_name, header, size_of
from dirad.export.exported import Estimator, Exported, exported
from dirad.export.fixed_point import Fixed, fixed_program
from dirad.export.program import Node
from dirad.preval.expert import Expert

LEAST_FLOAT = 1e-37  # smaller numbers are 0 in float
FAR = 1e5  # spreads from 0 at which float has a hundredth of a spread left


def to_c(model: Estimator, *, name: str = "model", fixed: Fixed | int | None = None) -> str:
    """Return a model as a C99 header that takes no memory but the stack.

    It defines ``<name>_predict(x, out)``, which writes the probability of each class or the value
    of each output, for classifiers ``<name>_predict_class(x)``, and for PREVAL systems of several
    models ``<name>_route(x)``. Numbers are float; with `fixed` they are whole numbers of 32 bits,
    and no library is needed: ``fixed=16`` keeps weights in 16 bits and takes inputs from 0 to 1,
    `Fixed` says other ranges. ``<name>_input(i, value)`` turns a float into an input then.

    In float, of inputs whose mean is a hundred times their spread two digits are lost: shift them.
    Where float could not tell the inputs apart at all, they are refused.
    """
    check_name(name)
    whole = exported(model)
    if fixed is None:
        _check_float(whole, _spreads(model))
    return header(whole, _parts(whole, fixed), name)


def c_size(model: Estimator, *, fixed: Fixed | int | None = None) -> CSize:
    """Return the bytes of constants and of scratch that `to_c` needs, its code apart.

    >>> from dirad import DIRADRegressor
    >>> X = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]]
    >>> c_size(DIRADRegressor(random_state=0).fit(X, [1, 3, 5, 7, 9, 11]))
    CSize(flash=10, ram=4)
    """
    whole = exported(model)
    return size_of(whole, _parts(whole, fixed))


def fixed_bound(model: Estimator, fixed: Fixed | int = 16) -> float:
    """Return how far an output in whole numbers may be off, for inputs within their ranges."""
    whole = exported(model)
    return fixed_program(whole.members[0].program, _as_fixed(fixed)).error


def _spreads(model: Estimator) -> NDArray[np.float64]:
    """Return the usual deviation of each input, where it was learned."""
    if not isinstance(model, PREVALClassifier):
        return model.input_spread_
    scalings = [one.evaluator.scaling for one in model.models_ if isinstance(one, Expert)]
    if not scalings:  # the paper's models do not scale inputs
        return np.ones(model.models_[0].network.n_inputs)
    return np.max([scaling.spread for scaling in scalings], axis=0)


def _check_float(whole: Exported, spreads: NDArray[np.float64]) -> None:
    """Refuse a model whose inputs are too small, or too far from 0, for numbers of 24 bits."""
    for member in whole.members:
        for step in member.program.steps:
            for term in step.terms if isinstance(step, Node) else ():
                edges = [(w, spreads[i]) for i, w in term.edges if i < len(spreads)]
                reach = sum(abs(w) * spread for w, spread in edges)
                small = any(0 < min(abs(w), spread) < LEAST_FLOAT for w, spread in edges)
                if small or (reach > 0 and abs(term.bias) > FAR * reach):
                    raise ValueError(
                        "float cannot distinguish the inputs of this model: they are too small, "
                        f"too large, or lie more than {FAR:,.0f} times their spread from 0; "
                        "rescale or shift them before fitting, or export to Python or ONNX"
                    )


def _as_fixed(fixed: Fixed | int) -> Fixed:
    return fixed if isinstance(fixed, Fixed) else Fixed(bits=fixed)


def _parts(whole: Exported, fixed: Fixed | int | None) -> Parts:
    return float_parts(whole) if fixed is None else fixed_parts(whole, _as_fixed(fixed))
