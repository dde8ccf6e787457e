#!/bin/sh
# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# Comments are plain English (.github/CONTRIBUTING.md): no sentence opens with a
# word that hides its subject, people have a name, and the words that the
# glossary of gpumap(7) replaced stay away, also from names.

. "${abs_top_srcdir:?run me by make check}/tests/tap.sh"
cd "$abs_top_srcdir" || exit 1

# Print "file:line: word" for each such word in the comments of C files, of Rust
# files, and of files whose comments begin with #.
wrong_words() {
	awk '
	BEGIN {
		n = split("Who Whoever Whom What That It Of He His he his him " \
			"himself nobody Nobody somebody Somebody anybody " \
			"Anybody everybody Everybody whoever else'"'"'s gutter " \
			"mason ferry herald guest guests purse steward " \
			"errand errands undertaker undertakers", list, " ")
		for (i = 1; i <= n; i++)
			is_wrong[list[i]] = 1
	}
	FNR == 1 { inside = 0; is_c = FILENAME ~ /\.(c|h|cpp|pml)$/ }
	{
		rest = $0
		text = ""
		if (!is_c) {
			mark = FILENAME ~ /\.rs$/ ? "^[ \t]*//" : "^[ \t]*#"
			text = rest ~ mark ? rest : ""
			rest = ""
		}
		while (rest != "") {
			if (inside) {
				at = index(rest, "*/")
				text = text " " (at ? substr(rest, 1, at - 1) : rest)
				rest = at ? substr(rest, at + 2) : ""
				inside = !at
			} else if (match(rest, /"([^"\\]|\\.)*"|\/\*/)) {
				inside = substr(rest, RSTART, 2) == "/*"
				rest = substr(rest, RSTART + RLENGTH)
			} else {
				rest = ""
			}
		}
		n = split(text, word, /[^A-Za-z0-9_@'"'"']+/)
		for (i = 1; i <= n; i++) {
			sub(/'"'"'s$/, "", word[i])
			if (word[i] in is_wrong)
				print FILENAME ":" FNR ": " word[i]
		}
	}' "$@"
}

# Print each name, in any C file, that has one of those words as a part.
wrong_names() {
	grep -nowE '[a-z0-9_]*(judge|guest|purse|errand|steward|herald|bury|buried|undertaker|clerk)[a-z0-9_]*' \
		"$@" /dev/null
}

# Sources of folder $1, and its scripts and makefiles but this one.
texts() {
	find "$1" -name '*.[ch]' -o -name '*.cpp' -o -name '*.pml' \
		-o -name '*.sh' ! -name check_words.sh -o -name '*.mk' \
		-o -name '*.py' -o -name '*.rs'
}

for folder in include lib shm agent tests contrib/python contrib/rust; do
	# shellcheck disable=SC2046 # no file has a blank in its name
	check "$folder says what it means" "$(wrong_words $(texts "$folder"))"
	# shellcheck disable=SC2046 # no file has a blank in its name
	check "$folder has names of the glossary" \
		"$(wrong_names $(find "$folder" -name '*.[ch]'))"
done
tap_done
