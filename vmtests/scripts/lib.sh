# SPDX-License-Identifier: Apache-2.0
# Sourced before each script. t NAME COMMAND...: one verdict on descriptor 3.
export CORDON_ROOT=/tmp/root

t() {
	name=$1
	shift
	if "$@" >/tmp/out 2>&1; then
		echo "ok - $name" >&3
	else
		echo "not ok - $name" >&3
		sed 's/^/# /' /tmp/out | tail -n 20 >&3
	fi
}

skip() { echo "skip - $1" >&3; }

note() { sed 's/^/# /' >&3; }

# plane [KEY=VALUE...]: a fresh instance, up.
plane() {
	rm -rf "$CORDON_ROOT"
	mkdir -p "$CORDON_ROOT/etc/cordon"
	{
		echo "rollout = on"
		echo "image = $(cat /images/busybox.ref)"
		echo "image_store = /images"
		for kv in "$@"; do echo "${kv%%=*} = ${kv#*=}"; done
	} >"$CORDON_ROOT/etc/cordon/cordon.conf"
	cordon up
}

log() { tail -n 30 "$CORDON_ROOT/var/log/cordon/cordond.log"; }

# field JSON-FILE KEY: a scalar member of one flat level, as text.
field() { sed -n 's/.*"'"$2"'":\("[^"]*"\|[^,}]*\).*/\1/p' "$1" | tr -d '"'; }
