#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests `bp conform`: selection, expectations, levels, reports, exit status.

    options.py BUILD BP MUTANT MUTANT_EXTRA
"""
import fnmatch
import functools
import glob
import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree

from kit import BP, WORK, Run, main, test

MUTANT = os.path.abspath(sys.argv[3])
WIDTH = "kernel/add/f32/broadcast-both/7x1x33+4x1@mutant_add_f32"
# The suites that decide on levels, without collectives, which take longer than all others together.
LEVELS = ("--suite", "plugin,runtime,memory,kernel")
ADD = ("--filter", "kernel/add/*")


def run(*args, mutant="none", **more):
    return Run(MUTANT, *args, env={"BP_FAKE": "mutant=" + mutant}, **more)


def ids(*args, status=0):
    result = run("--list", *args, report=False)
    assert result.status == status, result
    return result.out.split("\n")[:-1]


def write(name, text):
    os.makedirs(WORK, exist_ok=True)
    path = os.path.join(WORK, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


@test
def ids_are_unique_and_select_themselves():
    all_ids = ids()
    twice = sorted({i for i in all_ids if all_ids.count(i) > 1})
    assert len(all_ids) > 450 and not twice, f"{len(all_ids)} ids, not unique: {twice}"
    for case in all_ids[::971]:
        assert ids("--filter", case) == [case], case
    assert not any(set(case) & set("*?[]'\" ") for case in all_ids), "an id has a letter that globs or shells take"


@test
def drawn_extents_are_those_of_the_seed():
    """Another seed gives other ids, and an id selects its case again only with the seed from which it came."""
    of_seed = [ids("--filter", "kernel/*drawn/*", "--seed", seed) for seed in ("1", "2")]
    for family in ("add", "softmax", "sum", "scale", "sgd", "nonzero"):
        mine, other = ([case for case in some if case.startswith(f"kernel/{family}/")] for some in of_seed)
        assert mine and other and set(mine) != set(other), f"{family}: {mine}, {other}"
    case = next(i for i in of_seed[0] if i not in of_seed[1] and i.startswith("kernel/scale/"))
    assert ids("--filter", case, "--seed", "1") == [case] and ids("--filter", case, "--seed", "2", status=2) == [], case
    again = run("--filter", case, "--seed", "1")
    assert again.status == 0 and list(again.by_id) == [case], again


@test
def every_family_and_shape_is_there():
    all_ids = ids("--suite", "kernel")
    for part in ["/empty", "/scalar/", "/one/", "/prime/", "broadcast-left", "broadcast-right", "permuted", "offset",
                 "rank5", "rank8", "inplace", "nonfinite", "width/15", "width/16", "width/17", "repeat", "gaps"]:
        assert any(part in case for case in all_ids), part


@test
def suites_filters_and_quick_select():
    everything = ids()
    assert {case.split("/")[0] for case in everything} == \
        {"plugin", "runtime", "memory", "kernel", "gradient", "ccl"}
    assert {case.split("/")[0] for case in ids("--suite", "plugin,memory")} == {"plugin", "memory"}
    for filters in (["plugin/*", "runtime/stream/*"], ["kernel/add/*", "gradient/mean*"], ["kernel/a*"], ["*/add/*"],
                    ["ccl/*", "kernel/sum[/m]*"], ["kernel/add"], ["k[e]rnel/*@none", "kernel/softmax/f32/*"], ["*"],
                    ["!kernel/*"], ["memory/*", "!memory/r*", "!*/tensor/*"], ["!*"], ["!kernel/add", "kernel/ad*"]):
        out = [f[1:] for f in filters if f.startswith("!")]
        wanted = [f for f in filters if not f.startswith("!")] or ["*"]
        fit = [c for c in everything if any(fnmatch.fnmatchcase(c, f) for f in wanted)
               and not any(fnmatch.fnmatchcase(c, f) for f in out)]
        assert ids(*(f"--filter={f}" for f in filters), status=0 if fit else 2) == fit, filters
    quick = ids("--quick")
    assert 0 < len(quick) < len(everything) and set(quick) < set(everything)


@test
def shards_are_a_partition():
    everything = ids()
    shards = [ids("--shard", f"{i}/4") for i in range(1, 5)]
    assert sorted(sum(shards, [])) == sorted(everything)
    assert max(map(len, shards)) <= min(map(len, shards)) + 1, list(map(len, shards))


@test
def a_shard_that_cannot_run_cases_of_a_row_is_good():
    skipped = ids(*ADD)[::5]
    path = write("expect.txt", "".join(f"{case} skip not now; issue 17\n" for case in skipped))
    part = run(*ADD, "--expect", path, "--shard", "1/5")
    assert part.status == 0 and part.json["totals"]["skip"] == len(skipped), part
    assert run(*ADD, "--expect", path, "--shard", "2/5", mutant="unwritten").status == 1


@test
def wrong_use_is_refused():
    for args in [["--suite", "kernels"], ["--shard", "0/4"], ["--shard", "5/4"], ["--shard", "x"], ["--require", "all"],
                 ["-j0"], ["-jx"], ["-k2"], ["--isolate", "thread"], ["--seed", "-1"], ["--jobs", "0.5"], ["--jobs", "0"],
                 ["--filter", "no/such/case"],
                 ["--expect", "/no/such/file"]]:
        result = run(*args)
        assert result.status == 2, f"{args}\n{result}"
        assert result.err.startswith("bp conform: ") and not result.json, f"{args}\n{result}"


@test
def a_letter_takes_its_value_beside_it_or_next():
    for args in (["-j", "2"], ["-j2"], ["--jobs", "2"], ["--jobs=2"]):
        result = run("--filter", "plugin/*", *args)
        assert result.status == 0, f"{args}\n{result}"


@test
def no_device():
    for device in ["nodevice", "nodevice:3", os.path.join(WORK, "absent.so"), "./absent.so"]:
        result = Run(device)
        assert result.status == 3 and result.err, f"{device}\n{result}"
        assert (f"{device}: no such file" in result.err) == ("/" in device), f"{device}\n{result}"


@test
def seed_decides_the_inputs():
    first = run("--filter", "kernel/softmax/f32/axis1/1x4096@*").by_id
    again = run("--filter", "kernel/softmax/f32/axis1/1x4096@*").by_id
    other = run("--filter", "kernel/softmax/f32/axis1/1x4096@*", "--seed", "7").by_id
    worst = [next(iter(r.values()))["worst"] for r in (first, again, other)]
    assert worst[0] == worst[1] != worst[2], worst


@functools.cache
def whole():
    """A run of all suites that decide on levels, which takes seconds."""
    return run("--require", "inference", *LEVELS, "--html", os.path.join(WORK, "missing.html"))


@functools.cache
def quick():
    return run("--quick", "--require", "runtime", *LEVELS, "--html", os.path.join(WORK, "quick.html"))


@functools.cache
def without_kernels():
    return run("--suite", "plugin,runtime,memory", "--require", "runtime")


@test
def level_needs_all():
    core = whole()
    assert core.status == 1 and core.json["level"] == "core", core
    part = quick()
    assert part.status == 1 and part.json["level"] == "none", part
    runtime = without_kernels()
    assert runtime.status == 0 and runtime.json["level"] == "runtime", runtime


@test
def missing_operators_are_listed():
    """All that a level lacks is listed: those first that most models use, an operator with some rows marked."""
    core = whole()
    missing = core.json["missing_operators"]
    names = {level: [m["op"] for m in missing if m["level"] == level] for level in ("inference", "training")}
    assert len(names["inference"]) > 100 and len(missing) == len({m["op"] for m in missing}), missing
    assert {"conv", "matmul", "relu"} <= set(names["inference"]) and {"adamw", "rmsprop"} <= set(names["training"]), names
    assert not {"add", "softmax", "sgd"} & {m["op"] for m in missing}, "these run"
    models = [m["models"] for m in missing if m["level"] == "inference"]
    assert models == sorted(models, reverse=True) and models[0] > 50, models
    text = core.out[core.out.index("missing operators by level"):core.out.index("kernel rows executed")]
    assert len(text.splitlines()) > 20 and all(len(line) <= 100 for line in text.splitlines()), text
    assert [re.split(r"[* ]", w.strip())[0] for part in re.split(r"\n  (?:inference|training)", text)[1:] for w in part.split(",")] \
        == names["inference"] + names["training"], text
    part = {m["op"]: m["in_part"] for m in missing}
    assert not part["relu"] and any(part.values()), part
    with open(os.path.join(WORK, "missing.html"), encoding="utf-8") as file:
        assert ", matmul 23" in file.read()
    assert f"operators that are missing: {len(names['inference'])})" in core.out, core
    assert not quick().json["missing_operators"], "a part of the cases says nothing of operators"


@test
def level_of_a_part_is_not_judged():
    page = os.path.join(WORK, "part.html")
    for args in (["--quick", *LEVELS], ["--shard", "1/40"], ADD, ["--suite", "plugin,runtime"]):
        part = run(*args, "--html", page)
        assert part.status == 0 and part.json["level"] == "none", part
        assert part.out.endswith("level not judged (only a part was run)\n"), part
        with open(page, encoding="utf-8") as file:
            assert "level not judged<" in file.read(), args
    assert "level not judged" not in without_kernels().out
    failed = run("--suite", "plugin,runtime,memory", mutant="nameless")
    assert failed.status == 1 and "level none (for runtime all of suite runtime" in failed.out, failed


@test
def filtered_cases_deny_the_level():
    part = run("--filter", "[prm]*", "--filter", "kernel/add/*", "--require", "runtime")
    assert part.status == 0 and part.json["level"] == "runtime", part
    assert {i.split("/")[1] for i in part.by_id if i.startswith("kernel/")} == {"add"}, part


@test
def expectations_of_cases_that_a_filter_leaves_out():
    path = write("expect.txt", "kernel/softmax/* xfail one day; issue 16\n")
    assert run(*ADD, "--expect", path).status == 0
    assert run(*ADD, "--expect", path, "--isolate", "none").status == 0


@test
def a_broken_row_is_shown_by_three_cases_and_a_line():
    result = run(*ADD, mutant="unwritten")
    bad, cases = len(result.bad()), sum(i.startswith("kernel/add/") for i in result.by_id)
    assert bad > 30 and result.out.count("\nfail  ") == 3, result
    assert f"\nmutant_add_f32: {bad} of {cases} cases fail; {bad - 3} more are in --json\n" in result.out, result
    assert "  add                f32 over\n" in result.out and "1e+300" not in result.out, result


@test
def a_whole_broken_row_is_expected_without_its_empty_cases():
    path = write("expect.txt", "kernel/add/f32/[!e]* xfail the last element is lost; issue 15\n")
    result = run(*ADD, "--expect", path, mutant="unwritten")
    assert result.status == 0 and result.json["totals"]["xfail"] > 30, result
    path = write("expect.txt", "kernel/add/f32/* xfail the last element is lost; issue 15\n")
    result = run(*ADD, "--expect", path, mutant="unwritten")
    assert result.status == 1 and result.json["totals"]["xpass"] == 3, result
    shapes = ids("--filter", "kernel/softmax/f32/*/[1-9]*[1-9]@*")
    assert len(shapes) > 5 and not any("0x5" in i or "5x0" in i for i in shapes), shapes


@test
def expected_failure():
    path = write("expect.txt", f"# known\n{WIDTH} xfail the vector loop; issue 12\n")
    result = run(*ADD, "--expect", path, mutant="crash")
    assert result.status == 0 and result.by_id[WIDTH]["outcome"] == "xfail", result
    assert "issue 12" in result.by_id[WIDTH]["message"]


@test
def expected_failure_denies_the_level():
    path = write("expect.txt", f"{WIDTH} xfail the vector loop; issue 12\n")
    result = run("--expect", path, *LEVELS, mutant="crash")
    assert result.status == 0 and result.json["level"] == "runtime", result


@test
def unexpected_pass_fails():
    path = write("expect.txt", f"{WIDTH} xfail the vector loop; issue 12\n")
    result = run(*ADD, "--expect", path)
    assert result.status == 1 and result.by_id[WIDTH]["outcome"] == "xpass", result


@test
def expected_skip_does_not_run():
    path = write("expect.txt", f"{WIDTH} skip it hangs the machine; issue 13\n")
    result = run(*ADD, "--expect", path, mutant="crash")
    assert result.status == 0 and result.by_id[WIDTH]["outcome"] == "skip", result


@test
def unsupported_hides_no_wrong_result():
    path = write("expect.txt", "kernel/add/f32/* unsupported only small ranks; issue 14\n")
    result = run(*ADD, "--expect", path, mutant="last")
    assert result.status == 1 and result.by_id[WIDTH]["outcome"] == "fail", result
    path = write("expect.txt", "kernel/add/f32/rank5/* unsupported only small ranks; issue 14\n")
    result = run(*ADD, "--expect", path, mutant="refuses")
    assert result.status == 0 and result.json["totals"]["unsupported"] >= 1, result


@test
def bad_expectations_are_refused():
    for text, say in [(f"{WIDTH} xfail\n", "has no reason"), (f"{WIDTH} xfail   \n", "has no reason"),
                      (f"{WIDTH} ignore because\n", "expected PATTERN"), (f"{WIDTH}\n", "expected PATTERN"),
                      ("kernel/ad/* xfail a reason\n", "fits no case")]:
        result = run("--suite", "kernel", "--expect", write("expect.txt", text))
        assert result.status == 2 and say in result.err and "expect.txt:1:" in result.err, f"{text}\n{result}"


@test
def failures_show_how_to_repeat_them():
    result = run(*ADD, mutant="last")
    case = "kernel/add/f32/one/1+1@mutant_add_f32"
    assert f"bp conform {MUTANT} --filter '{case}'" in result.out, result
    assert "worst at [0] (element 0 of 1)" in result.by_id[case]["message"], result.by_id[case]
    assert "ulp where 0.5 are allowed" in result.by_id[case]["message"], result.by_id[case]


@test
def json_has_its_shape():
    report = run("--filter", "kernel/softmax/*").json
    assert set(report) >= {"device", "level", "seed", "machine", "totals", "rows", "cases"}, report.keys()
    assert set(report["totals"]) == {"pass", "fail", "crash", "timeout", "unsupported", "skip", "xfail", "xpass"}
    assert report["device"] == "mutant:0" and report["rows"] == {"executed": 1, "total": 1}
    assert all(set(c) >= {"id", "outcome", "seconds", "message"} for c in report["cases"])
    assert sum(report["totals"].values()) == len(report["cases"]) > 10


@test
def json_to_standard_output_is_alone():
    result = run("--filter", "kernel/softmax/*", "--json", "-", report=False)
    assert result.status == 0 and json.loads(result.out)["device"] == "mutant:0", result


@test
def junit_is_valid():
    path = os.path.join(WORK, "report.xml")
    result = run("--filter", "plugin/*", *ADD, "--junit", path, mutant="prints")
    root = xml.etree.ElementTree.parse(path).getroot()
    cases = root.findall(".//testcase")
    assert len(cases) == len(result.by_id) == int(root.get("tests"))
    assert len(root.findall(".//failure")) == int(root.get("failures")) == result.json["totals"]["fail"] == 1
    assert len(root.findall(".//skipped")) == int(root.get("skipped"))


class Page(html.parser.HTMLParser):
    VOID = {"meta", "br", "img", "link"}

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.text = [], [], ""

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data):
        self.text += data


@test
def html_is_one_sound_page():
    path = os.path.join(WORK, "report.html")
    run("--html", path, *ADD, mutant="last")
    page = Page()
    with open(path, encoding="utf-8") as file:
        text = file.read()
    page.feed(text)
    assert not page.open, page.open
    assert not any(t in ("script", "link", "img") or "src" in a or "href" in a for t, a in page.seen), "not self-contained"
    assert "url(" not in text and "@import" not in text
    assert "failed" in page.text and "mutant_add_f32" in page.text and "kernel/add/f32/one/1+1" in page.text
    assert any(t == "svg" for t, _ in page.seen)


@test
def a_note_is_in_every_report():
    note = 'on the stand-in <for> "tests"'
    files = {end: os.path.join(WORK, f"note.{end}") for end in ("xml", "html")}
    result = run("--filter", "plugin/pure", "--note", note, "--junit", files["xml"], "--html", files["html"])
    root = xml.etree.ElementTree.parse(files["xml"]).getroot()
    assert {p.get("value") for p in root.findall("testsuite/properties/property[@name='note']")} == {note}
    page = Page()
    with open(files["html"], encoding="utf-8") as file:
        page.feed(file.read())
    assert note in page.text and not page.open
    assert result.json["note"] == note and note in result.out, result
    assert "note" not in run("--filter", "plugin/pure").json


@test
def dump_writes_arrays():
    folder = os.path.join(WORK, "dump")
    shutil.rmtree(folder, ignore_errors=True)
    run("--filter", "kernel/add/f32/broadcast-left/1x5+7x5@*", "--dump", folder, mutant="last")
    files = {os.path.basename(f).rsplit(".", 2)[1]: f for f in glob.glob(folder + "/*.npy")}
    assert set(files) == {"in0", "in1", "expected", "got"}, files
    for name, shape in [("in0", "(1,5,)"), ("in1", "(7,5,)"), ("expected", "(7,5,)"), ("got", "(7,5,)")]:
        with open(files[name], "rb") as file:
            data = file.read()
        assert data[:8] == b"\x93NUMPY\x01\x00"
        length = int.from_bytes(data[8:10], "little")
        header = data[10:10 + length].decode()
        assert (10 + length) % 64 == 0 and f"'shape': {shape}" in header and "'<f4'" in header, header
        count = 1
        for extent in shape.strip("(,)").split(","):
            count *= int(extent)
        assert len(data) - 10 - length == 4 * count


@test
def unwritable_report_is_said():
    result = run("--filter", "plugin/pure", "--html", "/no/such/folder/report.html")
    assert result.status == 4 and "/no/such/folder" in result.err, result


@test
def in_one_process_the_results_are_the_same():
    alone = run("--filter", "kernel/[ab]*", "--isolate", "none")
    apart = run("--filter", "kernel/[ab]*")
    assert alone.status == 0 and {i: c["outcome"] for i, c in alone.by_id.items()} == \
        {i: c["outcome"] for i, c in apart.by_id.items()}


@test
def relative_path():
    result = subprocess.run([BP, "conform", "./" + os.path.basename(MUTANT), "--filter", "kernel/softmax/*"],
                            cwd=os.path.dirname(MUTANT), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert result.returncode == 0 and "mutant:0" in result.stdout, result


@test
def child_mode_is_for_bp_itself():
    result = subprocess.run([BP, "conform", "--child"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert result.returncode == 2, result


main()
