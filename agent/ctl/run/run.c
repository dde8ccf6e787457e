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
#include "agent/ctl/plan.h"
#include "agent/reader/list.h"
#include "lib/model/plan/number.h"

#define SECOND    GM_CLOCK_SECOND
#define NAP_NS    (SECOND / 20)
#define SAY_S     10 /* between two lines */
#define NAME_MARK 8  /* hexadecimal digits at the end of a name */

/* ---- options ------------------------------------------------------------- */

static _Noreturn void wrong(const char *what)
{
	gm_ctl_wrong("run: %s; see gpumapctl-run(1)", what);
}

/* Make @run->name of --name, or "run.COMMAND.1a2b3c4d", which no other run
 * has. */
static void make_name(struct gm_run *run)
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
			wrong("--name has 1 to 63 bytes");
		strcpy(run->name, given);
		return;
	}
	if (getrandom(&mark, sizeof(mark), 0) != sizeof(mark))
		gm_ctl_failed("run: getrandom: %s", strerror(errno));
	snprintf(run->name, sizeof(run->name), "run.%.*s.%08x",
		 GPUMAP_NAME_MAX - 5 - NAME_MARK,
		 slash != NULL ? slash + 1 : command, mark);
	for (char *at = run->name; *(at += strspn(at, plain)) != '\0';)
		*at = '_';
}

static void read_options(struct gm_run *run)
{
	const struct gm_ctl *ctl = run->ctl;
	const char *reserve = GM_TEXT(ctl, RESERVE);
	const char *no_agent = GM_TEXT(ctl, NO_AGENT);

	if (GM_GIVEN(ctl, RESERVE) + GM_GIVEN(ctl, MAP) +
		    GM_GIVEN(ctl, MODEL) !=
	    1)
		wrong("give one of --reserve, --map and --model");
	if (reserve != NULL && gm_number_size(reserve, &run->bytes) != 0)
		gm_ctl_wrong("run: --reserve: \"%s\" " GM_NUMBER_NO_SIZE
			     "; see gpumapctl-run(1)",
			     reserve);
	if (GM_GIVEN(ctl, MAP) && (ctl->n_rows > 0 || GM_GIVEN(ctl, ANY)))
		wrong("--map has its rows: give neither --rows nor --any");
	if (!GM_GIVEN(ctl, MODEL) && (ctl->given & GM_OPTS_PLACING) != 0)
		wrong("the options of plan need --model");
	if (GM_GIVEN(ctl, MODEL) && GM_GIVEN(ctl, ANY))
		wrong("--any is for --reserve");
	if (no_agent != NULL && strcmp(no_agent, "run") != 0 &&
	    strcmp(no_agent, "fail") != 0)
		wrong("--no-agent is run or fail");
	if (ctl->json && !GM_GIVEN(ctl, PRINT_ENV))
		wrong("--json is for --print-env");
	if (GM_GIVEN(ctl, FOR))
		run->engine = gm_ctl_engine(ctl);
	if (!GM_GIVEN(ctl, GATE) &&
	    (GM_GIVEN(ctl, READY_FILE) || GM_GIVEN(ctl, READY_TCP) ||
	     GM_GIVEN(ctl, START_LIMIT)))
		wrong("--ready-file, --ready-tcp and --start-limit need "
		      "--gate");
	if (GM_GIVEN(ctl, READY_FILE) && GM_TEXT(ctl, READY_FILE)[0] == '\0')
		wrong("--ready-file is a path");
	if (GM_NUMBER(ctl, READY_TCP) > UINT16_MAX)
		wrong("--ready-tcp is a port: 1 to 65535");
	make_name(run);
}

/* ---- the caller's cards -------------------------------------------------- */

/* Find the rows that CUDA would show to this process.  Returns how many; 0: as
 * the agent likes. */
static uint32_t find_visible(const struct gm_ctl *ctl,
			     uint32_t ret_rows[GPUMAP_ROWS_MAX])
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");
	const char *cut; /* why an entry of that is left out */
	struct gpumap_device d;
	uint32_t row = 0, n_cards = 0, n_usable = 0;
	int n;

	while (gm_ctl_next_device(ctl->map, &row, &d))
		n_cards +=
			d.kind == GPUMAP_DEVICE_CUDA &&
			d.state != GPUMAP_DEVICE_LOST &&
			((d.flags & GPUMAP_DEVICE_MIG) == 0 || d.mig_gi >= 0);
	if (n_cards == 0)
		return 0;
	n = gpumap_device_visible(ctl->map, visible,
				  getenv("CUDA_DEVICE_ORDER"), ret_rows,
				  GPUMAP_ROWS_MAX);
	if (n < 0)
		gm_ctl_fail(ctl, n, "run: the cards of this process");
	if (n == 0)
		gm_ctl_failed(
			"run: this process sees none of the node's cards%s: "
			"give --rows or --any",
			visible != NULL ? ", by CUDA_VISIBLE_DEVICES" : "");
	cut = gpumap_refusal(ctl->map);
	if (cut[0] != '\0')
		gm_ctl_say("run: %s", cut);
	/* All of them are the agent's choice, which leaves out what is not in
	 * service. */
	if ((uint32_t)n == n_cards)
		return 0;
	/* Leave out what a plan may not take now, unless nothing is left. */
	for (int i = 0; i < n; i++) {
		row = ret_rows[i];
		if (gm_ctl_next_device(ctl->map, &row, &d) &&
		    d.row == ret_rows[i] && gm_ctl_is_usable(&d) &&
		    d.state != GPUMAP_DEVICE_DRAINING &&
		    (d.flags & GPUMAP_DEVICE_CORDONED) == 0)
			ret_rows[n_usable++] = ret_rows[i];
	}
	return n_usable > 0 ? n_usable : (uint32_t)n;
}

/* ---- what is wanted ------------------------------------------------------ */

static void find_map(struct gm_run *run)
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
		gm_ctl_unknown("layer map", name, "maps");
	if (ret != 0)
		gm_ctl_fail(ctl, ret, "run: map \"%s\"", name);
	run->ask.n_rows = run->ask.n_layers = head.n_rows;
	for (uint32_t i = 0; i < head.n_rows; i++) {
		run->ask.rows[i] = charges[i].row;
		run->ask.bytes[i] = gm_ctl_charged(&charges[i]);
		sum += run->ask.bytes[i];
	}
	if ((head.flags & GPUMAP_LAYERS_COMMITTED) == 0) {
		uint32_t n = sum == 0 ? head.n_layers : 0;
		uint32_t *rows = gm_ctl_alloc(n, sizeof(*rows));
		uint64_t *bytes = gm_ctl_alloc(n, sizeof(*bytes));

		/* Count the bytes of layers that it has without charges. */
		if (n > 0)
			ret = gpumap_layers_read(ctl->map, name, &head, rows,
						 bytes, n, NULL, 0);
		if (ret != 0)
			gm_ctl_fail(ctl, ret, "run: map \"%s\"", name);
		for (uint32_t i = 0; n > 0 && i < run->ask.n_rows; i++) {
			if (run->ask.rows[i] == head.base_row)
				run->ask.bytes[i] += head.other_bytes;
			for (uint32_t k = 0; k < head.n_layers; k++)
				if (rows[k] == run->ask.rows[i])
					run->ask.bytes[i] += bytes[k];
		}
		free(rows);
		free(bytes);
		return;
	}
	if (head.owner_uid != geteuid() && geteuid() != 0)
		gm_ctl_failed(
			"run: map \"%s\" is reserved by %s already, whose "
			"processes and root's may use it: gpumapctl maps lists "
			"others",
			head.name, gm_ctl_user(head.owner_uid, user));
	run->ask.is_committed = true;
	run->map_name = name;
}

/* Find out on which rows the command may be, and what it takes of them; and
 * refuse what can be refused before anything is reserved. */
static void prepare(struct gm_run *run)
{
	struct gm_ctl *ctl = run->ctl;

	gm_ctl_check_rows(ctl);
	if (ctl->n_rows == 0 && !GM_GIVEN(ctl, ANY) && !GM_GIVEN(ctl, MAP))
		ctl->n_rows = find_visible(ctl, ctl->rows);
	if (GM_GIVEN(ctl, MAP)) {
		find_map(run);
	} else if (GM_GIVEN(ctl, MODEL)) {
		GM_TEXT(ctl, COMMIT) = run->name;
		run->ask.planning = gm_ctl_plan_read(ctl);
	} else {
		run->ask.n_rows = ctl->n_rows;
		memcpy(run->ask.rows, ctl->rows, sizeof(run->ask.rows));
		run->ask.n_layers = GM_GIVEN(ctl, ROWS) && !GM_GIVEN(ctl, ANY)
					    ? ctl->n_rows
					    : 1;
		for (uint32_t i = 0; i < run->ask.n_layers; i++)
			run->ask.bytes[i] = run->bytes;
	}
	gm_run_engine_check(run);
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
	struct gpumap_charge charges[GPUMAP_ROWS_MAX];
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
		request = gm_ctl_plan_to_agent(run->ask.planning);
		n_layers = request.n_layers;
		free(run->layers);
		run->layers = gm_ctl_alloc(n_layers, sizeof(*run->layers));
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
		run->rows[i] = charges[i].row;
		run->row_bytes[i] = run->ask.planning == NULL
					    ? run->bytes
					    : gm_plan_charge_bytes(&charges[i]);
	}
	return 0;
}

static _Noreturn void refused(const struct gm_run *run, int error)
{
	const struct gm_ctl *ctl = run->ctl;
	const char *reason = gm_ctl_reason(ctl, error);
	bool all = run->ask.n_layers > 1, may_later;
	uint32_t n = run->ask.n_rows, n_fit = 0;

	/* Could the rows have what is asked of them, at another time? */
	if (n == 0)
		n = gpumap_device_count(ctl->map);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t row = run->ask.n_rows > 0 ? run->ask.rows[i] : i;
		struct gpumap_device d = { .size = sizeof(d) };

		n_fit += gpumap_device_read(ctl->map, row, &d) == 0 &&
			 d.total_bytes >= run->ask.bytes[all ? i : 0];
	}
	may_later =
		error == -EBUSY || error == -ETIMEDOUT ||
		(error == -ENOSPC && GM_NUMBER(ctl, WAIT) == 0 &&
		 (run->ask.planning != NULL || (all ? n_fit == n : n_fit > 0)));
	/* A request that waits has room some time, or is refused at once. */
	gm_ctl_end(may_later ? GM_RUN_NOT_NOW
		   : error == -ENOENT || error == -ECONNREFUSED ||
				   error == -ECONNRESET
			   ? GM_EXIT_NO_AGENT
			   : GM_EXIT_FAILED,
		   "run: \"%s\": %s", run->name, reason);
}

/* ---- what it waits for --------------------------------------------------- */

/* With an attachment of its own, while the main thread waits. */
struct teller {
	struct gm_ctl ctl; /* its own */
	const char *name;
	char said[512];
	uint64_t said_ns;
};

static void tell(void *data)
{
	struct teller *t = data;
	struct gpumap_attach_opts opts = gm_ctl_where(&t->ctl);
	struct gpumap_wait_info *waits = NULL;
	char text[512] = "waiting for the agent to come back";
	int i = 0, n = 0, ret = 0;

	if (t->ctl.map == NULL)
		ret = gpumap_attach(&opts, &t->ctl.map);
	if (ret == 0)
		ret = n = gm_list_wait(t->ctl.map, &waits);
	while (i < n && strcmp(waits[i].name, t->name) != 0)
		i++;
	if (i < n) {
		const struct gpumap_wait_info *w = &waits[i];
		char rows[GM_CTL_WAIT_ROWS], reason[GM_CTL_WAIT_REASON];
		char size[32] = "memory";

		gm_ctl_line_reason(&t->ctl, w, reason);
		if (w->bytes != 0)
			gm_size_text(w->bytes, size);
		snprintf(text, sizeof(text), "waiting %s row%s %s: %s%s%s",
			 (w->flags & GPUMAP_WAIT_FOR_START) != 0 ? "to start on"
								 : "for",
			 gm_ctl_s(w->n_rows), gm_ctl_line_rows(w, rows), size,
			 reason[0] != '\0' ? "; " : "", reason);
	}
	free(waits);
	if (ret < 0) {
		gpumap_detach(t->ctl.map);
		t->ctl.map = NULL;
	} else if (i == n) {
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

/* There is no agent.  May the command run all the same? */
static bool is_free(struct gm_run *run)
{
	const char *no_agent = GM_TEXT(run->ctl, NO_AGENT);

	run->unreserved = no_agent != NULL && strcmp(no_agent, "run") == 0;
	return run->unreserved;
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

static _Noreturn void no_command(const char *file, int error)
{
	bool missing = error == -ENOENT || error == -ENOTDIR;

	gm_ctl_end(missing ? GM_RUN_NOT_FOUND : GM_RUN_NOT_EXECUTABLE,
		   "run: %s: %s", file,
		   missing ? "there is no such command" : strerror(-error));
}

/* ---- the order ----------------------------------------------------------- */

/* Print what would be set, for the rows that the command would have now. */
static void show(struct gm_run *run)
{
	int ret = 0;

	if (!run->unreserved) {
		prepare(run);
		if (!take_known_rows(run))
			ret = ask(run, 0, 0);
		if (ret != 0)
			refused(run, ret);
		gm_run_environment_set(run);
	}
	gm_run_environment_caches(run, false);
	gm_run_environment_show(run);
}

static void reserve_all(struct gm_run *run)
{
	uint64_t wait_ns = gm_clock_of_seconds(GM_NUMBER(run->ctl, WAIT));
	struct teller teller = { .ctl = *run->ctl, .name = run->name };
	struct gm_clock_ticker ticker = { .tick = tell,
					  .data = &teller,
					  .next_ns = gm_clock_ns() + SECOND,
					  .step_ns = SECOND };
	struct gpumap_view view;
	uint64_t pin;
	int error;

	prepare(run);
	gm_run_start_open(run);
	if (run->ask.is_committed && !GM_GIVEN(run->ctl, GATE)) {
		take_known_rows(run);
	} else {
		teller.ctl.map = NULL;
		if (wait_ns > 0)
			gm_clock_ticker_begin(&ticker);
		error = reserve(run, wait_ns);
		if (wait_ns > 0)
			gm_clock_ticker_end(&ticker);
		gpumap_detach(teller.ctl.map);
		if (error != 0 && (!is_gone(error) || !is_free(run)))
			refused(run, error);
	}
	if (run->unreserved)
		return;
	/* Have the agent count the memory of this process as part of what the
	 * map reserves. */
	error = run->ask.is_committed
			? gpumap_layers_pin(run->ctl->map, run->map_name, &view,
					    &pin)
			: 0;
	if (error != 0)
		gm_ctl_say("run: map \"%s\" cannot be pinned, so what the "
			   "command allocates counts twice, as in use and as "
			   "reserved: %s",
			   run->map_name, gm_ctl_reason(run->ctl, error));
	gm_run_environment_set(run);
	if (!GM_GIVEN(run->ctl, NO_BIND))
		gm_run_environment_bind(run);
	if (run->start != NULL)
		gm_run_start_watch(run);
}

/* Returns only where it need not become the command. */
void gm_ctl_run(struct gm_ctl *ctl)
{
	struct gm_run run = { .ctl = ctl, .map_name = run.name };
	struct gpumap_attach_opts opts = gm_ctl_where(ctl);
	struct gm_words env = { 0 };
	int error;

	read_options(&run);
	error = search(ctl->args[0]);
	if (error != 0)
		no_command(ctl->args[0], error);
	for (int i = 0; i < ctl->n_args; i++)
		gm_ctl_words_add(&run.argv, "%s", ctl->args[i]);
	error = gpumap_attach(&opts, &ctl->map);
	if (error != 0 && (error != -ENOENT || !is_free(&run)))
		gm_ctl_not_attached(error);
	if (GM_GIVEN(ctl, PRINT_ENV)) {
		show(&run);
		gm_ctl_plan_free(run.ask.planning);
		free(run.layers);
		gm_ctl_words_free(&run.env);
		gm_ctl_words_free(&run.argv);
		return;
	}
	gm_run_environment_caches(&run, true);
	if (!run.unreserved)
		reserve_all(&run);
	if (run.unreserved)
		gm_ctl_say("run: no agent: %s runs without a reservation",
			   ctl->args[0]);
	gm_run_environment_merge(&run, &env);
	fflush(NULL);
	execvpe(run.argv.v[0], run.argv.v, env.v);
	no_command(run.argv.v[0], -errno);
}
