"""The page about a model: its data against twins, and all of its controls in a real Chromium."""

from __future__ import annotations

import json
import re
import shutil
from itertools import pairwise

import numpy as np
import pytest
from selenium import webdriver
from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select, WebDriverWait

from dirad import DIRADClassifier, DIRADRegressor
from dirad.core.network import new_network
from dirad.core.propagate import respond
from dirad.history import EDGE, RECORD, RESTORED, History
from dirad.report.page import write_page
from dirad.report.page.places import place_nodes
from dirad.report.page.replay import Edge, final_topology, replay
from lives import digits, lived, streamed

MEGABYTE = 1_000_000
PHONE = 390


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def long_life():
    return lived(196, 10, 500, 1000)


@pytest.fixture(scope="module")
def long_page(folder, long_life):
    rng = np.random.default_rng(1)
    X, y = rng.random((60, 196)), rng.integers(0, 10, 60)
    return write_page(long_life, folder / "long.html", X=X, y=y, shape=(14, 14))


@pytest.fixture(scope="module")
def continual():
    return streamed()


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
        yield change, {edge.place: (edge.source, edge.term) for edge in here}


def test_replay_is_the_history_at_every_step(long_life):
    history, network = long_life.history_, long_life.network_
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


def test_nodes_have_places_apart_and_edges_go_right(long_life):
    network = long_life.network_
    edges = [Edge(place, *ends) for place, ends in final_topology(network).items()]
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


def test_states_are_those_of_the_network(long_life, long_page):
    data = data_of(long_page)
    model, samples = data["models"][0], data["samples"]
    outputs = [i for i, node in enumerate(model["nodes"]) if node["kind"] == "output"]
    states = np.array(samples["states"][0], float)[:, outputs]
    X = np.random.default_rng(1).random((60, 196))
    assert samples["rows"] == sorted(set(samples["rows"]))
    assert states == pytest.approx(respond(long_life.network_, X[samples["rows"]]), rel=1e-3)


def test_weights_and_equations_are_those_of_the_network(long_life, long_page):
    model = data_of(long_page)["models"][0]
    kept = [edge for edge in model["edges"] if edge[3] is not None]
    weights = long_life.network_.edges["weight"][long_life.network_.edges["source"] >= 0]
    assert sorted(edge[3] for edge in kept) == pytest.approx(sorted(weights), rel=1e-3)
    written = {node["equation"] for node in model["nodes"] if node["equation"]}
    assert written == set(long_life.network_.equations())


def test_conflicts_and_routes_are_those_of_the_classifier(continual, stream_page):
    X, y = digits()
    samples = data_of(stream_page)["samples"]
    some = X[np.flatnonzero(y < 4)[:120]][samples["rows"]]
    assert samples["route"] == continual.route(some).tolist()
    for i, number in enumerate(samples["route"]):
        place = [model.number for model in continual.models_].index(number)
        inputs = samples["views"][place]["inputs"][i]
        assert inputs == np.flatnonzero(continual.conflicts(some[i : i + 1])[0]).tolist()


def test_same_model_same_bytes_and_small(folder, long_life, long_page):
    rng = np.random.default_rng(1)
    X, y = rng.random((60, 196)), rng.integers(0, 10, 60)
    again = write_page(long_life, folder / "again.html", X=X, y=y, shape=(14, 14))
    assert again.read_bytes() == long_page.read_bytes()
    assert long_page.stat().st_size < 3 * MEGABYTE


def test_wide_data_is_stored_in_part(folder):
    model = lived(10_000, 2, 30, 60)
    path = write_page(model, folder / "wide.html", X=np.zeros((100, 10_000)), shape=(100, 100))
    assert path.stat().st_size < 3 * MEGABYTE


def test_what_misfits_is_refused(folder, long_life):
    path, X = folder / "never.html", np.zeros((5, 196))
    with pytest.raises(TypeError, match="a page shows a dirad estimator, got int"):
        write_page(3, path)
    with pytest.raises(ValueError, match="takes rows of 196 features"):
        write_page(long_life, path, X=np.zeros((5, 3)))
    with pytest.raises(ValueError, match="y has 4 entries for 5 rows"):
        write_page(long_life, path, X=X, y=np.zeros(4))
    with pytest.raises(ValueError, match="y is given without X"):
        write_page(long_life, path, y=np.zeros(4))
    with pytest.raises(ValueError, match=r"shape \(3, 3\) does not fit 196"):
        write_page(long_life, path, shape=(3, 3))
    with pytest.raises(ValueError, match="2 input names for 196 inputs"):
        write_page(long_life, path, input_names=["a", "b"])
    assert not path.exists()


# --- in Chromium ---------------------------------------------------------------------------------


class Browser:
    """A window, with short ways to read and use a page."""

    def __init__(self, driver):
        self.driver = driver

    def open(self, path, width=1280, scheme="light", motion="no-preference"):
        size = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 500}
        media = [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": motion},
        ]
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
        self.logs()
        self.driver.get(path.as_uri())
        return self

    def run(self, script):
        return self.driver.execute_script(script)

    def find(self, name):
        return self.driver.find_element(By.CSS_SELECTOR, name)

    def text(self, name):
        return self.find(name).get_property("textContent")

    def click(self, name):
        element = self.find(name)
        self.run(f"document.querySelector({json.dumps(name)}).scrollIntoView({{block: 'center'}})")
        ActionChains(self.driver).move_to_element(element).click().perform()

    def press(self, name, *keys):
        self.run(f"document.querySelector({json.dumps(name)}).focus()")
        ActionChains(self.driver).send_keys(*keys).perform()

    def until(self, condition):
        WebDriverWait(self.driver, 20, poll_frequency=0.05).until(lambda _: condition())

    def logs(self):
        """What was written to the console, and what was asked of the network, since last time."""
        console = [entry["message"] for entry in self.driver.get_log("browser")]
        asked = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                asked.append(message["params"]["request"]["url"])
        return console, [url for url in asked if not url.startswith("data:")]

    @property
    def at(self):
        return int(self.find("#events").get_property("value"))

    def shown_edges(self):
        return self.run("return view.cy.edges().filter(e => !e.hasClass('absent')).length")


@pytest.fixture(scope="module")
def browser():
    chromium, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or chromedriver is None:
        pytest.skip("chromium and chromedriver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for option in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,900"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(chromedriver))
    yield Browser(driver)
    driver.quit()


def assert_quiet(browser, path):
    """No word on the console, and nothing asked for but the page itself."""
    console, asked = browser.logs()
    assert console == []
    assert set(asked) <= {path.as_uri()}
    assert browser.run("return performance.getEntriesByType('resource').length") == 0


def test_slider_and_buttons_by_mouse(browser, long_life, long_page):
    browser.open(long_page)
    assert browser.at == 1000
    assert browser.shown_edges() == 500
    browser.click("#first")
    assert (browser.at, browser.shown_edges()) == (0, 0)
    assert browser.text("#event") == "inputs and outputs alone"
    browser.click("#forward")
    browser.click("#forward")
    browser.click("#back")
    assert browser.at == 1
    assert browser.text("#event").startswith("new edge x")
    slider = browser.find("#events")
    ActionChains(browser.driver).move_to_element(slider).click().perform()
    step = int(long_life.history_.events["step"][browser.at - 1])
    assert 400 < browser.at < 600
    assert browser.shown_edges() == len(long_life.history_.topology(step))
    browser.click("#last")
    assert browser.at == 1000
    browser.click("#play")
    browser.until(lambda: 3 < browser.at < 1000)
    browser.click("#play")
    stopped = browser.at
    assert browser.text("#play") == "Play"
    assert browser.at == stopped
    assert_quiet(browser, long_page)


def test_slider_and_buttons_by_keyboard(browser, long_page):
    browser.open(long_page)
    browser.press("#events", Keys.HOME)
    assert (browser.at, browser.shown_edges()) == (0, 0)
    browser.press("#events", Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_LEFT)
    assert browser.at == 1
    browser.press("#forward", Keys.ENTER)
    browser.press("#back", Keys.SPACE)
    assert browser.at == 1
    browser.press("#last", Keys.ENTER)
    browser.press("#first", Keys.ENTER)
    assert browser.at == 0
    browser.press("#play", Keys.SPACE)
    browser.until(lambda: browser.at > 3)
    browser.press("#play", Keys.SPACE)
    assert browser.text("#play") == "Play"
    browser.press("#events", Keys.END)
    assert browser.at == 1000
    assert_quiet(browser, long_page)


def test_every_event_is_shown_as_the_history_has_it(browser, long_life, long_page):
    browser.open(long_page)
    sizes = browser.run(
        "return data.models[0].changes.map((_, i) => {"
        "  player.go(i + 1); return player.present.size; })"
    )
    expected = [
        len(topology) for _, topology in walked(replay(long_life.history_, long_life.network_))
    ]
    assert sizes == expected
    back = browser.run(
        "const sizes = []; for (let i = 1000; i > 0; i--) {"
        "  player.go(i); sizes.unshift(player.present.size); } return sizes;"
    )
    assert back == expected
    assert_quiet(browser, long_page)


def test_the_chart_of_growth_leads_to_a_step(browser, long_page):
    browser.open(long_page)
    browser.click("#growth svg")
    assert 300 < browser.at < 700
    assert_quiet(browser, long_page)


def node_at(browser, i):
    """Where a node is drawn, from the middle of the network's window."""
    x, y = browser.run(
        f"const p = view.cy.getElementById('n{i}').renderedPosition();"
        "return [p.x - view.place.clientWidth / 2, p.y - view.place.clientHeight / 2]"
    )
    return round(x), round(y)


def test_a_click_on_a_node_shows_its_equation_and_inputs(browser, long_life, long_page):
    browser.open(long_page)
    nodes = data_of(long_page)["models"][0]["nodes"]
    i = next(i for i, node in enumerate(nodes) if node["name"] == "y3")
    network = browser.find("#network")
    browser.run("document.querySelector('#network').scrollIntoView({block: 'center'})")
    ActionChains(browser.driver).move_to_element_with_offset(
        network, *node_at(browser, i)
    ).click().perform()
    browser.until(lambda: browser.text("#node-title") == "Node 3")
    assert browser.text("#node-view .equation") == long_life.network_.equations()[3]
    into = np.count_nonzero(long_life.network_.edges["term"] == 2 * 3)
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


def test_the_network_is_moved_and_zoomed(browser, long_page):
    browser.open(long_page)

    def place():
        return browser.run("return [view.cy.zoom(), view.cy.pan().x, view.cy.pan().y]")

    start = place()
    for key, changed in ((Keys.ARROW_LEFT, 1), (Keys.ARROW_DOWN, 2), ("+", 0), ("-", 0)):
        before = place()
        browser.press("#network", key)
        assert place()[changed] != before[changed]
    browser.press("#network", "0")
    assert place() == pytest.approx(start)
    browser.click("#zoom-in")
    assert place()[0] > start[0]
    browser.click("#zoom-out")
    browser.click("#zoom-out")
    assert place()[0] < start[0]
    browser.click("#fit")
    assert place() == pytest.approx(start)
    assert_quiet(browser, long_page)


def test_a_sample_is_picked_and_seen_in_the_network(browser, long_page):
    browser.open(long_page)
    samples = data_of(long_page)["samples"]
    paint = "return view.cy.nodes('[kind=\"output\"]').map(n => n.data('paint')).join()"
    plain = browser.run(paint)
    browser.click("#sample-forward")
    assert browser.find("#sample").get_property("value") == "0"
    assert f"Answer {samples['answers'][0]}" in browser.text("#sample-view")
    assert browser.run(paint) != plain
    browser.press("#sample-forward", Keys.ENTER)
    browser.press("#sample-back", Keys.SPACE)
    browser.press("#sample", Keys.ARROW_DOWN)
    assert browser.find("#sample").get_property("value") == "1"
    Select(browser.find("#sample")).select_by_index(0)
    assert browser.run(paint) == plain
    assert_quiet(browser, long_page)


def test_a_continual_learner_shows_models_conflicts_and_who_answers(
    browser, continual, stream_page
):
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
    assert "Model 1 answers" in browser.text("#sample-view")
    third = '.pictures figure:nth-child(3) [fill="var(--alert)"]'
    red = f"return document.querySelectorAll('{third}').length"
    assert browser.run(red) == len(data["samples"]["views"][0]["inputs"][i])
    marked = "return view.cy.nodes('.conflicted').length"
    assert browser.run(marked) == len(data["samples"]["views"][0]["nodes"][i])
    browser.click("#sample-view .bars .link")  # the model that answers, which is not shown
    assert browser.text("#model-summary") == data["models"][1]["summary"]
    assert browser.run(red) == len(data["samples"]["views"][1]["inputs"][i])
    lanes = browser.driver.find_elements(By.CSS_SELECTOR, "#timeline text")
    assert {"model 0", "model 1"} <= {lane.text for lane in lanes}
    browser.click("#timeline ~ details summary")
    assert f"{len(continual.events_)} events" in browser.text("#timeline ~ details summary")
    browser.press("#timeline ~ details summary", Keys.ENTER)
    captions = browser.text(".matrices")
    assert "Who answers: share of each true task" in captions
    assert "Accuracy on each task" in captions
    assert_quiet(browser, stream_page)


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
