#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the decoders of tests/onnx/decoder_models.h on npu, for several tokens and one behind those in the cache of keys and values:
each node is compared with its reference, and at least 95 % of the nodes must run by rows of the plugin.

    decoder.py BUILD SOURCE
"""
import os
import re
import sys

from standin import Setting, misuses, run, run_tests

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "onnx"))
import share  # noqa: E402

setting = Setting(sys.argv[1])
HEADER = os.path.join(sys.argv[2], "tests/onnx/decoder_models.h")


def models():
    """The names of the models, and their bytes."""
    with open(HEADER, encoding="utf-8") as f:
        text = f.read()
    for name, strings in re.findall(r"static const char (\w+)\[\] =\n(.*?);\n", text, re.DOTALL):
        words = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', strings))
        yield name, words.encode("latin-1").decode("unicode_escape").encode("latin-1")


def shapes(past, tokens):
    """The extents of the inputs of two sequences."""
    caches = [f"past.{layer}.{kind}=2x2x{past}x4" for layer in (0, 1) for kind in ("key", "value")]
    return [word for shape in (f"ids=2x{tokens}", *caches) for word in ("--shape", shape)]


def runs(data, past, tokens):
    def test(folder):
        env = setting.environment(folder, BP_FALLBACK="deny", BP_STANDIN_DELAY="0")
        path, options = os.path.join(folder, "decoder.onnx"), shapes(past, tokens)
        with open(path, "wb") as f:
            f.write(data)
        code, text = run(env, setting.bp, "run", path, "--device", "npu:0", "--weights", "1", "--verify", *options)
        assert code == 0 and " 0 wrong, 0 without a reference" in text, text
        done, found = share.measured(setting.bp, path, "npu", *options, env=env)
        assert found and found.is_good() and not misuses(env), f"{found} {done.stderr}{misuses(env)}"
    return test


run_tests([(f"{name}, {tokens} tokens behind {past}", runs(data, past, tokens))
           for name, data in models() for past, tokens in ((2, 3), (5, 1))])
