#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs light networks of the ONNX project, which are not part of this repository, on the ipu plugin with the stand-in for
Poplar: outputs must be the expected ones, and at least 95 % of the nodes must be in groups of the engine.

    networks.py BP SOURCE [NAME...]

The networks are in the folder BP_ONNX_LIGHT, otherwise beside the repository. Without names the small ones run; "all"
stands for each of them.
"""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "onnx"))
import networks as light  # noqa: E402

SMALL = ("shufflenet", "squeezenet")
SHARE = 0.95


def share(bp, folder, name):
    """The part of a network's nodes that is in compiled groups."""
    done = subprocess.run([bp, "program", os.path.join(folder, f"light_{name}.onnx"), "--device", "ipu", "--json"],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        return done, 0
    program = json.loads(done.stdout)
    names = [p["name"] for p in program["passes"]]
    nodes = program["passes"][names.index("engine") - 1]["nodes"]
    inside = sum(g["nodes"] for g in program["groups"] if g["compiled"])
    done.stdout = f"{inside} of {nodes} nodes are in groups\n" + json.dumps(program["left_out"], indent=1)
    return done, inside / nodes


def main(bp, source, *names):
    folder, found = light.found(source)
    if not found:
        print("1..0 # SKIP the light ONNX networks are not beside the repository")
        return
    chosen = found if names == ("all",) else names or SMALL
    print(f"1..{2 * len(chosen)}")
    number = 0
    for name in chosen:
        run = light.expected(bp, "ipu", folder, name)
        part, inside = share(bp, folder, name)
        for what, good, done in (("the output is the expected one", light.is_expected(run), run),
                                 (f"{SHARE:.0%} of the nodes are in groups", inside >= SHARE, part)):
            number += 1
            print(f"{'ok' if good else 'not ok'} {number} - {name}: {what}", flush=True)
            if not good:
                print("# " + f"{done.stdout}{done.stderr}exit status {done.returncode}".replace("\n", "\n# "))


if __name__ == "__main__":
    main(*sys.argv[1:])
