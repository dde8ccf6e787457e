/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A client's masks follow a map that the client publishes anew all the time,
 * each time with another row.  The agent keeps at most one pending change for
 * each mask, and other clients have their turns meanwhile.  Another client uses
 * all masks that it publishes and never gives them back: the other users keep
 * enough room.
 */

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/support/story.h"
#include "tests/support/users.h"

#define MASKS 100
#define FLIPS 60

/* Each mask is asked for once: all of them have the same bytes. */
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

static int publish_mask(const char *name, uint64_t size, uint64_t past,
			const char *follows)
{
	static const uint32_t rows[] = { 0 };
	const struct gpumap_mask_request r = {
		.size = sizeof(r),
		.name = name,
		.kind = GPUMAP_MASK_CUSTOM,
		.form = GPUMAP_MASK_CAUSAL,
		.dtype = GPUMAP_DTYPE_U8,
		.tgt_len = size,
		.past_kv_len = past,
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
	/* More than ten KiB wait for each client. */
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
		ret = publish_mask("another", 16, (uint64_t)i, NULL);
	EQ(ret, 0);
	/* And not because it was over. */
	EQ(waitpid(pid, &status, WNOHANG), 0);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
}

#define STRANGER 65532

/* Masks of 64 KiB each. */
static int use(struct gpumap_session *session, uint64_t past,
	       uint64_t *ret_mask)
{
	int ret = publish_mask("x", 4, (UINT64_C(1) << 14) - 4 - past, NULL);

	return ret != 0 ? ret
			: gpumap_buffer_register_mask(session, "x", ret_mask,
						      NULL);
}

/* The user may have 256 KiB and tries 64 times. */
static int be_greedy(void)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .arena_bytes = UINT64_C(1) << 16 };
	uint64_t masks[64], same, more;
	struct gpumap_session *session = NULL;
	int n = 0, ret = 0;

	if (!user_become(STRANGER, STRANGER))
		return 1;
	map = story_attach(&agent);
	if (map == NULL || gpumap_session_open(map, &opts, &session) != 0)
		return 2;
	while (ret == 0 && n < 64) {
		ret = use(session, (uint64_t)n, &masks[n]);
		n += ret == 0;
	}
	if (ret != -EDQUOT ||
	    strstr(gpumap_refusal(map), "bytes-per-uid in [masks]") == NULL)
		return 3;
	/* The last is published, and not used.  One that is used twice is there
	 * once; what is forgotten counts no more, but for others who use it. */
	if (n != 4 || gpumap_buffer_unregister(session, masks[0]) != 0 ||
	    gpumap_buffer_register_mask(session, "x", &same, NULL) != 0 ||
	    gpumap_buffer_register_mask(session, "x", &more, NULL) != 0 ||
	    gpumap_buffer_unregister(session, same) != 0 ||
	    use(session, 99, &same) != -EDQUOT ||
	    gpumap_buffer_unregister(session, more) != 0 ||
	    gpumap_buffer_register_mask(session, "x", &same, NULL) != 0)
		return 4;
	/* The agent says so, and the client keeps its masks. */
	fputs("x", stderr);
	pause();
	return 0;
}

/* Until the user has used all of its share and can have no more. */
static void there_is_enough_for_others(void)
{
	int out[2], status;
	char byte;
	pid_t pid;

	if (geteuid() != 0) {
		SKIP(1, "only root can become a stranger");
		return;
	}
	chmod(agent.dir, 0711);
	if (!OK(pipe(out) == 0))
		return;
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(out[1], STDERR_FILENO);
		close(out[1]);
		_exit(be_greedy());
	}
	close(out[1]);
	if (!EQ(read(out[0], &byte, 1), 1)) {
		waitpid(pid, &status, 0);
		EQ(WEXITSTATUS(status), 0);
		return;
	}
	EQ(publish_mask("ours", 4, UINT64_C(1) << 20, NULL), 0);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	close(out[0]);
}

TAP_CASE()
{
	int wrong = 0;

	agent_make(&agent, "[host]\nrows = 2\n[socket]\nmode = 0666\n"
			   "[masks]\nbytes = 16M\nbytes-per-uid = 256K\n");
	if (OK(agent_start(&agent)) && OK((map = story_attach(&agent))) &&
	    EQ(publish_map(map, 0), 0)) {
		for (int i = 0; i < MASKS; i++) {
			char name[16];

			snprintf(name, sizeof(name), "m%d", i);
			wrong += publish_mask(name, SIZE, 0, "model") != 0;
		}
		EQ(wrong, 0);
		little_is_kept();
		all_arrive();
		others_have_their_turns();
		there_is_enough_for_others();
	}
	story_finish(&agent, map);
	agent_remove(&agent);
	return tap_done();
}
