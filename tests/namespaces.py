# SPDX-License-Identifier: Apache-2.0
"""Namespaces for tests: mounts of its own, another user, another root. All functions raise OSError."""
import contextlib
import ctypes
import os
import tempfile

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x20000, 0x10000000, 0x40000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
MNT_DETACH = 2
LIBC = ctypes.CDLL(None, use_errno=True)


def system_call(name, *arguments, what=""):
    if getattr(LIBC, name)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), f"{name}{what and ' ' + what}: {os.strerror(ctypes.get_errno())}")


def unshare(flags, what):
    system_call("unshare", flags, what=f"({what})")


def enter(path, flags):
    """Enters the namespace that the file stands for."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    system_call("setns", file, flags, what=path)
    os.close(file)


def mount(source, target, kind=None, flags=0, options=None):
    words = [w and os.fsencode(w) for w in (source, target, kind)]
    system_call("mount", *words, ctypes.c_ulong(flags), options and options.encode(), what=target)


def own_mounts():
    """Enters a mount namespace of its own, of which nothing reaches other namespaces. Mounts can be made private
    from the root of their namespace only, and in a chroot / is another directory: so goes to that root, and back."""
    unshare(CLONE_NEWNS, "mount namespace")
    root, here = (os.open(path, os.O_PATH | os.O_CLOEXEC) for path in ("/", "."))
    enter("/proc/self/ns/mnt", CLONE_NEWNS)  # this moves the process to the namespace's root
    mount(None, "/", flags=MS_REC | MS_PRIVATE)
    os.fchdir(root)
    os.chroot(".")
    os.fchdir(here)
    os.close(root)
    os.close(here)


def own_user(uid=0, gid=0):
    """Enters a user namespace of its own, in which this user is that one; and root of all namespaces made later."""
    maps = {"uid_map": f"{uid} {os.geteuid()} 1", "setgroups": "deny", "gid_map": f"{gid} {os.getegid()} 1"}
    unshare(CLONE_NEWUSER, "user namespace")
    for name, text in maps.items():
        file = os.open(f"/proc/self/{name}", os.O_WRONLY)
        try:
            os.write(file, text.encode())
        except OSError as error:
            raise OSError(error.errno, f"/proc/self/{name}: {error.strerror}") from error
        finally:
            os.close(file)


def bind(source, target, flags=0):
    mount(source, target, flags=MS_BIND | MS_REC)
    if flags:
        mount(None, target, flags=MS_REMOUNT | MS_BIND | flags)


def copy_tree(top, own, without=(), source="/"):
    """Fills a directory with the entries of another one: links are copied, all else is bound. But directories above those of `own`
    are made anew, and belong to this user; paths of `without` are left out, and so are files that this user cannot read."""
    for entry in os.scandir(source):
        target = os.path.join(top, entry.name)
        if entry.path in without:
            continue
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), target)
        elif entry.is_dir():
            os.mkdir(target, 0o755)
            if any(path.startswith(entry.path + "/") for path in own):
                copy_tree(target, own, without, entry.path)
            else:
                bind(entry.path, target)
        elif entry.is_file():
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
            bind(entry.path, target)


def own_root(own, fill=copy_tree):
    """Enters a root of its own, in mounts of its own: fill(directory, own) fills the root."""
    top, here = tempfile.mkdtemp(prefix="bp-root-"), os.getcwd()
    try:
        own_mounts()
        mount("tmpfs", top, "tmpfs", options="mode=0755")
        fill(top, own)
        with contextlib.suppress(OSError):  # a directory that is bound there may contain this root once more
            system_call("umount2", os.fsencode(top + top), MNT_DETACH)
        os.mkdir(top + "/old")
        system_call("pivot_root", os.fsencode(top), os.fsencode(top + "/old"))
    except OSError:
        with contextlib.suppress(OSError):
            system_call("umount2", os.fsencode(top), MNT_DETACH)
        os.rmdir(top)
        raise
    os.chdir("/")
    os.rmdir("/old" + top)
    system_call("umount2", b"/old", MNT_DETACH)
    os.rmdir("/old")
    os.chdir(here)
