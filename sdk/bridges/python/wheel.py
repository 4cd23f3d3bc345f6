#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes wheels of a build: the package backplane with the cpu plugin, and a wheel for each other plugin.

    wheel.py BUILD OUTPUT [PLUGIN...]     PLUGIN: cuda, hip, xpu; or NAME=FOLDER of bp_NAME.so and bp_NAME.json

The files are those that `meson install` installs. Libraries of the machine that are no part of every Linux
(libltdl, libcjson, libprotobuf-c, libgomp) come with the package, with their copyright notices. The wheels of plugins
have an entry point of the group backplane.plugins, where the package looks for folders of plugins.
"""
import base64
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

SUMMARY = "A device runtime: operators, graphs and ONNX models on devices that come as plugins"
ALWAYS = re.compile(r"(libc|libm|libdl|libpthread|librt|libstdc\+\+|libgcc_s|ld-linux[\w-]*)\.so\.")
BUNDLED = re.compile(r"(libltdl|libcjson|libprotobuf-c|libgomp)\.so\.")
DATE = (1980, 1, 1, 0, 0, 0)  # of all files: equal inputs make equal wheels


def output_of(*command, **kw):
    return subprocess.run(command, capture_output=True, text=True, check=True, **kw).stdout


def version_of(build):
    with open(os.path.join(build, "meson-info", "intro-projectinfo.json"), encoding="utf-8") as file:
        return json.load(file)["version"]


class Wheel:
    """A wheel file that is being written."""

    def __init__(self, folder, name, version, tag, requires=(), summary=SUMMARY, python=">=3.11"):
        self.name, self.version, self.tag, self.records = name, version, tag, []
        self.summary, self.python = summary, python
        self.info = f"{name.replace('-', '_')}-{version}.dist-info"
        self.path = os.path.join(folder, f"{name.replace('-', '_')}-{version}-{tag}.whl")
        self.zip = zipfile.ZipFile(self.path, "w", zipfile.ZIP_DEFLATED)
        self.requires = requires

    def add(self, name, data, mode=0o644):
        info = zipfile.ZipInfo(name, DATE)
        info.external_attr, info.compress_type = (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED
        self.zip.writestr(info, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.records.append(f"{name},sha256={digest},{len(data)}\n")

    def add_file(self, name, path, strip=False):
        with tempfile.TemporaryDirectory() as folder:
            if strip:
                stripped = os.path.join(folder, "library")
                subprocess.run(["strip", "--strip-unneeded", "-o", stripped, path], check=True)
                path = stripped
            with open(path, "rb") as file:
                self.add(name, file.read(), 0o755 if strip else 0o644)

    def finish(self, entry_points="", licences=()):
        requires = "".join(f"Requires-Dist: {r}\n" for r in self.requires)
        self.add(f"{self.info}/METADATA",
                 (f"Metadata-Version: 2.1\nName: {self.name}\nVersion: {self.version}\nSummary: {self.summary}\n"
                  f"License: Apache-2.0\nRequires-Python: {self.python}\n{requires}").encode())
        self.add(f"{self.info}/WHEEL", (f"Wheel-Version: 1.0\nGenerator: backplane\nRoot-Is-Purelib: false\n"
                                        f"Tag: {self.tag}\n").encode())
        if entry_points:
            self.add(f"{self.info}/entry_points.txt", entry_points.encode())
        for name, path in licences:
            self.add_file(f"{self.info}/licenses/{name}", path)
        record = f"{self.info}/RECORD"
        self.zip.writestr(zipfile.ZipInfo(record, DATE), "".join(self.records) + f"{record},,\n")
        self.zip.close()
        return self.path


def needed(library):
    """{soname: path} of the libraries that a library needs, itself and through others."""
    text = output_of("ldd", library)
    absent = [name for name in re.findall(r"(\S+) => not found", text) if not name.startswith("libbackplane")]
    if absent:
        sys.exit(f"{library} needs {', '.join(absent)}, which this machine does not have")
    return dict(re.findall(r"(\S+) => (/\S+)", text))


def libraries_of_system(paths):
    """{soname: path} of the libraries that come with a package: those that some files need and not every Linux has."""
    found = {}
    for path in paths:
        for name, where in needed(path).items():
            if BUNDLED.match(name):
                found[name] = where
            elif not (ALWAYS.match(name) or name.startswith("libbackplane")):
                sys.exit(f"{path} needs {name}, which this script knows nothing of")
    return found


def may_strip(manifest):
    """A manifest may state the hash of the library, which then must not change."""
    with open(manifest, encoding="utf-8") as file:
        return "sha256" not in json.load(file)


def glibc_of(libraries):
    """The newest version of glibc that the libraries need."""
    found = [(0, 0)]
    for library in libraries:
        found += [(int(a), int(b)) for a, b in re.findall(r"GLIBC_(\d+)\.(\d+)", output_of("objdump", "-T", library))]
    return max(found)


def tag_of(libraries, python):
    machine = os.uname().machine
    return f"{python}-manylinux_{'_'.join(map(str, glibc_of(libraries)))}_{machine}"


def notice_of(path):
    """The copyright notice of the Debian package that a library comes from."""
    if not shutil.which("dpkg"):
        return None
    real = os.path.realpath(path)
    for name in {path, real, real.removeprefix("/usr"), path.removeprefix("/usr")}:
        done = subprocess.run(["dpkg", "-S", name], capture_output=True, text=True, check=False)
        if not done.returncode:
            return f"/usr/share/doc/{done.stdout.partition(':')[0]}/copyright"
    return None


def notices(libraries):
    """[(name, path)] of our licence and of the notices of {soname: path}."""
    found = [("LICENSE", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "LICENSE"))]
    for name, path in sorted(libraries.items()):
        notice = notice_of(path)
        if not notice or not os.path.exists(notice):
            sys.exit(f"{path}: its copyright notice is not found: it cannot be part of the package")
        found.append((f"{name}.txt", notice))
    return found


def package(build, stage, output, version):
    """The wheel of the package, with the libraries and the cpu plugin."""
    found = {name: os.path.join(folder, name) for folder, _, names in os.walk(stage) for name in names}
    core, onnx = (next((p for n, p in found.items() if re.fullmatch(rf"{lib}\.so\.\d+\.\d+\.\d+", n)), None)
                  for lib in ("libbackplane", "libbackplane-onnx"))
    folder = os.path.dirname(found["_backplane.abi3.so"])
    ours = {"libbackplane.so.0": core, "libbackplane-onnx.so.0": onnx, "backplane/bp_cpu.so": found.get("bp_cpu.so")}
    ours = {name: path for name, path in ours.items() if path}
    other = libraries_of_system(ours.values())
    libraries = [*ours.values(), *other.values(), found["_backplane.abi3.so"]]
    wheel = Wheel(output, "backplane", version, tag_of(libraries, "cp311-abi3"))
    for name in sorted(os.listdir(folder)):
        wheel.add_file(f"backplane/{name}", os.path.join(folder, name), name.endswith(".so"))
    strips = "bp_cpu.json" not in found or may_strip(found["bp_cpu.json"])
    for name, path in sorted({**ours, **other}.items()):
        wheel.add_file(f"backplane/_lib/{name}", path, strips or path != found["bp_cpu.so"])
    if "bp_cpu.json" in found:
        wheel.add_file("backplane/_lib/backplane/bp_cpu.json", found["bp_cpu.json"])
    return wheel.finish(licences=notices(other))


def plugin(name, folder, output, version):
    """The wheel of one plugin: a folder of the namespace package backplane_plugins, and its entry point."""
    library, manifest = (os.path.join(folder, f"bp_{name}.{end}") for end in ("so", "json"))
    for path in (library, manifest):
        if not os.path.exists(path):
            sys.exit(f"{path}: there is no such file: the plugin {name} is not built")
    wheel = Wheel(output, f"backplane-{name}", version, tag_of([library], "py3-none"), [f"backplane=={version}"])
    wheel.add_file(f"backplane_plugins/{name}/bp_{name}.so", library, may_strip(manifest))
    wheel.add_file(f"backplane_plugins/{name}/bp_{name}.json", manifest)
    wheel.add(f"backplane_plugins/{name}/__init__.py", b"# SPDX-License-Identifier: Apache-2.0\n")
    return wheel.finish(f"[backplane.plugins]\n{name} = backplane_plugins.{name}\n", notices({}))


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    build, output, names = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3:]
    version = version_of(build)
    os.makedirs(output, exist_ok=True)
    with tempfile.TemporaryDirectory() as stage:
        output_of("meson", "install", "-C", build, "--no-rebuild", "--destdir", stage, "--quiet")
        print(package(build, stage, output, version))
        for word in names:
            name, _, folder = word.partition("=")
            found = [where for where, _, files in os.walk(stage) if f"bp_{name}.so" in files]
            print(plugin(name, folder or (found or [stage])[0], output, version))


if __name__ == "__main__":
    main()
