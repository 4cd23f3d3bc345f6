# SPDX-License-Identifier: Apache-2.0
"""What moves.py changes beside paths and includes: (text that stands once in a file, what it becomes)."""

OPS_BUILD = """\
# SPDX-License-Identifier: Apache-2.0
# Operators, a folder a family. A folder's meson.build adds its files to what core and the suite compile; those of its
# kernels are in sdk/dialect/meson.build.
ops_core = []  # shape, grad, decompose
ops_suite = [] # cases, reference
foreach family : [
@FAMILIES@]
  subdir(family)
endforeach
"""

PORTABLE_FILES = """\
# Where the files of a family lie: in sdk/ops, with @0@ for kernel, launch and kernels.
portable_files = {
  'index': 'index/@0@',
  'parts': 'complex/@0@_parts',
  'scatter': 'scatter/@0@',
  'order': 'sort/@0@',
  'fold': 'reduce/@0@',
  'extreme': 'minmax/@0@',
  'count': 'reduce/@0@_count',
  'scan': 'scan/@0@',
  'pool': 'pool/@0@',
  'normalise': 'norm/@0@',
  'label': 'cross_entropy/@0@',
  'random': 'random/@0@',
  'randint': 'random/@0@_randint',
  'sample': 'grid_sample/@0@',
  'boxes': 'roi/@0@',
  'resize': 'resize/@0@',
  'attention': 'attention/@0@',
  'ctc': 'ctc/@0@',
  'step': 'optimizer/@0@',
  'quantise': 'quantize/@0@',
  'rearrange': 'copy/@0@',
  'patches': 'unfold/@0@',
  'create': 'create/@0@',
  'square': 'linalg/@0@',
  'formula': 'common/@0@_formula',
  'cast': 'cast/@0@',
  'move': 'copy/@0@_move',
  'scale': 'unary/@0@_scale',
  'uniform': 'random/@0@_uniform',
  'nonzero': 'index/@0@_nonzero',
  'softmax': 'softmax/@0@',
  'matmul': 'matmul/@0@',
  'conv': 'conv/@0@',
}
"""

COPIED = '''
# Files of these folders include each other by where they lie: where one is broken in a copy, all of them are copied.
TOGETHER = ("sdk/ops/", "sdk/dialect/")


def top_of(path):
    return "sdk" if path.startswith(TOGETHER) else os.path.dirname(os.path.dirname(path))


def copied(root, path, folder):
    """Copies what lies beside a file into a folder. Answers where the file is then."""
    for place in TOGETHER if path.startswith(TOGETHER) else [os.path.dirname(path) + "/"]:
        shutil.copytree(os.path.join(root, place), os.path.join(folder, os.path.basename(place[:-1])))
    return os.path.join(folder, os.path.relpath(path, top_of(path)))


def in_copy(root, path, folder, source):
    """Where a source is in the copy that was made for a file; the source itself where the copy does not have it."""
    near = os.path.relpath(source, root)
    has = near.startswith(TOGETHER) if path.startswith(TOGETHER) else os.path.dirname(near) == os.path.dirname(path)
    return os.path.join(folder, os.path.relpath(near, top_of(path))) if has else source

'''

EDITS = {
    # --- meson
    "meson.build": [
        ("subdir('core')            #", "subdir('sdk/ops')         # operators: lists of what core and the suite compile of them\nsubdir('core')            #"),
        ("subdir('sdk/kernels')     # portable kernels, headers only: nothing of ours",
         "subdir('sdk/dialect')     # portable kernels, headers only: sdk/ops, nothing else of ours"),
        ("sdk/include, sdk/kernels\n", "sdk/include, sdk/dialect, kernels of sdk/ops\n"),
    ],
    "sdk/include/meson.build": [
        ("ops_def = files('backplane/ops/ops.def', 'backplane/ops/words.h', 'backplane/ops/words_end.h',\n"
         "                'backplane/ops/math.def', 'backplane/ops/nn.def')\n",
         "ops_def = files('../ops/ops.def', '../ops/common/words.h', '../ops/common/words_end.h',\n"
         "                '../ops/common/schema_math.def', '../ops/common/schema_nn.def')\n"),
        ("sdk_inc = include_directories('.')\n", "sdk_inc = include_directories('.', '..') # <backplane/...>, <ops/...>\n"),
    ],
    "core/meson.build": [
        ("subdir('plugin')\n", "core_sources += ops_core\nsubdir('plugin')\n"),
        ("May use sdk/include only; names no plugin.", "May use sdk/include, and of sdk/ops schema, shape, grad and decompose; names no plugin."),
    ],
    "sdk/conformance/meson.build": [
        ("static_library('conformance_alone',\n", "static_library('conformance_alone', ops_suite,\n"),
    ],
    "sdk/dialect/meson.build": [
        ("'conv_shape.c', 'reduce.c')", "'../ops/conv/launch_shape.c', '../ops/common/launch_reduce.c')"),
        ("# The families of families.def, in its order, with", PORTABLE_FILES + "\n# The families of families.def, in its order, with"),
        ("  portable_sources += files(family + '.c')", "  portable_sources += files('../ops/' + portable_files[family].format('launch') + '.c')"),
        ("  portable_device_sources += files(family + '.c')",
         "  portable_device_sources += files('../ops/' + portable_files[family].format('launch') + '.c')"),
    ],
    "plugins/meson.build": [
        ("Each may use sdk/include and sdk/kernels, never", "Each may use sdk/include, sdk/dialect and the kernels of sdk/ops, never"),
    ],
    "plugins/xpu/meson.build": [
        ("# The portable kernels as texts for the driver's compiler.\n",
         "# The portable kernels as texts for the driver's compiler.\nxpu_headers = []\nforeach family, types : xpu_families\n"
         "  xpu_headers += family + '=ops/' + portable_files[family].format('kernel') + '.h'\nendforeach\n"),
        ("'@DEPFILE@', xpu_families.keys()])", "'@DEPFILE@', xpu_headers])"),
    ],
    "plugins/xpu/embed.py": [
        ("    embed.py SDK OUT DEPFILE FAMILY...\n", "    embed.py SDK OUT DEPFILE FAMILY=HEADER...     a header is named from SDK\n"),
        ('KERNELS = os.path.join(SDK, "kernels")\n', ""),
        ('    for header in sorted(os.path.basename(path) for path in read if path.endswith("_args.h")):\n'
         '        out.write(f"#include <kernels/{header}>\\n")\n',
         '    for header in sorted(os.path.relpath(path, SDK) for path in read if path.endswith("_args.h")):\n'
         '        out.write(f"#include <{header}>\\n")\n'),
        ("    families = sys.argv[4:]\n", '    families = dict(argument.split("=") for argument in sys.argv[4:])\n'),
        ("        for family in families:\n            out.write(f\"static const char *const source_{family}[] = {{\\n\")\n",
         "        for family, header in families.items():\n"
         "            out.write(f\"static const char *const source_{family}[] = {{\\n\")\n"),
        ('flat(os.path.join(KERNELS, family + ".h"), set())', "flat(os.path.join(SDK, header), set())"),
    ],
    # --- tests that read sources
    "tests/kernels/meson.build": [
        ("compiled_families += family + ':' +", "compiled_families += family + '=ops/' + portable_files[family].format('kernel') + '.h:' +"),
    ],
    "tests/kernels/compile.py": [
        ("BY_OTHERS FAMILY:DTYPE,DTYPE...     NEW_CLANG:", "BY_OTHERS FAMILY=HEADER:DTYPE,DTYPE...     NEW_CLANG:"),
        ('KERNELS = os.path.join(ROOT, "sdk", "kernels")\n'
         'FAMILIES = {name + ".h": types.split(",") for name, types in (a.split(":") for a in sys.argv[6:])}\n',
         'SDK = os.path.join(ROOT, "sdk")\n'
         'WORDS = [re.fullmatch(r"(\\w+)=(.*):(.*)", word).groups() for word in sys.argv[6:]]\n'
         'FAMILIES = {name + ".h": types.split(",") for name, _, types in WORDS}\n'
         'HEADERS = {header: name + ".h" for name, header, _ in WORDS}  # by path, named from sdk\n'),
        ('    """header -> names of its entry points."""\n    found = {}\n    for name in sorted(os.listdir(KERNELS)):\n'
         '        if not name.endswith(".h") or name in ("dialect.h", "entry.h", "run.h"):\n            continue\n'
         '        with open(os.path.join(KERNELS, name), encoding="utf-8") as f:\n',
         '    """family.h -> names of its entry points."""\n    found = {}\n'
         '    for path in sorted(glob.glob(os.path.join(SDK, "ops", "*", "*.h"))):\n'
         '        with open(path, encoding="utf-8") as f:\n'),
        ("            found[name] = names\n", "            found[HEADERS[os.path.relpath(path, SDK)]] = names\n"),
        ("import os\nimport re\n", "import glob\nimport os\nimport re\n"),
        ('    source = write(f"{header}.{dtype}.{ending}", f"#include <kernels/{header}>\\n")\n',
         '    path = next(path for path, name in HEADERS.items() if name == header)\n'
         '    source = write(f"{header}.{dtype}.{ending}", f"#include <{path}>\\n")\n'),
    ],
    "tests/ops/misspelt.py": [
        ("    ('nn.def', 'INFER(softmax) '", "    ('schema_nn.def', 'INFER(softmax) '"),
        ("    ('math.def', 'OUT(y, U'", "    ('schema_math.def', 'OUT(y, U'"),
        ("    ('math.def', 'IN(a, T'", "    ('schema_math.def', 'IN(a, T'"),
        ("    ('nn.def', 'I64(axis", "    ('schema_nn.def', 'I64(axis"),
        ("    ('math.def', 'GRAD(add) '", "    ('schema_math.def', 'GRAD(add) '"),
        ("    ('math.def', 'CASES(reduce) '", "    ('schema_math.def', 'CASES(reduce) '"),
        ("    ('nn.def', 'OPA(softmax_grad,'", "    ('schema_nn.def', 'OPA(softmax_grad,'"),
        ("'-fsyntax-only', '-I', str(include), str(source", "'-fsyntax-only', '-I', str(include / 'include'), '-I', str(include), str(source"),
        ("errors_of(cc, source, source / 'sdk/include')", "errors_of(cc, source, source / 'sdk')"),
        ("            include = pathlib.Path(scratch) / 'include'\n            shutil.copytree(source / 'sdk/include', include)\n"
         "            path = include / 'backplane/ops' / name\n",
         "            include = pathlib.Path(scratch)\n            for folder in ('include', 'ops'):\n"
         "                shutil.copytree(source / 'sdk' / folder, include / folder)\n"
         "            path = include / 'ops/common' / name\n"),
    ],
    "tests/tools/commands.py": [
        ("#include <backplane/ops/ops.def>", "#include <ops/ops.def>"),
        ('"-I", os.path.join(ROOT, "sdk", "include"), "-"]', '"-I", os.path.join(ROOT, "sdk"), "-"]'),
    ],
    "tests/mutants/every.py": [
        ("import os\n", "import os\nimport shutil\n"),
        ("\ndef text_with(", COPIED + "\ndef text_with("),
    ],
    "tests/conform/kernel_mutants.py": [
        ("from every import KERNELS, STRESS, some,", "from every import KERNELS, STRESS, copied, in_copy, some,"),
        ("def copied(number,", "def broken(number,"),
        ("    beside = os.path.join(folder, os.path.basename(os.path.dirname(path)))\n"
         "    shutil.copytree(os.path.dirname(os.path.join(ROOT, path)), beside)\n"
         '    with open(os.path.join(beside, os.path.basename(path)), "w", encoding="utf-8") as f:\n',
         '    with open(copied(ROOT, path, folder), "w", encoding="utf-8") as f:\n'),
        ("    source = os.path.normpath(os.path.join(BUILD, command[-1]))\n"
         "    if os.path.dirname(source) == os.path.dirname(os.path.join(ROOT, path)):  # else -I finds what is broken\n"
         "        command[-1] = os.path.join(folder, os.path.basename(os.path.dirname(path)), os.path.basename(source))\n",
         "    # Of a source that is not in the copy -I finds what is broken.\n"
         "    command[-1] = in_copy(ROOT, path, folder, os.path.normpath(os.path.join(BUILD, command[-1])))\n"),
        ("        folder = copied(number, path, old, new)\n", "        folder = broken(number, path, old, new)\n"),
    ],
    "tests/gpu/standin/broken.py": [
        ("from every import text_with  #", "from every import copied, in_copy, text_with  #"),
        ('    """The folder of a file, and a copy of it in which the file is broken."""\n'
         "    text, here = text_with(ROOT, path, old), os.path.dirname(os.path.join(ROOT, path))\n"
         "    copy = os.path.join(folder, os.path.basename(here))\n    shutil.copytree(here, copy)\n"
         '    with open(os.path.join(copy, os.path.basename(path)), "w", encoding="utf-8") as f:\n'
         "        f.write(text.replace(old, new))\n    return here, copy\n",
         '    """Copies what lies beside a file, with the file broken."""\n'
         "    text = text_with(ROOT, path, old)\n"
         '    with open(copied(ROOT, path, folder), "w", encoding="utf-8") as f:\n'
         "        f.write(text.replace(old, new))\n"),
        ("    here, copy = broken_copy(folder, path, old, new)\n", "    broken_copy(folder, path, old, new)\n"),
        ("    source = os.path.normpath(os.path.join(BUILD, command[-1]))\n    if os.path.dirname(source) == here:\n"
         "        command[-1] = os.path.join(copy, os.path.basename(source))\n",
         "    command[-1] = in_copy(ROOT, path, folder, os.path.normpath(os.path.join(BUILD, command[-1])))\n"),
    ],
    # --- rules of style
    "tests/style/rooms.py": [
        ('["core/op/rules/*", "core/op/infer*.c", "sdk/ops/common/grad.c", "sdk/ops/common/decompose.c"]', '["sdk/ops/*"]'),
    ],
    "tests/style/style.py": [
        ('    "sdk/opgen": ["sdk/include"],\n    "sdk/kernels": ["sdk/include"],\n'
         '    "sdk/template": ["sdk/include", "sdk/kernels"],\n',
         '    "sdk/opgen": ["sdk/include", "ops: schema"],\n    "sdk/dialect": ["sdk/include", "ops: kernel"],\n'
         '    "sdk/template": ["sdk/include", "sdk/dialect"],\n    "ops: schema": [],\n'
         '    "ops: kernel": ["sdk/include", "sdk/dialect"],\n    "ops: rule": ["sdk/include", "core/include", "core"],\n'
         '    "ops: reference": ["sdk/include", "sdk/conformance", "ops: schema"],\n'
         '    "ops: cases": ["sdk/include", "core/include", "sdk/conformance", "ops: reference"],\n'),
        ('    "core": ["core/include", "sdk/include"],\n    "plugins/gpu": ["sdk/include", "sdk/kernels"],\n'
         '    "plugins/*": ["plugins/gpu", "sdk/include", "sdk/kernels"],\n'
         '    "sdk/conformance/reference": ["sdk/include", "sdk/conformance"],\n',
         '    "core": ["core/include", "sdk/include", "ops: schema"],\n'
         '    "plugins/gpu": ["sdk/include", "sdk/dialect", "ops: kernel"],\n'
         '    "plugins/*": ["plugins/gpu", "sdk/include", "sdk/dialect", "ops: kernel"],\n'),
        ('"sdk/child", "sdk/onnx", "sdk/conformance/reference"],  # table.def',
         '"sdk/child", "sdk/onnx", "ops: schema", "ops: reference"],  # table.def'),
        ('"sdk/child", "sdk/conformance", "sdk/onnx"],\n', '"sdk/child", "sdk/conformance", "sdk/onnx", "ops: schema"],\n'),
        ('    "examples": ["sdk/onnx", "core/include", "sdk/include", "sdk/conformance", "sdk/conformance/reference"],\n}\n',
         '    "examples": ["sdk/onnx", "core/include", "sdk/include", "sdk/conformance", "ops: reference"],\n}\n'
         "# A file of sdk/ops belongs to its role, which its name begins with, whatever its family.\n"
         'ROLES = {"ops": "schema", "words": "schema", "schema": "schema", "families": "kernel", "kernel": "kernel",\n'
         '         "kernels": "kernel", "launch": "kernel", "shape": "rule", "grad": "rule", "decompose": "rule",\n'
         '         "reference": "reference", "cases": "cases"}\n'
         "# All that rules see of core's own headers.\n"
         'RULES_SEE = {"core/op/op.h", "core/op/rules.h", "core/op/compose.h"}\n'),
        ('    best = None\n    for prefix in LAYERS:\n',
         '    best = None\n    if path.startswith("sdk/ops/"):\n'
         '        role = ROLES.get(re.split("[_.]", os.path.basename(path))[0])\n'
         '        return (f"ops: {role}", f"sdk/ops: {role}") if role else None\n    for prefix in LAYERS:\n'),
        ('    for path in tree.sources(C_SOURCE):\n        here = area(path)\n        for at, target in includes(tree, path):\n'
         "            seen[0] += 1\n            there = area(target)\n",
         '    for path in tree.sources(C_SOURCE):\n        here = area(path)\n'
         '        if not here and path.startswith("sdk/ops/"):\n'
         '            yield f"{path}: files of sdk/ops are named by their role: {\', \'.join(ROLES)}"\n'
         '        for at, target in includes(tree, path):\n            seen[0] += 1\n            there = area(target)\n'
         '            if here and here[0] == "ops: rule" and there == ("core", "core") and target not in RULES_SEE:\n'
         '                yield (f"{path}:{line_of(tree.text[path], at)}: includes {target}; rules of operators may include of "\n'
         '                       f"core: {\', \'.join(sorted(RULES_SEE))}")\n'),
        ('        if not path.startswith("sdk/conformance/reference/"):\n            continue\n',
         '        if (area(path) or [None])[0] != "ops: reference":\n            continue\n'),
        ('        for target in sorted(t for t in reached if re.match(r"core/|plugins/|sdk/kernels/", t)):\n'
         '            yield f"{path}: reaches {target}; references know nothing of core, plugins and sdk/kernels"\n',
         '        for target in sorted(t for t in reached if re.match(r"core/|plugins/|sdk/dialect/", t)\n'
         '                             or (area(t) or [None])[0] in ("ops: kernel", "ops: rule")):\n'
         '            yield f"{path}: reaches {target}; references know nothing of core, plugins, kernels and rules"\n'),
        ('        if not path.startswith("core/"):\n            continue\n        seen[0] += 1\n        text = tree.text[path]\n        text = without_comments(text)',
         '        if not path.startswith("core/") and (area(path) or [None])[0] not in ("ops: schema", "ops: rule"):\n'
         '            continue\n        seen[0] += 1\n        text = tree.text[path]\n        text = without_comments(text)'),
        ('        if os.path.basename(folder) in ("cases", "ops", "reference", "report", "rules", "suites"):  # told as a folder\n'
         "            continue\n"
         '        if folder == "sdk/kernels" and f"`{re.sub(\'(_args)?[.].*\', \'\', name)}.*`" in page:  # as a family\n'
         "            continue\n",
         '        if os.path.basename(folder) in ("cases", "ops", "report", "suites"):  # told as a folder\n'
         "            continue\n"
         '        if folder.startswith("sdk/ops/") and f"`{os.path.basename(folder)}/`" in page:  # as a family\n'
         "            continue\n"),
    ],
    "tests/style/breaches.py": [
        ('    style.references_alone: ("sdk/conformance/reference/a.c", \'#include "../judge.h"\\n\', 1,\n'
         "                             '#include \"../number.h\"\\n#include <backplane/kernel.h>\\n'),\n",
         '    style.references_alone: ("sdk/ops/a/reference.c", \'#include <conformance/judge.h>\\n#include "kernel.h"\\n\', 2,\n'
         "                             '#include <conformance/number.h>\\n#include <backplane/kernel.h>\\n'),\n"),
        ("}\n\n\ndef breaches(",
         '}\n# More of one rule: files of sdk/ops by their roles.\nMORE = [\n'
         '    (style.layering, ("sdk/ops/a/kernel_b.h", \'#include "shape.h"\\n#include <backplane/api.h>\\n\', 2,\n'
         '                      \'#include "kernel.h"\\n#include <backplane/kernel.h>\\n\')),\n'
         '    (style.layering, ("sdk/ops/a/grad.c", \'#include <core.h>\\n#include "kernel.h"\\n\', 2,\n'
         '                      \'#include <op/rules.h>\\n#include "shape.h"\\n#include <backplane/api.h>\\n\')),\n'
         '    (style.layering, ("sdk/ops/a/other.c", "int x;\\n", 1, ("sdk/ops/a/decompose.c", "int x;\\n"))),\n'
         '    (style.layering, ("plugins/x/a.c", "#include <ops/a/shape.h>\\n", 1, "#include <ops/a/kernel.h>\\n")),\n'
         ']\n\n\ndef breaches('),
        ('"sdk/conformance/number.h": "",\n', '"sdk/conformance/number.h": "",\n             "sdk/ops/a/kernel.h": "", "sdk/ops/a/shape.h": "", "core/op/rules.h": "",\n'),
        ('    print(f"1..{len(BREACHES)}")\n', '    todo = [*BREACHES.items(), *MORE]\n    print(f"1..{len(todo)}")\n'),
        ("enumerate(BREACHES.items(), 1)", "enumerate(todo, 1)"),
    ],
    # --- documents and texts
    "sdk/tools/ops_markdown.c": [("sdk/include/backplane/ops/*.def", "sdk/ops/*/schema*.def")],
    "docs/ops.md": [("sdk/include/backplane/ops/*.def", "sdk/ops/*/schema*.def")],
    "sdk/include/backplane/kernel.h": [("is in backplane/ops/ (read docs/ops.md)", "is in its schema.def (read docs/ops.md)")],
    "docs/accuracy.md": [("They lie in `sdk/conformance/reference/`, include", "They lie in `sdk/ops` (`reference.c` of each family), include")],
    "CONTRIBUTING.md": [
        ("for everyone, plugins see nothing else but `sdk/kernels`, the core sees only `sdk/include`, and tools and\n"
         "conformance know devices only through the app API in `core/include`. The core knows no plugin by name.",
         "for everyone, plugins see nothing else but `sdk/dialect` and the kernels in `sdk/ops`, the core sees only\n"
         "`sdk/include` and the operators' table and rules in `sdk/ops`, and tools and conformance know devices only\n"
         "through the app API in `core/include`. The core knows no plugin by name. `sdk/ops` has a folder for each\n"
         "family of operators; the first word of a file's name there is its role, which says what the file may see."),
    ],
    "docs/kernel-guide.md": [
        ("          in <family>_args.h\n", "          in kernel_args.h\n"),
        ("gradient** in [core/op/rules](../core/op/rules), written", "gradient** in [grad_activation.c](../sdk/ops/unary/grad_activation.c), written"),
        ("in [sdk/conformance/reference](../sdk/conformance/reference): slow,", "in [reference_activation.c](../sdk/ops/unary/reference_activation.c): slow,"),
        ("An operator with a shape rule or a kernel of its own has the same places, and more in each: inference beside the\n"
         "gradient (`core/op/rules`, see `index.c`), a family of cases (`sdk/conformance/cases`), the four files of a kernel family.",
         "An operator with a shape rule or a kernel of its own has all its files in one folder of `sdk/ops`: `schema.def` the row,\n"
         "`shape.c` inference, `grad.c`, `decompose.c` what it is in other operators, `kernel.h` (`kernel_args.h`), `launch.c` and\n"
         "`kernels.def` the kernel, `reference.c` and `cases.c`; its `meson.build` lists them."),
        ("[unary.def](../sdk/ops/unary/kernels.def) or\n[binary.def](../sdk/ops/binary/kernels.def) is",
         "[unary/kernels.def](../sdk/ops/unary/kernels.def) or\n[binary/kernels.def](../sdk/ops/binary/kernels.def) is"),
        ("([formula_rows.def](../sdk/ops/common/kernels_formula_rows.def)), and for devices [formula.h](../sdk/ops/common/kernel_formula.h) goes",
         "([kernels_formula_rows.def](../sdk/ops/common/kernels_formula_rows.def)), and for devices\n[kernel_formula.h](../sdk/ops/common/kernel_formula.h) goes"),
    ],
    "docs/architecture.md": [
        ("| `sdk/include`, `sdk/kernels`, `sdk/template` | what a plugin author needs | nothing of ours but `sdk/include` |\n",
         "| `sdk/include`, `sdk/dialect`, `sdk/template` | what a plugin author needs | nothing of ours but `sdk/include` |\n"
         "| `sdk/ops` | operators, a folder a family | by the role of a file: [below](#operators-sdkops) |\n"),
        ("| `core` | libbackplane | `sdk/include` |\n", "| `core` | libbackplane | `sdk/include`, the operators' table in `sdk/ops` |\n"),
        ("one shared object for each kind of hardware | `sdk/include`, `sdk/kernels` |\n",
         "one shared object for each kind of hardware | `sdk/include`, `sdk/dialect`, kernels of `sdk/ops` |\n"),
        ("- `ops/ops.def`, `ops/math.def`, `ops/nn.def`, `ops/array.def`, `ops/binary.def`, `ops/complex.def`: the only list of\n"
         "  operators, rows of words.\n"
         "  `ops/words.h` makes words that an includer did not define empty, `ops/words_end.h` removes them all.\n", ""),
        ("checked front; `infer.c`, `infer_conv.c` and `infer_array.c` (views, joins, made tensors) find shapes.\n", "checked front.\n"),
        ("written in others; `rules/` has a file a family of operators: inference, gradients, expansions.\n", "written in others; the rules themselves are in `sdk/ops`.\n"),
        ("in other operators by the rules of `expand_rules.c`, in another", "in other operators, in another"),
        ("`gradient.c` and `gradient_rules.c`\ndifferentiate one call", "`gradient.c` differentiates\none call"),
        ("`cases/` makes kernel cases by family (`kernel_case.h`, `slices.h`);", "`kernel_case.h` and `cases/maker.c` are what the cases of\noperators, in `sdk/ops`, are made with;"),
        (" `reference/` what operators mean, independent of the rest (`philox.h` random words; `formula.h`, `formula.c` shared by\n"
         "`unary.c`, `unary_number.c`, `activation.c`, `unary_grad.c`, operators of one input and their gradients);\n", "\n"),
    ],
}

OPERATORS = """\
## Operators: `sdk/ops`

All that an operator consists of lies in the folder of its family. The first word of a file's name is its role, which says
who compiles it and what it may include; a further word tells files of one role apart (`kernel_args.h`, `shape_pad.c`).

| role | what | compiled into | may include |
|---|---|---|---|
| `schema` | rows of the only list of operators | opgen, core, the suite, tools | |
| `shape`, `grad`, `decompose` | rules: inference, gradients, the operator written in others | core | `sdk/include`, the app API, `core/op/{op,rules,compose}.h` |
| `kernel`, `launch`, `kernels` | a portable kernel and the numbers that it is given, its launch, its entries and rows | plugins | `sdk/include`, `sdk/dialect` |
| `reference`, `cases` | what it means, computed slowly; on what it is tried | the suite | `sdk/include`, `sdk/conformance` |

`ops.def` includes all schemas, in the order of the table; `common/words.h` makes words that an includer did not define
empty, `common/words_end.h` removes them all. `families.def` lists the kernels: families, entries, rows. A file that has
operators of several families is in `common/`.

| folder | operators |
|---|---|
| `common/` | what families share, and the first operators: `schema_math.def`, `schema_nn.def`, `schema_array.def`, `schema_vision.def`; formulas (`kernel_formula.h`, numbered by `kernel_formulas.h`), reductions (`kernel_reduce.h`), references (`reference.h`, `reference_running.h`) |
| `unary/`, `binary/`, `compare/` | one formula an element, their gradients; activations, selections, truth values |
| `complex/`, `cast/` | complex numbers and their parts; conversions |
| `reduce/`, `minmax/`, `scan/` | sums and their kin, counts; the largest and smallest, and where; what runs along an axis |
| `sort/`, `quantile/` | sorting, selecting, counting, boxes that overlap; medians and quantiles |
| `index/`, `scatter/` | elements taken, and put, by indices |
| `copy/`, `unfold/`, `create/` | elements to other places, views, borders, triangles; windows of images; numbers of nothing |
| `matmul/`, `linalg/`, `conv/` | products of matrices; vectors and square matrices, einsum, distances; convolutions |
| `pool/`, `norm/`, `softmax/`, `attention/` | neural networks; `attention/` has dense layers too |
| `loss/`, `cross_entropy/`, `ctc/` | losses: element by element, of labels, of alignments |
| `recurrent/`, `optimizer/`, `quantize/` | recurrent networks, steps of training, small integers |
| `random/` | random numbers of distributions, dropout |
| `resize/`, `grid_sample/`, `roi/` | images sampled along axes, at places of a grid, in regions |

## What kernels are written in: `sdk/dialect`

Kernels are written once, for C, OpenCL C, CUDA and HIP ([guide](kernel-guide.md)). `dialect.h` (start here) is their language;
`half.h` the 16-bit floats, `elem.h` the element type that a file is compiled for, `across.h` a vector's lanes, `maths.h` functions
of it (`exp.h`, `log.h`, `erf.h` that vectorise, `special.h` gamma functions), `pairs.h` functions of two numbers, `philox.h`
random words, `entry.h` how a kernel becomes an entry of a GPU or of a host, `team.h` reductions over the lanes of a team.
`tile.h` (`tile_size.h`) is the tile of a product that a lane makes, of the vectors of `wide.h`; `block.h` (`block_size.h`) the
block that a team makes. `walk.h` is where strided operands lie, for kernels of devices; `walk_plan.h`, `walk_plan.c` work it out.

`portable.h`, `portable.c` are the host's side: what every plugin compiles to launch kernels; `rows.def` all rows of the plugin
of a device and `rows.c` its table of them. Those of `portable_device_families` are for devices only: the cpu has code of its
own for their operators.

"""

# file: (heading that a section begins with, the one of the next, what stands between from then on)
SECTIONS = {"docs/architecture.md": ("## Portable kernels: `sdk/kernels`\n", "## Plugins: `plugins`\n", OPERATORS)}
