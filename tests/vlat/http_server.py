"""Serves the working folder on the loopback for tests/vlat/pull.sh and prints the port.

    http_server.py LOG [cut=BYTES] [cuts=N] [ranges=no]

The first N answers with a body end after BYTES bytes of the body, by a closed connection. LOG gets
a line for each request: its path, its range, the bytes sent."""
import http.server
import os
import re
import sys

log = open(sys.argv[1], "w", buffering=1)
settings = dict(word.split("=") for word in sys.argv[2:])
cut, cuts = int(settings.get("cut", 0)), int(settings.get("cuts", 0))
served = 0


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        global served
        path = self.path.lstrip("/")
        if not os.path.isfile(path):
            self.send_error(404)
            return
        data = open(path, "rb").read()
        asked = self.headers.get("Range", "")
        first = re.fullmatch(r"bytes=(\d+)-", asked) if settings.get("ranges") != "no" else None
        at = int(first[1]) if first else 0
        self.send_response(206 if first else 200)
        if first:
            self.send_header("Content-Range", "bytes %d-%d/%d" % (at, len(data) - 1, len(data)))
        body = data[at:]
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if path.endswith(".lmdb"):
            served += 1
            if served <= cuts:
                body = body[:cut]
        self.wfile.write(body)
        log.write("%s %s %d\n" % (path, asked or "-", len(body)))
        self.close_connection = True

    def log_message(self, *args):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
