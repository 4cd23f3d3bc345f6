#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the suites kernel and stress detect defects of kernels. The kernels of tests/mutants/kernels*.py are
broken one at a time, in a separate cpu plugin, and a case of the operator must fail. With LARGE_TESTS in the
environment all of them are tried, and those of tests/mutants/stress.py; otherwise 20, chosen by the hash of the tree,
so that the same tree has the same ones. MUTANTS_SEED=N chooses by that number. MUTANTS=GLOB tries those whose name or
cases match.

    kernel_mutants.py ROOT BUILD BP PLUGIN
"""
import fnmatch
import json
import os
import shlex
import shutil
import subprocess
import sys

ROOT, BUILD, BP, PLUGIN = (os.path.abspath(a) for a in sys.argv[1:5])
sys.path[:0] = [os.path.join(ROOT, "tests", "mutants"), os.path.join(ROOT, "tests", "style")]
from every import KERNELS, STRESS, copied, in_copy, some, text_with, tree_hash  # noqa: E402
from mutate import compilation, run_all  # noqa: E402
from style import Tree  # noqa: E402

FOLDER = os.path.join(BUILD, "tests", "conform", "kernel_mutants")
BAD = ("fail", "crash", "timeout")
LIMIT, LIMIT_STRESS = 120, 400  # seconds for one run
SOME = 20


def ninja(tool, *what):
    return subprocess.run(["ninja", "-C", BUILD, "-t", tool, *what], capture_output=True, text=True, check=True).stdout


COMPILE = {e["output"]: e for e in json.loads(ninja("compdb")) if e["output"].startswith("plugins/cpu/")}
LINK = shlex.split(ninja("commands", os.path.relpath(PLUGIN, BUILD)).splitlines()[-1])


def broken(number, path, old, new):
    """Makes a folder with the broken file and copies of the files beside it."""
    text = text_with(ROOT, path, old)
    folder = os.path.join(FOLDER, str(number))
    shutil.rmtree(folder, ignore_errors=True)
    with open(copied(ROOT, path, folder), "w", encoding="utf-8") as f:
        f.write(text.replace(old, new))
    return folder


def compiled(folder, path, part):
    """Compiles the object whose path contains `part` from the folder's files. Returns {original object: new object}."""
    output, = [o for o in COMPILE if part in o.replace("meson-generated_.._", "") and o.endswith(".o")]
    command = compilation(COMPILE[output]["command"])
    # If the source is not in the copy, -I makes the compiler find the broken header.
    command[-1] = in_copy(ROOT, path, folder, os.path.normpath(os.path.join(BUILD, command[-1])))
    result = os.path.join(folder, "changed.o")
    command[command.index("-o") + 1] = result
    for flag, n in (("-MD", 1), ("-MQ", 2), ("-MF", 2)):
        at = command.index(flag)
        del command[at:at + n]
    command = [a if not a.startswith("-O") else "-O1" for a in command]
    subprocess.run([command[0], "-w", f"-I{folder}", *command[1:]], cwd=BUILD, check=True)
    return {output: result}


def linked(folder, changed):
    command = list(LINK)
    for output, result in changed.items():
        archive = output.split(".p/")[0]
        if archive.endswith(".a") and archive in command:  # a static library: link its objects, one replaced
            objects = [o for o in COMPILE if o.startswith(archive + ".p/") and o.endswith(".o")]
            at = command.index(archive)
            command[at:at + 1] = [changed.get(o, o) for o in objects]
        else:
            command[command.index(output)] = result
    result = os.path.join(folder, "bp_cpu.so")
    command[command.index("-o") + 1] = result
    subprocess.run(command, cwd=BUILD, check=True)
    return result


def conform(plugin, cases):
    report = os.path.join(os.path.dirname(plugin), "report.json")
    env = {k: v for k, v in os.environ.items() if not k.startswith("BP_")}
    env["BP_PLUGIN_PATH"] = FOLDER  # no other plugin is there, so the named one is the only one
    suite, limit, *more = ("stress", LIMIT_STRESS, "--timeout", "300") if cases.startswith("stress/") else ("kernel", LIMIT)
    done = subprocess.run([BP, "conform", plugin, "--suite", suite, "--filter", cases, "--json", report, "-j", "1", *more],
                          capture_output=True, text=True, timeout=limit, env=env, stdin=subprocess.DEVNULL)
    assert os.path.exists(report), f"no report: exit status {done.returncode}: {done.stderr[-500:]}"
    with open(report, encoding="utf-8") as f:
        ran = json.load(f)["cases"]
    return [c for c in ran if c["outcome"] in BAD], len(ran)


def attempt(number, path, old, new, part, cases):
    try:
        folder = broken(number, path, old, new)
        bad, n = conform(linked(folder, compiled(folder, path, part)), cases)
        noticed = f"{bad[0]['id']}: {' '.join(bad[0]['message'].split())[:150]}" if bad else f"{n} cases did not notice"
        return bool(bad), noticed
    finally:
        shutil.rmtree(os.path.join(FOLDER, str(number)), ignore_errors=True)


def chosen():
    if os.environ.get("MUTANTS"):
        return [k for k in KERNELS + STRESS if any(fnmatch.fnmatch(text, os.environ["MUTANTS"]) for text in (k[0], k[5]))]
    if os.environ.get("LARGE_TESTS"):
        return KERNELS + STRESS
    seed = int(os.environ.get("MUTANTS_SEED") or tree_hash(Tree(ROOT)))
    print(f"# MUTANTS_SEED={seed}: {SOME} of {len(KERNELS)}", flush=True)
    return some(KERNELS, SOME, seed)


def sound(kernels):
    """The unbroken plugin, linked in the same way, passes the same cases."""
    folder = os.path.join(FOLDER, "0")
    os.makedirs(folder, exist_ok=True)
    plugin = linked(folder, {})
    for cases in sorted({k[5] for k in kernels}):
        bad, n = conform(plugin, cases)
        assert n and not bad, f"{cases}: {n} cases; bad: {[c['id'] for c in bad][:3]}"
    shutil.rmtree(folder)


def main():
    kernels = chosen()
    sound(kernels)
    return run_all(kernels, attempt)


sys.exit(main())
