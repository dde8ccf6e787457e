#!/bin/sh
# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# A story that says what it does in check-torture is played there.
#
#   - a test that asks how many rounds there are (story_rounds(),
#     stage_strikes(), GM_ROUNDS) is in GM_TORTURE, and so is each program that
#     is made of the same source;
#   - what is in GM_TORTURE asks: without it, it would be make check over again.
#
# GM_STORIES and GM_TORTURE are the programs of tests/local.mk.

. "${abs_top_srcdir:?run me by make check}/tests/tap.sh"
cd "$abs_top_srcdir" || exit 1

# source PROGRAM - on cards a story often has the source of that on host rows
source_of() {
	if [ -f "$1.c" ]; then
		echo "$1.c"
	else
		echo "$1.c" | sed 's|tests/cuda/\([a-z]*\)_|tests/system/\1/|'
	fi
}

asks() {
	[ -f "$1" ] && grep -qE 'story_rounds\(|stage_strikes\(|GM_ROUNDS' "$1"
}

is_played() {
	case " ${GM_TORTURE-} " in
	*" $1 "*) return 0 ;;
	esac
	return 1
}

left_out() {
	for program in ${GM_STORIES-}; do
		if asks "$(source_of "$program")" && ! is_played "$program"; then
			echo "$program: add it to GM_TORTURE"
		fi
	done
}

in_vain() {
	for program in ${GM_TORTURE-}; do
		asks "$(source_of "$program")" ||
			echo "$program does not ask for rounds"
	done
}

if [ -z "${GM_STORIES-}" ]; then
	check "there are stories" "GM_STORIES is empty"
fi
check "every story with rounds is in check-torture" "$(left_out)"
check "every story in check-torture has rounds" "$(in_vain)"
tap_done
