# SPDX-License-Identifier: Apache-2.0
"""Tests the light networks of the ONNX project, which are not part of this repository: their expected outputs,
the copies that their compiled programs make on the cpu, and with random weights each node against the references.

    networks.py BP DEVICE SOURCE [outputs|share]      outputs: the expected outputs only; share: these, and the part of each
                                                      network's nodes that runs by rows of the device's plugin

The networks are in the folder BP_ONNX_LIGHT, otherwise beside the repository.
"""
import json
import os
import subprocess
import sys
import tempfile

import share

RTOL = {"densenet121": "0.002"}
# The references are slow by design. These networks are verified node by node in seconds.
VERIFIED = ("squeezenet", "shufflenet")
# These networks take five seconds to two minutes each, and are verified only if LARGE_TESTS is in the
# environment.
VERIFIED_LARGE = ("resnet50", "bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "vgg19", "zfnet512")
# Launches that only copy: the image, and in some networks the shuffles of channels, lrn, and images that become vectors.
COPIES = {"bvlc_alexnet": 6, "densenet121": 1, "inception_v1": 5, "inception_v2": 1, "resnet50": 1, "shufflenet": 17, "squeezenet": 1,
          "vgg19": 2, "zfnet512": 6}


def run(bp, device, path, *words):
    env = dict(os.environ, BP_FALLBACK="deny")
    return subprocess.run([bp, "run", path, "--device", device, *words], capture_output=True, text=True,
                          check=False, env=env)


def found(source):
    """Returns the folder of the networks, and their names: an empty list if they are not available."""
    folder = os.path.abspath(os.environ.get("BP_ONNX_LIGHT", os.path.join(source, "..", "shared", "onnx-light")))
    return folder, sorted(file[6:-5] for file in os.listdir(folder) if file.endswith(".onnx")) \
        if os.path.isdir(folder) else []


def is_expected(done):
    return done.returncode == 0 and "as expected" in done.stdout


def expected(bp, device, folder, name, *words):
    """Runs a network and compares its output with the expected one."""
    with tempfile.TemporaryDirectory() as data:
        os.symlink(os.path.join(folder, f"light_{name}_output_0.pb"), os.path.join(data, "output_0.pb"))
        return run(bp, device, os.path.join(folder, f"light_{name}.onnx"), "--data", data, "--rtol",
                   RTOL.get(name, "0.001"), *words)


def shared(bp, device, folder, name):
    """The line of a test: whether enough of a network's nodes run by rows of the device's plugin."""
    done, found = share.measured(bp, os.path.join(folder, f"light_{name}.onnx"), device.partition(":")[0])
    done.stdout = str(found)
    return f"{name}: {share.SHARE:.0%} of the nodes run by rows of the plugin", found is not None and found.is_good(), done


def is_row_major(tensor):
    """Whether a tensor of a launch is an image, and its channels are not innermost."""
    if not tensor or tensor["memory"] == "constant" or len(tensor["shape"]) != 4:
        return False
    _, channels, height, width = tensor["shape"]
    return channels > 1 and height * width > 1 and tensor["layout"] == "row-major"


def copies(bp, folder, name):
    """Compiles a network, and counts the launches that copy, apart from inputs of concat, and the convolutions of row-major
    images."""
    done = subprocess.run([bp, "program", os.path.join(folder, f"light_{name}.onnx"), "--device", "cpu", "--json"], capture_output=True,
                          text=True, check=False)
    launches = json.loads(done.stdout)["launches"] if done.returncode == 0 else []
    rows = sum("conv" in n["operator"] and any(is_row_major(t) for t in n["inputs"] + n["outputs"]) for n in launches)
    return done, sum(n["operator"] == "assign" and n["node_operator"] != "concat" for n in launches), rows


def main(bp, device, source, only=""):
    folder, names = found(source)
    if not names:
        print("1..0 # SKIP the light ONNX networks are not beside the repository")
        return
    lines = []
    for name in names:
        done = expected(bp, device, folder, name)
        lines.append((name, is_expected(done), done))
    lines += [shared(bp, device, folder, name) for name in names if only == "share"]
    for name in names if device == "cpu" else ():
        done, made, rows = copies(bp, folder, name)
        done.stdout = f"{made} copies and {rows} convolutions of row-major images, expected {COPIES.get(name)} and 0"
        lines.append((f"{name}, copies of layouts", done.returncode == 0 and (made, rows) == (COPIES.get(name), 0), done))
    strange = set(names) - set(VERIFIED + VERIFIED_LARGE)
    lines.append(("each network is verified, here or with LARGE_TESTS", not strange, strange))
    verified = () if only else VERIFIED + (VERIFIED_LARGE if "LARGE_TESTS" in os.environ else ())
    for name in names:
        if name in verified:
            done = run(bp, device, os.path.join(folder, f"light_{name}.onnx"), "--weights", "1", "--verify")
            good = done.returncode == 0 and " 0 wrong, 0 without a reference" in done.stdout
            lines.append((f"{name}, verified", good, done))
    print(f"1..{len(lines)}")
    for number, (name, good, done) in enumerate(lines, 1):
        print(f"{'ok' if good else 'not ok'} {number} - {name}")
        if not good:
            told = str(done) if isinstance(done, set) else f"{done.stdout}{done.stderr}exit status {done.returncode}"
            print("# " + told.replace("\n", "\n# "))


if __name__ == "__main__":
    main(*sys.argv[1:])
