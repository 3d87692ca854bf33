# SPDX-License-Identifier: Apache-2.0
# A kernel that takes programs of security hooks, attaches them and never asks them: found by doing.
# boot: lsm=landlock,lockdown,yama
t "bpf is not among its security modules" eval '! grep -q bpf /sys/kernel/security/lsm'
t "doctor says that it is never asked" eval 'cordon doctor >/tmp/d; grep "^bpf lsm" /tmp/d; grep -q "^bpf lsm *absent .*never asked" /tmp/d'
t "a plane that requires it does not come up" eval '! plane guard.lsm=required >/tmp/up 2>&1; cat /tmp/up; grep -q "guard.lsm is required: .*does not ask it" /tmp/up'
t "control: one that does not comes up" plane
t "and its commands are told what is missing" eval '
	cordon run --json -c "echo hi" >/tmp/j; cat /tmp/j; grep -q "\"missing\":\[\"lsm\"\]" /tmp/j'
t "the plane goes down" cordon down
