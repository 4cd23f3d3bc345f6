#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that no tolerance is much larger than needed. For each operator whose tolerance grows with the terms of a sum,
the portable row must use at least a quarter of the allowed error over all cases, in each of f32 and f64. Operators
without an allowed error must have no error. The operators are taken from the report, so that none is left out.

    accuracy.py BUILD BP
"""
from kit import Run, main, test

PORTABLE = {"BP_CPU_ISA": "portable", "BP_CPU_DNNL": "off", "BP_CPU_OPENBLAS": "off"}
DTYPES = ("f32", "f64")


def type_of(entry):
    """The dtype of the numbers: f32 for "f32-i64", which has indices, and for "c64-f32"; None for half types and
    others."""
    parts = entry["dtype"].split("-")
    return None if parts[0] in ("f16", "bf16") else next((part for part in parts if part in DTYPES), None)


def worst_errors():
    """The entries with the worst error, by operator and dtype, of the operators whose tolerance grows."""
    worst = {}
    for dtype in DTYPES:
        result = Run("cpu", "--suite", "kernel", "--filter", f"kernel/*/*{dtype}*", env=PORTABLE)
        assert result.status == 0, result
        for entry in result.json["accuracy"]:
            key = entry["op"], type_of(entry)
            if entry["terms"] and key[1] == dtype and entry["worst"] >= worst.get(key, entry)["worst"]:
                worst[key] = entry
    return worst


@test
def tolerances_are_at_most_four_times_the_worst_error():
    worst = worst_errors()
    operators = sorted({op for op, _ in worst})
    assert len(operators) > 150, operators  # the report has the operators
    idle = []
    for op in operators:
        for dtype in DTYPES:
            assert (op, dtype) in worst, f"{op} has no case in {dtype}"
            entry = worst[op, dtype]
            print(f"# {op} {dtype} {entry['worst']:.3f}  {entry['id']}")
            if not (0.25 if entry["ulp"] else 0) <= entry["worst"] <= 1:
                idle.append(f"{op} {dtype}: {entry}")
    assert not idle, "\n".join(idle)


main()
