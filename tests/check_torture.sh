#!/bin/sh
# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# A story that says what it does in check-torture is played there.
#
#   - a test that asks how many rounds there are (story_rounds(),
#     stage_strikes(), GM_ROUNDS) is in GM_TORTURE, and so is what includes it,
#     to run it on cards, or has stories told by it;
#   - what is in GM_TORTURE asks: without it, it would be make check over again.
#
# GM_CASES and GM_TORTURE are the lists of the makefiles.

. "${abs_top_srcdir:?run me by make check}/tests/tap.sh"
cd "$abs_top_srcdir" || exit 1

asks() {
	included=$(sed -n 's/^#include "\(.*\.c\)"/\1/p' "$1")
	for file in "${included:-$1}" $(told_by "$1"); do
		if grep -qE 'story_rounds(_or)?\(|stage_strikes\(|GM_ROUNDS' \
			"$file"; then
			return 0
		fi
	done
	return 1
}

# The files of stories that several tests tell.
told_by() {
	sed -n 's/^#include "\(.*_stories\)\.h"/\1/p' "$1" |
		while read -r stories; do
			echo "$stories.h"
			if [ -e "$stories.c" ]; then
				echo "$stories.c"
			fi
		done
}

is_played() {
	case " ${GM_TORTURE-} " in
	*" $1 "*) return 0 ;;
	esac
	return 1
}

left_out() {
	for case in ${GM_CASES-}; do
		if asks "$case" && ! is_played "$case"; then
			echo "$case: add it to GM_TORTURE"
		fi
	done
}

in_vain() {
	for case in ${GM_TORTURE-}; do
		asks "$case" || echo "$case does not ask for rounds"
	done
}

if [ -z "${GM_CASES-}" ]; then
	check "there are stories" "GM_CASES is empty"
fi
check "every story with rounds is in check-torture" "$(left_out)"
check "every story in check-torture has rounds" "$(in_vain)"
tap_done
