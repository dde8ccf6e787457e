/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* How ranks meet, and what goes between them. */

#include <errno.h>
#include <ifaddrs.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/fake/nccl.h"

#define LOOK_MS 20 /* between looks at whether it was aborted */

/* A rank's message where the ranks meet. */
struct greeting {
	int version, rank, n;
	CUuuid gpu;
};

/* Before each message. */
struct head {
	uint64_t what;
	uint64_t bytes;
};

/* ---- sockets ------------------------------------------------------------- */

/* A name in the network namespace, of the meeting place or of a rank. */
static socklen_t name(const struct fake_nccl_id *id, int rank,
		      struct sockaddr_un *ret)
{
	int n;

	memset(ret, 0, sizeof(*ret));
	ret->sun_family = AF_UNIX;
	n = snprintf(ret->sun_path + 1, sizeof(ret->sun_path) - 1,
		     "fake-nccl-%016llx%016llx-%d",
		     (unsigned long long)id->number[0],
		     (unsigned long long)id->number[1], rank);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			   (size_t)n);
}

static int listen_at(const struct fake_nccl_id *id, int rank)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un at;
	socklen_t bytes = name(id, rank, &at);

	if (fd >= 0 && (bind(fd, (struct sockaddr *)&at, bytes) != 0 ||
			listen(fd, FAKE_NCCL_RANKS) != 0)) {
		close(fd);
		return -1;
	}
	return fd;
}

static int connect_to(const struct fake_nccl_id *id, int rank)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un at;
	socklen_t bytes = name(id, rank, &at);

	if (fd >= 0 && connect(fd, (struct sockaddr *)&at, bytes) != 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/* A rank that waits for a dead peer waits for ever. */
static bool await(ncclComm_t comm, int fd, short events)
{
	struct pollfd p = { fd, events, 0 };

	while (!comm->aborted) {
		int n = poll(&p, 1, LOOK_MS);

		if (n > 0 && (p.revents & events) != 0)
			return true;
		if (n > 0)
			fake_nccl_nap(LOOK_MS);
	}
	return false;
}

static bool move(ncclComm_t comm, int fd, void *at, uint64_t bytes, bool out)
{
	char *p = at;

	while (bytes != 0) {
		ssize_t n;

		if (!await(comm, fd, out ? POLLOUT : POLLIN))
			return false;
		n = out ? send(fd, p, bytes, MSG_NOSIGNAL | MSG_DONTWAIT)
			: recv(fd, p, bytes, MSG_DONTWAIT);
		if (n > 0) {
			p += n;
			bytes -= (uint64_t)n;
		} else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
			while (!comm->aborted)
				fake_nccl_nap(LOOK_MS);
			return false;
		}
	}
	return true;
}

/* ---- where they meet ----------------------------------------------------- */

struct root {
	struct fake_nccl_id id;
	int listener;
};

static int check(const struct greeting *all, int n, int i)
{
	for (int j = 0; j < i; j++) {
		if (all[j].rank == all[i].rank || all[j].n != n ||
		    memcmp(&all[j].gpu, &all[i].gpu, sizeof(CUuuid)) == 0)
			return ncclInvalidUsage; /* "Duplicate GPU" */
		if (all[j].version != all[i].version)
			return ncclInternalError;
	}
	return ncclSuccess;
}

static void *be_root(void *argument)
{
	struct root *root = argument;
	struct greeting all[FAKE_NCCL_RANKS];
	int fds[FAKE_NCCL_RANKS], there = 0, n = 1, verdict = ncclSuccess;

	while (there < n && there < FAKE_NCCL_RANKS) {
		struct greeting *g = &all[there];
		int fd = accept4(root->listener, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0)
			continue;
		if (recv(fd, g, sizeof(*g), MSG_WAITALL) != sizeof(*g)) {
			close(fd);
			continue;
		}
		n = there == 0 ? g->n : n;
		fds[there++] = fd;
	}
	for (int i = 0; i < there && verdict == ncclSuccess; i++)
		verdict = check(all, n, i);
	for (int i = 0; i < there; i++) {
		send(fds[i], &verdict, sizeof(verdict), MSG_NOSIGNAL);
		close(fds[i]);
	}
	close(root->listener);
	free(root);
	return NULL;
}

/* The addresses of the machine's interfaces, by AF_NETLINK.  Ours are not among
 * them, but without any the real one does not start. */
static bool has_interfaces(void)
{
	struct ifaddrs *all = NULL;

	if (getifaddrs(&all) != 0)
		return false;
	freeifaddrs(all);
	return true;
}

ncclResult_t fake_nccl_root(struct fake_nccl_id *ret_id)
{
	struct root *root;
	pthread_t thread;

	if (!has_interfaces())
		return ncclSystemError;
	root = calloc(1, sizeof(*root));
	if (!root)
		return ncclSystemError;
	memcpy(root->id.magic, "fakenccl", 8);
	if (getrandom(root->id.number, sizeof(root->id.number), 0) < 0 ||
	    (root->listener = listen_at(&root->id, -1)) < 0) {
		free(root);
		return ncclSystemError;
	}
	*ret_id = root->id;
	if (pthread_create(&thread, NULL, be_root, root)) {
		close(root->listener);
		free(root);
		return ncclSystemError;
	}
	pthread_detach(thread);
	return ncclSuccess;
}

static ncclResult_t greet(ncclComm_t comm)
{
	struct greeting mine = { .rank = comm->rank,
				 .n = comm->n,
				 .gpu = comm->gpu };
	int verdict = ncclRemoteError, fd = connect_to(&comm->id, -1);

	if (fd < 0)
		return ncclRemoteError;
	ncclGetVersion(&mine.version);
	if (!move(comm, fd, &mine, sizeof(mine), true) ||
	    !move(comm, fd, &verdict, sizeof(verdict), false))
		verdict = ncclRemoteError;
	close(fd);
	return (ncclResult_t)verdict;
}

static bool pair_up(ncclComm_t comm, int listener)
{
	for (int i = 0; i < comm->rank; i++) {
		comm->peers[i] = connect_to(&comm->id, i);
		if (comm->peers[i] < 0 ||
		    !move(comm, comm->peers[i], &comm->rank, sizeof(int), true))
			return false;
	}
	for (int i = comm->rank + 1; i < comm->n; i++) {
		int rank = -1, fd;

		if (!await(comm, listener, POLLIN))
			return false;
		fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0 || !move(comm, fd, &rank, sizeof(rank), false))
			return false;
		comm->peers[rank] = fd;
	}
	return true;
}

ncclResult_t fake_nccl_meet(ncclComm_t comm)
{
	long slow = fake_nccl_fault("slow");
	ncclResult_t result;
	int listener;

	if (!has_interfaces())
		return ncclSystemError;
	listener = listen_at(&comm->id, comm->rank);
	while (!comm->aborted && fake_nccl_fault("absent") > 0)
		fake_nccl_nap(LOOK_MS);
	for (; slow > 0 && !comm->aborted; slow -= LOOK_MS)
		fake_nccl_nap(LOOK_MS);
	if (listener < 0)
		return ncclInvalidUsage; /* the rank is taken */
	if (fake_nccl_fault("refuse") > 0) {
		close(listener);
		return ncclSystemError;
	}
	result = comm->aborted ? ncclRemoteError : greet(comm);
	if (result == ncclSuccess && !pair_up(comm, listener))
		result = ncclRemoteError;
	close(listener);
	return result;
}

void fake_nccl_await_others(ncclComm_t comm)
{
	char spare[4096];

	for (int i = 0; i < comm->n; i++)
		if (comm->peers[i] >= 0)
			shutdown(comm->peers[i], SHUT_WR);
	for (int i = 0; i < comm->n; i++) {
		ssize_t n = comm->peers[i] >= 0;

		/* Bytes that the peer sent before are dropped. */
		while (n > 0 || (n < 0 && errno == EINTR))
			n = recv(comm->peers[i], spare, sizeof(spare), 0);
	}
}

void fake_nccl_part(ncclComm_t comm)
{
	for (int i = 0; i < comm->n; i++) {
		if (comm->peers[i] >= 0)
			close(comm->peers[i]);
		comm->peers[i] = -1;
	}
}

/* ---- between them -------------------------------------------------------- */

static ncclResult_t put(ncclComm_t comm, int peer, uint64_t what,
			const struct fake_nccl_parcel *parcel)
{
	struct head head = { what, parcel->out_bytes };

	if (!parcel->sends)
		return ncclSuccess;
	if (!move(comm, comm->peers[peer], &head, sizeof(head), true) ||
	    !move(comm, comm->peers[peer], (void *)(uintptr_t)parcel->out,
		  parcel->out_bytes, true))
		return ncclRemoteError;
	return ncclSuccess;
}

static ncclResult_t get(ncclComm_t comm, int peer, uint64_t what,
			const struct fake_nccl_parcel *parcel)
{
	struct head head;

	if (!parcel->receives)
		return ncclSuccess;
	if (!move(comm, comm->peers[peer], &head, sizeof(head), false))
		return ncclRemoteError;
	if (head.what != what || head.bytes != parcel->in_bytes)
		return ncclInvalidUsage;
	if (!move(comm, comm->peers[peer], parcel->in, parcel->in_bytes, false))
		return ncclRemoteError;
	return ncclSuccess;
}

/* Pairs in one order that all ranks keep, and in each the lower one first: no
 * two wait for each other with full sockets. */
ncclResult_t fake_nccl_exchange(ncclComm_t comm, uint64_t what,
				const struct fake_nccl_parcel *parcels)
{
	ncclResult_t result = ncclSuccess;

	for (int i = 0; i < comm->n && result == ncclSuccess; i++) {
		if (i == comm->rank)
			continue;
		if (comm->rank < i) {
			result = put(comm, i, what, &parcels[i]);
			if (result == ncclSuccess)
				result = get(comm, i, what, &parcels[i]);
		} else {
			result = get(comm, i, what, &parcels[i]);
			if (result == ncclSuccess)
				result = put(comm, i, what, &parcels[i]);
		}
	}
	return result;
}
