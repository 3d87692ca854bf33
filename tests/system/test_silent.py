#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Daemons that are there and say nothing: a stopped ledger, skills server or cordond bounds every wait.

What is stopped here is the test's own plane's. No time is asserted but by
patience: the call comes back, and the daemon is still stopped then.
"""
import contextlib
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cordon import SCALE, Later, Plane, contains, equal, eventually, main, test  # noqa: E402

SESSION = {"orgId": "local", "userId": "root", "surface": "chat"}


@contextlib.contextmanager
def stopped(p, daemon):
    """@daemon says nothing until the block ends, and is the same then."""
    pid = p.pid(daemon)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
        with open("/proc/%d/stat" % pid) as f:
            equal(f.read().rsplit(")", 1)[1].split()[0], "T", daemon + " is stopped")
    finally:
        os.kill(pid, signal.SIGCONT)


def go(p, argv=("true",), timeout=60, **more):
    _, r = p.api("POST", "/v1/run", {"session": SESSION, "argv": list(argv), **more},
                 timeout=timeout * SCALE)
    return (r["exitCode"] if r.get("decision") == "allowed" else r["reason"]), r


def health(p):
    return p.api("GET", "/v1/health")[1]


def ledger(p):
    return health(p)["ledger"]["store"]


def rows(p):
    return p.api("GET", "/v1/audit?all=1&limit=1000")[1]["rows"]


def commands(p):
    """The command lines of what is in sandboxes."""
    lines = []
    for pid in p.sandboxed():
        with contextlib.suppress(OSError), open("/proc/%d/cmdline" % pid) as f:
            lines.append(f.read().replace("\0", " ").strip())
    return lines


def said(p, part):
    return eventually(lambda: part in " ".join(health(p)["missing"]), "health names it: " + part, 30)


@test
def readers_of_a_stopped_ledger_are_answered():
    with Plane(egress__maximum="none") as p:
        equal(go(p)[0], 0)
        eventually(lambda: len(rows(p)) >= 2, "its row")
        known = len(rows(p))
        calls = (("GET", "/v1/audit?all=1&limit=10", None, 200),
                 ("GET", "/v1/audit/verify", None, 503), ("GET", "/v1/runs", None, 503),
                 ("PUT", "/v1/runs/late", {"orgId": "o", "userId": "u", "state": "alive"}, 503),
                 ("GET", "/v1/receipts/job-x/auto-x", None, 503), ("GET", "/metrics", None, 200),
                 ("GET", "/v1/health", None, 200))
        with stopped(p, "ledger"):
            asked = [Later(p.api, method, path, body, raw="metrics" in path)
                     for method, path, body, _ in calls]
            equal(go(p)[0], 0, "in the default mode nobody waits for a row")
            for (method, path, _, status), call in zip(calls, asked):
                got, answer = call.answer()
                equal(got, status, path)
                if status == 503:
                    equal(answer["reason"], "audit_unavailable", path)
            equal(asked[0].result[1]["rows"], [], "A8: an empty list")
            h = health(p)
            equal((h["state"], h["ledger"]["up"]), ("ready", False))
            contains(h["missing"], "the ledger does not answer: rows wait")
            for _ in range(3):
                equal(go(p)[0], 0)
            equal(p.api("GET", "/v1/runs")[0], 503, "and now at once")
        eventually(lambda: health(p)["ledger"]["up"], "it is heard again", 30)
        eventually(lambda: len(rows(p)) >= known + 4, "what waited is written", 30)
        equal(health(p)["missing"], [])
        equal(health(p)["ledger"]["lost"], 0)
        equal(p.api("GET", "/v1/audit/verify")[1]["ok"], True)


@test
def required_mode_refuses_while_the_ledger_is_stopped_and_writes_no_wrong_row():
    with Plane(egress__maximum="none", audit="required") as p:
        equal(go(p)[0], 0)
        broker = p.pid("broker")
        running = Later(go, p, ["sh", "-c", "echo ran; sleep 1"], 120)
        eventually(p.sandboxed, "one runs")
        eventually(lambda: ledger(p)["intentsOpen"] >= 1, "with its intent")
        with stopped(p, "ledger"):
            # Those that ask meanwhile, by both ways a letter waits: an intent, a name.
            asked = [Later(go, p, ["touch", "x"], 120),
                     Later(go, p, ["touch", "x"], 120, commandId="named")]
            equal([x.answer()[0] for x in asked], ["audit_unavailable"] * 2)
            got, r = running.answer()
            equal((got, r["stdout"]), (0, "ran\n"), "what ran is answered; its intent is durable")
            said(p, "the ledger does not answer")
            equal(health(p)["state"], "unavailable")
            equal(go(p)[0], "audit_unavailable", "and now at once")
        eventually(lambda: health(p)["state"] == "ready", "ready again", 30)
        equal(go(p)[0], 0)
        equal(p.pid("broker"), broker)

        def settled():
            reasons = [(x["decision"], x["metadata"]["reason"]) for x in rows(p)
                       if x["organizationId"] == "local"]
            return reasons if len(reasons) == 6 else None
        found = eventually(settled, "a row each", 30)
        equal(sorted(map(str, found)), sorted(map(str, [("allowed", None)] * 3 + [
            ("denied", "audit_unavailable")] * 3)))
        # Intents that came too late for their commands become no row, also of the next broker.
        before = len(rows(p))
        p.kill("broker")
        eventually(lambda: p.pid("broker") not in (0, broker), "the next broker", 30)
        p.wait_ready()
        equal(go(p)[0], 0)
        eventually(lambda: ledger(p)["intentsOpen"] == 0, "no intent is left", 30)
        assert not any(x["metadata"]["reason"] == "outcome_unknown" for x in rows(p)), rows(p)
        assert len(rows(p)) > before
        equal(p.api("GET", "/v1/audit/verify")[1]["ok"], True)


@test
def jobs_are_known_again_when_the_ledger_that_knows_them_is_heard():
    with Plane(egress__maximum="none") as p:
        job = p.open_job()
        equal(p.api("POST", "/v1/jobs/%s/commands" % job, {"argv": ["touch", "kept"]})[1]["exitCode"], 0)
        broker = p.pid("broker")
        with stopped(p, "ledger"):
            p.kill("broker")
            eventually(lambda: p.pid("broker") not in (0, broker), "the next broker", 30)
            eventually(lambda: os.path.exists(p.socket) and go(p)[0] == 0, "it serves without it", 30)
        eventually(lambda: p.api("POST", "/v1/jobs/%s/commands" % job,
                                 {"argv": ["test", "-e", "kept"]})[1].get("exitCode") == 0,
                   "the job is known again, with its workspace", 30)


@test
def skills_that_are_stopped_hold_no_command_and_health_names_them():
    with Plane(egress__maximum="none") as p:
        os.makedirs(p.path("skill"))
        with open(p.path("skill/SKILL.md"), "w") as f:
            f.write("---\nname: one\ndescription: says hello\n---\nhello\n")
        equal(p.cordon("skill", "add", p.path("skill"), "--slug", "one").status, 0)
        read = ["cat", "/skills/one/SKILL.md"]
        equal(go(p, read, skills=["one"])[0], 0, "the control")
        equal(health(p)["missing"], [])
        running = Later(go, p, ["sh", "-c", "cat /skills/one/SKILL.md; exec sleep 3.21"], 120, skills=["one"])
        eventually(lambda: "sleep 3.21" in commands(p), "one runs, and has read")
        with stopped(p, "skills"):
            asked = [Later(go, p, read, 120, skills=["one"]), Later(p.api, "GET", "/v1/skills")]
            equal(go(p)[0], 0, "without skills")
            equal(asked[0].answer()[0], "worker_unavailable")
            assert asked[1].answer()[0] >= 400, asked[1].result
            got, r = running.answer()
            equal(got, 0, "what runs is answered, counted or not")
            contains(r["stdout"], "hello")
            said(p, "the skills server does not answer: commands with skills are refused")
            equal(health(p)["state"], "ready")
            equal(go(p, read, skills=["one"])[0], "worker_unavailable", "and now at once")
        eventually(lambda: not health(p)["missing"], "they are heard again", 30)
        got, r = go(p, read, skills=["one"])
        equal(got, 0)
        contains(r["stdout"], "hello")


@test
def a_stopped_cordond_holds_nothing_on_the_way_of_a_command():
    with Plane(pool="0") as p:  # no slot is built ahead: all of it is made while nobody supervises
        equal(go(p)[0], 0)
        with stopped(p, "cordond"):
            job = p.open_job()
            for mode in ("none", "allowlist"):
                equal(go(p, egress={"mode": mode, **({"allow": ["example.org"]} if mode != "none" else {})})[0],
                      0, mode)
            equal(p.api("POST", "/v1/jobs/%s/commands" % job, {"argv": ["true"]})[1]["exitCode"], 0)
            equal(p.api("DELETE", "/v1/jobs/" + job)[0], 200)
            equal(health(p)["state"], "ready")
            equal(p.cordon("health", "--json").status, 0)
        equal(p.cordon("reload").status, 0)


@test
def orders_to_a_stopped_cordond_end_with_what_was_waited_for():
    with Plane(egress__maximum="none") as p:
        pid = p.pid("cordond")
        os.kill(pid, signal.SIGSTOP)
        try:
            calls = [Later(p.cordon, verb, timeout=200) for verb in ("reload", "down")]
            for call, seconds in zip(calls, (20, 60)):
                done = call.answer()
                equal((done.status, done.error), (1, "cordon: cordond does not answer within %d s\n" % seconds))
        finally:
            os.kill(pid, signal.SIGCONT)
        # what was asked for is done when it wakes
        eventually(lambda: not os.path.exists("/proc/%d" % pid), "it goes down", 60)


if __name__ == "__main__":
    main()
