/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* write_all - write to a file until all is written. */
#ifndef GM_COMMON_WRITE_ALL_H
#define GM_COMMON_WRITE_ALL_H

#include <errno.h>
#include <stddef.h>
#include <unistd.h>

/* Returns 0, or a negative errno of write(): some bytes may be written. */
static inline int gm_write_all(int fd, const void *bytes, size_t n)
{
	const char *at = bytes;

	while (n > 0) {
		ssize_t done = write(fd, at, n);

		if (done < 0 && errno != EINTR)
			return -errno;
		if (done > 0) {
			at += done;
			n -= (size_t)done;
		}
	}
	return 0;
}

#endif
