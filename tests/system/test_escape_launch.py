#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Class a of the escape list: descriptors, binaries, procfs and mounts.

What a hostile image, command or caller does to the way a sandbox is made. Each
test has its control beside it: the same thing outside, or the same command on a
plain image.
"""
import contextlib
import errno
import hashlib
import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import images
from cordon import BIN, CORDON, STORE, Plane, contains, equal, eventually, main, run, test
from hostile import Box, cmdline, headers, last_row, outside, probe, put, rows

NUMBERS = headers()
EACCES, ENOENT, EPERM, EROFS, ETXTBSY = (errno.EACCES, errno.ENOENT, errno.EPERM, errno.EROFS, errno.ETXTBSY)
LEAKED = (7, 9, 200)


def line(label, name, *args):
    return " ".join([label, str(NUMBERS[name]), *map(str, args)])


@contextlib.contextmanager
def leaking(path="/etc"):
    """Directory handles of the host on descriptors 7, 9 and 200, for a child to inherit."""
    fd = os.open(path, os.O_RDONLY)
    try:
        for n in LEAKED:
            os.dup2(fd, n, inheritable=True)
        yield list(LEAKED)
    finally:
        os.close(fd)
        for n in LEAKED:
            os.close(n)


def words(done, word):
    return [x.split(" ", 1)[1] for x in done.stdout.decode().splitlines() if x.startswith(word + " ")]


# --- 1 leaked descriptors

@test
def a01_descriptors_of_the_caller_do_not_get_in():
    with leaking() as fds:
        command = [CORDON, "run", *box.arguments(["./inside"], [])]
        done = subprocess.run(command, env=dict(plane.env, CORDON_ROOT=plane.root), pass_fds=fds,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=60)
        control = subprocess.run([probe("inside")], pass_fds=fds, stdout=subprocess.PIPE)
    equal([x.split()[0] for x in words(done, "fd")], ["0", "1", "2"])
    for n in fds:
        contains(words(control, "fd"), "%d /etc" % n, "control")
    equal(words(done, "cwd"), ["/workspace"])


@test
def a01_descriptors_of_whoever_started_the_plane_do_not_get_in():
    with leaking() as fds, Plane(up=False) as other:
        started = subprocess.run([CORDON, "up"], env=dict(other.env, CORDON_ROOT=other.root), pass_fds=fds,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        equal(started.returncode, 0)
        put(other, "leak", "inside")
        done = other.run("--run-id", "leak", "--", "./inside")
        equal([x.split()[1] for x in done.text.splitlines() if x.startswith("fd ")], ["0", "1", "2"])
        # nor into the daemons, nor into the pid 1 of a waiting sandbox
        for pid, name in other.processes():
            for fd in os.listdir("/proc/%d/fd" % pid):
                with contextlib.suppress(OSError):
                    target = os.readlink("/proc/%d/fd/%s" % (pid, fd))
                    if target == "/etc":
                        raise AssertionError("%s (%d) holds the leaked directory on %s" % (name, pid, fd))


@test
def a01_pid_1_of_a_sandbox_holds_no_directory_of_the_host():
    waiting = box.popen("sleep", "20", stdout=subprocess.DEVNULL)
    try:
        pids = eventually(lambda: [p for p in plane.sandboxed() if b"sleep" in cmdline(p)], "the command")
        init = parent(pids[0])
        # The command's streams go as soon as it runs; nothing but the socket and the null device stays.
        eventually(lambda: all(is_plain(init, n) for n in os.listdir("/proc/%d/fd" % init)), "pid 1 holds only plain ends")
        equal(sorted(os.listdir("/proc/%d/fd" % pids[0])), ["0", "1", "2"])
        with open("/proc/%d/environ" % init, "rb") as f:
            equal(f.read(), b"", "environment of pid 1")
    finally:
        waiting.terminate()
        waiting.wait()


def is_plain(pid, fd):
    path = "/proc/%d/fd/%s" % (pid, fd)
    return os.readlink(path).startswith("socket:") or os.stat(path).st_rdev == os.makedev(1, 3)


def parent(pid):
    with open("/proc/%d/stat" % pid) as f:
        return int(f.read().rpartition(")")[2].split()[1])


@test
def a01_a_working_directory_by_descriptor_or_outside_is_refused():
    for cwd in ("/proc/self/fd/7", "/proc/self/fd/200", "/proc/1/root", "/proc/self/cwd", "/", "/etc", "..",
                "../etc", "a/../../etc", "/workspace/../etc", "/workspace/.."):
        got = box.json("true", options=["--cwd", cwd])
        equal((got["decision"], got["exitCode"]), ("denied", None), cwd)
        equal(got["reason"], "invalid_request", cwd)
    # a link in the workspace that leads out, and one that stays
    box.ok("ln -sfn /etc out; ln -sfn /proc/self/fd/0 magic; ln -sfn /proc/1/root old; mkdir -p in; ln -sfn in stays")
    for cwd in ("out", "magic", "old"):
        equal(box.json("true", options=["--cwd", cwd])["reason"], "invalid_request", cwd)
    equal(box.json("pwd", options=["--cwd", "in"])["stdout"], "/workspace/in\n", "control")
    equal(box.json("pwd", options=["--cwd", "stays"])["stdout"], "/workspace/in\n", "control")
    equal(box.json("pwd", options=["--cwd", "/workspace/in"])["stdout"] in ("/workspace/in\n", ""), True)


# --- 2 the launcher's own binary

def digests():
    found = {}
    for name in sorted(os.listdir(BIN)):
        with open(os.path.join(BIN, name), "rb") as f:
            found[name] = hashlib.sha256(f.read()).hexdigest()
    return found


@test
def a02_the_launchers_program_cannot_be_written():
    before = digests()
    box.ok("printf '#!/proc/self/exe\\n' > again; chmod +x again; printf '#!/proc/1/exe\\n' > first; chmod +x first")
    for script in ("./again", "./first"):
        # The launcher's program may well be run that way: without its descriptor it does nothing.
        equal(box.run(script).out, b"", script)
    script = """
        for i in 1 2 3 4 5 6 7 8; do ./again & ./first & done 2>/dev/null
        n=0
        while [ $n -lt 40 ]; do
            for p in /proc/[0-9]*; do
                { : >> $p/exe; } 2>/dev/null && [ "$(readlink $p/exe)" != /workspace/mine ] && echo "wrote $p"
                [ $p = /proc/1 ] && readlink $p/exe && echo "read the link of pid 1"
            done
            n=$((n+1))
        done
        cp /bin/busybox mine; { : >> mine; } && echo control
        exit 0"""
    equal(box.ok(script), "control\n")
    equal(digests(), before)


@test
def a02_pid_1_cannot_be_looked_into():
    names = ["exe", "root", "cwd", "fd", "mem", "maps", "environ", "ns/mnt", "stack", "auxv", "fd/3", "map_files"]
    got = box.call([line(n, "open", "=/proc/1/" + n, os.O_RDONLY) for n in names])
    for n in names:
        if got[n] not in (("errno", EACCES), ("errno", EPERM), ("errno", ENOENT)):
            raise AssertionError("/proc/1/%s: %r" % (n, got[n]))
    links = box.call([line(n, "readlink", "=/proc/1/" + n, "%", 4096) for n in ("exe", "root", "cwd")])
    equal({v for v in links.values()}, {("errno", EACCES)})
    own = box.call([line(n, "open", "=/proc/self/" + n, os.O_RDONLY) for n in ("exe", "maps", "environ")])
    equal({k for k, _ in own.values()}, {"ok"}, "control: its own")
    for name in ("timerslack_ns", "attr/current"):  # anybody may open these, nobody may write them
        equal(box.sh("echo 1 > /proc/1/" + name).status, 1, name)
    writes = ["oom_score_adj", "coredump_filter", "comm", "setgroups", "uid_map"]
    for n, (kind, _) in box.call([line(n, "open", "=/proc/1/" + n, os.O_WRONLY) for n in writes]).items():
        if kind == "ok":
            raise AssertionError("/proc/1/%s can be written" % n)


# --- 3 cgroups

@test
def a03_no_cgroup_file_is_there_to_write():
    found = box.ok("find / -xdev \\( -name release_agent -o -name notify_on_release -o -name cgroup.procs -o -name tasks "
                   "-o -name cgroup.subtree_control \\) -not -path '/proc/*' 2>/dev/null; ls -d /sys/* /sys/fs/* 2>/dev/null; true")
    equal(found, "")
    lines = [line("mount_v2", "mount", "=none", "=/tmp", "=cgroup2", 0, "%"),
             line("mount_v1", "mount", "=none", "=/tmp", "=cgroup", 0, "=memory"),
             line("user_and_cgroup", "unshare", hex(0x12000000))]
    equal({v for v in box.call(lines).values()}, {("errno", EPERM)})
    control = outside(lines)
    equal(control["mount_v2"], ("ok", 0), "control")
    equal(control["user_and_cgroup"], ("ok", 0), "control")
    for row in box.run("cat", "/proc/self/cgroup").text.splitlines():
        equal(row.split(":", 2)[2], "/", "a path of the host's control groups")


# --- 4 to 8 images that are links where the plane mounts

used = set()


def with_image(digest, *argv, options=("--json",)):
    """A command on an image. A worker keeps eight images mounted: it is renewed before that."""
    used.add(digest)
    if len(used) > 6:
        plane.down()
        plane.up()
        used.clear()
    return plane.run(*options, "--image", digest, "--", *argv)


def variant(edit):
    return images.variant(os.path.dirname(BIN), STORE, edit)


def refused_image(name):
    digest = variant(images.EVIL[name])
    before = last_row(plane)
    got = with_image(digest, "true").json
    equal(got["decision"], "denied", name)
    equal(got["exitCode"], None, name)
    if got["reason"] not in ("worker_error", "isolation_unavailable", "image_digest_mismatch"):
        raise AssertionError("%s: %r" % (name, got["reason"]))
    fresh = eventually(lambda: [r for r in rows(plane, before) if r["organizationId"] == "local"], "a row for " + name, 5)
    equal([(r["decision"], r["metadata"]["reason"]) for r in fresh], [("denied", got["reason"])], name)


@test
def a07_an_image_with_a_link_where_something_is_mounted_is_refused():
    for name in ("dev_is_symlink", "proc_is_root_symlink", "dev_and_proc_are_symlinks", "workspace_is_symlink",
                 "workspace_is_parent_symlink", "tmp_is_symlink", "workspace_is_file", "workspace_is_missing",
                 "dev_is_missing", "proc_is_missing"):
        refused_image(name)
    # the control: the same image with a harmless edit
    plain = variant(lambda root: open(root + "/etc/harmless", "w").close())
    equal(with_image(plain, "true").json["exitCode"], 0)


@test
def a07_the_refusal_names_what_is_wrong():
    digest = variant(images.EVIL["dev_is_symlink"])
    done = with_image(digest, "true", options=())
    equal(done.status, 125)
    contains(done.error, "cordon: worker_error: ")
    contains(done.error, "/dev")


@test
def a07_links_that_nothing_is_mounted_on_gain_nothing():
    for name in ("skills_is_symlink", "dev_shm_is_symlink"):
        digest = variant(images.EVIL[name])
        got = with_image(digest, "sh", "-c", "stat -f -c %T /dev/shm; touch /etc/x; ls /proc | grep -c '^[0-9]'").json
        if got["decision"] == "allowed":
            contains(got["stdout"], "tmpfs", name)


@test
def a04_masks_hold_whatever_the_images_dev_null_is():
    digest = variant(images.TAME["dev_null_is_symlink"])
    masked = "kcore keys key-users kallsyms kmsg sysrq-trigger timer_list slabinfo vmallocinfo kpageflags"
    script = """stat -c '%%F %%t %%T' /dev/null
        for f in %s; do [ -e /proc/$f ] && stat -c '%%F %%t %%T' /proc/$f; done | sort -u
        cat /proc/kcore /proc/keys /proc/key-users /proc/kallsyms 2>/dev/null | wc -c
        for d in acpi bus fs irq driver scsi tty; do ls -A /proc/$d 2>/dev/null; done""" % masked
    for image in (digest, None):
        done = with_image(image, "bash", "-c", script, options=()) if image else box.sh(script)
        equal(done.text, "character special file 1 3\ncharacter special file 1 3\n0\n", "%r" % done)
    control = run(["sh", "-c", "cat /proc/kallsyms | head -c 100 | wc -c; ls -A /proc/fs | head -1"])
    if control.text.split()[0] == "0" or len(control.text.split()) < 2:
        raise AssertionError("control: the host shows nothing either: %r" % control)


@test
def a08_nothing_is_made_through_a_links_parent():
    digest = variant(images.TAME["opt_skills_is_parent"])
    got = with_image(digest, "sh", "-c", "ls /opt/skills/workspace >/dev/null && echo fine").json
    equal(got["stdout"], "fine\n")


@test
def a05_there_is_no_console_and_no_pts():
    table = box.run("cat", "/proc/self/mountinfo").text.splitlines()
    equal(sorted({x.partition(" - ")[2].split()[0] for x in table}), ["erofs", "ext4", "proc", "tmpfs"])
    equal(box.ok("cd /dev; ls -A | sort | tr '\\n' ' '"), "fd full null random shm stderr stdin stdout urandom zero ")


# --- 10 set-uid

@test
def a10_nothing_shipped_is_set_uid_or_has_file_capabilities():
    seen = 0
    for base, _, files in os.walk(BIN):
        for name in files:
            path = os.path.join(base, name)
            seen += 1
            if os.stat(path).st_mode & 0o6000:
                raise AssertionError("%s is set-uid or set-gid" % path)
            if "security.capability" in os.listxattr(path):
                raise AssertionError("%s has file capabilities" % path)
    if seen < 7:
        raise AssertionError("control: only %d programs looked at" % seen)


@test
def a10_set_uid_programs_and_file_capabilities_of_a_layer_give_nothing():
    show = "grep -E '^(Uid|Gid|CapPrm|CapEff|NoNewPrivs)' /proc/self/status | tr '\\n\\t' '  '"
    wanted = "Uid: 10001 10001 10001 10001 Gid: 10001 10001 10001 10001 CapPrm: %s CapEff: %s NoNewPrivs: 1 " % (
        "0" * 16, "0" * 16)
    digest = variant(images.TAME["setuid_root"])
    equal(with_image(digest, "stat", "-c", "%a %u", "/usr/bin/rootbash").json["stdout"], "4755 0\n", "control")
    for program in ("/usr/bin/rootbash", "/usr/bin/rootgroup"):
        equal(with_image(digest, program, "-pc", show).json["stdout"], wanted, program)
    digest = variant(images.TAME["file_capabilities"])
    got = with_image(digest, "/usr/bin/capbash", "-pc", show).json
    if got["decision"] == "allowed" and got["exitCode"] == 0:
        equal(got["stdout"], wanted)
    # its own workspace: chmod u+s works there and means nothing
    equal(box.ok("cp /bin/bash own; chmod 6755 own; ./own -pc '%s'" % show.replace("'", "'\\''")), wanted)


@test
def a10_a_worker_serves_more_images_than_it_keeps():
    answers = []
    for n in range(10):
        digest = variant(lambda root: open(root + "/etc/number-%d" % n, "w").close())
        answers.append(plane.json(["true"], "--image", digest))
    plane.down()
    plane.up()
    used.clear()
    for got in answers:
        equal((got["decision"], got["exitCode"]), ("allowed", 0), got.get("text"))


@test
def a10_every_mount_is_nosuid_and_only_dev_has_devices():
    for row in box.run("cat", "/proc/self/mountinfo").text.splitlines():
        target, options = row.split()[4:6]
        options = options.split(",")
        contains(options, "nosuid", row)
        if "nodev" not in options and not (target == "/dev" or row.split()[3] == "/null"):
            raise AssertionError("devices may be opened on " + row)


@test
def a10_a_hostile_passwd_changes_no_id():
    digest = variant(images.TAME["hostile_passwd"])
    got = with_image(digest, "sh", "-c", "grep -E '^(Uid|Gid)' /proc/self/status | tr '\\t\\n' '  '").json
    equal(got["stdout"], "Uid: 10001 10001 10001 10001 Gid: 10001 10001 10001 10001 ")


# --- 11, 12 propagation and the old root

@test
def a11_mounts_do_not_pass_in_or_out():
    waiting = box.popen("sleep", "20", stdout=subprocess.DEVNULL)
    scratch = plane.path("mark-%d" % os.getpid())
    os.mkdir(scratch)
    try:
        pid = eventually(lambda: [p for p in plane.sandboxed() if b"sleep" in cmdline(p)], "the command")[0]
        with open("/proc/%d/mountinfo" % pid) as f:
            before = f.read()
        for row in before.splitlines():
            equal(row.split()[6], "-", "propagation of " + row)
        with open("/proc/self/mountinfo") as f:
            if "/workspace" in [x.split()[4] for x in f]:
                raise AssertionError("the sandbox's mount is in the host's table")
        subprocess.run(["mount", "-t", "tmpfs", "mark", scratch], check=True)
        with open("/proc/self/mountinfo") as f:
            contains(f.read(), scratch, "control: a mount of the host")
        with open("/proc/%d/mountinfo" % pid) as f:
            equal(f.read(), before, "a mount of the host came in")
    finally:
        waiting.terminate()
        waiting.wait()
        run(["umount", scratch])
        os.rmdir(scratch)


@test
def a12_no_path_leads_to_the_host():
    secret = plane.path("marker")
    with open(secret, "w") as f:
        f.write("of the host")
    equal(box.sh("cat %s" % secret).status, 1)
    same = box.ok("stat -Lc %d:%i / /.. /../.. /proc/self/root /proc/self/root/..; cd /; cd ../../..; stat -c %d:%i .")
    equal(len(set(same.split())), 1, same)
    table = box.run("cat", "/proc/self/mountinfo").text
    for word in (plane.root, plane.name, BIN, STORE, "/tmp/cdn"):
        if word in table:
            raise AssertionError("%s is named in the mount table" % word)
    got = box.call([line("chroot", "chroot", "=/tmp"), line("up", "openat", -100, "=/../../../" + secret.lstrip("/"), 0),
                    line("by_root", "open", "=/proc/1/root" + secret, 0)])
    equal(got, {"chroot": ("errno", EPERM), "up": ("errno", ENOENT), "by_root": ("errno", EACCES)})
    equal(outside([line("up", "openat", -100, "=/../../.." + secret, 0)])["up"][0], "ok", "control")


# --- 13 procfs

@test
def a13_proc_shows_only_the_sandbox():
    pids = sorted(int(x) for x in box.ok("for p in /proc/[0-9]*; do echo ${p#/proc/}; done").split())
    if pids[:1] != [1] or len(pids) > 4 or pids[-1] > 50:
        raise AssertionError("processes seen: %r" % pids)
    equal(box.run("cat", "/proc/1/cmdline").out, b"cordon-init\0")
    if len([x for x in os.listdir("/proc") if x.isdigit()]) < 10:
        raise AssertionError("control: the host has hardly any processes")


@test
def a13_nothing_below_proc_sys_can_be_written():
    script = """find /proc/sys -type f 2>/dev/null | { n=0
        while read -r f; do n=$((n+1)); { : >> "$f"; } 2>/dev/null && echo "writable $f"; done; echo $n; }"""
    lines = box.ok(script).splitlines()
    equal(lines[:-1], [])
    if int(lines[-1]) < 100:
        raise AssertionError("control: only %s files were tried" % lines[-1])
    names = ["/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/sys/kernel/modprobe", "/proc/self/uid_map",
             "/proc/sys/vm/panic_on_oom", "/proc/self/setgroups", "/proc/sys/kernel/ns_last_pid"]
    core = open("/proc/sys/kernel/core_pattern").read()
    got = box.call([line(n, "open", "=" + n, os.O_WRONLY) for n in names])
    for name, (kind, _) in got.items():
        # sysrq-trigger is the null device: it takes the bytes and gives them to nobody
        if kind == "ok" and name not in ("/proc/sysrq-trigger", "/proc/self/uid_map", "/proc/self/setgroups"):
            raise AssertionError("%s can be opened for writing" % name)
    box.sh("echo '|/bin/sh' > /proc/sys/kernel/core_pattern; echo b > /proc/sysrq-trigger")
    equal(open("/proc/sys/kernel/core_pattern").read(), core)
    control = outside([line("core", "open", "=/proc/sys/kernel/core_pattern", os.O_WRONLY)])
    equal(control["core"][0], "ok", "control")


@test
def a13_nothing_of_the_whole_hosts_can_be_written_in_proc():
    script = """find /proc -path '/proc/[0-9]*' -prune -o -type f -print 2>/dev/null |
        while read -r f; do { : >> "$f"; } 2>/dev/null && echo "$f"; done; :"""
    equal(box.ok(script).split(), [], "a pressure trigger, for one, is work for the host")
    equal(box.ok("{ : >> /proc/self/comm; } && echo own"), "own\n", "control: its own")


@test
def a06_id_maps_and_groups_of_a_process_cannot_be_changed():
    got = box.sh("echo '0 0 1' > /proc/self/uid_map; echo allow > /proc/self/setgroups; id -u")
    equal(got.text, "10001\n")


# --- 14 two sandboxes

@test
def a14_two_sandboxes_of_one_user_do_not_see_each_other():
    other = Box(plane, "launch-other", "call")
    marker = "cordon-mark-%d" % os.getpid()
    first = other.popen("bash", "-c", "sleep 20; :", marker, stdout=subprocess.DEVNULL)
    try:
        pid = eventually(lambda: [p for p in plane.sandboxed() if marker.encode() in cmdline(p)], "the first command")[0]
        seen = box.ok("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
        if marker in seen:
            raise AssertionError("the other sandbox is seen")
        numbers = [line("p%d" % n, "ptrace", 0x4206, n, 0, 0) for n in (1, 2, 3, pid)]
        for label, (kind, _) in box.call(numbers).items():
            equal(kind, "errno", label)
        kills = box.call([line("kill_host", "kill", pid, 9)])
        equal(kills["kill_host"][0], "errno")
        second = box.popen("sleep", "21", stdout=subprocess.DEVNULL)
        try:
            pids = eventually(lambda: [p for p in plane.sandboxed() if cmdline(p) == b"sleep\x0021\0"], "the second")
            ids = {host_uid(p) for p in (pid, pids[0])}
            equal(len(ids), 2, "ids outside: %r" % ids)
            for uid in ids:
                if uid < 65536:
                    raise AssertionError("the id outside is an ordinary one: %d" % uid)
        finally:
            second.terminate()
            second.wait()
    finally:
        first.terminate()
        first.wait()


def host_uid(pid):
    with open("/proc/%d/status" % pid) as f:
        return [int(x.split()[1]) for x in f if x.startswith("Uid:")][0]


# --- 15 devices

@test
def a15_no_device_can_be_made_or_opened():
    lines = [line("chr", "mknod", "=/tmp/c", hex(0o020666), 0x103), line("blk", "mknod", "=/tmp/b", hex(0o060666), 0x700),
             line("chr_at", "mknodat", -100, "=/tmp/d", hex(0o020666), 0x101)]
    equal({v for v in box.call(lines).values()}, {("errno", EPERM)})
    equal(box.call([line("fifo", "mknod", "=/tmp/f", hex(0o010666), 0)])["fifo"], ("ok", 0), "control: a FIFO")
    equal(outside(["tmp 165 =none =/tmp =tmpfs 0 %", lines[0]])["chr"][0], "ok", "control: a device outside")
    for name, path in (("block_device", "/disk"), ("char_device_mem", "/mem"), ("char_device_null", "/null")):
        digest = variant(images.TAME[name])
        got = with_image(digest, "sh", "-c", "[ -b %s -o -c %s ] && echo there; cat %s" % (path, path, path)).json
        equal(got["stdout"], "there\n", name)
        contains(got["stderr"], "Permission denied", name)
    equal(box.sh("head -c 4 /dev/zero | wc -c; echo x > /dev/null && echo null").text, "4\nnull\n", "control")


# --- 9 sources by descriptor

@test
def a09_no_source_of_a_mount_is_a_path():
    for row in box.run("cat", "/proc/self/mountinfo").text.splitlines():
        source = row.partition(" - ")[2].split()[1]
        if source.startswith("/") and not source.startswith(("/dev/loop", "/proc/self/fd/")):
            raise AssertionError("a mount of a path of the host: " + row)


with Plane() as plane:
    box = Box(plane, "launch", "call", "inside")
    main()
