# SPDX-License-Identifier: Apache-2.0
"""peers.py - what Debian packages for the same job, set up on the same root image.

Each peer runs in a private mount namespace in which the image is mounted and, on
a hybrid host, the v2 tree is not (crun refuses such hosts). Peers get less to do
than Cordon does: no seccomp program, no ledger row, no receipt; bubblewrap no
limits either.
"""
import glob, json, os, shlex, shutil

CORE = {"type": "RLIMIT_CORE", "hard": 0, "soft": 0}
WORKERS = 8  # at most this many at a time
NAMESPACES = ["pid", "network", "ipc", "uts", "mount"]


def spawn(prefix, argv):
    return [*prefix, "spawn", *argv]


class Peers:
    def __init__(self, scratch, image_path, command=("/usr/bin/true",)):
        self.root, self.state = f"{scratch}/root", f"{scratch}/crun"
        self.bundle, self.work = f"{scratch}/bundle", f"{scratch}/work"
        self.cgroup, self.image, self.command = f"cordon-bench-{os.getpid()}", image_path, list(command)
        for d in (self.root, self.state, self.bundle, self.work):
            os.mkdir(d)
        os.chmod(self.work, 0o777)
        for w in range(WORKERS):  # a bundle each: the cgroup's path stands in it
            os.mkdir(f"{self.bundle}/{w}")
            with open(f"{self.bundle}/{w}/config.json", "w") as f:
                json.dump(self._oci(w), f)

    def _private(self, argv):
        unified = "umount /sys/fs/cgroup/unified; " if os.path.ismount("/sys/fs/cgroup/unified") else ""
        script = f"mount -t erofs -o ro {shlex.quote(self.image)} {shlex.quote(self.root)}; {unified}exec \"$@\""
        return ["unshare", "-m", "--propagation", "private", "sh", "-euc", script, "sh", *argv]

    def bubblewrap(self, prefix):
        bwrap = [shutil.which("bwrap"), "--unshare-all", "--uid", "10001", "--gid", "10001", "--hostname", "sandbox",
                 "--clearenv", "--setenv", "PATH", "/usr/bin:/bin", "--ro-bind", self.root, "/", "--proc", "/proc",
                 "--dev", "/dev", "--tmpfs", "/tmp", "--bind", self.work, "/workspace", "--cap-drop", "ALL",
                 "--new-session", "--die-with-parent", "--", *self.command]
        return self._private(spawn(prefix, bwrap))

    def crun(self, prefix):
        crun = [shutil.which("crun"), "--root", self.state, "--cgroup-manager=cgroupfs", "run",
                "--bundle", f"{self.bundle}/{{w}}", f"{self.cgroup}-{{n}}"]
        return self._private(spawn(prefix, crun))

    def _oci(self, w):
        def tmpfs(at, *options):
            return {"destination": at, "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", *options]}
        return {
            "ociVersion": "1.0.2", "hostname": "sandbox", "root": {"path": self.root, "readonly": True},
            "process": {"terminal": False, "user": {"uid": 10001, "gid": 10001}, "args": self.command, "cwd": "/",
                        "env": ["PATH=/usr/bin:/bin"], "noNewPrivileges": True, "rlimits": [CORE],
                        "capabilities": {k: [] for k in
                                         ("bounding", "effective", "permitted", "inheritable", "ambient")}},
            "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"},
                       tmpfs("/dev", "mode=755", "size=64k"), tmpfs("/dev/shm", "noexec", "nodev", "size=64m"),
                       tmpfs("/tmp", "nodev", "size=128m"), tmpfs("/workspace", "nodev", "size=256m")],
            "linux": {
                "cgroupsPath": f"/{self.cgroup}/{w}", "namespaces": [{"type": t} for t in NAMESPACES],
                "resources": {"memory": {"limit": 1 << 30, "swap": 1 << 30}, "pids": {"limit": 256},
                              "cpu": {"quota": 100000, "period": 100000}},
                "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/timer_list"],
                "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]},
        }

    def close(self):
        """Removes the directory that crun leaves in each hierarchy."""
        for d in glob.glob(f"/sys/fs/cgroup/{self.cgroup}") + glob.glob(f"/sys/fs/cgroup/*/{self.cgroup}"):
            for child in glob.glob(f"{d}/*/"):
                os.rmdir(child)
            os.rmdir(d)
