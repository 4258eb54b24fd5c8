#!/usr/bin/env python3
# A web server for the tests that misbehaves on demand. It writes the ports it
# listens on (one for each name given) to DIR/ports and a line for each request
# to DIR/log: port, request line, then one line for each header it got.
# Usage: web.py DIR COUNT
import gzip
import http.server
import os
import socketserver
import sys
import threading
import time
import urllib.parse
import zlib

directory, count = sys.argv[1], int(sys.argv[2])
lock = threading.Lock()


def bomb():
    # 1 GiB of zeros in 1 MiB, one stream: after a full flush parts repeat
    c = zlib.compressobj(9, zlib.DEFLATED, -15)
    part = c.compress(b"\0" * (16 << 20)) + c.flush(zlib.Z_FULL_FLUSH)
    return b"\x1f\x8b\x08\0\0\0\0\0\0\x03" + part * 64


def empties():
    # Packed twice, and nothing at the end: members without a byte, for 1 GiB
    return gzip.compress(gzip.compress(b"") * (1 << 20)) * 52


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def note(self):
        port = self.server.server_address[1]
        with lock, open(directory + "/log", "a", encoding="latin-1") as f:
            f.write("%d %s\n" % (port, self.requestline))
            for name, value in self.headers.items():
                f.write("%d   %s: %s\n" % (port, name.lower(), value))
            f.write("%d   from: %d\n" % (port, self.client_address[1]))
            n = int(self.headers.get("content-length", 0))
            self.body = self.rfile.read(n)
            if n:
                f.write("%d   body: %r\n" % (port, self.body))

    def reply(self, status, body=b"", **headers):
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Transfer_Encoding" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def answer(self):
        self.note()
        url = urllib.parse.urlsplit(self.path)
        raw = urllib.parse.unquote_to_bytes(url.query)
        to = raw.decode("latin-1")  # as http.server encodes header fields
        what = url.path.strip("/").split("/")
        if what[0] == "to":  # /to/STATUS?URL
            self.reply(int(what[1]), b"gone", Location=to)
        elif what[0] == "loop":
            n = int(what[1])
            if n == 0:
                self.reply(200, b"arrived")
            else:
                self.reply(302, Location="/loop/%d" % (n - 1))
        elif what[0] == "status":
            self.reply(int(what[1]), b"status " + what[1].encode())
        elif what[0] == "gzip":
            self.reply(200, gzip.compress(b"unpacked"),
                       Content_Encoding="gzip", X_Twice="a")
        elif what[0] == "brotli":  # "hello", as brotli(1) writes it
            self.reply(200, bytes.fromhex("0b028068656c6c6f03"),
                       Content_Encoding="br")
        elif what[0] == "bomb":
            self.reply(200, bomb(), Content_Encoding="gzip")
        elif what[0] == "empties":
            self.reply(200, empties(), Content_Encoding="gzip, gzip")
        elif what[0] == "size":
            self.reply(200, b"x" * int(what[1]))
        elif what[0] == "bytes":
            self.reply(200, bytes(range(256)))
        elif what[0] == "slow":
            time.sleep(float(what[1]))
            self.reply(200, b"late")
        elif what[0] == "endless":
            self.reply(200, Transfer_Encoding="chunked")
            while True:
                self.chunk(b"y" * 65536)
        elif what[0] == "heads":
            self.send_response_only(200)
            for i in range(int(what[1])):
                self.send_header("X-%d" % i, "z" * 1000)
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif what[0] == "cookie":
            self.send_response_only(200)
            self.send_header("Set-Cookie", "a=1")
            self.send_header("Set-Cookie", "b=2")
            self.send_header("X-Two", "1")
            self.send_header("X-Two", "2")
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif what[0] == "cut":
            self.send_response_only(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            self.wfile.write(b"half")
            self.close_connection = True
        elif what[0] == "raw":  # /raw?ALL-OF-THE-ANSWER
            self.wfile.write(raw)
            self.close_connection = True
        elif what[0] == "garbage":
            self.wfile.write(b"no HTTP at all\r\n\r\n")
            self.close_connection = True
        else:
            self.reply(200, b"hello")

    do_GET = do_HEAD = do_POST = answer


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, client_address):
        pass


servers = [Server(("127.0.0.1", 0), Handler) for _ in range(count)]
for s in servers:
    threading.Thread(target=s.serve_forever, daemon=True).start()
open(directory + "/log", "w").close()
with open(directory + "/ports.new", "w", encoding="ascii") as f:
    f.write("\n".join(str(s.server_address[1]) for s in servers) + "\n")
os.rename(directory + "/ports.new", directory + "/ports")
while os.getppid() != 1:
    time.sleep(0.5)
