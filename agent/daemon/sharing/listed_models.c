/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/sharing/listed_models.h"

#include <errno.h>
#include <inttypes.h>
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

#define MS      UINT64_C(1000000)
#define SPEAKER "gpumapctl: " /* before each line of an error */

/* The share of its name, or NULL. */
static const struct gm_shared *find(const struct gm_daemon *d,
				    const struct gm_listed_model *model)
{
	return d->server != NULL ? gm_shared_find(d->server, model->what->name)
				 : NULL;
}

/* Another user's share is not the model. */
static bool is_there(const struct gm_daemon *d,
		     const struct gm_listed_model *model)
{
	const struct gm_shared *shared = find(d, model);

	return shared != NULL && shared->user->uid == model->what->uid;
}

/* ---- the child ----------------------------------------------------------- */

/* Keep the last line, which may come in pieces. */
static void hear(struct gm_listed_models *m, const char *text)
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
static const char *last_words(const struct gm_listed_models *m)
{
	size_t n = strlen(SPEAKER);

	return strncmp(m->says, SPEAKER, n) == 0 ? m->says + n : m->says;
}

/* Returns 1 when there may be more, 0 when there is not, -EPIPE at the end. */
static int hear_once(struct gm_listed_models *m)
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
	struct gm_listed_models *m =
		gm_owner(source, struct gm_listed_models, said);

	(void)events;
	if (hear_once(m) >= 0)
		return;
	/* The pidfd tells of its end, which may be later. */
	gm_loop_del(m->d->loop, source);
	source->fd = -1;
}

static void let_go(struct gm_listed_models *m)
{
	gm_loop_del(m->d->loop, &m->ended);
	gm_loop_del(m->d->loop, &m->said);
	close(m->child.pidfd);
	close(m->child.socket);
	m->loading = NULL;
}

static void succeeded(struct gm_listed_models *m, struct gm_listed_model *model)
{
	model->wait_ns = m->d->config->load_retry_ns;
	model->due_ns = m->begun_ns + model->wait_ns;
	gm_log(GM_LOG_INFO, "model_loaded", "name=%s after_ms=%" PRIu64,
	       gm_quote(model->what->name).text,
	       (gm_loop_now() - m->begun_ns) / MS);
}

static void failed(struct gm_listed_models *m, struct gm_listed_model *model,
		   const char *how)
{
	model->due_ns = gm_loop_now() + model->wait_ns;
	gm_log(GM_LOG_WARNING, "model_failed",
	       "name=%s reason=%s said=%s retry_ms=%" PRIu64,
	       gm_quote(model->what->name).text, gm_quote(how).text,
	       gm_quote(last_words(m)).text, model->wait_ns / MS);
	model->wait_ns *= 2;
	if (model->wait_ns > GM_LOAD_RETRY_MAX_NS)
		model->wait_ns = GM_LOAD_RETRY_MAX_NS;
}

static void on_ended(struct gm_source *source, uint32_t events)
{
	struct gm_listed_models *m =
		gm_owner(source, struct gm_listed_models, ended);
	struct gm_listed_model *model = m->loading;
	int status = -1;
	char how[64];

	(void)events;
	if (gm_spawn_reap(&m->child, how, &status) == 0)
		return;
	while (hear_once(m) > 0)
		;
	let_go(m);
	if (status == 0)
		succeeded(m, model);
	else
		failed(m, model, how);
}

static int spawn(struct gm_listed_models *m, const struct gm_config_model *what)
{
	const struct gm_daemon *d = m->d;
	struct gm_environment *env = malloc(sizeof(*env));
	const char *argv[24] = { d->loader_path,  "--instance",   d->instance,
				 "--runtime-dir", d->runtime_dir, "load",
				 "--detach",      "--model",      what->path };
	uint32_t n = 9;
	char uid[16];
	int error;

	if (env == NULL)
		return -ENOMEM;
	gm_environment_init(env);
	if (what->map != NULL) {
		argv[n++] = "--map";
		argv[n++] = what->map;
	}
	if (what->users != NULL && strcmp(what->users, "any") == 0) {
		argv[n++] = "--any-user";
	} else if (what->users != NULL) {
		argv[n++] = "--users";
		argv[n++] = what->users;
	}
	if (what->fingerprint != NULL) {
		argv[n++] = "--fingerprint";
		argv[n++] = what->fingerprint;
	}
	if (what->uid != geteuid()) {
		snprintf(uid, sizeof(uid), "%u", (unsigned)what->uid);
		argv[n++] = "--run-as";
		argv[n++] = uid;
	}
	argv[n++] = "--";
	argv[n++] = what->name;
	argv[n] = NULL;
	error = gm_spawn_heard((char *const *)(uintptr_t)argv, env->of,
			       &m->child);
	free(env);
	return error;
}

/* Watch a child that has been started.  Returns 0, or a negative errno. */
static int watch(struct gm_listed_models *m)
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

static void load(struct gm_listed_models *m, struct gm_listed_model *model)
{
	int error;

	m->begun_ns = gm_loop_now();
	m->says[0] = '\0';
	m->n_says = 0;
	error = spawn(m, model->what);
	if (error == 0) {
		m->loading = model;
		error = watch(m);
	}
	if (error) {
		snprintf(m->says, sizeof(m->says), "%s", m->d->loader_path);
		failed(m, model, strerror(-error));
		return;
	}
	gm_log(GM_LOG_INFO, "model_loading", "name=%s path=%s pid=%d uid=%u",
	       gm_quote(model->what->name).text,
	       gm_quote(model->what->path).text, (int)m->child.pid,
	       (unsigned)model->what->uid);
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
static void compare(struct gm_listed_model *model,
		    const struct gm_shared *shared)
{
	const struct gm_config_model *what = model->what;
	const char *key = find_difference(shared, what);

	model->compared = shared->id;
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

static bool make(struct gm_listed_models *m, struct gm_daemon *d)
{
	uint32_t n = d->config->n_models;

	if (m->of != NULL)
		return true;
	m->of = calloc(n, sizeof(*m->of));
	if (m->of == NULL)
		return false;
	m->d = d;
	m->timer.fired = on_due;
	m->n = n;
	for (uint32_t i = 0; i < n; i++) {
		m->of[i] = (struct gm_listed_model){
			.what = &d->config->models[i],
			.wait_ns = d->config->load_retry_ns,
		};
	}
	return true;
}

void gm_listed_models_look(struct gm_daemon *d)
{
	struct gm_listed_models *m = d->models;
	uint64_t soonest = UINT64_MAX, now = gm_loop_now();

	if (d->config->n_models == 0 || d->draining || m->loading != NULL ||
	    !make(m, d))
		return;
	for (uint32_t i = 0; i < m->n; i++) {
		struct gm_listed_model *model = &m->of[i];
		const struct gm_shared *shared = find(d, model);

		if (shared && shared->id != model->compared)
			compare(model, shared);
		if (shared)
			continue;
		if (model->due_ns <= now && m->loading == NULL)
			load(m, model);
		if (m->loading != model && model->due_ns < soonest)
			soonest = model->due_ns;
	}
	if (m->loading != NULL || soonest == UINT64_MAX)
		gm_timer_stop(d->loop, &m->timer);
	else if (m->timer.due_ns != soonest)
		gm_timer_set(d->loop, &m->timer, soonest);
}

void gm_listed_models_tell(const struct gm_daemon *d,
			   char ret_text[GM_LISTED_MODELS_BYTES])
{
	const struct gm_listed_models *m = d->models;
	uint32_t n = 0;

	ret_text[0] = '\0';
	if (d->config->n_models == 0)
		return;
	for (uint32_t i = 0; i < m->n; i++)
		n += is_there(d, &m->of[i]);
	snprintf(ret_text, GM_LISTED_MODELS_BYTES, "; %u models, %u loading", n,
		 m->loading != NULL ? 1 : 0);
}

void gm_listed_models_drain(struct gm_daemon *d)
{
	struct gm_listed_models *m = d->models;

	if (m->of != NULL)
		gm_timer_stop(d->loop, &m->timer);
	if (m->loading != NULL)
		kill(m->child.pid, SIGTERM);
}

void gm_listed_models_exit(struct gm_daemon *d)
{
	struct gm_listed_models *m = d->models;

	if (m->of == NULL)
		return;
	gm_timer_stop(d->loop, &m->timer);
	if (m->loading != NULL) {
		gm_spawn_undo(&m->child);
		let_go(m);
	}
	free(m->of);
	m->of = NULL;
	m->n = 0;
}
