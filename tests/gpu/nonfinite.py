#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the conformance cases of convolutions with NaN and infinities that fail on an NVIDIA GPU, in several ways of
calling cuDNN. docs/gpu.md explains these ways. Needs a GPU, so that ./dev test does not run it.

    nonfinite.py BUILD [DEVICE]      DEVICE: cuda
"""
import collections
import json
import os
import subprocess
import sys
import tempfile

WAYS = [("as usual", {}), ("products alone", {"PLAIN_CONV": "1"}), ("engines that keep NaN", {"KEEP_NAN": "1"}),
        ("both", {"PLAIN_CONV": "1", "KEEP_NAN": "1"}), ("without cuDNN", {"CUDNN": "off"})]
FILTERS = ["kernel/fused_conv/*/*nonfinite*", "kernel/conv/*/*nonfinite*"]


def run(build, device, settings):
    """Returns, for each operator and dtype, how many cases failed and how many ran, and the names of those that failed."""
    env = {**os.environ, **{f"BP_{device.upper()}_{name}": value for name, value in settings.items()}}
    env.setdefault("BP_PLUGIN_PATH", os.path.join(build, "plugins", "simulator" if device == "sim" else device))
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        words = [word for text in FILTERS for word in ("--filter", text)]
        done = subprocess.run([os.path.join(build, "sdk", "tools", "bp"), "conform", device, *words, "--json", report],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False, env=env)
        if not os.path.exists(report):
            sys.exit(f"bp conform {device}: {done.stderr[-2000:]}")
        with open(report, encoding="utf-8") as f:
            cases = [c for c in json.load(f)["cases"] if c["outcome"] in ("pass", "fail")]
    count = collections.Counter("/".join(c["id"].split("/")[1:3]) for c in cases)
    failed = [c["id"] for c in cases if c["outcome"] == "fail"]
    return count, collections.Counter("/".join(name.split("/")[1:3]) for name in failed), failed


def main():
    build, device = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "cuda"
    for name, settings in WAYS:
        count, bad, failed = run(build, device, settings)
        print(f"{name}: " + ", ".join(f"{bad[of]} of {n} {of}" for of, n in sorted(count.items())))
        for case in failed:
            print(f"    {case}")


main()
