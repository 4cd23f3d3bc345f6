#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the conformance suite on a kind of device: on the card, if this machine has one, else on the stand-in for the
vendor's software. `./dev conform` runs it.

    conform.py BUILD KIND [--card | --standin] [--no-build] [OPTIONS of bp conform]

The first line names the place of the run, and so do the reports in BUILD/conform/KIND: report.html, junit.xml,
report.json. --card: fails with status 3 if there is no card. --standin: does not look for a card. --no-build: BUILD has
all that is needed. The exit status is that of bp conform, or 1 if the stand-in refused a call of the plugin.
"""
import contextlib
import html
import json
import os
import re
import subprocess
import sys
import typing
import xml.etree.ElementTree

import standin
from kinds import KINDS

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
USAGE, NO_DEVICE = 2, 3  # of the exit statuses of bp
SUITE, CASE = "stand-in", "stand-in/refused-nothing"  # in JUnit, for the calls that the stand-in refused


class Stop(Exception):
    """Ends the run: the exit status, and the reason."""


class Place(typing.NamedTuple):
    note: str
    environment: dict
    log: str = ""  # of the stand-in; "": the run is on a card


def bp(build):
    return os.path.join(build, "sdk", "tools", "bp")


def check_kind(kind, root=ROOT):
    """Ends the run for a kind that is not in the table, or whose plugin is not in the tree."""
    if kind not in KINDS:
        raise Stop(USAGE, f"no kind '{kind}'; there are {', '.join(KINDS)}")
    if not os.path.isdir(os.path.join(root, "plugins", kind)):
        raise Stop(USAGE, f"the plugin {kind} is not in this tree: there is no folder plugins/{kind}")


def outputs(build):
    """All outputs of the build."""
    listed = subprocess.run(["ninja", "-C", build, "-t", "targets", "all"], stdout=subprocess.PIPE, text=True, check=True)
    return {line.partition(": ")[0] for line in listed.stdout.splitlines()}


def targets_of(kind, known):
    """The outputs that a run needs: the plugin and bp, and the stand-in."""
    row, missing = KINDS[kind], []
    wanted = [standin.manifest(kind), "sdk/tools/bp"]
    if standin.manifest(kind) not in known:
        raise Stop(USAGE, f"the plugin {kind} is not configured in this build" + (f": it needs {row.needs}" if row.needs else ""))
    for target in row.targets:
        found = [name for name in known if name == target or (target.endswith("/") and re.fullmatch(re.escape(target) + r"[^/]+\.so[.\d]*", name))]
        wanted += sorted(found)
        missing += [target] if not found else []
    if missing:
        raise Stop(USAGE, f"the build does not make {', '.join(missing)}, of {row.standin}")
    return wanted


def make(build, targets):
    """Builds targets; says so if that may take long, and shows the output if it fails."""
    command = ["ninja", "-C", build]
    steps = subprocess.run([*command, "-n", *targets], stdout=subprocess.PIPE, text=True, check=False).stdout.count("\n")
    if steps > 100:
        print(f"conform: building, {steps} steps, which may take minutes", file=sys.stderr, flush=True)
    done = subprocess.run([*command, *targets], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise Stop(1, f"the build of {targets[0]} failed\n{done.stdout}")


def short(reason):
    """The plugin's own words in a reason, without the places where it looked, which `bp list --probe` prints."""
    own = re.search(r', got "(.*)"; install ', reason)
    return re.split(r" \(| among | where the loader | in (?=[$/]|LD_LIBRARY_PATH)", own[1] if own else reason)[0]


def probe(build, kind, environment):
    """(the name of the first device or None, the reason why there is none)."""
    listed = subprocess.run([bp(build), "list", "--probe", "--json"], env={**environment, "BP_PLUGINS": kind}, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    try:
        found, = (p for p in json.loads(listed.stdout)["plugins"] if p["name"] == kind)
    except (ValueError, KeyError):
        return None, f"bp list: exit status {listed.returncode}: {listed.stderr.strip()}"
    if found["state"] != "ready":
        return None, short(found.get("reason") or found["state"])
    about = subprocess.run([bp(build), "info", kind, "--json"], env=environment, text=True, stdout=subprocess.PIPE, check=False)
    with contextlib.suppress(ValueError, KeyError):
        facts = json.loads(about.stdout)
        return f"{facts['name']}, {facts['driver']}", ""
    return f"{kind}:0", ""


def find_place(build, kind, folder, only):
    """Where the run takes place. only: "card", "standin" or None."""
    row, mine = KINDS[kind], standin.environment_of_card(build)
    name, why = (None, "not looked for") if only == "standin" else probe(build, kind, mine)
    if name:
        return Place(f"on the card: {name}", mine)
    if only == "card" or not row.standin:
        raise Stop(NO_DEVICE, f"{kind}: no card ({row.card}): {why}")
    missing = standin.missing(build, kind)
    if missing:
        raise Stop(USAGE, f"{kind}: no card: {why}; and {row.standin} cannot run, without {', '.join(missing)}")
    log = os.path.join(folder, "standin.log")
    return Place(f"on a stand-in: {row.standin}; no card: {why}", {**os.environ, **standin.environment(build, kind, log)}, log)


def add_refusals(folder, lines):
    """Adds the calls that the stand-in refused to the reports, where they exist: a case in JUnit, a paragraph in HTML."""
    path = os.path.join(folder, "junit.xml")
    if os.path.exists(path):
        tree = xml.etree.ElementTree.parse(path)
        suite = xml.etree.ElementTree.SubElement(tree.getroot(), "testsuite", name=SUITE, tests="1", failures=str(int(bool(lines))),
                                                 errors="0", skipped="0")
        case = xml.etree.ElementTree.SubElement(suite, "testcase", classname=SUITE, name=CASE, time="0")
        if lines:
            xml.etree.ElementTree.SubElement(case, "failure", message="\n".join(lines[:standin.LINES]))
        for name in ("tests", "failures"):
            tree.getroot().set(name, str(int(tree.getroot().get(name)) + int(suite.get(name))))
        tree.write(path, encoding="UTF-8", xml_declaration=True)
    path = os.path.join(folder, "report.html")
    if lines and os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            head, end, rest = f.read().partition("</h1>\n")
        shown = "".join(f"<li>{html.escape(line)}</li>" for line in lines[:standin.LINES])
        with open(path, "w", encoding="utf-8") as f:
            f.write(f'{head}{end}<p><span class="verdict bad">failed: the stand-in refused calls</span></p>\n<ul>{shown}</ul>\n{rest}')


def run(build, kind, place, folder, options):
    """Runs the suite; returns the exit status."""
    reports = {"json": "report.json", "junit": "junit.xml", "html": "report.html"}
    for name in reports.values():
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, name))
    words = [word for option, name in reports.items() for word in (f"--{option}", os.path.join(folder, name))]
    print(f"{kind}: {place.note}", flush=True)
    done = subprocess.run([bp(build), "conform", kind, *words, "--note", place.note, *options], env=place.environment, check=False)
    lines = standin.refused(place.log) if place.log else []
    if place.log:
        add_refusals(folder, lines)
    for line in lines[:standin.LINES]:
        print(line, file=sys.stderr)
    if os.path.exists(os.path.join(folder, "report.html")):
        print(f"reports: {os.path.relpath(folder)}/report.html, junit.xml, report.json")
    return done.returncode or int(bool(lines))  # the plugin may go on after a refusal


def released(build, kind):
    """Builds the plugin as a release has it; returns that build directory."""
    print("conform: building the kernels of a release, which takes minutes", file=sys.stderr, flush=True)
    subprocess.run([os.path.join(ROOT, "dev"), "build", "gpu", standin.manifest(kind), "sdk/tools/bp"], check=True,
                   env={**os.environ, "BUILD": build}, stdout=sys.stderr)
    return f"{build}-gpu"


def conform(build, kind, own, options):
    """own: which of the options of this program are given."""
    check_kind(kind)
    if {"--card", "--standin"} <= own:
        raise Stop(USAGE, "give one of --card and --standin")
    if "--no-build" not in own:
        make(build, targets_of(kind, outputs(build)))
    folder = os.path.join(build, "conform", kind)
    os.makedirs(folder, exist_ok=True)
    only = next((word[2:] for word in ("--card", "--standin") if word in own), None)
    place = find_place(build, kind, folder, only)
    if not place.log and KINDS[kind].release and "--no-build" not in own:
        build = released(build, kind)
    return run(build, kind, place, folder, options)


def main(build, *words):
    own = {word for word in words if word in ("--card", "--standin", "--no-build")}
    words = [word for word in words if word not in own]
    if not words or words[0].startswith("-"):
        raise Stop(USAGE, f"which kind? there are {', '.join(KINDS)}")
    return conform(os.path.abspath(build), words[0], own, words[1:])


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except Stop as stop:
        print(f"conform: {stop.args[1]}", file=sys.stderr)
        sys.exit(stop.args[0])
