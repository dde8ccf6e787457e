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
#include <sys/socket.h>
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

/* Keep the last line, which may come in pieces. */
static void hear(struct gm_listed_things *m, const char *text)
{
	for (; *text != '\0'; text++) {
		if (*text == '\n') {
			m->line_ends = true;
			continue;
		}
		if (m->line_ends)
			m->n_says = 0;
		m->line_ends = false;
		if (m->n_says < sizeof(m->says) - 1)
			m->says[m->n_says++] = *text;
		m->says[m->n_says] = '\0';
	}
}

/* The reason of a child that has failed. */
static const char *last_words(const struct gm_listed_things *m)
{
	size_t n = strlen(SPEAKER);

	return strncmp(m->says, SPEAKER, n) == 0 ? m->says + n : m->says;
}

/* Returns 1 when there may be more, 0 when there is not, -EPIPE at the end. */
static int hear_once(struct gm_listed_things *m)
{
	char text[1024];
	ssize_t n = recv(m->child.socket, text, sizeof(text) - 1, MSG_DONTWAIT);

	if (n < 0 && errno == EINTR)
		return 1;
	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n <= 0)
		return -EPIPE;
	text[n] = '\0';
	hear(m, text);
	return 1;
}

static void on_said(struct gm_source *source, uint32_t events)
{
	struct gm_listed_things *m =
		gm_owner(source, struct gm_listed_things, said);

	(void)events;
	if (hear_once(m) >= 0)
		return;
	/* The pidfd tells of its end, which may be later. */
	gm_loop_del(m->d->loop, source);
	source->fd = -1;
}

static void let_go(struct gm_listed_things *m)
{
	gm_loop_del(m->d->loop, &m->ended);
	gm_loop_del(m->d->loop, &m->said);
	close(m->child.pidfd);
	close(m->child.socket);
	m->in_hand = NULL;
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

static void on_ended(struct gm_source *source, uint32_t events)
{
	struct gm_listed_things *m =
		gm_owner(source, struct gm_listed_things, ended);
	struct gm_listed *listed = m->in_hand;
	int status = -1;
	char how[64];

	(void)events;
	if (gm_spawn_reap(&m->child, how, &status) == 0)
		return;
	while (hear_once(m) > 0)
		;
	let_go(m);
	if (status == 0)
		succeeded(m, listed);
	else
		failed(m, listed, how);
}

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

static int spawn(struct gm_listed_things *m, const struct gm_listed *listed)
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
	error = gm_spawn_heard((char *const *)(uintptr_t)command.argv, env->of,
			       &m->child);
	free(env);
	return error;
}

/* Watch a child that has been started.  Returns 0, or a negative errno. */
static int watch(struct gm_listed_things *m)
{
	int error;

	m->ended =
		(struct gm_source){ .fd = m->child.pidfd, .ready = on_ended };
	m->said = (struct gm_source){ .fd = m->child.socket, .ready = on_said };
	error = gm_loop_add(m->d->loop, &m->ended, EPOLLIN);
	if (error == 0)
		error = gm_loop_add(m->d->loop, &m->said, EPOLLIN);
	if (error) {
		gm_spawn_undo(&m->child);
		let_go(m);
	}
	return error;
}

static void begin(struct gm_listed_things *m, struct gm_listed *listed)
{
	int error;

	m->begun_ns = gm_loop_now();
	m->says[0] = '\0';
	m->n_says = 0;
	error = spawn(m, listed);
	if (error == 0) {
		m->in_hand = listed;
		error = watch(m);
	}
	if (error) {
		snprintf(m->says, sizeof(m->says), "%s", m->d->loader_path);
		failed(m, listed, strerror(-error));
		return;
	}
	if (listed->model != NULL)
		gm_log(GM_LOG_INFO, "model_loading",
		       "name=%s path=%s pid=%d uid=%u",
		       gm_quote(listed->model->name).text,
		       gm_quote(listed->model->path).text, (int)m->child.pid,
		       (unsigned)listed->model->uid);
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
		kill(m->child.pid, SIGTERM);
}

void gm_listed_exit(struct gm_daemon *d)
{
	struct gm_listed_things *m = d->listed;

	if (m->of == NULL)
		return;
	gm_timer_stop(d->loop, &m->timer);
	if (m->in_hand != NULL) {
		gm_spawn_undo(&m->child);
		let_go(m);
	}
	free(m->of);
	m->of = NULL;
	m->n = 0;
}
