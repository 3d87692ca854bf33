#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""cordon-ledger by its messages: what gets in, what comes out, modes, export, retention."""
import json
import os
import secrets
import sqlite3
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from ledger_process import *  # noqa: E402,F403
import tap  # noqa: E402
from cordon import memory_bound  # noqa: E402
from tap import test  # noqa: E402

COLUMNS = ["organizationId", "actorPrincipalId", "actorPrincipalType", "authSource",
           "resourceType", "resourceId", "operation", "decision", "runId"]
META = ["surface", "cwd", "reason", "exitCode", "termination", "imageDigest", "egressMode",
        "egressTotalBytes", "wallMs", "workspaceKb"]
ENVELOPE = json.dumps({"payload": "AAAA", "payloadType": "application/vnd.in-toto+json",
                       "signatures": [{"keyid": "k1", "sig": "AAAA"}]}, separators=(",", ":"))


def refused(l, kind, body, want="invalid"):
    try:
        l.ask(kind, body)
    except LedgerError as x:
        assert x.kind == want, (body, x.kind, x.text)
        return x.text
    raise AssertionError("accepted: %r" % (body,))


@test
def a_row_has_the_columns_of_the_contract_and_no_other():
    with Ledger() as l:
        l.row(run="run-7", cwd="src", egressTotalBytes=9, workspaceKb=3)
        r = l.rows()[0]
        assert list(r) == ["sequence", "time"] + COLUMNS + ["metadata"], list(r)
        assert list(r["metadata"]) == META
        assert (r["actorPrincipalType"], r["authSource"], r["resourceType"], r["operation"]) == (
            "model", "agent", "execution_sandbox", "sandbox_execute")
        assert r["runId"] == "run-7" and r["metadata"]["cwd"] == "src"
        assert r["metadata"]["egressTotalBytes"] == 9 and r["metadata"]["reason"] is None
        names = [c[1] for c in sqlite3.connect("file:%s?mode=ro" % l.db, uri=True).execute(
            "PRAGMA table_info(rows)")]
        assert sorted(names) == sorted(["sequence", "timeUs", "keyVersion", "chain", "metadata"] +
                                       COLUMNS), names


@test
def what_is_not_on_the_allowlist_is_refused_and_leaves_nothing():
    good = row()
    bad = []
    for key in list(good):
        bad.append({k: v for k, v in good.items() if k != key})
    for key in META:
        bad.append(dict(good, metadata={k: v for k, v in good["metadata"].items() if k != key}))
    for key in ("command", "argv", "stdout", "sequence", "time", "chain", "operation", "token"):
        bad.append(dict(good, **{key: "x"}))
        bad.append(dict(good, metadata=dict(good["metadata"], **{key: "x"})))
    for key, values in {
            "organizationId": ["", "x" * 257, None, 1, [], {}],
            "actorPrincipalId": ["", None, True],
            "resourceId": ["", "a b", "a/b", "x" * 65, "j\u00f6b", None, "a\n"],
            "decision": ["", "ALLOWED", "allow", None, "outcome_unknown"],
            "runId": ["", 7, "x" * 257]}.items():
        bad += [dict(good, **{key: v}) for v in values]
    for key, values in {
            "surface": ["", "shell", 1], "cwd": ["x" * 1025, 1], "reason": ["", "because", 3],
            "exitCode": [-1, 256, "0", 1.0, True], "termination": ["", "killed"],
            "imageDigest": ["a" * 64, "sha256:" + "A" * 64, "sha256:" + "a" * 63],
            "egressMode": ["", "open"], "egressTotalBytes": [-1, 2**53 + 1, 1e3],
            "wallMs": [-5, "5"], "workspaceKb": [-1, None and 0, []]}.items():
        bad += [dict(good, metadata=dict(good["metadata"], **{key: v})) for v in values
                if v is not None]
    with Ledger() as l:
        for r in bad:
            refused(l, L_ROW, {"row": r})
            refused(l, L_INTENT, {"row": r})
        for extra in ({"argv": ["x"]}, {"output": "x"}, {"commandId": "a b"}, {"commandId": 1},
                      {"receipt": receipt()}, {"envelope": ENVELOPE}, {"intent": 0},
                      {"intent": -1}, {"intent": "1"},
                      {"commandId": "c", "receipt": receipt(argv="x")},
                      {"commandId": "c", "receipt": receipt(inputHash="x")},
                      {"commandId": "c", "receipt": receipt(timestamp="yesterday")},
                      {"commandId": "c", "receipt": receipt(tool="a|b")},
                      {"commandId": "c", "receipt": receipt(), "envelope": "canary"},
                      {"commandId": "c", "receipt": receipt(), "envelope": ENVELOPE[:-1] + ',"x":1}'}):
            refused(l, L_ROW, dict({"row": good}, **extra))
        for raw in (b"", b"{", b"[]", b"null", b'{"row":1,"row":1}', b'{"row":{}} x',
                    b"\xef\xbb\xbf{}", b'{"row":"\xff"}', b"[" * 2000, b'{"row":{"a":"\\u0000"}}'):
            refused(l, L_ROW, raw)
        assert l.rows() == []
        l.row()  # the control: the same with nothing wrong is taken
        h = l.health()
        assert h["refused"] > 100 and h["written"] == 1 and h["spoolPending"] == 0, h


@test
def a_message_that_is_not_allowed_ends_the_connection():
    for kind, body in ((L_RESULT, b"\0" * 8), (L_OK, b"\0" * 8), (99, b"\0" * 8), (0, b"\0" * 8),
                       (L_ROW, b"\0" * 7), (L_READY, b"\0" * 8)):
        with Ledger() as l:
            l.broker.send(pack(kind, body))
            try:
                l.recv(10)
                raise AssertionError("still speaks after message %d" % kind)
            except (EOFError, ConnectionResetError):
                pass


@test
def before_hello_nothing_is_served():
    with Ledger() as l:
        a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        body = struct.pack("<256s24sIII8I", b"", b"", 0, 0, 1, SFD_BROKER, *[0] * 7)
        socket.send_fds(l.sup, [pack(S_PEER, body)], [b.fileno()])
        b.close()
        l.broker.close()
        l.broker = a
        assert l.recv()[0] == L_READY
        refused(l, L_QUERY, {"all": True, "limit": 1, "after": 0})
        refused(l, L_ROW, {"row": row()})
        l.ask(L_HELLO, {"broker": "0" * 32})
        l.row()
        refused(l, L_HELLO, {"broker": "zz" * 16})


@test
def a_hostile_record_leaves_no_canary_anywhere():
    canary = "CANARY-" + secrets.token_hex(8)
    words = [canary + s for s in ("-cmd", "-out", "-tok", "-host", "-env", "-carrier")]
    hostile = [dict(row(), command=words[0]), dict(row(), metadata=dict(row()["metadata"], argv=[words[0]])),
               dict(row(), metadata=dict(row()["metadata"], reason=words[1])),
               dict(row(), metadata=dict(row()["metadata"], egressMode=words[3])),
               dict(row(), resourceId=words[2] + " x"), dict(row(), decision=words[4]),
               dict(row(), egress={"hosts": [words[3]]})]
    with Ledger() as l:
        for r in hostile:
            for req in (None, 0):  # answered and best effort
                l.send(L_ROW, {"row": r, "commandId": "c1"}, req)
                l.send(L_ROW, {"row": row(), "carrier": words[5]}, req)
            l.send(L_INTENT, {"row": r})
        l.send(L_ROW, b'{"row":"' + words[0].encode() + b'"', 0)
        l.ask(L_NONCE, {"nonce": words[2], "expMs": int(time.time() * 1000) + 60000})
        l.row()
        l.ask(L_EXPORT, {"consumer": "site", "limit": 10})
        l.ask(L_KEEP, {"kind": "jobs", "key": "j1", "value": {"orgId": "acme"}})
        l.restart()
        l.row(cwd="the control")
        l.kill()
        found = subprocess.run(["grep", "-rlF", canary, l.root], capture_output=True, text=True)
        assert found.stdout == "", found.stdout
        found = subprocess.run(["grep", "-rlaF", "the control", l.root], capture_output=True, text=True)
        assert "ledger.db" in found.stdout  # the same search finds what is there


@test
def repeated_denials_are_suppressed_and_counted():
    with Ledger() as l:
        for _ in range(50):
            l.row(decision="denied")
        l.row(decision="denied", user="bob")
        l.row(decision="denied", reason="queue_saturated")
        l.row(decision="denied", job="job-2")
        l.row(decision="denied", org="other")
        for _ in range(20):
            l.row()  # allowed rows never are
        assert len(l.rows()) == 5 + 20
        h = l.health()
        assert h["suppressed"] == 49 and h["written"] == 25, h


@test
def required_mode_suppresses_nothing():
    with Ledger(required=True) as l:
        for _ in range(20):
            l.row(decision="denied")
        assert len(l.rows()) == 20 and l.health()["suppressed"] == 0


@test
def queries_are_scoped_paged_and_exact():
    with Ledger() as l:
        for i in range(600):
            l.send(L_ROW, {"row": row(org="org-%d" % (i % 3), job="job-%d" % i)}, 0)
        assert [r["sequence"] for r in l.rows()] == list(range(1, 601))
        mine = l.rows(orgId="org-1")
        assert len(mine) == 200 and {r["organizationId"] for r in mine} == {"org-1"}
        assert l.rows(orgId="nobody") == []
        newest = l.ask(L_QUERY, {"orgId": "org-2", "limit": 3, "after": 0, "newest": True})
        assert [r["resourceId"] for r in newest["rows"]] == ["job-593", "job-596", "job-599"]
        assert newest["next"] is None
        page = l.ask(L_QUERY, {"all": True, "limit": 10, "after": 595})
        assert len(page["rows"]) == 5 and page["next"] is None
        for q in ({"all": True}, {"orgId": "a", "all": True, "limit": 1, "after": 0},
                  {"limit": 1, "after": 0}, {"all": True, "limit": 0, "after": 0},
                  {"all": True, "limit": 1001, "after": 0}, {"all": True, "limit": 1, "after": -1},
                  {"all": False, "limit": 1, "after": 0}, {"orgId": "", "limit": 1, "after": 0, "x": 1}):
            refused(l, L_QUERY, q)
        # the second allowlist: what somebody put into the table does not come out
        db = sqlite3.connect(l.db)
        db.execute("UPDATE rows SET metadata = ? WHERE sequence = 1",
                   ('{"cwd":{"argv":"secret"},"argv":"secret","wallMs":3}',))
        db.commit()
        db.close()
        got = l.ask(L_QUERY, {"all": True, "limit": 1, "after": 0})["rows"][0]
        assert "secret" not in json.dumps(got) and got["metadata"]["wallMs"] == 3
        assert list(got["metadata"]) == META


@test
def receipts_are_kept_by_name_and_resending_writes_once():
    with Ledger() as l:
        for _ in range(3):
            l.row(commandId="c1", receipt=receipt(), envelope=ENVELOPE)
        l.row(commandId="c2", receipt=receipt(outputHash=None, egressDigest=None, failureHash="4" * 64))
        got = l.ask(L_RECEIPT, {"jobId": "job-1", "commandId": "c1"})
        assert got == {"receipt": receipt(), "envelope": ENVELOPE, "orgId": "acme", "userId": "ada"}
        assert l.ask(L_RECEIPT, {"jobId": "job-1", "commandId": "c3"})["receipt"] is None
        assert len(l.rows()) == 2
        l.restart(kill=True)
        l.row(commandId="c1", receipt=receipt())
        assert len(l.rows()) == 2
        assert l.ask(L_RECEIPT, {"jobId": "job-1", "commandId": "c2"})["receipt"]["failureHash"] == "4" * 64


@test
def a_receipt_that_somebody_put_there_swallows_no_row():
    with Ledger() as l:
        l.row(job="job-1", commandId="c1", receipt=receipt())
        db = sqlite3.connect(l.db)
        db.execute("INSERT INTO receipts SELECT jobId, 'c2', sequence, organizationId, userId,"
                   " receipt, envelope FROM receipts")
        db.execute("INSERT INTO receipts VALUES('job-1', 'c3', 9, 'x', 'y', 'x', NULL)")
        db.commit()
        db.close()
        for command in ("c2", "c3"):
            l.row(job="job-1", commandId=command, receipt=receipt(inputHash="9" * 64))
        assert len(l.rows()) == 3 and l.verify()["ok"]
        l.row(job="job-1", commandId="c1", receipt=receipt())  # the control: a true repetition
        assert len(l.rows()) == 3
        assert "receipt_conflict" in open(l.log).read()


@test
def a_command_id_is_claimed_once_also_after_a_restart():
    with Ledger() as l:
        name = {"jobId": "job-1", "commandId": "mine"}
        assert l.ask(L_COMMAND_ID, name)["new"] is True
        assert l.ask(L_COMMAND_ID, name) == {"new": False, "decision": None, "termination": None,
                                             "exitCode": None}
        l.row(commandId="mine", receipt=receipt(), exitCode=3)
        l.restart(kill=True)
        assert l.ask(L_COMMAND_ID, name) == {"new": False, "decision": "allowed",
                                             "termination": "exited", "exitCode": 3}
        assert l.ask(L_COMMAND_ID, dict(name, jobId="job-2"))["new"] is True
        # pipelined in one batch: still one winner
        reqs = [l.send(L_COMMAND_ID, dict(name, commandId="race")) for _ in range(20)]
        assert [l.wait(r)["new"] for r in reqs].count(True) == 1


@test
def an_intent_without_its_row_becomes_outcome_unknown_once():
    with Ledger(required=True) as l:
        first = l.ask(L_INTENT, {"row": row(job="job-a", run="r"), "commandId": "c1"})["intent"]
        second = l.ask(L_INTENT, {"row": row(job="job-b"), "commandId": "c2"})["intent"]
        assert l.rows() == [] and l.health()["intentsOpen"] == 2
        l.row(job="job-b", intent=second, commandId="c2", receipt=receipt())
        l.row(job="job-b", intent=second, commandId="c2", receipt=receipt())  # resent
        for _ in range(3):  # once, however often it starts
            l.restart(kill=True)
            rows = l.rows()
            assert [r["resourceId"] for r in rows] == ["job-b", "job-a"], rows
            m = rows[1]["metadata"]
            assert (rows[1]["decision"], m["termination"], m["reason"], m["exitCode"]) == (
                "allowed", "worker_error", "outcome_unknown", None)
            assert rows[1]["runId"] == "r" and l.health()["intentsOpen"] == 0
        l.row(job="job-a", intent=first, commandId="c1", receipt=receipt())  # too late: kept before
        assert len(l.rows()) == 2 and l.verify()["ok"]


@test
def an_intent_survives_a_restart_of_the_ledger_alone():
    with Ledger(required=True) as l:
        me = "ab" * 16
        l.restart(hello=me)
        n = l.ask(L_INTENT, {"row": row(), "commandId": "c1"})["intent"]
        l.restart(kill=True, hello=me)
        assert l.rows() == [] and l.health()["intentsOpen"] == 1
        l.row(intent=n, commandId="c1", receipt=receipt())
        rows = l.rows()
        assert len(rows) == 1 and rows[0]["metadata"]["reason"] is None


@test
def a_forged_or_replayed_intent_never_becomes_a_row():
    with Ledger(required=True) as l:
        n = l.ask(L_INTENT, {"row": row(), "commandId": "c1"})["intent"]
        db = sqlite3.connect(l.db)
        kept = db.execute("SELECT * FROM intents").fetchone()
        db.close()
        l.row(intent=n, commandId="c1", receipt=receipt())
        l.stop()
        db = sqlite3.connect(l.db)
        db.execute("INSERT INTO intents VALUES(?,?,?,?,?,?)", kept)  # put back
        db.execute("INSERT INTO intents VALUES(?,?,?,?,?,?)", (kept[0] + 1,) + kept[1:])  # copied
        db.execute("INSERT INTO intents VALUES(7,1,'x',?,1,?)", (kept[3], b"\0" * 32))
        db.commit()
        db.close()
        l.start()
        assert len(l.rows()) == 1 and l.health()["intentsOpen"] == 0
        assert "intent_forged" in open(l.log).read()


@test
def export_is_read_then_acknowledge_with_a_stable_cursor():
    with Ledger() as l:
        for i in range(30):
            l.row(job="job-%d" % i)
        ask = {"consumer": "site", "limit": 10}
        first = l.ask(L_EXPORT, ask)
        assert [r["sequence"] for r in first["rows"]] == list(range(1, 11))
        assert first["acknowledged"] == 0 and len(first["rows"][0]["chain"]) == 64
        l.restart(kill=True)
        assert l.ask(L_EXPORT, ask) == first  # nothing moves before the acknowledgement
        l.ask(L_ACK, {"consumer": "site", "sequence": 7})
        l.ask(L_ACK, {"consumer": "site", "sequence": 3})  # never back
        l.restart()
        assert [r["sequence"] for r in l.ask(L_EXPORT, ask)["rows"]] == list(range(8, 18))
        assert l.ask(L_EXPORT, {"consumer": "other", "limit": 1})["rows"][0]["sequence"] == 1
        assert l.health()["exportPending"] == 30
        refused(l, L_ACK, {"consumer": "site", "sequence": 31}, "conflict")
        refused(l, L_ACK, {"consumer": "ghost", "sequence": 1}, "conflict")
        refused(l, L_EXPORT, {"consumer": "a b", "limit": 1})


@test
def retention_cuts_a_prefix_that_verification_names_and_consumers_hold():
    with Ledger() as l:
        for i in range(20):
            l.row(job="job-%d" % i, commandId="c", receipt=receipt())
        later = int(time.time() * 1000) + 1000
        assert l.ask(L_RETAIN, {"beforeMs": 1000})["removed"] == 0
        l.ask(L_EXPORT, {"consumer": "site", "limit": 1})
        assert l.ask(L_RETAIN, {"beforeMs": later})["removed"] == 0  # nothing acknowledged yet
        l.ask(L_ACK, {"consumer": "site", "sequence": 12})
        assert l.ask(L_RETAIN, {"beforeMs": later}) == {"removed": 12, "upto": 12, "more": False}
        v = l.verify()
        assert v["ok"] and v["rows"] == 8 and v["first"] == 13 and v["cut"]["upto"] == 12, v
        assert l.ask(L_RECEIPT, {"jobId": "job-3", "commandId": "c"})["receipt"] is None
        assert l.ask(L_RECEIPT, {"jobId": "job-15", "commandId": "c"})["receipt"]
        l.ask(L_EXPORT_DROP, {"consumer": "site"})
        assert l.ask(L_RETAIN, {"beforeMs": later})["removed"] == 8
        assert l.verify()["ok"] and l.verify()["last"] == 20 and l.rows() == []
        l.row()
        l.restart()
        l.row()
        v = l.verify()
        assert v["ok"] and v["first"] == 21 and v["last"] == 22, v
        assert l.health()["checkpointOk"]


@test
def a_full_table_of_nonces_refuses_new_ones_and_forgets_none():
    most = 65536
    later = int(time.time() * 1000) + 3600000
    with Ledger() as l:
        assert l.ask(L_NONCE, {"nonce": "mine", "expMs": later})["state"] == "new"
        l.stop()
        db = sqlite3.connect(l.db)
        db.executemany("INSERT INTO nonces VALUES(?, ?)",
                       ((n.to_bytes(32, "big"), later) for n in range(most - 2)))
        db.commit()
        db.close()
        l.start()
        assert l.ask(L_NONCE, {"nonce": "last", "expMs": later})["state"] == "new"  # the control
        assert l.ask(L_NONCE, {"nonce": "more", "expMs": later})["state"] == "capacity"
        assert l.ask(L_NONCE, {"nonce": "mine", "expMs": later})["state"] != "new"
        l.stop()
        db = sqlite3.connect(l.db)
        assert db.execute("SELECT count(*) FROM nonces").fetchone() == (most,)
        db.execute("UPDATE nonces SET untilMs = 1000 WHERE digest = ?", ((0).to_bytes(32, "big"),))
        db.commit()
        db.close()
        l.start()
        assert l.ask(L_NONCE, {"nonce": "more", "expMs": later})["state"] == "new"  # one had expired
        assert l.ask(L_NONCE, {"nonce": "mine", "expMs": later})["state"] != "new"


@test
def nonces_runs_and_kept_things_survive():
    with Ledger() as l:
        later = int(time.time() * 1000) + 60000
        assert l.ask(L_NONCE, {"nonce": "n1", "expMs": later})["state"] == "new"
        assert l.ask(L_NONCE, {"nonce": "n1", "expMs": later})["state"] == "replayed"
        l.restart(kill=True)
        assert l.ask(L_NONCE, {"nonce": "n1", "expMs": later})["state"] == "replayed"
        assert l.ask(L_NONCE, {"nonce": "old", "expMs": 1000})["state"] == "new"
        assert l.ask(L_NONCE, {"nonce": "old", "expMs": 1000})["state"] == "new"  # long expired
        refused(l, L_NONCE, {"nonce": "", "expMs": later})
        refused(l, L_NONCE, {"nonce": "x", "expMs": -1})
        run = {"runId": "r1", "orgId": "acme", "userId": "ada", "state": "alive"}
        l.ask(L_RUN_SET, run)
        l.ask(L_RUN_SET, dict(run, runId="r2"))
        l.ask(L_RUN_SET, dict(run, state="archived"))
        refused(l, L_RUN_SET, dict(run, state="dead"))
        refused(l, L_RUN_SET, dict(run, owner="x"))
        l.restart(kill=True)
        assert l.ask(L_RUN_GET, {"runId": "r1"}) == {"known": True, "orgId": "acme",
                                                     "userId": "ada", "state": "archived"}
        assert l.ask(L_RUN_GET, {"runId": "r3"})["known"] is False
        first = l.ask(L_RUN_LIST, {"after": "", "limit": 1})
        assert [r["runId"] for r in first["runs"]] == ["r1"] and first["next"] == "r1"
        assert l.ask(L_RUN_LIST, {"after": "r1", "limit": 5})["next"] is None
        l.ask(L_RUN_DROP, {"runId": "r1"})
        assert l.ask(L_RUN_GET, {"runId": "r1"})["known"] is False
        for i in range(40):
            l.ask(L_KEEP, {"kind": "jobs", "key": "j%02d" % i, "value": {"x": "y" * 4000, "n": [i]}})
        l.ask(L_KEEP, {"kind": "jobs", "key": "j05", "value": None})
        refused(l, L_KEEP, {"kind": "jobs", "key": "big", "value": {"x": "y" * 9000}})
        refused(l, L_KEEP, {"kind": "Jobs", "key": "j", "value": {}})
        refused(l, L_KEEP, {"kind": "jobs", "key": "j", "value": "text"})
        l.restart()
        keys, after = [], ""
        while after is not None:
            got = l.ask(L_KEPT, {"kind": "jobs", "after": after, "limit": 1000})
            keys += [i["key"] for i in got["items"]]
            after = got["next"]
        assert keys == ["j%02d" % i for i in range(40) if i != 5], keys


@test
def a_newer_or_foreign_database_is_refused_by_name():
    with Ledger() as l:
        l.row()
        l.stop()
        db = sqlite3.connect(l.db)
        db.execute("PRAGMA user_version = 99")
        db.close()
        try:
            l.start()
            raise AssertionError("started on a newer schema")
        except LedgerError as x:
            assert "version 99" in x.text and "knows 1" in x.text, x.text
        db = sqlite3.connect(l.db)
        db.execute("PRAGMA user_version = 1")
        db.close()
        l.start()
        assert len(l.rows()) == 1
    for content in (b"this is no database" * 100, None):
        with Ledger(start=False) as l:
            if content:
                open(l.db, "wb").write(content)
            else:
                db = sqlite3.connect(l.db)
                db.execute("PRAGMA user_version = 1")
                db.execute("CREATE TABLE other(x)")
                db.commit()
                db.close()
            try:
                l.start()
                raise AssertionError("started on somebody else's file")
            except LedgerError as x:
                assert x.kind == "fatal", x


@test
def a_missing_open_or_foreign_key_is_refused_by_name():
    for spoil, words in ((lambda p: os.unlink(p), ["no version"]),
                         (lambda p: os.chmod(p, 0o444), ["open to others"]),
                         (lambda p: os.chown(p, 12345, 12345), ["chain key", "Permission denied"]),
                         (lambda p: open(p, "w").close(), ["empty"])):
        with Ledger(start=False) as l:
            spoil(os.path.join(l.keys, "1"))
            try:
                l.start()
                raise AssertionError("started")
            except LedgerError as x:
                assert all(w in x.text for w in words), x.text


@test
def a_link_where_a_file_belongs_is_refused():
    for name in ("ledger.db", "ledger.db-wal", "ledger"):
        with Ledger(start=False) as l:
            victim = os.path.join(l.root, "victim")
            open(victim, "w").write("mine")
            os.symlink(victim, os.path.join(l.state, name))
            try:
                l.start()
                raise AssertionError("followed the link at " + name)
            except LedgerError as x:
                assert name in x.text
            assert open(victim).read() == "mine" and os.stat(victim).st_uid == 0
    with Ledger(start=False) as l:
        victim = os.path.join(l.root, "victim")
        open(victim, "w").write("mine")
        os.link(victim, l.db)
        try:
            l.start()
            raise AssertionError("took a file with two names")
        except LedgerError:
            assert os.stat(victim).st_uid == 0


def reload(l):
    fd = sealed(l.config())
    body = struct.pack("<256s24sIII8I", b"", b"", 0, 0, 1, SFD_CONFIG, *[0] * 7)
    socket.send_fds(l.sup, [pack(S_RELOAD, body)], [fd])
    os.close(fd)
    kind, body = l.sup_recv(10)
    assert kind == S_RELOADED
    return struct.unpack("<i", body[:4])[0], body[4:].split(b"\0")[0].decode()


@test
def keys_rotate_and_modes_change_without_a_restart():
    with Ledger() as l:
        l.row()
        l.add_key(2, "f" * 64)
        assert reload(l) == (0, "")
        l.row()
        l.required = True
        assert reload(l) == (0, "") and l.health()["mode"] == "required"
        l.row()
        rows = l.ask(L_EXPORT, {"consumer": "c", "limit": 10})["rows"]
        assert [r["keyVersion"] for r in rows] == [1, 2, 2] and l.verify()["ok"]
        os.unlink(os.path.join(l.keys, "1"))
        assert reload(l)[0] == 0
        v = l.verify()
        assert v["verdict"] == "unknown_key" and v["row"] == 1, v
        os.unlink(os.path.join(l.keys, "2"))
        code, text = reload(l)
        assert code != 0 and "no version" in text  # and the old keys stay in force
        l.row()
        l.add_key(1, KEY)
        l.add_key(2, "f" * 64)
        assert reload(l)[0] == 0 and l.verify()["ok"] and l.verify()["rows"] == 4


@test
def configured_retention_removes_what_is_too_old_by_itself():
    with Ledger() as l:
        for i in range(10):
            l.row(job="old-%d" % i)
        time.sleep(1.2)
        l.row(job="young")
        l.more = "audit.retention = 1\n"
        assert reload(l) == (0, "")
        end = time.time() + 10
        while len(l.rows()) > 1:
            assert time.time() < end, l.rows()
        v = l.verify()
        assert v["ok"] and v["cut"]["upto"] == 10, v
        assert [r["resourceId"] for r in l.rows()] == ["young"]


@test
def it_is_confined():
    with Ledger() as l:
        with open("/proc/%d/status" % l.pid) as f:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
        for caps in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            assert int(status[caps], 16) == 0, (caps, status[caps])
        assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
        assert status["Uid"].split() == [str(UID)] * 4 and status["Groups"].strip() == ""
        fds = sorted(int(n) for n in os.listdir("/proc/%d/fd" % l.pid))
        for fd in fds:
            target = os.readlink("/proc/%d/fd/%d" % (l.pid, fd))
            assert target.startswith((l.root, "socket:", "/dev/null")), (fd, target)
        for path in (l.db, l.db + "-wal", l.checkpoint, l.spool):
            st = os.stat(path)
            assert (st.st_uid, st.st_mode & 0o777) == (UID, 0o600), path


@test
def it_ends_with_cordond_and_keeps_what_was_said():
    with Ledger() as l:
        for i in range(500):
            l.send(L_ROW, {"row": row(job="job-%d" % i)}, 0)
        l.sup.close()
        l.sup, other = socket.socketpair()
        start = time.time()
        status = os.waitpid(l.pid, 0)[1]
        assert time.time() - start < 5 and os.waitstatus_to_exitcode(status) == 0
        l.pid = 0
        l.start()
        assert len(l.rows()) == 500


@test
def a_reader_that_never_reads_holds_nobody_up_and_costs_no_memory():
    with Ledger() as l:
        for i in range(300):
            l.send(L_ROW, {"row": row(job="job-%d" % i)}, 0)
        l.broker.setblocking(False)
        sent = 0
        try:
            for _ in range(20000):
                l.send(L_QUERY, {"all": True, "limit": 1000, "after": 0})
                sent += 1
        except BlockingIOError:
            pass
        time.sleep(0.5)
        with open("/proc/%d/status" % l.pid) as f:
            rss = [int(line.split()[1]) for line in f if line.startswith("VmRSS")][0]
        assert rss < memory_bound(32 * 1024), "%d KiB" % rss
        l.broker.setblocking(True)
        for _ in range(sent):
            kind, _, body = l.recv()
            assert kind == L_RESULT and body["rows"]


if __name__ == "__main__":
    sys.exit(tap.main())
