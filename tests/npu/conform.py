#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the conformance suite on npu, on the stand-in for one version of CANN; each case is a test.

    conform.py BUILD VERSION DEVICES [OPTION...]

The options are those of `bp conform`. A line in the stand-in's log is one more failure.
"""
import json
import os
import sys
import tempfile

from standin import Setting, misuses
import subprocess

setting = Setting(sys.argv[1])
version, devices, options = sys.argv[2], sys.argv[3], sys.argv[4:]


def main():
    with tempfile.TemporaryDirectory() as folder:
        env = setting.environment(folder, version, BP_STANDIN_DEVICES=devices, BP_STANDIN_KEEP="0", BP_STANDIN_DELAY="5")
        report = os.path.join(folder, "report.json")
        done = subprocess.run([setting.bp, "conform", "npu:0", *options, "--json", report], capture_output=True, text=True,
                              env=env, timeout=900, check=False)
        found = misuses(env)
        with open(report, encoding="utf-8") as f:
            cases = json.load(f)["cases"]
    bad = [case for case in cases if case["outcome"] in ("fail", "crash", "timeout", "xpass")]
    count = {}
    for case in cases:
        count[case["outcome"]] = count.get(case["outcome"], 0) + 1
    print("1..3")
    print(f"# {count}")
    print(f"{'not ' if bad or done.returncode or not count.get('pass') else ''}ok 1 - {version}: conformance, {count.get('pass', 0)} cases")
    for case in bad[:20]:
        print(f"# {case['id']}: {case.get('message') or ''}")
    if done.returncode and not bad:
        print("".join("# " + line + "\n" for line in (done.stdout + done.stderr).splitlines()[-20:]))
    print(f"{'not ' if found else ''}ok 2 - {version}: no misuse of CANN")
    print("".join("# " + line + "\n" for line in found.splitlines()[:20]), end="")
    skipped = [case for case in cases if case["outcome"] == "skip" and not case["id"].startswith("kernel/")
               and "cpu:0" not in (case.get("message") or "") and "another takes it" not in (case.get("message") or "")]
    print(f"{'not ' if skipped else ''}ok 3 - {version}: skips have a known reason")
    for case in skipped[:20]:
        print(f"# {case['id']}: {case.get('message') or ''}")
    return 0


sys.exit(main())
