/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * share_manager.h - the test as service manager: it keeps what the agent sends,
 * and may change that, the limits or the configuration before it hands all to
 * the next agent.
 */
#ifndef GM_TEST_SUPPORT_SHARE_MANAGER_H
#define GM_TEST_SUPPORT_SHARE_MANAGER_H

#include <pthread.h>
#include <sys/resource.h>

#include "contrib/fdstore/store.h"
#include "tests/support/share_sessions.h"

#define ABOUT  "{\"layers\": 2}"
#define FIELDS "model=tiny\n"

static struct store store;
static rlim_t files; /* limit for the next start, 0: as it is */
static pthread_t reader;
static _Atomic bool reads;
static pid_t sender; /* whose messages count */

/* In the child that is to be gpumapd. */
static inline void hand_over(void)
{
	struct rlimit limit = { files, files };
	char number[24];

	if (store_hand_over(&store) != 0)
		_exit(96);
	snprintf(number, sizeof(number), "%d", (int)getpid());
	setenv("LISTEN_PID", number, 1);
	snprintf(number, sizeof(number), "%u", store.most);
	setenv("FDSTORE", number, 1);
	setenv("NOTIFY_SOCKET", store.path, 1);
	if (files && setrlimit(RLIMIT_NOFILE, &limit) != 0)
		_exit(95);
}

/* Messages are read while clients wait for the agent. */
static inline void *read_messages(void *unused)
{
	(void)unused;
	while (reads) {
		store_read(&store, sender);
		story_nap(500);
	}
	return NULL;
}

static inline bool start(void)
{
	agent.prepare = hand_over;
	if (!OK(agent_start(&agent)) || !OK((map = story_attach(&agent))))
		return false;
	sender = agent.pid;
	reads = true;
	return EQ(pthread_create(&reader, NULL, read_messages, NULL), 0);
}

/* All that the agent has sent is there then. */
static inline void stop(int signal)
{
	gpumap_detach(map);
	agent_kill(&agent, signal);
	reads = false;
	pthread_join(reader, NULL);
	store_read(&store, sender);
}

/* Wait until the manager has so many descriptors. */
static inline bool comes_to(unsigned n)
{
	STORY_WAIT_WHILE(*(volatile unsigned *)&store.n != n);
	return EQ(store.n, n);
}

/* With a value in each of two buffers, on rows 0 and @second; for STRANGER,
 * too, unless @is_own. */
static inline int64_t keep_on(struct gpumap_session *session, const char *name,
			      uint32_t value, uint32_t second, bool is_own)
{
	const struct gpumap_fingerprint is = { .size = sizeof(is),
					       .hash = { 1 },
					       .fields = FIELDS };
	const uint32_t uids[] = { STRANGER };
	uint64_t b[2] = { 0, 0 }, id = 0;
	struct gpumap_share_request request = {
		.size = sizeof(request),
		.name = name,
		.buffers = b,
		.n_buffers = 2,
		.flags = GPUMAP_SHARE_READ_ONLY | GPUMAP_SHARE_KEEP,
		.about = ABOUT,
		.about_bytes = sizeof(ABOUT),
		.uids = uids,
		.n_uids = is_own ? 0 : 1,
		.fingerprint = &is
	};
	int ret = make(session, 0, value, &b[0]);

	if (ret == 0)
		ret = make(session, second, value + 1, &b[1]);
	if (ret == 0)
		ret = gpumap_share_publish(session, &request, &id);
	if (b[0])
		gpumap_buffer_free(session, b[0]);
	if (b[1])
		gpumap_buffer_free(session, b[1]);
	return ret ? ret : (int64_t)id;
}

/* By a session that ends.  Returns its number. */
static inline uint64_t make_one(const char *name, uint32_t value)
{
	struct gpumap_session *session = session_open(map);
	int64_t id = keep_on(session, name, value, 1, false);

	gpumap_session_close(session);
	while (id > 0 && shared(name).n_holders > 0)
		story_nap(500);
	OK(id > 0);
	return id > 0 ? (uint64_t)id : 0;
}

/* The value in its second buffer. */
static inline int64_t value_in(const char *name)
{
	struct gpumap_session *session = session_open(map);
	uint64_t id;
	int64_t got = gpumap_share_open(session, name, GPUMAP_SHARE_READ_ONLY,
					NULL, &id);

	if (got == 0)
		got = value_at(session, id, 1);
	gpumap_session_close(session);
	return got;
}

/* Does the log say of this share why it is gone? */
static inline bool says(uint64_t id, const char *why)
{
	char text[160], *at, line[4096];
	FILE *file = fopen(agent.log, "re");
	bool found = false;

	snprintf(text, sizeof(text), "event=share_not_restored share=%u ",
		 (unsigned)id);
	while (file && !found && fgets(line, sizeof(line), file)) {
		at = strstr(line, text);
		found = at && strstr(at, why);
	}
	if (file)
		fclose(file);
	if (!found)
		NOTE("share %u: no \"%s\"", (unsigned)id, why);
	return found;
}

#endif
