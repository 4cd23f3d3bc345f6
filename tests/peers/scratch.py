# SPDX-License-Identifier: Apache-2.0
"""Reads the pins of peers.txt and makes an environment of each peer's packages, outside the repository.

An environment is the folder BUILD-peers/PEER. Its file `pins` is written last: an environment without it, or with other
pins, is made again.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SHARED = re.compile(r"(?P<peer>[\w.-]+) in (?P<other>[\w.-]+): \S.*")
LINE = re.compile(r"(?P<peer>[\w.-]+(?:@[\w.-]+)?) (?P<pin>[\w.-]+==[\w.]+) (?P<mb>\d+(?:\.\d+)?): (?P<purpose>\S.*)")
LARGE_MB = 1000  # only `test --all` runs a peer whose download is larger
REGISTRY = "registry"
INSTALL_SECONDS, TRY_SECONDS = 600, 90


class PinError(Exception):
    """A line of peers.txt that breaks its rules."""


def parse_pins(text):
    """{peer: {package: (version, megabytes)}} in the order of the file, other versions completed by their peer's pins.
    A peer that runs in another's environment has the same pins, the same object."""
    pins = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        shared = SHARED.fullmatch(line.strip())
        if shared:
            if shared["other"] not in pins:
                raise PinError(f"tests/peers/peers.txt:{number}: {shared['peer']} comes before {shared['other']}")
            pins[shared["peer"]] = pins[shared["other"]]
            continue
        match = LINE.fullmatch(line.strip())
        if not match:
            raise PinError(f"tests/peers/peers.txt:{number}: '{line}'; expected `PEER PACKAGE==VERSION MEGABYTES: purpose` or "
                           "`PEER in OTHER: purpose`")
        package, _, version = match["pin"].partition("==")
        base = match["peer"].partition("@")[0]
        if match["peer"] not in pins:
            if base != match["peer"] and base not in pins:
                raise PinError(f"tests/peers/peers.txt:{number}: {match['peer']} comes before {base}")
            pins[match["peer"]] = dict(pins.get(base, {}))
        pins[match["peer"]][package] = (version, float(match["mb"]))
    if REGISTRY not in pins:
        raise PinError(f"tests/peers/peers.txt: there is no package of the peer {REGISTRY}")
    return pins


def read_pins():
    with open(os.path.join(HERE, "peers.txt"), encoding="utf-8") as file:
        return parse_pins(file.read())


def names_of(pins, everything):
    """The peers of `test`, or of `test --all`."""
    return [name for name, packages in pins.items() if name != REGISTRY
            and (everything or ("@" not in name and sum(mb for _, mb in packages.values()) <= LARGE_MB))]


class Scratch:
    """The environments of a build."""

    def __init__(self, build, pins):
        self.root, self.pins = f"{build}-peers", pins

    def folder(self, name):
        """A peer in another's environment has its folder."""
        owner = next((other for other, pins in self.pins.items() if pins is self.pins.get(name)), name)
        return os.path.join(self.root, owner)

    def python(self, name):
        return os.path.join(self.folder(name), "bin", "python")

    def packages(self, name):
        return [f"{package}=={version}" for package, (version, _) in self.pins[name].items()]

    def make_installer(self):
        """An environment with pip, which installs into the others. Returns an error or None."""
        if os.path.exists(os.path.join(self.folder("pip"), "bin", "pip")):
            return None
        shutil.rmtree(self.folder("pip"), ignore_errors=True)
        return self.call([sys.executable, "-m", "venv", self.folder("pip")], INSTALL_SECONDS)

    def try_registry(self):
        """Why the registry cannot be reached, or None. The copy that an earlier run kept is not taken."""
        with tempfile.TemporaryDirectory() as folder:
            return self.call([self.python("pip"), "-m", "pip", "--retries", "1", "--timeout", "20", "download", "-q",
                              "--no-deps", "--no-cache-dir", "--only-binary=:all:", "-d", folder,
                              *self.packages(REGISTRY)], TRY_SECONDS)

    def is_installed(self, name):
        path = os.path.join(self.folder(name), "pins")
        if not os.path.exists(path):
            return False
        with open(path, encoding="utf-8") as file:
            return file.read().split() == self.packages(name)

    def install(self, name):
        """Makes the environment of a peer, at the second try if a transfer broke off. Returns an error or None."""
        return self.make_environment(name) and self.make_environment(name)

    def make_environment(self, name):
        folder = self.folder(name)
        shutil.rmtree(folder, ignore_errors=True)
        error = (self.call([sys.executable, "-m", "venv", "--without-pip", folder], INSTALL_SECONDS)
                 or self.call([self.python("pip"), "-m", "pip", "--python", self.python(name), "install", "-q",
                               "--no-deps", "--only-binary=:all:", *self.packages(name)], INSTALL_SECONDS))
        if not error:
            with open(os.path.join(folder, "pins"), "w", encoding="utf-8") as file:
                file.write("\n".join(self.packages(name)) + "\n")
        return error

    def call(self, command, seconds):
        """Runs a command. Returns its output if it fails, else None."""
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, errors="replace", timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            return f"{' '.join(command)}: no end after {seconds} s"
        return f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}" if done.returncode else None
