#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# cordon-test: timeout=600
"""Skills on a whole plane: trees shaped like public agent skills are added, seen at /skills, executed
and kept apart; and what happens to jobs when a daemon dies, hangs or the catalog changes."""
import hashlib
import json
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cordon import Plane, contains, equal, eventually, main, test

PDF = {
    "SKILL.md": """---
name: pdf-tools
description: |
  Extracts text and tables from PDF files and fills forms.
  Use when the user mentions PDFs, forms or extraction.
license: Complete terms in LICENSE.txt
requiresExecution: true
allowed-tools:
  - Bash(python *)
  - Read
metadata:
  author: example
  version: "1.2"
---

# PDF tools

Run `scripts/extract.py FILE`. For forms read [FORMS.md](references/FORMS.md).
""",
    "LICENSE.txt": "MIT\n",
    "references/FORMS.md": "# Forms\r\n\r\nWindows line ends.\r\n",
    "scripts/extract.py": """#!/usr/bin/env python3
import json, os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from helper import shout
with open(os.path.join(os.path.dirname(__file__), "..", "assets", "template.json")) as f:
    print(shout(json.load(f)["greeting"]), sys.argv[1:])
""",
    "scripts/lib/helper.py": "def shout(text):\n    return text.upper() + '!'\n",
    "assets/template.json": '{"greeting": "hello from the skill"}\n',
    "assets/logo.png": b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40,
}
WEB = {
    "SKILL.md": "---\nname: web-artifacts\ndescription: >-\n  Builds a page out of\n  components.\n---\n# Web\n",
    "package.json": '{"name": "skill", "type": "module"}\n',
    "scripts/build.mjs": """#!/usr/bin/env node
import { readFileSync } from "node:fs";
import { title } from "./lib/title.mjs";
const page = readFileSync(new URL("../templates/page.html", import.meta.url), "utf8");
console.log(page.replace("TITLE", title(process.argv[2])));
""",
    "scripts/lib/title.mjs": "export const title = (t) => `<h1>${t}</h1>`;\n",
    "templates/page.html": "<body>TITLE</body>",
}
SHELL = {
    "SKILL.md": "---\nname: 'Release notes'\ndescription: \"Writes: release notes\"\n---\n",
    "bin/notes": "#!/bin/sh\nset -eu\n. \"$(dirname \"$0\")/../lib/common.sh\"\nfor f in \"$@\"; do say \"$f\"; done\n",
    "lib/common.sh": "say() { printf 'note: %s\\n' \"$1\"; }\n",
    "with space/\u00fcber \u4f60\u597d.md": "unicode and blanks\n",
    "docs/a/b/c/d/deep.txt": "deep\n",
}
EXECUTABLE = ("scripts/extract.py", "scripts/build.mjs", "bin/notes")


def make(plane, name, files):
    base = plane.path("src", name)
    for path, data in files.items():
        full = os.path.join(base, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as f:
            f.write(data.encode() if isinstance(data, str) else data)
        os.chmod(full, 0o755 if path in EXECUTABLE else 0o644)
    return base


def add(plane, name, files, **more):
    done = plane.cordon("skill", "add", make(plane, name, files), "--slug", name, "--json", **more)
    equal(done.status, 0, "skill add %s: %r" % (name, done))
    return done.json


def open_job(plane, *slugs):
    options = [x for s in slugs for x in ("--skill", s)]
    done = plane.cordon("job", "open", "--carrier", "-", "--json", *options, input=plane.seal().encode())
    equal(done.status, 0, "job open: %r" % done)
    return done.json["jobId"]


def sh(plane, job, command, **more):
    return plane.cordon("job", "exec", job, "-c", command, **more)


def roles(plane):
    """{'server': pid, 'stager': pid} below the keeper."""
    keeper = plane.pid("skills")
    found = {}
    with open("/proc/%d/task/%d/children" % (keeper, keeper)) as f:
        for pid in map(int, f.read().split()):
            with open("/proc/%d/cmdline" % pid) as c:
                found[c.read().split("\0")[1]] = pid
    return found


@test
def skills_shaped_like_public_ones_run():
    with Plane(image="debian") as p:
        trees = {"pdf-tools": PDF, "web-artifacts": WEB, "release.notes_1": SHELL}
        for name, files in trees.items():
            link = os.path.join(make(p, name, files), "README.md")
            os.symlink("SKILL.md", link)
            added = add(p, name, files)
            equal((added["files"], added["links"]), (len(files), 1), name)
            equal(added["requiresExecution"], name == "pdf-tools", name)
        listed = {x["slug"]: x for x in p.cordon("skill", "list", "--json").json}
        contains(listed["pdf-tools"]["description"], "Use when the user mentions PDFs")
        equal(listed["web-artifacts"]["description"], "Builds a page out of components.", "folded")
        equal(listed["release.notes_1"]["name"], "Release notes", "quoted")
        equal(p.cordon("skill", "verify").status, 0, "verified")
        all_three = [x for n in trees for x in ("--skill", n)]
        got = p.run(*all_three, "--", "/skills/pdf-tools/scripts/extract.py", "a file.pdf")
        equal((got.status, got.text), (0, "HELLO FROM THE SKILL! ['a file.pdf']\n"), got.error)
        got = p.run(*all_three, "--", "/skills/web-artifacts/scripts/build.mjs", "Title")
        equal((got.status, got.text), (0, "<body><h1>Title</h1></body>\n"), got.error)
        got = p.run(*all_three, "--", "node", "/skills/web-artifacts/scripts/build.mjs", "T")
        equal(got.text, "<body><h1>T</h1></body>\n", got.error)
        got = p.run(*all_three, "--", "/skills/release.notes_1/bin/notes", "one", "two three")
        equal(got.text, "note: one\nnote: two three\n", got.error)
        got = p.sh("cd /skills/release.notes_1 && cat */*\\ *.md 'with space/'*", *all_three)
        equal(got.text, "unicode and blanks\n" * 2, got.error)
        got = p.sh("cd /skills && find . -type f -print0 | sort -z | xargs -0 sha256sum", *all_three)
        want = sorted((hashlib.sha256(d.encode() if isinstance(d, str) else d).hexdigest(), "./%s/%s" % (n, f))
                      for n, files in trees.items() for f, d in files.items())
        seen = sorted(tuple(l.split("  ", 1)) for l in got.text.splitlines())
        equal(seen, want, "every byte of every file")
        # What people do with skills: copy, import, grep, run a copy, read through the link.
        got = p.sh("cp -a /skills/pdf-tools . && cd pdf-tools && echo x >> SKILL.md && scripts/extract.py && "
                   "rg -l requiresExecution /skills && python3 -c \"import sys; "
                   "sys.path.insert(0, '/skills/pdf-tools/scripts/lib'); import helper; print(helper.shout('a'))\" && "
                   "head -2 /skills/web-artifacts/README.md && jq -r .greeting /skills/pdf-tools/assets/template.json",
                   *all_three)
        equal(got.status, 0, got.error)
        for part in ("HELLO FROM THE SKILL! []", "/skills/pdf-tools/SKILL.md", "A!", "name: web-artifacts",
                     "hello from the skill"):
            contains(got.text, part)


@test
def a_job_sees_its_skills_read_only_and_nothing_else():
    with Plane() as p:
        for name in ("alpha", "beta"):
            add(p, name, {"SKILL.md": name, "run.sh": "#!/bin/sh\necho $0\n"})
        equal(p.sh("ls /skills", "--skill", "alpha").text, "alpha\n", "one")
        equal(p.sh("ls /skills", "--skill", "beta", "--skill", "alpha").text, "alpha\nbeta\n", "both")
        got = p.sh("ls -A /skills; cat /skills/alpha/SKILL.md")
        equal((got.text, got.status != 0), ("", True), "none without asking")
        equal("/skills" in p.sh("cat /proc/self/mountinfo").text, False, "nor a mount")
        got = p.sh("for p in /skills/beta /skills/../v1 /skills/v1 /skills/v2 /skills/../beta; do "
                   "test -e $p && echo $p; done; cat /skills/alpha/SKILL.md", "--skill", "alpha")
        equal(got.text, "alpha", "only its own")
        got = p.sh("cd /skills/alpha; for c in 'touch x' 'echo x > SKILL.md' 'rm SKILL.md' 'mkdir d' 'chmod 777 SKILL.md' "
                   "'mv SKILL.md y' 'ln SKILL.md z' 'ln -s a b' 'touch SKILL.md' 'truncate -s 0 SKILL.md'; do "
                   "sh -c \"$c\" 2>&1 | grep -q 'Read-only file system' || echo \"$c\"; done", "--skill", "alpha")
        equal((got.status, got.text), (0, ""), "every write is refused as read-only")
        contains(p.sh("grep ' /skills ' /proc/self/mountinfo", "--skill", "alpha").text, "ro,nosuid,nodev")
        equal(p.cordon("skill", "verify").status, 0, "unchanged")


@test
def two_jobs_at_once_see_each_its_own_view_and_nothing_of_the_other():
    """One mount serves both: neither by its path, a way around it, nor by another process (K4)."""
    look = ("ls /skills; read x; for f in /skills/$x/SKILL.md /skills/../skills/$x/SKILL.md "
            "/proc/self/root/skills/$x/SKILL.md /proc/self/cwd/../skills/$x/SKILL.md; do cat \"$f\" 2>&1; done; "
            "find / -xdev -name SKILL.md 2>/dev/null; find /skills -name SKILL.md; ls -a /skills/..; "
            "cat /proc/self/mountinfo")
    with Plane() as p:
        trees = {name: {"SKILL.md": "---\nname: %s\ndescription: x\n---\nsecret-of-%s\n" % (name, name)}
                 for name in ("one", "two", "both")}
        for name, files in trees.items():
            add(p, name, files)
        mine = {"one": ("one", "both"), "two": ("two", "both")}
        running = {}
        for name, slugs in mine.items():
            done = p.cordon("job", "open", "--carrier", "-", "--json",
                            *[x for s in slugs for x in ("--skill", s)],
                            input=p.seal(org="org-%s" % name).encode())
            equal(done.status, 0, done)
            running[name] = p.popen("job", "exec", done.json["jobId"], "--stdin", "-", "-c", look,
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        for name, child in running.items():  # both stand at their `read`
            equal([child.stdout.readline().decode().strip() for _ in range(2)], sorted(mine[name]))
        for name, child in running.items():
            other = "two" if name == "one" else "one"
            seen = child.communicate(other.encode() + b"\n", timeout=60)[0].decode()
            equal(seen.count("secret-of-" + other), 0, seen)
            equal(seen.count("No such file"), 4, seen)
            contains(seen, "/skills/both/SKILL.md")
            assert "/skills/%s/" % other not in seen.split("No such file")[-1], seen
            equal(child.returncode, 0)
        # the control: who is given the other's skill reads it by each of these ways
        job = open_job(p, "one", "two")
        got = p.cordon("job", "exec", job, "--stdin", "-", "-c", look, input=b"two\n")
        equal(got.text.count("secret-of-two"), 4, got)


@test
def what_cannot_be_attached_refuses_the_command():
    with Plane() as p:
        add(p, "there", {"SKILL.md": "x"})
        for slugs, reason in ((["nope"], "staging_failed"), (["there", "nope"], "staging_failed"),
                              (["THERE"], "staging_failed"), (["../there"], "invalid_request"),
                              ([""], "invalid_request"), (["there", "there"], "invalid_request"),
                              (["there@" + "0" * 64], "invalid_request"), (["a\nb"], "invalid_request")):
            got = p.json("echo ran", *[x for s in slugs for x in ("--skill", s)])
            equal((got["decision"], got["reason"], got["stdout"]), ("denied", reason, None), repr(slugs))
        rows = p.cordon("audit", "list", "--all", "--json").json["rows"]
        contains([r["metadata"]["reason"] for r in rows], "staging_failed", "a row of its own")
        done = p.cordon("job", "open", "--carrier", "-", "--skill", "nope", input=p.seal().encode())
        equal(done.status, 125, "job open")
        contains(done.error, "staging_failed: no skill 'nope'")
        job = open_job(p, "there")
        done = p.cordon("job", "exec", job, "--skill", "there", "-c", "true")
        contains(done.error, "invalid_request")
        equal(sh(p, job, "cat /skills/there/SKILL.md").text, "x", "the job is fine")
        status, body = p.api("POST", "/v1/jobs", {"carrier": p.seal(), "skills": ["there"] * 65})
        equal((status, body["reason"]), (400, "invalid_request"), "too many")


@test
def a_running_job_keeps_what_it_started_with():
    with Plane() as p:
        add(p, "s", {"f": "one", "only": "in one"})
        job = open_job(p, "s")
        equal(sh(p, job, "cat /skills/s/f").text, "one", "before")
        add(p, "s", {"f": "two"})
        os.unlink(p.path("src/s/only"))
        add(p, "s", {"f": "three"})
        equal(sh(p, job, "cat /skills/s/f /skills/s/only").text, "onein one", "a new version")
        equal(p.sh("cat /skills/s/f; ls /skills/s", "--skill", "s").text, "threef\n", "new jobs have it")
        equal(p.cordon("skill", "remove", "s").status, 0, "removed")
        equal(sh(p, job, "cat /skills/s/f").text, "one", "removed, and still there")
        contains(p.sh("true", "--skill", "s").error, "staging_failed")
        equal(p.cordon("job", "close", job).status, 0, "closed")


@test
def counts_of_a_job_are_what_the_server_served():
    with Plane() as p:
        add(p, "s", {"a": "x" * 5000, "b": "y" * 7000, "c": "z"})
        job = open_job(p, "s")
        sh(p, job, "cat /skills/s/a /skills/s/b > /dev/null")
        shown = p.api("GET", "/v1/jobs/" + job)[1]["skills"]
        equal((shown["filesLookedUp"], shown["bytesServed"]), (2, 12000), "two files")
        sh(p, job, "cat /skills/s/a > /dev/null")
        shown = p.api("GET", "/v1/jobs/" + job)[1]["skills"]
        equal(shown["bytesServed"], 12000, "from the cache")
        equal(shown["attached"][0]["slug"], "s", "attached")
        other = open_job(p, "s")
        sh(p, other, "true")
        shown = p.api("GET", "/v1/jobs/" + other)[1]["skills"]
        equal((shown["filesLookedUp"], shown["bytesServed"]), (0, 0), "another job's are its own")


@test
def damage_is_eio_inside_and_an_event_outside():
    with Plane() as p:
        add(p, "s", {"bad": "b" * 100000, "good": "g" * 100000})
        blob = p.path("var/lib/cordon/skills/blobs", hashlib.sha256(b"b" * 100000).hexdigest())
        with open(blob, "r+b") as f:
            f.seek(50000)
            f.write(b"X")
        got = p.sh("cat /skills/s/bad > /dev/null; wc -c < /skills/s/good", "--skill", "s")
        contains(got.error, "I/O error" if "I/O error" in got.error else "Input/output error")
        equal(got.text.strip(), "100000", "the other file")
        contains(p.log, "skill_corrupt slug=s path=bad")


@test
def a_killed_server_ends_no_job():
    with Plane() as p:
        add(p, "s", {"f": "data", "g": "later"})
        job = open_job(p, "s")
        equal(sh(p, job, "cat /skills/s/f").text, "data", "before")
        for role in ("server", "stager", None):
            runner = p.popen("run", "--skill", "s", "-c",
                             "cat /skills/s/f; echo; sleep 2; cat /skills/s/f /skills/s/g", stdout=subprocess.PIPE)
            runner.stdout.readline()
            before = p.daemons()["skills"][2]
            os.kill(roles(p)[role] if role else p.pid("skills"), signal.SIGKILL)
            equal(runner.communicate(timeout=60)[0], b"datalater", "a running command (%s)" % role)
            eventually(lambda: p.daemons()["skills"][2] > before and p.daemons()["skills"][1], "started again", 10)
            equal(sh(p, job, "cat /skills/s/f /skills/s/g").text, "datalater", "an open job")
            equal(p.sh("cat /skills/s/g", "--skill", "s").text, "later", "a new one")
        equal(p.cordon("job", "close", job).status, 0, "closed")


@test
def a_stopped_server_is_replaced_and_a_kill_works():
    with Plane() as p:
        big = {"f%d" % i: os.urandom(1 << 20) for i in range(20)}
        add(p, "s", big)
        # Readers keep it at work, so that a stop finds it with requests in hand.
        loop = "while :; do cat /skills/s/* > /dev/null; done"
        job = open_job(p, "s")
        runner = p.popen("job", "exec", job, "-c", "echo up; " + loop, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        equal(runner.stdout.readline(), b"up\n")  # a slot alone is no command: the kill would find none
        before = p.daemons()["skills"][2]
        os.kill(roles(p)["server"], signal.SIGSTOP)
        p.cordon("job", "kill", job)
        began = time.monotonic()
        runner.wait(30)
        eventually(lambda: p.daemons()["skills"][2] > before and p.daemons()["skills"][1], "replaced", 15)
        if time.monotonic() - began > 12:
            raise AssertionError("the kill took %.1f s" % (time.monotonic() - began))
        contains(p.log, "the server does not answer")
        got = p.sh("cat /skills/s/* | sha256sum", "--skill", "s")
        want = hashlib.sha256(b"".join(big[k] for k in sorted(big))).hexdigest()
        equal(got.text.split()[0], want, "and it serves")


@test
def jobs_go_on_after_a_worker_or_a_broker_died():
    with Plane() as p:
        add(p, "s", {"f": "one"})
        job = open_job(p, "s")
        equal(sh(p, job, "cat /skills/s/f").text, "one", "before")
        add(p, "s", {"f": "two"})
        for daemon in ("worker", "broker"):
            before = p.daemons()[daemon][2]
            p.kill(daemon)
            eventually(lambda: p.daemons()[daemon][2] > before, "restarted", 20)
            p.wait_ready()
            got = sh(p, job, "cat /skills/s/f")
            equal((got.status, got.text), (0, "one"), "after the %s: %r" % (daemon, got))
            equal(p.sh("cat /skills/s/f", "--skill", "s").text, "two", "a new job")
        equal(p.cordon("job", "close", job).status, 0, "closed")


@test
def staging_over_the_socket_is_the_admins():
    with Plane() as p:
        from skills_rig import stream
        status, body = p.api("POST", "/v1/skills", stream("ok", [("f", b"x")]))
        equal((status, body["slug"]), (201, "ok"), "positive control")
        for data in (b"", b"nonsense", stream("ok", [("../f", b"x")]), stream("ok", [("f", b"x")])[:-1]):
            status, body = p.api("POST", "/v1/skills", data)
            equal(body["reason"], "staging_failed", repr(data)[:60])
        equal(p.api("DELETE", "/v1/skills/nope")[1]["reason"], "staging_failed", "not there")
        equal(p.api("DELETE", "/v1/skills/ok?digest=00")[1]["reason"], "invalid_request", "no digest")
        equal(p.api("DELETE", "/v1/skills/ok")[0], 200, "removed")
        big = stream("big", [("f%d" % i, os.urandom(1 << 20)) for i in range(40)])
        status, body = p.api("POST", "/v1/skills", big)
        equal((status, body["bytes"]), (201, 40 << 20), "a large one")
        # A client that goes away in the middle leaves nothing.
        store = p.path("var/lib/cordon/skills")
        names = sorted(os.listdir(store + "/blobs"))
        import socket
        s = socket.socket(socket.AF_UNIX)
        s.connect(p.socket)
        half = stream("half", [("f%d" % i, os.urandom(1 << 20)) for i in range(10)])
        s.sendall(b"POST /v1/skills HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(half) + half[:5 << 20])
        time.sleep(0.3)
        s.close()
        eventually(lambda: not [n for n in os.listdir(store) if n.startswith("room.")], "the room is gone", 10)
        equal(sorted(os.listdir(store + "/blobs")), names, "and so is what was in it")
        equal("half" in open(store + "/catalog").read(), False, "the catalog")


@test
def who_may_not_look_at_the_store_is_shown_it_by_the_plane():
    with Plane(peers="uid:12345 runner local self") as p:
        data = os.urandom(50000)
        add(p, "s", {"SKILL.md": "---\nname: n\ndescription: d\n---\n", "bin": data, "dir/t": "text"})
        status, body = p.api("GET", "/v1/skills")
        equal((status, [x["slug"] for x in body["skills"]]), (200, ["s"]), "list")
        equal(len(p.api("GET", "/v1/skills/s")[1]["entries"]), 3, "show")
        equal(p.api("GET", "/v1/skills/s/content?path=dir%2Ft")[1]["data"], "text", "read")
        for path, reason in (("/v1/skills/nope", "invalid_request"), ("/v1/skills/s/content", "invalid_request"),
                             ("/v1/skills/s/content?path=nope", "invalid_request"),
                             ("/v1/skills/s/content?path=..%2F..%2Fcatalog", "invalid_request"),
                             ("/v1/skills/s/content?path=dir", "invalid_request"),
                             ("/v1/skills?all=2", "invalid_request")):
            equal(p.api("GET", path)[1]["reason"], reason, path)
        os.chmod(p.socket, 0o666)

        def other(*args):
            return p.cordon(*args, user=12345, group=12345, extra_groups=[])

        got = other("skill", "list", "--json")
        equal((got.status, [x["slug"] for x in got.json]), (0, ["s"]), got.error)
        equal(other("skill", "read", "s", "bin").out, data, "binary")
        equal(other("skill", "read", "s", "dir/t").text, "text", "text")
        equal(len(other("skill", "show", "s", "--json").json["entries"]), 3, "show")
        for args in (("read", "s", "../s/SKILL.md"), ("read", "s", "nope"), ("read", "nope", "x"), ("verify",),
                     ("remove", "s"), ("add", p.path("src/s"))):
            got = other("skill", *args)
            equal((got.status != 0, got.out), (True, b""), repr(args))
        equal(p.cordon("skill", "verify").status, 0, "unharmed")


@test
def attaching_while_the_rollout_is_off_is_advised_against_and_nothing_more():
    with Plane(up=False, rollout="off") as p:
        add(p, "runs", {"SKILL.md": "---\nname: n\ndescription: d\nrequiresExecution: true\n---\n"})
        add(p, "reads", {"SKILL.md": "---\nname: n\ndescription: d\n---\n"})
        got = p.run("--skill", "runs", "--skill", "reads", "--", "true")
        contains(got.error, "warning: runs: ")
        equal("warning: reads" in got.error, False, "only the one that requires it")
        contains(got.error, "cordon: plane_disabled")


@test
def a_plane_that_is_taken_down_leaves_nothing():
    with Plane() as p:
        add(p, "s", {"f": "x"})
        job = open_job(p, "s")
        equal(sh(p, job, "cat /skills/s/f").text, "x", "used")
        with open("/proc/self/mountinfo") as f:
            equal(p.root in f.read(), False, "the host sees no mount while it runs")
        p.kill("cordond")
        time.sleep(0.5)
        p.up()
        equal(p.sh("cat /skills/s/f", "--skill", "s").text, "x", "after cordond was killed")
        p.down()
        equal(p.left_behind(), [], "left behind")


main()
