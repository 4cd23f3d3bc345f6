# SPDX-License-Identifier: Apache-2.0
"""Writes models of a few nodes and their expected outputs in the layout that `bp onnx-test` reads, and runs
them."""
import json
import os
import subprocess

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ANY = -1


def info(name, dtype=TensorProto.FLOAT, shape=None):
    return helper.make_tensor_value_info(name, dtype, shape)


def sequence_info(name, dtype=TensorProto.FLOAT):
    return helper.make_tensor_sequence_value_info(name, dtype, None)


def const(name, value, dtype=np.float32):
    """An initialiser."""
    return numpy_helper.from_array(np.asarray(value, dtype), name)


def node(op, inputs, outputs, **attributes):
    """inputs, outputs: names with spaces between them; _ is an absent one."""
    names = [["" if n == "_" else n for n in text.split()] for text in (inputs, outputs)]
    return helper.make_node(op, *names, **attributes)


def graph(nodes, inputs, outputs, weights=()):
    return helper.make_graph(nodes, "g", inputs, outputs, weights)


def bf16_of(array):
    """Rounds numbers to bf16, a type that numpy lacks. Returns a TensorProto."""
    bits = np.asarray(array, np.float32).view(np.uint32).astype(np.uint64)
    high = ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return TensorProto(dims=high.shape, data_type=TensorProto.BFLOAT16, raw_data=high.tobytes())


def kind_of(array):
    return numpy_helper.from_array(np.zeros(1, array.dtype)).data_type


def tell(lines):
    """Prints a list of results as TAP. A result is its name, the process that ended, and whether the test
    passed."""
    print(f"1..{len(lines)}")
    for number, (name, done, good) in enumerate(lines, 1):
        print(f"{'ok' if good else 'not ok'} {number} - {name}")
        if not good:
            print(f"# exit status {done.returncode}\n# " + (done.stdout + done.stderr).replace("\n", "\n# "))


class Folder:
    """A folder of models; `run` runs bp on all of them."""

    def __init__(self, path):
        self.path = path
        self.names = []

    def write(self, path, value):
        if isinstance(value, TensorProto):
            proto = value
        elif isinstance(value, list):
            proto = numpy_helper.from_list(value, None)
        else:
            proto = numpy_helper.from_array(np.ascontiguousarray(value).reshape(np.shape(value)))
        with open(path, "wb") as file:
            file.write(proto.SerializeToString())

    def port(self, name, value):
        if isinstance(value, TensorProto):
            return info(name, value.data_type, list(value.dims))
        if isinstance(value, list):
            return sequence_info(name, kind_of(value[0]) if value else TensorProto.FLOAT)
        return info(name, kind_of(value), [None] * value.ndim)

    def add(self, name, opset, nodes, inputs, outputs, weights=(), domain="", more_domains=(), functions=()):
        """inputs, outputs: the value of each name, an array, a list of arrays or a TensorProto. more_domains: domains
        imported in version 1. functions: those of the model."""
        folder = os.path.join(self.path, "written", name, "test_data_set_0")
        os.makedirs(folder)
        self.names.append(name)
        model = helper.make_model(
            graph(nodes, [self.port(n, v) for n, v in inputs.items()],
                  [self.port(n, v) for n, v in outputs.items()], weights),
            opset_imports=[helper.make_opsetid(domain, opset)] + [helper.make_opsetid(d, 1) for d in more_domains],
            functions=functions)
        onnx.save(model, os.path.join(self.path, "written", name, "model.onnx"))
        for kind, values in (("input", inputs), ("output", outputs)):
            for i, value in enumerate(values.values()):
                self.write(os.path.join(folder, "%s_%d.pb" % (kind, i)), value)

    def run(self, bp, device="cpu"):
        """Returns the result of each model: {name: {"outcome", "message"}}."""
        report = os.path.join(self.path, "report.json")
        subprocess.run([bp, "onnx-test", self.path, "--device", device, "--json", report],
                       check=False, stdout=subprocess.DEVNULL)
        with open(report, encoding="utf-8") as file:
            return {c["id"].rpartition("/")[2]: c for c in json.load(file)["cases"]}
