#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs all tests and counts them, for `./dev test`.

    run.py --build DIR [--quick | --full | --only-asan | --only-tsan | --only-fuzz] [--seconds N]

A run is a list of steps; a step builds, or runs a suite, and adds to the count. One test is
a line of a TAP program, any other test program of meson, a conformance case. A step that does not come to
its end (a build, a crash, a timeout, output cut short, a suite that is not there) is a failure; a skip
is one too unless allowed-skips.txt names it with a reason. Each step's time is printed beside its budget
(ci_rules.py); a step over its budget is reported, and is no failure, for other work on the machine may be the
cause. With CI=true a program that unstable.txt names may be run again. The last line is
`N passed, N failed, N skipped`; the exit status is 0 if nothing failed. A run starts two more of itself, which take
steps while it takes others: --only-conform and --only-sanitized, or --only-tsan.
"""
import argparse
import concurrent.futures
import contextlib
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import ci_rules
import permitted

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.append(os.path.join(ROOT, "tests", "targets"))
import standin  # noqa: E402
DEV = os.path.join(ROOT, "dev")

# Suites of meson that a build has to have: one that is lost is a failure, not a shorter list.
NORMAL = ["plugins", "unit", "compile", "ops", "dlpack", "template", "tools", "thread", "exit", "style", "headers", "install",
          "docs", "fuzz", "graphs", "conform", "kernels", "gpu", "standins", "bench", "onnx", "xpu", "openvino", "ccl",
          "environments", "python", "kit", "targets", "npu", "mlu", "ipu"]
ASAN = ["unit", "compile", "template", "tools", "thread", "gpu", "standins", "fuzz", "graphs", "onnx", "openvino", "ccl", "python",
        "kit", "npu", "mlu", "ipu"]
TSAN = ["thread", "graphs", "gpu", "standins", "ccl", "kit"]
DEVICES = ["cpu", "template", "sim", "xpu"]
LEVELS = {"cpu": "ccl", "sim": "ccl", "xpu": "ccl"}  # the level that conformance must reach where all of it runs
GPUS = ["cuda", "hip"]  # real plugins, with stand-ins for their drivers
PAIRS = 0.95  # of the pairs of operator and first dtype that pass on cpu, those that are to pass on the device
LIMIT = 1500  # seconds, for one step
FUZZ_ENDS = 30  # seconds that a fuzzer may take beside those that it is given
BAD = ("fail", "crash", "timeout", "xpass")  # outcomes of conformance cases

# A finding of a sanitizer ends the process, in children too. Leaks are found at its end: LeakSanitizer
# does not change the exit status of a Criterion child, an abort does. An allocation that is too large
# fails, as it does without a sanitizer. Reports go to files: Criterion shows nothing of its children.
# Up to gcc 13 the runtime takes thread-local memory of an opened library for that of a C library before 2.25 wherever
# it lies 16 bytes into a page, and LeakSanitizer dies of the bytes that it reads there: __tls_get_addr is not intercepted.
SANITIZERS = {
    "ASAN_OPTIONS": "abort_on_error=1:allocator_may_return_null=1:detect_stack_use_after_return=1:intercept_tls_get_addr=0",
    "LSAN_OPTIONS": f"print_suppressions=0:suppressions={os.path.join(ROOT, 'tests', 'leaks.txt')}",
    "UBSAN_OPTIONS": "halt_on_error=1:abort_on_error=1:print_stacktrace=1",
    "TSAN_OPTIONS": "allocator_may_return_null=1:halt_on_error=1:abort_on_error=1:second_deadlock_stack=1:"
                    f"suppressions={os.path.join(ROOT, 'tests', 'races.txt')}",
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
        if any(pattern.fullmatch(name) and permitted.may_skip(reason) for pattern, reason in self.allowed):
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
        count.skip(name, output.partition("\n")[0])
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
    """State that the steps share. A step is a line: its title, its counts, its time. reports: the name of the files with
    reports of sanitizers, of which runs at the same time have different ones."""

    def __init__(self, build, count, full=False, reports="sanitizer"):
        self.build, self.count, self.full, self.reports = build, count, full, reports
        self.ahead = None
        self.start = time.monotonic()
        self.over = []  # steps that took longer than their budget
        self.listed = {}  # programs that unstable.txt names, and why
        self.repeated = []  # those of them that failed, and then passed

    def directory(self, kind):
        return self.build if kind == "normal" else f"{self.build}-{kind}"

    def env(self, kind):
        """The environment of a step, without the settings of the caller that change the tests."""
        env = {k: v for k, v in os.environ.items() if not k.startswith("BP_")}
        env["BUILD"] = self.build
        if not os.path.exists("/sys/devices/system/cpu"):  # in a chroot: PoCL and Open MPI end without these
            memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
            env.setdefault("HWLOC_SYNTHETIC", f"[numa(memory={memory})] pu:{os.cpu_count()}")
        env.setdefault("OMP_WAIT_POLICY", "passive")  # threads that spin take the processors from other tests
        env.update(self.driver())
        env.pop("POCL_EXTRA_BUILD_FLAGS", None)  # set below, and then by a run for those that it starts
        if self.full and kind == "normal":
            env["LARGE_TESTS"] = "1"  # tests that take gigabytes, where these are free
        elif kind == "normal":  # PoCL optimises kernels longer than all cases run, and leaks these flags
            env["POCL_EXTRA_BUILD_FLAGS"] = "-cl-opt-disable"
        leaks = permitted.leaks_option()
        if kind == "normal" and leaks:  # programs of a sanitized build run while it is built
            env["ASAN_OPTIONS"] = leaks.strip(":")
        if kind != "normal":
            reports = os.path.join(self.directory(kind), "meson-logs", self.reports)
            env.update({name: f"{options}:log_path={reports}" for name, options in SANITIZERS.items()})
            env["ASAN_OPTIONS"] += leaks
            # ThreadSanitizer does not see how OpenBLAS waits for its threads, and reports false races of its results.
            if kind == "tsan":
                env["BP_CPU_OPENBLAS"] = "off"
        return env

    def opencl(self):
        """The folder of all that was compiled for OpenCL devices."""
        return os.path.join(self.build, "opencl-full" if self.full else "opencl")

    def driver(self):
        """All tests of all builds share the programs that PoCL compiled. One function serves work-groups of any size, as it
        does in the binaries that the xpu plugin keeps: else each kernel would be compiled once more for its size. Loops
        over work-items are not vectorised but in --full: the plugin's work-groups on processors have one work-item, and
        to look for such loops takes a third of the time to compile."""
        folder = os.path.join(self.opencl(), "driver")
        os.makedirs(folder, exist_ok=True)
        return {"POCL_CACHE_DIR": folder, "POCL_WORK_GROUP_SPECIALIZATION": "0",
                **({} if self.full else {"POCL_WORK_GROUP_METHOD": "loops"})}

    @contextlib.contextmanager
    def step(self, title, seconds=None, budget=None):
        """seconds: those that the step is known to have taken, else they are measured. budget: of a step that is not
        in the table."""
        count = self.count
        before, start = (count.passed, count.failed, count.skipped), time.monotonic()
        print(f"{title:36}", end="", flush=True)
        yield
        budget = budget or ci_rules.budget(title, self.full)
        if not budget:
            count.fail(f"{title}: a step without a budget in tests/ci_rules.py")
        n = [now - then for now, then in zip((count.passed, count.failed, count.skipped), before)]
        seconds = time.monotonic() - start if seconds is None else seconds
        over = " over" if budget and seconds > budget else ""
        if over:
            self.over.append(f"{title} ({seconds:.0f} s of {budget})")
        print(f"{n[0]:7} passed {n[1]:4} failed {n[2]:4} skipped {seconds:7.1f} s of {budget or 'none':>4}{over}")
        for line in count.text:
            print(line)
        count.text.clear()
        sys.stdout.flush()


# --- steps -----------------------------------------------------------------------------------------

def execute(run, kind, *command, limit=LIMIT, begun=lambda child: None, **more):
    """Runs a command to its end; nothing of it is left, also when it is late (exit status 124)."""
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             text=True, errors="replace", cwd=ROOT, start_new_session=True,
                             env={**run.env(kind), **more})
    late = False
    try:
        begun(child)
        output, _ = child.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        late = True
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
    if late:
        output = f"{child.communicate()[0]}\nno end after {limit} s"
    return subprocess.CompletedProcess(command, 124 if late else child.returncode, output)


class Ahead:
    """Builds that are made while tests of others sleep, wait or use one processor: one after another, and behind all
    else that runs, so that no test is slower for it. A step that needs a build waits for it."""

    def __init__(self, run, kinds):
        self.child = None
        self.pool = concurrent.futures.ThreadPoolExecutor(1)
        self.future = {kind: self.pool.submit(execute, run, "normal", DEV, "build", kind, limit=4 * LIMIT, begun=self.begun)
                       for kind in kinds}

    def begun(self, child):
        self.child = child
        os.setpriority(os.PRIO_PGRP, child.pid, 19)
        with contextlib.suppress(OSError), open(f"/proc/{child.pid}/autogroup", "w", encoding="ascii") as f:
            f.write("19")  # where each session has its share of the processors

    def stop(self):
        """Nothing is built any more."""
        self.pool.shutdown(wait=False, cancel_futures=True)
        if self.child and not all(f.done() for f in self.future.values()):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.child.pid, signal.SIGKILL)


def build_step(run, kind):
    """Builds a kind, or waits until it is built; without it nothing that needs it can run."""
    with run.step(f"{kind}: build"):
        ahead = run.ahead.future.get(kind) if run.ahead else None
        done = ahead.result() if ahead else execute(run, "normal", DEV, "build", kind)
        if done.returncode:
            run.count.fail(f"build {kind}", done.stdout)
    return done.returncode == 0


def report_cause(text):
    """The text by which reports are compared: the summary, or the first line, without the process."""
    lines = [line for line in text.splitlines() if line.strip(" =")] or ["empty"]
    return re.sub(r"^==\d+==", "", next((line for line in lines if line.startswith("SUMMARY")), lines[0]))


@contextlib.contextmanager
def reports(run, kind):
    """After a step with failures, prints the reports of sanitizers in it: one of each cause. Tests of plugins
    that crash on purpose write some too, so that a report alone is no failure."""
    pattern = os.path.join(run.directory(kind), "meson-logs", f"{run.reports}.*")
    for path in glob.glob(pattern):
        os.unlink(path)
    failed = run.count.failed
    yield
    causes = {}
    for path in sorted(glob.glob(pattern), key=os.path.getmtime) if run.count.failed > failed else []:
        with open(path, encoding="utf-8", errors="replace") as f:
            text = f.read()
        causes.setdefault(report_cause(text), []).append((path, text))
    for cause, found in causes.items():
        path, text = found[-1]
        print(f"REPORT {cause}", f"{len(found)} of them, the last: {path}", *text.splitlines()[:80], sep="\n    > ")


def meson_step(run, kind, suites, slower=2, at_once=None):
    """Runs suites of a build with meson, whose log has one JSON object a line for each program."""
    directory = run.directory(kind)
    remove(os.path.join(directory, "meson-logs", "dev.json"))
    with run.step(f"{kind}: programs"):
        done = execute(run, kind, "meson", "test", "-C", directory, "--no-rebuild", "--logbase", "dev",
                       "--timeout-multiplier", str(slower), "--num-processes", str(at_once or os.cpu_count()),
                       *(f"--suite={s}" for s in suites))
    tests = meson_log(directory, "dev")
    for suite in suites:  # a test's name is project:suite / name
        own = [t for t in tests if t["name"].partition(" / ")[0].partition(":")[2] == suite]
        with run.step(f"{kind}: {suite}", seconds=sum(t["duration"] for t in own)):
            for test in own:
                count_test(run.count, suite, repeated(run, kind, suite, test))
            if not own:
                run.count.fail(f"{kind}: suite {suite} is not there, or did not run",
                               "" if tests else done.stdout)
    ran = {re.sub(r".*?:(.*) / ", r"\1/", t["name"]) for t in tests}
    for name in run.listed if kind == "normal" else ():
        if name not in ran:
            run.count.fail(f"tests/unstable.txt: {name} is no program of the tests")


def meson_log(directory, name):
    """One object for each program that meson ran."""
    log = os.path.join(directory, "meson-logs", f"{name}.json")
    if not os.path.exists(log):
        return []
    with open(log, encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def repeated(run, kind, suite, test):
    """The result of a program that is counted: its own; or, of one that unstable.txt names and that failed in continuous
    integration, the last of two more runs if it passed both, alone."""
    program = test["name"].rpartition(" / ")[2]
    name = f"{suite}/{program}"
    if name not in run.listed or not ci_rules.in_ci() or not ci_rules.may_repeat(kind, test):
        return test
    last = test
    for _ in range(ci_rules.AGAIN):
        remove(os.path.join(run.directory(kind), "meson-logs", "again.json"))
        execute(run, kind, "meson", "test", "-C", run.directory(kind), "--no-rebuild", "--logbase", "again",
                "--timeout-multiplier", "0", f"--suite={suite}", program, limit=ci_rules.AGAIN_SECONDS)
        log = meson_log(run.directory(kind), "again")
        if [t["result"] for t in log] != ["OK"]:
            return test
        last, = log
    run.repeated.append(name)
    return last


def read_unstable(run, path):
    """Reads which programs may be run again; a list that breaks its own rules is a failure everywhere."""
    run.listed, wrong = ci_rules.read_unstable(path)
    for text in wrong:
        run.count.fail(f"tests/unstable.txt: {text}")


def opencl(run):
    """PoCL's processor stands for OpenCL's devices, for two of them; other drivers, if any, stay out. All builds
    share the compiled programs."""
    return {**standin.KINDS["xpu"].settings, "BP_XPU_CACHE": os.path.join(run.opencl(), "programs")}


def report_path(run, kind, device, streams="inline"):
    return os.path.join(run.directory(kind), "meson-logs", f"conform-{device}-{streams}.json")


def conform_step(run, kind, device, *options, streams="inline"):
    """Runs the conformance suite; its JSON has the totals. Without options its level is judged."""
    path = report_path(run, kind, device, streams)
    level = ["--require", LEVELS[device]] if not options and device in LEVELS else []
    more = (opencl(run) if device == "xpu" else {"BP_SIM_DEVICES": "2"} if device == "sim" else
            standin.environment(run.directory(kind), device, f"{path}.log") if device in GPUS else {})
    remove(path)
    if device == "xpu" and not (os.path.exists(os.path.join(run.directory(kind), "plugins", "xpu", "bp_xpu.so"))
                                and os.path.exists(more["OCL_ICD_VENDORS"])):
        run.count.skip("conform/xpu", "OpenCL's headers or PoCL are not installed")
        return
    title = (device, *options[:1], *(["in part"] if options[1:] else []), *([streams] if streams != "inline" else []))
    with run.step(f"{kind}: conform {' '.join(title)}"):
        done = execute(run, kind, os.path.join(run.directory(kind), "sdk", "tools", "bp"), "conform", device,
                       "--json", path, *options, *level,
                       BP_STREAMS=streams, BP_PLUGIN_PATH=os.path.join(run.directory(kind), "sdk", "template"), **more)
        try:
            with open(path, encoding="utf-8") as f:
                report = json.load(f)
            count_conform(run.count, device, report, done)
            most = None if kind != "normal" or options or streams != "inline" else ci_rules.CONFORM_PROCESSOR_SECONDS.get(device)
            check_seconds(run.count, " ".join(title), report["processor_seconds"], most)
            # The driver returns a number, and the stand-in logged the reason. A plugin that continues after it is wrong all the same.
            said = standin.refused(f"{path}.log")[:standin.LINES] if device in GPUS else []
            if said:
                run.count.fail(f"conform {device}: the stand-in for its driver refused what the plugin asked for", "\n".join(said))
        except (OSError, ValueError, KeyError) as error:
            run.count.fail(f"conform {device}: no whole report ({error!r})", done.stdout)


def check_seconds(count, title, seconds, most):
    """Says how long processors were at work on it, and fails where that is more than it may be."""
    print(f"    conform {title}: {seconds:.0f} s of processors" + (f", of {most}" if most else ""))
    if most and seconds > most:
        count.fail(f"conform {title}: {seconds:.0f} s of processors, of {most}")


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


def passing_pairs(report):
    """Pairs of operator and first dtype of which cases pass, and none is bad."""
    of = {}
    for case in report["cases"]:
        suite, *parts = case["id"].split("/")
        if suite == "kernel" and len(parts) > 2:
            of.setdefault(tuple(parts[:2]), set()).add(case["outcome"])
    return {pair for pair, outcomes in of.items() if "pass" in outcomes and not outcomes & set(BAD)}


def count_pairs(count, device, reports, cpu):
    """One test: the device has enough of the pairs that the cpu has. reports: of the device, each with a part of the cases."""
    wanted = passing_pairs(cpu)
    lacking = sorted("/".join(pair) for pair in wanted.difference(*map(passing_pairs, reports)))
    if not wanted or len(lacking) > (1 - PAIRS) * len(wanted):
        count.fail(f"conform {device}: {len(lacking)} of cpu's {len(wanted)} pairs of operator and dtype do not pass", "\n".join(lacking))
    else:
        count.pass_()


def read_report(run, kind, device):
    """The device's last report, as a list: of none if the run was skipped or has failed."""
    path = report_path(run, kind, device)
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as f:
        return [json.load(f)]


def pairs_step(run, kind, device, reports):
    cpu = read_report(run, kind, "cpu")
    if reports and cpu:
        with run.step(f"{kind}: conform {device} beside cpu"):
            count_pairs(run.count, device, reports, *cpu)


def fuzzers(run, kind):
    return sorted(p for p in glob.glob(os.path.join(run.directory(kind), "tests", "fuzz", "fuzz_*")) if os.path.isfile(p))


def fuzz_step(run, seconds):
    """Runs each fuzzer of the asan build for some seconds, from a new seed."""
    programs = fuzzers(run, "asan")
    for program in programs:
        seed = str(time.time_ns() % 1000000)
        with run.step(f"asan: {os.path.basename(program)} {seconds} {seed}", budget=int(seconds) + FUZZ_ENDS):
            done = execute(run, "asan", program, seconds, seed)
            if done.returncode:
                run.count.fail(f"{program} {seconds} {seed}: exit status {done.returncode}", done.stdout)
            else:
                run.count.pass_()
    if not programs:
        run.count.fail("there are no fuzzers")


def libfuzzer_step(run, seconds):
    """Runs each fuzzer with libFuzzer for some seconds, from a new seed and a new corpus: its own seeds, and
    for models those that are written or installed. Its findings are kept beside the corpus."""
    programs = fuzzers(run, "fuzz")
    for program in programs:
        name, seed = os.path.basename(program), str(time.time_ns() % 1000000)
        folder = os.path.join(run.directory("fuzz"), "corpus", name)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        command = [program, f"-seed={seed}", f"-max_total_time={seconds}", "-timeout=20", "-print_final_stats=1",
                   f"-artifact_prefix={folder}-", folder]
        with run.step(f"libFuzzer: {name} {seconds} {seed}", budget=int(seconds) + FUZZ_ENDS):
            if name == "fuzz_onnx":
                made = execute(run, "fuzz", "/usr/bin/python3", os.path.join(ROOT, "tests", "onnx", "corpus.py"), folder)
                if made.returncode:
                    run.count.fail("tests/onnx/corpus.py", made.stdout)
            done = execute(run, "fuzz", *command)
            count_libfuzzer(run.count, command, done)
    if not programs:
        run.count.fail("there are no fuzzers for libFuzzer")


def count_libfuzzer(count, command, done):
    """A run is good that ended well, and says how many inputs it tried: more than none."""
    tried = re.search(r"^stat::number_of_executed_units: *([1-9]\d*)", done.stdout, re.M)
    if done.returncode or not tried:
        count.fail(f"{' '.join(command)}: exit status {done.returncode}", done.stdout)
    else:
        count.pass_()


def remove(path):
    if os.path.exists(path):
        os.unlink(path)


# --- runs ------------------------------------------------------------------------------------------

# Which cases run where not all do, device by device, each list in a step of its own. The simulator's kernels and OpenCL's
# are the cpu's portable ones, rules of gradients are the core's, and a queue does not know of dtypes: of the simulator, of
# OpenCL and of asynchronous streams less will do. Of OpenCL's kernels a sixth of all cases runs after the quick ones, with
# --full all; not the fused ones, for each of which a program is compiled: the quick ones have such a program for each rule.
LESS = {"sim": [["--quick", "--suite=kernel", "--shard=1/2"], ["--quick", "--suite=plugin,runtime,memory,ccl"]], "xpu": [["--quick"]]}
LESS_XPU = ["--suite=kernel", "--shard=1/6", "--filter=!kernel/fused/*"]


def normal_steps(run, quick, later):
    """later: the kinds of build that will be needed after these steps."""
    if build_step(run, "normal"):
        run.ahead = Ahead(run, later)
        meson_step(run, "normal", NORMAL)
        for device in ("cpu", "template"):
            conform_step(run, "normal", device, *(["--quick"] if quick else []))
        # Kernels of OpenCL are compiled by one thread of each process; the other steps use the processor that is left.
        with contextlib.nullcontext() if quick or run.full else beside(run, "conform"):
            kernel_steps(run, quick)
        if quick or run.full:
            conform_steps(run, quick)
        if run.full:
            conform_step(run, "normal", "cpu", "--suite", "stress", "--timeout", "300", "-j", "1")
            level_step(run)


def kernel_steps(run, quick):
    """The devices whose kernels are the cpu's portable ones, and the comparison of one of them with the cpu."""
    for device in ("sim", "xpu"):
        for part in [["--quick"]] if quick else [[]] if run.full else LESS[device]:
            conform_step(run, "normal", device, *part)
    reports = read_report(run, "normal", "xpu")
    if not quick and not run.full:
        conform_step(run, "normal", "xpu", *LESS_XPU)
        reports += read_report(run, "normal", "xpu")
    pairs_step(run, "normal", "xpu", reports)


def conform_steps(run, quick=False):
    """Conformance of the cpu's asynchronous streams, and of the plugins for GPUs."""
    conform_step(run, "normal", "cpu", *([] if run.full else [*shorter("cpu"), *NOT_TWICE]), streams="async")
    if not quick:
        gpu_steps(run)


def level_step(run):
    """The plugin of docs/portable-kernels.md, built with an installation: its level."""
    with run.step("normal: level of portable kernels"):
        done = execute(run, "normal", sys.executable, os.path.join(ROOT, "tests", "install", "level.py"), ROOT, run.directory("normal"),
                       limit=2 * LIMIT)
        count_test(run.count, "install", {"name": "level", "stdout": done.stdout, "duration": 0, "command": done.args,
                                          "result": "FAIL" if done.returncode else "OK"})


def cross_kinds():
    """The kinds of cross build that this machine can make."""
    return ["aarch64"] if os.uname().machine == "x86_64" else []


def aarch64_steps(run):
    """Everything that the usual host of an Ascend runs is compiled; with --full, QEMU runs a part of it."""
    if not cross_kinds():
        run.count.skip("aarch64/build", "the cross compiler is one for x86-64")
    elif build_step(run, "aarch64") and run.full:
        with run.step("aarch64: programs in QEMU"):
            made = execute(run, "normal", DEV, "build", "aarch64", "hosted_programs")
            done = made if made.returncode else execute(run, "normal", sys.executable, os.path.join(ROOT, "tests", "aarch64", "run.py"),
                                                        run.directory("aarch64"), limit=2 * LIMIT)
            count_test(run.count, "aarch64", {"name": "programs", "stdout": done.stdout, "duration": 0, "command": done.args,
                                              "result": "FAIL" if done.returncode else "OK"})


def gpu_steps(run):
    """The real plugins for GPUs, with their embedded images, on stand-ins for their drivers. The kernels compute
    the same as the simulator's: every fourth of their cases is run, other ones of each plugin."""
    for number, device in enumerate(GPUS):
        missing = standin.missing(run.directory("normal"), device)
        if missing:
            print(f"normal: conform {device}: not run: {' and '.join(missing)} are not built; docs/gpu.md says what {device} needs")
            run.count.skip(f"conform/{device}", "the plugin is not built")
            continue
        for part in [[]] if run.full else [["--suite=plugin,runtime,memory,ccl"], ["--suite=kernel", f"--shard={2 * number + 1}/4"]]:
            conform_step(run, "normal", device, "--quick", *part)


# Cases that run once, on the streams of the plugin and without sanitizers: the accounts of a plugin's memory, whose calls
# run in other cases. Of the convolutions on the simulator and on asynchronous streams sanitizers do not see the large ones
# and the orders of axes, where the stand-in for the library or the kernel of the cpu is at work, not the plugin or the core.
NOT_TWICE = ["--filter=!plugin/memory", "--filter=!memory/returned/plans"]
NOT_SANITIZED_CONV = [f"--filter=!kernel/conv*/f32/2d.{i}*" for i in ("real", "blocks", "*order")]


def shorter(device):
    """The cases for runs under sanitizers. Of OpenCL only cases that compile no kernel: sanitizers do not see its kernels. Of dtypes f32
    stands for all: races are in how work is shared, and the simulator's kernels are the cpu's portable ones."""
    if device == "xpu":
        return ["--quick", "--suite", "plugin,runtime,memory"]
    ids = ["plugin/*", "runtime/*", "memory/*", "kernel/*/f32/*", *(["ccl/*"] if device == "cpu" else [])]
    return ["--quick", *(f"--filter={i}" for i in ids)]


def sanitized(device):
    return [*shorter(device), *NOT_TWICE]


def asan_steps(run):
    """Many programs at once, for they wait for each other's ranks, or for time."""
    if permitted.leaks_option():
        run.count.skip("asan/leaks", permitted.why_not("leaks"))
    with reports(run, "asan"):
        meson_step(run, "asan", ASAN, slower=6, at_once=2 * os.cpu_count())


def asan_conform_steps(run):
    """Of the cpu all dtypes: each has kernels of its own; a third of the cases of each. Of the simulator's kernels every
    second case of f32."""
    parts = {"cpu": [["--quick", "--suite=kernel,gradient", "--shard=1/3"], ["--quick", "--suite=plugin,runtime,memory,ccl", *NOT_TWICE]],
             "sim": [["--quick", "--filter=kernel/*/f32/*", *NOT_SANITIZED_CONV, "--shard=1/2"],
                     ["--quick", "--suite=plugin,runtime,memory", *NOT_TWICE]]}
    for device in DEVICES:
        for part in [[]] if run.full else parts.get(device, [sanitized(device)]):
            with reports(run, "asan"):
                conform_step(run, "asan", device, *part)


def tsan_steps(run):
    """On asynchronous devices few operators: the asynchronous code is the core's, and collectives have tests of it. Of the
    cpu's kernels half of the cases of each row: races are in how a row shares its work."""
    with reports(run, "tsan"):
        meson_step(run, "tsan", TSAN, slower=6, at_once=2 * os.cpu_count())
    few = ["--quick", *(f"--filter={i}" for i in ("runtime/*", "memory/*", "kernel/[a-c]*/f32/*")), *NOT_TWICE]
    parts = {"sim": [[*few, *NOT_SANITIZED_CONV]],
             "cpu": [["--quick", "--filter=kernel/*/f32/*", "--shard=1/2"], ["--quick", "--suite=plugin,runtime,memory,ccl", *NOT_TWICE]]}
    for device in DEVICES:
        for part in parts.get(device, [sanitized(device)]):
            with reports(run, "tsan"):
                conform_step(run, "tsan", device, *part)
    with reports(run, "tsan"):
        conform_step(run, "tsan", "cpu", *few, *NOT_SANITIZED_CONV, streams="async")


@contextlib.contextmanager
def beside(run, kind):
    """Runs all steps of a kind in a process of their own while the caller takes others: tests of both wait much. Its output is
    printed afterwards, and adds to the count."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        future = pool.submit(execute, run, "normal", sys.executable, os.path.abspath(__file__), "--build", run.build,
                             f"--only-{kind}", limit=4 * LIMIT)
        yield
    count_beside(run.count, kind, future.result().stdout)


def count_beside(count, kind, output):
    """Prints the output of a run, and adds its last line to the count; there is none if it broke off."""
    text, _, last = output.rstrip().rpartition("\n")
    total = re.fullmatch(r"(\d+) passed, (\d+) failed, (\d+) skipped", last)
    print(text if total else output, flush=True)
    if total:
        count.passed, count.failed, count.skipped = (
            now + int(more) for now, more in zip((count.passed, count.failed, count.skipped), total.groups()))
    else:
        count.fail(f"{kind}: it did not come to its end")


def steps(run, mode, seconds):
    if mode in ("quick", "default", "full"):
        normal_steps(run, mode == "quick", {"quick": [], "default": ["asan", "tsan", *cross_kinds()],
                                              "full": ["asan", "tsan", "fuzz", *cross_kinds()]}[mode])
    if mode in ("default", "full"):
        built = [build_step(run, kind) for kind in ("asan", "tsan")]
        if all(built):
            with beside(run, "tsan" if run.full else "sanitized"):
                asan_steps(run)
                if run.full:
                    asan_conform_steps(run)
        aarch64_steps(run)
    if mode == "only-asan" and build_step(run, "asan"):
        asan_steps(run)
        asan_conform_steps(run)
    if mode == "only-tsan" and build_step(run, "tsan"):
        tsan_steps(run)
    if mode == "only-conform":
        conform_steps(run)
    if mode == "only-sanitized":
        tsan_steps(run)
        asan_conform_steps(run)
    if mode in ("full", "only-fuzz") and build_step(run, "fuzz"):
        with reports(run, "fuzz"):
            libfuzzer_step(run, seconds)
    if mode == "full" or mode == "only-fuzz" and build_step(run, "asan"):
        with reports(run, "asan"):
            fuzz_step(run, seconds)


def last_words(run, mode):
    """The lines before the last."""
    if mode == "default":
        yield f"{time.monotonic() - run.start:.0f} s of {ci_rules.TEST_SECONDS}"
    if run.over:
        yield f"over their budgets: {', '.join(run.over)}"
    if run.repeated:
        yield f"unstable: {' '.join(run.repeated)}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--seconds", default="120", help="for each fuzzer")
    for mode in ("quick", "full", "only-asan", "only-tsan", "only-fuzz", "only-conform", "only-sanitized"):
        parser.add_argument(f"--{mode}", dest="mode", action="store_const", const=mode, default="default")
    options = parser.parse_args()

    mode = options.mode
    run = Run(os.path.abspath(options.build), Count(read_allowed(os.path.join(ROOT, "tests", "allowed-skips.txt"))),
              full=mode == "full", reports="sanitizer-beside" if mode == "only-sanitized" else "sanitizer")
    read_unstable(run, os.path.join(ROOT, "tests", "unstable.txt"))
    try:
        steps(run, mode, options.seconds)
    finally:
        if run.ahead:
            run.ahead.stop()
    count = run.count
    if not count.passed + count.failed:
        count.fail("nothing ran")
    for line in (*count.text, *last_words(run, mode)):
        print(line)
    print(f"{count.passed} passed, {count.failed} failed, {count.skipped} skipped")
    return 1 if count.failed else 0


if __name__ == "__main__":
    sys.exit(main())
