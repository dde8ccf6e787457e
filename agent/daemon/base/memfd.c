/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/base/memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "agent/daemon/base/refusal.h"
#include "shm/queue.h"

/* Nothing else is asked of a stranger's descriptor before its seals: only files
 * in memory have any, and they answer at once. */
static int check_file(int fd, bool writable, char *ret_why)
{
	int seals = fcntl(fd, F_GET_SEALS);
	int mode = fcntl(fd, F_GETFL) & O_ACCMODE;
	struct statfs fs;

	if (seals < 0)
		return gm_why(ret_why, -EINVAL,
			      "the descriptor is no memfd; make one with "
			      "memfd_create(MFD_ALLOW_SEALING)");
	if (fstatfs(fd, &fs) != 0 || fs.f_type != TMPFS_MAGIC)
		return gm_why(
			ret_why, -EINVAL,
			"the memfd has huge pages, and a client can punch "
			"holes into them; make it without MFD_HUGETLB");
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

int gm_memfd_check(int fd, uint64_t at, uint64_t bytes, bool writable,
		   char ret_why[GM_WHY_BYTES])
{
	struct stat st;
	int error = check_file(fd, writable, ret_why);

	if (error)
		return error;
	if (fstat(fd, &st) != 0)
		return gm_why(ret_why, -errno, "the memfd has no size");
	if (bytes == 0 || at % GM_PAGE != 0)
		return gm_why(ret_why, -EINVAL,
			      "%" PRIu64 " bytes from %" PRIu64 ": register at "
			      "least one, from a multiple of %u",
			      bytes, at, GM_PAGE);
	if (at > (uint64_t)st.st_size || bytes > (uint64_t)st.st_size - at)
		return gm_why(ret_why, -ERANGE,
			      "%" PRIu64 " bytes from %" PRIu64
			      ", but the memfd "
			      "has %" PRIu64,
			      bytes, at, (uint64_t)st.st_size);
	return 0;
}
