#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests `bp trace` on profiles that the test writes, and `bp profile` with the example app.

    traces.py BP APP

Prints TAP.
"""
import copy
import json
import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
import time

import profile_file as pf
import trace_check

BP, APP = map(os.path.abspath, sys.argv[1:3])
MS = 10**6


def bp(*args, **more):
    return subprocess.run([BP, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, **more)


def example():
    """A host thread that submits two kernels and a copy, waits, and submits one more; times in ms."""
    f = pf.File(100 * MS, command=b"app \"quoted\" \xff</script>")
    f.thread(11, b"ma\xffin \"x\"\n")
    gpu = {"device": "gpu:0", "stream": 1}

    def host(kind, begin, end, name, **more):
        f.add(11, kind, begin * MS, end * MS, name, **more)

    def work(kind, begin, end, tag, **more):
        f.add(0, kind, begin * MS, end * MS, **{**gpu, **more}, tag=tag, flags=pf.ON_DEVICE)

    host(pf.RANGE, 0, 95, "outer\t☃ \\ \x01")
    host(pf.RANGE, 1, 40, "inner")
    host(pf.CALL, 2, 6, "add", **gpu)
    host(pf.SUBMIT, 3, 4, "add", kernel="row", node="n1", shapes="f32[2]", tag=1, size=64, **gpu)
    host(pf.SUBMIT, 5, 6, "copy_in", tag=2, size=4096, device="gpu:0", stream=2)
    host(pf.SUBMIT, 7, 8, "mul", tag=3, **gpu)
    host(pf.ALLOCATE, 9, 10, "allocate", device="gpu:0", tag=5000, size=5000)
    host(pf.WAIT, 10, 51, "synchronize", **gpu)
    host(pf.SUBMIT, 60, 61, "add", tag=4, **gpu)
    host(pf.COMPILE, 62, 72, "program", device="gpu:0")
    host(pf.SUBMIT, 75, 76, "add", tag=5, **gpu)
    host(pf.FREE, 90, 91, "free", device="gpu:0", tag=0, size=5000)
    host(pf.MARK, 93, 93, "here")
    work(pf.KERNEL, 10, 20, 1)                 # named by its submission: add
    work(pf.COPY, 15, 25, 2, stream=2, size=4096)
    work(pf.KERNEL, 30, 50, 3, kernel="own name")  # 20 to 25: the copy; 25 to 30: not begun
    work(pf.KERNEL, 61, 62, 4)                 # 50 to 60: the host waited, 60 to 61: not begun
    work(pf.KERNEL, 76, 80, 5)                 # 62 to 72: compiled; 72 to 75: nothing; 75 to 76: not begun
    work(pf.KERNEL, 78, 85, 9, name="other")   # overlaps without nesting
    work(pf.COLLECTIVE, 85, 90, 10, name="all_reduce", size=100)
    return f


def trace_of(folder, f):
    f.write(f"{folder}/a.prof")
    got = bp("trace", f"{folder}/a.prof", "-o", f"{folder}/a.json")
    assert got.returncode == 0, got.stderr
    with open(f"{folder}/a.json", "rb") as file:
        return trace_check.parse(file.read())


def test_trace(folder):
    """a trace has tracks, arrows, counters and marks, and keeps the format"""
    trace = trace_of(folder, example())
    found = trace_check.check(trace)
    print("#", found[:5])
    events = trace["traceEvents"]
    count = {p: sum(e["ph"] == p for e in events) for p in "XsfiC"}
    threads = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
    processes = {e["args"]["name"] for e in events if e["name"] == "process_name"}
    kernel, = (e for e in events if e.get("cat") == "kernel" and e["ts"] == 10000)
    print("#", count, threads, processes, kernel)
    return (not found and count == {"X": 19, "s": 5, "f": 5, "i": 1, "C": 2}
            and threads == {"ma?in \"x\" , thread 11", "ma?in \"x\" , thread 11 (2)", "stream 1", "stream 1 (2)", "stream 2"}
            and {"gpu:0", "gpu:0 communication"} < processes
            and kernel["name"] == "add" and kernel["args"]["node"] == "n1" and kernel["args"]["shapes"] == "f32[2]"
            and [e["args"]["bytes"] for e in events if e["ph"] == "C"] == [5000, 0])


def break_at(trace, phase, change):
    broken = copy.deepcopy(trace)
    e = next(e for e in broken["traceEvents"] if e["ph"] == phase)
    change(e)
    return broken


def test_validator(folder):
    """the validator finds each breach of the format"""
    trace = trace_of(folder, example())
    broken = [break_at(trace, "X", lambda e: e.pop("dur")), break_at(trace, "X", lambda e: e.update(ts=float("nan"))),
              break_at(trace, "X", lambda e: e.update(tid="1")), break_at(trace, "X", lambda e: e.update(ph="?")),
              break_at(trace, "X", lambda e: e.update(ts=-1)), break_at(trace, "X", lambda e: e.update(dur=2000)),
              break_at(trace, "X", lambda e: e.update(pid=5)), break_at(trace, "s", lambda e: e.update(id=77)),
              break_at(trace, "f", lambda e: e.update(ts=1)), break_at(trace, "f", lambda e: e.update(ts=99999)),
              break_at(trace, "C", lambda e: e["args"].update(bytes="5")), break_at(trace, "i", lambda e: e.pop("s")),
              break_at(trace, "M", lambda e: e["args"].clear()), break_at(trace, "X", lambda e: e.update(ph="E")), {}, []]
    missed = [i for i, b in enumerate(broken) if not trace_check.check(b)]
    print("# not found:", missed)
    refused = 0
    for data in (b'{"traceEvents":[NaN]}', b'{"traceEvents":["\xff"]}', b'{"traceEvents":['):
        try:
            trace_check.parse(data)
        except ValueError:
            refused += 1
    return not missed and refused == 3


def fields_of(data):
    """[(number, value)] of a protobuf message; values are numbers or bytes."""
    at, fields = 0, []

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            value |= (data[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if data[at - 1] < 128:
                return value

    while at < len(data):
        key = varint()
        value = varint()
        if key & 7 == 2:
            assert at + value <= len(data), "cut off"
            value, at = data[at:at + value], at + value
        else:
            assert key & 7 == 0, f"type {key & 7}"
        fields.append((key >> 3, value))
    return fields


def test_perfetto(folder):
    """a protobuf trace has the slices, marks and tracks of the JSON trace"""
    f = example()
    f.add(11, pf.RANGE, 94 * MS, 94 * MS + 1, "é" * 2000)
    trace = trace_of(folder, f)
    got = bp("trace", f"{folder}/a.prof", "--perfetto", f"{folder}/a.pftrace")
    assert got.returncode == 0 and not got.stdout, got
    with open(f"{folder}/a.pftrace", "rb") as file:
        packets = [dict(fields_of(value)) for _, value in fields_of(file.read())]
    descriptors = [dict(fields_of(p[60])) for p in packets if 60 in p]
    tracks = {d[1]: d[2].decode() for d in descriptors if 2 in d}
    processes = {dict(fields_of(d[3]))[6].decode() for d in descriptors if 3 in d}
    stacks, slices, marks = {}, [], []
    for p in sorted((p for p in packets if 11 in p), key=lambda p: p[8]):
        e = dict(fields_of(p[11]))
        if e[9] == 1:
            stacks.setdefault(e[11], []).append((e[23].decode(), e[22].decode(), p[8]))
        elif e[9] == 2:
            name, kind, begin = stacks[e[11]].pop()
            slices.append((tracks[e[11]], name, kind, begin, p[8]))
        else:
            marks.append((e[9], e[23].decode(), p[8]))
    events = trace["traceEvents"]
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    wanted = sorted((names[e["pid"], e["tid"]], e["name"][:500], e["cat"], round(1000 * e["ts"]),
                     round(1000 * e["ts"]) + round(1000 * e["dur"])) for e in events if e["ph"] == "X")
    print("#", [s for s in slices if s not in wanted][:3], [s for s in wanted if s not in slices][:3])
    return (sorted(slices) == wanted and not any(stacks.values()) and marks == [(3, "here", 93 * MS)]
            and processes == {e["args"]["name"] for e in events if e["name"] == "process_name"}
            and set(names.values()) == set(tracks.values()))


def test_statistics(folder):
    """rows, use, overlap, delays and causes of gaps are those of a profile with known times"""
    example().write(f"{folder}/a.prof")
    data = json.loads(bp("trace", f"{folder}/a.prof", "--json", "-").stdout)
    rows = {(r["by"], r["name"]): r for r in data["rows"]}
    d = next(d for d in data["devices"] if d["name"] == "gpu:0")
    print("#", d)
    add, inner = rows["op", "add"], rows["range", "inner"]
    outer = next(r for (by, name), r in rows.items() if by == "range" and name.startswith("outer"))
    return (data["kind"] == "profile" and data["version"] == 1
            and (add["calls"], add["total_ns"], add["min_ns"], add["median_ns"]) == (3, 15 * MS, MS, 4 * MS)
            and add["bytes"] == 64 and rows["kernel", "own name"]["total_ns"] == 20 * MS
            and rows["op", "mul"]["total_ns"] == 20 * MS and rows["node", "n1"]["calls"] == 1
            and inner["total_ns"] == 39 * MS and outer["self_ns"] == 56 * MS
            and rows["call", "add"]["total_ns"] == 4 * MS
            and (d["busy_ns"], d["copying_ns"], d["both_ns"]) == (50 * MS, 15 * MS, 5 * MS)
            and d["peak_bytes"] == 5000 and d["delay_max_ns"] == 23 * MS
            and sorted(s["name"] for s in d["streams"]) == ["stream 1", "stream 1, collectives", "stream 2"]
            and {c: ns // MS for c, ns in d["idle"].items() if ns} == {"copy": 5, "launch": 7, "sync": 10, "compile": 10, "host": 3}
            and d["idle_ns"] == 35 * MS and d["gaps"][0]["ns"] == 14 * MS and d["gaps"][0]["cause"] == "compile")


def test_table(folder):
    """tables by each word are printed, and a wrong word is refused"""
    example().write(f"{folder}/a.prof")
    ok = True
    for by, line in (("op", r"^add +3 +15\.00 ms"), ("kernel", r"^own name +1 +20\.00 ms"), ("node", r"^n1 +1 "),
                     ("thread", r"^ma\?in"), ("range", r"^inner +1 +39\.00 ms")):
        out = bp("trace", f"{folder}/a.prof", "--table", "--by", by).stdout.decode()
        ok &= bool(re.search(line, out, re.M)) and "the host compiled or prepared" in out
    wrong = bp("trace", f"{folder}/a.prof", "--by", "colour")
    return ok and wrong.returncode == 2 and b"got 'colour'" in wrong.stderr


def test_counts(folder):
    """the table counts one event, piece of work and gap in the singular"""
    f = pf.File(9 * MS)
    for tag, begin in enumerate((1, 5), 1):
        f.add(0, pf.KERNEL, begin * MS, (begin + 2) * MS, "k", device="gpu:0", stream=tag, tag=tag, flags=pf.ON_DEVICE)
    f.write(f"{folder}/two.prof")
    two = bp("trace", f"{folder}/two.prof").stdout.decode()
    f = pf.File(9 * MS)
    f.add(11, pf.MARK, MS, MS, "here")
    f.write(f"{folder}/one.prof")
    one = bp("trace", f"{folder}/one.prof").stdout.decode()
    print("#", [two, one])
    return (all(text in two for text in (": 2 events in 9000.0 us\n", "in 1 gap:\n", "  the gap:\n")) and two.count(", 1 piece of work\n") == 2
            and ": 1 event in " in one and "No event has an op.\n" in one)


def test_page(folder):
    """the page has its data inside, loads nothing, and no name ends its script"""
    example().write(f"{folder}/a.prof")
    got = bp("trace", f"{folder}/a.prof", "--html", "-")
    page = got.stdout.decode()
    data, _ = json.JSONDecoder().raw_decode(page[page.index("const P = ") + 10:])
    print("#", data["total"], len(data["events"]), data["memory"])
    return (got.returncode == 0 and len(data["events"]) == data["total"] == 20
            and "<title>Profile of app &quot;quoted&quot; ?&lt;/script&gt;</title>" in page and "(prefers-color-scheme:dark)" in page
            and page.count("</script>") == 1 and not re.search(r"(src|href)=|url\(|@import|fetch\(|https?://(?!www.w3.org/2000/svg)", page)
            and data["memory"] == [{"device": "gpu:0", "points": [[0, 0], [9 * MS, 5000], [90 * MS, 0]]}]
            and data["stats"]["rows"])


def test_other_files(folder):
    """files that are no profiles are refused, and cut ones are shown with a warning"""
    with open(f"{folder}/no", "w", encoding="utf-8") as f:
        f.write("something else, and long enough to have a header")
    data = bytearray(example().bytes())
    data[28:32] = bytes(4)  # not finished
    with open(f"{folder}/cut", "wb") as f:
        f.write(data[:pf.HEADER + pf.CHUNK])
    cut = bp("trace", f"{folder}/cut")
    answers = [bp("trace", f"{folder}/{name}").returncode for name in ("no", "missing", ".")]
    print("#", answers, cut)
    return answers == [2, 2, 2] and cut.returncode == 0 and b"ended before its profiler" in cut.stderr


def test_profile(folder):
    """bp profile makes all outputs of an app, and returns the exit status of any command"""
    got = bp("profile", "-o", f"{folder}/%p.prof", "--trace", f"{folder}/t.json", "--html", f"{folder}/t.html", "--shapes",
             "--memory", "--", APP)
    with open(f"{folder}/t.json", "rb") as f:
        trace = trace_check.parse(f.read())
    found = trace_check.check(trace)
    print("#", got.stderr, found[:5])
    names = [e["name"] for e in trace["traceEvents"] if e.get("cat") == "kernel"]
    ok = (got.returncode == 0 and not found and names == ["add", "matmul"] and os.path.exists(f"{folder}/t.html")
          and any(name.endswith(".prof") for name in os.listdir(folder))
          and re.search(rb"^matmul +1 ", got.stdout, re.M) and b"f32[2,2], f32[2,2] -> f32[2,2]" in json.dumps(trace).encode())
    failing = bp("profile", "--quiet", APP, "no-such-device")
    killed = bp("profile", "--", "sh", "-c", "kill -9 $$")
    missing = bp("profile", "--", "/no/such/command")
    none = bp("profile", "true")
    both = bp("profile", "-o", f"{folder}/two-%p.prof", "--", "sh", "-c", f"'{APP}' && '{APP}'; exit 7")
    print("#", failing.returncode, killed, missing, none, both)
    return (ok and failing.returncode == 1 and killed.returncode == 137 and missing.returncode == 127
            and b"No such file" in missing.stderr and none.returncode == 4 and b"wrote no profile" in none.stderr
            and both.returncode == 7 and sum(name.startswith("two-") for name in os.listdir(folder)) == 2)


def test_output_of_profile(folder):
    """bp profile -o replaces an old file only if it is a regular one, and runs nothing before it refuses"""
    pipe, old = f"{folder}/pipe", f"{folder}/old"
    os.mkfifo(pipe)
    with open(old, "w", encoding="utf-8") as f:
        f.write("of an earlier run")
    refused = [bp("profile", "-o", path, "--", "touch", f"{folder}/ran") for path in (pipe, folder)]
    replaced = bp("profile", "-o", old, "--", "true")
    print("#", refused, replaced)
    return (all(r.returncode == 2 and b"is no regular file" in r.stderr for r in refused) and stat.S_ISFIFO(os.stat(pipe).st_mode)
            and os.path.isdir(folder) and not os.path.exists(f"{folder}/ran")
            and replaced.returncode == 4 and b"wrote no profile" in replaced.stderr and not os.path.exists(old))


def test_signal(folder):
    """a signal that bp profile gets is passed to the command, whose status is returned"""
    process = subprocess.Popen([BP, "profile", "--", "sh", "-c", "trap 'exit 9' INT; touch ready; while :; do sleep 0.05; done"],
                               cwd=folder, stderr=subprocess.DEVNULL)
    for _ in range(400):
        if os.path.exists(f"{folder}/ready"):
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    return process.wait(timeout=30) == 9


def main():
    tests = [f for name, f in globals().items() if name.startswith("test_")]
    print(f"1..{len(tests)}")
    failed = 0
    for i, test in enumerate(tests, 1):
        with tempfile.TemporaryDirectory() as folder:
            try:
                ok = test(folder)
            except (AssertionError, KeyError, ValueError, StopIteration, IndexError, FileNotFoundError) as error:
                print(f"# {error!r}")
                ok = False
        failed += not ok
        print("ok" if ok else "not ok", i, "-", test.__doc__, flush=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
