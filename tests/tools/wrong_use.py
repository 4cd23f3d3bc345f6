#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the messages of `bp` about wrong arguments, files and environment variables: each states what to do.

    wrong_use.py ROOT BUILD BP ACTOR

The arguments are those of commands.py. A row of a table has the words behind `bp`, the exit status, and words that the
message must contain. Messages are on standard error and have one line; nothing is printed to standard output.
"""
import os
import sys

from commands import ACTOR, BP, STAGE, WORK, bp, expect, expect_status, run, set_up

HERE = os.path.join(WORK, "wrong_use")
TESTS = []


def test(function):
    TESTS.append(function)
    return function


def walk(rows, **more):
    for words, status, *texts in rows:
        result = expect_status(bp(*words, cwd=HERE, **more), status)
        for text in texts:
            expect(text in result.err, f"{words}: the message does not say '{text}'", result)
        expect(result.err.count("\n") == 1 and not result.out, f"{words}: expected one line of error only", result)


# ---- files: a model is written as protobuf's wire format by hand, so that this test needs no package


def number(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(tag, value):
    """Field `tag` of a message: a whole number, or text or bytes."""
    if isinstance(value, int):
        return number(tag << 3) + number(value)
    value = value.encode() if isinstance(value, str) else value
    return number(tag << 3 | 2) + number(len(value)) + value


def port(name, *extents):
    shape = b"".join(field(1, field(1, n)) for n in extents)
    return field(1, name) + field(2, field(1, field(1, 1) + field(2, shape)))


def model(*weights, op="Add", opset=17, graph_inputs=("x", "x")):
    """y = op(x, w or x) of f32 [4]."""
    inputs = ("x", "w") if weights else graph_inputs
    node = b"".join(field(1, name) for name in inputs) + field(2, "y") + field(4, op)
    graph = field(1, node) + field(2, "g") + b"".join(field(5, w) for w in weights)
    graph += field(11, port("x", 4)) + field(12, port("y", 4))
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, opset))


def external(**entries):
    entries = b"".join(field(13, field(1, key) + field(2, value)) for key, value in entries.items())
    return field(1, 4) + field(2, 1) + field(8, "w") + entries + field(14, 1)


FILES = {
    "good.onnx": model(),
    "cut.onnx": model()[:30],
    "empty.onnx": b"",
    "text.onnx": b"hello, this is a note about models\n",
    "page.onnx": b"<html><body>404 Not Found</body></html>",
    "lfs.onnx": b"version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 5\n",
    "zip.onnx": b"PK\x03\x04" + bytes(40),
    "gzip.onnx": b"\x1f\x8b\x08\x00" + bytes(40),
    "elf.onnx": b"\x7fELF\x02\x01\x01" + bytes(40),
    "noise.onnx": bytes(range(255, 100, -1)),
    "operator.onnx": model(op="Frobnicate"),
    "opset.onnx": model(opset=999),
    "short.bin": b"abc",
    "short.onnx": model(external(location="short.bin")),
    "absent.onnx": model(external(location="absent.bin")),
    "above.onnx": model(external(location="../x.bin")),
    "root.onnx": model(external(location="/etc/passwd")),
    "folder_of_weights.onnx": model(external(location="folder")),
    "offset.onnx": model(external(location="short.bin", offset="-4")),
    "folder/unused": b"",
    "data/input_0.pb": b"hello, this is no tensor\n",
    "noise.expect": bytes(range(255, 100, -1)) + b"\n",
    "wrong.expect": b"runtime/* maybe later\n",
}


def write_files():
    set_up()
    for name, content in FILES.items():
        path = os.path.join(HERE, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)


COMMANDS = ["list", "info", "doctor", "ops", "manifest", "new-plugin", "conform", "compare", "report", "bench", "run", "program", "tune",
            "onnx-test", "passes", "ccl-bench", "profile", "trace", "launch"]


def commands_here():
    """run, program and onnx-test are not built without ONNX's schema."""
    shown = [line.split()[0] for line in bp("-h").out.split("\n") if line.startswith("  ")]
    expect(set(shown) <= set(COMMANDS) and len(shown) >= len(COMMANDS) - 3, f"another list of commands: {shown}")
    return shown


# ---- arguments


@test
def unknown_options():
    for command in commands_here():
        walk([([command, "--frobnicate"], 2, "there is no option --frobnicate", f"`bp {command} -h`"),
              ([command, "-z"], 2, "there is no option -z")])
    walk([([""], 2, "there is no command ''", "`bp -h`"), (["--frobnicate"], 2, "there is no command '--frobnicate'")])


@test
def wrong_values():
    walk([
        (["list", "--timeout"], 2, "--timeout wants a value: SECONDS"),
        (["list", "--timeout", "soon"], 2, "wants a number, got 'soon'"),
        (["doctor", "--timeout", "0"], 2, "seconds, more than 0"),
        (["manifest", ACTOR, "--priority", "1.5"], 2, "--priority wants a whole number from -1000000 to 1000000, got '1.5'"),
        (["manifest", ACTOR, "--cpu-feature", ""], 2, "--cpu-feature ''", "/proc/cpuinfo"),
        (["manifest", ACTOR, "--cpu-feature", "avx2 fma"], 2, "--cpu-feature 'avx2 fma'", "give the option again"),
        (["conform", "stage", "--jobs", "0"], 2, "--jobs wants a whole number from 1 to 64, got '0'"),
        (["conform", "stage", "-j", "1.5"], 2, "--jobs wants a whole number from 1 to 64, got '1.5'"),
        (["conform", "stage", "--timeout", "1e9"], 2, "--timeout wants a number from 0 to 86400, got '1e9'"),
        (["conform", "stage", "--timeout", "nan"], 2, "--timeout wants a number"),
        (["conform", "stage", "--shard", "3/2"], 2, "expected I/N"),
        (["conform", "stage", "--seed", "-1"], 2, "expected a number from 0 to 2^53"),
        (["conform", "stage", "--isolate", "some"], 2, "expected case, group or none"),
        (["conform", "stage", "--suite", "kernl"], 2, "no suite 'kernl'", "kernel"),
        (["conform", "stage", "--require", "gold"], 2, "no level 'gold'", "core"),
        (["conform", "stage", "--filter", "kernl/*"], 2, "no case", "--list"),
        (["bench", "stage", "--threads", "1.5"], 2, "--threads wants a whole number from 1 to 4096"),
        (["report", "stage"], 2, "there is nothing to write", "-o OUT.html"),
        (["report", "stage", "-o", "-", "--json", "-"], 2, "are both -"),
        (["ccl-bench", "-n", "0"], 2, "--ranks wants a whole number from 1 to 256, got '0'"),
        (["ccl-bench", "--least", "1"], 2, "--least wants a whole number from 4 to"),
        (["ccl-bench", "--turns", "1.5"], 2, "--turns wants a whole number from 1 to"),
        (["ccl-bench", "--least", "8", "--most", "4"], 2, "--least is 8, more than --most, 4"),
        (["ccl-bench", "--call", "scream"], 2, "'scream'", "all_reduce"),
        (["launch", "true"], 2, "-n N is missing", "bp launch -n 2 true"),
        (["launch", "-n", "0", "true"], 2, "--ranks wants a whole number from 1 to 1024"),
        (["launch", "-n", "2", "--store", "x:y", "true"], 2, "--store", "expected HOST, HOST:PORT"),
    ])


@test
def devices_and_paths():
    for command in (["info"], ["ops", "--device"], ["bench"]):
        walk([([*command, "nowhere"], 3, "there are: stage", "bp list"), ([*command, "stage:7"], 3, "has 1"),
              ([*command, "stage:x"], 3, "expected kind or kind:index")])
    for command in (["info"], ["ops", "--device"]):
        walk([([*command, "./good.onnx"], 3, "this is the path of a file", "BP_PLUGIN_PATH"),
              ([*command, os.path.join(STAGE, "bp_actor.so")], 3, "this is the path of a file", "bp_core_load_path")])
    walk([
        (["bench", "./good.onnx"], 3, "'./good.onnx'", "a plugin's library, whose name ends in .so"),
        (["bench", "./none.so"], 3, "./none.so: no such file"),
        (["report", "./good.onnx", "-o", "page.html"], 3, "whose name ends in .so"),
        (["conform", "./folder"], 3, "'./folder'", "a plugin's library, whose name ends in .so"),
        (["conform", "./good.onnx"], 3, "whose name ends in .so"),
        (["conform", "nowhere"], 3, "there are: stage"),
        (["report", "nowhere", "-o", "page.html"], 3, "there are: stage"),
        (["doctor", "nothing"], 2, "no plugin 'nothing'", "bp doctor ./nothing"),
        (["doctor", ""], 2, "no plugin ''"),
        (["manifest", "folder"], 2, "a name that ends in .so"),
        (["manifest", "none.so"], 2, "none.so: no such file"),
    ])


# ---- files that are written


@test
def reports_are_checked_before_the_work():
    """A report that cannot be written fails at once, not after the run: there is no table of results."""
    for option in ("--json", "--junit", "--html"):
        walk([(["conform", "stage", option, "/no/such/x"], 4, f"{option} '/no/such/x' cannot be written: No such file"),
              (["conform", "stage", option, "folder"], 4, f"{option} 'folder' cannot be written: Is a directory")])
    walk([
        (["conform", "stage", "--dump", "text.onnx"], 4, "--dump 'text.onnx'", "Not a directory"),
        (["conform", "stage", "--dump", "/no/such/x"], 4, "--dump '/no/such/x'"),
        (["conform", "stage", "--json", "-", "--html", "-"], 2, "are both -", "give one of them a file"),
        (["bench", "stage", "--json", "folder"], 4, "--json 'folder' cannot be written"),
        (["ccl-bench", "--alone", "--json", "/no/such/x"], 4, "--json '/no/such/x' cannot be written"),
        (["launch", "-n", "2", "--json", "/no/such/x", "true"], 4, "--json '/no/such/x' cannot be written"),
        (["manifest", ACTOR, "-o", "/no/such/x"], 4, "--output '/no/such/x' cannot be written"),
        (["manifest", ACTOR, "-o", ""], 4, "--output '' cannot be written"),
    ])


@test
def reports_may_lie_in_the_folder_that_is_made():
    made = os.path.join(HERE, "made")
    result = expect_status(bp("conform", "stage", "--filter", "plugin/pure", "--dump", made, "--json", made + "/x.json",
                              cwd=HERE), 0)
    expect(os.path.getsize(made + "/x.json") > 0, "no report", result)


@test
def expectations():
    walk([
        (["conform", "stage", "--expect", "none"], 2, "--expect none: No such file"),
        (["conform", "stage", "--expect", "folder"], 2, "--expect folder: Is a directory"),
    ])
    result = bp("conform", "stage", "--expect", "wrong.expect", cwd=HERE)
    expect(result.status == 2 and "wrong.expect:1: expected PATTERN xfail|unsupported|skip REASON" in result.err, "which", result)
    noise = bp("conform", "stage", "--expect", "noise.expect", cwd=HERE)
    expect(noise.status == 2 and noise.err.replace("\n", "").isprintable(), "bytes that a terminal acts on", ascii(noise.err))


# ---- models


@test
def model_files():
    if "run" not in commands_here():
        return
    device = ["--device", "stage"]
    walk([
        (["run", "none.onnx", *device], 2, "'none.onnx' can't be read: No such file"),
        (["run", "folder", *device], 2, "'folder' is a folder: name the model's file in it"),
        (["run", "", *device], 2, "'' can't be read"),
        (["run", "empty.onnx", *device], 1, "it is empty"),
        (["run", "text.onnx", *device], 1, "it is text, and ONNX models are binary files"),
        (["run", "page.onnx", *device], 1, "it looks like a web page"),
        (["run", "lfs.onnx", *device], 1, "git lfs pull"),
        (["run", "zip.onnx", *device], 1, "it is a zip archive"),
        (["run", "gzip.onnx", *device], 1, "it is compressed by gzip"),
        (["run", "elf.onnx", *device], 1, "it is a program or a library"),
        (["run", "noise.onnx", *device], 1, "the file is damaged, or no ONNX file"),
        (["run", "cut.onnx", *device], 1, "longer than what holds it: it has ", "the file is incomplete"),
        (["run", "operator.onnx", *device], 1, "operator Frobnicate", "docs/onnx.md"),
        (["run", "opset.onnx", *device], 1, "opset 999"),
        (["run", "short.onnx", *device], 1, "the tensor has 16 bytes from byte 0 on, but the file has 3"),
        (["run", "absent.onnx", *device], 1, "'absent.bin': there is no such file inside the model's folder"),
        (["run", "above.onnx", *device], 1, "'../x.bin': there is no such file inside the model's folder"),
        (["run", "root.onnx", *device], 1, "it lies outside the model's folder"),
        (["run", "folder_of_weights.onnx", *device], 1, "it is a folder"),
        (["run", "offset.onnx", *device], 1, "offset or length is not a number"),
    ])
    expect_status(bp("run", "good.onnx", *device, cwd=HERE), 0)


@test
def arguments_about_models():
    if "run" not in commands_here():
        return
    good = ["run", "good.onnx", "--device", "stage"]
    walk([
        (["run", "good.onnx", "--device", "nowhere"], 3, "there are: stage"),
        ([*good, "--shape", "q=4"], 2, "no such one; its inputs: x"),
        ([*good, "--shape", "x=5"], 2, "the model says that extent 0 is 4"),
        ([*good, "--shape", "x=4x4"], 2, "expected 1 extents"),
        ([*good, "--data", "none"], 2, "there is no such folder"),
        ([*good, "--data", "data"], 1, "input_0.pb", "tensor: byte", "it is text"),
        ([*good, "--rtol", "-1"], 2, "--rtol wants a number from 0 to 1, got '-1'"),
        ([*good, "--repeat", "1.5"], 2, "--repeat wants a whole number from 1 to 1000000"),
        ([*good, "--max-memory", "0"], 2, "--max-memory 0: expected more than 0"),
        ([*good, "--max-seconds", "-1"], 2, "--max-seconds -1: expected more than 0"),
        ([*good, "--weights", "x"], 2, "expected a seed"),
        ([*good, "--profile", "folder"], 4, "--profile 'folder' cannot be written"),
        ([*good, "--roof", "20"], 2, "--roof 20: expected the GB and the GFLOP of a second"),
        ([*good, "--roof", "20,-1"], 2, "--roof 20,-1: expected"),
        (["program", "good.onnx", "--device", "nowhere"], 3, "there are: stage"),
        (["program", "good.onnx", "--device", "stage", "--shape", "x=5"], 2, "bp program: --shape x=5: the model says"),
        (["tune", "good.onnx", "--device", "stage"], 2, "bp tune: there is no folder for the choices"),
        (["program", "none.onnx", "--device", "stage"], 2, "bp program: 'none.onnx' can't be read"),
        (["program", "folder", "--device", "stage"], 2, "name the model's file in it"),
        (["program", "good.onnx", "--device", "stage", "--dot", "folder"], 4, "--dot 'folder' cannot be written"),
        (["passes", "word", "word"], 2, "word"),
        (["passes", "nowhere"], 3, "there are: stage"),
        (["onnx-test", "none"], 2, "none: there is no such folder"),
        (["onnx-test", "good.onnx"], 2, "good.onnx: there is no such folder"),
        (["onnx-test", "folder"], 2, "there is no KIND/NAME/model.onnx below it"),
        (["onnx-test", "folder", "-j", "1.5"], 2, "--jobs wants a whole number from 1 to 64"),
    ])


# ---- environment variables

VARIABLES = {  # the words of the warning about a wrong value
    "BP_LOG": "expected error, warn, info or debug",
    "BP_THREADS": "expected 1 to 4096",
    "BP_STREAMS": "expected inline or async",
    "BP_SYNC": "expected none or launch",
    "BP_BLOCK": "expected allow or deny",
    "BP_FALLBACK": "expected allow, warn or deny",
    "BP_SEED": "expected a number",
    "BP_WAIT_TIMEOUT": "expected seconds, more than 0",
    "BP_MEM_LIMIT": "expected bytes, or a number with K, M, G or T",
    "BP_CCL_TIMEOUT": "expected seconds, more than 0",
    "BP_CCL_NATIVE": "expected 0",
    "BP_CCL_WAYS": "expected map, vm or staged, or some of them separated by commas",
}


@test
def wrong_variables_are_ignored_with_a_warning():
    """The command works as without the variable. An empty value is no value."""
    for name, text in VARIABLES.items():
        for value in ("frob", "-1", "1.5x", "99999999999999999999"):
            result = expect_status(bp("info", "stage", env={name: value}), 0)
            expect(f"{name}={value}: {text}" in result.err, f"{name}={value}: no warning", result)
        result = expect_status(bp("info", "stage", env={name: ""}), 0)
        expect(not result.err, f"{name} is empty: a warning", result)


@test
def misspelt_variables_are_reported():
    """Each variable of the library with one character removed, two exchanged, and one appended. A variable that resembles none
    may belong to a plugin, and one whose name is right is not reported."""
    jobs = ("BP_PLUGINS", "BP_PLUGIN_PATH", "BP_RANK", "BP_WORLD_SIZE", "BP_STORE", "BP_STORE_HOST", "BP_CCL_TABLE")
    for name in (*VARIABLES, *jobs):
        for wrong in (name[:-2] + name[-1], name[:-2] + name[-1] + name[-2], name + "X"):
            result = expect_status(bp("info", "stage", env={wrong: "1"}), 0)
            expect(f"{wrong}: no variable has this name; {name} was probably meant" in result.err, f"{wrong}: no warning", result)
    for other in ("BP_CPU_ISA", "BP_XPU_DEVICES", "BP_NOTHING_LIKE_IT", "XBP_LOG", "BP_" + "LONG" * 20):
        result = expect_status(bp("info", "stage", env={other: ""}), 0)
        expect(not result.err, f"{other}: a warning", result)


@test
def wrong_search_path():
    for path, text in (("relative", 'expected absolute directories without ".."'), ("/a/../b", 'expected absolute directories'),
                       (os.path.join(HERE, "text.onnx"), "expected a directory, or a manifest, whose name is bp_NAME.json")):
        result = expect_status(bp("info", "stage", path=f"{path}:{STAGE}"), 0)
        expect(text in result.err, f"BP_PLUGIN_PATH={path}", result)
    result = expect_status(bp("info", "stage", path="/opt/no_such_folder:/"), 3)
    expect("the search path has /opt/no_such_folder, which does not exist" in result.err, "a spelling error", result)
    result = expect_status(bp("info", "stage", plugins="nothing"), 3)
    expect('BP_PLUGINS: "nothing" selects no plugin' in result.err, "why", result)


@test
def wrong_variables_of_jobs():
    job = {"BP_RANK": "0", "BP_WORLD_SIZE": "2", "BP_STORE": "127.0.0.1:5/secret-token"}
    for change, text in (({"BP_RANK": "9"}, "BP_RANK is 9, but BP_WORLD_SIZE is 2: ranks count from 0"),
                         ({"BP_RANK": "x"}, "BP_RANK=x: expected a number"),
                         ({"BP_WORLD_SIZE": ""}, "BP_WORLD_SIZE=: expected a number"),
                         ({"BP_STORE": "frob"}, "BP_STORE=frob: expected HOST:PORT/TOKEN"),
                         ({"BP_STORE": "127.0.0.1:5"}, "BP_STORE=127.0.0.1:5: expected HOST:PORT/TOKEN")):
        result = bp("ccl-bench", "--alone", "--device", "stage", env={**job, "BP_CCL_TIMEOUT": "1", **change})
        expect(result.status == 1 and text in result.err, f"{change}", result)


if __name__ == "__main__":
    write_files()
    sys.exit(run(TESTS))
