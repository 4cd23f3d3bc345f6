#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the measurements of `bp ccl-bench`, with Open MPI and without.

    bench.py BP FALSE_MPI OTHER_MPI [--without-open-mpi]

FALSE_MPI, OTHER_MPI: libraries (false_mpi.c) that are found in place of Open MPI's.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

from tap import case, finish

BP, FALSE_MPI, OTHER_MPI = sys.argv[1:4]
CALLS = ["barrier", "all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "reduce", "gather",
         "scatter", "send"]
LIMITED = ["all_reduce", "all_gather", "broadcast", "all_to_all"]


def bench(*words, launcher=(), **env):
    """Runs few turns. Each rank is a process; its launcher ends one that is late."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "SLURM_"))} | env
    return subprocess.run([*launcher, BP, "ccl-bench", "--turns", "3", *words], capture_output=True, text=True, timeout=100,
                          env=env)


def report(done):
    try:
        return json.loads(done.stdout)
    except ValueError:
        return {"results": [], "beside": None, "why_alone": None}


def alone(folder):
    done = bench("--most", "16", "--json", "-", PATH=folder)
    r = report(done)
    case("each call and size is measured", done.returncode == 0 and [x["name"] for x in r["results"]] ==
         CALLS[:1] + [c for c in CALLS[1:] for _ in (4, 16)] and all(x["value"] > 0 for x in r["results"]), done)
    case("bytes are those that were asked for", [x["bytes"] for x in r["results"]] == [0] + [4, 16] * 9, done)
    case("the limit is that of calls in which ranks do alike", {x["name"] for x in r["results"] if "limit" in x} ==
         set(LIMITED), done)
    case("it says that there is no mpirun", r["why_alone"] == "there is no mpirun" and
         not any("open_mpi" in x for x in r["results"]), done)
    with open(os.path.join(folder, "mpirun"), "w", encoding="ascii") as f:
        f.write("#!/bin/sh\necho HYDRA build details\n")
    os.chmod(f.name, 0o755)
    done = bench("--most", "4", "--call", "barrier", "--json", "-", PATH=folder)
    case("another mpirun is none", report(done).get("why_alone") == "mpirun is not Open MPI's", done)
    done = bench("--least", "64", "--most", "64", "--call", "all_reduce", "--call", "send", "-n", "3", "--alone")
    lines = [line.split() for line in done.stdout.splitlines()]
    case("a table for people", done.returncode == 0 and lines[0][:2] == ["3", "ranks"] and "--alone" in lines[0] and
         [line[:2] for line in lines[2:]] == [["all_reduce", "64"], ["send", "64"]], done)
    done = bench("-n", "1", "--most", "4", "--json", "-", "--alone")
    case("one rank has nobody to send to", done.returncode == 0 and [x["name"] for x in report(done)["results"]] ==
         CALLS[:-1], done)


def table():
    done = bench("--table", BP_CCL_TABLE="broadcast:*:100:direct")
    lines = [line.split(None, 2) for line in done.stdout.splitlines()]
    case("the table of algorithms, with what it was told", done.returncode == 0 and [call for call in CALLS if
         [c for c, *_ in lines].count(call)] == CALLS and [line[1:] for line in lines if line[0] == "broadcast"] ==
         [["100", "direct, by mapped memory"], ["4096", "through windows"], ["any", "direct, by mapped memory"]] and
         ["all_reduce", "40", "inline"] in lines, done)


def wrong_use():
    for words, text in ((["--call", "scream"], "no such call: 'scream'"), (["--least", "64", "--most", "4"], "--least"),
                        (["--turns", "0"], "--turns"), (["-n", "0"], "--ranks")):
        done = bench(*words)
        case(f"wrong use: {' '.join(words)}", done.returncode == 2 and text in done.stderr, done)
    done = bench("--alone", "-n", "1", "--call", "barrier", "--json", "/no/such/directory/x")
    case("a report that cannot be written", done.returncode == 4 and "cannot be written" in done.stderr, done)
    done = bench("--alone", "-n", "1", "--device", "tpu")
    case("no such device", done.returncode == 3, done)


def false_library(folder):
    """Checks a job of one rank, started as by mpirun."""
    for library in (FALSE_MPI, OTHER_MPI):
        os.mkdir(os.path.join(folder, os.path.basename(library)))
        os.symlink(os.path.abspath(library), os.path.join(folder, os.path.basename(library), "libmpi.so.40"))
    job = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"}
    words = ("--call", "all_reduce", "--most", "4", "--json", "-")
    done = bench(*words, **job, LD_LIBRARY_PATH=os.path.join(folder, os.path.basename(FALSE_MPI)))
    case("another answer than Open MPI's is a failure", done.returncode == 1 and
         "the answer to all_reduce of 4 bytes is not Open MPI's" in done.stderr, done)
    done = bench(*words, **job, LD_LIBRARY_PATH=os.path.join(folder, os.path.basename(OTHER_MPI)),
                 launcher=(BP, "launch", "-n", "1", "--plain"))
    case("a library that is not Open MPI's is left alone", done.returncode == 0 and
         report(done).get("why_alone") == "libmpi.so.40 is not Open MPI's", done)


def beside():
    done = bench("--most", "65536", "--json", "-")
    r = report(done)
    case("beside: each call and size of Open MPI's", done.returncode == 0 and r["beside"].startswith("Open MPI v") and
         len(r["results"]) == 1 + 9 * 8 and all(x["open_mpi"] > 0 for x in r["results"]), done)
    done = bench("--least", "64", "--most", "64", "--call", "all_reduce", "--device", "sim", "--json", "-", BP_SIM_DEVICES="1")
    case("beside: not on memory that the host does not reach", done.returncode == 0 and not r.get("why_alone") and
         report(done).get("why_alone") == "the host does not reach the device's memory" and
         "open_mpi" not in report(done)["results"][0], done)


def main():
    with tempfile.TemporaryDirectory() as folder:
        alone(folder)
        false_library(folder)
    table()
    wrong_use()
    if "--without-open-mpi" in sys.argv:
        pass  # LeakSanitizer would search for leaks in Open MPI's libraries
    elif shutil.which("mpirun"):
        beside()
    else:
        case("beside # skip mpirun is not installed", True)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
