#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks `bp launch`: its ranks, prefixes, exit statuses and signals, and that it leaves no process behind.

    launch.py BP
"""
import json
import os
import signal
import socket
import subprocess
import sys
import time

from tap import case, finish

BP = sys.argv[1]


def launch(*words, **more):
    return subprocess.run([BP, "launch", *words], capture_output=True, text=True, timeout=60, **more)


def alive(word):
    """Lists the processes whose command line contains a word of this test."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                if word.encode() in f.read():
                    found.append(pid)
        except OSError:
            pass
    return found


def gone(word):
    for _ in range(100):
        if not alive(word):
            return True
        time.sleep(0.05)
    return False


def shell(script):
    return ["sh", "-c", script]


def main():
    done = launch("-n", "3", *shell("echo $BP_RANK of $BP_WORLD_SIZE; echo e >&2"))
    case("each rank knows its number", done.returncode == 0 and sorted(done.stdout.splitlines()) ==
         [f"[{i}] {i} of 3" for i in range(3)] and done.stderr.count("] e\n") == 3, done)
    done = launch("-n", "2", "--plain", "--", *shell("echo $BP_STORE"))
    lines = done.stdout.split()
    case("all have one store", len(lines) == 2 and lines[0] == lines[1] and lines[0].startswith("127.0.0.1:"), done)
    done = launch("-n", "2", *shell("printf no_newline; exit 0"))
    case("a last line without end is printed", sorted(done.stdout.splitlines()) ==
         ["[0] no_newline", "[1] no_newline"], done)
    done = launch("-n", "1", "--plain", sys.executable, "-c", "print('x' * 100000); print('y')")
    case("no output is lost", done.stdout.replace("\n", "") == "x" * 100000 + "y", len(done.stdout))

    word = f"mark{os.getpid()}"
    start = time.monotonic()
    done = launch("-n", "3", *shell(f": {word}; [ $BP_RANK = 1 ] && exit 7; exec sleep 60"))
    case("the first failure ends the others, and is the answer",
         done.returncode == 7 and "rank 1 ended with exit status 7" in done.stderr and time.monotonic() - start < 20, done)
    done = launch("-n", "2", *shell(f": {word}; trap '' TERM; [ $BP_RANK = 0 ] && kill -9 $$; while :; do sleep 1; done"))
    case("a signal is an answer, and one who does not listen is killed", done.returncode == 137 and gone(word), done)
    done = launch("-n", "2", *shell(f"(: {word}; exec sleep 60) & exit 0"))
    case("what a rank leaves in its group goes with it", done.returncode == 0 and gone(word), done)
    for number in (signal.SIGINT, signal.SIGTERM):
        child = subprocess.Popen([BP, "launch", "-n", "2", *shell(f": {word}; echo up; exec sleep 60")],
                                 stdout=subprocess.PIPE, text=True)
        child.stdout.readline(), child.stdout.readline()
        child.send_signal(number)
        case(f"{number.name} ends all", child.wait(30) == 128 + number and gone(word), child.returncode)
        child.stdout.close()
    child = subprocess.Popen([BP, "launch", "-n", "2", *shell(f"echo up; exec {sys.executable} -c 'import time; word=\"{word}\"; time.sleep(60)'")],
                             stdout=subprocess.PIPE, text=True)
    child.stdout.readline(), child.stdout.readline()
    child.kill()
    child.wait()
    child.stdout.close()
    case("without bp no rank lives on", gone(word), alive(word))

    done = launch("-n", "2", "/no/such/program")
    case("a program that is not there", done.returncode == 127 and "No such file" in done.stderr, done)
    for words in (["-n", "0", "true"], ["-n", "2"], ["true"], ["-n", "x", "true"], ["-n", "2", "--nope", "true"]):
        done = launch(*words)
        case(f"wrong use: {' '.join(words)}", done.returncode == 2 and done.stderr, done)
    done = launch("-n", "3", "--json", "-", "--plain", *shell("[ $BP_RANK = 2 ] && exit 5; trap 'exit 0' TERM; sleep 9 & wait"))
    report = json.loads(done.stdout)
    case("a report of each rank", report["status"] == 5 and report["ranks"][2] == 5 and len(report["ranks"]) == 3, done)
    done = launch("-n", "2", "--store", "192.0.2.1", "true")
    case("a store that cannot be", done.returncode == 4 and "192.0.2.1" in done.stderr, done)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = launch("-n", "2", "--store", f"127.0.0.1:{taken.getsockname()[1]}", "true")
    case("a store at a port in use", done.returncode == 4 and "is in use" in done.stderr, done)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
