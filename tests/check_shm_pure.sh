#!/bin/sh
# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# shm/ calls nothing: that is how "readers never enter the kernel" stays true.

. "${abs_top_srcdir:?run me by make check}/tests/tap.sh"

archive=${abs_top_builddir:?}/shm/.libs/libshm.a

# The functions of memory that a compiler may call for an assignment or a loop,
# with their hardened names, and the 128-bit division of libgcc.
allowed='strlen|memcpy|memset|memcmp|bcmp|memmove|__mem(cpy|set|move)_chk'
allowed="$allowed|__stack_chk_fail|_GLOBAL_OFFSET_TABLE_|__u(div|mod)ti3"

wanted_elsewhere() {
	symbols=$("${NM:-nm}" -A "$archive") || {
		echo "cannot read $archive"
		return
	}
	echo "$symbols" | awk -v allowed="^($allowed)\$" '
		{ name = $NF; kind = $(NF - 1); file = $1 }
		kind == "U" { users[name] = users[name] " " file }
		kind ~ /^[A-TV-Z]$/ { defined[name] = 1 }
		END {
			for (name in users)
				if (!(name in defined) && name !~ allowed)
					print name " wanted by" users[name]
		}'
}

if [ -n "$GM_BUILD" ]; then
	skip "shm needs nothing but memory functions" "build is $GM_BUILD"
elif [ -z "$("${NM:-nm}" "$archive" 2>/dev/null)" ]; then
	skip "shm needs nothing but memory functions" "no code in shm yet"
else
	check "shm needs nothing but memory functions" "$(wanted_elsewhere)"
fi
tap_done
