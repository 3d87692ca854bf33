#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# cordon-test: timeout=2400
"""Boots other kernels under QEMU and runs scripts/NN-*.sh in each (SPEC H3).

Kernels come as Debian packages through apt (kernels.txt); the userland is the
build, its libraries and busybox, as a read-only erofs disk. Software emulation
(TCG) only. Every script's verdict comes back over a virtio-serial port; what
does not come back is a failure. TAP on stdout.

A script with a line `# boot: OPTION...` runs in a guest of its own whose kernel
has these options. One guest at a time: the suite has other tests for the other
processor, and a guest that gets a quarter of one outlasts the plane's patience.

    run.py --build DIR [--kernel PACKAGE] [SCRIPT...]
"""
import argparse
import glob
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
BOOT_LIMIT = 900  # seconds of one kernel's whole run, under emulation
INITRD_MODULES = ["virtio_pci", "virtio_blk", "erofs"]
TOOLS = ["/sbin/mke2fs", "/usr/bin/openssl", "/usr/sbin/nft"]


def sh(*argv, **more):
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          **more).stdout.decode()


def fetch_kernel(meta, into):
    """(vmlinuz, module tree, version) of the package @meta depends on, unpacked once."""
    depends = sh("apt-cache", "depends", meta)
    package = re.search(r"Depends: (linux-image-\S+)", depends).group(1)
    tree = os.path.join(into, package)
    if not os.path.isdir(tree + "/boot"):
        os.makedirs(into, exist_ok=True)
        # apt's own user cannot write here; root downloads and apt says so.
        sh("apt-get", "download", package, cwd=into)
        deb = glob.glob("%s/%s_*.deb" % (into, package))[0]
        sh("dpkg-deb", "-x", deb, tree + ".new")
        os.unlink(deb)
        version = os.listdir(tree + ".new/lib/modules")[0]
        sh("depmod", "-b", tree + ".new", version)
        os.rename(tree + ".new", tree)
    version = os.listdir(tree + "/lib/modules")[0]
    return "%s/boot/vmlinuz-%s" % (tree, version), "%s/lib/modules/%s" % (tree, version), version


def module_files(modules, names):
    """Files of the modules @names and all they need, in loading order."""
    needs = {}
    with open(modules + "/modules.dep") as f:
        for line in f:
            path, _, rest = line.partition(":")
            needs[os.path.basename(path).split(".")[0].replace("-", "_")] = [path] + rest.split()
    order = []
    for name in names:
        for path in reversed(needs.get(name, [])):
            if path not in order:
                order.append(path)
    return [os.path.join(modules, p) for p in order]


def make_initrd(work, modules):
    """busybox, the few modules that reach the disk, and an init that switches to it."""
    root = work + "/initrd"
    shutil.rmtree(root, ignore_errors=True)
    for directory in ("bin", "mod", "dev", "proc", "new"):
        os.makedirs("%s/%s" % (root, directory))
    shutil.copy("/bin/busybox", root + "/bin/busybox")
    load = ""
    for path in module_files(modules, INITRD_MODULES):
        shutil.copy(path, root + "/mod")
        load += "insmod /mod/%s\n" % os.path.basename(path)
    with open(root + "/init", "w") as f:
        f.write("#!/bin/busybox sh\n/bin/busybox --install -s /bin\nmount -t devtmpfs d /dev\n"
                + load + "i=0; until [ -b /dev/vda ] || [ $i = 50 ]; do sleep .1; i=$((i+1)); done\n"
                "mount -t erofs -o ro /dev/vda /new\nexec switch_root /new /init\n")
    os.chmod(root + "/init", 0o755)
    with open(work + "/initrd.cpio", "wb") as out:
        names = subprocess.run(["find", "."], cwd=root, check=True, stdout=subprocess.PIPE).stdout
        subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], cwd=root, check=True, input=names,
                       stdout=out)


def libraries(programs):
    """Every shared object the programs load, by ldd."""
    found = set()
    for program in programs:
        text = subprocess.run(["ldd", program], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL).stdout.decode()
        found |= set(re.findall(r"(/\S+\.so\S*)", text))
    return sorted(found)


def make_disk(work, build, modules, version, store):
    root = work + "/root"
    shutil.rmtree(root, ignore_errors=True)
    for d in ("bin", "sbin", "usr", "proc", "sys", "dev", "tmp", "run", "etc", "images",
              "cordon/bin", "cordon/probe", "cordon/unit", "lib/modules", "scripts", "var"):
        os.makedirs("%s/%s" % (root, d))
    shutil.copy("/bin/busybox", root + "/bin/busybox")
    for applet in sh("/bin/busybox", "--list").split():
        if not os.path.lexists("%s/bin/%s" % (root, applet)):
            os.symlink("busybox", "%s/bin/%s" % (root, applet))
    os.symlink("/bin/busybox", root + "/sbin/modprobe")
    programs = [p for p in glob.glob(build + "/bin/*") if os.access(p, os.X_OK)]
    tools = [t for t in TOOLS if os.path.exists(t)]
    for program in programs:
        shutil.copy(program, root + "/cordon/bin")
    for probe in glob.glob(build + "/probe/*"):
        if os.path.isfile(probe) and os.access(probe, os.X_OK):
            shutil.copy(probe, root + "/cordon/probe")
    tables = glob.glob(build + "/unit/*_privileges")
    for table in tables:
        shutil.copy(table, root + "/cordon/unit")
    for tool in tools:
        shutil.copy(os.path.realpath(tool), root + "/sbin/" + os.path.basename(tool))
    for library in libraries(programs + tools + tables):
        os.makedirs(root + os.path.dirname(library), exist_ok=True)
        shutil.copy(os.path.realpath(library), root + library)
    shutil.copytree(modules, "%s/lib/modules/%s" % (root, version), symlinks=True,
                    ignore=shutil.ignore_patterns("build", "source"))
    for name in os.listdir(store):
        if name.endswith((".erofs", ".ref")):
            shutil.copy(os.path.join(store, name), root + "/images")
    shutil.copytree(HERE + "/scripts", root + "/scripts", dirs_exist_ok=True)
    shutil.copy(HERE + "/init", root + "/init")
    with open(root + "/etc/passwd", "w") as f:
        f.write("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n")
    with open(root + "/etc/group", "w") as f:
        f.write("root:x:0:\nnogroup:x:65534:\n")
    with open(root + "/etc/resolv.conf", "w") as f:
        f.write("nameserver 192.0.2.53\n")  # nobody: a guest has no network
    sh("mkfs.erofs", "--all-root", work + "/disk.erofs.new", root)
    os.rename(work + "/disk.erofs.new", work + "/disk.erofs")
    shutil.rmtree(root)


def boot_options(script):
    with open("%s/scripts/%s.sh" % (HERE, script)) as f:
        found = re.search(r"^# boot: (.*)$", f.read(), re.M)
    return found.group(1) if found else ""


def boot(work, vmlinuz, options, scripts):
    """Runs one guest to its end; gives what came out of the verdict port."""
    verdict = work + "/verdict"
    with open(verdict, "w"):
        pass
    with open(work + "/console", "w") as console:
        guest = subprocess.Popen(
            ["qemu-system-x86_64", "-M", "q35", "-accel", "tcg", "-cpu", "max", "-smp", "1",
             "-m", "1024", "-nodefaults", "-no-reboot", "-display", "none", "-nic", "none",
             "-kernel", vmlinuz, "-initrd", work + "/initrd.cpio",
             # On a busy machine the kernel's check of its own timer fails under emulation.
             "-append", "console=ttyS0 quiet panic=-1 no_timer_check %s scripts=%s"
             % (options, ",".join(scripts)),
             "-serial", "file:" + work + "/serial",
             "-drive", "file=%s/disk.erofs,format=raw,if=virtio,readonly=on" % work,
             "-device", "virtio-serial", "-chardev", "file,id=v,path=" + verdict,
             "-device", "virtserialport,chardev=v,name=verdict"],
            stdout=console, stderr=console)
        try:
            guest.wait(BOOT_LIMIT)
        except subprocess.TimeoutExpired:
            guest.kill()
            guest.wait()
    with open(verdict, errors="replace") as f:
        return f.read()


def on_kernel(kernel, build, store, scripts):
    """(what, words) of each verdict of all @scripts on @kernel; what is empty for a line about the last one."""
    work = os.path.join(build, "vm", kernel)
    os.makedirs(work, exist_ok=True)
    vmlinuz, modules, version = fetch_kernel(kernel, os.path.join(build, "vm"))
    make_initrd(work, modules)
    make_disk(work, build, modules, version, store)
    text, results = "", []
    for options in sorted({boot_options(s) for s in scripts}):
        text += boot(work, vmlinuz, options, [s for s in scripts if boot_options(s) == options])
    for script in scripts:
        part = re.search(r"^begin %s$(.*?)^end %s$" % (script, script), text, re.S | re.M)
        lines = re.findall(r"^(?:(not ok|ok|skip) - |# )(.*)$", part.group(1) if part else "", re.M)
        if not any(what for what, _ in lines):
            lines.append(("not ok", "%s gave no verdict" % script))
        results += [(what, "%s %s: %s" % (version, script, words) if what else "# " + words)
                    for what, words in lines]
    return results


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--build", default=os.environ.get("CORDON_BUILD", "build"))
    options.add_argument("--kernel", action="append")
    options.add_argument("scripts", nargs="*")
    args = options.parse_args()
    build = os.path.abspath(args.build)
    store = work_store(build)
    with open(HERE + "/kernels.txt") as f:
        kernels = args.kernel or [line.strip() for line in f if line.strip() and line[0] != "#"]
    scripts = args.scripts or sorted(os.path.basename(p)[:-3]
                                     for p in glob.glob(HERE + "/scripts/[0-9]*.sh"))
    number, failed = 0, 0
    for what, name in (line for k in kernels for line in on_kernel(k, build, store, scripts)):
        if not what:
            print(name)
            continue
        number += 1
        failed += what == "not ok"
        why = " # SKIP said so by the script" if what == "skip" else ""
        print("%s %d - %s%s" % ("ok" if what == "skip" else what, number, name, why))
    print("1..%d" % number)
    sys.exit(1 if failed or not number else 0)


def work_store(build):
    store = os.path.join(build, "vm", "images")
    if not os.path.exists(store + "/busybox.ref"):
        os.makedirs(os.path.join(build, "vm", "imageroot"), exist_ok=True)
        sh(build + "/bin/cordon-image", "build", "--name", "busybox", "--store", store,
           "--root", os.path.join(build, "vm", "imageroot"))
    return store


if __name__ == "__main__":
    main()
