# SPDX-License-Identifier: Apache-2.0
"""Runs test models that are written by the scripts of this folder, for cases that ONNX's own test models lack,
on cpu.

    written.py BP

Prints one TAP line for each model. The model "wrong" has a wrong expected output, and must fail. The model
"future" has an opset that does not exist; the message about it names the last opset that is known. Models of
later opsets must be unsupported.
"""
import re
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

WRONG, FUTURE = "wrong", "future"
FAMILIES = (control, layers, heads, contrib, images, nodes, order, endless)


def wanted(folder, name, last):
    """Returns the outcome that a model must have. last: the last opset that is known."""
    if name == WRONG:
        return "fail"
    return "unsupported" if folder.opset[name] > last else "pass"


def main():
    with tempfile.TemporaryDirectory() as path:
        folder = kit.Folder(path)
        for family in FAMILIES:
            family.add_all(folder)
        folder.add(WRONG, 13, [kit.node("Neg", "x", "y")], {"x": np.ones(4, np.float32)},
                   {"y": np.array([-1, -1, -1, -1.1], np.float32)})
        folder.add(FUTURE, 999, [kit.node("Neg", "x", "y")], {"x": np.ones(4, np.float32)}, {"y": -np.ones(4, np.float32)})
        came = folder.run(sys.argv[1])
    last = int(re.search(r"opset 999, 1 to (\d+) are known", came[FUTURE]["message"])[1])
    print(f"1..{len(folder.names)}")
    for number, name in enumerate(folder.names, 1):
        got = came.get(name, {"outcome": "lost", "message": ""})
        good = got["outcome"] == wanted(folder, name, last)
        print(f"{'ok' if good else 'not ok'} {number} - {name}")
        if not good:
            print(f"# {got['outcome']}: {got['message']}")


if __name__ == "__main__":
    main()
