#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The README's first steps do what they say, line by line, over the Debian image."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cordon import BIN, STORE, TOP, Plane, contains, equal, image, main, run, test  # noqa: E402


def first_steps():
    with open(os.path.join(TOP, "README.md")) as f:
        text = f.read()
    block = text.split("## First steps\n", 1)[1].split("\n## ", 1)[0]
    return [line.strip() for line in re.findall(r"^    (.*)$", block, re.M)]


@test
def the_two_commands_come_first_and_exist():
    with open(os.path.join(TOP, "README.md")) as f:
        head = f.read().split("\n\n")
    equal([x.split("#")[0].strip() for x in head[1].splitlines()], ["make run", "make check"])
    with open(os.path.join(TOP, "Makefile")) as f:
        targets = f.read()
    for target in ("run", "check"):
        assert re.search("^%s:" % target, targets, re.M), target


@test
def the_first_steps_do_what_they_say():
    image("debian")
    outputs = {}
    with Plane(up=False, image=None, rollout=None, conf="image_store = %s\n" % STORE) as p:
        env = dict(p.env, CORDON_ROOT=p.root, PATH=BIN + ":" + p.env["PATH"], HOME=p.root)
        for line in first_steps():
            command = line.replace("/etc/cordon/cordon.conf", p.conf)
            done = run(["bash", "-c", command], env=env, timeout=1200, cwd=p.root)
            expected = re.search(r"exit (\d+)'", line)
            equal(done.status, int(expected[1]) if expected else 0, "%s: %r" % (line, done))
            outputs[line] = done
        equal(p.left_behind(), [])
    for line, done in outputs.items():
        if "6 * 7" in line:
            equal(done.text, "42\n")
        if "cat file" in line:
            equal(done.text, "hello\n")
        if "git apply" in line:
            equal(done.text, "6\n", "the diff mends the project outside")
        if "--json" in line:
            equal((done.json["exitCode"], done.json["untrusted"]), (3, True))
        if "audit list" in line:
            contains(done.text, "allowed")
    assert len(outputs) > 8, "the block was found"


if __name__ == "__main__":
    main()
