/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/sync/gangs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/common/log.h"
#include "agent/sync/config.h"
#include "agent/sync/gang_ask.h"
#include "agent/sync/gang_hold.h"
#include "agent/sync/parts.h"

void gm_gangs_wake(struct gm_gangs *gangs, uint64_t due_ns)
{
	if (due_ns < gangs->due_ns)
		gangs->due_ns = due_ns;
}

static bool is_whole(struct gm_gangs *gangs, const struct gm_gangs_watch *watch,
		     uint64_t now_ns)
{
	uint64_t until_ns = watch->cut_ns + gangs->sync->config->ttl_ns;

	if (watch->cut_ns == 0)
		return true;
	if (now_ns < until_ns)
		gm_gangs_wake(gangs, until_ns);
	return now_ns < until_ns;
}

bool gm_gangs_is_in(struct gm_gangs *gangs, uint64_t now_ns,
		    const char **ret_why)
{
	if (!gangs->sync->lease->held)
		*ret_why = "its lease of the store is lost";
	else if (!gangs->records.is_synced || !gangs->answers.is_synced)
		*ret_why = "it has not yet seen what is in the store";
	else if (!is_whole(gangs, &gangs->records, now_ns) ||
		 !is_whole(gangs, &gangs->answers, now_ns))
		*ret_why = "it sees no changes in the store";
	else
		return true;
	return false;
}

/* ---- answers ------------------------------------------------------------- */

static void key_of(char ret_key[GM_GANG_KEY_BYTES], const char *node,
		   const char *gang)
{
	snprintf(ret_key, GM_GANG_KEY_BYTES, GM_GANG_ANSWERS "%s%s", node,
		 strchr(gang, '/'));
}

struct gm_gang_seen *gm_gangs_answer(const struct gm_gangs *gangs,
				     const char *node, const char *gang)
{
	char key[GM_GANG_KEY_BYTES];
	struct gm_gang_seen *seen;

	key_of(key, node, gang);
	seen = (struct gm_gang_seen *)gm_keys_find(&gangs->seen, key);
	return seen != NULL && (seen->answer.gang[0] == '\0' ||
				strcmp(seen->answer.gang, gang) == 0)
		       ? seen
		       : NULL;
}

static void forget_answer(struct gm_gangs *gangs, const char *key)
{
	for (size_t i = 0; i < gangs->seen.n; i++) {
		if (strcmp(gangs->seen.list[i]->key, key) == 0) {
			gm_keys_remove(&gangs->seen, i);
			return;
		}
	}
}

static void take_answer(struct gm_gangs *gangs,
			const struct gm_store_event *event, const char *node)
{
	struct gm_gang_answer answer = { .status = -EPROTO };
	char why[GM_WHY_BYTES] = "";
	struct gm_gang_seen *seen;
	int r = -EPROTO;

	if (event->value != NULL)
		r = gm_gang_answer_decode(event->value, event->bytes, &answer,
					  why);
	else
		snprintf(why, sizeof(why), "%s", event->why);
	seen = (struct gm_gang_seen *)gm_keys_find(&gangs->seen, event->key);
	if (r != 0 && (seen == NULL || seen->key.revision != event->revision))
		gm_log(GM_LOG_WARNING, "answer_refused", "node=%s why=%s", node,
		       gm_quote(why).text);
	if (r != 0)
		snprintf(answer.why, sizeof(answer.why),
			 "its answer is damaged: %.150s", why);
	seen = (struct gm_gang_seen *)gm_keys_add(&gangs->seen, event->key);
	if (seen == NULL)
		return;
	seen->key.revision = event->revision;
	seen->answer = answer;
}

/* ---- watches ------------------------------------------------------------- */

/* Treat what a watch says of itself.  False: it says something of a key. */
static bool take_state(struct gm_gangs_watch *watch,
		       const struct gm_store_event *event)
{
	if (event->kind == GM_STORE_RESYNC) {
		watch->is_synced = true;
		watch->cut_ns = 0;
	} else if (event->kind == GM_STORE_CUT) {
		if (watch->cut_ns == 0)
			watch->cut_ns = watch->gangs->ops->now();
	} else {
		return false;
	}
	return true;
}

static bool is_this(const struct gm_gangs *gangs, const char *node)
{
	return strcmp(node, gangs->sync->config->node) == 0;
}

static void record_event(struct gm_store_watch *of,
			 const struct gm_store_event *event)
{
	struct gm_gangs_watch *watch = (struct gm_gangs_watch *)of;
	struct gm_gangs *gangs = watch->gangs;
	char node[64], id[GM_GANG_ID_BYTES];

	gm_gangs_wake(gangs, 0);
	if (take_state(watch, event) ||
	    !gm_gang_key_split(event->key, GM_GANG_RECORDS, node, id))
		return;
	if (is_this(gangs, node))
		gm_gang_ask_event(gangs, id, event);
	gm_gang_hold_event(gangs, event->key + strlen(GM_GANG_RECORDS), event);
}

static void answer_event(struct gm_store_watch *of,
			 const struct gm_store_event *event)
{
	struct gm_gangs_watch *watch = (struct gm_gangs_watch *)of;
	struct gm_gangs *gangs = watch->gangs;
	char node[64], id[GM_GANG_ID_BYTES];

	gm_gangs_wake(gangs, 0);
	if (take_state(watch, event) ||
	    !gm_gang_key_split(event->key, GM_GANG_ANSWERS, node, id))
		return;
	if (event->kind == GM_STORE_DELETE)
		forget_answer(gangs, event->key);
	else
		take_answer(gangs, event, node);
}

/* Answers of this node, for gangs that are not there, are its predecessor's, or
 * were written late. */
static void remove_stray_answers(struct gm_gangs *gangs)
{
	char node[64], id[GM_GANG_ID_BYTES];

	for (size_t i = 0; i < gangs->seen.n; i++)
		if (gm_gang_key_split(gangs->seen.list[i]->key, GM_GANG_ANSWERS,
				      node, id) &&
		    is_this(gangs, node))
			gm_gang_hold_remove(gangs, id);
}

void gm_gangs_tick(struct gm_gangs *gangs, uint64_t now_ns)
{
	const char *why;

	gangs->due_ns = GM_SYNC_NEVER;
	if (gm_gangs_is_in(gangs, now_ns, &why))
		remove_stray_answers(gangs);
	gm_gang_ask_tick(gangs, now_ns);
	gm_gang_hold_tick(gangs, now_ns);
}

/* ---- begin and end ------------------------------------------------------- */

int gm_gangs_open(struct gm_sync *sync, const struct gm_gangs_ops *ops,
		  struct gm_gangs **ret_gangs)
{
	struct gm_gangs *gangs = calloc(1, sizeof(*gangs));
	int r;

	if (gangs == NULL)
		return -ENOMEM;
	gangs->sync = sync;
	gangs->ops = ops;
	gangs->seen.entry_bytes = sizeof(struct gm_gang_seen);
	gangs->opened_ns = ops->now();
	gangs->due_ns = GM_SYNC_NEVER;
	gangs->records.gangs = gangs->answers.gangs = gangs;
	gangs->records.watch = (struct gm_store_watch){
		.prefix = GM_GANG_RECORDS,
		.event = record_event,
	};
	gangs->answers.watch = (struct gm_store_watch){
		.prefix = GM_GANG_ANSWERS,
		.event = answer_event,
	};
	r = gm_store_watch(sync->store, &gangs->records.watch);
	if (r == 0)
		r = gm_store_watch(sync->store, &gangs->answers.watch);
	/* The store has a watch of them until it is closed. */
	*ret_gangs = gangs;
	return r;
}

void gm_gangs_close(struct gm_gangs *gangs)
{
	if (gangs == NULL)
		return;
	gm_gang_ask_close(gangs);
	gm_gang_hold_close(gangs);
	gm_keys_free(&gangs->seen);
	free(gangs);
}

/* ---- the part ------------------------------------------------------------ */

static int open_gangs(struct gm_sync *sync)
{
	return gm_gangs_open(sync, &gm_gang_agent_ops, &sync->gangs);
}

static void close_gangs(struct gm_sync *sync)
{
	gm_gangs_close(sync->gangs);
	sync->gangs = NULL;
}

static void changed(struct gm_sync *sync)
{
	if (sync->gangs != NULL)
		gm_gangs_wake(sync->gangs, 0);
}

static uint64_t due(const struct gm_sync *sync)
{
	return sync->gangs->due_ns;
}

static void tick(struct gm_sync *sync, uint64_t now_ns)
{
	gm_gangs_tick(sync->gangs, now_ns);
}

static const struct gm_sync_request requests[] = {
	{ GM_SYNC_GANG_RESERVE, sizeof(struct gm_sync_gang), true,
	  gm_gang_ask_reserve },
	{ GM_SYNC_GANG_RELEASE, 0, false, gm_gang_ask_release },
};

const struct gm_sync_part gm_gangs_part = {
	.open = open_gangs,
	.close = close_gangs,
	.requests = requests,
	.n_requests = sizeof(requests) / sizeof(requests[0]),
	.client_gone = gm_gang_ask_gone,
	.lease = changed,
	.agent = changed,
	.due = due,
	.tick = tick,
};
