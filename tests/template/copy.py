#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does the steps of a vendor with the template: copies it, builds it alone, renames it. Also checks its size.

    copy.py ROOT BUILD

Prints TAP. The program builds a copy with build.sh against the headers only; then it runs the harness on the copy, plain
and under the sanitizers.
"""
import ctypes
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import permitted  # noqa: E402

ROOT, BUILD = (os.path.abspath(p) for p in sys.argv[1:])
TEMPLATE = os.path.join(ROOT, "sdk", "template")
HEADERS = [f"-I{ROOT}/sdk/include", f"-I{BUILD}/sdk/include"]
WARNINGS = ["-Werror", "-Wpedantic", "-Wshadow", "-Wstrict-prototypes", "-Wmissing-prototypes", "-Wvla"]
LINES = 400  # exclusive limit


def run(*command, **more):
    """Returns the standard output; a failure raises with all of the output."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240, **more)
    if done.returncode:
        raise AssertionError(f"{' '.join(command)}\nexit status {done.returncode}\n{done.stdout}")
    return done.stdout


def copy(scratch, name):
    folder = os.path.join(scratch, name)
    shutil.copytree(TEMPLATE, folder, ignore=shutil.ignore_patterns("meson.build"))
    return folder


def harness(folder, flags, **env):
    """Builds the plugin copy and the harness with these flags, and runs the harness on the plugin."""
    run("sh", f"{folder}/build.sh", *HEADERS, *WARNINGS, *flags)
    program = os.path.join(folder, "test_template")
    sources = [f"{ROOT}/tests/template/{name}.c" for name in ("harness", "test_template")]
    run(os.environ.get("CC", "cc"), "-std=c11", "-D_GNU_SOURCE", "-g", *HEADERS, *flags, *sources, "-o", program,
        "-ldl", "-lpthread", "-lm")
    out = run(program, os.path.join(folder, "bp_template.so"), env=dict(os.environ, **env))
    if len(re.findall(r"^ok ", out, re.M)) < 10:
        raise AssertionError("the harness ran too few tests:\n" + out)


def size(_):
    lines = 0
    for path in glob.glob(f"{TEMPLATE}/*.[ch]"):
        with open(path, encoding="utf-8") as f:
            lines += sum(not line.lstrip().startswith("/*+ ") for line in f)  # those lines belong to features
    if not 200 < lines < LINES:
        raise AssertionError(f"the sources have {lines} lines; fewer than {LINES} are promised")


def alone(scratch):
    harness(copy(scratch, "alone"), [])


def with_clang(scratch):
    folder = copy(scratch, "clang")
    run("sh", f"{folder}/build.sh", *HEADERS, *WARNINGS, env=dict(os.environ, CC="clang"))


def address(scratch):
    harness(copy(scratch, "asan"), ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
            ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + permitted.leaks_option())


def thread(scratch):
    harness(copy(scratch, "tsan"), ["-fsanitize=thread"])


class Plugin(ctypes.Structure):
    """The first fields of struct bp_plugin."""
    _fields_ = [("size", ctypes.c_size_t), ("numbers", ctypes.c_uint32 * 4), ("name", ctypes.c_char_p),
                ("version", ctypes.c_char_p), ("kind", ctypes.c_char_p)]


def renamed(scratch):
    """Runs the steps of the README as written there, with the bp of the build."""
    folder = os.path.join(scratch, "mydev")
    with open(os.path.join(TEMPLATE, "README.md"), encoding="utf-8") as f:
        steps = re.search(r"^```sh\n(.*?)^```$", f.read(), re.M | re.S).group(1)
    steps = re.sub(r"^sh build.sh$", "sh build.sh " + " ".join(HEADERS + WARNINGS), steps, flags=re.M)
    run("bash", "-ec", steps, cwd=scratch, env=dict(os.environ, PATH=f"{BUILD}/sdk/tools:{os.environ['PATH']}"))
    for path in glob.glob(f"{folder}/*.[ch]") + [f"{folder}/build.sh"]:
        with open(path, encoding="utf-8") as f:
            if re.search("template", os.path.basename(path) + f.read(), re.I):
                raise AssertionError(f"{path} still says template")
    library = os.path.join(folder, "bp_mydev.so")
    symbols = run("nm", "-D", "--defined-only", library).split()[2::3]
    if symbols != ["bp_plugin_get"]:
        raise AssertionError(f"{library} exports {symbols}")
    get = ctypes.CDLL(library).bp_plugin_get
    get.restype = ctypes.POINTER(Plugin)
    found = get().contents
    if (found.name, found.kind) != (b"mydev", b"mydev"):
        raise AssertionError(f"{library} calls itself {found.name}, of kind {found.kind}")


CHECKS = [
    (f"the template has under {LINES} lines", size),
    ("a copy builds with the headers alone, and works", alone),
    ("a copy is clean under AddressSanitizer and UBSan", address),
    ("a copy is clean under ThreadSanitizer", thread),
    ("the rename steps of its README give another plugin", renamed),
]
if shutil.which("clang"):
    CHECKS.append(("a copy builds with clang", with_clang))


def main():
    failed = 0
    no_leaks = permitted.why_not("leaks")
    print(f"1..{len(CHECKS) + bool(no_leaks)}")
    with tempfile.TemporaryDirectory(prefix="bp-template-") as scratch:
        for number, (title, check) in enumerate(CHECKS, 1):
            try:
                check(scratch)
                print(f"ok {number} - {title}", flush=True)
            except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
                failed += 1
                print(f"not ok {number} - {title}")
                for line in str(error).splitlines():
                    print("#  ", line, flush=True)
    if no_leaks:
        print(f"ok {len(CHECKS) + 1} - without leaks # SKIP {no_leaks}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
