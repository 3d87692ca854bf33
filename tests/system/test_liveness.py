#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The liveness probe as an operator's socket (S5): asked before the queue and after it, believed in one form.

The operator's program is a thread here, behind a unix socket: a dictionary of
runs, or whatever a case wants it to be. What it did not say well in time ends
in capability_unavailable and leaves the job as it was.
"""
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cordon import SCALE, Later, Plane, contains, equal, eventually, main, test  # noqa: E402

HANDSHAKE = "cordon:handshake"
MINE = {"state": "alive", "orgId": "local", "userId": "root"}


# --- The operator's side

class Probe:
    """Listens at @path; answers out of @runs, or as @odd[run id](socket, question) does."""

    def __init__(self, path, runs=None, backlog=64):
        self.path, self.runs, self.odd, self.backlog = path, runs or {}, {}, backlog
        self.asked, self.lines = [], b""
        self.over = threading.Event()

    def __enter__(self):
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        os.chmod(self.path, 0o666)
        self.listener.listen(self.backlog)
        threading.Thread(target=self.loop, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.over.set()
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)

    def loop(self):
        with contextlib.suppress(OSError):
            while True:
                s, _ = self.listener.accept()
                threading.Thread(target=self.one, args=(s,), daemon=True).start()

    def one(self, s):
        with s, contextlib.suppress(OSError):
            line = b""
            while not line.endswith(b"\n"):
                more = s.recv(4096)
                if not more:
                    return
                line += more
            self.lines += line
            question = json.loads(line)
            self.asked.append(question)
            odd = self.odd.get(question["runId"])
            if odd:
                odd(s, question)
            else:
                s.sendall(line_of(self.record(question), question))

    def record(self, question):
        return self.runs.get(question["runId"], {"state": "gone", "orgId": None, "userId": None})

    def of(self, run_id):
        return [q for q in self.asked if q["runId"] == run_id]


def line_of(record, question, **more):
    return json.dumps({"id": question["id"], **record, **more}).encode() + b"\n"


@contextlib.contextmanager
def plane(up=True, **keys):
    """(plane, path of its probe's socket); with @up as it stands at the start of a test."""
    with Plane(up=False, egress__maximum="none", **keys) as p:
        os.makedirs(p.path("op"))
        p.keys["run_probe"] = p.path("op/probe")
        p.configure()
        if up:
            p.up()
        yield p, p.keys["run_probe"]


def session(run_id="r1", org="local", user="root"):
    return {"orgId": org, "userId": user, "surface": "agent_run", **({"runId": run_id} if run_id else {})}


def go(p, run_id="r1", org="local", user="root", argv=("true",), timeout=60):
    """(reason or exit code, the object) of one command."""
    _, r = p.api("POST", "/v1/run", {"session": session(run_id, org, user), "argv": list(argv)},
                 timeout=timeout * SCALE)
    return (r["exitCode"] if r.get("decision") == "allowed" else r["reason"]), r


def open_job(p, run_id="r1"):
    _, sealed = p.api("POST", "/v1/sessions/seal", session(run_id))
    status, job = p.api("POST", "/v1/jobs", {"carrier": sealed["carrier"]})
    assert status in (200, 201), (status, job)
    return job["jobId"]


def execute(p, job, argv, timeout=60):
    _, r = p.api("POST", "/v1/jobs/%s/commands" % job, {"argv": argv}, timeout=timeout * SCALE)
    return (r["exitCode"] if r.get("decision") == "allowed" else r["reason"]), r


def health(p):
    return p.api("GET", "/v1/health")[1]


def queued(p):
    return health(p)["admission"]["queued"]


def workspaces(p):
    return json.dumps([w["label"] for w in p.api("GET", "/v1/workspaces")[1]["workspaces"]])


# --- Tests

@test
def the_probe_says_which_runs_live():
    with plane() as (p, path), Probe(path, {"r1": dict(MINE)}) as probe:
        equal(go(p, "unknown")[0], "run_removed", "an unknown run is gone")
        equal(go(p)[0], 0, "alive")
        equal(go(p, user="else")[0], "run_removed", "not its owner")
        equal(go(p, org="else")[0], "run_removed", "not its organisation")
        probe.runs["r1"]["state"] = "archived"
        equal(go(p)[0], 0, "an archived run goes on")
        probe.runs["r1"] = {"state": "gone"}
        equal(go(p)[0], "run_removed", "gone, and nobody's")
        before = len(probe.asked)
        equal(go(p, None)[0], 0, "without a run")
        equal(len(probe.asked), before, "about no run nothing is asked")


@test
def it_is_asked_before_the_queue_and_after_it_and_about_nothing_secret():
    with plane() as (p, path), Probe(path, {"r1": dict(MINE)}) as probe:
        canary = "canary-4711"
        equal(go(p, argv=["echo", canary])[0], 0)
        first, second = probe.of("r1")
        equal({k: first[k] for k in first if k != "id"}, {
            "runId": "r1", "orgId": "local", "userId": "root", "surface": "agent_run"})
        equal(sorted(first), sorted(second))
        assert first["id"] != second["id"] and len(first["id"]) == 16, (first, second)
        assert canary.encode() not in probe.lines
        assert b"v1." not in probe.lines, "a carrier"


def kill_running(p, name):
    """Ends the one sandboxed process called @name, as a crash of its own would."""
    def find():
        for pid in p.sandboxed():
            with contextlib.suppress(OSError):
                with open("/proc/%d/comm" % pid) as f:
                    if f.read().strip() == name:
                        return pid
        return None
    os.kill(eventually(find, name + " runs"), signal.SIGKILL)


@test
def a_run_that_goes_while_it_waits_does_not_start():
    with plane() as (p, path), Probe(path, {"r1": dict(MINE)}) as probe:
        job = open_job(p)
        first = Later(execute, p, job, ["sleep", "600"])
        eventually(lambda: len(probe.of("r1")) == 2, "one runs")
        second = Later(execute, p, job, ["touch", "never"])
        eventually(lambda: queued(p) == 1, "one waits")
        equal(len(probe.of("r1")), 3, "it was asked about before the queue")
        probe.runs["r1"] = dict(MINE, userId="somebody else")
        kill_running(p, "sleep")
        equal((first.answer()[1]["termination"], first.answer()[1]["signal"]), ("exited", 9))
        equal(second.answer()[0], "run_removed")
        equal(len(probe.of("r1")), 4, "and once more after it")
        equal(execute(p, job, ["true"])[0], "run_removed", "the job has ended")
        contains(workspaces(p), "local/r1", "a run that is another's keeps its workspace")


@test
def only_a_run_that_is_gone_loses_its_workspace():
    with plane(run_probe_timeout="0.2") as (p, path), Probe(path, {"r1": dict(MINE)}) as probe:
        equal(go(p, argv=["touch", "kept"])[0], 0)
        for what, record, reason in (
                ("another's", dict(MINE, orgId="else"), "run_removed"),
                ("gone, and another's", dict(MINE, state="gone", userId="else"), "run_removed"),
                ("no word of ours", dict(MINE, state="GONE"), "capability_unavailable")):
            probe.runs["r1"] = record
            equal(go(p)[0], reason, what)
            probe.runs["r1"] = dict(MINE)
            equal(go(p, argv=["test", "-e", "kept"])[0], 0, what)
        probe.runs["r1"] = {"state": "gone"}
        equal(go(p)[0], "run_removed")
        eventually(lambda: "local/r1" not in workspaces(p), "its workspace is collected")
        probe.runs["r1"] = dict(MINE)
        equal(go(p, argv=["test", "-e", "kept"])[0], 1, "and the next one is empty")


# --- A probe that misbehaves

def say(data):
    return lambda s, q: s.sendall(data)


def endless(s, _):
    while True:
        s.sendall(b" " * 65536)


def wait(probe):
    return lambda s, q: probe.over.wait(300)


def odd_ones(probe):
    """{what: how the probe answers}; after each the question counts as not answered."""
    def other_id(s, q):
        s.sendall(line_of(MINE, dict(q, id=("0" if q["id"][0] != "0" else "1") + q["id"][1:])))

    def dribble(s, q):
        with contextlib.suppress(OSError):
            for byte in line_of(MINE, q)[:-1]:  # and the newline never comes
                s.sendall(bytes([byte]))
            probe.over.wait(300)

    return {
        "hangs": wait(probe), "hangs up": lambda s, q: None,
        "hangs up in the middle": lambda s, q: s.sendall(line_of(MINE, q)[:-1]),
        "never ends its line": dribble, "is no JSON": say(b"alive\n"), "is empty": say(b"\n"),
        "is NULs": say(b"\0" * 64 + b"\n"), "is a giant": say(b"x" * 5000 + b"\n"),
        "is an endless one": endless, "echoes another id": other_id,
        "says it twice": lambda s, q: s.sendall(2 * line_of(MINE, q)),
        "says an unknown word": lambda s, q: s.sendall(line_of(dict(MINE, state="running"), q)),
        "says no word": lambda s, q: s.sendall(line_of({"orgId": "local", "userId": "root"}, q)),
        "names no owner": lambda s, q: s.sendall(line_of({"state": "alive"}, q)),
        "says too much": lambda s, q: s.sendall(line_of(MINE, q, more=1)),
        "says gone in no way of ours": lambda s, q: s.sendall(line_of({"state": "gone"}, q, run="r1")),
    }


@test
def what_is_not_answered_well_in_time_runs_nothing_and_ends_nothing():
    with plane(run_probe_timeout="1", audit="required") as (p, path), \
            Probe(path, {"r1": dict(MINE)}) as probe:
        job, broker = open_job(p), p.pid("broker")
        equal(execute(p, job, ["touch", "kept"])[0], 0)
        for what, how in odd_ones(probe).items():
            probe.odd["r1"] = how
            before = time.monotonic()
            got, r = execute(p, job, ["rm", "kept"])
            took = time.monotonic() - before
            equal((got, r["decision"]), ("capability_unavailable", "denied"), what)
            if what in ("hangs", "never ends its line"):
                assert 0.9 < took < 30 * SCALE, "%s: %.2f s" % (what, took)
            equal(go(p, None)[0], 0, what + ": others")
            # the control: the same job, with its workspace
            del probe.odd["r1"]
            equal(execute(p, job, ["test", "-e", "kept"])[0], 0, what + ": and then well")
        equal(p.pid("broker"), broker, "the broker is the same")
        rows = p.api("GET", "/v1/audit?all=1&limit=1000")[1]["rows"]
        equal(sum(x["metadata"]["reason"] == "capability_unavailable" for x in rows),
              len(odd_ones(probe)), "each left its row")


@test
def where_no_probe_is_nothing_of_a_run_runs():
    with plane() as (p, path):
        equal(go(p)[0], "capability_unavailable", "no socket")
        with open(path, "w"):
            equal(go(p)[0], "capability_unavailable", "a file that is none")
        os.unlink(path)
        with Probe(path, {"r1": dict(MINE)}):
            os.chmod(path, 0o600)
            equal(go(p)[0], "capability_unavailable", "a socket that is not the broker's")
            os.chmod(path, 0o666)
            equal(go(p)[0], 0, "the control")
        equal(go(p)[0], "capability_unavailable", "it is gone again")
        equal(go(p, None)[0], 0, "without a run")
        with Probe(path, {"r1": dict(MINE)}):
            equal(go(p)[0], 0, "it is back")


@test
def one_that_hangs_for_an_organisation_harms_no_other():
    many = 18  # two more than one organisation's questions at once
    with plane(run_probe_timeout="60", admission__running_per_org="2") as (p, path), Probe(path) as probe:
        let = threading.Event()

        def slow(s, q):
            let.wait(300)
            s.sendall(line_of(probe.runs[q["runId"]], q))
        for i in range(many):
            probe.runs["a%d" % i] = dict(MINE, orgId="a")
            probe.odd["a%d" % i] = slow
            probe.runs["b%d" % i] = dict(MINE, orgId="b")
        slow_ones = [Later(go, p, "a%d" % i, "a", timeout=120) for i in range(many)]
        eventually(lambda: sum(q["orgId"] == "a" for q in probe.asked) == 16, "16 hang")
        for i in range(many):
            equal(go(p, "b%d" % i, "b")[0], 0, "another organisation's")
        equal(go(p, None, "a")[0], 0, "the same organisation's, without a run")
        equal(health(p)["state"], "ready")
        equal(health(p)["missing"], [])
        equal(health(p)["runProbe"]["waiting"], many)
        equal(sum(q["orgId"] == "a" for q in probe.asked), 16)
        equal([x.result for x in slow_ones], [None] * many, "none was answered meanwhile")
        let.set()
        equal([x.answer()[0] for x in slow_ones], [0] * many)
        equal(health(p)["runProbe"]["waiting"], 0)


@test
def one_that_hangs_for_all_is_named_and_forgotten_by_who_goes_away():
    with plane(run_probe_timeout="1") as (p, path), Probe(path, {"r1": dict(MINE)}) as probe:
        probe.odd = {"r1": wait(probe), HANDSHAKE: wait(probe)}
        equal([x.answer()[0] for x in [Later(go, p) for _ in range(30)]],
              ["capability_unavailable"] * 30)
        h = eventually(lambda: health(p)["missing"] and health(p), "health names it", 30)
        equal((h["state"], h["missing"]), ("ready", ["no liveness probe: commands of runs are refused"]))
        equal(go(p, None)[0], 0, "without a run")
        probe.odd = {}
        eventually(lambda: not health(p)["missing"], "it is well again", 30)
        equal(go(p)[0], 0)
        # Its client goes away while it is asked about: nothing waits for the answer.
        probe.odd = {"r1": wait(probe)}
        p.down()
        p.configure(run_probe_timeout="60")
        p.up()
        client = p.popen("run", "--run-id", "r1", "--surface", "agent_run", "--", "true")
        eventually(lambda: health(p)["runProbe"]["waiting"] == 1, "it is asked about")
        client.kill()
        client.wait()
        eventually(lambda: health(p)["runProbe"]["waiting"] == 0, "it is forgotten", 30)


@test
def one_that_does_not_accept_is_waited_for_and_no_longer_than_the_limit():
    with plane(run_probe_timeout="1") as (p, path):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        os.chmod(path, 0o666)
        listener.listen(1)
        equal({x.answer()[0] for x in [Later(go, p) for _ in range(12)]}, {"capability_unavailable"})
        p.configure(run_probe_timeout="60")
        equal(p.cordon("reload").status, 0)
        late = [Later(go, p) for _ in range(6)]
        eventually(lambda: health(p)["runProbe"]["waiting"] >= 6, "they wait", 30)
        probe = Probe(path, {"r1": dict(MINE)})
        probe.listener = listener
        threading.Thread(target=probe.loop, daemon=True).start()
        equal([x.answer()[0] for x in late], [0] * 6)
        listener.close()


# --- What is configured

SCRIPT = r"""
read -r question
id=${question#*\"id\":\"}
printf '{"id":"%s","state":"alive","orgId":"local","userId":"root"}\n' "${id%%\"*}"
"""


@test
def a_program_on_standard_input_and_output_is_a_probe():
    def start(s, _):
        subprocess.run(["/bin/sh", "-c", SCRIPT], stdin=s, stdout=s, check=False)
    with plane() as (p, path):
        probe = Probe(path)
        probe.one = lambda s: [start(s, None), s.close()]  # as inetd would: one process each
        with probe:
            equal(go(p)[0], 0)
            equal(go(p, org="else")[0], "run_removed")


@test
def only_a_start_turns_it_on_or_off_and_never_beside_the_registry():
    with plane() as (p, path), Probe(path, {"r1": dict(MINE)}):
        equal(go(p)[0], 0)
        p.configure(run_probe="")
        done = p.cordon("reload")
        assert done.status != 0
        contains(done.error + p.log, "run_probe")
        equal(go(p, "unknown")[0], "run_removed", "it is still asked")
        p.down()
        p.configure(run_registry="on")
        done = p.up(check=False)
        assert done.status != 0
        contains(done.error + p.log, "'run_probe' and 'run_registry'")
        del p.keys["run_probe"]
        p.configure()
        p.up()
        equal(go(p, "unknown")[0], 0, "with neither every run is alive")
        equal(health(p)["runProbe"], None)


if __name__ == "__main__":
    main()
