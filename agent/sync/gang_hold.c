/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/sync/gang_hold.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/common/log.h"
#include "agent/sync/config.h"

#define RETRY_NS UINT64_C(200000000)  /* of what has failed */
#define LOOK_NS  UINT64_C(1000000000) /* at the maps that are held */
#define YOUNG_NS UINT64_C(1000000000) /* after the start */

enum hold_state {
	HOLD_NEW = 1, /* nothing has been decided: the node is cut off */
	HOLD_SEEN,    /* the agent is to be asked */
	HOLD_HELD,
	HOLD_REFUSED,
	HOLD_OVER /* the record is gone */
};

struct gm_gang_hold {
	LIST_ENTRY(gm_gang_hold) entry;
	struct gm_gangs *gangs;
	enum hold_state state;
	char path[GM_GANG_PATH_BYTES]; /* "NODE/ID" of the gang */
	char key[GM_GANG_KEY_BYTES];   /* of this node's answer */
	struct gm_gang_record record;
	const struct gm_gang_member *member; /* this node */
	char *text;                          /* of the record */
	size_t text_bytes;
	bool is_complete;    /* all others hold */
	bool is_reserved;    /* the agent has the map, or may have */
	uint64_t version;    /* of the map; 0: not known */
	uint64_t until_ns;   /* of the agent's answer, then of the others' */
	uint64_t agent_ns;   /* when to ask the agent again, or to look */
	uint64_t release_ns; /* when to release again */
	uint64_t store_ns;   /* when to write again */
	struct gm_gang_answer answer; /* that is to be in the store */
	struct gm_store_write write;
	bool is_writing;
	char *value;
};

/* ---- the list ------------------------------------------------------------ */

static struct gm_gang_hold *find(const struct gm_gangs *gangs, const char *id)
{
	struct gm_gang_hold *hold;

	LIST_FOREACH(hold, &gangs->taken, entry)
	if (strcmp(strchr(hold->path, '/') + 1, id) == 0)
		return hold;
	return NULL;
}

static struct gm_gang_hold *make(struct gm_gangs *gangs, const char *path,
				 enum hold_state state)
{
	struct gm_gang_hold *hold;

	if (gangs->n_taken == GM_GANGS_TAKEN_MAX)
		return NULL;
	hold = calloc(1, sizeof(*hold));
	if (hold == NULL)
		return NULL;
	hold->gangs = gangs;
	hold->state = state;
	snprintf(hold->path, sizeof(hold->path), "%s", path);
	snprintf(hold->key, sizeof(hold->key), GM_GANG_ANSWERS "%s%s",
		 gangs->sync->config->node, strchr(path, '/'));
	memcpy(hold->answer.gang, hold->path, sizeof(hold->path));
	memcpy(hold->answer.instance, gangs->sync->instance,
	       sizeof(hold->answer.instance));
	LIST_INSERT_HEAD(&gangs->taken, hold, entry);
	gangs->n_taken++;
	return hold;
}

static void free_hold(struct gm_gang_hold *hold)
{
	LIST_REMOVE(hold, entry);
	hold->gangs->n_taken--;
	gm_gang_record_free(&hold->record);
	free(hold->text);
	free(hold->value);
	free(hold);
}

/* ---- records ------------------------------------------------------------- */

/* Returns false where this node is no member, or the record is none. */
static bool read_record(struct gm_gangs *gangs, const char *path,
			const struct gm_store_event *event,
			struct gm_gang_record *ret_record)
{
	char why[GM_WHY_BYTES] = "";
	int r = -EPROTO;

	if (event->value != NULL)
		r = gm_gang_record_decode(event->value, event->bytes,
					  ret_record, why);
	else
		snprintf(why, sizeof(why), "%s", event->why);
	if (r != 0) {
		gm_log(GM_LOG_WARNING, "gang_refused", "gang=%s why=%s", path,
		       gm_quote(why).text);
		return false;
	}
	if (gm_gang_record_find(ret_record, gangs->sync->config->node) != NULL)
		return true;
	gm_gang_record_free(ret_record);
	return false;
}

static void take_record(struct gm_gangs *gangs, const char *path,
			const struct gm_store_event *event)
{
	struct gm_gang_record record = { 0 };
	struct gm_gang_hold *hold;

	if (!read_record(gangs, path, event, &record))
		return;
	hold = make(gangs, path, HOLD_NEW);
	if (hold == NULL || (hold->text = malloc(event->bytes)) == NULL) {
		gm_log(GM_LOG_WARNING, "gang_left_out", "gang=%s why=%s", path,
		       gm_quote("this node takes part in too many gangs, or "
				"is out of memory")
			       .text);
		gm_gang_record_free(&record);
		if (hold != NULL)
			free_hold(hold);
		return;
	}
	memcpy(hold->text, event->value, event->bytes);
	hold->text_bytes = event->bytes;
	hold->record = record;
	hold->member =
		gm_gang_record_find(&hold->record, gangs->sync->config->node);
}

static bool is_same(const struct gm_gang_hold *hold,
		    const struct gm_store_event *event)
{
	return event->kind == GM_STORE_PUT && event->value != NULL &&
	       event->bytes == hold->text_bytes &&
	       memcmp(event->value, hold->text, event->bytes) == 0;
}

void gm_gang_hold_event(struct gm_gangs *gangs, const char *path,
			const struct gm_store_event *event)
{
	struct gm_gang_hold *hold = find(gangs, strchr(path, '/') + 1);

	if (hold == NULL) {
		if (event->kind == GM_STORE_PUT)
			take_record(gangs, path, event);
		return;
	}
	/* Another node's, that chose the same ID. */
	if (strcmp(hold->path, path) != 0)
		return;
	/* A record does not change, nor return: this one is gone. */
	if (!is_same(hold, event))
		hold->state = HOLD_OVER;
}

void gm_gang_hold_remove(struct gm_gangs *gangs, const char *id)
{
	char path[GM_GANG_PATH_BYTES];

	if (find(gangs, id) != NULL)
		return;
	snprintf(path, sizeof(path), "%s/%s", gangs->sync->config->node, id);
	make(gangs, path, HOLD_OVER);
}

/* ---- the agent ----------------------------------------------------------- */

static void refuse(struct gm_gang_hold *hold, int status, const char *why)
{
	hold->state = HOLD_REFUSED;
	hold->is_complete = false;
	hold->answer.status = status;
	snprintf(hold->answer.why, sizeof(hold->answer.why), "%s", why);
}

/* Another gang's map of the same name; of those that end, too. */
static const struct gm_gang_hold *namesake(const struct gm_gang_hold *of)
{
	const struct gm_gang_hold *hold;

	LIST_FOREACH(hold, &of->gangs->taken, entry)
	if (hold != of && hold->is_reserved &&
	    strcmp(hold->record.name, of->record.name) == 0)
		return hold;
	return NULL;
}

/* The agent may not have seen yet that a predecessor has ended. */
static bool is_young(const struct gm_gangs *gangs, uint64_t now_ns)
{
	return now_ns < gangs->opened_ns + YOUNG_NS;
}

static void reserve(struct gm_gang_hold *hold, uint64_t now_ns)
{
	struct gm_gangs *gangs = hold->gangs;
	const struct gm_gang_hold *other = namesake(hold);
	char why[GM_WHY_BYTES] = "";
	int r;

	if (!gangs->sync->config->gangs) {
		refuse(hold, -EPERM,
		       "it takes no gangs: see [cluster] gangs of its "
		       "gpumap-sync.conf");
		return;
	}
	if (other != NULL && other->state == HOLD_HELD) {
		refuse(hold, -EEXIST,
		       "another gang has a map of this name there: choose "
		       "another name");
		return;
	}
	hold->agent_ns = now_ns + RETRY_NS;
	if (other != NULL || hold->is_reserved ||
	    !gangs->ops->agent_answers(gangs->sync))
		return;
	hold->version = 0;
	r = gangs->ops->reserve(gangs->sync, &hold->record, hold->member,
				&hold->version, why);
	/* A request without an answer may have been carried out. */
	hold->is_reserved = r == 0 || r == -ETIMEDOUT || r == -EAGAIN;
	if (r == -EAGAIN || (r == -EEXIST && is_young(gangs, now_ns)))
		return;
	if (r != 0) {
		refuse(hold, r, why);
		return;
	}
	hold->state = HOLD_HELD;
	hold->until_ns = now_ns + gangs->sync->config->ttl_ns / 2;
	hold->release_ns = 0;
	hold->answer.status = 0;
	hold->answer.why[0] = '\0';
	hold->agent_ns = now_ns + LOOK_NS;
}

/* Gangs that wait for this name need not wait longer. */
static void free_name(const struct gm_gang_hold *of)
{
	struct gm_gang_hold *hold;

	LIST_FOREACH(hold, &of->gangs->taken, entry)
	if (hold->state == HOLD_SEEN &&
	    strcmp(hold->record.name, of->record.name) == 0)
		hold->agent_ns = 0;
	gm_gangs_wake(of->gangs, 0);
}

/* End a reservation that is not wanted. */
static void release(struct gm_gang_hold *hold, uint64_t now_ns)
{
	struct gm_gangs *gangs = hold->gangs;
	const char *name = hold->record.name;
	int r;

	if (now_ns < hold->release_ns)
		return;
	hold->release_ns = now_ns + RETRY_NS;
	if (!gangs->ops->agent_answers(gangs->sync))
		return;
	r = gangs->ops->has(gangs->sync, &hold->record, hold->version)
		    ? gangs->ops->release(gangs->sync, name)
		    : 0;
	/* Where the version is not known, it may be the user's own map. */
	hold->is_reserved =
		r != 0 && r != -ENOENT && (r != -EPERM || hold->version != 0);
	if (!hold->is_reserved)
		free_name(hold);
	else
		gm_log(GM_LOG_WARNING, "not_released", "name=%s why=%s",
		       gm_quote(name).text, gm_quote(gpumap_strerror(r)).text);
}

/* Is the map that is held still there? */
static void look(struct gm_gang_hold *hold, uint64_t now_ns)
{
	struct gm_gangs *gangs = hold->gangs;

	hold->agent_ns = now_ns + LOOK_NS;
	if (!gangs->ops->agent_answers(gangs->sync) ||
	    gangs->ops->has(gangs->sync, &hold->record, hold->version))
		return;
	hold->is_reserved = false;
	refuse(hold, -ENOLINK,
	       "the map was released there, or its agent has lost it");
}

/* ---- the next step -------------------------------------------------- */

/* Look at the other members' answers. */
static void watch_others(struct gm_gang_hold *hold, uint64_t now_ns)
{
	bool complete = hold->state == HOLD_HELD;
	char why[GM_WHY_BYTES];

	for (uint32_t i = 0; i < hold->record.n_members; i++) {
		const struct gm_gang_member *member = &hold->record.members[i];
		const struct gm_gang_seen *seen;

		if (member == hold->member)
			continue;
		seen = gm_gangs_answer(hold->gangs, member->node, hold->path);
		complete = complete && seen != NULL;
		if (seen != NULL ? seen->answer.status == 0
				 : !hold->is_complete)
			continue;
		gm_why(why, 0,
		       seen != NULL ? "node %s does not hold"
				    : "node %s is gone",
		       member->node);
		refuse(hold, -ECANCELED, why);
		return;
	}
	hold->is_complete = hold->is_complete || complete;
	if (hold->is_complete)
		return;
	if (now_ns >= hold->until_ns)
		refuse(hold, -ETIMEDOUT,
		       hold->state == HOLD_SEEN
			       ? "its agent does not answer"
			       : "not all nodes of the gang have held it in "
				 "time");
	else
		gm_gangs_wake(hold->gangs, hold->until_ns);
}

static void decide(struct gm_gang_hold *hold, uint64_t now_ns)
{
	struct gm_gangs *gangs = hold->gangs;
	const char *out = NULL;
	bool is_in = gm_gangs_is_in(gangs, now_ns, &out);

	if (hold->state == HOLD_OVER)
		return;
	if (!gangs->sync->lease->held) {
		hold->state = HOLD_NEW;
		hold->is_complete = false;
		return;
	}
	if (hold->state == HOLD_NEW && is_in && !hold->is_reserved) {
		hold->state = HOLD_SEEN;
		hold->until_ns = now_ns + gangs->sync->config->ttl_ns;
		hold->agent_ns = 0;
	}
	if ((hold->state == HOLD_SEEN || hold->state == HOLD_HELD) && !is_in)
		refuse(hold, -EHOSTUNREACH, out);
	if (hold->state == HOLD_SEEN || hold->state == HOLD_HELD)
		watch_others(hold, now_ns);
	if (hold->state == HOLD_SEEN && now_ns >= hold->agent_ns) {
		reserve(hold, now_ns);
		if (hold->state == HOLD_HELD)
			watch_others(hold, now_ns);
	} else if (hold->state == HOLD_HELD && now_ns >= hold->agent_ns) {
		look(hold, now_ns);
	}
}

/* ---- the answer ---------------------------------------------------------- */

/* A write says for sure what the store has.  Returns false where
 * there is no room to know it. */
static bool take_written(struct gm_gang_hold *hold, uint64_t revision,
			 bool is_ours)
{
	struct gm_keys *keys = &hold->gangs->seen;
	struct gm_gang_seen *seen;
	char why[GM_WHY_BYTES];

	if (revision == 0) {
		for (size_t i = 0; i < keys->n; i++) {
			if (strcmp(keys->list[i]->key, hold->key) == 0) {
				gm_keys_remove(keys, i);
				break;
			}
		}
		return true;
	}
	seen = (struct gm_gang_seen *)gm_keys_add(keys, hold->key);
	if (seen == NULL || (seen->key.revision == revision && !is_ours))
		return seen != NULL;
	seen->key.revision = revision;
	seen->answer = (struct gm_gang_answer){ .status = -EPROTO };
	if (is_ours)
		gm_gang_answer_decode(hold->write.value, hold->write.bytes,
				      &seen->answer, why);
	return true;
}

static void written(struct gm_store_write *write,
		    const struct gm_store_result *result)
{
	struct gm_gang_hold *hold =
		(struct gm_gang_hold *)((char *)write -
					offsetof(struct gm_gang_hold, write));

	bool is_known = true;

	hold->is_writing = false;
	gm_gangs_wake(hold->gangs, 0);
	if (result->status == 0)
		is_known = take_written(
			hold, write->value != NULL ? result->revision : 0,
			true);
	else if (result->status == -ESTALE)
		take_written(hold, result->revision, false);
	if (result->status != 0 || !is_known)
		hold->store_ns = hold->gangs->ops->now() + RETRY_NS;
}

static void start_write(struct gm_gang_hold *hold, bool deletes,
			uint64_t expected)
{
	struct gm_sync *sync = hold->gangs->sync;
	int n = 0;

	if (hold->value == NULL)
		hold->value = malloc(GM_STORE_VALUE_BYTES);
	if (!deletes)
		n = hold->value != NULL
			    ? gm_gang_answer_encode(&hold->answer, hold->value)
			    : -ENOMEM;
	hold->write = (struct gm_store_write){
		.key = hold->key,
		.value = deletes ? NULL : hold->value,
		.bytes = (size_t)n,
		.lease = deletes ? NULL : sync->lease,
		.expected = expected,
		.done = written,
	};
	hold->is_writing =
		n >= 0 && gm_store_cas(sync->store, &hold->write) == 0;
	if (!hold->is_writing)
		hold->store_ns = hold->gangs->ops->now() + RETRY_NS;
}

/* Have the store say what is. */
static void answer(struct gm_gang_hold *hold, uint64_t now_ns)
{
	const struct gm_gang_seen *seen = (struct gm_gang_seen *)gm_keys_find(
		&hold->gangs->seen, hold->key);
	bool deletes = hold->state == HOLD_OVER, is_right;

	if (hold->is_writing || !hold->gangs->sync->lease->held ||
	    hold->state == HOLD_NEW || hold->state == HOLD_SEEN)
		return;
	is_right =
		deletes ? seen == NULL
			: seen != NULL &&
				  seen->answer.status == hold->answer.status &&
				  strcmp(seen->answer.instance,
					 hold->answer.instance) == 0 &&
				  strcmp(seen->answer.gang, hold->path) == 0;
	if (is_right)
		return;
	if (now_ns < hold->store_ns)
		gm_gangs_wake(hold->gangs, hold->store_ns);
	else
		start_write(hold, deletes,
			    seen != NULL ? seen->key.revision : 0);
}

void gm_gang_hold_tick(struct gm_gangs *gangs, uint64_t now_ns)
{
	struct gm_gang_hold *hold, *next;

	for (hold = LIST_FIRST(&gangs->taken); hold != NULL; hold = next) {
		next = LIST_NEXT(hold, entry);
		decide(hold, now_ns);
		if (hold->is_reserved && hold->state != HOLD_HELD)
			release(hold, now_ns);
		answer(hold, now_ns);
		if (hold->is_reserved && hold->state != HOLD_HELD)
			gm_gangs_wake(gangs, hold->release_ns);
		else if (hold->state == HOLD_SEEN || hold->state == HOLD_HELD)
			gm_gangs_wake(gangs, hold->agent_ns);
		if (hold->state == HOLD_OVER && !hold->is_reserved &&
		    !hold->is_writing &&
		    (!gangs->sync->lease->held ||
		     gm_keys_find(&gangs->seen, hold->key) == NULL))
			free_hold(hold);
	}
}

void gm_gang_hold_close(struct gm_gangs *gangs)
{
	struct gm_gang_hold *hold;

	while ((hold = LIST_FIRST(&gangs->taken)) != NULL)
		free_hold(hold);
}
