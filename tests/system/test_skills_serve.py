#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# cordon-test: timeout=600
"""The skills' file system against whatever happens to its store, its server and its mount (K1, K3,
K4; class f of the escapes). Everything is proven by what a reader got: hashes, errno, signals."""
import ctypes
import errno
import fcntl
import hashlib
import json
import mmap
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cordon import Skip, contains, equal, eventually, main, memory_bound, test
from skills_rig import Refused, Skills, libc, syscall, umount

CHUNK = 32 * 1024


def sha(data):
    return hashlib.sha256(data).hexdigest()


def drop_cache(path):
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def alone(fd):
    """Closes everything else: who holds the FUSE descriptor and hangs in the mount is never freed."""
    os.closerange(3, fd)
    os.closerange(fd + 1, 1 << 16)


def outcome(path, how="read"):
    """What a process of its own gets of @path: a digest, an errno's name, or a signal's."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        text = "?"
        try:
            alone(w)
            fd = os.open(path, os.O_RDONLY)  # open() would ask the server whether it is a terminal
            if how == "mmap":
                text = sha(mmap.mmap(fd, 0, prot=mmap.PROT_READ)[:])
            else:
                text = sha(b"".join(iter(lambda: os.read(fd, 1 << 20), b"")))
        except OSError as e:
            text = errno.errorcode[e.errno]
        os.write(w, text.encode())
        os._exit(0)
    os.close(w)
    text = os.read(r, 200).decode()
    os.close(r)
    status = os.waitpid(pid, 0)[1]
    return signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else text


# --- What can be done to a stored file

def rewrite(path):
    with open(path, "r+b") as f:
        f.seek(os.path.getsize(path) // 2)
        byte = f.read(1)
        f.seek(-1, 1)
        f.write(bytes([byte[0] ^ 1]))


def leaves_of(data):
    return b"".join(hashlib.sha256(data[i:i + CHUNK]).digest() for i in range(0, len(data), CHUNK))


def forge(s, was, becomes):
    """Other content in place of @was, with the leaves that belong to it."""
    old = hashlib.sha256(leaves_of(was)).hexdigest()
    for path, data in ((s.blob(was), becomes), (os.path.join(s.store, "leaves", old), leaves_of(becomes))):
        with open(path, "r+b") as f:
            f.write(data)


def rewrite_all(path):
    size = os.path.getsize(path)
    with open(path, "r+b") as f:
        f.write(b"\xee" * size)


def truncate(path):
    os.truncate(path, os.path.getsize(path) // 2)


def empty(path):
    os.truncate(path, 0)


def extend(path):
    with open(path, "ab") as f:
        f.write(b"more")


def rename_over(path):
    with open(path + ".other", "wb") as f:
        f.write(os.urandom(os.path.getsize(path)))
    os.rename(path + ".other", path)


def unlink(path):
    os.unlink(path)


def make_unreadable(path):
    os.chmod(path, 0)


def to_directory(path):
    os.unlink(path)
    os.mkdir(path)


def to_link(path):
    os.unlink(path)
    os.symlink("/etc/passwd", path)


def to_fifo(path):
    os.unlink(path)
    os.mkfifo(path)


def to_device(path):
    os.unlink(path)
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))


MUTATIONS = [rewrite, rewrite_all, truncate, empty, extend, rename_over, unlink, make_unreadable,
             to_directory, to_link, to_fifo, to_device]


class Case:
    """A skill of one victim and one bystander, fresh content each time."""
    count = 0

    def __init__(self, s, size):
        Case.count += 1
        self.s, self.slug = s, "case-%d" % Case.count
        self.data, self.other = os.urandom(size), os.urandom(2000)
        s.stage(self.slug, [("dir/victim", self.data), ("dir/bystander", self.other)])
        self.view = s.view([self.slug])
        self.path = os.path.join(self.view.path, self.slug, "dir/victim")
        self.blob = s.blob(self.data)

    def judge(self, got, what, signals=()):
        good = [sha(self.data), "EIO"] + list(signals)
        if got not in good:
            raise AssertionError("%s: got %s, wanted the right bytes or EIO" % (what, got))
        other = os.path.join(self.view.path, self.slug, "dir/bystander")
        equal(outcome(other), sha(self.other), what + ": the bystander")
        self.view.close()
        return got


@test
def the_right_bytes_come_through():
    with Skills() as s:
        for size in (0, 1, 4095, 4096, CHUNK - 1, CHUNK, CHUNK + 1, 10 * CHUNK + 17, 3000000):
            c = Case(s, size) if size else None
            if c:
                equal(outcome(c.path), sha(c.data), "read %d" % size)
                equal(outcome(c.path, "mmap"), sha(c.data), "mmap %d" % size)
                c.view.close()
        s.stage("zero", [("empty", b"")])
        v = s.view(["zero"])
        equal(outcome(v.path + "/zero/empty"), sha(b""), "an empty file")
        with open(v.path + "/zero/empty", "rb") as f:
            equal(f.read(10), b"", "its bytes")


@test
def changed_before_anybody_looked():
    with Skills() as s:
        seen = set()
        for mutate in MUTATIONS:
            for size in (5000, 10 * CHUNK):
                c = Case(s, size)
                mutate(c.blob)
                seen.add(c.judge(outcome(c.path), "%s of %d" % (mutate.__name__, size)))
        contains(seen, "EIO", "the guard did something")
        contains(s.logged(), "skill_corrupt", "the operator's event")


@test
def changed_between_lookup_and_open():
    with Skills() as s:
        for mutate in MUTATIONS:
            for size in (5000, 10 * CHUNK):
                c = Case(s, size)
                os.stat(c.path)
                mutate(c.blob)
                c.judge(outcome(c.path), mutate.__name__)


@test
def changed_between_open_and_read():
    with Skills() as s:
        for mutate in MUTATIONS:
            for size in (5000, 10 * CHUNK):
                c = Case(s, size)
                with open(c.path, "rb", buffering=0) as f:
                    mutate(c.blob)
                    try:
                        got = sha(f.read())
                    except OSError as e:
                        got = errno.errorcode[e.errno]
                c.judge(got, mutate.__name__)


@test
def changed_between_two_reads_is_never_a_mix():
    with Skills() as s:
        for mutate in MUTATIONS:
            c = Case(s, 40 * CHUNK)
            with open(c.path, "rb", buffering=0) as f:
                os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
                first = f.read(4096)
                mutate(c.blob)
                got = [first]
                try:
                    while True:
                        part = f.read(4096)
                        if not part:
                            break
                        got.append(part)
                    result = sha(b"".join(got))
                except OSError as e:
                    result = errno.errorcode[e.errno]
                    equal(b"".join(got), c.data[:4096 * len(got)], "what came before the error")
            c.judge(result, mutate.__name__)


@test
def changed_under_a_mapping_is_sigbus():
    with Skills() as s:
        seen = set()
        for mutate in MUTATIONS:
            c = Case(s, 10 * CHUNK)
            mutate(c.blob)
            seen.add(c.judge(outcome(c.path, "mmap"), mutate.__name__, ["SIGBUS"]))
        contains(seen, "SIGBUS", "the guard did something")


@test
def cached_pages_stay_right_when_the_store_goes_bad():
    with Skills() as s:
        c = Case(s, 10 * CHUNK)
        equal(outcome(c.path), sha(c.data), "warm")
        rewrite_all(c.blob)
        equal(outcome(c.path), sha(c.data), "from the cache")
        equal(outcome(c.path, "mmap"), sha(c.data), "mapped from the cache")
        # A page the other processor still holds in its batch is not dropped at the first try.
        for _ in range(50):
            drop_cache(c.path)
            got = outcome(c.path)
            if got != sha(c.data):
                break
            time.sleep(0.1)
        equal(got, "EIO", "once the cache is empty")


@test
def flipped_while_it_is_being_read():
    with Skills() as s:
        c = Case(s, 30 * CHUNK)
        stop = threading.Event()
        bad = bytearray(c.data)
        for i in range(0, len(bad), CHUNK):
            bad[i] ^= 0xff

        def flip():
            fd = os.open(c.blob, os.O_WRONLY)
            while not stop.is_set():
                os.pwrite(fd, bad, 0)
                os.pwrite(fd, c.data, 0)
            os.close(fd)

        t = threading.Thread(target=flip)
        t.start()
        seen = {"EIO": 0, "ok": 0}
        try:
            for _ in range(300):
                drop_cache(c.path)
                try:
                    with open(c.path, "rb", buffering=0) as f:
                        data = b"".join(iter(lambda: f.read(1 << 17), b""))
                    equal(sha(data), sha(c.data), "a mix")
                    seen["ok"] += 1
                except OSError as e:
                    equal(e.errno, errno.EIO, "errno")
                    seen["EIO"] += 1
        finally:
            stop.set()
            t.join()
        if not seen["EIO"]:
            raise AssertionError("the flipping was never seen: %r" % seen)


@test
def a_store_that_is_put_right_serves_again():
    with Skills() as s:
        c = Case(s, 10 * CHUNK)
        rewrite(c.blob)
        equal(outcome(c.path), "EIO", "damaged")
        s.stage(c.slug, [("dir/victim", c.data), ("dir/bystander", c.other)])
        equal(outcome(c.path), sha(c.data), "after staging the same again")


@test
def damaged_leaves_and_manifests_are_found():
    with Skills() as s:
        c = Case(s, 10 * CHUNK)
        for name in os.listdir(s.store + "/leaves"):
            rewrite(os.path.join(s.store, "leaves", name))
        equal(outcome(c.path), "EIO", "leaves")
        c = Case(s, 10 * CHUNK)
        forge(s, c.data, os.urandom(len(c.data)))
        equal(outcome(c.path), "EIO", "content and leaves that fit one another and not the manifest")
        d = s.stage("m", [("f", b"x")])
        rewrite(os.path.join(s.store, "manifests", d))
        try:
            s.view(["m"])
            raise AssertionError("a damaged manifest opens a view")
        except Refused as e:
            contains(e.text, "not the one that was staged")
        d = s.stage("late", [("f", b"y")])
        v = s.view(["late"])
        rewrite(os.path.join(s.store, "manifests", d))
        s.restart()  # nothing of it is in memory any more
        equal(outcome(v.path + "/late/f"), "EIO", "a manifest damaged under an open view")


@test
def a_swapped_directory_or_a_mount_over_it_changes_nothing():
    with Skills() as s:
        c = Case(s, 10 * CHUNK)
        os.rename(s.store + "/blobs", s.store + "/blobs.old")
        os.mkdir(s.store + "/blobs")
        with open(c.blob, "wb") as f:
            f.write(b"\xee" * len(c.data))
        equal(outcome(c.path), sha(c.data), "the directory that was opened")
        os.unlink(c.blob)
        os.rmdir(s.store + "/blobs")
        os.rename(s.store + "/blobs.old", s.store + "/blobs")
        drop_cache(c.path)
        libc.mount(b"none", os.fsencode(s.store), b"tmpfs", 0, None)
        equal(outcome(c.path), sha(c.data), "a mount over the store")
        umount(s.store)


# --- Writing

def fails(expected, function, *args, **more):
    try:
        function(*args, **more)
    except OSError as e:
        if e.errno not in expected:
            raise AssertionError("%s%r: %s, wanted %s" % (
                function.__name__, args, errno.errorcode[e.errno],
                [errno.errorcode[x] for x in expected]))
        return
    raise AssertionError("%s%r succeeded" % (function.__name__, args))


def write_calls(p):
    """(errnos, function, arguments) for everything that would write below @p."""
    f, d, link = p + "/file", p + "/dir", p + "/link"
    ro = [errno.EROFS]

    def open_write(path, flags):
        os.close(os.open(path, flags, 0o644))

    def map_shared(path):
        fd = os.open(path, os.O_RDONLY)
        try:
            mmap.mmap(fd, 10, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        except PermissionError as e:
            raise OSError(errno.EACCES, "mmap") from e
        finally:
            os.close(fd)

    def on_fd(call, *args):
        fd = os.open(f, os.O_RDONLY)
        try:
            call(fd, *args)
        finally:
            os.close(fd)

    def fallocate(fd):
        os.posix_fallocate(fd, 0, 100)

    def copy_range(fd):
        syscall(326, fd, 0, fd, 0, 10, 0)

    def set_flags(fd):
        fcntl.ioctl(fd, 0x40086602, b"\x10\0\0\0\0\0\0\0")

    return [
        (ro, open_write, f, os.O_WRONLY), (ro, open_write, f, os.O_RDWR),
        (ro, open_write, f, os.O_RDONLY | os.O_TRUNC), (ro, open_write, f, os.O_WRONLY | os.O_APPEND),
        (ro, open_write, p + "/new", os.O_WRONLY | os.O_CREAT),
        (ro, open_write, p + "/new", os.O_RDWR | os.O_CREAT | os.O_EXCL),
        (ro, open_write, d, os.O_RDWR | 0o20200000),  # O_TMPFILE
        (ro, os.mkdir, p + "/new"), (ro, os.rmdir, d), (ro, os.unlink, f),
        (ro, os.rename, f, p + "/other"), (ro, os.rename, f, d + "/inner"),
        (ro, os.link, f, p + "/hard"), (ro, os.symlink, "x", p + "/sym"),
        (ro, os.mkfifo, p + "/fifo"), (ro, os.mknod, p + "/dev", stat.S_IFCHR | 0o600, 0x103),
        (ro, os.chmod, f, 0o777), (ro, os.chown, f, 0, 0), (ro, os.lchown, link, 1, 1),
        (ro, os.utime, f), (ro, os.truncate, f, 0), (ro, os.truncate, f, 1 << 20),
        (ro, os.setxattr, f, "user.x", b"v"), (ro, os.removexattr, f, "user.x"),
        ([errno.EACCES], map_shared, f),
        ([errno.EINVAL], on_fd, os.ftruncate, 0),
        ([errno.EBADF], on_fd, fallocate), ([errno.EBADF], on_fd, copy_range),
        ([errno.EBADF], on_fd, os.write, b"x"),
        ([errno.EROFS, errno.ENOTTY, errno.EINVAL, errno.EOPNOTSUPP], on_fd, set_flags),
        (ro, on_fd, os.fchmod, 0o777), (ro, on_fd, os.fchown, 0, 0),
    ]


def snapshot(p):
    out = []
    for base, dirs, files in os.walk(p):
        dirs.sort()
        for name in sorted(dirs + files):
            path = os.path.join(base, name)
            st = os.lstat(path)
            out.append((path, st.st_mode, st.st_size, st.st_mtime_ns, st.st_uid,
                        os.readlink(path) if stat.S_ISLNK(st.st_mode) else
                        outcome(path) if stat.S_ISREG(st.st_mode) else ""))
    return out


WRITE_FILES = [("file", b"content" * 100), ("dir/inner", b"x"), ("link", ("link", "file")),
               ("run.sh", b"#!/bin/sh\necho ran\n", 0o755)]


@test
def every_write_fails_and_changes_nothing():
    with Skills() as s:
        s.stage("w", WRITE_FILES)
        v = s.view(["w"])
        before = snapshot(v.path)
        for call in write_calls(v.path + "/w"):
            fails(*call)
        for path in (v.path, s.mount_point):
            fails([errno.EROFS], os.mkdir, path + "/new")
            fails([errno.EROFS], os.chmod, path, 0o777)
        equal(snapshot(v.path), before, "the tree")
        # Positive control: the same calls on a tree that may be written do work.
        plain = s.root + "/plain"
        shutil.copytree(v.path + "/w", plain, symlinks=True)
        os.chmod(plain + "/file", 0o777)
        os.truncate(plain + "/file", 0)
        os.mkdir(plain + "/new")


@test
def another_user_cannot_write_either():
    with Skills() as s:
        s.stage("w", WRITE_FILES)
        v = s.view(["w"])
        os.chmod(s.root, 0o755)
        pid = os.fork()
        if pid == 0:
            try:
                os.setgid(12345)
                os.setuid(12345)
                for name, call in (("open", lambda: os.open(v.path + "/w/file", os.O_WRONLY)),
                                   ("create", lambda: os.open(v.path + "/w/n", os.O_CREAT | os.O_RDWR)),
                                   ("unlink", lambda: os.unlink(v.path + "/w/file"))):
                    fails([errno.EROFS, errno.EACCES], call)
                equal(open(v.path + "/w/file").read(), "content" * 100, "but it can read")
                os._exit(0)
            except BaseException as e:
                print("#", e)
                os._exit(1)
        equal(os.waitpid(pid, 0)[1], 0, "the other user")


@test
def a_mount_that_was_made_writable_is_still_refused_by_the_server():
    with Skills(writable=True) as s:
        s.stage("w", WRITE_FILES)
        v = s.view(["w"])
        p = v.path + "/w"
        before = snapshot(p)
        os.stat(p + "/file")
        # The kernel itself opens and maps now; what reaches the server is refused there.
        for call in [(os.mkdir, p + "/new"), (os.rmdir, p + "/dir"), (os.unlink, p + "/file"),
                     (os.rename, p + "/file", p + "/o"), (os.link, p + "/file", p + "/h"),
                     (os.symlink, "x", p + "/s"), (os.mkfifo, p + "/fifo"),
                     (os.chmod, p + "/file", 0o777), (os.chown, p + "/file", 0, 0),
                     (os.utime, p + "/file"), (os.truncate, p + "/file", 0),
                     (os.setxattr, p + "/file", "user.x", b"v"),
                     (os.setxattr, p + "/file", "user.x", b"v" * 60000),
                     (os.removexattr, p + "/file", "user.x")]:
            fails([errno.EROFS], *call)

        def write():
            fd = os.open(p + "/file", os.O_WRONLY)
            try:
                os.write(fd, b"evil")
            finally:
                os.close(fd)
        fails([errno.EROFS], write)
        fails([errno.EROFS, errno.ENOSYS], lambda: os.close(os.open(p + "/n", os.O_CREAT | os.O_RDWR)))
        equal(snapshot(p), before, "the tree")


# --- Views

@test
def a_view_shows_its_skills_and_nothing_else():
    with Skills() as s:
        for slug in ("a", "b", "B2", "c.d_e-f"):
            s.stage(slug, [("f", slug.encode())])
        one, two = s.view(["a", "c.d_e-f"]), s.view(["b"])
        equal(sorted(os.listdir(one.path)), ["a", "c.d_e-f"], "one")
        equal(os.listdir(two.path), ["b"], "two")
        for name in ("b", "A", "c.d_e-F", "nope", "..a", "v1", "v2"):
            equal(os.path.exists(os.path.join(one.path, name)), False, name)
        equal(os.listdir(s.mount_point), [], "the root lists nobody's views")
        contains(subprocess.run(["ls", "-a", one.path], capture_output=True, text=True).stdout,
                 ".\n..\n", "dot and dot-dot are listed")
        equal(os.stat(one.path + "/a/f").st_ino == os.stat(two.path + "/b/f").st_ino, False, "inodes")


@test
def the_host_and_other_users_see_no_mount():
    with Skills() as s:
        s.stage("a", [("f", b"secret")])
        v = s.view(["a"])
        with open("/proc/1/mountinfo") as f:
            equal(s.root in f.read(), False, "the host's mount table")
        os.chmod(s.root, 0o755)
        # Not even from inside its namespace: the store and the root's listing are closed.
        script = ("import os\nos.setgid(12345); os.setuid(12345)\n"
                  "for p in %r:\n  try:\n    os.listdir(p); raise SystemExit(p)\n"
                  "  except PermissionError: pass\n" % [s.store, s.mount_point])
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        equal(done.returncode, 0, done.stderr)
        v.close()


@test
def a_version_stays_with_the_job_that_started_with_it():
    with Skills() as s:
        s.stage("skill", [("f", b"one"), ("only-in-one", b"1")])
        old = s.view(["skill"])
        s.stage("skill", [("f", b"two")])
        new = s.view(["skill"])
        equal(open(old.path + "/skill/f").read(), "one", "old")
        equal(open(new.path + "/skill/f").read(), "two", "new")
        equal(sorted(os.listdir(old.path + "/skill")), ["f", "only-in-one"], "old names")
        equal(os.listdir(new.path + "/skill"), ["f"], "new names")
        s.drop("skill")
        equal(open(old.path + "/skill/only-in-one").read(), "1", "removed, and still served")
        equal(open(new.path + "/skill/f").read(), "two", "removed, and still served")
        try:
            s.view(["skill"])
            raise AssertionError("a removed skill is attached")
        except Refused as e:
            contains(e.text, "no skill 'skill'")


@test
def versions_in_use_are_not_collected():
    with Skills() as s:
        d = s.stage("gone", [("f", b"kept for the job")])
        v = s.view(["gone"])
        s.drop("gone")
        manifest = os.path.join(s.store, "manifests", d)
        os.utime(manifest, (1, 1))  # long ago
        s.stage("other", [("g", b"1")])  # collects
        equal(os.path.exists(manifest), True, "in use")
        equal(open(v.path + "/gone/f").read(), "kept for the job", "served")
        v.close()
        s.stage("other", [("g", b"2")])
        equal(os.path.exists(manifest), False, "nobody uses it")
        equal(os.path.exists(s.blob(b"kept for the job")), False, "nor its content")
        equal(os.path.exists(s.blob(b"1")), True, "an older version of another is kept")


@test
def two_views_never_disturb_each_others_way_up():
    with Skills() as s:
        deep = "/".join("d%d" % i for i in range(20))
        s.stage("deep", [(deep + "/f", b"x")] + [("d0/d1/s%d/f" % i, b"y") for i in range(50)])
        views = [s.view(["deep"]) for _ in range(2)]
        script = r"""
import os, sys, time
base, deep, end = sys.argv[1], sys.argv[2], time.monotonic() + 4
n = 0
while time.monotonic() < end:
    os.chdir(base)
    for part in ["deep"] + deep.split("/"):
        here = os.getcwd()
        os.chdir(part)
        assert os.getcwd() == here + "/" + part, os.getcwd()
        n += 1
    for _ in range(deep.count("/") + 2):
        here = os.getcwd()
        os.chdir("..")
        assert os.getcwd() == os.path.dirname(here), (here, os.getcwd())
    assert os.getcwd() == base
    for root, dirs, files in os.walk(base):
        n += len(dirs)
print(n)
"""
        walkers = [subprocess.Popen([sys.executable, "-c", script, v.path, deep],
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                   for v in views for _ in range(2)]
        for w in walkers:
            out, err = w.communicate(timeout=60)
            equal(w.returncode, 0, err)
            if int(out) < 100:
                raise AssertionError("hardly walked: " + out)


def connection_of(s):
    minor = os.minor(os.stat(s.mount_point).st_dev)
    control = os.path.join(s.root, "fusectl")
    os.makedirs(control, exist_ok=True)
    if libc.mount(b"none", os.fsencode(control), b"fusectl", 0, None) < 0:
        raise Skip("no fusectl here")
    return control, os.path.join(control, str(minor))


@test
def lookups_in_one_directory_run_in_parallel():
    with Skills() as s:
        s.stage("wide", [("f%d" % i, b"x") for i in range(50)])
        v = s.view(["wide"])
        os.stat(v.path + "/wide")
        control, connection = connection_of(s)
        try:
            server = s.pids()["server"]
            os.kill(server, signal.SIGSTOP)
            threads = [threading.Thread(target=lambda i=i: os.path.exists(v.path + "/wide/none%d" % i))
                       for i in range(4)]
            for t in threads:
                t.start()
            # One at a time would leave one request waiting, however many callers there are.
            eventually(lambda: int(open(connection + "/waiting").read()) >= 4, "4 requests at once", 1)
            os.kill(server, signal.SIGCONT)
            for t in threads:
                t.join()
        finally:
            umount(control)


@test
def counts_follow_the_view():
    with Skills() as s:
        data = [os.urandom(5000) for _ in range(10)]
        s.stage("n", [("f%d" % i, d) for i, d in enumerate(data)])
        one, two = s.view(["n"]), s.view(["n"])
        equal(one.counts(), {"lookups": 0, "bytes": 0, "corrupt": 0}, "at first")
        one.bind(os.getuid())
        for i in range(5):
            open(one.path + "/n/f%d" % i, "rb").read()
        equal(one.counts(), {"lookups": 5, "bytes": 25000, "corrupt": 0}, "five files")
        for i in range(5):
            open(one.path + "/n/f%d" % i, "rb").read()
        equal(one.counts()["bytes"], 25000, "the cache's bytes are not the server's")
        equal(two.counts(), {"lookups": 0, "bytes": 0, "corrupt": 0}, "the other view")
        for i in range(5, 10):
            rewrite(s.blob(data[i]))
            equal(outcome(one.path + "/n/f%d" % i), "EIO", "damaged")
        after = one.counts()
        equal((after["lookups"], after["bytes"]), (10, 25000), "no byte of a damaged file")
        if after["corrupt"] < 5:
            raise AssertionError("corrupt reads: %r" % after)
        s.restart()
        equal(one.counts()["lookups"], 10, "over a restart")
        equal(one.close()["bytes"], 25000, "with the close")


# --- The server's life

def state_of(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rpartition(")")[2].split()[0]
    except OSError:
        return None


READER = r"""
import os, sys
path = sys.argv[1]
fd = os.open(path, os.O_RDONLY)
size = os.fstat(fd).st_size
import random
r = random.Random(int(sys.argv[2]))
while True:
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    try:
        os.pread(fd, 4096, r.randrange(size // 4096) * 4096)
    except OSError:
        pass
"""


def stop_in_the_middle(s, readers):
    """Stops the server until a reader sits in D: its request has been taken."""
    server = s.pids()["server"]
    for _ in range(300):
        os.kill(server, signal.SIGSTOP)
        time.sleep(0.02)
        stuck = [r for r in readers if state_of(r.pid) == "D"]
        if stuck:
            return stuck
        os.kill(server, signal.SIGCONT)
        time.sleep(0.005 * random.random())
    raise AssertionError("the server was never stopped with a request in hand")


@test
def a_server_stopped_with_a_request_in_hand_is_replaced():
    with Skills() as s:
        data = os.urandom(200 * CHUNK)
        s.stage("big", [("f", data)])
        v = s.view(["big"])
        readers = [subprocess.Popen([sys.executable, "-c", READER, v.path + "/big/f", str(i)])
                   for i in range(4)]
        try:
            time.sleep(0.5)
            stuck = stop_in_the_middle(s, readers)
            began = time.monotonic()
            stuck[0].kill()
            equal(s.child.wait(20), 1, "the keeper ends")
            if time.monotonic() - began > 5:
                raise AssertionError("the watch took %.1f s" % (time.monotonic() - began))
            contains(s.logged(), "the server does not answer")
            eventually(lambda: s.pids_alive() == [], "nothing of the old server is left", 2)
            s.start()  # as cordond does
            eventually(lambda: stuck[0].poll() is not None, "the killed reader is gone", 2)
            for r in readers:
                if r is not stuck[0]:
                    equal(r.poll(), None, "the other readers go on")
            equal(outcome(v.path + "/big/f"), sha(data), "the old view")
            fresh = s.view(["big"])
            equal(outcome(fresh.path + "/big/f"), sha(data), "a new view")
        finally:
            for r in readers:
                r.kill()
                r.wait()


@test
def a_killed_server_leaves_the_cache_and_comes_back():
    with Skills() as s:
        cached, cold = os.urandom(100000), os.urandom(100000)
        s.stage("k", [("cached", cached), ("cold", cold), ("run.sh", b"#!/bin/sh\necho ran\n", 0o755)])
        v = s.view(["k"])
        equal(outcome(v.path + "/k/cached"), sha(cached), "before")
        os.stat(v.path + "/k/cold")
        held = os.open(v.path + "/k/cached", os.O_RDONLY)
        s.kill()
        equal(outcome(v.path + "/k/cached"), sha(cached), "cached, without a server")
        equal(sha(os.read(held, 1 << 20)), sha(cached), "an open file")
        s.start()
        equal(outcome(v.path + "/k/cold"), sha(cold), "cold, from the next one")
        equal(subprocess.run([v.path + "/k/run.sh"], capture_output=True).stdout, b"ran\n", "runs")
        equal(sorted(os.listdir(v.path + "/k")), ["cached", "cold", "run.sh"], "listed")
        fresh = s.view(["k"])
        equal(outcome(fresh.path + "/k/cold"), sha(cold), "a new view on the same mount")
        for _ in range(5):
            s.restart()
        equal(outcome(v.path + "/k/cold"), sha(cold), "after five more")
        v.close()
        fresh.close()


@test
def any_role_that_dies_takes_the_others_along():
    with Skills() as s:
        for role in ("server", "stager"):
            os.kill(s.pids()[role], signal.SIGKILL)
            equal(s.child.wait(10), 1, role)
            eventually(lambda: s.pids_alive() == [], "all are gone")
            s.start()


@test
def numbers_are_never_used_again_across_restarts():
    with Skills() as s:
        s.stage("a", [("f", b"one")])
        v = s.view(["a"])
        ino, n = os.stat(v.path + "/a/f").st_ino, v.number
        v.close()
        s.restart()
        s.stage("a", [("f", b"two")])
        w = s.view(["a"])
        equal(open(w.path + "/a/f").read(), "two", "the new content")
        equal(w.number > n, True, "view")
        equal(os.stat(w.path + "/a/f").st_ino == ino, False, "inode")


@test
def another_broker_closes_the_views_of_the_last():
    with Skills() as s:
        s.stage("a", [("f", b"one")])
        v = s.view(["a"])
        s.restart()
        equal(v.counts()["lookups"], 0, "the same broker's views live on")
        s.session += 2
        s.restart()
        try:
            v.counts()
            raise AssertionError("a view of a dead broker is counted")
        except Refused:
            pass


@test
def a_mount_whose_every_process_is_killed_is_gone():
    s = Skills()
    with s:
        s.stage("a", [("f", b"one")])
        s.view(["a"])
        root = s.root
    with open("/proc/self/mountinfo") as f:
        equal(root in f.read(), False, "a stale mount")
    equal(os.path.exists(root), False, "its directory")


# --- Names and sizes

@test
def names_are_bytes():
    names = [b"UPPER", b"upper", "caf\u00e9".encode(), "cafe\u0301".encode(), b"\xff\xfe not utf-8",
             b"new\nline", b"tab\there", b"sp ace", b"%41", b"\x7f", b"-rf", b"..x", b"x..", b"...",
             b"a" * 255, "\u4f60\u597d \u4e16\u754c.md".encode(), b"*?[]", b"quote'\"`$(x)"]
    with Skills() as s:
        s.stage("names", [(n, n) for n in names])
        v = s.view(["names"])
        base = os.fsencode(v.path) + b"/names/"
        equal(sorted(os.listdir(base)), sorted(names), "listed")
        for n in names:
            with open(base + n, "rb") as f:
                equal(f.read(), n, "content of %r" % n)
        for n in (b"A", b"a" * 254, "cafe".encode(), b"A" * 255):
            equal(os.path.exists(base + n), False, repr(n))
        fails([errno.ENAMETOOLONG], os.stat, base + b"b" * 256)
        fails([errno.ENAMETOOLONG], os.stat, base + b"b" * 1000)


@test
def long_paths_and_deep_trees():
    deep = "/".join(["d"] * 2047) + "/f"
    equal(len(deep), 4095, "the longest path there is")
    long = "/".join(["n" * 255] * 15) + "/" + "m" * 254
    with Skills() as s:
        s.stage("deep", [(deep, b"at the bottom"), (long, b"long")])
        v = s.view(["deep"])
        fd = os.open(v.path + "/deep", os.O_RDONLY)
        for part in deep.split("/")[:-1]:
            below = os.open(part, os.O_RDONLY, dir_fd=fd)
            os.close(fd)
            fd = below
        equal(os.read(os.open("f", os.O_RDONLY, dir_fd=fd), 100), b"at the bottom", "read")
        os.close(fd)


@test
def a_hundred_thousand_entries():
    count = 100000
    with Skills() as s:
        began = time.monotonic()
        s.stage("many", [("d%02d/file-%06d" % (i % 50, i), b"%d" % (i % 100)) for i in range(count)],
                timeout=300)
        print("# staged in %.1f s" % (time.monotonic() - began), flush=True)
        v = s.view(["many"])
        seen = sum(len(files) for _, _, files in os.walk(v.path))
        equal(seen, count, "walked")
        for i in (0, 1, 49999, 99999):
            equal(open(v.path + "/many/d%02d/file-%06d" % (i % 50, i), "rb").read(), b"%d" % (i % 100),
                  "file %d" % i)
        equal(os.path.exists(v.path + "/many/d00/file-100000"), False, "one beyond")
        with open("/proc/%d/status" % s.pids()["server"]) as f:
            rss = int(f.read().split("VmRSS:")[1].split()[0])
        if rss > memory_bound(96 * 1024):
            raise AssertionError("the server holds %d KiB" % rss)


@test
def a_gigabyte_in_one_file_within_bounded_memory():
    # Content with a pattern that differs from chunk to chunk, made as it is sent.
    import struct
    block = 1 << 20

    def content(i):
        return struct.pack("<Q", i) * (block // 8)

    with Skills() as s:
        digest = hashlib.sha256()
        for i in range(1024):
            digest.update(content(i))
        r, w = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(r)
            with open(w, "wb") as f:
                f.write(b"CORDSKL1" + struct.pack(">H", 4) + b"huge")
                f.write(struct.pack(">BBHIQ32s", 1, 0, 3, 0, 1024 * block, digest.digest()) + b"big")
                for i in range(1024):
                    f.write(content(i))
                f.write(struct.pack(">BBHIQ32s", 255, 0, 0, 0, 1, b"\0" * 32))
            os._exit(0)
        os.close(w)
        s.ask(8, b"", [r], timeout=300)
        os.close(r)
        os.waitpid(pid, 0)
        v = s.view(["huge"])
        got = hashlib.sha256()
        with open(v.path + "/huge/big", "rb", buffering=0) as f:
            while part := f.read(block):
                got.update(part)
        equal(got.hexdigest(), digest.hexdigest(), "all of it")
        with open("/proc/%d/status" % s.pids()["server"]) as f:
            peak = int(f.read().split("VmHWM:")[1].split()[0])
        if peak > memory_bound(48 * 1024):
            raise AssertionError("the server held %d KiB" % peak)


@test
def an_overlay_copies_up_files_and_links():
    with Skills() as s:
        s.stage("o", WRITE_FILES)
        v = s.view(["o"])
        for d in ("upper", "work", "merged"):
            os.mkdir(s.root + "/" + d)
        options = "lowerdir=%s/o,upperdir=%s/upper,workdir=%s/work" % (v.path, s.root, s.root)
        merged = s.root + "/merged"
        if libc.mount(b"overlay", os.fsencode(merged), b"overlay", 0, options.encode()) < 0:
            raise Skip("no overlay here: " + os.strerror(ctypes.get_errno()))
        try:
            with open(merged + "/file", "ab") as f:
                f.write(b"more")
            os.lchown(merged + "/link", 1, 1)  # asks for a link's flags on the way
            equal(os.readlink(merged + "/link"), "file", "the link")
            equal(open(merged + "/file", "rb").read(), b"content" * 100 + b"more", "the file")
            equal(open(v.path + "/o/file", "rb").read(), b"content" * 100, "the skill")
        finally:
            umount(merged)


@test
def modes_are_kept_and_scripts_run():
    with Skills() as s:
        s.stage("m", WRITE_FILES)
        v = s.view(["m"])
        modes = {n: stat.S_IMODE(os.lstat(v.path + "/m/" + n).st_mode) for n in ("file", "run.sh", "dir")}
        equal(modes, {"file": 0o644, "run.sh": 0o755, "dir": 0o755}, "modes")
        equal(subprocess.run([v.path + "/m/run.sh"], capture_output=True).stdout, b"ran\n", "runs")
        fails([errno.EACCES], os.execv, v.path + "/m/file", ["x"])
        equal(os.readlink(v.path + "/m/link"), "file", "link")
        equal(open(v.path + "/m/link", "rb").read(), b"content" * 100, "through the link")
        fails([errno.EOPNOTSUPP], os.listxattr, v.path + "/m/file")


main()
