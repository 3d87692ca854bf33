#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""cordon-image: building, naming, pinning, verifying, removing; kills and full disks."""
import hashlib, json, os, random, shutil, signal, stat, subprocess, sys, tempfile, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import images
from cordon import BUILD, main, test

PROGRAM = f"{BUILD}/bin/cordon-image"
TOP = tempfile.mkdtemp(prefix="cordon-test-image-")


class Root:
    """An instance's ROOT of its own, with its own store."""

    def __init__(self):
        self.root = tempfile.mkdtemp(dir=TOP)
        self.store = f"{self.root}/var/lib/cordon/images"
        self.conf = f"{self.root}/etc/cordon/cordon.conf"

    def image(self, *args, status=0, **more):
        r = subprocess.run([PROGRAM, *args, "--root", self.root], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True, timeout=60, **more)
        assert r.returncode == status, f"{args}: status {r.returncode}\n{r.stdout}{r.stderr}"
        return r.stderr if status else r.stdout

    def build(self, *args):
        return json.loads(self.image("build", "--name", "busybox", "--json", *args))

    def list(self):
        return json.loads(self.image("list", "--json"))

    def configure(self, text):
        os.makedirs(os.path.dirname(self.conf), exist_ok=True)
        with open(self.conf, "w") as f:
            f.write(text)

    def leftovers(self):
        return [n for n in os.listdir(self.store) if n.startswith(".tmp") or n.endswith("~")]


def sha256(path):
    with open(path, "rb") as f:
        return "sha256:" + hashlib.sha256(f.read()).hexdigest()


def says(text, *words):
    for w in words:
        assert w in text, f"{w!r} is not in {text!r}"


@test
def image_is_named_by_the_digest_of_its_bytes_and_read_only():
    r = Root()
    made = r.build()
    path = images.path_of(r.store, made["digest"])
    assert sha256(path) == made["digest"] and os.path.getsize(path) == made["bytes"]
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o444
    assert not made["cached"] and made["seconds"] < 5 and r.leftovers() == []


@test
def second_build_reuses_the_first_and_says_so():
    r = Root()
    first, second = r.build(), r.build()
    assert second["cached"] and second["digest"] == first["digest"]
    says(r.image("build", "--name", "busybox"), "already built")


@test
def two_stores_get_the_same_bytes():
    a = Root().build()
    time.sleep(1.1)
    assert a["digest"] == Root().build()["digest"]


@test
def damaged_image_is_not_reused_but_built_again():
    r = Root()
    path = images.path_of(r.store, r.build()["digest"])
    os.chmod(path, 0o644)
    with open(path, "r+b") as f:
        f.write(b"\xff")
    again = r.build()
    assert not again["cached"] and sha256(path) == again["digest"]


@test
def builds_at_the_same_time_give_one_image():
    r = Root()
    many = [subprocess.Popen([PROGRAM, "build", "--name", "busybox", "--json", "--root", r.root],
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for _ in range(6)]
    made = [json.loads(p.communicate(timeout=60)[0]) for p in many]
    assert len({m["digest"] for m in made}) == 1
    assert sum(not m["cached"] for m in made) == 1, "more than one of them built"
    assert len(r.list()) == 1 and r.leftovers() == []


@test
def a_kill_at_any_moment_leaves_nothing_half_made():
    r = Root()
    started = time.monotonic()
    r.build()
    whole = time.monotonic() - started
    left = 0
    for i in range(30):
        shutil.rmtree(r.store, ignore_errors=True)
        p = subprocess.Popen([PROGRAM, "build", "--name", "busybox", "--root", r.root],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(whole * i / 28)
        p.send_signal(signal.SIGKILL)
        p.wait()
        if not os.path.isdir(r.store):
            continue
        left += len(r.leftovers())
        for n in os.listdir(r.store):
            if n.endswith(".erofs"):
                assert sha256(f"{r.store}/{n}") == "sha256:" + n.removesuffix(".erofs")
            if n.endswith((".ref", ".recipe")):
                with open(f"{r.store}/{n}") as f:
                    assert os.path.exists(images.path_of(r.store, f.read().strip())), n
        r.build()
        assert r.leftovers() == [], r.leftovers()
    assert left > 0, "no kill ever hit the work: the test proves nothing"


@test
def leftovers_of_a_build_that_still_runs_are_not_swept():
    r = Root()
    r.build()
    os.mkdir(f"{r.store}/.tmp-debian-abcdef")
    os.mkdir(f"{r.store}/.tmp-import-abcdef")
    holder = subprocess.Popen(["flock", "-x", f"{r.store}/.lock-debian", "sh", "-c", "echo; cat"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    holder.stdout.readline()
    r.build()
    left = r.leftovers()
    holder.communicate()
    assert left == [".tmp-debian-abcdef"], left
    r.build()
    assert r.leftovers() == []


@test
def sweeping_follows_no_link_out_of_the_store():
    r = Root()
    r.build()
    os.makedirs(f"{r.root}/precious/deep")
    os.mkdir(f"{r.store}/.tmp-busybox-abcdef")
    os.symlink(f"{r.root}/precious", f"{r.store}/.tmp-busybox-abcdef/link")
    os.symlink(f"{r.root}/precious", f"{r.store}/.tmp-busybox-ghijkl")
    r.build()
    assert os.path.isdir(f"{r.root}/precious/deep") and r.leftovers() == []


@test
def pinning_changes_one_line_and_keeps_the_rest():
    r = Root()
    r.configure("# mine\nrollout = on\nimage = sha256:" + "0" * 64 + "\npool = 3\n")
    os.chmod(r.conf, 0o600)
    made = r.build("--pin")
    with open(r.conf) as f:
        assert f.read() == f"# mine\nrollout = on\nimage = {made['digest']}\npool = 3\n"
    assert stat.S_IMODE(os.stat(r.conf).st_mode) == 0o644
    assert [i["pinned"] for i in r.list()] == [True]


@test
def pinning_makes_the_configuration_where_there_is_none():
    r = Root()
    made = r.build("--pin")
    with open(r.conf) as f:
        assert f.read() == f"image = {made['digest']}\n"


@test
def pinning_into_a_broken_configuration_is_refused_and_changes_nothing():
    r = Root()
    r.configure("no_such_key = 1\n")
    says(r.image("build", "--name", "busybox", "--pin", status=1), "no_such_key")
    with open(r.conf) as f:
        assert f.read() == "no_such_key = 1\n"


@test
def image_from_another_store_is_pinned_with_its_store():
    r, shared = Root(), Root()
    made = r.build("--pin", "--store", shared.store)
    with open(r.conf) as f:
        assert f.read() == f"image = {made['digest']}\nimage_store = {shared.store}\n"
    assert [i["digest"] for i in r.list()] == [made["digest"]]


@test
def verify_names_the_image_whose_bytes_are_wrong():
    r = Root()
    good = r.build()["digest"]
    says(r.image("verify"), good, "ok")
    bad = images.damaged(BUILD, r.store)
    out = subprocess.run([PROGRAM, "verify", "--root", r.root], stdout=subprocess.PIPE, text=True)
    assert out.returncode == 1
    says(out.stdout, f"{good}  ok", f"{bad}  image_digest_mismatch")
    out = subprocess.run([PROGRAM, "verify", bad, "--json", "--root", r.root], stdout=subprocess.PIPE)
    row, = json.loads(out.stdout)
    assert out.returncode == 1 and row["ok"] is False and row["digest"] == bad
    assert row["actual"] == sha256(images.path_of(r.store, bad))
    assert json.loads(r.image("verify", "busybox", "--json"))[0]["ok"] is True


@test
def rm_refuses_the_pinned_image_and_removes_others_with_their_names():
    r = Root()
    r.build("--pin")
    says(r.image("rm", "busybox", status=1), "pinned")
    other = images.variant(BUILD, r.store, images.TAME["setuid_root"])
    r.image("rm", other)
    assert [i["names"] for i in r.list()] == [["busybox"]]
    os.unlink(r.conf)
    r.image("rm", "busybox")
    assert r.list() == []
    assert [n for n in os.listdir(r.store) if not n.startswith(".lock")] == []


@test
def references_are_digests_their_starts_or_names_and_nothing_else():
    r = Root()
    digest = r.build()["digest"]
    for ref in (digest, digest[7:], digest[:20], digest[7:15], "busybox"):
        says(r.image("verify", ref), digest)
    for ref in ("../busybox", "/etc/passwd", "busybox.ref", ".lock-busybox", "sha256:", "sha256:" + "G" * 64,
                digest + "0", digest[:10], "BUSYBOX", "a b", "busybox\n", "", "x" * 100, "nope"):
        r.image("verify", ref, status=1)
    says(r.image("verify", "sha256:" + "0" * 64, status=1), "no image")
    assert len(r.list()) == 1


@test
def wrong_command_lines_are_refused_with_the_usage():
    r = Root()
    for args in ((), ("frobnicate",), ("build", "x"), ("list", "--pin"), ("rm",), ("rm", "a", "b"),
                 ("build", "--nmae", "x"), ("build", "--name"), ("verify", "--name", "x"), ("import",)):
        says(r.image(*args, status=2), "usage:")
    says(r.image("build", "--name", "arch", status=1), "arch")
    says(r.image("--help"), "usage:")


@test
def full_disk_is_a_clean_error_and_leaves_nothing():
    for options, word in (("size=8m", "MiB free"), ("size=64m,nr_inodes=60", "No space left")):
        r = Root()
        os.makedirs(r.store)
        script = 'mount -t tmpfs -o "$1" none "$2"; "$3" build --name busybox --root "$4" 2>"$4/err" && exit 1; ' \
                 'ls -A "$2" | grep -v "^.lock-" && exit 1; exit 0'
        p = subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-uc", script, "sh", options,
                            r.store, PROGRAM, r.root], stdout=subprocess.PIPE, text=True)
        assert p.returncode == 0, f"{options}: it built, or left {p.stdout}"
        with open(f"{r.root}/err") as f:
            says(f.read(), word)


def look(path, script):
    """Runs a shell script with $M the mounted image, in a private mount namespace."""
    at = tempfile.mkdtemp(dir=TOP)
    p = subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-euc",
                        'mount -t erofs -o ro "$1" "$2"; M=$2; ' + script, "sh", path, at],
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert p.returncode == 0, p.stdout
    return p.stdout


@test
def image_has_the_fixed_user_the_mount_points_and_no_setuid():
    r = Root()
    path = images.path_of(r.store, r.build()["digest"])
    says(look(path, 'grep ^sandbox: "$M/etc/passwd" "$M/etc/group"; cat "$M/etc/hostname" "$M/etc/hosts"'),
         "sandbox:x:10001:10001:sandbox:/workspace/home:/bin/bash", "group:sandbox:x:10001:",
         "sandbox\n", "127.0.0.1 localhost")
    modes = look(path, 'cd "$M"; stat -c "%n %F %a %u:%g" proc dev dev/shm tmp workspace skills; ls -d sys 2>&1 || :')
    for line in ("proc directory 555 0:0", "dev directory 755 0:0", "dev/shm directory 1777 0:0",
                 "tmp directory 1777 0:0", "workspace directory 755 0:0", "skills directory 755 0:0",
                 "cannot access 'sys'"):
        says(modes, line)
    special = 'find "$M" -xdev \\( -perm /6000 -o -type b -o -type c -o -type p -o -type s \\)'
    assert look(path, special) == ""
    evil = images.variant(BUILD, r.store, images.TAME["setuid_root"])  # the same look finds what is there
    says(look(images.path_of(r.store, evil), special), "rootbash", "rootgroup")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        main()
    finally:
        shutil.rmtree(TOP, ignore_errors=True)
