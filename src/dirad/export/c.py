"""A model as one C99 header: in float, or in fixed point with a bound on the error."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dirad.estimators import PREVALClassifier
from dirad.estimators.columns import encoding_of
from dirad.export.c_fixed import fixed_parts
from dirad.export.c_fixed_system import fixed_system_parts
from dirad.export.c_float import float_parts
from dirad.export.c_source import CSize, Parts, check_name, header, size_of
from dirad.export.exported import Estimator, Exported, exported, scored_program
from dirad.export.fixed_point import Fixed, fixed_program
from dirad.export.fixed_system import FixedModel, fixed_model
from dirad.export.novelty import FALSE_ALARMS
from dirad.export.recalibration import calibrated_by, found_by, routes
from dirad.export.system import finished_models
from dirad.inference import Builder
from dirad.preval.expert import Expert
from dirad.program import OUTPUTS, Block, Program, Sums

LEAST_FLOAT = 1e-37  # smaller numbers are 0 in float
FAR = 1e5  # spreads from 0 at which float resolves only a hundredth of a spread


def to_c(
    model: Estimator,
    *,
    name: str = "model",
    fixed: Fixed | int | None = None,
    false_alarms: float = FALSE_ALARMS,
    calibration: NDArray | None = None,
) -> str:
    """Return a model as a C99 header that uses no memory but the stack.

    It defines ``<name>_predict(x, out)``, which writes the probability of each class or the value
    of each output, for classifiers ``<name>_predict_class(x)``, and for PREVAL systems of several
    models ``<name>_route(x)``. Numbers are float; with `fixed` they are 32-bit integers, and no
    library is needed: ``fixed=16`` stores weights in 16 bits and expects inputs from 0 to 1,
    `Fixed` sets other ranges. Then ``<name>_input(i, value)`` converts a float into an input.

    A PREVAL system also has ``<name>_novelty(x)`` and ``<name>_is_known(x)``: 0 for a share of
    `false_alarms` of samples of known tasks, and for samples of new ones. ``<name>_watch_add`` and
    ``<name>_watch_is_new`` test batches of a stream, in constant memory, at the system's own rate.
    In fixed point, near ties between models may be routed differently. Given samples of known
    tasks that the system has not learned from as `calibration`, (samples, features), what is usual
    is determined from these instead, by errors as the exported model computes them.

    Inputs may be missing if they were in `fit`: in float as ``NAN``, in fixed point as the smallest
    integer, ``<NAME>_MISSING``. Categories are given as numbers. The comment at the top lists both.

    In float, inputs whose mean is a hundred times their spread lose two digits: shift them. A
    model whose inputs float cannot distinguish at all is refused.
    """
    check_name(name)
    whole = exported(model, false_alarms)
    if fixed is None:
        _check_float(_network_programs(model, whole), _spreads(model))
    if calibration is not None:
        if not whole.scored:
            raise ValueError("calibration is for PREVAL systems: a single network has no novelty")
        in_fixed = None if fixed is None else _fixed_models(whole, _as_fixed(fixed))
        whole = calibrated_by(whole, finished_models(model), calibration, in_fixed)
    return header(whole, _parts(whole, fixed), name)


def rerouted_share(model: Estimator, X: NDArray, fixed: Fixed | int = 16) -> float:
    """Return the share of samples that a PREVAL system routes differently in fixed point."""
    whole = exported(model)
    if not whole.scored:
        raise ValueError("a single network has no routes")
    exact, rounded = found_by(whole, X), found_by(whole, X, _fixed_models(whole, _as_fixed(fixed)))
    answered_by = np.array([member.answered_by for member in whole.members])
    return float(np.mean(answered_by[routes(exact)] != answered_by[routes(rounded)]))


def _fixed_models(whole: Exported, fixed: Fixed) -> list[FixedModel]:
    return [fixed_model(member.program, fixed) for member in whole.members]


def c_size(model: Estimator, *, fixed: Fixed | int | None = None) -> CSize:
    """Return the bytes of constants and of scratch that `to_c` needs, without its code.

    >>> from dirad import DIRADRegressor
    >>> X = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]]
    >>> c_size(DIRADRegressor(random_state=0).fit(X, [1, 3, 5, 7, 9, 11]))
    CSize(flash=10, ram=4)
    """
    whole = exported(model)
    return size_of(whole, _parts(whole, fixed))


def fixed_bound(model: Estimator, fixed: Fixed | int = 16) -> float:
    """Return a bound on the error of an output in fixed point, for inputs within their ranges."""
    whole = exported(model)
    if whole.scored:
        raise ValueError(
            "a PREVAL system chooses between models, so that rounding has no bound: near ties may "
            "go to another model; rerouted_share tells of how many samples"
        )
    return fixed_program(whole.members[0].program, _as_fixed(fixed)).error


def _spreads(model: Estimator) -> NDArray[np.float64]:
    """Return the standard deviation of each input, where it was learned."""
    if not isinstance(model, PREVALClassifier):
        return model.input_spread_
    scalings = [one.evaluator.scaling for one in model.models_ if isinstance(one, Expert)]
    if not scalings:  # the paper's models do not scale inputs
        return np.ones(model.models_[0].network.n_inputs)
    return np.max([scaling.spread for scaling in scalings], axis=0)


def _network_programs(model: Estimator, whole: Exported) -> list[Program]:
    """Return the programs over the inputs of the networks, without the encoding of columns."""
    encoding = encoding_of(model)
    if encoding is None or encoding.is_identity:
        return [member.program for member in whole.members]
    if isinstance(model, PREVALClassifier):
        return [scored_program(one) for one in finished_models(model)]
    builder = Builder(model.network_.n_inputs)
    return [builder.program({OUTPUTS: builder.attach(model.network_, builder.inputs).outputs})]


def _check_float(programs: Sequence[Program], spreads: NDArray[np.float64]) -> None:
    """Refuse a model whose inputs are too small, or too far from 0, for numbers of 24 bits."""
    for program in programs:
        for step in program.steps:
            for sums in step.sums if isinstance(step, Block) else ():
                if not _fits_float(sums, spreads):
                    raise ValueError(
                        "float cannot distinguish the inputs of this model: they are too small, "
                        f"too large, or lie more than {FAR:,.0f} times their spread from 0; "
                        "rescale or shift them before fitting, or export to Python or ONNX"
                    )


def _fits_float(sums: Sums, spreads: NDArray[np.float64]) -> bool:
    """Are all weights and spreads of inputs large enough, and no bias too large for them?"""
    of_input = sums.source < len(spreads)
    weight, spread = np.abs(sums.weight[of_input]), spreads[sums.source[of_input]]
    smaller = np.minimum(weight, spread)
    reach = np.bincount(sums.row[of_input], weight * spread, minlength=len(sums))
    too_small = (smaller > 0) & (smaller < LEAST_FLOAT)
    too_far = (reach > 0) & (np.abs(sums.bias) > FAR * reach)
    return not (too_small.any() or too_far.any())


def _as_fixed(fixed: Fixed | int) -> Fixed:
    return fixed if isinstance(fixed, Fixed) else Fixed(bits=fixed)


def _parts(whole: Exported, fixed: Fixed | int | None) -> Parts:
    if fixed is None:
        return float_parts(whole)
    chosen = _as_fixed(fixed)
    if whole.scored:
        return fixed_system_parts(whole, _fixed_models(whole, chosen), chosen)
    return fixed_parts(whole, chosen)
