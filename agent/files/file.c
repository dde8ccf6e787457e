/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/files/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int system_error(struct gm_plan_error *err, int errnum,
			const char *remedy, const char *path)
{
	if (errnum != ENOENT)
		remedy = errnum == EACCES ? "let this user read it" : NULL;
	return gm_error_set(err, -errnum, remedy, "%s: %s", path,
			    strerror(errnum));
}

int gm_file_open(const char *path, const char *remedy, struct gm_file *ret_file,
		 struct gm_plan_error *ret_err)
{
	/* Without O_NONBLOCK a fifo would block until it has a writer. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	int r = 0;

	if (fd < 0)
		return system_error(ret_err, errno, remedy, path);
	if (fstat(fd, &st))
		r = system_error(ret_err, errno, NULL, path);
	else if (!S_ISREG(st.st_mode))
		r = gm_error_set(ret_err, -EINVAL, "give the path of a file",
				 "%s is not a regular file", path);
	if (r) {
		close(fd);
		return r;
	}
	*ret_file = (struct gm_file){ fd, (uint64_t)st.st_size, path };
	return 0;
}

int gm_file_read(const struct gm_file *file, uint64_t offset, void *buf,
		 size_t n, struct gm_plan_error *ret_err)
{
	char *at = buf;

	while (n > 0) {
		ssize_t got = pread(file->fd, at, n, (off_t)offset);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return system_error(ret_err, errno, NULL, file->path);
		if (got == 0)
			return gm_error_set(
				ret_err, -ENODATA,
				"wait until the file is complete, or fetch it "
				"again",
				"%s is truncated: it ended at byte %" PRIu64
				" while being read",
				file->path, offset);
		at += got;
		n -= (size_t)got;
		offset += (uint64_t)got;
	}
	return 0;
}

void gm_file_close(struct gm_file *file)
{
	close(file->fd);
	file->fd = -1;
}

int gm_file_text(const char *path, const char *remedy, size_t most,
		 char **ret_bytes, size_t *ret_n, struct gm_plan_error *ret_err)
{
	struct gm_file file = { .fd = -1 };
	char *bytes = NULL;
	int r;

	r = gm_file_open(path, remedy, &file, ret_err);
	if (r)
		return r;
	if (file.size > most) {
		r = gm_error_set(ret_err, -EFBIG, "is this the right file?",
				 "%s has %" PRIu64
				 " bytes, more than the %zu allowed",
				 path, file.size, most);
		goto out;
	}
	bytes = malloc(file.size + 1); /* never 0 */
	if (!bytes) {
		r = gm_error_no_memory(ret_err);
		goto out;
	}
	r = gm_file_read(&file, 0, bytes, file.size, ret_err);
	if (r)
		goto out;
	bytes[file.size] = '\0';
	*ret_bytes = bytes;
	*ret_n = file.size;
	bytes = NULL;
out:
	free(bytes);
	gm_file_close(&file);
	return r;
}
