# SPDX-License-Identifier: Apache-2.0
"""A plane of its own for a test, and TAP.

`with Plane() as p:` makes a CORDON_ROOT below /tmp, pins an image from the
store the build shares, brings the plane up and takes it down again, also when
the test is killed. Nothing here knows how the plane works inside; what is
looked at is what a user of the host could look at.
"""
import contextlib
import fcntl
import functools
import hashlib
import http.client
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback

import leftovers
import reports

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("CORDON_BUILD", os.path.join(TOP, "build")))
BIN = os.path.join(BUILD, "bin")
CORDON = os.path.join(BIN, "cordon")
STORE = os.path.join(BUILD, "images")
SCALE = float(os.environ.get("TEST_TIMEOUT_SCALE", "1"))  # patience: of a sanitizer build, say


def memory_bound(kib):
    """@kib, the bound on memory of the ordinary build; of a sanitizer build what stands for it:
    red zones and a shadow go with every byte, and 8 MiB of the freed are kept (confine/confine.c)."""
    return 3 * kib + 16 * 1024 if _sanitized() else kib


@functools.cache
def _sanitized():
    with open(CORDON, "rb") as f:
        return b"__asan_init" in f.read()


# --- TAP

class Skip(Exception):
    """Raised by a test that cannot run here; the text says why."""


_tests = []


def test(function):
    """Registers a test; its name, with blanks for underscores, is its sentence."""
    _tests.append(function)
    return function


def main():
    """Runs the registered tests in order (or those named on the command line)."""
    chosen = [t for t in _tests if len(sys.argv) < 2 or t.__name__ in sys.argv[1:]]
    failed = 0
    print("1..%d" % len(chosen), flush=True)
    for number, function in enumerate(chosen, 1):
        name = function.__name__.replace("_", " ")
        try:
            function()
        except Skip as why:
            print("ok %d - %s # SKIP %s" % (number, name, why), flush=True)
            continue
        except Exception:  # a test's failure is told, whatever it is
            failed += 1
            print("not ok %d - %s" % (number, name))
            for line in traceback.format_exc().splitlines():
                print("# " + line)
            sys.stdout.flush()
            continue
        print("ok %d - %s" % (number, name), flush=True)
    for plane in _live:
        reports.look(plane.log)
    for line in reports.found:
        failed += 1
        print("# " + line)
    sys.exit(1 if failed else 0)


def equal(got, wanted, what=""):
    if got != wanted:
        raise AssertionError("%s: got %r, wanted %r" % (what or "values differ", got, wanted))


def contains(text, part, what=""):
    if part not in text:
        raise AssertionError("%s: %r is not in %r" % (what or "text", part, text))


def eventually(condition, what, seconds=10.0, step=0.02):
    """Polls @condition until it is true; gives its value."""
    end = time.monotonic() + seconds * SCALE
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError("not within %g s: %s" % (seconds, what))
        time.sleep(step)


# --- Running programs

class Result:
    """What a program did: status (negative: a signal), out and err as bytes, seconds."""

    def __init__(self, status, out, err, seconds):
        self.status, self.out, self.err, self.seconds = status, out, err, seconds

    @property
    def text(self):
        return self.out.decode()

    @property
    def error(self):
        return self.err.decode(errors="replace")

    @property
    def json(self):
        return json.loads(self.out)

    def __repr__(self):
        return "Result(%d, out=%r, err=%r)" % (self.status, self.out[-2000:], self.err[-2000:])


class Later(threading.Thread):
    """One call in the background; .answer() waits for it, .result is None until then."""

    def __init__(self, function, *args, **more):
        super().__init__(daemon=True)
        self.call = lambda: function(*args, **more)
        self.result = self.error = None
        self.start()

    def run(self):
        try:
            self.result = self.call()
        except Exception as why:  # told to whoever waits
            self.error = why

    def answer(self):
        self.join(240 * SCALE)
        assert not self.is_alive(), "no answer"
        if self.error:
            raise self.error
        return self.result


def run(argv, data=None, env=None, timeout=120, cwd=None, **more):
    started = time.monotonic()
    done = subprocess.run(argv, input=data, env=env, timeout=timeout * SCALE, cwd=cwd,
                          stdin=subprocess.DEVNULL if data is None else None,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
    reports.look(done.stderr.decode(errors="replace"))
    return Result(done.returncode, done.stdout, done.stderr, time.monotonic() - started)


# --- Planes

_live = []


def _on_signal(number, _frame):
    for plane in list(_live):
        with contextlib.suppress(Exception):
            plane.remove()
    os._exit(128 + number)


def _arm():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _on_signal)


def announce(root, name):
    """Before anything of it is made: for who looks, and sweeps, when the test has ended (tests/run.py)."""
    if "CORDON_INSTANCES" in os.environ:
        with open(os.environ["CORDON_INSTANCES"], "a") as f:
            f.write("%s %s\n" % (root, name))


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("cordon", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def image(name="busybox"):
    """The digest of an image in the shared store, built when it is not there yet."""
    os.makedirs(STORE, exist_ok=True)
    with open(os.path.join(STORE, ".test-lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        reference = os.path.join(STORE, name + ".ref")
        if not os.path.exists(reference):
            with tempfile.TemporaryDirectory(prefix="cordon-build-") as root:
                done = run([CORDON, "--root", root, "image", "build", "--name", name,
                            "--store", STORE], timeout=1200)
                if done.status:
                    raise AssertionError("image build: %r" % done)
        with open(reference) as f:
            return f.read().strip()


class Plane:
    """One instance. keys: configuration lines, with __ for the dot (maximum__pids=9)."""

    def __init__(self, image="busybox", up=True, rollout="on", conf="", **keys):
        self.image_name, self.wants_up = image, up
        self.rollout, self.extra, self.keys = rollout, conf, keys
        self.env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
        for name in os.environ:  # sanitizers and the build say things by environment
            if name.startswith(("ASAN_", "UBSAN_", "CORDON_BUILD", "LLVM_PROFILE")):
                self.env[name] = os.environ[name]

    # --- Making and removing

    def __enter__(self):
        _arm()
        self.root = os.path.realpath(tempfile.mkdtemp(prefix="cdn-", dir="/tmp"))
        os.chmod(self.root, 0o755)
        self.name = "cordon-" + hashlib.sha256(self.root.encode()).hexdigest()[:8]
        announce(self.root, self.name)
        _live.append(self)
        try:
            self.configure()
            if self.wants_up:
                self.up()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_):
        self.remove()

    def path(self, *parts):
        return os.path.join(self.root, *parts)

    @property
    def conf(self):
        return self.path("etc/cordon/cordon.conf")

    @property
    def socket(self):
        return self.path("run/cordon/broker.sock")

    @property
    def log(self):
        try:
            with open(self.path("var/log/cordon/cordond.log"), errors="replace") as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def configure(self, conf=None, **keys):
        """Writes the configuration: the constructor's, with @keys on top."""
        lines = []
        if self.rollout is not None:
            lines.append("rollout = %s" % self.rollout)
        wanted = dict(self.keys, **keys)
        if self.image_name:
            wanted.setdefault("image", image(self.image_name))
            wanted.setdefault("image_store", STORE)
        lines += ["%s = %s" % (k.replace("__", "."), v) for k, v in wanted.items()]
        os.makedirs(os.path.dirname(self.conf), exist_ok=True)
        with open(self.conf, "w") as f:
            f.write("\n".join(lines) + "\n" + (self.extra if conf is None else conf))

    def up(self, check=True, env=None):
        done = self.cordon("up", env=env, timeout=180)
        if check and done.status:
            raise AssertionError("up: %r\n%s" % (done, self.log[-4000:]))
        return done

    def down(self, drain=None, check=True):
        done = self.cordon("down", *([] if drain is None else ["--drain", str(drain)]))
        if check and done.status:
            raise AssertionError("down: %r\n%s" % (done, self.log[-4000:]))
        return done

    def remove(self):
        if self in _live:
            _live.remove(self)
        if not os.path.isdir(self.root):
            return
        with contextlib.suppress(Exception):
            self.cordon("down", timeout=60)
        self._kill_left()
        self._remove_cgroups()
        reports.look(self.log)
        shutil.rmtree(self.root, ignore_errors=True)

    # --- Speaking to it

    def cordon(self, *args, input=None, env=None, timeout=120, **more):
        whole = {**self.env, "CORDON_ROOT": self.root, **(env or {})}
        return run([CORDON, *args], data=input, env=whole, timeout=timeout, **more)

    def run(self, *args, **more):
        return self.cordon("run", *args, **more)

    def sh(self, command, *options, **more):
        """cordon run [options] -c COMMAND"""
        return self.cordon("run", *options, "-c", command, **more)

    def json(self, command, *options, **more):
        """The object of cordon run --json -c COMMAND (a list: as argv)."""
        tail = ["--", *command] if isinstance(command, list) else ["-c", command]
        done = self.cordon("run", "--json", *options, *tail, **more)
        try:
            return json.loads(done.out)
        except ValueError:
            raise AssertionError("no JSON: %r" % done) from None

    def popen(self, *args, env=None, **more):
        return subprocess.Popen([CORDON, *args],
                                env={**self.env, "CORDON_ROOT": self.root, **(env or {})}, **more)

    def api(self, method, path, body=None, timeout=60, raw=False):
        """(status, object) of one call of the HTTP API."""
        connection = UnixConnection(self.socket, timeout)
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        with contextlib.suppress(BrokenPipeError):  # a refusal may come before all is sent
            connection.request(method, path, data, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, text if raw else (json.loads(text) if text else None)

    def seal(self, org="local", user="root", surface="chat", run_id=None):
        args = ["--org", org, "--user", user, "--surface", surface]
        done = self.cordon("session", "seal", *args, *(["--run-id", run_id] if run_id else []))
        equal(done.status, 0, "seal: %r" % done)
        return done.text.strip()

    def open_job(self, carrier=None):
        carrier = carrier or self.seal()
        done = self.cordon("job", "open", "--carrier", "-", input=carrier.encode())
        equal(done.status, 0, "job open: %r" % done)
        return done.text.strip()

    # --- Its processes

    def daemons(self):
        """{name: (pid, ready, restarts)} by cordond's own socket."""
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.settimeout(10)
        try:
            s.connect(self.path("run/cordon/cordond.sock"))
            s.send(struct.pack("=HHI", 1, 3, 0))
            found = {}
            while True:
                packet = s.recv(4096)
                if not packet or struct.unpack_from("=HHI", packet)[1] != 4:
                    return found
                name, pid, ready, restarts, _ = struct.unpack_from("=16siIII", packet, 8)
                found[name.rstrip(b"\0").decode()] = (pid, bool(ready), restarts)
        finally:
            s.close()

    def pid(self, daemon):
        """The process id of a daemon; "cordond" too."""
        if daemon == "cordond":
            with open(self.path("run/cordon/cordond.pid")) as f:
                return int(f.read())
        return self.daemons()[daemon][0]

    def kill(self, daemon, number=signal.SIGKILL):
        pid = self.pid(daemon)
        if pid <= 1:  # between two lives: 0 would be our own process group
            raise AssertionError("%s does not run" % daemon)
        os.kill(pid, number)
        if number == signal.SIGKILL and daemon != "cordond":
            eventually(lambda: self._lost(daemon, pid), "cordond knows of the death of " + daemon)
        return pid

    def _lost(self, daemon, pid):
        """cordond no longer says "ready" of the @daemon that was @pid."""
        try:
            return self.daemons()[daemon][0] != pid
        except (OSError, KeyError):
            return True

    def wait_ready(self, seconds=30):
        def ready():
            try:
                return all(d[1] for d in self.daemons().values())
            except OSError:
                return False
        eventually(ready, "every daemon ready", seconds)

    def cgroups(self):
        """The instance's directories in every cgroup hierarchy."""
        return leftovers.cgroups(self.name)

    def sandboxed(self):
        """Process ids in sandboxes, from the v2 tree."""
        pids = []
        for top in self.cgroups():
            for base, _, files in os.walk(os.path.join(top, "jobs")):
                if "cgroup.procs" in files and "cgroup.kill" in files:
                    with contextlib.suppress(OSError):
                        with open(os.path.join(base, "cgroup.procs")) as f:
                            pids += [int(x) for x in f.read().split()]
        return pids

    # --- What it left

    def left_behind(self):
        """Everything on the host that carries the instance's name or lies in its root."""
        left = leftovers.left_of(self.root, self.name)
        for directory, _, files in os.walk(self.path("run")):
            left += ["file " + os.path.join(directory, x) for x in files]
        return left

    def loops(self):
        return leftovers.loops(self.root)

    def processes(self):
        """Processes in the instance's cgroups, or with its root as working directory."""
        return leftovers.processes(self.root, self.name)

    def _kill_left(self):
        for top in self.cgroups():
            with contextlib.suppress(OSError):
                with open(os.path.join(top, "cgroup.kill"), "w") as f:
                    f.write("1")
        for pid, _ in self.processes():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    def _remove_cgroups(self):
        end = time.monotonic() + 5
        while self.cgroups() and time.monotonic() < end:
            for top in self.cgroups():
                for base, _, _ in os.walk(top, topdown=False):
                    with contextlib.suppress(OSError):
                        os.rmdir(base)
            time.sleep(0.02)
