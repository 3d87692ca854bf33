#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# cordon-test: timeout=900
"""Every labelled step of every daemon with every fault that makes sense there.

A trial arms one fault by a reload, runs the work that leads over its step, takes
the fault away and asks four things: was the fault met (the log says so), is the
answer right or a refusal by a name of the closed list, does the same work then
succeed, and has nothing stayed behind (processes, directories of slots,
descriptors of daemons that lived through it). Some trials share a plane; when
it is down, nothing of it may be left, its chain must verify, and every command
whose answer said that it ran has its row, where `audit = required`.

`make check` runs for each step one error, and a kill where test_kill.py has
none; `make faults` (FAULTS=all) runs all of the table, which takes minutes.
"""
import concurrent.futures
import contextlib
import errno
import glob
import json
import os
import re
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import internet  # noqa: E402
from cordon import TOP, Plane, contains, equal, eventually, main, test  # noqa: E402
from fault_steps import KILLED  # noqa: E402
from hostile import rows  # noqa: E402

ALL = os.environ.get("FAULTS") == "all"
SLACK = 4           # descriptors: pipes kept for bulk, sockets of the resolver
KILLS_PER_LIFE = 4
NOMEM, FILES, FULL, BROKEN = "error=12", "error=24", "error=28", "error=5"
for _text, _name in ((NOMEM, "ENOMEM"), (FILES, "EMFILE"), (FULL, "ENOSPC"), (BROKEN, "EIO")):
    assert _text == "error=%d" % getattr(errno, _name)
KILL, SLOW, SHORT = "kill", "delay=300", "short"

# {program: {step: (work, faults)}}. The first fault of a step is the one of `make check`.
STEPS = {
    "cordon-broker": {
        "command.alive": ("plain", [NOMEM, KILL]),
        "command.lists": ("plain", [NOMEM, KILL]),
        "command.voucher": ("plain", [NOMEM, KILL]),
        "command.nonce": ("plain", [NOMEM, KILL]),
        "command.admit": ("plain", [NOMEM, KILL]),
        "command.claim": ("plain", [NOMEM, KILL]),
        "command.intent": ("plain", [NOMEM, KILL, SLOW]),
        "command.skills": ("skill", [NOMEM, KILL]),
        "command.slot": ("plain", [FILES, KILL, SLOW]),
        "command.egress": ("egress", [NOMEM, KILL]),
        "command.run": ("plain", [NOMEM, KILL]),
        "command.started": ("plain", [SLOW, KILL]),
        "command.done": ("plain", [SLOW, KILL]),
        "command.record": ("plain", [SLOW, KILL]),
        "run.argv": ("plain", [FILES, NOMEM, KILL]),
        "run.output": ("plain", [NOMEM, KILL]),
        "output.keep": ("plain", [NOMEM, KILL]),
        "feed.keep": ("input", [NOMEM, KILL]),
        "feed.write": ("input", [SHORT, KILL]),
        "record.receipt": ("plain", [NOMEM, KILL]),
        "record.row": ("plain", [NOMEM, KILL]),
        "fd.write": ("plain", [SHORT, FULL, NOMEM, KILL]),
    },
    "cordon-worker": {
        "slot.begin": ("plain", [NOMEM, FULL, KILL]),
        "slot.cgroup": ("plain", [FILES, NOMEM, KILL]),
        "slot.pipes": ("plain", [NOMEM, FILES, KILL]),
        "slot.cloned": ("plain", [FILES, NOMEM, KILL, SLOW]),
        "slot.mapped": ("plain", [NOMEM, FILES, KILL]),
        "slot.sent": ("plain", [NOMEM, KILL]),
        "slot.give": ("plain", [SLOW, KILL]),
        "run.begin": ("plain", [NOMEM, KILL]),
        "run.limited": ("plain", [NOMEM, KILL]),
        "run.workspace": ("plain", [FILES, KILL]),
        "workspace.image": ("keyed", [FULL, BROKEN, KILL]),
        "run.sent": ("plain", [SLOW, KILL]),
        "started.before": ("plain", [SLOW, KILL]),
        "finish.reaped": ("plain", [SLOW, KILL]),
        "finish.removed": ("plain", [SLOW, KILL]),
        "done.before": ("plain", [SLOW, KILL]),
        "egress.room": ("egress", [NOMEM, FILES, KILL]),
        "egress.assert": ("egress", [NOMEM, KILL]),
        "egress.begin": ("egress", [NOMEM, FULL, KILL]),
        "fd.write": ("keyed", [SHORT, FULL, BROKEN, KILL]),
    },
    "cordon-ledger": {
        "ledger.write": ("plain", [FULL, BROKEN, NOMEM, KILL]),
        "ledger.commit": ("plain", [FULL, BROKEN, NOMEM, KILL, SLOW]),
        "ledger.committed": ("plain", [SLOW, KILL]),
        "ledger.checkpoint": ("plain", [FULL, BROKEN, KILL]),
        "fd.pwrite": ("plain", [SHORT, FULL, BROKEN, KILL]),
    },
    "cordon-gateway": {
        "gateway.room": ("egress", [NOMEM, KILL]),
        "gateway.register": ("egress", [NOMEM, KILL, SLOW]),
        "gateway.accept": ("egress", [FILES, NOMEM, KILL]),
        "gateway.conn": ("egress", [NOMEM, KILL]),
        "gateway.resolve": ("egress", [NOMEM, KILL]),
        "gateway.dial": ("egress", [FILES, NOMEM, KILL, SLOW]),
        "gateway.send": ("egress", [SHORT, BROKEN, KILL]),
        "gateway.unregister": ("egress", [SLOW, KILL]),
    },
    "cordon-skills": {
        "skills.view": ("skill", [NOMEM, KILL]),
        "skills.open": ("skill", [FILES, KILL]),
        "skills.read": ("fresh", [BROKEN, NOMEM, KILL, SLOW]),
        "skills.close": ("skill", [SLOW, KILL]),
        "stage.create": ("stage", [FULL, FILES, KILL]),
        "stage.write": ("stage", [FULL, BROKEN, KILL]),
        "stage.commit": ("stage", [FULL, KILL]),
        "depot.place": ("stage", [FULL, BROKEN, KILL]),
        "depot.catalog": ("stage", [FULL, BROKEN, KILL]),
        "depot.named": ("stage", [BROKEN, KILL]),
        "fd.write": ("stage", [SHORT, FULL, BROKEN, KILL]),
    },
}
# Processes of cordon-skills that learn of a fault when they start, not by a reload.
AT_START = re.compile(r"^(stage|depot|fd)\.|^skills\.(read|open)$")
# Reached only at a start of the plane (test_kill.py), or there to disarm a guard in other tests.
ELSEWHERE = {"cordond.start", "cordond.up", "cordond.down", "egress.open", "guard.open"}
GUARDS = {"gateway.ceiling", "gateway.judge", "gateway.count"}

FINE = "fine\n"
INPUT = b"".join(b"%07d\n" % i for i in range(40000))
net = None


def setup():
    global net
    net = internet.Internet()
    net.dns({"good.example": [["203.0.113.10"]]})
    net.serve("203.0.113.10", 80, internet.Http(body=FINE.encode()))


# --- The works. Each gives (an answer, what its output is when it is right).

class Bench:
    """A plane, the skill that lies on it, and numbers for names that are used once."""

    def __init__(self, plane):
        self.plane, self.n, self.ran, self.descriptors = plane, 0, [], {}
        self.skill = tempfile.mkdtemp(prefix="skill-", dir=plane.root)
        with open(self.skill + "/SKILL.md", "w") as f:
            f.write("---\nname: hello\ndescription: says it\n---\n" + "text\n" * 30000)
        with open(self.skill + "/word", "w") as f:
            f.write(FINE)
        equal(plane.cordon("skill", "add", self.skill, "--slug", "hello").status, 0, "skill add")
        self.reasons = {r["code"] for r in plane.api("GET", "/v1/reasons")[1]["reasons"]}

    def next(self):
        self.n += 1
        return "n%d" % self.n

    def ask(self, *options, data=None):
        done = self.plane.run("--json", "--timeout", "5", *options, input=data)
        try:
            return done.json
        except ValueError:
            raise AssertionError("no answer: %r" % done) from None

    def plain(self):
        return self.ask("-c", "echo fine"), FINE

    def input(self):
        return self.ask("--output-cap", "1M", "--stdin", "-", "--", "cat", data=INPUT), INPUT.decode()

    def keyed(self):
        run = self.next()
        answer = self.ask("--run-id", run, "--workspace-size", "8M", "-c", "echo fine > f; cat f")
        return answer, FINE

    def egress(self):
        return self.ask("-c", "wget -q -O - http://good.example/"), FINE

    def skill_(self):
        return self.ask("--skill", "hello", "-c", "cat /skills/hello/word"), FINE

    def fresh(self):
        """A content that no cache of the kernel has."""
        word = self.next()
        with open(self.skill + "/word", "w") as f:
            f.write(word)
        done = self.plane.cordon("skill", "add", self.skill, "--slug", "fresh")
        with open(self.skill + "/word", "w") as f:
            f.write(FINE)
        equal(done.status, 0, "skill add: %r" % done)
        return self.ask("--skill", "fresh", "-c", "cat /skills/fresh/word"), word

    def stage(self):
        """A new version: afterwards the catalog has it whole, or has what was there before."""
        with open(self.skill + "/version", "w") as f:
            f.write(self.next())
        done = self.plane.cordon("skill", "add", self.skill, "--slug", "hello")
        reason = None if done.status == 0 else "staging_failed"
        if done.status:
            contains(done.error, "cordon: ", "a staging that fails says why")
        return {"exitCode": done.status, "stdout": FINE, "reason": reason, "jobId": None,
                "termination": None, "error": done.error}, FINE

    def work(self, name):
        return getattr(self, name + "_" if name == "skill" else name)()

    def judge(self, name, answer, wanted):
        """"right", or the name of what it says went wrong. Anything else is a wrong answer."""
        if answer["termination"] == "exited" and answer["reason"] is None and answer["exitCode"] == 0 \
                or name == "stage" and answer["exitCode"] == 0:
            equal(answer["stdout"], wanted, "an answer that says all went well")
            verdict = "right"
        elif answer["reason"] is not None:
            assert answer["reason"] in self.reasons, answer
            verdict = answer["reason"]
        elif answer["termination"] != "exited":
            assert answer["termination"] in ("timeout", "output_cap_exceeded", "worker_error"), answer
            verdict = answer["termination"]
        else:  # the command itself met the fault, and says so by its status
            assert name in ("egress", "skill", "fresh") and answer["exitCode"] not in (0, None), answer
            assert wanted.startswith(answer["stdout"]), answer
            verdict = "exit %d" % answer["exitCode"]
        if answer["termination"] is not None and answer["jobId"]:
            self.ran.append(answer["jobId"])
        return verdict


# --- Trials

def arm(bench, program, step, fault):
    plane = bench.plane
    plane.configure(fault="%s/%s:%s" % (program, step, fault) if step else "")
    done = plane.cordon("reload")
    if program == "cordon-skills" and AT_START.search(step or "stage."):
        plane.wait_ready()
        up = plane.log.count("cordon-broker info skills up")
        plane.kill("skills")
        eventually(lambda: plane.log.count("cordon-broker info skills up") > up, "skills again",
                   seconds=30)
    return done.status == 0


def disarm(bench, program, step):
    """A daemon that was just starting may still have the fault: then once more."""
    def away():
        with contextlib.suppress(AssertionError, OSError):
            bench.plane.wait_ready()
            return arm(bench, program if AT_START.search(step) else None, None, None)
    eventually(away, "the fault taken away", seconds=40, step=0.1)


def descriptors(plane):
    found = {}
    for name, (pid, _, _) in plane.daemons().items():
        with contextlib.suppress(OSError):
            found[name, pid] = len(os.listdir("/proc/%d/fd" % pid))
    return found


def slots(plane):
    """What of slots there is on the host: processes, and directories in every hierarchy."""
    return plane.sandboxed() + [d for top in plane.cgroups()
                                for d in glob.glob(top + "/jobs/slot-*")]


def strike(bench, program, step, fault):
    """Works until the fault was met; gives what the answer to that was."""
    plane, (work, _) = bench.plane, STEPS[program][step]
    line = re.compile(r"%s(-stager|-server)? info fault step=%s$" % (program, re.escape(step)), re.M)
    before = len(line.findall(plane.log))

    def met():
        return len(line.findall(plane.log)) > before
    # Behind the handshake of the reload, which passes the steps of every command too.
    late = ":after=2" if fault == KILL and work == "plain" else ""
    assert arm(bench, program, step, fault + late), "reload"
    for _ in range(20):
        with concurrent.futures.ThreadPoolExecutor() as pool:
            working = pool.submit(bench.work, work)
            eventually(lambda: working.done() or met(), "an answer or the fault", seconds=60)
            if fault == KILL and met():
                disarm(bench, program, step)  # while the client still waits
            verdict = bench.judge(work, *working.result())
        if met():
            return verdict
        time.sleep(0.1)  # the daemon was not yet there again for its peers
    raise AssertionError("the fault was not met: " + verdict)


def trial(bench, program, step, fault):
    plane, (work, _) = bench.plane, STEPS[program][step]
    what = "%s/%s:%s" % (program, step, fault)
    try:
        verdict = strike(bench, program, step, fault)
    except AssertionError as e:
        raise AssertionError("%s: %s" % (what, e)) from None
    finally:
        disarm(bench, program, step)

    def again():
        with contextlib.suppress(AssertionError):
            return bench.judge(work, *bench.work(work)) == "right"
    eventually(again, "the same work succeeds after " + what, seconds=30, step=0.1)
    eventually(lambda: not slots(plane), "nothing of a slot left after " + what)
    flat(bench, what, work)
    return "%s: %s" % (what, verdict)


def flat(bench, what, work):
    """No daemon holds more descriptors than when it had first served every work."""
    def excess():
        now = descriptors(bench.plane)
        return {k: (n, bench.descriptors[k]) for k, n in now.items()
                if n > bench.descriptors.setdefault(k, n + SLACK)}
    if work == "keyed":  # a workspace that stays
        bench.descriptors = {k: n for k, n in bench.descriptors.items() if k[0] != "worker"}
    eventually(lambda: not excess(), "descriptors as before after %s: %r" % (what, excess()))


def close(bench):
    plane = bench.plane
    equal(plane.cordon("audit", "verify").status, 0, "the chain verifies")
    known = {r["resourceId"] for r in rows(plane)}
    missing = [j for j in bench.ran if j not in known]
    lost = sum(plane.api("GET", "/v1/health")[1]["ledger"][k] for k in ("lost",))
    assert len(missing) <= lost, "rows lost and not counted: %r (%d counted)" % (missing, lost)
    plane.down()
    equal(plane.left_behind(), [], "left behind")


def chosen():
    """{program: [(step, fault), ...]} of this run."""
    found = {}
    for program, steps in STEPS.items():
        short = program.replace("cordon-", "")
        for step, (_, faults) in steps.items():
            for fault in faults:
                is_ours = fault == faults[0] or \
                    fault == KILL and step not in KILLED.get(short, ())
                if ALL or is_ours:
                    found.setdefault(program, []).append((step, fault))
    return found


def run_life(program, trials, audit):
    with Plane(pool=0, audit=audit, gateway__resolver=internet.DNS) as plane:
        bench = Bench(plane)
        for work in ("plain", "input", "keyed", "egress", "skill"):
            equal(bench.judge(work, *bench.work(work)), "right", "control: " + work)
        eventually(lambda: not slots(plane), "control: nothing of a slot")
        flat(bench, "the controls", None)
        failed = []
        for step, fault in trials:
            try:
                print("# " + trial(bench, program, step, fault))
            except AssertionError as e:
                failed.append(str(e))
                print("# FAILED " + str(e)[:1500])
                disarm(bench, program, step)
            sys.stdout.flush()
        close(bench)
        equal(failed, [], "trials")


def errors(program, *modes):
    trials = [t for t in chosen()[program] if t[1] != KILL]
    for audit in modes if not ALL else ("required", "best_effort"):
        run_life(program, trials, audit)


@test
def the_broker_goes_on_after_errors():
    errors("cordon-broker", "required")


@test
def the_worker_goes_on_after_errors():
    errors("cordon-worker", "required")


@test
def the_ledger_goes_on_after_errors():
    errors("cordon-ledger", "required", "best_effort")


@test
def the_gateway_goes_on_after_errors():
    errors("cordon-gateway", "required")


@test
def the_skills_go_on_after_errors():
    errors("cordon-skills", "required")


# Kills: a few of one daemon in each life of a plane, for cordond waits longer every time.
for _program, _trials in chosen().items():
    _kills = [t for t in _trials if t[1] == KILL]
    for _i in range(0, len(_kills), KILLS_PER_LIFE):
        def _run(program=_program, group=_kills[_i:_i + KILLS_PER_LIFE]):
            run_life(program, group, "required")
        _run.__name__ = "%s_comes_back_after_kills_%d" % (_program.replace("-", "_"),
                                                          _i // KILLS_PER_LIFE + 1)
        test(_run)


@test
def every_labelled_step_is_in_the_table():
    found = set()
    for path in glob.glob(os.path.join(TOP, "userspace/*/*.c")) + \
            glob.glob(os.path.join(TOP, "fuse-skills/*.c")):
        with open(path) as f:
            text = f.read()
        found |= set(re.findall(r'fault_(?:hit|step|write)\((?:at < 0 \? )?"([a-z_.]+)"', text))
        found |= set(re.findall(r'fault_write\(at < 0 \? "[a-z.]+" : "([a-z.]+)"', text))
        found |= set(re.findall(r'\{ "(command\.[a-z]+)", step_', text))
    rows_ = {step for steps in STEPS.values() for step in steps}
    equal(found - rows_ - ELSEWHERE - GUARDS, set(), "steps without a row")
    equal(rows_ - found, set(), "rows without a step")
    equal(ELSEWHERE - {s for steps in KILLED.values() for s in steps}, set(), "killed elsewhere")


if __name__ == "__main__":
    setup()
    main()
