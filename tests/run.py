#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""run.py - runs test programs, reads their TAP, says what happened.

    tests/run.py [--build DIR] [--jobs N] [--claims] [-v] TEST...

A test is an executable: a unit binary or a proof of the build directory, or a
system script; `script:name,name` runs those tests of it alone. Two run at a
time; one whose source holds, near its head, a line `cordon-test: serial` runs
alone, `cordon-test: timeout=N` sets its seconds (300). Every test runs under a
keeper of its own, a child subreaper, so that whatever it started and lost is
found again: ended when the time is up, and a failure when the test
itself has ended. Failed: a test line that is not ok, a plan that does not
match, an exit status that does not fit, a program that ran no test, anything on the
host that carries the name of an instance the test made, a file in its TMPDIR, a
report of a sanitizer from anything the test started. Skips that
tests/expected-skips does not name fail when CI=true. The last line is
`N passed, N failed, N skipped`; DIR/tests-ran.txt lists what passed (for the
check of CLAIMS.md, which --claims runs at the end). Stock library only.
"""
import argparse, ctypes, fnmatch, json, os, re, shutil, signal, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(HERE)
sys.path.insert(0, os.path.join(HERE, "lib"))
import leftovers  # noqa: E402
import reports  # noqa: E402
TIMEOUT_S, GRACE_S, LEFTOVER_S, SHOWN_LINES = 300, 10, 5, 150
SKIPPED_STATUS = 77
NOTES_WITHIN = 1500              # characters at the head of a source
SCALE = float(os.environ.get("TEST_TIMEOUT_SCALE", "1"))
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
libc = ctypes.CDLL(None, use_errno=True)


# --- The keeper: one process per test, which owns everything the test starts

def descendants(root):
    """Every living process below @root, deepest last."""
    children = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat") as f:
                fields = f.read().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] not in "ZX":
            children.setdefault(int(fields[1]), []).append(int(name))
    found, todo = [], [root]
    while todo:
        more = children.get(todo.pop(), [])
        found += more
        todo += more
    return found


def describe(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            words = f.read().replace(b"\0", b" ").decode(errors="replace").strip()
        return f"{pid} {words[:120]}"
    except OSError:
        return str(pid)


def reap(main_pid):
    """Collects what has ended; gives the main process's status or None."""
    status = None
    while True:
        try:
            pid, st = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status
        if pid == 0:
            return status
        if pid == main_pid:
            status = os.waitstatus_to_exitcode(st)


def signal_all(pids, sig):
    for pid in pids:
        try:
            os.kill(pid, sig)
        except ProcessLookupError:
            pass


def end_all(me):
    """Kills what is below us until nothing is."""
    for _ in range(200):
        pids = descendants(me)
        if not pids:
            break
        signal_all(pids, signal.SIGKILL)
        reap(0)
        time.sleep(0.02)
    reap(0)


def instances_of(path):
    """(root, name) of every instance the test made: Plane says each there before it makes it."""
    try:
        with open(path) as f:
            return [line.split() for line in f]
    except FileNotFoundError:
        return []


def keep(argv, env, timeout_s, out, err, result_path):
    """Runs one test to its end. Never returns."""
    me, runner = os.getpid(), os.getppid()
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    watched = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    unblock = lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, watched)
    r = {"status": None, "timed_out": False, "stopped": False, "left": []}
    start = time.monotonic()
    try:
        # Held on to: a dropped Popen object collects the status of a child that was quick.
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env,
                                   cwd=TOP, start_new_session=True, preexec_fn=unblock)
        main = process.pid
    except OSError as e:
        r["status"], r["error"] = 127, str(e)
        main = None
    deadline, asked = start + timeout_s, False
    while r["status"] is None:
        got = signal.sigtimedwait(watched, max(0.0, deadline - time.monotonic()))
        r["status"] = reap(main)
        if r["status"] is not None:
            break
        if got is not None and got.si_signo != signal.SIGCHLD:
            r["stopped"], deadline = True, 0
        if time.monotonic() < deadline:
            continue
        if asked:                # its time to clean up is over as well
            break
        r["timed_out"], asked = not r["stopped"], True
        signal_all([main], signal.SIGTERM)
        deadline = time.monotonic() + GRACE_S * SCALE
    patience = time.monotonic() + LEFTOVER_S
    while not asked and descendants(me) and time.monotonic() < patience:
        signal.sigtimedwait(watched, 0.05)
        reap(0)
    r["left"] = [describe(p) for p in descendants(me)]
    end_all(me)
    if asked:                    # here, because the runner itself may be gone
        for root, name in instances_of(env["CORDON_INSTANCES"]):
            leftovers.sweep(root, name)
    r["seconds"] = time.monotonic() - start
    with open(result_path, "w") as f:
        json.dump(r, f)
    if os.getppid() != runner:   # nobody is left to read it
        shutil.rmtree(os.path.dirname(result_path), ignore_errors=True)
    os._exit(0)


# --- One test file

class Test:
    def __init__(self, path, build):
        path, _, names = path.partition(":")
        self.argv = [os.path.abspath(path), *(n.replace(" ", "_") for n in names.split(",") if n)]
        self.name = os.path.relpath(self.argv[0], TOP)
        for folder, source in (("unit", "tests/unit/test_%s.c"), ("proof", "tests/proof/%s.c")):
            if os.path.dirname(self.argv[0]) == os.path.join(build, folder):
                self.name = source % os.path.basename(path)
        notes = self.notes()
        self.serial = "serial" in notes
        self.timeout_s = SCALE * float(next((n[8:] for n in notes if n.startswith("timeout=")), TIMEOUT_S))
        self.passed, self.failed, self.skipped, self.problems = [], [], [], []

    def notes(self):
        try:
            with open(os.path.join(TOP, self.name), errors="replace") as f:
                return re.findall(r"cordon-test: *(serial|timeout=\d+)", f.read(NOTES_WITHIN))
        except OSError:
            return []

    def begin(self, env, scratch):
        self.out, self.err, self.result, self.instances, self.tmp, self.reports = (
            os.path.join(scratch, x) for x in ("out", "err", "result", "instances", "tmp", "reports"))
        os.chmod(scratch, 0o711)  # what the tests make there is for daemons of other ids too
        for folder in (self.tmp, self.reports):
            os.mkdir(folder)
            os.chmod(folder, 0o1777)
        env = dict(env, TMPDIR=self.tmp, CORDON_INSTANCES=self.instances, CORDON_REPORTS=self.reports,
                   ASAN_OPTIONS=env.get("ASAN_OPTIONS", "") + ":log_path=" + os.path.join(self.reports, "asan"))
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            self.keeper = os.fork()
            if self.keeper == 0:
                try:
                    keep(self.argv, env, self.timeout_s, out, err, self.result)
                finally:
                    os._exit(1)

    def end(self):
        """Reads what the keeper and the test left."""
        try:
            with open(self.result) as f:
                r = json.load(f)
        except (OSError, ValueError):
            r = {"status": -1, "timed_out": False, "left": [], "seconds": 0, "error": "its keeper died"}
        self.seconds = r.get("seconds", 0)
        with open(self.out, errors="replace") as f:
            self.lines = f.read().splitlines()
        with open(self.err, errors="replace") as f:
            self.errors = f.read().splitlines()
        self.judge(r, self.read_tap())
        self.look_for_reports()
        if not r["timed_out"] and not r.get("stopped"):
            self.look_for_leftovers()

    def look_for_reports(self):
        """A sanitizer's, of whatever the test started (tests/lib/reports.py)."""
        said = reports.lines_of("\n".join(self.errors))
        for name in sorted(os.listdir(self.reports)):
            with open(os.path.join(self.reports, name), errors="replace") as f:
                text = f.read()
            said += reports.lines_of(text) or [name]
            self.errors += text.splitlines()
        self.problems += ["reported: " + line.strip() for line in dict.fromkeys(said)]

    def look_for_leftovers(self):
        """The kernel takes some away a moment after their last user: patience, then a failure."""
        patience = time.monotonic() + LEFTOVER_S
        for root, name in instances_of(self.instances):
            left = leftovers.left_of(root, name)
            while left and time.monotonic() < patience:
                time.sleep(0.1)
                left = leftovers.left_of(root, name)
            left += [root] if os.path.exists(root) else []
            if left:
                self.problems.append("left behind of %s: %s" % (name, "; ".join(left[:20])))
                leftovers.sweep(root, name)
        files = os.listdir(self.tmp)
        if files:
            self.problems.append("left in its TMPDIR: " + " ".join(sorted(files)[:20]))

    def read_tap(self):
        planned, whole_skip = None, None
        for line in self.lines:
            m = re.match(r"\s*1\.\.(\d+)\s*(?:#\s*(?i:skip)\S*\s*(.*))?$", line)
            if m:
                planned = (planned or 0) + int(m[1])
                whole_skip = m[2] if int(m[1]) == 0 else None
                continue
            m = re.match(r"\s*(not )?ok\b\s*(\d+)?\s*(?:- )?(.*?)\s*(?:#\s*(?i:(skip|todo))\S*\s*(.*))?$", line)
            if m:
                name = m[3] or m[2] or "unnamed"
                if m[1]:
                    self.failed.append(name)
                elif m[4] and m[4].lower() == "skip":
                    self.skipped.append((name, m[5]))
                else:
                    self.passed.append(name)
            elif line.startswith("Bail out!"):
                self.problems.append(line)
        if whole_skip is not None and not (self.passed or self.failed):
            self.skipped.append(("(whole file)", whole_skip))
            planned = 1
        return planned

    def judge(self, r, planned):
        count = len(self.passed) + len(self.failed) + len(self.skipped)
        status = r["status"]
        if r.get("error"):
            self.problems.append(r["error"])
        if r["timed_out"]:
            self.problems.append(f"timed out after {self.timeout_s:.0f} s")
        elif r.get("stopped"):
            self.problems.append("stopped")
        elif status == SKIPPED_STATUS and count == 0:
            self.skipped.append(("(whole file)", (self.lines + self.errors + ["exit 77"])[-1]))
            planned = count = 1
        elif status is None or status < 0:
            self.problems.append(f"ended by signal {-status if status else '?'}")
        elif status not in (0, SKIPPED_STATUS if count == len(self.skipped) else 0) and not self.failed:
            self.problems.append(f"exit status {status} and no failed test line")
        elif status == 0 and self.failed:
            self.problems.append("exit status 0 in spite of failed tests")
        if count == 0 and not self.problems:
            self.problems.append("ran no test")
        elif planned is None and not self.problems:
            self.problems.append("printed no plan")
        elif planned is not None and planned != count and not r["timed_out"]:
            self.problems.append(f"planned {planned} tests, ran {count}")
        if r["left"] and not r["timed_out"] and not r.get("stopped"):
            self.problems.append("left processes behind: " + "; ".join(r["left"]))

    def show(self, verbose):
        bad = self.failed or self.problems
        note = f", {len(self.skipped)} skipped" if self.skipped else ""
        print(f"{'FAIL' if bad else 'ok  '} {self.name} ({len(self.passed)} passed{note}, {self.seconds:.1f} s)")
        for name, why in self.skipped:
            print(f"     skip {name}: {why}")
        if bad or verbose:
            for title, lines in (("output", self.lines), ("errors", self.errors)):
                if lines:
                    print(f"  --- {title}" + (f" (last {SHOWN_LINES} of {len(lines)} lines)" if len(lines) > SHOWN_LINES else ""))
                    print("\n".join("  | " + l for l in failures(lines[:-SHOWN_LINES]) + lines[-SHOWN_LINES:]))
        for name in self.failed:
            print(f"  failed: {self.name}:{name}")
        for p in self.problems:
            print(f"  failed: {self.name}: {p}")
        sys.stdout.flush()


def failures(lines):
    """Of @lines those of failed tests, each with what is said of it."""
    kept, failed = [], False
    for line in lines:
        failed = line.startswith("not ok") or (failed and line.startswith("#"))
        if failed:
            kept.append(line)
    return kept


# --- All of them

def expected_skips():
    """`pattern # reason` lines; a line without a reason is an error."""
    patterns = []
    try:
        with open(os.path.join(HERE, "expected-skips")) as f:
            for line in f:
                if not line.strip() or line.startswith("#"):
                    continue
                pattern, _, why = line.partition(" # ")
                if not why.strip():
                    sys.exit(f"run.py: expected-skips: no reason given: {line.strip()}")
                patterns.append(pattern.strip())
    except FileNotFoundError:
        pass
    return patterns


def run_batch(tests, jobs, env, verbose):
    waiting, running = list(tests), {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                t = waiting.pop(0)
                t.scratch = tempfile.mkdtemp(prefix="cordon-run-")
                t.begin(env, t.scratch)
                running[t.keeper] = t
            pid, _ = os.wait()
            t = running.pop(pid, None)
            if t:
                t.end()
                shutil.rmtree(t.scratch, ignore_errors=True)
                t.show(verbose)
    finally:                     # interrupted: the keepers end their trees
        signal_all(running, signal.SIGTERM)
        for pid, t in running.items():
            os.waitpid(pid, 0)
            shutil.rmtree(t.scratch, ignore_errors=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--build", default=os.environ.get("CORDON_BUILD", "build"))
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--claims", action="store_true", help="every test a claim names must have passed")
    p.add_argument("-v", "--verbose", action="store_true")
    p.add_argument("tests", nargs="*")
    args = p.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    build = os.path.abspath(args.build)
    env = dict(os.environ, CORDON_BUILD=build)
    tests = [Test(t, build) for t in args.tests]
    run_batch([t for t in tests if not t.serial], args.jobs, env, args.verbose)
    run_batch([t for t in tests if t.serial], 1, env, args.verbose)

    known = expected_skips()
    passed = sum(len(t.passed) for t in tests)
    failed = sum(len(t.failed) + len(t.problems) for t in tests)
    skipped = sum(len(t.skipped) for t in tests)
    surprises = [f"{t.name}:{n}" for t in tests for n, _ in t.skipped
                 if not any(fnmatch.fnmatchcase(f"{t.name}:{n}", k) for k in known)]
    os.makedirs(build, exist_ok=True)
    ran = os.path.join(build, "tests-ran.txt")
    with open(ran, "w") as f:
        f.writelines(f"{t.name}:{n}\n" for t in tests for n in t.passed)
    if args.claims:
        sys.stdout.flush()
        if subprocess.run([os.path.join(HERE, "lint", "claims.py"), "--ran", ran], stderr=sys.stdout).returncode:
            failed += 1
    strict = os.environ.get("CI") == "true"
    for s in surprises:
        print(f"unexpected skip{' (fails in CI)' if strict else ''}: {s}")
    if not tests:
        print("no tests were given")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed or not tests or (strict and surprises) else 0)


if __name__ == "__main__":
    main()
