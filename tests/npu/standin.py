# SPDX-License-Identifier: Apache-2.0
"""Runs programs on the stand-in for CANN, for the tests of this folder."""
import os
import shutil
import subprocess
import sys
import tempfile
import traceback

STEPS = ["add", "gather", "read", "record", "query", "wait", "other", "large", "program", "threads", "add", "read"]


class Setting:
    """The programs and libraries under test."""

    def __init__(self, build):
        self.bp = os.path.join(build, "sdk/tools/bp")
        self.steps = os.path.join(build, "tests/npu/npu_steps")
        self.plugins = os.path.join(build, "plugins")
        self.cann = os.path.join(build, "tests/standins/cann")
        self.build = build

    def folder(self, version):
        return os.path.join(self.cann, version)

    def environment(self, folder, version="v8", **more):
        """The environment of a run whose files are in a folder. version None: no libraries."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(("BP_", "ASCEND_", "LD_LIBRARY_PATH"))}
        env.update({k: v for k, v in os.environ.items() if k.startswith("BP_CACHE")})
        env["BP_STANDIN_LOG"] = os.path.join(folder, "misuses")
        env["BP_STANDIN_SEED"] = "7"
        if version:
            env["LD_LIBRARY_PATH"] = self.folder(version)
            env["ASCEND_OPP_PATH"] = "any"
        env.update(more)
        return env


def misuses(env):
    """The lines of the stand-in's log: calls of which the vendor leaves the effect undefined."""
    if not os.path.exists(env["BP_STANDIN_LOG"]):
        return ""
    with open(env["BP_STANDIN_LOG"], encoding="utf-8") as f:
        return f.read()


def run(env, *words, timeout=120):
    """Runs a program; there must be no misuse. Returns its exit status and its output: first that of errors."""
    done = subprocess.run(words, capture_output=True, text=True, env=env, timeout=timeout, check=False)
    found = misuses(env)
    assert not found, f"{found}\n{done.stdout}{done.stderr}"
    return done.returncode, done.stderr + done.stdout


def parse(text):
    """The steps of npu_steps: pairs of a name and a status, and the messages."""
    lines = [line.split(": ", 2) for line in text.splitlines() if ": BP_" in line]
    return [(line[0], line[1]) for line in lines], [line[2] for line in lines if len(line) > 2]


def run_tests(tests):
    """Runs functions that get a folder each, and prints TAP."""
    print(f"1..{len(tests)}")
    bad = 0
    for number, (title, function) in enumerate(tests, 1):
        folder = tempfile.mkdtemp()
        try:
            function(folder)
            print(f"ok {number} - {title}", flush=True)
        except Exception:  # each failure is a line of TAP
            bad += 1
            print(f"not ok {number} - {title}")
            print("".join("# " + line + "\n" for line in traceback.format_exc().splitlines()[-40:]), flush=True)
        finally:
            shutil.rmtree(folder)
    sys.exit(bad > 0)
