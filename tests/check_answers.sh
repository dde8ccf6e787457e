#!/bin/sh
# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# tests/support/answers gives each request of tests/answers/cases/KIND the answer on the
# line behind it, byte by byte, and each small mask follows its rule element by element.

. "${abs_top_srcdir:?run me by make check}/tests/tap.sh"

answers=${abs_top_builddir:?}/tests/support/answers
folder=$(mktemp -d "${TMPDIR:-/tmp}/gpumap-answers.XXXXXX") || exit 99
trap 'rm -rf "$folder"' EXIT

# lines FILE 1|0 - its requests, or their answers.
lines() { sed '/^#/d' "$1" | awk -v odd="$2" 'NR % 2 == odd'; }

for file in "$abs_top_srcdir"/tests/answers/cases/*; do
	kind=${file##*/}
	lines "$file" 1 >"$folder/asked"
	lines "$file" 0 >"$folder/wanted"
	"$answers" "$kind" <"$folder/asked" >"$folder/got"
	n=$(wc -l <"$folder/asked")
	check "$kind: each request has an answer" "$(
		[ "$n" -gt 0 ] || echo "no requests"
		[ "$(wc -l <"$folder/got")" -eq "$n" ] || cat "$folder/got")"
	while IFS= read -r request <&3 && IFS= read -r wanted <&4; do
		IFS= read -r got <&5
		check "$kind: $request" "$(
			[ "$got" = "$wanted" ] || echo "$got, and not $wanted")"
	done 3<"$folder/asked" 4<"$folder/wanted" 5<"$folder/got"
done

# masks REQUESTS|ANSWERS - all masks of up to nine queries and three cached keys,
# with windows and chunks of up to eleven.
masks() {
	awk -v what="$1" '
		function distance(i, j) { return i > j ? i - j : j - i }
		function chunk(i) { return int(i / n) }
		function masked(i, j) {
			if (kind == "causal")
				return j > past + i
			if (kind == "sliding")
				return j > past + i || j + n < past + i
			if (kind == "chunked")
				return j >= past && (j - past > i ||
					chunk(j - past) != chunk(i))
			return distance(i, j) >= n
		}
		function row(i, cols,   j, text) {
			for (j = 0; j < cols; j++)
				text = text masked(i, j)
			return text
		}
		function answer(   cols, i, same, text, between, this) {
			cols = kind == kinds[4] ? tgt : past + tgt
			for (i = 0; i < tgt; i += same) {
				this = row(i, cols)
				same = 1
				while (i + same < tgt && row(i + same, cols) == this)
					same++
				text = text between "[\"" this "\"," same "]"
				between = ","
			}
			printf "{\"ok\":{\"shape\":[%d,%d],\"rows\":[%s]}}\n",
				tgt, cols, text
		}
		function request() {
			printf "{\"kind\":\"%s\",\"tgt_len\":%d," \
				"\"past_kv_len\":%d,\"sliding_window\":%d," \
				"\"chunk_size\":%d}\n", kind, tgt, past, n, n
		}
		BEGIN {
			split("causal sliding chunked bidirectional_sliding",
				kinds, " ")
			for (k = 1; k <= 4; k++)
				for (tgt = 0; tgt <= 9; tgt++)
					for (past = 0; past <= 3; past++)
						for (n = k == 3; n <= 11; n++) {
							kind = kinds[k]
							if (what == "REQUESTS")
								request()
							else
								answer()
						}
		}'
}
masks REQUESTS >"$folder/asked"
masks ANSWERS >"$folder/wanted"
"$answers" mask <"$folder/asked" >"$folder/got"
check "1880 small masks follow their rules" "$(
	[ "$(wc -l <"$folder/wanted")" -eq 1880 ] || wc -l "$folder/wanted"
	diff "$folder/wanted" "$folder/got" | head -n 20)"

check "10^10 elements are as many characters as columns" "$(
	echo '{"kind":"bidirectional_sliding","tgt_len":100000,
		"sliding_window":100000}' | tr -d '\n' | "$answers" mask |
		awk '{ if (length($0) < 100000 || length($0) > 100100 ||
			!/0",100000]]}}$/) print length($0) }')"

"$answers" dance </dev/null >"$folder/got" 2>&1
status=$?
check "an unknown kind is refused" "$(
	[ $status -eq 2 ] || echo "status $status"
	grep -q '^usage: ' "$folder/got" || cat "$folder/got")"
tap_done
