#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Artifacts (W3): a project goes in, work is done on it, a diff comes out; nothing comes by another way."""
import hashlib
import os
import stat
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cordon import Plane, contains, equal, main, test  # noqa: E402

_plane = None


def plane():
    global _plane
    if _plane is None:
        _plane = Plane(egress__maximum="none")
        _plane.__enter__()
    return _plane


def write(path, data=b"", mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data)
    os.chmod(path, mode)


def tree(path):
    """{relative path: bytes, or None for a directory}"""
    found = {}
    for base, directories, files in os.walk(path):
        for name in directories:
            found[os.path.relpath(os.path.join(base, name), path)] = None
        for name in files:
            with open(os.path.join(base, name), "rb") as f:
                found[os.path.relpath(os.path.join(base, name), path)] = f.read()
    return found


def artifact(*args, **more):
    return plane().cordon("artifact", *args, **more)


@test
def a_project_goes_in_and_a_diff_comes_out():
    p = plane()
    with tempfile.TemporaryDirectory() as d:
        write(d + "/project/src/main.sh", b"#!/bin/sh\necho broken\n", 0o755)
        write(d + "/project/README", b"a project\n")
        write(d + "/project/" + "deep/" * 40 + "file", b"deep\n")
        write(d + "/project/empty", b"")
        os.mkdir(d + "/project/void")
        before = tree(d + "/project")
        done = artifact("put", "--run-id", "p1", "--json", d + "/project")
        equal(done.status, 0, done)
        said = {a["path"]: a["sha256"] for a in done.json["artifacts"]}
        equal(said["project/README"], hashlib.sha256(b"a project\n").hexdigest())
        r = p.json("cd project && sed -i s/broken/mended/ src/main.sh && ./src/main.sh && "
                   "printf 'diff of it' > ../out.diff", "--run-id", "p1")
        equal((r["exitCode"], r["stdout"]), (0, "mended\n"))
        done = artifact("get", "--run-id", "p1", "out.diff", d + "/out.diff")
        equal(done.status, 0, done)
        with open(d + "/out.diff", "rb") as f:
            equal(f.read(), b"diff of it")
        done = artifact("get", "--run-id", "p1", "--json", "project", d + "/back")
        equal((done.status, done.json["untrusted"], done.json["origin"]), (0, True, "model"))
        after = tree(d + "/back")
        equal(after.pop("src/main.sh"), b"#!/bin/sh\necho mended\n")
        before.pop("src/main.sh")
        equal(after, before)
        for a in done.json["artifacts"]:
            with open(os.path.join(d, "back", a["path"]), "rb") as f:
                equal(hashlib.sha256(f.read()).hexdigest(), a["sha256"])
        equal(stat.S_IMODE(os.stat(d + "/back/src/main.sh").st_mode), 0o644, "no executable bit")
        equal(artifact("get", "--run-id", "p1", "--keep-exec", "project", d + "/exec").status, 0)
        equal(stat.S_IMODE(os.stat(d + "/exec/src/main.sh").st_mode), 0o755)
        done = artifact("list", "--run-id", "p1", "--json", "project")
        equal({a["path"] for a in done.json["artifacts"]},
              {k for k, v in tree(d + "/back").items() if v is not None})


@test
def a_job_has_artifacts_too():
    p = plane()
    job = p.open_job()
    with tempfile.TemporaryDirectory() as d:
        write(d + "/a.txt", b"x" * 300000)
        equal(artifact("put", "--job", job, d + "/a.txt", "in/here").status, 0)
        equal(p.cordon("job", "exec", job, "-c", "wc -c < in/here/a.txt").text.strip(), "300000")
        equal(artifact("get", "--job", job, "/workspace/in/here/a.txt", d + "/b.txt").status, 0)
        equal(os.path.getsize(d + "/b.txt"), 300000)
        done = artifact("get", "--job", job, ".", d + "/all")
        equal((done.status, os.path.getsize(d + "/all/in/here/a.txt")), (0, 300000))


@test
def links_and_special_files_do_not_go_in():
    with tempfile.TemporaryDirectory() as d:
        write(d + "/t/file", b"x")
        for make in (lambda x: os.symlink("/etc/passwd", x), lambda x: os.link(d + "/t/file", x),
                     os.mkfifo):
            make(d + "/t/thing")
            done = artifact("put", "--run-id", "links", d + "/t")
            equal(done.status, 125)
            contains(done.error, "staging_failed")
            os.unlink(d + "/t/thing")
        os.symlink("t", d + "/link")
        equal(artifact("put", "--run-id", "links", d + "/link").status, 125)
        equal(artifact("list", "--run-id", "links", "--json").json["artifacts"], [],
              "nothing went in")


@test
def links_and_special_files_do_not_come_out():
    p = plane()
    with tempfile.TemporaryDirectory() as d:
        for n, make in enumerate(("ln -s /etc/passwd t/l", "ln -s .. t/l", "ln t/a t/l",
                                  "mkfifo t/l", "ln -s / t/l; touch t/l2")):
            run = "out%d" % n
            equal(p.json("mkdir t; echo x > t/a; " + make, "--run-id", run)["exitCode"], 0)
            done = artifact("get", "--run-id", run, "t", d + "/to")
            equal(done.status, 125, make)
            contains(done.error, "staging_failed")
            equal(os.listdir(d), [], "nothing is left behind")


@test
def tools_planted_in_the_workspace_are_not_asked():
    p = plane()
    plant = ("mkdir -p .local/bin t; echo true > t/f; for x in tar sha256sum find mkdir; do "
             "printf '#!/bin/sh\\necho planted\\n' > .local/bin/$x; chmod +x .local/bin/$x; done; "
             "tar --version")
    equal(p.json(plant, "--run-id", "plant")["stdout"], "planted\n", "a command does meet them")
    with tempfile.TemporaryDirectory() as d:
        equal(artifact("get", "--run-id", "plant", "t", d + "/t").status, 0)
        equal(tree(d + "/t"), {"f": b"true\n"})
        equal(artifact("put", "--run-id", "plant", d + "/t", "again").status, 0)
        done = artifact("list", "--run-id", "plant", "--json", "again")
        equal([a["sha256"] for a in done.json["artifacts"]], [hashlib.sha256(b"true\n").hexdigest()])


@test
def what_tools_would_obey_is_pointed_out():
    p = plane()
    equal(p.json("mkdir -p t/.git/hooks; echo x > t/.git/hooks/pre-commit; echo y > t/main.c; "
                 "echo z > t/.envrc", "--run-id", "hooks")["exitCode"], 0)
    with tempfile.TemporaryDirectory() as d:
        done = artifact("get", "--run-id", "hooks", "t", d + "/t")
        equal(done.status, 0)
        contains(done.error, ".git/hooks/pre-commit")
        contains(done.error, ".envrc")
        equal("main.c" in done.error, False)
        done = artifact("get", "--run-id", "hooks", "--json", "t", d + "/u")
        equal({a["path"]: a["hook"] for a in done.json["artifacts"]},
              {".git/hooks/pre-commit": True, "main.c": False, ".envrc": True})


@test
def what_is_there_is_not_overwritten():
    p = plane()
    equal(p.json("echo new > f", "--run-id", "over")["exitCode"], 0)
    with tempfile.TemporaryDirectory() as d:
        write(d + "/f", b"old")
        equal(artifact("get", "--run-id", "over", "f", d + "/f").status, 125)
        os.symlink("/nowhere/else", d + "/g")
        equal(artifact("get", "--run-id", "over", "f", d + "/g").status, 125)
        equal(sorted(os.listdir(d)), ["f", "g"])
        with open(d + "/f", "rb") as f:
            equal(f.read(), b"old")


@test
def bounds_hold_both_ways():
    p = plane()
    with tempfile.TemporaryDirectory() as d:
        write(d + "/big", b"x" * (2 << 20))
        done = artifact("put", "--run-id", "big", "--max-bytes", "1M", d + "/big")
        equal(done.status, 125)
        contains(done.error, "max-bytes")
        equal(p.json("head -c 2000000 /dev/zero > big", "--run-id", "big")["exitCode"], 0)
        done = artifact("get", "--run-id", "big", "--max-bytes", "1M", "big", d + "/out")
        equal(done.status, 125)
        contains(done.error, "output_cap_exceeded")
        equal(artifact("get", "--run-id", "big", "big", d + "/out").status, 0)
        equal(os.path.getsize(d + "/out"), 2000000)


@test
def bad_names_and_missing_things_are_told():
    with tempfile.TemporaryDirectory() as d:
        for args in (("get", "--run-id", "x", "../etc", d + "/o"), ("get", "--run-id", "x", "/etc", d + "/o"),
                     ("put", "--run-id", "x", d, "../up"), ("get", "--run-id", "x", "a//b", d + "/o")):
            equal(artifact(*args).status, 125, str(args))
        done = artifact("get", "--run-id", "x", "absent", d + "/o")
        equal(done.status not in (0, 125), True, done)
        contains(done.error, "absent")
        equal(artifact("put", "--run-id", "x", d + "/absent").status, 125)
        equal(artifact("put", d).status != 0, True, "neither run nor job")
        equal(artifact("list", "--job", "job-unknown").status, 125)
        equal(os.listdir(d), [])


if __name__ == "__main__":
    try:
        main()
    finally:
        if _plane:
            _plane.__exit__()
