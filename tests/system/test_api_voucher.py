#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Vouchers (S7), made by an independent issuer (openssl), command lists (Q8), secrets that rotate (S4)."""
import base64
import contextlib
import hashlib
import json
import os
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cordon import Plane, contains, equal, main, run as sh, test  # noqa: E402

SESSION = {"orgId": "local", "userId": "root", "surface": "agent_run"}
NONE = hashlib.sha256(b'{"tier":"none","hosts":[],"maxBytes":null}').hexdigest()


def url64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Issuer:
    """Holds the private key; the plane never sees it."""

    def __init__(self, directory):
        self.key = os.path.join(directory, "issuer.pem")
        equal(sh(["openssl", "genpkey", "-algorithm", "ed25519", "-out", self.key]).status, 0)
        self.public = sh(["openssl", "pkey", "-in", self.key, "-pubout"]).out

    def sign(self, data):
        with tempfile.NamedTemporaryFile() as f:
            f.write(data)
            f.flush()
            done = sh(["openssl", "pkeyutl", "-sign", "-inkey", self.key, "-rawin", "-in", f.name])
        equal(done.status, 0, done.error)
        return done.out

    def issue(self, job, argv, session=SESSION, stdin=b"", egress=NONE, audience="cordon",
              nonce=None, iat=None, ttl=60000):
        iat = int(time.time() * 1000) if iat is None else iat
        text = b"%d\0" % len(argv) + b"".join(a.encode() + b"\0" for a in argv) + stdin
        payload = {"aud": audience, "job": job,
                   "session": hashlib.sha256(compact(session)).hexdigest(),
                   "command": hashlib.sha256(text).hexdigest(), "egress": egress,
                   "nonce": nonce or url64(os.urandom(18)), "iat": iat, "exp": iat + ttl}
        body = url64(compact(payload))
        return "v1.%s.%s" % (body, url64(self.sign(b"cordon voucher\n" + b"v1." + body.encode())))


def compact(v):
    return json.dumps(v, separators=(",", ":")).encode()


@contextlib.contextmanager
def plane():
    with tempfile.TemporaryDirectory() as directory:
        issuer = Issuer(directory)
        with Plane(egress__maximum="none", vouchers="required", up=False) as p:
            with open(p.path("etc/cordon/voucher.pem"), "wb") as f:
                f.write(issuer.public)
            p.up()
            yield p, issuer


def open_job(p):
    _, sealed = p.api("POST", "/v1/sessions/seal", SESSION)
    status, job = p.api("POST", "/v1/jobs", {"carrier": sealed["carrier"]})
    equal(status, 201, job)
    return job["jobId"]


def execute(p, job, **fields):
    return p.api("POST", "/v1/jobs/%s/commands" % job, fields)


@test
def a_voucher_lets_exactly_one_command_run():
    with plane() as (p, issuer):
        equal(p.api("GET", "/v1/health")[1]["state"], "ready", "the handshake needs none")
        job = open_job(p)
        argv = ["echo", "vouched"]
        voucher = issuer.issue(job, argv)
        equal(execute(p, job, argv=argv, voucher=voucher)[1]["stdout"], "vouched\n")
        status, r = execute(p, job, argv=argv, voucher=voucher)
        equal((status, r["reason"], r["decision"]), (403, "voucher_replayed", "denied"))
        equal(execute(p, job, argv=["cat"], stdinB64=base64.b64encode(b"in").decode(),
                      voucher=issuer.issue(job, ["cat"], stdin=b"in"))[1]["stdout"], "in")
        equal(execute(p, job, command="echo $((6*7))",
                      voucher=issuer.issue(job, ["bash", "-c", "echo $((6*7))"]))[1]["stdout"], "42\n")


@test
def every_other_voucher_is_refused_by_name():
    with plane() as (p, issuer), tempfile.TemporaryDirectory() as directory:
        stranger = Issuer(directory)
        job, other = open_job(p), open_job(p)
        argv = ["true"]
        good = issuer.issue(job, argv)
        version, body, signature = good.split(".")
        now = int(time.time() * 1000)
        for voucher, reason in (
                (None, "voucher_missing"),
                ("", "voucher_missing"),
                ("v1.x.y", "voucher_malformed"),
                (good + "=", "voucher_malformed"),
                (stranger.issue(job, argv), "voucher_bad_signature"),
                (".".join((version, body, ("A" if signature[0] != "A" else "B") + signature[1:])),
                 "voucher_bad_signature"),
                (issuer.issue(job, argv, audience="elsewhere"), "voucher_wrong_audience"),
                (issuer.issue(job, ["false"]), "voucher_command_mismatch"),
                (issuer.issue(job, ["true", ""]), "voucher_command_mismatch"),
                (issuer.issue(job, argv, stdin=b"x"), "voucher_command_mismatch"),
                (issuer.issue(job, argv, egress="0" * 64), "voucher_command_mismatch"),
                (issuer.issue(other, argv), "voucher_job_mismatch"),
                (issuer.issue(job, argv, session=dict(SESSION, userId="else")),
                 "voucher_session_mismatch"),
                (issuer.issue(job, argv, iat=now - 100000, ttl=50000), "voucher_expired"),
                (issuer.issue(job, argv, iat=now + 60000), "voucher_not_yet_valid")):
            fields = {"argv": argv} if voucher is None else {"argv": argv, "voucher": voucher}
            equal(execute(p, job, **fields)[1]["reason"], reason)
        equal(execute(p, job, argv=argv, stdin="stream", voucher=issuer.issue(job, argv))[1]["reason"],
              "voucher_command_mismatch", "input that streams is not covered")
        equal(p.api("POST", "/v1/run", {"session": SESSION, "argv": argv})[1]["reason"],
              "voucher_missing")
        equal(execute(p, job, argv=argv, voucher=good)[1]["exitCode"], 0,
              "none of these used the good one up")


@test
def a_nonce_stays_used_across_a_restart():
    with plane() as (p, issuer):
        job = open_job(p)
        voucher = issuer.issue(job, ["true"])
        equal(execute(p, job, argv=["true"], voucher=voucher)[1]["exitCode"], 0)
        p.down()
        p.up()
        equal(execute(p, job, argv=["true"], voucher=voucher)[1]["reason"], "voucher_replayed")
        equal(execute(p, job, argv=["true"], voucher=issuer.issue(job, ["true"]))[1]["exitCode"], 0,
              "positive control: another one is as good as before")


@test
def a_private_key_is_refused():
    with tempfile.TemporaryDirectory() as directory:
        issuer = Issuer(directory)
        with Plane(vouchers="required", up=False) as p:
            equal(p.up(check=False).status, 1)
            contains(p.log, "voucher.pem")
            with open(issuer.key, "rb") as f, open(p.path("etc/cordon/voucher.pem"), "wb") as g:
                g.write(f.read())
            equal(p.up(check=False).status, 1, "it came up with a private key")


@test
def a_plane_without_vouchers_takes_none():
    with Plane(egress__maximum="none") as p:
        job = open_job(p)
        equal(execute(p, job, argv=["true"], voucher="v1.a.b")[1]["reason"], "not_available")
        equal(execute(p, job, argv=["true"])[1]["exitCode"], 0)


@test
def command_lists_refuse_and_reload():
    with Plane(egress__maximum="none", command_block="rm dd") as p:
        job = open_job(p)
        for fields in ({"argv": ["rm", "x"]}, {"argv": ["/bin/rm", "x"]}, {"command": "true; rm x"}):
            status, r = execute(p, job, **fields)
            equal((status, r["reason"], r["decision"]), (403, "command_blocked", "denied"))
        equal(execute(p, job, argv=["echo", "rm"])[1]["exitCode"], 0)
        p.configure(command_block="", command_allow="echo cat")
        equal(p.cordon("reload").status, 0)
        equal(execute(p, job, argv=["ls"])[1]["reason"], "command_blocked")
        equal(execute(p, job, command="echo x | cat")[1]["stdout"], "x\n")
        equal(p.api("GET", "/v1/health")[1]["state"], "ready", "the handshake is not a caller's")


@test
def secrets_rotate_without_a_restart():
    with Plane(egress__maximum="none") as p:
        old = p.api("POST", "/v1/sessions/seal", SESSION)[1]["carrier"]
        job = open_job(p)
        first = execute(p, job, argv=["true"])[1]["receipt"]
        pid = p.pid("broker")
        for name in ("carrier", "attestation"):
            path = p.path("etc/cordon/secrets/%s/" % name)
            st = os.stat(path + "1")
            fd = os.open(path + "2", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400)
            os.write(fd, os.urandom(32).hex().encode() + b"\n")
            os.fchown(fd, st.st_uid, st.st_gid)
            os.close(fd)
        equal(p.cordon("reload").status, 0)
        equal(p.pid("broker"), pid)
        new = p.api("POST", "/v1/sessions/seal", SESSION)[1]["carrier"]
        assert new.split(".")[2] != old.split(".")[2]
        for carrier in (old, new):
            equal(p.api("POST", "/v1/sessions/open", {"carrier": carrier})[0], 200)
        second = execute(p, job, argv=["true"])[1]["receipt"]
        equal((first["keyVersion"], second["keyVersion"]), (1, 2))
        for receipt in (first, second):
            equal(p.api("POST", "/v1/receipts/verify", {"receipt": receipt})[1]["valid"], True)
        equal(len(p.api("GET", "/v1/receipts/keys")[1]["keys"]), 2)
        os.chmod(p.path("etc/cordon/secrets/carrier/2"), 0o444)
        done = p.cordon("reload")
        assert done.status != 0, "a secret that the world can read was taken"
        contains(done.error, "carrier/2")
        equal(p.api("POST", "/v1/sessions/open", {"carrier": new})[0], 200, "nothing changed")
        os.chmod(p.path("etc/cordon/secrets/carrier/2"), 0o400)
        os.unlink(p.path("etc/cordon/secrets/carrier/1"))
        equal(p.cordon("reload").status, 0)
        equal(p.api("POST", "/v1/sessions/open", {"carrier": old})[1]["reason"],
              "carrier_bad_signature")


if __name__ == "__main__":
    main()
