# SPDX-License-Identifier: Apache-2.0
"""plane.py - an instance of its own for the benchmarks, and how to launch on it.

Commands of several workers run for organisations of their own, so that fairness
between organisations (two running commands each) is not what is measured.
"""
import json, os, time

import cordon
from peers import spawn

class BenchPlane(cordon.Plane):
    """keys: configuration lines, as Plane's."""

    WORKERS = 8  # jobs that are open, each of an organisation of its own

    def __init__(self, b, store, digest, **keys):
        super().__init__(image=None, conf=f"image = {digest}\nimage_store = {store}\n", **keys)
        self.scratch, self.program = b.scratch, cordon.CORDON

    def __enter__(self):
        super().__enter__()
        self.targets, self.bodies = f"{self.scratch}/{self.name}-targets", f"{self.scratch}/{self.name}-bodies"
        with open(self.targets, "w") as f:
            for w in range(self.WORKERS):
                f.write(f"/v1/jobs/{self.open_job(self.seal(org=f'bench{w}'))}/commands\n")
        with open(self.bodies, "w") as f:
            f.write(json.dumps({"argv": ["/usr/bin/true"], "egress": {"mode": "none"}}) + "\n")
        self.nothing, self.health_target = f"{self.scratch}/nothing", f"{self.scratch}/health"
        for path, text in ((self.nothing, "\n"), (self.health_target, "/v1/health\n")):
            with open(path, "w") as f:
                f.write(text)
        return self

    def cli(self, prefix):
        return spawn(prefix, [self.program, "--root", self.root, "run", "--org", "bench{w}", "--egress", "none",
                              "--", "/usr/bin/true"])

    def api(self, prefix):
        return [*prefix, "http", self.socket, "POST", self.targets, self.bodies]

    def health(self, prefix):
        return [*prefix, "http", self.socket, "GET", self.health_target, self.nothing]

    def memory(self):
        """({program: (KiB, processes)}, (KiB, processes) of waiting slots), after a moment's rest."""
        time.sleep(2)
        daemons, slots = {}, [0, 0]
        for pid in self._below(self.pid("cordond")):
            try:
                with open(f"/proc/{pid}/comm") as f:
                    name = f.read().strip()
                with open(f"/proc/{pid}/smaps_rollup") as f:
                    pss = next(int(line.split()[1]) for line in f if line.startswith("Pss:"))
                with open(f"/proc/{pid}/cgroup") as f:
                    in_slot = f"{self.name}/jobs/" in f.read()
            except (OSError, StopIteration):
                continue
            if in_slot:
                slots[0] += pss
                slots[1] += 1
            else:
                kib, n = daemons.get(name, (0, 0))
                daemons[name] = (kib + pss, n + 1)
        return daemons, tuple(slots)

    @staticmethod
    def _below(pid):
        """The process and all its descendants."""
        children = {}
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/stat") as f:
                    children.setdefault(int(f.read().rpartition(")")[2].split()[1]), []).append(int(name))
            except OSError:
                pass
        found = [pid]
        for p in found:
            found += children.get(p, [])
        return found
