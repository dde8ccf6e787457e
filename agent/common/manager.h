/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * manager - the service manager that started this process, as systemd does.
 *
 * Both protocols are systemd's stable ones, sd_notify(3) and sd_listen_fds(3),
 * which other managers and containers have, too: states go as datagrams to
 * $NOTIFY_SOCKET, and the listening socket may be passed as a descriptor from 3
 * on, beside those that the manager keeps for us (fd_store.h).  Without a
 * manager every call does nothing.
 *
 * Nothing here waits: a state that the manager has no room for is dropped, and
 * the next one says more anyway.
 */
#ifndef GM_COMMON_MANAGER_H
#define GM_COMMON_MANAGER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "agent/common/refusal.h"

#define GM_MANAGER_STATUS_BYTES 160
#define GM_MANAGER_NAME_BYTES   48 /* of a kept descriptor, with the NUL */
/* Descriptors that are given to a manager: their names, of 31 bytes with a
 * colon, go into one string of the environment, of 128 KiB at most. */
#define GM_MANAGER_KEEPS_MAX 4096u

/* The name of each descriptor that we have the manager keep begins so. */
#define GM_MANAGER_KEPT "share-"

/* One that an earlier agent gave the manager to keep. */
struct gm_manager_kept {
	int fd;
	char name[GM_MANAGER_NAME_BYTES];
};

struct gm_manager {
	int socket; /* -1: there is no manager, or it wants no states */
	struct sockaddr_un to;
	socklen_t to_bytes;
	uint64_t watchdog_ns; /* 0: the manager has no watchdog */
	uint64_t fed_ns;
	int listener; /* -1: none was passed, or it has been taken */
	struct gm_manager_kept *kept; /* fd -1: it has been taken */
	uint32_t n_kept;
	uint32_t keeps_most; /* descriptors; 0: it keeps none */
	char status[GM_MANAGER_STATUS_BYTES]; /* that it was told last */
};

/* The address of its socket, NOTIFY_SOCKET.  Returns its bytes; 0: none. */
socklen_t gm_manager_address(struct sockaddr_un *ret_to);

/* Has it passed what an earlier agent gave it to keep?  For who asks before
 * gm_manager_init(). */
bool gm_manager_has_kept(void);

/*
 * gm_manager_init - read the environment, and remove what is meant for us
 *
 * ret_why	with an error
 *
 * Returns	0; -EINVAL: a descriptor was passed that is no listening socket
 *		of the right type, and none that we gave it to keep; -ENOMEM
 */
int gm_manager_init(struct gm_manager *m, char ret_why[GM_WHY_BYTES]);

/* The agent serves. */
void gm_manager_ready(struct gm_manager *m);

/* The agent has begun to end. */
void gm_manager_stopping(struct gm_manager *m);

/* One line for people, sent where it differs from the last one. */
void gm_manager_status(struct gm_manager *m, const char *status);

/* To be called at least twice in a second, while all is well.  @now_ns: of
 * CLOCK_MONOTONIC, which the manager measures by. */
void gm_manager_feed(struct gm_manager *m, uint64_t now_ns);

/*
 * gm_manager_take_listener - the socket on which to serve
 *
 * path		where clients look for it
 *
 * Returns	the descriptor, the caller's from here on; -ENOENT: none was
 *		passed; -EINVAL: it is bound to another path, see ret_why
 */
int gm_manager_take_listener(struct gm_manager *m, const char *path,
			     char ret_why[GM_WHY_BYTES]);

void gm_manager_exit(struct gm_manager *m);

#endif
