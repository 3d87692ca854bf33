#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Every way a packet could leave a sandbox, each with its row and its control: sockets
made before a policy changed, from a child cgroup, from the host's own network, in the
gateway's place, with the daemons killed in between (E2, E6, E10; ESCAPES d39 to d41, d43)."""
# cordon-test: timeout=400
import contextlib
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import internet  # noqa: E402
from cordon import Plane, equal, eventually, main, test  # noqa: E402
from hostile import cmdline, probe, put  # noqa: E402

PORT = 45600  # row N of tests/probe/before.c goes to PORT + N
TARGET4, TARGET6 = "203.0.113.77", "2001:db8:77::77"  # the world owns them
ORIGIN = "203.0.113.10"
NAMES = ("tcp4 tcp6 tcp-mapped tcp4-fastopen mptcp4 mptcp6 sctp4 sctp6 udp4 udp4-sendto udp6 udp6-sendto "
         "udp-mapped udplite4 udplite6 ping4 ping6 icmp4 icmp6 raw4 raw6 raw4-header packet-raw "
         "packet-dgram vsock netlink").split()
# The kernel's programs judge inet packets; these are the launcher's filter's and the namespaces'.
NOT_INET = {"packet-raw", "packet-dgram", "vsock", "netlink"}
SOCKETS_OF_A_SANDBOX = {"tcp4", "tcp6", "tcp-mapped", "tcp4-fastopen", "udp4", "udp4-sendto", "udp6",
                        "udp6-sendto", "udp-mapped"}
net = None
planes = []


def setup():
    global net
    net = internet.Internet()
    net.dns({"good.example": [[ORIGIN]]})
    net.serve(ORIGIN, 80, internet.Http(body=b"hello\n"))
    with open("/proc/sys/net/ipv4/ping_group_range", "w") as f:
        f.write("0 2147483647")  # of this namespace: else the control for ping could not be


def plane(**keys):
    return Plane(gateway__resolver=internet.DNS, **keys)


def shared():
    if not planes:
        planes.append(plane().__enter__())
        put(planes[0], "reach", "before", options=["--egress", "none"])
    return planes[0]


class Ear:
    """Hears by which rows something came: on the wire and on the listeners of the host."""

    def __init__(self):
        self.heard, self.stop = set(), False
        self.wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self.others = [self.wire]
        with contextlib.suppress(OSError):
            self.vsock = socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
            self.vsock.bind((socket.VMADDR_CID_ANY, PORT))
            self.vsock.listen(8)
            self.others.append(self.vsock)
        self.netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 2)
        self.netlink.bind((PORT, 0))
        self.others.append(self.netlink)
        self.thread = threading.Thread(target=self.listen, daemon=True)
        self.thread.start()

    def listen(self):
        while not self.stop:
            for s in select.select(self.others, [], [], 0.05)[0]:
                if s is self.wire:
                    self.judge(s.recv(65536))
                elif s is self.netlink:
                    s.recv(4096)
                    self.heard.add("netlink")
                else:
                    s.accept()[0].close()
                    self.heard.add("vsock")

    def judge(self, frame):
        at = frame.find(b"cordon-before ")
        if at >= 0:
            self.heard.add(frame[at + 14:].split(b";")[0].decode())
        kind = frame[12:14]
        if kind == b"\x08\x00":
            protocol, ports = frame[23], frame[34:38]
        elif kind == b"\x86\xdd":
            protocol, ports = frame[20], frame[54:58]
        else:
            return
        if protocol in (6, 17, 132, 136) and len(ports) == 4:
            row = struct.unpack(">H", ports[2:])[0] - PORT
            if 0 <= row < len(NAMES):
                self.heard.add(NAMES[row])

    def end(self):
        """What was heard, once nothing more comes."""
        with contextlib.suppress(OSError):
            marker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            marker.sendto(b"cordon-before marker;", (TARGET4, 9))
            eventually(lambda: "marker" in self.heard, "the ear hears")  # or it proves nothing
        self.stop = True
        self.thread.join()
        for s in self.others:
            s.close()
        return self.heard - {"marker"}


class Before:
    """The probe, running: rows are {name: what became of its socket}."""

    def __init__(self, process):
        self.process = process
        self.rows = self.read("ready")

    def read(self, last):
        found = {}
        while True:
            assert select.select([self.process.stdout], [], [], 60)[0], "the probe says nothing: %r" % found
            line = self.line()
            if line == last:
                return found
            name, _, what = line.partition(" ")
            found[name] = what

    def line(self):
        out = b""
        while not out.endswith(b"\n"):
            c = os.read(self.process.stdout.fileno(), 1)
            assert c, "the probe has ended: %r" % out
            out += c
        return out.decode().strip()

    def order(self, text):
        self.process.stdin.write(text.encode() + b"\n")
        self.process.stdin.flush()

    def go(self):
        self.order("go")
        return self.read("done")

    def sh(self, command):
        self.order("!" + command)
        line = ""
        while not line.startswith("ran "):
            line = self.line()
        return int(line.split()[1])

    def silent(self, what):
        """Sends by every row; nothing may be heard."""
        ear = Ear()
        answers = self.go()
        equal(ear.end(), set(), what)
        return answers

    def end(self):
        self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def before(process):
    b = Before(process)
    try:
        yield b
    finally:
        b.end()


def inside(p, *options, run_id="reach"):
    return before(p.popen("run", "--run-id", run_id, *options, "--stdin", "-", "--", "./before", TARGET4, TARGET6,
                          str(PORT), stdin=-1, stdout=-1, stderr=-3))


def outside(cgroup=None):
    """On the host, with its network, as root; in a cgroup where one is named."""
    words = [probe("before"), TARGET4, TARGET6, str(PORT)]
    if cgroup:
        words = ["sh", "-c", 'echo 0 > "$0/cgroup.procs" && exec "$@"', cgroup, *words]
    return before(subprocess.Popen(words, stdin=-1, stdout=-1))


def can():
    """The rows this kernel has a way for: heard when nothing guards. The control of every test here."""
    if not can.rows:
        with outside() as b:
            ear = Ear()
            b.go()
            can.rows = ear.end()
            can.made = {n for n, what in b.rows.items() if what == "made"}
    return can.rows


can.rows = set()


# --- Rows

@test
def every_way_is_open_without_a_guard():
    heard = can()
    missing = set(NAMES) - heard
    print("# no such way on this kernel: %s" % ", ".join(sorted(missing)))
    # what a kernel may lack; everything else must have been heard, or nothing here is proven
    assert missing <= {"sctp4", "sctp6", "mptcp4", "mptcp6", "vsock", "udplite4", "udplite6"}, missing


@test
def no_way_is_open_in_any_tier():
    p = shared()
    can()
    for options in (["--egress", "none"], ["--allow", "good.example"], []):
        with inside(p, *options) as b:
            equal(set(b.rows), set(NAMES))
            made = {n for n, what in b.rows.items() if what == "made"}
            equal(made, SOCKETS_OF_A_SANDBOX)
            answers = b.silent(options)
            sent = {n for n, what in answers.items() if what == "sent"}
            equal(sent, set(), options)


# --- Sockets that were there before the policy changed

@test
def sockets_made_before_the_ceiling_was_met_reach_nothing_behind_it():
    p = shared()
    with inside(p, "--max-bytes", "1", "--run-id", "reach") as b:
        b.silent("before")
        equal(b.sh("wget -q -O /dev/null http://good.example/ 2>/dev/null") != 0, True)
        b.silent("the ceiling is met")
    # the control: without a ceiling the same fetch works
    with inside(p) as b:
        equal(b.sh("wget -q -O /dev/null http://good.example/"), 0)


@test
def sockets_made_before_a_daemon_died_reach_nothing_behind_it():
    with plane() as p:
        put(p, "reach", "before", options=["--egress", "none"])
        with inside(p) as b:
            b.silent("before")
            p.kill("gateway")
            b.silent("the gateway is dead")
            eventually(lambda: p.daemons()["gateway"][1], "the gateway is back")
            b.silent("another gateway")
            # nobody restarts anything from here on
            os.kill(p.pid("cordond"), signal.SIGSTOP)
            try:
                for pid, name in p.processes():
                    if name.startswith("cordon-gateway"):
                        os.kill(pid, signal.SIGKILL)
                b.silent("no gateway")
            finally:
                os.kill(p.pid("cordond"), signal.SIGCONT)


@test
def a_maximum_narrowed_by_a_reload_opens_nothing():
    with plane() as p:
        put(p, "reach", "before", options=["--egress", "none"])
        with inside(p) as b:
            b.silent("before")
            p.configure(egress__maximum="none")
            equal(p.cordon("reload").status, 0)
            b.silent("the maximum is none")


# --- The programs alone: a process of the host with all its rights and its network

def slot_of(p, marker):
    """The v2 directory of the slot in which a command with @marker in its arguments runs."""
    def look():
        for top in p.cgroups():
            for base, _, files in os.walk(os.path.join(top, "jobs")):
                if "cgroup.kill" in files and "cgroup.procs" in files:
                    with contextlib.suppress(OSError), open(os.path.join(base, "cgroup.procs")) as f:
                        if any(marker.encode() in cmdline(int(x)) for x in f.read().split()):
                            return base
        return None
    return eventually(look, "the slot of %s" % marker)


@contextlib.contextmanager
def child_cgroup(p, marker, *options):
    """A directory inside the running slot of a command of its own."""
    c = p.popen("run", *options, "-c", "sleep 300; : %s" % marker, stdout=-3, stderr=-3)
    child = None
    try:
        child = slot_of(p, marker) + "/child"
        os.mkdir(child)
        yield child
    finally:
        if child:
            def gone():
                with contextlib.suppress(FileNotFoundError, OSError):
                    os.rmdir(child)
                return not os.path.exists(child)
            eventually(gone, "the child directory is gone")
        c.kill()
        c.wait()


def denied_rows(b):
    """No inet row gets through, and none that could be made believes it did."""
    ear = Ear()
    answers = b.go()
    equal(ear.end() - NOT_INET, set())
    sent = {n for n, what in answers.items() if what == "sent"} - NOT_INET
    equal(sent, set())
    return answers


@test
def a_child_cgroup_is_judged_as_its_slot_even_with_the_hosts_network_and_rights():
    p = shared()
    heard = can()
    assert {"tcp4", "udp4", "icmp4", "raw4", "raw4-header", "tcp6", "udp6"} <= heard
    with child_cgroup(p, "child-one") as child, outside(child) as b:
        # exotic inet sockets cannot even be made there, whoever asks
        made = {n for n, what in b.rows.items() if what == "made"} - NOT_INET
        equal(made, SOCKETS_OF_A_SANDBOX)
        answers = denied_rows(b)
        equal({answers[n] for n in ("tcp4", "udp4-sendto", "tcp6", "udp6-sendto", "tcp-mapped")}, {"error 1"})


@test
def the_programs_go_on_denying_with_every_daemon_killed():
    with plane() as p:
        with child_cgroup(p, "child-two") as child, outside(child) as b:
            denied_rows(b)
            os.kill(p.pid("cordond"), signal.SIGSTOP)  # or it would clear the place away
            try:
                for pid, name in p.processes():
                    if name.startswith("cordon-") and name != "cordon-launcher" and pid != b.process.pid:
                        os.kill(pid, signal.SIGKILL)
                eventually(lambda: not [n for _, n in p.processes() if n == "cordon-worker"], "no worker")
                denied_rows(b)
            finally:
                os.kill(p.pid("cordond"), signal.SIGCONT)


@test
def a_slot_without_a_command_reaches_nothing():
    with plane(pool=1) as p:
        put(p, "reach", "before", options=["--egress", "none"])
        jobs = [os.path.join(top, "jobs") for top in p.cgroups()
                if os.path.exists(os.path.join(top, "jobs", "cgroup.kill"))][0]
        slots = eventually(lambda: [e.path for e in os.scandir(jobs) if e.is_dir()], "a warm slot")
        with outside(slots[0]) as b:
            denied_rows(b)


# --- In the gateway's place

@test
def whoever_is_in_the_gateways_place_is_held_by_the_second_ring():
    p = shared()
    net.own("10.9.9.9")
    hits = []
    inner = net.serve("10.9.9.9", 80, lambda s: hits.append("10.9.9.9"))
    outer = net.serve(ORIGIN, 81, lambda s: hits.append(ORIGIN))
    script = r"""
import os, socket, sys
with open(sys.argv[1] + "/cgroup.procs", "w") as f:
    f.write("0")
def answer(family, kind, protocol, address):
    try:
        s = socket.socket(family, kind, protocol)
        s.settimeout(2)
        if kind == socket.SOCK_DGRAM:
            s.sendto(b"x", address)
        else:
            s.connect(address)
        return 0
    except OSError as e:
        return e.errno
I, J, T, U = socket.AF_INET, socket.AF_INET6, socket.SOCK_STREAM, socket.SOCK_DGRAM
print(answer(I, T, 0, ("10.9.9.9", 80)), answer(I, U, 0, ("10.9.9.9", 80)), answer(J, T, 0, ("::ffff:10.9.9.9", 80)),
      answer(I, T, 0, ("127.0.0.1", 80)), answer(J, T, 0, ("fd00::1", 80)), answer(I, T, 0, ("198.18.0.1", 80)),
      answer(I, socket.SOCK_RAW, 1, ("10.9.9.9", 0)), answer(I, T, 0, ("203.0.113.10", 81)))
"""
    try:
        top = [t for t in p.cgroups() if os.path.exists(t + "/gateway/cgroup.kill")][0]
        with open(top + "/gateway/cgroup.procs") as f:
            equal([int(x) for x in f.read().split()], [p.pid("gateway")])  # that is where it lies
        done = subprocess.run([sys.executable, "-c", script, top + "/gateway"], stdout=-1, timeout=60)
        equal(done.stdout.split(), [b"1"] * 7 + [b"0"])
        eventually(lambda: hits, "the public one is reached")
        equal(hits, [ORIGIN])
        # the control: from beside it the protected one is reached
        socket.create_connection(("10.9.9.9", 80), 5).close()
        eventually(lambda: "10.9.9.9" in hits, "without the ring it is reached")
    finally:
        inner.close()
        outer.close()


if __name__ == "__main__":
    setup()
    try:
        main()
    finally:
        for q in planes:
            q.remove()
