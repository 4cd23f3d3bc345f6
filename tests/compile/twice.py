#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a test program twice with one folder for what the compiler finds (BP_PROGRAM_CACHE), so that the second run loads the
programs of the first: both must pass, and each compiled program must be saved.

    twice.py PROGRAM
"""
import os
import subprocess
import sys
import tempfile

LIMIT = 100


def run_once(program, folder):
    env = {**os.environ, "BP_PROGRAM_CACHE": folder, "BP_LOG": "info"}
    done = subprocess.run([program, "--tap=-", "-j1"], capture_output=True, text=True, timeout=LIMIT, env=env, errors="replace",
                          check=False)
    unsaved = [line for line in done.stderr.splitlines() if "not saved" in line]
    failed = [line for line in done.stdout.splitlines() if line.startswith("not ok")]
    return unsaved + failed + ([f"exit status {done.returncode}"] if done.returncode else [])


def main(program):
    print("1..3", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        results = [("programs are compiled and saved", run_once(program, folder)),
                   ("there are files of programs", [] if os.listdir(folder) else ["the folder is empty"]),
                   ("programs are loaded", run_once(program, folder))]
    for number, (title, errors) in enumerate(results, 1):
        print(f"{'not ' if errors else ''}ok {number} - {title}")
        print("".join(f"# {line}\n" for line in errors), end="")
    return any(errors for _, errors in results)


sys.exit(main(os.path.abspath(sys.argv[1])))
