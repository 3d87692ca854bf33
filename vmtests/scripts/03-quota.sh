# SPDX-License-Identifier: Apache-2.0
# Limits by the v2 controllers (Q1 to Q5).
t "the plane comes up" plane
t "memory: killed, and the counter proves it" eval '
	cordon run --json --memory 32M -c "tail /dev/zero" >/tmp/j
	test "$(field /tmp/j oomKilled)" = true && test "$(field /tmp/j termination)" = exited'
t "control: the same command with memory enough is not killed" eval '
	cordon run --json --memory 256M -c "head -c 67108864 /dev/zero | tail -c 1 >/dev/null" >/tmp/j
	test "$(field /tmp/j oomKilled)" = false'
t "processes: the fork bomb stays in its box" eval '
	cordon run --json --pids 16 --timeout 20 -c "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 30 & done; wait" >/tmp/j
	grep -qi "fork" /tmp/j'
t "wall clock" eval 'cordon run --timeout 1 -c "sleep 60"; test $? = 124'
t "output" eval '
	cordon run --json --output-cap 64K -c "cat /dev/zero" >/tmp/j
	test "$(field /tmp/j termination)" = output_cap_exceeded'
t "disk, a run that ends with its command" eval '
	cordon run --json --workspace-size 8M -c "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do head -c 1048576 /dev/zero > f\$i; done; true" >/tmp/j
	test "$(field /tmp/j termination)" = disk_quota_exceeded'
t "disk, a run of its own" eval '
	cordon run --json --run-id q --workspace-size 8M -c "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do head -c 1048576 /dev/zero > f\$i; done; true" >/tmp/j
	test "$(field /tmp/j termination)" = disk_quota_exceeded'
t "the plane goes down" cordon down
