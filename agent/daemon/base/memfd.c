/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/base/memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "agent/common/refusal.h"
#include "shm/queue.h"

/* A client's descriptor is asked for nothing else before its seals: only files
 * in memory have any, and they answer at once. */
static int check_kind(int fd, char *ret_why)
{
	struct statfs fs;

	if (fcntl(fd, F_GET_SEALS) < 0)
		return gm_why(ret_why, -EINVAL,
			      "the descriptor is no memfd; make one with "
			      "memfd_create(MFD_ALLOW_SEALING)");
	if (fstatfs(fd, &fs) != 0 || fs.f_type != TMPFS_MAGIC)
		return gm_why(
			ret_why, -EINVAL,
			"the memfd has huge pages, and a client can punch "
			"holes into them; make it without MFD_HUGETLB");
	return 0;
}

/* On some kernels fstat() takes the inode's lock, and lseek() takes the lock of
 * the file's position, which a write() of the client holds too.  A descriptor
 * of our own has a position of its own, and memory without huge pages needs no
 * lock for its end.  An open() waits for a lease of the client, but not with
 * O_NONBLOCK. */
int gm_memfd_bytes(int fd, uint64_t *ret_bytes, char ret_why[GM_WHY_BYTES])
{
	int error = check_kind(fd, ret_why);
	char path[32];
	off_t bytes;
	int own;

	if (error)
		return error;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	own = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (own < 0 && errno == EWOULDBLOCK)
		return gm_why(ret_why, -EINVAL,
			      "a process holds a lease of the memfd; remove it "
			      "with fcntl(F_SETLEASE, F_UNLCK)");
	if (own < 0 && (errno == EMFILE || errno == ENFILE))
		return gm_why(ret_why, -EMFILE,
			      "gpumapd has no descriptor left for it; raise "
			      "LimitNOFILE of gpumapd");
	if (own < 0)
		return gm_why(ret_why, -EINVAL,
			      "gpumapd cannot open the memfd by /proc: %s; "
			      "fchmod() it so that gpumapd's user can read it",
			      strerror(errno));
	bytes = lseek(own, 0, SEEK_END);
	close(own);
	if (bytes < 0)
		return gm_why(ret_why, -EINVAL, "the memfd has no size");
	*ret_bytes = (uint64_t)bytes;
	return 0;
}

static int check_access(int fd, bool writable, char *ret_why)
{
	int seals = fcntl(fd, F_GET_SEALS);
	int mode = fcntl(fd, F_GETFL) & O_ACCMODE;

	if (!(seals & F_SEAL_SHRINK))
		return gm_why(ret_why, -EPERM,
			      "the memfd could shrink under a worker; add "
			      "F_SEAL_SHRINK to its seals");
	if (mode == O_WRONLY)
		return gm_why(ret_why, -EPERM,
			      "the descriptor cannot be read; open it O_RDWR");
	if (writable &&
	    (mode != O_RDWR || (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))))
		return gm_why(ret_why, -EPERM,
			      "the memfd cannot be written; register it "
			      "GPUMAP_BUFFER_READ_ONLY, or send a descriptor "
			      "that is O_RDWR and not sealed against writing");
	return 0;
}

int gm_memfd_check_fixed(int fd, const char *what, char ret_why[GM_WHY_BYTES])
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

	if ((fcntl(fd, F_GET_SEALS) & seals) == seals)
		return 0;
	return gm_why(ret_why, -EPERM,
		      "%s could change; add F_SEAL_SHRINK, F_SEAL_GROW and "
		      "F_SEAL_WRITE to the memfd's seals",
		      what);
}

int gm_memfd_check(int fd, uint64_t at, uint64_t bytes, bool writable,
		   char ret_why[GM_WHY_BYTES])
{
	uint64_t size = 0;
	int error = gm_memfd_bytes(fd, &size, ret_why);

	if (error == 0)
		error = check_access(fd, writable, ret_why);
	if (error)
		return error;
	if (bytes == 0 || at % GM_PAGE != 0)
		return gm_why(ret_why, -EINVAL,
			      "%" PRIu64 " bytes from %" PRIu64 ": register at "
			      "least one, from a multiple of %u",
			      bytes, at, GM_PAGE);
	if (at > size || bytes > size - at)
		return gm_why(ret_why, -ERANGE,
			      "%" PRIu64 " bytes from %" PRIu64
			      ", but the memfd "
			      "has %" PRIu64,
			      bytes, at, size);
	return 0;
}
