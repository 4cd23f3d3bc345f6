# SPDX-License-Identifier: Apache-2.0
"""Runs the test models of the package onnx on cpu and on xpu, and compares the outcomes with onnx_suite.txt.

    python onnx_suite.py DIR     writes the models into DIR; needs onnx, so the environment's python runs it
"""
import json
import os
import re
import shutil
import sys

LIST = "onnx_suite.txt"
DEVICES = ("cpu", "xpu")
WRITE_SECONDS, RUN_SECONDS = 300, 600
BUDGETS = {"write": 60, "cpu": 30, "xpu": 180}
FLOOR = re.compile(r"floor (?P<device>\w+) (?P<least>\d+)")
# A lack is an operator, an element type or an opset; anything else is a fault of what is there.
LACK = r"operator [\w.]+ of opset \d+|element type \d+ \(\w+\)|opset \d+(?: of [\w.]+)?"
ENTRY = re.compile(r"(?:(?P<device>cpu|xpu):)?(?P<id>onnx/\S+) "
                   rf"""(?:unsupported (?P<lack>{LACK})|xfail (?P<wrong>"[^"]+" \S.*))""")
HEAD = """\
# The models of the package onnx (peers.txt has its version) that do not pass, written by `./dev peers update onnx-suite`.
#   floor DEVICE N                  at least N models pass on the device
#   [DEVICE:]ID unsupported LACK    LACK is the missing operator, element type or opset that the first line of the message
#                                   names; no other reason is allowed. Without DEVICE the line is about both devices
#   [DEVICE:]ID xfail "TEXT" REASON the message begins with TEXT; people write these lines, and the command keeps them
"""


# ---- the models, written by the environment's python

def write_models(folder):
    import onnx  # pylint: disable=import-outside-toplevel
    from onnx.backend.test import loader  # pylint: disable=import-outside-toplevel

    for case in loader.load_node_model_tests():
        place = os.path.join(folder, "node", case.name)
        os.makedirs(place)
        onnx.save(case.model, os.path.join(place, "model.onnx"))
        for number, values in enumerate(case.data_sets):
            where = os.path.join(place, f"test_data_set_{number}")
            os.makedirs(where)
            for kind, ports, given in zip(("input", "output"), (case.model.graph.input, case.model.graph.output), values):
                for i, (port, value) in enumerate(zip(ports, given)):
                    with open(os.path.join(where, f"{kind}_{i}.pb"), "wb") as file:
                        file.write(proto_of(port, value).SerializeToString())
    data = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data")
    for kind in ("simple", "pytorch-converted", "pytorch-operator"):
        shutil.copytree(os.path.join(data, kind), os.path.join(folder, kind))


def proto_of(port, value):
    import numpy  # pylint: disable=import-outside-toplevel
    from onnx import TensorProto, numpy_helper  # pylint: disable=import-outside-toplevel

    if isinstance(value, TensorProto):
        return value
    kind = port.type.WhichOneof("value")
    if kind == "sequence_type":
        return numpy_helper.from_list(list(value), port.name)
    if kind == "optional_type":
        return numpy_helper.from_optional(value, port.name)
    return numpy_helper.from_array(numpy.array(value), port.name)


# ---- the list

def lack_of(message):
    """The feature that the first line of a message names: without its first place of use, or the opsets that are known."""
    line = message.partition("\n")[0].removeprefix("missing: ")
    line = re.sub(r" \[[^]]*\]$", "", line)
    return re.sub(r"^(opset \d+), .*", r"\1", line)


def parse_list(text):
    """({device: least}, {device: {id: (outcome, reason)}})."""
    floors, entries = {}, {device: {} for device in DEVICES}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        floor, entry = FLOOR.fullmatch(line), ENTRY.fullmatch(line)
        if floor:
            floors[floor["device"]] = int(floor["least"])
        elif entry:
            for device in [entry["device"]] if entry["device"] else DEVICES:
                entries[device][entry["id"]] = ("unsupported", entry["lack"]) if entry["lack"] else ("xfail", entry["wrong"])
        else:
            raise ValueError(f"tests/peers/{LIST}:{number}: '{line}'; expected `[DEVICE:]ID unsupported LACK` or another "
                             "line that the head of the file describes")
    return floors, entries


def read_list(folder):
    with open(os.path.join(folder, LIST), encoding="utf-8") as file:
        return parse_list(file.read())


def print_list(cases, entries):
    """The text of a new list. cases: {device: cases of its report}. Keeps the entries that people wrote."""
    lines = {}
    for device in DEVICES:
        for case in cases[device]:
            known = entries[device].get(case["id"], ("", ""))
            if case["outcome"] == "unsupported":
                lines.setdefault(f"{case['id']} unsupported {lack_of(case['message'])}", []).append(device)
            elif case["outcome"] == "fail" and known[0] == "xfail":
                lines.setdefault(f"{case['id']} xfail {known[1]}", []).append(device)
    floors = [f"floor {device} {sum(case['outcome'] == 'pass' for case in cases[device])}\n" for device in DEVICES]
    both = [line if len(devices) == len(DEVICES) else f"{devices[0]}:{line}" for line, devices in lines.items()]
    return HEAD + "".join(floors) + "".join(f"{line}\n" for line in sorted(both))


# ---- counting

def count_cases(count, device, cases, floor, entries):
    """Adds the cases of a device. A case that passes although it is listed is a failure, as is a wrong result."""
    ids = {case["id"] for case in cases}
    for case in cases:
        name = f"peers/onnx-suite/{device}/{case['id']}"
        outcome, message = case["outcome"], case.get("message") or ""
        expected, reason = entries.get(case["id"], (None, ""))
        if outcome == "pass" and not expected:
            count.pass_()
        elif outcome == "pass":
            count.fail(f"{name}: it passes; remove it from tests/peers/{LIST}")
        elif outcome == "unsupported" and expected == outcome and lack_of(message) == reason:
            count.skip(name, reason)
        elif outcome == "fail" and expected == "xfail" and message.startswith(reason.split('"')[1]):
            count.skip(name, reason)
        else:
            count.fail(f"{name}: {outcome}, expected {expected or 'pass'} {reason}".rstrip(), message)
    for unknown in sorted(set(entries) - ids):
        count.fail(f"tests/peers/{LIST}: {unknown} is no model of the suite")
    passed = sum(case["outcome"] == "pass" for case in cases)
    if floor is None or passed < floor:
        count.fail(f"peers/onnx-suite/{device}: {passed} models pass; tests/peers/{LIST} has the floor {floor}")
    else:
        count.pass_()


# ---- steps

def run_device(peer, device):
    """The cases of a run on a device, or None after a failure that is counted."""
    report = os.path.join(peer.folder, f"{device}.json")
    if os.path.exists(report):
        os.unlink(report)
    code, output = peer.call([peer.bp, "onnx-test", os.path.join(peer.folder, "suite"), "--device", device, "--json",
                              report], RUN_SECONDS, peer.opencl() if device == "xpu" else {})
    try:
        with open(report, encoding="utf-8") as file:
            return json.load(file)["cases"]
    except (OSError, ValueError, KeyError) as error:
        peer.count.fail(f"peers/onnx-suite/{device}: exit status {code}, no whole report ({error!r})", output)
        return None


def prepare(peer):
    """Writes the models. Returns whether they are there."""
    suite = os.path.join(peer.folder, "suite")
    with peer.step("write", BUDGETS["write"]):
        if os.path.isdir(suite):
            return True
        shutil.rmtree(f"{suite}.new", ignore_errors=True)
        code, output = peer.call([peer.python, os.path.abspath(__file__), f"{suite}.new"], WRITE_SECONDS)
        if code:
            peer.count.fail(f"peers/onnx-suite: the models are not written: exit status {code}", output)
            return False
        os.rename(f"{suite}.new", suite)
        return True


def test(peer):
    if not prepare(peer):
        return
    floors, entries = read_list(peer.here)
    for device in DEVICES:
        if device == "xpu" and not peer.has_opencl():
            peer.count.skip("peers/onnx-suite/xpu", "OpenCL's headers or PoCL are not installed")
            continue
        with peer.step(device, BUDGETS[device]):
            cases = run_device(peer, device)
            if cases is not None:
                count_cases(peer.count, device, cases, floors.get(device), entries[device])


def update(peer):
    """Writes the list anew from the outcomes of both devices. Wrong results that no line lists still count."""
    if not prepare(peer):
        return
    if not peer.has_opencl():
        peer.count.fail("peers/onnx-suite: the list is about xpu too; OpenCL's headers or PoCL are not installed")
        return
    _, entries = read_list(peer.here)
    cases = {device: run_device(peer, device) for device in DEVICES}
    if None in cases.values():
        return
    with open(os.path.join(peer.here, LIST), "w", encoding="utf-8") as file:
        file.write(print_list(cases, entries))
    floors, entries = read_list(peer.here)
    for device in DEVICES:
        count_cases(peer.count, device, cases[device], floors[device], entries[device])


if __name__ == "__main__":
    write_models(sys.argv[1])
