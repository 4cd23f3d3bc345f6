# SPDX-License-Identifier: Apache-2.0
"""Measures programs and their compiler on cpu, for `./dev peers bench programs`: the rows of `bp bench` that have a target."""
import json
import os

import turns

LIMIT = 300
THREADS = (1, 2)
# Row of `bp bench cpu`: the key of its JSON, the unit, how many of the JSON's units one is, and the target.
ROWS = {
    "program/node of 1000 over prepared": ("value", "ns", 1, 5.0),
    "program/8 elementwise": ("ratio", "of a copy's time", 1, 1.15),
    "compile/ResNet-50": ("value", "ms", 1e6, 30.0),
    "compile/20000 nodes": ("value", "ms", 1e6, 500.0),
}


def rows_of(peer, threads, wanted):
    """({name: result} of the rows that are wanted, the failure of bp or "")."""
    filters = [word for name in wanted for word in ("--filter", name)]
    code, output = peer.call([peer.bp, "bench", "cpu", *filters, "--threads", str(threads), "--json", "-"], LIMIT)
    if code:
        return {}, f"exit status {code}\n{output}"
    return {row["name"]: row for row in json.loads(output[output.index("{"):])["results"]}, ""


def line_of(name, threads, row):
    key, unit, scale, target = ROWS[name]
    keys = (key, "low", "high") if key == "value" else (key, "ratio_low", "ratio_high")
    figure, low, high = (row[key] / scale for key in keys)
    missed = ": missed" if figure > target else ""
    return f"| {name} | {threads} | {figure:.2f} ({low:.2f} - {high:.2f}){missed} | {unit} | {target:.2f} |"


def bench(peer, wanted):
    """Prints and writes the table of all rows whose names contain `wanted`."""
    names = [name for name in ROWS if wanted.lower() in name.lower()]
    lines = ["| row of `bp bench cpu` | threads | median (middle half) | unit | at most |", "|---|---|---|---|---|"]
    print("\n".join(["", *lines]), flush=True)
    for threads in THREADS:
        found, failure = rows_of(peer, threads, names) if names else ({}, "")
        for name in names:
            if name not in found:
                peer.count.fail(f"peers/programs/{name}, {threads} threads", failure or "bp bench printed no such row")
                continue
            peer.count.pass_()
            lines.append(line_of(name, threads, found[name]))
            print(lines[-1], flush=True)
    turns.write_table(os.path.join(peer.folder, "programs.md"), lines)
