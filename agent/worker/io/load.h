/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * load - LOAD: bytes of a client's file, into memory that entries may name.
 *
 * Reads go through the worker's io_uring, many at a time, into staging that is
 * the worker's own and ends with it: the kernel goes on writing where a read
 * goes to, whatever becomes of who asked for it.  What has come is copied where
 * it belongs in slices, between the turns of sessions, as any other work of the
 * device is.  So reads that are under way hold nobody up who leaves: their
 * staging waits for them, and nothing else does.
 *
 * A file may be on storage that never answers.  The kernel reads in threads of
 * its own, the loads of one uid never have more than their share of the
 * staging, and what reads that are late have of it is made up for, up to
 * GM_LOAD_CHUNKS times.  A uid with late reads alone is not one to share with.
 * None may have more than a third of what reads that are late have left of all
 * staging: so many of them would have to be stuck that others find none.
 *
 * Loads of all sessions take turns, for staging and for copies.  The session of
 * one is stalled, and goes on by itself when the entry has ended.
 *
 * Storage would have little to do while the last reads of an entry end, so it
 * is read ahead: once all reads of it are begun, those of the LOADs behind it
 * in its queue are, too, as long as nobody else asks for any.  Their entries
 * stay where they are, in the ring: they are not in the journal, and nothing of
 * them is copied, so memory sees one after the other, as ever.  An entry that
 * begins, as any does, takes over what has been read for it, if it is the same
 * LOAD that was seen: its slot is the client's until then.  It was judged when
 * it was seen, to be read ahead, and is when it begins, to be done.
 *
 * What is read ahead is of the session's, in its list, and has no say of its
 * own: where it fails, is late or forgotten, where another entry came to be the
 * next, or the session leaves, all of that list is dropped, and what an entry
 * needs is read again when it begins.  Reads of it that are under way nobody
 * asks for any more, as when a session leaves.
 *
 * A file that is memory, as a memfd is, is not read ahead: the entries before
 * may write it.  Other files they do not.
 *
 * It waits for those before it in its staging, which they have no need of: all
 * of their reads are begun.  Others may, so it never has more than half of the
 * depth, and none as soon as reads of its uid are late.
 *
 * A copy is of the round of its user (queue/drr.h). For one who has nothing
 * left of it nothing is copied and no read is begun; what is being read then
 * lies in staging until the next. Each uid that loads may have as much of the
 * staging as any other, and what is free goes to the one that has the least. A
 * round waits for what has been read for one who has something left of it, and
 * not for reads.
 *
 *	load.c		what is under way, and whose turn it is
 *	load_ahead.c	what is read ahead, and when not
 *	load_reads.c	reads
 *	load_copies.c	copies
 *	memory/staging.c	where reads go to
 */
#ifndef GM_WORKER_IO_LOAD_H
#define GM_WORKER_IO_LOAD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "agent/common/wire.h"
#include "agent/device/device.h"
#include "agent/worker/io/aligned_read.h"

#define GM_LOAD_CHUNKS    4u
#define GM_LOAD_READS_MAX (GM_LOAD_DEPTH_MAX * GM_LOAD_CHUNKS)
#define GM_LOAD_SLICE     (UINT64_C(128) << 10) /* beside others */
#define GM_LOAD_ROUNDS    4u                    /* without a load */
#define GM_LOAD_PART      3u /* of staging that is not late, for a uid */
#define GM_LOAD_LATE_NS   UINT64_C(2000000000)          /* of a read */
#define GM_LOAD_IDLE_NS   UINT64_C(5000000000)          /* of all staging */
#define GM_LOAD_NAP_NS    (UINT64_C(500) * 1000 * 1000) /* to look, at most */

struct gm_worker_session;
struct gm_worker;
struct gm_chunk;

enum gm_piece_state {
	GM_PIECE_FREE,
	GM_PIECE_READING, /* the kernel has it */
	GM_PIECE_READY,   /* to be copied, or on with */
	GM_PIECE_COPYING  /* the device has it */
};

/* Staging of one read. */
struct gm_piece {
	TAILQ_ENTRY(gm_piece) entry; /* of those free, or of its load */
	struct gm_load *load;
	struct gm_chunk *chunk;
	enum gm_piece_state state;
	char *at;
	struct gm_read read;
	uint64_t to;     /* in the load, of the first byte that is wanted */
	uint32_t copied; /* bytes of those that are */
	uint32_t slice;  /* bytes that are being copied */
	uint32_t tries;  /* that were refused for being past the cache */
	bool is_late;    /* and its place in the depth another's */
	uint64_t since_ns;
	struct gm_async_exec flight;
};

TAILQ_HEAD(gm_pieces, gm_piece);

/* A uid, as long as any load of its is there, and for some rounds more: who has
 * one after the other has his share of staging between them, too. */
struct gm_reader {
	LIST_ENTRY(gm_reader) entry;
	uint32_t uid;
	uint32_t round; /* in which it was last seen to have a load */
	uint32_t n_loads;
	uint32_t n_asked;  /* of them, those that an entry waits for */
	uint32_t n_pieces; /* staging that they have, those too that nobody
			    * asks for */
	uint32_t n_late;   /* of it */
	uint64_t asked;    /* bytes, as if it had asked for as many as the
			    * others when it came */
};

/* An entry that has begun, what reads of it have left to do, or one that is
 * read ahead. */
struct gm_load {
	TAILQ_ENTRY(gm_load) entry;
	struct gm_worker_session *session; /* NULL: nobody asks any more */
	struct gm_reader *reader;
	uint64_t handle; /* of the file */
	int fd;
	uint64_t at;          /* in the file */
	struct gm_task task;  /* COPY, without its source */
	uint64_t deadline_ns; /* after which nothing is begun; 0: none */
	uint64_t copied;      /* bytes that are where they belong */
	struct gm_aligned_read cut;
	struct gm_pieces pieces;
	uint32_t n_copies; /* that the device has */
	int32_t status;    /* of the first failure: nothing is begun any more */
	bool is_last;      /* nothing is read ahead of it any more */

	/* Of one whose entry has not begun. */
	bool is_ahead;          /* it is such: reads only */
	struct gm_load *behind; /* the next of its session's, NULL: none */
	uint32_t pos;           /* of its entry */
	uint64_t since_ns;
};

/* What a worker has of all this. */
struct gm_loader {
	uint32_t depth;              /* reads under way */
	uint32_t read_bytes;         /* of one at most */
	TAILQ_HEAD(, gm_load) loads; /* in turn */
	LIST_HEAD(, gm_reader) readers;
	uint64_t asked; /* of the reader that had staging last, before */
	uint32_t n_loads;
	uint32_t n_asked; /* of them, those that an entry waits for */
	struct gm_chunk *chunk[GM_LOAD_CHUNKS]; /* NULL: none */
	uint32_t n_chunks;
	struct gm_pieces free;
	uint32_t n_used;     /* pieces that are not free */
	uint32_t n_late;     /* of them */
	uint32_t n_ahead;    /* of them, those that are read ahead */
	uint32_t n_copies;   /* of all loads */
	uint64_t refused_at; /* worker's count of landings at an -EAGAIN */
	uint64_t idle_ns;    /* since when nothing is under way */
	bool growing;        /* the slow thread makes or drops a chunk */
	bool look;           /* something has come that a pass has not seen */
	bool held;           /* and something waits for the next round */
};

/* Before anything else; 0 for what is usual. */
void gm_load_init(struct gm_loader *loader, uint32_t depth,
		  uint32_t read_bytes);

/*
 * gm_load_begin - have @session->errand done, which is a LOAD's
 *
 * Everything before it has ended.
 *
 * Returns	0: the session is stalled.  Otherwise the status of the entry:
 *		-ESTALE		the file was forgotten meanwhile
 *		-ENOMEM
 */
int gm_load_begin(struct gm_worker *worker, struct gm_worker_session *session);

/* A read has ended, with what read(2) returns or a negative errno. */
void gm_load_read_ended(struct gm_worker *worker, uint32_t piece, int res);

/* Some reads, and a slice.  Returns whether anything was done. */
bool gm_load_pass(struct gm_worker *worker);

/* By the clock: what is late, and what is not needed any more. */
void gm_load_tick(struct gm_worker *worker);

/* Has anything to be looked at by the clock? */
static inline bool gm_load_wants_clock(const struct gm_loader *loader)
{
	return loader->n_chunks != 0 || loader->n_loads != 0;
}

/* How long until there is to be such a look, 0 for no such time: that of an
 * entry that is to end is not waited for in vain. */
uint64_t gm_load_nap(const struct gm_worker *worker);

/* Is something to be copied in this round yet, or being copied for one who has
 * something left of it? */
bool gm_load_is_owed(const struct gm_worker *worker);

/* Would a pass find something that has come since the last? */
static inline bool gm_load_due(const struct gm_loader *loader)
{
	return loader->n_loads && loader->look;
}

/* The session has ended or leaves: begin nothing more.  As long as it has
 * @session->load then the device has something of it, and gm_async_ops_depart()
 * is called again. */
void gm_load_leave(struct gm_worker *worker, struct gm_worker_session *session);

/* Since when the device has the oldest slice, 0 for none. */
uint64_t gm_load_oldest_ns(const struct gm_loader *loader);

#endif
