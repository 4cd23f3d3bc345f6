# SPDX-License-Identifier: Apache-2.0
"""Checks the library of the execution provider for ONNX Runtime by itself: without its parts, beside other versions, and which
sessions run on it. The environment's python runs each check in a process.

    python ort_alone.py LIBRARY CHECK      one check, which registers the library; prints `ok` as the last line
"""
import json
import os
import sys
import tempfile

from ort_checks import KEY, NAME, Bridge, expect_close, expect_refused, layers, model_of, node, random_x, shapes


def without_library(library, folder):
    """The provider without libbackplane is the peer's exception."""
    import onnxruntime  # pylint: disable=import-outside-toplevel
    import shutil  # pylint: disable=import-outside-toplevel

    alone = shutil.copy(library, folder)
    text = expect_refused(lambda: onnxruntime.register_execution_provider_library("backplane", alone), "libbackplane")
    print(text.splitlines()[0][-160:])
    onnxruntime.register_execution_provider_library("backplane", library)


def without_plugins(library, _):
    """Without plugins there are no devices, and the processor's provider works. BP_PLUGINS is set."""
    import onnxruntime  # pylint: disable=import-outside-toplevel

    onnxruntime.register_execution_provider_library("backplane", library)
    assert not [d for d in onnxruntime.get_ep_devices() if KEY in d.ep_metadata]
    model, expected = layers(1)
    expect_close(onnxruntime.InferenceSession(model).run(None, {"x": random_x(2)})[0], expected(random_x(2)))


def beside_a_copy(library, folder):
    """A copy of the libraries of this version is in use in the process: the provider uses the copy."""
    import ctypes  # pylint: disable=import-outside-toplevel
    import shutil  # pylint: disable=import-outside-toplevel

    root = os.path.normpath(os.path.join(os.path.dirname(library), "..", "..", ".."))
    for name in ("core/libbackplane.so.0", "sdk/onnx/libbackplane-onnx.so.0"):
        shutil.copy(os.path.join(root, name), folder)
    core = ctypes.CDLL(os.path.join(folder, "libbackplane.so.0"))
    made = ctypes.c_void_p()
    assert core.bp_core_create(None, ctypes.byref(made)) == 0
    shapes(Bridge(library, "cpu:0"))
    with open("/proc/self/maps", encoding="utf-8") as file:
        used = {line.split()[-1] for line in file if "/libbackplane.so" in line}
    assert used == {os.path.join(os.path.realpath(folder), "libbackplane.so.0")}, used
    core.bp_core_destroy(made)


def beside_another_version(library, folder):
    """A copy of the library with another version is in use in the process: an exception with both versions and the path."""
    import ctypes  # pylint: disable=import-outside-toplevel
    import onnxruntime  # pylint: disable=import-outside-toplevel

    root = os.path.normpath(os.path.join(os.path.dirname(library), "..", "..", ".."))
    other = os.path.join(folder, "libbackplane.so.0")
    with open(os.path.join(root, "core", "libbackplane.so.0"), "rb") as file:
        data = file.read()
    with open(os.path.join(root, "meson-info", "intro-projectinfo.json"), encoding="utf-8") as file:
        version = json.load(file)["version"]
    changed = "9" + version[1:]
    assert version.encode() + b"\0" in data, version
    with open(other, "wb") as file:
        file.write(data.replace(version.encode() + b"\0", changed.encode() + b"\0"))
    ctypes.CDLL(other)
    text = expect_refused(lambda: onnxruntime.register_execution_provider_library("backplane", library), f"libbackplane {version}")
    assert changed in text and other in text, text
    model, expected = layers(1)
    expect_close(onnxruntime.InferenceSession(model).run(None, {"x": random_x(2)})[0], expected(random_x(2)))


def beside_other_functions(library, folder):
    """A library of its name without functions that the provider needs is in use in the process: the peer's own exception,
    and the process lives."""
    import ctypes  # pylint: disable=import-outside-toplevel
    import subprocess  # pylint: disable=import-outside-toplevel
    import onnxruntime  # pylint: disable=import-outside-toplevel

    other = os.path.join(folder, "libbackplane.so.0")
    subprocess.run(["gcc", "-shared", "-fPIC", "-Wl,-soname,libbackplane.so.0", "-x", "c", "-", "-o", other], input=b"int other_version;",
                   check=True)
    assert ctypes.c_int.in_dll(ctypes.CDLL(other, mode=ctypes.RTLD_GLOBAL), "other_version").value == 0
    text = expect_refused(lambda: onnxruntime.register_execution_provider_library("backplane", library), "bp_")
    print(text.splitlines()[0][-160:])
    model, expected = layers(1)
    expect_close(onnxruntime.InferenceSession(model).run(None, {"x": random_x(2)})[0], expected(random_x(2)))


def ran_on(model, options, folder, **more):
    """(the providers of a session, those of them that ran its nodes)."""
    import onnxruntime  # pylint: disable=import-outside-toplevel

    options.enable_profiling, options.profile_file_prefix = True, os.path.join(folder, "profile")
    session = onnxruntime.InferenceSession(model, options, **more)
    session.run(None, {"x": random_x(2)})
    with open(session.end_profiling(), encoding="utf-8") as file:
        return session.get_providers(), {event["args"]["provider"] for event in json.load(file) if "provider" in event.get("args", {})}


def chosen(library, folder):
    """The providers of sessions that name no device: ({how: (providers, those that ran nodes)}, the devices that are listed)."""
    import onnxruntime  # pylint: disable=import-outside-toplevel

    model, _ = layers(1)
    onnxruntime.set_default_logger_severity(3)
    onnxruntime.register_execution_provider_library("backplane", library)
    found = {"nothing": ran_on(model, onnxruntime.SessionOptions(), folder),
             "processor": ran_on(model, onnxruntime.SessionOptions(), folder, providers=["CPUExecutionProvider"])}
    for name, policy in onnxruntime.OrtExecutionProviderDevicePolicy.__members__.items():
        options = onnxruntime.SessionOptions()
        options.set_provider_selection_policy(policy)
        found[name] = ran_on(model, options, folder)
    for name, (providers, ran) in found.items():
        print(f"{name}: {', '.join(providers)}; ran: {', '.join(sorted(ran))}")
    return found, [d for d in onnxruntime.get_ep_devices() if "Backplane" in d.ep_name]


def chosen_by_policies(library, folder):
    """Sessions that name no device never run on the provider, whatever their policy: policies choose a provider that runs
    nothing. Then a session that names a device runs on it."""
    found, devices = chosen(library, folder)
    assert len(found) == 9, list(found)
    assert all(ran == {"CPUExecutionProvider"} and NAME not in providers for providers, ran in found.values()), found
    names = [d.ep_name for d in devices]
    assert NAME in names and len(set(names)) == 2 and sorted(names)[-1] == NAME, names
    assert all((KEY in d.ep_metadata) == (d.ep_name == NAME) for d in devices), names
    import onnxruntime  # pylint: disable=import-outside-toplevel

    options = onnxruntime.SessionOptions()
    options.add_provider_for_devices([next(d for d in devices if d.ep_name == NAME)], {})
    assert ran_on(layers(1)[0], options, folder)[1] == {NAME}
    options = onnxruntime.SessionOptions()
    options.set_provider_selection_policy(onnxruntime.OrtExecutionProviderDevicePolicy.PREFER_CPU)
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    expect_refused(lambda: onnxruntime.InferenceSession(layers(1)[0], options, enable_fallback=0), "fallback")


def chosen_on_request(library, folder):
    """BP_ORT_POLICIES, which is set, lets policies choose the provider; sessions without a policy do not run on it."""
    found, devices = chosen(library, folder)
    assert {d.ep_name for d in devices} == {NAME}, devices
    assert all((ran == {NAME}) == (how not in ("nothing", "processor")) for how, (_, ran) in found.items()), found


def chosen_by_functions(library, folder):
    """A policy that is a function of the user's, which sees all devices, may choose a device of the provider."""
    import onnxruntime  # pylint: disable=import-outside-toplevel

    onnxruntime.register_execution_provider_library("backplane", library)
    options = onnxruntime.SessionOptions()
    options.set_provider_selection_policy_delegate(lambda devices, *_: [d for d in devices if KEY in d.ep_metadata][:1])
    assert ran_on(layers(1)[0], options, folder)[1] == {NAME}


def chosen_among_none(library, folder):
    """BP_ORT_DEVICES, which is set, admits none of the devices that exist: nothing is listed for policies either."""
    found, devices = chosen(library, folder)
    assert not devices, devices
    assert all(providers == ["CPUExecutionProvider"] for providers, _ in found.values()), found


def denied_fallbacks(library, folder):
    """With the option fallback=deny a session fails on a device that lacks a kernel, and sessions without it go on; here on
    devices of the tests, with kernels for few operators, whose other calls the cpu runs. One uses host memory, one its own."""
    import shutil  # pylint: disable=import-outside-toplevel
    import subprocess  # pylint: disable=import-outside-toplevel
    import numpy  # pylint: disable=import-outside-toplevel

    root = os.path.normpath(os.path.join(os.path.dirname(library), "..", "..", ".."))
    for name in ("plugins/cpu/bp_cpu.so", "plugins/cpu/bp_cpu.json", "tests/plugins/bp_mutant.so", "tests/plugins/bp_partial.so"):
        shutil.copy(os.path.join(root, name), folder)
    for name in ("mutant", "partial"):
        subprocess.run([os.path.join(root, "sdk", "tools", "bp"), "manifest", os.path.join(folder, f"bp_{name}.so")], check=True)
    os.environ.update(BP_PLUGINS="cpu,mutant,partial", BP_PLUGIN_PATH=folder)
    bridge = Bridge(library, "mutant:0")
    x = random_x(2)

    def expect_runs(session, expected):
        expect_close(session.run(None, {"x": x})[0], expected, session.get_providers())

    for device in ("mutant:0", "partial:0"):
        added = model_of([node("Add", "x x", "y")], {"x": (1, [2, 64])}, {"y": (1, [2, 64])})
        lacks = model_of([node("Cos", "x", "y")], {"x": (1, [2, 64])}, {"y": (1, [2, 64])})
        sometimes = bridge.session(lacks, device=device)
        for _ in range(2):  # also when the calls are known from the other sessions
            expect_runs(bridge.session(added, device=device, fallback="deny"), x + x)
            text = expect_refused(lambda: bridge.session(lacks, device=device, fallback="deny").run(None, {"x": x}), "Backplane")  # pylint: disable=cell-var-from-loop
            print(text.splitlines()[0][-300:])
            assert "kernel" in text and device in text, text
            expect_runs(sometimes, numpy.cos(x))


def package(_, folder):
    """The installed package, from another folder, finds its libraries and plugins."""
    import onnxruntime_ep_backplane as ours  # pylint: disable=import-outside-toplevel,import-error

    os.chdir(folder)
    assert ours.get_ep_names() == [ours.get_ep_name()] == ["BackplaneExecutionProvider"]
    library = ours.get_library_path()
    assert os.path.dirname(ours.__file__) in library and os.path.exists(library), library
    shapes(Bridge(library, "cpu:0"))


ALONE = {"without_library": without_library, "without_plugins": without_plugins, "beside_a_copy": beside_a_copy,
         "beside_another_version": beside_another_version, "beside_other_functions": beside_other_functions,
         "chosen_by_policies": chosen_by_policies, "chosen_on_request": chosen_on_request, "chosen_by_functions": chosen_by_functions,
         "chosen_among_none": chosen_among_none, "denied_fallbacks": denied_fallbacks, "package": package}


def main():
    with tempfile.TemporaryDirectory() as folder:
        ALONE[sys.argv[2]](sys.argv[1], folder)
    print("ok")


if __name__ == "__main__":
    main()
