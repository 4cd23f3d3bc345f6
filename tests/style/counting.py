#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Proves that tests/run.py counts right: above all that it takes no program that broke off for a success; and that the builds which it
begins early give way to tests."""
import contextlib
import io
import json
import os
import sys
import stat
import tempfile
import time
import types

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import permitted  # noqa: E402
import run  # noqa: E402

permitted.PROBES = {"nothing": lambda: None, "something": lambda: "it is refused", "leaks": lambda: "it is refused"}

ALLOWED = """
# comment
unit/a/may skip: a reason
unit/b: a reason
conform/x/kernel/*: a reason
conform/x/**@row: a reason
unit/permitted: [nothing] a reason
unit/refused: [something] a reason
"""


def read(text):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "allowed")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return run.read_allowed(path)


def program(result, stdout="", name="backplane:unit / a"):
    return {"name": name, "result": result, "stdout": stdout, "stderr": "", "duration": 1.0}


def report(cases=("pass",) * 5, rows=(2, 2), **totals):
    """cases: outcomes, or (outcome, id)."""
    listed = [c if isinstance(c, tuple) else (c, "kernel/a/b") for c in cases]
    total = {o: sum(outcome == o for outcome, _ in listed)
             for o in ("pass", "fail", "crash", "timeout", "unsupported", "skip", "xfail", "xpass")}
    return {"totals": {**total, **totals}, "cases": [{"id": i, "outcome": o} for o, i in listed],
            "rows": {"executed": rows[0], "total": rows[1]}, "processor_seconds": 1.5}


def counted(add, *arguments):
    count = run.Count(read(ALLOWED))
    add(count, *arguments)
    return count.passed, count.failed, count.skipped


def of_program(*arguments, **named):
    return counted(run.count_test, "unit", program(*arguments, **named))


def of_report(status=0, **named):
    done = types.SimpleNamespace(returncode=status, stdout="")
    return counted(run.count_conform, "x", report(**named), done)


def of_pairs(cpu, device, bad=0):
    """So many pairs pass on cpu, on the device; of those bad have a case that fails."""
    reports = [report([("pass", f"kernel/op{i}/f32/one/1") for i in range(n)]) for n in (device, cpu)]
    reports[0]["cases"] += [{"id": f"kernel/op{i}/f32/two/2", "outcome": "fail"} for i in range(bad)]
    return counted(run.count_pairs, "x", reports[:-1], reports[-1])


def of_libfuzzer(status, output):
    return counted(run.count_libfuzzer, ["fuzz_x"], types.SimpleNamespace(returncode=status, stdout=output))


def gpus_without_plugins():
    """(passed, failed, skipped) of the steps of the GPU plugins where these are not built, which is reported."""
    text = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(text):
        r = run.Run(folder, run.Count(read("conform/cuda: a reason")))
        run.gpu_steps(r)
    told = all(f"conform {name}: not run: plugins/{name}/bp_{name}.so and" in text.getvalue() for name in run.GPUS)
    return (r.count.passed, r.count.failed, r.count.skipped) if told else None


def report_of_standin(lines, outcomes):
    """(passed, failed, skipped) of a step of a GPU plugin whose stand-in wrote so, and how often it is printed."""
    def execute(_run, _kind, *command, **more):
        with open(command[command.index("--json") + 1], "w", encoding="utf-8") as f:
            json.dump(report(outcomes), f)
        with open(more["BP_STANDIN_LOG"], "w", encoding="utf-8") as f:
            f.write(lines)
        return types.SimpleNamespace(returncode=0, stdout="")

    before, text = run.execute, io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(text):
        for name in (run.standin.plugin("hip"), *run.standin.KINDS["hip"].targets, "meson-logs/any"):
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            with open(os.path.join(folder, name), "w", encoding="utf-8"):
                pass
        run.execute, r = execute, run.Run(folder, run.Count([]))
        try:
            run.conform_step(r, "normal", "hip", "--quick", "--suite=kernel")
        finally:
            run.execute = before
    return r.count.passed, r.count.failed, r.count.skipped, text.getvalue().count("stand-in: twice")


def refuses_without_reason():
    try:
        read("# comment\nunit/a: good\nunit/b:\n")
    except SystemExit as end:
        return ":3:" in str(end) and "no reason" in str(end)
    return False


@contextlib.contextmanager
def builds(script):
    """A run that builds by the script."""
    before = run.DEV
    with tempfile.TemporaryDirectory() as folder:
        run.DEV = os.path.join(folder, "dev")
        with open(run.DEV, "w", encoding="utf-8") as f:
            f.write("#!/bin/sh\n" + script)
        os.chmod(run.DEV, stat.S_IRWXU)
        try:
            yield run.Run(folder, run.Count(read(ALLOWED)))
        finally:
            run.DEV = before


def built_ahead(script):
    """The output of the build of the second of two kinds, and the counts of both."""
    with builds(script) as r:
        r.ahead = run.Ahead(r, ["asan", "tsan"])
        good = [run.build_step(r, kind) for kind in ("asan", "tsan")]
        return r.ahead.future["tsan"].result().stdout, good, r.count.failed


def stopped_ahead():
    with builds("sleep 60\n") as r:
        ahead, start = run.Ahead(r, ["asan", "tsan"]), time.monotonic()
        while not ahead.child:
            time.sleep(0.01)
        ahead.stop()
        return ahead.future["asan"].result().returncode < 0 and ahead.future["tsan"].cancelled() \
            and time.monotonic() - start < 30


TRIED = "Done 20 runs in 1 second(s)\nstat::number_of_executed_units: 20\n"
TAP = "1..3\nok 1 - x\nok 2 - y\n"
CHECKS = {
    "a program that ends well": lambda: of_program("OK") == (1, 0, 0),
    "a program that fails": lambda: of_program("FAIL") == (0, 1, 0),
    "a program that is too slow": lambda: of_program("TIMEOUT") == (0, 1, 0),
    "an unexpected pass": lambda: of_program("UNEXPECTEDPASS") == (0, 1, 0),
    "lines of TAP": lambda: of_program("OK", TAP + "ok 3 - z\n") == (3, 0, 0),
    "a line of TAP that fails": lambda: of_program("FAIL", TAP + "not ok 3 - z\n") == (2, 1, 0),
    "TAP that is cut short": lambda: of_program("ERROR", TAP) == (0, 1, 0),
    "TAP without a plan that crashed": lambda: of_program("ERROR", "ok 1 - x\n") == (1, 1, 0),
    "TAP that bails out": lambda: of_program("ERROR", "Bail out! no\n") == (0, 1, 0),
    "a skip that is allowed": lambda: of_program("OK", TAP + "ok 3 - may skip # SKIP no\n") == (2, 0, 1),
    "a skip that is not allowed": lambda: of_program("OK", TAP + "ok 3 - z # SKIP no\n") == (2, 1, 0),
    "a program skipped": lambda: of_program("SKIP", name="backplane:unit / b") == (0, 0, 1),
    "a program skipped that may not be": lambda: of_program("SKIP") == (0, 1, 0),
    "a skip of what the machine does not permit": lambda: of_program("SKIP", name="backplane:unit / refused") == (0, 0, 1),
    "a skip of what the machine permits": lambda: of_program("SKIP", name="backplane:unit / permitted") == (0, 1, 0),
    "a conformance report": lambda: of_report() == (5, 0, 0),
    "a conformance case that crashed": lambda: of_report(1, cases=["pass", "crash"]) == (1, 1, 0),
    "an unexpected pass of a case": lambda: of_report(1, cases=["pass", "xpass"]) == (1, 1, 0),
    "conformance that ended badly": lambda: of_report(4) == (5, 1, 0),
    "conformance of no case": lambda: of_report(cases=[]) == (0, 1, 0),
    "rows that were not executed": lambda: of_report(rows=(1, 2)) == (5, 1, 0),
    "totals that do not fit the cases": lambda: of_report(fail=2) == (5, 1, 0),
    "an unsupported case, allowed": lambda: of_report(
        cases=["pass", ("unsupported", "kernel/a")]) == (1, 0, 1),
    "a skipped case below an allowed one": lambda: of_report(
        cases=["pass", ("skip", "kernel/a/b")]) == (1, 1, 0),
    "a case allowed at any depth": lambda: of_report(
        cases=["pass", ("xfail", "kernel/a/b@row")]) == (1, 0, 1),
    "a device that has what cpu has": lambda: of_pairs(100, 95) == (1, 0, 0),
    "a device that lacks too much of it": lambda: of_pairs(100, 94) == (0, 1, 0),
    "a device whose cases of it fail": lambda: of_pairs(100, 100, bad=6) == (0, 1, 0),
    "plugins of GPUs that are not built": lambda: gpus_without_plugins() == (0, 1, 1),
    "what a stand-in said of a case that fails": lambda: report_of_standin("stand-in: twice\n" * 2, ["pass", "fail"]) == (1, 2, 0, 1),
    "what a stand-in refused and no case noticed": lambda: report_of_standin("stand-in: twice\n", ["pass"]) == (1, 1, 0, 1),
    "a stand-in that refused nothing": lambda: report_of_standin("", ["pass"]) == (1, 0, 0, 0),
    "nothing of cpu's": lambda: of_pairs(0, 0) == (0, 1, 0),
    "libFuzzer without a finding": lambda: of_libfuzzer(0, TRIED) == (1, 0, 0),
    "libFuzzer with a finding": lambda: of_libfuzzer(77, TRIED) == (0, 1, 0),
    "libFuzzer that tried nothing": lambda: of_libfuzzer(0, "stat::number_of_executed_units: 0\n") == (0, 1, 0),
    "libFuzzer that says nothing": lambda: of_libfuzzer(0, "") == (0, 1, 0),
    "a run beside, with its last line": lambda: counted(run.count_beside, "tsan", "FAIL x\n7 passed, 1 failed, 2 skipped\n") == (7, 1, 2),
    "a run beside that broke off": lambda: counted(run.count_beside, "tsan", "tsan: unit   7 passed    0 failed\n") == (0, 1, 0),
    "an allowed skip without a reason is refused": refuses_without_reason,
    "a build where leaks cannot be looked for": lambda: built_ahead('echo "$ASAN_OPTIONS"\n')[0] == "detect_leaks=0\n",
    "a build ahead, which is behind": lambda: built_ahead("sleep 1\nnice\n") == ("19\n", [True, True], 0),
    "a build ahead that fails": lambda: built_ahead("echo no\n[ $2 = asan ]\n") == ("no\n", [True, False], 1),
    "no build that is stopped": stopped_ahead,
}


def main():
    print(f"1..{len(CHECKS)}")
    failed = 0
    for number, (title, check) in enumerate(CHECKS.items(), 1):
        with contextlib.redirect_stdout(io.StringIO()):
            good = check()
        failed += not good
        print(f"{'ok' if good else 'not ok'} {number} - counts {title}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
