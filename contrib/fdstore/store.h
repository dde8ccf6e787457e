/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * store - the notification socket, and the descriptors that came to it.
 *
 * The part of sd_notify(3) that gpumapd's shares need: FDSTORE=1 with FDNAME=
 * adds the descriptors of a message, FDSTOREREMOVE=1 with FDNAME= takes out
 * those of a name.  Nothing is taken out by itself, as with FDPOLL=0.  All
 * other states are read and dropped.
 */
#ifndef GM_FDSTORE_STORE_H
#define GM_FDSTORE_STORE_H

#include <stdbool.h>
#include <sys/types.h>

#define FDSTORE_NAME_BYTES 256 /* systemd's limit, with the NUL */

struct kept {
	int fd;
	char name[FDSTORE_NAME_BYTES];
};

struct store {
	int socket;
	char folder[96]; /* ours alone, with the socket in it */
	char path[112];
	struct kept *kept;
	unsigned n;
	unsigned most;
};

/* Make the socket.  Returns 0 or a negative errno. */
int store_open(struct store *s, unsigned most);
void store_close(struct store *s);

/* Take all messages that are there; only those from @pid count. */
void store_read(struct store *s, pid_t pid);

/* In a child: the descriptors from 3 on, and $LISTEN_FDS and $LISTEN_FDNAMES
 * for them.  Returns 0 or a negative errno. */
int store_hand_over(const struct store *s);

#endif
