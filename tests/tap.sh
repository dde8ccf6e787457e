# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
# shellcheck shell=sh

# tap.sh - TAP for scripts, to be sourced.
#
#	check NAME [FAULTS]	passes when FAULTS is empty, else shows it
#	skip NAME WHY		could not run here
#	tap_done		the plan, and the script's exit status
#
# A line of a tool on standard error is a fault: an awk that does not parse
# finds no faults.

tap_count=0
tap_failures=0
tap_errors=$(mktemp) || exit
exec 2>"$tap_errors"

check() {
	tap_count=$((tap_count + 1))
	if [ -z "$2" ]; then
		echo "ok $tap_count - $1"
		return 0
	fi
	tap_failures=$((tap_failures + 1))
	echo "not ok $tap_count - $1"
	echo "$2" | sed 's/^/# /'
	return 1
}

skip() {
	tap_count=$((tap_count + 1))
	echo "ok $tap_count # SKIP $1: $2"
}

tap_done() {
	errors=$(cat "$tap_errors")
	rm -f "$tap_errors"
	check "no tool complained" "$errors"
	echo "1..$tap_count"
	[ "$tap_failures" -eq 0 ]
	exit
}
