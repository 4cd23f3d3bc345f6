#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests npu on machines with other installations of CANN: none, half of one, an old or a new one, and with devices
that cannot be used.

    machine.py BUILD
"""
import os
import shutil
import sys

from standin import STEPS, Setting, parse, run, run_tests

setting = Setting(sys.argv[1])
OLD = os.path.join(setting.build, "tests/npu/too_old/libascendcl.so")
TWO = os.path.join(setting.build, "tests/npu/bp_npu_two.so")
OTHER = os.path.join(setting.build, "tests/npu/other_version/libascendcl.so")


def linked(folder, *names, version="v8"):
    """A folder with some of the libraries of a version."""
    libraries = os.path.join(folder, "lib")
    os.mkdir(libraries)
    for name in names:
        os.symlink(os.path.join(setting.folder(version), name), os.path.join(libraries, name))
    return libraries + ":" + os.path.join(setting.build, "tests/standins/base")


def state(env):
    """The plugin's state, and all that `bp list --probe` says."""
    _, text = run(env, setting.bp, "list", "--probe")
    for line in text.splitlines():
        words = line.split()
        if words[:2] == ["npu", "npu"]:
            return words[3], text
    return None, text


def works(env):
    code, text = run(env, setting.steps, "npu:0", *STEPS)
    steps, _ = parse(text)
    assert code == 0 and [s for _, s in steps] == ["BP_OK"] * (len(STEPS) + 1), text
    return text


def without_libraries_it_is_absent(folder):
    env = setting.environment(folder, None)
    found, text = state(env)
    assert found == "absent", text
    _, text = run(env, setting.bp, "doctor", "npu")
    text = " ".join(text.split())
    for wanted in ("libascendcl.so", "LD_LIBRARY_PATH", "$ASCEND_TOOLKIT_HOME/lib64",
                   "/usr/local/Ascend/ascend-toolkit/latest/lib64", "BP_NPU_RUNTIME"):
        assert wanted in text, (wanted, text)


def the_toolkits_folder_is_searched(folder):
    """set_env.sh may not have been run: the variable of the toolkit's folder suffices."""
    os.mkdir(os.path.join(folder, "toolkit"))
    os.symlink(setting.folder("v8"), os.path.join(folder, "toolkit", "lib64"))
    for name in ("ASCEND_TOOLKIT_HOME", "ASCEND_HOME_PATH"):
        works(setting.environment(folder, None, ASCEND_OPP_PATH="any", **{name: os.path.join(folder, "toolkit")}))


def each_version_works(folder):
    for version in ("v7", "v8", "v9"):
        text = works(setting.environment(folder, version))
        assert ("2 replays" in text) == (version != "v7"), text


def without_operators_there_is_memory(folder):
    """Half installed: the runtime alone, or without one of the libraries of operators."""
    for names, missing in ((["libascendcl.so"], "libnnopbase.so"),
                           (["libascendcl.so", "libnnopbase.so"], "libopapi.so")):
        libraries = linked(folder, *names)
        env = setting.environment(folder, None, LD_LIBRARY_PATH=libraries, ASCEND_OPP_PATH="any")
        code, text = run(env, setting.bp, "info", "npu:0")
        assert code == 0 and "of which 0 can run here" in text, text
        code, text = run({**env, "BP_LOG": "warn"}, setting.bp, "info", "npu:0")
        assert "npu: no operators: no " + missing in text, text
        code, text = run(env, setting.bp, "conform", "npu:0", "--suite", "memory", "--quick", "--filter", "memory/copy/*")
        assert code == 0 and " pass" in text and "fail" not in text, text
        shutil.rmtree(os.path.join(folder, "lib"))


def old_releases_lack_some_libraries_of_operators(folder):
    """Rows whose functions are missing are left out, with the name of the function."""
    libraries = linked(folder, "libascendcl.so", "libnnopbase.so", "libaclnn_math.so", version="v7")
    env = setting.environment(folder, None, LD_LIBRARY_PATH=libraries, ASCEND_OPP_PATH="any")
    code, text = run(env, setting.bp, "conform", "npu:0", "--quick", "--filter", "kernel/add/f32/*")
    assert code == 0 and " pass" in text, text
    code, text = run(env, setting.bp, "info", "npu:0")
    assert "has no function aclnn" in text, text


def without_hccl_collectives_use_the_host(folder):
    libraries = linked(folder, "libascendcl.so", "libnnopbase.so", "libopapi.so")
    env = setting.environment(folder, None, LD_LIBRARY_PATH=libraries, ASCEND_OPP_PATH="any", BP_STANDIN_DEVICES="2")
    code, text = run(env, setting.bp, "conform", "npu:0", "--quick", "--filter", "ccl/all_reduce/f32-sum/2x*")
    assert code == 0 and " pass" in text and "fail" not in text, text


def without_the_packages_of_kernels_the_message_says_so(folder):
    env = setting.environment(folder)
    del env["ASCEND_OPP_PATH"]
    code, text = run(env, setting.steps, "npu:0", "add")
    assert code == 0 and "ASCEND_OPP_PATH is not set" in text, text


def a_library_that_is_too_old_is_named(folder):
    env = setting.environment(folder, None, LD_LIBRARY_PATH=os.path.dirname(OLD))
    found, text = state(env)
    words = " ".join(text.split())
    assert found == "broken" and "has no function acl" in words and "install CANN 7 or newer" in words, text


def another_major_is_warned_of(folder):
    libraries = linked(folder, "libnnopbase.so", "libopapi.so", "libhccl.so")
    os.symlink(OTHER, os.path.join(folder, "lib", "libascendcl.so"))
    env = setting.environment(folder, None, LD_LIBRARY_PATH=libraries, ASCEND_OPP_PATH="any", BP_LOG="warn")
    text = works(env)
    assert "AscendCL 2.0.0 is newer than those that the plugin was written for" in text, text


def no_device_is_absent(folder):
    env = setting.environment(folder, BP_STANDIN_DEVICES="0")
    assert state(env)[0] == "absent"
    assert "207004: no device" in " ".join(run(env, setting.bp, "doctor", "npu")[1].split())


def without_permission_the_node_is_named(folder):
    """No user, not even the administrator, may write this file. CANN then finds no device, or returns a code."""
    node = "/proc/sys/kernel/ostype"
    for fails in ({"BP_STANDIN_DEVICES": "0"}, {"BP_STANDIN_FAIL": "aclrtGetDeviceCount:1:507899"}, {"BP_STANDIN_FAIL": "aclInit:1:507899"}):
        env = setting.environment(folder, BP_NPU_NODES=node, **fails)
        _, text = run(env, setting.bp, "info", "npu")
        assert f"this user may not use {node}: add the user to the group of the node" in " ".join(text.split()), (fails, text)


def a_device_in_use_can_be_opened_later(folder):
    env = setting.environment(folder, BP_STANDIN_FAIL="aclrtSetDevice:1:507033,aclrtSetDevice:2:507033")
    code, text = run(env, setting.steps, "npu:0", "add", "read")
    assert code == 0 and "aclrtSetDevice answers 507033" in text, text
    works(setting.environment(folder))


def memory_that_runs_out_is_counted(folder):
    env = setting.environment(folder, BP_STANDIN_MEMORY=str(1 << 20))
    code, text = run(env, setting.steps, "npu:0", "many")
    assert code == 0 and "ERR" not in text, text
    env = setting.environment(folder, BP_STANDIN_MEMORY=str(100 << 10))
    code, text = run(env, setting.steps, "npu:0", "large")
    assert "BP_ERR_MEMORY" in text and "asked for 400000 bytes" in text, text


def products_without_bf16_refuse_it(folder):
    for product in ("Ascend310P3", "Ascend910A"):
        env = setting.environment(folder, BP_CANN_SOC=product)
        code, text = run(env, setting.bp, "conform", "npu:0", "--quick", "--filter", "kernel/add/*")
        assert code == 0 and "kernel rows executed" in text and "add                f16" in text, text
        assert "bf16" not in text.split("largest error")[1], text


def two_plugins_of_the_kind_share_the_runtime(folder):
    """A second plugin has an instance of its own, and finds CANN initialised."""
    second = os.path.join(folder, "second")
    os.mkdir(second)
    shutil.copy(TWO, second)
    code, text = run(setting.environment(folder), setting.bp, "manifest", os.path.join(second, "bp_npu_two.so"), "-o",
                     os.path.join(second, "bp_npu_two.json"))
    assert code == 0, text
    env = setting.environment(folder, BP_PLUGIN_PATH=second)
    code, text = run(env, setting.bp, "list", "--probe")
    assert sum(line.split()[1:4:2] == ["npu", "ready"] for line in text.splitlines() if "npu" in line) == 2, text
    works(env)


def rounds_share_executors(folder):
    """A determinant of 17 columns runs 17 rounds by the executors of one, unless executors are not to be repeated."""
    for once, least, most in (("0", 1, 4), ("1", 17, 1000)):
        env = setting.environment(folder, BP_NPU_ONCE=once, BP_STANDIN_CALLS=os.path.join(folder, once))
        code, text = run(env, setting.bp, "conform", "npu:0", "--isolate", "none", "--filter", "kernel/det/f32/width/17x17*")
        assert code == 0 and " pass" in text, text
        with open(env["BP_STANDIN_CALLS"], encoding="utf-8") as f:
            names = [line.split()[0] for line in f]
        made = names.count("aclnnArgMaxGetWorkspaceSize")
        assert names.count("aclnnArgMax") >= 17 and least <= made <= most, (once, made)


def a_trace_has_each_call(folder):
    env = setting.environment(folder, BP_NPU_TRACE="1", BP_LOG="info")
    _, text = run(env, setting.steps, "npu:0", "add", "read")
    for name in ("aclrtMalloc answers 0", "aclnnAdd answers 0", "aclrtMemcpyAsync answers 0"):
        assert "trace: " + name in text, text


run_tests([(f.__name__.replace("_", " "), f) for f in list(globals().values())
           if callable(f) and getattr(f, "__code__", None) and f.__code__.co_varnames[:1] == ("folder",)
           and f.__code__.co_argcount == 1 and f.__module__ == __name__])
