/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Collectives in streams, and groups of them. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fake/nccl.h"

#define DEVICES   64
#define GROUP_MAX 64 /* calls between GroupStart and GroupEnd */

enum kind { ALL_REDUCE = 1, ALL_GATHER, REDUCE_SCATTER, BROADCAST, SEND, RECV };

/* Pinned memory is kept: to free it would wait for what runs. */
struct pinned {
	struct pinned *next;
	void *at;
	uint64_t bytes;
};

struct op {
	ncclComm_t comm;
	cudaStream_t stream;
	enum kind kind;
	const void *send;
	void *recv;
	uint64_t count, out_bytes, in_bytes;
	ncclDataType_t type;
	ncclRedOp_t op;
	int peer; /* or root */
	struct pinned *out, *in;
};

/* Operations of one communicator and stream, begun together. */
struct batch {
	ncclComm_t comm;
	unsigned int number, n;
	struct op ops[];
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t devices[DEVICES];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct pinned *pool;

static _Thread_local int depth;
static _Thread_local unsigned int n_grouped;
static _Thread_local struct op grouped[GROUP_MAX];

static void make_devices(void)
{
	for (int i = 0; i < DEVICES; i++)
		pthread_mutex_init(&devices[i], NULL);
}

/* ---- pinned memory ------------------------------------------------------- */

static struct pinned *take(uint64_t bytes)
{
	struct pinned **at, *pinned = NULL;

	pthread_mutex_lock(&mutex);
	for (at = &pool; *at && (*at)->bytes < bytes; at = &(*at)->next)
		;
	if (*at) {
		pinned = *at;
		*at = pinned->next;
	}
	pthread_mutex_unlock(&mutex);
	if (pinned)
		return pinned;
	pinned = calloc(1, sizeof(*pinned));
	if (!pinned)
		return NULL;
	pinned->bytes = bytes < 4096 ? 4096 : bytes;
	if (fake_nccl_cu()->host_alloc(&pinned->at, pinned->bytes, 0)) {
		free(pinned);
		return NULL;
	}
	return pinned;
}

static void give(struct pinned *pinned)
{
	if (!pinned)
		return;
	pthread_mutex_lock(&mutex);
	pinned->next = pool;
	pool = pinned;
	pthread_mutex_unlock(&mutex);
}

/* ---- on the host, in the stream's turn ----------------------------------- */

static uint64_t what_of(const struct op *op)
{
	return (uint64_t)op->kind << 48 | (uint64_t)op->type << 40 |
	       (uint64_t)op->op << 32 | (uint32_t)op->peer;
}

static char *part_of(const struct pinned *pinned, uint64_t bytes, int i)
{
	return (char *)pinned->at + bytes * (uint64_t)i;
}

/* Each rank has all operands, and combines them in rank order. */
static ncclResult_t reduce(struct op *op, struct fake_nccl_parcel *parcels,
			   char *all)
{
	ncclComm_t comm = op->comm;
	uint64_t bytes = op->in_bytes;
	ncclResult_t result;

	for (int i = 0; i < comm->n; i++) {
		const char *out = op->kind == REDUCE_SCATTER
					  ? part_of(op->out, bytes, i)
					  : op->out->at;

		parcels[i] = (struct fake_nccl_parcel){
			out, all + bytes * (uint64_t)i, bytes, bytes, true, true
		};
		if (i == comm->rank)
			memcpy(parcels[i].in, out, bytes);
	}
	result = fake_nccl_exchange(comm, what_of(op), parcels);
	if (result != ncclSuccess)
		return result;
	for (int i = 1; i < comm->n; i++)
		fake_nccl_combine(op->type, op->op, all,
				  all + bytes * (uint64_t)i, op->count);
	if (op->op == ncclAvg)
		fake_nccl_divide(op->type, all, op->count, comm->n);
	memcpy(op->in->at, all, bytes);
	return ncclSuccess;
}

static ncclResult_t spread(struct op *op, struct fake_nccl_parcel *parcels)
{
	ncclComm_t comm = op->comm;
	uint64_t bytes = op->out_bytes;
	bool is_root = op->peer == comm->rank;
	const void *out = op->out ? op->out->at : NULL;

	for (int i = 0; i < comm->n; i++) {
		if (op->kind == ALL_GATHER)
			parcels[i] = (struct fake_nccl_parcel){
				out,   part_of(op->in, bytes, i),
				bytes, bytes,
				true,  true
			};
		else
			parcels[i] = (struct fake_nccl_parcel){
				out,   op->in->at, bytes,
				bytes, is_root,    i == op->peer
			};
	}
	if (op->kind == ALL_GATHER)
		memcpy(parcels[comm->rank].in, out, bytes);
	else if (is_root)
		memcpy(op->in->at, out, bytes);
	return fake_nccl_exchange(comm, what_of(op), parcels);
}

static ncclResult_t collect(struct op *op)
{
	struct fake_nccl_parcel parcels[FAKE_NCCL_RANKS];
	ncclResult_t result;
	char *all;

	memset(parcels, 0, sizeof(parcels));
	if (op->kind == ALL_GATHER || op->kind == BROADCAST)
		return spread(op, parcels);
	all = malloc(op->in_bytes * (uint64_t)op->comm->n + 1);
	if (!all)
		return ncclSystemError;
	result = reduce(op, parcels, all);
	free(all);
	return result;
}

/* One after another; a pair's order is that of the calls. */
static ncclResult_t pass(struct op *op)
{
	struct fake_nccl_parcel parcels[FAKE_NCCL_RANKS];
	struct fake_nccl_parcel *one = &parcels[op->peer];

	memset(parcels, 0, sizeof(parcels));
	if (op->kind == SEND)
		*one = (struct fake_nccl_parcel){ .out = op->out->at,
						  .out_bytes = op->out_bytes,
						  .sends = true };
	else
		*one = (struct fake_nccl_parcel){ .in = op->in->at,
						  .in_bytes = op->in_bytes,
						  .receives = true };
	return fake_nccl_exchange(op->comm, UINT64_C(1) << 60 | op->type,
				  parcels);
}

/* Sends to and receipts from one peer are of the same time. */
static ncclResult_t pass_all(struct batch *batch)
{
	ncclComm_t comm = batch->comm;
	ncclResult_t result = ncclSuccess;

	for (int peer = 0; peer < comm->n; peer++) {
		for (int turn = 0; turn < 2; turn++) {
			enum kind kind = (comm->rank < peer) == (turn == 0)
						 ? SEND
						 : RECV;

			for (unsigned int i = 0; i < batch->n; i++) {
				struct op *op = &batch->ops[i];

				if (op->kind == kind && op->peer == peer &&
				    peer != comm->rank && result == ncclSuccess)
					result = pass(op);
			}
		}
	}
	return result;
}

static bool lock_device(ncclComm_t comm)
{
	while (!comm->aborted) {
		if (pthread_mutex_trylock(&devices[comm->device % DEVICES]) ==
		    0)
			return true;
		fake_nccl_nap(1);
	}
	return false;
}

static void run(void *argument)
{
	struct batch *batch = argument;
	ncclComm_t comm = batch->comm;
	ncclResult_t result = ncclSuccess;
	bool fails = fake_nccl_fault("async") == (long)batch->number;

	if (!lock_device(comm))
		return;
	if (batch->ops[0].kind >= SEND)
		result = pass_all(batch);
	for (unsigned int i = 0; i < batch->n && batch->ops[0].kind < SEND; i++)
		if (result == ncclSuccess && !fails)
			result = collect(&batch->ops[i]);
	if (fails)
		comm->state = ncclSystemError;
	else if (result != ncclSuccess && !comm->aborted)
		comm->state = result;
	/* A kernel that has failed does not end. */
	while (comm->state != ncclSuccess && comm->state != ncclInProgress &&
	       !comm->aborted)
		fake_nccl_nap(1);
	pthread_mutex_unlock(&devices[comm->device % DEVICES]);
}

static void done(void *argument)
{
	struct batch *batch = argument;

	for (unsigned int i = 0; i < batch->n; i++) {
		give(batch->ops[i].out);
		give(batch->ops[i].in);
	}
	batch->comm->under_way--;
	free(batch);
}

/* ---- into the stream ----------------------------------------------------- */

static bool copy_out(struct op *op)
{
	const struct fake_nccl_cu *cu = fake_nccl_cu();

	op->out = op->send ? take(op->out_bytes) : NULL;
	op->in = op->recv ? take(op->in_bytes) : NULL;
	if ((op->send && !op->out) || (op->recv && !op->in))
		return false;
	return !op->send || op->out_bytes == 0 ||
	       cu->copy_out(op->out->at, (CUdeviceptr)(uintptr_t)op->send,
			    op->out_bytes, op->stream) == CUDA_SUCCESS;
}

static bool copy_in(const struct op *op)
{
	return !op->recv || op->in_bytes == 0 ||
	       fake_nccl_cu()->copy_in((CUdeviceptr)(uintptr_t)op->recv,
				       op->in->at, op->in_bytes,
				       op->stream) == CUDA_SUCCESS;
}

/* The real one loads and stores whole elements, and checks no address. */
static bool is_askew(const struct op *op)
{
	uintptr_t both = (uintptr_t)op->send | (uintptr_t)op->recv;

	return (op->kind == ALL_REDUCE || op->kind == REDUCE_SCATTER) &&
	       both % fake_nccl_bytes(op->type) != 0;
}

static bool fault(const struct op *op)
{
	CUdeviceptr nowhere = 1;
	unsigned int value = 0;
	void *params[] = { &nowhere, &value };

	return fake_nccl_cu()->launch(op->comm->store, 1, 1, 1, 1, 1, 1, 0,
				      op->stream, params, NULL) == CUDA_SUCCESS;
}

/* One line each: others write there, too. */
static void tell(const struct op *op)
{
	static const char *const names[] = { "",           "all_reduce",
					     "all_gather", "reduce_scatter",
					     "broadcast",  "send",
					     "recv" };

	dprintf(STDERR_FILENO, "nccl %s rank=%d peer=%d n=%llu type=%d\n",
		names[op->kind], op->comm->rank, op->peer,
		(unsigned long long)op->count, (int)op->type);
}

static ncclResult_t launch(const struct op *ops, unsigned int n)
{
	const struct fake_nccl_cu *cu = fake_nccl_cu();
	struct batch *batch = calloc(1, sizeof(*batch) + n * sizeof(*ops));
	ncclComm_t comm = ops->comm;
	bool good = batch != NULL;

	pthread_once(&once, make_devices);
	if (!good)
		return ncclSystemError;
	batch->comm = comm;
	batch->number = ++comm->begun;
	batch->n = n;
	memcpy(batch->ops, ops, n * sizeof(*ops));
	for (unsigned int i = 0; i < n; i++)
		good = good && (!is_askew(&ops[i]) || fault(&ops[i])) &&
		       copy_out(&batch->ops[i]);
	if (!good || cu->host_func(ops->stream, run, batch) != CUDA_SUCCESS) {
		free(batch);
		return ncclUnhandledCudaError;
	}
	comm->under_way++;
	for (unsigned int i = 0; i < n && fake_nccl_fault("tells") > 0; i++)
		tell(&ops[i]);
	for (unsigned int i = 0; i < n; i++)
		good = good && copy_in(&batch->ops[i]);
	if (!good || cu->host_func(ops->stream, done, batch) != CUDA_SUCCESS)
		return ncclUnhandledCudaError;
	return comm->blocking ? ncclSuccess : ncclInProgress;
}

static ncclResult_t begin(const struct op *op)
{
	if (!op->comm || fake_nccl_bytes(op->type) == 0 || op->op < ncclSum ||
	    op->op > ncclAvg || op->peer < 0 || op->peer >= op->comm->n)
		return ncclInvalidArgument;
	if (op->kind >= SEND && op->peer == op->comm->rank)
		return ncclInvalidUsage; /* it could; we cannot */
	if (op->comm->state != ncclSuccess)
		return ncclInvalidArgument; /* its last call is not over */
	if (depth == 0)
		return launch(op, 1);
	if (n_grouped == GROUP_MAX)
		return ncclInternalError;
	grouped[n_grouped++] = *op;
	return ncclSuccess;
}

ncclResult_t ncclGroupStart(void)
{
	depth++;
	return ncclSuccess;
}

/* Runs of calls that go together: sends and receipts of a communicator. */
ncclResult_t ncclGroupEnd(void)
{
	ncclResult_t result = ncclSuccess;
	bool in_progress = false;

	if (depth == 0)
		return ncclInvalidUsage;
	if (--depth > 0)
		return ncclSuccess;
	for (unsigned int i = 0, n; i < n_grouped; i += n) {
		const struct op *first = &grouped[i];

		n = 1;
		while (first->kind >= SEND && i + n < n_grouped &&
		       first[n].kind >= SEND && first[n].comm == first->comm &&
		       first[n].stream == first->stream)
			n++;
		if (result == ncclSuccess || result == ncclInProgress)
			result = launch(first, n);
		in_progress = in_progress || result == ncclInProgress;
	}
	n_grouped = 0;
	return result == ncclSuccess && in_progress ? ncclInProgress : result;
}

/* ---- the calls ----------------------------------------------------------- */

ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count,
			   ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
			   cudaStream_t stream)
{
	uint64_t bytes = count * fake_nccl_bytes(type);
	const struct op mine = { comm,  stream, ALL_REDUCE, send, recv,
				 count, bytes,  bytes,      type, op,
				 0,     NULL,   NULL };

	return begin(&mine);
}

ncclResult_t ncclAllGather(const void *send, void *recv, size_t count,
			   ncclDataType_t type, ncclComm_t comm,
			   cudaStream_t stream)
{
	uint64_t bytes = count * fake_nccl_bytes(type);
	uint64_t n = comm ? (uint64_t)comm->n : 0;
	const struct op mine = { comm,  stream, ALL_GATHER, send, recv,
				 count, bytes,  n * bytes,  type, ncclSum,
				 0,     NULL,   NULL };

	return begin(&mine);
}

ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count,
			       ncclDataType_t type, ncclRedOp_t op,
			       ncclComm_t comm, cudaStream_t stream)
{
	uint64_t bytes = count * fake_nccl_bytes(type);
	uint64_t n = comm ? (uint64_t)comm->n : 0;
	const struct op mine = { comm,      stream, REDUCE_SCATTER,
				 send,      recv,   count,
				 n * bytes, bytes,  type,
				 op,        0,      NULL,
				 NULL };

	return begin(&mine);
}

ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count,
			   ncclDataType_t type, int root, ncclComm_t comm,
			   cudaStream_t stream)
{
	uint64_t bytes = count * fake_nccl_bytes(type);
	const struct op mine = {
		comm,      stream,
		BROADCAST, comm && comm->rank == root ? send : NULL,
		recv,      count,
		bytes,     bytes,
		type,      ncclSum,
		root,      NULL,
		NULL
	};

	return begin(&mine);
}

ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t type,
		      int peer, ncclComm_t comm, cudaStream_t stream)
{
	uint64_t bytes = count * fake_nccl_bytes(type);
	const struct op mine = { comm,  stream, SEND, send, NULL,
				 count, bytes,  0,    type, ncclSum,
				 peer,  NULL,   NULL };

	return begin(&mine);
}

ncclResult_t ncclRecv(void *recv, size_t count, ncclDataType_t type, int peer,
		      ncclComm_t comm, cudaStream_t stream)
{
	uint64_t bytes = count * fake_nccl_bytes(type);
	const struct op mine = { comm,  stream, RECV,    NULL, recv, count, 0,
				 bytes, type,   ncclSum, peer, NULL, NULL };

	return begin(&mine);
}
