#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles the sources of run-time kernels (sources.c) by the compilers of this machine, which check what NVRTC and
hiprtc would check. No GPU is needed. In the code of a product and a sum behind it, these must not be one operation.

    sources.py PROGRAM NVCC CLANG RUNTIME_HIP FOLDER_OF_DEVICE_LIBRARIES     a compiler that is not there is an empty text
"""
import os
import re
import subprocess
import sys
import tempfile

PROGRAM, NVCC, CLANG, RUNTIME, LIBRARIES = sys.argv[1:6]
# The options; how code joins a product with a sum, and a sum, which must be found.
COMPILERS = {
    "nvcc": ([NVCC, "-std=c++17", "-ptx", "-x", "cu", "-Xcudafe", "--diag_suppress=177"], r"\bfma\.", r"\badd(\.rn)?\.f(32|64)"),
    "clang for HIP": ([CLANG, "-O3", "-std=c++17", "-x", "hip", "--cuda-device-only", "-nogpuinc", "--offload-arch=gfx90a", "-include", RUNTIME,
                       "--rocm-device-lib-path=" + LIBRARIES, "-Wall", "-Werror", "-Wno-unused-function", "-Wno-unused-but-set-variable", "-S"],
                      r"\bv_(pk_)?(fma|mac|mad)\w*_f(32|64)", r"\bv_(pk_)?add_f(32|64)"),
}


def compile_one(command, folder, name):
    """Returns the code, and the failure or an empty text."""
    out = os.path.join(folder, "out")
    done = subprocess.run([*command, os.path.join(folder, name), "-o", out], capture_output=True, text=True, check=False)
    if done.returncode:
        return "", f"{name}: {done.stderr[:2000]}"
    with open(out, encoding="utf-8", errors="replace") as f:
        return f.read(), ""


def compile_all(compiler, folder, names):
    """Returns the first failure, or an empty text."""
    command, joined, a_sum = compiler
    for name in names:
        code, why = compile_one(command, folder, name)
        if why:
            return why
        if name.startswith("separate"):
            if re.search(joined, code) or not re.search(a_sum, code):
                return f"{name}: a product and a sum are one operation, or there is no sum:\n{code[-3000:]}"
    return ""


def main():
    print(f"1..{len(COMPILERS)}")
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([PROGRAM, folder], check=True)
        # One source of each list of operators has all kinds of operands.
        names = [n for n in sorted(os.listdir(folder)) if n.endswith("_1.cu") or n.startswith("separate")]
        assert len(names) >= 6, names
        for i, (name, compiler) in enumerate(COMPILERS.items(), 1):
            if not compiler[0][0]:
                print(f"ok {i} - {name} # SKIP it is not installed")
                continue
            why = compile_all(compiler, folder, names)
            failed |= bool(why)
            for line in why.splitlines():
                print("#", line)
            print(f"{'not ' if why else ''}ok {i} - {name} compiles {len(names)} sources")
    sys.exit(failed)


main()
