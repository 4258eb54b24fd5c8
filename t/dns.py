#!/usr/bin/env python3
# A name server for the tests that does what the first label of a name says, and
# a server at each address that it may lead to. DIR/names has a line for each
# question, DIR/reached one for each connection: the address that was reached.
# Usage: dns.py DIR GOOD BAD...: addresses; the name server is at 127.0.0.53.
#
#   one.NAME      GOOD, and so are good.NAME and api.NAME; evil.NAME, docs.NAME
#                 and xdocs.NAME are the first BAD
#   flip-N.NAME   GOOD and 127.0.0.1 in turns, whatever N
#   both.NAME     GOOD and 127.0.0.1; htob.NAME: in the other order
#   many.NAME     BAD ..., GOOD in the middle
#   alias.NAME    a CNAME to localhost, and its address
#   chain.NAME    a CNAME to one.NAME, and its address
#   bad.NAME      127.0.0.1; six.NAME: ::1; mapped.NAME: ::ffff:127.0.0.1
#   wrap.NAME     64:ff9b::7f00:1 and 2002:7f00:1::
#   -ttl0 behind the label: a life of 0 s, else an hour
import os
import socket
import struct
import sys
import threading
import time

directory, good, bad = sys.argv[1], sys.argv[2], sys.argv[3:]
lock = threading.Lock()
asked = {}


def note(name, text):
    with lock, open(directory + "/" + name, "a", encoding="ascii") as f:
        f.write(text + "\n")


def name_bytes(name):
    return b"".join(bytes([len(p)]) + p.encode() for p in name.split(".")) + b"\0"


def record(name, kind, data, ttl):
    return name_bytes(name) + struct.pack(">HHIH", kind, 1, ttl, len(data)) + data


def addresses(word):
    n = asked[word] = asked.get(word, 0) + 1
    if word == "flip":
        return [good] if n % 2 == 1 else ["127.0.0.1"]
    if word in ("good", "api"):
        return [good]
    if word in ("evil", "docs", "xdocs"):
        return bad[:1]
    return {"one": [good], "both": [good, "127.0.0.1"],
            "htob": ["127.0.0.1", good], "bad": ["127.0.0.1"],
            "many": bad[:2] + [good] + bad[2:], "alias": ["127.0.0.1"],
            "chain": [good], "six": ["::1"], "mapped": ["::ffff:127.0.0.1"],
            "wrap": ["64:ff9b::7f00:1", "2002:7f00:1::"]}.get(word, [])


def answer(question):
    ident, = struct.unpack(">H", question[:2])
    labels, at = [], 12
    while question[at]:
        labels.append(question[at + 1:at + 1 + question[at]].decode())
        at += 1 + question[at]
    kind, = struct.unpack(">H", question[at + 1:at + 3])
    name = ".".join(labels).lower()
    word = labels[0].lower().split("-")[0]
    ttl = 0 if labels[0].endswith("-ttl0") else 3600
    note("names", "%s %d" % (name, kind))
    records, owner = [], name
    if word in ("alias", "chain"):
        owner = "localhost" if word == "alias" else "one." + name.split(".", 1)[1]
        records.append(record(name, 5, name_bytes(owner), ttl))
    family, wanted = (socket.AF_INET6, ":") if kind == 28 else (socket.AF_INET, ".")
    if kind == 1 or word in ("six", "mapped", "wrap"):
        for a in addresses(word):
            if (":" in a) == (wanted == ":"):
                records.append(record(owner, kind, socket.inet_pton(family, a), ttl))
    return (struct.pack(">HHHHHH", ident, 0x8180, 1, len(records), 0, 0)
            + question[12:at + 5] + b"".join(records))


def names():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("127.0.0.53", 53))
    while True:
        question, peer = s.recvfrom(1500)
        try:
            s.sendto(answer(question), peer)
        except (IndexError, struct.error, UnicodeError):
            pass


def talk(c, own):
    note("reached", own)
    with c:
        c.settimeout(20)
        try:
            while True:
                head = b""
                while b"\r\n\r\n" not in head:
                    part = c.recv(4096)
                    if not part:
                        return
                    head += part
                line = head.split(b"\r\n")[0].decode("latin-1")
                note("requests", own + " " + line)
                more = b"" if "/keep" in line else b"Connection: close\r\n"
                c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%s\r\n%s"
                          % (len(own), more, own.encode()))
                if more:
                    return
        except OSError:
            pass


def listen(own):
    s = socket.socket(socket.AF_INET6 if ":" in own else socket.AF_INET)
    if ":" in own:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((own, 80))
    s.listen(64)
    while True:
        c, _ = s.accept()
        threading.Thread(target=talk, args=(c, own), daemon=True).start()


for name in ("names", "reached", "requests"):
    open(directory + "/" + name, "w", encoding="ascii").close()
for own in [good, "127.0.0.1"] + bad + (["::1"] if socket.has_ipv6 else []):
    threading.Thread(target=listen, args=(own,), daemon=True).start()
threading.Thread(target=names, daemon=True).start()
time.sleep(0.3)
open(directory + "/up", "w", encoding="ascii").close()
parent = os.getppid()
while os.getppid() == parent:
    time.sleep(0.2)
