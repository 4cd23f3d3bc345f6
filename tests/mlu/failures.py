#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lets each call of a run of mlu fail once: the message names the call, nothing leaks, and the next step works.

    failures.py STEPS PLUGIN STANDINS BASE

A run without failures lists the calls. Each function then fails at its first call, and in the middle of its calls.
"""
import os
import subprocess
import sys
import tempfile

STEPS, PLUGIN, STANDINS, BASE = sys.argv[1:]
WORDS = ["write", "abs", "gather", "record", "query", "wait", "read", "sync", "write", "abs", "gather", "check", "renew"]
AFTER = ["renew", "gather", "abs", "check", "write", "sync"]
ENDS = ("Destroy", "Free")
# Functions whose failure has no effect: descriptors are memory of the host, a device needs no name, and the core's wait before it
# closes a device returns no status.
QUIET = ("cnnlDestroy", "cnrtGetDeviceProperties_V3", "cnrtSyncDevice")
SYSTEM, INTERNAL = 100007, 4


def run(folder, fail=None):
    """Runs the steps; returns the output, the names of the calls in their order, and the file of misuses."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("BP_", "NEUWARE_"))}
    env |= {"BP_PLUGIN_PATH": PLUGIN, "BP_PLUGINS": "mlu", "LD_LIBRARY_PATH": f"{STANDINS}:{BASE}", "BP_LOG": "warn",
            "BP_STANDIN_LOG": f"{folder}/misuse.log", "BP_STANDIN_CALLS": f"{folder}/calls.log", "BP_STANDIN_CNNL_ASSUMED": "1",
            "BP_FALLBACK": "deny"}
    if fail:
        env["BP_STANDIN_FAIL"] = fail
    done = subprocess.run([STEPS, "mlu:0", *WORDS, *AFTER], capture_output=True, text=True, env=env, timeout=60, check=False)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    with open(f"{folder}/calls.log", encoding="utf-8") as f:
        calls = [line.split()[0] for line in f]
    misuse = ""
    if os.path.exists(f"{folder}/misuse.log"):
        with open(f"{folder}/misuse.log", encoding="utf-8") as f:
            misuse = f.read()
    assert not misuse, misuse
    return done.stdout + done.stderr, calls


def leaks(calls):
    """Objects that the calls have created more often than destroyed; a failed call has created nothing."""
    pairs = {"cnrtQueueCreate": "cnrtQueueDestroy", "cnrtMalloc": "cnrtFree", "cnrtHostMalloc": "cnrtFreeHost",
             "cnrtNotifierCreateWithFlags": "cnrtNotifierDestroy", "cnnlCreate": "cnnlDestroy",
             "cnnlCreateTensorDescriptor": "cnnlDestroyTensorDescriptor"}
    return {make: (calls.count(make), calls.count(end)) for make, end in pairs.items() if calls.count(make) != calls.count(end)}


def fails_once(name, at, folder):
    code = INTERNAL if name.startswith("cnnl") else SYSTEM
    text, calls = run(folder, f"{name}:{at}:{code}")
    assert f"{name} answers {code}" in text or name.startswith(QUIET), text
    found = leaks(calls)
    wrong = {make: n for make, n in found.items() if name not in (make,) and not any(end in name for end in ENDS)
             or make == name and n[0] != n[1] + 1}
    assert not wrong, (wrong, text)
    steps = [line.split()[:2] for line in text.splitlines() if line.split()[1:2] and line.split()[1].startswith("BP_")]
    if ["begin", "BP_OK"] in [[word, status.rstrip(":")] for word, status in steps]:
        assert [status.rstrip(":") for _, status in steps[-len(AFTER):]] == ["BP_OK"] * len(AFTER), text


def main():
    with tempfile.TemporaryDirectory() as folder:
        text, calls = run(folder)
        assert "ERR" not in text.replace("query BP_ERR_NOT_READY", "") and not leaks(calls), (text, leaks(calls))
    # How often the core queries a notifier depends on time, and each query reads the thread's device. A later query may never
    # come, and the core repeats a query that fails between calls of the app.
    steady = calls[:calls.index("cnrtQueryNotifier")]
    middle = {name: max(1, calls.count(name) // 2) for name in calls}
    middle |= {name: max(1, steady.count(name)) for name in ("cnrtQueryNotifier", "cnrtGetDevice")}
    tests = [(name, at) for name in sorted(set(calls)) for at in sorted({1, middle[name]})]
    print(f"1..{len(tests)}")
    for number, (name, at) in enumerate(tests, 1):
        why = ""
        with tempfile.TemporaryDirectory() as folder:
            try:
                fails_once(name, at, folder)
            except (AssertionError, OSError, subprocess.SubprocessError) as error:
                why = str(error)
        print(f"{'not ok' if why else 'ok'} {number} - call {at} of {name} fails", flush=True)
        for line in why.splitlines()[:20]:
            print(f"# {line[:1500]}")


main()
