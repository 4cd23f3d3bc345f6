# SPDX-License-Identifier: Apache-2.0
"""Runs of real plugins on stand-ins for their vendors' libraries: what a run needs, its environment, and the calls that
a stand-in refused. The table of kinds.py has the facts."""
import os

from kinds import KINDS

LINES = 20  # most lines of a stand-in's refusals


def plugin(kind):
    return f"plugins/{kind}/bp_{kind}.so"


def manifest(kind):
    """The output of the build that needs the plugin and the command bp."""
    return f"plugins/{kind}/bp_{kind}.json"


def missing(build, kind):
    """Returns those files needed for a run that are not there."""
    files = [os.path.join(build, f) for f in (plugin(kind), *KINDS[kind].targets)] + list(KINDS[kind].files)
    return [os.path.relpath(f, build) if f.startswith(build) else f for f in files if not os.path.exists(f)]


def environment(build, kind, log):
    """Returns the environment in which the plugin finds the stand-in. log: the file that receives the stand-in's
    refusals."""
    row = KINDS[kind]
    if os.path.exists(log):
        os.unlink(log)
    settings = {name: value.replace("BUILD", build) for name, value in row.settings.items()}
    settings |= {name: os.environ.get(name, value) for name, value in row.defaults.items()}
    if row.path:
        settings["LD_LIBRARY_PATH"] = ":".join([os.path.join(build, row.path), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])])
    return {**settings, "BP_STANDIN_LOG": log}


def environment_of_card(build):
    """Returns the environment of the caller without the settings that name stand-ins of this build."""
    mine = {name: value for name, value in os.environ.items()
            if not name.startswith(("BP_SIM_", "BP_STANDIN_")) and not value.startswith(build + os.sep)}
    folders = [f for f in os.environ.get("LD_LIBRARY_PATH", "").split(":") if f and not (f + os.sep).startswith(build + os.sep)]
    mine.pop("LD_LIBRARY_PATH", None)
    return {**mine, "LD_LIBRARY_PATH": ":".join(folders)} if folders else mine


def refused(log):
    """Returns the different lines that the stand-in has written."""
    if not os.path.exists(log):
        return []
    with open(log, encoding="utf-8", errors="replace") as f:
        return sorted(set(f.read().splitlines()))
