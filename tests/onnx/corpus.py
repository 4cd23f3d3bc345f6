# SPDX-License-Identifier: Apache-2.0
"""Writes the initial corpus of the fuzzer of models: the small models of the scripts of this folder, and of
ONNX's own test models if they are installed.

    corpus.py DIR
"""
import glob
import os
import shutil
import sys
import tempfile

import kit
import suite
import written

LARGEST = 4096  # bytes; larger files are mostly weights


def main(folder):
    with tempfile.TemporaryDirectory() as path:
        models = kit.Folder(path)
        for family in written.FAMILIES:
            family.add_all(models)
        found = [path for root in (path, suite.DATA)
                 for path in sorted(glob.glob(os.path.join(root, "**", "*.onnx"), recursive=True))]
        small = [path for path in found if os.path.getsize(path) <= LARGEST]
        for number, model in enumerate(small):
            shutil.copyfile(model, os.path.join(folder, f"model_{number}"))


main(sys.argv[1])
