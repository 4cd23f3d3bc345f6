#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests `bp compare`: the differences of reports of conform, bench and profiles, noise, wrong files.

    compare.py ROOT BUILD BP ACTOR

The arguments are those of commands.py.
"""
import copy
import html.parser
import json
import os
import sys
import xml.etree.ElementTree

from commands import BP, BUILD, WORK, bp, expect, expect_status, run

TESTS = []


def test(function):
    TESTS.append(function)
    return function


def write(name, content):
    os.makedirs(WORK, exist_ok=True)
    path = os.path.join(WORK, name)
    with open(path, "w", encoding="utf-8") as f:
        f.write(content if isinstance(content, str) else json.dumps(content))
    return path


def conform(device="mydev:0", level="none", seed=0, **outcomes):
    return {"report": "conform", "format": 1, "device": device, "level": level, "seed": seed,
            "cases": [{"id": f"kernel/{name}", "outcome": outcome, "seconds": 0.5, "message": f"why {name}"}
                      for name, outcome in outcomes.items()]}


def figure(name, middle, spread=0.01, unit="ns", reference=None, repeats=None, **more):
    """A row of a bench report. middle: the median of the number that is compared, spread: of its middle half."""
    low, high = middle * (1 - spread), middle * (1 + spread)
    row = {"name": name, "threads": 1, "unit": unit, "reference": reference, "runs": 31, "reference_value": None,
           "ratio": None, "ratio_low": None, "ratio_high": None, "ratio_repeats": None}
    if reference:
        row.update(value=100, low=90, high=110, repeats=[100] * 5, ratio=middle, ratio_low=low, ratio_high=high,
                   ratio_repeats=repeats or [middle] * 5, reference_value=50)
    else:
        row.update(value=middle, low=low, high=high, repeats=repeats or [middle] * 5)
    return {**row, **more}


def bench(*rows, machine="m", device="cpu:0"):
    return {"report": "bench", "format": 1, "device": device, "machine": machine, "results": list(rows)}


def timed(name, median, calls=20, spread=None, by="op", **more):
    """A row of a profile, in nanoseconds."""
    return {"by": by, "name": name, "calls": calls, "total_ns": median * calls, "self_ns": median * calls,
            "min_ns": median // 2, "median_ns": median, "max_ns": 9 * median,
            "spread_ns": median // 50 if spread is None else spread, **more}


def profile(*rows, command="app", lost=0, finished=True):
    return {"kind": "profile", "version": 1, "command": command, "lost": lost, "finished": finished, "rows": list(rows)}


def compare(a, b, *args, status=0):
    result = bp("compare", write("a.json", a), write("b.json", b), *args)
    return expect_status(result, status)


def names(a, b, *args):
    """{kind of difference: names}, and the exit status, which must follow from the regressions."""
    result = bp("compare", write("a.json", a), write("b.json", b), "--json", "-", *args)
    answer = result.json()
    expect(result.status == (1 if answer["regressions"] else 0), "another exit status", result)
    return {key: [one["name"] for one in answer[key]] for key in ("regressions", "improvements", "new", "gone")
            if answer[key]}


@test
def equal_reports_have_no_difference():
    for report in (conform(a="pass", b="fail", c="skip"), bench(figure("x", 10), figure("y", 2, reference="r"))):
        result = compare(report, report)
        expect("0 regressions, 0 improvements, 0 new, 0 gone, " in result.out, "a difference", result)


@test
def outcomes_get_worse_or_better():
    order = (("pass",), ("xfail", "unsupported", "skip"), ("fail", "crash", "timeout", "xpass"))
    for i, before in ((i, b) for i, words in enumerate(order) for b in words):
        for k, after in ((k, a) for k, words in enumerate(order) for a in words):
            wanted = {"regressions": ["kernel/x"]} if k > i else {"improvements": ["kernel/x"]} if k < i else {}
            found = names(conform(x=before, y="pass"), conform(x=after, y="pass"))
            expect(found == wanted, f"{before}, now {after}: {found}")


@test
def cases_come_and_go():
    found = names(conform(a="pass", b="fail", c="pass"), conform(c="pass", d="pass", e="fail", f="skip"))
    expect(found == {"regressions": ["kernel/e"], "new": ["kernel/d", "kernel/f"], "gone": ["kernel/a", "kernel/b"]},
           f"{found}")
    result = compare(conform(a="pass"), conform(a="crash"), status=1)
    expect("\nregressions: 1\n  kernel/a: pass, now crash: why a\n" in result.out, "no reason", result)
    many = {f"c{i}": "pass" for i in range(50)}
    result = compare(conform(**many), conform(**{k: "fail" for k in many}), status=1)
    expect(all(f"  kernel/{k}: " in result.out for k in many), "a regression is not named", result)
    result = compare(conform(), conform(**many))
    expect("20 more are in --json" in result.out, "all of them are listed", result)


@test
def levels():
    for before, after, wanted in (("core", "runtime", {"regressions": ["level"]}), ("core", "none", {}),
                                  ("none", "core", {}), ("runtime", "training", {"improvements": ["level"]})):
        expect(names(conform(level=before, a="pass"), conform(level=after, a="pass")) == wanted, f"{before} {after}")


@test
def a_difference_counts_beyond_the_spread():
    for a, b, wanted in (
            (figure("x", 100), figure("x", 120), "regressions"), (figure("x", 100), figure("x", 80), "improvements"),
            (figure("x", 100), figure("x", 104), None),  # less than 5 %
            (figure("x", 100, 0.3), figure("x", 120), None),  # within the spread of A
            (figure("x", 100), figure("x", 120, 0.3), None),  # within that of B
            (figure("x", 100, repeats=[100, 99, 130, 101, 100]), figure("x", 120), None),  # a repeat of A was as slow
            (figure("x", 100), figure("x", 120, repeats=[99, 120, 120, 121, 120]), None),
            (figure("x", 100, unit="GB/s"), figure("x", 120, unit="GB/s"), "improvements"),
            (figure("x", 100, unit="GB/s"), figure("x", 80, unit="GB/s"), "regressions"),
            (figure("x", 1.5, reference="r"), figure("x", 2, reference="r"), "regressions"),
            (figure("x", 1.5, reference="r", unit="GB/s"), figure("x", 2, reference="r", unit="GB/s"), "regressions"),
            (figure("x", 2, reference="r"), figure("x", 1.5, reference="r"), "improvements"),
            # The machine is slower, and so is the reference: the ratio is the same.
            (figure("x", 2, reference="r"), figure("x", 2, reference="r", value=300, low=290, high=310), None),
            (figure("x", -10), figure("x", -20), "improvements")):
        if a["value"] < 0:
            for row in (a, b):
                row["low"], row["high"] = row["high"], row["low"]
        found = names(bench(a), bench(b))
        expect(found == ({wanted: ["x, 1 thread"]} if wanted else {}), f"{found}, expected {wanted}\n{a}\n{b}")
    a, b = bench(figure("x", 100)), bench(figure("x", 104))
    expect(names(a, b, "--least", "3") == {"regressions": ["x, 1 thread"]}, "--least 3")
    expect(names(a, bench(figure("x", 120)), "--least", "30") == {}, "--least 30")


@test
def rows_come_and_go():
    a, b = bench(figure("x", 1), figure("y", 1)), bench(figure("y", 1), figure("y", 1, threads=2), figure("z", 1))
    expect(names(a, b) == {"new": ["y, 2 threads", "z, 1 thread"], "gone": ["x, 1 thread"]}, f"{names(a, b)}")
    changed = names(bench(figure("x", 1)), bench(figure("x", 9, unit="GB/s")))
    expect(changed == {"new": ["x, 1 thread"], "gone": ["x, 1 thread"]}, f"{changed}")
    result = compare(bench(figure("x", 2, reference="r")),
                     bench(figure("x", 3, reference="r", reference_value=80), machine="n", device="xpu:0"), status=1)
    for text in ("the devices differ: cpu:0, now xpu:0", "the machines differ: m, now n",
                 "the reference itself: 50, now 80"):
        expect(text in result.out, text, result)
    expect("the seeds differ" in compare(conform(), conform(seed=3)).out, "seeds")


@test
def times_of_calls_count_beyond_their_spread():
    for a, b, wanted in (
            (timed("x", 1000), timed("x", 1200), "regressions"), (timed("x", 1000), timed("x", 800), "improvements"),
            (timed("x", 1000), timed("x", 1045, spread=0), None),  # less than 5 %
            (timed("x", 1000), timed("x", 1200, spread=200), None),  # within the spread of B
            (timed("x", 1000, spread=250), timed("x", 1200), None),  # within that of A
            (timed("x", 1000, spread=300, max_ns=1100), timed("x", 1200), "regressions"),  # no call of A took as long
            (timed("x", 1000, calls=4), timed("x", 9000), None),  # four calls do not show the noise
            (timed("x", 1000, calls=5), timed("x", 9000, calls=5), "regressions"),
            (timed("x", 0), timed("x", 9000), "regressions"), (timed("x", 0), timed("x", 0), None),
            (timed("x", 1000, by="kernel"), timed("x", 1200, by="kernel"), "regressions"),
            (timed("x", 1000, by="thread"), timed("x", 1200, by="thread"), None)):
        found = names(profile(a), profile(b))
        expect(found == ({wanted: [f"{a['by']} x"]} if wanted else {}), f"{found}, expected {wanted}\n{a}\n{b}")
    a, b = profile(timed("x", 1000)), profile(timed("x", 1060))
    expect(names(a, b) == {"regressions": ["op x"]} and names(a, b, "--least", "10") == {}, "--least 10")


@test
def rows_of_profiles_come_and_go():
    a = profile(timed("x", 10), timed("y", 10), timed("y", 10, by="kernel"), lost=7)
    b = profile(timed("y", 10, calls=400), timed("y", 10, by="kernel"), timed("z", 10, calls=1), command="other",
                finished=False)
    expect(names(a, b) == {"new": ["op z"], "gone": ["op x"]}, f"{names(a, b)}")
    result = compare(a, b)
    for text in ("bp profile: app, now other", "the commands differ: app, now other", "the earlier profile lacks 7 events",
                 "the later profile has no end", "rows with another number of calls: 1; op y: 20, now 400"):
        expect(text in result.out, text, result)
    few = compare(profile(timed("x", 10, calls=2)), profile(timed("x", 99)))
    expect("not judged: 1" in few.out, "rows of few calls", few)


@test
def profiles_of_a_command_can_be_compared():
    path, prof = os.path.join(WORK, "profile.json"), os.path.join(WORK, "x.prof")
    expect_status(bp("profile", "--json", path, "-o", prof, "--", BP, "bench", "cpu", "--quick", "--filter", "launch/eager",
                     path="", plugins="cpu", cwd=BUILD), 0)
    with open(path, encoding="utf-8") as f:
        report = json.load(f)
    expect(any(r["by"] == "op" and r["name"] == "add" and r["calls"] > 4 for r in report["rows"]), "no row of add", report)
    expect_status(bp("compare", path, path), 0)
    slow = copy.deepcopy(report)
    for row in slow["rows"]:
        for key in ("min_ns", "median_ns", "max_ns"):
            row[key] = 1000 * row[key] + 10 * row["spread_ns"]
    found = names(report, slow)
    expect("op add" in found["regressions"] and set(found) == {"regressions"}, f"{found}")
    expect(names(slow, report) == {"improvements": found["regressions"]}, "faster rows")


@test
def wrong_files_are_refused():
    good = {"conform": conform(a="pass"), "bench": bench(figure("x", 1)), "profile": profile(timed("x", 1))}
    bad = [("", "an empty file"), ("{", "cut off"), ("[]", "no object"), ("{}", "the key"), ('{"report":"run"}', "'run'")]
    bad += [(json.dumps(g)[:-20], "cut off") for g in good.values()]
    bad += [({**g, "format": 2, "version": 2}, "of format 1") for g in good.values()]
    bad += [({k: v for k, v in good["bench"].items() if k != "format"}, "of format 1"),
            ({**good["conform"], "cases": 3}, "with device, level"), (good["bench"] | {"results": [{}]}, "that have a name"),
            (bench(figure("x", 1), figure("x", 2)), "that have a name each")]
    for key in ("repeats", "low", "value", "threads"):
        row = figure("x", 1)
        del row[key]
        bad.append((bench(row), "measure again"))
    bad += [(bench(figure("x", 1, high=0.5)), "measure again"), (bench(figure("x", 1, repeats=["a"])), "measure again")]
    for content, word in bad:
        for g in good.values():
            for pair in ((content, g), (g, content)):
                result = compare(*pair, status=2)
                expect(not result.out and ("expected the same" in result.err or word in result.err), word, result)
    for key in ("by", "calls", "median_ns", "min_ns", "spread_ns"):
        row = timed("x", 1)
        del row[key]
        bad.append((profile(row), "write the JSON again"))
    bad += [(profile(timed("x", 1, min_ns=5)), "write the JSON again"), ({**good["profile"], "rows": 3}, "write the JSON")]
    for content, word in bad[-7:]:
        expect(word in compare(good["profile"], content, status=2).err, word)
    expect("expected the same" in compare(good["conform"], good["bench"], status=2).err, "two kinds")
    expect("expected the same" in compare(good["profile"], good["bench"], status=2).err, "two kinds")
    expect_status(bp("compare", write("a.json", good["bench"])), 2)
    expect_status(bp("compare", "/no/such/file", write("a.json", good["bench"])), 2)
    expect_status(bp("compare", WORK, write("a.json", good["bench"])), 2)
    compare(good["bench"], good["bench"], "--least", "-1", status=2)


@test
def reports_of_earlier_versions():
    old = conform(a="pass")
    del old["report"], old["format"]
    expect(names(old, conform(a="fail")) == {"regressions": ["kernel/a"]}, "a report without `report`")


class Page(html.parser.HTMLParser):
    text = ""

    def handle_data(self, data):
        self.text += data


@test
def junit_and_html():
    junit, page = os.path.join(WORK, "c.xml"), os.path.join(WORK, "c.html")
    b = conform(a="fail", c="pass")
    b["cases"][0]["message"] = "<b> & \"x\" \x01"
    compare(conform(a="pass", gone="pass"), b, "--junit", junit, "--html", page, status=1)
    suite = xml.etree.ElementTree.parse(junit).getroot().find("testsuite")
    expect((suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1"), f"{suite.attrib}")
    failure = suite.find("testcase[@name='kernel/a']/failure")
    expect("pass, now fail: <b> & \"x\"" in failure.get("message"), f"{failure.attrib}")
    parsed = Page()
    with open(page, encoding="utf-8") as f:
        parsed.feed(f.read())
    expect("1 regressions" in parsed.text and "pass, now fail: <b> &" in parsed.text, parsed.text)


@test
def reports_of_bench_can_be_compared():
    path = os.path.join(WORK, "bench.json")
    expect_status(bp("bench", "cpu", "--quick", "--filter", "memory/*", "--filter", "launch/prepare", "--json", path,
                     path="", plugins="cpu", cwd=BUILD), 0)
    with open(path, encoding="utf-8") as f:
        report = json.load(f)
    for row in report["results"]:
        expect(len(row["repeats"]) == 5 and min(row["repeats"]) <= row["value"] <= max(row["repeats"]), "repeats", row)
        expect((row["ratio_repeats"] is None) == (row["reference"] is None), "repeats of the ratio", row)
    expect_status(bp("compare", path, path), 0)
    slow = copy.deepcopy(report)
    row = next(r for r in slow["results"] if r["name"] == "launch/prepare")
    for key in ("value", "low", "high"):
        row[key] *= 1000
    row["repeats"] = [1000 * v for v in row["repeats"]]
    expect(names(report, slow) == {"regressions": ["launch/prepare, 1 thread"]}, "a slower row")
    expect(names(slow, report) == {"improvements": ["launch/prepare, 1 thread"]}, "a faster row")


if __name__ == "__main__":
    sys.exit(run(TESTS))
