# SPDX-License-Identifier: Apache-2.0
"""Tests models with nodes of a vendor's domain, whose operators a plugin provides (the fake device, custom),
and the conformance suite on this plugin.

    custom.py BP PLUGINS

Prints one TAP line for each. The last models have an operator, an attribute or a type that the plugin lacks.
"""
import os
import subprocess
import sys
import tempfile

import numpy as np

import kit

DOMAIN = "acme"


def repeat(x, times, factor):
    return np.tile(x * np.float32(factor), times)


def add_all(folder):
    def add(name, nodes, x, y):
        folder.add(name, 13, nodes, {"x": x}, {"y": y}, more_domains=[DOMAIN])

    def custom(inputs, outputs, op="Repeat", **attributes):
        return kit.node(op, inputs, outputs, domain=DOMAIN, **attributes)

    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    add("alone", [custom("x", "y", times=2, factor=0.5)], x, repeat(x, 2, 0.5))
    add("defaults", [custom("x", "y")], x, x)
    add("beside_views", [kit.node("Flatten", "x", "a"), custom("a", "b", times=3), kit.node("Identity", "b", "y")],
        x.reshape(2, 3, 1), repeat(x, 3, 1))
    add("operator", [custom("x", "y", op="Nothing")], x, x)
    add("attribute", [custom("x", "y", often=2)], x, x)
    again = custom("x", "y", times=2)
    again.attribute.append(again.attribute[0])
    add("twice", [again], x, repeat(x, 2, 1))
    add("type", [custom("x", "y", times=2.0)], x, x)


REFUSED = {"operator": "acme.Nothing", "attribute": "acme.Repeat has no attribute often",
           "twice": "attribute times is given twice", "type": "attribute times is float, expected int"}


def main(bp, plugins):
    os.environ.update(BP_PLUGIN_PATH=plugins, BP_PLUGINS="custom,cpu")
    with tempfile.TemporaryDirectory() as path:
        folder = kit.Folder(path)
        add_all(folder)
        came = folder.run(bp, "custom")
    done = subprocess.run([bp, "conform", "custom", "--suite", "plugin"],
                          capture_output=True, text=True, check=False)
    print(f"1..{len(folder.names) + 1}")
    for number, name in enumerate(folder.names, 1):
        got = came.get(name, {"outcome": "lost", "message": ""})
        if name in REFUSED:
            good = got["outcome"] != "pass" and REFUSED[name] in (got["message"] or "")
        else:
            good = got["outcome"] == "pass"
        print(f"{'ok' if good else 'not ok'} {number} - {name}")
        if not good:
            print(f"# {got['outcome']}: {got['message']}")
    good = done.returncode == 0 and "0 of 0" in done.stdout
    print(f"{'ok' if good else 'not ok'} {len(folder.names) + 1} - conform: its row is well formed, and none to be executed")
    if not good:
        print("# " + done.stdout.replace("\n", "\n# "))


main(*sys.argv[1:])
