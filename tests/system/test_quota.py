#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Quotas (SPEC chapter 2): floods and hogs end with the right named cause.

Memory, processor, output and disk, each with a command that stays inside as its
control; and the measurement of a workspace, which nothing that lies in it may
fool or hang. Times are only compared with other times of the same run.
"""
import contextlib
import glob
import os
import re
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from cordon import CORDON, Later, Plane, contains, equal, eventually, main, memory_bound, test
from hostile import Box, cmdline, probe

MIB = 1 << 20
EFBIG, ENOSPC = 27, 28


def cause(got):
    return got["termination"], got["exitCode"], got["signal"], got["oomKilled"], got["reason"]


ENDED_WELL = ("exited", 0, None, False, None)


def rss_peak(pid):
    """Bytes; 0 of one that has exited and not been waited for."""
    with open("/proc/%d/status" % pid) as f:
        return next((int(x.split()[1]) << 10 for x in f if x.startswith("VmHWM")), 0)


# --- Before the first instruction

LIMIT_FILES = ("memory.max", "memory.limit_in_bytes", "pids.max", "cpu.max", "cpu.cfs_quota_us")


def slots(own):
    """{slot: ({values of its limits}, {programs in it})} over every hierarchy this host has."""
    found = {}
    for top in own.cgroups():
        for slot in glob.glob(top + "/jobs/*/"):
            values, programs = found.setdefault(os.path.basename(slot[:-1]), (set(), set()))
            for name in LIMIT_FILES:
                with contextlib.suppress(OSError), open(slot + name) as f:
                    values.add(f.read().split()[0])
            with contextlib.suppress(OSError), open(slot + "cgroup.procs") as f:
                programs |= {cmdline(int(pid)).split(b"\0")[0] for pid in f.read().split()}
    return found


@test
def limits_are_in_force_before_the_first_instruction():
    """Stopped before its limits are written, and just after: a command that has not begun is not in its slot."""
    ask = ("--memory", "77M", "--pids", "23", "--cpus", "0.7")
    limits = {str(77 * MIB), "24", "70000"}  # pid 1 is the slot's own; of 100 ms

    def limited(own):
        return [programs for values, programs in slots(own).values() if values == limits]

    # The first one is the handshake's.
    for step, wanted in (("run.begin", 0), ("run.limited", 1)):
        with Plane(fault="cordon-worker/%s:delay=600000:after=2" % step) as own:
            going = Later(own.sh, "exec sleep 600", *ask)
            eventually(lambda: "step=" + step in own.log, step)
            there = limited(own)
            equal(len(there), wanted, "slots with these limits at " + step)
            equal([x for x in there if b"sleep" in x], [], "the command at " + step)
            own.kill("worker")
            equal(going.answer().status, 125, "a command whose worker died")
    with Plane() as own:
        going = Later(own.sh, "exec sleep 600", *ask)
        eventually(lambda: any(b"sleep" in x for x in limited(own)), "control: the command with its limits")
        own.kill("worker")
        going.answer()


# --- Memory

@test
def memory_hogs_die_of_memory():
    for how, much in (("anon", 300), ("shm", 300), ("memfd", 200), ("tables", 200)):
        got = box.json("./hog", how, str(much), options=["--memory", "48M"], timeout=90)
        equal((how, *cause(got)), (how, "exited", None, 9, True, None))
    equal(box.run("./hog", "anon", "300", options=["--memory", "48M"]).status, 137)


@test
def memory_inside_the_limit_is_given():
    for how, much in (("anon", 30), ("shm", 20), ("memfd", 20), ("tables", 8)):
        got = box.json("./hog", how, str(much), options=["--memory", "64M"])
        equal((how, got["stdout"], *cause(got)), (how, "held\n", *ENDED_WELL))


@test
def memory_in_pipes_and_in_tmp_counts():
    got = box.json("./hog", "pipes", "400", options=["--memory", "32M"], timeout=90)
    if not (got["oomKilled"] or got["stdout"].startswith("errno") or got["stdout"] == "held\n"):
        raise AssertionError("pipes: %r" % (cause(got),))
    for place in ("/tmp", "/dev/shm"):
        got = box.json("bash", "-c", "cat /dev/zero > %s/fill" % place, options=["--memory", "32M"], timeout=90)
        # cgroup v1 kills one process: the shell may then say 137 by itself
        equal((place, got["oomKilled"], got["signal"] == 9 or got["exitCode"] == 137), (place, True, True))


@test
def tmp_and_shm_are_full_before_memory_is():
    for place, size in (("/tmp", 128), ("/dev/shm", 64)):
        got = box.json("bash", "-c", "cat /dev/zero > %s/fill; s=$?; stat -c %%s %s/fill; exit $s" % (place, place))
        contains(got["stderr"], "No space left on device", place)
        equal((int(got["stdout"]) // MIB, got["oomKilled"], got["termination"]), (size, False, "exited"), place)
        got = box.json("bash", "-c", "i=0; while : > %s/n$i; do i=$((i+1)); done 2>/dev/null; echo $i" % place, options=["--timeout", "60"])
        if not 1000 < int(got["stdout"]) < 40000:
            raise AssertionError("%s takes %s files" % (place, got["stdout"].strip()))


@test
def a_limit_of_one_command_does_not_stay_for_the_next():
    equal(box.json("./hog", "anon", "200", options=["--memory", "48M"])["oomKilled"], True)
    equal(cause(box.json("./hog", "anon", "200")), ENDED_WELL)


@test
def pools_of_the_whole_host_are_not_there_to_drain():
    def aio():
        with open("/proc/sys/fs/aio-nr") as f:
            return int(f.read())

    def tcp():
        with open("/proc/net/sockstat") as f:
            return [int(x.split()[-1]) * 4096 for x in f if x.startswith("TCP:")][0]
    base = tcp()  # other tests of the same run use the pool too, a little
    control = subprocess.Popen(["unshare", "-n", "sh", "-c", "ip link set lo up && exec " + probe("hog") + " tcp 150 3"], stdout=subprocess.PIPE)
    equal(control.stdout.readline(), b"held\n")
    if tcp() - base < 100 * MIB:
        raise AssertionError("control: 150 MiB of unread TCP are not counted")
    control.kill()
    control.wait()
    eventually(lambda: tcp() - base < 30 * MIB, "the control's bytes are gone")
    before, most, child = aio(), 0, box.popen("bash", "-c", "./hog aio 50000 2; ./hog tcp 600 2", options=["--memory", "64M", "--timeout", "20"],
                                              stdout=subprocess.DEVNULL)
    while child.poll() is None:
        if aio() > before + 10000:
            child.terminate()
            child.wait()
            raise AssertionError("a sandbox took %d of the host's AIO events" % (aio() - before))
        most = max(most, tcp())
        time.sleep(0.02)
    if most - base > 160 * MIB:
        raise AssertionError("64 MiB of memory held %d MiB of the host's TCP pool" % ((most - base) // MIB))


@test
def memory_death_is_told_whoever_the_kernel_picks():
    # A command that thinks little of itself makes init the likelier victim.
    got = box.json("bash", "-c", "echo 0 > /proc/self/oom_score_adj; for i in 1 2 3 4 5 6 7 8; do ./hog anon 8 5 & done; wait",
                   options=["--memory", "48M"], timeout=60)
    equal((got["oomKilled"], got["termination"], got["reason"], got["decision"]), (True, "exited", None, "allowed"))
    with open("/proc/%d/oom_score_adj" % plane.pid("worker")) as f:
        least = int(f.read())
    for wish in (-1000, -1, least):
        score = int(box.sh("echo %d > /proc/self/oom_score_adj; cat /proc/self/oom_score_adj" % wish).text)
        if score < least:
            raise AssertionError("a command's score is %d, the worker's %d" % (score, least))


@test
def two_jobs_near_their_limits_do_not_kill_each_other():
    jobs = []
    for n in range(2):
        other = Box(plane, "pair-%d" % n, "hog")
        jobs.append(other.popen("bash", "-c", "./hog anon 56 && sleep 0.5 && ./hog anon 56", options=["--memory", "64M"], stdout=subprocess.PIPE))
    for job in jobs:
        equal(job.communicate(timeout=60)[0], b"held\nheld\n")
        equal(job.returncode, 0)


# --- Processor and time

@test
def the_processor_is_shared_out():
    script = "end=$((SECONDS+2)); while [ $SECONDS -lt $end ]; do :; done; read -r line < /proc/$$/stat; echo $line"

    def used(*options):
        started = time.monotonic()
        words = box.ok(script, *options).rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK") / (time.monotonic() - started)
    little = used("--cpus", "0.1")
    if little > 0.25:
        raise AssertionError("a tenth of a processor was %.2f" % little)
    eventually(lambda: used("--cpus", "1") > 2 * little, "control: a whole one is more", 15)


@test
def the_wall_clock_ends_what_does_not_end():
    for script in ("sleep 100", "kill -STOP $$; echo never", "trap '' TERM INT HUP; while :; do :; done", "exec sleep 100 <&- >&- 2>&-"):
        got = box.json("bash", "-c", script, options=["--timeout", "0.4"], timeout=60)
        equal((got["termination"], got["exitCode"], got["signal"], got["reason"], got["decision"]), ("timeout", None, 9, None, "allowed"), script)
        if got["wallMs"] < 400:
            raise AssertionError("ended after %d ms of 400" % got["wallMs"])
    equal(box.run("true", options=["--timeout", "0.4"]).status, 0, "control")


# --- Output

@test
def output_up_to_the_cap_is_whole_and_one_more_byte_is_not():
    for stream, other, to in (("stdout", "stderr", ""), ("stderr", "stdout", ">&2")):
        got = box.json("bash", "-c", "head -c %d /dev/zero | tr '\\0' x %s" % (MIB, to))
        equal((len(got[stream]), got[stream + "Truncated"], *cause(got)), (MIB, False, *ENDED_WELL), stream)
        got = box.json("bash", "-c", "head -c %d /dev/zero | tr '\\0' x %s; sleep 20" % (MIB + 1, to))
        equal((len(got[stream]), got[stream + "Truncated"], got[other + "Truncated"], got["termination"]),
              (MIB, True, False, "output_cap_exceeded"), stream)
    done = box.sh("head -c %d /dev/zero" % (2 * MIB))
    equal((done.status, len(done.out)), (125, MIB))
    contains(done.error, "cordon: output_cap_exceeded")


@test
def output_is_cut_on_a_character():
    for lead in range(4):
        for char, width in (("ü", 2), ("€", 3), ("😀", 4)):
            got = box.json("bash", "-c", "printf %%.%ds aaaa; yes %s | tr -d '\\n'" % (lead, char), options=["--output-cap", "1000"])
            text = got["stdout"]
            equal(text, "a" * lead + char * ((1000 - lead) // width), "%d %s" % (lead, char))
            equal(got["stdoutTruncated"], True)


@test
def floods_end_and_nobody_swells():
    broker, worker = plane.pid("broker"), plane.pid("worker")
    before = rss_peak(broker), rss_peak(worker)
    for argv in (["./hog", "flood", str(10 << 30)], ["./hog", "line", str(10 << 30)], ["cat", "/dev/urandom"],
                 ["bash", "-c", "while :; do printf '\\033[2J\\377\\0'; done"], ["bash", "-c", "cat /dev/zero & cat /dev/urandom >&2"]):
        got = box.json(*argv, timeout=100)
        equal((got["termination"], got["stdoutTruncated"] or got["stderrTruncated"]), ("output_cap_exceeded", True), argv)
    # 64 MiB to a reader that is slow: the command waits, the broker does not fill up
    child = subprocess.Popen([CORDON, "run", *box.arguments(["./hog", "flood", str(10 << 30)], ["--output-cap", "64M"])],
                             env=dict(plane.env, CORDON_ROOT=plane.root), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    total = client = 0
    while True:
        part = os.read(child.stdout.fileno(), 1 << 20)
        if not part:
            break
        total += len(part)
        client = max(client, rss_peak(child.pid))
        if total < MIB:
            time.sleep(0.05)
    equal((child.wait(20), total), (125, 64 * MIB))
    assert client, "the client was seen"
    if client > memory_bound(16 << 10) << 10:
        raise AssertionError("the client grew to %d KiB" % (client >> 10))
    after = rss_peak(broker), rss_peak(worker)
    for who, a, b in zip(("broker", "worker"), before, after):
        if b - a > memory_bound(12 << 10) << 10:
            raise AssertionError("the %s grew from %d to %d KiB" % (who, a >> 10, b >> 10))
    equal(plane.pid("broker"), broker, "the broker is the same")


# --- Disk

def sized(run_id, size="16M"):
    return Box(plane, run_id, "disk", options=["--workspace-size", size])


def refused_at(got):
    match = re.match(r"errno (\d+) at (\d+)", got.get("stdout") or "")
    return (int(match[1]), int(match[2])) if match else None


@test
def disk_floods_stop_while_the_command_runs():
    got = sized("many").json("./disk", "files", "200", "1024")
    code, files = refused_at(got)
    equal(code, ENOSPC)
    if not 12 <= files <= 26:
        raise AssertionError("%d MiB fitted into 16" % files)
    # "otherwise exited normally": the probe ends 3, and is over its quota
    equal((got["termination"], got["decision"]), ("disk_quota_exceeded", "allowed"))
    done = sized("many-2").run("./disk", "files", "200", "1024")
    equal(done.status, 125)
    contains(done.error, "cordon: disk_quota_exceeded")


@test
def one_file_is_stopped_by_its_size():
    one = sized("one")
    equal(refused_at(one.json("./disk", "write", "f", "100"))[0] in (EFBIG, ENOSPC), True)
    two = sized("two")
    equal(refused_at(two.json("./disk", "sparse", "f", "1000000")), (EFBIG, 0), "one sparse file of a terabyte")
    equal(refused_at(two.json("./disk", "sparse", "f", "17"))[0], EFBIG)
    got = two.json("./disk", "sparse", "g", "15")
    equal((got["stdout"], *cause(got)), ("held\n", *ENDED_WELL), "control: a sparse file inside")
    if got["workspaceKb"] > 4096:
        raise AssertionError("holes were counted: %d KiB" % got["workspaceKb"])
    # a program that does not know gets the signal, as on a host
    equal(two.json("bash", "-c", "cat /dev/zero > big")["exitCode"], 153)
    contains(two.run("cat", "/proc/self/limits").text.replace(" ", ""), "Maxfilesize%d%dbytes" % (16 * MIB, 16 * MIB))


@test
def reserved_space_does_not_pass_by():
    keep = sized("keep")
    equal(refused_at(keep.json("./disk", "keep", "f", "1000"))[0] in (ENOSPC, EFBIG), True)
    got = keep.json("bash", "-c", "for i in 1 2 3 4 5 6 7 8; do ./disk keep f$i 10; done; df -k /workspace | tail -1")
    used = int(got["stdout"].splitlines()[-1].split()[-4])
    if used > 28 << 10:
        raise AssertionError("%d KiB were reserved" % used)
    equal(sized("keep-2").json("./disk", "keep", "f", "4")["stdout"], "held\n", "control")


@test
def deleted_files_are_freed_at_the_end():
    gone = sized("gone")
    got = gone.json("bash", "-c", "./disk deleted 12 & ./disk deleted 12 & ./disk deleted 12 & wait")
    contains(got["stdout"], "errno %d" % ENOSPC)
    equal(got["termination"], "exited", "what is gone when it ends is not over the quota")
    if got["workspaceKb"] > 8 << 10:
        raise AssertionError("%d KiB are still counted" % got["workspaceKb"])
    equal(gone.json("./disk", "write", "f", "10")["stdout"], "held\n", "the space is there again")


@test
def inodes_are_bounded():
    got = sized("inodes").json("./disk", "inodes", "100000")
    code, n = refused_at(got)
    equal(code, ENOSPC)
    if n > 20000:
        raise AssertionError("%d files in 16 MiB" % n)
    equal(got["termination"], "disk_quota_exceeded")
    got = sized("inodes-2").json("./disk", "inodes", "500")
    equal((got["stdout"], *cause(got)), ("held\n", *ENDED_WELL), "control")


@test
def punched_holes_give_nothing_away():
    got = sized("punch").json("./disk", "punch", "f", "10")
    equal((got["stdout"], *cause(got)), ("held\n", *ENDED_WELL))


@test
def a_job_over_its_disk_quota_is_over():
    done = plane.cordon("session", "seal", "--org", "local", "--user", "root", "--surface", "chat", "--run-id", "over")
    job = plane.open_job(done.text.strip())
    put = plane.cordon("job", "exec", job, "--workspace-size", "16M", "--stdin", probe("disk"), "-c", "cat > disk; chmod +x disk")
    equal(put.status, 0, "%r" % put)
    equal(plane.cordon("job", "exec", job, "--", "./disk", "files", "2", "1024").status, 0, "control")
    equal(plane.cordon("job", "exec", job, "--", "./disk", "files", "100", "1024").status, 125)
    done = plane.cordon("job", "exec", job, "--", "true")
    equal(done.status, 125)
    contains(done.error, "cordon: job_terminated")


@test
def a_workspace_without_a_run_is_bounded_as_well():
    for argv, codes in (("files 200 1024", (ENOSPC,)), ("inodes 100000", (ENOSPC,)), ("keep f 1000", (ENOSPC, EFBIG)), ("write f 100", (EFBIG, ENOSPC)),
                        ("deleted 100", (EFBIG, ENOSPC))):
        done = plane.run("--json", "--workspace-size", "16M", "--stdin", probe("disk"), "-c", "cat > p; chmod +x p; ./p " + argv)
        got = done.json
        if not refused_at(got) or refused_at(got)[0] not in codes:
            raise AssertionError("%s: %r" % (argv, got["stdout"]))
        if argv.startswith(("files", "inodes")):
            equal(got["termination"], "disk_quota_exceeded", argv)
    got = plane.run("--json", "--workspace-size", "16M", "--stdin", probe("disk"), "-c", "cat > p; chmod +x p; ./p files 8 1024").json
    equal((got["stdout"], *cause(got)), ("held\n", *ENDED_WELL), "control")


@test
def a_neighbour_goes_on_beside_a_disk_flood():
    def median(n):
        return statistics.median(plane.run("--org", "neighbour", "--", "true").seconds for _ in range(n))
    flood = Box(plane, "flood", "disk", options=["--workspace-size", "256M"])
    quiet = median(15)
    child = flood.popen("bash", "-c", "while :; do ./disk files 200 1024; rm -f n*; ./disk inodes 20000; rm -f n*; done",
                        options=["--timeout", "60"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        eventually(lambda: [p for p in plane.sandboxed() if b"files" in cmdline(p)], "the flood")
        loud = median(15)
    finally:
        child.terminate()
        child.wait(60)
    if loud > quiet * 25:
        raise AssertionError("the neighbour's median went from %.1f to %.1f ms" % (quiet * 1000, loud * 1000))


# --- The measurer

@test
def the_measurer_counts_what_is_there_and_is_not_fooled():
    plain = sized("measure-plain")
    base = plain.json("true")["workspaceKb"]
    grown = plain.json("./disk", "write", "f", "8")["workspaceKb"] - base
    if not 8000 <= grown <= 9000:
        raise AssertionError("8 MiB measured as %d KiB" % grown)
    for how, least, most in ((["hardlinks", "300"], 8000, 9500), (["fifos", "300"], 0, 400), (["symlinks"], 0, 300),
                             (["deep", "400"], 1000, 5000)):
        fresh = sized("measure-" + how[0])
        before = fresh.json("true")["workspaceKb"]
        got = fresh.json("./disk", *how)
        equal((got["stdout"], *cause(got)), ("held\n", *ENDED_WELL), how)
        grown = got["workspaceKb"] - before
        if not least <= grown <= most:
            raise AssertionError("%s measured as %d KiB" % (how, grown))
        equal(fresh.json("true")["workspaceKb"], got["workspaceKb"], "the next command measures the same")


@test
def closed_directories_are_measured():
    shut = sized("shut")
    before = shut.json("true")["workspaceKb"]
    got = shut.json("./disk", "closed")
    if not 4000 <= got["workspaceKb"] - before <= 5000:
        raise AssertionError("4 MiB behind mode 000 measured as %d KiB" % (got["workspaceKb"] - before))
    # /workspace itself is mode 000 now: the next command opens it again, or says why not
    done = shut.sh("chmod 755 /workspace; echo $?")
    if done.status not in (0, 125):
        raise AssertionError("%r" % done)


@test
def directories_that_swap_while_it_measures_do_not_hang_it():
    swap = sized("swap")
    for _ in range(3):
        got = swap.json("bash", "-c", "rm -rf one two link; ./disk swap 60000 & sleep 0.3; exit 0", timeout=60)
        equal(cause(got), ENDED_WELL)


@test
def a_workspace_full_of_traps_can_be_removed():
    traps = sized("traps")
    victim = plane.path("victim")
    os.mkdir(victim)
    open(os.path.join(victim, "kept"), "w").close()
    traps.ok("ln -s %s out; ln -s ../../../../../../../../..%s over; mkfifo fifo; ln -s gone nowhere; ./disk deep 300 > /dev/null; chmod 000 fifo; "
             "mkdir shut; touch shut/x; chmod 000 shut; ./disk symlinks >/dev/null" % (victim, victim))
    listed = [w for w in plane.cordon("workspace", "list", "--json").json["workspaces"] if "traps" in str(w)]
    equal(len(listed), 1, "the workspace is listed")
    done = plane.cordon("workspace", "rm", listed[0]["key"], timeout=60)
    equal(done.status, 0, "%r" % done)
    equal(os.listdir(victim), ["kept"])
    equal([w for w in plane.cordon("workspace", "list", "--json").json["workspaces"] if "traps" in str(w)], [])


# --- Limits that cannot be

@test
def impossible_limits_are_refused_by_name():
    for option in ("--memory", "--workspace-size", "--output-cap", "--pids", "--cpus", "--timeout"):
        for value in ("0", "-1", "18446744073709551616", "99999999999999999999G", "1.5.2", "", "soft", "unlimited", "0x10", "1e9", " 5", "5 ", "NaN"):
            done = plane.run(option + "=" + value, "--", "true")
            if done.status != 125:
                raise AssertionError("%s=%r gave %d" % (option, value, done.status))
            if not re.match(r"cordon: (invalid_request|limit_above_maximum): ", done.error):
                raise AssertionError("%s=%r: %r" % (option, value, done.error))
    for option, value in (("--memory", "9G"), ("--workspace-size", "17G"), ("--output-cap", "65M"), ("--pids", "4097"), ("--cpus", "8.5"),
                          ("--timeout", "3601")):
        done = plane.run(option, value, "--", "true")
        equal(done.status, 125, option)
        contains(done.error, "cordon: limit_above_maximum: ", option)


@test
def limits_are_what_was_asked():
    done = plane.run("--json", "--memory", "100M", "--pids", "33", "--cpus", "0.5", "--timeout", "7.5", "--output-cap", "4K", "--workspace-size", "4G",
                     "--", "cat", "/proc/self/limits").json
    equal(done["limits"], {"timeoutMs": 7500, "memoryBytes": 100 * MIB, "cpuMilli": 500, "pids": 33, "workspaceBytes": 4 << 30, "outputBytes": 4096})
    contains(done["stdout"].replace(" ", ""), "Maxfilesize%d%dbytes" % (4 << 30, 4 << 30), "a limit of 4 GiB is 4 GiB")
    equal(plane.run("--workspace-size", "4G", "-c", "echo tiny > t; cat t").text, "tiny\n")


with Plane() as plane:
    box = Box(plane, "quota", "hog")
    main()
