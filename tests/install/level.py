#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the plugin of docs/portable-kernels.md reaches the level `inference`, as the page says.

    level.py ROOT BUILD

Installs into a directory, makes the plugin with `bp new-plugin --kernels portable` and compiles all kernels as the page says, with the
installed sources and a C compiler alone. All cases of the conformance suite run: the level is not judged by a part of them.
That takes many minutes, so that `./dev test --full` alone runs it.
"""
import json
import os
import sys

import moved
import plugins


def level(installed):
    """The plugin of under 200 lines with the portable kernels reaches the level inference."""
    folder = installed.new_plugin("mydev", "--kernels", "portable")
    lines = sum(plugins.read(folder, f"mydev.{kind}").count("\n") for kind in "ch")
    moved.expect(lines < 200, f"mydev.c and mydev.h have {lines} lines")
    installed.sh(folder, f"make -j{len(os.sched_getaffinity(0))}")
    installed.sh(folder, "bp conform mydev --require inference --json report.json || { tail -n 40 report.json; exit 1; }")
    report = json.loads(plugins.read(folder, "report.json"))
    moved.expect(report["totals"]["pass"] > 50000 and report["rows"]["executed"] == report["rows"]["total"] > 250,
                 f"{report['totals']}, {report['rows']}")
    print(f"# level {report['level']}: {report['totals']['pass']} pass, rows {report['rows']['executed']},"
          f" {report['processor_seconds']:.0f} s of processors")


if __name__ == "__main__":
    sys.exit(moved.run_all(plugins.Installed, [level]))
