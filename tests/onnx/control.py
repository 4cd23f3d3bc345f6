# SPDX-License-Identifier: Apache-2.0
"""Tests control flow, sequences and optionals, in forms that ONNX's own test models lack."""
import numpy as np
from onnx import TensorProto

from kit import const, graph, info, node, sequence_info

X = np.arange(6, dtype=np.float32).reshape(2, 3) + 1


def i64(value):
    return np.asarray(value, np.int64)


def accumulate(extra=()):
    """Builds a body: sum += x, where x is from the outer graph; the sum is a scan output too."""
    return graph([node("Add", "sum x", "next"), node("Identity", "next", "part"),
                  node("Identity", "on", "still"), *extra],
                 [info("i", TensorProto.INT64, []), info("on", TensorProto.BOOL, []), info("sum")],
                 [info("still", TensorProto.BOOL, []), info("next"), info("part", shape=[2, 3])])


def loops(f):
    zero, yes = const("zero", np.zeros((2, 3))), const("yes", True, np.bool_)
    for rounds in (0, 1, 3, 300):
        parts = np.array([X * (k + 1) for k in range(rounds)], np.float32).reshape(rounds, 2, 3)
        last = (X * rounds).astype(np.float32)
        loop = node("Loop", "rounds yes zero", "y parts", body=accumulate())
        f.add("loop_known_%d" % rounds, 13, [loop], {"x": X}, {"y": last, "parts": parts},
              [const("rounds", rounds, np.int64), yes, zero])
        f.add("loop_input_%d" % rounds, 13, [loop], {"x": X, "rounds": i64(rounds)},
              {"y": last, "parts": parts}, [yes, zero])
    # More iterations than a graph may have, and so many results that groups of groups are joined.
    count = graph([node("Add", "s x", "t"), node("Identity", "t", "p"),
                   node("Identity", "on", "still")],
                  [info("i", TensorProto.INT64, []), info("on", TensorProto.BOOL, []), info("s")],
                  [info("still", TensorProto.BOOL, []), info("t"), info("p")])
    f.add("loop_long", 13, [node("Loop", "rounds _ x", "y parts", body=count)],
          {"x": np.ones(1, np.float32)},
          {"y": np.full(1, 17001, np.float32),
           "parts": np.arange(2, 17002, dtype=np.float32).reshape(17000, 1)},
          [const("rounds", 17000, np.int64)])
    # If the loop has no condition input, the condition that the body computes is ignored.
    ends = graph([node("Add", "s x", "t"), node("Less", "i zero", "still")],
                 [info("i", TensorProto.INT64, []), info("on", TensorProto.BOOL, []), info("s")],
                 [info("still", TensorProto.BOOL, []), info("t")])
    zero_i = const("zero", 0, np.int64)
    f.add("loop_no_condition", 13, [node("Loop", "rounds _ x", "y", body=ends)],
          {"x": X}, {"y": X * 4}, [const("rounds", 3, np.int64), zero_i])
    f.add("loop_condition", 13, [node("Loop", "rounds yes x", "y", body=ends)],
          {"x": X}, {"y": X * 2}, [const("rounds", 3, np.int64), yes, zero_i])
    # Runs until the values are too large: the number of iterations is not known before the run.
    grows = graph([node("Add", "s s", "t"), node("Less", "t most", "still")],
                  [info("i", TensorProto.INT64, []), info("on", TensorProto.BOOL, []), info("s")],
                  [info("still", TensorProto.BOOL, []), info("t")])
    f.add("loop_while", 13, [node("Loop", "_ yes x", "y", body=grows)],
          {"x": np.float32(3), "most": np.float32(40)}, {"y": np.float32(48)}, [yes])


def nested(f):
    """Tests a loop in a loop, with a branch that depends on the iterations of both, and with weights inside."""
    then = graph([node("Mul", "s two", "even")], [], [info("even")], [const("two", 2)])
    other = graph([node("Constant", "", "one", value=const("", 1)), node("Add", "s one", "odd")], [],
                  [info("odd")])
    inner = graph([node("Equal", "i j", "same"),
                   node("If", "same", "t", then_branch=then, else_branch=other),
                   node("Identity", "on2", "still2")],
                  [info("j", TensorProto.INT64, []), info("on2", TensorProto.BOOL, []), info("s")],
                  [info("still2", TensorProto.BOOL, []), info("t")])
    outer = graph([node("Loop", "two_rounds _ u", "v", body=inner), node("Identity", "on", "still")],
                  [info("i", TensorProto.INT64, []), info("on", TensorProto.BOOL, []), info("u")],
                  [info("still", TensorProto.BOOL, []), info("v")])
    y = X.copy()
    for i in range(3):
        for j in range(2):
            y = y * 2 if i == j else y + 1
    weights = [const("two_rounds", 2, np.int64)]
    loop = node("Loop", "rounds _ x", "y", body=outer)
    f.add("nested_known", 13, [loop], {"x": X}, {"y": y},
          [const("rounds", 3, np.int64), *weights])
    f.add("nested_input", 13, [loop], {"x": X, "rounds": i64(3)}, {"y": y}, weights)
    branch = node("If", "c", "y", then_branch=graph([node("Neg", "x", "a")], [], [info("a")]),
                  else_branch=graph([node("Abs", "x", "b")], [], [info("b")]))
    for c in (True, False):
        f.add("if_known_%d" % c, 13, [branch], {"x": X}, {"y": -X if c else X},
              [const("c", c, np.bool_)])


def scans(f):
    """Tests Scan: the state is a running sum of the columns of a; b is scanned backwards; outputs are along
    other axes."""
    body = graph([node("Add", "s a1", "t"), node("Mul", "t b1", "p"), node("Identity", "t", "q")],
                 [info("s"), info("a1"), info("b1")], [info("t"), info("p"), info("q")])
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    b = np.arange(12, dtype=np.float32).reshape(4, 3) - 5
    s, p, q = np.ones(3, np.float32), [], []
    for k in range(4):
        s = s + a[:, k]
        p.append(s * b[3 - k])
        q.append(s)
    scan = node("Scan", "s0 a b", "t p q", body=body, num_scan_inputs=2, scan_input_axes=[-1, 0],
                scan_input_directions=[0, 1], scan_output_axes=[1, 0],
                scan_output_directions=[0, 1])
    f.add("scan_axes", 11, [scan], {"s0": np.ones(3, np.float32), "a": a, "b": b},
          {"t": s, "p": np.stack(p, 1), "q": np.stack(q[::-1], 0)})
    none = {"s0": np.ones(3, np.float32), "a": a[:, :0], "b": b[:0]}
    plain = graph([node("Add", "s a1", "t"), node("Mul", "t b1", "p"), node("Identity", "t", "q")],
                  [info("s"), info("a1"), info("b1")],
                  [info("t"), info("p", shape=[3]), info("q", shape=[3])])
    scan = node("Scan", "s0 a b", "t p q", body=plain, num_scan_inputs=2, scan_input_axes=[1, 0],
                scan_output_axes=[1, 0])
    f.add("scan_none", 11, [scan], none,
          {"t": none["s0"], "p": np.zeros((3, 0), np.float32), "q": np.zeros((0, 3), np.float32)})
    old_scan(f)


def old_scan(f):
    """Tests batches of different lengths, with the second input scanned backwards."""
    body = graph([node("Add", "s a1", "u"), node("Sub", "u b1", "t"), node("Identity", "t", "p")],
                 [info("s"), info("a1"), info("b1")], [info("t"), info("p")])
    a = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    b = a[:, :, ::-1] * 2 + 1
    s0 = np.array([[1, 2], [3, 4]], np.float32)
    last, all_of = [], np.zeros((2, 3, 2), np.float32)
    for batch, length in enumerate((3, 2)):
        s = s0[batch]
        for t in range(length):
            s = s + a[batch, t] - b[batch, length - 1 - t]
            all_of[batch, t] = s
        last.append(s)
    f.add("scan_batches", 8,
          [node("Scan", "lengths s0 a b", "t p", body=body, num_scan_inputs=2, directions=[0, 1])],
          {"s0": s0, "a": a, "b": b}, {"t": np.stack(last), "p": all_of},
          [const("lengths", [3, 2], np.int64)])


def sequences(f):
    x = np.arange(14, dtype=np.float32).reshape(7, 2)
    cuts = {"each": ({}, None, [x[k:k + 1] for k in range(7)]),
            "drop": ({"keepdims": 0}, None, [x[k] for k in range(7)]),
            "three": ({}, const("split", 3, np.int64), [x[:3], x[3:6], x[6:]]),
            "list": ({"keepdims": 0}, const("split", [2, 0, 5], np.int64), [x[:2], x[2:2], x[2:]]),
            "axis": ({"axis": -1}, const("split", [1, 1], np.int64), [x[:, :1], x[:, 1:]])}
    for name, (attributes, split, parts) in cuts.items():
        f.add("split_" + name, 11,
              [node("SplitToSequence", "x split" if split else "x", "s", **attributes),
               node("SequenceLength", "s", "n")],
              {"x": x}, {"s": parts, "n": i64(len(parts))}, [split] if split else [])
    edits = [node("SequenceConstruct", "x y", "s"), node("SequenceInsert", "s y first", "t"),
             node("SequenceInsert", "t x", "u"), node("SequenceErase", "u last", "v"),
             node("SequenceErase", "v", "w"), node("SequenceAt", "u back", "a")]
    y = -x
    f.add("edits", 11, edits, {"x": x, "y": y}, {"w": [y, x], "u": [y, x, y, x], "a": y},
          [const("first", -2, np.int64), const("last", -1, np.int64), const("back", -2, np.int64)])
    f.add("joins", 11,
          [node("ConcatFromSequence", "s", "a", axis=-1),
           node("ConcatFromSequence", "s", "b", axis=-1, new_axis=1)],
          {"s": [x, y]}, {"a": np.concatenate([x, y], 1), "b": np.stack([x, y], 2)})
    f.add("from_empty", 11, [node("SequenceEmpty", "", "e"), node("SequenceInsert", "e x", "s"),
                             node("SequenceLength", "e", "n")], {"x": x}, {"s": [x], "n": i64(0)})
    mapped = graph([node("Add", "e o", "r"), node("Neg", "e", "m")], [info("e"), info("o")],
                   [info("r"), info("m")])
    f.add("map", 17, [node("SequenceMap", "s x", "r m", body=mapped)], {"s": [x, y], "x": x},
          {"r": [x + x, y + x], "m": [-x, -y]})
    gather = graph([node("Add", "x x", "d"), node("SequenceInsert", "in d", "out"),
                    node("Identity", "on", "still")],
                   [info("i", TensorProto.INT64, []), info("on", TensorProto.BOOL, []),
                    sequence_info("in")],
                   [info("still", TensorProto.BOOL, []), sequence_info("out")])
    f.add("loop_sequence", 13, [node("SequenceEmpty", "", "e"),
                                node("Loop", "rounds _ e", "s", body=gather)],
          {"x": x}, {"s": [x + x] * 3}, [const("rounds", 3, np.int64)])


def grams(f):
    """Tests grams of 1 and 2 tokens, with and without one token between; two of them have one output index."""
    tokens = np.array([[1, 1, 2, 5], [2, 3, 1, 1]], np.int32)
    pool = {"pool_int64s": [1, 5, 1, 1, 1, 2, 2, 1], "ngram_counts": [0, 2],
            "ngram_indexes": [0, 2, 3, 0, 4], "min_gram_length": 1, "max_gram_length": 2,
            "max_skip_count": 1}
    weights = np.array([1, 2, 3, 4, 5], np.float32)
    found = np.array([[2, 1, 1, 2, 0], [2, 0, 1, 0, 1]], np.float32)  # of each gram of the pool
    for mode, part in (("TF", found), ("IDF", np.minimum(found, 1) * weights),
                       ("TFIDF", found * weights)):
        y = np.zeros((2, 5), np.float32)
        for gram, at in enumerate(pool["ngram_indexes"]):
            y[:, at] += part[:, gram]
        f.add("grams_" + mode.lower(), 9,
              [node("TfIdfVectorizer", "x", "y", mode=mode, weights=weights.tolist(), **pool)],
              {"x": tokens}, {"y": y})


def extents_of_data(f):
    """Nodes that read extents which are known only after a node of the model has run."""
    x = np.array([[0, 1, 2], [3, 0, 0]], np.float32)
    places = np.array(np.nonzero(x))
    keep = np.array([True, False, False, True, True, False])
    kept = x.ravel()[keep]
    f.add("size_of_nonzero", 13, [node("NonZero", "x", "n"), node("Size", "n", "y")], {"x": x}, {"y": i64(places.size)})
    f.add("shape_of_nonzero", 13, [node("NonZero", "x", "n"), node("Shape", "n", "y")], {"x": x},
          {"y": np.array(places.shape)})
    f.add("size_of_compress", 13, [node("Compress", "x keep", "c"), node("Size", "c", "y")], {"x": x, "keep": keep},
          {"y": i64(3)})
    f.add("size_of_nonzero_in_branch", 13,
          [node("NonZero", "x", "n"),
           node("If", "yes", "y", then_branch=graph([node("Size", "n", "s")], [], [info("s", TensorProto.INT64, [])]),
                else_branch=graph([node("Size", "x", "s")], [], [info("s", TensorProto.INT64, [])]))],
          {"x": x}, {"y": i64(places.size)}, [const("yes", True, np.bool_)])
    f.add("size_of_sequence_of_data", 13,
          [node("Compress", "x keep", "c"), node("SequenceConstruct", "c c", "s"),
           node("ConcatFromSequence", "s", "u", axis=0), node("Size", "u", "t"), node("Cast", "t", "r", to=TensorProto.FLOAT),
           node("Add", "u r", "y")], {"x": x, "keep": keep}, {"y": np.concatenate([kept, kept]) + 6})


def add_all(f):
    extents_of_data(f)
    grams(f)
    loops(f)
    nested(f)
    scans(f)
    sequences(f)
