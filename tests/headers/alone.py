#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each public header compiles alone, twice in a row, as C11 and as C++17, without a warning.

    alone.py ROOT BUILD

With gcc and g++, and with clang and clang++ where they are installed. One TAP line for a header,
language and compiler.
"""
import glob
import os
import shutil
import subprocess
import sys

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
LANGUAGES = [("C11", ["-x", "c", "-std=c11"], ["gcc", "clang"]),
             ("C++17", ["-x", "c++", "-std=c++17"], ["g++", "clang++"])]


def main():
    root, build = sys.argv[1:]
    folders = [os.path.join(base, "include", "backplane")
               for base in (f"{root}/sdk", f"{root}/core", f"{build}/sdk")]
    headers = sorted(os.path.basename(p) for f in folders for p in glob.glob(f + "/*.h"))
    includes = ["-I" + os.path.dirname(f) for f in folders]
    if not {"plugin.h", "backplane.h", "attrs.h", "ops.h"} <= set(headers):
        print(f"Bail out! expected plugin.h, backplane.h, attrs.h and ops.h among {headers}")
        return 1

    failed = count = 0
    for header in headers:
        for language, options, compilers in LANGUAGES:
            for compiler in compilers:
                if not shutil.which(compiler):
                    if compiler.startswith("g"):
                        print(f"Bail out! {compiler} is not installed")
                        return 1
                    continue
                source = f"#include <backplane/{header}>\n" * 2
                # -fsyntax-only: nothing is written. `-` reads source; what follows -x is its language.
                command = [compiler, *options, *WARNINGS, "-fsyntax-only", *includes, "-"]
                run = subprocess.run(command, input=source, capture_output=True, text=True)
                count += 1
                failed += run.returncode != 0
                print(f"{'not ok' if run.returncode else 'ok'} {count} - {header} as {language} with {compiler}")
                for line in run.stderr.splitlines() if run.returncode else []:
                    print("#  ", line)
    print(f"1..{count}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
