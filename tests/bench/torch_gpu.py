#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares eager operator calls on a GPU with PyTorch's, in one process, alternately.

A side of a pair makes as many calls as take some milliseconds, and waits until the device has done them.

    torch_gpu.py LIBRARY [DEVICE] [PAIRS] [NAME...]

LIBRARY is torch_gpu.c, compiled as a library with libbackplane; DEVICE is cuda:0 unless it is given; a NAME is a part of
the name of a row. Needs PyTorch and a GPU, and is therefore not a part of the tests. Prints a Markdown table: the median
of our times, of PyTorch's, and of the ratios of the pairs, with their middle half.
"""
import ctypes
import statistics
import sys
import time

import torch
import torch.nn.functional as F

LEAST_S = 0.005  # least seconds of one side of a pair

library = ctypes.CDLL(sys.argv[1])
for name in ("times_name", "times_open", "times_setup", "times_run"):
    getattr(library, name).restype = ctypes.c_char_p


def f32(*shape):
    return torch.rand(shape, device="cuda") * 2 - 1


def bf16(*shape):
    return f32(*shape).bfloat16()


def heads():
    return bf16(4, 16, 2048, 128)


def last(*shape):
    return bf16(*shape).contiguous(memory_format=torch.channels_last)


def convolution(x, w, b):
    return lambda: F.conv2d(x, w, b, padding=1)


def unary(function, x):
    return lambda: function(x)


def binary(function, x, y):
    return lambda: function(x, y)


def normalised(make):
    x, scale, bias = make(8192, 4096), make(4096), make(4096)
    return lambda: F.layer_norm(x, (4096,), scale, bias)


def attended():
    q, k, v = heads(), heads(), heads()
    return lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)


def linear():
    x, w, b = bf16(8192, 4096), bf16(4096, 4096), bf16(4096)
    return lambda: F.linear(x, w, b)


MANY = 1 << 26
THEIRS = {  # by name of a row of torch_gpu.c
    "add f32 64M": lambda: binary(torch.add, f32(MANY), f32(MANY)),
    "multiply bf16 64M": lambda: binary(torch.mul, bf16(MANY), bf16(MANY)),
    "exp f32 64M": lambda: unary(torch.exp, f32(MANY)),
    "gelu bf16 64M": lambda: unary(F.gelu, bf16(MANY)),
    "sum of all f32 64M": lambda: unary(torch.sum, f32(MANY)),
    "sum of rows f32 8192x4096": lambda: unary(lambda x: x.sum(1), f32(8192, 4096)),
    "cumsum of rows f32 8192x4096": lambda: unary(lambda x: x.cumsum(1), f32(8192, 4096)),
    "cumsum f32 1M": lambda: unary(lambda x: x.cumsum(0), f32(1 << 20)),
    "softmax f32 8192x4096": lambda: unary(lambda x: x.softmax(1), f32(8192, 4096)),
    "softmax bf16 8192x4096": lambda: unary(lambda x: x.softmax(1), bf16(8192, 4096)),
    "layer_norm f32 8192x4096": lambda: normalised(f32),
    "layer_norm bf16 8192x4096": lambda: normalised(bf16),
    "transposed copy f32 8192x8192": lambda: unary(lambda x: x.t().contiguous(), f32(8192, 8192)),
    "matmul f32 4096": lambda: binary(torch.matmul, f32(4096, 4096), f32(4096, 4096)),
    "matmul bf16 8192": lambda: binary(torch.matmul, bf16(8192, 8192), bf16(8192, 8192)),
    "matmul bf16 16x4096x4096": lambda: binary(torch.matmul, bf16(16, 4096), bf16(4096, 4096)),
    "linear bf16 8192x4096": linear,
    "conv f32 32x64x56x56 3x3": lambda: convolution(f32(32, 64, 56, 56), f32(64, 64, 3, 3), f32(64)),
    "conv f16 32x64x56x56 3x3":
        lambda: convolution(f32(32, 64, 56, 56).half(), f32(64, 64, 3, 3).half(), f32(64).half()),
    "conv bf16 channels last 32x256x56x56 3x3":
        lambda: convolution(last(32, 256, 56, 56), last(256, 256, 3, 3), bf16(256)),
    "conv bf16 channels last without bias": lambda: convolution(last(32, 256, 56, 56), last(256, 256, 3, 3), None),
    "attention bf16 4x16x2048x128 causal": attended,
    "sort f32 8192x4096": lambda: unary(lambda x: x.sort(dim=1, stable=True), f32(8192, 4096)),
}


def check(message):
    if message:
        raise RuntimeError(message.decode())


def seconds(run, n):
    began = time.perf_counter()
    run(n)
    return (time.perf_counter() - began) / n


def torch_runner(call):
    def run(n):
        for _ in range(n):
            call()
        torch.cuda.synchronize()
    return run


def enough(run):
    """Returns the number of calls that take LEAST_S."""
    run(2)
    return max(1, min(500, int(LEAST_S / seconds(run, 3)) + 1))


def measure(number, name, pairs):
    check(library.times_setup(number))
    sides = (lambda n: check(library.times_run(number, n)), torch_runner(THEIRS[name]()))
    calls = [enough(side) for side in sides]
    times = [[seconds(side, n) for side, n in zip(sides, calls)] for _ in range(pairs)]
    library.times_close()
    torch.cuda.empty_cache()
    ratios = sorted(ours / theirs for ours, theirs in times)
    quarter = len(ratios) // 4
    print(f"| {name} | {statistics.median(t[0] for t in times) * 1e6:.1f} | "
          f"{statistics.median(t[1] for t in times) * 1e6:.1f} | {statistics.median(ratios):.2f} | "
          f"{ratios[quarter]:.2f} - {ratios[-1 - quarter]:.2f} |", flush=True)


def main():
    device = sys.argv[2] if len(sys.argv) > 2 else "cuda:0"
    pairs = int(sys.argv[3]) if len(sys.argv) > 3 else 9
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.deterministic = True  # as Backplane is
    check(library.times_open(device.encode()))
    print("| call | ours, us | PyTorch, us | ratio | middle half |\n|---|---|---|---|---|")
    number = 0
    while library.times_name(number):
        name = library.times_name(number).decode()
        if len(sys.argv) < 5 or any(part in name for part in sys.argv[4:]):
            try:
                measure(number, name, pairs)
            except RuntimeError as error:
                print(f"| {name} | failed: {' '.join(str(error).split())[:150]} | | | |", flush=True)
                library.times_close()
        number += 1


main()
