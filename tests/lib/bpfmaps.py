# SPDX-License-Identifier: Apache-2.0
"""The BPF maps that a process holds, opened by their ids: to look at what the
kernel counted, to fill a map to its last place, to make an event ring look full.

    slots = find(pid, HASH, key=8)
    slots.lookup(key), slots.update(key, value), slots.delete(key), slots.keys()
    with full_ring(find(pid, RINGBUF)): ...
"""
import contextlib
import ctypes
import mmap
import os
import struct

HASH, ARRAY, RINGBUF = 1, 2, 27
_LOOKUP, _UPDATE, _DELETE, _NEXT, _BY_ID = 1, 2, 3, 4, 14
_libc = ctypes.CDLL(None, use_errno=True)


def _bpf(command, attributes):
    buffer = ctypes.create_string_buffer(attributes, 120)
    result = _libc.syscall(321, command, ctypes.byref(buffer), 120)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


class Map:
    def __init__(self, number, key_size, value_size, entries):
        self.key_size, self.value_size, self.entries = key_size, value_size, entries
        self.fd = _bpf(_BY_ID, struct.pack("=I", number))

    def _call(self, command, key, value, flags=0):
        k = ctypes.create_string_buffer(key, self.key_size) if key is not None else None
        v = ctypes.create_string_buffer(value or b"", max(self.value_size, self.key_size))
        _bpf(command, struct.pack("=IIQQQ", self.fd, 0, ctypes.addressof(k) if k else 0,
                                  0 if value is None else ctypes.addressof(v), flags))
        return v.raw

    def lookup(self, key):
        return self._call(_LOOKUP, key, b"")[:self.value_size]

    def update(self, key, value):
        self._call(_UPDATE, key, value)

    def delete(self, key):
        self._call(_DELETE, key, None)

    def keys(self):
        found, key = [], None
        with contextlib.suppress(FileNotFoundError):
            while True:
                key = self._call(_NEXT, key, b"")[:self.key_size]
                found.append(key)
        return found


def find(pid, kind, key=0):
    """The one map of that kind and key size which the process has open."""
    found = {}
    for fd in os.listdir("/proc/%d/fdinfo" % pid):
        with contextlib.suppress(OSError), open("/proc/%d/fdinfo/%s" % (pid, fd)) as f:
            info = dict(line.split(":", 1) for line in f if ":" in line)
            if "map_id" in info and (int(info["map_type"]), int(info["key_size"])) == (kind, key):
                found[int(info["map_id"])] = info
    assert len(found) == 1, found
    number, info = found.popitem()
    return Map(number, key, int(info["value_size"]), int(info["max_entries"]))


@contextlib.contextmanager
def full_ring(ring):
    """
    Nothing more fits into the ring in this block: whoever reads it has,
    by its position, not yet taken a whole ring of events. Its reader must stand still.
    """
    page = mmap.PAGESIZE
    consumer = mmap.mmap(ring.fd, page, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
    producer = mmap.mmap(ring.fd, page, mmap.MAP_SHARED, mmap.PROT_READ, offset=page)

    def produced():
        return struct.unpack_from("=Q", producer)[0]

    struct.pack_into("=Q", consumer, 0, (produced() - ring.entries) & (1 << 64) - 1)
    try:
        yield
    finally:
        struct.pack_into("=Q", consumer, 0, produced())
        consumer.close()
        producer.close()


# --- A program of somebody else

EXCLUSIVE, BESIDE_OTHERS = 0, 2


def attach_foreign(directory, flags):
    """A program that lets everything pass, on what leaves a cgroup directory. It goes with the directory."""
    code = ctypes.create_string_buffer(struct.pack("=BBhiBBhi", 0xb7, 0, 0, 1, 0x95, 0, 0, 0))
    license_ = ctypes.create_string_buffer(b"GPL")
    egress = 1  # BPF_CGROUP_INET_EGRESS
    program = _bpf(5, struct.pack("=IIQQIIQII16sII", 8, 2, ctypes.addressof(code),
                                  ctypes.addressof(license_), 0, 0, 0, 0, 0, b"foreign", 0, egress))
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _bpf(8, struct.pack("=IIII", fd, program, egress, flags))
    finally:
        os.close(fd)
        os.close(program)
