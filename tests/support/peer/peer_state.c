/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/peer/peer_state.h"

#define PEER_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

int peer_memfd(uint64_t bytes, bool sealed)
{
	int fd = memfd_create("peer", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (ftruncate(fd, (off_t)bytes) != 0 ||
	    (sealed && fcntl(fd, F_ADD_SEALS, PEER_SEALS) != 0))
		abort();
	return fd;
}
