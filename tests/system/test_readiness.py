#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""R1 to R4 as one table: what each verb and tier answers in every state of the plane.

A daemon is held dead by stopping cordond first, so that no next one comes. The
handshakes that end otherwise are in test_api_evidence.py.
"""
import contextlib
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cordon import SCALE, Plane, contains, equal, eventually, main, test  # noqa: E402

SESSION = {"orgId": "local", "userId": "root", "surface": "chat"}
NONE = {"mode": "none"}
ASKS = {
    "none": {"egress": NONE},
    "allowlist": {"egress": {"mode": "allowlist", "allow": ["example.org"]}},
    "skill": {"egress": NONE, "skills": ["no-such-skill"]},
    "declared": {"egress": NONE, "environment": {"pip": ["requests"]}},
}
RAN, CLAMPED = "ran", "ran without a network, and says so"


@contextlib.contextmanager
def dead(p, daemon):
    """@daemon is dead and no next one comes."""
    supervisor, pid = p.pid("cordond"), p.pid(daemon)
    assert pid > 1, daemon
    os.kill(supervisor, signal.SIGSTOP)
    try:
        os.kill(pid, signal.SIGKILL)
        yield time.monotonic()
    finally:
        os.kill(supervisor, signal.SIGCONT)
    eventually(lambda: p.daemons()[daemon][0] not in (0, pid), "the next " + daemon, 30)
    p.wait_ready()


def health(p):
    return p.api("GET", "/v1/health")[1]


def answer(p, ask):
    """RAN, CLAMPED, or the reason why nothing ran; never both."""
    status, r = p.api("POST", "/v1/run", {"session": SESSION, "argv": ["echo", "out"], **ASKS[ask]},
                      timeout=20 * SCALE)
    if "decision" in r and r["decision"] == "allowed":
        equal((status, r["exitCode"], r["stdout"]), (200, 0, "out\n"), ask)
        return CLAMPED if r["egress"]["clamped"] else RAN
    assert status >= 400 and not r.get("stdout"), (ask, status, r)
    return r["reason"]


def check(p, what, state, missing, answers):
    """One row of the table."""
    eventually(lambda: health(p)["state"] == state and bool(health(p)["missing"]) == bool(missing),
               "%s: health says %s" % (what, state), 20)
    told = p.cordon("health", "--json")
    equal((told.status, told.json["state"]), (0 if state == "ready" else 1, state), what)
    if missing:
        contains(" ".join(told.json["missing"]), missing, what)
    else:
        equal(told.json["missing"], [], what)
    for ask, wanted in answers.items():
        equal(answer(p, ask), wanted, "%s, %s" % (what, ask))
    # Never downgraded to L0, whatever the state (R4).
    got = answer(p, "declared")
    assert got == "not_available" or got.startswith("environment_"), "%s: %s" % (what, got)
    equal(p.api("POST", "/v1/sessions/seal", SESSION)[0], 200, what + ": a carrier is sealed")


READY = {"none": RAN, "allowlist": RAN, "skill": "staging_failed"}
NOBODY = dict.fromkeys(READY, "worker_unavailable")


@test
def the_matrix_of_a_plane_whose_daemons_die():
    # (who is dead, audit mode) -> state, what health names, what is answered
    for audit, rows in (
            ("best_effort", (
                ("worker", "unavailable", "no worker", NOBODY),
                ("ledger", "ready", "no ledger: rows are spooled", READY),
                ("gateway", "ready", "no gateway", dict(READY, allowlist="egress_unavailable")),
                ("skills", "ready", "no skills server", dict(READY, skill="worker_unavailable")))),
            ("required", (
                ("worker", "unavailable", "no worker", NOBODY),
                ("ledger", "unavailable", "no ledger", dict.fromkeys(READY, "audit_unavailable"))))):
        with Plane(audit=audit) as p:
            check(p, "all there", "ready", "", READY)
            for who, state, missing, answers in rows:
                with dead(p, who):
                    check(p, "%s, %s dead" % (audit, who), state, missing, answers)
                check(p, "%s, %s back" % (audit, who), "ready", "", READY)


@test
def the_matrix_of_what_is_configured():
    for keys, answers in (
            ({"gateway": "off"}, dict(READY, allowlist=CLAMPED)),
            ({"run_registry": "on"}, READY)):
        with Plane(**keys) as p:
            check(p, repr(keys), "ready", "", answers)


@test
def a_dead_worker_is_said_within_a_second():
    with Plane(egress__maximum="none") as p:
        eventually(lambda: health(p)["state"] == "ready", "ready", 20)
        before = time.monotonic()
        health(p)
        one_answer = time.monotonic() - before
        with dead(p, "worker") as killed:
            eventually(lambda: health(p)["state"] == "unavailable", "it is said", 10, 0.005)
            took = time.monotonic() - killed
            equal(health(p)["missing"], ["no worker"])
            # A second, and what an answer takes on a host as busy as this one.
            assert took < 1 * SCALE + 20 * one_answer, "%.3f s (an answer: %.3f s)" % (took, one_answer)
        eventually(lambda: health(p)["state"] == "ready", "ready after its restart", 30)


@test
def verbs_of_a_plane_that_is_off():
    # (verb, status, what it says): health, the catalog and the pure verbs work without a daemon (R1).
    with Plane(up=False, rollout="off") as p:
        for verb, status, text in (
                (("health", "--json"), 3, '"disabled"'),
                (("skill", "list", "--json"), 0, "[]"),
                (("egress", "classify", "10.0.0.1"), 0, "protected"),
                (("egress", "match", "example.org", "example.org:443"), 0, "allow"),
                (("config",), 0, "rollout"),
                (("run", "--", "true"), 125, "plane_disabled"),
                (("job", "list"), 125, "plane_disabled"),
                (("session", "seal"), 125, "plane_disabled"),
                (("audit", "list", "--all"), 125, "plane_disabled"),
                (("up",), 3, "rollout = on")):
            done = p.cordon(*verb)
            equal(done.status, status, repr((verb, done)))
            contains(done.text + done.error, text, repr(verb))
        equal(os.path.exists(p.socket), False, "nothing listens")
        equal(p.left_behind(), [])


if __name__ == "__main__":
    main()
