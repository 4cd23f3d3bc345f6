#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that the lists of functions agree: those that the rows of npu name, those that its sources call, and those that
the stand-in for CANN is tested with, by a right call and a wrong one.

    functions.py SOURCE
"""
import glob
import os
import re
import sys

PLUGIN = os.path.join(sys.argv[1], "plugins/npu")
CASES = os.path.join(sys.argv[1], "tests/standins/cann/cases.txt")
NAME = re.compile(r"[A-Z][A-Za-z0-9]+")
# Functions of the plugin that add a step, whose name of a function is the first text.
STEP = re.compile(r'\b(?:KIT_STEP|kit_step|part_\w+|npu_\w+|\w+_(?:step|two|one|sum|reduced))\(\s*b,\s*"([A-Z]\w+)"')


def read(pattern):
    texts = []
    for path in sorted(glob.glob(os.path.join(PLUGIN, pattern))):
        with open(path, encoding="utf-8") as f:
            texts.append(re.sub(r"/\*.*?\*/", "", f.read(), flags=re.DOTALL))
    return "\n".join(texts)


def words(text):
    """The names in the texts of C in a source."""
    return {word for string in re.findall(r'"((?:[^"\\\n]|\\.)*)"', text) for word in string.split() if NAME.fullmatch(word)}


def main():
    with open(CASES, encoding="utf-8") as f:
        lines = [line.split() for line in f if line.strip() and not line.startswith("#")]
    wrong = {line[0] for line in lines if "!" in line and re.fullmatch(r"\d+", line[-1]) and line[-1] != "0"}
    listed = words(read("rows_*.def") + read("call.h"))
    called = set(STEP.findall(read("*.c")))
    tests = [("the rows name functions", len(listed) > 100 and len(called) > 60, f"{len(listed)} and {len(called)}"),
             ("each function of a row has a wrong call that the stand-in refuses", listed <= wrong, sorted(listed - wrong)),
             ("each function that is called is in the list of a row", called <= listed, sorted(called - listed)),
             ("each case has a wrong call", {line[0] for line in lines} == wrong, sorted({line[0] for line in lines} - wrong))]
    print(f"1..{len(tests)}")
    for number, (title, good, found) in enumerate(tests, 1):
        print(f"{'ok' if good else 'not ok'} {number} - {title}")
        if not good:
            print(f"# {found}")
    return not all(good for _, good, _ in tests)


sys.exit(main())
