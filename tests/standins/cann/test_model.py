#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the stand-in for atc, and runs test_model with a file that it made.

    test_model.py ATC TEST_MODEL FOLDER

TAP.
"""
import os
import subprocess
import sys
import tempfile

import onnx
from onnx import TensorProto, helper

ATC, PROGRAM, FOLDER = (os.path.abspath(a) for a in sys.argv[1:4])


def model(path):
    nodes = [helper.make_node("Add", ["x", "w"], ["s"]), helper.make_node("Relu", ["s"], ["y"])]
    weights = [helper.make_tensor("w", TensorProto.FLOAT, [3], [1, -2, 0])]
    graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), path)


def atc(**changed):
    """Whether atc succeeds with these options; None leaves an option out."""
    words = {"framework": "5", "model": "net.onnx", "output": "net", "soc_version": "Ascend910B3", "input_shape": "x:2,3", **changed}
    done = subprocess.run([sys.executable, ATC, *(f"--{k}={v}" for k, v in words.items() if v is not None)],
                          capture_output=True, text=True, check=False)
    return done.returncode == 0 and "ATC run success" in done.stdout


def main():
    results = []
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        model("net.onnx")
        results.append(("atc writes a model", atc(precision_mode="must_keep_origin_dtype") and os.path.exists("net.om")))
        os.rename("net.om", "kept.om")
        for name, changed in (("another framework", {"framework": "3"}), ("no model", {"model": "nothing.onnx"}),
                              ("an unknown product", {"soc_version": "Ascend1"}), ("an unknown option", {"colour": "red"}),
                              ("no output", {"output": None}), ("a bad shape", {"input_shape": "x:2,three"})):
            results.append((f"atc refuses {name}", not atc(**changed) and not os.path.exists("net.om")))
        done = subprocess.run([PROGRAM, FOLDER, "kept.om"], env={**os.environ, "BP_STANDIN_LOG": os.devnull}, check=False)
        results.append((f"the library runs it (step {done.returncode})", done.returncode == 0))
    for number, (name, good) in enumerate(results, 1):
        print(f"{'ok' if good else 'not ok'} {number} - {name}")
    print(f"1..{len(results)}")
    return not all(good for _, good in results)


sys.exit(main())
