#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares gelu, exp and tanh of 1M f32 with PyTorch's: processes alternate, each reports the median of 200 calls.

    torch_formulas.py LIBBACKPLANE.so

The program needs PyTorch (Debian's python3-torch); it is therefore not a part of the tests, and exits with status 2
and a message where PyTorch is missing. One line for each formula and number of threads: the median of the processes'
medians, least and most, and the ratio to PyTorch's best process, whose time depends on the addresses of its results.
The target is 0.8 of PyTorch's usual time.
"""
import ctypes
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time

PROCESSES, CALLS, N, F32 = 3, 200, 1 << 20, 11
FORMULAS = ("gelu", "exp", "tanh")


class Arg(ctypes.Structure):
    _fields_ = [("at", ctypes.POINTER(ctypes.c_void_p)), ("n", ctypes.c_size_t)]


class Call(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("op", ctypes.c_char_p), ("input", ctypes.POINTER(Arg)),
                ("n_in", ctypes.c_size_t), ("attrs", ctypes.c_void_p), ("kernel", ctypes.c_char_p)]


def median_of(call):
    times = []
    for i in range(CALLS + 20):
        begin = time.perf_counter()
        call()
        times.append(1e6 * (time.perf_counter() - begin))
    return statistics.median(times[20:])


def ours(library):
    bp = ctypes.CDLL(library)
    core, device, stream, x = (ctypes.c_void_p() for _ in range(4))
    bp.bp_error_message.restype = bp.bp_stream_scope.restype = ctypes.c_void_p
    shape, dtype = ctypes.c_int64(N), F32

    def must(status):
        if status:
            sys.exit(ctypes.string_at(bp.bp_error_message()).decode())

    must(bp.bp_core_create(None, ctypes.byref(core)))
    must(bp.bp_device_create(core, b"cpu:0", ctypes.byref(device)))
    must(bp.bp_stream_create(device, ctypes.byref(stream)))
    must(bp.bp_tensor_create(device, dtype, 1, ctypes.byref(shape), ctypes.byref(x)))
    data = (ctypes.c_float * N)(*(8 * (i * 7919 % N) / N - 4 for i in range(N)))
    must(bp.bp_tensor_write(stream, x, data, ctypes.c_uint64(4 * N)))
    scope, at = ctypes.c_void_p(bp.bp_stream_scope(stream)), (ctypes.c_void_p * 1)(x)
    arg = Arg(at, 1)

    def formula(name):
        call = Call(ctypes.sizeof(Call), name.encode(), ctypes.pointer(arg), 1, None, None)

        def run():
            y = ctypes.c_void_p()
            must(bp.bp_call_run(scope, ctypes.byref(call), ctypes.byref(y), ctypes.c_size_t(1), None))
            must(bp.bp_stream_synchronize(stream))
            bp.bp_tensor_destroy(y)
        return run
    return {name: median_of(formula(name)) for name in FORMULAS}


def theirs(threads):
    import torch
    torch.set_num_threads(threads)
    x = torch.arange(N) * 7919 % N * (8 / N) - 4
    functions = {"gelu": torch.nn.functional.gelu, "exp": torch.exp, "tanh": torch.tanh}
    return {name: median_of(lambda f=functions[name]: f(x)) for name in FORMULAS}


def process(threads, *args):
    env = {**os.environ, "BP_THREADS": str(threads)}
    done = subprocess.run([sys.executable, os.path.abspath(__file__), *args], stdout=subprocess.PIPE, text=True,
                          check=True, env=env)
    return json.loads(done.stdout)


def main():
    if len(sys.argv) == 3:
        print(json.dumps(ours(sys.argv[2]) if sys.argv[1] == "ours" else theirs(int(sys.argv[2]))))
        return 0
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if not importlib.util.find_spec("torch"):
        print("torch_formulas: no PyTorch to compare with (Debian: python3-torch)")
        return 2
    print("| | threads | ours, us (least - most) | PyTorch | ratio | to its best process |\n|---|---|---|---|---|---|")
    for threads in (1, 2):
        pairs = [(process(threads, "ours", sys.argv[1]), process(threads, "theirs", str(threads)))
                 for _ in range(PROCESSES)]
        for name in FORMULAS:
            a, b = ([pair[side][name] for pair in pairs] for side in (0, 1))
            m, o = statistics.median(a), statistics.median(b)
            print(f"| {name} | {threads} | {m:.0f} ({min(a):.0f} - {max(a):.0f}) | {o:.0f} ({min(b):.0f} - {max(b):.0f}) "
                  f"| {m / o:.2f} | {m / min(b):.2f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
