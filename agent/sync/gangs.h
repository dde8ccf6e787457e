/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gangs - reservations on several nodes, all or none.
 *
 * The node of the asking process puts the gang's record, each member reserves
 * and puts its answer, both under the lease of their node.  The protocol is
 * modelled in tests/model/gang.pml.
 *
 *   - Events of the store, of processes and of the agent only change what is
 *     known here; gm_gangs_tick() then looks at every gang, and does what is to
 *     be done.
 *   - The process is told when all members have answered that they hold.  A
 *     gang of which it was told is lost when one of these answers goes.
 *   - A member holds while its lease and the record are there, and the answers
 *     of all others have been there since it has seen them.  A member that does
 *     not see them within half the lease's time gives up.
 *   - No member waits while it holds: so no two gangs wait for each other.
 */
#ifndef GM_GANGS_H
#define GM_GANGS_H

#include <sys/queue.h>

#include "agent/store/keys.h"
#include "agent/sync/client.h"
#include "agent/sync/gang_record.h"
#include "agent/sync/sync.h"

#define GM_GANGS_TAKEN_MAX 1024u /* that a node takes part in */

/* The functions that gangs need besides the store.  Tests have their own. */
struct gm_gangs_ops {
	uint64_t (*now)(void);
	bool (*agent_answers)(const struct gm_sync *sync);
	/* Hold the map of a record for its user.  Returns 0; -EAGAIN: the
	 * agent has gone; or an error for the process that asks. */
	int (*reserve)(struct gm_sync *sync,
		       const struct gm_gang_record *record,
		       const struct gm_gang_member *member,
		       uint64_t *ret_version, char ret_why[GM_WHY_BYTES]);
	/* Is the map there?  @version 0: any that may be this process's. */
	bool (*has)(const struct gm_sync *sync,
		    const struct gm_gang_record *record, uint64_t version);
	/* Returns 0; -ENOENT; -EPERM: this process does not hold it; or
	 * another error. */
	int (*release)(struct gm_sync *sync, const char *name);
};

extern const struct gm_gangs_ops gm_gang_agent_ops; /* gang_agent.c */

/* An answer as it was seen last, or written. */
struct gm_gang_seen {
	struct gm_key key;
	struct gm_gang_answer answer;
};

struct gm_gangs_watch {
	struct gm_store_watch watch;
	struct gm_gangs *gangs;
	bool is_synced;  /* all that was there has been seen */
	uint64_t cut_ns; /* since when it may miss something; 0: it does not */
};

struct gm_gang;      /* gang_ask.c */
struct gm_gang_hold; /* gang_hold.c */

struct gm_gangs {
	struct gm_sync *sync;
	const struct gm_gangs_ops *ops;
	struct gm_gangs_watch records;
	struct gm_gangs_watch answers;
	struct gm_keys seen;             /* struct gm_gang_seen */
	LIST_HEAD(, gm_gang) asked;      /* by processes of this node */
	LIST_HEAD(, gm_gang_hold) taken; /* this node is a member */
	uint32_t n_taken;
	uint64_t opened_ns;
	uint64_t due_ns;
};

/* Returns 0 or a negative errno. */
int gm_gangs_open(struct gm_sync *sync, const struct gm_gangs_ops *ops,
		  struct gm_gangs **ret_gangs);

/* The store is gone. */
void gm_gangs_close(struct gm_gangs *gangs);

void gm_gangs_tick(struct gm_gangs *gangs, uint64_t now_ns);

/* Have it called at a time, 0: at once. */
void gm_gangs_wake(struct gm_gangs *gangs, uint64_t due_ns);

/* Can this node have gangs?  Its lease is held, and its watches have missed
 * nothing for longer than that.  If not @ret_why is the reason. */
bool gm_gangs_is_in(struct gm_gangs *gangs, uint64_t now_ns,
		    const char **ret_why);

/* The answer of a node for "NODE/ID", or NULL. */
struct gm_gang_seen *gm_gangs_answer(const struct gm_gangs *gangs,
				     const char *node, const char *gang);

#endif
