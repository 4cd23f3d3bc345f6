#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests tensors of the Python package: how they are made, viewed, assigned, lent to Python and described."""
import array
import gc
import sys
import weakref

import tap
from tap import close, raises, same

import backplane as bp


def matrix():
    return bp.asarray([[1.0, 2, 3], [4, 5, 6]])


def test_numbers_and_lists_have_the_usual_dtypes():
    same([bp.asarray(x).dtype for x in (True, 3, 2.5, 1 + 2j, [1, 2.5], [[True]], [], range(3))],
         ["bool", "i64", "f32", "c64", "f32", "bool", "f32", "i64"])
    same(bp.asarray([[1, 2], [3, 4]]).shape, (2, 2))
    same(bp.asarray([]).shape, (0,))
    same(bp.asarray(1 + 2j).item(), 1 + 2j)
    same(bp.asarray([[], []]).tolist(), [[], []])


def test_every_dtype_keeps_its_values():
    for name in bp._backplane._dtype_numbers:
        values = [0, 1] if name in ("bool", "bool_") else [0.5, 1, 2] if "e8m0" in name else [0, 1, 2]
        same([float(v.real) for v in bp.asarray(values, name).tolist()], [float(v) for v in values])
    same(bp.asarray(2**64 - 1, "u64").item(), 2**64 - 1)
    same(bp.asarray(-2**63, "i64").item(), -2**63)


def test_numbers_that_do_not_fit_are_refused():
    raises(OverflowError, bp.asarray, [256], "u8", has="256 does not fit into u8")
    raises(OverflowError, bp.asarray, -129, "i8")
    raises(OverflowError, bp.asarray, -1, "u8", has="-1 does not fit into u8")
    same(bp.asarray([255, 65535], "u16").tolist(), [255, 65535])
    same([bp.asarray(255, "u8").item(), bp.asarray(-128, "i8").item()], [255, -128])
    raises(OverflowError, bp.asarray, 2**64)
    raises(OverflowError, bp.asarray, 2**63, has="an integer does not fit into i64")
    raises(OverflowError, bp.asarray, [2**63], "i32")
    raises(OverflowError, bp.asarray, -1, "u64", has="an integer does not fit into u64")
    raises(OverflowError, bp.asarray, [2**63, -1], "u64")
    same([bp.asarray([2**63, 1], "f64").tolist(), bp.asarray(2**63, "u64").item()], [[2.0**63, 1.0], 2**63])
    raises(TypeError, bp.asarray, 1.5, "i32", has="a float is no number for a tensor of i32")
    raises(TypeError, bp.asarray, [bp.asarray([1.0, 2.0])] * 2, has="ops.stack")
    raises(TypeError, bp.asarray, 1j, "f32")
    raises(ValueError, bp.asarray, [[1, 2], [3]], has="different lengths")
    raises(TypeError, bp.asarray, "text")
    raises(TypeError, bp.asarray, 1, "f33", has="no dtype")


class Deep:
    """A sequence of very many sequences."""

    def __init__(self, depth):
        self.depth = depth

    def __len__(self):
        return 2**31

    def __getitem__(self, i):
        return Deep(self.depth - 1) if self.depth else 1.0


def test_lists_with_too_many_elements_are_refused():
    for depth in (1, 2, 3):
        raises(OverflowError, bp.asarray, Deep(depth), has="too many elements")


def test_exceptions_of_other_objects_are_raised():
    class Broken:
        def __init__(self, error):
            self.error = error

        def __dlpack_device__(self):
            return 1, 0

        def __dlpack__(self, **kw):
            raise self.error

        def __len__(self):
            return 1

        def __getitem__(self, i):
            return [1.0][i]

    raises(ZeroDivisionError, bp.asarray, Broken(ZeroDivisionError()))
    same(bp.asarray(Broken(BufferError())).tolist(), [1.0])  # says that another way is needed


def test_indices_are_views():
    x = matrix()
    same([x[0].tolist(), x[-1, 1].item(), x[:, 1].tolist(), x[::2].tolist(), x[..., 0].tolist()],
         [[1, 2, 3], 5, [2, 5], [[1, 2, 3]], [1, 4]])
    same([x[None].shape, x[:, None, 1:].shape, x[5:].shape, x[()].shape], [(1, 2, 3), (2, 1, 2), (0, 3), (2, 3)])
    same(x[1].address - x.address, 12)
    same([row.tolist() for row in x], [[1, 2, 3], [4, 5, 6]])
    raises(IndexError, lambda: x[2], has="index 2 is outside of axis 0 of extent 2")
    raises(IndexError, lambda: x[0, 0, 0], has="3 indices for a tensor with 2 axes")
    raises(IndexError, lambda: x[..., ...])
    raises(ValueError, lambda: x[::-1], has="ops.flip")
    raises(TypeError, lambda: x[[0, 1]], has="ops.gather")
    raises(TypeError, lambda: x[True])


def test_assignments_write_through_views():
    x = matrix()
    x[0] = 7
    x[1, 1:] = [8, 9]
    x[:, 0] = bp.asarray([1.0, 2.0])
    same(x.tolist(), [[1, 7, 7], [2, 8, 9]])
    raises(bp.InvalidError, x.__setitem__, 0, [1.0, 2.0])
    raises(TypeError, x.__delitem__, 0)
    raises(bp.InvalidError, x.freeze().__setitem__, 0, 1)
    same(x.frozen, True)


def test_shapes_change_without_copies():
    x = matrix()
    same([x.T.shape, x.T.stride, x.reshape(3, -1).shape, x.reshape((6,)).tolist()],
         [(3, 2), (1, 3), (3, 2), [1, 2, 3, 4, 5, 6]])
    same(x.reshape(6).address, x.address)
    same(x.T.reshape(6).tolist(), [1, 4, 2, 5, 3, 6])
    same([x.T.is_contiguous, x.T.contiguous().is_contiguous, x.contiguous() is x], [False, True, True])
    same(x[0].expand(2, 3).tolist(), [[1, 2, 3]] * 2)
    same(x.transpose(1, 0).tolist(), [[1, 4], [2, 5], [3, 6]])
    raises(ValueError, x.transpose, 0)
    raises(bp.InvalidError, x.reshape, 4)


def test_operators_of_python():
    x, y = bp.asarray([1.0, -2.0, 3.0]), bp.asarray([2.0, 2.0, 2.0])
    same([(x + y).tolist(), (x - 1).tolist(), (1 - x).tolist(), (2 * x).tolist(), (x / y).tolist(), (x // y).tolist(),
          (x ** 2).tolist(), (-x).tolist(), abs(x).tolist(), (x % y).tolist(), (+x).tolist()],
         [[3, 0, 5], [0, -3, 2], [0, 3, -2], [2, -4, 6], [0.5, -1, 1.5], [0, -1, 1], [1, 4, 9], [-1, 2, -3], [1, 2, 3],
          [1, 0, 1], [1, -2, 3]])
    same([(x > y).tolist(), (x <= 1).tolist(), (x == x).tolist(), (x != 3).tolist()],
         [[False, False, True], [True, True, False], [True] * 3, [True, True, False]])
    n = bp.asarray([6, 5])
    same([(n & 3).tolist(), (n | 1).tolist(), (n ^ n).tolist(), (~n).tolist(), (n << 1).tolist(), (n >> 1).tolist()],
         [[2, 1], [7, 5], [0, 0], [-7, -6], [12, 10], [3, 2]])
    same((matrix() @ matrix().T).tolist(), [[14, 32], [32, 77]])
    same(x == None, False)  # noqa: E711
    raises(TypeError, lambda: n + 1.5)
    raises(TypeError, lambda: n + "text")
    raises(TypeError, lambda: n < object())
    same([n == object(), n != "text"], [False, True])

    class Symbol:
        """An operand with operators of its own."""

        def __radd__(self, other):
            return "added", other

        def __gt__(self, other):
            return "compared", other

        def __rpow__(self, other):
            return "raised", other
    same([(n + Symbol())[0], (n < Symbol())[0], (n ** Symbol())[0]], ["added", "compared", "raised"])
    raises(TypeError, lambda: Symbol() + n)
    same([float(x[0]), int(x[2]), bool(x[1]), len(x)], [1.0, 3, True, 3])
    raises(TypeError, bool, x)
    raises(TypeError, len, x[0])
    same(len({x, x, y}), 2)


def test_buffers_are_lent_without_a_copy():
    x = matrix()
    view = memoryview(x)
    same([view.format, view.shape, view.strides, view.readonly, view.tolist()],
         ["f", (2, 3), (12, 4), False, [[1, 2, 3], [4, 5, 6]]])
    view[0, 0] = 9
    same(x[0, 0].item(), 9)
    same(memoryview(x.T).strides, (4, 12))
    same(bytes(memoryview(x[0])), x[0].tobytes())
    raises(BufferError, memoryview, x.to("bf16"))
    del x
    gc.collect()
    same(view[0, 1], 2)
    same(memoryview(bp.asarray([1.0]).freeze()).readonly, True)
    row = bp.empty((1, 2))
    same([memoryview(t).readonly for t in (row.expand(3, 2), row.expand(1, 2))], [True, False])


def test_buffers_are_taken_without_a_copy():
    data = array.array("f", [1, 2, 3, 4])
    x = bp.asarray(data)
    same([x.dtype, x.address], ["f32", data.buffer_info()[0]])
    data[0] = 5
    same(x[0].item(), 5)
    raises(BufferError, data.append, 1)  # the tensor holds it
    x = None
    data.append(1)
    x = bp.asarray(data, copy=True)
    data.append(1)
    x = bp.asarray(b"abcd")
    same([x.dtype, x.tolist()], ["u8", [97, 98, 99, 100]])
    raises(bp.Error, x.__setitem__, 0, 1)  # of bytes, which stay
    strided = memoryview(array.array("d", range(6)))[::2]
    same(bp.asarray(strided).tolist(), [0, 2, 4])
    same(bp.asarray(memoryview(array.array("d", range(6)))[::-1]).tolist(), [5, 4, 3, 2, 1, 0])
    for x in ([1, 2], 1, 1.5):
        raises(BufferError, bp.asarray, x, copy=False)
    raises(BufferError, bp.asarray, data, "f64", copy=False, has="another dtype needs a copy")
    same(bp.asarray(data, "f32", copy=False).address, data.buffer_info()[0])
    raises(TypeError, bp.asarray, memoryview(b"abcd").cast("c"))


def test_capsules_go_round_without_a_copy():
    x = matrix()
    y = bp.from_dlpack(x)
    same([y.address, y.tolist(), y is x], [x.address, x.tolist(), False])
    same(x.__dlpack_device__(), (1, 0))
    for version, name in ((None, '"dltensor"'), ((0, 8), '"dltensor"'), ((1, 0), '"dltensor_versioned"')):
        assert name in repr(x.__dlpack__(max_version=version)), (version, name)
    for copy in (True, 1):
        assert bp.from_dlpack(x, copy=copy).address != x.address
    small = bp.from_dlpack(bp.asarray([1.0], "f8e5m2"))
    same([small.dtype, small.tolist()], ["f8e5m2", [1.0]])
    for device in ((2, 0), (1, 1), (1, -1)):
        raises(BufferError, x.__dlpack__, dl_device=device)
    for device in (1, [1, 0], "cpu", (1,), (1, "0")):
        raises(TypeError, x.__dlpack__, dl_device=device)
    assert "versioned" in repr(x.__dlpack__(dl_device=(1, 0), max_version=(1, 0), copy=True))

    class Used:
        """An exporter that returns one capsule twice."""

        def __init__(self):
            self.capsule = matrix().__dlpack__()

        def __dlpack_device__(self):
            return 1, 0

        def __dlpack__(self):
            return self.capsule

    used = Used()
    bp.from_dlpack(used)
    raises(TypeError, bp.from_dlpack, used, has="used one")


def test_capsules_that_are_dropped_free_the_tensor():
    before = bp.Device("cpu").memory()["live"]
    for version in (None, (1, 0)):
        bp.empty(1000).__dlpack__(max_version=version)
    gc.collect()
    same(bp.Device("cpu").memory()["live"], before)


def test_repr_and_properties():
    x = matrix()
    same(repr(x), "backplane.Tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], f32[2, 3] on cpu:0)")
    same(repr(bp.empty((10, 10))), "<backplane.Tensor f32[10, 10] on cpu:0>")
    same([x.ndim, x.size, x.nbytes, x.device, x.graph], [2, 6, 24, bp.Device("cpu"), None])
    same(weakref.ref(x)() is x, True)
    raises(TypeError, bp.Tensor)
    raises(TypeError, x.item)
    same(x.copy().tolist(), x.tolist())
    same([x.to("f64").dtype, x.to("float64").dtype], ["f64", "f64"])

    class float64:
        """Named like a dtype of numpy or torch."""
    same([x.to(float64).dtype, x.to(bp.Device("cpu")) is x], ["f64", True])
    raises(TypeError, x.to, 3, has="expected a device or a dtype")
    same(x.to("cpu") is x, True)


def test_handles_of_other_code_are_no_numbers():
    for function in (bp._backplane._foreign_tensor, bp._backplane._foreign_stream):
        raises(ValueError, function, 1, has="invalid PyCapsule")
        raises(ValueError, function, matrix().__dlpack__(), has="incorrect name")
    x = matrix()
    same(bp._backplane._foreign_tensor(bp._backplane._foreign_handle(x)).address, x.address)


def test_references_do_not_leak():
    x, y = matrix(), matrix()
    for _ in range(3):  # caches fill
        (x + y)[0].T.reshape(3).tolist()
    gc.collect()
    before = sys.getrefcount(x), sys.getrefcount(bp.Device("cpu")), len(gc.get_objects()), sys.getrefcount(None)
    for _ in range(200):
        z = (x + y)[0].T.reshape(3)
        z.tolist(), bp.ops.add(x, 1), bp.ops.concat([x, y]), bp.asarray([1, 2]), memoryview(x).tolist()
        bp.from_dlpack(x)
        for wrong in (lambda: bp.ops.add(x), lambda: x[9], lambda: bp.ops.add(x, y, row="none"),
                      lambda: bp.asarray([1, [2]])):
            try:
                wrong()
            except (TypeError, IndexError, ValueError, bp.Error):
                pass
    del z
    gc.collect()
    after = sys.getrefcount(x), sys.getrefcount(bp.Device("cpu")), len(gc.get_objects()), sys.getrefcount(None)
    assert all(b - a < 50 for a, b in zip(before, after)), (before, after)


def test_close_compares():
    raises(AssertionError, close, [1.0], [2.0])


if __name__ == "__main__":
    sys.exit(tap.main(globals()))
