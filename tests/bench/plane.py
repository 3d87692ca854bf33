# SPDX-License-Identifier: Apache-2.0
"""plane.py - an instance of its own for the benchmarks, and how to launch on it.

Commands of several workers run for organisations of their own, so that fairness
between organisations (two running commands each) is not what is measured.
"""
import http.client, json, os, socket, subprocess, time

WORKERS = 8


class BenchPlane:
    def __init__(self, b, store, digest):
        self.b, self.root = b, f"{b.scratch}/plane"
        self.cordon = f"{b.build}/bin/cordon"
        self.socket = f"{self.root}/run/cordon/broker.sock"
        os.makedirs(f"{self.root}/etc/cordon")
        with open(f"{self.root}/etc/cordon/cordon.conf", "w") as f:
            f.write(f"rollout = on\nimage = {digest}\nimage_store = {store}\npool = 4\n")

    def __enter__(self):
        subprocess.run([self.cordon, "--root", self.root, "up"], check=True)
        try:
            self._open_jobs()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        subprocess.run([self.cordon, "--root", self.root, "down"], check=False)

    def request(self, method, path, body=None):
        c = http.client.HTTPConnection("cordon", timeout=60)
        c.sock = socket.socket(socket.AF_UNIX)
        c.sock.connect(self.socket)
        c.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": "application/json"})
        r = c.getresponse()
        text = r.read()
        if r.status != 200:
            raise RuntimeError(f"{method} {path}: {r.status} {text[:300]!r}")
        return json.loads(text)

    def _open_jobs(self):
        self.targets, self.bodies = f"{self.b.scratch}/targets", f"{self.b.scratch}/bodies"
        with open(self.targets, "w") as f:
            for w in range(WORKERS):
                session = {"orgId": f"bench{w}", "userId": "bench", "surface": "agent_run"}
                carrier = self.request("POST", "/v1/sessions/seal", session)["carrier"]
                job = self.request("POST", "/v1/jobs", {"carrier": carrier})["jobId"]
                f.write(f"/v1/jobs/{job}/commands\n")
        with open(self.bodies, "w") as f:
            f.write(json.dumps({"argv": ["/usr/bin/true"], "egress": {"mode": "none"}}) + "\n")

    def cli(self, prefix):
        return [*prefix, "spawn", self.cordon, "--root", self.root, "run", "--org", "bench{w}", "--egress", "none",
                "--", "/usr/bin/true"]

    def api(self, prefix):
        return [*prefix, "http", self.socket, "POST", self.targets, self.bodies]

    def memory(self):
        """({program: (KiB, processes)}, (KiB, waiting slots)) after a moment's rest."""
        time.sleep(2)
        daemons, slots = {}, [0, 0]
        for pid in self._processes():
            try:
                with open(f"/proc/{pid}/comm") as f:
                    name = f.read().strip()
                with open(f"/proc/{pid}/smaps_rollup") as f:
                    pss = next(int(line.split()[1]) for line in f if line.startswith("Pss:"))
            except (OSError, StopIteration):
                continue
            if name == "cordon-launcher":
                slots[0] += pss
                slots[1] += 1
            else:
                kib, n = daemons.get(name, (0, 0))
                daemons[name] = (kib + pss, n + 1)
        return daemons, tuple(slots)

    def _processes(self):
        """cordond and everything below it."""
        with open(f"{self.root}/run/cordon/cordond.pid") as f:
            todo = [int(f.read())]
        parents = {}
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    with open(f"/proc/{name}/stat") as f:
                        parents.setdefault(int(f.read().rpartition(")")[2].split()[1]), []).append(int(name))
                except OSError:
                    pass
        for pid in todo:
            todo += parents.get(pid, [])
        return todo
