#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rules of the house, checked: sizes, layering, names, exported symbols, licence lines, links.

    style.py ROOT BUILD [LIBBACKPLANE]

Prints one TAP line a rule, with each breach as `# file:line: what, and what the rule is`. A rule that
found nothing to look at fails: a check of no files is no check.
"""
import json
import os
import re
import subprocess
import sys

import files
import names
import prose

FILE_LINES = 800
FUNCTION_LINES = 100
COLUMNS = 100
NAME_LENGTH = 33  # names are shorter than this

# Which area may include which others. A file belongs to the longest of these prefixes; it may always include its own
# area. Headers of the system and of libraries are not checked here. tests/ may include anything.
LAYERS = {
    "sdk/include": [],
    "sdk/opgen": ["sdk/include", "ops: schema"],
    "sdk/dialect": ["sdk/include", "ops: kernel"],
    "sdk/kit": ["sdk/include"],
    "sdk/template": ["sdk/include", "sdk/dialect", "sdk/kit"],
    "ops: schema": [],
    "ops: kernel": ["sdk/include", "sdk/dialect"],
    "ops: rule": ["sdk/include", "core/include", "core"],
    "ops: reference": ["sdk/include", "ops: schema"],
    "ops: cases": ["sdk/include", "core/include", "ops: schema", "ops: reference"],
    "sdk/child": [],
    "core/include": ["sdk/include"],
    "core": ["core/include", "sdk/include", "ops: schema"],
    "plugins/gpu": ["sdk/include", "sdk/dialect", "sdk/kit", "ops: kernel"],
    "plugins/*": ["plugins/gpu", "sdk/include", "sdk/dialect", "sdk/kit", "ops: kernel"],
    "sdk/conformance": ["core/include", "sdk/include", "sdk/child", "sdk/onnx", "sdk/onnx/include", "ops: schema", "ops: reference", "ops: cases"],  # table.def
    "sdk/onnx": ["core/include", "sdk/include", "sdk/onnx/include"],
    "sdk/bridges": ["core/include", "sdk/include", "sdk/onnx/include"],
    "sdk/onnx/include": ["core/include", "sdk/include"],
    "sdk/tools": ["core/include", "sdk/include", "sdk/child", "sdk/conformance", "sdk/onnx", "sdk/bridges", "sdk/onnx/include", "ops: schema"],
    "examples": ["sdk/onnx/include", "core/include", "sdk/include", "sdk/conformance", "ops: reference"],
    "examples/own_operator": ["core/include", "sdk/include", "sdk/template"],  # one file for a copy of the template, one for an app
}
# A file of sdk/ops belongs to its role, which its name begins with, whatever its family.
ROLES = {"ops": "schema", "words": "schema", "schema": "schema", "families": "kernel", "kernel": "kernel",
         "kernels": "kernel", "launch": "kernel", "shape": "rule", "grad": "rule", "decompose": "rule",
         "reference": "reference", "cases": "cases"}
# All that rules see of core's own headers.
RULES_SEE = {"core/schema/op.h", "core/call/shape.h", "core/call/compose.h"}
GENERATED = {"backplane/attrs.h": "sdk/include", "backplane/ops.h": "core/include"}

# Headers with a vendor's names, in place of those of the vendor's SDK: as headers of libraries, they are not checked.
VENDOR_HEADERS = "tests/standins/poplar/include/"

PLUGIN_NAMES = ["cpu", "cuda", "hip", "openvino", "xpu", "npu", "mlu", "ipu"]

# Members of ABI structs. Fixed width, floating point, text, pointers, and structs of the ABI by value.
MEMBER_TYPES = re.compile(
    r"^(const )?(u?int(8|16|32|64)_t|size_t|double|float|char|struct bp_\w+)$")

SOURCE = re.compile(r"\.(c|h|cc|cpp|cu|cl|inc|def|py|sh|map)$"
                    r"|(^|/)(meson\.build|meson_options\.txt|Makefile)$|^dev$|^\.ci/run$")
C_SOURCE = re.compile(r"\.(c|h|cc|cpp|cu|cl|inc|def)$")


class Tree:
    """The files of the repository, without build directories and git's own."""

    def __init__(self, root):
        self.root = root
        self.files = sorted(self.walk())
        self.text = {}
        for path in self.files:
            with open(os.path.join(root, path), "rb") as f:
                data = f.read()
            if b"\0" not in data:
                self.text[path] = data.decode("utf-8", "replace")

    def walk(self):
        for folder, folders, names in os.walk(self.root):
            if folder == self.root:
                folders[:] = [d for d in folders if d != ".git" and not d.startswith("build")]
            folders[:] = [d for d in folders if d not in ("__pycache__", ".cache", ".vscode")]
            for name in names:
                path = os.path.join(folder, name)
                if not os.path.islink(path) and name != ".git":  # a file, in a linked worktree
                    yield os.path.relpath(path, self.root)

    def sources(self, pattern=SOURCE):
        return [p for p in self.files if pattern.search(p) and p in self.text]


def blank(match):
    """A comment or literal as spaces, so that line numbers stay."""
    return re.sub(r"[^\n]", " ", match.group(0))


COMMENT = r"/\*.*?\*/|//[^\n]*"
LITERAL = r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''


def without_comments(text, literals=False):
    """Blanks comments; with literals, also the insides of strings."""
    def keep(match):
        is_literal = match.group(0)[0] in "\"'"
        return match.group(0) if is_literal and not literals else blank(match)
    return re.sub(COMMENT + "|" + LITERAL, keep, text, flags=re.S)


def line_of(text, at):
    return text.count("\n", 0, at) + 1


# --- the rules: each yields breaches as text, and counts the places it looked at in seen[0] ---------------

def file_lengths(tree, seen):
    for path in tree.sources():
        seen[0] += 1
        lines = tree.text[path].count("\n")
        if lines > FILE_LINES:
            yield f"{path}: {lines} lines, at most {FILE_LINES}: split it"


def line_widths(tree, seen):
    for path in tree.sources(re.compile(r"\.[ch]$")):
        for number, line in enumerate(tree.text[path].splitlines(), 1):
            seen[0] += 1
            if len(line) > COLUMNS:
                yield f"{path}:{number}: {len(line)} columns"


def functions(text):
    """(first line, last line, head) of each function with a body in C text."""
    text = without_comments(text, literals=True)
    text = re.sub(r"^[ \t]*#(?:[^\n\\]|\\.)*(?:\\\n[^\n]*)*", blank, text, flags=re.M)
    text = re.sub(r'extern\s+"?\s*C?\s*"?\s*\{', lambda m: blank(m)[:-1] + ";", text)
    depth, start, head_at = 0, None, 0
    for match in re.finditer(r"[{};]", text):
        mark, at = match.group(0), match.start()
        if mark == "{":
            head = text[head_at:at].strip()
            if depth == 0 and head.endswith(")") and "=" not in head.split("(")[0]:
                start = (at, head)
            depth += 1
        elif mark == "}":
            depth = max(depth - 1, 0)
            if depth == 0 and start:
                yield line_of(text, start[0]), line_of(text, at), start[1]
                start = None
        if depth == 0:
            head_at = at + 1


def function_lengths(tree, seen):
    for path in tree.sources(C_SOURCE):
        for first, last, head in functions(tree.text[path]):
            seen[0] += 1
            if last - first + 1 > FUNCTION_LINES:
                name = re.search(r"(\w+)\s*\(", head)
                yield (f"{path}:{first}: {name.group(1) if name else '?'} has {last - first + 1} lines, "
                       f"at most {FUNCTION_LINES}: split it")


def area(path):
    """The prefix of LAYERS that path belongs to, with * made a name; None: no rule."""
    best = None
    if path.startswith("sdk/ops/"):
        role = ROLES.get(re.split("[_.]", os.path.basename(path))[0])
        return (f"ops: {role}", f"sdk/ops: {role}") if role else None
    for prefix in LAYERS:
        pattern = re.escape(prefix).replace(r"\*", "[^/]+")
        match = re.match(pattern + "/", path)
        if match and (best is None or len(prefix) > len(best[0])):
            best = (prefix, match.group(0)[:-1])
    return best


def resolve(tree, path, name):
    """The file of the tree, or the area of a generated file, that an include means; None: not ours."""
    if name in GENERATED:
        return GENERATED[name] + "/" + name
    near = os.path.normpath(os.path.join(os.path.dirname(path), name))
    found = [near] if near in tree.text else [
        f for f in tree.files if (f == name or f.endswith("/" + name)) and not f.startswith(VENDOR_HEADERS)]
    own = area(path)
    same = [f for f in found if area(f) == own]
    return (same or found or [None])[0]


def includes(tree, path):
    """(offset, file or area) of each include of ours in a file."""
    for match in re.finditer(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]',
                             without_comments(tree.text.get(path, "")), re.M):
        target = resolve(tree, path, match.group(1))
        if target:
            yield match.start(), target


def layering(tree, seen):
    for path in tree.sources(C_SOURCE):
        here = area(path)
        if not here and path.startswith("sdk/ops/"):
            yield f"{path}: files of sdk/ops are named by their role: {', '.join(ROLES)}"
        for at, target in includes(tree, path):
            seen[0] += 1
            there = area(target)
            if here and here[0] == "ops: rule" and there == ("core", "core") and target not in RULES_SEE:
                yield (f"{path}:{line_of(tree.text[path], at)}: includes {target}; rules of operators may include of "
                       f"core: {', '.join(sorted(RULES_SEE))}")
            if here is None or there == here:
                continue
            if there is None or there[0] not in LAYERS[here[0]]:
                allowed = ", ".join(LAYERS[here[0]]) or "nothing of ours"
                yield (f"{path}:{line_of(tree.text[path], at)}: includes {target}; "
                       f"{here[1]}/ may include: {allowed}")


def apart(path, target):
    """Whether a family, or a plugin, may include a file of sdk/ops: its own, those of common/, which know no family,
    and a plugin those of kernels."""
    family = target.split("/")[2] if target.count("/") == 3 else None  # None: a list of all
    if path.startswith("sdk/ops/"):
        own = path.split("/")[2] if path.count("/") == 3 else None
        return None in (family, own) or family in (own, "common")
    return not path.startswith("plugins/") or family is None or re.match("kernels?[_.]", os.path.basename(target))


def families_apart(tree, seen):
    """Families know common/ and themselves. Includes that still do not follow are in apart.txt, which may only shrink."""
    listed = [line for line in tree.text.get("tests/style/apart.txt", "").splitlines() if line and line[0] != "#"]
    found = []
    for path in tree.sources(C_SOURCE):
        for at, target in includes(tree, path):
            if not target.startswith("sdk/ops/"):
                continue
            seen[0] += 1
            if not apart(path, target):
                found.append(f"{path} {target}")
                if found[-1] not in listed:
                    yield (f"{path}:{line_of(tree.text[path], at)}: includes {target}; families include their own files "
                           "and common/, plugins kernel.h and kernels.def")
    for line in listed:
        if line not in found:
            yield f"tests/style/apart.txt: {line}: is no longer so: take the line out"


def references_alone(tree, seen):
    """References include, directly or not, no code that they judge."""
    for path in tree.sources(C_SOURCE):
        if (area(path) or [None])[0] != "ops: reference":
            continue
        seen[0] += 1
        reached, todo = set(), [path]
        while todo:
            new = {target for _, target in includes(tree, todo.pop())} - reached
            reached |= new
            todo += new
        for target in sorted(t for t in reached if re.match(r"core/|plugins/|sdk/dialect/", t)
                             or (area(t) or [None])[0] in ("ops: kernel", "ops: rule")):
            yield f"{path}: reaches {target}; references know nothing of core, plugins, kernels and rules"


def no_plugin_in_core(tree, seen):
    """Code and strings; comments of headers may give examples."""
    pattern = re.compile(r"(?<![A-Za-z0-9_])(%s)(?![A-Za-z0-9_])" % "|".join(PLUGIN_NAMES))
    for path in tree.sources():
        if not path.startswith("core/") and (area(path) or [None])[0] not in ("ops: schema", "ops: rule"):
            continue
        seen[0] += 1
        text = tree.text[path]
        text = without_comments(text) if C_SOURCE.search(path) else re.sub(r"#[^\n]*", blank, text)
        for match in pattern.finditer(text):
            yield (f"{path}:{line_of(text, match.start())}: the word '{match.group(1)}' names a plugin; "
                   "core/ knows none by name")


VARIABLES = "core/runtime/variables.c"  # lists the environment variables of the core


def environment(tree, seen):
    """A set-uid process takes nothing from its caller: docs/security.md."""
    for path in tree.sources(C_SOURCE):
        if not path.startswith(("core/", "plugins/", "sdk/kit/", "sdk/template/")):
            continue
        seen[0] += 1
        text = without_comments(tree.text[path])
        for match in re.finditer(r"\bgetenv\s*\(", text):
            yield f"{path}:{line_of(text, match.start())}: getenv; read the environment with secure_getenv"
        for match in re.finditer(r'"(BP_[A-Z_]+)"', text if path.startswith("core/") else ""):
            if not match[1].startswith(("BP_ERR_", "BP_SEALED")) and f'"{match[1]}"' not in tree.text[VARIABLES]:
                yield f"{path}:{line_of(text, match.start())}: {match[1]}; list it in {VARIABLES}"


def licence_lines(tree, seen):
    for path in tree.sources():
        seen[0] += 1
        if "SPDX-License-Identifier: Apache-2.0" not in "\n".join(tree.text[path].split("\n")[:3]):
            yield f"{path}:1: no SPDX-License-Identifier: Apache-2.0 in the first lines"


def clean_text(tree, seen):
    for path in tree.sources():
        seen[0] += 1
        text = tree.text[path]
        for number, line in enumerate(text.split("\n"), 1):
            if "\t" in line and not path.endswith("Makefile"):
                yield f"{path}:{number}: a tab; indent with 4 spaces"
            if line != line.rstrip():
                yield f"{path}:{number}: spaces at the end of the line"
        if text and not text.endswith("\n"):
            yield f"{path}: no newline at the end"


def search_paths(tree, seen):
    """Meson adds the folders of a test's libraries before these, in an order that differs from build to build."""
    for path, text in tree.text.items():
        if not path.endswith("meson.build"):
            continue
        seen[0] += 1
        for match in re.finditer(r"'LD_LIBRARY_PATH'\s*:|\w\((?=\s*'LD_LIBRARY_PATH')", text):
            yield f"{path}:{line_of(text, match.start())}: LD_LIBRARY_PATH in a test's env; set it with the program env"


def machine_paths(tree, seen):
    """Paths of one machine; in generic places (documents, sources) they are always a slip."""
    homes = ["wo" + "rk", "ro" + "ot", "ho" + "me/[A-Za-z0-9_]+"]
    pattern = re.compile(r"(?<![\w.$}/~-])/(%s)(?![\w-])" % "|".join(homes))
    for path, text in tree.text.items():
        if path == "LICENSE":
            continue
        seen[0] += 1
        for match in pattern.finditer(text):
            yield (f"{path}:{line_of(text, match.start())}: '{match.group(0)}' is a path of one machine")


def api_headers(tree, build):
    for path in tree.sources(re.compile(r"^(core|sdk)/include/backplane/\w+\.h$")):
        yield path, tree.text[path]
    for name in ("attrs.h", "ops.h"):
        path = os.path.join(build, "sdk", "include", "backplane", name)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                yield name, f.read()


def declared(tree, build):
    """Name -> header of each function that is declared BP_API."""
    names = {}
    for path, text in api_headers(tree, build):
        for match in re.finditer(r"^BP_API\b[^;{]*?\b(bp_\w+)\s*\(", without_comments(text), re.M):
            names[match.group(1)] = path
    return names


def names_short(tree, seen):
    for path in tree.sources(re.compile(r"^(core|sdk|plugins)/.*\.[ch]$")):
        text = without_comments(tree.text[path], literals=True)
        for match in re.finditer(r"\b(bp_\w+)\s*\(", text):
            seen[0] += 1
            if len(match.group(1)) >= NAME_LENGTH:
                yield (f"{path}:{line_of(text, match.start())}: {match.group(1)} has "
                       f"{len(match.group(1))} characters; under {NAME_LENGTH}")


def op_prefix(tree, seen):
    for path in tree.sources(re.compile(r"^(core|sdk)/.*\.h$")):
        seen[0] += 1
        text = without_comments(tree.text[path], literals=True)
        for match in re.finditer(r"\b(bp_op_\w+)\s*\(", text):
            yield (f"{path}:{line_of(text, match.start())}: {match.group(1)}: the prefix bp_op_ belongs to "
                   "the typed operator calls of the generated ops.h")


def members(text):
    """(struct, declaration, offset) of each member of each struct that is defined in text."""
    for match in re.finditer(r"\bstruct\s+(bp_\w+)\s*\{", text):
        depth, at = 1, match.end()
        while depth and at < len(text):
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            at += 1
        begin = match.end()
        for part in text[begin:at - 1].split(";"):
            if part.strip():
                yield match.group(1), " ".join(part.split()), begin + len(part) - len(part.lstrip())
            begin += len(part) + 1


def member_types(tree, seen):
    for path in tree.sources(re.compile(r"^sdk/include/backplane/\w+\.h$")):
        text = re.sub(r"^[ \t]*#(?:[^\n\\]|\\.)*(?:\\\n[^\n]*)*", blank,
                      without_comments(tree.text[path]), flags=re.M)
        for struct, declaration, at in members(text):
            seen[0] += 1
            where = f"{path}:{line_of(text, at)}: struct {struct}: '{declaration}'"
            if re.search(r"\(\s*\*\s*\w+\s*\)\s*\(", declaration):
                continue  # a callback
            if ":" in declaration:
                yield where + " is a bit-field"
            elif "*" in declaration:
                continue
            elif not MEMBER_TYPES.match(re.sub(r"\s*\b\w+(\[\w+\])?(, *\w+(\[\w+\])?)*$", "", declaration)):
                yield where + ": members have a fixed width (no enum, bool, int, long)"


def exported(path):
    out = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True)
    return {line.split()[-1].split("@")[0] for line in out.stdout.splitlines() if line.split()[-2] != "A"}


def library_symbols(tree, seen, build, library):
    have, want = exported(library), declared(tree, build)
    seen[0] += len(have)
    for name in sorted(have - want.keys()):
        yield f"{os.path.basename(library)} exports {name}, which no public header declares BP_API"
    for name in sorted(want.keys() - have):
        yield f"{want[name]} declares {name}, which {os.path.basename(library)} does not export"


def plugin_symbols(tree, seen, build):
    with open(os.path.join(build, "meson-info", "intro-targets.json"), encoding="utf-8") as f:
        targets = json.load(f)
    for target in targets:
        source = os.path.relpath(target["defined_in"], tree.root)
        if target["type"] != "shared module" or source.startswith("tests/"):
            continue
        for path in target["filename"]:
            seen[0] += 1
            if not os.path.exists(path):
                yield f"{os.path.relpath(path, build)} is not built"
            name = os.path.basename(path)
            wanted = "bp_net_get" if name.startswith("bp_net_") else "bp_plugin_get"  # network modules
            if source.startswith("sdk/bridges/python/"):
                wanted = "PyInit__backplane"
            if os.path.exists(path) and exported(path) != {wanted}:
                yield f"{name} exports {sorted(exported(path))}, expected {wanted} only"


def links(tree, seen):
    for path in tree.sources(re.compile(r"\.md$")):
        text = re.sub(r"^```.*?^```", blank, tree.text[path], flags=re.S | re.M)
        for match in re.finditer(r"\]\(([^)\s]+)\)", text):
            target = match.group(1)
            if re.match(r"[a-z]+:", target):
                continue
            seen[0] += 1
            name, _, anchor = target.partition("#")
            file = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
            where = f"{path}:{line_of(text, match.start())}: link to {target}"
            if not os.path.exists(os.path.join(tree.root, file)):
                yield where + ": no such file"
            elif anchor and file in tree.text and anchor not in anchors(tree.text[file]):
                yield where + ": no such heading"


def anchors(text):
    titles = re.findall(r"^#+ +(.*?) *$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", t.lower()).replace(" ", "-") for t in titles}


def main():
    root, build = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    tree = Tree(root)
    rules = [
        (f"files have at most {FILE_LINES} lines", file_lengths, ()),
        (f"functions have at most {FUNCTION_LINES} lines", function_lengths, ()),
        (f"lines have at most {COLUMNS} columns", line_widths, ()),
        ("includes follow the layers", layering, ()),
        ("families of operators know common/ and themselves", families_apart, ()),
        ("references stand alone", references_alone, ()),
        ("core names no plugin", no_plugin_in_core, ()),
        ("the environment is not read in a set-uid process", environment, ()),
        ("sources carry their licence", licence_lines, ()),
        ("no tabs, no trailing spaces", clean_text, ()),
        ("no test takes LD_LIBRARY_PATH from meson's env", search_paths, ()),
        ("no paths of one machine", machine_paths, ()),
        (f"bp_ functions have under {NAME_LENGTH} characters", names_short, ()),
        ("bp_op_ is for operator calls", op_prefix, ()),
        ("static functions name their object", names.statics_name_an_object, ()),
        (f"a function's name is in at most {names.FILES_OF_A_NAME} files", names.names_in_few_files, ()),
        ("no private name has a public one's words in another order", names.names_differ_from_public, ()),
        ("members of ABI structs have a fixed width", member_types, ()),
        ("relative links resolve", links, ()),
        ("files begin with their purpose", files.files_say_their_purpose, ()),
        ("docs/files.md is what the files say", files.page_is_fresh, ()),
        ("comments are plain English in the field's words", prose.plain_comments, ()),
        ("names are words of the field", prose.names_are_public_words, ()),
    ]
    if len(sys.argv) > 3:
        rules += [("libbackplane exports what its headers declare", library_symbols, (build, sys.argv[3])),
                  ("plugins export bp_plugin_get only", plugin_symbols, (build,))]
    print(f"1..{len(rules)}")
    failed = 0
    for number, (title, rule, extra) in enumerate(rules, 1):
        seen = [0]
        breaches = list(rule(tree, seen, *extra))
        if not breaches and not seen[0]:
            breaches = ["nothing was looked at: the rule no longer finds its files"]
        failed += bool(breaches)
        print(f"{'not ok' if breaches else 'ok'} {number} - {title} ({seen[0]} looked at)")
        for breach in breaches:
            print("#  ", breach)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
