#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests where less is permitted than to root on a machine of its own: programs whose outcome depends on that run
once more in each of ENVIRONMENTS, which namespaces make here. There all pass, or skip for a reason that holds.

    environments.py ROOT BUILD                                     TAP
    environments.py ROOT BUILD ENVIRONMENT COMMAND [ARGUMENTS]     runs a command in one, on a copy of BUILD

An environment that cannot be made here is a skip.
"""
import ctypes
import json
import os
import platform
import pwd
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import permitted  # noqa: E402
import run  # noqa: E402
from namespaces import LIBC, MS_BIND, MS_RDONLY, MS_REMOUNT, bind, copy_tree, mount, own_root, own_user, system_call  # noqa: E402

ROOT, BUILD = (os.path.realpath(p) for p in sys.argv[1:3])
PLAIN = "/plain"  # the directory that is / of a chroot: no mount point
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")

# Programs whose outcome depends on the permissions of the environment.
FEW = ["secure", "plugin_lies", "plugin_parts", "hosts_ragged"]
CHROOT = [*FEW, "hosts_cut", "hosts_without", "hosts_leave", "launch"]
CONTAINER = [*FEW, "hosts_cut", "child", "commands", "handles", "losses", "segment_events", "alloc_slow", "counts", "rendezvous", "segment",
             "comm_vm_processes", "native_parts_processes"]
USER = [*FEW, "hosts_cut", "hosts_without", "moved", "rules", "plugin_load", "plugin_search", "plugin_hostile",
        "async", "launch", "data_parallel"]


# ---- parts of environments


def left_out(_, names):
    """Names that a copy of the build leaves out: files that other steps write, and object files, which the programs above do not need."""
    return [n for n in names if n in ("meson-logs", "work", "opencl", "opencl-full") or n.endswith(".p") and len(sys.argv) == 3]


def filled(system, inside=""):
    """A function that fills a root: as / is, above all for the programs that tests are, but with devices, temporary
    files and a build of its own, and without /sys unless `inside` is set."""
    def fill(top, own):
        if inside:  # the machine around a chroot has /sys; without it, the kernel lets no process in a user namespace mount it
            os.mkdir(top + "/sys")
            bind("/sys", top + "/sys")
        top, own_names = top + inside, ["/dev", "/tmp", *([] if system else ["/sys"])]
        os.makedirs(top, exist_ok=True)
        copy_tree(top, own, without=(BUILD, *own_names))
        if any(ROOT.startswith(name + "/") for name in own_names):  # the sources, where temporary files are
            os.makedirs(top + ROOT)
            copy_tree(top + ROOT, own, without=(BUILD,), source=ROOT)
        for name in (*own_names, "/dev/shm", BUILD + "/meson-logs"):
            os.makedirs(top + name, exist_ok=True)
        for name in ("/tmp", "/dev/shm"):
            os.chmod(top + name, 0o1777)
        for name in filter(lambda name: os.path.exists("/dev/" + name), DEVICES):
            os.close(os.open(f"{top}/dev/{name}", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o666))
            bind(f"/dev/{name}", f"{top}/dev/{name}")
        for name, path in {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}.items():
            os.symlink(path, f"{top}/dev/{name}")
        shutil.copytree(BUILD, top + BUILD, symlinks=True, dirs_exist_ok=True, ignore=left_out)

    return fill


def read_only_root():
    for path in (BUILD, "/tmp", "/dev/shm"):
        bind(path, path)
    mount(None, "/", flags=MS_REMOUNT | MS_BIND | MS_RDONLY)


def without_capabilities():
    """Neither this process nor one that it begins has one, though they are root's."""
    for capability in range(64):
        if LIBC.prctl(24, capability, 0, 0, 0):  # PR_CAPBSET_DROP
            break
    system_call("prctl", 38, 1, 0, 0, 0, what="PR_SET_NO_NEW_PRIVS")
    header, none = struct.pack("Ii", 0x20080522, 0), bytes(24)
    system_call("capset", header, none)


def refused(*names):
    """The kernel refuses these calls with EPERM, as a container's filter makes it do; and clone with new namespaces."""
    numbers = {"x86_64": {"unshare": 272, "mount": 165, "umount2": 166, "setns": 308, "pivot_root": 155, "ptrace": 101,
                          "process_vm_readv": 310, "process_vm_writev": 311, "perf_event_open": 298, "mbind": 237,
                          "set_mempolicy": 238, "clone": 56, "clone3": 435},
               "aarch64": {"unshare": 97, "mount": 40, "umount2": 39, "setns": 268, "pivot_root": 41, "ptrace": 117,
                           "process_vm_readv": 270, "process_vm_writev": 271, "perf_event_open": 241, "mbind": 235,
                           "set_mempolicy": 237, "clone": 220, "clone3": 435}}[platform.machine()]
    allow, error, load, equal, bits = 0x7FFF0000, 0x50000, 0x20, 0x15, 0x45
    rules = [(load, 0, 0, 0)]  # the number of the call
    for name in names:
        rules += [(equal, 0, 1, numbers[name]), (6, 0, 0, error | 1)]
    rules += [(equal, 0, 1, numbers["clone3"]), (6, 0, 0, error | 38)]  # ENOSYS: libraries take clone instead
    rules += [(equal, 0, 3, numbers["clone"]), (load, 0, 0, 16), (bits, 0, 1, 0x7E020000), (6, 0, 0, error | 1)]
    rules += [(6, 0, 0, allow)]
    code = b"".join(struct.pack("HBBI", *rule) for rule in rules)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HxxxxxxP", len(rules), ctypes.addressof(buffer))
    system_call("prctl", 22, 2, program, 0, 0, what="PR_SET_SECCOMP")


def no_more_namespaces():
    for kind in ("user", "mnt", "net"):
        with open(f"/proc/sys/user/max_{kind}_namespaces", "w", encoding="ascii") as f:
            f.write("0")


# ---- environments: functions that bring this process into one


def chroot(own):
    """Root, but / is a plain directory, and nothing is mounted on /sys."""
    own_root(own, filled(system=False, inside=PLAIN))
    os.chroot(PLAIN)


def container(own):
    """Root without a capability, and with a filter of system calls, on a file system that cannot be written."""
    own_root(own, filled(system=True))
    read_only_root()
    without_capabilities()
    refused("unshare", "mount", "umount2", "setns", "pivot_root", "ptrace", "process_vm_readv", "process_vm_writev",
            "perf_event_open", "mbind", "set_mempolicy")


def mapped(own):
    """Root of a user namespace in which there is no other user, and no further namespace."""
    own_root(own, filled(system=True))
    own_user()
    no_more_namespaces()


def user(own):
    """Another user, whose build it is."""
    other = pwd.getpwnam("nobody")
    own_root(own, filled(system=True))
    subprocess.run(["chown", "-R", f"{other.pw_uid}:{other.pw_gid}", BUILD], check=True)
    os.mkdir("/tmp/home")
    os.chown("/tmp/home", other.pw_uid, other.pw_gid)
    os.setgroups([])
    os.setresgid(*[other.pw_gid] * 3)
    os.setresuid(*[other.pw_uid] * 3)
    system_call("prctl", 4, 1, 0, 0, 0, what="PR_SET_DUMPABLE")  # as after an exec: its /proc/self is its own


ENVIRONMENTS = {"chroot": (chroot, CHROOT), "container": (container, CONTAINER), "mapped": (mapped, FEW),
                "user": (user, USER)}


def enter(name):
    """Brings this process into an environment, which for a user without root is in a user namespace."""
    with open(os.path.join(BUILD, "meson-info", "intro-tests.json"), encoding="utf-8") as f:
        own = {os.path.dirname(os.path.abspath(test["cmd"][0])) for test in json.load(f)} | {BUILD, ROOT}
    os.umask(0o022)
    os.chdir("/")
    if os.geteuid():
        own_user()
    ENVIRONMENTS[name][0](own)
    os.environ.update(HOME="/tmp/home", TMPDIR="/tmp")
    tempfile.tempdir = None
    os.makedirs("/tmp/home", exist_ok=True)
    os.environ["PATH"] = os.pathsep.join(p for p in os.get_exec_path() if os.access(p, os.R_OK | os.X_OK))
    os.chdir(ROOT)


# ---- running programs there


def count_program(count, test):
    """(name, number of allowed skips, the error or None)."""
    suite, _, name = test["name"].partition(":")[2].partition(" / ")
    failed, skipped, lines = count.failed, count.skipped, len(count.text)
    run.count_test(count, suite, test)
    return f"{suite}/{name}", count.skipped - skipped, "\n".join(count.text[lines:]) if count.failed > failed else None


def run_programs(programs):
    """[(name, skips, the error or None)], counted as ./dev test counts."""
    count = run.Count(run.read_allowed(os.path.join(ROOT, "tests", "allowed-skips.txt")))
    done = run.execute(run.Run(BUILD, count), "normal", "meson", "test", "-C", BUILD, "--no-rebuild", "--logbase", "environment",
                       "--timeout-multiplier", "4", "--num-processes", str(os.cpu_count()), *programs)
    log = os.path.join(BUILD, "meson-logs", "environment.json")
    tests = []
    if os.path.exists(log):
        with open(log, encoding="utf-8") as f:
            tests = [json.loads(line) for line in f]
    missing = set(programs) - {test["name"].rpartition(" / ")[2] for test in tests}
    return [("all programs run", 0, f"without {sorted(missing)}\n{done.stdout}" if missing else None),
            *(count_program(count, test) for test in tests)]


def check_hosts(name, before):
    """Whether hosts can be made is known: in a chroot as before, for a user where `unshare` can, else not."""
    unshare = ["unshare", "--user", "--map-root-user", "--net", "--mount", "mount", "-t", "sysfs", "sysfs", "/sys"]
    if name == "user":
        expected = subprocess.run(unshare, capture_output=True, check=False).returncode == 0
    else:
        expected = name == "chroot" and before
    why = permitted.why_not("hosts")
    return ("hosts can be made" if expected else "hosts cannot be made", 0,
            None if expected == (why is None) else f"expected {'that they can' if expected else 'a reason'}, got {why}")


def in_child(function, *arguments):
    """Runs a function in a process of its own and returns its result."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        with open(writer, "w", encoding="utf-8") as f:
            json.dump(function(*arguments), f)
        os._exit(0)
    os.close(writer)
    with open(reader, encoding="utf-8") as f:
        text = f.read()
    return json.loads(text) if not os.waitpid(child, 0)[1] else [("runs to its end", 0, "it ended before")]


def environment(name, before):
    """Runs the programs of an environment; returns their results, or the reason why the environment cannot be made."""
    if name == "user" and os.geteuid():
        return "all tests run as a user without root"
    try:
        enter(name)
    except OSError as error:
        return f"it cannot be made: {error}"
    permitted.why_not.cache_clear()
    permitted.hosts.cache_clear()
    return [check_hosts(name, before), *run_programs(ENVIRONMENTS[name][1])]


def main():
    if len(sys.argv) > 3:
        enter(sys.argv[3])
        os.execvp(sys.argv[4], sys.argv[4:])
    hosts = permitted.hosts() == (None, bool(os.geteuid()))
    number = failed = 0
    for name in ENVIRONMENTS:
        outcome = in_child(environment, name, hosts)
        if isinstance(outcome, str):
            number += 1
            print(f"ok {number} - {name} # SKIP {outcome}", flush=True)
            continue
        for program, skipped, wrong in outcome:
            number += 1
            failed += wrong is not None
            print(f"{'ok' if wrong is None else 'not ok'} {number} - {name}: {program}{f', of which {skipped} skipped' if skipped else ''}")
            print("".join(f"# {line}\n" for line in (wrong or "").splitlines()), end="", flush=True)
    print(f"1..{number}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
