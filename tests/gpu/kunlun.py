#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the kunlun plugin on the stand-in for XRE's libraries, on one that lacks functions, and on machines without them.

    kunlun.py BP STANDIN FEW SIMULATOR BASE PLUGIN TWO [none|address,undefined|thread]
        STANDIN, FEW: the folders of the stand-in for the libraries, and of the one that lacks functions
        SIMULATOR, BASE: the folders of the simulator and of the stand-ins' base, which both need
        PLUGIN, TWO: the plugin, and the second one that kunlun_two.c makes of it
        the last: the sanitizer of the build
"""
import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import in_folders  # noqa: E402

BP, STANDIN, FEW, SIMULATOR, BASE, PLUGIN, TWO, SANITIZER = [*sys.argv[1:], "none"][:8]
# Which cases run. The host code is plugins/gpu, which runs as the simulator's too: with sanitizers, which take several times as
# long, fewer dtypes and small shapes of the library's rows do; for races the calls of the runtime, and one dtype. Allocations
# of all devices are the core's, whose tests ThreadSanitizer sees.
SUITES = {"none": "plugin,runtime,memory,gradient,ccl", "thread": "runtime"}.get(SANITIZER, "plugin,runtime,memory,ccl")
DTYPES = {"none": ["*"], "thread": ["f32*"]}.get(SANITIZER, ["f32*", "bf16*"])
ROWS = [word for op in ("linear", "matmul") for dtype in DTYPES for word in ("--filter", f"kernel/{op}/{dtype}")]
MEMORY = [] if SANITIZER == "thread" else ["--filter", "memory/*"]
QUICK = [] if SANITIZER == "none" else ["--quick"]
tests = []


def test(function):
    tests.append(function)
    return function


def environment(folder, libraries=None, **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("BP_", "XPU_", "VIRTUAL_ENV", "LD_LIBRARY_PATH"))}
    if libraries:
        env["LD_LIBRARY_PATH"] = libraries
    return {**env, "HOME": folder, "BP_SIM_DEVICES": "2", **more}


def bp(env, *words):
    done = subprocess.run([BP, *words], capture_output=True, text=True, env=env, timeout=300, check=False)
    return done.returncode, done.stdout + done.stderr


def conform(env, folder, *words):
    """Runs conformance and returns its report."""
    path = os.path.join(folder, "report.json")
    code, text = bp(env, "conform", "kunlun", "--json", path, *words)
    assert code == 0, text[-3000:]
    with open(path, encoding="utf-8") as file:
        return json.load(file)


@test
def without_the_libraries_the_message_names_files_and_folders(folder):
    code, text = bp(environment(folder), "info", "kunlun")
    assert code == 3, (code, text)
    for word in ("no runtime of XRE 5", "libcudart.so*", "$XPU_TOOLKIT_ROOT/so", "BP_KUNLUN_DRIVER"):
        assert word in text, (word, text)


@test
def a_runtime_of_nvidia_is_not_taken(folder):
    """Its file has the same name and functions, but XRE's own library is not beside it."""
    shutil.copy(os.path.join(STANDIN, "libcudart.so"), os.path.join(folder, "libcudart.so.12"))
    code, text = bp(environment(folder, f"{folder}:{SIMULATOR}:{BASE}"), "info", "kunlun")
    assert code == 3 and "no libxpurt.so is beside it" in text, (code, text)


@test
def without_permission_the_node_is_named(folder):
    """No user, not even the administrator, may write this file. XRE then finds no device, or returns a code."""
    node = "/proc/sys/kernel/ostype"
    for fails in ({"BP_SIM_DEVICES": "0"}, {"BP_STANDIN_FAIL": "cudaGetDeviceCount:1:100"}, {"BP_STANDIN_FAIL": "cudaGetDeviceCount:1:999"}):
        code, text = bp(environment(folder, STANDIN, BP_KUNLUN_NODES=node, **fails), "info", "kunlun")
        assert code == 3 and f"this user may not use {node}: add the user to the group of the node" in text, (fails, code, text)
    code, text = bp(environment(folder, STANDIN, BP_SIM_DEVICES="0"), "info", "kunlun")
    assert code == 3 and "no Kunlun device" in text and "may not use" not in text, (code, text)


@test
def half_an_installation_is_named(folder):
    """A runtime without a function that the plugin needs."""
    for name in ("libcudart.so", "libxpurt.so"):
        shutil.copy(os.path.join(STANDIN, "libxpurt.so"), os.path.join(folder, name))
    code, text = bp(environment(folder, folder), "info", "kunlun")
    assert code and "has no function cuda" in text, (code, text)


@test
def the_device_passes_conformance(folder):
    """All suites, and all cases of the rows of the vendor's library, or a part of them."""
    conform(environment(folder, STANDIN), folder, "--quick", "--suite", SUITES)
    report = conform(environment(folder, STANDIN), folder, *QUICK, *ROWS)
    assert SANITIZER != "none" or report["rows"] == {"executed": 6, "total": 6}, report["rows"]


@test
def a_runtime_with_few_functions_passes_conformance(folder):
    """Without batches, fills, captures, copies between devices and managed memory."""
    conform(environment(folder, FEW), folder, "--quick", "--suite", "runtime,memory,kernel", "--filter", "runtime/*",
            *MEMORY, *ROWS, "--filter", "!*empty-sum*")


def two_plugins_of_the_kind_share_the_devices(folder):
    second = os.path.join(folder, "second")
    os.makedirs(os.path.join(second, "copy"))
    shutil.copy(TWO, second)
    shutil.copy(PLUGIN, os.path.join(second, "copy"))
    code, text = bp(environment(folder), "manifest", os.path.join(second, "bp_kunlun_two.so"), "-o", os.path.join(second, "bp_kunlun_two.json"))
    assert code == 0, text
    env = environment(folder, STANDIN, BP_PLUGIN_PATH=second)
    code, text = bp(env, "list", "--probe")
    assert code == 0 and len(re.findall(r"^kunlun\w* +kunlun .* ready +2", text, re.M)) == 2, text
    conform(env, folder, "--quick", "--suite", "runtime")


@test
def without_xblas_its_rows_say_why(folder):
    code, text = bp(environment(folder, STANDIN, BP_KUNLUN_XBLAS="off"), "info", "kunlun:0")
    assert code == 0 and "there is no library XBLAS (libxpu_blas*.so*" in text, (code, text)


def a_failure_has_the_name_of_the_vendors_function(folder):
    for fails, words in (("stream_create:1:999", "cudaStreamCreateWithFlags answers 999"), ("copy_in:1:1", "cudaMemcpyAsync answers 1"),
                         ("work:3:700", "answers 700: a kernel used an address that is none; start the process again")):
        code, text = bp(environment(folder, STANDIN, BP_SIM_FAIL=fails), "conform", "kunlun", "--quick", "--isolate", "none", "--suite", "memory")
        assert code, (fails, text[-2000:])
        assert words in text, (fails, words, text[-2000:])


if SANITIZER != "thread":  # one thread makes the calls, and prints the message; one thread loads both plugins
    test(a_failure_has_the_name_of_the_vendors_function)
    test(two_plugins_of_the_kind_share_the_devices)


if __name__ == "__main__":
    sys.exit(in_folders.run_tests(tests))
