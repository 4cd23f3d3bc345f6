# SPDX-License-Identifier: Apache-2.0
"""Backplane's execution provider for ONNX Runtime: where its library is.

    import onnxruntime, onnxruntime_ep_backplane
    onnxruntime.register_execution_provider_library("backplane", onnxruntime_ep_backplane.get_library_path())
"""
import ctypes
import glob
import os

_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib")


def get_library_path():
    """Returns the path of the library. Loads what it needs and the system does not have."""
    for path in sorted(glob.glob(os.path.join(_FOLDER, "needed", "*.so*"))):
        try:
            ctypes.CDLL(os.path.basename(path))
        except OSError:
            ctypes.CDLL(path)
    return os.path.join(_FOLDER, "libonnxruntime_ep_backplane.so")


def get_ep_name():
    """Returns the name of the execution provider."""
    return "BackplaneExecutionProvider"


def get_ep_names():
    """Returns the names of all execution providers of the library."""
    return [get_ep_name()]
