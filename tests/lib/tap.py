# SPDX-License-Identifier: Apache-2.0
"""Test functions as TAP: decorate with @test, end with sys.exit(tap.main())."""
import os
import signal
import sys
import traceback

TESTS = []


def test(f):
    TESTS.append(f)
    return f


class Skip(Exception):
    pass


def main(needs_root=True):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if needs_root and os.geteuid() != 0:
        print("1..0 # SKIP needs root")
        return 77
    only = sys.argv[1:]
    tests = [t for t in TESTS if not only or t.__name__ in only]
    failed = 0
    print("1..%d" % len(tests), flush=True)
    for n, t in enumerate(tests, 1):
        try:
            t()
            print("ok %d - %s" % (n, t.__name__), flush=True)
        except Skip as why:
            print("ok %d - %s # SKIP %s" % (n, t.__name__, why), flush=True)
        except Exception:
            failed += 1
            for line in traceback.format_exc().splitlines():
                print("# " + line)
            print("not ok %d - %s" % (n, t.__name__), flush=True)
    return 1 if failed else 0
