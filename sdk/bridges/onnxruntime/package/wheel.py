#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the package onnxruntime-ep-backplane, a wheel, from an installed Backplane.

    wheel.py PREFIX OUT [PLUGIN...]      PLUGIN: as cpu, which is the default

The wheel has the execution provider, the libraries of Backplane, the named plugins, and copies of the libraries of the system
that these need, except those of every system. Writes OUT/onnxruntime_ep_backplane-VERSION-py3-none-manylinux_X_Y_MACHINE.whl,
where X.Y is the version of the C library that the files need.
"""
import base64
import glob
import hashlib
import os
import platform
import re
import subprocess
import sys
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
NAME = "onnxruntime_ep_backplane"
PROVIDER = "libonnxruntime_ep_backplane.so"
LIBRARIES = ("libbackplane.so.0", "libbackplane-onnx.so.0", PROVIDER)
OF_EVERY_SYSTEM = re.compile(r"ld-linux|linux-vdso|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+)\.so")
METADATA = """\
Metadata-Version: 2.1
Name: onnxruntime-ep-backplane
Version: {version}
Summary: Backplane's devices in ONNX Runtime: an execution provider
License: Apache-2.0
Requires-Python: >=3.9
"""
WHEEL = "Wheel-Version: 1.0\nGenerator: wheel.py\nRoot-Is-Purelib: false\nTag: {tag}\n"


def library_folder(prefix):
    found = glob.glob(os.path.join(prefix, "**", PROVIDER), recursive=True)
    if not found:
        sys.exit(f"{prefix}: there is no {PROVIDER}; install Backplane with ONNX models there")
    return os.path.dirname(found[0])


def version_of(libraries):
    """The version, from the full name of the library."""
    real = os.path.basename(os.path.realpath(os.path.join(libraries, LIBRARIES[0])))
    return real.partition(".so.")[2]


def needed_by(paths, libraries):
    """{soname: path} of the libraries of the system that some files need."""
    found = {}
    for path in paths:
        lines = subprocess.run(["ldd", path], capture_output=True, text=True, check=True,
                               env={**os.environ, "LD_LIBRARY_PATH": libraries}).stdout
        for soname, place in re.findall(r"(\S+) => (/\S+)", lines):
            if not OF_EVERY_SYSTEM.match(soname) and not soname.startswith("libbackplane"):
                found[soname] = place
    return found


def files_of(prefix, plugins):
    """{name in the wheel: path}, and the version."""
    libraries = library_folder(prefix)
    files = {f"{NAME}/__init__.py": os.path.join(HERE, NAME, "__init__.py")}
    files.update({f"{NAME}/lib/{name}": os.path.join(libraries, name) for name in LIBRARIES})
    for plugin in plugins:
        for end in ("so", "json"):
            files[f"{NAME}/lib/backplane/bp_{plugin}.{end}"] = os.path.join(libraries, "backplane", f"bp_{plugin}.{end}")
    binary = [path for name, path in files.items() if ".so" in name]
    files.update({f"{NAME}/lib/needed/{soname}": path for soname, path in needed_by(binary, libraries).items()})
    return files, version_of(libraries)


def tag_of(files):
    """The tag of the platform: pip refuses the wheel where the C library is older than what the files need."""
    needed = set()
    for name, path in files.items():
        if ".so" in name:
            with open(path, "rb") as file:
                needed.update((int(x), int(y)) for x, y in re.findall(rb"\0GLIBC_(\d+)\.(\d+)(?:\.\d+)?\0", file.read()))
    return "py3-none-manylinux_{}_{}_{}".format(*max(needed), platform.machine())


def write_wheel(files, version, out):
    tag = tag_of(files)
    path = os.path.join(out, f"{NAME}-{version}-{tag}.whl")
    info, record = f"{NAME}-{version}.dist-info", []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        def add(name, data, mode=0o644):
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(data)}\n")
            entry = zipfile.ZipInfo(name)
            entry.external_attr, entry.compress_type = (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
        for name, source in files.items():
            with open(source, "rb") as file:
                add(name, file.read(), 0o755 if ".so" in name else 0o644)
        add(f"{info}/METADATA", METADATA.format(version=version).encode())
        add(f"{info}/WHEEL", WHEEL.format(tag=tag).encode())
        record.append(f"{info}/RECORD,,\n")
        wheel.writestr(f"{info}/RECORD", "".join(record))
    return path


def main(prefix, out, *plugins):
    os.makedirs(out, exist_ok=True)
    files, version = files_of(os.path.abspath(prefix), plugins or ("cpu",))
    print(write_wheel(files, version, out))


if __name__ == "__main__":
    main(*sys.argv[1:])
