# SPDX-License-Identifier: Apache-2.0
"""Finds the permissions that this machine gives to tests, by trying exactly the operations of the tests.

A test that cannot run skips with the reason given here. A reason in allowed-skips.txt that begins with a name of
PROBES in brackets allows a skip only where that probe fails: a test that the machine permits has to run.
"""
import functools
import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile

from namespaces import CLONE_NEWNET, MS_BIND, enter, mount, own_mounts, own_root, own_user, system_call, unshare

PTRACE_ATTACH = 16
NOBODY = 65534  # the user and the group that tests give files to, and become


def tried(function, *arguments):
    """Runs a function in a process of its own; returns its exception or its result, or None."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            text = function(*arguments)
        except OSError as error:
            text = error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
        os.write(writer, (text or "").encode())
        os._exit(0)
    os.close(writer)
    with open(reader, encoding="utf-8") as f:
        text = f.read()
    status = os.waitpid(child, 0)[1]
    return text or (f"the process that tried it ended with status {status:#x}" if status else None)


# ---- hosts: network namespaces that are joined by virtual cables, as tests/ccl/hosts.py makes them


def enter_host(network=None):
    """Mounts of its own, in the network namespace that a file stands for, or None: in that of this process."""
    if network:
        enter(network, CLONE_NEWNET)
    own_mounts()


def show_network():
    """Libraries look for network devices in /sys, which shows those of its mounter."""
    mount("sysfs", "/sys", "sysfs")


def own_memory():
    """Shared memory that is its own."""
    mount("tmpfs", "/dev/shm", "tmpfs")


def become_root(directories):
    """Becomes root of a user namespace, in which files of other users, root too, have no owner: for plugins in these directories to be
    trusted, those above must be this user's."""
    own_user()
    own_root(directories)


def try_host(as_another):
    if as_another:
        become_root([os.path.dirname(os.path.abspath(__file__))])
    unshare(CLONE_NEWNET, "network namespace")
    made = subprocess.run(["ip", "link", "add", "up0", "type", "veth", "peer", "name", "up1"], capture_output=True,
                          text=True, check=False)
    if made.returncode:
        return f"ip link add type veth: {made.stderr.strip() or made.returncode}"
    enter_host()
    own_memory()
    show_network()
    return mount("/dev/null", shutil.which("ip"), flags=MS_BIND)  # as tests hide a library


@functools.cache
def hosts():
    """(why hosts cannot be made, or None; whether they need a user namespace, where this user is root)."""
    for tool in ("ip", "nsenter", "unshare"):
        if not shutil.which(tool):
            return f"there is no {tool}", False
    why = {as_another: tried(try_host, as_another) for as_another in (False, True)}
    if why[False] and not why[True]:
        return None, True
    return why[False] and f"hosts cannot be made: {why[False]}; in a user namespace: {why[True]}", False


# ---- operations of root


def own_root_of_anyone():
    """Why no root of its own can be entered, by root or in a user namespace, or None."""
    def enter_root():
        if os.geteuid():
            own_user()
        own_root([os.path.dirname(os.path.abspath(__file__))])

    return tried(enter_root)


def become_nobody():
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def root():
    """Why this user cannot become another, or None."""
    return "this user is not root" if os.geteuid() else tried(become_nobody)


def chown():
    """Why no file can be given to another user and another group, or None."""
    with tempfile.NamedTemporaryFile() as file:
        return tried(os.chown, file.name, NOBODY, 100)


def set_uid():
    """Why another user cannot run a program as root, or None."""
    if os.geteuid():
        return "this user is not root"
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        program = os.path.join(folder, "id")
        shutil.copy(shutil.which("id"), program)
        os.chmod(program, stat.S_ISUID | 0o755)
        try:
            done = subprocess.run([program, "-u"], capture_output=True, text=True, preexec_fn=become_nobody, check=False)
        except (OSError, subprocess.SubprocessError) as error:
            return str(error)
        return None if done.stdout == "0\n" else f"a set-uid program ran as user {done.stdout.strip()}"


def leaks():
    """Why LeakSanitizer cannot look at the threads of its process, or None: it traces them."""
    def trace():
        child = os.fork()
        if not child:
            signal.pause()
        try:
            system_call("ptrace", PTRACE_ATTACH, child, None, None)
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)

    return tried(trace)


PROBES = {"hosts": lambda: hosts()[0], "namespaces": own_root_of_anyone, "root": root, "chown": chown, "set-uid": set_uid,
          "leaks": leaks}


@functools.cache
def why_not(name):
    """Why the machine does not permit it, or None."""
    return PROBES[name]()


def leaks_option():
    """The addition to ASAN_OPTIONS where leaks cannot be looked for: LeakSanitizer would fail each process."""
    return ":detect_leaks=0" if why_not("leaks") else ""


def may_skip(reason):
    """Whether a reason of allowed-skips.txt holds here."""
    probe = re.match(r"\[([^]]*)\]", reason)
    return not probe or why_not(probe[1]) is not None
