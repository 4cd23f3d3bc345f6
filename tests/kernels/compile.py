#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles each portable kernel for each dtype as OpenCL C 1.2, HIP and CUDA C++, so that it stays valid without a plugin.

OpenCL also for a device without extensions (no f64, no f16), HIP for gfx90a, CUDA to PTX of sm_90. The cpu plugin
compiles the kernels as C.

    compile.py ROOT FOLDER CLANG NEW_CLANG BY_OTHERS FAMILY=HEADER:DTYPE,DTYPE...     NEW_CLANG: one that knows sm_90, from 16
    on. An empty name: that compiler is not installed. BY_OTHERS: languages that another part of a run compiles completely,
    with commas: CUDA by nvcc for its plugin, OpenCL by PoCL in conformance. Then this program compiles one type of each
    kernel as CUDA and, as OpenCL, all types without f64 and f16, and the types that need these
"""
import glob
import os
import re
import subprocess
import sys

ROOT, FOLDER, CLANG, NEW_CLANG = sys.argv[1:5]
BY_OTHERS = sys.argv[5].split(",")
HERE = os.path.dirname(os.path.abspath(__file__))
SDK = os.path.join(ROOT, "sdk")
WORDS = [re.fullmatch(r"(\w+)=(.*):(.*)", word).groups() for word in sys.argv[6:]]
FAMILIES = {name + ".h": types.split(",") for name, _, types in WORDS}
HEADERS = {header: name + ".h" for name, header, _ in WORDS}  # by path, relative to sdk
TEXT = ["-O0", "-S", "-emit-llvm"]  # without an option clang optimises OpenCL, which takes twice the time of all else
WARN = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]
# The beginning of kernels for GPUs. clang reads it once for each language, because it is longer than a kernel.
FIRST = f'#include "{HERE}/runtime.h"\n#include <math.h>\n#include <stdint.h>\n'

# language, file ending, compiler, options, text that is read first, pattern of an entry's definition in the output
WAYS = [
    ("OpenCL", "cl", CLANG, ["-x", "cl", "-cl-std=CL1.2", "-target", "spir64", "-Xclang", "-finclude-default-header",
                             *WARN, *TEXT], None, "define .*spir_kernel .*@{}\\("),
    ("OpenCL without f64", "cl", CLANG, ["-x", "cl", "-cl-std=CL1.2", "-target", "spir64", "-Xclang", "-finclude-default-header",
                                         "-Xclang", "-cl-ext=-all", "-DNO_F64", "-cl-single-precision-constant",
                                         *WARN, *TEXT], None, "define .*spir_kernel .*@{}\\("),
    ("HIP gfx90a", "hip", CLANG, ["-x", "hip", "--cuda-device-only", "--offload-arch=gfx90a", "-nogpulib", "-nogpuinc",
                                  *WARN, *TEXT], FIRST, "define .*amdgpu_kernel .*@{}\\("),
    ("CUDA sm_90", "cu", NEW_CLANG, ["-x", "cuda", "--cuda-device-only", "--cuda-gpu-arch=sm_90", "-nocudalib", "-nocudainc",
                                     "-Wno-unknown-cuda-version", "-D__CUDACC__", *WARN, "-S"], FIRST,
     "\\.entry {}\\("),
]


def left_out(language, dtype, types):
    """Whether this compilation would check nothing new."""
    if language == "OpenCL without f64":
        return dtype in ("f64", "c128")
    if language.startswith("CUDA"):  # clang must know each name that nvcc's headers declare
        return "CUDA" in BY_OTHERS and dtype != types[0]
    return language == "OpenCL" and "OpenCL" in BY_OTHERS and dtype not in ("f64", "c128", "f16")


def entries():
    """Returns {family.h: names of its entry points}."""
    found = {}
    for path in sorted(glob.glob(os.path.join(SDK, "ops", "*", "*.h"))):
        with open(path, encoding="utf-8") as f:
            names = re.findall(r"^(?:KERNEL\(NAME\(|ENTRY_(?:SPANS|TEAMS|RUNS)_\d+\()(\w+)", f.read(), re.M)
        if names:
            header = os.path.relpath(path, SDK)
            if header not in HEADERS:  # a part of kernel.h, which includes it
                header = os.path.join(os.path.dirname(header), "kernel.h")
            found.setdefault(HEADERS[header], []).extend(names)
    return found


def write(name, text):
    path = os.path.join(FOLDER, name)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path


def precompiled(ending, command, text):
    """Returns arguments that make the compiler use the text precompiled; none for an empty text."""
    if not text:
        return []
    result = os.path.join(FOLDER, f"first.{ending}.pch")
    subprocess.run([*command, "-Xclang", "-emit-pch", "-o", result, write(f"first.{ending}", text)], check=True, timeout=300)
    return ["-Xclang", "-include-pch", "-Xclang", result]


def compiled(ending, command, header, dtype):
    path = next(path for path, name in HEADERS.items() if name == header)
    source = write(f"{header}.{dtype}.{ending}", f"#include <{path}>\n")
    return subprocess.run([*command, "-I", os.path.join(ROOT, "sdk"), f"-DELEM={dtype}", f"-DELEM_{dtype}", "-o", "-", source],
                          capture_output=True, timeout=300)


def main():
    os.makedirs(FOLDER, exist_ok=True)
    headers = entries()
    todo = {way[0]: {header: types for header in headers
                     if (types := [t for t in FAMILIES[header] if not left_out(way[0], t, FAMILIES[header])])} for way in WAYS}
    print(f"1..{sum(map(len, todo.values()))}")
    number = failed = 0
    for language, ending, compiler, how, first, pattern in WAYS:
        command = [compiler, *how, *(precompiled(ending, [compiler, *how], first) if compiler and todo[language] else [])]
        for header, dtypes in todo[language].items():
            number += 1
            what = f"{number} - {language}: {header}"
            if not compiler:
                print(f"ok {what} # SKIP no compiler of {language} here", flush=True)
                continue
            wrong = []
            for dtype in dtypes:
                done = compiled(ending, command, header, dtype)
                text = done.stdout.decode("latin-1")
                if done.returncode:
                    wrong.append(f"{dtype}: {done.stderr.decode(errors='replace')[:600]}")
                wrong += [f"{dtype}: no entry bp_{n}_{dtype}" for n in headers[header]
                          if not done.returncode and not re.search(pattern.format(f"bp_{n}_{dtype}"), text)]
            failed += bool(wrong)
            print(f"{'not ok' if wrong else 'ok'} {what}", flush=True)
            for line in "\n".join(wrong).splitlines():
                print(f"# {line}")
    assert headers, "there are no kernels"
    return failed > 0


sys.exit(main())
