#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a program with its ranks on several hosts: network namespaces that virtual cables join.

    hosts.py PROGRAM [ARGUMENTS] -- HOSTS...            one after the other
    hosts.py PROGRAM [ARGUMENTS] --at-once HOSTS...     in parallel, where ranks mostly wait

HOSTS names the hosts that the ranks use in rotation: ab, aab, abc. A namespace exists as long as the process that holds
it, which ends with this one. Prints TAP; skips where namespaces are not permitted (tests/permitted.py).

    hosts.py exec COMMAND [ARGUMENTS]     runs a command in namespace a of two

There `hosts.py agent` works like ssh, for `mpirun --mca plm_rsh_agent`.
"""
import ctypes
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import permitted  # noqa: E402

NETWORK = "10.213.7"
# Each host has its own shared memory, so that files which a program leaves there are noticed.
SEE_LEFT = ["sh", "-c", '"$@"; code=$?; left=$(ls -A /dev/shm); [ -z "$left" ] && exit $code; '
            'echo "left in /dev/shm: $left"; exit 1', "sh"]
SUBREAPER = 36  # of prctl: processes without a parent become children of this process


class Hosts:
    def __init__(self, names):
        self.holders = {}
        for name in names:
            self.holders[name] = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo here; exec cat"],
                                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self.holders[name].stdout.readline()
        self.cable()

    def path(self, name):
        return f"/proc/{self.holders[name].pid}/ns/net"

    def inside(self, name, *words):
        return ["nsenter", "--net=" + self.path(name), *words]

    def ip(self, name, *words):
        subprocess.run(self.inside(name, "ip", *words), check=True)

    def cable(self):
        """Joins the hosts: host a is the switch, with one cable to each other host; of two hosts one cable joins both."""
        others = [name for name in self.holders if name != "a"]
        switch = len(others) > 1
        for name in self.holders:
            self.ip(name, "link", "set", "lo", "up")
        if switch:
            self.ip("a", "link", "add", "up0", "type", "bridge")
        for name in others:
            end = f"to_{name}" if switch else "up0"
            self.ip("a", "link", "add", end, "type", "veth", "peer", "name", "up0", "netns",
                    str(self.holders[name].pid))
            if switch:
                self.ip("a", "link", "set", end, "master", "up0", "up")
        for number, name in enumerate(self.holders, 1):
            self.ip(name, "addr", "add", f"{NETWORK}.{number}/24", "dev", "up0")
            self.ip(name, "link", "set", "up0", "up")
        deadline = time.monotonic() + 10
        while any(" UP " not in self.ask(name) for name in self.holders):  # the kernel takes a moment
            if time.monotonic() > deadline:
                raise TimeoutError("the cables do not come up")
            time.sleep(0.02)

    def run(self, order, *command, then, **more):
        """Runs a command on host a, after calling `then` there."""
        def enter():
            permitted.enter_host(self.path("a"))
            then()

        return subprocess.run(command, env=self.env(order), check=False, preexec_fn=enter, **more)

    def ask(self, name):
        return subprocess.run(self.inside(name, "ip", "-brief", "link", "show", "up0"), capture_output=True,
                              text=True, check=True).stdout

    def env(self, order):
        return dict(os.environ, KIT_HOSTS=",".join(self.path(name) for name in order),
                    BP_STORE_HOST=f"{NETWORK}.1", UCX_TLS=os.environ.get("UCX_TLS", "tcp"),
                    UCX_NET_DEVICES="up0", UCX_LOG_LEVEL=os.environ.get("UCX_LOG_LEVEL", "fatal"))

    def left(self):
        """Lists processes that the program has left behind and that still live."""
        children = map(int, open(f"/proc/self/task/{os.getpid()}/children").read().split())
        holders = [holder.pid for holder in self.holders.values()]
        return [pid for pid in children if pid not in holders and not os.waitpid(pid, os.WNOHANG)[0]]

    def close(self):
        for holder in self.holders.values():
            holder.stdin.close()
            holder.wait()


def agent(address, *command):
    permitted.enter_host(os.environ["KIT_HOSTS"].split(",")[int(address.rpartition(".")[2]) - 1])
    permitted.show_network()
    os.execvp("sh", ["sh", "-c", " ".join(command)])


def alone(program, order):
    """Runs the program with its ranks on these hosts. Returns whether it succeeded."""
    ctypes.CDLL(None).prctl(SUBREAPER, 1)
    hosts = Hosts(sorted(set(order)))
    try:
        done = hosts.run(order, *SEE_LEFT, *program, then=permitted.own_memory, capture_output=True, text=True,
                         timeout=200)
        left = hosts.left()
        if left and not done.returncode:
            done = subprocess.CompletedProcess(program, -1, done.stdout, f"processes are left: {left}")
    except subprocess.TimeoutExpired as late:
        done = subprocess.CompletedProcess(program, -1, str(late.stdout), str(late))
    finally:
        hosts.close()
    skip = done.returncode == 0 and re.search("# SKIP .*", done.stdout or "")
    print(f"{'ok' if done.returncode == 0 else 'not ok'} 1 - ranks by turns on hosts {order}"
          f"{' ' + skip.group() if skip else ''}")
    for line in (done.stdout + done.stderr).splitlines():
        if done.returncode or line.startswith("# "):
            print("# " + line)
    return done.returncode == 0


def each(program, orders, at_once):
    """Runs each order in its own process, which notices processes that are left behind. Returns whether one failed."""
    def begin(order):
        return subprocess.Popen([sys.executable, __file__, *program, "--", order], stdout=subprocess.PIPE, text=True)

    children = [begin(order) for order in orders if at_once]
    failed = False
    for number, order in enumerate(orders, 1):
        child = children[number - 1] if at_once else begin(order)
        text = child.communicate()[0]
        if not re.match(r"(not )?ok 1 ", text):
            text = f"not ok 1 - ranks by turns on hosts {order}\n# {text}"
        failed = failed or bool(child.returncode) or text.startswith("not")
        print(re.sub("ok 1 ", f"ok {number} ", text, count=1).removesuffix("1..1\n"), end="")
    return failed


def main():
    if sys.argv[1] == "agent":
        agent(*sys.argv[2:])
    if "KIT_PERMITTED" not in os.environ:  # child processes of this one need not check again
        why, as_another = permitted.hosts()
        if why:
            print(f"1..0 # SKIP {why}")
            return 0
        if as_another:
            permitted.become_root({os.path.dirname(os.path.realpath(word)) for word in sys.argv if os.path.isfile(word)})
        os.environ["KIT_PERMITTED"] = ""
    if sys.argv[1] == "exec":
        hosts = Hosts("ab")
        try:
            return hosts.run("ab", *sys.argv[2:], then=permitted.show_network).returncode
        finally:
            hosts.close()
    at_once = "--at-once" in sys.argv
    cut = sys.argv.index("--at-once" if at_once else "--")
    program, orders = sys.argv[1:cut], sys.argv[cut + 1:]
    failed = not alone(program, orders[0]) if len(orders) == 1 else each(program, orders, at_once)
    print(f"1..{len(orders)}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
