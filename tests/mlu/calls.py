#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the functions that mlu calls with the stand-ins: they have each function, and each function of CNNL and of the runtime
is called by their tests. test_operators.c and list_waiting.c have one right call and one wrong call of each operator.

    calls.py PLUGIN STANDINS: the folders of the sources
"""
import os
import re
import sys

PLUGIN, STANDINS = sys.argv[1:]
TESTS = {"cnrt": ("test_cnrt.c", "kit.c"), "cnnl": ("test_operators.c", "list_waiting.c", "test_cnnl.c"), "cncl": ()}
ENTRY = re.compile(r"^(?:CALL|CALL_OR_NONE|ASSUMED)\([^,]+,\s*(\w+)", re.M)
# The plugin works without this function, and does so on the stand-in: its parameters are not confirmed.
ABSENT = {"cnrtDeviceGetPCIBusId"}


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as f:
        return f.read()


def main():
    results = []
    for library, files in TESTS.items():
        used = set(ENTRY.findall(read(PLUGIN, f"{library}.def"))) - ABSENT
        has = set(ENTRY.findall(read(STANDINS, f"{library}.def")))
        results.append((f"functions of {library} that mlu calls are found", [] if len(used) > 10 else ["10 or fewer"]))
        results.append((f"the stand-in for {library} has all functions that mlu calls", sorted(used - has)))
        if files:
            called = {word for name in files for word in re.findall(r"\bcn\w+", read(STANDINS, name))}
            results.append((f"the tests of the stand-in for {library} call all functions that mlu calls", sorted(used - called)))
    print(f"1..{len(results)}")
    for number, (name, missing) in enumerate(results, 1):
        print(f"{'not ok' if missing else 'ok'} {number} - {name}")
        for function in missing:
            print(f"# {function}")


main()
