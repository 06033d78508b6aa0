"""A network as a drawing: inputs on the left, outputs on the right."""

from dirad.core.describe import node_name
from dirad.core.network import FREE, MODULATORY, Network
from dirad.estimators import DIRADClassifier, PREVALClassifier
from dirad.estimators.columns import network_input_names
from dirad.export.exported import Estimator, network_of, output_names, system_model
from dirad.export.extras import needs
from dirad.names import visible

POSITIVE, NEGATIVE = "#2166ac", "#b2182b"
THINNEST, THICKEST = 0.5, 4.0  # of edges, in points

_HEAD = """digraph network {
  rankdir=LR; ranksep=0.8; nodesep=0.15; bgcolor="transparent";
  node [fontname="Helvetica", fontsize=11, fixedsize=false, margin="0.06,0.03"];
  edge [arrowsize=0.5];"""


def to_dot(model: Estimator, *, number: int | None = None) -> str:
    """Return the network in Graphviz's DOT language; for a PREVAL system, the L0 of one model.

    Colour shows the sign of a weight, width its size relative to the others of its term.
    Modulating edges are dashed and end in a bar. Unused inputs are left out.

    >>> from dirad import DIRADRegressor
    >>> X = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]]
    >>> dot = to_dot(DIRADRegressor(random_state=0).fit(X, [1, 3, 5, 7, 9, 11]))
    >>> [line.split(" [")[0].strip() for line in dot.splitlines() if "->" in line]
    ['n0 -> n1']
    """
    network = network_of(model, number)
    return "\n".join([_HEAD, *_nodes(model, network, number), *_edges(network), "}", ""])


def to_svg(model: Estimator, *, number: int | None = None) -> str:
    """Return the drawing of `to_dot` as SVG. This needs Graphviz's program `dot`."""
    graphviz = needs("graphviz")
    try:
        drawn = graphviz.Source(to_dot(model, number=number)).pipe(format="svg")
    except graphviz.backend.ExecutableNotFound as error:
        raise FileNotFoundError(
            "this export needs the program `dot` of Graphviz: install the package graphviz of "
            "your system"
        ) from error
    return drawn.decode()


def _nodes(model: Estimator, network: Network, number: int | None) -> list[str]:
    """Return the used inputs, hidden nodes and outputs; each kind has its own shape."""
    inputs = network_input_names(model)
    outputs = _names_of_outputs(model, number)
    edges = network.edges[network.edges["source"] >= 0]
    used = sorted({s for s in edges["source"].tolist() if s < network.n_inputs})
    first = [_node(s, inputs[s], "box", "#eeeeee") for s in used]
    hidden, last = [], []
    for unit, row in enumerate(network.units):
        node = network.n_inputs + unit
        if row["kind"] == MODULATORY:
            hidden.append(_node(node, f"{node_name(network, node)} ×", "circle", "#fff7dd"))
        elif row["kind"] != FREE:
            last.append(_node(node, outputs[row["output"]], "ellipse", "#dfeefa"))
    return [_rank("min", first), *hidden, _rank("max", last)]


def _names_of_outputs(model: Estimator, number: int | None) -> list[str]:
    """Return the name of each output of the network, by its column."""
    names = list(output_names(model))
    if isinstance(model, PREVALClassifier):
        one = system_model(model, number)
        own = [str(model._state.labels[code]) for code in one.classes]
        older = one.network.n_outputs - len(own)  # outputs of earlier models that L0 was grown on
        return [f"earlier {i}" for i in range(older)] + own
    single = isinstance(model, DIRADClassifier) and model.network_.n_outputs == 1
    return names[1:] if single else names


def _rank(place: str, nodes: list[str]) -> str:
    inside = "\n".join(nodes)
    return f"  {{ rank={place};\n{inside}\n  }}"


def _node(number: int, label: str, shape: str, colour: str) -> str:
    # Graphviz expands XML entities: without &amp; a name such as &#27; would become a character.
    text = visible(label.replace("\n", " ")).replace("&", "&amp;")
    text = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'  n{number} [label="{text}", shape={shape}, style=filled, fillcolor="{colour}"];'


def _edges(network: Network) -> list[str]:
    edges = network.edges[network.edges["source"] >= 0]
    strongest: dict[int, float] = {}  # |weight|, by term
    for edge in edges:
        term = int(edge["term"])
        strongest[term] = max(strongest.get(term, 0.0), abs(float(edge["weight"])))
    lines = []
    for edge in edges:
        term, weight = int(edge["term"]), float(edge["weight"])
        share = abs(weight) / (strongest[term] or 1.0)
        width = THINNEST + (THICKEST - THINNEST) * share
        colour = NEGATIVE if weight < 0 else POSITIVE
        modulating = ", style=dashed, arrowhead=tee" if term % 2 else ""
        lines.append(
            f"  n{edge['source']} -> n{network.n_inputs + term // 2} "
            f'[color="{colour}", penwidth={width:.2f}, tooltip="{weight:.6g}"{modulating}];'
        )
    return lines
