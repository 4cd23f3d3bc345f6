#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the cases of kernel rows with layouts of the plugin find no fault in the rows of the plugin `blocked`, and that
they detect each of its rows, layouts and conversions that is wrong on purpose.

    layouts.py BUILD BP BLOCKED
"""
import fnmatch
import os
import sys

from kit import Run, TESTS, main, test

BLOCKED = os.path.abspath(sys.argv[3])
ROWS = 10


def run(*ops, word=None, rows="*"):
    filters = [text for op in ops for text in ("--filter", f"kernel/{op}@blocked_{rows}")]
    return Run(BLOCKED, "--jobs", "1", *filters, env={"BP_BLOCKED": word} if word else None)


@test
def right_rows_pass_and_are_all_executed():
    result = run("assign/*", "relu/*", "add/*", "mul/*", "matmul/*", "conv/*", "acme.Twice/*")
    assert result.status == 0 and not result.bad(), result
    assert result.json["rows"] == {"executed": ROWS, "total": ROWS}, result.json["rows"]
    assert result.json["row_ways"]["frozen"] == {"executed": 3, "total": 3}, result.json["row_ways"]
    assert result.json["row_ways"]["twice"] == {"executed": ROWS, "total": ROWS}, result.json["row_ways"]
    for pattern in ("kernel/assign/f32/blocks/3x9*", "kernel/assign/f32/blocks.last/*to_c8", "kernel/relu/f32/blocks/2x17*",
                    "kernel/conv/f32/2d.prime/*", "kernel/matmul/f32/prime/*", "kernel/mul/f32/blocks.broadcast/*", "kernel/relu/f32/*.twice@*", "kernel/acme.Twice/f32/6@blocked_twice"):
        passed = [i for i, c in result.by_id.items() if fnmatch.fnmatchcase(i, pattern) and c["outcome"] == "pass"]
        assert passed, f"{pattern}: {result}"


@test
def other_rows_take_declined_cases():
    result = run("relu/f32/*")
    assert result.status == 0, result
    case = result.by_id["kernel/relu/f32/blocks/0x8x3x5@blocked_relu"]
    assert case["outcome"] == "skip" and "the row declines this configuration, another takes it" in case["message"], case
    assert "blocked_relu: input 0 cannot be converted to its layout" in case["message"], case


@test
def a_row_that_declines_all_cases_fails():
    result = run("relu/f32/*", word="unconverted")
    assert result.status == 1 and result.json["rows"] == {"executed": 0, "total": 1}, result
    assert all(c["outcome"] == "skip" for c in result.by_id.values()), result


@test
def a_row_without_a_layout_fails():
    result = Run(BLOCKED, "--filter", "kernel/relu@blocked*", env={"BP_BLOCKED": "number"})
    case = result.by_id["kernel/relu@blocked_relu"]
    assert result.status == 1 and case["outcome"] == "fail" and "in_layout[0] is 7" in case["message"], result


@test
def older_cores_must_not_load_rows_with_layouts():
    result = Run(BLOCKED, "--filter", "plugin/rows")
    assert result.status == 0 and result.by_id["plugin/rows"]["outcome"] == "pass", result
    result = Run(BLOCKED, "--filter", "plugin/rows", env={"BP_BLOCKED": "minor"})
    case = result.by_id["plugin/rows"]
    assert result.status == 1 and "plugin.needs_minor is 5: set it to 10" in case["message"], result


# A word of BP_BLOCKED, the cases that run, those of them that must fail, and text in a message.
WRONG = [
    ("padding", "conv/f32/2d.p*", "kernel/conv/f32/2d.pointwise/2x7*@blocked_conv", "element"),
    ("channels", "relu/f32/blocks/*", "kernel/relu/f32/blocks/2x17*", "element"),
    ("channels", "add/f32/blocks/*", "kernel/add/f32/blocks/3x9*", "element"),
    ("small", "relu/f32/blocks/*", "kernel/relu/f32/blocks/2x17*", "wrote behind output 0, which has 816 bytes in layout c8"),
    ("tail", "assign/f32/blocks/*", "kernel/assign/f32/blocks/3x9*@blocked_to_c8", "element"),
    ("tail", "assign/f32/blocks/*", "kernel/assign/f32/blocks/3x9*@blocked_from_c8", "element"),
    ("tail", "assign/f32/blocks/*", "kernel/assign/f32/blocks/9x17@blocked_to_n8", "element"),
    ("f64", "relu/f64/blocks/*", "kernel/relu/f64/blocks/2x7*", "element"),
    ("order", "conv/f32/2d.p*", "kernel/conv/f32/2d.pointwise/2x7*@blocked_conv", "element"),
    ("dense", "assign/f32/blocks.*/*", "kernel/assign/f32/blocks.last/*@blocked_to_c8", "element"),
    ("dense", "assign/f32/blocks.*/*", "kernel/assign/f32/blocks.gaps/5x9@blocked_to_n8", "element"),
    ("nan", "relu/f32/blocks/*", "kernel/relu/f32/blocks/2x8x3x5*", "got 0, expected nan"),
    ("zero", "assign/f32/blocks/*", "kernel/assign/f32/blocks/1x33*@blocked_to_c8", "got 0, expected -0"),
    ("sign", "assign/f32/blocks/*", "kernel/assign/f32/blocks/2x8x3x5@blocked_to_c8", "other bits when it comes back"),
    ("shared", "relu/f32/*.twice", "kernel/relu/f32/*.twice@*", "beside a call on another stream"),
    ("twice", "acme.Twice/*", "kernel/acme.Twice/f32/6@blocked_twice", "the decomposition"),
]
results = {}  # of a word and cases


def wrong_test(word, cases, must, text):
    def found():
        if (word, cases) not in results:
            results[word, cases] = run(cases, word=word)
        result = results[word, cases]
        bad = result.bad()
        failed = [c for i, c in bad.items() if fnmatch.fnmatchcase(i, must)]
        assert result.status == 1 and failed, f"{sorted(bad)}: {result}"
        assert any(text in c["message"] or c["outcome"] == "crash" for c in failed), failed
    found.__name__ = f"{word}: {must}"
    TESTS.append(found)


for line in WRONG:
    wrong_test(*line)


@test
def mirrored_blocks_come_back_as_they_were():
    """Both conversions agree: only rows that compute in the layout show that it is not the one of the rows."""
    result = run("assign/f32/blocks/*", word="order")
    assert result.status == 0, result


main()
