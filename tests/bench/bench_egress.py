# SPDX-License-Identifier: Apache-2.0
"""The gateway as a relay beside what Debian packages, and what the kernel's programs cost."""
import base64
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

import gateway_rig as rig
import internet

ABOUT = "tunnels, bulk, round trips and memory of the gateway; nanoseconds per packet of the programs"
ORIGIN, PORT = "203.0.113.10", 9000
TARGET = "%s:%d" % (ORIGIN, PORT)


def start(argv, ready=None, **more):
    """A helper of the bench; ready: the line it says when it serves, or a port to wait for."""
    p = subprocess.Popen(argv, stdout=subprocess.PIPE if ready == "line" else subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL, preexec_fn=rig.die_with_parent, **more)
    if ready == "line":
        p.stdout.readline()
    elif ready:
        end = time.monotonic() + 15
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", ready), 1):
                return p
            if time.monotonic() > end or p.poll() is not None:
                p.kill()
                return None
            time.sleep(0.05)
    return p


class Subject:
    """Where the client connects to, and in which namespace."""

    def __init__(self, name, address, port, target="-", credential="-", room=None, pid=None):
        self.name, self.room, self.pid = name, room, pid
        self.where = [address, str(port), target, credential]

    def client(self, tool, *args, **more):
        with self.room.inside() if self.room else contextlib.nullcontext():
            return subprocess.Popen([tool, *args, *self.where], stdout=subprocess.PIPE, text=True, **more)

    def ask(self, tool, *args):
        out, _ = self.client(tool, *args).communicate(timeout=120)
        return json.loads(out)


def rss(pid):
    """Of a process and its children."""
    total, kids = 0, subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout.split()
    for one in [str(pid), *kids]:
        with contextlib.suppress(OSError), open("/proc/%s/status" % one) as f:
            total += sum(int(l.split()[1]) * 1024 for l in f if l.startswith("RssAnon"))
    return total


def haproxy(scratch):
    if not shutil.which("haproxy"):
        return None
    path = os.path.join(scratch, "haproxy.cfg")
    with open(path, "w") as f:
        f.write("global\n nbthread 1\n maxconn 4500\ndefaults\n mode tcp\n option splice-auto\n"
                " timeout connect 5s\n timeout client 60s\n timeout server 60s\n maxconn 4500\n"
                "frontend f\n bind 127.0.0.1:9101\n default_backend b\nbackend b\n server s %s\n" % TARGET)
    p = start(["haproxy", "-f", path], 9101)
    return p and Subject("haproxy, plain TCP", "127.0.0.1", 9101, pid=p.pid)


def tinyproxy(scratch):
    if not shutil.which("tinyproxy"):
        return None
    path = os.path.join(scratch, "tinyproxy.conf")
    with open(path, "w") as f:
        f.write("Port 9102\nListen 127.0.0.1\nMaxClients 8000\nTimeout 60\nLogLevel Critical\n"
                "Logfile \"%s/tinyproxy.log\"\nAllow 127.0.0.1\n" % scratch)
    p = start(["tinyproxy", "-d", "-c", path], 9102)
    return p and Subject("tinyproxy", "127.0.0.1", 9102, TARGET, pid=p.pid)


def trafficserver(scratch):
    if not shutil.which("traffic_server"):
        return None
    base = os.path.join(scratch, "ats")
    for d in ("etc", "run", "log", "cache"):
        os.makedirs(os.path.join(base, d))
    settings = {"proxy.config.http.server_ports": ("STRING", "9103"),
                "proxy.config.http.connect_ports": ("STRING", "*"),
                "proxy.config.url_remap.remap_required": ("INT", "0"),
                "proxy.config.reverse_proxy.enabled": ("INT", "0"),
                "proxy.config.http.cache.http": ("INT", "0"),
                "proxy.config.exec_thread.autoconfig": ("INT", "0"),
                "proxy.config.exec_thread.limit": ("INT", "1"),
                "proxy.config.log.logging_enabled": ("INT", "0"),
                "proxy.config.admin.user_id": ("STRING", "root"),
                "proxy.config.log.logfile_dir": ("STRING", base + "/log"),
                "proxy.config.local_state_dir": ("STRING", base + "/run")}
    with open(base + "/etc/records.config", "w") as f:
        for k, (kind, v) in settings.items():
            f.write("CONFIG %s %s %s\n" % (k, kind, v))
    for name in ("storage.config", "ip_allow.yaml", "remap.config", "plugin.config", "logging.yaml"):
        with open(base + "/etc/" + name, "w") as f:
            f.write({"storage.config": base + "/cache 16M\n",
                     "ip_allow.yaml": "ip_allow:\n  - apply: in\n    ip_addrs: 0/0\n    action: allow\n"
                                      "    methods: ALL\n"}.get(name, ""))
    env = dict(os.environ, PROXY_CONFIG_CONFIG_DIR=base + "/etc", PROXY_CONFIG_LOCAL_STATE_DIR=base + "/run",
               PROXY_CONFIG_LOG_LOGFILE_DIR=base + "/log", TS_ROOT=base)
    p = start(["traffic_server"], 9103, env=env)
    return p and Subject("Apache Traffic Server", "127.0.0.1", 9103, TARGET, pid=p.pid)


def relays(tool, scratch, net, quick):
    """In a network namespace of its own: {section: {subject: row}}."""
    with net.inside():
        start([tool, "serve", ORIGIN, str(PORT)], "line")
    start([tool, "relay", "127.0.0.1", "9100", ORIGIN, str(PORT)], "line")
    gateway = rig.Gateway(gateway__connections=4000, gateway__resolver=internet.DNS)
    room = gateway.room()
    with room.inside():
        widen_ports()
    credential = base64.b64encode(("%s:x" % room.token).encode()).decode()
    ours = Subject("cordon-gateway", rig.GATEWAY, rig.PORT, TARGET, credential, room, gateway.pid)
    floor = Subject("bare splice relay", "127.0.0.1", 9100)
    direct = Subject("direct", ORIGIN, PORT)
    peers = [s for s in (haproxy(scratch), tinyproxy(scratch), trafficserver(scratch)) if s]
    everybody = [ours, floor, *peers, direct]
    out = {}
    count = 500 if quick else 5000

    def best(section, run, rounds, better):
        """Subjects take turns; the best round of each counts: the machine is shared."""
        rows = {}
        for _ in range(1 if quick else rounds):
            for s in everybody:
                row = run(s)
                if s.name not in rows or better(row, rows[s.name]):
                    rows[s.name] = row
        out[section] = rows

    more = lambda a, b: list(a.values())[0] > list(b.values())[0]  # noqa: E731
    less = lambda a, b: list(a.values())[0] < list(b.values())[0]  # noqa: E731
    for at in (1, 16):
        best("new tunnels, %d at a time" % at, lambda s: s.ask(tool, "open", str(count), str(at)), 4, more)
    best("bulk through one tunnel", lambda s: s.ask(tool, "bulk", "2e8" if quick else "4e9"), 4, more)
    best("one-byte round trips", lambda s: s.ask(tool, "rtt", str(count)), 4, less)
    idle = 200 if quick else 2000
    rows = {}
    for s in everybody:
        if not s.pid:
            continue
        before = rss(s.pid)
        c = s.client(tool, "hold", str(idle), stdin=subprocess.PIPE)
        if c.stdout.readline().strip() == "held":
            time.sleep(0.5)
            rows[s.name] = {"kib_per_tunnel": (rss(s.pid) - before) / idle / 1024}
        c.stdin.close()
        c.wait()
    out["memory per idle tunnel, at %d" % idle] = rows
    gateway.kill()
    return out


# --- The programs: nanoseconds per packet, and what they and nft leave of the throughput

EMPTY = """
#include <linux/bpf.h>
__attribute__((section("cgroup_skb/egress"), used)) int empty_out(struct __sk_buff *s) { return 1; }
char LICENSE[] __attribute__((section("license"), used)) = "GPL";
"""


class Stats:
    """kernel.bpf_stats_enabled for as long as a descriptor is open (BPF_ENABLE_STATS)."""

    def __enter__(self):
        import ctypes
        attr = ctypes.create_string_buffer(128)
        self.fd = ctypes.CDLL(None, use_errno=True).syscall(321, 32, attr, 4)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "BPF_ENABLE_STATS")
        return self

    def __exit__(self, *_):
        os.close(self.fd)


def bpftool(*words):
    path = shutil.which("bpftool") or "/usr/sbin/bpftool"
    return json.loads(subprocess.run([path, "-j", *words], check=True, capture_output=True, text=True).stdout or "null")


def prog_stats(pin):
    p = bpftool("prog", "show", "id", str(bpftool("link", "show", "pinned", pin)["prog_id"]))
    return p.get("run_time_ns", 0), p.get("run_cnt", 0)


def pin_path(p, name):
    """The instance's pins lie in cordond's own mount namespace."""
    return "/proc/%d/root%s/%s" % (p.pid("cordond"), p.path("run/cordon/bpf"), name)


def programs(tool_static, net, quick):
    import cordon
    rows, speed, launches = {}, {}, {}
    with cordon.Plane(gateway__resolver=internet.DNS) as p:
        with open(tool_static, "rb") as f:
            done = p.run("--run-id", "bench", "--egress", "none", "--stdin", "-", "--", "sh", "-c",
                         "cat > tunnels && chmod +x tunnels", input=f.read())
            cordon.equal(done.status, 0, repr(done))
        inside = ("C=$(echo -n $(echo $http_proxy | sed 's,http://\\(.*\\)@.*,\\1,') | base64 | tr -d '\\n'); "
                  "./tunnels %%s 100.64.0.1 3128 %s $C" % TARGET)
        pins = {k: pin_path(p, "egress_meter_" + k) for k in ("out", "in")}
        with Stats():
            before = {k: prog_stats(v) for k, v in pins.items()}
            o = p.json(inside % ("rtt %d" % (2000 if quick else 60000)), "--run-id", "bench")
            cordon.equal(o["exitCode"], 0, repr(o))
            for k, v in pins.items():
                t, n = (a - b for a, b in zip(prog_stats(v), before[k]))
                rows["packets " + k] = {"ns_per_packet": t / n, "packets": n}
            rows["an empty program"] = {"ns_per_packet": empty_program(p, inside, quick), "packets": 0}
        o = p.json(inside % ("bulk %s" % ("2e8" if quick else "4e9")), "--run-id", "bench", "--timeout", "60")
        speed["in a sandbox: programs and nft"] = json.loads(o["stdout"])
        for tier in ("none", "default_internet"):
            times = []
            for _ in range(20 if quick else 200):
                time.sleep(0.03)
                started = time.perf_counter()
                cordon.equal(p.run("--egress", tier, "--", "true").status, 0)
                times.append((time.perf_counter() - started) * 1e3)
            times.sort()
            launches["tier " + tier] = {"p50_ms": times[len(times) // 2], "p99_ms": times[int(len(times) * .99)]}
    return {"the programs, per packet": rows, "bulk by one sandbox": speed,
            "cordon run -- true, one every 30 ms": launches}


def empty_program(p, inside, quick):
    """What the measurement itself costs: the same traffic with a program that does nothing beside ours."""
    base = p.path("empty")
    with open(base + ".c", "w") as f:
        f.write(EMPTY)
    subprocess.run(["clang", "-O2", "-g", "-target", "bpf", "-I/usr/include/%s-linux-gnu" % os.uname().machine,
                    "-c", base + ".c", "-o", base + ".o"], check=True)
    pin = pin_path(p, "bench_empty")
    jobs = [c for c in p.cgroups() if os.path.isdir(c + "/jobs") and os.path.exists(c + "/jobs/cgroup.kill")][0] + "/jobs"
    bpftool("prog", "load", base + ".o", pin, "type", "cgroup/skb")
    bpftool("cgroup", "attach", jobs, "egress", "pinned", pin, "multi")
    try:
        p.json(inside % ("rtt %d" % (2000 if quick else 60000)), "--run-id", "bench")
        s = bpftool("prog", "show", "pinned", pin)
        return s["run_time_ns"] / s["run_cnt"]
    finally:
        bpftool("cgroup", "detach", jobs, "egress", "pinned", pin)
        os.unlink(pin)


def widen_ports():
    """Tens of thousands of tunnels a minute to one port: every relay runs out of ports else."""
    for key, value in (("ip_local_port_range", "4000 65000"), ("tcp_tw_reuse", "1")):
        with open("/proc/sys/net/ipv4/" + key, "w") as f:
            f.write(value)


def in_a_namespace(function):
    """Runs it in a child, because its namespaces are its process's; gives what it returns."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(r)
            os.setpgid(0, 0)
            net = internet.Internet()
            net.dns({})
            widen_ports()
            with os.fdopen(w, "w") as f:
                json.dump(function(net), f)
            status = 0
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.killpg(0, signal.SIGTERM)
            os._exit(status)
    os.close(w)
    with os.fdopen(r) as f:
        text = f.read()
    if os.waitpid(pid, 0)[1]:
        raise RuntimeError("the child failed")
    return json.loads(text)


def bench(b):
    tool = b.tool("tunnels")
    static = tool + ".static"
    subprocess.run([os.environ.get("CC", "gcc"), "-O2", "-static", "-o", static,
                    os.path.join(os.path.dirname(os.path.abspath(__file__)), "tunnels.c")], check=True)
    out = in_a_namespace(lambda net: relays(tool, b.scratch, net, b.quick))
    for section, rows in out.items():
        b.table(section, rows)

    def of(section, name, column):
        return [r for s, r in out.items() if s.startswith(section)][0].get(name, {}).get(column)

    for at in ("1", "16"):
        mine, theirs = (of("new tunnels, %s at" % at, n, "per_second") for n in ("cordon-gateway", "haproxy, plain TCP"))
        if theirs:
            b.aim("new tunnels at %s, times haproxy's plain relay" % at, mine / theirs, above=1.0)
    b.aim("bulk, times the splice floor", of("bulk", "cordon-gateway", "gb_per_s") /
          of("bulk", "bare splice relay", "gb_per_s"), above=0.95)
    b.aim("KiB per idle tunnel", of("memory", "cordon-gateway", "kib_per_tunnel"), below=3)

    def origin_and_programs(net):
        with net.inside():
            start([tool, "serve", ORIGIN, str(PORT)], "line")
        return programs(static, net, b.quick)

    kernel = in_a_namespace(origin_and_programs)
    for section, rows in kernel.items():
        b.table(section, rows)
    packets = kernel["the programs, per packet"]
    nothing = packets["an empty program"]["ns_per_packet"]
    b.aim("ns a packet out, beyond an empty program", packets["packets out"]["ns_per_packet"] - nothing, below=90)
    b.aim("ns a packet in, beyond an empty program", packets["packets in"]["ns_per_packet"] - nothing, below=75)
    runs = kernel["cordon run -- true, one every 30 ms"]
    b.aim("a gateway-tier command, times one of tier none", runs["tier default_internet"]["p50_ms"] /
          runs["tier none"]["p50_ms"], below=1.3)
