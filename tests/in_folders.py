# SPDX-License-Identifier: Apache-2.0
"""Runs functions as tests, each with a folder of its own, and prints TAP: for programs that test `bp` in bent surroundings."""
import os
import subprocess
import tempfile


def run_tests(tests):
    """Runs each function with the path of an empty folder, named as the function; the folder above it is one of all
    tests. Returns the exit status."""
    failed = 0
    print(f"1..{len(tests)}")
    with tempfile.TemporaryDirectory() as shared:
        for number, function in enumerate(tests, 1):
            folder = os.path.join(shared, function.__name__)
            os.mkdir(folder)
            try:
                function(folder)
                print(f"ok {number} - {function.__name__}", flush=True)
            except (AssertionError, subprocess.TimeoutExpired) as error:
                failed += 1
                print(f"not ok {number} - {function.__name__}", flush=True)
                for line in str(error).splitlines():
                    print(f"# {line}")
    return failed > 0
