#!/usr/bin/env python3
"""Records a command in a terminal, and films the recording with the page of the run.

    record.py run FILE COMMAND...          runs COMMAND in a terminal of 100 x 28 characters; FILE
                                           gets its output, a line of JSON [seconds, text] a piece
    record.py film FILE PAGE FOLDER TEXT   pictures FOLDER/00000.png, ... of 960 x 600, RATE a
                                           second: TEXT is typed, the recording is played in
                                           TERMINAL seconds, and PAGE, a report.html, is shown

Only film needs more than Python: selenium, chromium and chromedriver. scripts/pictures calls both.
"""
import fcntl
import html
import json
import os
import pathlib
import pty
import re
import struct
import sys
import termios
import time

COLUMNS, ROWS = 100, 28
RATE = 8
TERMINAL = 10
PIECE = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)|\x1b")
TERMINAL_PAGE = """<!DOCTYPE html><style>
body { margin: 0; background: #14181d; color: #d7dde4 }
pre { margin: 14px 18px; font: 15px/1.36 "DejaVu Sans Mono", monospace; white-space: pre }
</style><pre id="t"></pre>"""


def run(path, command):
    """Runs the command, shows its output and returns its exit status."""
    begin, (pid, fd) = time.monotonic(), pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm-256color"
        os.execvp(command[0], command)
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    with open(path, "w") as out:
        while True:
            try:
                text = os.read(fd, 65536)
            except OSError:                     # the terminal of a process that has ended
                break
            if not text:
                break
            os.write(1, text)
            piece = [round(time.monotonic() - begin, 3), text.decode(errors="replace")]
            out.write(json.dumps(piece) + "\n")
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class Screen:
    """The lines of a terminal that knows returns, new lines and the end of a line's removal."""

    def __init__(self, first):
        self.lines, self.column = [first, ""], 0

    def write(self, text):
        for m in PIECE.finditer(text):
            line = self.lines[-1]
            if m[3] == "\n":
                self.lines.append("")
                self.column = 0
            elif m[3] == "\r":
                self.column = 0
            elif m[2] == "K":
                self.lines[-1] = line[:self.column]
            elif m[4]:
                end = self.column + len(m[4])
                self.lines[-1] = line[:self.column].ljust(self.column) + m[4] + line[end:]
                self.column = end

    def text(self):
        rows = [line[i:i + COLUMNS] for line in self.lines
                for i in range(0, max(len(line), 1), COLUMNS)]
        return "\n".join(rows[-ROWS:])


class Film:
    def __init__(self, folder):
        from selenium import webdriver
        from selenium.webdriver.chrome.options import Options
        from selenium.webdriver.chrome.service import Service
        options = Options()
        for word in ("--headless", "--no-sandbox", "--hide-scrollbars", "--window-size=960,600",
                     "--allow-file-access-from-files"):
            options.add_argument(word)
        self.driver = webdriver.Chrome(service=Service("chromedriver"), options=options)
        inner = self.driver.execute_script("return [innerWidth, innerHeight]")
        self.driver.set_window_size(2 * 960 - inner[0], 2 * 600 - inner[1])
        self.folder, self.n = folder, 0

    def take(self, seconds=1 / RATE):
        """Adds the page as it is for some time."""
        picture = self.driver.get_screenshot_as_png()
        for _ in range(max(1, round(seconds * RATE))):
            (self.folder / f"{self.n:05d}.png").write_bytes(picture)
            self.n += 1

    def show(self, text):
        self.driver.execute_script("document.getElementById('t').innerHTML = arguments[0]",
                                   html.escape(text))

    def terminal(self, pieces, command):
        self.driver.get("data:text/html," + TERMINAL_PAGE.replace("#", "%23"))
        for n in range(0, len(command) + 1, 2):
            self.show("$ " + command[:n] + "\u2588")
            self.take()
        screen, frames, at = Screen("$ " + command), TERMINAL * RATE, 0
        for frame in range(1, frames + 1):
            until = pieces[-1][0] * frame / frames
            while at < len(pieces) and pieces[at][0] <= until:
                screen.write(pieces[at][1])
                at += 1
            self.show(screen.text())
            self.take()
        self.take(1.5)

    def page(self, path):
        self.driver.get(path.resolve().as_uri())
        time.sleep(1)
        self.take(1)
        move = """const h = document.querySelectorAll('.choice input[type=range]')[arguments[0]];
                  h.scrollIntoView({block: 'end'}); h.value = arguments[1];
                  h.dispatchEvent(new Event('input'));"""
        for prompt in (0, 1):
            for value in [*range(50, 96, 9), *range(95, 4, -9), *range(5, 51, 9)]:
                self.driver.execute_script(move, prompt, value)
                self.take()
        y = self.driver.execute_script("return scrollY")
        goal = self.driver.execute_script("""const h = [...document.querySelectorAll('h2')]
            .find(h => h.textContent == 'Loss');
            return scrollY + h.getBoundingClientRect().top - 20""")
        for i in range(1, 9):
            self.driver.execute_script("scrollTo(0, arguments[0])", y + (goal - y) * i / 8)
            self.take()
        self.take(2)


def film(path, page, folder, command):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with open(path) as f:
        pieces = [json.loads(line) for line in f]
    it = Film(folder)
    it.terminal(pieces, command)
    it.page(pathlib.Path(page))
    it.driver.quit()
    print(f"{it.n} pictures in {folder}")


if len(sys.argv) > 3 and sys.argv[1] == "run":
    sys.exit(run(sys.argv[2], sys.argv[3:]))
if len(sys.argv) == 6 and sys.argv[1] == "film":
    film(*sys.argv[2:])
else:
    sys.exit(__doc__)
