/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Load a model and hold it: as long as this process runs the weights exist, and
 * other sessions can open them by their name.  The process ends on a signal,
 * when the share is released, or when the weights are lost.  With --detach the
 * agent keeps the share, and the process ends at once.
 *
 * Where the agent ends and the share outlives it, the command holds the share
 * by its pid, and then by a session with the next agent.
 */

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gpumap/model.h>

#include "agent/ctl/clock.h"
#include "agent/ctl/fields.h"
#include "agent/ctl/load_user.h"
#include "agent/ctl/parse.h"
#include "agent/ctl/progress.h"
#include "agent/reader/list.h"

#define SECOND   UINT64_C(1000000000)
#define LOOK_NS  (SECOND / 5)
#define SLACK_NS SECOND /* of ages, which the agent rounds */

/* The path by which other programs open a file that was loaded: that of a
 * descriptor of this process, in /proc.  A link gives it the file's own name in
 * a directory, for programs that look at names. */
struct link {
	int fd;              /* -1: none */
	char path[32];       /* in /proc; "": none */
	char link[PATH_MAX]; /* "": none */
};

struct loading {
	struct gm_ctl *ctl;
	const char *name;
	struct gpumap_session *session;
	struct gpumap_model *model;
	struct gpumap_model_progress progress;
	struct gpumap_model_buffer *buffers;
	uint32_t n_buffers;
	struct gm_progress line;
	struct link file;                /* of --as-file */
	struct gpumap_fingerprint print; /* size 0: none was given */

	/* below: while it is held */
	uint64_t since_ns;  /* of CLOCK_MONOTONIC: it was there then */
	uint32_t *restarts; /* of the worker of each buffer, as last seen */
};

/* ---- signals ------------------------------------------------------------ */

static volatile sig_atomic_t told;
static sigset_t ends; /* blocked except while the command sleeps */

static void tell(int signal)
{
	told = signal;
}

/* The handlers restart interrupted calls.  The program checks @told between
 * calls of the library, so a signal interrupts nothing. */
static void mind_signals(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction action = { .sa_handler = tell,
				    .sa_flags = SA_RESTART };

	sigemptyset(&ends);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		sigaddset(&ends, signals[i]);
		sigaction(signals[i], &action, NULL);
	}
}

static struct gpumap_device device_of(const struct gm_ctl *ctl, uint32_t row)
{
	struct gpumap_device device = { .size = sizeof(device) };

	while (gpumap_device_read(ctl->map, row, &device) == -EAGAIN)
		;
	return device;
}

/* ---- options ------------------------------------------------------------- */

static int wrong(const char *why)
{
	return gm_ctl_wrong("load %s", why);
}

/* Options that contradict another one. */
static const struct {
	gm_ctl_set is, not_with;
	const char *why;
} contradictions[] = {
	{ GM_OPT(AS_FILE), GM_OPT(MODEL),
	  "--as-file loads a file: leave out --model" },
	{ GM_OPT(AS_FILE), GM_OPT(WRITABLE),
	  "--as-file shares a file that does not change: leave out "
	  "--writable" },
	{ GM_OPT(AS_FILE), GM_OPT(MAP),
	  "--as-file loads a file to one row: leave out --map" },
	{ GM_OPT(ANY_USER), GM_OPT(USERS),
	  "--any-user shares it with every user: leave out --users" },
	{ GM_OPT(ONCE), GM_OPT(LINK),
	  "--once keeps no file that a link could name: leave out --link, or "
	  "--once" },
	{ GM_OPT(ONCE), GM_OPT(WRITABLE),
	  "--once shares nothing that others could write: leave out "
	  "--writable, or --once" },
	{ GM_OPT(ONCE), GM_OPT(ANY_USER),
	  "--once shares nothing with any user: leave out --any-user, or "
	  "--once" },
	{ GM_OPT(ONCE), GM_OPT(USERS),
	  "--once shares nothing with other users: leave out --users, or "
	  "--once" },
	{ GM_OPT(ONCE), GM_OPT(ANY_FILES),
	  "--once takes nothing that is shared: leave out --any-files, or "
	  "--once" },
	{ GM_OPT(ONCE), GM_OPT(FINGERPRINT),
	  "--once makes nothing that has a fingerprint: leave out "
	  "--fingerprint, or --once" },
	{ GM_OPT(ONCE), GM_OPT(DETACH),
	  "--once frees the memory when it ends, and --detach keeps it: leave "
	  "out one of them" },
	{ GM_OPT(DETACH), GM_OPT(LINK),
	  "--link leads to a descriptor of this process, which ends with "
	  "--detach: leave out one of them" },
};

static int read_options(const struct gm_ctl *ctl,
			struct gpumap_fingerprint *ret_print)
{
	const size_t n = sizeof(contradictions) / sizeof(contradictions[0]);

	if (!GM_GIVEN(ctl, MODEL) && !GM_GIVEN(ctl, AS_FILE))
		return wrong("needs --model DIR, the directory "
			     "of a checkpoint, or a GGUF file; or "
			     "--as-file FILE");
	if (GM_GIVEN(ctl, LINK) && !GM_GIVEN(ctl, AS_FILE))
		return wrong("--link makes a link to a file: "
			     "give --as-file");
	for (size_t i = 0; i < n; i++)
		if ((ctl->given & contradictions[i].is) != 0 &&
		    (ctl->given & contradictions[i].not_with) != 0)
			return wrong(contradictions[i].why);
	if (!GM_GIVEN(ctl, FINGERPRINT))
		return GM_EXIT_OK;
	ret_print->size = sizeof(*ret_print);
	return gm_parse_hash(GM_TEXT(ctl, FINGERPRINT), ret_print->hash) == 0
		       ? GM_EXIT_OK
		       : wrong("--fingerprint needs 64 "
			       "hexadecimal digits, not all 0");
}

/* ---- the path of a file -------------------------------------------------- */

static int failed(const char *path, int error)
{
	return gm_ctl_failed("link %s: %s", path, strerror(error));
}

/* Is there a link of this command, or of an earlier one? */
static bool is_ours(const char *path)
{
	static const char begin[] = "/proc/";
	char target[sizeof(begin)];

	return readlink(path, target, sizeof(target)) >=
		       (ssize_t)sizeof(begin) - 1 &&
	       memcmp(target, begin, sizeof(begin) - 1) == 0;
}

/* In one step, also over the link of a process that was killed. */
static int put_link(struct link *link, const char *folder)
{
	char fresh[PATH_MAX];
	struct stat facts;
	int n = snprintf(fresh, sizeof(fresh), "%s/.gpumap-%d", folder,
			 (int)getpid());

	if (n < 0 || (size_t)n >= sizeof(fresh))
		return failed(folder, ENAMETOOLONG);
	if (lstat(link->link, &facts) == 0 && !is_ours(link->link))
		return failed(link->link, EEXIST);
	if (symlink(link->path, fresh) != 0)
		return failed(fresh, errno);
	if (rename(fresh, link->link) != 0) {
		int error = errno;

		unlink(fresh);
		return failed(link->link, error);
	}
	return GM_EXIT_OK;
}

/* Take the descriptor, and make a link to it as @name in @folder, which is made
 * if it is not there; @folder may be NULL. */
static int make_link(struct link *link, int fd, const char *folder,
		     const char *name)
{
	int n, ret;

	link->fd = fd;
	snprintf(link->path, sizeof(link->path), "/proc/%d/fd/%d",
		 (int)getpid(), fd);
	if (folder == NULL)
		return GM_EXIT_OK;
	if (mkdir(folder, 0777) != 0 && errno != EEXIST)
		return failed(folder, errno);
	n = snprintf(link->link, sizeof(link->link), "%s/%s", folder, name);
	if (n < 0 || (size_t)n >= sizeof(link->link))
		ret = failed(folder, ENAMETOOLONG);
	else
		ret = put_link(link, folder);
	if (ret != GM_EXIT_OK)
		link->link[0] = '\0';
	return ret;
}

/* Remove the link, if it is still this one, and close the descriptor. */
static void end_link(struct link *link)
{
	char target[sizeof(link->path)];
	size_t n = strlen(link->path);

	if (link->link[0] != '\0' &&
	    readlink(link->link, target, sizeof(target)) == (ssize_t)n &&
	    memcmp(target, link->path, n) == 0)
		unlink(link->link);
	if (link->fd >= 0)
		close(link->fd);
}

/* ---- progress ------------------------------------------------------------ */

static const char *state_name(uint32_t state)
{
	switch (state) {
	case GPUMAP_MODEL_ALLOCATING:
		return "allocating";
	case GPUMAP_MODEL_LOADING:
		return "loading";
	case GPUMAP_MODEL_LOADED:
		return "loaded";
	case GPUMAP_MODEL_WAITING:
		return "waiting";
	default:
		return "ending";
	}
}

static const struct gm_ctl_field progress_fields[] = {
	GM_FIELD(gpumap_model_progress, "state", state, .word = state_name),
	GM_MEMBERS(gpumap_model_progress, bytes, total_bytes, elapsed_ns,
		   bytes_per_second),
	GM_FIELD(gpumap_model_progress, "left_ns", left_ns, .as = GM_AS_OR_MAX),
	{ 0 },
};

static json_t *progress_json(const struct loading *l)
{
	return gm_ctl_fields_json(l->ctl, progress_fields, &l->progress,
				  json_pack("{s:s}", "name", l->name));
}

static int show_progress(struct loading *l)
{
	const struct gpumap_model_progress *p = &l->progress;
	int ret = GM_EXIT_OK;

	if (l->ctl->json) {
		ret = gm_ctl_print(progress_json(l));
		fflush(stdout);
	} else {
		gm_progress_note(&l->line, p->state == GPUMAP_MODEL_WAITING
						   ? "another process loads it"
						   : NULL);
		gm_progress_tell(&l->line, p->bytes, p->total_bytes);
	}
	return ret;
}

/* ---- loading ------------------------------------------------------------- */

/* Wait until the model is loaded. */
static int load(struct loading *l)
{
	uint64_t step = l->ctl->json ? SECOND : LOOK_NS;
	int ret;

	while ((ret = gpumap_model_progress(l->model, &l->progress)) == 0) {
		uint64_t until = gm_clock_ns() + step;

		if (show_progress(l) != GM_EXIT_OK)
			break;
		/* Check for signals five times a second. */
		while (!told && gm_clock_ns() < until &&
		       gpumap_model_wait(l->model, gm_clock_ns() + LOOK_NS) ==
			       -ETIME)
			;
		if (told)
			gpumap_model_cancel(l->model);
	}
	gm_progress_end(&l->line, ret == 1);
	if (ret == 0) /* the object could not be printed */
		return GM_EXIT_FAILED;
	if (ret == -ECANCELED)
		return gm_ctl_fail(l->ctl, ret, "%s", l->name);
	return ret == 1 ? GM_EXIT_OK
			: gm_ctl_fail(l->ctl, ret, "load \"%s\"", l->name);
}

static int list_buffers(struct loading *l)
{
	l->n_buffers = gpumap_model_buffers(l->model, NULL, 0);
	l->buffers = calloc(l->n_buffers, sizeof(*l->buffers));
	if (l->buffers == NULL)
		return gm_ctl_fail(l->ctl, -ENOMEM, "load");
	gpumap_model_buffers(l->model, l->buffers, l->n_buffers);
	return GM_EXIT_OK;
}

/* Does the command end, and leave the model to the agent? */
static bool detaches(const struct gm_ctl *ctl)
{
	return GM_GIVEN(ctl, DETACH);
}

/* ---- output ------------------------------------------------------------- */

static const struct gm_ctl_field buffer_fields[] = {
	GM_MEMBERS(gpumap_model_buffer, row, bytes),
	{ 0 },
};

/* The buffer's index in the list, null for none. */
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

static json_t *path_json(const char *path)
{
	return gm_ctl_text_json(path[0] != '\0' ? path : NULL);
}

static int show_json(const struct loading *l)
{
	json_t *object = progress_json(l);
	uint64_t share = l->progress.share;

	json_object_set_new(object, "path", path_json(l->file.path));
	json_object_set_new(object, "link", path_json(l->file.link));
	json_object_set_new(object, "share",
			    share != 0 ? json_integer((json_int_t)share)
				       : json_null());
	json_object_set_new(object, "was_there",
			    json_boolean(l->progress.was_there));
	json_object_set_new(object, "kept", json_boolean(detaches(l->ctl)));
	json_object_set_new(object, "buffers",
			    gm_ctl_fields_array(l->ctl, buffer_fields,
						l->buffers, l->n_buffers,
						sizeof(*l->buffers)));
	json_object_set_new(object, "tensors", tensors_json(l));
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
		printf("%s: %s of %u tensors", l->name,
		       gm_size_text(p->bytes, size), p->n_tensors);
		if (p->was_there)
			printf(" were there: another process has loaded it\n");
		else
			printf(" in %.1f s, %.2f GB/s\n",
			       (double)p->elapsed_ns / 1e9,
			       (double)p->bytes_per_second / 1e9);
		for (uint32_t i = 0; i < l->n_buffers; i++)
			printf("  row %3u  %10s\n", l->buffers[i].row,
			       gm_size_text(l->buffers[i].bytes, size));
		if (l->file.path[0] != '\0')
			printf("  file %s\n", l->file.path);
		if (l->file.link[0] != '\0')
			printf("  link %s\n", l->file.link);
	}
	if (detaches(l->ctl) && !l->ctl->json)
		printf("kept as \"%s\", until gpumapctl shares release %s\n",
		       l->name, l->name);
	fflush(stdout);
	return ret;
}

/* ---- the workers that have it -------------------------------------------- */

static void note_restarts(struct loading *l)
{
	for (uint32_t i = 0; i < l->n_buffers; i++)
		l->restarts[i] = device_of(l->ctl, l->buffers[i].row).restarts;
}

/* Report restarted workers: the memory still exists, but imports of it are
 * lost. */
static void tell_of_restarts(struct loading *l)
{
	uint32_t told_row = UINT32_MAX;

	for (uint32_t i = 0; i < l->n_buffers; i++) {
		uint32_t row = l->buffers[i].row;
		uint32_t now = device_of(l->ctl, row).restarts;

		if (now != l->restarts[i] && row != told_row) {
			gm_ctl_say("the worker of row %u died; \"%s\" is still "
				   "there, and its other holders open it again",
				   row, l->name);
			told_row = row;
		}
		l->restarts[i] = now;
	}
}

/* ---- the share ----------------------------------------------------------- */

/* Does the share still exist?  Where no manager keeps shares the numbers begin
 * anew with each agent, and another process may have taken the name: that share
 * is younger.  Returns 1, 0 or a negative errno. */
static int is_shared(const struct loading *l)
{
	uint64_t held_ns = gm_clock_ns() - l->since_ns;
	struct gpumap_share_info *all;
	int n = gm_list_share(l->ctl->map, &all), found = 0;

	if (n < 0)
		return n;
	for (int i = 0; i < n; i++)
		found |= all[i].share == l->progress.share &&
			 all[i].age_ns + SLACK_NS >= held_ns;
	free(all);
	/* More shares may exist by now, behind this one. */
	return found;
}

/* The share has ended: was it released, or lost? */
static int ended(const struct loading *l)
{
	for (uint32_t i = 0; i < l->n_buffers; i++) {
		uint32_t row = l->buffers[i].row;
		struct gpumap_device device = device_of(l->ctl, row);

		if (device.restarts == l->restarts[i] &&
		    device.state == GPUMAP_DEVICE_READY)
			continue;
		gm_ctl_say("\"%s\" is lost: the worker of row %u died or has "
			   "left service, and what it had; load it again",
			   l->name, row);
		return GM_EXIT_FAILED;
	}
	gm_ctl_say("\"%s\" has been released", l->name);
	return GM_EXIT_OK;
}

/* ---- another agent ------------------------------------------------------- */

static void lose(struct loading *l)
{
	gm_ctl_say("the agent is gone; waiting for the next one");
	gpumap_session_close(l->session);
	l->session = NULL;
}

/* Open the share by a session with the next agent, if there is one by now.
 * Returns an exit status, or -1 to go on. */
static int find_again(struct loading *l)
{
	struct gpumap_attach_opts where = gm_ctl_where(l->ctl);
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .flags = GPUMAP_SESSION_POLLABLE,
					    .arena_bytes = 4096 };
	struct gpumap *map;
	uint64_t share;
	int ret;

	/* The next agent's map may be another one. */
	if (gpumap_attach(&where, &map) != 0)
		return -1;
	if (gpumap_session_open(map, &opts, &l->session) != 0) {
		gpumap_detach(map);
		return -1;
	}
	gpumap_detach(l->ctl->map);
	l->ctl->map = map;
	ret = gpumap_share_open(l->session, l->name, GPUMAP_SHARE_READ_ONLY,
				NULL, &share);
	if (ret == -ECONNRESET || ret == -ECONNREFUSED || ret == -EPROTO ||
	    ret == -EOWNERDEAD) {
		/* The next agent is gone as well. */
		gpumap_session_close(l->session);
		l->session = NULL;
		return -1;
	}
	if (ret != 0 && ret != -ENOENT)
		return gm_ctl_fail(l->ctl, ret, "open \"%s\" again", l->name);
	if (ret != 0 || share != l->progress.share || is_shared(l) == 0) {
		gm_ctl_say("\"%s\" is lost: the agent went away, and its "
			   "service manager has not kept it; load it again",
			   l->name);
		return GM_EXIT_NO_AGENT;
	}
	gm_ctl_say("another agent has \"%s\"; holding it", l->name);
	note_restarts(l);
	return -1;
}

/* ---- hold it ------------------------------------------------------------- */

/* Check the share.  Returns an exit status, or -1 to go on holding it. */
static int look(struct loading *l)
{
	int ret;

	if (l->session == NULL)
		return find_again(l);
	ret = gpumap_session_arm(l->session);
	if (ret >= 0)
		ret = is_shared(l);
	if (ret < 0) {
		lose(l);
		return -1;
	}
	if (ret == 0)
		return ended(l);
	tell_of_restarts(l);
	return -1;
}

static int wait_for_end(struct loading *l)
{
	const struct timespec second = { .tv_sec = 1 };
	sigset_t before;
	int ret;

	if (!l->ctl->json) {
		printf("shared as \"%s\"; holding it; end with Ctrl-C\n",
		       l->name);
		fflush(stdout);
	}
	sigprocmask(SIG_BLOCK, &ends, &before);
	while ((ret = look(l)) < 0 && !told) {
		struct pollfd wake = { .fd = -1, .events = POLLIN };

		if (l->session != NULL)
			wake.fd = gpumap_session_fd(l->session);
		ppoll(&wake, 1, &second, &before);
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	return ret < 0 ? GM_EXIT_OK : ret;
}

/* Returns an exit status. */
static int hold_it(struct loading *l)
{
	int ret;

	l->restarts = calloc(l->n_buffers, sizeof(*l->restarts));
	if (l->restarts == NULL)
		return gm_ctl_fail(l->ctl, -ENOMEM, "load");
	l->since_ns = gm_clock_ns();
	note_restarts(l);
	ret = wait_for_end(l);
	free(l->restarts);
	return ret;
}

/* ---- the command --------------------------------------------------------- */

static void name_it(const struct gm_ctl *ctl, const struct gm_load_users *users,
		    struct gpumap_model_opts *what)
{
	what->name = ctl->args[0];
	what->uids = users->uids;
	what->n_uids = users->n;
	if (GM_GIVEN(ctl, DETACH))
		what->share_flags |= GPUMAP_SHARE_KEEP;
	if (!GM_GIVEN(ctl, WRITABLE))
		what->share_flags |= GPUMAP_SHARE_READ_ONLY;
	if (GM_GIVEN(ctl, ANY_USER))
		what->share_flags |= GPUMAP_SHARE_ANY_USER;
	if (GM_GIVEN(ctl, ANY_FILES))
		what->flags |= GPUMAP_MODEL_ANY_FILES;
}

/* A file goes to the first host row, unless a row is given. */
static int take_file(const struct gm_ctl *ctl, uint32_t *row,
		     struct gpumap_model_opts *what)
{
	uint32_t n = gpumap_device_count(ctl->map);

	what->path = GM_TEXT(ctl, AS_FILE);
	what->layers = NULL;
	what->flags |= GPUMAP_MODEL_AS_FILE;
	if (what->n_rows > 0)
		return GM_EXIT_OK;
	for (*row = 0; *row < n; ++*row)
		if ((device_of(ctl, *row).flags & GPUMAP_DEVICE_MAPPED) != 0)
			break;
	what->rows = row;
	what->n_rows = 1;
	if (*row < n)
		return GM_EXIT_OK;
	return gm_ctl_failed("no host row: a file needs one");
}

/* Get a descriptor of the file that was loaded, for others' use by /proc. */
static int show_file(struct loading *l)
{
	struct gpumap_export_info info = { .size = sizeof(info) };
	struct gpumap_tensor t = { .size = sizeof(t) };
	uint32_t cursor = 0;
	int fd, ret;

	if (GM_TEXT(l->ctl, AS_FILE) == NULL || l->progress.share == 0)
		return GM_EXIT_OK;
	ret = gpumap_share_fd(l->session, l->progress.share, 0, &info, &fd);
	if (ret != 0)
		return gm_ctl_fail(l->ctl, ret, "a descriptor of \"%s\"",
				   l->name);
	if (gpumap_model_next(l->model, &cursor, &t) != 1)
		t.name = l->name;
	return make_link(&l->file, fd, GM_TEXT(l->ctl, LINK), t.name);
}

static int begin(struct loading *l)
{
	const struct gm_ctl *ctl = l->ctl;
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .flags = GPUMAP_SESSION_POLLABLE,
					    .arena_bytes = 4096 };
	struct gpumap_model_opts what = {
		.size = sizeof(what),
		.path = GM_TEXT(ctl, MODEL),
		.layers =
			GM_TEXT(ctl, MAP) != NULL ? GM_TEXT(ctl, MAP) : l->name,
		.rows = ctl->n_rows > 0 ? ctl->rows : NULL,
		.n_rows = ctl->n_rows,
	};
	struct gm_load_users users = { .n = 0 };
	uint32_t row;
	int ret = GM_EXIT_OK;

	if (GM_TEXT(ctl, USERS) != NULL)
		ret = gm_load_user_list(GM_TEXT(ctl, USERS), &users);
	if (ret == GM_EXIT_OK && GM_TEXT(ctl, AS_FILE) != NULL)
		ret = take_file(ctl, &row, &what);
	if (ret != GM_EXIT_OK)
		return ret;
	ret = gpumap_session_open(ctl->map, &opts, &l->session);
	if (ret != 0)
		return gm_ctl_fail(ctl, ret, "open a session");
	if (!GM_GIVEN(ctl, ONCE))
		name_it(ctl, &users, &what);
	if (l->print.size != 0)
		what.fingerprint = &l->print;
	if (!ctl->json)
		gm_progress_begin(&l->line, 0);
	ret = gpumap_model_load(l->session, &what, &l->model);
	if (ret == 0)
		return GM_EXIT_OK;
	gm_progress_end(&l->line, false);
	return gm_ctl_fail(ctl, ret, "load \"%s\"", l->name);
}

/* The session ends, and the share is to stay.  One that is there already may
 * not. */
static int leave_kept(const struct loading *l)
{
	struct gpumap_share_info info = { .size = sizeof(info) };
	int ret = gpumap_share_info(l->session, l->progress.share, &info);

	if (ret != 0)
		return gm_ctl_fail(l->ctl, ret, "\"%s\" is lost", l->name);
	if ((info.flags & GPUMAP_SHARE_KEEP) != 0)
		return GM_EXIT_OK;
	return gm_ctl_failed(
		"\"%s\" is there and is not kept: it ends with the sessions "
		"that hold it; end it first, with gpumapctl shares release %s, "
		"or leave out --detach",
		l->name, l->name);
}

int gm_ctl_load(struct gm_ctl *ctl)
{
	struct loading l = {
		.ctl = ctl,
		.name = ctl->args[0],
		.progress.size = sizeof(l.progress),
		.line = { .ctl = ctl, .what = "load", .name = ctl->args[0] },
		.file.fd = -1
	};
	int ret = read_options(ctl, &l.print);

	if (ret != GM_EXIT_OK)
		return ret;
	mind_signals();
	ret = begin(&l);
	if (ret == GM_EXIT_OK)
		ret = load(&l);
	if (ret == GM_EXIT_OK)
		ret = list_buffers(&l);
	if (ret == GM_EXIT_OK)
		ret = detaches(ctl) ? leave_kept(&l) : show_file(&l);
	if (ret == GM_EXIT_OK)
		ret = show_loaded(&l);
	if (ret == GM_EXIT_OK &&
	    (ctl->given & (GM_OPT(ONCE) | GM_OPT(DETACH))) == 0)
		ret = hold_it(&l);
	end_link(&l.file);
	/* Closing the session frees the memory, even with jobs in flight. */
	gpumap_session_close(l.session);
	gpumap_model_close(l.model, GPUMAP_NO_DEADLINE);
	free(l.buffers);
	return ret;
}
