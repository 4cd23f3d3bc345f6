# SPDX-License-Identifier: Apache-2.0
"""Measures networks on openvino:0, on cpu:0 and in OpenVINO's own API, by turns, for `./dev peers bench openvino`.

    python bench_openvino.py LIBBACKPLANE_ONNX NAME PATH    prints one line of JSON: see Measured

One process has all four sides, with one thread each, on inputs and outputs that exist; times are those of the processor, so
that other work on the machine disturbs them less. OpenVINO's API gets the same file and the same properties as the plugin sets.
"""
import datetime
import json
import os
import platform
import sys
import time

import openvino_engine
import ort_networks
import ort_provider
import real_models

SECONDS, LEAST_TURNS, MOST_TURNS = 4, 7, 1000
NETWORK_SECONDS = 600
RIGHT, THEIRS = "right", "as OpenVINO's"
API, EXACT, FAST, CPU = "api", "exact", "fast", "cpu"
ALLOWED = {EXACT: ("openvino:0", ""), FAST: ("openvino:0", "fast-math"), CPU: ("cpu:0", "")}  # side: device, BP_ALLOW
MORE = ("ocr-detector", "ocr-recogniser", "ocr-classifier", "minilm", "nudenet")  # beside the light networks
PROPERTIES = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": "1",
              "INFERENCE_NUM_THREADS": "1", "ENABLE_CPU_PINNING": "NO"}
HEAD = """\
<!-- SPDX-License-Identifier: Apache-2.0 -->
# OpenVINO

`./dev peers bench openvino` writes this page: whole networks on `openvino:0`, with and without fast math, on `cpu:0`, and in
OpenVINO's own API, which reads the same file. All have one thread and compute in f32; runs are by turns in one process, on
inputs and outputs that exist; times are those of the processor. Ratios are medians of the ratios of all turns, in brackets
their quartiles. The column `nodes` says how many nodes of the program the engine has, in how many groups. All outputs of
both programs on `openvino:0` are compared with those of `cpu:0`: `right` is within 1e-4 of an output's largest magnitude;
`as OpenVINO's`: they differ from `cpu:0`, and are those of OpenVINO's API. Light networks have constant weights, and inputs of a last
softmax may be so large that their roundings decide: those of SqueezeNet are 1e10.

{when}, {machine}, {processors} processors, OpenVINO {version}. The mean load of the machine was {load:.1f}{busy}.

| network | nodes | outputs | OpenVINO, ms | openvino:0 / OpenVINO | with fast math | cpu:0 / openvino:0 | load and first run: openvino:0 / OpenVINO, with fast math |
|---|---|---|---|---|---|---|---|
"""


# ---- in the environment's python

def values_of(name, path):
    """{input: array}: the last set of real_models, or element i of n = i / n."""
    import numpy  # pylint: disable=import-outside-toplevel
    import openvino  # pylint: disable=import-outside-toplevel

    if name in real_models.MODELS:
        return real_models.values_of(name)[-1]
    port = openvino.Core().read_model(path).inputs[0]
    count = int(numpy.prod(port.shape))
    return {port.any_name: (numpy.arange(count) / count).astype(numpy.float32).reshape(tuple(port.shape))}


class Api:
    """A network in OpenVINO's own API."""

    def __init__(self, path, values):
        import openvino  # pylint: disable=import-outside-toplevel

        core = openvino.Core()
        model = core.read_model(path)
        model.reshape({name: list(value.shape) for name, value in values.items()})
        self.compiled = core.compile_model(model, "CPU", PROPERTIES)
        self.request = self.compiled.create_infer_request()
        for name, value in values.items():
            self.request.set_tensor(name, openvino.Tensor(value, shared_memory=True))
        self.run()

    def run(self):
        self.request.infer()

    def outputs(self):
        return [self.request.get_tensor(port).data.copy() for port in self.compiled.outputs]


class Ours(real_models.Caller):
    """The network on a device of ours."""

    def __init__(self, library, path, device, values):
        super().__init__(library, path, device)
        self.once = ort_networks.alone(self, values)
        self.values = values

    def run(self):
        self.once()

    def outputs(self):
        return super().run(self.values)


def timed(function):
    start = time.process_time()
    made = function()
    return made, 1e3 * (time.process_time() - start)


def make_side(side, library, path, values):
    if side == API:
        return Api(path, values)
    device, allow = ALLOWED[side]
    os.environ["BP_ALLOW"] = allow or "none"
    return Ours(library, path, device, values)


def take_turns(sides):
    """[{side: milliseconds}]"""
    for side in sides.values():
        side.run()
    turns, end = [], time.perf_counter() + SECONDS
    while len(turns) < LEAST_TURNS or (time.perf_counter() < end and len(turns) < MOST_TURNS):
        turns.append({name: timed(side.run)[1] for name, side in sides.items()})
    return turns


def quartiles(numbers):
    numbers = sorted(numbers)
    return [numbers[len(numbers) * part // 4] for part in (2, 1, 3)]


def difference_of(sides, one, other):
    """The first difference between outputs of two sides, or None."""
    for number, (got, expected) in enumerate(zip(sides[one].outputs(), sides[other].outputs(), strict=True)):
        text = ort_networks.difference(got, expected)
        if text:
            return f"{one}: output {number}: {text} on {other}"
    return None


def differences(sides):
    """RIGHT, THEIRS, or the first difference of an output of openvino:0."""
    texts = [difference_of(sides, side, CPU) for side in (EXACT, FAST)]
    if not any(texts):
        return RIGHT
    same = not any(difference_of(sides, side, API) for side in (EXACT, FAST))
    return THEIRS if same else next(text for text in texts if text)


def measure(library, name, path):
    values = values_of(name, path)
    made = {side: timed(lambda side=side: make_side(side, library, path, values)) for side in (API, EXACT, FAST, CPU)}
    sides, loads = ({side: pair[i] for side, pair in made.items()} for i in (0, 1))
    turns = take_turns(sides)
    print(json.dumps({"outputs": differences(sides), "ms": quartiles([turn[API] for turn in turns])[0],
                      "load": [loads[EXACT] / loads[API], loads[FAST] / loads[API]], "turns": len(turns),
                      **{f"{a}/{b}": quartiles([turn[a] / turn[b] for turn in turns])
                         for a, b in ((EXACT, API), (FAST, API), (CPU, EXACT))}}))
    return 0


# ---- in the process of peers.py

def shapes_of(name):
    """{input: extents} of values_of; the light networks' files state theirs."""
    given = real_models.MODELS[name][1][-1] if name in real_models.MODELS else {}
    return {port: shape for port, (_, shape) in given.items()}


def nodes_text(program):
    """How many nodes engines have, from the JSON of `bp program`."""
    groups = [group["nodes"] for group in program["groups"] if group["compiled"]]
    all_nodes = sum(group["nodes"] for group in program["groups"]) + len(program["left_out"])
    left = sorted({node["op"] for node in program["left_out"]})
    return (f"{sum(groups)} of {all_nodes} in {len(groups)}" + (f", without {', '.join(left)}" if left else ""))


def ratio_text(found):
    return f"{found[0]:.2f} ({found[1]:.2f} to {found[2]:.2f})"


def row_of(name, program, found):
    return (f"| {name} | {nodes_text(program)} | {found['outputs']} | {found['ms']:.2f} | {ratio_text(found['exact/api'])} | "
            f"{ratio_text(found['fast/api'])} | {ratio_text(found['cpu/exact'])} | {found['load'][0]:.2f}, {found['load'][1]:.2f} |\n")


def bench_network(peer, python, setting, name, path):
    """The row of a network, or None after a failure that is counted."""
    program, output = openvino_engine.program_of(peer, path, shapes_of(name), setting)
    if not program:
        peer.count.fail(f"peers/openvino/{name}: bp program failed", output)
        return None
    library = os.path.join(peer.build, "sdk", "onnx", "libbackplane-onnx.so")
    code, output = peer.call([python, os.path.abspath(__file__), library, name, path], NETWORK_SECONDS, setting)
    found = json.loads(output.splitlines()[-1]) if not code else {}
    if found.get("outputs") not in (RIGHT, THEIRS):
        peer.count.fail(f"peers/openvino/{name}: exit status {code}", output)
        return None
    peer.count.pass_()
    return row_of(name, program, found)


def bench(peer, part):
    """Prints a row for each network whose name contains `part`; writes the page after a run of all networks."""
    if not peer.peers.install("real-models"):
        return
    python = peer.peers.scratch.python("real-models")
    setting = {"BP_OPENVINO_LIBRARY": openvino_engine.library_of(peer.packages()) or "off", "BP_THREADS": "1",
               "BP_FALLBACK": "allow", "PYTHONPATH": os.pathsep.join(peer.packages())}
    rows, loads, failed = [], [], peer.count.failed
    print(HEAD[HEAD.index("| network"):], end="", flush=True)
    for name, path in ort_provider.networks_of(peer).items():
        if part in name and (name in MORE or name not in real_models.MODELS):
            rows.append(bench_network(peer, python, setting, name, path))
            loads.append(os.getloadavg()[0])
            print(rows[-1] or "", end="", flush=True)
    if rows and not part and peer.count.failed == failed:
        write_page(peer, rows, sum(loads) / len(loads))


def write_page(peer, rows, load):
    path = os.path.join(peer.here, "..", "..", "docs", "results", "openvino.md")
    with open(path, "w", encoding="utf-8") as file:
        file.write(HEAD.format(when=datetime.date.today(), machine=platform.machine(), processors=os.cpu_count(),
                               version=peer.version("openvino"), load=load,
                               busy=": other work ran beside this" if load > 1.5 else "") + "".join(rows))


if __name__ == "__main__":
    sys.exit(measure(*sys.argv[1:]))
