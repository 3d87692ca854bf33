#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Clients that stall, flood, lie and vanish: bounded memory, and nobody else is harmed."""
import contextlib
import json
import os
import re
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cordon import Plane, equal, eventually, main, memory_bound, test  # noqa: E402

SESSION = {"orgId": "local", "userId": "root", "surface": "chat"}
RUN = json.dumps({"session": SESSION, "argv": ["true"]}).encode()
_plane = None


def plane():
    global _plane
    if _plane is None:
        _plane = Plane(egress__maximum="none", admission__running_per_org=8,
                       admission__queued_per_org=128)
        _plane.__enter__()
    return _plane


def memory_kib(p):
    with open("/proc/%d/status" % p.pid("broker")) as f:
        return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1))


def connect(p, data=b""):
    s = socket.socket(socket.AF_UNIX)
    s.connect(p.socket)  # blocking: a full backlog is waited for
    s.settimeout(20)
    if data:
        s.sendall(data)
    return s


def request(body, head="POST /v1/run HTTP/1.1\r\nHost: cordon\r\n"):
    return head.encode() + b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def status_of(s):
    """The status of the answer on @s; None: it was closed without one."""
    data = b""
    with contextlib.suppress(ConnectionError):
        while b"\r\n" not in data:
            more = s.recv(4096)
            if not more:
                break
            data += more
    return int(data.split()[1]) if data.startswith(b"HTTP/1.") else None


def works(p):
    started = time.monotonic()
    status, answer = p.api("POST", "/v1/run", RUN)
    equal((status, answer["exitCode"]), (200, 0))
    return time.monotonic() - started


def crowd(p, what, most_kib):
    """A thousand connections that each send @what and no more."""
    before = memory_kib(p)
    clients = []
    try:
        for n in range(1000):
            clients.append(connect(p, what(n)))
        for _ in range(3):
            assert works(p) < 5
        grown = memory_kib(p) - before
        assert grown < memory_bound(most_kib), "grown by %d KiB" % grown
    finally:
        for c in clients:
            c.close()
    eventually(lambda: p.api("GET", "/v1/health")[1]["connections"]["open"] < 10, "all are gone")
    works(p)


@test
def a_thousand_clients_that_say_nothing():
    crowd(plane(), lambda n: b"", 12 * 1024)


@test
def a_thousand_clients_that_send_half_a_head():
    crowd(plane(), lambda n: b"POST /v1/run HTTP/1.1\r\nHost: cor", 24 * 1024)


@test
def a_thousand_clients_that_send_half_a_body():
    crowd(plane(), lambda n: request(RUN)[:-10], 32 * 1024)


@test
def a_thousand_clients_with_a_big_half_body():
    # 200 KiB each would be 200 MiB: the broker holds its named maximum and refuses the rest.
    half = request(b"x" * (1 << 20))[:200 * 1024]
    p = plane()
    before = memory_kib(p)
    clients = []
    try:
        for n in range(1000):
            with contextlib.suppress(OSError):
                c = connect(p)
                c.setblocking(False)
                c.send(half)
                clients.append(c)
        time.sleep(1)
        grown = memory_kib(p) - before
        assert grown < memory_bound(160 * 1024), "grown by %d KiB" % grown
        eventually(lambda: p.api("GET", "/v1/health")[0] == 200, "it answers")
    finally:
        for c in clients:
            c.close()
    eventually(lambda: memory_kib(p) - before < memory_bound(48 * 1024), "it is given back", 20)
    works(p)


@test
def heads_without_end_are_refused():
    p = plane()
    before = memory_kib(p)
    for line in (b"X-%d: " + b"a" * 1000 + b"\r\n", b"X-%d: b\r\n"):
        s = connect(p, b"GET /v1/health HTTP/1.1\r\nHost: cordon\r\n")
        sent = 0
        with contextlib.suppress(OSError):
            for n in range(10000):
                sent += len(line)
                s.sendall(line % n)
                if sent > 10 << 20:
                    break
        status = status_of(s)
        assert status is None or status >= 400, status
        s.close()
    s = connect(p)
    with contextlib.suppress(OSError):
        s.sendall(b"GET /" + b"a" * (10 << 20))
    assert (status_of(s) or 414) >= 400
    assert memory_kib(p) - before < 4096
    works(p)


@test
def requests_that_are_no_http_are_refused():
    p = plane()
    for data in (b"\0" * 100 + b"\r\n\r\n", b"GET\r\n\r\n", b"\xff\xfe\r\n\r\n", b"GET / FTP/9\r\n\r\n",
                 b"GET /v1/health HTTP/1.1\r\n\r\n",  # no Host
                 b"GET /v1/health HTTP/1.1\r\nHost: a\r\nBad header\r\n\r\n",
                 b"POST /v1/run HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
                 b"POST /v1/run HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n",
                 b"POST /v1/run HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                 b"POST /v1/run HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                 b"ffffffffffffffff\r\n"):
        s = connect(p, data)
        s.settimeout(2)
        status = None
        with contextlib.suppress(TimeoutError):  # half a request: cut off later
            status = status_of(s)
        assert status is None or status >= 400, (data[:60], status)
        s.close()
    works(p)


@test
def paths_of_any_bytes_are_no_route():
    p = plane()
    for path in ("/v1/jobs/%ff%fe", "/v1/jobs/a%00b", "/v1/jobs/%2e%2e", "/v1/jobs/a%2fb",
                 "/v1/jobs/" + "%41" * 400, "//v1/health", "/v1/health/", "/v1/jobs/%0d%0aX:%20y"):
        status, answer = p.api("GET", path)
        equal((status, answer["reason"] in ("unknown_job", "invalid_request")), (404, True), path)


@test
def bodies_beyond_their_maximum_are_refused():
    p = plane()
    before = memory_kib(p)
    s = connect(p, b"POST /v1/run HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n")
    equal(status_of(s), 413)
    s = connect(p, b"POST /v1/sessions/seal HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
    with contextlib.suppress(OSError):
        for _ in range(40):
            s.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")
        s.sendall(b"0\r\n\r\n")
    equal(status_of(s), 413)
    assert memory_kib(p) - before < 4096
    works(p)


@test
def bodies_that_are_no_text_or_too_deep_are_refused():
    p = plane()
    works(p)  # the control: this body, undamaged
    before = memory_kib(p)
    deep = 400 * 1024
    for what, body in (("an open array", b"[" * deep), ("an array", b"[" * deep + b"]" * deep),
                       ("an object", b'{"a":' * (deep // 4) + b"1" + b"}" * (deep // 4)),
                       ("a field", RUN[:-1] + b',"x":' + b"[" * deep + b"]" * deep + b"}"),
                       ("an argument", RUN.replace(b'"true"', b"[" * 2000 + b"]" * 2000)),
                       ("no UTF-8", RUN.replace(b"true", b"tr\xff\xfe")),
                       ("a surrogate", RUN.replace(b"true", b"\xed\xa0\x80")),
                       ("an overlong NUL", RUN.replace(b"true", b"\xc0\x80")),
                       ("half a character", RUN.replace(b"true", b"\xe2\x82"))):
        for _ in range(5):
            status, answer = p.api("POST", "/v1/run", body)
            equal((status, answer["reason"]), (400, "invalid_request"), what)
    grown = memory_kib(p) - before
    assert grown < 16 * 1024, "grown by %d KiB" % grown
    works(p)


@test
def answers_nobody_reads_are_bounded():
    p = plane()
    before = memory_kib(p)
    body = json.dumps({"session": SESSION, "argv": ["dd", "if=/dev/zero", "bs=1M", "count=2"],
                       "outputBytes": 3 << 20}).encode()
    clients = [connect(p, request(body)) for _ in range(60)]
    eventually(lambda: p.api("GET", "/v1/health")[1]["admission"] ==
               {"running": 0, "queued": 0, "openJobs": 0}, "all have run", 60)
    grown = memory_kib(p) - before
    # a NUL is six bytes of JSON: 12 MiB each, refused beyond the named maximum
    assert grown < 220 * 1024, "grown by %d KiB" % grown
    for c in clients:
        c.close()
    eventually(lambda: memory_kib(p) - before < 64 * 1024, "it is given back", 20)
    works(p)


@test
def clients_that_vanish_at_any_moment():
    p = plane()
    whole = request(RUN)
    for cut in list(range(0, len(whole), 7)) + [len(whole)] * 20:
        connect(p, whole[:cut]).close()
    stream = request(json.dumps({"session": SESSION, "stream": True,
                                 "argv": ["sh", "-c", "echo a; sleep 1; echo b"]}).encode())
    for n in range(20):
        s = connect(p, stream)
        time.sleep(0.01 * n)
        s.close()
    eventually(lambda: p.api("GET", "/v1/health")[1]["admission"] ==
               {"running": 0, "queued": 0, "openJobs": 0}, "nothing is left of them", 60)
    works(p)


@test
def requests_in_a_row_on_one_connection():
    p = plane()
    s = connect(p, request(RUN) * 3 + b"GET /v1/reasons HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    data = b""
    while True:
        more = s.recv(65536)
        if not more:
            break
        data += more
    equal(data.count(b"HTTP/1.1 200 OK"), 4)
    equal(data.count(b'"exitCode":0'), 3)


@test
def one_user_cannot_take_every_place():
    p = plane()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgid(0)
            held = []
            with contextlib.suppress(OSError):
                for _ in range(6000):
                    held.append(connect(p))
            time.sleep(4)
        finally:
            os._exit(0)
    time.sleep(2)
    answered = threading.Event()

    def ask():
        with contextlib.suppress(Exception):
            works(p)
            answered.set()

    asker = threading.Thread(target=ask, daemon=True)
    asker.start()
    os.waitpid(pid, 0)
    eventually(lambda: p.api("GET", "/v1/health")[1]["connections"]["open"] < 10, "all are gone", 20)
    works(p)


if __name__ == "__main__":
    try:
        main()
    finally:
        if _plane:
            _plane.__exit__()
