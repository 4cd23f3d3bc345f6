#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Proves that each rule of style.py can fail: a small tree with one breach of each, and one without."""
import os
import sys
import tempfile

import files
import names
import prose
import style

LICENCE = "/* SPDX-License-Identifier: Apache-2.0 */\n"
SAME = "static int a_b(void)\n{\n}\n"
HEADER = "sdk/include/backplane/kernel.h"

# rule: (path, text with a breach, how often it is to be found, text without; or its path and it)
BREACHES = {
    style.file_lengths: ("core/a.c", "x;\n" * 801, 1, "x;\n" * 800),
    style.function_lengths: ("core/a.c", "int f(void)\n{\n" + "x;\n" * 99 + "}\n", 1,
                             "struct s {\n" + "int x;\n" * 200 + "};\nint f(void)\n{\n" + "x;\n" * 98 + "}\n"),
    style.layering: ("plugins/x/a.c", '#include "../../core/base/base.h"\n#include <backplane/api.h>\n'
                     '#include "../y/b.h"\n', 3, '#include <backplane/kernel.h>\n#include <stdio.h>\n'),
    style.families_apart: ("sdk/ops/b/grad.c", '#include "../a/shape.h"\n', 1,
                           '#include "../common/reference_number.h"\n#include <call/shape.h>\n'),
    style.references_alone: ("sdk/ops/a/reference.c", '#include <conformance/judge.h>\n#include "kernel.h"\n', 2,
                             '#include "../common/reference_number.h"\n#include <backplane/kernel.h>\n'),
    style.no_plugin_in_core: ("core/a.c", 'f("cu' 'da");\nint c' 'pu;\n', 2,
                              "/* as c" "pu */ int c" "pu_features;\n"),
    style.environment: ("plugins/x/a.c", "f(getenv(\"A\"));\n", 1, "/* getenv(x) */ secure_getenv(\"A\");\n"),
    style.licence_lines: ("core/a.c", "int x;\n", 1, LICENCE),
    style.clean_text: ("core/a.c", "\tint x; \nint y;", 3, "int x;\n"),
    style.search_paths: ("tests/a/meson.build", "test('a', b, env: {'LD_LIBRARY_PATH': c})\ne.set('LD_LIBRARY_PATH', c)\n", 2,
                         "test('a', env, args: ['-u', 'LD_LIBRARY_PATH', 'LD_LIBRARY_PATH=c', b])\n"),
    style.machine_paths: ("docs/a.md", "cd /ro" "ot/x and /ho" "me/me and /wo" "rk\n", 3,
                          "~/wo" "rk, $HOME/x, a/ro" "ot, /usr/lib\n"),
    style.names_short: ("core/a.c", "int bp_" + "a" * 30 + "(void);\n", 1, "int bp_" + "a" * 29 + "(void);\n"),
    names.statics_name_an_object: ("core/a.c", "static int take(void)\n{\n}\n", 1, "static int pool_take(void)\n{\n}\nint main(void)\n{\n}\n"),
    style.op_prefix: ("core/include/backplane/a.h", "int bp_op_find(void);\n", 1, "int bp_opinfo(void);\n"),
    style.member_types: (HEADER, "struct bp_a {\n    enum bp_status s;\n    bool b;\n    long l, m;\n"
                         "    uint32_t f : 3;\n    int (*ok)(int a, bool b);\n};\n", 4,
                         "struct bp_a { /* hot */\n    uint32_t a, b;\n    void *p, *q;\n    char n[64];\n"
                         "    enum bp_status (*f)(void *self,\n        bool b);\n    struct bp_dims d;\n};\n"),
    files.files_say_their_purpose: ("core/a.c", LICENCE + "/* A file. */\n", 1, LICENCE + "/* a.c: adds numbers. It is short. */\n"),
    files.page_is_fresh: ("docs/files.md", "# Files\n", 1, ("docs/files.md", files.HEAD + "\n## `core/1`\n\n| file | purpose |\n|---|---|\n"
                          "| [a.c](../core/1/a.c) | Adds numbers |\n\n## `tests`\n\n| file | purpose |\n|---|---|\n"
                          "| [a.py](../tests/a.py) | Runs it |\n")),
    prose.plain_comments: ("core/a.c", "/* What is left. Nobody is told what it is. */\n// Who waits\n", 6,
                           "/* The rest. A caller, whose name is \"nobody\", learns a lot. */\n" + "/* one word more */\n" * 400
                           + "char *s = \"/* what */\";\n"),
    prose.names_are_public_words: ("core/a.c", "int is_told, x; /* told */\n", 1, "int is_reported; char *s = \"told\"; /* told */\n"),
    style.links: ("docs/a.md", "[x](none.md) [y](#none)\n", 2, "# A b\n[y](#a-b) [z](../dev)\n"),
}
# More of one rule: files of sdk/ops by their roles.
MORE = [
    (style.layering, ("sdk/ops/a/kernel_b.h", '#include "shape.h"\n#include <backplane/api.h>\n', 2,
                      '#include "kernel.h"\n#include <backplane/kernel.h>\n')),
    (style.layering, ("sdk/ops/a/grad.c", '#include <base/base.h>\n#include "kernel.h"\n', 2,
                      '#include <call/shape.h>\n#include "shape.h"\n#include <backplane/api.h>\n')),
    (style.layering, ("sdk/ops/a/other.c", "int x;\n", 1, ("sdk/ops/a/decompose.c", "int x;\n"))),
    (style.layering, ("plugins/x/a.c", "#include <ops/a/shape.h>\n", 1, "#include <ops/a/kernel.h>\n")),
    (style.layering, ("sdk/ops/a/cases.c", "#include <conformance/judge.h>\n", 1, "#include <backplane/api.h>\n")),
    (names.names_in_few_files, ("core/a.c", "static int a_b(void)\n{\n}\n", 1, "static int a_c(void)\n{\n}\n")),
    (names.names_differ_from_public, ("core/a.c", "static int run_call(void)\n{\n}\nenum bp_status\nbp_run_call(void);\n", 2,
                                      "static int call_run(void)\n{\n}\n")),
    (style.families_apart, ("plugins/x/a.c", "#include <ops/a/launch_b.h>\n", 1, "#include <ops/a/kernel.h>\n")),
]


def breaches(rule, path, text):
    """The breaches that rule finds in a tree with this file and the included ones."""
    files = {"core/base/base.h": "", "core/include/backplane/api.h": "int bp_call_run(void);\n", HEADER: "", "plugins/y/b.h": "", "dev": "",
             "sdk/conformance/judge.h": "#include <backplane/api.h>\n", "sdk/ops/common/reference_number.h": "",
             "sdk/ops/a/kernel.h": "", "sdk/ops/a/launch_b.h": "", "sdk/ops/a/shape.h": "", "core/call/shape.h": "",
             "core/1/a.c": "/* a.c: adds numbers. */\n" + SAME, "core/2/told.c": SAME, "core/3/told.c": SAME,
             "tests/a.py": '"""Runs it."""\n'}
    with tempfile.TemporaryDirectory() as root:
        for name, content in {**files, path: text}.items():
            os.makedirs(os.path.join(root, os.path.dirname(name)), exist_ok=True)
            with open(os.path.join(root, name), "w", encoding="utf-8") as f:
                f.write(content)
        return [b for b in rule(style.Tree(root), [0]) if b.startswith(path)]


def main():
    todo = [*BREACHES.items(), *MORE]
    print(f"1..{len(todo)}")
    failed = 0
    for number, (rule, (path, bad, count, good)) in enumerate(todo, 1):
        good = good if isinstance(good, tuple) else (path, good)
        found, false = breaches(rule, path, bad), breaches(rule, *good)
        right = len(found) == count and not false
        failed += not right
        print(f"{'ok' if right else 'not ok'} {number} - {rule.__name__} finds its breach")
        if not right:
            print(f"#   expected {count} breaches, got {found}; in sound text none, got {false}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
