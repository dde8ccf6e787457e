/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A worker that dies just when it has copied a mask from another card, or whose
 * other card's worker dies then: the mask is published all the same, with the
 * right bytes, and none that may not be relied on.
 */

#include "tests/support/mask_replicas.h"

static struct mask_cards m;
static char ticket[96];

/* One worker does that, once it has copied one.  Both run by then: the first
 * that does has the mask uploaded. */
static bool start(const char *action)
{
	static char point[96], holder[128];

	snprintf(ticket, sizeof(ticket), "%s/ticket", m.agent.dir);
	close(open(ticket, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	snprintf(point, sizeof(point), "GM_POINT=worker_mask_copied:%s",
		 action);
	snprintf(holder, sizeof(holder), "GM_POINT_TICKET=%s", ticket);
	m.agent.env[2] = point;
	m.agent.env[3] = holder;
	m.agent.env[4] = NULL;
	return OK(agent_start(&m.agent)) &&
	       OK((m.map = story_attach(&m.agent)) != NULL) &&
	       mask_cards_find(&m, 2) &&
	       EQ(mask_cards_publish(&m, "small", MASK_SMALL, 2), 0);
}

static void end(void)
{
	unlink(ticket);
	gpumap_detach(m.map);
	m.map = NULL;
	EQ(agent_kill(&m.agent, SIGTERM), 0);
}

/* Either row may be asked first, and be the one that the other copies from. */
static uint32_t n_copied(void)
{
	return mask_cards_made(&m, m.rows[0], "peer") +
	       mask_cards_made(&m, m.rows[1], "peer");
}

static bool is_taken(void)
{
	return access(ticket, F_OK) != 0;
}

/* NVML is asked about paths after the rows are READY. */
static void who_copied_dies(void)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	if (!start("kill"))
		return;
	do {
		EQ(mask_cards_publish(&m, "new", MASK_LARGE, 2), 0);
		OK(mask_cards_right(&m, "new", MASK_LARGE, 2));
	} while (!is_taken() && story_now() < until);
	OK(is_taken());
	EQ(n_copied(), 0);
	/* One death may be of anything: it is tried again. */
	OK(!agent_logged(&m.agent, "event=peers_bad"));
	EQ(mask_cards_publish(&m, "new", MASK_LARGE, 2), 0);
	OK(mask_cards_right(&m, "new", MASK_LARGE, 2));
	EQ(n_copied(), 1);
	OK(agent_logged(&m.agent, "event=peers_good"));
	/* The next agent would make their replicas at its start, and a worker
	 * would stop before the test has published anything. */
	EQ(gpumap_mask_release(m.map, "new"), 0);
	EQ(gpumap_mask_release(m.map, "small"), 0);
	end();
}

static char state_of(pid_t pid)
{
	char path[64], text[512] = "", *at;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "re");
	if (file == NULL)
		return 'X';
	at = fgets(text, sizeof(text), file) ? strrchr(text, ')') : NULL;
	fclose(file);
	return at != NULL && at[1] == ' ' ? at[2] : 'X';
}

/* Was the first large replica of a row, logged behind @from, uploaded? */
static bool is_uploaded(uint32_t row, long from)
{
	FILE *file = fopen(m.agent.log, "re");
	char line[1024], of[32];
	bool is = false;

	if (file == NULL || fseek(file, from, SEEK_SET) != 0)
		return false;
	snprintf(of, sizeof(of), "event=mask_on_device row=%u ", row);
	while (fgets(line, sizeof(line), file) != NULL) {
		const char *bytes = strstr(line, " bytes=");

		if (strstr(line, of) == NULL || bytes == NULL ||
		    strtoull(bytes + 7, NULL, 10) < MASK_LARGE * MASK_LARGE)
			continue;
		is = strstr(line, " way=upload") != NULL;
		break;
	}
	fclose(file);
	return is;
}

static long log_bytes(void)
{
	struct stat status;

	return stat(m.agent.log, &status) == 0 ? (long)status.st_size : 0;
}

/* Which of both rows' workers stands at its point. */
static uint32_t stopped_row(uint64_t until)
{
	while (story_now() < until) {
		for (uint32_t i = 0; i < 2; i++) {
			struct gpumap_device row =
				story_device(m.map, m.rows[i]);

			if (state_of((pid_t)row.worker_pid) == 'T')
				return i;
		}
		story_nap(100);
	}
	OK(!"a worker stands at its point");
	return 1;
}

/* Publish until a worker stops at its point.  A stopped worker is killed after
 * a while, too, which ends as well. */
static void whom_it_was_copied_from_dies(void)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	struct gpumap_device source, sink;
	pid_t pid = 0;
	uint32_t to;
	long from;

	if (!start("stop"))
		return;
	do {
		if (pid != 0)
			EQ(mask_cards_reap(pid), 0);
		pid = mask_cards_publish_from(&m, "new", MASK_LARGE, 2);
		while (!is_taken() && state_of(pid) != 'Z' &&
		       story_now() < until)
			story_nap(1000);
	} while (!is_taken() && story_now() < until);
	OK(is_taken());
	from = log_bytes();
	to = stopped_row(until);
	source = story_device(m.map, m.rows[1 - to]);
	sink = story_device(m.map, m.rows[to]);
	kill((pid_t)source.worker_pid, SIGKILL);
	OK(story_back(m.map, m.rows[1 - to], source.restarts));
	kill((pid_t)sink.worker_pid, SIGCONT);
	EQ(mask_cards_reap(pid), 0);
	OK(mask_cards_right(&m, "new", MASK_LARGE, 2));
	/* The copy's source had died.  Later ones may come of the new source;
	 * and a sink that stood for too long was killed, and begins anew. */
	if (story_device(m.map, m.rows[to]).restarts == sink.restarts)
		OK(is_uploaded(m.rows[to], from));
	end();
}

TAP_CASE()
{
	if (!tap_has_points() || geteuid() != 0) {
		SKIP(1, "needs --enable-testpoints, and root");
		return tap_done();
	}
	if (!cuda_scene_make(&m.scene, "mixed.yaml", NULL))
		return tap_done();
	mask_cards_link(&m);
	/* The user that removes the ticket must be allowed to. */
	cuda_scene_agent(&m.scene, &m.agent, "",
			 "[host]\nrows = 1\n[masks]\nbytes = 256M\n"
			 "[worker]\nuser = root\n");
	who_copied_dies();
	whom_it_was_copied_from_dies();
	if (tap_failures)
		agent_show_log(&m.agent);
	agent_remove(&m.agent);
	cuda_scene_end(&m.scene);
	return tap_done();
}
