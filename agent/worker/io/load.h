/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * load - executes LOAD: reads bytes of a client's file into memory that entries
 * may name.
 *
 * Reads go through the worker's io_uring, many at a time, into staging memory
 * that belongs to the worker, because the kernel goes on writing to a read's
 * target even if its session is gone.  Data that was read is copied to its
 * place in slices, between the turns of sessions.  Reads in progress therefore
 * delay no session that leaves; only their staging stays in use.
 *
 * Storage that never answers: the kernel reads in its own threads.  The reads
 * of a load that has failed, is over its deadline, or whose session has left
 * are cancelled, which ends all but those that wait uninterruptibly.  The loads
 * of a uid have at most their share of the staging.  Staging held by late reads
 * is replaced, up to GM_LOAD_CHUNKS times in all.  A uid whose reads are all
 * late does not count for shares.  A uid has at most 1/GM_LOAD_PART of the
 * staging that late reads do not hold, so several uids must be stuck before
 * others find none.
 *
 * Order: the loads of all sessions take turns for staging and for copies.  The
 * session of a load is stalled, and goes on by itself when its entry has ended.
 *
 * Read-ahead keeps storage busy while the last reads of an entry end.  When all
 * reads of an entry have begun, those of the LOADs behind it in its queue
 * begin, unless another session wants to read.  These entries stay in the ring:
 * they are not in the journal and nothing of them is copied, so memory changes
 * in order.  An entry that begins takes over the data read for it if it is the
 * same LOAD: the client may change the slot until then.  An entry is validated
 * before its read-ahead, and again when it begins.
 *
 * Loads that are read ahead are in their session's list and have no status of
 * their own.  The whole list is dropped if one fails, is late or is forgotten,
 * if another entry comes next, or if the session leaves.  Its reads in progress
 * are cancelled, and an entry reads again when it begins.
 *
 * A file that is memory, such as a memfd, is not read ahead, because earlier
 * entries may write it.  They do not write other files.
 *
 * Read-ahead occupies staging that the entries before it no longer need, but
 * other sessions may.  So read-ahead has at most half of the depth, and none
 * once reads of its uid are late.
 *
 * Copies count in the user's round (queue/drr.h).  For a user that has used up
 * the round nothing is copied and no read begins; data of reads in progress
 * stays in staging until the next round.  Uids that load have equal parts of
 * the staging, and free staging goes to the uid with the least.  A round waits
 * for copies of data already read for users with credit, and never for reads.
 *
 * load.c		loads in progress, and the order between them
 * load_ahead.c	read-ahead
 * load_reads.c	reads
 * load_copies.c	copies
 * memory/staging.c	staging memory
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
/* Slice while sessions are awake. */
#define GM_LOAD_SLICE (UINT64_C(128) << 10)
/* Rounds without a load until a uid's share ends. */
#define GM_LOAD_ROUNDS 4u
/* A uid's limit is 1/3 of the staging without late reads. */
#define GM_LOAD_PART 3u
/* A read is late after this. */
#define GM_LOAD_LATE_NS UINT64_C(2000000000)
/* Staging is freed when idle for this. */
#define GM_LOAD_IDLE_NS UINT64_C(5000000000)
/* Longest sleep between two checks. */
#define GM_LOAD_NAP_NS (UINT64_C(500) * 1000 * 1000)

struct gm_worker_session;
struct gm_worker;
struct gm_chunk;

enum gm_piece_state {
	GM_PIECE_FREE,
	GM_PIECE_READING, /* a read is in progress */
	GM_PIECE_READY,   /* to be copied further */
	GM_PIECE_COPYING  /* the device copies it */
};

/* Staging of one read. */
struct gm_piece {
	/* In the list of free pieces, or of its load. */
	TAILQ_ENTRY(gm_piece) entry;
	struct gm_load *load;
	struct gm_chunk *chunk;
	enum gm_piece_state state;
	char *at;
	struct gm_read read;
	uint64_t to;     /* offset in the load of the first wanted byte */
	uint32_t copied; /* wanted bytes that are copied */
	uint32_t slice;  /* bytes of the copy in progress */
	uint32_t tries;  /* reads of this piece that were refused */
	/* The read is late and no longer counts in the depth. */
	bool is_late;
	uint64_t since_ns;
	struct gm_async_exec flight;
};

TAILQ_HEAD(gm_pieces, gm_piece);

/* A uid with loads.  The struct stays for some rounds after the last load, so
 * that a uid with one load after the other keeps its share of staging. */
struct gm_reader {
	LIST_ENTRY(gm_reader) entry;
	uint32_t uid;
	uint32_t round; /* last round in which it had a load */
	uint32_t n_loads;
	uint32_t n_asked; /* loads that an entry waits for */
	/* Pieces of staging that its loads have, including loads that no entry
	 * needs any more. */
	uint32_t n_pieces;
	uint32_t n_late; /* pieces with a late read */
	/* Bytes requested, starting from the count of the other uids when this
	 * one came. */
	uint64_t asked;
};

/* A load: an entry that has begun, one that is read ahead, or the remaining
 * reads of one that no entry needs any more. */
struct gm_load {
	TAILQ_ENTRY(gm_load) entry;
	struct gm_worker_session *session; /* NULL: no entry needs it now */
	struct gm_reader *reader;
	uint64_t handle; /* of the file */
	int fd;
	uint64_t at;          /* offset in the file */
	struct gm_task task;  /* COPY, without its source */
	uint64_t deadline_ns; /* nothing starts after it; 0: none */
	uint64_t copied;      /* bytes copied to their place */
	struct gm_aligned_read cut;
	struct gm_pieces pieces;
	uint32_t n_copies; /* copies in flight */
	/* First failure; nothing new starts after it. */
	int32_t status;
	/* No entry behind it is read ahead. */
	bool is_last;

	/* For an entry that has not begun: */
	bool is_ahead; /* read ahead: reads only */
	/* Next read-ahead of the session, or NULL. */
	struct gm_load *behind;
	uint32_t pos; /* position of its entry */
	uint64_t since_ns;
};

/* The loads and the staging of a worker. */
struct gm_loader {
	uint32_t depth;              /* limit of reads at once */
	uint32_t read_bytes;         /* limit of one read */
	TAILQ_HEAD(, gm_load) loads; /* in the order of their turns */
	LIST_HEAD(, gm_reader) readers;
	/* Count of the uid that got staging last, before that piece. */
	uint64_t asked;
	uint32_t n_loads;
	uint32_t n_asked; /* loads that an entry waits for */
	struct gm_chunk *chunk[GM_LOAD_CHUNKS]; /* NULL: not allocated */
	uint32_t n_chunks;
	struct gm_pieces free;
	uint32_t n_used;     /* pieces in use */
	uint32_t n_late;     /* pieces in use whose read is late */
	uint32_t n_ahead;    /* pieces in use of read-ahead */
	uint32_t n_copies;   /* copies in flight of all loads */
	uint64_t refused_at; /* worker->landed at the last refused start */
	uint64_t idle_ns;    /* since when no load exists */
	/* The slow thread allocates or frees a chunk. */
	bool growing;
	/* An event came that no pass has handled yet. */
	bool look;
	/* A load waits for the next round. */
	bool held;
};

/* Called first; 0 selects the default. */
void gm_load_init(struct gm_loader *loader, uint32_t depth,
		  uint32_t read_bytes);

/*
 * gm_load_begin - begin the session's request, which is a LOAD
 *
 * All entries before it have ended.
 *
 * Returns	0: the session is stalled.  Otherwise the status of the entry:
 *		-ESTALE		the file was forgotten meanwhile
 *		-ENOMEM
 */
int gm_load_begin(struct gm_worker *worker, struct gm_worker_session *session);

/* A read has ended.  @res is the result of read(2) or a negative errno. */
void gm_load_read_ended(struct gm_worker *worker, uint32_t piece, int res);

/* Start some reads, and copy a slice.  Returns whether any work was done. */
bool gm_load_pass(struct gm_worker *worker);

/* Find late reads and expired loads, and free unused staging.  Called when the
 * clock is read. */
void gm_load_tick(struct gm_worker *worker);

/* Does the loader need gm_load_tick()? */
static inline bool gm_load_wants_clock(const struct gm_loader *loader)
{
	return loader->n_chunks != 0 || loader->n_loads != 0;
}

/* How long until gm_load_tick() is needed at the latest, 0 if it is not needed.
 * Then the deadline of a load is met even while the worker sleeps. */
uint64_t gm_load_nap(const struct gm_worker *worker);

/* Does data wait to be copied in this round, or is a copy in flight, for a user
 * with credit? */
bool gm_load_is_owed(const struct gm_worker *worker);

/* Would a pass find an event that no pass has handled yet? */
static inline bool gm_load_due(const struct gm_loader *loader)
{
	return loader->n_loads && loader->look;
}

/* The session has ended or leaves: start nothing new.  If @session->load is set
 * afterwards, the device still has a copy in flight, and gm_async_ops_depart()
 * is called again. */
void gm_load_leave(struct gm_worker *worker, struct gm_worker_session *session);

/* Since when the oldest copy is in flight, 0 for none. */
uint64_t gm_load_oldest_ns(const struct gm_loader *loader);

#endif
