#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a command leaves behind, and what it does not: statements, receipts, rows, metrics, memory."""
import base64
import json
import os
import re
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import dsse  # noqa: E402
import images  # noqa: E402
from cordon import BUILD, Plane, contains, equal, eventually, main, test  # noqa: E402
from memory import memory  # noqa: E402

_plane = None


def plane():
    global _plane
    if _plane is None:
        _plane = Plane(egress__maximum="none")
        _plane.__enter__()
    return _plane


def rows(p):
    return p.api("GET", "/v1/audit?org=local&limit=1000")[1]["rows"]


def envelope(p, r):
    path = "/v1/receipts/%s/%s" % (r["jobId"], r["commandId"])
    return eventually(lambda: p.api("GET", path)[1].get("envelope"), "the envelope is kept")


# --- Statements (T3)

@test
def the_command_line_verifies_a_statement_without_a_plane():
    p = plane()
    text = envelope(p, p.json("echo said"))
    keys = "".join(k["pem"] for k in p.api("GET", "/v1/receipts/keys")[1]["keys"])
    with tempfile.TemporaryDirectory() as d, Plane(up=False, rollout=None, image=None) as nothing:
        def verify(data, *options):
            with open(d + "/statement", "w") as f:
                f.write(data)
            return nothing.cordon("receipt", "verify", "--json", "--statement", d + "/statement",
                                  *options)
        with open(d + "/pem", "w") as f:
            f.write(keys)
        done = verify(text, "--key", d + "/pem")
        equal((done.status, done.json["valid"]), (0, True), repr(done))
        equal(done.json["statement"], dsse.verify(json.loads(text), d + "/pem"), "another hand agrees")
        equal(verify(json.dumps({"envelope": text}), "--key", d + "/pem").status, 0)
        assert verify(text).status != 0, "without a trust store there is no yes"
        changed = json.loads(text)
        said = json.loads(base64.b64decode(changed["payload"]))
        said["predicate"]["end"]["exitCode"] = 7
        changed["payload"] = base64.b64encode(json.dumps(said, separators=(",", ":")).encode()).decode()
        done = verify(json.dumps(changed), "--key", d + "/pem")
        equal((done.status, done.json["valid"]), (1, False))
        subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", d + "/foreign"], check=True)
        subprocess.run(["openssl", "pkey", "-in", d + "/foreign", "-pubout", "-out", d + "/foreign.pem"],
                       check=True)
        done = verify(text, "--key", d + "/foreign.pem")
        equal((done.status, done.json["valid"]), (1, False), "a key that did not sign")
        assert verify(text, "--key", d + "/foreign").status != 0, "a private key is no trust store"
        assert p.cordon("receipt", "verify", "--key", d + "/pem", "-", input=b"{}").status != 0


@test
def a_statement_says_capabilities_and_lost_events():
    p = plane()
    said = json.loads(base64.b64decode(json.loads(envelope(p, p.json("true")))["payload"]))["predicate"]
    equal(said["enforcement"]["capabilities"], ["EnvRead", "FileRead", "FileWrite", "Subprocess"],
          "of a command without a network")
    equal((said["lostEvents"], said["layers"]), (0, []))


# --- Receipts and rows

@test
def a_refused_command_has_its_receipt_and_a_row_names_the_image():
    p = plane()
    ran = p.json("true")
    refused = p.json("true", "--memory", "100000G")
    equal((refused["decision"], refused["reason"]), ("denied", "limit_above_maximum"))
    equal((refused["receipt"]["outputHash"], refused["receipt"]["egressDigest"]), (None, None))
    equal(p.api("POST", "/v1/receipts/verify", {"receipt": refused["receipt"], "command": "true",
                                                "reason": "limit_above_maximum"})[1]["valid"], True)
    equal(p.api("POST", "/v1/receipts/verify", {"receipt": refused["receipt"],
                                                "reason": "shutdown"})[1]["valid"], False)
    row = eventually(lambda: [r for r in rows(p) if r["resourceId"] == ran["jobId"]], "its row")[0]
    equal(row["metadata"]["imageDigest"], ran["imageDigest"])
    contains(row["metadata"]["imageDigest"], "sha256:")


def metric(p, name):
    text = p.api("GET", "/metrics", raw=True)[1].decode()
    found = re.search(r"^%s (\d+)$" % name, text, re.M)
    return int(found[1]) if found else None


@test
def metrics_count_commands_and_suppressed_denials():
    p = plane()
    before = metric(p, "cordon_commands_refused_total"), metric(p, "cordon_ledger_suppressed_total")
    job = p.open_job()
    for _ in range(5):
        equal(p.cordon("job", "exec", job, "--memory", "100000G", "--", "true").status, 125)
    equal(metric(p, "cordon_commands_refused_total"), before[0] + 5)
    eventually(lambda: metric(p, "cordon_ledger_suppressed_total") == before[1] + 4, "the ledger's count")


# --- The command line

@test
def a_cancelled_command_has_its_json_object():
    p = plane()
    for number in (signal.SIGINT, signal.SIGTERM):
        child = p.popen("run", "--json", "-c", "echo up; exec sleep 1000", stdout=subprocess.PIPE,
                        stderr=subprocess.DEVNULL)
        eventually(lambda: p.api("GET", "/v1/health")[1]["admission"]["running"], "it runs", 30)
        child.send_signal(number)
        said = json.loads(child.communicate(timeout=60)[0])
        equal((child.returncode, said["reason"], said["untrusted"]), (130, "cancelled", True))
        eventually(lambda: not p.api("GET", "/v1/health")[1]["admission"]["running"], "cancelled", 30)


# --- Readiness (R2, R3): the handshake's command has to say what it was told to say

def shell(script):
    """An edit of the image: /bin/sh is this script."""
    def edit(root):
        path = os.path.join(root, "usr/bin/sh")
        os.unlink(path)
        with open(path, "w") as f:
            f.write("#!/usr/bin/bash\n" + script + "\n")
        os.chmod(path, 0o755)
    return edit


@test
def readiness_is_refused_to_a_handshake_with_another_end():
    with tempfile.TemporaryDirectory(prefix="cdn-store-") as store:
        for what, script, state in (
                ("the control", 'exec /usr/bin/bash "$@"', "ready"),
                ("another output", "echo cordon 0123456789abcdef", "unavailable"),
                ("more than it", '/usr/bin/bash "$@"; echo more', "unavailable"),
                ("no output", "exit 0", "unavailable"),
                ("another status", '/usr/bin/bash "$@"; exit 1', "unavailable"),
                ("a signal", '/usr/bin/bash "$@"; kill -9 $$', "unavailable")):
            digest = images.variant(BUILD, store, shell(script))
            with Plane(image=None, up=False, egress__maximum="none",
                       conf="image = %s\nimage_store = %s\n" % (digest, store)) as p:
                p.up(check=False)
                health = p.cordon("health", "--json")
                equal(health.json["state"], state, "%s: %r" % (what, health))
                equal(health.status, 0 if state == "ready" else 1, what)
                if state != "ready":
                    contains(health.json["missing"][0], "handshake")
                    equal(p.run("--", "/usr/bin/bash", "-c", "exit 4").status, 4,
                          "L0 runs in every state (R4)")


# --- Memory (S4, S6)

@test
def a_command_is_not_in_the_brokers_memory_once_it_is_over():
    with Plane(egress__maximum="none") as p:
        canary = "canary-" + os.urandom(12).hex()
        carrier = p.seal()
        job = p.open_job(carrier)
        mac = carrier.split(".")[2].encode()
        child = p.popen("job", "exec", job, "--stdin", "-", "-c", "cat >/dev/null; : " + canary,
                        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        eventually(lambda: canary.encode() in memory(p.pid("broker")),
                   "positive control: while it lives the scanner finds it", 30)
        child.communicate(b"")
        equal(child.returncode, 0)
        equal(p.cordon("job", "close", job).status, 0)
        eventually(lambda: canary.encode() not in memory(p.pid("broker")), "it is gone", 30)
        eventually(lambda: mac not in memory(p.pid("broker")), "and so is the carrier", 30)


@test
def a_secret_that_is_withdrawn_is_not_in_the_brokers_memory():
    with Plane(egress__maximum="none") as p:
        directory = p.path("etc/cordon/secrets/carrier/")
        with open(directory + "1", "rb") as f:
            old = f.read().strip()
        st = os.stat(directory + "1")
        assert old in memory(p.pid("broker")), "positive control: a key in force is found"
        fd = os.open(directory + "2", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400)
        os.write(fd, os.urandom(32).hex().encode() + b"\n")
        os.fchown(fd, st.st_uid, st.st_gid)
        os.close(fd)
        os.unlink(directory + "1")
        pid = p.pid("broker")
        equal(p.cordon("reload").status, 0)
        equal(p.pid("broker"), pid, "the same process")
        assert old not in memory(pid), "the withdrawn key is still there"


if __name__ == "__main__":
    try:
        main()
    finally:
        if _plane:
            _plane.__exit__()
