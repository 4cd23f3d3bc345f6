#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the devices of this machine: for each device but the host's, runs the conformance suite, ONNX's models and
networks and the benchmark, and writes the results to RESULTS/<device>.md. `./dev gpu-check` runs it; exit status 1 if a check failed.

    device_check.py BP RESULTS [--quick] [KIND...]     kinds: default all but cpu and template
"""
import datetime
import json
import os
import re
import subprocess
import sys
import tempfile
import time

BP, RESULTS = sys.argv[1:3]
QUICK = ["--quick"] if "--quick" in sys.argv else []
KINDS = [a for a in sys.argv[3:] if not a.startswith("-")]
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MODELS = "/usr/share/libonnx-testdata/data"
LIMIT = 3600  # seconds, for one command
sys.path.insert(0, os.path.join(ROOT, "tests", "onnx"))
import networks as light  # noqa: E402


def bp(*words):
    done = subprocess.run([BP, *words], capture_output=True, text=True, timeout=LIMIT, check=False)
    return done.returncode, done.stdout, done.stderr


def report(*words):
    """The exit status, the JSON that the command writes, seconds."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "report.json")
        began = time.monotonic()
        code, out, err = bp(*words, "--json", path)
        if not os.path.exists(path):
            return code, None, (out + err).strip()[-400:]
        with open(path, encoding="utf-8") as f:
            return code, json.load(f), time.monotonic() - began


def devices():
    """["xpu:0", ...]"""
    _, out, err = bp("list", "--probe", "--json")
    found = []
    for plugin in json.loads(out)["plugins"]:
        wanted = plugin["kind"] in KINDS if KINDS else plugin["kind"] not in ("cpu", "template")
        if wanted and plugin["state"] == "ready":
            found += [f"{plugin['kind']}:{i}" for i in range(plugin["devices"])]
        elif wanted:
            print(f"{plugin['name']}: {plugin['state']}: {plugin.get('reason') or err}")
    return found


def is_good(got, code, lines):
    """Whether no case was bad; those that were are listed."""
    bad = [c for c in got["cases"] if c["outcome"] in ("fail", "crash", "timeout", "xpass")]
    lines += [f"- {c['outcome']} `{c['id']}`: {' '.join(c['message'].split())[:200]}" for c in bad[:50]]
    return not bad and code == 0


def conformance(device, lines):
    code, got, seconds = report("conform", device, *QUICK)
    if not got:
        lines.append(f"Conformance did not end: exit status {code}: {seconds}")
        return False
    total, rows = got["totals"], got["rows"]
    lines.append(f"Conformance{' on small shapes' if QUICK else ''}: level **{got['level']}**, "
                 + ", ".join(f"{n} {what}" for what, n in total.items() if n)
                 + f"; kernel rows executed {rows['executed']} of {rows['total']}; {seconds:.0f} s.")
    return is_good(got, code, lines)


def models(device, lines):
    if not os.path.isdir(MODELS):
        lines.append("ONNX's models (libonnx-testdata) are not installed.")
        return True
    expect = os.path.join(ROOT, "tests", "onnx", "expect.txt")
    code, got, seconds = report("onnx-test", MODELS, "--device", device, "--expect", expect)
    if not got:
        lines.append(f"ONNX's models did not end: exit status {code}: {seconds}")
        return False
    lines.append("ONNX's models, nothing falling back: "
                 + ", ".join(f"{n} {what}" for what, n in got["totals"].items() if n) + f"; {seconds:.0f} s.")
    return is_good(got, code, lines)


def networks(device, lines):
    folder, names = light.found(ROOT)
    good = True
    if names:
        lines += ["| network | result | what `bp run --repeat 5` says |", "|---|---|---|"]
    else:
        lines.append("The light networks are not at hand.")
    for name in names:
        done = light.expected(BP, device, folder, name, "--repeat", "5")
        right = light.is_expected(done)
        good = good and right
        said = [line.strip() for line in done.stdout.splitlines() if re.search(r"\bms\b|\bus\b", line)]
        lines.append(f"| {name} | {'as expected' if right else 'WRONG'} | "
                     f"{'; '.join(said)[:160] or done.stderr.strip()[-160:]} |")
    return good


def bench(device, lines):
    code, got, seconds = report("bench", device, *QUICK)
    if not got:
        lines.append(f"The benchmark did not end: exit status {code}: {seconds}")
        return False
    lines += ["| `bp bench` | median | unit | ratio to the reference | least - most |", "|---|---|---|---|---|"]
    for r in got["results"]:
        ratio = f"{r['ratio']:.3g}" if r.get("ratio") else ""
        spread = f"{r['low']:.3g} - {r['high']:.3g}" if r.get("ratio") and r.get("low") is not None else ""
        lines.append(f"| {r['name']} | {r['value']:.4g} | {r['unit']} | {ratio} {r.get('reference') or ''} | {spread} |")
    return code == 0


def check(device):
    lines = ["<!-- SPDX-License-Identifier: Apache-2.0 -->", f"# {datetime.date.today():%B %Y}: {device}", "",
             "Written by `./dev gpu-check`.", "", "```text"]
    lines += re.sub(r"\S*/(bp_\w+\.so)", r"\1", bp("info", device)[1].split("\n\n")[0]).splitlines()  # no machine's paths
    lines += ["```", ""]
    good = True
    for part in (conformance, models, networks, bench):
        good = part(device, lines) and good
        lines.append("")
    name = re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")
    with open(os.path.join(RESULTS, name + ".md"), "w", encoding="utf-8") as f:
        f.write("\n".join(lines).rstrip() + "\n")
    print(f"{device}: {'good' if good else 'NOT GOOD'}: {os.path.join(RESULTS, name + '.md')}", flush=True)
    return good


def main():
    os.makedirs(RESULTS, exist_ok=True)
    found = devices()
    if not found:
        print("there is no device to check but the host's")
        return 3
    return 0 if all([check(device) for device in found]) else 1


sys.exit(main())
