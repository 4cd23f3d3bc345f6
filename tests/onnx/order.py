# SPDX-License-Identifier: Apache-2.0
"""Tests models whose nodes are not in the order in which they can run, as some converters write them."""
import numpy as np
from onnx import TensorProto, helper

from kit import const, graph, info, node

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


def plain(f):
    f.add("order_two", 13, [node("Mul", "a x", "y"), node("Neg", "x", "a")], {"x": X}, {"y": -X * X})
    # The first node reads the last one's result, that one the result before it, and so on.
    chain = [node("Add", "v0 one", "y")]
    chain += [node("Add", "v%d one" % (i + 1), "v%d" % i) for i in range(3000)]
    chain += [node("Neg", "x", "v3000")]
    f.add("order_deep", 13, chain, {"x": X}, {"y": 3001 - X}, [const("one", 1)])
    # Each result is read by both sides of the node before it: many paths, and no cycle.
    wide = [node("Add", "v%d v%d" % (i + 1, i + 1), "v%d" % i) for i in range(20)]
    f.add("order_many_paths", 13, [*wide, node("Neg", "x", "v20"), node("Identity", "v0", "y")], {"x": X},
          {"y": -X * np.float32(2 ** 20)})


def sub_graphs(f):
    branch = [graph([node("Add", op, "r")], [], [info("r")]) for op in ("a x", "x x")]
    choice = node("If", "c", "y", then_branch=branch[0], else_branch=branch[1])
    f.add("order_read_inside", 13, [choice, node("Neg", "b", "a"), node("Mul", "x x", "b")],
          {"x": X, "c": np.array(True)}, {"y": X - X * X})
    inside = graph([node("Mul", "b a", "r"), node("Abs", "a", "b"), node("Neg", "x", "a")], [], [info("r")])
    f.add("order_inside", 13, [node("If", "c", "y", then_branch=inside, else_branch=inside)],
          {"x": X, "c": np.array(False)}, {"y": -X * np.abs(X)})
    # Names inside a body that are also names of later nodes outside do not make the loop wait for these.
    body = graph([node("Add", "s x", "y"), node("Identity", "on", "z")],
                 [info("i", TensorProto.INT64, []), info("on", TensorProto.BOOL, []), info("s")],
                 [info("z", TensorProto.BOOL, []), info("y")])
    f.add("order_same_names", 13, [node("Neg", "l", "y"), node("Loop", "n _ k", "l", body=body), node("Abs", "y", "z"),
                                   node("Neg", "x", "k")],
          {"x": X}, {"y": -X, "z": np.abs(X)}, [const("n", 2, np.int64)])
    # A body has an output that is a value of the outer graph.
    through = graph([], [], [info("a")])
    choice = node("If", "c", "y", then_branch=through, else_branch=through)
    f.add("order_passed_on", 13, [choice, node("Neg", "x", "a")], {"x": X, "c": np.array(True)}, {"y": -X})


def functions(f):
    inner = helper.make_function("d", "F", ["p"], ["q"], [node("Add", "t p", "q"), node("Mul", "p p", "t")],
                                 [helper.make_opsetid("", 13)])
    f.add("order_function", 13, [node("Neg", "u", "y"), node("F", "w", "u", domain="d"), node("Abs", "x", "w")],
          {"x": X}, {"y": -(X * X + np.abs(X))}, more_domains=["d"], functions=[inner])


def add_all(f):
    plain(f)
    sub_graphs(f)
    functions(f)
