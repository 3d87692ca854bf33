# SPDX-License-Identifier: Apache-2.0
# What lies on the disk: a ledger somebody wrote into, workspaces that stay, artifacts in and out.
t "the plane comes up" plane
t "an artifact goes in and comes out whole" eval '
	mkdir -p /tmp/in && head -c 300000 /dev/urandom >/tmp/in/f &&
	cordon artifact put --run-id art /tmp/in && cordon run --run-id art -c "cat in/f" | cmp - /tmp/in/f &&
	cordon artifact get --run-id art in/f /tmp/back && cmp /tmp/back /tmp/in/f'
t "some rows" eval 'for i in 1 2 3; do cordon run -c "exit $i"; done; cordon audit verify'
t "a workspace of a run is still there after down and up" eval '
	cordon run --run-id keep -c "echo kept > f" && cordon down && cordon up &&
	test "$(cordon run --run-id keep -c "cat f")" = kept'
t "the plane goes down" cordon down
db=$(find $CORDON_ROOT/var/lib/cordon -name "*.db" | head -1)
t "there is a database" test -s "$db"
key=$CORDON_ROOT/etc/cordon/secrets/chain
cp "$db" /tmp/copy
t "control: a copy of it verifies without a plane" cordon audit verify --db /tmp/copy --key "$key"
hexdump -v -e '1/1 "%02x"' /tmp/copy | awk '{
	word = "73616e64626f785f65786563757465" # sandbox_execute
	for (base = 0; (at = index($0, word)) > 0; base += at) {
		print (base + at - 1) / 2
		$0 = substr($0, at + 1)
	}
}' >/tmp/places
t "the word of every row is found" test "$(wc -l </tmp/places)" -ge 4
while read -r at; do printf X | dd of=/tmp/copy bs=1 seek="$at" conv=notrunc 2>/dev/null; done </tmp/places
t "with a byte of each row changed it does not verify" eval '
	! cordon audit verify --db /tmp/copy --key "$key" >/tmp/v 2>&1; cat /tmp/v; grep -q "row" /tmp/v'
t "no mount is left" eval '! grep -q /tmp/root /proc/mounts'
