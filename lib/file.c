/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Register files that LOAD reads from.
 *
 * The library opens the file again where it can, and sends that description to
 * the agent.  Its flags do not depend on how the caller opened the file, and it
 * shares no file offset with the caller.
 */

#include "lib/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Check what this process can see.  The agent validates the file again. */
static int validate(struct gpumap_session *s, int fd)
{
	int flags = fcntl(fd, F_GETFL);
	struct stat file;

	if (flags < 0)
		return gm_refuse_plain(s->map, -errno);
	if ((flags & O_PATH) != 0 || (flags & O_ACCMODE) == O_WRONLY)
		return gm_refuse(s->map, -EBADF,
				 "the descriptor cannot be read: open the file "
				 "O_RDONLY");
	if (fstat(fd, &file) != 0)
		return gm_refuse_plain(s->map, -errno);
	if (S_ISREG(file.st_mode) || S_ISBLK(file.st_mode))
		return 0;
	return gm_refuse(
		s->map, -EINVAL,
		"a file to load from is a regular file or a block device");
}

/* Open the file again, past the page cache where that works.  Without /proc, or
 * where the file may not be opened again, duplicate the caller's descriptor. */
static int open_own(int fd)
{
	char path[32];
	int own;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	own = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_DIRECT);
	if (own < 0)
		own = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (own < 0)
		own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	return own < 0 ? -errno : own;
}

/*
 * A FUSE file that is opened with direct_io may be read in part.  When an
 * io_uring asks for the rest, the kernel starts at the first byte again (seen
 * on Linux 6.18): the result is wrong bytes without an error.  Such a file
 * cannot be mapped shared, and this check uses that.  The agent makes no such
 * check, because mapping a file may wait for the process that serves the file
 * system.
 */
static int check_reads(struct gpumap_session *s, int fd)
{
	long page = sysconf(_SC_PAGESIZE);
	void *map = mmap(NULL, (size_t)page, PROT_READ, MAP_SHARED, fd, 0);
	struct statfs fs;

	if (map != MAP_FAILED) {
		munmap(map, (size_t)page);
		return 0;
	}
	/* fstatfs() of a FUSE file system may fail: take it for FUSE. */
	if (errno != ENODEV ||
	    (fstatfs(fd, &fs) == 0 && fs.f_type != FUSE_SUPER_MAGIC))
		return 0;
	return gm_refuse(s->map, -EOPNOTSUPP,
			 "the file's file system gives it out with direct_io, "
			 "which io_uring reads wrong: mount it without, or "
			 "copy the file to a disk");
}

int gpumap_buffer_register_file(struct gpumap_session *session, int fd,
				uint32_t flags, uint64_t *ret_file)
{
	struct gm_client_buffer *buffer;
	int ret = gm_session_begin(session);
	int own;

	if (ret == 0 && flags != 0)
		ret = gm_refuse_unknown(session->map);
	if (ret == 0)
		ret = validate(session, fd);
	if (ret != 0)
		return ret;
	own = open_own(fd);
	if (own < 0)
		return own;
	ret = check_reads(session, own);
	if (ret == 0)
		ret = gm_buffers_take(session, GM_BUFFER_FILE, 0, &buffer);
	if (ret != 0) {
		close(own);
		return ret;
	}
	buffer->fd = own;
	buffer->bytes = GM_FILE_BYTES;
	*ret_file = buffer->handle;
	return 0;
}
