#!/bin/sh
# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# tests/stubs/nccl.h against NCCL's own <nccl.h>: the same numbers and layouts,
# and entry points that take the same; and gpumap/nccl.h compiles with that, too.

. "${abs_top_srcdir:?run me by make check}/tests/tap.sh"
cd "$abs_top_srcdir" || exit 1

work=$(mktemp -d "${TMPDIR:-/tmp}/gpumap-nccl.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT

compile() {
	# shellcheck disable=SC2086 # CC and the flags may be several words
	${CC:-cc} -std=gnu11 -D_GNU_SOURCE -I. -Iinclude -Wall -Werror "$@" 2>&1
}
own() {
	# shellcheck disable=SC2086 # flags
	compile $CUDA_CPPFLAGS "$@"
}

numbers() {
	grep -oE 'nccl[A-Z][A-Za-z0-9]+ =' tests/stubs/nccl.h | tr -d ' ='
}

layouts() {
	cat <<-'END'
		sizeof(ncclUniqueId)
		NCCL_UNIQUE_ID_BYTES
		offsetof(ncclConfig_t, magic)
		offsetof(ncclConfig_t, version)
		offsetof(ncclConfig_t, blocking)
		offsetof(ncclConfig_t, maxCTAs)
		offsetof(ncclConfig_t, netName)
		offsetof(ncclConfig_t, splitShare)
		((ncclConfig_t)NCCL_CONFIG_INITIALIZER).magic
		((ncclConfig_t)NCCL_CONFIG_INITIALIZER).blocking
		((ncclConfig_t)NCCL_CONFIG_INITIALIZER).splitShare
	END
}

program() {
	printf '#include <stddef.h>\n#include <stdio.h>\n#include <nccl.h>\n'
	printf 'int main(void)\n{\n'
	{
		numbers
		layouts
	} | while IFS= read -r what; do
		printf '\tprintf("%%s = %%lld\\n", "%s", (long long)(%s));\n' \
			"$what" "$what"
	done
	printf '\treturn 0;\n}\n'
}

program >"$work/print.c"
check "the stub has all that it names" \
	"$(compile -Itests/stubs "$work/print.c" -o "$work/stub")"
if ! echo '#include <nccl.h>' | own -fsyntax-only -x c - >/dev/null; then
	skip "the stub agrees with NCCL" "no <nccl.h>"
	skip "gpumap/nccl.h compiles with NCCL's" "no <nccl.h>"
	tap_done
fi
said=$(own "$work/print.c" -o "$work/own")
[ -n "$said" ] || said=$("$work/stub" >"$work/a" && "$work/own" >"$work/b" &&
	diff "$work/a" "$work/b")
check "the stub agrees with NCCL" "$said"
check "gpumap/nccl.h compiles with NCCL's" \
	"$(echo '#include <gpumap/nccl.h>' | own -fsyntax-only -x c -)"
sed -n '/^ncclResult_t\|^const char/,/;/p' tests/stubs/nccl.h >"$work/calls"
{
	echo '#include <nccl.h>'
	cat "$work/calls"
} >"$work/calls.c"
check "entry points take the same" "$(own -fsyntax-only "$work/calls.c")"
tap_done
