# SPDX-License-Identifier: Apache-2.0
# What lies on the disk: a ledger somebody wrote into, workspaces that stay, artifacts out.
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
t "a byte of a row changed is found" eval '
	cp "$db" /tmp/db.good
	at=$(hexdump -v -e "1/1 \"%02x\"" "$db" | awk "{ print index(\$0, \"73616e64626f785f65786563757465\") }")
	echo "at $at"; test "$at" -gt 0 &&
	printf X | dd of="$db" bs=1 seek=$(((at - 1) / 2)) conv=notrunc 2>/dev/null && cordon up && ! cordon audit verify'
cordon down
t "control: with the byte back it verifies" eval 'cp /tmp/db.good "$db"; cordon up && cordon audit verify'
t "the plane goes down again" cordon down
t "no mount is left" eval '! grep -q /tmp/root /proc/mounts'
