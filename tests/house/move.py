#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Moves files by a table, and has every file that names one follow: includes, lists of the build, the style tests' tables,
mutants, pages. It changes nothing else.

    move.py TABLE      in the root of a clean tree. Lines of TABLE: OLD NEW, both from the root; # begins a comment.
"""
import os
import re
import subprocess
import sys

BASES = ("core", "core/include", "sdk", "sdk/include", "")  # where includes are looked for after the file's own folder
INCLUDE = re.compile(r'^(\s*#\s*include\s+["<])([^">]+)([">])', re.M)
TEXT = (".c", ".h", ".def", ".py", ".txt", ".md", ".build", ".in", ".cl", ".cu", ".hip")


def tracked():
    return subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout.split()


def read_table(path):
    with open(path, encoding="utf-8") as f:
        rows = [line.split() for line in f if line.strip() and not line.startswith("#")]
    return dict(rows)


def included(path, name, known):
    """(base, file) that an include of a file means, or None: a header of the system."""
    for base in (os.path.dirname(path), *BASES):
        full = os.path.normpath(os.path.join(base, name))
        if full in known:
            return base, full
    return None


def includes_of(path, text, moved, known):
    """The text with its includes as they are after the moves."""
    def follow(match):
        found = included(path, match.group(2), known)
        if not found or (found[1] not in moved and (path not in moved or found[0] != os.path.dirname(path))):
            return match.group()
        base = os.path.dirname(moved.get(path, path)) if found[0] == os.path.dirname(path) else found[0]
        name = os.path.relpath(moved.get(found[1], found[1]), base or ".")
        return match.group(1) + name + match.group(3)
    return INCLUDE.sub(follow, text)


def named(text, moved, top):
    """The text in which files are named by their new paths, from the root or from a folder."""
    for old, new in moved.items():
        if not old.startswith(top):
            continue
        old, new = old[len(top):], new[len(top):]
        text = re.sub(rf"(?<![\w/.-])((?:\.\./)*){re.escape(old)}(?![\w.])", rf"\1{new}", text)
    return text


def bare_names(moved, known):
    """{old: new} of names without folder that no file has after the moves, and that one file had before."""
    before = [os.path.basename(path) for path in known]
    after = {os.path.basename(moved.get(path, path)) for path in known}
    pairs = {os.path.basename(old): os.path.basename(new) for old, new in moved.items()}
    return {old: new for old, new in pairs.items() if before.count(old) == 1 and old not in after}


def follows(path, text, moved, known):
    if path.endswith((".c", ".h", ".def", ".cl")):
        text = includes_of(path, text, moved, known)
    text = named(text, moved, "")
    if path.endswith("meson.build"):
        text = named(text, moved, os.path.dirname(path) + "/")
    if path in moved:  # the first comment names the file
        old, new = (os.path.basename(p) for p in (path, moved[path]))
        text = text.replace(f"/* {old}: ", f"/* {new}: ", 1)
    for old, new in bare_names(moved, known).items():
        text = re.sub(rf"(?<![\w/.-]){re.escape(old)}(?![\w.])", new, text)
    return text


def main():
    moved = read_table(sys.argv[1])
    files = tracked()
    missing = [path for path in moved if path not in files]
    assert not missing, f"not in the tree: {missing}"
    for path in files:
        if not path.endswith(TEXT) or path == os.path.relpath(sys.argv[1]) or path.startswith("tests/house/"):
            continue
        with open(path, encoding="utf-8") as f:
            before = f.read()
        after = follows(path, before, moved, set(files))
        if after != before:
            with open(path, "w", encoding="utf-8") as f:
                f.write(after)
    for old, new in moved.items():
        os.makedirs(os.path.dirname(new), exist_ok=True)
        subprocess.run(["git", "mv", old, new], check=True)


if __name__ == "__main__":
    main()
