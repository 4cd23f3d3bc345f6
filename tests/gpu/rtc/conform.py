#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the kernel suite of `fused` where a stand-in compiles a kernel for each code: on the simulator, and by the real
plugins on the stand-ins for their drivers. Asserts that the compiled kernels ran.

    conform.py BUILD NVRTC HIPRTC
"""
import json
import os
import subprocess
import sys
import tempfile

BUILD = os.path.abspath(sys.argv[1])
LIBRARIES = {"nvrtc": sys.argv[2], "hiprtc": sys.argv[3]}
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "targets"))
import standin  # noqa: E402

# Device, library, cases.
RUNS = [("sim", "nvrtc", ["kernel/fused/f32/*", "kernel/fused/bf16/*"]), ("sim", "hiprtc", ["kernel/fused/f32/e*", "kernel/fused/f16/n*"]),
        ("cuda", "nvrtc", ["kernel/fused/f64/e*", "kernel/fused/f16/n*"]), ("hip", "hiprtc", ["kernel/fused/f64/e*", "kernel/fused/f16/n*"])]


def run(device, name, filters, folder):
    """Returns why the run is not as expected, or None."""
    report, log = (os.path.join(folder, f"{device}-{name}{end}") for end in (".json", ".log"))
    cache = os.path.join(folder, f"{device}-{name}")
    env = {"BP_PLUGIN_PATH": os.path.join(BUILD, "plugins", "simulator")} if device == "sim" else standin.environment(BUILD, device, log)
    env |= {f"BP_{device.upper()}_{library.upper()}": path if library == name else "off" for library, path in LIBRARIES.items()}
    words = [word for text in filters for word in ("--filter", text)]
    done = subprocess.run([os.path.join(BUILD, "sdk", "tools", "bp"), "conform", device, "--quick", *words, "--json", report],
                          capture_output=True, text=True, check=False, env={**os.environ, **env, f"BP_{device.upper()}_CACHE": cache})
    if done.returncode or standin.refused(log):
        return "\n".join([done.stdout[-2000:], done.stderr[-2000:], *standin.refused(log)])
    with open(report, encoding="utf-8") as f:
        cases = [c for c in json.load(f)["cases"] if c["outcome"] == "pass"]
    by = [c for c in cases if c["id"].endswith(f"@{device}_fused_{name}")]
    programs = len(os.listdir(cache)) if os.path.isdir(cache) else 0
    if len(by) < 10 or programs < 5:
        return f"{len(by)} of {len(cases)} cases ran by the compiled row, {programs} programs were compiled"
    print(f"# {len(by)} cases by the compiled row, {programs} programs")
    return None


def main():
    print(f"1..{len(RUNS)}")
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for i, (device, name, filters) in enumerate(RUNS, 1):
            if device != "sim" and standin.missing(BUILD, device):
                print(f"ok {i} - {device} # SKIP the plugin or the stand-in for its driver is not built")
                continue
            why = run(device, name, filters, folder)
            failed |= why is not None
            for line in (why or "").splitlines():
                print("#", line)
            print(f"{'not ' if why else ''}ok {i} - {device} by {name}")
    sys.exit(failed)


main()
