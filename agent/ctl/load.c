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
#include <grp.h>
#include <limits.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gpumap/model.h>

#include "agent/ctl/clock.h"
#include "agent/ctl/fields.h"
#include "agent/ctl/parse.h"
#include "agent/ctl/progress.h"
#include "agent/reader/list.h"

#define SECOND     UINT64_C(1000000000)
#define LOOK_NS    (SECOND / 5)
#define SLACK_NS   SECOND /* of ages, which the agent rounds */

#define USER_BYTES 64 /* the longest name of a user, with its end */

struct loading {
	struct gm_ctl *ctl;
	const char *name;
	struct gpumap_session *session;
	struct gpumap_model *model;
	struct gpumap_model_progress progress;
	struct gpumap_model_buffer *buffers;
	uint32_t n_buffers;
	struct gm_progress line;
	struct gpumap_fingerprint print;      /* size 0: none was given */
	uint32_t uids[GPUMAP_SHARE_UIDS_MAX]; /* of --users */
	uint32_t n_uids;

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

/* Read a list of names or numbers with commas between them.  A number needs no
 * user of this machine. */
static void read_users(struct loading *l)
{
	const char *text = GM_TEXT(l->ctl, USERS);

	for (;;) {
		size_t n = strcspn(text, ",");
		const struct passwd *user;
		char name[USER_BYTES];
		uint64_t number;

		if (n == 0 || n >= sizeof(name))
			gm_ctl_wrong("user \"%s\": give names or uids, with "
				     "commas between them",
				     text);
		if (l->n_uids == GPUMAP_SHARE_UIDS_MAX)
			gm_ctl_wrong("user \"%s\": a share names at most 64 "
				     "users: share with --any-user",
				     text);
		snprintf(name, sizeof(name), "%.*s", (int)n, text);
		user = getpwnam(name);
		if (user != NULL)
			number = user->pw_uid;
		else if (gm_parse_number(name, &number) != 0 ||
			 number >= UINT32_MAX)
			gm_ctl_wrong("user \"%s\": neither a user of this "
				     "machine nor a uid",
				     name);
		l->uids[l->n_uids++] = (uint32_t)number;
		if (text[n] == '\0')
			return;
		text += n + 1;
	}
}

void gm_ctl_become(const char *name)
{
	const struct passwd *user = getpwnam(name);
	uint64_t number;

	if (user == NULL && gm_parse_number(name, &number) == 0 &&
	    number < UINT32_MAX)
		user = getpwuid((uid_t)number);
	if (user == NULL)
		gm_ctl_wrong("user \"%s\": no user of this machine", name);
	if (user->pw_uid != geteuid() &&
	    (initgroups(user->pw_name, user->pw_gid) != 0 ||
	     setresgid(user->pw_gid, user->pw_gid, user->pw_gid) != 0 ||
	     setresuid(user->pw_uid, user->pw_uid, user->pw_uid) != 0))
		gm_ctl_failed("--run-as \"%s\": %s%s", name, strerror(errno),
			      errno == EPERM ? ": only root can" : "");
}

static void read_options(struct loading *l)
{
	const struct gm_ctl *ctl = l->ctl;

	if (!GM_GIVEN(ctl, MODEL) && !GM_GIVEN(ctl, AS_FILE))
		gm_ctl_wrong("load needs --model DIR, the directory of a "
			     "checkpoint, or a GGUF file; or --as-file FILE");
	if (GM_GIVEN(ctl, LINK) && !GM_GIVEN(ctl, AS_FILE))
		gm_ctl_wrong("load --link makes a link to a file: give "
			     "--as-file");
	for (size_t i = 0;
	     i < sizeof(contradictions) / sizeof(contradictions[0]); i++)
		if ((ctl->given & contradictions[i].is) != 0 &&
		    (ctl->given & contradictions[i].not_with) != 0)
			gm_ctl_wrong("load %s", contradictions[i].why);
	l->print.size = GM_GIVEN(ctl, FINGERPRINT) ? sizeof(l->print) : 0;
	if (l->print.size != 0 &&
	    gm_parse_hash(GM_TEXT(ctl, FINGERPRINT), l->print.hash) != 0)
		gm_ctl_wrong("load --fingerprint needs 64 hexadecimal digits, "
			     "not all 0");
}

/* ---- the path of a file -------------------------------------------------- */

/* The path by which other programs open a file that was loaded: that of a
 * descriptor of this process, in /proc.  A link gives it the file's own name in
 * a directory, for programs that look at names. */
static struct link {
	char path[32];       /* in /proc; "": none */
	char link[PATH_MAX]; /* "": none */
} file;

static _Noreturn void no_link(const char *path, int error)
{
	gm_ctl_failed("link %s: %s", path, strerror(error));
}

/* Remove the link, if it is still this one. */
static void end_link(void)
{
	char target[sizeof(file.path)];
	size_t n = strlen(file.path);

	if (readlink(file.link, target, sizeof(target)) == (ssize_t)n &&
	    memcmp(target, file.path, n) == 0)
		unlink(file.link);
}

/* Make a link to the path as @name in @folder, which is made if it is not
 * there; in one step, also over the link of a process that was killed. */
static void make_link(const char *folder, const char *name)
{
	static const char proc[] = "/proc/";
	char fresh[PATH_MAX], path[PATH_MAX], target[sizeof(proc)] = "";
	struct stat facts;

	if (mkdir(folder, 0777) != 0 && errno != EEXIST)
		no_link(folder, errno);
	if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder, name) >=
		    sizeof(path) ||
	    (size_t)snprintf(fresh, sizeof(fresh), "%s/.gpumap-%d", folder,
			     (int)getpid()) >= sizeof(fresh))
		no_link(folder, ENAMETOOLONG);
	/* Is there one that is not of this command, or of an earlier one? */
	if (lstat(path, &facts) == 0 &&
	    (readlink(path, target, sizeof(target)) < (ssize_t)strlen(proc) ||
	     memcmp(target, proc, strlen(proc)) != 0))
		no_link(path, EEXIST);
	if (symlink(file.path, fresh) != 0)
		no_link(fresh, errno);
	if (rename(fresh, path) != 0) {
		int error = errno;

		unlink(fresh);
		no_link(path, error);
	}
	strcpy(file.link, path);
	atexit(end_link);
}

/* ---- progress ------------------------------------------------------------ */

static const char *state_name(uint32_t state)
{
	static const char *const names[] = {
		[GPUMAP_MODEL_ALLOCATING] = "allocating",
		[GPUMAP_MODEL_LOADING] = "loading",
		[GPUMAP_MODEL_LOADED] = "loaded",
		[GPUMAP_MODEL_WAITING] = "waiting",
	};

	return state < sizeof(names) / sizeof(names[0]) && names[state] != NULL
		       ? names[state]
		       : "ending";
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

/* ---- loading ------------------------------------------------------------- */

/* Wait until the model is loaded. */
static void load(struct loading *l)
{
	uint64_t step = l->ctl->json ? SECOND : LOOK_NS;
	int ret;

	while ((ret = gpumap_model_progress(l->model, &l->progress)) == 0) {
		const struct gpumap_model_progress *p = &l->progress;
		uint64_t until = gm_clock_ns() + step;

		if (l->ctl->json) {
			gm_ctl_print(progress_json(l));
			fflush(stdout);
		} else {
			gm_progress_note(&l->line,
					 p->state == GPUMAP_MODEL_WAITING
						 ? "another process loads it"
						 : NULL);
			gm_progress_tell(&l->line, p->bytes, p->total_bytes);
		}
		/* Check for signals five times a second. */
		while (!told && gm_clock_ns() < until &&
		       gpumap_model_wait(l->model, gm_clock_ns() + LOOK_NS) ==
			       -ETIME)
			;
		if (told)
			gpumap_model_cancel(l->model);
	}
	gm_progress_end(&l->line, ret == 1);
	if (ret == -ECANCELED)
		gm_ctl_fail(l->ctl, ret, "%s", l->name);
	if (ret != 1)
		gm_ctl_fail(l->ctl, ret, "load \"%s\"", l->name);
	l->n_buffers = gpumap_model_buffers(l->model, NULL, 0);
	l->buffers = gm_ctl_alloc(l->n_buffers, sizeof(*l->buffers));
	gpumap_model_buffers(l->model, l->buffers, l->n_buffers);
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

#define TENSOR(name, member, ...) \
	GM_FIELD(gpumap_tensor, name, member, __VA_ARGS__)

static const struct gm_ctl_field tensor_fields[] = {
	TENSOR("name", name),
	TENSOR("type", type),
	GM_FIELD_LIST(gpumap_tensor, "shape", shape, n_dims),
	TENSOR("row", row),
	TENSOR("layer", layer, .as = GM_AS_OR_NULL),
	GM_FIELD_IF(gpumap_tensor, "buffer", part, buffer),
	TENSOR("at", at),
	TENSOR("bytes", bytes),
	{ 0 },
};

static void show_json(const struct loading *l)
{
	struct gpumap_tensor t = { .size = sizeof(t) };
	json_t *object = progress_json(l), *tensors = json_array();
	json_int_t share = (json_int_t)l->progress.share;
	uint32_t cursor = 0;

	while (gpumap_model_next(l->model, &cursor, &t) == 1)
		json_array_append_new(tensors,
				      gm_ctl_fields_json(l->ctl, tensor_fields,
							 &t, NULL));
	json_object_update_new(
		object,
		json_pack(
			"{s:o, s:o, s:o, s:b, s:b, s:o, s:o}", "path",
			gm_ctl_text_json(file.path[0] != '\0' ? file.path
							      : NULL),
			"link",
			gm_ctl_text_json(file.link[0] != '\0' ? file.link
							      : NULL),
			"share", share != 0 ? json_integer(share) : json_null(),
			"was_there", l->progress.was_there != 0, "kept",
			detaches(l->ctl), "buffers",
			gm_ctl_fields_array(l->ctl, buffer_fields, l->buffers,
					    l->n_buffers, sizeof(*l->buffers)),
			"tensors", tensors));
	gm_ctl_print(object);
}

static void show_loaded(const struct loading *l)
{
	const struct gpumap_model_progress *p = &l->progress;
	char size[32];

	if (l->ctl->json) {
		show_json(l);
		fflush(stdout);
		return;
	}
	printf("%s: %s of %u tensors", l->name, gm_size_text(p->bytes, size),
	       p->n_tensors);
	if (p->was_there)
		printf(" were there: another process has loaded it\n");
	else
		printf(" in %.1f s, %.2f GB/s\n", (double)p->elapsed_ns / 1e9,
		       (double)p->bytes_per_second / 1e9);
	for (uint32_t i = 0; i < l->n_buffers; i++)
		printf("  row %3u  %10s\n", l->buffers[i].row,
		       gm_size_text(l->buffers[i].bytes, size));
	if (file.path[0] != '\0')
		printf("  file %s\n", file.path);
	if (file.link[0] != '\0')
		printf("  link %s\n", file.link);
	if (detaches(l->ctl))
		printf("kept as \"%s\", until gpumapctl shares release %s\n",
		       l->name, l->name);
	fflush(stdout);
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
static _Noreturn void ended(const struct loading *l)
{
	for (uint32_t i = 0; i < l->n_buffers; i++) {
		uint32_t row = l->buffers[i].row;
		struct gpumap_device device = device_of(l->ctl, row);

		if (device.restarts != l->restarts[i] ||
		    device.state != GPUMAP_DEVICE_READY)
			gm_ctl_failed("\"%s\" is lost: the worker of row %u "
				      "died or has left service, and what it "
				      "had; load it again",
				      l->name, row);
	}
	gm_ctl_end(GM_EXIT_OK, "\"%s\" has been released", l->name);
}

/* ---- another agent ------------------------------------------------------- */

static void close_session(struct loading *l)
{
	gpumap_session_close(l->session);
	l->session = NULL;
}

/* Open the share by a session with the next agent, if there is one by now. */
static void find_again(struct loading *l)
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
		return;
	if (gpumap_session_open(map, &opts, &l->session) != 0) {
		gpumap_detach(map);
		return;
	}
	gpumap_detach(l->ctl->map);
	l->ctl->map = map;
	ret = gpumap_share_open(l->session, l->name, GPUMAP_SHARE_READ_ONLY,
				NULL, &share);
	if (ret == -ECONNRESET || ret == -ECONNREFUSED || ret == -EPROTO ||
	    ret == -EOWNERDEAD) {
		/* The next agent is gone as well. */
		close_session(l);
		return;
	}
	if (ret != 0 && ret != -ENOENT)
		gm_ctl_fail(l->ctl, ret, "open \"%s\" again", l->name);
	if (ret != 0 || share != l->progress.share || is_shared(l) == 0) {
		gm_ctl_end(GM_EXIT_NO_AGENT,
			   "\"%s\" is lost: the agent went away, and its "
			   "service manager has not kept it; load it again",
			   l->name);
	}
	gm_ctl_say("another agent has \"%s\"; holding it", l->name);
	note_restarts(l);
}

/* ---- hold it ------------------------------------------------------------- */

/* Check the share. */
static void look(struct loading *l)
{
	int ret;

	if (l->session == NULL) {
		find_again(l);
		return;
	}
	ret = gpumap_session_arm(l->session);
	if (ret >= 0)
		ret = is_shared(l);
	if (ret == 0)
		ended(l);
	if (ret > 0) {
		tell_of_restarts(l);
		return;
	}
	gm_ctl_say("the agent is gone; waiting for the next one");
	close_session(l);
}

/* Until a signal, or the end of the share. */
static void hold_it(struct loading *l)
{
	const struct timespec second = { .tv_sec = 1 };
	sigset_t before;

	l->restarts = gm_ctl_alloc(l->n_buffers, sizeof(*l->restarts));
	l->since_ns = gm_clock_ns();
	note_restarts(l);
	if (!l->ctl->json) {
		printf("shared as \"%s\"; holding it; end with Ctrl-C\n",
		       l->name);
		fflush(stdout);
	}
	sigprocmask(SIG_BLOCK, &ends, &before);
	for (look(l); !told; look(l)) {
		struct pollfd wake = { .fd = -1, .events = POLLIN };

		if (l->session != NULL)
			wake.fd = gpumap_session_fd(l->session);
		ppoll(&wake, 1, &second, &before);
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	free(l->restarts);
}

/* ---- the command --------------------------------------------------------- */

static void begin(struct loading *l)
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
		.fingerprint = l->print.size != 0 ? &l->print : NULL,
	};
	uint32_t row = 0, n = gpumap_device_count(ctl->map);
	int ret;

	if (GM_GIVEN(ctl, USERS))
		read_users(l);
	if (!GM_GIVEN(ctl, ONCE)) {
		what.name = l->name;
		what.uids = l->uids;
		what.n_uids = l->n_uids;
		what.share_flags =
			(detaches(ctl) ? GPUMAP_SHARE_KEEP : 0) |
			(GM_GIVEN(ctl, WRITABLE) ? 0 : GPUMAP_SHARE_READ_ONLY) |
			(GM_GIVEN(ctl, ANY_USER) ? GPUMAP_SHARE_ANY_USER : 0);
		what.flags =
			GM_GIVEN(ctl, ANY_FILES) ? GPUMAP_MODEL_ANY_FILES : 0;
	}
	if (GM_GIVEN(ctl, AS_FILE)) {
		what.path = GM_TEXT(ctl, AS_FILE);
		what.layers = NULL;
		what.flags |= GPUMAP_MODEL_AS_FILE;
	}
	/* A file goes to the first host row, unless a row is given. */
	if (GM_GIVEN(ctl, AS_FILE) && what.n_rows == 0) {
		while (row < n &&
		       (device_of(ctl, row).flags & GPUMAP_DEVICE_MAPPED) == 0)
			row++;
		if (row == n)
			gm_ctl_failed("no host row: a file needs one");
		what.rows = &row;
		what.n_rows = 1;
	}
	ret = gpumap_session_open(ctl->map, &opts, &l->session);
	if (ret != 0)
		gm_ctl_fail(ctl, ret, "open a session");
	if (!ctl->json)
		gm_progress_begin(&l->line, ctl, "load", l->name, NULL, 0);
	ret = gpumap_model_load(l->session, &what, &l->model);
	if (ret == 0)
		return;
	gm_progress_end(&l->line, false);
	gm_ctl_fail(ctl, ret, "load \"%s\"", l->name);
}

/* Get a descriptor of the file that was loaded, for others' use by /proc. */
static void open_file(const struct loading *l)
{
	struct gpumap_export_info info = { .size = sizeof(info) };
	struct gpumap_tensor t = { .size = sizeof(t) };
	uint32_t cursor = 0;
	int fd, ret = gpumap_share_fd(l->session, l->progress.share, 0, &info,
				      &fd);

	if (ret != 0)
		gm_ctl_fail(l->ctl, ret, "a descriptor of \"%s\"", l->name);
	snprintf(file.path, sizeof(file.path), "/proc/%d/fd/%d", (int)getpid(),
		 fd);
	if (gpumap_model_next(l->model, &cursor, &t) != 1)
		t.name = l->name;
	if (GM_GIVEN(l->ctl, LINK))
		make_link(GM_TEXT(l->ctl, LINK), t.name);
}

void gm_ctl_load(struct gm_ctl *ctl)
{
	struct loading l = {
		.ctl = ctl,
		.name = ctl->args[0],
		.progress.size = sizeof(l.progress),
	};
	struct gpumap_share_info info = { .size = sizeof(info) };
	int ret;

	read_options(&l);
	mind_signals();
	begin(&l);
	load(&l);
	/* The session ends, and the share is to stay.  One that is there
	 * already may not. */
	if (detaches(ctl)) {
		ret = gpumap_share_info(l.session, l.progress.share, &info);
		if (ret != 0)
			gm_ctl_fail(ctl, ret, "\"%s\" is lost", l.name);
		if ((info.flags & GPUMAP_SHARE_KEEP) == 0)
			gm_ctl_failed("\"%s\" is there and is not kept: it "
				      "ends with the sessions that hold it; "
				      "end it first, with gpumapctl shares "
				      "release %s, or leave out --detach",
				      l.name, l.name);
	} else if (GM_GIVEN(ctl, AS_FILE) && l.progress.share != 0) {
		open_file(&l);
	}
	show_loaded(&l);
	if (!GM_GIVEN(ctl, ONCE) && !detaches(ctl))
		hold_it(&l);
	/* Closing the session frees the memory, even with jobs in flight. */
	gpumap_session_close(l.session);
	gpumap_model_close(l.model, GPUMAP_NO_DEADLINE);
	free(l.buffers);
}
