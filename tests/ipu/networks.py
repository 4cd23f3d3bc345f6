#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs light networks of the ONNX project, which are not part of this repository, on the ipu plugin with the stand-in for
Poplar: outputs must be the expected ones, and at least 95 % of the nodes must be in groups of the engine.

    networks.py BP SOURCE [NAME...]

The networks are in the folder BP_ONNX_LIGHT, otherwise beside the repository. Without names the small ones run; "all"
stands for each of them.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "onnx"))
import networks as light  # noqa: E402

SMALL = ("shufflenet", "squeezenet")


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
        for title, good, done in ((f"{name}: the output is the expected one", light.is_expected(run), run),
                                  light.shared(bp, "ipu", folder, name)):
            number += 1
            print(f"{'ok' if good else 'not ok'} {number} - {title}", flush=True)
            if not good:
                print("# " + f"{done.stdout}{done.stderr}exit status {done.returncode}".replace("\n", "\n# "))


if __name__ == "__main__":
    main(*sys.argv[1:])
