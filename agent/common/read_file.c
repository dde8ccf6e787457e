/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/common/read_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

int gm_read_file_path(char *ret_path, size_t bytes, const char *root,
		      const char *format, ...)
{
	int used = snprintf(ret_path, bytes, "%s", root ? root : "");
	va_list args;
	int len;

	if (used < 0 || (size_t)used >= bytes)
		return -ENAMETOOLONG;
	va_start(args, format);
	len = vsnprintf(ret_path + used, bytes - (size_t)used, format, args);
	va_end(args);
	if (len < 0 || (size_t)len >= bytes - (size_t)used)
		return -ENAMETOOLONG;
	return 0;
}

int gm_read_file(const char *path, char *ret_text, size_t bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t used = 0;
	int rc = -EFBIG;

	if (fd < 0)
		return -errno;
	while (used < bytes) {
		ssize_t n = read(fd, ret_text + used, bytes - used);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			rc = -errno;
			break;
		}
		if (n == 0) {
			ret_text[used] = '\0';
			rc = (int)used;
			break;
		}
		used += (size_t)n;
	}
	close(fd);
	return rc;
}

int gm_read_file_list(const char *path, struct gm_idset *ret_set)
{
	char text[GM_SYSFILE_LIST_MAX];
	int rc = gm_read_file(path, text, sizeof(text));

	return rc < 0 ? rc : gm_idset_parse(text, ret_set);
}
