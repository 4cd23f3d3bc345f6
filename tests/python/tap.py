# SPDX-License-Identifier: Apache-2.0
"""Runs the functions of a test program whose names begin with test_, in the order of the file: one TAP line for each.

A test fails by an exception, and is skipped by Skip(reason). The first argument of the program is the build directory;
the package and the cpu plugin are found there.
"""
import os
import subprocess
import sys
import traceback

BUILD = os.path.abspath(sys.argv[1])
PACKAGE = os.path.join(BUILD, "sdk", "bridges", "python")
HOSTILE = os.path.join(BUILD, "tests", "plugins")
os.environ.pop("LD_LIBRARY_PATH", None)  # of meson: the package finds its libraries by itself
os.environ.setdefault("BP_PLUGIN_PATH", os.path.join(BUILD, "plugins", "cpu"))
sys.path.insert(0, PACKAGE)


class Skip(Exception):
    """A test that cannot run here, with the reason."""


def same(got, expected):
    assert got == expected, f"got {got!r}, expected {expected!r}"


def close(got, expected, tolerance=1e-6):
    flat = []

    def visit(a, b):
        if isinstance(b, (list, tuple)):
            same(len(a), len(b))
            for pair in zip(a, b):
                visit(*pair)
        else:
            flat.append(abs(a - b))
    visit(got, expected)
    assert all(d <= tolerance for d in flat), f"got {got!r}, expected {expected!r}"


def raises(kind, function, *args, has="", **kw):
    """Checks that a call raises an exception of this kind with this text; returns the exception."""
    try:
        result = function(*args, **kw)
    except kind as error:
        assert has in str(error), f"{has!r} is not in {error!s}"
        return error
    raise AssertionError(f"no {kind.__name__}, but {result!r}")


def run_python(code, env=None, status=0, limit=60, quiet=True):
    """The output of a Python process that imports the package first; checks its exit status. quiet: standard error
    has to be empty."""
    head = f"import sys; sys.path.insert(0, {PACKAGE!r}); import backplane as bp\n"
    done = subprocess.run([sys.executable, "-c", head + code], capture_output=True, text=True, timeout=limit,
                          env={**os.environ, **(env or {})})
    assert done.returncode == status, f"exit status {done.returncode}, expected {status}\n{done.stdout}{done.stderr}"
    assert not (quiet and done.stderr), done.stderr
    return done.stdout


def main(names):
    tests = [(name, value) for name, value in names.items() if name.startswith("test_") and callable(value)]
    print(f"1..{len(tests)}", flush=True)
    failed = 0
    for number, (name, test) in enumerate(tests, 1):
        title = name[5:].replace("_", " ")
        try:
            test()
        except Skip as reason:
            print(f"ok {number} - {title} # skip {reason}")
        except BaseException:
            failed += 1
            print(f"not ok {number} - {title}")
            print("".join("# " + line + "\n" for line in traceback.format_exc().splitlines()), end="")
        else:
            print(f"ok {number} - {title}")
        sys.stdout.flush()
    return 1 if failed else 0
