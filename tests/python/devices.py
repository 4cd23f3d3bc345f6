#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the package on the simulated GPU: a device that works asynchronously, has memory that the host cannot access,
and records programs."""
import os
import sys
import threading

import tap
from tap import close, raises, same

os.environ["BP_PLUGIN_PATH"] += ":" + os.path.join(tap.BUILD, "plugins", "simulator")

import backplane as bp  # noqa: E402
from backplane import ops  # noqa: E402

SIM = bp.Device("sim")
X = [[1.0, -2.0], [3.0, 4.0]]


def test_properties():
    facts = SIM.properties()
    same([facts["inline"], facts["host_visible"], SIM.name], [False, False, "sim:0"])
    assert "sim:0" in bp.devices()
    same([p["state"] for p in bp.plugins() if p["name"] == "sim"], ["ready"])


def test_tensors_move_between_devices():
    x = bp.asarray(X, device=SIM)
    same([x.device is SIM, x.address, x.tolist(), x.T.tolist(), x[1].tolist()],
         [True, None, X, [[1, 3], [-2, 4]], [3, 4]])
    same(x.to("cpu").to("sim").tolist(), X)
    same(bp.asarray(x).device is SIM, True)
    same(bp.asarray(bp.asarray([1.5], "bf16"), device="sim").device is SIM, True)
    y = ops.relu(x) @ x + 1
    same([y.device is SIM, y.tolist()], [True, [[2, -1], [16, 11]]])
    x[0] = 5
    x[1] = bp.asarray([7.0, 8.0])
    same(x.tolist(), [[5, 5], [7, 8]])
    raises(bp.InvalidError, ops.add, x, bp.asarray([1.0, 2.0]), has="input y is on cpu:0")
    raises(BufferError, bp.asarray, bp.asarray(X), device=SIM, copy=False)


def test_memory_is_not_shared_with_python():
    x = bp.asarray(X, device=SIM)
    raises(BufferError, memoryview, x, has="the host cannot")
    raises(BufferError, x.__dlpack__)
    raises(BufferError, x.__dlpack_device__)
    same(x.tobytes(), bp.asarray(X).tobytes())


def test_streams_and_events_order_work():
    stream, made, event = bp.Stream(SIM), bp.Event(SIM), bp.Event(SIM)
    x = bp.asarray([0.0] * 1000, device=SIM)
    made.record(SIM.stream)  # the default stream copies the elements
    stream.wait(made)
    with stream:
        for _ in range(100):
            x = x + 1
        event.record(stream)
        same(ops.ones((2,)).device is SIM, True)  # the device of the stream
    SIM.stream.wait(event)
    same((x + 1)[:2].tolist(), [101, 101])
    same(event.query(), True)
    raises(bp.UnsupportedError, bp.Stream, SIM, "inline")


def test_threads_with_streams_of_their_own():
    wrong = []

    def work(k):
        try:
            with bp.Stream(SIM):
                x = bp.asarray([k] * 500, "f32", SIM)
                for _ in range(30):
                    x = x + k
                if x[::499].tolist() != [31 * k] * 2:
                    wrong.append(k)
        except Exception as error:
            wrong.append(error)
    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    same(wrong, [])


def test_the_device_of_a_graph_is_that_of_its_numbers():
    graph = bp.Graph(SIM)
    with graph:
        same([bp.asarray(1.0).device is SIM, bp.asarray(1.0).device is bp.Device()], [True, True])
    same(bp.asarray(1.0).device is SIM, False)


def test_programs_are_recorded():
    graph = bp.Graph(SIM)
    x = graph.input("x", (2, 2))
    loss = graph.output(ops.sum(x @ bp.asarray([[1.0, 0], [0, 2]], device=SIM) * 2))
    graph.output(bp.grad(loss, x))
    program = bp.Program(graph)
    for k in range(4):
        value, gradient = program(bp.asarray(X, device=SIM) * (k + 1.0))
        close([value.item(), gradient.tolist()], [(k + 1) * 2 * (1 - 4 + 3 + 8), [[2, 4], [2, 4]]])
    assert program.info()["replays"] >= 2, program.info()


if __name__ == "__main__":
    sys.exit(tap.main(globals()))
