# SPDX-License-Identifier: Apache-2.0
"""Tests Backplane with other people's software from the Python registry, for `./dev peers`.

    peers.py --build DIR install NAME     makes the scratch environment of a peer, DIR-peers/NAME
    peers.py --build DIR test [NAME]      tests the peers of peers.txt, or one: one version of each
    peers.py --build DIR test --all       all versions, and what is large; writes docs/results/peers.md
    peers.py --build DIR test mutants --seed N     other mutants of models than the usual ones
    peers.py --build DIR update NAME      writes the peer's list of expected outcomes anew
    peers.py --build DIR bench [NAME [PART]]   measures against other people's software; PART: of the cases' titles
    peers.py --build DIR bench --all      with what is large too: training beside PyTorch

One small package shows once whether the registry can be reached. If not, peers that are not installed are skipped; if
so, an install that fails is a failure. The last line is `N passed, N failed, N skipped`; the exit
status is 0 if nothing failed.
"""
import argparse
import datetime
import functools
import glob
import os
import platform
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import permitted  # noqa: E402
import run  # noqa: E402

import bench_models  # noqa: E402
import bench_openvino  # noqa: E402
import bench_programs  # noqa: E402
import bench_training  # noqa: E402
import bench_xpu  # noqa: E402
import bridge_matrix  # noqa: E402
import intel_opencl  # noqa: E402
import mutants  # noqa: E402
import onednn3  # noqa: E402
import onnx_suite  # noqa: E402
import openvino_engine  # noqa: E402
import ort_provider  # noqa: E402
import perfetto_reader  # noqa: E402
import python_package  # noqa: E402
import real_models  # noqa: E402
import scratch  # noqa: E402
import slow_operators  # noqa: E402
import standin_models  # noqa: E402

BENCHES = {"slow-operators": ("real-models", slow_operators),  # name: the peer whose environment it takes, its module
           "models": ("real-models", bench_models), "programs": ("real-models", bench_programs),
           "xpu": ("real-models", bench_xpu), "training": ("training", bench_training),
           "onnxruntime": ("onnxruntime", ort_provider), "openvino": ("openvino", bench_openvino)}
MODULES = {"onnx-suite": onnx_suite, "mutants": mutants, "real-models": real_models, "onnxruntime": ort_provider, "onednn3": onednn3,
           "intel-opencl": intel_opencl, "openvino": openvino_engine, "perfetto": perfetto_reader, "training": bench_training,
           "python": python_package, "python-torch": python_package, "standins": standin_models}
TEST_SECONDS = 900  # `test` on two quiet processors, with nothing installed
BUDGETS = {"registry": 60, "install": 180}
RESULTS = os.path.join(run.ROOT, "docs", "results", "peers.md")


class Peer:
    """One version of a peer in its environment, as its module sees it."""

    here = HERE

    def __init__(self, peers, name):
        self.peers, self.name, self.count = peers, name, peers.run.count
        self.folder, self.python = peers.scratch.folder(name), peers.scratch.python(name)
        self.build, self.seed, self.everything = peers.run.build, peers.seed, peers.everything
        self.writes = peers.writes
        self.bp = os.path.join(self.build, "sdk", "tools", "bp")

    def step(self, title, budget):
        return self.peers.run.step(f"peers: {self.name} {title}", budget=budget)

    def call(self, command, limit, more=None):
        """(exit status, output) of a command; 124 if it was too slow."""
        done = run.execute(self.peers.run, "normal", *command, limit=limit, **(more or {}))
        return done.returncode, done.stdout

    def env(self):
        return self.peers.run.env("normal")

    def packages(self):
        """The folders that the environment's packages are in."""
        return glob.glob(os.path.join(self.folder, "lib", "python*", "site-packages"))

    def packages_of(self, name):
        """The folders that the packages of another peer's environment are in."""
        return glob.glob(os.path.join(self.peers.scratch.folder(name), "lib", "python*", "site-packages"))

    def opencl(self):
        return run.opencl(self.peers.run)

    def has_xpu(self):
        return os.path.exists(os.path.join(self.build, "plugins", "xpu", "bp_xpu.so"))

    def has_opencl(self):
        return self.has_xpu() and os.path.exists(self.opencl()["OCL_ICD_VENDORS"])

    def version(self, package):
        return self.peers.scratch.pins[self.name][package][0]


class Peers:
    """The peers of a build. what: the run whose steps and count are used. seed: of peers that are random, or None.
    everything: whether peers run tests that usually take too long. writes: whether pages of results are written, which
    are of all peers."""

    def __init__(self, what, environments, seed=None, everything=False, writes=False):
        self.run, self.scratch, self.seed, self.everything, self.writes = what, environments, seed, everything, writes

    @functools.cached_property
    def unreachable(self):
        """Why nothing can be installed, or None: tested once, and only if something is to be installed."""
        with self.run.step("peers: registry", budget=BUDGETS["registry"]):
            error = self.scratch.make_installer()
            if error:
                self.run.count.fail("peers: there is no environment with pip; Debian's package is python3-venv", error)
                return error
            error = self.scratch.try_registry()
            if error:
                print(f"\nthe registry of packages cannot be reached: {error.strip()}")
            return error

    def install(self, name):
        """Whether the peer's environment is there; counts a failure or a skip if not."""
        if self.scratch.is_installed(name):
            return True
        if self.unreachable:
            self.run.count.skip(f"peers/{name}", "the registry of packages cannot be reached")
            return False
        with self.run.step(f"peers: {name} install", budget=BUDGETS["install"]):
            error = self.scratch.install(name)
            if error:
                self.run.count.fail(f"peers/{name}: install", error)
            return not error

    def test(self, name):
        if self.install(name):
            MODULES[name.partition("@")[0]].test(Peer(self, name))

    def update(self, name):
        if self.install(name):
            MODULES[name.partition("@")[0]].update(Peer(self, name))

    def bench(self, name, part):
        """Prints the table of a measurement, which has no budget: nothing runs it but its user."""
        peer, module = BENCHES[name]
        if self.install(peer):
            module.bench(Peer(self, peer), part)


def result_line(peers, name, before, seconds):
    count = peers.run.count
    n = [now - then for now, then in zip((count.passed, count.failed, count.skipped), before)]
    return f"| {name} | {' '.join(peers.scratch.packages(name))} | {n[0]} | {n[1]} | {n[2]} | {seconds:.0f} |\n"


def write_results(lines):
    """The page of `test --all`."""
    with open(RESULTS, "w", encoding="utf-8") as file:
        file.write("<!-- SPDX-License-Identifier: Apache-2.0 -->\n# Other people's software\n\n"
                   "`./dev peers test --all` writes this page. A skipped model is one that the library does not support or\n"
                   "whose data is wrong: [onnx_suite.txt](../../tests/peers/onnx_suite.txt) and\n"
                   "[models.txt](../../tests/peers/models.txt) give the reasons. Seconds include a missing install.\n\n"
                   f"{datetime.date.today()}, {platform.machine()}, {os.cpu_count()} processors, Python "
                   f"{platform.python_version()}.\n\n"
                   "| peer | packages | passed | failed | skipped | seconds |\n|---|---|---|---|---|---|\n"
                   + "".join(lines))


def test_all(peers, names):
    lines = []
    if peers.writes:
        bridge_matrix.forget(peers.scratch.root)
    for name in names:
        count, start = peers.run.count, time.monotonic()
        before = (count.passed, count.failed, count.skipped)
        peers.test(name)
        lines.append(result_line(peers, name, before, time.monotonic() - start))
    if peers.writes:
        write_results(lines)
        bridge_matrix.write(peers.scratch.root)


def writes_pages(everything, name):
    """Whether a run writes the pages of results: a run of one peer would remove the results of the others."""
    return everything and not name


def finish(peers, needs_tests):
    """Prints the last lines. Returns the exit status."""
    count = peers.run.count
    if needs_tests and not count.passed + count.failed + count.skipped:
        count.fail("nothing ran")
    over = [f"over their budgets: {', '.join(peers.run.over)}"] if peers.run.over else []
    seconds = f"{time.monotonic() - peers.run.start:.0f} s of {TEST_SECONDS}"
    for line in (*count.text, seconds, *over):
        print(line)
    print(f"{count.passed} passed, {count.failed} failed, {count.skipped} skipped")
    return 1 if count.failed else 0


def allow_unreachable(peers):
    """A skip because of the registry is allowed only if one small package showed that it cannot be reached."""
    permitted.PROBES["registry"] = lambda: peers.unreachable


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("command", choices=("install", "test", "update", "bench"))
    parser.add_argument("name", nargs="?")
    parser.add_argument("part", nargs="?", default="")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--seed", type=int, help="other mutants than those of the usual seed")
    options = parser.parse_args()

    pins = scratch.read_pins()
    known = list(BENCHES) if options.command == "bench" else scratch.names_of(pins, True)
    if options.part and options.command != "bench":
        parser.error(f"{options.command} takes no part")
    if options.name and options.name not in known:
        parser.error(f"no such peer: {options.name}; there are {', '.join(known)}")
    if options.command in ("install", "update") and (options.all or not options.name):
        parser.error(f"{options.command} takes the name of one peer: {', '.join(known)}")
    build = os.path.abspath(options.build)
    count = run.Count(run.read_allowed(os.path.join(run.ROOT, "tests", "allowed-skips.txt")))
    peers = Peers(run.Run(build, count), scratch.Scratch(build, pins), options.seed, options.all, writes_pages(options.all, options.name))
    allow_unreachable(peers)
    if options.command == "install":
        peers.install(options.name)
    elif options.command == "update":
        peers.update(options.name)
    elif options.command == "bench":
        small = scratch.names_of(pins, options.all)
        for name in [options.name] if options.name else [name for name in known if BENCHES[name][0] in small]:
            peers.bench(name, options.part)
    else:
        test_all(peers, [options.name] if options.name else scratch.names_of(pins, options.all))
    return finish(peers, options.command in ("test", "bench"))


if __name__ == "__main__":
    sys.exit(main())
