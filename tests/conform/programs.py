#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the suites pass and graph find no fault in the patterns of the plugin `patterned` and in the engine of
`engined`, and that they detect each pattern and each engine that is wrong on purpose.

    programs.py BUILD BP PATTERNED ENGINED SIMENGINED GRAPHONLY MUTANT PARTS
"""
import fnmatch
import os
import sys

from kit import BUILD, Run, TESTS, main, test

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests", "mutants"), os.path.join(ROOT, "tests", "style")]
from every import tree_hash  # noqa: E402
from style import Tree  # noqa: E402

PATTERNED, ENGINED, SIMENGINED, GRAPHONLY, MUTANT = (os.path.abspath(p) for p in sys.argv[3:8])


@test
def right_patterns_pass():
    result = Run(PATTERNED, "--suite", "pass")
    assert result.status == 0 and not result.bad(), result
    passed = [i for i, c in result.by_id.items() if c["outcome"] == "pass"]
    for case in ("fires", "values", "order"):
        assert sum(i.startswith(f"pass/{case}@") for i in passed) >= 15, f"{case}: {passed}"
    assert sum(i.startswith("pass/near@") for i in passed) >= 10, passed
    assert "pass/rewrite@patterned.rewrite" in passed, passed


@test
def a_right_engine_passes():
    result = Run(ENGINED, "--suite", "graph", env={"BP_ENGINED": "saves refits"})
    assert result.status == 0, result
    assert len(result.by_id) == 108 and all(c["outcome"] == "pass" for c in result.by_id.values()), result
    for device in (ENGINED, SIMENGINED):
        for words in ("updates", "updates copies", "updates keeps", "updates keeps contexts captures"):
            result = Run(device, "--filter", "graph/state/*", env={"BP_ENGINED": words})
            assert result.status == 0, result
            assert len(result.by_id) == 11 and all(c["outcome"] == "pass" for c in result.by_id.values()), result
    for device, words in ((ENGINED, "contexts last"), (SIMENGINED, "saves refits contexts"), (SIMENGINED, "captures saves")):
        result = Run(device, "--suite", "graph", env={"BP_ENGINED": words})
        assert result.status == 0, result


@test
def an_engine_that_saves_nothing_is_not_given_damaged_bytes():
    result = Run(ENGINED, "--filter", "graph/damaged/*")
    assert result.status == 0, result
    assert all(c["outcome"] == "skip" and "saves nothing" in c["message"] for c in result.by_id.values()), result


@test
def a_device_without_kernels_passes_a_part_of_the_kernel_suite():
    """The hash of the tree chooses one of PARTS, of 60 each has about 900 cases; BP_TEST_SHARD=N another one."""
    parts = int(sys.argv[8])
    part = int(os.environ.get("BP_TEST_SHARD") or tree_hash(Tree(ROOT)) % parts + 1)
    result = Run(GRAPHONLY, "--suite", "kernel", "--quick", "--shard", f"{part}/{parts}",
                 env={"BP_PLUGIN_PATH": os.path.join(BUILD, "plugins", "cpu")})
    ran = [i for i, c in result.by_id.items() if c["outcome"] == "pass"]
    assert result.status == 0 and not result.bad() and len(ran) >= 30000 // parts, f"part {part}, {len(ran)} cases: {result.bad() or result}"


@test
def a_plugin_without_them_is_skipped():
    result = Run(MUTANT, "--suite", "pass,graph")
    assert result.status == 0, result
    for case, text in (("pass/none", "no patterns"), ("graph/none", "no engine")):
        assert result.by_id[case]["outcome"] == "skip" and text in result.by_id[case]["message"], result.by_id


# A wrong pattern of tests/plugins/patterned_rows.c, the case that must fail, and text in the message.
PATTERNS = [
    ("value", "values", "pass patterned.value changes"),
    ("sides", "values", "pass patterned.sides changes"),
    ("broad", "values", "pass patterned.broad changes"),
    ("factor", "values", "pass patterned.factor changes"),
    ("skipped", "values", "pass patterned.skipped changes"),
    ("either", "values", "pass patterned.either changes"),
    ("endless", "fires", ""),
    ("never", "fires", "the pattern changed none of"),
    ("shape", "fires", "the pattern changed none of"),
    ("dtype", "fires", "the pattern changed none of"),
    ("view", "fires", "the pattern changed none of"),
    ("unknown", "fires", "the core does not use it: "),
    ("attribute", "fires", "the core does not use it: "),
    ("like", "fires", "the core does not use it: "),
    ("lacks", "fires", "the core does not use it: "),
]
lies = []  # the result of the one run of all wrong patterns


def pattern_test(name, case, text):
    def found():
        if not lies:
            lies.append(Run(PATTERNED, "--suite", "pass", env={"BP_PATTERNED": "lies"}))
        entry = lies[0].by_id[f"pass/{case}@patterned.{name}"]
        assert entry["outcome"] == "fail" and text in entry["message"], entry
        assert lies[0].by_id["pass/values@patterned.sound"]["outcome"] == "pass", lies[0]
    found.__name__ = f"pattern: {name}"
    TESTS.append(found)


for row in PATTERNS:
    pattern_test(*row)

# Words of BP_REWRITE, and text in the message. Their numbers are of a graph of tests/compile.
for word, message in (("left", "is read, and the node that computes it is removed"), ("fails", "rewrite failed and gave no reason"),
                      ("op", "this core has no operator shine")):
    def rewritten(word=word, message=message):
        result = Run(PATTERNED, "--filter", "pass/rewrite@*", env={"BP_REWRITE": word})
        entry = result.by_id["pass/rewrite@patterned.rewrite"]
        assert result.status == 1 and entry["outcome"] == "fail" and message in entry["message"], entry
    rewritten.__name__ = f"rewrite: {word}"
    TESTS.append(rewritten)

# A word of BP_ENGINED, the cases that may fail, one that must, and text in the message.
CLAIMS = ["claims", "twice", "deadline", "saved", "weights", "buckets"]
RUNS = ["results", "twice", "threads", "deadline", "leaks", "saved", "weights", "streams", "buckets"]
ENGINES = [
    ("claim=fails", [*CLAIMS], "claims/chain", "the engine's claim: "),
    ("claim=range", [*CLAIMS], "claims/chain", "is in group"),
    ("claim=score", [*CLAIMS], "claims/chain", "the score of group"),
    ("compile=fails", [*CLAIMS], "claims/chain", "out of registers"),
    ("compile=empty", [*CLAIMS], "claims/image", "were claimed, not compiled"),
    ("compile=types", [*CLAIMS], "claims/product", "were claimed, not compiled"),
    ("compile=layouts", [*CLAIMS], "claims/view", "were claimed, not compiled"),
    ("compile=shares", [*CLAIMS], "claims/sum", "were claimed, not compiled"),
    ("compile=aligned", [*CLAIMS], "claims/softmax", "were claimed, not compiled"),
    ("run=fails", ["inputs", *RUNS], "results/chain", "the chip is too hot"),
    ("run=first", [*RUNS], "results/chain", "the first run: element 0 of output 0"),
    ("run=last", [*RUNS], "results/chain", "the first run: element 47 of output 0"),
    ("run=output", [*RUNS], "results/branches", "of output 1 is"),
    ("run=second", ["inputs", *RUNS], "results/chain", ": element 0 of output 0"),
    ("run=writes", ["inputs", *RUNS], "inputs/sum", "a second run with the same tensor"),
    ("run=stale", ["inputs", *RUNS], "results/chain", ": element 0 of output 0"),
    ("run=meets", ["threads"], "threads/chain", "a run beside others"),
    ("run=leaks", ["leaks"], "leaks/chain", "bytes of host memory"),
    ("run=extents", [*RUNS], "buckets/chain", ": element "),
    ("saves blob=trusts", ["damaged"], "damaged/product", "a program of a file with damaged bytes: element "),
    ("refit=keeps", ["weights"], "weights/image", "with other weights: element "),
    ("updates copies state=blind", ["inputs", "state", *RUNS], "state/write", "the output of a run: element "),
    ("updates copies state=lazy", ["state"], "state/read", "the updated tensor: element "),
    ("updates keeps state=silent", ["state"], "state/read", "the updated tensor: element "),
    ("updates keeps state=half", ["state"], "state/call", "the updated tensor: element "),
    ("updates keeps state=newer", ["state"], "state/part", "the output of a run: element "),
    ("updates keeps state=fails", ["state"], "state/program", "the value is lost"),
    ("updates keeps state=forgets", ["state"], "state/read", "the updated tensor: element "),
    ("updates keeps forget=ignores", ["state"], "state/write", "the output of a run: element "),
]


def engine_test(word, only, must, text, device=ENGINED):
    def found():
        result = Run(device, "--suite", "graph", env={"BP_ENGINED": word})
        bad = result.bad()
        assert result.status == 1, result
        for case, entry in bad.items():
            assert any(fnmatch.fnmatchcase(case, f"graph/{p}/*") for p in only) and entry["outcome"] == "fail", (case, entry)
        assert f"graph/{must}" in bad and text in bad[f"graph/{must}"]["message"], bad.get(f"graph/{must}", sorted(bad))
    found.__name__ = f"engine: {word}"
    TESTS.append(found)


for row in ENGINES:
    engine_test(*row)
# Its streams run at once.
engine_test("run=crowded", ["threads", "streams"], "streams/chain", "a run beside those of other streams: element ", SIMENGINED)
main()
