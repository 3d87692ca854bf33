# SPDX-License-Identifier: Apache-2.0
"""Reading skills: 2,000 small files and one of 256 MiB, cold and warm, against squashfuse_ll, bindfs,
erofs and ext4 in the same run; and what a view for a new job costs.

Cold is a fresh mount over a backing file, image or store whose pages were dropped (by fadvise: nothing
host-wide is touched); for cordon-skills every byte is verified on the way. Warm is the best of the
passes after it. The best of several rounds counts, of everybody."""
import contextlib
import os
import random
import shutil
import statistics
import subprocess
import tempfile
import time

from skills_rig import Skills, clone_mount, libc, private_mounts, umount

ABOUT = "reading skills, against squashfuse_ll, bindfs, erofs and ext4"
ORDER = ("cordon-skills", "squashfuse_ll", "bindfs", "erofs", "ext4")


def content(files, big_bytes):
    """Text-like: what skills are, and what the others may compress."""
    r = random.Random(7)
    words = [("w%d " % r.randrange(3000)).encode() for _ in range(5000)]
    tree = {}
    for i in range(files):
        size, parts, have = r.randrange(300, 9000), [], 0
        while have < size:
            parts.append(words[r.randrange(len(words))])
            have += len(parts[-1])
        tree["d%02d/s%d/file-%04d.md" % (i % 40, i % 7, i)] = b"".join(parts)
    block = os.urandom(1 << 19) + b"".join(words[r.randrange(len(words))] for _ in range(120000))[:1 << 19]
    tree["big.bin"] = b"".join(block[i % 1000:] + block[:i % 1000] for i in range(big_bytes >> 20))
    return tree


def drop(path):
    for base, _, names in os.walk(path) if os.path.isdir(path) else [(os.path.dirname(path), [], [os.path.basename(path)])]:
        for name in names:
            with contextlib.suppress(OSError):
                fd = os.open(os.path.join(base, name), os.O_RDONLY)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(fd)


def call(*argv):
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Peers:
    """The same tree in every form, below one scratch directory, mounted in our own namespace."""

    def __init__(self, scratch, tree):
        self.top, self.point = scratch, os.path.join(scratch, "mnt")
        os.makedirs(self.point)
        self.plain = os.path.join(scratch, "plain")
        for path, data in tree.items():
            full = os.path.join(self.plain, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "wb") as f:
                f.write(data)
        self.images = {n: os.path.join(scratch, n + ".img") for n in ("squash", "erofs", "ext4")}
        call("mksquashfs", self.plain, self.images["squash"], "-comp", "lz4", "-no-progress", "-no-xattrs")
        call("mkfs.erofs", "-zlz4", self.images["erofs"], self.plain)
        size = sum(map(len, tree.values())) + (64 << 20)
        with open(self.images["ext4"], "wb") as f:
            f.truncate(size + size // 8)
        call("mkfs.ext4", "-q", "-F", "-d", self.plain, self.images["ext4"])
        self.server = None
        os.sync()

    def mount(self, name):
        """A fresh mount with nothing cached; gives the directory."""
        for image in self.images.values():
            drop(image)
        if name in ("erofs", "ext4", "bindfs"):
            kind = "erofs" if name == "erofs" else "ext4"
            call("mount", "-o", "ro,loop", "-t", kind, self.images[kind], self.point)
        if name == "squashfuse_ll":
            self.server = subprocess.Popen(["squashfuse_ll", "-f", self.images["squash"], self.point],
                                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if name == "bindfs":
            inner = self.point + ".b"
            os.makedirs(inner, exist_ok=True)
            self.server = subprocess.Popen(["bindfs", "-f", "--no-allow-other", "-r", self.point, inner],
                                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        where = self.point + ".b" if name == "bindfs" else self.point
        end = time.monotonic() + 10
        while not os.path.exists(where + "/big.bin"):
            if time.monotonic() > end:
                raise RuntimeError(name + " does not mount")
            time.sleep(0.01)
        return where

    def unmount(self):
        if os.path.isdir(self.point + ".b"):
            umount(self.point + ".b")
        umount(self.point)
        if self.server:
            self.server.kill()
            self.server.wait()
            self.server = None


class Cordon:
    """cordon-skills with the tree as one skill; every mount is a new one, with a new server."""

    def __init__(self, tree):
        self.rig = Skills()
        self.rig.__enter__()
        self.rig.stage("bench", list(tree.items()))
        self.view = None
        os.sync()

    def mount(self, _name):
        self.rig.kill()
        umount(self.rig.mount_point)
        os.close(self.rig.fuse)
        os.close(self.rig.state)
        drop(self.rig.store)
        self.rig.mount()
        self.rig.start()
        self.view = self.rig.view(["bench"])
        return self.view.path + "/bench"

    def unmount(self):
        self.view.close()

    def done(self):
        self.rig.remove()


def readers(program, mode, where, names):
    data = b"".join(os.fsencode(where + "/" + n) + b"\0" for n in names)
    argv = [program, mode] + ([where + "/big.bin"] if mode in ("seq", "random") else [])
    return int(subprocess.run(argv, input=data, stdout=subprocess.PIPE, check=True).stdout) / 1e6


def shell(command, where):
    begin = time.perf_counter()
    subprocess.run(["sh", "-c", command, "sh", where], stdout=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - begin) * 1e3


def measures(program, names):
    """{what: how(where)}; each gets a fresh mount, then runs again warm."""
    small = [n for n in names if n != "big.bin"]
    return {
        "open+read+close": lambda w: readers(program, "open", w, small),
        "stat": lambda w: readers(program, "stat", w, small),
        "cat": lambda w: shell('find "$1" -name "*.md" -print0 | xargs -0 cat', w),
        "find": lambda w: shell('find "$1"', w),
        "ripgrep": lambda w: shell('rg -j2 -g "*.md" "w29[0-9]9 w1" "$1" || true', w),
        "sequential": lambda w: readers(program, "seq", w, ()),
        "random": lambda w: readers(program, "random", w, ()),
    }


def one(subject, name, how, warm_passes=3):
    where = subject.mount(name)
    try:
        cold = how(where)
        return cold, min(how(where) for _ in range(warm_passes))
    finally:
        subject.unmount()


def view_costs(quick):
    """A view for a new job, as the broker asks for it, with few and many skills in the catalog."""
    rows = {}
    with Skills() as s:
        for catalog, attached in ((1, 1), (200, 1), (200, 32)):
            while catalog > view_costs.staged:
                s.stage("skill-%03d" % view_costs.staged, [("SKILL.md", b"%d" % view_costs.staged)])
                view_costs.staged += 1
            slugs = ["skill-%03d" % i for i in range(attached)]
            times, clones = [], []
            for _ in range(100 if quick else 1000):
                begin = time.perf_counter()
                v = s.view(slugs, attach=False)
                times.append((time.perf_counter() - begin) * 1e3)
                begin = time.perf_counter()
                m = clone_mount(v.handle)
                clones.append((time.perf_counter() - begin) * 1e3)
                os.close(m)
                v.close()
            times.sort()
            rows["%d of %d skills" % (attached, catalog)] = {
                "p50_ms": statistics.median(times), "p99_ms": times[int(len(times) * .99)],
                "clone_ms": statistics.median(clones)}
    return rows


view_costs.staged = 0


def bench(b):
    private_mounts()
    tree = content(200 if b.quick else 2000, (32 if b.quick else 256) << 20)
    scratch = tempfile.mkdtemp(prefix="cdn-bench-", dir="/tmp")
    cordon = None
    try:
        peers, cordon = Peers(scratch, tree), Cordon(tree)
        cold, warm = {n: {} for n in ORDER}, {n: {} for n in ORDER}
        for what, how in measures(b.tool("readers"), list(tree)).items():
            runs = {name: [] for name in ORDER}
            for _ in range(1 if b.quick else 4):  # in turns: what else the machine does meets all alike
                for name in ORDER:
                    runs[name].append(one(cordon if name == "cordon-skills" else peers, name, how))
            for name in ORDER:
                cold[name][what], warm[name][what] = (min(r[i] for r in runs[name]) for i in (0, 1))
        b.table("cold, ms (%d small files, %d MiB)" % (len(tree) - 1, len(tree["big.bin"]) >> 20), cold)
        b.table("warm, ms", warm)
        for what in cold["erofs"]:
            b.aim("skills: %s warm, against erofs" % what,
                  warm["cordon-skills"][what] / warm["erofs"][what], below=1.2)
            b.aim("skills: %s cold and verified, against squashfuse_ll" % what,
                  cold["cordon-skills"][what] / cold["squashfuse_ll"][what], below=1.0)
    finally:
        if cordon:
            cordon.done()
        for path in ("mnt.b", "mnt"):
            umount(os.path.join(scratch, path))
        shutil.rmtree(scratch, ignore_errors=True)
    rows = view_costs(b.quick)
    b.table("a view for a new job", rows)
    for name, r in rows.items():
        b.aim("skills: a view, %s, ms" % name, r["p50_ms"], below=0.2)
