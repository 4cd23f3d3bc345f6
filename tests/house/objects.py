#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a hash of the code and data of each object file of a build, so that a change of comments can be checked.

    objects.py BUILD > BEFORE; ...; objects.py BUILD | diff BEFORE -

Debug sections are left out, because line numbers move with comments. Objects of tests that use __LINE__ may differ.
"""
import concurrent.futures
import hashlib
import os
import subprocess
import sys
import tempfile


def digest(path):
    """The hash of an object without its debug sections."""
    with tempfile.NamedTemporaryFile() as bare:
        subprocess.run(["objcopy", "--strip-debug", "--remove-section=.comment", path, bare.name], check=True)
        with open(bare.name, "rb") as f:
            return hashlib.sha256(f.read()).hexdigest()


def main():
    build = sys.argv[1]
    objects = sorted(os.path.join(folder, name) for folder, _, names in os.walk(build) for name in names if name.endswith(".o"))
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for path, hashed in zip(objects, pool.map(digest, objects)):
            print(hashed, os.path.relpath(path, build))


if __name__ == "__main__":
    main()
