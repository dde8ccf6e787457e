/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/trace/chrome_trace.h"

#include <errno.h>
#include <inttypes.h>
#include <search.h>
#include <stdbool.h>
#include <stdlib.h>

#define LANES 64u /* more of a session overlap in its last lane */
#define NAME  256

/* A session that had jobs on a row. */
struct track {
	uint64_t session;
	uint32_t row;
	uint32_t uid;
	uint32_t n;             /* lanes in use */
	uint64_t id;            /* of its first lane's thread */
	uint64_t end_ns[LANES]; /* of the last job of each */
};

struct gm_chrome_trace {
	FILE *to;
	uint64_t since_ns;
	bool begun; /* an event has been written */
	uint64_t n_tracks;
	void *tracks; /* a tree, see tsearch(3) */
};

struct gm_chrome_trace *gm_chrome_trace_begin(FILE *to, uint64_t since_ns)
{
	struct gm_chrome_trace *trace = calloc(1, sizeof(*trace));

	if (trace == NULL)
		return NULL;
	trace->to = to;
	trace->since_ns = since_ns;
	fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", to);
	return trace;
}

static int compare(const void *left, const void *right)
{
	const struct track *a = left, *b = right;

	if (a->row != b->row)
		return a->row < b->row ? -1 : 1;
	return a->session < b->session ? -1 : a->session > b->session;
}

static struct track *track_of(struct gm_chrome_trace *trace,
			      const struct gpumap_trace_job *job)
{
	const struct track key = { .session = job->session, .row = job->row };
	struct track *const *found = tfind(&key, &trace->tracks, compare);
	struct track *track;

	if (found != NULL)
		return *found;
	track = malloc(sizeof(*track));
	if (track == NULL)
		return NULL;
	*track = key;
	track->uid = job->uid;
	track->id = 1 + trace->n_tracks * LANES;
	if (tsearch(track, &trace->tracks, compare) == NULL) {
		free(track);
		return NULL;
	}
	trace->n_tracks++;
	return track;
}

/* The first lane in which the job begins after the last one's end. */
static uint32_t lane_of(struct track *track, const struct gpumap_trace_job *job)
{
	uint32_t lane = 0;

	while (lane < track->n && track->end_ns[lane] > job->started_ns)
		lane++;
	if (lane == LANES)
		lane--;
	if (lane == track->n)
		track->n++;
	track->end_ns[lane] = job->ended_ns;
	return lane;
}

static void begin_event(struct gm_chrome_trace *trace)
{
	fputs(trace->begun ? ",\n" : "\n", trace->to);
	trace->begun = true;
}

/* Microseconds, with the nanoseconds behind the point. */
static void put_time(FILE *to, const char *name, uint64_t ns)
{
	fprintf(to, "\"%s\":%" PRIu64 ".%03u", name, ns / 1000,
		(unsigned)(ns % 1000));
}

int gm_chrome_trace_job(struct gm_chrome_trace *trace,
			const struct gpumap_trace_job *job, const char *op,
			const char *dtype)
{
	struct track *track = track_of(trace, job);
	FILE *to = trace->to;
	uint64_t begun_ns = job->started_ns;

	if (track == NULL)
		return -ENOMEM;
	/* A job that had begun when the recording did. */
	if (begun_ns < trace->since_ns)
		begun_ns = trace->since_ns;
	begin_event(trace);
	fprintf(to,
		"{\"ph\":\"X\",\"cat\":\"job\",\"name\":\"%s\",\"pid\":%u,"
		"\"tid\":%" PRIu64 ",",
		op, job->row + 1, track->id + lane_of(track, job));
	put_time(to, "ts", begun_ns - trace->since_ns);
	putc(',', to);
	put_time(to, "dur",
		 job->ended_ns > begun_ns ? job->ended_ns - begun_ns : 0);
	fprintf(to,
		",\"args\":{\"elements\":%" PRIu64 ",\"dtype\":\"%s\","
		"\"status\":%d,\"wait_ns\":%" PRIu64 "}}",
		job->n, dtype, job->status,
		job->started_ns > job->read_ns ? job->started_ns - job->read_ns
					       : 0);
	return 0;
}

/* In quotes, and with what JSON does not take in them escaped.  Bytes that are
 * no printable ASCII become '?': others choose the names. */
static void put_string(FILE *to, const char *text)
{
	putc('"', to);
	for (; *text != '\0'; text++) {
		if (*text == '"' || *text == '\\')
			putc('\\', to);
		putc(*text >= ' ' && *text <= '~' ? *text : '?', to);
	}
	putc('"', to);
}

static void put_name(struct gm_chrome_trace *trace, const char *what,
		     uint32_t pid, uint64_t tid, const char *name)
{
	begin_event(trace);
	fprintf(trace->to,
		"{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%u,\"tid\":%" PRIu64
		",\"args\":{\"name\":",
		what, pid, tid);
	put_string(trace->to, name);
	fputs("}}", trace->to);
}

static void name_track(struct gm_chrome_trace *trace, const struct track *track,
		       const struct gm_chrome_names *names)
{
	char name[NAME], more[NAME + 16];

	names->session(names->of, track->session, track->uid, name,
		       sizeof(name));
	for (uint32_t lane = 0; lane < track->n; lane++) {
		snprintf(more, sizeof(more), lane == 0 ? "%s" : "%s (%u)", name,
			 lane + 1);
		put_name(trace, "thread_name", track->row + 1, track->id + lane,
			 more);
	}
}

struct naming {
	struct gm_chrome_trace *trace;
	const struct gm_chrome_names *names;
	uint32_t next; /* row that is not named yet; rows come in order */
};

static void name_node(const void *node, VISIT visit, void *closure)
{
	const struct track *track = *(struct track *const *)node;
	struct naming *naming = closure;
	char name[NAME];

	if (visit != postorder && visit != leaf)
		return;
	if (track->row >= naming->next) {
		naming->names->row(naming->names->of, track->row, name,
				   sizeof(name));
		put_name(naming->trace, "process_name", track->row + 1, 0,
			 name);
		naming->next = track->row + 1;
	}
	name_track(naming->trace, track, naming->names);
}

void gm_chrome_trace_end(struct gm_chrome_trace *trace,
			 const struct gm_chrome_names *names,
			 const struct gm_chrome_totals *totals)
{
	struct naming naming = { .trace = trace, .names = names };

	twalk_r(trace->tracks, name_node, &naming);
	tdestroy(trace->tracks, free);
	fprintf(trace->to,
		"\n],\"otherData\":{\"jobs\":\"%" PRIu64
		"\",\"lost\":\"%" PRIu64 "\"}}\n",
		totals->jobs, totals->lost);
	free(trace);
}
