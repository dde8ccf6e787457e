/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Read the options, find the rows that the command may have, and reserve them
 * in this process, while a thread says what it waits for; then become the
 * command. */

#include "agent/ctl/run/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <gpumap/plan.h>

#include "agent/ctl/clock.h"
#include "agent/ctl/export.h"
#include "agent/ctl/parse.h"
#include "agent/ctl/plan.h"
#include "agent/ctl/who.h"
#include "agent/reader/list.h"
#include "lib/model/plan/number.h"

#define SECOND    GM_CLOCK_SECOND
#define NAP_NS    (SECOND / 20)
#define SAY_S     10 /* between two lines */
#define NAME_MARK 8  /* hexadecimal digits at the end of a name */

/* ---- options ------------------------------------------------------------- */

static int wrong(const char *what)
{
	return gm_ctl_wrong("run: %s; see gpumapctl-run(1)", what);
}

/* Make @run->name of --name, or "run.COMMAND.1a2b3c4d", which no other run
 * has. */
static int make_name(struct gm_run *run)
{
	/* Bytes that a name may have, and that a shell wants in no quotes. */
	static const char plain[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
		"0123456789_-+.";
	const char *command = run->ctl->args[0], *slash = strrchr(command, '/');
	const char *given = GM_TEXT(run->ctl, NAME);
	uint32_t mark;

	if (given != NULL) {
		if (strlen(given) > GPUMAP_NAME_MAX || given[0] == '\0')
			return wrong("--name has 1 to 63 bytes");
		strcpy(run->name, given);
		return GM_EXIT_OK;
	}
	if (getrandom(&mark, sizeof(mark), 0) != sizeof(mark))
		return gm_ctl_failed("run: getrandom: %s", strerror(errno));
	snprintf(run->name, sizeof(run->name), "run.%.*s.%08x",
		 GPUMAP_NAME_MAX - 5 - NAME_MARK,
		 slash != NULL ? slash + 1 : command, mark);
	for (char *at = run->name; *(at += strspn(at, plain)) != '\0';)
		*at = '_';
	return GM_EXIT_OK;
}

static int read_options(struct gm_run *run)
{
	const struct gm_ctl *ctl = run->ctl;
	const char *reserve = GM_TEXT(ctl, RESERVE);
	const char *no_agent = GM_TEXT(ctl, NO_AGENT);

	if (GM_GIVEN(ctl, RESERVE) + GM_GIVEN(ctl, MAP) +
		    GM_GIVEN(ctl, MODEL) !=
	    1)
		return wrong("give one of --reserve, --map and --model");
	if (reserve != NULL && gm_number_size(reserve, &run->bytes) != 0)
		return gm_ctl_wrong("run: --reserve: \"%s\" " GM_NUMBER_NO_SIZE
				    "; see gpumapctl-run(1)",
				    reserve);
	if (GM_GIVEN(ctl, MAP) && (ctl->n_rows > 0 || GM_GIVEN(ctl, ANY)))
		return wrong("--map has its rows: give neither --rows nor "
			     "--any");
	if (!GM_GIVEN(ctl, MODEL) && (ctl->given & GM_OPTS_PLACING) != 0)
		return wrong("the options of plan need --model");
	if (GM_GIVEN(ctl, MODEL) && GM_GIVEN(ctl, ANY))
		return wrong("--any is for --reserve");
	if (no_agent != NULL && strcmp(no_agent, "run") != 0 &&
	    strcmp(no_agent, "fail") != 0)
		return wrong("--no-agent is run or fail");
	if (ctl->json && !GM_GIVEN(ctl, PRINT_ENV))
		return wrong("--json is for --print-env");
	if (GM_GIVEN(ctl, FOR) &&
	    gm_ctl_engine(GM_TEXT(ctl, FOR), &run->engine) != GM_EXIT_OK)
		return GM_EXIT_USAGE;
	if (!GM_GIVEN(ctl, GATE) &&
	    (GM_GIVEN(ctl, READY_FILE) || GM_GIVEN(ctl, READY_TCP) ||
	     GM_GIVEN(ctl, START_LIMIT)))
		return wrong("--ready-file, --ready-tcp and --start-limit need "
			     "--gate");
	if (GM_GIVEN(ctl, READY_FILE) && GM_TEXT(ctl, READY_FILE)[0] == '\0')
		return wrong("--ready-file is a path");
	if (GM_NUMBER(ctl, READY_TCP) > UINT16_MAX)
		return wrong("--ready-tcp is a port: 1 to 65535");
	return make_name(run);
}

/* ---- the caller's cards -------------------------------------------------- */

/* The rows that CUDA would show to this process; none: as the agent likes. */
static int find_visible(const struct gm_ctl *ctl,
			uint32_t ret_rows[GPUMAP_ROWS_MAX], uint32_t *ret_n)
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");
	const char *cut; /* why an entry of that is left out */
	struct gpumap_device d;
	uint32_t row = 0, n_cards = 0, n_usable = 0;
	int n;

	*ret_n = 0;
	while (gm_ctl_next_device(ctl->map, &row, &d))
		n_cards +=
			d.kind == GPUMAP_DEVICE_CUDA &&
			d.state != GPUMAP_DEVICE_LOST &&
			((d.flags & GPUMAP_DEVICE_MIG) == 0 || d.mig_gi >= 0);
	if (n_cards == 0)
		return GM_EXIT_OK;
	n = gpumap_device_visible(ctl->map, visible,
				  getenv("CUDA_DEVICE_ORDER"), ret_rows,
				  GPUMAP_ROWS_MAX);
	if (n < 0)
		return gm_ctl_fail(ctl, n, "run: the cards of this process");
	if (n == 0)
		return gm_ctl_failed(
			"run: this process sees none of the node's cards%s: "
			"give --rows or --any",
			visible != NULL ? ", by CUDA_VISIBLE_DEVICES" : "");
	cut = gpumap_refusal(ctl->map);
	if (cut[0] != '\0')
		gm_ctl_say("run: %s", cut);
	/* All of them are the agent's choice, which leaves out what is not in
	 * service. */
	if ((uint32_t)n == n_cards)
		return GM_EXIT_OK;
	/* Leave out what a plan may not take now, unless nothing is left. */
	for (int i = 0; i < n; i++) {
		row = ret_rows[i];
		if (gm_ctl_next_device(ctl->map, &row, &d) &&
		    d.row == ret_rows[i] && gm_ctl_is_usable(&d) &&
		    d.state != GPUMAP_DEVICE_DRAINING &&
		    (d.flags & GPUMAP_DEVICE_CORDONED) == 0)
			ret_rows[n_usable++] = ret_rows[i];
	}
	*ret_n = n_usable > 0 ? n_usable : (uint32_t)n;
	return GM_EXIT_OK;
}

/* ---- what is wanted ------------------------------------------------------ */

static int find_bytes(struct gm_run *run)
{
	const struct gm_ctl *ctl = run->ctl;
	bool any = GM_GIVEN(ctl, ANY);
	int ret = GM_EXIT_OK;

	run->ask.n_rows = ctl->n_rows;
	memcpy(run->ask.rows, ctl->rows, sizeof(run->ask.rows));
	run->ask.n_layers = ctl->n_rows > 0 && !any ? ctl->n_rows : 1;
	if (ctl->n_rows == 0 && !any)
		ret = find_visible(ctl, run->ask.rows, &run->ask.n_rows);
	for (uint32_t i = 0; i < run->ask.n_layers; i++)
		run->ask.bytes[i] = run->bytes;
	return ret;
}

static int find_model(struct gm_run *run)
{
	struct gm_ctl *ctl = run->ctl;
	int ret = GM_EXIT_OK;

	if (ctl->n_rows == 0)
		ret = find_visible(ctl, ctl->rows, &ctl->n_rows);
	if (ret != GM_EXIT_OK)
		return ret;
	run->ask.planning = calloc(1, sizeof(*run->ask.planning));
	if (run->ask.planning == NULL)
		return gm_ctl_fail(ctl, -ENOMEM, "run");
	run->ask.planning->ctl = ctl;
	GM_TEXT(ctl, COMMIT) = run->name;
	return gm_ctl_plan_read(run->ask.planning);
}

/* Add the bytes of layers that a map has without charges.  Returns 0 or a
 * negative errno. */
static int count_layers(struct gm_run *run, const struct gpumap_layers *head)
{
	const struct gm_ctl *ctl = run->ctl;
	uint32_t n = head->n_layers;
	uint32_t *rows = calloc((size_t)n + 1, sizeof(*rows));
	uint64_t *bytes = calloc((size_t)n + 1, sizeof(*bytes));
	struct gpumap_layers again = { .size = sizeof(again) };
	int ret = rows == NULL || bytes == NULL ? -ENOMEM : 0;

	if (ret == 0)
		ret = gpumap_layers_read(ctl->map, GM_TEXT(ctl, MAP), &again,
					 rows, bytes, n, NULL, 0);
	for (uint32_t i = 0; ret == 0 && i < run->ask.n_rows; i++) {
		if (run->ask.rows[i] == again.base_row)
			run->ask.bytes[i] += again.other_bytes;
		for (uint32_t k = 0; k < again.n_layers; k++)
			if (rows[k] == run->ask.rows[i])
				run->ask.bytes[i] += bytes[k];
	}
	free(rows);
	free(bytes);
	return ret;
}

static int find_map(struct gm_run *run)
{
	const struct gm_ctl *ctl = run->ctl;
	const char *name = GM_TEXT(ctl, MAP);
	struct gpumap_charge charges[GPUMAP_ROWS_MAX];
	struct gpumap_layers head = { .size = sizeof(head) };
	char user[GM_CTL_NAME];
	uint64_t sum = 0;
	int ret = gpumap_layers_read(ctl->map, name, &head, NULL, NULL, 0,
				     charges, GPUMAP_ROWS_MAX);

	if (ret == -ENOENT)
		return gm_ctl_unknown("layer map", name, "maps");
	if (ret != 0)
		return gm_ctl_fail(ctl, ret, "run: map \"%s\"", name);
	run->ask.n_rows = run->ask.n_layers = head.n_rows;
	for (uint32_t i = 0; i < head.n_rows; i++) {
		run->ask.rows[i] = charges[i].row;
		run->ask.bytes[i] = gm_ctl_charged(&charges[i]);
		sum += run->ask.bytes[i];
	}
	if ((head.flags & GPUMAP_LAYERS_COMMITTED) == 0) {
		ret = sum == 0 ? count_layers(run, &head) : 0;
		return ret == 0
			       ? GM_EXIT_OK
			       : gm_ctl_fail(ctl, ret, "run: map \"%s\"", name);
	}
	if (head.owner_uid != geteuid() && geteuid() != 0)
		return gm_ctl_failed(
			"run: map \"%s\" is reserved by %s already, whose "
			"processes and root's may use it: gpumapctl maps lists "
			"others",
			head.name, gm_ctl_user(head.owner_uid, user));
	run->ask.is_committed = true;
	run->map_name = name;
	return GM_EXIT_OK;
}

/* Find out on which rows the command may be, and what it takes of them; and
 * refuse what can be refused before anything is reserved. */
static int prepare(struct gm_run *run)
{
	const struct gm_ctl *ctl = run->ctl;
	int ret;

	for (uint32_t i = 0; i < ctl->n_rows; i++)
		if (ctl->rows[i] >= gpumap_device_count(ctl->map))
			return gm_ctl_no_row(ctl->rows[i]);
	ret = GM_GIVEN(ctl, MAP)     ? find_map(run)
	      : GM_GIVEN(ctl, MODEL) ? find_model(run)
				     : find_bytes(run);
	return ret == GM_EXIT_OK ? gm_run_engine_check(run) : ret;
}

/* ---- one request --------------------------------------------------------- */

/* Take the rows that are known before the agent is asked; false: it chooses. */
static bool take_known_rows(struct gm_run *run)
{
	if (run->ask.planning != NULL || run->ask.n_rows != run->ask.n_layers)
		return false;
	run->n_rows = run->ask.n_rows;
	memcpy(run->rows, run->ask.rows, sizeof(run->rows));
	memcpy(run->row_bytes, run->ask.bytes, sizeof(run->row_bytes));
	return true;
}

/* Returns 0, or what gpumap_plan_make() does. */
static int ask(struct gm_run *run, uint32_t flags, uint64_t wait_ns)
{
	struct gpumap_plan_charge charges[GPUMAP_ROWS_MAX];
	struct gpumap_plan answer = { .size = sizeof(answer) };
	uint64_t none[GPUMAP_ROWS_MAX] = { 0 };
	uint32_t n_layers = 0;
	struct gpumap_plan_request request = {
		.size = sizeof(request),
		.name = run->name,
		.setting = GPUMAP_SETTING_RESERVE,
		.rows = run->ask.n_rows > 0 ? run->ask.rows : NULL,
		.n_rows = run->ask.n_rows,
		.n_layers = run->ask.n_layers,
		.layer_bytes = run->ask.is_committed ? none : run->ask.bytes,
	};
	int ret;

	if (run->ask.planning != NULL) {
		gm_ctl_plan_to_agent(run->ask.planning, &request);
		n_layers = request.n_layers;
		free(run->layers);
		run->layers = calloc(n_layers, sizeof(*run->layers));
		if (run->layers == NULL)
			return -ENOMEM;
	}
	request.flags &= GPUMAP_PLAN_BASE;
	request.flags |= flags;
	if ((flags & GPUMAP_PLAN_COMMIT) != 0) {
		request.wait_ns = wait_ns;
		request.start_ns = gm_run_start_limit_ns(run);
	}
	ret = gpumap_plan_make(run->ctl->map, &request, &answer, run->layers,
			       n_layers, charges, GPUMAP_ROWS_MAX);
	if (ret != 0 || take_known_rows(run))
		return ret;
	run->base_row = answer.base_row;
	run->n_rows = answer.n_charges;
	for (uint32_t i = 0; i < answer.n_charges; i++) {
		const struct gpumap_plan_charge *c = &charges[i];

		run->rows[i] = c->row;
		run->row_bytes[i] = run->ask.planning == NULL
					    ? run->bytes
					    : c->weight_bytes + c->kv_bytes +
						      c->activation_bytes +
						      c->reserve_bytes;
	}
	return 0;
}

/* Could the rows have what is asked of them, at another time? */
static bool may_fit(const struct gm_run *run)
{
	bool all = run->ask.n_layers > 1;
	uint32_t n = run->ask.n_rows, n_fit = 0;

	if (run->ask.planning != NULL)
		return true;
	if (n == 0)
		n = gpumap_device_count(run->ctl->map);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t row = run->ask.n_rows > 0 ? run->ask.rows[i] : i;
		struct gpumap_device d = { .size = sizeof(d) };

		n_fit += gpumap_device_read(run->ctl->map, row, &d) == 0 &&
			 d.total_bytes >= run->ask.bytes[all ? i : 0];
	}
	return all ? n_fit == n : n_fit > 0;
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

/* ---- what it waits for --------------------------------------------------- */

/* With an attachment of its own, while the main thread waits. */
struct teller {
	struct gm_ctl ctl; /* its own */
	const char *name;
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
		 gm_ctl_s(wait->n_rows), gm_who_line_rows(wait, rows), size,
		 reason[0] != '\0' ? "; " : "", reason);
}

static void tell(void *data)
{
	struct teller *t = data;
	struct gpumap_attach_opts opts = gm_ctl_where(&t->ctl);
	struct gm_who_line waits = { .v = NULL };
	char text[512] = "waiting for the agent to come back";
	int i = 0, ret = 0;

	if (t->ctl.map == NULL)
		ret = gpumap_attach(&opts, &t->ctl.map);
	if (ret == 0)
		ret = waits.n = gm_list_wait(t->ctl.map, &waits.v);
	while (i < waits.n && strcmp(waits.v[i].name, t->name) != 0)
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
	gm_ctl_say("run: %s", text);
}

/* ---- waiting ------------------------------------------------------------- */

/* Is there no agent, or no more the one of this map? */
static bool is_gone(int error)
{
	return error == -ENOENT || error == -ECONNREFUSED ||
	       error == -ECONNRESET || error == -ESTALE || error == -ESHUTDOWN;
}

/* Reserve.  An agent that goes away meanwhile may come back: the request then
 * is a new one, and last in the line. */
static int reserve(struct gm_run *run, uint64_t wait_ns)
{
	const uint32_t flags = GPUMAP_PLAN_PUBLISH | GPUMAP_PLAN_COMMIT |
			       GPUMAP_PLAN_HELD | GPUMAP_PLAN_NEW;
	struct gpumap_attach_opts opts = gm_ctl_where(run->ctl);
	uint64_t deadline_ns = gm_clock_ns() + wait_ns;
	int ret = ask(run, flags, wait_ns);

	while (is_gone(ret) && gm_clock_ns() < deadline_ns) {
		nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
		gpumap_detach(run->ctl->map);
		run->ctl->map = NULL;
		ret = gpumap_attach(&opts, &run->ctl->map);
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
		gm_ctl_say("run: map \"%s\" cannot be pinned, so what the "
			   "command allocates counts twice, as in use and as "
			   "reserved: %s",
			   run->map_name,
			   why[0] != '\0' ? why : gpumap_strerror(error));
}

/* There is no agent.  May the command run all the same? */
static bool is_free(struct gm_run *run)
{
	const char *no_agent = GM_TEXT(run->ctl, NO_AGENT);

	run->unreserved = no_agent != NULL && strcmp(no_agent, "run") == 0;
	return run->unreserved;
}

/* Make a reservation for this process. */
static int reserve_own(struct gm_run *run)
{
	uint64_t wait_s = GM_NUMBER(run->ctl, WAIT);
	struct teller teller = { .ctl = *run->ctl, .name = run->name };
	struct gm_clock_ticker ticker = { .tick = tell,
					  .data = &teller,
					  .next_ns = gm_clock_ns() + SECOND,
					  .step_ns = SECOND };
	int ret;

	teller.ctl.map = NULL;
	if (wait_s > 0)
		gm_clock_ticker_begin(&ticker);
	ret = reserve(run, wait_s < UINT64_MAX / SECOND / 4 ? wait_s * SECOND
							    : UINT64_MAX / 4);
	if (wait_s > 0)
		gm_clock_ticker_end(&ticker);
	gpumap_detach(teller.ctl.map);
	if (ret == 0 || (is_gone(ret) && is_free(run)))
		return GM_EXIT_OK;
	return refused(run, ret);
}

/* ---- the command --------------------------------------------------------- */

/* Can the file be executed?  Returns 0 or a negative errno. */
static int try_file(const char *path)
{
	struct stat st;

	if (stat(path, &st) != 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EACCES;
	return faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) == 0 ? 0 : -errno;
}

/* Search PATH as execvp() does.  Returns 0, or the negative errno of the file
 * that comes nearest. */
static int search(const char *file)
{
	const char *path = getenv("PATH");
	int worst = -ENOENT;

	if (strchr(file, '/') != NULL)
		return try_file(file);
	if (path == NULL)
		path = "/bin:/usr/bin";
	for (;; path++) {
		size_t n = strcspn(path, ":");
		char *whole;
		int ret;

		if (asprintf(&whole, "%.*s%s%s", (int)n, path, n > 0 ? "/" : "",
			     file) < 0)
			return -ENOMEM;
		ret = try_file(whole);
		free(whole);
		if (ret == 0)
			return 0;
		if (ret == -EACCES)
			worst = ret;
		path += n;
		if (*path == '\0')
			return worst;
	}
}

static int no_command(const char *file, int error)
{
	bool missing = error == -ENOENT || error == -ENOTDIR;

	gm_ctl_say("run: %s: %s", file,
		   missing ? "there is no such command" : strerror(-error));
	return missing ? GM_RUN_NOT_FOUND : GM_RUN_NOT_EXECUTABLE;
}

/* ---- the order ----------------------------------------------------------- */

/* Print what would be set, for the rows that the command would have now. */
static int show(struct gm_run *run)
{
	int ret = run->unreserved ? GM_EXIT_OK : prepare(run);

	if (ret == GM_EXIT_OK && !run->unreserved && !take_known_rows(run)) {
		ret = ask(run, 0, 0);
		ret = ret == 0 ? GM_EXIT_OK : refused(run, ret);
	}
	if (ret == GM_EXIT_OK && !run->unreserved)
		ret = gm_run_environment_set(run);
	if (ret == GM_EXIT_OK)
		ret = gm_run_environment_caches(run, false);
	return ret == GM_EXIT_OK ? gm_run_environment_show(run) : ret;
}

static int run_reserved(struct gm_run *run)
{
	int ret = prepare(run);

	if (ret == GM_EXIT_OK)
		ret = gm_run_start_open(run);
	if (ret == GM_EXIT_OK) {
		if (!run->ask.is_committed || GM_GIVEN(run->ctl, GATE))
			ret = reserve_own(run);
		else
			take_known_rows(run);
	}
	if (ret != GM_EXIT_OK || run->unreserved)
		return ret;
	if (run->ask.is_committed)
		use_map(run);
	ret = gm_run_environment_set(run);
	if (ret != GM_EXIT_OK)
		return ret;
	if (!GM_GIVEN(run->ctl, NO_BIND))
		gm_run_environment_bind(run);
	return run->start != NULL ? gm_run_start_watch(run) : GM_EXIT_OK;
}

/* Returns only where it cannot become the command, or need not. */
static int run_all(struct gm_run *run)
{
	struct gm_ctl *ctl = run->ctl;
	struct gpumap_attach_opts opts = gm_ctl_where(ctl);
	struct gm_words env = { 0 };
	int ret = read_options(run), error;

	if (ret != GM_EXIT_OK)
		return ret;
	error = search(ctl->args[0]);
	if (error != 0)
		return no_command(ctl->args[0], error);
	for (int i = 0; i < ctl->n_args; i++)
		gm_words_add(&run->argv, "%s", ctl->args[i]);
	run->map_name = run->name;
	error = gpumap_attach(&opts, &ctl->map);
	if (error != 0 && (error != -ENOENT || !is_free(run)))
		return gm_ctl_not_attached(error);
	if (GM_GIVEN(ctl, PRINT_ENV))
		return show(run);
	ret = gm_run_environment_caches(run, true);
	if (ret == GM_EXIT_OK && !run->unreserved)
		ret = run_reserved(run);
	if (ret != GM_EXIT_OK)
		return ret;
	if (run->unreserved)
		gm_ctl_say("run: no agent: %s runs without a reservation",
			   ctl->args[0]);
	gm_run_environment_merge(run, &env);
	fflush(NULL);
	execvpe(run->argv.v[0], run->argv.v, env.v);
	ret = no_command(run->argv.v[0], -errno);
	gm_words_free(&env);
	return ret;
}

int gm_ctl_run(struct gm_ctl *ctl)
{
	struct gm_run run = { .ctl = ctl };
	int ret = run_all(&run);

	gm_run_start_free(&run);
	gm_ctl_plan_free(run.ask.planning);
	free(run.layers);
	gm_words_free(&run.env);
	gm_words_free(&run.argv);
	return ret;
}
