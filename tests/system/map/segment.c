/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks the life of a segment: it is made, left behind by an agent that was
 * killed at any point, adopted by the next, refused where it is another user's,
 * and removed on request.
 */

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "gpumap.h"
#include "tests/support/agent_segment.h"
#include "tests/support/tap.h"
#include "tests/support/users.h"

#define CONFIG                                        \
	"[host]\nrows = 2\n[map a]\nspec = 0:3;1:2\n" \
	"[map b]\nspec = 1:4\nlayers = 6\n"
#define CHANGED                                       \
	"[host]\nrows = 2\n[map a]\nspec = 1:3;0:2\n" \
	"[map b]\nspec = 1:4\nlayers = 6\n"

/* Are both rows and both maps as CONFIG or CHANGED says? */
static bool whole(const struct agent_map *m, uint32_t first)
{
	struct gm_moving_image moving;
	struct gm_layers_image image;
	struct gm_row_image facts;
	struct gm_object object;
	uint32_t rows[6];

	if (agent_map_state(m) != GM_STATE_READY || gm_rows_used(&m->map) != 2)
		return false;
	for (uint32_t row = 0; row < 2; row++) {
		if (gm_rows_facts(&m->map, row, &facts) != 0 ||
		    gm_rows_moving(&m->map, row, &moving) != 0 ||
		    facts.kind != GPUMAP_DEVICE_HOST || facts.units == 0 ||
		    moving.state == GPUMAP_DEVICE_LOST ||
		    moving.budget_bytes > facts.total_bytes / 2)
			return false;
	}
	if (gm_layers_open(&m->map, "a", &object, &image) != 0 ||
	    image.n_layers != 5 || image.n_rows != 2 ||
	    gm_object_read(&object, image.rows_at, rows, 24) != 0 ||
	    rows[0] != first || rows[2] != first || rows[3] != 1 - first ||
	    rows[4] != 1 - first)
		return false;
	/* Layers that the spec does not place go to the first host row. */
	return gm_layers_open(&m->map, "b", &object, &image) == 0 &&
	       image.n_layers == 6 &&
	       gm_object_read(&object, image.rows_at, rows, 24) == 0 &&
	       rows[0] == 1 && rows[3] == 1 && rows[4] == 0 && rows[5] == 0;
}

static void start_names_its_configuration(void)
{
	char line[128];
	struct agent a;

	agent_make(&a, CONFIG);
	agent_every_node(&a); /* there is no drop-in */
	snprintf(line, sizeof(line), "event=config path=\"%s\" files=1\n",
		 a.config);
	OK(agent_start(&a));
	OK(agent_logged(&a, line));
	agent_remove(&a);
}

static void killed_agent_is_followed_by_another(void)
{
	struct agent_map m, again;
	struct gm_row_image facts;
	struct agent a;
	uint64_t version;
	uint8_t uuid[16];

	agent_make(&a, CONFIG);
	if (!OK(agent_start(&a)) || !OK(agent_map_open(&a, &m)))
		return;
	OK(whole(&m, 0));
	EQ(agent_map_epoch(&m), 1);
	EQ(gm_get(&m.map.header->agent_pid), a.pid);
	version = agent_map_version(&m, "a");
	gm_rows_facts(&m.map, 1, &facts);
	memcpy(uuid, facts.uuid, 16);

	EQ(agent_kill(&a, SIGKILL), -SIGKILL);
	EQ(agent_map_state(&m), GM_STATE_READY);
	OK(agent_start(&a));
	EQ(agent_map_epoch(&m), 2);
	EQ(gm_get(&m.map.header->agent_pid), a.pid);
	OK(whole(&m, 0));
	EQ(agent_map_version(&m, "a"), version);
	if (OK(agent_map_open(&a, &again))) {
		EQ(again.inode, m.inode);
		agent_map_close(&again);
	}
	gm_rows_facts(&m.map, 1, &facts);
	EQ(memcmp(facts.uuid, uuid, 16), 0);

	/* An agent that ends cleanly leaves the map too, and marks the end as
	 * clean. */
	EQ(agent_kill(&a, SIGTERM), 0);
	EQ(agent_map_state(&m), GM_STATE_DRAINING);
	agent_configure(&a, CHANGED);
	OK(agent_start(&a));
	OK(whole(&m, 1));
	EQ(agent_map_epoch(&m), 3);
	OK(agent_map_version(&m, "a") > version);
	agent_map_close(&m);
	agent_remove(&a);
}

static void row_that_is_gone_is_lost(void)
{
	struct gm_moving_image moving;
	struct gm_row_image facts;
	struct agent_map m;
	struct agent a;

	agent_make(&a, "[host]\nrows = 2\n");
	if (!OK(agent_start(&a)) || !OK(agent_map_open(&a, &m)))
		return;
	agent_kill(&a, SIGKILL);
	agent_configure(&a, "");
	OK(agent_start(&a));
	EQ(gm_rows_used(&m.map), 3);
	EQ(gm_rows_moving(&m.map, 1, &moving), 0);
	EQ(moving.state, GPUMAP_DEVICE_LOST);
	STR(moving.reason, "no longer configured: see gpumapd --remove");
	OK(agent_logged(&a, "row=1 state=LOST reason=\"no longer "
			    "configured: see gpumapd --remove\""));
	EQ(gm_rows_facts(&m.map, 2, &facts), 0);
	EQ(facts.row, 2);

	/* The device comes back to the same row. */
	agent_kill(&a, SIGKILL);
	agent_configure(&a, "[host]\nrows = 2\n");
	OK(agent_start(&a));
	EQ(gm_rows_used(&m.map), 3);
	EQ(gm_rows_moving(&m.map, 1, &moving), 0);
	OK(moving.state != GPUMAP_DEVICE_LOST);
	EQ(gm_rows_moving(&m.map, 2, &moving), 0);
	EQ(moving.state, GPUMAP_DEVICE_LOST);
	agent_map_close(&m);
	agent_remove(&a);
}

/* Every instant of a start at which a reader can see something new. */
static const char *const points[] = {
	"segment_filled",   "segment_visible",    "row_moving",
	"publish_reserved", "publish_filled",     "publish_key",
	"publish_visible",  "generation_visible", "row_visible",
	"state_visible",    "adopt_signed",       "adopt_epoch",
};

/* Kill the agent at the nth pass of a point, start another, and check that all
 * is whole.  Counts in @deaths whether the point was reached. */
static bool survives(struct agent *a, const char *point, int nth, int *deaths)
{
	char env[64];
	struct agent_map m;
	bool good;

	snprintf(env, sizeof(env), "GM_POINT=%s:kill:%d", point, nth);
	a->env[0] = env;
	agent_spawn(a, NULL);
	if (!agent_wait_log(a, "event=ready "))
		++*deaths;
	agent_kill(a, SIGKILL);
	a->env[0] = NULL;
	if (!agent_start(a) || !agent_map_open(a, &m))
		return false;
	good = whole(&m, 0) && !agent_logged(a, "event=segment_retired");
	if (!good)
		agent_show_log(a);
	agent_map_close(&m);
	agent_kill(a, SIGKILL);
	return good;
}

static void every_instant_is_a_good_one_to_die(void)
{
	int torn = 0, missed = 0, deaths = 0;
	struct agent a;

	if (!tap_has_points()) {
		SKIP(2, "needs --enable-testpoints");
		return;
	}
	for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
		int before = deaths;

		for (int nth = 1; nth <= 3; nth++) {
			agent_make(&a, CONFIG);
			torn += !survives(&a, points[i], nth, &deaths);
			/* The same with a segment that is there already. */
			agent_configure(&a, CHANGED);
			agent_start(&a);
			agent_kill(&a, SIGKILL);
			agent_configure(&a, CONFIG);
			torn += !survives(&a, points[i], nth, &deaths);
			agent_remove(&a);
		}
		if (deaths == before)
			missed++;
		NOTE("%s: %d deaths, %d torn so far", points[i],
		     deaths - before, torn);
	}
	EQ(torn, 0);
	EQ(missed, 0);
}

static void what_is_not_ours_is_refused(void)
{
	struct stat st;
	struct agent a;

	agent_make(&a, "");
	OK(shm_names_make(a.instance));
	OK(symlink("/dev/null", a.segment) == 0);
	EQ(agent_run(&a, NULL), 6);
	OK(agent_logged(&a, "is a link: remove it, or take another"));
	OK(lstat(a.segment, &st) == 0 && S_ISLNK(st.st_mode));
	unlink(a.segment);

	OK(mkfifo(a.segment, 0600) == 0);
	EQ(agent_run(&a, NULL), 6);
	OK(agent_logged(&a, "is no regular file"));
	unlink(a.segment);

	OK(agent_start(&a));
	agent_kill(&a, SIGKILL);
	OK(chmod(a.segment, 0666) == 0);
	EQ(agent_run(&a, NULL), 6);
	OK(agent_logged(&a, "can be written by others"));
	OK(agent_logged(&a, "event=segment why="));
	OK(chmod(a.segment, 0644) == 0);
	if (geteuid() == 0) {
		OK(chown(a.segment, 12345, 12345) == 0);
		EQ(agent_run(&a, NULL), 6);
		OK(agent_logged(&a, "belongs to another user"));
		OK(chown(a.segment, 0, 0) == 0);
	} else {
		SKIP(4, "needs root");
	}
	OK(agent_start(&a));
	OK(agent_logged(&a, "event=adopted"));
	agent_remove(&a);

	agent_make(&a, "");
	OK(shm_names_make(a.instance));
	OK(symlink("/dev/null", a.lock) == 0);
	EQ(agent_run(&a, NULL), 6);
	agent_remove(&a);
}

/* Other users could put a socket or a lock of their own into such a
 * directory. */
static void shared_runtime_directory_is_refused(void)
{
	struct agent a;

	agent_make(&a, "");
	OK(chmod(a.dir, 01777) == 0);
	EQ(agent_run(&a, NULL), 6);
	OK(agent_logged(&a, "event=runtime_dir"));
	OK(agent_logged(&a, "why=\"another user may write it or owns it\""));
	OK(agent_logged(&a, "chmod go-w"));
	OK(chmod(a.dir, 0755) == 0);
	if (geteuid() == 0) {
		OK(chown(a.dir, 12345, 12345) == 0);
		EQ(agent_run(&a, NULL), 6);
		OK(chown(a.dir, 0, 0) == 0);
	} else {
		SKIP(3, "needs root");
	}
	OK(agent_start(&a));
	agent_remove(&a);
}

static void second_agent_names_the_first(void)
{
	char text[96];
	struct stat st;
	struct agent a;
	pid_t first;

	agent_make(&a, "");
	OK(agent_start(&a));
	first = a.pid;
	snprintf(text, sizeof(text), "process %d runs instance %s", (int)first,
		 a.instance);
	EQ(agent_run(&a, NULL), 3);
	OK(agent_logged(&a, text));
	EQ(agent_run(&a, "--remove"), 3);
	OK(agent_logged(&a, text));
	agent_own(&a, first);
	EQ(stat(a.lock, &st), 0);
	EQ(st.st_mode & 07777, 0600);
	EQ(stat(a.segment, &st), 0);
	EQ(st.st_mode & 07777, 0644);
	EQ(agent_kill(&a, SIGTERM), 0);
	agent_remove(&a);
}

static void removal_retires(void)
{
	struct agent_map m;
	struct stat st;
	struct agent a;
	uint32_t generation;

	agent_make(&a, "");
	OK(agent_start(&a));
	if (!OK(agent_map_open(&a, &m)))
		return;
	EQ(agent_kill(&a, SIGTERM), 0);
	generation = gm_get(&m.map.header->generation);
	EQ(agent_run(&a, "--remove"), 0);
	EQ(agent_map_state(&m), GM_STATE_RETIRED);
	OK(gm_get(&m.map.header->generation) != generation);
	OK(stat(a.segment, &st) != 0 && errno == ENOENT);
	EQ(stat(a.lock, &st), 0);
	EQ(agent_run(&a, "--remove"), 0);
	OK(agent_logged(&a, "event=nothing_to_remove"));
	agent_map_close(&m);
	agent_remove(&a);
}

static int make_file(const char *folder, const char *name, char path[256])
{
	int fd;

	snprintf(path, 256, "%s/%s", folder, name);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	OK(fd >= 0);
	return fd;
}

static bool is_there(const char *path)
{
	return access(path, F_OK) == 0;
}

/* An agent of the layout before this one was killed, and this one follows. */
static void files_of_an_older_layout_go(void)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	char user[128], folder[200], map[256], node[256], own[256], row[256];
	int of_agent, of_row;
	struct agent a;

	agent_make(&a, "");
	snprintf(user, sizeof(user), "/dev/shm/gpumap.1.uid%u", geteuid());
	snprintf(folder, sizeof(folder), "%s/%s", user, a.instance);
	mkdir(user, 0711);
	EQ(mkdir(folder, 0711), 0);
	close(make_file(folder, "map", map));
	close(make_file(folder, "node0", node));
	of_row = make_file(folder, "row0.lock", row);
	of_agent = make_file(folder, "lock", own);

	/* The older agent runs. */
	EQ(fcntl(of_agent, F_SETLK, &lock), 0);
	OK(agent_start(&a));
	EQ(agent_kill(&a, SIGTERM), 0);
	OK(is_there(map));
	/* The older agent has ended, and a worker of it has not. */
	close(of_agent);
	EQ(fcntl(of_row, F_SETLK, &lock), 0);
	OK(agent_start(&a));
	EQ(agent_kill(&a, SIGTERM), 0);
	OK(is_there(map));
	OK(agent_logged(&a, "event=older_stays"));
	close(of_row);
	OK(agent_start(&a));
	EQ(agent_kill(&a, SIGTERM), 0);
	OK(!is_there(map) && !is_there(node) && !is_there(row));
	OK(is_there(own));
	unlink(own);
	EQ(rmdir(folder), 0);
	rmdir(user); /* unless another test is there */
	agent_remove(&a);
}

static struct agent apart; /* of the functions that follow */

/* Run the agent in a mount namespace of its own, with a /dev/shm of one MiB.
 * Returns the agent's exit status. */
static int run_in_small_shm(void)
{
	if (unshare(CLONE_NEWNS) != 0 ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("small", "/dev/shm", "tmpfs", 0, "size=1m") != 0)
		return 77;
	return agent_run(&apart, NULL);
}

/* Likewise, with other file systems. */
static int run_below(const char *mount_point, unsigned long flags)
{
	if (unshare(CLONE_NEWNS) != 0 ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("none", mount_point, "tmpfs", flags, "size=1m") != 0)
		return 77;
	return agent_run(&apart, NULL);
}

static int run_without_shm(void)
{
	return run_below("/dev", 0);
}

static int run_in_read_only_shm(void)
{
	return run_below("/dev/shm", MS_RDONLY);
}

/* Does the agent end with this status, and these words in its log? */
static void ends_with(int (*run)(void), int want, const char *words)
{
	int status;

	agent_make(&apart, "");
	status = user_run(0, run);
	if (status == 77) {
		SKIP(2, "cannot mount another /dev/shm here");
	} else {
		EQ(status, want);
		if (!OK(agent_logged(&apart, words)))
			agent_show_log(&apart);
	}
	agent_remove(&apart);
}

static void want_of_shared_memory_is_explained(void)
{
	ends_with(run_without_shm, 1, "mount a tmpfs on /dev/shm");
	ends_with(run_in_read_only_shm, 1, "mount /dev/shm for writing");
	ends_with(run_in_small_shm, 5,
		  "the segment takes 4 MiB, /dev/shm has 1 MiB free of 1: "
		  "give it more (docker: --shm-size) or set segment.size");
}

static void errors_name_their_line(void)
{
	struct agent a;
	char text[128];

	agent_make(&a, "[host]\nrows = 2\n[map a]\nspec = 0:1;7:2\n");
	if (OK(agent_start(&a))) {
		snprintf(text, sizeof(text),
			 "map_failed name=\"a\" at=\"%s:4\"", a.config);
		if (!OK(agent_logged(&a, text)) ||
		    !OK(agent_logged(&a, "Could not find row 7")))
			agent_show_log(&a);
		EQ(agent_kill(&a, SIGTERM), 0);
	}
	agent_configure(&a, "[host]\nrow = 2\n");
	EQ(agent_run(&a, NULL), 2);
	snprintf(text, sizeof(text), "%s:2: [host] has no key row", a.config);
	OK(agent_logged(&a, text));
	agent_configure(&a, "[host]\nenabled = no\n");
	EQ(agent_run(&a, NULL), 2);
	OK(agent_logged(&a, "no device: set host.enabled = yes"));
	agent_configure(&a, "[host]\ncpus = 8000\n");
	EQ(agent_run(&a, NULL), 2);
	OK(agent_logged(&a, "host.cpus names no CPU that gpumapd may use"));
	agent_remove(&a);
}

static void said_of_the_command_line(struct agent *a, const char *option,
				     const char *want)
{
	char text[160];

	EQ(agent_run(a, option), 2);
	snprintf(text, sizeof(text), "gpumapd: %s: see gpumapd --help\n", want);
	if (!OK(agent_logged(a, text)))
		agent_show_log(a);
	/* The message does not depend on the path that gpumapd was started
	 * by. */
	OK(!agent_logged(a, getenv("GPUMAPD")));
}

static void command_lines_are_corrected(void)
{
	struct agent a;

	agent_make(&a, NULL);
	said_of_the_command_line(&a, "--nonsense",
				 "--nonsense is no option, or the beginning of "
				 "several");
	said_of_the_command_line(&a, "--remove=all",
				 "--remove=all takes no value");
	said_of_the_command_line(&a, "--instance", "--instance wants a value");
	said_of_the_command_line(&a, "-x", "-x is no option");
	said_of_the_command_line(&a, "node",
				 "node is no option, and nothing else is "
				 "taken");
	agent_remove(&a);
}

/* An agent whose start fails removes the segment that it created. */
static void nothing_stays_of_a_start_that_failed(void)
{
	struct agent a;

	agent_make(&a, "[host]\ncpus = 8000\n");
	EQ(agent_run(&a, NULL), 2);
	OK(agent_logged(&a, "event=created "));
	EQ(access(a.segment, F_OK), -1);
	/* The segment of an earlier agent stays as it is. */
	agent_configure(&a, "[host]\nrows = 2\n");
	OK(agent_start(&a));
	EQ(agent_kill(&a, SIGTERM), 0);
	agent_configure(&a, "[host]\ncpus = 8000\n");
	EQ(agent_run(&a, NULL), 2);
	OK(agent_logged(&a, "event=adopted "));
	EQ(access(a.segment, F_OK), 0);
	agent_remove(&a);
}

/* tmpfs abandons a reservation that a signal interrupts. */
static void start_survives_disturbance(void)
{
	const uint64_t bytes = UINT64_C(256) << 20;
	struct statvfs shm;
	struct agent a;

	/* The tests beside this one need the rest. */
	if (statvfs("/dev/shm", &shm) != 0 ||
	    shm.f_bavail * shm.f_bsize < 2 * bytes) {
		SKIP(2, "needs 512 MiB in /dev/shm");
		return;
	}
	agent_make(&a, "[segment]\nsize = 256M\n");
	agent_spawn(&a, NULL);
	for (int i = 0; i < 60; i++) {
		usleep(2000);
		kill(a.pid, SIGSTOP);
		kill(a.pid, SIGCONT);
	}
	OK(agent_wait_log(&a, "event=ready"));
	EQ(agent_kill(&a, SIGTERM), 0);
	agent_remove(&a);
}

TAP_CASE()
{
	start_survives_disturbance();
	start_names_its_configuration();
	killed_agent_is_followed_by_another();
	row_that_is_gone_is_lost();
	every_instant_is_a_good_one_to_die();
	what_is_not_ours_is_refused();
	shared_runtime_directory_is_refused();
	second_agent_names_the_first();
	removal_retires();
	files_of_an_older_layout_go();
	want_of_shared_memory_is_explained();
	errors_name_their_line();
	command_lines_are_corrected();
	nothing_stays_of_a_start_that_failed();
	return tap_done();
}
