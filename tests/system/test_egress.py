#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Egress of a whole plane, on the real kernel (E1 to E7, E10, E16; ESCAPES d)."""
import contextlib
import hashlib
import json
import os
import select
import signal
import socket
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import internet  # noqa: E402
from cordon import Plane, Skip, contains, equal, eventually, main, run, test  # noqa: E402
from hostile import probe, rows  # noqa: E402

ORIGIN, ECHO, ENDLESS = "203.0.113.10", "203.0.113.11", "203.0.113.12"
PROXY = "http_proxy"
net = None
BIG = os.urandom(1 << 16) * 64  # 4 MiB


def setup():
    global net
    net = internet.Internet()
    net.dns({"good.example": [[ORIGIN]], "other.example": [[ORIGIN]], "echo.example": [[ECHO]],
             "endless.example": [[ENDLESS]], "inside.example": [["10.0.0.1"]]})
    net.serve(ORIGIN, 80, internet.Http(body=b"hello\n"))
    net.serve(ORIGIN, 81, internet.Http(body=BIG))
    net.serve(ECHO, 7, internet.echo)

    def endless_http(s):
        internet.read_head(s)
        # with a length, because busybox wget takes a reset for an end otherwise
        s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n")
        internet.endless(s)

    net.serve(ENDLESS, 80, endless_http)


def plane(**keys):
    keys.setdefault("gateway__resolver", internet.DNS)
    return Plane(**keys)


_shared = []


def shared():
    """One plane for every test that leaves it as it was."""
    if not _shared:
        _shared.append(plane().__enter__())
    return _shared[0]


def wget(url):
    return "wget -q -O - %s" % url


def raw(text):
    """Speaks to the gateway with a shell's own means: nc, the token out of the proxy variable."""
    return ("T=$(echo $http_proxy | sed 's,http://\\(.*\\)@.*,\\1,'); A=$(echo -n $T | base64 | tr -d '\\n'); "
            "printf '%s' | sed \"s/CREDENTIAL/Proxy-Authorization: Basic $A/\" "
            "| nc -w 5 100.64.0.1 3128" % text)


GET = "GET http://%s/ HTTP/1.1\\r\\nHost: x\\r\\nCREDENTIAL\\r\\nConnection: close\\r\\n\\r\\n"


# --- Tiers

@test
def without_a_word_a_command_gets_the_internet_through_the_gateway():
    p = shared()
    o = p.json(wget("http://good.example/"))
    equal(o["stdout"], "hello\n")
    e = o["egress"]
    equal(e["mode"], "default_internet")
    equal(e["clamped"], [])
    assert e["kernelBytes"] > e["gatewayBytes"] > 100, e
    equal(e["totalBytes"], e["kernelBytes"])
    assert "suspectedBypass" not in e
    assert {"egress_bpf", "nft"} <= set(o["guards"]["on"]), o["guards"]
    row = [r for r in rows(p) if r["resourceId"] == o["jobId"]][0]
    equal(row["metadata"]["egressMode"], "default_internet")
    equal(row["metadata"]["egressTotalBytes"], e["kernelBytes"])
    canonical = b'{"tier":"default_internet","hosts":[],"maxBytes":null}'
    equal(o["receipt"]["egressDigest"], hashlib.sha256(canonical).hexdigest())
    assert "good.example" not in json.dumps(rows(p))


@test
def none_is_a_network_with_nothing_in_it():
    p = shared()
    o = p.json("cat /proc/net/dev; env | grep -i proxy; nc -w 1 100.64.0.1 3128 </dev/null; echo $?",
               "--egress", "none")
    lines = [l.split(":")[0].strip() for l in o["stdout"].splitlines() if ":" in l]
    equal(lines, ["lo"])
    assert o["stdout"].endswith("\n1\n"), o["stdout"]
    equal((o["egress"]["mode"], o["egress"]["totalBytes"]), ("none", 0))


@test
def an_allowlist_allows_what_it_names():
    p = shared()
    o = p.json("%s; %s; %s" % tuple(wget("http://%s/" % h) for h in
                                    ("good.example", "other.example", "www.good.example")),
               "--egress", "allowlist", "--allow", "good.example")
    equal(o["stdout"], "hello\n")
    denied = {(d["host"], d["port"], d["reason"]): d["count"] for d in o["egress"]["denied"]}
    equal(denied.get(("other.example", 80, "denied_by_allowlist")), 1)
    equal(denied.get(("www.good.example", 80, "destination_blocked")), 1)
    canonical = b'{"tier":"allowlist","hosts":["good.example"],"maxBytes":null}'
    equal(o["receipt"]["egressDigest"], hashlib.sha256(canonical).hexdigest())
    done = p.sh(wget("http://other.example/"), "-v", "--allow", "good.example:80")
    contains(done.error, "cordon: denied other.example:80 denied_by_allowlist\n")
    done = p.sh(wget("http://good.example:81/") + " | wc -c", "--allow", "good.example:80")
    equal(done.text.strip(), "0")


@test
def entries_that_name_nothing_are_refused_by_name():
    p = shared()
    for entry in ("", "*.", ".", "..", "a..b", "x:0", "x:65536", "x:65616", "x:", "h\u00f6st", "*",
                  "http://x", "x/y", "127.1", "0x7f000001"):
        done = p.run("--allow", entry, "--", "true")
        equal(done.status, 125, entry)
        contains(done.error, "cordon: invalid_request:")
    equal(p.run("--egress", "sometimes", "--", "true").status, 125)
    equal(p.run("--egress", "none", "--allow", "x", "--", "true").status, 125)


@test
def the_maximum_clamps_and_says_so():
    with plane(egress__maximum="allowlist", egress__maximum_hosts="good.example *.pypi.org:443",
               egress__maximum_bytes="100000") as p:
        o = p.json("%s; %s" % (wget("http://good.example/"), wget("http://other.example/")))
        equal(o["stdout"], "hello\n")
        equal(o["egress"]["mode"], "allowlist")
        equal(sorted(o["egress"]["clamped"]), ["maxBytes", "tier"])
        canonical = b'{"tier":"allowlist","hosts":["good.example","pypi.org:443"],"maxBytes":100000}'
        equal(o["receipt"]["egressDigest"], hashlib.sha256(canonical).hexdigest())
        o = p.json(wget("http://good.example/"), "--allow", "good.example", "--allow", "evil.example",
                   "--max-bytes", "50000")
        equal(o["stdout"], "hello\n")
        equal(o["egress"]["clamped"], ["hosts"])
        o = p.json("true", "--egress", "none")
        equal((o["egress"]["mode"], o["egress"]["clamped"]), ("none", ["maxBytes"]))
        # a reload narrows at once; one that is broken changes nothing
        p.configure(egress__maximum="none")
        equal(p.cordon("reload").status, 0)
        equal(p.json("true")["egress"]["mode"], "none")
        p.configure(egress__maximum_hosts="*.")
        assert p.cordon("reload").status != 0
        equal(p.json("true")["egress"]["mode"], "none")


@test
def without_a_gateway_the_maximum_is_none_and_every_answer_says_so():
    with plane(gateway="off") as p:
        assert "gateway" not in p.daemons()
        o = p.json("echo ran")
        equal((o["stdout"], o["egress"]["mode"], o["egress"]["clamped"]), ("ran\n", "none", ["tier"]))
        equal(p.json("true", "--egress", "none")["egress"]["clamped"], [])


@test
def a_default_tier_can_be_narrower():
    with plane(egress__default="none") as p:
        equal(p.json("true")["egress"]["mode"], "none")
        equal(p.json(wget("http://good.example/"), "--egress", "default_internet")["stdout"], "hello\n")


# --- The room

@test
def a_sandbox_has_loopback_and_one_door():
    p = shared()
    o = p.json("cat /proc/net/dev; cat /proc/net/route; cat /proc/net/if_inet6; cat /proc/net/fib_trie")
    devices = [l.split(":")[0].strip() for l in o["stdout"].splitlines() if ": " in l]
    equal(devices, ["lo"])
    assert "00000000\t" not in o["stdout"], o["stdout"]  # no default route
    contains(o["stdout"], "100.64.0.1")


@test
def own_servers_on_loopback_work_in_every_tier_and_are_not_counted():
    p = shared()
    script = ("nc -l -p 8080 -e sh -c 'head -c 1000 | wc -c >got' & sleep 0.3; "
              "head -c 1000 /dev/zero | nc -w 2 127.0.0.1 8080; wait; cat got; "
              "nc -l -p 9998 -e sh -c 'head -n 1 >got' & sleep 0.3; "
              "echo other | nc -w 2 100.64.0.1 9998; echo door $?; "
              "echo mine | nc -w 2 127.0.0.1 9998; wait; cat got")
    for tier in ("none", "default_internet"):
        o = p.json(script, "--egress", tier)
        equal(o["stdout"], "1000\ndoor 1\nmine\n", repr(o))
        equal(o["egress"]["kernelBytes"], 0)


@test
def the_gateways_port_and_address_gain_a_job_nothing():
    p = shared()
    carry(p, "bind", "traffic")
    tries = (("127.0.0.1", 3128), ("0.0.0.0", 3128), ("0.0.0.0", 9999), ("100.64.0.1", 3128), ("100.64.0.1", 9999))
    script = "; ".join("./traffic bind %s %d" % x for x in tries) + "; " + wget("http://good.example/")
    o = p.json(script, "--run-id", "bind")
    # its own port on its own loopback is its own; the door's address is nobody's but the gateway's
    equal(o["stdout"].splitlines(),
          ["127.0.0.1 bound 0", "reached 0", "0.0.0.0 bound 98", "reached 111", "0.0.0.0 bound 0", "reached 0",
           "100.64.0.1 bound 1", "reached 111", "100.64.0.1 bound 1", "reached 111", "hello"])
    e = o["egress"]
    assert "suspectedBypass" not in e, e
    alone = p.json(wget("http://good.example/"))["egress"]["kernelBytes"]
    assert abs(e["kernelBytes"] - alone) < 300, (e, alone)  # an acknowledgement or two


def find_warm(p):
    """pid 1 of every waiting slot that has the gateway's address."""
    for pid in p.sandboxed():
        with contextlib.suppress(OSError):
            back = internet.own_net()
            fd = os.open("/proc/%d/ns/net" % pid, os.O_RDONLY)
            internet.enter(fd)
            try:
                if "100.64.0.1" in run(["ip", "addr"]).text:
                    yield pid, fd
            finally:
                internet.enter(back)
                os.close(back)


@test
def the_second_line_stands_in_every_jobs_network():
    p = shared()
    slots = eventually(lambda: list(find_warm(p)), "a slot that waits")
    for pid, fd in slots:
        os.close(fd)
        rules = run(["nsenter", "-t", str(pid), "-n", "nft", "list", "table", "inet", "cordon"])
        equal(rules.status, 0, "%r" % rules)
        equal(rules.text.count("policy drop"), 3, "chains that drop: " + rules.text)
    equal(run(["nft", "list", "table", "inet", "cordon"]).status, 1, "control: the host has no such table")


@test
def a_network_that_is_not_internal_is_refused():
    with plane(pool=1) as p:
        equal(p.json(wget("http://good.example/"))["stdout"], "hello\n")
        eventually(lambda: list(find_warm(p)), "a warm slot")
        back = internet.own_net()
        for _, fd in find_warm(p):
            internet.enter(fd)
            internet.ip("link", "add", "leak0", "type", "veth", "peer", "name", "leak1")
            internet.enter(back)
            os.close(fd)
        os.close(back)
        o = p.json("echo ran")
        equal((o["decision"], o["reason"]), ("denied", "network_not_internal"))
        equal(p.json("echo ran")["stdout"], "ran\n")  # the next slot is a good one
        equal([r["metadata"]["reason"] for r in rows(p) if r["decision"] == "denied"],
              ["network_not_internal"])


# --- Reaching out by every kind of socket

class Sniffer:
    """Counts packets with the probe's payload or port on every interface of this namespace."""

    def __init__(self, port):
        self.port, self.seen, self.stop = struct.pack(">H", port), [], False
        self.s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self.t = threading.Thread(target=self.run, daemon=True)
        self.t.start()

    def run(self):
        while not self.stop:
            if select.select([self.s], [], [], 0.1)[0]:
                data = self.s.recv(65536)
                if b"cordon-reach-probe" in data or self.port in data[:60]:
                    self.seen.append(data[:80])

    def end(self):
        time.sleep(0.2)
        self.stop = True
        self.t.join()
        self.s.close()
        return self.seen


def carry(p, run_id, name):
    done = p.run("--run-id", run_id, "--egress", "none", "--stdin", probe(name), "--", "sh", "-c",
                 "cat > %s && chmod +x %s" % (name, name))
    equal(done.status, 0, repr(done))


LISTENER = 45678


@test
def no_kind_of_socket_gets_a_packet_out():
    p = shared()
    carry(p, "reach", "reach")
    args = [internet.HOST4, internet.HOST6, str(LISTENER)]
    hits = []
    for address in (internet.HOST4, internet.HOST6):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        s = socket.socket(family)
        s.bind((address, LISTENER))
        s.listen(16)
        threading.Thread(target=lambda s=s: hits.append(s.accept()), daemon=True).start()
    for tier in ("none", "default_internet", "allowlist"):
        sniffer = Sniffer(LISTENER)
        done = p.run("--run-id", "reach", "--egress", tier, "--", "./reach", *args, timeout=100)
        equal(done.status, 0, repr(done))
        seen = sniffer.end()
        equal(seen, [], tier)
        equal(hits, [])
        made = {l.split()[0] for l in done.text.splitlines() if " sent " in l}
        # nothing but TCP and UDP sockets can be made at all; netlink's are for asking about oneself
        for label in made:
            family, kind, protocol = label.split("/")
            assert (family in ("2", "10") and (kind, protocol) in
                    {("stream", "0"), ("stream", "6"), ("dgram", "0"), ("dgram", "17")}) or \
                family == "16", (tier, label)
        sent = [l for l in done.text.splitlines() if l.endswith(" sent 0") and not l.startswith("16/")]
        equal(sent, [], tier)
    # the control: outside of a sandbox the same probe gets through
    sniffer = Sniffer(LISTENER)
    done = run([probe("reach"), *args])
    assert len(sniffer.end()) > 5
    eventually(lambda: hits, "the listener is reached from outside")


@test
def the_daemons_killed_in_the_middle_of_a_run_change_nothing():
    with plane() as p:
        carry(p, "reach", "reach")
        for daemon in ("gateway", "broker", "worker", "cordond"):
            p.wait_ready() if daemon != "gateway" else None
            sniffer = Sniffer(LISTENER)
            c = p.popen("run", "--run-id", "reach", "-c", "while ./reach %s %s %d; do :; done" %
                        (internet.HOST4, internet.HOST6, LISTENER),
                        stdout=-3, stderr=-3)
            eventually(lambda: len(p.sandboxed()) > 0, "it runs")
            time.sleep(0.5)
            p.kill(daemon)
            time.sleep(1)
            equal(sniffer.end(), [], daemon)
            c.kill()
            c.wait()
            if daemon == "cordond":
                eventually(lambda: not p.sandboxed(), "every sandbox is gone")


# --- Counting

@test
def the_counts_are_true_both_ways():
    p = shared()
    lo = "sed -n 's/.*lo: *\\([0-9]*\\).*/\\1/p' /proc/net/dev"
    o = p.json("%s | wc -c; %s" % (wget("http://good.example:81/"), lo))
    size, lo_bytes = map(int, o["stdout"].split())
    e = o["egress"]
    equal(size, len(BIG))
    assert e["kernelBytes"] >= e["gatewayBytes"] >= len(BIG), e
    # headers: large segments carry few; the interface counts them as the meter does
    assert e["kernelBytes"] - e["gatewayBytes"] < 0.02 * len(BIG), e
    assert abs(lo_bytes - e["kernelBytes"]) <= 40 * 60, (lo_bytes, e)
    # and out of the sandbox
    script = raw("CONNECT echo.example:7 HTTP/1.1\\r\\nHost: x\\r\\nCREDENTIAL\\r\\n\\r\\n")
    o = p.json("(%s) | head -c 10 >/dev/null; echo" % script)
    e = o["egress"]
    assert e["kernelBytes"] > e["gatewayBytes"] > 0, e


@test
def two_meters_agree_over_many_kinds_of_traffic():
    p = shared()
    scripts = [wget("http://good.example/") + "; " + wget("http://inside.example/"),
               "for i in 1 2 3 4 5 6 7 8; do %s >/dev/null & done; wait" % wget("http://good.example:81/"),
               "timeout 0.3 " + wget("http://endless.example/") + " >/dev/null",
               wget("http://endless.example/") + " | head -c 1000000 >/dev/null",
               "nc -w 1 100.64.0.1 3128 </dev/null",
               "for i in 1 2 3 4 5 6 7 8 9; do (sleep 5 | nc 100.64.0.1 3128 &) ; done; exit 0"]
    for script in scripts:
        e = p.json(script)["egress"]
        assert "suspectedBypass" not in e, (script, e, p.log[-500:])
    assert "bypass_suspected" not in p.log, p.log


# --- The ceiling

@test
def a_ceiling_cuts_a_running_download_with_a_prompt_error():
    p = shared()
    started = time.monotonic()
    o = p.json("%s >got; echo $?; wc -c <got; %s; echo" %
               (wget("http://endless.example/"), raw(GET % "good.example").replace("wget", "")),
               "--max-bytes", "1000000", "--timeout", "30")
    assert time.monotonic() - started < 10
    lines = o["stdout"].split("\n")
    assert lines[0] != "0", o["stdout"][:200]
    assert 0 < int(lines[1]) <= 1000000, lines[:2]  # what a reset leaves of it
    contains(o["stdout"], "403 Forbidden")
    contains(o["stdout"], "Cordon-Reason: byte_quota_exceeded")
    contains(o["stdout"], '{"reason":"byte_quota_exceeded","host":"good.example","port":80}')
    equal(o["egress"]["denied"], [{"host": "good.example", "port": 80,
                                   "reason": "byte_quota_exceeded", "count": 1}])


@test
def a_ceiling_is_the_jobs_and_nothing_resets_it():
    p = shared()
    job = p.open_job()
    try:
        def execute(script, *options):
            done = p.cordon("job", "exec", job, "--json", "--max-bytes", "5000000", *options, "-c", script)
            return json.loads(done.out)
        first = execute(wget("http://good.example:81/") + " | wc -c")
        equal(first["stdout"].strip(), str(len(BIG)))
        second = execute(wget("http://good.example:81/") + " | wc -c")
        assert int(second["stdout"]) < 900000, second["stdout"]
        third = execute(raw(GET % "good.example"))
        contains(third["stdout"], "byte_quota_exceeded")
        # a gateway that starts anew is told what was used
        p.kill("gateway")
        eventually(lambda: p.daemons()["gateway"][1], "the gateway is back")
        fourth = eventually(lambda: (lambda o: o if o["decision"] == "allowed" else None)(
            execute(raw(GET % "good.example"))), "a gateway tier works again")
        contains(fourth["stdout"], "byte_quota_exceeded")
        other = p.json(wget("http://good.example/"))  # another job is another token
        equal(other["stdout"], "hello\n")
    finally:
        p.cordon("job", "close", job)


@test
def a_ceiling_of_one_works():
    p = shared()
    o = p.json(raw(GET % "good.example") + "; " + raw("CONNECT echo.example:7 HTTP/1.1\\r\\nHost: x\\r\\n"
                                                      "CREDENTIAL\\r\\n\\r\\nxyz"), "--max-bytes", "0.5")
    contains(o["stdout"], "byte_quota_exceeded")
    assert "xyz" not in o["stdout"]


@test
def with_a_gateway_that_ignores_ceilings_the_kernels_limit_holds():
    with plane(fault="gateway.ceiling:error=1") as p:
        started = time.monotonic()
        o = p.json("%s >got; echo $?; wc -c <got; %s >more; echo $?" %
                   (wget("http://endless.example/"), wget("http://good.example/")),
                   "--max-bytes", "1000000", "--timeout", "30")
        lines = o["stdout"].split()
        assert time.monotonic() - started < 10
        assert lines[0] != "0" and lines[2] != "0", o
        # Resets pass beyond it, uncharged: they end the connections, and carry nothing.
        budget = 1000000 + 125000 + 262144 + 10 * 100
        assert 1000000 < o["egress"]["kernelBytes"] <= budget, o["egress"]
        contains(p.log, "ceiling")
        # and in the next command of the same run's job
        job = p.open_job()
        for _ in range(2):
            done = p.cordon("job", "exec", job, "--json", "--max-bytes", "1000000", "--timeout",
                            "30", "-c", wget("http://endless.example/") + " | wc -c")
            o = json.loads(done.out)
        assert o["egress"]["kernelBytes"] < 100000, o["egress"]


# --- Tokens

@test
def a_lent_token_is_worth_nothing():
    p = shared()
    lender = p.popen("run", "-c", "echo $http_proxy; sleep 20", stdout=-1)
    try:
        token = lender.stdout.readline().decode().split("//")[1].split(":")[0]
        lent = "http_proxy=http://%s:x@100.64.0.1:3128 wget -O - http://good.example/ 2>&1" % token
        contains(p.json(lent)["stdout"], "407")
        o = p.json(lent, "--egress", "none")
        assert "hello" not in o["stdout"], o
        guessed = "http_proxy=http://%s:x@100.64.0.1:3128 wget -O - http://good.example/ 2>&1" % ("0" * 32)
        contains(p.json(guessed)["stdout"], "407")
        # from the host there is not even a door
        s = socket.socket()
        s.settimeout(1)
        try:
            s.connect(("100.64.0.1", 3128))
            raise AssertionError("the host reaches a door")
        except OSError:
            pass
    finally:
        lender.kill()
        lender.wait()
    eventually(lambda: not [d for d in p.api("GET", "/v1/egress")[1]["destinations"]], "it has ended")
    contains(p.json(lent)["stdout"], "407")  # of an ended job


# --- The gateway's death

@test
def a_dead_gateway_costs_the_network_and_nothing_else():
    with plane() as p:
        running = p.popen("run", "-c", "%s >/dev/null 2>&1; echo network $?; sleep 1; echo alive" %
                          wget("http://endless.example/"), stdout=-1)
        eventually(lambda: [d for d in p.api("GET", "/v1/egress")[1]["destinations"] if d["open"]], "it reads")
        os.kill(p.pid("cordond"), signal.SIGSTOP)  # nobody restarts it yet
        try:
            gateway = [pid for pid, name in p.processes() if name.startswith("cordon-gateway")][0]
            os.kill(gateway, signal.SIGKILL)
            eventually(lambda: "gateway_lost" in p.log, "the broker knows")
            o = p.json("echo ran")
            equal((o["decision"], o["reason"]), ("denied", "egress_unavailable"))
            equal(p.json("echo ran", "--egress", "none")["stdout"], "ran\n")
            out, _ = running.communicate(timeout=20)
            assert out.startswith(b"network ") and b"network 0" not in out, out
            assert out.endswith(b"alive\n")
            equal(running.returncode, 0)
        finally:
            os.kill(p.pid("cordond"), signal.SIGCONT)
        eventually(lambda: p.json(wget("http://good.example/")).get("stdout") == "hello\n", "it is back")


@test
def what_cannot_be_guarded_is_refused_and_never_downgraded():
    with plane(fault="egress.open:error=1") as p:  # a kernel without BPF
        o = p.json("echo ran")
        equal((o["decision"], o["reason"]), ("denied", "egress_unavailable"))
        o = p.json("echo ran", "--egress", "none")
        equal(o["stdout"], "ran\n")
        assert {"egress_bpf", "nft"} <= set(o["guards"]["missing"]), o["guards"]
    with plane(fault="egress.begin:error=12") as p:  # a full map
        o = p.json("echo ran")
        equal((o["decision"], o["reason"]), ("denied", "egress_registration_failed"))
        equal(p.json("echo ran", "--egress", "none")["stdout"], "ran\n")
    with plane(fault="egress.room:error=95") as p:  # no nftables
        o = p.json("echo ran")
        equal((o["decision"], o["reason"]), ("denied", "egress_unavailable"))
        equal(p.json("echo ran", "--egress", "none")["stdout"], "ran\n")


@test
def a_broken_resolver_is_named_and_nothing_starts():
    with Plane(up=False, gateway__resolver="nonsense") as p:
        done = p.up(check=False)
        assert done.status != 0
        contains(done.error, "gateway.resolver")


# --- What stands behind the gateway

@test
def a_gateway_that_judges_nothing_still_reaches_nothing_protected():
    net.own("10.9.9.9")
    hits = []
    listener = net.serve("10.9.9.9", 80, lambda s: (hits.append(1), internet.Http()(s)))
    get = "wget -O - http://10.9.9.9/ 2>&1"
    try:
        with plane(fault="gateway.judge:error=1") as p:
            # it dials, and the kernel refuses: the running gateway lies in the ring
            o = p.json(get)
            contains(o["stdout"], "502")
            equal(o["egress"]["denied"][0]["reason"], "upstream_failed")
            equal(p.json(wget("http://good.example/"))["stdout"], "hello\n")
            time.sleep(0.2)
            equal(hits, [])
            equal(p.cordon("health", "--json").json["egress"]["exceptions"], [])
        # the control: the same address as an exception is reached, and that is loud
        with plane(gateway__exceptions="10.9.9.9") as p:
            contains(p.json(get)["stdout"], "hello")
            equal(hits, [1])
            equal(p.cordon("health", "--json").json["egress"]["exceptions"], ["10.9.9.9"])
            contains(p.log, "10.9.9.9")
    finally:
        listener.close()


@test
def a_difference_of_the_meters_is_reported():
    with plane(fault="gateway.count:error=1") as p:  # bytes that the gateway knows nothing of
        o = p.json(wget("http://good.example:81/") + " | wc -c")
        equal(o["egress"].get("suspectedBypass"), True)
        contains(p.log, "bypass_suspected")


# --- The command line

@test
def the_pure_verbs_judge_like_the_gateway():
    p = shared()
    done = p.cordon("egress", "classify", "127.0.0.1", "8.8.8.8", "::ffff:10.0.0.1", "127.1")
    equal(done.text, "protected\npublic\nprotected\nunparsable\n")
    equal(p.cordon("egress", "match", "pypi.org", "files.pypi.org").text, "allow\n")
    equal(p.cordon("egress", "match", "pypi.org:443", "pypi.org:80").text, "deny\n")
    done = p.cordon("egress", "classify", "--json", "-", input=b'["1.1.1.1","127.0.0.1\\u0000","x"]')
    equal(done.json, ["public", "unparsable", "unparsable"])
    done = p.cordon("egress", "match", "--json", "-", input=json.dumps(
        [{"entry": "a.example:443", "host": "A.example.", "port": 443},
         {"entry": "a.example", "host": "b.example", "port": None}]).encode())
    equal(done.json, ["allow", "deny"])
    for bad in (b"", b"{}", b"[1]", b'["a"', b'[{"entry":1}]'):
        assert p.cordon("egress", "match", "--json", "-", input=bad).status != 0, bad


@test
def check_and_top_ask_the_running_gateway():
    p = shared()
    equal(p.cordon("egress", "check", "good.example:80").text, "allow %s\n" % ORIGIN)
    equal(p.cordon("egress", "check", "inside.example:80").text, "deny destination_blocked\n")
    equal(p.cordon("egress", "check", "--allow", "x.example", "good.example:80").text,
          "deny denied_by_allowlist\n")
    c = p.popen("run", "-c", wget("http://endless.example/") + " >/dev/null", stdout=-3)
    try:
        def live():
            return [d for d in p.cordon("egress", "top", "--json").json["destinations"]
                    if d["host"] == "endless.example" and d["inBytes"] > 1000]
        found = eventually(live, "it is seen")[0]
        equal((found["port"], found["open"], found["allowed"]), (80, 1, 1))
        contains(p.cordon("egress", "top").text, "endless.example")
    finally:
        c.send_signal(signal.SIGINT)
        equal(c.wait(), 130)
    eventually(lambda: not p.cordon("egress", "top", "--json").json["destinations"], "nothing is kept")


@test
def nothing_is_left_when_it_goes_down():
    p = shared()
    p.down()
    equal(p.left_behind(), [])


if __name__ == "__main__":
    setup()
    try:
        main()
    finally:
        for q in _shared:
            q.remove()
