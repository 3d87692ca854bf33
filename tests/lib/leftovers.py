# SPDX-License-Identifier: Apache-2.0
"""What there is on this host of one instance of the plane: everything that carries its
name or lies in its root. Only that: another instance, of another tree's tests, is
running beside it. Stock library only; used by Plane and, when a test has ended,
by tests/run.py.
"""
import contextlib
import os
import shutil
import signal
import subprocess
import time

SWEEP_S = 10


def cgroup_mounts():
    with open("/proc/self/mountinfo") as f:
        for line in f:
            left, _, right = line.partition(" - ")
            if right.split()[0] in ("cgroup", "cgroup2"):
                yield left.split()[4]


def cgroups(name):
    """The instance's directories in every cgroup hierarchy."""
    found = []
    for mount in cgroup_mounts():
        for base, directories, _ in os.walk(mount):
            if name in directories:
                found.append(os.path.join(base, name))
                directories.remove(name)
    return found


def loops(root):
    found = []
    for block in os.listdir("/sys/block"):
        with contextlib.suppress(OSError):
            with open("/sys/block/%s/loop/backing_file" % block) as f:
                if f.read().startswith(root + "/"):
                    found.append(block)
    return found


def processes(root, name):
    """(pid, comm) of what is in the instance's cgroups, or has its root as working directory."""
    pids = set()
    for top in cgroups(name):
        for base, _, files in os.walk(top):
            if "cgroup.procs" in files:
                with contextlib.suppress(OSError):
                    with open(os.path.join(base, "cgroup.procs")) as f:
                        pids |= {int(x) for x in f.read().split()}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                if (os.readlink("/proc/%s/cwd" % entry) + "/").startswith(root + "/"):
                    pids.add(int(entry))
    named = []
    for pid in sorted(pids):
        with contextlib.suppress(OSError):
            with open("/proc/%d/comm" % pid) as f:
                named.append((pid, f.read().strip()))
    return named


def mounts(root, name, of=None):
    """In the namespace of every process that has one of its own, and in ours (or only of @of)."""
    seen, found = set(), set()
    for entry in of or ["self"] + os.listdir("/proc"):
        with contextlib.suppress(OSError):
            ns = os.readlink("/proc/%s/ns/mnt" % entry)
            if ns in seen:
                continue
            seen.add(ns)
            with open("/proc/%s/mountinfo" % entry) as f:
                found |= {line.split()[4] for line in f if root + "/" in line or name in line}
    return sorted(found)


def _output(*argv):
    with contextlib.suppress(OSError):
        return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.decode()
    return ""


def left_of(root, name):
    """What is left, one line each; [] is good."""
    left = ["cgroup " + path for path in cgroups(name)]
    left += ["mount " + path for path in mounts(root, name)]
    left += ["loop " + x for x in loops(root)]
    for base in ("/sys/fs/bpf", "/run/netns", "/dev/shm", "/dev/mqueue"):
        with contextlib.suppress(OSError):
            left += ["%s/%s" % (base, x) for x in os.listdir(base) if name in x]
    left += ["nft " + x for x in _output("nft", "list", "tables").splitlines() if name in x]
    left += ["link " + x for x in os.listdir("/sys/class/net") if name in x]
    left += ["process %d %s" % p for p in processes(root, name)]
    return left


def _sweep_once(root, name):
    for pid, _ in processes(root, name):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    for path in sorted(mounts(root, name), reverse=True):
        _output("umount", "-l", path)
    for block in loops(root):
        _output("losetup", "-d", "/dev/" + block)
    for top in cgroups(name):
        for base, _, _ in os.walk(top, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(base)
    # What is still mounted in our namespace would be emptied through it. A copy in that of
    # another instance's process, born meanwhile, goes with the directory it is mounted on.
    if not mounts(root, name, of=["self"]):
        shutil.rmtree(root, ignore_errors=True)


def sweep(root, name):
    """Takes it away, where whoever made it was ended before it could. True: nothing is left."""
    patience = time.monotonic() + SWEEP_S
    _sweep_once(root, name)
    while left_of(root, name) and time.monotonic() < patience:
        time.sleep(0.1)
        _sweep_once(root, name)
    return not left_of(root, name) and not os.path.exists(root)
