#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the conformance suite on the ipu plugin, whose shim runs on the stand-in for Poplar: no case may fail, each row
must run, and the stand-in may notice no misuse.

    conform.py BP [PARTS]

With PARTS, one part of so many of the kernels' cases runs, and rows whose cases are in other parts need not run.
"""
import json
import os
import subprocess
import sys
import tempfile

BP = sys.argv[1]
PARTS = int(sys.argv[2]) if len(sys.argv) > 2 else 1
# The suites in full, and of the kernels the quick cases.
RUNS = (("the device, memory and the engine", ["--suite", "plugin,runtime,memory,graph"], 511),
        ("kernels", ["--suite", "kernel", "--quick", "--shard", f"1/{PARTS}"], 12000 // PARTS * 9 // 10))


def conform(folder, words):
    report, log = os.path.join(folder, "report.json"), os.path.join(folder, "misuses")
    env = dict(os.environ, BP_STANDIN_LOG=log)
    done = subprocess.run([BP, "conform", "ipu:0", *words, "--json", report], env=env, capture_output=True, text=True, timeout=1700,
                          check=False)
    misuses = open(log, encoding="utf-8").read() if os.path.exists(log) else ""
    data = json.load(open(report, encoding="utf-8")) if os.path.exists(report) else None
    return done, data, misuses


def why_bad(done, data, misuses, least):
    if data is None:
        return done.stdout + done.stderr
    bad = [f"{c['id']}: {c['outcome']}: {c['message']}" for c in data["cases"] if c["outcome"] not in ("pass", "unsupported", "skip")]
    rows = data["rows"]
    if bad:
        return "\n".join(bad[:40])
    if misuses:
        return misuses[:4000]
    if rows["executed"] != rows["total"] and PARTS == 1:
        return f"{rows['executed']} of {rows['total']} rows were executed"
    if data["totals"]["pass"] < least:
        return f"{data['totals']['pass']} cases pass, expected {least}"
    return "" if done.returncode == 0 else done.stdout + done.stderr


print(f"1..{len(RUNS)}")
for number, (name, words, least) in enumerate(RUNS, 1):
    with tempfile.TemporaryDirectory() as folder:
        why = why_bad(*conform(folder, words), least)
    print(f"{'not ok' if why else 'ok'} {number} - {name}", flush=True)
    for line in why.splitlines():
        print("# " + line)
