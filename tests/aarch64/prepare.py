#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the folder of libraries and the machine file of a cross build for aarch64, on Debian.

    prepare.py DIR      writes DIR/cross.ini and DIR/sysroot, unless they are there

The sysroot has the libraries that libbackplane needs, from Debian's packages for arm64. They are downloaded with apt's own
client, with lists in a folder of their own, and unpacked without being installed: the system stays one of a single
architecture.
"""
import glob
import os
import shutil
import subprocess
import sys
import tempfile

PACKAGES = ["libcjson1", "libcjson-dev", "libltdl7", "libltdl-dev"]
TRIPLE = "aarch64-linux-gnu"
ROOT_OF_COMPILER = f"/usr/{TRIPLE}"  # the C library of Debian's cross compiler
CROSS = """# Written by tests/aarch64/prepare.py.
[binaries]
c = ['ccache', '{triple}-gcc']
cpp = '{triple}-g++'
ar = '{triple}-ar'
strip = '{triple}-strip'
pkgconfig = 'pkg-config' # the name before meson 1.3
exe_wrapper = ['qemu-aarch64-static', '-L', '{compiler}', '-E', 'LD_LIBRARY_PATH={sysroot}/usr/lib/{triple}']

[built-in options]
c_args = ['-isystem', '{sysroot}/usr/include']
c_link_args = ['-L{sysroot}/usr/lib/{triple}']

[properties]
sys_root = '{sysroot}'
pkg_config_libdir = '{sysroot}/usr/lib/{triple}/pkgconfig'

[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
"""


def apt(folder, *words):
    """Runs apt-get for arm64, as if nothing was installed, with all its state in a folder."""
    for name in ("state/lists/partial", "cache/archives/partial"):
        os.makedirs(os.path.join(folder, name), exist_ok=True)
    with open(os.path.join(folder, "status"), "w", encoding="utf-8"):
        pass
    settings = {"APT::Architecture": "arm64", "APT::Architectures": "arm64", "APT::Sandbox::User": "", "Dir::State": f"{folder}/state",
                "Dir::Cache": f"{folder}/cache", "Dir::State::status": f"{folder}/status"}
    done = subprocess.run(["apt-get", "-q", *(f"-o{name}={value}" for name, value in settings.items()), *words], cwd=folder, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        sys.exit(f"prepare: apt-get {words[0]} for arm64 failed:\n{done.stdout}")


def make_sysroot(sysroot):
    """Unpacks the packages into a folder beside it, which then takes its name: it is whole or not there."""
    made = sysroot + ".new"
    shutil.rmtree(made, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        apt(folder, "update")
        apt(folder, "download", *PACKAGES)
        for package in sorted(glob.glob(os.path.join(folder, "*.deb"))):
            subprocess.run(["dpkg-deb", "-x", package, made], check=True)
    os.rename(made, sysroot)


def main(directory):
    directory = os.path.abspath(directory)
    sysroot, path = os.path.join(directory, "sysroot"), os.path.join(directory, "cross.ini")
    os.makedirs(directory, exist_ok=True)
    if not os.path.isdir(sysroot):
        if not shutil.which("apt-get"):
            sys.exit("prepare: the libraries for aarch64 come from Debian's packages, and there is no apt-get")
        make_sysroot(sysroot)
    text = CROSS.format(triple=TRIPLE, sysroot=sysroot, compiler=ROOT_OF_COMPILER)
    if not shutil.which("ccache"):
        text = text.replace("'ccache', ", "")
    if not os.path.exists(path) or open(path, encoding="utf-8").read() != text:
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
