#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""claims.py [--ran FILE] - CLAIMS.md says nothing that the tree does not hold (H1).

Every rule of the contract has exactly one row, in order:
    | id | state | what it says | symbols | tests | revision |
State A (intended) names nothing that enforces it. State B (enforced) names at
least one symbol, one test as `file:test name` and the revision at which it was
true. State C (not reachable on a default install) says why in its third column.
A symbol must be defined by the code: a function, object, macro, type or
enumerator, or a script of tests/lint (being called, or named in a comment or a
string, does not count). A test must be one: registered with cmocka, decorated
with @test, or the property of a proof. The revision must lie in the history.
With --ran every test of a B row must also be
among those that passed (DIR/tests-ran.txt of tests/run.py).
"""
import argparse, os, re, subprocess, sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CHAPTERS = (("B", 14), ("Q", 8), ("S", 8), ("E", 16), ("K", 7), ("A", 9), ("R", 5), ("N", 13),
            ("W", 4), ("T", 3), ("C", 4), ("V", 2), ("F", 8), ("D", 1), ("H", 3))
RULES = [f"{letter}{n}" for letter, last in CHAPTERS for n in range(1, last + 1)]
CODE = ("userspace", "include", "bpf", "fuse-skills", "tests/run.py", "tests/lint")


def strip_code(text):
    """C without comments and string contents."""
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', " ", text, flags=re.S)


# What begins in the first column defines (or declares) what it names; the rest is inside of something.
DEFINES = (
    re.compile(r"^[A-Za-z_][\w \t*()]*?\b([A-Za-z_]\w*)\s*(?:\(|\[[^\]]*\]\s*[=;{]|=|;)", re.M),  # function, object
    re.compile(r"^#\s*define\s+([A-Za-z_]\w*)", re.M),
    re.compile(r"^\s*(?:static )?(?:const )?(?:struct|union|enum)\s+([A-Za-z_]\w*)\s*\{", re.M),
    re.compile(r"^\}\s*([A-Za-z_]\w*)", re.M),                    # a table or map of an unnamed type
)
ENUMERATORS = re.compile(r"\benum\b[^{;()]*\{([^}]*)\}")


def definitions():
    found = set()
    for root in CODE:
        path = os.path.join(TOP, root)
        files = [path] if os.path.isfile(path) else [
            os.path.join(d, f) for d, _, fs in os.walk(path) for f in fs]
        for f in files:
            if f.endswith((".c", ".h")):
                with open(f, errors="replace") as src:
                    text = strip_code(src.read())
                for pattern in DEFINES:
                    found.update(pattern.findall(text))
                for body in ENUMERATORS.findall(text):
                    found.update(re.findall(r"\b([A-Za-z_]\w*)\s*(?:=[^,]*)?(?:,|$)", body.strip()))
            elif f.endswith((".py", ".sh")):
                found.add(os.path.basename(f))
    return found


def rows(text):
    for number, line in enumerate(text.splitlines(), 1):
        cells = [c.strip() for c in re.split(r"(?<!\\)\|", line)]
        if len(cells) > 2 and re.fullmatch(r"[A-Z]\d+", cells[1]):
            yield number, cells[1:-1]


def quoted(cell):
    return re.findall(r"`([^`]+)`", cell)


def has_test(where):
    path, _, name = where.partition(":")
    try:
        with open(os.path.join(TOP, path), errors="replace") as f:
            text = f.read()
    except OSError:
        return f"there is no file {path}"
    if path.endswith(".c"):
        found = (re.search(rf"\(\s*{re.escape(name)}\b", text.rpartition("CMUnitTest tests")[2]) or
                 f'proof_name[] = "{name}"' in text)
    elif path.endswith(".sh"):   # a guest's check, whose name a loop's $word may complete
        names = re.findall(r'^\s*t "([^"]+)"', text, re.M)
        found = any(re.fullmatch(re.sub(r"\\\$\w+", r"\\w+", re.escape(n)), name) for n in names)
    else:                        # tests/lib/cordon.py prints a function's name with blanks
        found = re.search(rf"^@test\ndef {re.escape(name.replace(' ', '_'))}\(", text, re.M)
    return None if name and found else f"{path} has no test '{name}'"


def has_passed(where, ran):
    path, _, name = where.partition(":")
    if not path.endswith(".sh"):
        return where in ran
    end = f" {os.path.basename(path)[:-3]}: {name}"  # vmtests/run.py puts the kernel before it
    return any(r.startswith("vmtests/run.py:") and r.endswith(end) for r in ran)


def known_revision(rev):
    def git(*args):
        return subprocess.run(["git", "-C", TOP, *args], capture_output=True, text=True)
    shallow = git("rev-parse", "--is-shallow-repository")
    if shallow.returncode != 0 or shallow.stdout.strip() == "true":
        return True              # an export or a cut history cannot say
    return git("merge-base", "--is-ancestor", rev, "HEAD").returncode == 0


def check(number, cells, names, ran):
    if len(cells) != 6:
        yield f"line {number}: {cells[0]} has {len(cells)} columns, not 6"
        return
    rule, state, says, symbols, tests, revision = cells
    at = f"line {number}: {rule}"
    if state not in ("A", "B", "C"):
        yield f"{at}: state '{state}' is none of A, B, C"
    if not says:
        yield f"{at}: says nothing"
    if state != "B":
        if quoted(symbols) or quoted(tests):
            yield f"{at}: state {state} names what enforces it; is it B?"
        return
    for what, cell in (("symbol", symbols), ("test", tests)):
        if not quoted(cell):
            yield f"{at}: enforced, and names no {what}"
    for s in quoted(symbols):
        if s.rstrip("()") not in names:
            yield f"{at}: there is no symbol {s}"
    for t in quoted(tests):
        wrong = has_test(t)
        if wrong:
            yield f"{at}: {wrong}"
        elif ran is not None and not has_passed(t, ran):
            yield f"{at}: {t} did not pass"
    if not re.fullmatch(r"`?[0-9a-f]{7,40}`?", revision) or not known_revision(revision.strip("`")):
        yield f"{at}: revision '{revision}' is not known"


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--ran", help="tests that passed")
    p.add_argument("--file", default=os.path.join(TOP, "CLAIMS.md"))
    args = p.parse_args()
    ran = None
    if args.ran:
        with open(args.ran) as f:
            ran = set(f.read().splitlines())
    with open(args.file) as f:
        table = list(rows(f.read()))
    problems = []
    ids = [cells[0] for _, cells in table]
    if ids != RULES:
        problems += [f"{r} has no row" for r in RULES if r not in ids]
        problems += [f"{i} is no rule of the contract" for i in ids if i not in RULES]
        problems += [f"{i} has {ids.count(i)} rows" for i in sorted(set(ids)) if ids.count(i) > 1]
        problems = problems or ["the rows are not in the contract's order"]
    names = definitions()
    for number, cells in table:
        problems += check(number, cells, names, ran)
    for line in problems:
        print(f"claims: {line}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
