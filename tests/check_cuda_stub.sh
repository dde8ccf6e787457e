#!/bin/sh
# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# tests/stubs/cuda.h against the toolkit's <cuda.h>: the same numbers, the same
# layouts, and entry points that take the same.
#
# A program that prints all of it is made of the stub's own words, compiled
# with one header and with the other, and both prints compared.  Signatures
# cannot be printed: the stand-in driver defines every entry point, and is
# compiled against both.

. "${abs_top_srcdir:?run me by make check}/tests/tap.sh"
cd "$abs_top_srcdir" || exit 1

work=$(mktemp -d "${TMPDIR:-/tmp}/gpumap-stub.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT

# compile FLAG... - as the tests are, with either header.
compile() {
	# shellcheck disable=SC2086 # CC may carry flags
	${CC:-cc} -std=gnu11 -D_GNU_SOURCE -I. -Iinclude "$@"
}
stub=-DGM_STUB_CUDA
# shellcheck disable=SC2086 # flags
toolkit() {
	compile -DHAVE_CUDA_H $CUDA_CPPFLAGS "$@"
}

numbers() {
	grep -ohE 'CU(DA)?_[A-Z0-9_]+ =' tests/stubs/cuda.h | tr -d ' ='
}

layouts() {
	cat <<-'EOF'
		sizeof(CUdevice)
		sizeof(CUdeviceptr)
		sizeof(CUmemGenericAllocationHandle)
		sizeof(CUresult)
		sizeof(CUuuid)
		sizeof(CUipcMemHandle)
		sizeof(CUmemLocation)
		sizeof(CUmemAllocationProp)
		offsetof(CUmemAllocationProp, requestedHandleTypes)
		offsetof(CUmemAllocationProp, location)
		offsetof(CUmemAllocationProp, win32HandleMetaData)
		offsetof(CUmemAllocationProp, allocFlags)
		sizeof(CUmemAccessDesc)
		offsetof(CUmemAccessDesc, flags)
		sizeof(CUstreamBatchMemOpParams)
		offsetof(CUstreamBatchMemOpParams, waitValue.address)
		offsetof(CUstreamBatchMemOpParams, waitValue.value64)
		offsetof(CUstreamBatchMemOpParams, waitValue.flags)
		offsetof(CUstreamBatchMemOpParams, writeValue.address)
		offsetof(CUstreamBatchMemOpParams, writeValue.value)
		offsetof(CUstreamBatchMemOpParams, writeValue.value64)
		offsetof(CUstreamBatchMemOpParams, writeValue.flags)
		sizeof(CUmemcpyAttributes)
		offsetof(CUmemcpyAttributes, srcLocHint)
		offsetof(CUmemcpyAttributes, dstLocHint)
		offsetof(CUmemcpyAttributes, flags)
		sizeof(CUlaunchConfig)
		offsetof(CUlaunchConfig, blockDimX)
		offsetof(CUlaunchConfig, sharedMemBytes)
		offsetof(CUlaunchConfig, hStream)
		offsetof(CUlaunchConfig, attrs)
		offsetof(CUlaunchConfig, numAttrs)
		(uintptr_t)CU_STREAM_LEGACY
		(uintptr_t)CU_STREAM_PER_THREAD
		(uintptr_t)CU_LAUNCH_PARAM_BUFFER_POINTER
		(uintptr_t)CU_LAUNCH_PARAM_BUFFER_SIZE
	EOF
}

program() {
	printf '#include <stddef.h>\n#include <stdio.h>\n'
	printf '#include "tests/support/cuda_abi.h"\nint main(void)\n{\n'
	{
		numbers
		layouts
	} | while IFS= read -r what; do
		printf '\tprintf("%%s = %%lld\\n", "%s", (long long)(%s));\n' \
			"$what" "$what"
	done
	printf '\treturn 0;\n}\n'
}

# Print what a compiler says against any of the stand-in driver's sources.
objections() {
	for source in tests/fake/*.c; do
		case $source in
		*/nvml*.c | */machine.c | */stand_in.c | */linger.c | */extra*.c) continue ;;
		esac
		"$@" -Wall -Wextra -Wno-unused-parameter -Werror \
			-Wmissing-prototypes -fsyntax-only "$source" 2>&1
	done
}

check "the stand-in compiles with the stub" "$(objections compile $stub)"

program >"$work/print.c"
said=$(compile $stub "$work/print.c" -o "$work/stub" 2>&1)
check "the stub has all that it names" "$said"

if ! echo '#include <cuda.h>' | toolkit -fsyntax-only -x c - 2>/dev/null; then
	skip "the stub agrees with the toolkit" "no <cuda.h>"
	skip "the stand-in compiles with the toolkit" "no <cuda.h>"
	tap_done
fi

said=$(toolkit "$work/print.c" -o "$work/toolkit" 2>&1)
if check "the toolkit has all that the stub names" "$said"; then
	"$work/stub" >"$work/ours"
	"$work/toolkit" >"$work/theirs"
	check "the stub agrees with the toolkit" \
		"$(diff "$work/ours" "$work/theirs")"
	check "and on more than a hundred things" \
		"$([ "$(wc -l <"$work/ours")" -gt 100 ] || echo fewer)"
fi
check "the stand-in compiles with the toolkit" "$(objections toolkit)"

tap_done
