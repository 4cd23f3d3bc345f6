# SPDX-License-Identifier: Apache-2.0
"""Tests that cpu refuses models with unknown or missing operators, attributes and types, with a message.

    refused.py BP ROWS SIGNATURES

ROWS, SIGNATURES: table.def and signature.def; each operator of one must be in the other. Prints one TAP line
for each model: exit status 1, and the words in the message.
"""
import os
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnx.defs
from onnx import TensorProto, helper

from kit import const, graph, info, node, tell

IMAGE = const("w", np.ones((1, 1, 3, 3)))
KERNEL = {"kernel_shape": [2, 2]}
RESIZE = [const("r", []), const("s", [1, 1, 0.5, 0.5])]
STATISTICS = [const(n, np.ones(1)) for n in "sbmv"]


def untyped(n, name):
    """Removes the type of an attribute, as in files of version 1 of the format."""
    next(a for a in n.attribute if a.name == name).ClearField("type")
    return n


def mistyped(n, name, kind):
    """Makes the declared type of an attribute differ from the type of its value."""
    next(a for a in n.attribute if a.name == name).type = kind
    return n


def twice(n):
    """Repeats the node's first attribute."""
    n.attribute.append(n.attribute[0])
    return n


def doubled(t):
    """Stores the tensor's data in a second field too."""
    t.float_data.extend([0] * len(t.raw_data))
    return t


def small(name, kind, n):
    """Returns n elements of a one-byte type that numpy lacks."""
    return TensorProto(name=name, dims=[n], data_type=kind, raw_data=bytes(n))


FLOATS8 = {17: "f8e4m3", 18: "f8e4m3fnuz", 19: "f8e5m2", 20: "f8e5m2fnuz", 24: "f8e8m0"}

# Name: node, opset, weights, words of the message; x is [1, 1, 4, 4]. None instead of words: the model runs.
NODES = {
    "a float for an int": (node("Softmax", "x", "y", axis=1.0), 13, [], "(Softmax): attribute axis is float, expected int"),
    "a text for an int": (node("Concat", "x x", "y", axis="1"), 13, [], "attribute axis is string, expected int"),
    "floats for ints": (node("Conv", "x w", "y", strides=[2.0, 2.0]), 13, [IMAGE],
                        "attribute strides is floats, expected ints"),
    "an int for ints": (node("Transpose", "x", "y", perm=1), 13, [], "attribute perm is int, expected ints"),
    "an int for a float": (node("LeakyRelu", "x", "y", alpha=1), 13, [], "attribute alpha is int, expected float"),
    "a type beside its value": (mistyped(node("Softmax", "x", "y", axis=1), "axis", 1), 13, [],
                                "attribute axis is of a type that its value has not"),
    "no type, but a value": (untyped(node("Softmax", "x", "y", axis=1), "axis"), 13, [], None),
    "no type, and a wrong value": (untyped(node("Softmax", "x", "y", axis=1.0), "axis"), 13, [], "axis is float"),
    "auto_pad of conv": (node("Conv", "x w", "y", auto_pad="ZORK"), 13, [IMAGE],
                         "auto_pad is ZORK, expected NOTSET|SAME_UPPER|SAME_LOWER|VALID"),
    "auto_pad of a pool": (node("MaxPool", "x", "y", auto_pad="SAME", **KERNEL), 13, [], "auto_pad is SAME, expected"),
    "mode of pad": (node("Pad", "x p", "y", mode="zork"), 13, [const("p", [0] * 8, np.int64)],
                    "mode is zork, expected constant|reflect|edge|wrap"),
    "a statistic for each place": (node("BatchNormalization", "x s b m v", "y", spatial=0), 7, STATISTICS,
                                   "spatial is 0, expected 1"),
    "a statistic for each channel": (node("BatchNormalization", "x s b m v", "y", spatial=1), 7, STATISTICS, None),
    "another type than that of scales": (node("DequantizeLinear", "q s", "y", output_dtype=TensorProto.FLOAT16), 23,
                                         [const("q", np.ones(4), np.int8), const("s", 1)],
                                         "output_dtype is f16, that of the scales, f32, is supported"),
    "the type of scales": (node("DequantizeLinear", "q s", "y", output_dtype=TensorProto.FLOAT), 23,
                           [const("q", np.ones(4), np.int8), const("s", 1)], None),
    "powers of two for scales, without the type of the result": (
        node("DequantizeLinear", "q s", "y"), 24, [const("q", np.ones(4), np.int8), small("s", 24, 1)],
        "the scales are f8e8m0, output_dtype is f8e8m0, expected f16, bf16 or f32"),
    "powers of two for scales": (node("DequantizeLinear", "q s", "y", output_dtype=TensorProto.FLOAT16), 24,
                                 [const("q", np.ones(4), np.int8), small("s", 24, 1)], None),
    "quantised powers of two": (node("DequantizeLinear", "q s", "y"), 24, [small("q", 24, 4), const("s", 1)],
                                "input x is f8e8m0, expected"),
    "a zero that is a power of two": (node("QuantizeLinear", "x s z", "y"), 24, [const("s", 1), small("z", 24, 1)],
                                      "f8e8m0"),
    "a rounding mode that is not known": (node("Cast", "x", "y", to=24, round_mode="even"), 24, [],
                                          "round_mode is even, expected up|down|nearest"),
    "a third summand": (node("Add", "x x x", "y"), 13, [], "(Add): 3 inputs, expected 2 at most"),
    "absent inputs at the end": (node("Add", "x x _", "y"), 13, [], None),
    "an attribute that is not known": (node("Relu", "x", "y", slope=0.5), 13, [], "it has no attribute slope"),
    "an attribute of a later opset": (node("Resize", "x r s", "y", antialias=1), 13, RESIZE,
                                      "(Resize): attribute antialias is known from opset 18 only, this is opset 13"),
    "an attribute of its opset": (node("Resize", "x r s", "y", antialias=1, mode="linear"), 18, RESIZE, None),
    "an attribute of an earlier opset": (node("ReduceMax", "x", "y", axes=[1]), 18, [],
                                         "(ReduceMax): attribute axes is known to opset 17 only, this is opset 18"),
    "the last opset of an attribute": (node("ReduceMax", "x", "y", axes=[1]), 17, [], None),
    "a type of a later opset": (node("Cast", "x", "y", to=1), 5, [], "(Cast): attribute to is int, expected string"),
    "a type of an earlier opset": (node("Cast", "x", "y", to="FLOAT"), 6, [], "attribute to is string, expected int"),
    "a bad index, found by an operator in the middle of a node": (
        node("ScatterND", "x i u", "y", reduction="max"), 18, [const("i", [[0, 7]], np.int64), const("u", np.ones((1, 4, 4)))],
        "node y/"),
    "an operand aligned with an axis that is not there": (
        node("Add", "x c", "y", broadcast=1, axis=2**63 - 1), 6, [const("c", [1.0])],
        "node y (Add): attribute axis is 9223372036854775807, expected 0 to 3"),
    "an operand that is longer than the axes it is aligned with": (
        node("Add", "x c", "y", broadcast=1, axis=3), 6, [const("c", np.ones((4, 4)))], "axis is 3, expected 0 to 2"),
    "an operand aligned with an axis before the first": (
        node("Mul", "x c", "y", broadcast=1, axis=-2**63), 6, [const("c", [1.0])], "(Mul): attribute axis is -9223372036854775808"),
    "needed from an opset on": (node("Concat", "x x", "y"), 4, [], "(Concat): it needs the attribute axis"),
    "not needed before": (node("Concat", "x x", "y"), 3, [], None),
    "a scale for each element of a scalar": (
        node("QuantizeLinear", "e s z", "y", axis=-1000), 23, [const("e", 1), const("s", [1, 1]), small("z", 17, 2)],
        "(QuantizeLinear): x is a scalar: one scale is expected"),
    "blocks of a scalar": (
        node("QuantizeLinear", "e s", "y", axis=10**6, block_size=1, output_dtype=TensorProto.INT8), 23,
        [const("e", 1), const("s", 1)], "x is a scalar: one scale is expected, without blocks"),
    "one scale of a scalar": (
        node("QuantizeLinear", "e s z", "y", axis=-1000), 23, [const("e", 1), const("s", 1), small("z", 17, 1)], None),
    "a scalar rate": (
        node("LinearAttention", "q q q _ _ b", "y", q_num_heads=1, kv_num_heads=1, update_rule="delta"), 27,
        [const("q", np.ones((1, 2, 4))), const("b", 1)], "input 5: 3 axes are expected"),
    "an attribute twice": (twice(node("LeakyRelu", "x", "y", alpha=0.5)), 13, [], "attribute alpha is given twice"),
    "a weight's data twice": (node("Add", "x w", "y"), 13, [doubled(const("w", 1))],
                              "tensor w: raw_data and another field have its data"),
    "a note of a tool": (node("Relu", "x", "y", __made_by="hand"), 13, [], None),
    "an attribute that is needed": (node("MaxPool", "x", "y"), 13, [], "(MaxPool): it needs the attribute kernel_shape"),
    # Inputs that are read as integers must be integers; other elements would be read in a wrong width.
    **{f"a shape of {name}": (node("ConstantOfShape", "s", "y"), 13, [small("s", kind, 4096)],
                              f"input 0 is {name}, expected integers") for kind, name in FLOATS8.items()},
    **{f"extents of {name}": (node("Expand", "x s", "y"), 13, [small("s", kind, 4)],
                              f"input 1 is {name}, expected integers") for kind, name in FLOATS8.items()},
    "a shape of f16": (node("Reshape", "x s", "y"), 13, [const("s", [4, 4], np.float16)], "input 1 is f16, expected"),
    "a shape of f32": (node("Reshape", "x s", "y"), 13, [const("s", [4, 4])], "input 1 is f32, expected integers"),
    "a range of f8e4m3": (node("Range", "a a a", "y"), 13, [small("a", 17, 1)],
                          "input 0 is f8e4m3, expected numbers that the host reads"),
    "sizes of parts whose sum overflows": (node("Split", "x s", "y z", axis=3), 13,
                                           [const("s", [-2**63, 2**63 - 1], np.int64)], "split: sizes[0] is"),
    "a rounding mode of a later opset": (node("Cast", "x", "y", to=10, round_mode="down"), 23, [],
                                         "attribute round_mode is known from opset 24 only"),
    "a rounding mode": (node("Cast", "x", "y", to=10, round_mode="down"), 24, [], None),
    "a rounding mode that does not exist": (node("CastLike", "x x", "y", round_mode="odd"), 24, [],
                                            "round_mode is odd, expected up|down|nearest"),
    "a range computed in f16": (node("Range", "a a a", "y", stash_type=10), 27, [const("a", 1, np.float16)],
                                "stash_type is 10, expected 1|11"),
    "blocks in another order": (node("SpaceToDepth", "x", "y", blocksize=2, mode="CRD"), 27, [],
                                "attribute mode is known from opset 28 only"),
    "a window without bounds": (node("Attention", "x x x", "y", left_window_size=-1, right_window_size=-1), 25, [], None),
    "a mask of one column": (node("Attention", "x x x m", "y"), 24, [const("m", np.zeros((4, 1)))], None),
    "a mask of one column in opset 23": (node("Attention", "x x x m", "y"), 23, [const("m", np.zeros((4, 1)))], None),
    "blocks that do not fit": (node("Col2Im", "v i k", "y"), 18,
                               [const("v", np.ones((1, 4, 5))), const("i", [3, 3], np.int64), const("k", [2, 2], np.int64)],
                               "x has to have 3 axes: N, a multiple of 4, 4"),
    "a stride of 0": (node("Col2Im", "v i k", "y", strides=[1, 0]), 18,
                      [const("v", np.ones((1, 4, 4))), const("i", [3, 3], np.int64), const("k", [2, 2], np.int64)],
                      "attribute strides: number 1 is 0, expected 1 or more"),
    "too few extents of a crop": (node("CenterCropPad", "x s", "y"), 18, [const("s", [4, 4], np.int64)], "2 extents, expected 4"),
    "half a spectrum of real numbers": (node("DFT", "v", "y", inverse=1, onesided=1), 17, [const("v", np.ones((1, 4, 1)))],
                                        "the one-sided transform is of complex numbers, x has 1 parts"),
    "one side of complex numbers": (node("DFT", "v", "y", onesided=1), 17, [const("v", np.ones((1, 4, 2)))],
                                    "the one-sided transform is of real numbers, x has 2 parts"),
    "past keys without values": (node("Attention", "x x x _ x", "y"), 23, [], "past_key and past_value are expected together"),
    "the number of keys in opset 23": (node("Attention", "x x x _ _ _ n", "y"), 23, [const("n", [4], np.int64)],
                                       "nonpad_kv_seqlen is known from opset 24 on, this is opset 23"),
    "values of other heads": (node("Attention", "x x v", "y", softcap=2.0), 23, [const("v", np.ones((1, 2, 4, 4)))],
                              "expected the same axes before heads, and heads that divide those of q"),
    "values of other heads beside products": (node("Attention", "x x v", "y _ _ p"), 23, [const("v", np.ones((1, 2, 4, 4)))],
                                              "queries have 1 batches, keys 1 of 1 heads, values 1 of 2 heads"),
    "lengths of other batches": (node("Attention", "x x x _ _ _ n", "y"), 24, [const("n", [4, 4], np.int64)],
                                 "attention: input length is i64 [2], expected"),
    "an image that is too large": (node("Col2Im", "v i k", "y", strides=[2**30] * 4), 18,
                                   [const("v", np.ones((1, 1, 16))), const("i", [2**31 - 1] * 4, np.int64), const("k", [1] * 4, np.int64)],
                                   "the image has more than 2^63 places"),
    "roots of a norm": (node("SimplifiedLayerNormalization", "x x", "y i"), 17, [], "output inv_std_var is not supported"),
    "an unknown state of products": (node("Attention", "x x x", "y", qk_matmul_output_mode=4), 23, [],
                                     "attribute qk_matmul_output_mode is 4, expected 0|1|2|3"),
    "cosines of another size": (node("RotaryEmbedding", "x c c", "y"), 23, [const("c", np.ones((1, 4, 1)))],
                                "4 of 4 elements of a head are rotated, cosines have 1, expected half as many"),
    "sines of another length": (node("RotaryEmbedding", "x c s", "y"), 23, [const("c", np.ones((1, 4, 2))), const("s", np.ones((1, 3, 2)))],
                                "sin_cache: [1, 4, 2] is expected, as there are no positions"),
    "no number of heads": (node("RotaryEmbedding", "v c c", "y"), 23, [const("v", np.ones((1, 4, 4))), const("c", np.ones((1, 4, 2)))],
                           "a last extent of 4, for num_heads 0"),
    "a depth of f32": (node("OneHot", "i d v", "y"), 13, [const("i", [1], np.int64), const("d", 3), const("v", [0, 1])],
                       None),
}


# As NODES, for nodes of the domain com.microsoft; x is [1, 1, 4, 4], t is [1, 4, 4] and u is [1, 4, 1].
T, U = const("t", np.ones((1, 4, 4))), const("u", np.ones((1, 4, 1)))
CONTRIB = {
    "a batch that is transposed": (node("FusedMatMul", "x x", "y", transBatchA=1), "transBatchA is 1, expected 0"),
    "a scale of angles": (node("RotaryEmbedding", "t t t t", "y", scale=2.0), "(RotaryEmbedding): scale is not supported"),
    "means of a sum": (node("SkipLayerNormalization", "x x x", "y m"), "output mean is not supported"),
    "a skip of another shape": (node("SkipLayerNormalization", "t u t", "y"), "skip: the shape of input 0 is expected"),
    "packed queries": (node("MultiHeadAttention", "t", "y", num_heads=1), "packed queries, keys and values are not supported"),
    "beams": (node("MultiHeadAttention", "t t t _ _ _ _ _ _ t", "y", num_heads=1), "input cache_indirection is not supported"),
    "a head's sink": (node("GroupQueryAttention", "t t t _ _ t t _ _ _ _ t", "y", num_heads=1, kv_num_heads=1),
                      "input head_sink is not supported"),
    "a softmax with a smooth factor": (node("GroupQueryAttention", "t t t _ _ t t", "y", num_heads=1, kv_num_heads=1, smooth_softmax=1),
                                       "attribute smooth_softmax is 1, expected -1|0"),
    "lengths for other batches": (node("GroupQueryAttention", "t t t _ _ t t", "y", num_heads=1, kv_num_heads=1),
                                  "seqlens_k: 1 numbers are expected"),
    "an operator that is missing": (node("Nothing", "x", "y"), "operator com.microsoft.Nothing of opset 1 is not in the table"),
    "an operator of ONNX": (node("Relu", "x", "y"), "operator com.microsoft.Relu of opset 1 is not in the table"),
}


OPSETS = {0: "opset 0, 1 to 28 are known", 1: None, 28: None, 29: "opset 29, 1 to 28 are known"}


def scaled(default, given):
    """Returns a model of y = k x by a function with an attribute k. Its default is appended to the serialised
    function as field 11, because the schema here may be older."""
    inner = node("HardSigmoid", "x", "y", beta=0.0)
    inner.attribute.add(name="alpha", ref_attr_name="k", type=onnx.AttributeProto.FLOAT)
    function = helper.make_function("d", "Scale", ["x"], ["y"], [inner], [helper.make_opsetid("", 13)])
    raw = function.SerializeToString() + b"".join(b"\x5a" + bytes([len(d)]) + d for d in default)
    function = onnx.FunctionProto.FromString(raw)
    return node("Scale", "x", "y", domain="d", **given), function


K = helper.make_attribute("k", 0.5).SerializeToString()
# Defaults as serialised bytes, attributes of the call, words of the message or of the printed text.
DEFAULTS = {
    "a default": ([helper.make_attribute("other", 0.3).SerializeToString(), K], {}, "largest 0.46875"),
    "a call's own value": ([K], {"k": 0.25}, "largest 0.234375"),
    "a default of another type": ([helper.make_attribute("k", "a").SerializeToString()], {},
                                  "attribute alpha is string, expected float"),
    "a default that is cut off": ([K[:-1]], {}, "a field is longer than what holds it"),
}


def write(folder, nodes, opset, weights, **more):
    path = os.path.join(folder, "model.onnx")
    ports = [info("x", shape=[1, 1, 4, 4])], [info("y")]
    onnx.save(helper.make_model(graph(nodes, *ports, weights),
                                opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("d", 1),
                                                              helper.make_opsetid("com.microsoft", 1)], **more), path)
    return path


def judge(bp, path, words):
    done = subprocess.run([bp, "run", path, "--device", "cpu"], capture_output=True, text=True, check=False, timeout=50)
    return done, done.returncode == 0 if words is None else done.returncode == 1 and words in done.stderr


def results(bp, folder):
    for name, (one, opset, weights, words) in NODES.items():
        yield name, *judge(bp, write(folder, [one], opset, weights), words)
    for name, (one, words) in CONTRIB.items():
        one.domain = "com.microsoft"
        yield name, *judge(bp, write(folder, [one], 13, [T, U]), words)
    dotted = node("com.microsoft.Gelu", "x", "y")
    yield "a name with a domain", *judge(bp, write(folder, [dotted], 13, []), "operator com.microsoft.Gelu of opset 13")
    for opset, words in OPSETS.items():
        yield f"opset {opset}", *judge(bp, write(folder, [node("Neg", "x", "y")], opset, []), words)
    for name, (default, given, words) in DEFAULTS.items():
        one, function = scaled(default, given)
        done, good = judge(bp, write(folder, [one], 13, [], functions=[function]), words)
        yield name, done, good or (done.returncode == 0 and words in done.stdout)


def names(path, word):
    with open(path, encoding="utf-8") as file:
        return set(re.findall(r"^(?:%s)\(([\w.]+)" % word, file.read(), re.M))


def signature(path):
    """Returns the rows of signature.def: {operator: [(attribute, types, needed, since, until)]}."""
    with open(path, encoding="utf-8") as file:
        rows = re.findall(r'^SIGNATURE\(([\w.]+), \w+,((?:\s*"[^"]*")+)\)', file.read(), re.M)
    found = {op: re.findall(r"(\w+):(\w+)(!?)(?:@(\d*)(?:-(\d+))?)?", "".join(re.findall(r'"([^"]*)"', text)))
             for op, text in rows}
    return {op: [(name, kind, bool(needed), int(since or 0), int(until or 99)) for name, kind, needed, since, until in of]
            for op, of in found.items()}


LAST = 17  # the schemas of ONNX 1.12 have no later opset
KINDS = {"SPARSE_TENSOR": "sparse", "TYPE_PROTO": "type"}
# Attributes that the schemas require and this library does not, because it does not read their values.
LENIENT = {("BatchNormalization", "consumed_inputs")}


def schemas():
    """Returns each schema with each opset for which it is valid."""
    versions = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain in ("", "ai.onnx.preview.training"):
            versions.setdefault(schema.name, {})[schema.since_version] = schema
    for of in versions.values():
        for opset in range(min(of), LAST + 1):
            yield of[max(since for since in of if since <= opset)], opset


def differences(rows):
    """Returns the attributes in which the table differs from ONNX's schemas."""
    for schema, opset in schemas():
        if schema.name not in rows:
            continue
        has = {(name, kind, needed and (schema.name, name) not in LENIENT)
               for name, kind, needed, since, until in rows[schema.name] if since <= opset <= until}
        should = {(name, KINDS.get(a.type.name, a.type.name.lower()), a.required and (schema.name, name) not in LENIENT)
                  for name, a in schema.attributes.items()}
        if has != should:
            yield f"{schema.name} of opset {opset}: {sorted(has ^ should)}"


def tables(rows, signatures):
    """Returns the results for both tables, in the form of a process's results."""
    other = sorted(names(rows, "MAP|ROW") ^ names(signatures, "SIGNATURE"))
    yield "each operator has a row and a signature", subprocess.CompletedProcess([], 0, str(other), ""), not other
    found = list(differences(signature(signatures)))
    yield "attributes are those of ONNX's schemas, opset by opset", \
        subprocess.CompletedProcess([], 0, "\n".join(found), ""), not found


def main(bp, rows, signatures):
    with tempfile.TemporaryDirectory() as folder:
        tell([*tables(rows, signatures), *results(bp, folder)])


if __name__ == "__main__":
    main(*sys.argv[1:])
