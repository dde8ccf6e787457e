/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Record the jobs of rows into a file. */

#include "agent/ctl/ctl.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/ctl/clock.h"
#include "agent/reader/device_text.h"
#include "agent/reader/list.h"
#include "agent/trace/chrome_trace.h"
#include "shm/ops.h"

#define SECOND    UINT64_C(1000000000)
#define TIMEOUT_S 5
#define AT_ONCE   4096u
#define ROW_ROOM  UINT64_C(16384) /* records, see gpumap/trace.h */
#define BUFFER    (1u << 20)      /* bytes of the file */

static volatile sig_atomic_t stopped;

static void stop(int signal)
{
	(void)signal;
	stopped = 1;
}

/* The sessions at the beginning, and at the end. */
struct sessions {
	const struct gm_ctl *ctl;
	struct gpumap_session_info *list[2];
	int n[2];
};

static void name_session(void *of, uint64_t session, uint32_t uid,
			 char *ret_name, size_t bytes)
{
	const struct sessions *all = of;
	char user[GM_CTL_NAME], command[GM_CTL_NAME];

	for (int k = 0; k < 2; k++)
		for (int i = 0; i < all->n[k]; i++) {
			const struct gpumap_session_info *s = &all->list[k][i];

			if (s->id != session)
				continue;
			snprintf(ret_name, bytes,
				 "session %llu: %s, process %u of %s",
				 (unsigned long long)session,
				 gm_ctl_command(all->ctl, s->pid, uid, command),
				 s->pid, gm_ctl_user(uid, user));
			return;
		}
	snprintf(ret_name, bytes, "session %llu of %s",
		 (unsigned long long)session, gm_ctl_user(uid, user));
}

static void name_row(void *of, uint32_t row, char *ret_name, size_t bytes)
{
	const struct sessions *all = of;
	struct gpumap_device device = { .size = sizeof(device) };

	if (gpumap_device_read(all->ctl->map, row, &device) == 0)
		snprintf(ret_name, bytes, "row %u: %s", row, device.name);
	else
		snprintf(ret_name, bytes, "row %u", row);
}

/* Write what comes until the time is up or a signal comes, and then what the
 * rows have recorded until then: at most @room records.  Returns 0 or a
 * negative errno; that the agent ended is no error. */
static int record(struct gpumap_trace *trace, struct gm_chrome_trace *to,
		  uint64_t until_ns, uint64_t room,
		  struct gm_chrome_totals *totals)
{
	static struct gpumap_trace_job jobs[AT_ONCE];
	const struct timespec while_ns = { .tv_nsec = 1000000 };
	bool is_over = false;

	for (;;) {
		uint64_t lost;
		int n;

		is_over = is_over || stopped || gm_clock_ns() >= until_ns;
		n = gpumap_trace_read(trace, jobs, AT_ONCE, &lost);
		if (n < 0)
			return n == -ECONNRESET ? 0 : n;
		for (int i = 0; i < n; i++) {
			const char *op = gm_ops_name(jobs[i].op);
			int ret = gm_chrome_trace_job(
				to, &jobs[i], op != NULL ? op : "?",
				gm_ctl_dtype(jobs[i].dtype));

			if (ret != 0)
				return ret;
		}
		totals->jobs += (uint64_t)n;
		totals->lost += lost;
		if (is_over && ((uint32_t)n < AT_ONCE || room <= AT_ONCE))
			return 0;
		if (is_over)
			room -= AT_ONCE;
		else if (n == 0)
			nanosleep(&while_ns, NULL);
	}
}

static int report(const struct gm_ctl *ctl, const char *path,
		  const struct gm_chrome_totals *totals)
{
	if (ctl->json)
		return gm_ctl_print(json_pack("{s:s, s:I, s:I}", "file", path,
					      "jobs", (json_int_t)totals->jobs,
					      "lost",
					      (json_int_t)totals->lost));
	fprintf(stderr, "%llu jobs in %s; ui.perfetto.dev opens it\n",
		(unsigned long long)totals->jobs, path);
	if (totals->lost != 0)
		fprintf(stderr,
			"%llu more were lost: they came faster than they were "
			"written; record fewer rows\n",
			(unsigned long long)totals->lost);
	return GM_EXIT_OK;
}

static int write_trace(const struct gm_ctl *ctl, struct gpumap_trace *trace,
		       FILE *to, struct gm_chrome_totals *totals)
{
	struct sessions all = { .ctl = ctl };
	const struct gm_chrome_names names = { name_row, name_session, &all };
	uint64_t since_ns = gm_clock_ns(), timeout_s = TIMEOUT_S;
	struct gm_chrome_trace *chrome = gm_chrome_trace_begin(to, since_ns);
	int ret;

	if (chrome == NULL)
		return -ENOMEM;
	if ((ctl->given & GM_OPT_TIMEOUT) != 0)
		timeout_s = ctl->timeout_s;
	all.n[0] = gm_list_session(ctl->map, &all.list[0]);
	ret = record(trace, chrome,
		     timeout_s < UINT64_MAX / SECOND / 2
			     ? since_ns + timeout_s * SECOND
			     : UINT64_MAX,
		     ROW_ROOM * (ctl->n_rows ? ctl->n_rows
					     : gpumap_device_count(ctl->map)),
		     totals);
	all.n[1] = gm_list_session(ctl->map, &all.list[1]);
	gm_chrome_trace_end(chrome, &names, totals);
	free(all.list[0]);
	free(all.list[1]);
	return ret;
}

static int record_to(const struct gm_ctl *ctl, struct gpumap_trace *trace,
		     const char *path, FILE *to)
{
	struct gm_chrome_totals totals = { 0 };
	int ret;

	setvbuf(to, NULL, _IOFBF, BUFFER);
	ret = write_trace(ctl, trace, to, &totals);
	if (ret != 0)
		return gm_ctl_fail(ctl, ret, "trace");
	if (fflush(to) == 0 && !ferror(to))
		return report(ctl, path, &totals);
	fprintf(stderr, "gpumapctl: %s: %s\n", path, strerror(errno));
	return GM_EXIT_FAILED;
}

/* A file of that name stays as it is where there is nothing to record. */
int gm_ctl_trace(struct gm_ctl *ctl)
{
	struct sigaction action = { .sa_handler = stop,
				    .sa_flags = SA_RESTART };
	const char *path = ctl->args[0];
	struct gpumap_trace *trace;
	int ret =
		gpumap_trace_open(ctl->map, ctl->n_rows != 0 ? ctl->rows : NULL,
				  ctl->n_rows, &trace);
	FILE *to;

	if (ret != 0)
		return gm_ctl_fail(ctl, ret, "trace");
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	to = fopen(path, "we");
	if (to != NULL) {
		ret = record_to(ctl, trace, path, to);
		fclose(to);
	} else {
		fprintf(stderr, "gpumapctl: %s: %s\n", path, strerror(errno));
		ret = GM_EXIT_FAILED;
	}
	gpumap_trace_close(trace);
	return ret;
}
