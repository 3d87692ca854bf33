#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""map.py - the map in ARCHITECTURE.md names every source file, and no other.

A line of the map is a list item that begins with file names in back-quotes:
    - `err.[ch]`: the error type          (below a heading that names the folder)
    - `tests/run.py`: runs test programs  (or with its whole path)
A heading that holds a folder in back-quotes (### `userspace/base/`) is what
short names below it belong to. `x.[ch]` is two files; a `*` names a family.
"""
import fnmatch, os, re, sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ROOTS = ("userspace", "include", "bpf", "fuse-skills", "nft", "tests", "vmtests", ".ci")
SOURCES = (".c", ".h", ".py", ".sh", ".nft")
LEFT_OUT = ("tests/fuzz/corpus", "tests/golden", "tests/vectors")


def sources():
    for root in ROOTS:
        for folder, dirs, files in os.walk(os.path.join(TOP, root)):
            rel = os.path.relpath(folder, TOP)
            dirs[:] = [d for d in dirs if d != "__pycache__" and f"{rel}/{d}" not in LEFT_OUT]
            for f in files:
                if f.endswith(SOURCES) or rel == ".ci":
                    yield f"{rel}/{f}"


def entries(text):
    folder = ""
    for line in text.splitlines():
        m = re.match(r"#+ .*?`([^`]+/)`", line)
        if m:
            folder = m[1]
            continue
        if re.match(r"#+ ", line):
            folder = ""
        m = re.match(r"\s*[-*] ((?:`[^`]+`(?:, | and )?)+)", line)
        for name in re.findall(r"`([^`]+)`", m[1]) if m else ():
            if not re.fullmatch(r"[\w./*\[\]+-]+\.\w+|[\w./*-]*\.\[ch\]|\.ci/\w+", name):
                continue
            for one in ([name[:-4] + "c", name[:-4] + "h"] if name.endswith("[ch]") else [name]):
                yield one if one.split("/")[0] in ROOTS else folder + one


def main():
    try:
        with open(os.path.join(TOP, "ARCHITECTURE.md")) as f:
            named = sorted(set(entries(f.read())))
    except FileNotFoundError:
        print("map: there is no ARCHITECTURE.md yet", file=sys.stderr)
        return 0
    have = sorted(sources())
    lost = [h for h in have if not any(fnmatch.fnmatchcase(h, n) for n in named)]
    gone = [n for n in named if n.split("/")[0] in ROOTS and not any(fnmatch.fnmatchcase(h, n) for h in have)
            and not os.path.exists(os.path.join(TOP, n))]
    for h in lost:
        print(f"map: {h} has no line in ARCHITECTURE.md", file=sys.stderr)
    for n in gone:
        print(f"map: ARCHITECTURE.md names {n}, which does not exist", file=sys.stderr)
    return 1 if lost or gone else 0


if __name__ == "__main__":
    sys.exit(main())
