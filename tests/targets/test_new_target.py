#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the example of docs/new-target.md: the plugin for Acme's devices, on the stand-in for Acme's library.

    test_new_target.py ROOT BUILD
"""
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT, BUILD = (os.path.abspath(p) for p in sys.argv[1:3])
BP = os.path.join(BUILD, "sdk", "tools", "bp")
FOLDER = os.path.join(ROOT, "tests", "targets", "acme")
STANDIN = os.path.join(BUILD, "tests", "standins", "acme")
MOST, ROWS = 900, 20  # lines of a new target with this many rows
TESTS = []


def test(function):
    TESTS.append(function)
    return function


def run(*words, libraries=STANDIN, misuses=0, **env):
    """Runs bp; returns the exit status and the output. misuses: how many lines the stand-in must have written."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("BP_", "LD_LIBRARY_PATH"))}
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "misuses")
        env = {"BP_PLUGIN_PATH": os.path.join(BUILD, "tests", "targets", "acme"), "BP_PLUGINS": "acme,cpu", "BP_STANDIN_LOG": log,
               "BP_STANDIN_DEVICES": "2", **({"LD_LIBRARY_PATH": libraries} if libraries else {}), **env}
        done = subprocess.run([BP, *words], env={**clean, **env}, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False, timeout=200)
        lines = open(log, encoding="utf-8").read() if os.path.exists(log) else ""
    assert lines.count("\n") == misuses, lines + done.stdout
    return done.returncode, done.stdout


def conform(*words, status=0, **more):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "report.json")
        code, out = run("conform", "acme", "--quick", "--json", path, *words, **more)
        assert code == status, out[-3000:]
        with open(path, encoding="utf-8") as f:
            return json.load(f)


@test
def the_guide_states_the_lines_of_each_file():
    files = {os.path.basename(p): open(p, encoding="utf-8").read().count("\n") for p in glob.glob(os.path.join(FOLDER, "*"))}
    files.pop("meson.build")
    with open(os.path.join(ROOT, "docs", "new-target.md"), encoding="utf-8") as f:
        page = f.read()
    stated = {name: int(n) for name, n in re.findall(r"^\| \[(\S+)\]\(\S+/acme/\S+\) \| (\d+) \|", page, re.M)}
    assert stated == files, (stated, files)
    total = int(re.search(r"^\| all \| (\d+) \|", page, re.M)[1])
    assert total == sum(files.values()) <= MOST, (total, sum(files.values()))


@test
def the_plugin_has_so_many_rows():
    code, out = run("info", "acme", "--json")
    kernels = json.loads(out)["kernels"]
    assert code == 0 and kernels["usable"] == ROWS == len({o["op"] for o in kernels["operators"]}), out


@test
def the_suites_of_the_runtime_pass():
    # Freed memory is not kept, because the suite measures the memory of the process.
    got = conform("--suite", "plugin,runtime,memory", BP_STANDIN_KEEP="0")
    assert got["totals"]["pass"] > 250, got["totals"]
    ran = {c["id"] for c in got["cases"] if c["outcome"] == "pass"}
    assert any(i.startswith("runtime/failure/") for i in ran), "no work can fail"


@test
def the_rows_pass():
    got = conform("--suite", "kernel", "--shard", "1/4")
    assert got["rows"] == {"executed": ROWS, "total": ROWS} and got["totals"]["pass"] > 1000, (got["rows"], got["totals"])


@test
def without_the_library_the_plugin_is_absent():
    code, out = run("info", "acme", libraries=None)
    assert code == 3 and "no libacme.so.2 in LD_LIBRARY_PATH or in $ACME_HOME/lib:/opt/acme/lib" in out, out


@test
def an_old_library_loses_its_row_only():
    code, out = run("info", "acme", libraries=os.path.join(STANDIN, "old"))
    assert code == 0 and "libacme.so.2 has no function acmeEmbedding" in out, out
    got = conform("--suite", "kernel", "--filter", "kernel/[ae]*/f32/*", libraries=os.path.join(STANDIN, "old"))
    ops = {c["id"].split("/")[1] for c in got["cases"] if c["outcome"] == "pass"}
    assert {"add", "abs", "exp"} < ops and "embedding" not in ops, ops


@test
def every_call_may_fail_once():
    """The message of a call that fails names it, with the code's text. Device 1 is not the one that threads have at first."""
    with open(os.path.join(FOLDER, "calls.def"), encoding="utf-8") as f:
        calls = re.findall(r"^CALL\(int, (\w+),", f.read(), re.M)
    # No caller receives the failure; and without an event the core waits for the stream.
    quiet = {"acmeFree", "acmeHostFree", "acmeStreamDestroy", "acmeEventDestroy", "acmeEventCreate"}
    assert len(calls) > 15 and quiet < set(calls)
    silent = []
    for call in calls:
        code, out = run("conform", "acme:1", "--quick", "--isolate", "none", "--suite", "runtime", "--filter", "runtime/event/*",
                        "--filter", "runtime/stream/*", BP_STANDIN_FAIL=f"{call}:1:35")
        if call in quiet:
            assert code in (0, 1), (call, code, out)
        elif not (code and f"{call} answers 35: the driver is too old" in out):
            silent.append((call, code, out[-600:]))
    assert not silent, silent


@test
def a_lost_device_is_reported():
    code, out = run("conform", "acme", "--quick", "--isolate", "none", "--suite", "kernel", "--filter", "kernel/add/f32/one/*",
                    BP_STANDIN_FAIL="work:2:719")
    assert code == 1 and "answers 719: work failed; start the process again" in out, out


@test
def calls_are_traced():
    code, out = run("conform", "acme", "--quick", "--isolate", "none", "--suite", "kernel", "--filter", "kernel/add/f32/one/*",
                    BP_ACME_TRACE="1", BP_LOG="info")
    assert code == 0 and "acme:0: trace: acmeAdd answers 0" in out, out[-2000:]


def main():
    failed = 0
    print(f"1..{len(TESTS)}")
    for number, function in enumerate(TESTS, 1):
        try:
            function()
            print(f"ok {number} - {function.__name__.replace('_', ' ')}", flush=True)
        except Exception as error:  # a test that cannot run has failed
            failed += 1
            print(f"not ok {number} - {function.__name__.replace('_', ' ')}")
            for line in (str(error) or repr(error)).splitlines():
                print(f"# {line}")
    sys.exit(failed > 0)


main()
