"""The network: flat arrays of units, terms and edges.

Nodes are numbered inputs first: node ``s`` is input ``s`` if ``s < n_inputs``, else unit
``s - n_inputs``. A *unit* is a node that computes: an output (one term) or a modulatory node (two
terms). Term ``t`` of unit ``u`` has the number ``2 * u + t``. An edge goes from a node to a term.

Arrays have spare capacity; a free place is marked by kind ``FREE`` or source ``-1``. A unit or an
edge keeps its number for life, and sums run in the order of these numbers, so that growth leaves
the rounding of existing sums alone.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.core.compilation import borrowed_by_kernels

# Places in `counts`.
N_INPUTS, N_UNITS, N_EDGES, N_OUTPUTS, TRANSFER = range(5)

# Kinds of unit.
FREE, OUTPUT, MODULATORY = -1, 1, 2

# Transfer of the output nodes.
LOGISTIC, LINEAR, SOFTMAX = 0, 1, 2

UNIT = np.dtype(
    [
        ("kind", np.int64),  # FREE, OUTPUT or MODULATORY
        ("output", np.int64),  # column of the target this output answers, or -1
        ("gain", np.float64),  # K, the steepness of σ₁ (modulatory nodes)
        ("frozen", np.int64),  # 1: its biases and gain never change
    ],
    align=True,
)
EDGE = np.dtype(
    [
        ("source", np.int64),  # node the edge leaves, or -1: a free place
        ("term", np.int64),  # term the edge enters
        ("weight", np.float64),  # w
        ("frozen", np.int64),  # 1: its weight never changes
    ],
    align=True,
)
FREE_UNIT = np.array((FREE, -1, 1.0, 0), UNIT)
FREE_EDGE = np.array((-1, -1, 0.0, 0), EDGE)


@borrowed_by_kernels
class Network(NamedTuple):
    """A sparse acyclic network. All arrays are C-contiguous; absence is -1."""

    counts: NDArray[np.int64]  # (5,) inputs; places used for units, edges; outputs; transfer
    usable: NDArray[np.bool_]  # (inputs,) may this input become the source of an edge?
    units: NDArray  # (units,) of UNIT
    bias: NDArray[np.float64]  # (units, 2) b of each term
    edges: NDArray  # (edges,) of EDGE

    @property
    def n_inputs(self) -> int:
        """Number of input nodes."""
        return int(self.counts[N_INPUTS])

    @property
    def n_outputs(self) -> int:
        """Number of output nodes."""
        return int(self.counts[N_OUTPUTS])

    @property
    def n_hidden(self) -> int:
        """Number of modulatory nodes."""
        return int(np.count_nonzero(self.units["kind"] == MODULATORY))

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return int(np.count_nonzero(self.edges["source"] >= 0))

    @property
    def n_biases(self) -> int:
        """Number of biases: one per output, one per term of a modulatory node that has any."""
        modulatory = self.units["kind"] == MODULATORY
        return self.n_outputs + int(
            np.count_nonzero(modulatory) + np.count_nonzero(modulatory & (self.bias[:, 0] != 0))
        )

    @property
    def n_parameters(self) -> int:
        """Edges, biases and Ks."""
        return self.n_edges + self.n_biases + self.n_hidden

    def __repr__(self) -> str:
        from dirad.core.describe import summary  # describe reads networks, so not at the top

        return f"Network({summary(self)})"

    def equations(
        self,
        inputs: Sequence[str] | None = None,
        spread: NDArray[np.float64] | None = None,
    ) -> list[str]:
        """Return the network as equations, one per node, outputs first; `inputs` names inputs.

        σ₁(z; K) = 4/(1 + e^(−K·z)) − 1, between −1 and 3, is how strongly a node lets through.
        Given the standard deviation of each input in `spread`, a steep σ₁ of one input is written
        as "3 if x above θ ± d else −1": it makes the middle 80 % of its change within θ ± d, and is
        almost abrupt without ±.
        """
        from dirad.core.describe import equations

        return equations(self, inputs, spread)

    def _repr_html_(self) -> str:
        from dirad.core.describe import html

        return html(self)

    def copy(self) -> "Network":
        """Return an independent copy."""
        arrays: Any = (array.copy() for array in self)
        return Network(*arrays)


def new_network(
    n_inputs: int,
    n_outputs: int,
    transfer: int = LOGISTIC,
    unit_capacity: int = 0,
    edge_capacity: int = 0,
) -> Network:
    """Return inputs and outputs alone: no edge, no hidden node, every bias 0."""
    units = max(unit_capacity, n_outputs)
    network = Network(
        counts=np.array([n_inputs, n_outputs, 0, n_outputs, transfer], np.int64),
        usable=np.ones(n_inputs, np.bool_),
        units=np.full(units, FREE_UNIT),
        bias=np.zeros((units, 2)),
        edges=np.full(edge_capacity, FREE_EDGE),
    )
    network.units["kind"][:n_outputs] = OUTPUT
    network.units["output"][:n_outputs] = np.arange(n_outputs)
    return network


def with_length(array: np.ndarray, length: int, fill: object) -> np.ndarray:
    """Return a copy of `array` with `length` rows, new ones filled with `fill`."""
    result = np.full((length, *array.shape[1:]), fill, array.dtype)
    result[: len(array)] = array
    return result


def with_capacity(network: Network, units: int, edges: int) -> Network:
    """Return the same network in arrays with room for `units` units and `edges` edges."""
    units = max(units, len(network.units))
    edges = max(edges, len(network.edges))
    return network._replace(
        units=with_length(network.units, units, FREE_UNIT),
        bias=with_length(network.bias, units, 0.0),
        edges=with_length(network.edges, edges, FREE_EDGE),
    )


def output_units(network: Network) -> NDArray[np.int64]:
    """Return the unit numbers of the outputs, in the order of their columns."""
    units = np.flatnonzero(network.units["kind"] == OUTPUT)
    return units[np.argsort(network.units["output"][units])]
