#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The two file sandboxes (K6): what is inside is decided by where a path really leads, deny wins,
names of one file are one file, outside is refused and never called missing; and the set skills are
loaded from and the set a model may use give each other nothing."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cordon import CORDON, contains, equal, main, run, test
from skills_rig import libc, private_mounts, umount

REFUSED, MISSING = 125, 1
SKILL = "---\nname: n\ndescription: d\n---\n"


class Place:
    def __enter__(self):
        self.root = os.path.realpath(tempfile.mkdtemp(prefix="cdn-", dir="/tmp"))
        os.makedirs(self.p("etc/cordon"))
        for d in ("work", "work/sub", "secret", "work/denied", "skills/one", "plugin/good/skill-a"):
            os.makedirs(self.p(d))
        for path, text in (("work/file", "inside"), ("work/sub/deep", "deep"), ("secret/key", "TOPSECRET"),
                           ("work/denied/d", "DENIED"), ("skills/one/SKILL.md", SKILL),
                           ("plugin/good/skill-a/SKILL.md", SKILL), ("plain", "OUTSIDE")):
            self.write(path, text)
        self.conf(file_allow=self.p("work"), file_deny=self.p("work/denied"), skill_roots=self.p("skills"))
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.root, ignore_errors=True)

    def p(self, *parts):
        return os.path.join(self.root, *parts)

    def write(self, path, text):
        with open(self.p(path), "w") as f:
            f.write(text)

    def conf(self, **keys):
        self.write("etc/cordon/cordon.conf", "".join("%s = %s\n" % k for k in keys.items()))

    def cordon(self, *args, **more):
        return run([CORDON, "--root", self.root] + list(args), **more)

    def read(self, path, status=0, text=None):
        got = self.cordon("file", "read", self.p(path) if not path.startswith("/") else path)
        equal(got.status, status, "read %s: %r" % (path, got))
        if status == REFUSED:
            contains(got.error, "cordon: capability_denied: ")
        if status:
            equal(got.out, b"", "not a byte")
        if text is not None:
            equal(got.text, text, path)
        return got


@test
def what_is_inside_is_read_written_listed_and_searched():
    with Place() as x:
        x.read("work/file", 0, "inside")
        x.read("work/./sub/../sub//deep", 0, "deep")
        equal(x.cordon("file", "read", "sub/deep", cwd=x.p("work")).text, "deep", "relative to the caller")
        equal(x.cordon("file", "write", x.p("work/new"), data=b"written").status, 0, "new")
        equal(x.cordon("file", "write", x.p("work/file"), data=b"again").status, 0, "replaced")
        x.read("work/new", 0, "written")
        x.read("work/file", 0, "again")
        os.chmod(x.p("work/file"), 0o750)
        x.cordon("file", "write", x.p("work/file"), data=b"third")
        equal(os.stat(x.p("work/file")).st_mode & 0o777, 0o750, "its mode stays")
        names = [r["name"] for r in x.cordon("file", "list", x.p("work"), "--json").json]
        equal(names, ["file", "new", "sub"], "listed, without what is denied")
        deep = [r["name"] for r in x.cordon("file", "list", "-r", x.p("work"), "--json").json]
        equal(deep, ["file", "new", "sub", "sub/deep"], "recursively")
        found = x.cordon("file", "search", "deep", "--json").json
        equal([(h["path"], h["line"]) for h in found["hits"]], [(x.p("work/sub/deep"), 1)], "found")
        equal(x.cordon("file", "search", "DENIED", "--json").json["hits"], [], "never in what is denied")
        got = x.cordon("file", "read", x.p("work/file"), "--json").json
        equal((got["data"], got["untrusted"]), ("third", True), "marked untrusted")
        with open(x.p("work/bin"), "wb") as f:
            f.write(b"\xff\0\xfe")
        equal(x.cordon("file", "read", x.p("work/bin")).out, b"\xff\0\xfe", "binary")
        equal(x.cordon("file", "read", x.p("work/bin"), "--json").json["dataB64"], "/wD+", "binary as JSON")


@test
def outside_is_refused_and_never_missing():
    with Place() as x:
        for path in ("secret/key", "secret/nothing", "plain", "nothing-at-all", "secret", "/etc/passwd",
                     "/nonexistent/a/b", "/", "work/../secret/key", "work/../plain", "work/sub/../../plain",
                     "work/nothing/../../plain", "workaround", "work/../work/../secret/nothing",
                     "work/denied/d", "work/denied/nothing", "work/denied", "work/file/../../plain"):
            x.read(path, REFUSED)
            equal(x.cordon("file", "write", x.p(path) if path[0] != "/" else path, data=b"x").status, REFUSED, path)
            equal(x.cordon("file", "list", x.p(path) if path[0] != "/" else path).status, REFUSED, path)
        for path in ("work/nothing", "work/sub/nothing", "work/nothing/x", "work/file/x"):
            x.read(path, MISSING)
        equal(open(x.p("plain")).read(), "OUTSIDE", "untouched")
        x.conf()
        x.read("work/file", REFUSED)


@test
def links_are_where_they_lead():
    with Place() as x:
        links = {"in": "file", "in-dir": "sub", "abs-in": x.p("work/file"), "out": "../secret/key",
                 "abs-out": "/etc/passwd", "out-dir": "../secret", "dangling-out": "../secret/nothing",
                 "dangling-in": "nothing", "to-denied": "denied/d", "loop": "loop", "proc": "/proc/self/root" + x.p("plain"),
                 "round": "sub/../../work/file", "chain": "chain2", "chain2": "out", "up": ".."}
        for name, target in links.items():
            os.symlink(target, x.p("work", name))
        os.symlink(x.p("work"), x.p("door"))
        for path in ("work/in", "work/abs-in", "work/round", "door/file", "work/up/work/file"):
            x.read(path, 0, "inside")
        x.read("work/in-dir/deep", 0, "deep")
        for path in ("work/out", "work/abs-out", "work/out-dir/key", "work/out-dir/nothing", "work/dangling-out",
                     "work/to-denied", "work/proc", "work/chain", "work/up/secret/key", "work/up/nothing",
                     "door/denied/d", "door/out"):
            x.read(path, REFUSED)
            equal(x.cordon("file", "write", x.p(path), data=b"x").status, REFUSED, "write " + path)
        x.read("work/dangling-in", MISSING)
        x.read("work/loop", MISSING)
        equal(x.cordon("file", "write", x.p("work/in"), data=b"through").status, 0, "through a link")
        equal((os.readlink(x.p("work/in")), open(x.p("work/file")).read()), ("file", "through"), "the file, not the link")
        equal(open(x.p("secret/key")).read(), "TOPSECRET", "untouched")
        # Positive control: without the guard the same link does lead out.
        equal(open(x.p("work/out")).read(), "TOPSECRET", "the link")


@test
def every_name_of_a_file_has_to_be_inside():
    with Place() as x:
        os.link(x.p("secret/key"), x.p("work/alias"))
        os.link(x.p("work/denied/d"), x.p("work/alias-of-denied"))
        os.link(x.p("work/file"), x.p("work/sub/alias-inside"))
        x.read("work/alias", REFUSED)
        x.read("work/alias-of-denied", REFUSED)
        x.read("work/sub/alias-inside", 0, "inside")
        for path in ("work/alias", "work/alias-of-denied"):
            equal(x.cordon("file", "write", x.p(path), data=b"x").status, REFUSED, path)
        hits = x.cordon("file", "search", "TOPSECRET", "--json").json["hits"]
        equal(hits, [], "nor is it searched")
        os.unlink(x.p("secret/key"))
        x.read("work/alias", 0, "TOPSECRET")


@test
def deny_wins_over_allow_whichever_is_narrower():
    with Place() as x:
        os.makedirs(x.p("work/denied/inner"))
        x.write("work/denied/inner/f", "f")
        x.conf(file_allow="%s:%s" % (x.p("work"), x.p("work/denied/inner")), file_deny=x.p("work/denied"))
        x.read("work/denied/inner/f", REFUSED)
        x.conf(file_allow=x.p("work"), file_deny="%s:%s" % (x.p("work/file"), x.p("work/later")))
        x.read("work/file", REFUSED)
        x.read("work/later", REFUSED)
        equal(x.cordon("file", "write", x.p("work/later"), data=b"x").status, REFUSED, "not made either")
        x.conf(file_allow=x.p("work"), file_deny=x.root)
        x.read("work/file", REFUSED)
        x.conf(file_allow="/", file_deny=x.p("secret"))
        x.read("plain", 0, "OUTSIDE")
        x.read("secret/key", REFUSED)
        x.read("etc/cordon/cordon.conf", REFUSED)


@test
def a_denied_directory_stays_denied_under_another_name():
    private_mounts()
    with Place() as x:
        os.mkdir(x.p("work/door"))
        if libc.mount(os.fsencode(x.p("work/denied")), os.fsencode(x.p("work/door")), None, 4096, None) < 0:
            raise OSError("bind mount")
        try:
            x.read("work/door/d", REFUSED)
            equal(open(x.p("work/door/d")).read(), "DENIED", "positive control")
            names = [r["name"] for r in x.cordon("file", "list", x.p("work"), "--json").json]
            equal("door" in names, False, "not listed")
        finally:
            umount(x.p("work/door"))


@test
def special_files_are_refused_and_nothing_hangs():
    with Place() as x:
        os.mkfifo(x.p("work/fifo"))
        os.mknod(x.p("work/null"), 0o20666, os.makedev(1, 3))
        for name in ("fifo", "null"):
            x.read("work/" + name, REFUSED)
            equal(x.cordon("file", "write", x.p("work", name), data=b"x", timeout=10).status, REFUSED, name)
        equal(x.cordon("file", "read", x.p("work")).status, MISSING, "a directory is no file")
        equal(x.cordon("file", "write", x.p("work/sub"), data=b"x").status, REFUSED, "nor is it written over")
        equal(x.cordon("file", "write", x.p("work"), data=b"x").status, REFUSED, "nor a root")


@test
def the_configuration_is_read_live():
    with Place() as x:
        x.read("secret/key", REFUSED)
        x.conf(file_allow=x.p("secret"))
        x.read("secret/key", 0, "TOPSECRET")
        x.read("work/file", REFUSED)
        x.conf(file_allow=x.p("not-there"))
        got = x.cordon("file", "read", x.p("work/file"))
        equal(got.status, 1, "a root that is not there is an error")
        contains(got.error, "not-there")
        x.conf(file_allow="relative/path")
        contains(x.cordon("file", "read", x.p("work/file")).error, "not absolute")


@test
def neither_set_adds_anything_to_the_other():
    with Place() as x:
        x.conf(file_allow=x.root, skill_roots=x.p("skills"), skill_plugins=x.p("plugin/good"))
        x.write("plugin/good/cordon-plugin.json", json.dumps({"name": "p", "skills": ["."]}))
        for path in ("skills/one/SKILL.md", "skills/nothing", "plugin/good/skill-a/SKILL.md",
                     "plugin/good/cordon-plugin.json", "plugin/good/new"):
            x.read(path, REFUSED)
            equal(x.cordon("file", "write", x.p(path), data=b"evil").status, REFUSED, path)
        equal(open(x.p("skills/one/SKILL.md")).read(), SKILL, "a skill is never rewritten")
        x.read("plain", 0, "OUTSIDE")
        # A model's directory inside a skill root is still the skills'.
        x.conf(file_allow=x.p("skills/one"), skill_roots=x.p("skills"))
        x.read("skills/one/SKILL.md", REFUSED)
        # And what a model may use is no place to load from.
        x.conf(file_allow=x.p("work"), skill_roots=x.p("skills"))
        x.write("work/SKILL.md", SKILL)
        got = x.cordon("skill", "load", x.p("work"))
        equal(got.status, REFUSED, "load")
        contains(got.error, "capability_denied")


@test
def the_store_is_out_of_reach_of_a_model():
    with Place() as x:
        equal(x.cordon("skill", "add", x.p("skills/one")).status, 0, "added")
        x.conf(file_allow="/")
        for path in ("var/lib/cordon/skills/catalog", "var/lib/cordon/skills/new", "etc/cordon/cordon.conf",
                     "var/lib/cordon/skills/blobs/" + os.listdir(x.p("var/lib/cordon/skills/blobs"))[0]):
            x.read(path, REFUSED)
            equal(x.cordon("file", "write", x.p(path), data=b"evil").status, REFUSED, path)
        equal(x.cordon("skill", "verify").status, 0, "unharmed")


@test
def loading_is_confined_to_the_roots():
    with Place() as x:
        for d in ("skills/two", "outside", "skills/no-skill"):
            os.makedirs(x.p(d))
        x.write("skills/two/SKILL.md", SKILL)
        x.write("outside/SKILL.md", SKILL)
        got = x.cordon("skill", "load")
        equal((got.status, [l.split()[0] for l in got.text.splitlines()]), (0, ["one", "two"]), "all of them")
        equal(x.cordon("skill", "load", x.p("skills/one")).status, 0, "one")
        equal(x.cordon("skill", "load", "one", cwd=x.p("skills")).status, 0, "relative")
        for path in ("outside", "nothing-outside", "skills/../outside", "/etc", "/nonexistent"):
            got = x.cordon("skill", "load", x.p(path) if path[0] != "/" else path)
            equal(got.status, REFUSED, path)
            contains(got.error, "capability_denied")
        got = x.cordon("skill", "load", x.p("skills/nothing"))
        contains(got.error, "staging_failed", "inside it may be missing")
        os.symlink(x.p("outside"), x.p("skills/door"))
        equal(x.cordon("skill", "load", x.p("skills/door")).status, REFUSED, "a link out")
        equal(x.cordon("skill", "load").status, 0, "which is not loaded along with the rest")
        # A file of a skill that has another name outside.
        os.link(x.p("secret/key"), x.p("skills/two/key"))
        got = x.cordon("skill", "load", x.p("skills/two"))
        equal(got.status, REFUSED, "a hard link out")
        contains(got.error, "another name outside")
        os.unlink(x.p("skills/two/key"))
        os.symlink(x.p("secret/key"), x.p("skills/two/key"))
        contains(x.cordon("skill", "load", x.p("skills/two")).error, "absolute", )
        # `skill add` reads with the caller's own rights and knows no roots.
        equal(x.cordon("skill", "add", x.p("outside")).status, 0, "add")


@test
def roots_are_looked_up_at_every_load():
    with Place() as x:
        x.conf(skill_roots="")
        equal(x.cordon("skill", "load").text, "", "none")
        equal(x.cordon("skill", "load", x.p("skills/one")).status, REFUSED, "nothing is inside")
        x.conf(skill_roots=x.p("skills"))
        equal(x.cordon("skill", "load", x.p("skills/one")).status, 0, "now it is")
        x.conf(skill_roots=x.p("gone"))
        got = x.cordon("skill", "load")
        equal(got.status != 0, True, "a root that is not there is not an empty one")
        contains(got.error, "gone")


@test
def a_plugin_adds_roots_only_inside_itself():
    with Place() as x:
        x.conf(skill_plugins=x.p("plugin/good"))

        def declare(*skills):
            x.write("plugin/good/cordon-plugin.json", json.dumps({"skills": list(skills)}))
            return x.cordon("skill", "load", x.p("plugin/good/skill-a"))

        os.symlink("/etc", x.p("plugin/good/etc"))
        os.symlink("../..", x.p("plugin/good/up"))
        os.symlink("skill-a", x.p("plugin/good/alias"))
        equal(declare(".").status, 0, "its own directory")
        for bad in ("..", "../..", "/etc", "/", "etc", "up", "up/secret", "skill-a/../..", "", "../good/../.."):
            got = declare(".", bad)
            equal(got.status, REFUSED, bad)
        for bad in ([], {}, 7):
            x.write("plugin/good/cordon-plugin.json", json.dumps({"skills": [bad]}))
            equal(x.cordon("skill", "load").status != 0, True, repr(bad))
        os.unlink(x.p("plugin/good/cordon-plugin.json"))
        os.symlink(x.p("secret/key"), x.p("plugin/good/cordon-plugin.json"))
        equal(x.cordon("skill", "load").status != 0, True, "the declaration is a link out")
        # Only the operator names a plugin.
        os.makedirs(x.p("plugin/other/s"))
        x.write("plugin/other/s/SKILL.md", SKILL)
        x.write("plugin/other/cordon-plugin.json", json.dumps({"skills": ["."]}))
        os.unlink(x.p("plugin/good/cordon-plugin.json"))
        declare(".")
        equal(x.cordon("skill", "load", x.p("plugin/other/s")).status, REFUSED, "another plugin")


@test
def a_directory_swapped_for_a_link_gives_nothing_away():
    with Place() as x:
        os.makedirs(x.p("work/flip"))
        x.write("work/flip/key", "harmless")
        stop = threading.Event()

        def flip():
            while not stop.is_set():
                os.rename(x.p("work/flip"), x.p("work/.real"))
                os.symlink(x.p("secret"), x.p("work/flip"))
                os.unlink(x.p("work/flip"))
                os.rename(x.p("work/.real"), x.p("work/flip"))

        t = threading.Thread(target=flip)
        t.start()
        seen = set()
        try:
            end = time.monotonic() + 6
            # The control too: a slow build has few tries, and most of them meet the link.
            while time.monotonic() < end or "harmless" not in seen and time.monotonic() < end + 60:
                got = x.cordon("file", "read", x.p("work/flip/key"))
                seen.add(got.text)
                x.cordon("file", "write", x.p("work/flip/new"), data=b"w")
        finally:
            stop.set()
            t.join()
        equal(seen - {"", "harmless"}, set(), "what came out")
        equal(os.listdir(x.p("secret")), ["key"], "what went in")
        contains(seen, "harmless")


main()
