# SPDX-License-Identifier: Apache-2.0
"""The broker's own part: carriers, a command beside what its sandbox takes, many open jobs."""
import json
import os
import statistics
import subprocess

from bench_launch import image_of
from cordon import TOP
from plane import BenchPlane

ABOUT = "carriers per second, the broker's part of a command, and 1,000 open jobs against one"
GAP_MS = 10
LIBS = ("session", "json", "digest", "policy", "base")


def carriers(b):
    """The program links the broker's libraries, so it is compiled here and not by b.tool()."""
    path = f"{b.build}/bench/carriers"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    subprocess.run([os.environ.get("CC", "gcc"), "-O2", "-std=gnu11", f"-I{TOP}/userspace", f"-I{TOP}/include",
                    "-o", path, f"{TOP}/tests/bench/carriers.c",
                    *(f"{b.build}/lib{name}.a" for name in LIBS), "-ljansson", "-lcrypto"], check=True)
    said = json.loads(subprocess.run([path], check=True, capture_output=True, text=True).stdout)
    b.table("carriers, one core", {what: {"us": said[key] / 1e3, "per_second": int(1e9 / said[key])}
                                   for what, key in (("seal", "sealNs"), ("open", "openNs"))})
    for what, key in (("seal", "sealNs"), ("open", "openNs")):
        b.aim(f"{what}, us", said[key] / 1e3, below=2)


def ran_us(pid):
    with open(f"/proc/{pid}/schedstat") as f:  # what it ran, in ns: each of them is one thread
        return int(f.read().split()[0]) / 1e3


def clock(b, how, pids, n):
    """{who: us of processor per request} over @n requests, back to back."""
    before = {who: ran_us(pid) for who, pid in pids.items()}
    out = json.loads(subprocess.run(how([b.tool("drive"), "-n", str(n)]), check=True, capture_output=True,
                                    text=True).stdout)
    if out["failed"]:
        raise RuntimeError(f"{out['failed']} failed: {out['failure']}")
    return {who: (ran_us(pid) - before[who]) / out["launches"] for who, pid in pids.items()}


def in_turns(b, subjects, who, n, rounds=20):
    """{subject: {who: us}}, the median of rounds in which all take turns, so that what else the
    machine does meets all alike."""
    took = {name: [] for name in subjects}
    for _ in range(rounds):
        for name, (plane, how) in subjects.items():
            took[name].append(clock(b, how, {w: plane.pid(w) for w in who}, max(1, n // rounds)))
    return {name: {w: statistics.median(t[w] for t in rows) for w in who} for name, rows in took.items()}


def part_of_a_command(b, plane, n):
    """The bare worker cannot be asked without a broker, so the processor says who did what: the
    broker is one thread, and what it runs for a command is what it adds when nothing else waits.
    A request that the table of routes refuses is what HTTP itself takes, the floor."""
    ms = in_turns(b, {"no such path": (plane, plane.nowhere), "health": (plane, plane.health),
                      "a command": (plane, plane.api)}, ("broker", "ledger", "worker"), n)
    floor = ms["no such path"]["broker"]
    b.table("processor per request, us", {
        name: {**row, "broker_to_floor": row["broker"] / floor} for name, row in ms.items()})
    b.aim("broker, ms of processor per command", ms["a command"]["broker"] / 1e3, below=0.15)
    b.aim("ledger, ms of processor per command", ms["a command"]["ledger"] / 1e3, below=0.15)


def open_jobs(b, few, many, n):
    jobs = 1000
    for i in range(jobs):
        _, sealed = many.api_call("POST", "/v1/sessions/seal",
                                  {"orgId": "idle%d" % (i // 30), "userId": "u", "surface": "chat"})
        status, job = many.api_call("POST", "/v1/jobs", sealed)
        if status != 201:
            raise RuntimeError(f"job open: {status} {job}")
    few_name, many_name = "1 open job", f"{jobs + 1} open jobs"
    who = ("broker", "ledger", "worker")
    us = in_turns(b, {few_name: (few, few.api), many_name: (many, many.api)}, who, n)
    ratio = {w: us[many_name][w] / us[few_name][w] for w in who}
    b.table("processor per command, us, by open jobs", {**us, "ratio": ratio})
    rows = b.compare(f"a command, one every {GAP_MS} ms, by open jobs",
                     {few_name: few.api, many_name: many.api}, n, gap_ms=GAP_MS)
    b.aim("broker's processor with 1,001 open jobs / with one", ratio["broker"], below=1.1)
    b.aim("p50 with 1,001 open jobs / with one", rows[many_name]["p50_ms"] / rows[few_name]["p50_ms"], below=1.15)


class Caller(BenchPlane):
    """BenchPlane's api() is a clocked command; here calls are made as well. One job is open."""

    WORKERS = 1

    def __enter__(self):
        super().__enter__()
        self.nowhere_target = f"{self.scratch}/nowhere"
        with open(self.nowhere_target, "w") as f:
            f.write("/v1/nowhere\n")
        return self

    def nowhere(self, prefix):
        return [*prefix, "-s", "404", "http", self.socket, "GET", self.nowhere_target, self.nothing]

    def api_call(self, *args):
        return super(BenchPlane, self).api(*args)


def bench(b):
    store, digest = image_of(b)
    carriers(b)
    n = 100 if b.quick else 600
    with Caller(b, store, digest, egress__maximum="none") as few, \
            Caller(b, store, digest, egress__maximum="none") as many:
        part_of_a_command(b, few, n)
        open_jobs(b, few, many, n)
