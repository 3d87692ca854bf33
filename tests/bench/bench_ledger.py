#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the ledger costs: rows per second, grouped and one by one, both modes; and its own part of
a command's time. Ratios against plain SQLite on the same file system, in the same run."""
import os
import sqlite3
import statistics
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from ledger_process import *  # noqa: E402,F403

N = int(os.environ.get("BENCH_ROWS", "40000"))
ENVELOPE = json.dumps({"payload": "A" * 3000, "payloadType": "application/vnd.in-toto+json",
                       "signatures": [{"keyid": "k1", "sig": "A" * 88}]}, separators=(",", ":"))


def say(name, value, unit, note=""):
    print("%-52s %12s %-8s %s" % (name, value, unit, note), flush=True)


def packets(n, with_receipt, start=0, answered=False):
    out = []
    for i in range(start, start + n):
        body = {"row": row(job="job-%d" % (i % 1000), run="run-%d" % (i % 100))}
        if with_receipt:
            body.update(commandId="c%d" % i, receipt=receipt(), envelope=ENVELOPE)
        out.append(pack(L_ROW, struct.pack("<Q", 0) + json.dumps(body, separators=(",", ":")).encode()))
    return out


def grouped(required, with_receipt, n):
    with Ledger(required=required) as l:
        bursts = packets(n, with_receipt)
        send = l.broker.send
        start = time.perf_counter()
        for p in bursts:
            send(p)
        assert l.health()["lastSequence"] == n
        took = time.perf_counter() - start
        with open("/proc/%d/stat" % l.pid) as f:
            t = f.read().split()
        cpu = (int(t[13]) + int(t[14])) / os.sysconf("SC_CLK_TCK")
        with open("/proc/%d/status" % l.pid) as f:
            rss = [int(x.split()[1]) for x in f if x.startswith("VmRSS")][0]
        return n / took, cpu / n * 1e6, rss


def one_by_one(required, n, kind="row"):
    with Ledger(required=required) as l:
        times = []
        for i in range(n):
            body = {"row": row(job="job-%d" % i), "commandId": "c"}
            a = time.perf_counter()
            if required:
                intent = l.ask(L_INTENT, body)["intent"]
                l.ask(L_ROW, dict(body, intent=intent, receipt=receipt(), envelope=ENVELOPE))
            else:
                l.ask(L_ROW, dict(body, receipt=receipt(), envelope=ENVELOPE))
            times.append(time.perf_counter() - a)
        times.sort()
        return statistics.median(times) * 1e6, times[int(n * .99)] * 1e6


def plain_sqlite(group, n, sync):
    with tempfile.TemporaryDirectory() as d:
        db = sqlite3.connect(os.path.join(d, "x.db"), isolation_level=None)
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=" + sync)
        db.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)")
        text = json.dumps(row())
        start = time.perf_counter()
        for i in range(0, n, group):
            db.execute("BEGIN")
            db.executemany("INSERT INTO t(b) VALUES(?)", [(text,)] * group)
            db.execute("COMMIT")
        return n / (time.perf_counter() - start)


def verify_speed(n):
    with Ledger() as l:
        for p in packets(n, False):
            l.broker.send(p)
        l.health()
        start = time.perf_counter()
        assert l.verify()["ok"]
        return n / (time.perf_counter() - start)


def growth(n):
    """The same question with few and with many things in the database."""
    with Ledger() as l:
        def probe():
            t = []
            for i in range(400):
                a = time.perf_counter()
                l.row(job="probe", commandId="p%d-%d" % (n, i), receipt=receipt())
                t.append(time.perf_counter() - a)
                n_ = None
            return statistics.median(t) * 1e6
        few = probe()
        n_ = 0
        for p in packets(n, True):
            l.broker.send(p)
        l.health()
        t = []
        for i in range(400):
            a = time.perf_counter()
            l.row(job="probe2", commandId="q%d" % i, receipt=receipt())
            t.append(time.perf_counter() - a)
        return few, statistics.median(t) * 1e6


def main():
    base = plain_sqlite(64, 64 * 500, "NORMAL")
    one = plain_sqlite(1, 2000, "FULL")
    say("plain SQLite, 64 a transaction, NORMAL", "%d" % base, "rows/s")
    say("plain SQLite, one a transaction, FULL", "%d" % one, "rows/s")
    for required in (False, True):
        mode = "required" if required else "default"
        for with_receipt in (False, True):
            rate, cpu, rss = grouped(required, with_receipt, N if not with_receipt else N // 2)
            say("grouped rows, %s%s" % (mode, ", receipt and envelope" if with_receipt else ""),
                "%d" % rate, "rows/s", "%.1f us of processor a row, %d KiB" % (cpu, rss))
        p50, p99 = one_by_one(required, 2000)
        say("a command's part, %s" % mode, "%.0f" % p50, "us p50",
            "p99 %.0f us; %s" % (p99, "intent, then row" if required else "row, answered"))
    say("verification", "%d" % verify_speed(N), "rows/s")
    few, many = growth(N // 2)
    say("a row with %d behind it, against none" % (N // 2), "%.2f" % (many / few), "times")


if __name__ == "__main__":
    main()
