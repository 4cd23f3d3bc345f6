#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the kernel suite of attention on the simulator with the setting by which cuDNN's rows exist, and asserts that they
computed cases.

    flash.py BUILD
"""
import json
import os
import subprocess
import sys
import tempfile

BUILD = os.path.abspath(sys.argv[1])
TYPES = ["f16", "bf16"]


def run(dtype, folder):
    """Returns why the run is not as expected, or None."""
    report = os.path.join(folder, dtype + ".json")
    env = {**os.environ, "BP_PLUGIN_PATH": os.path.join(BUILD, "plugins", "simulator"), "BP_SIM_FLASH": "1"}
    done = subprocess.run([os.path.join(BUILD, "sdk", "tools", "bp"), "conform", "sim", "--filter", f"kernel/attention/{dtype}-*", "--json", report],
                          capture_output=True, text=True, check=False, env=env)
    if done.returncode:
        return done.stdout[-2000:] + done.stderr[-2000:]
    with open(report, encoding="utf-8") as f:
        cases = [c["id"] for c in json.load(f)["cases"] if c["outcome"] == "pass"]
    by = [name for name in cases if name.endswith(f"@sim_attention_{dtype}_cudnn")]
    if len(by) < 8 or not any("heads.one" in name for name in by):
        return f"{len(by)} of {len(cases)} cases ran by cuDNN's row: {by}"
    print(f"# {len(by)} cases by cuDNN's row")
    return None


def main():
    print(f"1..{len(TYPES)}")
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for i, dtype in enumerate(TYPES, 1):
            why = run(dtype, folder)
            failed |= why is not None
            for line in (why or "").splitlines():
                print("#", line)
            print(f"{'not ' if why else ''}ok {i} - attention of {dtype} by cuDNN")
    sys.exit(failed)


main()
