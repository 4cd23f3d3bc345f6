#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Passes tensors to numpy and back by DLPack, with shared memory.

    numpy_trip.py LIBBACKPLANE

numpy before 2 knows only the older form of DLPack, returns read-only arrays, and has no bool in DLPack.
A missing numpy is a failure, because it is a package that the tests need. One TAP line for each test.
"""
import ctypes
import gc
import os
import sys
import traceback

DTYPES = {"bool": 0, "int8": 1, "int16": 2, "int32": 3, "int64": 4, "uint8": 5, "uint16": 6, "uint32": 7,
          "uint64": 8, "float16": 9, "float32": 11, "float64": 12, "complex64": 13, "complex128": 14}
# Of the f8 types: the number, the code in DLPack 1.1, and bytes of 1, 2 and -0.5 (f8e8m0 has no sign: 0.5).
F8 = {"f8e4m3": (15, 10, (0x38, 0x40, 0xb0)), "f8e5m2": (16, 12, (0x3c, 0x40, 0xb8)), "f8e8m0": (20, 14, (0x7f, 0x80, 0x7e)),
      "f8e4m3fnuz": (21, 11, (0x40, 0x48, 0xb8)), "f8e5m2fnuz": (22, 13, (0x40, 0x44, 0xbc))}
NAME = b"dltensor"
USED = b"used_dltensor"


class Info(ctypes.Structure):  # struct bp_tensor_info
    _fields_ = [("size", ctypes.c_size_t), ("device", ctypes.c_void_p), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("stride", ctypes.POINTER(ctypes.c_int64)), ("count", ctypes.c_int64), ("bytes", ctypes.c_uint64),
                ("data", ctypes.c_void_p), ("dtype", ctypes.c_uint32), ("rank", ctypes.c_uint32),
                ("contiguous", ctypes.c_uint32)]


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Managed(ctypes.Structure):  # struct bp_dlpack_legacy
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
                ("manager_ctx", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Versioned(ctypes.Structure):  # struct bp_dlpack_managed, which begins with other members
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager_ctx", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), *Managed._fields_[:-2]]


class Cast(ctypes.Structure):  # struct bp_cast_attrs
    _fields_ = [("size", ctypes.c_size_t), ("to", ctypes.c_int64), ("overflow", ctypes.c_int64), ("round", ctypes.c_int64)]


python = ctypes.pythonapi
python.PyCapsule_New.restype = ctypes.py_object
python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
python.PyCapsule_GetPointer.restype = ctypes.c_void_p
python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
python.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]


class Library:
    """libbackplane with one device, cpu:0, and a stream."""

    def __init__(self, path):
        self.c = ctypes.CDLL(path)
        self.c.bp_error_message.restype = ctypes.c_char_p
        for name in ("bp_tensor_destroy", "bp_stream_destroy", "bp_device_destroy", "bp_core_destroy"):
            getattr(self.c, name).argtypes = [ctypes.c_void_p]
            getattr(self.c, name).restype = None
        self.core = self.make("bp_core_create", None)
        self.device = self.make("bp_device_create", self.core, b"cpu:0")
        self.stream = self.make("bp_stream_create", self.device)

    def call(self, name, *arguments):
        if getattr(self.c, name)(*arguments):
            raise RuntimeError(f"{name}: {self.c.bp_error_message().decode()}")

    def make(self, name, *arguments):
        out = ctypes.c_void_p()
        self.call(name, *arguments, ctypes.byref(out))
        return out

    def allocated(self):
        stats = (ctypes.c_uint64 * 3)(24)
        self.call("bp_device_memory", self.device, ctypes.byref(stats))
        return stats[2]


class Tensor:
    """A tensor, which numpy imports by the two methods of the protocol."""

    def __init__(self, library, handle):
        self.library, self.handle = library, handle

    @classmethod
    def of(cls, library, array):
        """Returns a new tensor with a copy of an array's elements."""
        shape = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
        t = cls(library, library.make("bp_tensor_create", library.device, DTYPES[array.dtype.name], array.ndim, shape))
        data = array.tobytes()
        library.call("bp_tensor_write", library.stream, t.handle, data, ctypes.c_uint64(len(data)))
        return t

    @classmethod
    def borrow(cls, library, array):
        """Returns a tensor over an array's own memory, as a consumer of the protocol creates it."""
        capsule = array.__dlpack__()
        managed = python.PyCapsule_GetPointer(capsule, NAME)
        handle = library.make("bp_tensor_from_dlpack_legacy", library.device, ctypes.c_void_p(managed))
        python.PyCapsule_SetName(capsule, USED)
        return cls(library, handle)

    def __dlpack__(self, stream=None):
        managed = self.library.make("bp_tensor_to_dlpack_legacy", self.handle)
        return python.PyCapsule_New(managed, NAME, None)

    def __dlpack_device__(self):
        return (1, 0)

    def view(self, name, *arguments):
        return Tensor(self.library, self.library.make(name, self.handle, *arguments))

    def info(self):
        info = Info(size=ctypes.sizeof(Info))
        self.library.call("bp_tensor_get_info", self.handle, ctypes.byref(info))
        return info

    def strides(self):
        info = self.info()
        return tuple(info.stride[i] for i in range(info.rank))

    def read(self):
        size = self.info().bytes
        data = ctypes.create_string_buffer(size or 1)
        self.library.call("bp_tensor_read", self.library.stream, self.handle, data, ctypes.c_uint64(size))
        return data.raw[:size]

    def write(self, array):
        data = array.tobytes()
        self.library.call("bp_tensor_write", self.library.stream, self.handle, data, ctypes.c_uint64(len(data)))

    def destroy(self):
        self.library.c.bp_tensor_destroy(self.handle)


def i64(*values):
    return [ctypes.c_int64(v) for v in values]


def numbers(np, name, shape):
    count = int(np.prod(shape, dtype=np.int64))
    array = (np.arange(count) * 7 + 3) % 100
    if name.startswith("complex"):
        array = array - 1j * array[::-1]
    return array.astype(name).reshape(shape)


def writable(np, array):
    """Returns an array over the same memory that can be written."""
    class Holder:
        __array_interface__ = {**array.__array_interface__, "data": (array.ctypes.data, False),
                               "strides": array.strides}
    return np.asarray(Holder())


def exports_each_dtype(np, library):
    for name in DTYPES:
        if name == "bool":
            continue
        array = numbers(np, name, (3, 4, 5))
        tensor = Tensor.of(library, array)
        seen = np.from_dlpack(tensor)
        assert seen.dtype == array.dtype and seen.shape == array.shape, (name, seen.dtype, seen.shape)
        assert (seen == array).all(), name
        assert seen.ctypes.data == tensor.info().data, name
        tensor.destroy()


def exports_views(np, library):
    array = numbers(np, "int32", (4, 6, 5))
    tensor = Tensor.of(library, array)
    part = tensor.view("bp_tensor_slice", *i64(1, -5, 2 ** 63 - 1, 2))
    turned = part.view("bp_tensor_transpose", None)
    row = tensor.view("bp_tensor_slice", *i64(0, 2, 3, 1))
    wide = row.view("bp_tensor_expand", 3, (ctypes.c_int64 * 3)(7, -1, -1))
    for view, expected in ((part, array[:, -5::2]), (turned, array[:, -5::2].T),
                           (wide, np.broadcast_to(array[2:3], (7, 6, 5)))):
        seen = np.from_dlpack(view)
        assert seen.shape == expected.shape and (seen == expected).all()
        assert seen.strides == tuple(4 * s for s in view.strides())
    assert wide.strides()[0] == 0 and turned.strides() == (1, 10, 30), (wide.strides(), turned.strides())
    writable(np, np.from_dlpack(turned))[:] = -array[:, -5::2].T
    array[:, -5::2] *= -1
    assert tensor.read() == array.tobytes(), "what numpy wrote is not in the tensor"
    for view in (tensor, part, turned, row, wide):
        view.destroy()


def exports_one_and_nothing(np, library):
    for shape in ((), (0,), (3, 0, 2), (1, 1)):
        array = numbers(np, "float64", shape)
        tensor = Tensor.of(library, array)
        seen = np.from_dlpack(tensor)
        assert seen.shape == shape and (seen == array).all(), shape
        tensor.destroy()


def memory_is_shared_both_ways(np, library):
    tensor = Tensor.of(library, numbers(np, "float32", (6,)))
    seen = np.from_dlpack(tensor)
    tensor.write(np.full(6, 2.5, "float32"))
    assert (seen == 2.5).all(), "what the tensor got is not in the array"
    writable(np, seen)[4] = 9
    assert np.frombuffer(tensor.read(), "float32").tolist() == [2.5] * 4 + [9, 2.5]
    tensor.destroy()
    array = np.zeros((2, 3), "int16")
    tensor = Tensor.borrow(library, array)
    array[1, 2] = 77
    assert np.frombuffer(tensor.read(), "int16").tolist() == [0] * 5 + [77]
    tensor.write(np.arange(6, dtype="int16"))
    assert array.tolist() == [[0, 1, 2], [3, 4, 5]]
    tensor.destroy()


def imports_each_dtype_and_layout(np, library):
    for name in DTYPES:
        if name == "bool":
            continue
        base = numbers(np, name, (6, 8, 4))
        for array in (base, base[1:5:2], base[:, 2:7:3, 1:], base.T, base.transpose(1, 2, 0)[::3],
                      np.asfortranarray(base), np.broadcast_to(base[0, 0], (3, 4)).copy(), base[2, 3, 1:2].reshape(()),
                      base[:0], base[:, 3:3], base[5]):
            tensor = Tensor.borrow(library, array)
            info = tensor.info()
            assert info.dtype == DTYPES[name] and info.rank == array.ndim
            assert info.bytes == array.nbytes and tensor.read() == array.tobytes(), (name, array.shape, array.strides)
            if array.size:
                assert info.data == array.ctypes.data
                assert all(n == 1 or s * array.itemsize == t
                           for n, s, t in zip(array.shape, tensor.strides(), array.strides))
            tensor.destroy()


def imports_bool_and_writes_it(np, library):
    """numpy has no bool in DLPack, so the test makes the struct itself."""
    array = np.array([True, False, True, True])
    shape = (ctypes.c_int64 * 1)(4)
    managed = Managed(data=array.ctypes.data, device_type=1, ndim=1, code=6, bits=8, lanes=1, shape=shape)
    tensor = Tensor(library, library.make("bp_tensor_from_dlpack_legacy", library.device, ctypes.byref(managed)))
    assert tensor.info().dtype == DTYPES["bool"] and tensor.read() == array.tobytes()
    tensor.write(~array)
    assert array.tolist() == [False, True, False, False]
    tensor.destroy()


def as_floats(np, library, tensor):
    """The numbers of a tensor of an f8 type."""
    library.c.bp_stream_scope.restype = ctypes.c_void_p
    library.c.bp_stream_scope.argtypes = [ctypes.c_void_p]
    wide = ctypes.c_void_p()
    scope = ctypes.c_void_p(library.c.bp_stream_scope(library.stream))
    library.call("bp_op_cast", scope, tensor.handle, ctypes.byref(Cast(ctypes.sizeof(Cast), DTYPES["float32"])), ctypes.byref(wide))
    wide = Tensor(library, wide)
    result = np.frombuffer(wide.read(), "float32").tolist()
    wide.destroy()
    return result


def f8_goes_both_ways(np, library):
    """numpy has no f8, so the test makes and reads the structs itself, in both forms."""
    shape = (ctypes.c_int64 * 1)(3)
    for form, struct in (("", Versioned), ("_legacy", Managed)):
        for name, (dtype, code, numbers_of) in F8.items():
            data = np.array(numbers_of, "uint8")
            managed = struct(data=data.ctypes.data, device_type=1, ndim=1, code=code, bits=8, lanes=1, shape=shape)
            if not form:
                managed.major, managed.minor = 1, 1
            tensor = Tensor(library, library.make("bp_tensor_from_dlpack" + form, library.device, ctypes.byref(managed)))
            assert tensor.info().dtype == dtype, (name, tensor.info().dtype)
            assert as_floats(np, library, tensor) == [1, 2, 0.5 if name == "f8e8m0" else -0.5], name
            lent = struct.from_address(library.make("bp_tensor_to_dlpack" + form, tensor.handle).value)
            assert (lent.code, lent.bits, lent.lanes, lent.ndim, lent.shape[0]) == (code, 8, 1, 1, 3), name
            assert lent.data + lent.byte_offset == data.ctypes.data, name
            assert form or (lent.major, lent.minor) == (1, 1), name
            DELETER(lent.deleter)(ctypes.addressof(lent))
            tensor.destroy()


def refuses_negative_strides(np, library):
    array = np.arange(5)[::-1]
    before = sys.getrefcount(array)
    try:
        Tensor.borrow(library, array)
    except RuntimeError as error:
        assert "stride 0 is -1" in str(error), error
    else:
        assert False, "it was taken"
    gc.collect()
    assert sys.getrefcount(array) == before, "the capsule did not get its memory back"


def array_goes_first(np, library):
    array = np.arange(1000, dtype="int64")
    expected = array.tobytes()
    tensor = Tensor.borrow(library, array)
    del array
    gc.collect()
    others = [np.full(1000, 5, "int64") for _ in range(50)]  # would reuse the memory if it were free
    assert tensor.read() == expected
    del others
    tensor.destroy()


def tensor_goes_first(np, library):
    before = library.allocated()
    array = numbers(np, "float32", (1000,))
    tensor = Tensor.of(library, array)
    seen = np.from_dlpack(tensor)
    part = seen[10:20]
    tensor.destroy()
    others = [Tensor.of(library, numbers(np, "float32", (1000,)) * 0) for _ in range(50)]
    del seen
    assert library.allocated() - before >= 51 * 4000
    assert (part == array[10:20]).all()
    for other in others:
        other.destroy()
    del part
    gc.collect()
    assert library.allocated() == before, "the memory did not go back"


def deleters_are_called_once(np, library):
    calls = []
    array = np.arange(4, dtype="uint8")
    shape = (ctypes.c_int64 * 1)(4)
    deleter = DELETER(calls.append)
    managed = Managed(data=array.ctypes.data, device_type=1, ndim=1, code=1, bits=8, lanes=1, shape=shape,
                      deleter=ctypes.cast(deleter, ctypes.c_void_p))
    tensor = Tensor(library, library.make("bp_tensor_from_dlpack_legacy", library.device, ctypes.byref(managed)))
    view = tensor.view("bp_tensor_slice", *i64(0, 1, 3, 1))
    seen = np.from_dlpack(view)  # exports an imported tensor
    tensor.destroy()
    view.destroy()
    assert calls == [] and seen.tolist() == [1, 2]
    del seen
    gc.collect()
    assert calls == [ctypes.addressof(managed)], calls
    managed.lanes = 2
    try:
        library.make("bp_tensor_from_dlpack_legacy", library.device, ctypes.byref(managed))
        assert False, "two lanes were taken"
    except RuntimeError:
        assert len(calls) == 1, "a failed import keeps its hands off"


def references_are_given_back(np, library):
    array = np.arange(10)
    before = sys.getrefcount(array)
    tensor = Tensor.borrow(library, array)
    assert sys.getrefcount(array) == before + 1
    tensor.destroy()
    assert sys.getrefcount(array) == before


TESTS = [exports_each_dtype, exports_views, exports_one_and_nothing, memory_is_shared_both_ways,
         imports_each_dtype_and_layout, imports_bool_and_writes_it, f8_goes_both_ways, refuses_negative_strides, array_goes_first,
         tensor_goes_first, deleters_are_called_once, references_are_given_back]


def main():
    try:
        import numpy as np  # pylint: disable=import-outside-toplevel
    except ImportError as error:
        print(f"1..1\nnot ok 1 - numpy is installed (python3-numpy)\n# {error}")
        return 1
    library = Library(os.path.abspath(sys.argv[1]))
    failed = 0
    print(f"1..{len(TESTS)}")
    for number, test in enumerate(TESTS, 1):
        before = library.allocated()
        try:
            test(np, library)
            gc.collect()
            assert library.allocated() == before, f"{library.allocated() - before} bytes were lost"
            print(f"ok {number} - {test.__name__}")
        except Exception:  # pylint: disable=broad-except
            failed += 1
            print(f"not ok {number} - {test.__name__}")
            print("".join("# " + line + "\n" for line in traceback.format_exc().splitlines()), end="")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
