#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the suites runtime, memory, kernel, gradient and ccl detect defects of the core. Each rule of the
allocator and of the order of work, and some rules of prepared calls, gradients and collectives, are broken one at a
time, in a separate library, and a case must fail.

    core_mutants.py ROOT BUILD BP LIBBACKPLANE TEMPLATE LAZY SIM

The unbroken library must pass on all these devices, in both kinds of streams: all cases on devices for which ./dev test
has no step that runs them all, else the cases of the rules. The rules are in tests/mutants/rules.py. A mutant is
detected if a case fails, crashes or does not end; a run that fails in another way is no evidence.
"""
import glob
import json
import os
import subprocess
import sys

ROOT, BUILD, BP, LIBRARY, TEMPLATE, LAZY, SIM = (os.path.abspath(a) for a in sys.argv[1:8])
sys.path.insert(0, os.path.join(ROOT, "tests", "mutants"))
from mutate import Core, run  # noqa: E402
from rules import BOTH, RULES, SUITES  # noqa: E402

CORE = Core(ROOT, BUILD, os.path.basename(LIBRARY), ("conform", "core_mutants"))
PLACES = {"async": ("cpu", "async"), "inline": ("cpu", "inline"), "template": (TEMPLATE, "inline"),
          "lazy": (LAZY, "inline"), "sim": (SIM, "inline"),
          "weak": (os.path.join(os.path.dirname(LAZY), "bp_weak_suite.so"), "inline")}
TRIES = 5  # tries, because the thread that must be too early for the failure may be the slower one
LIMIT = 90  # seconds for one run
ALL = "runtime,memory,gradient,ccl"
WHOLE = {"async": ALL, "lazy": "runtime,memory,gradient"}  # the kernels of the lazy device are those of the cpu
BAD = ("fail", "crash", "timeout")


def conform(number, where, library, suites, *options):
    """Returns the bad cases and the number of all cases."""
    report = os.path.join(CORE.folder, f"{number}.json")
    if os.path.exists(report):
        os.unlink(report)
    place, streams = PLACES[where]
    env = {k: v for k, v in os.environ.items() if not k.startswith("BP_")}
    env.update(BP_STREAMS=streams, BP_PLUGIN_PATH=os.path.join(BUILD, "plugins", "cpu"), LD_LIBRARY_PATH=library,
               BP_SIM_DEVICES="2")
    done = subprocess.run([BP, "conform", place, "--suite", suites, "--json", report, *options],
                          capture_output=True, text=True, timeout=LIMIT, env=env, stdin=subprocess.DEVNULL)
    assert os.path.exists(report), f"no report: exit status {done.returncode}: {done.stderr[-500:]}"
    with open(report, encoding="utf-8") as f:
        cases = json.load(f)["cases"]
    return [c for c in cases if c["outcome"] in BAD], len(cases)


def linked(number, changed, folder):
    """Links a libbackplane in which some objects are replaced."""
    os.makedirs(folder, exist_ok=True)
    objects = [changed.get(o, o) for o in CORE.object.values()]
    result = os.path.join(folder, "libbackplane.so.0")
    subprocess.run([CORE.compiler(), *CORE.sanitizers(), "-shared", "-Wl,--strip-debug", "-Wl,-soname,libbackplane.so.0", *objects,
                    "-lltdl", "-lcjson", "-ldl", "-lm", "-pthread", "-o", result], cwd=BUILD, check=True)
    return folder


def patience(case):
    """The time limit of a case in seconds. Where the broken rule may block a case, the timeout is the failure; other
    cases need more time."""
    return "30" if case.startswith(("kernel/", "memory/returned/")) else "2"


def attempt(number, path, old, new, where, case):
    changed = {CORE.object[path]: CORE.broken(number, path, old, new)}
    library = linked(number, changed, os.path.join(CORE.folder, str(number)))
    for _ in range(TRIES):
        try:
            bad, _ = conform(number, where, library, case.split("/")[0], "--timeout", patience(case), "-j", "1", "--filter", case, "--filter", f"{case}/*")
        except subprocess.TimeoutExpired:
            return False, f"{where}: no end of the run"
        if bad:
            return True, f"{where}: {bad[0]['id']}: {' '.join(bad[0]['message'].split())[:150]}"
    return False, f"{where}: {case} did not notice"


def sound():
    """The unbroken library, linked in the same way, passes on all devices, and bp really uses the library that it is
    given."""
    library = linked(0, {}, os.path.join(CORE.folder, "0"))
    for where in PLACES:
        cases = [] if where in WHOLE else sorted({rule[6] for rule in RULES if rule[0] in (SUITES, BOTH) and rule[5] == where})
        suites = WHOLE.get(where) or ",".join(sorted({case.split("/")[0] for case in cases}))
        bad, n = conform(0, where, library, suites, *(f"--filter={case}*" for case in cases))
        assert not bad and n >= (len(cases) or 300), f"{where}: {n} cases; bad: {[c['id'] for c in bad]}"
    os.truncate(os.path.join(library, "libbackplane.so.0"), 0)
    done = subprocess.run([BP, "list"], env={**os.environ, "LD_LIBRARY_PATH": library}, capture_output=True, text=True)
    assert done.returncode, "bp does not use the library that it is given"


def main():
    sound()
    status = run(SUITES, attempt)
    for path in glob.glob(os.path.join(CORE.folder, "*", "libbackplane.so.0")):
        os.unlink(path)
    return status


sys.exit(main())
