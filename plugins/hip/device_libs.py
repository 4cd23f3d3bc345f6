#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the files that AMD's device libraries lack for newer targets: each holds one constant, the version of the instructions.

    device_libs.py LIBS OUT ARCH... -- CLANG...      CLANG: the command that compiles for the targets

Prints the folder of libraries to compile with: LIBS if no file is missing, otherwise OUT, which then has links to all files of
LIBS, and the missing files. A file that this clang cannot make stays missing; the compilation for its target then reports it.
"""
import os
import re
import subprocess
import sys

SOURCE = '__attribute__((visibility("protected"))) const __constant int __oclc_ISA_version = {};\n'


def version_of(arch):
    """The number of gfx90a or gfx1100: the last two digits are the minor version and the step, in base 16."""
    major, minor, step = re.fullmatch(r"gfx(\d+)([0-9a-f])([0-9a-f])", arch).groups()
    return int(major) * 1000 + int(minor, 16) * 100 + int(step, 16)


def link_all(libs, out):
    os.makedirs(out, exist_ok=True)
    for name in os.listdir(out):
        os.unlink(os.path.join(out, name))
    for name in os.listdir(libs):
        os.symlink(os.path.join(os.path.abspath(libs), name), os.path.join(out, name))


def make(clang, arch, path):
    source = path[:-3] + ".cl"
    with open(source, "w", encoding="utf-8") as f:
        f.write(SOURCE.format(version_of(arch)))
    subprocess.run([*clang, "-target", "amdgcn-amd-amdhsa", "-mcode-object-version=4", "-x", "cl", "-cl-std=CL2.0", "-nogpulib",
                    "-emit-llvm", "-c", source, "-o", path], stderr=subprocess.DEVNULL, check=False)
    os.unlink(source)


def main():
    libs, out, *words = sys.argv[1:]
    end = words.index("--")
    clang = words[end + 1:]
    file = {arch: f"oclc_isa_version_{arch[3:]}.bc" for arch in (word.split(":")[0] for word in words[:end])}
    missing = {arch: name for arch, name in file.items() if os.path.isdir(libs) and not os.path.exists(os.path.join(libs, name))}
    if missing:
        link_all(libs, out)
        for arch, name in missing.items():
            make(clang, arch, os.path.join(out, name))
    print(out if missing else libs)


main()
