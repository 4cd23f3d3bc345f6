#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks `bp new-plugin` with an installed Backplane: each combination of options builds, new plugins reach their level, their
CI files run, and wrong requests leave nothing behind.

    new_plugin.py ROOT BUILD

Prints TAP.
"""
import glob
import itertools
import json
import os
import re
import subprocess
import sys

import moved
import plugins

sys.path[:0] = [os.path.join(moved.ROOT, "tests", part) for part in ("tools", "targets")]
import ci_steps  # noqa: E402
import kinds  # noqa: E402

STRICT = "-O0 -Werror -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes"
# Profiles a sum on a second stream, and prints the submissions and the work of the device.
PROFILED = r"""
#include <backplane/backplane.h>
#include <backplane/profile.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    struct bp_profiler_options options = {.size = sizeof options, .path = "profile"};
    struct bp_profile_event e = {.size = sizeof e};
    const float data[3] = {1, 2, 3};
    const int64_t shape[1] = {3};
    float result[3];
    struct bp_core *core;
    struct bp_device *device;
    struct bp_stream *first, *stream;
    struct bp_tensor *x, *sum = NULL;
    struct bp_profiler *profiler;
    struct bp_profile *profile;

    if (argc != 2 || bp_core_create(NULL, &core) || bp_device_create(core, argv[1], &device)
        || bp_stream_create(device, &first) || bp_stream_create(device, &stream) || bp_profiler_start(&options, &profiler)
        || bp_tensor_create(device, BP_F32, 1, shape, &x) || bp_tensor_write(stream, x, data, sizeof data)
        || bp_op_add(bp_stream_scope(stream), x, x, &sum) || bp_tensor_read(stream, sum, result, sizeof result)
        || bp_profiler_stop(profiler) || bp_profile_open("profile", &profile))
        return fprintf(stderr, "%s\n", bp_error_message()), 1;
    for (uint64_t i = 0; i < bp_profile_events(profile); i++)
        if (!bp_profile_get_event(profile, i, &e) && e.tag && e.end_ns >= e.begin_ns && e.stream == bp_stream_number(stream))
            printf("%llu %s %s\n", (unsigned long long)e.tag, bp_profile_kind_name(e.kind), e.on_device ? "device" : e.name);
    return 0;
}
"""
# A source of Backplane whose build does nothing, and the commands that would install it.
FAKE_DEV = "#!/bin/sh\necho dev $1 in $(basename \"$(dirname \"$0\")\"), umask $(umask)\nmkdir $(dirname $0)/build\n"
FAKE_COMMAND = "#!/bin/sh\necho {0} \"$1\"\n"


def write(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    os.chmod(path, 0o755)


def listing(folder):
    return sorted(os.path.join(d, n) for d, dirs, names in os.walk(folder) for n in dirs + names)


def refused(installed):
    """Names and options that cannot be used, and directories that cannot be written, end with 2 and leave nothing."""
    def refuses(words, *arguments):
        before = listing(installed.work)
        said = installed.refuses("new-plugin", *arguments)
        moved.expect(words in said, f"bp new-plugin {' '.join(arguments)}: expected '{words}', got: {said}")
        moved.expect(listing(installed.work) == before, f"{' '.join(arguments)}: {listing(installed.work)}")

    for name in ("", "1dev", "MyDev", "my-dev", "../up", "_dev", "a" * 32):
        refuses("letters", name)
    for name in [*kinds.KINDS, "openvino", "sim", "net_ucx", "ccl", "engine", "portable", "bp"]:
        refuses("reserved", name)
    for options in itertools.combinations(("--addresses", "--handles", "--graph-only"), 2):
        refuses("choose one", "both", *options)
    refuses("without kernels", "both", "--graph-only", "--kernels", "portable")
    for option in ("--ccl", "--profiler"):
        refuses("works within its calls", "both", "--kernels", "portable", option)
    for option in ("--handles", "--engine", "--ccl", "--profiler", "--graph-only", "--addresses"):
        refuses("without a device", "both", "--add-on", option)
    refuses("expected `--kernels portable`", "both", "--kernels", "fast")
    refuses("--sdk", "both", "--sdk", "a'b")
    refuses("value", "both", "--kernels")
    folder = installed.new_plugin("kept")
    for output in ("kept", "kept/", "kept/plugin.c"):
        refuses("not overwritten", "kept", "--output", output)
    refuses("cannot be created", "kept", "--output", "kept/plugin.c/under")
    refuses("cannot be created", "kept", "--output", "absent/under")
    refuses("cannot be created", "kept", "--output", "/proc/under")
    full = subprocess.run(["bash", "-c", "trap '' XFSZ; ulimit -f 1; exec \"$0\" new-plugin big", installed.bp_path],
                          cwd=installed.work, capture_output=True, text=True, check=False)
    moved.expect(full.returncode == 4 and "File too large" in full.stderr, f"{full.returncode}: {full.stderr}")
    os.mkdir(os.path.join(installed.work, "here"))
    there = subprocess.run([installed.bp_path, "new-plugin", "big", "--output", "."], cwd=f"{installed.work}/here",
                           capture_output=True, text=True, check=False)
    moved.expect(there.returncode == 2 and "cannot be created" in there.stderr, f"{there.returncode}: {there.stderr}")
    moved.expect(sorted(os.listdir(installed.work)) == ["here", "kept"] and not os.listdir(f"{installed.work}/here"),
                 f"left behind: {listing(installed.work)}")
    os.symlink("/nowhere", os.path.join(installed.work, "link"))
    refuses("not overwritten", "link")
    os.unlink(os.path.join(installed.work, "link"))
    os.mkdir(os.path.join(installed.work, "empty"))
    installed.bp("new-plugin", "kept", "--output", "empty/")
    moved.expect([p.replace("/empty/", "/kept/") for p in listing(f"{installed.work}/empty")] == listing(folder), "an empty directory")


def combinations():
    yield ["--addresses"]
    for options in itertools.product(("", "--handles", "--graph-only"), ("", "--engine"), ("", "--ccl"), ("", "--profiler")):
        yield [o for o in options if o]
    for kind, engine in itertools.product(("", "--handles"), ("", "--engine")):
        yield [o for o in (kind, engine, "--kernels", "portable") if o]
    yield ["--add-on"]


def readme_lists(folder, files):
    """Whether the table of a plugin's README has each of these files, and no others."""
    named = re.findall(r"`([^`]+)`", "".join(re.findall(r"^\| (`.*?) \|", plugins.read(folder, "README.md"), re.M)))
    return sorted(named) == sorted({f.split("/")[0] if f.startswith(".github") else f for f in files} - {"README.md"})


def readme_commands(folder):
    """The commands of a plugin's README, without the last one, which runs the suite."""
    block, = re.findall(r"```sh\n(.*?)```", plugins.read(folder, "README.md"), re.S)
    *lines, last = block.splitlines()
    moved.expect(last.startswith("bp conform"), f"{folder}: README.md ends its commands with {last}")
    return "\n".join(lines)


def builds(installed):
    """Every combination of options is a tree that compiles without a warning, names itself only, lists its files, and has readable CI files."""
    number = 0
    for number, options in enumerate(combinations()):
        name = f"dev{number}"
        wrote = json.loads(installed.bp("new-plugin", name, "--json", *options))
        folder = os.path.join(installed.work, name)
        files = [p for p in listing(folder) if os.path.isfile(p)]
        moved.expect(sorted(wrote["files"]) == sorted(os.path.relpath(p, folder) for p in files), f"{wrote}: {files}")
        moved.expect(readme_lists(folder, wrote["files"]), f"{options}: the table of README.md differs from {wrote['files']}")
        for path in files:
            text = plugins.read(path)
            wrong = re.search(r"template|/\*[-+] |#[-+] |@sdk@", os.path.basename(path) + text, re.I)
            moved.expect(not wrong, f"{options}: {path} has '{wrong and wrong[0]}'")
        for path in (f"{folder}/.gitlab-ci.yml", f"{folder}/.github/workflows/conformance.yml"):
            moved.expect(any("bp conform" in s for s in ci_steps.scripts(path)), f"{options}: {path} runs no suite")
        given = {k: v for k, v in ci_steps.read(f"{folder}/.github/workflows/conformance.yml")[0].items() if k.startswith("BACKPLANE")}
        settings = set(re.findall(r"BACKPLANE_[A-Z]+", plugins.read(folder, "ci", "sdk.sh"))) - {"BACKPLANE_PREFIX"}
        moved.expect(given == {s: f"${{{{ vars.{s} }}}}" for s in settings}, f"ci/sdk.sh reads {settings}, GitHub passes on {given}")
        if "--kernels" in options:
            headers = f"-I{installed.flags('--variable=kernelsdir')[0]}"
            installed.sh(folder, f"cc -std=c11 -D_GNU_SOURCE -fPIC {STRICT} {headers} $(pkg-config --cflags backplane) -fsyntax-only *.c")
        else:
            installed.sh(folder, f"sh build.sh {STRICT}")
    moved.expect(number > 28, f"only {number} combinations")


def steps(installed, name, file, *options):
    """Runs a CI file of a new plugin; returns the plugin's directory and the output."""
    folder = installed.new_plugin(name, *options)
    trusted = os.path.join(installed.work, f"{name}-installed")
    run = f"{sys.executable} {moved.ROOT}/tests/tools/ci_steps.py {file} BP_PLUGIN_PATH={trusted}"
    return folder, installed.sh(folder, run)


def github(installed):
    """GitHub's steps of a plugin without kernels build it, and the whole suite grants it the level core."""
    folder, said = steps(installed, "gdev", ".github/workflows/conformance.yml", "--graph-only")
    moved.expect("uses Backplane" in said and re.search("^level core", said, re.M), said[-800:])
    moved.expect(all(os.path.getsize(f"{folder}/report.{kind}") > 1000 for kind in ("xml", "html")), "reports")


def gitlab(installed):
    """GitLab's steps of an add-on build it, and its row passes; a row that is wrong makes them fail."""
    folder, said = steps(installed, "mine", ".gitlab-ci.yml", "--add-on")
    installed.sh(folder, readme_commands(folder))
    moved.expect("uses Backplane" in said and re.search("^[1-9][0-9]* pass", said, re.M), said[-800:])
    text = plugins.read(folder, "mine.c").replace("+ a->b)) / 2", "+ a->b)) / 3")
    write(f"{folder}/mine.c", text)
    try:
        installed.sh(folder, f"{sys.executable} {moved.ROOT}/tests/tools/ci_steps.py .gitlab-ci.yml BP_PLUGIN_PATH={installed.work}/mine-installed")
    except moved.Failed as failed:
        moved.expect("fail  kernel/mine.SquarePlus" in str(failed), str(failed)[-800:])
    else:
        raise moved.Failed("a wrong row passes")


def quick(installed, name, options, *arguments):
    folder = installed.new_plugin(name, *options)
    installed.sh(folder, readme_commands(folder))
    report = json.loads(installed.sh(folder, f"bp conform {name} --json - --quick {' '.join(arguments)}"))
    return folder, report["totals"]


def collectives(installed):
    """The collectives of new plugins, with addresses and with handles, pass cases of each call; a wrong sum fails."""
    calls = "--suite ccl --filter 'ccl/[a-z]*/f32*' --filter 'ccl/send/*' --filter 'ccl/abort/*' --filter 'ccl/death/*'"
    _, totals = quick(installed, "cdev", ["--ccl"], calls)
    moved.expect(totals["pass"] > 20, f"{totals}")
    folder, totals = quick(installed, "chdev", ["--ccl", "--handles", "--engine"], calls)
    moved.expect(totals["pass"] > 20, f"{totals}")
    path = os.path.join(folder, "ccl.c")
    write(path, plugins.read(path).replace("float sum = 0;", "float sum = 1;"))
    said = installed.sh(folder, "sh build.sh -O0; bp conform chdev --quick --suite ccl --filter 'ccl/all_reduce/f32-sum/*' || true")
    moved.expect(re.search(r"\b[1-9]\d* fail", said), f"the plugin's own sum is not used:\n{said[-400:]}")


def profiler(installed):
    """New plugins with a profiler hand over a record of each copy and launch, with the call that submitted it."""
    want = {("submit", "copy_in"), ("copy", "device")}, {("submit", "add"), ("kernel", "device")}, {("submit", "copy_out"), ("copy", "device")}
    for name, options in (("pdev", ["--profiler"]), ("pgdev", ["--profiler", "--graph-only", "--ccl"])):
        folder, totals = quick(installed, name, options, "--filter 'kernel/add/f32/*'")
        moved.expect(totals["pass"] > 10, f"{totals}")
        write(f"{installed.work}/profiled.c", PROFILED)
        said = installed.sh(installed.work, "cc profiled.c -o profiled $(pkg-config --cflags --libs backplane)"
                            f" -Wl,-rpath,$(pkg-config --variable=libdir backplane) && {installed.work}/profiled {name}", BP_PLUGIN_PATH=folder)
        lines = [line.split() for line in said.splitlines()]
        tags = sorted({int(line[0]) for line in lines})
        found = tuple({tuple(line[1:]) for line in lines if int(line[0]) == tag} for tag in tags)
        moved.expect(found == want, f"{options}: {said}")
        rows = json.loads(installed.bp("trace", "profile", "--json", "-"))["rows"]
        moved.expect({r["name"] for r in rows if r["by"] == "op"} == {"add", "copy_in", "copy_out"}, f"{options}: {rows}")


def sdk(installed):
    """ci/sdk.sh gets the source from git or an archive, and says what is missing; with an installed Backplane it does nothing."""
    folder = installed.new_plugin("sdev", "--sdk", "/nowhere/backplane.tar.gz")
    moved.expect("/nowhere/backplane.tar.gz" in plugins.read(folder, "ci", "sdk.sh"), "--sdk is not in ci/sdk.sh")
    folder = installed.new_plugin("tdev")
    tools, source = os.path.join(installed.work, "tools"), os.path.join(installed.work, "backplane")
    for path in (tools, source):
        os.mkdir(path)
    for name in ("meson", "ldconfig", "pkg-config"):
        write(f"{tools}/{name}", FAKE_COMMAND.format(name) + ("exit 1\n" if name == "pkg-config" else ""))
    write(f"{source}/dev", FAKE_DEV)
    env = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "GIT_CONFIG_GLOBAL": "/dev/null", "TMPDIR": installed.work}
    subprocess.run(["tar", "-czf", "source.tar.gz", "backplane"], cwd=installed.work, check=True)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@localhost"]
    for command in (["init", "-q"], ["add", "dev"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *command], cwd=source, check=True, env=env)
    write(f"{source}/dev", FAKE_DEV.replace("dev $1", "tagged dev $1"))
    for command in (["commit", "-qam", "second"], ["tag", "later"], ["reset", "-q", "--hard", "HEAD~1"]):
        subprocess.run([*git, *command], cwd=source, check=True, env=env)
    for url, ref, built in ((f"{installed.work}/source.tar.gz", "", "dev build in backplane"), (f"file://{source}", "", "dev build in source"),
                            (f"file://{source}", "later", "tagged dev build in source"), ("", "", "")):
        done = subprocess.run(["sh", "ci/sdk.sh"], cwd=folder, env={**env, "BACKPLANE_URL": url, "BACKPLANE_REF": ref}, capture_output=True,
                              text=True, check=False)
        if url:
            moved.expect(done.stdout.splitlines() == ["pkg-config --exists", f"{built}, umask 0022", "meson install", "ldconfig ",
                          f"sdk.sh: installed Backplane from {url}"],
                         f"{url}: {done.stdout}{done.stderr}")
        else:
            moved.expect(done.returncode == 1 and "BACKPLANE_URL" in done.stderr, f"{done.returncode}: {done.stderr}")
    subprocess.run(["tar", "-czf", "source.tar.gz", "tools"], cwd=installed.work, check=True)
    done = subprocess.run(["sh", "ci/sdk.sh"], cwd=folder, env={**env, "BACKPLANE_URL": "../source.tar.gz"}, capture_output=True,
                          text=True, check=False)
    moved.expect(done.returncode == 1 and "expected bin/bp" in done.stderr, f"{done.returncode}: {done.stderr}")
    moved.expect(not glob.glob(f"{installed.work}/tmp.*"), f"left behind: {os.listdir(installed.work)}")
    moved.expect("uses Backplane" in installed.sh(folder, "sh ci/sdk.sh"), "an installed Backplane is not used")


def archive(installed):
    """An archive of an installed Backplane in the repository: GitHub's steps need no variable, and build and run with it."""
    folder, tools = installed.new_plugin("kdev"), os.path.join(installed.work, "absent")
    prefix, trusted = os.path.join(installed.work, "unpacked"), os.path.join(installed.work, "kdev-installed")
    subprocess.run(["tar", "-czf", f"{folder}/ci/backplane.tar.gz", "-C", installed.prefix, "."], check=True)
    os.mkdir(tools)
    write(f"{tools}/pkg-config", f"#!/bin/sh\n[ -e '{prefix}/bin/bp' ] || exit 1\nexec /usr/bin/pkg-config \"$@\"\n")
    # --require needs all cases: the test `github` runs them.
    path = os.path.join(folder, ".github/workflows/conformance.yml")
    write(path, plugins.read(path).replace("--require core", "--quick --filter 'kernel/add/*'"))
    config = os.path.relpath(os.path.join(installed.libdir, "pkgconfig"), installed.prefix)
    run = f"{sys.executable} {moved.ROOT}/tests/tools/ci_steps.py .github/workflows/conformance.yml BP_PLUGIN_PATH={trusted}"
    said = installed.sh(folder, run, PATH=f"{tools}:{prefix}/bin:{os.environ['PATH']}", PKG_CONFIG_PATH=f"{prefix}/{config}",
                        BACKPLANE_PREFIX=prefix)
    moved.expect("installed Backplane from ci/backplane.tar.gz" in said and re.search("^[1-9][0-9]* pass", said, re.M), said[-800:])


if __name__ == "__main__":
    sys.exit(moved.run_all(plugins.Installed, [refused, builds, github, gitlab, collectives, profiler, sdk, archive]))
