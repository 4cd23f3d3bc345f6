#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the man page of bp, or of one of its commands, from the text that `bp -h` or `bp COMMAND -h` prints.

    man.py BP DOCS [COMMAND]      DOCS: the directory where the pages are installed
"""
import re
import subprocess
import sys


def help_of(bp, *command):
    return subprocess.run([bp, *command, "-h"], capture_output=True, text=True, check=True).stdout


def roff(text):
    """Text as roff shows it literally."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.M)


def parts(text):
    """The parts of a help text, which empty lines separate."""
    return re.split(r"\n\s*\n", text.strip("\n"))


def flat(part):
    return " ".join(part.split())


def options(part):
    """The pairs of option and meaning of a list of options; behind a long option there is a single space."""
    for line in part.splitlines():
        match = re.match(r"  (-\S.*?)(?:  +| (?=[a-z]))(\S.*)$", line)
        if not match:
            raise ValueError(f"not an option: {line!r}")
        yield match.groups()


def page_of_command(bp, docs, command):
    usage, *about, last = parts(help_of(bp, command))
    version = help_of(bp).split("Backplane ")[1].split(":")[0]
    summary = re.search(rf"^  {re.escape(command)} +\S.*?  +(.*)$", help_of(bp), re.M).group(1)
    lines = [f'.TH BP\\-{roff(command.upper())} 1 "" "Backplane {version}"', ".SH NAME",
             f"bp\\-{roff(command)} \\- {roff(summary)}", ".SH SYNOPSIS", roff(flat(usage.removeprefix("usage: "))), ".SH DESCRIPTION"]
    for paragraph in about:
        lines += [".PP", roff(flat(paragraph).replace("docs/", docs + "/"))]
    lines.append(".SH OPTIONS")
    for option, meaning in options(last):
        lines += [".TP", f".B {roff(option)}", roff(meaning.replace("docs/", docs + "/"))]
    return lines + [".SH SEE ALSO", ".BR bp (1),", f"the pages in {roff(docs)}"]


def page_of_bp(bp, docs):
    usage, about, table, rest = parts(help_of(bp))
    version = about.split("Backplane ")[1].split(":")[0]
    names = re.findall(r"^  (\S+)", table, re.M)
    first, statuses = re.match(r"(.*?)\n(Exit status: .*)", rest, re.S).groups()
    lines = [f'.TH BP 1 "" "Backplane {version}"', ".SH NAME", f"bp \\- {roff(about.split(': ')[1].rstrip('.'))}", ".SH SYNOPSIS",
             roff(usage.removeprefix("usage: ")), ".SH COMMANDS", ".nf", roff(table), ".fi", ".PP", roff(flat(first)),
             ".SH EXIT STATUS", roff(flat(statuses.removeprefix("Exit status: "))), ".SH SEE ALSO"]
    return lines + [f".BR bp\\-{roff(name)} (1)," for name in names] + [f"the pages in {roff(docs)}"]


def main():
    bp, docs, *command = sys.argv[1:]
    lines = page_of_command(bp, docs, *command) if command else page_of_bp(bp, docs)
    print('.\\" SPDX-License-Identifier: Apache-2.0', *lines, sep="\n")


if __name__ == "__main__":
    main()
