#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests npu's engine, which lets the program atc compile groups of nodes: results, failures of the program, files.

    engine.py BUILD ATC SOURCE
"""
import glob
import os
import stat
import sys
import time

from standin import Setting, run, run_tests

setting = Setting(sys.argv[1])
ATC, SOURCE = sys.argv[2:4]
NET = os.path.join(setting.build, "tests/npu/npu_engine_net")
LIGHT = os.path.abspath(os.environ.get("BP_ONNX_LIGHT", os.path.join(SOURCE, "..", "shared", "onnx-light")))
MODEL_CALLS = ("aclmdlLoadFromMem", "aclmdlGetDesc", "aclmdlCreateDesc", "aclmdlCreateDataset", "aclCreateDataBuffer",
               "aclmdlAddDatasetBuffer", "aclmdlExecuteAsync", "aclmdlUnload")


def environment(folder, **more):
    return setting.environment(folder, BP_ALLOW="fast-math", BP_FALLBACK="deny", TMPDIR=folder, **more)


def program(folder, text):
    """A program in place of atc."""
    path = os.path.join(folder, "atc")
    with open(path, "w", encoding="utf-8") as f:
        f.write("#!/bin/sh\n" + text)
    os.chmod(path, stat.S_IRWXU)
    return path


def net(env, status=0):
    """Runs the network: its results, both times the same, and all that it prints."""
    code, text = run(env, NET)
    assert code == status, text
    results = [line for line in text.splitlines() if line.startswith("results")]
    if not status:
        assert len(results) == 2 and results[0] == results[1], text
    return [float(word) for word in results[0].split()[1:]] if results else [], text


def by_kernels(folder):
    numbers, text = net(environment(folder))
    assert "nodes 1 of" not in text, text
    return numbers


def same(numbers, expected):
    assert len(numbers) == len(expected) == 10, numbers
    assert all(abs(a - b) < 1e-5 for a, b in zip(numbers, expected)), (numbers, expected)


def left(folder):
    return glob.glob(os.path.join(folder, "backplane-npu-*"))


def a_network_is_one_model(folder):
    numbers, text = net(environment(folder, BP_NPU_ATC=ATC))
    assert "nodes 1 of 6" in text and "engines ''" in text, text
    same(numbers, by_kernels(folder))
    assert not left(folder), left(folder)


def each_version_runs_models(folder):
    for version in ("v7", "v9"):
        env = {**environment(folder, BP_NPU_ATC=ATC), "LD_LIBRARY_PATH": setting.folder(version)}
        assert "nodes 1 of 6" in net(env)[1]


def rules_that_are_not_known_need_permission(folder):
    env = environment(folder, BP_NPU_ATC=ATC)
    del env["BP_ALLOW"]
    assert "nodes 1 of" not in net(env)[1]


def failure(folder, path, text, **more):
    """The program fails: kernels run, and the log says why."""
    numbers, said = net(environment(folder, BP_NPU_ATC=path, BP_LOG="warn", **more))
    assert text in said and "nodes 1 of" not in said, said
    same(numbers, by_kernels(folder))
    assert not left(folder), left(folder)


def a_program_that_is_missing_is_named(folder):
    failure(folder, os.path.join(folder, "nothing"), "cannot be run: No such file or directory")


def the_last_line_of_a_failure_is_shown(folder):
    failure(folder, program(folder, "echo first; echo E10001: the second; exit 7\n"),
            "atc ends with status 7: E10001: the second")


def a_crash_is_shown(folder):
    failure(folder, program(folder, "kill -SEGV $$\n"), "atc ends with signal 11")


def no_file_is_noticed(folder):
    failure(folder, program(folder, "exit 0\n"), "atc succeeds without writing")


def a_file_of_junk_is_refused(folder):
    failure(folder, program(folder, 'for w in "$@"; do case $w in --output=*) echo junk > "${w#*=}.om";; esac; done\n'),
            "aclmdlLoadFromMem answers")


def a_program_that_hangs_is_ended(folder):
    pid = os.path.join(folder, "pid")
    failure(folder, program(folder, f"echo $$ > {pid}; exec sleep 60\n"), "compile was not over after 1 s",
            BP_ENGINE_TIMEOUT="1")
    with open(pid, encoding="utf-8") as f:
        number = int(f.read())
    for _ in range(100):
        if not os.path.exists(f"/proc/{number}"):
            return
        time.sleep(0.05)
    assert False, "the program goes on"


def a_model_is_kept_in_a_file(folder):
    """The second process does not call the program, unless the file is not the same."""
    cache = os.path.join(folder, "cache")
    os.mkdir(cache)
    first, text = net(environment(folder, BP_NPU_ATC=ATC, BP_PROGRAM_CACHE=cache))
    assert "cache 'saved" in text, text
    failing = program(folder, "echo called; exit 1\n")
    second, text = net(environment(folder, BP_NPU_ATC=failing, BP_PROGRAM_CACHE=cache))
    assert "nodes 1 of 6" in text and "cache 'loaded" in text, text
    same(second, first)


def bytes_of_files_are_checked(folder):
    """The core passes bytes that are cut or changed: they are stale, or the library refuses them."""
    cache = os.path.join(folder, "cache")
    os.mkdir(cache)
    for _ in range(4):
        numbers, text = net(environment(folder, BP_NPU_ATC=ATC, BP_PROGRAM_CACHE=cache, BP_VALIDATE="blobs"))
        same(numbers, by_kernels(folder))


def each_call_may_fail(folder):
    for name in MODEL_CALLS:
        env = environment(folder, BP_NPU_ATC=ATC, BP_LOG="warn", BP_STANDIN_FAIL=f"{name}:1:507899")
        code, text = run(env, NET)
        assert "results" in text or "BP_ERR" in text, text
        # The stand-in runs models by the same library, which takes the message of the thread away.
        assert name in text or "no memory" in text or "gave no reason" in text, (name, text)


def light_networks_are_as_expected(folder):
    for name in ("squeezenet", "shufflenet"):
        data = os.path.join(folder, name)
        os.mkdir(data)
        os.symlink(os.path.join(LIGHT, f"light_{name}_output_0.pb"), os.path.join(data, "output_0.pb"))
        env = environment(folder, BP_NPU_ATC=ATC)
        code, text = run(env, setting.bp, "run", os.path.join(LIGHT, f"light_{name}.onnx"), "--device", "npu:0", "--data", data,
                         "--rtol", "0.001")
        assert code == 0 and "as expected" in text, text


TESTS = [a_network_is_one_model, each_version_runs_models, rules_that_are_not_known_need_permission,
         a_program_that_is_missing_is_named, the_last_line_of_a_failure_is_shown, a_crash_is_shown, no_file_is_noticed,
         a_file_of_junk_is_refused, a_program_that_hangs_is_ended, a_model_is_kept_in_a_file, bytes_of_files_are_checked,
         each_call_may_fail] + ([light_networks_are_as_expected] if os.path.isdir(LIGHT) else [])
run_tests([(f.__name__.replace("_", " "), f) for f in TESTS])
