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


def send_all(l, bursts):
    send = l.broker.send
    start = time.perf_counter()
    for p in bursts:
        send(p)
    assert l.health()["lastSequence"] >= len(bursts)
    return time.perf_counter() - start


def grouped(required, with_receipt, n):
    """Nothing waits for an answer: as many rows as the ledger can take."""
    with Ledger(required=required) as l:
        took = send_all(l, packets(n, with_receipt))
        with open("/proc/%d/stat" % l.pid) as f:
            t = f.read().split()
        with open("/proc/%d/status" % l.pid) as f:
            rss = [int(x.split()[1]) for x in f if x.startswith("VmRSS")][0]
        cpu = (int(t[13]) + int(t[14])) / os.sysconf("SC_CLK_TCK")
        return {"rows_per_s": int(n / took), "cpu_us_per_row": cpu / n * 1e6, "rss_kib": rss}


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
    """The same file system without us: what one could have at best."""
    path = os.path.join(b.scratch, "plain-%d.db" % group)
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=" + sync)
    db.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)")
    text = json.dumps(row())
    start = time.perf_counter()
    for _ in range(0, n, group):
        db.execute("BEGIN")
        db.executemany("INSERT INTO t(b) VALUES(?)", [(text,)] * group)
        db.execute("COMMIT")
    took = time.perf_counter() - start
    db.close()
    return {"rows_per_s": int(n / took)}


def verification(n):
    with Ledger() as l:
        send_all(l, packets(n, False))
        start = time.perf_counter()
        assert l.verify()["ok"]
        return {"rows_per_s": int(n / (time.perf_counter() - start))}


def of_a_command(b, n):
    """A command over the API, an open job, with a ledger, with one that never runs, and with
    one that must have the row first. What the first two differ by is what a ledger adds where
    the answer does not wait for it."""
    store, digest = os.path.join(b.build, "images"), image()
    with BenchPlane(b, store, digest) as default, BenchPlane(b, store, digest) as stopped, \
            BenchPlane(b, store, digest, audit="required") as required:
        os.kill(stopped.pid("ledger"), signal.SIGSTOP)
        try:
            rows = b.compare("a command over the API", {
                "no ledger runs": stopped.api, "default": default.api,
                "required (two durable commits)": required.api}, n, gap_ms=5)
        finally:
            os.kill(stopped.pid("ledger"), signal.SIGCONT)
    none = rows["no ledger runs"]["p50_ms"]
    return {name: (r["p50_ms"] - none) * 1e3 for name, r in rows.items()}


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
    plain = plain_sqlite(b, 64, n // 64 * 64, "NORMAL")
    rates = {"plain SQLite, 64 a transaction, NORMAL": plain,
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
    added = of_a_command(b, 60 if b.quick else 600)
    b.aim("ledger: what it adds to a command, us, default mode", added["default"], below=150)
    b.aim("ledger: a row with %d behind it, against none" % (n // 2), growth(n // 2), below=1.3)
