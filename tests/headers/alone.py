#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles each public header alone, twice in a row, as C11 and as C++17: there must be no warning.

In C++, also checks that each struct and enum can be named without the word struct or enum.

    alone.py ROOT BUILD

With gcc and g++, and with clang and clang++ where they are installed. One TAP line for each header,
language and compiler.
"""
import glob
import os
import re
import shutil
import subprocess
import sys

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
LANGUAGES = [("C11", ["-x", "c", "-std=c11"], ["gcc", "clang"]),
             ("C++17", ["-x", "c++", "-std=c++17"], ["g++", "clang++"])]


def plain_names(folders, headers):
    """Returns a C++ source that includes all headers and names each of their structs and enums without a keyword."""
    tags = set()
    for path in (os.path.join(folder, header) for folder in folders for header in headers):
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                tags |= set(re.findall(r"\b(?:struct|enum) (bp_\w+)", re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)))
    assert len(tags) > 100, tags
    return "".join(f"#include <backplane/{header}>\n" for header in headers) + "".join(
        f"typedef {tag} *use_{tag};\n" for tag in sorted(tags))


def compiles(compiler, options, includes, source):
    # -fsyntax-only: the compiler writes no file. `-`: it reads the source from stdin, in the language of -x.
    command = [compiler, *options, *WARNINGS, "-fsyntax-only", *includes, "-"]
    return subprocess.run(command, input=source, capture_output=True, text=True)


def main():
    root, build = sys.argv[1:]
    folders = [os.path.join(base, "include", "backplane")
               for base in (f"{root}/sdk", f"{root}/core", f"{root}/sdk/onnx", f"{build}/sdk")]
    headers = sorted(os.path.basename(p) for f in folders for p in glob.glob(f + "/*.h"))
    includes = ["-I" + os.path.dirname(f) for f in folders]
    if not {"plugin.h", "backplane.h", "attrs.h", "ops.h"} <= set(headers):
        print(f"Bail out! expected plugin.h, backplane.h, attrs.h and ops.h among {headers}")
        return 1

    failed = count = 0
    jobs = [(header, f"#include <backplane/{header}>\n" * 2, LANGUAGES) for header in headers]
    jobs.append(("all structs without the word struct", plain_names(folders, headers), LANGUAGES[1:]))
    for name, source, languages in jobs:
        for language, options, compilers in languages:
            for compiler in compilers:
                if not shutil.which(compiler):
                    if compiler.startswith("g"):
                        print(f"Bail out! {compiler} is not installed")
                        return 1
                    continue
                run = compiles(compiler, options, includes, source)
                count += 1
                failed += run.returncode != 0
                print(f"{'not ok' if run.returncode else 'ok'} {count} - {name} as {language} with {compiler}")
                for line in run.stderr.splitlines() if run.returncode else []:
                    print("#  ", line)
    print(f"1..{count}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
