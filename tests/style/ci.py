#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Proves that the rules of tests/ci_rules.py hold, and that .ci/run adds the counts of its two commands.

Each step of each kind of run has a budget, the budgets fit the time of a run, and only a program that fails by chance,
is listed, and runs in continuous integration is run again.
"""
import contextlib
import datetime
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import ci_rules  # noqa: E402
import run  # noqa: E402

TODAY = datetime.date(2026, 5, 31)
MODES = ("quick", "default", "full", "only-asan", "only-tsan", "only-fuzz", "only-conform", "only-sanitized")


# --- budgets -----------------------------------------------------------------------------------------

def nothing(_run, _kind, *command, **_options):
    return subprocess.CompletedProcess(command, 0, "")


@contextlib.contextmanager
def replaced(place, **others):
    before = {name: getattr(place, name) for name in others}
    for name, other in others.items():
        setattr(place, name, other)
    try:
        yield
    finally:
        for name, old in before.items():
            setattr(place, name, old)


def touched(*path):
    path = os.path.join(*path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8"):
        pass
    return path


def dry_run(mode, folder):
    """The run object after a run of that mode in which no command is executed, and its output."""
    build, text = os.path.join(folder, mode), io.StringIO()
    icd = touched(folder, "pocl.icd")
    for kind in ("", "-asan", "-tsan", "-fuzz"):
        touched(build + kind, "plugins", "xpu", "bp_xpu.so")
        for plugin in run.GPUS:
            for file in (run.standin.plugin(plugin), *run.standin.KINDS[plugin].targets):
                touched(build + kind, file)
        touched(build + kind, "tests", "fuzz", "fuzz_any")
    result = run.Run(build, run.Count([]), full=mode == "full")
    with replaced(run, execute=nothing, opencl=lambda _: {"OCL_ICD_VENDORS": icd}), contextlib.redirect_stdout(text):
        run.steps(result, mode, "120")
    return text.getvalue()


def without_budget():
    """Lines of steps of any run that have no budget."""
    with tempfile.TemporaryDirectory() as folder:
        texts = {mode: dry_run(mode, folder) for mode in MODES}
    return [f"{mode}: {line}" for mode, text in texts.items() for line in text.splitlines()
            if " s of none" in line or "without a budget" in line], texts


def every_step_has_a_budget():
    lacking, texts = without_budget()
    return not lacking and all(text.count(" s of ") > 3 for text in texts.values())


def a_step_without_a_budget_fails():
    lost = {k: v for k, v in ci_rules.BUDGETS.items() if k != "normal: ccl"}
    with replaced(ci_rules, BUDGETS=lost):
        lacking, _ = without_budget()
    return any("normal: ccl" in line for line in lacking)


def the_budgets_fit_the_run():
    """Those of the steps that ./dev test takes one after another; a step may come twice."""
    _, texts = without_budget()
    titles = re.findall(r"^(.+?) +\d+ passed ", texts["default"], re.M)
    kinds = [ci_rules.BUDGETS[title] for title in titles]
    wall = sum(seconds for seconds, what in kinds if what == ci_rules.WALL)
    return (1000 < wall <= ci_rules.TEST_SECONDS == 25 * 60 and ci_rules.OTHER not in dict(map(reversed, kinds))
            and all(what != ci_rules.WALL or title in titles + ["normal: conform xpu beside cpu"]
                    for title, (_, what) in ci_rules.BUDGETS.items()))


def no_step_is_lost_beside():
    """./dev test and the runs that it starts beside take each step that has a budget of theirs."""
    begun = []

    def listed(_run, _kind, *command, **_options):
        begun.extend(word[2:] for word in command if word.startswith("--only-"))
        return subprocess.CompletedProcess(command, 0, "")

    with replaced(sys.modules[__name__], nothing=listed), tempfile.TemporaryDirectory() as folder:
        texts = [dry_run("default", folder)]
        beside = sorted(begun)
        texts += [dry_run(mode, folder) for mode in beside]
    titles = set(re.findall(r"^(.+?) +\d+ passed ", "\n".join(texts), re.M)) | {"normal: conform xpu beside cpu"}
    wanted = {title for title, (_, what) in ci_rules.BUDGETS.items() if what != ci_rules.OTHER}
    return beside == ["only-conform", "only-sanitized"] and wanted <= titles


def a_run_beside_has_no_flags_of_the_caller():
    """PoCL leaks the flags of ./dev test's normal steps, which LeakSanitizer reports."""
    with tempfile.TemporaryDirectory() as folder:
        normal = run.Run(os.path.join(folder, "build"), run.Count([])).env("normal")
        before = dict(os.environ)
        try:
            os.environ.update(normal)
            beside = run.Run(os.path.join(folder, "build"), run.Count([]))
            return "POCL_EXTRA_BUILD_FLAGS" in normal and "POCL_EXTRA_BUILD_FLAGS" not in beside.env("asan")
        finally:
            os.environ.clear()
            os.environ.update(before)


def a_slow_step_is_named():
    r, text = run.Run("/nowhere", run.Count([])), io.StringIO()
    with contextlib.redirect_stdout(text):
        with r.step("normal: ccl", seconds=100000):
            r.count.pass_()
        with r.step("normal: ops", seconds=0.1):
            r.count.pass_()
    words = "\n".join(run.last_words(r, "quick"))
    return (text.getvalue().count(" over\n") == 1 and "normal: ccl (100000 s of" in words and "ops" not in words
            and not r.count.failed)


# --- unstable programs -------------------------------------------------------------------------------

def listed(*lines):
    return ci_rules.parse_unstable("# a comment\n\n" + "\n".join(lines), TODAY)


GOOD = ["ccl/comm 2026-05-20: a rank is late", "unit/copy 2026-05-01: unknown", "thread/waits 2026-05-31: unknown"]


def refused(part, *lines):
    _, wrong = listed(*lines)
    return len(wrong) == 1 and part in wrong[0]


def failed_program(result="ERROR", status=1, stdout="1..1\nnot ok 1 - x\n", stderr=""):
    return {"name": "backplane:ccl / comm", "result": result, "returncode": status, "stdout": stdout, "stderr": stderr,
            "duration": 1.0}


def meson(directory, results):
    """Stands for meson: each call writes the log of a program with the next of these results."""
    calls = []

    def call(_run, _kind, *command, **options):
        calls.append((command, options))
        result = results[len(calls) - 1]
        if result:
            with open(os.path.join(directory, "meson-logs", "again.json"), "w", encoding="utf-8") as f:
                f.write('{"name": "backplane:ccl / comm", "result": "%s", "stdout": "1..1\\nok 1 - x\\n", "duration": 1.0}\n'
                        % result)
        return subprocess.CompletedProcess(command, 0, "")
    return call, calls


def repeated(results, test=None, kind="normal", ci="true", names=GOOD):
    """(passed, failed, runs, last lines) of a program that failed, with these results of more runs."""
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(os.path.join(folder, "meson-logs"))
        r = run.Run(folder, run.Count([]))
        r.listed, _ = listed(*names)
        call, calls = meson(folder, results)
        environment = {**os.environ, "CI": ci}
        with replaced(run, execute=call), replaced(os, environ=environment):
            run.count_test(r.count, "ccl", run.repeated(r, kind, "ccl", test or failed_program()))
        slow = [o for _, o in calls if not 0 < o["limit"] <= 120]
        return r.count.passed, r.count.failed, len(calls) + 100 * len(slow), list(run.last_words(r, "quick"))


# --- .ci/run -------------------------------------------------------------------------------------------

def ci_run(*commands):
    """(exit status, last line, lines that begin with FAIL) of .ci/run if dev prints these lines, and ends with these
    statuses, for `test` and `peers test`. Other arguments are an error of dev."""
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, ".ci"))
        shutil.copy(os.path.join(run.ROOT, ".ci", "run"), os.path.join(folder, ".ci", "run"))
        with open(os.path.join(folder, "dev"), "w", encoding="utf-8") as dev:
            dev.write('#!/bin/sh\ncase "$*" in\n' + "".join(
                f"'{arguments}') echo first; echo '{last}'; exit {status} ;;\n"
                for arguments, (last, status) in zip(("test", "peers test"), commands)) + "*) exit 2 ;;\nesac\n")
        os.chmod(dev.name, 0o755)
        done = subprocess.run([os.path.join(folder, ".ci", "run")], stdout=subprocess.PIPE, text=True, check=False)
    lines = done.stdout.splitlines()
    return done.returncode, lines[-1], sum(line.startswith("FAIL") for line in lines)


NOT_AGAIN = (0, 1, 0, [])
CHECKS = {
    "every step of every run has a budget": every_step_has_a_budget,
    "a step without a budget is a failure": a_step_without_a_budget_fails,
    "the budgets fit 25 minutes": the_budgets_fit_the_run,
    "no step is lost beside": no_step_is_lost_beside,
    "a run beside has no flags of the caller": a_run_beside_has_no_flags_of_the_caller,
    "a step over its budget is named": a_slow_step_is_named,
    "three names with dates and causes are a good list": lambda: listed(*GOOD)[1] == [] and len(listed(*GOOD)[0]) == 3,
    "a fourth name is refused": lambda: refused("4 names", *GOOD, "gpu/calls 2026-05-31: unknown"),
    "a name of 30 days ago is good": lambda: listed("unit/copy 2026-05-01: unknown")[1] == [],
    "a name of 31 days ago is refused": lambda: refused("2026-04-30", "unit/copy 2026-04-30: unknown"),
    "a date to come is refused": lambda: refused("2026-06-01", "unit/copy 2026-06-01: unknown"),
    "a date that is none is refused": lambda: refused("2026-02-31", "unit/copy 2026-02-31: unknown"),
    "a name without a cause is refused": lambda: refused("expected", "unit/copy 2026-05-31:"),
    "mutants are refused": lambda: refused("mutants", "unit/pool_mutants 2026-05-31: unknown"),
    "conformance is refused": lambda: refused("conformance", "conform/teeth 2026-05-31: unknown"),
    "style is refused": lambda: refused("style", "style/rules 2026-05-31: unknown"),
    "two passes after a failure are a pass": lambda: repeated(["OK", "OK"]) == (1, 0, 2, ["unstable: ccl/comm"]),
    "a failure after a failure is a failure": lambda: repeated(["FAIL"]) == (0, 1, 1, []),
    "a pass and a failure are a failure": lambda: repeated(["OK", "FAIL"]) == (0, 1, 2, []),
    "a run that leaves no log is a failure": lambda: repeated(["OK", None]) == (0, 1, 2, []),
    "a program that was too slow is run again": lambda: repeated(
        ["OK", "OK"], failed_program("TIMEOUT", -15)) == (1, 0, 2, ["unstable: ccl/comm"]),
    "a program that is not listed is not": lambda: repeated([], names=GOOD[1:]) == NOT_AGAIN,
    "no program is without CI": lambda: repeated([], ci="") == NOT_AGAIN,
    "no program is under a sanitizer": lambda: repeated([], kind="asan") == NOT_AGAIN,
    "no program that a signal ended": lambda: repeated([], failed_program("ERROR", -11))[1:] == NOT_AGAIN[1:],
    "no program whose test a signal ended": lambda: repeated(
        [], failed_program(stdout="1..1\nnot ok 1 - x: unexpected signal\n")) == NOT_AGAIN,
    "no program with a sanitizer's report": lambda: repeated(
        [], failed_program(stderr="==7==ERROR: AddressSanitizer: heap-use-after-free")) == NOT_AGAIN,
    ".ci/run adds the counts of both commands": lambda: ci_run(
        ("40 passed, 0 failed, 2 skipped", 0), ("5 passed, 0 failed, 1 skipped", 0))
    == (0, "45 passed, 0 failed, 3 skipped", 0),
    "a failure of the first command is a failure of .ci/run": lambda: ci_run(
        ("39 passed, 1 failed, 2 skipped", 1), ("5 passed, 0 failed, 1 skipped", 0))
    == (1, "44 passed, 1 failed, 3 skipped", 0),
    "a failure of the second command is a failure of .ci/run": lambda: ci_run(
        ("40 passed, 0 failed, 2 skipped", 0), ("3 passed, 2 failed, 1 skipped", 1))
    == (1, "43 passed, 2 failed, 3 skipped", 0),
    "a command that breaks off is a failure": lambda: ci_run(
        ("Segmentation fault", 139), ("5 passed, 0 failed, 1 skipped", 0)) == (1, "5 passed, 1 failed, 1 skipped", 1),
    "a command without a count is a failure": lambda: ci_run(
        ("40 passed, 0 failed, 2 skipped", 0), ("done", 0)) == (1, "40 passed, 1 failed, 2 skipped", 1),
    "a command without a count that ends with status 1 is a failure": lambda: ci_run(
        ("40 passed, 0 failed, 2 skipped", 0), ("done", 1)) == (1, "40 passed, 1 failed, 2 skipped", 1),
    "a status that does not fit the count is a failure": lambda: ci_run(
        ("40 passed, 0 failed, 2 skipped", 1), ("5 passed, 0 failed, 1 skipped", 0))
    == (1, "45 passed, 1 failed, 3 skipped", 1),
}


def main():
    print(f"1..{len(CHECKS)}")
    failed = 0
    for number, (title, check) in enumerate(CHECKS.items(), 1):
        good = check()
        failed += not good
        print(f"{'ok' if good else 'not ok'} {number} - {title}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
