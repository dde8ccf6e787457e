/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* fds - descriptors that go with a record of a socket. */
#ifndef GM_COMMON_FDS_H
#define GM_COMMON_FDS_H

#include <stddef.h>
#include <sys/socket.h>

#define GM_FDS_MOST 32u

union gm_fds_room {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(GM_FDS_MOST * sizeof(int))];
};

/* For sendmsg(): the message carries @n of them, or none.  @room stays as long
 * as the message. */
void gm_fds_put(struct msghdr *message, union gm_fds_room *room, const int *fds,
		size_t n);

/* For recvmsg(): there is room for @most of them, and no more. */
void gm_fds_expect(struct msghdr *message, union gm_fds_room *room,
		   size_t most);

/* Those that came.  Returns how many, at most as many as were expected. */
size_t gm_fds_take(struct msghdr *message, int *ret_fds);

#endif
