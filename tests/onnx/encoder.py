# SPDX-License-Identifier: Apache-2.0
"""Runs the sentence encoder MiniLM on a device: the graph of tests/peers/minilm.py with its six layers and their sizes, fewer
words, and random weights. The vectors of sentences of different lengths must be those of numpy, which computes in f64, without
fallback to another device, and at least 95 % of the nodes must run by rows of the device's plugin.

    encoder.py BP DEVICE

`./dev peers test` runs the encoder with its own weights.
"""
import math
import os
import sys
import tempfile

import numpy as np
import onnx
from onnx import numpy_helper

import kit
import networks
import share

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "peers"))
import minilm  # noqa: E402

WIDTH = minilm.HEADS * minilm.WIDTH
INNER = 4 * WIDTH
WORDS, PLACES = 500, 16
SENTENCES = (7, 4, 1)  # words of each
TOLERANCE = "0.001"


def weights():
    """{name: array}, with the names and shapes of the file that minilm.py reads, but for WORDS and PLACES."""
    random, made = np.random.default_rng(26), {}

    def add(name, *shape, spread=1.0, base=0.0):
        made[name] = np.float32(base) + np.float32(spread) * random.standard_normal(shape, np.float32)

    def linear(name, out, width):
        add(f"{name}.weight", out, width, spread=width ** -0.5)
        add(f"{name}.bias", out, spread=0.1)

    def norm(name):
        add(f"{name}.weight", WIDTH, spread=0.1, base=1)
        add(f"{name}.bias", WIDTH, spread=0.1)

    for kind, rows in (("word", WORDS), ("position", PLACES), ("token_type", 2)):
        add(f"embeddings.{kind}_embeddings.weight", rows, WIDTH)
    norm("embeddings.LayerNorm")
    for i in range(minilm.LAYERS):
        layer = f"encoder.layer.{i}"
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            linear(f"{layer}.attention.{part}", WIDTH, WIDTH)
        norm(f"{layer}.attention.output.LayerNorm")
        linear(f"{layer}.intermediate.dense", INNER, WIDTH)
        linear(f"{layer}.output.dense", WIDTH, INNER)
        norm(f"{layer}.output.LayerNorm")
    return made


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm(x, scale, bias):
    d = x - x.mean(-1, keepdims=True)
    return d / np.sqrt((d * d).mean(-1, keepdims=True) + minilm.EPSILON) * scale + bias


def reshape(x, shape):
    return x.reshape([x.shape[i] if n == 0 else n for i, n in enumerate(shape)])


# The operators of the graph: functions of its inputs; those with attributes take the node's values by name.
OPERATORS = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "MatMul": np.matmul, "Erf": np.vectorize(math.erf),
    "Softmax": lambda x, axis: softmax(x), "LayerNormalization": lambda x, scale, bias, epsilon: layer_norm(x, scale, bias),
    "LpNormalization": lambda x, axis, p: x / np.sqrt((x * x).sum(axis, keepdims=True)),
    "Cast": lambda x, to: x.astype(np.float64), "Transpose": lambda x, perm: x.transpose(perm), "Reshape": reshape,
    "Shape": lambda x: np.array(x.shape), "Slice": lambda x, begin, end: x[begin[0]:end[0]],
    "Gather": lambda x, index: x[index], "Unsqueeze": lambda x, axes: np.expand_dims(x, tuple(axes)),
    "Squeeze": lambda x, axes: np.squeeze(x, tuple(axes)),
}


def computed(model, inputs):
    """The output of a model, by numpy."""
    values = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    values = {name: x.astype(np.float64) if x.dtype == np.float32 else x for name, x in values.items()} | inputs
    for node in model.graph.node:
        given = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        values[node.output[0]] = OPERATORS[node.op_type](*(values[name] for name in node.input), **given)
    return values[model.graph.output[0].name]


def save(path, array):
    with open(path, "wb") as file:
        file.write(numpy_helper.from_array(array).SerializeToString())


def write(folder):
    """Writes the model, its inputs and the expected output. Returns the path of the model."""
    model, path = minilm.build(weights()), os.path.join(folder, "encoder.onnx")
    shape = (len(SENTENCES), max(SENTENCES))
    ids = np.random.default_rng(7).integers(0, WORDS, shape, np.int64)
    mask = np.int64(np.arange(shape[1]) < np.array(SENTENCES)[:, None])
    expected = computed(model, {"input_ids": ids, "attention_mask": mask})
    assert expected.shape == (len(SENTENCES), WIDTH) and np.allclose((expected ** 2).sum(-1), 1)
    onnx.save(model, path)
    for name, array in (("input_0", ids), ("input_1", mask), ("output_0", expected.astype(np.float32))):
        save(os.path.join(folder, f"{name}.pb"), array)
    return path


def main(bp, device):
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder)
        run = networks.run(bp, device, path, "--data", folder, "--rtol", TOLERANCE)
        done, found = share.measured(bp, path, device.partition(":")[0], "--data", folder)
    done.stdout = str(found)
    kit.tell([("the vectors are those of numpy", run, networks.is_expected(run)),
              (f"{share.SHARE:.0%} of the nodes run by rows of the plugin", done, found is not None and found.is_good())])


if __name__ == "__main__":
    main(*sys.argv[1:])
