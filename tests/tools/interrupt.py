#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests Ctrl-C of `bp run`: the first one during a compilation cancels the compilation, the next one ends the process, and
one without a compilation ends it at once.

    interrupt.py BP ENGINED

ENGINED: the folder of a device with an engine whose compilation waits if BP_ENGINED says so. Prints TAP.
"""
import os
import signal
import subprocess
import sys
import tempfile

import onnx
from onnx import TensorProto, helper

BP, ENGINED = map(os.path.abspath, sys.argv[1:3])
LONG = ["--repeat", "1000000"]


def write_model(path):
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in ("x", "y")]
    nodes = [helper.make_node("Add", ["x", "x"], ["s"]), helper.make_node("Mul", ["s", "x"], ["y"])]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", values[:1], values[1:]),
                                opset_imports=[helper.make_opsetid("", 13)]), path)


def start(model, words, *more):
    env = {**os.environ, "BP_PLUGIN_PATH": ENGINED, "BP_PLUGINS": "engined", "BP_ENGINED": words}
    return subprocess.Popen([BP, "run", model, "--device", "cpu", *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, env=env)


def read_until(process, text):
    """Reads standard error up to a line with this text."""
    seen = ""
    for line in process.stderr:
        seen += line
        if text in line:
            return True
    print("# standard error:", seen.replace("\n", "\n# "))
    return False


def cancel(process):
    """Presses Ctrl-C once the command says that it waits for the engine."""
    ok = read_until(process, "still in ")
    process.send_signal(signal.SIGINT)
    return read_until(process, "the compilation is cancelled") and ok


def first_cancels(model):
    process = start(model, "compile=waits")
    ok = cancel(process)
    out, _ = process.communicate(timeout=60)
    print("# status", process.returncode, out.replace("\n", "\n# "))
    return ok and process.returncode == 0 and "y: f32[2,3], largest 1.38889 at 5" in out


def second_ends(model):
    process = start(model, "compile=waits", *LONG)
    ok = cancel(process) and process.poll() is None
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    print("# status", process.returncode)
    return ok and process.returncode == -signal.SIGINT


def ends_without_compilation(model):
    process = start(model, "", *LONG)
    ok = not read_until_idle(process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    print("# status", process.returncode, err)
    return ok and process.returncode == -signal.SIGINT and "cancelled" not in err


def read_until_idle(process):
    """Waits until the command has run for a second. True: it has ended."""
    try:
        process.wait(timeout=1)
        return True
    except subprocess.TimeoutExpired:
        return False


def main():
    tests = [("the first Ctrl-C cancels a compilation, and the run goes node by node", first_cancels),
             ("the second Ctrl-C ends the process", second_ends),
             ("Ctrl-C without a compilation ends the process", ends_without_compilation)]
    failed = False
    print(f"1..{len(tests)}")
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "model.onnx")
        write_model(model)
        for i, (name, test) in enumerate(tests, 1):
            ok = test(model)
            failed |= not ok
            print(f"{'' if ok else 'not '}ok {i} - {name}", flush=True)
    sys.exit(failed)


main()
