/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Does what its parameter says, and most of that is wrong. */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/programs/odd.h"

static int opened;

static int open_it(const char *path)
{
	return open(path, O_RDONLY | O_CLOEXEC) < 0 ? -errno : 0;
}

static __attribute__((constructor)) void start(void)
{
	opened = open_it("/dev/null");
}

static int open_itself(void)
{
	Dl_info info;

	return dladdr(&opened, &info) ? open_it(info.dli_fname) : -ENOENT;
}

static int run(const struct gpumap_program_tile *tile)
{
	static volatile int one = 1;
	uint32_t what = *(const uint32_t *)tile->params;

	switch (what) {
	case ODD_CRASHES:
		raise(SIGSEGV);
		return 0;
	case ODD_GOES_ON:
		*(volatile uint32_t *)tile->dst = 1;
		while (one)
			;
		return 0;
	case ODD_WAITS:
		*(volatile uint32_t *)tile->dst = 1;
		while (*(volatile uint32_t *)tile->dst != 2)
			; /* to sleep is not allowed here */
		return 0;
	case ODD_OPENS:
		return open_it("/dev/null");
	case ODD_CALLS:
		return socket(AF_UNIX, SOCK_DGRAM, 0) < 0 ? -errno : 0;
	case ODD_KILLS:
		return kill(getppid(), SIGTERM) < 0 ? -errno : 0;
	case ODD_FAILS:
		return -EXDEV;
	case ODD_SAYS_7:
		return 7;
	case ODD_COUNTS:
		*(uint64_t *)tile->dst = tile->n;
		return tile->src ? -EINVAL : 0;
	case ODD_OPENED:
		return opened;
	case ODD_OPENS_ITSELF:
		return open_itself();
	default:
		return 0;
	}
}

GPUMAP_PROGRAM(run);
