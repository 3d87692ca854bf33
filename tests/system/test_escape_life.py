#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Class c of the escape list: what outlives a command, and what ends with it.

Survivors of every kind, storms at the moment of the kill, children that hold
the output, and who dies with whom. Deaths of the daemons at labelled steps are
test_kill.py's; limits of memory, disk and output are test_quota.py's.
"""
import glob
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from cordon import CORDON, TOP, Plane, equal, eventually, main, test
from hostile import Box, cmdline, probe, rows

MARK = "cordon-linger-%d" % os.getpid()


def marked(mark=MARK):
    """Processes of the whole host with the mark in their command line, this one's helpers apart."""
    return [int(x) for x in os.listdir("/proc") if x.isdigit() and int(x) != os.getpid()
            and any(mark.encode() == part for part in cmdline(int(x)).split(b"\0"))]


def job_directories():
    """Slot directories with a process in them, or with the remains of one that ended."""
    found = []
    for top in plane.cgroups():
        for directory in glob.glob(top + "/jobs/*"):
            if not os.path.isdir(directory):
                continue
            try:
                with open(directory + "/cgroup.procs") as f:
                    if len(f.read().split()) > 1:  # a waiting sandbox has its init and no more
                        found.append(directory)
            except OSError:
                pass
    return found


def nothing_is_left(what):
    equal(marked(), [], "processes of the host after " + what)
    eventually(lambda: not job_directories(), "no busy directory of a job after " + what, 2)


# --- 28, 35 survivors

@test
def c28_control_the_probe_leaves_processes_without_a_sandbox():
    with tempfile.TemporaryDirectory() as scratch:
        done = subprocess.run([probe("linger"), MARK], cwd=scratch, stdout=subprocess.DEVNULL, timeout=30)
        left = marked()
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        equal(done.returncode, 0, "what the probe says")
        if len(left) < 6:
            raise AssertionError("the probe left only %d" % len(left))
        eventually(lambda: not marked(), "the control's processes gone")


@test
def c28_no_process_survives_its_command():
    for keep in ([], ["keep"]):
        equal(box.run("./linger", MARK, *keep).text, "left\n")
        nothing_is_left("linger " + " ".join(keep))
    sizes = box.ok("cat alive-* | wc -c")
    time.sleep(0.2)
    equal(box.ok("cat alive-* | wc -c"), sizes, "somebody writes on")


@test
def c28_shells_cannot_leave_anything_either():
    for script in ("sleep 301 & exit 0", "setsid sleep 301 & exit 0", "(setsid sleep 301 & ) ; exit 0",
                   "nohup sleep 301 >/dev/null 2>&1 & exit 0", "trap '' HUP TERM; (trap '' HUP TERM; sleep 301) & exit 0",
                   "sleep 301 & disown; exit 0", "mkfifo p; (sleep 301 < p) & exit 0; rm -f p"):
        done = box.sh("rm -f p; : ; " + script, timeout=60)
        equal(done.status, 0, script)
        equal([p for p in plane.sandboxed() if b"301" in cmdline(p)], [], script)
    nothing_is_left("shells")


@test
def c35_a_grandchild_that_holds_the_pipe_holds_nobody_up():
    for script in ("setsid sleep 302 & echo started", "(sleep 302 &) ; echo started", "sleep 302 & echo started >&2; echo started"):
        got = box.json("bash", "-c", script, timeout=60)
        equal((got["stdout"], got["termination"], got["exitCode"], got["stdoutTruncated"]), ("started\n", "exited", 0, False), script)
        if got["wallMs"] > 100000:
            raise AssertionError("it waited for the grandchild: %d ms" % got["wallMs"])
    # nor one that goes on writing
    got = box.json("bash", "-c", "(while :; do echo more; sleep 0.01; done) & echo started; exit 4", timeout=60)
    equal((got["exitCode"], got["termination"], "started\n" in got["stdout"]), (4, "exited", True))
    # the control: outside, the pipe stays open
    control = subprocess.Popen(["bash", "-c", "setsid sleep 302 & echo $!"], stdout=subprocess.PIPE)
    pid = int(control.stdout.readline())
    control.wait()
    os.set_blocking(control.stdout.fileno(), False)
    equal(control.stdout.read(1), None, "control: no end of file")
    os.kill(pid, signal.SIGKILL)
    control.stdout.close()


@test
def c28_everything_written_before_the_end_arrives():
    # the last words of a child that inherited the streams are kept, or cut by its death; the command's own never
    for _ in range(10):
        got = box.json("bash", "-c", "head -c 300000 /dev/zero | tr '\\0' a; printf end; (sleep 303 &)")
        equal((len(got["stdout"]), got["stdout"][-3:]), (300003, "end"))


@test
def c28_a_timeout_takes_the_whole_tree():
    box.ok("rm -f alive-*")
    got = box.json("bash", "-c", "./linger %s; sleep 304 & wait" % MARK, options=["--timeout", "0.5"])
    equal((got["termination"], got["signal"], got["reason"]), ("timeout", 9, None))
    nothing_is_left("a timeout")
    sizes = box.ok("cat alive-* | wc -c")
    time.sleep(0.1)
    equal(box.ok("cat alive-* | wc -c"), sizes)
    equal(box.run("sleep", "305", options=["--timeout", "0.2"]).status, 124, "status of a timeout")


# --- 29 storms

@test
def c29_a_fork_bomb_is_gone_with_its_command():
    got = box.json("./hog", "forks", options=["--timeout", "1", "--pids", "200"], timeout=90)
    equal(got["termination"], "timeout")
    equal([p for p in plane.sandboxed() if b"forks" in cmdline(p)], [])
    nothing_is_left("a fork bomb")


@test
def c29_the_number_of_processes_holds():
    done = box.run("./hog", "forks", "500", options=["--pids", "50"])
    got = int(re.match(r"got (\d+)", done.text)[1])
    if not 40 <= got < 50:
        raise AssertionError("it got %d of 50 processes" % got)
    done = box.run("./hog", "threads", "500", options=["--pids", "50"])
    if not 40 <= int(re.match(r"got (\d+)", done.text)[1]) < 50:
        raise AssertionError("threads: %s" % done.text)
    equal(box.run("./hog", "forks", "30", options=["--pids", "50"]).text, "held\n", "control")


def latencies(n):
    found = []
    for _ in range(n):
        done = plane.run("--org", "neighbour", "--", "true")
        equal(done.status, 0, "the neighbour: %r" % done)
        found.append(done.seconds)
    return statistics.median(found)


def beside(storm, is_on):
    """The neighbour's median while the storm blows, as a multiple of its quiet one; no more than 25."""
    quiet = latencies(15)
    try:
        eventually(is_on, "the storm is on")
        loud = latencies(15)
    finally:
        storm.terminate()
        storm.wait(60)
    nothing_is_left("a cancelled storm")
    if loud > quiet * 25:
        raise AssertionError("the neighbour's median went from %.1f to %.1f ms" % (quiet * 1000, loud * 1000))


@test
def c29_a_neighbour_goes_on_beside_a_fork_bomb():
    beside(box.popen("./hog", "forks", options=["--timeout", "115", "--pids", "256"],
                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL),
           lambda: len([p for p in plane.sandboxed() if b"forks" in cmdline(p)]) > 20)


@test
def c29_a_neighbour_goes_on_beside_a_memory_hog():
    beside(box.popen("sh", "-c", "while :; do tail /dev/zero; done",
                     options=["--timeout", "115", "--memory", "64M"],
                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL),
           lambda: [p for p in plane.sandboxed() if b"/dev/zero" in cmdline(p)])


@test
def c29_a_neighbour_goes_on_beside_an_output_flood():
    # Each flood ends at its cap, and the next begins at once.
    loop = "while :; do %s run --org flood -- cat /dev/zero >/dev/null 2>&1; done" % CORDON
    storm = subprocess.Popen(["sh", "-c", loop], env=dict(plane.env, CORDON_ROOT=plane.root))
    beside(storm, lambda: [p for p in plane.sandboxed() if b"/dev/zero" in cmdline(p)])


# --- 30 signals go to whom they are meant for

# kill(2) by number is right for an own child that is not reaped yet, and for oneself.
BY_NUMBER = {
    "userspace/base/fault.c": "itself",
    "userspace/supervisor/life.c": "children of cordond, reaped by nobody else",
    "userspace/supervisor/daemons.c": "a child just forked",
    "userspace/cli/probe_mount.c": "a child of the probe",
    "userspace/cli/probe_cgroup.c": "a child of the probe",
    "userspace/cli/verb_doctor.c": "a child of the probe",
}


@test
def c30_no_signal_goes_to_a_number_that_may_be_reused():
    found = set()
    for base, _, names in [*os.walk(os.path.join(TOP, "userspace")), *os.walk(os.path.join(TOP, "fuse-skills"))]:
        for name in names:
            path = os.path.join(base, name)
            if name.endswith(".c"):
                with open(path) as f:
                    if re.search(r"\b(kill|killpg|tgkill|tkill)\(", f.read()):
                        found.add(os.path.relpath(path, TOP))
    equal(sorted(found - set(BY_NUMBER)), [], "signals by number")
    if not found:
        raise AssertionError("control: nothing was searched")


@test
def c30_pid_numbers_that_come_round_again_hit_nobody():
    # inside: thousands of short children, the last of which outlives nothing
    equal(box.ok("i=0; while [ $i -lt 2000 ]; do : & i=$((i+1)); [ $((i%50)) = 0 ] && wait; done; wait; echo $i"), "2000\n")


# --- who dies with whom (CASES G03, G05, G09)

def running(number):
    return eventually(lambda: [p for p in plane.sandboxed() if b"%d" % number in cmdline(p)], "sleep %d runs" % number)


@test
def c28_when_init_dies_its_sandbox_dies_and_nothing_else():
    child = box.popen("bash", "-c", "sleep 311 & setsid sleep 311 & sleep 311", options=["--user", "init-dies"], stdout=subprocess.DEVNULL,
                      stderr=subprocess.PIPE)
    pid = eventually(lambda: (lambda found: found[0] if len(found) >= 3 else None)(running(311)), "three of them")
    with open("/proc/%d/status" % pid) as f:
        depth = [x.split() for x in f if x.startswith("NSpid")][0]
    equal(len(depth), 3, "a pid name space")
    top = os.path.dirname("/proc/%d" % pid)
    inits = [p for p in plane.sandboxed() if is_init(p) and same_namespace(p, pid)]
    equal(len(inits), 1, "its init, below " + top)
    os.kill(inits[0], signal.SIGKILL)
    equal(child.wait(20), 125)
    equal([p for p in plane.sandboxed() if b"311" in cmdline(p)], [])
    row = eventually(lambda: [r for r in rows(plane) if r["actorPrincipalId"] == "init-dies"], "its row")[0]
    equal((row["decision"], row["metadata"]["termination"]), ("allowed", "worker_error"))
    equal(box.run("true").status, 0, "the next command")


def is_init(pid):
    try:
        with open("/proc/%d/status" % pid) as f:
            return [x.split()[-1] for x in f if x.startswith("NSpid")] == ["1"]
    except OSError:
        return False


def same_namespace(a, b):
    try:
        return os.readlink("/proc/%d/ns/pid" % a) == os.readlink("/proc/%d/ns/pid" % b)
    except OSError:
        return False


@test
def g05_a_job_outlives_the_thread_that_started_it():
    found = []
    thread = threading.Thread(target=lambda: found.append(box.popen("bash", "-c", "sleep 1; echo done", stdout=subprocess.PIPE)))
    thread.start()
    thread.join()
    equal(found[0].communicate(timeout=30)[0], b"done\n")


@test
def g09_no_directory_piles_up_however_a_run_is_ended():
    def count():
        return sum(len(dirs) for top in plane.cgroups() for base, dirs, _ in os.walk(top + "/jobs") if base.endswith("/jobs"))
    equal(box.run("true").status, 0)
    settled = eventually(lambda: (lambda a: (time.sleep(0.2), a)[1] if a and a == count() else None)(count()), "a steady count")
    # A used slot is only replaced in a quiet moment: the count of a pool that is full.
    time.sleep(0.5)
    settled = max(settled, count())
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL, signal.SIGHUP) * 2:
        child = box.popen("sleep", "312", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        running(312)
        child.send_signal(number)
        child.wait(20)
        eventually(lambda: not [p for p in plane.sandboxed() if b"312" in cmdline(p)], "it is gone")
    eventually(lambda: count() <= settled, "as many directories as before: %d" % settled)


@test
def c31_a_command_cannot_hold_init_back():
    script = ("for p in 1 $$; do renice 19 $p >/dev/null 2>&1; chrt -i -p 0 $p >/dev/null 2>&1; taskset -p 1 $p >/dev/null 2>&1; "
              "ionice -c3 -p $p; done; kill -STOP 1; while :; do :; done & while :; do :; done & exit 5")
    done = box.sh(script, timeout=60)
    equal(done.status, 5)
    equal(box.run("bash", "-c", "kill -STOP 1; while :; do :; done", options=["--timeout", "0.5"], timeout=60).status, 124)


with Plane() as plane:
    box = Box(plane, "life", "linger", "hog")
    main()
