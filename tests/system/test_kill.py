#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# cordon-test: timeout=900
"""kill -9 of every program of the plane at every labelled step (B9, B10).

Two things must hold each time: every sandboxed process is gone at once, and
after the next start and an orderly stop nothing that carries the instance's
name is left. The steps are those of tests/lib/fault_steps.py; test_faults.py
holds that table against the fault points in the source.
"""
import ctypes
import glob
import json
import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cordon import Plane, contains, equal, eventually, main, test  # noqa: E402
from fault_steps import KILLED  # noqa: E402

MARK = "86399.%d" % os.getpid()  # an argument no other process of the host has
WALL = 0x40000000  # __WALL of wait(2)
BUSY = "sleep %s & setsid sleep %s & sleep %s" % (MARK, MARK, MARK)

def marked(program=None):
    """Processes of the host with the mark among their arguments; only those that are @program by now."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as f:
                words = f.read().split(b"\0")
            if MARK.encode() in words and program in (None, words[0]):
                found.append(path)
        except OSError:
            pass
    return found


def busy(plane, *options):
    """A command that holds several processes, and the CLI that waits for it."""
    p = plane.popen("run", "--run-id", "kill", *options, "-c", BUSY,
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    eventually(lambda: len(marked(b"sleep")) >= 3, "the command's processes, each past its last exec")
    return p


def nothing_alive():
    eventually(lambda: not marked(), "every sandboxed process gone", seconds=5)


def starts_clean(plane):
    """The next start works, and an orderly stop leaves nothing."""
    plane.configure(fault="")
    if not os.path.exists(plane.path("run/cordon/cordond.pid")) or plane.cordon("health").status:
        plane.down(check=False)
        plane.up()
    plane.wait_ready()
    equal(plane.sh("echo fine").out, b"fine\n", "a command after the kill")
    plane.down()
    equal(plane.left_behind(), [], "left behind")


@test
def control_the_marked_processes_are_seen():
    with Plane() as plane:
        p = busy(plane)
        equal(len(marked(b"sleep")), 3, "marked processes")
        p.send_signal(signal.SIGTERM)
        equal(p.wait(20), 130, "cancelled")
        nothing_alive()
        plane.down()
        equal(plane.left_behind(), [])


def kill_daemon(name):
    with Plane() as plane:
        p = busy(plane)
        plane.kill(name)
        nothing_alive()
        p.wait(30)
        starts_clean(plane)


@test
def killed_worker_takes_every_sandbox_along():
    kill_daemon("worker")


@test
def killed_broker_takes_every_sandbox_along():
    kill_daemon("broker")


@test
def killed_ledger_leaves_a_plane_that_works():
    with Plane() as plane:
        p = busy(plane)
        plane.kill("ledger")
        plane.wait_ready()
        p.send_signal(signal.SIGTERM)
        p.wait(30)
        nothing_alive()
        starts_clean(plane)


@test
def killed_gateway_and_skills_leave_a_plane_that_works():
    with Plane() as plane:
        p = busy(plane)
        for name in ("gateway", "skills"):
            plane.kill(name)
            plane.wait_ready()
            equal(len(marked()) >= 3, True, "the running command goes on without " + name)
        p.send_signal(signal.SIGTERM)
        p.wait(30)
        nothing_alive()
        starts_clean(plane)


@test
def killed_cordond_takes_everything_along():
    kill_daemon("cordond")


@test
def killed_launcher_ends_its_command_alone():
    with Plane() as plane:
        other = plane.popen("run", "-c", "sleep 2; echo other", stdout=subprocess.PIPE)
        p = busy(plane)
        # pid 1 of the slot is the parent of the marked shell's processes.
        inits = [pid for pid in plane.sandboxed() if is_launcher(pid)]
        children = {int(re.search(r"PPid:\t(\d+)", open(os.path.join(os.path.dirname(m),
                    "status")).read()).group(1)) for m in marked()}
        grandparents = {_parent(c) for c in children}
        ours = [pid for pid in inits if pid in children | grandparents]
        equal(len(ours), 1, "the launcher of the marked command")
        os.kill(ours[0], signal.SIGKILL)
        nothing_alive()
        equal(p.wait(30), 125, "the command whose launcher was killed")
        equal(other.communicate(timeout=30)[0], b"other\n", "the other command")
        starts_clean(plane)


# --- The word that a command began is lost (A3, A6): it may have run, so it was allowed

def unknown_outcome(plane, user):
    """The one row of @user, which must say so."""
    def found():
        asked = plane.api("GET", "/v1/audit?org=local&limit=1000")[1].get("rows", [])
        return [r for r in asked if r["actorPrincipalId"] == user]
    rows = eventually(found, "its row")
    said = [(r["decision"], r["metadata"]["termination"], r["metadata"]["reason"]) for r in rows]
    equal(said, [("allowed", "worker_error", "outcome_unknown")])


def answer_of(client):
    """(decision, termination, reason) of a client with --json."""
    equal(client.wait(60), 125)
    said = json.loads(client.stdout.read())
    client.stdout.close()
    return said["decision"], said["termination"], said["reason"]


class Traced:
    """@pids, stopped by ptrace when a child of theirs has exec'ed and before they know."""
    SEIZE, TRACE_VFORK_DONE, VFORK_DONE = 0x4206, 0x20, 5

    def __init__(self, pids):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        self.pids = pids
        for pid in pids:
            equal(self.libc.ptrace(self.SEIZE, pid, 0, self.TRACE_VFORK_DONE), 0, "seize %d" % pid)

    def stopped(self):
        """The first of them that stops there, or None."""
        for pid in self.pids:
            got, status = os.waitpid(pid, os.WNOHANG | WALL)
            if got and os.WIFSTOPPED(status) and status >> 16 == self.VFORK_DONE:
                return got
        return None


def untold(end):
    """A command runs whose launcher never gets to say so; @end does something with the launcher."""
    with Plane(up=False) as plane:
        plane.configure(pool=1)
        plane.up()
        equal(plane.sh("true").status, 0)
        inits = eventually(lambda: [p for p in plane.sandboxed() if is_launcher(p)], "a warm slot")
        traced = Traced(inits)
        p = plane.popen("run", "--user", "untold", "--json", "-c", BUSY, stdout=subprocess.PIPE)
        stopped = eventually(traced.stopped, "a launcher between the exec and its word")
        eventually(lambda: len(marked()) >= 3, "the command runs, and nobody says so")
        end(stopped)
        os.waitpid(stopped, WALL)  # its parent hears of it after its tracer
        nothing_alive()
        equal(answer_of(p), ("allowed", "worker_error", "outcome_unknown"))
        unknown_outcome(plane, "untold")
        starts_clean(plane)


@test
def a_launcher_killed_before_it_told_leaves_an_unknown_outcome():
    untold(lambda pid: os.kill(pid, signal.SIGKILL))


@test
def a_launcher_stopped_before_it_told_leaves_an_unknown_outcome():
    untold(lambda pid: None)  # the worker's patience ends it


@test
def a_worker_killed_before_it_told_leaves_an_unknown_outcome():
    with Plane(up=False) as plane:
        # A probe begins first.
        plane.configure(fault="started.before:kill:after=2", pool=1)
        plane.up()
        for i in range(4):
            p = plane.popen("run", "--user", "lost-%d" % i, "--json", "-c", "true", stdout=subprocess.PIPE)
            if p.wait(60) == 125:
                break
            p.stdout.close()
        equal(answer_of(p), ("allowed", "worker_error", "outcome_unknown"))
        plane.wait_ready()
        unknown_outcome(plane, "lost-%d" % i)
        plane.down(check=False)
        starts_clean(plane)


def is_launcher(pid):
    try:
        return "launcher" in os.readlink("/proc/%d/exe" % pid)
    except OSError:
        return False


def _parent(pid):
    try:
        with open("/proc/%d/status" % pid) as f:
            return int(re.search(r"PPid:\t(\d+)", f.read()).group(1))
    except OSError:
        return 0


def kill_at(daemon, step):
    with Plane(up=False) as plane:
        # cordond passes its steps once in a life; the others serve the pool and a probe first.
        after = 1 if daemon == "cordond" or step in ("egress.open", "guard.open") else 3
        plane.configure(fault="%s:kill:after=%d" % (step, after), pool=2)
        up = plane.up(check=False)
        for turn in range(4 if up.status == 0 and step != "cordond.down" else 0):
            plane.popen("run", "--run-id", "k%d" % turn, "--command-id", "c", "--timeout", "20",
                        "-c", "sleep %s & true" % MARK, stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL).wait(60)
        if daemon == "cordond":
            died = up.status != 0 or plane.down(check=False).status != 0
            equal(died, True, "the death at %s: %s" % (step, plane.log[-1500:]))
        else:
            eventually(lambda: "died daemon=%s" % daemon in plane.log,
                       "the death at %s shows in the log" % step)
        nothing_alive()
        plane.down(check=False)
        starts_clean(plane)


for _daemon, _steps in KILLED.items():
    for _step in _steps:
        def _run(daemon=_daemon, step=_step):
            kill_at(daemon, step)
        _run.__name__ = "killed_%s_at_%s" % (_daemon, _step.replace(".", "_"))
        test(_run)


if __name__ == "__main__":
    main()
