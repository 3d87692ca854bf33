# SPDX-License-Identifier: Apache-2.0
"""hostile.py - probes in a sandbox and, for the control, outside of one.

    box = Box(plane, "run-id", "call", "inside")   # the probes lie in its workspace
    box.run("./inside")                            # Result of one command there
    box.call(["mount 165 =none =/mnt =tmpfs 0 %"]) # {"mount": ("errno", 1)}
    outside([...])                                 # the same lines as real root of the host,
                                                   # in namespaces that are thrown away
    rows(plane, after=seq)                         # the ledger's rows behind one

Nothing here knows what is right: that stands in the tests.
"""
import errno
import os
import re
import struct
import subprocess

from cordon import BUILD, TOP, equal, run

PROBES = os.path.join(BUILD, "probe")


def probe(name):
    return os.path.join(PROBES, name)


def read_answers(text):
    """`LABEL ok|errno|signal|lost N` lines as {label: (kind, number)}."""
    found = {}
    for line in text.splitlines():
        label, kind, number = line.rsplit(" ", 2)
        found[label] = (kind, int(number))
    return found


def put(plane, run_id, *probes, options=()):
    """Copies probes into the workspace of a run through its standard input."""
    for name in probes:
        done = plane.run("--run-id", run_id, *options, "--stdin", probe(name), "--", "sh", "-c",
                         "cat > %s && chmod +x %s" % (name, name))
        equal(done.status, 0, "putting %s: %r\n%s" % (name, done, plane.log[-1500:]))


class Box:
    """A run id of a plane and what lies in its workspace. options go with every command."""

    def __init__(self, plane, run_id, *probes, options=()):
        self.plane, self.run_id, self.options = plane, run_id, list(options)
        put(plane, run_id, *probes, options=options)

    def arguments(self, argv, options):
        return ["--run-id", self.run_id, *self.options, *options, "--", *argv]

    def run(self, *argv, options=(), **more):
        return self.plane.run(*self.arguments(argv, options), **more)

    def sh(self, script, *options, **more):
        return self.run("bash", "-c", script, options=options, **more)

    def ok(self, script, *options, **more):
        """The output of a script that must succeed."""
        done = self.sh(script, *options, **more)
        equal(done.status, 0, "%r" % done)
        return done.out.decode()

    def json(self, *argv, options=(), **more):
        done = self.plane.run("--json", *self.arguments(argv, options), **more)
        try:
            return done.json
        except ValueError:
            raise AssertionError("no JSON: %r" % done) from None

    def popen(self, *argv, options=(), **more):
        return self.plane.popen("run", *self.arguments(argv, options), **more)

    def call(self, lines):
        """Every line is one system call (tests/probe/call.c)."""
        done = self.run("./call", options=["--stdin", "-"], input="\n".join(lines).encode() + b"\n")
        equal(done.status, 0, "call: %r" % done)
        return read_answers(done.out.decode())


def rows(plane, after=0):
    """The ledger's rows behind a sequence number, of all organisations."""
    found = []
    while True:
        done = plane.cordon("audit", "list", "--all", "--json", "--after", str(after), "--limit", "200")
        equal(done.status, 0, "audit list: %r" % done)
        found += done.json["rows"]
        after = done.json["next"]
        if not after:
            return found


def last_row(plane):
    """The newest sequence number."""
    return max([r["sequence"] for r in rows(plane)], default=0)


def cmdline(pid):
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as f:
            return f.read()
    except OSError:
        return b""


def outside(lines):
    """The lines as root of the host, in namespaces of their own: harmless, and not a sandbox."""
    done = run(["unshare", "--mount", "--net", "--ipc", "--uts", "--pid", "--fork", "--kill-child",
                "--propagation", "private", "--mount-proc", probe("call")],
               data="\n".join(lines).encode() + b"\n")
    equal(done.status, 0, "call outside: %r" % done)
    return read_answers(done.out.decode())


# --- The table of system calls

def headers():
    """{name: number} of the build machine's headers."""
    out = subprocess.run(["gcc", "-E", "-dM", "-include", "asm/unistd_64.h", "-x", "c", "/dev/null"],
                         check=True, stdout=subprocess.PIPE, text=True).stdout
    return {m[1]: int(m[2]) for m in re.finditer(r"#define __NR_(\w+) (\d+)$", out, re.M)}


def declared():
    """{name: (verdict, errno or None)} of the launcher's table."""
    with open(os.path.join(TOP, "userspace/launcher/syscalls.def")) as f:
        rows = re.findall(r"^(ALLOW|JUDGE|DENY)\((\w+)(?:, (\w+))?\)", f.read(), re.M)
    return {name: (verdict, getattr(errno, code) if code else None) for verdict, name, code in rows}


# --- The launcher's seccomp program, run by hand

AUDIT_ARCH_X86_64, AUDIT_ARCH_I386 = 0xc000003e, 0x40000003


def seccomp_program(path=os.path.join(BUILD, "gen/seccomp_filter.h")):
    with open(path) as f:
        return [(int(c, 16), int(jt), int(jf), int(k, 16)) for c, jt, jf, k in
                re.findall(r"\{ (0x\w+), (\d+), (\d+), (0x\w+) \}", f.read())]


def seccomp_verdict(program, nr, args=(), arch=AUDIT_ARCH_X86_64):
    """What a classic BPF program answers for one call: the 32-bit return value."""
    words = [a & (1 << 64) - 1 for a in list(args) + [0] * (6 - len(args))]
    data = struct.pack("=IIQ6Q", nr & 0xffffffff, arch, 0, *words)
    a = x = pc = 0
    memory = [0] * 16
    while True:
        code, jt, jf, k = program[pc]
        pc += 1
        kind, operand = code & 7, x if code & 8 else k
        if kind == 0:                                   # ld
            a = struct.unpack_from("=I", data, k)[0] if code & 0xe0 == 0x20 else \
                k if code & 0xe0 == 0 else memory[k]
        elif kind == 1:                                 # ldx
            x = k if code & 0xe0 == 0 else memory[k]
        elif kind == 2:
            memory[k] = a
        elif kind == 3:
            memory[k] = x
        elif kind == 4:                                 # alu
            a = {0x00: a + operand, 0x10: a - operand, 0x40: a | operand, 0x50: a & operand,
                 0x60: a << operand, 0x70: a >> operand}[code & 0xf0] & 0xffffffff
        elif kind == 5:                                 # jmp
            test = code & 0xf0
            if test == 0:
                pc += k
            else:
                yes = {0x10: a == operand, 0x20: a > operand, 0x30: a >= operand,
                       0x40: bool(a & operand)}[test]
                pc += jt if yes else jf
        elif kind == 6:                                 # ret
            return a if code & 0x18 == 0x10 else k
        else:
            x, a = (a, a) if code & 0xf8 == 0 else (x, x)


KILL_PROCESS, ALLOWED, ERRNO = 0x80000000, 0x7fff0000, 0x00050000
