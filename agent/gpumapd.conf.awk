# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# Make a configuration from the page about it, as gpumapd.conf from
# gpumapd.conf.5.scd: each section with each of its keys, commented, the default
# as its value.

# Remove the page's marks of emphasis: * and the _ around words.
function plain(text,   word) {
	gsub(/[*\\]/, "", text)
	while (match(text, /(^|[^A-Za-z0-9_])_[^_]+_($|[^A-Za-z0-9_])/)) {
		word = substr(text, RSTART, RLENGTH)
		sub(/_/, "", word)
		sub(/_/, "", word)
		text = substr(text, 1, RSTART - 1) word \
			substr(text, RSTART + RLENGTH)
	}
	return text
}

# The value that the page has alone behind "Default:", or nothing.
function default_of(text) {
	if (!match(text, /Default: \*[^*]+\*[.,:;]/))
		return ""
	text = substr(text, RSTART + 10, RLENGTH - 12)
	return " " text
}

function end_key() {
	if (key != "")
		print "#" key " =" default_of(text) "\n"
	key = text = ""
}

NR == 1 {
	page = $0
	file = program = page
	sub(/\(.*/, "", file)
	sub(/\.conf.*/, "", program)
	print "# " file " - configuration of " program ", see " page
	print "#"
	print "# Each key stands here with its default.  Remove the # before a key that you"
	print "# change, and before its section if that has one."
}

/^# / { end_key(); on = $0 == "# SECTIONS"; next }
!on { next }
/^## \[/ {
	end_key()
	name = plain(substr($0, 4))
	print (name ~ / NAME\]$/ ? "#" : "") name
	next
}
/^\*[a-z-]+\* = / {
	end_key()
	key = plain($1)
	print "# " plain($0)
	next
}
/^$/ && key != "" { next }
/^$/ { print ""; next }
{
	sub(/^\t/, "")
	print "# " (key != "" ? "  " : "") plain($0)
	text = text " " $0
}
END { end_key() }
