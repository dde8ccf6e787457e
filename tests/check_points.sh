#!/bin/sh
# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# Each marked instant has a test in which a process dies there.
#
#   - each GM_POINT("NAME") is the only one of its name: a death at the first of
#     two would say nothing about the second;
#   - a test names it, as "NAME", "NAME:kill" or "GM_POINT=NAME:kill";
#   - what a test names so is a point: one that has been renamed is not passed
#     any more, and a story that may miss would not say so.

. "${abs_top_srcdir:?run me by make check}/tests/tap.sh"
cd "$abs_top_srcdir" || exit 1

points() {
	find shm lib agent -name '*.[ch]' -exec \
		sed -n 's/.*GM_POINT("\([a-z_]*\)").*/\1/p' {} + | sort
}

# Every name that a test of GM_POINT has in quotes, alone or with an action.
named() {
	grep -rlE --include='*.[ch]' 'GM_POINT|stage_death' tests |
		xargs grep -ohE '"(GM_POINT=)?[a-z]+_[a-z_]+("|:(kill|stop|pause|%s))' |
		sed -e 's/^"//' -e 's/^GM_POINT=//' -e 's/[":].*//' | sort -u
}

# The same with an action, which nothing but a point has.
struck() {
	grep -rhoE --include='*.[ch]' \
		'["=][a-z]+_[a-z_]+:(kill|stop|pause|%s)' tests |
		sed -e 's/^["=]//' -e 's/:.*//' | sort -u
}

twice() {
	points | uniq -d | sed 's/$/ is at two places/'
}

without_a_story() {
	named >"$names"
	points | uniq | comm -23 - "$names" |
		sed 's/$/: no test has a process die there/'
}

of_no_point() {
	points | uniq >"$names"
	struck | comm -23 - "$names" | sed 's/$/ is no point/'
}

names=$(mktemp) || exit 99
trap 'rm -f "$names"' EXIT

if [ -z "$(points)" ]; then
	check "there are points" "none was found in shm, lib and agent"
fi
check "every point is the only one of its name" "$(twice)"
check "every point has a story" "$(without_a_story)"
check "every death is at a point" "$(of_no_point)"
tap_done
