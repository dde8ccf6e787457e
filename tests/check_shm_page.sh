#!/bin/sh
# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# gpumap-shm(5) has each struct of shm/layout.h with each field, at the offset
# and of the type that it has there, and the tables and the version of the
# segment.

. "${abs_top_srcdir:?run me by make check}/tests/tap.sh"
cd "$abs_top_srcdir" || exit 1

page=shm/gpumap-shm.5.scd
golden=tests/abi/layout.golden

# Print "STRUCT BYTES" and "STRUCT.FIELD OFFSET TYPE", as the compiler has them:
# each field is a word, an array of words or an earlier struct.
fields_of_header() {
	cat shm/atomic.h shm/layout.h | awk '
	function value(text,   part) {
		if (split(text, part, " / ") == 2)
			return value(part[1]) / value(part[2])
		return text in number ? number[text] : text + 0
	}
	function rounded(at, to) { return at + (to - at % to) % to }
	function print_field(struct, text,   part, by, dims, n) {
		by = sub(/^alignas\(GM_LINE\) /, "", text) ? number["GM_LINE"] : 0
		sub(/^struct /, "", text)
		split(text, part, /[ [\]]+/)
		if (by == 0)
			by = unit[part[1]]
		widest = by > widest ? by : widest
		n = size[part[1]]
		at = rounded(at, by)
		while (match(text, /\[[^]]*\]/)) {
			dims = dims "[" value(substr(text, RSTART + 1, \
				RLENGTH - 2)) "]"
			n *= value(substr(text, RSTART + 1, RLENGTH - 2))
			text = substr(text, RSTART + RLENGTH)
		}
		if (part[2] !~ /^(object|reserved|spare|unused)$/)
			print struct "." part[2], at, word[part[1]] dims
		at += n
	}
	function print_struct(text,   name, n, field, i) {
		split(text, field, " ")
		name = field[2]
		sub(/^[^{]*\{ */, "", text)
		n = split(text, field, / *; */)
		at = 0
		widest = 1
		for (i = 1; i < n; i++)
			print_field(name, field[i])
		size[name] = rounded(at, widest)
		unit[name] = widest
		if (name != "gm_holder")
			print name, size[name]
	}
	BEGIN {
		n = split("gm_a64 u64 8 gm_a32 u32 4 uint64_t u64 8 " \
			"uint32_t u32 4 int32_t i32 4 uint16_t u16 2 " \
			"uint8_t u8 1 char char 1 double f64 8", list, " ")
		for (i = 1; i < n; i += 3) {
			word[list[i]] = list[i + 1]
			size[list[i]] = unit[list[i]] = list[i + 2]
		}
	}
	/^#define GM_[A-Z_]+ +[0-9]+u?/ { number[$2] = $3 + 0 }
	!/^#/ { text = text " " $0 }
	END {
		while (match(text, /\/\*([^*]|\*+[^*\/])*\*+\//))
			text = substr(text, 1, RSTART - 1) \
				substr(text, RSTART + RLENGTH)
		gsub(/[ \t]+/, " ", text)
		while (match(text, /struct gm_[a-z_]+ \{[^}]*\}/)) {
			struct = substr(text, RSTART, RLENGTH)
			text = substr(text, RSTART + RLENGTH)
			print_struct(struct)
		}
	}' | grep -v '^gm_holder\.'
}

# The same of the page: lists in fences, each struct with its bytes first.
fields_of_page() {
	awk '
	/^```/ { struct = ""; next }
	/^gm_[a-z_]+, [0-9]+ bytes$/ {
		struct = substr($1, 1, length($1) - 1)
		print struct, $2
	}
	struct != "" && /^ *[0-9]+  +[a-z0-9[\]]+  +[a-z]/ {
		print struct "." $3, $1, $2
	}' "$page"
}

# compare WHERE LINES WHERE LINES
compare() {
	printf '%s\n' "$2" >"$folder/a"
	printf '%s\n' "$4" >"$folder/b"
	diff "$folder/a" "$folder/b" | sed -n -e "s,^< ,$1: ,p" \
		-e "s,^> ,$3: ,p"
}

# golden NAME - its number.
golden() {
	sed -n "s/^$1  *\([0-9]*\)$/\1/p" "$golden"
}

folder=$(mktemp -d "${TMPDIR:-/tmp}/gpumap-shm-page.XXXXXX") || exit 99
trap 'rm -rf "$folder"' EXIT

header=$(fields_of_header)
check "the fields of shm/layout.h are where the compiler has them" "$(
	echo "$header" | awk '
	NR == FNR { at[$1] = $2; n += /\./; next }
	{ sub(/^sizeof /, "") }
	$1 in at { seen++ }
	$1 in at && at[$1] != $2 { print $1 ": " at[$1] ", not " $2 }
	END { if (seen < 100) print "only " seen " fields are in both" }
	' - "$golden")"
check "gpumap-shm(5) has each field" "$(
	compare shm/layout.h "$(echo "$header" | sort)" \
		"$page" "$(fields_of_page | sort)")"

# "OFFSET COUNT * BYTES" of each table of the segment.
tables() {
	count() { sed -n "s/^#define $1  *\([0-9]*\)u.*/\1/p" shm/layout.h; }
	echo "$(golden GM_ROWS_AT) $(count GM_ROWS) * $(golden 'sizeof gm_row')"
	echo "$(golden GM_OBJECTS_AT) $(count GM_OBJECTS) *" \
		"$(golden 'sizeof gm_object_slot')"
	echo "$(golden GM_HOLDERS_AT) $(count GM_HOLDERS) *" \
		"$(golden 'sizeof gm_holder')"
	echo "$(golden GM_HEAP_AT) the rest"
}
check "gpumap-shm(5) has the tables of the segment" "$(
	compare shm/layout.h "$(tables)" "$page" "$(awk '
		/^\|  [0-9]+$/ { at = $2 }
		at > 0 && /^:  / {
			sub(/^:  /, "")
			sub(/\\\*/, "*")
			print at, $0
			at = 0
		}' "$page")")"
check "gpumap-shm(5) is of this version of the layout" "$(
	line="major $(golden GM_LAYOUT_MAJOR), minor $(golden GM_LAYOUT_MINOR)."
	grep -qF "This page describes $line" "$page" ||
		echo "$page does not describe $line")"
tap_done
