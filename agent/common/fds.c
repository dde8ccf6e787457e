/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/common/fds.h"

#include <string.h>

void gm_fds_put(struct msghdr *message, union gm_fds_room *room, const int *fds,
		size_t n)
{
	struct cmsghdr *head;

	if (n == 0)
		return;
	memset(room, 0, sizeof(*room));
	message->msg_control = room->bytes;
	message->msg_controllen = CMSG_SPACE(n * sizeof(int));
	head = CMSG_FIRSTHDR(message);
	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(n * sizeof(int));
	memcpy(CMSG_DATA(head), fds, n * sizeof(int));
}

/* Not CMSG_SPACE, which may have room for one more. */
void gm_fds_expect(struct msghdr *message, union gm_fds_room *room, size_t most)
{
	message->msg_control = room->bytes;
	message->msg_controllen = CMSG_LEN(most * sizeof(int));
}

size_t gm_fds_take(struct msghdr *message, int *ret_fds)
{
	struct cmsghdr *head = CMSG_FIRSTHDR(message);
	size_t bytes = 0;

	if (head && head->cmsg_level == SOL_SOCKET &&
	    head->cmsg_type == SCM_RIGHTS) {
		bytes = head->cmsg_len - CMSG_LEN(0);
		memcpy(ret_fds, CMSG_DATA(head), bytes);
	}
	return bytes / sizeof(int);
}
