#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests what `bp` says of add-ons: how list, doctor, info, ops and manifest show them, and that a crash of one is not
reported as a crash of its owner.

    addons.py ROOT BUILD BP ACTOR

Prints TAP.
"""
import json
import os
import sys

from commands import BUILD, WORK, bp, expect, expect_status, run, set_up

ADDONS = os.path.join(BUILD, "tests", "plugins", "addons")
TESTS = []


def test(function):
    TESTS.append(function)
    return function


def path_of(*names):
    return ":".join(os.path.join(ADDONS, f"bp_{name}.json") for name in names)


def of_cpu(*args, addons=("a_good",), status=0):
    """Runs bp with the cpu plugin and these add-ons."""
    return expect_status(bp(*args, path=path_of(*addons), plugins=",".join(("cpu",) + addons)), status)


@test
def list_shows_what_an_add_on_adds_to():
    plugins = {p["name"]: p for p in of_cpu("list", "--probe", "--json").json()["plugins"]}
    addon = plugins["a_good"]
    expect((addon["kind"], addon["adds_to"], addon["state"], addon["devices"]) == ("", "cpu", "ready", 0), f"{addon}")
    expect("adds_to" not in plugins["cpu"] and plugins["cpu"]["state"] == "ready", f"{plugins['cpu']}")
    result = of_cpu("list")
    expect(["a_good", "cpu", "1.2.3", "unprobed", "add-on"] in [line.split() for line in result.out.splitlines()],
           "no line", result)


@test
def info_and_ops_name_the_add_on():
    info = of_cpu("info", "cpu", "--json").json()
    expect(info["addons"] == [{"name": "a_good", "version": "1.2.3", "state": "ready", "reason": "", "rows": 4, "usable": 3}],
           f"{info['addons']}")
    expect({"name": "a_good_never", "reason": "needs a coprocessor"} in info["kernels"]["unusable"], "the reason")
    result = of_cpu("info", "cpu")
    expect(["a_good", "ready", "4", "3"] in [line.split() for line in result.out.splitlines()], "no line", result)
    ops = {op["name"]: op for op in of_cpu("ops", "--device", "cpu", "--json").json()["ops"]}
    expect(ops["acme.Cut"]["kernels"]["addon"] == ops["relu"]["kernels"]["addon"] == "a_good", f"{ops['relu']}")
    expect("addon" not in ops["add"]["kernels"], f"{ops['add']}")
    expect(ops["acme.Cut"]["gradient"], f"{ops['acme.Cut']}")
    expect("1 of the rows: add-on a_good" in of_cpu("ops", "--device", "cpu").out, "no note")


@test
def info_has_no_add_ons_without_one():
    addons = of_cpu("info", "cpu", "--json", addons=()).json()["addons"]
    expect(addons == [], f"{addons}")
    expect("ADD-ON" not in of_cpu("info", "cpu", addons=()).out, "a table of add-ons")


@test
def doctor_loads_each_alone():
    """The add-on ends the process in create: it is broken there, and its owner and another add-on are ready."""
    result = of_cpu("doctor", "--json", addons=("a_good", "a_crash"), status=1)
    plugins = {p["name"]: p for p in result.json()["plugins"]}
    expect({n: p["state"] for n, p in plugins.items()} == {"a_good": "ready", "a_crash": "broken", "cpu": "ready"},
           f"{plugins}")
    last = [s["step"] for s in plugins["a_crash"]["steps"] if s["outcome"] == "failed"]
    expect(last == ["create"], f"{plugins['a_crash']}")
    result = of_cpu("doctor", "cpu", addons=("a_good",))
    expect("an add-on to cpu" in result.out and "2 ready" in result.out, "add-ons of a kind", result)


@test
def doctor_states_both_types_of_streams():
    result = of_cpu("doctor", "a_other_stream", addons=("a_other_stream",), status=1)
    text = " ".join(result.out.split())
    expect('expected "cpu/1", got "cpu/0"' in text, "both types", result)


@test
def info_states_why_an_add_on_is_left_out():
    states = {a["name"]: a["state"] for a in of_cpu("info", "cpu", "--json", addons=("a_good", "a_twin")).json()["addons"]}
    expect(states == {"a_good": "ready", "a_twin": "broken"}, f"{states}")
    result = of_cpu("info", "cpu", addons=("a_good", "a_twin"))
    expect("has the name of a row of plugin cpu" in " ".join(result.out.split()), "no reason", result)


@test
def conform_compares_rows_with_the_decomposition():
    """The row of the second add-on is wrong for f64, by a factor, and right for i64."""
    words = ("conform", "cpu", "--filter", "kernel/acme.*", "--json", "-")
    report = of_cpu(*words).json()
    expect(report["totals"]["pass"] == 16 and report["totals"]["fail"] == 0, f"{report['totals']}")
    report = of_cpu(*words, addons=("a_wrong",), status=1).json()
    failed = sorted(case["id"] for case in report["cases"] if case["outcome"] == "fail")
    expect(failed == [f"kernel/acme.Twice/f64/{n}@a_wrong_twice" for n in (0, 1, 2, 3, 5, 6, 7)], f"{failed}")


@test
def manifest_has_adds_to_in_place_of_kind():
    manifest = expect_status(bp("manifest", os.path.join(ADDONS, "bp_a_good.so"), "--json"), 0).json()
    with open(os.path.join(ADDONS, "bp_a_good.json"), encoding="utf-8") as f:
        expect(manifest == json.load(f), f"{manifest}")
    result = bp("manifest", os.path.join(ADDONS, "bp_a_kind.so"), "--json")
    expect(result.status != 0 and "both kind and adds_to" in result.err, "a table with both", result)


@test
def manifests_with_wrong_keys():
    with open(os.path.join(ADDONS, "bp_a_good.json"), encoding="utf-8") as f:
        good = json.load(f)
    for change, words in (({"kind": "cpu"}, "the keys kind and adds_to exclude each other"),
                          ({"adds_to": None}, "the key adds_to is wrong"), ({"adds_to": "A"}, "the key adds_to is wrong")):
        path = os.path.join(WORK, "bp_a_good.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump({**good, **change}, f)
        result = bp("doctor", "a_good", path=path, plugins="a_good")
        expect(result.status == 1 and words in " ".join(result.out.split()), f"{change}", result)


if __name__ == "__main__":
    set_up()
    sys.exit(run(TESTS))
