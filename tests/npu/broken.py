#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that conformance on the stand-in for CANN detects defects of npu's rows: each row of tests/mutants/npu.py is
broken in a separate plugin, and a case of the operator must fail. With LARGE_TESTS in the environment all of them are
tried; otherwise 6, chosen by the hash of the tree, so that the same tree has the same ones. MUTANTS_SEED=N chooses by that
number. MUTANTS=GLOB tries those whose name or cases match.

    broken.py ROOT BUILD
"""
import fnmatch
import json
import os
import shlex
import shutil
import subprocess
import sys

ROOT, BUILD = (os.path.abspath(a) for a in sys.argv[1:3])
sys.path[:0] = [os.path.join(ROOT, "tests", "mutants"), os.path.join(ROOT, "tests", "style")]
from every import copied, in_copy, some, text_with, tree_hash  # noqa: E402
from mutate import compilation, run_all  # noqa: E402
from npu import NPU  # noqa: E402
from standin import Setting, misuses, parse, run  # noqa: E402
from style import Tree  # noqa: E402

setting = Setting(BUILD)
FOLDER = os.path.join(BUILD, "tests", "npu", "broken")
BAD = ("fail", "crash", "timeout")
LIMIT = 240  # seconds for one run
SOME = 6
PLUGIN = "plugins/npu/bp_npu.so"


def ninja(tool, *what):
    return subprocess.run(["ninja", "-C", BUILD, "-t", tool, *what], capture_output=True, text=True, check=True).stdout


COMPILE = {e["output"]: e for e in json.loads(ninja("compdb")) if e["output"].startswith(PLUGIN + ".p/")}
LINK = shlex.split(ninja("commands", PLUGIN).splitlines()[-1])


def folder_of(number):
    folder = os.path.join(FOLDER, str(number))
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    return folder


def compiled(folder, path, old, new):
    """Compiles the broken file. Returns its object in the build and the new one."""
    text = text_with(ROOT, path, old)
    with open(copied(ROOT, path, folder), "w", encoding="utf-8") as f:
        f.write(text.replace(old, new))
    output, = [o for o in COMPILE if o.endswith(f"/{os.path.basename(path)}.o")]
    command = compilation(COMPILE[output]["command"])
    command[-1] = in_copy(ROOT, path, folder, os.path.normpath(os.path.join(BUILD, command[-1])))
    result = os.path.join(folder, "changed.o")
    command[command.index("-o") + 1] = result
    for flag, n in (("-MD", 1), ("-MQ", 2), ("-MF", 2)):
        at = command.index(flag)
        del command[at:at + n]
    command = [a if not a.startswith("-O") else "-O1" for a in command]
    subprocess.run([command[0], "-w", *command[1:]], cwd=BUILD, check=True)
    return output, result


def linked(folder, output=None, result=None):
    command = [result if a == output else a for a in LINK]
    path = os.path.join(folder, "bp_npu.so")
    command[command.index("-o") + 1] = path
    subprocess.run(command, cwd=BUILD, check=True)
    return path


def conform(plugin, cases):
    """Returns the bad cases and the number of cases. A misuse of CANN is a bad case, too."""
    folder = os.path.dirname(plugin)
    report = os.path.join(folder, "report.json")
    if os.path.exists(report):
        os.unlink(report)
    env = setting.environment(folder, "v9", BP_STANDIN_KEEP="0", BP_STANDIN_DELAY="0", BP_PLUGIN_PATH=FOLDER)
    done = subprocess.run([setting.bp, "conform", plugin, "--suite", "kernel", "--filter", cases, "--json", report, "-j", "1"],
                          capture_output=True, text=True, timeout=LIMIT, env=env, stdin=subprocess.DEVNULL)
    assert os.path.exists(report), f"no report: exit status {done.returncode}: {done.stderr[-500:]}"
    with open(report, encoding="utf-8") as f:
        ran = json.load(f)["cases"]
    bad = [(c["id"], " ".join((c.get("message") or "").split())) for c in ran if c["outcome"] in BAD]
    return bad or [("misuse", line) for line in misuses(env).splitlines()[:1]], len(ran)


def unreported(plugin, step):
    """The same for a step of npu_steps with bad values, which has to fail."""
    folder = os.path.dirname(plugin)
    shutil.copy(os.path.join(BUILD, "plugins/npu/bp_npu.json"), folder)
    env = setting.environment(folder, "v9", BP_STANDIN_DELAY="0", BP_PLUGIN_PATH=folder)
    status, text = run(env, setting.steps, "npu:0", step, timeout=LIMIT)
    found = dict(parse(text)[0])
    assert status == 0 and found.get("begin") == "BP_OK" and step in found, text
    return [] if found[step] == "BP_ERR_FAULT" else [(step, found[step])], 1


def tried(plugin, cases):
    words = cases.split()
    return unreported(plugin, words[1]) if words[0] == "step" else conform(plugin, cases)


def attempt(number, path, old, new, cases):
    folder = folder_of(number)
    try:
        bad, n = tried(linked(folder, *compiled(folder, path, old, new)), cases)
        return bool(bad), f"{bad[0][0]}: {bad[0][1][:150]}" if bad else f"{n} cases did not notice"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def chosen():
    if os.environ.get("MUTANTS"):
        return [m for m in NPU if any(fnmatch.fnmatch(text, os.environ["MUTANTS"]) for text in (m[0], m[4]))]
    if os.environ.get("LARGE_TESTS"):
        return NPU
    seed = int(os.environ.get("MUTANTS_SEED") or tree_hash(Tree(ROOT)))
    print(f"# MUTANTS_SEED={seed}: {SOME} of {len(NPU)}", flush=True)
    return some(NPU, SOME, seed)


def sound(mutants):
    """The unbroken plugin, linked in the same way, passes the same cases."""
    plugin = linked(folder_of(0))
    for cases in sorted({m[4] for m in mutants}):
        bad, n = tried(plugin, cases)
        assert n and not bad, f"{cases}: {n} cases; bad: {bad[:3]}"


def main():
    mutants = chosen()
    sound(mutants)
    return run_all(mutants, attempt)


sys.exit(main())
