# SPDX-License-Identifier: Apache-2.0
"""Launching `true`: through the CLI and over the API, against what Debian packages."""
import os

import images
from peers import Peers, spawn
from plane import BenchPlane

ABOUT = "a command that does nothing, from the request to its answer"
GAP_MS = 30


def image_of(b):
    """The store and digest everybody runs on: the Debian L0 where one is built, else busybox."""
    for store in (os.environ.get("CORDON_IMAGE_STORE"), f"{b.build}/images"):
        if store and os.path.exists(f"{store}/debian.ref"):
            with open(f"{store}/debian.ref") as f:
                return store, f.read().strip()
    store = f"{b.build}/images"
    return store, images.busybox(b.build, store)


def bench(b):
    store, digest = image_of(b)
    peers = Peers(b.scratch, images.path_of(store, digest))
    print(f"root image {digest}")
    try:
        with BenchPlane(b, store, digest) as plane:
            scenarios(b, peers, plane)
            memory(b, plane)
            steps(b, store, digest, plane)
    finally:
        peers.close()


def scenarios(b, peers, plane):
    subjects = {
        "fork and exec only": lambda prefix: spawn(prefix, ["/usr/bin/true"]),
        "bubblewrap": peers.bubblewrap,
        "crun": peers.crun,
        "cordon run": plane.cli,
        "cordon API, open job": plane.api,
    }
    n = 80 if b.quick else 600
    alone = b.compare("one at a time, back to back", subjects, n)
    gaps = b.compare(f"one every {GAP_MS} ms", subjects, n // 2, gap_ms=GAP_MS)
    b.compare("2 at a time", subjects, n, at_a_time=2)
    eight = b.compare("8 at a time", subjects, n, at_a_time=8)
    for rows, when in ((alone, "back to back"), (gaps, "every 30 ms")):
        bwrap = rows["bubblewrap"]["p50_ms"]
        b.aim(f"cordon run / bubblewrap, p50, {when}", rows["cordon run"]["p50_ms"] / bwrap, below=0.5)
        b.aim(f"API / bubblewrap, p50, {when}", rows["cordon API, open job"]["p50_ms"] / bwrap, below=0.3)
        for who in ("cordon run", "cordon API, open job"):
            b.aim(f"{who}, p99 / p50, {when}", rows[who]["p99_ms"] / rows[who]["p50_ms"], below=5)
    for who in ("cordon run", "cordon API, open job"):
        b.aim(f"{who} / bubblewrap, launches per second at 8",
              eight[who]["per_second"] / eight["bubblewrap"]["per_second"], above=1.5)


def memory(b, plane):
    daemons, slots = plane.memory()
    rows = {name: {"pss_mib": kib / 1024, "processes": n} for name, (kib, n) in sorted(daemons.items())}
    rows["all daemons"] = {"pss_mib": sum(k for k, _ in daemons.values()) / 1024,
                           "processes": sum(n for _, n in daemons.values())}
    rows["waiting slots"] = {"pss_mib": slots[0] / 1024, "processes": slots[1]}
    b.table("memory at rest (PSS)", rows)
    b.aim("all daemons, MiB", rows["all daemons"]["pss_mib"], below=24)


def steps(b, store, digest, plane):
    """What a launch consists of, by leaving parts of it out. One every 30 ms: the pool is full each time."""
    with BenchPlane(b, store, digest, pool=0) as cold, BenchPlane(b, store, digest, audit="best_effort") as loose:
        b.compare(f"the parts of it, one every {GAP_MS} ms", {
            "fork and exec only": lambda prefix: spawn(prefix, ["/usr/bin/true"]),
            "cordon --help: the CLI's own start": lambda prefix: spawn(prefix, [plane.program, "--help"]),
            "API: health, no command": plane.health,
            "API: command, row not awaited": loose.api,
            "API: command": plane.api,
            "API: command, no slot ready": cold.api,
            "cordon run": plane.cli,
        }, 40 if b.quick else 300, gap_ms=GAP_MS)
