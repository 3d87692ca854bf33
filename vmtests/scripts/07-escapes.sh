# SPDX-License-Identifier: Apache-2.0
# Ways out of a sandbox, on this kernel: each with its control as root of the guest.
t "the plane comes up" plane
call=/cordon/probe/call
cordon run --run-id esc --stdin $call -c 'cat > call; chmod +x call'

# refused NAME LINE: in the sandbox an error and never a success; outside it is a call like another.
refused() {
	line=$2
	t "refused: $1" eval 'cordon run --run-id esc -- ./call "$line" >/tmp/got; cat /tmp/got; grep -Eq " (errno|signal) " /tmp/got'
}
control() {
	line=$2
	t "control: $1, outside" eval '$call "$line" >/tmp/got; cat /tmp/got; grep -q " ok " /tmp/got'
}

t "control: a call of the sandbox's own works" eval 'cordon run --run-id esc -- ./call "getpid 39" | grep -q "getpid ok"'
for ns in 0x10000000:user 0x20000:mount 0x40000000:net 0x20000000:pid 0x8000000:ipc; do
	refused "a new ${ns#*:} namespace" "unshare 272 ${ns%%:*}"
	control "a new ${ns#*:} namespace" "unshare 272 ${ns%%:*}"
done
refused "mount" "mount 165 =none =/tmp =tmpfs 0 %"
refused "bpf" "bpf 321 0 % 72"
refused "io_uring" "io_uring_setup 425 4 %"
refused "keyring" "add_key 248 =user =x =y 1 -2"
refused "ptrace" "ptrace 101 16 1 0 0"
refused "kexec" "kexec_load 246 0 0 0 0"
refused "a module" "init_module 175 % 1 ="
refused "userfaultfd" "userfaultfd 323 0"
refused "perf" "perf_event_open 298 % 0 -1 -1 0"
refused "open_by_handle_at" "handle 304 -100 % 0"
refused "setns" "setns 308 -1 0"
t "no device can be made" eval '! cordon run -c "mknod /tmp/node b 253 0" && mknod /tmp/node b 253 0; rc=$?; rm -f /tmp/node; test $rc = 0'
t "nothing of the guest is visible" eval '
	cordon run -c "ls /scripts /images /cordon" >/tmp/got 2>&1; ! grep -v "No such file" /tmp/got && ls /scripts /images /cordon >/dev/null'
t "no process of the guest is visible" eval '
	sleep 86391 & cordon run -c "ps" >/tmp/got; kill $!; ! grep -q 86391 /tmp/got'
t "a signal to everything reaches nothing outside" eval '
	cordon run -c "kill -9 -1"; cordon run -c "echo lives" | grep -q lives'
t "the root is read-only" eval '! cordon run -c "touch /x"'
t "no byte of the kernel's memory" eval 'test "$(cordon run -c "head -c 1 /proc/kcore 2>/dev/null | wc -c")" = 0'
t "no address of the kernel" eval '! cordon run -c "grep -vq ^0000000000000000 /proc/kallsyms"'
t "no log of the kernel, which root of the guest reads" eval '! cordon run -c dmesg && dmesg >/dev/null'
t "sysctls cannot be written" eval '! cordon run -c "echo x > /proc/sys/kernel/core_pattern"'
t "two runs do not see one another's files" eval '
	cordon run --run-id one -c "echo secret > s" && ! cordon run --run-id two -c "cat s"'
t "the plane goes down" cordon down
t "nothing is left" eval '! grep -q /tmp/root /proc/mounts && ! ls -d /sys/fs/cgroup/cordon-*/jobs/slot-* 2>/dev/null'
