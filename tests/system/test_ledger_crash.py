#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# cordon-test: timeout=600
"""The ledger killed at every write, with torn logs, full disks and broken files (ESCAPES 75).

Runs in a mount namespace of its own, for small file systems and another boot id.
"""
import ctypes
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from ledger_process import *  # noqa: E402,F403
import tap  # noqa: E402
from tap import test  # noqa: E402

libc = ctypes.CDLL(None, use_errno=True)
STRACE = "/usr/bin/strace"


def private_mounts():
    if libc.unshare(0x20000) or libc.mount(b"none", b"/", None, 0x44000, None):  # NEWNS, rec private
        raise OSError(ctypes.get_errno(), "mount namespace")


def mount(source, target, kind, flags=0, options=""):
    if libc.mount(source.encode(), target.encode(), kind.encode(), flags, options.encode()):
        raise OSError(ctypes.get_errno(), "mount " + target)


def umount(target):
    libc.umount2(target.encode(), 2)


class Script:
    """A fixed work load which notes what was answered, until the ledger dies."""

    def __init__(self, required):
        self.required = required
        self.acked, self.intents, self.settled = [], [], []

    def run(self, l):
        try:
            for i in range(12):
                job = "job-%d" % i
                if self.required:
                    n = l.ask(L_INTENT, {"row": row(job=job), "commandId": "c"})["intent"]
                    self.intents.append(job)
                    if i % 4 == 3:
                        continue  # dispatched, and its end is never told
                    l.row(job=job, intent=n, commandId="c", receipt=receipt())
                    self.settled.append(job)
                else:
                    l.ask(L_COMMAND_ID, {"jobId": job, "commandId": "c"})
                    l.row(job=job, commandId="c", receipt=receipt())
                self.acked.append(job)
                reqs = [l.send(L_ROW, {"row": row(job="%s-%d" % (job, j))}) for j in range(8)]
                for j, r in enumerate(reqs):
                    l.wait(r)
                    self.acked.append("%s-%d" % (job, j))
            return True
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return False

    def check(self, l, where):
        v = l.verify()
        assert v["ok"], (where, v)
        assert l.health()["checkpointOk"], where
        jobs = [r["resourceId"] for r in l.rows()]
        assert len(jobs) == len(set(jobs)), (where, "a row twice")
        lost = [j for j in self.acked if j not in jobs]
        assert not lost, (where, lost)
        if self.required:
            unknown = {r["resourceId"] for r in l.rows()
                       if r["metadata"]["reason"] == "outcome_unknown"}
            assert all(j in jobs for j in self.intents), (where, "a dispatch without a row")
            assert not unknown & set(self.settled), (where, unknown)
            open_ones = set(self.intents) - set(self.settled)
            # the very last one may have been written without its answer getting out
            assert len(open_ones - unknown) <= 1, (where, open_ones, unknown)


def kill_at_each(call, required, most):
    """How often it really died before its work was done."""
    died = 0
    n = 1
    while n <= most:
        with Ledger(required=required, start=False) as l:
            script = Script(required)
            wrap = [STRACE, "-qq", "-o", "/dev/null", "-e", "trace=" + call,
                    "-e", "inject=%s:signal=KILL:when=%d" % (call, n)]
            try:
                done = script.run(l.start(wrap=wrap))
            except (AssertionError, EOFError, BrokenPipeError, ConnectionResetError):
                done = False  # killed while it started
            if done:
                l.stop()
                return died
            died += 1
            l.reap()
            l.start()
            script.check(l, "%s %d" % (call, n))
            l.row(job="afterwards")
            assert l.verify()["ok"]
        n += 1 if n < 16 else 5
    return died


@test
def killed_at_each_write_in_the_default_mode():
    assert kill_at_each("pwrite64", False, 120) > 15


@test
def killed_at_each_write_in_required_mode():
    assert kill_at_each("pwrite64", True, 150) > 15


@test
def killed_at_each_sync_truncation_and_answer():
    assert kill_at_each("fdatasync", True, 40) > 10
    assert kill_at_each("sendmsg", True, 60) > 10
    kill_at_each("ftruncate", False, 10)


def fail_at(call, error, n, required):
    """Some calls of a ledger in a row fail (one alone is answered by trying again); whatever was
    accepted is there in the end, once. Gives how many failed, and whether anybody was told."""
    trace = tempfile.NamedTemporaryFile(prefix="cordon-test-trace-")
    wrap = [STRACE, "-qq", "-o", trace.name, "-e", "trace=" + call,
            "-e", "inject=%s:error=%s:when=%d..%d" % (call, error, n, n + 3)]
    accepted, refused, failed = [], [], False
    with Ledger(required=required, start=False) as l:
        try:
            l.start(wrap=wrap)
        except LedgerError as x:  # it said so at its start, and the next start is a good one
            assert x.kind == "fatal", x
            failed = True
            l.start()
        for i in range(10):
            job, more = "job-%d" % i, {}
            try:
                if required:
                    more["intent"] = l.ask(L_INTENT, {"row": row(job=job), "commandId": "c"})["intent"]
                accepted.append(job)
                l.row(job=job, commandId="c", receipt=receipt(), **more)
            except LedgerError as x:
                assert x.kind == "unavailable", x
                if not accepted or accepted[-1] != job:
                    refused.append(job)
                failed = True
        until(lambda: l.health()["spoolPending"] == 0 and l.health()["storeOk"], 20)
        h, jobs = l.health(), [r["resourceId"] for r in l.rows()]
        assert sorted(jobs) == sorted(accepted), (n, jobs, accepted)
        assert not set(refused) & set(jobs) and h["lost"] == 0 and h["intentsOpen"] == 0, (n, h)
        assert l.verify()["ok"] and h["checkpointOk"], (n, l.verify(), h)
        l.kill()
        l.start()
        assert l.verify()["ok"] and l.health()["checkpointOk"], n
        # Of an intent whose write failed nobody knows whether the disk has it: if so, it is a
        # crash in between, although its command was refused.
        found = [r for r in l.rows() if r["resourceId"] in refused]
        assert required or not found, (n, found)
        assert all(r["metadata"]["reason"] == "outcome_unknown" for r in found), (n, found)
        assert len(l.rows()) == len(accepted) + len(found), n
        return open(trace.name).read().count("(INJECTED)"), failed


def fail_at_each(call, error, at, required):
    """(how often calls failed, how often a caller heard of it)"""
    results = [fail_at(call, error, n, required) for n in at]
    return sum(r[0] > 0 for r in results), sum(r[1] for r in results)


@test
def a_write_that_fails_loses_nothing_in_the_default_mode():
    hit, told = fail_at_each("pwrite64", "EIO", list(range(1, 12, 2)) + list(range(12, 90, 11)), False)
    assert hit > 8 and told > 2, (hit, told)
    hit, told = fail_at_each("pwrite64", "ENOSPC", (14, 41, 60), False)
    assert hit > 1 and told > 0, (hit, told)


@test
def a_write_or_sync_that_fails_dispatches_nothing_in_required_mode():
    hit, told = fail_at_each("pwrite64", "EIO", range(1, 110, 11), True)
    assert hit > 6 and told > 2, (hit, told)
    hit, told = fail_at_each("fdatasync", "EIO", range(1, 16, 3), True)
    assert hit > 3 and told > 1, (hit, told)


@test
def killed_at_any_moment_under_load():
    rng = random.Random(5)
    with Ledger(required=True) as l:
        acked = []
        for life in range(12):
            end = time.time() + rng.uniform(0.005, 0.12)
            pending = []
            i = 0
            while time.time() < end:
                name = "l%d-%d" % (life, i)
                pending.append((l.send(L_ROW, {"row": row(job=name)}), name))
                i += 1
                if len(pending) > 50:
                    r, name = pending.pop(0)
                    l.wait(r)
                    acked.append(name)
            l.restart(kill=True)
            assert l.verify()["ok"], life
            assert l.health()["checkpointOk"]
        jobs = [r["resourceId"] for r in l.rows()]
        assert len(jobs) == len(set(jobs)) and set(acked) <= set(jobs) and len(acked) > 200


def tear(l, size):
    """The log loses its last bytes, as when the power fails in a write."""
    wal = l.db + "-wal"
    os.truncate(wal, os.path.getsize(wal) - size)
    os.unlink(l.db + "-shm")


@test
def a_torn_log_is_truncation_on_the_same_boot_and_no_alarm_after_a_power_cut():
    for other_boot in (False, True):
        with Ledger() as l:
            for i in range(10):
                l.row(job="job-%d" % i)
            time.sleep(1.5)  # the checkpoint's synced value follows
            for i in range(5):
                l.row(job="late-%d" % i)
            l.kill()
            tear(l, 100)
            if other_boot:
                fake = os.path.join(l.root, "boot")
                open(fake, "w").write("00000000-0000-4000-8000-00000000000b\n")
                mount(fake, "/proc/sys/kernel/random/boot_id", "none", 4096)
            try:
                l.start()
                v = l.verify()
                rows = l.rows()
                assert 10 <= len(rows) < 15, len(rows)
                if other_boot:
                    assert v["ok"] and l.health()["checkpointOk"], v
                    l.row()
                    assert l.verify()["ok"]
                else:
                    assert v["verdict"] == "truncated" and v["row"] == len(rows) + 1, v
            finally:
                if other_boot:
                    umount("/proc/sys/kernel/random/boot_id")


class Small:
    """A ledger whose state lies on a file system of some KiB."""

    def __init__(self, kib, required=False):
        self.l = Ledger(required=required, start=False)
        mount("tmpfs", self.l.state, "tmpfs", 0, "size=%dk,mode=0755" % kib)
        self.ballast = os.path.join(self.l.state, "ballast")

    def fill(self):
        with open(self.ballast, "wb", buffering=0) as f:
            try:
                while True:
                    f.write(b"x" * 1024)
            except OSError:
                pass

    def free(self):
        os.unlink(self.ballast)

    def __enter__(self):
        self.l.start()
        return self

    def __exit__(self, *exc):
        if self.l.pid:
            self.l.kill()
        umount(self.l.state)
        self.l.close()


def until(what, seconds=10):
    end = time.time() + seconds
    while not what():
        assert time.time() < end, "it did not come"
        time.sleep(0.05)


@test
def a_full_disk_spools_counts_and_recovers_in_the_default_mode():
    with Small(400) as s:
        l = s.l
        for i in range(5):
            l.row(job="before-%d" % i)
        s.fill()
        answers = []
        for i in range(200):
            try:
                l.row(job="full-%d" % i, commandId="c", receipt=receipt())
                answers.append("ok")
            except LedgerError as x:
                assert x.kind == "unavailable"
                answers.append("spooled")
        assert answers.count("spooled") > 100, answers.count("spooled")
        h = l.health()
        assert h["storeOk"] is False and h["lost"] == 0, h
        assert h["spoolPending"] == h["spooled"] == answers.count("spooled"), h
        l.ask(L_QUERY, {"all": True, "limit": 10, "after": 0})  # empty or not, never an error
        assert l.verify()["verdict"] in ("ok", "unreadable")
        s.free()
        until(lambda: l.health()["spoolPending"] == 0)
        l.row(job="after")
        jobs = [r["resourceId"] for r in l.rows()]
        assert sorted(jobs) == sorted(["before-%d" % i for i in range(5)] + ["after"] +
                                      ["full-%d" % i for i in range(200)])
        assert l.verify()["ok"] and l.health()["checkpointOk"] and l.health()["storeOk"]
        assert l.ask(L_RECEIPT, {"jobId": "full-199", "commandId": "c"})["receipt"]


@test
def a_broker_that_comes_while_the_store_is_down_is_served_when_it_is_back():
    for required in (False, True):
        with Small(400, required=required) as s:
            l = s.l
            if required:
                l.ask(L_INTENT, {"row": row(job="open"), "commandId": "c"})
            else:
                l.row(job="open")
            s.fill()
            until(lambda: not works(l))
            l.restart(kill=True)  # says hello to a ledger that cannot write
            for i in range(40):
                works(l)
            s.free()
            until(lambda: l.health()["storeOk"] and l.health()["spoolPending"] == 0)
            l.row(job="after")
            jobs = [r["resourceId"] for r in l.rows()]
            assert "after" in jobs and "open" in jobs, jobs
            unknown = [r["resourceId"] for r in l.rows() if r["metadata"]["reason"] == "outcome_unknown"]
            assert unknown == (["open"] if required else []), unknown
            assert l.health()["intentsOpen"] == 0 and l.health()["refused"] == 0 and l.verify()["ok"]


def works(l):
    """A row with everything that costs room; False: it was spooled."""
    works.n += 1
    try:
        l.row(job="filler-%d" % works.n, commandId="c", receipt=receipt())
        return True
    except LedgerError as x:
        assert x.kind == "unavailable", x
        return False


works.n = 0


@test
def a_full_disk_refuses_intents_in_required_mode_and_loses_no_dispatch():
    with Small(400, required=True) as s:
        l = s.l
        running = [l.ask(L_INTENT, {"row": row(job="run-%d" % i), "commandId": "c"})["intent"]
                   for i in range(3)]
        s.fill()
        refused = 0
        for i in range(150):
            try:
                l.ask(L_INTENT, {"row": row(job="new-%d" % i), "commandId": "c"})
            except LedgerError as x:
                assert x.kind == "unavailable"
                refused += 1
        assert refused > 50
        told = []
        for i, n in enumerate(running):
            try:
                l.row(job="run-%d" % i, intent=n, commandId="c", receipt=receipt())
                told.append(i)
            except LedgerError as x:
                assert x.kind == "unavailable"
        s.free()
        l.restart(kill=True)
        until(lambda: l.health()["spoolPending"] == 0)
        jobs = [r["resourceId"] for r in l.rows()]
        assert len(jobs) == len(set(jobs))
        for i in range(3):
            assert "run-%d" % i in jobs, jobs
        assert l.verify()["ok"]


@test
def the_spool_is_drained_once_however_often_the_ledger_dies():
    with Small(700) as s:
        l = s.l
        l.row(job="first")
        s.fill()
        for i in range(600):
            l.send(L_ROW, {"row": row(job="s-%d" % i)}, 0)
        pending = l.health()["spoolPending"]
        assert pending > 300
        in_file = os.path.getsize(l.spool) > 0
        l.kill()
        s.free()
        for n in range(1, 40, 2):
            wrap = [STRACE, "-qq", "-o", "/dev/null", "-e", "trace=pwrite64,ftruncate", "-e",
                    "inject=pwrite64,ftruncate:signal=KILL:when=%d" % n]
            try:
                l.start(wrap=wrap)
                until(lambda: l.health()["spoolPending"] == 0)
                l.kill()
                break
            except (AssertionError, EOFError, BrokenPipeError, ConnectionResetError):
                if l.pid:
                    l.reap()
        if not l.pid:
            l.start()
        until(lambda: l.health()["spoolPending"] == 0)
        jobs = [r["resourceId"] for r in l.rows()]
        assert len(jobs) == len(set(jobs)), "a spooled row twice"
        assert "first" in jobs and l.verify()["ok"]
        if in_file:
            assert len(jobs) > 50


@test
def a_spool_that_somebody_wrote_into_gives_no_row():
    with Ledger(start=False) as l:
        l.start()
        l.row(job="control")
        l.stop()
        body = json.dumps({"row": row(job="forged")})
        with open(l.spool, "w") as f:
            f.write("cordon-ledger-spool-1 " + "a" * 32 + "\n")
            f.write("0" * 64 + " 1 1700000000000000 1 " + body + "\n")
            f.write("garbage\n" + "x" * 200000 + "\n\0\0\0\n")
        os.chown(l.spool, UID, GID)
        l.start()
        until(lambda: l.health()["spoolPending"] == 0)
        assert [r["resourceId"] for r in l.rows()] == ["control"]
        assert l.health()["lost"] == 4 and l.verify()["ok"]


@test
def a_database_that_others_lock_is_waited_for_then_spooled_and_caught_up():
    with Ledger() as l:
        l.row()
        other = sqlite3.connect(l.db, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        for i in range(30):
            l.send(L_ROW, {"row": row(job="locked-%d" % i)}, 0)
        until(lambda: l.health()["spoolPending"] == 30, 20)
        other.execute("ROLLBACK")
        other.close()
        until(lambda: l.health()["spoolPending"] == 0)
        assert len(l.rows()) == 31 and l.verify()["ok"]


if __name__ == "__main__":
    if os.geteuid() == 0:
        private_mounts()
    sys.exit(tap.main())
