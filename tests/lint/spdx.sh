#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# spdx.sh - every source file names its licence in its first three lines:
# GPL-2.0-or-later in bpf/, Apache-2.0 everywhere else.
cd "$(dirname "$0")/../.." || exit 2
rc=0
for f in $(find Makefile .ci userspace include fuse-skills bpf nft tests vmtests -type f \
	\( -name '*.[ch]' -o -name '*.py' -o -name '*.sh' -o -name Makefile -o -path '.ci/*' -o -name '*.nft' \) \
	-not -path '*/corpus/*' -not -name '*.pyc' 2>/dev/null); do
	case $f in bpf/*) want='GPL-2.0-or-later' ;; *) want='Apache-2.0' ;; esac
	# What both worlds include may be taken under either licence.
	case $f in include/abi/*) want='(GPL-2.0-or-later|Apache-2.0)' ;; esac
	head -n3 "$f" | grep -qE "SPDX-License-Identifier: (\()?$want" ||
		{ echo "spdx: $f does not name $want" >&2; rc=1; }
done
exit $rc
