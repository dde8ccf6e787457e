/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Copies and fills.
 *
 * Between pinned memory and a card they are as asynchronous as their names
 * say: the bytes are read when the copy runs, not when it is asked for.
 * Pageable memory cannot be reached by a card, so such a copy is over when
 * the call returns.
 */

#include <stdlib.h>
#include <string.h>

#include "tests/fake/driver.h"

/* Kinds of memory that a call, by its name, may have on one side. */
#define ON_HOST   (1u << FAKE_PINNED | 1u << FAKE_PAGEABLE)
#define ON_DEVICE (1u << FAKE_ON_DEVICE | 1u << FAKE_PINNED)
#define ANYWHERE  (ON_HOST | ON_DEVICE)

struct copy {
	void *to;
	const void *from;
	uint64_t bytes;
	bool is_peer; /* between two cards */
};

struct fill {
	uint8_t *to;
	uint32_t value;
	uint64_t n;
	unsigned int width;
};

/* Whether the card's links to others spoil what goes over them. */
static bool corrupts(const struct fake_context *ctx)
{
	bool does;

	fake_lock(&fake.hw);
	does = fake_fault(&fake.hw, FAKE_CORRUPT, ctx->dev->gpu) != NULL;
	fake_unlock(&fake.hw);
	return does;
}

static CUresult run_copy(struct fake_op *op)
{
	const struct copy *copy = op->data;
	CUresult result = fake_strike(op->ctx, FAKE_ON_COPY);

	if (result)
		return result;
	memmove(copy->to, copy->from, copy->bytes);
	if (copy->is_peer && corrupts(op->ctx))
		((uint8_t *)copy->to)[copy->bytes / 2] ^= 0x55;
	return CUDA_SUCCESS;
}

static CUresult place_copy(struct fake_context *ctx, uint64_t to, uint64_t from,
			   unsigned int to_on, unsigned int from_on,
			   struct copy *copy, bool *ret_is_now)
{
	uint32_t to_gpu, from_gpu;
	void *at;
	enum fake_place a, b;

	a = fake_space_place(ctx, to, copy->bytes, true, &copy->to, &to_gpu);
	b = fake_space_place(ctx, from, copy->bytes, false, &at, &from_gpu);
	if (!(to_on & 1u << a) || !(from_on & 1u << b))
		return CUDA_ERROR_INVALID_VALUE;
	copy->from = at;
	copy->is_peer = to_gpu != from_gpu && to_gpu != FAKE_ANY_GPU &&
			from_gpu != FAKE_ANY_GPU;
	*ret_is_now = a == FAKE_PAGEABLE || b == FAKE_PAGEABLE;
	return CUDA_SUCCESS;
}

/* Under the lock: enqueue a copy and wait for it if @is_now or if it must
 * be. */
static CUresult copy(struct fake_context *ctx, CUstream stream, uint64_t to,
		     uint64_t from, uint64_t bytes, unsigned int to_on,
		     unsigned int from_on, bool is_now)
{
	struct copy what = { .bytes = bytes };
	struct fake_stream *s;
	struct fake_op *op;
	struct copy *data;
	bool must_be_now;
	CUresult result = fake_stream_get(ctx, stream, &s);

	if (result || !bytes)
		return result;
	result = place_copy(s->ctx, to, from, to_on, from_on, &what,
			    &must_be_now);
	if (result)
		return result;
	data = malloc(sizeof(*data));
	if (!data)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*data = what;
	result = fake_enqueue(s, run_copy, data, false, NULL, &op);
	if (result) {
		free(data);
		return result;
	}
	if (is_now || must_be_now)
		result = fake_op_wait(op);
	fake_op_put(op);
	return result;
}

static CUresult enter_copy(CUstream stream, uint64_t to, uint64_t from,
			   uint64_t bytes, unsigned int to_on,
			   unsigned int from_on, bool is_now)
{
	struct fake_context *ctx;
	CUresult result = fake_enter_context(&ctx);

	return result ? result
		      : fake_leave(copy(ctx, stream, to, from, bytes, to_on,
					from_on, is_now));
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
	return enter_copy(NULL, to, (uintptr_t)from, bytes, ON_DEVICE, ON_HOST,
			  true);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes,
			      CUstream stream)
{
	return enter_copy(stream, to, (uintptr_t)from, bytes, ON_DEVICE,
			  ON_HOST, false);
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
	return enter_copy(NULL, (uintptr_t)to, from, bytes, ON_HOST, ON_DEVICE,
			  true);
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes,
			      CUstream stream)
{
	return enter_copy(stream, (uintptr_t)to, from, bytes, ON_HOST,
			  ON_DEVICE, false);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
	return enter_copy(NULL, to, from, bytes, ON_DEVICE, ON_DEVICE, true);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
			      CUstream stream)
{
	return enter_copy(stream, to, from, bytes, ON_DEVICE, ON_DEVICE, false);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context,
			   CUdeviceptr from, CUcontext from_context,
			   size_t bytes, CUstream stream)
{
	struct fake_context *ctx;
	CUresult result = fake_enter_context(&ctx);

	if (result)
		return result;
	if (!fake_handle_get(FAKE_CONTEXT, (uintptr_t)to_context) ||
	    !fake_handle_get(FAKE_CONTEXT, (uintptr_t)from_context))
		return fake_leave(CUDA_ERROR_INVALID_CONTEXT);
	return fake_leave(copy(ctx, stream, to, from, bytes, ON_DEVICE,
			       ON_DEVICE, false));
}

CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
		      CUcontext from_context, size_t bytes)
{
	CUresult result = cuMemcpyPeerAsync(to, to_context, from, from_context,
					    bytes, NULL);

	return result ? result : cuStreamSynchronize(NULL);
}

/* Whether the source of copy @i lasts for the call only. */
static bool is_ephemeral(const CUmemcpyAttributes *attributes,
			 const size_t *firsts, size_t n_attributes, size_t i)
{
	size_t a = 0;

	while (a + 1 < n_attributes && firsts[a + 1] <= i)
		a++;
	return attributes[a].srcAccessOrder ==
	       CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
}

static bool are_attributes(const CUmemcpyAttributes *attributes,
			   const size_t *firsts, size_t n_attributes, size_t n)
{
	if (!attributes || !firsts || !n_attributes || n_attributes > n ||
	    firsts[0] != 0)
		return false;
	for (size_t a = 0; a < n_attributes; a++) {
		CUmemcpySrcAccessOrder order = attributes[a].srcAccessOrder;

		if (order < CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ||
		    order > CU_MEMCPY_SRC_ACCESS_ORDER_ANY || firsts[a] >= n ||
		    (a && firsts[a] <= firsts[a - 1]))
			return false;
	}
	return true;
}

/* All are checked before the first is enqueued. */
static CUresult check_batch(struct fake_context *ctx, const CUdeviceptr *to,
			    const CUdeviceptr *from, const size_t *bytes,
			    size_t n, size_t *ret_failed)
{
	for (size_t i = 0; i < n; i++) {
		struct copy what = { .bytes = bytes[i] };
		bool is_now;

		if (bytes[i] && !place_copy(ctx, to[i], from[i], ANYWHERE,
					    ANYWHERE, &what, &is_now))
			continue;
		*ret_failed = i;
		return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

CUresult cuMemcpyBatchAsync(CUdeviceptr *to, CUdeviceptr *from, size_t *bytes,
			    size_t n, CUmemcpyAttributes *attributes,
			    size_t *firsts, size_t n_attributes, size_t *failed,
			    CUstream stream)
{
	struct fake_context *ctx;
	struct fake_stream *s;
	size_t at = SIZE_MAX;
	CUresult result = fake_enter_context(&ctx);

	if (result)
		return result;
	result = fake_stream_get(ctx, stream, &s);
	if (!result && (s == &ctx->legacy || !to || !from || !bytes || !n ||
			!are_attributes(attributes, firsts, n_attributes, n)))
		result = CUDA_ERROR_INVALID_VALUE;
	if (!result)
		result = check_batch(s->ctx, to, from, bytes, n, &at);
	for (size_t i = 0; i < n && !result; i++) {
		at = i;
		result =
			copy(ctx, stream, to[i], from[i], bytes[i], ANYWHERE,
			     ANYWHERE,
			     is_ephemeral(attributes, firsts, n_attributes, i));
	}
	if (result && failed)
		*failed = at;
	return fake_leave(result);
}

CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *to, CUdeviceptr *from,
			       size_t *bytes, size_t n,
			       CUmemcpyAttributes *attributes, size_t *firsts,
			       size_t n_attributes, CUstream stream)
{
	return cuMemcpyBatchAsync(to, from, bytes, n, attributes, firsts,
				  n_attributes, NULL, stream);
}

static CUresult run_fill(struct fake_op *op)
{
	const struct fill *fill = op->data;
	CUresult result = fake_strike(op->ctx, FAKE_ON_COPY);

	if (result)
		return result;
	if (fill->width == 1) {
		memset(fill->to, (int)fill->value, fill->n);
		return CUDA_SUCCESS;
	}
	for (uint64_t i = 0; i < fill->n; i++)
		memcpy(fill->to + i * fill->width, &fill->value, fill->width);
	return CUDA_SUCCESS;
}

static CUresult fill(CUstream stream, uint64_t to, uint32_t value,
		     unsigned int width, uint64_t n, bool is_now)
{
	struct fake_context *ctx;
	struct fake_stream *s;
	struct fake_op *op;
	struct fill *data;
	uint64_t bytes;
	void *at;
	CUresult result = fake_enter_context(&ctx);

	if (result)
		return result;
	result = fake_stream_get(ctx, stream, &s);
	if (result || !n)
		return fake_leave(result);
	if (to % width || __builtin_mul_overflow(n, width, &bytes))
		return fake_leave(CUDA_ERROR_INVALID_VALUE);
	at = fake_space_reach(s->ctx, to, bytes, true);
	data = at ? malloc(sizeof(*data)) : NULL;
	if (!data)
		return fake_leave(at ? CUDA_ERROR_OUT_OF_MEMORY
				     : CUDA_ERROR_INVALID_VALUE);
	*data = (struct fill){
		.to = at, .value = value, .n = n, .width = width
	};
	result = fake_enqueue(s, run_fill, data, false, NULL, &op);
	if (result) {
		free(data);
		return fake_leave(result);
	}
	if (is_now)
		result = fake_op_wait(op);
	fake_op_put(op);
	return fake_leave(result);
}

CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t n)
{
	return fill(NULL, to, value, 1, n, true);
}

CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t n)
{
	return fill(NULL, to, value, 2, n, true);
}

CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t n)
{
	return fill(NULL, to, value, 4, n, true);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t n,
			 CUstream stream)
{
	return fill(stream, to, value, 1, n, false);
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t n,
			  CUstream stream)
{
	return fill(stream, to, value, 4, n, false);
}
