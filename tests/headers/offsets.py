#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the binary layout of the plugin ABI and of the app API with the recorded one.

    offsets.py ROOT BUILD            compares with offsets.golden
    offsets.py ROOT BUILD --update   writes offsets.golden

The program finds all structs by reading the public headers, so that no new struct is left out; a C
program prints the size and offset of each member and the number of each enumerator.
"""
import difflib
import glob
import os
import re
import subprocess
import sys
import tempfile

ADVICE = """\
The ABI changed. What the lines mean:
  a member was appended to the end of a struct that has size, or to a row: raise BP_ABI_MINOR;
  anything else (moved, removed, resized, renumbered): every plugin or app built before is now wrong.
  Undo it, or raise BP_ABI_MAJOR (core: the soversion) and write a page in docs/decisions/.
Then record it:  tests/headers/offsets.py . BUILD --update"""


def plain(text):
    """Text without comments and preprocessor lines."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    return re.sub(r"^[ \t]*#(?:[^\n\\]|\\.)*(?:\\\n[^\n]*)*", "", text, flags=re.M)


def structs(text):
    for match in re.finditer(r"\bstruct\s+(bp_\w+)\s*\{(.*?)\}\s*;", plain(text), re.S):
        names = []
        for part in match.group(2).split(";"):
            callback = re.match(r".*?\(\s*\*\s*(\w+)\s*\)\s*\(", part, re.S)
            if callback:
                names.append(callback.group(1))
            elif part.strip():
                names += [re.search(r"(\w+)\s*(\[[^\]]*\])?\s*$", p).group(1) for p in part.split(",")]
        yield match.group(1), names


def enumerators(text):
    """Yields enumerators that are written out; those of the two X-macro lists are printed from the lists."""
    for match in re.finditer(r"\benum\s+(bp_\w+)\s*\{(.*?)\}\s*;", plain(text), re.S):
        yield from ((match.group(1), n) for n in re.findall(r"\b(BP_\w+)\s*=", match.group(2))
                    if not n.endswith("_"))


def program(headers):
    """A C program that prints the layout."""
    lines = [f"#include <backplane/{name}>" for name in headers] + ["#include <stdio.h>", "int main(void)", "{"]
    for name, text in headers.items():
        lines.append(f'    puts("# {name}");')
        for struct, members in structs(text):
            lines.append(f'    printf("struct {struct} %zu\\n", sizeof(struct {struct}));')
            lines += [f'    printf("    %zu %zu {m}\\n", offsetof(struct {struct}, {m}), '
                      f'sizeof ((struct {struct} *)0)->{m});' for m in members]
        for enum, value in enumerators(text):
            lines.append(f'    printf("enum {enum} %lld {value}\\n", (long long){value});')
    lines += ['#define X(NAME, name, number, bits, class) printf("enum bp_dtype %d BP_%s, %d bits\\n", number, #NAME, bits);',
              "    BP_DTYPES(X)", "#undef X",
              '#define X(name, number, text) printf("enum bp_status %d BP_%s\\n", number, #name);',
              "    BP_STATUSES(X)", "    return 0;", "}"]
    return "\n".join(lines) + "\n"


def layout(root, build):
    includes = [f"{root}/sdk/include", f"{build}/sdk/include", f"{root}/core/include"]
    headers = {}
    for path in (p for i in includes for p in sorted(glob.glob(f"{i}/backplane/*.h"))):
        with open(path, encoding="utf-8") as f:
            headers[os.path.basename(path)] = f.read()
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/layout.c", "w", encoding="utf-8") as f:
            f.write(program(headers))
        subprocess.run(["gcc", "-std=c11", *("-I" + i for i in includes), f"{folder}/layout.c", "-o",
                        f"{folder}/layout"], check=True)
        return subprocess.run([f"{folder}/layout"], capture_output=True, text=True, check=True).stdout


def main():
    root, build = sys.argv[1:3]
    golden = os.path.join(root, "tests", "headers", "offsets.golden")
    now = layout(root, build)
    if sys.argv[3:] == ["--update"]:
        with open(golden, "w", encoding="utf-8") as f:
            f.write(now)
        return 0
    with open(golden, encoding="utf-8") as f:
        then = f.read()
    if now == then and now.count("struct ") > 10:
        return 0
    print("\n".join(difflib.unified_diff(then.splitlines(), now.splitlines(), "recorded", "now", lineterm="")))
    print(ADVICE)
    return 1


if __name__ == "__main__":
    sys.exit(main())
