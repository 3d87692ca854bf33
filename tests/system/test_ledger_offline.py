#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`cordon audit verify --db FILE --key FILE` without a plane (SPEC A5, ESCAPES 73-75).

A ledger writes a database once; every case changes a copy of it and says what the
auditor must be told. Nothing may appear or change beside a copy, whatever is in it.
"""
import hashlib
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from ledger_process import *  # noqa: E402,F403
import tap  # noqa: E402
from cordon import memory_bound  # noqa: E402
from tap import test  # noqa: E402

CORDON = os.path.abspath(os.path.join(BUILD, "bin/cordon"))
VERIFIER = os.path.abspath(os.path.join(BUILD, "bin/cordon-verify"))
ROWS = 20


def state_of(directory):
    """Names, contents and times of everything in a directory."""
    out = {}
    for name in sorted(os.listdir(directory)):
        path = os.path.join(directory, name)
        st = os.lstat(path)
        data = open(path, "rb").read() if os.path.isfile(path) and not os.path.islink(path) else b""
        out[name] = (st.st_mode, st.st_size, st.st_mtime_ns, hashlib.sha256(data).hexdigest())
    return out


def ask(db, key, *more, program=(CORDON, "audit", "verify"), as_uid=None):
    argv = [*program, "--json", "--db", db, "--key", key, *more]
    if as_uid:
        argv = ["setpriv", "--reuid=%d" % as_uid, "--regid=%d" % as_uid, "--clear-groups", *argv]
    return subprocess.run(argv, capture_output=True, text=True, timeout=300)


class Copy:
    """A directory with a copy of a written database, its key and its checkpoint."""
    master = None

    @classmethod
    def write_master(cls):
        if cls.master:
            return
        with Ledger() as l:
            for i in range(10):
                l.row(job="job-%d" % i, run="run-%d" % i)
            l.stop()
            old = open(l.db, "rb").read(), open(l.checkpoint, "rb").read()
            l.start()
            for i in range(10, ROWS):
                l.row(job="job-%d" % i, run="run-%d" % i, commandId="c", receipt=receipt())
            v = l.verify()
            l.stop()
            cls.master = {"db": open(l.db, "rb").read(), "point": open(l.checkpoint, "rb").read(),
                          "old": old, "anchor": "%d:%s" % (v["last"], v["head"])}

    def __init__(self, db=None):
        self.write_master()
        self.at = tempfile.mkdtemp(prefix="cordon-test-offline-")
        self.db, self.point = (os.path.join(self.at, n) for n in ("taken.db", "taken.checkpoint"))
        self.keys = tempfile.mkdtemp(prefix="cordon-test-offline-key-")
        self.key = os.path.join(self.keys, "brought")
        for path, data in ((self.db, db or self.master["db"]), (self.point, self.master["point"]),
                           (self.key, KEY.encode() + b"\n")):
            with open(path, "wb") as f:
                f.write(data)

    def sql(self, *statements, ddl=False):
        db = sqlite3.connect(self.db, isolation_level=None)
        db.execute("PRAGMA journal_mode=DELETE")  # the copy stays one file
        if ddl:
            db.execute("PRAGMA writable_schema=ON")
        for s in statements:
            db.execute(s)
        db.execute("PRAGMA journal_mode=WAL")
        db.close()
        for suffix in ("-wal", "-shm"):
            if os.path.exists(self.db + suffix):
                os.unlink(self.db + suffix)
        return self

    def verify(self, *more, key=None, **kw):
        """The answer's object; nothing beside the copy may have changed."""
        before = state_of(self.at)
        done = ask(self.db, key or self.key, *more, **kw)
        assert state_of(self.at) == before, (before, state_of(self.at))
        assert done.stdout, done
        v = json.loads(done.stdout)
        assert done.returncode == (0 if v["ok"] else 1) and v["ok"] == (v["verdict"] == "ok"), done
        return v

    def expect(self, verdict, bad_row=None, *more, **kw):
        v = self.verify(*more, **kw)
        assert (v["verdict"], v["row"]) == (verdict, bad_row), (v, verdict, bad_row)
        return v

    def fails(self, *more, words=(), key=None):
        done = ask(self.db, key or self.key, *more)
        assert done.returncode in (1, 125) and not done.stdout, done
        assert all(w in done.stderr for w in words), done.stderr

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        shutil.rmtree(self.at, ignore_errors=True)
        shutil.rmtree(self.keys, ignore_errors=True)


@test
def a_copy_and_its_key_are_enough():
    with Copy() as c:
        v = c.expect("ok")
        assert (v["rows"], v["first"], v["last"], v["checkpoint"]) == (ROWS, 1, ROWS, None), v
        assert "%d:%s" % (v["last"], v["head"]) == c.master["anchor"]
        v = c.expect("ok", None, "--checkpoint", c.point, "--anchor", c.master["anchor"])
        assert (v["checkpoint"], v["anchor"]) == (ROWS, "matched"), v
        text = subprocess.run([CORDON, "audit", "verify", "--db", c.db, "--key", c.key],
                              capture_output=True, text=True, check=True).stdout
        assert "ok: yes\n" in text and "anchor: " + c.master["anchor"] in text, text
        assert "cut tail cannot be seen" in text, text


@test
def an_anchor_may_be_a_file_and_an_earlier_answer():
    with Copy() as c:
        for content in (c.master["anchor"] + "\n", json.dumps(c.verify())):
            with open(os.path.join(c.keys, "anchor"), "w") as f:
                f.write(content)
            assert c.expect("ok", None, "--anchor", f.name)["anchor"] == "matched"
        bad = dict(c.verify(), ok=False)
        for content in ("", "20", c.master["anchor"] + "0", "-1:" + "0" * 64, "020:" + "0" * 64,
                        json.dumps(bad), json.dumps({"last": 1}), "[" * 5000, "x" * 20000):
            with open(os.path.join(c.keys, "anchor"), "w") as f:
                f.write(content)
            c.fails("--anchor", f.name, words=["anchor"])
        c.fails("--anchor", "nonsense", words=["anchor"])


@test
def every_tampering_names_its_row():
    swap = ["UPDATE rows SET sequence = -1 WHERE sequence = 4",
            "UPDATE rows SET sequence = 4 WHERE sequence = 9",
            "UPDATE rows SET sequence = 9 WHERE sequence = -1"]
    put_in = ["UPDATE rows SET sequence = -sequence WHERE sequence >= 8",
              "UPDATE rows SET sequence = 1 - sequence WHERE sequence < 0",
              "INSERT INTO rows SELECT 8, timeUs, organizationId, actorPrincipalId,"
              " actorPrincipalType, authSource, resourceType, 'job-put-in', operation, decision,"
              " runId, metadata, keyVersion, chain FROM rows WHERE sequence = 7"]
    for statements, verdict, bad, needs_point in (
            (["UPDATE rows SET decision = 'denied' WHERE sequence = 7"], "altered", 7, False),
            (["UPDATE rows SET keyVersion = 3 WHERE sequence = 7"], "unknown_key", 7, False),
            (["DELETE FROM rows WHERE sequence = 7"], "missing", 7, False),
            (["DELETE FROM rows WHERE sequence <= 7"], "missing", 1, False),
            (swap, "altered", 4, False),
            (put_in, "altered", 8, False),
            (["DELETE FROM rows WHERE sequence >= 18"], "truncated", 18, True),
            (["DELETE FROM rows"], "truncated", 1, True),
            (["INSERT INTO cut VALUES(1, 5, zeroblob(32), 1, 1, zeroblob(32))"], "bad_cut", None,
             False)):
        with Copy() as c:
            c.sql(*statements)
            c.expect(verdict, bad, "--checkpoint", c.point)
            if needs_point:  # what a checkpoint is for: without one this is a whole, shorter chain
                c.expect("ok")
                c.expect("rolled_back", bad, "--anchor", c.master["anchor"])
            else:
                c.expect(verdict, bad)


@test
def an_older_database_alone_and_with_its_checkpoint():
    db, point = Copy.master["old"] if Copy.master else (Copy.write_master(), Copy.master["old"])[1]
    with Copy(db) as c:
        c.expect("truncated", 11, "--checkpoint", c.point)
        with open(c.point, "wb") as f:
            f.write(point)
        c.expect("ok", None, "--checkpoint", c.point)  # restored together: only an anchor tells
        v = c.expect("rolled_back", 11, "--checkpoint", c.point, "--anchor", c.master["anchor"])
        assert v["anchor"] == "failed", v


@test
def a_checkpoint_that_is_not_one():
    with Copy() as c:
        good = c.master["point"]
        for content in (b"", good[:-1], good + b"\n", good.replace(b"0020", b"0021"), b"x" * 384,
                        b"\0" * 384):
            with open(c.point, "wb") as f:
                f.write(content)
            c.expect("bad_checkpoint", None, "--checkpoint", c.point)


@test
def the_wrong_key_proves_nothing():
    with Copy() as c:
        with open(c.key, "w") as f:
            f.write("f" * 64)
        c.expect("altered", 1)
        c.expect("bad_checkpoint", None, "--checkpoint", c.point)
        os.unlink(c.key)
        c.fails(words=["key"])
        open(c.key, "w").close()
        c.fails(words=["0 bytes"])
        with open(os.path.join(c.keys, "2"), "w") as f:
            f.write(KEY)
        c.expect("unknown_key", 1, key=f.name)  # the key, but called another version


@test
def every_version_of_a_key_in_its_directory():
    with Ledger() as l:
        l.row()
        l.stop()
        l.add_key(2, "e" * 64)
        l.start()
        l.row()
        l.stop()
        v = json.loads(ask(l.db, l.keys, "--checkpoint", l.checkpoint).stdout)
        assert v["ok"] and v["rows"] == 2, v
        v = json.loads(ask(l.db, l.keys + "/1").stdout)
        assert v["verdict"] == "unknown_key" and v["row"] == 2, v


@test
def retention_is_named():
    with Ledger() as l:
        for i in range(6):
            l.row(job="old-%d" % i)
        l.ask(L_RETAIN, {"beforeMs": int(time.time() * 1000) + 9})
        l.row()
        l.stop()
        v = json.loads(ask(l.db, l.keys, "--checkpoint", l.checkpoint).stdout)
        assert v["ok"] and v["cut"]["upto"] == 6 and v["first"] == 7, v


@test
def a_torn_last_write():
    """The log beside a copy, cut anywhere: rows that were whole, no more, no false yes."""
    with Ledger() as l, Copy() as c:
        for i in range(15):
            l.row(job="job-%d" % i)
        l.kill()
        db, log, point = (open(p, "rb").read() for p in (l.db, l.db + "-wal", l.checkpoint))
        for path, data in ((c.db, db), (c.point, point)):
            with open(path, "wb") as f:
                f.write(data)
        seen = set()
        for cut in [0, 1, 31, 32, 100] + list(range(4096, len(log), 9973)) + [len(log) - 1]:
            with open(c.db + "-wal", "wb") as f:
                f.write(log[:cut])
            v = c.verify("--checkpoint", c.point)
            assert v["verdict"] in ("truncated", "unreadable"), (cut, v)
            if v["verdict"] == "truncated":
                assert v["row"] == v["rows"] + 1, v
            seen.add(v["rows"])
        with open(c.db + "-wal", "wb") as f:
            f.write(log)
        assert c.expect("ok", None, "--checkpoint", c.point)["rows"] == 15
        assert len(seen) > 5 and max(seen) == 14, seen
        noise = bytearray(log)
        for at in range(64, len(noise), 997):
            noise[at] ^= 1
        with open(c.db + "-wal", "wb") as f:
            f.write(noise)
        assert not c.verify("--checkpoint", c.point)["ok"]


@test
def what_is_no_database_is_never_ok():
    with Copy() as c:
        for content in (b"", b"x", b"no database at all, but longer than a header" * 100,
                        b"SQLite format 3\0" + b"\xff" * 4080, c.master["db"][:100],
                        c.master["db"][:4096], os.urandom(9000)):
            with open(c.db, "wb") as f:
                f.write(content)
            c.expect("unreadable")
        os.unlink(c.db)
        c.fails(words=["taken.db"])
        os.mkdir(c.db)
        c.fails(words=["no regular file"])
        os.rmdir(c.db)
        os.mkfifo(c.db)
        c.fails(words=["no regular file"])  # and does not wait for a writer


@test
def what_lies_beside_a_copy_is_not_followed():
    with Copy() as c:
        victim = os.path.join(c.keys, "victim")
        with open(victim, "w") as f:
            f.write("x" * 5000)
        os.symlink(victim, c.db + "-wal")
        c.fails(words=["taken.db-wal"])
        os.unlink(c.db + "-wal")
        os.mkfifo(c.db + "-wal")
        c.fails(words=["no regular file"])
        os.unlink(c.db + "-wal")
        for name in ("-shm", "-journal"):
            with open(c.db + name, "wb") as f:
                f.write(os.urandom(40000))
        c.expect("ok")  # neither is looked at


@test
def a_hostile_database_chooses_nothing():
    columns = ("sequence, timeUs, organizationId, actorPrincipalId, actorPrincipalType, authSource,"
               " resourceType, resourceId, operation, decision, runId, metadata, keyVersion, chain")
    forms = (
        # endless, as a view
        ["ALTER TABLE rows RENAME TO r", "CREATE VIEW rows AS WITH RECURSIVE x(n) AS (SELECT 1 UNION"
         " ALL SELECT n + 1 FROM x) SELECT n AS sequence, 1 AS timeUs FROM x"],
        ["ALTER TABLE rows RENAME TO r", "CREATE VIEW rows AS SELECT %s FROM r" % columns],
        # other columns, a column that is computed, a table of another kind
        ["ALTER TABLE rows ADD COLUMN more TEXT"],
        ["ALTER TABLE rows ADD COLUMN more TEXT AS (hex(randomblob(100000000))) VIRTUAL"],
        ["ALTER TABLE rows RENAME TO r", "CREATE VIRTUAL TABLE rows USING fts5(%s)" %
         columns.replace("rank", "r")],
        ["ALTER TABLE rows RENAME TO r", "CREATE TABLE rows AS SELECT * FROM r"],
        ["DROP TABLE cut", "CREATE VIEW cut AS SELECT 1 AS upto"],
        ["CREATE TRIGGER cut AFTER INSERT ON runs BEGIN SELECT 1; END"],
        ["UPDATE sqlite_schema SET sql = 'CREATE TABLE rows(sequence)' WHERE name = 'rows'"],
        ["UPDATE sqlite_schema SET sql = 'garbage' WHERE name = 'rows'"],
        ["UPDATE sqlite_schema SET rootpage = 1 WHERE name = 'rows'"],
        ["UPDATE sqlite_schema SET rootpage = 99999999 WHERE name = 'rows'"],
        ["PRAGMA application_id = 7"], ["PRAGMA user_version = 9"],
        ["DROP TABLE rows"])
    for statements in forms:
        with Copy() as c:
            v = c.sql(*statements, ddl=True).verify("--checkpoint", c.point)
            assert not v["ok"] and v["verdict"] in ("unreadable", "altered", "truncated"), (
                statements, v)
    with Copy() as c:  # the control: what nobody reads does no harm
        c.sql("CREATE TABLE other(x)", "CREATE TRIGGER t AFTER INSERT ON rows BEGIN SELECT 1; END")
        c.expect("ok")


@test
def huge_values_cost_neither_memory_nor_time():
    for statement in ("UPDATE rows SET metadata = hex(zeroblob(7000000)) WHERE sequence = 3",
                      "UPDATE rows SET metadata = hex(zeroblob(40000000)) WHERE sequence = 3",
                      "UPDATE rows SET chain = zeroblob(60000000) WHERE sequence = 3",
                      "UPDATE rows SET organizationId = hex(zeroblob(9000)) WHERE sequence = 3"):
        with Copy() as c:
            # in another process: ru_maxrss begins with what the parent had
            subprocess.run(["sqlite3", c.db, "PRAGMA journal_mode=DELETE; %s;" % statement,
                            "PRAGMA journal_mode=WAL"], check=True, stdout=subprocess.DEVNULL)
            before = os.listdir(c.at), os.stat(c.db).st_mtime_ns
            p = subprocess.Popen([VERIFIER, "--json", "--db", c.db, "--key", c.key],
                                 stdout=subprocess.PIPE, text=True)
            v = json.loads(p.stdout.read())
            used = os.wait4(p.pid, 0)[2].ru_maxrss
            p.returncode = 0
            assert (os.listdir(c.at), os.stat(c.db).st_mtime_ns) == before
            assert v["verdict"] in ("altered", "unreadable") and v["row"] == 3, v
            assert used < memory_bound(80 * 1024), "%d KiB" % used


@test
def damage_anywhere_is_never_a_crash():
    rng = random.Random(7)
    outcomes = set()
    with Copy() as c:
        good = c.master["db"]
        for _ in range(60):
            bad = bytearray(good)
            for _ in range(rng.choice((1, 4, 64))):
                bad[rng.randrange(len(bad))] = rng.randrange(256)
            with open(c.db, "wb") as f:
                f.write(bad)
            v = c.verify("--checkpoint", c.point, program=(VERIFIER,))
            outcomes.add(v["verdict"])
            if v["ok"]:  # damage beside the rows
                assert v["rows"] == ROWS
        for size in range(0, len(good), 4096):
            with open(c.db, "wb") as f:
                f.write(good[:size])
            assert not c.verify("--checkpoint", c.point, program=(VERIFIER,))["ok"], size
    assert len(outcomes) > 1, outcomes


@test
def anybody_may_verify_what_they_may_read():
    with Copy() as c:
        for path, mode in ((c.at, 0o555), (c.keys, 0o555), (c.key, 0o444), (c.db, 0o444),
                           (c.point, 0o444)):
            os.chmod(path, mode)
        assert c.verify("--checkpoint", c.point, as_uid=12345)["ok"]
        os.chmod(c.key, 0o400)
        done = ask(c.db, c.key, as_uid=12345)
        assert done.returncode == 1 and "Permission denied" in done.stderr, done


@test
def it_reads_the_database_without_rights():
    """As root: nobody, no capability, a filter, no file but the open ones."""
    with Copy() as c:
        trace = os.path.join(c.keys, "trace")
        subprocess.run(["strace", "-qq", "-o", trace, VERIFIER, "--db", c.db, "--key", c.key],
                       check=True, stdout=subprocess.DEVNULL)
        calls = open(trace).read().splitlines()
        first = [i for i, x in enumerate(calls) if "SQLite format 3" in x][0]
        before, after = "\n".join(calls[:first]), calls[first:]
        for what in ("PR_SET_NO_NEW_PRIVS", "setresuid(65534, 65534, 65534)", "SECCOMP_SET_MODE_FILTER"):
            assert what in before, what
        opened = [x for x in after if x.startswith("open") and "= -1" not in x]
        assert not opened and not [x for x in after if "pwrite" in x or "unlink" in x], opened
        mine = [x for x in calls if "taken.db" in x]
        assert mine and all("O_RDONLY" in x for x in mine if x.startswith("open")), mine


@test
def a_writer_never_causes_a_false_alarm():
    """The live files themselves, and copies made while rows are written."""
    with Ledger() as l:
        for i in range(1000):
            l.send(L_ROW, {"row": row(job="job-%d" % i)}, 0)
        l.health()
        stop, sent = threading.Event(), [0]

        def writer():
            while not stop.is_set():
                for _ in range(20):
                    l.send(L_ROW, {"row": row(job="w-%d" % sent[0])}, 0)
                    sent[0] += 1
                time.sleep(0.01)

        t = threading.Thread(target=writer)
        t.start()
        lasts, busy = [], 0
        copy = os.path.join(l.root, "copy.db")
        point = os.path.join(l.root, "copy.checkpoint")
        try:
            for i in range(8):
                v = json.loads(ask(l.db, l.keys, "--checkpoint", l.checkpoint).stdout)
                # "it is being written to" is no alarm; it says that it did not get to look
                assert v["ok"] or (v["verdict"], v["text"][:22]) == (
                    "unreadable", "it is being written to"), v
                busy += not v["ok"]
                shutil.copy(l.checkpoint, point)  # the checkpoint first: see cordon(1)
                source = sqlite3.connect("file:%s?mode=ro" % l.db, uri=True)
                to = sqlite3.connect(copy)
                source.backup(to)
                to.close()
                source.close()
                v = json.loads(ask(copy, l.keys, "--checkpoint", point).stdout)
                assert v["ok"], v
                lasts.append(v["last"])
                os.unlink(copy)
        finally:
            stop.set()
            t.join()
        assert lasts[-1] > lasts[0] + 100, lasts  # it really was written meanwhile
        assert busy < 8, "the live files could never be read"


@test
def wrong_command_lines_are_refused():
    with Copy() as c:
        for words in (["--db", c.db], ["--key", c.key], ["--checkpoint", c.point],
                      ["--db", c.db, "--key", c.key, "more"], ["--db"], ["--db", "", "--key", c.key]):
            done = subprocess.run([CORDON, "audit", "verify", *words], capture_output=True, text=True)
            assert done.returncode in (1, 125) and done.stderr.startswith("cordon: "), done
        done = subprocess.run([VERIFIER, "--db", c.db], capture_output=True, text=True)
        assert done.returncode == 2 and "usage" in done.stderr, done


if __name__ == "__main__":
    sys.exit(tap.main())
