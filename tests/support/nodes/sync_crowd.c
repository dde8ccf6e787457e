/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/nodes/sync_crowd.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/sync/summary.h"
#include "tests/support/nodes/store_rig.h"
#include "tests/support/story.h"
#include "tests/support/tap.h"

#define GIB  (UINT64_C(1) << 30)
#define MOST GPUMAP_CLUSTER_NODES_MAX

/* A node of the process. */
struct member {
	struct gm_store_write write;
	char key[16];
	char value[GM_STORE_VALUE_BYTES];
	uint32_t number;
	uint32_t version; /* of its content */
	bool is_busy;
	bool is_put;
};

static struct {
	struct gm_store *stores[CROWD_STORES];
	struct gm_store_lease leases[CROWD_STORES];
	struct member *members;
	uint32_t n;
	struct crowd_shared *shared;
} self; /* of the process */

/* ---- what a node says ---------------------------------------------------- */

static void fill_device(struct gpumap_cluster_device *device, uint32_t number,
			uint32_t row, uint32_t version)
{
	*device = (struct gpumap_cluster_device){
		.size = sizeof(*device),
		.row = row,
		.kind = GPUMAP_DEVICE_CUDA,
		.state = GPUMAP_DEVICE_READY,
		.numa_node = (int32_t)(row / 4),
		.cc_major = 9,
		.total_bytes = 80 * GIB,
		.free_bytes = 80 * GIB - (version % 64) * GIB,
		.reserved_bytes = (version % 64) * GIB,
		.links = 18 * (CROWD_ROWS - 1),
	};
	memcpy(device->uuid, &number, sizeof(number));
	device->uuid[15] = (uint8_t)row;
	snprintf(device->name, sizeof(device->name), "NVIDIA H100 80GB HBM3");
}

static void say(struct member *member)
{
	struct gpumap_cluster_device devices[CROWD_ROWS];
	struct gpumap_cluster_share share = { .size = sizeof(share),
					      .bytes = 16 * GIB,
					      .rows = { 1 } };
	struct gm_summary summary = {
		.node = { .size = sizeof(summary.node),
			  .epoch = 1,
			  .agent_version = GPUMAP_VERSION,
			  .n_devices = CROWD_ROWS,
			  .n_shares = 1 },
		.instance = "0123456789abcdef",
		.boot = "00000000-1111-4222-8333-444444444444",
		.devices = devices,
		.shares = &share,
	};
	struct gpumap_cluster_node *node = &summary.node;
	int bytes;

	snprintf(node->name, sizeof(node->name), "n%04u", member->number);
	snprintf(node->address, sizeof(node->address), "10.0.%u.%u",
		 member->number / 256, member->number % 256);
	snprintf(share.name, sizeof(share.name), "llama");
	for (uint32_t row = 0; row < CROWD_ROWS; row++)
		fill_device(&devices[row], member->number, row,
			    member->version);
	bytes = gm_summary_encode(&summary, member->value);
	if (bytes < 0)
		_exit(1);
	member->write.value = member->value;
	member->write.bytes = (size_t)bytes;
}

static void written(struct gm_store_write *write,
		    const struct gm_store_result *result)
{
	struct member *member = (struct member *)(void *)write;

	member->is_busy = false;
	if (result->status != 0) {
		self.shared->n_failed += member->is_put;
		return;
	}
	if (member->is_put)
		self.shared->n_changes++;
	else
		self.shared->n_put++;
	member->is_put = true;
}

static void put(struct member *member)
{
	uint32_t part = member->number % CROWD_STORES;

	if (member->is_busy || !self.leases[part].held)
		return;
	member->version++;
	say(member);
	member->write.key = member->key;
	member->write.lease = &self.leases[part];
	member->write.done = written;
	member->is_busy = gm_store_put(self.stores[part], &member->write) == 0;
}

/* ---- the process --------------------------------------------------------- */

/* The nodes of a lease that was lost are put again. */
static void lease_event(struct gm_store_lease *lease, const char *why)
{
	(void)why;
	for (uint32_t i = (uint32_t)(lease - self.leases);
	     !lease->held && i < self.n; i += CROWD_STORES) {
		self.shared->n_put -= self.members[i].is_put;
		self.members[i].is_put = false;
	}
}

static void put_missing(void)
{
	for (uint32_t i = 0; self.shared->n_put < self.n && i < self.n; i++)
		if (!self.members[i].is_put)
			put(&self.members[i]);
}

static void dispatch(int ms)
{
	struct pollfd ready[CROWD_STORES];

	for (int i = 0; i < CROWD_STORES; i++)
		ready[i] = (struct pollfd){ gm_store_fd(self.stores[i]), POLLIN,
					    0 };
	if (poll(ready, CROWD_STORES, ms) <= 0)
		return;
	for (int i = 0; i < CROWD_STORES; i++)
		if (ready[i].revents != 0)
			gm_store_dispatch(self.stores[i]);
}

static void __attribute__((noreturn)) change_for_ever(void)
{
	uint64_t since_ns = story_now(), n_made = 0;
	uint32_t rate = 0, next = 0;

	for (;;) {
		uint32_t wanted = self.shared->per_second;

		if (wanted != rate) {
			rate = wanted;
			since_ns = story_now();
			n_made = 0;
		}
		while (n_made < (story_now() - since_ns) * rate / 1000000000) {
			put(&self.members[next++ % self.n]);
			n_made++;
		}
		put_missing();
		dispatch(10);
	}
}

static void __attribute__((noreturn))
be_the_crowd(const struct sync_place *place, uint32_t ttl_ms)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	self.members = calloc(self.n, sizeof(*self.members));
	if (self.members == NULL)
		_exit(1);
	for (int i = 0; i < CROWD_STORES; i++) {
		self.leases[i] =
			(struct gm_store_lease){ .ttl_ms = ttl_ms,
						 .event = lease_event };
		self.stores[i] = sync_place_open(place);
		if (gm_store_lease(self.stores[i], &self.leases[i]) != 0)
			_exit(1);
	}
	for (uint32_t i = 0; i < self.n; i++) {
		self.members[i].number = i;
		snprintf(self.members[i].key, sizeof(self.members[i].key),
			 "nodes/n%04u", i % 10000);
	}
	change_for_ever();
}

/* ---- for the test -------------------------------------------------------- */

void crowd_start(struct crowd *crowd, const struct sync_place *place,
		 uint32_t n, uint32_t ttl_ms)
{
	*crowd = (struct crowd){ .n = n };
	crowd->shared =
		mmap(NULL, sizeof(*crowd->shared), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	fflush(stdout);
	crowd->pid = crowd->shared != MAP_FAILED && n <= MOST ? fork() : -1;
	if (crowd->pid == 0) {
		self.n = n;
		self.shared = crowd->shared;
		be_the_crowd(place, ttl_ms);
	}
	if (crowd->pid < 0) {
		puts("Bail out! no crowd");
		exit(99);
	}
}

int crowd_stands(const struct crowd *crowd)
{
	uint64_t since_ns = story_now();

	while (crowd->shared->n_put < crowd->n) {
		if (story_now() - since_ns > SYNC_LIMIT_MS * UINT64_C(1000000))
			return -1;
		story_nap(2000);
	}
	return (int)((story_now() - since_ns) / 1000000);
}

void crowd_kill(struct crowd *crowd)
{
	kill(crowd->pid, SIGKILL);
	waitpid(crowd->pid, NULL, 0);
	munmap(crowd->shared, sizeof(*crowd->shared));
	*crowd = (struct crowd){ 0 };
}

static uint32_t count_state(const struct sync_node *node, uint32_t state)
{
	struct gpumap_cluster_node seen = { .size = sizeof(seen) };
	uint32_t cursor = 0, n = 0;

	while (gpumap_cluster_next_node(node->map, &cursor, &seen) == 1)
		n += seen.state == state && strcmp(seen.name, node->name) != 0;
	return n;
}

int crowd_is_seen(const struct sync_node *node, uint32_t n, uint32_t state,
		  uint32_t limit_ms)
{
	uint64_t since_ns = story_now();

	for (;;) {
		uint64_t ms = (story_now() - since_ns) / 1000000;

		if (count_state(node, state) == n)
			return (int)ms;
		if (ms > limit_ms)
			break;
		story_nap(5000);
	}
	NOTE("%u are in state %u, not %u", count_state(node, state), state, n);
	return -1;
}

static long status_kb(pid_t pid, const char *name)
{
	char path[64], line[128];
	size_t n = strlen(name);
	long kb = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file = fopen(path, "re");
	while (file != NULL && kb < 0 && fgets(line, sizeof(line), file))
		if (strncmp(line, name, n) == 0)
			kb = strtol(line + n, NULL, 10);
	if (file != NULL)
		fclose(file);
	return kb;
}

long crowd_resident(pid_t pid)
{
	return status_kb(pid, "VmRSS:");
}

long crowd_resident_own(pid_t pid)
{
	return status_kb(pid, "RssAnon:");
}

void crowd_stays(pid_t pid, long kb, long more_kb)
{
	long now_kb = crowd_resident_own(pid);

#ifdef GM_SANITIZED
	NOTE("%ld KiB, %ld before, %ld more may be", now_kb, kb, more_kb);
	SKIP(1, "sanitizers keep what was freed");
#else
	if (!OK(now_kb <= kb + more_kb))
		NOTE("%ld KiB, %ld before", now_kb, kb);
#endif
}

uint64_t crowd_cpu_ms(pid_t pid)
{
	unsigned long long user = 0, system = 0;
	char path[64], line[1024] = "";
	const char *end;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "re");
	if (file == NULL || fgets(line, sizeof(line), file) == NULL)
		line[0] = '\0';
	if (file != NULL)
		fclose(file);
	end = strrchr(line, ')');
	if (end == NULL ||
	    sscanf(end + 1,
		   " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu "
		   "%llu",
		   &user, &system) != 2)
		return 0;
	return (user + system) * 1000 / (uint64_t)sysconf(_SC_CLK_TCK);
}
