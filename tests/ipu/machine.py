#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the ipu plugin on machines without the shim, with a bad one, without a device, and with failures of Poplar.

    machine.py BP SHIM OLD LACKS STANDIN TWO
        SHIM: the shim on the stand-in for Poplar; OLD: a library of another interface; LACKS: one without some functions;
        STANDIN: the folder of the stand-in; TWO: the plugin with another name
"""
import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import in_folders  # noqa: E402

BP, SHIM, OLD, LACKS, STANDIN, TWO = sys.argv[1:]
tests = []


def test(function):
    tests.append(function)
    return function


def environment(folder, **more):
    """Without any folder of the machine that can have the shim, apart from the system's own."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("BP_", "POPLAR", "LD_LIBRARY_PATH"))}
    return {**env, "HOME": folder, "BP_STANDIN_DELAY": "0", **more}


def bp(env, *words):
    done = subprocess.run([BP, *words], capture_output=True, text=True, env=env, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


def said(text, *words):
    """Asserts that a text has these words, however its lines are broken."""
    flat = " ".join(text.split())
    for word in words:
        assert word in flat, (word, text)


def absent(env, *words):
    code, text = bp(env, "info", "ipu")
    assert code == 3, (code, text)
    said(text, *words)
    _, text = bp(env, "doctor", "ipu")
    said(text, "absent", "0 broken")


def broken(env, *words):
    code, text = bp(env, "info", "ipu")
    assert code, text
    said(text, *words)
    _, text = bp(env, "doctor", "ipu")
    said(text, "1 broken")


def run(env, *words):
    """Runs the cases of add on the device."""
    return bp(env, "conform", "ipu:0", "--filter", "kernel/add/f32/prime/*", "--isolate", "none", *words)


@test
def without_the_shim_the_message_names_the_file_and_folders(folder):
    absent(environment(folder), "no libbp_ipu_shim.so", "LD_LIBRARY_PATH", "$POPLAR_SDK_ENABLED/lib", "/opt/poplar_sdk*",
           "BP_IPU_SHIM can name its file")


@test
def off_is_absent(folder):
    absent(environment(folder, BP_IPU_SHIM="off"), "BP_IPU_SHIM is off")


@test
def a_setting_that_names_no_file_is_broken(folder):
    path = os.path.join(folder, "none.so")
    broken(environment(folder, BP_IPU_SHIM=path), "no file that can be read where BP_IPU_SHIM says: " + path)


@test
def a_file_that_is_no_library_is_broken(folder):
    path = os.path.join(folder, "libbp_ipu_shim.so")
    with open(path, "w", encoding="utf-8") as file:
        file.write("text")
    broken(environment(folder, LD_LIBRARY_PATH=folder), "cannot be opened", path)


@test
def a_shim_that_lacks_a_function_is_named(folder):
    broken(environment(folder, BP_IPU_SHIM=LACKS), "has no function bp_ipu_", "compile it with plugins/ipu/shim/build.sh")


@test
def a_shim_of_another_interface_is_named(folder):
    broken(environment(folder, BP_IPU_SHIM=OLD), "has interface 999, expected", "compile it again")


@test
def a_shim_without_poplars_libraries_is_broken(folder):
    """The copy does not find the stand-in, which is beside the original: as a shim whose SDK was removed."""
    shutil.copy(SHIM, folder)
    path = os.path.join(folder, os.path.basename(SHIM))
    broken(environment(folder, BP_IPU_SHIM=path), path, "cannot be opened", "libbp_standin_poplar.so: cannot open shared object file")


@test
def folders_are_searched(folder):
    library = os.path.join(folder, ".local", "lib")
    os.makedirs(library)
    os.symlink(SHIM, os.path.join(library, "libbp_ipu_shim.so"))
    code, text = bp(environment(folder, LD_LIBRARY_PATH=STANDIN), "info", "ipu:0")
    assert code == 0, text
    said(text, "IPU 0, 1472 tiles")


@test
def without_an_ipu_the_plugin_is_absent(folder):
    absent(environment(folder, BP_IPU_SHIM=SHIM, BP_STANDIN_DEVICES="0"), "Poplar finds no IPU",
           "BP_IPU_TARGET=model runs its model on the host")


@test
def without_permission_the_reason_is_poplars(folder):
    """How Poplar reports a device file that it may not open is not documented: it throws when it lists the devices, or when the
    process attaches."""
    broken(environment(folder, BP_IPU_SHIM=SHIM, BP_STANDIN_FAIL="poplar.DeviceManager.getDevices:1:5"),
           "bp_ipu_open answers 1: poplar.DeviceManager.getDevices: told to fail")
    code, text = run(environment(folder, BP_IPU_SHIM=SHIM, BP_STANDIN_FAIL="poplar.Device.attach:1:5"))
    assert code, text
    said(text, "bp_ipu_run answers 1: poplar.Device.attach: told to fail")


@test
def two_plugins_of_the_kind_share_the_devices(folder):
    """A process attaches to an IPU once: both plugins have the shim's list of devices."""
    second = os.path.join(folder, "second")
    os.mkdir(second)
    shutil.copy(TWO, second)
    env = environment(folder, BP_IPU_SHIM=SHIM)
    code, text = bp(env, "manifest", os.path.join(second, "bp_ipu_two.so"), "-o", os.path.join(second, "bp_ipu_two.json"))
    assert code == 0, text
    env["BP_PLUGIN_PATH"] = second
    _, text = bp(env, "list", "--probe")
    assert sum(line.split()[1:4:2] == ["ipu", "ready"] for line in text.splitlines() if "ipu" in line) == 2, text
    code, text = run(env)
    assert code == 0, text


@test
def an_unknown_target_is_broken(folder):
    broken(environment(folder, BP_IPU_SHIM=SHIM, BP_IPU_TARGET="ipu9"), "BP_IPU_TARGET is 'ipu9'", "hardware, model or cpu")


@test
def poplars_model_and_cpu_target_run(folder):
    for target, name in (("model", "IPUModel 0, 1472 tiles"), ("cpu", "Poplar's cpu target 0, 1 tiles")):
        env = environment(folder, BP_IPU_SHIM=SHIM, BP_IPU_TARGET=target)
        code, text = bp(env, "info", "ipu:0")
        assert code == 0, text
        said(text, name)
        code, text = run(env)
        assert code == 0, text
        said(text, "1 pass in")


@test
def each_ipu_is_a_device(folder):
    env = environment(folder, BP_IPU_SHIM=SHIM, BP_STANDIN_DEVICES="3")
    for number in range(3):
        code, text = bp(env, "info", f"ipu:{number}")
        assert code == 0, text
        said(text, f"IPU {number}, 1472 tiles")
    assert bp(env, "info", "ipu:3")[0], "there is no fourth device"


@test
def a_device_in_use_is_named(folder):
    env = environment(folder, BP_IPU_SHIM=SHIM, BP_STANDIN_DEVICES="2", BP_STANDIN_BUSY="0")
    code, text = run(env)
    assert code, text
    said(text, "ipu:0: bp_ipu_run answers 3: another process is attached to the device; end that process, or name another device")
    code, text = bp(env, "conform", "ipu:1", "--filter", "kernel/add/f32/prime/*")
    assert code == 0, text


@test
def failures_of_poplar_are_passed_on(folder):
    """In the words of Poplar, with the status that its exception means."""
    env = environment(folder, BP_IPU_SHIM=SHIM)
    code, text = run({**env, "BP_STANDIN_FAIL": "poplar.DeviceManager.createDeviceManager:1:5"})
    assert code, text
    said(text, "bp_ipu_open answers 1: poplar.DeviceManager.createDeviceManager: told to fail")
    for fault, outcome, *words in (
            ("poplar.compileGraph:1:5", "skip", "bp_ipu_compile answers 1: poplar.compileGraph: told to fail"),
            ("poplar.compileGraph:1:1", "skip", "bp_ipu_compile answers 2: poplar.compileGraph: told to run out of memory"),
            ("poplar.Engine.Engine:1:1", "fail", "BP_ERR_MEMORY", "answers 2: poplar.Engine.Engine: told to run out of memory"),
            ("poplar.Device.attach:1:5", "fail", "BP_ERR_DEVICE", "bp_ipu_run answers 1"),
            ("poplar.Engine.load:1:2", "fail", "BP_ERR_DEVICE", "answers 1: poplar.Engine.load: told to fail, recoverable"),
            ("poplar.Engine.connectStream:1:5", "fail", "BP_ERR_DEVICE", "connectStream"),
            ("poplar.Engine.run:1:4", "fail", "BP_ERR_DEVICE", "bp_ipu_run answers 1: poplar.Engine.run: told to fail"),
            ("poplar.Engine.run:1:3", "fail", "BP_ERR_DEVICE_LOST", "bp_ipu_run answers 4", "reset the IPU")):
        _, text = run({**env, "BP_STANDIN_FAIL": fault}, "--json", "-")
        case = json.loads(text[text.index("{"):])["cases"][0]
        assert case["outcome"] == outcome, (fault, case)
        said(case["message"], *words)


@test
def a_program_that_no_tile_has_room_for_is_refused(folder):
    code, text = run(environment(folder, BP_IPU_SHIM=SHIM, BP_STANDIN_MEMORY=str(1472 * 64)))
    assert code, text
    said(text, "Out of memory: tile 0 needs")


@test
def after_a_failure_the_next_run_works(folder):
    log = os.path.join(folder, "misuses")
    env = environment(folder, BP_IPU_SHIM=SHIM, BP_STANDIN_FAIL="poplar.Engine.run:2:4", BP_STANDIN_LOG=log)
    code, text = bp(env, "conform", "ipu:0", "--filter", "kernel/add/f32/prime/*", "--filter", "kernel/sub/f32/prime/*",
                    "--filter", "kernel/mul/f32/prime/*", "--isolate", "none")
    assert code, text
    said(text, "2 pass, 1 fail")
    assert not os.path.exists(log) or not os.path.getsize(log), open(log, encoding="utf-8").read()


@test
def calls_are_traced(folder):
    code, text = run(environment(folder, BP_IPU_SHIM=SHIM, BP_IPU_TRACE="1", BP_LOG="info"))
    assert code == 0, text
    said(text, "ipu:0: trace: bp_ipu_compile answers 0", "ipu:0: trace: bp_ipu_run answers 0")


sys.exit(in_folders.run_tests(tests))
