#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the public surface of a build, so that two builds can be compared: a change that only moves or renames code
leaves it unchanged.

    snapshot.py take BUILD FOLDER     cases-DEVICE.txt: ids of the conformance cases of each device that opens here;
                                      symbols-LIBRARY.txt: exported symbols; rows-PLUGIN.txt: kernel rows
    snapshot.py compare BEFORE AFTER  prints each line that is in one folder only; exit status 1 if there is one
"""
import ctypes
import glob
import os
import subprocess
import sys

LISTING_S = 600
NO_DEVICE = 3  # exit status of bp
# OpenCL's devices that are processors count too, as in tests/run.py.
ENVIRONMENT = {"BP_XPU_DEVICES": "*", "POCL_DEVICES": "pthread", **os.environ}


class Kernel(ctypes.Structure):
    """struct bp_kernel of kernel.h."""
    _fields_ = [("op", ctypes.c_char_p), ("name", ctypes.c_char_p), ("types", ctypes.c_uint64 * 4),
                ("flags", ctypes.c_uint32), ("priority", ctypes.c_int32), ("attrs_size", ctypes.c_uint32),
                ("in_known", ctypes.c_uint16), ("out_known", ctypes.c_uint16), ("launch", ctypes.c_void_p),
                ("accepts", ctypes.c_void_p), ("prepare", ctypes.c_void_p), ("plan_destroy", ctypes.c_void_p)]

    def text(self):
        types = " ".join(f"{mask:x}" for mask in self.types)
        has = " ".join(word for word in ("accepts", "prepare", "plan_destroy") if getattr(self, word))
        return (f"{self.op.decode()} {self.name.decode()} types {types} flags {self.flags:x} priority {self.priority} "
                f"attrs {self.attrs_size} ports {self.in_known} {self.out_known} {has}").rstrip()


class Kernels(ctypes.Structure):
    """struct bp_kernels of kernel.h."""
    _fields_ = [("size", ctypes.c_size_t), ("first", ctypes.c_void_p), ("count", ctypes.c_size_t), ("stride", ctypes.c_size_t)]


class Plugin(ctypes.Structure):
    """struct bp_plugin of plugin.h, up to its kernels."""
    _fields_ = [("size", ctypes.c_size_t), ("numbers", ctypes.c_uint32 * 4), ("name", ctypes.c_char_p),
                ("version", ctypes.c_char_p), ("kind", ctypes.c_char_p), ("create", ctypes.c_void_p),
                ("destroy", ctypes.c_void_p), ("runtime", ctypes.c_void_p), ("kernels", ctypes.POINTER(Kernels))]


def plugins(build):
    """name -> path of each plugin that was built, those of tests left out."""
    found = {}
    for path in sorted(glob.glob(os.path.join(build, "plugins", "*", "bp_*.so"))):
        name = os.path.basename(path)[len("bp_"):-len(".so")]
        if os.path.exists(path[:-len(".so")] + ".json"):
            found[name] = path
    assert found, f"{build}: no plugins, has it been built?"
    return found


def rows(path):
    """The kernel rows of a plugin, in their order: bp_plugin_get returns constant data."""
    get = ctypes.CDLL(os.path.abspath(path)).bp_plugin_get
    get.restype = ctypes.POINTER(Plugin)
    kernels = get().contents.kernels.contents
    return [Kernel.from_address(kernels.first + i * kernels.stride).text() for i in range(kernels.count)]


def symbols(path):
    out = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True).stdout
    return sorted(line.split(maxsplit=1)[1] for line in out.splitlines())


def cases(build, path):
    """Ids of all cases of a plugin's devices, in their order; None where it has no device here."""
    bp = os.path.join(build, "sdk", "tools", "bp")
    done = subprocess.run([bp, "conform", path, "--list"], capture_output=True, text=True, timeout=LISTING_S,
                          env=ENVIRONMENT)
    if done.returncode == NO_DEVICE:
        return None
    assert done.returncode == 0, f"bp conform {path} --list: {done.stderr}"
    return done.stdout.splitlines()


def write(folder, name, lines):
    assert lines, f"{name}: nothing was found"
    with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
        f.writelines(line + "\n" for line in lines)
    print(f"{name}: {len(lines)}")


def take(build, folder):
    os.makedirs(folder, exist_ok=True)
    for old in glob.glob(os.path.join(folder, "*.txt")):
        os.remove(old)
    write(folder, "symbols-libbackplane.txt", symbols(os.path.join(build, "core", "libbackplane.so")))
    for name, path in plugins(build).items():
        write(folder, f"symbols-bp_{name}.txt", symbols(path))
        write(folder, f"rows-{name}.txt", rows(path))
        ids = cases(build, path)
        if ids is None:
            print(f"cases-{name}.txt: left out, no device of it here")
        else:
            write(folder, f"cases-{name}.txt", ids)
    return 0


def lines_of(folder):
    found = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.txt"))):
        with open(path, encoding="utf-8") as f:
            found[os.path.basename(path)] = f.read().splitlines()
    assert found, f"{folder}: no snapshot"
    return found


def compare(before, after):
    old, new = lines_of(before), lines_of(after)
    differences = 0
    for name in sorted(old.keys() | new.keys()):
        if name not in old or name not in new:
            print(f"{name}: only in {before if name in old else after}")
            differences += 1
            continue
        gone, come = set(old[name]) - set(new[name]), set(new[name]) - set(old[name])
        for mark, lines, order in (("-", gone, old[name]), ("+", come, new[name])):
            for line in order:
                if line in lines:
                    print(f"{name}: {mark}{line}")
        moved = not gone and not come and old[name] != new[name]
        differences += len(gone) + len(come) + moved
        print(f"{name}: {len(old[name])} lines, {len(gone)} gone, {len(come)} new{', in another order' if moved else ''}")
    return 1 if differences else 0


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in ("take", "compare"):
        sys.exit(__doc__)
    sys.exit({"take": take, "compare": compare}[sys.argv[1]](*sys.argv[2:]))
