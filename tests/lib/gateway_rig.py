# SPDX-License-Identifier: Apache-2.0
"""A real cordon-gateway, started the way cordond does, told of rooms the way the
worker does and registered with the way the broker does.

A Room is a network namespace with nothing but lo and the gateway's address in
it, like a slot's; `with room.inside():` makes sockets there.
"""
import base64
import contextlib
import ctypes
import fcntl
import json
import os
import select
import signal
import socket
import struct
import subprocess
import tempfile
import time

import internet
import reports

BUILD = os.environ.get("CORDON_BUILD", "build")
SUPERVISOR_FD = 3
S_START, S_READY, S_PEER, S_RELOAD, S_RELOADED, S_STOP, S_FATAL = range(1, 8)
SFD_CONFIG, SFD_BROKER, SFD_WORKER = 1, 3, 4
(G_ROOM, G_ROOM_GONE, G_READY, G_REGISTER, G_REGISTERED, G_UNREGISTER, G_COUNTS, G_LIVE,
 G_DESTINATION, G_END, G_CHECK, G_CHECKED) = range(1, 13)
NONE, ALLOWLIST, DEFAULT_INTERNET = range(3)
GATEWAY, PORT = "100.64.0.1", 3128
UID = 245003


def sealed(text):
    fd = os.memfd_create("config", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(fd, text.encode())
    fcntl.fcntl(fd, 1033, 0xf)  # F_ADD_SEALS: seal, shrink, grow, write
    return fd


def pair():
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(sock, kind, body=b"", fds=()):
    packet = struct.pack("<HHI", 1, kind, len(body)) + body
    socket.send_fds(sock, [packet], list(fds))


def receive(sock, timeout=10):
    if not select.select([sock], [], [], timeout)[0]:
        raise AssertionError("no message within %g s" % timeout)
    data = sock.recv(70000)
    if not data:
        raise EOFError("the gateway hung up")
    return struct.unpack("<HHI", data[:8])[1], data[8:]


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def text(raw):
    return raw.split(b"\0", 1)[0].decode()


class Refused(Exception):
    pass


class Gateway:
    def __init__(self, resolver=internet.DNS, start=True, **keys):
        self.keys = {"gateway.resolver": resolver}
        self.keys.update({k.replace("__", "."): v for k, v in keys.items()})
        self.log = tempfile.TemporaryFile()
        self.pid = 0
        self.requests = 0
        self.slots = 0
        if start:
            self.start()

    def start(self):
        mine, theirs = pair()
        self.broker, broker = pair()
        self.worker, worker = pair()
        self.pid = os.fork()
        if self.pid == 0:
            die_with_parent()
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as cordond; Python ignores it
            null = os.open("/dev/null", os.O_RDWR)
            os.dup2(null, 0)
            os.dup2(self.log.fileno(), 1)
            os.dup2(self.log.fileno(), 2)
            high = fcntl.fcntl(theirs.fileno(), fcntl.F_DUPFD, 100)
            os.dup2(high, SUPERVISOR_FD)
            os.closerange(4, 256)
            path = os.path.join(os.path.abspath(BUILD), "bin/cordon-gateway")
            with contextlib.suppress(OSError):
                os.execve(path, ["cordon-gateway"], {})
            os._exit(127)
        theirs.close()
        self.control = mine
        config = "".join("%s = %s\n" % kv for kv in self.keys.items())
        body = struct.pack("<256s24sIII8I", b"/nonexistent", b"cordon-00000000", UID, UID, 3,
                           SFD_CONFIG, SFD_BROKER, SFD_WORKER, 0, 0, 0, 0, 0)
        fd = sealed(config)
        send(mine, S_START, body, [fd, broker.fileno(), worker.fileno()])
        os.close(fd)
        broker.close()
        worker.close()
        kind, body = receive(mine)
        if kind == S_FATAL:
            os.waitpid(self.pid, 0)
            self.pid = 0
            raise Refused(text(body[4:]))
        assert kind == S_READY, kind
        assert receive(self.broker)[0] == G_READY

    def logged(self):
        self.log.seek(0)
        return self.log.read().decode()

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self.pid = 0

    def stop(self):
        """Ends it in an orderly way; gives its exit status."""
        send(self.control, S_STOP, struct.pack("<II", 0, 0))
        status = os.waitpid(self.pid, 0)[1]
        self.pid = 0
        return status

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.pid:
            self.kill()
        reports.look(self.logged())

    def rss(self):
        with open("/proc/%d/status" % self.pid) as f:
            return [int(l.split()[1]) for l in f if l.startswith("VmRSS")][0] * 1024

    def descriptors(self):
        return len(os.listdir("/proc/%d/fd" % self.pid))

    # --- worker

    def room(self, register=True, **policy):
        self.slots += 1
        r = Room(self, self.slots)
        if register:
            r.register(**policy)
        return r

    # --- broker

    def ask(self, kind, body):
        send(self.broker, kind, body)
        return receive(self.broker)

    def message(self, slot, token="", tier=DEFAULT_INTERNET, hosts=(), max_bytes=0, used=0,
                port=0, host="", nhosts=None):
        self.requests += 1
        entries = b"".join(h.encode() + b"\0" for h in hosts)
        return struct.pack("<QQQQIIII72s256s", self.requests, slot, max_bytes, used, tier,
                           len(hosts) if nhosts is None else nhosts, len(entries), port,
                           token.encode(), host.encode()) + entries

    def check(self, host, port, **policy):
        kind, body = self.ask(G_CHECK, self.message(0, host=host, port=port, **policy))
        assert kind == G_CHECKED
        return struct.unpack("<I", body[8:12])[0], text(body[16:])

    def live(self, slot=0):
        self.requests += 1
        send(self.broker, G_LIVE, struct.pack("<QQ", self.requests, slot))
        found = []
        while True:
            kind, body = receive(self.broker)
            if kind == G_END:
                return found
            _, slot_, host, port, open_, allowed, denied, out, in_ = struct.unpack(
                "<QQ256sIIQQQQ", body)
            found.append({"slot": slot_, "host": text(host), "port": port, "open": open_,
                          "allowed": allowed, "denied": denied, "out": out, "in": in_})


class Room:
    def __init__(self, gateway, slot):
        self.gateway, self.slot = gateway, slot
        self.token = base64.b16encode(os.urandom(16)).decode().lower()
        back = internet.own_net()
        internet.unshare_net()
        try:
            self.ns = internet.own_net()
            internet.ip("link", "set", "lo", "up")
            internet.ip("addr", "add", GATEWAY + "/32", "dev", "lo")
            s = socket.socket()
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            s.bind((GATEWAY, PORT))
            s.listen(4096)
            s.setblocking(False)
        finally:
            internet.enter(back)
            os.close(back)
        send(gateway.worker, G_ROOM, struct.pack("<Q", slot), [s.fileno()])
        s.close()

    def register(self, token=None, **policy):
        if token:
            self.token = token
        kind, body = self.gateway.ask(G_REGISTER,
                                      self.gateway.message(self.slot, self.token, **policy))
        assert kind == G_REGISTERED
        code, why = struct.unpack("<i", body[8:12])[0], text(body[16:])
        if code:
            raise Refused("%d %s" % (code, why))

    def unregister(self):
        self.gateway.requests += 1
        kind, body = self.gateway.ask(G_UNREGISTER, struct.pack("<QQ", self.gateway.requests,
                                                                self.slot))
        assert kind == G_COUNTS
        names = ("code", "ndenied", "used", "out", "in", "wire", "slack", "allowed", "denied",
                 "unlisted")
        counts = dict(zip(names, struct.unpack("<iIQQQQQQQQ", body[16:88])))
        counts["list"] = []
        for i in range(counts["ndenied"]):
            host, port, verdict, n = struct.unpack("<256sIIQ", body[88 + 272 * i:360 + 272 * i])
            counts["list"].append((text(host), port, verdict, n))
        return counts

    def gone(self):
        send(self.gateway.worker, G_ROOM_GONE, struct.pack("<Q", self.slot))

    @contextlib.contextmanager
    def inside(self):
        back = internet.own_net()
        internet.enter(self.ns)
        try:
            yield
        finally:
            internet.enter(back)
            os.close(back)

    def connect(self, timeout=10):
        with self.inside():
            s = socket.socket()
            s.settimeout(timeout)
            s.connect((GATEWAY, PORT))
        return s

    def credential(self, token=None):
        pair_ = "%s:x" % (self.token if token is None else token)
        return "Proxy-Authorization: Basic %s\r\n" % base64.b64encode(pair_.encode()).decode()

    def raw(self, data, timeout=10):
        """Sends bytes, reads to the end."""
        s = self.connect(timeout)
        with s:
            s.sendall(data)
            return read_all(s)

    def open(self, target, token=None, extra="", timeout=10):
        """CONNECT. Gives (status, head, socket)."""
        s = self.connect(timeout)
        s.sendall(("CONNECT %s HTTP/1.1\r\nHost: %s\r\n%s%s\r\n" %
                   (target, target, self.credential(token), extra)).encode())
        head = internet.read_head(s)
        return int(head.split()[1]) if head else 0, head, s

    def tunnel(self, target, **more):
        status, head, s = self.open(target, **more)
        if status != 200:
            raise Refused(head.decode("latin-1"))
        return s

    def get(self, url, token=None, extra="", timeout=10, method="GET", version="1.1"):
        host = url.split("/")[2].split("?")[0]
        return Answer(self.raw(("%s %s HTTP/%s\r\nHost: %s\r\n%sConnection: close\r\n%s\r\n" % (
            method, url, version, host, self.credential(token), extra)).encode(), timeout))

    def reason(self, target, **more):
        """The reason of a refused CONNECT, or 'allowed'."""
        status, head, s = self.open(target, **more)
        with s:
            return "allowed" if status == 200 else Answer(head + read_all(s)).reason


class Answer:
    def __init__(self, data):
        head, _, self.body = data.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        self.status = int(lines[0].split()[1]) if data else 0
        self.fields = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            self.fields[name.lower()] = value.strip()
        self.reason = self.fields.get("cordon-reason")

    @property
    def json(self):
        return json.loads(self.body)


def read_all(s):
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while True:
            more = s.recv(65536)
            if not more:
                break
            data += more
    return data


def wait_for(condition, what, seconds=10):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("not within %g s: %s" % (seconds, what))
        time.sleep(0.01)
