# SPDX-License-Identifier: Apache-2.0
"""Tests that `./dev peers` counts right, without network and without any peer.

A registry that cannot be reached is a skip; an install that fails, a wrong result, an entry that no longer holds and a run
that broke off are failures. One TAP line for each check.
"""
import contextlib
import io
import os
import sys
import tempfile
import types

import numpy

import bench_models
import bench_programs
import bench_training
import bridge_matrix
import intel_opencl
import mutants
import onednn3
import onnx_suite
import openvino_engine
import ort_provider
import peers
import python_package
import real_models
import scratch
import slow_operators
import standin_models
import turns

run, permitted = peers.run, peers.permitted
PINS = "registry r==1 0.1: asks\na p==1 5: one\nb q==2.0 5: two\n"


# ---- environments

class Environments(scratch.Scratch):
    """Nothing is installed. reachable: whether the registry is; good: whether installs succeed."""

    def __init__(self, reachable, good):
        super().__init__("/nowhere", scratch.parse_pins(PINS))
        self.reachable, self.good, self.tried = reachable, good, 0

    def make_installer(self):
        return None

    def try_registry(self):
        self.tried += 1
        return None if self.reachable else "no address"

    def install(self, name):
        return None if self.good else "no such version"


class Passing:
    """A module whose peer passes."""

    @staticmethod
    def test(peer):
        peer.count.pass_()


def tested(reachable, good):
    """(passed, failed, skipped, how often the registry was tried, exit status, last line) of a test of two peers."""
    count = run.Count(run.read_allowed(os.path.join(run.ROOT, "tests", "allowed-skips.txt")))
    environments, text = Environments(reachable, good), io.StringIO()
    with contextlib.redirect_stdout(text), modules({"a": Passing, "b": Passing}):
        all_of = peers.Peers(run.Run("/nowhere", count), environments)
        permitted.why_not.cache_clear()
        peers.allow_unreachable(all_of)
        peers.test_all(all_of, ["a", "b"])
        status = peers.finish(all_of, True)
    return (count.passed, count.failed, count.skipped, environments.tried, status, text.getvalue().splitlines()[-1])


@contextlib.contextmanager
def modules(others):
    before, peers.MODULES = peers.MODULES, others
    try:
        yield
    finally:
        peers.MODULES = before


def reachable_and_skipped():
    """A skip because of the registry is a failure where the registry can be reached."""
    count = run.Count(run.read_allowed(os.path.join(run.ROOT, "tests", "allowed-skips.txt")))
    with contextlib.redirect_stdout(io.StringIO()):
        all_of = peers.Peers(run.Run("/nowhere", count), Environments(True, True))
        permitted.why_not.cache_clear()
        peers.allow_unreachable(all_of)
        count.skip("peers/a", "the registry of packages cannot be reached")
    return count.failed == 1 and count.skipped == 0


def refuses_pins(text, part):
    try:
        scratch.parse_pins(text)
    except scratch.PinError as error:
        return part in str(error)
    return False


def kept_environment():
    """(as it was made, after a pin changed)."""
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(os.path.join(f"{folder}/b-peers", "a"))
        with open(os.path.join(f"{folder}/b-peers", "a", "pins"), "w", encoding="utf-8") as file:
            file.write("p==1\n")
        return [scratch.Scratch(f"{folder}/b", scratch.parse_pins(text)).is_installed("a")
                for text in (PINS, PINS.replace("p==1", "p==2"))]


def installed(*results):
    """(the error of an install, number of tries) if its tries end with these errors."""
    environments, left = scratch.Scratch("/nowhere", scratch.parse_pins(PINS)), list(results)
    environments.make_environment = lambda name: left.pop(0)
    return environments.install("a"), len(results) - len(left)


def names(text, everything):
    return scratch.names_of(scratch.parse_pins(text), everything)


# ---- counting

def counted(add, *arguments):
    count = run.Count(run.read_allowed(os.path.join(run.ROOT, "tests", "allowed-skips.txt")))
    add(count, *arguments)
    return count.passed, count.failed, count.skipped


LACK = "missing: operator Swish of opset 24 [y]\nAttention: softcap is not supported"
LIST = ("floor cpu 1\nonnx/node/a unsupported operator Swish of opset 24\n"
        'xpu:onnx/node/b xfail "output 0: " its data is wrong\n')


def of_suite(outcomes, text=LIST, device="cpu"):
    """outcomes: {id: outcome, or (outcome, message)}. The floor's own pass or failure is counted."""
    floors, entries = onnx_suite.parse_list(text)
    cases = [{"id": f"onnx/node/{name}", "outcome": o if isinstance(o, str) else o[0],
              "message": "" if isinstance(o, str) else o[1]} for name, o in outcomes.items()]
    return counted(onnx_suite.count_cases, device, cases, floors.get(device), entries[device])


def list_of_cases():
    """A printed list holds for the cases that it was printed from."""
    cases = [{"id": "onnx/node/a", "outcome": "unsupported", "message": LACK}, {"id": "onnx/node/c", "outcome": "pass"},
             {"id": "onnx/node/b", "outcome": "fail", "message": "output 0: 7"}]
    _, entries = onnx_suite.parse_list(LIST)
    text = onnx_suite.print_list({"cpu": [{**case, "outcome": "pass"} for case in cases], "xpu": cases}, entries)
    floors, entries = onnx_suite.parse_list(text)
    return (counted(onnx_suite.count_cases, "xpu", cases, floors["xpu"], entries["xpu"]) == (2, 0, 2)
            and floors == {"cpu": 3, "xpu": 1} and not entries["cpu"])


def refuses_list(parse, text, part):
    try:
        parse(text)
    except ValueError as error:
        return part in str(error)
    return False


ORT_LIST = "floor cpu 1\nnode/a left: strings\n1.23:node/b left: old\nxpu:node/c wrong: drawn at random\n"


def of_provider(outcomes, device="cpu", version="1.32.0"):
    """outcomes: {model: outcome}. The floor's own pass or failure is counted."""
    floors, entries = ort_provider.parse_list(ORT_LIST)
    found = {f"node/{name}": (outcome, "") for name, outcome in outcomes.items()}
    return counted(ort_provider.count_suite, device, found, ort_provider.expected_of(entries, device, version), floors.get(device),
                   True)


def provider_list():
    """A printed list holds for the outcomes that it was printed from, and keeps the lines of people."""
    floors, entries = ort_provider.parse_list(ORT_LIST)
    text = ort_provider.print_list(floors, entries, {"node/d": ("left", "new"), "node/a": ("pass", "")})
    return ort_provider.parse_list(text)[0] == floors and sorted(e["model"] for e in ort_provider.parse_list(text)[1]) == [
        "node/b", "node/c", "node/d"]


def of_model(state, expected):
    return counted(real_models.count_model, "nudenet", state, expected)


def differs(got, expected):
    kind = numpy.float32 if isinstance(expected[0], float) else numpy.int64
    return real_models.difference("0.0", numpy.array(got, kind), numpy.array(expected, kind))


def lines_of(ratios, text):
    """(the line says that the limit is missed, it has the difference)."""
    line = slow_operators.line_of("Pow", 1, (0.003, 0.002, ratios), text)
    return "missed" in line, "differs" in line


def model_lines(ratio, megabytes, text):
    """How often the lines of a model say that a target is missed, and whether they have the difference."""
    lines = [bench_models.line_of("ResNet-50", 8, bench_models.OPEN, 2, (ratio, 1, [ratio] * 3), text),
             bench_models.first_line("ResNet-50", 1, {"ours": [(ratio, megabytes)] * 2 + [(9, 9)], "theirs": [(1, 100)] * 3})]
    return " ".join(lines).count("missed"), "differs" in lines[0]


def server_ends():
    """A measurement whose server ends is an error that names its side."""
    with tempfile.TemporaryDirectory() as folder:
        peer = types.SimpleNamespace(python="false", build=folder)
        server = turns.Server(peer, "theirs", folder, 1)
        server.process.wait()
        try:
            server.ask("open", "0")
        except turns.ServerError as error:
            return str(error).startswith("theirs: ")
        finally:
            server.close()
    return False

# ---- the transformer on stand-ins

def of_share(*kernels):
    """The counts of a program with a launch of two nodes by each kernel; none: `bp program` failed."""
    launches = [{"kernel": kernel, "merges": [f"a{i}", f"b{i}"]} for i, kernel in enumerate(kernels)]
    found = standin_models.share.Share({"compiled": True, "not_compiled": None, "launches": launches}, "npu") if kernels else None
    return counted(standin_models.count_share, "npu", found, "")


def of_no_standin(kind):
    """The counts of a build without stand-ins."""
    peer = types.SimpleNamespace(build="/nowhere", count=run.Count({}))
    standin_models.test_kind(peer, kind)
    return peer.count.passed, peer.count.failed, peer.count.skipped


# ---- mutants

MUTANT = {"model": "node/a", "mutations": ["no input"], "places": ["conv_1", "y"]}
# Does what each line says, as a run of a model may.
DOER = """
import os, sys, time
for line in sys.stdin:
    word = line.split()[0]
    if word == "crash": print("about to end", file=sys.stderr, flush=True), os.abort()
    if word == "late": time.sleep(60)
    if word == "large": kept = bytearray(b"x") * (96 << 20); time.sleep(60)
    print("outputs", 2 << 20 if word == "peak" else 1, "1", sep="\\t", flush=True)
"""


def of_runs(*results):
    with contextlib.redirect_stdout(io.StringIO()):
        return counted(lambda count: mutants.count_runs(count, 1, [MUTANT] * len(results), results))


def done_by_workers(*words):
    """The outcome of each word, in their order, with limits of a second and 64 MiB."""
    before = mutants.SECONDS, mutants.MEMORY_KIB
    mutants.SECONDS, mutants.MEMORY_KIB = 1, 64 << 10
    try:
        return [outcome for outcome, _ in mutants.run_all([sys.executable, "-c", DOER], dict(os.environ), words)]
    finally:
        mutants.SECONDS, mutants.MEMORY_KIB = before


def crash_is_told():
    (_, detail), = mutants.run_all([sys.executable, "-c", DOER], dict(os.environ), ["crash"])
    return "exit status -6" in detail and "about to end" in detail


def of_plans(lines, code=0):
    with contextlib.redirect_stdout(io.StringIO()):
        return counted(onednn3.count_unit, code, f"1..{len(lines)}\n" + "".join(f"{line}\n" for line in lines),
                       ("a", "b", "c"))


def of_engine(lines, code=0):
    with contextlib.redirect_stdout(io.StringIO()):
        return counted(openvino_engine.count_tests, "engine", code, f"1..{len(lines)}\n" + "".join(f"{line}\n" for line in lines))


def of_package(lines, code=0):
    with contextlib.redirect_stdout(io.StringIO()):
        return counted(python_package.count_tap, "package", code, f"1..{len(lines)}\n" + "".join(f"{line}\n" for line in lines))


def committed_lists_fit():
    """The lists of this folder name what there is."""
    here = peers.HERE
    pins = scratch.read_pins()
    floors, entries = onnx_suite.read_list(here)
    return ({name.partition("@")[0] for name in pins} == {scratch.REGISTRY, *peers.MODULES}
            and set(real_models.read_list(here)) == set(real_models.MODELS) and set(floors) == set(onnx_suite.DEVICES)
            and all(entries[device] for device in onnx_suite.DEVICES)
            and all(len(inputs) == 3 for _, inputs in real_models.MODELS.values()))


def trained(got, theirs, exact=None):
    """Why four equal parameters of `got`, which were 1 before the steps, are wrong, or None."""
    return bench_training.difference("w", bench_training.RELU, numpy.ones(4), numpy.full(4, got), theirs,
                                     theirs if exact is None else exact)


def bridge_table():
    """Outcomes of two runs of one feature, the last of each device; a page without marks is refused."""
    with tempfile.TemporaryDirectory() as root:
        for device, outcome in (("cpu", "pass"), ("sim", "pass"), ("cpu", "fail")):
            bridge_matrix.note(root, "python", "views", device, outcome)
        text = bridge_matrix.table(bridge_matrix.read(root))
    page = f"a\n{bridge_matrix.BEGIN}old\n{bridge_matrix.END}b\n"
    try:
        bridge_matrix.replaced("a\n", text)
        return False
    except ValueError:
        return text.splitlines()[2:] == ["| Python | views | fail | pass |  |  |  |"] and \
            bridge_matrix.replaced(page, text) == f"a\n{bridge_matrix.BEGIN}\n{text}\n{bridge_matrix.END}b\n"


CHECKS = {
    "peers that pass": lambda: tested(True, True) == (2, 0, 0, 1, 0, "2 passed, 0 failed, 0 skipped"),
    "a registry that cannot be reached": lambda: tested(False, True) == (0, 0, 2, 1, 0, "0 passed, 0 failed, 2 skipped"),
    "an install that fails": lambda: tested(True, False) == (0, 2, 0, 1, 1, "0 passed, 2 failed, 0 skipped"),
    "an install whose first try fails": lambda: installed("broken off", None) == (None, 2),
    "an install whose two tries fail": lambda: installed("broken off", "again") == ("again", 2),
    "an install that succeeds": lambda: installed(None) == (None, 1),
    "a skip because of a registry that can be reached": reachable_and_skipped,
    "pages of results are of all peers": lambda: [bool(peers.writes_pages(*of)) for of in ((True, None), (True, "a"), (False, None))]
    == [True, False, False],
    "a pin without a version": lambda: refuses_pins(PINS + "a p 5: one\n", "peers.txt:4"),
    "a pin without a purpose": lambda: refuses_pins(PINS + "a p==1 5:\n", "peers.txt:4"),
    "another version before the first": lambda: refuses_pins("c@2 p==1 5: one\n", "before c"),
    "pins without the registry's package": lambda: refuses_pins("a p==1 5: one\n", "registry"),
    "an environment whose pins changed": lambda: kept_environment() == [True, False],
    "one version, or all": lambda: [names(PINS + "a@2 p==2 5: one\n", every) for every in (False, True)] == [
        ["a", "b"], ["a", "b", "a@2"]],
    "a large peer only in --all": lambda: [names(PINS + "b large==2 1200: one\n", every) for every in (False, True)] == [
        ["a"], ["a", "b"]],
    "models of the suite": lambda: of_suite({"a": ("unsupported", LACK), "c": "pass"}) == (2, 0, 1),
    "a wrong model": lambda: of_suite({"a": ("unsupported", LACK), "c": "pass", "d": ("fail", "output 0")}) == (2, 1, 1),
    "a model that crashes": lambda: of_suite({"a": ("crash", ""), "c": "pass"}) == (2, 1, 0),
    "a refusal that is not listed": lambda: of_suite(
        {"a": ("unsupported", LACK), "c": "pass", "d": ("unsupported", LACK)}) == (2, 1, 1),
    "a refusal for another reason": lambda: of_suite(
        {"a": ("unsupported", "missing: operator Swi of opset 24"), "c": "pass"}) == (2, 1, 0),
    "a listed model that passes": lambda: of_suite({"a": "pass", "c": "pass"}) == (2, 1, 0),
    "a listed model that is not there": lambda: of_suite({"c": "pass"}) == (2, 1, 0),
    "fewer models than the floor": lambda: of_suite({"a": ("unsupported", LACK)}) == (0, 1, 1),
    "a device without a floor": lambda: of_suite({"c": "pass"}, "", "xpu") == (1, 1, 0),
    "a wrong model that is listed": lambda: of_suite(
        {"b": ("fail", "output 0: 7")}, LIST + "floor xpu 0\n", "xpu")[1:] == (1, 1),  # the failure: a is not there
    "a wrong model that is listed for another error": lambda: of_suite(
        {"b": ("fail", "output 1: 7")}, LIST + "floor xpu 0\n", "xpu")[1:] == (2, 0),
    "a list that is printed from cases": list_of_cases,
    "a line of the suite's list without a reason": lambda: refuses_list(
        onnx_suite.parse_list, "onnx/node/a unsupported \n", ":1"),
    "a lack that is no operator, element type or opset": lambda: refuses_list(
        onnx_suite.parse_list, "onnx/node/a unsupported kernel of conv\n", ":1"),
    "a model that is right": lambda: of_model(["right"] * 3, "right") == (3, 0, 0),
    "a model with a wrong output": lambda: of_model(["right", "output 1.0: differs", "right"], "right") == (2, 1, 0),
    "a model with a shape too few": lambda: of_model(["right"] * 2, "right") == (2, 1, 0),
    "a model that is refused": lambda: of_model("refused: it is -1, so", "refused: it is -1") == (0, 0, 1),
    "a model that is refused for another reason": lambda: of_model("refused: it is 3", "refused: it is -1") == (0, 1, 0),
    "a model that is refused though right is expected": lambda: of_model("refused: it is 3", "right") == (0, 1, 0),
    "a model that runs though refused is expected": lambda: of_model(["right"] * 3, "refused: it is -1") == (0, 1, 0),
    "a model whose process broke off": lambda: of_model("exit status -11", "right") == (0, 1, 0),
    "a model that is not listed": lambda: of_model(["right"] * 3, None) == (0, 1, 0),
    "a model list without a state": lambda: refuses_list(real_models.parse_list, "nudenet\n", ":1"),
    "outputs within the tolerance": lambda: differs([1.0, 0.00009], [1.0, 0.0]) is None,
    "outputs beyond the tolerance": lambda: "differs" in differs([1.0, 0.00011], [1.0, 0.0]),
    "outputs that are not numbers": lambda: "differs" in differs([1.0, float("nan")], [1.0, 0.0]),
    "expected outputs that test nothing": lambda: "tests nothing" in differs([0.0, 0.0], [0.0, 0.0]),
    "outputs of another shape": lambda: "expected" in differs([1.0], [1.0, 2.0]),
    "integers that differ": lambda: "integers" in differs([1, 2], [1, 3]),
    "a measured ratio within the limit": lambda: lines_of([1.4, 1.5, 1.5], "right") == (False, False),
    "a measured ratio beyond the limit": lambda: lines_of([1.4, 1.6, 1.6], "right") == (True, False),
    "a measured operator that is wrong": lambda: lines_of([1.0], "output 0 differs") == (False, True),
    "a measured model within its targets": lambda: model_lines(0.97, 90, "right") == (0, False),
    "a measured model beyond its targets": lambda: model_lines(1.01, 91, "right") == (3, False),
    "a measured model that is wrong": lambda: model_lines(0.9, 1, "output 0 differs") == (0, True),
    "a server that ends early": server_ends,

    "a peer in another's environment": lambda: (
        names(PINS + "c in b: more\n", False) == ["a", "b", "c"]
        and scratch.Scratch("/x", scratch.parse_pins(PINS + "c in b: more\n")).folder("c") == "/x-peers/b"),
    "a peer in an environment that comes later": lambda: refuses_pins("c in b: more\n" + PINS, "before b"),
    "runs with outputs": lambda: of_runs(("outputs", "1"), ("outputs", "2")) == (3, 0, 0),
    "a run that is refused by a node": lambda: of_runs(
        ("outputs", "1"), ("refused", "bp_model_run_values: node conv_1 (Conv): no")) == (3, 0, 0),
    "a refusal of a damaged file": lambda: of_runs(
        ("outputs", "1"), ("refused", "bp_model_load: model: byte 7, in NodeProto: no field")) == (3, 0, 0),
    "a refusal that names nothing": lambda: of_runs(
        ("outputs", "1"), ("refused", "bp_model_run_values: no memory")) == (2, 1, 0),
    "a refusal that names another node": lambda: of_runs(
        ("outputs", "1"), ("refused", "bp_model_run_values: node conv_12 (Conv): any")) == (2, 1, 0),
    "runs that crash, last too long or take much": lambda: of_runs(
        *[("outputs", "1")] * 2, ("crash", "y"), ("late", "y"), ("memory", "y"), ("broken", "y")) == (3, 4, 0),
    "a refusal that names a node of a file whose names are damaged": lambda: [mutants.state_of(
        "refused", detail, ["conv_1"], damaged) is None for detail, damaged in (
            ("node con\ufffd_1: no", True), ("node con\ufffd_1: no", False), ("it is wrong", True))] == [True, False, False],
    "few runs with outputs": lambda: of_runs(*[("refused", "y")] * 3, ("outputs", "1")) == (4, 1, 0),
    "processes that crash, last too long or take much": lambda: done_by_workers(
        "good", "crash", "good", "late", "large", "peak", "good") == [
            "outputs", "crash", "outputs", "late", "memory", "memory", "outputs"],
    "a crash with its messages": crash_is_told,
    "rows of programs in their units": lambda: [bench_programs.line_of(name, 2, row).split(" | ")[2:] for name, row in (
        ("compile/ResNet-50", {"value": 31e6, "low": 3e7, "high": 32e6}),
        ("program/8 elementwise", {"value": 50, "ratio": 1.1, "ratio_low": 1, "ratio_high": 1.2}))] == [
            ["31.00 (30.00 - 32.00): missed", "ms", "30.00 |"], ["1.10 (1.00 - 1.20)", "of a copy's time", "1.15 |"]],
    "results of training": lambda: [trained(got, numpy.full(4, 2.0)) is None for got in (
        2.0, 2.019, 1.98, 2.03, 1.96, float("nan"), 1.0)] == [True] * 3 + [False] * 4,
    "results of training that PyTorch computes less exactly": lambda: [
        trained(got, numpy.full(4, 2.1), numpy.full(4, 2.0)) is None for got in (2.39, 1.61, 2.41)] == [True, True, False],
    "training that changes nothing": lambda: "left it" in trained(1.0, numpy.ones(4)),
    "plans of the library": lambda: of_plans(["ok - a", "ok - b", "ok - c"]) == (3, 0, 0),
    "plans of the library that fail": lambda: of_plans(["ok - a", "not ok - b", "ok - c"]) == (2, 1, 0),
    "plans that are not of the library": lambda: of_plans(["ok - a", "ok - b # SKIP no plan", "ok - c"]) == (2, 1, 0),
    "plans that are fewer": lambda: of_plans(["ok - a", "ok - b"]) == (2, 1, 0),
    "plans whose program crashed": lambda: of_plans(["ok - a", "ok - b", "ok - c"], -11) == (0, 1, 0),
    "the library that is named": lambda: [onednn3.names_library(f"cpu:0\n  driver  0.1.0, kernels avx512{more}\n") for more in (
        "", ", libdnnl.so.2.6", ", libdnnl.so.3.2")] == [False, False, True],
    "OpenVINO that is named": lambda: [openvino_engine.names_library(f"openvino:0\n  driver  {driver}\n", "2026.4.1") for driver in (
        "OpenVINO 2026.4.1, CPU", "OpenVINO 2026.4.0, CPU", "OpenVINO 2026.4.1, GPU")] == [True, False, False],
    "tests of OpenVINO": lambda: of_engine(["ok - a", "ok - b"]) == (2, 0, 0),
    "tests of OpenVINO that fail": lambda: [of_engine(lines, code) for lines, code in (
        (["ok - a", "not ok - b"], 0), (["ok - a"], -11), ([], 0))] == [(1, 1, 0), (0, 1, 0), (0, 1, 0)],
    "tests of OpenVINO that are skipped": lambda: [of_engine([f"ok - x::{title} # SKIP why"]) for title in (
        openvino_engine.STANDIN[0], "a")] == [(0, 0, 0), (0, 1, 0)],
    "nodes by rows of the plugin": lambda: [of_share(*kernels) for kernels in (
        ["npu_add"] * 19 + ["cpu_add"], ["npu_add"] * 18 + ["cpu_add"], ["npux_add"], [])] == [(1, 0, 0)] + [(0, 1, 0)] * 3,
    "a build without stand-ins": lambda: [of_no_standin(kind) for kind in standin_models.KINDS] == [(0, 1, 0)] * 2,
    "tests of the Python package": lambda: of_package(["ok 1 - a", "ok 2 - b"]) == (2, 0, 0),
    "tests of the Python package that fail or are skipped": lambda: of_package(
        ["ok 1 - a", "not ok 2 - b", "ok 3 - c # skip why"], 1) == (1, 2, 0),
    "tests of the Python package that end badly": lambda: [of_package(lines, code) for lines, code in (
        (["ok 1 - a"], -11), ([], 0), ([], 1))] == [(1, 1, 0), (0, 1, 0), (0, 1, 0)],
    "the driver that is named": lambda: [intel_opencl.names_driver(f"xpu:0\n  driver  OpenCL 3.1 (Build 0), {version}\n", "2026.2.0")
                                         for version in ("2026.22.10", "3.1-pocl")] == [True, False],
    "cases of the driver": lambda: [("gradient" in " ".join(cases), title in intel_opencl.BUDGETS) for title, cases in (
        intel_opencl.cases_of(False), intel_opencl.cases_of(True))] == [(True, True), (False, True)],
    "models in ONNX Runtime": lambda: of_provider({"a": "left", "d": "pass"}) == (2, 0, 1),
    "models in ONNX Runtime of another version": lambda: [of_provider({"a": "left", "b": "left", "d": "pass"}, version=v) for v in (
        "1.23.2", "1.32.0")] == [(2, 0, 2), (2, 1, 1)],
    "models in ONNX Runtime on another device": lambda: of_provider({"a": "left", "c": "wrong"}, "xpu") == (0, 1, 2),
    "a listed model that passes in ONNX Runtime": lambda: of_provider({"a": "pass", "d": "pass"}) == (2, 1, 0),
    "a wrong number in ONNX Runtime": lambda: of_provider({"a": "left", "d": "wrong"}) == (0, 2, 1),
    "a floor of a version of ONNX Runtime": lambda: [ort_provider.floor_of({"cpu": 9, "1.23:cpu": 7}, "cpu", v) for v in (
        "1.23.2", "1.32.0")] == [7, 9],
    "a list of models in ONNX Runtime": provider_list,
    "a line of times in ONNX Runtime": lambda: ort_provider.times_row(
        "net   load   0.100   0.300 s, 3.00   run     4.000     6.000     5.000 ms   provider / alone 1.2 (1.1 to 1.3), shortest 1.1   x") ==
    "| net | 1.50 | 1.25 | **1.20** (1.10 to 1.30) | **3.00** |\n" and ort_provider.times_row("net load") is None,
    "a bad line about ONNX Runtime": lambda: refuses_list(ort_provider.parse_list, "node/a lost: why\n", "ort_suite.txt:1"),
    "features of bridges by device": bridge_table,
    "lists of this folder": committed_lists_fit,
}


def main():
    print(f"1..{len(CHECKS)}")
    failed = 0
    for number, (title, check) in enumerate(CHECKS.items(), 1):
        good = check()
        failed += not good
        print(f"{'ok' if good else 'not ok'} {number} - counts {title}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
