/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/bench/measure/raw.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdalign.h>
#include <stdbool.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/bench/measure/peer.h"
#include "tests/bench/measure/series.h"
#include "tests/bench/measure/ticks.h"

#define PATIENCE_NS 2e9
#define TURNS       16 /* turns of a batch */
#define BATCHES     1000
#define WARM_UP     100  /* batches */
#define WAKES       4096 /* at most */

/* In shared memory. */
struct lines {
	alignas(GM_LINE) gm_a64 ping;
	alignas(GM_LINE) gm_a64 pong;
	alignas(GM_LINE) gm_a64 ready;
	int fd; /* set before the peer starts */
};

/* Read the clock rarely, so that it does not slow down the measurement. */
static bool overdue(uint64_t *since)
{
	if (*since == 0)
		*since = gm_ticks();
	return (double)(gm_ticks() - *since) * gm_ticks_ns() > PATIENCE_NS;
}

/* Wait at most two seconds for @value.  Returns 0 or -ETIMEDOUT. */
static int await_value(const gm_a64 *word, uint64_t value)
{
	uint64_t since = 0;

	for (uint32_t i = 1;; i++) {
		if (gm_get_acquire(word) == value) /* RAW.ping RAW.ready */
			return 0;
		gm_pause();
		if (i % 4096 == 0 && overdue(&since))
			return -ETIMEDOUT;
	}
}

static void answer(void *arg)
{
	struct lines *lines = arg;

	gm_put_release(&lines->ready, 1); /* RAW.ready */
	for (uint64_t turn = 1;; turn++) {
		while (gm_get_acquire(&lines->ping) != turn) /* RAW.ping */
			gm_pause();
		gm_put_release(&lines->pong, turn); /* RAW.ping */
	}
}

static int ask(struct lines *lines, double *ret_ns)
{
	static uint32_t ticks[BATCHES];
	uint64_t turn = 0;
	int ret = await_value(&lines->ready, 1);

	for (uint32_t i = 0; ret == 0 && i < WARM_UP + BATCHES; i++) {
		uint64_t from = gm_ticks();

		for (int j = 0; ret == 0 && j < TURNS; j++) {
			gm_put_release(&lines->ping, ++turn); /* RAW.ping */
			ret = await_value(&lines->pong, turn);
		}
		if (i >= WARM_UP)
			ticks[i - WARM_UP] = (uint32_t)(gm_ticks() - from);
	}
	if (ret == 0)
		*ret_ns = gm_series_ticks_ns(ticks, BATCHES, 0.5) / TURNS;
	return ret;
}

int gm_raw_trip(int cpu, double *ret_ns)
{
	struct lines *lines = gm_peer_memory(sizeof(*lines));
	pid_t peer = gm_peer_start(cpu, answer, lines);
	int ret = peer > 0 ? ask(lines, ret_ns) : (int)peer;

	gm_peer_stop(peer);
	munmap(lines, sizeof(*lines));
	return ret;
}

static void sleep_and_answer(void *arg)
{
	struct lines *lines = arg;
	struct pollfd poll_fd = { .fd = lines->fd, .events = POLLIN };
	uint64_t turn = 0, count;

	gm_put_release(&lines->ready, 1); /* RAW.ready */
	for (;;) {
		if (poll(&poll_fd, 1, -1) != 1 ||
		    read(lines->fd, &count, sizeof(count)) != sizeof(count))
			return;
		gm_put_release(&lines->pong, ++turn); /* RAW.ping */
	}
}

static int wake(struct lines *lines, uint32_t n, uint64_t gap_ns,
		double *ret_ns)
{
	static uint32_t ticks[WAKES];
	uint64_t one = 1;
	int ret = await_value(&lines->ready, 1);

	n = n < WAKES ? n : WAKES;
	for (uint32_t i = 0; ret == 0 && i < n; i++) {
		uint64_t from;

		gm_ticks_spin(gap_ns);
		from = gm_ticks();
		if (write(lines->fd, &one, sizeof(one)) != sizeof(one))
			return -errno;
		ret = await_value(&lines->pong, i + 1);
		ticks[i] = (uint32_t)(gm_ticks() - from);
	}
	if (ret == 0)
		*ret_ns = gm_series_ticks_ns(ticks, n, 0.5);
	return ret;
}

int gm_raw_wake(int cpu, uint32_t n, uint64_t gap_ns, double *ret_ns)
{
	struct lines *lines = gm_peer_memory(sizeof(*lines));
	pid_t peer;
	int ret;

	lines->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (lines->fd < 0) {
		ret = -errno;
		goto out;
	}
	peer = gm_peer_start(cpu, sleep_and_answer, lines);
	ret = peer > 0 ? wake(lines, n, gap_ns, ret_ns) : (int)peer;
	gm_peer_stop(peer);
	close(lines->fd);
out:
	munmap(lines, sizeof(*lines));
	return ret;
}

int gm_raw_attach(const char *path, double *ret_ns)
{
	uint64_t from = gm_ticks(), took;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *base;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) != 0) {
		close(fd);
		return -errno;
	}
	base = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED) {
		close(fd);
		return -errno;
	}
	(void)*(volatile const uint64_t *)base;
	close(fd);
	took = gm_ticks() - from;
	munmap(base, (size_t)st.st_size);
	*ret_ns = (double)took * gm_ticks_ns();
	return 0;
}
