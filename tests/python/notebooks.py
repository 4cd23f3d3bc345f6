#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the notebooks as scripts: the code of each, in the order of its cells, in a process of its own. Where a notebook
needs an installed Backplane, the build is installed into a directory."""
import glob
import json
import os
import subprocess
import sys
import tempfile

import tap
from tap import same

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NOTEBOOKS = sorted(glob.glob(os.path.join(ROOT, "sdk", "bridges", "python", "notebooks", "*.ipynb")))
EXPECTED = ["run_a_model", "train_a_network", "try_a_kernel"]
LIMIT = 200


def installation(folder):
    """The variables that make `bp` and the headers of an installation found."""
    subprocess.run(["meson", "install", "-C", tap.BUILD, "--no-rebuild", "--destdir", folder], check=True,
                   stdout=subprocess.DEVNULL)
    pc, = glob.glob(f"{folder}/**/backplane.pc", recursive=True)
    command, = glob.glob(f"{folder}/**/bin/bp", recursive=True)
    return {"PATH": os.path.dirname(command) + ":" + os.environ["PATH"], "PKG_CONFIG_PATH": os.path.dirname(pc)}


def cells_of(path):
    with open(path, encoding="utf-8") as file:
        book = json.load(file)
    same([book["nbformat"], book["metadata"]["kernelspec"]["name"]], [4, "python3"])
    for cell in book["cells"]:
        if cell["cell_type"] == "code":
            same([cell["outputs"], cell["execution_count"]], [[], None])  # results are not kept
            yield "".join(cell["source"])


def run_notebook(path):
    script = "\n\n".join(cells_of(path))
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "PYTHONPATH": tap.PACKAGE, "TMPDIR": folder}
        if "bp new-plugin" in script:
            env.update(installation(os.path.join(folder, "root")))
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=env, timeout=LIMIT)
    assert not done.returncode, done.stdout + done.stderr


def test_the_notebooks_are_there():
    same([os.path.basename(path)[:-6] for path in NOTEBOOKS], EXPECTED)


def test_their_files_state_the_licence():
    for path in NOTEBOOKS:
        with open(path, encoding="utf-8") as file:
            assert "SPDX-License-Identifier: Apache-2.0" in "".join(json.load(file)["cells"][0]["source"]), path


def tests():
    for name, function in list(globals().items()):
        if name.startswith("test_"):
            yield name, function
    for path in NOTEBOOKS:
        yield f"test_{os.path.basename(path)[:-6]}_runs", lambda path=path: run_notebook(path)


if __name__ == "__main__":
    sys.exit(tap.main(dict(tests())))
