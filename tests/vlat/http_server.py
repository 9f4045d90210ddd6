"""Serves the working folder on the loopback for the tests of vlat pull and prints the port.

    http_server.py LOG [cut=BYTES] [cuts=N] [ranges=no] [busy=N] [wait=S] [all=yes] [drip=BYTES]
                       [silent=yes] [together=N]

The first `cuts` answers with a body of a shard end after `cut` bytes of the body, by a closed
connection; the first `busy` requests of shards are answered with 503, which asks for `wait` seconds
of peace. Of each body `drip` bytes a second are sent; `silent` never answers. With `all` that holds
for the manifest too. With `together` the first
requests of shards are answered when this many are open at once, else with 500. LOG gets a line for
each request: its path, its range, the bytes sent."""
import http.server
import os
import re
import sys
import threading
import time

log = open(sys.argv[1], "w", buffering=1)
settings = dict(word.split("=") for word in sys.argv[2:])
cut, cuts, busy = (int(settings.get(name, 0)) for name in ("cut", "cuts", "busy"))
together = int(settings.get("together", 1))
barrier = threading.Barrier(together, timeout=20)
lock = threading.Lock()
served = refused = waited = 0


class Handler(http.server.BaseHTTPRequestHandler):
    def refusal(self):
        """The status with which a request of a shard is refused, or 0."""
        global refused, waited
        with lock:
            refused += 1
            waited += 1
            if refused <= busy:
                return 503
            waits = together > 1 and waited <= together
        try:
            if waits:
                barrier.wait()
        except threading.BrokenBarrierError:
            return 500
        return 0

    def send(self, body):
        drip = int(settings.get("drip", 0))
        for i in range(0, len(body), max(drip // 10, 1) if drip else len(body) or 1):
            self.wfile.write(body[i:i + max(drip // 10, 1)] if drip else body)
            if drip:
                time.sleep(0.1 * max(10 / drip, 1))

    def cut_off(self, body):
        global served
        with lock:
            served += 1
            return body[:cut] if served <= cuts else body

    def do_GET(self):
        path = self.path.lstrip("/").split("?")[0]
        shard = path.endswith(".lmdb") or settings.get("all") == "yes"
        if shard and settings.get("silent"):
            time.sleep(60)
            return
        status = self.refusal() if shard else 0
        if status or not os.path.isfile(path):
            if status and "wait" in settings:
                self.send_response(status)
                self.send_header("Retry-After", settings["wait"])
                self.end_headers()
            else:
                self.send_error(status or 404)
            log.write("%s refused %d\n" % (self.path, status or 404))
            return
        data = open(path, "rb").read()
        asked = self.headers.get("Range", "")
        ranges = settings.get("ranges") != "no"
        range = re.fullmatch(r"bytes=(\d+)-(\d*)", asked) if ranges else None
        at = int(range[1]) if range else 0
        end = min(int(range[2]) + 1 if range and range[2] else len(data), len(data))
        if range and at >= len(data):
            self.send_error(416)
            return
        self.send_response(206 if range else 200)
        if range:
            self.send_header("Content-Range", "bytes %d-%d/%d" % (at, end - 1, len(data)))
        body = data[at:end]
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if shard:
            body = self.cut_off(body)
            self.send(body)
        else:
            self.wfile.write(body)
        log.write("%s %s %d\n" % (self.path.lstrip("/"), asked or "-", len(body)))
        self.close_connection = True

    def handle(self):
        """Takes an end of the connection as an end of the request."""
        try:
            super().handle()
        except OSError:
            pass

    def log_message(self, *args):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
