"""Measures whether a page keeps its parts in their places while it loads, however slow the machine
or the network is.

A server gives the page a part at a time: the next part comes when the browser has painted what it
has, so that every state that a slow machine may show is shown, whatever the speed of this one.
Another load is of the whole page at a twentieth of the processor's speed."""
import http.server
import mimetypes
import os
import re
import threading
import time
import urllib.request
from urllib.parse import unquote

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

# A page is cut before these, at most CUTS times besides its scripts.
PARTS = re.compile(rb"<(?=h1|h2|h3|p\b|p>|nav|table|tr|figure|div|svg|/figure|label|output|form|"
                   rb"dialog)")
SCRIPTS = re.compile(rb"<script>|</script>")
CUTS, PATIENCE = 25, 300                         # PATIENCE: seconds for a page

WATCH = """
window.moved = []; window.painted = 0;
const tell = n => !n ? 'a part that is gone' : n.nodeType === 3 ? tell(n.parentNode) + ' text' :
  n.tagName.toLowerCase() + (n.className ? '.' + n.className : '') + ' ' +
  n.textContent.trim().slice(0, 30);
new PerformanceObserver(list => list.getEntries().forEach(e => window.moved.push([e.value,
  e.sources.map(s => `${tell(s.node)}: ${[s.previousRect, s.currentRect].map(r =>
    [r.x, r.y, r.width, r.height].map(Math.round)).join(' -> ')}`)])))
  .observe({ type: 'layout-shift', buffered: true });
(function frame() { window.painted++; requestAnimationFrame(frame); })();
"""
DONE = """return document.readyState === 'complete' && !document.querySelector('.card:empty') &&
  !document.querySelector('[aria-busy=true]') && (!document.querySelector('.chart.live') ||
  !document.querySelector('figure.lines .chart:not(.live)'))"""


def parts_of(page):
    """The page in parts: each script by itself, the rest in about CUTS."""
    at = [m.start() for m in PARTS.finditer(page)]
    at = at[::max(1, len(at) // CUTS)]
    at += [m.end() if m.group().startswith(b"</") else m.start() for m in SCRIPTS.finditer(page)]
    at = [0, *sorted(set(a for a in at if 0 < a < len(page))), len(page)]
    return [page[a:b] for a, b in zip(at, at[1:])]


class Gate:
    """Lets a part through at a time, or all."""
    def __init__(self):
        self.changed = threading.Condition()
        self.open, self.permits, self.waiting = True, 0, 0

    def wait(self):
        with self.changed:
            self.waiting += 1
            self.changed.wait_for(lambda: self.open or self.permits, PATIENCE)
            self.waiting -= 1
            self.permits -= self.permits > 0

    def let(self, n=1, all_of_them=False):
        with self.changed:
            self.permits, self.open = n, all_of_them
            self.changed.notify_all()


class Handler(http.server.BaseHTTPRequestHandler):
    """Gives files of a folder, and what another server has under the same address."""
    def answer(self):
        path = os.path.join(self.server.folder, unquote(self.path.split("?")[0]).lstrip("/"))
        if os.path.isfile(path):
            with open(path, "rb") as f:
                return f.read(), {"Content-Type": mimetypes.guess_type(path)[0] or "text/plain"}
        request = urllib.request.Request(self.server.other + self.path, method=self.command)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            kept = "Content-Type", "ETag", "Date", "Last-Modified"
            return answer.read(), {k: v for k, v in answer.headers.items() if k in kept}

    def do_GET(self):
        try:
            data, headers = self.answer()
        except (OSError, ValueError):
            self.send_error(404)
            return
        self.send_response_only(200)
        for name, value in headers.items():
            self.send_header(name, value)
        if self.command == "GET":
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        try:
            for part in parts_of(data) if "html" in headers["Content-Type"] else [data]:
                self.server.gate.wait()
                self.wfile.write(part)
                self.wfile.flush()
        except OSError:
            pass                                 # the browser went to another page

    do_HEAD = do_GET

    def log_message(self, *words):
        pass


class Steady:
    def __init__(self, folder):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.folder, self.server.gate, self.server.other = folder, Gate(), ""
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        options = Options()
        options.page_load_strategy = "none"
        for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
            options.add_argument(word)
        self.d = webdriver.Chrome(service=Service("chromedriver"), options=options)
        self.d.set_script_timeout(PATIENCE)
        self.d.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})

    def close(self):
        self.server.gate.let(all_of_them=True)
        self.d.quit()
        self.server.shutdown()

    def paints(self, n=2):
        """Waits until the browser has painted n times more, or has gone to another page. It does
        not wait long: a browser may put off the first frame until more of the page is there."""
        painted = lambda: self.d.execute_script("return window.painted || 0")
        end, before = time.time() + 3, painted()
        while before <= painted() < before + n and time.time() < end:
            time.sleep(0.005)

    def load(self, address, slow, width):
        gate = self.server.gate
        self.d.execute_cdp_cmd("Emulation.setCPUThrottlingRate", {"rate": 1 if slow else 20})
        self.d.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": 3000, "deviceScaleFactor": 1, "mobile": width < 500})
        gate.let(0, all_of_them=not slow)
        self.d.get("about:blank")
        while self.d.execute_script("return location.href") != "about:blank":
            time.sleep(0.01)
        self.d.get(address)
        end = time.time() + PATIENCE
        idle = 0
        while idle < 5 and time.time() < end:
            if slow:
                gate.let(1)
            self.paints()
            done = self.d.execute_script("return location.href !== 'about:blank' &&" +
                                         DONE[len("return"):])
            idle = idle + 1 if done and not gate.waiting else 0
        self.d.execute_cdp_cmd("Emulation.setCPUThrottlingRate", {"rate": 1})
        gate.let(all_of_them=True)
        return idle >= 5

    def faults(self, name, width=1280, slow=True, other=""):
        """Says what moves while the page NAME of the folder, or of the server `other`, loads."""
        self.server.other = other.rstrip("/")
        where = (f"{name} at {width} pixels, loaded " +
                 ("part by part" if slow else "on a slow processor"))
        if not self.load(f"http://127.0.0.1:{self.server.server_port}/{name}", slow, width):
            return [f"{where}: it is not ready after {PATIENCE} s"]
        moved = self.d.execute_script("return window.moved")
        return [f"{where}: parts of the page move (layout shift {sum(m[0] for m in moved):.4f}): " +
                "; ".join(max(moved)[1])] if moved else []

    def choose(self, page, value):
        """Keeps choices for the page as its reader's."""
        self.d.execute_script("sessionStorage.setItem(...arguments)", "vlt /" + page, value)
