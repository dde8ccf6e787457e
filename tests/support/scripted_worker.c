/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * scripted_worker - a worker that runs no jobs.  The index of a handle says
 * whether it takes, refuses or dies of a registration, export or import: see
 * scripted_worker.h.  gpumapd starts it in place of gpumap-worker.
 */

#include "tests/support/scripted_worker.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/common/wire.h"
#include "shm/journal.h"
#include "shm/queue.h"

#define PLACES 64

static struct gm_journal *journal;
static uint32_t incarnations[PLACES]; /* of the attachments, by place */
static uint32_t n_registered[PLACES];

static void say(struct gm_wire *wire, int fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .bytes = { 0 } };
	struct iovec record = { wire, sizeof(*wire) };
	struct msghdr message = { .msg_iov = &record, .msg_iovlen = 1 };
	struct cmsghdr *head;

	if (fd >= 0) {
		message.msg_control = control.bytes;
		message.msg_controllen = sizeof(control.bytes);
		head = CMSG_FIRSTHDR(&message);
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(head), &fd, sizeof(fd));
	}
	if (sendmsg(GM_FD_SUPERVISOR, &message, MSG_NOSIGNAL) < 0)
		exit(1);
	if (fd >= 0)
		close(fd);
}

static void answer(const struct gm_wire *to, enum gm_wire_type type, int status,
		   uint64_t bytes, int fd)
{
	struct gm_wire wire;

	memset(&wire, 0, sizeof(wire));
	wire.type = type;
	wire.session = to->session;
	wire.place = to->place;
	wire.handle = to->handle;
	wire.status = status;
	wire.buffer.bytes = bytes;
	say(&wire, fd);
}

static int export_of(uint64_t handle, uint32_t place, uint64_t *ret_bytes)
{
	int fd = memfd_create("odd-export", MFD_CLOEXEC);
	uint32_t index = gm_handle_index(handle);

	*ret_bytes = ODD_EXPORT_BYTES;
	if (index >= ODD_POWER && index < ODD_POWER + 64)
		*ret_bytes = UINT64_C(1) << (index - ODD_POWER);
	if (index == ODD_HUGE)
		*ret_bytes = UINT64_C(1) << 60;
	if (index == ODD_COUNT)
		*ret_bytes = n_registered[place];
	if (ftruncate(fd, ODD_EXPORT_BYTES) != 0)
		exit(1);
	return fd;
}

static void claim(const struct gm_wire *wire)
{
	uint32_t index = gm_handle_index(wire->handle);
	bool is_first = incarnations[wire->place] == 1;
	uint64_t bytes = 0;
	int fd = -1, status = 0;

	if (index == ODD_DEADLY || (index == ODD_DEADLY_AGAIN && !is_first) ||
	    (index == ODD_DEADLY_IMPORT && wire->type == GM_WIRE_IMPORT)) {
		gm_put(&journal->slow_handle, wire->handle);
		gm_put(&journal->slow_place, wire->place + 1);
		exit(3);
	}
	if (index == ODD_SILENT || (index == ODD_SILENT_AGAIN && !is_first))
		return;
	if (index == ODD_REFUSED)
		status = -ENOMEM;
	if ((index == ODD_PRIVATE || index == ODD_PRIVATE_TOO) &&
	    wire->type == GM_WIRE_EXPORT)
		status = -EOPNOTSUPP;
	if (wire->type == GM_WIRE_EXPORT && status == 0)
		fd = export_of(wire->handle, wire->place, &bytes);
	if (wire->type == GM_WIRE_REGISTER && status == 0)
		n_registered[wire->place]++;
	/* Each answer's type follows its question's. */
	answer(wire, wire->type + 1, status, bytes, fd);
}

static void obey(const struct gm_wire *wire)
{
	switch (wire->type) {
	case GM_WIRE_ATTACH:
		if (wire->place >= PLACES)
			exit(1);
		/* A worker that has completed a job is started again at
		 * once. */
		gm_put(&journal->completed, gm_get(&journal->completed) + 1);
		incarnations[wire->place] = wire->attach.incarnation;
		n_registered[wire->place] = 0;
		answer(wire, GM_WIRE_ATTACHED, 0, 0, -1);
		break;
	case GM_WIRE_DETACH:
		answer(wire, GM_WIRE_DETACHED, 0, 0, -1);
		break;
	case GM_WIRE_REGISTER:
	case GM_WIRE_EXPORT:
	case GM_WIRE_IMPORT:
	case GM_WIRE_LEND:
	case GM_WIRE_BORROW:
		claim(wire);
		break;
	case GM_WIRE_FORGET:
		if (gm_handle_kind(wire->handle) == GM_BUFFER_REGISTERED)
			n_registered[wire->place]--;
		answer(wire, GM_WIRE_FORGOTTEN, 0, 0, -1);
		break;
	case GM_WIRE_DRAIN:
		exit(0);
	}
}

/* Whatever descriptors come with it are closed at once. */
static bool hear(struct gm_wire *ret_wire)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(4 * sizeof(int))];
	} control;
	struct iovec record = { ret_wire, sizeof(*ret_wire) };
	struct msghdr message = { .msg_iov = &record,
				  .msg_iovlen = 1,
				  .msg_control = control.bytes,
				  .msg_controllen = sizeof(control.bytes) };
	ssize_t n = recvmsg(GM_FD_SUPERVISOR, &message, MSG_CMSG_CLOEXEC);
	struct cmsghdr *head = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;
	size_t bytes = head ? head->cmsg_len - CMSG_LEN(0) : 0;

	for (size_t i = 0; i < bytes / sizeof(int); i++) {
		int fd;

		memcpy(&fd, CMSG_DATA(head) + i * sizeof(int), sizeof(fd));
		close(fd);
	}
	return n == (ssize_t)sizeof(*ret_wire);
}

int main(void)
{
	struct gm_wire wire = { .type = GM_WIRE_READY };

	journal = mmap(NULL, sizeof(*journal), PROT_READ | PROT_WRITE,
		       MAP_SHARED, GM_FD_JOURNAL, 0);
	if (journal == MAP_FAILED)
		return 1;
	say(&wire, -1);
	while (hear(&wire))
		obey(&wire);
	return 0;
}
