/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * cuda_clique - collectives that cards do among themselves, by NCCL or RCCL.
 *
 * Each end of a clique is a non-blocking communicator with a stream of its own:
 * what its kernels wait for, other cards, must hold up nothing else.  A
 * collective is begun by a call that may return before the kernel is in the
 * stream; only once the communicator says so is an event recorded behind it.
 */

#include "agent/device/cuda.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/common/log.h"
#include "agent/cuda/nccl.h"

_Static_assert(GM_NCCL_GROUP_ID_BYTES == GM_NCCL_ID_BYTES, "one name");

/* A process has one library of each maker's.  The threads that wait for other
 * devices open it; dispatch reads it, when there are cliques. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* until it is open */
static struct library {
	struct gm_nccl nccl;
	bool is_open;
	bool was_refused;
} libraries[2]; /* by enum gm_nccl_library */

struct gm_nccl_group {
	struct ncclComm *comm;
	struct CUstream_st *stream;
	struct CUevent_st *event;
	bool is_launched; /* and the event recorded behind it */
};

static struct gm_cuda *cuda_of(struct gm_backend_device *dev)
{
	return (struct gm_cuda *)((struct gm_stream *)dev)->gpu;
}

static enum gm_nccl_library maker_of(const struct gm_cuda *cuda)
{
	return cuda->driver->is_hip ? GM_NCCL_AMD : GM_NCCL_NVIDIA;
}

static const struct gm_nccl *nccl_of(const struct gm_cuda *cuda)
{
	return &libraries[maker_of(cuda)].nccl;
}

/* The errno of a result, for callers that know nothing of NCCL. */
static int check(gm_nccl_result result, const char *what)
{
	if (result == GM_NCCL_SUCCESS || result == GM_NCCL_IN_PROGRESS)
		return 0;
	gm_log(GM_LOG_WARNING, "nccl_failed", "call=%s code=%u result=%s", what,
	       result, gm_nccl_error_name(result));
	return -EIO;
}

static int open_nccl(const struct gm_cuda *cuda)
{
	struct library *library = &libraries[maker_of(cuda)];
	char why[GM_LIBRARY_WHY_BYTES];
	int rc;

	if (library->is_open)
		return 0;
	rc = gm_nccl_open(maker_of(cuda), *cuda->nccl ? cuda->nccl : NULL,
			  &library->nccl, why);
	if (rc < 0 && !library->was_refused)
		gm_log(GM_LOG_WARNING, "nccl_absent", "reason=%s",
		       gm_quote(why).text);
	library->was_refused = rc < 0;
	library->is_open = rc == 0;
	return rc;
}

int gm_cuda_clique_version(struct gm_backend_device *dev)
{
	struct gm_cuda *cuda = cuda_of(dev);
	int rc;

	if (!cuda->nccl)
		return -EOPNOTSUPP;
	pthread_mutex_lock(&lock);
	rc = open_nccl(cuda);
	pthread_mutex_unlock(&lock);
	return rc < 0 ? rc : nccl_of(cuda)->version;
}

int gm_cuda_clique_id(struct gm_backend_device *dev,
		      unsigned char ret_id[GM_NCCL_GROUP_ID_BYTES])
{
	struct gm_nccl_id id;
	int rc = gm_stream_bind((struct gm_stream *)dev);

	if (rc == 0)
		rc = check(nccl_of(cuda_of(dev))->ncclGetUniqueId(&id),
			   "ncclGetUniqueId");
	if (rc == 0)
		memcpy(ret_id, id.bytes, sizeof(id.bytes));
	return rc;
}

/* ---- beginning and end --------------------------------------------------- */

static int open_stream(struct gm_cuda *cuda, struct gm_nccl_group *c)
{
	int rc;

	rc = GM_CUDA_CALL(cuda, cuStreamCreateWithPriority, &c->stream,
			  GM_CU_STREAM_NON_BLOCKING, 0);
	if (rc == 0)
		rc = GM_CUDA_CALL(cuda, cuEventCreate, &c->event,
				  GM_CU_EVENT_DISABLE_TIMING);
	return rc;
}

int gm_cuda_clique_begin(struct gm_backend_device *dev,
			 const unsigned char id[GM_NCCL_GROUP_ID_BYTES],
			 uint32_t rank, uint32_t ranks,
			 struct gm_nccl_group **ret_clique)
{
	struct gm_cuda *cuda = cuda_of(dev);
	struct gm_nccl_config config = GM_NCCL_CONFIG_NON_BLOCKING;
	struct gm_nccl_id name;
	struct gm_nccl_group *c;
	int rc = gm_stream_bind((struct gm_stream *)dev);

	if (rc < 0)
		return rc;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	memcpy(name.bytes, id, sizeof(name.bytes));
	rc = open_stream(cuda, c);
	if (rc == 0)
		rc = check(nccl_of(cuda)->ncclCommInitRankConfig(
				   &c->comm, (int)ranks, name, (int)rank,
				   &config),
			   "ncclCommInitRankConfig");
	if (rc < 0) {
		gm_cuda_clique_abort(dev, c);
		return rc;
	}
	*ret_clique = c;
	return 0;
}

/* 1: what was asked for last is through; 0: not yet. */
static int look(const struct gm_cuda *cuda, const struct gm_nccl_group *c)
{
	gm_nccl_result result = GM_NCCL_INTERNAL_ERROR;
	int rc = check(nccl_of(cuda)->ncclCommGetAsyncError(c->comm, &result),
		       "ncclCommGetAsyncError");

	if (rc == 0)
		rc = check(result, "asynchronous");
	if (rc < 0)
		return rc;
	return result == GM_NCCL_SUCCESS;
}

int gm_cuda_clique_ready(struct gm_backend_device *dev,
			 struct gm_nccl_group *clique)
{
	struct gm_cuda *cuda = cuda_of(dev);

	return gm_stream_is_lost(&cuda->gpu) ? -EIO : look(cuda, clique);
}

void gm_cuda_clique_abort(struct gm_backend_device *dev,
			  struct gm_nccl_group *clique)
{
	struct gm_cuda *cuda = cuda_of(dev);
	const struct gm_driver *cu = cuda->driver;

	if (!clique)
		return;
	/* A lost card refuses all of this, which is harmless. */
	(void)cu->cuCtxSetCurrent(cuda->ctx);
	if (clique->comm)
		check(nccl_of(cuda)->ncclCommAbort(clique->comm),
		      "ncclCommAbort");
	if (clique->stream)
		(void)GM_CUDA_CALL(cuda, cuStreamSynchronize, clique->stream);
	if (clique->event)
		(void)cu->cuEventDestroy(clique->event);
	if (clique->stream)
		(void)cu->cuStreamDestroy(clique->stream);
	free(clique);
}

/* ---- collectives --------------------------------------------------------- */

/* -1: none. */
static int type_of(uint32_t dtype)
{
	switch (dtype) {
	case GPUMAP_DTYPE_U8:
		return GM_NCCL_U8;
	case GPUMAP_DTYPE_F16:
		return GM_NCCL_F16;
	case GPUMAP_DTYPE_BF16:
		return GM_NCCL_BF16;
	case GPUMAP_DTYPE_F32:
		return GM_NCCL_F32;
	case GPUMAP_DTYPE_I32:
		return GM_NCCL_I32;
	case GPUMAP_DTYPE_I64:
		return GM_NCCL_I64;
	default:
		return -1;
	}
}

static int reduction_of(uint32_t reduce)
{
	static const int of[] = {
		[GPUMAP_REDUCE_SUM] = GM_NCCL_SUM,
		[GPUMAP_REDUCE_PRODUCT] = GM_NCCL_PROD,
		[GPUMAP_REDUCE_MIN] = GM_NCCL_MIN,
		[GPUMAP_REDUCE_MAX] = GM_NCCL_MAX,
		[GPUMAP_REDUCE_AVERAGE] = GM_NCCL_AVG,
	};

	return reduce < sizeof(of) / sizeof(of[0]) ? of[reduce] : -1;
}

static gm_nccl_result launch(const struct gm_nccl *nccl,
			     const struct gm_nccl_group *c,
			     const struct gm_nccl_group_task *t,
			     unsigned int type, unsigned int reduction)
{
	const void *send = (void *)(uintptr_t)t->send;
	void *recv = (void *)(uintptr_t)t->recv;

	switch (t->op) {
	case GM_NCCL_GROUP_ALL_REDUCE:
		return nccl->ncclAllReduce(send, recv, t->n, type, reduction,
					   c->comm, c->stream);
	case GM_NCCL_GROUP_ALL_GATHER:
		return nccl->ncclAllGather(send, recv, t->n, type, c->comm,
					   c->stream);
	case GM_NCCL_GROUP_REDUCE_SCATTER:
		return nccl->ncclReduceScatter(send, recv, t->n, type,
					       reduction, c->comm, c->stream);
	case GM_NCCL_GROUP_BROADCAST:
		/* The root's stays where it is, and others have none. */
		return nccl->ncclBroadcast(
			t->send ? send : recv,
			t->send ? (void *)(uintptr_t)t->send : recv, t->n, type,
			(int)t->peer, c->comm, c->stream);
	case GM_NCCL_GROUP_SEND:
		return nccl->ncclSend(send, t->n, type, (int)t->peer, c->comm,
				      c->stream);
	case GM_NCCL_GROUP_RECV:
		return nccl->ncclRecv(recv, t->n, type, (int)t->peer, c->comm,
				      c->stream);
	default:
		return GM_NCCL_INVALID_ARGUMENT;
	}
}

int gm_cuda_clique_start(struct gm_backend_device *dev,
			 struct gm_nccl_group *clique,
			 const struct gm_nccl_group_task *task)
{
	int type = type_of(task->dtype), reduction = reduction_of(task->reduce);
	struct gm_cuda *cuda = cuda_of(dev);

	if (gm_stream_is_lost(&cuda->gpu))
		return -EIO;
	clique->is_launched = false;
	return check(type < 0 || reduction < 0
			     ? GM_NCCL_INVALID_ARGUMENT
			     : launch(nccl_of(cuda), clique, task,
				      (unsigned int)type,
				      (unsigned int)reduction),
		     "collective");
}

/* The collective is in the stream: the event behind it says when it has
 * ended. */
static int record(struct gm_cuda *cuda, struct gm_nccl_group *c)
{
	gm_cu_result result = cuda->driver->cuEventRecord(c->event, c->stream);

	if (result != GM_CU_SUCCESS)
		return gm_cuda_lose(cuda, result);
	c->is_launched = true;
	return 0;
}

int gm_cuda_clique_ended(struct gm_backend_device *dev,
			 struct gm_nccl_group *clique)
{
	struct gm_cuda *cuda = cuda_of(dev);
	gm_cu_result result;
	int rc;

	if (gm_stream_is_lost(&cuda->gpu))
		return -ENOTRECOVERABLE;
	rc = look(cuda, clique);
	if (rc <= 0)
		return rc;
	if (!clique->is_launched) {
		rc = record(cuda, clique);
		if (rc < 0)
			return rc;
	}
	result = cuda->driver->cuEventQuery(clique->event);
	if (result == GM_CU_NOT_READY)
		return 0;
	return result == GM_CU_SUCCESS ? 1 : gm_cuda_lose(cuda, result);
}
