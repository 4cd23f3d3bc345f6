# SPDX-License-Identifier: Apache-2.0
"""Compares ONNX models with ONNX Runtime: prints the table of docs/results/onnx.md. Not a part of ./dev test.

    python -m venv SCRATCH && SCRATCH/bin/pip install onnxruntime numpy
    build/examples/networks DIR --whole     writes resnet50.onnx and bert.onnx
    SCRATCH/bin/python tests/bench/onnx_peer.py build/sdk/tools/bp MODEL.onnx...

Processes of bp and of ONNX Runtime alternate, ROUNDS times for each number of threads, so that other work of the
machine slows down both. A process loads the model, runs it once, and then RUNS times. Element i of n of an input is
i / n in both. One line for each model and number of threads: medians over the rounds of the median latency, its
ratio (least - most), load, load with the first run, and the peak of memory of the whole process: bp, or Python with
ONNX Runtime.
"""
import json
import os
import resource
import statistics
import subprocess
import sys
import time

ROUNDS, RUNS, THREADS = 3, 15, (1, 2)
MEASURES = ("median_ms", "load_ms", "both_ms", "peak_mb")
HEADINGS = ("threads", "ours, ms", "ONNX Runtime", "ratio", "load, ms", "load and first run", "peak, MB")


def peer(path, threads):
    """Runs in a separate process: prints the figures of ONNX Runtime as JSON."""
    import numpy as np
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    begin = time.perf_counter()
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    load = time.perf_counter() - begin
    feeds = {}
    for port in session.get_inputs():
        shape = [n if isinstance(n, int) else 1 for n in port.shape]
        count = int(np.prod(shape))
        feeds[port.name] = (np.arange(count, dtype=np.float32) / count).reshape(shape)
    seconds = []
    for _ in range(RUNS + 1):
        begin = time.perf_counter()
        session.run(None, feeds)
        seconds.append(time.perf_counter() - begin)
    print(json.dumps({"load_ms": 1e3 * load, "first_ms": 1e3 * seconds[0],
                      "median_ms": 1e3 * statistics.median(seconds[1:])}))


def measured():
    """Runs the command after --measured as the only child of this process, and prints its figures and its peak of memory."""
    done = subprocess.run(sys.argv[2:], stdout=subprocess.PIPE, text=True, check=True)
    said = json.loads(done.stdout)
    said["both_ms"] = said["load_ms"] + said["first_ms"]
    said["peak_mb"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(json.dumps(said))


def measure(threads, *command):
    done = subprocess.run([sys.executable, __file__, "--measured", *command], stdout=subprocess.PIPE, text=True,
                          check=True, env=dict(os.environ, BP_THREADS=str(threads)))
    return json.loads(done.stdout)


def compare(bp, path, threads):
    pairs = [(measure(threads, bp, "run", path, "--repeat", str(RUNS), "--json"),
              measure(threads, sys.executable, __file__, "--peer", path, str(threads))) for _ in range(ROUNDS)]
    ours, theirs = ({m: statistics.median(p[side][m] for p in pairs) for m in MEASURES} for side in (0, 1))
    ratios = sorted(a["median_ms"] / b["median_ms"] for a, b in pairs)
    middle = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} - {ratios[-1]:.2f})"
    rest = " | ".join(f"{ours[m]:.0f} / {theirs[m]:.0f}" for m in MEASURES[1:])
    name = os.path.splitext(os.path.basename(path))[0]
    print(f"| {name} | {threads} | {ours['median_ms']:.1f} | {theirs['median_ms']:.1f} | {middle} | {rest} |", flush=True)


def main(bp, *paths):
    print("| | " + " | ".join(HEADINGS) + " |\n" + "|---" * (len(HEADINGS) + 1) + "|")
    for path in paths:
        for threads in THREADS:
            compare(bp, path, threads)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peer"]:
        peer(sys.argv[2], int(sys.argv[3]))
    elif sys.argv[1:2] == ["--measured"]:
        measured()
    elif len(sys.argv) < 3:
        sys.exit(__doc__)
    else:
        main(*sys.argv[1:])
