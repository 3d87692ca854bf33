#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Tools that people use, unchanged, in the Debian L0 through the gateway, against
origins of the test's own internet with TLS of the test's own authority."""
import base64
import gzip
import hashlib
import http.server
import io
import json
import os
import ssl
import subprocess
import sys
import tarfile
import tempfile
import threading
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import internet  # noqa: E402
from cordon import Plane, contains, equal, main, run, test  # noqa: E402

net = authority = plane = None
FILES = {}     # path -> bytes, served by every origin under its host name: "host/path"
ADDRESS = "203.0.113.20"
HOSTS = ("www.example", "git.example", "pypi.example", "npm.example", "apt.example")


class Origin(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        host = self.headers.get("Host", "").split(":")[0]
        path = self.path.split("?")[0].replace("/./", "/")
        body = FILES.get(host + path)
        if body is None and not path.endswith("/"):
            body = FILES.get(host + path + "/")
        kind = "application/json" if host == "npm.example" and not path.endswith(".tgz") else \
            "text/html" if path.endswith("/") or "/simple/" in path else "application/octet-stream"
        self.send_response(200 if body is not None else 404)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body or b"")

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


def serve(port, context=None):
    listener = net.listen(ADDRESS, port)
    server = http.server.ThreadingHTTPServer((ADDRESS, port), Origin, bind_and_activate=False)
    server.socket.close()
    server.socket = context.wrap_socket(listener, server_side=True) if context else listener
    server.daemon_threads = True
    server.handle_error = lambda *_: None
    threading.Thread(target=server.serve_forever, daemon=True).start()


def make_git():
    with tempfile.TemporaryDirectory(prefix="cordon-test-git-") as d:
        env = {"PATH": os.environ["PATH"], "HOME": d, "GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@t",
               "GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@t"}

        def git(*words):
            subprocess.run(["git", "-C", d, *words], check=True, env=env, capture_output=True)

        git("init", "-q", "-b", "main", "src")
        with open(d + "/src/file.txt", "w") as f:
            f.write("from git\n")
        subprocess.run(["git", "-C", d + "/src", "add", "."], check=True, env=env)
        subprocess.run(["git", "-C", d + "/src", "commit", "-q", "-m", "m"], check=True, env=env)
        git("clone", "-q", "--bare", "src", "repo.git")
        subprocess.run(["git", "-C", d + "/repo.git", "update-server-info"], check=True, env=env)
        for base, _, files in os.walk(d + "/repo.git"):
            for name in files:
                path = os.path.join(base, name)
                with open(path, "rb") as f:
                    FILES["git.example/" + os.path.relpath(path, d)] = f.read()


def make_wheel():
    out = io.BytesIO()
    name = "testpkg-1.0-py3-none-any.whl"
    with zipfile.ZipFile(out, "w") as z:
        z.writestr("testpkg.py", "VALUE = 'from pip'\n")
        z.writestr("testpkg-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: testpkg\nVersion: 1.0\n")
        z.writestr("testpkg-1.0.dist-info/WHEEL",
                   "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr("testpkg-1.0.dist-info/RECORD", "testpkg.py,,\ntestpkg-1.0.dist-info/METADATA,,\n"
                   "testpkg-1.0.dist-info/WHEEL,,\ntestpkg-1.0.dist-info/RECORD,,\n")
    data = out.getvalue()
    FILES["pypi.example/files/" + name] = data
    FILES["pypi.example/simple/testpkg/"] = (
        '<a href="../../files/%s#sha256=%s">%s</a>' % (name, hashlib.sha256(data).hexdigest(), name)).encode()


def add_file(tar, name, data):
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o644
    tar.addfile(info, io.BytesIO(data))


def make_npm():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        add_file(tar, "package/package.json", json.dumps(
            {"name": "testpkg", "version": "1.0.0", "main": "index.js"}).encode())
        add_file(tar, "package/index.js", b"module.exports = 'from npm'\n")
    data = out.getvalue()
    FILES["npm.example/testpkg/-/testpkg-1.0.0.tgz"] = data
    FILES["npm.example/testpkg"] = json.dumps({
        "name": "testpkg", "dist-tags": {"latest": "1.0.0"},
        "versions": {"1.0.0": {"name": "testpkg", "version": "1.0.0", "main": "index.js", "dist": {
            "tarball": "https://npm.example/testpkg/-/testpkg-1.0.0.tgz",
            "integrity": "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode(),
            "shasum": hashlib.sha1(data).hexdigest()}}}}).encode()


def make_apt():
    with tempfile.TemporaryDirectory(prefix="cordon-test-apt-") as d:
        os.makedirs(d + "/p/DEBIAN")
        os.makedirs(d + "/p/usr/share/testpkg")
        with open(d + "/p/DEBIAN/control", "w") as f:
            f.write("Package: testpkg\nVersion: 1.0\nArchitecture: all\nMaintainer: t <t@t>\n"
                    "Description: test\n")
        with open(d + "/p/usr/share/testpkg/file", "w") as f:
            f.write("from apt\n")
        subprocess.run(["dpkg-deb", "-b", d + "/p", d + "/t.deb"], check=True, capture_output=True)
        with open(d + "/t.deb", "rb") as f:
            deb = f.read()
    FILES["apt.example/testpkg_1.0_all.deb"] = deb
    packages = ("Package: testpkg\nVersion: 1.0\nArchitecture: all\nMaintainer: t <t@t>\n"
                "Filename: ./testpkg_1.0_all.deb\nSize: %d\nSHA256: %s\nDescription: test\n\n" %
                (len(deb), hashlib.sha256(deb).hexdigest())).encode()
    FILES["apt.example/Packages"] = packages
    FILES["apt.example/Packages.gz"] = gzip.compress(packages)


def setup():
    global net, authority, plane
    net = internet.Internet()
    net.dns({h: [[ADDRESS]] for h in HOSTS})
    authority = internet.Authority()
    serve(80)
    serve(443, authority.context(*HOSTS))
    FILES["www.example/hello"] = b"hello from the origin\n"
    make_git()
    make_wheel()
    make_npm()
    make_apt()
    plane = Plane(image="debian", gateway__resolver=internet.DNS).__enter__()
    with open(authority.ca, "rb") as f:
        done = plane.run("--run-id", "tools", "--stdin", "-", "--", "bash", "-c", "cat > ca.pem",
                         input=f.read())
    equal(done.status, 0, repr(done))


def sh(script, *options):
    o = plane.json(script, "--run-id", "tools", "--timeout", "100", *options)
    assert o.get("exitCode") == 0, o
    assert "suspectedBypass" not in o["egress"], o["egress"]
    assert o["egress"]["gatewayBytes"] > 0
    return o["stdout"]


@test
def curl_fetches_by_http_and_https():
    equal(sh("curl -sS http://www.example/hello"), "hello from the origin\n")
    equal(sh("curl -sS --cacert ca.pem https://www.example/hello"), "hello from the origin\n")
    # without the authority TLS is refused: nobody in between has answered for it
    o = plane.json("curl -sS https://www.example/hello", "--run-id", "tools")
    equal(o["exitCode"], 60, repr(o))


@test
def a_refusal_reads_as_one_in_curl():
    o = plane.json("curl -sS -o body -w '%{http_code}' http://other.example/; cat body; "
                   "curl -sS https://other.example/", "--run-id", "tools", "--allow", "www.example")
    contains(o["stdout"], '403{"reason":"denied_by_allowlist","host":"other.example","port":80}')
    contains(o["stderr"], "403")
    equal({(d["host"], d["port"]) for d in o["egress"]["denied"]}, {("other.example", 80),
                                                                    ("other.example", 443)})


@test
def git_clones_over_https():
    out = sh("git -c http.sslCAInfo=$PWD/ca.pem clone -q https://git.example/repo.git && cat repo/file.txt",
             "--allow", "git.example:443")
    equal(out, "from git\n")


@test
def pip_installs_from_an_index():
    out = sh("pip install -q --user --cert ca.pem --index-url https://pypi.example/simple testpkg && "
             "python3 -c 'import testpkg; print(testpkg.VALUE)'", "--allow", "pypi.example")
    equal(out.splitlines()[-1], "from pip")


@test
def npm_installs_from_a_registry():
    out = sh("npm install --silent --no-audit --no-fund --cafile ca.pem "
             "--registry https://npm.example/ testpkg && node -e \"console.log(require('testpkg'))\"",
             "--allow", "npm.example")
    equal(out.splitlines()[-1], "from npm")


@test
def apt_get_updates_and_installs_from_a_repository():
    out = sh(r"""
        mkdir -p apt/lists/partial apt/cache/archives/partial root/var/lib/dpkg/{info,updates,triggers}
        : > root/var/lib/dpkg/status; : > root/var/lib/dpkg/available
        echo 'deb [trusted=yes] http://apt.example ./' > apt/sources.list
        set -- -o Dir::Etc::SourceList=$PWD/apt/sources.list -o Dir::Etc::SourceParts=- \
            -o Dir::State::Lists=$PWD/apt/lists -o Dir::Cache=$PWD/apt/cache \
            -o Dir::State::Status=$PWD/root/var/lib/dpkg/status -o Debug::NoLocking=1 \
            -o DPkg::Options::=--root=$PWD/root -o DPkg::Options::=--force-not-root \
            -o DPkg::Options::=--log=/dev/null -o Dir::Log=$PWD/apt -o DPkg::Path=$PATH:/sbin:/usr/sbin \
            -o DPkg::Options::=--force-bad-path \
            -o APT::Sandbox::User=
        apt-get "$@" -q update >apt/log 2>&1 && apt-get "$@" -qy install testpkg >>apt/log 2>&1 || cat apt/log
        cat root/usr/share/testpkg/file""", "--allow", "apt.example")
    equal(out.splitlines()[-1:], ["from apt"], out)


@test
def python_fetches_with_its_proxy_conventions():
    out = sh("python3 -c \"import urllib.request as u, ssl; c=ssl.create_default_context(cafile='ca.pem'); "
             "print(u.urlopen('http://www.example/hello').read(), "
             "u.urlopen('https://www.example/hello', context=c).read())\"")
    equal(out, "b'hello from the origin\\n' b'hello from the origin\\n'\n")


@test
def node_fetches_through_its_proxy_variables():
    # What Node of this release reads them for is left to libraries: by hand, as they do it.
    script = """
const http = require('http'), https = require('https'), fs = require('fs');
const p = new URL(process.env.https_proxy);
const auth = 'Basic ' + Buffer.from(p.username + ':' + p.password).toString('base64');
http.request({host: p.hostname, port: p.port, method: 'CONNECT', path: 'www.example:443',
  headers: {Host: 'www.example:443', 'Proxy-Authorization': auth}}).on('connect', (r, socket) => {
  https.get({socket, agent: false, host: 'www.example', servername: 'www.example', path: '/hello',
    ca: fs.readFileSync('ca.pem')}, a => a.on('data', d => process.stdout.write(d)).on('end', () => process.exit(0)));
}).end();
"""
    out = sh("cat > f.js <<'E'\n%s\nE\nnode f.js" % script)
    equal(out, "hello from the origin\n")


if __name__ == "__main__":
    setup()
    try:
        main()
    finally:
        plane.remove()
        authority.remove()
