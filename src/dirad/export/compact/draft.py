"""A network over bytes, in real numbers: what is rounded to a compact network."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.utils.validation import check_is_fitted

from dirad.core.network import LINEAR, MODULATORY, OUTPUT, TRANSFER, Network, output_units
from dirad.estimators import DIRADClassifier, DIRADRegressor
from dirad.estimators.columns import column_names, encoding_of
from dirad.export.compact.form import BYTE
from dirad.inference import InEdges, levels, plain


@dataclass(frozen=True)
class Draft:
    """Rows as in a compact network: two for each hidden node, then the outputs."""

    n_inputs: int
    n_hidden: int
    start: NDArray[np.int64]  # (rows + 1,)
    source: NDArray[np.int64]  # (edges,) nodes: inputs, which are bytes, then hidden ones
    weight: NDArray[np.float64]  # (edges,)
    bias: NDArray[np.float64]  # (rows,)
    gain: NDArray[np.float64]  # (hidden,) K
    low: NDArray[np.float64]  # (inputs,) the value of byte 0
    high: NDArray[np.float64]  # (inputs,)
    scale: NDArray[np.float64]  # (outputs,) of the answer: offset + scale · row
    offset: NDArray[np.float64]  # (outputs,)
    classes: tuple[Any, ...] | None
    names: tuple[str, ...]

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.bias)

    @property
    def row(self) -> NDArray[np.int64]:
        """The row of each edge."""
        return np.repeat(np.arange(self.n_rows), np.diff(self.start))

    def without(self, edges: NDArray[np.int64]) -> "Draft":
        """Return the draft without some of its edges."""
        keep = np.ones(len(self.source), bool)
        keep[edges] = False
        counts = np.bincount(self.row[keep], minlength=self.n_rows)
        start = np.concatenate([[0], np.cumsum(counts)])
        return replace(self, start=start, source=self.source[keep], weight=self.weight[keep])

    def direct(self) -> "Draft":
        """Return the draft without hidden nodes: what is left are edges from inputs to outputs."""
        first = 2 * self.n_hidden  # row of the outputs
        rest = self.without(np.flatnonzero((self.row < first) | (self.source >= self.n_inputs)))
        none = np.zeros(0)
        start, bias = rest.start[first:], rest.bias[first:]
        return replace(rest, n_hidden=0, start=start, bias=bias, gain=none)


def draft_of(model: Any, low: NDArray[np.float64], high: NDArray[np.float64]) -> Draft:
    """Return a fitted estimator's network over bytes; these stand for values from low to high."""
    network = check_model(model)
    hidden = np.concatenate([*levels(network), np.zeros(0, np.int64)])
    hidden = hidden[network.units["kind"][hidden] == MODULATORY]
    outputs = output_units(network)
    place = np.full(network.n_inputs + len(network.units), -1)
    place[: network.n_inputs] = np.arange(network.n_inputs)
    place[network.n_inputs + hidden] = network.n_inputs + np.arange(len(hidden))
    edges = InEdges(network)
    nodes = plain(np.arange(len(place)))
    terms = [edges.sums(nodes, hidden, t) for t in (0, 1)] + [edges.sums(nodes, outputs, 0)]
    rows = [(part, i) for i in range(len(hidden)) for part in terms[:2]]
    rows += [(terms[2], i) for i in range(len(outputs))]
    step = np.concatenate([(high - low) / BYTE, np.ones(len(hidden))])
    base = np.concatenate([low, np.zeros(len(hidden))])
    start, source, weight, bias = [0], [], [], []
    for part, i in rows:
        own = slice(part.start[i], part.start[i + 1])
        nodes_of = place[part.source[own]]
        order = np.argsort(nodes_of)
        w = part.weight[own][order]
        source.append(nodes_of[order])
        weight.append(w * step[nodes_of[order]])
        bias.append(part.bias[i] + float(w @ base[nodes_of[order]]))
        start.append(start[-1] + len(w))
    regressor = isinstance(model, DIRADRegressor)
    n = len(outputs)
    return Draft(
        network.n_inputs,
        len(hidden),
        np.array(start),
        np.concatenate([*source, np.zeros(0, np.int64)]),
        np.concatenate([*weight, np.zeros(0)]),
        np.array(bias),
        network.units["gain"][hidden].astype(np.float64),
        np.asarray(low, np.float64),
        np.asarray(high, np.float64),
        np.broadcast_to(np.ravel(model.target_scale_), n).copy() if regressor else np.ones(n),
        np.broadcast_to(np.ravel(model.target_offset_), n).copy() if regressor else np.zeros(n),
        None if regressor else tuple(model.classes_.tolist()),
        column_names(model),
    )


def check_model(model: Any) -> Network:
    """Return the network of an estimator; refuse what has no compact form, and say why."""
    if not isinstance(model, DIRADClassifier | DIRADRegressor):
        raise TypeError(
            "model must be a DIRADClassifier or a DIRADRegressor, got " + type(model).__name__
        )
    check_is_fitted(model)
    network, encoding = model.network_, encoding_of(model)
    if encoding is not None and not encoding.is_identity:
        names = column_names(model)
        kinds = {"categories": sorted(encoding.categories)}
        kinds["missing values"] = np.flatnonzero(encoding.indicated).tolist()
        what = "; ".join(
            f"{kind} in {', '.join(names[c] for c in columns)}"
            for kind, columns in kinds.items()
            if columns
        )
        raise ValueError(
            f"a compact network takes numbers only, and this model takes {what}: fit it to encoded "
            "columns, or export it in float or fixed point"
        )
    sources = network.edges["source"][network.edges["source"] >= network.n_inputs]
    if (network.units["kind"][sources - network.n_inputs] == OUTPUT).any():
        raise ValueError("an output of this network feeds other nodes, which has no compact form")
    is_linear = int(network.counts[TRANSFER]) == LINEAR
    if isinstance(model, DIRADRegressor) and not is_linear:
        raise ValueError("the regressors of preset='paper' have no compact form: export in float")
    return network


def node_values(draft: Draft, x: NDArray) -> NDArray[np.float64]:
    """Return the states of all nodes for bytes x: (nodes, samples)."""
    n_nodes = draft.n_inputs + draft.n_hidden
    values = np.zeros((n_nodes, len(x)))
    values[: draft.n_inputs] = x.T
    weights = csr_array((draft.weight, draft.source, draft.start), shape=(draft.n_rows, n_nodes))
    for node in range(draft.n_hidden):
        rows = slice(2 * node, 2 * node + 2)
        z, m = weights[rows] @ values + draft.bias[rows, None]
        values[draft.n_inputs + node] = z * (2.0 * np.tanh(0.5 * draft.gain[node] * m) + 1.0)
    return values
