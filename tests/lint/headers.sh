#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# headers.sh BUILD - every header compiles alone, so an include line never
# depends on the one above it.
cd "$(dirname "$0")/../.." || exit 2
find userspace include fuse-skills -name '*.h' 2>/dev/null | sort |
	xargs -n 8 -P 2 sh -c 'build=$0 rc=0
		flags=$(pkg-config --cflags fuse3 libnl-3.0 jansson 2>/dev/null)
		for h; do
			printf "#include \"%s\"\n#include \"%s\"\n" "$h" "$h" |
				${CC:-gcc} -std=gnu11 -D_GNU_SOURCE -Iuserspace -Iinclude -I. -I"$build/gen" $flags \
					-Wall -Wextra -Werror -Wno-unused-function -fsyntax-only -x c - ||
				{ echo "headers: $h does not stand alone" >&2; rc=1; }
		done
		exit $rc' "$1"
