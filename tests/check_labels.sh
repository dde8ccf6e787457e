#!/bin/sh
# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# Memory orders live behind one door, and every edge has a name and two ends.
#
#   - memory_order_*, __atomic_*, __sync_* and fences only in shm/atomic.h and
#     include/gpumap/view.h, and in agent/device/ops_hip.h, which runs on a card,
#     where its items meet no other;
#   - what shm/atomic.h defines with an order stronger than relaxed says so in
#     its name: _acquire, _release or _ordered;
#   - every call of one of those elsewhere, and every builtin in view.h, carries
#     a label in a comment: on a line of its statement, or on the comment line
#     right above;
#   - every label is described once, in a header's opening comment as
#     " *   RING.fill<tab>...", and is worn by at least two calls.

. "${abs_top_srcdir:?run me by make check}/tests/tap.sh"
cd "$abs_top_srcdir" || exit 1

sources=$(find include shm lib agent -name '*.[ch]' | sort)
tests=$(find tests -name '*.[ch]' ! -path 'tests/model/*' | sort)

# Orders that are named, in code rather than in comments, where they must not.
# shellcheck disable=SC2086
named_orders() {
	awk '
		FNR == 1 { comment = 0 }
		FILENAME == "shm/atomic.h" { next }
		FILENAME == "include/gpumap/view.h" { next }
		FILENAME == "agent/device/ops_hip.h" { next }
		{
			code = $0
			if (comment && !sub(/^.*\*\//, "", code))
				next
			comment = 0
			gsub(/\/\*[^*]*\*\//, "", code)
			if (sub(/\/\*.*/, "", code))
				comment = 1
		}
		code ~ /memory_order_|__ATOMIC_|__atomic_|__sync_/ ||
		code ~ /(^|[^a-z_])atomic_(load|store|exchange|compare|fetch)/ ||
		code ~ /atomic_(thread|signal)_fence|_explicit *\(/ {
			print FILENAME ":" FNR ": " $0
		}' $sources $tests
}

# Print the macros and functions of shm/atomic.h, each with its body on a line.
# shellcheck disable=SC1004 # the backslash is the one that ends a line of C
door=$(sed -e ':a' -e '/\\$/N' -e 's/\\\n//' -e ta shm/atomic.h 2>/dev/null |
	grep -E '^(#define|static inline).* ?gm_[a-z0-9_]+\(')
ordered=$(echo "$door" |
	grep -oE 'gm_[a-z0-9_]+_(acquire|release|ordered)\(' |
	tr -d '(' | sort -u | paste -sd '|' -)

misnamed() {
	echo "$door" | grep -E 'memory_order_(acq|con|rel[^a]|seq)' |
		grep -vE '^[^(]*_(acquire|release|ordered)\('
}

# Print "bare FILE:LINE: TEXT" for a call without a label and "worn LABEL" for
# each label of a call that has some.  "described LABEL FILE" for each
# description.
# shellcheck disable=SC2086
labels() {
	awk -v ordered="$ordered" '
		function labels_of(text, kind,    found) {
			found = 0
			while (match(text, label)) {
				print kind, substr(text, RSTART, RLENGTH), FILENAME
				text = substr(text, RSTART + RLENGTH)
				found = 1
			}
			return found
		}
		function finish() {
			if (!labels_of(statement, "worn"))
				print "bare " where
			open = 0
		}
		BEGIN {
			label = "[A-Z][A-Z0-9]+\\.[a-z][a-z_]*"
			call = "(^|[^a-z0-9_])(" ordered ")[(]"
			builtin = "(^|[^a-z0-9_])__atomic_[a-z_]+[(]"
		}
		FNR == 1 { if (open) finish(); above = "" }
		FILENAME ~ /\.h$/ && match($0, "^ \\*   " label "[ \t]") {
			labels_of(substr($0, RSTART, RLENGTH), "described")
		}
		FILENAME == "shm/atomic.h" { next }
		!open && !/^[ \t]*(\*|\/\*)/ &&
		($0 ~ call || (FILENAME == "include/gpumap/view.h" &&
			       $0 ~ builtin && $0 !~ /RELAXED/)) {
			open = 1
			where = FILENAME ":" FNR ": " $0
			statement = above
		}
		open {
			statement = statement " " $0
			code = $0
			gsub(/\/\*.*(\*\/|$)/, "", code)
			if (code ~ /[;{}][ \t]*$/)
				finish()
		}
		{ above = /^[ \t]*(\*|\/\*)/ ? $0 : "" }
		END { if (open) finish() }' $sources
}

found=$(labels)
pick() {
	echo "$found" | sed -n "s/^$1 //p"
}

worn_by_one() {
	pick worn | cut -d' ' -f1 | sort | uniq -c |
		awk '$1 < 2 { print $2 " has one end only" }'
}

worn_undescribed() {
	pick worn | cut -d' ' -f1 | sort -u | while IFS= read -r l; do
		pick described | grep -q "^$l " ||
			echo "$l is described in no header"
	done
}

described_wrongly() {
	pick described | cut -d' ' -f1 | sort | uniq -c |
		awk '$1 > 1 { print $2 " is described " $1 " times" }'
	pick described | while read -r l file; do
		pick worn | grep -q "^$l " || echo "$l in $file has no end"
	done
}

check "orders are named behind the door only" "$(named_orders)"
check "names in shm/atomic.h say the order" "$(misnamed)"
if [ -z "$found" ]; then
	skip "edges" "no ordered access yet"
	tap_done
fi
check "every ordered access wears a label" "$(pick bare)"
check "every label is described" "$(worn_undescribed)"
check "every description is of an edge, and the only one" \
	"$(described_wrongly)"
check "every edge has two ends" "$(worn_by_one)"
tap_done
