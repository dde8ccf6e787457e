/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/story.h"

#include <fcntl.h>

int story_rounds_or(int n)
{
	const char *rounds = getenv("GM_ROUNDS");
	int asked = rounds ? atoi(rounds) : 0;

	return asked > 0 ? asked : n;
}

uint64_t story_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void story_nap(long us)
{
	struct timespec left = { us / 1000000, us % 1000000 * 1000 };

	while (nanosleep(&left, &left) != 0)
		;
}

long story_moment(int round, long most_us)
{
	return (long)((uint64_t)round * 2654435761u % (uint64_t)most_us);
}

void story_time(struct story_times *t, uint64_t since_ns)
{
	double ms = (double)(story_now() - since_ns) / 1e6;

	t->sum_ms += ms;
	t->n++;
	if (ms > t->most_ms)
		t->most_ms = ms;
}

void story_tell(const struct story_times *t, const char *what)
{
	NOTE("%s: %.1f ms on average, %.1f at most, of %d", what,
	     t->n ? t->sum_ms / t->n : 0, t->most_ms, t->n);
}

struct gpumap *story_attach(const struct agent *a)
{
	struct gpumap_attach_opts opts = { .size = sizeof(opts),
					   .instance = a->instance,
					   .runtime_dir = a->dir };
	struct gpumap *map = NULL;

	return gpumap_attach(&opts, &map) == 0 ? map : NULL;
}

int story_end(struct gpumap_session *session)
{
	struct gpumap_done done;
	int ret = gpumap_wait(session, &done, 1, story_now() + STORY_LIMIT_NS);

	return ret == 1 ? done.status : ret < 0 ? ret : -ETIME;
}

int story_run(struct gpumap_session *session, uint32_t row,
	      const struct gpumap_job *job)
{
	int ret = gpumap_submit(session, row, job, 1);

	return ret != 0 ? ret : story_end(session);
}

void story_finish(struct agent *a, struct gpumap *map)
{
	gpumap_detach(map);
	EQ(agent_kill(a, SIGTERM), 0);
	if (tap_failures)
		agent_show_log(a);
}

struct gpumap_device story_device(const struct gpumap *map, uint32_t row)
{
	struct gpumap_device device = { .size = sizeof(device) };

	while (gpumap_device_read(map, row, &device) == -EAGAIN)
		;
	return device;
}

struct gpumap_buffer_info story_buffer(const struct gpumap_session *session,
				       uint64_t buffer)
{
	struct gpumap_buffer_info info = { .size = sizeof(info) };

	EQ(gpumap_buffer_info(session, buffer, &info), 0);
	return info;
}

bool story_back(const struct gpumap *map, uint32_t row, uint32_t restarts)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	while (story_now() < until) {
		struct gpumap_device device = story_device(map, row);

		if (device.state == GPUMAP_DEVICE_READY &&
		    device.restarts > restarts)
			return true;
		story_nap(200);
	}
	return false;
}

int story_holds(pid_t pid, const char *what)
{
	char path[64], text[512];
	struct dirent *entry;
	int n = 0;
	DIR *dir;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	if (!dir)
		return -1;
	while ((entry = readdir(dir))) {
		char link[400];
		ssize_t bytes;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(link, sizeof(link), "%s/%s", path, entry->d_name);
		bytes = readlink(link, text, sizeof(text) - 1);
		text[bytes > 0 ? bytes : 0] = '\0';
		n += !what || strstr(text, what);
	}
	closedir(dir);
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = what ? fopen(path, "r") : NULL;
	while (maps && fgets(text, sizeof(text), maps))
		n += strstr(text, what) != NULL;
	if (maps)
		fclose(maps);
	return n;
}

bool story_sees(pid_t pid, int n)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && (errno == EACCES || errno == EPERM)) {
		SKIP(n, "needs root, to see what another process holds");
		return false;
	}
	if (fd >= 0)
		close(fd);
	return true;
}

void story_lets_go(pid_t pid, const char *what)
{
	if (!story_sees(pid, 1))
		return;
	STORY_WAIT_WHILE(story_holds(pid, what) > 0);
	if (!OK(story_holds(pid, what) <= 0))
		NOTE("%s is held", what);
}

int story_holds_at_rest(pid_t pid)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	int before, n = story_holds(pid, NULL);

	for (int same = 0; same < 10 && story_now() < until;) {
		before = n;
		story_nap(20000);
		n = story_holds(pid, NULL);
		same = n == before ? same + 1 : 0;
	}
	return n;
}

bool story_gives_back(pid_t pid, int held)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	int n = story_holds(pid, NULL);

	while (n > held && story_now() < until) {
		story_nap(1000);
		n = story_holds(pid, NULL);
	}
	if (n >= 0 && n <= held)
		return true;
	NOTE("%d descriptors, %d before", n, held);
	return false;
}

bool story_lives(pid_t pid)
{
	char state = process_state(pid);

	return state != 'Z' && state != 'X';
}
