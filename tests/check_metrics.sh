#!/bin/sh
# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# The page names every metric of gpumap-exporter and no other, and the rules and
# the dashboard use none that is not on the page.

. "${abs_top_srcdir:?run me by make check}/tests/tap.sh"
cd "$abs_top_srcdir" || exit 1

page=contrib/exporter/gpumap-exporter.8.scd
rules=contrib/exporter/gpumap-alerts.yaml
dashboard=contrib/exporter/gpumap-dashboard.json

# The families that the code has, and the metrics in the page's lists.
families=$(grep -ohE '"gpumap_[a-z_]+"' contrib/python/gpumap/tools/metrics.py |
	tr -d '"' | sort -u)
metrics=$(grep -E '^\*gpumap_' $page | grep -oE 'gpumap_[a-z_]+' | sort -u)

# The family of each metric on standard input.
family() {
	while IFS= read -r name; do
		case $name in
		*_total | *_info | *_bucket | *_sum | *_count)
			echo "${name%_*}" ;;
		*) echo "$name" ;;
		esac
	done | sort -u
}

# lacking LIST OTHER - the lines of LIST that OTHER has not.
lacking() {
	echo "$1" | while IFS= read -r name; do
		echo "$2" | grep -qxF "$name" || echo "$name"
	done
}

check "the page has each metric" \
	"$(lacking "$families" "$(echo "$metrics" | family)")"
check "each metric of the page is there" \
	"$(lacking "$(echo "$metrics" | family)" "$families")"
for file in $rules $dashboard; do
	check "$file uses metrics of the page" "$(lacking "$(grep -oE \
		'\bgpumap_[a-z_]+' "$file" | sed 's/_bucket$//' | sort -u)" \
		"$metrics")"
done

if command -v promtool >/dev/null; then
	check "Prometheus takes the rules" \
		"$(promtool check rules $rules 2>&1 | grep -iE 'fail|error')"
	check "each rule fires when it should" \
		"$(promtool test rules tests/data/alerts.yaml 2>&1 |
			grep -iE 'fail|error|exp:|got:')"
else
	skip "Prometheus takes the rules" "no promtool"
	skip "each rule fires when it should" "no promtool"
fi
tap_done
