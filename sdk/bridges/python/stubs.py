# SPDX-License-Identifier: Apache-2.0
"""Prints the stubs of backplane.ops from the table of operators: `stubs.py BP OUTPUT` runs `BP ops --json`.

The signatures follow the rules of signature.c, which makes those of the functions; tests/python compares them.
"""
import json
import subprocess
import sys
import textwrap

HEAD = '''# SPDX-License-Identifier: Apache-2.0
"""All operators as functions. Printed from the table of operators: do not edit."""
from collections.abc import Sequence
from typing import Any

from ._backplane import Tensor

'''
KINDS = {"number": "float", "integer": "int", "flag": "bool", "dtype": "str", "integers": "Sequence[int]",
         "list": "int | Sequence[int]"}
INPUTS = {"one": "Any", "any": "Sequence[Any]"}
VARYING = ("optional", "any", "views")  # kinds of outputs


def default_of(attribute):
    text, kind = attribute["default_text"], attribute["kind"]
    if kind == "number":
        return {"inf": "1e999", "-inf": "-1e999"}.get(text) or repr(float(attribute["default"]))
    if kind == "flag":
        return repr(bool(attribute["default"]))
    if kind == "dtype":
        return "None" if text == "?" else repr(text)
    if kind == "integers":
        return repr((int(attribute["default"]),) * attribute["count"])
    return "()" if kind == "list" else str(int(attribute["default"]))


def parameters(op):
    attributes = {a["name"]: a for a in op["attributes"]}
    optional = False
    for port in op["inputs"]:
        own = attributes.pop(port["name"], None) if port["kind"] == "host" else None
        optional = optional or port["kind"] in ("optional", "host")
        kind = f"Tensor | {KINDS[own['kind']]} | None" if own else INPUTS.get(port["kind"], "Any")
        yield f"{port['name']}: {kind}" + (f" = {default_of(own) if own else None}" if optional else "")
    yield "*"
    for name, attribute in attributes.items():
        yield f"{name}: {KINDS[attribute['kind']]} | None = {default_of(attribute)}"
    yield "out: Tensor | Sequence[Tensor | None] | None = None"
    if any(port["kind"] in VARYING for port in op["outputs"]):
        yield "outputs: int | None = None"
    yield "row: str | None = None"


def result_of(op):
    kinds = [port["kind"] for port in op["outputs"]]
    if any(kind in ("any", "views") for kind in kinds) or len([k for k in kinds if k != "optional"]) > 1:
        return "tuple[Tensor, ...]"
    return "Tensor | tuple[Tensor, ...]" if "optional" in kinds else "Tensor"


def main():
    command, output = sys.argv[1:]
    table = json.loads(subprocess.run([command, "ops", "--json"], capture_output=True, text=True, check=True).stdout)
    with open(output, "w", encoding="utf-8") as file:
        file.write(HEAD)
        for op in table["ops"]:
            text = textwrap.fill(op["doc"], 110, initial_indent="    ", subsequent_indent="    ",
                                 break_long_words=False)
            file.write(f"\ndef {op['name']}({', '.join(parameters(op))}) -> {result_of(op)}:\n"
                       f'    r"""{text.strip()}"""\n')
            file.writelines(f"\n{alias} = {op['name']}\n" for alias in op["aliases"])


if __name__ == "__main__":
    main()
