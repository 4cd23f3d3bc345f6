#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Moves the parts of operators into sdk/ops, a folder a family, as moves.txt says, and puts right all that names them:
includes, lists of meson, mutants, rules of style, documents. It can be run on any commit in which the files are still
where moves.txt has them; nothing is committed.

    moves.py apply              in the repository's root, with a clean tree
    moves.py comments           after that was committed: comments call the files by their new names
    moves.py verify COMMIT      that a commit of `apply` moves only: each file is renamed as the table says, nothing but
                                includes is other in it, and git log --follow finds its history; says which files are
                                less than 95 % the same by that
"""
import collections
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import moves_edits  # noqa: E402

TABLE = "tests/house/moves.txt"
OWN = ("tests/house/moves.txt", "tests/house/moves.py", "tests/house/moves_edits.py")
LISTS = {"core/meson.build": "core/", "sdk/conformance/meson.build": "sdk/conformance/"}
# Files of the old folders have to be in the table, but for these.
FOLDERS = ("sdk/kernels/", "sdk/include/backplane/ops/", "core/op/rules/", "sdk/conformance/cases/",
           "sdk/conformance/reference/")
STAY = re.compile(r"sdk/conformance/cases/(ccl|listed|maker|stress)\.[ch]$")
# Where <...> is looked for, in this order.
ROOTS = ("sdk/include/", "core/include/", "sdk/", "core/", "sdk/conformance/", "plugins/")
CODE = re.compile(r"\.(c|h|cc|cu|hip|def)$")
INCLUDE = re.compile(r'^([ \t]*#[ \t]*include[ \t]*)([<"])([^>"\n]+)[>"]', re.M)
COMMENT = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|//[^\n]*', re.S)
NAME = re.compile(r"(?<![\w/.*<>-])((?:\w+/)*\w+\.(?:c|h|def))(?!\w|[.]\w)")
COLUMNS = 100
SAME = 95  # per cent


def git(*words):
    return subprocess.run(["git", *words], capture_output=True, text=True, check=True).stdout


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def write(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def table():
    rows = [line.split() for line in read(TABLE).splitlines() if line and not line.startswith("#")]
    assert all(len(row) == 2 for row in rows), f"{TABLE}: a line is not two paths"
    moves = dict(rows)
    assert len(moves) == len(rows) == len(set(moves.values())), f"{TABLE}: a path stands there twice"
    return moves


class Moves:
    """Paths are those before the moves, unless they are said to be new."""

    def __init__(self, done=False):
        self.new = table()
        back = {new: old for old, new in self.new.items()} if done else {}
        self.files = [back.get(path, path) for path in git("ls-files").splitlines()
                      if not (done and re.match(r"sdk/ops/(.*/)?meson[.]build$", path))]
        self.there = set(self.files)
        missing = [old for old in self.new if old not in self.there]
        untold = [path for path in self.files if path.startswith(FOLDERS) and path not in self.new and not STAY.match(path)]
        assert not missing, f"{TABLE} names files that are not there: {missing}"
        assert not untold, f"files that {TABLE} does not name: {untold}"

    def at(self, path):
        return self.new.get(path, path)

    def find(self, path, name, near):
        """The file of the tree that an include of path means; None: not one of ours."""
        if near:
            beside = os.path.normpath(os.path.join(os.path.dirname(path), name))
            if beside in self.there:
                return beside
        return next((root + name for root in ROOTS if root + name in self.there), None)

    def include(self, path, match):
        """An include of path, as it has to be afterwards."""
        word, mark, name = match.groups()
        target = self.find(path, name, mark == '"')
        if not target or (target not in self.new and path not in self.new):
            return match.group(0)
        if target not in self.new and mark == "<":
            return match.group(0)
        here, there = self.at(path), self.at(target)
        inside = ("sdk/ops/", "sdk/dialect/")
        if here.startswith(inside) and there.startswith(inside):
            return f'{word}"{os.path.relpath(there, os.path.dirname(here))}"'
        root = next(root for root in ROOTS if there.startswith(root))
        return f"{word}<{there[len(root):]}>"

    def named(self, path, name):
        """How a comment of path names a file afterwards: by its name alone in the folder itself, and in sdk/dialect."""
        folder = os.path.dirname(path) + "/"
        places = [folder + name, os.path.dirname(folder[:-1]) + "/" + name]
        if path.startswith(("sdk/kernels/", "plugins/", "tests/")):
            places += ["sdk/kernels/" + name, "sdk/include/backplane/" + name, "sdk/" + name]
        if path.startswith("sdk/include/backplane/ops/"):
            places += ["core/op/" + name]
        old = next((p for p in places if p in self.there), None)
        if old not in self.new or not self.new[old].startswith("sdk/ops/"):
            return name
        new = self.new[old]
        if os.path.dirname(new) == os.path.dirname(self.at(path)):
            return os.path.basename(new)
        return new[len("sdk/ops/"):] if self.at(path).startswith(("sdk/ops/", "sdk/dialect/")) else new[len("sdk/"):]

    def comment(self, path, match):
        text = match.group(0)
        return text if text.startswith('"') else NAME.sub(lambda m: self.named(path, m.group(1)), text)

    def text(self, path, text):
        """The text of a file as it has to be afterwards."""
        if CODE.search(path):
            text = INCLUDE.sub(lambda m: self.include(path, m), text)
        return self.paths(path, text)

    def comments(self, path, text):
        """The text of a file with comments that call files by their new names."""
        if not CODE.search(path) or not (path in self.new or path.startswith("plugins/")):
            return text
        new = COMMENT.sub(lambda m: self.comment(path, m), text)
        return refilled(new) if new != text and path.endswith((".c", ".h")) else new

    def paths(self, path, text):
        """Whole paths, wherever they stand."""
        def whole(match):
            found = self.find(path, match.group(0), False) or match.group(0)
            if found not in self.new:
                return match.group(0)
            short = 0 if found == match.group(0) else len("sdk/")
            return self.new[found][short:]
        for folder in ("sdk/kernels", "core/op/rules", "core/op", "sdk/conformance/reference", "sdk/conformance/cases",
                       "sdk/include/backplane/ops", "op/rules", "kernels", "conformance/reference", "conformance/cases"):
            text = re.sub(r"(?<![\w.-])(?<![^.]/)" + folder + r"/\w+\.(?:c|h|def)\b", whole, text)
        for old in self.new:
            if old.startswith("sdk/kernels/"):  # in names of objects, as meson makes them
                text = text.replace("_" + old.replace("/", "_"), "_" + self.new[old].replace("/", "_"))
                text = text.replace('"' + old.replace("/", "_"), '"' + self.new[old].replace("/", "_"))
        for end, role in ((".h>", "kernel"), (".def>", "kernels")):  # in lists of meson
            text = text.replace(f"<kernels/' + family + '{end}", f"<ops/' + portable_files[family].format('{role}') + '{end}")
        return text


def refilled(text):
    """Comments with a line that became too long, filled anew from that line on to the end of its paragraph."""
    lines, at = text.split("\n"), 0
    while at < len(lines):
        line = lines[at]
        if len(line) > COLUMNS and re.match(r"\s*(/?\*) ", line) and not line.endswith("\\"):
            over = line.rfind(" ", 0, COLUMNS + 1)
            over = line.rfind(" ", 0, over) if line[over + 1:] == "*/" else over
            lines[at], rest = line[:over].rstrip(), line[over + 1:]
            following = re.match(r"(\s*\* +)(\S.*)", lines[at + 1]) if not rest.endswith("*/") and at + 1 < len(lines) else None
            if following:
                lines[at + 1] = following.group(1) + rest + " " + following.group(2)
            else:
                lines.insert(at + 1, re.match(r"\s*", line).group(0) + (" * " if line.lstrip()[0] == "/" else "* ") + rest)
        at += 1
    return "\n".join(lines)


def is_text(path):
    with open(path, "rb") as f:
        return b"\0" not in f.read()


def folder_lists(moves):
    """meson.build of each folder of sdk/ops: what core and the suite compile of it."""
    folders = collections.defaultdict(lambda: {"core": [], "suite": []})
    for new in sorted(moves.new.values()):
        folder, name = os.path.split(new)
        role = re.split(r"[_.]", name)[0]
        if folder.startswith("sdk/ops/"):
            kind = {"shape": "core", "grad": "core", "decompose": "core", "cases": "suite", "reference": "suite"}.get(role)
            found = folders[folder]
            if kind and name.endswith(".c") and name != "reference_array.c":
                found[kind].append(name)
    return folders


def write_lists(moves):
    folders = folder_lists(moves)
    for folder, lists in folders.items():
        lines = ["# SPDX-License-Identifier: Apache-2.0"]
        for kind, names in lists.items():
            if names:
                lines += wrapped(f"ops_{kind} += files(", [f"'{name}'" for name in names])
        if len(lines) > 1:
            write(folder + "/meson.build", "\n".join(lines) + "\n")
    names = sorted(os.path.basename(f) for f, lists in folders.items() if lists["core"] or lists["suite"])
    write("sdk/ops/meson.build", moves_edits.OPS_BUILD.replace("@FAMILIES@", "\n".join(
        wrapped("", [f"'{name}'" for name in names], "", "  "))))


def wrapped(begin, words, end=")", indent="  "):
    lines, line = [], begin if begin else indent
    for number, word in enumerate(words):
        word += "," if number + 1 < len(words) else end
        if len(line) + 1 + len(word) > COLUMNS:
            lines.append(line)
            line = indent + word
        else:
            line += (" " if line.rstrip(" (") and not line.endswith(("(", indent)) else "") + word
    return [*lines, line]


def without(text, moved):
    """A list of meson without the quoted names that were moved; lines that become empty go."""
    moved, left = {f"'{name}'" for name in moved}, []
    for line in text.split("\n"):
        words = line.split(" ")
        kept = [word for word in words if word.rstrip(",") not in moved]
        moved -= {word.rstrip(",") for word in words}
        if kept == words or "".join(kept):
            left.append(" ".join(kept).rstrip())
    assert not moved, f"not in a meson.build as words of their own: {moved}"
    return "\n".join(left)


def leave_lists(moves):
    """Takes what was moved out of the lists of core and of the suite."""
    for build, prefix in LISTS.items():
        moved = [old[len(prefix):] for old in moves.new if old.startswith(prefix) and old.endswith(".c")]
        text = read(build).replace("'reference/array.c'", "'../ops/common/reference_array.c'")  # in a library of its own
        text = without(text, [name for name in moved if name != "reference/array.c"])
        text = re.sub(r",(\s*)\)", r"\1)", text)
        write(build, text)


def edit(path, pairs):
    text = read(path)
    for old, new in pairs:
        count = text.count(old)
        assert count == 1, f"{path}: the text to edit stands there {count} times, expected 1: {old!r}"
        text = text.replace(old, new)
    write(path, text)


def apply():
    assert not git("status", "--porcelain", "--untracked-files=no"), "the tree has changes: commit them first"
    moves = Moves()
    texts = {path: read(path) for path in moves.files
             if path not in (*OWN, *LISTS, "CHANGELOG.md") and not os.path.islink(path) and is_text(path)}
    changed = {path: new for path, text in texts.items() if (new := moves.text(path, text)) != text}
    changed.update({path: refilled(text) for path, text in changed.items()
                    if path.endswith((".c", ".h")) and path not in moves.new})
    for old, new in moves.new.items():
        os.makedirs(os.path.dirname(new), exist_ok=True)
        git("mv", old, new)
    for path, text in changed.items():
        write(moves.at(path), text)
    leave_lists(moves)
    write_lists(moves)
    for path, pairs in moves_edits.EDITS.items():
        edit(path, pairs)
    for path, (begin, end, text) in moves_edits.SECTIONS.items():
        page = read(path)
        assert page.count(begin) == 1 and page.count(end) == 1, f"{path}: no section from {begin!r} to {end!r}"
        write(path, page[:page.index(begin)] + text + page[page.index(end):])
    git("add", "-u")
    git("add", "sdk/ops", "sdk/dialect")
    left = [path for path in git("ls-files").splitlines() if path.startswith(FOLDERS) and not STAY.match(path)]
    assert not left, f"left behind: {left}"
    print(f"{len(moves.new)} files moved, {len(changed)} texts changed; git diff --cached -M says more")


def comments():
    assert not git("status", "--porcelain", "--untracked-files=no"), "the tree has changes: commit them first"
    moves, count = Moves(done=True), 0
    for path in moves.files:
        if CODE.search(path):
            text = read(moves.at(path))
            new = moves.comments(path, text)
            if new != text:
                write(moves.at(path), new)
                count += 1
    git("add", "-u")
    print(f"comments of {count} files changed")


def bare(text):
    """A text without what includes name."""
    return INCLUDE.sub("#include", text)


def verify(commit):
    moves = table()
    status = git("diff", f"-M{SAME}%", "-l0", "--name-status", f"{commit}^", commit).splitlines()
    renamed = {words[1]: words[2] for words in map(str.split, status) if words[0].startswith("R")}
    wrong, less = [], []
    for old, new in moves.items():
        if renamed.get(old) != new:
            less.append(new)
        if bare(git("show", f"{commit}^:{old}")) != bare(git("show", f"{commit}:{new}")) and not old.endswith("meson.build"):
            wrong.append(f"{new}: more is other than includes")
        followed = git("log", "--follow", "--format=%H", commit, "--", new).split()
        before = git("log", "--follow", "--format=%H", f"{commit}^", "--", old).split()
        if not set(before) <= set(followed):
            wrong.append(f"{new}: git log --follow loses its history")
    print(f"{len(moves)} files moved, {len(moves) - len(less)} at least {SAME} % the same; less, by includes in few lines: "
          f"{' '.join(sorted(less)) or 'none'}")
    print("\n".join(wrong) if wrong else "all is well")
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1:] in (["apply"], ["comments"]):
        {"apply": apply, "comments": comments}[sys.argv[1]]()
    elif sys.argv[1:2] == ["verify"] and len(sys.argv) == 3:
        sys.exit(verify(sys.argv[2]))
    else:
        sys.exit(__doc__)
