/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumap/nccl.h - make an NCCL communicator of a mesh's group.
 *
 * For programs that run NCCL themselves, with one process for each rank: they
 * meet by way of the agent, so they need no address, no port and no launcher.
 * The program needs nccl.h, 2.19 or newer, and links with libnccl; libgpumap
 * needs neither.  The program also needs POSIX clocks: in C -std=gnu11 or
 * _POSIX_C_SOURCE.
 *
 *	gpumap_nccl_init(map, "train", "tp_0", rank, in_a_minute, &tp);
 *	result = ncclAllReduce(..., tp.comm, stream);
 *	ret = gpumap_nccl_wait(&tp, result, GPUMAP_NO_DEADLINE);
 *	...
 *	gpumap_nccl_finish(&tp, GPUMAP_NO_DEADLINE);
 *
 * with gpumap_nccl_now() + 60000000000 as in_a_minute.
 *
 * A communicator belongs to one epoch of its group, and ends with it.  When a
 * rank ends, gives up or comes too late, when a row of the group is lost and
 * when the agent restarts, the epoch moves on: gpumap_nccl_check() returns
 * -ESTALE, and every rank calls gpumap_nccl_abort() and then gpumap_nccl_init()
 * again.  With NCCL alone the other ranks would wait for ever.  Check between
 * steps, and while waiting for a stream.  Never wait for one with
 * cuStreamSynchronize(), which no abort interrupts in the waiting thread.
 *
 * The device is the current device of the calling thread.  Each rank has a
 * device of its own, all have one version of NCCL, and they share a network
 * namespace or have addresses that reach each other.  In containers, give all
 * ranks the same NCCL_HOSTID and IPC namespace; otherwise NCCL takes them for
 * different machines and uses the network.
 *
 * The rank's membership ends with the attachment: keep it until
 * gpumap_nccl_finish() or gpumap_nccl_abort(), and do not use it from another
 * thread meanwhile.
 */
#ifndef GPUMAP_NCCL_H
#define GPUMAP_NCCL_H

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <gpumap.h>
#include <nccl.h>

#ifndef CLOCK_MONOTONIC
#error "gpumap/nccl.h: compile with -std=gnu11 or -D_POSIX_C_SOURCE=200809L"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* One rank's part of a communicator.  Its fields may be read. */
struct gpumap_nccl {
	ncclComm_t comm;
	int rank; /* in the communicator and in the group */
	int n;
	/* epoch of the group that the communicator belongs to */
	uint64_t epoch;
	ncclResult_t result; /* NCCL's result that caused the last -EIO */
	struct gpumap *map;
	uint64_t ticket; /* 0: it has not joined */
	char mesh[GPUMAP_NAME_MAX + 1];
	char group[GPUMAP_NAME_MAX + 1];
};

#define GPUMAP_NCCL_LOOK_NS UINT64_C(1000000) /* between checks of NCCL */

static inline uint64_t gpumap_nccl_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) +
	       (uint64_t)now.tv_nsec;
}

/* Sleep until the map changes, or for a moment. */
static inline void gpumap_nccl_nap(const struct gpumap_nccl *nccl, uint64_t ns,
				   uint64_t until_ns)
{
	uint64_t moment = gpumap_nccl_now() + ns;

	if (gpumap_wait_change(nccl->map, gpumap_generation(nccl->map),
			       moment < until_ns ? moment : until_ns) ==
	    -ESTALE) {
		struct timespec rest = { 0, 1000000 };

		nanosleep(&rest, NULL);
	}
}

static inline int gpumap_nccl_retired(const struct gpumap *map)
{
	struct gpumap_health health;

	memset(&health, 0, sizeof(health));
	health.size = sizeof(health);
	return gpumap_health(map, &health) == 0 &&
	       health.state == GPUMAP_RETIRED;
}

/* Has the epoch moved on?  Returns as gpumap_nccl_check(). */
static inline int gpumap_nccl_stale(const struct gpumap_nccl *nccl)
{
	struct gpumap_mesh_group group;
	int ret;

	memset(&group, 0, sizeof(group));
	group.size = sizeof(group);
	ret = gpumap_mesh_group(nccl->map, nccl->mesh, nccl->group, &group,
				NULL, NULL, 0);
	if (ret == -ENOENT || (ret == 0 && group.epoch != nccl->epoch))
		return -ESTALE;
	return ret;
}

/*
 * gpumap_nccl_check - is the communicator still usable?
 *
 * Returns	0
 *		-EINPROGRESS	NCCL's last call has not ended
 *		-ESTALE		the group's epoch has moved on: abort, and begin
 *				again
 *		-EIO		NCCL has failed, with @result: likewise
 *		-EAGAIN, -EPROTO	as gpumap_mesh_group()
 * Cost		no system call of this header, and a search of the directory
 * Threads	the one that uses the communicator
 */
static inline int gpumap_nccl_check(struct gpumap_nccl *nccl)
{
	ncclResult_t state = ncclSuccess;
	int ret = gpumap_nccl_stale(nccl);

	if (ret != 0)
		return ret;
	nccl->result = ncclCommGetAsyncError(nccl->comm, &state);
	if (nccl->result == ncclSuccess)
		nccl->result = state;
	if (nccl->result == ncclInProgress)
		return -EINPROGRESS;
	return nccl->result == ncclSuccess ? 0 : -EIO;
}

/*
 * gpumap_nccl_wait - wait until a call of NCCL's has ended
 *
 * result	the call's return value: communicators are non-blocking here, so
 *		it may be ncclInProgress
 * deadline_ns	on CLOCK_MONOTONIC, or GPUMAP_NO_DEADLINE
 *
 * A call has ended when its work is in the stream, not when that work is done.
 *
 * Returns	0
 *		-ETIMEDOUT	it is not, at @deadline_ns
 *		-ESTALE, -EIO, -EPROTO	as gpumap_nccl_check()
 * Cost		polls a thousand times a second
 * Threads	the one that uses the communicator
 */
static inline int gpumap_nccl_wait(struct gpumap_nccl *nccl,
				   ncclResult_t result, uint64_t deadline_ns)
{
	int ret;

	if (result != ncclSuccess && result != ncclInProgress) {
		nccl->result = result;
		return -EIO;
	}
	for (;;) {
		ret = gpumap_nccl_check(nccl);
		if (ret != -EINPROGRESS && ret != -EAGAIN)
			return ret;
		if (gpumap_nccl_now() >= deadline_ns)
			return -ETIMEDOUT;
		gpumap_nccl_nap(nccl, GPUMAP_NCCL_LOOK_NS, deadline_ns);
	}
}

/* Stop being a rank. */
static inline int gpumap_nccl_leave(const struct gpumap_nccl *nccl, int broken)
{
	int ret = gpumap_mesh_leave(nccl->map, nccl->ticket,
				    broken ? GPUMAP_MESH_BROKEN : 0);

	return ret == -ENOENT ? 0 : ret;
}

/*
 * gpumap_nccl_abort - end the communicator at once, and tell all other ranks
 *
 * Operations under way end without a result.  A communicator that was never
 * formed, all zero, is allowed.
 *
 * Returns	0
 *		-ECONNREFUSED, -ECONNRESET, -EOWNERDEAD	the agent could not be
 *							told, because it is
 *							gone: the epoch has
 *							ended, too
 * Cost		ncclCommAbort(), which has been seen to hang: call it in a
 *		process that a watchdog can kill
 * Threads	the one that uses the communicator
 */
static inline int gpumap_nccl_abort(struct gpumap_nccl *nccl)
{
	int ret = 0;

	/* Leave the group first: the other ranks wait for this one, and this
	 * one's abort may wait for them. */
	if (nccl->ticket != 0)
		ret = gpumap_nccl_leave(nccl, 1);
	if (nccl->comm != NULL)
		ncclCommAbort(nccl->comm);
	memset(nccl, 0, sizeof(*nccl));
	return ret;
}

/* All other ranks have joined: initialise NCCL. */
static inline int gpumap_nccl_form(struct gpumap_nccl *nccl,
				   const ncclUniqueId *id, uint64_t until)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclResult_t result;
	int ret;

	config.blocking = 0;
	result = ncclCommInitRankConfig(&nccl->comm, nccl->n, *id, nccl->rank,
					&config);
	if (nccl->comm == NULL) {
		nccl->result = result;
		ret = -EIO;
	} else {
		ret = gpumap_nccl_wait(nccl, result, until);
	}
	if (ret != 0) {
		result = nccl->result;
		gpumap_nccl_abort(nccl);
		nccl->result = result;
	}
	return ret;
}

/* Rank 0's id, kept while no other rank has received it: each id has a thread
 * and a listener of NCCL's until its ranks come. */
struct gpumap_nccl_id {
	ncclUniqueId id;
	int is_made;
};

/* Read NCCL's version, and make rank 0's id unless there is one. */
static inline int gpumap_nccl_prepare(struct gpumap_nccl *nccl,
				      struct gpumap_nccl_id *ours,
				      uint32_t *ret_version)
{
	int version = 0;

	nccl->result = ncclGetVersion(&version);
	if (nccl->result == ncclSuccess && nccl->rank == 0 && !ours->is_made) {
		memset(&ours->id, 0, sizeof(ours->id));
		nccl->result = ncclGetUniqueId(&ours->id);
		ours->is_made = nccl->result == ncclSuccess;
	}
	*ret_version = (uint32_t)version;
	return nccl->result == ncclSuccess ? 0 : -EIO;
}

typedef char gpumap_nccl_id_fits[sizeof(ncclUniqueId) == GPUMAP_MESH_ID_BYTES
					 ? 1
					 : -1];

/* Read the group's epoch and this rank's place in the group. */
static inline int gpumap_nccl_look(struct gpumap_nccl *nccl, uint32_t rank)
{
	struct gpumap_mesh_group group;
	int ret;

	memset(&group, 0, sizeof(group));
	group.size = sizeof(group);
	ret = gpumap_mesh_group(nccl->map, nccl->mesh, nccl->group, &group,
				NULL, NULL, 0);
	if (ret != 0)
		return ret;
	nccl->n = (int)group.n;
	nccl->epoch = group.epoch;
	/* Read the place after the epoch: if the mesh was published again in
	 * between, the epoch is the old one, and the agent refuses it. */
	ret = gpumap_mesh_within(nccl->map, nccl->mesh, nccl->group, rank);
	if (ret < 0)
		return ret;
	nccl->rank = ret;
	return group.whole ? 0 : -EAGAIN;
}

/* One attempt, in the current epoch. */
static inline int gpumap_nccl_try(struct gpumap_nccl *nccl,
				  struct gpumap_nccl_id *ours, uint64_t until)
{
	struct gpumap_mesh_join join;
	uint8_t bytes[GPUMAP_MESH_ID_BYTES];
	uint32_t version;
	ncclUniqueId id;
	int ret = gpumap_nccl_prepare(nccl, ours, &version);

	if (ret != 0)
		return ret;
	memset(&join, 0, sizeof(join));
	join.size = sizeof(join);
	join.mesh = nccl->mesh;
	join.group = nccl->group;
	join.epoch = nccl->epoch;
	join.deadline_ns = until != 0 ? until : 1; /* 0: never */
	join.rank = (uint32_t)nccl->rank;
	join.version = version;
	join.id = nccl->rank == 0 ? &ours->id : NULL;
	ret = gpumap_mesh_join(nccl->map, &join, bytes, &nccl->ticket);
	if (ret != 0)
		return ret;
	if (nccl->rank == 0)
		ours->is_made = 0; /* the id is only for these ranks */
	memcpy(&id, bytes, sizeof(id));
	return gpumap_nccl_form(nccl, &id, until);
}

/* May an attempt that failed be followed by another?  Returns 0, or the result
 * of the call. */
static inline int gpumap_nccl_retry(const struct gpumap_nccl *nccl, int ret,
				    uint64_t deadline_ns)
{
	/* Another rank has died, and the agent will notice it. */
	if (ret == -EIO && nccl->result == ncclRemoteError)
		ret = -ESTALE;
	if (ret != -EAGAIN && ret != -ESTALE && ret != -ETIMEDOUT)
		return ret;
	if (gpumap_nccl_retired(nccl->map))
		return -ESTALE;
	return gpumap_nccl_now() >= deadline_ns ? -ETIMEDOUT : 0;
}

/*
 * gpumap_nccl_init - form the communicator of a group, with all its ranks
 *
 * group	NULL: "world"
 * rank		of the mesh; it must be in the group
 * deadline_ns	on CLOCK_MONOTONIC, or GPUMAP_NO_DEADLINE
 * ret_nccl	give it back with gpumap_nccl_finish() or gpumap_nccl_abort();
 *		after a failure only @result is stored
 *
 * The call waits until the group is whole and all its ranks have called this.
 * If the epoch moves on meanwhile, or another rank dies, it begins again, until
 * @deadline_ns.
 *
 * Returns	0
 *		-ETIMEDOUT	other ranks did not come, or NCCL did not get
 *				ready
 *		-ENODATA	the rank is not in the group
 *		-EIO		NCCL has failed, as @result says
 *		-ERANGE		the mesh has no such rank
 *		-ESTALE		the map was retired: attach again
 *		-EBUSY, -EPROTO, -ENOENT, -EINVAL, -EPERM, -EDQUOT,
 *		-EOPNOTSUPP, -ENOMEM, -ECONNREFUSED, -ECONNRESET, -EOWNERDEAD
 *				as gpumap_mesh_join(); gpumap_refusal() says
 *				more
 * Cost		round trips on the control socket, and ncclCommInitRankConfig()
 * Threads	any, in turn
 */
static inline int gpumap_nccl_init(struct gpumap *map, const char *mesh,
				   const char *group, uint32_t rank,
				   uint64_t deadline_ns,
				   struct gpumap_nccl *ret_nccl)
{
	struct gpumap_nccl_id ours;
	struct gpumap_nccl nccl;
	int ret, why;

	if (group == NULL)
		group = "world";
	if (strlen(mesh) > GPUMAP_NAME_MAX || strlen(group) > GPUMAP_NAME_MAX)
		return -EINVAL;
	ours.is_made = 0;
	for (;;) {
		memset(&nccl, 0, sizeof(nccl));
		nccl.map = map;
		memcpy(nccl.mesh, mesh, strlen(mesh));
		memcpy(nccl.group, group, strlen(group));
		ret = gpumap_nccl_look(&nccl, rank);
		if (ret == 0)
			ret = gpumap_nccl_try(&nccl, &ours, deadline_ns);
		if (ret == 0)
			break;
		ret_nccl->result = nccl.result;
		nccl.map = map; /* all zero after an abort */
		why = ret;
		ret = gpumap_nccl_retry(&nccl, why, deadline_ns);
		if (ret != 0)
			return ret;
		if (why == -EAGAIN)
			gpumap_nccl_nap(&nccl, UINT64_C(100000000),
					deadline_ns);
	}
	*ret_nccl = nccl;
	return 0;
}

/*
 * gpumap_nccl_finish - end the communicator after all of its work is done
 *
 * All ranks call this.  If it fails it has aborted.
 *
 * Returns	0
 *		-ETIMEDOUT, -ESTALE, -EIO, -EPROTO	as gpumap_nccl_wait()
 *		-ECONNREFUSED, -ECONNRESET, -EOWNERDEAD	the communicator has
 *				ended, and the agent could not be told
 * Cost		ncclCommFinalize(), ncclCommDestroy(), and a round trip on the
 *		control socket
 * Threads	the one that uses the communicator
 */
static inline int gpumap_nccl_finish(struct gpumap_nccl *nccl,
				     uint64_t deadline_ns)
{
	int ret = gpumap_nccl_wait(nccl, ncclCommFinalize(nccl->comm),
				   deadline_ns);

	if (ret != 0) {
		gpumap_nccl_abort(nccl);
		return ret;
	}
	ncclCommDestroy(nccl->comm);
	ret = gpumap_nccl_leave(nccl, 0);
	memset(nccl, 0, sizeof(*nccl));
	return ret;
}

#ifdef __cplusplus
}
#endif
#endif
