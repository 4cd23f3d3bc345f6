#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the shell steps of a plugin's CI file as GitHub or GitLab would, except those that call apt.

    ci_steps.py FILE [NAME=VALUE ...]

FILE is .github/workflows/*.yml or .gitlab-ci.yml in the plugin's directory. NAME=VALUE takes the place of a variable of the
file. The exit status is that of the first step that fails. The files are read as the few kinds of lines that `bp new-plugin`
writes; where Python's yaml is installed, both readers have to agree.
"""
import os
import re
import subprocess
import sys

try:
    import yaml
except ImportError:
    yaml = None
# The shells of the two services stop at a command that fails.
SHELL = ["sh", "-e", "-c"]


def block(lines, indent):
    """The leading lines that are indented by at least `indent`, and are no comments."""
    for line in lines:
        if line.strip() and len(line) - len(line.lstrip()) < indent:
            return
        if line.strip() and not line.lstrip().startswith("#"):
            yield line[indent:]


def mapping(lines, key):
    """The variables in the block below `key:`."""
    for i, line in enumerate(lines):
        if line.strip() == key + ":":
            indent = len(line) - len(line.lstrip()) + 2
            return dict(one.split(": ", 1) for one in block(lines[i + 1:], indent))
    return {}


def github(lines):
    """The variables, and the scripts of the steps."""
    steps = []
    for i, line in enumerate(lines):
        found = re.fullmatch(r"( +)(?:- )?run: (.*)", line)
        if found and found[2] == "|":
            steps.append("\n".join(block(lines[i + 1:], len(found[1]) + 2)))
        elif found:
            steps.append(found[2])
    return mapping(lines, "env"), steps


def gitlab(lines):
    """The variables, and one script: GitLab runs both lists of lines in one shell."""
    script = []
    for i, line in enumerate(lines):
        if line.strip() in ("before_script:", "script:"):
            for one in block(lines[i + 1:], len(line) - len(line.lstrip()) + 2):
                script.append(re.sub(r'^- "(.*)"$|^- ', lambda m: m[1] or "", one))
    return mapping(lines, "variables"), ["\n".join(script)]


def by_yaml(text):
    """The same, by a reader of all of YAML."""
    jobs = yaml.safe_load(text)
    job = jobs.get("jobs", jobs)["conformance"]
    if "steps" in job:
        return job["env"], [s["run"].rstrip("\n") for s in job["steps"] if "run" in s]
    return job["variables"], ["\n".join(job["before_script"] + job["script"])]


def read(path):
    """The variables of a CI file, and the scripts that run one after another."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    found = (gitlab if os.path.basename(path) == ".gitlab-ci.yml" else github)(text.splitlines())
    if yaml and by_yaml(text) != found:
        raise ValueError(f"{path}: read as {found}, by Python's yaml as {by_yaml(text)}")
    if not found[0] or not all(found[1]):
        raise ValueError(f"{path}: no variables, or no steps: {found}")
    return found


def scripts(path):
    """The scripts without the commands of apt."""
    every = ["\n".join(line for line in s.splitlines() if not line.startswith("apt-get ")) for s in read(path)[1]]
    return [s for s in every if s]


def main():
    path, *given = sys.argv[1:]
    top = os.path.dirname(os.path.abspath(path)).removesuffix("/.github/workflows")
    own = {k: v for k, v in read(path)[0].items() if "${{" not in v}
    env = {**os.environ, **own, **dict(one.split("=", 1) for one in given)}
    for script in scripts(path):
        print("$ " + script.replace("\n", "\n$ "), flush=True)
        status = subprocess.run([*SHELL, script], cwd=top, env=env, check=False).returncode
        if status:
            return status
    return 0


if __name__ == "__main__":
    sys.exit(main())
