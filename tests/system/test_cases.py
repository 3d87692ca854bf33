#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What went wrong in other people's sandboxes, tried here.

Each test is named for its row of the case list; tests/ESCAPES.md says for every
row which test has it, or why it does not apply.
"""
import fcntl
import os
import pty
import re
import subprocess
import sys
import termios
import time
import tty

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from cordon import BIN, CORDON, STORE, Plane, contains, equal, eventually, main, run, test
import images
from hostile import Box, cmdline, headers, probe

NUMBERS = headers()


def gone(number):
    eventually(lambda: not [p for p in plane.sandboxed() if b"%d" % number in cmdline(p)], "sleep %d is gone" % number)


# --- the list itself

@test
def every_row_of_the_list_names_a_test_that_exists():
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "../ESCAPES.md")) as f:
        text = f.read()
    named = re.findall(r"`(test_\w+\.(?:py|c)):(\w+)(\*?)`", text)
    for file, name, star in named:
        kind, begin = ("../unit", "static void ") if file.endswith(".c") else ("", "def ")
        with open(os.path.join(here, kind, file)) as f:
            if not re.search(r"^%s%s%s\(" % (begin, name, r"\w*" if star else ""), f.read(), re.M):
                raise AssertionError("no test %s in %s" % (name + star, file))
    rows = [x for x in text.splitlines() if re.match(r"\| \d+ \|", x)]
    equal([int(x.split("|")[1]) for x in rows], list(range(1, 78)), "classes a to g")
    if len(named) < 50:
        raise AssertionError("control: only %d names found" % len(named))


# --- G01 the whole path of the attack: a command typed at the caller's prompt

@test
def g01_nothing_is_typed_at_the_callers_prompt():
    master, slave = pty.openpty()
    tty.setraw(slave)

    def become():
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    text = "touch /tmp/owned\n"
    lines = ["t%d %d %d 0x5412 =%s" % (i, NUMBERS["ioctl"], fd, c) for fd in (0, 1, 2) for i, c in enumerate(text) if c not in " \n"]
    for argv in (["run", *box.arguments(["./call", *lines], ["--stdin", "-"])],
                 ["run", *box.arguments(["sh", "-c", "exec 3<>/dev/tty; ./call '%s' <&3" % lines[0]], ["--stdin", "-"])]):
        subprocess.run([CORDON, *argv], env=dict(plane.env, CORDON_ROOT=plane.root), stdin=slave, stdout=slave, stderr=slave,
                       preexec_fn=become, timeout=60)
        os.set_blocking(slave, False)
        try:
            raise AssertionError("typed: %r" % os.read(slave, 100))
        except BlockingIOError:
            pass
    subprocess.run([probe("call"), *lines], stdin=slave, stdout=slave, stderr=slave, preexec_fn=become, timeout=60)
    contains(os.read(slave, 100), b"touch", "control")
    os.close(master)
    os.close(slave)


# --- G03 the client dies, and with it all its command started

@test
def g03_helpers_do_not_outlive_the_client():
    child = box.popen("sh", "-c", "sleep 399 & setsid sleep 399 & sleep 399", stdout=subprocess.DEVNULL)
    eventually(lambda: len([p for p in plane.sandboxed() if cmdline(p) == b"sleep\x00399\0"]) == 3, "three of them")
    child.kill()
    child.wait()
    gone(399)


# --- G07, G47, G51

@test
def g07_a_background_child_does_not_hold_the_answer():
    done = box.sh("sleep 300 & exit 0", timeout=60)
    equal((done.status, done.out), (0, b""))
    gone(300)


@test
def g47_a_child_with_its_own_session_is_caught_and_the_text_kept():
    done = box.sh("setsid sleep 330 & echo started", timeout=60)
    equal((done.status, done.out), (0, b"started\n"))
    gone(330)


@test
def g51_output_is_complete_and_the_time_limit_kept():
    got = box.json("sh", "-c", "exec 7>&1 8>&2; (sleep 340 >&7 2>&8) & head -c 500000 /dev/zero | tr '\\0' y; echo tail >&2", timeout=60)
    equal((len(got["stdout"]), got["stderr"], got["termination"]), (500000, "tail\n", "exited"))
    got = box.json("sh", "-c", "exec 7>&1; (sleep 341 >&7) & sleep 341", options=["--timeout", "0.5"], timeout=60)
    equal(got["termination"], "timeout")
    gone(341)


# --- G11, G13 limits in words and beyond 32 bits

@test
def g11_a_limit_is_a_number_and_tiny_writes_work():
    for word in ("soft", "hard", "unlimited", "infinity", "max"):
        done = plane.run("--workspace-size", word, "--", "true")
        equal(done.status, 125, word)
        contains(done.error, "cordon: invalid_request", word)
        contains(done.error, word)
    equal(plane.run("--workspace-size", "64K", "-c", "echo x > x; cat x; ulimit -f").text, "x\n64\n")


@test
def g13_exactly_four_gibibytes():
    for size, want in (("4294967296", 4 << 30), ("4G", 4 << 30), ("4294967297", (4 << 30) + 1), ("4294967295", (4 << 30) - 1)):
        got = plane.json("ulimit -f; echo x > x && cat x", "--workspace-size", size)
        equal(got["limits"]["workspaceBytes"], want)
        equal(got["stdout"], "%d\nx\n" % (want // 1024), size)


# --- G21, G23 are a01 and a02 in test_escape_launch.py

# --- G41, G43 the workspace itself

@test
def g41_links_in_the_workspace_do_not_stop_commands():
    box.ok("mkdir -p .git hooks; ln -sfn ../hooks .git/hooks; ln -sfn /etc .vscode; ln -sfn / .claude")
    equal(box.ok("touch hooks/own && ls .git/hooks; echo fine"), "own\nfine\n")
    equal(box.sh("touch .vscode/x").status, 1)


@test
def g43_a_workspace_cannot_be_replaced_and_may_be_emptied():
    wiped = Box(plane, "wiped", "inside")
    done = wiped.sh("cd /; rm -rf /workspace; ln -s /tmp /workspace; mv /workspace /tmp/w; rmdir /workspace; echo $?")
    equal(done.status, 0, "%r" % done)
    contains(done.error, "workspace")
    equal(wiped.ok("stat -c '%F %U' /workspace; ls -A /workspace | grep -v home; echo next > f; cat f; echo $HOME; cd; pwd"),
          "directory sandbox\nnext\n/workspace/home\n/workspace/home\n")
    for script in ("rm -rf /workspace/home; ln -s /etc /workspace/home", "rm -f home; echo > home", "rm -f home; mkfifo home", "rm -f home; ln -s home home",
                   "rm -f home; mkdir home; chmod 000 home", "rmdir home; chmod 555 /workspace"):
        wiped.sh("chmod 755 /workspace home 2>/dev/null; " + script)
        done = wiped.run("sh", "-c", "echo works")
        if done.text != "works\n" and not done.error.startswith("cordon: "):
            raise AssertionError("after %r: %r" % (script, done))
    wiped.sh("chmod 755 /workspace")
    equal(wiped.run("echo", "works").text, "works\n")
    # one that shuts itself out is told so by name, and is not the next run's trouble
    wiped.sh("chmod 000 /workspace")
    done = wiped.run("echo", "works")
    if done.text != "works\n":
        contains(done.error, "cordon: invalid_request: ")
    equal(box.run("echo", "works").text, "works\n")


# --- G45 a timeout

@test
def g45_no_write_after_the_answer_of_a_timeout():
    got = box.json("sh", "-c", "rm -f late; (while :; do echo x >> late; sleep 0.01; done) & sleep 350 & wait", options=["--timeout", "0.3"])
    equal(got["termination"], "timeout")
    first = box.ok("wc -c < late")
    time.sleep(0.2)
    equal(box.ok("wc -c < late"), first)
    if int(first) == 0:
        raise AssertionError("control: it never wrote")
    gone(350)


# --- G49 path sockets

@test
def g49_path_sockets_work_inside_with_the_network_off():
    for options in (["--egress", "none"], []):
        for path in ("/workspace/s.sock", "/tmp/s.sock", "@own-name"):
            equal(box.run("./connect", "echo", path, options=options).text, "connected\n", path)
            box.sh("rm -f /workspace/s.sock")


@test
def g49_loopback_is_there_and_nothing_else_is():
    script = "cat /proc/net/dev | tail -n +3 | cut -d: -f1; cat /proc/net/route | tail -n +2"
    equal(box.ok(script, "--egress", "none").split(), ["lo"])
    with_server = "nc -l -p 8099 -e echo served & sleep 0.3; nc 127.0.0.1 8099 < /dev/null"
    done = box.sh(with_server, "--egress", "none")
    contains(done.text, "served", "%r" % done)
    for address, port in (("10.0.0.1", "80"), ("1.1.1.1", "53"), ("169.254.169.254", "80"), ("::ffff:1.1.1.1", "80"), ("2606:4700::1111", "53")):
        for how in ("inet", "udp"):
            done = box.run("./connect", how, address, port, options=["--egress", "none"])
            if "connected" in done.text:
                raise AssertionError("%s to %s was let out" % (how, address))


# --- G63, G65 removal are a_workspace_full_of_traps_can_be_removed in test_quota.py

# --- G67 references and names that begin with a dash

@test
def g67_names_that_look_like_options_are_refused_at_parse():
    for value in ("--registry=https://attacker.test", "-x", "../../etc/passwd", "a b", "", "a;b", "$(id)", "/etc/passwd", "sha256:zz",
                  "sha256:" + "0" * 63, ".hidden", "_x", "x" * 300):
        got = plane.cordon("run", "--json", "--image=" + value, "--", "true")
        if value == "":
            continue
        equal(got.status, 125, value)
        contains(got.error + got.text, "invalid_request", value)
    done = plane.run("--", "--version")
    equal(done.status, 127, "what follows -- is the command, whatever it looks like")
    equal(plane.run("--no-such-option", "--", "true").status, 125)
    equal(plane.run("true").status, 125, "without -- there is no command")


# --- images whose bytes are not what their name says

@test
def images_that_do_not_match_their_digest_are_refused():
    digest = images.damaged(os.path.dirname(BIN), STORE)
    done = plane.run("--json", "--image", digest, "--", "true")
    equal((done.status, done.json["decision"], done.json["reason"]), (125, "denied", "image_digest_mismatch"))
    contains(done.error + done.text, digest)
    os.unlink(images.path_of(STORE, digest))
    done = plane.run("--image", digest, "--", "true")
    equal(done.status, 125, "one that is not there")
    plain = images.variant(os.path.dirname(BIN), STORE, lambda root: None)
    equal(plane.run("--image", plain, "--", "true").status, 0, "control")


# --- G69, B12: guards are told

@test
def guards_are_told_in_every_answer():
    got = plane.json("true", "--egress", "none")
    for guard in ("userns", "seccomp", "no_new_privs", "memory", "pids", "cpu", "swap", "mount_check"):
        contains(got["guards"]["on"], guard)
    equal(set(got["guards"]["on"]) & set(got["guards"]["missing"]), set())


with Plane() as plane:
    box = Box(plane, "cases", "call", "connect", "inside")
    main()
