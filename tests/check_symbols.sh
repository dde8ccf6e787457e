#!/bin/sh
# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# The headers declare, the symbol map lists and the library exports the same
# symbols; and the library needs libc only.

. "${abs_top_srcdir:?run me by make check}/tests/tap.sh"

map=$abs_top_srcdir/lib/libgpumap.map
library=${abs_top_builddir:?}/lib/.libs/libgpumap.so

# Public functions: the word before the parenthesis in each GPUMAP_API
# declaration, comments and preprocessor lines taken out first.
declared() {
	cat "$abs_top_srcdir"/include/gpumap.h \
		"$abs_top_srcdir"/include/gpumap/*.h 2>/dev/null |
		sed -e 's|/\*.*\*/||g' -e '\|/\*|,\|\*/|d' -e '/^[ \t]*#/d' |
		tr '\n\t' '  ' | tr ';{}' '[\n*]' |
		sed -nE 's/.*GPUMAP_API[^(]*[ *](gpumap_[a-z0-9_]+) *\(.*/\1/p' |
		sort -u
}

mapped() {
	sed -nE 's/^[ \t]*(gpumap_[a-z0-9_]+);.*/\1/p' "$map" | sort -u
}

exported() {
	"${NM:-nm}" -D --defined-only "$library" |
		awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u
}

# only NAME A B - complain about the lines of A that B lacks.
only() {
	while IFS= read -r symbol; do
		[ -z "$symbol" ] || printf '%s\n' "$3" | grep -qx "$symbol" ||
			echo "$symbol $1"
	done <<-END
	$2
	END
}

d=$(declared) m=$(mapped) e=$(exported)
if [ -z "$m$e" ]; then
	skip "headers, map and library agree" "the library is empty yet"
	tap_done
fi
check "each declared function is in the map" \
	"$(only 'is not in libgpumap.map' "$d" "$m")"
check "each function in the map is declared" \
	"$(only 'is not in include/' "$m" "$d")"
check "each function in the map is exported" \
	"$(only 'is not in libgpumap.so' "$m" "$e")"
if [ -n "$GM_BUILD" ]; then
	skip "nothing else is exported" "build is $GM_BUILD"
	skip "the library needs libc only" "build is $GM_BUILD"
else
	check "nothing else is exported" \
		"$(only 'is not in libgpumap.map' "$e" "$m")"
	check "the library needs libc only" "$(readelf -d "$library" |
		sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
		grep -Ev '^(libc\.|ld-linux|ld-musl)')"
fi
tap_done
