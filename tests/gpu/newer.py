#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the hip plugin's kernels for a target for which older device libraries have no file: the build makes that
file.

    newer.py DEVICE_LIBS_PY KERNELS_HIP LIBS CLANG...      CLANG: the command that the build compiles with
"""
import os
import struct
import subprocess
import sys
import tempfile

TOOL, KERNELS, LIBS, *CLANG = sys.argv[1:]
SDK = os.path.join(os.path.dirname(KERNELS), "..", "..", "sdk")
ARCH, FILE, MACHINE = "gfx1100", "oclc_isa_version_1100.bc", 0x41
OLDER = "gfx90a"


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


def folder_for(libs, out, arch):
    done = run(sys.executable, TOOL, libs, out, arch, "--", *CLANG)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def compiled(libs, out):
    return run(*CLANG, "-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output", "-nogpuinc", "-mcode-object-version=4", "-O1", "-Werror",
               "-Xclang", "-disable-llvm-passes", "--offload-arch=" + ARCH, "--rocm-device-lib-path=" + libs, "-I" + SDK, "-DELEM=f32",
               "-DELEM_f32", "-DFAMILY_HEADER=<ops/softmax/kernel.h>", KERNELS, "-o", out)


def without_it(folder):
    """Returns a folder with LIBS except that file, as Debian's libraries are."""
    libs = os.path.join(folder, "older")
    os.mkdir(libs)
    for name in os.listdir(LIBS):
        if name != FILE:
            os.symlink(os.path.join(LIBS, name), os.path.join(libs, name))
    return libs


def made(folder):
    libs, image = without_it(folder), os.path.join(folder, "softmax.co")
    assert compiled(libs, image).returncode != 0, "it compiles without the file: this test tries nothing"
    done = compiled(folder_for(libs, os.path.join(folder, "made"), ARCH), image)
    assert done.returncode == 0, done.stderr
    with open(image, "rb") as f:
        head = f.read(64)
    assert head[:4] == b"\x7fELF" and struct.unpack_from("<I", head, 48)[0] & 0xff == MACHINE, head.hex()
    assert not os.path.exists(os.path.join(libs, FILE)), "the folder of the libraries was written to"


def left(folder):
    """Tests that a folder that lacks nothing is used unchanged."""
    out = os.path.join(folder, "none")
    assert folder_for(LIBS, out, OLDER) == LIBS and not os.path.exists(out)


def main():
    print("1..2")
    failed = 0
    knows = run(*CLANG, "-target", "amdgcn-amd-amdhsa", "-mcpu=" + ARCH, "-nogpulib", "-x", "cl", "-c", "/dev/null", "-o", "/dev/null")
    for number, (name, try_it) in enumerate(((f"softmax for {ARCH} with a file that is made", made), ("nothing is made for nothing", left)), 1):
        if try_it is made and knows.returncode:
            print(f"ok {number} - {name} # SKIP {CLANG[0]} does not know {ARCH}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                try_it(folder)
                print(f"ok {number} - {name}", flush=True)
            except AssertionError as error:
                failed += 1
                print(f"not ok {number} - {name}")
                print("# " + str(error).replace("\n", "\n# "))
    return failed > 0


sys.exit(main())
