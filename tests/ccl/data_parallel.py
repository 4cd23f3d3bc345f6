#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the example of data-parallel training: its losses with several ranks must be those with one rank.

    data_parallel.py BP EXAMPLE

Gradients are means over the batch, and the ranks share the batch in equal parts. So several ranks differ from one
only in the order of additions. Over 60 steps of a network this small the difference is some 1e-5 of the loss at most;
a limit of 1e-3 separates it from an error.
"""
import subprocess
import sys

BP, EXAMPLE = sys.argv[1:]


def losses(ranks):
    done = subprocess.run([BP, "launch", "-n", str(ranks), "--plain", EXAMPLE], capture_output=True, text=True, timeout=100)
    if done.returncode:
        print("\n".join("# " + line for line in done.stderr.splitlines()))
    return [float(line.split()[-1]) for line in done.stdout.splitlines() if line.startswith("step")]


def main():
    alone, count, failed = losses(1), 1, 0
    good = len(alone) > 3 and alone[-1] < 0.2 * alone[0]
    print(f"{'ok' if good else 'not ok'} 1 - the loss of one rank falls: {alone}")
    failed += not good
    for ranks in (2, 3, 4):
        count += 1
        got = losses(ranks)
        good = len(got) == len(alone) and all(abs(a - b) <= 1e-3 * a for a, b in zip(alone, got))
        print(f"{'ok' if good else 'not ok'} {count} - the same with {ranks} ranks: {got}")
        failed += not good
    print(f"1..{count}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
