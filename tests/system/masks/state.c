/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Masks outlive the agent and the machine: the agent makes masks of a rule
 * again, reads loaded ones from their files, and reports a mask without a file
 * as lost.  The agent finds and reports wrong entries of a state file, and a
 * mask that follows a map counts towards its owner's limits.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "agent/mask/mask.h"
#include "tests/support/story.h"
#include "tests/support/users.h"

#define SIZE     96u
#define STRANGER 65531

static struct agent agent;
static struct gpumap *map;
static const uint32_t both[] = { 0, 1 };

static struct gpumap_mask_request sliding(const char *name, uint64_t window)
{
	return (struct gpumap_mask_request){
		.size = sizeof(struct gpumap_mask_request),
		.name = name,
		.kind = GPUMAP_MASK_CUSTOM,
		.form = GPUMAP_MASK_SLIDING,
		.dtype = GPUMAP_DTYPE_BF16,
		.tgt_len = SIZE,
		.sliding_window = window,
		.rows = both,
		.n_rows = 2,
	};
}

/* A mask of one dimension, made of @seed. */
static struct gpumap_mask_request loaded(const char *name, char *data,
					 uint64_t bytes, uint32_t seed)
{
	for (uint64_t i = 0; i < bytes; i++)
		data[i] = (char)((seed = seed * 1103515245u + 12345u) >> 16);
	return (struct gpumap_mask_request){
		.size = sizeof(struct gpumap_mask_request),
		.name = name,
		.kind = GPUMAP_MASK_CUSTOM,
		.form = GPUMAP_MASK_LOADED,
		.dtype = GPUMAP_DTYPE_U8,
		.rank = 1,
		.shape = { bytes },
		.data = data,
		.rows = both,
		.n_rows = 2,
	};
}

static int publish(const struct gpumap_mask_request *r)
{
	int ret = gpumap_mask_publish(map, r, NULL);

	if (ret != 0)
		NOTE("%s: %d %s", r->name, ret, gpumap_refusal(map));
	return ret;
}

/* Has each row these bytes? */
static bool has(const char *name, const void *want, uint64_t bytes,
		uint32_t n_rows)
{
	const struct gpumap_mask_view *view = NULL;
	struct gpumap_mask *mask;
	bool right = true;
	int ret = gpumap_mask_open(map, name, 0, &mask);

	if (ret != 0) {
		NOTE("%s: %d", name, ret);
		return false;
	}
	for (uint32_t row = 0; row < n_rows; row++)
		right = right && gpumap_mask_get(map, mask, row, &view) == 0 &&
			view->bytes == bytes &&
			memcmp(view->data, want, bytes) == 0;
	gpumap_mask_close(map, mask);
	return right;
}

static bool has_rule(const char *name, uint64_t window, uint32_t n_rows)
{
	static char want[SIZE * SIZE * 2];
	const struct gm_mask_spec spec = { .form = GM_MASK_SLIDING,
					   .tgt_len = SIZE,
					   .sliding_window = window };

	gm_mask_fill(&spec, GPUMAP_DTYPE_BF16, 0, SIZE, want);
	return has(name, want, sizeof(want), n_rows);
}

static struct gpumap_mask_info info_of(const char *name)
{
	struct gpumap_mask_info info = { .size = sizeof(info) };

	gpumap_mask_read(map, name, &info, NULL, 0);
	return info;
}

static bool start(void)
{
	return agent_start(&agent) && (map = story_attach(&agent)) != NULL;
}

/* Nothing in memory is left of it. */
static bool reboot(void)
{
	gpumap_detach(map);
	map = NULL;
	agent_kill(&agent, SIGKILL);
	agent_run(&agent, "--remove");
	return start();
}

static bool restart(void)
{
	gpumap_detach(map);
	map = NULL;
	agent_kill(&agent, SIGKILL);
	return start();
}

static char *path_of(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s.mask", agent.state, name);
	return path;
}

/* ---- what stays ---------------------------------------------------------- */

#define FEW  (100u << 10 | 1) /* bytes, not whole words */
#define MANY ((4u << 20) + 1) /* more than a file takes */

static char few[FEW], many[MANY];

static void all_are_there_again(void)
{
	struct gpumap_layers_request layers = { .size = sizeof(layers),
						.name = "model",
						.spec = "0:1;1:1" };
	struct gpumap_mask_request rule = sliding("rule", 5),
				   follows = sliding("follows", 6),
				   small = loaded("small", few, FEW, 1),
				   flash = sliding("flash", 0);
	struct gpumap_mask_info before, after;

	EQ(gpumap_layers_publish(map, &layers), 0);
	follows.map = "model";
	follows.n_rows = 0;
	flash.kind = GPUMAP_MASK_CAUSAL_FLASH;
	flash.form = 0;
	EQ(publish(&rule), 0);
	rule.sliding_window = 9;
	EQ(publish(&rule), 0);
	EQ(publish(&follows), 0);
	EQ(publish(&small), 0);
	EQ(publish(&flash), 0);
	rule.name = "gone";
	EQ(publish(&rule), 0);
	EQ(gpumap_mask_release(map, "gone"), 0);
	before = info_of("rule");
	for (int round = 0; round < 3; round++) {
		if (!OK(round == 1 ? restart() : reboot()))
			return;
		OK(has_rule("rule", 9, 2));
		OK(has_rule("follows", 6, 2));
		OK(has("small", few, FEW, 2));
		EQ(info_of("flash").kind, GPUMAP_MASK_CAUSAL_FLASH);
		EQ(gpumap_mask_read(map, "gone", NULL, NULL, 0), -ENOENT);
		after = info_of("rule");
		OK(after.version >= before.version);
		EQ(after.published_ns, before.published_ns);
		EQ(after.owner_uid, before.owner_uid);
		EQ(after.hash, before.hash);
		STR(info_of("follows").map, "model");
		before = after;
	}
}

/* A mask that no state file has ends with the memory that it is in. */
static void what_is_too_large_is_said(void)
{
	struct gpumap_mask_request large = loaded("large", many, MANY, 2);
	struct stat st;

	EQ(publish(&large), 0);
	if (!OK(restart()))
		return;
	OK(has("large", many, MANY, 2));
	OK(!agent_logged(&agent, "event=mask_not_kept"));
	if (!OK(reboot()))
		return;
	OK(agent_logged(&agent, "event=mask_not_kept name=large"));
	EQ(gpumap_mask_read(map, "large", NULL, NULL, 0), -ENOENT);
	EQ(stat(path_of("large"), &st), -1);
	OK(has_rule("rule", 9, 2));
}

/* ---- damage -------------------------------------------------------------- */

static void change(const char *path, off_t at, char with)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	EQ(pwrite(fd, &with, 1, at), 1);
	close(fd);
}

static void damage_is_said(void)
{
	struct gpumap_mask_request rule = sliding("hurt", 3);
	char refused[300];
	struct stat st;

	EQ(publish(&rule), 0);
	EQ(stat(path_of("hurt"), &st), 0);
	change(path_of("hurt"), st.st_size / 2, '#');
	if (!OK(reboot()))
		return;
	OK(agent_logged(&agent, "event=state_refused"));
	EQ(gpumap_mask_read(map, "hurt", NULL, NULL, 0), -ENOENT);
	snprintf(refused, sizeof(refused), "%s.refused-1", path_of("hurt"));
	EQ(stat(refused, &st), 0);
	OK(has_rule("rule", 9, 2));

	/* Another's name. */
	EQ(publish(&rule), 0);
	EQ(link(path_of("rule"),
		strcat(strcpy(refused, agent.state), "/other.mask")),
	   0);
	if (!OK(reboot()))
		return;
	OK(agent_logged(&agent, "event=state_refused"));
	EQ(gpumap_mask_read(map, "other", NULL, NULL, 0), -ENOENT);
	OK(has_rule("hurt", 3, 2));
	EQ(gpumap_mask_release(map, "hurt"), 0);
}

/* ---- what waits ---------------------------------------------------------- */

static void rows_are_waited_for(void)
{
	static const uint32_t second[] = { 1 };
	struct gpumap_mask_request rule = sliding("second", 4);
	struct stat st;

	rule.rows = second;
	rule.n_rows = 1;
	EQ(publish(&rule), 0);
	rule.name = "waits";
	EQ(publish(&rule), 0);
	agent_configure(&agent, "[host]\nrows = 1\n[socket]\nmode = 0666\n");
	if (!OK(reboot()))
		return;
	OK(agent_logged(&agent, "event=state_waits"));
	EQ(gpumap_mask_read(map, "second", NULL, NULL, 0), -ENOENT);
	EQ(gpumap_mask_release(map, "second"), 0);
	EQ(stat(path_of("second"), &st), -1);
	EQ(stat(path_of("waits"), &st), 0);
	agent_configure(&agent, "[host]\nrows = 2\n[socket]\nmode = 0666\n");
	if (!OK(reboot()))
		return;
	EQ(gpumap_mask_read(map, "second", NULL, NULL, 0), -ENOENT);
	EQ(info_of("waits").n_rows, 1);
	EQ(gpumap_mask_release(map, "waits"), 0);
}

/* Another good file is there when the map comes: a publication was refused, on
 * a disk that could not take it back.  One that was cut is put aside. */
static void another_file_is_left_alone(void)
{
	static char was[FEW], is[FEW];
	struct gpumap_layers_request layers = { .size = sizeof(layers),
						.name = "late",
						.spec = "0:1;1:1" };
	struct gpumap_mask_request first = loaded("other", was, FEW, 3),
				   second = loaded("other", is, FEW, 4),
				   cut = loaded("cut", is, FEW, 4),
				   after = sliding("otherwise", 8);
	uint64_t until;
	char saved[300];
	struct stat st;

	first.map = second.map = cut.map = after.map = "late";
	first.n_rows = second.n_rows = cut.n_rows = after.n_rows = 0;
	snprintf(saved, sizeof(saved), "%s/saved", agent.state);
	EQ(gpumap_layers_publish(map, &layers), 0);
	EQ(publish(&first), 0);
	EQ(link(path_of("other"), saved), 0);
	EQ(publish(&second), 0);
	EQ(publish(&cut), 0);
	EQ(publish(&after), 0);
	EQ(gpumap_layers_release(map, "late"), 0);
	if (!OK(reboot()))
		return;
	EQ(rename(saved, path_of("other")), 0);
	EQ(truncate(path_of("cut"), FEW), 0);
	EQ(gpumap_layers_publish(map, &layers), 0);
	/* They are made in the order of their names. */
	until = story_now() + STORY_LIMIT_NS;
	while (info_of("otherwise").n_rows == 0 && story_now() < until)
		story_nap(1000);
	OK(has_rule("otherwise", 8, 2));
	EQ(gpumap_mask_read(map, "other", NULL, NULL, 0), -ENOENT);
	EQ(stat(path_of("cut"), &st), -1);
	EQ(agent_count_log(&agent, "event=state_refused"), 1);
	EQ(stat(path_of("other"), &st), 0);
	if (!OK(restart()))
		return;
	OK(has("other", was, FEW, 2));
	EQ(gpumap_mask_release(map, "other"), 0);
	EQ(gpumap_mask_release(map, "otherwise"), 0);
	EQ(gpumap_layers_release(map, "late"), 0);
}

/* ---- limits -------------------------------------------------------------- */

static int as_stranger(void)
{
	struct gpumap_mask_request r = sliding("theirs", 7);

	map = story_attach(&agent);
	r.map = "model";
	r.n_rows = 0;
	if (publish(&r) != 0)
		return 2;
	gpumap_detach(map);
	return 0;
}

/* A mask whose map moves is its owner's all the same. */
static void following_asks_the_owner(void)
{
	struct gpumap_layers_request layers = { .size = sizeof(layers),
						.name = "model",
						.spec = "1:2" };
	uint64_t until = story_now() + STORY_LIMIT_NS;

	if (geteuid() != 0) {
		SKIP(1, "only root can become a stranger");
		return;
	}
	chmod(agent.dir, 0711);
	EQ(user_run(STRANGER, as_stranger), 0);
	agent_configure(&agent, "[host]\nrows = 2\n[socket]\nmode = 0666\n"
				"[masks]\nbytes-per-uid = 4K\n");
	if (!OK(restart()))
		return;
	EQ(gpumap_layers_publish(map, &layers), 0);
	while (!agent_logged(&agent, "event=mask_stays name=theirs") &&
	       story_now() < until)
		story_nap(1000);
	OK(agent_logged(&agent, "bytes-per-uid in [masks]"));
	EQ(info_of("theirs").n_rows, 2);
	/* The agent's own is not asked. */
	while (info_of("follows").n_rows != 1 && story_now() < until)
		story_nap(1000);
	EQ(info_of("follows").n_rows, 1);
}

TAP_CASE()
{
	agent_make(&agent, "[host]\nrows = 2\n[socket]\nmode = 0666\n");
	if (OK(start())) {
		all_are_there_again();
		what_is_too_large_is_said();
		damage_is_said();
		rows_are_waited_for();
		another_file_is_left_alone();
		following_asks_the_owner();
	}
	story_finish(&agent, map);
	agent_remove(&agent);
	return tap_done();
}
