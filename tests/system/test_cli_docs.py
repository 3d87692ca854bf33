#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The manual says what the program does: verbs, options, keys, completion."""
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
