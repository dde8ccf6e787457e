/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * contract_fd - a descriptor to another process, with a byte.
 */
#ifndef GM_TEST_CONTRACT_SEND_FD_H
#define GM_TEST_CONTRACT_SEND_FD_H

#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

static inline bool send_fd(int socket, int fd)
{
	char room[CMSG_SPACE(sizeof(int))] = { 0 }, byte = 0;
	struct iovec part = { &byte, 1 };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = room,
				  .msg_controllen = sizeof(room) };
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);

	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(head), &fd, sizeof(fd));
	return sendmsg(socket, &message, MSG_NOSIGNAL) == 1;
}

/* -1: none has come. */
static inline int receive_fd(int socket)
{
	char room[CMSG_SPACE(sizeof(int))] = { 0 }, byte;
	struct iovec part = { &byte, 1 };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = room,
				  .msg_controllen = sizeof(room) };
	struct cmsghdr *head;
	int fd = -1;

	if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1)
		return -1;
	head = CMSG_FIRSTHDR(&message);
	if (head && head->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(head), sizeof(fd));
	return fd;
}

#endif
