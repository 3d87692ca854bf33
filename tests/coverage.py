#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""coverage.py - lines and branches per room, and the pure files complete.

    tests/coverage.py [--build DIR] [-v]

Builds into DIR/cover with counters, runs the unit tests, the proofs and every
fuzz harness over its seeds, and reads what gcov says. Fails when a file whose
first line begins `/* Pure` has a line that was not executed; -v shows the lines
of all others too.

Not counted: what only the system tests run. The daemons are confined and
cannot write counters, and a build whose confinement lets them would not be the
one that is tested; rooms of programs show what their unit tests reach, no more.
"""
import argparse, json, os, re, subprocess, sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FLAGS = ["CFLAGS=-O0 -g --coverage -U_FORTIFY_SOURCE -fprofile-update=atomic", "LDFLAGS=--coverage"]
ROOMS = re.compile(r"(?:userspace/(\w+)|(fuse-skills)|(include/abi))/[\w.-]+$")
# Enumerates 2^32 addresses through one inline function: minutes with counters, and no line more.
LEFT_OUT = ("policy_address",)


def names(folder, prefix=""):
    return sorted(f[len(prefix):-2] for f in os.listdir(os.path.join(TOP, folder))
                  if f.startswith(prefix) and f.endswith(".c"))


def run(argv, **more):
    return subprocess.run(argv, cwd=TOP, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)


def build(o):
    units, proofs = names("tests/unit", "test_"), [p for p in names("tests/proof") if p not in LEFT_OUT]
    # The launcher's room is built for another C library: its test includes the file instead.
    harnesses = [h for h in names("tests/fuzz", "fuzz_") if not h.startswith("launcher_")]
    programs = [f"{o}/unit/{u}" for u in units] + [f"{o}/proof/{p}" for p in proofs]
    replays = [f"{o}/replay/{h}" for h in harnesses]
    done = run(["make", "-j2", f"O={o}", *FLAGS, *programs, *replays])
    if done.returncode:
        sys.exit(done.stdout.decode(errors="replace")[-6000:] + "coverage: the build failed")
    return programs, replays


def exercise(o, programs, replays):
    for base, _, files in os.walk(os.path.join(TOP, o)):
        for f in files:
            if f.endswith(".gcda"):
                os.unlink(os.path.join(base, f))
    failed = []
    done = run([sys.executable, "tests/run.py", "--build", o, *programs])
    said = done.stdout.decode(errors="replace").splitlines()
    print(said[-1])
    failed += [line.strip() for line in said if line.startswith("  failed: ")]
    for r in replays:
        name = os.path.basename(r)
        if run([os.path.join(TOP, r), f"tests/fuzz/corpus/{name}"]).returncode:
            failed.append(name)
    return failed


def counters(o):
    """{source: ({line: count}, {(line, branch): count})} over every object that has it."""
    objects = [os.path.join(base, f) for base, _, files in os.walk(os.path.join(TOP, o))
               for f in files if f.endswith(".gcno")]
    found = {}
    for at in range(0, len(objects), 40):
        done = subprocess.run(["gcov", "--json-format", "--stdout", "--branch-probabilities",
                               *objects[at:at + 40]], cwd=TOP, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL)
        for text in done.stdout.split(b"\n"):
            if not text.startswith(b"{"):
                continue
            for f in json.loads(text)["files"]:
                path = os.path.relpath(os.path.join(TOP, f["file"]), TOP)
                if not ROOMS.match(path):
                    continue
                lines, branches = found.setdefault(path, ({}, {}))
                for line in f["lines"]:
                    n = line["line_number"]
                    lines[n] = lines.get(n, 0) + line["count"]
                    for i, b in enumerate(line["branches"]):
                        branches[n, i] = branches.get((n, i), 0) + b["count"]
    return found


def is_pure(path):
    with open(os.path.join(TOP, path)) as f:
        return f.readline().startswith("/* Pure")


def missed(lines):
    """"12-14 20" of the lines with no count."""
    out, run_of = [], []
    for n in sorted(lines):
        if lines[n]:
            run_of = []
        elif run_of:
            run_of[1] = n
        else:
            run_of = [n, n]
            out.append(run_of)
    return " ".join(f"{a}-{b}" if a != b else str(a) for a, b in out)


def share(counts):
    hit, all_ = sum(1 for c in counts if c), len(counts)
    return f"{hit:6d} of {all_:6d} {100 * hit / all_ if all_ else 100:5.1f}%"


def report(found, verbose):
    rooms, bad = {}, []
    for path, (lines, branches) in found.items():
        m = ROOMS.match(path)
        rooms.setdefault(m[1] or m[2] or m[3], []).append((path, lines, branches))
    print(f"{'room':14} {'lines':>23} {'branches':>23}   pure files complete")
    for room in sorted(rooms):
        files = rooms[room]
        pure = [f for f in files if is_pure(f[0])]
        whole = [f for f in pure if all(f[1].values())]
        print(f"{room:14} {share([c for f in files for c in f[1].values()])}  "
              f"{share([c for f in files for c in f[2].values()])}   "
              f"{f'{len(whole)} of {len(pure)}' if pure else '-'}")
        for path, lines, _ in sorted(files):
            if all(lines.values()):
                continue
            if is_pure(path):
                bad.append(path)
            if verbose or is_pure(path):
                print(f"  {path}: not executed: {missed(lines)}")
    return bad


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--build", default="build")
    p.add_argument("-v", "--verbose", action="store_true")
    args = p.parse_args()
    o = os.path.relpath(os.path.join(os.path.abspath(args.build), "cover"), TOP)
    programs, replays = build(o)
    failed = exercise(o, programs, replays)
    bad = report(counters(o), args.verbose)
    for f in failed:
        print(f"coverage: failed: {f}")
    for path in bad:
        print(f"coverage: {path} is pure and has lines that no test executes")
    return 1 if failed or bad else 0


if __name__ == "__main__":
    sys.exit(main())
