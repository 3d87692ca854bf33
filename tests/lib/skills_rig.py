# SPDX-License-Identifier: Apache-2.0
"""A real cordon-skills, started the way cordond does, spoken to the way the broker does.

`with Skills() as s:` makes ROOT in a temporary directory of mode 0700, a FUSE
mount in a mount namespace of the test's own, and the three processes. The rig
keeps what cordond would keep (the FUSE descriptor and the state), so it can
kill and restart them over the same mount. s.view([...]) gives the path of a
view bound where a slot would have its /skills.
"""
import contextlib
import ctypes
import fcntl
import hashlib
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time

import reports
from cordon import BIN

SKILLS = os.path.join(BIN, "cordon-skills")
(S_START, S_READY, S_PEER, S_RELOAD, S_RELOADED, S_STOP, S_FATAL) = range(1, 8)
SFD_CONFIG, SFD_BROKER, SFD_FUSE, SFD_STATE = 1, 3, 8, 10
(K_ROOT, K_VIEW_OPEN, K_VIEW, K_VIEW_BIND, K_VIEW_COUNT, K_VIEW_CLOSE, K_COUNTS, K_STAGE, K_STAGED,
 K_REMOVE, K_REMOVED, K_REFUSED, K_READY) = range(1, 14)
UID, GID = 245004, 245004
libc = ctypes.CDLL(None, use_errno=True)


# --- System calls that Python has no word for

def syscall(number, *args):
    values = [ctypes.c_char_p(a) if isinstance(a, bytes) else ctypes.c_long(a) if isinstance(a, int)
              else a for a in args]
    rc = libc.syscall(ctypes.c_long(number), *values)
    if rc < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(number))
    return rc


def private_mounts():
    """A mount namespace of this process's own, once."""
    if not getattr(private_mounts, "done", False):
        if libc.unshare(0x20000) < 0:
            raise OSError(ctypes.get_errno(), "unshare")
        if libc.mount(b"none", b"/", None, 0x4000 | 0x40000, None) < 0:
            raise OSError(ctypes.get_errno(), "mount private")
        private_mounts.done = True


FSCONFIG_FLAG, FSCONFIG_STRING, FSCONFIG_CREATE = 0, 1, 6
MOUNT_RDONLY, MOUNT_NOSUID, MOUNT_NODEV, MOUNT_NOATIME = 1, 2, 4, 0x10


def fuse_mount(fuse, writable=False):
    """A detached mount of the superblock behind @fuse; made at the first call, shared after."""
    fs = syscall(430, b"fuse", 1)
    options = [("source", "cordon-skills"), ("fd", str(fuse)), ("rootmode", "40000"),
               ("user_id", "0"), ("group_id", "0")]
    for key, value in options:
        syscall(431, fs, FSCONFIG_STRING, key.encode(), value.encode(), 0)
    for flag in ["allow_other", "default_permissions"] + ([] if writable else ["ro"]):
        syscall(431, fs, FSCONFIG_FLAG, flag.encode(), 0, 0)
    syscall(431, fs, FSCONFIG_CREATE, 0, 0, 0)
    attr = MOUNT_NOSUID | MOUNT_NODEV | MOUNT_NOATIME | (0 if writable else MOUNT_RDONLY)
    mount = syscall(432, fs, 1, attr)
    os.close(fs)
    return mount


def move_mount(fd, path):
    syscall(429, fd, b"", -100, path.encode(), 4)


def clone_mount(fd):
    """open_tree of an O_PATH handle, as the worker does."""
    return syscall(428, fd, b"", 0x1000 | 1 | os.O_CLOEXEC)


def umount(path):
    libc.umount2(os.fsencode(path), 2)


def die_with_parent():
    libc.prctl(1, signal.SIGKILL)


# --- Streams (skill/stream.h)

def record(kind, path, data, sha=None, mode=0o644):
    sha = hashlib.sha256(data).digest() if sha is None else sha
    return struct.pack(">BBHIQ32s", kind, mode == 0o755, len(path), 0, len(data), sha) + path + data


def stream(slug, files, end=None):
    """files: list of (path, data[, mode]) or (path, ('link', target)); bytes or str."""
    slug = os.fsencode(slug)
    parts = [b"CORDSKL1" + struct.pack(">H", len(slug)) + slug]
    for item in files:
        path, data = os.fsencode(item[0]), item[1]
        mode = item[2] if len(item) > 2 else 0o644
        if isinstance(data, tuple):
            parts.append(record(2, path, os.fsencode(data[1])))
        else:
            parts.append(record(1, path, data.encode() if isinstance(data, str) else data,
                                mode=mode))
    count = len(files) if end is None else end
    parts.append(struct.pack(">BBHIQ32s", 255, 0, 0, 0, count, b"\0" * 32))
    return b"".join(parts)


# --- Messages

class Refused(Exception):
    def __init__(self, reason, text):
        super().__init__("%d: %s" % (reason, text))
        self.reason, self.text = reason, text


def send(sock, kind, body=b"", fds=()):
    data = struct.pack("<HHI", 1, kind, len(body)) + body
    socket.send_fds(sock, [data], list(fds))


def receive(sock, timeout=20):
    sock.settimeout(timeout)
    data, fds, _flags, _ = socket.recv_fds(sock, 70000, 8)
    if not data:
        raise EOFError("the other end is gone")
    version, kind, length = struct.unpack_from("<HHI", data)
    assert version == 1 and length == len(data) - 8, (version, length, len(data))
    return kind, data[8:], fds


def sealed(text):
    fd = os.memfd_create("config", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(fd, text.encode())
    fcntl.fcntl(fd, 1033, 0xf)
    return fd


class View:
    def __init__(self, rig, number, handle, digests, requires):
        self.rig, self.number, self.handle = rig, number, handle
        self.digests, self.requires = digests, requires
        self.path = None

    def attach(self):
        self.path = os.path.join(self.rig.root, "slot", str(self.number))
        os.makedirs(self.path, exist_ok=True)
        mount = clone_mount(self.handle)
        move_mount(mount, self.path)
        os.close(mount)
        return self.path

    def counts(self):
        return self.rig.counts(self.number)

    def bind(self, uid):
        send(self.rig.broker, K_VIEW_BIND, struct.pack("<QII", self.number, uid, 0))

    def close(self, detach=True):
        if detach and self.path:
            umount(self.path)
        with contextlib.suppress(OSError):
            os.close(self.handle)
        return self.rig.counts(self.number, K_VIEW_CLOSE)


_live = []


def _on_signal(number, _frame):
    for rig in list(_live):
        with contextlib.suppress(Exception):
            rig.remove()
    os._exit(128 + number)


class Skills:
    def __init__(self, writable=False, start=True):
        self.writable, self.wants_start = writable, start
        self.child = self.broker = None
        self.req = 0
        self.seen = {}
        self.session = int.from_bytes(os.urandom(8), "little") | 1

    def __enter__(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, _on_signal)
        private_mounts()
        self.root = os.path.realpath(tempfile.mkdtemp(prefix="cdn-", dir="/tmp"))
        _live.append(self)
        self.state_dir = os.path.join(self.root, "var/lib/cordon")
        self.store = os.path.join(self.state_dir, "skills")
        self.mount_point = os.path.join(self.root, "mnt")
        os.makedirs(self.state_dir)
        os.makedirs(self.mount_point)
        os.makedirs(os.path.join(self.root, "slot"))
        self.log_path = os.path.join(self.root, "log")
        if self.wants_start:
            self.mount()
            self.start()
        return self

    def mount(self):
        self.fuse = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        self.state = os.memfd_create("skills-state", os.MFD_CLOEXEC)
        mount = fuse_mount(self.fuse, self.writable)
        move_mount(mount, self.mount_point)
        os.close(mount)

    def start(self):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.broker, broker = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.log = open(self.log_path, "ab")
        fd = theirs.fileno()

        def become():
            die_with_parent()
            os.dup2(fd, 3)

        self.child = subprocess.Popen(["cordon-skills"], executable=SKILLS, env={}, close_fds=True,
                                      pass_fds=(3,) if fd != 3 else (3,), preexec_fn=become,
                                      stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        theirs.close()
        self.cordond = ours
        config = sealed("")
        fds = [config, broker.fileno(), self.fuse, self.state]
        kinds = [SFD_CONFIG, SFD_BROKER, SFD_FUSE, SFD_STATE]
        body = struct.pack("<256s24sIII8I", self.root.encode(), b"cordon-00000000", UID, GID,
                           len(fds), *(kinds + [0] * (8 - len(kinds))))
        send(ours, S_START, body, fds)
        os.close(config)
        broker.close()
        kind, body, _ = receive(ours, 30)
        if kind == S_FATAL:
            raise AssertionError("fatal: %r" % body)
        assert kind == S_READY, kind
        kind, _, _ = receive(self.broker)
        assert kind == K_READY, kind
        self.send_root()

    def send_root(self):
        root = os.open(self.mount_point, os.O_PATH | os.O_DIRECTORY)
        send(self.broker, K_ROOT, struct.pack("<Q", self.session), [root])
        os.close(root)

    def kill(self, number=signal.SIGKILL):
        """Ends the keeper; the other two go with it."""
        pids = self.pids()
        self.child.send_signal(number)
        self.child.wait(20)
        for sock in (self.cordond, self.broker):
            sock.close()
        end = time.monotonic() + 5
        while any(os.path.exists("/proc/%d/exe" % p) and self._alive(p) for p in pids.values()):
            assert time.monotonic() < end, "a role outlives the keeper"
            time.sleep(0.005)

    @staticmethod
    def _alive(pid):
        try:
            with open("/proc/%d/stat" % pid) as f:
                return f.read().rpartition(")")[2].split()[0] not in "ZX"
        except OSError:
            return False

    def restart(self):
        self.kill()
        self.start()

    def pids_alive(self):
        """Of the roles last seen by pids(), those that still live."""
        return [p for p in self.seen.values() if self._alive(p)]

    def pids(self):
        """{'server': pid, 'stager': pid}"""
        found = self.seen = {}
        with open("/proc/%d/task/%d/children" % (self.child.pid, self.child.pid)) as f:
            for pid in map(int, f.read().split()):
                with open("/proc/%d/cmdline" % pid) as c:
                    found[c.read().split("\0")[1]] = pid
        return found

    def remove(self):
        if self in _live:
            _live.remove(self)
        if self.child and self.child.poll() is None:
            self.child.kill()
            self.child.wait()
        slots = os.path.join(self.root, "slot")
        for name in os.listdir(slots):
            umount(os.path.join(slots, name))
        umount(self.mount_point)
        for fd in ("fuse", "state"):
            with contextlib.suppress(Exception):
                os.close(getattr(self, fd))
        reports.look_at(self.log_path)
        shutil.rmtree(self.root, ignore_errors=True)

    def __exit__(self, *_):
        self.remove()

    def logged(self):
        with open(self.log_path, errors="replace") as f:
            return f.read()

    # --- Requests

    def ask(self, kind, rest=b"", fds=(), timeout=60):
        self.req += 1
        send(self.broker, kind, struct.pack("<Q", self.req) + rest, fds)
        while True:
            got, body, handles = receive(self.broker, timeout)
            if struct.unpack_from("<Q", body)[0] == self.req:
                break
            for h in handles:
                os.close(h)
        if got == K_REFUSED:
            reason = struct.unpack_from("<I", body, 8)[0]
            raise Refused(reason, body[16:].split(b"\0")[0].decode(errors="replace"))
        return got, body, handles

    def stage_bytes(self, data, timeout=120):
        """Sends a raw stream; gives the manifest's digest as hex."""
        r, w = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(r)
            with contextlib.suppress(OSError):
                view = memoryview(data)
                while view:
                    view = view[os.write(w, view):]
            os._exit(0)
        os.close(w)
        try:
            _, body, _ = self.ask(K_STAGE, b"", [r], timeout)
        finally:
            os.close(r)
            os.waitpid(pid, 0)
        self.staged = body
        return body[8:40].hex()

    def stage(self, slug, files, **more):
        return self.stage_bytes(stream(slug, files), **more)

    def drop(self, slug, digest=None):
        body = struct.pack("<II32s256s", digest is not None, 0, bytes.fromhex(digest or ""),
                           os.fsencode(slug))
        self.ask(K_REMOVE, body)

    def view(self, slugs, attach=True):
        data = b"".join(os.fsencode(s) + b"\0" for s in slugs)
        _, body, handles = self.ask(K_VIEW_OPEN, struct.pack("<II", len(slugs), len(data)) + data)
        number, count = struct.unpack_from("<QI", body, 8)
        rows = [struct.unpack_from("<32sII", body, 24 + 40 * i) for i in range(count)]
        view = View(self, number, handles[0], [r[0].hex() for r in rows], [r[1] for r in rows])
        if attach:
            view.attach()
        return view

    def counts(self, number, kind=K_VIEW_COUNT):
        _, body, _ = self.ask(kind, struct.pack("<Q", number))
        return dict(zip(("lookups", "bytes", "corrupt"), struct.unpack_from("<QQQ", body, 8)))

    def blob(self, data):
        return os.path.join(self.store, "blobs", hashlib.sha256(data).hexdigest())
