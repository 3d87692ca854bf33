# SPDX-License-Identifier: Apache-2.0
"""A whole internet for a test, and no way out of it.

`net = Internet()` puts the calling process into a network namespace of its own
(the *host*, where a plane or a gateway is then started) and makes a second one
(the *world*), joined by one veth pair. The world owns 203.0.113.0/24,
198.51.100.0/24 and 2001:db8:77::/64, every address of them; nothing leads
further, so no packet can reach anything real. Protected addresses can be given
to the world too (net.own("10.9.9.9")), to see that nobody dials them.

Servers are threads of the test whose sockets were made inside the world.
"""
import contextlib
import ctypes
import os
import socket
import ssl
import struct
import subprocess
import tempfile
import threading
import time

CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)

HOST4, WORLD4 = "198.18.0.1", "198.18.0.2"
HOST6, WORLD6 = "2001:db8:99::1", "2001:db8:99::2"
DNS = "203.0.113.53"


def _check(rc, what):
    if rc != 0:
        raise OSError(ctypes.get_errno(), what + ": " + os.strerror(ctypes.get_errno()))


def unshare_net():
    _check(_libc.unshare(CLONE_NEWNET), "unshare")


def enter(fd):
    _check(_libc.setns(fd, CLONE_NEWNET), "setns")


def own_net():
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Internet:
    def __init__(self):
        unshare_net()
        self.host = own_net()
        unshare_net()
        self.world = own_net()
        self.names = {}
        self.queries = []
        with self.inside():
            ip("link", "set", "lo", "up")
        enter(self.host)
        ip("link", "set", "lo", "up")
        self._join()

    def _join(self):
        """A veth pair: made in the world, one end handed to the host by pid."""
        with self.inside():
            ip("link", "add", "world0", "type", "veth", "peer", "name", "up0")
            holder = _Holder(self.host)
            ip("link", "set", "up0", "netns", str(holder.pid))
            ip("addr", "add", WORLD4 + "/30", "dev", "world0")
            ip("addr", "add", WORLD6 + "/64", "dev", "world0", "nodad")
            ip("link", "set", "world0", "up")
            for net in ("203.0.113.0/24", "198.51.100.0/24", "2001:db8:77::/64"):
                self._local(net)
            holder.end()
        ip("addr", "add", HOST4 + "/30", "dev", "up0")
        ip("addr", "add", HOST6 + "/64", "dev", "up0", "nodad")
        ip("link", "set", "up0", "up")
        ip("route", "add", "default", "via", WORLD4)
        ip("-6", "route", "add", "default", "via", WORLD6)

    def _local(self, net):
        ip(*(["-6"] if ":" in net else []), "route", "add", "local", net, "dev", "lo")

    def own(self, net):
        """The world answers for @net too (an address or a network)."""
        with self.inside():
            self._local(net)

    @contextlib.contextmanager
    def inside(self):
        """Sockets made in this block belong to the world."""
        back = own_net()
        enter(self.world)
        try:
            yield
        finally:
            enter(back)
            os.close(back)

    # --- Servers

    def listen(self, address, port, backlog=4096):
        with self.inside():
            s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._bind(s, address, port)
            s.listen(backlog)
        return s

    def serve(self, address, port, handler):
        """handler(sock) in a thread for every connection."""
        s = self.listen(address, port)

        def one(conn):
            with conn, contextlib.suppress(OSError):
                handler(conn)

        def run():
            with contextlib.suppress(OSError):
                while True:
                    conn, _ = s.accept()
                    threading.Thread(target=one, args=(conn,), daemon=True).start()

        threading.Thread(target=run, daemon=True).start()
        return s

    def udp(self, address, port):
        with self.inside():
            s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET,
                              socket.SOCK_DGRAM)
            self._bind(s, address, port)
        return s

    @staticmethod
    def _bind(s, address, port):
        if s.family == socket.AF_INET6:
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            s.setsockopt(socket.IPPROTO_IPV6, 78, 1)  # IPV6_FREEBIND: a route makes it local
        s.bind((address, port))

    # --- Names

    def dns(self, names, address=DNS, port=53):
        """
        A name server. names: name -> list of answers, each used once and the
        last one for ever. An answer is a list of addresses, or a callable
        (query, name, type) -> bytes, or None for no answer.
        """
        self.names.update(names)
        sock = self.udp(address, port)
        uses = {}

        def run():
            while True:
                try:
                    query, peer = sock.recvfrom(4096)
                except OSError:
                    return
                name, kind, _ = read_question(query)
                self.queries.append((name, kind))
                answers = self.names.get(name)
                if answers is None:
                    reply = build(query, [], rcode=3)
                else:
                    n = uses.get((name, kind), 0)
                    uses[(name, kind)] = n + 1
                    answer = answers[min(n, len(answers) - 1)]
                    reply = answer(query, name, kind) if callable(answer) else \
                        answer_addresses(query, name, kind, answer)
                if reply is not None:
                    with contextlib.suppress(OSError):
                        sock.sendto(reply, peer)

        threading.Thread(target=run, daemon=True).start()
        return sock


class _Holder:
    """A process in a namespace, for tools that name namespaces by pid."""

    def __init__(self, ns):
        r, w = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(r)
            enter(ns)
            os.write(w, b"x")
            os.close(w)
            time.sleep(60)
            os._exit(0)
        os.close(w)
        os.read(r, 1)
        os.close(r)

    def end(self):
        os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)


# --- DNS packets, honest and otherwise

A, CNAME, AAAA = 1, 5, 28


def encode(name):
    out = b""
    for label in name.split("."):
        out += bytes([len(label)]) + label.encode()
    return out + b"\0"


def read_question(query):
    at, labels = 12, []
    while query[at]:
        labels.append(query[at + 1:at + 1 + query[at]].decode("latin-1"))
        at += 1 + query[at]
    return ".".join(labels).lower(), struct.unpack(">H", query[at + 1:at + 3])[0], at + 5


def record(name, kind, data, ttl=0):
    return encode(name) + struct.pack(">HHIH", kind, 1, ttl, len(data)) + data


def build(query, records, rcode=0, ident=None, flags=0x8180, question=None, count=None):
    end = read_question(query)[2]
    head = query[:2] if ident is None else ident
    return head + struct.pack(">HHHHH", flags | rcode, 1, len(records) if count is None else count,
                              0, 0) + (question or query[12:end]) + b"".join(records)


def answer_addresses(query, name, kind, addresses):
    records = []
    for a in addresses:
        family = AAAA if ":" in a else A
        if family == kind:
            data = socket.inet_pton(socket.AF_INET6 if kind == AAAA else socket.AF_INET, a)
            records.append(record(name, kind, data))
    return build(query, records)


# --- Origins

def read_head(sock):
    data = b""
    while b"\r\n\r\n" not in data:
        more = sock.recv(65536)
        if not more:
            return data
        data += more
    return data


def echo(sock):
    while True:
        data = sock.recv(65536)
        if not data:
            return
        sock.sendall(data)


def endless(sock):
    block = bytes(65536)
    while True:
        sock.sendall(block)


def silent(sock):
    while sock.recv(65536):
        pass


class Http:
    """An origin that remembers every byte it was sent and answers 200."""

    def __init__(self, body=b"hello\n", close=False):
        self.heads, self.body, self.close = [], body, close

    def __call__(self, sock):
        data = read_head(sock)
        if not data:
            return
        self.heads.append(data)
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" %
                     (len(self.body), self.body))
        # What else comes is remembered too: nothing should.
        sock.settimeout(0.3)
        with contextlib.suppress(OSError):
            while True:
                more = sock.recv(65536)
                if not more:
                    return
                self.heads[-1] += more


class Authority:
    """A certificate authority of the test's own, and contexts for its servers."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="cordon-test-ca-")
        self.ca = os.path.join(self.dir, "ca.pem")
        self._key = os.path.join(self.dir, "ca.key")
        self._run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                  "-keyout", self._key, "-out", self.ca, "-days", "2", "-subj", "/CN=Test CA")

    def _run(self, *words):
        subprocess.run(["openssl", *words], check=True, capture_output=True)

    def context(self, *names):
        base = os.path.join(self.dir, names[0].replace("*", "_"))
        with open(base + ".ext", "w") as f:
            f.write("subjectAltName=" + ",".join("DNS:" + n for n in names))
        self._run("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                  "-keyout", base + ".key", "-out", base + ".csr", "-subj", "/CN=" + names[0])
        self._run("x509", "-req", "-in", base + ".csr", "-CA", self.ca, "-CAkey", self._key,
                  "-CAcreateserial", "-days", "2", "-extfile", base + ".ext", "-out", base + ".pem")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(base + ".pem", base + ".key")
        return context

    def remove(self):
        subprocess.run(["rm", "-rf", self.dir], check=False)
