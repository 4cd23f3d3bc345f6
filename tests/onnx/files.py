# SPDX-License-Identifier: Apache-2.0
"""Tests models with external data: files that are read, and files that are refused.

    files.py BP DEVICE
"""
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper

import kit

GOOD = None
OUTSIDE = "there is no such file inside the model's folder"
CASES = {  # location, offset, length, words of the message; GOOD: the model runs
    "a part of a file": ("w.bin", 16, 16, GOOD),
    "a file in a folder below": ("sub/w.bin", None, None, GOOD),
    "a folder above": ("../w.bin", None, None, OUTSIDE),
    "down and up again": ("sub/../../w.bin", None, None, OUTSIDE),
    "an absolute path": ("/etc/passwd", None, None, "outside the model's folder"),
    "a link": ("link.bin", None, None, OUTSIDE),
    "another name of a file outside": ("hard.bin", None, None, GOOD),
    "the model itself": ("model.onnx", 0, 16, GOOD),
    "a folder that is a link": ("up/w.bin", None, None, OUTSIDE),
    "a folder": ("sub", None, None, "it is a folder, or no regular file"),
    "a file that is too short": ("w.bin", 24, 16, "the tensor has 16 bytes from byte 24 on, but the file has 32"),
    "a negative offset": ("w.bin", -4, 16, "is not a number"),
    "a length of another tensor": ("w.bin", 0, 12, "length is not that of the tensor"),
    "no location": (None, None, None, "no location is given"),
    "no such file": ("none.bin", None, None, OUTSIDE),
}


def write_model(path, location, offset, length, dims=(4,)):
    weight = TensorProto(name="w", dims=dims, data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        if value is not None:
            weight.external_data.add(key=key, value=str(value))
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", ports[:1], ports[1:], [weight])
    with open(path, "wb") as file:
        file.write(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]).SerializeToString())


def run(bp, device, path, **env):
    return subprocess.run([bp, "run", path, "--device", device], capture_output=True, text=True, check=False,
                          env=dict(os.environ, **env))


def large(folder):
    """Writes a model of one product with 16 MB of weights."""
    path = os.path.join(folder, "large.onnx")
    weight = helper.make_tensor("w", TensorProto.FLOAT, [2048, 2048], np.ones((2048, 2048), np.float32).tobytes(), raw=True)
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 2048]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", ports[:1], ports[1:], [weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), path)
    return path


def sparse(folder):
    """Writes y = x + w, where w is a sparse weight and, as in old files, an input too; w is the first input."""
    path = os.path.join(folder, "sparse.onnx")
    values = helper.make_tensor("w", TensorProto.FLOAT, [1], [5.0])
    weight = helper.make_sparse_tensor(values, helper.make_tensor("i", TensorProto.INT64, [1], [3]), [4])
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
             for name, shape in (("w", [4]), ("x", [2, 4]), ("y", [2, 4]))]
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", ports[:2], ports[2:],
                              sparse_initializer=[weight])
    with open(path, "wb") as file:
        file.write(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]).SerializeToString())
    return path


def results(bp, device):
    with tempfile.TemporaryDirectory() as root:
        folder = os.path.join(root, "model")
        os.makedirs(os.path.join(folder, "sub"))
        for path in (root, folder, os.path.join(folder, "sub")):
            np.arange(8, dtype=np.float32).tofile(os.path.join(path, "w.bin"))
        os.symlink("../w.bin", os.path.join(folder, "link.bin"))
        os.link(os.path.join(root, "w.bin"), os.path.join(folder, "hard.bin"))
        os.symlink("..", os.path.join(folder, "up"))
        for name, (location, offset, length, word) in CASES.items():
            path = os.path.join(folder, "model.onnx")
            write_model(path, location, offset, length)
            done = run(bp, device, path)
            good = done.returncode == 0 and "largest 7.75" in done.stdout if offset == 16 and word is GOOD else \
                done.returncode == 0 if word is GOOD else done.returncode == 1 and word in done.stderr
            yield name, done, good
        write_model(path, "w.bin", None, None, dims=(1 << 29, 1 << 29))
        done = run(bp, device, path)
        yield "a tensor of 2^60 bytes", done, done.returncode == 1 and "1152921504606846976 bytes from byte 0 on, but the file has" in done.stderr
        done = run(bp, device, sparse(folder))
        yield "a sparse weight that is an input too", done, done.returncode == 0 and "largest 5.875" in done.stdout
        done = run(bp, device, large(folder), BP_MEM_LIMIT="10M")
        yield "more memory than there may be", done, done.returncode == 1 and "BP_MEM_LIMIT" in done.stderr
        done = run(bp, device, large(folder), BP_MEM_LIMIT="64M")
        yield "as much as there may be", done, done.returncode == 0


def main(bp, device):
    kit.tell(list(results(bp, device)))


if __name__ == "__main__":
    main(*sys.argv[1:])
