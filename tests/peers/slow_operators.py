# SPDX-License-Identifier: Apache-2.0
"""Measures single operators of real sizes on cpu and in ONNX Runtime, by turns, for `./dev peers bench slow-operators`.

    python slow_operators.py write FOLDER [CASE...]                 writes the models and their inputs
    python slow_operators.py theirs FOLDER                          ONNX Runtime, a server on standard input and output
    python slow_operators.py ours FOLDER LIBBACKPLANE_ONNX          a caller of the library, the same

Both sides are processes that live for the whole measurement. A server takes lines: `open CASE` loads a model, runs it and
keeps its outputs in FOLDER, `run N` runs it N times and returns the seconds of one run, of `bp_model_run` with
`bp_stream_synchronize` or `run_with_iobinding` alone. Each round measures one side after the other, so that other users of
the machine disturb both alike. A round begins after a pause, in which the threads of the other side fall asleep: they
wait for more work first, those of ONNX Runtime for some 25 ms, and one of two processors would run them.
"""
import contextlib
import ctypes
import os
import statistics
import subprocess
import sys
import time

import real_models

ROUNDS, ROUND_SECONDS, PAUSE_SECONDS, THREADS, LIMIT = 9, 0.1, 0.1, (1, 2), 1.5
SERVER_SECONDS = 120


# ---- the models

def conv_transpose(x, filters, window, step, pad, group=1):
    return "ConvTranspose", {"x": x}, {"w": (x[1], filters // group, *window), "b": (filters,)}, {
        "strides": [step] * len(window), "pads": [pad] * 2 * len(window), "group": group}


def power(x, exponent):
    return "Pow", {"x": x}, {"e": exponent}, {}


def top(x, k):
    return "TopK", {"x": x}, {"k": k}, {}


def resize(x, out, **how):
    return "Resize", {"x": x}, {"roi": None, "scales": None, "sizes": list(out)}, how


def suppress(boxes, classes, most, overlap, score):
    return "NonMaxSuppression", {"boxes": (1, boxes, 4), "scores": (1, classes, boxes)}, {
        "most": most, "overlap": overlap, "score": score}, {}


def align(x, regions, out, sampling, scale):
    return "RoiAlign", {"x": x, "rois": (regions, 4)}, {"images": regions}, {
        "output_height": out, "output_width": out, "sampling_ratio": sampling, "spatial_scale": scale}


FLOOR = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
# Operator, inputs, constants and attributes. The sizes are those of decoders (U-Net, DCGAN), vocoders (HiFi-GAN), norms
# and GELU written out, samplers of language models, feature pyramids and detectors.
CASES = {
    "ConvTranspose 256 to 128, 32x32, k4 s2": conv_transpose((1, 256, 32, 32), 128, (4, 4), 2, 1),
    "ConvTranspose 64 to 32, 64x64, k2 s2": conv_transpose((1, 64, 64, 64), 32, (2, 2), 2, 0),
    "ConvTranspose 64 to 64, 56x56, k3 s1": conv_transpose((1, 64, 56, 56), 64, (3, 3), 1, 1),
    "ConvTranspose depthwise 64, 56x56, k4 s2": conv_transpose((1, 64, 56, 56), 64, (4, 4), 2, 1, 64),
    "ConvTranspose 8 groups of 32, 28x28, k3 s2": conv_transpose((1, 256, 28, 28), 256, (3, 3), 2, 1, 8),
    "ConvTranspose 512 to 256, 128, k16 s8": conv_transpose((1, 512, 128), 256, (16,), 8, 4),
    "ConvTranspose 128 to 64, 1024, k4 s2": conv_transpose((1, 128, 1024), 64, (4,), 2, 1),
    "Pow 64x112x112 by 2": power((1, 64, 112, 112), 2),
    "Pow 64x112x112 by 3": power((1, 64, 112, 112), 3),
    "Pow 64x112x112 by 0.5": power((1, 64, 112, 112), 0.5),
    "Pow 64x112x112 by -0.5": power((1, 64, 112, 112), -0.5),
    "Pow 64x112x112 by -1": power((1, 64, 112, 112), -1),
    "Pow 197x768 by 3": power((1, 197, 768), 3),
    "Pow 197x768 by 2.2": power((1, 197, 768), 2.2),
    "TopK 50 of 64x4096": top((64, 4096), 50),
    "TopK 5 of 1000": top((1, 1000), 5),
    "TopK 50 of 32000": top((1, 32000), 50),
    "TopK 300 of 8400": top((1, 8400), 300),
    "Resize nearest 64x56x56 to 112x112": resize((1, 64, 56, 56), (1, 64, 112, 112), **FLOOR),
    "Resize linear 64x56x56 to 112x112": resize((1, 64, 56, 56), (1, 64, 112, 112), mode="linear"),
    "Resize nearest 256x20x20 to 40x40": resize((1, 256, 20, 20), (1, 256, 40, 40), **FLOOR),
    "Resize linear 3x480x640 to 224x224": resize((1, 3, 480, 640), (1, 3, 224, 224), mode="linear"),
    "NonMaxSuppression 1000 boxes, 10 classes": suppress(1000, 10, 100, 0.5, 0.1),
    "NonMaxSuppression 8400 boxes, 1 class": suppress(8400, 1, 300, 0.45, 0.25),
    "RoiAlign 256x50x50, 300 regions of 7x7": align((1, 256, 50, 50), 300, 7, 2, 1 / 16),
    "RoiAlign 256x50x50, 100 regions of 14x14": align((1, 256, 50, 50), 100, 14, 0, 1 / 16),
}


def input_of(random, operator, name, shape):
    import numpy  # pylint: disable=import-outside-toplevel

    if name in ("boxes", "rois"):  # corners inside of a picture of 800 x 800
        low = random.random((*shape[:-1], 2)) * 640
        return numpy.concatenate([low, low + 32 + random.random((*shape[:-1], 2)) * 128], -1).astype(numpy.float32)
    if operator in ("Pow", "NonMaxSuppression"):
        return random.random(shape, numpy.float32) + numpy.float32(0.001)
    return random.standard_normal(shape, numpy.float32)


def constant_of(random, name, value):
    import numpy  # pylint: disable=import-outside-toplevel

    if name in ("w", "b"):
        return (random.standard_normal(value, numpy.float32) * numpy.float32(0.05))
    if name == "images":
        return numpy.zeros(value, numpy.int64)
    if name in ("e", "overlap", "score"):
        return numpy.array(value if name == "e" else [value], numpy.float32)
    return numpy.array(value if isinstance(value, list) else [value], numpy.int64)


def write(folder, cases):
    import numpy  # pylint: disable=import-outside-toplevel
    import onnx  # pylint: disable=import-outside-toplevel

    for number, (title, (operator, inputs, constants, attributes)) in enumerate(CASES.items()):
        if title not in cases:
            continue
        random = numpy.random.default_rng(number)
        feeds = {name: input_of(random, operator, name, shape) for name, shape in inputs.items()}
        fixed = {name: constant_of(random, name, value) for name, value in constants.items() if value is not None}
        names = [*inputs, *("" if value is None else name for name, value in constants.items())]
        outputs = ["y", "index"] if operator == "TopK" else ["y"]
        kinds = [onnx.TensorProto.INT64 if operator == "NonMaxSuppression" or name == "index" else onnx.TensorProto.FLOAT
                 for name in outputs]
        graph = onnx.helper.make_graph(
            [onnx.helper.make_node(operator, names, outputs, name="node", **attributes)], "graph",
            [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in inputs.items()],
            [onnx.helper.make_tensor_value_info(name, kind, None) for name, kind in zip(outputs, kinds)],
            [onnx.numpy_helper.from_array(value, name) for name, value in fixed.items()])
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10)
        onnx.save(model, os.path.join(folder, f"{number}.onnx"))
        numpy.savez(os.path.join(folder, f"{number}.npz"), **feeds)


# ---- the servers

class Theirs:
    """A model in ONNX Runtime."""

    def __init__(self, path, feeds):
        import onnxruntime  # pylint: disable=import-outside-toplevel

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = int(os.environ["BP_THREADS"]), 1
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.binding = self.session.io_binding()
        for name, value in feeds.items():
            self.binding.bind_cpu_input(name, value)
        for port in self.session.get_outputs():
            self.binding.bind_output(port.name)

    def run(self):
        self.session.run_with_iobinding(self.binding)

    def outputs(self):
        return self.binding.copy_outputs_to_cpu()


class Ours(real_models.Caller):
    """The same model on cpu:0. Outputs are released when the next run ends."""

    def __init__(self, library, path, feeds):
        super().__init__(library, path)
        self.given = [self.tensor_of(feeds[name]) for name in self.names()]
        self.n_out = self.c.bp_model_outputs(self.model)
        self.out = (ctypes.c_void_p * self.n_out)()
        self.arguments = (ctypes.c_void_p * len(self.given))(*(t.value for t in self.given))

    def run(self):
        for i in range(self.n_out):
            self.c.bp_tensor_destroy(ctypes.c_void_p(self.out[i]))
            self.out[i] = None
        self.call("bp_model_run", self.model, self.stream, self.arguments, ctypes.c_size_t(len(self.given)), self.out,
                  ctypes.c_size_t(self.n_out))
        self.call("bp_stream_synchronize", self.stream)

    def outputs(self):
        return [self.array_of(ctypes.c_void_p(tensor)) for tensor in self.out]


def serve(side, folder, *library):
    import numpy  # pylint: disable=import-outside-toplevel

    caller = None
    for line in sys.stdin:
        command, value = line.split()
        if command == "open":
            with numpy.load(os.path.join(folder, f"{value}.npz")) as feeds:
                given, path = {name: feeds[name] for name in feeds.files}, os.path.join(folder, f"{value}.onnx")
            caller = Theirs(path, given) if side == "theirs" else Ours(*library, path, given)
            caller.run()
            numpy.savez(os.path.join(folder, f"{value}.{side}.npz"), *caller.outputs())
            print("0", flush=True)
        else:
            begin = time.perf_counter()
            for _ in range(int(value)):
                caller.run()
            print((time.perf_counter() - begin) / int(value), flush=True)
    return 0


def compare(folder, number):
    """Prints `right` or the first difference between both sides' outputs, by real_models' tolerance: ONNX Runtime computes
    the positions of Resize in f32, which differs by 640 * 2^-24 where there are 640."""
    import numpy  # pylint: disable=import-outside-toplevel

    with numpy.load(os.path.join(folder, f"{number}.ours.npz")) as got, \
            numpy.load(os.path.join(folder, f"{number}.theirs.npz")) as expected:
        print(next((text for key in expected.files
                    for text in [real_models.difference(key, got[key] if key in got.files else None, expected[key])] if text),
                   "right"))
    return 0


# ---- in the process of peers.py

class ServerError(Exception):
    """A server that ended or refused."""


class Server:
    """One side of the measurement."""

    def __init__(self, peer, side, folder, threads):
        command = ["nice", "-n", "10", peer.python, os.path.abspath(__file__), side, folder]
        if side == "ours":
            command.append(os.path.join(peer.build, "sdk", "onnx", "libbackplane-onnx.so"))
        environment = dict(os.environ, BP_THREADS=str(threads), BP_FALLBACK="allow",
                           BP_PLUGIN_PATH=os.path.join(peer.build, "plugins", "cpu"))
        self.side = side
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def ask(self, line):
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            return float(self.process.stdout.readline())
        except (ValueError, BrokenPipeError) as error:
            raise ServerError(f"{self.side}: no answer to `{line}`; see its message above") from error

    def close(self):
        with contextlib.suppress(BrokenPipeError):  # a request that the server has not read
            self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(SERVER_SECONDS)


def turn_of(server, times):
    time.sleep(PAUSE_SECONDS)
    return server.ask(f"run {times}")


def measure(sides, number):
    """(seconds of ours, of theirs, the ratios of all rounds) of one case."""
    times = {}
    for side, server in sides.items():
        server.ask(f"open {number}")
        times[side] = max(1, min(1000, int(ROUND_SECONDS / server.ask("run 3"))))
    rounds = [{side: turn_of(server, times[side]) for side, server in sides.items()} for _ in range(ROUNDS)]
    return (*(statistics.median(r[side] for r in rounds) for side in ("ours", "theirs")),
            sorted(r["ours"] / r["theirs"] for r in rounds))


def line_of(title, threads, measured, text):
    ours, theirs, ratios = measured
    ratio = statistics.median(ratios)
    quarter = len(ratios) // 4
    note = "" if text == "right" else f": {text}"
    note += ": missed" if ratio > LIMIT else ""
    return (f"| {title} | {threads} | {1e3 * ours:.3f} | {1e3 * theirs:.3f} | {ratio:.2f} "
            f"({ratios[quarter]:.2f} - {ratios[-1 - quarter]:.2f}){note} |")


def bench_case(peer, sides, folder, title, threads):
    """The case's line of the table. A wrong result counts as a failure."""
    number = list(CASES).index(title)
    measured = measure(sides, number)
    _, output = peer.call([peer.python, os.path.abspath(__file__), "compare", folder, str(number)], SERVER_SECONDS)
    if output.strip() == "right":
        peer.count.pass_()
    else:
        peer.count.fail(f"peers/slow-operators/{title}", output)
    return line_of(title, threads, measured, output.strip())


def bench(peer, wanted):
    """Prints and writes the table of all cases whose titles contain `wanted`."""
    folder = os.path.join(peer.folder, "slow-operators")
    os.makedirs(folder, exist_ok=True)
    titles = [title for title in CASES if wanted.lower() in title.lower()]
    code, output = peer.call([peer.python, os.path.abspath(__file__), "write", folder, *titles], SERVER_SECONDS)
    if code:
        peer.count.fail("peers/slow-operators: the models cannot be written", output)
        return
    lines = ["| operator, f32 | threads | ours, ms | ONNX Runtime, ms | ratio of times |", "|---|---|---|---|---|"]
    print("\n".join(["", *lines]), flush=True)
    for threads in THREADS:
        sides = {side: Server(peer, side, folder, threads) for side in ("ours", "theirs")}
        try:
            for title in titles:
                lines.append(bench_case(peer, sides, folder, title, threads))
                print(lines[-1], flush=True)
        except ServerError as error:
            peer.count.fail(f"peers/slow-operators, {threads} threads", str(error))
        finally:
            for server in sides.values():
                server.close()
    path = os.path.join(peer.folder, "slow-operators.md")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    print(f"the table is in {path}")


def main(command, folder, *more):
    if command == "write":
        write(folder, more)
        return 0
    return compare(folder, *more) if command == "compare" else serve(command, folder, *more)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
