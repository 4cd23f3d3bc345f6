#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs light networks of the ONNX project, which are not part of this repository, on the ipu plugin with the stand-in for
Poplar: outputs must be the expected ones, and at least 95 % of the nodes must be in groups of the engine.

    networks.py BP SOURCE [NAME...]

The networks are in the folder BP_ONNX_LIGHT, otherwise beside the repository. Without names all run, but for the outputs of
those that take more than 10 s of a processor, unless LARGE_TESTS is in the environment.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "onnx"))
import networks as light  # noqa: E402

LARGE = ("vgg19",)


def tests(bp, folder, name, has_output):
    """The tests of a network: (title, whether it passes, the process that ended)."""
    if has_output:
        run = light.expected(bp, "ipu", folder, name)
        yield f"{name}: the output is the expected one", light.is_expected(run), run
    yield light.shared(bp, "ipu", folder, name)


def main(bp, source, *names):
    folder, found = light.found(source)
    if not found:
        print("1..0 # SKIP the light ONNX networks are not beside the repository")
        return
    number = 0
    for name in names or found:
        for title, good, done in tests(bp, folder, name, names or name not in LARGE or "LARGE_TESTS" in os.environ):
            number += 1
            print(f"{'ok' if good else 'not ok'} {number} - {title}", flush=True)
            if not good:
                print("# " + f"{done.stdout}{done.stderr}exit status {done.returncode}".replace("\n", "\n# "))
    print(f"1..{number}")


if __name__ == "__main__":
    main(*sys.argv[1:])
