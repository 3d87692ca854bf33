#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# layers.sh ROOM "ALLOWED ROOMS" OBJDIR - includes may only point down the map
room=$1 allowed=" $1 $2 " dir=$3
cat "$dir"/*.d /dev/null 2>/dev/null | tr ' ' '\n' |
	sed -n 's,^userspace/\([a-z]*\)/.*,\1,p; s,^fuse-skills/.*,skills,p' | sort -u | {
	rc=0
	while read -r used; do
		case "$allowed" in *" $used "*) ;; *) echo "layer: $room may not include $used" >&2; rc=1 ;; esac
	done
	exit $rc
}
