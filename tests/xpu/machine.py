#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the xpu plugin on machines without OpenCL, with bad drivers, with named devices, and with bad program caches.

Drivers crash, fail or are too old; caches of programs are empty, shared, junk, cut short, or cannot be written.

    machine.py BP BUILT CRASHING_ICD OLD_DRIVER OLD_LOADER SMALL_GROUPS FAILING_ICD
        BUILT empty: the plugin was not built, all tests are skipped
"""
import glob
import os
import subprocess
import sys

from surroundings import POCL, environment, run_tests, with_loader

BP, BUILT, CRASHING, *OLD = sys.argv[1:]
FAILING = OLD.pop() if OLD else None
NORMALISE = ("layer_norm", "group_norm", "rms_norm", "log_softmax", "layer_norm_grad", "log_softmax_grad")
tests = []


def test(function):
    tests.append(function)
    return function


def bp(env, *words):
    done = subprocess.run([BP, *words], capture_output=True, text=True, env=env, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


def state(env):
    """Returns the state of the plugin, the number of its devices, and the whole output."""
    _, text = bp(env, "list", "--probe")
    for line in text.splitlines():
        words = line.split()
        if words[:2] == ["xpu", "xpu"]:
            return words[3], words[4], text
    return None, None, text


def runs(env, device="xpu:0"):
    """Asserts that the cases of one kernel pass."""
    code, text = bp(env, "conform", device, "--filter", "kernel/add/f32/*")
    assert code == 0 and " pass" in text and "fail" not in text, text


def files(env):
    return sorted(glob.glob(os.path.join(env["BP_XPU_CACHE"], "*")))


@test
def no_driver_is_absent(folder):
    env = environment(folder, OCL_ICD_VENDORS=folder)
    found, _, text = state(env)
    assert found == "absent", text
    assert "no OpenCL driver is installed" in bp(env, "doctor", "xpu")[1]
    code, text = bp(env, "info", "xpu:0")
    assert code == 3, (code, text)


@test
def a_driver_that_crashes_is_found_in_a_child(folder):
    icd = os.path.join(folder, "crashing.icd")
    with open(icd, "w", encoding="utf-8") as f:
        f.write(CRASHING + "\n")
    env = environment(folder, OCL_ICD_VENDORS=icd)
    found, _, text = state(env)
    assert found == "broken" and "signal" in text.lower(), text
    assert "ready" in text, f"the cpu plugin is not to suffer: {text}"


@test
def a_driver_that_is_too_old_is_left_out(folder):
    env = with_loader(folder, OLD[0])
    found, _, text = state(env)
    assert found == "absent", text
    code, text = bp({**env, "BP_LOG": "warn"}, "info", "xpu:0")
    assert code == 3 and "xpu: Old GPU is left out: its driver is older than OpenCL 1.2" in text, (code, text)
    assert "xpu: xpu" not in text, text


@test
def a_device_with_small_work_groups_is_left_out(folder):
    env = with_loader(folder, OLD[2])
    code, text = bp({**env, "BP_LOG": "warn"}, "info", "xpu:0")
    assert code == 3 and "xpu: Old GPU is left out: its work-groups have less than 64 items" in text, (code, text)


@test
def a_driver_that_fails_does_not_stop_others(folder):
    """One of two drivers fails, the first or the second; alone, it is the reason that there are no devices."""
    for name in ("0", "9"):
        vendors = os.path.join(folder, "vendors" + name)
        os.mkdir(vendors)
        os.symlink(POCL, os.path.join(vendors, "5.icd"))
        with open(os.path.join(vendors, name + ".icd"), "w", encoding="utf-8") as f:
            f.write(FAILING + "\n")
        env = environment(folder, OCL_ICD_VENDORS=vendors)
        found, devices, text = state(env)
        assert (found, devices) == ("ready", "2"), text
        _, text = bp({**env, "BP_LOG": "warn"}, "info", "xpu:0")
        assert "Taken GPU cannot be opened" in text, text
        os.unlink(os.path.join(vendors, "5.icd"))
        found, _, text = state(env)
        assert found == "broken" and "CL_DEVICE_NOT_AVAILABLE" in text, text


@test
def a_loader_that_is_too_old_is_absent(folder):
    env = with_loader(folder, OLD[1])
    found, _, text = state(env)
    assert found == "absent", text
    _, text = bp(env, "doctor", "xpu")
    assert "no function clEnqueueMarkerWithWaitList: it is older than OpenCL 1.2" in " ".join(text.split()), text


@test
def processors_are_devices_when_they_are_named(folder):
    env = environment(folder)
    del env["BP_XPU_DEVICES"]
    found, _, text = state(env)
    assert found == "absent" and "no GPU or accelerator; OpenCL has: Portable" in " ".join(text.split()), text
    for names, devices in (("*", "2"), ("nothing,pthread*", "2"), ("Portable*", "2"), ("*/pthread*", "2")):
        env["BP_XPU_DEVICES"] = names
        assert state(env)[:2] == ("ready", devices), (names, state(env))
    env["BP_XPU_DEVICES"] = "NVIDIA*,Intel*"
    found, _, text = state(env)
    assert found == "absent" and "=NVIDIA*,Intel* fits no device that can be used; OpenCL has: Portable" in " ".join(text.split()), text


@test
def a_device_without_f64_does_the_rest(folder):
    """Host numbers reach kernels as f32; operations that hold or need f64 are refused, with a message."""
    env = environment(folder, BP_XPU_FP64="0")
    code, text = bp(env, "conform", "xpu:0", "--quick", *(f"--filter=kernel/{op}/f32*" for op in ("scale", "clip", "adam", "cast")))
    assert code == 0 and " pass" in text and "fail" not in text, text
    code, text = bp(env, "conform", "xpu:0", "--quick", "--filter=kernel/cast/f32-f64/*", "--filter=kernel/scale/f64/*")
    assert " fail" not in text and " pass" not in text and "unsupported" in text, (code, text)
    _, text = bp(env, "info", "xpu:0")
    assert "computes with 64-bit floating-point numbers, which no device of xpu has" in " ".join(text.split()), text
    held = [line for line in text.splitlines() if line.split()[:1] == ["dtypes"]]
    assert "f32" in held[0] and "f64" not in held[0] and "c128" not in held[0], held


@test
def teams_of_many_lanes_make_blocks(folder):
    """As on a GPU: lanes share memory and have barriers."""
    env = environment(folder, BP_XPU_TEAMS="1")
    code, text = bp(env, "conform", "xpu:0", "--filter=kernel/matmul/f32/blocks*", "--filter=kernel/conv*/f32/2d.blocks*",
                    *(f"--filter=kernel/{made}/*" for made in ("softmax/f32", "scale/f32", "cast/f32-bf16", "assign/i8")),
                    *(f"--filter=kernel/{op}/f32*/*" for op in ("prod", "max", "argmax", "count_nonzero")))
    assert code == 0 and " pass" in text and "fail" not in text, text


@test
def lanes_without_a_group_come_to_the_barriers(folder):
    """A team has more lanes than groups; all of its lanes must run through code with barriers."""
    env = environment(folder, BP_XPU_TEAMS="1")
    code, text = bp(env, "conform", "xpu:0", *(f"--filter=kernel/{op}/f32/*" for op in NORMALISE))
    assert code == 0 and " pass" in text and "fail" not in text, text


@test
def programs_are_kept_and_found_again(folder):
    env = environment(folder)
    runs(env)
    kept = {path: os.stat(path).st_mtime_ns for path in files(env)}
    assert kept, "nothing was kept"
    runs(env, "xpu:1")
    assert kept == {path: os.stat(path).st_mtime_ns for path in files(env)}, "compiled again"


def spoilt(env, how):
    runs(env)
    whole = {}
    for path in files(env):
        with open(path, "rb") as f:
            whole[path] = f.read()
        with open(path, "wb") as f:
            f.write(how(whole[path]))
    assert whole
    runs(env)
    for path, data in whole.items():
        with open(path, "rb") as f:
            assert len(f.read()) >= len(data) // 2, f"{path} was not written again"


@test
def junk_in_the_cache_is_replaced(folder):
    spoilt(environment(folder), lambda data: os.urandom(400))


@test
def a_file_that_was_cut_is_replaced(folder):
    spoilt(environment(folder), lambda data: data[:len(data) // 3])


@test
def a_byte_that_changed_is_noticed(folder):
    env = environment(folder)
    runs(env)
    for path in files(env):
        with open(path, "r+b") as f:
            f.seek(-100, os.SEEK_END)
            byte = f.read(1)[0]
            f.seek(-100, os.SEEK_END)
            f.write(bytes([byte ^ 1]))
    before = {path: os.stat(path).st_mtime_ns for path in files(env)}
    runs(env)
    assert all(os.stat(path).st_mtime_ns > then for path, then in before.items()), "it was used as it was"


@test
def a_folder_that_cannot_be_made_costs_the_cache_only(folder):
    file = os.path.join(folder, "file")
    with open(file, "w", encoding="utf-8"):
        pass
    runs(environment(folder, BP_XPU_CACHE=os.path.join(file, "cache")))
    runs(environment(folder, BP_XPU_CACHE="/proc/self/cache"))


@test
def an_empty_name_means_no_cache(folder):
    env = environment(folder, BP_XPU_CACHE="", HOME=folder)
    env.pop("XDG_CACHE_HOME", None)
    runs(env)
    assert not os.path.exists(os.path.join(folder, ".cache", "backplane"))


@test
def two_processes_at_once_share_a_cache(folder):
    env = environment(folder, POCL_CACHE_DIR=os.path.join(folder, "pocl"))
    command = [BP, "conform", "xpu:0", "--filter", "kernel/add/f32/*", "--filter", "kernel/add/i32/*"]
    both = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            for _ in range(2)]
    try:
        for child in both:
            text, _ = child.communicate(timeout=200)
            assert child.returncode == 0, text
    finally:
        for child in both:
            child.kill()
    assert files(env) and not glob.glob(os.path.join(env["BP_XPU_CACHE"], "*.bin.*")), "a file was left half written, or locked"


sys.exit(run_tests(tests, BUILT))
