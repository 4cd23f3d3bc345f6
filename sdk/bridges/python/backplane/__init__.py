# SPDX-License-Identifier: Apache-2.0
"""Backplane: operators, graphs and ONNX models on devices that come as plugins.

    import backplane as bp
    x = bp.asarray([1.0, 2.0, 3.0])
    y = bp.ops.relu(x - 2)
    bp.Model("net.onnx", "cpu").run(None, {"x": x})

A call that fails raises Error, or the class of its status: InvalidError (a ValueError), OutOfMemoryError (a
MemoryError), NotFoundError, DeviceLostError, ... with the library's message.
"""
import atexit as _atexit
import contextlib as _contextlib
import os as _os

try:
    from . import _backplane
except ImportError as _error:
    import sysconfig as _sysconfig
    if _sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise ImportError("backplane needs a Python with the global interpreter lock: the free-threaded build has no stable ABI") from _error
    raise ImportError(f"the extension of backplane cannot be loaded: {_error}") from _error
from . import _host
from ._backplane import *  # noqa: F403
from ._backplane import Tensor, __version__  # noqa: F401
from . import ops

WAIT_AT_EXIT = 5.0  # seconds; work that runs longer ends with the process


def tensor(x, dtype=None, device=None):
    """A new tensor with a copy of the elements of any object; asarray() shares memory where it can."""
    return _backplane.asarray(x, dtype, device, True)


def einsum(equation, *tensors):
    """ops.einsum with an equation such as "ij,jk->ik" in place of labels."""
    return ops.einsum(list(tensors), labels=_backplane._einsum_labels(equation))


def grad(y, x, dy=None):
    """Records the gradients of values of a graph: of the sum of dy y, with dy of ones if it is not given.

    y and dy, x: a symbolic tensor, or a list of them. Returns a tensor, or a list if x is one; None: the gradient is
    zero.
    """
    several = isinstance(x, (list, tuple))
    ys, xs = [list(v) if isinstance(v, (list, tuple)) else [v] for v in (y, x)]
    graph = ys[0].graph if isinstance(ys[0], Tensor) else None
    if graph is None:
        raise TypeError("grad() needs symbolic tensors of a graph")
    dys = [ops.full_like(v, value=1) for v in ys] if dy is None else list(dy) if isinstance(dy, (list, tuple)) else [dy]
    result = graph._gradient(ys, dys, xs)
    return result if several else result[0]


@_contextlib.contextmanager
def annotate(name):
    """A range of this thread in the profile, and in the tools of vendors: `with annotate("load"): ...`."""
    _backplane._range_begin(name)
    try:
        yield
    finally:
        _backplane._range_end()


def _finish():
    """Waits for running work, so that no work uses memory of the interpreter while the interpreter ends."""
    _backplane._synchronize_all(WAIT_AT_EXIT)


_atexit.register(_finish)
_os.register_at_fork(after_in_child=_backplane._after_fork)
