#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""cordon doctor finds out by doing it, says what is missing, and leaves nothing behind."""
import errno
import os
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cordon import CORDON, contains, equal, main, run, test  # noqa: E402
from refusing import refusing  # noqa: E402

SOCKET, CLONE3 = 41, 435

ENV = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}


def doctor(*before, env=None):
    done = run([*before, CORDON, "doctor", "--json"], env=env or ENV)
    assert done.out, repr(done)
    return done.status, {row["probe"]: row for row in done.json["probes"]}, done.json["ok"]


@test
def this_host_can_run_the_plane():
    status, probes, ok = doctor()
    equal((status, ok), (0, True), repr([r for r in probes.values() if r["result"] != "ok"]))
    for name in ("namespaces", "seccomp", "cgroup v2, cgroup.kill", "ext4 loop"):
        equal(probes[name]["result"], "ok")


@test
def a_missing_program_is_named_and_counts():
    status, probes, ok = doctor(env={"PATH": "/nonexistent"})
    equal((status, ok), (1, False))
    equal(probes["ext4 loop"]["result"], "MISSING")
    contains(probes["ext4 loop"]["found"], "mke2fs")
    contains(probes["erofs loop"]["found"], "mkfs.erofs")
    equal(probes["namespaces"]["result"], "ok", "what needs no program still works")


@test
def a_missing_privilege_is_found_by_doing():
    status, probes, ok = doctor("setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-all")
    equal((status, ok), (1, False))
    contains(probes["ext4 loop"]["found"], "Operation not permitted")


@test
def a_forbidden_call_is_found_by_doing():
    # The same probe under a seccomp filter that refuses clone3: no list of features would tell.
    status, probes, ok = doctor(*refusing(CLONE3, errno.EPERM))
    equal((status, ok), (1, False))
    contains(probes["namespaces"]["found"], "clone3")


@test
def what_a_gateway_tier_needs_is_done_and_not_only_looked_for():
    needs = ("bpf cgroup_skb", "bpf connect4", "bpf sock_create", "bpffs", "nftables", "sock destroy")
    status, probes, ok = doctor()
    equal([probes[name]["result"] for name in needs], ["ok"] * len(needs))
    contains(probes["nftables"]["found"], "drops")
    # the controls: a host without the packet filter's or the sockets' netlink
    for family, name in ((12, "nftables"), (4, "sock destroy")):
        no_netlink = refusing(SOCKET, errno.EPROTONOSUPPORT, ((0, socket.AF_NETLINK), (2, family)))
        status, probes, ok = doctor(*no_netlink)
        equal((status, ok), (0, True))  # tier none goes on
        equal({n: probes[n]["result"] for n in needs}, {n: "absent" if n == name else "ok" for n in needs})
        contains(probes[name]["found"], "Protocol not supported")


@test
def nothing_is_left_behind():
    with open("/proc/self/mountinfo") as f:
        assert "cordon-doctor" not in f.read()
    for base, directories, _ in os.walk("/sys/fs/cgroup"):
        left = [x for x in directories if x.startswith("cordon-doctor-") and
                not os.path.exists("/proc/" + x.rsplit("-", 1)[1])]
        equal(left, [], base)
        if base.count("/") > 6:
            directories.clear()


if __name__ == "__main__":
    main()
