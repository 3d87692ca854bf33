#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# layers.sh ROOM "ALLOWED ROOMS" OBJDIR - what a room's objects include (by the
# compiler's own .d files) lies in the room itself or in a room that the
# Makefile's map allows it. Programs are in nobody's list but their own.
room=$1 allowed=" $1 $2 " dir=$3 rc=0
used=$(cat "$dir"/*.d /dev/null 2>/dev/null | tr -s ' \\' '\n\n' |
	sed -n 's,^\(\./\)*userspace/\([a-z]*\)/.*,\2,p; s,^\(\./\)*fuse-skills/.*,skills,p' | sort -u)
for u in $used; do
	case "$allowed" in *" $u "*) ;; *)
		echo "layers: $room may not include $u: $(grep -lE "(userspace/|fuse-)$u/" "$dir"/*.d | xargs -n1 basename | tr '\n' ' ')" >&2
		rc=1 ;;
	esac
done
exit $rc
