#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The second line of sandboxes (bpf/guard.bpf.c) on a host that has it or not: it is named,
never silently away, and where it is required the plane is refused without it (B12). What it
denies is shown where kernels take it: vmtests/scripts/10-lsm.sh."""
import base64
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from cordon import CORDON, Plane, contains, equal, eventually, main, run, test  # noqa: E402

AWAY = "guard.open:error=1"  # a kernel that takes no programs of security hooks


def lists(p):
    """Where lsm stands, in the answer of a command that ran and in its signed statement."""
    r = p.json("echo ran", "--egress", "none")
    equal(r["stdout"], "ran\n")
    path = "/v1/receipts/%s/%s" % (r["jobId"], r["commandId"])
    envelope = json.loads(eventually(lambda: p.api("GET", path)[1].get("envelope"), "the envelope is kept"))
    said = json.loads(base64.b64decode(envelope["payload"]))["predicate"]["enforcement"]["guards"]
    return ([k for k in ("on", "missing") if "lsm" in r["guards"][k]],
            [k for k in ("on", "off", "missing") if "lsm" in said[k]])


def doctor():
    done = run([CORDON, "doctor", "--json"], env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
    return {row["probe"]: row for row in done.json["probes"]}["bpf lsm"]


@test
def what_this_kernel_gives_is_told_alike_by_doctor_answer_and_statement():
    row = doctor()
    where = "on" if row["result"] == "ok" else "missing"
    with Plane() as p:
        equal(lists(p), ([where], [where]), repr(row))
        equal("missing=lsm" in p.log, where == "missing")


@test
def a_second_line_that_is_missing_is_named_and_commands_go_on():
    with Plane(fault=AWAY) as p:
        equal(lists(p), (["missing"], ["missing"]))
        contains(p.log, "guard missing=lsm")


@test
def without_it_a_plane_that_requires_it_is_refused_by_its_name():
    with Plane(up=False, guard__lsm="required", fault=AWAY) as p:
        done = p.up(check=False)
        assert done.status != 0, "up"
        contains(done.error, "guard.lsm is required")
        done = p.sh("echo ran")
        assert done.status != 0 and not done.out, repr(done)
        p.configure(guard__lsm="on")  # the control
        p.up()
        equal(lists(p), (["missing"], ["missing"]))


@test
def required_on_this_kernel_is_what_doctor_says_of_it():
    row = doctor()
    with Plane(up=False, guard__lsm="required") as p:
        done = p.up(check=False)
        equal(done.status == 0, row["result"] == "ok", "%r %r" % (row, done))
        if done.status == 0:
            equal(lists(p), (["on"], ["on"]))
        else:
            contains(done.error, "guard.lsm is required: ")


@test
def switched_off_it_is_off_and_not_missing():
    with Plane(guard__lsm="off") as p:
        equal(lists(p), ([], ["off"]))


if __name__ == "__main__":
    main()
