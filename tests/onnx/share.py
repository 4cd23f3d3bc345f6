# SPDX-License-Identifier: Apache-2.0
"""Computes which part of a model's nodes runs by rows of a device's own plugin, or in groups of its engine."""
import json
import subprocess

SHARE = 0.95  # the least part


class Share:
    """The nodes of a compiled program. data: the JSON of `bp program`; kind: of the device, such as npu."""

    def __init__(self, data, kind):
        self.compiled, self.why = data["compiled"], data["not_compiled"]
        merged = [(launch["kernel"].startswith(f"{kind}_"), launch["merges"]) for launch in data["launches"]]
        self.nodes = {node for _, nodes in merged for node in nodes}
        self.others = {node for own, nodes in merged if not own for node in nodes}
        self.part = 1 - len(self.others) / len(self.nodes) if self.nodes else 0

    def is_good(self):
        return bool(self.compiled) and self.part >= SHARE

    def __str__(self):
        if not self.compiled:
            return f"the model is not compiled: {self.why}"
        return (f"{len(self.nodes) - len(self.others)} of {len(self.nodes)} nodes run by rows of the device's plugin; others: "
                f"{', '.join(sorted(self.others)[:20]) or 'none'}")


def measured(bp, path, kind, *words, env=None):
    """Returns the ended process of `bp program`, and the Share, None if the process failed."""
    done = subprocess.run([bp, "program", path, "--device", kind, "--json", *words], capture_output=True, text=True, check=False,
                          env=env)
    return done, Share(json.loads(done.stdout), kind) if done.returncode == 0 else None
