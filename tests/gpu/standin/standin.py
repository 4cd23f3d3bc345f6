#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs conformance on a real GPU plugin with a stand-in for its driver, and stand-ins for the libraries of its vendor.

    standin.py BUILD cuda|hip [ARGS of bp conform]
"""
import os
import subprocess
import sys

LINES = 20  # most lines of a stand-in's refusals

# By plugin: the stand-in's file, and for each of the plugin's settings the library of the simulator that it names.
DRIVERS = {
    "cuda": ("libcuda.so.1", {"BP_CUDA_CUBLASLT": "cublaslt", "BP_CUDA_CUDNN": "cudnn", "BP_CUDA_NCCL": "nccl"}),
    "hip": ("libamdhip64.so.5", {"BP_HIP_HIPBLASLT": "hipblaslt", "BP_HIP_ROCBLAS": "rocblas", "BP_HIP_RCCL": "nccl"}),
}
# The settings of libraries that compile kernels. A run has none, because that takes time, unless its environment names one.
COMPILERS = {"cuda": "BP_CUDA_NVRTC", "hip": "BP_HIP_HIPRTC"}


def missing(build, name):
    """Returns those files needed for a run that are not built."""
    files = (os.path.join("plugins", name, f"bp_{name}.so"), os.path.join("tests", "gpu", "standin", DRIVERS[name][0]))
    return [f for f in files if not os.path.exists(os.path.join(build, f))]


def environment(build, name, log):
    """Returns the environment in which the plugin finds the stand-ins, for two devices. log: the file that receives
    the stand-in's refusals."""
    _, libraries = DRIVERS[name]
    if os.path.exists(log):
        os.unlink(log)
    folders = [os.path.join(build, "tests", "gpu", "standin"), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    return {"LD_LIBRARY_PATH": ":".join(folders), "BP_SIM_DEVICES": "2", "BP_STANDIN_LOG": log,
            COMPILERS[name]: os.environ.get(COMPILERS[name], "off"),
            **{setting: os.path.join(build, "plugins", "simulator", f"libbp_sim_{library}.so")
               for setting, library in libraries.items()}}


def refused(log):
    """Returns the different lines that the stand-in has written."""
    if not os.path.exists(log):
        return []
    with open(log, encoding="utf-8", errors="replace") as f:
        return sorted(set(f.read().splitlines()))


def main():
    build, name = os.path.abspath(sys.argv[1]), sys.argv[2]
    if name not in DRIVERS:
        sys.exit(f"standin: no plugin {name}: there are {', '.join(DRIVERS)}")
    if missing(build, name):
        sys.exit(f"standin: {' and '.join(missing(build, name))} are not built: is the plugin {name} configured?")
    bp = os.path.join(build, "sdk", "tools", "bp")
    log = os.path.join(build, "tests", "gpu", "standin", f"{name}.log")
    done = subprocess.run([bp, "conform", name, *sys.argv[3:]], env={**os.environ, **environment(build, name, log)}, check=False)
    lines = refused(log)
    for line in lines[:LINES]:
        print(line, file=sys.stderr)
    sys.exit(done.returncode or bool(lines))  # the plugin may go on after a refusal


if __name__ == "__main__":
    main()
