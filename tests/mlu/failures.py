#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lets each call of a run of mlu fail once: the message names the call, nothing leaks, and the next step works. Lets each call
of the runtime report a lost device once: the message is reported once, nothing leaks, and the device can be opened again. Delays
each call of the runtime: no result changes.

    failures.py STEPS PLUGIN STANDINS BASE

A run without failures lists the calls. Each function then fails at its first call, and in the middle of its calls. Two runs at
once, because a run mostly waits for the stand-in's pauses.
"""
import concurrent.futures
import os
import subprocess
import sys
import tempfile

STEPS, PLUGIN, STANDINS, BASE = sys.argv[1:]
WORDS = ["write", "abs", "gather", "record", "query", "wait", "read", "sync", "write", "abs", "gather", "check", "renew"]
AFTER = ["renew", "gather", "abs", "check", "write", "sync"]
AGAIN = ["reopen", "gather", "abs", "check", "write", "sync"]
ENDS = ("Destroy", "Free")
# Functions whose failure has no effect: descriptors are memory of the host, a device needs no name, and the core's wait before it
# closes a device returns no status.
QUIET = ("cnnlDestroy", "cnrtGetDeviceProperties_V3", "cnrtSyncDevice")
# Functions whose failure is in the log only, because their callers return no status: a device that stays lost is reported by the
# next call. Events are forgotten after cnrtWaitNotifier.
NOTED = ("cnrtWaitNotifier",)
# Functions that run when the plugin is loaded: nothing is open yet.
LOADING = ("cnrtGetDeviceCount", "cnrtGetLibVersion", "cnrtDeviceGetAttribute")
SYSTEM, INTERNAL, LOST, LATE = 100007, 4, 100132, "+20000"


def run(folder, fail=None, again=(), **more):
    """Runs the steps, and those of `again`; returns the output, the names of the calls in their order, and the file of misuses."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("BP_", "NEUWARE_"))}
    env |= {"BP_PLUGIN_PATH": PLUGIN, "BP_PLUGINS": "mlu", "LD_LIBRARY_PATH": f"{STANDINS}:{BASE}", "BP_LOG": "warn",
            "BP_STANDIN_LOG": f"{folder}/misuse.log", "BP_STANDIN_CALLS": f"{folder}/calls.log", "BP_STANDIN_CNNL_ASSUMED": "1",
            "BP_FALLBACK": "deny", **more}
    if fail:
        env["BP_STANDIN_FAIL"] = fail
    done = subprocess.run([STEPS, "mlu:0", *WORDS, *AFTER, *again], capture_output=True, text=True, env=env, timeout=60, check=False)
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


def check_leaks(name, calls, text):
    """A failed call has created nothing, and a failed end has ended nothing."""
    wrong = {make: n for make, n in leaks(calls).items() if name not in (make,) and not any(end in name for end in ENDS)
             or make == name and n[0] != n[1] + 1}
    assert not wrong, (wrong, text)


def statuses(text):
    """[(step, status)] of the output of the steps."""
    words = [line.split() for line in text.splitlines()]
    return [(w[0], w[1].rstrip(":")) for w in words if w[1:] and w[1].startswith("BP_")]


def fails(name, at, folder):
    code = INTERNAL if name.startswith("cnnl") else SYSTEM
    text, calls = run(folder, f"{name}:{at}:{code}")
    assert f"{name} answers {code}" in text or name.startswith(QUIET), text
    assert code == INTERNAL or name.startswith(QUIET) or f"{name} answers {code}: a system call failed" in text, text
    check_leaks(name, calls, text)
    steps = statuses(text)
    if ("begin", "BP_OK") in steps:
        assert steps[-len(AFTER):] == [(step, "BP_OK") for step in AFTER], text


def fails_while_work_is_slow(name, at, folder):
    """Pauses of up to 0.3 ms let work still run when the wait fails: it may not write to the caller's memory later."""
    text, _ = run(folder, f"{name}:{at}:{SYSTEM}", BP_STANDIN_DELAY="300")
    assert f"{name} answers {SYSTEM}: a system call failed" in text, text
    assert statuses(text)[-len(AFTER):] == [(step, "BP_OK") for step in AFTER], text


def loses_the_device(name, at, folder):
    text, calls = run(folder, f"{name}:{at}:{LOST}", AGAIN)
    check_leaks(name, calls, text)
    lost = [line for line in text.splitlines() if " BP_ERR_DEVICE_LOST: " in line]
    steps = statuses(text)
    assert f"{name} answers {LOST}" in text or name.startswith(QUIET), text
    if name not in LOADING + QUIET + NOTED and not any(end in name for end in ENDS):
        assert lost and f"{name} answers {LOST}" in lost[0] and "start the process again" in lost[0], text
        assert steps[-len(AGAIN):] == [(step, "BP_OK") for step in AGAIN], text
    assert all("the device is lost: " in line for line in lost[1:]), text  # later steps repeat the reason


def is_late(name, at, folder):
    text, calls = run(folder, f"{name}:{at}:{LATE}")
    assert "ERR" not in text.replace("query BP_ERR_NOT_READY", "") and not leaks(calls), (text, leaks(calls))


def attempt(case):
    function, name, at = case
    with tempfile.TemporaryDirectory() as folder:
        try:
            function(name, at, folder)
        except (AssertionError, OSError, subprocess.SubprocessError) as error:
            return str(error) or "failed"
    return ""


def main():
    with tempfile.TemporaryDirectory() as folder:
        text, calls = run(folder, again=AGAIN)
        assert "ERR" not in text.replace("query BP_ERR_NOT_READY", "") and not leaks(calls), (text, leaks(calls))
    with tempfile.TemporaryDirectory() as folder:
        text, calls = run(folder)
        assert "ERR" not in text.replace("query BP_ERR_NOT_READY", "") and not leaks(calls), (text, leaks(calls))
    # How often the core queries a notifier depends on time, and each query reads the thread's device. A later query may never
    # come, and the core repeats a query that fails between calls of the app.
    steady = calls[:calls.index("cnrtQueryNotifier")]
    middle = {name: max(1, calls.count(name) // 2) for name in calls}
    middle |= {name: max(1, steady.count(name)) for name in ("cnrtQueryNotifier", "cnrtGetDevice")}
    names = sorted(set(calls))
    tests = [(fails, name, at) for name in names for at in sorted({1, middle[name]})]
    tests += [(function, name, middle[name]) for function in (loses_the_device, is_late) for name in names if name.startswith("cnrt")]
    tests += [(fails_while_work_is_slow, "cnrtQueueSync", at) for at in range(2, 7)]
    print(f"1..{len(tests)}")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for number, (case, why) in enumerate(zip(tests, pool.map(attempt, tests)), 1):
            function, name, at = case
            print(f"{'not ok' if why else 'ok'} {number} - call {at} of {name} {function.__name__.replace('_', ' ')}", flush=True)
            for line in why.splitlines()[:20]:
                print(f"# {line[:1500]}")


main()
