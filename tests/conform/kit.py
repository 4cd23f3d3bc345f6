# SPDX-License-Identifier: Apache-2.0
"""Runs `bp conform` for the tests of the suite, and prints TAP."""
import json
import os
import subprocess
import sys

BUILD, BP = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
WORK = os.path.join(BUILD, "tests", "conform", "work")  # not /tmp: plugins are not trusted there
TESTS = []


def test(function):
    TESTS.append(function)
    return function


class Run:
    """One run of `bp conform`. by_id: the cases of its JSON report."""

    def __init__(self, device, *args, env=None, report=True):
        os.makedirs(WORK, exist_ok=True)
        path = os.path.join(WORK, f"report-{os.getpid()}.json")
        if os.path.exists(path):
            os.unlink(path)
        command = [BP, "conform", device, *args] + (["--json", path] if report else [])
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300,
                              cwd=WORK, stdin=subprocess.DEVNULL, env={**os.environ, **(env or {})})
        self.status, self.out, self.err = done.returncode, done.stdout, done.stderr
        self.json = {}
        if report and os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                self.json = json.load(file)
        self.by_id = {case["id"]: case for case in self.json.get("cases", [])}

    def bad(self):
        return {i: c for i, c in self.by_id.items() if c["outcome"] in ("fail", "crash", "timeout", "xpass")}

    def __str__(self):
        return f"exit status {self.status}\n{self.out[-3000:]}\n{self.err[-1500:]}"


class Skip(Exception):
    """The reason why a test cannot run here."""


def main():
    failed = 0
    print(f"1..{len(TESTS)}")
    for number, function in enumerate(TESTS, 1):
        name = function.__name__.replace("_", " ")
        try:
            function()
            print(f"ok {number} - {name}", flush=True)
        except Skip as why:
            print(f"ok {number} - {name} # SKIP {why}", flush=True)
        except Exception as error:  # a test that cannot run has failed
            failed += 1
            print(f"not ok {number} - {name}")
            for line in (str(error) or repr(error)).splitlines():
                print(f"# {line}")
            sys.stdout.flush()
    sys.exit(failed > 0)
