#!/usr/bin/env python3
# TLS servers for the tests that end their answers in one way each, whatever is
# asked. The ports they listen on go to DIR/tls-ports, in the order of KINDS.
# Usage: tls.py DIR CERTIFICATE KEY
import os
import socket
import ssl
import sys
import threading
import time

directory, certificate, key = sys.argv[1:]
# "closed" sends a close_notify; "old" has TLS 1.2, "h2" HTTP/2
KINDS = ["closed", "closed old", "cut", "cut old", "cut h2", "closed h2",
         "whole h2", "reset", "client", "client h2"]
HEAD = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"


def frame(kind, flags, stream, data=b""):
    return (len(data).to_bytes(3, "big") + bytes([kind, flags]) +
            stream.to_bytes(4, "big") + data)


# SETTINGS; HEADERS with ":status: 200", then DATA that is not the last
HEAD2 = frame(4, 0, 0) + frame(1, 4, 1, b"\x88") + frame(0, 0, 1, b"partial")


def read_request2(f):
    f.read(24)
    kind = None
    while kind != 1:  # HEADERS
        head = f.read(9)
        f.read(int.from_bytes(head[:3], "big"))
        kind = head[3]


def answer(s, kind):
    if kind == "reset":
        s.recv(65536)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        return
    if kind.endswith("h2"):
        f = s.makefile("rb")
        read_request2(f)
        s.sendall(HEAD2)
        if kind == "whole h2":
            s.sendall(frame(0, 1, 1))
            f.read()
    else:
        s.recv(65536)
        s.sendall(HEAD + b"partial")
    if kind.startswith("closed"):
        try:
            s.unwrap()  # with a close_notify
        except OSError:
            pass


def serve(listener, kind):
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    if kind.endswith("old"):
        tls.maximum_version = ssl.TLSVersion.TLSv1_2
    if kind.startswith("client"):
        tls.verify_mode = ssl.CERT_REQUIRED
    if kind.endswith("h2"):
        tls.set_alpn_protocols(["h2"])
    while True:
        plain = listener.accept()[0]
        try:
            with tls.wrap_socket(plain, server_side=True,
                                 do_handshake_on_connect=False) as s:
                try:
                    s.do_handshake()
                except ssl.SSLError:  # no reset while the alert is on its way
                    while os.read(s.fileno(), 65536):
                        pass
                    continue
                answer(s, kind)
        except OSError:
            pass
        plain.close()


listeners = [socket.create_server(("127.0.0.1", 0)) for _ in KINDS]
for listener, kind in zip(listeners, KINDS):
    threading.Thread(target=serve, args=(listener, kind), daemon=True).start()
with open(directory + "/tls-ports.new", "w", encoding="ascii") as f:
    f.write(" ".join(str(s.getsockname()[1]) for s in listeners) + "\n")
os.rename(directory + "/tls-ports.new", directory + "/tls-ports")
while os.getppid() != 1:
    time.sleep(0.5)
