#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rooms of libbackplane are a tower: a room may use those before it in ROOMS. The objects of a build say which file
uses a symbol of which other. Uses that still go up, from a room to one after it, are listed in upward.txt, and so are the
files of a room that use each other in circles. The list may only become shorter: an entry that is new fails, and one
that is not needed any more has to be removed.

    rooms.py ROOT BUILD LIST
    rooms.py ROOT BUILD --print     prints the list as it would be today

Lines of the list: `ROOM ROOM SYMBOL`, a symbol of the second room that the first one, which is below it, uses; a symbol
may end in * for a table of operators. `circle FILE FILE...`: files of one room that reach each other.
"""
import collections
import fnmatch
import json
import os
import subprocess
import sys

# From the lowest to the highest. A file belongs to the first pattern that it fits.
ROOMS = [
    ("base", ["core/base/*"]),
    ("profile", ["core/profile/*"]),
    ("schema", ["core/schema/*"]),
    ("plugin", ["core/plugin/*"]),
    ("device", ["core/device/*"]),
    ("memory", ["core/memory/*"]),
    ("tensor", ["core/tensor/*"]),
    ("graph", ["core/graph/*"]),
    ("call", ["core/call/*", "calls.c"]),
    ("ops", ["sdk/ops/*"]),
    ("autodiff", ["core/autodiff/*"]),
    ("compile", ["core/compile/*"]),
    ("exec", ["core/exec/*"]),
    ("bootstrap", ["core/ccl/bootstrap/*"]),
    ("shm", ["core/ccl/shm/*", "core/ccl/collective.c"]),
    ("net", ["core/ccl/net/*"]),
    ("native", ["core/ccl/native/*"]),
    ("ccl", ["core/ccl/*"]),
    ("runtime", ["core/runtime/*"]),
]
TOWER = [room for room, patterns in ROOMS]
# The table of operators (schema) names the rules of each (ops): an entry of the list for all of a kind.
FAMILIES = ["bp_infer_*", "bp_values_*", "bp_grad_*", "bp_decompose_*"]
DEFINED, NEEDED = "TDBRVW", "U"


def room_of(path):
    for room, patterns in ROOMS:
        if any(fnmatch.fnmatch(path, pattern) for pattern in patterns):
            return room
    return None


def objects(root, build):
    """(source, object) of each file of libbackplane; a source is named from ROOT, or by its name if it is generated."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as f:
        commands = json.load(f)
    for command in commands:
        if os.path.dirname(command["output"]).startswith("core/libbackplane.so"):
            path = os.path.relpath(os.path.realpath(os.path.join(command["directory"], command["file"])), os.path.realpath(root))
            yield path if os.path.exists(os.path.join(root, path)) and not path.startswith("build") \
                else os.path.basename(path), os.path.join(build, command["output"])


def symbols(source_of):
    """{source: (symbols that its object defines, symbols that it needs)} of {object: source}."""
    files = {source: (set(), set()) for source in source_of.values()}
    out = subprocess.run(["nm", "-A", *source_of], capture_output=True, text=True, check=True).stdout
    for line in out.splitlines():
        path, _, rest = line.partition(":")
        kind, symbol = rest.split()[-2:]
        defined, needed = files[source_of[path]]
        if kind in DEFINED:
            defined.add(symbol)
        elif kind in NEEDED:
            needed.add(symbol)
    return files


def uses(files):
    """(file, file that it uses, symbol) of {file: (defined, needed)}."""
    home = {symbol: path for path, (defined, _) in files.items() for symbol in defined}
    return sorted((path, home[symbol], symbol) for path, (_, needed) in files.items()
                  for symbol in needed if home.get(symbol, path) != path)


def short(rooms, symbol):
    patterns = FAMILIES if rooms == ("schema", "ops") else []
    return next((f for f in patterns if fnmatch.fnmatch(symbol, f)), symbol)


def upward(found):
    """The lines of uses that go up, each with a file of each side for the message."""
    lines = {}
    for user, used, symbol in found:
        low, high = room_of(user), room_of(used)
        if low and high and TOWER.index(low) < TOWER.index(high):
            lines.setdefault(f"{low} {high} {short((low, high), symbol)}", f"{user} uses {symbol} of {used}")
    return lines


def reached(start, edges):
    seen, todo = set(), [start]
    while todo:
        new = edges[todo.pop()] - seen
        seen |= new
        todo += new
    return seen


def circles(found):
    """Sets of files of one room that reach each other, by uses inside of the room."""
    edges = collections.defaultdict(set)
    for user, used, _ in found:
        if room_of(user) == room_of(used):
            edges[user].add(used)
    far = {path: reached(path, edges) for path in list(edges)}
    return {frozenset(q for q in far[p] if p in far.get(q, ())) for p in far if p in far[p]}


def circle_lines(found):
    return {" ".join(["circle", *sorted(circle)]) for circle in circles(found)}


def compare(found, listed):
    """Breaches of the list by the uses that were found."""
    up, rings = upward(found), circles(found)
    told = {line for line in listed if not line.startswith("circle ")}
    known = [frozenset(line.split()[1:]) for line in listed if line.startswith("circle ")]
    for line in sorted(up.keys() - told):
        yield f"{line}: {up[line]}; a room may use only those before it"
    for line in sorted(told - up.keys()):
        yield f"{line}: not needed any more; remove it from the list"
    for ring in sorted(map(sorted, rings)):
        old = max(known, key=lambda k: len(k & set(ring)), default=frozenset())
        if set(ring) - old:
            yield f"circle {' '.join(ring)}: of these the list has no circle with {' '.join(sorted(set(ring) - old))}"
    for old in sorted(map(sorted, known)):
        for path in sorted(set(old) - set().union(*rings)):
            yield f"circle {old[0]} ...: {path} is in no circle any more; remove it from the list"


def has_teeth():
    """Whether the check finds breaches in a small library."""
    a, b, c, d = "core/base/error.c", "core/ccl/a.c", "core/ccl/b.c", "core/ccl/c.c"
    sound = {a: ({"base"}, {"ext"}), b: ({"one"}, {"base", "two"}), c: ({"two"}, {"one"}), d: ({"three"}, {"one"})}
    listed = [f"circle {b} {c}"]
    tries = [("nothing new", {}, listed, 0), ("a call up", {a: ({"base"}, {"one"})}, listed, 1),
             ("a call up that is listed", {a: ({"base"}, {"one"})}, [*listed, "base ccl one"], 0),
             ("a listed call that is gone", {}, [*listed, "base ccl one"], 1),
             ("a circle that is new", {}, [], 1), ("a circle that grew", {b: ({"one"}, {"two", "three"})}, listed, 1),
             ("a circle that is gone", {c: ({"two"}, set())}, listed, 2),
             ("a circle that shrank", {}, [f"circle {b} {c} {d}"], 1)]
    for name, change, lines, count in tries:
        breaches = list(compare(uses({**sound, **change}), lines))
        if len(breaches) != count:
            yield f"{name}: expected {count} breaches, got {breaches}"


def read_list(path):
    with open(path, encoding="utf-8") as f:
        return [line.strip() for line in f if line.strip() and not line.startswith("#")]


def main():
    root, build, listed = sys.argv[1:4]
    files = symbols({path: source for source, path in objects(root, build)})
    found = uses(files)
    if listed == "--print":
        print("\n".join([*sorted(upward(found), key=lambda line: (*map(TOWER.index, line.split()[:2]), line)),
                         *sorted(circle_lines(found))]))
        return 0
    homeless = [f"{path}: in no room of {os.path.basename(__file__)}" for path in files if not room_of(path)]
    empty = [f"{room}: no file of it was found" for room in TOWER if room not in map(room_of, files)]
    checks = [("the check of rooms has teeth", list(has_teeth())), ("each file of core is in a room", homeless + empty),
              (f"calls go down but for a list ({len(found)} looked at)", list(compare(found, read_list(listed))))]
    print(f"1..{len(checks)}")
    for number, (title, breaches) in enumerate(checks, 1):
        print(f"{'not ok' if breaches else 'ok'} {number} - {title}")
        for breach in breaches:
            print("#  ", breach)
    return 1 if any(breaches for _, breaches in checks) else 0


if __name__ == "__main__":
    sys.exit(main())
