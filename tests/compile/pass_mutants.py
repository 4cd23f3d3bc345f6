#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the tests of the compiler's passes: each rule of tests/mutants/passes.py is broken once, in a copy of its source
file, and the program of the rule must notice.

    pass_mutants.py ROOT BUILD

The hash of the tree chooses SOME of the rules; LARGE_TESTS=1 tries all, MUTANTS=PATTERN those whose name or program has
the pattern of a file name. The unbroken programs are tests of their own.
"""
import fnmatch
import glob
import os
import subprocess
import sys

ROOT, BUILD = (os.path.abspath(a) for a in sys.argv[1:3])
sys.path[:0] = [os.path.join(ROOT, "tests", "mutants"), os.path.join(ROOT, "tests", "style")]
from every import some, tree_hash  # noqa: E402
from mutate import Core, run_all  # noqa: E402
from passes import PASSES  # noqa: E402
from style import Tree  # noqa: E402

SOME = 6  # rules of a run
CORE = Core(ROOT, BUILD, "libbackplane.so", ("compile", "pass_mutants"))
HERE = os.path.join(BUILD, "tests", "compile")
# Programs that are no test_pass_NAME on the cpu plugin: their names, the folders of their plugins, and their devices.
PROGRAMS = {"engine": ("test_engine", ["tests/plugins/engined"], ""),
            "engine_refit": ("test_engine_refit", ["tests/plugins/engined"], ""),
            "sim_engine": ("test_sim_engine", ["tests/plugins/simengined"], "sim:0"),
            "layout_rows": ("test_layout_rows", ["plugins/cpu", "tests/plugins/blocked"], ""),
            "graph_only": ("test_graph_only", ["tests/plugins/graphonly", "plugins/cpu"], ""),
            "engine_updates": ("test_engine_updates", ["tests/plugins/engined"], ""),
            "engine_state": ("test_engine_state", ["tests/plugins/engined"], ""),
            "engine_cancel": ("test_engine_cancel", ["tests/plugins/engined"], "")}
CPU = ["plugins/cpu", "tests/plugins/blocked"]


def chosen():
    if os.environ.get("MUTANTS"):
        return [p for p in PASSES if any(fnmatch.fnmatch(text, os.environ["MUTANTS"]) for text in (p[0], p[4]))]
    if os.environ.get("LARGE_TESTS"):
        return PASSES
    seed = int(os.environ.get("MUTANTS_SEED") or tree_hash(Tree(ROOT)))
    print(f"# MUTANTS_SEED={seed}: {SOME} of {len(PASSES)}", flush=True)
    return some(PASSES, SOME, seed)


def attempt(number, path, old, new, program):
    result = os.path.join(CORE.folder, str(number))
    test, plugins, device = PROGRAMS.get(program, (f"test_pass_{program}", CPU, ""))
    subprocess.run([CORE.compiler(), *CORE.sanitizers(), CORE.broken(number, path, old, new),
                    *sorted(glob.glob(os.path.join(HERE, f"{test}.p", "*.c.o"))), os.path.join(HERE, "libpass_kit.a"),
                    os.path.join(BUILD, "core", "libbackplane_parts.a"), "-Wl,--strip-debug", "-lcriterion", "-lltdl", "-lcjson", "-ldl", "-lm",
                    "-pthread", "-o", result], cwd=BUILD, check=True)
    env = {k: v for k, v in os.environ.items() if not k.startswith("BP_")}
    env.update(BP_PLUGIN_PATH=":".join(os.path.join(BUILD, folder) for folder in plugins), BP_FALLBACK="allow", BP_VALIDATE="passes,arena")
    if device:
        env["TEXT_DEVICE"] = device
    try:
        done = subprocess.run([result, "--tap=-", "-j1"], capture_output=True, text=True, timeout=120, env=env, errors="replace")
    except subprocess.TimeoutExpired:
        return True, "it came to no end"
    finally:
        os.unlink(result)
    failed = [line for line in done.stdout.splitlines() if line.startswith("not ok")]
    if done.returncode and not failed:
        return False, f"the program failed without a failed test: {done.stderr[-200:]}"
    return bool(failed), failed[0].split("  (")[0] if failed else f"no test of {program} noticed"


sys.exit(run_all(chosen(), attempt))
