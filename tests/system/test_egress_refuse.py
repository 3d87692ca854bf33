#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Egress on hosts that lack something, and programs that try their luck with names and
redirects: a clear word, a refusal, nothing downgraded (E4, E8, E12; ESCAPES d38, d46, e57, e58)."""
import errno
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import bpfmaps  # noqa: E402
import internet  # noqa: E402
from cordon import CORDON, Plane, contains, equal, eventually, main, run, test  # noqa: E402
from hostile import rows  # noqa: E402
from refusing import refusing  # noqa: E402

ORIGIN, OTHER = "203.0.113.10", "203.0.113.14"
BPF = 321  # the call
net = None
other = internet.Http(body=b"other\n")


def setup():
    global net
    net = internet.Internet()
    net.dns({"good.example": [[ORIGIN]], "other.example": [[OTHER]]})
    net.serve(ORIGIN, 80, internet.Http(body=b"hello\n"))
    net.serve(OTHER, 80, other)

    def redirect(s):
        internet.read_head(s)
        s.sendall(b"HTTP/1.1 302 Found\r\nLocation: http://other.example/\r\nContent-Length: 0\r\n"
                  b"Connection: close\r\n\r\n")

    net.serve(ORIGIN, 81, redirect)


def plane(**keys):
    keys.setdefault("gateway__resolver", internet.DNS)
    return Plane(**keys)


def only_none_works(p):
    """A gateway tier is refused with its reason and runs nothing; `none` goes on."""
    o = p.json("echo ran")
    equal((o["decision"], o["reason"]), ("denied", "egress_unavailable"))
    assert not o.get("stdout"), o
    o = p.json("echo ran", "--egress", "none")
    equal(o["stdout"], "ran\n")
    return o


# --- Programs that try their luck

@test
def redirects_are_followed_by_nobody_but_the_program():
    with plane() as p:
        get = "wget -q -O - http://good.example:81/"
        o = p.json(get, "--allow", "good.example")
        equal(o["stdout"], "")
        equal(o["egress"]["denied"], [{"host": "other.example", "port": 80, "reason": "denied_by_allowlist",
                                       "count": 1}])
        equal(other.heads, [])
        # the control: where the list has both, the program's second request gets there
        o = p.json(get, "--allow", "good.example", "--allow", "other.example")
        equal(o["stdout"], "other\n")
        equal(len(other.heads), 1)


HOSTILE = {
    "escape": r"evil\033[31m.example", "bell": r"evil\007.example", "c1": r"evil\302\2331m.example",
    "newline": r"evil\nforged=1.example", "return": r"evil\r.example", "nul": r"evil\000.example",
    "quote": r"evil\".example", "wide": r"evil\342\200\256.example", "delete": r"evil\177.example",
}


def send(target, agent="x"):
    return ("A=$(echo -n ${http_proxy#http://} | cut -d@ -f1 | tr -d '\\n' | base64 | tr -d '\\n'); "
            "printf 'GET http://%s/ HTTP/1.1\\r\\nHost: x\\r\\nUser-Agent: %s\\r\\n"
            "Proxy-Authorization: Basic %%s\\r\\nConnection: close\\r\\n\\r\\n' $A "
            "| nc -w 5 100.64.0.1 3128" % (target, agent))


@test
def what_a_program_calls_itself_or_asks_for_is_never_raw_anywhere():
    raw = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80\xae")
    with plane() as p:
        before = len(p.log)
        for name, host in HOSTILE.items():
            for script in (send(host + "." + name), send("other.example", host)):
                done = p.sh(script, "-v", "--allow", "good.example")
                assert not raw.search(done.err), (name, done.err)
                assert b"forged=1" not in done.err or b"\nforged" not in done.err, (name, done.err)
                # what the program itself is told: one line a field, nothing of its own in it
                head, _, body = done.out.partition(b"\r\n\r\n")
                contains(head, b"Cordon-Reason: ", name)
                assert not raw.search(head.replace(b"\r\n", b"")) and not raw.search(body), (name, done.out)
        # a name and a header of a mebibyte
        for words in (("$(head -c 1000000 /dev/zero | tr '\\0' a).example",), ("good.example", "$B")):
            big = "B=$(head -c 1000000 /dev/zero | tr '\\0' b); " + send(*words).replace("'GET", '"GET').replace(
                "\\r\\n\\r\\n'", '\\r\\n\\r\\n"').replace("$A |", '"$A" |')
            o = p.json(big, "--allow", "good.example")
            assert len(str(o["egress"])) < 2000, o["egress"]
            assert "hello" not in o["stdout"]
        log = p.log[before:]
        assert not raw.search(log.encode()), log[-2000:]
        assert len(log) < 200_000, len(log)
        assert not [line for line in log.splitlines() if not re.match(r"\d{4}-\d\d-\d\dT", line)], "a forged line"
        assert "evil" not in str(rows(p))
        # the control: a name that is one is shown, to the caller alone
        done = p.sh(send("other.example"), "-v", "--allow", "good.example")
        contains(done.error, "cordon: denied other.example:80 denied_by_allowlist\n")


# --- Hosts that lack something

@test
def a_kernel_without_bpf_has_tier_none_only_and_says_so():
    with plane(up=False) as p:
        done = run([*refusing(BPF, errno.ENOSYS), CORDON, "up"], env={**p.env, "CORDON_ROOT": p.root})
        equal(done.status, 0, "%r %s" % (done, p.log[-1000:]))
        o = only_none_works(p)
        assert {"egress_bpf", "nft"} <= set(o["guards"]["missing"]), o["guards"]
        contains(p.log, "Function not implemented")
        p.down()
        p.up()  # the control
        equal(p.json("wget -q -O - http://good.example/")["stdout"], "hello\n")


@test
def a_foreign_program_that_shares_the_place_with_nobody_is_named_and_nothing_is_downgraded():
    get = "wget -q -O - http://good.example/"

    def with_another_worker(p, flags):
        top = [t for t in p.cgroups() if os.path.exists(t + "/jobs/cgroup.kill")][0]
        bpfmaps.attach_foreign(top, flags)
        was = p.kill("worker")
        eventually(lambda: p.daemons()["worker"][1] and p.pid("worker") != was, "another worker")
        p.wait_ready()

    with plane() as p:
        equal(p.json(get)["stdout"], "hello\n")
        # it wants the instance's directory and all below it for itself
        with_another_worker(p, bpfmaps.EXCLUSIVE)
        only_none_works(p)
        contains(p.log, "foreign program")
    with plane() as p:  # the control: one that works beside others is no trouble
        with_another_worker(p, bpfmaps.BESIDE_OTHERS)
        equal(p.json(get)["stdout"], "hello\n")


@test
def a_plane_on_a_host_without_a_nameserver_reaches_addresses_and_no_names():
    with plane(up=False, gateway__resolver="") as p:
        done = run(["unshare", "--mount", "--propagation", "private", "sh", "-ec",
                    'mount --bind /dev/null "$(readlink -f /etc/resolv.conf)"; exec "$@"', "sh", CORDON, "up"],
                   env={**p.env, "CORDON_ROOT": p.root})
        equal(done.status, 0, "%r %s" % (done, p.log[-1000:]))
        contains(p.log, "no name resolves")
        o = p.json("wget -q -O - http://%s/; wget -q -O - http://good.example/" % ORIGIN)
        equal(o["stdout"], "hello\n")
        equal(o["egress"]["denied"], [{"host": "good.example", "port": 80, "reason": "destination_blocked",
                                       "count": 1}])


@test
def what_the_configuration_says_of_egress_is_right_or_nothing_starts():
    for key, value in (("egress__maximum_hosts", "*."), ("egress__maximum_hosts", "x:65616"),
                       ("egress__maximum_hosts", "http://x"), ("egress__maximum", "sometimes"),
                       ("egress__default", "all"), ("egress__maximum_bytes", "-1"), ("gateway__port", "65616"),
                       ("gateway__port", "0"), ("gateway__address", "8.8.8.8"), ("gateway__protected", "10.0.0.0/33"),
                       ("gateway__exceptions", "10.0.0.0/8"), ("gateway__resolver", "name.example")):
        with plane(up=False, **{key: value}) as p:
            done = p.up(check=False)
            assert done.status != 0, (key, value)
            contains(done.error, key.replace("__", "."), value)


if __name__ == "__main__":
    setup()
    main()
