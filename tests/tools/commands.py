#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the `bp` command line: the output of the commands, their JSON, their exit status, and wrong use.

    commands.py ROOT BUILD BP ACTOR

BP is the built command, ACTOR the library of a fake device whose misbehaviour BP_FAKE selects. Prints one TAP line for
each test.
"""
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time

ROOT, BUILD, BP, ACTOR = (os.path.abspath(p) for p in sys.argv[1:5])
# A folder for each script, because they run at the same time. Not /tmp: plugins are not trusted there.
WORK = os.path.join(BUILD, "tests", "tools", "work", os.path.basename(sys.argv[0]).removesuffix(".py"))
STAGE = os.path.join(WORK, "stage")
LIBRARY = os.path.join(STAGE, "bp_actor.so")
MANIFEST = os.path.join(STAGE, "bp_actor.json")
COMMANDS = ["list", "info", "doctor", "ops", "manifest"]  # others have tests of their own
STEPS = ["file", "manifest", "trust", "open", "entry", "version", "create", "devices"]
TESTS = []

UUID = "6f6e6520-7069-6563-6520-6f6620697421"  # "one piece of it!"


def test(function):
    TESTS.append(function)
    return function


class Result:
    def __init__(self, done, seconds):
        self.status, self.out, self.err = done.returncode, done.stdout, done.stderr
        self.seconds = seconds

    def json(self):
        return json.loads(self.out)

    def __str__(self):
        return f"exit status {self.status}\n--- output\n{self.out}--- errors\n{self.err}"


def sanitizer_options(more):
    """The ASAN_OPTIONS of this run, which may switch the search for leaks off, and more options."""
    return os.environ.get("ASAN_OPTIONS", "") + ":" + more


def bp(*args, act=None, path=STAGE, plugins="actor", env=None, cwd=WORK, stdout=subprocess.PIPE):
    """Runs bp so that it finds one plugin, the actor."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("BP_")}
    clean["BP_PLUGIN_PATH"] = path
    if plugins:
        clean["BP_PLUGINS"] = plugins
    if act:
        clean["BP_FAKE"] = act
        # With a sanitizer a crash must look as it does without one, because the sanitizer's report is not tested here.
        clean["ASAN_OPTIONS"] = sanitizer_options("handle_segv=0")
    start = time.monotonic()
    done = subprocess.run([BP, *args], stdout=stdout, stderr=subprocess.PIPE, text=True, cwd=cwd,
                          timeout=120,
                          env={**clean, **(env or {})}, stdin=subprocess.DEVNULL)
    return Result(done, time.monotonic() - start)


def expect(condition, what, result=""):
    if not condition:
        raise AssertionError(f"{what}\n{result}")


def expect_status(result, status):
    expect(result.status == status, f"expected exit status {status}", result)
    if status in (2, 3, 4):
        expect(result.err.startswith("bp"), "expected a message on standard error", result)
    return result


def plugin_of(result):
    plugins = result.json()["plugins"]
    expect(len(plugins) == 1, "expected one plugin", result)
    return plugins[0]


# ---- all commands


@test
def help_of_bp():
    result = expect_status(bp("-h"), 0)
    for command in COMMANDS:
        expect(f"\n  {command} " in result.out, f"{command} is not shown", result)
    expect("probe-plugin" not in result.out and "read-plugin" not in result.out,
           "a hidden command is shown", result)
    expect(bp("--help").out == result.out, "--help differs from -h")
    expect(expect_status(bp("help"), 0).out == result.out, "help differs from -h")
    bare = bp()
    expect(bare.status == 2 and bare.err == result.out and not bare.out,
           "without a command the help is an error", bare)


@test
def help_of_each_command():
    shown = [line.split()[0] for line in bp("-h").out.split("\n") if line.startswith("  ")]
    expect(set(COMMANDS) <= set(shown), f"{shown}")
    for command in shown:
        for flag in ("-h", "--help"):
            result = expect_status(bp(command, flag), 0)
            expect(result.out.startswith(f"usage: bp {command}"), "no usage", result)
            expect("--json" in result.out, "no --json", result)
            expect(not result.err, "help is no error", result)
            expect(all(len(line) <= 100 for line in result.out.split("\n")), "over 100 columns",
                   result)


@test
def version():
    result = expect_status(bp("--version"), 0)
    expect(result.out.startswith("bp ") and result.out.count(".") == 2, "no version", result)


@test
def misspelt_words_are_guessed():
    expect("did you mean bp list?" in expect_status(bp("lsit"), 2).err, "no guess")
    expect("did you mean bp doctor?" in expect_status(bp("docter"), 2).err, "no guess")
    expect("`bp -h`" in expect_status(bp("frobnicate"), 2).err, "no advice")
    expect("did you mean --probe?" in expect_status(bp("list", "--prob"), 2).err, "no guess")
    expect("`bp list -h`" in expect_status(bp("list", "--frobnicate"), 2).err, "no advice")
    expect("did you mean actor?" in expect_status(bp("doctor", "actr"), 2).err, "no guess")


@test
def wrong_use():
    for args in (["list", "word"], ["list", "--probe=yes"], ["list", "--timeout"],
                 ["list", "--timeout", "soon"],
                 ["list", "--timeout", "0"], ["list", "--timeout=nan"], ["list", "-x"], ["info"],
                 ["info", "a", "b"],
                 ["info", "--json"], ["doctor", "a", "b"], ["doctor", "--timeout", "-1"],
                 ["ops", "word"],
                 ["ops", "--device"], ["ops", "--markdown", "--json"],
                 ["ops", "--markdown", "--device", "stage"],
                 ["manifest"], ["manifest", LIBRARY, "b"],
                 ["manifest", "--priority", "1.5", LIBRARY],
                 ["manifest", "--priority", "1e9", LIBRARY], ["manifest", LIBRARY, "-o"]):
        result = expect_status(bp(*args), 2)
        expect(result.err.count("\n") == 1 and not result.out,
               f"expected one line of error from {args}", result)


@test
def output_that_cannot_be_written():
    with open("/dev/full", "w", encoding="ascii") as full:
        for args in (["list"], ["list", "--json"], ["ops", "--markdown"], ["doctor"], ["-h"]):
            expect_status(bp(*args, stdout=full), 4)


# ---- list


@test
def list_reads_manifests_only():
    result = expect_status(bp("list", act="open=crash"), 0)
    expect("NAME" in result.out.split("\n")[0] and "unprobed" in result.out.split("\n")[1],
           "no table", result)
    result = expect_status(bp("list", "--json", act="open=crash"), 0)
    expect(result.json() == {"plugins": [{"name": "actor", "kind": "stage", "version": "1.2.3",
                                          "state": "unprobed",
                                          "reason": "", "devices": 0}]}, "other JSON", result)


@test
def list_probe_of_a_good_plugin():
    plugin = plugin_of(expect_status(bp("list", "--probe", "--json"), 0))
    expect(plugin == {"name": "actor", "kind": "stage", "version": "1.2.3", "state": "ready",
                      "reason": "",
                      "devices": 1, "hardware": [{"device": 0, "uuid": UUID, "pci": "0000:65:00.0", "same_as": ""}]}, f"{plugin}")
    result = expect_status(bp("list", "--probe"), 0)
    expect(result.out.split("\n")[1].split() == ["actor", "stage", "1.2.3", "ready", "1"],
           "other table", result)


@test
def list_probe_names_the_same_hardware():
    """Devices are the same if they have the same UUID or, if one has none, the same PCI address. Other devices are not
    mentioned."""
    both = {"path": os.path.join(BUILD, "tests", "plugins") + ":" + STAGE, "plugins": "actor,h_good,h_wide_rows,h_long_tables"}
    plugins = {p["name"]: p for p in expect_status(bp("list", "--probe", "--json", **both), 0).json()["plugins"]}
    same = {name: [d["same_as"] for d in p.get("hardware", [])] for name, p in plugins.items()}
    expect(same == {"actor": ["h_good:0"], "h_good": [""], "h_wide_rows": ["h_good:0"], "h_long_tables": []}, f"{same}")
    result = expect_status(bp("list", "--probe", **both), 0)
    for text in ("stage:0 is the same hardware as h_good:0", "h_wide_rows:0 is the same hardware as h_good:0"):
        expect(result.out.count(text) == 1, f"no '{text}'", result)
    expect(result.out.count("the same hardware") == 2, "others are named, too", result)


@test
def list_of_nothing():
    result = expect_status(bp("list", plugins="no_such_name"), 2)
    expect("BP_PLUGIN_PATH" in result.err and "BP_PLUGINS" in result.err, "no advice", result)
    result = expect_status(bp("list", "--json", plugins="no_such_name"), 2)
    expect(result.json() == {"plugins": []}, "other JSON", result)


@test
def list_shows_a_broken_manifest_once():
    broken = os.path.join(WORK, "broken")
    os.makedirs(broken)
    with open(os.path.join(broken, "bp_torn.json"), "w", encoding="ascii") as f:
        f.write("{\"manifest\": 1")
    both = broken + ":" + STAGE
    result = expect_status(bp("list", "--json", path=both, plugins="torn,actor"), 0)
    torn, actor = result.json()["plugins"]
    expect(torn["state"] == "broken" and "bp_torn.json" in torn["reason"], "no reason", result)
    expect(actor["state"] == "unprobed" and not result.err, "expected the good plugin and no error",
           result)
    result = expect_status(bp("list", "--probe", path=both, plugins="torn,actor"), 0)
    expect(result.out.count("bp_torn.json") == 1 and " ready " in result.out, "other table", result)
    result = expect_status(bp("doctor", path=both, plugins="torn,actor"), 1)
    expect("1 ready, 0 absent, 1 broken" in result.out, "other sum", result)


# The behaviour of the actor, the step in which it is lost, and the end of its process.
LOSSES = [
    ("open=crash", "open", "killed by signal 11 (Segmentation fault)"),
    ("open=end", "open", "exit status 0"),
    ("open=pause", "open", "no end after 3."),
    ("open=babble", "open", "wrote too much"),
    ("entry=crash", "entry", "killed by signal 11 (Segmentation fault)"),
    ("create=crash", "create", "killed by signal 11 (Segmentation fault)"),
    ("devices=crash", "devices", "killed by signal 11 (Segmentation fault)"),
    ("destroy=crash", "exit", "killed by signal 11 (Segmentation fault)"),
    ("close=crash", "exit", "killed by signal 11 (Segmentation fault)"),
]


def expect_loss(act, step, end):
    timeout = "3" if "no end" in end else "60"  # a busy machine needs time to start a child
    result = expect_status(bp("list", "--probe", "--json", "--timeout", timeout, act=act), 0)
    plugin = plugin_of(result)
    expect(plugin["state"] == "broken" and plugin["devices"] == 0, f"{act}: not broken", result)
    expect(plugin["name"] == "actor" and plugin["version"] == "1.2.3", f"{act}: its name is lost",
           result)
    expect(LIBRARY in plugin["reason"] and end in plugin["reason"], f"{act}: expected '{end}'",
           result)
    expect(result.seconds < 20, f"{act} took {result.seconds} s")

    result = expect_status(bp("doctor", "--json", "--timeout", timeout, act=act), 1)
    steps = plugin_of(result)["steps"]
    expect([s["step"] for s in steps] == STEPS, f"{act}: other steps", result)
    lost = STEPS.index(step) if step in STEPS else len(STEPS)
    want = (["ok"] * lost + ["failed"] + ["not reached"] * len(STEPS))[:len(STEPS)]
    expect([s["outcome"] for s in steps] == want, f"{act}: expected it to be lost in {step}",
           result)

    result = expect_status(bp("doctor", "--timeout", timeout, act=act), 1)
    lines = [line.split() for line in result.out.split("\n")]
    expect([line[0] for line in lines if line[1:2] == ["FAILED"]] == [step], f"{act}: other table",
           result)
    expect("0 ready, 0 absent, 1 broken" in result.out, f"{act}: no sum", result)
    expect("gdb --args bp probe-plugin" in " ".join(result.out.split()), f"{act}: no advice",
           result)


@test
def plugins_that_take_their_process_with_them():
    for loss in LOSSES:
        expect_loss(*loss)


@test
def waits_are_named():
    """A plugin hangs in one step each; the commands would otherwise print nothing for ever."""
    model = os.path.join(WORK, "model.onnx")
    with open(model, "wb"):
        pass
    plugins = os.path.join(BUILD, "tests", "plugins")
    waiting = []
    for args, step, word in (
            (["info", "h_rogue"], "open", "open"), (["info", "h_rogue"], "create", "create"),
            (["ops", "--device", "h_rogue"], "devices", "devices"),
            (["bench", "h_rogue"], "device", "device"), (["bench", "h_rogue"], "launch", "launch"),
            (["run", model, "--device", "h_rogue"], "create", "create")):
        env = {k: v for k, v in os.environ.items() if not k.startswith("BP_")}
        env.update(BP_PLUGIN_PATH=plugins, BP_PLUGINS="h_rogue", BP_FAKE=step + "=hang")
        process = subprocess.Popen([BP, *args], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                   env=env)
        waiting.append((process, args[0], word))
    for process, command, word in waiting:
        guard = threading.Timer(60, process.kill)
        guard.start()
        said = []
        for line in process.stderr:
            said.append(line)
            if "still in" in line:
                break
        guard.cancel()
        process.kill()
        process.wait()
        want = rf"bp {command}: still in {word} of h_rogue \(\d+ s.*\): .*`bp doctor h_rogue` says"
        expect(any(re.search(want, line) for line in said), f"{command}, {word}: {said}")


@test
def absent_is_not_broken():
    plugin = plugin_of(expect_status(bp("list", "--probe", "--json", act="create=absent"), 0))
    expect(plugin["state"] == "absent" and "libhostile.so.2: no such library" in plugin["reason"],
           f"{plugin}")
    result = expect_status(bp("doctor", act="create=absent"), 0)
    expect("0 ready, 1 absent, 0 broken" in result.out and "FAILED" not in result.out,
           "other table", result)
    result = expect_status(bp("doctor", "--json", act="create=absent"), 0)
    steps = [s["outcome"] for s in plugin_of(result)["steps"]]
    expect(steps == ["ok"] * 6 + ["absent", "not reached"], "other steps", result)


@test
def a_failing_create_is_broken():
    result = expect_status(bp("doctor", "--json", act="create=fails"), 1)
    plugin = plugin_of(result)
    expect(plugin["state"] == "broken" and "the driver answered -13" in plugin["reason"], "no reason",
           result)
    expect([s["outcome"] for s in plugin["steps"]] == ["ok"] * 6 + ["failed", "not reached"],
           "other steps", result)


@test
def plugin_output_does_no_harm():
    result = expect_status(bp("list", "--probe", "--json", act="open=print"), 0)
    expect(plugin_of(result)["state"] == "ready", "not ready", result)
    expect("the fake was here" in expect_status(bp("doctor", act="open=print"), 0).out,
           "its output is not shown")
    expect(plugin_of(bp("doctor", "--json", act="open=print"))["output"].strip() == "the fake was here",
           "no output in JSON")
    result = expect_status(bp("list", "--probe", "--json", act="open=forge"), 0)
    expect(plugin_of(result)["state"] == "ready", "not ready", result)


@test
def hostile_plugins_cost_a_line_each():
    """Probes all plugins of tests/plugins together: none of them ends bp or harms the good plugin."""
    hostile = os.path.join(BUILD, "tests", "plugins")
    result = expect_status(bp("list", "--probe", "--json", "--timeout", "2", path=hostile,
                              plugins="h_*"), 0)
    plugins = {p["name"]: p for p in result.json()["plugins"]}
    expect(len(plugins) >= 20, "expected at least 20 plugins", result)
    expect(plugins["h_good"]["state"] == "ready", "the good one", result)
    for name, end in (("constructor_signal", "killed by signal"),
                      ("constructor_exit", "exit status"),
                      ("constructor_hang", "no end after"),
                      ("constructor_output", "wrote too much")):
        plugin = plugins["h_" + name]
        expect(plugin["state"] == "broken" and end in plugin["reason"], f"{name}: {plugin}")
    for plugin in plugins.values():
        expect(plugin["state"] in ("ready", "absent", "broken"), f"{plugin}")
        expect((plugin["state"] == "ready") == (plugin["reason"] == ""), f"{plugin}")


# ---- doctor


@test
def doctor_of_a_good_plugin():
    result = expect_status(bp("doctor"), 0)
    for step in STEPS:
        expect(f"  {step} " in result.out, f"no step {step}", result)
    expect("1 ready, 0 absent, 0 broken" in result.out and "stage:0" in result.out, "other table",
           result)
    plugin = plugin_of(expect_status(bp("doctor", "--json"), 0))
    expect(plugin["manifest"] == MANIFEST and plugin["library"] == LIBRARY, f"{plugin}")
    expect(all(s["outcome"] == "ok" for s in plugin["steps"]) and plugin["seconds"] > 0,
           f"{plugin}")


@test
def doctor_by_name_kind_and_path():
    elsewhere = {"path": "/nonexistent"}
    for word in ("actor", "stage"):
        expect(plugin_of(expect_status(bp("doctor", "--json", word), 0))["name"] == "actor", word)
    for word in (LIBRARY, "./bp_actor.so", "bp_actor.so", "../stage/bp_actor.so"):
        result = expect_status(bp("doctor", "--json", word, cwd=STAGE, plugins=None, **elsewhere),
                               0)
        plugin = plugin_of(result)
        expect(plugin["name"] == "actor" and plugin["state"] == "ready"
               and plugin["manifest"] == "", word, result)
    for word in (MANIFEST, "bp_actor.json"):
        result = expect_status(bp("doctor", "--json", word, cwd=STAGE, plugins="!actor",
                                  **elsewhere), 0)
        plugin = plugin_of(result)
        expect(plugin["state"] == "ready" and plugin["manifest"] == MANIFEST, word, result)


def expect_no_file(command, word, status):
    result = expect_status(bp(command, word), status)
    expect(result.err == f"bp {command}: {word}: no such file\n" and not result.out,
           "other message", result)


@test
def doctor_of_missing_paths():
    expect_status(bp("doctor", "no_such_plugin"), 2)
    expect_status(bp("doctor", plugins="no_such_name"), 2)
    for word in ("./none.so", "none.json", "/no/such/bp_x.so"):
        expect_no_file("doctor", word, 2)
    for word in ("./", "/"):
        result = expect_status(bp("doctor", "--json", word), 1)
        plugin = plugin_of(result)
        expect(plugin["state"] == "broken" and plugin["steps"][0]["outcome"] == "failed"
               and plugin["reason"],
               f"{word}: not broken in the first step", result)


@test
def doctor_of_no_plugin():
    text = os.path.join(WORK, "text.so")
    with open(text, "w", encoding="ascii") as f:
        f.write("no library\n")
    plugin = plugin_of(expect_status(bp("doctor", "--json", text), 1))
    expect(plugin["state"] == "broken" and text in plugin["reason"], f"{plugin}")


# ---- info


@test
def info_of_a_device():
    for name in ("stage", "stage:0"):
        result = expect_status(bp("info", name), 0)
        for text in ("stage:0\n", "3.0 GiB", "i8 f32", "64 bytes", LIBRARY, "actor 1.2.3",
                     "needs a coprocessor of 1989", "kernel rows: 2, of which 1 can run here",
                     "inline", "architecture  wood", "uuid          " + UUID, "PCI           0000:65:00.0"):
            expect(text in result.out, f"no {text}", result)
        expect("\x1b" not in result.out and "a ?[31mred" in result.out, "a control character",
               result)


@test
def info_json():
    info = expect_status(bp("info", "stage", "--json"), 0).json()
    expect(list(info) == ["device", "name", "driver", "plugin", "memory", "max_alloc", "alignment",
                          "units", "arch", "uuid", "pci", "images", "dtypes",
                          "flags", "emulated", "memory_now", "kernels", "addons"], f"{list(info)}")
    expect(info["device"] == "stage:0" and info["memory"] == 3 << 30
           and info["dtypes"] == ["i8", "f32"], f"{info}")
    expect((info["arch"], info["uuid"], info["pci"]) == ("wood", UUID, "0000:65:00.0"), f"{info}")
    expect(info["plugin"] == {"name": "actor", "version": "1.2.3", "library": LIBRARY}, f"{info}")
    expect(info["emulated"] == ["streams", "events", "stream_wait", "memory_info"], f"{info}")
    expect(info["kernels"] == {"rows": 2, "usable": 1, "for_programs": [], "unusable": [
        {"name": "actor_add_elsewhere", "reason": "needs a coprocessor of 1989"}], "operators": [
        {"op": "add", "rows": 2, "usable": 1, "dtypes": ["f32"]}]}, f"{info['kernels']}")


@test
def info_layouts():
    """Rows with layouts of the plugin can run, but only in programs."""
    blocked = os.path.join(BUILD, "tests", "plugins", "blocked")
    if not os.path.exists(os.path.join(blocked, "bp_blocked.so")):
        return  # built with the cpu plugin
    text = expect_status(bp("info", "blocked", path=blocked, plugins=None), 0)
    expect("FOR PROGRAMS ONLY" in text.out and "c8, c8 -> c8" in text.out, "no layouts", text)
    kernels = expect_status(bp("info", "blocked", "--json", path=blocked, plugins=None), 0).json()["kernels"]
    layouts = {row["name"]: row["layouts"] for row in kernels["for_programs"]}
    expect(layouts["blocked_matmul"] == "-, n8 -> -" and len(layouts) == 11, f"{layouts}")
    expect(not any(row["name"] in layouts for row in kernels["unusable"]), f"{kernels['unusable']}")


@test
def exit_statuses():
    """All commands have the same statuses: 1 a check failed, 2 wrong use, 3 no such device, 4 bp itself failed."""
    model = os.path.join(WORK, "none.onnx")
    for words in (["info"], ["info", "a", "b"], ["info", "stage", "--strange"], ["strange"], ["ops", "--strange"],
                  ["list", "x"], ["doctor", "--strange"], ["conform"], ["conform", "stage", "--suite", "x"],
                  ["conform", "stage", "--filter", "nothing"], ["conform", "stage", "--jobs", "0"], ["bench"],
                  ["bench", "stage", "--threads", "-3"], ["run"], ["run", model], ["run", model, "--repeat", "0"],
                  ["onnx-test"], ["onnx-test", "/no/such"], ["manifest"]):
        expect_status(bp(*words), 2)
    for command in (["info"], ["ops", "--device"], ["conform"], ["bench"], ["ccl-bench", "--alone", "--device"]):
        expect_status(bp(*command, "orchestra"), 3)
        expect_status(bp(*command, "stage", act="create=absent"), 3)
    for words in (["conform", "stage", "--filter", "plugin/*", "--json", "/no/such/x"],):
        expect_status(bp(*words), 4)


@test
def conform_takes_a_file_here():
    """As for doctor, a file name without a slash is a path too."""
    for name in ("bp_actor.so", "./bp_actor.so"):
        result = expect_status(bp("conform", name, "--filter", "plugin/*", "--list", cwd=STAGE, plugins=None), 0)
        expect("plugin/" in result.out, "no case", result)
    expect_status(bp("conform", "bp_other.so", cwd=STAGE, plugins=None), 3)


@test
def info_of_no_device():
    for name in ("stage:1", "stage:x", "orchestra", "", ":", "stage:99999999999999999999"):
        expect_status(bp("info", name), 3)
    for word in ("./none.so", "none.so", "/no/such/bp_x.so"):
        expect_no_file("info", word, 3)
    result = expect_status(bp("info", "stage", act="create=absent"), 3)
    expect("libhostile.so.2: no such library" in result.err, "no reason", result)
    result = expect_status(bp("info", "stage", act="create=fails"), 3)
    expect("the driver answered -13" in result.err, "no reason", result)


# ---- ops


def rows_of_table():
    """The operators of ops.def, read from the output of the preprocessor."""
    text = "#define OP(op, ...) ROW op\n#define OPA(op, ...) ROW op\n#include <ops/ops.def>\n"
    done = subprocess.run(["cc", "-E", "-P", "-I", os.path.join(ROOT, "sdk"), "-I", os.path.join(BUILD, "sdk"), "-"], input=text,
                          capture_output=True, text=True, check=True)
    return re.findall(r"\bROW (\w+)", done.stdout)


@test
def ops_lists_every_operator():
    names = rows_of_table()
    expect(len(names) >= 10, f"found {names}")
    ops = expect_status(bp("ops", "--json"), 0).json()["ops"]
    expect([op["name"] for op in ops] == names, "other operators in JSON")
    lines = expect_status(bp("ops"), 0).out.split("\n")
    expect([line.split()[0] for line in lines[1:] if line and line[0] != " "] == names,
           "other operators in the table")


@test
def ops_json_describes_operators():
    ops = {op["name"]: op for op in bp("ops", "--json").json()["ops"]}
    conv = ops["conv"]
    expect(list(conv) == ["name", "family", "doc", "aliases", "gradient", "inputs", "outputs",
                          "attributes", "types"],
           f"{list(conv)}")
    expect(conv["family"] == "Convolutions" and conv["gradient"] is True
           and "conv2d" in conv["aliases"], f"{conv}")
    expect([(p["name"], p["kind"], p["type"]) for p in conv["inputs"]]
           == [("x", "one", "T"), ("w", "one", "T"), ("bias", "optional", "T")],
           f"{conv['inputs']}")
    expect(conv["types"] == {"T": ["f16", "bf16", "f32", "f64"]}, f"{conv['types']}")
    expect([(a["name"], a["kind"], a["count"], a["default"]) for a in conv["attributes"]]
           == [("stride", "integers", 3, 1), ("dilation", "integers", 3, 1),
               ("pad", "integers", 6, 0),
               ("groups", "integer", 1, 1)], f"{conv['attributes']}")
    expect(sorted(ops["cast"]["types"]) == ["T", "U"], f"{ops['cast']['types']}")


@test
def ops_of_a_device():
    result = expect_status(bp("ops", "--device", "stage"), 0)
    expect("\nadd " in result.out and "no kernel" in result.out, "other table", result)
    line = {words[0]: " ".join(words[1:]) for words in map(str.split, result.out.split("\n")) if words}
    expect(line["add"] == "1 f32", f"add: {line['add']}", result)
    expect(line["reshape"] == line["split"] == "0 view", "views are not told", result)
    expect(line["linear"] == line["lstm"] == "0 in others", "definitions in others are not told", result)
    expect(line["matmul"] == line["sgd"] == "0 no kernel", "other lack of kernels", result)
    words = list(line.values())
    expect(f"stage:0 has kernels for 1 of {len(rows_of_table())} operators; {words.count('0 view')} more are views, "
           f"which need none, and {words.count('0 in others')} are defined in others: they run where it has "
           "kernels for those" in result.out, "no sum",
           result)
    answer = expect_status(bp("ops", "--device", "stage", "--json"), 0).json()
    kernels = {op["name"]: op["kernels"] for op in answer["ops"]}
    names = kernels["add"].pop("names")
    expect(answer["device"] == "stage:0" and names[0] == {"name": "actor_add_f32", "reason": ""} and
           len(names) == 2 and names[1]["reason"], f"{names}")
    expect(kernels["add"] == {"rows": 1, "runs": "kernel", "types": {"T": ["f32"]}}, f"{kernels}")
    expect(kernels["conv"] == {"rows": 0, "runs": "no", "types": {"T": []}, "names": []}, f"{kernels['conv']}")
    run = {op["name"]: op["kernels"]["runs"] for op in answer["ops"]}
    expect((run["add"], run["reshape"], run["linear"], run["matmul"]) == ("kernel", "view", "others", "no"), f"{run}")
    expect_status(bp("ops", "--device", "orchestra"), 3)


@test
def rows_that_the_user_leaves_out():
    """BP_KERNELS: ops and info show the rows that it leaves out, and the reason."""
    env = {"BP_KERNELS": "-add", "BP_LOG": "info"}
    result = expect_status(bp("ops", "--device", "stage", env=env), 0)
    expect("\nadd " in result.out and "1 more row: left out by BP_KERNELS (-add); 1 for other reasons" in result.out, "no reason", result)
    expect("BP_KERNELS leaves out 1 of 2 kernel rows: " in result.err, "no line in the log", result)
    answer = expect_status(bp("ops", "--device", "stage", "--json", env=env), 0).json()
    kernels = next(op["kernels"] for op in answer["ops"] if op["name"] == "add")
    expect(kernels["rows"] == 0 and kernels["names"][0]["reason"] == "left out by BP_KERNELS (-add)", f"{kernels}")
    expect("left out by BP_KERNELS (-add)" in expect_status(bp("info", "stage", env=env), 0).out, "info: no reason")
    result = expect_status(bp("info", "stage", env={"BP_KERNELS": "-conf,add"}), 0)
    expect(": -conf matches no kernel row" in result.err and "got 'add'" in result.err, "no warning", result)


@test
def ops_of_a_device_and_its_own():
    hostile = os.path.join(BUILD, "tests", "plugins")
    result = expect_status(bp("ops", "--device", "custom", path=hostile, plugins="custom"), 0)
    expect("\nacme.Repeat " in result.out, "it is not listed", result)
    total = len(rows_of_table()) + 1
    expect(f"custom:0 has kernels for 1 of {total} operators, 1 of them its own;" in result.out, "other sum", result)
    answer = expect_status(bp("ops", "--device", "custom", "--json", path=hostile, plugins="custom"), 0).json()
    expect(len(answer["ops"]) == total, f"{len(answer['ops'])} operators")
    own = answer["ops"][-1]
    expect((own["name"], own["kernels"]["rows"], own["kernels"]["runs"]) == ("acme.Repeat", 1, "kernel"), f"{own}")
    expect(own["gradient"] is False and own["kernels"]["types"] == {"T": ["f32"]}, f"{own}")
    expect([a["name"] for a in own["attributes"]] == ["times", "factor"], f"{own['attributes']}")


@test
def ops_page_is_fresh():
    result = expect_status(bp("ops", "--markdown"), 0)
    with open(os.path.join(ROOT, "docs", "ops.md"), encoding="utf-8") as f:
        expect(f.read() == result.out,
               "docs/ops.md is not what `bp ops --markdown` prints: write it anew with "
                                       "./dev bp ops --markdown > docs/ops.md")
    for name in rows_of_table():
        expect(f"\n### {name}\n" in result.out, f"no {name}")


# ---- manifest


def new_library(name="bp_actor.so"):
    directory = os.path.join(WORK, "manifest")
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    return shutil.copy(ACTOR, os.path.join(directory, name))


def read_json(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)


@test
def manifest_is_written_beside_the_library():
    library = new_library()
    directory = os.path.dirname(library)
    result = expect_status(bp("manifest", library), 0)
    expect(not result.out and not result.err, "expected silence", result)
    expect(sorted(os.listdir(directory)) == ["bp_actor.json", "bp_actor.so"],
           f"{os.listdir(directory)}")
    with open(os.path.join(ROOT, "sdk", "include", "backplane", "plugin.h"), encoding="utf-8") as f:
        defines = [line.split() for line in f if line.startswith("#define BP_ABI_M")]
        abi = {define[1]: int(define[2]) for define in defines}
    expect(read_json(os.path.join(directory, "bp_actor.json")) == {
        "manifest": 1, "name": "actor", "kind": "stage", "library": "bp_actor.so",
        "version": "1.2.3", "priority": 0,
        "abi": {"major": abi["BP_ABI_MAJOR"], "minor": abi["BP_ABI_MINOR"]}}, "other manifest")
    plugin = plugin_of(bp("list", "--probe", "--json", path=directory))
    expect(plugin["state"] == "ready", f"the core does not take it: {plugin}")


@test
def manifest_options():
    library = new_library()
    out = os.path.join(os.path.dirname(library), "bp_actor.json")
    expect_status(bp("manifest", "bp_actor.so", "-o", "bp_actor.json", "--priority=-7",
                     "--cpu-feature", "fpu",
                     "--cpu-feature", "sse2", "--sha256", cwd=os.path.dirname(library)), 0)
    manifest = read_json(out)
    with open(library, "rb") as f:
        expect(manifest["sha256"] == hashlib.sha256(f.read()).hexdigest(), "other hash")
    expect(manifest["priority"] == -7 and manifest["cpu_features"] == ["fpu", "sse2"],
           f"{manifest}")
    expect(manifest["library"] == "bp_actor.so", f"{manifest}")
    plugin = plugin_of(bp("list", "--probe", "--json", path=os.path.dirname(library)))
    expect(plugin["state"] == "ready", f"the core does not take it: {plugin}")
    os.unlink(out)
    for args in (["--json"], ["-o", "-"], ["--output=-"]):
        expect(expect_status(bp("manifest", library, *args), 0).json()["name"] == "actor",
               f"{args}")
    expect(not os.path.exists(out), "a file was written")


@test
def manifest_of_other_files():
    work = os.path.dirname(new_library())
    text = os.path.join(work, "text.so")
    with open(text, "w", encoding="ascii") as f:
        f.write("no library\n")
    result = expect_status(bp("manifest", text), 1)
    expect("text.so" in result.err and not os.path.exists(text[:-3] + ".json"),
           "expected a reason, no file", result)
    expect_no_file("manifest", os.path.join(work, "none.so"), 2)
    expect_status(bp("manifest", os.path.join(ROOT, "meson.build")), 2)
    for act, end in (("open=crash", "signal 11"), ("open=end", "exit status 0"),
                     ("entry=crash", "signal 11")):
        result = expect_status(bp("manifest", LIBRARY, "-o", os.path.join(work, "x.json"), act=act),
                               1)
        expect(end in result.err and not os.path.exists(os.path.join(work, "x.json")),
               f"{act}: other end", result)
    expect_status(bp("manifest", LIBRARY, "-o", "/no/such/directory/x.json"), 4)


@test
def manifest_asks_no_more_than_the_table():
    """A plugin that would crash in create, devices or at its end gets a manifest, because only its table is read."""
    for act in ("create=crash", "devices=crash", "close=crash"):
        expect(expect_status(bp("manifest", LIBRARY, "--json", act=act),
                             0).json()["name"] == "actor", act)


# ---- environment variables of the cpu plugin


def cpu_info(**env):
    result = expect_status(bp("info", "cpu", "--json", path="", plugins="cpu", env=env), 0)
    return result.json(), result.err


@test
def cpu_rows_by_level():
    """BP_CPU_ISA limits the rows: each level has the rows of the level below, and the other rows state which level they
    need. A build may lack some levels."""
    best, _ = cpu_info()
    lowest, _ = cpu_info(BP_CPU_ISA="portable")
    above = {row["name"].split("_")[-1] for row in lowest["kernels"]["unusable"]}
    levels = ["portable"] + [level for level in ("avx2", "avx512") if level in above]
    top = levels.index(best["driver"].split()[-1])
    usable = []
    for at, level in enumerate(levels[:top + 1]):
        info, err = cpu_info(BP_CPU_ISA=level)
        kernels = info["kernels"]
        expect(not err and info["driver"].endswith(f"kernels {level}"), level, info["driver"] + err)
        expect(kernels["rows"] == best["kernels"]["rows"], "the list of rows is one", level)
        bad = {row["name"]: row["reason"] for row in kernels["unusable"]}
        expect(len(bad) == kernels["rows"] - kernels["usable"], "each row that cannot run is named", level)
        for name, reason in bad.items():
            last = name.split("_")[-1]
            if last in levels:
                expect(levels.index(last) > at and f"needs {last}" in reason and "BP_CPU_ISA" in reason,
                       f"{level}: {name}", reason)
        expect(f"cpu_exp_{level}" not in bad and "cpu_exp" not in bad, f"{level}: its own rows", sorted(bad))
        for higher in levels[at + 1:]:
            expect(f"cpu_exp_{higher}" in bad, f"{level} runs rows of {higher}", sorted(bad))
        usable.append(kernels["usable"])
    expect(all(low < high for low, high in zip(usable, usable[1:])), "a higher level runs more", usable)
    expect(usable[-1] == best["kernels"]["usable"], "the highest is what there is without a cap", usable)


@test
def cpu_level_that_there_is_not():
    best, _ = cpu_info()
    for level in ("avx3", "AVX2", "avx2 "):
        info, err = cpu_info(BP_CPU_ISA=level)
        expect(err.startswith(f"bp: warning: cpu: BP_CPU_ISA={level} is unknown and ignored; expected portable"),
               "a warning", err)
        expect(err.count("\n") == 1, "one line of it", err)
        expect(info["kernels"] == best["kernels"] and info["driver"] == best["driver"], "nothing else changes", level)


@test
def cpu_library_that_is_not_there():
    """With a wrong path the library's rows are not usable, each row states the reason, and one warning does."""
    best = cpu_info()[0]["kernels"]
    for library in ("DNNL", "OPENBLAS"):
        variable, suffix = f"BP_CPU_{library}", f"_{library.lower()}"
        for path in ("/nowhere/library.so", "library.so", "off"):
            info, err = cpu_info(**{variable: path})
            kernels = info["kernels"]
            lost = {r["name"]: r["reason"] for r in kernels["unusable"] if r["name"].endswith(suffix)}
            others = [r for r in kernels["unusable"] if not r["name"].endswith(suffix)]
            warned = err.count("\n") == 1 and f"warning: cpu: {variable}={path} names no file" in err
            expect(lost and (not err if path == "off" else warned), f"its rows are not usable, which is one warning if {path} is no file", err)
            expect(others == [r for r in best["unusable"] if not r["name"].endswith(suffix)],
                   "other rows stay as they were", others)
            expect(kernels["usable"] == kernels["rows"] - len(lost) - len(others), "fewer rows", kernels["usable"])
            for name, reason in lost.items():
                expect(f"{variable}={path}" in reason, f"{name}: why", reason)
        text = bp("info", "cpu", path="", plugins="cpu", env={variable: "library.so"})
        expect(f"{variable}=library.so" in expect_status(text, 0).out, "the same as text", text)


def set_up():
    shutil.rmtree(WORK, ignore_errors=True)
    os.makedirs(STAGE)
    os.chmod(WORK, 0o755)
    os.chmod(STAGE, 0o755)
    shutil.copy(ACTOR, LIBRARY)
    expect_status(bp("manifest", LIBRARY), 0)


def run(tests):
    print(f"1..{len(tests)}", flush=True)
    failed = 0
    for number, function in enumerate(tests, 1):
        try:
            function()
            print(f"ok {number} {function.__name__}", flush=True)
        except (AssertionError, ValueError, KeyError, OSError, subprocess.TimeoutExpired) as error:
            failed += 1
            print(f"not ok {number} {function.__name__}", flush=True)
            for line in f"{type(error).__name__}: {error}".rstrip().split("\n"):
                print(f"# {line}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    set_up()
    sys.exit(run(TESTS))
