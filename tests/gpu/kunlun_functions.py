#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that the lists of functions of Kunlun's libraries agree: those that the plugin looks up, those that the stand-in
exports, and those of which tests/standins/xre/wrong.def has a wrong call.

    kunlun_functions.py SOURCE NM STANDIN
        NM: the program nm
        STANDIN: the folder of the stand-in for XRE's libraries
"""
import os
import re
import subprocess
import sys

SOURCE, NM, STANDIN = sys.argv[1:]
TEXTS = {"cudaGetErrorString"}  # returns a text and fails never: test_xre.c calls the function by itself


def read(name):
    with open(os.path.join(SOURCE, name), encoding="utf-8") as f:
        return re.sub(r"/\*.*?\*/", "", f.read(), flags=re.DOTALL)


def exported(library):
    listed = subprocess.run([NM, "-D", "--defined-only", os.path.join(STANDIN, library)], stdout=subprocess.PIPE, text=True, check=True)
    return {line.split()[2] for line in listed.stdout.splitlines() if re.match("cuda|cublas", line.split()[2])}


def main():
    own = set(re.findall(r"\.(\w+) = runtime_\w+", read("plugins/kunlun/runtime.c")))
    names = dict(re.findall(r'NAME\((\w+), "(\w+)"\)', read("plugins/kunlun/target.c")))
    runtime = {name for call, name in names.items() if call not in own} | set(re.findall(r"CALL\w*\(int, (\w+)", read("plugins/kunlun/cudart.def")))
    blas = set(re.findall(r"CALL\w*\(int, (\w+)", read("plugins/kunlun/xblas.def")))
    wrong = {name.removesuffix("_v2") for name in re.findall(r"WRONG\((\w+)", read("tests/standins/xre/wrong.def"))} | TEXTS
    there = {name.removesuffix("_v2") for name in exported("libcudart.so") | exported("libxpu_blas.so")}
    tests = [("the plugin names functions", len(own) > 10 and len(runtime) > 30 and len(blas) > 4, (len(own), len(runtime), len(blas))),
             ("each function of the plugin has a wrong call that the stand-in refuses", runtime | blas <= wrong, sorted((runtime | blas) - wrong)),
             ("each function of the stand-in has a wrong call", there == wrong, sorted(there ^ wrong)),
             ("the stand-in has no function that the plugin does not call", there <= runtime | blas, sorted(there - runtime - blas))]
    print(f"1..{len(tests)}")
    for number, (title, good, found) in enumerate(tests, 1):
        print(f"{'ok' if good else 'not ok'} {number} - {title}")
        if not good:
            print(f"# {found}")
    return not all(good for _, good, _ in tests)


sys.exit(main())
