#!/bin/sh
# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# The PTX of the built-in operators is what its script prints, and assembles
# for every architecture that the toolkit's assembler knows.

. "${abs_top_srcdir:?run me by make check}/tests/tap.sh"

ptx=$abs_top_srcdir/agent/cuda/operators.ptx

check "operators.ptx is what operators.sh prints" \
	"$(sh "$abs_top_srcdir/agent/cuda/operators.sh" | cmp - "$ptx" 2>&1)"
check "the PTX is of a version that old drivers take" \
	"$(grep -E '^\.(version|target|address_size)' "$ptx" |
		grep -vxE '\.version 6\.4|\.target sm_50|\.address_size 64')"

# A toolkit is seldom on the path of a build.
assembler=$(command -v ptxas || command -v /usr/local/cuda/bin/ptxas)
if [ -z "$assembler" ]; then
	skip "the PTX assembles" "no ptxas here"
	tap_done
fi
architectures=$("$assembler" --help |
	grep -oE "'sm_[0-9]+'" | tr -d "'" | sort -u)
check "the assembler says what it knows" \
	"$([ -n "$architectures" ] || echo 'no sm_ in ptxas --help')"
for sm in $architectures; do
	check "the PTX assembles for $sm" \
		"$("$assembler" -arch="$sm" -O0 -o /dev/null "$ptx" 2>&1)"
done
tap_done
