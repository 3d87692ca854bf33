# SPDX-License-Identifier: Apache-2.0
# The clock of the guest is moved (ESCAPES c36): timeouts and what is measured go by the clock
# that nobody moves, carriers by the wall's, the ledger by its own order.
t "the plane comes up" plane
uptime_s() { cut -d. -f1 /proc/uptime; }
jump() { date -s "@$(($(date +%s) + $1))" >/dev/null; }
now=$(date +%s)

t "a jump ahead ends no command" eval '
	(cordon run --json --timeout 300 -c "sleep 4; echo whole" >/tmp/j) & sleep 2; jump 86400; wait
	cat /tmp/j; test "$(field /tmp/j exitCode)" = 0 && test "$(field /tmp/j termination)" = exited &&
	test "$(field /tmp/j wallMs)" -lt 3600000'
t "a jump back prolongs no command" eval '
	began=$(uptime_s)
	(cordon run --json --timeout 5 -c "sleep 3600" >/tmp/j) & sleep 2; jump -172800; wait
	cat /tmp/j; test "$(field /tmp/j termination)" = timeout && test $(($(uptime_s) - began)) -lt 120 &&
	test "$(field /tmp/j wallMs)" -ge 5000'
jump 86400
t "the plane is ready all the same" eval 'cordon health'
t "control: a carrier opens a job" eval '
	cordon session seal --org local --user root --surface chat >/tmp/c && cordon job open --carrier /tmp/c >/tmp/id &&
	cordon job close "$(cat /tmp/id)"'
jump 864000
t "after ten days it has expired" eval '
	! cordon job open --carrier /tmp/c >/tmp/o 2>&1; cat /tmp/o; grep -q carrier_expired /tmp/o'
jump -864000
t "control: and with the clock back it has not" eval 'cordon job open --carrier /tmp/c >/tmp/id && cordon job close "$(cat /tmp/id)"'
cordon run -c true
jump -86400
t "a row written a day before the last one stands behind it" eval '
	cordon run -c true; cordon audit list --all --json >/tmp/r
	grep -o "\"sequence\":[0-9]*" /tmp/r | cut -d: -f2 >/tmp/s; cat /tmp/s; test "$(wc -l </tmp/s)" -ge 5 &&
	sort -n /tmp/s | uniq >/tmp/s2 && cmp -s /tmp/s /tmp/s2'
t "and the chain verifies" eval 'cordon audit verify'
date -s "@$((now + 60))" >/dev/null
t "the plane goes down" cordon down
