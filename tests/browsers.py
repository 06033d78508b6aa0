"""A real Chromium, for tests of pages."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from selenium import webdriver
from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.actions.wheel_input import ScrollOrigin
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait


class Browser:
    """A window, with short ways to read and use a page."""

    def __init__(self, driver):
        self.driver = driver
        self.fresh = None  # the page and its width, if it can be made as new without loading it

    def open(self, path, width=1280, scheme="light", motion="no-preference"):
        size = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 500}
        media = [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": motion},
        ]
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
        self.fresh = None
        self.logs()
        self.driver.get(path if isinstance(path, str) else path.as_uri())
        return self

    def renew(self, path, width):
        """Show a page as it is at first, but with all that can be folded away folded."""
        if self.fresh != (path, width):
            self.open(path, width)
        self.fresh = (path, width)
        self.run(
            "history.replaceState(null, '', location.href.split('#')[0]);"
            "document.activeElement.blur(); samples.go(-1); if (shown.model) showModel(0);"
            "player.pause(); player.go(player.changes.length); view.fit(); pickNode(null);"
            "byId('node-filter').value = ''; panel.filter(); scrollTo(0, 0);"
            "document.querySelectorAll('details').forEach((e) => { e.open = false; });"
            "document.querySelectorAll('#nodes, .equations, .scroll')"
            "  .forEach((e) => e.scrollTo(0, 0));"
        )
        self.logs()
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

    def type(self, *keys):
        ActionChains(self.driver).send_keys(*keys).perform()

    def tab_to(self, name):
        """Press Tab until the focus is there."""
        there = f"return document.activeElement.matches({json.dumps(name)})"
        for _ in range(80):
            if self.run(there):
                return
            self.type(Keys.TAB)
        pytest.fail(f"Tab never leads to {name}")

    def drag(self, name, x, y, from_x=0, from_y=0):
        self.run(f"document.querySelector({json.dumps(name)}).scrollIntoView({{block: 'center'}})")
        actions = ActionChains(self.driver)
        actions.move_to_element_with_offset(self.find(name), from_x, from_y).click_and_hold()
        actions.move_by_offset(x // 2, y // 2).move_by_offset(x - x // 2, y - y // 2)
        actions.release().perform()

    def wheel(self, name, x, y):
        self.run(f"document.querySelector({json.dumps(name)}).scrollIntoView({{block: 'center'}})")
        origin = ScrollOrigin.from_element(self.find(name))
        ActionChains(self.driver).scroll_from_origin(origin, x, y).perform()

    def click_option(self, name, i):
        """Choose by the pointer. It reaches lists only if they are drawn within the page."""
        self.run(
            "const sheet = new CSSStyleSheet(); document.adoptedStyleSheets.push(sheet);"
            "sheet.replaceSync('select, ::picker(select) { appearance: base-select; }');"
        )
        try:
            self.click(name)
            option = self.find(f"{name} option:nth-child({i + 1})")
            ActionChains(self.driver).move_to_element(option).click().perform()
        finally:
            self.run("document.adoptedStyleSheets.pop()")

    def press(self, name, *keys):
        self.run(f"document.querySelector({json.dumps(name)}).focus()")
        ActionChains(self.driver).send_keys(*keys).perform()

    def until(self, condition, seconds=20):
        WebDriverWait(self.driver, seconds, poll_frequency=0.05).until(lambda _: condition())

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


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start Chromium; skip the test where it is not installed."""
    chromium, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or chromedriver is None:
        pytest.skip("chromium and chromedriver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for option in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,900"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(chromedriver))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
