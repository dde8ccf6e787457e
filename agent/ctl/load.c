/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Load a model and hold it: as long as this process is there so are the weights,
 * for others to import.  It ends when it is told to, or when they are lost.
 */

#include "agent/ctl/ctl.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/ctl/clock.h"

#define SECOND     UINT64_C(1000000000)
#define LOOK_NS    (SECOND / 5) /* at a terminal; each second elsewhere */
#define LINE_WIDTH 78

struct loading {
	const struct gm_ctl *ctl;
	const char *name;
	struct gpumap_session *session;
	struct gpumap_model *model;
	struct gpumap_model_progress progress;
	struct gpumap_model_buffer *buffers;
	uint32_t n_buffers;
	uint64_t *exports;  /* of each, 0: none */
	uint32_t *restarts; /* of the worker of each */
	bool on_terminal;
	sigset_t ends; /* what tells us to end, blocked but while we sleep */
};

/* ---- being told to end ------------------------------------------------------ */

static volatile sig_atomic_t told;

static void tell(int signal)
{
	told = signal;
}

/* They are seen when the library does not work, and nothing else is cut off. */
static void mind_signals(struct loading *l)
{
	struct sigaction action = { .sa_handler = tell,
				    .sa_flags = SA_RESTART };

	sigemptyset(&l->ends);
	sigaddset(&l->ends, SIGINT);
	sigaddset(&l->ends, SIGTERM);
	sigaddset(&l->ends, SIGHUP);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
}

/* ---- progress ---------------------------------------------------------------- */

/* "1 h 02 min", "3 min 20 s", "12 s" */
static const char *duration(uint64_t ns, char ret_text[32])
{
	uint64_t s = (ns + SECOND / 2) / SECOND;

	if (s >= 3600)
		snprintf(ret_text, 32, "%llu h %02llu min",
			 (unsigned long long)(s / 3600),
			 (unsigned long long)(s % 3600 / 60));
	else if (s >= 60)
		snprintf(ret_text, 32, "%llu min %02llu s",
			 (unsigned long long)(s / 60),
			 (unsigned long long)(s % 60));
	else
		snprintf(ret_text, 32, "%llu s", (unsigned long long)s);
	return ret_text;
}

static const char *state_name(uint32_t state)
{
	switch (state) {
	case GPUMAP_MODEL_ALLOCATING:
		return "allocating";
	case GPUMAP_MODEL_LOADING:
		return "loading";
	case GPUMAP_MODEL_LOADED:
		return "loaded";
	default:
		return "ending";
	}
}

/* One line, over and over. */
static void show_line(const struct loading *l)
{
	const struct gpumap_model_progress *p = &l->progress;
	char text[128], time[32];
	int n;

	if (p->state == GPUMAP_MODEL_ALLOCATING)
		n = snprintf(text, sizeof(text), "%s: memory for %.1f GB",
			     l->name, (double)p->total_bytes / 1e9);
	else
		n = snprintf(text, sizeof(text),
			     "%s: %.1f of %.1f GB, %.2f GB/s", l->name,
			     (double)p->bytes / 1e9,
			     (double)p->total_bytes / 1e9,
			     (double)p->bytes_per_second / 1e9);
	if (p->left_ns != UINT64_MAX && p->state == GPUMAP_MODEL_LOADING)
		snprintf(text + n, sizeof(text) - (size_t)n, ", %s left",
			 duration(p->left_ns, time));
	fprintf(stderr, "\r%-*.*s", LINE_WIDTH, LINE_WIDTH, text);
}

static void clear_line(const struct loading *l)
{
	if (l->on_terminal)
		fprintf(stderr, "\r%*s\r", LINE_WIDTH, "");
}

static json_t *progress_json(const struct loading *l)
{
	const struct gpumap_model_progress *p = &l->progress;
	bool known = p->left_ns != UINT64_MAX;

	return json_pack(
		"{s:s, s:s, s:I, s:I, s:I, s:I, s:o}", "name", l->name, "state",
		state_name(p->state), "bytes", (json_int_t)p->bytes,
		"total_bytes", (json_int_t)p->total_bytes, "elapsed_ns",
		(json_int_t)p->elapsed_ns, "bytes_per_second",
		(json_int_t)p->bytes_per_second, "left_ns",
		known ? json_integer((json_int_t)p->left_ns) : json_null());
}

static int show_progress(const struct loading *l)
{
	int ret = GM_EXIT_OK;

	if (l->ctl->json) {
		ret = gm_ctl_print(progress_json(l));
		fflush(stdout);
	} else if (l->on_terminal) {
		show_line(l);
	}
	return ret;
}

/* ---- loading ------------------------------------------------------------------ */

static int load_failed(const struct loading *l, int error)
{
	clear_line(l);
	if (error == -ECANCELED)
		return gm_ctl_fail(l->ctl, error, "%s", l->name);
	return gm_ctl_fail(l->ctl, error, "load \"%s\"", l->name);
}

/* Until it is there. */
static int load(struct loading *l)
{
	uint64_t step = l->on_terminal ? LOOK_NS : SECOND;
	int ret;

	while ((ret = gpumap_model_progress(l->model, &l->progress)) == 0) {
		uint64_t until = gm_clock_ns() + step;

		if (show_progress(l) != GM_EXIT_OK)
			return GM_EXIT_FAILED;
		/* A signal is looked at five times a second. */
		while (!told && gm_clock_ns() < until &&
		       gpumap_model_wait(l->model, gm_clock_ns() + LOOK_NS) ==
			       -ETIME)
			;
		if (told)
			gpumap_model_cancel(l->model);
	}
	clear_line(l);
	return ret == 1 ? GM_EXIT_OK : load_failed(l, ret);
}

static uint32_t restarts_of(const struct gm_ctl *ctl, uint32_t row)
{
	struct gpumap_device device = { .size = sizeof(device) };

	while (gpumap_device_read(ctl->map, row, &device) == -EAGAIN)
		;
	return device.restarts;
}

/* What others import it by. */
static int export_all(struct loading *l)
{
	l->n_buffers = gpumap_model_buffers(l->model, NULL, 0);
	l->buffers = calloc(l->n_buffers, sizeof(*l->buffers));
	l->exports = calloc(l->n_buffers, sizeof(*l->exports));
	l->restarts = calloc(l->n_buffers, sizeof(*l->restarts));
	if (l->buffers == NULL || l->exports == NULL || l->restarts == NULL)
		return gm_ctl_fail(l->ctl, -ENOMEM, "load");
	gpumap_model_buffers(l->model, l->buffers, l->n_buffers);
	for (uint32_t i = 0; i < l->n_buffers; i++) {
		int ret = 0;

		l->restarts[i] = restarts_of(l->ctl, l->buffers[i].row);
		if ((l->ctl->given & GM_OPT_ONCE) == 0)
			ret = gpumap_buffer_export(l->session,
						   l->buffers[i].buffer,
						   &l->exports[i]);
		if (ret != 0)
			return gm_ctl_fail(l->ctl, ret, "export of row %u",
					   l->buffers[i].row);
	}
	return GM_EXIT_OK;
}

/* ---- what there is now ---------------------------------------------------------- */

static json_t *buffers_json(const struct loading *l)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < l->n_buffers; i++)
		json_array_append_new(
			list,
			json_pack("{s:I, s:I, s:o}", "row",
				  (json_int_t)l->buffers[i].row, "bytes",
				  (json_int_t)l->buffers[i].bytes, "export",
				  l->exports[i] != 0
					  ? json_integer(
						    (json_int_t)l->exports[i])
					  : json_null()));
	return list;
}

/* Its place in the list of buffers, null for none. */
static json_t *index_json(const struct loading *l, uint64_t buffer)
{
	for (uint32_t i = 0; buffer != 0 && i < l->n_buffers; i++)
		if (l->buffers[i].buffer == buffer)
			return json_integer(i);
	return json_null();
}

static json_t *tensors_json(const struct loading *l)
{
	struct gpumap_tensor t = { .size = sizeof(t) };
	json_t *list = json_array();
	uint32_t cursor = 0;

	while (gpumap_model_next(l->model, &cursor, &t) == 1) {
		json_t *shape = json_array();

		for (uint32_t i = 0; i < t.n_dims; i++)
			json_array_append_new(
				shape, json_integer((json_int_t)t.shape[i]));
		json_array_append_new(
			list,
			json_pack("{s:s, s:s, s:o, s:I, s:o, s:o, s:I, s:I}",
				  "name", t.name, "type", t.type, "shape",
				  shape, "row", (json_int_t)t.row, "layer",
				  t.layer >= 0 ? json_integer(t.layer)
					       : json_null(),
				  "buffer", index_json(l, t.buffer), "at",
				  (json_int_t)t.at, "bytes",
				  (json_int_t)t.bytes));
	}
	return list;
}

static int show_json(const struct loading *l)
{
	json_t *object = progress_json(l);

	if (object != NULL) {
		json_object_set_new(object, "buffers", buffers_json(l));
		json_object_set_new(object, "tensors", tensors_json(l));
	}
	return gm_ctl_print(object);
}

static int show_loaded(const struct loading *l)
{
	const struct gpumap_model_progress *p = &l->progress;
	char size[32];
	int ret = GM_EXIT_OK;

	if (l->ctl->json) {
		ret = show_json(l);
	} else {
		printf("%s: %s of %u tensors in %.1f s, %.2f GB/s\n", l->name,
		       gm_ctl_size(p->bytes, size), p->n_tensors,
		       (double)p->elapsed_ns / 1e9,
		       (double)p->bytes_per_second / 1e9);
		for (uint32_t i = 0; i < l->n_buffers; i++) {
			printf("  row %3u  %10s", l->buffers[i].row,
			       gm_ctl_size(l->buffers[i].bytes, size));
			if (l->exports[i] != 0)
				printf("  export %#llx",
				       (unsigned long long)l->exports[i]);
			putchar('\n');
		}
	}
	fflush(stdout);
	return ret;
}

/* ---- holding it ----------------------------------------------------------------- */

static int look(const struct loading *l)
{
	int ret = gpumap_session_arm(l->session);

	if (ret < 0)
		return gm_ctl_fail(l->ctl, ret, "\"%s\" is lost", l->name);
	for (uint32_t i = 0; i < l->n_buffers; i++) {
		uint32_t row = l->buffers[i].row;

		if (restarts_of(l->ctl, row) == l->restarts[i])
			continue;
		fprintf(stderr,
			"gpumapctl: \"%s\" is lost: the worker of row %u died, "
			"and what it had; load it again\n",
			l->name, row);
		return GM_EXIT_FAILED;
	}
	return GM_EXIT_OK;
}

static int hold(const struct loading *l)
{
	struct pollfd wake = { .fd = gpumap_session_fd(l->session),
			       .events = POLLIN };
	const struct timespec second = { .tv_sec = 1 };
	sigset_t before;
	int ret;

	if (!l->ctl->json) {
		printf("holding it; end with Ctrl-C\n");
		fflush(stdout);
	}
	sigprocmask(SIG_BLOCK, &l->ends, &before);
	while ((ret = look(l)) == GM_EXIT_OK && !told)
		ppoll(&wake, 1, &second, &before);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return ret;
}

/* ---- the command ------------------------------------------------------------------ */

static int begin(struct loading *l)
{
	const struct gm_ctl *ctl = l->ctl;
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .flags = GPUMAP_SESSION_POLLABLE,
					    .arena_bytes = 4096 };
	struct gpumap_model_opts what = {
		.size = sizeof(what),
		.path = ctl->model,
		.layers = l->name,
		.rows = ctl->n_rows > 0 ? ctl->rows : NULL,
		.n_rows = ctl->n_rows,
		.flags = (ctl->given & GM_OPT_ONCE) != 0
				 ? 0
				 : GPUMAP_BUFFER_EXPORTABLE,
	};
	int ret = gpumap_session_open(ctl->map, &opts, &l->session);

	if (ret != 0)
		return gm_ctl_fail(ctl, ret, "open a session");
	ret = gpumap_load_model(l->session, &what, &l->model);
	if (ret != 0)
		return gm_ctl_fail(ctl, ret, "load \"%s\"", l->name);
	return GM_EXIT_OK;
}

int gm_ctl_load(struct gm_ctl *ctl)
{
	struct loading l = { .ctl = ctl,
			     .name = ctl->args[0],
			     .progress.size = sizeof(l.progress),
			     .on_terminal =
				     !ctl->json && isatty(STDERR_FILENO) == 1 };
	int ret;

	if (ctl->model == NULL) {
		fputs("gpumapctl: load needs --model DIR, the directory of a "
		      "checkpoint\n",
		      stderr);
		return GM_EXIT_USAGE;
	}
	mind_signals(&l);
	ret = begin(&l);
	if (ret == GM_EXIT_OK)
		ret = load(&l);
	if (ret == GM_EXIT_OK)
		ret = export_all(&l);
	if (ret == GM_EXIT_OK)
		ret = show_loaded(&l);
	if (ret == GM_EXIT_OK && (ctl->given & GM_OPT_ONCE) == 0)
		ret = hold(&l);
	/* The memory goes with the session, whatever is in flight. */
	gpumap_session_close(l.session);
	gpumap_model_free(l.model);
	free(l.buffers);
	free(l.exports);
	free(l.restarts);
	return ret;
}
