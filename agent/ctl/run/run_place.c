/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Find the rows that the command may have, and reserve them in this process;
 * meanwhile a thread says what it waits for. */

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <gpumap/plan.h>

#include "agent/ctl/clock.h"
#include "agent/ctl/plan.h"
#include "agent/ctl/run/run.h"
#include "agent/ctl/who.h"
#include "agent/reader/list.h"

#define SECOND UINT64_C(1000000000)
#define NAP_NS (SECOND / 20)
#define LOOK_S 1  /* between two looks, and before the first */
#define SAY_S  10 /* between two lines */

/* The request to the agent. */
struct gm_run_place {
	struct gm_ctl_planning *planning; /* of --model */
	uint32_t rows[GPUMAP_ROWS_MAX];   /* candidates */
	uint64_t bytes[GPUMAP_ROWS_MAX];  /* of each, or of one of them */
	uint32_t n_rows;                  /* 0: the agent's own choice */
	uint32_t n_layers;                /* n_rows; or 1: of one of them */
	bool is_committed; /* the map is reserved already, for all of us */
};

/* ---- the caller's cards -------------------------------------------------- */

static uint32_t count_cards(const struct gpumap *map)
{
	uint32_t n = 0;

	for (uint32_t row = 0; row < gpumap_device_count(map); row++) {
		struct gpumap_device d = { .size = sizeof(d) };

		n += gpumap_device_read(map, row, &d) == 0 &&
		     d.kind == GPUMAP_DEVICE_CUDA &&
		     d.state != GPUMAP_DEVICE_LOST &&
		     ((d.flags & GPUMAP_DEVICE_MIG) == 0 || d.mig_gi >= 0);
	}
	return n;
}

/* Leave out the rows that a plan may not take now, unless none is left.
 * Returns how many are left. */
static uint32_t keep_usable(const struct gpumap *map,
			    uint32_t rows[GPUMAP_ROWS_MAX], uint32_t n)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct gpumap_device d = { .size = sizeof(d) };

		if (gpumap_device_read(map, rows[i], &d) == 0 &&
		    d.state != GPUMAP_DEVICE_FAILED &&
		    d.state != GPUMAP_DEVICE_LOST &&
		    d.state != GPUMAP_DEVICE_DRAINING &&
		    (d.flags & GPUMAP_DEVICE_CORDONED) == 0)
			rows[kept++] = rows[i];
	}
	return kept > 0 ? kept : n;
}

/* The rows that CUDA would show to this process; none: as the agent likes. */
static int find_visible(const struct gm_ctl *ctl,
			uint32_t ret_rows[GPUMAP_ROWS_MAX], uint32_t *ret_n)
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");
	uint32_t n_cards = count_cards(ctl->map);
	int n;

	*ret_n = 0;
	if (n_cards == 0)
		return GM_EXIT_OK;
	n = gpumap_device_visible(ctl->map, visible,
				  getenv("CUDA_DEVICE_ORDER"), ret_rows,
				  GPUMAP_ROWS_MAX);
	if (n < 0)
		return gm_ctl_fail(ctl, n, "run: the cards of this process");
	if (n == 0)
		return gm_run_failed(
			"this process sees none of the node's cards%s: give "
			"--rows or --any",
			visible != NULL ? ", by CUDA_VISIBLE_DEVICES" : "");
	/* All of them are the agent's choice, which leaves out what is not in
	 * service. */
	*ret_n = (uint32_t)n < n_cards
			 ? keep_usable(ctl->map, ret_rows, (uint32_t)n)
			 : 0;
	return GM_EXIT_OK;
}

/* ---- what is wanted ------------------------------------------------------ */

static int find_bytes(struct gm_run *run, struct gm_run_place *place)
{
	const struct gm_ctl *ctl = run->ctl;
	int ret = GM_EXIT_OK;

	place->n_rows = ctl->n_rows;
	memcpy(place->rows, ctl->rows, sizeof(place->rows));
	place->n_layers =
		ctl->n_rows > 0 && !GM_GIVEN(ctl, ANY) ? ctl->n_rows : 1;
	if (ctl->n_rows == 0 && !GM_GIVEN(ctl, ANY))
		ret = find_visible(ctl, place->rows, &place->n_rows);
	for (uint32_t i = 0; i < place->n_layers; i++)
		place->bytes[i] = run->bytes;
	return ret;
}

static int find_model(struct gm_run *run, struct gm_run_place *place)
{
	struct gm_ctl *ctl = run->ctl;
	int ret = GM_EXIT_OK;

	if (ctl->n_rows == 0)
		ret = find_visible(ctl, ctl->rows, &ctl->n_rows);
	if (ret != GM_EXIT_OK)
		return ret;
	place->planning = calloc(1, sizeof(*place->planning));
	if (place->planning == NULL)
		return gm_ctl_fail(ctl, -ENOMEM, "run");
	place->planning->ctl = ctl;
	GM_TEXT(ctl, COMMIT) = run->name;
	return gm_ctl_plan_read(place->planning);
}

/* The bytes of layers that a map has without charges. */
static int count_layers(const struct gm_ctl *ctl, struct gm_run_place *place,
			const struct gpumap_layers *head)
{
	uint32_t n = head->n_layers;
	uint32_t *rows = calloc((size_t)n + 1, sizeof(*rows));
	uint64_t *bytes = calloc((size_t)n + 1, sizeof(*bytes));
	struct gpumap_layers again = { .size = sizeof(again) };
	int ret = rows == NULL || bytes == NULL ? -ENOMEM : 0;

	if (ret == 0)
		ret = gpumap_layers_read(ctl->map, GM_TEXT(ctl, MAP), &again,
					 rows, bytes, n, NULL, 0);
	for (uint32_t i = 0; ret == 0 && i < place->n_rows; i++) {
		if (place->rows[i] == again.base_row)
			place->bytes[i] += again.other_bytes;
		for (uint32_t k = 0; k < again.n_layers; k++)
			if (rows[k] == place->rows[i])
				place->bytes[i] += bytes[k];
	}
	free(rows);
	free(bytes);
	return ret == 0 ? GM_EXIT_OK
			: gm_ctl_fail(ctl, ret, "run: map \"%s\"",
				      GM_TEXT(ctl, MAP));
}

/* May this process use a map that is committed already? */
static int take_committed(struct gm_run *run, struct gm_run_place *place,
			  const struct gpumap_layers *head)
{
	char user[GM_CTL_NAME];

	if (head->owner_uid != geteuid() && geteuid() != 0)
		return gm_run_failed("map \"%s\" is reserved by %s already, "
				     "whose processes and root's may use it: "
				     "gpumapctl maps lists others",
				     head->name,
				     gm_ctl_user(head->owner_uid, user));
	place->is_committed = true;
	run->map_name = GM_TEXT(run->ctl, MAP);
	return GM_EXIT_OK;
}

static int find_map(struct gm_run *run, struct gm_run_place *place)
{
	const struct gm_ctl *ctl = run->ctl;
	struct gpumap_charge charges[GPUMAP_ROWS_MAX];
	struct gpumap_layers head = { .size = sizeof(head) };
	uint64_t sum = 0;
	int ret = gpumap_layers_read(ctl->map, GM_TEXT(ctl, MAP), &head, NULL,
				     NULL, 0, charges, GPUMAP_ROWS_MAX);

	if (ret == -ENOENT)
		return gm_ctl_unknown("layer map", GM_TEXT(ctl, MAP), "maps");
	if (ret != 0)
		return gm_ctl_fail(ctl, ret, "run: map \"%s\"",
				   GM_TEXT(ctl, MAP));
	place->n_rows = place->n_layers = head.n_rows;
	for (uint32_t i = 0; i < head.n_rows; i++) {
		place->rows[i] = charges[i].row;
		place->bytes[i] =
			charges[i].weight_bytes + charges[i].kv_bytes +
			charges[i].activation_bytes + charges[i].reserve_bytes;
		sum += place->bytes[i];
	}
	if ((head.flags & GPUMAP_LAYERS_COMMITTED) != 0)
		return take_committed(run, place, &head);
	return sum == 0 ? count_layers(ctl, place, &head) : GM_EXIT_OK;
}

int gm_run_place_find(struct gm_run *run)
{
	const struct gm_ctl *ctl = run->ctl;

	run->place = calloc(1, sizeof(*run->place));
	if (run->place == NULL)
		return gm_ctl_fail(ctl, -ENOMEM, "run");
	for (uint32_t i = 0; i < ctl->n_rows; i++)
		if (ctl->rows[i] >= gpumap_device_count(ctl->map))
			return gm_ctl_no_row(ctl->rows[i]);
	if (GM_TEXT(ctl, MAP) != NULL)
		return find_map(run, run->place);
	return GM_TEXT(ctl, MODEL) != NULL ? find_model(run, run->place)
					   : find_bytes(run, run->place);
}

void gm_run_place_free(struct gm_run *run)
{
	if (run->place != NULL)
		gm_ctl_plan_free(run->place->planning);
	free(run->place);
	run->place = NULL;
}

/* ---- one request --------------------------------------------------------- */

static void put_request(const struct gm_run *run,
			uint64_t bytes[GPUMAP_ROWS_MAX],
			struct gpumap_plan_request *ret)
{
	const struct gm_run_place *place = run->place;

	if (place->planning != NULL) {
		gm_ctl_plan_to_agent(place->planning, ret);
		return;
	}
	for (uint32_t i = 0; i < place->n_layers; i++)
		bytes[i] = place->is_committed ? 0 : place->bytes[i];
	*ret = (struct gpumap_plan_request){
		.size = sizeof(*ret),
		.name = run->name,
		.setting = GPUMAP_SETTING_RESERVE,
		.rows = place->n_rows > 0 ? place->rows : NULL,
		.n_rows = place->n_rows,
		.n_layers = place->n_layers,
		.layer_bytes = bytes,
	};
}

/* Are the rows known before the agent is asked? */
static bool knows_rows(const struct gm_run_place *place)
{
	return place->planning == NULL && place->n_rows == place->n_layers;
}

static void take_known_rows(struct gm_run *run)
{
	run->n_rows = run->place->n_rows;
	memcpy(run->rows, run->place->rows, sizeof(run->rows));
	memcpy(run->row_bytes, run->place->bytes, sizeof(run->row_bytes));
}

/* Take the answer of the agent: a charge for each row. */
static void take_answer(struct gm_run *run, const struct gpumap_plan *answer,
			const struct gpumap_plan_charge *charges)
{
	bool by_bytes = run->place->planning == NULL;

	run->n_rows = answer->n_charges;
	for (uint32_t i = 0; i < answer->n_charges; i++) {
		const struct gpumap_plan_charge *c = &charges[i];

		run->rows[i] = c->row;
		run->row_bytes[i] = by_bytes ? run->bytes
					     : c->weight_bytes + c->kv_bytes +
						       c->activation_bytes +
						       c->reserve_bytes;
	}
}

/* Returns 0, or what gpumap_plan_make() does. */
static int ask(struct gm_run *run, uint32_t flags, uint64_t wait_ns)
{
	struct gpumap_plan_charge charges[GPUMAP_ROWS_MAX];
	struct gpumap_plan answer = { .size = sizeof(answer) };
	uint64_t bytes[GPUMAP_ROWS_MAX];
	struct gpumap_plan_request request;
	int ret;

	put_request(run, bytes, &request);
	request.flags &= GPUMAP_PLAN_BASE;
	request.flags |= flags;
	if ((flags & GPUMAP_PLAN_COMMIT) != 0) {
		request.wait_ns = wait_ns;
		request.start_ns = gm_run_start_limit_ns(run);
	}
	ret = gpumap_plan_make(run->ctl->map, &request, &answer, NULL, 0,
			       charges, GPUMAP_ROWS_MAX);
	if (ret == 0 && knows_rows(run->place))
		take_known_rows(run);
	else if (ret == 0)
		take_answer(run, &answer, charges);
	return ret;
}

/* Has the row so much, if all of it were free? */
static bool row_has(const struct gpumap *map, uint32_t row, uint64_t bytes)
{
	struct gpumap_device d = { .size = sizeof(d) };

	return gpumap_device_read(map, row, &d) == 0 && d.total_bytes >= bytes;
}

/* Could the rows have what is asked of them, at another time? */
static bool may_fit(const struct gm_run *run)
{
	const struct gm_run_place *place = run->place;
	uint32_t n = place->n_rows, n_fit = 0;

	if (place->planning != NULL)
		return true;
	if (n == 0)
		n = gpumap_device_count(run->ctl->map);
	for (uint32_t i = 0; i < n; i++)
		n_fit += row_has(run->ctl->map,
				 place->n_rows > 0 ? place->rows[i] : i,
				 place->bytes[place->n_layers > 1 ? i : 0]);
	return place->n_layers > 1 ? n_fit == n : n_fit > 0;
}

static int refused(const struct gm_run *run, int error)
{
	const struct gm_ctl *ctl = run->ctl;
	int ret = gm_ctl_fail(ctl, error, "run: \"%s\"", run->name);

	/* A request that waits has room some time, or is refused at once. */
	if (error == -EBUSY || error == -ETIMEDOUT ||
	    (error == -ENOSPC && GM_NUMBER(ctl, WAIT) == 0 && may_fit(run)))
		return GM_RUN_NOT_NOW;
	return error == -ENOENT ? GM_EXIT_NO_AGENT : ret;
}

int gm_run_place_ask(struct gm_run *run)
{
	int ret = 0;

	if (knows_rows(run->place))
		take_known_rows(run);
	else
		ret = ask(run, 0, 0);
	return ret == 0 ? GM_EXIT_OK : refused(run, ret);
}

/* ---- what it waits for --------------------------------------------------- */

/* With an attachment of its own, while the main thread waits. */
struct teller {
	const struct gm_run *run;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t ends;
	bool ended;
	struct gm_ctl ctl; /* its own */
	char said[512];
	uint64_t said_ns;
};

/* Describe what place @i of the line waits for. */
static void describe(struct teller *t, const struct gm_who_line *waits, int i,
		     char ret_text[512])
{
	const struct gpumap_wait_info *wait = &waits->v[i];
	char rows[GM_WHO_ROWS], reason[GM_WHO_REASON], size[32] = "memory";

	gm_who_line_reason(&t->ctl, waits, i, reason);
	if (wait->bytes != 0)
		gm_size_text(wait->bytes, size);
	snprintf(ret_text, 512, "waiting %s row%s %s: %s%s%s",
		 (wait->flags & GPUMAP_WAIT_FOR_START) != 0 ? "to start on"
							    : "for",
		 wait->n_rows == 1 ? "" : "s", gm_who_line_rows(wait, rows),
		 size, reason[0] != '\0' ? "; " : "", reason);
}

static void look(struct teller *t)
{
	struct gpumap_attach_opts opts = { .size = sizeof(opts),
					   .instance = t->ctl.instance,
					   .runtime_dir = t->ctl.runtime_dir };
	struct gm_who_line waits = { .v = NULL };
	char text[512] = "waiting for the agent to come back";
	int i = 0, ret = 0;

	if (t->ctl.map == NULL)
		ret = gpumap_attach(&opts, &t->ctl.map);
	if (ret == 0)
		ret = waits.n = gm_list_wait(t->ctl.map, &waits.v);
	while (i < waits.n && strcmp(waits.v[i].name, t->run->name) != 0)
		i++;
	if (i < waits.n)
		describe(t, &waits, i, text);
	free(waits.v);
	if (ret < 0) {
		gpumap_detach(t->ctl.map);
		t->ctl.map = NULL;
	} else if (i == waits.n) {
		return; /* not in the line any more, or not yet */
	}
	if (strcmp(text, t->said) == 0 ||
	    (t->said_ns != 0 && gm_clock_ns() - t->said_ns < SAY_S * SECOND))
		return;
	strcpy(t->said, text);
	t->said_ns = gm_clock_ns();
	gm_run_say("%s", text);
}

static void *tell(void *arg)
{
	struct teller *t = arg;

	pthread_mutex_lock(&t->lock);
	while (!t->ended) {
		struct timespec until;

		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_sec += LOOK_S;
		if (pthread_cond_timedwait(&t->ends, &t->lock, &until) !=
			    ETIMEDOUT ||
		    t->ended)
			continue;
		pthread_mutex_unlock(&t->lock);
		look(t);
		pthread_mutex_lock(&t->lock);
	}
	pthread_mutex_unlock(&t->lock);
	gpumap_detach(t->ctl.map);
	return NULL;
}

static struct teller *tell_start(const struct gm_run *run)
{
	struct teller *t = calloc(1, sizeof(*t));
	pthread_condattr_t monotonic;
	sigset_t all, own;
	int ret;

	if (t == NULL)
		return NULL;
	t->run = run;
	t->ctl = *run->ctl;
	t->ctl.map = NULL;
	pthread_mutex_init(&t->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&t->ends, &monotonic);
	pthread_condattr_destroy(&monotonic);
	/* Signals are for the thread that waits. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &own);
	ret = pthread_create(&t->thread, NULL, tell, t);
	pthread_sigmask(SIG_SETMASK, &own, NULL);
	if (ret == 0)
		return t;
	free(t);
	return NULL;
}

static void tell_stop(struct teller *t)
{
	if (t == NULL)
		return;
	pthread_mutex_lock(&t->lock);
	t->ended = true;
	pthread_cond_signal(&t->ends);
	pthread_mutex_unlock(&t->lock);
	pthread_join(t->thread, NULL);
	pthread_cond_destroy(&t->ends);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

/* ---- waiting ------------------------------------------------------------- */

/* Is there no agent, or no more the one of this map? */
static bool is_gone(int error)
{
	return error == -ENOENT || error == -ECONNREFUSED ||
	       error == -ECONNRESET || error == -ESTALE || error == -ESHUTDOWN;
}

static int attach_again(struct gm_ctl *ctl)
{
	struct gpumap_attach_opts opts = { .size = sizeof(opts),
					   .instance = ctl->instance,
					   .runtime_dir = ctl->runtime_dir };

	gpumap_detach(ctl->map);
	ctl->map = NULL;
	return gpumap_attach(&opts, &ctl->map);
}

/* Reserve.  An agent that goes away meanwhile may come back: the request then
 * is a new one, and last in the line. */
static int reserve(struct gm_run *run, uint64_t wait_ns)
{
	const uint32_t flags = GPUMAP_PLAN_PUBLISH | GPUMAP_PLAN_COMMIT |
			       GPUMAP_PLAN_HELD | GPUMAP_PLAN_NEW;
	uint64_t deadline_ns = gm_clock_ns() + wait_ns;
	int ret = ask(run, flags, wait_ns);

	while (is_gone(ret) && gm_clock_ns() < deadline_ns) {
		nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
		ret = attach_again(run->ctl);
		if (ret != 0)
			continue;
		wait_ns = deadline_ns - gm_clock_ns();
		if (wait_ns > deadline_ns)
			wait_ns = 1; /* it is over: ask once more */
		ret = ask(run, flags, wait_ns);
	}
	return ret;
}

/* Have the agent count the memory of this process as part of what the map
 * @run->map_name reserves.  A failure is a warning. */
static void use_map(const struct gm_run *run)
{
	struct gpumap_view view;
	uint64_t pin;
	int error =
		gpumap_layers_pin(run->ctl->map, run->map_name, &view, &pin);
	const char *why = gpumap_refusal(run->ctl->map);

	if (error != 0)
		gm_run_say("map \"%s\" cannot be pinned, so what the command "
			   "allocates counts twice, as in use and as reserved: "
			   "%s",
			   run->map_name,
			   why[0] != '\0' ? why : gpumap_strerror(error));
}

bool gm_run_without_agent(struct gm_run *run)
{
	const char *no_agent = GM_TEXT(run->ctl, NO_AGENT);

	run->unreserved = no_agent != NULL && strcmp(no_agent, "run") == 0;
	return run->unreserved;
}

/* Make a reservation for this process. */
static int reserve_own(struct gm_run *run)
{
	uint64_t wait_s = GM_NUMBER(run->ctl, WAIT);
	struct teller *teller;
	int ret;

	teller = wait_s > 0 ? tell_start(run) : NULL;
	ret = reserve(run, wait_s < UINT64_MAX / SECOND / 4 ? wait_s * SECOND
							    : UINT64_MAX / 4);
	tell_stop(teller);
	if (ret == 0)
		return GM_EXIT_OK;
	if (is_gone(ret) && gm_run_without_agent(run))
		return GM_EXIT_OK;
	return refused(run, ret);
}

int gm_run_place_reserve(struct gm_run *run)
{
	bool is_committed = run->place->is_committed;
	int ret = GM_EXIT_OK;

	if (!is_committed || GM_GIVEN(run->ctl, GATE))
		ret = reserve_own(run);
	else
		take_known_rows(run);
	if (ret == GM_EXIT_OK && is_committed && !run->unreserved)
		use_map(run);
	return ret;
}
