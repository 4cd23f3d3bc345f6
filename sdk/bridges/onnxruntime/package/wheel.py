#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the package onnxruntime-ep-backplane, a wheel, from an installed Backplane.

    wheel.py PREFIX OUT [PLUGIN...]      PLUGIN: as cpu, which is the default

The wheel has the execution provider, the libraries of Backplane, the named plugins, and copies of the libraries of the system
that these need, except those of every system, with their copyright notices. Writes
OUT/onnxruntime_ep_backplane-VERSION-py3-none-manylinux_X_Y_MACHINE.whl, where X.Y is the version of the C library that the
files need.
"""
import glob
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "python"))
from wheel import Wheel, libraries_of_system, may_strip, notices, tag_of  # noqa: E402

NAME = "onnxruntime_ep_backplane"
PROVIDER = "libonnxruntime_ep_backplane.so"
LIBRARIES = ("libbackplane.so.0", "libbackplane-onnx.so.0", PROVIDER)
SUMMARY = "Backplane's devices in ONNX Runtime: an execution provider"


def library_folder(prefix):
    found = glob.glob(os.path.join(prefix, "**", PROVIDER), recursive=True)
    if not found:
        sys.exit(f"{prefix}: there is no {PROVIDER}; install Backplane with ONNX models there")
    return os.path.dirname(found[0])


def version_of(libraries):
    """The version, from the full name of the library."""
    real = os.path.basename(os.path.realpath(os.path.join(libraries, LIBRARIES[0])))
    return real.partition(".so.")[2]


def main(prefix, out, *plugins):
    os.makedirs(out, exist_ok=True)
    folder = library_folder(os.path.abspath(prefix))
    ours = {f"{NAME}/lib/{name}": os.path.join(folder, name) for name in LIBRARIES}
    manifests = {}
    for plugin in plugins or ("cpu",):
        library, manifest = (os.path.join(folder, "backplane", f"bp_{plugin}.{end}") for end in ("so", "json"))
        ours[f"{NAME}/lib/backplane/bp_{plugin}.so"] = library
        manifests[library] = manifest
    other = libraries_of_system(ours.values())
    wheel = Wheel(out, NAME.replace("_", "-"), version_of(folder), tag_of([*ours.values(), *other.values()], "py3-none"),
                  summary=SUMMARY, python=">=3.10")
    wheel.add_file(f"{NAME}/__init__.py", os.path.join(HERE, NAME, "__init__.py"))
    needed = {f"{NAME}/lib/needed/{soname}": path for soname, path in other.items()}
    for name, path in sorted({**ours, **needed}.items()):
        wheel.add_file(name, path, path not in manifests or may_strip(manifests[path]))
    for path in manifests.values():
        wheel.add_file(f"{NAME}/lib/backplane/{os.path.basename(path)}", path)
    print(wheel.finish(licences=notices(other)))


if __name__ == "__main__":
    main(*sys.argv[1:])
