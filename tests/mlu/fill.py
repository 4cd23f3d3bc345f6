#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fills in numbers.h as docs/mlu.md says, with a header that stands in for the SDK's: the commands of the page, numbers that
differ, facts that are none, and a header that is filled in already.

    fill.py SOURCES COMPILER...
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

SOURCES, COMPILER = sys.argv[1], sys.argv[2:]
PAGE = "docs/mlu.md"
COMMAND = re.compile(r"^cc (.*print_numbers\.c -o print_numbers)$", re.M)
OPEN = re.compile(r"\b(?:NUMBER|FACT)\((\w+), OPEN")
tests = []


def test(function):
    tests.append(function)
    return function


def compile_in(folder):
    """Runs the page's command in a folder, with the stand-in for the SDK."""
    with open(os.path.join(SOURCES, PAGE), encoding="utf-8") as f:
        command, = COMMAND.findall(f.read())
    words = command.replace("$NEUWARE_HOME/include", "tests/mlu/sdk").split()
    done = subprocess.run([*COMPILER, *words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def fill(folder, *facts):
    """Runs the program; returns its exit status, the header, and the messages."""
    done = subprocess.run(["./print_numbers", *facts], cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def header(folder, text=None):
    path = os.path.join(folder, "plugins/mlu/numbers.h")
    if text is not None:
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
    with open(path, encoding="utf-8") as f:
        return f.read()


@test
def the_header_has_all_numbers_of_the_sdk_and_no_fact(folder):
    facts = re.findall(r"\bFACT\((\w+), OPEN", header(folder))
    compile_in(folder)
    code, text, errors = fill(folder)
    assert code == 0 and not errors and facts and OPEN.findall(text) == facts, (code, errors, OPEN.findall(text))
    assert "NUMBER(CNNL_OP_TENSOR_MUL, 13)" in text, text


@test
def facts_are_filled_in_and_stay(folder):
    compile_in(folder)
    code, text, _ = fill(folder, "BATCH_NORM_SAVES_INVERSE=1", "SCATTER_LAST_WINS=0")
    assert code == 0 and "FACT(BATCH_NORM_SAVES_INVERSE, 1, YES," in text and "FACT(SCATTER_LAST_WINS, 0, YES," in text, text
    header(folder, text)
    compile_in(folder)
    assert fill(folder) == (0, text, ""), "a header that is filled in is printed as it is"


@test
def a_fact_that_is_none_is_refused(folder):
    compile_in(folder)
    for word in ("SCATTER=1", "SCATTER_LAST_WINS", "SCATTER_LAST_WINS=yes", "SCATTER_LAST_WINS=10", "=1"):
        code, text, errors = fill(folder, word)
        assert code == 2 and not text and f"{word} is no fact of numbers.h" in errors, (word, code, text, errors)


@test
def numbers_that_differ_are_reported(folder):
    header(folder, header(folder).replace("NUMBER(CNNL_DTYPE_HALF, 1)", "NUMBER(CNNL_DTYPE_HALF, 3)"))
    compile_in(folder)
    code, text, errors = fill(folder)
    assert code == 1 and "CNNL_DTYPE_HALF is 3 in numbers.h and 1 in cnnl.h" in errors and "NUMBER(CNNL_DTYPE_HALF, 1)" in text, errors


def main():
    print(f"1..{len(tests)}")
    for number, function in enumerate(tests, 1):
        with tempfile.TemporaryDirectory() as folder:
            for path in ("plugins/mlu", "tests/mlu"):
                shutil.copytree(os.path.join(SOURCES, path), os.path.join(folder, path))
            try:
                function(folder)
                why = ""
            except (AssertionError, OSError, ValueError) as error:
                why = str(error) or "failed"
        print(f"{'not ok' if why else 'ok'} {number} - {function.__name__.replace('_', ' ')}", flush=True)
        for line in why.splitlines()[:20]:
            print(f"# {line[:1500]}")


main()
