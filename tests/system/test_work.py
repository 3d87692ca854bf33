#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# cordon-test: timeout=1800
"""Work over the Debian L0 that lasts from command to command, and what is told
when its ground goes: packages for the user, lost workspaces, carriers of
others and of the past, a full disk, launchers killed while they wait."""
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cordon import CORDON, Plane, contains, equal, eventually, main, test  # noqa: E402

WHEEL = r'''
import zipfile
w = zipfile.ZipFile("greet-1.0-py3-none-any.whl", "w")
files = {
    "greet.py": "def main():\n    print('greetings')\n",
    "greet-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: greet\nVersion: 1.0\n",
    "greet-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "greet-1.0.dist-info/entry_points.txt": "[console_scripts]\ngreet = greet:main\n",
}
record = "".join(n + ",,\n" for n in files) + "greet-1.0.dist-info/RECORD,,\n"
for name, text in files.items():
    w.writestr(name, text)
w.writestr("greet-1.0.dist-info/RECORD", record)
w.close()
'''

PACKAGE = r'''
mkdir -p pkg && cd pkg &&
printf '{"name": "shout", "version": "1.0.0", "bin": {"shout": "shout.js"}}' > package.json &&
printf '#!/usr/bin/env node\nconsole.log("SHOUT")\n' > shout.js && chmod +x shout.js &&
npm pack --silent >/dev/null && npm install -g --offline --no-audit --no-fund ./shout-1.0.0.tgz
'''


@test
def pip_and_npm_installs_for_the_user_work_and_persist():
    with Plane(image="debian") as p:
        made = p.sh("python3 - <<'PY'\n%s\nPY\npip install --user --no-index "
                    "./greet-1.0-py3-none-any.whl" % WHEEL, "--run-id", "w", "--egress", "none")
        equal(made.status, 0, repr(made))
        made = p.sh(PACKAGE, "--run-id", "w", "--egress", "none", timeout=300)
        equal(made.status, 0, repr(made))
        equal(p.run("--run-id", "w", "--", "greet").out, b"greetings\n", "the next command")
        equal(p.run("--run-id", "w", "--", "shout").out, b"SHOUT\n", "the next command")
        equal(p.run("--run-id", "other", "--", "greet").status, 127, "another run has neither")


@test
def git_takes_the_workspace_for_its_own():
    with Plane(image="debian") as p:
        done = p.sh("git init -q . && git -c user.name=a -c user.email=a@localhost commit -q "
                    "--allow-empty -m first && git log --format=%s", "--run-id", "g")
        equal((done.status, done.out), (0, b"first\n"), repr(done))


@test
def a_lost_workspace_says_so_and_never_looks_empty():
    with Plane() as p:
        equal(p.sh("echo kept > f", "--run-id", "r").status, 0)
        p.down()
        images = [x for x in os.listdir(p.path("var/lib/cordon/workspaces")) if x.endswith(".ext4")]
        equal(len(images), 1)
        os.unlink(p.path("var/lib/cordon/workspaces", images[0]))
        p.up()
        got = p.json("ls", "--run-id", "r")
        equal((got["decision"], got["reason"]), ("denied", "workspace_lost"))
        equal(p.sh("echo fine", "--run-id", "s").out, b"fine\n", "control: another run")


@test
def carriers_of_another_plane_and_of_the_past_are_refused_by_name():
    with Plane(carrier_ttl=1) as p, Plane() as other:
        foreign = p.cordon("job", "open", "--carrier", "-", input=other.seal().encode())
        contains(foreign.error, "carrier_bad_signature")
        old = p.seal()
        equal(p.cordon("job", "open", "--carrier", "-", input=p.seal().encode()).status, 0,
              "control: a fresh one opens")
        time.sleep(1.2)
        expired = p.cordon("job", "open", "--carrier", "-", input=old.encode())
        contains(expired.error, "carrier_expired")


@test
def a_full_disk_is_named_and_leaves_nothing_half_made():
    """The state directory is a small filesystem of its own, in a mount namespace of the test's."""
    with Plane(up=False) as p:
        script = r'''
set -e
mkdir -p "$CORDON_ROOT/var/lib/cordon"
mount -t tmpfs -o size=3m tmpfs "$CORDON_ROOT/var/lib/cordon"
"$1" up
"$1" run --run-id before -c 'echo one > f'
head -c 8m /dev/zero > "$CORDON_ROOT/var/lib/cordon/fill" 2>/dev/null || true
status=0; "$1" run --json --run-id late --workspace-size 300M -c 'echo two' || status=$?
echo "late=$status"
ls "$CORDON_ROOT/var/lib/cordon/workspaces" | sed 's/^/file /'
rm "$CORDON_ROOT/var/lib/cordon/fill"
"$1" run --run-id late --workspace-size 300M -c 'echo three'
"$1" down
'''
        done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", CORDON],
                              env=dict(p.env, CORDON_ROOT=p.root), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=120)
        out = done.stdout.decode()
        equal(done.returncode, 0, out + done.stderr.decode())
        contains(out, "late=125", "refused: " + out)
        contains(out, '"decision":"denied"')
        contains(out, "No space left", "the error names the cause")
        equal([line for line in out.splitlines() if line.startswith("file ") and ".new" in line], [],
              "half-made files")
        contains(out, "three\n", "works once there is room")


@test
def launchers_killed_while_they_wait_are_replaced():
    with Plane(pool=2) as p:
        for _ in range(3):
            eventually(lambda: len(p.sandboxed()) >= 2, "warm slots")
            killed = p.sandboxed()
            for pid in killed:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            eventually(lambda: not set(killed) & set(p.sandboxed()), "the killed ones gone")
            equal(p.sh("echo on").out, b"on\n", "a command after its pool was killed")
        p.down()
        equal(p.left_behind(), [])


@test
def two_planes_side_by_side_share_nothing():
    with Plane() as a, Plane() as b:
        equal(a.sh("echo a > f", "--run-id", "same").status, 0)
        equal(b.sh("cat f", "--run-id", "same").status, 1, "the other plane's run of that name")
        equal(a.name == b.name, False)
        a.down()
        equal(b.sh("echo still").out, b"still\n")
        equal(a.left_behind(), [])


if __name__ == "__main__":
    main()
