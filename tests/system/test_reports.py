#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A report of a sanitizer makes its test red, whoever wrote it and wherever to.

Each test here gives the runner a little test file of its own, whose lines are
all `ok`: what turns it red is the report alone. The daemons are made to fail by
a signal, which in a sanitizer build is reported by the same way as an overflow;
an ordinary build must say of the same files that nothing was reported.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cordon import BUILD, CORDON, TOP, contains, equal, main, test  # noqa: E402

HOME = tempfile.mkdtemp(prefix="cordon-reports-")
LIB = os.path.join(TOP, "tests", "lib")
with open(CORDON, "rb") as elf:
    SANITIZED = b"__asan_init" in elf.read()


def run(text):
    """(status, what it reported, all it said) of the runner over a script of these lines."""
    path = os.path.join(HOME, "case.py")
    with open(path, "w") as f:
        f.write("#!/usr/bin/python3\nimport ctypes, os, signal, subprocess, sys\n"
                "sys.path.insert(0, %r)\nfrom cordon import *\n%s\n" % (LIB, text))
    os.chmod(path, 0o755)
    done = subprocess.run([sys.executable, os.path.join(TOP, "tests/run.py"), "--build", BUILD, path],
                          capture_output=True, text=True,
                          env=dict(os.environ, CORDON_BUILD=BUILD, TMPDIR=HOME))
    said = re.findall(r"^  failed: .*: reported: (.*)", done.stdout, re.M)
    return done.returncode, said, done.stdout + done.stderr


def ran(body):
    """The same, of one test with this body that is `ok` itself."""
    lines = "".join("    " + line + "\n" for line in body.strip("\n").splitlines())
    status, said, out = run("@test\ndef it():\n%s\nmain()" % lines)
    contains(out, "(1 passed")
    equal(status, 1 if said else 0, out)
    return said


def program(name, body):
    path = os.path.join(HOME, name)
    subprocess.run(["gcc", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-x", "c",
                    "-", "-o", path], input="#include <stdlib.h>\n" + body, text=True, check=True)
    return path


@test
def an_overflow_of_a_program_whose_words_nobody_reads():
    good = "int main(int n, char **v) { char *p = malloc(8); p[%s] = 1; free(p); return !v; }"
    spoil = program("spoil", good % "n + 7")
    fine = program("fine", good % "n + 6")
    leak = program("leak", "int main(int n, char **v) { void *volatile p = malloc(99); p = v; return !n; }")
    for path, word in ((spoil, "heap-buffer-overflow"), (leak, "LeakSanitizer")):
        said = ran("subprocess.run([%r], stderr=subprocess.DEVNULL)" % path)
        contains("\n".join(said), word)
    equal(ran("equal(subprocess.run([%r]).returncode, 0)" % fine), [], "the control")


@test
def undefined_behaviour_is_read_from_standard_error():
    path = program("shift", "int main(int n, char **v) { return v ? (n << (n + 40)) & 1 : 0; }")
    contains("\n".join(ran("subprocess.run([%r])" % path)), "runtime error: shift exponent")
    contains("\n".join(ran("run([%r])" % path)), "runtime error: shift exponent", "though it was caught")


@test
def what_stands_in_a_log_that_is_removed():
    line = "x.c:1:2: runtime error: left in the log of"
    for made, log in (("Plane(image=None, up=False)", "it.path('var/log/cordon/cordond.log')"),
                      ("ledger_process.Ledger(start=False)", "it.log"),
                      ("skills_rig.Skills(start=False)", "it.log_path"),
                      ("gateway_rig.Gateway(start=False)", "'/proc/self/fd/%d' % it.log.fileno()")):
        body = ("import gateway_rig, ledger_process, skills_rig\nwith %s as it:\n    log = %s\n"
                "    os.path.isdir(os.path.dirname(log)) or os.makedirs(os.path.dirname(log))\n"
                "    with open(log, 'w') as f:\n        f.write(" % (made, log))
        equal(ran(body + "%r)" % (line + "\n")), [line], made)
        equal(ran(body + "'nothing of the kind')"), [], "the control, " + made)


@test
def every_daemon_can_say_what_its_sanitizer_found():
    """Confined as it is: a seccomp filter, no file, no name. (cordond takes its signals back.)"""
    said = ran("""
with Plane(pool=0) as p:
    for name in sorted(p.daemons()):
        pid = p.kill(name, signal.SIGSEGV)
        eventually(lambda: "pid=%d" % pid in p.log, name)
        p.wait_ready()
""")
    reported = {re.search(r"==(\d+)==", line)[1] for line in said if "SEGV" in line and "==ERROR" in line}
    if SANITIZED:
        assert len(reported) == 5, (reported, said)
    else:
        equal(said, [])


@test
def a_launcher_that_traps_is_told_of_by_the_worker():
    """Its sanitizer has no runtime: pid 1 of a slot is sent to an address where nothing is."""
    said = ran("""
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
with Plane(pool=1) as p:
    pid = eventually(p.sandboxed, "a warm slot")[0]
    equal(libc.ptrace(16, pid, None, None), 0, "attach")
    os.waitpid(pid, 0x40000000)
    equal(libc.ptrace(6, pid, 16 * 8, 8), 0, "its next instruction")
    equal(libc.ptrace(17, pid, None, None), 0, "let it go")
    eventually(lambda: pid not in p.sandboxed(), "it is gone")
    equal(p.sh("echo on").out, b"on\\n", "the plane goes on")
""")
    equal([re.sub(r".* launcher id=\d+ ", "", line) for line in said], ["killed by signal 11"])


if __name__ == "__main__":
    try:
        main()
    finally:
        shutil.rmtree(HOME, ignore_errors=True)
