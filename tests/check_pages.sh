#!/bin/sh
# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# The pages of the programs have what these say of themselves, and nothing
# else: commands and options, keys of the configuration and what each may be,
# exit statuses, events of the log with their keys.  Each page can be read.

. "${abs_top_srcdir:?run me by make check}/tests/tap.sh"
cd "$abs_top_srcdir" || exit 1

ctl=agent/gpumapctl.1.scd
run=agent/gpumapctl-run.1.scd
cluster=agent/gpumapctl-cluster.1.scd
daemon=agent/gpumapd.8.scd
sync=agent/gpumap-sync.8.scd

if [ ! -x "$GPUMAPD" ] || [ ! -x "$GPUMAPCTL" ]; then
	skip "the pages of the programs" "there are no programs in this build"
	tap_done
fi

# differences WHAT SAID SHOWN - lines that are on one of two lists only.
differences() {
	[ -n "$2" ] || echo "no $1 is known to the program"
	{
		echo "$2" | sed 's/^/said /'
		echo "$3" | sed 's/^/shown /'
	} | awk -v what="$1" '
		{ list = $1; sub(/^[a-z]+ ?/, ""); n[$0, list]++; all[$0] }
		END {
			for (line in all) {
				if (line == "")
					continue
				if (!n[line, "shown"])
					print what " " line ": not on the page"
				else if (!n[line, "said"])
					print what " " line ": only on the page"
				else if (n[line, "shown"] > 1)
					print what " " line ": twice on the page"
			}
		}' | sort
}

# section NAME PAGE - the lines of one section, without emphasis.
section() {
	awk -v name="# $1" '/^# / { on = $0 == name; next } on' "$2" |
		sed -e 's/[*\\]//g' -e 's/\(^\|[^A-Za-z0-9]\)_/\1/g' \
			-e 's/_\([^A-Za-z0-9]\|$\)/\1/g'
}

# options FILE - the long options in a getopt table, or in one of ours.
options() {
	sed -n -e 's/^\t*{ "\([a-z-]*\)", [a-z]*_argument,.*/--\1/p' \
		-e 's/^OPTION([A-Z_0-9]*, "\([a-z-]*\)", .*/--\1/p' "$1"
}

words='--[a-z][a-z-]*'

check "gpumapctl(1) has each command with its operands" "$(
	differences command \
		"$("$GPUMAPCTL" --help | sed -n 's/^  \([a-z].*[^ ]\) *$/\1/p')" \
		"$(section COMMANDS $ctl | grep '^[a-z]')")"
check "gpumapctl(1) has each option" "$(
	differences option "$(options agent/ctl/options.h)" "$(
		section OPTIONS $ctl | grep '^--' | grep -o -e "$words"
		section COMMANDS $ctl | grep '^[a-z]' |
			grep -o -e "$words" | sort -u)")"
# Two files write the words of engines.
messages=$(find agent/ctl -name '*.c' ! -name plan_nodes_ranks.c \
	! -name run_environment.c)
# shellcheck disable=SC2086 # a list of names
check "gpumapctl's messages name options that it has" "$(
	sed 's,/\*.*,,' $messages | grep -o '"[^"]*"' | grep -o -e "$words" |
		sort -u | grep -vxF -e "$(options agent/ctl/options.h)")"
check "gpumapd(8) has each option" "$(
	differences option "$(options agent/daemon/main.c)" \
		"$(section OPTIONS $daemon | grep '^--' | grep -o -e "$words")")"
check "gpumapd --help has each option" "$(
	differences option "$(options agent/daemon/main.c)" \
		"$("$GPUMAPD" --help | grep '^  --' | grep -o -e "$words")")"
if "$GPUMAP_SYNC" --version >/dev/null 2>&1; then
	has_sync=true
	check "gpumap-sync(8) has each option" "$(
		differences option "$("$GPUMAP_SYNC" --help | grep '^  --' |
			grep -o -e "$words")" "$(
			section OPTIONS $sync | grep '^--' | grep -o -e "$words")")"
else
	has_sync=false
	skip "the pages of gpumap-sync" "there is no gpumap-sync in this build"
fi

# named HELP LOG - whether both name one configuration, the default.
named() {
	[ -n "$1" ] || echo "--help names no configuration"
	[ "$1" = "$2" ] || echo "the log names '$2', and --help '$1'"
}

# The start ends behind the line, for want of a folder.
check "gpumapd names the configuration that --help names" "$(named \
	"$("$GPUMAPD" --help | sed -n 's,^  *\(/.*/gpumapd\.conf\))$,\1,p')" \
	"$("$GPUMAPD" --runtime-dir /proc/none 2>&1 |
		sed -n 's/.*event=config path="\(.*\)" files=[0-9]*$/\1/p')")"

# statuses FILE - the values of the GM_EXIT_ and GM_RUN_ constants.
statuses() {
	sed -n 's/^\tGM_\(EXIT\|RUN\)_[A-Z_]* = \([0-9]*\).*/\2/p' "$1"
}

check "gpumapctl(1) has each exit status" "$(
	differences status "$(statuses agent/ctl/ctl.h)" \
		"$(section 'EXIT STATUS' $ctl | sed -n 's/^[[|]*  *\([0-9]\)$/\1/p')")"
check "gpumapctl-run(1) has each exit status, and three of gpumapctl(1)" "$(
	differences status "$(echo 1; echo 2; echo 3; statuses agent/ctl/run/run.h)" \
		"$(section 'EXIT STATUS' $run | sed -n 's/^[[|]*  *\([0-9]*\)$/\1/p')")"
check "gpumapctl-run(1) has each option of run" "$(
	differences option "$(section COMMANDS $ctl | grep '^run ' |
		grep -o -e "$words")" "$(
		section OPTIONS $run | grep '^--[a-z-]*\( [A-Z]\| [a-z|]*\)\?' |
			grep -v ' and \|^--json' | grep -o -e "$words")")"
check "gpumapctl-cluster(1) has each option of cluster" "$(
	differences option "$(section COMMANDS $ctl | grep '^cluster ' |
		grep -o -e "$words" | sort -u)" "$(
		section OPTIONS $cluster | grep '^--[a-z-]*' |
			grep -v '^--instance' | grep -o -e "$words")")"
check "gpumapd(8) has each exit status" "$(
	differences status "$(statuses agent/daemon/daemon.h)" \
		"$(section 'EXIT STATUS' $daemon |
			sed -n 's/^[[|]*  *\([0-9]\)$/\1/p')")"

# The paths carry the layout's major version.
major=$(sed -n 's/^#define GM_LAYOUT_MAJOR *\([0-9]*\)u$/\1/p' shm/layout.h)
check "pages name files of the layout's major version" "$(
	[ -n "$major" ] || echo "shm/layout.h has no GM_LAYOUT_MAJOR"
	grep -n 'gpumap\.[0-9]*\.uid' README.md agent/*.md agent/*.scd \
		lib/*.scd shm/*.scd | grep -v "gpumap\.$major\.uid")"

# ---- the log ----------------------------------------------------------------

# pairs - "EVENT" and "EVENT KEY" of lines "EVENT KEY...".
pairs() {
	awk '{ print $1; for (i = 2; i <= NF; i++) print $1, $i }' | sort -u
}

# events FILE... - "EVENT KEY..." for whatever these log.
# shellcheck disable=SC2317 # check_log calls it by its name
events() {
	awk 'BEGIN { RS = ";" }
		function keys(text,   list) {
			while (match(text, /[a-z_]+=/)) {
				list = list " " substr(text, RSTART, RLENGTH - 1)
				text = substr(text, RSTART + RLENGTH)
			}
			return list
		}
		match($0, /gm_log(_of)?\(/) {
			text = substr($0, RSTART)
			if (text ~ /^gm_log_of/)
				sub(/[^,]*,/, "", text)
			sub(/[^,]*,/, "", text)
			event = substr(text, 1, index(text, ",") - 1)
			known = keys(text)
			while (match(event, /"[a-z_]+"/)) {
				print substr(event, RSTART + 1, RLENGTH - 2) \
					known
				event = substr(event, RSTART + RLENGTH)
			}
		}
		match($0, /[ \t]failed\([ \n\t]*"[a-z_]+",/) {
			text = substr($0, RSTART, RLENGTH)
			sub(/[^"]*"/, "", text)
			sub(/".*/, "", text)
			print text " why"
		}' "$@"
}

# python_events FILE... - the same for files in Python: log.warning("EVENT",
# KEY=...), and where a user is behind it log.warning_of(UID, "EVENT", KEY=...).
# An event may be a variable, whose words stand in the lines before.
# shellcheck disable=SC2317
python_events() {
	${TOOL_PYTHON:?run me by make check} - "$@" <<-'END'
		import ast
		import sys

		def words(node, assigned):
		    if isinstance(node, ast.Name):
		        node = assigned[node.id]
		    return [
		        one.value
		        for one in ast.walk(node)
		        if isinstance(one, ast.Constant) and type(one.value) is str
		    ]

		for path in sys.argv[1:]:
		    with open(path, encoding="utf-8") as file:
		        tree = ast.parse(file.read(), path)
		    assigned = {
		        target.id: node.value
		        for node in ast.walk(tree)
		        if isinstance(node, ast.Assign)
		        for target in node.targets
		        if isinstance(target, ast.Name)
		    }
		    for node in ast.walk(tree):
		        if (
		            not isinstance(node, ast.Call)
		            or not isinstance(node.func, ast.Attribute)
		            or not isinstance(node.func.value, ast.Name)
		            or node.func.value.id != "log"
		        ):
		            continue
		        event = node.args[node.func.attr.endswith("_of")]
		        keys = [one.arg or "?" for one in node.keywords]
		        for word in words(event, assigned):
		            print(word, *keys)
	END
}

# check_log PAGE LIST FILE... - the chapter about the log of a program of these
# files, whose events LIST has.
check_log() {
	page=$1
	list=$2
	shift 2
	check "$(basename "$page" .scd) has each event with its keys" "$(
		differences event "$("$list" "$@" | pairs)" "$(
			awk '/^# / { on = $0 == "# LOG"; next } on' "$page" |
				sed -n -e 's/++$//' \
					-e 's/^\*\([a-z_]*\)\*/\1/p' |
				pairs)")"
}

check_log $daemon events agent/daemon/*.c agent/daemon/*/*.c agent/worker/*.c \
	agent/worker/*/*.c agent/device/*.c agent/probe/*.c
! $has_sync || check_log $sync python_events contrib/python/gpumap/tools/sync*.py

# ---- the configuration ------------------------------------------------------

file=$(mktemp "${TMPDIR:-/tmp}/gpumap-pages.XXXXXX") || exit 99
trap 'rm -f "$file"' EXIT

# complaint TEXT - what $program says of a configuration that is wrong.
complaint() {
	printf '%b\n' "$1" >"$file"
	"$program" --config "$file" 2>&1 | sed -n 's/.*why="\(.*\)"$/\1/p'
}

# keys_of SECTION NAME - "[NAME] KEY" for each key that a section may have.
keys_of() {
	complaint "$1\n? = 1" | sed 's/.*: it has //; s/, /\n/g' |
		sed "s/^/[$2] /"
}

# "[SECTION] KEY", as the program lists them when it is asked for others.
said_keys() {
	complaint '[?]' | sed 's/.*: there are //
		s/, map NAME and model NAME$//; s/, /\n/g' |
		while read -r name; do
			keys_of "[$name]" "$name"
		done
	[ "$program" = "$GPUMAPD" ] || return 0
	keys_of '[map m]' 'map NAME'
	keys_of '[model m]' 'model NAME'
}

# "[SECTION] KEY = FORM", as the page has them.
shown_forms() {
	section SECTIONS "$page" | awk '
		/^## / { name = substr($0, 4) }
		/^[a-z-]+ = / { print name " " $0 }'
}

# A wrong value is answered with the values that the key may have.
wrong_forms() {
	echo "$keys" | grep -v -e '^\[map NAME\] spec$' \
		-e '^\[model NAME\] map$' | while read -r key; do
		name=${key##* }
		text=$(echo "${key% *}" | sed 's/NAME/m/')
		right=$(complaint "$text\n$name = ? ?" | sed 's/.* = ? ?: //')
		shown_forms | grep -qxF -e "$key = $right" \
			-e "$key = ${right%%, as [0-9]*}" ||
			echo "$key: the page does not say $right"
	done
}

# The last line alone is wrong, also with each default that the file has.
refused_defaults() {
	for change in '' 's/^#\([a-z-]* = .\)/\1/'; do
		{
			sed "$change" "$whole"
			echo '[?]'
		} >"$file"
		said=$("$program" --config "$file" 2>&1)
		case $said in
		*"$file:$(wc -l <"$file"): no section"*) ;;
		*) echo "$said" ;;
		esac
	done
}

# check_conf PROGRAM PAGE - the page about the program's configuration, and the
# configuration that is made from it.
check_conf() {
	program=$1
	page=$2
	whole=${abs_top_builddir:-.}/${page%.5.scd}
	conf=${whole##*/}
	keys=$(said_keys)
	check "$conf(5) has each key" "$(
		differences key "$keys" "$(shown_forms | sed 's/ = .*//')")"
	check "$conf(5) says of each what it may be" "$(wrong_forms)"
	check "$conf has each key, commented" "$(
		differences key "$keys" "$(awk '
			/^#?\[/ { sub(/^#/, ""); section = $0 }
			/^#[a-z]/ { print section " " substr($1, 2) }' \
			"$whole")")"
	check "$conf sets nothing" "$(
		grep -v -e '^#' -e '^\[.*\]$' -e '^$' "$whole")"
	check "$conf is taken, and each default in it" "$(refused_defaults)"
}

check_conf "$GPUMAPD" agent/gpumapd.conf.5.scd
! $has_sync || check_conf "$GPUMAP_SYNC" agent/gpumap-sync.conf.5.scd

# The pages as they were built; a tarball brings them.
built=$(find agent contrib lib shm -name '*.scd' | while IFS= read -r page; do
	for page in "${abs_top_builddir:-.}/${page%.scd}" "${page%.scd}"; do
		[ ! -f "$page" ] || echo "$page"
	done
done | sort -u)
if [ -z "$built" ] || ! command -v nroff >/dev/null; then
	skip "pages are formatted" "no pages were built, or there is no nroff"
else
	# shellcheck disable=SC2086 # no page has a blank in its name
	check "names of more than one part stay on one line" "$(awk '
		/^\.TH / { getline; if ($0 != ".nh") print FILENAME }' $built)"
	# No line is stretched, as the pages say themselves outside of tables.
	check "each page fits a terminal" "$(for page in $built; do
		nroff -t -man -Tutf8 -rLL=78n -dAD=l "$page" 2>&1 >/dev/null |
			sed "s,^,$page: ,"
	done)"
fi
tap_done
