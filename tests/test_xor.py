"""The five stages of signed XOR, caught from real runs, and how they are told."""

from __future__ import annotations

import io
from itertools import combinations, pairwise

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from rich.console import Console

from dirad.inference import respond
from experiments.xor import stages as xor
from experiments.xor.figures import draw_stages, print_stages


@pytest.fixture(scope="module", params=[0, 1, 2])
def story(request):
    return xor.stages(request.param)


def only(edges, **wanted):
    (edge,) = [e for e in edges if all(getattr(e, k) == v for k, v in wanted.items())]
    return edge


def test_all_five_stages_come_and_end_solved_for_any_seed():
    for seed in range(20):
        stages = xor.stages(seed)
        assert [stage.number for stage in stages] == [1, 2, 3, 4, 5]
        assert all(a.step < b.step for a, b in pairwise(stages))
        assert np.abs(stages[-1].outputs - stages[-1].targets).max() < 0.1


def test_start_has_deltas_that_cancel(story):
    start = story[0]
    (term,) = start.terms
    assert start.step == 0
    assert not start.edges
    assert term.signs == "(+,−,−,+)"
    assert term.net == pytest.approx(0)


def test_first_edge_is_pulled_both_ways(story):
    (edge,) = story[1].edges
    assert edge.weight == 0
    assert edge.net == pytest.approx(0)
    assert np.abs(edge.gradient).min() > 0.1


def test_enc_hands_the_pulls_of_the_edge_to_term_1(story):
    before, now = story[1].edges[0], story[2]
    modulating = only(now.edges, term=1)
    node = modulating.target
    path = only(now.edges, source=node)
    (delta,) = [t for t in now.terms if t.node == node and t.term == 1]
    assert path.edge == before.edge
    assert delta.signs == before.signs
    assert modulating.source != before.source
    assert modulating.weight == 0
    assert abs(modulating.net) > 0.9 * np.abs(modulating.gradient).mean() > 0.01
    assert abs(path.net) < 0.01


def test_modulation_makes_the_samples_agree(story):
    before, now = story[2], story[3]
    modulating = only(now.edges, term=1)
    path = only(now.edges, source=modulating.target)
    assert modulating.weight != 0
    assert path.signs in ("(+,+,+,+)", "(−,−,−,−)")
    assert abs(path.net) > 10 * abs(only(before.edges, source=modulating.target).net)


def test_net_gradients_are_finite_differences_of_the_cost(story):
    def cost(network):
        return 0.5 * np.mean((respond(network, xor.PATTERNS) - xor.TARGETS) ** 2)

    for stage in story[1:4]:  # at the end, accepted mismatches count as none
        assert stage.error == pytest.approx(cost(stage.network))
        for edge in stage.edges:
            up, down = stage.network.copy(), stage.network.copy()
            up.edges["weight"][edge.edge] += 1e-5
            down.edges["weight"][edge.edge] -= 1e-5
            slope = (cost(up) - cost(down)) / 2e-5
            assert edge.net == pytest.approx(slope, abs=1e-6)


def test_stages_keep_their_own_networks(story):
    assert [stage.network.n_edges for stage in story[:4]] == [0, 1, 3, 3]
    assert [stage.network.n_hidden for stage in story[:4]] == [0, 0, 1, 1]
    assert np.allclose(respond(story[-1].network, xor.PATTERNS)[:, 0], story[-1].outputs)


def test_every_stage_is_told_within_80_columns(story):
    console = Console(width=80, record=True, file=io.StringIO())
    print_stages(console, story)
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    for stage in story:
        assert stage.title in text
    for edge in story[-1].edges:
        assert edge.name in text


def test_figure_has_no_two_texts_on_each_other(story):
    figure = draw_stages(story)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    texts = [t for axes in figure.axes for t in axes.texts] + list(figure.texts)
    boxes = [(t.get_text(), t.get_window_extent(renderer)) for t in texts if t.get_text()]
    assert len(boxes) > 30
    for (a, box_a), (b, box_b) in combinations(boxes, 2):
        assert not box_a.padded(-1).overlaps(box_b.padded(-1)), (a, b)
    for text, box in boxes:
        assert box.x0 >= 0, text
        assert box.x1 <= figure.bbox.x1, text
        assert box.y1 <= figure.bbox.y1, text
