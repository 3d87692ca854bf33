#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# cordon-test: timeout=1200
"""A soak: commands of every kind, and then everything is as it was.

Rounds of commands that succeed, fail, time out, run over a limit, are refused,
cancelled, use the network, skills, workspaces of runs and standard input. After
some rounds to warm up, and again at the end, what the plane holds is counted:
descriptors and memory of every daemon, processes, directories of cgroups,
mounts of the worker, loop devices, BPF programs and maps, network namespaces.
Nothing may have grown with the number of commands. SOAK_COMMANDS says how many
(`make soak`); `make check` runs a few hundred.
"""
import concurrent.futures
import contextlib
import glob
import os
import re
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import internet  # noqa: E402
from cordon import Plane, equal, eventually, main, memory_bound, test  # noqa: E402

COMMANDS = int(os.environ.get("SOAK_COMMANDS", "300"))
WARM_ROUNDS, AT_ONCE = 3, 4
# KiB that a daemon may hold more at the end: what an allocator keeps in reserve, caches that
# have not met their bound, tables that grew once. A leak of one KiB a command shows at 2000.
MEMORY_SLACK = {"skills": 4096, "ledger": 4096, "broker": 2048, "worker": 2048, "gateway": 2048}


def setup():
    net = internet.Internet()
    net.dns({"good.example": [["203.0.113.10"]]})
    net.serve("203.0.113.10", 80, internet.Http(body=b"hello\n" * 1000))
    return net


def run(plane, *options, data=None, wanted=None, timeout="20"):
    done = plane.run("--json", "--timeout", timeout, *options, input=data, timeout=120)
    answer = done.json
    got = answer["reason"] or answer["termination"]
    if got == "exited":
        got = answer["exitCode"]
    equal(got, wanted, "%r: %r" % (options, answer.get("stderr")))


def cancelled(plane):
    p = plane.popen("run", "-c", "echo ready; sleep 60", stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL)
    equal(p.stdout.readline(), b"ready\n")
    p.send_signal(signal.SIGTERM)
    equal(p.wait(60), 130, "cancelled")
    p.stdout.close()


def killed_job(plane):
    job = plane.open_job()
    equal(plane.cordon("job", "exec", job, "-c", "echo a > f; sleep 60 & true").status, 0)
    equal(plane.cordon("job", "close", job).status, 0)


# One round. The names of runs repeat, so that their workspaces do not pile up.
ROUND = [
    lambda p: run(p, "-c", "echo hello", wanted=0),
    lambda p: run(p, "-c", "exit 3", wanted=3),
    lambda p: run(p, "-c", "kill -9 $$", wanted=None),
    lambda p: run(p, "-c", "sleep 60", timeout="1", wanted="timeout"),
    lambda p: run(p, "--output-cap", "64K", "-c", "cat /dev/zero", wanted="output_cap_exceeded"),
    lambda p: run(p, "--memory", "100000G", "-c", "true", wanted="limit_above_maximum"),
    lambda p: run(p, "--", "/nonexistent", wanted=127),
    lambda p: run(p, "-c", "sleep 300 & sleep 300 & exit 0", wanted=0),
    lambda p: run(p, "-c", "wget -q -O /dev/null http://good.example/", wanted=0),
    lambda p: run(p, "--egress", "allowlist", "--allow", "other.example", "-c",
                  "wget -q -O - http://good.example/ 2>/dev/null || exit 9", wanted=9),
    lambda p: run(p, "--egress", "none", "-c", "true", wanted=0),
    lambda p: run(p, "--skill", "hello", "-c", "cat /skills/hello/SKILL.md >/dev/null", wanted=0),
    lambda p: run(p, "--skill", "absent", "-c", "true", wanted="staging_failed"),
    lambda p: run(p, "--stdin", "-", "--", "wc", "-c", data=b"x" * 300000, wanted=0),
    lambda p: run(p, "--run-id", "a", "--workspace-size", "8M", "-c", "date >> f", wanted=0),
    lambda p: run(p, "--run-id", "b", "-c", "echo > f", wanted=0),
    cancelled,
    killed_job,
]


def status(pid, key):
    with open("/proc/%d/smaps_rollup" % pid) as f:
        return int(re.search(r"^%s:\s+(\d+) kB" % key, f.read(), re.M).group(1))


def lines(path):
    with open(path) as f:
        return sum(1 for _ in f)


def family(pid):
    """A daemon and its children (skills has two)."""
    found = [pid]
    with contextlib.suppress(OSError):
        with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
            for child in f.read().split():
                with open("/proc/%s/exe" % child, "rb"):
                    pass
                if "launcher" not in os.readlink("/proc/%s/exe" % child):
                    found += family(int(child))
    return found


def bpf(pid):
    """BPF objects that a process holds, by kind."""
    kinds = {}
    for fd in os.listdir("/proc/%d/fd" % pid):
        with contextlib.suppress(OSError):
            target = os.readlink("/proc/%d/fd/%s" % (pid, fd))
            if "bpf" in target or "loop" in target or "net:" in target:
                kind = re.sub(r"\d+", "", target)
                kinds[kind] = kinds.get(kind, 0) + 1
    return kinds


def take_stock(plane):
    """({what: count}, {daemon: KiB of its own memory})."""
    counts, memory = {}, {}
    for name, (pid, _, restarts) in plane.daemons().items():
        pids = family(pid)
        counts[name, "restarts"] = restarts
        counts[name, "processes"] = len(pids)
        counts[name, "threads"] = sum(len(os.listdir("/proc/%d/task" % p)) for p in pids)
        counts[name, "descriptors"] = sum(len(os.listdir("/proc/%d/fd" % p)) for p in pids)
        counts[name, "mounts"] = lines("/proc/%d/mountinfo" % pid)
        for kind, n in bpf(pid).items():
            counts[name, kind] = n
        memory[name] = sum(status(p, "Private_Dirty") for p in pids)
    counts["cgroup directories"] = sum(len(d) for top in plane.cgroups()
                                       for _, d, _ in os.walk(top))
    counts["processes in sandboxes"] = len(plane.sandboxed())
    counts["loop devices"] = len(plane.loops())
    counts["mounts of the host"] = sum(plane.root in line for line in open("/proc/self/mountinfo"))
    counts["nft tables"] = len(subprocess.run(["nft", "list", "tables"], stdout=subprocess.PIPE,
                                              check=True).stdout.splitlines())
    counts["links"] = len(os.listdir("/sys/class/net"))
    counts["files in run"] = sum(len(f) for _, _, f in os.walk(plane.path("run")))
    counts["shared memory"] = len(glob.glob("/dev/shm/*%s*" % plane.name))
    return counts, memory


def settled(plane, before=None):
    """A stock that does not change any more: idle slots are built, ended ones gone."""
    last = []

    def still():
        last.append(take_stock(plane))
        if before is not None and not excess(before, last[-1]):
            return last[-1]
        return before is None and len(last) > 3 and last[-1][0] == last[-3][0] and last[-1]
    with contextlib.suppress(AssertionError):
        return eventually(still, "settled", seconds=20, step=0.3)
    return last[-1]


def excess(before, after):
    """What grew. A few descriptors come and go with connections and the gateway's pipes."""
    grew = {}
    for key, n in after[0].items():
        slack = 6 if "descriptors" in key else 0
        if n > before[0].get(key, 0) + slack:
            grew[key] = (before[0].get(key, 0), n)
    for name, n in after[1].items():
        if n > before[1].get(name, 0) + memory_bound(MEMORY_SLACK.get(name, 2048)):
            grew[name, "KiB of its own"] = (before[1].get(name), n)
    return grew


def rounds(plane, n):
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        jobs = [pool.submit(work, plane) for _ in range(n) for work in ROUND
                if work not in KEYED]
        for job in jobs:
            job.result()
    for _ in range(n):  # one run's commands exclude each other: one after the other
        for work in KEYED:
            work(plane)


KEYED = ROUND[14:16]


@test
def nothing_grows_with_the_number_of_commands():
    with Plane(gateway__resolver=internet.DNS, admission__running_per_org=AT_ONCE) as plane:
        with tempfile.TemporaryDirectory() as skill:
            with open(skill + "/SKILL.md", "w") as f:
                f.write("---\nname: hello\ndescription: d\n---\n" + "text\n" * 1000)
            equal(plane.cordon("skill", "add", skill, "--slug", "hello").status, 0)
        rounds(plane, WARM_ROUNDS)
        before = settled(plane)
        n = max(1, COMMANDS // len(ROUND))
        rounds(plane, n)
        after = settled(plane, before)
        print("# %d commands, memory before %r, after %r" % (n * len(ROUND), before[1], after[1]))
        equal(excess(before, after), {}, "grew with the number of commands")
        equal(plane.cordon("audit", "verify").status, 0, "the chain verifies")
        health = plane.api("GET", "/v1/health")[1]
        equal((health["ledger"]["lost"], health["admission"]["running"],
               health["admission"]["openJobs"]), (0, 0, 0), "lost rows, running, open jobs")
        plane.down()
        equal(plane.left_behind(), [], "left behind")


@test
def control_what_running_commands_hold_is_seen():
    with Plane(admission__running_per_org=3) as plane:
        before = settled(plane)
        held = [plane.popen("run", "--run-id", "h%d" % i, "-c", "echo; sleep 60", stdout=subprocess.PIPE)
                for i in range(3)]
        for p in held:
            p.stdout.readline()
        grew = excess(before, take_stock(plane))
        for key in (("worker", "descriptors"), ("worker", "mounts"), "cgroup directories",
                    "processes in sandboxes", "loop devices"):
            assert key in grew, grew
        for p in held:
            p.send_signal(signal.SIGTERM)
            p.wait(30)
            p.stdout.close()


if __name__ == "__main__":
    net = setup()
    main()
