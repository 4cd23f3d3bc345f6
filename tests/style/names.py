# SPDX-License-Identifier: Apache-2.0
"""Rules of names of functions, for style.py: a backtrace has to say where it is."""
import collections
import os
import re

STATIC = re.compile(r"^(?:__attribute__\(\([^)]*\)\) )?static\b[^;={}()]*?(?:__attribute__\(\([^)]*\)\))?[^;={}()]*?\b([A-Za-z]\w*)\(", re.M)
FUNCTION = re.compile(r"^(?:static |enum |struct |void |bool |u?int|const )[^;={}()\n]*?(?:\n[^;={}()\n]*?)?\b([a-z]\w+)\(", re.M)
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


def words_of(name):
    return name.removeprefix("bp_").split("_")


def names_differ_from_public(tree, seen):
    """No private function has the words of a public one in another order: bp_call_run, run_call."""
    public = {}
    for path in tree.sources(re.compile(r"/include/backplane/\w+\.h$")):
        for name in re.findall(r"\b(bp_\w+)\(", tree.text[path]):
            public[tuple(sorted(words_of(name)))] = name
    for path in tree.sources(re.compile(r"\.[ch]$")):
        if "/include/backplane/" in path:
            continue
        for match in FUNCTION.finditer(tree.text[path]):
            seen[0] += 1
            other = public.get(tuple(sorted(words_of(match.group(1)))))
            if other and words_of(other) != words_of(match.group(1)):
                line = tree.text[path].count("\n", 0, match.start(1)) + 1
                yield f"{path}:{line}: {match.group(1)}() has the words of {other}() in another order"
