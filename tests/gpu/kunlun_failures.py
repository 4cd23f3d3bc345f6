#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lets each call of Kunlun's libraries fail once, be late once, and lets work fail on the device: messages name the call,
and nothing else suffers.

    kunlun_failures.py STEPS STANDIN FEW
        STEPS: the program of tests/npu/steps.c
        STANDIN, FEW: the folders of the stand-in for XRE's libraries, and of the one that lacks functions

A call is one that STEPS makes on the stand-in without failures. Afterwards the device is opened again, and works.
"""
import collections
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import in_folders  # noqa: E402

STEPS, STANDIN, FEW = sys.argv[1:]
RUN = ["product", "products", "record", "query", "wait", "other", "add", "large", "peer", "managed", "threads", "product", "sync", "read"]
# The runtime with few functions has no memory that host and device share.
RUNS = {STANDIN: RUN, FEW: [word for word in RUN if word != "managed"]}
AFTER = ["reopen", "add", "read", "product", "products"]
# Codes of CUDA's runtime, and of cuBLAS.
PARAMETER, MEMORY, UNAVAILABLE, ILLEGAL_ADDRESS, INTERNAL, BLAS_MEMORY, BLAS_FAILED = 1, 2, 46, 700, 999, 3, 13
# Calls whose failure cannot be returned, because they end something: a warning in the log, or nothing.
ENDS = re.compile(r"cudaFree|cuda\w+Destroy|cublasDestroy")
# Calls whose failure changes nothing: the plugin does without the number or the function.
OPTIONAL = ("cudaDeviceGetPCIBusId", "cudaDeviceCanAccessPeer", "cudaDeviceEnablePeerAccess", "cudaSetDeviceFlags")
# A program that cannot be recorded runs node by node: the reason, which the program keeps, has the name.
RECORDS = ("cudaStreamBeginCapture", "cudaStreamEndCapture", "cudaGraphInstantiateWithFlags")
# Functions that the plugin calls to do the work of another function, whose name the message has.
SERVES = {"cudaGetDevice": "cudaMemGetInfo", "cudaSetDevice": "cudaMemGetInfo", "cudaMallocHost": "cudaHostAlloc"}
VARY = ("cudaGetDevice", "cudaStreamSynchronize", "cudaEventQuery")
tests = []


def steps(folder, libraries, *words, **more):
    """Runs STEPS; returns the pairs of a step and its status, and all output."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("BP_", "XPU_", "LD_LIBRARY_PATH"))}
    env |= {"HOME": folder, "LD_LIBRARY_PATH": libraries, "BP_SIM_DEVICES": "2", "BP_LOG": "warn", "BP_FALLBACK": "allow", "BP_KUNLUN_WAIT": "block",
            "BP_STANDIN_CALLS": os.path.join(folder, "calls"), **more}
    done = subprocess.run([STEPS, "kunlun:0", *words], capture_output=True, text=True, env=env, timeout=120, check=False)
    text = done.stderr + done.stdout
    assert done.returncode == 0 and done.stdout.rstrip().endswith("end"), (done.returncode, text)
    return re.findall(r"^(\w+): (BP_\w+)", done.stdout, re.MULTILINE), text


def calls(folder, libraries):
    """{name: (number of calls, of calls before the first query)} of a run without failures. How often events are queried and
    streams are waited for depends on time, and so do the later numbers of these calls, each of which reads the thread's device."""
    found, text = steps(folder, libraries, *RUNS[libraries])
    assert {status for step, status in found if step != "query"} == {"BP_OK"}, text
    with open(os.path.join(folder, "calls"), encoding="utf-8") as f:
        names = [line.split()[0] for line in f]
    steady = collections.Counter(names[:names.index("cudaEventQuery")])
    return {name: (n, steady[name]) for name, n in collections.Counter(names).items()}


def middle(name, n, steady):
    return max(1, steady if name in VARY else n // 2)


def works_again(found, text):
    assert found[-len(AFTER):] == [(step, "BP_OK") for step in AFTER], text


def fails_once(libraries, name, at, code):
    """The call number `at` of this name fails: a step fails, and the message has the name and the code."""
    def test(folder):
        # Objects that a failed call has not ended stay in the stand-in: the plugin leaks nothing.
        leaks = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"} if ENDS.match(name) else {}
        found, text = steps(folder, libraries, *RUNS[libraries], *AFTER, BP_STANDIN_FAIL=f"{name}:{at}:{code}", **leaks)
        names = (name.removesuffix("_v2"), SERVES.get(name))
        said = any(f"{word} answers {code}" in text for word in names)
        assert said or ENDS.match(name) or name in OPTIONAL, text
        bad = [status for step, status in found if status != "BP_OK" and step != "query"]
        assert bad or "warning" in text or ENDS.match(name) or name in OPTIONAL + RECORDS, text
        if ("begin", "BP_OK") in found or "BP_ERR_PLUGIN" not in text:
            works_again(found, text)
    test.__name__ = f"call {at} of {name} fails with {code}"
    return test


def is_late_once(libraries, name, at):
    """A late call changes nothing."""
    def test(folder):
        found, text = steps(folder, libraries, *RUNS[libraries], BP_STANDIN_FAIL=f"{name}:{at}:+20000")
        assert {status for step, status in found if step != "query"} == {"BP_OK"}, text
    test.__name__ = f"call {at} of {name} is late"
    return test


def is_in_use(folder):
    """Another process has the device: opening it fails, and works when the other process has ended."""
    found, text = steps(folder, STANDIN, "reopen", "add", "read", BP_STANDIN_FAIL=f"cudaSetDevice:1:{UNAVAILABLE}")
    assert f"answers {UNAVAILABLE}: the device is in use by others" in text, text
    assert found[0][1] == "BP_ERR_DEVICE" and found[-2:] == [("add", "BP_OK"), ("read", "BP_OK")], text


def work_fails(at):
    """Work fails on the device: it is lost, which is reported, and works when it is opened again."""
    def test(folder):
        found, text = steps(folder, STANDIN, *RUN, *AFTER, BP_SIM_FAIL=f"work:{at}:{ILLEGAL_ADDRESS}")
        assert "BP_ERR_DEVICE_LOST" in {status for _, status in found}, text
        assert f"answers {ILLEGAL_ADDRESS}" in text, text
    test.__name__ = f"work {at} fails"
    return test


def add_tests():
    """Of the full libraries each call, of those with few functions the calls that replace missing ones."""
    known = set()
    for libraries in RUNS:
        with tempfile.TemporaryDirectory() as folder:
            found = calls(folder, libraries)
        for name, (n, steady) in sorted(found.items()):
            if name in known:
                continue
            of_blas, makes = name.startswith("cublas"), re.search("Alloc|Create|Instantiate", name)
            codes = (BLAS_MEMORY, BLAS_FAILED) if of_blas else (MEMORY if makes else PARAMETER, INTERNAL)
            tests.extend(fails_once(libraries, name, at, code) for at, code in sorted({(1, codes[0]), (middle(name, n, steady), codes[1])}))
            tests.append(is_late_once(libraries, name, middle(name, n, steady)))
        known |= set(found)
    tests.extend(work_fails(at) for at in (1, 2, 5, 9, 14, 20))


if __name__ == "__main__":
    tests.append(is_in_use)
    add_tests()
    sys.exit(in_folders.run_tests(tests))
