/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Somebody's masks follow a map that he publishes anew all the time, each time
 * with another row.  The agent keeps no more of that than there are masks, and
 * others have their turns meanwhile.
 */

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "story.h"

#define MASKS 100
#define FLIPS 60

/* Of each mask, which all have the same, once. */
#define SIZE UINT64_C(2048)

static struct agent agent;
static struct gpumap *map;

static int publish_map(struct gpumap *by, int turn)
{
	const struct gpumap_layers_request layers = { .size = sizeof(layers),
						      .name = "model",
						      .spec = turn % 2 != 0
								      ? "1:4"
								      : "0:4" };

	return gpumap_layers_publish(by, &layers);
}

static int publish_mask(const char *name, uint64_t size, const char *follows)
{
	static const uint32_t rows[] = { 0 };
	const struct gpumap_mask_request r = {
		.size = sizeof(r),
		.name = name,
		.kind = GPUMAP_MASK_CUSTOM,
		.form = GPUMAP_MASK_CAUSAL,
		.dtype = GPUMAP_DTYPE_U8,
		.tgt_len = size,
		.map = follows,
		.rows = follows != NULL ? NULL : rows,
		.n_rows = follows != NULL ? 0 : 1,
	};

	return gpumap_mask_publish(map, &r, NULL);
}

/* KiB that the agent has of its own memory. */
static long data_of(pid_t pid)
{
	char path[64], line[256];
	long kib = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file = fopen(path, "r");
	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
		if (strncmp(line, "VmData:", 7) == 0)
			kib = atol(line + 7);
	if (file != NULL)
		fclose(file);
	return kib;
}

static void little_is_kept(void)
{
	long before = data_of(agent.pid), after;
	int wrong = 0;

	for (int i = 1; i <= FLIPS; i++)
		wrong += publish_map(map, i) != 0;
	after = data_of(agent.pid);
	EQ(wrong, 0);
	NOTE("%d masks, %d times another row: %ld KiB, then %ld KiB", MASKS,
	     FLIPS, before, after);
	/* What waits for each is more than ten KiB. */
	OK(before > 0 && after - before < (long)MASKS * FLIPS * 10 / 2);
}

/* All of them end where the map is. */
static void all_arrive(void)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	int there = 0;

	EQ(publish_map(map, 1), 0);
	while (there < MASKS && story_now() < until) {
		there = 0;
		for (int i = 0; i < MASKS; i++) {
			struct gpumap_mask_info info = { .size = sizeof(info) };
			uint32_t row = 9;
			char name[16];

			snprintf(name, sizeof(name), "m%d", i);
			there += gpumap_mask_read(map, name, &info, &row, 1) ==
					 0 &&
				 row == 1;
		}
		story_nap(1000);
	}
	EQ(there, MASKS);
}

/* Until it is killed, or as often as would do for an hour of it. */
static pid_t begin_to_flip(void)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	map = story_attach(&agent);
	for (int i = 0; map != NULL && i < 100 * FLIPS; i++)
		if (publish_map(map, i) != 0)
			break;
	_exit(0);
}

static void others_have_their_turns(void)
{
	pid_t pid = begin_to_flip();
	int ret = 0, status;

	for (int i = 0; i < 3 && ret == 0; i++)
		ret = publish_mask("another", 16 + (uint64_t)i, NULL);
	EQ(ret, 0);
	/* And not because it was over. */
	EQ(waitpid(pid, &status, WNOHANG), 0);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
}

int main(void)
{
	int wrong = 0;

	agent_make(&agent, "[host]\nrows = 2\n[masks]\nbytes = 16M\n");
	if (OK(agent_start(&agent)) && OK((map = story_attach(&agent))) &&
	    EQ(publish_map(map, 0), 0)) {
		for (int i = 0; i < MASKS; i++) {
			char name[16];

			snprintf(name, sizeof(name), "m%d", i);
			wrong += publish_mask(name, SIZE, "model") != 0;
		}
		EQ(wrong, 0);
		little_is_kept();
		all_arrive();
		others_have_their_turns();
	}
	story_finish(&agent, map);
	agent_remove(&agent);
	return tap_done();
}
