# SPDX-License-Identifier: Apache-2.0
"""Runs ONNX's test models in ONNX Runtime with Backplane's execution provider, with the processor's provider forbidden.

    python ort_suite.py LIBRARY DEVICE FOLDER REPORT [EVERY]     the environment's python; EVERY: each EVERYth model only

FOLDER has the models as libonnx-testdata lays them out. REPORT gets {model: [outcome, text]}: `pass`; `left`: a node
is left to the processor, or ONNX Runtime itself refuses the model; `other`: an input or output is no tensor; `wrong`: outputs
differ; `failed`: an exception.
"""
import ctypes
import glob
import json
import os
import sys

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
RTOL, ATOL = 1e-3, 1e-7  # of ONNX's own backend test


def models_of(folder, every=1):
    """[(name, path)] of all models, or of each everyth."""
    paths = [path for kind in KINDS for path in sorted(glob.glob(os.path.join(folder, kind, "*", "model.onnx")))]
    return [("/".join(path.split(os.sep)[-3:-1]), path) for path in paths][::every]


def tensor_at(path, port):
    """The TensorProto of a file, of the port's element type; None: the port is no tensor."""
    import onnx  # pylint: disable=import-outside-toplevel

    if port.type.WhichOneof("value") != "tensor_type":
        return None
    tensor = onnx.TensorProto()
    with open(path, "rb") as file:
        tensor.ParseFromString(file.read())
    return tensor


def value_of(ort, tensor, port):
    """An OrtValue of a tensor. numpy has no numbers of 8 bits and no bfloat16: their bits are given."""
    import numpy  # pylint: disable=import-outside-toplevel
    from onnx import numpy_helper  # pylint: disable=import-outside-toplevel

    array, kind = numpy_helper.to_array(tensor), port.type.tensor_type.elem_type
    if array.dtype.kind in "OUS":
        return ort.OrtValue.ortvalue_from_numpy(array.astype(object))
    if kind == 16 or kind >= 17 or array.dtype.kind == "V":
        bits = array.view(numpy.uint16 if array.dtype.itemsize == 2 else numpy.uint8)
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(numpy.ascontiguousarray(bits), kind)
    return ort.OrtValue.ortvalue_from_numpy(array)


def array_of(value, port):
    """The array of an OrtValue."""
    import numpy  # pylint: disable=import-outside-toplevel
    from onnx import helper  # pylint: disable=import-outside-toplevel

    kind = port.type.tensor_type.elem_type
    if kind != 16 and kind < 17:
        return value.numpy()
    dtype = numpy.dtype(helper.tensor_dtype_to_np_dtype(kind))
    count = int(numpy.prod(value.shape(), dtype=numpy.int64))
    data = ctypes.string_at(value.data_ptr(), count * dtype.itemsize)
    return numpy.frombuffer(data, dtype).reshape(value.shape())


def difference(got, expected):
    import numpy  # pylint: disable=import-outside-toplevel

    if got.shape != expected.shape:
        return f"shape {got.shape}, expected {expected.shape}"
    if expected.dtype.kind in "OUS":
        return None if numpy.array_equal(got.astype(str), expected.astype(str)) else "texts differ"
    wide = numpy.complex128 if expected.dtype.kind == "c" else numpy.float64
    got, expected = got.astype(wide), expected.astype(wide)
    if numpy.allclose(got, expected, RTOL, ATOL, equal_nan=True):
        return None
    return f"differs by {numpy.nanmax(numpy.abs(got - expected)):.3g}"


def compare(ort, session, model, folder):
    """The outcome of a data set."""
    from onnx import numpy_helper  # pylint: disable=import-outside-toplevel

    feeds = {}
    for i, port in enumerate(model.graph.input):
        path = os.path.join(folder, f"input_{i}.pb")
        if not os.path.exists(path):
            continue
        tensor = tensor_at(path, port)
        if tensor is None:
            return "other", f"input {port.name} is no tensor"
        feeds[port.name] = value_of(ort, tensor, port)
    results = session.run_with_ort_values(None, feeds)
    for i, port in enumerate(model.graph.output):
        tensor = tensor_at(os.path.join(folder, f"output_{i}.pb"), port)
        if tensor is None:
            return "other", f"output {port.name} is no tensor"
        expected = numpy_helper.to_array(tensor)
        got = array_of(results[i], port)
        text = difference(got, expected.view(got.dtype) if expected.dtype == "uint16" != got.dtype else expected)
        if text:
            return "wrong", f"output {port.name}: {text}"
    return "pass", ""


def options_of(ort, device):
    made = ort.SessionOptions()
    made.log_severity_level = 4
    made.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    made.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    made.add_provider_for_devices([device], {})
    return made


def types_of(model):
    """The TypeProtos of all ports of a model's graph and of its sub-graphs."""
    graphs = [model.graph]
    for graph in graphs:
        graphs += [a.g for n in graph.node for a in n.attribute if a.HasField("g")]
        for port in (*graph.input, *graph.output, *graph.value_info):
            yield port.type


def reason_of(model, error):
    """Why a node of a model is left to another provider, or ONNX Runtime itself refuses the model."""
    domains = {n.domain for n in model.graph.node} - {"", "ai.onnx"}
    if any(t.WhichOneof("value") not in ("tensor_type", None) for t in types_of(model)) or \
            any(n.op_type.startswith(("Sequence", "Optional", "SplitToSequence", "ConcatFromSequence")) for n in model.graph.node):
        return "a value is no tensor"
    if any(t.tensor_type.elem_type == 8 for t in types_of(model)):
        return "strings"
    if "is not a registered function/op" in error:
        return f"ONNX Runtime lacks operators of {', '.join(sorted(domains))}"
    return error


def outcome_of(ort, device, path):
    import onnx  # pylint: disable=import-outside-toplevel

    model = onnx.load(path)

    try:
        session = ort.InferenceSession(path, options_of(ort, device))
    except Exception as error:  # pylint: disable=broad-exception-caught
        plain = ort.SessionOptions()
        plain.log_severity_level = 4
        try:
            ort.InferenceSession(path, plain, providers=["CPUExecutionProvider"])
        except Exception as own:  # pylint: disable=broad-exception-caught
            return "left", reason_of(model, str(own).splitlines()[0])
        return "left", reason_of(model, str(error).splitlines()[0])
    folders = sorted(glob.glob(os.path.join(os.path.dirname(path), "test_data_set_*")))
    if not folders:
        return "failed", "the model has no data set"
    try:
        for folder in folders:
            outcome = compare(ort, session, model, folder)
            if outcome[0] != "pass":
                return outcome
    except Exception as error:  # pylint: disable=broad-exception-caught
        return "failed", str(error).splitlines()[0]
    return "pass", ""


def main(library, name, folder, report, every="1"):
    import onnxruntime as ort  # pylint: disable=import-outside-toplevel

    ort.set_default_logger_severity(4)
    ort.register_execution_provider_library("backplane", library)
    device = next(d for d in ort.get_ep_devices() if d.ep_metadata.get("backplane_device") == name)
    found = {model: outcome_of(ort, device, path) for model, path in models_of(folder, int(every))}
    with open(report, "w", encoding="utf-8") as file:
        json.dump(found, file, indent=0)


if __name__ == "__main__":
    main(*sys.argv[1:])
