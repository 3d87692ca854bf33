#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILD SECONDS HARNESS... - runs each fuzz harness for SECONDS from its
# checked-in seeds (tests/fuzz/corpus/HARNESS, read only; what is learnt stays
# in BUILD). A crash, a leak, a time-out or too much memory is kept in
# BUILD/fuzz/crashes and ends with status 1, after every harness has had its turn.
set -u
build=$1 seconds=$2
shift 2
crashes=$build/fuzz/crashes failed=
mkdir -p "$crashes"
[ $# -gt 0 ] || { echo "fuzz: no harness was given" >&2; exit 1; }
for h; do
	seeds=tests/fuzz/corpus/$h learnt=$build/fuzz/$h.corpus log=$build/fuzz/$h.log dict=
	mkdir -p "$learnt"
	[ -d "$seeds" ] || { echo "fuzz: $h has no seeds in $seeds" >&2; failed="$failed $h"; continue; }
	[ -f "$seeds.dict" ] && dict=-dict=$seeds.dict
	if "$build/fuzz/$h" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 \
		$dict -artifact_prefix="$crashes/$h-" "$learnt" "$seeds" >"$log" 2>&1; then
		printf 'ok   %s: %s runs, %s covered\n' "$h" \
			"$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" \
			"$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n1)"
	else
		printf 'FAIL %s: %s\n' "$h" "$(ls -t "$crashes"/"$h"-* 2>/dev/null | head -n1)"
		grep -vE '^#[0-9]+[[:space:]]+(NEW|REDUCE|pulse|INITED|RELOAD)' "$log" | tail -n 40 | sed 's/^/  | /'
		failed="$failed $h"
	fi
done
[ -z "$failed" ] || { echo "fuzz: failed:$failed" >&2; exit 1; }
