#!/bin/sh
# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# Check the rules of agent/README.md about the daemon's folders, and of names.
#
#   - a function of one folder of the daemon calls none of a higher one; what a
#     higher one has to know is an event (agent/daemon/base/events.h);
#   - no files of the daemon call each other in a circle, and none of lib/model,
#     whose folders each count as one;
#   - gpumapd has no part of lib/model that plans or reads what people write but
#     node files;
#   - the tag of a struct, enum or union has one meaning in the whole product;
#   - a function has one definition, and its header is that of its source, of
#     its module (a file whose name begins with the same word), of its folder,
#     or one without a source of its own in the same folder;
#   - its name begins with a word of its source's name or folder, or with the
#     name of a source beside it, whose struct it works on;
#   - no two sources of a folder differ by a plural only;
#   - a function has at most six parameters, but for public calls.

. "${abs_top_srcdir:?run me by make check}/tests/tap.sh"
cd "$abs_top_srcdir" || exit 1

level_of() {
	case $1 in
	base) echo 0 ;;
	segment) echo 1 ;;
	devices) echo 2 ;;
	account) echo 3 ;;
	workers) echo 4 ;;
	health) echo 5 ;;
	state) echo 6 ;;
	map) echo 7 ;;
	cluster | meshes) echo 8 ;;
	sharing) echo 9 ;;
	masks) echo 10 ;;
	sessions) echo 11 ;;
	.) echo 12 ;;
	*) echo 99 ;;
	esac
}

folder=$(mktemp -d "${TMPDIR:-/tmp}/gpumap-structure.XXXXXX") || exit 99
trap 'rm -rf "$folder"' EXIT

# "LEVEL NAME T|U SYMBOL" of each function that objects have or want, of lines
# "LEVEL NAME OBJECT".  nm starts once, for that takes it longest.
symbols() {
	cat >"$folder/objects"
	sed 's/.* //' "$folder/objects" | xargs "${NM:-nm}" -A |
		awk -v objects="$folder/objects" '
		BEGIN { while (getline <objects > 0) at[$3] = $1 " " $2 }
		$(NF - 1) == "T" || $(NF - 1) == "U" {
			sub(/:.*/, "", $1)
			print at[$1], $(NF - 1), $NF
		}'
}

daemon_symbols() {
	cd "${abs_top_builddir:?}/agent/daemon" || exit
	find . -name '*.o' -path '*/.libs/*' | while IFS= read -r object; do
		at=${object%/.libs/*}
		at=${at#./}
		source=${object##*/}
		[ -f "$abs_top_srcdir/agent/daemon/$at/${source%.o}.c" ] ||
			continue # built before it was moved
		echo "$(level_of "$at") $at/$source $object"
	done | symbols
}

# Print "caller -> function" for each call to a higher folder.
upward() {
	awk '
		$3 == "T" { level[$4] = $1 }
		$3 == "U" { n++; from[n] = $1; who[n] = $2; what[n] = $4 }
		END {
			for (i = 1; i <= n; i++)
				if (what[i] in level && level[what[i]] > from[i])
					print who[i] " -> " what[i]
		}' | sort
}

# Likewise of lib/model, all on one level.
model_symbols() {
	cd "${abs_top_builddir:?}/lib/model" || exit
	for object in .libs/*.o */.libs/*.o; do
		source=$(echo "$object" | sed 's,\.libs/,,; s,o$,c,')
		[ -f "$abs_top_srcdir/lib/model/$source" ] || continue
		echo "0 ${source%/*} $object"
	done | symbols
}

# The files of each cycle of calls, one cycle a line.
cycles() {
	awk '
		$3 == "T" { home[$4] = $2 }
		$3 == "U" { n++; who[n] = $2; what[n] = $4 }
		END {
			for (i = 1; i <= n; i++)
				if (what[i] in home && home[what[i]] != who[i])
					print who[i], home[what[i]]
		}' | sort -u | tsort 2>&1 >/dev/null |
		sed 's/^tsort: //' | awk '
			/input contains a loop/ { if (line) print line; line = ""; next }
			{ line = line " " $1 }
			END { if (line) print line }'
}

# Functions of the planner in gpumapd.
planning() {
	"${NM:-nm}" "$abs_top_builddir/agent/daemon/gpumapd" |
		grep -Eo 'gm_(auto|cluster_fit|isq|kv|pipeline|place|plan|spec|topology)_[a-z_]+$'
}

# Tags that are defined more than once.
doubles() {
	find shm lib agent -name '*.[ch]' -exec \
		sed -nE 's/^(struct|enum|union) (gm_[a-z0-9_]+) \{$/\2/p' {} + |
		sort | uniq -d
}

# "d HEADER FUNCTION" for what a header declares, "f SOURCE FUNCTION" for what a
# source defines.
homes() {
	find shm lib agent -name '*.[ch]' -exec awk '
		FNR == 1 { name = ""; commented = 0 }
		{
			line = $0
			if (commented && !sub(/^.*\*\//, "", line))
				next
			commented = 0
			gsub(/\/\*([^*]|\*+[^*\/])*\*+\//, "", line)
			commented = sub(/\/\*.*/, "", line)
		}
		line ~ /^[a-z].*[ *]gm_[a-z0-9_]+\(/ &&
		line !~ /^(static|typedef|return|extern)/ {
			match(line, /gm_[a-z0-9_]+\(/)
			name = substr(line, RSTART, RLENGTH - 1)
		}
		name && line ~ /;[ \t]*$/ { print "d", FILENAME, name; name = "" }
		name && line ~ /^\{/ { print "f", FILENAME, name; name = "" }' {} +
}

# Print functions that are defined twice, or declared where they do not belong.
astray() {
	homes | awk '
		function folder(f) { sub(/\/[^\/]*$/, "", f); return f }
		function stem(f) { sub(/^.*\//, "", f); sub(/\..*/, "", f); return f }
		function module(f) { f = stem(f); sub(/_.*/, "", f); return f }
		$1 == "f" {
			if ($3 in home && home[$3] != $2)
				print $3 " is in " home[$3] " and in " $2
			home[$3] = $2
			has[folder($2) "/" stem($2)] = 1
		}
		$1 == "d" { n++; header[n] = $2; name[n] = $3 }
		END {
			for (i = 1; i <= n; i++) {
				h = header[i]
				c = home[name[i]]
				if (folder(h) == folder(c) &&
				    (module(h) == module(c) ||
				     stem(h) == stem(folder(h)) ||
				     !(folder(h) "/" stem(h) in has)))
					continue
				print h " declares " name[i] \
					(c ? " of " c : ", which has no source")
			}
		}'
}

# Print functions whose name does not say in which file they are, and sources
# that only a plural tells apart.  Words are compared by their first four
# letters; a struct whose functions are in a file of another name is in owned.
strange_names() {
	homes | awk '
		function singular(w) { sub(/s$/, "", w); return w }
		BEGIN {
			split("weights:cache weights:checkpoint weights:config " \
			      "weights:gguf weights:header weights:index " \
			      "weights:layers weights:sizes weights:types " \
			      "reason:checkpoint link:control " \
			      "call:control map:attach map:fork_guard " \
			      "map:publish size:errors part:comm op:submit " \
			      "pair:submit waits:submit tiles:wait why:refusal " \
			      "timer:loop exit:daemon deferred:retry_queue " \
			      "bounce:peer_mapping quote:log busy:peer op:task " \
			      "object:layout budget:score time:dependency " \
			      "wakeup:dependency buffer:handle_check " \
			      "client:submit client:buffers job:submit " \
			      "map:control map:refusal", pair, " ")
			for (i in pair) {
				split(pair[i], half, ":")
				owned[singular(half[1]), half[2]] = 1
			}
		}
		$1 == "f" && $2 ~ /\.c$/ {
			n++
			source[n] = $2
			name[n] = $3
			folder = $2
			sub(/\/[^\/]*$/, "", folder)
			stem = substr($2, length(folder) + 2)
			sub(/\.c$/, "", stem)
			beside[folder, singular(stem)] = 1
			if ((folder, singular(stem)) in first &&
			    first[folder, singular(stem)] != $2)
				print $2 " and " first[folder, singular(stem)]
			first[folder, singular(stem)] = $2
		}
		END {
			for (i = 1; i <= n; i++) {
				split(name[i], word, "_")
				w = singular(word[2])
				folder = source[i]
				sub(/\/[^\/]*$/, "", folder)
				stem = substr(source[i], length(folder) + 2)
				sub(/\.c$/, "", stem)
				if ((w, stem) in owned ||
				    (folder, w) in beside)
					continue
				m = split(source[i], part, /[\/_.]/)
				for (j = 1; j <= m; j++)
					if (index(part[j], substr(w, 1, 4)) == 1)
						break
				if (j > m)
					print source[i] ": " name[i]
			}
		}'
}

# Functions of more than six parameters: more than that is a struct.
long_lists() {
	find shm lib agent -name '*.c' -exec awk '
		FNR == 1 { head = "" }
		/^[a-z_].*\(/ && !/[;=]/ { head = $0; next }
		/^\{/ && head != "" {
			inside = head
			sub(/^[^(]*\(/, "", inside)
			while (gsub(/\([^()]*\)/, "", inside))
				;
			if (gsub(/,/, "", inside) > 5 &&
			    head !~ /[ *]gpumap_[a-z_]*\(/ &&
			    head !~ /struct MHD_Connection/)
				print FILENAME ":" FNR
			head = ""
		}
		head != "" { head = head $0 }
		/;/ { head = "" }' {} +
}

if [ ! -d "${abs_top_builddir:?}/agent/daemon/base/.libs" ]; then
	skip "no call goes upward" "the daemon was not built here"
else
	(daemon_symbols) >"$folder/daemon"
	check "no call goes upward" "$(upward <"$folder/daemon")"
	check "no files call in a circle" "$(cycles <"$folder/daemon")"
	check "gpumapd does not plan" "$(planning)"
fi
check "no files of lib/model call in a circle" \
	"$( (model_symbols) | cycles)"
check "no tag has two meanings" "$(doubles)"
check "functions are declared where they belong" "$(astray)"
check "functions have the names of their files" "$(strange_names)"
check "no function has more than six parameters" "$(long_lists)"
tap_done
