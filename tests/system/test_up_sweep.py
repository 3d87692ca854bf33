#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A start sweeps what carries the instance's name and has no owner, and nothing else (B10)."""
import contextlib
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cordon import Plane, Skip, announce, equal, eventually, main, run, test  # noqa: E402


def mounts(kind):
    """(mount point, options) of every cgroup hierarchy of a kind."""
    with open("/proc/self/mountinfo") as f:
        for line in f:
            left, _, right = line.partition(" - ")
            if right.split()[0] == kind:
                yield left.split()[4]


def make_cgroup(top, *parts):
    path = os.path.join(top, *parts)
    os.makedirs(path, exist_ok=True)
    return path


def sleeper(*cgroups):
    """A process that ignores everything it can, in the given directories."""
    p = subprocess.Popen(["sh", "-c", "trap '' TERM INT HUP; while :; do sleep 1000; done"],
                         start_new_session=True)
    for path in cgroups:
        with open(os.path.join(path, "cgroup.procs"), "w") as f:
            f.write(str(p.pid))
    return p


@contextlib.contextmanager
def ended(*processes):
    try:
        yield
    finally:
        for p in processes:
            with contextlib.suppress(OSError):
                os.killpg(p.pid, signal.SIGKILL)
            p.wait()


@contextlib.contextmanager
def removed(*cgroups):
    try:
        yield
    finally:
        for top in cgroups:
            for base, _, _ in os.walk(top, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(base)


@test
def cgroups_and_what_lives_in_them_go_in_every_hierarchy():
    with Plane(up=False) as p:
        ours, decoys = [], []
        decoy = "cordon-decoy%d" % os.getpid()
        announce(p.root + "-decoy", decoy)
        for top in list(mounts("cgroup2")) + [m for m in mounts("cgroup")
                                              if m.rsplit("/", 1)[1] in ("memory", "cpu", "pids")]:
            ours.append(make_cgroup(top, p.name, "jobs", "slot-1", "deeper"))
            decoys.append(make_cgroup(top, decoy, "jobs", "slot-1"))
        mine, other = sleeper(*ours), sleeper(*decoys)
        with ended(mine, other), removed(*[x.split("/jobs")[0] for x in decoys]):
            p.up()
            equal(mine.wait(5), -signal.SIGKILL)
            equal([x for x in ours if os.path.exists(x)], [])
            equal([x for x in decoys if not os.path.exists(x)], [])
            equal(other.poll(), None, "the decoy lives")
            os.killpg(other.pid, signal.SIGKILL)
            other.wait()
            time.sleep(0.05)


@test
def mounts_of_its_name_or_place_go_and_others_stay():
    with Plane(up=False) as p:
        places = {"run/cordon/left over": "anything", "elsewhere": p.name + "-workspace",
                  "theirs": "cordon-ffffffff", "var/lib/cordon/images": "an-operators-disk"}
        for place, source in places.items():
            os.makedirs(p.path(place), exist_ok=True)
            equal(run(["mount", "-t", "tmpfs", source, p.path(place)]).status, 0)
        try:
            p.up()
            equal([x for x in places if os.path.ismount(p.path(x))],
                  ["theirs", "var/lib/cordon/images"])
            equal(p.run("--", "true").status, 0)
            p.down()
            equal([x for x in places if os.path.ismount(p.path(x))],
                  ["theirs", "var/lib/cordon/images"])
        finally:
            for place in places:
                run(["umount", "-l", p.path(place)])


@test
def loop_devices_over_its_state_go_and_others_stay():
    with Plane(up=False) as p:
        files = {}
        for place in ("var/lib/cordon/workspaces/left.ext4", "theirs"):
            os.makedirs(os.path.dirname(p.path(place)), exist_ok=True)
            with open(p.path(place), "wb") as f:
                f.truncate(1 << 20)
            done = run(["losetup", "--find", "--show", p.path(place)])
            if done.status:
                raise Skip("no loop devices: %s" % done.error.strip())
            files[place] = done.text.strip()
        try:
            p.up()

            def attached():
                return [x for x, device in files.items()
                        if os.path.exists("/sys/block/%s/loop" % device.rsplit("/", 1)[1]) and
                        p.root in open("/sys/block/%s/loop/backing_file" %
                                       device.rsplit("/", 1)[1]).read()]
            eventually(lambda: attached() == ["theirs"], "only the other's loop device", 5)
        finally:
            for device in files.values():
                run(["losetup", "--detach", device])


@test
def stale_sockets_and_a_stale_pid_do_not_matter():
    with Plane(up=False) as p:
        os.makedirs(p.path("run/cordon"))
        for name in ("broker.sock", "cordond.sock", "cordond.pid"):
            with open(p.path("run/cordon", name), "w") as f:
                f.write("1\n")
        p.up()
        equal(p.run("--", "true").status, 0)
        assert p.pid("cordond") > 1


@test
def two_instances_of_one_host_never_sweep_each_other():
    with Plane() as a:
        job = a.popen("run", "-c", "echo up; sleep 5; echo done", stdout=subprocess.PIPE)
        equal(job.stdout.readline(), b"up\n")
        for _ in range(2):
            with Plane() as b:
                equal(b.run("--", "true").status, 0)
                b.kill("cordond")
                b.up()
        equal((job.stdout.read(), job.wait(20)), (b"done\n", 0))
        job.stdout.close()


if __name__ == "__main__":
    main()
