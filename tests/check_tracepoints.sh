#!/bin/sh
# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# The page of gpumapd names every tracepoint that the programs have, with as many
# arguments, and the examples for bpftrace use these and no others.

. "${abs_top_srcdir:?run me by make check}/tests/tap.sh"
cd "$abs_top_srcdir" || exit 1

page=agent/gpumapd.8.scd

# "NAME N" of each tracepoint of the programs that were built.
built() {
	for file in agent/daemon/gpumapd agent/worker/gpumap-worker \
		lib/.libs/libgpumap.so; do
		readelf -n "${abs_top_builddir:-.}/$file"
	done 2>/dev/null | awk '
		$1 == "Provider:" { ours = $2 == "gpumap" }
		$1 == "Name:" && ours { name = $2 }
		$1 == "Arguments:" && ours { print name, NF - 1; ours = 0 }
	' | sort -u
}

# The same of the page's list.
listed() {
	sed -n '/^# TRACEPOINTS/,/^# [^T]/p' $page |
		sed -n 's/^\*\([a-z]*\)\* \(_.*_\)$/\1 \2/p' |
		awk '{ print $1, NF - 1 }' | sort -u
}

if [ -z "$(built)" ]; then
	skip "the page has each tracepoint" "built without sys/sdt.h"
else
	check "the page has each tracepoint" "$(
		built >"${TMPDIR:-/tmp}/gpumap-test.$$.built"
		listed | diff "${TMPDIR:-/tmp}/gpumap-test.$$.built" -
		rm -f "${TMPDIR:-/tmp}/gpumap-test.$$.built"
	)"
fi
check "examples use tracepoints of the page" "$(
	grep -ohE '^usdt::gpumap:[a-z]+' contrib/bpftrace/*.bt | sort -u |
		while IFS=: read -r _ _ _ name; do
			listed | grep -q "^$name " || echo "$name"
		done
)"
tap_done
