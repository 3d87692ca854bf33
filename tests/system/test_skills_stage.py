#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# cordon-test: timeout=400
"""Staging (K1, K2): what a hostile tree, stream or JSON may and may not bring into the catalog, by
the three ways there are: the stream itself, `skill add DIR`, `skill add --json -`. A refusal is
whole: it names the path and leaves the store as it was."""
import base64
import hashlib
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cordon import CORDON, contains, equal, main, run, test
from skills_rig import K_STAGE, Refused, Skills, record, send, stream


def tree(path):
    out = {}
    for base, dirs, files in os.walk(path):
        for name in dirs + files:
            full = os.path.join(base, name)
            st = os.lstat(full)
            with open(full, "rb") if os.path.isfile(full) else open(os.devnull, "rb") as f:
                out[os.path.relpath(full, path)] = (st.st_mode, hashlib.sha256(f.read()).hexdigest())
    out.pop("lock", None)
    return out


def refused(s, data, words):
    """The stream is refused with @words in the text, and nothing has changed."""
    before = tree(s.store)
    try:
        s.stage_bytes(data)
    except Refused as e:
        for w in words if isinstance(words, (list, tuple)) else [words]:
            contains(e.text, w, "the refusal")
        equal(tree(s.store), before, "the store after a refusal (%s)" % e.text)
        return
    raise AssertionError("accepted; wanted a refusal with %r" % (words,))


def wrap(records, slug=b"x", count=None):
    n = len(records) if count is None else count
    return (b"CORDSKL1" + struct.pack(">H", len(slug)) + slug + b"".join(records) +
            struct.pack(">BBHIQ32s", 255, 0, 0, 0, n, b"\0" * 32))


GOOD = ("good.md", b"fine")


@test
def what_is_right_is_accepted():
    with Skills() as s:
        cases = [
            ("a", [("f", b"")]),
            ("0", [("f", b"x")]),
            ("A.b_c-d", [("f", b"x", 0o755), ("g/h/i", b"y" * 100000)]),
            ("s" * 255, [("f", b"x")]),
            ("crlf", [("SKILL.md", b"---\r\nname: c\r\ndescription: d\r\n---\r\n"), ("a.txt", b"1\r\n2\r\n")]),
            ("case", [("README", b"1"), ("readme", b"2"), ("Readme/x", b"3")]),
            ("forms", [("caf\u00e9", b"nfc"), ("cafe\u0301", b"nfd")]),
            ("bytes", [(b"\xff\xfe", b"not utf-8"), (b"a\nb", b"newline")]),
            ("names", [("n" * 255, b"x"), ("/".join(["d"] * 2047) + "/f", b"deep")]),
            ("links", [("f", b"x"), ("l", ("link", "f")), ("d/l", ("link", "../f")),
                       ("d/up", ("link", "..")), ("dangling", ("link", "not/there")),
                       ("odd", ("link", ".//d/./../f")), ("d/e/l", ("link", "../up/d/l"))]),
            ("same", [("one", b"twice the same"), ("two", b"twice the same")]),
            ("dots", [("...", b"x"), ("..a", b"y"), ("a..", b"z"), (".hidden/.git/hooks/x", b"h")]),
        ]
        for slug, files in cases:
            s.stage(slug, files)
            v = s.view([slug])
            for item in files:
                path = os.fsencode(v.path) + b"/" + os.fsencode(slug) + b"/" + os.fsencode(item[0])
                if len(path) > 4000:
                    continue
                if isinstance(item[1], tuple):
                    equal(os.readlink(path), os.fsencode(item[1][1]), "link")
                else:
                    with open(path, "rb") as f:
                        equal(f.read(), item[1], repr(item[0])[:80])
            v.close()


@test
def unsafe_paths_are_refused_by_name():
    bad = {
        b"../x": "'.' or '..'", b"a/../b": "'.' or '..'", b"a/..": "'.' or '..'", b"..": "'.' or '..'",
        b".": "'.' or '..'", b"./a": "'.' or '..'", b"a/./b": "'.' or '..'",
        b"/etc/passwd": "absolute", b"/": "absolute", b"//x": "absolute",
        b"": "empty", b"a//b": "empty", b"a/": "empty",
        b"a\\b": "backslash", b"..\\..\\x": "backslash", b"\\": "backslash", b"C:\\x": "backslash",
        b"a\0b": "NUL", b"\0": "NUL", b"a\0/../../x": "NUL",
        b"n" * 256: "255 bytes", b"d/" + b"n" * 256 + b"/f": "255 bytes",
        b"/".join([b"d"] * 2048) + b"/f": "4095 bytes",
    }
    with Skills() as s:
        s.stage("x", [GOOD])
        for path, words in bad.items():
            shown = ["unsafe path"] + ([] if len(path) > 100 or not path.isascii() else
                                       [path.decode().split("\0")[0][:20]])
            refused(s, wrap([record(1, b"before", b"1"), record(1, path, b"evil")]), [words] + shown)
            refused(s, wrap([record(2, path, b"before")]), words)
        # The spellings that only look like it are names.
        s.stage("x", [(b"%2e%2e", b"1"), (b"..%2f", b"2"), ("\uff0e\uff0e", b"3"), (b"a:b", b"4"),
                      (b" ", b"5"), (b"\xc0\xae\xc0\xae", b"6")])


@test
def unsafe_slugs_are_refused():
    with Skills() as s:
        for slug in (b".", b"..", b".a", b"-a", b"_a", b"a/b", b"a b", b"a\0", b"a\n", b"\xc3\xa9",
                     b"a\\b", b"a@b", b"a" * 256, b"a%2fb"):
            refused(s, wrap([record(1, b"f", b"x")], slug), "slug")
        refused(s, b"CORDSKL1\0\0" + wrap([record(1, b"f", b"x")])[11:], "slug")


@test
def slugs_are_unique_whatever_their_case():
    with Skills() as s:
        s.stage("Skill", [GOOD])
        for other in ("skill", "SKILL", "sKiLL"):
            refused(s, stream(other, [GOOD]), ["differs from 'Skill' in case alone"])
        s.stage("Skill", [("f", b"another version")])
        s.stage("Skill2", [GOOD])
        s.drop("Skill")
        s.stage("skill", [GOOD])


@test
def a_digest_that_does_not_match_refuses_everything():
    with Skills() as s:
        good = record(1, b"a", b"content")
        for wrong in (b"\0" * 32, hashlib.sha256(b"other").digest(),
                      bytes([hashlib.sha256(b"evil").digest()[0] ^ 1]) + hashlib.sha256(b"evil").digest()[1:]):
            refused(s, wrap([good, record(1, b"b/evil", b"evil", wrong), record(1, b"c", b"more")]),
                    ["digest mismatch", "b/evil"])
        refused(s, wrap([good, record(2, b"l", b"a", b"\1" * 32)]), ["digest mismatch", "'l'"])
        big = os.urandom(300000)
        refused(s, wrap([record(1, b"big", big, hashlib.sha256(big[:-1]).digest())]), "digest mismatch")
        equal(os.path.exists(s.blob(b"content")), False, "the good one is not kept either")


@test
def duplicates_and_collisions_are_refused():
    with Skills() as s:
        one, two = record(1, b"a/b", b"1"), record(1, b"a/b", b"2")
        refused(s, wrap([one, two]), ["duplicate path", "a/b"])
        refused(s, wrap([one, one]), ["duplicate path", "a/b"])
        refused(s, wrap([one, record(2, b"a/b", b"x")]), "duplicate path")
        refused(s, wrap([record(1, b"a", b"1"), record(1, b"a/b", b"2")]), ["both a file and a directory", "'a'"])
        refused(s, wrap([record(1, b"a/b/c", b"1"), record(1, b"a/b", b"2"), record(1, b"a!", b"3")]),
                ["both a file and a directory", "a/b"])
        refused(s, wrap([record(2, b"a", b"x"), record(1, b"a/b", b"2")]), "both a file and a directory")
        refused(s, wrap([]), "no file")


@test
def links_stay_inside():
    def link(path, target):
        return record(2, path, target)

    d = record(1, b"d/f", b"x")
    with Skills() as s:
        for target, words in ((b"/etc/passwd", "absolute"), (b"/", "absolute"), (b"", "no target"),
                              (b"a\0b", "NUL"), (b"a\\b", "backslash"), (b"t" * 4096, "")):
            refused(s, wrap([d, link(b"l", target)]), words)
        for target in (b"..", b"../x", b"d/../../x", b"a/b/../../../x", b"./..", b"d/..//../x",
                       b"missing/../../x", b"d/f/../../../x", b"../x/d"):
            refused(s, wrap([d, link(b"l", target)]), ["unsafe path 'l'", "leaves the skill"])
        refused(s, wrap([d, link(b"d/l", b"../..")]), "leaves the skill")
        # Inside by its letters, outside by the links it leads through.
        refused(s, wrap([link(b"x/y/up", b"../.."), link(b"x/y/l", b"up/../etc"), record(1, b"x/y/f", b"x")]),
                ["unsafe path 'x/y/l'", "leaves the skill"])
        refused(s, wrap([link(b"a", b"b"), link(b"b", b"c/.."), link(b"c", b".."), d]), "leaves the skill")
        # Going round for ever is not staying inside.
        refused(s, wrap([link(b"a", b"b"), link(b"b", b"a"), d]), "leaves the skill")
        refused(s, wrap([link(b"a", b"a/x"), d]), "leaves the skill")
        chain = [link(b"l%02d" % i, b"l%02d" % (i + 1)) for i in range(60)] + [record(1, b"l60", b"x")]
        refused(s, wrap(chain), "leaves the skill")
        s.stage_bytes(wrap(chain[25:]))
        # As much work as a stream can ask for ends in bounded time.
        began = time.monotonic()
        busy = [link(b"l%05d" % i, b"d/../" * 800) for i in range(8000)] + [d]
        refused(s, wrap(busy), "leaves the skill")
        if time.monotonic() - began > 60:
            raise AssertionError("links took %.0f s" % (time.monotonic() - began))


@test
def malformed_streams_are_refused():
    good = wrap([record(1, b"f", b"x")])
    with Skills() as s:
        for n in range(0, len(good), 7):
            refused(s, good[:n], "")
        refused(s, good + b"x", "after the end")
        refused(s, b"CORDSKL2" + good[8:], "not a skill")
        refused(s, b"\0" * 1000, "not a skill")
        refused(s, os.urandom(5000), "")
        refused(s, wrap([record(1, b"f", b"x")], count=2), "counts")
        refused(s, wrap([record(1, b"f", b"x")], count=0), "counts")
        for kind in (0, 3, 4, 100, 254):
            refused(s, wrap([record(kind, b"f", b"x")]), "")
        head = bytearray(record(1, b"f", b"x"))
        head[1] = 2  # neither executable nor not
        refused(s, wrap([bytes(head)]), "malformed")
        head = bytearray(record(1, b"f", b"x"))
        head[4] = 1
        refused(s, wrap([bytes(head)]), "malformed")
        head = bytearray(record(2, b"l", b"f"))
        head[1] = 1
        refused(s, wrap([bytes(head), record(1, b"f", b"x")]), "malformed")
        refused(s, wrap([struct.pack(">BBHIQ32s", 1, 0, 1, 0, 1 << 62, b"\0" * 32) + b"f"]), "4 GiB")
        refused(s, wrap([struct.pack(">BBHIQ32s", 2, 0, 1, 0, 5000, b"\0" * 32) + b"f" + b"t" * 5000]), "")
        s.stage_bytes(good)  # it still works


@test
def a_stager_killed_at_any_moment_leaves_nothing():
    with Skills() as s:
        s.stage("before", [GOOD])
        before = tree(s.store)
        for wait in (0.0, 0.005, 0.02, 0.05, 0.1):
            r, w = os.pipe()
            pid = os.fork()
            if pid == 0:
                os.close(r)
                data = stream("cut", [("f%d" % i, os.urandom(50000)) for i in range(200)])
                try:
                    while data:
                        data = data[os.write(w, data):]
                except OSError:
                    pass
                os._exit(0)
            os.close(w)
            s.req += 1
            send(s.broker, K_STAGE, struct.pack("<Q", s.req), [r])
            os.close(r)
            time.sleep(wait)
            s.restart()
            os.waitpid(pid, 0)
            after = tree(s.store)
            if "cut" not in open(s.store + "/catalog").read():
                equal(after, before, "killed after %g s" % wait)
            s.stage("before", [GOOD])  # and it goes on
            equal([n for n in os.listdir(s.store) if n.startswith("room.")], [], "rooms")


@test
def staging_the_same_again_is_the_same_version():
    with Skills() as s:
        files = [("b", b"2"), ("a", b"1", 0o755), ("c/d", b"3")]
        one = s.stage("x", files)
        equal(s.stage("x", list(reversed(files))), one, "the order they come in says nothing")
        equal(len(open(s.store + "/catalog").read().splitlines()), 2, "one line")
        two = s.stage("x", [("b", b"2"), ("a", b"1"), ("c/d", b"3")])
        if two == one:
            raise AssertionError("a mode makes no difference")
        equal(s.stage("x", files), one, "back to the first")
        contains(open(s.store + "/catalog").read(), "x %s " % one)
        equal([l.split()[3] for l in open(s.store + "/catalog").read().splitlines()[1:]
               if l.split()[1] == one], ["current"], "which is current")
        if s.stage("y", files) == one:
            raise AssertionError("a slug makes no difference")


# --- The command line

class Bare:
    """ROOT without a plane: root stages through the stager itself (R1)."""

    def __enter__(self):
        self.root = os.path.realpath(tempfile.mkdtemp(prefix="cdn-", dir="/tmp"))
        self.store = os.path.join(self.root, "var/lib/cordon/skills")
        self.dir = os.path.join(self.root, "tree")
        os.mkdir(self.dir)
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.root, ignore_errors=True)

    def cordon(self, *args, data=None):
        return run([CORDON, "--root", self.root] + list(args), data=data)

    def write(self, path, data=b"x", mode=0o644):
        full = os.path.join(os.fsencode(self.dir), os.fsencode(path))
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as f:
            f.write(data)
        os.chmod(full, mode)
        return full

    def refused(self, *words, args=None, data=None):
        before = tree(self.store) if os.path.exists(self.store) else {}
        got = self.cordon("skill", "add", *(args or [self.dir]), data=data)
        equal(got.status, 125, "status (%s)" % got.error)
        contains(got.error, "cordon: staging_failed: ")
        for w in words:
            contains(got.error, w)
        after = tree(self.store) if os.path.exists(self.store) else {}
        after = {k: v for k, v in after.items() if k not in ("blobs", "leaves", "manifests")}
        before = {k: v for k, v in before.items() if k not in ("blobs", "leaves", "manifests")}
        equal(after, before, "the store")


@test
def a_directory_is_added_listed_shown_read_and_removed():
    with Bare() as b:
        b.write("SKILL.md", b"---\nname: Tree\ndescription: 'A tree: with colon'\nlicense: MIT\n---\n# hello\n")
        b.write("scripts/run.sh", b"#!/bin/sh\necho ran\n", 0o755)
        b.write("with space/\u00fcml\u00e4ut.txt", b"x")
        os.symlink("scripts/run.sh", b.dir + "/link")
        os.mkdir(b.dir + "/empty")
        added = b.cordon("skill", "add", b.dir, "--slug", "my-tree", "--json")
        equal(added.status, 0, added.error)
        equal((added.json["slug"], added.json["files"], added.json["links"]), ("my-tree", 3, 1), "added")
        equal(b.cordon("skill", "add", b.dir).status, 0, "by its name")
        listed = b.cordon("skill", "list", "--json").json
        equal([x["slug"] for x in listed], ["my-tree", "tree"], "listed")
        equal((listed[0]["name"], listed[0]["description"], listed[0]["license"]),
              ("Tree", "A tree: with colon", "MIT"), "front matter")
        shown = b.cordon("skill", "show", "my-tree", "--json").json
        equal({x["path"]: x.get("mode", x.get("link")) for x in shown["entries"]},
              {"SKILL.md": "0644", "scripts/run.sh": "0755", "link": "scripts/run.sh",
               "with space/\u00fcml\u00e4ut.txt": "0644"}, "entries")
        equal(b.cordon("skill", "read", "my-tree", "scripts/run.sh").out, b"#!/bin/sh\necho ran\n", "read")
        equal(b.cordon("skill", "verify").status, 0, "verify")
        equal(b.cordon("skill", "remove", "my-tree").status, 0, "remove")
        equal([x["slug"] for x in b.cordon("skill", "list", "--json").json], ["tree"], "listed")
        equal(b.cordon("skill", "remove", "my-tree").status, 125, "remove again")
        equal(b.cordon("skill", "read", "my-tree", "SKILL.md").status, 1, "read after")


@test
def what_is_no_file_is_refused_by_name():
    def fifo(b):
        b.write("ok")
        os.mkfifo(b.dir + "/sub.fifo")

    def sock(b):
        s = socket.socket(socket.AF_UNIX)
        s.bind(b.dir + "/a.sock")

    def device(b):
        os.mknod(b.dir + "/null", 0o20666, os.makedev(1, 3))

    def setuid(b):
        b.write("deep/suid", mode=0o4755)

    def setgid(b):
        b.write("sgid", mode=0o2755)

    def sticky(b):
        b.write("sticky", mode=0o1644)

    def outside(b):
        os.symlink("/etc/passwd", b.dir + "/out")

    def above(b):
        os.makedirs(b.dir + "/sub")
        os.symlink("../../etc", b.dir + "/sub/above")

    def unreadable_name(b):
        b.write(b"back\\slash")

    for make, name, words in ((fifo, "sub.fifo", "neither"), (sock, "a.sock", "neither"),
                              (device, "null", "neither"), (setuid, "deep/suid", "set-uid"),
                              (setgid, "sgid", "set-gid"), (sticky, "sticky", "sticky"),
                              (outside, "out", "absolute"), (above, "sub/above", "leaves"),
                              (unreadable_name, "back\\slash", "backslash")):
        with Bare() as b:
            b.write("good")
            make(b)
            b.refused(name, words)


@test
def hard_links_and_odd_names_of_a_directory_are_plain_files():
    with Bare() as b:
        os.link(b.write("one", b"same"), os.fsencode(b.dir) + b"/two")
        for name in (b"\xff\xfe", b"new\nline", b"caf\xc3\xa9", b"cafe\xcc\x81", b"CAF\xc3\x89", b"n" * 255):
            b.write(name, name)
        equal(b.cordon("skill", "add", b.dir, "--slug", "odd").status, 0, "added")
        equal(b.cordon("skill", "verify", "odd").status, 0, "verified")
        equal(b.cordon("skill", "read", "odd", "two").out, b"same", "hard link")
        equal(b.cordon("skill", "read", "odd", b"\xff\xfe").out, b"\xff\xfe", "not utf-8")
        shown = b.cordon("skill", "show", "--json", "odd").json
        equal(len(shown["entries"]), 8, "entries")
        contains([x.get("escapedPath") for x in shown["entries"]], "%FF%FE")


@test
def it_reads_with_the_callers_own_rights():
    with Bare() as b:
        b.write("secret", mode=0o600)
        os.chmod(b.root, 0o755)
        os.chmod(b.dir, 0o755)
        got = subprocess.run([CORDON, "--root", b.root, "skill", "add", b.dir], capture_output=True,
                             text=True, user=12345, group=12345, extra_groups=[])
        if got.returncode == 0:
            raise AssertionError("another user staged root's file")
        equal(os.path.exists(b.store), False, "nothing was made")


def item(path, data, **more):
    x = {"path": path, "data_b64": base64.b64encode(data).decode(), "sha256": hashlib.sha256(data).hexdigest()}
    x.update(more)
    return x


@test
def json_is_read_strictly():
    def body(files, slug="j", **more):
        return json.dumps(dict({"slug": slug, "files": files}, **more)).encode()

    f = item("f", b"x")
    with Bare() as b:
        ok = b.cordon("skill", "add", "--json", "-", data=body([
            f, item("run", b"#!/bin/sh\n", mode="0755"), item("n", b"1", mode=0o755), item("m", b"1", mode=0o644),
            {"path": "l", "link": "f"}, item("empty", b"")]))
        equal(ok.status, 0, ok.error)
        equal((ok.json["files"], ok.json["links"]), (5, 1), "counts")
        modes = {x["path"]: x.get("mode") for x in b.cordon("skill", "show", "--json", "j").json["entries"]}
        equal(modes, {"f": "0644", "run": "0755", "n": "0755", "m": "0644", "l": None, "empty": "0644"}, "modes")
        for data, words in (
                (b"", ""), (b"[]", ""), (b"{}", "files"), (b"nonsense", ""), (body([f]) + b"x", ""),
                (body([f], extra=1), "extra"), (body([dict(f, extra=1)]), "extra"),
                (b'{"slug":"j","slug":"k","files":[]}', ""), (body([]), "no file"),
                (body([{"path": "f"}]), "'f'"), (body([dict(f, mode="0777")]), "mode"),
                (body([dict(f, mode="4755")]), "mode"), (body([dict(f, mode=True)]), "mode"),
                (body([dict(f, mode=0o4755)]), "mode"),
                (body([dict(f, sha256=f["sha256"].upper())]), "sha256"), (body([dict(f, sha256="")]), "sha256"),
                (body([dict(f, sha256="0" * 64)]), "digest mismatch: 'f'"),
                (body([dict(f, data_b64="eA")]), "'f'"), (body([dict(f, data_b64="eA==\n")]), "'f'"),
                (body([dict(f, data_b64="!!!!")]), "'f'"), (body([dict(f, path="../f")]), "'../f'"),
                (body([dict(f, path="a\\b")]), "backslash"), (body([dict(f, path="")]), "empty"),
                (body([dict(f, path="a\0b")]), ""), (body([f, f]), "duplicate path 'f'"),
                (body([f, {"path": "l", "link": "/etc"}]), "absolute"),
                (body([f, {"path": "l", "link": "../x"}]), "leaves the skill"),
                (body([f, {"path": "l", "link": 7}]), "'l'"),
                (body([f, {"path": "l", "link": "f", "mode": "0755"}]), "'l'"),
                (body([f], slug="../x"), "slug"), (body([f], slug=""), "slug"), (body([f], slug="J"), "in case alone"),
                (body([{"path": "f", "data_b64": f["data_b64"]}]), "sha256")):
            b.refused(words, args=["--json", "-"], data=data)


@test
def front_matter_is_strict_and_never_a_refusal():
    with Bare() as b:
        for text, words in ((b"---\nname: [\n---\n", "line"), (b"---\nname: a\nname: b\n---\n", "given twice"),
                            (b"---\nname: a\n", "closing"), (b"---\nname: *x\n---\n", "anchors"),
                            (b"---\nrequiresExecution: yes\n---\n", "requiresExecution"),
                            (b"---\n\tname: a\n---\n", "tab"), (b"---\nname: \xff\n---\n", "UTF-8")):
            b.write("SKILL.md", text)
            got = b.cordon("skill", "add", b.dir, "--slug", "fm")
            equal(got.status, 0, got.error)
            contains(got.error, "warning: SKILL.md line")
            contains(got.error, words)
            one = b.cordon("skill", "list", "--json").json[0]
            equal((one["name"], one["requiresExecution"]), (None, False), "nothing of it is used")
            contains(one["fault"], words)


@test
def the_advice_looks_at_the_rollout_alone():
    with Bare() as b:
        b.write("SKILL.md", b"---\nname: a\ndescription: d\nrequiresExecution: true\n---\n")
        for env, advised in (({}, True), ({"CORDON_ROLLOUT": "on"}, False), ({"CORDON_ROLLOUT": "true"}, True)):
            got = run([CORDON, "--root", b.root, "skill", "add", b.dir], env=dict(os.environ, **env))
            equal(got.status, 0, got.error)
            equal("will not run" in got.error, advised, "rollout %r" % env)
        b.write("SKILL.md", b"---\nname: a\ndescription: d\nrequiresExecution: false\n---\n")
        equal(b.cordon("skill", "add", b.dir).error, "", "nothing to advise")


@test
def the_restricted_reader_reads_one_file_and_nothing_else():
    with Bare() as b:
        b.write("dir/file", b"content")
        b.write("big", os.urandom(3 << 20))
        os.symlink("dir/file", b.dir + "/link")
        equal(b.cordon("skill", "add", b.dir, "--slug", "s").status, 0, "added")
        secret = os.path.join(b.root, "secret")
        with open(secret, "w") as f:
            f.write("secret")
        equal(b.cordon("skill", "read", "s", "dir/file").out, b"content", "positive control")
        equal(len(b.cordon("skill", "read", "s", "big").out), 3 << 20, "more than one chunk")
        for slug, path in (("s", "dir"), ("s", "link"), ("s", "nope"), ("s", "DIR/file"), ("s", "dir/file/x"),
                           ("S", "dir/file"), ("nope", "dir/file"), ("s", "../s/dir/file"), ("s", "/etc/passwd"),
                           ("s", "./dir/file"), ("s", "dir//file"), ("s", ""), ("..", "catalog"), ("", "x"),
                           ("s", "../../../../../../.." + secret), (secret, "x"), ("s/dir", "file"),
                           ("s", "dir\\file"), ("../skills", "catalog")):
            got = b.cordon("skill", "read", slug, path)
            if got.status == 0 or got.out:
                raise AssertionError("read %r %r gives %r" % (slug, path, got))
        blob = os.path.join(b.store, "blobs", hashlib.sha256(b"content").hexdigest())
        with open(blob, "wb") as f:
            f.write(b"CONTENT")
        got = b.cordon("skill", "read", "s", "dir/file")
        equal((got.status, got.out), (1, b""), "damaged: not a byte of it")
        got = b.cordon("skill", "verify", "s")
        equal(got.status, 1, "verify finds it")
        contains(got.error, "s/dir/file")


@test
def damage_anywhere_is_found_by_verify():
    with Bare() as b:
        b.write("small", b"1")
        b.write("large", os.urandom(200000))
        digest = b.cordon("skill", "add", b.dir, "--slug", "v", "--json").json["digest"][7:]
        for folder in ("blobs", "leaves", "manifests"):
            for name in os.listdir(os.path.join(b.store, folder)):
                path = os.path.join(b.store, folder, name)
                with open(path, "rb") as f:
                    data = f.read()
                os.chmod(path, 0o600)
                for bad in (data[:-1], bytes([data[0] ^ 1]) + data[1:], b""):
                    with open(path, "wb") as f:
                        f.write(bad)
                    equal(b.cordon("skill", "verify").status, 1, "%s/%s" % (folder, name))
                with open(path, "wb") as f:
                    f.write(data)
        equal(b.cordon("skill", "verify").status, 0, "put right")
        with open(b.store + "/catalog", "a") as f:
            f.write("zzz nonsense\n")
        equal(b.cordon("skill", "list").status, 1, "a damaged catalog is not an empty one")


main()
