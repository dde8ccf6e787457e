/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpu - what the tests that want a real card have in common.
 *
 * They reach the driver as the contract tests do, so they run on a stand-in
 * too: fewer rounds then, and what they measure means nothing.  A FACT is a
 * line that contrib/check-gpu puts into its report as it is.
 *
 * A part is this program again with the part's name and a few numbers as its
 * arguments: a process with a driver of its own, which may be killed.
 */
#ifndef GM_TEST_GPU_GPU_H
#define GM_TEST_GPU_GPU_H

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/contract/contract.h"
#include "tests/contract/device_code.h"

#define GPU_MIB   ((size_t)1 << 20)
#define GPU_GIB   ((size_t)1 << 30)

#define FACT(...) (printf("# {" __VA_ARGS__), puts("}"), (void)fflush(stdout))

static inline bool gpu_is_real(void)
{
	return contract_is_real();
}

/* So many rounds on a card, so many where only the logic is tried. */
static inline uint64_t gpu_rounds(uint64_t real, uint64_t else_)
{
	return gpu_is_real() ? real : else_;
}

static inline bool gpu_begin(char **argv)
{
	if (!contract_begin_devices(argv, 1))
		return false;
	if (!gpu_is_real())
		NOTE("on a stand-in: what follows says nothing of a card");
	return true;
}

static inline int gpu_attribute(CUdevice_attribute which)
{
	int value = -1;

	if (cu.cuDeviceGetAttribute(&value, which, 0))
		return -1;
	return value;
}

/* ---- parts -------------------------------------------------------------- */

struct gpu_part {
	pid_t pid;
	int socket; /* to the part, whose end is descriptor 3 */
};

#define GPU_PART_SOCKET 3

/* @name, and a number for it. */
static inline bool gpu_part_begin(const char *name, uint64_t number,
				  struct gpu_part *ret_part)
{
	char text[32];
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return false;
	fflush(NULL);
	ret_part->pid = fork();
	if (ret_part->pid == 0) {
		snprintf(text, sizeof(text), "%" PRIu64, number);
		if (pair[1] != GPU_PART_SOCKET)
			dup2(pair[1], GPU_PART_SOCKET);
		else
			fcntl(GPU_PART_SOCKET, F_SETFD, 0);
		execl("/proc/self/exe", "part", name, text, (char *)NULL);
		_exit(253);
	}
	close(pair[1]);
	ret_part->socket = pair[0];
	return ret_part->pid > 0;
}

/* Its exit status, negative a signal's number. */
static inline int gpu_part_end(struct gpu_part *part)
{
	int status = -1;

	waitpid(part->pid, &status, 0);
	close(part->socket);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* Send @bytes of @data, and a descriptor where @fd is one. */
static inline bool gpu_tell(int socket, const void *data, size_t bytes, int fd)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = { .iov_base = (void *)(uintptr_t)data,
			     .iov_len = bytes };
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (fd >= 0) {
		memset(&control, 0, sizeof(control));
		control.header.cmsg_len = CMSG_LEN(sizeof(int));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
		message.msg_control = &control;
		message.msg_controllen = sizeof(control);
	}
	return sendmsg(socket, &message, MSG_NOSIGNAL) == (ssize_t)bytes;
}

/* Receive as many; *ret_fd, where not NULL, is a descriptor or -1. */
static inline bool gpu_hear(int socket, void *data, size_t bytes, int *ret_fd)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = { .iov_base = data, .iov_len = bytes };
	struct msghdr message = { .msg_iov = &iov,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = sizeof(control) };

	if (ret_fd)
		*ret_fd = -1;
	if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != (ssize_t)bytes)
		return false;
	if (ret_fd && CMSG_FIRSTHDR(&message))
		memcpy(ret_fd, CMSG_DATA(&control.header), sizeof(int));
	return true;
}

/* For parts: go on, or end with the line of what went wrong. */
#define WANT(condition)                                                    \
	do {                                                               \
		if (!(condition)) {                                        \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, \
				#condition);                               \
			_exit(__LINE__ % 250 + 1);                         \
		}                                                          \
	} while (0)

/* ---- figures ------------------------------------------------------------ */

static inline int gpu_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* "name":{"n":..,"p50":..,"p99":..,"max":..}; sorts @values. */
static inline const char *gpu_spread(const char *name, double *values, size_t n)
{
	static char text[4][160];
	static unsigned int turn;
	char *at = text[turn++ % 4];

	if (n == 0)
		return "\"none\":0";
	qsort(values, n, sizeof(*values), gpu_compare);
	snprintf(at, sizeof(text[0]),
		 "\"%s\":{\"n\":%zu,\"p50\":%.3f,\"p99\":%.3f,\"max\":%.3f}",
		 name, n, values[n / 2], values[(n * 99 - 1) / 100],
		 values[n - 1]);
	return at;
}

#endif
