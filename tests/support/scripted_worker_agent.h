/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * scripted_worker_agent.h - a gpumapd whose workers are odd ones, see
 * scripted_worker.c, and what it takes to register with it, to export and to
 * import.
 */
#ifndef GM_TEST_SUPPORT_SCRIPTED_WORKER_AGENT_H
#define GM_TEST_SUPPORT_SCRIPTED_WORKER_AGENT_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gpumap.h"
#include "tests/support/raw.h"
#include "tests/support/scripted_worker.h"
#include "tests/support/story.h"

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)

static struct agent agent;
static char path[160];
static struct gpumap *map;
static uint32_t generation;
static int held; /* descriptors of the agent, before any client came */

static inline bool says(const char *refusal, const char *words)
{
	bool all = true;

	while (*words) {
		size_t n = strcspn(words, "|");
		char word[64];

		snprintf(word, sizeof(word), "%.*s", (int)n, words);
		all = all && strstr(refusal, word);
		words += n + (words[n] == '|');
	}
	if (!all)
		NOTE("\"%s\"", refusal);
	return all;
}

/* One check: the status, and the words of a refusal. */
static inline void answered(const struct raw *c, const char *what, int got,
			    int want, const char *words)
{
	if (got != want)
		NOTE("%s: got %d, want %d: %s", what, got, want, c->refusal);
	tap_check(got == want && (want == 0 || says(c->refusal, words)), what,
		  __FILE__, __LINE__);
}

static inline int sealed(uint64_t bytes, int seals)
{
	int fd = memfd_create("agent-claims", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0 ||
	    fcntl(fd, F_ADD_SEALS, seals) != 0)
		exit(99);
	return fd;
}

/* Another descriptor of the same file. */
static inline int reopen(int fd, int flags)
{
	char name[64];

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	return open(name, flags | O_CLOEXEC);
}

static inline uint64_t registration(uint32_t index)
{
	return gm_handle_make(++generation, GM_BUFFER_REGISTERED, 0, index);
}

static inline uint64_t buffer(uint32_t row, uint32_t index)
{
	return gm_handle_make(++generation, GM_BUFFER_DEVICE, row, index);
}

static inline struct gm_register whole(uint64_t handle, uint64_t bytes,
				       uint32_t row)
{
	return (struct gm_register){ .handle = handle,
				     .bytes = bytes,
				     .row = row };
}

static inline int register_new(struct raw *c, uint32_t index, uint32_t row,
			       int fd, uint64_t *ret_handle)
{
	struct gm_register ask = whole(registration(index), MIB, row);

	if (ret_handle)
		*ret_handle = ask.handle;
	return raw_register(c, &ask, fd);
}

/* A session with queues on both rows. */
static inline bool open_both(struct raw *c)
{
	return EQ(raw_open_queue(c, path, 0, 64, 64 * KIB), 0) &&
	       EQ(raw_queue(c, 1), 0);
}

/* How many registrations the worker of a row has, as it says itself. */
static inline uint64_t count_at(struct raw *c, uint32_t row)
{
	uint64_t handle = buffer(row, ODD_COUNT);
	struct gm_export_reply reply = { .bytes = UINT64_MAX };

	if (raw_export(c, handle, &reply) != 0)
		NOTE("%s", c->refusal);
	raw_forget(c, handle);
	return reply.bytes;
}

static inline void kill_worker(uint32_t row)
{
	struct gpumap_device device = story_device(map, row);

	kill((pid_t)device.worker_pid, SIGKILL);
	OK(story_back(map, row, device.restarts));
}

/* Until the agent has as many descriptors as at first. */
static inline void gives_back(void)
{
	OK(story_gives_back(agent.pid, held));
}

static inline bool begin(const char *text)
{
	static char worker[512];
	const char *build = getenv("abs_top_builddir");

	agent_make(&agent, text);
	snprintf(worker, sizeof(worker), "%s/tests/support/scripted_worker",
		 build ? build : ".");
	agent.worker = worker;
	snprintf(path, sizeof(path), "%s/%s.sock", agent.dir, agent.instance);
	if (!OK(agent_start(&agent)))
		return false;
	map = story_attach(&agent);
	held = story_holds_at_rest(agent.pid);
	return OK(map != NULL);
}

static inline void end(void)
{
	gpumap_detach(map);
	EQ(agent_kill(&agent, SIGTERM), 0);
	agent_remove(&agent);
}

#endif
