"""A network in words: its size in a line, its nodes as equations."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from dirad.core.conjunctions import conjunctions
from dirad.core.network import LINEAR, LOGISTIC, MODULATORY, OUTPUT, TRANSFER, Network
from dirad.core.thresholds import HIGH, LOW, thresholds

# What the notation in equations means.
FACTOR = "σ₁(z; K) = 4/(1 + e^(−K·z)) − 1, between −1 and 3, scales a node's state."
IF = (
    "“a if x above θ ± d else b” changes smoothly: the middle 80 % of the change lie within θ ± d; "
    "without ± it is almost abrupt."
)
MAX_EDGES_FOR_EQUATIONS = 60


def summary(network: Network) -> str:
    """Return one line: '2 inputs → 1 output · 1 hidden node · 3 edges · 6 parameters'."""

    def plural(n: int, word: str) -> str:
        return f"{n:,} {word}" + ("" if n == 1 else "s")

    return (
        f"{plural(network.n_inputs, 'input')} → {plural(network.n_outputs, 'output')} · "
        f"{plural(network.n_hidden, 'hidden node')} · {plural(network.n_edges, 'edge')} · "
        f"{plural(network.n_parameters, 'parameter')}"
    )


def node_name(network: Network, node: int, inputs: Sequence[str] | None = None) -> str:
    """Return x3 (or the input's own name), y0 for an output, h2 for a hidden node."""
    if node < network.n_inputs:
        return str(inputs[node]) if inputs is not None else f"x{node}"
    unit = node - network.n_inputs
    if network.units["kind"][unit] == OUTPUT:
        return f"y{network.units['output'][unit]}"
    return f"h{unit}"


def _sum(network: Network, term: int, bias: float, inputs: Sequence[str] | None) -> str:
    parts = []
    for e in np.flatnonzero((network.edges["source"] >= 0) & (network.edges["term"] == term)):
        edge = network.edges[e]
        parts.append((float(edge["weight"]), node_name(network, int(edge["source"]), inputs)))
    text = "".join(f" {'−' if w < 0 else '+'} {abs(w):.4g}·{name}" for w, name in parts)
    if bias or not parts:
        text += f" {'−' if bias < 0 else '+'} {abs(bias):.4g}"
    return text.removeprefix(" + ").strip()


def _number(value: float) -> str:
    return f"{'−' if value < 0 else ''}{abs(value):.4g}"


def _if_text(network: Network, unit: int, condition: str, inputs: Sequence[str] | None) -> str:
    """Return the right side of a node that is an if."""
    bias = float(network.bias[unit, 0])
    if not ((network.edges["source"] >= 0) & (network.edges["term"] == 2 * unit)).any():
        return f"{_number(HIGH * bias)} if {condition} else {_number(LOW * bias)}"
    first = _sum(network, 2 * unit, bias, inputs)
    return f"({first}) · ({_number(HIGH)} if {condition} else {_number(LOW)})"


def equations(
    network: Network,
    inputs: Sequence[str] | None = None,
    spread: NDArray[np.float64] | None = None,
    conditions: Mapping[int, str] = MappingProxyType({}),
) -> list[str]:
    """Return one equation per unit, outputs first.

    `inputs` names the inputs. `spread`, their standard deviations, decides which factors are
    written as thresholds; without it, all are written as σ₁. `conditions` holds the conditions of
    other factors that are an if, by unit. `FACTOR` and `IF` explain both.
    """
    conditions = if_conditions(network, inputs, spread, conditions)
    transfer = {LOGISTIC: "logistic", LINEAR: ""}.get(int(network.counts[TRANSFER]), "softmax")
    lines = []
    kinds = network.units["kind"]
    outputs, hidden = np.flatnonzero(kinds == OUTPUT), np.flatnonzero(kinds == MODULATORY)
    for u in [*outputs.tolist(), *hidden.tolist()]:
        name = node_name(network, network.n_inputs + u, inputs)
        first = _sum(network, 2 * u, network.bias[u, 0], inputs)
        if kinds[u] == OUTPUT:
            lines.append(f"{name} = {transfer}({first})" if transfer else f"{name} = {first}")
        elif u in conditions:
            lines.append(f"{name} = {_if_text(network, u, conditions[u], inputs)}")
        else:
            second = _sum(network, 2 * u + 1, network.bias[u, 1], inputs)
            K = network.units["gain"][u]
            lines.append(f"{name} = ({first}) · σ₁({second}; K={K:.4g})")
    return lines


def if_conditions(
    network: Network,
    inputs: Sequence[str] | None,
    spread: NDArray[np.float64] | None,
    conditions: Mapping[int, str] = MappingProxyType({}),
) -> dict[int, str]:
    """Return the conditions of the units that are an if, by unit.

    These are thresholds, those of other `conditions`, and conjunctions of both.
    """
    gates = thresholds(network, spread)
    names = {u: node_name(network, gate.source, inputs) for u, gate in gates.items()}
    known = {u: gate.condition(names[u]) for u, gate in gates.items()} | dict(conditions)
    opposites = {u: f"not ({text})" for u, text in known.items()}
    for u in set(gates) - set(conditions):
        opposites[u] = gates[u]._replace(above=not gates[u].above).condition(names[u])
    return known | conjunctions(network, known, opposites)


def notation(
    network: Network,
    spread: NDArray[np.float64] | None = None,
    conditions: Mapping[int, str] = MappingProxyType({}),
) -> list[str]:
    """Return explanations of the notation that the equations of a network use."""
    gates = set(thresholds(network, spread))
    found = [FACTOR] if network.n_hidden > len(gates | set(conditions)) else []
    wide = any(" above " in one or " below " in one for one in conditions.values())
    return [*found, IF] if gates - set(conditions) or wide else found


def html(network: Network) -> str:
    """Return what a notebook shows: the summary, and the equations where they are few."""
    lines = equations(network) if network.n_edges <= MAX_EDGES_FOR_EQUATIONS else []
    body = "".join(f"<li><code>{line}</code></li>" for line in lines)
    more = f"<ul>{body}</ul>" if body else "<p>Large: equations() writes it out.</p>"
    return f"<div><b>Network</b> {summary(network)}{more}</div>"
