#!/bin/sh
# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# Check the calls of gpumapd that take the lock of a file, of its position, or
# of a page of it.
#
# A client holds the locks of a file that it can write for as long as it likes:
# by a write() from a page that never arrives.  A read waits for the lock of a
# page, which the kernel holds while it unmaps the page from a client that has
# mapped it a million times, and punches a hole there.  To look up a name in the
# folder of a process in /proc waits for the folder's lock, which that process
# holds likewise.  A process that waits for such a lock cannot be killed.  So each of these calls is about a file that no client
# can write, or that no client has yet.  A new call needs a line here, which
# says why it may be made.
#
# The sources are those of which gpumapd is made, and a call through syscall()
# counts like the call itself.

. "${abs_top_srcdir:?run me by make check}/tests/tap.sh"
cd "$abs_top_srcdir/agent" || exit 1

folders="comm common cuda daemon files mask mesh ../lib/model/plan ../shm"
calls="read readv pread preadv preadv2 process_vm_readv
write writev pwrite pwritev pwritev2 lseek
getdents64 fallocate posix_fallocate ftruncate truncate fopen fdopen freopen
O_TRUNC stat lstat fstat fstatat newfstatat statx chmod fchmod fchmodat
chown lchown fchown fchownat utimes utimensat futimens fsync fdatasync sync
syncfs sync_file_range copy_file_range sendfile splice vmsplice setxattr
fsetxattr fremovexattr flock lockf F_SETLK F_SETLKW F_OFD_SETLK F_OFD_SETLKW
F_ADD_SEALS MADV_REMOVE eventfd_read eventfd_write gm_lineage_stat
gm_lineage_read gm_write_all"

# FILE CALL TIMES: the reason
allowed() {
	sed 's/:.*//' <<-'EOF'
	common/ini.c fopen 1: the administrator's
	common/lineage.c gm_lineage_read 1: its own definition
	common/lineage.c gm_lineage_stat 4: its own, for the probe
	common/lineage.h gm_lineage_read 1: its declaration
	common/lineage.h gm_lineage_stat 1: its declaration
	common/log.c write 1: standard error
	common/meminfo.c fopen 1: a file of /proc
	common/read_file.c read 1: a description of our own
	common/write_all.h gm_write_all 1: its own definition
	common/write_all.h write 1: its own
	daemon/base/deferred_close.c eventfd_read 1: the process's own
	daemon/base/deferred_close.c eventfd_write 1: the process's own
	daemon/base/deferred_close.c fallocate 1: its threads may wait
	daemon/base/deferred_close.c fstat 1: its threads may wait
	daemon/base/io_thread.c eventfd_read 1: the process's own
	daemon/base/io_thread.c eventfd_write 1: the process's own
	daemon/base/memfd.c lseek 1: a description of our own; its end, no lock
	daemon/base/oom.c fopen 1: a file of /proc
	daemon/base/peercred.c gm_lineage_stat 1: before Linux 6.5 alone
	daemon/base/session_memory.c F_ADD_SEALS 1: before a client has it
	daemon/base/session_memory.c fallocate 1: before a client has it
	daemon/base/session_memory.c ftruncate 1: before a client has it
	daemon/base/spawn.c F_ADD_SEALS 1: a memfd for a worker, just made
	daemon/base/spawn.c ftruncate 1: a memfd for a worker, just made
	daemon/daemon.c read 1: a signalfd of our own
	daemon/devices/host.c fopen 1: a file of /proc
	daemon/main.c stat 2: the runtime directory, at the start
	daemon/map/pins.c gm_lineage_stat 1: at the start
	daemon/masks/numa_segments.c fallocate 1: clients cannot write it
	daemon/masks/numa_segments.c fchmod 1: clients cannot write it
	daemon/masks/numa_segments.c fchown 1: clients cannot write it
	daemon/masks/numa_segments.c fstat 2: clients cannot write it
	daemon/masks/numa_segments.c ftruncate 1: clients cannot write it
	daemon/masks/numa_segments.c posix_fallocate 1: clients cannot write it
	daemon/masks/publish.c pread 1: a memfd that is sealed
	daemon/meshes/comms.c pwrite 2: only workers have it
	daemon/segment/folder.c chmod 1: at the start
	daemon/segment/folder.c fstat 2: clients cannot write it
	daemon/segment/folder.c lstat 1: at the start
	daemon/segment/lock.c F_SETLK 1: does not wait
	daemon/segment/lock.c fstat 1: the administrator's
	daemon/segment/older.c F_SETLK 1: does not wait
	daemon/segment/older.c fstat 1: a folder of ours, at the start
	daemon/segment/segment.c fstat 1: clients cannot write it
	daemon/segment/segment.c ftruncate 1: clients cannot write it
	daemon/segment/segment.c posix_fallocate 1: clients cannot write it
	daemon/sessions/dispatch.c fstat 1: clients cannot write it
	daemon/sessions/listener.c chmod 1: the socket's name, at the start
	daemon/sessions/listener.c chown 1: the socket's name, at the start
	daemon/sessions/programs.c fstat 3: the administrator's
	daemon/sessions/readable.c statx 1: of no file in memory, not asked anew
	daemon/sharing/exports.c F_ADD_SEALS 1: before a client has it
	daemon/state/dir.c fchmod 1: a folder of workers, at the start
	daemon/state/dir.c fchown 1: a folder of workers, at the start
	daemon/state/dir.c flock 1: at the start, and does not wait
	daemon/sharing/share_record.c fallocate 2: clients never have it
	daemon/sharing/share_restore.c gm_lineage_stat 1: at the start
	daemon/state/dir.c fstat 2: the administrator's
	daemon/state/dir.c fstatat 3: the administrator's
	daemon/state/dir.c fsync 7: the administrator's
	daemon/state/dir.c gm_write_all 1: the administrator's
	daemon/state/dir.c read 1: the administrator's
	daemon/worker_uid.c fopen 1: the administrator's, at the start
	daemon/workers/row_trace.c fchmod 1: a memfd, just made
	daemon/workers/row_trace.c posix_fallocate 1: a memfd, just made
	files/file.c fstat 1: the administrator's, at the start
	files/file.c pread 1: the administrator's, at the start
	EOF
}

# The same of the sources; "()" in a comment or a text is no call.
made() {
	for call in $calls; do
		# shellcheck disable=SC2086 # one word per folder
		find $folders -name '*.[ch]' -exec awk -v call="$call" '
			BEGIN {
				if (call ~ /^[A-Z]/)
					name = "(^|[^A-Z_])" call "([^A-Z_]|$)"
				else
					name = "(^|[^A-Za-z_0-9>.])" call \
						"\\(([^)]|$)|SYS_" call "[,)]"
			}
			{ line = $0 }
			line ~ /^[ \t]*(\/\*|\*)/ { next }
			{
				while (match(line, name)) {
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
