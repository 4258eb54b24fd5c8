#!/usr/bin/python3
"""The conformance driver for skills in Python; see t/73-clients.t."""

from __future__ import annotations

import json
import sys
import threading
from typing import Any, Dict, List

import cyberos


def show(result: Dict[str, Any], field: str) -> str:
    if field.startswith("#"):
        return f"done {len(cyberos.body(result, field[1:]))}"
    if field in ("body", "stdout"):
        return f"done {cyberos.body(result, field).hex()}"
    value = result[field]
    return f"done {value if isinstance(value, str) else json.dumps(value)}"


def ask(broker: cyberos.Client, tool: str, field: str,
        args: Dict[str, Any]) -> str:
    try:
        return show(broker.call(tool, args), field)
    except cyberos.Refused as e:
        same = e.reason == e.group
        return f"refused {e.group}" + ("" if same else f" {e.reason}")
    except cyberos.Failed as e:
        return f"failed {e.word}"
    except cyberos.BadArguments:
        return "arguments"
    except cyberos.Gone:
        return "gone"


def cases() -> None:
    with cyberos.Client() as broker:
        for line in sys.stdin:
            tool, field, file = line.rstrip("\n").split("\t")
            with open(file, encoding="utf-8") as f:
                print(ask(broker, tool, field, json.load(f)))


def one() -> None:
    try:
        with cyberos.Client() as broker:
            print(ask(broker, "Read", "body", {"path": "x"}))
    except cyberos.Gone:
        print("gone")


def both(place: str) -> None:
    """Two calls over one connection; the second lets the first end."""
    with cyberos.Client() as broker:
        def slow() -> None:
            result = broker.call(
                "Bash", cmd=f"until [ -e {place}/go ]; do sleep 0.01; done; sleep 0.3",
                timeout_ms=60000)
            said.append("slow " + json.dumps(result["timed_out"]))

        said: List[str] = []
        thread = threading.Thread(target=slow)
        thread.start()
        print(ask(broker, "Write", "bytes",
                  {"path": f"{place}/go", "body": ""}))
        thread.join()
        print(said[0] if said else "no answer")


def words() -> None:
    for group, reason in cyberos.REFUSALS:
        assert issubclass(cyberos.REFUSALS[group, reason],
                          cyberos.GROUPS[group])
        print(group, reason)
    for word in cyberos.FAILURES:
        print("-", word)


if sys.argv[1] == "cases":
    cases()
elif sys.argv[1] == "one":
    one()
elif sys.argv[1] == "both":
    both(sys.argv[2])
elif sys.argv[1] == "words":
    words()
