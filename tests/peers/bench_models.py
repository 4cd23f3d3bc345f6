# SPDX-License-Identifier: Apache-2.0
"""Measures whole models on cpu and in ONNX Runtime, by turns, for `./dev peers bench models`.

networks.py writes known networks with random weights; the other models are files of packages. Each is measured with batches
of 1 and 8, with 1 and 2 threads, and with its weights frozen and given as inputs (`open`), some also with Winograd's
algorithm allowed; ONNX Runtime has all its optimisations, and both sides compute in f32. turns.py says how both sides are measured. Two more figures are of processes
of their own: the time of load and first run, and by how many megabytes the process grew at most.
"""
import os
import statistics
import sys

import real_models
import turns

THREADS, BATCHES = (1, 2), (1, 8)
FIRST_ROUNDS, WRITE_SECONDS = 5, 300
FROZEN, OPEN, WINOGRAD = "frozen", "open", "frozen, Winograd"
SETTINGS = {WINOGRAD: {"BP_ALLOW": "winograd"}}
TARGET_FIRST, TARGET_PEAK = 1.0, 0.9
WORDS, ONES, IMAGE, SMALL, ZERO = "words", "ones", "image", "small", "zero"


class Model:
    """A model of the table. source: a network's name, or a file below site-packages. inputs: the inputs of a batch, each
    (kind of values, extents behind the batch) or an integer. target: the ratio that it may take, without and with two threads;
    winograd: with Winograd's algorithm, None: not measured."""

    def __init__(self, source, inputs, target, winograd=None, capacity=0):
        self.source, self.inputs, self.batches = source, inputs, BATCHES
        self.capacity = capacity  # places of the caches that our side binds, or 0
        self.is_network = not source.endswith((".onnx", ".safetensors"))
        self.target = {FROZEN: target, **({OPEN: target} if self.is_network else {}),
                       **({WINOGRAD: winograd} if winograd else {})}


def pictures(name, *extents):
    return lambda n: {name: (IMAGE, (n, 3, *extents))}


def speech(n):
    return {"input": (SMALL, (n, 576)), "state": (SMALL, (2, n, 128)), "sr": 16000}


def token_after(past):
    """One token of GPT-2 behind `past` others."""
    return lambda n: {"ids": (WORDS, (n, 1)), "position": (ZERO, (n, 1)),
                      **{f"{part}.{i}": (SMALL, (n, 12, past, 64)) for i in range(12) for part in ("key", "value")}}


MODELS = {
    "ResNet-50": Model("resnet50", pictures("x", 224, 224), 0.97, 0.85),
    "VGG-19": Model("vgg19", pictures("x", 224, 224), 0.98, 0.65),
    "DenseNet-121": Model("densenet121", pictures("x", 224, 224), 0.92),
    "BERT-base, 128 tokens": Model("bert_base", lambda n: {"ids": (WORDS, (n, 128)), "mask": (ONES, (n, 128))}, 0.82),
    "MiniLM, 128 tokens": Model(real_models.MODELS["minilm"][0], lambda n: {
        "input_ids": (WORDS, (n, 128)), "attention_mask": (ONES, (n, 128))}, 0.88),
    "ViT-B/16": Model("vit_b16", pictures("x", 224, 224), 0.90),
    "MobileNetV3-large": Model("mobilenet_v3", pictures("x", 224, 224), 0.90),
    "EfficientNet-B0": Model("efficientnet_b0", pictures("x", 224, 224), 0.90),
    "YOLOv8n (nudenet), 320x320": Model(real_models.MODELS["nudenet"][0], pictures("images", 320, 320), 0.92),
    "U-Net, 256x256": Model("unet", pictures("x", 256, 256), 0.95, 0.75),
    "PP-OCRv4 detector, 320x320": Model(real_models.MODELS["ocr-detector"][0], pictures("x", 320, 320), 0.95),
    "PP-OCRv4 recogniser, 48x320": Model(real_models.MODELS["ocr-recogniser"][0], pictures("x", 48, 320), 0.95),
    "Silero VAD, 16 kHz": Model(real_models.MODELS["silero"][0], speech, 1.0),
    "GPT-2 by token, 64 before": Model("gpt2", token_after(64), 1.0),
    "GPT-2 by token, 1,024 before": Model("gpt2", token_after(1024), 0.85),
    "GPT-2 by token, 64 before, caches bound": Model("gpt2", token_after(64), 1.0, capacity=128),
    "GPT-2 by token, 1,024 before, caches bound": Model("gpt2", token_after(1024), 0.85, capacity=1088),
}


# ---- in the environment's python

def array_of(random, kind, shape):
    import numpy  # pylint: disable=import-outside-toplevel

    if kind == WORDS:
        return random.integers(0, 30000, shape, numpy.int64)
    if kind in (ONES, ZERO):
        return numpy.full(shape, kind == ONES, numpy.int64)
    return random.standard_normal(shape, numpy.float32) * numpy.float32(1 if kind == IMAGE else 0.1)


def write_feeds(folder, title, batch):
    import numpy  # pylint: disable=import-outside-toplevel

    random = numpy.random.default_rng(list(title.encode()))
    feeds = {name: numpy.array(given, numpy.int64) if isinstance(given, int) else array_of(random, *given)
             for name, given in MODELS[title].inputs(int(batch)).items()}
    numpy.savez(os.path.join(folder, f"{feeds_name(title, batch)}.npz"), **feeds)
    return 0


def feeds_name(title, batch):
    return f"feeds-{list(MODELS).index(title)}-{batch}"


# ---- in the process of peers.py

class BenchError(Exception):
    """A file that cannot be written."""


def script(peer, name, *arguments):
    code, output = peer.call([peer.python, os.path.join(peer.here, name), *arguments], WRITE_SECONDS)
    if code:
        raise BenchError(f"{name} {' '.join(arguments)}: exit status {code}\n{output}")


def prepare(peer, folder, model, is_open):
    """(path of the model's file, names of the files of its given weights)."""
    if model.is_network:
        path = os.path.join(folder, f"{model.source}.open.onnx" if is_open else f"{model.source}.onnx")
        script(peer, "networks.py", folder, model.source, *(["open"] if is_open else []))
        return path, [f"{model.source}.weights"] if is_open else []
    path = next((os.path.join(packages, model.source) for packages in peer.packages()
                 if os.path.exists(os.path.join(packages, model.source))), None)
    if not path:
        raise BenchError(f"{model.source}: no package has this file")
    if model.source.endswith(".safetensors"):
        weights, path = path, os.path.join(folder, "minilm.onnx")
        script(peer, "minilm.py", weights, path)
    return path, []


def line_of(title, batch, variant, threads, measured, text):
    ours, theirs, _ = measured
    ratio, ratio_text = turns.ratio_of(measured)
    target = MODELS[title].target[variant]
    note = "" if text == "right" else f": {text}"
    note += ": missed" if ratio > target else ""
    return (f"| {title} | {batch} | {variant} | {threads} | {1e3 * ours:.2f} | {1e3 * theirs:.2f} | "
            f"{ratio_text}{note} | {target:.2f} |")


def first_line(title, threads, figures):
    """figures: {side: [(seconds, megabytes)]}."""
    seconds, memory = ({side: statistics.median(figure[i] for figure in figures[side]) for side in figures} for i in (0, 1))
    ratio, peak = seconds["ours"] / seconds["theirs"], memory["ours"] / memory["theirs"]
    return (f"| {title} | {threads} | {1e3 * seconds['ours']:.0f} | {1e3 * seconds['theirs']:.0f} | "
            f"{ratio:.2f}{': missed' if ratio > TARGET_FIRST else ''} | {memory['ours']:.0f} | {memory['theirs']:.0f} | "
            f"{peak:.2f}{': missed' if peak > TARGET_PEAK else ''} |")


def measure_first(peer, folder, title, threads, path):
    """The line of load and first run, by turns in processes of their own."""
    figures = {"ours": [], "theirs": []}
    for _ in range(FIRST_ROUNDS):
        for side, list_of_side in figures.items():
            library = [turns.library_of(peer.build)] if side == "ours" else []
            output = turns.process(peer, os.path.abspath(turns.__file__), "first", side, path, folder, feeds_name(title, 1),
                                   *library, threads=threads)
            list_of_side.append(tuple(float(word) for word in output.split()))
    return first_line(title, threads, figures)


class Tables:
    """The lines of both tables; a line is printed when it is known."""

    def __init__(self):
        self.lines = ["| model, f32 | batch | weights | threads | ours, ms | ONNX Runtime, ms | ratio of times | target |",
                      "|---|---|---|---|---|---|---|---|"]
        self.first = ["| model | threads | load and first run: ours, ms | ONNX Runtime, ms | ratio | peak: ours, MB | "
                      "ONNX Runtime, MB | ratio |", "|---|---|---|---|---|---|---|---|"]
        print("\n".join(["", *self.lines]), flush=True)

    def add(self, lines, line):
        lines.append(line)
        print(line, flush=True)


def bench_model(peer, folder, title, tables):
    model = MODELS[title]
    for batch in model.batches:
        script(peer, os.path.basename(__file__), folder, title, str(batch))
    for variant in model.target:
        path, given = prepare(peer, folder, model, variant == OPEN)
        for threads in THREADS:
            with turns.both(peer, folder, threads, SETTINGS.get(variant)) as sides:
                for batch in model.batches:
                    measured = turns.measure(sides, "outputs", path, feeds_name(title, batch), *given,
                                             capacity=model.capacity)
                    text = turns.compare_outputs(peer, folder, "outputs")
                    if text == "right":
                        peer.count.pass_()
                    else:
                        peer.count.fail(f"peers/models/{title}", text)
                    tables.add(tables.lines, line_of(title, batch, variant, threads, measured, text))
            if variant == FROZEN:
                tables.add(tables.first, measure_first(peer, folder, title, threads, path))


def bench(peer, wanted):
    """Prints and writes the tables of all models whose titles contain `wanted`."""
    folder = os.path.join(peer.folder, "models")
    os.makedirs(folder, exist_ok=True)
    tables = Tables()
    for title in MODELS:
        if wanted.lower() in title.lower():
            try:
                bench_model(peer, folder, title, tables)
            except (BenchError, turns.ServerError) as error:
                peer.count.fail(f"peers/models/{title}", str(error))
    turns.write_table(os.path.join(peer.folder, "models.md"), [*tables.lines, "", *tables.first])


if __name__ == "__main__":
    sys.exit(write_feeds(*sys.argv[1:]))
