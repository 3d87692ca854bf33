#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the daemons have in their memory: secrets their owner alone, tokens no longer than they
are worth something (S4, S6; ESCAPES 76). The broker's commands: test_api_evidence.py."""
import base64
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cordon import CORDON, Plane, equal, eventually, main, test  # noqa: E402
from memory import memory  # noqa: E402

RESOLVER = "192.0.2.53"  # nobody: nothing here has to be resolved
HEAD = ("printf 'CONNECT nowhere.example:443 HTTP/1.1\\r\\nHost: nowhere.example\\r\\n"
        "Proxy-Authorization: Basic %s\\r\\n' $A")
# Says its token; a head of which the end never comes; then a whole one, with a port the gateway
# refuses, so that nothing that comes later lies over it.
SCRIPT = ("echo $http_proxy; T=$(echo $http_proxy | sed 's,http://\\(.*\\)@.*,\\1,'); "
          "A=$(echo -n $T | base64 | tr -d '\\n'); "
          "(" + HEAD + "; sleep 100) | nc 100.64.0.1 3128 & sleep 2; "
          "(" + HEAD.replace(":443", ":25") + "; printf '\\r\\n'; sleep 1) | nc 100.64.0.1 3128 | head -n 1; "
          "wait")


def secrets(p):
    """{name: (text, its bytes)} of the instance."""
    found, top = {}, p.path("etc/cordon/secrets")
    for name in os.listdir(top):
        with open(os.path.join(top, name, "1"), "rb") as f:
            text = f.read().strip()
        found[name] = (text, bytes.fromhex(text.decode()))
    return found


def pids(p):
    found = {name: pid for name, (pid, _ready, _restarts) in p.daemons().items() if pid > 0}
    return dict(found, cordond=p.pid("cordond"))


@test
def a_jobs_token_is_in_nobodys_memory_once_its_command_is_over():
    with Plane(gateway__resolver=RESOLVER, gateway__head_timeout=300) as p:
        child = p.popen("run", "-c", SCRIPT, stdout=subprocess.PIPE)
        token = child.stdout.readline().decode().split("//")[1].split(":")[0].encode()
        credential = base64.b64encode(token + b":x")
        answer = child.stdout.readline()
        assert b" 403 " in answer, "the whole head was read, and refused: %r" % answer
        gateway = p.pid("gateway")
        eventually(lambda: credential in memory(gateway),
                   "positive control: the gateway keeps half a head, and the scanner finds it")
        equal(memory(gateway).count(credential), 1, "and has it nowhere else")
        assert token in memory(gateway), "positive control: the token is registered"
        for name, pid in pids(p).items():
            if name not in ("gateway", "broker"):
                found = memory(pid)
                assert p.name.encode() in found, "positive control: the scanner reads the %s" % name
                assert token not in found, "the %s has no business with it" % name
        child.terminate()
        child.wait()
        for name, pid in pids(p).items():
            eventually(lambda: token not in memory(pid), "the %s has forgotten the token" % name, 30)
            eventually(lambda: credential not in memory(pid), "and the credential", 30)


@test
def a_secret_is_in_its_owners_memory_alone():
    owners = {"chain": "ledger"}  # every other one: the broker's
    with Plane(egress__maximum="none") as p:
        equal(p.sh("true").status, 0)
        equal(p.cordon("audit", "verify").status, 0)
        all_secrets, running = secrets(p), pids(p)
        assert {"chain", "carrier"} <= set(all_secrets), all_secrets.keys()
        assert {"cordond", "broker", "worker", "ledger"} <= set(running), running
        for name, pid in running.items():
            found = memory(pid)
            assert p.name.encode() in found, "positive control: the scanner reads the %s" % name
            for secret, (text, raw) in all_secrets.items():
                if owners.get(secret, "broker") != name:
                    assert text not in found and raw not in found, "%s in the %s" % (secret, name)
        for secret, name in (("chain", "ledger"), ("carrier", "broker")):
            equal(memory(running[name]).count(all_secrets[secret][0]), 1,
                  "the %s has its own once, in the pages that are wiped" % name)


@test
def a_chain_key_that_is_withdrawn_is_not_in_the_ledgers_memory():
    with Plane(egress__maximum="none") as p:
        equal(p.sh("true").status, 0)
        directory = p.path("etc/cordon/secrets/chain/")
        old, st, pid = secrets(p)["chain"][0], os.stat(directory + "1"), p.pid("ledger")
        assert old in memory(pid), "positive control: a key in force is found"
        fd = os.open(directory + "2", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400)
        os.write(fd, os.urandom(32).hex().encode() + b"\n")
        os.fchown(fd, st.st_uid, st.st_gid)
        os.close(fd)
        os.unlink(directory + "1")
        equal(p.cordon("reload").status, 0)
        equal(p.pid("ledger"), pid, "the same process")
        assert old not in memory(pid), "the withdrawn key is still there"


@test
def no_daemon_leaves_a_core_or_is_open_to_its_own_user():
    with Plane(gateway__resolver=RESOLVER) as p:
        for name, pid in pids(p).items():
            with open("/proc/%d/limits" % pid) as f:
                core = next(line.split()[4:6] for line in f if line.startswith("Max core file size"))
            assert set(core) <= {"0", "1"}, (name, core)
            with open("/proc/%d/status" % pid) as f:
                uid = next(int(line.split()[1]) for line in f if line.startswith("Uid:"))
            if uid == 0:
                continue  # whose it is says nothing then: tests/unit/test_worker_privileges.c
            equal(os.stat("/proc/%d/environ" % pid).st_uid, 0, "the %s is not dumpable" % name)
            plain = subprocess.Popen(["sleep", "100"], user=uid, group=uid)
            try:
                eventually(lambda: os.stat("/proc/%d/environ" % plain.pid).st_uid == uid,
                           "positive control: another is, when its exec is over")
            finally:
                plain.kill()
                plain.wait()


@test
def a_client_that_was_given_a_carrier_leaves_no_core():
    def owner(pid):
        return os.stat("/proc/%d/environ" % pid).st_uid

    for argv, uid in ((["sleep", "100"], 65534), ([CORDON, "job", "open", "--carrier", "-"], 0)):
        child = subprocess.Popen(argv, user=65534, group=65534, stdin=subprocess.PIPE)
        try:  # (it waits for the carrier)
            eventually(lambda: owner(child.pid) == uid, "%s: 0 is nobody's to look at or dump" % argv[0])
            assert child.poll() is None
        finally:
            child.kill()
            child.communicate()


if __name__ == "__main__":
    main()
