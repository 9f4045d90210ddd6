"""A page in Chromium without a window, as pages.py reads it, and the server of vlat report."""
import subprocess

from selenium import webdriver
from selenium.common.exceptions import (NoSuchElementException, StaleElementReferenceException,
                                        TimeoutException)
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

faults = []
PATIENCE = 120                        # seconds for what comes at once on a machine that is not busy


def holds(true, what):
    if not true:
        faults.append(what)


def until(true, what, seconds=PATIENCE):
    try:
        WebDriverWait(None, seconds, 0.1, (NoSuchElementException, StaleElementReferenceException)
                      ).until(lambda d: true())
    except TimeoutException:
        holds(False, what)


def browser():
    options = Options()
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 "--hide-scrollbars", "--window-size=1280,1000"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(service=Service("chromedriver"), options=options)


class Page:
    def __init__(self, driver, path, scheme="file://"):
        self.d = driver
        driver.get(scheme + path)
        self.ready()

    def ready(self):
        WebDriverWait(self.d, PATIENCE).until(
            lambda d: d.execute_script("return document.readyState") == "complete")
        if self.run("return !!document.querySelector('.chart.live')"):
            until(lambda: not self.all("figure.lines .chart:not(.live)"), "a chart is not drawn")
        self.settled()

    def settled(self):
        """Waits until a page of datasets shows all that it was told to show."""
        until(lambda: not self.all("#sets[hidden], [aria-busy=true]"), "cards are still loaded")

    def all(self, selector):
        return self.d.find_elements(By.CSS_SELECTOR, selector)

    def first(self, selector):
        return self.d.find_element(By.CSS_SELECTOR, selector)

    def run(self, script, *args):
        return self.d.execute_script(script, *args)

    def drawn(self, chart=0):
        """A number that differs if the drawing of a chart does."""
        return self.run("""const c = document.querySelectorAll('.chart.live')[arguments[0]]
            .querySelector('canvas');
            const p = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
            let h = 0;
            for (let i = 0; i < p.length; i++) h = (h * 31 + p[i]) | 0;
            return h""", chart)

    def labels(self, axis, chart=0):
        return self.run("""return [...document.querySelectorAll('.chart.live')[arguments[1]]
            .querySelectorAll('.dygraph-axis-label-' + arguments[0])].map(e => e.textContent)""",
                        axis, chart)

    def errors(self):
        return [line["message"] for line in self.d.get_log("browser")
                if line["level"] == "SEVERE" and "favicon" not in line["message"]]


def slide(page, element, value):
    page.run("arguments[0].value = arguments[1];"
             "arguments[0].dispatchEvent(new Event('input', { bubbles: true }))", element, value)


def plays(page, selector):
    """The first clip plays while the pointer is over it."""
    video = page.first(selector)
    page.run("arguments[0].scrollIntoView({ block: 'center' })", video)
    ActionChains(page.d).move_to_element(video).perform()
    until(lambda: page.run("return arguments[0].currentTime > 0 && !arguments[0].paused", video),
          f"{selector} does not play at {page.d.current_url}")


class Server:
    """vlat report --serve of a folder, or with --browse of datasets."""
    def __init__(self, *words, port="0"):
        self.process = subprocess.Popen(["vlat", "report", *words, "--serve", port],
                                        stdout=subprocess.PIPE, text=True)
        lines = iter(self.process.stdout.readline, "")
        self.url = next((line.strip() for line in lines if line.startswith("http")), None)
        if not self.url:
            raise SystemExit(f"vlat report {' '.join(words)} --serve gives no address")

    def stop(self):
        self.process.terminate()
        self.process.wait()
