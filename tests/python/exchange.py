#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exchanges tensors with other packages by DLPack, without copies.

    exchange.py BUILD PACKAGE...     PACKAGE: numpy, jax, torch, paddle

In both directions the addresses are equal, writes of one side are seen by the other if it may write, and the memory is
released once, when the last user has dropped it. A missing package is a failure. One TAP line for each test.
"""
import ctypes
import gc
import importlib
import os
import sys
import tempfile
import weakref

import tap
from tap import raises, same

PACKAGES = sys.argv[2:]
if "jax" in PACKAGES:  # before the first import of jax
    os.environ.update(JAX_PLATFORMS="cpu", JAX_ENABLE_X64="1")

import backplane as bp  # noqa: E402

NAMES = {"bool": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16",
         "u32": "uint32", "u64": "uint64", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
         "c64": "complex64", "c128": "complex128"}
VALUES = [[0, 1, 2], [3, 4, 5]]


class Peer:
    """numpy, and what the other packages share with it."""

    writes = True  # into memory of ours
    strided = True  # takes tensors with gaps
    users = 2  # that take one tensor at the same time
    missing = ()  # dtypes

    def __init__(self, name):
        self.module = importlib.import_module(name)

    def make(self, values, dtype):
        return self.module.array(values, getattr(self.module, NAMES[dtype] + ("_" if dtype == "bool" else "")))

    def take(self, tensor):
        return self.module.from_dlpack(tensor)

    def address(self, array):
        return array.__array_interface__["data"][0]

    def listed(self, array):
        return array.tolist()

    def write(self, array, value):
        array[0, 0] = value


class Numpy(Peer):
    def __init__(self, name):
        super().__init__(name)
        old = int(self.module.__version__.partition(".")[0]) < 2
        # numpy before 2 returns arrays that cannot be written, and has no bool in DLPack
        self.writes, self.missing = not old, ("bf16", "bool") if old else ("bf16",)


class Jax(Peer):
    writes = strided = False  # its arrays cannot be written

    def __init__(self, name):
        self.jax = importlib.import_module(name)
        self.module = importlib.import_module("jax.numpy")

    def make(self, values, dtype):
        return self.module.array(values, NAMES[dtype]).block_until_ready()

    def take(self, tensor):
        return self.module.from_dlpack(tensor)

    def address(self, array):
        return array.unsafe_buffer_pointer()


class Torch(Peer):
    def make(self, values, dtype):
        return self.module.tensor(values, dtype=getattr(self.module, NAMES[dtype]))

    def address(self, array):
        return array.data_ptr()


class Paddle(Peer):
    users = 1  # Paddle 3.3 does not release the second import of one memory, nor that of an array of numpy
    missing = ("u16", "u32", "u64")

    def make(self, values, dtype):
        return self.module.to_tensor(values, dtype=NAMES[dtype])

    def take(self, tensor):
        return self.module.utils.dlpack.from_dlpack(tensor)

    def listed(self, array):
        return (array.astype("float32") if array.dtype == self.module.bfloat16 else array).tolist()

    def address(self, array):
        return array.data_ptr()


PEERS = {"numpy": Numpy, "jax": Jax, "torch": Torch, "paddle": Paddle}


def each_dtype(peer):
    return [name for name in NAMES if name not in peer.missing]


def values_of(dtype):
    return [[bool(v % 2) for v in row] for row in VALUES] if dtype == "bool" else VALUES


def test_from_backplane(peer):
    for dtype in each_dtype(peer):
        x = bp.asarray(values_of(dtype), dtype)
        array = peer.take(x)
        same([peer.address(array), tuple(array.shape), peer.listed(array)], [x.address, (2, 3), values_of(dtype)])
    x = bp.asarray(VALUES, "f32")
    array = peer.take(x)
    x[1, 2] = 9
    same(peer.listed(array)[1][2], 9)
    if peer.writes:
        peer.write(array, 7)
        same(x[0, 0].item(), 7)
    if not peer.strided:
        return
    array = peer.take(x[:, 1:])
    same([peer.address(array), peer.listed(array)], [x.address + 4, [[1, 2], [4, 9]]])


def test_to_backplane(peer):
    for dtype in each_dtype(peer):
        array = peer.make(values_of(dtype), dtype)
        for x in (bp.from_dlpack(array), bp.asarray(array)):
            same([x.dtype, x.address, x.shape, x.tolist()], [dtype, peer.address(array), (2, 3), values_of(dtype)])
    array = peer.make(VALUES, "f32")
    same((bp.asarray(array) + 1).tolist(), [[1, 2, 3], [4, 5, 6]])
    same(bp.ops.add(bp.asarray(VALUES, "f32"), array).tolist(), [[0, 2, 4], [6, 8, 10]])
    assert bp.asarray(array, copy=True).address != peer.address(array)
    if peer.writes:
        x = bp.from_dlpack(array)
        x[0, 0] = 5
        peer.write(array, 5)
        same([peer.listed(array)[0][0], x[0, 0].item()], [5, 5])


def test_release_of_ours(peer):
    device = bp.Device("cpu")
    gc.collect()
    device.synchronize()
    before = device.memory()["allocated"]
    x = bp.empty((100, 1000))
    size = device.memory()["allocated"] - before
    assert size >= 400000, size
    users = [peer.take(x) for _ in range(peer.users)]
    del x
    while users:
        gc.collect()
        same(device.memory()["allocated"] - before, size)
        users.pop()
    gc.collect()
    same(device.memory()["allocated"], before)


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
DELETERS = []  # stay, as a package may call one late


def count_releases(capsule, released):
    """Replaces the deleter of a capsule's tensor by one that notes the call in a list first."""
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    name = api.PyCapsule_GetName(capsule)
    offset = 16 if name == b"dltensor_versioned" else 56  # of the deleter, as DLPack states it
    place = ctypes.c_void_p.from_address(api.PyCapsule_GetPointer(capsule, name) + offset)
    before = DELETER(place.value)

    def delete(managed):
        released.append(managed)
        before(managed)
    DELETERS.append(DELETER(delete))
    place.value = ctypes.cast(DELETERS[-1], ctypes.c_void_p).value
    return capsule


def test_release_of_theirs(peer):
    """An object between the peer's array and the tensor replaces the deleter by one that counts its calls."""
    released = []

    class Lender:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **kw):
            return count_releases(self.array.__dlpack__(**kw), released)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    array = peer.make(VALUES, "f32")
    references = sys.getrefcount(array)
    x = bp.from_dlpack(Lender(array))
    view = x[1]
    del x
    gc.collect()
    same([view.tolist(), released], [[3, 4, 5], []])
    del view
    bp.Device("cpu").synchronize()
    gc.collect()
    same(len(released), 1)
    same(sys.getrefcount(array), references)
    try:
        gone = weakref.ref(array)
    except TypeError:
        return  # the package's arrays have no weak references
    x = bp.from_dlpack(array)
    del array
    gc.collect()
    same(x.tolist(), VALUES)
    del x
    bp.Device("cpu").synchronize()
    gc.collect()
    same(gone(), None)


def test_numpy_conversions(peer):
    numpy, x = peer.module, bp.asarray(VALUES, "f32")
    array = x.numpy()
    array[0, 0] = 4
    same([x[0, 0].item(), peer.address(array), numpy.asarray(x).dtype.name], [4, x.address, "float32"])
    same([numpy.asarray(x, dtype="float64").tolist(), float(numpy.sum(x))], [[[4, 1, 2], [3, 4, 5]], 19])
    same(bp.asarray(numpy.float32(2)).item(), 2)
    same(bp.asarray(numpy.arange(6)[::-2]).tolist(), [5, 3, 1])
    same(bp.asarray(numpy.arange(6).reshape(2, 3).T).tolist(), [[0, 3], [1, 4], [2, 5]])
    same(bp.asarray([1, 2], numpy.float32).dtype, "f32")
    same(bp.ops.cast(x, to=numpy.dtype("int32")).dtype, "i32")
    for time in (numpy.datetime64(5, "s"), numpy.timedelta64(5, "s")):
        for copy in (None, True, False):
            raises(TypeError, bp.asarray, time, copy=copy, has="no tensor has the dtype of")
    for array in (numpy.array(["a"]), numpy.array([1.0], numpy.longdouble), numpy.longdouble(1), numpy.array([1, None]),
                  numpy.array([1], "M8[s]")):
        raises(TypeError, bp.asarray, array, has="astype()")
    for form in (">f8", ">i4", ">f2", ">c8"):
        swapped = bp.asarray(numpy.array([1, 2], form))
        same([swapped.dtype, swapped.tolist()], [bp.asarray([1], numpy.dtype(form)).dtype, [1, 2]])
    same([bp.asarray([numpy.bool_(True), False]).dtype, bp.asarray([numpy.complex64(2j)]).tolist()], ["bool", [2j]])
    same([bp.asarray([numpy.int8(1), 2]).dtype, bp.asarray([numpy.float64(1)]).dtype], ["i64", "f32"])
    same(bp.asarray([numpy.array([1, 2], "i4"), numpy.array([3, 4], "i4")]).dtype, "i64")
    wide = x[0].expand(4, 3)
    same([wide.numpy().flags.writeable, x.numpy().flags.writeable], [False, True])
    same([x.to(numpy.float64).dtype, x.to(numpy.dtype("f8")).dtype], ["f64", "f64"])
    raises(TypeError, x.to, numpy.str_)
    same((x + numpy.ones((2, 3), "f4")).tolist(), [[5, 2, 3], [4, 5, 6]])


def test_operators_with_numpy_on_the_left_make_tensors(peer):
    numpy, x, i = peer.module, bp.asarray(VALUES, "f32"), bp.asarray([3, 5], "i32")
    one, two, n = numpy.ones(3, "f4"), numpy.float32(2), numpy.array([1, 2], "i4")
    for got, expected in (
            (two * x, [[0, 2, 4], [6, 8, 10]]), (one * x, VALUES), (one - x[0], [1, 0, -1]), (two ** x[0], [1, 2, 4]),
            (one @ x.T, [3, 12]), (two < x, [[False, False, False], [True, True, True]]), (one == x[0], [False, True, False]),
            (n | i, [3, 7]), (numpy.int32(7) // i, [2, 1]), (numpy.float64(2) * x[0], [0, 2, 4])):
        same([type(got), got.tolist()], [bp.Tensor, expected])
    same([type(numpy.add(one, x)), type(one * x.numpy())], [numpy.ndarray, numpy.ndarray])
    numpy.add(one, x[0], out=one)
    same(one.tolist(), [1, 2, 3])


ABS = bytes.fromhex("08083a2c0a0b0a017812017922034162731201675a0f0a0178120a0a08080112040a02080462090a017912040a02080142"
                    "02100d")  # y = |x|, for 4 f32, as ONNX encodes it


def test_a_model_takes_and_returns_arrays_of_numpy(peer):
    numpy, model = peer.module, bp.Model(ABS)
    x = numpy.array([1, -2, 3, -4], "f4")
    for feeds in ({"x": x}, [x]):
        y, = model.run(["y"], feeds)
        same([type(y), y.dtype.name, y.argmax(), y.tolist()], [numpy.ndarray, "float32", 3, [1, 2, 3, 4]])
    y += 1  # memory of its own
    same(model.run(None, {"x": x})[0].tolist(), [1, 2, 3, 4])
    raises(TypeError, model.run, None, {"x": x}, object(), has="run_options")
    raises(TypeError, model.run, None, {"x": x}, run_options=object(), has="run_options")
    same(model.run(None, {"x": x}, None)[0].tolist(), [1, 2, 3, 4])
    for feeds in ({"x": bp.asarray(x)}, [x.tolist()]):
        y, = model.run(None, feeds)
        same([type(y), y.tolist()], [bp.Tensor, [1, 2, 3, 4]])


def test_sessions_with_the_names_of_onnxruntime_numpy(_):
    import warnings
    import numpy
    import backplane.onnxruntime as ort
    graph = bp.Graph()
    graph.output(bp.ops.relu(graph.input("x", (2, 2))), "y")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "relu.onnx")
        graph.export(path)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            session = ort.InferenceSession(path, ort.SessionOptions(), ["NoExecutionProvider", ("BackplaneExecutionProvider", {"device": "cpu:0"})])
        same([len(seen), "NoExecutionProvider is not available" in str(seen[0].message)], [1, True])
        same(session.get_providers(), ["BackplaneExecutionProvider", "CPUExecutionProvider"])
        same(session.get_provider_options()["BackplaneExecutionProvider"], {"device": "cpu:0"})
        same([(p.name, p.type, p.shape) for p in session.get_inputs() + session.get_outputs()][0], ("x", "tensor(float)", [2, 2]))
        x = numpy.array([[1, -2], [-3, 4]], numpy.float32)
        y, = session.run(["y"], {"x": x})
        same([type(y), y.dtype, y.tolist()], [numpy.ndarray, numpy.float32, [[1, 0], [0, 4]]])
        binding, value = session.io_binding(), ort.OrtValue.ortvalue_from_numpy(x)
        raises(NotImplementedError, binding.bind_input, "x", "cpu", 0, numpy.float32, (2, 2), 0, has="addresses")
        value.update_inplace(-x)
        binding.bind_ortvalue_input("x", value)
        binding.bind_output("y")
        session.run_with_iobinding(binding)
        same(binding.copy_outputs_to_cpu()[0].tolist(), [[0, 2], [3, 0]])
        raises(ValueError, session.run, None, {}, has="['x'] are missing")
        raises(ValueError, session.run, None, {"x": x, "z": x}, has="no inputs ['z']")
        stopped = ort.RunOptions()
        stopped.terminate = True
        raises(RuntimeError, session.run, None, {"x": x}, stopped, has="terminate")
        raises(TypeError, ort.InferenceSession, path, provider=["CPUExecutionProvider"], has="'provider'")
        raises(ValueError, ort.InferenceSession, path, providers=[("BackplaneExecutionProvider", {"divice": "cpu"})], has="divice")
        raises(ValueError, ort.InferenceSession, path, providers=["CPUExecutionProvider"], provider_options=[{}, {}], has="length")
        raises(LookupError, ort.InferenceSession, path, providers=[("BackplaneExecutionProvider", {"device": "warp:0"})])
        for name, value in (("enable_profiling", True), ("optimized_model_filepath", "x.onnx")):
            options = ort.SessionOptions()
            setattr(options, name, value)
            raises(NotImplementedError, ort.InferenceSession, path, options, has=name)
        raises(NotImplementedError, options.register_custom_ops_library, "x.so")
        raises(AttributeError, setattr, options, "intra_op_threads", 1, has="intra_op_num_threads")
        same(bp.Model(path).info()["metadata"], {})
        same([name in ort.get_available_providers() for name in ("CPUExecutionProvider", "BackplaneExecutionProvider")], [True, True])


def tests():
    for package in PACKAGES:
        peer = PEERS[package](package)
        for name, function in list(globals().items()):
            if name.startswith("test_") and ("numpy" not in name or package == "numpy"):
                yield f"{name}_{package}", lambda function=function, peer=peer: function(peer)


if __name__ == "__main__":
    sys.exit(tap.main(dict(tests())))
