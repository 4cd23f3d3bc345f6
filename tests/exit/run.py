#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that processes that end while they work end without a signal, a hang or any output.
Runs busy many times per kind of ending, so that a crash in one of a hundred runs is found. Runs late once per kind
of ending: the work that has begun must complete, and report that it has.

    run.py BUSY LATE PLUGINS [TIMES]

TAP, one line per kind of ending.
"""
import concurrent.futures
import signal
import subprocess
import sys
import time

BUSY, LATE, PLUGINS = sys.argv[1:4]
TIMES = int(sys.argv[4]) if len(sys.argv) > 4 else 200
SAYS = {"exit": "first", "shutdown": "first\nsecond", "callback": "", "prepare": "prepared", "read": "", "fork": "child"}
STATUS = 7
DEADLINE = 20  # seconds; the core itself gives up after 5


def run(command, says=""):
    """Returns the failure of one run as text, or None."""
    seed = " ".join(command[1:])
    start = time.monotonic()
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace", timeout=DEADLINE)
    except subprocess.TimeoutExpired:
        return f"run {seed}: no end after {DEADLINE} s"
    seconds = time.monotonic() - start
    text = (done.stdout + done.stderr).strip()
    if done.returncode < 0:
        return f"run {seed}: {signal.Signals(-done.returncode).name} {text}"
    if done.returncode != STATUS or text != says:
        return f"run {seed}: exit status {done.returncode}, expected {STATUS}: '{text}', expected '{says}'"
    return f"run {seed}: took {seconds:.1f} s: something was waited for that does not end" if seconds > 4.5 else None


print(f"1..{2 + len(SAYS)}")
failed = False
for number, how in enumerate(("exit", "shutdown"), 1):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        wrong = [text for text in pool.map(lambda seed: run([BUSY, how, str(seed)]), range(TIMES)) if text]
    print(f"{'not ok' if wrong else 'ok'} {number} - {TIMES} processes end well by {how} while they work")
    for text in wrong[:10]:
        print("#", text.replace("\n", "\n# "))
    failed = failed or bool(wrong)
for number, (how, says) in enumerate(SAYS.items(), 3):
    plugin = "bp_h_constructor_hang.so" if how == "fork" else "bp_gated.so"
    text = run([LATE, how, f"{PLUGINS}/{plugin}"], says)
    print(f"{'not ok' if text else 'ok'} {number} - what is under way comes to its end: {how}")
    if text:
        print("#", text.replace("\n", "\n# "))
    failed = failed or bool(text)
sys.exit(failed)
