# SPDX-License-Identifier: Apache-2.0
"""Runs test models that are written by the scripts of this folder, for cases that ONNX's own test models lack,
on cpu.

    written.py BP

Prints one TAP line for each model. The last model has a wrong expected output, and must fail.
"""
import sys
import tempfile

import numpy as np

import contrib
import control
import endless
import heads
import images
import kit
import layers
import nodes
import order

WRONG = "wrong"
FAMILIES = (control, layers, heads, contrib, images, nodes, order, endless)


def main():
    with tempfile.TemporaryDirectory() as path:
        folder = kit.Folder(path)
        for family in FAMILIES:
            family.add_all(folder)
        folder.add(WRONG, 13, [kit.node("Neg", "x", "y")], {"x": np.ones(4, np.float32)},
                   {"y": np.array([-1, -1, -1, -1.1], np.float32)})
        came = folder.run(sys.argv[1])
    print(f"1..{len(folder.names)}")
    for number, name in enumerate(folder.names, 1):
        got = came.get(name, {"outcome": "lost", "message": ""})
        good = got["outcome"] == ("fail" if name == WRONG else "pass")
        print(f"{'ok' if good else 'not ok'} {number} - {name}")
        if not good:
            print(f"# {got['outcome']}: {got['message']}")


if __name__ == "__main__":
    main()
