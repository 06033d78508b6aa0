"""The live page of the service, in a real Chromium against a real server."""

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager

import numpy as np
import pytest
from selenium.webdriver import Keys
from selenium.webdriver.common.by import By

from browsers import chromium

pytest.importorskip("fastapi")

PHONE = 390
EVIL = "<img src=x onerror=alert(1)>"
COMMAND = [sys.executable, "-m", "dirad"]


@contextmanager
def server(store, port=0):
    """Start a server; yield its address and its process."""
    process = subprocess.Popen(
        [*COMMAND, "serve", "--store", str(store), "--port", str(port)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        found = next(filter(None, (re.search(r"http://\S+", line) for line in process.stdout)))
        yield found[0], process
    finally:
        process.terminate()
        process.wait(20)


def ask(address, method="GET", obj=None, token=None):
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    body = None if obj is None else json.dumps(obj).encode()
    request = urllib.request.Request(address, body, headers, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def learn(address, name, X, labels=None):
    """Send rows, and wait until they are learned."""
    for i in range(0, len(X), 500):
        body = {"rows": X[i : i + 500].tolist()}
        if labels is not None:
            body["labels"] = labels[i : i + 500]
        ask(f"{address}/streams/{name}/samples", "POST", body)
    end = time.monotonic() + 120
    while ask(f"{address}/streams/{name}")["pending"]:
        assert time.monotonic() < end
        time.sleep(0.1)


def task(shifted=False, rows=1200):
    """Return rows and labels of a task, or of another one elsewhere."""
    X = np.random.default_rng(shifted).normal(size=(rows, 2))
    labels = [EVIL if u > 0 else "ok" for u, _ in X.tolist()]
    return X + np.array([5, 20]) * shifted, labels


@pytest.fixture(scope="module")
def browser():
    with chromium() as window:
        yield window


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """Return the address of a server with streams of each kind, two with a planted change."""
    with server(tmp_path_factory.mktemp("serve") / "store") as (address, _):
        kinds = {"first": "classifier", "second": "regressor", "third": "detector"}
        for name, kind in kinds.items():
            ask(f"{address}/streams/{name}", "PUT", {"kind": kind, "columns": [EVIL, "heat"]})
        (X, labels), (shifted, others) = task(), task(True)
        learn(address, "first", X[:600], labels[:600])  # so that later rows can be predicted
        learn(address, "first", X, labels)
        learn(address, "first", shifted, others)
        learn(address, "third", X)
        yield address


def shown(browser, address, name, **options):
    """Open a stream, and wait until it is complete."""
    browser.open("about:blank").open(f"{address}/#{name}", **options)
    browser.until(lambda: is_live(browser, name))
    return browser


def is_live(browser, name):
    return browser.text("#status") == "Live" and browser.text("#detail-title") == name


def assert_quiet(browser, address):
    console, asked = browser.logs()
    assert console == []
    own = ("data:", "about:", address)
    assert [url for url in asked if not url.startswith(own)] == []


def visible(browser, name):
    return browser.run(f"return document.querySelector({json.dumps(name)}).checkVisibility()")


def test_a_stream_is_shown_with_scores_regimes_and_alarms(browser, service):
    shown(browser, service, "first")
    names = [one.text for one in browser.driver.find_elements(By.CSS_SELECTOR, ".stream-name")]
    assert names == ["first", "second", "third"]
    item = browser.text("#streams li")
    assert re.match(r"first classifier 3,000 rows, \S+ per second 2 models, 0 pending alarm", item)
    history = ask(f"{service}/streams/first/history")
    circles = browser.driver.find_elements(By.CSS_SELECTOR, "#scores circle")
    assert len(circles) == len(history["scores"]) >= 2
    runs = browser.driver.find_elements(By.CSS_SELECTOR, "#timeline .run")
    assert len(runs) == len(history["timeline"])
    assert {one.get_attribute("fill") for one in runs} == {"var(--model-0)", "var(--model-1)"}
    alarms = [one for one in ask(f"{service}/streams/first/events")["events"] if one["alarm"]]
    assert len(alarms) == 1
    for mark in ("#timeline .alarm-mark", "#scores .alarm-line", "#events .is-alarm"):
        assert len(browser.driver.find_elements(By.CSS_SELECTOR, mark)) == 1
    heat = browser.text("#events .is-alarm .inputs tbody tr")
    change = next(one for one in alarms[0]["inputs"] if one["name"] == "heat")
    assert heat.startswith("heat")
    assert f"→ {change['found']:.3g}" in heat
    models = ask(f"{service}/streams/first/models?networks=true")["models"]
    edges = browser.driver.find_elements(By.CSS_SELECTOR, "#drawing .edge")
    assert len(edges) == len(models[-1]["network"]["edges"]) > 0
    assert_quiet(browser, service)


def test_names_are_text(browser, service):
    shown(browser, service, "first")
    assert browser.driver.find_elements(By.TAG_NAME, "img") == []
    assert EVIL in browser.text("#events")
    assert EVIL in browser.text("#drawing")
    assert EVIL in browser.text("#model-facts")
    browser.driver.get(f"{service}/#{EVIL}")
    browser.until(lambda: visible(browser, "#missing"))
    assert EVIL in browser.text("#missing")
    assert browser.driver.find_elements(By.TAG_NAME, "img") == []
    assert_quiet(browser, service)


@pytest.mark.parametrize("way", ["mouse", "keys"])
def test_every_control(browser, service, way):
    shown(browser, service, "first")

    def use(name, key=Keys.ENTER):
        if way == "mouse":
            browser.click(name)
        else:
            browser.run("document.activeElement.blur()")
            browser.tab_to(name)
            browser.type(key)

    use("#pause")
    assert browser.text("#status") == "Paused"
    use("#pause", Keys.SPACE)
    browser.until(lambda: browser.text("#status") == "Live")
    for theme in ("light", "dark", "system"):
        use("#theme")
        assert browser.text("#theme") == f"Theme: {theme}"
    use("#alarms-only", Keys.SPACE)
    items = "return document.querySelectorAll('#events li').length"
    assert browser.run(items) == 1
    use("#alarms-only", Keys.SPACE)
    assert browser.run(items) > 1
    if way == "mouse":
        browser.click_option("#model", 1)
    else:
        browser.tab_to("#model")
        browser.type(Keys.ARROW_DOWN)
    browser.until(lambda: browser.text("#model-facts").startswith("Model 0"))
    for name in ("#events-box", "#report", "#exports a:last-child"):
        browser.tab_to(name)
        ring = browser.run("return getComputedStyle(document.activeElement).outlineStyle")
        assert ring == "solid"
    if way == "mouse":
        browser.click("#streams li:nth-child(3) a")
    else:
        browser.run("document.activeElement.blur()")
        browser.tab_to("#streams a")
        browser.type(Keys.ARROW_DOWN, Keys.END, Keys.ENTER)
    browser.until(lambda: is_live(browser, "third"))
    assert not visible(browser, "#scores-card")
    assert not visible(browser, "#drawing-legend")  # a detector has no network to draw
    assert_quiet(browser, service)


def test_exports_and_the_report_are_there(browser, service):
    shown(browser, service, "first")
    links = browser.run("return [...document.querySelectorAll('#files a')].map((a) => a.href)")
    assert len(links) == 5
    for link in (links[0], links[1], links[-1]):
        with urllib.request.urlopen(link, timeout=60) as answer:
            assert len(answer.read()) > 500
    shown(browser, service, "third")  # programs are made of classifiers alone
    links = browser.run("return [...document.querySelectorAll('#files a')].map((a) => a.href)")
    assert [link.rpartition("/")[2] for link in links] == ["report", "export?to=dirad"]


def test_alarms_that_are_counted_are_those_of_the_last_events(browser, service):
    shown(browser, service, "first")
    count = "return document.querySelector('#facts div:last-child').innerText.split(/\\s*\\n/)"
    assert sorted(browser.run(count)) == ["1", "alarm"]
    browser.run("detail.stream = { ...detail.stream, events: 201 }; detail.showFacts()")
    assert sorted(browser.run(count)) == ["1", "alarm in the last 200 events"]


def test_news_come_by_themselves(browser, service):
    shown(browser, service, "second")
    assert not visible(browser, "#files")
    X, _ = task(rows=600)
    learn(service, "second", X, (X[:, 0] + X[:, 1]).tolist())
    browser.until(
        lambda: visible(browser, "#files") and "Model 0 opened" in browser.text("#events")
    )
    browser.until(lambda: browser.text("#facts dd") == "600")
    assert browser.text("#scores-title") == "Absolute error over time"
    assert_quiet(browser, service)


@pytest.mark.parametrize("name", ["#first", "docs"])
def test_a_phone_shows_it_without_scrolling_sideways(browser, service, name):
    if name == "docs":
        browser.open(f"{service}/docs", width=PHONE)
    else:
        shown(browser, service, "first", width=PHONE)
    assert browser.run("return document.documentElement.scrollWidth") == PHONE
    assert_quiet(browser, service)


def test_light_and_dark(browser, service):
    background = "return getComputedStyle(document.body).backgroundColor"
    shown(browser, service, "first")
    light = browser.run(background)
    shown(browser, service, "first", scheme="dark", motion="reduce")
    dark = browser.run(background)
    assert dark != light
    browser.press("#theme", Keys.ENTER)
    assert browser.run(background) == light
    browser.open(f"{service}/docs", scheme="dark")
    assert browser.run(background) == dark
    browser.click("#theme")
    assert browser.run(background) == light
    assert_quiet(browser, service)


def test_no_stream_a_lost_connection_and_a_token(browser, tmp_path):
    store = tmp_path / "store"
    with server(store) as (address, _):
        browser.open(address)
        browser.until(lambda: visible(browser, "#beginning"))
        assert f"curl -X PUT {address}/streams/plant" in browser.text("#command")
        assert_quiet(browser, address)
        ask(f"{address}/streams/plant", "PUT", {"kind": "detector", "columns": ["u"]})
        browser.until(lambda: is_live(browser, "plant"))
        assert_quiet(browser, address)
    browser.until(lambda: "Connection lost" in browser.text("#status"))
    made = subprocess.run(
        [*COMMAND, "token", "create", "--name", "page", "--store", str(store), "--scope", "read"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    token = re.search(r"dirad_\w{8}_\S{43}", made.stdout + made.stderr)
    assert token is not None
    with server(store, int(address.rpartition(":")[2])):
        browser.until(lambda: visible(browser, "#login"))
        browser.press("#token", "dirad_wrong", Keys.ENTER)
        browser.until(lambda: browser.text("#login-error") == "This token is not valid.")
        browser.run("document.querySelector('#token').value = ''")
        browser.press("#token", token[0], Keys.ENTER)
        browser.until(lambda: is_live(browser, "plant"))
        assert not visible(browser, "#login")
        assert browser.run("return document.cookie") == ""
        browser.logs()  # refusals and lost connections are written to the console by the browser
        browser.open(address)
        browser.until(lambda: is_live(browser, "plant"))
        assert_quiet(browser, address)
