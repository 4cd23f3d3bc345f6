#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that plugins can be written, built and tested with an installed Backplane and a C compiler alone.

    plugins.py ROOT BUILD

Installs into a directory and makes plugins with `bp new-plugin` (new_plugin.py tries its options): also the one that compiles the
portable kernels, of which it builds those that f32 needs, and runs a part of the conformance suite. One TAP line for each.
"""
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

import moved

TYPES = "f32 i8 i16 i32 i64 u8 c128"  # f32, and the types that move data of every size
# A row of the plugin's own, and its kernel.
OWN_ROWS = """/* SPDX-License-Identifier: Apache-2.0 */
OWN_ROW(relu, fast, mydev_relu, BP_M(F32), 0, 0, 0, BP_KERNEL_DETERMINISTIC)
"""
OWN_KERNEL = """
enum bp_status mydev_relu(const struct bp_launch *launch);
enum bp_status mydev_relu(const struct bp_launch *launch)
{
    const float *x = launch->in[0]->data;
    float *y = launch->out[0]->data;

    for (int64_t i = 0; i < launch->out[0]->count; i++) y[i] = x[i] > 0 || x[i] != x[i] ? x[i] : 0;
    return BP_OK;
}
"""


class Installed(moved.Moved):
    """An installation whose bp and pkg-config are found first."""

    def sh(self, folder, text, **env):
        path = f"{os.path.dirname(self.bp_path)}:{os.environ['PATH']}"
        env = {"PATH": path, "PKG_CONFIG_PATH": os.path.join(self.libdir, "pkgconfig"), "BP_PLUGIN_PATH": folder, **env}
        return moved.run("bash", "-ec", text, cwd=folder, env=env)

    def new_plugin(self, name, *options):
        self.bp("new-plugin", name, *options)
        return os.path.join(self.work, name)

    def refuses(self, *arguments):
        """Standard error of a bp that is expected to exit with 2."""
        done = subprocess.run([self.bp_path, *arguments], capture_output=True, text=True, cwd=self.work, check=False)
        moved.expect(done.returncode == 2, f"bp {' '.join(arguments)}: exit status {done.returncode}: {done.stderr}")
        return done.stderr


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as f:
        return f.read()


def variables(installed):
    """pkg-config names the directories of programs, plugins, templates, kernels and pages, and they exist."""
    for name, file in (("bindir", "bp"), ("plugindir", "bp_cpu.json"), ("docdir", "plugin-guide.md"), ("templatedir", "address/plugin.c"),
                       ("templatedir", "handles/memory.c"), ("templatedir", "addon/addon.c"), ("templatedir", "harness/harness.c"), ("kernelsdir", "kernels.mk"), ("kernelsdir", "units/norm_f32.c")):
        path = os.path.join(installed.flags("--variable=" + name)[0], file)
        moved.expect(os.path.exists(path), f"{name}: there is no {path}")


def pages(installed):
    """The pages are installed, their links lead to installed files, and bp names pages that exist."""
    folder = installed.flags("--variable=docdir")[0]
    names = glob.glob(f"{folder}/*.md")
    moved.expect(len(names) > 10, f"{names}")
    for path in names:
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", read(path), flags=re.S)):
            file = os.path.join(folder, target.partition("#")[0])
            moved.expect("://" in target or os.path.exists(file), f"{path}: there is no {target}")
    for command in ("conform", "bench", "new-plugin"):
        text = " ".join(installed.bp(command, "-h").split())
        named = re.findall(r"\S+/[\w-]+\.md", text)
        moved.expect(named and all(os.path.isfile(n) for n in named), f"bp {command} -h names {named}")


def man_pages(installed):
    """There is a man page for bp and for each of its commands, with all of its options."""
    names = re.findall(r"^  ([a-z-]+) ", installed.bp("-h"), re.M)
    moved.expect(len(names) > 8, f"{names}")
    moved.expect(all(n in read(installed.prefix, "share/man/man1/bp.1").replace("\\", "") for n in names), "bp.1 has all commands")
    for name in names:
        page = read(installed.prefix, f"share/man/man1/bp-{name}.1").replace("\\", "")
        options = re.findall(r"^  (-\S.*?)  ", installed.bp(name, "-h"), re.M)
        missing = [o for o in options if f".B {o}\n" not in page]
        moved.expect(options and not missing, f"bp-{name}.1 lacks {missing}")


def sources(installed):
    """The kernels' sources are installed completely, and equal those of the tree."""
    folder = installed.flags("--variable=kernelsdir")[0]
    names = [p for role in ("kernel", "launch") for p in glob.glob(f"{moved.ROOT}/sdk/ops/*/{role}*")]
    names += glob.glob(f"{moved.ROOT}/sdk/dialect/*.[hc]") + glob.glob(f"{moved.ROOT}/sdk/dialect/*.def")
    names += glob.glob(f"{moved.ROOT}/sdk/kit/*.[hc]")
    moved.expect(len(names) > 100, f"only {len(names)} files found")
    for path in names:
        there = os.path.join(folder, os.path.relpath(path, f"{moved.ROOT}/sdk"))
        moved.expect(os.path.exists(there) and read(there) == read(path), f"{there} is missing or differs")


def template(installed, name, *options):
    folder = installed.new_plugin(name, *options)
    installed.sh(folder, f"sh build.sh -Werror -Wpedantic -Wshadow && bp manifest bp_{name}.so")
    result = json.loads(installed.sh(folder, f"bp conform {name} --json - --quick"))
    moved.expect(result["totals"]["pass"] > 1500 and result["rows"] == {"executed": 2, "total": 2},
                 f"{result['totals']}, {result['rows']}")


def address(installed):
    """A new plugin of addresses builds from the installation, and passes the quick cases."""
    template(installed, "adev")


def sanitized(installed):
    """A plugin with sanitizers works with the installed core, if their runtime is preloaded; its errors are reported."""
    folder = installed.new_plugin("sdev")
    preload = "LD_PRELOAD=$(gcc -print-file-name=libasan.so)"
    build = f"sh build.sh -fsanitize=address,undefined && {preload} bp manifest bp_sdev.so"
    installed.sh(folder, build)
    result = json.loads(installed.sh(folder, f"{preload} bp conform sdev --json - --quick --filter 'kernel/add/*' --filter 'memory/*'"))
    moved.expect(result["totals"]["pass"] > 100 and result["rows"]["executed"] == 1, f"{result['totals']}, {result['rows']}")
    said = installed.sh(folder, "bp doctor sdev || true")
    moved.expect("LD_PRELOAD" in said, f"bp doctor does not name the remedy where nothing is preloaded:\n{said}")
    path = os.path.join(folder, "plugin.c")
    text = read(path)
    bad = text.replace("    *out_self = self;\n", "    memset((char *)self + sizeof *self, 0, 1);\n    *out_self = self;\n")
    moved.expect(bad != text, "plugin.c has no place for the error")
    with open(path, "w", encoding="utf-8") as f:
        f.write(bad)
    installed.sh(folder, build + " || true")
    said = installed.sh(folder, f"{preload} bp info sdev 2>&1 || true")
    moved.expect("heap-buffer-overflow" in said and "plugin.c" in said, f"the error is not reported:\n{said}")


def handles(installed):
    """A new plugin of handles builds from the installation, and passes the quick cases."""
    template(installed, "hdev", "--handles")
    info = json.loads(installed.sh(os.path.join(installed.work, "hdev"), "bp info hdev --json"))
    moved.expect("handles" in json.dumps(info), f"bp info does not show handles: {info}")


def engine(installed):
    """A new plugin with an engine builds from the installation, and passes the suite of engines and that of programs."""
    folder = installed.new_plugin("edev", "--engine")
    installed.sh(folder, "sh build.sh -Werror -Wpedantic -Wshadow && bp manifest bp_edev.so")
    result = json.loads(installed.sh(folder, "bp conform edev --json - --filter 'graph/*/sums' --filter 'runtime/program/*'"))
    cases = {c["id"]: c["outcome"] for c in result["cases"] if c["id"].startswith("graph/")}
    moved.expect(len(cases) == 12 and [i for i, o in cases.items() if o == "skip"] == ["graph/damaged/sums"], f"{cases}")
    moved.expect(result["totals"]["pass"] >= 11, f"{result['totals']}")


def kernels(installed):
    """A plugin of under 200 lines takes the portable kernels, compiled from the installation, and they are right."""
    folder = installed.new_plugin("mydev", "--kernels", "portable")
    lines = sum(read(folder, f"mydev.{kind}").count("\n") for kind in "ch")
    moved.expect(lines < 200, f"mydev.c and mydev.h have {lines} lines")
    jobs = len(os.sched_getaffinity(0))
    installed.sh(folder, f"make -j{jobs} KERNELS_TYPES='{TYPES}' KERNELS_CFLAGS=-O0 KERNELS_HOST_CFLAGS=-O0"
                         " CFLAGS='-Wall -Wextra -Werror'")
    result = json.loads(installed.sh(folder, "bp conform mydev --json - --quick --filter 'kernel/*/f32*' --filter 'runtime/*'"))
    moved.expect(result["totals"]["pass"] > 2000 and result["rows"]["executed"] > 250, f"{result['totals']}, {result['rows']}")
    failed = installed.sh(folder, "bp conform mydev --quick --filter 'kernel/exp/f64/*' || true")
    moved.expect("not compiled for f64" in failed, f"a type without kernels is named:\n{failed[-400:]}")


def own_rows(installed):
    """A row of the plugin's own joins the portable row of its operator."""
    folder = os.path.join(installed.work, "mydev")
    with open(os.path.join(folder, "rows.def"), "w", encoding="utf-8") as f:
        f.write(OWN_ROWS)
    with open(os.path.join(folder, "mydev.c"), "a", encoding="utf-8") as f:
        f.write(OWN_KERNEL)
    installed.sh(folder, f"rm kernels/dialect/rows.o && make KERNELS_OWN=rows.def KERNELS_TYPES='{TYPES}' KERNELS_CFLAGS=-O0 KERNELS_HOST_CFLAGS=-O0")
    result = json.loads(installed.sh(folder, "bp conform mydev --json - --quick --filter 'kernel/relu/f32/*'"))
    ids = [c["id"] for c in result["cases"] if c["outcome"] == "pass"]
    moved.expect(any(i.endswith("@mydev_relu_fast") for i in ids) and any(i.endswith("@mydev_relu") for i in ids), f"{ids}")
    operators = json.loads(installed.sh(folder, "bp info mydev --json"))["kernels"]["operators"]
    moved.expect([o["rows"] for o in operators if o["op"] in ("relu", "relu6")] == [2, 1], "bp info counts two rows of relu")


if __name__ == "__main__":
    sys.exit(moved.run_all(Installed, [variables, pages, man_pages, sources, address, sanitized, handles, engine, kernels, own_rows]))
