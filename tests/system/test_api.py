#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The API as a client sees it (F1): routes and their description, jobs, streams, input, refusals."""
import base64
import hashlib
import json
import os
import re
import struct
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cordon import Plane, UnixConnection, contains, equal, eventually, main, memory_bound, test, TOP  # noqa: E402
from cordon import run as sh  # noqa: E402

SESSION = {"orgId": "local", "userId": "root", "surface": "chat"}
_plane = None


def plane():
    """One plane for all tests here: none of them breaks it."""
    global _plane
    if _plane is None:
        _plane = Plane(default__timeout=30, egress__maximum="none")
        _plane.__enter__()
    return _plane


def run(p, **fields):
    return p.api("POST", "/v1/run", dict({"session": SESSION}, **fields))


def open_job(p, **session):
    status, sealed = p.api("POST", "/v1/sessions/seal", dict(SESSION, **session))
    equal(status, 200, sealed)
    status, job = p.api("POST", "/v1/jobs", {"carrier": sealed["carrier"]})
    equal(status, 201, job)
    return job["jobId"]


def execute(p, job, **fields):
    return p.api("POST", "/v1/jobs/%s/commands" % job, fields)


def rows(p, org):
    status, answer = p.api("GET", "/v1/audit?org=%s&limit=1000" % org)
    equal(status, 200, answer)
    return answer["rows"]


class Stream:
    """A streamed answer, frame by frame."""

    def __init__(self, p, path, body):
        self.connection = UnixConnection(p.socket, 60)
        self.connection.request("POST", path, json.dumps(dict(body, stream=True)).encode())
        self.answer = self.connection.getresponse()

    def frame(self):
        head = self.answer.read(8)
        if len(head) < 8:
            return None, None
        kind, zero, length = head[0], head[1:4], struct.unpack(">I", head[4:])[0]
        equal(zero, b"\0\0\0")
        data = self.answer.read(length)
        equal(len(data), length)
        return kind, json.loads(data) if kind in (3, 4) else data

    def rest(self):
        out = {1: [], 2: []}
        while True:
            kind, data = self.frame()
            if kind in (1, 2):
                out[kind].append(data)
            elif kind == 3:
                equal(self.frame(), (None, None), "the result is the last frame")
                return b"".join(out[1]), b"".join(out[2]), data

    def close(self):
        """Hangs up, whatever is still to be read."""
        self.answer.close()
        self.connection.close()


# --- The description

@test
def the_document_describes_exactly_the_routes():
    p = plane()
    status, document = p.api("GET", "/v1/openapi.json")
    equal(status, 200)
    described = {(m.upper(), path) for path, methods in document["paths"].items()
                 for m in methods if m != "parameters"}
    with open(os.path.join(TOP, "userspace/broker/routes.c")) as f:
        source = f.read()
    routed = {(m, path) for m, path in
              re.findall(r'^\t(GET|DELETE)\("([^"]+)"', source, re.M)}
    routed |= set(re.findall(r'WITH_BODY\("([A-Z]+)", "([^"]+)"', source))
    routed |= set(re.findall(r'\.method = "([A-Z]+)",\s*\.path = "([^"]+)"', source))
    equal(sorted(described ^ routed), [])
    for method, path in sorted(described):
        if "{" in path or method != "GET":
            continue
        query = "?all=1" if path == "/v1/audit" else \
            "?orgId=local&userId=root&surface=chat&runId=described" if "artifact" in path else ""
        status, _ = p.api(method, path + query, raw=True)
        equal(status, 200, "%s %s" % (method, path))


@test
def reasons_are_one_closed_list():
    _, answer = plane().api("GET", "/v1/reasons")
    codes = [r["code"] for r in answer["reasons"]]
    equal(len(codes), len(set(codes)))
    for code in ("no_session", "queue_saturated", "command_replayed", "broker_lost"):
        contains(codes, code)


@test
def what_is_not_a_route_is_refused():
    p = plane()
    for method, path, wanted in (("GET", "/", 404), ("GET", "/v1/run", 405), ("PUT", "/v1/jobs", 405),
                                 ("GET", "/v1/jobs/", 404), ("GET", "/v1/health/x", 404),
                                 ("DELETE", "/v1/health", 405), ("POST", "/v1/jobs/a/b/c", 404)):
        status, answer = p.api(method, path)
        equal((status, answer["reason"]), (wanted, "invalid_request"), "%s %s" % (method, path))


# --- Commands

@test
def a_command_runs_and_is_answered_with_every_key():
    p = plane()
    status, r = run(p, command="echo out; echo err >&2; exit 7")
    equal(status, 200)
    equal(sorted(r), sorted((
        "jobId commandId decision reason exitCode signal termination oomKilled stdout stderr "
        "stdoutTruncated stderrTruncated wallMs imageDigest workspaceKb limits egress guards "
        "receipt untrusted").split()))
    equal((r["decision"], r["reason"], r["exitCode"], r["signal"], r["termination"]),
          ("allowed", None, 7, None, "exited"))
    equal((r["stdout"], r["stderr"], r["untrusted"]), ("out\n", "err\n", True))
    equal(r["egress"], {"mode": "none", "clamped": ["tier"], "totalBytes": 0, "kernelBytes": 0,
                        "gatewayBytes": 0, "denied": []})
    contains(r["guards"]["on"], "seccomp")


@test
def a_tier_that_is_asked_for_as_it_is_is_not_clamped():
    _, r = run(plane(), argv=["true"], egress={"mode": "none"})
    equal(r["egress"]["clamped"], [])


@test
def bytes_that_are_no_text_come_as_base64():
    _, r = run(plane(), command="printf '\\377\\000a'")
    equal(base64.b64decode(r["stdoutB64"]), b"\xff\0a")
    equal("stdout" in r, False)
    _, r = run(plane(), command="printf 'a\\000b'")
    equal(r["stdout"], "a\0b")


@test
def a_stream_carries_both_outputs_as_they_come():
    p = plane()
    s = Stream(p, "/v1/run", {"session": SESSION,
                              "command": "echo one; sleep 0.7; echo two >&2; sleep 0.7; echo three"})
    equal(s.answer.getheader("Content-Type"), "application/vnd.cordon.stream")
    kind, accepted = s.frame()
    equal(kind, 4)
    equal(s.frame(), (1, b"one\n"))
    started = time.monotonic()
    equal(s.frame(), (2, b"two\n"))
    assert time.monotonic() - started > 0.3, "it came at once, not as it was produced"
    out, _, result = s.rest()
    equal(out, b"three\n")
    equal(result["jobId"], accepted["jobId"])
    equal("stdout" in result, False)
    equal(hashlib.sha256(b"one\nthree\n").hexdigest(), result["receipt"]["outputHash"])


@test
def a_big_stream_arrives_whole():
    s = Stream(plane(), "/v1/run", {"session": SESSION, "outputBytes": 32 << 20,
                                    "argv": ["dd", "if=/dev/zero", "bs=1M", "count=24"]})
    equal(s.frame()[0], 4)
    out, _, result = s.rest()
    equal((len(out), result["exitCode"]), (24 << 20, 0))
    equal(result["receipt"]["outputHash"], hashlib.sha256(out).hexdigest())


@test
def output_beyond_the_cap_ends_the_command_on_a_character():
    p = plane()
    # U+20AC is three bytes: 1000 is in the middle of one
    _, r = run(p, command="while :; do printf '\\342\\202\\254'; done", outputBytes=1000)
    equal((r["termination"], r["stdoutTruncated"], r["stderrTruncated"]),
          ("output_cap_exceeded", True, False))
    equal(r["stdout"], "\u20ac" * 333)
    _, r = run(p, command="printf 0123456789", outputBytes=10)
    equal((r["termination"], r["stdoutTruncated"]), ("exited", False), "exactly the cap")
    _, r = run(p, command="printf 0123456789x", outputBytes=10)
    equal((r["termination"], r["stdout"]), ("output_cap_exceeded", "0123456789"))


@test
def a_flood_leaves_the_broker_small():
    p = plane()
    before = memory_kib(p.pid("broker"))
    _, r = run(p, argv=["dd", "if=/dev/zero", "bs=1M", "count=10240"])
    equal((r["termination"], len(r["stdout"])), ("output_cap_exceeded", 1 << 20))
    assert memory_kib(p.pid("broker")) - before < memory_bound(16 * 1024)


def memory_kib(pid):
    with open("/proc/%d/status" % pid) as f:
        return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1))


@test
def a_slow_reader_holds_its_command_and_not_the_broker():
    p = plane()
    before = memory_kib(p.pid("broker"))
    s = Stream(p, "/v1/run", {"session": SESSION, "outputBytes": 64 << 20,
                              "argv": ["dd", "if=/dev/zero", "bs=1M", "count=48"]})
    equal(s.frame()[0], 4)
    time.sleep(1.5)  # nobody reads
    assert memory_kib(p.pid("broker")) - before < memory_bound(4 * 1024), "it is read into memory"
    equal(run(p, argv=["true"])[1]["exitCode"], 0, "others go on")
    out, _, result = s.rest()
    equal((len(out), result["termination"]), (48 << 20, "exited"))


# --- Standard input

@test
def standard_input_in_the_request():
    data = bytes(range(256)) * 1000
    _, r = run(plane(), argv=["sha256sum"], stdinB64=base64.b64encode(data).decode())
    equal(r["stdout"].split()[0], hashlib.sha256(data).hexdigest())
    _, r = run(plane(), command="cat; echo end")
    equal(r["stdout"], "end\n", "without input it is empty")


@test
def standard_input_streams():
    p = plane()
    job = open_job(p)
    s = Stream(p, "/v1/jobs/%s/commands" % job, {"argv": ["cat"], "stdin": "stream"})
    _, accepted = s.frame()
    path = "/v1/jobs/%s/commands/%s/stdin" % (job, accepted["commandId"])
    c = UnixConnection(p.socket, 30)
    c.putrequest("POST", path)
    c.putheader("Transfer-Encoding", "chunked")
    c.endheaders()
    for word in (b"first", b"second"):
        c.send(b"%x\r\n%s\r\n" % (len(word), word))
        equal(s.frame(), (1, word), "each piece passes through at once")
    c.send(b"0\r\n\r\n")
    equal(json.loads(c.getresponse().read()), {"bytes": 11, "closed": False})
    _, _, result = s.rest()
    equal(result["exitCode"], 0)
    blob = b"cat\0"
    equal(result["receipt"]["inputHash"],
          hashlib.sha256(b"1\0" + blob + b"firstsecond").hexdigest())


@test
def much_standard_input_streams_with_back_pressure():
    p = plane()
    job = open_job(p)
    data = os.urandom(1 << 20) * 12
    s = Stream(p, "/v1/jobs/%s/commands" % job,
               {"command": "sleep 1; sha256sum", "stdin": "stream"})
    _, accepted = s.frame()
    before = memory_kib(p.pid("broker"))
    sender = threading.Thread(target=p.api, args=(
        "POST", "/v1/jobs/%s/commands/%s/stdin" % (job, accepted["commandId"]), data))
    sender.start()
    time.sleep(0.5)
    assert memory_kib(p.pid("broker")) - before < memory_bound(4 * 1024), "it is read into memory"
    out, _, _ = s.rest()
    sender.join()
    equal(out.split()[0].decode(), hashlib.sha256(data).hexdigest())


@test
def a_command_that_does_not_read_ends_all_the_same():
    p = plane()
    job = open_job(p)
    s = Stream(p, "/v1/jobs/%s/commands" % job, {"argv": ["true"], "stdin": "stream"})
    _, accepted = s.frame()
    status, answer = p.api("POST", "/v1/jobs/%s/commands/%s/stdin" % (job, accepted["commandId"]),
                           b"x" * (4 << 20))
    if status == 200:  # it may have ended before the body began
        equal(answer["closed"], True)
    else:
        equal(answer["reason"], "invalid_request")
    equal(s.rest()[2]["exitCode"], 0)


@test
def half_an_input_cancels():
    p = plane()
    job = open_job(p)
    s = Stream(p, "/v1/jobs/%s/commands" % job, {"argv": ["cat"], "stdin": "stream"})
    _, accepted = s.frame()
    c = UnixConnection(p.socket, 30)
    c.putrequest("POST", "/v1/jobs/%s/commands/%s/stdin" % (job, accepted["commandId"]))
    c.putheader("Content-Length", "1000")
    c.endheaders()
    c.send(b"half")
    equal(s.frame(), (1, b"half"))
    c.close()
    equal(s.rest()[2]["reason"], "cancelled")


# --- Jobs

@test
def a_job_keeps_its_workspace_and_loses_it_with_its_end():
    p = plane()
    job = open_job(p)
    equal(execute(p, job, command="echo kept > f")[1]["exitCode"], 0)
    equal(execute(p, job, command="cat f")[1]["stdout"], "kept\n")
    label = "local/" + job
    contains([w["label"] for w in p.api("GET", "/v1/workspaces")[1]["workspaces"]], label)
    equal(p.api("DELETE", "/v1/jobs/" + job), (200, {"jobId": job, "closed": True}))
    eventually(lambda: label not in [w["label"] for w in
                                     p.api("GET", "/v1/workspaces")[1]["workspaces"]],
               "its workspace is removed")
    status, r = execute(p, job, argv=["true"])
    equal((status, r["reason"], r["decision"]), (409, "job_terminated", "denied"))


@test
def runs_have_workspaces_of_their_own():
    p = plane()
    for run_id in ("a/b", "a-b"):
        _, r = p.api("POST", "/v1/run", {"session": dict(SESSION, runId=run_id),
                                         "command": "ls | grep -v home; echo %s > mine" % run_id})
        equal((r["exitCode"], r["stdout"]), (0, ""), "a new key is empty")
    _, r = p.api("POST", "/v1/run", {"session": dict(SESSION, runId="a/b"), "command": "cat mine"})
    equal(r["stdout"], "a/b\n")
    _, r = p.api("POST", "/v1/run", {"session": dict(SESSION, orgId="other", runId="a/b"),
                                     "command": "ls | grep -v home"})
    equal(r["stdout"], "", "another organisation's run of that name")


@test
def kill_ends_what_runs_and_leaves_the_job():
    p = plane()
    job = open_job(p)
    s = Stream(p, "/v1/jobs/%s/commands" % job, {"command": "echo on; sleep 60"})
    s.frame()
    equal(s.frame(), (1, b"on\n"))
    equal(p.api("POST", "/v1/jobs/%s/kill" % job)[1], {"jobId": job, "killed": 1})
    result = s.rest()[2]
    equal((result["termination"], result["signal"], result["reason"], result["decision"]),
          ("exited", 9, "cancelled", "allowed"))
    equal(execute(p, job, argv=["true"])[1]["exitCode"], 0)


@test
def closing_a_job_ends_its_commands_and_those_that_wait():
    p = plane()
    job = open_job(p)
    first = Stream(p, "/v1/jobs/%s/commands" % job, {"command": "echo on; sleep 60"})
    first.frame()
    second = []
    waiting = threading.Thread(target=lambda: second.append(execute(p, job, argv=["true"])))
    waiting.start()
    eventually(lambda: any(c["phase"] == "queued" for j in p.api("GET", "/v1/jobs")[1]["jobs"]
                           for c in j["commands"]), "one is queued behind the other")
    equal(p.api("DELETE", "/v1/jobs/" + job)[0], 200)
    result = first.rest()[2]
    equal((result["reason"], result["signal"]), ("job_closed", 9))
    waiting.join()
    equal((second[0][1]["reason"], second[0][1]["decision"]), ("job_closed", "denied"))


@test
def a_client_that_goes_away_cancels():
    p = plane()
    for stream in (True, False):
        marker = "4%d" % (1 if stream else 2)
        body = {"session": dict(SESSION, orgId="leaver%d" % stream), "argv": ["sleep", marker],
                "stream": stream}
        c = UnixConnection(p.socket, 30)
        c.request("POST", "/v1/run", json.dumps(body).encode())
        eventually(lambda: sleepers(p, marker), "it runs")
        c.close()
        eventually(lambda: not sleepers(p, marker), "its process is gone", 3)
        row = eventually(lambda: rows(p, "leaver%d" % stream), "a row")[0]
        equal((row["decision"], row["metadata"]["reason"], row["metadata"]["termination"]),
              ("allowed", "cancelled", "exited"))


def sleepers(p, marker):
    found = []
    for pid in p.sandboxed():
        try:
            with open("/proc/%d/cmdline" % pid, "rb") as f:
                if f.read() == b"sleep\0" + marker.encode() + b"\0":
                    found.append(pid)
        except OSError:
            pass
    return found


@test
def the_job_list_shows_what_is_open():
    p = plane()
    job = open_job(p, userId="lister", runId="r1")
    mine = [j for j in p.api("GET", "/v1/jobs")[1]["jobs"] if j["jobId"] == job][0]
    equal((mine["userId"], mine["runId"], mine["state"], mine["commands"]),
          ("lister", "r1", "open", []))
    equal(p.api("GET", "/v1/jobs/" + job)[1]["jobId"], job)
    equal(p.api("GET", "/v1/jobs?all=2")[0], 400)
    equal(p.api("GET", "/v1/jobs?every=1")[0], 400)


# --- Names of commands

@test
def a_repeated_name_never_runs_again():
    p = plane()
    job = open_job(p)
    equal(execute(p, job, command="echo x >> n; cat n", commandId="one")[1]["stdout"], "x\n")
    status, r = execute(p, job, command="echo x >> n", commandId="one")
    equal((status, r["reason"], r["decision"], r["commandId"]),
          (409, "command_replayed", "denied", "one"))
    equal(execute(p, job, command="cat n", commandId="two")[1]["stdout"], "x\n")
    other = open_job(p)
    equal(execute(p, other, argv=["true"], commandId="one")[1]["exitCode"], 0, "per job")


@test
def the_same_name_in_flight_is_refused_at_once():
    p = plane()
    job = open_job(p)
    s = Stream(p, "/v1/jobs/%s/commands" % job, {"command": "echo on; sleep 60", "commandId": "n"})
    s.frame()
    started = time.monotonic()
    equal(execute(p, job, argv=["true"], commandId="n")[1]["reason"], "command_replayed")
    assert time.monotonic() - started < 5, "it waited for the first one"
    s.close()


# --- Receipts

@test
def receipts_are_kept_and_verified():
    p = plane()
    job = open_job(p)
    _, r = execute(p, job, command="cat", stdinB64=base64.b64encode(b"in").decode(), commandId="c1")
    path = "/v1/receipts/%s/c1" % job
    kept = eventually(lambda: p.api("GET", path)[1]["receipt"], "the receipt is kept")
    equal(kept, r["receipt"])

    def verify(**more):
        return p.api("POST", "/v1/receipts/verify", dict({"receipt": kept}, **more))[1]

    b64 = base64.b64encode
    equal(verify(command="cat", stdinB64=b64(b"in").decode(), outputB64=b64(b"in").decode()),
          {"valid": True, "mismatches": []})
    equal(verify(argv=["bash", "-c", "cat"], stdinB64=b64(b"in").decode())["valid"], True)
    equal(verify(command="cat")["mismatches"], ["inputHash"])
    equal(verify(outputB64=b64(b"on").decode())["mismatches"], ["outputHash"])
    kept["timestamp"] = "2" + "1" + kept["timestamp"][2:]
    equal(verify()["mismatches"], ["signature"])
    equal(p.api("GET", "/v1/receipts/%s/none" % job)[1], {"receipt": None, "envelope": None})


@test
def a_third_party_verifies_the_envelope_with_openssl_alone():
    p = plane()
    job = open_job(p)
    _, r = execute(p, job, command="echo x; echo y >&2; exit 3", commandId="t3")
    path = "/v1/receipts/%s/t3" % job
    text = eventually(lambda: p.api("GET", path)[1]["envelope"], "the envelope is kept")
    envelope = json.loads(text)
    payload = base64.b64decode(envelope["payload"])
    pae = b"DSSEv1 %d %s %d %s" % (len(envelope["payloadType"]), envelope["payloadType"].encode(),
                                   len(payload), payload)
    keys = p.api("GET", "/v1/receipts/keys")[1]["keys"]
    equal([k["keyId"] for k in keys], [envelope["signatures"][0]["keyid"]])
    with tempfile.TemporaryDirectory() as d:
        for name, data in (("key", keys[0]["pem"].encode()), ("text", pae),
                           ("sig", base64.b64decode(envelope["signatures"][0]["sig"]))):
            with open(os.path.join(d, name), "wb") as f:
                f.write(data)
        verify = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", "key", "-rawin", "-in",
                  "text", "-sigfile", "sig"]
        equal(sh(verify, cwd=d).status, 0)
        with open(os.path.join(d, "text"), "ab") as f:
            f.write(b" ")
        assert sh(verify, cwd=d).status != 0, "a changed statement verifies"
    said = json.loads(payload)["predicate"]
    equal((said["end"]["termination"], said["end"]["exitCode"]), ("exited", 3))
    equal(said["receipt"], r["receipt"])
    equal(said["standardError"]["sha256"], hashlib.sha256(b"y\n").hexdigest())
    equal("sha256:" + said["image"]["sha256"], r["imageDigest"])
    equal(said["enforcement"]["guards"]["on"], r["guards"]["on"])


# --- Refusals

REFUSED = [
    ({}, "invalid_request"),
    ({"argv": []}, "invalid_request"),
    ({"argv": ["a\0b"]}, "invalid_request"),
    ({"argv": ["true"], "command": "true"}, "invalid_request"),
    ({"argv": ["true"], "unknown": 1}, "invalid_request"),
    ({"argv": ["true"], "timeoutMs": 0}, "invalid_request"),
    ({"argv": ["true"], "timeoutMs": -5}, "invalid_request"),
    ({"argv": ["true"], "timeoutMs": 1.5}, "invalid_request"),
    ({"argv": ["true"], "memoryBytes": 1 << 63}, "invalid_request"),
    ({"argv": ["true"], "memoryBytes": 1 << 62}, "limit_above_maximum"),
    ({"argv": ["true"], "pids": 1000000}, "limit_above_maximum"),
    ({"argv": ["true"], "cwd": "/proc/self/fd/7"}, "invalid_request"),
    ({"argv": ["true"], "cwd": ".."}, "invalid_request"),
    ({"argv": ["true"], "image": "--help"}, "invalid_request"),
    ({"argv": ["true"], "environment": {"pip": ["x"]}}, "not_available"),
    ({"argv": ["x" * (2 << 20)]}, "invalid_request"),
]


@test
def bad_requests_are_refused_and_leave_a_row():
    p = plane()
    for number, (fields, reason) in enumerate(REFUSED):
        org = "bad%d" % number
        job = open_job(p, orgId=org)
        status, r = execute(p, job, **fields)
        equal((status >= 400, r["reason"], r["decision"]), (True, reason, "denied"), str(fields)[:80])
        assert r["text"], "it says what is wrong"
        equal((r["exitCode"], r["termination"], r["stdout"]), (None, None, None))
        row = eventually(lambda: rows(p, org), "a row for %s" % str(fields)[:80])
        equal(len(row), 1)
        equal((row[0]["decision"], row[0]["metadata"]["reason"]), ("denied", reason))


@test
def who_cannot_be_identified_is_told_so():
    p = plane()
    for session in ({}, {"orgId": " ", "userId": "u", "surface": "chat"},
                    {"orgId": "o", "userId": "\u00a0\ufeff", "surface": "chat"},
                    {"orgId": "o", "userId": "u", "surface": "shell"},
                    {"orgId": "o", "userId": "u"},
                    {"orgId": "cordon:handshake", "userId": "cordon:handshake", "surface": "chat"}):
        status, r = p.api("POST", "/v1/run", {"session": session, "argv": ["true"]})
        equal((status, r["reason"]), (401, "no_session"), str(session))
    contains([r["metadata"]["reason"] for r in p.api("GET", "/v1/audit?org=-&limit=1000")[1]["rows"]],
             "no_session")


@test
def bodies_that_are_no_request_are_refused():
    p = plane()
    for body in (b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"argv":["\xff"]}', b"{} {}",
                 b"\xef\xbb\xbf{}", b'{"argv":["a"],"argv":["b"]}',
                 b'{"x":' + b"[" * 20000 + b"]" * 20000 + b"}"):
        for path in ("/v1/run", "/v1/jobs", "/v1/sessions/seal", "/v1/sessions/open",
                     "/v1/receipts/verify"):
            status, answer = p.api("POST", path, body)
            assert status in (400, 413), (path, body[:40], status)
            equal(answer["reason"], "invalid_request")


@test
def an_unknown_job_is_unknown():
    p = plane()
    for job in ("job-0", "job-" + "0" * 32, "x" * 128):
        for method, tail in (("POST", "/commands"), ("POST", "/kill"), ("DELETE", ""), ("GET", "")):
            body = {"argv": ["true"]} if tail == "/commands" else None
            status, answer = p.api(method, "/v1/jobs/%s%s" % (job, tail), body)
            equal((status, answer["reason"]), (404, "unknown_job"))
    equal(p.api("GET", "/v1/jobs/" + "x" * 129)[0], 404)


@test
def carriers_that_do_not_open_are_refused_exactly():
    p = plane()
    _, sealed = p.api("POST", "/v1/sessions/seal", SESSION)
    good = sealed["carrier"]
    version, payload, mac = good.split(".")
    flipped = ("A" if mac[0] != "A" else "B") + mac[1:]
    for carrier, reason in (("", "carrier_malformed"), ("v1", "carrier_malformed"),
                            (good + ".x", "carrier_malformed"),
                            (".".join((version, payload, flipped)), "carrier_bad_signature"),
                            (".".join((version, payload[:-2], mac)), "carrier_bad_signature")):
        status, answer = p.api("POST", "/v1/jobs", {"carrier": carrier})
        equal((status, answer["reason"]), (401, reason), carrier[:30])
    status, answer = p.api("POST", "/v1/sessions/open", {"carrier": good})
    equal((status, answer["session"]), (200, SESSION))


if __name__ == "__main__":
    try:
        main()
    finally:
        if _plane:
            _plane.__exit__()
