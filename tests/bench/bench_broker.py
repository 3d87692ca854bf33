# SPDX-License-Identifier: Apache-2.0
"""The broker's own part: carriers, a command beside what its sandbox takes, many open jobs."""
import json
import os
import subprocess
import time

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


def cpu_ms(pid):
    with open(f"/proc/{pid}/schedstat") as f:  # what it ran, in ns: one thread
        return int(f.read().split()[0]) / 1e6


def part_of_a_command(b, plane, n):
    """The bare worker cannot be asked without a broker, so the processor says who did what: the
    broker is one thread, and what it runs for a command is what it adds when nothing else waits."""
    before = {who: cpu_ms(plane.pid(who)) for who in ("broker", "worker")}
    rows = b.compare("a command, one every %d ms" % GAP_MS, {"API, open job": plane.api}, n, gap_ms=GAP_MS)
    spent = {who: (cpu_ms(plane.pid(who)) - before[who]) / n for who in before}
    p50 = rows["API, open job"]["p50_ms"]
    b.table("of it, processor time per command", {
        who: {"ms": ms, "of_p50": ms / p50} for who, ms in spent.items()})
    b.aim("broker, ms of processor per command", spent["broker"], below=0.15)


def open_jobs(b, few, many, n):
    jobs = 999
    for i in range(jobs):
        _, sealed = many.api_call("POST", "/v1/sessions/seal",
                                  {"orgId": "idle%d" % (i // 30), "userId": "u", "surface": "chat"})
        status, job = many.api_call("POST", "/v1/jobs", sealed)
        if status != 201:
            raise RuntimeError(f"job open: {status} {job}")
    time.sleep(1)
    rows = b.compare("open jobs", {"8 open": few.api, f"{jobs + 8} open": many.api}, n, gap_ms=GAP_MS)
    b.aim("p50 with a thousand open jobs / with few", rows[f"{jobs + 8} open"]["p50_ms"] / rows["8 open"]["p50_ms"],
          below=1.15)


class Caller(BenchPlane):
    """BenchPlane's api() is a clocked command; here calls are made as well."""

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
