# SPDX-License-Identifier: Apache-2.0
"""Runs ONNX's test models (Debian's libonnx-testdata) on a device, one TAP line each.

    suite.py BP DEVICE EXPECT

At least LEAST models must pass; EXPECT lists the others with the missing operator or type.
"""
import fnmatch
import json
import os
import subprocess
import sys
import tempfile

DATA = "/usr/share/libonnx-testdata/data"
LEAST = 980


def run(bp, *words):
    return subprocess.run([bp, "onnx-test", DATA, *words], capture_output=True, text=True, check=False)


def outcomes(bp, device, expect):
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        done = run(bp, "--device", device, "--expect", expect, "--json", report)
        if not os.path.exists(report):
            sys.exit(done.stderr)
        with open(report, encoding="utf-8") as file:
            return done, json.load(file)["cases"]


# Invalid entries of an expectation file, and the message about each.
REFUSED = {
    "onnx/node/test_abs unsupported it is hard": "all its operators and types are there",
    "onnx/node/test_abs xfail it is hard": "all its operators and types are there",
    "onnx/node/test_abs xfail data: it is hard": "the entry was written for other files",
    "onnx/node/test_abs xfail data:33d9917856317e26 of another model": "the entry was written for other files",
    "onnx/node/test_adam_m* xfail data:33d9917856317e26 many": "names one model, without wildcards",
    "onnx/node/test_cast_FLOAT_to_STRING unsupported operator Gradient": "the reason names nothing that is missing",
    "onnx/node/test_cast_FLOAT_to_STRING unsupported element": "the reason names nothing that is missing",
    "onnx/node/test_cast_FLOAT_to_STRING xfail data:0 wrong": "the reason names nothing that is missing",
}


def expected(path):
    """Returns the patterns of the models that may be unsupported. Their missing operators do not fail the test."""
    with open(path, encoding="utf-8") as file:
        words = [line.split() for line in file if line.strip() and not line.startswith("#")]
    return [line[0] for line in words if line[1] == "unsupported"]


def refused(bp, device, line, word):
    """Tests that an expectation is refused that does not fit the model, or that names no missing operator or
    type."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(line + "\n")
        file.flush()
        done = run(bp, "--device", device, "--filter", "onnx/node/test_abs", "--expect", file.name)
    return done.returncode == 2 and word in done.stderr


def main(bp, device, expect):
    if not os.path.isdir(DATA):
        print("1..0 # SKIP the package libonnx-testdata is not installed")
        return
    done, cases = outcomes(bp, device, expect)
    page = os.path.join(os.path.dirname(expect), "..", "..", "docs", "onnx.md")
    with open(page, encoding="utf-8") as file:
        fresh = file.read().endswith(subprocess.run([bp, "ops", "--onnx"], capture_output=True, text=True,
                                                    check=True).stdout)
    passed = sum(case["outcome"] == "pass" for case in cases)
    whole = [(f"{passed} models pass, {LEAST} at least", passed >= LEAST),
             ("the exit status is 0", done.returncode == 0),
             ("docs/onnx.md ends with what `bp ops --onnx` prints", fresh),
             *((f"refused: {line}", refused(bp, device, line, word)) for line, word in REFUSED.items())]
    known_lacks = expected(expect)
    print(f"1..{len(cases) + len(whole)}")
    for number, (name, good) in enumerate(whole, 1):
        print(f"{'ok' if good else 'not ok'} {number} - {name}")
    for number, case in enumerate(cases, len(whole) + 1):
        kind = case["outcome"]
        known = kind == "xfail" or (kind == "unsupported" and any(fnmatch.fnmatchcase(case["id"], p) for p in known_lacks))
        skip = " # SKIP " + case["message"].replace("\n", "; ") if known else ""
        print(f"{'ok' if kind == 'pass' or skip else 'not ok'} {number} - {case['id']}{skip}")
        if kind != "pass" and not skip:
            print(f"# {kind}: " + case["message"].replace("\n", "\n# "))


if __name__ == "__main__":
    main(*sys.argv[1:])
