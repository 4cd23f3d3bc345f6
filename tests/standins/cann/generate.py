#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the functions of operators from ops.txt: for each the two phases, and its description.

    generate.py ops.txt OUT LIBRARY...     LIBRARY: those of version 7, see ops.txt
    generate.py ops.txt OUT                callers of all operators, for tests
"""
import re
import sys

TYPES = {"T": "const void *", "O": "void *", "R": "void *", "S": "const void *", "A": "const void *", "B": "const void *",
         "L": "const void *", "M": "void *", "i": "int64_t ", "n": "int ", "u": "uint64_t ", "b": "bool ", "c": "int8_t ",
         "d": "double ", "f": "float ", "t": "int ", "s": "const char *"}


def rows(path):
    """(name, [(letter, optional, port)], family, library, dtypes, operator) of each line."""
    with open(path, encoding="utf-8") as f:
        lines = [line.strip() for line in f if line.strip() and not line.startswith("#")]
    for line in lines:
        name, arguments, family, library, dtypes, operator = line.split(" | ")
        ports = [(a[0], a[1] == "?", a.split()[1]) for a in arguments.split(", ")]
        yield name, ports, family, library, dtypes, operator


def mask(dtypes):
    sets = {"FLOATS", "FLOATS_F64", "SIGNED", "INTS_U8", "NUMBERS", "ANY", "INDEX"}
    words = [w for w in dtypes.split("|") if w != "nz"]
    return " | ".join(f"CANN_{w}" if w in sets else "BP_MASK_UNSIGNED" if w == "UNSIGNED" else f"BP_M({w})" for w in words)


def value(letter, port):
    if letter in "df":
        return f"{{.d = {port}}}"
    return f"{{.i = (int64_t){port}}}" if letter in "inubct" else f"{{.p = {port}}}"


def printed(name, ports, family, dtypes, operator):
    parameters = ", ".join(f"{TYPES[letter]}{port}" for letter, _, port in ports)
    first = f"int aclnn{name}GetWorkspaceSize({parameters}, uint64_t *workspaceSize, void **executor)"
    second = f"int aclnn{name}(void *workspace, uint64_t workspaceSize, void *executor, void *stream)"
    ports_list = ", ".join(f'"{port}"' for _, _, port in ports)
    bp = "NULL" if operator == "-" else f'"{operator}"'
    yield f"{first};\n{second};"
    yield f"static const char *const ports_{name}[] = {{{ports_list}}};"
    yield (f'static const struct cann_op op_{name} = {{"aclnn{name}", "aclnn{name}GetWorkspaceSize", '
           f'"{"".join(p[0] for p in ports)}", "{"".join(" ?"[p[1]] for p in ports)}", ports_{name}, '
           f'cann_check_{family}, cann_run_{family}, {bp}, {mask(dtypes)}, {"true" if "nz" in dtypes.split("|") else "false"}}};')
    yield (f"CANN_API {first}\n{{\n    const union cann_value cann_values[] = {{{', '.join(value(p[0], p[2]) for p in ports)}}};\n\n"
           f"    return cann_prepare(&op_{name}, cann_values, workspaceSize, executor);\n}}")
    yield f"CANN_API {second}\n{{\n    return cann_launch(&op_{name}, workspace, workspaceSize, executor, stream);\n}}\n"


def caller(name, ports):
    """A function that calls phase 1 of an operator by its address, with the types of its arguments."""
    types = ", ".join(TYPES[letter].strip() for letter, _, _ in ports)
    values = ", ".join(("(float)" if p[0] == "f" else "") + f"v[{i}].d" if p[0] in "df" else f"({TYPES[p[0]].strip()})v[{i}].{'i' if p[0] in 'inubct' else 'p'}"
                       for i, p in enumerate(ports)).replace("(const void *)", "").replace("(void *)v", "(void *)(uintptr_t)v")
    return (f"static int call_{name}(void *function, const union cann_value *v, uint64_t *size, void **executor)\n{{\n"
            f"    int (*phase)({types}, uint64_t *, void **);\n\n    memcpy(&phase, &function, sizeof phase);\n"
            f"    return phase({values}, size, executor);\n}}\n")


def callers(source):
    text = ["/* SPDX-License-Identifier: Apache-2.0 */", "/* Made by generate.py from ops.txt. */", '#include "test_ops.h"',
            "#include <string.h>", ""]
    table = []
    for name, ports, *_ in rows(source):
        text.append(caller(name, ports))
        table.append(f'    {{"{name}", "{"".join(p[0] for p in ports)}", call_{name}}},')
    return text + ["const struct op_caller op_callers[] = {", *table, "    {NULL, NULL, NULL},", "};", ""]


def main():
    source, out, *libraries = sys.argv[1:]
    text = ["/* SPDX-License-Identifier: Apache-2.0 */", "/* Made by generate.py from ops.txt. */", '#include "family.h"', ""]
    for name, ports, family, library, dtypes, operator in rows(source):
        if not re.fullmatch(r"\w+", name) or library not in ("math", "infer", "train", "rand"):
            sys.exit(f"generate: {name}: a line that cannot be read")
        if library in libraries:
            text.extend(printed(name, ports, family, dtypes, operator))
    if not libraries:
        text = callers(source)
    with open(out, "w", encoding="utf-8") as f:
        f.write("\n".join(text))


if __name__ == "__main__":
    main()
