#!/bin/sh
# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# Check which folder includes headers of which other, and that each header
# compiles alone.

. "${abs_top_srcdir:?run me by make check}/tests/tap.sh"
cd "$abs_top_srcdir" || exit 1

# The folders that the sources in folder $1 may include from, with what is below
# them, and single headers of others: gpumapd knows the driver's numbers, and
# never calls it.
may_include() {
	case $1 in
	include) echo include ;;
	shm) echo include shm ;;
	lib) echo include shm "$(echo lib/*.h)" ;;
	lib/model) echo include shm lib/private.h lib/cuda_visible_devices.h \
		lib/model ;;
	lib/model/checkpoint) echo include shm/layer_name.h \
		lib/model/checkpoint ;;
	lib/model/plan) echo include shm lib/model/checkpoint lib/model/plan ;;
	agent/files) echo include shm lib/model/plan agent/files ;;
	agent/mask) echo include shm lib/model/checkpoint lib/model/plan agent/files \
		agent/mask ;;
	agent/mesh) echo include agent/mesh lib/model/plan/error.h lib/model/plan/number.h ;;
	agent/common) echo include shm agent/common ;;
	agent/cuda) echo include shm agent/common agent/cuda ;;
	agent/device) echo include shm agent/common agent/cuda \
		agent/device ;;
	agent/comm) echo include shm agent/common agent/device agent/comm ;;
	agent/daemon) echo include shm agent/common lib/model/plan agent/files \
		agent/mask agent/mesh agent/daemon agent/comm/comm_shm.h \
		agent/cuda/cuerror.h \
		agent/cuda/nvml.h ;;
	agent/probe) echo include shm agent/common agent/cuda agent/probe \
		agent/device/gpu.h agent/device/opencl.h \
		agent/device/vulkan.h ;;
	agent/worker) echo include shm agent/common agent/cuda agent/device \
		agent/comm agent/worker ;;
	agent/reader) echo include agent/reader ;;
	contrib/python/core) echo include contrib/python/core ;;
	agent/ctl) echo include shm lib/model/checkpoint lib/model/plan \
		agent/files agent/mask agent/mesh agent/reader agent/common/idset.h \
		agent/common/manager.h agent/common/numa_bind.h \
		agent/common/text.h agent/ctl ;;
	esac
}

# Print "file: header" for each header of ours that a source in $1 includes.
# lib/model is on top of lib.
our_includes() {
	find "$1" -path lib/model ! -path "$1" -prune -o -name '*.[ch]' -exec \
		grep -HoE '^[ 	]*#[ 	]*include[ 	]+("[^"]+"|<gpumap[^>]*>)' \
		{} + 2>/dev/null |
		sed -E 's/:[ \t]*#[ \t]*include[ \t]+["<]([^">]+)[">]/: \1/'
}

# The path from the root of header $2, which a source in folder $1 includes.
path_of() {
	case $2 in
	*..*) echo "a path with .." ;;
	gpumap.h | gpumap/*) echo "include/$2" ;;
	*/*) echo "$2" ;;
	*) echo "$1/$2" ;; # beside the source
	esac
}

wrong_includes() {
	allowed=$(may_include "$1")
	our_includes "$1" | while IFS= read -r line; do
		file=${line%%: *}
		path=$(path_of "$1" "${line#*: }")
		for place in $allowed; do
			case $path in
			"$place" | "$place"/*) continue 2 ;;
			esac
		done
		echo "$file includes $path"
	done
}

for folder in include shm lib lib/model lib/model/checkpoint lib/model/plan \
	agent/*/ contrib/python/core; do
	folder=${folder%/}
	if [ -z "$(find "$folder" -name '*.[ch]' 2>/dev/null)" ]; then
		skip "$folder includes only what it may" "no source yet"
	elif [ -z "$(may_include "$folder")" ]; then
		check "$folder has its place in the order" \
			"add it to may_include in tests/check_headers.sh"
	else
		check "$folder includes only what it may" \
			"$(wrong_includes "$folder")"
	fi
done

# alone HEADER COMPILER FLAG... - compile a file of nothing but HEADER, twice
# included.
alone() {
	header=$1
	shift
	printf '#include "%s"\n#include "%s"\n' "$header" "$header" |
		"$@" -Wall -Wextra -Werror -fsyntax-only -I. -Iinclude - 2>&1
}

# A header for users of another package is checked where that package is.
foreign_header_of() {
	case $1 in
	include/gpumap/uring.h) echo liburing.h ;;
	include/gpumap/cuda.h) echo cuda.h ;;
	esac
}

# NCCL's own header needs CUDA's as well, so our stub stands for it.
stubs_for() {
	case $1 in
	include/gpumap/nccl.h) echo -D_GNU_SOURCE -Itests/stubs ;;
	esac
}

have_header() {
	echo "#include <$1>" | ${CC:-cc} -fsyntax-only -x c - 2>/dev/null
}

first_of() {
	for program; do
		command -v "$program" && return
	done
}

# Where a 64-bit atomic load is not one instruction, views must not compile.
no_loads() {
	# shellcheck disable=SC2086 # CC may carry flags
	echo '#include <gpumap/view.h>' | ${CC:-cc} -Iinclude -fsyntax-only \
		-U__GCC_ATOMIC_LLONG_LOCK_FREE \
		-D__GCC_ATOMIC_LLONG_LOCK_FREE=1 -x c - 2>&1 |
		grep -q 'error.*64-bit atomic loads' || echo "it compiles"
}

check "views need 64-bit loads without a lock" "$(no_loads)"

cxx=$(first_of "${CXX:-c++}" g++ clang++)
for header in include/*.h include/gpumap/*.h; do
	[ -f "$header" ] || continue
	foreign=$(foreign_header_of "$header")
	if [ -n "$foreign" ] && ! have_header "$foreign"; then
		skip "$header alone" "no $foreign"
		continue
	fi
	# liburing's own header wants what GNU adds.
	gnu="${foreign:+-D_GNU_SOURCE} $(stubs_for "$header")"
	# shellcheck disable=SC2086 # CC may carry flags
	check "$header alone as C99" "$(alone "$header" ${CC:-cc} \
		-std=c99 $gnu -pedantic-errors -x c)"
	if [ -z "$cxx" ]; then
		skip "$header alone as C++11" "no C++ compiler"
	else
		# shellcheck disable=SC2086 # flags
		check "$header alone as C++11" "$(alone "$header" "$cxx" \
			-std=c++11 $gnu -pedantic-errors -x c++)"
	fi
done

# strict FLAG... - what a compiler of plain C99 complains of in nccl.h.
strict() {
	# shellcheck disable=SC2046,SC2086 # flags
	alone include/gpumap/nccl.h ${CC:-cc} -std=c99 "$@" \
		$(stubs_for include/gpumap/nccl.h) -x c
}
check "gpumap/nccl.h without POSIX' clocks says what it wants" \
	"$(strict | grep -q 'compile with -std=gnu11 or -D_POSIX_C' || strict)"
check "with them it is content" "$(strict -D_POSIX_C_SOURCE=200809L)"
for header in shm/*.h; do
	# shellcheck disable=SC2086
	check "$header alone as gnu11" \
		"$(alone "$header" ${CC:-cc} -std=gnu11 -D_GNU_SOURCE -x c)"
done

tap_done
