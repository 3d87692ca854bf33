# SPDX-License-Identifier: Apache-2.0
# The first command on this kernel, and nothing left after the plane is down.
t "the plane comes up" plane
log | note
t "a command runs" eval 'test "$(cordon run -c "echo hi")" = hi'
t "its identity" eval 'cordon run -c id | grep -q "uid=10001(sandbox) gid=10001(sandbox)"'
t "its status is run's" eval 'cordon run -c "exit 7"; test $? = 7'
t "no capability, no new privileges, a filter" eval '
	cordon run -- cat /proc/self/status >/tmp/s
	grep -q "CapEff:.0000000000000000" /tmp/s && grep -q "CapBnd:.0000000000000000" /tmp/s &&
	grep -q "NoNewPrivs:.1" /tmp/s && grep -q "Seccomp:.2" /tmp/s'
t "files persist in a run and nowhere else" eval '
	cordon run --run-id a -c "echo kept > f" &&
	test "$(cordon run --run-id a -c "cat f")" = kept && ! cordon run --run-id b -c "cat f"'
t "a background child does not hold the answer" eval 'cordon run -c "sleep 300 & exit 0"'
t "the plane goes down" cordon down
t "no cgroup is left" sh -c '! ls -d /sys/fs/cgroup/cordon-*/jobs/slot-* 2>/dev/null'
t "no mount is left" sh -c '! grep -q /tmp/root /proc/mounts'
