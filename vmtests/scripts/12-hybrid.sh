# SPDX-License-Identifier: Apache-2.0
# The same on a hybrid host: v1 hierarchies, and v2 beside them with the controllers that v1 has not (Q5, H3).
# boot: cgroups=hybrid
# Newer kernels have no memory controller for v1 any more: then it stays in v2, and both are used.
home() { [ -d "/sys/fs/cgroup/$1" ] && echo "v1, /sys/fs/cgroup/$1" || echo "v2, /sys/fs/cgroup/unified"; }
memory=$(home memory)
[ "${memory%%,*}" = v1 ] || echo "this kernel has no v1 memory controller: memory is limited by v2" | note
t "v2 has those controllers that v1 has not" eval '
	in_v2=$(cat /sys/fs/cgroup/unified/cgroup.controllers); echo "$in_v2"
	for c in cpu,cpuacct memory pids; do
		test -d /sys/fs/cgroup/$c; v1=$?
		echo "$in_v2" | grep -qw "${c%%,*}"; test $v1 != $? || return 1
	done; test -d /sys/fs/cgroup/pids'
t "doctor finds each where it is" eval '
	cordon doctor >/tmp/d; grep "^cgroup" /tmp/d
	grep -q "^cgroup cpu *ok *$(home cpu,cpuacct) " /tmp/d && grep -q "^cgroup pids *ok *$(home pids) " /tmp/d &&
	grep -q "^cgroup memory *ok *$memory " /tmp/d'
. /scripts/02-first.sh
. /scripts/03-quota.sh
. /scripts/04-egress.sh
t "no cgroup is left in any hierarchy" sh -c '! ls -d /sys/fs/cgroup/*/cordon-* 2>/dev/null'
# A hierarchy that goes gives its controller to v2: used from there, beside the v1 ones.
umount /sys/fs/cgroup/pids && sleep 1
t "a controller that moved to v2 is found there" eval '
	cordon doctor >/tmp/d; grep "^cgroup" /tmp/d
	grep -q "^cgroup pids *ok *v2, /sys/fs/cgroup/unified" /tmp/d && grep -q "^cgroup memory *ok *$memory " /tmp/d'
t "the plane comes up on both" plane
t "processes by v2" eval '
	cordon run --json --pids 16 --timeout 20 -c "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 30 & done; wait" >/tmp/j
	grep -qi "fork" /tmp/j'
t "memory where it was" eval '
	cordon run --json --memory 32M -c "tail /dev/zero" >/tmp/j
	test "$(field /tmp/j oomKilled)" = true && test "$(field /tmp/j termination)" = exited'
t "the plane goes down" cordon down
