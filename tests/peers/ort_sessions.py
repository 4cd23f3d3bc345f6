# SPDX-License-Identifier: Apache-2.0
"""Runs the same code with ONNX Runtime and with the module backplane.onnxruntime, and compares all that it sees.

    python ort_sessions.py [FOLDER]     FOLDER: the package rapidocr_onnxruntime, whose own class then runs its models too

The code is as that of packages which run models: it reads names, types, shapes and metadata of a session, and runs the session
with lists of names and None, with values on devices and with bindings. Prints `ok` as the last line.
"""
import importlib.util
import os
import sys
import tempfile
import types

import numpy
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import backplane.onnxruntime

BOTH = (onnxruntime, backplane.onnxruntime)
RAPID_MODELS = {"ch_ppocr_mobile_v2.0_cls_infer.onnx": (2, 3, 48, 192), "ch_PP-OCRv4_rec_infer.onnx": (1, 3, 48, 320)}


def model():
    """A model with open shapes, several types and metadata."""
    random = numpy.random.default_rng(3)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Softmax", ["h"], ["scores"]),
             helper.make_node("ArgMax", ["h"], ["label"], axis=1, keepdims=0),
             helper.make_node("Greater", ["h", "zero"], ["above"]), helper.make_node("Add", ["n", "n"], ["twice"])]
    port = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "classifier", [port("x", TensorProto.FLOAT, ["batch", 8]), port("n", TensorProto.INT64, [None])],
        [port("scores", TensorProto.FLOAT, ["batch", 5]), port("label", TensorProto.INT64, ["batch"]),
         port("above", TensorProto.BOOL, ["batch", 5]), port("twice", TensorProto.INT64, [None])],
        [numpy_helper.from_array(random.random((8, 5), numpy.float32) - 0.5, "w"), numpy_helper.from_array(numpy.float32(0), "zero")],
        doc_string="of a graph")
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="tests", model_version=7,
                             domain="org.example", doc_string="of a model")
    helper.set_model_props(made, {"names": "{0: 'a', 1: 'b'}", "stride": "32", "empty": ""})
    return made.SerializeToString()


def refusal(call):
    """Whether a call raises an exception."""
    try:
        call()
    except Exception:  # pylint: disable=broad-exception-caught
        return True
    return False


def use(ort, path):
    """Uses a module as a script does. Returns facts, and arrays."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.intra_op_num_threads, options.log_severity_level, options.enable_mem_pattern = 2, 3, False
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    with open(path, "rb") as file:
        sessions = [ort.InferenceSession(path, options, providers=["CPUExecutionProvider"]),
                    ort.InferenceSession(file.read(), sess_options=options, providers=[("CPUExecutionProvider", {})])]
    session, meta = sessions[0], sessions[0].get_modelmeta()
    facts = {
        "ports": [(p.name, p.type, p.shape) for p in session.get_inputs() + session.get_outputs()],
        "providers": [session.get_providers(), list(session.get_provider_options())],
        "meta": [meta.producer_name, meta.graph_name, meta.domain, meta.description, meta.graph_description, meta.version,
                 meta.custom_metadata_map],
        "options": [session.get_session_options().intra_op_num_threads, len(session.get_overridable_initializers()),
                    options.get_session_config_entry("session.intra_op.allow_spinning")]}
    x, n = numpy.linspace(-1, 1, 24, dtype=numpy.float32).reshape(3, 8), numpy.arange(4)
    feeds = {"x": x, "n": n}
    arrays = [array for one in sessions for array in one.run(None, feeds) + one.run(["label", "scores"], feeds)]
    arrays += session.run([], feeds, ort.RunOptions()) + session.run(None, input_feed={"x": x.tolist(), "n": n.tolist()})
    arrays += session.run(output_names=["twice"], input_feed={"x": x[:1], "n": n[:0]}, run_options=None)
    values = {name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in feeds.items()}
    facts["value"] = [(v.data_type(), v.shape(), v.device_name(), v.is_tensor(), v.has_value()) for v in values.values()]
    arrays += [v.numpy() for v in session.run_with_ort_values(["scores"], values)]
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_ortvalue_input("n", values["n"])
    binding.bind_output("scores")
    target = ort.OrtValue.ortvalue_from_shape_and_type([4], numpy.int64)
    binding.bind_ortvalue_output("twice", target)
    session.run_with_iobinding(binding)
    arrays += [*binding.copy_outputs_to_cpu(), binding.get_outputs()[0].numpy(), target.numpy()]
    session.set_providers(["CPUExecutionProvider"])
    arrays += session.run(None, feeds)
    facts["refusals"] = [refusal(call) for call in (
        lambda: session.run(None, {"x": x}), lambda: session.run(None, {**feeds, "z": x}), lambda: session.run(["z"], feeds),
        lambda: session.run(None, {"x": x[:, :7], "n": n}), lambda: session.run(None, {"x": x.astype(int), "n": n}),
        lambda: ort.InferenceSession(path + ".none"), lambda: ort.InferenceSession(b"no model"), lambda: setattr(options, "no_option", 1))]
    return facts, arrays


class Subclass:
    """As insightface's class, which is made of ONNX Runtime's."""

    @staticmethod
    def run(ort, path):
        class Session(ort.InferenceSession):  # pylint: disable=too-few-public-methods
            def __init__(self, model_path, **more):
                super().__init__(model_path, **more)
                self.model_path = model_path
        session = Session(path, providers=["CPUExecutionProvider"])
        return {"path": session.model_path}, session.run(None, {"x": numpy.ones((2, 8), numpy.float32), "n": numpy.arange(2)})


def rapid(ort, folder, name, shape):
    """A session of RapidOCR's own class, whose import of onnxruntime gives the module `ort`."""
    package = types.ModuleType("rapid_under_test")
    package.__path__ = [os.path.join(folder, "utils")]
    kept = {key: sys.modules.get(key) for key in ("onnxruntime", "rapid_under_test", "rapid_under_test.infer_engine")}
    sys.modules.update({"onnxruntime": ort, "rapid_under_test": package})
    try:
        spec = importlib.util.spec_from_file_location("rapid_under_test.infer_engine", os.path.join(folder, "utils", "infer_engine.py"))
        engine = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(engine)
        session = engine.OrtInferSession({"model_path": os.path.join(folder, "models", name), "intra_op_num_threads": 1})
        x = numpy.random.default_rng(5).random(shape, numpy.float32)
        facts = {"names": [session.get_input_names(), session.get_output_names()], "characters": session.have_key(),
                 "list": session.get_character_list() if session.have_key() else []}
        return facts, [session(x)[0]]
    finally:
        sys.modules.update({key: value for key, value in kept.items() if value})


def compare(what, call):
    (facts, arrays), (ours, made) = (call(ort) for ort in BOTH)
    for name, expected in facts.items():
        assert ours[name] == expected, f"{what}, {name}: {ours[name]}, ONNX Runtime has {expected}"
    assert len(arrays) == len(made), what
    for i, (got, expected) in enumerate(zip(made, arrays)):
        assert got.dtype == expected.dtype and got.shape == expected.shape, f"{what}, array {i}: {got.dtype}{got.shape}, {expected.shape}"
        assert numpy.allclose(got, expected, atol=1e-4), f"{what}, array {i}: differs by {numpy.abs(got - expected).max()}"
    print(f"{what}: {sum(len(str(value)) for value in facts.values())} characters of facts, {len(arrays)} arrays")


def main():
    onnxruntime.set_default_logger_severity(4)
    backplane.onnxruntime.set_default_logger_severity(4)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "m.onnx")
        with open(path, "wb") as file:
            file.write(model())
        compare("a script", lambda ort: use(ort, path))
        compare("a subclass", lambda ort: Subclass.run(ort, path))
    for name, shape in RAPID_MODELS.items() if len(sys.argv) > 1 else ():
        compare(name, lambda ort: rapid(ort, sys.argv[1], name, shape))  # pylint: disable=cell-var-from-loop
    print("ok")


if __name__ == "__main__":
    main()
