# SPDX-License-Identifier: Apache-2.0
"""Rules of names of functions, for style.py: a backtrace has to say where it is."""
import collections
import os
import re

STATIC = re.compile(r"^(?:__attribute__\(\([^)]*\)\) )?static\b[^;={}()]*?(?:__attribute__\(\([^)]*\)\))?[^;={}()]*?\b([A-Za-z]\w*)\(", re.M)
FILES_OF_A_NAME = 3


def statics(tree):
    """(file, offset, name) of each static function of a C file."""
    for path in tree.sources(re.compile(r"\.c$")):
        for match in STATIC.finditer(tree.text[path]):
            yield path, match.start(1), match.group(1)


def statics_name_an_object(tree, seen):
    for path, at, name in statics(tree):
        seen[0] += 1
        if "_" not in name and name != "main":
            line = tree.text[path].count("\n", 0, at) + 1
            yield f"{path}:{line}: static {name}() does not say of what; expected {os.path.basename(path)[:-2]}_{name} or the like"


def names_in_few_files(tree, seen):
    files = collections.defaultdict(set)
    for path, _, name in statics(tree):
        seen[0] += 1
        files[name].add(path)
    for name, paths in sorted(files.items()):
        if len(paths) > FILES_OF_A_NAME and name != "main":
            yield f"{max(paths)}: static {name}() is in {len(paths)} files, at most {FILES_OF_A_NAME}: {', '.join(sorted(paths))}"
