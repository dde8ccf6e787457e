/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/sharing/listed.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "agent/daemon/base/environment.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"
#include "agent/daemon/config_keys.h"
#include "agent/daemon/sharing/share.h"

#define MS       UINT64_C(1000000)
#define LIMIT_NS (10000 * MS)  /* of the maps, before the agent is ready */
#define SPEAKER  "gpumapctl: " /* before each line of an error */

static const char *name_of(const struct gm_listed *listed)
{
	return listed->map != NULL ? listed->map->name : listed->model->name;
}

/* The share of a model's name, or NULL. */
static const struct gm_shared *find(const struct gm_daemon *d,
				    const struct gm_listed *listed)
{
	return d->server != NULL
		       ? gm_shared_find(d->server, listed->model->name)
		       : NULL;
}

/* Another user's share is not the model. */
static bool is_there(const struct gm_daemon *d, const struct gm_listed *listed)
{
	const struct gm_shared *shared = find(d, listed);

	return shared != NULL && shared->user->uid == listed->model->uid;
}

/* ---- the child ----------------------------------------------------------- */

/* The reason of a child that has failed. */
static const char *last_words(const struct gm_listed_things *m)
{
	const char *line = m->child.line;
	size_t n = strlen(SPEAKER);

	return strncmp(line, SPEAKER, n) == 0 ? line + n : line;
}

static void succeeded(struct gm_listed_things *m, struct gm_listed *listed)
{
	listed->is_tried = listed->is_published = true;
	listed->wait_ns = m->d->config->load_retry_ns;
	listed->due_ns = m->begun_ns + listed->wait_ns;
	if (listed->model != NULL)
		gm_log(GM_LOG_INFO, "model_loaded", "name=%s after_ms=%" PRIu64,
		       gm_quote(listed->model->name).text,
		       (gm_loop_now() - m->begun_ns) / MS);
}

static void failed(struct gm_listed_things *m, struct gm_listed *listed,
		   const char *how)
{
	const struct gm_config_map *map = listed->map;
	const char *file = map != NULL ? map->file : listed->model->file;
	int line = map != NULL ? map->line : listed->model->line;
	char at[PATH_MAX + 16];

	listed->is_tried = true;
	listed->due_ns = gm_loop_now() + listed->wait_ns;
	snprintf(at, sizeof(at), "%s:%d", file, line);
	gm_log(GM_LOG_WARNING, map != NULL ? "map_failed" : "model_failed",
	       "name=%s at=%s reason=%s said=%s retry_ms=%" PRIu64,
	       gm_quote(name_of(listed)).text, gm_quote(at).text,
	       gm_quote(how).text, gm_quote(last_words(m)).text,
	       listed->wait_ns / MS);
	listed->wait_ns *= 2;
	if (listed->wait_ns > GM_LOAD_RETRY_MAX_NS)
		listed->wait_ns = GM_LOAD_RETRY_MAX_NS;
}

static void on_ended(struct gm_child *child, const char *how, int status)
{
	struct gm_listed_things *m =
		gm_owner(child, struct gm_listed_things, child);
	struct gm_listed *listed = m->in_hand;

	m->in_hand = NULL;
	if (status == 0)
		succeeded(m, listed);
	else
		failed(m, listed, how);
}

static const struct gm_child_kind kind = { .ended = on_ended };

#define ARGUMENTS 24u

struct command {
	const char *argv[ARGUMENTS + 1];
	uint32_t n;
	char layers[16], uid[16];
};

static void add(struct command *command, const char *word)
{
	command->argv[command->n++] = word;
}

/* Nothing where @value is NULL. */
static void add_option(struct command *command, const char *option,
		       const char *value)
{
	if (value == NULL)
		return;
	add(command, option);
	add(command, value);
}

static void add_publish(struct command *command,
			const struct gm_config_map *map)
{
	add(command, "publish");
	add(command, "--keep");
	add_option(command, "--spec", map->spec);
	snprintf(command->layers, sizeof(command->layers), "%u", map->layers);
	add_option(command, "--layers",
		   map->layers != 0 ? command->layers : NULL);
}

static void add_load(struct command *command,
		     const struct gm_config_model *model)
{
	bool is_any = model->users != NULL && strcmp(model->users, "any") == 0;

	add(command, "load");
	add(command, "--detach");
	add_option(command, "--model", model->path);
	add_option(command, "--map", model->map);
	if (is_any)
		add(command, "--any-user");
	else
		add_option(command, "--users", model->users);
	add_option(command, "--fingerprint", model->fingerprint);
	snprintf(command->uid, sizeof(command->uid), "%u",
		 (unsigned)model->uid);
	add_option(command, "--run-as",
		   model->uid != geteuid() ? command->uid : NULL);
}

static int start(struct gm_listed_things *m, const struct gm_listed *listed)
{
	struct gm_environment *env = malloc(sizeof(*env));
	struct command command = { .n = 0 };
	int error;

	if (env == NULL)
		return -ENOMEM;
	gm_environment_init(env);
	add(&command, m->d->loader_path);
	add_option(&command, "--instance", m->d->instance);
	add_option(&command, "--runtime-dir", m->d->runtime_dir);
	if (listed->map != NULL)
		add_publish(&command, listed->map);
	else
		add_load(&command, listed->model);
	add_option(&command, "--", name_of(listed));
	error = gm_child_start(&m->child, m->d->loop, &kind, command.argv,
			       env->of);
	free(env);
	return error;
}

static void begin(struct gm_listed_things *m, struct gm_listed *listed)
{
	int error;

	m->begun_ns = gm_loop_now();
	error = start(m, listed);
	if (error) {
		snprintf(m->child.line, sizeof(m->child.line), "%s",
			 m->d->loader_path);
		failed(m, listed, strerror(-error));
		return;
	}
	m->in_hand = listed;
	if (listed->model != NULL)
		gm_log(GM_LOG_INFO, "model_loading",
		       "name=%s path=%s pid=%d uid=%u",
		       gm_quote(listed->model->name).text,
		       gm_quote(listed->model->path).text,
		       (int)m->child.process.pid, (unsigned)listed->model->uid);
}

/* ---- what has the name --------------------------------------------------- */

/* The key of the section that another model has; or NULL.  To look up the names
 * of users may take long: the loop does not. */
static const char *find_difference(const struct gm_shared *shared,
				   const struct gm_config_model *what)
{
	bool is_any = what->users != NULL && strcmp(what->users, "any") == 0;

	if (shared->user->uid != what->uid)
		return "user";
	if (!(shared->flags & GPUMAP_SHARE_ANY_USER) == is_any ||
	    (shared->n_uids > 0) != (what->users != NULL && !is_any))
		return "users";
	if (what->fingerprint != NULL &&
	    !gm_share_key_is(&shared->key, what->fingerprint))
		return "fingerprint";
	return NULL;
}

/* The section may have changed since the model was loaded, and an earlier agent
 * may have admitted another user. */
static void compare(struct gm_listed *listed, const struct gm_shared *shared)
{
	const struct gm_config_model *what = listed->model;
	const char *key = find_difference(shared, what);

	listed->compared = shared->id;
	if (key)
		gm_log(GM_LOG_WARNING, "model_differs",
		       "name=%s key=%s uid=%u remedy=%s",
		       gm_quote(what->name).text, key,
		       (unsigned)shared->user->uid,
		       gm_quote("the model stays as it was loaded: to have it "
				"loaded anew, run gpumapctl shares release")
			       .text);
}

/* ---- all of them --------------------------------------------------------- */

/* The loop looks after each turn, also after this one. */
static void on_due(struct gm_timer *timer)
{
	(void)timer;
}

static bool make(struct gm_listed_things *m, struct gm_daemon *d)
{
	const struct gm_config *config = d->config;

	if (m->of != NULL)
		return true;
	m->of = calloc(config->n_maps + config->n_models, sizeof(*m->of));
	if (m->of == NULL)
		return false;
	m->d = d;
	m->timer.fired = on_due;
	m->limit_ns = gm_loop_now() + LIMIT_NS;
	m->n = config->n_maps + config->n_models;
	for (uint32_t i = 0; i < m->n; i++) {
		struct gm_listed *listed = &m->of[i];

		listed->wait_ns = config->load_retry_ns;
		if (i < config->n_maps)
			listed->map = &config->maps[i];
		else
			listed->model = &config->models[i - config->n_maps];
	}
	return true;
}

/* Is it missing? */
static bool is_wanted(const struct gm_daemon *d, struct gm_listed *listed,
		      bool is_ready)
{
	const struct gm_shared *shared;

	if (listed->map != NULL)
		return !listed->is_published;
	if (!is_ready)
		return false;
	shared = find(d, listed);
	if (shared != NULL && shared->id != listed->compared)
		compare(listed, shared);
	return shared == NULL;
}

void gm_listed_look(struct gm_daemon *d, bool is_ready)
{
	struct gm_listed_things *m = d->listed;
	uint64_t soonest = UINT64_MAX, now = gm_loop_now();

	if (d->config->n_maps + d->config->n_models == 0 || d->draining ||
	    !make(m, d))
		return;
	for (uint32_t i = 0; i < m->n && m->in_hand == NULL; i++) {
		struct gm_listed *listed = &m->of[i];

		if (!is_wanted(d, listed, is_ready))
			continue;
		if (listed->due_ns <= now)
			begin(m, listed);
		if (m->in_hand != listed && listed->due_ns < soonest)
			soonest = listed->due_ns;
	}
	if (m->in_hand != NULL)
		soonest = UINT64_MAX;
	if (!is_ready && m->limit_ns > now && m->limit_ns < soonest)
		soonest = m->limit_ns;
	if (soonest == UINT64_MAX)
		gm_timer_stop(d->loop, &m->timer);
	else if (m->timer.due_ns != soonest)
		gm_timer_set(d->loop, &m->timer, soonest);
}

bool gm_listed_maps_tried(const struct gm_daemon *d)
{
	const struct gm_listed_things *m = d->listed;
	uint32_t n_tried = 0;

	for (uint32_t i = 0; i < m->n; i++)
		n_tried += m->of[i].map != NULL && m->of[i].is_tried;
	return n_tried == d->config->n_maps ||
	       (m->n != 0 && gm_loop_now() >= m->limit_ns);
}

void gm_listed_tell(const struct gm_daemon *d, char ret_text[GM_LISTED_BYTES])
{
	const struct gm_listed_things *m = d->listed;
	uint32_t n = 0;

	ret_text[0] = '\0';
	if (d->config->n_models == 0)
		return;
	for (uint32_t i = 0; i < m->n; i++)
		n += m->of[i].model != NULL && is_there(d, &m->of[i]);
	snprintf(ret_text, GM_LISTED_BYTES, "; %u models, %u loading", n,
		 m->in_hand != NULL && m->in_hand->model != NULL ? 1 : 0);
}

void gm_listed_drain(struct gm_daemon *d)
{
	struct gm_listed_things *m = d->listed;

	if (m->of != NULL)
		gm_timer_stop(d->loop, &m->timer);
	if (m->in_hand != NULL)
		kill(m->child.process.pid, SIGTERM);
}

void gm_listed_exit(struct gm_daemon *d)
{
	struct gm_listed_things *m = d->listed;

	if (m->of == NULL)
		return;
	gm_timer_stop(d->loop, &m->timer);
	gm_child_drop(&m->child);
	m->in_hand = NULL;
	free(m->of);
	m->of = NULL;
	m->n = 0;
}
