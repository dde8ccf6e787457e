/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The names of an instance's files: no instance's are another's, others cannot
 * list the runtime directory, and an agent whose files have lost their names
 * still hands them out.
 */

#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpumap.h"
#include "tests/support/agent_segment.h"
#include "tests/support/shm_names.h"
#include "tests/support/story.h"

static struct agent agent;

/* ---- instances ----------------------------------------------------------- */

/* An instance with the name of one of this one's files. */
static void beside(const char *suffix)
{
	struct agent other;

	agent_make(&other, NULL);
	snprintf(other.instance, sizeof(other.instance), "%.30s%s",
		 agent.instance, suffix);
	OK(agent_start(&other));
	OK(!agent_logged(&other, "event=segment_retired"));
	EQ(agent_kill(&other, SIGTERM), 0);
	EQ(agent_run(&other, "--remove"), 0);
	shm_names_remove(other.instance);
	agent_remove(&other);
}

static void instances_do_not_meet(void)
{
	static const char *const suffixes[] = { ".lock", ".new", ".node0",
						".row0.lock" };
	struct gpumap *map;
	pid_t pid;

	agent_make(&agent, NULL);
	if (!OK(agent_start(&agent)))
		return;
	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++)
		beside(suffixes[i]);
	/* The agent still has its lock, and its map. */
	pid = agent.pid;
	EQ(agent_run(&agent, NULL), 3);
	agent_own(&agent, pid);
	OK((map = story_attach(&agent)) != NULL);
	gpumap_detach(map);
	EQ(agent_kill(&agent, SIGTERM), 0);
	agent_remove(&agent);
}

/* In a /dev/shm of this process's own from here on: an agent that took ".."
 * for a name would change the mode of the folder that it is in. */
static void some_are_no_names(void)
{
	static const char *const names[] = { ".", "..", "", "a/b" };
	struct agent a;

	if (geteuid() == 0 && !shm_names_own()) {
		SKIP(8, "no mount namespace with a /dev/shm of its own");
		return;
	}
	agent_make(&a, NULL);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(a.instance, sizeof(a.instance), "%s", names[i]);
		EQ(agent_run(&a, NULL), 2);
		OK(agent_logged(&a, "an instance has 1 to 63 bytes and no "
				    "'/', and is neither . nor .."));
	}
	agent_remove(&a);
}

/* ---- the runtime directory ----------------------------------------------- */

static void the_runtime_directory_is_not_listed(void)
{
	char dir[sizeof(agent.dir)];
	struct stat st;

	agent_make(&agent, NULL);
	EQ(chmod(agent.dir, 0755), 0);
	OK(agent_start_until(&agent, "open"));
	OK(agent_logged(&agent, "event=runtime_dir_listed"));
	OK(agent_logged(&agent, "remedy=\"chmod go-r\""));
	EQ(agent_kill(&agent, SIGTERM), 0);
	EQ(chmod(agent.dir, 0711), 0);
	OK(agent_start_until(&agent, "open"));
	OK(!agent_logged(&agent, "event=runtime_dir_listed"));
	EQ(agent_kill(&agent, SIGTERM), 0);

	/* And one that gpumapd makes. */
	snprintf(dir, sizeof(dir), "%s", agent.dir);
	snprintf(agent.dir, sizeof(agent.dir), "%.40s/run", dir);
	OK(agent_start_until(&agent, "open"));
	OK(!agent_logged(&agent, "event=runtime_dir_listed"));
	EQ(stat(agent.dir, &st), 0);
	EQ(st.st_mode, S_IFDIR | 0711);
	EQ(agent_kill(&agent, SIGTERM), 0);
	EQ(rmdir(agent.dir), 0);
	snprintf(agent.dir, sizeof(agent.dir), "%s", dir);
	agent_remove(&agent);
}

/* ---- names that are gone ------------------------------------------------- */

static int publish(struct gpumap *map)
{
	static const uint32_t rows[] = { 0 };
	const struct gpumap_mask_request r = { .size = sizeof(r),
					       .name = "m",
					       .kind = GPUMAP_MASK_CUSTOM,
					       .form = GPUMAP_MASK_CAUSAL,
					       .dtype = GPUMAP_DTYPE_U8,
					       .tgt_len = 64,
					       .rows = rows,
					       .n_rows = 1 };

	return gpumap_mask_publish(map, &r, NULL);
}

static int look_at(struct gpumap *map)
{
	const struct gpumap_mask_view *view = NULL;
	struct gpumap_mask *mask = NULL;
	int ret = gpumap_mask_open(map, "m", 0, &mask);

	if (ret == 0)
		ret = gpumap_mask_get(map, mask, 0, &view);
	gpumap_mask_close(map, mask);
	return ret;
}

static void files_without_a_name_are_handed_out(void)
{
	struct gpumap *map, *later;
	char path[GM_NAMES_BYTES];
	struct agent_map m;

	agent_make(&agent, "[agent]\nrefresh = 10ms\n");
	if (!OK(agent_start(&agent)) || !OK(agent_map_open(&agent, &m)))
		return;
	map = story_attach(&agent);
	EQ(publish(map), 0);
	shm_names_file(path, agent.instance, "node0");
	EQ(unlink(path), 0);
	OK(agent_wait_log(&agent, "event=name_lost"));
	EQ(unlink(agent.segment), 0);
	/* As logind does it: the folders as well. */
	shm_names_remove(agent.instance);
	later = story_attach(&agent);
	if (later == NULL && geteuid() != 0) {
		SKIP(3, "only an agent of root's hands its files to its user");
	} else {
		OK(later != NULL);
		EQ(look_at(later), 0);
		EQ(look_at(map), 0);
	}
	gpumap_detach(later);
	gpumap_detach(map);
	EQ(agent_kill(&agent, SIGTERM), 0);
	/* The next agent makes a new map, so this one's readers are told. */
	EQ(agent_map_state(&m), GM_STATE_RETIRED);
	EQ(agent_count_log(&agent, "event=name_lost"), 1);
	agent_map_close(&m);
	OK(agent_start(&agent));
	OK(agent_logged(&agent, "event=created"));
	EQ(agent_kill(&agent, SIGTERM), 0);
	agent_remove(&agent);
}

TAP_CASE()
{
	instances_do_not_meet();
	the_runtime_directory_is_not_listed();
	files_without_a_name_are_handed_out();
	some_are_no_names();
	return tap_done();
}
