#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests `bp report`: the numbers of the page against those of the JSON reports, HTML, odd names, wrong files.

    report.py ROOT BUILD BP ACTOR

The arguments are those of commands.py.
"""
import copy
import html.parser
import json
import os
import re
import shutil
import subprocess
import sys

from commands import BUILD, LIBRARY, ROOT, STAGE, WORK, bp, expect, expect_status, run, set_up

TESTS = []
VOID = {"meta"}


def test(function):
    TESTS.append(function)
    return function


class Page(html.parser.HTMLParser):
    """The text of each element by tag, the tables of each section, and errors of nesting."""

    def __init__(self, text):
        super().__init__()
        self.open, self.section, self.tables, self.text, self.wrong = [], "", {}, {}, []
        self.links = []
        self.feed(text)
        self.close()
        if self.open:
            self.wrong.append(f"never closed: {self.open}")

    def handle_starttag(self, tag, attrs):
        self.links += [value for key, value in attrs if key in ("src", "href")]
        if tag in VOID:
            return
        self.open.append(tag)
        if tag == "h2":
            self.section = ""
        elif tag == "tr":
            self.tables.setdefault(self.section, []).append([])
        elif tag in ("td", "th"):
            self.tables[self.section][-1].append("")

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"closed: {tag}")

    def handle_data(self, data):
        if "h2" in self.open:
            self.section += data
        elif {"td", "th"} & set(self.open):
            self.tables[self.section][-1][-1] += data
        else:
            self.text[self.section] = self.text.get(self.section, "") + data


def write(name, content):
    os.makedirs(WORK, exist_ok=True)
    path = os.path.join(WORK, name)
    with open(path, "w", encoding="utf-8") as f:
        f.write(content if isinstance(content, str) else json.dumps(content))
    return path


def read_page(path):
    with open(path, encoding="utf-8") as f:
        text = f.read()
    page = Page(text)
    expect(not page.wrong, f"wrong HTML: {page.wrong[:5]}")
    expect(not page.links and "http://" not in text and "https://" not in text, f"the page needs a network: {page.links}")
    return page


def report(device, conform=None, bench=None, *args, status=0, **more):
    for option, content in (("--conform", conform), ("--bench", bench)):
        if content is not None:
            args = (*args, option, write(option[2:] + ".json", content))
    path = os.path.join(WORK, "page.html")
    result = expect_status(bp("report", device, "-o", path, *args, **more), status)
    return result if status else read_page(path)


def case(name, outcome="pass", message="", **more):
    return {"id": name, "outcome": outcome, "seconds": 0.5, "message": message, **more}


def conform(*cases, device="mydev:0", level="none", **more):
    return {"report": "conform", "format": 1, "device": device, "level": level, "seed": 3, "machine": "a machine",
            "cases": list(cases), **more}


def figure(name, value, unit="ns", **more):
    return {"name": name, "threads": 1, "value": value, "unit": unit, "reference": None, "ratio": None, "low": value,
            "high": value, "runs": 9, "ratio_low": None, "ratio_high": None, "repeats": [value] * 5, "ratio_repeats": None,
            "reference_value": None, **more}


def bench(*rows, device="mydev:0"):
    return {"report": "bench", "format": 1, "device": device, "machine": "m", "results": list(rows)}


CPU = dict(path="", plugins="cpu", cwd=BUILD)
COPY = figure("copy", 10, "GB/s", operations=0, bytes=2e9, seconds=0.1)  # 20 GB/s read and written


@test
def numbers_are_those_of_the_reports():
    tested, measured = os.path.join(WORK, "c.json"), os.path.join(WORK, "b.json")
    os.makedirs(WORK, exist_ok=True)
    expect_status(bp("conform", "cpu", "--quick", "--filter", "kernel/add/f32/*", "--filter", "kernel/exp/*", "--json", tested,
                     **CPU), 0)
    expect_status(bp("bench", "cpu", "--quick", "--filter", "matmul/256", "--filter", "memory/copy*", "--json", measured,
                     **CPU), 0)
    with open(tested, encoding="utf-8") as f, open(measured, encoding="utf-8") as g:
        cases, figures = json.load(f), json.load(g)
    both = os.path.join(WORK, "r.json")
    page = report("cpu", cases, figures, "--json", both, **CPU)
    with open(both, encoding="utf-8") as f:
        kept = json.load(f)
    expect(kept["conform"] == cases and kept["bench"] == figures and "cpu" not in kept, "the reports are kept as they are")
    totals = {row[0]: row[1:] for row in page.tables["Totals"]}
    expect(totals["all"] == [str(cases["totals"][word]) for word in totals["suite"]], f"{totals}")
    support = page.tables["Support"]
    dtype = support[0].index("f32")
    for op in ("add", "exp"):
        passed = sum(c["outcome"] == "pass" and c["id"].startswith((f"kernel/{op}/f32/", f"kernel/{op}/f32-"))
                     for c in cases["cases"])
        cell = next(row for row in support if row[0] == op)[dtype]
        expect(passed and cell == str(passed), f"{op}: {cell}, expected {passed}")
    worst = max(a["worst"] for a in cases["accuracy"] if a["op"] == "exp" and a["dtype"] == "f32")
    expect(f"{worst:.3g}" in page.text["Largest error, as a part of what is allowed"], f"{worst}")
    speed = {row[0]: row[1:] for row in page.tables["Speed"]}
    for row in figures["results"]:
        shown = speed[row["name"]]
        scale = next((n for unit, n in (("us", 1e3), ("ms", 1e6), ("s", 1e9)) if row["unit"] == "ns" and shown[1] == unit), 1)
        expect(shown[0] == f"{row['value'] / scale:.4g}" and "e" not in shown[0], f"{shown}, expected {row}")
        expect(scale > 1 or shown[1] == row["unit"], f"{shown}, expected {row}")
        expect(shown[2] == f"{row['low'] / scale:.4g} to {row['high'] / scale:.4g}", f"{shown}")
    product = next(r for r in figures["results"] if r["name"] == "matmul/256")
    expect(product["operations"] == 2 * 256**3 and product["bytes"] == 3 * 4 * 256**2, f"{product}")
    expect(abs(product["operations"] / product["seconds"] / 1e9 / product["value"] - 1) < 1e-9, f"{product}")
    roof = next(row for row in page.tables["Roofline"] if row[0] == "1. matmul/256")
    expect(roof[1:3] == ["42.7", f"{product['value']:.4g}"], f"{roof}")


@test
def roofline_and_cpu():
    rows = [COPY, figure("slow", 30, "GFLOP/s", operations=3e9, bytes=1e9, seconds=0.1),  # 3 for each byte: 60 at most
            figure("fast", 100, "GFLOP/s", operations=1e10, bytes=1e8, seconds=0.1), figure("call", 50), figure("less", -5),
            figure("fast beside a thread", 900, "GFLOP/s", operations=9e10, bytes=1e8, seconds=0.1), figure("long", 25000),
            figure("longer", 1.5e7)]
    cpu = write("cpu.json", bench(figure("fast", 400, "GFLOP/s"), figure("call", 100), figure("less", 5), figure("long", 500),
                                  device="cpu:0"))
    page = report("mydev", conform(case("kernel/add/f32/x/0@r")), bench(*rows), "--cpu-bench", cpu)
    roof = {row[0]: row[1:] for row in page.tables["Roofline"]}
    expect(roof["1. slow"] == ["3", "30", "60", "50 %", "10", "memory"], f"{roof}")
    expect(roof["2. fast"] == ["100", "100", "100", "100 %", "1", "arithmetic"], f"{roof}")
    expect("20 GB/s" in page.text["Roofline"] and "100 GFLOP/s" in page.text["Roofline"], page.text["Roofline"])
    expect(len(roof) == 3, f"{roof}")
    expect([row[1:4] + row[-2:] for row in page.tables["Speed"] if row[0].startswith("long")] ==
           [["25", "us", "25 to 25", "0.5", "0.02"], ["15", "ms", "15 to 15", "", ""]], f"{page.tables['Speed']}")
    speed = {row[0]: row[-2:] for row in page.tables["Speed"]}
    expect("fast beside a thread" not in speed, f"{speed}")
    expect((speed["fast"], speed["call"], speed["less"], speed["slow"]) ==
           (["400", "0.25"], ["100", "2"], ["5", ""], ["", ""]), f"{speed}")


@test
def what_is_missing_is_ordered_by_models():
    cases = [case(f"kernel/{op}/f32@none", "unsupported", "no kernel") for op in ("exp", "add", "sub", "sgd")]
    # Of an operator with cases of f32, only those count.
    cases += [case("kernel/mul/f32/x/0@r"), case("kernel/mul/f32@none", "unsupported"), case("kernel/div/f32/x/0@r"),
              case("kernel/div/bf16@none", "unsupported"), case("plugin/load", "fail", "why")]
    page = report("mydev", conform(*cases, judged=False, level_reason="a part"), bench())
    rows = page.tables["What to do next"][1:]
    expect([(r[0], r[1], r[2]) for r in rows] == [
        ("add", "inference", "all cases"), ("sub", "inference", "all cases"), ("mul", "inference", "some cases"),
        ("exp", "inference", "all cases"), ("sgd", "training", "all cases")], f"{rows}")
    expect([int(r[3]) for r in rows[:4]] == sorted((int(r[3]) for r in rows[:4]), reverse=True) and int(rows[0][3]) > 50,
           f"{rows}")
    expect("The level is not judged: a part" in page.text["What to do next"], page.text)
    expect("1 of 9 cases failed" in page.text[""] and "why" in page.text["Failures"], page.text)
    expect("No row was measured" in page.text["Speed"] and "not measured" in page.text["Roofline"], page.text)
    # A report that was judged says itself what is missing.
    listed = [{"op": "conv", "level": "training", "suite": "gradient", "in_part": True, "models": 33},
              {"op": "no_such", "level": "core", "suite": "kernel", "in_part": True, "models": 1}]
    page = report("mydev", conform(*cases, judged=True, missing_operators=listed), bench())
    expect(page.tables["What to do next"][1:] == [["conv", "training", "some cases", "33"]], f"{page.tables}")


@test
def odd_names_are_escaped():
    odd = "<script>alert('x')</script>&\"\x01"
    cases = [case(f"kernel/acme.{odd.replace('/', '')}/f32/0@{odd}"), case("kernel/acme.gate/f32/0@g"),
             case("kernel/acme.gate/f32/1@g"), case("kernel/acme.norm@n", "skip"), case(f"kernel/add/f32/{odd}", "fail", odd)]
    page = report(odd, conform(*cases, device=odd + ":0", description=odd, driver=odd, machine=odd, note=odd,
                               level_reason=odd),
                  bench(figure(odd, 1, unit=odd), COPY, figure(odd + "2", 1, operations=1, bytes=1, seconds=1),
                        device=odd + ":0"), "--cpu-bench", write("cpu.json", bench(device="cpu:0")))
    expect("<script>" in page.text[""] and "<script>" in page.text["Failures"], page.text)
    support = {row[0]: row for row in page.tables["Support"]}
    dtype = support["operator"].index("f32")
    expect(support["acme.gate"][dtype] == "2" and "acme.norm" in support, f"{list(support)[-4:]}")


@test
def the_last_run_is_compared():
    both = os.path.join(WORK, "last.json")
    first = conform(case("kernel/add/f32/x/0@r"), case("kernel/exp/f32/x/0@r", "fail", "was wrong"))
    report("mydev", first, bench(figure("call", 50), figure("gone", 1)), "--json", both, "--cpu-bench",
           write("cpu.json", bench(device="cpu:0")))
    now = copy.deepcopy(first)
    now["cases"][0].update(outcome="crash", message="boom")
    now["cases"][1].update(outcome="pass")
    page = report("mydev", now, bench(figure("call", 90)), "--last", both, "--cpu-bench",
                  write("cpu.json", bench(device="cpu:0")))
    text = page.text["Since the last run"]
    for words in ("2 regressions, 1 improvements, 0 new, 1 gone, 0 without", "pass, now crash: boom",
                  "call, 1 thread 50 ns, now 90", "fail, now pass"):
        expect(words in text, f"{words}\n{text}")
    expect_status(bp("compare", both, both), 0)


@test
def a_device_with_few_kernels():
    set_up()
    page = report("stage", None, None, "--cpu-bench", write("cpu.json", bench(figure("x", 1), device="cpu:0")),
                  "--filter", "plugin/*", "--filter", "kernel/*/f32@none")
    expect("bp bench stage could not" in page.text["Speed"], page.text["Speed"])
    totals = {row[0]: row[1:] for row in page.tables["Totals"]}
    expect(int(totals["plugin"][0]) > 5 and totals["kernel"][0] == "0" and int(totals["kernel"][4]) > 50, f"{totals}")
    # After 25 rows the list is folded: a second table, with the same heading.
    rows = page.tables["What to do next"]
    heading = [i for i, row in enumerate(rows) if row == rows[0]]
    expect(heading == [0, 26] and f"{len(rows) - 27} more" in page.text["What to do next"], f"{heading}, {len(rows)} rows")
    expect(all(row[2] == "all cases" for row in rows[1:] if row != rows[0]), f"{len(rows)} {rows[:3]}")
    # The suite and the benchmark take a path, too, also where the plugin is not found by its name.
    for word in ("./bp_actor.so", "bp_actor.so", LIBRARY):
        page = report(word, None, None, "--cpu-bench", os.path.join(WORK, "cpu.json"), "--filter", "plugin/*", plugins="none",
                      path="/nonexistent", cwd=STAGE)
        expect("bp bench " + word in page.text["Speed"] and int({r[0]: r for r in page.tables["Totals"]}["plugin"][1]) > 5,
               f"{word}: {page.text['Speed']}")
    for word in ("./none.so", "/no/such/bp_x.so", STAGE + "/"):
        for command in (["report", word, "-o", "-"], ["bench", word]):
            expect(word in expect_status(bp(*command), 3).err, f"{command}")


@test
def a_device_that_fails():
    """The exit status is 0, and the first words of the page are that cases failed, or that the benchmark crashed."""
    set_up()
    cpu = write("cpu.json", bench(figure("x", 1), device="cpu:0"))
    page = report("stage", None, None, "--cpu-bench", cpu, "--filter", "runtime/launch/*", act="launch=crash")
    said = page.text[""]
    expect(re.search(r"\n[1-9]\d* of \d+ cases failed", said), said)
    expect("First the cases that fail" in page.text["What to do next"], page.text["What to do next"])
    expect("crash" in page.text["Failures"] and "measured nothing" in page.text["Speed"], f"{page.text['Speed']}")


def sanitizer_flags():
    """The flags that give a plugin the sanitizer of this build: the core loads no other."""
    with open(os.path.join(BUILD, "meson-info", "intro-buildoptions.json"), encoding="utf-8") as f:
        value = next(option["value"] for option in json.load(f) if option["name"] == "b_sanitize")
    return [] if value == "none" else [f"-fsanitize={value}"]


@test
def a_device_without_kernels():
    """A new plugin that has an engine and no kernels: its operators, and the rows of the benchmark that it can compute."""
    folder = os.path.join(WORK, "graphdev")
    shutil.rmtree(folder, ignore_errors=True)
    expect_status(bp("new-plugin", "graphdev", "--graph-only", "--output", folder), 0)
    subprocess.run(["sh", "build.sh", "-O1", *sanitizer_flags(), "-I", f"{ROOT}/sdk/include", "-I", f"{BUILD}/sdk/include"], cwd=folder, check=True,
                   capture_output=True)
    page = report(f"{folder}/bp_graphdev.so", None, None, "--cpu-bench", write("cpu.json", bench(device="cpu:0")), "--filter",
                  "kernel/add/f32/*", "--filter", "kernel/softmax*", "--filter", "plugin/*", path="/nonexistent", plugins="none")
    expect("no case failed" in page.text[""], page.text[""])
    support = {row[0]: row for row in page.tables["Support"]}
    expect(int(support["add"][support["operator"].index("f32")]) > 0, f"{support['add']}")
    expect([row[:2] for row in page.tables["What to do next"][1:]] == [["softmax", "inference"]], f"{page.tables['What to do next']}")
    speed = {row[0]: row for row in page.tables["Speed"]}
    expect("launch/eager" in speed and "matmul/256" not in speed, f"{list(speed)}")
    expect("has no kernel for it" in page.text["Speed"], page.text["Speed"])


@test
def wrong_files_are_refused():
    good, figures = conform(case("plugin/load")), bench(figure("x", 1))
    for content, word in (("", "an empty file"), ("{", "cut off"), ("[]", "no object"), ({}, "with device, level"),
                          (figures, "with device, level"), ({**good, "format": 2}, "format 1"), ({**good, "cases": [{}]}, "no id")):
        expect(word in report("mydev", content, figures, status=2).err, word)
    for content, word in (("{", "cut off"), (good, "that have a name"), (bench({}), "that have a name")):
        expect(word in report("mydev", good, content, status=2).err, word)
    expect("key `conform`" in report("mydev", good, figures, "--last", write("l.json", good), status=2).err, "--last")
    expect("expected a report of other, got one of mydev:0" in report("other", good, figures, status=2).err, "another device")
    expect("expected a report of cpu" in report("mydev", good, figures, "--cpu-bench", write("c.json", figures),
                                                status=2).err, "another device in place of the cpu")
    report("mydev", None, None, "--conform", "/no/such/file", status=2)


if __name__ == "__main__":
    sys.exit(run(TESTS))
