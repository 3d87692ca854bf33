# SPDX-License-Identifier: Apache-2.0
# Every egress program loads and attaches on this kernel, and the door works (E3 to E8).
t "the plane comes up" plane
log | note
t "a gateway-tier command runs with its guards on" eval '
	cordon run --json --egress default_internet -c true >/tmp/j
	cat /tmp/j; test "$(field /tmp/j exitCode)" = 0 && grep -q "egress_bpf" /tmp/j && grep -q "\"mode\":\"default_internet\"" /tmp/j'
t "a protected address is refused by the gateway, by name of the reason" eval '
	cordon run --egress default_internet -c "wget -O - http://169.254.169.254/ 2>&1" | grep -q 403'
t "an allowlist refuses what is not on it" eval '
	cordon run --json --egress allowlist --allow example.com -c "wget -O - http://example.org/ 2>&1" >/tmp/j
	cat /tmp/j; grep -q denied_by_allowlist /tmp/j'
t "tier none has nothing but its loopback" eval '
	cordon run --egress none -c "cat /proc/net/dev" >/tmp/d; cat /tmp/d; test "$(grep -c : /tmp/d)" = 1'
t "the loopback is free in every tier" eval '
	cordon run --egress none -c "nc -l -p 8000 -e echo hi & sleep 1; nc 127.0.0.1 8000" | grep -q hi'
t "the plane goes down" cordon down
t "no pin and no mount is left" eval '! grep -q /tmp/root /proc/mounts'
