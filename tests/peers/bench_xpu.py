# SPDX-License-Identifier: Apache-2.0
"""Measures compiled programs of whole models on xpu and the same models node by node, by turns, for `./dev peers bench xpu`.

PoCL's processor stands for the device. networks.py writes the models; turns.py says how both sides are measured.
"""
import contextlib
import os

import bench_models
import turns

TARGET = 0.77
MODELS = ("ResNet-50", "MobileNetV3-large", "BERT-base, 128 tokens")


def line_of(title, measured, text):
    ours, theirs, _ = measured
    ratio, ratio_text = turns.ratio_of(measured)
    note = "" if text == "right" else f": {text}"
    note += ": missed" if ratio > TARGET else ""
    return f"| {title} | {1e3 * ours:.1f} | {1e3 * theirs:.1f} | {ratio_text}{note} | {TARGET:.2f} |"


@contextlib.contextmanager
def both(peer, folder):
    """{side: server}: a program, and node by node."""
    plugins = os.pathsep.join(os.path.join(peer.build, "plugins", name) for name in ("cpu", "xpu"))
    # Programs of its own: the tests compile theirs without optimisation.
    opencl = {**peer.opencl(), "BP_PLUGIN_PATH": plugins, "BP_XPU_CACHE": os.path.join(folder, "opencl-programs")}
    sides = {"ours": turns.Server(peer, "ours", folder, 2, "xpu:0", opencl),
             "theirs": turns.Server(peer, "nodes", folder, 2, "xpu:0", {**opencl, "BP_PASSES": "uncompiled"})}
    try:
        yield sides
    finally:
        for server in sides.values():
            server.close()


def compare(peer, folder, name):
    """`right`, or the first difference between the outputs of both sides."""
    os.replace(os.path.join(folder, f"{name}.nodes.npz"), os.path.join(folder, f"{name}.theirs.npz"))
    return turns.compare_outputs(peer, folder, name)


def bench_model(peer, folder, title):
    bench_models.script(peer, "bench_models.py", folder, title, "1")
    path, _ = bench_models.prepare(peer, folder, bench_models.MODELS[title], False)
    with both(peer, folder) as sides:
        measured = turns.measure(sides, "outputs-xpu", path, bench_models.feeds_name(title, 1))
    text = compare(peer, folder, "outputs-xpu")
    if text == "right":
        peer.count.pass_()
    else:
        peer.count.fail(f"peers/xpu/{title}", text)
    return line_of(title, measured, text)


def bench(peer, wanted):
    """Prints and writes the table of all models whose titles contain `wanted`."""
    if not peer.has_opencl():
        peer.count.skip("peers/xpu", "OpenCL's headers or PoCL are not installed")
        return
    folder = os.path.join(peer.folder, "models")
    os.makedirs(folder, exist_ok=True)
    lines = ["| model on xpu, f32, batch of 1 | compiled, ms | node by node, ms | ratio of times | target |", "|---|---|---|---|---|"]
    print("\n".join(["", *lines]), flush=True)
    for title in MODELS:
        if wanted.lower() in title.lower():
            try:
                lines.append(bench_model(peer, folder, title))
                print(lines[-1], flush=True)
            except (bench_models.BenchError, turns.ServerError) as error:
                peer.count.fail(f"peers/xpu/{title}", str(error))
    turns.write_table(os.path.join(peer.folder, "xpu.md"), lines)
