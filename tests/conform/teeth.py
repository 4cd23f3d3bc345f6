#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the conformance suite detects each mutant of fake_mutant.c, in the cases that show it and in no others,
with the right outcome.

    teeth.py BUILD BP MUTANT MUTANT_EXTRA LATE
"""
import fnmatch
import os
import re
import sys

from kit import BUILD, Run, Skip, TESTS, WORK, main, test

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import permitted

MUTANT, EXTRA, LATE = (os.path.abspath(p) for p in sys.argv[3:6])


def run(name, *args, device=MUTANT, more=None, report=True):
    # With a sanitizer a crash must look as it does without one, because the sanitizer's report is not tested here.
    asan = os.environ.get("ASAN_OPTIONS", "") + ":handle_segv=0:handle_abort=0"
    return Run(device, *args, env={"BP_FAKE": "mutant=" + name, "ASAN_OPTIONS": asan, **(more or {})}, report=report)


def expect(result, outcome, only, some, text=""):
    """All bad cases match one of `only` and have the outcome; each of `some` matches a bad case with the text."""
    bad = result.bad()
    assert result.status == 1, f"exit status 1 expected\n{result}"
    assert result.json["level"] in ("none", "runtime"), result.json["level"]
    for case, entry in bad.items():
        assert any(fnmatch.fnmatchcase(case, p) for p in only), f"{case} is blamed: {entry}"
        assert entry["outcome"] == outcome, f"{case}: {entry}, expected {outcome}"
    for pattern in some:
        found = [e for i, e in bad.items() if fnmatch.fnmatchcase(i, pattern)]
        assert found, f"{pattern} is not blamed; blamed: {sorted(bad)}\n{result}"
        assert any(text in e["message"] for e in found), f"{pattern}: no message with '{text}': {found[0]['message']}"


# The suites that decide on the level core. Gradients and collectives, which take most of a whole run, are the core's on
# these plugins: their quick cases run.
CORE, OTHER = ("--suite=plugin,runtime,memory,kernel",), ("--quick", "--suite=gradient,ccl")


@test
def the_sound_one_passes():
    result = run("none", *CORE)
    assert result.status == 0 and not result.bad(), result
    assert result.json["level"] == "core", result.json["level"]
    assert result.json["rows"] == {"executed": 7, "total": 7}, result.json["rows"]
    result = run("none", *OTHER)
    assert result.status == 0 and not result.bad() and len(result.by_id) > 100, result


@test
def simple_rows_reach_core():
    """Rows for dense tensors of one shape and indices of 32 bits, and no row of assign: the core copies, expands, converts."""
    weak = os.path.join(os.path.dirname(LATE), "bp_weak_suite.so")
    result = Run(weak, *OTHER)
    assert result.status == 0 and not result.bad() and len(result.by_id) > 100, result
    result = Run(weak, *CORE)
    assert result.status == 0 and not result.bad(), result
    assert result.json["level"] == "core", result.json["level"]
    assert result.json["rows"] == {"executed": 10, "total": 10}, result.json["rows"]
    for case in ("kernel/relu/f32/rank3.permuted0/5x6x7@weak_relu", "kernel/add/f32/broadcast-left/1x5+7x5@weak_add",
                 "kernel/assign/f64/rank3.gaps0/5x6x7@none", "kernel/reshape/bf16-i64/*",
                 "kernel/topk/f32-i64/*@weak_topk", "kernel/unique/f32-i64/*@weak_unique", "kernel/adaptive_max_pool/f32-i64/*@none"):
        found = fnmatch.filter(result.by_id, case)
        assert found and all(result.by_id[i]["outcome"] == "pass" for i in found), f"{case}: {found}"


# The cases of all operators for which the plugin has rows, and of one that is decomposed into such operators.
ROWS = [f"--filter=kernel/{op}/*" for op in ("add", "mean", "nonzero", "scale", "sgd", "softmax", "sum", "uniform")]

# name, the cases that may fail, the cases that must fail, text in the message
KERNEL = [
    ("last", ["kernel/add/*"], ["kernel/add/f32/one/*", "kernel/add/f32/width/17+17@*", "kernel/add/f32/rank8/*"], "ulp"),
    ("zero-sign", ["kernel/add/*"], ["kernel/add/f32/zeros/*"], "expected -0"),
    ("rank8", ["kernel/add/f32/rank8/*"], ["kernel/add/f32/rank8/*"], "ulp"),
    ("magnitude", ["kernel/add/*"], ["kernel/add/f32/range/*"], "ulp"),
    ("extent-17", ["kernel/add/*"], ["kernel/add/f32/sweep/*"], "extent 17: "),
    ("extent-97", ["kernel/add/*"], ["kernel/add/f32/sweep/*"], "extent 97: "),
    ("extent-333", ["kernel/add/*"], ["kernel/add/f32/sweep/*"], "extent 333: "),
    ("last-16m", ["kernel/add/f32/large/*"], ["kernel/add/f32/large/*"], "elements from 16777"),
    ("past-end", ["kernel/add/*"], ["kernel/add/f32/one/*", "kernel/add/f32/long/*"], "wrote outside"),
    ("before-start", ["kernel/add/*"], ["kernel/add/f32/one/*", "kernel/add/f32/long/*"], "wrote outside"),
    ("unwritten", ["kernel/add/*"], ["kernel/add/f32/one/*"],
     "1 of 1 elements still hold the poison: the kernel did not write them"),
    ("unwritten", ["kernel/add/*"], ["kernel/add/f32/rank5/*", "kernel/add/f32/width/17+17@*"], "; 1 of "),
    ("writes-input", ["kernel/add/*"], ["kernel/add/f32/one/*"], "changed an input"),
    ("in-place", ["kernel/add/*inplace*"], ["kernel/add/f32/rank3.inplace/*"], ""),
    ("strides", ["kernel/add/*", "kernel/softmax/*"],
     ["kernel/add/f32/rank3.permuted0/*", "kernel/add/f32/rank3.gaps1/*", "kernel/add/f32/rank3.repeat0/*", "kernel/softmax/f32/axis1.permuted0/*",
      "kernel/softmax/f32/axis2.gaps0/*"], ""),
    ("loses-nan", ["kernel/add/*nonfinite*", "kernel/add/*special*"], ["kernel/add/f32/nonfinite/*"], "expected"),
    ("skips-nan", ["kernel/add/*nonfinite*", "kernel/add/*special*"], ["kernel/add/f32/nonfinite/*", "kernel/add/f32/special/*"],
     "still hold the poison"),
    ("no-subnormals", ["kernel/add/*special*", "kernel/add/*range*"], ["kernel/add/f32/special/*"], ""),
    ("truncates", ["kernel/add/*"], ["kernel/add/f32/prime/*"], ""),
    ("axis", ["kernel/softmax/*"], ["kernel/softmax/f32/axis0/5x7@*", "kernel/softmax/f32/axis1/3x4x5@*"], ""),
    ("no-max", ["kernel/softmax/*"], ["kernel/softmax/f32/axis1.nonfinite/*"], ""),
    ("rough", ["kernel/softmax/*"], ["kernel/softmax/f32/axis1/5x7@*", "kernel/softmax/f32/axis0/17@*"], "ulp"),
    ("axes", ["kernel/sum/*"], ["kernel/sum/f32/axes0*"], ""),
    ("drops-last", ["kernel/sum/*"],
     ["kernel/sum/f32/axes1.exact/*", "kernel/sum/f32/axes1.positive/*", "kernel/sum/f32/all/1031@*"], ""),
    ("low-precision", ["kernel/sum/*"], ["kernel/sum/f32/axes1.positive/*", "kernel/sum/f32/all/1031@*"], ""),
    ("varies", ["kernel/sum/*"], ["kernel/sum/f32/all/17@*", "kernel/sum/f32/axes1/5x7@*"], "DETERMINISTIC"),
    ("softmax-huge", ["kernel/softmax/*range/*"], ["kernel/softmax/f32/axis1.range/*"], ""),
    ("scale-16m", ["kernel/scale/f32/large/*"], ["kernel/scale/f32/large/*"], "elements from 16777"),
    ("scale-1e25", ["kernel/scale/f32/range/*"], ["kernel/scale/f32/range/*"], ""),
    ("sgd-97", ["kernel/sgd/f32/odd/*"], ["kernel/sgd/f32/odd/97+97*"], ""),
    ("nonzero-333", ["kernel/nonzero/f32-i64/sweep/*"], ["kernel/nonzero/f32-i64/sweep/*"], "extent 333: "),
    ("run-factor", ["kernel/scale/*"], ["kernel/scale/f32/prime/*"], "prepared, attribute"),
    ("run-bias", ["kernel/scale/*"], ["kernel/scale/f32/prime/*"], "attribute bias changed"),
    ("clears-grad", ["kernel/sgd/*"], ["kernel/sgd/f32/prime/*"], "changed an input"),
    ("past-params", ["kernel/sgd/*"], ["kernel/sgd/f32/one/*", "kernel/sgd/f32/prime/*"], "wrote outside"),
    ("all-rows", ["kernel/nonzero/*"], ["kernel/nonzero/f32-i64/prime/*", "kernel/nonzero/f32-i64/none/5x7@*"], "shape"),
    ("more-rows", ["kernel/nonzero/*"], ["kernel/nonzero/f32-i64/prime/*"], "BP_ERR_PLUGIN"),
    ("nan-is-zero", ["kernel/nonzero/*"], ["kernel/nonzero/f32-i64/special/*"], "shape"),
    ("no-offset", ["kernel/uniform/*"], ["kernel/uniform/f32/3/*", "kernel/uniform/f32/long/*"], ""),
    ("nine-rounds", ["kernel/uniform/*"], ["kernel/uniform/f32/scalar/*"], ""),
    ("reaches-high", ["kernel/uniform/*"], ["kernel/uniform/f32/one-step/*"], ""),
    ("refuses", ["kernel/add/f32/rank5/*"], ["kernel/add/f32/rank5/*"], "no row takes"),
    ("fails", ["kernel/add/f32/broadcast-both/7x1x33+4x1@*"], ["kernel/add/f32/broadcast-both/7x1x33+4x1@*"], "BP_ERR_DEVICE"),
]


def operators(patterns):
    """The operators that patterns of cases name."""
    return {pattern.split("/")[1] for pattern in patterns}


def kernel_test(name, only, some, text, whole):
    """whole: the cases of all rows run; otherwise only those of the operators that may fail."""
    filters = ROWS if whole else [f"--filter=kernel/{op}/*" for op in sorted(operators(only))]

    def found():  # operators that use the row in their decomposition may fail too
        expect(run(name, *filters), "fail", [*only, "kernel/*@none"], some, text)
    found.__name__ = f"kernel: {name}"
    TESTS.append(found)


# No row of the plugin knows the mutants of another row, so that one mutant of each row suffices to show that the suite
# reports failures of no other row.
ran_whole = set()
for row in KERNEL:
    if row[0] == "varies":  # every sum varies, some by one ulp, which the tolerance of a sum allows
        continue
    kernel_test(*row, whole=not operators(row[1]) <= ran_whole)
    ran_whole |= operators(row[1])


@test
def kernel_varies():
    result = run("varies", "--filter", "kernel/sum/*")
    assert result.status == 1, result
    assert any("DETERMINISTIC" in c["message"] for c in result.bad().values()), result


@test
def kernel_row_never_executed():
    result = run("refuses-all", *ROWS)
    assert result.status == 1 and result.json["rows"] == {"executed": 6, "total": 7}, result
    assert "kernel rows executed 6 of 7" in result.out and "not executed: mutant_add_f32" in result.out, result


@test
def kernel_row_that_never_runs_fails_though_expected():
    """An expectation may state that cases are unsupported, but not that a row need not run."""
    path = os.path.join(os.path.dirname(MUTANT), "never.txt")
    with open(path, "w", encoding="utf-8") as file:
        file.write("kernel/add/* unsupported the row is under construction\n")
    result = run("refuses-all", *ROWS, "--expect", path)
    assert result.status == 1 and not result.bad(), result
    assert result.json["rows"]["executed"] == 6, result


@test
def declining_rows_fail_decompositions():
    """A row exists for each step of the decomposition. If the row supports no configuration, the vendor must repair it
    or expect the failure."""
    path = os.path.join(os.path.dirname(MUTANT), "declines.txt")
    with open(path, "w", encoding="utf-8") as file:
        file.write("kernel/label_smooth/*/2x3+3@none unsupported the row is under construction\n")
    for args, status in (((), "fail"), (("--expect", path), "unsupported")):
        result = run("refuses-all", "--filter", "kernel/label_smooth/*/2x3+3@none", *args)
        told = [c for c in result.by_id.values() if "the device has what it needs, but: label_smooth" in c["message"]]
        assert len(told) > 2 and all(c["outcome"] == status for c in told), f"{told}\n{result}"
        assert (result.status == 1) == (status == "fail"), result


@test
def crash_is_blamed_on_its_case():
    result = run("crash", *ROWS)
    expect(result, "crash", ["kernel/add/f32/broadcast-both/7x1x33+4x1@*"], ["kernel/add/f32/broadcast-both/7x1x33+4x1@mutant_add_f32"], "signal 11")
    case = result.by_id["kernel/add/f32/broadcast-both/7x1x33+4x1@mutant_add_f32"]
    assert "mutant_add_f32" in case["message"], case
    assert result.json["totals"]["crash"] == 1 and result.json["totals"]["pass"] > 150, result.json["totals"]


# Reads outside an input: the process ends if the page behind or in front of the input is inaccessible.
def read_test(name):
    def found():
        result = run(name, "--filter", "kernel/add/*", "--timeout", "20")
        bad = result.bad()
        assert result.status == 1 and bad, result
        assert all(i.startswith("kernel/add/") and c["outcome"] == "crash" for i, c in bad.items()), bad
        assert any("mutant_add_f32" in c["message"] for c in bad.values()), bad
    found.__name__ = f"kernel: {name}"
    TESTS.append(found)


for row in ("reads-end", "reads-4096-on", "reads-front"):
    read_test(row)


@test
def kernel_scratch_of_all_streams():
    """Each launch is right alone; two launches at the same time overwrite each other's memory."""
    result = run("scratch", "--filter", "kernel/softmax/*")
    expect(result, "fail", ["kernel/softmax/*.twice*"], ["kernel/softmax/*.twice*"], "beside a call on another stream")
    # The first twelve launches use memory of their own, as if the other thread had not run meanwhile.
    result = run("scratch-late", "--filter", "kernel/softmax/*.twice*")
    expect(result, "fail", ["kernel/softmax/*.twice*"], ["kernel/softmax/*.twice*"], "beside a call on another stream")


@test
def events_that_never_come_are_one_verdict():
    for args in ([], ["--filter", "kernel/add/*"], ["--quick", "--timeout", "4"]):
        result = run("never-done", *args)
        assert result.status == 1 and list(result.by_id) == ["runtime/event/comes"], result
        case = result.by_id["runtime/event/comes"]
        assert case["outcome"] == "timeout" and "an event behind a copy of 64 elements" in case["message"], case


@test
def exit_inside_a_kernel_is_a_crash():
    expect(run("exit", *ROWS), "crash", ["kernel/add/f32/broadcast-both/7x1x33+4x1@*"],
           ["kernel/add/f32/broadcast-both/7x1x33+4x1@mutant_add_f32"], "exit status 0")


@test
def hang_is_a_timeout_of_its_case():
    result = run("hang", "--filter", "kernel/add/*", "--timeout", "4")
    expect(result, "timeout", ["kernel/add/f32/broadcast-both/7x1x33+4x1@*"], ["kernel/add/f32/broadcast-both/7x1x33+4x1@mutant_add_f32"], "4 s")
    assert result.json["totals"]["pass"] > 35, result.json["totals"]


@test
def crash_with_each_case_alone():
    result = run("crash", "--filter", "kernel/add/f32/broadcast-both/*", "--isolate", "case")
    expect(result, "crash", ["kernel/add/f32/broadcast-both/7x1x33+4x1@*"], ["kernel/add/f32/broadcast-both/7x1x33+4x1@*"], "signal 11")
    assert result.json["totals"]["pass"] == 1, result.json["totals"]


# name, suite, the case that must fail, text in its message
OTHERS = [
    ("prints", "plugin", "plugin/quiet", "mutant: loaded"),
    ("thread", "plugin", "plugin/threads", "threads"),
    ("impure", "plugin", "plugin/pure", "pure"),
    ("all-flags", "plugin", "plugin/rows", "row mutant_softmax_f32: flags is 0xffffffff, which has bits that kernel.h does not define"),
    ("html-name", "plugin", "plugin/rows", "row 1: character 0 of its name is 0x3c, expected letters"),
    ("endless-row-name", "plugin", "plugin/rows", "row 1: its name, mmmmmmmmmmmmmmmm..., has no end within 64 bytes"),
    ("nameless", "runtime", "runtime/properties/sane", "name is empty"),
    ("crooked-pci", "runtime", "runtime/properties/sane", "properties.pci is '65:00.0'"),
    ("all-dtypes", "runtime", "runtime/properties/sane", "bits of no dtype"),
    ("all-memory", "runtime", "runtime/properties/sane", "more than any device has"),
    ("alignment-1", "runtime", "runtime/properties/sane", "less than an element of 8 bytes"),
    ("count-changes", "plugin", "plugin/again", "device_count changes"),
    ("units-change", "plugin", "plugin/again", "device_properties says something else"),
    ("uuid-changes", "plugin", "plugin/again", "its uuid, pci or arch counts"),
    ("signal-mask", "plugin", "plugin/process", "the signal mask of the thread has changed"),
    ("locale", "plugin", "plugin/process", "the locale was 'C', is '"),
    ("alarm", "plugin", "plugin/process", "an alarm is set"),
    ("umask", "plugin", "plugin/process", "the umask was 0"),
    ("rounding", "plugin", "plugin/process", "the rounding mode was"),
    ("folder", "plugin", "plugin/process", "the working directory was"),
    ("ftz", "plugin", "plugin/process", "opened: subnormal numbers have become zero in the calling thread"),
    ("ftz-launch", "plugin", "plugin/process", "when a kernel had been launched: subnormal numbers have become zero"),
    ("nodump", "plugin", "plugin/process", "the process cannot be dumped and traced"),
    ("sigign", "plugin", "plugin/process", "what signal 13 (Broken pipe) does has changed: it was the default, is ignored"),
    ("handler", "plugin", "plugin/process", "what signal 12 (User defined signal 2) does has changed: it was the default, is a handler"),
    ("setenv", "plugin", "plugin/process", "variable HOME of the environment has another value, or none"),
    ("setenv-launch", "plugin", "plugin/process", "launched: variable MUTANT_WAS_HERE of the environment was set"),
    ("noenv", "plugin", "plugin/process", "of the environment has another value, or none"),
    ("daemon", "plugin", "plugin/process", "a process that the plugin started is still there"),
    ("zombie", "plugin", "plugin/process", "the plugin started has ended and not been waited for"),
    ("no-copy", "runtime", "runtime/stream/order-copies", "byte"),
    ("no-copy", "memory", "memory/copy/sizes", "the copy"),
    ("short-copy", "memory", "memory/roundtrip/i32/257", "the tensor"),
    ("alignment", "memory", "memory/tensor/alignment", "alignment"),
    ("overlaps", "memory", "memory/use/many-blocks", "live blocks"),
    ("leaks", "memory", "memory/use/reuse", "memory_free leaks"),
    ("leaks-large", "memory", "memory/use/reuse", "memory_free leaks"),
    ("never-frees", "memory", "memory/returned/tensors", "the plugin does not free them"),
]


def other_test(name, suite, case, text, permission=None):
    """permission: the permission that the broken plugin needs (permitted.py)."""
    def found():
        why = permission and permitted.why_not(permission)
        if why:
            raise Skip(why)
        result = run(name, "--filter", case)
        assert result.status == 1, result
        entry = result.by_id[case]
        assert entry["outcome"] == "fail" and text in entry["message"], f"{entry}\n{result}"
    found.__name__ = f"{suite}: {name} in {case}"
    TESTS.append(found)


for row in OTHERS:
    other_test(*row)
other_test("setuid", "plugin", "plugin/process", "ran as user 0 and group 0, runs as 65534 and 0", permission="root")


# Wrong dtype masks of a row: the core rejects the row and names it, and uses the plugin's other rows.
TYPES = [
    ("stray-dtype", "softmax",
     "row mutant_softmax_f32: types[0] has i32, which softmax does not have for type variable T (f16, bf16, f32, f64)"),
    ("both-indices", "nonzero", "row mutant_nonzero_f32: types[2] has i32, which nonzero does not have for type variable I (i64)"),
    ("no-variable", "sgd", "row mutant_sgd_f32: types[1] is 0, but sgd has type variable U too"),
    ("stray-variable", "softmax", "row mutant_softmax_f32: types[3] has f32, but no tensor of softmax has type variable R"),
]


def types_test(name, op, text):
    def found():
        cases = ["plugin/rows", "runtime/device/kernels", f"kernel/{op}@mutant_{op}_f32"]
        result = run(name, "--filter=plugin/rows", "--filter=runtime/device/kernels", f"--filter=kernel/{op}*")
        expect(result, "fail", cases, cases, text)
        assert set(result.bad()) == set(cases), result
        assert not [i for i in result.by_id if i.startswith(f"kernel/{op}/f32")], result
        assert run(name, "--filter=kernel/add/*").status == 0, result
    found.__name__ = f"rows: {name}"
    TESTS.append(found)


for row in TYPES:
    types_test(*row)


@test
def plugin_whose_name_has_no_end():
    result = run("endless-name", report=False)
    assert result.status == 1 or result.status == 3, result
    assert "name or driver in its properties has no end within 64 bytes" in result.err, result


# the mutant, and the message when the device is opened
SIZES = [("no-size", " to 0: write the other fields"), ("larger-size", ": write the other fields alone, with BP_SET")]


@test
def plugin_that_changes_the_size_of_its_properties():
    for name, text in SIZES:
        result = run(name, report=False)
        assert result.status in (1, 3) and text in result.err, f"{name}: {result}"
        assert "device_properties changed size from" in result.err, f"{name}: {result}"


@test
def plugin_whose_architecture_has_no_end():
    result = run("endless-arch", report=False)
    assert result.status == 1 or result.status == 3, result
    assert "pci or arch in its properties has no end within 32 or 64 bytes" in result.err, result


@test
def plugin_second_symbol():
    result = run("none", "--suite", "plugin", device=EXTRA)
    expect(result, "fail", ["plugin/symbols"], ["plugin/symbols"], "mutant_extra")


@test
def plugin_that_crashes_at_load():
    result = run("crash-at-load")
    assert result.status == 1, result
    assert list(result.by_id) == ["plugin/load"] and result.by_id["plugin/load"]["outcome"] == "crash", result
    assert "signal 6" in result.by_id["plugin/load"]["message"], result


@test
def plugin_that_hangs_at_load():
    """Opening the device has the time limit too, of at least 3 s. The message is about this plugin only, not about
    others."""
    folder = os.path.join(WORK, "torn")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "bp_torn.json"), "w", encoding="utf-8") as file:
        file.write("{")
    result = run("hang-at-load", "--timeout", "1", more={"BP_PLUGIN_PATH": folder, "BP_PLUGINS": "torn"})
    assert result.status == 1 and list(result.by_id) == ["plugin/load"], result
    case = result.by_id["plugin/load"]
    assert case["outcome"] == "timeout" and "opening the device did not end: no end after 3." in case["message"], case
    assert 3 <= case["seconds"] < 15 and "bp_torn" not in case["message"], case


# Devices whose work fails after its call has returned (the fake device `late`).

def run_late(how, *args):
    return Run(LATE, *args, env={"BP_FAKE": how, "BP_STREAMS": "inline"})


@test
def late_device_without_64_bits_is_sound():
    """Its gather has 32-bit indices: the cases on failures run with these, and the device keeps its level."""
    result = run_late("none", "--suite", "plugin,runtime,memory,kernel")
    assert result.status == 0 and not result.bad() and result.json["level"] == "core", result
    assert result.json["rows"] == {"executed": 2, "total": 2}, result.json["rows"]
    for case in ("failure/stays", "failure/callback", "failure/others", "failure/gone", "failure/before",
                 "failure/read", "failure/device", "program/fault"):
        entry = result.by_id[f"runtime/{case}/async"]
        assert entry["outcome"] == "pass", f"{case}: {entry}"


# BP_FAKE, the case that must fail, and text in its message
WAITS = [("add-waits", "launch/returns", "calls of add had ended"), ("copy-waits", "launch/copy-returns", "calls of bp_tensor_copy had ended")]


def wait_test(name, case, text):
    def found():
        result = run_late(name, "--filter=runtime/launch/*")
        bad = result.bad()
        assert set(bad) == {f"runtime/{case}/async"} and text in bad[f"runtime/{case}/async"]["message"], result
    found.__name__ = f"late: {name}"
    TESTS.append(found)


for row in WAITS:
    wait_test(*row)


@test
def event_that_comes_early_is_not_blamed_on_the_launch():
    result = run_late("event-early", "--filter=runtime/launch/*returns*")
    message = result.bad()["runtime/launch/returns/async"]["message"]
    assert "event_query returns BP_OK before the work has ended" in message, result
    assert "the call waits" not in message, result


LATE_BREAKS = [
    ("event-ok", ["stays", "callback"], "bp_event_wait of work with a bad index answered BP_OK"),
    ("sync-ok", ["others", "gone", "before", "read"], "bp_stream_synchronize of work with a bad index answered BP_OK"),
]


def late_test(name, cases, text):
    def found():
        result = run_late(name, "--filter=runtime/failure/*", "--filter=runtime/order/*")
        bad = result.bad()
        assert {f"runtime/failure/{c}/async" for c in cases} <= set(bad), result
        assert all(i.startswith("runtime/failure/") and c["outcome"] == "fail" for i, c in bad.items()), result
        assert any(text in c["message"] for c in bad.values()), result
    found.__name__ = f"late: {name}"
    TESTS.append(found)


for row in LATE_BREAKS:
    late_test(*row)


@test
def late_failure_is_that_of_its_case_alone():
    """Later cases in the same process do not get the stream that failed or the device that was lost."""
    for how, status in (("launch@924=later", "BP_ERR_DEVICE: "), ("launch@924=lost", "BP_ERR_DEVICE_LOST: ")):
        for isolate in ("group", "none"):
            result = run_late(how, "--filter=kernel/add/*", "-j", "1", "--isolate", isolate)
            bad = result.bad()
            assert set(bad) == {"kernel/add/f32/broadcast-both/7x1x33+4x1@late_add_f32"}, result
            message = bad["kernel/add/f32/broadcast-both/7x1x33+4x1@late_add_f32"]["message"]
            assert status in message and ", add)" in message, message


# the plugin's behaviour at its end (tests/devices/fake.h), the outcome, text in the message
ENDS = [
    ("destroy=hang", "timeout", "bp_h_rogue.so: destroy did not end: no end after 3."),
    ("destroy=exit", "crash", "bp_h_rogue.so: destroy ended the process: exit status 0"),
    ("atexit=hang", "timeout", "bp_h_rogue.so: the end of the process after destroy"),
    ("close=hang", "timeout", "in an exit handler or a destructor, did not end: no end after 3."),
]


@test
def plugin_that_does_not_come_to_its_end():
    """Each is reported as a case that names the library and the step, not as a failure of bp itself."""
    rogue = os.path.join(BUILD, "tests", "plugins", "bp_h_rogue.so")
    for act, outcome, text in ENDS:
        result = Run(rogue, "--filter", "kernel/add/*", "--timeout", "3", env={"BP_FAKE": act})
        assert result.status == 1 and list(result.by_id) == ["plugin/load"], f"{act}: {result}"
        case = result.by_id["plugin/load"]
        assert case["outcome"] == outcome and text in case["message"], f"{act}: {case}"
        assert f"; `bp doctor {rogue}` says more" in case["message"], f"{act}: {case}"


@test
def late_device_that_leaks_events():
    """Leaks events of the driver, which the core creates only for streams of the plugin."""
    result = run_late("event-leak", "--filter=memory/returned/*")
    assert set(result.bad()) == {"memory/returned/device"}, result  # its plugin keeps events for later ones
    message = result.bad()["memory/returned/device"]["message"]
    assert "in which a device with 4000 events and 8 tensors were made" in message, message


@test
def late_device_that_leaks_plans():
    """The statistics of the host's allocator do not include memory that the plugin allocates itself."""
    result = run_late("plan-malloc", "--filter=memory/returned/*", "--filter=plugin/memory")
    assert set(result.bad()) == {"memory/returned/plans"}, result
    message = result.bad()["memory/returned/plans"]["message"]
    assert re.search(r"row late_gather_f32_i32: with each call .* the process has \d+ bytes more", message), message


@test
def late_device_with_one_block_of_arguments():
    """A test that waits after each call does not detect the defect; this case submits work to both streams before it
    waits."""
    result = run_late("one-block", "--filter=kernel/*.twice@*", "-j", "1")
    assert len(result.bad()) == 2 and all("twice@late_" in case for case in result.bad()), result


@test
def row_that_declines_its_largest_case_runs_on_two_streams():
    result = run_late("declines", "--filter=kernel/add/*.twice@*")
    assert [case["outcome"] for case in result.by_id.values()] == ["pass"], result
    assert result.json["rows"]["executed"] == 1, result


@test
def late_device_that_never_unmaps():
    """The device allocates with mmap and has no memory_info, so neither the process's allocator nor the driver shows
    the leak."""
    result = run_late("map-leak", "--filter=memory/returned/*")
    assert set(result.bad()) == {"memory/returned/tensors", "memory/returned/device"}, result
    message = result.bad()["memory/returned/tensors"]["message"]
    assert "the process had mapped 16" in message and "the plugin does not unmap them" in message, message


@test
def late_device_that_keeps_files_open():
    """Objects of a driver may be open files, which neither the process's memory nor the driver shows."""
    result = run_late("file-leak", "--filter=memory/returned/*")
    assert set(result.bad()) == {f"memory/returned/{what}" for what in ("streams", "events", "device")}, result
    message = result.bad()["memory/returned/streams"]["message"]
    assert "the process had 64 more files open: the plugin does not close them" in message, message


# BP_FAKE, the row, and text in the message about memory
LEAKS = [
    ("host-leak", "late_add_f32", "allocations of host->allocate, "),
    ("plan-leak", "late_gather_f32_i32", "bytes in all, were not released when the plugin had been destroyed; the first: 48 bytes"),
    ("wrong-size", "late_add_f32", "times with another size than host->allocate"),
]


def leak_test(name, row, text):
    def found():
        result = run_late(name, "--suite=plugin")
        assert set(result.bad()) == {"plugin/memory"}, result
        message = result.bad()["plugin/memory"]["message"]
        assert text in message and f"a launch of row {row}" in message, message
    found.__name__ = f"memory: {name}"
    TESTS.append(found)


for row in LEAKS:
    leak_test(*row)


@test
def memory_cases_end_with_a_crashed_plugin():
    result = run("crash-last", "--suite", "plugin")
    assert result.status == 0 and not result.bad(), result
    case = result.by_id["plugin/memory"]
    assert case["outcome"] == "skip" and "come to a launch of row mutant_scale_f32" in case["message"], case


@test
def silent_failure_has_a_message_all_the_same():
    """A plugin that fails without a message: the core writes one, with the numbers that the case expects."""
    result = run("silent-memory", "--filter", "memory/use/exhaustion")
    assert result.status == 0 and result.by_id["memory/use/exhaustion"]["outcome"] == "pass", result
    result = run("silent-always", "--filter", "memory/use/exhaustion")
    expect(result, "fail", ["memory/use/exhaustion"], ["memory/use/exhaustion"],
           "mutant:0: out of memory: asked for 4000 bytes; allocated 0, ")
    message = result.by_id["memory/use/exhaustion"]["message"]
    assert "(plugin mutant: memory_allocate failed and gave no reason: out of memory)" in message, message


main()
