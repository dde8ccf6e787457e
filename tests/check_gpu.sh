#!/bin/sh
# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
#
# check_gpu.sh - what contrib/check-gpu reports, of suites that do as they are
# told and of two real tests on the stand-in.

. "${abs_top_srcdir:=$(dirname "$0")/..}/tests/tap.sh"

script=$abs_top_srcdir/contrib/check-gpu
dir=$(mktemp -d) || exit 99
trap 'rm -rf "$dir"' EXIT
report=$dir/report.json
mkdir -p "$dir/tests/suites" "$dir/nodes"

# A suite: each case does what the file of its name says.
cat >"$dir/tests/suites/gpu" <<'EOF'
#!/bin/sh
. "${CHECK_GPU_CASES:?}/$2"
EOF
cp "$dir/tests/suites/gpu" "$dir/tests/suites/contract"
chmod +x "$dir/tests/suites/gpu" "$dir/tests/suites/contract"
mkdir "$dir/cases"
cat >"$dir/cases/machine" <<'EOF'
echo 'ok 1 - there is a machine'
echo '# {"cpus":2}'
echo 'ok 2 # SKIP no "card"'
EOF
cat >"$dir/cases/copies" <<'EOF'
echo 'ok 1 - one thing'
echo 'not ok 2 - wrong is 0'
echo '# copies.c:17'
echo '# got 3, want 0'
echo 'ok 3 - another'
echo 'the driver complained' >&2
exit 1
EOF
echo 'kill -SEGV $$' >"$dir/cases/versions"
echo "echo 'ok 1 - fine'" >"$dir/cases/device"
# Says that it is there, and never ends.
cat >"$dir/cases/order" <<'EOF'
echo 'ok 1 - so far'
echo '# {"rounds":5}'
echo $$ >"$CHECK_GPU_CASES/pid"
exec sleep 1000
EOF
cp "$dir/cases/order" "$dir/cases/nvml"

# The seconds that a test is given; with hurry it has a tenth of one.
mkdir "$dir/tools"
cat >"$dir/tools/timeout" <<EOF
#!/bin/sh
echo "\$3" >"$dir/limit"
[ ! -e "$dir/hurry" ] || exec "$(command -v timeout)" 0.1 \$4 \$5 \$6
exec "$(command -v timeout)" "\$@"
EOF
chmod +x "$dir/tools/timeout"
PATH=$dir/tools:$PATH

begin() {
	rm -f "$report" "$dir/cases/pid"
	env abs_top_builddir="$dir" CONTRACT_UNDER=none TMPDIR="$dir" \
		CHECK_GPU_CASES="$dir/cases" sh "$script" --stand-in \
		--report "$report" "$@" >"$dir/out" 2>&1 &
	run=$!
}

try() {
	begin "$@"
	wait "$run"
}

# begin_endless TEST... - until a test is there that never ends
begin_endless() {
	begin "$@"
	tries=0
	until [ -s "$dir/cases/pid" ] || [ $((tries += 1)) -gt 6000 ]; do
		sleep 0.01
	done
}

# shows WHAT TEXT... - the report has each TEXT
shows() {
	what=$1
	shift
	lacking=$(for text; do
		grep -qF -e "$text" "$report" || echo "no $text"
	done)
	[ -z "$lacking" ] || lacking="$lacking
$(cat "$report" "$dir/out" 2>&1)"
	check "$what" "$lacking"
}

is() {
	[ "$1" = "$2" ] || echo "$1, not $2"
}

try gpu/machine contract/device
check "all that passes ends with 0" "$(is $? 0)"
shows "such a report says so" '"on":"stand-in"' '"passed":true' '"not_run":[]' \
	'"name":"gpu/machine","passed":1,"failed":0,"skipped":1' \
	'"skips":["no \"card\""]' '"facts":[{"cpus":2}]'

try gpu/machine gpu/copies contract/versions contract/device
check "a failure ends with 1" "$(is $? 1)"
shows "a failure tells what was wrong" '"passed":false' \
	'"failed":["gpu/copies","contract/versions"]' \
	'not ok 2 - wrong is 0 # copies.c:17 # got 3, want 0' \
	'the driver complained' '"ended with status 139"'
check "failures come first" "$(is "$(sed -n 's/^{"name":"\([^"]*\)".*/\1/p' \
	"$report" | tr '\n' ' ')" \
	"gpu/copies contract/versions gpu/machine contract/device ")"
if command -v python3 >/dev/null; then
	check "the report is one object" \
		"$(python3 -c 'import json, sys; json.load(open(sys.argv[1]))' \
			"$report" 2>&1)"
else
	skip "the report is one object" "no python3"
fi

begin_endless gpu/machine gpu/order contract/device
kill -KILL "$run"
wait "$run" 2>/dev/null
kill "$(cat "$dir/cases/pid")"
shows "a killed run leaves a report of what ran" '"passed":false' \
	'"running":["gpu/order"]' '"not_run":["contract/device"]' \
	'"name":"gpu/machine","passed":1'

begin_endless gpu/machine gpu/order contract/device
kill -TERM "$run"
wait "$run" 2>/dev/null
check "a signal ends a run" "$(is $? 143)"
shows "and the test in hand tells what it has shown" \
	'"failed":["gpu/order"]' '"not_run":["contract/device"]' \
	'"name":"gpu/order","passed":1,"failed":1' '"facts":[{"rounds":5}]'
check "nothing of it is left" \
	"$(kill -0 "$(cat "$dir/cases/pid")" 2>/dev/null && echo "it runs")"

try --seconds 20 gpu/machine gpu/copies contract/device
check "a run that is over before its tests ends with 1" "$(is $? 1)"
shows "tests that do not fit are not run" '"passed":false' '"failed":[]' \
	'"not_run":["gpu/copies"]' '"name":"contract/device","passed":1'
touch "$dir/hurry"
try --seconds 12 contract/nvml contract/device
rm "$dir/hurry"
shows "a test that does not end fails" '"failed":["contract/nvml"]' \
	'"not_run":["contract/device"]' 'had not ended after'
check "no test takes more than there is" \
	"$([ "$(cat "$dir/limit")" -le 6 ] || cat "$dir/limit")"

try gpu/none
check "a test that is none is refused" "$(is $? 2)"
try --seconds 5m
check "seconds are a number" "$(is $? 2)"

# ---- a bundle ---------------------------------------------------------------

bundle=$dir/private/bundle
mkdir -p "$bundle/lib"
cp -R "$dir/tests/suites" "$bundle/bin"
cp "$script" "$bundle/check-gpu"
echo "a daemon" >"$bundle/bin/gpumapd"
chmod 0700 "$dir/private"
chmod 0711 "$dir"

try_bundle() {
	rm -f "$report"
	CHECK_GPU_NODES=$dir/nodes CHECK_GPU_CASES=$dir/cases TMPDIR=$dir \
		"$bundle/check-gpu" --report "$report" "$@" >"$dir/out" 2>&1
}

ln -s /dev/null "$dir/nodes/nvidiactl"
try_bundle gpu/machine
check "a control node is no card" "$(is $? 77)"
ln -s /dev/null "$dir/nodes/nvidia0"
try_bundle gpu/machine
check "a node of a card is one" "$(is $? 0)"
shows "a run on a card says so" '"on":"card"' '"passed":true'

# shellcheck disable=SC2016 # the case expands it
echo 'setpriv --reuid 65534 --regid 65534 --clear-groups cat "$GPUMAPD"' \
	>"$dir/cases/device"
if [ "$(id -u)" -ne 0 ] ||
	! setpriv --reuid 65534 --regid 65534 --clear-groups true; then
	skip "workers execute a bundle in a folder of root's" "not root"
else
	try_bundle contract/device
	shows "workers execute a bundle in a folder of root's" '"passed":true'
fi

# ---- the stand-in -----------------------------------------------------------

if [ -x "${abs_top_builddir:-.}/tests/suites/gpu" ] &&
	[ -n "${CONTRACT_UNDER:-}" ]; then
	sh "$script" --stand-in --report "$report" gpu/machine \
		contract/versions >"$dir/out" 2>&1
	check "tests on the stand-in pass" "$(is $? 0)"
	shows "and tell of it" '"on":"stand-in"' '"symbols":' '"passed":true'
else
	skip "tests on the stand-in pass" "no agent was built"
fi
tap_done
