#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# cordon-test: timeout=1500
"""The Debian L0 (SPEC N1): what is in it, what is not, that Debian's words still hold."""
import os, subprocess, sys, tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import images
from cordon import STORE, contains, equal, image, main, test

TOOLS = ("python3 python pip node npm bash curl git jq rg sed grep find xargs unzip ls env id ps tar gzip xz diff patch "
         "less file zip sha256sum")


def look(script):
    """A shell script with $M the mounted image, in mount and pid namespaces of its own."""
    path = images.path_of(STORE, image("debian"))
    with tempfile.TemporaryDirectory(prefix="cordon-test-debian-") as at:
        p = subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-euc",
                            'mount -t erofs -o ro "$1" "$2"; M=$2; ' + script, "sh", path, at],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    equal(p.returncode, 0, p.stdout)
    return p.stdout


def inside(command):
    """As the sandbox user, in the image, without the plane."""
    return look('mount -t tmpfs none "$M/tmp"; mount --bind /dev "$M/dev"; mount -t proc proc "$M/proc"; '
                'chroot --userspec=10001:10001 "$M" /usr/bin/env -i PATH=/usr/bin:/bin HOME=/tmp LANG=C.UTF-8 '
                f"/bin/bash -euc '{command}'")


@test
def every_tool_of_the_contract_is_there_and_starts():
    out = inside(f"for t in {TOOLS}; do command -v $t >/dev/null || echo missing: $t; done")
    equal(out, "")
    out = inside("python3 --version; pip --version; node --version; npm --version; git --version; jq --version; "
                 "rg --version; curl --version")
    for word in ("Python 3.", "pip ", "git version", "jq-", "ripgrep ", "curl "):
        contains(out, word)


@test
def pip_installs_for_the_user_without_a_marker_in_its_way():
    equal(look('find "$M/usr/lib" -name EXTERNALLY-MANAGED'), "")
    contains(look('find "$M/usr/lib" -maxdepth 1 -name "python3*"'), "python3")
    inside("mkdir -p /tmp/p/hello && cd /tmp/p && touch hello/__init__.py && "
           "printf \"from setuptools import setup\\nsetup(name=\\\"hello\\\", version=\\\"1\\\", "
           "packages=[\\\"hello\\\"])\\n\" > setup.py && "
           "pip install --user --no-index --no-build-isolation . && python3 -c \"import hello\"")


@test
def python_finds_its_compiled_modules_valid():
    out = inside("python3 -v -c \"import json, subprocess, email\" 2>&1 | grep -c \"is stale\" || :")
    equal(out.strip(), "0")


@test
def packages_are_debians_own_and_sources_hold_no_password():
    out = look('cat "$M/etc/apt/sources.list"; ls "$M/etc/apt/sources.list.d" "$M/etc/apt/apt.conf.d"')
    for line in out.splitlines():
        if line.startswith("deb "):
            contains(line, "signed-by=/usr/share/keyrings/debian-archive-keyring.gpg")
            equal(line.split()[-1], "main", line)
            equal("@" in line.split("://")[1].split("/")[0], False, line)
    equal("99mmdebstrap" in out, False, out)
    contains(look('chroot "$M" dpkg-query -W -f "\\${Package} \\${Maintainer}\\n" nodejs npm git'), "npm ")
    equal(look('chroot "$M" dpkg --audit'), "")


@test
def nothing_of_the_host_or_of_the_build_is_left():
    equal(look('find "$M/root" "$M/var/log" "$M/var/cache/apt" "$M/run" -type f; cat "$M/etc/machine-id"; '
               'find "$M/tmp" "$M/home" "$M/workspace" "$M/skills" -mindepth 1'), "")
    equal(look('cat "$M/etc/hostname"'), "sandbox\n")
    equal("nameserver" in look('cat "$M/etc/resolv.conf"'), False)


@test
def no_privilege_lies_about():
    equal(look('find "$M" -xdev \\( -perm /6000 -o -type b -o -type c -o -type p -o -type s \\)'), "")
    equal(look('getcap -r "$M"'), "")
    equal(look('find "$M" -xdev \\( -uid 10001 -o -gid 10001 \\)'), "")
    equal(look('find "$M" -xdev -perm -0002 ! -type l ! -path "$M/tmp" ! -path "$M/dev/shm" ! -path "$M/var/tmp" '
               '! -path "$M/run/lock" ! -path "$M/var/lock"'), "")
    contains(look('grep ^sandbox: "$M/etc/passwd" "$M/etc/group" "$M/etc/shadow"'),
             "sandbox:x:10001:10001:sandbox:/workspace/home:/bin/bash")
    equal(look('ls -d "$M/sys" 2>/dev/null || :'), "")


if __name__ == "__main__":
    main()
