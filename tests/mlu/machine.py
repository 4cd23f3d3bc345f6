#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the mlu plugin on the stand-ins for Cambricon's libraries: machines without them, with other versions or a part
of them, calls that fail, lost devices, and the rows that wait for numbers of the vendor.

    machine.py BP PLUGIN FILLED DENIED STEPS STANDINS FEW OLD BASE
        PLUGIN: the folder of the plugin; FILLED: that of a plugin with all numbers, of another name; DENIED: the same with a
        fact that does not hold; STANDINS, FEW, OLD: folders of stand-ins; BASE: that of the library on which they are built

Two tests run at once: most of them wait for processes that wait for the stand-ins' pauses.
"""
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

BP, PLUGIN, FILLED, DENIED, STEPS, STANDINS, FEW, OLD, BASE = sys.argv[1:]
LIBRARIES = ("cnrt", "cncl", "cnnl")
tests = []


def test(function):
    tests.append(function)
    return function


def environment(folder, libraries=STANDINS, plugins=PLUGIN, **settings):
    """The environment of a run. The stand-in writes each misuse to misuse.log, each call to calls.log."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith(("BP_", "NEUWARE_"))}
    mine.pop("LD_LIBRARY_PATH", None)
    mine |= {"BP_PLUGIN_PATH": plugins, "BP_PLUGINS": "mlu*", "BP_STANDIN_LOG": f"{folder}/misuse.log",
             "BP_STANDIN_CALLS": f"{folder}/calls.log", "BP_STANDIN_CNNL_ASSUMED": "1", "BP_STANDIN_DEVICES": "2"}
    mine["LD_LIBRARY_PATH"] = f"{libraries}:{BASE}" if libraries else BASE
    return mine | settings


def run(env, *words):
    done = subprocess.run(words, capture_output=True, text=True, env=env, timeout=330, check=False)
    return done.returncode, done.stdout + done.stderr


def bp(env, *words):
    return run(env, BP, *words)


def reason(env):
    """The state of the plugin, and the reason, in one line."""
    text = " ".join(bp(env, "doctor", "mlu")[1].split())
    for state in ("ready", "absent", "broken"):
        if re.search(rf"mlu [^ ]+: {state}", text):
            return state, text
    return None, text


def steps(env, *words):
    """Runs steps; returns [(step, status, message)]."""
    done = subprocess.run([STEPS, "mlu:0", *words], capture_output=True, text=True, env=env, timeout=330, check=False)
    text = done.stdout
    assert done.returncode == 0, (done.returncode, text, done.stderr)
    rows = [re.match(r"(\w+) (\w+)(?:: (.*))?$", line) for line in text.splitlines()]
    assert all(rows), text
    return [(row[1], row[2], row[3] or "") for row in rows]


def good(rows):
    assert all(status == "BP_OK" for _, status, _ in rows), rows


def conform(env, *words, device="mlu"):
    code, text = bp(env, "conform", device, *words)
    assert code == 0 and " pass" in text and " fail" not in text, text
    return text


def misused(folder):
    path = os.path.join(folder, "misuse.log")
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8") as f:
        return f.read()


def part(folder, *libraries):
    """A folder that has links to some of the libraries."""
    where = os.path.join(folder, "part")
    os.mkdir(where)
    for name in libraries:
        os.symlink(f"{STANDINS}/lib{name}.so", f"{where}/lib{name}.so")
    return where


@test
def without_libraries_the_plugin_is_absent(folder):
    state, text = reason(environment(folder, libraries=None))
    assert state == "absent", text
    assert "libcnrt.so" in text and "LD_LIBRARY_PATH" in text and "/usr/local/neuware/lib64" in text and "BP_MLU_CNRT" in text, text
    state, text = reason(environment(folder, BP_MLU_CNRT="off"))
    assert state == "absent" and "BP_MLU_CNRT" in text, text


@test
def the_folder_of_the_toolkit_is_searched(folder):
    os.mkdir(f"{folder}/lib64")
    for name in LIBRARIES:
        os.symlink(f"{STANDINS}/lib{name}.so", f"{folder}/lib64/lib{name}.so")
    good(steps(environment(folder, libraries=None, NEUWARE_HOME=folder), "abs", "check"))


@test
def a_runtime_of_version_4_is_refused(folder):
    state, text = reason(environment(folder, libraries=OLD))
    assert state == "broken" and "has no function" in text and "install CNRT 5 or newer" in text, text
    state, text = reason(environment(folder, BP_STANDIN_CNRT="4.10.1"))
    assert state == "broken" and "is CNRT 4.10.1: version 5 or newer is needed" in text, text
    state, text = reason(environment(folder, BP_STANDIN_CNRT="5.10.0"))
    assert state == "ready", text


@test
def a_runtime_with_fewer_functions_works_without_recording(folder):
    env = environment(folder, libraries=f"{FEW}:{STANDINS}", BP_STANDIN_KEEP="0")
    good(steps(env, "write", "abs", "check", "record", "wait"))
    conform(env, "--suite", "runtime,memory", "--quick",
            *(word for part in ("memory/copy", "runtime/order", "runtime/event") for word in ("--filter", f"{part}/*")))
    with open(f"{folder}/calls.log", encoding="utf-8") as f:
        calls = f.read()
    assert "cnrtMemcpyAsync_V3" in calls and "Capture" not in calls, calls[:500]


@test
def without_cnnl_rows_name_the_library(folder):
    env = environment(folder, libraries=part(folder, "cnrt"))
    code, text = bp(env, "info", "mlu:0")
    assert code == 0 and "of which 0 can run here" in text and "libcnnl.so" in " ".join(text.split()), text
    conform(env, "--suite", "memory", "--filter", "memory/copy/*")
    code, text = bp({**env, "BP_FALLBACK": "deny"}, "conform", "mlu", "--filter", "ccl/all_reduce/f32-sum/2x11")
    assert code == 0, text  # through host memory


@test
def without_permission_or_in_use_the_reason_is_reported(folder):
    for code, words in ((100051, "not permitted: may this user open the device files"), (632014, "in use by another process"),
                        (100002, "could not be initialised")):
        state, text = reason(environment(folder, BP_STANDIN_FAIL=f"cnrtGetDeviceCount:1:{code}"))
        assert state == "broken" and f"cnrtGetDeviceCount answers {code}" in text and words in text, text
    state, text = reason(environment(folder, BP_STANDIN_FAIL="cnrtGetDeviceCount:1:100004"))
    assert state == "absent" and "no device" in text, text


@test
def without_permission_the_node_is_named(folder):
    """No user, not even the administrator, may write this file. The runtime then finds no device, or returns a code."""
    node = "/proc/sys/kernel/ostype"
    for fails in ({"BP_STANDIN_DEVICES": "0"}, {"BP_STANDIN_FAIL": "cnrtGetDeviceCount:1:100004"}, {"BP_STANDIN_FAIL": "cnrtGetDeviceCount:1:100051"}):
        _, text = reason(environment(folder, BP_MLU_NODES=node, **fails))
        assert f"this user may not use {node}: add the user to the group of the node" in text, (fails, text)


@test
def no_memory_is_reported_with_the_numbers(folder):
    env = environment(folder, BP_STANDIN_MEMORY=str(64 << 20), BP_LOG="debug")
    rows = steps(env, "allocate", "abs", "check")
    assert rows[1][1] == "BP_ERR_MEMORY" and "asked for 1073741824 bytes" in rows[1][2] and "of 67108864" in rows[1][2], rows
    good(rows[2:])


@test
def a_lost_device_is_reported_once_by_work_and_by_all_later_calls(folder):
    rows = steps(environment(folder, BP_STANDIN_FAIL="work:6:100132"), "abs", "abs", "gather", "abs", "sync", "abs", "read", "allocate")
    lost = [row for row in rows if row[1] == "BP_ERR_DEVICE_LOST"]
    assert lost and "100132: a kernel failed" in lost[0][2] and "start the process again" in lost[0][2], rows
    assert all(row[1] == "BP_ERR_DEVICE_LOST" for row in rows[rows.index(lost[0]):]), rows


@test
def a_bad_index_is_a_fault_of_the_stream_and_harms_no_other_work(folder):
    rows = steps(environment(folder), "gather", "sync", "bad", "sync")
    good(rows[:3])
    assert rows[-1][1] == "BP_ERR_FAULT" and "kernel mlu_gather found bad values in its inputs" in rows[-1][2], rows
    rows = steps(environment(folder), "bad", "record", "wait")
    assert rows[-1][1] == "BP_ERR_FAULT", rows
    rows = steps(environment(folder), "bad", "read")
    assert rows[-1][1] == "BP_ERR_FAULT", rows


@test
def late_calls_change_no_result(folder):
    for fail in ("cnrtMemcpyAsync:2:+20000", "work:3:+20000", "cnrtQueueSync:1:+20000"):
        good(steps(environment(folder, BP_STANDIN_FAIL=fail), "write", "write", "abs", "gather", "check", "record", "wait"))


@test
def devices_without_bf16_have_no_such_rows(folder):
    env = environment(folder, BP_STANDIN_MLU="MLU370")
    text = " ".join(bp(env, "info", "mlu:0")[1].split())
    assert "row mlu_abs_bf16: these devices have no bf16" in text, text
    conform(env, "--suite", "kernel", "--filter", "kernel/abs/*", "--filter", "kernel/layer_norm/*")


@test
def calls_are_traced(folder):
    env = environment(folder, BP_MLU_TRACE="1", BP_LOG="info")
    _, text = run(env, STEPS, "mlu:0", "abs")
    assert "mlu:0: trace: cnnlAbs answers 0" in text and "trace: cnrtQueueCreate answers 0" in text, text


@test
def rows_wait_for_numbers_that_are_not_confirmed(folder):
    text = " ".join(bp(environment(folder), "info", "mlu:0")[1].split())
    for row, number in {"equal": "CNNL_LOGIC_OP_EQ", "log2": "CNNL_LOG_2", "logical_or": "CNNL_LOGIC_OP_OR",
                        "add": "CNNL_OP_TENSOR_ADD", "softmax": "CNNL_SOFTMAX_ACCURATE", "sum_bf16": "CNNL_REDUCE_ADD"}.items():
        assert f"row mlu_{row}: the number of {number} in cnnl.h is not confirmed: plugins/mlu/numbers.h" in text, text
    assert "row mlu_batch_norm_grad: it is not confirmed that the second statistic" in text, text
    assert "1 / sqrt(variance + eps): BATCH_NORM_SAVES_INVERSE in plugins/mlu/numbers.h" in text, text


@test
def rows_depend_on_facts(folder):
    """With all numbers, one fact that holds, and one that does not; the others are open."""
    text = " ".join(bp(environment(folder, plugins=DENIED), "info", "mlu:0")[1].split())
    assert re.search(r"row mlu_batch_norm_grad: it is not so that [^:]+: BATCH_NORM_SAVES_INVERSE in plugins/mlu/numbers.h", text), text
    assert re.search(r"row mlu_scatter: it is not confirmed that [^:]+: SCATTER_LAST_WINS in plugins/mlu/numbers.h", text), text
    assert "row mlu_mse_loss:" not in text and "row mlu_scatter_nd_add:" not in text, text


# Operators whose rows wait for numbers that no public source confirms, with the number of their rows.
OPEN = {op: 2 for op in (
    "log log2 log10 equal not_equal less_than less_equal greater_than greater_equal add sub mul relu relu6 sigmoid tanh elu "
    "leaky_relu selu hard_swish log_sigmoid silu gelu relu_grad leaky_relu_grad hard_swish_grad gelu_grad gelu_tanh_grad softmax "
    "log_softmax softmax_grad log_softmax_grad sum mean max min amax amin prod matmul conv conv_grad_input "
    "conv_grad_weight take_along_axis_grad scatter scatter_nd scatter_nd_add scatter_nd_update gather_nd_grad max_pool_grad "
    "logical_not tan asin acos atan sinh cosh asinh acosh atanh mse_loss smooth_l1_loss bce_with_logits nll_loss").split()} | {op: 1 for op in (
        "logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor bitwise_not batch_norm_train batch_norm_grad "
        "put_along_axis").split()} | {"cast": 7}
# Operators that have rows for half types which wait, beside one that does not.
OPEN_HALVES = {"resize_axis": 3, "resize_axis_grad": 3}
WAITS = r"(the number of \w+ in cnnl.h is not confirmed|it is not confirmed that [^:]+: \w+ in plugins/mlu/numbers.h)"


@test
def rows_open_when_the_numbers_are_filled_in(folder):
    env = environment(folder, plugins=FILLED, BP_STANDIN_KEEP="0")
    rows = OPEN | OPEN_HALVES
    executed = 0
    for first in range(0, len(rows), 64):  # at most 64 filters in a run
        filters = [word for op in [*rows][first:first + 64] for word in ("--filter", f"kernel/{op}/*")]
        if "MLU_PART" in os.environ:  # with sanitizers
            conform(env, "--suite", "kernel", "--quick", "--shard", os.environ["MLU_PART"], *filters)
            continue
        text = conform(env, "--suite", "kernel", "--quick", *filters)
        count, = re.findall(r"kernel rows executed (\d+) of (\d+)", text)
        assert count[0] == count[1], text
        executed += int(count[0])
    assert "MLU_PART" in os.environ or executed == sum(rows.values()), executed
    text = " ".join(bp(environment(folder), "info", "mlu:0")[1].split())
    for op in [*OPEN, *(f"{op}_of_{dtype}" for op in OPEN_HALVES for dtype in ("f16", "bf16"))]:
        assert re.search(rf"row mlu_{op}: {WAITS}", text), (op, text)


@test
def an_older_cnnl_has_its_own_rows_only(folder):
    env = environment(folder, libraries=f"{FEW}:{STANDINS}", plugins=FILLED)
    text = " ".join(bp(env, "info", "mlu:0")[1].split())
    for row, function in {"relu_grad": "cnnlActivationBackward", "gelu": "cnnlSetActivationDescriptor_v6", "sum": "cnnlReduce",
                          "matmul": "cnnlBatchMatMulBCast_v2"}.items():
        assert f"row mlu_{row}: {FEW}/libcnnl.so has no function {function}" in text, text
    conform(env, "--quick", *(word for op in ("neg", "relu", "add", "conv") for word in ("--filter", f"kernel/{op}/f32/*")))


@test
def two_plugins_of_the_kind_do_no_harm(folder):
    env = environment(folder, plugins=f"{PLUGIN}:{FILLED}")
    code, text = bp(env, "list", "--probe")
    assert code == 0 and len(re.findall(r"^mlu\w* +mlu .* ready +2", text, re.M)) == 2, text
    good(steps(env, "abs", "gather", "check", "record", "wait"))


@test
def all_rows_pass_the_quick_suite(folder):
    """With sanitizers, which take several times as long, a part of the kernels."""
    env = environment(folder, BP_STANDIN_KEEP="0")
    if "MLU_PART" in os.environ:
        conform(env, "--quick", "--suite", "plugin,runtime,kernel", "--shard", os.environ["MLU_PART"])
        return
    text = conform(env, "--quick", "--suite", "plugin,runtime,memory,kernel,gradient,pass,graph")
    count = re.findall(r"kernel rows executed (\d+) of (\d+)", text)
    assert count and count[0][0] == count[0][1], text


@test
def ranks_of_one_process_and_of_several_are_joined_by_cncl(folder):
    env = environment(folder)
    conform(env, "--filter", "ccl/all_reduce/f32-sum/2x11*", "--filter", "ccl/all/2/processes", "--filter", "ccl/all_to_all/f32/3x11")
    with open(f"{folder}/calls.log", encoding="utf-8") as f:
        calls = f.read()
    assert "cnclInitComms 0" in calls and "cnclAllReduce 0" in calls and "cnclDestroyComms 0" in calls, calls[-500:]


def attempt(function):
    """Runs a test; returns why it failed, or nothing."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            function(folder)
            return misused(folder)
        except (AssertionError, OSError, subprocess.SubprocessError, ValueError) as error:
            return str(error) or "failed"


def main():
    print(f"1..{len(tests)}")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for number, (function, why) in enumerate(zip(tests, pool.map(attempt, tests)), 1):
            print(f"{'not ok' if why else 'ok'} {number} - {function.__name__.replace('_', ' ')}", flush=True)
            for line in why.splitlines()[:30]:
                print(f"# {line[:2000]}")


main()
