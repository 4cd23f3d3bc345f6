# SPDX-License-Identifier: Apache-2.0
"""Runs mutated models of the package onnx: each run gives outputs, or is refused with a message.

mutate.py writes 5,000 mutants of 300 models from a seed; run_models (run_models.c) runs them on cpu. A run that crashes,
takes 10 seconds or more than 1 GiB of memory, or is refused with a message that names no part of the model is a failure.
The mutants that failed are kept below build-peers/onnx-suite/mutants-failed/SEED.

    mutants.py BUILD FOLDER...     runs such folders again, and prints the outcome of each
"""
import concurrent.futures
import contextlib
import glob
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import onnx_suite

SEED, MODELS, RUNS = 1, 300, 5000
LEAST_OUTPUTS = 1500  # of the runs
SECONDS, MEMORY_KIB = 10, 1 << 20  # of a run
WORKERS = 2
WRITE_SECONDS = 120
BUDGETS = {"mutate": 30, "cpu": 60}
ROOM = 512 << 20  # bytes for the files
LOOK_SECONDS = 0.02  # between two looks at the memory of a process
PLACE_SHOWN = 50  # characters of a name that each message shows
# Messages about a whole file: of a model that is damaged or lacks a part, of a value, which need not have a name.
WHOLE = re.compile(r"bp_model_load: model: |bp_model_value_load: ")
# The mutation that may change the bytes of names: any name will do then.
DAMAGE = "bytes of the file"
ANY_PLACE = re.compile(r"\b(node|input|output|initialiser|graph|function) \S")


class Worker:
    """A process of run_models. Another one follows if it crashes or has to be killed."""

    def __init__(self, command, env):
        self.command, self.env, self.child, self.lines = command, env, None, None
        self.errors = tempfile.TemporaryFile(mode="w+", errors="replace")

    def begin(self):
        self.errors.seek(0)
        self.errors.truncate()
        self.child = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
                                      text=True, errors="replace", env=self.env, start_new_session=True)
        self.lines = queue.Queue()
        threading.Thread(target=self.read, args=(self.child.stdout, self.lines), daemon=True).start()

    @staticmethod
    def read(stream, lines):
        for line in stream:
            lines.put(line)
        lines.put(None)

    def end(self):
        if self.child:
            self.child.kill()
            self.child.wait()
            self.child = None

    def run(self, folder):
        """(outcome, detail) of a folder. Outcomes: those of run_models, crash, late, memory."""
        if not self.child:
            self.begin()
        try:
            self.child.stdin.write(folder + "\n")
            self.child.stdin.flush()
        except OSError:
            return self.crash()
        start, line = time.monotonic(), ""
        while line == "":
            try:
                line = self.lines.get(timeout=LOOK_SECONDS)
            except queue.Empty:
                if time.monotonic() - start > SECONDS:
                    self.end()
                    return "late", f"no end after {SECONDS} s"
                if self.resident() > MEMORY_KIB:
                    self.end()
                    return "memory", f"more than {MEMORY_KIB >> 10} MiB"
        if line is None:
            return self.crash()
        outcome, peak, detail = line.rstrip("\n").split("\t", 2)
        if int(peak) > MEMORY_KIB:
            return "memory", f"{int(peak) >> 10} MiB; {outcome} {detail}"
        return outcome, detail

    def resident(self):
        try:
            with open(f"/proc/{self.child.pid}/statm", encoding="ascii") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 10
        except (OSError, IndexError):
            return 0

    def crash(self):
        code = self.child.wait()
        self.child = None
        self.errors.seek(0)
        return "crash", f"exit status {code}\n{self.errors.read()[-3000:]}"


def run_all(command, env, folders):
    """[(outcome, detail)] of the folders, by several processes."""
    results, numbers = [None] * len(folders), iter(range(len(folders)))
    lock = threading.Lock()

    def work():
        worker = Worker(command, env)
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                break
            results[number] = worker.run(folders[number])
        worker.end()

    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        for done in [pool.submit(work) for _ in range(WORKERS)]:
            done.result()
    return results


def names_place(detail, places):
    """Whether a refusal names a part of the model, or is about a whole file."""
    return bool(WHOLE.match(detail)) or any(
        re.search(rf"(?<!\w){re.escape(place[:PLACE_SHOWN])}(?!\w)" if len(place) < PLACE_SHOWN else
                  re.escape(place[:PLACE_SHOWN]), detail) for place in places)


def state_of(outcome, detail, places, damaged=False):
    """None if a run ended as it may, else the fault. damaged: the names in the file may be others."""
    if outcome == "outputs":
        return None
    if outcome != "refused":
        return f"{outcome}: {detail}"
    named = names_place(detail, places) or (damaged and ANY_PLACE.search(detail))
    return None if named else f"the message names no part of the model: {detail}"


def count_runs(count, seed, mutants, results):
    """Counts the runs. Returns the numbers of those that failed."""
    failed = []
    for number, (mutant, (outcome, detail)) in enumerate(zip(mutants, results)):
        fault = state_of(outcome, detail, mutant["places"], DAMAGE in mutant["mutations"])
        if fault:
            failed.append(number)
            count.fail(f"peers/mutants/{seed}/{number} of {mutant['model']}: {'; '.join(mutant['mutations'])}", fault)
        else:
            count.pass_()
    outputs = sum(outcome == "outputs" for outcome, _ in results)
    if outputs < LEAST_OUTPUTS * len(results) / RUNS:
        count.fail(f"peers/mutants/{seed}: {outputs} of {len(results)} runs end with outputs, expected "
                   f"{LEAST_OUTPUTS} of {RUNS}: the mutations test little")
    else:
        count.pass_()
    return failed


def passing(peer):
    """The folders of the suite's models that pass on cpu."""
    suite = os.path.join(peer.folder, "suite")
    _, entries = onnx_suite.read_list(peer.here)
    names = [os.path.join(kind, name) for kind in sorted(os.listdir(suite)) for name in sorted(os.listdir(f"{suite}/{kind}"))]
    return [name for name in names if f"onnx/{name}" not in entries["cpu"]]


def write(peer, seed, out):
    """The mutants of a seed, or None after a failure that is counted."""
    names = os.path.join(out, "models.json")
    with open(names, "w", encoding="utf-8") as file:
        json.dump(passing(peer), file)
    code, output = peer.call([peer.python, os.path.join(peer.here, "mutate.py"), names, os.path.join(peer.folder, "suite"),
                              str(seed), str(MODELS), str(RUNS), out], WRITE_SECONDS)
    if code:
        peer.count.fail(f"peers/mutants: the mutants are not written: exit status {code}", output)
        return None
    with open(os.path.join(out, "mutants.json"), encoding="utf-8") as file:
        return json.load(file)


def room(peer):
    """A folder for many small files, in memory if there is room."""
    with contextlib.suppress(OSError):
        if os.access("/dev/shm", os.W_OK) and shutil.disk_usage("/dev/shm").free > ROOM:
            return "/dev/shm"
    return peer.folder


def keep(peer, seed, out, failed):
    kept = os.path.join(peer.folder, "mutants-failed", str(seed))
    shutil.rmtree(kept, ignore_errors=True)
    for number in failed:
        folder = os.path.join(kept, str(number))
        os.makedirs(folder)
        for path in glob.glob(os.path.join(out, f"{number}.*")):
            shutil.copy(path, os.path.join(folder, os.path.basename(path).partition(".")[2]))


def test(peer):
    seed = SEED if peer.seed is None else peer.seed
    if not onnx_suite.prepare(peer):
        return
    with tempfile.TemporaryDirectory(dir=room(peer)) as out:
        with peer.step("mutate", BUDGETS["mutate"]):
            mutants = write(peer, seed, out)
        if mutants is None:
            return
        with peer.step("cpu", BUDGETS["cpu"]):
            results = run_all([os.path.join(peer.build, "tests", "peers", "run_models"), "cpu"], peer.env(),
                              [os.path.join(out, f"{number}.") for number in range(len(mutants))])
            keep(peer, seed, out, count_runs(peer.count, seed, mutants, results))


if __name__ == "__main__":
    runner = os.path.join(sys.argv[1], "tests", "peers", "run_models")
    begins = [os.path.join(folder, "") for folder in sys.argv[2:]]
    for path, (end, text) in zip(sys.argv[2:], run_all([runner, "cpu"], dict(os.environ), begins)):
        print(f"{path}: {end}: {text}".replace("\\n", "\n    "))
