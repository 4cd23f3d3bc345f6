# SPDX-License-Identifier: Apache-2.0
"""Tests the Python package with pip, and with the packages that it exchanges tensors with.

pip installs the wheels of the build in a bare environment, without the registry and without a compiler. numpy and jax
share tensors with it, in `test --all` torch and paddle too. A small call and an import are timed against their limits.
"""
import glob
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import bridge_matrix  # noqa: E402
import run  # noqa: E402

RUN_SECONDS = 300
NO_KERNEL = {("gradients", "template")}  # features that need kernels that a device lacks
BUDGETS = {"pip": 60, "versions": 240, "devices": 60, "exchange": 60, "speed": 30, "kernels": 150, "kernels, all": 600}
PACKAGES = {"python": ("numpy", "jax"), "python@paddle": ("paddle",), "python-torch": ("torch",)}
ADD_US, IMPORT_MS = 2.0, 60.0
VERSIONS = ("3.12", "3.13", "3.14", "3.15")  # besides the one that runs the tests; a `t` is added for the free-threaded build
PROGRAMS = ("tensors.py", "calls.py", "graphs.py", "processes.py")
INSTALLS = {"cp310": False, "cp311": True, "cp312": True, "cp313": True, "cp314": True, "cp313t": False, "cp314t": False}
TAGS = """
import sys
from packaging.tags import cpython_tags
from packaging.utils import parse_wheel_filename
tags = parse_wheel_filename(sys.argv[1])[3]
platforms = [tag.platform for tag in tags]
for abi in sys.argv[2:]:
    print(abi, bool(tags & set(cpython_tags((3, int(abi[3:].rstrip("t"))), [abi], platforms))))
"""
HELLO = """
import backplane as bp
print(bp.ops.relu(bp.asarray([1.0, -2.0])).tolist(), bp.Device("h_good").name, bp.__file__.startswith(%r))
"""
SPEED = """
import subprocess, sys, time, timeit
start = time.perf_counter()
import backplane as bp
spent = (time.perf_counter() - start) * 1e3
a, b = bp.asarray([1.0] * 16), bp.asarray([2.0] * 16)
add = bp.ops.add
times = [t / 20000 * 1e6 for t in timeit.repeat(lambda: add(a, b), number=20000, repeat=15)]
print(min(times), spent)
"""


def count_tap(count, name, code, output):
    """Counts TAP: each test that failed, or one failure of a program that ended badly all the same. No test may be
    skipped."""
    results = run.tap_results(output) or []
    bad = [title for result, title in results if result != "ok"]
    count.pass_(len(results) - len(bad))
    if bad:
        count.fail(f"{name}: {'; '.join(bad)}", output, n=len(bad))
    elif code or not results:
        count.fail(f"{name}: exit status {code}", output)


def test_pip(peer):
    """Installs the wheels without the registry, in an environment that has nothing else, with no program in PATH."""
    wheels, bare = os.path.join(peer.folder, "wheels"), os.path.join(peer.folder, "bare")
    for folder in (wheels, bare):
        shutil.rmtree(folder, ignore_errors=True)
    builder = os.path.join(run.ROOT, "sdk", "bridges", "python", "wheel.py")
    plugin = f"h_good={os.path.join(peer.build, 'tests', 'plugins')}"
    python = os.path.join(bare, "bin", "python")
    clean = {"PATH": bare, "PIP_CONFIG_FILE": os.devnull, "PYTHONPATH": ""}
    steps = ([peer.python, builder, peer.build, wheels, plugin], {}), \
        ([peer.python, "-m", "venv", bare], {}), \
        ([python, "-m", "pip", "install", "-q", "--no-index", "--find-links", wheels, "backplane-h_good"], clean), \
        ([python, "-I", "-c", HELLO % bare], clean)
    for command, more in steps:
        code, output = peer.call(command, RUN_SECONDS, more)
        if code:
            peer.count.fail(f"peers/{peer.name}/pip: {' '.join(command[:4])}: exit status {code}", output)
            return None
    if output.strip() != "[1.0, 0.0] h_good:0 True":
        peer.count.fail(f"peers/{peer.name}/pip: not the expected output", output)
        return None
    peer.count.pass_()
    return python


def test_tags(peer):
    """The Pythons that install the wheel, by the package with which pip decides: no free-threaded one."""
    wheel, = glob.glob(os.path.join(peer.folder, "wheels", "backplane-[0-9]*.whl"))
    code, output = peer.call([peer.python, "-c", TAGS, os.path.basename(wheel), *INSTALLS], RUN_SECONDS)
    if code or output.split() != [word for pair in INSTALLS.items() for word in map(str, pair)]:
        peer.count.fail(f"peers/{peer.name}/tags: exit status {code}", output)
    else:
        peer.count.pass_()


def find_python(version):
    """The program of another version of Python, in PATH or where pyenv installs them, or None."""
    name = f"python{version}"
    folders = os.environ.get("PATH", "").split(os.pathsep) + sorted(glob.glob(os.path.expanduser(f"~/.pyenv/versions/{version}*/bin")))
    for path in (os.path.join(folder, name) for folder in folders):
        if os.access(path, os.X_OK) and not subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode:
            return path
    return None


def test_versions(peer):
    """The tests of the package with each other Python that this machine has; a free-threaded one refuses the package."""
    for version in VERSIONS:
        name, python, free = f"peers/{peer.name}/versions/{version}", find_python(version), find_python(f"{version}t")
        if not python:
            peer.count.skip(name, "this Python is not installed")
        for program in PROGRAMS if python else ():
            code, output = peer.call([python, os.path.join(run.ROOT, "tests", "python", program), peer.build], RUN_SECONDS)
            count_tap(peer.count, f"{name}/{program}", code, output)
        if free:
            code, output = peer.call([free, "-c", "import backplane"], RUN_SECONDS,
                                     {"PYTHONPATH": os.path.join(peer.build, "sdk", "bridges", "python")})
            if code and "needs a Python with the global interpreter lock" in output:
                peer.count.pass_()
            else:
                peer.count.fail(f"{name}t: exit status {code}", output)


def test_speed(peer, python):
    """The best of several runs, as other work only slows them; and the best of several imports."""
    best = [float("inf")] * 2
    for _ in range(5):
        code, output = peer.call([python, "-I", "-c", SPEED], RUN_SECONDS)
        if code:
            peer.count.fail(f"peers/{peer.name}/speed: exit status {code}", output)
            return
        best = [min(pair) for pair in zip(best, map(float, output.split()))]
    print(f"    an add of 16 floats: {best[0]:.2f} us of {ADD_US:.0f}; an import: {best[1]:.0f} ms of {IMPORT_MS:.0f}")
    for name, value, limit in (("add", best[0], ADD_US), ("import", best[1], IMPORT_MS)):
        if value > limit:
            peer.count.fail(f"peers/{peer.name}/speed: {name}: {value:.2f}, at most {limit:.0f}")
        else:
            peer.count.pass_()


def test_kernels(peer):
    """The kernel cases of the conformance suite through Python: every second of its quick list, in `test --all` all. The
    program that is preloaded embeds the Python that the build found."""
    if not os.path.exists(os.path.join(peer.build, "tests", "python", "through.so")):
        peer.count.skip(f"peers/{peer.name}/kernels", "libpython (Debian: libpython3-dev) is not installed")
        return
    program = os.path.join(run.ROOT, "tests", "python", "kernels.py")
    options = ["--all"] if peer.everything else ["--all", "--quick"]
    code, output = peer.call([sys.executable, program, peer.build, *options], 2 * BUDGETS["kernels, all"])
    count_tap(peer.count, f"peers/{peer.name}/kernels", code, output)


def run_feature(peer, feature, title, device):
    program = os.path.join(peer.here, "python_features.py")
    code, output = peer.call([sys.executable, program, device, feature], RUN_SECONDS,
                             {**bridge_matrix.environment(peer, device), "PYTHONPATH": os.path.join(peer.build, "sdk", "bridges", "python")})
    expected = "no kernel" if (feature, device) in NO_KERNEL else "ok"
    refused = bridge_matrix.refusals(peer, device)
    good = code == 0 and output.splitlines()[-1:] == [expected] and not refused
    bridge_matrix.note(peer.peers.scratch.root, "python", title, device, "fail" if not good else "pass" if expected == "ok" else expected)
    if good:
        peer.count.pass_()
    else:
        peer.count.fail(f"peers/{peer.name}/{device}/{feature}: exit status {code}, expected `{expected}`", "\n".join([output, *refused]))


def test_devices(peer):
    """Features of the package on each device."""
    code, output = peer.call([sys.executable, os.path.join(peer.here, "python_features.py"), "list"], RUN_SECONDS)
    features = [line.partition(": ")[::2] for line in output.splitlines()]
    if code or not features:
        peer.count.fail(f"peers/{peer.name}/devices: there is no list of features", output)
    for device in bridge_matrix.DEVICES:
        why = bridge_matrix.reason_without(peer, device)
        if why:
            peer.count.skip(f"peers/{peer.name}/{device}/features", why)
            continue
        for feature, title in features:
            run_feature(peer, feature, title, device)


def test(peer):
    if not glob.glob(os.path.join(peer.build, "sdk", "bridges", "python", "backplane", "*.so")):
        why = "the package is not built: Python.h (Debian: python3-dev) is not installed"
        peer.count.skip(f"peers/{peer.name}/package", why)
        return
    if peer.name == "python":
        with peer.step("pip", BUDGETS["pip"]):
            python = test_pip(peer)
            if python:
                test_tags(peer)
        if peer.everything:
            with peer.step("versions", BUDGETS["versions"]):
                test_versions(peer)
        with peer.step("devices", BUDGETS["devices"]):
            test_devices(peer)
        if python:
            with peer.step("speed", BUDGETS["speed"]):
                test_speed(peer, python)
        title = "kernels, all" if peer.everything else "kernels"
        with peer.step(title, BUDGETS[title]):
            test_kernels(peer)
    program = os.path.join(run.ROOT, "tests", "python", "exchange.py")
    with peer.step("exchange", BUDGETS["exchange"]):
        code, output = peer.call([peer.python, program, peer.build, *PACKAGES[peer.name]], RUN_SECONDS)
        count_tap(peer.count, f"peers/{peer.name}/exchange", code, output)
