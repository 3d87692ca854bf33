# SPDX-License-Identifier: Apache-2.0
"""A program on a host whose kernel lacks a call: started under a seccomp filter that
refuses it, as the kernel would. x86-64; the number of a call, the low half of its arguments.
"""
import struct
import sys

LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
ERRNO, ALLOW = 0x00050000, 0x7fff0000

START = """
import ctypes, os, sys
code = ctypes.create_string_buffer(bytes.fromhex(sys.argv[1]))
libc = ctypes.CDLL(None, use_errno=True)
program = __import__("struct").pack("HxxxxxxP", len(code.raw) // 8, ctypes.addressof(code))
libc.prctl(38, 1, 0, 0, 0)
assert libc.prctl(22, 2, program, 0, 0) == 0
os.execv(sys.argv[2], sys.argv[2:])
"""


def refusing(number, errno, arguments=()):
    """The beginning of a command line. @arguments: (index, value) that must all be so."""
    wanted = [(0, number)] + [(16 + 8 * i, value) for i, value in arguments]
    code = []
    for at, (offset, value) in enumerate(wanted):
        past = 2 * (len(wanted) - at) - 1  # to ALLOW, behind the refusal
        code += [(LOAD, 0, 0, offset), (EQUAL, 0, past, value)]
    code += [(RETURN, 0, 0, ERRNO | errno), (RETURN, 0, 0, ALLOW)]
    return [sys.executable, "-c", START, b"".join(struct.pack("HBBI", *i) for i in code).hex()]
