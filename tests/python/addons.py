#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the package with an add-on: a plugin that brings an operator for the cpu plugin."""
import os
import sys

import tap
from tap import close, same

os.environ["BP_PLUGIN_PATH"] += ":" + os.path.join(tap.BUILD, "sdk", "template", "addon")

import backplane as bp  # noqa: E402

X = [-3.0, 0.0, 2.0]


def square_plus(b=4.0):
    return [(x + (x * x + b) ** 0.5) / 2 for x in X]


def test_an_operator_is_called():
    """f32 runs by the add-on's row, f64 by the decomposition. The parameter b has a default."""
    same([(p["kind"], p["adds_to"], p["state"]) for p in bp.plugins() if p["name"] == "addon"], [("", "cpu", "ready")])
    f = bp.operator("addon.SquarePlus")
    close(f(bp.asarray(X)).tolist(), square_plus())
    close(f(bp.asarray(X, "f64"), b=1.0).tolist(), square_plus(1.0))


def test_an_operator_is_recorded_and_has_a_gradient():
    graph = bp.Graph()
    x = graph.input("x", (3,))
    y = graph.output(bp.operator("addon.SquarePlus")(x))
    graph.output(bp.grad(y, x))
    program = bp.Program(graph)
    for _ in range(2):
        value, slope = program(bp.asarray(X))
        close([value.tolist(), slope.tolist()], [square_plus(), [(x / (x * x + 4) ** 0.5 + 1) / 2 for x in X]])


if __name__ == "__main__":
    sys.exit(tap.main(globals()))
