# SPDX-License-Identifier: Apache-2.0
# What this guest is: pure cgroup v2 with the three controllers, no v1 at all.
t "cgroup v2 is mounted" grep -q ' /sys/fs/cgroup cgroup2 ' /proc/mounts
t "no v1 hierarchy is mounted" sh -c '! grep -q " cgroup " /proc/mounts'
t "cpu, memory and pids are there" sh -c \
	'for c in cpu memory pids; do grep -qw $c /sys/fs/cgroup/cgroup.controllers || exit 1; done'
