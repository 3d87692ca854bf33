#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILD SECONDS HARNESS... - runs each fuzz harness for SECONDS, two at a
# time, from its checked-in seeds (tests/fuzz/corpus/HARNESS, read only; what is
# learnt stays in BUILD). A crash, a leak, a time-out or too much memory is kept
# in BUILD/fuzz/crashes and ends with status 1, after every harness has had its
# turn. What was found once belongs into the seeds, with the fix. With FUZZ_SEED
# it is the beginning of one and the same search: 20,000 runs, or as far as the
# seconds reach.
set -u
build=$1 seconds=$2
shift 2
[ $# -gt 0 ] || { echo "fuzz: no harness was given" >&2; exit 1; }
if [ $# -gt 1 ]; then
	printf '%s\n' "$@" | xargs -P 2 -n 1 "$0" "$build" "$seconds" || { echo "fuzz: failed" >&2; exit 1; }
	exit 0
fi
h=$1 crashes=$build/fuzz/crashes seeds=tests/fuzz/corpus/$1 learnt=$build/fuzz/corpus/$1 log=$build/fuzz/$1.log dict=
mkdir -p "$crashes" "$learnt"
[ -d "$seeds" ] || { echo "fuzz: $h has no seeds in $seeds" >&2; exit 1; }
[ -f "$seeds.dict" ] && dict=-dict=$seeds.dict
if "$build/fuzz/bin/$h" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=1024 -seed="${FUZZ_SEED:-0}" \
	${FUZZ_SEED:+-runs=20000} \
	-print_final_stats=1 $dict -artifact_prefix="$crashes/$h-" "$learnt" "$seeds" >"$log" 2>&1; then
	printf 'ok   %s: %s runs, %s covered\n' "$h" \
		"$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" \
		"$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n1)"
	exit 0
fi
printf 'FAIL %s: %s\n' "$h" "$(ls -t "$crashes"/"$h"-* 2>/dev/null | head -n1)"
grep -vE '^#[0-9]+[[:space:]]+(NEW|REDUCE|pulse|INITED|RELOAD)' "$log" | tail -n 40 | sed 's/^/  | /'
exit 1
