#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The runner and the lints fail when they should: each check has a case it must catch.

No plane is needed. Little test programs and little trees are made in a
temporary directory; run.py and the lints are what is under test.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests", "lib"))
import leftovers
import tap
from tap import test

HOME = tempfile.mkdtemp(prefix="cordon-runner-")


def program(name, text):
    path = os.path.join(HOME, name)
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, 0o755)
    return path


def run(*programs, ci="", runner=os.path.join(TOP, "tests", "run.py")):
    done = subprocess.run([sys.executable, runner, "--build", os.path.join(HOME, "build"), *programs],
                          capture_output=True, text=True, env=dict(os.environ, CI=ci, TEST_TIMEOUT_SCALE="1"))
    last = done.stdout.splitlines()[-1] if done.stdout else ""
    m = re.fullmatch(r"(\d+) passed, (\d+) failed, (\d+) skipped", last)
    assert m, (done.stdout, done.stderr)
    return done.returncode, tuple(map(int, m.groups())), done.stdout


def wait_for(what, words, seconds):
    patience = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < patience, "not within %d s: %s" % (seconds, words)
        time.sleep(0.1)


def counts(text, ci=""):
    rc, n, _ = run(program("case.sh", "#!/bin/sh\n" + text), ci=ci)
    return rc, n


GOOD = 'echo 1..2; echo "ok 1 - a"; echo "ok 2 - b"'


@test
def good_tests_pass_and_are_listed():
    rc, n, out = run(program("good.sh", "#!/bin/sh\n" + GOOD), program("more.sh", "#!/bin/sh\n" + GOOD))
    assert (rc, n) == (0, (4, 0, 0)), out
    with open(os.path.join(HOME, "build", "tests-ran.txt")) as f:
        assert len(f.read().splitlines()) == 4


@test
def what_an_instance_leaves_behind_fails_its_test():
    root = os.path.realpath(tempfile.mkdtemp(prefix="cdn-left-", dir="/tmp"))
    body = ('echo "%s cordon-ffffffff" >> "$CORDON_INSTANCES"; mkdir -p %s/m; '
            'mount -t tmpfs left %s/m; echo 1..1; echo "ok 1 - a"\n' % (root, root, root))
    try:
        rc, n, out = run(program("leaves.sh", "#!/bin/sh\n" + body))
        assert (rc, n) == (1, (1, 1, 0)), out
        assert "left behind of cordon-ffffffff: mount %s/m; %s" % (root, root) in out, out
        assert not os.path.exists(root), "it was said, and then taken away"
        # Another tree's instance is none of our business.
        assert counts(GOOD) == (0, (2, 0, 0))
    finally:
        leftovers.sweep(root, "cordon-ffffffff")
    rc, n, out = run(program("control.sh", "#!/bin/sh\n" + body + "umount %s/m; rm -r %s" % (root, root)))
    assert (rc, n) == (0, (1, 0, 0)), out


@test
def what_a_test_that_was_ended_had_made_is_swept():
    name = "cordon-runner%d" % os.getpid()
    tops = [m for m in leftovers.cgroup_mounts() if m.rsplit("/", 1)[1] not in ("systemd", "cpuset")]
    for how in ("time", "killed runner"):
        root = os.path.realpath(tempfile.mkdtemp(prefix="cdn-left-", dir="/tmp"))
        body = "echo '%s %s' >> \"$CORDON_INSTANCES\"\n" % (root, name)
        body += "mkdir %s/m; mount -t tmpfs left %s/m\n" % (root, root)
        body += "".join("mkdir -p %s/%s/jobs\n" % (top, name) for top in tops)
        body += "touch %s/made; trap '' TERM; while :; do sleep 1; done\n" % root
        hang = program("made.sh", "#!/bin/sh\n# cordon-test: timeout=%d\n%s" % (2 if how == "time" else 60, body))
        try:
            argv = [sys.executable, os.path.join(TOP, "tests", "run.py"), "--build", os.path.join(HOME, "build"), hang]
            runner = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
            if how != "time":
                wait_for(lambda: os.path.exists(root + "/made"), "it has made all", 20)
                assert leftovers.cgroups(name), "control: the directories are seen"
                runner.kill()
            runner.wait()
            wait_for(lambda: not os.path.exists(root), "its root is gone", 200)
            wait_for(lambda: not leftovers.left_of(root, name), "nothing is left", 20)
        finally:
            leftovers.sweep(root, name)


@test
def a_copy_of_a_mount_in_another_namespace_keeps_nothing():
    """As a worker of another test makes it, that is born while the mount is there."""
    root = os.path.realpath(tempfile.mkdtemp(prefix="cdn-left-", dir="/tmp"))
    other = None
    try:
        os.mkdir(root + "/m")
        subprocess.run(["mount", "-t", "tmpfs", "left", root + "/m"], check=True)
        other = subprocess.Popen(["unshare", "-m", "--propagation", "private", "sh", "-c", "echo; exec sleep 60"],
                                 stdout=subprocess.PIPE)
        other.stdout.readline()
        subprocess.run(["umount", root + "/m"], check=True)
        assert leftovers.mounts(root, "cordon-none"), "control: the copy is there"
        assert leftovers.sweep(root, "cordon-none")
        assert other.poll() is None
    finally:
        if other:
            other.kill()
            other.wait()
            other.stdout.close()
        leftovers.sweep(root, "cordon-none")


@test
def a_file_left_in_its_tmpdir_fails_a_test():
    rc, n = counts(GOOD + '; mktemp >/dev/null')
    assert (rc, n) == (1, (2, 1, 0)), (rc, n)
    assert counts(GOOD + '; rm $(mktemp)') == (0, (2, 0, 0))


@test
def a_failed_line_a_wrong_plan_and_a_wrong_status_fail():
    assert counts('echo 1..1; echo "not ok 1 - a"; exit 1') == (1, (0, 1, 0))
    assert counts('echo 1..3; echo "ok 1 - a"; echo "ok 2 - b"') == (1, (2, 1, 0))
    assert counts('echo 1..1; echo "ok 1 - a"; echo "ok 2 - b"') == (1, (2, 1, 0))
    assert counts('echo "ok 1 - a"') == (1, (1, 1, 0))
    assert counts(GOOD + "; exit 3") == (1, (2, 1, 0))
    assert counts(GOOD + "; kill -SEGV $$") == (1, (2, 1, 0))
    assert counts('echo 1..1; echo "not ok 1 - a"; exit 0') == (1, (0, 2, 0))
    assert counts('echo "Bail out! no"; exit 0')[0] == 1


@test
def why_a_test_failed_is_shown_however_much_came_after():
    rc, n, out = run(program("long.sh", "#!/bin/sh\necho 1..2; echo 'not ok 1 - early'; echo '# because'; echo 'ok 2 - b'\n"
                             "echo '# of b'; seq 1000 | sed 's/^/# /'; exit 1\n"))
    assert (rc, n) == (1, (1, 1, 0)), out
    assert "  | not ok 1 - early\n  | # because\n  | # 851\n" in out, out


@test
def a_program_that_ran_no_test_fails():
    assert counts("exit 0") == (1, (0, 1, 0))
    assert counts("echo hello") == (1, (0, 1, 0))
    assert counts("echo 1..0") == (1, (0, 1, 0)) or counts("echo 1..0")[0] == 1
    assert run()[0] == 1


@test
def unexpected_skips_fail_in_ci_only():
    skip = 'echo 1..2; echo "ok 1 - a"; echo "ok 2 - b # SKIP no kernel"'
    assert counts(skip) == (0, (1, 0, 1))
    assert counts(skip, ci="true") == (1, (1, 0, 1))
    assert counts("echo needs root; exit 77", ci="") == (0, (0, 0, 1))
    assert counts("echo '1..0 # SKIP needs root'; exit 77", ci="true") == (1, (0, 0, 1))


@test
def a_test_that_hangs_is_ended_with_all_it_started():
    mark = f"86{os.getpid()}"
    hang = program("hang.sh", f"""#!/bin/sh
# cordon-test: timeout=1
trap 'touch {HOME}/cleaned' TERM
echo 1..1
setsid sh -c 'setsid sleep {mark} & sleep {mark}' &
sleep {mark} & wait
setsid sleep {mark} & exit 1
""")
    start = time.monotonic()
    rc, n, out = run(hang)
    assert rc == 1 and n[1] >= 1 and "timed out after 1 s" in out, out
    assert time.monotonic() - start < 20
    assert os.path.exists(f"{HOME}/cleaned"), "the test was given no time to clean up"
    left = subprocess.run(["pgrep", "-f", f"sleep {mark}"], capture_output=True, text=True).stdout
    assert not left, left


@test
def a_process_left_behind_is_ended_and_a_failure():
    mark = f"87{os.getpid()}"
    rc, n, out = run(program("left.sh", f"#!/bin/sh\n{GOOD}\nsetsid sleep {mark} &\n"))
    assert (rc, n) == (1, (2, 1, 0)) and f"sleep {mark}" in out, out
    assert subprocess.run(["pgrep", "-f", f"sleep {mark}"], capture_output=True).returncode == 1


@test
def a_serial_test_runs_alone():
    def one(name, serial):
        return program(name, f"""#!/bin/sh
# {'cordon-test: serial' if serial else ''}
echo 1..1
mkdir {HOME}/running 2>/dev/null || {{ echo "not ok 1 - alone"; exit 1; }}
sleep 0.3; rmdir {HOME}/running; echo "ok 1 - alone"
""")
    assert run(one("s1", True), one("s2", True), one("p1", False))[1] == (3, 0, 0)
    rc, n, _ = run(one("p1", False), one("p2", False))
    assert n[1] >= 1, "two tests were expected to overlap"
    shutil.rmtree(f"{HOME}/running", ignore_errors=True)


# --- The lints

def small_tree():
    """A copy of what the lints look at, small enough to spoil."""
    tree = tempfile.mkdtemp(dir=HOME)
    for d in ("tests/lint", "userspace/base", "userspace/digest"):
        shutil.copytree(os.path.join(TOP, d), os.path.join(tree, d), ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(os.path.join(TOP, "CLAIMS.md"), tree)
    return tree


def lint(tree, name, *args):
    done = subprocess.run([os.path.join(tree, "tests/lint", name), *args], capture_output=True, text=True, cwd=tree)
    return done.returncode, done.stderr


def claims_with(row, **files):
    tree = small_tree()
    with open(os.path.join(tree, "tests/lint/x.py"), "w") as f:
        f.write("@test\ndef it_is_so():\n    pass\n\n\ndef it_only_helps():\n    pass\n")
    for path, text in files.items():
        with open(os.path.join(tree, path.replace("__", "/")), "w") as f:
            f.write(text)
    with open(os.path.join(tree, "CLAIMS.md")) as f:
        text = f.read()
    rows = [f"| {m[1]} | A | says | | | |" for m in re.finditer(r"^\| ([A-Z]\d+) \|", text, re.M)]
    text = "\n".join(row if row and r.startswith("| S2 ") else r for r in rows if row is not None or not r.startswith("| S2 "))
    with open(os.path.join(tree, "CLAIMS.md"), "w") as f:
        f.write(text)
    return lint(tree, "claims.py")


@test
def a_claim_must_hold_in_every_column():
    good = "| S2 | B | says | `err_set` | `tests/lint/x.py:it is so` | 1234567 |"
    assert claims_with(good) == (0, ""), claims_with(good)
    for bad, words in (
        (good.replace("err_set", "err_sett"), "no symbol err_sett"),
        (good.replace("`err_set`", ""), "names no symbol"),
        (good.replace("err_set", "snprintf"), "no symbol snprintf"),
        (good.replace("it is so", "it is otherwise"), "has no test"),
        (good.replace("it is so", "it only helps"), "has no test"),
        (good.replace("lint/x.py", "lint/none.py"), "no file"),
        (good.replace("1234567", ""), "revision"),
        (good.replace("| B |", "| D |"), "none of A, B, C"),
        (good.replace("| B |", "| A |"), "is it B?"),
        (good.replace("| says |", "|"), "columns"),
        (good + "\n" + good, "2 rows"),
        (None, "S2 has no row"),
        (good.replace("S2", "S2 | B | says | `err_set` | `x` | 1234567 |\n| Z9"), "no rule of the contract"),
    ):
        rc, err = claims_with(bad)
        assert rc == 1 and words in err, (bad, err)


@test
def a_symbol_in_a_comment_or_a_string_is_none():
    row = "| S2 | B | says | `only_in_words` | `tests/lint/x.py:it is so` | 1234567 |"
    rc, err = claims_with(row, userspace__base__x_words="/* only_in_words */")
    assert rc == 1 and "no symbol" in err
    tree = small_tree()
    with open(os.path.join(tree, "userspace/base/x.c"), "w") as f:
        f.write('/* only_in_words */ const char *s = "only_in_words"; // only_in_words\n')
    with open(os.path.join(tree, "CLAIMS.md")) as f:
        text = f.read()
    with open(os.path.join(tree, "CLAIMS.md"), "w") as f:
        f.write(re.sub(r"^\| S2 .*$", row, text, flags=re.M))
    rc, err = lint(tree, "claims.py")
    assert rc == 1 and "no symbol only_in_words" in err, err


def compile_into(tree, source):
    obj = os.path.join(tree, "build", source[:-2] + ".o")
    os.makedirs(os.path.dirname(obj), exist_ok=True)
    subprocess.run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-Iuserspace", "-MMD", "-c", "-o", obj, source],
                   cwd=tree, check=True)


@test
def a_pure_file_that_does_more_is_found():
    tree = small_tree()
    for f in os.listdir(os.path.join(tree, "userspace/digest")):
        if f.endswith(".c"):
            os.unlink(os.path.join(tree, "userspace/digest", f))
    for body, ok in (("#include <string.h>\nint f(const char *s) { return (int)strlen(s); }", True),
                     ("#include <stdlib.h>\nvoid *f(void) { return malloc(3); }", False),
                     ("#include <time.h>\nlong f(void) { return time(0); }", False),
                     ("#include <errno.h>\nint f(void) { return errno; }", False),
                     ("#include <unistd.h>\nint f(void) { return getpid(); }", False)):
        with open(os.path.join(tree, "userspace/digest/p.c"), "w") as f:
            f.write("/* Pure: a case. */\n" + body + "\n")
        compile_into(tree, "userspace/digest/p.c")
        rc, err = lint(tree, "pure.sh", os.path.join(tree, "build"))
        assert (rc == 0) == ok, (body, err)
    shutil.rmtree(os.path.join(tree, "build"))
    assert lint(tree, "pure.sh", os.path.join(tree, "build"))[0] == 1, "what is not built cannot be judged"


@test
def an_upward_include_is_found():
    tree = small_tree()
    with open(os.path.join(tree, "userspace/base/up.c"), "w") as f:
        f.write('#include "digest/digest.h"\n')
    compile_into(tree, "userspace/base/up.c")
    objects = os.path.join(tree, "build/userspace/base")
    rc, err = lint(tree, "layers.sh", "base", "", objects)
    assert rc == 1 and "base may not include digest" in err, err
    assert lint(tree, "layers.sh", "base", "digest", objects)[0] == 0


@test
def a_header_that_leans_on_another_is_found():
    tree = small_tree()
    assert lint(tree, "headers.sh", "build")[0] == 0
    with open(os.path.join(tree, "userspace/base/lean.h"), "w") as f:
        f.write("#ifndef X\n#define X\nuint64_t f(void);\n#endif\n")
    rc, err = lint(tree, "headers.sh", "build")
    assert rc != 0 and "userspace/base/lean.h" in err, err


@test
def a_file_without_licence_or_line_is_found():
    tree = small_tree()
    with open(os.path.join(tree, "ARCHITECTURE.md"), "w") as f:
        f.write("# A\n\n<!-- map: here -->\n")
    assert lint(tree, "map.py")[0] == 1
    assert lint(tree, "map.py", "--write")[0] == 0
    assert lint(tree, "map.py") == (0, "")
    assert lint(tree, "spdx.sh")[0] == 0
    with open(os.path.join(tree, "userspace/base/new.c"), "w") as f:
        f.write("int x;\n")
    rc, err = lint(tree, "map.py")
    assert rc == 1 and "userspace/base/new.c has no line" in err, err
    rc, err = lint(tree, "spdx.sh")
    assert rc == 1 and "userspace/base/new.c" in err, err
    lint(tree, "map.py", "--write")
    rc, err = lint(tree, "map.py")
    assert rc == 1 and "says nothing of itself" in err, err
    os.unlink(os.path.join(tree, "userspace/base/new.c"))
    rc, err = lint(tree, "map.py")
    assert rc == 1 and "does not exist" in err, err


if __name__ == "__main__":
    try:
        status = tap.main(needs_root=False)
    finally:
        shutil.rmtree(HOME, ignore_errors=True)
    sys.exit(status)
