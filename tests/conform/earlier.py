#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests what `bp conform` takes from earlier runs: a baseline, times for shards; and expectations with a date.

    earlier.py BUILD BP MUTANT
"""
import datetime
import json
import os
import sys
import xml.etree.ElementTree

from kit import WORK, Run, main, test

MUTANT = os.path.abspath(sys.argv[3])
ADD = ("--filter", "kernel/add/f32/*")
WIDTH = "kernel/add/f32/broadcast-both/7x1x33+4x1@mutant_add_f32"


def run(*args, mutant="none", **more):
    return Run(MUTANT, *args, env={"BP_FAKE": "mutant=" + mutant}, **more)


def write(name, content):
    os.makedirs(WORK, exist_ok=True)
    path = os.path.join(WORK, f"{os.getpid()}-{name}")
    with open(path, "w", encoding="utf-8") as file:
        file.write(content if isinstance(content, str) else json.dumps(content))
    return path


def ids(*args, status=0):
    result = run("--list", *args, report=False)
    assert result.status == status, result
    return result.out.split("\n")[:-1]


@test
def failures_of_the_baseline_do_not_fail():
    before = run(*ADD, mutant="crash")
    assert before.status == 1 and list(before.bad()) == [WIDTH], before
    path = write("baseline.json", before.json)
    again = run(*ADD, "--baseline", path, "--junit", os.path.join(WORK, "earlier.xml"), mutant="crash")
    case = again.by_id[WIDTH]
    assert again.status == 0 and case["outcome"] == "xfail" and case["known"] is True, again
    assert case["message"].startswith("known, in the baseline crash: killed by"), case
    assert "known failures, as in the baseline: 1\n  " + WIDTH in again.out, again
    assert "fixed since the baseline: 0\n" in again.out, again
    junit = xml.etree.ElementTree.parse(os.path.join(WORK, "earlier.xml")).getroot()
    assert junit.get("failures") == junit.get("errors") == "0" and int(junit.get("skipped")) >= 1
    # The report of a run with a baseline is a baseline too.
    assert run(*ADD, "--baseline", write("again.json", again.json), mutant="crash").status == 0


@test
def new_failures_fail_and_fixed_ones_are_named():
    fixed = run(*ADD, "--baseline", write("crash.json", run(*ADD, mutant="crash").json))
    assert fixed.status == 0 and fixed.by_id[WIDTH].get("fixed") is True, fixed
    assert "fixed since the baseline: 1\n  " + WIDTH in fixed.out, fixed
    good = write("good.json", run(*ADD).json)
    new = run(*ADD, "--baseline", good, mutant="crash")
    assert new.status == 1 and list(new.bad()) == [WIDTH] and "known" not in new.by_id[WIDTH], new


@test
def wrong_reports_are_refused():
    report = run(*ADD).json
    text = json.dumps(report)
    twice = {**report, "cases": report["cases"][:1] * 2}
    for option in ("--baseline", "--times"):
        for content, word in ((text[:len(text) // 2], "cut off"), ("", "an empty file"), ("[1]", "no object"),
                              (text + "x", "cut off"), ({"device": "cpu:0", "results": []}, "expected a report"),
                              ({**report, "cases": [{"id": "a"}]}, "has no id"), (twice, "the same id"),
                              ({**report, "format": 2}, "of format 1"), ({**report, "report": "bench"}, "of format 1"),
                              ({**report, "cases": [{"id": "a", "seconds": 0, "outcome": "good"}]}, "does not know")):
            result = run(*ADD, "--shard", "1/2", option, write("wrong.json", content))
            assert result.status == 2 and word in result.err and option in result.err, f"{word}\n{result}"
        result = run(*ADD, "--shard", "1/2", option, "/no/such/file")
        assert result.status == 2 and "No such file" in result.err, result
    assert run(*ADD, "--times", write("times.json", report)).status == 2, "without --shard"
    other = write("other.json", {**report, "device": "tpu:0"})
    assert "the baseline is of tpu:0" in run(*ADD, "--baseline", other).err


@test
def shards_by_time_are_equal_and_a_partition():
    everything = ids(*ADD)
    heavy = set(everything[:8])  # each takes as long as many others
    seconds = {case: 4.0 if case in heavy else 0.01 * (i % 7) for i, case in enumerate(everything)}
    unknown = set(everything[20:25])
    report = {"device": "x:0", "level": "none", "seed": 0,
              "cases": [{"id": c, "outcome": "pass", "seconds": s} for c, s in seconds.items() if c not in unknown]}
    times = write("times.json", report)
    parts = [ids(*ADD, "--shard", f"{i}/4", "--times", times) for i in range(1, 5)]
    assert sorted(sum(parts, [])) == sorted(everything), "no partition"
    assert parts == [ids(*ADD, "--shard", f"{i}/4", "--times", times) for i in range(1, 5)], "another division"
    mean = sum(s for c, s in seconds.items() if c not in unknown) / (len(everything) - len(unknown))
    loads = [sum(mean if c in unknown else seconds[c] for c in part) for part in parts]
    assert max(loads) - min(loads) < 0.1 * max(loads), loads
    assert [len(heavy & set(part)) for part in parts] == [2, 2, 2, 2]
    # One case takes longer than a third of all others: its part has only it.
    report["cases"] = [{"id": c, "outcome": "pass", "seconds": 0.004 * len(everything) if i == 3 else 0.01}
                       for i, c in enumerate(everything)]
    times = write("one.json", report)
    assert ids(*ADD, "--shard", "1/4", "--times", times) == [everything[3]]
    rest = [len(ids(*ADD, "--shard", f"{i}/4", "--times", times)) for i in (2, 3, 4)]
    assert sum(rest) == len(everything) - 1 and max(rest) - min(rest) <= 1, rest
    times = write("times.json", {**report, "cases": []})
    plain = [sum(seconds[c] for c in ids(*ADD, "--shard", f"{i}/4")) for i in range(1, 5)]
    assert ids(*ADD, "--shard", "2/4") == everything[1::4], f"shards without times have changed: {plain}"
    assert ids(*ADD, "--shard", "5000/5000", "--times", times, status=2) == []


def day(offset):
    return (datetime.datetime.now(datetime.timezone.utc).date() + datetime.timedelta(days=offset)).isoformat()


@test
def expectations_hold_until_their_date():
    for offset in (0, 1, 400):
        until = None
        while until != day(offset):  # again, if the day has ended meanwhile
            until = day(offset)
            result = run(*ADD, "--expect", write("e.txt", f"{WIDTH} xfail until={until} issue 12\n"), mutant="crash")
        assert result.status == 0 and "EXPIRED" not in result.out, result
        assert result.by_id[WIDTH]["message"].startswith("as expected: issue 12"), result
    # After the date the entry still holds, so that a case which hangs a machine is not run, and the run fails.
    for outcome in ("xfail", "skip"):
        until = day(-1)
        path = write("e.txt", f"# known\n{WIDTH} {outcome} until={until} issue 12\n")
        junit = os.path.join(WORK, "expired.xml")
        result = run(*ADD, "--expect", path, "--junit", junit, "--html", os.path.join(WORK, "expired.html"),
                     mutant="crash")
        assert result.status == 1 and not result.bad(), result
        assert f"EXPIRED {path}:2: {WIDTH} {outcome} was to hold until {until}" in result.out, result
        assert len(result.json["expired"]) == 1 and "issue 12" in result.json["expired"][0], result.json["expired"]
        root = xml.etree.ElementTree.parse(junit).getroot()
        assert root.get("failures") == "1" and root.find("testsuite[@name='expectations']/testcase/failure") is not None
        with open(os.path.join(WORK, "expired.html"), encoding="utf-8") as page:
            assert "was to hold until" in page.read()


@test
def wrong_dates_are_refused():
    for date in ("", "tomorrow", "2026-02-30", "2026-13-01", "26-01-01", "2026-1-1", "2026-01-01x", "+026-01-01"):
        result = run(*ADD, "--expect", write("e.txt", f"{WIDTH} xfail until={date} issue 12\n"))
        assert result.status == 2 and f"until=YYYY-MM-DD with a day that exists, got 'until={date}'" in result.err, f"{date}\n{result}"
        assert "e.txt:1:" in result.err, result
    result = run(*ADD, "--expect", write("e.txt", f"{WIDTH} xfail until=2999-01-01\n"))
    assert result.status == 2 and "has no reason" in result.err, result


@test
def entries_that_are_not_used_are_named():
    path = write("e.txt", f"{WIDTH} xfail issue 12\nkernel/add/f32/broadcast-both/7x1x33* xfail issue 13\n"
                 "kernel/add/f32/rank5/* unsupported issue 14\nkernel/softmax/* skip issue 15\n")
    result = run("--filter", WIDTH, "--expect", path, mutant="crash")
    assert result.status == 0, result
    assert f"{path}:2: kernel/add/f32/broadcast-both/7x1x33* xfail is not used" in result.err, result
    assert ":1:" not in result.err and ":3:" not in result.err and ":4:" not in result.err, "of cases that did not run"


if __name__ == "__main__":
    main()
