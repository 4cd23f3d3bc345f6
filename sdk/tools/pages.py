#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the pages of docs/ as they are installed: a link to a file that is not installed becomes plain text.

    pages.py DOCS OUT INCLUDE KERNELS TEMPLATES PAGE...

INCLUDE, KERNELS and TEMPLATES are the directories of headers, kernels and templates, seen from that of the pages.
"""
import os
import re
import sys

LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")


def installed(target, pages, include, kernels, templates):
    """Where the target of a link is installed, or None."""
    path, mark, anchor = target.partition("#")
    if "://" in target or not path or path in pages:
        return target
    rules = ((r"\.\./(?:sdk|core|sdk/onnx)/include/(backplane(?:/.*)?)", include), (r"\.\./sdk/template()", templates),
             (r"\.\./sdk/((?:dialect|ops)/.*\.(?:[hc]|def))", kernels))
    for pattern, folder in rules:
        match = re.fullmatch(pattern, path)
        is_rule = match and folder == kernels and not re.search(r"dialect/|/(?:kernel|launch|families)", path)
        if match and not is_rule:
            return os.path.join(folder, match.group(1)).rstrip("/") + mark + anchor
    return None


def page(text, *where):
    def link(match):
        to = installed(match.group(2), *where)
        return f"[{match.group(1)}]({to})" if to else match.group(1)
    text = re.sub(r"^<!-- (?:not run:|run by ).*-->\n", "", text, flags=re.M)
    return LINK.sub(link, text)


def main():
    docs, out, *where = sys.argv[1:6]
    pages = sys.argv[6:]
    for name in pages:
        with open(os.path.join(docs, name), encoding="utf-8") as f:
            text = page(f.read(), pages, *where)
        with open(os.path.join(out, name), "w", encoding="utf-8") as f:
            f.write(text)


if __name__ == "__main__":
    main()
