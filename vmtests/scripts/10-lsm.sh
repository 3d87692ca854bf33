# SPDX-License-Identifier: Apache-2.0
# The second line (bpf/guard.bpf.c): each hook denies on its own what is tried in a slot by root
# of the guest or by nobody, where neither seccomp nor rights are in the way; outside it works.
t "doctor finds that the kernel asks" eval '
	cordon doctor --json >/tmp/d; grep -o "{[^{}]*\"bpf lsm\"[^{}]*}" /tmp/d >/tmp/lsm-row; cat /tmp/lsm-row; grep -q "\"result\":\"ok\"" /tmp/lsm-row'
t "the plane comes up with the guard required" plane guard.lsm=required
t "an ordinary command runs and is told it was on" eval '
	cordon run --json -c "echo hi" >/tmp/j; cat /tmp/j
	test "$(field /tmp/j exitCode)" = 0 && grep -q "\"on\":\[[^]]*\"lsm\"" /tmp/j'
t "and what ordinary commands do is theirs" eval '
	cordon run --egress default_internet -c "sleep 9 & cat /proc/\$!/stat /proc/self/environ && nc -l -p 8000 -e echo hi & sleep 1
	nc 127.0.0.1 8000" | grep -q hi'
(cordon run --timeout 600 -c "sleep 86392" >/dev/null 2>&1) &
trial() { /cordon/probe/call "trial 321 0x636f7264 % 72" >/tmp/trial; cat /tmp/trial; grep -q "$1" /tmp/trial; }
t "the kernel asks it of everybody" trial "errno 1$"
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
	sleep 1
	pid=$(pidof sleep | tr ' ' '\n' | while read -r p; do tr '\0' ' ' <"/proc/$p/cmdline" | grep -q 86392 && echo "$p"; done)
	[ -n "$pid" ] && break
done
slot=$(sed -n 's,^0::,/sys/fs/cgroup,p' "/proc/$(echo "$pid" | tail -n 1)/cgroup")/cgroup.procs
t "a command runs in a slot" test -w "$slot"
sysctl -w kernel.unprivileged_bpf_disabled=0 kernel.perf_event_paranoid=-1 kernel.yama.ptrace_scope=0 \
	kernel.unprivileged_userns_clone=1 >/dev/null 2>&1
cp /cordon/probe/guard /tmp/setuid && chmod 4755 /tmp/setuid

# Inside first: what is tried of modules leaves one loaded outside. A module that is not had is a
# protocol that is not there; whoever has no rights gets the guard's own error.
for what in mount init_module bpf perf ptrace userns socket netlink module setuid; do
	inside=1 outside=ok
	[ $what = module ] && inside=93
	[ $what = init_module ] && outside="errno 8"
	t "denied in a slot: $what" eval '/cordon/probe/guard $what "$slot" >/tmp/inside; cat /tmp/inside; grep -q "^errno $inside$" /tmp/inside'
	t "control: $what, outside" eval '/cordon/probe/guard $what >/tmp/outside; cat /tmp/outside; grep -q "^$outside$" /tmp/outside'
done
for what in ptrace_inside declared exec; do
	t "and not denied: $what" eval '/cordon/probe/guard $what "$slot" >/tmp/inside && cat /tmp/inside && ! grep -q errno /tmp/inside'
done
for w in /sys/fs/cgroup/cordon-*/jobs/slot-*/cgroup.procs; do [ "$w" = "$slot" ] || waiting=$w; done
t "control: a slot that waits is not armed" eval '/cordon/probe/guard bpf "$waiting" >/tmp/inside; cat /tmp/inside; grep -q "^ok" /tmp/inside'
kill -9 $pid
wait
for hook in capable bpf perf_event_open ptrace_access_check userns_create socket_create kernel_module_request \
	bprm_creds_from_file; do
	t "its own hook denied it, and the log says so: $hook" eval 'log | grep "cordon-worker error guard" | grep -q "[\",]$hook[\",]"'
done
log | grep guard | note
t "the plane goes down" cordon down
# The kernel lets go of links a moment after the last process that saw their file system.
t "and the guard with it" eval 'for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
	trial "errno 22$" && break; sleep 1; done; trial "errno 22$"'
t "no mount is left" eval '! grep -q /tmp/root /proc/mounts'
