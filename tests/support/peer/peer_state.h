/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * peer_state.h - what the two halves of peer.h know of each other: sessions,
 * what the test asks for, and what was seen.
 */
#ifndef GM_TEST_SUPPORT_PEER_PEER_STATE_H
#define GM_TEST_SUPPORT_PEER_PEER_STATE_H

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "shm/control.h"
#include "shm/control_comm.h"
#include "shm/queue.h"
#include "tests/support/segment_file.h"

#define PEER_ROWS   3u
#define PEER_LINKS  8u
#define PEER_RANGE  (UINT64_C(4) << 20)
#define PEER_DEVICE (UINT64_C(16) << 20) /* bytes of one buffer at most */

/* How the peer misbehaves; see peer.lie. */
enum peer_lie {
	PEER_HONEST = 0,
	PEER_NO_SEALS,
	PEER_SMALL_ARENA,
	PEER_EXTRA_FD,
	PEER_WRONG_SERIAL,
	PEER_LONG_BODY,
	PEER_CUT_RECORD,
	PEER_HANG_UP,     /* instead of a reply */
	PEER_NO_QUEUE,    /* QUEUE_OPEN is refused */
	PEER_STRANGER,    /* a completion for what was never submitted */
	PEER_TWICE,       /* every completion comes twice */
	PEER_GOOD_STATUS, /* a status above 0 */
	PEER_WRONG_ROW    /* an import is of another row than was said */
};

/* Does the peer leave requests unread, until the test clears peer.deaf? */
enum peer_deaf {
	PEER_HEARS = 0,
	PEER_BUSY,   /* its heart beats: a client waits as long as it takes */
	PEER_STOPPED /* it does not */
};

/* An object with a handle in one session. */
struct peer_buffer {
	uint64_t handle; /* 0: none */
	char *at;
	uint64_t bytes;
	int fd;             /* -1: none, it cannot be shared */
	uint32_t rows;      /* that a registration was made for: a bit each */
	uint64_t export_id; /* 0: none */
	bool imported;
};

struct peer_queue {
	struct gm_queue *queue; /* NULL: not open */
	struct gm_ring in;
	struct gm_ring out;
	uint32_t parked;
	int doorbell;
};

struct peer_link {
	int fd; /* -1: none */
	int wake_fd;
	uint32_t depth; /* 0: no session */
	int queues_fd;
	int arena_fd;
	char *queues;
	char *arena;
	struct gm_waker waker;
	struct peer_queue rows[PEER_ROWS];
	struct peer_buffer *buffers; /* GM_BUFFERS_MAX, NULL: no session */
};

struct peer {
	char dir[40];
	char path[108];
	struct segment_file *file;
	pthread_t thread;
	int listener;
	struct peer_link links[PEER_LINKS];

	/* The test's orders, and the records that the peer has seen. */
	gm_a32 stop;
	gm_a32 lie;         /* enum peer_lie */
	gm_a32 hold;        /* rows whose jobs lie: a bit each */
	gm_a32 status;      /* of every job, 0 or a negative errno, */
	gm_a32 sound;       /* but for those of these rows: a bit each */
	gm_a32 backwards;   /* end jobs in the opposite order, 4 at a time */
	gm_a32 ration;      /* so many entries, then the row is on hold */
	gm_a32 deaf;        /* enum peer_deaf */
	gm_a32 left;        /* requests were left unread since deaf was set */
	gm_a32 hang_up;     /* close every connection, then 0 again */
	gm_a32 answered;    /* jobs, after the client was woken */
	gm_a32 served;      /* jobs, before their completion */
	gm_a32 seconds;     /* of them, second slots */
	gm_a64 deadline_ns; /* of the last of those */
	gm_a32 n_waits;     /* and */
	gm_a64 wait[GM_WAITS_MAX];
	gm_a32 hellos;
	gm_a32 requests; /* other than hello */
	gm_a32 pinned;
	gm_a32 unpinned;
	gm_a32 die;        /* workers of these rows, then 0 again: a bit each */
	gm_a32 die_asked;  /* the row's worker, at its next registration */
	gm_a32 refuse;     /* what is registered, and the close of a share,
			    * with this negative errno */
	gm_a32 closed;     /* shares */
	gm_a32 n_buffers;  /* that have a handle now */
	gm_a32 registered; /* requests */
	gm_a32 forgotten;
	gm_a32 reached; /* likewise */
	gm_a32 unreached;
	gm_a32 drained;    /* rows that are: a bit each */
	gm_a32 comm_flags; /* of the answer to GM_COMM_MAY_NCCL */
	gm_a32 comm_asked; /* requests of COMM_OPEN, */
	gm_a32 comm_open;  /* and communicators */
	gm_a32 sessions;   /* in all, as later portions of the list say */

	/* The answer to ROOM; to the publishing of a plan or to the opening of
	 * a share; and what was asked for. */
	pthread_mutex_t plan_lock;
	char room[1 << 13] __attribute__((aligned(8)));
	uint32_t room_body, room_tail; /* bytes */
	uint32_t n_rooms;              /* that were asked for */
	uint32_t plan_agains;          /* answers of -EAGAIN before that one */
	int plan_status;
	uint32_t plan_body, plan_tail; /* bytes */
	char plan[1 << 13] __attribute__((aligned(8)));
	char asked[1 << 13] __attribute__((aligned(8)));
};

int peer_memfd(uint64_t bytes, bool sealed);

#endif
