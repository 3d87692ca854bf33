# SPDX-License-Identifier: Apache-2.0
"""Labelled steps (base/fault.h) at which test_kill.py kills a daemon under a busy
command, each in a plane of its own. All the other faults, and the steps that are
not here, are test_faults.py's.
"""
# Steps at which the daemon kills itself: {daemon: [step, ...]}. `after=N` rows
# let the first slots of the pool pass, so that a command's own slot is hit.
KILLED = {
    "worker": ["slot.begin", "slot.cgroup", "slot.pipes", "slot.cloned", "slot.mapped",
               "slot.sent", "slot.give", "run.begin", "run.limited", "run.workspace",
               "workspace.image", "run.sent", "started.before", "finish.reaped",
               "finish.removed", "done.before",
               "guard.open", "egress.open", "egress.room", "egress.assert", "egress.begin"],
    "broker": ["command.alive", "command.lists", "command.voucher", "command.nonce",
               "command.admit", "command.claim", "command.intent",
               "command.skills", "command.slot", "command.egress", "command.run",
               "command.started", "command.done", "command.record"],
    "ledger": ["ledger.commit", "ledger.committed", "ledger.checkpoint"],
    "cordond": ["cordond.start", "cordond.up", "cordond.down"],
}
