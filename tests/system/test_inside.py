#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a command finds around it, and what its caller gets back.

Identity, environment, arguments, streams, exit statuses, cancelling and files
(SPEC B3, B7, B8, B9, W1, chapter 16), as seen by a user of `cordon run` who has
a hostile environment. Privileges and descriptors are test_escape_*.py's.
"""
import hashlib
import os
import re
import select
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from cordon import Plane, Skip, contains, equal, eventually, main, test
from hostile import Box, cmdline, last_row, probe, rows

B7 = {
    "HOME": "/workspace/home", "USER": "sandbox", "LOGNAME": "sandbox", "SHELL": "/bin/bash",
    "PATH": "/workspace/.local/bin:/workspace/.npm-global/bin:/usr/local/bin:/usr/bin:/bin",
    "PYTHONUSERBASE": "/workspace/.local", "PIP_CACHE_DIR": "/workspace/.cache/pip",
    "npm_config_prefix": "/workspace/.npm-global", "npm_config_cache": "/workspace/.cache/npm",
    "TMPDIR": "/tmp", "LANG": "C.UTF-8",
}
CANARY = "canary-%d-of-the-caller" % os.getpid()
HOSTILE = {name: CANARY for name in (
    "LD_LIBRARY_PATH LD_AUDIT LD_DEBUG GLIBC_TUNABLES BASH_ENV ENV BASH_FUNC_ls%% PYTHONPATH PYTHONSTARTUP "
    "PYTHONHOME NODE_OPTIONS NODE_PATH PERL5OPT PERL5LIB RUBYOPT GIT_DIR GIT_SSH_COMMAND GIT_CONFIG_COUNT IFS "
    "SHELLOPTS PS4 PROMPT_COMMAND CDPATH http_proxy https_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY no_proxy NO_PROXY "
    "TZ LC_ALL LANGUAGE HOME USER LOGNAME SHELL TMPDIR XDG_RUNTIME_DIR SSH_AUTH_SOCK DBUS_SESSION_BUS_ADDRESS "
    "AWS_SECRET_ACCESS_KEY OPENAI_API_KEY CORDON_TOKEN TERM COLUMNS HOSTNAME PWD OLDPWD npm_config_registry "
    "PIP_INDEX_URL JAVA_TOOL_OPTIONS MALLOC_CONF UBSAN_SYMBOLIZER_PATH").split()}
HOSTILE["LD_PRELOAD"] = ""


def entries(text, word):
    return [x.split(" ", 1)[1] for x in text.splitlines() if x.startswith(word + " ")]


# --- Who and where

@test
def identity_is_10001_without_groups():
    done = box.run("./inside")
    equal(entries(done.text, "ids"), ["10001 10001 10001 10001"])
    equal(entries(done.text, "group"), [])
    equal(box.ok("id -un; id -gn; hostname; cat /proc/sys/kernel/domainname; date +%Z"),
          "sandbox\nsandbox\nsandbox\n\nUTC\n")
    contains(box.ok("grep '^sandbox:' /etc/passwd"), ":10001:10001:")
    contains(box.ok("cat /etc/hosts"), "127.0.0.1")


NAMESPACES = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")


def namespaces(pid):
    return {n: os.readlink("/proc/%s/ns/%s" % (pid, n)) for n in NAMESPACES}


def sleepers():
    return [pid for pid in plane.sandboxed() if cmdline(pid).endswith(b"\x0086399\x00")]


@test
def every_namespace_is_its_own():
    running = [plane.popen("run", "--run-id", "ns-%d" % n, "--", "sleep", "86399") for n in (1, 2)]
    try:
        pids = eventually(lambda: sleepers() if len(sleepers()) == 2 else None, "two commands side by side")
        seen = [namespaces("self"), *map(namespaces, pids)]
        for n in NAMESPACES:
            equal(len({s[n] for s in seen}), 3, n + ": the host's and one of each command")
    finally:
        for r in running:
            r.terminate()
            r.wait()


@test
def the_command_is_a_child_of_init_and_leads_its_session():
    line = entries(box.run("./inside").text, "pid")[0].split()
    pid, ppid, sid, pgid = (int(line[i]) for i in (0, 2, 4, 6))
    equal((ppid, sid, pgid), (1, pid, pid))
    if pid == 1:
        raise AssertionError("the command is pid 1")


@test
def descriptors_are_three():
    equal([x.split()[0] for x in entries(box.run("./inside").text, "fd")], ["0", "1", "2"])


# --- Environment

@test
def environment_is_the_list_and_nothing_else():
    wanted = sorted("%s=%s" % x for x in B7.items())
    equal(sorted(entries(box.run("./inside", options=["--egress", "none"]).text, "env")), wanted)
    hostile = box.run("./inside", options=["--egress", "none"], env=HOSTILE)
    equal(sorted(entries(hostile.text, "env")), wanted, "under a hostile caller")
    if CANARY in hostile.text:
        raise AssertionError("the canary got in")
    control = subprocess.run([probe("inside")], env=dict(plane.env, **HOSTILE), stdout=subprocess.PIPE)
    contains(control.stdout.decode(), CANARY, "control")


@test
def environment_behind_a_gateway_has_the_proxy_beside_it():
    done = box.run("./inside", options=["--egress", "default_internet"], env=HOSTILE)
    if done.status:
        raise Skip("no gateway here: %s" % done.error.strip())
    got = dict(x.split("=", 1) for x in entries(done.text, "env"))
    if "http_proxy" not in got:
        raise Skip("this plane narrows to tier none")
    match = re.fullmatch(r"http://([A-Za-z0-9_-]{16,}):x@([0-9.]+):([0-9]+)", got["http_proxy"])
    if not match:
        raise AssertionError("the proxy is %r" % got["http_proxy"])
    for name in "http_proxy https_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY all_proxy".split():
        equal(got[name], got["http_proxy"], name)
    for name in ("NO_PROXY", "no_proxy"):
        equal(got[name], "localhost,127.0.0.1,::1", name)
    equal({k: v for k, v in got.items() if k in B7}, B7)
    for name, value in got.items():  # whatever single tools spell otherwise says the same
        if name not in B7 and value not in (got["http_proxy"], got["no_proxy"]):
            raise AssertionError("%s=%s is nobody's" % (name, value))
    other = dict(x.split("=", 1) for x in entries(box.run("./inside", options=["--egress", "default_internet"]).text, "env"))
    if other["http_proxy"] == got["http_proxy"]:
        raise AssertionError("two jobs have one token")


@test
def environment_of_whoever_started_the_plane_does_not_get_in():
    with Plane(up=False) as other:
        other.up(env=HOSTILE)
        done = other.run("--egress", "none", "--", "cat", "/proc/self/environ")
        equal(sorted(done.out.split(b"\0")[:-1]), sorted(("%s=%s" % x).encode() for x in B7.items()))
        for pid, name in other.processes():
            with open("/proc/%d/environ" % pid, "rb") as f:
                if CANARY.encode() in f.read() and name != "cordond":
                    raise AssertionError("%s keeps its starter's environment" % name)


@test
def an_environment_cannot_be_asked_for():
    session = {"orgId": "local", "userId": "root", "surface": "chat"}
    for field in ("env", "environ", "LD_PRELOAD"):
        status, answer = plane.api("POST", "/v1/run", {"session": session, "argv": ["true"], field: {"A": "b"}})
        equal((status, answer["reason"]), (400, "invalid_request"), field)
        contains(answer["text"], field)
    equal(plane.api("POST", "/v1/run", {"session": session, "argv": ["true"]})[0], 200, "control")


# --- Arguments

ARGUMENTS = ["", "a b", "two\nlines", "tab\there", "$(id)", "`id`", ";", "&&", "|", "--", "-x", "--help", "'", '"', "\\",
             "*", "~", "$HOME", "ünïcödé", "\x01\x7f", "a" * 5000, "%s%n", ""]


@test
def arguments_arrive_as_they_were_given():
    done = box.run("./inside", *ARGUMENTS)
    escaped = ["".join(chr(b) if 32 <= b < 127 and b != 92 else "\\x%02x" % b for b in a.encode()) for a in ARGUMENTS]
    equal(entries(done.text, "arg"), ["./inside", *escaped])


@test
def a_command_string_is_bash_c_and_the_string():
    text = "cat /proc/$$/cmdline; : 'quoted' \"$HOME\" ;"
    equal(plane.sh(text).out, b"bash\0-c\0" + text.encode() + b"\0")
    equal(plane.sh("echo $0 $#").text, "bash 0\n")


@test
def long_argument_lists_pass_and_too_long_ones_are_refused():
    many = box.run("sh", "-c", "echo $#", "sh", *["x" * 100] * 3000)
    equal(many.text, "3000\n")
    big = "y" * (2 << 20)
    session = {"orgId": "local", "userId": "root", "surface": "chat"}
    for argv in ([], ["true", big], ["true"] + ["z" * 1000] * 2100, ["tr\0ue"], ["true", "a\0b"]):
        before = denials()
        status, answer = plane.api("POST", "/v1/run", {"session": session, "argv": argv})
        equal((status, answer["reason"]), (400, "invalid_request"), str(argv)[:40])
        eventually(lambda: denials() > before, "a row, or a count of it, for " + str(argv)[:40])
    # a name that nothing has is no malformed request
    equal(plane.api("POST", "/v1/run", {"session": session, "argv": [""]})[1]["exitCode"], 127)


def denials():
    """Rows of refusals, and those that A7 only counts."""
    store = plane.api("GET", "/v1/health")[1]["ledger"]["store"]
    return store["suppressed"] + len([r for r in rows(plane) if r["decision"] == "denied"])


# --- Exit statuses

@test
def statuses_are_the_commands_own():
    for n in (0, 1, 2, 42, 125, 126, 127, 128, 130, 143, 255):
        equal(box.run("./die", "exit", str(n)).status, n, "exit %d" % n)


@test
def signals_end_a_command_as_on_a_host():
    def as_at_a_terminal():  # whoever started the suite may ignore these
        for n in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
            signal.signal(n, signal.SIG_DFL)
    control = {}
    for how in (["abort"], ["segv"], ["fpe"], ["ill"], ["stack"], *(["signal", str(n)] for n in (1, 2, 3, 9, 10, 13, 14, 15, 24, 31, 34, 64))):
        outside = subprocess.run([probe("die"), *how], preexec_fn=as_at_a_terminal).returncode
        if outside >= 0:
            raise AssertionError("control: %r ended %d" % (how, outside))
        control[" ".join(how)] = -outside
        got = box.run("./die", *how)
        equal(got.status, 128 - outside, "die %s: %r" % (how, got))
    got = box.json("./die", "abort")
    equal((got["exitCode"], got["signal"], got["termination"], got["reason"], got["oomKilled"]),
          (None, control["abort"], "exited", None, False))


@test
def a_shell_that_signals_itself_ends_by_it():
    for name in ("TERM", "KILL", "INT", "HUP", "USR1", "PIPE"):
        equal(box.sh("kill -%s $$; sleep 5" % name).status, 128 + getattr(signal, "SIG" + name), name)
    equal(box.sh("trap 'exit 9' TERM; kill -TERM $$; sleep 5").status, 9, "a handler")
    equal(box.sh("(kill -ABRT $BASHPID); echo $?").text, "134\n")
    equal(box.sh("kill -KILL 1; kill -TERM 1; kill -STOP 1; echo lives").text, "lives\n")
    # everything it may signal, itself apart
    equal(box.sh("sleep 50 & trap '' TERM; kill -TERM -1; wait $!; echo $?").text.strip()[-3:], "143")


@test
def not_found_and_not_executable():
    box.ok("echo text > plain; mkdir -p dir; printf '#!/nowhere\\n' > orphan; chmod +x orphan; head -c 64 /dev/urandom > junk; chmod +x junk")
    for argv, status in ((["no-such-program"], 127), (["./missing"], 127), (["/workspace/missing/x"], 127), (["./plain"], 126),
                         (["./dir"], 126), (["./orphan"], 127), (["./junk"], 126), (["/"], 126), (["plain/x"], 126)):
        got = box.json(*argv)
        equal((got["exitCode"], got["termination"], got["decision"], got["reason"]), (status, "exited", "allowed", None), argv)
        equal(box.run(*argv).status, status, argv)


# --- Streams

BINARY = bytes(range(256)) * 64 + b"\0\0\0" + b"\xff\xfe" + b"no final newline"


@test
def streams_pass_byte_for_byte():
    done = box.run("cat", options=["--stdin", "-"], input=BINARY)
    equal((done.out == BINARY, done.err), (True, b""))
    done = box.sh("cat >&2", "--stdin", "-", input=BINARY)
    equal((done.err == BINARY, done.out), (True, b""))
    equal(box.sh("printf 'a\\0b'; printf 'c\\0d' >&2").out, b"a\0b")
    equal(box.sh("printf 'a\\0b'; printf 'c\\0d' >&2").err, b"c\0d")
    equal(box.sh(":").out, b"")


@test
def lines_of_a_mebibyte_pass():
    line = b"x" * ((1 << 20) - 1)
    done = box.run("cat", options=["--stdin", "-"], input=line + b"\n")
    equal(hashlib.sha256(done.out).digest(), hashlib.sha256(line + b"\n").digest())
    got = box.json("cat", options=["--stdin", "-"], input=line)
    equal((len(got["stdout"]), got["stdoutTruncated"]), (len(line), False))
    equal(box.run("cat", options=["--stdin", "-", "--output-cap", "4M"], input=(line + b"\n") * 4).out, (line + b"\n") * 4)


@test
def both_directions_at_once_never_stall():
    data = os.urandom(1 << 20) * 4
    for _ in range(15):
        done = box.run("cat", options=["--stdin", "-", "--output-cap", "4M"], input=data, timeout=20)
        equal((done.status, done.out == data), (0, True))


@test
def json_gives_text_or_base64():
    got = box.sh("printf 'plain'; printf '\\377\\0' >&2", "--json").json
    equal((got["stdout"], got["stderrB64"]), ("plain", "/wA="))
    got = box.sh("printf 'nul\\0 and \\033[31m \\303\\274'", "--json").json
    equal(got["stdout"], "nul\0 and \x1b[31m ü")
    equal((got["stderr"], got["untrusted"]), ("", True))


@test
def streams_can_be_opened_by_name():
    script = ("echo one > /dev/stdout; echo two > /dev/stderr; echo three >> /proc/self/fd/1; echo four > /dev/fd/2; "
              "cat /dev/stdin; cat < /proc/self/fd/0; echo end | tee /dev/stderr")
    done = box.sh(script, "--stdin", "-", input=b"in\n")
    equal((done.status, done.out, done.err), (0, b"one\nthree\nin\nend\n", b"two\nfour\nend\n"))


@test
def standard_input_is_empty_by_default_and_may_be_a_file():
    equal(box.sh("cat; echo $?").text, "0\n")
    path = plane.path("input")
    with open(path, "wb") as f:
        f.write(BINARY)
    equal(box.run("cat", options=["--stdin", path]).out == BINARY, True)
    equal(box.run("wc", "-c", options=["--stdin", "-"], input=b"z" * (8 << 20)).text.strip(), str(8 << 20))
    # one that is not read holds nobody up
    done = box.run("true", options=["--stdin", "-"], input=b"z" * (8 << 20), timeout=20)
    equal(done.status, 0)


@test
def standard_input_and_output_stream():
    child = box.popen("cat", options=["--stdin", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        for word in (b"first\n", b"second", b"\0third\n"):
            child.stdin.write(word)
            child.stdin.flush()
            got = b""
            while len(got) < len(word):
                if not select.select([child.stdout], [], [], 10)[0]:
                    raise AssertionError("%r did not come back while the input was open" % word)
                got += os.read(child.stdout.fileno(), 100)
            equal(got, word)
        child.stdin.close()
        equal(child.wait(10), 0)
    finally:
        child.kill()
        child.wait()


@test
def a_command_that_ends_while_its_input_is_open_ends_the_run():
    child = box.popen("sh", "-c", "read x; exit 3", options=["--stdin", "-"], stdin=subprocess.PIPE)
    child.stdin.write(b"line\n")
    child.stdin.flush()
    equal(child.wait(10), 3)


# --- Cancelling

def started(child_marker):
    return eventually(lambda: [p for p in plane.sandboxed() if child_marker in cmdline(p)], "the command runs")


def row_of(user):
    found = eventually(lambda: [r for r in rows(plane) if r["actorPrincipalId"] == user], "the row of " + user)
    equal(len(found), 1, "rows of " + user)
    return found[0]


@test
def ctrl_c_and_term_cancel_at_once():
    for number in (signal.SIGINT, signal.SIGTERM):
        user = "cancels-%d" % number
        child = box.popen("bash", "-c", "trap '' INT TERM HUP; while :; do sleep 77; done", options=["--user", user],
                          stdout=subprocess.DEVNULL)
        started(b"77")
        at = time.monotonic()
        child.send_signal(number)
        equal(child.wait(20), 130)
        if time.monotonic() - at > 5:
            raise AssertionError("cancelling took %.1f s" % (time.monotonic() - at))
        # The caller has its prompt back; the kill is under way.
        eventually(lambda: not [p for p in plane.sandboxed() if b"77" in cmdline(p)], "the command gone", 5)
        row = row_of(user)
        equal((row["decision"], row["metadata"]["reason"], row["metadata"]["termination"]), ("allowed", "cancelled", "exited"))


@test
def what_ran_is_booked_as_run_however_early_it_was_cancelled():
    for n in range(8):
        user = "early-%d" % n
        child = box.popen("sh", "-c", "echo ran > ran-%d; sleep 76" % n, options=["--user", user], stdout=subprocess.DEVNULL)
        started(b"76")
        child.send_signal(signal.SIGINT)
        equal(child.wait(20), 130)
        equal(row_of(user)["decision"], "allowed", "a command that was seen running")


@test
def a_client_that_dies_cancels():
    child = box.popen("bash", "-c", "while :; do sleep 78; done", options=["--user", "dies"], stdout=subprocess.DEVNULL)
    started(b"78")
    child.kill()
    child.wait()
    eventually(lambda: not [p for p in plane.sandboxed() if b"78" in cmdline(p)], "the command is gone", 5)
    equal(row_of("dies")["metadata"]["reason"], "cancelled")
    equal(box.run("true").status, 0, "the workspace is free again")


@test
def a_client_that_stops_reading_can_be_left():
    child = box.popen("bash", "-c", "while :; do echo 79797979797979797979; done", options=["--output-cap", "64M"], stdout=subprocess.PIPE)
    started(b"79")
    child.stdout.read(100)
    time.sleep(0.3)
    child.kill()
    child.wait()
    child.stdout.close()
    eventually(lambda: not [p for p in plane.sandboxed() if b"79" in cmdline(p)], "the command is gone", 5)


# --- Files

@test
def files_of_a_run_persist_and_others_do_not_see_them():
    two = [["--run-id", "a/b"], ["--run-id", "a-b"], ["--run-id", "a_b"], ["--run-id", "A/B"], ["--run-id", "a/b", "--org", "other"],
           ["--run-id", "a/b/"], ["--run-id", "../a/b"], []]
    for i, options in enumerate(two):
        equal(plane.sh("ls -A | grep -v home; echo %d > mine; mkdir -p deep/er; ln -s mine link; chmod 700 deep" % i, *options).text, "", options)
    for i, options in enumerate(two[:-1]):
        equal(plane.sh("cat mine link; stat -c %a deep", *options).text, "%d\n%d\n700\n" % (i, i), options)
    equal(plane.sh("cat mine", *two[-1]).status, 1, "without a run nothing is kept")


@test
def files_persist_over_a_restart():
    equal(plane.sh("echo kept > kept; printf '#!/bin/sh\\necho tool\\n' > tool; chmod +x tool; mkdir -p .local/bin; mv tool .local/bin",
                   "--run-id", "restart").status, 0)
    plane.down()
    plane.up()
    equal(plane.sh("cat kept; tool", "--run-id", "restart").text, "kept\ntool\n")
    equal(plane.sh("ls kept", "--run-id", "restart2").status, 1, "control")


@test
def nothing_but_the_workspace_survives():
    box.ok("touch /tmp/t /dev/shm/s /workspace/w; ls /tmp /dev/shm")
    equal(box.ok("ls -A /tmp /dev/shm; ls /workspace/w"), "/dev/shm:\n\n/tmp:\n/workspace/w\n")


@test
def only_three_places_can_be_written():
    script = "for d in $(find / -xdev -type d -not -path '/proc/*' 2>/dev/null) /dev /dev/shm /tmp /workspace; do " \
             "{ : > $d/.probe; } 2>/dev/null && echo $d && rm $d/.probe; done"
    equal(sorted(set(box.ok(script + "; true").split())), ["/dev/shm", "/tmp", "/workspace"])
    done = box.sh("cp /bin/true /dev/shm/x; chmod +x /dev/shm/x; /dev/shm/x")
    equal(done.status, 126, "/dev/shm is noexec")
    equal(box.sh("cp /bin/busybox /tmp/true; /tmp/true").status, 0, "control: /tmp is not")


@test
def workspaces_belong_to_the_sandbox():
    equal(box.ok("stat -c '%u %g %U' /workspace /workspace/home; touch f; stat -c '%u %g' f; chown 10001:10001 f && echo own"),
          "10001 10001 sandbox\n10001 10001 sandbox\n10001 10001\nown\n")
    equal(box.sh("chown 0 f").status, 1)
    equal(box.sh("chown 12345 f").status, 1)


# --- Answers

KEYS = ("jobId commandId decision reason exitCode signal termination oomKilled stdout stderr stdoutTruncated stderrTruncated wallMs "
        "imageDigest workspaceKb limits egress guards receipt untrusted").split()


@test
def every_answer_has_every_key():
    for options, command in (([], "true"), (["--cwd", "/etc"], "true"), (["--pids", "99999999"], "true"), (["--timeout", "0.2"], "sleep 9")):
        got = plane.cordon("run", "--json", *options, "-c", command).json
        equal([k for k in KEYS if k not in got], [], "keys missing from %r %s" % (options, command))
    equal(set(got["egress"]), set("mode clamped totalBytes kernelBytes gatewayBytes denied".split()))


with Plane() as plane:
    box = Box(plane, "inside", "inside", "die")
    main()
