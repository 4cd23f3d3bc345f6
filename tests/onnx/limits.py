# SPDX-License-Identifier: Apache-2.0
"""Tests models of a few bytes that request much memory or many iterations, while they are loaded and while they
run. bp refuses each one before it uses the memory or time, with a message that names the node and the limit.
With a higher limit, the models with small needs run.

    limits.py BP [whole]

whole: the address space of bp is not limited (a sanitizer needs terabytes of it).
"""
import os
import resource
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper

from kit import const, graph, info, node, tell

# The address space of bp: bounds the damage by a model that bp fails to refuse. The message would differ then.
ROOM = 6 << 30
X = info("x", shape=[1, 1, 4, 4])


def i64(name, value):
    return const(name, value, np.int64)


def shape(name, *value):
    return const(name, value, np.int64)


def sparse(count):
    values = helper.make_tensor("w", TensorProto.FLOAT, [1], [5.0])
    return helper.make_sparse_tensor(values, helper.make_tensor("i", TensorProto.INT64, [1], [3]), [count])


def doubled(n):
    """Doubles c with each of n nodes."""
    return [node("Concat", f"c{k} c{k}", f"c{k + 1}", axis=0) for k in range(n)]


def loop(body, carried, rounds="n _"):
    return node("Loop", f"{rounds} {carried}", "y", body=body)


def body(*nodes, out="u"):
    """Builds the body of a loop that carries v; its new value is u, or the node output `out`."""
    return graph([*nodes, node("Identity", "on", "still")],
                 [info("i", TensorProto.INT64, []), info("on", TensorProto.BOOL, []), info("v")],
                 [info("still", TensorProto.BOOL, []), info(out)])


LATER = {"HammingWindow": 17, "MelWeightMatrix": 17, "DFT": 20}  # the opsets of operators that 13 lacks
TWICE = body(node("Concat", "v v", "u", axis=0))
SAME = body(node("Neg", "v", "u"))
# The number of iterations depends on data, so the model runs node by node.
DEPENDS = [node("NonZero", "x", "places"), node("Shape", "places", "extents"),
           node("ReduceSum", "extents", "many", keepdims=0), node("Mul", "many big", "n")]
GO = node("Concat", "x x", "v0", axis=0)
ENDLESS = [i64("n", 2**62)]
FOLDED, ALIVE, ROUNDS, TIME = ("(%s of bp_model_options)" % name for name in ("fold_bytes", "run_bytes", "rounds", "time_ms"))


def largest(*parts):
    """Returns nodes that compute y = x + the largest element of `big`, a value that depends on weights alone."""
    return [*parts, node("ReduceMax", "big", "one", keepdims=0), node("Add", "x one", "y")]


GIB = 2**30
# Name: nodes, weights, options, words of the message; None instead of words: the model runs.
CASES = {
    "a constant of 2.8 GB": (largest(node("ConstantOfShape", "s", "big")), [shape("s", 700, 10**6)], "",
                             ["node big (ConstantOfShape): it takes 2800000000 bytes", "of 1073741", FOLDED]),
    "a range to 2^31": (largest(node("Range", "a n d", "r"), node("Cast", "r", "big", to=1)),
                        [const(k, v, np.int32) for k, v in (("a", 0), ("n", 2**31 - 1), ("d", 1))], "",
                        ["node r (Range): it takes 8589934588 bytes", FOLDED]),
    "a row repeated 2^31 times": (largest(node("Tile", "w n", "big")), [const("w", [[1.0]]), shape("n", 1, 2**31)], "",
                                  ["(Tile)", FOLDED]),
    "one number everywhere, turned": (largest(node("Expand", "w n", "e"), node("Neg", "e", "big")),
                                      [const("w", 1.0), shape("n", 2**31)], "", ["(Neg)", FOLDED]),
    "borders of 2^31": (largest(node("Pad", "w p", "big")), [const("w", [1.0]), shape("p", 2**31, 0)], "",
                        ["(Pad)", FOLDED]),
    "a class of 2^33": (largest(node("OneHot", "k d v", "h"), node("Cast", "h", "big", to=1)),
                        [shape("k", 1, 2), i64("d", 2**33), const("v", [0.0, 1.0])], "", ["(OneHot)", FOLDED]),
    "a weight that doubles": ([*doubled(30), node("ReduceMax", "c30", "one", keepdims=0), node("Add", "x one", "y")],
                              [const("c0", [1.0])], "", ["(Concat): it takes", FOLDED]),
    "all foldings count": (largest(node("ConstantOfShape", "s", "p"), node("ConstantOfShape", "s", "q"),
                                   node("Add", "p q", "big")),
                           [shape("s", 2**20)], "--max-fold 11",
                           ["it takes 4194304 bytes, beside 8388608 that were made", "of 11534336", FOLDED]),
    "as much as may be": (largest(node("ConstantOfShape", "s", "big")), [shape("s", 2**20)], "--max-fold 5", None),
    "a branch that is not taken": ([node("If", "no", "t",
                                         then_branch=graph([node("ConstantOfShape", "s", "z")], [], [info("z")]),
                                         else_branch=graph([node("Identity", "x", "e")], [], [info("e")])),
                                    node("Add", "x t", "y")],
                                   [shape("s", 700, 10**6), const("no", False, bool)], "", None),
    "a loop that doubles": ([GO, loop(TWICE, "v0")], [i64("n", 40)], "--max-memory 64", ["(Loop)", "(Concat)", ALIVE]),
    "a loop of data that doubles": ([*DEPENDS, GO, loop(TWICE, "v0")], [i64("big", 2)], "--max-memory 64",
                                    ["(Loop)", "(Concat)", ALIVE]),
    "a constant of data": ([*DEPENDS, node("Reshape", "n k", "m"), node("ConstantOfShape", "m", "y")],
                           [i64("big", 2**40), shape("k", 1)], "--max-memory 64", ["(ConstantOfShape)", ALIVE]),
    "an input that is expanded": ([node("Reshape", "x k", "f"), node("Tile", "f n", "y")],
                                  [shape("k", 16), shape("n", 2**30)], "--max-memory 64", ["(Tile)", ALIVE]),
    "an output of data that is a view": ([*DEPENDS, node("Reshape", "n one", "m"), node("Concat", "m k", "s", axis=0),
                                          node("Expand", "w s", "y")],
                                         [i64("big", 10**6), shape("one", 1), shape("k", 1, 4), const("w", [1.0])],
                                         "--max-memory 64",
                                         ["output y: values of the run take", ALIVE]),
    "an output of weights that is a view": ([node("Expand", "w k", "y")], [const("w", [1.0]), shape("k", 10**9)],
                                            "--max-memory 64", ["output y: values of the run take 4000000", ALIVE]),
    "a window of weights": (largest(node("HammingWindow", "n", "big")), [i64("n", 10**8)], "",
                            ["node big (HammingWindow): it takes 1600000000 bytes", FOLDED]),
    "a window of data": ([*DEPENDS, node("HammingWindow", "n", "y")], [i64("big", 10**6)], "--max-memory 64",
                         ["node y (HammingWindow): values of the run take", ALIVE]),
    "a bank of many bands": (largest(node("MelWeightMatrix", "m l r a b", "big")),
                             [i64("m", 2**14), i64("l", 2**14), i64("r", 16000), const("a", 0.0), const("b", 8000.0)], "",
                             ["(MelWeightMatrix): it takes 21477", FOLDED]),
    "a transform of 2^13 numbers": ([node("Reshape", "x k", "f"), node("DFT", "f n a", "d"), node("ReduceMax", "d", "y")],
                                    [shape("k", 1, 16, 1), i64("n", 2**13), i64("a", 1)], "--max-memory 1",
                                    ["(DFT): values of the run take", ALIVE]),
    "a count of words at a far place": ([node("Cast", "x", "i", to=7), node("Reshape", "i k", "f"),
                                         node("TfIdfVectorizer", "f", "y", mode="TF", min_gram_length=1, max_gram_length=1,
                                              max_skip_count=0, ngram_counts=[0], ngram_indexes=[2**24], pool_int64s=[1])],
                                        [shape("k", 16)], "--max-memory 64", ["(TfIdfVectorizer)", ALIVE]),
    "little memory that is enough": ([GO, loop(TWICE, "v0")], [i64("n", 10)], "--max-memory 1", None),
    "rounds that are kept": ([node("Loop", "n _ x", "l y", body=graph(
        [node("Identity", "on", "still"), node("Neg", "v", "u"), node("Identity", "i", "p")],
        [info("i", TensorProto.INT64, []), info("on", TensorProto.BOOL, []), info("v")],
        [info("still", TensorProto.BOOL, []), info("u"), info("p", TensorProto.INT64)]))], ENDLESS, "--max-memory 2",
                             ["(Loop)", ALIVE]),
    "2^62 rounds": ([loop(SAME, "x")], ENDLESS, "--max-rounds 20000",
                    ["node y (Loop): loops of a run went round 20000 times", ROUNDS]),
    "2^62 rounds of a weight": ([loop(SAME, "c", "n _"), ], [*ENDLESS, const("c", [1.0])], "--max-rounds 20000",
                                ["(Loop)", ROUNDS]),
    "2^62 rounds, all in all": ([loop(body(node("Loop", "m _ v", "u", body=graph(
        [node("Neg", "w", "q"), node("Identity", "c", "d")],
        [info("j", TensorProto.INT64, []), info("c", TensorProto.BOOL, []), info("w")],
        [info("d", TensorProto.BOOL, []), info("q")]))), "x")], [*ENDLESS, i64("m", 100)], "--max-rounds 20000", ["(Loop)", ROUNDS]),
    "rounds that may be": ([loop(SAME, "x")], [i64("n", 6000)], "--max-rounds 6000", None),
    "2^62 rounds, for a while": ([loop(SAME, "x")], ENDLESS, "--max-seconds 0.2", ["(Loop)", TIME]),
    "a loop without nodes": ([loop(graph([], [info("i", TensorProto.INT64, []), info("on", TensorProto.BOOL, []), info("v")],
                                         [info("on", TensorProto.BOOL, []), info("v")]), "x")],
                             ENDLESS, "--max-rounds 20000", ["(Loop)", ROUNDS]),
    "time enough": ([node("Neg", "x", "y")], [], "--max-seconds 1000 --max-memory 1 --max-fold 1 --max-rounds 1", None),
}
SPARSE = {"a sparse weight of 17 GB": (2**32, "", ["sparse tensor w: it takes 34359738368 bytes", FOLDED]),
          "a sparse weight": (2**20, "", None),
          "a sparse weight over a limit": (2**20, "--max-fold 7", ["sparse tensor w: it takes 8388608", FOLDED])}


def limited():
    resource.setrlimit(resource.RLIMIT_AS, (ROOM, ROOM))


def judge(bp, whole, path, options, words):
    done = subprocess.run([bp, "run", path, "--device", "cpu", *options.split()], capture_output=True, text=True,
                          check=False, timeout=100, preexec_fn=None if whole else limited)
    return done, done.returncode == 0 if words is None else \
        done.returncode == 1 and all(word in done.stderr for word in words)


def write(folder, nodes, weights, **more):
    opset = max(LATER.get(n.op_type, 13) for n in nodes)
    path = os.path.join(folder, "model.onnx")
    model = helper.make_model(helper.make_graph(nodes, "g", [X], [info("y")], weights, **more),
                              opset_imports=[helper.make_opsetid("", opset)])
    onnx.save(model, path)
    return path


def results(bp, whole, folder):
    for name, (nodes, weights, options, words) in CASES.items():
        yield name, *judge(bp, whole, write(folder, nodes, weights), options, words)
    for name, (count, options, words) in SPARSE.items():
        nodes = [node("ReduceMax", "w", "one", keepdims=0), node("Add", "x one", "y")]
        path = write(folder, nodes, [], sparse_initializer=[sparse(count)])
        yield name, *judge(bp, whole, path, options, words)
    yield "an input of 4 TB", *declared(bp, whole, folder)


def declared(bp, whole, folder):
    """Tests an input of 4 TB, which bp would have to fill with numbers."""
    path = os.path.join(folder, "input.onnx")
    model = helper.make_model(graph([node("Neg", "x", "y")], [info("x", shape=[2**20, 2**20])], [info("y")]),
                              opset_imports=[helper.make_opsetid("", 13)])
    onnx.save(model, path)
    return judge(bp, whole, path, "--max-memory 64", ["input x takes 4398046511104 bytes, more than --max-memory 64"])


def main(bp, whole=""):
    with tempfile.TemporaryDirectory() as folder:
        tell(list(results(bp, whole, folder)))


if __name__ == "__main__":
    main(*sys.argv[1:])
