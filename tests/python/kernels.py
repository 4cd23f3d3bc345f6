#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the conformance suite's kernel cases through the package: `bp conform` with through.so preloaded, which makes
each operator call of the suite a call of the function in backplane.ops.

    kernels.py BUILD [--quick] [--shard=I/N]     each case has to have the outcome that it has without the package
    kernels.py BUILD --all [--quick]             all cases, or every second of the quick list, by two processes: none may fail
"""
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile

import tap
from tap import same

OPTIONS = [word for word in sys.argv[2:] if word != "--all"]
ALL = "--all" in sys.argv
BAD = ("fail", "crash", "timeout", "xpass")
BP = os.path.join(tap.BUILD, "sdk", "tools", "bp")
LIMIT = 3600
CASES = {"all": 200000, "quick": 40000, "part": 1000}  # that pass, at least
SHARDS = 4 if "--quick" in OPTIONS else 2  # of which two run
LEAST = 1.0  # calls through Python for each case, on average: there are views and refusals, and second runs


def conform(folder, through, *options):
    report, counts = os.path.join(folder, "report.json"), os.path.join(folder, "counts")
    more = {"LD_PRELOAD": os.path.join(tap.BUILD, "tests", "python", "through.so"), "BP_TEST_THROUGH": counts,
            "THROUGH_PACKAGE": tap.PACKAGE} if through else {}
    command = [BP, "conform", "cpu", "--suite", "kernel", "--isolate", "none", "--json", report, *OPTIONS, *options]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **more},
                   timeout=LIMIT, check=False)
    with open(report, encoding="utf-8") as file:
        read = json.load(file)
    calls = 0
    if through:
        with open(counts, encoding="utf-8") as file:
            calls = sum(int(line.split()[0]) for line in file)
    return read, calls


def run_all():
    """Returns (passed cases, calls)."""
    cases = calls = 0
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two, \
            concurrent.futures.ThreadPoolExecutor(2) as pool:
        for report, n in pool.map(lambda part: conform(part[0], True, f"--shard={part[1]}/{SHARDS}"), ((one, 1), (two, SHARDS))):
            bad = [(case["id"], case["outcome"], case.get("message")) for case in report["cases"]
                   if case["outcome"] in BAD]
            same(bad[:20], [])
            cases, calls = cases + report["totals"]["pass"], calls + n
    return cases, calls


def run_compared():
    """Runs a part of the cases with and without Python. Returns (passed cases, calls)."""
    with tempfile.TemporaryDirectory() as folder:
        plain, _ = conform(folder, False)
        report, calls = conform(folder, True)
    outcome = {case["id"]: case["outcome"] for case in plain["cases"]}
    wrong = [(case["id"], case["outcome"], case.get("message")) for case in report["cases"]
             if case["outcome"] != outcome.get(case["id"])]
    same(wrong[:20], [])
    same(report["totals"], plain["totals"])
    return report["totals"]["pass"], calls


def test_kernel_cases_pass_through_python():
    cases, calls = run_all() if ALL else run_compared()
    least = CASES["part" if not ALL else "quick" if "--quick" in OPTIONS else "all"]
    assert cases > least and calls >= LEAST * cases, f"{calls} calls of {cases} cases went through Python"
    print(f"# {cases} cases passed, {calls} calls went through Python")


if __name__ == "__main__":
    sys.exit(tap.main(globals()))
