/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Stream memory operations: words that the card writes and waits for.  The
 * first generation of them needs a switch of the kernel module that is off by
 * default, so its entry points are there and refuse.
 */

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fake/driver.h"

#define OPS_MAX 256
#define LOOK_NS 20000

struct batch {
	unsigned int n;
	CUstreamBatchMemOpParams ops[];
};

static bool is_64(CUstreamBatchMemOpType type)
{
	return type == CU_STREAM_MEM_OP_WRITE_VALUE_64 ||
	       type == CU_STREAM_MEM_OP_WAIT_VALUE_64;
}

static bool is_wait(CUstreamBatchMemOpType type)
{
	return type == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
	       type == CU_STREAM_MEM_OP_WAIT_VALUE_64;
}

static uint64_t load(const void *at, bool is_wide)
{
	return is_wide ? *(const _Atomic uint64_t *)at
		       : *(const _Atomic uint32_t *)at;
}

static void store(void *at, uint64_t value, bool is_wide)
{
	if (is_wide)
		*(_Atomic uint64_t *)at = value;
	else
		*(_Atomic uint32_t *)at = (uint32_t)value;
}

static bool is_met(uint64_t word, uint64_t value, unsigned int flags,
		   bool is_wide)
{
	switch (flags & 3) {
	case CU_STREAM_WAIT_VALUE_GEQ:
		return is_wide ? (int64_t)(word - value) >= 0
			       : (int32_t)((uint32_t)word - (uint32_t)value) >=
					 0;
	case CU_STREAM_WAIT_VALUE_EQ:
		return word == value;
	case CU_STREAM_WAIT_VALUE_AND:
		return word & value;
	default:
		return is_wide ? ~(word | value) != 0
			       : (uint32_t) ~(word | value) != 0;
	}
}

static void *reach(struct fake_context *ctx, uint64_t address, bool is_wide)
{
	void *at;

	pthread_mutex_lock(&fake_mutex);
	at = fake_space_reach(ctx, address, is_wide ? 8 : 4, true);
	pthread_mutex_unlock(&fake_mutex);
	return at;
}

/* Whether to go on waiting: not on a card that is no more. */
static bool may_wait(struct fake_context *ctx)
{
	bool may;

	pthread_mutex_lock(&fake_mutex);
	may = !ctx->is_stopping && !fake_health(ctx->dev);
	pthread_mutex_unlock(&fake_mutex);
	return may;
}

static CUresult run_one(struct fake_op *op, const CUstreamBatchMemOpParams *p)
{
	bool is_wide = is_64(p->operation);
	uint64_t value;
	void *at;

	if (p->operation == CU_STREAM_MEM_OP_BARRIER ||
	    p->operation == CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES)
		return CUDA_SUCCESS;
	at = reach(op->ctx, p->writeValue.address, is_wide);
	if (!at)
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	value = is_wide ? p->writeValue.value64 : p->writeValue.value;
	if (!is_wait(p->operation)) {
		store(at, value, is_wide);
		return CUDA_SUCCESS;
	}
	while (!is_met(load(at, is_wide), value, p->waitValue.flags, is_wide)) {
		if (!may_wait(op->ctx))
			break;
		fake_sleep_ns(LOOK_NS);
	}
	return CUDA_SUCCESS;
}

static CUresult run_batch(struct fake_op *op)
{
	const struct batch *batch = op->data;
	CUresult result = CUDA_SUCCESS;

	for (unsigned int i = 0; i < batch->n && !result; i++)
		result = run_one(op, &batch->ops[i]);
	return result;
}

static CUresult check(struct fake_context *ctx,
		      const CUstreamBatchMemOpParams *p)
{
	bool is_wide = is_64(p->operation);
	unsigned int known;

	switch (p->operation) {
	case CU_STREAM_MEM_OP_BARRIER:
		return CUDA_SUCCESS;
	case CU_STREAM_MEM_OP_WRITE_VALUE_32:
	case CU_STREAM_MEM_OP_WRITE_VALUE_64:
		known = CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER;
		break;
	case CU_STREAM_MEM_OP_WAIT_VALUE_32:
	case CU_STREAM_MEM_OP_WAIT_VALUE_64:
		known = 3;
		break;
	case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
		return CUDA_ERROR_NOT_SUPPORTED;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (p->writeValue.flags & ~known ||
	    p->writeValue.address % (is_wide ? 8 : 4) ||
	    !fake_space_reach(ctx, p->writeValue.address, is_wide ? 8 : 4,
			      true))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned int count,
			       CUstreamBatchMemOpParams *ops,
			       unsigned int flags)
{
	struct fake_context *ctx;
	struct fake_stream *s;
	struct batch *batch = NULL;
	CUresult result = fake_enter_context(&ctx);

	if (result)
		return result;
	result = fake_stream_get(ctx, stream, &s);
	if (result)
		return fake_leave(result);
	if (!count || count >= OPS_MAX || !ops || flags)
		return fake_leave(CUDA_ERROR_INVALID_VALUE);
	if (!fake_attribute(
		    ctx->dev,
		    CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS) ||
	    !fake_attribute(ctx->dev,
			    CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED))
		return fake_leave(CUDA_ERROR_NOT_SUPPORTED);
	for (unsigned int i = 0; i < count && !result; i++)
		result = check(s->ctx, &ops[i]);
	if (!result) {
		batch = malloc(sizeof(*batch) + count * sizeof(*ops));
		if (!batch)
			return fake_leave(CUDA_ERROR_OUT_OF_MEMORY);
		batch->n = count;
		memcpy(batch->ops, ops, count * sizeof(*ops));
		result = fake_enqueue(s, run_batch, batch, false, NULL, NULL);
	}
	if (result)
		free(batch);
	return fake_leave(result);
}

static CUresult one(CUstream stream, CUstreamBatchMemOpType type,
		    CUdeviceptr address, uint64_t value, unsigned int flags)
{
	CUstreamBatchMemOpParams p = { .pad = { 0 } };

	p.writeValue.operation = type;
	p.writeValue.address = address;
	if (is_64(type))
		p.writeValue.value64 = value;
	else
		p.writeValue.value = (uint32_t)value;
	p.writeValue.flags = flags;
	return cuStreamBatchMemOp_v2(stream, 1, &p, 0);
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address,
				 cuuint32_t value, unsigned int flags)
{
	return one(stream, CU_STREAM_MEM_OP_WRITE_VALUE_32, address, value,
		   flags);
}

CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address,
				 cuuint64_t value, unsigned int flags)
{
	return one(stream, CU_STREAM_MEM_OP_WRITE_VALUE_64, address, value,
		   flags);
}

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address,
				cuuint32_t value, unsigned int flags)
{
	return one(stream, CU_STREAM_MEM_OP_WAIT_VALUE_32, address, value,
		   flags);
}

static CUresult refuse(void)
{
	struct fake_context *ctx;
	CUresult result = fake_enter_context(&ctx);

	return result ? result : fake_leave(CUDA_ERROR_NOT_SUPPORTED);
}

CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address,
			      cuuint32_t value, unsigned int flags)
{
	return refuse();
}

CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr address,
			      cuuint64_t value, unsigned int flags)
{
	return refuse();
}

CUresult cuStreamBatchMemOp(CUstream stream, unsigned int count,
			    CUstreamBatchMemOpParams *ops, unsigned int flags)
{
	return refuse();
}
