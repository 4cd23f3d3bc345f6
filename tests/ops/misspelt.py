#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that a mistake in a row of the operator table gives one error, which names the row.

usage: misspelt.py SOURCE_ROOT BUILD_ROOT CC ARGUMENT...

clang stops before the note that names the row, but shows the source line: there the misspelt word is enough.
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

# (folder of sdk/ops, right text, misspelt text, row)
SLIPS = [
    ('softmax', 'INFER(softmax) ', 'INFR(softmax) ', 'softmax'),
    ('cast', 'OUT(y, U', 'OTU(y, U', 'cast'),
    ('matmul', 'IN(a, T', 'INN(a, T', 'matmul'),
    ('softmax', 'I64(axis, -1, KEY, "axis that', 'I46(axis, -1, KEY, "axis that', 'softmax'),
    ('binary', 'GRAD(add) ', '', 'add'),
    ('reduce', 'CASES(reduce) ', 'CASES(reduce) CASES(reduce) ', 'sum'),
    ('softmax', 'OPA(softmax_grad,', 'OPA(softmax,', 'softmax'),
]


def errors_of(cc, source, build, include):
    """Returns the output and the errors of the build's own compilation of opgen.c."""
    command = cc + ['-std=c11', '-fsyntax-only', '-I', str(include / 'include'), '-I', str(include), '-I', str(build / 'sdk'), str(source / 'sdk/opgen/opgen.c')]
    output = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False).stderr
    return output, [line for line in output.splitlines() if ' error:' in line and 'fatal error: too many' not in line]


def main():
    source, build, cc = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:]
    clang = any('-ferror-limit' in word for word in cc)
    failed = 0
    print(f'1..{len(SLIPS) + 1}')
    output, errors = errors_of(cc, source, build, source / 'sdk')
    print('not ok' if errors else 'ok', 1, '- the table as it is compiles')
    failed += bool(errors)
    for number, (family, right, slip, row) in enumerate(SLIPS, 2):
        with tempfile.TemporaryDirectory() as scratch:
            include = pathlib.Path(scratch)
            for folder in ('include', 'ops'):
                shutil.copytree(source / 'sdk' / folder, include / folder)
            path = include / 'ops' / family / 'schema.def'
            text = path.read_text()
            assert right in text, f'{path} no longer holds {right!r}: mend this test'
            path.write_text(text.replace(right, slip, 1))
            output, errors = errors_of(cc, source, build, include)
        shown = row in output or (clang and slip.split('(')[0] in output)
        good = len(errors) == 1 and shown
        failed += not good
        print('ok' if good else 'not ok', number, f'- {right!r} misspelt as {slip!r}')
        if not good:
            print(''.join('# ' + line + '\n' for line in output.splitlines()))
    return failed > 0


sys.exit(main())
