# SPDX-License-Identifier: Apache-2.0
"""Runs a feature of the Python package on a device, with fallbacks to other devices denied.

    python python_features.py DEVICE FEATURE      prints `ok` as the last line; `no kernel` if the device lacks one
    python python_features.py list

The variable PYTHONPATH names the folder of the package. Except gradients, the features need kernels for add and softmax only.
"""
import os
import sys
import tempfile

FEATURES = {}
X, SUM = [[1.0, 2.0], [3.0, 3.0]], [[2.0, 4.0], [6.0, 6.0]]


def feature(function):
    FEATURES[function.__name__] = function
    return function


def close(got, expected):
    for row, wanted in zip(got, expected, strict=True):
        assert all(abs(a - b) < 1e-6 for a, b in zip(row, wanted, strict=True)), f"{got}, expected {expected}"


def recorded(bp, device):
    """The graph y = softmax(x + x)."""
    graph = bp.Graph(device)
    x = graph.input("x", (2, 2))
    graph.output(bp.ops.softmax(x + x), "y")
    return graph


SOFTMAX = [[0.11920292, 0.88079708], [0.5, 0.5]]  # of SUM


@feature
def operators(bp, device):
    """operators on tensors"""
    x = bp.asarray(X, device=device)
    y = x + x
    assert y.device is device, y.device
    close(y.tolist(), SUM)
    close(bp.ops.softmax(y).tolist(), SOFTMAX)


@feature
def views(bp, device):
    """views, and copies between devices"""
    x = bp.asarray(X, device=device)
    close(x.T.tolist(), [[1.0, 3.0], [2.0, 3.0]])
    close((x.T + x).tolist(), [[2.0, 5.0], [5.0, 6.0]])
    close(x.to("cpu").to(device).tolist(), X)


@feature
def streams(bp, device):
    """streams and events"""
    x, stream, event = bp.asarray(X, device=device), bp.Stream(device), bp.Event(device)
    event.record(device.stream)  # behind the copy from the host
    stream.wait(event)
    with stream:
        y = x + x
        event.record(stream)
    device.stream.wait(event)
    close((y + x).tolist(), [[3.0, 6.0], [9.0, 9.0]])


@feature
def programs(bp, device):
    """graphs as compiled programs"""
    program = bp.Program(recorded(bp, device))
    for _ in range(3):
        close(program(bp.asarray(X, device=device))[0].tolist(), SOFTMAX)


@feature
def models(bp, device):
    """ONNX models"""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "m.onnx")
        recorded(bp, device).export(path)
        model = bp.Model(path, device)
        close(model.run(None, {"x": bp.asarray(X, device=device)})[0].tolist(), SOFTMAX)


@feature
def gradients(bp, device):
    """gradients"""
    graph = bp.Graph(device)
    x = graph.input("x", (2, 2))
    graph.output(bp.grad(graph.output(bp.ops.sum(x * x)), x))
    close(bp.Program(graph)(bp.asarray(X, device=device))[1].tolist(), SUM)


def main():
    if sys.argv[1] == "list":
        print("".join(f"{name}: {function.__doc__}\n" for name, function in FEATURES.items()), end="")
        return
    os.environ["BP_FALLBACK"] = "deny"
    import backplane as bp  # pylint: disable=import-outside-toplevel

    try:
        FEATURES[sys.argv[2]](bp, bp.Device(sys.argv[1]))
        print("ok")
    except bp.NoKernelError as error:
        print(f"{error}\nno kernel")


if __name__ == "__main__":
    main()
