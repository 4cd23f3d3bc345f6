#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rules of comments, for style.py: plain English, in the field's words.

    prose.py ROOT [FOLDER...]      prints each breach, and how many words of comments each folder has
"""
import io
import os
import re
import subprocess
import sys
import tokenize

C_FILE = re.compile(r"\.(c|h|cc|cpp|cu|cl|inc|def|in)$")
PYTHON = re.compile(r"\.py$")
HASH = re.compile(r"(\.(sh|map)|(^|/)(meson\.build|meson_options\.txt|Makefile)|^dev|^\.ci/run)$")
# A comment, or a literal, which may have the signs of a comment in it.
PARTS = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'', re.S)
SENTENCE = re.compile(r"(?:(?<=[.!?:;])|^)\s+(What|Who|Whoever|Whose)\b")
WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")


def c_comments(text):
    """(offset, text without its signs) of each comment; `//` lines that follow each other are one comment."""
    run = None
    for match in PARTS.finditer(text):
        part = match.group()
        if part.startswith("/*"):
            yield match.start(), re.sub(r"^[ \t]*\*(?!/)", "", part[2:-2], flags=re.M)
        elif part.startswith("//"):
            line = text[text.rfind("\n", 0, match.start()) + 1:match.start()]
            alone = not line.strip()
            if run and alone and not text[run[1]:match.start()].strip():
                run = (run[0], match.end(), run[2] + "\n" + part[2:])
                continue
            if run:
                yield run[0], run[2]
            run = (match.start(), match.end(), part[2:])
    if run:
        yield run[0], run[2]


def python_comments(text):
    lines = text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    run, last = None, None
    previous, depth = tokenize.NEWLINE, 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        at = starts[token.start[0] - 1] + token.start[1]
        if token.type == tokenize.COMMENT:
            if run and last == token.start[0] - 1:
                run = (run[0], run[1] + "\n" + token.string[1:])
            else:
                if run:
                    yield run
                run = (at, token.string[1:])
            last = token.start[0]
        elif token.type == tokenize.STRING and not depth and previous in (tokenize.NEWLINE, tokenize.INDENT, tokenize.NL, tokenize.DEDENT):
            yield at, token.string.lstrip("rbuRBU").strip("\"'")  # a docstring
        elif token.type == tokenize.OP:
            depth += (token.string in "([{") - (token.string in ")]}")
        if token.type != tokenize.COMMENT:
            previous = token.type
    if run:
        yield run


def hash_comments(text):
    for match in re.finditer(r"(?:^[ \t]*#(?!!)[^\n]*\n?)+", text, re.M):
        yield match.start(), re.sub(r"^[ \t]*#", "", match.group(), flags=re.M)


def comments(path, text):
    """(offset, words) of the comments of a file, without lines of licence."""
    read = c_comments if C_FILE.search(path) else python_comments if PYTHON.search(path) else hash_comments if HASH.search(path) else None
    for at, comment in read(text) if read else []:
        if "SPDX-License-Identifier" in comment:
            comment = re.sub(r"[^\n]*SPDX-License-Identifier[^\n]*", "", comment)
        if comment.strip():
            yield at, comment


def plain(comment):
    """A comment without code: what stands in back quotes or double quotes is not prose."""
    return re.sub(r'`[^`]*`|"[^"\n]*"', "code", comment)


# (where, pattern, the words to use). A pattern is of whole words of a comment, in any case.
PRIVATE = [
    ("", r"whoever|nobody|somebody|everybody|whosoever", "the agent's name: the caller, no thread, every rank"),
    ("", r"tells?|told|telling|hears?|heard|confess\w*|blames?|blamed", "reports, is reported, receives, names"),
    ("", r"asks?|asked|asking|answers?|answered|answering", "queries, requests, calls; returns, result, status, reply"),
    ("", r"boards?|bells?", "shared segment; futex word"),
    ("", r"home(?! directory)|at home", "owner, owning stream"),
    ("", r"sound|leads|aside|exhausts?", "last known good; is a barrier; separately; runs out"),
    ("", r"little(?![ -]endian)", "eager, small, few"),
    ("", r"far (?:ranks?|ones|sides?|hosts?|calls?|ends?)", "remote rank, remote host"),
    ("", r"(?:given|gives?|gave|giving) back|serves? again", "returned, freed; is reused"),
    ("", r"past (?:the )?caches?", "with streaming stores"),
    ("", r"turned(?! (?:on|off|into|away|down|out|to|over))", "transposed"),
    ("", r"elsewhere", "on another device; in another file"),
    ("", r"makers?", "case builder"),
    ("core/memory", r"chunks?|pieces?|regions?", "segment, block, span"),
    ("core/ccl", r"entry|entries|marks?|posts?|ways?|heads?", "slot; acknowledgement; sequence log; transport; header"),
]
PRIVATE = [(where, re.compile(rf"\b(?:{words})\b", re.I), use) for where, words, use in PRIVATE]
PRIVATE_NAMES = {"told", "tell", "tells", "hear", "hears", "heard", "confess", "blame", "nobody", "whoever", "somebody", "board", "home",
                 "aside", "exhaust", "maker", "answer", "answers", "answered", "ask", "asks", "asked", "say", "says", "said", "who",
                 "whose", "elsewhere", "rearrange", "sound", "bell"}
WHATS_PER_1000 = 1


def kinds_of(path):
    return C_FILE.search(path) or PYTHON.search(path) or HASH.search(path)


def breaches(path, text):
    """(line, text of the breach) of each comment of a file."""
    for at, comment in comments(path, text):
        bare = plain(comment)
        for match in SENTENCE.finditer(" " + bare):
            line = text.count("\n", 0, at) + 1 + bare.count("\n", 0, max(match.start(1) - 1, 0))
            yield line, f"a sentence begins with {match.group(1)}; name its subject"
        for where, pattern, use in PRIVATE:
            for match in pattern.finditer(bare) if path.startswith(where) else []:
                yield text.count("\n", 0, at) + 1 + bare.count("\n", 0, match.start()), f'"{match.group()}" is a private word; use: {use}'


def count(path, text):
    """(words, times "what") of the comments of a file."""
    bare = [plain(comment) for _, comment in comments(path, text)]
    words = [word.lower() for comment in bare for word in WORD.findall(comment)]
    return len(words), words.count("what")


def plain_comments(tree, seen):
    """Comments without private words, and almost without "what": it hides the noun that a sentence is about."""
    whats, total = [], 0
    for path in filter(kinds_of, tree.text):
        for line, breach in breaches(path, tree.text[path]):
            yield f"{path}:{line}: {breach}"
        words, found = count(path, tree.text[path])
        seen[0] += words
        total += words
        whats += [path] * found
    if len(whats) * 1000 >= total * WHATS_PER_1000:
        for path in whats:
            yield f'{path}: "what" in a comment; name the noun: fewer than {WHATS_PER_1000} in 1,000 words of all comments'


def names_are_public_words(tree, seen):
    for path in filter(C_FILE.search, tree.text):
        code = PARTS.sub(lambda part: re.sub(r"[^\n]", " ", part.group()), tree.text[path])
        seen[0] += 1
        for name in sorted(set(re.findall(r"[A-Za-z_]\w+", code))):
            for word in PRIVATE_NAMES.intersection(name.lower().split("_")):
                line = code.count("\n", 0, re.search(rf"\b{name}\b", code).start()) + 1
                yield f"{path}:{line}: {name}: {word} is a private word"


def main():
    root, folders = sys.argv[1], sys.argv[2:]
    total = whats = found = 0
    for path in subprocess.check_output(["git", "-C", root, "ls-files", *folders], text=True).splitlines():
        if not kinds_of(path) or os.path.islink(os.path.join(root, path)):
            continue
        with open(os.path.join(root, path), encoding="utf-8") as f:
            text = f.read()
        words, here = count(path, text)
        total, whats = total + words, whats + here
        for at, comment in comments(path, text):
            for match in re.finditer(r"\bwhat\b", plain(comment), re.I):
                print(f'{path}:{text.count(chr(10), 0, at) + 1 + plain(comment).count(chr(10), 0, match.start())}: "what"')
        for line, breach in breaches(path, text):
            found += 1
            print(f"{path}:{line}: {breach}")
    print(f"{total} words of comments, {whats} times what, {found} breaches")


if __name__ == "__main__":
    main()
