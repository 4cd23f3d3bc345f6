# SPDX-License-Identifier: Apache-2.0
"""Backplane's execution provider for ONNX Runtime: where its library is.

    import onnxruntime, onnxruntime_ep_backplane
    onnxruntime.register_execution_provider_library("backplane", onnxruntime_ep_backplane.get_library_path())
"""
import ctypes
import glob
import os

_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib")
_GROUP = "backplane.plugins"  # of entry points, as in the package backplane


def _plugin_folders():
    """The folder of each plugin wheel: its entry point names the package that is the folder, or a function."""
    from importlib.metadata import entry_points
    folders = []
    for point in entry_points(group=_GROUP):
        try:
            found = point.load()
            found = found() if callable(found) else found.__path__[0]
            folders.append(os.path.realpath(os.fspath(found)))  # a plugin in a folder that is a link is not trusted
        except Exception as error:  # a broken package of another project must not end this one
            import warnings
            warnings.warn(f"the plugin package {point.value} of the entry point {point.name} cannot be used: {error}")
    return folders


def _add_plugins():
    """Appends the folders of plugin wheels to BP_PLUGIN_PATH, which the library reads when it is registered."""
    path = [folder for folder in os.environ.get("BP_PLUGIN_PATH", "").split(":") if folder]
    path += [folder for folder in _plugin_folders() if folder not in path]
    if path:
        os.environ["BP_PLUGIN_PATH"] = ":".join(path)


def get_library_path():
    """Returns the path of the library. Loads what it needs and the system does not have, and adds the plugins that are
    installed as wheels to BP_PLUGIN_PATH."""
    for path in sorted(glob.glob(os.path.join(_FOLDER, "needed", "*.so*"))):
        try:
            ctypes.CDLL(os.path.basename(path))
        except OSError:
            ctypes.CDLL(path)
    _add_plugins()
    return os.path.join(_FOLDER, "libonnxruntime_ep_backplane.so")


def get_ep_name():
    """Returns the name of the execution provider."""
    return "BackplaneExecutionProvider"


def get_ep_names():
    """Returns the names of all execution providers of the library."""
    return [get_ep_name()]
