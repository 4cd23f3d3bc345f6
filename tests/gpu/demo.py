#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that `./dev demo` builds the plugins of any machine, but no image compiled for GPUs, since images take
minutes.

Also checks that each kernel is compiled for one instruction level and names no other one, so that a build of all
levels does not compile it again.

    demo.py NINJA BUILD ROOT

TAP.
"""
import json
import os
import re
import subprocess
import sys

NINJA, BUILD, ROOT = sys.argv[1:4]


def inputs(target):
    done = subprocess.run([NINJA, "-C", BUILD, "-t", "inputs", target], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.splitlines()


demo = inputs("demo")
names = {os.path.basename(path) for path in demo}
images = [path for path in demo if path.endswith((".fatbin", ".co")) or "/cuda/" in path or "/hip/" in path]
with open(os.path.join(ROOT, "dev"), encoding="utf-8") as f:
    builds = "make_with_progress demo" in f.read()
with open(os.path.join(BUILD, "compile_commands.json"), encoding="utf-8") as f:
    kernels = [c for c in json.load(f) if c["output"].startswith("plugins/cpu/libcpu_")]
tied = [c["output"] for c in kernels if any(f"_{level.lower()}.a.p/" not in c["output"]
                                            for level in re.findall(r"-DCPU_(AVX\w*)", c["command"]))]
missing = {"bp", "bp_cpu.so", "demo_network.c.o"} - names
checks = [("the demo has bp, the cpu plugin and the network", f"without {sorted(missing)}" if missing else None),
          ("the demo has no image for GPUs", f"it has {images[:5]}" if images else None),
          ("no kernel is told of other levels than its own",
           f"of {len(kernels)} these are: {tied[:5]}" if tied or not kernels else None),
          ("./dev demo builds the target demo", None if builds else "it does not")]
print(f"1..{len(checks)}")
for number, (name, wrong) in enumerate(checks, 1):
    print(f"{'not ok' if wrong else 'ok'} {number} - {name}" + (f"\n# {wrong}" if wrong else ""))
sys.exit(any(wrong for _, wrong in checks))
