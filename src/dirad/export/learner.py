"""A single network as a C header whose parameters can be adapted on the device, by `dirad.h`."""

from collections.abc import Iterable
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.core.describe import summary
from dirad.core.network import LINEAR, LOGISTIC, OUTPUT, SOFTMAX, TRANSFER, Network
from dirad.estimators import DIRADClassifier, DIRADRegressor
from dirad.estimators.columns import column_names, encoding_of
from dirad.estimators.constants import params_of
from dirad.export.c_source import check_name, text
from dirad.export.exported import Estimator, network_of, output_names
from dirad.inference import levels
from dirad.program import Transfer

LARGEST = 2**15  # edges, units and inputs are numbered by 16 bits
TRANSFERS = {LOGISTIC: "DIRAD_LOGISTIC", LINEAR: "DIRAD_LINEAR", SOFTMAX: "DIRAD_SOFTMAX"}
ENCODINGS = {
    Transfer.FILLED: "DIRAD_FILLED",
    Transfer.MISSING: "DIRAD_MISSING",
    Transfer.EQUALS: "DIRAD_EQUALS",
}

_HEADER = """/* {title}, with parameters that adapt.
 *
 * Made by dirad. Include it in one file, which calls the functions of dirad.h (below) with
 * &{name}. RAM: {parameters} numbers of parameters, {memory} of states, gradients and moments.
 *
 *     dirad_real x[{NAME}_N_INPUTS], y[{NAME}_N_OUTPUTS];
{usage} *     dirad_step(&{name}, 0.003f);   one step, after a batch of samples
 */
#ifndef {NAME}_LEARN_H
#define {NAME}_LEARN_H

{library}
#define {NAME}_N_INPUTS {n_columns}
#define {NAME}_N_OUTPUTS {n_outputs}
#define {NAME}_INPUTS {inputs}
#define {NAME}_{outputs_are} {outputs}

{tables}

static dirad_real {name}_memory[DIRAD_MEMORY({n_inputs}, {n_units}, {n_edges})];

static dirad_network {name} = {{
    {n_inputs}, {n_units}, {n_outputs}, {transfer}, {squared}, {gate_biases},
    {name}_start, {name}_source, {name}_output, {name}_gain,
    {name}_column, {encoding}, {constant}, {name}_mean, {name}_spread, {offset}, {scale},
    {name}_weight, {name}_bias, {name}_memory,
    0, 0, 1, 1, 0
}};

#endif
"""

_OF_CLASSES = """ *     int k = dirad_class(&{name}, x);   the class: its place in {NAME}_CLASSES
 *     dirad_learn_class(&{name}, x, k, y);   learn from a sample of class k
"""
_OF_NUMBERS = """ *     dirad_forward(&{name}, x, y);   the numbers that it predicts
 *     dirad_learn(&{name}, x, y);   learn from a sample whose numbers are y
"""


class LearnerTables(NamedTuple):
    """A network as `dirad.h` takes it: units in the order of computation, inputs standardized."""

    start: NDArray[np.int64]  # (2 · units + 1,) first edge of each term
    source: NDArray[np.int64]  # (edges,)
    output: NDArray[np.int64]  # (units,) column, or -1
    gain: NDArray[np.float64]  # (units,)
    weight: NDArray[np.float64]  # (edges,)
    bias: NDArray[np.float64]  # (2 · units,)
    mean: NDArray[np.float64]  # (inputs,)
    spread: NDArray[np.float64]  # (inputs,)
    offset: NDArray[np.float64] | None  # (outputs,) of predicted numbers
    scale: NDArray[np.float64] | None


def to_c_learner(model: Estimator, *, name: str = "model") -> str:
    """Return a single network as a C99 header with parameters that can be adapted on the device.

    The header contains `dirad.h`: ``dirad_forward`` predicts, ``dirad_learn`` counts the gradient
    of a sample, and ``dirad_step`` takes one step of Adam along the mean of these, as `fit` does.
    The structure and the steepness of gates stay as they are. Numbers are float, or double where
    ``DIRAD_DOUBLE`` is defined.
    """
    check_name(name)
    if not isinstance(model, DIRADClassifier | DIRADRegressor):
        raise TypeError(
            "only a single network learns on the device: model must be a DIRADClassifier or a "
            f"DIRADRegressor, got {type(model).__name__}"
        )
    network = network_of(model)
    made = learner_tables(model)
    n_edges, n_units, n_inputs = len(made.source), len(made.output), network.n_inputs
    if max(n_edges, n_inputs + 2 * n_units) > LARGEST:
        raise ValueError(f"the network has {n_edges} edges, more than {LARGEST:,}")
    classes, params = isinstance(model, DIRADClassifier), params_of(model)
    moments = n_inputs + 6 * n_units + 3 * (n_edges + 2 * n_units)
    outputs = output_names(model)
    usage = _OF_CLASSES if classes else _OF_NUMBERS
    texts = {
        "title": f"{type(model).__name__}: {summary(network)}",
        "usage": usage.replace("{name}", name).replace("{NAME}", name.upper()),
        "parameters": n_edges + 2 * n_units,
        "memory": moments,
        "library": files("dirad.export").joinpath("dirad.h").read_text(encoding="utf-8"),
        "n_columns": model.n_features_in_,
        "n_inputs": n_inputs,
        "n_units": n_units,
        "n_edges": max(n_edges, 1),
        "n_outputs": network.n_outputs,
        "inputs": _words(column_names(model)),
        "outputs_are": "CLASSES" if classes else "OUTPUTS",
        "outputs": _words(outputs),
        "transfer": TRANSFERS[int(network.counts[TRANSFER])],
        "squared": int(not classes or params.cost == "squared"),
        "gate_biases": int(params.term_0_bias),
        "tables": "\n".join(_tables(model, made, name)),
        "encoding": "0" if _plain(model) else f"{name}_encoding",
        "constant": "0" if _plain(model) else f"{name}_constant",
        "offset": "0" if made.offset is None else f"{name}_offset",
        "scale": "0" if made.scale is None else f"{name}_scale",
    }
    return _HEADER.format(name=name, NAME=name.upper(), **texts)


def learner_tables(model: Estimator) -> LearnerTables:
    """Return the network of an estimator over standardized inputs (and standardized numbers)."""
    network, offset, scale = network_of(model), None, None
    if isinstance(model, DIRADRegressor):
        offset, scale = np.ravel(model._offset), np.ravel(model._spread)
    weight, bias = network.edges["weight"].copy(), network.bias.copy()
    spread = np.where(model.input_spread_ > 0, model.input_spread_, 1.0)
    source, term = network.edges["source"], network.edges["term"]
    for e in np.flatnonzero((source >= 0) & (source < network.n_inputs)):
        bias[term[e] // 2, term[e] % 2] += weight[e] * model.input_mean_[source[e]]
        weight[e] *= spread[source[e]]
    if offset is not None and scale is not None and network.counts[TRANSFER] == LINEAR:
        _unscale_outputs(network, weight, bias, offset, scale)
    return _in_order(network, weight, bias)._replace(
        mean=model.input_mean_, spread=spread, offset=offset, scale=scale
    )


def _unscale_outputs(
    network: Network, weight: NDArray, bias: NDArray, offset: NDArray, scale: NDArray
) -> None:
    """Make linear outputs predict standardized numbers."""
    units, live = network.units, network.edges["source"] >= 0
    for u in np.flatnonzero(units["kind"] == OUTPUT):
        k = units["output"][u]
        weight[live & (network.edges["term"] == 2 * u)] /= scale[k]
        bias[u, 0] = (bias[u, 0] - offset[k]) / scale[k]


def _in_order(network: Network, weight: NDArray, bias: NDArray) -> LearnerTables:
    """Return the tables, with units numbered in the order of computation."""
    n_inputs = network.n_inputs
    order = np.concatenate(levels(network))
    place = np.full(len(network.units), -1)
    place[order] = np.arange(len(order))
    live = np.flatnonzero(network.edges["source"] >= 0)
    term = network.edges["term"][live]
    term = 2 * place[term // 2] + term % 2
    edges = live[np.argsort(term, kind="stable")]
    source = network.edges["source"][edges]
    inside = source >= n_inputs
    source[inside] = n_inputs + place[source[inside] - n_inputs]
    units = network.units[order]
    return LearnerTables(
        start=np.searchsorted(np.sort(term), np.arange(2 * len(order) + 1)),
        source=source,
        output=np.where(units["kind"] == OUTPUT, units["output"], -1),
        gain=units["gain"],
        weight=weight[edges],
        bias=bias[order].ravel(),
        mean=np.zeros(0),
        spread=np.zeros(0),
        offset=None,
        scale=None,
    )


def _plain(model: Estimator) -> bool:
    encoding = encoding_of(model)
    return encoding is None or encoding.is_identity


def _tables(model: Estimator, made: LearnerTables, name: str) -> Iterable[str]:
    """Return the declarations: constants, and parameters, which can be written."""
    encoding = encoding_of(model)
    columns = range(len(made.mean))
    if encoding is not None and not encoding.is_identity:
        columns = encoding.column.tolist()
        kinds = [ENCODINGS.get(transfer, "DIRAD_PLAIN") for transfer in encoding.transfer]
        yield _table("const uint8_t", f"{name}_encoding", kinds)
        yield _table(
            "const dirad_real", f"{name}_constant", map(_real, encoding.constants.tolist())
        )
    yield _table("const uint16_t", f"{name}_start", made.start.tolist())
    yield _table("const uint16_t", f"{name}_source", made.source.tolist())
    yield _table("const int16_t", f"{name}_output", made.output.tolist())
    yield _table("const uint16_t", f"{name}_column", columns)
    for column in ("gain", "mean", "spread", "offset", "scale"):
        values = getattr(made, column)
        if values is not None:
            yield _table("const dirad_real", f"{name}_{column}", map(_real, values.tolist()))
    for column in ("weight", "bias"):
        values = getattr(made, column).tolist()
        yield _table("dirad_real", f"{name}_{column}", map(_real, values))


def _table(kind: str, name: str, values: Iterable[object]) -> str:
    inside = ", ".join(map(str, values)) or "0"
    return f"static {kind} {name}[] = {{ {inside} }};"


def _real(number: float) -> str:
    if not np.isfinite(number):
        raise ValueError("the network has a number that is not finite, which cannot be exported")
    return f"(dirad_real){number!r}" if number < 0 else f"{float(number)!r}"


def _words(names: Iterable[str]) -> str:
    return "{ " + ", ".join(map(text, names)) + " }"
