# SPDX-License-Identifier: Apache-2.0
"""Breaks one rule of rules.py: compiles the broken copy of one file of the core. Runs many tests of broken
copies, several at the same time, and prints TAP.
"""
import concurrent.futures
import json
import os
import shlex
import subprocess

from every import text_with
from rules import BOTH, RULES


def compilation(text):
    """A compiler's command as a list, without ccache, for which a file that is compiled once is a loss."""
    command = shlex.split(text)
    return command[os.path.basename(command[0]) == "ccache":]


class Core:
    """A build of the core. target: whose objects are compiled anew, as ninja names them."""

    def __init__(self, root, build, target, folder):
        self.root, self.build = os.path.abspath(root), os.path.abspath(build)
        self.folder = os.path.join(self.build, "tests", *folder)
        os.makedirs(self.folder, exist_ok=True)
        done = subprocess.run(["ninja", "-C", self.build, "-t", "compdb"], capture_output=True, text=True, check=True)
        self.command, self.object = {}, {}  # by source
        for entry in json.loads(done.stdout):
            if target in entry["output"] and entry["output"].endswith(".o"):
                path = os.path.relpath(os.path.normpath(os.path.join(entry["directory"], entry["file"])), self.root)
                self.command[path] = compilation(entry["command"])
                self.object[path] = os.path.join(self.build, entry["output"])

    def compiler(self):
        return next(iter(self.command.values()))[0]

    def sanitizers(self):
        return [a for a in next(iter(self.command.values())) if a.startswith("-fsanitize")]

    def broken(self, number, path, old, new):
        """The object of the broken file."""
        text = text_with(self.root, path, old)
        source, result = (os.path.join(self.folder, f"{number}{end}") for end in (".c", ".o"))
        with open(source, "w", encoding="utf-8") as f:
            f.write(text.replace(old, new))
        flags = [a for a in self.command[path][1:] if a.startswith(("-I", "-D", "-std", "-pthread", "-f"))]
        subprocess.run([self.command[path][0], *flags, "-O0", "-w", f"-I{os.path.dirname(os.path.join(self.root, path))}",
                        "-c", source, "-o", result], cwd=self.build, check=True)
        return result


def run_all(todo, attempt):
    """Breaks each (name, ...) of todo by attempt(number, ...), which returns (noticed, text). Returns the exit
    status."""
    print(f"1..{len(todo)}", flush=True)

    def one(numbered):
        number, (name, *what) = numbered
        try:
            return number, name, *attempt(number, *what)
        except (AssertionError, ValueError, subprocess.SubprocessError) as error:
            return number, name, False, str(error)

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for number, name, noticed, text in pool.map(one, enumerate(todo, 1)):
            failed += not noticed
            print(f"{'ok' if noticed else 'not ok'} {number} - {name}\n# {text}", flush=True)
    return failed > 0


def run(who, attempt):
    """Has each rule of who's broken by attempt(number, file, old, new, where, case)."""
    return run_all([rule[1:] for rule in RULES if rule[0] in (who, BOTH)], attempt)
