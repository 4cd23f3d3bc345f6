#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that oneDNN's reference implementations never run: they take hundreds of times as long as others. The names of
the implementations that oneDNN creates and runs for all convolution cases of the suite are read from its verbose
output.

    onednn_names.py BP
"""
import os
import re
import subprocess
import sys

CASES = "kernel/conv*"  # conv, conv_transpose, and their gradients


def verbose_output(bp):
    """The lines of oneDNN from one process that runs all cases."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("BP_")}
    env.update(DNNL_VERBOSE="2", ONEDNN_VERBOSE="2")
    done = subprocess.run([bp, "conform", "cpu", "--suite", "kernel", "--filter", CASES, "--isolate", "none", "-j", "1"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
                          errors="replace", env=env, timeout=300, check=False)
    assert done.returncode == 0, f"bp conform: exit status {done.returncode}\n{done.stdout[-2000:]}{done.stderr}"
    return re.findall(r"dnn[a-z]*_verbose,(?:\d[\d.]*,)?(create[a-z:_]*|exec),cpu,([^,]*),([^,]*),", done.stdout)


def main():
    print("1..2")
    lines = verbose_output(os.path.abspath(sys.argv[1]))
    ran = sum(step == "exec" and kind == "convolution" for step, kind, _ in lines)
    slow = sorted({line for line in lines if "ref" in line[2]})
    print(f"{'ok' if ran >= 20 else 'not ok'} 1 - oneDNN runs convolutions\n# {ran} of {CASES}, expected 20 at least")
    print(f"{'not ok' if slow else 'ok'} 2 - none of them is a reference implementation")
    for line in slow:
        print(f"# {', '.join(line)}")
    return 1 if slow or ran < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
