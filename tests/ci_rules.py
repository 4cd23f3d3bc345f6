# SPDX-License-Identifier: Apache-2.0
"""The rules that a run of all tests keeps, beside the tests themselves: how long each step may take, and which
programs may be run again after a failure in continuous integration. tests/run.py applies them; tests/style/counting.py
tests them.
"""
import datetime
import os
import re

TEST_SECONDS = 1500  # ./dev test on two processors that do nothing else; .ci/run has 2400

# Which seconds of a step are counted.
# Of all of `bp conform DEVICE`, which users run too. Processors differ, and other work lengthens the seconds by what it
# takes from caches and memory: 254 s were seen on an Intel Xeon beside the builds with sanitizers.
CONFORM_PROCESSOR_SECONDS = {"cpu": 320}
WALL = "wall"  # of the clock; steps of this kind run one after another
SUM = "sum"  # durations of the programs of one suite, added up; several programs run at once
BESIDE = "beside"  # of the clock, while steps of another build run
OTHER = "other"  # of the clock, in other runs than ./dev test without options

# Seconds that each step may take on two quiet processors: title -> (seconds, WALL or another kind of seconds).
BUDGETS = {
    "normal: build": (270, WALL),
    "normal: programs": (395, WALL),
    "normal: plugins": (20, SUM),
    "normal: unit": (101, SUM),
    "normal: compile": (40, SUM),
    "normal: ops": (10, SUM),
    "normal: dlpack": (10, SUM),
    "normal: template": (10, SUM),
    "normal: tools": (43, SUM),
    "normal: thread": (20, SUM),
    "normal: exit": (40, SUM),
    "normal: environments": (60, SUM),
    "normal: style": (30, SUM),
    "normal: headers": (30, SUM),
    "normal: install": (110, SUM),
    "normal: docs": (120, SUM),
    "normal: fuzz": (30, SUM),
    "normal: graphs": (60, SUM),
    "normal: conform": (308, SUM),
    "normal: kernels": (60, SUM),
    "normal: gpu": (85, SUM),
    "normal: standins": (30, SUM),
    "normal: bench": (40, SUM),
    "normal: onnx": (120, SUM),
    "normal: xpu": (105, SUM),
    "normal: openvino": (20, SUM),
    "normal: npu": (100, SUM),
    "normal: mlu": (60, SUM),
    "normal: ipu": (60, SUM),
    "normal: ccl": (280, SUM),
    "normal: kit": (5, SUM),
    "normal: targets": (30, SUM),
    "normal: python": (90, SUM),
    "normal: conform cpu": (90, WALL),
    "normal: conform template": (15, WALL),
    "normal: conform sim --quick in part": (40, WALL),  # twice: kernels, and the rest
    "normal: conform xpu --quick": (150, WALL),
    "normal: conform xpu --suite=kernel in part": (30, WALL),
    "normal: conform xpu beside cpu": (5, WALL),
    "normal: conform cpu --quick in part async": (30, BESIDE),
    "normal: conform cuda --quick in part": (25, BESIDE),  # twice
    "normal: conform hip --quick in part": (25, BESIDE),  # twice
    "asan: build": (20, WALL),
    "tsan: build": (58, WALL),
    "aarch64: build": (60, BESIDE),  # it is built while tests of other builds run
    "asan: programs": (265, WALL),
    "asan: unit": (320, SUM),
    "asan: compile": (60, SUM),
    "asan: template": (20, SUM),
    "asan: tools": (96, SUM),
    "asan: thread": (60, SUM),
    "asan: gpu": (100, SUM),
    "asan: standins": (90, SUM),
    "asan: fuzz": (60, SUM),
    "asan: graphs": (60, SUM),
    "asan: onnx": (100, SUM),
    "asan: openvino": (40, SUM),
    "asan: ccl": (340, SUM),
    "asan: kit": (10, SUM),
    "asan: npu": (60, SUM),
    "asan: mlu": (60, SUM),
    "asan: ipu": (60, SUM),
    "asan: python": (60, SUM),
    "asan: conform cpu --quick in part": (100, BESIDE),  # twice
    "asan: conform template --quick in part": (20, BESIDE),
    "asan: conform sim --quick in part": (40, BESIDE),  # twice
    "asan: conform xpu --quick in part": (25, BESIDE),
    "tsan: programs": (200, BESIDE),
    "tsan: thread": (100, SUM),
    "tsan: graphs": (30, SUM),
    "tsan: gpu": (100, SUM),
    "tsan: standins": (90, SUM),
    "tsan: ccl": (300, SUM),
    "tsan: kit": (10, SUM),
    "tsan: conform cpu --quick in part": (60, BESIDE),  # twice: kernels, and the rest
    "tsan: conform template --quick in part": (20, BESIDE),
    "tsan: conform sim --quick in part": (55, BESIDE),
    "tsan: conform xpu --quick in part": (40, BESIDE),
    "tsan: conform cpu --quick in part async": (40, BESIDE),
    # in other runs than that of ./dev test without options
    "normal: conform cpu --quick": (60, OTHER),
    "normal: conform template --quick": (10, OTHER),
    "normal: conform sim --quick": (60, OTHER),
    "normal: conform xpu": (300, OTHER),
    "normal: conform cuda --quick": (120, OTHER),
    "normal: conform hip --quick": (120, OTHER),
    "normal: conform sim": (150, OTHER),
    "normal: conform cpu async": (150, OTHER),
    "normal: conform cpu --suite in part": (600, OTHER),
    "normal: level of portable kernels": (600, OTHER),
    "asan: conform cpu": (600, OTHER),
    "asan: conform template": (60, OTHER),
    "asan: conform sim": (600, OTHER),
    "asan: conform xpu": (600, OTHER),
    "fuzz: build": (120, OTHER),
    "aarch64: programs in QEMU": (300, OTHER),
}
FULL = 4  # ./dev test --full runs more in each step: so many times a budget


def budget(title, full=False):
    """Seconds that a step may take, or None."""
    seconds = BUDGETS.get(title, (None, None))[0]
    return seconds and seconds * (FULL if full else 1)


# --- tests that fail now and then --------------------------------------------------------------------

NAMES = 3  # at most so many
DAYS = 30  # at most so old
AGAIN = 2  # runs after the one that failed; all must pass
AGAIN_SECONDS = 120  # for each of these

# Suites whose failures are never a matter of chance, and programs of that kind in other suites.
NEVER_SUITES = ("style", "conform", "headers")
NEVER_NAMES = re.compile(r"mutants|conform|suite$")

LINE = re.compile(r"(?P<name>\S+/\S+) (?P<date>\d{4}-\d\d-\d\d): (?P<cause>\S.*)")

# Texts that a program prints on a signal or a sanitizer's report: such a failure counts, even if a repeated run passes.
NEVER_TEXT = re.compile(r"Sanitizer|runtime error:|unexpected signal|killed by signal|SIG(?:SEGV|ABRT|BUS|ILL|FPE|KILL)|"
                        r"[Ss]egmentation fault|\bCRASH")


def parse_unstable(text, today):
    """({name: cause}, [errors]) of the text of tests/unstable.txt. A line is `suite/program DATE: cause`."""
    found, wrong = {}, []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        match = LINE.fullmatch(line)
        if not match:
            wrong.append(f"line {number}: '{line}'; expected `suite/program YYYY-MM-DD: cause as far as known`")
            continue
        name = match["name"]
        suite, _, program = name.partition("/")
        try:
            age = (today - datetime.date.fromisoformat(match["date"])).days
        except ValueError:
            age = -1
        if not 0 <= age <= DAYS:
            wrong.append(f"line {number}: {name} has the date {match['date']}; expected one of the last {DAYS} days: "
                         "find the cause of the failure")
        if suite in NEVER_SUITES or NEVER_NAMES.search(program):
            wrong.append(f"line {number}: {name}: failures of style, conformance and mutants are never run again")
        found[name] = match["cause"]
    if len(found) > NAMES:
        wrong.append(f"{len(found)} names; at most {NAMES} are allowed")
    return found, wrong


def read_unstable(path):
    with open(path, encoding="utf-8") as f:
        return parse_unstable(f.read(), datetime.date.today())


def in_ci():
    return os.environ.get("CI") == "true"


def may_repeat(kind, test):
    """Whether a failure of a listed program may be a matter of chance: not under a sanitizer, not by a signal."""
    text = "\n".join((test.get("stdout") or "", test.get("stderr") or ""))
    shown = "\n".join(line for line in text.splitlines() if not line.startswith("ok "))
    late = test["result"] == "TIMEOUT"  # the program was killed for it
    return (kind == "normal" and test["result"] in ("FAIL", "ERROR", "TIMEOUT")
            and (late or 0 <= test.get("returncode", 0) < 128) and not NEVER_TEXT.search(shown))
