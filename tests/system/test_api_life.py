#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The broker in time: queues (Q6), restarts, peers that die, the reaper, drain, health (R2), roles (F1)."""
import json
import os
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cordon import Later, Plane as AnyPlane, contains, equal, eventually, main, test  # noqa: E402


def Plane(**keys):
    """Without a network: what is tested here has nothing to do with it."""
    return AnyPlane(egress__maximum="none", **keys)


def session(org="local", user="root", **more):
    return dict({"orgId": org, "userId": user, "surface": "chat"}, **more)


def run(p, org="local", **fields):
    return p.api("POST", "/v1/run", dict({"session": session(org)}, **fields))


def rows(p, query="all=1"):
    found, after = [], 0
    while after is not None:
        _, answer = p.api("GET", "/v1/audit?%s&limit=1000&after=%d" % (query, after))
        found += answer["rows"]
        after = answer["next"]
    return [r for r in found if r["organizationId"] != "cordon:handshake"]


def open_job(p, org="local", **more):
    _, sealed = p.api("POST", "/v1/sessions/seal", session(org, **more))
    status, job = p.api("POST", "/v1/jobs", {"carrier": sealed["carrier"]})
    equal(status, 201, job)
    return job["jobId"]


def execute(p, job, **fields):
    return p.api("POST", "/v1/jobs/%s/commands" % job, fields)


# --- Admission

def scan(p):
    """{pid: org} of commands, from cgroups: every command here is a shell that names its org."""
    found = {}
    try:
        pids = p.sandboxed()
    except OSError:  # a slot's directory went meanwhile
        return found
    for pid in pids:
        try:
            with open("/proc/%d/cmdline" % pid, "rb") as f:
                words = f.read().split(b"\0")
        except OSError:
            continue
        if words[:1] == [b"sh"] and len(words) > 3 and words[3].startswith(b"org"):
            found[pid] = words[3]
    # A shell's child has the shell's words until it execs: it is not a command of its own.
    return {pid: org for pid, org in found.items() if parent(pid) not in found}


def parent(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            return int(f.read().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def running_by_org(p):
    """{org: commands} that run at one instant: those that two scans in a row both saw."""
    first, second, found = scan(p), scan(p), {}
    for pid in first.keys() & second.keys():
        found[second[pid]] = found.get(second[pid], 0) + 1
    return found


def crowd(p, orgs, each):
    most, most_of_org, stop = [0], [0], threading.Event()

    def watch():
        while not stop.is_set():
            now = running_by_org(p)
            most[0] = max(most[0], sum(now.values()))
            most_of_org[0] = max([most_of_org[0]] + list(now.values()))
            time.sleep(0.005)

    watcher = threading.Thread(target=watch)
    watcher.start()
    calls = [Later(run, p, "org%d" % (n % orgs),
                   argv=["sh", "-c", "sleep 0.3; true", "org%d" % (n % orgs)])
             for n in range(orgs * each)]
    answers = [c.answer()[1] for c in calls]
    stop.set()
    watcher.join()
    ran = [a for a in answers if a["decision"] == "allowed"]
    refused = [a["reason"] for a in answers if a["decision"] == "denied"]
    equal(len(ran) + len(refused), orgs * each, "every one is answered")
    equal([a for a in ran if a["exitCode"] != 0], [])
    equal(set(refused) - {"queue_saturated"}, set())
    assert most[0] <= 8 and most_of_org[0] <= 2, "running at once: %d, of one organisation %d" % (
        most[0], most_of_org[0])
    assert most[0] >= 4, "the ceilings were never tried: %d" % most[0]
    return ran, refused


@test
def thirty_six_commands_of_six_organisations():
    with Plane(admission__queued_per_org=2) as p:
        ran, refused = crowd(p, 6, 6)
        assert refused, "nothing was over the ceilings"
        # One row each, but for refusals the ledger counts instead of writing (A7).
        eventually(lambda: len([r for r in rows(p) if r["decision"] == "allowed"]) == len(ran),
                   "a row for each that ran")
        denied = len([r for r in rows(p) if r["decision"] == "denied"])
        suppressed = p.api("GET", "/v1/health")[1]["ledger"]["store"]["suppressed"]
        equal(denied + suppressed, len(refused))
        equal(p.api("GET", "/v1/health")[1]["admission"], {"running": 0, "queued": 0, "openJobs": 0})
        equal(running_by_org(p), {})


@test
def five_hundred_commands_of_fifty_organisations():
    with Plane() as p:
        ran, refused = crowd(p, 50, 10)
        assert len(ran) >= 128, "%d ran, %d were refused" % (len(ran), len(refused))
        eventually(lambda: len([r for r in rows(p) if r["decision"] == "allowed"]) == len(ran),
                   "a row for each that ran", 20)
        denied = len([r for r in rows(p) if r["decision"] == "denied"])
        suppressed = p.api("GET", "/v1/health")[1]["ledger"]["store"]["suppressed"]
        equal(denied + suppressed, len(refused), "a row or a counted suppression each")
        equal(p.api("GET", "/v1/health")[1]["admission"], {"running": 0, "queued": 0, "openJobs": 0})


def queue(p):
    """{commandId: position} of what waits, as the API shows it."""
    jobs = p.api("GET", "/v1/jobs?all=1")[1]["jobs"]
    return {c["commandId"]: c["position"] for j in jobs for c in j["commands"] if c["phase"] == "queued"}


@test
def queue_positions_are_visible():
    with Plane(admission__running_per_org=1) as p:
        jobs = [open_job(p) for _ in range(4)]
        calls = [Later(execute, p, jobs[0], command="until test -e go; do sleep 0.05; done",
                       commandId="first")]
        eventually(lambda: "first" in [c["commandId"] for j in p.api("GET", "/v1/jobs")[1]["jobs"]
                                       for c in j["commands"] if c["phase"] == "running"], "it runs")
        for n in (1, 2, 3):
            calls.append(Later(execute, p, jobs[n], argv=["true"], commandId="waits-%d" % n))
            eventually(lambda n=n: len(queue(p)) == n, "%d wait" % n)
        equal(queue(p), {"waits-1": 0, "waits-2": 1, "waits-3": 2}, "how many are before it")
        equal(run(p, "other", argv=["true"])[1]["exitCode"], 0, "another organisation does not wait")
        p.api("DELETE", "/v1/jobs/" + jobs[1])
        eventually(lambda: queue(p) == {"waits-2": 0, "waits-3": 1}, "who goes gives up its place")
        equal(calls[1].answer()[1]["reason"], "job_closed")
        p.api("DELETE", "/v1/jobs/" + jobs[0])
        equal([c.answer()[1]["exitCode"] for c in calls[2:]], [0, 0])
        equal(queue(p), {})


@test
def open_jobs_have_a_ceiling():
    with Plane(admission__open_jobs_per_org=3) as p:
        jobs = [open_job(p) for _ in range(3)]
        _, sealed = p.api("POST", "/v1/sessions/seal", session())
        status, answer = p.api("POST", "/v1/jobs", {"carrier": sealed["carrier"]})
        equal((status, answer["reason"]), (429, "open_jobs_exhausted"))
        open_job(p, org="other")
        p.api("DELETE", "/v1/jobs/" + jobs[0])
        open_job(p)
        equal(rows(p), [], "a failed job open is no command's row")


@test
def one_workspace_runs_one_command_at_a_time():
    with Plane() as p:
        job = open_job(p)
        calls = [Later(execute, p, job, command="test ! -e lock; echo $?; touch lock; sleep 0.2; rm lock")
                 for _ in range(4)]
        equal([c.answer()[1]["stdout"] for c in calls], ["0\n"] * 4)


@test
def idle_jobs_hold_no_process_and_the_reaper_closes_them():
    with Plane(carrier_ttl=2, pool=0) as p:
        busy, idle = open_job(p), open_job(p)
        for _ in range(20):
            open_job(p)
        eventually(lambda: not p.sandboxed(), "no process")
        long = Later(execute, p, busy, command="sleep 5; echo done")
        eventually(lambda: idle not in [j["jobId"] for j in p.api("GET", "/v1/jobs")[1]["jobs"]],
                   "the idle one is closed", 10)
        equal(execute(p, idle, argv=["true"])[1]["reason"], "job_terminated")
        equal(long.answer()[1]["stdout"], "done\n", "never one with a command in flight")


# --- Restarts

def kill(p, name):
    """Kills a daemon; gives when the next one is ready."""
    pid = p.kill(name)
    eventually(lambda: p.daemons()[name][0] not in (0, pid), "cordond has seen it", 10)
    p.wait_ready()


@test
def jobs_names_and_workspaces_survive_the_broker():
    with Plane() as p:
        job = open_job(p)
        equal(execute(p, job, command="echo kept > f", commandId="one")[1]["exitCode"], 0)
        kill(p, "broker")
        equal(execute(p, job, command="cat f")[1]["stdout"], "kept\n")
        status, r = execute(p, job, argv=["true"], commandId="one")
        equal((status, r["reason"]), (409, "command_replayed"))
        p.api("DELETE", "/v1/jobs/" + job)
        kill(p, "broker")
        equal(execute(p, job, argv=["true"])[1]["reason"], "unknown_job")


@test
def a_whole_plane_down_and_up_again():
    with Plane() as p:
        job = open_job(p, runId="r")
        equal(execute(p, job, command="echo kept > f")[1]["exitCode"], 0)
        p.down()
        p.up()
        equal(execute(p, job, command="cat f")[1]["stdout"], "kept\n")


@test
def a_broker_that_dies_takes_every_sandbox_with_it():
    with Plane() as p:
        call = Later(run, p, argv=["sleep", "77"])
        eventually(lambda: "77" in str(cmdlines(p)), "it runs")
        p.kill("broker")
        eventually(lambda: "77" not in str(cmdlines(p)), "it is gone", 2)
        call.join()
        p.wait_ready()
        equal(run(p, argv=["true"])[1]["exitCode"], 0)


def cmdlines(p):
    found = []
    for pid in p.sandboxed():
        try:
            with open("/proc/%d/cmdline" % pid, "rb") as f:
                found.append(f.read().decode(errors="replace").split("\0")[:-1])
        except OSError:
            pass
    return found


@test
def a_worker_that_dies_ends_its_commands_and_the_next_one_serves():
    with Plane() as p:
        calls = [Later(run, p, "org%d" % n, command="echo began; sleep 78") for n in range(3)]
        eventually(lambda: cmdlines(p).count(["sleep", "78"]) >= 3, "they run")
        p.kill("worker")
        for c in calls:
            status, r = c.answer()
            equal((status, r["decision"], r["termination"], r["reason"], r["exitCode"]),
                  (200, "allowed", "worker_error", "worker_error", None))
            equal(r["stdout"], "began\n")
            equal(r["receipt"]["outputHash"], None)
        eventually(lambda: "78" not in str(cmdlines(p)), "nothing of it is left", 2)
        eventually(lambda: run(p, argv=["true"])[1]["exitCode"] == 0, "the next worker serves", 15)
        reasons = [r["metadata"]["termination"] for r in rows(p) if r["organizationId"] != "local"]
        equal(reasons, ["worker_error"] * 3)


@test
def without_a_worker_commands_are_refused_and_health_says_so():
    with Plane() as p:
        equal(p.api("GET", "/v1/health")[1]["state"], "ready")
        pid = p.pid("worker")
        os.kill(pid, signal.SIGSTOP)  # cordond must not start another one yet
        os.kill(pid, signal.SIGKILL)
        killed = time.monotonic()
        state = eventually(lambda: (lambda h: h if h["state"] == "unavailable" or
                                    h["worker"]["up"] else None)(p.api("GET", "/v1/health")[1]), "health")
        assert time.monotonic() - killed < 1.5
        contains(("unavailable", "ready"), state["state"])
        eventually(lambda: p.api("GET", "/v1/health")[1]["state"] == "ready", "ready again", 20)


@test
def health_is_earned_and_flown_once():
    with Plane() as p:
        before = handshakes(p)
        calls = [Later(p.api, "GET", "/v1/health") for _ in range(30)]
        for c in calls:
            equal(c.answer()[1]["state"], "ready")
        assert handshakes(p) - before <= 1, "every caller flew its own"
        h = p.api("GET", "/v1/health")[1]
        equal((h["missing"], h["handshake"]["ok"], h["worker"]["up"]), ([], True, True))


@test
def health_flies_the_handshake_again_when_it_is_old():
    with Plane() as p:
        equal(p.api("GET", "/v1/health")[1]["state"], "ready")
        before, at = handshakes(p), p.api("GET", "/v1/health")[1]["handshake"]["atMs"]
        time.sleep(11)  # what was known is fresh for ten seconds
        h = p.api("GET", "/v1/health")[1]
        equal(h["state"], "ready")
        assert h["handshake"]["atMs"] > at
        eventually(lambda: handshakes(p) == before + 1, "a real command, with its row")


def handshakes(p):
    _, answer = p.api("GET", "/v1/audit?org=cordon:handshake&limit=1000")
    return len(answer["rows"])


@test
def without_a_provenance_key_the_plane_is_unavailable_and_runs():
    with Plane() as p:
        directory = p.path("etc/cordon/secrets/provenance")
        os.rename(directory, directory + ".away")
        equal(p.cordon("reload").status, 0)
        h = p.api("GET", "/v1/health")[1]
        equal((h["state"], h["missing"]), ("unavailable", ["no provenance key"]))
        equal(run(p, argv=["true"])[1]["exitCode"], 0, "L0 runs in every state (R4)")
        os.rename(directory + ".away", directory)
        equal(p.cordon("reload").status, 0)
        equal(p.api("GET", "/v1/health")[1]["state"], "ready")


@test
def drain_lets_commands_end_and_tells_those_that_wait():
    with Plane(admission__running=1) as p:
        first = Later(run, p, "a", command="sleep 1.5; echo done")
        eventually(lambda: "1.5" in str(cmdlines(p)), "one runs")
        second = Later(run, p, "b", argv=["true"])
        time.sleep(0.3)
        down = Later(p.down, 20)
        equal(first.answer()[1]["stdout"], "done\n")
        r = second.answer()[1]
        equal((r["decision"], r["reason"]), ("denied", "shutdown"))
        down.answer()


@test
def down_ends_what_runs():
    with Plane() as p:
        call = Later(run, p, argv=["sleep", "60"])
        eventually(lambda: "60" in str(cmdlines(p)), "it runs")
        p.down()
        r = call.answer()[1]
        equal((r["decision"], r["reason"], r["signal"]), ("allowed", "shutdown", 9))


# --- The ledger's modes

@test
def required_mode_dispatches_nothing_without_an_intent():
    with Plane(audit="required") as p:
        equal(run(p, argv=["true"])[1]["exitCode"], 0)
        n = len(rows(p))
        os.kill(p.pid("ledger"), signal.SIGSTOP)
        pid = p.pid("ledger")
        call = Later(run, p, command="echo ran")
        time.sleep(1)
        equal(call.is_alive(), True, "it waits for its intent")
        equal("echo ran" in str(cmdlines(p)), False)
        os.kill(pid, signal.SIGKILL)
        r = call.answer()[1]
        equal((r["decision"], r["reason"]), ("denied", "audit_unavailable"))
        p.wait_ready()
        eventually(lambda: run(p, argv=["true"])[1]["exitCode"] == 0, "the next ledger serves")
        eventually(lambda: len(rows(p)) >= n + 2, "the refusal has its row too")


@test
def in_the_default_mode_a_dead_ledger_disturbs_nothing():
    with Plane() as p:
        os.kill(p.pid("ledger"), signal.SIGSTOP)
        pid = p.pid("ledger")
        for n in range(5):
            equal(run(p, argv=["true"])[1]["exitCode"], 0)
        os.kill(pid, signal.SIGKILL)
        equal(run(p, argv=["true"])[1]["exitCode"], 0)
        p.wait_ready()
        eventually(lambda: len(rows(p)) == 6, "no row is lost")
        equal(run(p, argv=["true"], commandId="needs-a-ledger")[1]["exitCode"], 0)


# --- Runs

@test
def the_registry_says_which_runs_live():
    with Plane(run_registry="on") as p:
        def go(run_id="r1", org="local", user="root", **fields):
            return p.api("POST", "/v1/run", {"session": session(org, user, runId=run_id),
                                             "argv": ["true"], **fields})[1]
        equal(go()["reason"], "run_removed", "an unknown run is gone")
        state = {"orgId": "local", "userId": "root", "state": "alive"}
        equal(p.api("PUT", "/v1/runs/r1", state)[0], 200)
        equal(go()["exitCode"], 0)
        equal(go(user="else")["reason"], "run_removed", "not its owner")
        equal(go(org="else")["reason"], "run_removed", "not its organisation")
        p.api("PUT", "/v1/runs/r1", dict(state, state="archived"))
        equal(go()["exitCode"], 0, "an archived run goes on")
        equal(run(p, argv=["true"])[1]["exitCode"], 0, "without a run nothing is asked")
        job = open_job(p, runId="r1")
        equal(execute(p, job, command="echo kept > f")[1]["exitCode"], 0)
        call = Later(execute, p, job, argv=["sleep", "60"])
        eventually(lambda: "60" in str(cmdlines(p)), "it runs")
        equal(p.api("PUT", "/v1/runs/r1", dict(state, state="gone"))[0], 200)
        r = call.answer()[1]
        equal((r["reason"], r["signal"], r["decision"]), ("run_removed", 9, "allowed"))
        equal(execute(p, job, argv=["true"])[1]["reason"], "run_removed")
        eventually(lambda: not p.api("GET", "/v1/workspaces")[1]["workspaces"],
                   "its workspace is collected")


@test
def a_run_that_goes_takes_those_that_wait_with_it():
    with Plane(run_registry="on") as p:
        state = {"orgId": "local", "userId": "root", "state": "alive"}
        p.api("PUT", "/v1/runs/r1", state)
        job = open_job(p, runId="r1")
        first = Later(execute, p, job, argv=["sleep", "60"])
        eventually(lambda: "60" in str(cmdlines(p)), "one runs")
        second = Later(execute, p, job, argv=["true"])
        eventually(lambda: p.api("GET", "/v1/health")[1]["admission"]["queued"] == 1, "one waits")
        p.api("PUT", "/v1/runs/r1", dict(state, state="gone"))
        equal([(c.answer()[1]["decision"], c.answer()[1]["reason"]) for c in (first, second)],
              [("allowed", "run_removed"), ("denied", "run_removed")])
        # and one that is found gone only after the queue
        p.api("PUT", "/v1/runs/r2", state)
        job = open_job(p, runId="r2")
        first = Later(execute, p, job, argv=["sleep", "2"])
        eventually(lambda: "sleep" in str(cmdlines(p)), "one runs")
        second = Later(execute, p, job, argv=["true"])
        eventually(lambda: p.api("GET", "/v1/health")[1]["admission"]["queued"] == 1, "one waits")
        p.api("PUT", "/v1/runs/r2", dict(state, userId="somebody else"))
        equal(first.answer()[1]["exitCode"], 0)
        equal(second.answer()[1]["reason"], "run_removed")


# --- Peers

def as_peer(p, uid, groups, calls):
    """Makes the calls as another user. Gives [(status, object)]."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.setgroups(groups)
            os.setgid(65534)
            os.setuid(uid)
            answers = [p.api(*c) for c in calls]
            os.write(writer, json.dumps(answers).encode())
            status = 0
        except BaseException as why:
            os.write(writer, json.dumps([repr(why)]).encode())
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader, "rb") as f:
        data = f.read()
    os.waitpid(pid, 0)
    answers = json.loads(data)
    equal([a for a in answers if isinstance(a, str)], [], "as uid %d" % uid)
    return answers


GROUP = "users"
GID = 100


@test
def a_member_of_the_group_runs_as_local_under_its_own_name():
    with Plane(group=GROUP) as p:
        job = open_job(p)
        _, carrier = p.api("POST", "/v1/sessions/seal", session("local", "54321"))
        _, foreign = p.api("POST", "/v1/sessions/seal", session("acme", "54321"))
        own = {"session": session("local", "54321"), "argv": ["id", "-u"]}
        answers = as_peer(p, 54321, [GID], [
            ("POST", "/v1/run", own),
            ("POST", "/v1/run", dict(own, session=session("local", "root"))),
            ("POST", "/v1/run", dict(own, session=session("acme", "54321"))),
            ("POST", "/v1/sessions/seal", session("local", "54321")),
            ("POST", "/v1/jobs/%s/commands" % job, {"argv": ["true"]}),
            ("DELETE", "/v1/jobs/" + job),
            ("POST", "/v1/jobs", carrier),
            ("POST", "/v1/jobs", foreign),
            ("GET", "/v1/jobs"),
            ("GET", "/v1/jobs?all=1"),
            ("GET", "/v1/audit?org=local"),
            ("GET", "/v1/audit?all=1"),
            ("GET", "/v1/workspaces"),
            ("GET", "/v1/runs"),
            ("GET", "/v1/health"),
        ])
        equal((answers[0][0], answers[0][1]["stdout"]), (200, "10001\n"))
        for i in (1, 2, 3, 7, 9, 10, 11, 12, 13):
            equal((answers[i][0], answers[i][1]["reason"]), (403, "capability_denied"), str(i))
        for i in (4, 5):
            equal((answers[i][0], answers[i][1]["reason"]), (404, "unknown_job"), str(i))
        equal(answers[6][0], 201)
        equal([j["jobId"] for j in answers[8][1]["jobs"]], [answers[6][1]["jobId"]])
        equal(answers[14][1]["state"], "ready")
        equal(execute(p, answers[6][1]["jobId"], argv=["true"])[1]["reason"], "unknown_job",
              "nor is the peer's job anybody else's")


@test
def rules_give_roles_organisations_and_users():
    rules = ("uid:54001 issuer,runner acme,beta *; uid:54002 auditor acme *; "
             "uid:54003 runner acme joe,self; uid:54004 admin * *")
    with Plane(group=GROUP, peers=rules) as p:
        seal = ("POST", "/v1/sessions/seal")
        answers = as_peer(p, 54001, [GID], [
            seal + (session("acme", "x"),), seal + (session("beta", "y"),),
            seal + (session("gamma", "y"),), seal + (session("local", "54001"),)])
        equal([a[0] for a in answers], [200, 200, 403, 403])
        equal(run(p, "acme", argv=["true"])[0], 200)
        answers = as_peer(p, 54002, [GID], [
            ("GET", "/v1/audit?org=acme"), ("GET", "/v1/audit?org=beta"),
            ("GET", "/v1/audit?all=1"), seal + (session("acme", "x"),),
            ("POST", "/v1/run", {"session": session("acme", "x"), "argv": ["true"]})])
        equal([a[0] for a in answers], [200, 403, 403, 403, 403])
        equal({r["organizationId"] for r in answers[0][1]["rows"]}, {"acme"})
        answers = as_peer(p, 54003, [GID], [
            ("POST", "/v1/run", {"session": session("acme", u), "argv": ["true"]})
            for u in ("joe", "54003", "jo", "joe,self", "")])
        equal([a[0] for a in answers], [200, 200, 403, 403, 401])
        answers = as_peer(p, 54004, [GID], [("GET", "/v1/audit?all=1"), ("GET", "/v1/jobs?all=1"),
                                            ("GET", "/v1/workspaces")])
        equal([a[0] for a in answers], [200, 200, 200])
        answers = as_peer(p, 54009, [GID], [
            ("POST", "/v1/run", {"session": session("local", "54009"), "argv": ["true"]})])
        equal(answers[0][0], 200, "the group's rule stands last")


@test
def a_bad_rule_keeps_the_old_ones():
    with Plane() as p:
        p.configure(peers="uid:1 king * *")
        done = p.cordon("reload")
        assert done.status != 0, done
        contains(done.error, "uid:1")
        equal(run(p, argv=["true"])[1]["exitCode"], 0)


if __name__ == "__main__":
    main()
