# SPDX-License-Identifier: Apache-2.0
"""Runs the openvino plugin with OpenVINO itself: the programs of tests/openvino, one of which ./dev test runs on a stand-in.

test_openvino_engine tests how groups are claimed, compiled, run and saved, test_openvino_ops compares the values of each
operator with those of the cpu's kernels. Then model files of real_models.py run on openvino:0 as a whole, without fast math,
and their outputs are compared with those of ONNX Runtime.
"""
import glob
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import run  # noqa: E402

import real_models  # noqa: E402

RUN_SECONDS = 300
BUDGETS = {"device": 5, "engine": 20, "operators": 30, "models": 60}
PROGRAMS = {"engine": "test_openvino_engine", "operators": "test_openvino_ops"}
# Tests in which the stand-in fails on demand.
STANDIN = ("failures_of_the_library_are_passed_on", "failures_of_runs_are_passed_on", "other_types_of_the_library_are_refused")


def library_of(packages):
    """The C library's file in the first of the folders that has one, or None."""
    return next((path for folder in packages
                 for path in sorted(glob.glob(os.path.join(folder, "openvino", "libs", "libopenvino_c.so.*")))), None)


def names_library(info, version):
    """Whether the output of `bp info openvino` names OpenVINO of this version and a processor."""
    return any(line.split() == ["driver", "OpenVINO", f"{version},", "CPU"] for line in info.splitlines())


def count_tests(count, name, code, output):
    """Counts TAP. Only tests that need the stand-in may be skipped."""
    results = run.tap_results(output)
    if results is None or code:
        count.fail(f"peers/openvino/{name}: exit status {code}", output)
        return
    for result, title in results:
        if result == "ok":
            count.pass_()
        elif result != "skip" or not any(word in title for word in STANDIN):
            count.fail(f"peers/openvino/{name}: {result}: {title}", output)


MODELS = ("ocr-detector", "ocr-recogniser", "ocr-classifier", "minilm")


def whole(program):
    """None if one engine compiles all of a program, of which this is the JSON of `bp program`; otherwise the reason."""
    groups, left = program["groups"], program["left_out"]
    if left:
        return "left out: " + ", ".join(f"{node['op']} {node['node']}: {node['why']}" for node in left[:5])
    if len(groups) != 1 or not groups[0]["compiled"]:
        return f"{len(groups)} groups, expected one that is compiled: {groups} {program['engines']}"
    return None


def program_of(peer, path, shapes, setting, device="openvino:0"):
    """(JSON of `bp program`, or None after a failure; its output). Warnings are in a file, because they come at any time.
    shapes: of the inputs, {name: extents}."""
    errors = os.path.join(peer.folder, "program.err")
    words = [word for port, shape in shapes.items() for word in ("--shape", f"{port}={'x'.join(map(str, shape))}")]
    code, output = peer.call(["sh", "-c", 'exec "$@" 2> "$0"', errors, peer.bp, "program", path, "--device", device,
                              "--json", *words], RUN_SECONDS, setting)
    if not code:
        return json.loads(output), output
    with open(errors, encoding="utf-8") as file:
        return None, f"exit status {code}\n{output}{file.read()}"


def test_program(peer, name, path, setting):
    shapes = {port: given[1] for port, given in real_models.MODELS[name][1][0].items()}
    program, output = program_of(peer, path, shapes, setting)
    why = whole(program) if program else "bp program failed"
    if why:
        peer.count.fail(f"peers/openvino/{name}: {why}", output)
    else:
        peer.count.pass_()


def test_models(peer, setting):
    """The models' files and ONNX Runtime are in the environment of another peer."""
    if not peer.peers.install("real-models"):
        return
    other = type(peer)(peer.peers, "real-models")
    for name in MODELS:
        state = real_models.state_of(other, name, "openvino:0", setting)
        real_models.count_model(peer.count, name, state, "right", "openvino")
        path = os.path.join(other.folder, f"{name}.onnx")
        if not os.path.exists(path):
            path = next(os.path.join(folder, real_models.MODELS[name][0]) for folder in other.packages())
        test_program(peer, name, path, setting)


def test(peer):
    program = os.path.join(peer.build, "tests", "openvino", PROGRAMS["engine"])
    if not os.path.exists(program):
        peer.count.fail(f"peers/openvino: there is no {program}: build with Criterion and the cpu plugin")
        return
    setting = {"BP_OPENVINO_LIBRARY": library_of(peer.packages()) or "off"}
    with peer.step("device", BUDGETS["device"]):
        code, output = peer.call([peer.bp, "info", "openvino"], RUN_SECONDS, setting)
        if code or not names_library(output, peer.version("openvino")):
            peer.count.fail(f"peers/openvino: `bp info openvino` does not name the library: exit status {code}", output)
            return
        peer.count.pass_()
    with peer.step("models", BUDGETS["models"]):
        test_models(peer, {**setting, "BP_FALLBACK": "allow"})
    setting.update({"BP_FALLBACK": "allow", "BP_PLUGIN_PATH": os.path.join(peer.build, "plugins", "cpu")})
    for name, program in PROGRAMS.items():
        with peer.step(name, BUDGETS[name]):
            path = os.path.join(peer.build, "tests", "openvino", program)
            count_tests(peer.count, name, *peer.call([path, "--tap=-"], RUN_SECONDS, setting))
