#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""map.py [--write] - the map in ARCHITECTURE.md has one line per source file.

The map is everything below the line that begins `<!-- map:`. --write writes it
from what the files say of themselves: the first sentence of their first
comment. The check fails for a file without a line, a line without a file, and
a file that says nothing of itself. Lines are `- \\`name\\`: words` below a
heading that names the folder.
"""
import os, re, subprocess, sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ROOTS = ("include", "bpf", "nft", "userspace", "fuse-skills", "tests", "vmtests", "packaging")
SOURCES = (".c", ".h", ".py", ".sh", ".nft", ".def")
LEFT_OUT = ("tests/fuzz/corpus", "tests/golden")
MARK = "<!-- map:"
HEAD = MARK + " one line per file; `tests/lint/map.py --write` writes it, `make lint` keeps it true -->"
WORDS_MAX = 140


def tracked():
    """What git knows below TOP, or None outside a checkout: files of a work in progress do not count."""
    done = subprocess.run(["git", "-C", TOP, "ls-files", "-z"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL)
    names = set(done.stdout.decode().split("\0")) if done.returncode == 0 else None
    return names if names and any(n.startswith("userspace/") for n in names) else None


def sources():
    known = tracked()
    for root in ROOTS:
        for folder, dirs, files in os.walk(os.path.join(TOP, root)):
            rel = os.path.relpath(folder, TOP)
            dirs[:] = sorted(d for d in dirs if d != "__pycache__" and f"{rel}/{d}" not in LEFT_OUT)
            for f in sorted(files):
                if f.endswith(SOURCES) and (known is None or f"{rel}/{f}" in known):
                    yield rel, f


def first_comment(path, text):
    if path.endswith(".py"):
        m = re.search(r'"""(.*?)"""', text, re.S)
        return m[1] if m else ""
    if path.endswith((".sh", ".nft")) or text.startswith("#!"):
        return "\n".join(l.lstrip("# ") for l in text.splitlines() if l.startswith("#") and not l.startswith("#!"))
    return "\n\n".join(re.sub(r"\n\s*\* ?", "\n", c) for c in re.findall(r"/\*(.*?)\*/", text[:6000], re.S))


def words_of(folder, name):
    with open(os.path.join(TOP, folder, name), errors="replace") as f:
        text = first_comment(name, f.read())
    text = re.sub(r"SPDX-License-Identifier:[^\n]*", "", text).strip()
    text = re.sub(r"^\s*Pure:\s*", "", text)
    text = re.sub(r"^[\w.-]+\.(?:py|sh)\b[^\n]*? - ", "", text)
    sentence = re.split(r"(?<=[a-z0-9)`'\]])[.;](?:\s|$)|\n\s*\n", text, 1)[0]
    sentence = " ".join(sentence.split()).rstrip(".;:")
    if not sentence and name.endswith(".h") and os.path.exists(os.path.join(TOP, folder, name[:-1] + "c")):
        return words_of(folder, name[:-1] + "c")
    if len(sentence) > WORDS_MAX:
        sentence = sentence[:WORDS_MAX].rsplit(" ", 1)[0].rstrip(",;:") + " ..."
    return sentence[:1].lower() + sentence[1:] if sentence[1:2].islower() else sentence


def render():
    lines, last = [HEAD], None
    for folder, name in sources():
        if folder != last:
            lines += ["", f"### `{folder}/`", ""]
            last = folder
        lines.append(f"- `{name}`: {words_of(folder, name)}")
    return "\n".join(lines) + "\n"


def entries(text):
    folder = ""
    for line in text.splitlines():
        m = re.match(r"#+ `([^`]+)/`$", line)
        folder = m[1] if m else folder
        m = re.match(r"- `([^`]+)`: *(.*)", line)
        if m:
            yield (folder, m[1]), m[2]


def main():
    path = os.path.join(TOP, "ARCHITECTURE.md")
    with open(path) as f:
        above, mark, below = f.read().partition(MARK)
    if sys.argv[1:] == ["--write"]:
        with open(path, "w") as f:
            f.write(above.rstrip("\n") + "\n\n" + render())
        return 0
    if not mark:
        print(f"map: ARCHITECTURE.md has no line `{MARK}`", file=sys.stderr)
        return 1
    have, named = set(sources()), dict(entries(below))
    problems = [f"{f}/{n} has no line (tests/lint/map.py --write)" for f, n in sorted(have - set(named))]
    problems += [f"{f}/{n} does not exist" for f, n in sorted(set(named) - have)]
    problems += [f"{f}/{n} says nothing of itself" for (f, n), words in sorted(named.items()) if not words]
    for p in problems:
        print(f"map: {p}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
