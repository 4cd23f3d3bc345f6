#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Helpers of the programs that test the xpu plugin: environments for it, and a function that runs a list of tests as TAP."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import in_folders  # noqa: E402

POCL = "/etc/OpenCL/vendors/pocl.icd"
PASSED = ("POCL_CACHE_DIR", "POCL_WORK_GROUP_SPECIALIZATION", "POCL_EXTRA_BUILD_FLAGS")


def environment(folder, **more):
    """Each test has its own program cache, because it tests that cache. PoCL's cache is shared, or the caller's."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("BP_", "OCL_", "POCL_")) or k in PASSED}
    return {"POCL_CACHE_DIR": os.path.join(os.path.dirname(folder), "pocl"), **env, "OCL_ICD_VENDORS": POCL,
            "POCL_DEVICES": "pthread pthread", "BP_XPU_DEVICES": "*", "BP_XPU_CACHE": os.path.join(folder, "cache"), **more}


def with_loader(folder, library, **more):
    """Returns an environment in which that library is the OpenCL loader."""
    link = os.path.join(folder, "libOpenCL.so.1")
    if not os.path.islink(link):
        os.symlink(library, link)
    path = os.environ.get("LD_LIBRARY_PATH")
    return environment(folder, LD_LIBRARY_PATH=folder + (":" + path if path else ""), **more)


def run_tests(tests, built):
    """Runs each test in its own folder. Returns the exit status."""
    why = "the plugin was not built: no OpenCL headers" if not built else \
        "PoCL is not installed" if not os.path.exists(POCL) else ""
    if why:
        print(f"1..0 # SKIP {why}")
        return 0
    return in_folders.run_tests(tests)
