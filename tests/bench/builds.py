#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs `bp bench` of two builds alternately, so that a change that must cost no time can be judged on a noisy machine.

    builds.py OLD NEW [--device DEV] [--rounds N] [--limit PART] [--filter GLOB]...

OLD and NEW are build folders. Each round runs both; every second round runs NEW first. For each row the program prints
the medians, the median of the ratios of new to old times of the rounds, and their middle half. Exit status 1: the middle
half of a row is above 1 + PART (0.03).
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

RATES = ("GB/s", "GFLOP/s")  # more is better; of all other units less is better
SECONDS = 600  # timeout of one run


def measure(build, options):
    """Returns {(row, threads): (value, unit)} of one run of bp bench."""
    done = subprocess.run([os.path.join(build, "sdk", "tools", "bp"), "bench", options.device, "--quick", "--json", "-",
                           *(f"--filter={glob}" for glob in options.filter)],
                          stdout=subprocess.PIPE, timeout=SECONDS, check=True)
    return {(row["name"], row["threads"]): (row["value"], row["unit"]) for row in json.loads(done.stdout)["results"]}


def slowdown(old, new, unit):
    """The ratio of the new build's time to the old build's."""
    return old / new if unit in RATES else new / old


def quarters(values):
    """The middle half."""
    return tuple(statistics.quantiles(values, n=4, method="inclusive")[::2]) if len(values) > 1 else (values[0], values[0])


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--limit", type=float, default=0.03)
    parser.add_argument("--filter", action="append", default=[])
    return parser.parse_args()


def main():
    options = parse()
    rounds = []
    for i in range(options.rounds):
        order = (options.old, options.new) if i % 2 == 0 else (options.new, options.old)
        measured = {build: measure(build, options) for build in order}
        rounds.append((measured[options.old], measured[options.new]))
    slower = []
    print("| row | old | new | unit | new over old | middle half |\n|---|---|---|---|---|---|")
    for key in rounds[0][0]:
        pairs = [(old[key], new[key]) for old, new in rounds if old.get(key) and new.get(key) and old[key][0] and new[key][0]]
        if not pairs:
            continue
        unit = pairs[0][0][1]
        ratios = [slowdown(old[0], new[0], unit) for old, new in pairs]
        low, high = quarters(ratios)
        medians = [statistics.median(side[k][0] for side in pairs) for k in (0, 1)]
        print(f"| {key[0]} | {medians[0]:.4g} | {medians[1]:.4g} | {unit} | {statistics.median(ratios):.3f} | {low:.3f} - {high:.3f} |")
        if low > 1 + options.limit:
            slower.append(key[0])
    print(f"\n{len(slower)} rows are slower: {', '.join(slower)}" if slower else "\nno row is slower")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
