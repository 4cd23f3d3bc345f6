#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests `./dev conform`: by a command bp that a test makes, with and without a card, and by the real one on the stand-ins.

    test_conform.py ROOT BUILD
"""
import html.parser
import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

ROOT, BUILD = (os.path.abspath(p) for p in sys.argv[1:3])
sys.path.append(os.path.join(ROOT, "tests", "targets"))
import conform  # noqa: E402
import standin  # noqa: E402
from kinds import KINDS  # noqa: E402

CONFORM = os.path.join(ROOT, "tests", "targets", "conform.py")
REFUSAL = 'stand-in: <libvendor.so> "twice"'
TESTS = []

# A command bp: `list` and `info` know a card if $CARD is set and no setting names a stand-in, `conform` writes reports, and
# a stand-in refuses $REFUSALS.
BP = f"""#!{sys.executable}
import json, os, sys
words = sys.argv[1:]
REASON = 'a/bp_x.so: create finds nothing to drive: expected a device, got "no driver (no libx.so in /a)"; install the driver'
if words[0] == "list":
    stands = any("tests/gpu/standin" in v for v in os.environ.values()) or "BP_STANDIN_LOG" in os.environ
    ready = "CARD" in os.environ or stands
    print(json.dumps({{"plugins": [{{"name": os.environ["BP_PLUGINS"], "kind": "any", "state": "ready" if ready else "absent",
                                    "devices": 1, "reason": "" if ready else REASON}}]}}))
elif words[0] == "info":
    print(json.dumps({{"name": "Card 9", "driver": "driver 7"}}))
else:
    option = dict(zip(words[2::2], words[3::2]))
    note = option["--note"]
    with open(option["--json"], "w") as f:
        json.dump({{"note": note, "words": words, "path": os.environ.get("LD_LIBRARY_PATH", ""), "env": dict(os.environ)}}, f)
    with open(option["--junit"], "w") as f:
        f.write('<testsuites name="bp" tests="1" failures="0" errors="0" skipped="0"><testsuite name="kernel"/></testsuites>')
    with open(option["--html"], "w") as f:
        f.write('<html><body>\\n<h1>Conformance of x</h1>\\n<p><span class="verdict good">passed</span></p></body></html>')
    if "REFUSALS" in os.environ and "BP_STANDIN_LOG" in os.environ:
        with open(os.environ["BP_STANDIN_LOG"], "a") as f:
            f.write(2 * (os.environ["REFUSALS"] + "\\n"))
    sys.exit(int(os.environ.get("STATUS", "0")))
"""


def test(function):
    TESTS.append(function)
    return function


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.text = ""
        with open(path, encoding="utf-8") as f:
            self.feed(f.read())

    def handle_data(self, data):
        self.text += data


def made_build(folder, *kinds):
    """A build directory that has all that runs of some kinds need."""
    files = {"sdk/tools/bp": BP}
    for kind in kinds:
        files |= dict.fromkeys((standin.plugin(kind), *(t for t in KINDS[kind].targets if not t.endswith("/"))), "")
    for name, text in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
    os.chmod(os.path.join(folder, "sdk/tools/bp"), 0o755)
    return folder


class Run:
    """One run of conform.py; report, junit and page: what it left, or None."""

    def __init__(self, build, kind, *words, **env):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("BP_", "LD_LIBRARY_PATH"))}
        done = subprocess.run([sys.executable, CONFORM, build, kind, "--no-build", *words], env={**clean, **env}, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        self.status, self.out, self.err = done.returncode, done.stdout, done.stderr
        self.first = self.out.partition("\n")[0]
        at = os.path.join(build, "conform", kind)
        self.report = self.junit = self.page = None
        if os.path.exists(os.path.join(at, "report.json")):
            with open(os.path.join(at, "report.json"), encoding="utf-8") as f:
                self.report = json.load(f)
            self.junit = xml.etree.ElementTree.parse(os.path.join(at, "junit.xml")).getroot()
            self.page = Page(os.path.join(at, "report.html")).text

    def __str__(self):
        return f"exit status {self.status}\n{self.out}\n{self.err}"


def fake(kind, *words, **env):
    with tempfile.TemporaryDirectory() as folder:
        return Run(made_build(folder, kind), kind, *words, **env)


@test
def without_a_card_the_stand_in_runs_and_the_reports_say_so():
    r = fake("cuda", "--quick")
    assert r.status == 0 and r.first == f"cuda: on a stand-in: {KINDS['cuda'].standin}; no card: no driver", r
    assert r.report["note"] == r.first.removeprefix("cuda: ") and "--quick" in r.report["words"], r.report
    assert "tests/gpu/standin" in r.report["path"] and r.report["env"]["BP_SIM_DEVICES"] == "2"
    assert r.report["env"]["BP_CUDA_CUDNN"].endswith("plugins/simulator/libbp_sim_cudnn.so") and r.report["env"]["BP_CUDA_NVRTC"] == "off"
    case, = r.junit.findall("testsuite[@name='stand-in']/testcase")
    assert case.get("name") == conform.CASE and not list(case) and r.junit.get("tests") == "2" and r.junit.get("failures") == "0"


@test
def the_reason_is_short():
    for text, wanted in (('a: create finds nothing: expected a device, got "npu: no liba.so, libb.so among the libraries of the '
                          'process or in $HOME/lib"; install the driver', "npu: no liba.so, libb.so"),
                         ("no /dev/card0", "no /dev/card0"), ("x: no liba.so in LD_LIBRARY_PATH or in $X", "x: no liba.so"), ("x: no liba.so in /opt/x/lib", "x: no liba.so")):
        assert conform.short(text) == wanted, conform.short(text)


@test
def a_setting_of_the_caller_is_kept():
    assert fake("cuda", BP_CUDA_NVRTC="/a/library").report["env"]["BP_CUDA_NVRTC"] == "/a/library"


@test
def with_a_card_the_card_runs():
    r = fake("cuda", CARD="1")
    assert r.status == 0 and r.first == "cuda: on the card: Card 9, driver 7", r
    assert r.report["note"] == "on the card: Card 9, driver 7" and "standin" not in r.report["path"]
    assert not r.junit.findall("testsuite[@name='stand-in']")


@test
def stand_ins_of_the_callers_environment_are_no_card():
    with tempfile.TemporaryDirectory() as folder:
        build = made_build(folder, "cuda")
        stands = os.path.join(build, "tests/gpu/standin")
        r = Run(build, "cuda", LD_LIBRARY_PATH=stands + ":/usr/lib/other", BP_SIM_DEVICES="2", BP_STANDIN_LOG=os.path.join(folder, "log"),
                BP_CUDA_DRIVER=os.path.join(stands, "libcuda.so.1"))
        assert "no card: no driver" in r.first and r.report["path"].endswith(":/usr/lib/other"), r


@test
def the_place_can_be_chosen():
    r = fake("cuda", "--standin", CARD="1")
    assert r.first.startswith("cuda: on a stand-in") and r.first.endswith("no card: not looked for"), r
    r = fake("cuda", "--card")
    assert r.status == 3 and "no card (a GPU of NVIDIA): no driver" in r.err and r.report is None, r
    r = fake("cuda", "--card", "--standin")
    assert r.status == 2 and "one of" in r.err, r


@test
def a_call_that_the_stand_in_refused_fails_the_run_and_every_report():
    r = fake("hip", REFUSALS=REFUSAL)
    assert r.status == 1 and r.err.count(REFUSAL) == 1, r
    case, = r.junit.findall("testsuite[@name='stand-in']/testcase")
    assert case.find("failure").get("message") == REFUSAL and r.junit.get("failures") == "1" and r.junit.get("tests") == "2"
    assert REFUSAL in r.page and "the stand-in refused calls" in r.page


@test
def a_failure_of_the_suite_is_the_exit_status():
    assert fake("hip", STATUS="1").status == 1 and fake("hip", STATUS="4", REFUSALS=REFUSAL).status == 4
    assert fake("cuda", CARD="1", STATUS="1").status == 1


@test
def reports_of_an_earlier_run_do_not_stay():
    with tempfile.TemporaryDirectory() as folder:
        build = made_build(folder, "hip")
        assert Run(build, "hip").report
        with open(os.path.join(build, "sdk/tools/bp"), "w", encoding="utf-8") as f:
            f.write(BP.replace('    option = dict', '    sys.exit(4)\n    option = dict'))
        r = Run(build, "hip")
        assert r.status == 4 and r.report is None and "reports:" not in r.out, r


@test
def a_kind_without_a_stand_in_needs_the_device():
    assert fake("cpu", CARD="1").status == 0
    r = fake("cpu")
    assert r.status == 3 and "no driver" in r.err, r


@test
def a_stand_in_that_is_not_there_is_named():
    with tempfile.TemporaryDirectory() as folder:
        build = made_build(folder, "cuda")
        os.unlink(os.path.join(build, "tests/gpu/standin/libcuda.so.1"))
        r = Run(build, "cuda")
        assert r.status == 2 and "tests/gpu/standin/libcuda.so.1" in r.err, r


@test
def unknown_kinds_are_refused_with_the_list():
    for words in (["gpu"], []):
        done = subprocess.run([sys.executable, CONFORM, BUILD, *words], text=True, capture_output=True, check=False)
        assert done.returncode == 2 and all(kind in done.stderr for kind in KINDS), done


@test
def a_kind_whose_plugin_is_not_in_the_tree_is_refused():
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(os.path.join(folder, "plugins", "cpu"))
        conform.check_kind("cpu", folder)
        for kind in KINDS.keys() - {"cpu"}:
            try:
                conform.check_kind(kind, folder)
            except conform.Stop as stop:
                assert stop.args == (2, f"the plugin {kind} is not in this tree: there is no folder plugins/{kind}"), stop.args
            else:
                raise AssertionError(f"{kind} is taken")


@test
def the_targets_are_those_of_the_kind():
    folder, ends = "tests/standins/cann/v8/", ("libascendcl.so", "libopapi.so", "libhccl.so")
    known = {standin.manifest(k) for k in KINDS} | {"sdk/tools/bp", folder + "libascendcl.so.p/a.symbols", "tests/standins/cann/v7/libascendcl.so",
                                                         folder + "few/libascendcl.so"}
    known |= {folder + end for end in ends} | set(KINDS["cuda"].targets)
    assert conform.targets_of("cpu", known) == [standin.manifest("cpu"), "sdk/tools/bp"]
    assert conform.targets_of("npu", known)[2:] == sorted(folder + end for end in ends)
    assert set(conform.targets_of("cuda", known)[2:]) == set(KINDS["cuda"].targets)
    for lacking, text in ((standin.manifest("cuda"), "it needs nvcc"), (KINDS["cuda"].targets[0], "libcuda.so.1")):
        try:
            conform.targets_of("cuda", known - {lacking})
        except conform.Stop as stop:
            assert stop.args[0] == 2 and text in stop.args[1], stop.args
        else:
            raise AssertionError(f"without {lacking}")


@test
def the_help_names_every_kind():
    with open(os.path.join(ROOT, "dev"), encoding="utf-8") as f:
        text = re.search(r"^\./dev conform .*(?:\n {10}.*)*", f.read(), re.M)[0]
    assert re.findall(r"\b(?:%s)\b" % "|".join(KINDS), text) == list(KINDS), text


@test
def plugins_of_this_build_run_where_the_table_says():
    """A few cases on each kind that is built. The reports of the developer's own runs stay as they are."""
    known, ran = conform.outputs(BUILD), []
    for kind in KINDS:
        if standin.manifest(kind) not in known or standin.missing(BUILD, kind):
            continue
        link = os.path.join(BUILD, "tests", "targets", "work", kind)
        os.makedirs(os.path.join(link, "conform"), exist_ok=True)
        for name in ("sdk", "core", "plugins", "tests"):
            if not os.path.lexists(os.path.join(link, name)):
                os.symlink(os.path.join(BUILD, name), os.path.join(link, name))
        # No card, so that the test is the same on every machine.
        r = Run(link, kind, *([] if kind == "cpu" else ["--standin"]), "--quick", "--filter", "runtime/event/*", "--filter", "memory/roundtrip/*")
        place = "card" if kind == "cpu" else "stand-in"
        assert r.status == 0 and f" on {'the' if kind == 'cpu' else 'a'} {place}: " in r.first, r
        assert r.report["note"] in r.first and sum(c["outcome"] == "pass" for c in r.report["cases"]) > 2, (r.report["totals"], str(r))
        assert len(r.junit.findall("testsuite/properties/property[@name='note']")) > 0 and r.report["note"] in r.page
        assert bool(r.junit.findall("testsuite[@name='stand-in']")) == (kind != "cpu")
        ran.append(kind)
    assert "cpu" in ran, ran
    print("#", *ran)


def main():
    failed = 0
    print(f"1..{len(TESTS)}")
    for number, function in enumerate(TESTS, 1):
        name = function.__name__.replace("_", " ")
        try:
            function()
            print(f"ok {number} - {name}", flush=True)
        except Exception as error:  # a test that cannot run has failed
            failed += 1
            print(f"not ok {number} - {name}")
            for line in (str(error) or repr(error)).splitlines():
                print(f"# {line}")
    sys.exit(failed > 0)


main()
