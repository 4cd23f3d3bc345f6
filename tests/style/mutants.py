#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each mutant can still be made: its text stands exactly once in its file, and becomes another one. And which mutants of
kernels a run tries follows from the tree alone.

    mutants.py ROOT
"""
import os
import shutil
import sys
import tempfile

ROOT = os.path.abspath(sys.argv[1])
sys.path[:0] = [os.path.join(ROOT, "tests", "mutants"), os.path.join(ROOT, "tests", "style")]
from every import KERNELS, all_mutants, some, text_with, tree_hash  # noqa: E402
from style import Tree  # noqa: E402


def breach(name, path, old, new):
    """Why a mutant can't be made, or None."""
    try:
        text_with(ROOT, path, old)
    except (AssertionError, OSError) as error:
        return f"{name}: {error}"
    return f"{name}: the replacement is the same text" if old == new else None


def every_text_stands_once():
    found = [text for text in (breach(*mutant) for mutant in all_mutants()) if text]
    return found if len(all_mutants()) > 250 else [f"{len(all_mutants())} mutants, expected more than 250"]


def other_texts_are_refused():
    """The check above, on mutants that can't be made."""
    path = "tests/style/mutants.py"
    bad = [("no such text", path, "text that does not" + " stand here", ""), ("a text that is there twice", path, "ROOT", ""),
           ("no such file", "tests/style/none.py", "x", ""), ("no change", path, "def other_texts_are_refused", "def other_texts_are_refused")]
    return [f"{mutant[0]}: not refused" for mutant in bad if not breach(*mutant)]


def small_tree(folder, **files):
    for name, text in files.items():
        with open(os.path.join(folder, f"{name}.c"), "w", encoding="utf-8") as f:
            f.write(text)
    try:
        return tree_hash(Tree(folder))
    finally:
        shutil.rmtree(folder)


def the_choice_follows_from_the_tree():
    hashes = [small_tree(tempfile.mkdtemp(), **files) for files in
              ({"a": "1", "b": "2"}, {"a": "1", "b": "2"}, {"a": "1", "b": "3"}, {"a": "12", "b": ""}, {"a": "1", "c": "2"})]
    chosen = [some(KERNELS, 20, h) for h in hashes]
    wrong = [] if hashes[0] == hashes[1] and chosen[0] == chosen[1] else ["one tree has two choices"]
    return wrong + [f"tree {i} has the choice of tree 0" for i in (2, 3, 4) if chosen[i] == chosen[0]]


CHECKS = {"each mutant's text stands once in its file": every_text_stands_once,
          "a mutant that can't be made is refused": other_texts_are_refused,
          "the choice of mutants follows from the tree": the_choice_follows_from_the_tree}


def main():
    print(f"1..{len(CHECKS)}")
    failed = 0
    for number, (title, check) in enumerate(CHECKS.items(), 1):
        found = check()
        failed += bool(found)
        print(f"{'not ok' if found else 'ok'} {number} - {title}")
        for line in found:
            print(f"# {line}")
    return 1 if failed else 0


sys.exit(main())
