#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints sources.c: for each family of portable kernels its header with all its includes, as OpenCL C for the
driver's compiler.

Comments, and parts that only C and C++ compilers see, are left out. For each entry it also prints the offsets of the
numbers of type `host_real`, which a device without f64 needs as f32.

    embed.py SDK OUT DEPFILE FAMILY=HEADER...     the header's path is relative to SDK

+NAME=HEADER is a header without a kernel: xpu_source_NAME.
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


def main():
    texts = {}
    families = dict(argument.split("=") for argument in sys.argv[4:] if argument[0] != "+")
    others = dict(argument[1:].split("=") for argument in sys.argv[4:] if argument[0] == "+")
    with open(OUT, "w", encoding="utf-8") as out:
        out.write('/* Printed by embed.py. */\n#include "sources.h"\n#include <dialect/portable.h>\n')
        for family, header in families.items():
            lines = flat(os.path.join(SDK, header), set())
            texts[family] = "\n".join(lines)
            write_lines(out, family, lines)
        for name, header in others.items():
            write_lines(out, name, flat(os.path.join(SDK, header), set()))
            out.write(f"const struct xpu_source xpu_source_{name} = {{sizeof source_{name} / sizeof *source_{name}, source_{name}}};\n")
        out.write("const struct xpu_source xpu_source[PORTABLE_FAMILIES] = {\n")
        for family in families:
            out.write(f"[FAMILY_{family}] = {{sizeof source_{family} / sizeof *source_{family}, source_{family}}},\n")
        out.write("};\n")
        write_given(out, families, texts)
    with open(DEPFILE, "w", encoding="utf-8") as f:
        f.write(f"{OUT}: {' '.join(sorted(read))}\n")


main()
