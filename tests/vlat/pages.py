"""Uses the pages of pages.sh as a reader does, in Chromium without a window.

    pages.py DIR      DIR has the pages and datasets of pages.sh, and runs in served/ (none: no
                      server is tried)

It prints each thing that is not so, and exits with 1 if there was one."""
import os
import shutil
import sys

from selenium.common.exceptions import TimeoutException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from page import PATIENCE, Page, Server, browser, faults, holds, plays, slide, until
from steady import Steady


def pointer_and_zoom(page):
    charts = page.all(".chart.live")
    holds(len(charts) == 9, f"{len(charts)} charts, expected 9")
    page.run("arguments[0].scrollIntoView({ block: 'center' })", charts[0])
    ActionChains(page.d).move_to_element(charts[0]).perform()
    values = [e.text for e in page.all(".legend output") if e.text]
    holds(len(values) >= len(charts), f"the pointer shows {values}")
    left = page.run("""return [...document.querySelectorAll('.pointer')]
        .filter(e => !e.hidden).map(e => Math.round(parseFloat(e.style.left)))""")
    holds(len(left) == len(charts) and max(left) - min(left) <= 1, f"the pointers stand at {left}")

    before = page.labels("x"), page.labels("x", 1), page.drawn(1)
    ActionChains(page.d).move_to_element_with_offset(charts[0], -100, 0).click_and_hold() \
        .move_by_offset(150, 0).release().perform()
    holds(page.labels("x") != before[0], "a drag does not zoom the first chart")
    holds(page.drawn(1) != before[2], "a drag in one chart does not zoom another")
    reset = [b for b in page.all(".controls button") if b.text == "Show all"][0]
    holds(reset.is_enabled(), "after a zoom 'Show all' is disabled")
    zoomed = page.labels("x")
    page.d.refresh()
    page.ready()
    holds(page.labels("x") == zoomed, "a reload loses the zoom")
    [b for b in page.all(".controls button") if b.text == "Show all"][0].click()
    holds(page.labels("x") == before[0] and page.labels("x", 1) == before[1],
          f"'Show all' gives {page.labels('x')}, not {before[0]}")


def keys(page):
    chart = page.first(".chart.live")
    page.run("arguments[0].focus()", chart)
    chart.send_keys(Keys.ARROW_RIGHT)
    one = page.first(".spoken").get_attribute("textContent")
    chart.send_keys(Keys.ARROW_RIGHT)
    two = page.first(".spoken").get_attribute("textContent")
    holds(one.startswith("step ") and two.startswith("step ") and one != two,
          f"the arrow keys say '{one}' and '{two}'")
    before = page.labels("x")
    chart.send_keys("+")
    holds(page.labels("x") != before, "+ does not zoom")
    chart.send_keys("0")
    holds(page.labels("x") == before, "0 does not show all")
    names = page.run("""return [...document.querySelectorAll('input, select, button, [tabindex]')]
        .filter(e => e.offsetParent && !(e.labels && e.labels.length) &&
                     !e.getAttribute('aria-label') && !e.getAttribute('title') &&
                     !e.textContent.trim()).map(e => e.outerHTML)""")
    holds(not names, f"controls without a name: {names}")


def settings(page):
    drawn = page.drawn()
    slide(page, page.first(".controls:not(.still) input[type=range]"), 6)
    holds(page.drawn() != drawn, "the slider does not smooth")
    drawn = page.drawn()
    page.first(".legend input").click()
    holds(page.drawn() != drawn, "the legend does not switch a line off")
    page.first(".legend input").click()
    holds(page.drawn() == drawn, "the legend does not switch a line on again")
    labels = page.labels("y")
    page.first(".legend .end input").click()
    holds(page.labels("y") != labels or page.drawn() != drawn, "the log axis is as the linear one")
    page.first(".legend .end input").click()
    unit = Select(page.first(".controls:not(.still) select"))
    holds([o.text for o in unit.options] == ["step", "epochs", "hours"],
          f"units of x: {[o.text for o in unit.options]}")
    unit.select_by_visible_text("epochs")
    holds(page.labels("x")[-1] in ("28", "30"), f"in epochs x has the labels {page.labels('x')}")
    unit.select_by_visible_text("hours")
    holds(any("h" in label for label in page.labels("x")), f"in hours x has {page.labels('x')}")
    unit.select_by_visible_text("step")


# Roles of what a reader works, or must be told of.
NAMED = ("button", "checkbox", "slider", "combobox", "textbox", "searchbox", "spinbutton", "link",
         "application", "image", "img", "Video", "dialog", "DisclosureTriangle")


def usable(page, name):
    """At 390 pixels nothing is wider than the window or in letters below 11 pixels, and a screen
    reader has a name for every control."""
    page.d.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True})
    page.d.refresh()
    page.ready()
    wide = page.run("return document.documentElement.scrollWidth")
    holds(wide <= 390, f"{name}: at 390 pixels the page is {wide} wide")
    small = page.run("""return [...document.body.querySelectorAll('*')].filter(e =>
        [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) && e.checkVisibility() &&
        parseFloat(getComputedStyle(e).fontSize) < 11)
        .map(e => e.tagName + ' ' + e.textContent.slice(0, 20))""")
    holds(not small, f"{name}: letters below 11 pixels: {small[:5]}")
    page.d.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    nodes = page.d.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    bad = [n["role"]["value"] for n in nodes if not n["ignored"] and
           n["role"]["value"] in NAMED and not n.get("name", {}).get("value", "").strip()]
    holds(not bad, f"{name}: without a name: {bad}")
    reached = page.run("""return [...document.querySelectorAll(
        'button, input, select, textarea, a[href], summary')]
        .filter(e => e.checkVisibility() && !e.disabled && e.tabIndex < 0).map(e => e.outerHTML)""")
    holds(not reached, f"{name}: keys do not reach {reached}")


def pairs(driver, folder):
    """Two datasets show one source side by side."""
    page = Page(driver, os.path.join(folder, "pairs.html"))
    until(lambda: len(page.all(".card strong")) == 8, "the two datasets do not show 8 cards")
    page.settled()
    page.first("#pair input").click()
    page.settled()
    until(lambda: len(page.all(".twins")) == 4,
          f"there are {len(page.all('.twins'))} pairs, expected 4")
    names = page.run("""return [...document.querySelectorAll('.twins')].map(
        t => [...t.querySelectorAll('strong')].map(e => e.textContent))""")
    holds(all(len(n) == 2 and n[0] == n[1] for n in names), f"the pairs are {names}")
    boxes = page.run("""return [...document.querySelectorAll('.twins')].map(
        t => [...t.querySelectorAll('.card')].map(e => e.getBoundingClientRect()).map(
            b => [b.top, b.left]))""")
    holds(all(a[0] == b[0] and a[1] < b[1] for a, b in boxes), f"the pairs stand at {boxes}")
    page.first(".twins .card").click()
    until(lambda: len(page.all("dialog .views > section")) == 2, "the dialog does not show both")
    page.d.switch_to.active_element.send_keys(Keys.ESCAPE)
    box = page.first("#find input")
    box.send_keys("clip 3#", Keys.ENTER)
    until(lambda: page.run("""return [...document.querySelectorAll('.twins strong')]
        .map(e => e.textContent[5]).join('')""") == "33",
          "a search does not show the pair of clip 3")
    page.settled()
    page.d.refresh()
    page.ready()
    until(lambda: len(page.all(".twins")) == 1, "a reload loses the pairs")
    page.settled()
    page.first("#pair input").click()
    until(lambda: not page.all(".twins") and len(page.all(".card strong")) == 2,
          "the two lists do not come back")
    faults.extend(page.errors())


def pictures(page):
    pairs = page.all(".pair")
    holds(len(pairs) == 2, f"{len(pairs)} prompts can be compared, expected 2")
    clip = "return document.querySelector('.pair .stack').children[1].style.clipPath"
    slide(page, page.first(".pair input[type=range]"), 20)
    holds("20%" in page.run(clip), f"the handle leaves {page.run(clip)}")
    choices = [Select(s) for s in page.all(".pair select")]
    holds([c.first_selected_option.text for c in choices[:2]] == ["step 0", "step 300"],
          "the first and the newest step are not the ones compared")
    slide(page, page.first(".controls.still input"), 1)
    chosen = [Select(s).first_selected_option.text for s in page.all(".pair select")]
    holds(chosen == ["step 0", "step 50"] * 2, f"the slider of all prompts chooses {chosen}")
    plays(page, ".steps video")
    inputs = page.all(".inputs figcaption")
    holds([e.text for e in inputs] == ["reference 1", "target"],
          f"beside the samples stand {[e.text for e in inputs]}")
    holds(page.run("const box = q => document.querySelector(q).getBoundingClientRect();"
                   "return box('.inputs').right <= box('.pair').left &&"
                   "box('.inputs').top < box('.pair').bottom"),
          "the inputs are not beside the samples")
    holds(page.run("return document.querySelectorAll('[src=\"\"]').length") == 0,
          "an empty picture")


def heard(page):
    """A clip with sound has its wave; a click in the middle of it plays the second half, with the
    clip, and a line goes along."""
    last = "const s = [...document.querySelectorAll('.steps .sound')].pop(); "
    state = lambda what: page.run(last + "return s.querySelector('audio')." + what)
    waves = page.all(".steps .wave")
    holds(len(waves) == 3 and not page.all(".pair .wave, .inputs .wave"),
          f"{len(waves)} waves of three clips")
    button = page.all(".steps .player")[-1]
    holds(waves[-1].size["height"] >= 30 and button.is_enabled(), "a wave or its button is missing")
    page.run("arguments[0].scrollIntoView({ block: 'center' })", waves[-1])
    ActionChains(page.d).move_to_element(waves[-1]).click().perform()
    until(lambda: state("currentTime") > 0.5, "a click on a wave does not play the sound")
    holds(button.text == "Pause the sound" or state("paused"), f"the button says {button.text}")
    until(lambda: state("paused") and state("currentTime") > 0.9, "the sound does not end")
    holds(page.run(last + "return parseFloat(s.querySelector('i').style.left)") > 90,
          "the line in the wave does not go along")
    button.click()
    until(lambda: 0 < state("currentTime") < 0.6 and not state("paused"),
          "the button plays nothing")


def narrow_and_dark(page):
    light = page.drawn()
    page.d.execute_cdp_cmd("Emulation.setEmulatedMedia", {
        "features": [{"name": "prefers-color-scheme", "value": "dark"}]})
    WebDriverWait(page.d, PATIENCE).until(lambda d: page.drawn() != light)
    page.d.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    page.d.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True})
    page.d.refresh()
    page.ready()
    wide = page.run("return document.documentElement.scrollWidth")
    holds(wide <= 390, f"at 390 pixels the page is {wide} wide")
    box = page.run("const r = document.querySelector('.chart.live').getBoundingClientRect();"
                   "return [r.left, r.right]")
    holds(box[0] >= 0 and box[1] <= 390, f"at 390 pixels a chart stands at {box}")
    small = page.run("""return [...document.querySelectorAll('.dygraph-axis-label, label, .axes')]
        .map(e => parseFloat(getComputedStyle(e).fontSize)).filter(v => v < 11)""")
    holds(not small, f"labels smaller than 11 pixels: {small}")
    holds(len(page.labels("x")) >= 3, f"at 390 pixels x has the labels {page.labels('x')}")
    page.d.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def browse(page):
    """The keys of the page of a dataset."""
    WebDriverWait(page.d, PATIENCE).until(lambda d: page.all(".card"))
    holds(page.first(".card strong").text.endswith(".mp4"),
          f"a card has the name '{page.first('.card strong').text}'")
    page.first(".card").click()
    title = "return document.querySelector('dialog h2').textContent"
    seen = [page.run(title)]
    for _ in range(3):
        page.d.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
        try:
            WebDriverWait(page.d, PATIENCE).until(lambda d: page.run(title) != seen[-1])
        except TimeoutException:
            pass
        seen.append(page.run(title))
    holds(len(set(seen)) == 4, f"three times the right arrow shows {seen}")
    page.d.switch_to.active_element.send_keys(Keys.ESCAPE)
    box = page.first("#find input")
    box.send_keys("sings")
    page.run("""window.texts = 0; const given = window.vlt;
        window.vlt = (name, value) => {
            window.texts += name.endsWith('s0');
            given(name, value);
        }""")
    box.send_keys(Keys.ENTER)
    WebDriverWait(page.d, PATIENCE).until(lambda d: "found" in page.first("#find output").text)
    page.settled()
    loads = page.run("return window.texts")
    holds(loads == 1, f"Enter loads the texts {loads} times")


def marks(driver, folder):
    """Orders, conditions, clips that play, and marks that are saved as a list."""
    driver.execute_cdp_cmd("Browser.setDownloadBehavior",
                           {"behavior": "allow", "downloadPath": folder})
    page = Page(driver, os.path.join(folder, "clips.html"))
    names = lambda: page.run("return [...document.querySelectorAll('.card strong')]"
                             ".map(e => e.textContent[5]).join('')")
    until(lambda: len(names()) == 4, "the page does not show 4 cards")
    order = Select(page.first("select[aria-label=Order]"))
    for name, first in (("Number", "12"), ("Shortest first", "34"), ("Longest first", "12")):
        order.select_by_visible_text(name)
        until(lambda: sorted(names()[:2]) == list(first), f"by {name}: {names()}")
        page.settled()
    box = page.first("#find input")
    box.send_keys("caption frames>1", Keys.ENTER)
    until(lambda: sorted(names()) == ["1", "2"], f"frames>1 shows {names()}")
    page.settled()
    box.clear()
    box.send_keys("clip", Keys.ENTER)
    until(lambda: len(names()) == 4, f"'clip' finds {names()}")
    page.settled()
    order.select_by_visible_text("Number")
    until(lambda: names() == "1234", f"'clip' shows {names()}")
    page.settled()
    card = page.all(".card")[0]
    ActionChains(page.d).move_to_element(card).perform()
    until(lambda: page.run("return document.querySelector('.card video.plays')?.currentTime > 0"),
          "a clip does not play under the pointer")
    page.all(".card")[2].send_keys("x")
    until(lambda: "out" in page.all(".card")[2].get_attribute("class"), "x leaves no sample out")
    page.all(".card")[1].click()
    until(lambda: page.run("return document.querySelector('dialog video')?.currentTime > 0"),
          "a clip does not play in the dialog")
    text = page.first("dialog textarea")
    text.clear()
    text.send_keys('another "caption" é x')
    text.send_keys(Keys.ARROW_LEFT, Keys.ARROW_RIGHT, Keys.BACKSPACE, Keys.BACKSPACE)
    page.d.switch_to.active_element.send_keys(Keys.ESCAPE)
    until(lambda: "s=" not in page.run("return location.hash"), "Escape does not close the dialog")
    page.d.refresh()
    page.ready()
    until(lambda: "1 left out, 1 with other captions" in page.first(".marks").text,
          "a reload loses the marks")
    page.first(".marks button").click()
    saved = os.path.join(folder, "clips.lmdb.edits.jsonl")
    until(lambda: os.path.exists(saved), "the list is not saved")
    faults.extend(page.errors())


def inputs(driver, address, scheme="file://"):
    """Reference pictures and control clips stand beside the target, in cards and in the dialog.
    Sample i has i % 5 pictures, of which the fourth is elsewhere, and every third a clip."""
    page = Page(driver, address, scheme)
    shown = lambda of: page.run("""return [...arguments[0].querySelectorAll('.inputs > *')].map(
        e => [e.title || e.textContent, e.naturalWidth || e.videoWidth || 0])""", of)
    cards = {card.text.split("/")[0].split()[-1]: card for card in page.all(".card")}
    for sample, want in (("60", [["control", 64]]), ("65", []),
                         ("64", [["reference 1", 64], ["reference 2", 128], ["reference 3", 192],
                                 ["reference 4 is elsewhere", 0]]),
                         ("63", [["reference 1", 64], ["reference 2", 128], ["reference 3", 192],
                                 ["control", 64]])):
        page.run("arguments[0].scrollIntoView({ block: 'center' })", cards[sample])
        until(lambda: shown(cards[sample]) == want,
              f"{page.d.current_url}: sample {sample} has {shown(cards[sample])}, expected {want}")
        boxes = page.run("""const box = e => e.getBoundingClientRect(), c = box(arguments[0]);
            const t = box(arguments[0].querySelector('.target'));
            return [...arguments[0].querySelectorAll('.inputs > *')].map(box).filter(
                b => b.left < t.right || b.right > c.right || b.bottom > t.bottom + 1 ||
                     b.height < 20)""",
                         cards[sample])
        holds(not boxes, f"inputs of sample {sample} stand at {boxes}")
    holds("reference 2" in cards["63"].accessible_name,
          f"a card is named {cards['63'].accessible_name}")
    ActionChains(page.d).move_to_element(cards["63"]).perform()
    until(lambda: page.run("return arguments[0].querySelector('.inputs video').currentTime > 0",
                           cards["63"]), "a control clip does not play under the pointer")
    cards["63"].click()
    until(lambda: page.all("dialog[open]"), "the dialog does not open")
    want = ["reference 1: ", "reference 2: ", "reference 3: ", "control: "]
    texts = [e.text for e in page.all("dialog .clip + figcaption")]
    holds([t[:len(w)] for t, w in zip(texts, want)] == want and len(texts) == 4,
          f"the dialog has the inputs {texts}")
    holds("64×32, resized to 32×16" in texts[0], f"the dialog says {texts[:1]}")
    until(lambda: page.run("""return [...document.querySelectorAll(
        'dialog .clip > img, dialog .clip > video')].map(e => e.naturalWidth || e.videoWidth)""") ==
          [64, 128, 192, 64], "the dialog lacks an input")
    page.d.switch_to.active_element.send_keys(Keys.ESCAPE)
    page.errors()                      # of the picture that is elsewhere


def sounds(driver, address, scheme="file://"):
    """A sample with sound has a player of the clip's part of the source, and a picture of the
    stored latent. Clip 2 has no sound, and the file of clip 3 is elsewhere."""
    page = Page(driver, address, scheme)
    facts = {card.find_element(By.TAG_NAME, "strong").text: card for card in page.all(".card")}
    holds({name: "sound" in card.find_element(By.CLASS_NAME, "facts").text
           for name, card in facts.items()} == {"1.mp4": True, "2.mp4": False, "3.mp4": True},
          f"the cards say {[card.text for card in facts.values()]}")

    def opened(name):
        facts[name].click()
        until(lambda: page.all("dialog[open]"), "the dialog does not open")

    def closed():
        page.d.switch_to.active_element.send_keys(Keys.ESCAPE)
        until(lambda: not page.all("dialog[open]"), "the dialog does not close")

    opened("1.mp4")
    begin, end = page.run("""const r = current.record, begin = r.frames[0] / r.source.fps;
        return [begin, begin + r.frames.length / r.fps]""")
    state = lambda what: page.run("return document.querySelector('dialog audio')." + what)
    until(lambda: state("readyState") > 0, "the player has no sound")
    holds(state("src").endswith(f"1.mp4#t={begin:.3f},{end:.3f}") or not scheme,
          f"the player plays {state('src')}, expected {begin:.3f} to {end:.3f}")
    parts, wide = page.run("""const p = document.querySelector('dialog .wave path');
        return [p.getAttribute('d').split('M').length - 1,
                p.ownerSVGElement.getBoundingClientRect().width]""")
    holds(parts == 192 and wide > 200, f"the wave has {parts} parts on {wide} pixels")
    picture = page.first("dialog .sound canvas")
    wide, high, kinds = page.run("""const c = arguments[0];
        const all = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        return [c.width, c.height, new Set(all.filter((v, i) => i % 4 === 0)).size]""", picture)
    holds((wide, high) == (round(25 * (end - begin)), 16) and kinds > 8,
          f"the picture of a latent is {wide}x{high}, of {kinds} grays")
    holds(picture.size["height"] > 100 and page.first("dialog audio").size["width"] > 200,
          "the sound is not shown")
    page.run("document.querySelector('dialog audio').play()")
    until(lambda: state("paused") and state("currentTime") > begin + 0.1,
          "the player does not play to the end of the clip")
    holds(abs(state("currentTime") - end) < 0.3,
          f"the player stops at {state('currentTime')}, the clip ends at {end}")
    page.first("dialog .wave").click()
    until(lambda: state("currentTime") > (begin + end) / 2 - 0.05,
          "a click on the middle of the wave does not play from there")
    closed()
    opened("2.mp4")
    holds(not page.all("dialog .sound"), "a clip without sound has some")
    closed()
    faults.extend(page.errors())
    opened("3.mp4")
    until(lambda: page.all("dialog .sound p"), "nothing says that a sound does not play")
    holds("elsewhere" in page.first("dialog .sound p").text and page.all("dialog .sound canvas"),
          "of a sound whose file is elsewhere the latent is not shown")
    closed()
    page.first("input[type=search]").send_keys("sound>0", Keys.ENTER)
    until(lambda: "2 found" in page.first("#find output").text, "sound>0 does not find 2 samples")
    page.errors()                      # of the file that is elsewhere


def add_steps(run, steps):
    """Adds steps to a run, written as vtrain writes them."""
    with open(os.path.join(run, "metrics.jsonl"), "a") as f:
        for step in steps:
            f.write('{"step":%d,"epoch":%g,"loss":1,"lr":1e-5,"grad_norm":1,"tokens_per_s":100,'
                    '"step_s":36,"data_wait_s":0,"peak_bytes":1048576,"bucket":"8x8"}\n'
                    % (step, step / 10))


def served(driver, folder):
    """A page that follows its run, keeps what its reader chose, and outlives its server."""
    runs = os.path.join(folder, "served")
    server = Server(runs)
    page = Page(driver, server.url + "run/one/", scheme="")
    follows = lambda word: word in page.first(".follows").text
    until(lambda: follows("follows its server"), "the page does not say that it follows")
    page.run("window.notLoadedAgain = true")
    plays(page, ".steps video")
    inputs = page.run("""return [...document.querySelectorAll('.inputs img')]
        .map(e => e.naturalWidth)""")
    holds(inputs == [32, 32], f"the served inputs are {inputs} wide")
    usable(page, "the served page of a run")
    page.run("window.notLoadedAgain = true")
    slide(page, page.first(".controls:not(.still) input[type=range]"), 6)
    drawn, clips = page.drawn(), len(page.all(".steps figure"))
    step = os.path.join(runs, "one", "validation", "step-400")
    shutil.copytree(os.path.join(runs, "one", "validation", "step-300"), step)
    add_steps(os.path.join(runs, "one"), range(301, 411))
    until(lambda: "Step 410 of 410" in page.first("main").text, "the page does not follow the run")
    until(lambda: len(page.all(".steps figure")) == clips + 2, "the new pictures do not come")
    holds(page.drawn() != drawn, "the charts do not follow the run")
    holds(page.labels("x")[-1] == "400", f"x ends with {page.labels('x')[-1:]}")
    pair = [s.first_selected_option.text for s in map(Select, page.all(".pair select"))]
    holds(pair == ["step 0", "step 400"] * 2, f"the pairs show {pair}")
    until(lambda: page.run("""return [...document.querySelectorAll('.steps img')].pop()
        .naturalWidth"""), "the new picture is not shown")
    holds(page.run("return window.notLoadedAgain") and
          page.first(".controls:not(.still) input[type=range]").get_attribute("value") == "6",
          "the page was loaded again, or lost the smoothing")
    server.stop()
    until(lambda: follows("does not answer"), "the page does not say that its server is gone")
    known = page.errors                # of the requests that nobody answered
    known()
    server = Server(runs, port=server.url.rstrip("/").rsplit(":", 1)[1])
    until(lambda: follows("follows its server"), "the page does not find its server again")
    known()
    page = Page(driver, server.url, scheme="")
    shown = page.run("return document.querySelectorAll('.card img, .card video').length")
    holds(shown == 5, f"the comparison has {shown} pictures, expected 2, a wave and 2 inputs")
    shutil.copytree(os.path.join(runs, "two"), os.path.join(runs, "three"))
    plays(page, ".card video")
    usable(page, "the served page of runs")
    until(lambda: "three" in page.first("main nav").text, "a new run is not shown")
    to = lambda: page.d.current_url.endswith("/run/one/")
    until(lambda: to() or page.first("main nav a").click(), "the link does not lead to the run")
    page.ready()
    faults.extend(page.errors())
    driver.get("about:blank")          # before the server ends, as its absence is an error
    server.stop()


def served_browse(driver, folder):
    """The clips of a dataset play over HTTP too, and inputs are shown."""
    server = Server("edits.lmdb", "--browse", "edits-http.html")
    inputs(driver, server.url + "edits-http.html#q=number%3E57", scheme="")
    driver.get("about:blank")
    server.stop()
    server = Server("sounds.lmdb", "--browse", "sounds-http.html")
    sounds(driver, server.url + "sounds-http.html", scheme="")
    driver.get("about:blank")
    server.stop()
    server = Server("clips.lmdb", "--browse", "over-http.html")
    page = Page(driver, server.url, scheme="")
    until(lambda: len(page.all(".card strong")) == 4, "the served page does not show 4 cards")
    ActionChains(page.d).move_to_element(page.all(".card")[0]).perform()
    until(lambda: page.run("return document.querySelector('.card video.plays')?.currentTime > 0"),
          "a clip does not play over HTTP")
    page.all(".card")[1].click()
    until(lambda: page.run("return document.querySelector('dialog video')?.currentTime > 0"),
          "a clip does not play over HTTP in the dialog")
    faults.extend(page.errors())
    driver.get("about:blank")
    server.stop()


def steady(folder):
    """The parts of every page keep their places while it loads."""
    served = os.path.isdir(os.path.join(folder, "served"))
    server = Server("served") if served else None
    browser = Steady(folder)
    chosen = '{"unit":"hours","share":6,"range":[0.2,0.5],"log 0":true,"hide 0 smoothed":true}'
    try:
        for name in ("one", "compare", "dataset", "set", "clips", "pairs", "clips.html#q=clip&b0=0",
                     "pairs.html#q=clip&pair=1", "edits.html#q=number%3E57"):
            for width in (1280, 390):
                faults.extend(browser.faults(name if "." in name else name + ".html", width))
        browser.choose("one.html", chosen)
        for width in (1280, 390):
            faults.extend(browser.faults("one.html", width))
        for name in ("one.html", "dataset.html", "clips.html"):
            faults.extend(browser.faults(name, 390, slow=False))
        for name in ("run/one/", "") if served else ():
            for width in (1280, 390):
                faults.extend(browser.faults(name, width, other=server.url))
    finally:
        browser.close()
        if server:
            server.stop()


def opening(driver, folder, name, unit):
    """Prints the least time of several loads, and that of the page's own work."""
    def busy():
        return {m["name"]: m["value"] for m in driver.execute_cdp_cmd(
            "Performance.getMetrics", {})["metrics"]}["ProcessTime"]
    least = work = 1e9
    driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
    for _ in range(5):
        driver.get("file://" + os.path.join(folder, "one.html"))
        before = busy()
        page = Page(driver, os.path.join(folder, name))
        until(lambda: page.all(".chart.live, .card img"), f"{name} shows nothing")
        work = min(work, busy() - before)
        least = min(least, page.run("return performance.timing.loadEventEnd -"
                                    " performance.timing.navigationStart"))
    print(f"{unit}: ready after {least:.0f} ms at best, {1000 * work:.0f} ms of the browser's work")
    holds(work < 3, f"{name}: {work:.1f} s of the browser's work")     # others' work counts not


def without_script(driver, path):
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    driver.get("file://" + path)
    svgs = driver.find_elements(By.CSS_SELECTOR, "figure.lines svg")
    holds(len(svgs) >= 5 and all(s.is_displayed() for s in svgs),
          f"without a script {len(svgs)} charts are pictures")
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def main():
    folder = sys.argv[1]
    driver = browser()
    try:
        page = Page(driver, os.path.join(folder, "one.html"))
        pointer_and_zoom(page)
        keys(page)
        settings(page)
        pictures(page)
        heard(page)
        narrow_and_dark(page)
        both = Page(driver, os.path.join(folder, "both.html"))
        holds(len(both.all(".chart.live")) >= 5, "two runs have no charts")
        opening(driver, folder, "long.html", "100,000 steps")
        opening(driver, folder, "set.html", "10,000 samples")
        long = Page(driver, os.path.join(folder, "long.html"))
        holds(long.labels("x")[-1] in ("80000", "100000", "1e5"), f"x ends with {long.labels('x')}")
        browse(Page(driver, os.path.join(folder, "set.html")))
        faults.extend(page.errors())
        marks(driver, folder)
        pairs(driver, folder)
        inputs(driver, os.path.join(folder, "edits.html#q=number%3E57"))
        sounds(driver, os.path.join(folder, "sounds.html"))
        for name in ("one", "both", "compare", "set", "clips", "pairs", "dataset", "edits",
                     "sounds"):
            usable(Page(driver, os.path.join(folder, name + ".html")), name)
        if os.path.isdir(os.path.join(folder, "served")):
            served(driver, folder)
            served_browse(driver, folder)
        without_script(driver, os.path.join(folder, "one.html"))
    finally:
        driver.quit()
    steady(folder)
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
