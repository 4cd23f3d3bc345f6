#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the reports of `bp` about plugins that harm its process, and about one that cannot be probed.

    rogues.py ROOT BUILD BP ACTOR

The arguments are those of commands.py. The plugins are those of tests/plugins; BP_FAKE selects the behaviour of h_rogue
(tests/devices/fake.h).
"""
import os
import shutil
import subprocess
import sys

from commands import (BP, BUILD, Result, bp, expect, expect_status, plugin_of, run,
                      sanitizer_options)

HOSTILE = os.path.join(BUILD, "tests", "plugins")
TESTS = []


def test(function):
    TESTS.append(function)
    return function


# The behaviours of a plugin that harm its process other than by ending it (tests/devices/fake.h), and the expected
# reason.
ROGUES = [
    ("destroy=exit", "lost in destroy"),
    ("destroy=hang", "lost in destroy"),
    ("atexit=hang", "after destroy, in an exit handler"),
    ("close=crash", "after destroy, in an exit handler"),
    ("create=fork", "forked in step create"),
    ("create=forks", "forked in step create"),
    ("destroy=fork", "forked in step exit"),
    ("create=daemon", "left 1 process running"),
]


@test
def rogues_are_found_by_doctor_and_probe():
    hostile = {"path": HOSTILE, "plugins": "h_rogue", "cwd": BUILD}
    plugin = plugin_of(expect_status(bp("doctor", "--json", "h_rogue", **hostile), 0))
    expect(plugin["state"] == "ready", f"{plugin}")
    for act, reason in ROGUES:
        env = {"BP_FAKE": act, "ASAN_OPTIONS": sanitizer_options("handle_segv=0")}
        waits = ["--timeout", "4" if "hang" in act else "60"]
        result = expect_status(bp("doctor", "--json", *waits, env=env, **hostile), 1)
        plugin = plugin_of(result)
        expect(plugin["state"] == "broken" and reason in plugin["reason"],
               f"{act}: expected '{reason}'", result)
        expect(plugin["name"] == "h_rogue" and plugin["version"] == "0.1.0", act, result)
    result = expect_status(bp("list", "--probe", "--json", env={"BP_FAKE": "create=forks"},
                              **hostile), 0)
    expect("forked in step create" in plugin_of(result)["reason"], "no fork", result)


# The step in which a plugin crashes in a command that loads plugins into its own process, and the expected message.
CRASHES = [
    ("open", "in open of plugin h_rogue; bp doctor h_rogue says more"),
    ("create", "in create of plugin h_rogue; bp doctor h_rogue says more"),
    ("device", "in device (h_rogue:0) of plugin h_rogue; bp doctor h_rogue says more"),
    ("destroy", "in destroy of plugin h_rogue; bp doctor h_rogue says more"),
    ("atexit", "as the process ended: in an exit handler or a destructor of a library"),
]


@test
def a_crash_names_the_plugin_and_the_step():
    """The command prints one line, and its exit status shows the signal."""
    hostile = {"path": HOSTILE, "plugins": None, "cwd": BUILD}
    options = {"ASAN_OPTIONS": sanitizer_options("handle_segv=0:handle_abort=0")}
    for step, said in CRASHES:
        result = bp("info", "h_rogue", env={"BP_FAKE": f"{step}=crash", **options}, **hostile)
        expect(result.status == -11, f"{step}: expected signal 11", result)
        want = "bp info: killed by signal 11 (Segmentation fault)"
        expect(result.err.count("\n") == 1 and result.err.startswith(want) and said in result.err,
               f"{step}: expected '{said}'", result)
    result = bp("bench", "h_create_signal", env=options, **hostile)
    want = ("bp bench: killed by signal 6 (Aborted) in create of plugin h_create_signal; "
            "bp doctor h_create_signal says more\n")
    expect(result.status == -6 and result.err == want, "other words", result)


@test
def without_descriptors_nothing_is_said_of_the_plugin():
    """The cause lies in bp: the message says so and gives advice, and the exit status is that of a failure of bp
    itself."""
    for command in ("list --probe", "doctor"):
        for form in ("", " --json"):
            script = f"ulimit -n 7; exec {BP} {command}{form}"
            env = {**os.environ, "BP_PLUGIN_PATH": HOSTILE, "BP_PLUGINS": "h_good"}
            done = subprocess.run(["/bin/sh", "-c", script], env=env, capture_output=True,
                                  text=True, timeout=120)
            result = Result(done, 0)
            expect_status(result, 4)
            said = " ".join((result.out + result.err).split())
            for word in ("Too many open files", "ulimit -n", "unprobed"):
                expect(word in said, f"{command}{form}: expected '{word}'", result)
            expect("see that /proc" not in said, f"{command}{form}: wrong advice", result)


@test
def doctor_prints_each_plugin_when_it_is_known():
    """The first plugin is shown while the last one still hangs."""
    where = os.path.join(BUILD, "tests", "tools", "early")
    shutil.rmtree(where, ignore_errors=True)
    os.makedirs(where)
    os.chmod(where, 0o755)
    for name in ("h_good", "h_rogue"):
        for end in ("so", "json"):
            shutil.copy(os.path.join(HOSTILE, f"bp_{name}.{end}"), where)
    env = {k: v for k, v in os.environ.items() if not k.startswith("BP_")}
    env.update(BP_PLUGIN_PATH=where, BP_PLUGINS="h_*", BP_FAKE="h_rogue:create=hang")
    child = subprocess.Popen([BP, "doctor", "--timeout", "100"], env=env, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    for line in child.stdout:
        if "h_good:0, known after" in line:
            break
    alive = child.poll() is None
    child.kill()
    child.communicate()
    expect(alive, "the first plugin was shown at the end only")


if __name__ == "__main__":
    sys.exit(run(TESTS))
