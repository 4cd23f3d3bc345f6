#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints a C file with source text for compilers at run time.

    embed.py SDK OUT DEPFILE FAMILY=HEADER...     the header's path is relative to SDK
    embed.py SDK OUT DEPFILE +NAME=HEADER

The text of a header has all its includes, but no comments and no headers of the system. For a family of portable
kernels (OpenCL C, plugins/xpu/sources.h) the file also has, for each entry, the offsets of the numbers of type
`host_real`, which a device without f64 needs as f32. +NAME is a header without a kernel: portable_source_NAME (source.h).
"""
import os
import re
import sys

SDK, OUT, DEPFILE = sys.argv[1:4]
read = set()


def text_of(path):
    read.add(path)
    with open(path, encoding="utf-8") as f:
        return re.sub(r"/\*.*?\*/", " ", f.read(), flags=re.S)


def flat(path, seen):
    """The file's lines with its includes: a header once, a .def each time. Includes in <...> are removed."""
    if path.endswith(".h"):
        if path in seen:
            return []
        seen.add(path)
    lines = []
    for line in re.sub(r"\\\n", " ", text_of(path)).splitlines():
        include = re.match(r'\s*#\s*include\s+"(.*)"', line)
        if include:
            lines += flat(os.path.normpath(os.path.join(os.path.dirname(path), include.group(1))), seen)
        elif re.match(r"\s*#\s*include\s+<", line):
            continue
        elif line.strip():
            lines.append(re.sub(r"\s+", " ", line.strip()))
    return lines


def given(structs, name):
    """The offsets of a struct's numbers of type host_real, also in nested structs, as offsetof names them."""
    found = []
    for member in filter(None, map(str.strip, structs[name].split(";"))):
        struct, kind, names = re.fullmatch(r"(struct )?(\w+) (.*)", member).groups()
        inner = given(structs, kind) if struct else [""] if kind == "host_real" else []
        assert "[" not in names or not inner, f"struct {name}: an array of host_real"
        found += [one.strip() + ("." + of if of else "") for one in names.split(",") for of in inner]
    return found


def write_given(out, families, texts):
    for header in sorted(families.values()):
        out.write(f"#include <{header}>\n")
    out.write("#include <stddef.h>\nconst struct xpu_given xpu_given[PORTABLE_ENTRIES] = {\n")
    for family in families:
        structs = dict(re.findall(r"\bstruct (\w+) \{(.*?)\};", texts[family], re.S))
        structs |= {new: structs[old] for new, old in re.findall(r"#define (\w+_args) (\w+_args)", texts[family])}
        for entry in re.findall(r"^ENTRY_(?:SPANS|TEAMS|RUNS)_\d+\((\w+)", texts[family], re.M):
            numbers = given(structs, entry + "_args")
            offsets = ", ".join(f"offsetof(struct {entry}_args, {n})" for n in numbers)
            if numbers:
                out.write(f"[ENTRY_{entry}] = {{{len(numbers)}, {{{offsets}}}}},\n")
    out.write("};\n")


def write_lines(out, name, lines):
    out.write(f"static const char *const source_{name}[] = {{\n")
    for line in lines:
        quoted = line.replace("\\", "\\\\").replace('"', '\\"')
        out.write(f'"{quoted}\\n",\n')
    out.write("};\n")


def write_families(out, families):
    texts = {}
    out.write('#include "sources.h"\n#include <dialect/portable.h>\n')
    for family, header in families.items():
        lines = flat(os.path.join(SDK, header), set())
        texts[family] = "\n".join(lines)
        write_lines(out, family, lines)
    out.write("const struct portable_source xpu_source[PORTABLE_FAMILIES] = {\n")
    for family in families:
        out.write(f"[FAMILY_{family}] = {{sizeof source_{family} / sizeof *source_{family}, source_{family}}},\n")
    out.write("};\n")
    write_given(out, families, texts)


def write_header(out, name, header):
    out.write("#include <dialect/source.h>\n")
    write_lines(out, name, flat(os.path.join(SDK, header), set()))
    out.write(f"const struct portable_source portable_source_{name} = {{sizeof source_{name} / sizeof *source_{name}, source_{name}}};\n")


def main():
    headers = dict(argument.split("=") for argument in sys.argv[4:])
    with open(OUT, "w", encoding="utf-8") as out:
        out.write("/* Printed by embed.py. */\n")
        if sys.argv[4][0] == "+":
            for name, header in headers.items():
                write_header(out, name[1:], header)
        else:
            write_families(out, headers)
    with open(DEPFILE, "w", encoding="utf-8") as f:
        f.write(f"{OUT}: {' '.join(sorted(read))}\n")


main()
