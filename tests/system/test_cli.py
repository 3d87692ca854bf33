#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The command line of SPEC 16: statuses, streams byte for byte, cancelling, bad input."""
import json
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cordon import CORDON, Plane, Skip, contains, equal, eventually, main, run, test  # noqa: E402

plane = None


def refused(done, status, reason, *words):
    equal(done.status, status, repr(done))
    lines = done.error.splitlines()
    equal(len(lines), 1, "one line: %r" % done)
    contains(lines[0], "cordon: %s: " % reason)
    for word in words:
        contains(lines[0], word)
    equal(done.out, b"", "nothing on standard output")


# --- Statuses

@test
def the_commands_own_status_is_runs():
    for code in (0, 1, 42, 124, 125, 255):
        equal(plane.sh("exit %d" % code).status, code)


@test
def a_signal_is_128_and_its_number():
    equal(plane.sh("kill -TERM $$").status, 143)
    equal(plane.sh("kill -KILL $$").status, 137)
    equal(plane.sh("kill -SEGV $$").status, 139)


@test
def timeout_is_124():
    done = plane.sh("echo before; sleep 60", "--timeout", "0.3")
    equal(done.status, 124, repr(done))
    equal(done.out, b"before\n")
    assert done.seconds < 10


@test
def not_found_is_127_and_not_executable_126():
    equal(plane.run("--", "no-such-program").status, 127)
    equal(plane.run("--", "/etc/passwd").status, 126)
    for argv, code in ((["no-such-program"], 127), (["/etc/passwd"], 126)):
        o = plane.json(argv)
        equal((o["termination"], o["decision"], o["exitCode"]), ("exited", "allowed", code))


@test
def the_output_cap_is_125_with_its_line():
    done = plane.sh("yes", "--output-cap", "10000")
    equal(done.status, 125, repr(done)[:300])
    equal(len(done.out), 10000)
    contains(done.error, "cordon: output_cap_exceeded: ")


# --- Streams

@test
def streams_pass_byte_for_byte():
    data = bytes(range(256)) * 300 + b"\0no final newline"
    done = plane.run("--stdin", "-", "--", "cat", input=data)
    equal((done.status, done.out == data, done.err), (0, True, b""))
    done = plane.run("--stdin", "-", "--", "sh", "-c", "cat >&2", input=data)
    equal((done.status, done.err == data, done.out), (0, True, b""))


@test
def a_line_of_a_mebibyte_passes():
    data = b"x" * (1 << 20)
    done = plane.run("--stdin", "-", "--output-cap", "2M", "--", "cat", input=data)
    equal((done.status, len(done.out), done.out == data), (0, 1 << 20, True))


@test
def stdin_from_a_file_small_and_large():
    for size in (0, 5, 200000, 3 << 20):
        path = plane.path("input")
        with open(path, "wb") as f:
            f.write(os.urandom(size))
        done = plane.run("--stdin", path, "--", "sha256sum")
        equal(done.status, 0, repr(done))
        equal(done.text.split()[0], run(["sha256sum", path]).text.split()[0])


@test
def without_stdin_there_is_nothing_to_read():
    done = plane.run("--", "wc", "-c", input=b"never seen")
    equal((done.status, done.text.strip()), (0, "0"))


@test
def stdin_streams_while_the_command_runs():
    p = plane.popen("run", "--stdin", "-", "--", "cat",
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        for word in (b"one\n", b"two\n", b"three\n"):
            p.stdin.write(word)
            p.stdin.flush()
            equal(p.stdout.readline(), word)
        p.stdin.close()
        equal(p.wait(10), 0)
    finally:
        p.kill()


@test
def output_streams_while_the_command_runs():
    p = plane.popen("run", "-c", "echo first; sleep 20", stdout=subprocess.PIPE)
    started = time.monotonic()
    equal(p.stdout.readline(), b"first\n")
    assert time.monotonic() - started < 5
    p.terminate()
    equal(p.wait(10), 130)


@test
def a_command_that_reads_nothing_still_ends():
    done = plane.run("--stdin", "-", "--", "true", input=b"y" * (8 << 20))
    equal(done.status, 0, repr(done)[:300])
    done = plane.run("--stdin", "-", "--", "head", "-c", "3", input=b"y" * (8 << 20))
    equal((done.status, done.out), (0, b"yyy"))


@test
def both_streams_at_once_and_much_of_each():
    done = plane.run("--stdin", "-", "--output-cap", "8M", "--", "tee", "/dev/stderr",
                     input=b"abcdefg\n" * 400000)
    equal((done.status, len(done.out), len(done.err)), (0, 3200000, 3200000))


# --- Cancelling

@test
def sigint_and_sigterm_cancel_at_once_with_130():
    for number in (signal.SIGINT, signal.SIGTERM):
        p = plane.popen("run", "-c", "echo up; exec sleep 1000", stdout=subprocess.PIPE)
        equal(p.stdout.readline(), b"up\n")
        started = time.monotonic()
        p.send_signal(number)
        equal(p.wait(10), 130)
        assert time.monotonic() - started < 1, "cancelling took long"
        eventually(lambda: not sleeping("1000"), "the sandbox gone", 5)


def sleeping(seconds):
    """Sandboxed `sleep SECONDS` of this plane."""
    found = []
    for pid in plane.sandboxed():
        try:
            with open("/proc/%d/cmdline" % pid, "rb") as f:
                if f.read() == b"sleep\0" + seconds.encode() + b"\0":
                    found.append(pid)
        except OSError:
            pass
    return found


@test
def a_client_that_is_killed_cancels():
    p = plane.popen("run", "-c", "exec sleep 1001")
    eventually(lambda: sleeping("1001"), "positive control: it runs")
    p.kill()
    p.wait()
    eventually(lambda: not sleeping("1001"), "the sandbox gone", 5)


@test
def a_reader_that_goes_away_cancels():
    p = plane.popen("run", "--output-cap", "64M", "-c", "yes; exec sleep 1002",
                    stdout=subprocess.PIPE)
    p.stdout.read(10)
    p.stdout.close()
    assert p.wait(10) != 0


@test
def a_command_lost_with_its_broker_is_said_to_be_so():
    p = plane.popen("run", "--json", "-c", "echo up; sleep 1004", stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE)
    eventually(lambda: sleeping("1004"), "the command runs")
    plane.kill("broker")
    out, err = p.communicate(timeout=20)
    o = json.loads(out)
    equal((p.returncode, o["reason"], o["decision"], o["termination"], o["signal"], o["exitCode"],
           o["stdout"]), (125, "broker_lost", "allowed", "exited", 9, None, "up\n"))
    contains(err, b"cordon: broker_lost: ")
    eventually(lambda: not sleeping("1004"), "the sandbox gone", 5)
    plane.wait_ready()


# --- JSON

@test
def json_has_every_member_of_the_contract():
    o = plane.json("printf out; printf err >&2; exit 3")
    for key in ("jobId commandId decision reason exitCode signal termination oomKilled stdout "
                "stderr stdoutTruncated stderrTruncated wallMs imageDigest workspaceKb limits "
                "egress guards receipt untrusted").split():
        assert key in o, "no %s in %r" % (key, sorted(o))
    equal((o["stdout"], o["stderr"], o["exitCode"], o["signal"], o["reason"], o["decision"]),
          ("out", "err", 3, None, None, "allowed"))
    equal((o["termination"], o["untrusted"], o["oomKilled"]), ("exited", True, False))
    for key in "mode clamped totalBytes kernelBytes gatewayBytes denied".split():
        assert key in o["egress"], key
    assert o["imageDigest"].startswith("sha256:")


@test
def json_of_bytes_that_are_no_text_is_base64():
    o = plane.json("printf '\\377\\376'")
    assert "stdout" not in o, o
    equal(o["stdoutB64"], "//4=")
    equal(o["stderr"], "")
    equal(plane.json("printf 'a\\000b'")["stdout"], "a\0b")


@test
def json_of_a_refusal_is_an_object_too():
    done = plane.run("--json", "--memory", "1000G", "--", "true")
    equal(done.status, 125, repr(done))
    o = done.json
    equal((o["reason"], o["decision"]), ("limit_above_maximum", "denied"))
    contains(done.error, "cordon: limit_above_maximum: ")


@test
def a_signal_in_json_is_a_field_of_its_own():
    o = plane.json("kill -KILL $$")
    equal((o["exitCode"], o["signal"], o["termination"]), (None, 9, "exited"))


# --- Bad input: each names the thing

@test
def limits_that_are_no_limits_are_refused_by_name():
    for option, values in (("--memory", ("-1", "1.5G", "x", "", "99999999999G", "1T")),
                           ("--timeout", ("-1", "1e3", "nan", "inf", "", "1s")),
                           ("--cpus", ("-1", "two", "")),
                           ("--pids", ("-1", "1.5", "99999999999999999999")),
                           ("--workspace-size", ("-5M", "1P")),
                           ("--output-cap", ("-1", "lots")),
                           ("--max-bytes", ("-1", "1K"))):
        for value in values:
            refused(plane.run("%s=%s" % (option, value), "--", "true"), 125, "invalid_request",
                    option)


@test
def limits_of_zero_are_refused():
    for option in ("--memory", "--timeout", "--cpus", "--pids", "--workspace-size",
                   "--output-cap"):
        refused(plane.run(option, "0", "--", "true"), 125, "invalid_request")


@test
def limits_above_the_maximum_are_refused():
    for option, value in (("--memory", "9G"), ("--timeout", "3601"), ("--cpus", "9"),
                          ("--pids", "5000"), ("--workspace-size", "17G"),
                          ("--output-cap", "65M")):
        refused(plane.run(option, value, "--", "true"), 125, "limit_above_maximum")


@test
def what_is_no_command_line_is_refused():
    refused(plane.run("--no-such-option", "--", "true"), 125, "invalid_request",
            "--no-such-option")
    refused(plane.run("true"), 125, "invalid_request", "'true'")
    refused(plane.run(), 125, "invalid_request", "no command")
    refused(plane.run("-c", "true", "--", "false"), 125, "invalid_request")
    refused(plane.run("--timeout"), 125, "invalid_request", "--timeout")
    refused(plane.run("--json=1", "--", "true"), 125, "invalid_request", "--json")


@test
def an_empty_argv_is_refused():
    refused(plane.run("--"), 125, "invalid_request", "argv")


@test
def an_argument_that_is_no_text_is_refused():
    refused(plane.run("--", "echo", b"\xff\xfe"), 125, "invalid_request", "argument 1")


@test
def two_mebibytes_of_argv_are_refused():
    refused(plane.run("--", "true", *["x" * 100000] * 20), 125, "invalid_request", "bytes")


@test
def an_unknown_surface_is_refused():
    refused(plane.run("--surface", "kitchen", "--", "true"), 125, "no_session")
    refused(plane.run("--org", "  ", "--", "true"), 125, "no_session")


@test
def an_unknown_verb_is_named():
    done = plane.cordon("frobnicate")
    equal(done.status, 2)
    contains(done.error, "frobnicate")
    done = plane.cordon("session", "frobnicate")
    equal(done.status, 2)
    contains(done.error, "frobnicate")


@test
def dashes_end_options_and_nothing_is_joined():
    done = plane.run("--", "printf", "[%s]", "--json", "a b", "$(id)", "", "*", "'\"\\")
    equal(done.text, "[--json][a b][$(id)][][*]['\"\\]")
    equal(plane.sh("printf %s \"$0\"").text, "bash")


# --- Sessions and jobs

@test
def a_carrier_is_sealed_opened_and_used():
    carrier = plane.seal("acme", "ann", "agent_run", "run-1")
    assert carrier.startswith("v1.") and carrier.count(".") == 2
    done = plane.cordon("session", "open", "-", "--json", input=carrier.encode() + b"\n")
    equal(done.status, 0, repr(done))
    contains(done.text, '"acme"')
    job = plane.open_job(carrier)
    done = plane.cordon("job", "exec", job, "--", "sh", "-c", "echo $0 > f; cat f; exit 5")
    equal((done.status, done.out), (5, b"sh\n"))
    done = plane.cordon("job", "exec", job, "-c", "cat f")
    equal((done.status, done.out), (0, b"sh\n"))
    contains(plane.cordon("job", "list", "--all").text, job)
    equal(plane.cordon("job", "close", job).status, 0)
    done = plane.cordon("job", "exec", job, "-c", "true")
    equal(done.status, 125)
    assert "unknown_job" in done.error or "job_terminated" in done.error, done


@test
def job_kill_ends_the_running_command():
    job = plane.open_job(plane.seal("acme", "ann", "agent_run", "run-kill"))
    p = plane.popen("job", "exec", job, "-c", "echo up; sleep 1003", stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE)
    equal(p.stdout.readline(), b"up\n")
    equal(plane.cordon("job", "kill", job).status, 0)
    assert p.wait(10) in (125, 130, 137), p.returncode
    p.stderr.close()


@test
def carriers_that_are_none_are_refused():
    good = plane.seal()
    head, body, mac = good.split(".")
    for bad, reason in (("", "carrier_malformed"),
                        ("v1." + body, "carrier_malformed"),
                        ("v2.%s.%s" % (body, mac), "carrier_malformed"),
                        ("%s.%s.%sA" % (head, body, mac[:-1] if mac[-1] != "A" else mac[:-2]),
                         "carrier_bad_signature"),
                        ("%s.%sAA.%s" % (head, body, mac), "carrier_bad_signature")):
        done = plane.cordon("job", "open", "--carrier", "-", input=bad.encode())
        equal(done.status, 125, repr((bad, done)))
        contains(done.error, "cordon: %s: " % reason, bad)


@test
def a_repeated_command_name_never_runs_again():
    job = plane.open_job(plane.seal("acme", "ann", "agent_run", "run-named"))
    first = plane.cordon("job", "exec", job, "--command-id", "once", "-c", "echo x >> n; cat n")
    equal((first.status, first.out), (0, b"x\n"))
    refused(plane.cordon("job", "exec", job, "--command-id", "once", "-c", "echo x >> n"), 125,
            "command_replayed")
    equal(plane.cordon("job", "exec", job, "-c", "cat n").out, b"x\n")


# --- The rest of the verbs

@test
def later_rooms_are_refused_cleanly():
    for verb in ("agent", "mcp", "tool", "top", "watch"):
        done = plane.cordon(verb, "whatever", "--option")
        if done.status == 0:
            continue  # built by now
        assert done.error.startswith("cordon: ") and done.error.count("\n") == 1, repr(done)


@test
def health_says_ready_and_du_counts():
    done = plane.cordon("health", "--json")
    equal((done.status, done.json["state"]), (0, "ready"), repr(done))
    done = plane.cordon("du", "--json")
    equal(done.status, 0, repr(done))
    assert {"images", "workspaces", "logs"} <= {row["kind"] for row in done.json}


@test
def receipts_are_shown_and_verified():
    o = plane.json(["echo", "hello"])
    done = plane.cordon("receipt", "show", o["jobId"], o["commandId"], "--json")
    equal(done.status, 0, repr(done))
    receipt = plane.path("receipt.json")
    with open(receipt, "w") as f:
        json.dump(o["receipt"], f)
    output = plane.path("output")
    with open(output, "w") as f:
        f.write("hello\n")
    done = plane.cordon("receipt", "verify", receipt, "--output", output, "--", "echo", "hello")
    equal(done.status, 0, repr(done))
    for argv in (["echo", "hallo"], ["echo", "hello", ""]):
        done = plane.cordon("receipt", "verify", receipt, "--output", output, "--", *argv)
        equal(done.status, 1, repr(done))


@test
def the_ledger_has_a_row_for_what_ran_and_what_was_refused():
    plane.run("--org", "rows", "-c", "exit 9")
    plane.run("--org", "rows", "--memory", "1000G", "-c", "exit 9")

    def rows():
        done = plane.cordon("audit", "list", "--org", "rows", "--json")
        found = next(v for v in done.json.values() if isinstance(v, list)) \
            if isinstance(done.json, dict) else done.json
        return found if len(found) >= 2 else None
    found = eventually(rows, "two rows")
    equal([(r["decision"], r["metadata"]["exitCode"], r["metadata"]["reason"]) for r in found],
          [("allowed", 9, None), ("denied", None, "limit_above_maximum")])
    equal(plane.cordon("audit", "verify").status, 0)
    contains(plane.cordon("audit", "list", "--org", "rows").text, "limit_above_maximum")
    lines = plane.cordon("audit", "export", "--org", "rows").text.splitlines()
    equal(len([json.loads(line) for line in lines]), 2)


@test
def it_starts_without_a_dynamic_linker():
    with open(CORDON, "rb") as f:
        elf = f.read()
    if b"__asan_init" in elf or b"__ubsan_" in elf:
        raise Skip("a sanitizer build is linked dynamically")
    offset, size, number = (int.from_bytes(elf[0x20:0x28], "little"),
                            int.from_bytes(elf[0x36:0x38], "little"),
                            int.from_bytes(elf[0x38:0x3a], "little"))
    kinds = [int.from_bytes(elf[offset + i * size:offset + i * size + 4], "little")
             for i in range(number)]
    assert 3 not in kinds, "cordon has an interpreter: every run pays for it"


@test
def every_verb_explains_itself():
    for verb in ("run", "down", "reload", "health", "doctor", "du", "config"):
        done = run([CORDON, verb, "--help"])
        equal(done.status, 0, repr(done))
        contains(done.text, "--root")
    for table in ("session", "job", "audit", "receipt", "workspace"):
        contains(run([CORDON, table, "--help"]).text, "usage: cordon " + table)
    contains(run([CORDON, "--help"]).text, "usage: cordon")
    contains(run([CORDON, "--version"]).text, "cordon ")


if __name__ == "__main__":
    with Plane() as plane:
        main()
