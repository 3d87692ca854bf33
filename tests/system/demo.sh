#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# demo.sh BUILD - what `make run` shows: a plane of its own, a model-like job of
# several steps over the Debian image, its receipts verified and its ledger rows.
set -eu
build=$(cd "$1" && pwd)
export CORDON_ROOT="$build/run-instance" CORDON_ROLLOUT=on
store="$build/images" run=demo-$(date +%s)
PATH="$build/bin:$PATH"
work=$(mktemp -d)

[ "$(id -u)" = 0 ] || { echo "the demo needs root: it starts sandboxes" >&2; exit 1; }
bold= dim= plain=
[ -t 1 ] && bold=$(printf '\033[1m') dim=$(printf '\033[2m') plain=$(printf '\033[0m')
say() { printf '\n%s== %s%s\n' "$bold" "$*" "$plain"; }
finish() { status=$?; cordon down || true; rm -rf "$work"; exit $status; }
trap finish EXIT
trap 'exit 130' INT TERM HUP

# step TITLE ARGS...: one command of the run. Its streams are shown, its receipt is
# checked against the very arguments, the input and the output.
steps=0
step() {
	say "$1"
	shift
	steps=$((steps + 1))
	status=0
	cordon run --json --run-id "$run" --surface agent_run "$@" >"$work/$steps.json" || status=$?
	python3 - "$work/$steps" <<'PY'
import json, sys
o = json.load(open(sys.argv[1] + ".json"))
open(sys.argv[1] + ".out", "w").write(o["stdout"] or "")
sys.stdout.write((o["stdout"] or "") + (o["stderr"] or ""))
open(sys.argv[1] + ".said", "w").write("%s, exit %s, %s ms, %s" % (
    o["termination"] or o["reason"], o["exitCode"], o["wallMs"], o["commandId"]))
PY
	echo "$dim-- $(cat "$work/$steps.said")$plain"
	[ "$status" = 0 ] || { echo "step $steps ended with status $status" >&2; exit 1; }
	cordon receipt verify "$work/$steps.json" --output "$work/$steps.out" "$@" >"$work/$steps.verified" ||
		{ echo "the receipt of step $steps does not verify:" >&2; cat "$work/$steps.verified" >&2; exit 1; }
}

say "an instance of its own: $CORDON_ROOT"
mkdir -p "$CORDON_ROOT/etc/cordon"
conf="$CORDON_ROOT/etc/cordon/cordon.conf"
grep -qs '^image_store' "$conf" || echo "image_store = $store" >>"$conf"
cordon image build --name debian --pin --store "$store"
cordon up
cordon health | head -n 1

package='
mkdir -p shapes tests
cat >shapes/__init__.py <<PY
from math import pi

def area(kind, size):
    """The area of a named shape."""
    return {"circle": lambda r: pi * r * r, "square": lambda a: a * a}[kind](size)
PY
cat >tests/test_shapes.py <<PY
import unittest
import shapes

class Area(unittest.TestCase):
    def test_square(self):
        self.assertEqual(shapes.area("square", 3), 9)

    def test_unknown(self):
        with self.assertRaises(KeyError):
            shapes.area("blob", 1)
PY
find . -name "*.py"'
step "write a small Python package and its tests" -c "$package"
step "run the tests" -- python3 -m unittest discover -s tests -v
cat >"$work/script.js" <<'JS'
const fs = require("fs");
const rows = Array.from({ length: 1000 }, (_, i) => ({ id: i, kind: i % 3 ? "square" : "circle", size: i % 17 }));
fs.writeFileSync("shapes.jsonl", rows.map((r) => JSON.stringify(r)).join("\n") + "\n");
console.log(`node ${process.version} wrote ${rows.length} rows as uid ${process.getuid()}`);
JS
step "a Node script" --stdin "$work/script.js" -- node -
step "ripgrep and jq over what it wrote" -c 'rg -c circle shapes.jsonl
jq -s "group_by(.kind) | map({kind: .[0].kind, n: length, total: (map(.size) | add)})" shapes.jsonl'
step "git init and commit" -c 'echo __pycache__ >.gitignore; git init -q -b main . && git add -A &&
git -c user.name=demo -c user.email=demo@localhost commit -q -m "Measure shapes" && git log --stat --oneline | tail -5'
step "a server on 127.0.0.1 that the same command curls" -c 'python3 -m http.server --bind 127.0.0.1 8000 >/dev/null 2>&1 &
curl -s --retry 20 --retry-connrefused --retry-delay 1 http://127.0.0.1:8000/shapes/__init__.py | head -3'
step "what the sandbox is" -c 'id; grep -E "^(CapEff|CapBnd|NoNewPrivs|Seccomp):" /proc/self/status; ls /; ls /sys/class/net 2>/dev/null || echo "no /sys"; cat /proc/net/dev | tail -n +3'

say "the receipts, verified against argv, input and output"
i=0
while [ $((i += 1)) -le $steps ]; do
	echo "step $i: $(tr '\n' ' ' <"$work/$i.verified") $(cat "$work/$i.said")"
done
say "the ledger's rows, and its chain"
cordon audit list --org local
cordon audit verify
say "done: $steps commands"
