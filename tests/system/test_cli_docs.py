#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The manual says what the program does: verbs, options, keys, completion, reasons, the API by curl."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cordon import CORDON, TOP, Plane, Skip, equal, main, run, test  # noqa: E402

PAGES = [os.path.join(TOP, "userspace/cli/cordon.1"),
         os.path.join(TOP, "userspace/supervisor/cordond.8")]


def helped(*words):
    done = run([CORDON, *words, "--help"])
    equal(done.status, 0, repr(done))
    return done.text


def verbs(*table):
    return re.findall(r"^  ([a-z][a-z-]*) ", helped(*table), re.M)


def page():
    with open(PAGES[0]) as f:
        return f.read().replace("\\-", "-")


@test
def every_verb_stands_in_the_manual():
    text = page()
    for verb in verbs():
        assert re.search(r"\b%s\b" % verb, text), "cordon.1 does not know '%s'" % verb
    for table in ("session", "job", "audit", "receipt", "workspace", "skill", "file", "artifact",
                  "egress", "run-registry"):
        section = re.search(r"^\.SS cordon %s (.*?)(?=^\.S[SH] )" % table, text, re.M | re.S)
        assert section, "cordon.1 has no section on '%s'" % table
        assert verbs(table), table
        for sub in verbs(table):
            assert re.search(r"\b%s\b" % sub, section[1]), "no '%s %s' there" % (table, sub)
        equal(set(verbs(table)) - set(complete(table, "")), set(), "completion of " + table)


@test
def every_option_of_run_stands_in_the_manual():
    text = page()
    for option in re.findall(r"--[a-z][a-z-]*", helped("run")):
        assert option in text, "cordon.1 does not know " + option


@test
def every_key_has_a_line_that_parses_as_its_preset():
    lines = [line[2:] for line in run([CORDON, "config"]).text.splitlines()
             if re.match(r"# [a-z_.]+ = ", line)]
    assert len(lines) > 25
    with Plane(up=False, rollout=None, image=None) as p:
        p.configure(conf="\n".join(x for x in lines if not x.startswith("rollout")) + "\n")
        equal(p.up(check=False).status, 3)  # it parsed, and the rollout is off
    man = run([CORDON, "config", "--man"]).text
    for line in lines:
        assert line.split()[0] in man
    equal(set(run([CORDON, "config", "--json"]).json), {x.split()[0] for x in lines})


@test
def the_pages_are_clean_troff():
    if not shutil.which("groff"):
        raise Skip("no groff here")
    with tempfile.NamedTemporaryFile(suffix=".5") as conf:
        conf.write(run([CORDON, "config", "--man"]).out)
        conf.flush()
        for path in PAGES + [conf.name]:
            done = run(["groff", "-man", "-Tutf8", "-ww", "-z", path])
            equal((done.status, done.error), (0, ""), path)


@test
def the_reasons_of_the_manual_are_the_programs():
    section = re.search(r"^\.SH REASONS\n(.*?)^\.SH ", page(), re.M | re.S)[1]
    told = {code: (decision, int(status), int(http)) for code, decision, status, http in re.findall(
        r"^\.B ([a-z_]+)\n(denied|allowed), (\d+), (\d+): ", section, re.M)}
    with Plane(egress__maximum="none") as p:
        table = p.api("GET", "/v1/reasons")[1]["reasons"]
        assert len(table) > 40, table
        equal(told, {r["code"]: (r["decision"], r["exitStatus"], r["httpStatus"]) for r in table})
        # and the status is what really comes: one refusal by each face
        code = "limit_above_maximum"
        equal(p.run("--memory", "100000G", "--", "true").status, told[code][1])
        equal(p.api("POST", "/v1/run", {"argv": ["true"], "memoryBytes": 1 << 60, "session": {
            "orgId": "local", "userId": "root", "surface": "chat"}})[0], told[code][2])


@test
def the_manuals_curl_examples_work():
    assert shutil.which("curl"), "no curl here"
    text = re.search(r"^\.SH THE API\n.*?^\.EX\n(.*?)^\.EE", page(), re.M | re.S)[1]
    health, one, opened, command, audit, close = [x.strip() for x in text.split("\n\n")]
    with Plane(egress__maximum="none") as p:
        def shell(script, job=""):
            done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=120,
                                  env={**p.env, "S": p.socket, "J": job})
            equal((done.returncode, done.stderr), (0, ""), script)
            return json.loads(done.stdout) if done.stdout else None
        equal(shell(health)["state"], "ready")
        equal(shell(one)["stdout"], "hello\n")
        job = shell(opened)["jobId"]
        equal(shell(command, job)["stdout"], "/workspace\n")
        assert any(r["resourceId"] == job for r in shell(audit)["rows"]), "its row"
        shell(close, job)
        equal(shell(command, job)["reason"] in ("job_terminated", "unknown_job"), True, "it is closed")


def complete(*words):
    """What bash offers for the last of @words."""
    script = """
source %s/userspace/cli/completion/cordon.bash
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _cordon; printf '%%s\\n' "${COMPREPLY[@]}"
""" % TOP
    done = subprocess.run(["bash", "-c", script, "bash", CORDON, *words], capture_output=True,
                          text=True, timeout=20, check=True)
    return done.stdout.split()


@test
def bash_completes_verbs_options_and_values():
    assert set(verbs()) <= set(complete(""))
    equal(complete("dow"), ["down"])
    equal(set(complete("session", "")), {"seal", "open"})
    equal(complete("job", "exec", "--mem"), ["--memory"])
    equal(complete("--root", "/tmp", "run", "--egress", "al"), ["allowlist"])
    equal(complete("run", "--surface", "agent"), ["agent_run"])
    equal(complete("run", "--", "--mem"), [])


if __name__ == "__main__":
    main()
