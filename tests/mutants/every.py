# SPDX-License-Identifier: Apache-2.0
"""All mutants, and which of them a run tries: a list a kind, each with the name, the file, the text that stands there
exactly once, and its replacement.
"""
import hashlib
import importlib
import os
import shutil
import random

from gpu import GPUS, IMAGES
from npu import NPU
from passes import PASSES
from rules import RULES
from stress import STRESS

HERE = os.path.dirname(os.path.abspath(__file__))
KERNELS = [k for name in sorted(os.listdir(HERE)) if name.startswith("kernels") and name.endswith(".py")
           for k in importlib.import_module(name[:-3]).KERNELS]


def all_mutants():
    """(name, file, text, replacement) of each mutant."""
    return [(rule[1], *rule[2:5]) for rule in RULES] + [mutant[:4] for mutant in KERNELS + STRESS + GPUS + IMAGES + PASSES + NPU]


# Files of these folders include each other by where they lie: where one is broken in a copy, all of them are copied.
TOGETHER = ("sdk/ops/", "sdk/dialect/")


def top_of(path):
    return "sdk" if path.startswith(TOGETHER) else os.path.dirname(os.path.dirname(path))


def copied(root, path, folder):
    """Copies a file and its neighbours into a folder. Returns the path of the copied file."""
    for place in TOGETHER if path.startswith(TOGETHER) else [os.path.dirname(path) + "/"]:
        shutil.copytree(os.path.join(root, place), os.path.join(folder, os.path.basename(place[:-1])))
    return os.path.join(folder, os.path.relpath(path, top_of(path)))


def in_copy(root, path, folder, source):
    """Where a source is in the copy that was made for a file; the source itself where the copy does not have it."""
    near = os.path.relpath(source, root)
    has = near.startswith(TOGETHER) if path.startswith(TOGETHER) else os.path.dirname(near) == os.path.dirname(path)
    return os.path.join(folder, os.path.relpath(near, top_of(path))) if has else source


def text_with(root, path, old):
    """The file's text, in which old stands once."""
    with open(os.path.join(root, path), encoding="utf-8") as f:
        text = f.read()
    assert text.count(old) == 1, f"'{old}' stands {text.count(old)} times in {path}, expected once"
    return text


def tree_hash(tree):
    """A number that follows from the names and the text of the repository's files alone (style.Tree), so that the same
    tree always has the same mutants tried, and another tree has others."""
    digest = hashlib.sha256()
    for path in tree.sources():
        text = tree.text[path].encode()
        digest.update(f"{path}\0{len(text)}\0".encode() + text)
    return int.from_bytes(digest.digest()[:8], "big")


def some(mutants, count, seed):
    """So many of the mutants, chosen by the seed."""
    return random.Random(seed).sample(mutants, count)
