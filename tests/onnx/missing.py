# SPDX-License-Identifier: Apache-2.0
"""Tests the report of `bp onnx-test` on models that need missing operators or types: each is listed once, as
`unsupported`; and on half-type results that differ by units in the last place.

    missing.py BP PLUGINS

Prints one TAP line for each test. PLUGINS contains the plugin custom, a device with one kernel.
"""
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as tree

import numpy as np
from onnx import AttributeProto, TensorProto, helper

import kit
from kit import node

X = np.arange(6, dtype=np.float32).reshape(2, 3)
E8M0, F4 = 24, 23  # FLOAT8E8M0 and FLOAT4E2M1, which this version of the onnx package lacks

LACKS = {
    "operators": (13, [node("Nothing", "x", "a"), node("Relu", "a", "b"), node("Col2Im", "b", "c"), node("Nothing", "c", "y")],
                  ["operator Nothing of opset 13 [2 times]", "operator Col2Im of opset 13"]),
    "opset": (29, [node("Nothing", "x", "a"), node("Relu", "a", "y")],
              ["opset 29, 1 to 28 are known", "operator Nothing of opset 29"]),
    "attributes": (13, [node("Conv", "x x x x", "y", one=1, two="b", strides=2.0)],
                   ["Conv: 4 inputs, expected 3 at most", "Conv: it has no attribute one that is known here",
                    "Conv: attribute strides is float, expected ints", "Conv: it has no attribute two that is known here"]),
    "strings": (13, [node("Constant", "", "a", value_string="a"), node("Constant", "", "y", value_strings=["b"])],
                ["Constant: constants of strings are not supported [2 times]"]),
    "float4": (23, [node("Cast", "x", "h", to=F4), node("Cast", "h", "y", to=TensorProto.FLOAT)],
               ["Cast: attribute to is element type 23 (float4e2m1)"]),
    "types": (25, [*(node("Cast", "x", "t%d" % i, to=i) for i in (21, 22, 23, 25, 26, 27, 28, 99)), node("Neg", "x", "y")],
              ["Cast: attribute to is element type " + words for words in (
                  "21 (uint4)", "22 (int4)", "23 (float4e2m1)", "25 (uint2)", "26 (int2)", "27 (float6e2m3)", "28 (float6e3m2)", "99")]),
    "quantised_powers": (24, [node("QuantizeLinear", "x x", "y", output_dtype=E8M0)],
                         ["QuantizeLinear: attribute output_dtype is element type 24, f8e8m0"]),
    "recurrent": (14, [node("GRU", "x x x", "a", clip=1.0, activations=["Elu", "Sigmoid"]),
                       node("LSTM", "x x x", "b", input_forget=1, clip=1.0),
                       node("RNN", "x x x", "c", activations=["Elu"]), node("Identity", "a", "y")],
                  ["GRU: clip is not supported", "GRU: activation 0 is Elu, expected Sigmoid",
                   "GRU: activation 1 is Sigmoid, expected Tanh", "LSTM: clip is not supported",
                   "LSTM: input_forget is not supported", "RNN: activation 0 is Elu, expected Tanh or Relu"]),
    "scales": (23, [node("DequantizeLinear", "q x", "y", output_dtype=TensorProto.FLOAT16),
                    node("DequantizeLinear", "q x", "z", output_dtype=TensorProto.FLOAT)],
               ["DequantizeLinear: output_dtype is f16, that of the scales, f32, is supported"]),
    "ports": (13, [node("GroupQueryAttention", "x x x _ _ x x _ _ x _ x", "y _ _ z", domain="com.microsoft", num_heads=1,
                        kv_num_heads=1)],
              ["com.microsoft.GroupQueryAttention: input position_ids is not supported",
               "com.microsoft.GroupQueryAttention: input head_sink is not supported",
               "com.microsoft.GroupQueryAttention: output output_qk is not supported"]),
    "many": (29, [node("Nothing", "x", "a"), node("Cast", "a", "b", to=TensorProto.STRING), node("Cast", "x", "c", to=TensorProto.STRING),
                  node("Nothing", "b", "d"), node("Strange", "d", "e", domain="com.microsoft"), node("Relu", "e", "f", one=1),
                  node("Conv", "x x x x", "g", two=1), node("Nothing", "f", "y")],
             ["opset 29, 1 to 28 are known", "operator Nothing of opset 29 [3 times]", "Cast: attribute to is element type 8 (string) [2 times]",
              "operator com.microsoft.Strange of opset 1", "Relu: it has no attribute one that is known here",
              "Conv: 4 inputs, expected 3 at most", "Conv: it has no attribute two that is known here"]),
    "attribute": (13, [node("Relu", "x", "a", strange=1), node("Nothing", "a", "y")],
                  ["Relu: it has no attribute strange that is known here", "operator Nothing of opset 13"]),
}


def function():
    """Returns a function of opset 14. A node takes an attribute from the call, and has another one that is not
    supported; a sub-graph uses an attribute that opset 14 has introduced."""
    layer = node("LSTM", "x x x", "a", clip=1.0)
    pool = node("MaxPool", "a", "b")
    for of, name, kind in ((layer, "hidden_size", AttributeProto.INT), (pool, "kernel_shape", AttributeProto.INTS)):
        of.attribute.add(name=name, ref_attr_name="k", type=kind)
    branch = kit.graph([node("GRU", "b b b", "g", layout=1), node("Nothing", "g", "h")], [], [kit.info("h")])
    return helper.make_function("d", "F", ["x"], ["y"], [layer, pool, node("If", "x", "y", then_branch=branch,
                                                                           else_branch=branch)],
                                [helper.make_opsetid("", 14)], ["k"])


def lacks(bp):
    """Tests models whose files show that something is missing."""
    with tempfile.TemporaryDirectory() as path:
        folder = kit.Folder(path)
        for name, (opset, nodes, _) in LACKS.items():
            folder.add(name, opset, nodes, {"x": X}, {"y": X}, more_domains=["com.microsoft"])
        folder.add("function", 13, [node("F", "x", "y", domain="d", k=[2])], {"x": X}, {"y": X}, more_domains=["d"],
                   functions=[function()])
        folder.add("fine", 13, [node("Neg", "x", "y")], {"x": X}, {"y": -X})
        report, junit = os.path.join(path, "report.json"), os.path.join(path, "report.xml")
        done = subprocess.run([bp, "onnx-test", path, "--json", report, "--junit", junit], capture_output=True, text=True,
                              check=False)
        with open(report, encoding="utf-8") as file:
            said = json.load(file)
        cases = {c["id"].rpartition("/")[2]: c for c in said["cases"]}
        suites = tree.parse(junit).getroot()
    wanted = {name: lines for name, (_, _, lines) in LACKS.items()}
    wanted["function"] = ["LSTM: clip is not supported", "operator Nothing of opset 14 [2 times]"]
    for name, lines in wanted.items():
        got = cases[name]["message"].removeprefix("missing: ").split("\n")
        yield f"all that is missing: {name}: {got}", done, cases[name]["outcome"] == "unsupported" and got == lines
    yield "what is missing does not fail the run", done, done.returncode == 0 and cases["fine"]["outcome"] == "pass"
    yield "JUnit calls it skipped", done, (suites.get("failures"), suites.get("skipped")) == ("0", str(len(wanted)))
    missing = {entry["name"]: entry["models"] for entry in said["missing"]}
    yield f"JSON counts models by what is missing: {missing}", done, \
        (missing["Nothing"], missing["Col2Im"], missing["opset 29"], missing["QuantizeLinear"]) == (5, 1, 2, 1) and \
        said["missing"][0]["name"] == "Nothing"
    lines = [line.split(None, 1) for line in done.stdout.partition("how many models need it:\n")[2].splitlines()]
    yield "the text ends with the same", done, lines[0] == ["5", "Nothing"]


def without_kernels(bp, plugins):
    """Tests a device with a kernel for one operator: models with other operators are unsupported, and a wrong
    result fails."""
    env = dict(os.environ, BP_PLUGIN_PATH=plugins, BP_PLUGINS="custom,cpu")
    with tempfile.TemporaryDirectory() as path:
        folder = kit.Folder(path)
        folder.add("exp", 13, [node("Exp", "x", "y")], {"x": X}, {"y": np.exp(X)})
        folder.add("wrong", 13, [kit.node("Repeat", "x", "y", domain="acme", times=2)], {"x": X}, {"y": np.tile(X, 2) + 1},
                   more_domains=["acme"])
        report = os.path.join(path, "report.json")
        for name, status, outcome in (("exp", 0, "unsupported"), ("wrong", 1, "fail")):
            done = subprocess.run([bp, "onnx-test", path, "--device", "custom", "--json", report, "--filter", "*/" + name],
                                  env=env, capture_output=True, text=True, check=False)
            with open(report, encoding="utf-8") as file:
                said = json.load(file)
            yield f"a device of one kernel: {name} is {outcome}", done, done.returncode == status and \
                said["cases"][0]["outcome"] == outcome and \
                [m["name"] for m in said["missing"]] == (["kernel of exp"] if name == "exp" else [])


def halves(bp):
    """Tests the tolerance of half types: two units of difference pass, three fail."""
    one = np.ones(4, np.float16)
    with tempfile.TemporaryDirectory() as path:
        folder = kit.Folder(path)
        for units in (1, 2, 3):
            folder.add("f16_%d" % units, 13, [node("Identity", "x", "y")], {"x": one},
                       {"y": np.full(4, 1 + units * 2.0 ** -10, np.float16)})
            folder.add("small_%d" % units, 13, [node("Identity", "x", "y")], {"x": one * 0},
                       {"y": np.full(4, units * 2.0 ** -24, np.float16)})
            made = kit.const("c", 1 + units * 2.0 ** -7, np.float32)
            folder.add("bf16_%d" % units, 13, [node("Cast", "c", "y", to=TensorProto.BFLOAT16)], {}, {"y": np.ones((), np.float16)},
                       [made])
            folder_y = os.path.join(path, "written", "bf16_%d" % units, "test_data_set_0", "output_0.pb")
            with open(folder_y, "wb") as file: # 1 as bf16, a type that numpy lacks
                file.write(b"\x10\x10\x4a\x02\x80\x3f")
            model = os.path.join(path, "written", "bf16_%d" % units, "model.onnx")
            with open(model, "rb") as file:
                text = file.read()
            with open(model, "wb") as file:
                file.write(text.replace(b"\x0a\x01y\x12\x06\x0a\x04\x08\x0a", b"\x0a\x01y\x12\x06\x0a\x04\x08\x10"))
        came = folder.run(bp)
    for name, case in came.items():
        good = case["outcome"] == ("fail" if name.endswith("3") else "pass")
        yield f"units of half types: {name}: {case['outcome']} {case['message']}", subprocess.CompletedProcess([], 0, "", ""), good


def main(bp, plugins):
    kit.tell([*lacks(bp), *without_kernels(bp, plugins), *halves(bp)])


main(*sys.argv[1:])
