# SPDX-License-Identifier: Apache-2.0
"""Tests the execution provider for ONNX Runtime in ONNX Runtime: checks of its parts, ONNX's test models with the
processor's provider forbidden, and whole networks. The models are those of Debian's libonnx-testdata."""
import datetime
import json
import os
import platform
import re
import subprocess
import sys
import tempfile

import bridge_matrix
import ort_networks
import python_package
import real_models
from bridge_matrix import environment

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIST = "ort_suite.txt"
DATA = "/usr/share/libonnx-testdata/data"
DEVICES = {"cpu": 1, "sim": 8, "xpu": 1}  # each Nth model of the suite
CHECKED = ("cpu", "sim", "xpu", "cuda")  # cuda: on the stand-in for its driver
OF_CPU_AND_SIM = ("option_device", "bound_elsewhere")  # checks that name both, not the device that they get
SEPARATE = {"out_of_memory": {"BP_MEM_LIMIT": "64M"}, "lost": {"BP_SIM_FAIL": "work:60:700"}}  # variables of checks
ALONE = {"without_library": {}, "without_plugins": {"BP_PLUGINS": "none"}, "beside_a_copy": {}, "beside_another_version": {},
         "beside_other_functions": {}, "chosen_by_policies": {}, "chosen_on_request": {"BP_ORT_POLICIES": "1"}, "chosen_by_functions": {},
         "chosen_among_none": {"BP_ORT_DEVICES": "warp:*"}, "denied_fallbacks": {}}
PRINTED = ("partial",)  # checks whose facts are printed
VENDORS_PAGE = "docs/ten-minutes.md"
CHECK_SECONDS, SUITE_SECONDS, NETWORK_SECONDS = 120, 600, 600
BUDGETS = {"checks": 150, "package": 60, "page": 60, "cpu": 30, "sim": 20, "xpu": 240, "networks": 150}
ENTRY = re.compile(r"(?:(?P<device>\w+):)?(?:(?P<version>1\.\d+):)?(?P<model>\S+/\S+) (?P<outcome>left|wrong|failed): (?P<reason>\S.*)")
FLOOR = re.compile(r"floor (?P<device>(?:1\.\d+:)?\w+) (?P<least>\d+)")
PAGE = os.path.join(ROOT, "docs", "results", "onnxruntime.md")
PAGE_HEAD = """\
<!-- SPDX-License-Identifier: Apache-2.0 -->
# The provider for ONNX Runtime

`./dev peers test --all` writes this page. ONNX's test models of Debian's libonnx-testdata run in ONNX Runtime with the
processor's provider forbidden; [ort_suite.txt](../../tests/peers/ort_suite.txt) has the reason for each model that does
not pass. Networks are compared with ONNX Runtime's own provider.

| ONNX Runtime | cpu | sim, each 8th model | xpu | networks on cpu |
|---|---|---|---|---|
"""
TIMES_PAGE = os.path.join(ROOT, "docs", "results", "onnxruntime-times.md")
TIMES_HEAD = """\
<!-- SPDX-License-Identifier: Apache-2.0 -->
# Times of the provider for ONNX Runtime

`./dev peers bench onnxruntime` writes this page: whole networks in a session of ONNX Runtime's own provider, in a session of
Backplane's provider, and in Backplane alone (`bp_model_run_into`), on the cpu with one thread each. Runs are by turns
in one process, on inputs and outputs that exist, and loads by turns too; times are those of the processor. All numbers are
ratios of medians, except the quartiles in brackets, which are of the ratios of all turns. A network with several sets of inputs has a line for each.
The limits are 1.05 for provider / alone and 1.2 for loads; what is over them is bold.

{when}, {machine}, {processors} processors, ONNX Runtime {version}. The mean load of the machine was {load:.1f}{busy}.

| network | run: provider / ONNX Runtime | run: alone / ONNX Runtime | run: provider / alone | load: provider / ONNX Runtime |
|---|---|---|---|---|
"""
TIMES = re.compile(r"(?P<name>\S+) +load .* s, (?P<load>\S+) +run +(?P<theirs>\S+) +(?P<ours>\S+) +(?P<alone>\S+) ms +"
                   r"provider / alone (?P<over>\S+) \((?P<low>\S+) to (?P<high>[^)]+)\)")
results = {}  # {version: {column: text}}, of this run
HEAD = """\
# ONNX's test models that do not pass in ONNX Runtime with Backplane's provider alone.
#   floor [VERSION:]DEVICE N                    at least N models pass on the device
#   [DEVICE:][VERSION:]MODEL OUTCOME: REASON    VERSION of ONNX Runtime; without it, the line is about all versions
# OUTCOME is left (a node is left to another provider, or ONNX Runtime refuses the model), wrong or failed. The lines of left
# without VERSION are written by `./dev peers update onnxruntime`; people write the others, and the command keeps them.
"""


# ---- the list

def parse_list(text):
    """({device: least}, [entry])."""
    floors, entries = {}, []
    for number, line in enumerate(text.splitlines(), 1):
        floor, entry = FLOOR.fullmatch(line), ENTRY.fullmatch(line)
        if floor:
            floors[floor["device"]] = int(floor["least"])
        elif entry:
            entries.append(entry.groupdict())
        elif line.strip() and not line.startswith("#"):
            raise ValueError(f"tests/peers/{LIST}:{number}: '{line}'; expected `floor [VERSION:]DEVICE N` or "
                             "`[DEVICE:][VERSION:]MODEL OUTCOME: REASON`")
    return floors, entries


def read_list(folder):
    with open(os.path.join(folder, LIST), encoding="utf-8") as file:
        return parse_list(file.read())


def expected_of(entries, device, version):
    """{model: (outcome, reason)} for a device and a version as 1.32.0."""
    return {e["model"]: (e["outcome"], e["reason"]) for e in entries
            if e["device"] in (None, device) and (e["version"] is None or version.startswith(f"{e['version']}."))}


def floor_of(floors, device, version):
    return floors.get(f"{'.'.join(version.split('.')[:2])}:{device}", floors.get(device))


def print_list(floors, entries, found):
    """The text of a new list. found: the outcomes on cpu, of the version that `test` runs."""
    kept = [e for e in entries if e["outcome"] != "left" or e["version"] or e["device"]]
    kept += [{"device": None, "version": None, "model": model, "outcome": "left", "reason": text}
             for model, (outcome, text) in found.items() if outcome == "left"]
    lines = [f"{e['device'] + ':' if e['device'] else ''}{e['version'] + ':' if e['version'] else ''}{e['model']} "
             f"{e['outcome']}: {e['reason']}\n" for e in kept]
    return HEAD + "".join(f"floor {device} {least}\n" for device, least in floors.items()) + "".join(sorted(lines))


# ---- counting

def count_suite(count, device, found, expected, floor, whole):
    """Counts the models of a device. A model that passes although it is listed is a failure."""
    for model, (outcome, text) in found.items():
        name = f"peers/onnxruntime/{device}/{model}"
        known, reason = expected.get(model, ("pass", ""))
        if outcome != known:
            remedy = f"; remove it from tests/peers/{LIST}" if outcome == "pass" else ""
            count.fail(f"{name}: {outcome}, expected {known} {reason}".rstrip() + remedy, text)
        elif outcome == "pass":
            count.pass_()
        else:
            count.skip(name, reason)
    for unknown in sorted(set(expected) - set(found)) if whole else ():
        count.fail(f"tests/peers/{LIST}: {unknown} is no model of the suite")
    passed = sum(outcome == "pass" for outcome, _ in found.values())
    if floor is None or passed < floor:
        count.fail(f"peers/onnxruntime/{device}: {passed} models pass; tests/peers/{LIST} has the floor {floor}")
    else:
        count.pass_()


# ---- steps

def library_of(peer):
    return os.path.join(peer.build, "sdk", "bridges", "onnxruntime", "libonnxruntime_ep_backplane.so")


def script(peer, name, *arguments):
    return [peer.python, os.path.join(peer.here, name), *arguments]


def note_run(peer, feature, device, outcome):
    """Keeps an outcome for the table of bridges: of the newest version."""
    if "@" not in peer.name:
        bridge_matrix.note(peer.peers.scratch.root, "onnxruntime", feature, device, outcome)


def run_checks(peer):
    code, output = peer.call(script(peer, "ort_checks.py", "list"), CHECK_SECONDS)
    if code or not output.split():
        peer.count.fail("peers/onnxruntime/checks: there is no list of them", output)
        return
    for device in CHECKED:
        if device in ("xpu", "cuda") and "@" in peer.name:
            continue  # what depends on the version does not depend on the device
        why = bridge_matrix.reason_without(peer, device)
        if why:
            peer.count.skip(f"peers/onnxruntime/{device}/checks", why)
            continue
        for name in output.split():
            if name == "lost" and device != "sim" or name in OF_CPU_AND_SIM and device not in ("cpu", "sim"):
                continue
            run_check(peer, name, device)


def run_check(peer, name, device):
    more = {**environment(peer, device, "sim"), **SEPARATE.get(name, {}), **({"BP_FALLBACK": "deny"} if device in ("xpu", "cuda") else {})}
    code, text = peer.call(script(peer, "ort_checks.py", library_of(peer), f"{device}:0", name), CHECK_SECONDS, more)
    refused = bridge_matrix.refusals(peer, device)
    good = code == 0 and "ok" in text.splitlines() and not refused
    note_run(peer, f"`{name}`", device, "pass" if good else "fail")
    if good:
        peer.count.pass_()
        if name in PRINTED:
            print("", *(f"    {device}: {line}" for line in text.splitlines() if "Provider: " in line), sep="\n", flush=True)
    else:
        peer.count.fail(f"peers/onnxruntime/{device}/{name}: exit status {code}", "\n".join([text, *refused]))


def run_alone(peer):
    for name, more in ALONE.items():
        code, text = peer.call(script(peer, "ort_alone.py", library_of(peer), name), CHECK_SECONDS,
                               {**environment(peer, "cpu"), **more})
        if code == 0 and text.splitlines()[-1:] == ["ok"]:
            peer.count.pass_()
        else:
            peer.count.fail(f"peers/onnxruntime/{name}: exit status {code}", text)


def run_sessions(peer):
    """The same code with ONNX Runtime and with the Python package, and RapidOCR's own class where its package is."""
    if not os.path.exists(os.path.join(peer.build, "sdk", "bridges", "python", "backplane", "_backplane.abi3.so")):
        peer.count.skip("peers/onnxruntime/package", "Python.h is not installed, so that the Python package is not built")
        return
    folders = [os.path.join(packages, "rapidocr_onnxruntime") for packages in peer.packages_of("real-models")]
    code, text = peer.call(script(peer, "ort_sessions.py", *[folder for folder in folders if os.path.isdir(folder)]), CHECK_SECONDS,
                           {**environment(peer, "cpu"), "PYTHONPATH": os.path.join(peer.build, "sdk", "bridges", "python")})
    if code == 0 and text.splitlines()[-1:] == ["ok"]:
        peer.count.pass_()
    else:
        peer.count.fail(f"peers/onnxruntime/sessions: exit status {code}", text)


def run_threads(peer):
    """Four threads run a session of a build with ThreadSanitizer, which sees our libraries only."""
    build = f"{peer.build}-tsan"
    library = os.path.join(build, "sdk", "bridges", "onnxruntime", "libonnxruntime_ep_backplane.so")
    if not os.path.exists(library):
        if peer.everything:
            peer.count.fail(f"peers/onnxruntime/tsan: there is no {library}; ./dev peers test --all builds it")
        else:
            peer.count.skip("peers/onnxruntime/tsan", "there is no build with ThreadSanitizer; ./dev peers test --all makes it")
        return
    runtime = subprocess.run(["gcc", "-print-file-name=libtsan.so"], capture_output=True, text=True, check=True).stdout.strip()
    command = ["setarch", "-R", *script(peer, "ort_checks.py", library, "cpu:0", "threads")]
    code, text = peer.call(command, CHECK_SECONDS, {  # the run-time's dlopen does not look where ONNX Runtime's own would
        "LD_LIBRARY_PATH": ":".join(os.path.join(folder, "onnxruntime", "capi") for folder in peer.packages()),
        "BP_PLUGINS": "cpu", "BP_PLUGIN_PATH": os.path.join(build, "plugins", "cpu"), "LD_PRELOAD": runtime,
        "TSAN_OPTIONS": f"ignore_noninstrumented_modules=1 exitcode=66 suppressions={os.path.join(ROOT, 'tests', 'races.txt')}"})
    if code == 0 and "ok" in text.splitlines() and "ThreadSanitizer" not in text:
        peer.count.pass_()
    else:
        peer.count.fail(f"peers/onnxruntime/tsan: exit status {code}", text)


def run_package(peer):
    """Installs Backplane, makes the package, installs that and moves it; no variable helps to find a file."""
    name = "peers/onnxruntime/package"
    with tempfile.TemporaryDirectory() as folder:
        prefix, site, moved = (os.path.join(folder, part) for part in ("prefix", "site", "moved"))
        pip = [peer.peers.scratch.python("pip"), "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--target", site]
        for command in (
                ["meson", "install", "-C", peer.build, "--no-rebuild", "--quiet", "--destdir", prefix],
                [sys.executable, os.path.join(ROOT, "sdk", "bridges", "onnxruntime", "package", "wheel.py"), prefix, folder],
                [*pip, "--find-links", folder, "onnxruntime-ep-backplane"],
                ["mv", site, moved],
                ["env", "-u", "BP_PLUGIN_PATH", f"PYTHONPATH={moved}", *script(peer, "ort_alone.py", "", "package")]):
            code, text = peer.call(command, CHECK_SECONDS)
            if code:
                peer.count.fail(f"{name}: {' '.join(command[:3])}: exit status {code}", text)
                note_run(peer, "the package", "cpu", "fail")
                return
    note_run(peer, "the package", "cpu", "pass")
    peer.count.pass_()


def run_page(peer):
    """The page for vendors, from a new plugin to a model in ONNX Runtime. Its pip finds the peer's packages, and no registry."""
    blocks = os.path.join(ROOT, "tests", "docs", "blocks.py")
    code, output = peer.call([sys.executable, blocks, ROOT, peer.build, VENDORS_PAGE, "onnxruntime"], SUITE_SECONDS,
                             {"PYTHONPATH": ":".join(peer.packages()), "PIP_NO_INDEX": "1"})
    failed = peer.count.failed
    python_package.count_tap(peer.count, "peers/onnxruntime/page", code, output)
    note_run(peer, "[ten minutes](ten-minutes.md)", "template", "pass" if failed == peer.count.failed else "fail")


def run_suite(peer, device):
    """{model: (outcome, text)}, or None after a failure that is counted."""
    report = os.path.join(peer.folder, f"{device}.json")
    if os.path.exists(report):
        os.unlink(report)
    code, output = peer.call(script(peer, "ort_suite.py", library_of(peer), f"{device}:0", DATA, report, str(DEVICES[device])),
                             SUITE_SECONDS, environment(peer, device))
    if code:
        peer.count.fail(f"peers/onnxruntime/{device}: exit status {code}", output)
    try:
        with open(report, encoding="utf-8") as file:
            return {model: tuple(outcome) for model, outcome in json.load(file).items()}
    except (OSError, ValueError) as error:
        peer.count.fail(f"peers/onnxruntime/{device}: exit status {code}, no whole report ({error!r})", output)
        return None


def networks_of(peer):
    """{name: path} of the networks that are on this machine: the light ones of the ONNX project, beside the repository,
    and those that the packages of the peer real-models have."""
    folder = os.path.abspath(os.environ.get("BP_ONNX_LIGHT", os.path.join(peer.here, "..", "..", "..", "shared", "onnx-light")))
    found = {file[6:-5]: os.path.join(folder, file) for file in sorted(os.listdir(folder)) if file.endswith(".onnx")} \
        if os.path.isdir(folder) else {}
    other = peer.peers.scratch.folder("real-models")
    for name, (path, _) in real_models.MODELS.items():
        places = [os.path.join(other, f"{name}.onnx")] if path.endswith(".safetensors") else \
            [os.path.join(packages, path) for packages in peer.packages_of("real-models")]
        found.update({name: place for place in places if os.path.exists(place)})
    return found


def run_networks(peer):
    paths = networks_of(peer)
    if not paths:
        peer.count.skip("peers/onnxruntime/networks", "neither the light networks nor the peer real-models are on this machine")
        return
    right = 0
    for name, path in paths.items():
        code, output = peer.call(script(peer, "ort_networks.py", library_of(peer), "cpu:0", name, path), NETWORK_SECONDS,
                                 {**environment(peer, "cpu"), "BP_THREADS": "1"})
        if code == 0 and output.splitlines()[-1:] == ["right"]:
            peer.count.pass_()
            right += 1
        else:
            peer.count.fail(f"peers/onnxruntime/{name}: exit status {code}", output)
    note(peer, "networks", right, len(paths))


def note(peer, column, passed, total):
    """Writes the page anew, if all versions are tested."""
    results.setdefault(peer.version("onnxruntime"), {})[column] = f"{passed:,} of {total:,}"
    note_run(peer, "whole networks" if column == "networks" else "ONNX's test models", "cpu" if column == "networks" else column,
             f"{passed:,} of {total:,}")
    if not peer.writes:
        return
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(PAGE_HEAD)
        for version, row in sorted(results.items()):
            file.write(f"| {version} | " + " | ".join(row.get(column, "") for column in (*DEVICES, "networks")) + " |\n")


def test(peer):
    floors, entries = read_list(peer.here)
    with peer.step("checks", BUDGETS["checks"]):
        run_checks(peer)
        run_alone(peer)
        run_sessions(peer)
        run_threads(peer)
    with peer.step("package", BUDGETS["package"]):
        run_package(peer)
    if "@" not in peer.name:  # pip would need other packages for older versions
        with peer.step("page", BUDGETS["page"]):
            run_page(peer)
    for device in DEVICES:
        if device == "xpu" and not peer.has_opencl():
            peer.count.skip("peers/onnxruntime/xpu", "OpenCL's headers or PoCL are not installed")
            continue
        if device == "xpu" and "@" in peer.name:
            continue  # what depends on the version does not depend on the device
        with peer.step(device, BUDGETS[device]):
            found = run_suite(peer, device)
            if found is not None:
                note(peer, device, sum(outcome == "pass" for outcome, _ in found.values()), len(found))
                count_suite(peer.count, device, found, expected_of(entries, device, peer.version("onnxruntime")),
                            floor_of(floors, device, peer.version("onnxruntime")), DEVICES[device] == 1)
    with peer.step("networks", BUDGETS["networks"]):
        run_networks(peer)


def update(peer):
    """Writes the lines of models that are left anew. Other lines, which people write, stay."""
    floors, entries = read_list(peer.here)
    found = run_suite(peer, "cpu")
    if found is None:
        return
    with open(os.path.join(peer.here, LIST), "w", encoding="utf-8") as file:
        file.write(print_list(floors, entries, found))
    _, entries = read_list(peer.here)
    count_suite(peer.count, "cpu", found, expected_of(entries, "cpu", peer.version("onnxruntime")), floors.get("cpu"), True)


def times_row(line):
    """A line of the page of times, or None."""
    found = TIMES.match(line)
    if not found:
        return None
    theirs, ours, alone, over, low, high, load = map(float, found.group("theirs", "ours", "alone", "over", "low", "high", "load"))
    marked = [f"**{value:.2f}**" if value > limit else f"{value:.2f}"
              for value, limit in ((over, ort_networks.RUN_LIMIT), (load, ort_networks.LOAD_LIMIT))]
    return (f"| {found['name']} | {ours / theirs:.2f} | {alone / theirs:.2f} | {marked[0]} ({low:.2f} to {high:.2f}) | {marked[1]} |\n")


def write_times(peer, rows, loads):
    load, processors = sum(loads) / len(loads), os.cpu_count()
    with open(TIMES_PAGE, "w", encoding="utf-8") as file:
        file.write(TIMES_HEAD.format(when=datetime.date.today(), machine=platform.machine(), processors=processors,
                                     version=peer.version("onnxruntime"), load=load,
                                     busy=": other work ran beside this" if load > 1.5 else "") + "".join(rows))


def bench(peer, part):
    """Prints the times of loads and runs: ONNX Runtime's own provider, Backplane's in ONNX Runtime, Backplane alone. Writes
    the page of times after a run of all networks without a failure."""
    rows, loads, failed = [], [], peer.count.failed
    for name, path in networks_of(peer).items():
        if part in name:
            code, output = peer.call(script(peer, "ort_networks.py", library_of(peer), "cpu:0", name, path,
                                         os.path.join(peer.build, "sdk", "onnx", "libbackplane-onnx.so")), NETWORK_SECONDS,
                                  {**environment(peer, "cpu"), "BP_THREADS": "1"})
            print(output.rstrip(), flush=True)
            made = [row for row in map(times_row, output.splitlines()) if row]
            if code or not made:
                peer.count.fail(f"peers/onnxruntime/{name}: exit status {code}, {len(made)} times", output)
            else:
                peer.count.pass_()
            rows += made
            loads.append(os.getloadavg()[0])
    if rows and not part and peer.count.failed == failed:
        write_times(peer, rows, loads)
