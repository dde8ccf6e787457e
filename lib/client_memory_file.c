/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Memory that the library hands to the agent. */

#include "lib/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)

int gm_client_memory_file(const char *name, const void *from, uint64_t bytes)
{
	unsigned int flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int fd = memfd_create(name, flags | MFD_NOEXEC_SEAL), ret = 0;
	uint64_t at = 0;

	if (fd < 0 && errno == EINVAL) /* before Linux 6.3 */
		fd = memfd_create(name, flags);
	if (fd < 0)
		return -errno;
	while (ret == 0 && at < bytes) {
		ssize_t n = write(fd, (const char *)from + at, bytes - at);

		if (n > 0)
			at += (uint64_t)n;
		else if (n == 0 || errno != EINTR)
			ret = n < 0 ? -errno : -EIO;
	}
	if (ret == 0 && fcntl(fd, F_ADD_SEALS, SEALS) != 0)
		ret = -ENOMEM;
	if (ret == 0)
		return fd;
	close(fd);
	return ret;
}
