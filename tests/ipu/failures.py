#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lets each call of Poplar that a run makes fail once, or be late: messages name the call, no result is wrong, nothing leaks.

    failures.py STEPS STANDIN [PART]
        STEPS: the program of steps.c; STANDIN: the library of the stand-in; PART: every PART-th call only
"""
import os
import re
import subprocess
import sys
import tempfile

STEPS, STANDIN = sys.argv[1:3]
PART = int(sys.argv[3]) if len(sys.argv) > 3 else 1
RUN = ["train", "train", "read", "other", "train", "write", "train", "save", "train", "gather", "read", "train"]
AFTER = ["reopen", "train", "read", "other", "train", "read"]
# A failure of detach cannot be returned, and after one of deserialize the group is compiled.
QUIET = ("poplar.Device.detach", "poplar.Executable.deserialize")
NAMES = {1: "told to run out of memory", 2: "told to fail, recoverable", 3: "told to fail for good", 4: "told to fail", 5: "told to fail"}


def run(folder, *steps, **more):
    log = os.path.join(folder, "misuses")
    env = dict(os.environ, STEPS_FILE=os.path.join(folder, "program"), STEPS_STANDIN=STANDIN, BP_STANDIN_LOG=log, BP_LOG="warn", **more)
    done = subprocess.run([STEPS, "ipu:0", *steps], capture_output=True, text=True, env=env, timeout=120, check=False)
    text = done.stderr + done.stdout
    assert done.returncode == 0 and text.rstrip().endswith("end"), (done.returncode, text)
    assert not os.path.exists(log) or not os.path.getsize(log), open(log, encoding="utf-8").read()
    lines = re.findall(r"^(\w+): (BP_\w+)(?:: (.*))?$", done.stdout, re.MULTILINE)
    assert "live 0" in done.stdout, text
    return text, [(step, status) for step, status, _ in lines], [message for _, _, message in lines if message]


def calls():
    """The names of the calls of a run without failures, in order."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "calls")
        text, steps, _ = run(folder, *RUN, BP_STANDIN_CALLS=path)
        assert all(status == "BP_OK" for _, status in steps), text
        return [line.split()[0] for line in open(path, encoding="utf-8")]


def fails(name, at, code):
    with tempfile.TemporaryDirectory() as folder:
        text, steps, messages = run(folder, *RUN, *AFTER, BP_STANDIN_FAIL=f"{name}:{at}:{code}")
    if name in QUIET:
        return
    assert name in text and NAMES[code] in text, text
    if code == 3 and name == "poplar.Engine.run":  # the end of a program can only warn
        assert any(status == "BP_ERR_DEVICE_LOST" for _, status in steps) or "a program was destroyed" in text, text
    if steps[0][1] != "BP_OK" and name in ("poplar.DeviceManager.createDeviceManager", "poplar.DeviceManager.getDevices"):
        return  # the plugin could not be created
    assert messages or "warn" in text, text
    assert steps[-len(AFTER):] == [(step, "BP_OK") for step in AFTER], text


def late(name, at):
    with tempfile.TemporaryDirectory() as folder:
        text, steps, _ = run(folder, *RUN, BP_STANDIN_FAIL=f"{name}:{at}:+20000")
    assert all(status == "BP_OK" for _, status in steps), text


def main():
    tests, count = [], {}
    for name in calls():
        count[name] = count.get(name, 0) + 1
    for name, n in sorted(count.items()):
        for at in range(1, n + 1):
            codes = (5, 1 + at % 4) if name.startswith("poplar.Engine") else (5,)
            for code in codes:
                tests.append((f"call {at} of {name} fails with {code}", fails, (name, at, code)))
        tests.append((f"call {n} of {name} is late", late, (name, n)))
    for at in range(1, count["poplar.Engine.run"] + 1):
        tests.append((f"run {at} loses the device", fails, ("poplar.Engine.run", at, 3)))
    tests = tests[::PART]
    print(f"1..{len(tests)}")
    for number, (title, function, arguments) in enumerate(tests, 1):
        try:
            function(*arguments)
            print(f"ok {number} - {title}", flush=True)
        except AssertionError as failure:
            print(f"not ok {number} - {title}")
            print("".join("# " + line + "\n" for line in str(failure).replace("\\n", "\n").splitlines()[-30:]), flush=True)


main()
