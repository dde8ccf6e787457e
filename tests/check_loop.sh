#!/bin/sh
# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# Check the calls of gpumapd that take the lock of a file, or its position's.
#
# A client holds the locks of a file that it can write for as long as it likes:
# by a write() from a page that never arrives.  A process that waits for such a
# lock cannot be killed.  So each of these calls is about a file that no client
# can write, or that no client has yet.  A new call needs a line here, which
# says why it may be made.

. "${abs_top_srcdir:?run me by make check}/tests/tap.sh"
cd "$abs_top_srcdir/agent" || exit 1

calls="fallocate posix_fallocate ftruncate write pwrite writev pwritev lseek
fstat statx fchmod fchown futimens fsync fdatasync copy_file_range sendfile
splice eventfd_write F_ADD_SEALS"

# FILE CALL TIMES: the reason
allowed() {
	sed 's/:.*//' <<-'EOF'
	common/log.c write 1: standard error
	daemon/base/deferred_close.c eventfd_write 1: the process's own
	daemon/base/deferred_close.c fallocate 1: its threads may wait
	daemon/base/deferred_close.c fstat 1: its threads may wait
	daemon/base/io_thread.c eventfd_write 1: the process's own
	daemon/base/memfd.c lseek 1: a description of our own; its end, no lock
	daemon/base/session_memory.c F_ADD_SEALS 1: before a client has it
	daemon/base/session_memory.c fallocate 1: before a client has it
	daemon/base/session_memory.c ftruncate 1: before a client has it
	daemon/base/spawn.c ftruncate 1: a memfd for a worker, just made
	daemon/masks/numa_segments.c fallocate 1: clients cannot write it
	daemon/masks/numa_segments.c fchmod 1: clients cannot write it
	daemon/masks/numa_segments.c fchown 1: clients cannot write it
	daemon/masks/numa_segments.c fstat 2: clients cannot write it
	daemon/masks/numa_segments.c ftruncate 1: clients cannot write it
	daemon/masks/numa_segments.c posix_fallocate 1: clients cannot write it
	daemon/meshes/comms.c pwrite 2: only workers have it
	daemon/segment/folder.c fstat 2: clients cannot write it, or at the start
	daemon/segment/lock.c fstat 1: the administrator's
	daemon/segment/segment.c fstat 1: clients cannot write it
	daemon/segment/segment.c ftruncate 1: clients cannot write it
	daemon/segment/segment.c posix_fallocate 1: clients cannot write it
	daemon/sessions/dispatch.c fstat 1: clients cannot write it
	daemon/sessions/programs.c fstat 3: the administrator's
	daemon/sessions/readable.c statx 1: of no file in memory, not asked anew
	daemon/sharing/exports.c F_ADD_SEALS 1: before a client has it
	daemon/state/dir.c fchown 1: a folder of workers, at the start
	daemon/state/dir.c fstat 2: the administrator's
	daemon/state/dir.c fsync 6: the administrator's
	daemon/state/dir.c write 1: the administrator's
	EOF
}

# The same of the sources; "()" in a comment or a text is no call.
made() {
	for call in $calls; do
		find common daemon -name '*.c' -exec awk -v call="$call" '
			{ line = $0 }
			line ~ /^[ \t]*(\/\*|\*)/ { next }
			{
				while (match(line, "(^|[^a-z_0-9>.])" call \
						   (call ~ /^F_/ ? "" \
							: "\\([^)]"))) {
					n[FILENAME]++
					line = substr(line, RSTART + RLENGTH)
				}
			}
			END {
				for (file in n)
					print file, call, n[file]
			}' {} +
	done | LC_ALL=C sort
}

# Lines of diff: "<" a reason for no call, ">" a call without a reason.
differences() {
	reasons=$(mktemp) || exit
	allowed | LC_ALL=C sort >"$reasons"
	made | diff "$reasons" - | grep '^[<>]'
	rm -f "$reasons"
}

check "each call that may wait for a file's lock has a reason" \
	"$(differences)"
tap_done
