# SPDX-License-Identifier: Apache-2.0
"""images.py - images for tests, the hostile ones among them.

    store  = "/some/dir"                         # an image store (config image_store)
    digest = busybox(build, store)               # "sha256:HEX" of the plain busybox L0
    digest = variant(build, store, edit)         # the same with a tree changed by edit(root)
    digest = variant(build, store, EVIL["dev_is_symlink"])

variant() unpacks nothing: it lays the busybox tree out anew with `cordon-image
build`'s own files (read through a private mount), lets edit(root) change it as
root, packs it with mkfs.erofs and puts it into the store under its digest, as
if somebody had made it elsewhere. Nothing of Cordon's checks is passed: that is
the point. `build` is the build directory (CORDON_BUILD).
"""
import hashlib, json, os, shutil, stat, subprocess, tempfile


def busybox(build, store):
    """Builds (or finds) the busybox L0 in `store`; gives its reference."""
    os.makedirs(store, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="cordon-images-") as root:
        out = subprocess.run([f"{build}/bin/cordon-image", "build", "--name", "busybox", "--json",
                              "--root", root, "--store", store], check=True, stdout=subprocess.PIPE)
    return json.loads(out.stdout)["digest"]


def path_of(store, digest):
    return os.path.join(store, digest.removeprefix("sha256:") + ".erofs")


def _unpack(image, to):
    """Copies an image's tree to the empty directory `to`, in a private mount namespace."""
    script = 'mount -t erofs -o ro "$1" "$2"; cp -a "$2/." "$3"'
    with tempfile.TemporaryDirectory(prefix="cordon-images-") as at:
        subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-euc", script, "sh", image, at, to],
                       check=True)


def pack(tree, store, blob_edit=None):
    """Packs a tree into `store`; blob_edit(bytearray) may damage the bytes first. Gives the reference."""
    with tempfile.NamedTemporaryFile(dir=store, prefix=".test-", delete=False) as f:
        temp = f.name
    try:
        subprocess.run(["mkfs.erofs", "--quiet", "-zlz4", "-T1672531200",
                        "-U00000000-0000-0000-0000-000000000000", temp, tree], check=True)
        with open(temp, "rb") as f:
            data = bytearray(f.read())
        if blob_edit:
            blob_edit(data)
            with open(temp, "wb") as f:
                f.write(data)
        digest = hashlib.sha256(data).hexdigest()
        os.chmod(temp, 0o444)
        os.rename(temp, path_of(store, digest))
        return f"sha256:{digest}"
    finally:
        if os.path.exists(temp):
            os.unlink(temp)


def variant(build, store, edit):
    """The busybox L0 changed by edit(root), a function that gets the tree's path."""
    plain = busybox(build, store)
    top = tempfile.mkdtemp(prefix="cordon-images-")
    try:
        tree = os.path.join(top, "root")
        os.mkdir(tree, 0o755)
        _unpack(path_of(store, plain), tree)
        edit(tree)
        return pack(tree, store)
    finally:
        shutil.rmtree(top)


def damaged(build, store, offset=4096):
    """An image whose bytes no longer match its name: one bit of a variant of its own is flipped."""
    digest = variant(build, store, lambda root: _write(root, "etc/damaged", os.urandom(16).hex()))
    path = path_of(store, digest)
    os.chmod(path, 0o644)
    with open(path, "r+b") as f:
        f.seek(offset)
        byte = f.read(1)[0]
        f.seek(offset)
        f.write(bytes([byte ^ 1]))
    os.chmod(path, 0o444)
    return digest


# --- edits

def _write(root, path, text, mode=0o644):
    full = os.path.join(root, path)
    with open(full, "w") as f:
        f.write(text)
    os.chmod(full, mode)


def _drop(root, path):
    full = os.path.join(root, path)
    if os.path.isdir(full) and not os.path.islink(full):
        shutil.rmtree(full)
    elif os.path.lexists(full):
        os.unlink(full)


def _link(path, target):
    def edit(root):
        _drop(root, path)
        os.symlink(target, os.path.join(root, path))
    return edit


def _missing(path):
    return lambda root: _drop(root, path)


def _file(path):
    def edit(root):
        _drop(root, path)
        _write(root, path, "not a directory\n")
    return edit


def _node(path, kind, major, minor):
    def edit(root):
        _drop(root, path)
        full = os.path.join(root, path)
        os.mknod(full, kind | 0o666, os.makedev(major, minor))
        os.chmod(full, 0o666)
    return edit


def _setuid_root(root):
    """A shell that would be root's: /usr/bin/rootbash 4755, /usr/bin/rootgroup 2755."""
    for name, mode in (("rootbash", 0o4755), ("rootgroup", 0o2755)):
        full = os.path.join(root, "usr/bin", name)
        shutil.copy(os.path.join(root, "usr/bin/bash"), full)
        os.chown(full, 0, 0)
        os.chmod(full, mode)


def _file_capabilities(root):
    """/usr/bin/capbash with cap_sys_admin,cap_setuid,cap_net_raw=ep as a file capability."""
    full = os.path.join(root, "usr/bin/capbash")
    shutil.copy(os.path.join(root, "usr/bin/bash"), full)
    bits = 1 << 21 | 1 << 7 | 1 << 13
    value = (0x02000001).to_bytes(4, "little") + bits.to_bytes(4, "little") + bytes(12)
    os.setxattr(full, "security.capability", value)


def _hostile_passwd(root):
    """The sandbox user's name is root's id, and 10001 is called root."""
    _write(root, "etc/passwd", "sandbox:x:0:0::/:/bin/bash\nroot:x:10001:10001::/:/bin/bash\n")
    _write(root, "etc/group", "sandbox:x:0:\nroot:x:10001:\n")


def _dev_null_link(root):
    """/dev/null leads elsewhere (CVE-2025-31133)."""
    _drop(root, "dev/null")
    os.symlink("/etc/passwd", os.path.join(root, "dev/null"))


def _dev_and_proc(root):
    """ESCAPES 7: /dev -> /tmp/x and /proc -> /."""
    _link("dev", "/tmp/x")(root)
    _link("proc", "/")(root)


# Every edit is a function of the tree's path. The first group must be refused before
# any mount; the second must start and gain nothing.
EVIL = {
    "dev_is_symlink": _link("dev", "/tmp/x"),
    "proc_is_root_symlink": _link("proc", "/"),
    "dev_and_proc_are_symlinks": _dev_and_proc,
    "workspace_is_symlink": _link("workspace", "/etc"),
    "workspace_is_parent_symlink": _link("workspace", "../../../etc"),
    "tmp_is_symlink": _link("tmp", "/workspace"),
    "skills_is_symlink": _link("skills", "/proc/self/root"),
    "dev_shm_is_symlink": _link("dev/shm", "/etc"),
    "workspace_is_file": _file("workspace"),
    "workspace_is_missing": _missing("workspace"),
    "dev_is_missing": _missing("dev"),
    "proc_is_missing": _missing("proc"),
}
TAME = {
    "setuid_root": _setuid_root,
    "file_capabilities": _file_capabilities,
    "block_device": _node("disk", stat.S_IFBLK, 7, 0),
    "char_device_mem": _node("mem", stat.S_IFCHR, 1, 1),
    "char_device_null": _node("null", stat.S_IFCHR, 1, 3),
    "dev_null_is_symlink": _dev_null_link,
    "opt_skills_is_parent": lambda root: (os.makedirs(os.path.join(root, "opt"), exist_ok=True),
                                          os.symlink("..", os.path.join(root, "opt/skills"))),
    "hostile_passwd": _hostile_passwd,
    "bash_is_missing": _missing("usr/bin/bash"),
    "ld_preload": lambda root: _write(root, "etc/ld.so.preload", "/workspace/evil.so\n"),
}
