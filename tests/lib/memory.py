# SPDX-License-Identifier: Apache-2.0
"""memory.py - what a process has in its memory, as root of its host can see it."""


def memory(pid):
    """Every readable byte of a process's own memory."""
    found = []
    with open("/proc/%d/maps" % pid) as maps, open("/proc/%d/mem" % pid, "rb", 0) as mem:
        for line in maps:
            fields = line.split()
            start, end = (int(x, 16) for x in fields[0].split("-"))
            if "rw" not in fields[1] or fields[-1].startswith("[v"):
                continue
            if end - start >= 1 << 27:  # a sanitizer's shadow: no byte of the program's own is in it
                continue
            try:
                mem.seek(start)
                found.append(mem.read(end - start))
            except OSError:
                pass
    return b"".join(found)
