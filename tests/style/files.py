#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints docs/files.md, a line a source file, from the first comment of each.

    files.py ROOT            prints the page
    files.py ROOT --update   writes it

The first comment of a C file begins with the file's name and a colon, the docstring of a Python file with the sentence
itself. The page has the first sentence.
"""
import os
import re
import subprocess
import sys

import prose

LISTED = re.compile(r"\.(c|h|def|py|cc|cl)$")
TOP = ["sdk", "core", "plugins", "examples", "tests"]
LENGTH = 240
HEAD = """<!-- SPDX-License-Identifier: Apache-2.0 -->
# Files

A line for each source file, printed from its first comment by `python3 tests/style/files.py . --update`: change the
comment, not this page. How the parts work together: [architecture](architecture.md).
"""


def is_listed(path):
    return LISTED.search(path) and path.split("/")[0] in TOP and not path.endswith("/__init__.py")


def purpose(path, text):
    """The first sentence of a file's first comment, or None where it does not say what the file does."""
    first = next((comment for _, comment in prose.comments(path, text)), "")
    words = " ".join(first.split())
    if not path.endswith(".py"):
        name, colon, words = words.partition(": ")
        if not colon or os.path.basename(path) not in re.split(r",? (?:and )?", name):
            return None
    words = re.split(r"(?<!e\.g)(?<!i\.e)\.(?: |$)", words, maxsplit=1)[0].rstrip(".:")
    return words[:1].upper() + words[1:] if words and not words.startswith("See ") and len(words) <= LENGTH else None


def page(texts):
    """(the page, the files without a purpose) of {path: text}."""
    folders, silent = {}, []
    for path in sorted(texts):
        if not is_listed(path):
            continue
        words = purpose(path, texts[path])
        if words is None:
            silent.append(path)
            continue
        folders.setdefault(os.path.dirname(path), []).append((os.path.basename(path), words))
    lines = [HEAD]
    for folder in sorted(folders, key=lambda folder: (TOP.index(folder.split("/")[0]), folder)):
        lines.append(f"\n## `{folder}`\n\n| file | purpose |\n|---|---|\n")
        lines += [f"| [{name}](../{folder}/{name}) | {words.replace('|', chr(92) + '|')} |\n" for name, words in folders[folder]]
    return "".join(lines), silent


def files_say_their_purpose(tree, seen):
    for path in tree.text:
        if is_listed(path):
            seen[0] += 1
            if purpose(path, tree.text[path]) is None:
                yield f"{path}: its first comment does not begin with `NAME: purpose.`, of at most {LENGTH} characters"


def page_is_fresh(tree, seen):
    seen[0] += 1
    if tree.text.get("docs/files.md") != page(tree.text)[0]:
        yield "docs/files.md: is not what the files say; run `python3 tests/style/files.py . --update`"


def read(root):
    texts = {}
    for path in subprocess.check_output(["git", "-C", root, "ls-files", "-co", "--exclude-standard"], text=True).splitlines():
        if LISTED.search(path):
            with open(os.path.join(root, path), encoding="utf-8") as f:
                texts[path] = f.read()
    return texts


def main():
    root = sys.argv[1]
    text, silent = page(read(root))
    for path in silent:
        print(f"{path}: its first comment does not say what it is for", file=sys.stderr)
    if "--update" in sys.argv:
        with open(os.path.join(root, "docs", "files.md"), "w", encoding="utf-8") as f:
            f.write(text)
    else:
        print(text, end="")
    return 1 if silent else 0


if __name__ == "__main__":
    sys.exit(main())
