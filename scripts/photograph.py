"""Photographs the pages that scripts/page_pictures has made, in Chromium without a window.

    photograph.py VLAT PAGES TO      PAGES has report.html, compare.html, browse.html, pairs.html,
                                     references.html, and runs in runs/; TO gets one PNG for each
                                     picture"""
import os
import subprocess
import sys
import time

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait


def browser():
    options = Options()
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 "--hide-scrollbars", "--window-size=1100,900"):
        options.add_argument(word)
    return webdriver.Chrome(service=Service("chromedriver"), options=options)


class Camera:
    def __init__(self, driver, pages, to):
        self.d, self.pages, self.to = driver, pages, to

    def open(self, address, width=1100, height=900, dark=False):
        """Opens a page of PAGES, or an address, and waits until its charts and cards are there."""
        self.d.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})
        self.d.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500})
        self.d.get(address if "://" in address
                   else "file://" + os.path.abspath(os.path.join(self.pages, address)))
        WebDriverWait(self.d, 60).until(lambda d: d.execute_script(
            "return document.readyState === 'complete' &&"
            " !document.querySelector('figure.lines .chart:not(.live)') &&"
            " !document.querySelector('.card:empty')"))

    def find(self, selector):
        return self.d.find_elements(By.CSS_SELECTOR, selector)

    def run(self, script, *words):
        return self.d.execute_script(script, *words)

    def save(self, name):
        time.sleep(1)                            # until pictures and first frames are decoded
        self.d.save_screenshot(os.path.join(self.to, name + ".png"))


def run_pages(camera):
    camera.open("report.html")
    camera.save("report")
    camera.run("document.querySelector('#s2').scrollIntoView()")
    ActionChains(camera.d).move_to_element(camera.find(".chart.live")[0]).perform()
    camera.save("charts")
    camera.open("report.html", dark=True)
    camera.save("report-dark")
    camera.open("report.html", width=390, height=900)
    camera.save("report-narrow")
    camera.open("compare.html")
    camera.save("compare")


def dataset_pages(camera):
    camera.open("browse.html")
    camera.find(".card")[2].send_keys("x")
    camera.save("browse")
    camera.open("pairs.html")
    camera.find("#pair input")[0].click()
    WebDriverWait(camera.d, 60).until(lambda d: camera.find(".twins"))
    camera.save("pairs")
    camera.open("references.html")
    camera.save("references")


def served_page(camera, vlat):
    runs = os.path.join(camera.pages, "runs")
    server = subprocess.Popen([vlat, "report", runs, "--serve", "0"], stdout=subprocess.PIPE,
                              text=True)
    try:
        camera.open(server.stdout.readline().strip() + "run/prompts/")
        WebDriverWait(camera.d, 60).until(lambda d: "follows" in camera.find(".follows")[0].text)
        camera.save("served")
    finally:
        server.terminate()
        server.wait()


def main():
    vlat, pages, to = sys.argv[1:]
    driver = browser()
    try:
        camera = Camera(driver, pages, to)
        run_pages(camera)
        dataset_pages(camera)
        served_page(camera, os.path.abspath(vlat))
    finally:
        driver.quit()


if __name__ == "__main__":
    main()
