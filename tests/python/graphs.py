#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests graphs, gradients, programs and models of the Python package."""
import array
import os
import sys
import tempfile
import threading

import tap
from tap import close, raises, same

import backplane as bp
from backplane import ops

# y = |x|, for 4 f32, as ONNX encodes it
ABS = (b"\x08\x08\x3a\x2c\x0a\x0b\x0a\x01\x78\x12\x01\x79\x22\x03\x41\x62\x73\x12\x01\x67\x5a\x0f\x0a\x01"
       b"\x78\x12\x0a\x0a\x08\x08\x01\x12\x04\x0a\x02\x08\x04\x62\x09\x0a\x01\x79\x12\x04\x0a\x02\x08\x01"
       b"\x42\x02\x10\x0d")
X = [[1.0, -2, 3], [-4, 5, -6]]


def test_calls_on_symbols_are_recorded():
    graph = bp.Graph()
    x = graph.input("x", (2, 3))
    y = graph.output(ops.relu(x) * 2 + 1, "y")
    same([x.graph is graph, x.device, y.shape, y.dtype], [True, None, (2, 3), "f32"])
    same([op for _, op in graph.nodes()], ["relu", "mul", "add"])
    same(graph.run(bp.asarray(X))[0].tolist(), [[3, 1, 7], [1, 11, 1]])
    same(graph.run([X])[0].tolist(), [[3, 1, 7], [1, 11, 1]])
    out = bp.empty((2, 3))
    raises(TypeError, graph.run, bp.asarray(X), bp.asarray(X), has="expected 1 inputs, got 2")
    raises(bp.InvalidError, graph.run, bp.asarray([1.0]))
    raises(TypeError, graph.run, X, has="expected 1 inputs, got 2; one argument that is a list")
    raises(TypeError, x.tolist)
    raises(TypeError, x.tobytes)
    raises(BufferError, memoryview, x)
    raises(BufferError, x.__dlpack__)
    assert "on a graph" in repr(x)


def test_a_with_block_records_calls_without_symbols():
    graph = bp.Graph()
    with graph:
        y = ops.full((2,), value=3)
        z = bp.asarray([1.0, 2.0]) + 1
        same([y.graph is graph, z.graph is graph], [True, True])
    graph.output(y + z)
    same(graph.run()[0].tolist(), [5, 6])
    same((bp.asarray([1.0]) + 1).tolist(), [2])


def test_conversions_in_a_with_block_are_not_recorded():
    graph = bp.Graph()
    small = bp.asarray([1.5, 2.0], "bf16")
    with graph:
        same([small.tolist(), "1.5, 2.0" in repr(small), small[1].item()], [[1.5, 2.0], True, 2.0])
        made = bp.asarray([0.5], "bf16")
        same([made.graph, made.tolist(), bp.asarray(made, "f64").graph], [None, [0.5], None])
        same(ops.cast(small, to="f32").graph is graph, True)
        with bp.Stream("cpu"):
            same(bp.asarray([0.5], "bf16").tolist(), [0.5])
    same([op for _, op in graph.nodes()], ["cast"])


def test_constants_of_graphs_are_copies():
    graph = bp.Graph()
    numbers = array.array("f", [1, 2])
    graph.output(graph.input("x", (2,)) + numbers)
    numbers[0] = 9
    same(graph.run([[1.0, 1.0]])[0].tolist(), [2, 3])


def test_views_of_symbols_are_recorded():
    graph = bp.Graph()
    x = graph.input("x", (2, 3))
    views = [x[0], x[:, 1:], x[..., -1], x[None, 1, ::2], x.T, x.reshape(3, 2), x[1].expand(2, 3), x.transpose(1, 0)[2],
             x[:]]
    for view in views:
        graph.output(view)
    real = bp.asarray(X)
    expected = [real[0], real[:, 1:], real[..., -1], real[None, 1, ::2], real.T, real.reshape(3, 2),
                real[1].expand(2, 3), real.transpose(1, 0)[2], real]
    same([v.tolist() for v in graph.run(real)], [e.tolist() for e in expected])
    same([v.shape for v in views], [e.shape for e in expected])
    raises(IndexError, lambda: x[2])
    raises(IndexError, lambda: x[0, 0, 0])
    raises(TypeError, x.__setitem__, 0, 1)


def test_gradients():
    graph = bp.Graph()
    x, w = graph.input("x", (2, 3)), graph.input("w", (3, 1))
    y = ops.sum((x @ w) * (x @ w))
    dx, dw = bp.grad(y, [x, w])
    unused = bp.grad(y, graph.input("u", (1,)))
    same(unused, None)
    for value in (y, dx, dw):
        graph.output(value)
    inputs = bp.asarray(X), bp.asarray([[1.0], [2], [3]]), bp.asarray([0.0])
    loss, got_dx, got_dw = graph.run(*inputs)
    close(loss.item(), 36 + 144)
    close(got_dx.tolist(), [[12, 24, 36], [-24, -48, -72]])
    close(got_dw.tolist(), [[108], [-144], [180]])
    many = [graph.input(f"v{i}", (1,)) for i in range(1100)]
    same([g.shape for g in bp.grad(ops.add(many[0], many[1099]), many) if g is not None], [(1,)] * 2)
    raises(TypeError, bp.grad, inputs[0], inputs[0], has="symbolic")
    raises(bp.InvalidError, bp.grad, y, x, dy=bp.asarray([1.0]))


def regression(device=None):
    """A graph of one step of a linear regression with momentum: x, target -> loss; it updates its weight."""
    graph = bp.Graph(device)
    weight, velocity = bp.asarray([[0.0], [0.0]]), bp.asarray([[0.0], [0.0]])
    x, target = graph.input("x", (8, 2)), graph.input("target", (8, 1))
    loss = ops.mse_loss(x @ weight, target)
    gradient = bp.grad(loss, weight)
    ops.momentum(weight, gradient, lr=bp.asarray(0.1), velocity=velocity, momentum=0.5)
    graph.output(loss, "loss")
    return graph, weight


def data():
    rows = [[(k * 7 % 5) - 2.0, (k * 3 % 4) - 1.5] for k in range(8)]
    return bp.asarray(rows), bp.asarray([[2 * a - 3 * b] for a, b in rows])


def test_a_program_trains():
    graph, weight = regression()
    program = bp.Program(graph)
    losses = [program.run(*data())[0].item() for _ in range(60)]
    assert losses[-1] < 1e-6 < losses[0], losses
    close(weight.tolist(), [[2], [-3]], 1e-2)
    info = program.info()
    same([info["runs"], info["compiled"] or info["not_compiled"] != ""], [60, True])
    assert info["compiled"], info


def test_programs_are_saved_and_loaded():
    graph = bp.Graph()
    graph.output(ops.relu(graph.input("x", (4,)) + bp.asarray([1.0] * 4).freeze()))
    program = bp.Program(graph)
    raises(bp.NotReadyError, program.launches, has="the program is not compiled: call compile()")
    raises(bp.NotReadyError, program.save, "unused", has="the program is not compiled: call compile()")
    program.compile()
    same(program.cancel(), False)  # nothing goes on
    assert program.launches()[0][1] in ("fused", "add"), program.launches()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "program")
        program.save(path)
        again = bp.Program(graph)
        again.load(path)
        same(again(bp.asarray([-2.0, -1, 0, 1]))[0].tolist(), [0, 0, 1, 2])
        raises(bp.NotFoundError, bp.Program(graph).load, path + "2")
    raises(bp.InvalidError, graph.input, "late", (1,))
    raises(TypeError, bp.Program, 3)


def test_a_program_is_made_like_another():
    def adds(weight):
        graph = bp.Graph()
        graph.output(graph.input("x", (4,)) + bp.asarray([weight] * 4).freeze())
        return graph

    old = bp.Program(adds(1.0))
    raises(bp.NotReadyError, bp.Program, adds(2.0), like=old, has="the program `like` is not compiled")
    old.compile()
    new = bp.Program(adds(2.0), like=old)
    x = bp.asarray([1.0] * 4)
    same([new(x)[0].tolist(), old(x)[0].tolist()], [[3] * 4, [2] * 4])
    raises(TypeError, bp.Program, adds(2.0), like=3, has="like: expected a Program or None")


def test_programs_run_on_several_threads():
    graph = bp.Graph()
    x = graph.input("x", (64, 64))
    graph.output(ops.relu(x @ x) + x)
    program = bp.Program(graph)
    wrong = []

    def work(k):
        try:
            stream = bp.Stream("cpu")
            x = ops.full((64, 64), value=k)
            with stream:
                for _ in range(30):
                    value = program(x)[0][3, 3].item()
                    if value != 64 * k * k + k:
                        wrong.append((k, value))
        except Exception as error:
            wrong.append(error)
    threads = [threading.Thread(target=work, args=(float(k),)) for k in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    same(wrong, [])


def test_graphs_become_models():
    graph = bp.Graph()
    x = graph.input("x", (2, 3))
    graph.output(ops.relu(x @ bp.asarray([[1.0, -1], [2, 0], [0, 1]]).freeze()), "y")
    graph.output(ops.softmax(x), "p")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "net.onnx")
        graph.export(path)
        model = bp.Model(path)
        same([[name for name, *_ in model.inputs], [name for name, *_ in model.outputs]], [["x"], ["y", "p"]])
        expected = [t.tolist() for t in graph.run(bp.asarray(X))]
        close([t.tolist() for t in model.run(None, {"x": X})], expected)
        close(model.run(["p", "y"], {"x": X})[1].tolist(), expected[0])
        graph.output(ops.sort(x))
        raises(bp.UnsupportedError, graph.export, path)
        twice = bp.Graph()
        y = ops.relu(twice.input("x", (2,)))
        twice.output(y, "a")
        twice.output(y, "b")
        raises(bp.UnsupportedError, twice.export, path, has="is a value that is an output already")


def test_models():
    model = bp.Model(ABS)
    same([model.inputs, model.outputs], [[("x", "f32", (4,))], [("y", "f32", None)]])
    name, = [port.name for port in model.get_inputs()]
    same([(port.name, port.type) for port in model.get_outputs()], [("y", "f32")])
    same(model.run(None, {name: [1, -2, 3, -4]})[0].tolist(), [1, 2, 3, 4])
    same(model.run(["y"], [bp.asarray([-1.0] * 4)])[0].tolist(), [1] * 4)
    same(model.info()["nodes"], 1)
    raises(bp.NotFoundError, model.run, ["z"], {"x": [1, 2, 3, 4]}, has="no output 'z'")
    raises(bp.InvalidError, model.run, None, {"x": [1, 2, 3]})
    raises(bp.InvalidError, model.run, None, {})
    raises(TypeError, model.run, None, [[1], [2]])
    raises(bp.InvalidError, bp.Model, b"no model")
    raises(LookupError, bp.Model, "/nowhere/net.onnx")
    raises(bp.NotFoundError, model.weight, "w")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "abs.onnx")
        with open(path, "wb") as file:
            file.write(ABS)
        same(bp.Model(path, any_shape=True).run(None, {"x": [-1.0] * 6})[0].tolist(), [1] * 6)


if __name__ == "__main__":
    sys.exit(tap.main(globals()))
