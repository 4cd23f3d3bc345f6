#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs all tests and counts them: what `./dev test` is.

    run.py --build DIR [--quick | --full | --only-asan | --only-tsan | --only-fuzz] [--seconds N]

A run is a list of steps; a step builds, or runs a suite, and adds to the count. What counts as one test:
a line of a TAP program, any other test program of meson, a conformance case. Whatever does not come to
its end (a build, a crash, a timeout, output cut short, a suite that is not there) is a failure; a skip
is one too unless allowed-skips.txt names it with a reason. The last line is
`N passed, N failed, N skipped`; the exit status is 0 if nothing failed.
"""
import argparse
import contextlib
import glob
import json
import os
import re
import signal
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DEV = os.path.join(ROOT, "dev")

# Suites of meson that a build has to have: one that is lost is a failure, not a shorter list.
NORMAL = ["plugins", "unit", "ops", "dlpack", "template", "tools", "thread", "exit", "style", "headers", "install",
          "docs", "fuzz", "conform", "kernels", "bench"]
ASAN = ["unit", "template", "tools", "thread", "fuzz"]
TSAN = ["thread"]
DEVICES = ["cpu", "template"]
LIMIT = 1500  # seconds, for one step
BAD = ("fail", "crash", "timeout", "xpass")  # outcomes of conformance cases

# A finding of a sanitizer ends the process, in children too. Leaks are found at its end: LeakSanitizer
# does not change the exit status of a Criterion child, an abort does. An allocation that is too large
# fails, as it does without a sanitizer. Reports go to files: Criterion shows nothing of its children.
SANITIZERS = {
    "ASAN_OPTIONS": "abort_on_error=1:allocator_may_return_null=1:detect_stack_use_after_return=1",
    "LSAN_OPTIONS": f"print_suppressions=0:suppressions={os.path.join(ROOT, 'tests', 'leaks.txt')}",
    "UBSAN_OPTIONS": "halt_on_error=1:abort_on_error=1:print_stacktrace=1",
    "TSAN_OPTIONS": "allocator_may_return_null=1:halt_on_error=1:abort_on_error=1:second_deadlock_stack=1",
}


class Count:
    """The sum of a run, and the text of failures that have not been shown yet."""

    def __init__(self, allowed):
        self.allowed = allowed
        self.passed = self.failed = self.skipped = 0
        self.text = []

    def pass_(self, n=1):
        self.passed += n

    def fail(self, name, detail="", n=1):
        self.failed += n
        self.text.append(f"FAIL {name}")
        self.text += ["    | " + line for line in detail.rstrip().split("\n")[-60:] if detail.strip()]

    def skip(self, name, why="", n=1):
        if any(pattern.fullmatch(name) for pattern, _ in self.allowed):
            self.skipped += n
        elif n:
            self.fail(f"{name}: skipped{why and f' ({why})'}, and tests/allowed-skips.txt does not allow it", n=n)


def read_allowed(path):
    """[(expression, reason)]. A line is `pattern: reason`; one without a reason ends the run."""
    allowed = []
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            pattern, _, reason = line.partition(": ")
            if not reason.strip():
                sys.exit(f"{os.path.relpath(path, ROOT)}:{number}: '{line}' has no reason; "
                         "expected `name: reason`")
            expression = re.escape(pattern.strip()).replace(r"\*\*", ".*").replace(r"\*", "[^/]*")
            allowed.append((re.compile(expression), reason.strip()))
    return allowed


# --- counting ---------------------------------------------------------------------------------------

def tap_results(text):
    """[(ok|not ok|skip, title)] of TAP output, or None if it is not as long as it says."""
    results, planned = [], None
    for line in text.splitlines():
        plan = re.match(r"1\.\.(\d+)", line)
        result = re.match(r"(ok|not ok)\b[ \d]*(?:- )?(.*)", line)
        if plan:
            planned = int(plan.group(1))
        elif result:
            skip = re.search(r"# *skip", result.group(2), re.I)
            results.append(("skip" if skip else result.group(1), result.group(2).strip()))
    return results if results and planned in (None, len(results)) else None


def count_test(count, suite, test):
    """Adds one entry of testlog.json. Exactly one failure is added for a program that broke off."""
    name = f"{suite}/{test['name'].rpartition(' / ')[2]}"
    output = "\n".join(((test.get("stdout") or ""), (test.get("stderr") or "").strip(),
                        "alone: " + " ".join(test.get("command", []))))
    good = test["result"] in ("OK", "EXPECTEDFAIL")
    results = tap_results(test.get("stdout") or "") if "ok " in (test.get("stdout") or "") else None
    if test["result"] == "SKIP" and not results:
        count.skip(name)
    elif not results:
        if good:
            count.pass_()
        else:
            count.fail(f"{name}: {test['result']} after {test['duration']:.1f} s", output)
    else:
        bad = [title for result, title in results if result == "not ok"]
        count.pass_(sum(result == "ok" for result, _ in results))
        for result, title in results:
            if result == "skip":
                count.skip(f"{name}/{re.sub(r' *# *skip.*', '', title, flags=re.I)}")
        if bad:
            shown = "\n".join(line for line in output.splitlines() if not line.startswith("ok "))
            count.fail(f"{name}: {'; '.join(bad)}", shown, n=len(bad))
        elif not good and test["result"] != "SKIP":
            count.fail(f"{name}: {test['result']}, all {len(results)} tests it reported passed", output)


class Run:
    """What the steps share. A step is a line: its title, what it added to the count, how long it took."""

    def __init__(self, build, count, full=False):
        self.build, self.count, self.full = build, count, full

    def directory(self, kind):
        return self.build if kind == "normal" else f"{self.build}-{kind}"

    def env(self, kind, threads=False):
        """The environment of a step, without the settings of the caller that change what is tested."""
        env = {k: v for k, v in os.environ.items() if not k.startswith("BP_")}
        env["BUILD"] = self.build
        if self.full and kind == "normal":
            env["LARGE_TESTS"] = "1"  # tests that take gigabytes, where these are free
        if kind != "normal":
            reports = os.path.join(self.directory(kind), "meson-logs", "sanitizer")
            env.update({name: f"{options}:log_path={reports}" for name, options in SANITIZERS.items()})
            # LeakSanitizer dies of OpenMP's threads in an opened oneDNN: one of both is off.
            if threads:
                env["ASAN_OPTIONS"] += ":detect_leaks=0"
            else:
                env["OMP_THREAD_LIMIT"] = "1"
        return env

    @contextlib.contextmanager
    def step(self, title, seconds=None):
        count = self.count
        before, start = (count.passed, count.failed, count.skipped), time.monotonic()
        print(f"{title:36}", end="", flush=True)
        yield
        n = [now - then for now, then in zip((count.passed, count.failed, count.skipped), before)]
        seconds = time.monotonic() - start if seconds is None else seconds
        print(f"{n[0]:7} passed {n[1]:4} failed {n[2]:4} skipped {seconds:7.1f} s")
        for line in count.text:
            print(line)
        count.text.clear()
        sys.stdout.flush()


# --- steps -----------------------------------------------------------------------------------------

def execute(run, kind, *command, threads=False, **more):
    """Runs a command to its end; nothing of it is left, also when it is late (exit status 124)."""
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             text=True, errors="replace", cwd=ROOT, start_new_session=True,
                             env={**run.env(kind, threads), **more})
    late = False
    try:
        output, _ = child.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        late = True
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
    if late:
        output = f"{child.communicate()[0]}\nno end after {LIMIT} s"
    return subprocess.CompletedProcess(command, 124 if late else child.returncode, output)


def build_step(run, kind):
    """Builds a kind; without it nothing that needs it can run."""
    with run.step(f"{kind}: build"):
        done = execute(run, "normal", DEV, "build", kind)
        if done.returncode:
            run.count.fail(f"build {kind}", done.stdout)
    return done.returncode == 0


@contextlib.contextmanager
def reports(run, kind):
    """After a step with failures, the heads of what sanitizers wrote in it. Tests of plugins that crash on
    purpose write some too, so that a report alone is no failure."""
    pattern = os.path.join(run.directory(kind), "meson-logs", "sanitizer.*")
    for path in glob.glob(pattern):
        os.unlink(path)
    failed = run.count.failed
    yield
    paths = sorted(glob.glob(pattern), key=os.path.getmtime) if run.count.failed > failed else []
    for path in paths[:8]:
        with open(path, encoding="utf-8", errors="replace") as f:
            print(f"REPORT {path}", *f.read().splitlines()[:24], sep="\n    > ")
    if len(paths) > 8:
        print(f"and {len(paths) - 8} more reports: {pattern}")


def meson_step(run, kind, suites, slower=2):
    """Runs suites of a build with meson, whose log has one JSON object a line for each program."""
    directory = run.directory(kind)
    log = os.path.join(directory, "meson-logs", "dev.json")
    remove(log)
    print(f"{kind}: running {', '.join(suites)}", flush=True)
    done = execute(run, kind, "meson", "test", "-C", directory, "--no-rebuild", "--logbase", "dev",
                   "--timeout-multiplier", str(slower), *(f"--suite={s}" for s in suites))
    tests = []
    if os.path.exists(log):
        with open(log, encoding="utf-8") as f:
            tests = [json.loads(line) for line in f]
    for suite in suites:  # a test's name is project:suite / name
        own = [t for t in tests if t["name"].partition(" / ")[0].partition(":")[2] == suite]
        with run.step(f"{kind}: {suite}", seconds=sum(t["duration"] for t in own)):
            for test in own:
                count_test(run.count, suite, test)
            if not own:
                run.count.fail(f"{kind}: suite {suite} is not there, or did not run",
                               "" if tests else done.stdout)


def conform_step(run, kind, device, *options, streams="inline"):
    """Runs the conformance suite; its JSON has the totals."""
    path = os.path.join(run.directory(kind), "meson-logs", f"conform-{device}-{streams}.json")
    remove(path)
    with run.step(f"{kind}: conform {' '.join((device, *options))}{'' if streams == 'inline' else ' ' + streams}"):
        done = execute(run, kind, os.path.join(run.directory(kind), "sdk", "tools", "bp"), "conform", device,
                       "--json", path, *options, threads=device == "cpu",
                       BP_STREAMS=streams, BP_PLUGIN_PATH=os.path.join(run.directory(kind), "sdk", "template"))
        try:
            with open(path, encoding="utf-8") as f:
                report = json.load(f)
            count_conform(run.count, device, report, done)
        except (OSError, ValueError, KeyError) as error:
            run.count.fail(f"conform {device}: no whole report ({error!r})", done.stdout)


def count_conform(count, device, report, done):
    """Adds a conformance report. A run that ended badly without a bad case is one failure."""
    total, rows = report["totals"], report["rows"]
    bad = sum(total[o] for o in BAD)
    count.pass_(total["pass"])
    for case in report["cases"]:
        name, message = f"conform/{device}/{case['id']}", case.get("message") or ""
        if case["outcome"] in BAD:
            count.fail(f"{name}: {case['outcome']}", message)
        elif case["outcome"] != "pass":
            count.skip(name, f"{case['outcome']}: {message}")
    if any(total[o] != sum(c["outcome"] == o for c in report["cases"]) for o in total):
        count.fail(f"conform {device}: its totals {total} do not fit its cases")
    elif not bad and (done.returncode or not total["pass"] or rows["executed"] != rows["total"]):
        count.fail(f"conform {device}: exit status {done.returncode}, {total['pass']} cases passed, kernel "
                   f"rows executed {rows['executed']} of {rows['total']}", done.stdout)


def fuzz_step(run, seconds):
    """Runs each fuzzer of the asan build for some seconds, from a new seed."""
    programs = sorted(p for p in glob.glob(os.path.join(run.directory("asan"), "tests", "fuzz", "fuzz_*"))
                      if os.path.isfile(p))
    for program in programs:
        seed = str(time.time_ns() % 1000000)
        with run.step(f"asan: {os.path.basename(program)} {seconds} {seed}"):
            done = execute(run, "asan", program, seconds, seed)
            if done.returncode:
                run.count.fail(f"{program} {seconds} {seed}: exit status {done.returncode}", done.stdout)
            else:
                run.count.pass_()
    if not programs:
        run.count.fail("there are no fuzzers")


def remove(path):
    if os.path.exists(path):
        os.unlink(path)


# --- runs ------------------------------------------------------------------------------------------

def normal_steps(run, quick):
    if build_step(run, "normal"):
        meson_step(run, "normal", NORMAL)
        for device in DEVICES:
            conform_step(run, "normal", device, *(["--quick"] if quick else []))
        conform_step(run, "normal", "cpu", *(["--quick"] if quick else []), streams="async")


def asan_steps(run, full):
    if build_step(run, "asan"):
        with reports(run, "asan"):
            meson_step(run, "asan", ASAN, slower=6)
        for device in DEVICES:
            with reports(run, "asan"):
                conform_step(run, "asan", device, *([] if full else ["--quick"]))


def tsan_steps(run):
    if build_step(run, "tsan"):
        with reports(run, "tsan"):
            meson_step(run, "tsan", TSAN, slower=6)
        for device in DEVICES:
            with reports(run, "tsan"):
                conform_step(run, "tsan", device, "--quick")
        with reports(run, "tsan"):
            conform_step(run, "tsan", "cpu", "--quick", streams="async")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--seconds", default="120", help="for each fuzzer")
    for mode in ("quick", "full", "only-asan", "only-tsan", "only-fuzz"):
        parser.add_argument(f"--{mode}", dest="mode", action="store_const", const=mode, default="default")
    options = parser.parse_args()

    mode = options.mode
    run = Run(os.path.abspath(options.build), Count(read_allowed(os.path.join(ROOT, "tests", "allowed-skips.txt"))),
              full=mode == "full")
    if mode in ("quick", "default", "full"):
        normal_steps(run, mode == "quick")
    if mode in ("only-asan", "default", "full"):
        asan_steps(run, mode == "full")
    if mode == "full" or mode == "only-fuzz" and build_step(run, "asan"):
        with reports(run, "asan"):
            fuzz_step(run, options.seconds)
    if mode in ("only-tsan", "default", "full"):
        tsan_steps(run)

    count = run.count
    if not count.passed + count.failed:
        count.fail("nothing ran")
    print(f"{count.passed} passed, {count.failed} failed, {count.skipped} skipped")
    return 1 if count.failed else 0


if __name__ == "__main__":
    sys.exit(main())
