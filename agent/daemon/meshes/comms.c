/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/meshes/comms.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/comm/comm_shm.h"
#include "agent/common/log.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/base/session_memory.h"
#include "agent/daemon/config.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/sessions/session.h"
#include "agent/daemon/workers/attachment.h"
#include "agent/daemon/workers/worker_child.h"
#include "agent/daemon/workers/worker_request.h"
#include "gpumap.h"
#include "shm/control_comm.h"
#include "shm/journal.h"
#include "shm/point.h"

#define COMMS_MAX     256u  /* of a session */
#define COMMS_PER_UID 1024u /* each is a mapping of a worker, of 65530 */

_Static_assert(GM_COMM_RANKS_MAX == GM_COMM_RANKS &&
		       GM_COMM_RANKS_MAX == GPUMAP_COMM_RANKS_MAX,
	       "one limit");

struct rank {
	struct gm_comm_group *of;
	struct gm_worker_request request;
	uint32_t row;
	uint64_t clique_bytes; /* of its device's memory, about */
	bool is_requested;
};

struct gm_comm_group {
	TAILQ_ENTRY(gm_comm_group) entry;
	struct gm_session *session;
	uint32_t number;
	uint64_t bytes; /* charged with the arenas; 0: not any more */
	int fd;         /* -1: all have it, or it is no more */
	bool is_staged; /* its page has windows */
	bool has_rows;  /* they serve cliques of this session alone */
	uint32_t n_met; /* ranks whose devices are in its clique */
	uint32_t n_requested;
	uint32_t n_held;
	bool is_opening; /* its client waits for that, */
	bool is_closing; /* or for that */
	bool is_broken;
	bool is_asking; /* requests come and go in calls of ours */
	int status;     /* why it is broken */
	char why[GM_WHY_BYTES];
	uint32_t n;
	struct rank rank[]; /* n of them */
};

/* ---- the end ------------------------------------------------------------- */

static void close_page(struct gm_comm_group *g)
{
	gm_close_thread_close(&g->session->server->close_thread, g->fd);
	g->fd = -1;
}

static struct gm_device *device_of(const struct gm_session *session,
				   uint32_t row)
{
	return session->server->d->devices->of[row];
}

/*
 * Jobs of two sessions may come to two cards in two orders, and each card would
 * wait for the other.  So a row serves the cliques of one session at a time,
 * whose own order is the same everywhere.  Groups of other sessions use
 * windows.
 */
static void take_rows(struct gm_comm_group *g)
{
	for (uint32_t i = 0; i < g->n; i++) {
		struct gm_device *device =
			device_of(g->session, g->rank[i].row);

		device->clique_session = g->session->id;
		device->n_cliques++;
	}
	g->has_rows = true;
}

static void give_rows_back(struct gm_comm_group *g)
{
	for (uint32_t i = 0; g->has_rows && i < g->n; i++)
		device_of(g->session, g->rank[i].row)->n_cliques--;
	g->has_rows = false;
}

static void release_page(struct gm_comm_group *g)
{
	close_page(g);
	give_rows_back(g);
	g->session->user->arena_bytes -= g->bytes;
	g->bytes = 0;
}

static void free_group(struct gm_comm_group *g)
{
	struct gm_comms *all = &g->session->comms;

	release_page(g);
	TAILQ_REMOVE(&all->list, g, entry);
	all->n--;
	g->session->user->comms--;
	free(g);
	GM_POINT("comm_gone");
}

void gm_comms_init(struct gm_comms *comms)
{
	TAILQ_INIT(&comms->list);
}

void gm_comms_free(struct gm_session *session)
{
	struct gm_comm_group *g;

	/* Their requests ended with the attachments. */
	while ((g = TAILQ_FIRST(&session->comms.list)))
		free_group(g);
}

/* ---- what becomes of it -------------------------------------------------- */

static void leave_all(struct gm_comm_group *g)
{
	g->is_asking = true;
	for (uint32_t i = 0; i < g->n; i++)
		if (g->rank[i].is_requested)
			gm_attachments_give_back(&g->rank[i].request);
	g->is_asking = false;
}

/* Those that are meeting have not answered, and are told nothing before they
 * have.  Any byte of it breaks the page; without that they wait for as long as
 * they may. */
static void end_meeting(const struct gm_comm_group *g)
{
	const off_t at = offsetof(struct gm_comm_page, broken);
	const uint32_t broken = EIO;
	ssize_t n;

	if (g->fd < 0 || !g->has_rows)
		return;
	do
		n = pwrite(g->fd, &broken, sizeof(broken), at);
	while (n < 0 && errno == EINTR);
}

/* The difference of free memory before and after they met.  Other processes may
 * have taken some meanwhile, or given back, so the figure is only logged, and
 * charged to no user. */
static void log_clique(const struct gm_comm_group *g)
{
	const struct rank *most = &g->rank[0];
	uint64_t all = 0;

	for (uint32_t i = 0; i < g->n; i++) {
		all += g->rank[i].clique_bytes;
		if (g->rank[i].clique_bytes > most->clique_bytes)
			most = &g->rank[i];
	}
	gm_log_of(g->session->user->uid, GM_LOG_INFO, "comm_nccl",
		  "session=%" PRIu64 " comm=%u ranks=%u about_bytes=%" PRIu64
		  " most=%" PRIu64 " row=%u",
		  g->session->id, g->number, g->n, all, most->clique_bytes,
		  most->row);
}

/* Something has changed.  Answers who waits, which may free the group. */
static void settle(struct gm_comm_group *g)
{
	struct gm_connection *c = g->session->connection;
	struct gm_comm_reply reply = {
		.comm = g->number,
		.flags = (g->is_staged ? GM_COMM_STAGED : 0) |
			 (g->n_met == g->n ? GM_COMM_NCCL : 0),
	};
	bool was_opening = g->is_opening;
	char why[GM_WHY_BYTES];
	int status = g->status;

	if (g->is_asking)
		return;
	if (g->is_broken || g->is_closing) {
		end_meeting(g);
		leave_all(g);
	}
	if (was_opening && !g->is_broken && g->n_held == g->n) {
		g->is_opening = false;
		/* All ranks that need the descriptor have it, and descriptors
		 * have no quota. */
		close_page(g);
		if (g->n_met == g->n)
			log_clique(g);
		else if (g->n_met == 0)
			give_rows_back(g);
		GM_POINT("comm_open");
		if (c)
			gm_connection_answer(c, 0, NULL, &reply, sizeof(reply),
					     -1);
		return;
	}
	if (g->n_requested)
		return;
	release_page(g);
	if (!g->is_opening && !g->is_closing)
		return;
	memcpy(why, g->why, sizeof(why));
	free_group(g);
	if (c)
		gm_connection_answer(c, was_opening ? status : 0,
				     was_opening ? why : NULL, NULL, 0, -1);
}

static void held(struct gm_worker_request *request, uint64_t bytes, int fd)
{
	struct rank *rank = gm_owner(request, struct rank, request);

	rank->of->n_held++;
	if (bytes != 0) {
		rank->of->n_met++;
		rank->clique_bytes = bytes - 1;
	}
	settle(rank->of);
}

static void gone(struct gm_worker_request *request, int status, const char *why)
{
	struct rank *rank = gm_owner(request, struct rank, request);
	struct gm_comm_group *g = rank->of;

	rank->is_requested = false;
	g->n_requested--;
	if (!g->is_broken && !g->is_closing) {
		g->is_broken = true;
		g->status = status ? status : -ESTALE;
		gm_why(g->why, g->status, "%s", why);
		if (!g->is_opening && g->session->connection)
			gm_log_of(g->session->user->uid, GM_LOG_INFO,
				  "comm_broken",
				  "session=%" PRIu64 " comm=%u rank=%u",
				  g->session->id, g->number,
				  (unsigned)(rank - g->rank));
		GM_POINT("comm_broken");
	}
	settle(g);
}

static bool has_row(const struct gm_comm_group *g, uint32_t row)
{
	bool has = false;

	for (uint32_t i = 0; i < g->n && !has; i++)
		has = g->rank[i].row == row;
	return has;
}

/* The first group that is meeting without this row, or NULL. */
static struct gm_comm_group *find_meeting(const struct gm_daemon *d,
					  uint32_t row)
{
	const struct gm_session *session;
	struct gm_comm_group *g;

	TAILQ_FOREACH(session, &d->server->sessions, entry)
	TAILQ_FOREACH(g, &session->comms.list, entry)
	{
		if (g->is_opening && g->has_rows && !g->is_broken &&
		    !has_row(g, row))
			return g;
	}
	return NULL;
}

void gm_comms_end_meetings(struct gm_daemon *d, uint32_t row)
{
	struct gm_comm_group *g;

	while (d->server && (g = find_meeting(d, row)) != NULL) {
		g->is_broken = true;
		g->status = gm_why(g->why, -ESTALE,
				   "a card is drained, and no others begin to "
				   "use NCCL meanwhile: open it again");
		settle(g);
	}
}

/* ---- COMM_OPEN ----------------------------------------------------------- */

static int check_row(struct gm_connection *c, const uint32_t *rows, uint32_t i)
{
	for (uint32_t k = 0; k < i; k++)
		if (rows[k] == rows[i])
			return gm_connection_bad(c, -EINVAL,
						 "row %u is to be two ranks",
						 rows[i]);
	return gm_session_check_row(c, rows[i]);
}

/* Is there one whose memory the others cannot have mapped? */
static bool is_staged(const struct gm_session *session, const uint32_t *rows,
		      uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (!gm_device_can(device_of(session, rows[i]),
				   GPUMAP_DEVICE_MAPPED))
			return true;
	return false;
}

/* Are all of them cards of one kind that may meet, is none in use by another
 * session, and is no card drained that NCCL opens? */
static bool may_meet(const struct gm_session *session, const uint32_t *rows,
		     uint32_t n)
{
	const struct gm_daemon *d = session->server->d;
	uint32_t kind = device_of(session, rows[0])->facts.kind;

	if (gm_config_cliques(d->config, kind)->may == GM_CONFIG_NCCL_NO ||
	    n < 2 ||
	    (kind == GPUMAP_DEVICE_CUDA && gm_worker_child_drains_card(d)))
		return false;
	for (uint32_t i = 0; i < n; i++) {
		const struct gm_device *device = device_of(session, rows[i]);

		if (!gm_device_can(device, GPUMAP_DEVICE_CLIQUES) ||
		    device->facts.kind != kind ||
		    device->n_cliques >= GM_JOURNAL_NCCL_GROUPS ||
		    (device->n_cliques &&
		     device->clique_session != session->id))
			return false;
	}
	return true;
}

/* The tail is of any alignment. */
static int check(struct gm_connection *c, const struct gm_request *r,
		 const struct gm_comm_open *ask,
		 uint32_t ret_rows[GM_COMM_RANKS])
{
	const struct gm_session *session = c->session;
	int error = 0;

	if (ask->flags & ~GM_COMM_MAY_NCCL)
		return gm_connection_bad(c, -EINVAL,
					 "flags 0x%x: this agent knows 0x%x "
					 "of them; open it without the others",
					 ask->flags, GM_COMM_MAY_NCCL);
	if (ask->n_ranks == 0 ||
	    r->tail_bytes != (uint64_t)ask->n_ranks * sizeof(ret_rows[0]))
		return gm_connection_bad(c, -EINVAL,
					 "%u ranks, and %u bytes of rows",
					 ask->n_ranks, r->tail_bytes);
	if (ask->n_ranks > GM_COMM_RANKS)
		return gm_connection_bad(c, -E2BIG,
					 "%u ranks: a group that does "
					 "collectives has %u at most",
					 ask->n_ranks, GM_COMM_RANKS);
	if (session->runs_programs)
		return gm_connection_bad(c, -EOPNOTSUPP,
					 "this session runs programs: do "
					 "collectives in one that does not");
	if (session->comms.n >= COMMS_MAX)
		return gm_connection_bad(c, -EDQUOT,
					 "this session has %u communicators; "
					 "close some",
					 session->comms.n);
	if (session->user->comms >= COMMS_PER_UID)
		return gm_connection_bad(c, -EDQUOT,
					 "uid %u has %u communicators in its "
					 "sessions; close some",
					 (unsigned)c->uid,
					 session->user->comms);
	memcpy(ret_rows, r->tail, r->tail_bytes);
	for (uint32_t i = 0; error == 0 && i < ask->n_ranks; i++)
		error = check_row(c, ret_rows, i);
	return error;
}

/* The page, with the rows of its ranks in it.  Windows have their memory from
 * those whose they are, on their node. */
static int make_page(const uint32_t *rows, uint32_t n, uint64_t bytes)
{
	const off_t at = offsetof(struct gm_comm_page, row);
	size_t size = n * sizeof(*rows);
	int fd = gm_session_memory_open("gpumap-comm", bytes);
	int error;

	if (fd < 0)
		return fd;
	error = gm_session_memory_fill(fd, 0, gm_comm_page_bytes(n), -1);
	if (error == 0 && pwrite(fd, rows, size, at) != (ssize_t)size)
		error = -EIO;
	if (error == 0)
		return fd;
	close(fd);
	return error;
}

static int make(struct gm_connection *c, const uint32_t *rows, uint32_t n,
		uint32_t flags, struct gm_comm_group **ret_group)
{
	bool staged = is_staged(c->session, rows, n);
	uint64_t bytes = gm_comm_bytes(n, staged);
	struct gm_comms *all = &c->session->comms;
	struct gm_comm_group *g;
	int error = gm_user_admit_memory(c->server, c->session->user, bytes,
					 "a communicator");

	if (error)
		return error;
	if (all->last == UINT32_MAX)
		return gm_connection_bad(c, -EDQUOT,
					 "this session has had all there are; "
					 "open another");
	g = calloc(1, sizeof(*g) + n * sizeof(g->rank[0]));
	if (!g)
		return -ENOMEM;
	g->fd = make_page(rows, n, bytes);
	if (g->fd < 0) {
		error = g->fd;
		free(g);
		return gm_connection_bad(c, error,
					 "no memory for a communicator: %s",
					 strerror(-error));
	}
	g->session = c->session;
	g->session->user->arena_bytes += bytes;
	g->bytes = bytes;
	g->is_staged = staged;
	g->number = ++all->last;
	g->n = n;
	for (uint32_t i = 0; i < n; i++)
		g->rank[i].row = rows[i];
	if ((flags & GM_COMM_MAY_NCCL) && may_meet(c->session, rows, n))
		take_rows(g);
	TAILQ_INSERT_TAIL(&all->list, g, entry);
	all->n++;
	g->session->user->comms++;
	*ret_group = g;
	return 0;
}

static int ask_all(struct gm_comm_group *g, const uint32_t *rows)
{
	struct gm_session *session = g->session;
	uint32_t flags = (g->is_staged ? GM_JOIN_STAGED : 0) |
			 (g->has_rows ? GM_JOIN_CLIQUE : 0);
	int error = 0;

	g->is_asking = true;
	for (uint32_t i = 0; error == 0 && i < g->n && !g->is_broken; i++) {
		struct rank *rank = &g->rank[i];

		rank->of = g;
		rank->request =
			(struct gm_worker_request){ .ask = GM_WIRE_JOIN,
						    .handle = g->number,
						    .join.rank = i,
						    .join.n_ranks = g->n,
						    .join.flags = flags,
						    .fd = g->fd,
						    .held = held,
						    .gone = gone };
		rank->is_requested = true;
		g->n_requested++;
		error = gm_attachments_ask(&session->queue[rows[i]]->attachment,
					   &rank->request,
					   session->server->why);
		if (error) {
			rank->is_requested = false;
			g->n_requested--;
		}
	}
	g->is_asking = false;
	return error;
}

int gm_comm_handle_open(struct gm_connection *c, const struct gm_request *r)
{
	uint32_t rows[GM_COMM_RANKS];
	struct gm_comm_group *g = NULL;
	struct gm_comm_open ask;
	int error;

	memcpy(&ask, r->body, sizeof(ask));
	error = check(c, r, &ask, rows);
	if (error)
		return error;
	error = make(c, rows, ask.n_ranks, ask.flags, &g);
	if (error)
		return error;
	gm_connection_wait(c, &r->header);
	g->is_opening = true;
	error = ask_all(g, rows);
	if (error && !g->is_broken) {
		g->is_broken = true;
		g->status = error;
		memcpy(g->why, c->server->why, sizeof(g->why));
	}
	settle(g);
	return 0;
}

/* ---- COMM_CLOSE ---------------------------------------------------------- */

int gm_comm_handle_close(struct gm_connection *c, const struct gm_request *r)
{
	struct gm_comm_group *g = NULL;
	struct gm_comm_close ask;

	memcpy(&ask, r->body, sizeof(ask));
	TAILQ_FOREACH(g, &c->session->comms.list, entry)
	{
		if (g->number == ask.comm)
			break;
	}
	if (!g || ask.reserved)
		return gm_connection_bad(c, -ENOENT,
					 "this session has no communicator %u",
					 ask.comm);
	gm_connection_wait(c, &r->header);
	g->is_closing = true;
	settle(g);
	return 0;
}
