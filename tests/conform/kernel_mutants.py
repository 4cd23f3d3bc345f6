#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The suite kernel has teeth: each kernel of tests/mutants/kernels*.py is broken once, in a cpu plugin of its
own, and a case of its operator must fail.

    kernel_mutants.py ROOT BUILD BP PLUGIN
"""
import concurrent.futures
import importlib
import json
import os
import shlex
import shutil
import subprocess
import sys

ROOT, BUILD, BP, PLUGIN = (os.path.abspath(a) for a in sys.argv[1:5])
sys.path.insert(0, os.path.join(ROOT, "tests", "mutants"))
KERNELS = [k for name in sorted(os.listdir(sys.path[0])) if name.startswith("kernels") and name.endswith(".py")
           for k in importlib.import_module(name[:-3]).KERNELS]

FOLDER = os.path.join(BUILD, "tests", "conform", "kernel_mutants")
BAD = ("fail", "crash", "timeout")
LIMIT = 120  # seconds, for one run


def ninja(tool, *what):
    return subprocess.run(["ninja", "-C", BUILD, "-t", tool, *what], capture_output=True, text=True, check=True).stdout


COMPILE = {e["output"]: e for e in json.loads(ninja("compdb")) if e["output"].startswith("plugins/cpu/")}
LINK = shlex.split(ninja("commands", os.path.relpath(PLUGIN, BUILD)).splitlines()[-1])


def copied(number, path, old, new):
    """A folder with the file broken, and whatever lies beside it."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        text = f.read()
    assert text.count(old) == 1, f"'{old}' stands {text.count(old)} times in {path}, expected once"
    folder = os.path.join(FOLDER, str(number))
    shutil.rmtree(folder, ignore_errors=True)
    beside = os.path.join(folder, os.path.basename(os.path.dirname(path)))
    shutil.copytree(os.path.dirname(os.path.join(ROOT, path)), beside)
    with open(os.path.join(beside, os.path.basename(path)), "w", encoding="utf-8") as f:
        f.write(text.replace(old, new))
    return folder


def compiled(folder, path, part):
    """The objects that become others: the one whose path has that part, from the folder's files."""
    output, = [o for o in COMPILE if part in o and o.endswith(".o")]
    command = shlex.split(COMPILE[output]["command"])
    source = os.path.normpath(os.path.join(BUILD, command[-1]))
    if source == os.path.join(ROOT, path):
        command[-1] = os.path.join(folder, os.path.basename(os.path.dirname(path)), os.path.basename(path))
    result = os.path.join(folder, "changed.o")
    command[command.index("-o") + 1] = result
    for flag, n in (("-MD", 1), ("-MQ", 2), ("-MF", 2)):
        at = command.index(flag)
        del command[at:at + n]
    command = [a if not a.startswith("-O") else "-O1" for a in command]
    if os.path.basename(command[0]) == "ccache":
        del command[0]
    subprocess.run([command[0], "-w", f"-I{folder}", *command[1:]], cwd=BUILD, check=True)
    return {output: result}


def linked(folder, changed):
    command = list(LINK)
    for output, result in changed.items():
        archive = output.split(".p/")[0]
        if archive.endswith(".a") and archive in command:  # a static library: its objects, one of them another
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
    env["BP_PLUGIN_PATH"] = FOLDER  # where there is none: the one that is named is the only one
    done = subprocess.run([BP, "conform", plugin, "--suite", "kernel", "--filter", cases, "--json", report, "-j", "1"],
                          capture_output=True, text=True, timeout=LIMIT, env=env, stdin=subprocess.DEVNULL)
    assert os.path.exists(report), f"no report: exit status {done.returncode}: {done.stderr[-500:]}"
    with open(report, encoding="utf-8") as f:
        ran = json.load(f)["cases"]
    return [c for c in ran if c["outcome"] in BAD], len(ran)


def attempt(numbered):
    number, (name, path, old, new, part, cases) = numbered
    try:
        folder = copied(number, path, old, new)
        bad, n = conform(linked(folder, compiled(folder, path, part)), cases)
        noticed = f"{bad[0]['id']}: {' '.join(bad[0]['message'].split())[:150]}" if bad else f"{n} cases did not notice"
        return number, name, bool(bad), noticed
    except (AssertionError, ValueError, subprocess.SubprocessError) as error:
        return number, name, False, str(error)
    finally:
        shutil.rmtree(os.path.join(FOLDER, str(number)), ignore_errors=True)


def sound():
    """The plugin as it is, linked in the same way, passes the same cases."""
    folder = os.path.join(FOLDER, "0")
    os.makedirs(folder, exist_ok=True)
    plugin = linked(folder, {})
    for cases in sorted({k[5] for k in KERNELS}):
        bad, n = conform(plugin, cases)
        assert n and not bad, f"{cases}: {n} cases; bad: {[c['id'] for c in bad][:3]}"
    shutil.rmtree(folder)


def main():
    sound()
    print(f"1..{len(KERNELS)}", flush=True)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for number, name, noticed, text in pool.map(attempt, enumerate(KERNELS, 1)):
            failed += not noticed
            print(f"{'ok' if noticed else 'not ok'} {number} - {name}\n# {text}", flush=True)
    return failed > 0


sys.exit(main())
