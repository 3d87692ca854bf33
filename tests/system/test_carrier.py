#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Where a carrier and the instance's secrets are not: in a sandbox, a log, the ledger, an answer, a
command line (S6, B13). Each place is searched twice, for them and for something that is there."""
import base64
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cordon import CORDON, Plane, equal, eventually, main, test  # noqa: E402
from memory import memory  # noqa: E402

BIGGEST = 64 << 20  # a file of this instance is smaller
OWN = "a-credential-of-the-client-0451"  # what a client has and does not hand over
HERE = "there-it-is-0451"  # the control of every search


def files_below(top):
    """(path, bytes) of every regular file below @top, symbolic links not followed."""
    for base, names, found in os.walk(top):
        names[:] = [n for n in names if os.path.join(base, n) not in (top + "/proc", top + "/sys")]
        for name in found:
            path = os.path.join(base, name)
            try:
                if os.path.isfile(path) and not os.path.islink(path):
                    with open(path, "rb") as f:
                        yield path, f.read(BIGGEST)
            except OSError:
                pass  # it went while we looked


def of_process(pid):
    """What can be read of a process: its arguments, environment and the names of its descriptors."""
    seen = b""
    for name in ("cmdline", "environ"):
        with open("/proc/%d/%s" % (pid, name), "rb") as f:
            seen += f.read() + b"\n"
    for fd in os.listdir("/proc/%d/fd" % pid):
        try:
            seen += os.readlink("/proc/%d/fd/%s" % (pid, fd)).encode() + b"\n"
        except OSError:
            pass
    return seen


def needles(p, carrier):
    """{what: bytes} that must be nowhere: the carrier, its parts, the keys in both spellings."""
    _, body, mac = carrier.split(".")
    found = {"carrier": carrier.encode(), "its body": body.encode(), "its MAC": mac.encode(),
             "the client's own": OWN.encode()}
    found["its body's JSON"] = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
    top = p.path("etc/cordon/secrets")
    for name in os.listdir(top):
        with open(os.path.join(top, name, "1"), "rb") as f:
            text = f.read().strip()
        found[name] = text
        found[name + ", raw"] = bytes.fromhex(text.decode())
    return found


def nowhere(what, places, control):
    """None of @what in any of @places, (name, bytes), in one of which @control is found."""
    places = list(places)
    equal([(place, n) for place, seen in places for n, value in what.items() if value in seen], [])
    assert any(control in seen for _, seen in places), "control: %r is in none of %d places" % (
        control, len(places))


def running(p, job, carrier_file):
    """A command that stands still with everything a plane can give it, and its client."""
    script = "echo %s > kept; echo %s > /tmp/kept; echo up; exec sleep 86398" % (HERE, HERE)
    client = subprocess.Popen(
        [CORDON, "job", "exec", job, "--root", p.root, "--egress", "default_internet", "-c", script],
        stdout=subprocess.PIPE, env=dict(os.environ, CREDENTIAL=OWN), pass_fds=[carrier_file.fileno()])
    equal(client.stdout.readline(), b"up\n")
    return client


@test
def a_carrier_and_the_secrets_are_in_no_sandbox_log_ledger_or_command_line():
    with Plane(gateway__resolver="192.0.2.53") as p, open(p.path("carrier"), "w+") as f:
        carrier = p.seal(user="holder", run_id="carried")
        f.write(carrier)
        f.flush()
        what = needles(p, carrier)
        # by file, by standard input, over the API; refused ones too
        jobs = [p.cordon("job", "open", "--carrier", f.name).text.strip(), p.open_job(carrier)]
        status, answer = p.api("POST", "/v1/jobs", {"carrier": carrier})
        equal(status, 201, answer)
        refused = p.cordon("job", "open", "--carrier", "-", input=(carrier[:-4] + "AAAA").encode())
        equal(refused.status, 125)
        client = running(p, jobs[0], f)
        try:
            pids = eventually(lambda: [x for x in p.sandboxed() if b"86398" in of_process(x)], "the command")
            # in the sandbox: every process's environment, arguments, descriptors and memory
            sandboxed = p.sandboxed()
            nowhere(what, ((x, of_process(x)) for x in sandboxed), b"86398")
            nowhere(what, ((x, memory(x)) for x in sandboxed), b"86398")
            # and every file it can see
            nowhere(what, files_below("/proc/%d/root" % pids[0]), HERE.encode())
            # on the host: nobody's command line or environment, the client's own aside
            daemons = [pid for pid, _, _ in p.daemons().values()] + [p.pid("cordond")]
            nowhere(what, ((x, of_process(x)) for x in daemons), b"cordon")
            with open("/proc/%d/cmdline" % client.pid, "rb") as c:
                nowhere(what, [("the client", c.read())], jobs[0].encode())
        finally:
            client.terminate()
            client.communicate(timeout=60)
        routes = ("/v1/audit?org=local", "/v1/jobs", "/v1/health", "/metrics")
        answers = [(r, p.api("GET", r, raw=True)[1]) for r in routes]
        nowhere(what, answers + [("the refusal", refused.out + refused.err)], b"holder")
        p.down()
        at_rest = [(path, seen) for path, seen in files_below(p.root)
                   if not path.startswith(p.path("etc/cordon/secrets")) and path != f.name]
        nowhere(what, at_rest, jobs[0].encode())
        logs = [(path, seen) for path, seen in at_rest if path.startswith(p.path("var/log"))]
        nowhere(what, logs, b"cordond info up")


@test
def a_carrier_is_never_taken_from_the_command_line():
    with Plane() as p:
        carrier = p.seal()
        for argv in (("job", "open", "--carrier", carrier), ("session", "open", carrier),
                     ("job", "open", "--carrier=" + carrier)):
            done = p.cordon(*argv)
            equal(done.status, 125, done)
            assert carrier.encode() not in done.out + done.err, "and it is not said again: %r" % done
        equal(p.cordon("job", "open", "--carrier", "-", input=carrier.encode()).status, 0, "control")


if __name__ == "__main__":
    main()
