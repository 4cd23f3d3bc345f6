# SPDX-License-Identifier: Apache-2.0
"""Tests `bp run` on cpu: its results for models, and its messages for wrong arguments.

    command.py BP PLUGINS

PLUGINS: the folder of the test plugins.

Prints one TAP line for each test: the exit status and the printed text.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import kit

X = np.arange(6, dtype=np.float32).reshape(2, 3) + 1


class Models:
    """A folder of models, each with its inputs and expected outputs, for bp run."""

    def __init__(self, bp, path):
        self.bp = bp
        self.path = path

    def write(self, name, nodes, inputs, outputs, weights=(), opset=13):
        """inputs, outputs: extents by name."""
        path = os.path.join(self.path, name + ".onnx")
        onnx.save(helper.make_model(
            kit.graph(nodes, [kit.info(n, shape=s) for n, s in inputs.items()],
                      [kit.info(n, shape=s) for n, s in outputs.items()], weights),
            opset_imports=[helper.make_opsetid("", opset)]), path)
        return path

    def run(self, *words, device="cpu", **env):
        return subprocess.run([self.bp, "run", *words, "--device", device], capture_output=True, text=True,
                              check=False, timeout=50, env={**os.environ, **env})


def verified(m):
    """Tests --verify of outputs without elements, with equal elements, and with NaN."""
    def one(op, shape, name, *weights):
        return m.write(name, [kit.node(op, "x " + " ".join(w.name for w in weights), "y")], {"x": shape},
                       {"y": shape}, weights)

    done = m.run(one("Exp", [0, 4], "empty"), "--verify")
    yield "an output without elements is verified", done, done.returncode == 0 and "1 of 1 nodes, 0 wrong" in done.stdout
    done = m.run(one("Mul", [2, 3], "constant", kit.const("w", 0)), "--verify")
    yield "a node whose elements are all one", done, done.returncode == 1 and "all 6 elements are 0" in done.stdout
    done = m.run(one("Div", [2, 3], "nan", kit.const("w", np.zeros(3))), "--verify")
    yield "a node that gives NaN", done, done.returncode == 1 and "element 0 is nan" in done.stdout.replace("-nan", "nan")


    noise = m.write("noise", [kit.node("RandomUniformLike", "x", "r"), kit.node("Add", "x r", "y")], {"x": [2, 3]},
                    {"y": [2, 3]})
    done = m.run(noise, "--verify")
    yield "a node without a reference is named and counted", done, done.returncode == 0 and \
        "node r (uniform): it has no reference" in done.stdout and \
        "verified: 1 of 2 nodes, 0 wrong, 1 without a reference" in done.stdout


def wrong(m, plugins):
    """Tests a device with a wrong f16 format: both of its casts are wrong, and each is judged by its own
    inputs."""
    casts = [kit.node("Cast", "a", "h", to=TensorProto.FLOAT16), kit.node("Cast", "h", "y", to=TensorProto.FLOAT)]
    graph = m.write("casts", [kit.node("Add", "x x", "a"), *casts], {"x": [2, 3]}, {"y": [2, 3]})
    path = os.path.join(m.path, "casts_of_a_list.onnx")  # a model whose input is a sequence has no graph
    onnx.save(helper.make_model(kit.graph([kit.node("SequenceAt", "s k", "x"), kit.node("Add", "x x", "a"), *casts],
                                          [kit.sequence_info("s")], [kit.info("y")], [kit.const("k", 1, np.int64)]),
                                opset_imports=[helper.make_opsetid("", 13)]), path)
    data = os.path.join(m.path, "casts_of_a_list")
    kit.Folder(m.path).write(os.path.join(save(data, "output_0.pb", X + X), "input_0.pb"), [X - 1, X])
    folder = os.path.join(m.path, "plugin")
    os.makedirs(folder)
    shutil.copy(os.path.join(plugins, "bp_partial.so"), folder)
    subprocess.run([m.bp, "manifest", os.path.join(folder, "bp_partial.so")], check=True, timeout=50)
    for name, model in (("a graph", [graph]), ("a model without one", [path, "--data", data])):
        done = m.run(*model, "--verify", device="partial", BP_PLUGIN_PATH=folder, BP_PLUGINS="partial")
        yield f"wrong nodes of {name} are named", done, done.returncode == 1 and \
            "verified: 3 of 3 nodes, 2 wrong" in done.stdout and \
            all(f"node {n} (cast): worst at" in done.stdout for n in "hy")


def branching(m):
    branches = {name: kit.graph([kit.node(op, "x", op)], [], [kit.info(op)])
                for name, op in (("then_branch", "Neg"), ("else_branch", "Abs"))}
    return m.write("branching", [kit.node("ReduceMax", "x", "m", keepdims=0), kit.node("Greater", "m k", "c"),
                                 kit.node("If", "c", "y", **branches)], {"x": [2, 3]}, {"y": [2, 3]}, [kit.const("k", 0)])


def looping(m):
    """Doubles x until its largest element is 3. The first largest element is 5 / 6, so the body runs twice."""
    body = kit.graph([kit.node("Add", "s s", "twice"), kit.node("ReduceMax", "twice", "m", keepdims=0),
                      kit.node("Less", "m k", "on"), kit.node("Identity", "twice", "out")],
                     [kit.info("i", TensorProto.INT64, []), kit.info("c", TensorProto.BOOL, []), kit.info("s")],
                     [kit.info("on", TensorProto.BOOL, []), kit.info("out"), kit.info("m")])
    return m.write("looping", [kit.node("Loop", "_ go x", "y all", body=body)], {"x": [2, 3]},
                   {"y": [2, 3], "all": [None]}, [kit.const("go", True, np.bool_), kit.const("k", 3)])


def unseen(m):
    """Tests nodes that make no operator call: sequences, and nodes that the host computes."""
    grams = {"mode": "TF", "pool_int64s": [0, 1], "ngram_counts": [0], "ngram_indexes": [0, 1], "min_gram_length": 1,
             "max_gram_length": 1, "max_skip_count": 0}
    nodes = [kit.node("Cast", "x", "i", to=TensorProto.INT32), kit.node("TfIdfVectorizer", "i", "g", **grams),
             kit.node("Exp", "g", "y")]
    done = m.run(m.write("grams", nodes, {"x": [2, 3]}, {"y": [2, 2]}), "--verify")
    yield "a node that the host does is named and counted", done, done.returncode == 0 and \
        "node g: done by the host, it has no reference" in done.stdout and \
        "verified: 2 of 3 nodes, 0 wrong, 1 without a reference" in done.stdout
    done = m.run(m.write("list", [kit.node("SequenceConstruct", "x x", "s"), kit.node("SequenceAt", "s k", "y")],
                         {"x": [2, 3]}, {"y": [2, 3]}, [kit.const("k", 1, np.int64)]), "--verify")
    yield "a model of no calls", done, done.returncode == 1 and "nothing was verified" in done.stdout
    path = os.path.join(m.path, "sequence.onnx")
    onnx.save(helper.make_model(kit.graph([kit.node("SequenceAt", "s k", "x"), kit.node("Exp", "x", "y")],
                                          [kit.sequence_info("s")], [kit.info("y")], [kit.const("k", 1, np.int64)]),
                                opset_imports=[helper.make_opsetid("", 13)]), path)
    data = os.path.join(m.path, "sequence")
    kit.Folder(m.path).write(os.path.join(save(data, "output_0.pb", np.exp(X)), "input_0.pb"), [X - 1, X])
    done = m.run(path, "--data", data, "--verify", "--profile", os.path.join(m.path, "sequence.json"))
    yield "an input that is a sequence", done, done.returncode == 0 and "verified: 1 of 1 nodes" in done.stdout


def of_data(m):
    """Tests --verify and --profile of models without a graph: they see each call of a run, in loops of each
    iteration."""
    nonzero = m.write("nonzero", [kit.node("NonZero", "x", "n"), kit.node("Transpose", "n", "t"),
                                  kit.node("GatherND", "x t", "y")], {"x": [2, 3]}, {"y": [None]})
    unique = m.write("unique", [kit.node("Unique", "x", "u f"), kit.node("Exp", "u", "y")], {"x": [2, 3]}, {"y": [None]})
    noise = m.write("noisy", [kit.node("NonZero", "x", "n"), kit.node("RandomUniformLike", "x", "r"),
                              kit.node("Transpose", "n", "y")], {"x": [2, 3]}, {"y": [None, None]})
    empty = m.write("nothing", [kit.node("Sub", "x x", "d"), kit.node("NonZero", "d", "n"), kit.node("Transpose", "n", "y")],
                    {"x": [2, 3]}, {"y": [None, None]})
    wrong = m.write("infinite", [kit.node("Unique", "x", "u"), kit.node("Log", "u", "y")], {"x": [2, 3]}, {"y": [None]})
    for name, path, words, status in (
            ("a branch", branching(m), "3 of 3 nodes, 0 wrong, 0 without", 0),
            ("a loop", looping(m), "7 of 7 nodes, 0 wrong, 0 without", 0), ("NonZero", nonzero, "4 of 4 nodes, 0 wrong, 0 without", 0),
            ("Unique", unique, "2 of 2 nodes, 0 wrong, 0 without", 0),
            ("a random node", noise, "node r (uniform): it has no reference", 0),
            ("a constant", empty, "node d (sub): all 6 elements are 0", 1),
            ("a logarithm of 0", wrong, "node y (log): element 0 is -inf", 1)):
        done = m.run(path, "--verify")
        yield f"--verify of a model that depends on data: {name}", done, done.returncode == status and words in done.stdout
    yield from unseen(m)
    trace = os.path.join(m.path, "rounds.json")
    done = m.run(looping(m), "--profile", trace)
    yield "--profile of a loop: the calls of each round", done, done.returncode == 0 and \
        any(line.split()[:2] == ["add", "2"] for line in done.stdout.splitlines())
    with open(trace, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    yield "its trace has the nodes of the body", done, \
        [e["name"] for e in events if e["cat"] in ("add", "less_than")] == ["twice", "on"] * 2


def long_loop(m):
    """Tests a loop with more iterations than a graph may have. bp must notice this before it records the first:
    recording up to the limit took many times as long as running all iterations."""
    names = ["v", *"defghjklmnopqrs", "out"]
    body = kit.graph([kit.node("Neg", a, b) for a, b in zip(names, names[1:])],
                     [kit.info("i", TensorProto.INT64, []), kit.info("c", TensorProto.BOOL, []), kit.info("v")],
                     [kit.info("c", TensorProto.BOOL, []), kit.info("out")])
    path = m.write("rounds", [kit.node("Loop", "n _ x", "y", body=body)], {"x": [2]}, {"y": [2]},
                   [kit.const("n", 5000, np.int64)])
    done = m.run(path, "--json", "--repeat", "3")
    said = json.loads(done.stdout) if done.returncode == 0 else {"first_ms": 0, "least_ms": 0}
    yield "rounds that are too many are not recorded first", done, 0 < said["first_ms"] < 5 * said["least_ms"]


def save(folder, name, value):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as file:
        file.write(numpy_helper.from_array(value).SerializeToString())
    return folder


def words(m):
    """Tests arguments that could be ignored silently: exit status 2 and a message."""
    path = m.write("open", [kit.node("Neg", "x", "y")], {"x": [None, 3]}, {"y": [None, 3]})
    inputs = save(os.path.join(m.path, "inputs"), "input_0.pb", X)
    both = save(os.path.join(m.path, "both"), "input_0.pb", X)
    save(both, "output_0.pb", -X)
    other = save(os.path.join(m.path, "other"), "output_0.pb", X)
    for given, status, word in (
            (["--data", "/nonexistent"], 2, "there is no such folder"), (["--data", path], 2, "there is no such folder"),
            (["--data", inputs], 2, "nothing was compared"), (["--data", both], 0, ""), (["--data", other], 1, ""),
            (["--data", both, "--shape", "x=2x3"], 2, "input_0.pb has the values of this input"),
            (["--shape", "nosuch=2x3"], 2, "the model has no such one; its inputs: x"), (["--shape", "x=2x3"], 0, ""),
            (["--shape", "x=2"], 2, "expected 2 extents"), (["--shape", "x=2x3x4"], 2, "expected 2 extents"),
            (["--shape", "x=-2x3"], 2, "expected 2 extents"), (["--shape", "x=2x"], 2, "expected 2 extents"),
            (["--shape", "x"], 2, "expected NAME="), (["--shape", "x=2x4"], 2, "the model says that extent 1 is 3"),
            (["--weights", "abc"], 2, "expected a seed"), (["--weights", "1x"], 2, "expected a seed"),
            (["--weights", "-1"], 2, "expected a seed"), (["--weights", "18446744073709551616"], 2, "expected a seed"),
            (["--weights", "7"], 0, ""), (["--rtol", "-1"], 2, "--rtol wants a number from 0 to 1, got '-1'"),
            (["--rtol", "nan"], 2, "--rtol"), (["--rtol", "0"], 0, "")):
        done = m.run(path, *given)
        yield " ".join(given).replace(m.path, "DIR"), done, done.returncode == status and word in done.stderr


def statuses(m):
    """Tests the exit statuses of `bp run`: 1 for a model that does not load or run, 4 only for a failure of bp
    itself."""
    good = m.write("good", [kit.node("Neg", "x", "y")], {"x": [2, 3]}, {"y": [2, 3]})
    inputs = save(os.path.join(m.path, "short"), "input_0.pb", X[:1])
    empty = os.path.join(m.path, "empty.onnx")
    with open(empty, "wb") as file:
        file.write(b"no model")
    bad = os.path.join(m.path, "bad")
    os.makedirs(bad)
    with open(os.path.join(bad, "input_0.pb"), "wb") as file:
        file.write(b"no tensor")
    for name, path, given, status, word in (
            ("an unknown operator", m.write("unknown", [kit.node("Nothing", "x", "y")], {"x": [2]}, {"y": [2]}), [], 1,
             "operator Nothing"),
            ("a run that fails", m.write("shapes", [kit.node("Reshape", "x s", "y")], {"x": [2, 3]}, {"y": [None]},
                                         [kit.const("s", [4, 2], np.int64)]), [], 1, "node y (Reshape)"),
            ("no model", empty, [], 1, "empty.onnx"), ("no file", os.path.join(m.path, "none.onnx"), [], 2, "can't be read"),
            ("another shape of data", good, ["--data", inputs], 1, "extent"), ("no tensor", good, ["--data", bad], 1, "input_0.pb"),
            ("an unknown option", good, ["--strange"], 2, "strange"),
            ("a trace that can't be written", good, ["--profile", "/no/such/folder/x"], 4, "--profile '/no/such/folder/x' cannot be written")):
        done = m.run(path, *given)
        yield f"exit status {status}: {name}", done, done.returncode == status and word in done.stderr
    env = dict(os.environ, BP_FALLBACK="deny", BP_PLUGIN_PATH=sys.argv[2], BP_PLUGINS="custom,cpu")
    for device, status, word in (("custom", 1, "has no kernel"), ("orchestra", 3, "orchestra")):
        done = subprocess.run([m.bp, "run", good, "--device", device], env=env, capture_output=True, text=True, check=False)
        yield f"exit status {status}: device {device}", done, done.returncode == status and word in done.stderr


def profiled(m):
    """Tests the table and the trace of --profile, and --json, which alone uses standard output."""
    path = m.write("two", [kit.node("Neg", "x", "n"), kit.node("Exp", "n", "e"), kit.node("Neg", "e", "y")],
                   {"x": [2, 3]}, {"y": [2, 3]})
    trace = os.path.join(m.path, "trace.json")
    done = m.run(path, "--profile", trace, BP_PASSES="-fuse")  # a launch for each node
    rows = {line.split()[0]: line.split() for line in done.stdout.splitlines() if line.strip()}
    yield "--profile prints a table by operator", done, done.returncode == 0 and \
        rows.get("operator") == ["operator", "calls", "ms", "share", "bytes", "GB/s", "GFLOP/s", "roof"] and \
        rows["neg"][1] == "2" and rows["exp"][1] == "1" and rows["exp"][5:7] == ["48", "bytes"]
    yield "and a table by node", done, rows.get("node") == ["node", "operator", "ms", "share", "bytes", "GB/s", "GFLOP/s", "roof"] and \
        [rows[n][1] for n in "ney"] == ["neg", "exp", "neg"]
    with open(trace, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    yield "--profile writes each node's begin and length", done, \
        [(e["name"], e["cat"], e["ph"], e["args"]["bytes"]) for e in events] == [
            ("n", "neg", "X", 48), ("e", "exp", "X", 48), ("y", "neg", "X", 48)] and \
        all(e["dur"] > 0 for e in events) and \
        all(a["ts"] + a["dur"] <= b["ts"] for a, b in zip(events, events[1:]))
    data = save(os.path.join(m.path, "expected"), "output_0.pb", -np.exp(-np.arange(6, dtype=np.float32) / 6).reshape(2, 3))
    done = m.run(path, "--json", "--profile", trace, "--verify", "--data", data)
    said = json.loads(done.stdout) if done.returncode == 0 else {}
    yield "--json is all of standard output", done, said.get("nodes") == 3 and "as expected" in done.stderr and \
        "verified: 3 of 3" in done.stderr and "operator" in done.stderr


def recurrent(m):
    """Tests that an LSTM is one launch on the cpu, without copies around it, and that a loop of 100 steps over one is compiled."""
    random, size = np.random.default_rng(1), 8
    weights = [kit.const(name, random.standard_normal(shape).astype(np.float32))
               for name, shape in (("w", (1, 4 * size, size)), ("r", (1, 4 * size, size)), ("b", (1, 8 * size)))]
    state = [1, 1, size]

    def launches(path):
        done = subprocess.run([m.bp, "program", path, "--device", "cpu", "--json"], capture_output=True, text=True, check=False,
                              timeout=50)
        said = json.loads(done.stdout) if done.returncode == 0 else {}
        return done, [n["operator"] for n in said.get("launches", [])] if said.get("compiled") else None

    def cell(x):
        return kit.node("LSTM", f"{x} w r b _ h c", "y h_next c_next", hidden_size=size)

    done, made = launches(m.write("one_step", [cell("x")], {"x": state, "h": state, "c": state},
                                  {"y": [1, 1, 1, size], "h_next": state, "c_next": state}, weights))
    yield "one step of an LSTM is one launch", done, made == ["lstm_layer"]
    body = kit.graph([cell("h"), kit.node("Identity", "on", "still")],
                     [kit.info("i", TensorProto.INT64, []), kit.info("on", TensorProto.BOOL, []), kit.info("h", shape=state),
                      kit.info("c", shape=state)],
                     [kit.info("still", TensorProto.BOOL, []), kit.info("h_next", shape=state), kit.info("c_next", shape=state)])
    done, made = launches(m.write("steps", [kit.node("Loop", "rounds yes h0 c0", "h_last c_last", body=body)],
                                  {"h0": state, "c0": state}, {"h_last": state, "c_last": state},
                                  [*weights, kit.const("rounds", 100, np.int64), kit.const("yes", True, np.bool_)]))
    yield "a loop of 100 steps of an LSTM is compiled", done, made == ["lstm_layer"] * 100


def compiled(m):
    """Tests bp program and bp run --dump-passes, and --profile of a program: nodes that a pass merged are one launch."""
    w = np.random.default_rng(1).standard_normal((16, 16, 3, 3)).astype(np.float32)
    path = m.write("merged", [kit.node("Conv", "x w", "c", pads=[1, 1, 1, 1]), kit.node("Add", "c x", "s"), kit.node("Relu", "s", "y")],
                   {"x": [1, 16, 8, 8]}, {"y": [1, 16, 8, 8]}, [kit.const("w", w)])
    dot, trace, folder = (os.path.join(m.path, name) for name in ("program.dot", "merged.json", "passes"))

    def show(*words, **env):
        return subprocess.run([m.bp, "program", *words], capture_output=True, text=True, check=False, timeout=50,
                              env={**os.environ, **env})

    done = show(path, "--device", "cpu", "--dot", dot)
    yield "bp program prints passes, memory and launches", done, done.returncode == 0 and "nodes recorded" in done.stdout and \
        "fused_conv" in done.stdout and "in an arena of" in done.stdout and re.search(r"^epilogue +2 ", done.stdout, re.M)
    with open(dot, encoding="utf-8") as file:
        text = file.read()
    yield "--dot is a graph", done, text.startswith("digraph program {") and "fused_conv\\nc\\ns\\ny\\n" in text and "-> o0" in text
    done = show(path, "--json")
    said = json.loads(done.stdout) if done.returncode == 0 else {}
    merged = [n for n in said.get("launches", []) if n["operator"] == "fused_conv"]
    yield "JSON names the merged nodes, and the place of each tensor", done, said.get("compiled") is True and len(merged) == 1 and \
        merged[0]["merges"] == ["c", "s", "y"] and merged[0]["flops"] == 2 * 1024 * 144 and \
        merged[0]["outputs"][0]["memory"] in ("arena", "result") and merged[0]["inputs"][1]["memory"] == "constant"
    done = show(path, "--json", BP_PASSES="none")
    said = json.loads(done.stdout) if done.returncode == 0 else {}
    yield "without passes nothing is merged", done, {n["operator"] for n in said.get("launches", [])} >= {"conv", "add", "relu"} and \
        not any(p["ran"] for p in said["passes"])
    done = show(m.write("views", [kit.node("Unsqueeze", "a axes", "b"), kit.node("Conv", "x w", "c", pads=[1, 1, 1, 1]), kit.node("Mul", "c b", "s"),
                                  kit.node("Add", "s b", "t"), kit.node("Relu", "t", "y")],
                        {"x": [1, 16, 8, 8]}, {"y": [1, 16, 8, 8]},
                        [kit.const("w", w), kit.const("a", [0.5 + i for i in range(16)]), kit.const("axes", [1, 2], "int64")]), "--json")
    said = json.loads(done.stdout) if done.returncode == 0 else {}
    yield "views of weights are constants of passes", done, [n["operator"] for n in said.get("launches", [])] == ["assign", "fused_conv"]
    done = show(m.write("of_data", [kit.node("NonZero", "x", "i")], {"x": [4]}, {"i": [1, None]}))
    yield "a program that is not compiled has a reason", done, done.returncode == 0 and "depend on data" in done.stdout
    for name, words, status, word in (("no file", ["/nowhere.onnx"], 2, "bp program: '/nowhere.onnx' can't be read"),
                                      ("another extent", [path, "--shape", "x=1x16x8x9"], 2, "bp program: --shape"),
                                      ("no such device", [path, "--device", "orchestra"], 3, "orchestra")):
        done = show(*words)
        yield f"bp program, {name}: exit status {status}", done, done.returncode == status and word in done.stderr
    done = m.run(path, "--profile", trace, "--dump-passes", folder, "--roof", "10,100")
    with open(trace, encoding="utf-8") as file:
        events = [e for e in json.load(file)["traceEvents"] if e["cat"] == "fused_conv"]
    yield "--profile of a program has its launches", done, len(events) == 1 and events[0]["args"]["flops"] == 2 * 1024 * 144 and \
        "10.0 GB/s, 100.0 GFLOP/s" in done.stdout
    yield "--dump-passes writes the program before and after each pass", done, \
        {"0-00-recorded.txt", "0-00-recorded.dot", "0-01-clean.txt"} <= set(os.listdir(folder))
    done = m.run(path, "--roof", "fast")
    yield "--roof of another form", done, done.returncode == 2 and "--roof fast: expected" in done.stderr
    done = subprocess.run([m.bp, "passes"], capture_output=True, text=True, check=False)
    yield "bp passes lists them", done, done.returncode == 0 and re.search(r"^epilogue +\w", done.stdout, re.M)
    done = subprocess.run([m.bp, "passes", "--json"], capture_output=True, text=True, check=False)
    yield "bp passes --json", done, [p["name"] for p in json.loads(done.stdout)][0] == "clean"


def kept(m):
    """A folder keeps what the compiler found; bp tune measures rows for it, bp run uses it."""
    folder = os.path.join(m.path, "kept")
    m.write("keeps", [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])],
            {"x": [64, 64]}, {"y": [64, 64]}, [numpy_helper.from_array(np.eye(64, dtype=np.float32), "w")])

    def call(command, *words):
        env = {**os.environ, "BP_STREAMS": "inline"}
        env.pop("BP_PROGRAM_CACHE", None)
        return subprocess.run([m.bp, command, os.path.join(m.path, "keeps.onnx"), *words], capture_output=True,
                              text=True, check=False, timeout=50, env=env)

    done = call("program", "--json")
    yield "without a folder there is no file", done, json.loads(done.stdout)["cache"] == "" and not os.path.exists(folder)
    done = call("tune", "--json", "--cache", folder)
    first = json.loads(done.stdout)
    names = sorted(n.rpartition(".")[2] for n in os.listdir(folder))
    yield "a folder gets the program and the choices", done, first["cache"] == "saved" and not first["loaded"] and \
        names == ["choices", "program"]
    done = call("program", "--json", "--cache", folder)
    second = json.loads(done.stdout)
    yield "the next one is loaded, with the same kernels", done, second["loaded"] and \
        [(n["kernel"], n["tuned"]) for n in second["launches"]] == [(n["kernel"], n["tuned"]) for n in first["launches"]]
    done = call("run", "--cache", folder)
    yield "bp run takes it", done, done.returncode == 0 and len(os.listdir(folder)) == 2
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), "r+b") as file:
            file.truncate(70)
    done = call("program", "--json", "--cache", folder)
    third = json.loads(done.stdout)
    yield "damaged files are replaced", done, not third["loaded"] and "truncated or damaged" in third["cache"] and \
        third["launches"][0]["tuned"] is False


def fell_back(m, plugins):
    """Tests the table of calls for which the device has no kernel, as text and JSON, and the warning."""
    path = m.write("fallbacks", [kit.node("Exp", "x", "e"), kit.node("Exp", "e", "f"), kit.node("Neg", "f", "y")],
                   {"x": [2, 3]}, {"y": [2, 3]})
    env = dict(os.environ, BP_FALLBACK="allow", BP_PLUGIN_PATH=plugins, BP_PLUGINS="custom,cpu")

    def run(*words, **more):
        return subprocess.run([m.bp, "run", path, *words], env={**env, **more}, capture_output=True, text=True, check=False)

    done = run("--device", "custom:0")
    lines = [line.split() for line in done.stdout.partition("has no kernel, with the reason below:\n")[2].splitlines()]
    yield "a table tells what ran elsewhere, and why", done, done.returncode == 0 and len(lines) == 5 and \
        lines[0] == ["OPERATOR", "KIND", "WHERE", "CALLS", "BYTES", "MS"] and \
        lines[1][:5] == ["exp", "device", "cpu:0", "2", "48"] and " ".join(lines[2]).startswith("exp: custom:0 has no kernel") and \
        lines[3][:4] == ["neg", "device", "cpu:0", "1"]
    done = run("--device", "custom:0", "--json", "--repeat", "3")
    said = json.loads(done.stdout)["fallbacks"] if done.returncode == 0 else []
    yield "JSON has the same", done, [(f["operator"], f["kind"], f["where"], f["calls"], f["bytes"]) for f in said] == [
        ("exp", "device", "cpu:0", 8, 192), ("neg", "device", "cpu:0", 4, 96)] and \
        all(f["why"].startswith(f["operator"] + ": custom:0 has no kernel") and f["ms"] > 0 for f in said)
    done = run("--device", "cpu:0")
    yield "a device with all kernels has no table", done, done.returncode == 0 and "no kernel" not in done.stdout
    done = run("--device", "custom:0", BP_FALLBACK="warn")
    yield "the warning names the other device and the reason", done, done.returncode == 0 and \
        "on cpu:0" in done.stderr and "Reason: exp: custom:0 has no kernel" in done.stderr


def layouts(m, plugins):
    """Tests that bp program names the layouts of a plugin, as text, as JSON and in graphs."""
    folder, dot = os.path.join(plugins, "blocked"), os.path.join(m.path, "blocked.dot")
    w = np.random.default_rng(1).standard_normal((16, 16, 3, 3)).astype(np.float32)
    path = m.write("blocked", [kit.node("Conv", "x w", "c", pads=[1, 1, 1, 1]), kit.node("Relu", "c", "y")],
                   {"x": [1, 16, 32, 32]}, {"y": [1, 16, 32, 32]}, [kit.const("w", w)])

    def show(*words):
        return subprocess.run([m.bp, "program", path, "--device", "blocked", *words], capture_output=True, text=True, check=False,
                              timeout=50, env={**os.environ, "BP_PLUGIN_PATH": folder, "BP_PLUGINS": "blocked"})

    done = show("--dot", dot)
    lines = done.stdout.splitlines()
    heading = next((line for line in lines if "LAYOUT" in line), "")
    first, last = heading.find("LAYOUT"), heading.find("MEMORY")
    rows = [line for line in lines if " blocked_" in line]
    yield "bp program has a column of layouts", done, [line[first:last].strip() for line in rows] == ["c8", "c8", "c8", "row-major"]
    with open(dot, encoding="utf-8") as file:
        text = file.read()
    yield "--dot names layouts", done, text.count("\\nc8\"];") == 3
    done = show("--json")
    said = json.loads(done.stdout) if done.returncode == 0 else {"launches": []}
    yield "JSON names layouts of inputs and outputs", done, \
        [(n["inputs"][0]["layout"], n["outputs"][0]["layout"]) for n in said["launches"]] == \
        [("row-major", "c8"), ("c8", "c8"), ("c8", "c8"), ("c8", "row-major")]


def results(m, plugins):
    yield from fell_back(m, plugins)
    yield from verified(m)
    yield from wrong(m, plugins)
    yield from of_data(m)
    yield from long_loop(m)
    yield from words(m)
    yield from statuses(m)
    yield from profiled(m)
    yield from compiled(m)
    yield from layouts(m, plugins)
    yield from kept(m)
    yield from recurrent(m)


def main():
    with tempfile.TemporaryDirectory() as path:
        lines = list(results(Models(sys.argv[1], path), sys.argv[2]))
    kit.tell(lines)


if __name__ == "__main__":
    main()
