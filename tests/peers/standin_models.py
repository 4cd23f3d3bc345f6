# SPDX-License-Identifier: Apache-2.0
"""Runs the transformer of minilm.py, with its own weights, on npu and ipu: on the stand-ins for the vendors' libraries.

No kernel of another device may run, the outputs are compared with those of ONNX Runtime, at least 95 % of the nodes must run by
rows of the plugin, and the stand-in may refuse no call.
"""
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), folder) for folder in ("targets", "onnx")]
import share  # noqa: E402
import standin  # noqa: E402

import openvino_engine  # noqa: E402
import real_models  # noqa: E402

KINDS = ("npu", "ipu")
NAME = "minilm"
BUDGET = 60  # of each


def count_share(count, where, found, output):
    """found: a Share, or None if `bp program` failed."""
    if found is not None and found.is_good():
        count.pass_()
    else:
        count.fail(f"{where}: {found or 'bp program failed'}", output)


def test_kind(peer, kind):
    where, missing = f"peers/standins/{kind}", standin.missing(peer.build, kind)
    if missing:
        peer.count.fail(f"{where}: the build lacks {', '.join(missing)}")
        return
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "refused")
        setting = {**standin.environment(peer.build, kind, log), "BP_STANDIN_DELAY": "0", "BP_FALLBACK": "deny"}
        state = real_models.state_of(peer, NAME, f"{kind}:0", setting)
        real_models.count_model(peer.count, NAME, state, "right", f"standins/{kind}")
        shapes = {port: given[1] for port, given in real_models.MODELS[NAME][1][0].items()}
        data, output = openvino_engine.program_of(peer, os.path.join(peer.folder, f"{NAME}.onnx"), shapes, setting, f"{kind}:0")
        count_share(peer.count, where, data and share.Share(data, kind), output)
        refused = standin.refused(log)
    if refused:
        peer.count.fail(f"{where}: the stand-in refused calls", "\n".join(refused[:standin.LINES]))


def test(peer):
    for kind in KINDS:
        with peer.step(kind, BUDGET):
            test_kind(peer, kind)
