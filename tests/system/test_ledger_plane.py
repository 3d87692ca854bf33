#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The ledger through a plane's doors: what every end of a command leaves, what never
gets in, reading without a ledger, export and retention (SPEC A1 to A9)."""
import base64
import json
import os
import re
import secrets
import shutil
import signal
import sqlite3
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cordon import Plane, contains, equal, eventually, main, test  # noqa: E402


def session(org="local", user="root", **more):
    return dict({"orgId": org, "userId": user, "surface": "chat"}, **more)


def run(p, org="local", **fields):
    return p.api("POST", "/v1/run", dict({"session": session(org)}, **fields))


def rows(p, query="all=1"):
    _, answer = p.api("GET", "/v1/audit?limit=1000&" + query)
    return [r for r in answer["rows"] if r["organizationId"] != "cordon:handshake"]


def row_of(p, org):
    """The one row of an organisation."""
    found = eventually(lambda: rows(p, "org=" + org), "the row of " + org)
    equal(len(found), 1)
    return found[0]


@test
def what_ran_is_allowed_however_it_ended():
    ends = {
        "exited": {"command": "exit 3"},
        "timeout": {"command": "sleep 60", "timeoutMs": 300},
        "output_cap_exceeded": {"command": "yes", "outputBytes": 4096},
        "disk_quota_exceeded": {
            "command": "for i in 1 2 3; do dd if=/dev/zero of=f$i bs=65536 count=48; done",
            "workspaceBytes": 4 << 20},
    }
    with Plane() as p:
        for end, fields in ends.items():
            org = "end-" + end.replace("_", "-")
            equal(run(p, org, **fields)[1]["termination"], end)
            r = row_of(p, org)
            equal((r["decision"], r["metadata"]["termination"]), ("allowed", end))
            equal(r["metadata"]["exitCode"], 3 if end == "exited" else r["metadata"]["exitCode"])
            equal(isinstance(r["metadata"]["wallMs"], int), True, end)
        for reason, fields in {
                "limit_above_maximum": {"argv": ["true"], "memoryBytes": 1 << 50},
                "invalid_request": {"argv": []}}.items():
            org = "no-" + reason.replace("_", "-")
            equal(run(p, org, **fields)[1]["reason"], reason)
            if reason == "invalid_request":
                continue  # its session was not read: the row is of nobody
            r = row_of(p, org)
            equal((r["decision"], r["metadata"]["reason"], r["metadata"]["termination"],
                   r["metadata"]["exitCode"]), ("denied", reason, None, None))


@test
def without_a_ledger_reading_is_an_empty_list_and_running_goes_on():
    with Plane() as p:
        equal(run(p, argv=["true"])[1]["exitCode"], 0)
        eventually(lambda: rows(p), "its row")
        keys, away = p.path("etc/cordon/secrets/chain"), p.path("etc/cordon/chain-away")
        os.rename(keys, away)  # the next one cannot start
        p.kill("ledger")
        empty = (200, {"rows": [], "next": None})
        eventually(lambda: p.api("GET", "/v1/audit?all=1") == empty, "an empty list")
        equal(p.api("GET", "/v1/audit?org=local"), empty)
        equal(p.cordon("audit", "list", "--all", "--json").json, empty[1])
        # what is no reading says no instead of something untrue
        equal(p.api("GET", "/v1/audit/verify")[1]["reason"], "audit_unavailable")
        equal(p.api("GET", "/v1/audit/export/site")[1]["reason"], "audit_unavailable")
        equal(p.cordon("audit", "verify").status, 125)
        equal(run(p, argv=["true"])[1]["exitCode"], 0, "the default mode")
        os.rename(away, keys)
        p.wait_ready()
        eventually(lambda: len(rows(p)) == 2, "both rows, also the one written meanwhile")


@test
def a_hostile_command_leaves_nothing_of_itself():
    mark = "CANARY" + secrets.token_hex(8)
    words = {w: mark + w for w in ("argv", "out", "err", "stdin", "host", "path", "file")}
    control = "control" + secrets.token_hex(8)
    with Plane(egress__maximum="allowlist", run_registry="off") as p:
        hostile = {
            "argv": ["sh", "-c", "cat; echo %s; echo %s >&2; echo x > %s; env;"
                     " for h in %s other-%s; do wget -T 2 -q -O- http://$h.example/; done; exit 7" % (
                         words["out"], words["err"], words["file"], words["host"].lower(),
                         words["host"].lower()), words["argv"]],
            "stdinB64": base64.b64encode(words["stdin"].encode()).decode(),
            "egress": {"mode": "allowlist", "allow": [words["host"].lower() + ".example"]}}
        status, r = run(p, "hostile", commandId="seen", **hostile)
        equal((status, r["exitCode"]), (200, 7), r)
        contains(r["stdout"] + r["stderr"], words["out"])  # it really said it
        carrier = p.seal(org="hostile", user="root")
        job = p.api("POST", "/v1/jobs", {"carrier": carrier})[1]["jobId"]
        base = "/v1/jobs/%s/commands" % job
        equal(p.api("POST", base, dict(hostile, commandId="again"))[0], 200)
        p.api("POST", base, dict(hostile, cwd="../" + words["path"]))  # refused
        p.api("POST", base, dict(hostile, command=words["argv"]))  # refused
        p.api("POST", base, {"argv": [words["argv"]], "surprise": words["out"]})
        p.api("POST", base, b'{"argv": ["%s' % words["argv"].encode())
        p.api("POST", "/v1/jobs", {"carrier": carrier + words["argv"]})
        p.api("GET", "/v1/audit?org=" + words["path"])
        p.api("GET", "/" + words["path"])
        run(p, control, command="true", cwd="")
        eventually(lambda: rows(p, "org=" + control), "the control's row")
        exported = p.cordon("audit", "export", "--consumer", "site").text
        exported += p.cordon("audit", "export").text
        receipts = [p.api("GET", "/v1/receipts/%s/%s" % (j, c), raw=True)[1].decode()
                    for j, c in ((r["jobId"], "seen"), (job, "again"))]
        contains(receipts[1], "inputHash")
        envelopes = [json.loads(x)["envelope"] for x in receipts]
        receipts += [base64.b64decode(json.loads(e)["payload"]).decode() for e in envelopes if e]
        contains(exported, control)
        shutil.copy(p.path("var/lib/cordon/ledger.db"), p.path("while-it-ran.db"))
        p.down()
        for what, text in {"export": exported, "receipts": "".join(receipts)}.items():
            for secret in (mark, mark.lower(), carrier, carrier.split(".")[1], carrier.split(".")[2]):
                assert secret not in text, (what, secret)
        # (a workspace holds what the command wrote into it; it is the command's)
        for secret in (mark, carrier.split(".")[1], carrier.split(".")[2]):
            found = subprocess.run(["grep", "-rlaiF", "--exclude-dir=workspaces", secret, p.root], capture_output=True, text=True)
            equal(found.stdout, "", secret)
        # the same search finds what is there, in the database and in the log
        found = subprocess.run(["grep", "-rlaiF", control, p.root], capture_output=True, text=True)
        contains(found.stdout, "ledger.db")
        contains(p.log, "cordon-ledger")


@test
def an_export_is_acknowledged_and_holds_retention_up():
    with Plane() as p:
        for n in range(6):
            run(p, "org-%d" % n, argv=["true"])
        eventually(lambda: len(rows(p)) == 6, "six rows")

        def export(*more):
            done = p.cordon("audit", "export", "--consumer", "site", *more)
            equal(done.status, 0, repr(done))
            return [json.loads(line) for line in done.text.splitlines()]
        first = export("--limit", "4")
        equal(len(first), 4)
        for line in first:  # what a collector needs to follow the chain itself
            equal(re.fullmatch("[0-9a-f]{64}", line["chain"]) is not None, True)
        equal(export("--limit", "4"), first, "the same until acknowledged")

        def retain(seconds=0):
            done = p.cordon("audit", "retain", "--older-than", str(seconds), "--json")
            equal(done.status, 0, repr(done))
            return done.json
        time.sleep(1.1)  # rows of this very second are not older than none
        equal(retain()["removed"], 0, "nothing is acknowledged")
        equal(p.cordon("audit", "export", "--consumer", "site", "--ack",
                       str(first[2]["sequence"])).status, 0)
        v = retain()
        equal((v["removed"], v["ok"], v["cut"]["upto"]),
              (first[2]["sequence"], True, first[2]["sequence"]))
        equal(export("--limit", "1"), [first[3]], "the cursor stands where it was")
        equal(retain(3600)["removed"], 0, "nothing is that old")
        equal(p.cordon("audit", "export", "--consumer", "site", "--drop").status, 0)
        assert retain()["removed"] > 0
        equal(p.cordon("audit", "verify").status, 0)
        equal(p.api("POST", "/v1/audit/retain", {})[1]["reason"], "invalid_request")
        equal(p.api("POST", "/v1/audit/retain", {"beforeMs": -1})[1]["reason"], "invalid_request")
        for words in ([], ["--older-than", "x"], ["--older-than", "9" * 18]):
            equal(p.cordon("audit", "retain", *words).status, 125)


@test
def retention_leaves_a_chain_that_is_not_whole_alone():
    with Plane() as p:
        for n in range(4):
            run(p, "org-%d" % n, argv=["true"])
        eventually(lambda: len(rows(p)) == 4, "four rows")
        last = rows(p)[-1]["sequence"]
        db = sqlite3.connect(p.path("var/lib/cordon/ledger.db"))
        db.execute("UPDATE rows SET decision = 'denied' WHERE sequence = ?", (last,))
        db.commit()
        db.close()
        time.sleep(1.1)
        done = p.cordon("audit", "retain", "--older-than", "0")
        equal(done.status, 1, repr(done))
        contains(done.error, "nothing is removed")
        contains(done.text, "row: %d" % last)
        # and the ledger itself removes nothing over it, whoever asks
        status, answer = p.api("POST", "/v1/audit/retain", {"beforeMs": int(time.time() * 1000)})
        equal((status, answer["reason"]), (503, "audit_unavailable"), answer)
        contains(answer["text"], "row %d is not intact" % last)
        equal(len(rows(p)), 4)


@test
def retention_is_the_admins():
    with Plane(group="nogroup", peers="uid:54001 auditor,runner,issuer * *") as p:
        code = """
import http.client, socket, os, sys
os.setgroups([int(sys.argv[2])]); os.setgid(54001); os.setuid(54001)
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
c = http.client.HTTPConnection("x"); c.sock = s
c.request("POST", "/v1/audit/retain", b'{"beforeMs": 9}', {"Content-Type": "application/json"})
a = c.getresponse(); print(a.status, a.read().decode())
"""
        done = subprocess.run([sys.executable, "-c", code, p.socket, str(os.stat(p.socket).st_gid)],
                              capture_output=True, text=True)
        contains(done.stdout, "403 ", done)
        contains(done.stdout, "capability_denied")
        equal(p.api("POST", "/v1/audit/retain", {"beforeMs": 9})[0], 200)


@test
def the_files_of_a_stopped_plane_verify_offline():
    with Plane() as p:
        run(p, "org", argv=["true"])
        eventually(lambda: rows(p), "its row")
        v = p.cordon("audit", "verify", "--json").json
        p.down()
        state = p.path("var/lib/cordon")
        done = p.cordon("audit", "verify", "--json", "--db", state + "/ledger.db", "--key",
                        p.path("etc/cordon/secrets/chain"), "--checkpoint",
                        state + "/ledger/checkpoint", "--anchor", "%d:%s" % (v["last"], v["head"]))
        equal(done.status, 0, repr(done))
        equal((done.json["verdict"], done.json["anchor"]), ("ok", "matched"))


if __name__ == "__main__":
    main()
