#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the code blocks of the documents, as readers are expected to do.

    blocks.py ROOT BUILD                  the blocks of all pages
    blocks.py ROOT BUILD PAGE PEER        those of one page, with those that PEER runs

In README.md, CONTRIBUTING.md and docs/*.md, every block that begins with ```sh is run from the root of the repository
with `bash -e` and must exit with status 0. A block that cannot be run (it installs software, takes a long time, needs a
chip) has this line before it:

    <!-- not run: the reason -->

One that needs the packages of a peer has this line, and is run by that peer's test, after the page's other blocks:

    <!-- run by ./dev peers test PEER -->

A page that has blocks of ```output has one after each block that prints. There, a block must print exactly the text of the
block of ```output that follows it, or nothing; `...` stands for any characters but white space and commas.

A block that begins with ```c complete is compiled as C11 without a warning. The one in README.md must equal the example
app byte for byte. A block that begins with ```c from PATH must occur in that file, apart from white space; those of
docs/kernel-guide.md are the whole code of one operator, in less than 60 lines. In blocks, $SCRATCH is a directory for
the commands of one document, and $BUILD is the build directory. The pages of INSTALLED are for those who have
Backplane installed: their blocks run in $SCRATCH, with an installation in PATH and PKG_CONFIG_PATH. A complete `bp conform` of the cpu or the template,
with or without `--quick`, is a step of ./dev test; here only a part of it is run, which reaches no level.
"""
import glob
import os
import re
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"^(?:<!-- not run:(?P<why>.*?)-->\n|<!-- run by \./dev peers test (?P<peer>[\w-]+) -->\n)?(?P<indent> *)"
                   r"```(?P<kind>[^\n]*)\n(?P<text>.*?)^(?P=indent)```$", re.S | re.M)
OUTPUT = re.compile(r"\n*```output\n(?P<text>.*?)^```$", re.S | re.M)

PART = "--quick --filter='[prm]*/*' --filter='!plugin/memory' --filter='!memory/returned/*' --filter='kernel/[ab]*/f32/*'"


INSTALLED = {"docs/add-ons.md", "docs/conformance.md", "docs/engines.md", "docs/kit.md", "docs/plugin-guide.md", "docs/portable-kernels.md", "docs/ten-minutes.md"}


def install(root, build, folder):
    """Installs into a directory; returns the variables that make commands find the installation."""
    subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--destdir", folder], cwd=root, check=True,
                   stdout=subprocess.DEVNULL)
    pc, = glob.glob(f"{folder}/**/backplane.pc", recursive=True)
    bp, = glob.glob(f"{folder}/**/bin/bp", recursive=True)
    return {"PATH": os.path.dirname(bp) + ":" + os.environ["PATH"], "PKG_CONFIG_PATH": os.path.dirname(pc)}


def printed_by(page, block):
    """Returns the text that a block must print; None if the page shows no outputs."""
    if "\n```output\n" not in page:
        return None
    found = OUTPUT.match(page, block.end())
    return found["text"] if found else ""


def is_output(got, expected):
    return re.fullmatch(re.escape(expected).replace(r"\.\.\.", r"[^\s,]+"), got) is not None


def run_shell(text, root, build, scratch, installed, whole):
    """Runs a block; if it is not to be run as a whole, a complete `bp conform` becomes a part of it."""
    text = text if whole else re.sub(r"(bp conform (?:cpu|mydev))(?!.*--(?:suite|filter))(?: --quick| --require \w+)*", r"\1 " + PART, text)
    if build != os.path.join(root, "build"):  # BUILD=DIR ./dev test: replace the directory that the documents name build
        text = re.sub(r"(?<!dev )(?<![\w./$-])build(?=[\s/])", build, text)
    env = dict(os.environ, SOURCE=root, BUILD=build, SCRATCH=scratch, **installed)
    if installed:  # plugins of the tests around are none of the reader's
        env.pop("BP_PLUGIN_PATH", None)
        env.pop("BP_PLUGINS", None)
    return subprocess.run(["bash", "-e", "-c", text], cwd=scratch if installed else root, env=env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900)


def compile_c(text, root, build, scratch):
    command = ["gcc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-x", "c", "-"]
    command += [f"-I{base}/include" for base in (f"{root}/sdk", f"{root}/core", f"{root}/sdk/onnx",
                                              f"{build}/sdk")]
    command += [f"-I{root}/sdk", "-D_GNU_SOURCE"]  # the kit
    return subprocess.run(command, input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def words(text):
    return " ".join(text.split())


def stands_in(text, path, root):
    """Returns the error of a block that must be a copy from a file; None if it is."""
    with open(os.path.join(root, path), encoding="utf-8") as f:
        return None if words(text) in words(f.read()) else f"{path} does not have this:\n{text}"


def whole_operator(text, root):
    """Checks that the blocks of the guide are the whole code of one operator, in less than 60 lines. Returns the error
    or None."""
    pieces = [b for b in BLOCK.finditer(text) if b["kind"].startswith("c from ")]
    shown = {b["kind"].split()[2] for b in pieces}
    name = re.search(r"^ *ACTIVATION\((\w+),", text, re.M)
    lines = sum(b["text"].count("\n") for b in pieces)
    files = [p for d in ("core", "sdk", "plugins") for p in glob.glob(f"{root}/{d}/**/*.*", recursive=True)
             if p.endswith((".c", ".h", ".def")) and not p.endswith("/report/models.def")
             and not re.search("/sdk/onnx/|/plugins/(?:npu|mlu|ipu|openvino)/", p)]  # rows of vendors' libraries
    if not name or not 5 < lines < 60:
        return f"an operator in less than 60 lines: found {name and name[1]}, {lines} lines"
    has = set()
    for path in files:
        with open(path, encoding="utf-8") as f:
            if re.search(rf"\b(?:bp_grad_)?{name[1]}\b", f.read()):
                has.add(os.path.relpath(path, root))
    return None if has == shown else f"{name[1]} is in {sorted(has)}, shown is {sorted(shown)}"


def check_shell(text, expected, *where):
    """Runs a block of commands; returns the error or None. expected: what it must print, or None for anything."""
    try:
        done = run_shell(text, *where, expected is not None)
    except subprocess.TimeoutExpired:
        return "it took longer than 900 s"
    if done.returncode:
        return f"exit status {done.returncode}\n{text}{done.stdout}"
    if expected is not None and not is_output(done.stdout, expected):
        return f"it prints\n{done.stdout}and not\n{expected}"
    return None


def check(path, block, root, build, scratch, installed, expected=None):
    """Returns (action, error or None) for a block; None for a block that is only shown."""
    kind = block["kind"].split()
    if block["why"] is not None and not block["why"].strip():
        return "is marked", "`not run` needs a reason"
    if kind[:1] == ["sh"] and block["why"] is None:
        return "runs", check_shell(block["text"], expected, root, build, scratch, installed)
    if kind[:2] == ["c", "from"] and len(kind) == 3:
        return "is a copy", stands_in(block["text"], kind[2], root)
    if kind == ["c", "complete"]:
        done = compile_c(block["text"], root, build, scratch)
        with open(os.path.join(root, "examples", "app.c"), encoding="utf-8") as f:
            if path == "README.md" and f.read() != block["text"]:
                return "compiles", "it differs from examples/app.c"
        return "compiles", done.returncode and done.stdout
    return None


def check_pages(names, root, build, installed, peer=None):
    """Checks all blocks, also those that a peer runs; returns the numbers of blocks, of failures, and of apps in
    README.md."""
    count = failed = apps = 0
    for path in names:
        with open(os.path.join(root, path), encoding="utf-8") as f:
            text = f.read()
        # Inside the build directory, because libraries built here are loaded, and other users must not be able to write
        # there.
        with tempfile.TemporaryDirectory(dir=build, prefix="docs-") as scratch:
            for block in BLOCK.finditer(text):
                if block["peer"] not in (None, peer):
                    continue
                result = check(path, block, root, build, scratch, installed if path in INSTALLED else {}, printed_by(text, block))
                if not result:
                    continue
                count += 1
                apps += path == "README.md" and result[0] == "compiles"
                failed += bool(result[1])
                line = text.count("\n", 0, block.start("kind")) + 1
                print(f"{'not ok' if result[1] else 'ok'} {count} - {path}:{line} {result[0]}", flush=True)
                for note in (result[1] or "").splitlines():
                    print("#  ", note)
    return count, failed, apps


def main(root, build, page=None, peer=None):
    root, build = os.path.abspath(root), os.path.abspath(build)
    if page:
        with tempfile.TemporaryDirectory(dir=build, prefix="docs-") as tree:
            count, failed, _ = check_pages([page], root, build, install(root, build, tree), peer)
        print(f"1..{count}")
        return 1 if failed else 0
    names = ["README.md", "CONTRIBUTING.md"] + sorted(os.path.relpath(p, root) for p in glob.glob(f"{root}/docs/*.md"))
    with tempfile.TemporaryDirectory(dir=build, prefix="docs-") as tree:
        count, failed, apps = check_pages(names, root, build, install(root, build, tree))
    count += 2
    with open(os.path.join(root, "docs", "kernel-guide.md"), encoding="utf-8") as f:
        wrong = whole_operator(f.read(), root)
    failed += bool(wrong)
    print(f"{'not ok' if wrong else 'ok'} {count - 1} - docs/kernel-guide.md shows a whole operator")
    if wrong:
        print("#  ", wrong)
    failed += apps != 1
    print(f"{'ok' if apps == 1 else 'not ok'} {count} - README.md has one complete app\n1..{count}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
