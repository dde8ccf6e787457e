#!/bin/sh
# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# The examples of gpumap(3), gpumap-model(3) and the README's pieces of C compile: each by itself,
# or behind those before it, whose variables it goes on with.

. "${abs_top_srcdir:?run me by make check}/tests/tap.sh"
cd "$abs_top_srcdir" || exit 1

folder=$(mktemp -d "${TMPDIR:-/tmp}/gpumap-examples.XXXXXX") || exit 99
trap 'rm -rf "$folder"' EXIT

uring='#include <gpumap/uring.h>'
echo '#include <liburing.h>' |
	${CC:-cc} -D_GNU_SOURCE -fsyntax-only -x c - 2>/dev/null || uring=

# Declarations that the examples take for granted.
prelude() {
	cat <<-END
		#include <errno.h>
		#include <fcntl.h>
		#include <poll.h>
		#include <stdio.h>
		#include <stdlib.h>
		#include <string.h>
		#include <sys/epoll.h>
		#include <sys/mman.h>
		#include <unistd.h>
		#include <gpumap.h>
		#include <gpumap/cuda.h>
		#include <gpumap/model.h>
		#include <gpumap/nccl.h>
		$uring
		#define JOBS 1
		int example(struct gpumap *map, struct gpumap_session *session);
		int example(struct gpumap *map, struct gpumap_session *session)
		{
			struct gpumap_attach_opts opts = { .size = sizeof(opts) };
			struct gpumap_job job = { .op = GPUMAP_OP_NOP };
			struct gpumap_tensor t = { .size = sizeof(t) };
			struct gpumap_collective what = { .size = sizeof(what) };
			const struct gpumap_mask_view *view;
			struct gpumap_mask *mask;
			struct gpumap_comm *comm;
			struct gpumap_done $done;
			const char *manifest = "";
			uint64_t bytes = 1, part = 1, from = 0, number = 0, until = 0;
			uint64_t buffer, buffers[8];
			uint32_t row = 0, layer = 0, rank = 0, n_buffers = 8;
			struct pollfd fds[2];
			nfds_t n_fds = 2;
			CUstream stream = NULL;
			float *in = NULL, *out = NULL;
			int n = 1, n_ranks, result, ret = 0;
	END
	[ -z "$uring" ] || cat <<-END
		struct __kernel_timespec second = { .tv_sec = 1 };
		struct io_uring ring;
	END
}

# compiles FILE... - does a function of these parts, each within the last?
compiles() {
	{
		prelude
		for part; do
			echo "{"
			cat "$part"
		done
		for part; do echo "}"; done
		echo "return 0; }"
	} >"$folder/all.c"
	${CC:-cc} -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Werror -Wno-unused \
		-Wno-unused-parameter \
		-Iinclude -I. -Itests/stubs -fsyntax-only "$folder/all.c" 2>&1
}

# pieces PAGE - part the C of a page into 1.c, 2.c and so on.
pieces() {
	case $1 in
	*.md) awk -v to="$folder" '
		/^    (struct |gpumap_)/ && !open { open = ++n }
		!/^    / { open = 0 }
		open { print > (to "/" n ".c") }' "$1" ;;
	*) awk -v to="$folder" '
		/^```/ { open = !open; n += open; next }
		open { print > (to "/" n ".c") }' "$1" ;;
	esac
}

# shellcheck disable=SC2086 # names of ours, without blanks
for page in README.md lib/gpumap.3.scd lib/model/gpumap-model.3.scd; do
	rm -f "$folder"/*.c
	# One or many, whichever its examples take.
	case $page in
	*.md) done='done' ;;
	*) done='done[64]' ;;
	esac
	pieces $page
	before=
	n=1
	while [ -f "$folder/$n.c" ]; do
		name="$page, example $n"
		if [ -z "$uring" ] && grep -q gpumap_uring "$folder/$n.c"; then
			skip "$name" "no liburing.h"
		elif compiles "$folder/$n.c" >/dev/null; then
			before=$folder/$n.c
			check "$name" ""
		else
			check "$name" "$(compiles $before "$folder/$n.c")"
			before="$before $folder/$n.c"
		fi
		n=$((n + 1))
	done
	[ $n -gt 1 ] || check "$page has examples" "none was found"
done
tap_done
