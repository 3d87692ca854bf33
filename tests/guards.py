#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""guards.py - takes each guard away in turn and shows which test notices.

    tests/guards.py --check              the table still fits the tree (make lint)
    tests/guards.py [--build DIR] [-j N] [NAME...]   all guards, or those whose name begins so

The table is tests/guards.txt: records of `key: value` lines, parted by blank
lines.
    guard  its name: room.what
    rule   the rules of the contract it serves
    file   the source it stands in
    old    words of one line of that file, which must stand there exactly once
    new    what stands there with the guard away
    test   what must go red then, as `file:test name`; may be repeated. A script of
           vmtests/ runs in a guest of its own.
    still  what must stay green all the same, so that red means the guard and
           not a broken build; `-` where another guard then refuses everything
file, old and new may be repeated where two guards hide one another.

The substitutions are made in a copy of the tree and its build, never here, and
the product has no switch for any of it. Before the first guard goes, every
test of the table must be green in that copy. A guard nobody misses fails.
Stock library only.
"""
import argparse, multiprocessing, os, re, shutil, signal, subprocess, sys, tempfile, time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TABLE = os.path.join(TOP, "tests", "guards.txt")
STILL = "tests/system/test_inside.py:a command string is bash c and the string"
SHOWN_LINES = 40
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(TOP, "tests", "lint"))
from claims import RULES, has_test  # noqa: E402


class Guard:
    def __init__(self, line):
        self.line, self.name, self.rules, self.tests, self.still = line, "", [], [], None
        self.cuts = []           # [file, old, new]

    def take(self, key, value):
        if key == "guard":
            self.name = value
        elif key == "rule":
            self.rules = value.replace(",", " ").split()
        elif key == "test":
            self.tests.append(value)
        elif key == "still":
            self.still = value
        elif key == "file":
            self.cuts.append([value, None, None])
        elif key in ("old", "new") and self.cuts:
            self.cuts[-1][1 if key == "old" else 2] = value
        else:
            return f"line {self.line}: '{key}' is not understood"

    def wants_still(self):
        """A plane must still run commands, unless the record says otherwise; unit tests need none."""
        if self.still == "-":
            return None
        return self.still or (STILL if any(t.startswith("tests/system/") for t in self.tests) else None)

    def faults(self):
        at = f"line {self.line}: {self.name or 'a record'}"
        if not self.name or not self.rules or not self.tests or not self.cuts:
            yield f"{at}: guard, rule, file and test are due"
        for r in self.rules:
            if r not in RULES:
                yield f"{at}: {r} is no rule of the contract"
        for path, old, new in self.cuts:
            if not old or new is None or old == new:
                yield f"{at}: {path}: old and new are due, and must differ"
                continue
            try:
                with open(os.path.join(TOP, path)) as f:
                    n = f.read().count(old)
            except OSError as e:
                yield f"{at}: {path}: {e.strerror}"
                continue
            if n != 1:
                yield f"{at}: {path} has {n} times, not once: {old}"
        for t in self.tests + ([self.still] if self.still not in (None, "-") else []):
            wrong = has_test(t)
            if wrong:
                yield f"{at}: {wrong}"


def read_table():
    guards, faults, g = [], [], None
    with open(TABLE) as f:
        for number, line in enumerate(f, 1):
            line = line.rstrip("\n")
            if line.startswith("#"):
                continue
            if not line.strip():
                g = None
                continue
            if g is None:
                g = Guard(number)
                guards.append(g)
            m = re.match(r"([a-z]+):(?: (.*))?$", line)
            wrong = g.take(m[1], m[2] or "") if m else f"line {number}: not `key: value`"
            if wrong:
                faults.append(wrong)
    for g in guards:
        faults += g.faults()
    names = [g.name for g in guards]
    faults += [f"{n} stands there twice" for n in sorted(set(names)) if names.count(n) > 1]
    return guards, faults


# --- The copy

def built_from(source):
    """The program that a unit test or a proof is built to; None for a script."""
    m = re.match(r"tests/(?:(unit)/test_|(proof)/)(\w+)\.c$", source)
    return f"build/{m[1] or m[2]}/{m[3]}" if m else None


class Copy:
    """The tree as it is, with its build: nothing of the original is ever written to."""

    def __init__(self, build):
        self.top = tempfile.mkdtemp(prefix="cordon-guards-")
        os.chmod(self.top, 0o711)  # a test runs its client as somebody else
        done = subprocess.run(["git", "-C", TOP, "ls-files", "-z"], stdout=subprocess.PIPE, check=True)
        for name in done.stdout.decode().split("\0"):
            if name and os.path.exists(os.path.join(TOP, name)) and not name.startswith("tests/fuzz/corpus"):
                to = os.path.join(self.top, name)
                os.makedirs(os.path.dirname(to), exist_ok=True)
                shutil.copy2(os.path.join(TOP, name), to)
        self.build = os.path.join(self.top, "build")
        shutil.copytree(build, self.build, symlinks=True,
                        ignore=lambda d, names: [n for n in names if d == build and n in
                                                 ("fuzz", "san", "cover", "static")])

    def remove(self):
        shutil.rmtree(self.top, ignore_errors=True)

    def make(self, tests):
        """Everything, and the unit tests and proofs that are named. Gives the words of a failure."""
        units = {b for t in tests if (b := built_from(t.partition(":")[0]))}
        probes = ["build/probe/" + f[:-2] for f in os.listdir(os.path.join(self.top, "tests/probe"))
                  if f.endswith(".c")]
        done = subprocess.run(["make", "all", *sorted(units), *probes], cwd=self.top,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.stdout.decode(errors="replace") if done.returncode else None

    def green(self, tests):
        """Which of @tests pass, and what was said."""
        what, chosen, words, ran = {}, [], "", set()
        for t in tests:
            path, _, name = t.partition(":")
            what.setdefault(path, []).append(name)
        for path in [p for p in what if p.startswith("vmtests/")]:
            del what[path]
            seen, said = self.guest(path)
            ran, words = ran | seen, words + said
        for path, names in what.items():
            chosen.append(built_from(path) or f"{path}:{','.join(dict.fromkeys(names))}")
        if not chosen:
            return ran & set(tests), words
        env = dict(os.environ, CORDON_BUILD=self.build, TEST_TIMEOUT_SCALE=os.environ.get("TEST_TIMEOUT_SCALE", "0.5"))
        env.pop("CI", None)
        done = subprocess.run([sys.executable, "tests/run.py", "--build", "build", *chosen],
                              cwd=self.top, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        with open(os.path.join(self.build, "tests-ran.txt")) as f:
            ran |= set(f.read().splitlines())
        return ran & set(tests), words + done.stdout.decode(errors="replace")

    def guest(self, path):
        """The checks of the script @path that pass in a guest of the first kernel, and what was said."""
        script = os.path.basename(path)[:-3]
        with open(os.path.join(self.top, "vmtests/kernels.txt")) as f:
            kernel = next(line.strip() for line in f if line.strip() and line[0] != "#")
        done = subprocess.run([sys.executable, "vmtests/run.py", "--build", "build", "--kernel", kernel, script],
                              cwd=self.top, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said = done.stdout.decode(errors="replace")
        return {f"{path}:{name}" for name in re.findall(rf"^ok \d+ - \S+ {script}: (.*)$", said, re.M)}, said

    def cut(self, cuts, forth):
        for path, old, new in cuts if forth else cuts[::-1]:
            at = os.path.join(self.top, path)
            with open(at) as f:
                text = f.read()
            with open(at, "w") as f:
                f.write(text.replace(old, new, 1) if forth else self.original(path))

    def original(self, path):
        with open(os.path.join(TOP, path)) as f:
            return f.read()


def tail(text):
    return "\n".join("  | " + line for line in text.splitlines()[-SHOWN_LINES:])


def judge(copy, g):
    """(noticed?, words) of one guard's absence."""
    still = g.wants_still()
    wanted = g.tests + ([still] if still else [])
    wrong = copy.make(wanted)
    if wrong:
        return False, "does not build without it\n" + tail(wrong)
    green, said = copy.green(wanted)
    unmoved = [t for t in g.tests if t in green]
    if unmoved:
        return False, "UNNOTICED by " + ", ".join(unmoved)
    if still and still not in green:
        return False, f"nothing works without it, which proves nothing ({still})\n" + tail(said)
    return True, "noticed by " + ", ".join(g.tests)


def run_part(copy, guards, failed):
    """Judges @guards in @copy; the names of the unmissed go into the queue @failed."""
    for g in guards:
        started = time.monotonic()
        copy.cut(g.cuts, True)
        good, words = judge(copy, g)
        copy.cut(g.cuts, False)
        if not good:
            failed.put(g.name)
        print(f"{'ok  ' if good else 'FAIL'} {g.name} ({' '.join(g.rules)}): {words} "
              f"({time.monotonic() - started:.0f} s)", flush=True)


def run_all(guards, build, jobs):
    copies, others, failed = [Copy(build)], [], multiprocessing.SimpleQueue()
    try:
        wanted = sorted({t for g in guards for t in g.tests + [g.wants_still()] if t})
        wrong = copies[0].make(wanted)
        green, said = copies[0].green(wanted) if not wrong else (set(), wrong)
        if set(wanted) - green:
            print(tail(said))
            print("guards: not green with every guard in place: " + ", ".join(sorted(set(wanted) - green)))
            return 1
        print(f"ok   {len(wanted)} tests are green with every guard in place", flush=True)
        copies += [Copy(copies[0].build) for _ in range(1, jobs)]
        others = [multiprocessing.Process(target=run_part, args=(copies[i], guards[i::jobs], failed))
                  for i in range(1, jobs)]
        for p in others:
            p.start()
        run_part(copies[0], guards[0::jobs], failed)
        for p in others:
            p.join()
        broken = sum(p.exitcode != 0 for p in others)
    finally:
        for p in others:
            p.terminate()
            p.join()
        for copy in copies:
            copy.remove()
    names = []
    while not failed.empty():
        names.append(failed.get())
    print(f"{len(guards) - len(names)} guards missed when away, {len(names)} not"
          + (": " + " ".join(sorted(names)) if names else ""))
    if broken:
        print(f"guards: {broken} of {jobs} parts did not come to their end")
    return 1 if names or broken else 0


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--check", action="store_true", help="only that the table fits the tree")
    p.add_argument("--build", default=os.environ.get("CORDON_BUILD", os.path.join(TOP, "build")))
    p.add_argument("-j", "--jobs", type=int, default=2, help="so many copies beside each other (2)")
    p.add_argument("names", nargs="*")
    args = p.parse_args()
    guards, faults = read_table()
    for f in faults:
        print(f"guards: {f}", file=sys.stderr)
    if faults or args.check:
        return 1 if faults else 0
    chosen = [g for g in guards if not args.names or any(g.name.startswith(n) for n in args.names)]
    if not chosen:
        print("guards: no guard of that name", file=sys.stderr)
        return 1
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(130))
    return run_all(chosen, os.path.abspath(args.build), max(1, min(args.jobs, len(chosen))))


if __name__ == "__main__":
    sys.exit(main())
