#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Renames identifiers by a table, in code, in the texts of mutants and in the pages that show code.

    rename.py TABLE     in the root of a clean tree. Lines of TABLE: WHERE OLD NEW; # begins a comment.

WHERE is a file, and then only that file has another name for OLD, a static function of it; or a glob of files, of which
all identifiers OLD are renamed, in comments and pages too. A name after . or -> is a member: those are renamed where
WHERE ends in `:members`, and nothing else is; where it ends in `:calls`, only names before a parenthesis are, as a variable
has the same name; where it ends in `:code`, comments and pages keep the word. Strings are left alone: messages and ids do not
change.
"""
import ast
import fnmatch
import os
import re
import subprocess
import sys

TOKEN = re.compile(r"""(?P<comment>/\*.*?\*/|//[^\n]*)|(?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
                   r"""|(?P<include>\#[ \t]*include[^\n]*)|(?P<word>[A-Za-z_]\w*)|(?P<op>->|\S)|\s+""", re.S)
CODE = (".c", ".h", ".def", ".cl", ".cu", ".hip", ".in", ".cc")
PAGES = (".md", ".txt", ".py", ".build")


def read_table(path):
    """[(where, kind, old, new)]; kind is members, calls, code or nothing"""
    rows = []
    with open(path, encoding="utf-8") as f:
        for line in f:
            if line.strip() and not line.startswith("#"):
                where, old, new = line.split()
                where, _, kind = where.partition(":")
                rows.append((where, kind, old, new))
    return rows


def renamed(text, names, members, calls, comments):
    """The text with other identifiers. names, members: {old: new}; calls: names that only calls have;
    comments: {old: new} of comments."""
    out, last, dot = [], 0, False
    for match in TOKEN.finditer(text):
        kind, word = match.lastgroup, match.group()
        if not kind:
            continue
        table = members if dot else names
        if kind == "word" and word in table and (word not in calls or re.match(r"\s*\(", text[match.end():match.end() + 99])):
            out += [text[last:match.start()], table[word]]
            last = match.end()
        elif kind == "comment":
            out += [text[last:match.start()], in_words(word, comments)]
            last = match.end()
        dot = kind == "op" and word in (".", "->")
    return "".join(out) + text[last:]


def in_words(text, names):
    """Prose, and code that is no C: whole words are other ones."""
    return re.sub(r"\w+", lambda word: names.get(word.group(), word.group()), text) if names else text


def tables(rows, path):
    """names, members, names that only calls have, and words of comments, by a file's own rows and by those of globs."""
    names, members, calls, comments = {}, {}, set(), {}
    for where, kind, old, new in rows:
        is_glob = any(c in where for c in "*?[")
        if where != path and not (is_glob and fnmatch.fnmatch(path, where)):
            continue
        (members if kind == "members" else names)[old] = new
        if kind == "calls":
            calls.add(old)
        if is_glob and not kind:
            comments[old] = new
    return names, members, calls, comments


def write(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def main():
    rows = read_table(sys.argv[1])
    wide = {old: new for where, kind, old, new in rows if where == "*" and not kind}
    files = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout.split()
    for path in files:
        if path.startswith("tests/house/") or not path.endswith(CODE + PAGES) or path == "CHANGELOG.md":
            continue
        with open(path, encoding="utf-8") as f:
            text = f.read()
        if path.endswith(CODE):
            after = renamed(text, *tables(rows, path))
        else:
            after = in_words(text, wide)
        if after != text:
            write(path, after)
    follow_mutants(rows)


def follow_mutants(rows):
    """The code that mutants look for and put there, in lists of (..., name, file, text, replacement, ...)."""
    folder = os.path.join("tests", "mutants")
    sys.path.insert(0, folder)
    import every
    files = {name: path for name, path, old, new in every.all_mutants()}
    for file in sorted(os.listdir(folder)):
        if not file.endswith(".py"):
            continue
        path = os.path.join(folder, file)
        with open(path, encoding="utf-8") as f:
            text = f.read()
        lines = [0]
        for line in text.encode().splitlines(keepends=True):
            lines.append(lines[-1] + len(line))
        after = text.encode()
        for name, code in reversed(list(mutants_of(text, files))):
            names, members, _, _ = tables(rows, files[name])
            begin, end = lines[code.lineno - 1] + code.col_offset, lines[code.end_lineno - 1] + code.end_col_offset
            after = after[:begin] + in_code(after[begin:end].decode(), names, members).encode() + after[end:]
        if after != text.encode():
            write(path, after.decode())


def mutants_of(text, files):
    """(name, literal) of the texts and replacements in a file of mutants, in their order."""
    found = []
    for node in ast.walk(ast.parse(text)):
        for at, part in enumerate(node.elts if isinstance(node, ast.Tuple) else []):
            if isinstance(part, ast.Constant) and part.value in files and at < 2:
                found += [(part.value, code) for code in node.elts[at + 2:at + 4] if isinstance(code, ast.Constant)]
    return sorted(found, key=lambda each: (each[1].lineno, each[1].col_offset))


def in_code(text, names, members):
    """Code in a string of Python: identifiers are others, after . and -> members."""
    def follow(match):
        table = members if match.group(1) else names
        return (match.group(1) or "") + table.get(match.group(2), match.group(2))
    return re.sub(r"(->|\.)?\b([A-Za-z_]\w*)", follow, text)


if __name__ == "__main__":
    main()
