/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The states of a model.  A session that would load a model with a name claims
 * the name first.  The agent lets one of several sessions load; the others
 * wait, and open the share when it is there.
 *
 * The requests that loading makes are not the caller's: they leave the caller's
 * last refusal as it was.
 */

#include "lib/model/model.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define TELL_STEPS 64u

/* ---- claim the name --------------------------------------------------- */

static uint32_t claim_flags(const struct gm_model_name *name)
{
	bool others = (name->flags & GPUMAP_SHARE_ANY_USER) != 0;
	bool keeps = (name->flags & GPUMAP_SHARE_KEEP) != 0;

	for (uint32_t i = 0; i < name->n_uids; i++)
		others |= name->uids[i] != geteuid();
	return (others ? GM_SHARE_CLAIM_OTHERS : 0) |
	       (keeps ? GM_SHARE_CLAIM_KEEP : 0);
}

/* Claim the name.  Either this session may load the model, or the model is
 * there and is opened, or another session is loading it. */
static int ask(struct gpumap_model *m)
{
	int ret =
		gm_share_claim(m->session, m->name.text, claim_flags(&m->name),
			       gm_model_expected(&m->name));

	if (ret == -EBUSY || ret == -EALREADY) {
		gm_reason_set(&m->why, 0, "%s", gpumap_refusal(m->map));
		return 0;
	}
	m->why.text[0] = '\0';
	if (ret == 0) {
		m->name.claimed = true;
		return gm_model_begin(m);
	}
	if (ret == -EEXIST) {
		ret = gm_model_adopt(m);
		if (ret == -ENOENT && m->name.share == 0 &&
		    m->why.text[0] == '\0')
			ret = 0; /* the share has just ended: ask again */
	}
	return ret;
}

int gm_model_turn_wait(struct gpumap_model *model)
{
	uint64_t now = gm_now_ns();
	char why[GM_WHY];
	int ret;

	if (now - model->name.asked_ns < GM_MODEL_ASK_NS)
		return 0;
	model->name.asked_ns = now;
	memcpy(why, gpumap_refusal(model->map), sizeof(why));
	ret = ask(model);
	if (ret != 0 && model->why.text[0] == '\0')
		gm_reason_set(&model->why, ret, "%s",
			      gpumap_refusal(model->map));
	if (ret != 0)
		gm_model_fail(model, ret);
	gm_map_refuse(model->map, why);
	return 0;
}

/* ---- states -------------------------------------------------------------- */

static int (*const turns[])(struct gpumap_model *model) = {
	[GPUMAP_MODEL_WAITING] = gm_model_turn_wait,
	[GPUMAP_MODEL_ALLOCATING] = gm_model_turn_alloc,
	[GPUMAP_MODEL_LOADING] = gm_model_turn_load,
	[GPUMAP_MODEL_ENDING] = gm_model_turn_end,
};

int gm_model_turn(struct gpumap_model *model)
{
	uint32_t state;
	int ret;

	if (gm_model_is_over(model))
		return 0;
	ret = gm_part_state(model->session);
	if (ret != 0 && model->state != GPUMAP_MODEL_ENDING) {
		gm_reason_set(&model->why, ret, "%s", gpumap_strerror(ret));
		gm_model_fail(model, ret);
	}
	do {
		state = model->state;
		ret = turns[state](model);
	} while (model->state != state && !gm_model_is_over(model));
	gm_models_tell(model->models);
	return ret;
}

/* ---- the session's models ------------------------------------------------ */

/* A request costs a round trip: TELL_STEPS of them and two for a load. */
static bool is_news(const struct gm_loading *told, const struct gm_loading *now)
{
	return now->total != told->total ||
	       now->bytes - told->bytes > now->total / TELL_STEPS;
}

void gm_models_tell(struct gm_models *models)
{
	struct gm_loading now = { .bytes = 0 };
	struct gm_call call = { GM_REQUEST(GM_CONTROL_LOADING, now) };
	struct gpumap_session *session = models->part.session;
	struct gpumap *map = gm_part_map(session);
	char why[GM_WHY];

	for (struct gpumap_model *m = models->first; m != NULL; m = m->next)
		if (m->state == GPUMAP_MODEL_LOADING) {
			now.bytes += m->loaded;
			now.total += m->total;
		}
	if (!is_news(&models->told, &now) || gm_part_state(session) != 0)
		return;
	models->told = now;
	memcpy(why, gpumap_refusal(map), sizeof(why));
	gm_session_call(session, &call, 0); /* an older agent shows none */
	gm_map_refuse(map, why);
}

void gm_models_turn(struct gm_models *models)
{
	models->part.wants_turn = false;
	for (struct gpumap_model *m = models->first; m != NULL; m = m->next) {
		gm_model_turn(m);
		models->part.wants_turn |= !gm_model_is_over(m);
	}
}

static void turn(struct gm_session_part *part)
{
	gm_models_turn((struct gm_models *)part);
}

/* Detach the models from a session that is being closed. */
static void drop(struct gm_session_part *part)
{
	struct gpumap_model *m, *next;

	for (m = ((struct gm_models *)part)->first; m != NULL; m = next) {
		next = m->next;
		if (m->state != GPUMAP_MODEL_FAILED) {
			m->state = GPUMAP_MODEL_FAILED;
			m->status = -ECANCELED;
			gm_reason_set(&m->why, -ECANCELED,
				      "its session was closed");
		}
		m->session = NULL;
	}
}

/* Forget the metadata that models have in a share which is being closed. */
static void share_closed(struct gm_session_part *part, uint64_t share)
{
	struct gpumap_model *m;

	for (m = ((struct gm_models *)part)->first; m != NULL; m = m->next)
		if (m->name.share == share && !m->owns_meta)
			m->meta = (struct gm_weights_meta){ .data = NULL };
}

struct gm_models *gm_models_of(struct gpumap_session *session)
{
	static const struct gm_session_part_kind kind = {
		.bytes = sizeof(struct gm_models),
		.turn = turn,
		.share_closed = share_closed,
		.drop = drop,
	};

	return (struct gm_models *)gm_part_take(session, &kind);
}
