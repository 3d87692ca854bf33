#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Artifacts (W3): a project goes in, work is done on it, a diff comes out; nothing comes by another way."""
import hashlib
import io
import json
import os
import socket
import stat
import sys
import tarfile
import tempfile
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cordon import Plane, UnixConnection, contains, equal, eventually, main, test  # noqa: E402

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
        equal(artifact("put", "--run-id", "links", d + "/t").status, 0,
              "positive control: without them the same tree goes in")


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
        equal(p.json("rm t/l", "--run-id", "out0")["exitCode"], 0)
        equal(artifact("get", "--run-id", "out0", "t", d + "/to").status, 0)
        equal(tree(d + "/to"), {"a": b"x\n"}, "positive control: without the link it comes out")


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
        equal(done.status, 125, done)
        contains(done.error, "absent")
        equal(artifact("put", "--run-id", "x", d + "/absent").status, 125)
        equal(artifact("put", d).status != 0, True, "neither run nor job")
        equal(artifact("list", "--job", "job-unknown").status, 125)
        equal(os.listdir(d), [])


# --- The API by itself: a client that is not ours

def call(method, tail, body=None, **query):
    """(status, headers, bytes)"""
    query = {"orgId": "local", "userId": "root", "surface": "chat", **query}
    if "job" in query:
        query = {k: v for k, v in query.items() if k in ("job", "path", "bytes")}
    connection = UnixConnection(plane().socket, 60)
    connection.request(method, "/v1/artifacts" + tail + "?" + urllib.parse.urlencode(query), body,
                       {"Content-Type": "application/x-tar"})
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, answer.headers, text


def member(name, data=b"", kind=tarfile.REGTYPE, link="", mode=0o644):
    m = tarfile.TarInfo(name)
    m.size, m.type, m.linkname, m.mode = len(data), kind, link, mode
    return m, data


def packed(*members, form=tarfile.GNU_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as t:
        for m, data in members:
            t.addfile(m, io.BytesIO(data))
    return out.getvalue()


def lies(run):
    """What lies in the workspace of @run, as the sandbox sees it."""
    r = plane().json("find . -mindepth 1 ! -path './home*' | sort", "--run-id", run)
    return r["stdout"].split()


@test
def the_api_takes_and_gives_tar_streams():
    data = os.urandom(700000)
    body = packed(member("t", kind=tarfile.DIRTYPE, mode=0o755), member("t/a b.bin", data),
                  member("t/" + "long/" * 30 + "x", b"deep"), member("t/empty"))
    status, _, text = call("POST", "", body, runId="api", path="in/to")
    equal(status, 201, text)
    answer = json.loads(text)
    equal({a["path"]: (a["size"], a["sha256"]) for a in answer["artifacts"]},
          {"t/a b.bin": (700000, hashlib.sha256(data).hexdigest()),
           "t/" + "long/" * 30 + "x": (4, hashlib.sha256(b"deep").hexdigest()),
           "t/empty": (0, hashlib.sha256(b"").hexdigest())})
    equal((answer["verified"], answer["directory"]), (True, "in/to"))
    status, _, text = call("GET", "", runId="api", path="in/to/t")
    equal((status, json.loads(text)["untrusted"], json.loads(text)["origin"]), (200, True, "model"))
    equal({a["path"]: a["sha256"] for a in json.loads(text)["artifacts"]},
          {a["path"][2:]: a["sha256"] for a in answer["artifacts"]})
    status, head, text = call("GET", "/content", runId="api", path="in/to/t")
    equal((status, head["Content-Type"], head["Cordon-Untrusted"], head["Cordon-Origin"],
           head["Cordon-Hooks"]), (200, "application/x-tar", "true", "model", "0"))
    receipt = json.loads(head["Cordon-Receipt"])
    equal(receipt["outputHash"], hashlib.sha256(text).hexdigest(), "the receipt is of these bytes")
    with tarfile.open(fileobj=io.BytesIO(text)) as t:
        equal(t.extractfile("./t/a b.bin").read(), data)
    equal(plane().api("GET", "/v1/receipts/%s/%s" % (head["Cordon-Job"], head["Cordon-Command"]))
          [1]["receipt"], receipt)


HOSTILE = {
    "a link out": [member("l", kind=tarfile.SYMTYPE, link="/etc")],
    "a link within": [member("f", b"x"), member("l", kind=tarfile.SYMTYPE, link="f")],
    "a hard link": [member("f", b"x"), member("l", kind=tarfile.LNKTYPE, link="f")],
    "a fifo": [member("p", kind=tarfile.FIFOTYPE)],
    "a block device": [member("b", kind=tarfile.BLKTYPE)],
    "a character device": [member("c", kind=tarfile.CHRTYPE)],
    "an unknown kind": [member("u", kind=b"Z")],
    "up": [member("../f", b"x")],
    "up within": [member("a/../../f", b"x")],
    "absolute": [member("/f", b"x")],
    "a backslash": [member("a\\b", b"x")],
    "a control character": [member("a\x1b[2Jb", b"x")],
    "no UTF-8": [member("a\udcffb", b"x")],
    "a set-uid file": [member("s", b"x", mode=0o4755)],
    "too deep": [member("d/" * 70 + "f", b"x")],
}


@test
def hostile_streams_are_refused_by_what_they_hold():
    for n, (what, members) in enumerate(HOSTILE.items()):
        run = "hostile%d" % n
        good = packed(member("before", b"x"))
        equal(call("POST", "", good, runId=run)[0], 201, "the control of " + what)
        status, _, text = call("POST", "", packed(*members), runId=run, path="in")
        equal((status, json.loads(text)["reason"]), (422, "staging_failed"), what)
        equal([x for x in lies(run) if x not in ("./before", "./in", "./in/f")], [], what)


@test
def malformed_streams_are_refused():
    whole = packed(member("f", b"x" * 3000))
    for what, body in (("cut in a head", whole[:300]), ("cut in the bytes", whole[:1800]),
                       ("nothing", b""), ("zeros alone", bytes(1024)), ("noise", os.urandom(2048)),
                       ("a wrong sum", b"g" + whole[1:]), ("bytes behind the end", whole + b"x"),
                       ("pax", packed(member("\u00e9" * 80, b"x"), form=tarfile.PAX_FORMAT))):
        status, _, text = call("POST", "", body, runId="malformed")
        equal((status, json.loads(text)["reason"]), (422, "staging_failed"), what)
    for query in ({"runId": "r", "path": "../x"}, {"runId": "r", "path": "a//b"},
                  {"runId": "r", "path": "/etc"}, {"runId": "r", "bytes": "0"},
                  {"runId": "r", "bytes": "-1"}, {"runId": "r", "bytes": str(2 << 30)},
                  {"runId": "r", "strange": "1"}, {}):
        for method, path in (("POST", ""), ("GET", ""), ("GET", "/content")):
            status, _, text = call(method, path, whole if method == "POST" else None, **query)
            equal((status, json.loads(text)["reason"]), (400, "invalid_request"), str(query))
    equal(json.loads(call("POST", "", whole, job="job-" + "0" * 32)[2])["reason"], "unknown_job")


@test
def streams_are_bounded_at_the_door():
    body = packed(member("big", b"x" * 200000))
    status, _, text = call("POST", "", body, runId="bound", bytes="100000")
    equal((status, json.loads(text)["reason"]), (422, "staging_failed"))
    equal(call("POST", "", body, runId="bound")[0], 201, "the control")
    status, _, text = call("GET", "/content", runId="bound", path="big", bytes="100000")
    equal((status, json.loads(text)["reason"]), (422, "staging_failed"))
    contains(json.loads(text)["text"], "output_cap_exceeded")
    many = packed(*[member("d%d" % n, kind=tarfile.DIRTYPE) for n in range(70000)])
    status, _, text = call("POST", "", many, runId="many", bytes=str(1 << 30))
    equal((status, json.loads(text)["reason"]), (422, "staging_failed"), "too many entries")


@test
def a_client_that_vanishes_leaves_no_command_and_no_job():
    p = plane()
    head = packed(member("f", b"x" * 100000))[:50000]

    before = len(p.api("GET", "/v1/jobs?all=1")[1]["jobs"])

    def running():
        return p.api("GET", "/v1/health")[1]["admission"]["running"]

    def quiet():
        return not running() and len(p.api("GET", "/v1/jobs?all=1")[1]["jobs"]) == before

    for _ in range(3):
        s = socket.socket(socket.AF_UNIX)
        s.connect(p.socket)
        s.sendall(b"POST /v1/artifacts?orgId=local&userId=root&surface=chat&runId=gone HTTP/1.1\r\n"
                  b"Host: c\r\nContent-Length: 100000\r\n\r\n" + head)
        eventually(running, "the unpacker runs")
        s.close()
        eventually(quiet, "neither command nor job is left")
    equal(call("POST", "", packed(member("f", b"y")), runId="gone")[0], 201, "and it goes on")
    job = p.open_job()
    s = socket.socket(socket.AF_UNIX)
    s.connect(p.socket)
    s.sendall(b"POST /v1/artifacts?job=%s HTTP/1.1\r\nHost: c\r\nContent-Length: 100000\r\n\r\n"
              % job.encode() + head)
    eventually(running, "the unpacker runs")
    equal(p.cordon("job", "close", job).status, 0, "a job closes under it")
    s.close()
    eventually(quiet, "gone")


@test
def transfers_leave_rows_and_heed_liveness():
    p = plane()
    before = len(p.cordon("audit", "list", "--org", "local", "--json").json["rows"])
    equal(call("POST", "", packed(member("secret-name", b"x")), runId="rows")[0], 201)
    text = eventually(lambda: (lambda rows: rows if len(rows) >= min(before + 2, 100) else None)(
        p.cordon("audit", "list", "--org", "local", "--json", "--limit", "1000").json["rows"]), "rows")
    equal("secret-name" in json.dumps(text), False)


if __name__ == "__main__":
    try:
        main()
    finally:
        if _plane:
            _plane.__exit__()
