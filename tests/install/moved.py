#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that an installed Backplane works wherever it is moved, and that apps and plugins can be built with it.

    moved.py ROOT BUILD

Installs into a directory, moves that directory, and then runs bp, builds the example app in C and a program in C++ with
pkg-config, outside the source tree, and builds a copy of the template. One TAP line for each. No environment variable is
set that would help to find a file.
"""
import filecmp
import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT, BUILD = (os.path.abspath(p) for p in sys.argv[1:3])
CPP = r"""
#include <backplane/backplane.h>
#include <backplane/kernel.h>
#include <cstdio>
int main() { std::printf("%s %s\n", bp_version(), bp_status_name(BP_ERR_ABSENT)); }
"""
# y = |x|, for 4 f32, as ONNX encodes it
ABS = (b"\x08\x08\x3a\x2c\x0a\x0b\x0a\x01\x78\x12\x01\x79\x22\x03\x41\x62\x73\x12\x01\x67\x5a\x0f\x0a\x01"
       b"\x78\x12\x0a\x0a\x08\x08\x01\x12\x04\x0a\x02\x08\x04\x62\x09\x0a\x01\x79\x12\x04\x0a\x02\x08\x01"
       b"\x42\x02\x10\x0d")
EXPECTED = "cpu:0: 770 1100 1650 2420\n"


class Failed(Exception):
    pass


def run(*command, cwd, env=None):
    """Returns the output of a command; raises Failed with all of its output if the command fails."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("BP_", "LD_", "PKG_CONFIG"))}
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env={**clean, **(env or {})})
    if done.returncode:
        raise Failed(f"{shlex.join(command)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def expect(condition, text):
    if not condition:
        raise Failed(text)


class Moved:
    """The moved tree, and a directory for builds."""

    def __init__(self, top):
        self.prefix, self.work = os.path.join(top, "elsewhere", "backplane"), os.path.join(top, "app")
        os.mkdir(self.work)
        stage = os.path.join(top, "stage")
        run("meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", stage, cwd=ROOT)
        with open(os.path.join(BUILD, "meson-info", "intro-buildoptions.json"), encoding="utf-8") as f:
            option = {o["name"]: o["value"] for o in json.load(f)}
        shutil.move(stage + option["prefix"], self.prefix)
        shutil.rmtree(stage)
        self.libdir = os.path.join(self.prefix, option["libdir"])
        self.bp_path = os.path.join(self.prefix, "bin", "bp")

    def bp(self, *arguments):
        return run(self.bp_path, *arguments, cwd=self.work)

    def flags(self, *wanted):
        env = {"PKG_CONFIG_PATH": os.path.join(self.libdir, "pkgconfig")}
        return shlex.split(run("pkg-config", *wanted, "backplane", cwd=self.work, env=env))

    def build(self, compiler, source, *more):
        output = os.path.join(self.work, "program")
        run(compiler, "-Wall", "-Wextra", "-Wpedantic", "-Werror", source, "-o", output,
            *self.flags("--cflags", "--libs"), "-Wl,-rpath," + self.libdir, *more, cwd=self.work)
        return run(output, cwd=self.work)


def headers(moved):
    """All public headers are installed, and equal those of the tree."""
    there = os.path.join(moved.prefix, "include", "backplane")
    for path in glob.glob(f"{ROOT}/*/include/backplane/*.h") + glob.glob(f"{BUILD}/sdk/include/backplane/*.h"):
        copy = os.path.join(there, os.path.basename(path))
        expect(os.path.exists(copy) and filecmp.cmp(path, copy, False), f"{copy} is missing or differs")


def bp_list(moved):
    """bp list finds the cpu plugin of the moved tree, and it has devices."""
    found = json.loads(moved.bp("list", "--probe", "--json"))["plugins"]
    expect([p["state"] for p in found if p["name"] == "cpu"] == ["ready"], f"expected cpu, ready; got {found}")
    expect(f"{moved.libdir}/backplane/bp_cpu.so" in moved.bp("doctor", "cpu"),
           f"bp doctor cpu does not name the moved library:\n{moved.bp('doctor', 'cpu')}")


def no_old_paths(moved):
    """No file that was installed names the build directory or the source tree."""
    for folder, _, names in os.walk(moved.prefix):
        for path in (os.path.join(folder, n) for n in names):
            with open(path, "rb") as f:
                data = f.read()
            if path.endswith((".pc", ".json", ".h")):
                expect(ROOT.encode() not in data and BUILD.encode() not in data, f"{path} names the source tree")
            elif data[:4] == b"\x7fELF":
                dynamic = run("readelf", "-d", path, cwd=moved.work)
                expect(BUILD not in dynamic, f"{path} has the build directory in its run path:\n{dynamic}")


def app_c(moved):
    """The example app builds with pkg-config outside the tree and computes the right numbers."""
    shutil.copy(os.path.join(ROOT, "examples", "app.c"), moved.work)
    printed = moved.build("gcc", "app.c", "-std=c11")
    expect(printed == EXPECTED, f"app.c printed {printed!r}, expected {EXPECTED!r}")


def app_cpp(moved):
    """A C++17 program builds against the same headers and library."""
    with open(os.path.join(moved.work, "app.cpp"), "w", encoding="utf-8") as f:
        f.write(CPP)
    version = run("pkg-config", "--modversion", "backplane", cwd=moved.work,
                  env={"PKG_CONFIG_PATH": os.path.join(moved.libdir, "pkgconfig")}).strip()
    printed = moved.build("g++", "app.cpp", "-std=c++17")
    expect(printed == f"{version} BP_ERR_ABSENT\n", f"it printed {printed!r}")


def app_onnx(moved):
    """The app of docs/onnx.md builds with pkg-config and runs a model, if the library is built."""
    if not os.path.exists(os.path.join(moved.prefix, "include", "backplane", "model.h")):
        return
    with open(os.path.join(ROOT, "docs", "onnx.md"), encoding="utf-8") as f:
        block = re.search(r"```c complete\n(.*?)```", f.read(), re.S).group(1)
    with open(os.path.join(moved.work, "model.c"), "w", encoding="utf-8") as f:
        f.write(block)
    env = {"PKG_CONFIG_PATH": os.path.join(moved.libdir, "pkgconfig")}
    flags = shlex.split(run("pkg-config", "--cflags", "--libs", "backplane-onnx", cwd=moved.work, env=env))
    run("gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "model.c", "-o", "model", *flags,
        "-Wl,-rpath," + moved.libdir, cwd=moved.work)
    with open(os.path.join(moved.work, "abs.onnx"), "wb") as f:
        f.write(ABS)
    run(os.path.join(moved.work, "model"), "abs.onnx", cwd=moved.work)


def vendor(moved):
    """The installed template, renamed and built as its README says, is a plugin that bp loads."""
    folder = os.path.join(moved.work, "mydev")
    with open(os.path.join(moved.prefix, "share/backplane/template/address/README.md"), encoding="utf-8") as f:
        block = re.search(r"```sh\n(.*?)```", f.read(), re.S).group(1)
    env = {"PATH": f"{os.path.dirname(moved.bp_path)}:{os.environ['PATH']}",
           "PKG_CONFIG_PATH": os.path.join(moved.libdir, "pkgconfig"), "BP_PLUGIN_PATH": folder}
    run("bash", "-e", "-c", block + "bp manifest bp_mydev.so\n", cwd=moved.work, env=env)
    found = json.loads(run("bp", "list", "--probe", "--json", cwd=folder, env=env))["plugins"]
    expect([p["state"] for p in found if p["name"] == "mydev"] == ["ready"], f"expected mydev, ready; got {found}")


def run_all(make, tests):
    """Runs the tests with what make returns for a directory; returns the exit status."""
    print(f"1..{len(tests)}")
    failed = 0
    # Inside the build directory, because no plugin is loaded from a directory that other users may write to.
    with tempfile.TemporaryDirectory(dir=BUILD, prefix="install-") as top:
        moved = make(top)
        for number, test in enumerate(tests, 1):
            problem = None
            try:
                test(moved)
            except (Failed, OSError, ValueError, KeyError) as error:
                problem = str(error) or repr(error)
            failed += problem is not None
            print(f"{'not ok' if problem is not None else 'ok'} {number} - {test.__doc__}", flush=True)
            for line in (problem or "").splitlines():
                print("#  ", line)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(run_all(Moved, [headers, bp_list, no_old_paths, app_c, app_cpp, app_onnx, vendor]))
