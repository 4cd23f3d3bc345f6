#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the tables of docs/targets.md from the reports of `./dev conform`: the runs, and the operators by dtype and kind.

    matrix.py BUILD             prints both tables, of the kinds that have reports in BUILD/conform, else of the page
    matrix.py BUILD --update    writes them into the page; columns of kinds without a report stay
    matrix.py BUILD --check     whether the page has a column for each kind, a line for each operator, and known words
"""
import json
import os
import re
import subprocess
import sys

from kinds import KINDS

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = os.path.join(ROOT, "docs", "targets.md")
MARKS = {part: (f"<!-- begin of the {part} that tests/targets/matrix.py writes -->\n", f"<!-- end of the {part} -->\n") for part in ("runs", "matrix")}
BAD = ("fail", "crash", "timeout", "xpass")
NOT_RUN = "not run"
# Words for sets of dtypes, the largest first; other dtypes have their names.
SETS = {"floats": ["f16", "bf16", "f32", "f64"], "F": ["f16", "bf16", "f32"], "ints": ["i8", "i16", "i32", "i64"],
        "uints": ["u8", "u16", "u32", "u64"], "complex": ["c64", "c128"], "f8": ["f8e4m3", "f8e5m2", "f8e8m0", "f8e4m3fnuz", "f8e5m2fnuz"]}
DTYPES = ["bool", *SETS["ints"], *SETS["uints"], *SETS["floats"], *SETS["complex"], *SETS["f8"]]


def words(dtypes):
    """ "floats ints bool" of a set of dtypes."""
    left, found = set(dtypes), []
    for word, members in SETS.items():
        if left >= set(members):
            found.append(word)
            left -= set(members)
    return " ".join(found + [d for d in DTYPES if d in left])


def support(report):
    """{operator: (dtypes by own rows, dtypes by steps of its decomposition only)}, of which cases pass and none is bad."""
    own, other, bad = {}, {}, set()
    for case in report["cases"]:
        suite, *parts = case["id"].split("/")
        if suite != "kernel" or len(parts) < 3:
            continue
        op, dtype = parts[0], parts[1].split("-")[0]
        if case["outcome"] in BAD:
            bad.add((op, dtype))
        elif case["outcome"] == "pass":
            (other if case["id"].endswith("@none") else own).setdefault(op, set()).add(dtype)
    return {op: tuple({d for d in some.get(op, ()) if (op, d) not in bad} for some in (own, other)) for op in own.keys() | other.keys()}


def cell(own, other):
    rest = words(other - own)
    return " ".join(filter(None, (words(own), rest and f"({rest})")))


def read_report(build, kind):
    path = os.path.join(build, "conform", kind, "report.json")
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def operators(build):
    done = subprocess.run([os.path.join(build, "sdk", "tools", "bp"), "ops", "--json"], stdout=subprocess.PIPE, text=True, check=True)
    return [op["name"] for op in json.loads(done.stdout)["ops"]]


def rows_of(text):
    """{first cell: other cells} of a table in Markdown, without its head."""
    lines = [[c.strip() for c in line.strip().strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return {line[0].strip("`"): line[1:] for line in lines[2:]}, lines[0][1:] if lines else []


def parts_of(page):
    """{part: (text before, the table, text behind)}."""
    found = {}
    for part, (begin, end) in MARKS.items():
        before, mark, rest = page.partition(begin)
        table, other, behind = rest.partition(end)
        if not mark or not other:
            sys.exit(f"matrix: docs/targets.md lacks the lines around the {part}")
        found[part] = (before + mark, table, other + behind)
    return found


def line_of_run(report):
    total, rows = report["totals"], report["rows"]
    bad = sum(total[o] for o in BAD)
    place = report.get("note", "").partition("; no card")[0].replace("|", "/")
    return [place, f"{total['pass']:,} pass" + (f", {bad} fail" if bad else ""), f"{rows['executed']} of {rows['total']}",
            "not judged" if report["level"] == "none" else report["level"]]


def tables(build, page):
    """{part: its table}, with the columns of the page where there is no report."""
    reports = {kind: read_report(build, kind) for kind in KINDS}
    old = {part: rows_of(table) for part, (_, table, _) in parts_of(page).items()}
    runs = ["| kind | place of the run | cases | rows executed | level |", "|---|---|---|---|---|"]
    for kind, report in reports.items():
        cells = line_of_run(report) if report else old["runs"][0].get(kind, [NOT_RUN, "", "", ""])
        runs.append(" | ".join((f"| `{kind}`", *cells)).rstrip() + " |")
    found = {kind: support(report) for kind, report in reports.items() if report}
    head = old["matrix"][1]
    matrix = [" | ".join(("| operator", *KINDS)) + " |", "|---" * (1 + len(KINDS)) + "|"]
    for op in operators(build):
        before = dict(zip(head, old["matrix"][0].get(op, [])))
        cells = [cell(*found[kind].get(op, (set(), set()))) if kind in found else before.get(kind, "") for kind in KINDS]
        matrix.append(" | ".join((f"| `{op}`", *cells)) + " |")
    return {"runs": "\n".join(runs) + "\n", "matrix": "\n".join(matrix) + "\n"}


def check(build, page):
    """Why the page's structure is out of date: a list of texts."""
    old = {part: rows_of(table) for part, (_, table, _) in parts_of(page).items()}
    ops, wrong = operators(build), []
    if list(old["runs"][0]) != list(KINDS):
        wrong.append(f"the runs are of {', '.join(old['runs'][0])}; the kinds are {', '.join(KINDS)}")
    if old["matrix"][1] != list(KINDS):
        wrong.append(f"the columns are {', '.join(old['matrix'][1])}; the kinds are {', '.join(KINDS)}")
    lines = list(old["matrix"][0])
    wrong += [f"there is no line for {op}" for op in ops if op not in lines] + [f"there is no operator {op}" for op in lines if op not in ops]
    known = set(SETS) | set(DTYPES)
    for op, cells in old["matrix"][0].items():
        wrong += [f"{op}: '{word}' is no dtype" for c in cells for word in c.replace("(", "").replace(")", "").split() if word not in known]
    for at, kind in enumerate(KINDS):
        filled = any(cells[at:at + 1] != [""] for cells in old["matrix"][0].values())
        if filled == (old["runs"][0].get(kind, [NOT_RUN])[0] == NOT_RUN):
            wrong.append(f"{kind}: the table of runs and the column do not agree on whether it was run")
    with open(os.path.join(ROOT, "tests", "targets", "kinds.py"), encoding="utf-8") as f:
        listed = re.findall(r'^    "(\w+)": Kind\(', f.read(), re.M)
    for kind in listed:
        if not re.search(rf"^\| `{kind}` \|", page.partition(MARKS["runs"][0])[0], re.M):
            wrong.append(f"the table of proofs has no line for {kind}")
    return wrong


def main(build, option=None):
    with open(PAGE, encoding="utf-8") as f:
        page = f.read()
    if option == "--check":
        wrong = check(build, page)
        for line in wrong:
            print(f"docs/targets.md: {line}; write it anew with tests/targets/matrix.py {os.path.relpath(build)} --update")
        return 1 if wrong else 0
    made = tables(build, page)
    if option != "--update":
        print(made["runs"], made["matrix"], sep="\n", end="")
        return 0
    for part, table in made.items():
        before, _, behind = parts_of(page)[part]
        page = before + table + behind
    with open(PAGE, "w", encoding="utf-8") as f:
        f.write(page)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
