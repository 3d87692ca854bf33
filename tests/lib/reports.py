# SPDX-License-Identifier: Apache-2.0
"""What a sanitizer said, wherever it said it: an error of the test, whatever its lines say.

Confined programs write their reports to standard error, which is a log of the
plane or of a rig: who removes such a log shows it to look() first. Everything
else that a test starts has a directory for its reports (tests/run.py) and may
throw its standard error away. The launcher has no runtime to report with: it
traps, and the worker logs by which signal.
"""
import os

MARKS = ("Sanitizer", "runtime error: ", " error launcher id=")
SHOWN = 4000  # characters: a report with its stack
found = []


def lines_of(text):
    return [line for line in text.splitlines() if any(m in line for m in MARKS)]


def look(text):
    """Remembers the reports in @text, here and, with what follows the first, for the runner."""
    lines = lines_of(text)
    found.extend(lines)
    if lines and "CORDON_REPORTS" in os.environ:
        with open(os.path.join(os.environ["CORDON_REPORTS"], "logs"), "a") as f:
            f.write(text[text.index(lines[0]):][:SHOWN] + "\n".join(["", *lines, ""]))


def look_at(path):
    try:
        with open(path, errors="replace") as f:
            look(f.read())
    except FileNotFoundError:
        pass  # it had not begun
