#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the wheels of a build, unpacked into a folder like site-packages: they hold all that they need, are found and
trusted there, and another plugin comes as a wheel of its own. pip installs them in `./dev peers test python`."""
import ast
import base64
import csv
import glob
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile

import tap
from tap import raises, same

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "sdk", "bridges", "python"))
import wheel  # noqa: E402

TOP = tempfile.TemporaryDirectory()
PLUGIN = f"h_good={tap.HOSTILE}"
# y = |x|, for 4 f32, as ONNX encodes it
ABS = "08083a2c0a0b0a017812017922034162731201675a0f0a0178120a0a08080112040a02080462090a017912040a0208014202100d"


def build_wheels(folder):
    builder = os.path.join(ROOT, "sdk", "bridges", "python", "wheel.py")
    subprocess.run([sys.executable, builder, tap.BUILD, folder, PLUGIN], check=True, stdout=subprocess.DEVNULL)
    return sorted(glob.glob(os.path.join(folder, "*.whl")))


def unpack(name):
    """A folder with both wheels unpacked."""
    site, old = os.path.join(TOP.name, name), os.umask(0o022)
    os.makedirs(site)
    for path in WHEELS:
        with zipfile.ZipFile(path) as file:
            file.extractall(site)
    os.umask(old)
    return site


def in_site(site, code, **env):
    """The output of a process that sees the folder only: no variable, and no other package."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("BP_", "LD_", "PYTHON"))}
    head = f"import sys; sys.path.append({site!r}); import backplane as bp\n"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", head + code], capture_output=True, text=True,
                          env={**clean, **env}, timeout=60, cwd="/")
    assert not done.returncode, done.stdout + done.stderr
    return done.stdout.strip()


WHEELS = build_wheels(os.path.join(TOP.name, "wheels"))
SITE = unpack("site")


def test_records_are_complete():
    same(len(WHEELS), 2)
    for path in WHEELS:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            record = next(name for name in names if name.endswith("/RECORD"))
            rows = list(csv.reader(archive.read(record).decode().splitlines()))
            same(sorted(row[0] for row in rows), sorted(names))
            for name, digest, size in rows[:-1]:
                data = archive.read(name)
                want = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                same((name, digest, size), (name, f"sha256={want}", str(len(data))))
            about = archive.read(next(n for n in names if n.endswith("/WHEEL"))).decode()
            assert f"Tag: {re.search(r'-([^-]+-[^-]+-[^-]+).whl', path)[1]}" in about, about


def newest_glibc(library):
    text = subprocess.run(["readelf", "-V", library], capture_output=True, text=True, check=True).stdout
    return max((int(a), int(b)) for a, b in re.findall(r"Name: GLIBC_(\d+)\.(\d+)", text))


def test_the_tag_has_the_newest_version_that_a_library_needs():
    library = os.path.join(TOP.name, "libuser.so")
    subprocess.run(["cc", "-shared", "-fPIC", "-fno-builtin", "-x", "c", "-", "-o", library, "-lm"], check=True, text=True,
                   input="double hypot(double, double); int stat(), dlsym(); int f(void){ return hypot(1, 2) + stat() + dlsym(); }")
    same(wheel.glibc_of([library]), newest_glibc(library))
    assert newest_glibc(library) > newest_glibc(os.path.join(tap.HOSTILE, "bp_h_good.so"))


def licences(path):
    with zipfile.ZipFile(path) as archive:
        return sorted(name.partition(".dist-info/licenses/")[2] for name in archive.namelist() if "/licenses/" in name)


def test_wheels_have_licences():
    """The package has also those of the libraries of the machine that it brings."""
    names = {re.match(r"[a-z]+", name)[0] for name in licences(WHEELS[0]) if name != "LICENSE"}
    same(names, {"libltdl", "libcjson", "libprotobuf", "libgomp"})
    same(licences(WHEELS[1]), ["LICENSE"])


def test_equal_builds_make_equal_wheels():
    for one, two in zip(WHEELS, build_wheels(os.path.join(TOP.name, "again"))):
        with open(one, "rb") as a, open(two, "rb") as b:
            assert a.read() == b.read(), one


def test_the_package_brings_its_libraries():
    text = in_site(SITE, f"""
x = bp.asarray([1.0, -2.0])
print(bp.ops.relu(x).tolist(), bp.Model(bytes.fromhex({ABS!r})).run(None, [[-1.0] * 4])[0].tolist())
print([line.split()[-1] for line in open("/proc/self/maps") if ".so" in line])
""")
    head, _, maps = text.partition("\n")
    same(head, "[1.0, 0.0] [1.0, 1.0, 1.0, 1.0]")
    for name in ("libbackplane.so", "libbackplane-onnx.so", "bp_cpu.so", "libltdl.so", "libcjson.so",
                 "libprotobuf-c.so", "libgomp.so"):
        used = {path for path in re.findall(r"'([^']+)'", maps) if f"/{name}" in path}
        same((name, len(used)), (name, 1))
        assert next(iter(used)).startswith(SITE), used


def test_a_python_that_cannot_load_the_extension_says_why():
    folder = os.path.join(TOP.name, "alone")
    os.makedirs(os.path.join(folder, "backplane"))
    with open(os.path.join(SITE, "backplane", "__init__.py"), encoding="utf-8") as source, \
            open(os.path.join(folder, "backplane", "__init__.py"), "w", encoding="utf-8") as target:
        target.write(source.read())
    for is_free, text in ((0, "the extension of backplane cannot be loaded"), (1, "backplane needs a Python with the global interpreter lock")):
        code = f"import sys, sysconfig; sys.path.append({folder!r}); sysconfig.get_config_vars()['Py_GIL_DISABLED'] = {is_free}; import backplane"
        done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode and f"ImportError: {text}" in done.stderr, done.stderr


def test_a_plugin_comes_as_a_wheel():
    same(in_site(SITE, """
print([p["name"] for p in bp.plugins() if p["state"] == "ready"], bp.Device("h_good").name)
"""), "['h_good', 'cpu'] h_good:0")


def test_each_plugin_of_the_build_has_a_wheel():
    """Without its hardware a plugin is absent, which it says itself, once it was found, trusted and loaded."""
    stage, site = installed("plugins"), unpack("plugins_site")
    folders = {name: glob.glob(f"{stage}/**/bp_{name}.so", recursive=True) for name in ("cuda", "hip", "xpu")}
    built = {name: os.path.dirname(found[0]) for name, found in folders.items() if found}
    for name, folder in built.items():
        with zipfile.ZipFile(wheel.plugin(name, folder, TOP.name, wheel.version_of(tap.BUILD))) as file:
            file.extractall(site)
    text = in_site(site, "print({p['name']: [p['state'], p['reason'], p['library']] for p in bp.plugins()})")
    found = ast.literal_eval(text)
    for name in built:
        state, reason, library = found[name]
        assert state in ("absent", "ready") and library == f"{site}/backplane_plugins/{name}/bp_{name}.so", found[name]
        assert reason or state == "ready", found[name]


def test_links_of_the_environment_are_followed():
    link = os.path.join(TOP.name, "link")
    os.symlink(SITE, link)
    same(in_site(link, "print(bp.Device('h_good').name, bp.Device('cpu').name)"), "h_good:0 cpu:0")


def installed(name):
    stage = os.path.join(TOP.name, name)
    subprocess.run(["meson", "install", "-C", tap.BUILD, "--no-rebuild", "--destdir", stage], check=True,
                   stdout=subprocess.DEVNULL)
    return stage


def test_a_library_whose_hash_is_stated_stays_as_it_is():
    stage = installed("hashed")
    for hashed in (False, True):
        library, manifest = (glob.glob(f"{stage}/**/bp_cpu.{end}", recursive=True)[0] for end in ("so", "json"))
        with open(library, "rb") as file:
            data = file.read()
        if hashed:
            with open(manifest, encoding="utf-8") as file:
                facts = json.load(file)
            with open(manifest, "w", encoding="utf-8") as file:
                json.dump({**facts, "sha256": hashlib.sha256(data).hexdigest()}, file)
        path = wheel.package(tap.BUILD, stage, tempfile.mkdtemp(dir=TOP.name), "0.1.0")
        with zipfile.ZipFile(path) as file:
            same(file.read("backplane/_lib/backplane/bp_cpu.so") == data, hashed)


def test_a_library_that_the_machine_lacks_is_named():
    with tempfile.TemporaryDirectory() as folder:
        for name, more in (("absent", ()), ("user", ("-Wl,--no-as-needed", f"-L{folder}", "-labsent"))):
            library = os.path.join(folder, f"lib{name}.so")
            subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", os.devnull, "-o", library, "-x", "none", *more],
                           check=True)
        os.remove(os.path.join(folder, "libabsent.so"))
        error = raises(SystemExit, wheel.needed, os.path.join(folder, "libuser.so"))
        assert "needs libabsent.so, which this machine does not have" in str(error), error


def test_an_installation_has_the_package():
    stage = installed("root")
    folder, = glob.glob(f"{stage}/**/backplane-python", recursive=True)
    moved = os.path.join(TOP.name, "moved")
    os.rename(os.path.dirname(folder), moved)  # the folder of libraries
    same(in_site(os.path.join(moved, "backplane-python"), f"""
model = bp.Model(bytes.fromhex({ABS!r}))
print(bp.ops.relu(bp.asarray([1.0, -2.0])).tolist(), model.run(None, [[-1.0] * 4])[0].tolist())
print({{line.split()[-1] for line in open("/proc/self/maps") if "libbackplane.so" in line}})
"""), f"[1.0, 0.0] [1.0, 1.0, 1.0, 1.0]\n{{'{os.path.realpath(moved)}/libbackplane.so.0.1.0'}}")


def test_a_plugin_that_others_can_change_is_refused():
    site = unpack("open")
    folder = os.path.join(site, "backplane_plugins", "h_good")
    os.chmod(folder, 0o777)
    text = in_site(site, """
try:
    bp.Device("h_good")
except bp.NotFoundError as error:
    print("1 plugins were refused" in str(error))
print([p["reason"] for p in bp.plugins() if p["name"] == "h_good"])
print(bp.Device("cpu").name)
""", BP_LOG="error")
    assert f"{folder} can be changed by other users" in text and "run: chmod go-w" in text, text
    assert text.startswith("True") and text.endswith("cpu:0"), text


def test_a_broken_plugin_package_is_a_warning():
    site = unpack("broken")
    os.remove(os.path.join(site, "backplane_plugins", "h_good", "__init__.py"))
    with open(os.path.join(site, "backplane_plugins", "h_good", "__init__.py"), "w", encoding="utf-8") as file:
        file.write("raise RuntimeError('not today')\n")
    text = in_site(site, """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    bp.Device("cpu")
print(caught[0].message)
""")
    assert "backplane_plugins.h_good of the entry point h_good cannot be used: not today" in text, text


def test_the_provider_has_a_wheel():
    """It has licences, and no symbols that only a debugger reads; its tag has the newest version that a library needs."""
    stage, folder = installed("provider"), os.path.join(TOP.name, "provider_wheel")
    if not glob.glob(f"{stage}/**/libonnxruntime_ep_backplane.so", recursive=True):
        raise tap.Skip("the build has no ONNX models")
    builder = os.path.join(ROOT, "sdk", "bridges", "onnxruntime", "package", "wheel.py")
    done = subprocess.run([sys.executable, builder, stage, folder], check=True, capture_output=True, text=True)
    path = done.stdout.strip()
    same(licences(path), licences(WHEELS[0]))
    with zipfile.ZipFile(path) as archive:
        archive.extractall(folder)
    libraries = glob.glob(f"{folder}/onnxruntime_ep_backplane/lib/**/*.so*", recursive=True)
    same(len(libraries), 8)
    for library in libraries:
        text = subprocess.run(["readelf", "-SW", library], check=True, capture_output=True, text=True).stdout
        assert ".dynsym" in text and ".symtab" not in text and ".debug_info" not in text, library
    assert "manylinux_{}_{}_".format(*max(map(newest_glibc, libraries))) in path, path


def in_provider_site(site, **env):
    """BP_PLUGIN_PATH after two calls of the package of the provider for ONNX Runtime, and the warnings."""
    folder = os.path.join(ROOT, "sdk", "bridges", "onnxruntime", "package")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("BP_", "LD_", "PYTHON"))}
    code = f"""
import sys, os, warnings
sys.path += [{site!r}, {folder!r}]
import onnxruntime_ep_backplane as ours
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    library = ours.get_library_path()
    assert library == ours.get_library_path() and library.endswith("/libonnxruntime_ep_backplane.so"), library
print(os.environ.get("BP_PLUGIN_PATH"), *[warning.message for warning in caught], sep="|")
"""
    done = subprocess.run([sys.executable, "-I", "-S", "-B", "-c", code], capture_output=True, text=True, timeout=60, cwd="/",
                          env={**clean, **env})
    assert not done.returncode, done.stdout + done.stderr
    return done.stdout.strip()


def test_the_provider_finds_plugins_that_are_wheels():
    plugin = os.path.join(os.path.realpath(SITE), "backplane_plugins", "h_good")
    same(in_provider_site(SITE), plugin)
    same(in_provider_site(SITE, BP_PLUGIN_PATH="/other"), f"/other:{plugin}")
    link = os.path.join(TOP.name, "provider_link")
    os.symlink(SITE, link)
    same(in_provider_site(link), plugin)
    same(in_provider_site(os.path.join(TOP.name, "wheels")), "None")


def test_the_provider_warns_of_a_broken_plugin_package():
    site = unpack("provider_broken")
    with open(os.path.join(site, "backplane_plugins", "h_good", "__init__.py"), "w", encoding="utf-8") as file:
        file.write("raise RuntimeError('not today')\n")
    text = in_provider_site(site, BP_PLUGIN_PATH="/other")
    assert text.startswith("/other|"), text
    assert "backplane_plugins.h_good of the entry point h_good cannot be used: not today" in text, text


if __name__ == "__main__":
    sys.exit(tap.main(globals()))
