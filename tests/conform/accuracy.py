#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No tolerance is idle: over all cases, the portable row of each operator whose tolerance grows with the
terms of a sum uses at least a quarter of what is allowed, in each of f32 and f64.

    accuracy.py BUILD BP
"""
import re

from kit import Run, main, test

ISA = re.compile(r"_(avx\w*|dnnl|openblas)$")  # rows that are not the portable one
GROWING = ["sum", "matmul", "softmax", "softmax_grad", "conv", "conv_grad_input", "conv_grad_weight", "scale",
           "sgd", "mse_loss"]


@test
def tolerances_are_at_most_four_times_the_worst_error():
    result = Run("cpu", "--suite", "kernel", *[a for op in GROWING for a in ("--filter", f"kernel/{op}/f*")])
    assert result.status == 0, result
    worst = {(a["op"], a["dtype"]): a for a in result.json["accuracy"]
             if a["dtype"] in ("f32", "f64") and not ISA.search(a["row"])}
    for op in GROWING:
        for dtype in ("f32", "f64"):
            entry = worst[op, dtype]
            print(f"# {op} {dtype} {entry['worst']:.3f}  {entry['id']}")
            assert 0.25 <= entry["worst"] <= 1, f"{op} {dtype}: {entry}"


main()
