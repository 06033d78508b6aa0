"""Networks of every size are laid out and drawn: each edge once, and texts do not overlap."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from dirad.core.network import MODULATORY, N_EDGES, N_UNITS, new_network
from dirad.plot.layout import columns, lay_out, relax
from dirad.plot.network import draw_network, edge_path


def grown(n_inputs, n_hidden, n_outputs, n_edges, seed=0):
    """A random acyclic network with a few free places among its edges."""
    rng = np.random.default_rng(seed)
    network = new_network(
        n_inputs, n_outputs, unit_capacity=n_outputs + n_hidden, edge_capacity=n_edges + 5
    )
    network.units["kind"][n_outputs:] = MODULATORY
    network.counts[N_UNITS] = n_outputs + n_hidden
    network.counts[N_EDGES] = n_edges + 5
    places = rng.permutation(n_edges + 5)[:n_edges]
    taken = set()
    for i, e in enumerate(places):
        if i < n_hidden:  # every hidden node feeds an output or a later hidden node
            later = [*range(n_outputs), *range(n_outputs + i + 1, n_outputs + n_hidden)]
            unit, source = rng.choice(later), n_inputs + n_outputs + i
        else:
            unit = rng.integers(n_outputs + n_hidden)
            earlier = unit - n_outputs if unit >= n_outputs else n_hidden
            hidden = earlier > 0 and rng.random() < 0.2
            source = n_inputs + n_outputs + rng.integers(earlier) if hidden else None
            source = rng.integers(n_inputs) if source is None else source
        term = 2 * unit + (rng.integers(2) if unit >= n_outputs else 0)
        if (source, term) in taken:
            continue
        taken.add((source, term))
        network.edges["source"][e] = source
        network.edges["term"][e] = term
        network.edges["weight"][e] = rng.normal()
    return network


NETWORKS = {
    "empty": (new_network(9, 2), (3, 3)),
    "tiny": (grown(4, 0, 1, 3), (2, 2)),
    "modulated": (grown(4, 2, 1, 6), (2, 2)),
    "middle": (grown(25, 12, 3, 60), (5, 5)),
    "large": (grown(100, 4, 10, 300), (10, 10)),
    "deep and large": (grown(100, 60, 10, 500), (10, 10)),
}


def drawn_edges(figure, term):
    found = figure.findobj(lambda artist: artist.get_gid() == f"edges of term {term}")
    return sum(len(collection.get_paths()) for collection in found)


def extents(figure):
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    texts = [t for axes in figure.axes for t in [*axes.texts, axes.title] if t.get_text()]
    return [(t.get_text(), t.get_window_extent(renderer)) for t in texts]


@pytest.mark.parametrize("on_image", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_every_edge_is_drawn_once(name, on_image):
    network, shape = NETWORKS[name]
    figure = draw_network(network, image_shape=shape if on_image else None)
    FigureCanvasAgg(figure).draw()
    used = network.edges["term"][network.edges["source"] >= 0]
    assert drawn_edges(figure, 0) == np.count_nonzero(used % 2 == 0)
    assert drawn_edges(figure, 1) == np.count_nonzero(used % 2 == 1)


@pytest.mark.parametrize("on_image", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_texts_do_not_overlap_or_leave_the_figure(name, on_image):
    network, shape = NETWORKS[name]
    figure = draw_network(network, image_shape=shape if on_image else None)
    boxes = extents(figure)
    for (a, box_a), (b, box_b) in combinations(boxes, 2):
        assert not box_a.padded(-1).overlaps(box_b.padded(-1)), (a, b)
    legends = [axes.get_legend() for axes in figure.axes]
    renderer = FigureCanvasAgg(figure).get_renderer()
    boxes += [("legend", legend.get_window_extent(renderer)) for legend in legends if legend]
    for text, box in boxes:
        assert figure.bbox.x0 <= box.x0, text
        assert figure.bbox.y0 <= box.y0, text
        assert box.x1 <= figure.bbox.x1, text
        assert box.y1 <= figure.bbox.y1, text


def test_only_used_inputs_are_drawn_and_edges_go_right():
    network, _ = NETWORKS["middle"]
    place = lay_out(network, None).place
    sources = network.edges["source"][network.edges["source"] >= 0]
    assert {node for node in place if node < network.n_inputs} == {
        int(source) for source in sources if source < network.n_inputs
    }
    for e in np.flatnonzero(network.edges["source"] >= 0):
        source = int(network.edges["source"][e])
        target = network.n_inputs + int(network.edges["term"][e]) // 2
        assert place[source][0] < place[target][0]


def test_hidden_nodes_are_in_columns_by_their_longest_path():
    for network, _ in NETWORKS.values():
        first = network.n_inputs
        depth = dict.fromkeys(range(first), 0)
        ends = [(e["source"], first + e["term"] // 2) for e in network.edges if e["source"] >= 0]

        def n_gates_of(node, depth=depth, ends=ends):
            if node not in depth:
                above = [n_gates_of(source) for source, target in ends if target == node]
                depth[node] = 1 + max(above, default=0)
            return depth[node]

        between = columns(network)[1:-1]
        hidden = sorted(node for column in between for node in column)
        assert hidden == list(range(first + network.n_outputs, first + len(network.units)))
        depths = [{n_gates_of(node) for node in column} for column in between]
        assert all(len(found) == 1 for found in depths)
        assert depths == sorted(depths, key=min)


def test_nodes_of_a_column_keep_their_distance():
    for network, _ in NETWORKS.values():
        layout = lay_out(network, None)
        for column in columns(network)[1:]:
            heights = sorted(layout.place[node][1] for node in column)
            assert all(np.diff(heights) >= 2 * layout.radius)


def test_relaxing_leaves_room_and_order():
    column = [10, -1, 11, -2, 12]
    height = {0: 1.0, **dict.fromkeys(column, 1.0)}  # all want to be where their neighbour is
    room = {node: 0.2 if node > 0 else 0.05 for node in height}
    segments = [(0, node) for node in column]
    relax([[0], column], segments, height, room, {0}, (0.0, 4.0))
    gaps = -np.diff([height[node] for node in column])
    assert gaps == pytest.approx([0.25] * 4)
    assert np.mean([height[node] for node in column]) == pytest.approx(1.0)


def test_edge_ends_at_the_border_of_its_target():
    summed = edge_path([(0, 0), (1, 0.5), (2, 1)], True, 0.2).vertices
    assert summed[0] == pytest.approx((0, 0))
    assert summed[-1] == pytest.approx((1.8, 1))
    assert any(np.allclose(vertex, (1, 0.5)) for vertex in summed)
    from_above = edge_path([(0, 3), (2, 1)], False, 0.2).vertices
    assert from_above[-1] == pytest.approx((2, 1.2))


def test_the_names_of_used_inputs_and_of_outputs_are_written():
    network, _ = NETWORKS["tiny"]
    names = ["sepal length", "sepal width", "petal length", "petal width"]
    figure = draw_network(network, input_names=names, output_names=["versicolor"])
    texts = {text for text, _ in extents(figure)}
    used = {names[source] for source in network.edges["source"] if source >= 0}
    assert 0 < len(used) < len(names)
    assert texts & {*names, "versicolor", "y0"} == {*used, "versicolor"}


def test_given_axes_are_used_and_wrong_names_and_shapes_refused():
    network, _ = NETWORKS["tiny"]
    mine = Figure()
    ax = mine.add_subplot()
    assert draw_network(network, ax=ax) is mine
    assert mine.axes == [ax]
    assert drawn_edges(mine, 0) == network.n_edges
    with pytest.raises(ValueError, match="9 pixels"):
        draw_network(network, image_shape=(3, 3))
    with pytest.raises(ValueError, match="1 names for 4 inputs"):
        draw_network(network, input_names=["a"])
    with pytest.raises(ValueError, match="2 names for 1 outputs"):
        draw_network(network, output_names=["a", "b"])
