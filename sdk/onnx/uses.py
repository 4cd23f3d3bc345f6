#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints sdk/conformance/report/models.def: how many of ONNX's test models use each operator of Backplane.

    uses.py TABLE DATA [--check FILE]

TABLE is table.def, DATA the folder with ONNX's test data (Debian: libonnx-testdata). --check compares FILE with the list.

A model uses the operator to which table.def maps one of its nodes; nodes of subgraphs count too.
"""
import collections
import glob
import re
import sys

import onnx

HEAD = """/* SPDX-License-Identifier: Apache-2.0 */
/* models.def: lists how many of the {n} test models of ONNX {version} use each operator, as sdk/onnx/uses.py
 * counted them.
 *
 *   USES(op, models) */
"""


def rows(path):
    """{name of ONNX: operators of Backplane}"""
    found = collections.defaultdict(set)
    with open(path, encoding="utf-8") as f:
        for name, op in re.findall(r"^(?:MAP|ROW)\((\w+), \d+, (\w+)", f.read(), re.M):
            found[name].add(op)
    return found


def nodes(graph):
    for node in graph.node:
        yield node.op_type
        for attribute in node.attribute:
            for body in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs):
                yield from nodes(body)


def main():
    table, data, *check = sys.argv[1:]
    ops, count = rows(table), collections.Counter()
    paths = sorted(glob.glob(f"{data}/*/*/model.onnx"))
    for path in paths:
        count.update({op for name in nodes(onnx.load(path, load_external_data=False).graph) for op in ops.get(name, ())})
    text = HEAD.format(n=len(paths), version=onnx.__version__)
    text += "".join(f"USES({op}, {n})\n" for op, n in sorted(count.items(), key=lambda item: (-item[1], item[0])))
    if not check:
        print(text, end="")
        return 0
    with open(check[1], encoding="utf-8") as f:
        if f.read() == text:
            return 0
    print(f"{check[1]} is not the list of these models: sdk/onnx/uses.py {table} {data} > {check[1]}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
