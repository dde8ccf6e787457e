#!/bin/sh
# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# Every exported function says what it returns, what it costs and which threads
# may call it, and has its place in gpumap(3) or gpumap-model(3).

. "${abs_top_srcdir:?run me by make check}/tests/tap.sh"
cd "$abs_top_srcdir" || exit 1

# The README shows the client that make check runs, and no other.
shown=$(awk '/^```/ { open = $0 == "```c"; next } open' README.md)
run=$(sed 1,3d tests/support/readme_client.c)
check "the README's client is the one that is tested" \
	"$([ "$shown" = "$run" ] || echo "README.md and readme_client.c differ")"

# gpumap(3) shows how to go on after the agent's death, as make check does.
shown=$(awk '/^```/ { open = !open; part = ""; next }
	open { part = part $0 "\n" }
	open && /gpumap_wait_ready/ { found = 1 }
	open && found { all = part }
	!open && found { exit }
	END { printf "%s", all }' lib/gpumap.3.scd)
run=$(sed 's/^\t\t//' tests/support/restart_client.c)
check "gpumap(3)'s loop is the one that is tested" "$(case $run in
	*"$shown"*) [ -n "$shown" ] || echo "gpumap(3) shows no such loop" ;;
	*) echo "gpumap(3) and restart_client.c differ" ;;
	esac)"

# Files that are built, and patterns for several files, are not looked for.
named_in() {
	grep -ohE '(^|[^/[:alnum:]_.-])(agent|contrib|include|lib|shm|tests|\.ci|\.github)/[A-Za-z0-9_./-]+' \
		"$1" | sed -e 's/^[^a-z.]//' -e 's/[.]$//' | grep -v '^tests/suites' | sort -u
}
missing_of() {
	named_in "$1" | while IFS= read -r path; do
		[ -e "$path" ] || echo "$path, of $1"
	done
}
for text in README.md .github/CONTRIBUTING.md agent/README.md \
	agent/device/README.md tests/README.md; do
	[ -f "$text" ] || continue
	check "each path that $text names is there" "$(missing_of "$text")"
done

# errors FILE... - the errors that it names, one a line.
errors() { grep -ohE -e '-E[A-Z0-9]{3,}' "$@" | sort -u; }
words=lib/gpumap.7.scd
listed=$(awk '/^# / { on = $0 == "# ERRORS"; next } on' $words |
	sed -n 's/^\*\(-E[A-Z0-9]*\)\*$/\1/p' | sort)
said=$(sed -n 's/^\t{ \(-E[A-Z0-9]*\),.*/\1/p' lib/errors.c | sort)

# lacking WHERE WANTED THERE - the lines of WANTED that THERE has not.
lacking() {
	echo "$2" | while read -r error; do
		echo "$3" | grep -qxe "$error" || echo "$error is not in $1"
	done
}

# shellcheck disable=SC2046
check "each error of the headers is in gpumap(7)" \
	"$(lacking $words "$(errors $(find include -name '*.h'))" "$listed")"
check "gpumap_strerror() has a sentence for each of gpumap(7)'s" \
	"$(lacking lib/errors.c "$listed" "$said")"
check "gpumap(7) has each that gpumap_strerror() has" \
	"$(lacking $words "$said" "$listed")"

headers=$(find include -name '*.h' 2>/dev/null | sort)
pages="lib/gpumap.3.scd lib/model/gpumap-model.3.scd"

# Print "NAME returns threads void cost" with 0 or 1 for each GPUMAP_API
# function, checked by the comment that ends right above its declaration.
# shellcheck disable=SC2086
documented() {
	awk '
		/^[ \t]*\/\*/ { comment = "" }
		/^[ \t]*(\/\*|\*)/ { comment = comment "\n" $0; next }
		/^[ \t]*#/ { next }
		/^GPUMAP_API/ { text = ""; open = 1 }
		open { text = text " " $0 }
		open && /;/ {
			name = text
			sub(/[ \t]*\(.*/, "", name)
			sub(/.*[ \t*]/, "", name)
			print name, comment ~ /Returns/, \
				comment ~ /[Tt]hread/, \
				text ~ /GPUMAP_API[ \t]+void[ \t]+[a-z]/, \
				comment ~ /Cost/
			open = 0
		}
		!open && !/^[ \t]*$/ { comment = "" }
		/^[ \t]*$/ { comment = "" }' $headers
}

# shellcheck disable=SC2086
found=$([ -z "$headers" ] || documented)
if [ -z "$found" ]; then
	skip "each function is documented" "nothing is exported yet"
	tap_done
fi
check "each says what it returns" \
	"$(echo "$found" | awk '!$2 && !$4 { print $1 ": no Returns" }')"
check "each says what it costs" \
	"$(echo "$found" | awk '!$5 { print $1 ": no Cost" }')"
check "each says which threads may call it" \
	"$(echo "$found" | awk '!$3 { print $1 ": no Threads" }')"
# Inline ones have no GPUMAP_API, and a comment like all others.
# shellcheck disable=SC2086
check "each is in gpumap(3) or gpumap-model(3)" "$({
	echo "$found"
	sed -n 's/^ \* \(gpumap_[a-z0-9_]*\) - .*/\1/p' $headers
} |
	while read -r name _; do
		grep -qE "(^|[^a-z0-9_])$name([^a-z0-9_]|\$)" $pages ||
			echo "$name is not in $pages"
	done)"
tap_done
