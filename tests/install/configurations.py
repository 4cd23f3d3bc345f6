#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the build can be configured, with its tests, without the parts that are optional. Nothing is compiled.

    configurations.py ROOT

Prints TAP.
"""
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import in_folders  # noqa: E402

ROOT = sys.argv[1]
GPUS = ("cuda", "hip")


def configure(folder, *without):
    """Sets up a build directory, which has tests, and none of images of GPUs."""
    options = [f"-D{name}=disabled" for name in without]
    done = subprocess.run([shutil.which("meson"), "setup", folder, ROOT, "-Dgpu_images=quick", *options], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    listed = subprocess.run([shutil.which("meson"), "introspect", "--tests", folder], stdout=subprocess.PIPE, text=True, check=True)
    assert '"new_target"' in listed.stdout and "images_" not in listed.stdout, listed.stdout[-3000:]


def without_gpus(folder):
    """The host code of cuda and hip still has its tests on the simulator."""
    configure(folder, *GPUS)


def without_all_optional_parts(folder):
    configure(folder, *GPUS, "xpu", "ucx", "onnx")


if __name__ == "__main__":
    sys.exit(in_folders.run_tests([without_gpus, without_all_optional_parts]))
