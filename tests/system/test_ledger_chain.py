#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The ledger against everybody who can write its files but has not its key (SPEC A5, ESCAPES 73-75).

Each case changes a real database behind the ledger's back and says which row, or
which word, verification must give. The control is the same database unchanged.
"""
import hashlib
import hmac
import os
import shutil
import sqlite3
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from ledger_process import *  # noqa: E402,F403
import tap  # noqa: E402
from tap import test  # noqa: E402

ROWS = 20


def fill(l, n=ROWS, start=0):
    for i in range(start, start + n):
        l.send(L_ROW, {"row": row(job="job-%d" % i, run="run-%d" % i)}, 0)
    l.health()


def sql(l, *statements):
    db = sqlite3.connect(l.db)
    for s in statements:
        db.execute(*(s if isinstance(s, tuple) else (s,)))
    db.commit()
    db.close()


def expect(l, verdict, bad_row=None):
    v = l.verify()
    assert v["verdict"] == verdict and v["row"] == bad_row and v["ok"] == (verdict == "ok"), v
    return v


def tampered(verdict, bad_row, *statements, online=True, n=ROWS):
    """The same tampering while the ledger runs and while it does not; then rows go on."""
    for running in ((True, False) if online else (False,)):
        with Ledger() as l:
            fill(l, n)
            expect(l, "ok")
            if not running:
                l.stop()
            sql(l, *statements)
            if not running:
                l.start()
            expect(l, verdict, bad_row)
            fill(l, 5, 100)  # the loop is never disturbed, and the evidence stays
            l.restart()
            v = l.verify()
            assert not v["ok"], v
            if verdict in ("altered", "missing"):
                assert v["row"] == bad_row, v
            assert len([r for r in l.rows() if r["resourceId"].startswith("job-10")]) >= 5


COLUMN_EDITS = {
    "timeUs": "timeUs + 1", "organizationId": "'evil'", "actorPrincipalId": "'evil'",
    "actorPrincipalType": "'human'", "authSource": "'x'", "resourceType": "'x'",
    "resourceId": "'job-x'", "operation": "'x'", "decision": "'denied'", "runId": "NULL",
    "metadata": "replace(metadata, '12', '13')", "keyVersion": "2", "chain": "zeroblob(32)"}


@test
def an_edit_of_any_column_names_the_row():
    with Ledger() as l:
        fill(l, 3 * len(COLUMN_EDITS))
        l.stop()
        keep = l.db + ".keep"
        shutil.copy(l.db, keep)
        for i, (column, value) in enumerate(COLUMN_EDITS.items()):
            shutil.copy(keep, l.db)
            os.chown(l.db, UID, GID)
            at = 2 + 3 * i
            sql(l, "UPDATE rows SET %s = %s WHERE sequence = %d" % (column, value, at))
            l.start()
            v = l.verify()
            assert v["row"] == at, (column, v)
            assert v["verdict"] == ("unknown_key" if column == "keyVersion" else "altered"), (column, v)
            l.stop()
        shutil.copy(keep, l.db)
        l.start()
        expect(l, "ok")


@test
def an_edit_is_found_while_the_ledger_runs():
    tampered("altered", 7, "UPDATE rows SET decision = 'denied' WHERE sequence = 7")


@test
def a_deletion_names_the_row():
    tampered("missing", 7, "DELETE FROM rows WHERE sequence = 7")


@test
def a_deleted_beginning_is_found():
    tampered("missing", 1, "DELETE FROM rows WHERE sequence <= 5")


@test
def two_rows_swapped_are_found():
    tampered("altered", 4, "UPDATE rows SET sequence = -1 WHERE sequence = 4",
             "UPDATE rows SET sequence = 4 WHERE sequence = 9",
             "UPDATE rows SET sequence = 9 WHERE sequence = -1")


@test
def a_row_put_in_is_found():
    # room is made by moving the others up; their content is untouched
    tampered("altered", 8, "UPDATE rows SET sequence = -sequence WHERE sequence >= 8",
             "UPDATE rows SET sequence = 1 - sequence WHERE sequence < 0",
             "INSERT INTO rows SELECT 8, timeUs, organizationId, actorPrincipalId,"
             " actorPrincipalType, authSource, resourceType, 'job-put-in', operation, decision,"
             " runId, metadata, keyVersion, chain FROM rows WHERE sequence = 7", online=False)


@test
def a_row_put_where_the_next_belongs_is_found_and_writing_goes_on():
    with Ledger() as l:
        fill(l)
        sql(l, "INSERT INTO rows SELECT 21, timeUs, organizationId, actorPrincipalId,"
               " actorPrincipalType, authSource, resourceType, 'job-x', operation, decision,"
               " runId, metadata, keyVersion, chain FROM rows WHERE sequence = 20")
        expect(l, "altered", 21)
        fill(l, 5, 100)
        expect(l, "altered", 21)
        assert l.health()["spoolPending"] == 0 and len(l.rows()) == 26


@test
def a_cut_tail_is_truncated():
    tampered("truncated", 18, "DELETE FROM rows WHERE sequence >= 18")


@test
def an_emptied_table_is_truncated():
    tampered("truncated", 1, "DELETE FROM rows")


@test
def a_dropped_table_is_truncated():
    with Ledger() as l:
        fill(l)
        l.stop()
        sql(l, "DROP TABLE rows")
        l.start()
        expect(l, "truncated", 1)


@test
def a_deleted_database_is_truncated():
    with Ledger() as l:
        fill(l)
        l.stop()
        for suffix in ("", "-wal", "-shm"):
            os.unlink(l.db + suffix)
        l.start()
        assert l.health()["checkpointOk"] is False
        expect(l, "truncated", 1)
        fill(l, 40)  # and it does not become true by going on
        assert l.verify()["verdict"] == "rolled_back"


@test
def an_older_database_alone_is_found_and_so_is_its_going_on():
    with Ledger() as l:
        fill(l, 10)
        l.stop()
        shutil.copy(l.db, l.db + ".old")
        l.start()
        fill(l, 10, 10)
        expect(l, "ok")
        l.stop()
        shutil.copy(l.db + ".old", l.db)
        for suffix in ("-wal", "-shm"):
            os.unlink(l.db + suffix)
        l.start()
        expect(l, "truncated", 11)
        fill(l, 30, 50)
        v = l.verify()
        assert v["verdict"] == "rolled_back" and v["row"] == 20, v
        l.restart()
        assert l.verify()["verdict"] == "rolled_back"


@test
def an_older_database_and_checkpoint_are_found_by_an_anchor_alone():
    with Ledger() as l:
        fill(l, 10)
        l.stop()
        for p in (l.db, l.checkpoint):
            shutil.copy(p, p + ".old")
        l.start()
        fill(l, 10, 10)
        anchor = {k: l.verify()[k2] for k, k2 in (("sequence", "last"), ("head", "head"))}
        assert l.verify(anchor=anchor)["anchor"] == "matched"
        fill(l, 3, 30)
        assert l.verify(anchor=anchor)["anchor"] == "matched"  # an anchor may be old
        l.stop()
        for p in (l.db, l.checkpoint):
            shutil.copy(p + ".old", p)
        for suffix in ("-wal", "-shm"):
            os.unlink(l.db + suffix)
        os.chown(l.checkpoint, UID, GID)
        l.start()
        expect(l, "ok")  # as SECURITY.md says: without the anchor nothing can tell
        v = l.verify(anchor=anchor)
        assert v["verdict"] == "rolled_back" and v["row"] == 11 and v["anchor"] == "failed", v
        fill(l, 30, 50)
        v = l.verify(anchor=anchor)
        assert v["verdict"] == "rolled_back" and v["row"] == 20, v


@test
def a_checkpoint_that_is_gone_changed_or_older_is_found():
    def older(p, old):
        open(p, "wb").write(old)

    for spoil, word in ((lambda p, o: os.unlink(p), "bad_checkpoint"),
                        (lambda p, o: open(p, "r+b").write(b"X"), "bad_checkpoint"),
                        (lambda p, o: open(p, "ab").write(b"X"), "bad_checkpoint"),
                        (lambda p, o: open(p, "wb").write(o.replace(b"0010", b"0011")), "bad_checkpoint"),
                        (older, "ok")):  # behind the rows is what a crash leaves
        with Ledger() as l:
            fill(l, 10)
            l.stop()
            old = open(l.checkpoint, "rb").read()
            l.start()
            fill(l, 5, 50)
            l.stop()
            spoil(l.checkpoint, old)
            l.start()
            v = l.verify()
            assert v["verdict"] == word, (v, word)
            assert l.health()["checkpointOk"] == (word == "ok")


@test
def a_forged_or_copied_cut_is_found():
    with Ledger() as l:
        fill(l)
        assert l.ask(L_RETAIN, {"beforeMs": int(time.time() * 1000) + 9})["removed"] == ROWS
        fill(l, 10, 50)
        expect(l, "ok")
        l.stop()
        keep = open(l.db, "rb").read()
        for statements, verdict, bad_row in (
                (["UPDATE cut SET upto = 25", "DELETE FROM rows WHERE sequence <= 25"], "bad_cut", None),
                (["UPDATE cut SET mac = zeroblob(32)"], "bad_cut", None),
                (["UPDATE cut SET keyVersion = 9"], "bad_cut", None),
                (["DELETE FROM cut"], "missing", 1),
                (["DELETE FROM rows WHERE sequence <= 25"], "missing", 21)):
            open(l.db, "wb").write(keep)
            sql(l, *statements)
            l.start()
            expect(l, verdict, bad_row)
            l.stop()


@test
def retention_does_not_sign_a_change_away():
    for statement, bad in (("UPDATE rows SET decision = 'denied' WHERE sequence = 7", 7),
                           ("DELETE FROM rows WHERE sequence = 7", 7)):
        with Ledger() as l:
            fill(l)
            sql(l, statement)
            try:
                l.ask(L_RETAIN, {"beforeMs": int(time.time() * 1000) + 9})
                raise AssertionError("cut over a changed row")
            except LedgerError as x:
                assert x.kind == "conflict" and "row 7" in x.text, x
            assert not l.verify()["ok"] and len(l.rows()) >= ROWS - 1


@test
def a_trigger_or_view_in_the_database_does_not_run():
    with Ledger() as l:
        fill(l)
        sql(l, "CREATE TRIGGER t AFTER INSERT ON rows BEGIN DELETE FROM rows WHERE sequence = 3; END")
        fill(l, 5, 50)
        expect(l, "ok")
        sql(l, "DROP TRIGGER t", "CREATE TABLE q AS SELECT 1")
        l.restart()
        expect(l, "ok")


@test
def a_concurrent_writer_never_causes_a_false_alarm():
    with Ledger() as l:
        fill(l, 3000)
        stop = threading.Event()
        lock = threading.Lock()
        sent = [0]

        def writer():
            while not stop.is_set():
                with lock:
                    for _ in range(40):
                        l.send(L_ROW, {"row": row(job="w-%d" % sent[0])}, 0)
                        sent[0] += 1
                time.sleep(0.001)

        t = threading.Thread(target=writer)
        t.start()
        try:
            lasts = []
            for _ in range(40):
                with lock:
                    req = l.send(L_VERIFY, {})
                v = l.wait(req)
                assert v["ok"], v
                lasts.append(v["last"])
        finally:
            stop.set()
            t.join()
        assert lasts[-1] > lasts[0] + 100, lasts  # the writer really wrote meanwhile
        assert l.health()["lastSequence"] == 3000 + sent[0]


@test
def damage_to_the_file_itself_is_never_ok():
    with Ledger() as l:
        fill(l, 400)
        l.stop()
        good = open(l.db, "rb").read()
        for at in range(4096, len(good) - 64, max(4096, len(good) // 12)):
            bad = bytearray(good)
            for i in range(at, at + 64):
                bad[i] ^= 0x55
            open(l.db, "wb").write(bad)
            try:
                l.start()
            except LedgerError:
                continue  # refused by name at start
            v = l.verify()
            hit = v["verdict"] != "ok"
            # damage beside the rows (an index, a free page) is no damage to the rows
            assert hit or len(l.rows()) == 400, v
            l.stop()


def link(key, before, r):
    """The row's link by the description in audit/row.h, from outside."""
    out = b"cordon-ledger-row-1\0" + before + r[0].to_bytes(8, "big") + r[1].to_bytes(8, "big")
    out += r[12].to_bytes(4, "big")
    for v in r[2:12]:
        out += b"\xff\xff\xff\xff" if v is None else len(v.encode()).to_bytes(4, "big") + v.encode()
    return hmac.new(key, out, hashlib.sha256).digest()


@test
def a_copy_and_the_key_alone_verify_by_an_independent_program():
    with Ledger() as l:
        l.row(org="\u00f6rg \u2028", user='q"u\\o\n', cwd="a\tb\x01\u00e9")
        fill(l, 5)
        l.stop()
        copy = os.path.join(l.root, "copy.db")
        shutil.copy(l.db, copy)
        rows = sqlite3.connect("file:%s?mode=ro" % copy, uri=True).execute(
            "SELECT sequence, timeUs, organizationId, actorPrincipalId, actorPrincipalType,"
            " authSource, resourceType, resourceId, operation, decision, runId, metadata,"
            " keyVersion, chain FROM rows ORDER BY sequence").fetchall()
        before = hashlib.sha256(b"cordon-ledger-genesis-1\0").digest()
        for r in rows:
            assert link(KEY.encode(), before, r) == r[13], r[0]
            before = r[13]
        assert len(rows) == 6


if __name__ == "__main__":
    sys.exit(tap.main())
