#!/bin/sh
# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# AppArmor's parser takes the profiles, and the programs that gpumapd starts may
# nothing that gpumapd may not: they have its profile besides theirs.

. "${abs_top_srcdir:?run me by make check}/tests/tap.sh"

profiles=${abs_top_builddir:-.}/contrib/apparmor/gpumapd
if [ ! -f "$profiles" ]; then
	skip "AppArmor's profiles" "there are no programs in this build"
	tap_done
fi
PATH=$PATH:/usr/sbin:/sbin
parsed=$(mktemp "${TMPDIR:-/tmp}/gpumap-apparmor.XXXXXX") || exit 99
trap 'rm -f "$parsed"' EXIT

check "each place has a path" "$(grep -n '@[a-z]*@' "$profiles")"
if program=$(command -v apparmor_parser); then
	# A package that was unpacked elsewhere has its rules beside it, and a
	# configuration that is of no use there.
	conf=/etc/apparmor/parser.conf base=/etc/apparmor.d
	for etc in "${program%/*}/../etc" "${program%/*}/../../etc"; do
		[ -d "$base/abi" ] || [ ! -d "$etc/apparmor.d/abi" ] || {
			conf=/dev/null
			base=$etc/apparmor.d
		}
	done
	parse() {
		apparmor_parser --skip-kernel-load --skip-cache \
			--config-file "$conf" --base "$base" "$@" "$profiles"
	}
	parse --names 2>/dev/null | sort >"$parsed"
	check "the parser finds three profiles" "$(
		printf '%s\n' gpumap-probe gpumap-worker gpumapd |
			diff - "$parsed")"
	# Without AppArmor in the kernel the parser speaks of a cache.
	parse --stdout 2>"$parsed" >/dev/null
	status=$?
	check "and takes them without a warning" "$(
		[ $status -eq 0 ] || echo "status $status"
		grep -v '^Cache read/write disabled: ' "$parsed")"
else
	skip "the parser finds three profiles" "there is no apparmor_parser"
	skip "and takes them without a warning" "there is no apparmor_parser"
fi

# rules PROFILE - its rules, of files the paths.
rules() {
	awk -v name="$1" '
		$1 == "profile" { on = $2 == name }
		on && /^\t[^#]/ {
			sub(/,$/, "")
			print $1 ~ /^["@\/]/ ? $1 : $1 == "owner" ? $2 : $0
		}' "$profiles"
}

check "gpumapd may what they may" "$(
	for program in gpumap-worker gpumap-probe; do
		rules $program | while IFS= read -r rule; do
			rules gpumapd | grep -qxF -e "$rule" || echo "$rule"
		done
	done)"
tap_done
