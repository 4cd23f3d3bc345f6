#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the xpu plugin on devices with other properties than PoCL's processor: bent_opencl.c changes single results.

    bent.py BP BUILT BENT_OPENCL STEPS      BUILT empty: the plugin was not built, all tests are skipped
"""
import ctypes
import os
import subprocess
import sys

from surroundings import run_tests, with_loader

BP, BUILT, BENT, STEPS = (sys.argv[1:] + ["", ""])[:4]
tests = []


def test(function):
    tests.append(function)
    return function


def real_loader():
    """The path of the machine's loader."""
    ctypes.CDLL("libOpenCL.so.1")
    with open("/proc/self/maps", encoding="utf-8") as f:
        return next(line.split()[-1] for line in f if "libOpenCL.so" in line)


def bent(folder, **how):
    """Returns an environment with the bent loader, which writes its calls into `trace`. Tests share compiled programs."""
    return with_loader(folder, BENT, **{"BENT_REAL": real_loader(), "BENT_TRACE": os.path.join(folder, "trace"),
                                        "BP_XPU_CACHE": os.path.join(os.path.dirname(folder), "programs"), **how})


def trace(env, call):
    """The traced arguments of each call of that name, oldest first."""
    with open(env["BENT_TRACE"], encoding="utf-8") as f:
        words = [line.split() for line in f]
    return [dict(w.split("=", 1) for w in line[1:] if "=" in w) for line in words if line[0] == call]


def names(env):
    """The names of all calls, in order."""
    with open(env["BENT_TRACE"], encoding="utf-8") as f:
        return [line.split()[0] for line in f]


def steps(env, *words, device="xpu:0"):
    """The result of each step, by name: status and message. Without steps: that of opening the device."""
    done = subprocess.run([STEPS, device, *words], capture_output=True, text=True, env=env, timeout=240, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    lines = [line.split(": ", 1) for line in done.stdout.splitlines()]
    return {word: answer for word, answer in lines}


def bp(env, *words):
    done = subprocess.run([BP, *words], capture_output=True, text=True, env=env, timeout=240, check=False)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


@test
def other_calls_are_passed_on(folder):
    env = bent(folder)
    answers = steps(env, "add", "read", "record", "query", "wait", "sync", "allocate", "pinned")
    assert len(answers) == 9 and answers.pop("query")[:11] in ("BP_OK", "BP_ERR_NOT_"), answers
    assert set(answers.values()) == {"BP_OK"}, answers
    assert trace(env, "clEnqueueNDRangeKernel") and trace(env, "clFinish"), "the loader in between was not used"


@test
def each_device_has_a_context_of_its_own(folder):
    """A driver keeps a copy of a buffer in the memory of each device of the buffer's context."""
    env = bent(folder)
    code, text = bp(env, "conform", "xpu:0", "--filter=runtime/pair/*", "--filter=memory/copy/peer*")
    assert code == 0 and " pass" in text and " fail" not in text and "unsupported" not in text, text
    contexts = trace(env, "clCreateContext")
    assert len(contexts) >= 2 and {c["devices"] for c in contexts} == {"1"}, contexts


@test
def work_that_ends_out_of_resources_has_lost_the_device(folder):
    """NVIDIA's and AMD's drivers report a crashed kernel so. In a call that allocates memory, the code means no memory."""
    for code in ("-5", "-9999"):
        for fail, words in ((f"clFinish={code}", ("add", "sync")), (f"clEnqueueReadBuffer={code}", ("add", "read")),
                            (f"event={code}", ("add", "record", "query")),
                            (f"event={code};clWaitForEvents=-14", ("add", "record", "wait")),
                            (f"clWaitForEvents={code}", ("add", "record", "wait"))):
            answer = steps(bent(folder, BENT_FAIL=fail), *words)[words[-1]]
            assert answer.startswith("BP_ERR_DEVICE_LOST: "), (fail, answer)
    answers = steps(bent(folder, BENT_FAIL="clCreateBuffer=-5;launch=-5"), "add", "add", "allocate")
    assert answers["add"].startswith("BP_ERR_MEMORY: ") and answers["allocate"].startswith("BP_ERR_MEMORY: "), answers


@test
def work_that_fails_otherwise_has_not_lost_the_device(folder):
    for fail, words in (("event=-59;clWaitForEvents=-14", ("add", "record", "wait")),
                        ("clFinish=-59", ("add", "sync"))):
        answer = steps(bent(folder, BENT_FAIL=fail), *words)[words[-1]]
        assert answer.startswith("BP_ERR_DEVICE: ") and "CL_INVALID_OPERATION" in answer, (fail, answer)
    answer = steps(bent(folder, BENT_FAIL="clWaitForEvents=-14"), "add", "record", "wait")["wait"]
    assert answer.startswith("BP_ERR_DEVICE: ") and "clWaitForEvents" in answer, answer


@test
def pinned_memory_is_shared(folder):
    """Unified memory (0x1035) is not enough: a GPU's caches may delay writes, unless it has fine-grained SVM (0x1053)."""
    cpu, gpu = "0x1000=2", "0x1000=4"
    for kind, unified, svm, there in ((cpu, 1, 0, True), (gpu, 1, 0, False), (gpu, 1, 1, False), (gpu, 1, 3, True),
                                      (gpu, 0, 3, False), (cpu, 0, 0, False)):
        answers = steps(bent(folder, BENT_INFO=f"{kind};0x1035={unified};0x1053={svm}"), "allocate", "pinned")
        assert answers["allocate"] == "BP_OK", answers
        assert answers["pinned"].split(":")[0] == ("BP_OK" if there else "BP_ERR_UNSUPPORTED"), (kind, unified, svm, answers)


@test
def devices_that_cannot_run_the_kernels_are_left_out(folder):
    """0x102e: the profile, 0x100d: bits of an address, 0x1023: bytes of a team's memory."""
    for how, why in (("0x102e=EMBEDDED_PROFILE", "it has the embedded profile, in which 64-bit integers may be missing"),
                     ("0x100d=32", "its addresses are not of 64 bits"),
                     ("0x1000=4;0x1023=16384", "its work-groups have less than 32 KiB of memory"),
                     ("0x1000=4;0x1004=32", "its work-groups have less than 64 items")):
        _, text = bp(bent(folder, BENT_INFO=how, BP_LOG="warn"), "info", "xpu:0")
        assert f"is left out: {why}" in text, (how, text[:1000])
    code, text = bp(bent(folder, BENT_INFO="0x1023=16384"), "info", "xpu:0")
    assert code == 0, f"a processor's teams need no memory: {text}"
    code, text = bp(bent(folder, BENT_INFO="1:0x100d=32"), "info", "xpu:0")
    assert code == 0, f"the other device is fit: {text}"


def groups(env):
    """The numbers of items that the work-groups of each kernel had, by the kernel's name."""
    found = {}
    for launch in trace(env, "clEnqueueNDRangeKernel"):
        found.setdefault(launch["kernel"], set()).add(int(launch["local"]))
    return found


FEW = [f"--filter=kernel/{case}" for case in ("matmul/f32/blocks*", "softmax/f32/*", "sum/f32/*", "argmax/f32*/*", "attention/f32-i64/*")]


@test
def kernels_for_which_256_items_are_too_many_have_fewer(folder):
    limits = {"bp_matmul_block": 128, "bp_softmax": 64, "bp_reduce_partials": 64, "bp_attention": 127}
    env = bent(folder, BP_XPU_TEAMS="1", BENT_GROUP=";".join(f"{k}={v}" for k, v in limits.items()))
    code, text = bp(env, "conform", "xpu:0", "--quick", *FEW)
    assert code == 0 and " pass" in text and " fail" not in text, text[:2000]
    had = groups(env)
    for name, items in (("bp_matmul_blocks_f32", 128), ("bp_softmax_f32", 64), ("bp_reduce_terms_f32", 64), ("bp_attention_f32", 64),
                        ("bp_arg_minmax_f32", 256)):
        assert min(had.get(name, [0])) == items, (name, items, had)


@test
def a_device_with_small_work_groups_has_teams_of_as_many(folder):
    env = bent(folder, BP_XPU_TEAMS="1", BENT_INFO="0x1004=200")
    code, text = bp(env, "conform", "xpu:0", "--quick", *FEW[:2])
    assert code == 0 and " pass" in text and " fail" not in text, text[:2000]
    had = groups(env)
    assert {n for of in had.values() for n in of} == {128} and "bp_matmul_blocks_f32" not in had, had


@test
def a_kernel_that_not_even_64_items_can_run_is_refused(folder):
    env = bent(folder, BP_XPU_TEAMS="1", BENT_GROUP="bp_softmax=32")
    _, text = bp(env, "conform", "xpu:0", "--quick", "--filter=kernel/softmax/f32/*", "--filter=kernel/sum/f32/*")
    assert "bp_softmax_f32 has work-groups of 32 items at most, 64 are needed" in text, text


@test
def blocks_are_made_where_a_teams_memory_is_its_own(folder):
    """For a GPU (0x1000=4) whose kind of local memory (0x1022) is 1, dedicated memory, or 2, the device's memory. It is not
    Intel's (0x1001), as PoCL's device is on some machines: PoCL refuses an option for large buffers of these."""
    for kind, there in ((1, True), (2, False)):
        env = bent(folder, BENT_INFO=f"0x1000=4;0x1001={0x10de};0x1022={kind}", BENT_TRACE=os.path.join(folder, f"trace{kind}"))
        code, text = bp(env, "conform", "xpu:0", "--quick", FEW[0])
        assert code == 0 and " pass" in text and " fail" not in text, text[:2000]
        assert ("bp_matmul_blocks_f32" in groups(env)) == there, (kind, groups(env))


@test
def small_numbers_of_f16_are_kept_where_those_of_f32_are_flushed(folder):
    """With this option PoCL treats subnormal numbers of f32 as 0, as a device without CL_FP_DENORM does."""
    flags = os.environ.get("POCL_EXTRA_BUILD_FLAGS", "") + " -cl-denorms-are-zero"
    env = bent(folder, POCL_EXTRA_BUILD_FLAGS=flags, BP_XPU_CACHE=os.path.join(folder, "cache"))
    code, text = bp(env, "conform", "xpu:0", "--filter=kernel/cast/f16-f32/*", "--filter=kernel/cast/f32-f16/*")
    assert code == 0 and " pass" in text and " fail" not in text, text[:2000]


@test
def a_device_without_f64_takes_no_rows_from_another(folder):
    """xpu:1 has no f64 (0x1032): it alone refuses kernels that compute with f64, with and without a plan."""
    env = bent(folder, BENT_INFO="1:0x1032=0")
    cases = [f"--filter=kernel/{case}" for case in ("tan/f32/*", "roi_align_grad/f32*/*", "neg/f32/*")]
    code, text = bp(env, "conform", "xpu:0", "--quick", *cases)
    assert code == 0 and " pass" in text and "fail" not in text and "unsupported" not in text, text[:2000]
    code, text = bp(env, "conform", "xpu:1", "--quick", cases[-1])
    assert code == 0 and " pass" in text, text[:2000]
    for op, case in zip(("tan", "roi_align_grad"), cases):
        _, text = bp(env, "conform", "xpu:1", "--quick", case)
        assert "rows executed 0 of 1" in text and f"xpu_{op}: does not take this configuration" in text, text[:2000]


@test
def launches_are_handed_on_before_anybody_waits(folder):
    """A driver collects launches until it is flushed: at most 16 launches wait for a flush."""
    env = bent(folder)
    assert set(steps(env, *["add"] * 50).values()) == {"BP_OK"}
    launches = "".join({"clEnqueueNDRangeKernel": "l", "clFlush": "f"}.get(name, "") for name in names(env))
    assert launches.count("l") == 50 and launches.count("f") >= 3, launches
    assert all(len(part) == 16 for part in launches.split("f")[:3]), launches


@test
def programs_are_kept_by_all_that_they_depend_on(folder):
    """The key has names and versions of platform and driver, however long, and the driver's UUID if it has one."""
    cache = os.path.join(folder, "cache")
    base = "0x1030=cl_khr_fp64 cl_khr_device_uuid;0x106b=one driver uuid"
    kinds = ["", base, base.replace("one driver", "two driver"), "0x0902=Another platform", "0x0901=OpenCL 3.0 another",
             "0x102d=" + 300 * "v" + "1", "0x102d=" + 300 * "v" + "2"]
    for n, info in enumerate(kinds, 1):
        for again in range(2):
            env = bent(folder, BENT_INFO=info, BP_XPU_CACHE=cache)
            assert steps(env, "add")["add"] == "BP_OK"
            kept = sorted(os.listdir(cache))
            assert len(kept) == n, (info, again, kept)


@test
def other_kernels_compute_code_that_the_driver_cannot_build(folder):
    """-11: CL_BUILD_PROGRAM_FAILURE. -6, CL_OUT_OF_HOST_MEMORY, says nothing about the program: it is the call's failure."""
    env = bent(folder, BENT_FAIL="fused=-11", BP_XPU_CACHE="", BP_LOG="warn")
    done = subprocess.run([STEPS, "xpu:0", "add", "fused", "check"], capture_output=True, text=True, env=env, timeout=240,
                          check=False)
    assert done.stdout.split() == ["begin:", "BP_OK", "add:", "BP_OK", "fused:", "BP_OK", "check:", "BP_OK"], done
    assert "fused: clBuildProgram answered CL_BUILD_PROGRAM_FAILURE (-11); other kernels compute" in done.stderr, done
    assert any("-DINLINE_ALL" in line for line in open(env["BENT_TRACE"], encoding="utf-8")), "fused was not tried"
    env = bent(folder, BENT_FAIL="fused=-6", BP_XPU_CACHE="")
    assert steps(env, "add", "fused")["fused"].startswith("BP_ERR_MEMORY: "), "a failure of the device is hidden"


@test
def long_launches_are_made_in_parts(folder):
    """Results are equal if a launch may do only few operations, on a device that no number of units (0x1002) keeps busy."""
    cases = ["--filter=kernel/conv/f32/*", *FEW[1:2]]
    for teams in ("1", "0"):
        env = bent(folder, BP_XPU_TEAMS=teams, BP_XPU_LAUNCH_WORK="100", BENT_INFO="0x1002=0",
                   BENT_TRACE=os.path.join(folder, "trace" + teams))
        code, text = bp(env, "conform", "xpu:0", "--quick", *cases)
        assert code == 0 and " pass" in text and " fail" not in text, text[:2000]
        parts = {launch["kernel"] for launch in trace(env, "clEnqueueNDRangeKernel") if launch["offset"] != "0"}
        assert {"bp_softmax_f32", "bp_conv_f32"} <= parts, (teams, sorted(parts))


@test
def intels_compiler_gets_large_buffer_options(folder):
    """For a GPU (0x1000=4) of Intel's (0x1001) whose buffers (0x1010) may exceed 4 GiB; PoCL then refuses the option."""
    for vendor, size, told in ((0x8086, 5 << 30, True), (0x8086, 4 << 30, False), (0x10de, 5 << 30, False)):
        env = bent(folder, BENT_INFO=f"0x1000=4;0x1001={vendor};0x1010={size}", BP_XPU_CACHE="",
                   BENT_TRACE=os.path.join(folder, f"trace{vendor}-{size}"))
        steps(env, "add")
        with open(env["BENT_TRACE"], encoding="utf-8") as f:
            assert ("-cl-intel-greater-than-4GB-buffer-required" in f.read()) == told, (vendor, size)


sys.exit(run_tests(tests, BUILT))
