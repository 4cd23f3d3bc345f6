#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lets each call of CANN fail once, and work on the device: messages name the call, and nothing else suffers.

    failures.py BUILD [rows] [few]

rows: the calls of rows of many calls alone, and values that are not allowed; else all other calls, and collectives.

few: one failure for each call, in place of two, and every second failure of work and of collectives: sanitizers take long.

A call is one that npu_steps makes on the stand-in without failures, or the suite of collectives. Afterwards the device
is opened again, and works. engine.py has the calls of models.
"""
import collections
import json
import os
import re
import sys
import tempfile

from standin import STEPS, Setting, parse, run, run_tests

setting = Setting(sys.argv[1])
FEW, OF_ROWS = "few" in sys.argv[2:], "rows" in sys.argv[2:]
# With events that are waited for while work runs, functions of other arguments, and two devices.
BUSY = ["add", "record", "query", "other", "add", "record", "wait", "concat", "norm", "sync", "peer", "read"]
# Without a communicator collectives go through host memory; a failure to destroy one cannot be returned.
HCCL = {"HcclGetRootInfo": "pass", "HcclCommInitRootInfo": "pass", "HcclCommDestroy": "pass", "HcclAllReduce": "fail",
        "HcclAllGather": "fail", "HcclReduceScatter": "fail", "HcclBroadcast": "fail", "HcclReduce": "fail",
        "HcclAlltoAll": "fail", "HcclBatchSendRecv": "fail", "HcclGetCommAsyncError": "fail"}
COLLECTIVES = [f"ccl/{name}/f32*/[34]*" for name in
               ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all", "ring")]
# Rows of many calls, whose results are checked.
DRAWS = ["draws", "counts"]
BAD_VALUES = {"draws-bad": "multinomial", "draws-few": "multinomial", "counts-below": "bincount", "counts-above": "bincount"}
HCCL_INTERNAL = 4
AFTER = ["reopen", "add", "read", "program"]
# Calls whose failure cannot be returned: a warning in the log, or nothing.
QUIET = re.compile(r"aclrtDestroy|aclrtFree|aclDestroy|aclrtReset|aclmdlRIDestroy|aclrtGetVersion|aclGetDeviceCapability")
# Calls that the core lets the plugin make before it opens the device: one failure is passed over, two are not.
EARLY = ("aclrtGetCurrentContext", "aclrtGetMemInfo", "aclrtSetDevice")
PARAMETER, INTERNAL, MEMORY, LOST = 107000, 507899, 207001, 507015


def calls(steps):
    """The names of the calls of a run without failures, with their numbers."""
    with tempfile.TemporaryDirectory() as folder:
        env = setting.environment(folder, BP_STANDIN_DEVICES="2", BP_STANDIN_CALLS=os.path.join(folder, "calls"))
        code, text = run(env, setting.steps, "npu:0", *steps)
        assert code == 0 and "ERR" not in text.replace("query: BP_ERR_NOT_READY", ""), text
        with open(env["BP_STANDIN_CALLS"], encoding="utf-8") as f:
            return collections.Counter(line.split()[0] for line in f)


def fails_once(sequence, name, at, code, after=AFTER):
    """The call number `at` of this name fails: a step fails, and the message has the name and the code."""
    def test(folder):
        faults = f"{name}:{at}:{code}" + (f",{name}:{at + 1}:{code}" if name in EARLY and at == 1 else "")
        env = setting.environment(folder, BP_STANDIN_DEVICES="2", BP_STANDIN_FAIL=faults, BP_LOG="warn")
        status, text = run(env, setting.steps, "npu:0", *sequence, *after)
        steps, messages = parse(text)
        assert status == 0 and text.rstrip().endswith("end"), text
        said = name in text and (str(code) in text or name.startswith("aclCreate"))
        short = name.replace("GetWorkspaceSize", "")
        said = said or (short in text and str(code) in text) or f"argument" in text and name.startswith("aclCreate")
        assert said or QUIET.match(name), text
        assert steps[0] == ("begin", "BP_OK") or messages, text
        if "BP_ERR_PLUGIN" in text or "BP_ERR_NOT_FOUND" in text:
            return  # the plugin itself could not be created: nothing is left to be opened again
        assert steps[-len(after):] == [(step, "BP_OK") for step in after], text
    return test


def collective_fails_once(name, outcome):
    """Each process lets its first call of this name fail: cases fail with its name, or all pass; none crashes or hangs."""
    def test(folder):
        env = setting.environment(folder, BP_STANDIN_DEVICES="4", BP_STANDIN_FAIL=f"{name}:1:{HCCL_INTERNAL}",
                                  BP_STANDIN_CALLS=os.path.join(folder, "calls"))
        report = os.path.join(folder, "report")
        words = [word for case in COLLECTIVES for word in ("--filter", case)]
        _, text = run(env, setting.bp, "conform", "npu:0", "--suite", "ccl", "--quick", "--isolate", "case", *words, "--json", report)
        with open(report, encoding="utf-8") as f:
            cases = [(case["outcome"], case.get("message") or "") for case in json.load(f)["cases"]]
        with open(env["BP_STANDIN_CALLS"], encoding="utf-8") as f:
            assert name in f.read(), "no call"
        assert {found for found, _ in cases} == {outcome, "pass"}, text
        assert all(name in message for found, message in cases if found == "fail"), text
    return test


def work_fails(at):
    """Work fails on the device: it is lost, which is reported, and works when it is opened again."""
    def test(folder):
        env = setting.environment(folder, BP_STANDIN_FAIL=f"work:{at}:{LOST}", BP_LOG="warn")
        status, text = run(env, setting.steps, "npu:0", *STEPS, *AFTER)
        steps, _ = parse(text)
        assert status == 0, text
        assert ("add", "BP_OK") not in steps[2:-len(AFTER)] or ("read", "BP_ERR_DEVICE_LOST") in steps, text
        assert any(s == "BP_ERR_DEVICE_LOST" for _, s in steps), text
        assert steps[-len(AFTER):] == [(step, "BP_OK") for step in AFTER], text
        assert text.count(f"answers {LOST}") >= 1 and "warn" not in text, text
    return test


def values_are_bad(step, operator):
    """Values that are not allowed fail the work with the row's name; the stream stays failed until it is made anew."""
    def test(folder):
        env = setting.environment(folder, BP_LOG="warn")
        status, text = run(env, setting.steps, "npu:0", *DRAWS, step, "reopen", *DRAWS)
        steps, messages = parse(text)
        assert status == 0, text
        good = [(name, "BP_OK") for name in DRAWS]
        assert steps == [("begin", "BP_OK"), *good, (step, "BP_ERR_FAULT"), ("reopen", "BP_OK"), *good], text
        assert len(messages) == 1 and f"npu_{operator}" in messages[0], text
    return test


def of_rows():
    tests = []
    for name, n in sorted(calls(DRAWS).items())[::4 if FEW else 1]:
        tests.append((f"call {max(1, n // 2)} of {name} fails while categories are drawn", fails_once(DRAWS, name, max(1, n // 2), INTERNAL, AFTER + DRAWS)))
    return tests + [(f"{step} is reported", values_are_bad(step, operator)) for step, operator in BAD_VALUES.items()]


def of_all():
    tests, known = [], set()
    for steps in (STEPS, BUSY):
        for name, n in sorted(calls(steps).items()):
            memory = "Malloc" in name or "Create" in name
            faults = [(1, MEMORY if memory else PARAMETER), (max(1, n // 2), INTERNAL)][:1 if FEW else 2]
            for at, code in faults if name not in known else ():
                tests.append((f"call {at} of {name} fails with {code}", fails_once(steps, name, at, code)))
            known.add(name)
    for name, outcome in list(HCCL.items())[::2 if FEW else 1]:
        tests.append((f"the first call of {name} fails", collective_fails_once(name, outcome)))
    for at in (1, 5, 14) if FEW else (1, 2, 5, 9, 14, 20):
        tests.append((f"work {at} fails", work_fails(at)))
    return tests


run_tests(of_rows() if OF_ROWS else of_all())
