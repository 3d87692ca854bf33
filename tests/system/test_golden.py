#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The mount table, the environment and the packet filter of a sandbox against their golden files.

`make golden` (GOLDEN_WRITE=1) writes the files anew; the difference is then for
a reviewer to read. What differs from run to run or host to host (ids, device
numbers, owners, the store's file system) is replaced by a word; what this
kernel has no file for may be missing from the table, and only that.
"""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from cordon import TOP, Plane, Skip, equal, eventually, main, run, test
from hostile import Box, cmdline

GOLDEN = os.path.join(TOP, "tests/golden")
WRITE = os.environ.get("GOLDEN_WRITE") == "1"
# Present or not by the kernel's configuration: each is masked where it is there.
SENSITIVE = ("acpi asound bus driver fs irq scsi sysvipc tty kallsyms kcore key-users keys kmsg kpagecgroup kpagecount "
             "kpageflags latency_stats pressure sched_debug slabinfo sysrq-trigger timer_list vmallocinfo").split()
OPTIONAL = re.compile(r"/proc/(%s)\b" % "|".join(SENSITIVE))


def compare(name, lines, may_miss=lambda line: False):
    path = os.path.join(GOLDEN, name)
    if WRITE:
        with open(path, "w") as f:
            f.write("\n".join(lines) + "\n")
        return
    with open(path) as f:
        wanted = f.read().splitlines()
    equal([x for x in lines if x not in wanted], [], "lines that are not in %s" % name)
    equal([x for x in wanted if x not in lines and not may_miss(x)], [], "lines of %s that are missing" % name)
    equal([x for x in lines], [x for x in wanted if x in lines], "order of %s" % name)


def table(text):
    """`TARGET OPTIONS - TYPE ROOT SUPER` per mount, sorted by target."""
    found = []
    for row in text.splitlines():
        left, _, right = row.partition(" - ")
        root, target, options = left.split()[3:6]
        kind, _source, super_options = right.split(" ", 2)
        if kind in ("erofs", "ext4", "xfs", "btrfs"):  # the workspace's and the image's own
            super_options = super_options.split(",")[0]
        super_options = re.sub(r"\b([ug]id)=\d+", r"\1=OUTSIDE", super_options)
        options = options.replace(",idmapped", "")
        tags = left.split()[6:]
        found.append(" ".join([target, options, *tags, "-", kind, root, super_options]))
    return sorted(found)


@test
def mounts_of_a_run():
    compare("mounts.txt", table(box.run("cat", "/proc/self/mountinfo").text), lambda line: bool(OPTIONAL.match(line)))


@test
def mounts_of_a_command_without_a_run():
    lines = table(plane.run("--workspace-size", "16M", "--", "cat", "/proc/self/mountinfo").text)
    compare("mounts-ephemeral.txt", lines, lambda line: bool(OPTIONAL.match(line)))


@test
def what_is_masked_is_there_or_not_in_the_kernel():
    lines = table(box.run("cat", "/proc/self/mountinfo").text)
    masked = {x.split()[0] for x in lines}
    present = ["/proc/" + x for x in SENSITIVE if os.path.exists("/proc/" + x)]
    equal([x for x in present if x not in masked], [], "there, and not masked")
    if len(present) < 10:
        raise AssertionError("control: this kernel has only %r" % present)


def environment(*options):
    done = box.run("./inside", options=options)
    equal(done.status, 0, "%r" % done)
    return sorted(x[4:] for x in done.text.splitlines() if x.startswith("env "))


@test
def environment_of_tier_none():
    compare("environment.txt", environment("--egress", "none"))


@test
def environment_behind_a_gateway():
    lines = environment("--egress", "default_internet")
    if not any(x.startswith("http_proxy=") for x in lines):
        raise Skip("no gateway on this plane")
    lines = [re.sub(r"http://\w+:x@[0-9.]+:\d+", "http://TOKEN:x@ADDRESS:PORT", x) for x in lines]
    compare("environment-gateway.txt", lines)


@test
def the_second_line_of_a_running_sandbox():
    c = plane.popen("run", "--egress", "default_internet", "-c", "sleep 300; : golden-nft", stdout=-3, stderr=-3)
    try:
        pid = eventually(lambda: [x for x in plane.sandboxed() if b"golden-nft" in cmdline(x)], "it runs")[0]
        done = run(["nsenter", "-t", str(pid), "-n", "nft", "list", "ruleset"])
        equal(done.status, 0, "%r" % done)
    finally:
        c.kill()
        c.wait()
    compare("nft.txt", [re.sub(r"packets \d+ bytes \d+", "packets N bytes N", x) for x in done.text.splitlines()])
    # the text that was loaded is one that nft itself takes
    with open(os.path.join(TOP, "nft/slot.nft")) as f:
        text = "define gateway = 100.64.0.1\ndefine ports = { 3128 }\n" + f.read()
    equal(run(["unshare", "-rn", "nft", "-c", "-f", "-"], data=text.encode()).status, 0)
    wrong = run(["unshare", "-rn", "nft", "-c", "-f", "-"], data=text.replace("policy drop", "policy maybe").encode())
    assert wrong.status != 0, "control: a wrong text is refused"


with Plane() as plane:
    box = Box(plane, "golden", "inside")
    main()
