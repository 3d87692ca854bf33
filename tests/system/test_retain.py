#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The seam for keeping output: off by default, nothing past the redactor, nobody waits for it.

The operator's two programs are threads here: a redactor and a sink on unix
sockets, which speak the stream format by a few lines of their own.
"""
import contextlib
import hashlib
import json
import os
import socket
import struct
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cordon import Plane, contains, equal, eventually, main, memory_bound, test  # noqa: E402

CANARY = b"sk-canary-0123456789"
MASK = b"[redacted]"
STDOUT, STDERR, RESULT, ACCEPTED = 1, 2, 3, 4


# --- The operator's side

def frame(kind, payload):
    return struct.pack(">B3xI", kind, len(payload)) + payload


def read_exactly(s, n):
    data = b""
    while len(data) < n:
        more = s.recv(n - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def read_stream(s):
    """{"ids", "result", 1: stdout, 2: stderr} of one stream."""
    stream = {STDOUT: b"", STDERR: b""}
    while "result" not in stream:
        kind, length = struct.unpack(">B3xI", read_exactly(s, 8))
        payload = read_exactly(s, length)
        if kind in (STDOUT, STDERR):
            stream[kind] += payload
        else:
            stream["ids" if kind == ACCEPTED else "result"] = json.loads(payload)
    return stream


class Program:
    """Listens at @path; @serve(socket) for each connection. Counts them."""

    def __init__(self, path, serve):
        self.path, self.serve, self.connections = path, serve, 0
        self.over = threading.Event()

    def __enter__(self):
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        os.chmod(self.path, 0o666)
        self.listener.listen(64)
        threading.Thread(target=self.loop, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        os.unlink(self.path)

    def loop(self):
        with contextlib.suppress(OSError):
            while True:
                s, _ = self.listener.accept()
                self.connections += 1
                threading.Thread(target=self.one, args=(s,), daemon=True).start()

    def one(self, s):
        with s, contextlib.suppress(OSError, EOFError):
            self.serve(s)


class Sink(Program):
    """Keeps every stream in a list, and all the bytes it ever saw."""

    def __init__(self, path, answer=b'{"retained":true}\n'):
        super().__init__(path, self.take)
        self.kept, self.answer = [], answer

    def take(self, s):
        self.kept.append(read_stream(s))
        s.sendall(self.answer)


def redact(stream):
    """A good redactor's answer."""
    return (frame(ACCEPTED, b"{}") +
            b"".join(frame(k, stream[k].replace(CANARY, MASK)) for k in (STDOUT, STDERR)
                     if stream[k]) + frame(RESULT, b'{"redacted":true}'))


def redactor(path):
    return Program(path, lambda s: s.sendall(redact(read_stream(s))))


@contextlib.contextmanager
def plane(redactor_too=True, **keys):
    """A plane that is not up yet, with the paths of its two sockets."""
    with Plane(up=False, egress__maximum="none", **keys) as p:
        os.makedirs(p.path("op"))
        sink, hook = p.path("op/sink"), p.path("op/hook")
        p.keys.update(retain=sink, redact=hook if redactor_too else "none")
        p.configure()
        yield p, sink, hook


def retention(p):
    return p.api("GET", "/v1/health")[1]["retention"]


def settled(p, kept, failed):
    """Waits until so many are kept and failed, and nothing is under way."""
    wanted = {"kept": kept, "failed": failed, "waiting": 0}
    try:
        eventually(lambda: retention(p) == wanted, "retention settles", 60)
    except AssertionError:
        equal(retention(p), wanted, "retention")


SAY = "echo out %s; echo err %s >&2" % (CANARY.decode(), CANARY.decode())
WANTED = {"stdout": "out %s\n" % CANARY.decode(), "stderr": "err %s\n" % CANARY.decode()}


def unharmed(p):
    """A command that prints the canary, with the answer and the receipt it always has."""
    r = p.json(SAY)
    equal({k: r[k] for k in WANTED}, WANTED)
    equal((r["exitCode"], r["termination"], r["decision"]), (0, "exited", "allowed"))
    assert r["receipt"]
    assert not any("retain" in k.lower() for k in r), r.keys()
    return r


def host_holds(p, text):
    """Files of the plane's own in which @text stands."""
    found = []
    for top in ("var/log", "var/lib", "run"):
        for directory, _, files in os.walk(p.path(top)):
            for name in files:
                path = os.path.join(directory, name)
                if os.path.isfile(path) and not name.endswith((".img", ".erofs", ".squashfs")):
                    with open(path, "rb") as f:
                        if text in f.read():
                            found.append(path)
    return found


# --- Tests

@test
def nothing_is_kept_unless_it_is_configured():
    with plane() as (p, sink, hook):
        with Sink(sink) as s, redactor(hook) as r:
            p.keys = {k: v for k, v in p.keys.items() if k not in ("retain", "redact")}
            p.configure()
            p.up()
            unharmed(p)
            equal(retention(p), None)
            p.down()  # whatever was under way is over
            equal((s.connections, r.connections), (0, 0))
            p.keys.update(retain=sink, redact=hook)  # the control
            p.configure()
            p.up()
            unharmed(p)
            settled(p, 1, 0)
            equal((s.connections, r.connections, len(s.kept)), (1, 1, 1))


@test
def a_canary_reaches_the_sink_only_redacted():
    with plane() as (p, sink, hook), Sink(sink) as s, redactor(hook):
        p.up()
        answer = unharmed(p)
        settled(p, 1, 0)
        (kept,) = s.kept
        equal(kept[STDOUT], b"out " + MASK + b"\n")
        equal(kept[STDERR], b"err " + MASK + b"\n")
        equal({k: kept["ids"][k] for k in ("jobId", "commandId")},
              {k: answer[k] for k in ("jobId", "commandId")})
        equal(kept["ids"]["orgId"], "local")
        equal(kept["result"], {
            "stdoutBytes": len(kept[STDOUT]), "stderrBytes": len(kept[STDERR]),
            "stdoutSha256": hashlib.sha256(kept[STDOUT]).hexdigest(),
            "stderrSha256": hashlib.sha256(kept[STDERR]).hexdigest(),
            "stdoutTruncated": False, "stderrTruncated": False})
        assert CANARY not in json.dumps(kept["ids"]).encode()
        p.down()
        equal(host_holds(p, CANARY), [], "files of the plane's with the canary")
        assert host_holds(p, answer["jobId"].encode()), "the control: the job is in the ledger"


@test
def with_redact_none_the_sink_gets_it_as_it_is():
    with plane(redactor_too=False) as (p, sink, _), Sink(sink) as s:
        p.up()
        unharmed(p)
        data = os.urandom(300000)
        done = p.run("--stdin", "-", "--", "cat", input=data)  # streamed, no text, several frames
        equal((done.status, hashlib.sha256(done.out).digest()),
              (0, hashlib.sha256(data).digest()))
        capped = p.json("yes 0123456")
        equal(capped["termination"], "output_cap_exceeded")
        settled(p, 3, 0)
        by_size = sorted(s.kept, key=lambda k: len(k[STDOUT]))
        equal(by_size[0][STDOUT], WANTED["stdout"].encode())
        assert by_size[1][STDOUT] == data
        equal(by_size[1]["result"]["stdoutSha256"], hashlib.sha256(data).hexdigest())
        equal(by_size[1]["result"]["stdoutTruncated"], False)
        assert by_size[2][STDOUT] == capped["stdout"].encode()
        equal(by_size[2]["result"]["stdoutTruncated"], True)


@test
def only_what_a_caller_ran_is_kept():
    with plane(redactor_too=False, command_block="dd") as (p, sink, _), Sink(sink) as s:
        p.up()  # with the handshake's command
        equal(p.json("dd if=/dev/zero count=1")["reason"], "command_blocked")
        unharmed(p)
        settled(p, 1, 0)
        equal([k[STDOUT] for k in s.kept], [WANTED["stdout"].encode()])


BAD_REDACTORS = {
    "dies at once": lambda s: None,
    "dies before its end": lambda s: s.sendall(redact(read_stream(s))[:-1]),
    "is another program": lambda s: s.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    "says no": lambda s: s.sendall(redact(read_stream(s)).replace(b"true}", b"null}")),
    "says more than yes": lambda s: s.sendall(
        redact(read_stream(s)).replace(frame(RESULT, b'{"redacted":true}'),
                                       frame(RESULT, b'{"redacted":true,"but":"not all"}'))),
    "echoes": lambda s: echo(s),  # cat is no redactor
    "goes on behind the end": lambda s: s.sendall(redact(read_stream(s)) + b"x"),
    "answers before it has read": lambda s: (
        s.sendall(frame(ACCEPTED, b"{}") + frame(STDOUT, CANARY) +
                  frame(RESULT, b'{"redacted":true}')), s.recv(1)),
    "sends too much": lambda s: flood(s, frame(STDOUT, b"x" * 65536)),
    "sends empty frames for ever": lambda s: flood(s, frame(STDOUT, b"") * 8192),
    "announces a huge result": lambda s: s.sendall(
        frame(ACCEPTED, b"{}") + struct.pack(">B3xI", RESULT, 0xfffffff0)),
}


def echo(s):
    while data := s.recv(65536):
        s.sendall(data)


def flood(s, data):
    read_stream(s)
    s.sendall(frame(ACCEPTED, b"{}"))
    while True:
        s.sendall(data)


@test
def a_redactor_that_misbehaves_keeps_everything_from_the_sink():
    with plane() as (p, sink, hook), Sink(sink) as s:
        p.up()
        failed = 0
        for what, serve in BAD_REDACTORS.items():
            # One that answers early must find a stream that was not sent in one go.
            big = "early" if "before it has read" in what else ""
            with Program(hook, serve) as r:
                if big:
                    equal(len(p.json("head -c 900000 /dev/zero | tr '\\0' x")["stdout"]), 900000)
                else:
                    unharmed(p)
                failed += 1
                settled(p, 0, failed)
                equal(r.connections, 1, what)
            equal((s.connections, s.kept), (0, []), what)
        unharmed(p)  # there is none at all
        settled(p, 0, failed + 1)
        equal(s.connections, 0)
        with redactor(hook):  # the control
            unharmed(p)
            settled(p, 1, failed + 1)
        equal(len(s.kept), 1)
        equal(host_holds(p, CANARY), [])
        contains(p.log, "the redactor failed")


@test
def a_sink_that_misbehaves_harms_no_command():
    answers = [b'{"retained":false}\n', b'{"retained":true}', b"x" * 100, b"\n", b"",
               b'{"retained":true}\n\n', b'{"retained":true,"a":1}\n']
    with plane() as (p, sink, hook), redactor(hook):
        p.up()
        for n, answer in enumerate(answers):
            with Sink(sink, answer):
                unharmed(p)
                settled(p, 0, n + 1)
        unharmed(p)  # there is none at all
        settled(p, 0, len(answers) + 1)
        with Sink(sink) as s:
            unharmed(p)
            settled(p, 1, len(answers) + 1)
            equal(len(s.kept), 1)


def rss(pid):
    with open("/proc/%d/status" % pid) as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS")) * 1024


def hangs(which):
    """@which socket accepts and says nothing: 30 commands of 7 MiB each pass by it."""
    with plane(default__output_cap="8M") as (p, sink, hook):
        over = threading.Event()
        stuck = Program(sink if which == "sink" else hook, lambda s: over.wait(300))
        other = redactor(hook) if which == "sink" else Sink(sink)
        with other, stuck:
            p.up()
            unharmed(p)
            pid, before = p.pid("broker"), rss(p.pid("broker"))
            most = before
            for _ in range(30):
                done = p.sh("head -c 7500000 /dev/zero")  # streamed: the copies alone take memory
                equal((done.status, len(done.out)), (0, 7500000))
                most = max(most, rss(pid))
            unharmed(p)
            assert most - before < memory_bound((64 + 32) << 10) << 10, (before, most)
            settled(p, 0, 32)  # by their time limit, or for want of room
            assert stuck.connections > 0
            if which == "hook":
                equal(other.connections, 0, "the sink's connections")
            over.set()
            unharmed(p)
            equal(p.pid("broker"), pid, "the broker is the same")


@test
def a_sink_that_hangs_delays_nobody_and_memory_is_bounded():
    hangs("sink")


@test
def a_redactor_that_hangs_delays_nobody_and_keeps_it_from_the_sink():
    hangs("hook")


@test
def output_beyond_the_bound_of_memory_is_not_kept():
    with plane(redactor_too=False, default__output_cap="64M") as (p, sink, _), Sink(sink) as s:
        p.up()
        done = p.sh("head -c 40000000 /dev/zero")  # with 64 MiB for all copies, while one grows
        equal((done.status, len(done.out)), (0, 40000000))
        settled(p, 0, 1)
        unharmed(p)
        settled(p, 1, 1)
        equal([len(k[STDOUT]) for k in s.kept], [len(WANTED["stdout"])])
        contains(p.log, "too much output at once")


@test
def only_a_start_turns_it_on_or_off_and_never_without_a_redactor():
    with plane(redactor_too=False) as (p, sink, _), Sink(sink) as s:
        p.up()
        p.configure(retain="")
        done = p.cordon("reload")
        assert done.status != 0
        contains(done.error + p.log, "retain")
        unharmed(p)
        settled(p, 1, 0)
        equal(len(s.kept), 1)
        p.down()
        del p.keys["redact"]
        p.configure()
        done = p.up(check=False)
        assert done.status != 0
        contains(done.error + p.log, "'retain' needs 'redact'")


if __name__ == "__main__":
    main()
