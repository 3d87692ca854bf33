# SPDX-License-Identifier: Apache-2.0
"""A real cordon-ledger, started the way cordond does, spoken to the way the broker does.

Makes ROOT in a temporary directory of mode 0700, so that nothing works only
because a parent directory happens to be open. Kills the process at the end.
"""
import ctypes
import fcntl
import json
import os
import secrets
import select
import shutil
import signal
import socket
import struct
import tempfile
import time

import reports

BUILD = os.environ.get("CORDON_BUILD", "build")
SUPERVISOR_FD = 3
S_START, S_READY, S_PEER, S_RELOAD, S_RELOADED, S_STOP, S_FATAL = range(1, 8)
SFD_CONFIG, SFD_LISTEN, SFD_BROKER = 1, 2, 3
(L_ROW, L_INTENT, L_QUERY, L_RECEIPT, L_VERIFY, L_COMMAND_ID, L_RESULT, L_OK, L_ERROR, L_READY,
 L_HELLO, L_EXPORT, L_ACK, L_EXPORT_DROP, L_HEALTH, L_NONCE, L_RUN_SET, L_RUN_GET, L_RUN_LIST,
 L_RUN_DROP, L_KEEP, L_KEPT, L_RETAIN) = range(1, 24)
UID, GID = 245001, 245001
KEY = "0123456789abcdef" * 4


class LedgerError(Exception):
    def __init__(self, kind, text):
        super().__init__(kind + ": " + text)
        self.kind, self.text = kind, text


def sealed(text):
    fd = os.memfd_create("config", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(fd, text.encode())
    fcntl.fcntl(fd, 1033, 0xf)  # F_ADD_SEALS: seal, shrink, grow, write
    return fd


def pack(kind, body):
    return struct.pack("<HHI", 1, kind, len(body)) + body


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def row(org="acme", user="ada", job="job-1", decision="allowed", run=None, **meta):
    keys = ("surface", "cwd", "reason", "exitCode", "termination", "imageDigest", "egressMode",
            "egressTotalBytes", "wallMs", "workspaceKb")
    full = dict.fromkeys(keys)
    full.update(surface="chat", termination="exited", exitCode=0, wallMs=12, egressMode="none",
                imageDigest="sha256:" + "a" * 64) if decision == "allowed" else full.update(
                    surface="chat", reason="command_blocked")
    full.update(meta)
    return {"organizationId": org, "actorPrincipalId": user, "resourceId": job,
            "decision": decision, "runId": run, "metadata": full}


def receipt(**change):
    r = {"tool": "sandbox_execute", "inputHash": "1" * 64, "outputHash": "2" * 64,
         "failureHash": None, "timestamp": "2026-01-31T12:00:00.0000000+00:00",
         "egressDigest": "3" * 64, "keyVersion": 1, "signature": "AAAA"}
    r.update(change)
    return r


class Ledger:
    def __init__(self, required=False, state=None, start=True):
        self.root = tempfile.mkdtemp(prefix="cordon-test-ledger-")
        self.state = os.path.join(self.root, "var/lib/cordon")
        self.keys = os.path.join(self.root, "etc/cordon/secrets/chain")
        os.makedirs(self.state)
        os.chmod(self.state, 0o755)
        os.makedirs(self.keys)
        os.chmod(self.keys, 0o700)
        os.chown(self.keys, UID, GID)
        self.add_key(1, KEY)
        self.required = required
        self.more = ""  # configuration
        self.pid = 0
        self.sup = self.broker = None
        self.log = os.path.join(self.root, "log")
        if start:
            try:
                self.start()
            except BaseException:
                self.close()
                raise

    def add_key(self, version, text):
        path = os.path.join(self.keys, str(version))
        with open(path, "w") as f:
            f.write(text + "\n")
        os.chmod(path, 0o400)
        os.chown(path, UID, GID)

    @property
    def db(self):
        return os.path.join(self.state, "ledger.db")

    @property
    def checkpoint(self):
        return os.path.join(self.state, "ledger", "checkpoint")

    @property
    def spool(self):
        return os.path.join(self.state, "ledger", "spool")

    def config(self):
        return "audit = %s\n%s" % ("required" if self.required else "best_effort", self.more)

    def start(self, hello=None, wrap=None):
        sup, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.broker, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        binary = os.path.abspath(os.path.join(BUILD, "bin/cordon-ledger"))
        log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        argv = (wrap or []) + [binary]
        self.pid = os.fork()
        if self.pid == 0:
            try:
                die_with_parent()
                os.chdir(self.state)
                null = os.open("/dev/null", os.O_RDONLY)
                os.dup2(null, 0)
                os.dup2(log, 1)
                os.dup2(log, 2)
                fd = fcntl.fcntl(theirs.fileno(), fcntl.F_DUPFD, 20)
                os.dup2(fd, SUPERVISOR_FD)
                os.closerange(4, 1024)
                os.execve(argv[0], argv if wrap else ["cordon-ledger"], {})
            finally:
                os._exit(127)
        os.close(log)
        theirs.close()
        self.sup = sup
        conf = sealed(self.config())
        body = struct.pack("<256s24sIII8I", self.root.encode(), b"cordon-00000000", UID, GID, 2,
                           SFD_CONFIG, SFD_BROKER, 0, 0, 0, 0, 0, 0)
        socket.send_fds(sup, [pack(S_START, body)], [conf, b.fileno()])
        os.close(conf)
        b.close()
        kind, body = self.sup_recv(20)
        if kind == S_FATAL:
            text = body[4:].split(b"\0")[0].decode()
            self.reap()
            raise LedgerError("fatal", text)
        assert kind == S_READY, kind
        self.next_req = 1
        self.kept = {}
        kind, req, ready = self.recv()
        assert kind == L_READY and req == 0, (kind, req)
        self.ready = ready
        self.ask(L_HELLO, {"broker": hello or secrets.token_hex(16)})
        return self

    def sup_recv(self, seconds):
        if not select.select([self.sup], [], [], seconds)[0]:
            raise TimeoutError("cordon-ledger said nothing to cordond")
        data = self.sup.recv(65536)
        if not data:
            return None, b""
        return struct.unpack("<HHI", data[:8])[1], data[8:]

    def recv(self, seconds=30):
        if not select.select([self.broker], [], [], seconds)[0]:
            raise TimeoutError("no answer")
        data = self.broker.recv(128 * 1024)
        if not data:
            raise EOFError("cordon-ledger closed the connection")
        kind = struct.unpack("<HHI", data[:8])[1]
        req = struct.unpack("<Q", data[8:16])[0]
        return kind, req, json.loads(data[16:]) if len(data) > 16 else None

    def send(self, kind, body, req=None):
        """Gives the request's number; 0 asks for no answer. bytes go as they are."""
        if req is None:
            req, self.next_req = self.next_req, self.next_req + 1
        if not isinstance(body, bytes):
            body = json.dumps(body, ensure_ascii=False).encode()
        self.broker.send(pack(kind, struct.pack("<Q", req) + body))
        return req

    def wait(self, req):
        while req not in self.kept:
            kind, got, body = self.recv()
            self.kept[got] = (kind, body)
        kind, body = self.kept.pop(req)
        if kind == L_ERROR:
            raise LedgerError(body["error"], body["text"])
        return body

    def ask(self, kind, body):
        return self.wait(self.send(kind, body))

    def row(self, *args, **kw):
        extra = {k: kw.pop(k) for k in ("commandId", "receipt", "envelope", "intent") if k in kw}
        return self.ask(L_ROW, dict(row=row(*args, **kw), **extra))

    def rows(self, **q):
        if not q.get("orgId"):
            q["all"] = True
        out, after = [], 0
        while after is not None:
            r = self.ask(L_QUERY, dict({"limit": 1000, "after": after}, **q))
            out, after = out + r["rows"], r["next"]
        return out

    def verify(self, **q):
        return self.ask(L_VERIFY, q)

    def health(self):
        return self.ask(L_HEALTH, {})

    def reap(self):
        status = os.waitpid(self.pid, 0)[1]
        self.pid = 0
        for s in (self.sup, self.broker):
            s.close()
        return status

    def stop(self):
        self.sup.send(pack(S_STOP, struct.pack("<II", 0, 0)))
        return self.reap()

    def kill(self):
        """The ledger itself: below a tracer, whose death it would outlive."""
        with open("/proc/%d/task/%d/children" % (self.pid, self.pid)) as f:
            traced = [int(x) for x in f.read().split()]
        os.kill(traced[0] if traced else self.pid, signal.SIGKILL)
        return self.reap()

    def restart(self, kill=False, **kw):
        self.kill() if kill else self.stop()
        return self.start(**kw)

    def close(self):
        if self.pid:
            self.kill()
        reports.look_at(self.log)
        shutil.rmtree(self.root, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()
