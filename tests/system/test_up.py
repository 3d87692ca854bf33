#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""cordond: coming up, refusing to, restarting what dies, reloading, leaving nothing behind."""
import contextlib
import os
import signal
import socket
import stat
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cordon import CORDON, Plane, Skip, contains, equal, eventually, main, run, test  # noqa: E402

DAEMONS = ("ledger", "worker", "broker")


def alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


# --- The rollout (R1)

@test
def only_the_exact_on_starts_it():
    for value in (None, "off", "true", "1", "ON", "on ", "yes"):
        with Plane(up=False, rollout=value) as p:
            done = p.up(check=False)
            equal(done.status, 3, repr((value, done)))
            contains(done.error, "set 'rollout = on' in %s" % p.conf)
            equal(os.path.exists(p.path("run")), False, "nothing is made")
            equal(p.left_behind(), [])
            done = p.run("--", "true")
            equal(done.status, 125)
            contains(done.error, "cordon: plane_disabled: ")
            done = p.cordon("health", "--json")
            equal((done.status, done.json["state"]), (3, "disabled"))


@test
def the_environment_decides_where_it_speaks():
    for value, status in (("on", 0), ("true", 3), ("ON", 3), ("on ", 3), ("", 3)):
        with Plane(up=False, rollout="off" if status == 0 else "on") as p:
            equal(p.up(check=False, env={"CORDON_ROLLOUT": value}).status, status, value)


@test
def without_a_plane_run_says_so():
    with Plane(up=False) as p:
        done = p.run("--", "true")
        equal(done.status, 125)
        contains(done.error, "cordon: capability_unavailable: the plane is not up")
        equal(p.cordon("health").status, 1)
        equal(p.cordon("down").status, 0)
        equal(p.cordon("reload").status, 1)


# --- Refusals to start, each naming the thing

def refuses(p, *words):
    done = p.up(check=False)
    equal(done.status, 1, repr(done))
    for word in words:
        contains(done.error, word)
    equal(done.error.count("\n"), 1, "one line")
    equal([x for x in p.left_behind() if not x.endswith(".pid")], [])


@test
def a_wrong_configuration_is_refused_with_its_line():
    with Plane(up=False) as p:
        for line, words in (("colour = red", "unknown key 'colour'"),
                            ("pool = 1\npool = 2", "'pool' given twice"),
                            ("default.pids = 0", "'default.pids' is out of range"),
                            ("default.memory = 64G", "above 'maximum.memory'"),
                            ("just words", "not 'key = value'")):
            p.configure(conf=line + "\n")
            refuses(p, p.conf, words)


@test
def who_ignores_its_children_is_told_how_it_ended_all_the_same():
    def ignore():
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    with Plane(up=False) as p:
        for conf, status in (("colour = red\n", 1), ("", 0)):
            p.configure(conf=conf)
            done = p.cordon("up", preexec_fn=ignore)
            equal((done.status, "up, but" in done.error), (status, False), "%r: %r" % (conf, done))


@test
def an_image_that_is_not_there_is_named():
    with Plane(up=False, image=None) as p:
        refuses(p, "no base image is pinned", "cordon image build")
        p.configure(image="sha256:" + "0" * 64)
        refuses(p, "0" * 64 + ".erofs")


@test
def a_missing_secret_of_an_instance_with_state_is_named():
    with Plane() as p:
        p.down()
        for name in ("carrier", "chain", "attestation"):
            path = p.path("etc/cordon/secrets", name, "1")
            os.rename(path, path + ".away")
            refuses(p, path, "missing")
            os.rename(path + ".away", path)
        p.up()


@test
def a_secret_that_others_may_read_is_named():
    with Plane() as p:
        p.down()
        path = p.path("etc/cordon/secrets/carrier/1")
        for mode in (0o444, 0o440, 0o402):
            os.chmod(path, mode)
            refuses(p, path, "%04o" % mode)
        os.chmod(path, 0o400)
        os.chown(path, 4242, 0)
        refuses(p, path, "4242")
        os.chown(path, 0, 0)
        p.up()


@test
def an_empty_secret_or_a_link_is_refused():
    with Plane() as p:
        p.down()
        path = p.path("etc/cordon/secrets/chain/1")
        os.rename(path, path + ".away")
        open(path, "w").close()
        os.chmod(path, 0o400)
        refuses(p, path, "0 bytes")
        os.unlink(path)
        os.symlink(path + ".away", path)
        refuses(p, path, "no regular file")


@test
def a_given_secret_is_kept():
    with Plane(up=False) as p:
        path = p.path("etc/cordon/secrets/carrier")
        os.makedirs(path)
        with open(path + "/7", "w") as f:
            f.write("a secret shared with others\n")
        os.chmod(path + "/7", 0o600)
        p.up()
        equal(os.listdir(path), ["7"])
        with open(path + "/7") as f:
            equal(f.read(), "a secret shared with others\n")


@test
def a_newer_state_is_refused():
    with Plane() as p:
        p.down()
        with open(p.path("var/lib/cordon/schema"), "w") as f:
            f.write("99\n")
        refuses(p, "schema", "99")


@test
def a_root_whose_socket_would_not_fit_is_refused():
    with Plane(up=False) as p:
        deep = p.path("x" * 100)
        os.makedirs(deep)
        done = p.cordon("--root", deep, "up", env={"CORDON_ROLLOUT": "on"})
        equal(done.status, 1, repr(done))
        contains(done.error, "socket's path")


@test
def a_host_without_a_controller_is_refused():
    with Plane(up=False) as p:
        for controller in ("pids", "memory", "cpu"):
            mount = v1_mount(controller)
            if not mount:
                raise Skip("%s is not in a hierarchy of its own here" % controller)
            hidden = ["unshare", "--mount", "sh", "-c", 'umount -l "$0" && exec "$@"', mount]
            done = run(hidden + [CORDON, "doctor", "--json"], env=p.env)
            equal((done.status, [r["result"] for r in done.json["probes"]
                                 if r["probe"] == "cgroup " + controller]), (1, ["MISSING"]))
            done = run(hidden + [CORDON, "up"], env=dict(p.env, CORDON_ROOT=p.root))
            equal(done.status, 1, repr(done))
            contains(done.error, controller)
            equal(p.left_behind(), [])


def v1_mount(controller):
    with open("/proc/self/mountinfo") as f:
        for line in f:
            left, _, right = line.partition(" - ")
            if right.split()[0] == "cgroup" and controller in right.split()[2].split(","):
                return left.split()[4]
    return None


# --- Up

@test
def modes_and_owners_are_what_they_should_be():
    with Plane() as p:
        s = os.stat(p.socket)
        equal((stat.S_IMODE(s.st_mode), s.st_uid), (0o660, 0))
        equal(stat.S_IMODE(os.stat(p.path("run/cordon/cordond.sock")).st_mode), 0o600)
        owners = set()
        for name in ("carrier", "control", "provenance", "attestation", "chain"):
            path = p.path("etc/cordon/secrets", name)
            equal(stat.S_IMODE(os.stat(path).st_mode), 0o500)
            s = os.stat(path + "/1")
            equal((stat.S_IMODE(s.st_mode), s.st_size), (0o400, 64))
            assert s.st_uid > 65535
            owners.add(s.st_uid)
            with open(path + "/1") as f:
                int(f.read(), 16)
        assert len(owners) > 1, "daemons do not share their secrets"


@test
def a_daemon_has_no_environment_and_one_argument():
    with Plane(up=False) as p:
        p.up(env={"CANARY": "canary-in-the-environment", "LD_PRELOAD": ""})
        for name in DAEMONS:
            pid = p.pid(name)
            with open("/proc/%d/environ" % pid, "rb") as f:
                equal(f.read(), b"", name)
            with open("/proc/%d/cmdline" % pid, "rb") as f:
                equal(f.read(), b"cordon-%s\0" % name.encode())


def status_of(pid):
    with open("/proc/%d/status" % pid) as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


@test
def nobody_holds_more_than_its_table():
    module, raw_io, boot, clock = 16, 17, 22, 25
    with Plane() as p:
        for name in ("cordond", *p.daemons()):
            s = status_of(p.pid(name))
            equal(s["NoNewPrivs"], "1", name)
            for capability in (module, raw_io, boot, clock):
                equal(int(s["CapBnd"], 16) >> capability & 1, 0, "%s in the bounding set of %s" %
                      (capability, name))
            if name not in ("cordond", "worker"):
                equal((int(s["CapPrm"], 16), int(s["CapEff"], 16)), (0, 0), name)
                assert "0" not in s["Uid"].split(), name
                equal(s["Seccomp"], "2", name)


@test
def up_waits_for_the_first_handshake_however_slow_the_host():
    """Who asks for health is answered after 5 s with what is known: nothing yet."""
    with Plane(up=False, fault="cordon-worker/run.sent:delay=7000:times=1") as p:
        equal(p.up(check=False).status, 0, p.log[-2000:])
        equal(p.cordon("health", "--json").json["handshake"]["ok"], True)


@test
def up_twice_is_up_once():
    with Plane() as p:
        pid = p.pid("cordond")
        done = p.up()
        contains(done.error, "already up, process %d" % pid)
        equal(p.pid("cordond"), pid)
        equal(p.run("--", "true").status, 0)


@test
def ten_at_once_are_one():
    with Plane(up=False) as p:
        starts = [p.popen("up", stderr=subprocess.PIPE) for _ in range(10)]
        equal([(s.wait(120), s.stderr.close()) for s in starts], [(0, None)] * 10)
        eventually(lambda: os.path.exists(p.socket), "the socket")
        p.wait_ready()
        equal(p.run("--", "true").status, 0)


@test
def two_planes_side_by_side_share_nothing():
    with Plane() as a, Plane() as b:
        assert a.name != b.name
        a.run("--run-id", "r", "-c", "echo of-a > f")
        equal(b.run("--run-id", "r", "-c", "cat f 2>/dev/null; exit 0").out, b"")
        equal(a.run("--run-id", "r", "-c", "cat f").out, b"of-a\n")
        a.down()
        equal(b.run("--", "echo", "still").out, b"still\n")
        equal(a.left_behind(), [])


@test
def a_relative_root_and_an_option_name_the_same_plane():
    with Plane() as p:
        parent, name = os.path.split(p.root)
        done = p.cordon("--root", name, "run", "--", "echo", "here", cwd=parent,
                        env={"CORDON_ROOT": "/nonexistent"})
        equal((done.status, done.out), (0, b"here\n"), repr(done))
        done = p.cordon("run", "--root", p.root + "/../" + name, "--", "echo", "here",
                        env={"CORDON_ROOT": "/nonexistent"})
        equal(done.out, b"here\n")


@test
def in_the_foreground_it_logs_to_standard_error_and_ends_with_a_signal():
    with Plane(up=False) as p:
        f = p.popen("up", "--foreground", stderr=subprocess.PIPE)
        try:
            for line in f.stderr:
                if b" up instance=" in line:
                    break
            equal(p.run("--", "true").status, 0)
        finally:
            f.send_signal(signal.SIGINT)
            f.stderr.close()
        equal(f.wait(30), 0)
        equal(p.left_behind(), [])


# --- Down

@test
def down_leaves_nothing_but_state():
    with Plane() as p:
        p.run("--run-id", "r", "-c", "echo kept > f")
        p.run("-c", "true")
        p.down()
        equal(p.left_behind(), [])
        equal(sorted(os.listdir(p.path("run/cordon"))), [x for x in
              sorted(os.listdir(p.path("run/cordon"))) if os.path.isdir(p.path("run/cordon", x))])
        p.up()
        equal(p.run("--run-id", "r", "-c", "cat f").out, b"kept\n")


@test
def down_ends_what_runs_and_says_shutdown():
    with Plane() as p:
        r = p.popen("run", "--json", "-c", "echo up; sleep 1000", stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE)
        eventually(lambda: p.daemons() and running(p), "a running command")
        started = time.monotonic()
        p.down()
        assert time.monotonic() - started < 8
        equal(r.wait(10), 125)
        contains(r.stdout.read() + r.stderr.read(), b"shutdown")
        r.stdout.close()
        r.stderr.close()
        equal(p.left_behind(), [])


def running(p):
    """True while a `sleep` is alive in a sandbox of @p."""
    for pid in p.sandboxed():
        with contextlib.suppress(OSError):
            with open("/proc/%d/comm" % pid) as f:
                if f.read().strip() == "sleep":
                    return True
    return False


@test
def a_drain_lets_a_command_end():
    with Plane() as p:
        r = p.popen("run", "-c", "sleep 1.5; echo done", stdout=subprocess.PIPE)
        eventually(lambda: running(p), "a running command")
        p.down(drain=20)
        equal((r.wait(10), r.stdout.read()), (0, b"done\n"))
        r.stdout.close()


@test
def a_drain_is_an_upper_bound():
    with Plane() as p:
        r = p.popen("run", "-c", "sleep 1000", stderr=subprocess.DEVNULL)
        eventually(lambda: running(p), "a running command")
        started = time.monotonic()
        p.down(drain=1)
        assert 0.9 < time.monotonic() - started < 9
        equal(r.wait(10), 125)
        equal(p.left_behind(), [])


@test
def sigterm_is_an_orderly_down():
    with Plane() as p:
        pid = p.kill("cordond", signal.SIGTERM)
        eventually(lambda: not alive(pid), "cordond gone", 30)
        equal(p.left_behind(), [])
        contains(p.log, "down drain_ms=0")
        assert "does not end" not in p.log, "every daemon ended by itself"


# --- Deaths

@test
def a_daemon_that_is_killed_is_restarted():
    with Plane() as p:
        for name in DAEMONS:
            old = p.kill(name)
            eventually(lambda: p.daemons()[name][0] not in (0, old), "a new " + name, 20)
            p.wait_ready()

            def works():
                return p.run("--", "true").status == 0
            eventually(works, "commands after the death of " + name, 20)
        equal(p.run("--", "echo", "still").out, b"still\n")


@test
def the_workers_death_ends_every_sandbox_at_once():
    with Plane() as p:
        r = p.popen("run", "-c", "(setsid sleep 1000 &) ; sleep 1000", stderr=subprocess.PIPE)
        eventually(lambda: running(p), "a running command")
        inside = set(p.sandboxed())
        p.kill("worker")
        eventually(lambda: not any(alive(x) for x in inside), "all gone", 5)
        assert r.wait(10) == 125, r.returncode
        r.stderr.close()


@test
def cordonds_death_ends_everything_and_the_next_start_cleans_up():
    with Plane() as p:
        r = p.popen("run", "--run-id", "r", "-c", "echo kept > f; (setsid sleep 1000 &) ; sleep 1000",
                    stderr=subprocess.DEVNULL)
        eventually(lambda: running(p), "a running command")
        everybody = [p.pid(x) for x in p.daemons()] + p.sandboxed()
        p.kill("cordond")
        eventually(lambda: not any(alive(x) for x in everybody), "all gone", 10)
        r.wait(10)
        p.up()
        equal(p.run("--run-id", "r", "-c", "cat f").out, b"kept\n")
        p.down()
        equal(p.left_behind(), [])


@test
def killing_in_a_loop_leaves_nothing():
    with Plane() as p:
        for round_ in range(6):
            clients = [p.popen("run", "-c", "sleep 1000 & sleep 1000",
                               stderr=subprocess.DEVNULL) for _ in range(2)]
            time.sleep(0.05 * round_)
            p.kill("cordond")
            for c in clients:
                c.wait(20)
            p.up()
        p.down()
        equal(p.left_behind(), [])


@test
def a_stopped_daemon_does_not_stop_down():
    with Plane() as p:
        p.kill("worker", signal.SIGSTOP)
        started = time.monotonic()
        p.down()
        assert time.monotonic() - started < 40
        equal(p.left_behind(), [])


# --- Reload

@test
def reload_takes_a_new_configuration_over_or_none_of_it():
    with Plane() as p:
        equal(p.json("true")["limits"]["pids"], 256)
        p.configure(default__pids=99)
        done = p.cordon("reload")
        equal(done.status, 0, repr(done))
        equal(p.json("true")["limits"]["pids"], 99)
        p.configure(default__pids=77, conf="colour = red\n")
        done = p.cordon("reload")
        equal(done.status, 1)
        contains(done.error, "unknown key 'colour'")
        equal(p.json("true")["limits"]["pids"], 99)
        p.configure(default__pids=77, pool=7)
        done = p.cordon("reload")
        equal(done.status, 1)
        contains(done.error, "'pool' takes effect at a start only")
        equal(p.json("true")["limits"]["pids"], 99)


@test
def sighup_reloads_too():
    with Plane() as p:
        p.configure(default__pids=55)
        p.kill("cordond", signal.SIGHUP)
        eventually(lambda: p.json("true")["limits"]["pids"] == 55, "the new limit")


@test
def a_restarted_daemon_has_the_configuration_in_force():
    with Plane() as p:
        p.configure(default__pids=44)
        equal(p.cordon("reload").status, 0)
        old = p.kill("broker")
        eventually(lambda: p.daemons()["broker"][0] not in (0, old), "a new broker", 20)
        p.wait_ready()
        eventually(lambda: p.run("--", "true").status == 0, "commands again", 20)
        equal(p.json("true")["limits"]["pids"], 44)


# --- The control socket

@test
def nonsense_on_the_control_socket_harms_nobody():
    with Plane() as p:
        for junk in (b"", b"x", b"\0" * 8, b"\1\0\1\0\xff\xff\xff\xff", os.urandom(4096),
                     b"\1\0\x63\0\0\0\0\0", b"\1\0\1\0\0\0\0\0"):
            s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            s.connect(p.path("run/cordon/cordond.sock"))
            s.send(junk)
            s.close()
        held = []
        for _ in range(12):  # more than it serves at once
            s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            s.connect(p.path("run/cordon/cordond.sock"))
            held.append(s)
        equal(p.run("--", "true").status, 0)
        for s in held:
            s.close()

        def answers():
            with contextlib.suppress(OSError):
                return len(p.daemons()) >= 3
        eventually(answers, "status again")


if __name__ == "__main__":
    main()
