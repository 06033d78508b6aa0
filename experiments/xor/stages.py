"""The paper's walk through signed XOR, caught from a real run.

Neither input alone says anything about the answer, so every gradient cancels over the four
patterns; a modulatory node makes them agree. `stages` grows a network one step at a time and
keeps the five moments that the paper's figure shows.
"""

from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from dirad.core.describe import node_name
from dirad.core.network import MODULATORY, OUTPUT, Network, output_units
from dirad.core.order import build_plan
from dirad.core.propagate import (
    Workspace,
    backward,
    forward,
    load_batch,
    mean_cost,
    new_workspace,
)
from dirad.growth.adapt import adapt, is_stable, new_data
from dirad.growth.state import new_state
from dirad.history import History
from dirad.params import Params, preset

PATTERNS = np.array([[-1, -1], [-1, 1], [1, -1], [1, 1]], float)  # x0, x1
TARGETS = np.array([[0], [1], [1], [0]], float)

ZERO = 5e-4  # smaller numbers show as 0.000 and have the sign 0
AGREED = 0.5  # samples agree on an edge if |net gradient| is this share of the mean magnitude


class Node(NamedTuple):
    """A node and what it does for each of the four patterns."""

    node: int  # its number in the network
    name: str
    kind: str  # "input", "modulatory" or "output"
    state: NDArray[np.float64]  # (4,) a
    gate: NDArray[np.float64] | None  # (4,) σ₁(z₁), modulatory nodes only
    signs: str  # of the states


class Term(NamedTuple):
    """A term (the input side of a node) and its deltas."""

    node: int  # the node it belongs to
    term: int  # 0: the sum, 1: the modulation
    name: str
    delta: NDArray[np.float64]  # (4,) ∂C/∂z
    net: float  # their mean
    signs: str


class Edge(NamedTuple):
    """An edge and its gradients."""

    edge: int  # its number in the network
    source: int
    target: int
    term: int  # 0 or 1: the term of the target that it enters
    name: str
    weight: float
    gradient: NDArray[np.float64]  # (4,) ∂C/∂w per pattern
    net: float  # their mean, by which the weight moves
    signs: str


class Stage(NamedTuple):
    """One moment of the growing network, measured on all four patterns."""

    number: int  # place in the paper's figure, 1 to 5
    title: str
    step: int  # steps taken so far
    network: Network  # a copy
    nodes: list[Node]
    terms: list[Term]
    edges: list[Edge]
    patterns: NDArray[np.float64]  # (4, 2)
    targets: NDArray[np.float64]  # (4,)
    outputs: NDArray[np.float64]  # (4,)
    error: float  # mean cost
    text: str  # what happens here, in plain words


def signs(values: NDArray[np.float64]) -> str:
    """Return the signs of some values as the paper writes them.

    >>> signs(np.array([-1.0, -0.2, 0.0, 3.0]))
    '(−,−,0,+)'
    """
    return "(" + ",".join("0" if abs(v) < ZERO else "+" if v > 0 else "−" for v in values) + ")"


def stages(seed: int = 0, preset_name: str = "paper") -> list[Stage]:
    """Grow a network on signed XOR and return the stages of the paper's figure as they happen.

    1 start; 2 the first edge, its net gradient 0; 3 that edge converted and modulated; 4 the
    modulation learned, so that the samples agree; 5 stable. With preset "paper" all five occur;
    another may skip some (a whole product can appear in one step), which are then left out.
    """
    params = preset(preset_name)
    state = new_state(2, 1, seed=seed, n_samples=len(PATTERNS))
    history = History()
    found = [_measure(1, "Start", state.step, state.network, params)]
    out_edges: dict[int, int] = {}  # modulated node -> its out-edge
    caught = 1
    while not is_stable(state):
        # One step at a time while there is something to catch, then the rest in one go.
        until = state.step + 1 if caught < 4 else None
        state, news = adapt(state, new_data(PATTERNS, TARGETS, params), params, until=until)
        history.extend(news)
        network = state.network
        if caught < 2 and network.n_edges == 1 and network.n_hidden == 0:
            caught = 2
            found.append(_measure(2, "The first edge", state.step, network, params))
        elif caught < 3:
            out_edges = _modulated(network)
            if out_edges:
                caught = 3
                title = "ENC and a modulating edge"
                found.append(_measure(3, title, state.step, network, params))
        elif caught < 4:
            now = _measure(4, "The modulation takes hold", state.step, network, params)
            if any(_agrees(edge) for edge in now.edges if edge.edge in out_edges.values()):
                caught = 4
                found.append(now)
    found.append(_measure(5, "Stable", state.step, state.network, params))
    return [
        stage._replace(text=_explain(stage, found[i - 1] if i else None, history))
        for i, stage in enumerate(found)
    ]


def _modulated(network: Network) -> dict[int, int]:
    """Return {node: out-edge} of the modulatory nodes whose term 1 has an edge."""
    edges, n_inputs = network.edges, network.n_inputs
    used = edges["source"] >= 0
    result = {}
    for unit in np.flatnonzero(network.units["kind"] == MODULATORY):
        out = np.flatnonzero(edges["source"] == n_inputs + unit)
        if np.any(used & (edges["term"] == 2 * unit + 1)) and len(out):
            result[n_inputs + int(unit)] = int(out[0])
    return result


def _agrees(edge: Edge) -> bool:
    """Do the patterns pull this weight the same way, by and large?"""
    return abs(edge.net) > max(AGREED * float(np.mean(np.abs(edge.gradient))), ZERO)


def _measure(number: int, title: str, step: int, network: Network, params: Params) -> Stage:
    """Return a stage: states, deltas and gradients of all four patterns. Its text comes later."""
    network = network.copy()
    plan, work = build_plan(network), new_workspace(network, len(PATTERNS))
    cost = params.constants().cost
    tolerance = 0.0 if params.ordering == "gain" else params.acceptable_mismatch
    load_batch(work, PATTERNS, TARGETS)
    forward(network, plan, work)
    backward(network, plan, work, cost, tolerance)
    n, n_inputs = len(PATTERNS), network.n_inputs

    nodes = []
    for i in range(n_inputs):
        state = work.state[i, :n].copy()
        nodes.append(Node(i, node_name(network, i), "input", state, None, signs(state)))
    terms = []
    for unit in np.flatnonzero(network.units["kind"] >= 0):
        node = n_inputs + int(unit)
        name = node_name(network, node)
        output = network.units["kind"][unit] == OUTPUT
        state = work.state[node, :n].copy()
        gate = None if output else work.term_1[unit, :n].copy()
        kind = "output" if output else "modulatory"
        nodes.append(Node(node, name, kind, state, gate, signs(state)))
        for index in range(1 if output else 2):
            delta = work.delta[2 * unit + index, :n].copy()
            label = name if output else f"{name},{index}"
            terms.append(Term(node, index, label, delta, float(delta.mean()), signs(delta)))
    return Stage(
        number=number,
        title=title,
        step=step,
        network=network,
        nodes=nodes,
        terms=terms,
        edges=_edges(network, work),
        patterns=PATTERNS,
        targets=TARGETS[:, 0],
        outputs=work.state[n_inputs + output_units(network)[0], :n].copy(),
        error=float(mean_cost(network, plan, work, cost)),
        text="",
    )


def _edges(network: Network, work: Workspace) -> list[Edge]:
    """Return every edge with its gradients, from the states and deltas in `work`."""
    n, edges = len(PATTERNS), []
    for e in np.flatnonzero(network.edges["source"] >= 0):
        source, term = int(network.edges["source"][e]), int(network.edges["term"][e])
        target = network.n_inputs + term // 2
        gradient = work.state[source, :n] * work.delta[term, :n]
        edges.append(
            Edge(
                edge=int(e),
                source=source,
                target=target,
                term=term % 2,
                name=f"{node_name(network, source)} → {node_name(network, target)}",
                weight=float(network.edges["weight"][e]),
                gradient=gradient,
                net=float(gradient.mean()),
                signs=signs(gradient),
            )
        )
    return edges


# --- the story in words: every number in it is read from the stage ----------------------------


def _explain(stage: Stage, before: Stage | None, history: History) -> str:
    """Return what happens in a stage, in plain words."""
    if stage.number == 1:
        return _explain_start(stage)
    if stage.number == 2:
        return _explain_first_edge(stage)
    if stage.number == 5:
        return _explain_stable(stage, before, history)
    node, out = next(iter(_modulated(stage.network).items()))
    target = _node(stage, node)
    path = next(edge for edge in stage.edges if edge.edge == out)
    modulating = next(edge for edge in stage.edges if edge.target == node and edge.term == 1)
    if stage.number == 3:
        term = next(term for term in stage.terms if term.node == node and term.term == 1)
        seen = before is not None and before.number == 2
        subject = "The edge has become" if seen else "An edge came and at once became"
        return (
            f"{subject} node {target.name}, and what pulled on its weight now pulls on "
            f"term 1 of {target.name}, pattern by pattern, by deltas {term.signs}. Deltas that no "
            f"weight could follow can be followed by a source: {_name(stage, modulating.source)} "
            f"matches them, so its new edge has gradients {modulating.signs}, "
            f"net {_signed(modulating.net)}."
        )
    source = _node(stage, modulating.source)
    gate = cast(NDArray, target.gate)
    low, high = (float(gate[source.state == sign][0]) for sign in (-1, 1))
    turned = ", so it turns the sign of half of the patterns" if low * high < 0 else ""
    return (
        f"The modulating weight has gone to {_signed(modulating.weight)}. The gate of "
        f"{target.name} is now {_signed(low, 2)} at {source.name}=−1 and {_signed(high, 2)} "
        f"at {source.name}=+1{turned}. The patterns now agree on {path.name}, {path.signs}: "
        f"its net gradient has gone to {_signed(path.net)}, and the weight can move."
    )


def _explain_start(stage: Stage) -> str:
    (term,) = stage.terms
    name = _name(stage, term.node)
    return (
        f"No edge yet: {name} answers {stage.outputs[0]:.1f} to every pattern. Its deltas "
        f"{term.signs} are large, but they cancel, and neither input matches them. What {name} "
        "can do at once is exhausted, what it could gain is not: it will form an edge."
    )


def _explain_first_edge(stage: Stage) -> str:
    (edge,) = stage.edges
    source = _name(stage, edge.source)
    if abs(edge.net) >= ZERO:
        return f"An edge from {source}. The patterns pull on it by {edge.signs}."
    return (
        f"An edge from {source}, chosen at random, as no source was better. The patterns pull on "
        f"its weight by {edge.signs}: the net gradient is 0. A network of fixed shape would be "
        "stuck here for good."
    )


def _explain_stable(stage: Stage, before: Stage | None, history: History) -> str:
    worst = float(np.max(np.abs(stage.outputs - stage.targets)))
    if worst >= 0.5:
        return f"Growth has ended without an answer: the largest mismatch is {worst:.2f}."
    text = f"All four patterns get the right answer; the largest mismatch is {worst:.3f}."
    later = [event.kind for event in history if before and event.step >= before.step]
    added = [
        f"{count} more {word}{'' if count == 1 else 's'}"
        for count, word in ((later.count("ENC"), "conversion"), (later.count("edge"), "edge"))
        if count
    ]
    if added:
        text += f" On the way there came {' and '.join(added)}."
    if all(abs(edge.net) < ZERO for edge in stage.edges):
        text += " No gradient is left: the network is done."
    return text


def _node(stage: Stage, node: int) -> Node:
    return next(entry for entry in stage.nodes if entry.node == node)


def _name(stage: Stage, node: int) -> str:
    return _node(stage, node).name


def _signed(value: float, digits: int = 3) -> str:
    """Return a number with its sign, in the minus of print.

    >>> _signed(-0.2026)
    '−0.203'
    """
    return f"{value:+.{digits}f}".replace("-", "−")
