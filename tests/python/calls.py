#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests calls of operators: signatures from the table, keywords, outputs, errors, and calls on several threads."""
import array
import ast
import inspect
import json
import os
import subprocess
import sys
import tempfile
import threading
import time

import tap
from tap import close, raises, same

import backplane as bp
from backplane import ops


def table():
    bp_command = os.path.join(tap.BUILD, "sdk", "tools", "bp")
    return json.loads(subprocess.run([bp_command, "ops", "--json"], capture_output=True, check=True).stdout)["ops"]


def test_every_operator_is_a_function_with_a_signature():
    names = 0
    for op in table():
        for name in [op["name"], *op["aliases"]]:
            function = getattr(ops, name)
            parameters = inspect.signature(function).parameters
            expected = [p["name"] for p in op["inputs"]]
            expected += [a["name"] for a in op["attributes"] if a["name"] not in expected]
            same([p for p in parameters if p not in ("out", "outputs", "row")], expected)
            assert op["doc"][:40] in " ".join(function.__doc__.split()), name
            same(function.__module__, "backplane.ops")
            names += 1
    same(names, len(ops.__all__))


def literal(node):
    return inspect.Parameter.empty if node is None else ast.literal_eval(node)


def test_the_stubs_have_the_signatures_of_the_functions():
    with open(os.path.join(tap.PACKAGE, "backplane", "ops.pyi"), encoding="utf-8") as file:
        tree = ast.parse(file.read())
    aliases = {node.targets[0].id: node.value.id for node in tree.body if isinstance(node, ast.Assign)}
    seen = set(aliases)
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef):
            continue
        seen.add(node.name)
        a = node.args
        defaults = [None] * (len(a.args) - len(a.defaults)) + a.defaults
        got = [(arg.arg, literal(default)) for arg, default in zip(a.args, defaults)]
        got += [(arg.arg, literal(default)) for arg, default in zip(a.kwonlyargs, a.kw_defaults)]
        signature = inspect.signature(getattr(ops, node.name))
        same((node.name, got), (node.name, [(p.name, p.default) for p in signature.parameters.values()]))
    same(seen, set(ops.__all__))
    for alias, name in aliases.items():
        assert getattr(ops, alias) is getattr(ops, name)


def members(kind):
    return {name for name in vars(kind) if not name.startswith("__")}


def test_the_stubs_of_the_types_have_their_members():
    with open(os.path.join(tap.PACKAGE, "backplane", "_backplane.pyi"), encoding="utf-8") as file:
        tree = ast.parse(file.read())
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    public = {name for name in dir(bp._backplane) if not name.startswith("_")}
    named = set(classes) | {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    named |= {node.target.id for node in tree.body if isinstance(node, ast.AnnAssign)}
    same({name for name in named if not name.startswith("_")}, public | {"Port"})  # a class that Python makes
    for name, node in classes.items():
        if name == "Port":
            continue
        kind = getattr(bp, name)
        if issubclass(kind, Exception):
            continue
        have = {n.name for n in node.body if isinstance(n, ast.FunctionDef)}
        same((name, {n for n in have if not n.startswith("__")}), (name, {n for n in members(kind) if n[0] != "_"}))


def test_inputs_by_position_and_by_name():
    x = bp.asarray([3.0, 1.0])
    same(ops.sub(x, y=1).tolist(), [2, 0])
    same(ops.sub(x=x, y=x).tolist(), [0, 0])
    same(ops.clip(x, min=2.0).tolist(), [3, 2])
    same(ops.sub([5.0, 6.0], x).tolist(), [2, 5])
    same(ops.add(1, 2).tolist(), 3)
    raises(TypeError, ops.sub, x, has="an input is absent: 'y'")
    raises(TypeError, ops.sub, x, x, x, has="takes 2 inputs by position")
    raises(TypeError, ops.sub, x, x, x=x, has="two values for 'x'")
    raises(TypeError, ops.sub, x, y=x, z=1, has="unexpected keyword 'z'")
    raises(TypeError, ops.reshape, x, (2, 1), shape=(1, 2), has="two values for 'shape'")
    raises(TypeError, ops.clip, x, min="a", has="min: expected a number")
    image = ops.ones((1, 1, 4, 4))
    same(ops.max_pool(image, window=(2, 2), stride=[2, 2]).shape, (1, 1, 2, 2))
    raises(TypeError, ops.max_pool, image, window=2, has="one for each axis, got 2")
    raises(TypeError, ops.max_pool, image, window=(2, 2, 2, 2))


def test_attributes_that_an_input_supplies():
    x = bp.asarray([1.0, 2, 3, 4])
    same(ops.reshape(x, (2, 2)).shape, (2, 2))
    same(ops.reshape(x, shape=[4, 1]).shape, (4, 1))
    same(ops.reshape(x, bp.asarray([2, 2])).shape, (2, 2))
    same(ops.topk(x, 2)[0].tolist(), [4, 3])
    same(ops.full((2,), value=3).tolist(), [3, 3])
    same(ops.slice(x, [1], [3], [0]).tolist(), [2, 3])
    error = raises(bp.InvalidError, ops.slice, x, [1] * 100, [2] * 100, axes=range(100))
    assert "100" in str(error), error


def test_outputs_of_varying_number():
    x = bp.asarray([[1.0, 2], [3, 4]])
    same([t.tolist() for t in ops.split(x, sections=2)], [[[1, 2]], [[3, 4]]])
    same([t.tolist() for t in ops.split(x, sizes=[1, 1], axis=1)], [[[1], [3]], [[2], [4]]])
    same([t.tolist() for t in ops.unstack(x)], [[1, 2], [3, 4]])
    same([t.shape for t in ops.meshgrid([x[0], x[1]])], [(2, 2)] * 2)
    same(len(ops.layer_norm(x, outputs=3)), 3)
    same(ops.sort(x, outputs=2)[1].tolist(), [[0, 1], [0, 1]])
    same([t.tolist() for t in ops.unique(bp.asarray([2, 1, 2]), outputs=3)], [[1, 2], [1, 0], [1, 0, 1]])


def test_updates_are_returned():
    value, rate = bp.asarray([1.0, 2.0]), bp.asarray(0.5)
    result = ops.sgd(value, bp.asarray([1.0, 1.0]), rate)
    same([result.address == value.address, value.tolist()], [True, [0.5, 1.5]])
    state = [ops.zeros((2,)), ops.zeros((2,)), bp.asarray([1.0]), bp.asarray([1.0])]
    gradient = bp.asarray([1.0, 1.0])
    same(len(ops.adam(value, gradient, rate, *state)), 5)
    same(len(ops.adam(value, gradient, rate, *state, largest=ops.zeros((2,)))), 6)


def test_results_are_written_to_given_tensors():
    x, out = bp.asarray([1.0, 2.0]), bp.empty(2)
    same(ops.add(x, x, out=out) is out, True)
    same(out.tolist(), [2, 4])
    index = bp.empty(1, "i64")
    value, got = ops.topk(x, 1, out=[None, index])
    same([got is index, value.tolist(), index.tolist()], [True, [2.0], [1]])
    found = bp.empty((3, 1), "i64")
    same(ops.nonzero(bp.asarray([1.0, 0, 2]), out=found) is found, True)
    same([found.shape, found.nbytes, found.tolist()], [(2, 1), 16, [[0], [2]]])
    raises(TypeError, ops.add, x, x, outputs=2**32 + 1, has="too many outputs")
    same(len(ops.split(ops.zeros((200,)), sections=200)), 200)
    same(ops.concat([x] * 256).shape, (512,))
    raises(TypeError, ops.concat, [x] * 257, has="too many tensors")
    raises(bp.InvalidError, ops.add, x, x, out=bp.empty(3))
    raises(TypeError, ops.add, x, x, out=3)


class Made:
    """A sequence that makes a new item for each index."""

    def __len__(self):
        return 3

    def __getitem__(self, i):
        return bp.asarray([float(range(3)[i])] * 1000)


def test_items_of_sequences_live_during_the_call():
    for _ in range(20):
        same(ops.concat(Made())[::1000].tolist(), [0, 1, 2])


def test_errors_have_classes_and_texts():
    x = bp.asarray([1.0])
    error = raises(bp.InvalidError, ops.add, x, bp.asarray([1]), has="input y is i64, expected f32")
    same([error.status, error.status_name, isinstance(error, ValueError), isinstance(error, bp.Error)],
         [1, "BP_ERR_INVALID", True, True])
    raises(LookupError, bp.Device, "nothing", has="no plugin serves it")
    raises(bp.NotFoundError, ops.add, x, x, row="cpu_none")
    raises(bp.NotFoundError, bp.operator, "nothing.here", has="no operator")
    same([c.__name__ for c in bp.DeviceLostError.__mro__[:3]], ["DeviceLostError", "Error", "RuntimeError"])
    same(issubclass(bp.OutOfMemoryError, MemoryError) and issubclass(bp.TimeoutError, TimeoutError), True)


def test_a_kernel_row_is_chosen_by_name():
    x = bp.asarray([1.0])
    rows = [row for op, row, reason in bp.Device("cpu").kernels("add") if not reason]
    assert len(rows) > 1, rows
    done = [row for row in rows if runs(x, row)]
    assert done, rows


def runs(x, row):
    try:
        return ops.add(x, x, row=row).tolist() == [2.0]
    except bp.NoKernelError:
        return False


def test_random_numbers_and_einsum():
    x = ops.uniform((1000,), low=2, high=3)
    assert 2 <= ops.min(x).item() <= ops.max(x).item() <= 3
    a = bp.asarray([[1.0, 2], [3, 4]])
    close(bp.einsum("ij,jk->ik", a, a).tolist(), [[7, 10], [15, 22]])
    raises(bp.InvalidError, bp.einsum, "i->->", a)


def test_generators_make_random_numbers_repeatable():
    stream, generator = bp.Stream("cpu"), bp.Generator(7)
    stream.set_generator(generator)
    same(generator.get_state(), (7, 0))
    with stream:
        first = ops.uniform((100,)).tolist()
        state = generator.get_state()
        second = ops.uniform((100,)).tolist()
        generator.set_state(*state)
        same([ops.uniform((100,)).tolist() == second, first == second, state[1] > 0], [True, False, True])
        stream.set_generator(bp.Generator(seed=7))  # the stream holds it
        del generator
        same(ops.uniform((100,)).tolist(), first)
        stream.set_generator(None)
        assert ops.uniform((100,)).tolist() != second
    raises(OverflowError, bp.Generator, -1)
    raises(OverflowError, bp.Generator().set_state, 2**64)
    raises(TypeError, bp.Generator, 1.5)
    raises(TypeError, stream.set_generator, 7)


def test_profiles_of_blocks():
    x = bp.asarray([1.0, 2.0])
    with tempfile.TemporaryDirectory() as folder:
        path, steps = os.path.join(folder, "a.bpprof"), os.path.join(folder, "steps.bpprof")
        with bp.profile(path, shapes=True) as profile:
            with bp.annotate("a block"):
                y = ops.add(x, x)
            bp.mark("a moment")
            raises(RuntimeError, profile.__enter__, has="has begun")
            raises(bp.Error, bp.profile(steps).__enter__, has="a profiler records already")
        ops.mul(x, x)  # not recorded
        same(y.tolist(), [2, 4])
        with bp.profile(steps, skip=1, record=1, repeat=1) as profile:
            for _ in range(4):
                ops.add(x, x)
                profile.step()
        raises(RuntimeError, profile.step, has="block of the profile")
        for name, rows in (path, {("op", "add"): 1, ("range", "a block"): 1}), (steps, {("op", "add"): 1, ("range", "step"): 1}):
            done = subprocess.run([os.path.join(tap.BUILD, "sdk", "tools", "bp"), "trace", name, "--json", "-"], capture_output=True, text=True, check=True)
            found = {(row["by"], row["name"]): row["calls"] for row in json.loads(done.stdout)["rows"] if row["by"] in ("op", "range")}
            same(found, rows)
        raises(bp.InvalidError, bp.profile(os.path.join(folder, "no", "file")).__enter__, has="cannot be written")
        raises(TypeError, bp.profile)
    raises(TypeError, bp.mark, 1)


def test_threads_share_tensors_and_a_stream():
    x = bp.asarray([1.0] * 100000)
    wrong, threads = [], []

    def work(k):
        try:
            for _ in range(50):
                y = x * k + k
                if y[::50000].tolist() != [2.0 * k] * 2:
                    wrong.append(k)
                ops.add(1.0, k)
        except Exception as error:
            wrong.append(error)
    for k in range(6):
        threads.append(threading.Thread(target=work, args=(k,)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    same(wrong, [])


def test_other_threads_run_during_a_call():
    a, column = ops.uniform((1000, 1000)), ops.uniform((2000, 1))
    few = bp.asarray([1, 2, 3])
    count, done, interval = [0], threading.Event(), sys.getswitchinterval()

    def count_up():
        while not done.is_set():
            count[0] += 1
            time.sleep(0.0005)
    sys.setswitchinterval(100)  # only calls that release the GIL let the other thread run
    thread = threading.Thread(target=count_up)
    thread.start()
    try:
        for call in (lambda: ops.matmul(a, a), lambda: column ** column.T, lambda: column @ column.T,
                     lambda: ops.tile(few, repeats=(10**6,)), lambda: ops.one_hot(few, depth=10**6)):
            before, start = count[0], time.monotonic()
            while time.monotonic() - start < 10 and count[0] < before + 5:
                call()
            assert count[0] >= before + 5, f"{count[0] - before} steps of another thread in 10 s of calls"
    finally:
        done.set()
        sys.setswitchinterval(interval)
    thread.join()


def test_a_small_call_waits_for_a_large_one_of_another_thread():
    x, size = bp.asarray([1.0]), 500
    while True:  # a product that takes long enough on this machine
        a = ops.uniform((size, size))
        ops.matmul(a, a)  # the first one takes longer
        start = time.monotonic()
        ops.matmul(a, a)
        if time.monotonic() - start > 0.4:
            break
        size += size // 2


    def small_call_ends_after_large_one():
        begun, done = threading.Event(), threading.Event()

        def work():
            begun.set()
            ops.matmul(a, a)
            done.set()
        thread = threading.Thread(target=work)
        thread.start()
        begun.wait()
        time.sleep(0.05)
        runs = not done.is_set()
        x + 1
        ended = done.wait(0.1)
        thread.join()
        return runs and ended
    # On a busy machine a thread may not run for some time.
    assert any(small_call_ends_after_large_one() for _ in range(20))


def test_memory_of_others_is_read_before_a_queued_call_returns():
    a, x = ops.uniform((1000, 1000)), bp.asarray([1.0, 2.0])
    graph = bp.Graph()
    graph.output(graph.input("x", (2,)) * 1.0)
    target = bp.empty(2)
    memory = array.array("f", [1, 2])
    with bp.Stream("cpu", "async") as stream:
        for _ in range(3):
            ops.matmul(a, a)  # what follows is queued
        results = [x + memory, *graph.run(memory), target]
        target[:] = memory
        memory[0] = memory[1] = 100
        stream.synchronize()
    same([r.tolist() for r in results], [[2, 4], [1, 2], [1, 2]])


def test_waits_release_memory_of_others():
    memory = array.array("f", [1, 2])
    device = bp.Device("cpu")
    for wait in (lambda s: s.synchronize(), lambda s: event.wait()):
        stream, event = bp.Stream(device, "async"), bp.Event(device)
        x, a = bp.asarray(memory), ops.uniform((1000, 1000))
        with stream:
            ops.matmul(a, a)
            y = x + 1
        event.record(stream)
        del x
        wait(stream)
        memory.append(3)  # raises BufferError while a tensor holds it
        memory.pop()
        same(y.tolist(), [2, 3])


def test_blocks_end_in_any_order():
    first, second = bp.Stream("cpu", "async"), bp.Stream("cpu", "async")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    second.cancel()
    raises(bp.CancelledError, lambda: bp.asarray([1.0]) + 1)  # the second one is still selected
    second.__exit__(None, None, None)
    same((bp.asarray([1.0]) + 1).tolist(), [2])
    raises(RuntimeError, first.__exit__, None, None, None)


def test_streams_and_events():
    x = bp.asarray([1.0, 2.0])
    stream, event = bp.Stream("cpu", "async"), bp.Event("cpu")
    raises(bp.InvalidError, event.query)
    with stream as selected:
        same(selected is stream, True)
        for _ in range(20):
            x = x + 1
        event.record(stream)
    bp.Device("cpu").stream.wait(event)
    event.wait()
    same([event.query(), x.tolist(), stream.device], [True, [21, 22], bp.Device("cpu")])
    stream.cancel()
    with stream:
        raises(bp.CancelledError, lambda: x + 1)
        stream.resume()
        same((x + 1).tolist(), [22, 23])
    stream.synchronize(1.0)
    for word in ("fast", "a", "i", "asynchronous"):
        raises(ValueError, bp.Stream, "cpu", word, has="expected")
    raises(RuntimeError, stream.__exit__, None, None, None)


if __name__ == "__main__":
    sys.exit(tap.main(globals()))
