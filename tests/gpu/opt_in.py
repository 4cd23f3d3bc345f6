#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the kernel suite of operators on the simulator with the settings by which some of cuDNN's rows exist, and asserts
that these rows computed cases.

    opt_in.py BUILD [f16|bf16 ...]
        the dtypes, if not both
"""
import json
import os
import subprocess
import sys
import tempfile

BUILD = os.path.abspath(sys.argv[1])
DTYPES = sys.argv[2:] or ["f16", "bf16"]
# Operator, setting, variants of which each row must run one, and how many cases it must run.
RUNS = [("attention", "FLASH", ["heads.one.causal", "heads.nonfinite", "heads.mask", "heads.mask.bool.causal", "heads.band.causal", "hidden",
                                "hidden.causal"], 24), ("layer_norm", "NORMS", [], 8), ("rms_norm", "NORMS", [], 8), ("batch_norm", "NORMS", [], 8)]


def run(op, setting, variants, least, folder):
    """Returns why the run is not as expected, or None."""
    report = os.path.join(folder, op + ".json")
    env = {**os.environ, "BP_PLUGIN_PATH": os.path.join(BUILD, "plugins", "simulator"), f"BP_SIM_{setting}": "1"}
    done = subprocess.run([os.path.join(BUILD, "sdk", "tools", "bp"), "conform", "sim",
                           *(f"--filter=kernel/{op}/{dtype}*" for dtype in DTYPES), "--json", report], capture_output=True, text=True, check=False, env=env)
    if done.returncode:
        return done.stdout[-2000:] + done.stderr[-2000:]
    with open(report, encoding="utf-8") as f:
        cases = [c["id"] for c in json.load(f)["cases"] if c["outcome"] == "pass"]
    for dtype in DTYPES:
        by = [name for name in cases if name.endswith(f"@sim_{op}_{dtype}_cudnn")]
        missing = [text for text in variants if not any(f"/{text}/" in name for name in by)]
        print(f"# {len(by)} cases of {dtype} by cuDNN's row")
        if len(by) < least or missing:
            return f"{len(by)} of {len(cases)} cases ran by cuDNN's row, none of {missing}:\n" + "\n".join(by)
    return None


def main():
    print(f"1..{len(RUNS)}")
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for i, (op, setting, variants, least) in enumerate(RUNS, 1):
            why = run(op, setting, variants, least, folder)
            failed |= why is not None
            for line in (why or "").splitlines():
                print("#", line)
            print(f"{'not ' if why else ''}ok {i} - {op} by cuDNN")
    sys.exit(failed)


main()
