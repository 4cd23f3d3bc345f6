#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs what was compiled for aarch64 with QEMU, which emulates the processor: programs of tests, and conformance.

    run.py BUILD      the directory of `./dev build aarch64`, with the target hosted_programs

Prints a TAP line for each program and each plugin. QEMU orders memory as the machine does that it runs on: these runs do not
show errors of memory order.
"""
import glob
import json
import os
import subprocess
import sys

from prepare import ROOT_OF_COMPILER, TRIPLE

QEMU = "/usr/bin/qemu-aarch64-static"
LIMIT = 900  # seconds, for one program
OTHERS = ["--suite", "plugin,runtime,memory"]
# Of each plugin, what `bp conform --quick` runs; of kernels a part, because QEMU is slow.
PLUGINS = {"cpu": [OTHERS, ["--suite", "kernel", "--shard", "1/24"]], "template": [[]]}


def environment(build):
    libraries = [os.path.join(build, "sysroot", "usr", "lib", TRIPLE), os.path.join(build, "core")]
    return {"QEMU_LD_PREFIX": ROOT_OF_COMPILER, "AARCH64_QEMU": QEMU, "HOME": os.environ.get("HOME", "/"), "PATH": os.environ["PATH"],
            "QEMU_SET_ENV": f"LD_LIBRARY_PATH={':'.join(libraries)},LD_PRELOAD={build}/tests/aarch64/exec.so"}


def emulated(build, *command, **env):
    """Runs a program in QEMU; its children are emulated too (exec.c)."""
    return subprocess.run([QEMU, *command], env={**environment(build), **env}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", timeout=LIMIT, cwd=build, check=False)


def library(build, kind):
    found = [p for p in (f"plugins/{kind}/bp_{kind}.so", f"sdk/{kind}/bp_{kind}.so") if os.path.exists(os.path.join(build, p))]
    return os.path.join(build, found[0]) if found else None


def conform(build, what):
    """Why a part of the suite does not pass, or None; and a note. what: the kind, and options."""
    kind, words = what
    bp, plugin = os.path.join(build, "sdk", "tools", "bp"), library(build, kind)
    report = os.path.join(build, f"conform-{kind}.json")
    made = emulated(build, bp, "manifest", plugin, "-o", plugin.removesuffix("so") + "json")
    if made.returncode:
        return made.stdout, ""
    if os.path.exists(report):
        os.unlink(report)
    done = emulated(build, bp, "conform", kind, "--quick", *words, "--timeout", "300", "--json", report, BP_PLUGIN_PATH=os.path.dirname(plugin))
    if not os.path.exists(report):
        return done.stdout, ""
    with open(report, encoding="utf-8") as f:
        totals = json.load(f)["totals"]
    note = ", ".join(f"{n} {outcome}" for outcome, n in totals.items() if n)
    bad = sum(totals[o] for o in ("fail", "crash", "timeout", "xpass"))
    # Status 1 without a bad case: a small part of the cases does not have one of each row.
    return (done.stdout if bad or done.returncode not in (0, 1) or totals["pass"] < 100 else None), note


def program(build, path):
    done = emulated(build, path)
    return (done.stdout or f"exit status {done.returncode}") if done.returncode else None, ""


def main(build):
    build = os.path.abspath(build)
    programs = sorted(p for p in glob.glob(os.path.join(build, "tests", "aarch64", "*_*")) if os.access(p, os.X_OK) and os.path.isfile(p))
    runs = [(kind, words) for kind in PLUGINS for words in PLUGINS[kind] if library(build, kind)]
    jobs = [(os.path.basename(p), program, p) for p in programs]
    jobs += [(" ".join(("conform", kind, *words)), conform, (kind, words)) for kind, words in runs]
    failed = len(programs) < 8 or len({kind for kind, _ in runs}) < len(PLUGINS)
    print(f"1..{len(jobs) + 1}")
    print(f"{'not ' if failed else ''}ok 1 - the build is whole")
    for number, (name, function, what) in enumerate(jobs, 2):
        try:
            why, note = function(build, what)
        except subprocess.TimeoutExpired as late:
            why, note = f"no end after {late.timeout} s", ""
        failed |= bool(why)
        print(f"{'not ' if why else ''}ok {number} - {name}", flush=True)
        for line in [*filter(None, [note]), *(why or "").splitlines()[-60:]]:
            print("#", line)
    sys.exit(failed)


if __name__ == "__main__":
    main(*sys.argv[1:])
