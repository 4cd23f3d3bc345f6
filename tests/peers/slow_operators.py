# SPDX-License-Identifier: Apache-2.0
"""Measures single operators of real sizes on cpu and in ONNX Runtime, by turns, for `./dev peers bench slow-operators`.

    python slow_operators.py FOLDER [CASE...]                 writes the models and their inputs

turns.py says how both sides are measured.
"""
import os
import sys

import turns

THREADS, LIMIT = (1, 2), 1.5


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


# ---- in the process of peers.py

def line_of(title, threads, measured, text):
    ours, theirs, _ = measured
    ratio, ratio_text = turns.ratio_of(measured)
    note = "" if text == "right" else f": {text}"
    note += ": missed" if ratio > LIMIT else ""
    return f"| {title} | {threads} | {1e3 * ours:.3f} | {1e3 * theirs:.3f} | {ratio_text}{note} |"


def bench_case(peer, sides, folder, title, threads):
    """The case's line of the table. A wrong result counts as a failure."""
    name = str(list(CASES).index(title))
    measured = turns.measure(sides, name, os.path.join(folder, f"{name}.onnx"), name)
    text = turns.compare_outputs(peer, folder, name)
    if text == "right":
        peer.count.pass_()
    else:
        peer.count.fail(f"peers/slow-operators/{title}", text)
    return line_of(title, threads, measured, text)


def bench(peer, wanted):
    """Prints and writes the table of all cases whose titles contain `wanted`."""
    folder = os.path.join(peer.folder, "slow-operators")
    os.makedirs(folder, exist_ok=True)
    titles = [title for title in CASES if wanted.lower() in title.lower()]
    code, output = peer.call([peer.python, os.path.abspath(__file__), folder, *titles], turns.SERVER_SECONDS)
    if code:
        peer.count.fail("peers/slow-operators: the models cannot be written", output)
        return
    lines = ["| operator, f32 | threads | ours, ms | ONNX Runtime, ms | ratio of times |", "|---|---|---|---|---|"]
    print("\n".join(["", *lines]), flush=True)
    for threads in THREADS:
        try:
            with turns.both(peer, folder, threads) as sides:
                for title in titles:
                    lines.append(bench_case(peer, sides, folder, title, threads))
                    print(lines[-1], flush=True)
        except turns.ServerError as error:
            peer.count.fail(f"peers/slow-operators, {threads} threads", str(error))
    turns.write_table(os.path.join(peer.folder, "slow-operators.md"), lines)


if __name__ == "__main__":
    sys.exit(write(sys.argv[1], sys.argv[2:]))
