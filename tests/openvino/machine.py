#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the openvino plugin on machines without OpenVINO, with other versions of it, and with several devices.

    machine.py BP STANDIN OLD
        STANDIN: the stand-in for the library; OLD: the same without one of its functions
"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import in_folders  # noqa: E402

BP, STANDIN, OLD = sys.argv[1:]
tests = []


def test(function):
    tests.append(function)
    return function


def environment(folder, **more):
    """Without any folder of the machine that can have the library, apart from the system's own."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("BP_", "STANDIN_", "VIRTUAL_ENV"))}
    return {**env, "HOME": folder, **more}


def bp(env, *words):
    done = subprocess.run([BP, *words], capture_output=True, text=True, env=env, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


def info(env):
    """Returns the lines that `bp info` prints of the device, as {first word: the rest of the line}."""
    code, text = bp(env, "info", "openvino:0")
    assert code == 0, text
    return dict(line.split(maxsplit=1) for line in text.splitlines() if len(line.split()) > 1)


def absent(env, *words):
    """Asserts that the plugin is absent, and that the message has these words."""
    code, text = bp(env, "info", "openvino")
    assert code == 3, (code, text)
    for word in words:
        assert word in text, (word, text)
    code, text = bp(env, "doctor", "openvino")
    assert "absent" in text and "0 broken" in text, text


@test
def without_the_library_the_message_names_files_and_folders(folder):
    code, text = bp(environment(folder), "info", "openvino")
    if code == 0:  # the machine has OpenVINO in a folder of the system
        assert "OpenVINO" in text, text
        return
    absent(environment(folder), "no libopenvino_c.so*", "LD_LIBRARY_PATH",
           "$VIRTUAL_ENV/lib/python3*", "/opt/intel/openvino*", "BP_OPENVINO_LIBRARY")


@test
def off_is_absent(folder):
    absent(environment(folder, BP_OPENVINO_LIBRARY="off"), "BP_OPENVINO_LIBRARY is off")


@test
def a_setting_that_names_no_file_is_broken(folder):
    for path in (os.path.join(folder, "none.so"), "libopenvino_c.so"):
        code, text = bp(environment(folder, BP_OPENVINO_LIBRARY=path), "info", "openvino")
        assert code and f"no file that can be read where BP_OPENVINO_LIBRARY says: {path}" in text, (code, text)


@test
def a_file_that_is_no_library_is_broken(folder):
    path = os.path.join(folder, "libopenvino_c.so.1")
    with open(path, "w", encoding="utf-8") as file:
        file.write("text")
    code, text = bp(environment(folder, LD_LIBRARY_PATH=folder), "info", "openvino")
    assert code and "cannot be opened" in text and path in text, (code, text)


@test
def a_library_that_lacks_a_function_is_named(folder):
    code, text = bp(environment(folder, BP_OPENVINO_LIBRARY=OLD), "info", "openvino")
    assert code and "no function ov_tensor_free" in text and "2023.1 or newer" in text, (code, text)


@test
def the_variable_names_the_file(folder):
    found = info(environment(folder, BP_OPENVINO_LIBRARY=STANDIN))
    assert found["driver"] == "OpenVINO 2099.1.0, CPU", found
    assert found["name"] == "Stand-in processor", found


@test
def folders_are_searched_for_the_newest_version(folder):
    """In the order: LD_LIBRARY_PATH, then the Python package of an active environment."""
    first, packages = os.path.join(folder, "first"), os.path.join(folder, "env", "lib", "python3.99", "site-packages")
    second = os.path.join(packages, "openvino", "libs")
    for place in (first, second):
        os.makedirs(place)
    os.symlink(STANDIN, os.path.join(second, "libopenvino_c.so.2641"))
    env = environment(folder, VIRTUAL_ENV=os.path.join(folder, "env"))
    assert info(env)["driver"].startswith("OpenVINO 2099"), info(env)
    os.symlink(STANDIN, os.path.join(first, "libopenvino_c.so.2641"))
    os.symlink(OLD, os.path.join(first, "libopenvino_c.so.2650"))
    code, text = bp({**env, "LD_LIBRARY_PATH": first}, "info", "openvino")
    assert code and "no function" in text, (code, text)


@test
def each_device_of_the_library_is_one(folder):
    env = environment(folder, BP_OPENVINO_LIBRARY=STANDIN, STANDIN_DEVICES="CPU,GPU.0,NPU")
    for number, name in enumerate(("CPU", "GPU.0", "NPU")):
        code, text = bp(env, "info", f"openvino:{number}")
        assert code == 0 and f"OpenVINO 2099.1.0, {name}" in text, (code, text)
    assert bp(env, "info", "openvino:3")[0], "there is no fourth device"


@test
def a_library_without_devices_is_absent(folder):
    code, text = bp(environment(folder, BP_OPENVINO_LIBRARY=STANDIN, STANDIN_DEVICES=""), "info", "openvino")
    assert code == 3, (code, text)


@test
def a_failure_of_the_library_has_its_text(folder):
    for call in ("ov_core_create", "ov_core_get_available_devices", "ov_core_read_model_from_memory_buffer"):
        code, text = bp(environment(folder, BP_OPENVINO_LIBRARY=STANDIN, STANDIN_FAIL=call), "info", "openvino")
        assert code and f"{call} answers -1: general error: stand-in: told to fail" in text, (code, text)


if __name__ == "__main__":
    sys.exit(in_folders.run_tests(tests))
