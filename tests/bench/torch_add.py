#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares an eager add of one element with PyTorch's: five pairs of processes, alternately.

    torch_add.py BP [DEVICE]

BP is the built command. The program needs PyTorch's C++ library (Debian's libtorch-dev) and g++; it is therefore not a
part of the tests, and exits with status 2 and a message where they are missing. The target is a ratio of at most 0.3 to
a plain call of at::add; the exit status is 1 if the median is above.
"""
import glob
import json
import os
import statistics
import subprocess
import sys
import tempfile

PAIRS = 5
TARGET = 0.3
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_add.cc")


def build(directory):
    """Compiles the PyTorch side; returns None if that fails."""
    program = os.path.join(directory, "torch_add")
    include = next((d for d in ("/usr/include", "/usr/local/include")
                    if os.path.exists(os.path.join(d, "ATen", "ATen.h"))), None)
    if not include:
        return None
    libraries = ["-ltorch", "-ltorch_cpu", "-lc10"]
    for library in glob.glob("/usr/lib/*/libtorch_cpu.so"):
        libraries.insert(0, "-L" + os.path.dirname(library))
    done = subprocess.run(["g++", "-std=c++17", "-O2", "-w", SOURCE, "-o", program,
                           f"-I{include}/torch/csrc/api/include", *libraries])
    return program if done.returncode == 0 else None


def ours(bp, device):
    done = subprocess.run([bp, "bench", device, "--filter", "launch/eager*", "--quick", "--json", "-"],
                          stdout=subprocess.PIPE, text=True, check=True)
    rows = {row["name"]: row["value"] for row in json.loads(done.stdout)["results"]}
    return rows["launch/eager"], rows["launch/eager beside a thread"]


def theirs(program):
    done = subprocess.run([program], stdout=subprocess.PIPE, text=True, check=True)
    return tuple(float(word) for word in done.stdout.split())


def main():
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    bp, device = os.path.abspath(sys.argv[1]), (sys.argv + ["cpu"])[2]
    with tempfile.TemporaryDirectory() as directory:
        program = build(directory)
        if not program:
            print("torch_add: no PyTorch C++ library to compare with (Debian: libtorch-dev, g++)")
            return 2
        pairs = [ours(bp, device) + theirs(program) for _ in range(PAIRS)]
    print("eager add, ns:  ours  beside a thread | at::add  in inference mode | ratio of the first of each")
    for alone, beside, plain, inference in pairs:
        print(f"            {alone:8.1f}  {beside:15.1f} | {plain:7.1f}  {inference:17.1f} | {alone / plain:.3f}")
    ratios = sorted(alone / plain for alone, _, plain, _ in pairs)
    median = statistics.median(ratios)
    print(f"ratio {median:.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f}), target at most {TARGET}; "
          f"in inference mode {statistics.median(p[0] / p[3] for p in pairs):.3f}, "
          f"beside a thread {statistics.median(p[1] / p[2] for p in pairs):.3f}")
    return 0 if median <= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
