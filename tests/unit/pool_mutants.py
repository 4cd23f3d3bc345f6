#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the model test itself: each rule of the allocator is broken once, in a copy of its source file, and the
traces must notice.

    pool_mutants.py ROOT BUILD

A mutant is a text that occurs exactly once in its file, and its replacement. A text that is not found is a
failure too, because the mutant was not tested. The mutants are in tests/mutants/rules.py.
"""
import os
import subprocess
import sys

ROOT, BUILD = (os.path.abspath(a) for a in sys.argv[1:3])
sys.path.insert(0, os.path.join(ROOT, "tests", "mutants"))
from mutate import Core, run  # noqa: E402
from rules import MODEL  # noqa: E402

TRACES = 400  # each run ends at the first trace that notices
CORE = Core(ROOT, BUILD, "libbackplane.so", ("unit", "pool_mutants"))


def attempt(number, path, old, new, *_):
    result = os.path.join(CORE.folder, str(number))
    objects = [os.path.join(BUILD, "tests", "unit", "test_pool_model.p", f"{name}.c.o")
               for name in ("test_pool_model", "pool_check", "pool_capture")]
    subprocess.run([CORE.compiler(), *CORE.sanitizers(), CORE.broken(number, path, old, new), *objects,
                    os.path.join(BUILD, "core", "libbackplane_parts.a"), "-lltdl", "-lcjson", "-ldl", "-lm", "-pthread",
                    "-o", result], cwd=BUILD, check=True)
    try:
        done = subprocess.run([result, str(TRACES)], capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        return True, "it came to no end"
    why = [line for line in done.stdout.splitlines() if not line.startswith("ok")][-1:] or [f"status {done.returncode}"]
    return done.returncode != 0, why[0] if done.returncode else f"{TRACES} traces did not notice"


sys.exit(run(MODEL, attempt))
