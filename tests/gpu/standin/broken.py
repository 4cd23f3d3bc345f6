#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that conformance on the stand-ins for drivers finds defects in the real plugins.

Each mutant of tests/mutants/gpu.py is tried: a broken file of the plugin, or of the dialect of one image; also a
damaged embedded image, and a device of another architecture. MUTANTS=GLOB selects mutants by name.

    broken.py ROOT BUILD BP

TAP.
"""
import fnmatch
import glob
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT, BUILD, BP = (os.path.abspath(a) for a in sys.argv[1:4])
sys.path[:0] = [os.path.join(ROOT, "tests", "mutants"), os.path.join(ROOT, "tests", "targets")]
from every import copied, in_copy, text_with  # noqa: E402
from gpu import GPUS, IMAGES, SOFTMAX  # noqa: E402
from mutate import compilation, run_all  # noqa: E402
import standin  # noqa: E402

FOLDER = os.path.join(BUILD, "tests", "gpu", "standin", "broken")
BAD = ("fail", "crash", "timeout")
LIMIT = 120  # seconds for one run
OTHER = {"cuda": "75", "hip": "gfx1030"}  # devices for which the images of tests are not compiled
LEFT_OUT = {"cuda": "is sm_75, and kernels are compiled for 80", "hip": "is gfx1030:sramecc+:xnack-, and kernels are compiled for gfx90a"}


def ninja(tool, *what):
    return subprocess.run(["ninja", "-C", BUILD, "-t", tool, *what], capture_output=True, text=True, check=True).stdout


PLUGINS = [name for name in ("cuda", "hip") if not standin.missing(BUILD, name)]
COMPILE = {e["output"]: e for e in json.loads(ninja("compdb")) if e["output"].startswith(("plugins/cuda/", "plugins/hip/"))}


def broken_copy(folder, path, old, new):
    """Copies the files beside a file, with the file itself broken."""
    text = text_with(ROOT, path, old)
    with open(copied(ROOT, path, folder), "w", encoding="utf-8") as f:
        f.write(text.replace(old, new))


def made(folder, path, old, new, plugin, part):
    """Compiles an object of the plugin from a copy of its folder with the file broken; returns its name in the
    build and its path."""
    broken_copy(folder, path, old, new)
    output, = [o for o in COMPILE if o.startswith(f"plugins/{plugin}/bp_{plugin}.so.p/") and o.endswith(part)]
    command = compilation(COMPILE[output]["command"])
    command[-1] = in_copy(ROOT, path, folder, os.path.normpath(os.path.join(BUILD, command[-1])))
    result = os.path.join(folder, "changed.o")
    command[command.index("-o") + 1] = result
    for flag, n in (("-MD", 1), ("-MQ", 2), ("-MF", 2)):
        at = command.index(flag)
        del command[at:at + n]
    command = [a if not a.startswith("-O") else "-O1" for a in command]
    subprocess.run([command[0], "-w", f"-I{folder}", f"-I{os.path.join(ROOT, 'plugins')}", *command[1:]], cwd=BUILD, check=True)
    return output, result


def made_image(folder, path, old, new, plugin, image):
    """Makes the object with the images of the plugin, one of them compiled from the broken dialect."""
    broken_copy(folder, path, old, new)
    image = os.path.basename(sorted(glob.glob(os.path.join(BUILD, "plugins", plugin, image)))[0])  # for one of the devices
    for target, result in ((image, image), (f"{plugin}_images.o", "changed.o")):
        command = shlex.split(ninja("commands", f"plugins/{plugin}/{target}").splitlines()[-1])
        command[command.index("-o") + 1] = os.path.join(folder, result)
        if "-MF" in command:
            command[command.index("-MF") + 1] = os.path.join(folder, "changed.d")
        at = next(i for i, a in enumerate(command) if a.startswith("-I"))
        subprocess.run([*command[:at], f"-I{folder}", *command[at:]], cwd=BUILD, check=True, capture_output=True)
    return f"plugins/{plugin}/{plugin}_images.o", os.path.join(folder, "changed.o")


def linked(folder, plugin, output, result):
    command = shlex.split(ninja("commands", f"plugins/{plugin}/bp_{plugin}.so").splitlines()[-1])
    command[command.index(output)] = result
    path = os.path.join(folder, f"bp_{plugin}.so")
    command[command.index("-o") + 1] = path
    subprocess.run(command, cwd=BUILD, check=True)
    return path


def conform(path, plugin, cases, **more):
    """Returns (bad cases, number of cases that ran, all output). Several runs of one library may overlap."""
    work = tempfile.mkdtemp(dir=FOLDER)
    report, log = os.path.join(work, "report.json"), os.path.join(work, "log")
    env = {k: v for k, v in os.environ.items() if not k.startswith("BP_")}
    env.update(standin.environment(BUILD, plugin, log), BP_PLUGIN_PATH=FOLDER, **more)
    done = subprocess.run([BP, "conform", path, "--quick", "--filter", cases, "--json", report, "-j", "1"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT, env=env,
                          stdin=subprocess.DEVNULL)
    text = [*standin.refused(log), done.stdout]
    if not os.path.exists(report):
        return [], 0, "\n".join(text)
    with open(report, encoding="utf-8") as f:
        ran = json.load(f)["cases"]
    bad = [c for c in ran if c["outcome"] in BAD]
    return bad, len(ran), "\n".join([*text, *(c.get("message") or "" for c in bad)])


def noticed(path, plugin, cases, said, **more):
    """Returns whether the job fails for the expected reason, and a description. The job fails if a case fails, if
    the device is missing, or if the stand-in refuses something; the output must contain `said`."""
    bad, n, text = conform(path, plugin, cases, **more)
    line = next((line.strip() for line in text.splitlines() if said in line), None)
    where = bad[0]["id"] if bad else f"{n} cases, none of which failed"
    return bool(line and (bad or not n or line.startswith("stand-in:"))), f"{where}: {(line or text[-300:])[:200]}"


def folder_of(number):
    folder = os.path.join(FOLDER, str(number))
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    return folder


def mutant(number, make, path, old, new, plugin, part, cases, said):
    folder = folder_of(number)
    try:
        return noticed(linked(folder, plugin, *make(folder, path, old, new, plugin, part)), plugin, cases, said)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def damaged(number, plugin, change, said):
    """Tests a plugin with a damaged image. change: a function of the bytes of the whole plugin."""
    folder = folder_of(number)
    path = os.path.join(folder, f"bp_{plugin}.so")
    try:
        with open(os.path.join(BUILD, "plugins", plugin, f"bp_{plugin}.so"), "rb") as f:
            before = f.read()
        after = change(before)
        assert after != before and len(after) == len(before), "the image has no such place"
        with open(path, "wb") as f:
            f.write(after)
        return noticed(path, plugin, SOFTMAX, said)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def wiped(data):
    """Overwrites the beginning of the image that has the kernel bp_softmax_f32 with zeros."""
    at = data.index(b"bp_softmax_f32")
    begin = max(data.rfind(magic, 0, at) for magic in (b"\x50\xed\x55\xba\x01\x00\x10\x00", b"\x7fELF\x02\x01\x01\x40"))
    return data[:begin] + bytes(64) + data[begin + 64:]


def renamed(data):
    return data.replace(b"bp_softmax_f32", b"bp_softmax_f33")


def elsewhere(_number, plugin):
    return noticed(os.path.join(BUILD, "plugins", plugin, f"bp_{plugin}.so"), plugin, SOFTMAX, LEFT_OUT[plugin],
                   BP_STANDIN_ARCH=OTHER[plugin])


def sound(_number, plugin):
    """Tests that the unchanged plugin passes the cases that mutants must fail."""
    for cases in sorted({m[6] for m in GPUS if m[4] == plugin}):
        bad, n, text = conform(os.path.join(BUILD, "plugins", plugin, f"bp_{plugin}.so"), plugin, cases)
        if bad or not n or "stand-in:" in text:
            return False, f"{cases}: {n} cases, bad {[c['id'] for c in bad][:3]}: {text[-300:]}"
    return True, "all its cases pass"


def attempt(number, test, *arguments):
    return test(number, *arguments)


def main():
    os.makedirs(FOLDER, exist_ok=True)
    todo = [(f"{plugin}: {name}", *test) for plugin in PLUGINS for name, test in (
        ("whole", (sound, plugin)),
        ("a device of another architecture is left out", (elsewhere, plugin)),
        ("one image is gone", (damaged, plugin, wiped, "ModuleLoadData answers 200: invalid kernel image")),
        ("a kernel has another name in its image", (damaged, plugin, renamed, "no kernel bp_softmax_f32 in an image that has")))]
    todo += [(f"{m[4]}: {m[0]}", mutant, make, *m[1:]) for mutants, make in ((GPUS, made), (IMAGES, made_image))
             for m in mutants if m[4] in PLUGINS]
    chosen = os.environ.get("MUTANTS")
    return run_all([t for t in todo if not chosen or fnmatch.fnmatch(t[0], chosen)], attempt)


sys.exit(main())
