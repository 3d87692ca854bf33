#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""cordon image import: layers laid over one another as OCI says, and nothing beyond the tree."""
import json, os, shutil, signal, subprocess, sys, tarfile, tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import images, oci
from cordon import BUILD, main, test

TOP = tempfile.mkdtemp(prefix="cordon-test-import-")
STORE = f"{TOP}/store"
os.mkdir(STORE)
count = iter(range(10 ** 6))


def run(path, *args, status=0):
    r = subprocess.run([f"{BUILD}/bin/cordon-image", "import", path, "--json", "--root", TOP, "--store", STORE, *args],
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
    assert r.returncode == status, f"status {r.returncode}: {r.stdout}{r.stderr}"
    return r


def fresh():
    return f"{TOP}/layout{next(count)}"


def tree(layers, **more):
    """Imports layers; gives {path: what}: bytes, ("link", to) or a directory's mode."""
    made = json.loads(run(oci.layout(fresh(), layers, **more)).stdout)
    to = tempfile.mkdtemp(dir=TOP)
    images._unpack(images.path_of(STORE, made["digest"]), to)
    found = {}
    for at, dirs, files in os.walk(to):
        for name in dirs + files:
            full = os.path.join(at, name)
            if os.path.islink(full):
                what = ("link", os.readlink(full))
            elif os.path.isdir(full):
                what = os.stat(full).st_mode & 0o7777
            else:
                with open(full, "rb") as f:
                    what = f.read()
            found[os.path.relpath(full, to)] = what
    found["/"] = to
    return found


def refused(layers, *words):
    r = run(oci.layout(fresh(), layers), status=1)
    for w in words:
        assert w in r.stderr, r.stderr
    left = [n for n in os.listdir(STORE) if n.startswith(".tmp")]
    assert left == [], left


@test
def layers_are_laid_over_one_another():
    t = tree([[("a", b"1"), ("d", oci.directory()), ("d/x", b"x"), ("gone", b"g"), ("l", oci.link("d"))],
              [("a", b"2"), ("d/y", b"y"), (".wh.gone", b""), ("e/f/g", b"parents made")]])
    assert t["a"] == b"2" and t["d/x"] == b"x" and t["d/y"] == b"y" and "gone" not in t
    assert t["e/f/g"] == b"parents made" and t["l"] == ("link", "d")


@test
def gzipped_layers_give_the_same_image():
    layers = [[("a", b"1" * 100000), ("d/x", b"x")], [("a", b"2")]]
    plain = json.loads(run(oci.layout(fresh(), layers)).stdout)
    zipped = json.loads(run(oci.layout(fresh(), layers, compress=True)).stdout)
    assert plain["digest"] == zipped["digest"]


@test
def whiteouts_hide_what_lies_below_and_nothing_of_their_own_layer():
    below = [("d/old", b"o"), ("d/sub/old", b"o"), ("k/old", b"o"), ("f", b"f")]
    t = tree([below, [("d/new", b"n"), ("d/.wh..wh..opq", b""), ("k/.wh.old", b""), ("k/old2", b"n"),
                      (".wh.f", b""), ("f", b"again")]])
    assert "d/old" not in t and "d/sub" not in t and t["d/new"] == b"n"
    assert "k/old" not in t and t["k/old2"] == b"n" and t["f"] == b"again"
    assert not [p for p in t if ".wh." in p]


@test
def kinds_replace_one_another():
    t = tree([[("a", b"file"), ("b/x", b"x"), ("c", oci.link("b")), ("e", oci.link("b"))],
              [("a", oci.directory(0o750)), ("b", b"now a file"), ("c", b"now a file too"), ("e", oci.directory())]])
    assert t["a"] == 0o750 and t["b"] == b"now a file" and t["c"] == b"now a file too" and t["e"] == 0o755


@test
def plane_has_the_last_word_on_its_own_files():
    t = tree([[("etc/passwd", b"root:x:0:0::/root:/bin/sh\nsandbox:x:0:0::/:/bin/sh\nten:x:10001:5::/:/bin/sh"),
               ("etc/group", b"root:x:0:\n"), ("etc/hosts", oci.link("/etc/passwd")), ("etc/hostname", b"evil\n"),
               ("etc/resolv.conf", oci.link("/run/resolv"))]])
    assert t["etc/passwd"] == (b"root:x:0:0::/root:/bin/sh\n"
                               b"sandbox:x:10001:10001:sandbox:/workspace/home:/bin/bash\n")
    assert b"localhost" in t["etc/hosts"] and t["etc/hostname"] == b"sandbox\n"
    for d, mode in (("proc", 0o555), ("dev", 0o755), ("dev/shm", 0o1777), ("tmp", 0o1777), ("workspace", 0o755),
                    ("skills", 0o755)):
        assert t[d] == mode, d


@test
def setuid_bits_owners_and_devices():
    r = run(oci.layout(fresh(), [[("su", oci.entry(data=b"x", mode=0o6755, uid=5, gid=6)),
                                  ("dev/mem", oci.device()), ("sda", oci.device(tarfile.BLKTYPE, 8, 0)),
                                  ("pipe", oci.entry(tarfile.FIFOTYPE)),
                                  ("g", oci.directory(0o2775))]]))
    assert "left out 3 devices and pipes" in r.stderr, r.stderr
    to = tempfile.mkdtemp(dir=TOP)
    images._unpack(images.path_of(STORE, json.loads(r.stdout)["digest"]), to)
    st = os.lstat(f"{to}/su")
    assert (st.st_mode & 0o7777, st.st_uid, st.st_gid, st.st_mtime) == (0o755, 5, 6, 1600000000)
    assert os.lstat(f"{to}/g").st_mode & 0o7777 == 0o775
    assert os.listdir(f"{to}/dev") == ["shm"] and not os.path.lexists(f"{to}/sda") and not os.path.lexists(f"{to}/pipe")


@test
def hard_links_stay_within():
    t = tree([[("a", b"one"), ("b", oci.hard("a")), ("c", oci.hard("./d/../a".replace("d/../", "")))]])
    assert t["b"] == b"one" and t["c"] == b"one"
    assert os.stat(f"{t['/']}/a").st_nlink == 3
    for target in ("../../etc/passwd", "/etc/passwd", "nowhere", "", "."):
        refused([[("b", oci.hard(target))]], "layer entry")
    refused([[("etc/l", oci.link("/etc")), ("b", oci.hard("etc/l/shadow"))]], "layer entry")


@test
def names_that_lead_out_are_refused():
    for name in ("../x", "a/../../x", "/../x", "..", "a/..", ".wh...", ".wh.", ".wh..", "d/.wh.../x",
                 "x" * 256, "a/" * 200 + "b", "y" * 250 + "/" + ("z" * 250 + "/") * 9):
        refused([[(name, b"x")]], "not a path within the image")


@test
def links_that_lead_out_lead_back_to_the_root():
    secret = f"{TOP}/secret"
    os.makedirs(secret, exist_ok=True)
    for target in (secret, "../" * 30 + secret[1:], "/proc/self/cwd", "/"):
        t = tree([[("out", oci.link(target)), ("keep", b"k")],
                  [("out/planted", b"x")] if target == "/" else [("out2", b"x")]])
        assert os.listdir(secret) == []
        if target == "/":
            assert t["planted"] == b"x"
    refused([[("out", oci.link(secret)), ("out/planted", b"x")]], "layer entry")
    with open(f"{secret}/victim", "w") as f:
        f.write("v")
    tree([[("out", oci.link(secret)), ("a", b"")], [("out/.wh.victim", b""), ("out/.wh..wh..opq", b"")]])
    assert os.listdir(secret) == ["victim"]


@test
def mount_points_that_are_links_are_refused():
    for name in ("dev", "proc", "workspace", "tmp", "skills", "etc"):
        refused([[(name, oci.link("/bin"))]], "is not a directory", name)
    refused([[("dev/shm", oci.link("/etc"))]], "dev/shm")


@test
def wrong_bytes_are_named():
    path = oci.layout(fresh(), [[("a", b"right")]])
    with open(f"{path}/index.json") as f:
        manifest = json.load(f)["manifests"][0]["digest"][7:]
    with open(f"{path}/blobs/sha256/{manifest}") as f:
        layer = json.load(f)["layers"][0]["digest"][7:]
    for blob, edit in ((layer, lambda d: d.replace(b"right", b"wrong")), (layer, lambda d: d[:-512]),
                       (layer, lambda d: d[:-1] + b"x"), (manifest, lambda d: d.replace(b"layers", b"Layers"))):
        full = f"{path}/blobs/sha256/{blob}"
        with open(full, "rb") as f:
            data = f.read()
        with open(full, "wb") as f:
            f.write(edit(data))
        err = run(path, status=1).stderr
        assert blob in err and ("mismatch" in err or "bytes" in err), err
        with open(full, "wb") as f:
            f.write(data)
    run(path)
    os.rename(f"{path}/blobs/sha256/{layer}", f"{path}/real")
    os.symlink("../../real", f"{path}/blobs/sha256/{layer}")
    run(path, status=1)


@test
def layouts_that_are_not_what_they_say_are_refused():
    path = fresh()
    good = oci.manifest(path, [[("a", b"1")]])
    other = {**oci.manifest(path, [[("a", b"2")]]), "platform": {"os": "linux", "architecture": "s390x"}}
    run(oci.index(path, [good, other]))
    run(oci.index(path, [oci.descriptor(path, oci.INDEX, json.dumps({"manifests": [good]}).encode())]))
    for entries, word in (([], "0 images"), ([good, good], "2 images"), ([other], "0 images"),
                          ([{**good, "mediaType": "text/plain"}], "text/plain"),
                          ([{**good, "digest": "md5:abc"}], "SHA-256"),
                          ([{**good, "digest": "sha256:../../../../etc/passwd"}], "SHA-256"),
                          ([{**good, "size": good["size"] + 1}], "bytes"), ([{"digest": good["digest"]}], "lacks"),
                          ([oci.descriptor(path, oci.MANIFEST, b'{"layers": []}')], "no layers"),
                          ([oci.descriptor(path, oci.MANIFEST, b"not json")], "layout"),
                          ([oci.descriptor(path, oci.MANIFEST, json.dumps({"layers": [
                              {"mediaType": oci.LAYER, "digest": "sha256:" + "0" * 64, "size": 1,
                               "urls": ["http://x/"]}]}).encode())], "layer of type"),
                          ([oci.descriptor(path, oci.MANIFEST, json.dumps({"layers": [oci.descriptor(
                              path, oci.LAYER, b"this is no tar" * 100)]}).encode())], "layer")):
        err = run(oci.index(path, entries), status=1).stderr
        assert word in err, (word, err)
    with open(f"{path}/index.json", "w") as f:
        f.write('{"manifests": [], "manifests": []}')
    run(path, status=1)
    run(f"{TOP}/nowhere", status=1)


@test
def bombs_are_stopped():
    sparse = tarfile.TarInfo("big")
    sparse.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "big",
                          "GNU.sparse.realsize": str(1 << 50)}
    body = b"1\n%d\n1\n" % ((1 << 50) - 1)
    body += b"\0" * (512 - len(body)) + b"x"
    sparse.size = len(body)
    import io
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as t:
        t.addfile(sparse, io.BytesIO(body))
    refused([out.getvalue()], "too large")


@test
def name_pin_and_list():
    path = oci.layout(fresh(), [[("bin/bash", oci.entry(data=b"#!", mode=0o755))]])
    r = run(path, "--name", "mine", "--pin")
    assert "no /bin/bash" not in r.stderr
    digest = json.loads(r.stdout)["digest"]
    out = subprocess.run([f"{BUILD}/bin/cordon-image", "list", "--json", "--root", TOP], stdout=subprocess.PIPE)
    row, = [i for i in json.loads(out.stdout) if i["digest"] == digest]
    assert row["names"] == ["mine"] and row["pinned"]
    for name in ("debian", "../x", "x/y", "-x", "a" * 65, "deadbeefdeadbeef", ""):
        run(path, f"--name={name}", status=1)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        main()
    finally:
        shutil.rmtree(TOP, ignore_errors=True)
