#!/usr/bin/env python3
# Reads what `cyberos skill broker metrics` prints, and shares nothing with it.
# Usage: metrics.py check [open]     the form; each fault a line, exit 1
#        metrics.py ledger STORE     compare with all rows of a store
# The metrics come on standard input.
import collections
import glob
import json
import re
import sys

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
SAMPLE = re.compile(r"(%s)(\{[^}]*\})? (\S+)$" % NAME)
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(,|$)')
SUFFIXES = {
    "counter": ["_total"],
    "gauge": [""],
    "info": ["_info"],
    "histogram": ["_bucket", "_sum", "_count"],
}
faults = []


def fault(number, text):
    faults.append("line %d: %s" % (number, text))


def labels_of(number, text):
    labels, at = [], 1
    end = len(text or "{}") - 1
    while text and at < end:
        m = LABEL.match(text[:end], at)
        if not m:
            fault(number, "labels " + text)
            break
        labels.append((m.group(1), m.group(2)))
        at = m.end()
    if len(dict(labels)) != len(labels):
        fault(number, "a label twice")
    return tuple(labels)


def samples(text):
    for number, line in enumerate(text.split("\n"), 1):
        m = SAMPLE.match(line)
        if m and not line.startswith("#"):
            yield number, m.group(1), labels_of(number, m.group(2)), m.group(3)


def number_of(number, text):
    if text == "+Inf":
        return float("inf")
    if not re.match(r"-?\d+(\.\d+)?(e[-+]?\d+)?$", text):
        fault(number, "no number: " + text)
        return 0.0
    return float(text) if re.search(r"[.e]", text) else int(text)


def check_histogram(number, family, series):
    last, bound = -1, float("-inf")
    for labels, value in series["_bucket"]:
        le = number_of(number, dict(labels).get("le", ""))
        if le <= bound:
            fault(number, "%s: bounds do not rise" % family)
        if value < last:
            fault(number, "%s: a bucket falls" % family)
        bound, last = le, value
    if bound != float("inf"):
        fault(number, "%s: no +Inf" % family)
    if len(series["_count"]) != 1 or series["_count"][0][1] != last:
        fault(number, "%s: _count is not +Inf" % family)
    if len(series["_sum"]) != 1 or (last == 0) != (series["_sum"][0][1] == 0):
        fault(number, "%s: _sum" % family)


def check(text, is_open):
    seen, families, histograms = set(), {}, {}
    family = kind = None
    if not text.endswith("\n"):
        fault(0, "no line feed at the end")
    lines = text.split("\n")[:-1]
    if is_open:
        if not lines or lines.pop() != "# EOF":
            fault(0, "no EOF")
    elif "# EOF" in lines:
        fault(0, "an EOF")
    for number, line in enumerate(lines, 1):
        m = re.match(r"# (HELP|TYPE|UNIT) (%s) (.*)" % NAME, line)
        if m:
            word, name, rest = m.groups()
            if word == "HELP":
                if name in families:
                    fault(number, name + " comes twice")
                family, kind = name, None
                families[name] = {"HELP"}
                if not rest.endswith(".") or "\\" in rest:
                    fault(number, "no help")
                continue
            if name != family or word in families[name]:
                fault(number, word + " is not where it belongs")
            families.setdefault(name, set()).add(word)
            if word == "TYPE":
                kind = rest
                if kind not in SUFFIXES:
                    fault(number, "no such type: " + rest)
            elif not name.endswith("_" + rest) or not is_open:
                fault(number, "unit " + rest)
            continue
        m = SAMPLE.match(line)
        if not m:
            fault(number, "neither sample nor comment: " + line)
            continue
        name, labels, value = m.group(1), labels_of(number, m.group(2)), m.group(3)
        if kind is None:
            fault(number, "a sample without a type")
            continue
        suffixes = SUFFIXES[kind]
        # In the older text a counter's name has its suffix.
        if not is_open and kind != "histogram":
            suffixes = [""]
            if (kind == "counter") != name.endswith("_total"):
                fault(number, name + ": _total")
        suffix = [s for s in suffixes if name == family + s]
        if not suffix:
            fault(number, "%s does not belong to %s" % (name, family))
            continue
        if (name, labels) in seen or (name, tuple(sorted(labels))) in seen:
            fault(number, "a series twice")
        seen |= {(name, labels), (name, tuple(sorted(labels)))}
        value = number_of(number, value)
        if kind != "gauge" and value < 0:
            fault(number, "a negative count")
        if kind == "histogram":
            key = (family, tuple(x for x in labels if x[0] != "le"))
            series = histograms.setdefault(key, collections.defaultdict(list))
            series[suffix[0]].append((labels, value))
        elif any(x[0] == "le" for x in labels):
            fault(number, "le outside of a histogram")
    for key, series in histograms.items():
        check_histogram(0, key[0] + str(key[1]), series)
    for name, words in families.items():
        if "TYPE" not in words:
            fault(0, name + " has no type")
    if not families:
        fault(0, "nothing at all")


# --- the ledger ---


def rows_of(store):
    for path in glob.glob(store + "/audit/*/seg/*/*.jsonl"):
        with open(path, "rb") as f:
            for line in f.read().split(b"\n")[:-1]:
                try:
                    row = json.loads(line)
                except ValueError:
                    continue
                yield (row["inv"], row["seq"], row["hash"]), row


def from_ledger(store, tools, calls):
    n = collections.Counter()
    done = set()
    for identity, row in rows_of(store):
        # A part may have rows that the one before it has too.
        if row["by"] == "skill" or identity in done:
            continue
        done.add(identity)
        p = row["payload"]
        if row["kind"] == "skill.tool_call_completed":
            n["skill_broker_tool_calls_total", p["tool_name"], p["outcome"]] += 1
            n["skill_broker_tool_duration_seconds_count", p["tool_name"]] += 1
        elif row["kind"] == "skill.tool_denied" and "call" not in p:
            tool = p["tool_name"] if p["tool_name"] in tools else "_unknown"
            n["skill_broker_tool_calls_total", tool, "denied"] += p.get("count", 1)
        elif row["kind"] == "skill.invoked_completed":
            n["skill_broker_invocations_total", p["outcome"]] += 1
        elif row["kind"] == "skill.cap_bypass_attempt":
            name = p["syscall"] if p["syscall"] in calls else "_unknown"
            n["skill_broker_cap_bypass_attempts_total", name] += p["count"]
    return n


def ledger(text, store):
    got = {}
    tools, calls = set(), set()
    for number, name, labels, value in samples(text):
        got[(name,) + tuple(v for _, v in labels)] = number_of(number, value)
        labels = dict(labels)
        tools.add(labels.get("tool_name"))
        calls.add(labels.get("syscall"))
    want = from_ledger(store, tools, calls)
    compared = set(k[0] for k in want) | {
        "skill_broker_tool_calls_total",
        "skill_broker_invocations_total",
        "skill_broker_cap_bypass_attempts_total",
        "skill_broker_tool_duration_seconds_count",
    }
    keys = set(want) | set(k for k in got if k[0] in compared)
    for key in sorted(keys):
        if got.get(key, 0) != want.get(key, 0):
            faults.append("%s: %s, and the ledger has %s" % (
                " ".join(key), got.get(key), want.get(key, 0)))
    total = sum(v for k, v in want.items() if k[0].endswith("calls_total"))
    print("%d calls, %d invocations" % (total, sum(
        v for k, v in want.items() if k[0].endswith("invocations_total"))))


def main():
    text = sys.stdin.buffer.read().decode("utf-8")
    what = sys.argv[1]
    if what == "check":
        check(text, sys.argv[2:] == ["open"])
    else:
        ledger(text, sys.argv[2])
    for line in faults:
        print(line)
    sys.exit(1 if faults else 0)


main()
