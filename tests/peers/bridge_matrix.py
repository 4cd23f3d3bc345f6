# SPDX-License-Identifier: Apache-2.0
"""Which feature of which bridge was run on which device, and the table of it in docs/bridges.md.

    bridge_matrix.py BUILD      prints the table of the runs in BUILD-peers, and writes it into docs/bridges.md

The tests of the peers python and onnxruntime call note() for each feature that they run on a device; the last outcome of
each is kept in BUILD-peers/bridges.json.
"""
import json
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "targets"))
import standin  # noqa: E402

PAGE = os.path.join(ROOT, "docs", "bridges.md")
DEVICES = ("cpu", "sim", "xpu", "cuda", "template")
BRIDGES = {"python": "Python", "onnxruntime": "ONNX Runtime"}
BEGIN, END = "<!-- begin of the table that tests/peers/bridge_matrix.py writes -->\n", "<!-- end of that table -->\n"


def reason_without(peer, device):
    """Why a device cannot be there, or None."""
    if device == "xpu" and not peer.has_opencl():
        return "OpenCL's headers or PoCL are not installed"
    if device == "cuda" and standin.missing(peer.build, "cuda"):
        return "the plugin is not built"
    return None


def environment(peer, device, *others):
    """The variables with which the device is there: its plugin, cpu and those of other devices only."""
    more = {"xpu": peer.opencl, "cuda": lambda: standin.environment(peer.build, "cuda", log_of(peer))}.get(device, dict)()
    folders = [os.path.join(peer.build, "plugins"), *([os.path.join(peer.build, "sdk", "template")] if device == "template" else [])]
    return {**more, "BP_PLUGINS": ",".join(dict.fromkeys(("cpu", *others, device))), "BP_PLUGIN_PATH": ":".join(folders)}


def log_of(peer):
    return os.path.join(peer.folder, "standin.log")


def refusals(peer, device):
    """The calls that the stand-in for the driver refused since environment() was called; a plugin may go on after them."""
    return standin.refused(log_of(peer)) if device == "cuda" else []


def file_of(root):
    return os.path.join(root, "bridges.json")


def read(root):
    """{bridge: {feature: {device: outcome}}} of earlier runs."""
    if not os.path.exists(file_of(root)):
        return {}
    with open(file_of(root), encoding="utf-8") as file:
        return json.load(file)


def note(root, bridge, feature, device, outcome):
    """Keeps the outcome of a feature on a device: pass, fail, or a text as `998 of 1,072`."""
    found = read(root)
    found.setdefault(bridge, {}).setdefault(feature, {})[device] = outcome
    with open(file_of(root), "w", encoding="utf-8") as file:
        json.dump(found, file, indent=1)


def forget(root):
    """Forgets earlier runs, also features that are no longer tested."""
    if os.path.exists(file_of(root)):
        os.unlink(file_of(root))


def table(found):
    lines = ["| bridge | feature | " + " | ".join(DEVICES) + " |\n", "|---" * (2 + len(DEVICES)) + "|\n"]
    for bridge, title in BRIDGES.items():
        for feature, outcomes in found.get(bridge, {}).items():
            lines.append(f"| {title} | {feature} | " + " | ".join(outcomes.get(device, "") for device in DEVICES) + " |\n")
    return "".join(lines)


def replaced(page, text):
    """The page with another table."""
    parts = re.fullmatch(f"(.*?{re.escape(BEGIN)}).*?({re.escape(END)}.*)", page, re.S)
    if not parts:
        raise ValueError("docs/bridges.md: the marks around the table are missing")
    return parts[1] + "\n" + text + "\n" + parts[2]


def write(root):
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(replaced(page, table(read(root))))


if __name__ == "__main__":
    write(f"{os.path.abspath(sys.argv[1])}-peers")
    print(table(read(f"{os.path.abspath(sys.argv[1])}-peers")), end="")
