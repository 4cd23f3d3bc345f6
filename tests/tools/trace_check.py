#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks a trace by the published Trace Event Format (JSON), which Perfetto and Chromium read.

    trace_check.py FILE...

check() returns the breaches of the format: members that a phase requires, slices that overlap without nesting, arrows with
one end, names of tracks that are missing, numbers that are not finite, text that is not UTF-8.
"""
import collections
import json
import math
import sys

COMMON = {"ph", "pid", "tid", "name"}
REQUIRED = {"X": {"ts", "dur"}, "B": {"ts"}, "E": {"ts"}, "i": {"ts", "s"}, "C": {"ts", "args"}, "M": {"args"},
            "s": {"ts", "id", "cat"}, "t": {"ts", "id", "cat"}, "f": {"ts", "id", "cat"}}
META = {"process_name": str, "thread_name": str, "process_sort_index": int, "thread_sort_index": int}


def refuse_constant(word):
    raise ValueError(f"{word} is no number of JSON")


def parse(data):
    """The object of a trace, from bytes. Raises ValueError."""
    return json.loads(data.decode("utf-8"), parse_constant=refuse_constant)


def whole_ns(microseconds):
    return round(microseconds * 1000)


def check_event(index, e):
    """Breaches of one event alone."""
    phase = e.get("ph")
    if phase not in REQUIRED:
        return [f"event {index}: unknown phase {phase!r}"]
    found = [f"event {index} ({phase}): no member {m}" for m in sorted((COMMON | REQUIRED[phase]) - e.keys())]
    for member in ("ts", "dur"):
        value = e.get(member, 0)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
            found.append(f"event {index}: {member} is {value!r}")
    for member in ("pid", "tid"):
        if not isinstance(e.get(member), int):
            found.append(f"event {index}: {member} is {e.get(member)!r}")
    if not isinstance(e.get("name"), str) or not e.get("name"):
        found.append(f"event {index}: name is {e.get('name')!r}")
    if not isinstance(e.get("args", {}), dict):
        found.append(f"event {index}: args is no object")
    elif phase == "C" and not all(isinstance(v, (int, float)) for v in e.get("args", {}).values()):
        found.append(f"event {index}: a counter that is no number")
    if phase == "i" and e.get("s") not in ("t", "p", "g"):
        found.append(f"event {index}: scope {e.get('s')!r}")
    if phase == "M":
        kind = META.get(e.get("name"))
        key = "name" if kind is str else "sort_index"
        if not kind or not isinstance(e.get("args", {}).get(key), kind):
            found.append(f"event {index}: metadata {e.get('name')!r} with {e.get('args')!r}")
    return found


def check_nesting(track, slices):
    """Slices of a track: [(begin, end, name)], in ns."""
    found, stack = [], []
    for begin, end, name in sorted(slices, key=lambda s: (s[0], -s[1])):
        while stack and stack[-1] <= begin:
            stack.pop()
        if stack and stack[-1] < end:
            found.append(f"track {track}: {name!r} at {begin} ns overlaps another slice without nesting in it")
        stack.append(end)
    return found


def check_pairs(track, events):
    """B and E of a track."""
    depth, found = 0, []
    for e in sorted(events, key=lambda e: e["ts"]):
        depth += 1 if e["ph"] == "B" else -1
        if depth < 0:
            found.append(f"track {track}: an E without a B at {e['ts']}")
            depth = 0
    return found + ([f"track {track}: {depth} B without an E"] if depth else [])


def check_flows(flows, slices):
    found = []
    for key, ends in flows.items():
        phases = [e["ph"] for e in sorted(ends, key=lambda e: e["ts"])]
        if phases.count("s") != 1 or phases.count("f") != 1 or set(phases) - {"s", "t", "f"}:
            found.append(f"flow {key}: phases {phases}")
            continue
        begin, end = (next(e for e in ends if e["ph"] == p) for p in "sf")
        if begin["ts"] > end["ts"]:
            found.append(f"flow {key}: ends before it begins")
        for e in (begin, end):
            at = whole_ns(e["ts"])
            if not any(b <= at <= t for b, t, _ in slices.get((e["pid"], e["tid"]), ())):
                found.append(f"flow {key}: its {e['ph']} lies in no slice")
    return found


def check(trace):
    """The breaches of a parsed trace, as texts."""
    if not isinstance(trace, dict) or not isinstance(trace.get("traceEvents"), list):
        return ["the trace is no object with a list traceEvents"]
    found = []
    slices, pairs, flows = (collections.defaultdict(list) for _ in range(3))
    named, used, last = set(), set(), {}
    for index, e in enumerate(trace["traceEvents"]):
        bad = check_event(index, e) if isinstance(e, dict) else [f"event {index} is no object"]
        found += bad
        if bad:
            continue
        track = (e["pid"], e["tid"])
        if e["ph"] == "M":
            named.add((e["name"],) + (track if e["name"].startswith("thread") else track[:1]))
            continue
        used.add(("process_name", e["pid"]))
        if e["ph"] in "XBEi":
            used.add(("thread_name",) + track)
            if e["ts"] < last.get(track, 0):
                found.append(f"event {index}: earlier than the one before on its track {track}")
            last[track] = e["ts"]
        if e["ph"] == "X":
            slices[track].append((whole_ns(e["ts"]), whole_ns(e["ts"]) + whole_ns(e["dur"]), e["name"]))
        elif e["ph"] in "BE":
            pairs[track].append(e)
        elif e["ph"] in "stf":
            flows[(e["cat"], e["id"])].append(e)
    found += [f"no {' '.join(map(str, missing))}" for missing in sorted(used - named, key=str)]
    for track, list_ in slices.items():
        found += check_nesting(track, list_)
    for track, list_ in pairs.items():
        found += check_pairs(track, list_)
    return found + check_flows(flows, slices)


def main():
    bad = 0
    for path in sys.argv[1:]:
        with open(path, "rb") as f:
            try:
                found = check(parse(f.read()))
            except ValueError as error:
                found = [str(error)]
        for breach in found[:20]:
            print(f"{path}: {breach}")
        bad += len(found)
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
