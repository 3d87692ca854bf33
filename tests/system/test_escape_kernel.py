#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Class b of the escape list: the kernel's surface as a command sees it.

Every table is run twice by the same probe: in a sandbox, where each line must
come out as declared, and outside as root in namespaces of its own, where it
must come out differently; a line that does not is named with the reason. What
this machine's kernel cannot show (i386 calls, x32) is shown on the very filter
the launcher loads, run by hand.
"""
import ctypes
import errno
import fcntl
import os
import pty
import socket
import subprocess
import sys
import termios
import tty

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from cordon import CORDON, Plane, Skip, contains, equal, main, run, test
from hostile import (ALLOWED, AUDIT_ARCH_I386, ERRNO, KILL_PROCESS, Box, declared, headers, outside,
                     probe, seccomp_program, seccomp_verdict)

EPERM, ENOSYS, EACCES = errno.EPERM, errno.ENOSYS, errno.EACCES
NUMBERS = headers()
NAMESPACES = {"time": 0x80, "mount": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000, "ipc": 0x8000000,
              "user": 0x10000000, "pid": 0x20000000, "net": 0x40000000}


def line(label, name, *args):
    return " ".join([label, str(NUMBERS[name]), *map(str, args)])


def differ(lines, wanted, same_outside=()):
    """Inside each line answers `wanted` (or its own entry of it); outside it does not."""
    inside, control = box.call(lines), outside(lines)
    for label in inside:
        want = wanted[label] if isinstance(wanted, dict) else wanted
        equal(inside[label], want, label)
        if label not in same_outside and control[label] == want:
            raise AssertionError("control of %s answers %r as well" % (label, want))
    return control


# --- 17 typing into the caller's terminal

def terminal():
    """A terminal whose input queue can be looked at: (master, slave)."""
    master, slave = pty.openpty()
    tty.setraw(slave)
    return master, slave


def become(slave):
    def prepare():
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    return prepare


def typed(slave):
    os.set_blocking(slave, False)
    try:
        return os.read(slave, 4096)
    except BlockingIOError:
        return b""


TYPING = [line("%s_%d_%x" % (name, fd, high), "ioctl", fd, hex(high << 32 | request), argument)
          for name, request, argument in (("tiocsti", 0x5412, "=x"), ("tioclinux", 0x541c, "&02"))
          for fd in (0, 1, 2) for high in (0, 1, 0xdeadbeef)]


@test
def b17_a_command_cannot_type_into_the_callers_terminal():
    master, slave = terminal()
    done = subprocess.run([CORDON, "run", *box.arguments(["./call", *TYPING], ["--stdin", "-"])],
                          env=dict(plane.env, CORDON_ROOT=plane.root), stdin=slave,
                          stdout=subprocess.PIPE, stderr=slave, preexec_fn=become(slave), timeout=60)
    equal(done.returncode, 0)
    answers = done.stdout.decode().splitlines()
    equal(len(answers), len(TYPING))
    for answer in answers:
        contains(answer, " errno %d" % EPERM)
    equal(typed(slave), b"", "bytes in the caller's input queue")
    # The control: the same program on the same terminal without a sandbox.
    subprocess.run([probe("call"), *TYPING], stdin=slave, stdout=subprocess.PIPE, stderr=slave,
                   preexec_fn=become(slave), timeout=60, check=True)
    contains(typed(slave), b"x", "control")
    os.close(master)
    os.close(slave)


@test
def b17_other_terminal_requests_are_not_refused_by_number():
    # FIONREAD on the standard input, TCGETS on something that is no terminal.
    got = box.call([line("fionread", "ioctl", 0, 0x541b, "%"), line("tcgets", "ioctl", 0, 0x5401, "%")])
    equal(got, {"fionread": ("ok", 0), "tcgets": ("errno", errno.ENOTTY)})


@test
def b17_there_is_no_terminal_inside():
    master, slave = terminal()
    done = subprocess.run([CORDON, "run", *box.arguments(["./inside"], ["--stdin", "-"])],
                          env=dict(plane.env, CORDON_ROOT=plane.root), stdin=slave,
                          stdout=subprocess.PIPE, stderr=slave, preexec_fn=become(slave), timeout=60)
    equal([x for x in done.stdout.decode().splitlines() if x.startswith("tty")], [])
    control = subprocess.run([probe("inside")], stdin=slave, stdout=subprocess.PIPE, stderr=slave)
    contains(control.stdout.decode(), "tty 0", "control")
    os.close(master)
    os.close(slave)
    names = ["/dev/tty", "/dev/console", "/dev/ptmx", "/dev/pts/ptmx", "/dev/tty0", "/dev/tty1"]
    got = box.call([line(n, "open", "=" + n, os.O_RDWR) for n in names])
    equal(got, {n: ("errno", errno.ENOENT) for n in names})


# --- 18 namespaces and mounts

@test
def b18_no_new_namespace_can_be_made():
    lines = [line("unshare_" + n, "unshare", hex(flag)) for n, flag in NAMESPACES.items()]
    lines += [line("high_" + n, "unshare", hex(0xdead << 32 | flag)) for n, flag in NAMESPACES.items()]
    lines += [line("clone_" + n, "clone", hex(flag | 17), 0, 0, 0, 0)
              for n, flag in NAMESPACES.items() if n != "time"]  # clone has no bit for that one
    lines += [line("setns", "setns", -1, 0)]
    wanted = {x.split()[0]: ("errno", EPERM) for x in lines}
    inside, control = box.call(lines), outside(lines)
    for label in wanted:
        kind, number = inside[label]
        equal(kind, "errno", label)
        if number not in (EPERM, ENOSYS):
            raise AssertionError("%s: errno %d is not the filter's" % (label, number))
        if label != "setns" and not label.startswith("high_"):  # unshare reads all 64 bits
            equal(control[label][0], "ok", "control of " + label)


@test
def b18_clone3_answers_ENOSYS_so_that_libraries_fall_back():
    plain = bytearray(88)
    plain[32:40] = (17).to_bytes(8, "little")  # exit_signal = SIGCHLD
    user = bytearray(plain)
    user[0:8] = NAMESPACES["user"].to_bytes(8, "little")
    lines = [line("empty", "clone3", "%", 88), line("plain", "clone3", "&" + plain.hex(), 88),
             line("user", "clone3", "&" + user.hex(), 88)]
    differ(lines, ("errno", ENOSYS))
    # fork still works: the fall-back has somewhere to fall.
    equal(box.call([line("fork", "fork")])["fork"][0], "ok")


@test
def b18_nothing_can_be_mounted():
    lines = [
        line("mount", "mount", "=none", "=/tmp", "=tmpfs", 0, "%"),
        line("mount_proc", "mount", "=proc", "=/tmp", "=proc", 0, "%"),
        line("remount", "mount", "=none", "=/", "%", hex(0x20 | 0x1000), "%"),
        line("bind", "mount", "=/", "=/tmp", "%", hex(0x1000), "%"),
        line("umount", "umount2", "=/proc", 2),
        line("fsopen", "fsopen", "=tmpfs", 0),
        line("open_tree", "open_tree", -100, "=/", 1),
        line("move_mount", "move_mount", -100, "=/tmp", -100, "=/tmp", 0),
        line("fsconfig", "fsconfig", -1, 6, 0, 0, 0),
        line("fspick", "fspick", -100, "=/tmp", 0),
        line("mount_setattr", "mount_setattr", -100, "=/tmp", 0, "%", 32),
        line("pivot_root", "pivot_root", "=/tmp", "=/tmp"),
        line("chroot", "chroot", "=/tmp"),
    ]
    differ(lines, ("errno", EPERM))


# --- 19 other ABIs

@test
def b19_other_architectures_and_x32_kill():
    program = seccomp_program()
    for nr in list(range(0, 600)) + [0x3fffffff]:
        for arch in (AUDIT_ARCH_I386, 0xc00000b7, 0x40000028, 0):
            verdict = seccomp_verdict(program, nr, arch=arch)
            if verdict not in (KILL_PROCESS, 0):
                raise AssertionError("call %d of architecture %#x: %#x" % (nr, arch, verdict))
        verdict = seccomp_verdict(program, nr | 0x40000000)
        if verdict not in (KILL_PROCESS, 0) and verdict >> 16 != ERRNO >> 16:
            raise AssertionError("x32 call %d: %#x" % (nr, verdict))
    equal(seccomp_verdict(program, NUMBERS["getpid"]), ALLOWED, "control: a native call")


@test
def b19_an_i386_or_x32_call_never_succeeds():
    lines = ["i386_getpid i20", "i386_socketcall i102 1 %", "x32_getpid 0x40000027", "x32_ioctl 0x40000202 0 0x5412 =x"]
    for label, (kind, number) in box.call(lines).items():
        if kind == "ok":
            raise AssertionError("%s gave %d" % (label, number))
    equal(box.call(["getpid 39"])["getpid"][0], "ok", "control")


# --- 20, 24 the table

@test
def b24_every_call_of_the_headers_is_in_the_table():
    table = declared()
    equal(sorted(set(NUMBERS) - set(table)), [], "system calls the table does not mention")
    equal(sorted(set(table) - set(NUMBERS)), [], "names the headers do not know")
    if len(NUMBERS) < 350:
        raise AssertionError("control: only %d calls in the headers" % len(NUMBERS))


# Not in this kernel, so that both sides say ENOSYS: the old and the never built.
GONE = {"_sysctl", "uselib", "create_module", "get_kernel_syms", "query_module", "nfsservctl", "getpmsg",
        "putpmsg", "afs_syscall", "tuxcall", "security", "epoll_ctl_old", "epoll_wait_old", "vserver",
        "lookup_dcookie", "remap_file_pages", "sysfs", "ustat", "memfd_secret", "kexec_load",
        "kexec_file_load", "io_uring_setup", "io_uring_enter", "io_uring_register"}


@test
def b24_every_denied_call_answers_its_declared_errno():
    denied = {name: code for name, (verdict, code) in declared().items() if verdict == "DENY"}
    lines = [line(name, name, *[-1] * 6) for name in denied]
    control = differ(lines, {name: ("errno", code) for name, code in denied.items()}, GONE)
    shown = [name for name in denied if control[name] != ("errno", denied[name])]
    if len(shown) < len(denied) - len(GONE):
        raise AssertionError("control: too few calls answered outside: %d" % len(shown))


@test
def b24_what_the_specification_names_is_denied():
    for name in ("bpf perf_event_open userfaultfd kexec_load kexec_file_load init_module finit_module "
                 "delete_module quotactl quotactl_fd open_by_handle_at name_to_handle_at pidfd_getfd ptrace "
                 "process_vm_readv process_vm_writev keyctl add_key request_key io_uring_setup io_uring_enter "
                 "io_uring_register modify_ldt mount umount2 fsopen fsconfig fsmount move_mount open_tree "
                 "mount_setattr pivot_root chroot unshare setns clone3 swapon swapoff reboot acct syslog iopl "
                 "ioperm settimeofday clock_settime clock_adjtime adjtimex sethostname setdomainname vhangup "
                 "fanotify_init kcmp").split():
        equal(declared()[name][0], "DENY", name)


# Since 6.14 the kernel shows uretprobe and uprobe to no filter; away from a probe's trampoline they end in
# SIGILL and ENXIO everywhere.
UNFILTERED = {335, 336}


@test
def b24_calls_the_headers_do_not_know_answer_ENOSYS():
    known = set(NUMBERS.values())
    lines = ["n%d %d %s" % (n, n, " ".join(["-1"] * 6)) for n in [*range(520), *range(520, 1024, 50)]
             if n not in known | UNFILTERED]
    inside, control = box.call(lines), outside(lines)
    for label, answer in inside.items():
        equal(answer, ("errno", ENOSYS), label)
    if not any(answer != ("errno", ENOSYS) for answer in control.values()):
        raise Skip("this kernel has no call that the headers do not know")


@test
def b24_judged_arguments():
    same = {"personality_ask", "personality_plain"}
    wanted = {
        "read_implies_exec": [EPERM, ENOSYS], "high_read_implies_exec": [EPERM, ENOSYS],
        "modify_ldt": [EPERM], "handle": [EPERM], "uffd": [EPERM], "perf": [EPERM], "bpf": [EPERM],
        "uring": [ENOSYS],
    }
    lines = [
        line("read_implies_exec", "personality", hex(0x400000)),
        line("high_read_implies_exec", "personality", hex(0xdead << 32 | 0x400000)),
        line("personality_ask", "personality", 0xffffffff),
        line("personality_plain", "personality", 0),
        line("modify_ldt", "modify_ldt", 0, "%", 4096),
        line("handle", "name_to_handle_at", -100, "=/", "&80000000", "%", 0),
        line("uffd", "userfaultfd", 0),
        line("perf", "perf_event_open", "&0100000080", 0, -1, -1, 0),
        line("bpf", "bpf", 0, "&0100000004000000080000000100000000", 72),
        line("uring", "io_uring_setup", 4, "%"),
    ]
    inside, control = box.call(lines), outside(lines)
    for label, codes in wanted.items():
        kind, number = inside[label]
        if kind != "errno" or number not in codes:
            raise AssertionError("%s: %s %d" % (label, kind, number))
        if control[label] == inside[label]:
            raise AssertionError("control of %s answers %r as well" % (label, control[label]))
    for label in same:
        equal(inside[label][0], "ok", label)


@test
def b24_other_processes_cannot_be_taken_over_or_limited():
    lines = [
        line("attach", "ptrace", 16, 1, 0, 0), line("seize", "ptrace", 0x4206, 1, 0, 0),
        line("read_memory", "process_vm_readv", 1, "%", 1, "%", 1, 0),
        line("limit_init", "prlimit64", 1, 7, "&" + bytes(16).hex(), 0),
        line("high_limit_init", "prlimit64", hex(0xdead << 32 | 1), 7, "&" + bytes(16).hex(), 0),
        line("limit_parent", "prlimit64", 2, 7, "&" + bytes(16).hex(), 0),
    ]
    for label, (kind, number) in box.call(lines).items():
        if kind != "errno" or number not in (EPERM, ENOSYS, EACCES):
            raise AssertionError("%s: %s %d" % (label, kind, number))
    victim = subprocess.Popen(["sh", "-c", "echo up; read x"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        victim.stdout.readline()  # from here on it opens nothing more
        control = run([probe("call"), *[x.replace(" 1 ", " %d " % victim.pid, 1) for x in lines if x.startswith("limit_i")],
                       line("seize", "ptrace", 0x4206, victim.pid, 0, 0)])
        equal([x.split()[1] for x in control.text.splitlines()], ["ok", "ok"], "control")
    finally:
        victim.kill()
        victim.wait()
    # its own limits are its own
    equal(box.call([line("own", "prlimit64", 0, 7, "&" + (64).to_bytes(8, "little").hex() * 2, 0)])["own"][0], "ok")


# --- 21, 22 sockets

UNIX, INET, NETLINK, INET6, VSOCK = 1, 2, 16, 10, 40
PLAIN = {(f, t, p) for f in (INET, INET6) for t, p in ((1, 0), (1, 6), (2, 0), (2, 17))}
LOCAL = {(UNIX, t, p) for t in (1, 2, 3, 5) for p in (0, 1)}
ROUTE = {(NETLINK, t, 0) for t in (2, 3)}


@test
def b21_only_declared_sockets_can_be_made():
    done = box.run("./sockets")
    equal(done.status, 0, "%r" % done)
    plain, high, pairs = set(), set(), set()
    for row in done.out.decode().splitlines():
        words = row.split()
        to = {"high": high, "pair": pairs}.get(words[0], plain)
        to.add(tuple(int(x) for x in words if x.lstrip("-").isdigit()))
    allowed = PLAIN | LOCAL | ROUTE
    equal(sorted(plain - allowed), [], "sockets that were not declared")
    equal(sorted(high - allowed), [], "sockets by way of the high halves")
    equal({f for f, _ in pairs}, {UNIX}, "families of pairs")
    for wanted in ((UNIX, 1, 0), (INET, 1, 0), (INET, 2, 0)):
        if wanted not in plain:
            raise AssertionError("control: %r was refused" % (wanted,))


@test
def b21_the_control_gets_the_exotic_ones():
    lines = [line("raw", "socket", INET, 3, 1), line("packet", "socket", 17, 3, 0), line("vsock", "socket", VSOCK, 1, 0),
             line("mptcp", "socket", INET, 1, 262), line("uevent", "socket", NETLINK, 3, 15),
             line("netfilter", "socket", NETLINK, 3, 12), line("diag", "socket", NETLINK, 3, 4)]
    control = outside(lines)
    for label, (kind, _) in box.call(lines).items():
        equal(kind, "errno", label)
    got = [label for label, (kind, _) in control.items() if kind == "ok"]
    for must in ("raw", "packet", "uevent"):
        if must not in got:
            raise AssertionError("control: %s: %r" % (must, control[must]))


@test
def b22_abstract_sockets_of_the_host_cannot_be_reached():
    name = "cordon-test-%d" % os.getpid()
    with socket.socket(socket.AF_UNIX) as s:
        s.bind("\0" + name)
        s.listen(8)
        equal(run([probe("connect"), "unix", "@" + name]).text, "connected\n", "control")
        with open("/proc/net/unix") as f:
            contains(f.read(), name, "control")
        done = box.run("./connect", "unix", "@" + name)
        equal(done.text, "errno %d\n" % errno.ECONNREFUSED)
        done = box.run("cat", "/proc/net/unix")
        if name in done.text:
            raise AssertionError("the host's socket is listed inside")
    equal(box.run("./connect", "echo", "@" + name).text, "connected\n", "control: its own name space works")


# --- 23 keyrings

@test
def b23_no_keyring_is_reachable_and_none_of_the_hosts_is_seen():
    marker = "cordon-test-%d" % os.getpid()
    libc = ctypes.CDLL(None, use_errno=True)
    serial = libc.syscall(NUMBERS["add_key"], b"user", marker.encode(), b"secret", 6, -3)
    lines = [line("add", "add_key", "=user", "=mine", "=x", 1, -3), line("session", "keyctl", 0, -3, 0),
             line("join", "keyctl", 1, 0), line("search", "keyctl", 10, -3, "=user", "=" + marker, 0),
             line("read", "keyctl", 11, max(serial, 1), "%", 4096), line("request", "request_key", "=user", "=" + marker, 0, 0)]
    differ(lines, ("errno", EPERM))
    with open("/proc/keys") as f:
        seen = marker in f.read()
    if serial > 0 and not seen:
        raise AssertionError("control: the host does not list its own key")
    equal(box.run("cat", "/proc/keys", "/proc/key-users").text, "")
    if serial > 0:
        libc.syscall(NUMBERS["keyctl"], 3, serial)  # KEYCTL_REVOKE


# --- 25 the filter is on, and nothing is held

@test
def b25_no_privilege_and_the_filter_on_every_process():
    wanted = {"NoNewPrivs": "1", "Seccomp": "2", "Seccomp_filters": "1"}
    wanted.update({c: "0" * 16 for c in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")})
    for pid in ("1", "self"):
        done = box.run("cat", "/proc/%s/status" % pid)
        got = dict(x.split(":\t") for x in done.text.splitlines() if ":\t" in x)
        equal({k: got[k] for k in wanted}, wanted, "status of " + pid)
        for ids in ("Uid", "Gid"):
            equal(got[ids].split(), ["10001"] * 4, ids)
        equal(got["Groups"].split(), [], "groups")
    with open("/proc/self/status") as f:
        control = f.read()
    contains(control, "NoNewPrivs:\t0", "control")
    contains(control, "Seccomp:\t0", "control")


# --- 26 is test_inside.py's

# --- 27 what a careless starter leaves set

SA_IGN = (ctypes.c_ulong * 4)(1, 0, 0, 0)  # kernel_sigaction: handler SIG_IGN


def be_careless():
    """Every signal ignored and blocked (32 and 33 too, which libc hides), umask 0, nice 5, small limits."""
    libc = ctypes.CDLL(None)
    for s in range(1, 65):
        if s not in (9, 19):
            libc.syscall(13, s, ctypes.byref(SA_IGN), None, 8)
    libc.syscall(14, 2, ctypes.byref(ctypes.c_ulong(0xffffffffffffffff)), None, 8)
    os.umask(0)
    os.nice(5)
    os.chdir("/proc")


@test
def b27_signal_state_umask_nice_and_directory_are_not_inherited():
    with Plane() as careless:
        careless.down()
        started = subprocess.run([CORDON, "up"], env=dict(careless.env, CORDON_ROOT=careless.root),
                                 preexec_fn=be_careless, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL, timeout=120)
        equal(started.returncode, 0, careless.log[-2000:])
        control = subprocess.run(["cat", "/proc/self/status"], preexec_fn=be_careless, stdout=subprocess.PIPE)
        contains(control.stdout.decode(), "SigIgn:\tfffffffffff", "control")
        contains(control.stdout.decode(), "Umask:\t0000", "control")
        # A client that is careless too, and one that is not.
        for prepare in (None, be_careless):
            status = subprocess.run([CORDON, "run", "--", "cat", "/proc/self/status", "/proc/self/stat"],
                                    env=dict(careless.env, CORDON_ROOT=careless.root), preexec_fn=prepare,
                                    stdout=subprocess.PIPE, timeout=60)
            equal(status.returncode, 0)
            lines = status.stdout.decode().splitlines()
            got = dict(x.split(":\t") for x in lines if ":\t" in x)
            for mask in ("SigBlk", "SigIgn", "SigPnd", "ShdPnd"):
                equal(got[mask], "0" * 16, mask)
            equal(got["Umask"], "0022", "umask")
            equal(lines[-1].split()[18], "0", "nice")
        # It reaps, and a signal ends a command as on a host.
        equal(careless.sh("sleep 0.05 & wait; exit 7").status, 7)
        equal(careless.sh("kill -TERM $$").status, 143)
        equal(careless.sh("kill -PIPE $$").status, 141)
        equal(careless.run("--", "pwd").text, "/workspace\n")
        # The daemons reap as well, though SIGCHLD was ignored when they were started.
        equal(careless.cordon("down", timeout=30).status, 0, "down")


def limit_of(text, name):
    """(soft, hard) of one line of /proc/PID/limits."""
    words = next(x for x in text.splitlines() if x.startswith(name))[len(name):].split()
    return tuple(float("inf") if w == "unlimited" else int(w) for w in words[:2])


@test
def b27_limits_and_oom_score_are_set():
    limits = box.run("cat", "/proc/self/limits").text
    with open("/proc/%d/limits" % plane.pid("worker")) as f:
        host = f.read()
    # Never above what the host allows, and a command cannot raise what it is given.
    for name, most in (("Max core file size", 1), ("Max stack size", 8 << 20), ("Max open files", 4096),
                       ("Max processes", 65536), ("Max locked memory", 64 << 10), ("Max msgqueue size", 0),
                       ("Max pending signals", 1024), ("Max nice priority", 0), ("Max realtime priority", 0)):
        soft, hard = limit_of(limits, name)
        equal((name, soft, hard), (name, min(most, limit_of(host, name)[1]), min(most, limit_of(host, name)[1])))
    score = int(box.run("cat", "/proc/self/oom_score_adj").text)
    with open("/proc/%d/oom_score_adj" % plane.pid("worker")) as f:
        if score <= int(f.read()):
            raise AssertionError("a command's oom_score_adj is %d, the worker's no lower" % score)
    equal(box.run("pwd").text, "/workspace\n")
    equal(box.run("sh", "-c", "ulimit -c").text.strip() in ("0", "1"), True)


with Plane() as plane:
    box = Box(plane, "kernel", "call", "sockets", "inside", "connect")
    main()
