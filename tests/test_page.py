"""The page about a model: its data against twins, and all of its controls in a real Chromium."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
from selenium.common.exceptions import TimeoutException
from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

from browsers import Browser, chromium
from dirad import DIRADClassifier, DIRADRegressor, PREVALClassifier
from dirad.core.network import new_network
from dirad.history import EDGE, RECORD, RESTORED, History
from dirad.inference import respond
from dirad.report.page import write_page
from dirad.report.page.places import place_nodes
from dirad.report.page.replay import Edge, final_topology, replay
from synthetic import continual_classifier, digits, grown_classifier

MEGABYTE = 1_000_000
PHONE = 390
CHANGES = "#timeline ~ details:has([aria-label=Changes]) > summary"
EVENTS = "#timeline ~ details:has([aria-label=Events]) > summary"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def long_growth():
    return grown_classifier(196, 10, 500, 1000)


@pytest.fixture(scope="module")
def long_page(folder, long_growth):
    rng = np.random.default_rng(1)
    X, y = rng.random((60, 196)), rng.integers(0, 10, 60)
    return write_page(long_growth, folder / "long.html", X=X, y=y, shape=(14, 14))


@pytest.fixture(scope="module")
def continual():
    return continual_classifier()


@pytest.fixture(scope="module")
def stream_page(folder, continual):
    X, y = digits()
    some = np.flatnonzero(y < 4)[:120]
    return write_page(
        continual,
        folder / "stream.html",
        X=X[some],
        y=y[some],
        shape=(8, 8),
        tasks=y[some] // 2,
        accuracy_matrix=[[0.99, np.nan], [0.98, 1.0]],
    )


@pytest.fixture(scope="module")
def plain_page(folder, continual):
    X, y = digits()
    some = np.flatnonzero(y < 4)[:120]
    return write_page(continual, folder / "plain.html", X=X[some], y=y[some])


@pytest.fixture(scope="module")
def pages(long_page, stream_page, plain_page):
    """A large network, a learner of images, and one of inputs that are no image."""
    return {"long": long_page, "stream": stream_page, "plain": plain_page}


def data_of(path):
    """The data inside a page, as a browser would read it."""
    text = path.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    return json.loads(found[1])


# --- what is on the page -------------------------------------------------------------------------


def walked(changes):
    """The edges after each change, one at a time, by plain sets."""
    here = set()
    for change in changes:
        assert here >= set(change.removed)
        here -= set(change.removed)
        assert not here & set(change.added)
        here |= set(change.added)
        yield change, {edge.number: (edge.source, edge.term) for edge in here}


def test_replay_is_the_history_at_every_step(long_growth):
    history, network = long_growth.history_, long_growth.network_
    changes = replay(history, network)
    assert len(changes) == len(history) == 1000
    steps = list(walked(changes))
    for (change, topology), (after, _) in pairwise(steps):
        if after.step > change.step and change.step % 7 == 0:
            assert topology == history.topology(change.step)
    assert steps[-1][1] == final_topology(network) == history.topology()


def test_replay_goes_back_where_the_best_was_restored():
    rows = [(step, EDGE, step, 0, 2 * step, -1, -1, 0.0) for step in range(4)]
    rows.append((5, RESTORED, 1, -1, -1, -1, -1, 0.0))
    rows.append((6, EDGE, 2, 1, 4, -1, -1, 0.0))
    history = History(np.array(rows, RECORD))
    network = new_network(3, 4)
    topologies = [topology for _, topology in walked(replay(history, network))]
    for step, topology in zip((0, 1, 2, 3, 5, 6), topologies, strict=False):
        assert topology == history.topology(step)
    # The network has no edges: one more change leads from the history's end to it.
    assert topologies[-1] == {}


def test_a_network_chosen_by_held_out_samples_is_reached():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = X[:, 0] * X[:, 1] + 0.5 * rng.normal(size=300) > 0
    model = DIRADClassifier(max_edges=8, validation_fraction=0.3, random_state=0).fit(X, y)
    *_, (_, last) = walked(replay(model.history_, model.network_))
    assert last == final_topology(model.network_)


def test_nodes_have_places_apart_and_edges_go_right(long_growth):
    network = long_growth.network_
    edges = [Edge(number, *ends) for number, ends in final_topology(network).items()]
    for shape in (None, (14, 14)):
        place = place_nodes(network, edges, shape).nodes
        points = np.array(list(place.values()))
        apart = np.linalg.norm(points[:, None] - points[None], axis=2)
        np.fill_diagonal(apart, np.inf)
        assert apart.min() > 20
        for edge in edges:
            assert place[edge.source][0] < place[network.n_inputs + edge.term // 2][0]
    pixels = {node: at for node, at in place.items() if node < 196}
    assert len(pixels) > 100
    assert pixels == {node: (30 * (node % 14), 30 * (node // 14 - 6.5)) for node in pixels}


def test_states_are_those_of_the_network(long_growth, long_page):
    data = data_of(long_page)
    model, samples = data["models"][0], data["samples"]
    outputs = [i for i, node in enumerate(model["nodes"]) if node["kind"] == "output"]
    states = np.array(samples["states"][0], float)[:, outputs]
    X = np.random.default_rng(1).random((60, 196))
    assert samples["rows"] == sorted(set(samples["rows"]))
    assert states == pytest.approx(respond(long_growth.network_, X[samples["rows"]]), rel=1e-3)


def test_weights_and_equations_are_those_of_the_network(long_growth, long_page):
    model = data_of(long_page)["models"][0]
    kept = [edge for edge in model["edges"] if edge[3] is not None]
    weights = long_growth.network_.edges["weight"][long_growth.network_.edges["source"] >= 0]
    assert sorted(edge[3] for edge in kept) == pytest.approx(sorted(weights), rel=1e-3)
    written = {node["equation"] for node in model["nodes"] if node["equation"]}
    assert written == set(long_growth.equations())


def test_conflicts_and_routes_are_those_of_the_classifier(continual, stream_page):
    X, y = digits()
    samples = data_of(stream_page)["samples"]
    some = X[np.flatnonzero(y < 4)[:120]][samples["rows"]]
    assert samples["route"] == continual.route(some).tolist()
    for i, number in enumerate(samples["route"]):
        place = [model.number for model in continual.models_].index(number)
        inputs = samples["views"][place]["inputs"][i]
        assert inputs == np.flatnonzero(continual.conflicts(some[i : i + 1])[0]).tolist()


def test_functions_are_explained_where_they_are_used(folder, long_page):
    X = np.random.default_rng(0).normal(0, 1, (60, 2))
    straight = DIRADRegressor(random_state=0).fit(X, X[:, 0])
    assert straight.network_.n_hidden == 0
    text = write_page(straight, folder / "straight.html").read_text(encoding="utf-8")
    assert "σ₁(z" not in text
    assert "softmax(z)" not in text
    classes = DIRADClassifier(random_state=0).fit(X, np.digitize(X[:, 0], [-0.5, 0.5]))
    text = write_page(classes, folder / "classes.html").read_text(encoding="utf-8")
    assert "softmax(z) = e^z/Σe^z" in text
    assert "σ₁(z; K) = " in long_page.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def gated():
    """Return a regressor with a threshold of income at 3.4, and its data."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(40, 12, 500), rng.lognormal(1, 0.6, 500)])
    y = 0.3 * X[:, 0] * np.where(X[:, 1] > 3.4, 1, -0.4) + rng.normal(0, 1, 500)
    return DIRADRegressor(random_state=0, n_init=1).fit(X, y), X, y


def test_predictions_are_explained(folder, gated):
    model, X, y = gated
    path = write_page(model, folder / "gated.html", X=X, y=y, input_names=["age", "income"])
    data = data_of(path)
    by_name = {one["name"]: one for one in data["responses"]["inputs"]}
    income = by_name["income"]
    assert income["thresholds"][0][0] == pytest.approx(3.4, abs=0.2)
    assert income["thresholds"][0][2].startswith("income above 3.")
    varied = X[np.unique(np.linspace(0, 499, 200).round().astype(int))]
    varied[:, 1] = income["grid"][0]
    assert income["mean"][0][0] == pytest.approx(model.predict(varied).mean(), rel=1e-3)
    samples = data["samples"]
    assert len(samples["contributions"]) == len(samples["rows"])
    for row, one in zip(samples["rows"], samples["contributions"], strict=True):
        total = one["bias"] + sum(size for _, size in one["bars"])
        assert one["total"] == pytest.approx(model.predict(X[row : row + 1])[0], rel=1e-3)
        assert total == pytest.approx(one["total"], rel=1e-2)
        assert any(f"income = {X[row, 1]:.4g}" in name for name, _ in one["bars"])
    text = path.read_text(encoding="utf-8")
    assert "3 if income above 3." in text
    assert "What the prediction depends on" in text


def test_without_samples_or_of_images_nothing_is_explained(folder, gated, long_page):
    model, _, _ = gated
    data = data_of(write_page(model, folder / "bare.html"))
    assert data["responses"] is None
    assert data["samples"] is None
    assert data_of(long_page)["responses"] is None
    assert "contributions" not in data_of(long_page)["samples"]


def test_classes_are_explained_by_probabilities_and_relative_scores(folder):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    model = DIRADClassifier(max_edges=5, random_state=0).fit(X, y)
    data = data_of(write_page(model, folder / "classes.html", X=X, y=y))
    assert data["responses"]["outputs"] == ["P(0)", "P(1)", "P(2)"]
    assert data["responses"]["range"] == [0, 1]
    for answer, one in zip(
        data["samples"]["answers"], data["samples"]["contributions"], strict=True
    ):
        assert one["output"] == f"relative score of {answer}"


def test_names_that_could_be_misread_are_quoted_in_equations(folder):
    X = np.random.default_rng(0).normal(0, 1, (60, 2))
    model = DIRADRegressor(random_state=0).fit(X, X[:, 0])
    names = ["region=east, hills", "b"]
    path = write_page(model, folder / "quoted.html", input_names=names)
    nodes = data_of(path)["models"][0]["nodes"]
    assert nodes[0]["name"] == "region=east, hills"
    assert any('·"region=east, hills"' in node["equation"] for node in nodes if node["equation"])
    assert "·&#34;region=east, hills&#34;" in path.read_text(encoding="utf-8")


def test_what_was_held_out_stands_beside_what_was_fitted_to(folder, long_growth):
    X, y = np.random.default_rng(1).random((5, 196)), np.zeros(5, int)
    held_out = {"accuracy": 0.875, "rows": 1200}
    path = write_page(
        long_growth, folder / "held.html", X=X, y=y, about="of these rows 4 were fitted to",
        held_out=held_out,
    )  # fmt: skip
    text = path.read_text(encoding="utf-8")
    assert "<dd>0.875</dd><dt>accuracy on 1,200 held-out rows</dt>" in text
    assert "accuracy on 5 samples: of these rows 4 were fitted to</dt>" in text


def test_same_model_same_bytes_and_small(folder, long_growth, long_page):
    rng = np.random.default_rng(1)
    X, y = rng.random((60, 196)), rng.integers(0, 10, 60)
    again = write_page(long_growth, folder / "again.html", X=X, y=y, shape=(14, 14))
    assert again.read_bytes() == long_page.read_bytes()
    assert long_page.stat().st_size < 3 * MEGABYTE


def test_wide_data_is_stored_in_part(folder):
    model = grown_classifier(10_000, 2, 30, 60)
    path = write_page(model, folder / "wide.html", X=np.zeros((100, 10_000)), shape=(100, 100))
    assert path.stat().st_size < 3 * MEGABYTE


def test_what_misfits_is_refused(folder, long_growth):
    path, X = folder / "never.html", np.zeros((5, 196))
    with pytest.raises(TypeError, match="a page shows a dirad estimator, got int"):
        write_page(3, path)
    with pytest.raises(ValueError, match="takes rows of 196 features"):
        write_page(long_growth, path, X=np.zeros((5, 3)))
    with pytest.raises(ValueError, match="y has 4 entries for 5 rows"):
        write_page(long_growth, path, X=X, y=np.zeros(4))
    with pytest.raises(ValueError, match="y is given without X"):
        write_page(long_growth, path, y=np.zeros(4))
    with pytest.raises(ValueError, match=r"shape \(3, 3\) does not fit 196"):
        write_page(long_growth, path, shape=(3, 3))
    with pytest.raises(ValueError, match="2 input names for 196 inputs"):
        write_page(long_growth, path, input_names=["a", "b"])
    assert not path.exists()


# --- in Chromium ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser():
    with chromium() as window:
        yield window


def assert_quiet(browser, path):
    """No word on the console, and nothing asked for but the page itself."""
    console, asked = browser.logs()
    assert console == []
    assert set(asked) <= {path.as_uri()}
    assert browser.run("return performance.getEntriesByType('resource').length") == 0


def test_slider_and_buttons_by_mouse(browser, long_growth, long_page):
    browser.open(long_page)
    assert browser.at == 1000
    assert browser.shown_edges() == 500
    browser.click("#first")
    assert (browser.at, browser.shown_edges()) == (0, 0)
    assert browser.text("#event") == "inputs and outputs without edges"
    browser.click("#forward")
    browser.click("#forward")
    browser.click("#back")
    assert browser.at == 1
    assert browser.text("#event").startswith("new edge x")
    slider = browser.find("#events")
    ActionChains(browser.driver).move_to_element(slider).click().perform()
    step = int(long_growth.history_.events["step"][browser.at - 1])
    assert 400 < browser.at < 600
    assert browser.shown_edges() == len(long_growth.history_.topology(step))
    browser.click("#last")
    assert browser.at == 1000
    browser.click("#play")
    browser.until(lambda: 3 < browser.at < 1000)
    browser.click("#play")
    stopped = browser.at
    assert browser.text("#play") == "Play"
    assert browser.at == stopped
    assert_quiet(browser, long_page)


def test_every_event_is_shown_as_the_history_has_it(browser, long_growth, long_page):
    browser.open(long_page)
    sizes = browser.run(
        "return data.models[0].changes.map((_, i) => {"
        "  player.go(i + 1); return player.present.size; })"
    )
    expected = [
        len(topology) for _, topology in walked(replay(long_growth.history_, long_growth.network_))
    ]
    assert sizes == expected
    back = browser.run(
        "const sizes = []; for (let i = 1000; i > 0; i--) {"
        "  player.go(i); sizes.unshift(player.present.size); } return sizes;"
    )
    assert back == expected
    assert_quiet(browser, long_page)


def test_keys_lead_along_the_chart_of_growth(browser, long_page):
    browser.open(long_page)
    steps = sorted({change[0] for change in data_of(long_page)["models"][0]["changes"]})

    def step(*keys):
        browser.press("#growth svg", *keys)
        return int(browser.find("#growth svg").get_attribute("aria-valuenow"))

    assert (step(Keys.HOME), browser.at) == (0, 0)
    assert [step(Keys.ARROW_RIGHT) for _ in range(3)] == steps[:3]
    assert step(Keys.ARROW_UP, Keys.ARROW_DOWN, Keys.ARROW_LEFT) == steps[1]
    assert (step(Keys.END), browser.at) == (steps[-1], 1000)
    assert step(Keys.ARROW_LEFT) == steps[-2]
    assert step(Keys.PAGE_DOWN) == pytest.approx(0.9 * steps[-1], abs=3)
    assert step(Keys.PAGE_UP) == pytest.approx(steps[-1], abs=6)
    assert_quiet(browser, long_page)


def node_at(browser, i):
    """Where a node is drawn, from the middle of the network's window."""
    x, y = browser.run(
        f"const p = view.cy.getElementById('n{i}').renderedPosition();"
        "return [p.x - view.place.clientWidth / 2, p.y - view.place.clientHeight / 2]"
    )
    return round(x), round(y)


def test_a_click_on_a_node_shows_its_equation_and_inputs(browser, long_growth, long_page):
    browser.open(long_page)
    nodes = data_of(long_page)["models"][0]["nodes"]
    i = next(i for i, node in enumerate(nodes) if node["name"] == "y3")
    network = browser.find("#network")
    browser.run("document.querySelector('#network').scrollIntoView({block: 'center'})")
    ActionChains(browser.driver).move_to_element_with_offset(
        network, *node_at(browser, i)
    ).click().perform()
    browser.until(lambda: browser.text("#node-title") == "Node 3")
    assert browser.text("#node-view .equation") == long_growth.equations()[3]
    assert "null" not in browser.text("#node-view")  # an output has no table of outgoing edges
    into = np.count_nonzero(long_growth.network_.edges["term"] == 2 * 3)
    rows = browser.driver.find_elements(By.CSS_SELECTOR, "#node-view .list:first-of-type tbody tr")
    assert len(rows) == into
    browser.click("#node-view .list .link")
    assert browser.text("#node-title") != "Node 3"
    assert_quiet(browser, long_page)


def test_nodes_by_keyboard(browser, long_page):
    browser.open(long_page)
    browser.press("#nodes button", Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_UP, Keys.ENTER)
    assert browser.text("#node-title") == "Node 1"
    browser.press("#node-filter", "h")
    browser.press("#nodes li:not([hidden]) button", Keys.END, Keys.HOME, Keys.SPACE)
    assert browser.text("#node-title").startswith("Node h")
    assert "σ₁" in browser.text("#node-view .equation")
    assert_quiet(browser, long_page)


def test_a_sample_is_picked_and_seen_in_the_network(browser, long_page):
    browser.open(long_page)
    samples = data_of(long_page)["samples"]
    paint = "return view.cy.nodes('[kind=\"output\"]').map(n => n.data('paint')).join()"
    plain = browser.run(paint)
    browser.click("#sample-forward")
    assert browser.find("#sample").get_property("value") == "0"
    assert f"Predicted {samples['answers'][0]}" in browser.text("#sample-view")
    assert browser.run(paint) != plain
    browser.press("#sample-forward", Keys.ENTER)
    browser.press("#sample-back", Keys.SPACE)
    browser.press("#sample", Keys.ARROW_DOWN)
    assert browser.find("#sample").get_property("value") == "1"
    Select(browser.find("#sample")).select_by_index(0)
    assert browser.run(paint) == plain
    assert_quiet(browser, long_page)


def test_a_continual_learner_shows_models_conflicts_and_routing(browser, continual, stream_page):
    browser.open(stream_page)
    data = data_of(stream_page)
    Select(browser.find("#model")).select_by_visible_text("1")
    assert browser.text("#model-summary") == data["models"][1]["summary"]
    assert browser.shown_edges() == continual.models_[1].network.n_edges
    assert browser.find(".part:not([hidden]) h3").text.startswith("Model 1")
    browser.press("#model", Keys.ARROW_UP)
    assert browser.text("#model-summary") == data["models"][0]["summary"]
    i = data["samples"]["route"].index(1)
    Select(browser.find("#sample")).select_by_value(str(i))
    assert "Model 1 predicts" in browser.text("#sample-view")
    third = '.pictures figure:nth-child(3) [fill="var(--alert)"]'
    red = f"return document.querySelectorAll('{third}').length"
    assert browser.run(red) == len(data["samples"]["views"][0]["inputs"][i])
    marked = "return view.cy.nodes('.conflicted').length"
    assert browser.run(marked) == len(data["samples"]["views"][0]["nodes"][i])
    browser.click("#sample-view .bars .link")  # the model that predicts, which is not shown
    assert browser.text("#model-summary") == data["models"][1]["summary"]
    assert browser.run(red) == len(data["samples"]["views"][1]["inputs"][i])
    lanes = browser.driver.find_elements(By.CSS_SELECTOR, "#timeline text")
    assert {"model 0", "model 1"} <= {lane.text for lane in lanes}
    browser.click(EVENTS)
    assert f"{len(continual.events_)} model events" in browser.text(EVENTS)
    browser.press(EVENTS, Keys.ENTER)
    captions = browser.text(".matrices")
    assert "Routing: share of each true task" in captions
    assert "Accuracy on each task" in captions
    assert_quiet(browser, stream_page)


# --- every control, by mouse and by keyboard -----------------------------------------------------


class Control(NamedTuple):
    """Which elements it is, how it is used both ways, what is looked at and what must come of it.

    What is looked at is an expression of JavaScript; `comes` gets its values before and after.
    """

    elements: str
    mouse: Callable[[Browser], None]
    keys: Callable[[Browser], None]
    seen: str
    comes: Callable[[Any, Any], bool]
    before: str = ""
    page: str = "long"
    width: int = 1280


def click(name):
    return lambda browser: browser.click(name)


def keys(name, *pressed):
    """Reach an element by Tab, and press keys there."""

    def use(browser):
        browser.tab_to(name)
        browser.type(*pressed)

    return use


def both(*uses):
    def use(browser):
        for one in uses:
            one(browser)

    return use


def wheel(name, x, y):
    return lambda browser: browser.wheel(name, x, y)


def click_node(label):
    """Click where an output is drawn."""

    def use(browser):
        i = browser.run(
            "return data.models[0].nodes.findIndex("
            f"(node) => node.kind === 'output' && node.label === '{label}')"
        )
        click_in_network(*node_at(browser, i))(browser)

    return use


def click_in_network(x, y):
    return lambda browser: browser.drag("#network", 0, 0, x, y)


def plays(press):
    """Play for some events, and pause."""

    def use(browser):
        press(browser)
        browser.until(lambda: browser.at > 503 and browser.text("#play") == "Pause")
        press(browser)
        stopped = browser.at
        time.sleep(0.15)  # several events long
        assert browser.at == stopped

    return use


def at_event(low, high=None):
    """The slider stands there, and the network and the line of text with it."""

    def comes(was, now):
        event, edges, text, button = now
        told = text.startswith(f"event {event} of 1000 ") and text.endswith(f" {edges} edges")
        return was != now and low <= event <= (high or low) and told and button == "Play"

    return comes


def becomes(*expected):
    return lambda was, now: was != now and now == list(expected)


GROWTH = (
    "[+byId('events').value, view.cy.edges().filter((e) => e.visible()).length,"
    " byId('moment').textContent, byId('play').textContent]"
)
NODE = (
    "[byId('node-title').textContent, view.cy.nodes('.picked')"
    ".map((node) => data.models[shown.model].nodes[node.id().slice(1)].label).join()]"
)
SAMPLE = (
    "[byId('sample').value,"
    " document.querySelector('#sample-view b')?.textContent === data.samples.answers[samples.at],"
    " view.cy.nodes().map((node) => node.data('paint')).join()]"
)
WINDOW = "[view.cy.zoom(), view.cy.pan().x, view.cy.pan().y]"
LISTED = "panel.entries().map((button) => button.textContent)"
MODEL = (
    "[byId('model-summary').textContent === data.models[shown.model].summary, shown.model,"
    " document.querySelector('.part:not([hidden]) h3').textContent.trim().slice(0, 7)]"
)
MIDDLE = "player.go(500)"
THEMES = ["Theme: system", "Theme: light", "Theme: dark"]
UP_LEFT = (Keys.ARROW_LEFT,) * 2 + (Keys.ARROW_RIGHT,) + (Keys.ARROW_UP,) * 2 + (Keys.ARROW_DOWN,)
PICK_3 = "pickNode(data.models[0].nodes.findIndex((node) => node.name === 'y3'))"
UNFOLD = "document.querySelectorAll('details').forEach((e) => { e.open = true; })"


def sample_1(was, now):
    return now[:2] == ["1", True] and now[2] != was[2]


def larger(was, now):
    return now[0] > 1.03 * was[0]


def smaller(was, now):
    return now[0] < 0.97 * was[0]


def moved_by_60(was, now):
    return np.subtract(now, was) == pytest.approx([0, 60, 60], abs=1)


def fitted(was, now):
    """In the middle again, and small enough."""
    return smaller(was, now) and now[1] < 120


def scrolled(down, selector, page="long", before="", width=1280):
    """A region with more in it than is seen at once."""
    step, key = ((0, 90), Keys.ARROW_DOWN) if down else ((90, 0), Keys.ARROW_RIGHT)
    region = f"document.querySelector({json.dumps(selector)})"
    return Control(
        selector, wheel(selector, *step), keys(selector, key),
        f"{region}.scrollTop" if down else f"{region}.scrollLeft",
        lambda was, now: was == 0 < now, before, page, width,
    )  # fmt: skip


def player_button(name, start, end):
    return Control(
        name, click(name), keys(name, Keys.ENTER), GROWTH, at_event(end), f"player.go({start})"
    )


CONTROLS = {
    "skip link": Control(
        ".skip",
        both(keys(".skip"), click(".skip"), lambda browser: browser.type(Keys.TAB)),
        keys(".skip", Keys.ENTER, Keys.TAB),
        "[location.hash, document.activeElement.closest('main') !== null]",
        becomes("#main", True),
    ),
    "theme": Control(
        "#theme",
        click("#theme"),
        keys("#theme", Keys.ENTER),
        "[byId('theme').textContent, document.documentElement.dataset.theme ?? 'system']",
        lambda was, now: (
            now[0] == THEMES[(THEMES.index(was[0]) + 1) % 3] == f"Theme: {now[1]}"
        ),
    ),
    "node in the network": Control(
        "#network, #network *", click_node(3), keys("#network", "nnnnnp"), NODE,
        becomes("Node 3", "3"),
    ),
    "no node in the network": Control(
        "#network, #network *", click_in_network(-380, -200), keys("#network", Keys.ESCAPE), NODE,
        becomes("Node", ""), PICK_3,
    ),
    "move the network": Control(
        "#network, #network *",
        lambda browser: browser.drag("#network", 60, 60, -380, -200),
        keys("#network", *UP_LEFT),
        WINDOW,
        moved_by_60,
    ),
    "zoom into the network": Control(
        "#network, #network *",
        both(click_in_network(-380, -200), wheel("#network", 0, -200)),
        keys("#network", "+"),
        WINDOW,
        larger,
    ),
    "zoom out of the network": Control(
        "#network, #network *",
        both(click_in_network(-380, -200), wheel("#network", 0, 200)),
        keys("#network", "-"),
        WINDOW,
        smaller,
    ),
    "zoom in": Control("#zoom-in", click("#zoom-in"), keys("#zoom-in", Keys.ENTER), WINDOW, larger),
    "zoom out": Control(
        "#zoom-out", click("#zoom-out"), keys("#zoom-out", Keys.SPACE), WINDOW, smaller
    ),
    "fit": Control(
        "#fit", click("#fit"), keys("#fit", Keys.ENTER), WINDOW, fitted,
        "view.zoom(2); view.cy.panBy({ x: 600, y: 0 })",
    ),
    "fit by a key of the network": Control(
        "#fit, #network", click("#fit"), keys("#network", "0"), WINDOW, fitted,
        "view.zoom(2); view.cy.panBy({ x: 600, y: 0 })",
    ),
    "to the beginning": player_button("#first", 500, 0),
    "one event back": player_button("#back", 500, 499),
    "one event on": player_button("#forward", 500, 501),
    "to the end": player_button("#last", 500, 1000),
    "play and pause": Control(
        "#play", plays(click("#play")), plays(keys("#play", Keys.SPACE)), GROWTH,
        at_event(504, 999), MIDDLE,
    ),
    "slider of events": Control(
        "#events",
        lambda browser: browser.drag("#events", -100, 0),
        keys("#events", Keys.HOME, *[Keys.PAGE_UP] * 4, Keys.ARROW_RIGHT),
        GROWTH,
        at_event(300, 450),
    ),
    "chart of growth": Control(
        "#growth svg",
        click("#growth svg"),
        keys("#growth svg", Keys.HOME, *[Keys.PAGE_UP] * 5, Keys.ARROW_RIGHT),
        GROWTH,
        at_event(400, 600),
    ),
    "sample before": Control(
        "#sample-back", click("#sample-back"), keys("#sample-back", Keys.ENTER), SAMPLE, sample_1,
        "samples.go(2)",
    ),
    "sample": Control(
        "#sample",
        lambda browser: browser.click_option("#sample", 2),
        keys("#sample", Keys.ARROW_DOWN, Keys.ARROW_DOWN),
        SAMPLE,
        sample_1,
    ),
    "sample after": Control(
        "#sample-forward", click("#sample-forward"), keys("#sample-forward", Keys.SPACE), SAMPLE,
        sample_1, "samples.go(0)",
    ),
    "find a node": Control(
        "#node-filter",
        both(click("#node-filter"), lambda browser: browser.type("h2")),
        keys("#node-filter", "h2"),
        LISTED,
        lambda was, now: now and now == [text for text in was if "h2" in text] != was,
    ),
    "find all nodes": Control(
        "#node-filter",
        lambda browser: browser.drag("#node-filter", 0, 0, 134),  # the cross at its end
        keys("#node-filter", Keys.ESCAPE),
        LISTED,
        lambda was, now: len(now) > 200 > len(was),
        "byId('node-filter').value = 'h2'; panel.filter()",
    ),
    "list of nodes": Control(
        "#nodes, #nodes button",
        click("#nodes li:nth-child(3) button"),
        keys("#nodes button", *[Keys.ARROW_DOWN] * 3, Keys.ARROW_UP, Keys.ENTER),
        NODE,
        becomes("Node 2", "2"),
    ),
    "last of the list of nodes": Control(
        "#nodes, #nodes button",
        both(wheel("#nodes", 0, 20000), click("#nodes li:last-child button")),
        keys("#nodes button", Keys.END, Keys.SPACE),
        NODE,
        lambda was, now: was != now and now == ["Node x195", "x195"],
    ),
    "no node by the list": Control(
        "#nodes, #nodes button", click_in_network(-380, -200), keys("#nodes button", Keys.ESCAPE),
        NODE, becomes("Node", ""), PICK_3,
    ),
    "link to a node": Control(
        "#node-view .link",
        click("#node-view .link"),
        keys("#node-view .link", Keys.ENTER),
        f"[...{NODE}, document.querySelector('#node-view .link').textContent,"
        " document.activeElement.id]",
        lambda was, now: now[:2] == [f"Node {was[2]}", was[2]] and now[3] == "node-title",
        PICK_3,
    ),
    "equation of a node": scrolled(True, "#node-view .equation", before=PICK_3),
    "edges of a node": scrolled(True, "#node-view .list", before=PICK_3),
    "equations shown": Control(
        ".part summary", click(".part summary"), keys(".part summary", Keys.ENTER),
        "[document.querySelector('.equations').checkVisibility()]", becomes(True),
    ),
    "equations folded away": Control(
        ".part summary", click(".part summary"), keys(".part summary", Keys.SPACE),
        "[document.querySelector('.equations').checkVisibility()]", becomes(False), UNFOLD,
    ),
    "equations": scrolled(True, ".equations", before=UNFOLD),
    "wide table": scrolled(False, ".scroll", width=PHONE),
    "model": Control(
        "#model",
        lambda browser: browser.click_option("#model", 1),
        keys("#model", Keys.ARROW_DOWN),
        MODEL,
        becomes(True, 1, "Model 1"),
        page="stream",
    ),
    "link to a model": Control(
        "#sample-view .link",
        click("#sample-view .link"),
        keys("#sample-view .link", Keys.ENTER),
        f"[...{MODEL}, document.activeElement.textContent.replace(' ✓', '')]",
        becomes(True, 1, "Model 1", "model 1 (shown)"),
        "samples.go(0)",
        "stream",
    ),
    "changes of the stream": Control(
        CHANGES,
        click(CHANGES),
        keys(CHANGES, Keys.ENTER),
        "[document.querySelector('[aria-label=Changes]').checkVisibility()]",
        becomes(True),
        page="stream",
    ),
    "events of the stream": Control(
        EVENTS,
        click(EVENTS),
        keys(EVENTS, Keys.ENTER),
        "[document.querySelector('[aria-label=Events]').checkVisibility()]",
        becomes(True),
        page="stream",
    ),
    "conflicts of a sample": scrolled(True, "#sample-view .list", "plain", "samples.go(0)"),
}  # fmt: skip


@pytest.mark.parametrize("way", ["mouse", "keys"])
@pytest.mark.parametrize("name", CONTROLS)
def test_every_control_works_by_mouse_and_by_keyboard(browser, pages, name, way):
    control = CONTROLS[name]
    path = pages[control.page]
    browser.renew(path, control.width)
    browser.run(control.before)
    seen = []

    def look():
        seen.append(browser.run(f"return {control.seen}"))
        return seen[-1]

    was = look()
    getattr(control, way)(browser)
    try:
        browser.until(lambda: control.comes(was, look()), seconds=5)
    except TimeoutException:
        pytest.fail(f"{name} by {way}: {was} became {seen[-1]}")
    assert_quiet(browser, path)


def heard(browser):
    """Mark the elements that listen to the pointer or to keys."""
    ask = browser.driver.execute_cdp_cmd
    page = ask("Runtime.evaluate", {"expression": "document"})["result"]["objectId"]
    found = ask("DOMDebugger.getEventListeners", {"objectId": page, "depth": -1})["listeners"]
    kinds = re.compile(r"click|key|pointer|mouse|touch|wheel|input|change")
    for number in {one["backendNodeId"] for one in found if kinds.match(one["type"])}:
        node = ask("DOM.resolveNode", {"backendNodeId": number})["object"]["objectId"]
        mark = "function () { if (this.dataset) this.dataset.heard = 1; }"
        ask("Runtime.callFunctionOn", {"objectId": node, "functionDeclaration": mark})


@pytest.mark.parametrize("name", ["long", "stream", "plain"])
def test_no_control_is_forgotten(browser, pages, name):
    browser.open(pages[name])
    browser.run(f"samples.go(0); pickNode(view.model.nodes.length - 1); {UNFOLD}")
    heard(browser)
    known = ", ".join(dict.fromkeys(control.elements for control in CONTROLS.values()))
    forgotten = browser.run(
        "const usable = 'button, input, select, textarea, summary, a[href], canvas, [tabindex],"
        " [contenteditable], [data-heard]';"
        "const scrolls = (e) => /auto|scroll/.test(getComputedStyle(e).overflow)"
        "  && (e.scrollHeight > e.clientHeight || e.scrollWidth > e.clientWidth);"
        "return [...document.body.querySelectorAll('*')]"
        "  .filter((e) => (e.matches(usable) && !e.matches(':not(button)[tabindex=\"-1\"]'))"
        "    || scrolls(e))"
        f"  .filter((e) => !e.matches({json.dumps(known)}))"
        "  .map((e) => e.outerHTML.slice(0, 120))"
    )
    assert forgotten == []
    own = [control.elements for control in CONTROLS.values() if control.page == name]
    gone = [names for names in own if not browser.driver.find_elements(By.CSS_SELECTOR, names)]
    assert gone == []


def test_keys_keep_the_focus_where_a_button_has_no_more_to_do(browser, long_page):
    browser.renew(long_page, 1280)
    for name in ("#first", "#last", "#back"):
        browser.tab_to(name)
        browser.type(Keys.ENTER, Keys.ENTER)
        assert browser.run("return '#' + document.activeElement.id") == name
    assert browser.at == 998
    browser.tab_to("#sample-back")
    browser.type(Keys.ENTER)
    assert browser.run("return samples.at") == -1
    assert_quiet(browser, long_page)


def test_keys_of_the_browser_are_left_to_it(browser, long_page):
    browser.renew(long_page, 1280)
    before = browser.run(f"return [{WINDOW}, {NODE}]")
    browser.tab_to("#network")
    for key in ("0", "+", "-", "n"):
        with_control = {"key": key, "ctrlKey": True, "bubbles": True, "cancelable": True}
        event = f"new KeyboardEvent('keydown', {json.dumps(with_control)})"
        assert browser.run(f"return document.activeElement.dispatchEvent({event})")
    assert browser.run(f"return [{WINDOW}, {NODE}]") == before


def test_a_node_picked_by_keys_is_brought_into_sight(browser, long_page):
    browser.renew(long_page, 1280)
    browser.run("view.zoom(4)")
    browser.tab_to("#network")
    browser.type("p", "n")
    assert browser.text("#node-title") == "Node 0"
    x, y = browser.run("return Object.values(view.cy.nodes('.picked').renderedPosition())")
    assert 0 < x < browser.run("return view.place.clientWidth")
    assert 0 < y < browser.run("return view.place.clientHeight")


def test_keys_pass_over_nodes_that_are_not_there(browser, long_page):
    browser.renew(long_page, 1280).run("player.go(0)")
    browser.tab_to("#network")
    browser.type("n" * 11)  # ten outputs; no hidden node is there yet
    assert browser.text("#node-title").startswith("Node x")
    browser.type(Keys.ESCAPE, "p")
    assert browser.text("#node-title") == "Node x195"


def test_novelty_and_importance_are_explained(browser, pages):
    browser.renew(pages["stream"], 1280).run("samples.go(0)")
    assert "about 0 is typical of known samples" in browser.text("#sample-view")
    assert "Σ|weight| of all edges that leave the standardized input" in browser.text(
        ".part caption"
    )
    browser.renew(pages["long"], 1280)
    assert "Mean |slope| of the outputs' activations per standard deviation" in browser.text(
        ".part caption"
    )


@pytest.mark.parametrize("name", ["long", "stream"])
def test_a_phone_shows_it_without_scrolling_sideways(browser, long_page, stream_page, name):
    path = {"long": long_page, "stream": stream_page}[name]
    browser.open(path, width=PHONE)
    assert browser.run("return document.documentElement.scrollWidth") == PHONE
    browser.click("#sample-forward")
    browser.click("#nodes button")
    assert browser.run("return document.documentElement.scrollWidth") == PHONE
    assert_quiet(browser, path)


def test_light_and_dark(browser, long_page):
    background = "return getComputedStyle(document.body).backgroundColor"
    label = "return view.cy.nodes('[kind=\"output\"]')[0].style('color')"
    browser.open(long_page)
    light, ink = browser.run(background), browser.run(label)
    browser.click("#theme")  # light
    assert browser.run(background) == light
    browser.press("#theme", Keys.ENTER)  # dark
    assert browser.text("#theme") == "Theme: dark"
    dark = browser.run(background)
    assert dark != light
    assert browser.run(label) != ink
    browser.open(long_page, scheme="dark")
    assert browser.run(background) == dark
    assert browser.run(label) != ink
    browser.click("#theme")
    assert browser.run(background) == light
    assert_quiet(browser, long_page)


def test_less_motion_takes_few_large_steps(browser, long_page):
    browser.open(long_page, motion="reduce")
    browser.press("#play", Keys.SPACE)
    browser.until(lambda: browser.at > 0)
    assert browser.at % 36 == 0
    browser.press("#play", Keys.SPACE)
    assert_quiet(browser, long_page)


def test_names_cannot_break_out(browser, folder):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    model = DIRADRegressor(max_edges=3, random_state=0).fit(X, X[:, 0] - X[:, 1])
    evil = ["</script><script>window.broken = 1</script>", "<img src=x onerror=window.broken=1>"]
    path = write_page(
        model, folder / "evil.html", X=X, y=X[:, 0], input_names=evil, title="<b>'\"</b> & co"
    )
    browser.open(path)
    assert browser.run("return window.broken === undefined")
    assert browser.run("return document.title") == "<b>'\"</b> & co"
    assert browser.run("return data.names") == evil
    assert evil[0] in browser.text("#nodes")
    assert browser.driver.find_elements(By.TAG_NAME, "img") == []
    assert browser.run("return document.querySelectorAll('#scatter circle').length") == 80
    assert_quiet(browser, path)


def test_the_policy_lets_nothing_else_run(browser, long_page):
    browser.open(long_page)
    browser.run(
        "const s = document.createElement('script'); s.textContent = 'window.foreign = 1';"
        "document.body.append(s); fetch('http://127.0.0.1:9/').catch(() => {});"
    )
    assert browser.run("return window.foreign === undefined")
    console, asked = browser.logs()
    assert any("Content Security Policy" in line for line in console)
    assert set(asked) <= {long_page.as_uri()}


def test_a_page_of_samples_while_a_model_is_in_training(tmp_path):
    X = np.random.default_rng(0).normal(size=(600, 4))
    model = PREVALClassifier(random_state=0).partial_fit(X, X[:, 0] > 0)
    assert model.models_[0].is_calibrated
    assert model.models_[0].phase != "stable"
    data = data_of(write_page(model, tmp_path / "page.html", X=X[:20], y=X[:20, 0] > 0))
    view = data["samples"]["views"][0]
    assert len(view["score"]) == 20
    assert view["inputs"] is None
