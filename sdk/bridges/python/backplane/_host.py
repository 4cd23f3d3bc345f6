# SPDX-License-Identifier: Apache-2.0
"""The parts of the package that the extension calls: the search for plugins, conversions to numpy and to lists,
recorded views. Modules that take long to import are imported by the functions that need them."""
import os
import struct
import sys

from . import _backplane

GROUP = "backplane.plugins"  # of entry points
FORMATS = {"bool": "?", "i8": "b", "i16": "h", "i32": "i", "i64": "q", "u8": "B", "u16": "H", "u32": "I", "u64": "Q",
           "f16": "e", "f32": "f", "f64": "d", "c64": "ff", "c128": "dd"}
NUMPY = {"bool": "?", "i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8", "u8": "u1", "u16": "u2", "u32": "u4",
         "u64": "u8", "f16": "f2", "f32": "f4", "f64": "f8", "c64": "c8", "c128": "c16"}
ML_DTYPES = {"bf16": "bfloat16", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2", "f8e8m0": "float8_e8m0fnu",
             "f8e4m3fnuz": "float8_e4m3fnuz", "f8e5m2fnuz": "float8_e5m2fnuz"}
PLAIN = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
         "float64", "complex64", "complex128")  # names of numpy
Port = None  # a class, made when a model is loaded
SHOWN = 64  # elements that repr() shows


def plugin_folders():
    """(name, folder) of each plugin wheel: its entry point names the package that is the folder, or a function.

    The library trusts a plugin if only root and the user can write to its files and to all folders above them, and
    no folder is a link: so links of the environment (lib64 of a venv) are resolved first.
    """
    from importlib.metadata import entry_points
    folders = []
    for point in entry_points(group=GROUP):
        try:
            found = point.load()
            found = found() if callable(found) else found.__path__[0]
        except Exception as error:  # a broken package of another project must not end this one
            import warnings
            warnings.warn(f"the plugin package {point.value} of the entry point {point.name} cannot be used: {error}")
            continue
        folders.append((point.name, os.path.realpath(os.fspath(found))))
    return folders


def open_libraries():
    """Opens the libraries that a wheel brings for its plugins, as libgomp: a plugin then finds them by name. A library
    of that name that the process has already is used in their place."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_lib")
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        if ".so." in name and not name.startswith("libbackplane"):
            _backplane._open_library(name)


def plugin_path():
    """The folders in which the core searches for plugins, before its own. The core calls it before it is created."""
    open_libraries()
    return ":".join(folder for _, folder in plugin_folders())


def default_device_name():
    return os.environ.get("BP_DEVICE") or "cpu"


# --- conversions --------------------------------------------------------------------------------------------

def readable(tensor):
    """(tensor, dtype) whose bytes Python has a format for: of types that Python lacks, as f32."""
    if tensor.dtype in FORMATS:
        return tensor, tensor.dtype
    return _backplane._cast(tensor, "f32"), "f32"


def flat_list(tensor):
    tensor, dtype = readable(tensor)
    data, form = tensor.tobytes(), FORMATS[dtype]
    if len(form) == 1:
        return [value for value, in struct.iter_unpack(form, data)]
    return [complex(*pair) for pair in struct.iter_unpack(form, data)]


def nest(values, shape):
    for extent in reversed(shape[1:]):
        values = [values[i:i + extent] for i in range(0, len(values), extent)] if extent else [[] for _ in range(0)]
    return values


def to_list(tensor):
    shape = tensor.shape
    if not shape:
        return flat_list(tensor)[0]
    if not tensor.size:
        return empty_list(shape)
    return nest(flat_list(tensor), shape)


def empty_list(shape):
    return [empty_list(shape[1:]) for _ in range(shape[0])] if shape else None


def to_item(tensor):
    if tensor.size != 1:
        raise TypeError(f"a tensor of {tensor.size} elements is no single number; ops.stack makes one tensor of several")
    return flat_list(tensor)[0]


def repr_of(tensor):
    where = tensor.device.name if tensor.device else "a graph"
    head = f"{tensor.dtype}{list(tensor.shape)} on {where}"
    if tensor.device and tensor.size <= SHOWN:
        try:
            return f"backplane.Tensor({to_list(tensor)}, {head})"
        except _backplane.Error:
            pass  # of a device that is lost the description is left
    return f"<backplane.Tensor {head}>"


def plain_array(x):
    """(array, dtype) of an array that neither DLPack nor the buffer protocol describes to us: a copy in the byte order
    of the machine, or, of the small float types, as f32, which is then cast to dtype. None: x is no array."""
    dtype = getattr(x, "dtype", None)
    name = getattr(dtype, "name", None)
    if not isinstance(name, str) or not hasattr(x, "astype"):
        return None
    if name not in _backplane._dtype_numbers:
        raise TypeError(f"no tensor has the dtype of an array of {dtype}: convert it with astype()")
    if name in PLAIN:
        return x.astype(dtype.newbyteorder("=")), None
    return x.astype("float32"), name


def numpy_dtype(name):
    import numpy
    if name in NUMPY:
        return numpy.dtype(NUMPY[name])
    try:
        import ml_dtypes
    except ImportError:
        raise TypeError(f"numpy has no {name}: install ml_dtypes, or convert with to('f32')") from None
    return numpy.dtype(getattr(ml_dtypes, ML_DTYPES[name]))


def to_numpy(tensor):
    import numpy
    dtype = numpy_dtype(tensor.dtype)
    if tensor.address is not None and tensor.dtype in NUMPY:
        return numpy.asarray(memoryview(tensor))
    return numpy.frombuffer(bytearray(tensor.tobytes()), dtype).reshape(tensor.shape)


def to_array(tensor, dtype, copy):
    import numpy
    array = to_numpy(tensor)
    if dtype is not None and array.dtype != dtype:
        if copy is False:
            raise ValueError("another dtype needs a copy")
        return array.astype(dtype)
    return numpy.array(array) if copy else array


def like_feeds(results, feeds):
    """The results of a model: as numpy arrays if the inputs are such arrays. With a Tensor among the inputs the results
    are tensors, which stay on the device. numpy is not imported: without it no input is such an array."""
    numpy = sys.modules.get("numpy")
    values = list(feeds.values()) if isinstance(feeds, dict) else feeds
    if not numpy or not any(isinstance(value, numpy.ndarray) for value in values):
        return results
    if any(isinstance(value, _backplane.Tensor) for value in values):
        return results
    return [None if result is None else to_numpy(result) for result in results]


def port(name, dtype, shape):
    """The description of an input or output of a model; ONNX Runtime calls the dtype `type`."""
    global Port
    if Port is None:
        from collections import namedtuple
        Port = namedtuple("Port", "name type shape")
    return Port(name, dtype, shape)


# --- operators ----------------------------------------------------------------------------------------------

def call(name, *args, **kw):
    return _backplane._operators[name](*args, **kw)


def cast(tensor, dtype):
    numbers = _backplane._dtype_numbers
    return tensor if numbers.get(dtype) == numbers[tensor.dtype] else call("cast", tensor, to=dtype)


def record_transpose(tensor, axes):
    return call("transpose", tensor, perm=axes)


def record_index(tensor, key):
    """tensor[key] of a symbolic tensor, as recorded operators."""
    key = key if isinstance(key, tuple) else (key,)
    taken = sum(item is not None and item is not Ellipsis for item in key)
    if key.count(Ellipsis) > 1 or taken > tensor.ndim:
        raise IndexError(f"{taken} indices for a tensor with {tensor.ndim} axes")
    at = key.index(Ellipsis) if Ellipsis in key else len(key)
    full = [*key[:at], *[slice(None)] * (tensor.ndim - taken), *key[at + 1:]]
    shape, starts, ends, steps, axis = [], [], [], [], 0
    for item in full:
        if item is None:
            shape.append(1)
            continue
        extent = tensor.shape[axis]
        if isinstance(item, slice):
            start, stop, step = item.indices(extent)
            if step < 0:
                raise ValueError("a slice with a negative step is no view; use ops.flip")
            shape.append(len(range(start, stop, step)))
        else:
            start = item.__index__()
            if not -extent <= start < extent:
                raise IndexError(f"index {start} is outside of axis {axis} of extent {extent}")
            start += extent if start < 0 else 0
            stop, step = start + 1, 1
        starts, ends, steps = starts + [start], ends + [max(start, stop)], steps + [step]
        axis += 1
    if any(starts) or any(steps[i] != 1 or ends[i] != tensor.shape[i] for i in range(tensor.ndim)):
        tensor = call("slice", tensor, starts, ends, list(range(tensor.ndim)), steps)
    return tensor if tensor.shape == tuple(shape) else call("reshape", tensor, shape)


_backplane._set_host(__import__(__name__, fromlist=["_"]))
