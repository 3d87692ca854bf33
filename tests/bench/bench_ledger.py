# SPDX-License-Identifier: Apache-2.0
"""What the ledger costs: rows per second, grouped and one by one, both modes; its part of a command."""
import os
import signal
import sqlite3
import statistics
import time

from cordon import image
from ledger_process import *  # noqa: F403
from plane import BenchPlane

ABOUT = "rows per second, and the time a ledger adds to a command"
SO_SNDBUFFORCE = 32
ENVELOPE = json.dumps({"payload": "A" * 3000, "payloadType": "application/vnd.in-toto+json",
                       "signatures": [{"keyid": "k1", "sig": "A" * 88}]}, separators=(",", ":"))


def packets(n, with_receipt):
    out = []
    for i in range(n):
        body = {"row": row(job="job-%d" % (i % 1000), run="run-%d" % (i % 100))}
        if with_receipt:
            body.update(commandId="c%d" % i, receipt=receipt(), envelope=ENVELOPE)
        text = json.dumps(body, separators=(",", ":")).encode()
        out.append(pack(L_ROW, struct.pack("<Q", 0) + text))
    return out


def cpu_us(pid):
    with open("/proc/%d/schedstat" % pid) as f:
        return int(f.read().split()[0]) / 1e3


def send_all(l, bursts):
    """As fast as the ledger takes them: its queue is never the narrow place."""
    l.broker.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 64 << 20)
    send = l.broker.send
    start = time.perf_counter()
    for p in bursts:
        send(p)
    assert l.health()["lastSequence"] >= len(bursts)
    return time.perf_counter() - start


def grouped(required, with_receipt, n):
    """Nothing waits for an answer: as many rows as the ledger can take."""
    with Ledger(required=required) as l:
        bursts, cpu = packets(n, with_receipt), cpu_us(l.pid)
        took = send_all(l, bursts)
        with open("/proc/%d/status" % l.pid) as f:
            rss = [int(x.split()[1]) for x in f if x.startswith("VmRSS")][0]
        return {"rows_per_s": int(n / took), "cpu_us_per_row": (cpu_us(l.pid) - cpu) / n,
                "rss_kib": rss}


def one_by_one(required, n):
    """A command's part: a row that is answered; in `required` mode an intent before it."""
    with Ledger(required=required) as l:
        times = []
        for i in range(n):
            body = {"row": row(job="job-%d" % i), "commandId": "c"}
            start = time.perf_counter()
            if required:
                body["intent"] = l.ask(L_INTENT, body)["intent"]
            l.ask(L_ROW, dict(body, receipt=receipt(), envelope=ENVELOPE))
            times.append((time.perf_counter() - start) * 1e6)
        times.sort()
        return {"p50_us": statistics.median(times), "p99_us": times[int(n * .99)]}


def plain_sqlite(b, group, n, sync):
    """The same columns on the same file system without us: what one could have at best."""
    path = os.path.join(b.scratch, "plain-%d.db" % group)
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=" + sync)
    r = row()
    values = (time.time_ns() // 1000, r["organizationId"], r["actorPrincipalId"], "model", "agent",
              "execution_sandbox", r["resourceId"], "sandbox_execute", r["decision"], r["runId"],
              json.dumps(r["metadata"], separators=(",", ":")), 1, bytes(32))
    db.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, %s)" % ", ".join("c%d" % i for i in range(13)))
    insert = "INSERT INTO t VALUES(NULL%s)" % (",?" * 13)
    start, cpu = time.perf_counter(), time.process_time()
    for _ in range(0, n, group):
        db.execute("BEGIN")
        db.executemany(insert, [values] * group)
        db.execute("COMMIT")
    took, cpu = time.perf_counter() - start, time.process_time() - cpu
    db.close()
    return {"rows_per_s": int(n / took), "cpu_us_per_row": cpu / n * 1e6}


def verification(n):
    with Ledger() as l:
        send_all(l, packets(n, False))
        start = time.perf_counter()
        assert l.verify()["ok"]
        return {"rows_per_s": int(n / (time.perf_counter() - start))}


def fdatasync_us(b, n):
    """What the disk asks for a commit at least: a page written and brought to it."""
    fd = os.open(os.path.join(b.scratch, "floor"), os.O_WRONLY | os.O_CREAT, 0o600)
    times = []
    for i in range(n):
        start = time.perf_counter()
        os.pwrite(fd, bytes(4096), i * 4096)
        os.fdatasync(fd)
        times.append((time.perf_counter() - start) * 1e6)
    os.close(fd)
    return statistics.median(times)


def rows_of(plane):
    return plane.cordon("audit", "verify", "--json").json["last"]


def of_a_command(b, n):
    """A command over the API, an open job, with a ledger, with one that never runs, and with
    one that must have the row first. What the first two differ by is what a ledger adds where
    the answer does not wait for it; its processor time says it where the clock is not to be
    trusted. The floor of the third is two commits that reach the disk."""
    store, digest = os.path.join(b.build, "images"), image()
    with BenchPlane(b, store, digest) as default, BenchPlane(b, store, digest) as stopped, \
            BenchPlane(b, store, digest, audit="required") as required:
        kept = {"default": default, "required": required}
        # the row count first, then the time, and the other way round: asking costs time too
        before = {mode: (rows_of(p), cpu_us(p.pid("ledger"))) for mode, p in kept.items()}
        os.kill(stopped.pid("ledger"), signal.SIGSTOP)
        try:
            rows = b.compare("a command over the API", {
                "no ledger runs": stopped.api, "default": default.api, "required": required.api},
                n, gap_ms=5)
        finally:
            os.kill(stopped.pid("ledger"), signal.SIGCONT)
        after = {mode: (cpu_us(p.pid("ledger")), rows_of(p)) for mode, p in kept.items()}
    none, floor, added = rows["no ledger runs"]["p50_ms"], fdatasync_us(b, n), {}
    for mode, (cpu, last) in after.items():
        us = (rows[mode]["p50_ms"] - none) * 1e3
        added[mode] = {"added_us": us, "times_without": rows[mode]["p50_ms"] / none,
                       "ledger_cpu_us": (cpu - before[mode][1]) / (last - before[mode][0]),
                       "in_fdatasyncs": us / floor}
    b.table("what the ledger adds to a command (required: two durable commits)",
            dict(added, **{"an fdatasync": {"added_us": floor, "in_fdatasyncs": 1.0}}))
    return added["default"]["added_us"]


def growth(n):
    """How long an answered row takes with none and with @n behind it."""
    def probe(l, name):
        times = []
        for i in range(300):
            start = time.perf_counter()
            l.row(job=name, commandId="p%d" % i, receipt=receipt())
            times.append(time.perf_counter() - start)
        return statistics.median(times)

    with Ledger() as l:
        few = probe(l, "few")
        send_all(l, packets(n, True))
        return probe(l, "many") / few


def bench(b):
    n = 4000 if b.quick else 40000
    plain = plain_sqlite(b, 256, n // 256 * 256, "NORMAL")
    rates = {"plain SQLite, 256 a transaction, NORMAL": plain,
             "plain SQLite, one a transaction, FULL": plain_sqlite(b, 1, n // 20, "FULL")}
    parts = {}
    for required in (False, True):
        mode = "required" if required else "default"
        rates["rows, " + mode] = grouped(required, False, n)
        rates["rows with receipt and envelope, " + mode] = grouped(required, True, n // 2)
        parts[mode] = one_by_one(required, n // 20)
    rates["verification"] = verification(n)
    b.table("rows per second, grouped", rates)
    b.table("a row that is waited for, with receipt and envelope", parts)
    b.aim("ledger: rows per second, grouped", rates["rows, default"]["rows_per_s"], above=100000)
    b.aim("ledger: its processor time of a row, us, grouped", rates["rows, default"]["cpu_us_per_row"],
          below=10)
    b.aim("ledger: what it adds to a command, us, default mode",
          of_a_command(b, 60 if b.quick else 600), below=150)
    b.aim("ledger: a row with %d behind it, against none" % (n // 2), growth(n // 2), below=1.3)
