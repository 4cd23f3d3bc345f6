#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the conformance suite's kernel cases through the package: `bp conform` with through.so preloaded, which makes
each operator call of the suite a call of the function in backplane.ops.

    kernels.py BUILD [--quick] [--shard=I/N]     more options of bp conform

Each case has to have the outcome that it has without the package.
"""
import json
import os
import subprocess
import sys
import tempfile

import tap
from tap import same

OPTIONS = sys.argv[2:]
BP = os.path.join(tap.BUILD, "sdk", "tools", "bp")
LIMIT = 3600
LEAST = 1.0  # calls through Python for each case, on average: there are views and refusals, and second runs


def conform(folder, through):
    report, counts = os.path.join(folder, "report.json"), os.path.join(folder, "counts")
    more = {"LD_PRELOAD": os.path.join(tap.BUILD, "tests", "python", "through.so"), "BP_TEST_THROUGH": counts,
            "THROUGH_PACKAGE": tap.PACKAGE} if through else {}
    subprocess.run([BP, "conform", "cpu", "--suite", "kernel", "--isolate", "none", "--json", report, *OPTIONS],
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **more}, timeout=LIMIT,
                   check=False)
    with open(report, encoding="utf-8") as file:
        read = json.load(file)
    calls = 0
    if through:
        with open(counts, encoding="utf-8") as file:
            calls = sum(int(line.split()[0]) for line in file)
    return read, calls


def test_kernel_cases_have_the_same_outcomes_through_python():
    with tempfile.TemporaryDirectory() as folder:
        plain, _ = conform(folder, False)
        report, calls = conform(folder, True)
    outcome = {case["id"]: case["outcome"] for case in plain["cases"]}
    wrong = [(case["id"], case["outcome"], case.get("message")) for case in report["cases"]
             if case["outcome"] != outcome.get(case["id"])]
    same(wrong[:20], [])
    same(report["totals"], plain["totals"])
    cases = report["totals"]["pass"]
    assert cases > 1000 and calls >= LEAST * cases, f"{calls} calls of {cases} cases went through Python"
    print(f"# {cases} cases passed, {calls} calls went through Python")


if __name__ == "__main__":
    sys.exit(tap.main(globals()))
