/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Streams, events, host functions and the words that streams write. */

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "tests/contract/contract.h"

#define MIB    ((size_t)1 << 20)
#define ROUNDS 200

static CUstream new_stream(void)
{
	CUstream stream = NULL;

	GOOD(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	return stream;
}

/* A host function that waits to be let go on. */
struct gate {
	atomic_int is_reached, is_open;
};

static void stand_at(void *data)
{
	struct gate *gate = data;

	gate->is_reached = 1;
	while (!gate->is_open)
		contract_rest_ms(1);
}

static void open_gate(struct gate *gate)
{
	gate->is_open = 1;
}

static void streams_say_what_they_are(void)
{
	int least = 99, greatest = 99, priority = 99;
	unsigned int flags = 99;
	CUcontext context = NULL, current = NULL;
	CUstream stream = NULL;

	GOOD(cu.cuCtxGetStreamPriorityRange(&least, &greatest));
	OK(greatest <= least);
	GOOD(cu.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING,
					   greatest - 100));
	GOOD(cu.cuStreamGetPriority(stream, &priority));
	EQ(priority, greatest);
	GOOD(cu.cuStreamGetFlags(stream, &flags));
	EQ(flags, CU_STREAM_NON_BLOCKING);
	GOOD(cu.cuStreamGetCtx(stream, &context));
	GOOD(cu.cuCtxGetCurrent(&current));
	OK(context == current);
	GOOD(cu.cuStreamQuery(stream));
	GOOD(cu.cuStreamSynchronize(stream));
	GOOD(cu.cuStreamDestroy_v2(stream));
	EQ(cu.cuStreamCreate(&stream, 64), CUDA_ERROR_INVALID_VALUE);
	EQ(cu.cuStreamCreate(NULL, 0), CUDA_ERROR_INVALID_VALUE);
}

static void a_call_returns_before_its_work_is_done(void)
{
	struct gate gate = { 0 };
	CUstream stream = new_stream();

	GOOD(cu.cuLaunchHostFunc(stream, stand_at, &gate));
	EQ(cu.cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	open_gate(&gate);
	GOOD(cu.cuStreamSynchronize(stream));
	GOOD(cu.cuStreamQuery(stream));
	EQ(gate.is_reached, 1);
	GOOD(cu.cuStreamDestroy_v2(stream));
}

/* From pinned memory, the bytes are read when the copy's turn has come. */
static void a_copy_reads_when_it_runs(void)
{
	struct gate gate = { 0 };
	CUstream stream = new_stream();
	uint32_t *pinned = NULL;
	CUdeviceptr at = 0;
	uint32_t got = 0;

	GOOD(cu.cuMemAllocHost_v2((void **)&pinned, 4096));
	GOOD(cu.cuMemAlloc_v2(&at, 4096));
	*pinned = 1;
	GOOD(cu.cuLaunchHostFunc(stream, stand_at, &gate));
	GOOD(cu.cuMemcpyHtoDAsync_v2(at, pinned, 4, stream));
	*pinned = 2;
	open_gate(&gate);
	GOOD(cu.cuStreamSynchronize(stream));
	GOOD(cu.cuMemcpyDtoH_v2(&got, at, 4));
	EQ(got, 2);
	GOOD(cu.cuMemFree_v2(at));
	GOOD(cu.cuMemFreeHost(pinned));
	GOOD(cu.cuStreamDestroy_v2(stream));
}

static void a_stream_keeps_its_order(void)
{
	CUstream stream = new_stream();
	uint32_t *pinned = NULL;
	CUdeviceptr at = 0;
	int wrong = 0;

	GOOD(cu.cuMemAllocHost_v2((void **)&pinned, 4096));
	GOOD(cu.cuMemAlloc_v2(&at, 4096));
	for (uint32_t i = 0; i < ROUNDS; i++) {
		cu.cuMemsetD32Async(at, i, 64, stream);
		cu.cuMemsetD32Async(at, i + 1, 32, stream);
		cu.cuMemcpyDtoHAsync_v2(pinned, at, 256, stream);
		cu.cuStreamSynchronize(stream);
		wrong += pinned[0] != i + 1 || pinned[31] != i + 1 ||
			 pinned[32] != i;
	}
	EQ(wrong, 0);
	GOOD(cu.cuMemFree_v2(at));
	GOOD(cu.cuMemFreeHost(pinned));
	GOOD(cu.cuStreamDestroy_v2(stream));
}

/* Several copies by one call, in order with what is before and after. */
static void copies_may_come_in_batches(void)
{
	CUmemcpyAttributes attributes[2];
	CUdeviceptr at = 0, to[3], from[3];
	size_t bytes[3] = { 4096, 8, 8 }, firsts[2] = { 0, 2 };
	CUstream stream = new_stream();
	uint64_t *pinned = NULL, here = 77;

	if (!cu.cuMemcpyBatchAsync_v2) {
		SKIP(1, "a driver without copies in batches");
		return;
	}
	memset(attributes, 0, sizeof(attributes));
	attributes[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
	attributes[1].srcAccessOrder =
		CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
	GOOD(cu.cuMemAllocHost_v2((void **)&pinned, 8192));
	GOOD(cu.cuMemAlloc_v2(&at, 8192));
	for (uint64_t i = 0; i < 512; i++)
		pinned[i] = i;
	pinned[512] = 0;
	to[0] = at;
	from[0] = (uintptr_t)pinned;
	to[1] = at + 4096;
	from[1] = (uintptr_t)(pinned + 5);
	to[2] = at + 4104;
	from[2] = (uintptr_t)&here;
	GOOD(cu.cuMemcpyBatchAsync_v2(to, from, bytes, 3, attributes, firsts, 2,
				      stream));
	here = 0;
	GOOD(cu.cuMemcpyDtoHAsync_v2(pinned, at, 8192, stream));
	GOOD(cu.cuStreamSynchronize(stream));
	EQ(pinned[511], 511);
	EQ(pinned[512], 5);
	EQ(pinned[513], 77);

	EQ(cu.cuMemcpyBatchAsync_v2(to, from, bytes, 3, attributes, firsts, 2,
				    NULL),
	   CUDA_ERROR_INVALID_VALUE);
	attributes[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_INVALID;
	EQ(cu.cuMemcpyBatchAsync_v2(to, from, bytes, 3, attributes, firsts, 2,
				    stream),
	   CUDA_ERROR_INVALID_VALUE);
	GOOD(cu.cuMemFree_v2(at));
	GOOD(cu.cuMemFreeHost(pinned));
	GOOD(cu.cuStreamDestroy_v2(stream));
}

static void an_event_is_over_when_its_stream_is_there(void)
{
	struct gate gate = { 0 };
	CUstream stream = new_stream();
	CUevent event = NULL;

	GOOD(cu.cuEventCreate(&event, CU_EVENT_BLOCKING_SYNC |
					      CU_EVENT_DISABLE_TIMING));
	GOOD(cu.cuEventQuery(event));
	GOOD(cu.cuEventSynchronize(event));
	GOOD(cu.cuLaunchHostFunc(stream, stand_at, &gate));
	GOOD(cu.cuEventRecord(event, stream));
	EQ(cu.cuEventQuery(event), CUDA_ERROR_NOT_READY);
	open_gate(&gate);
	GOOD(cu.cuEventSynchronize(event));
	GOOD(cu.cuEventQuery(event));
	GOOD(cu.cuEventDestroy_v2(event));
	EQ(cu.cuEventCreate(&event, 1u << 20), CUDA_ERROR_INVALID_VALUE);
	GOOD(cu.cuStreamDestroy_v2(stream));
}

/* A wait does not use the event up, and is for the record before it. */
static void streams_wait_for_each_other(void)
{
	struct gate gate = { 0 };
	CUstream first = new_stream(), second = new_stream(),
		 third = new_stream();
	CUevent event = NULL;

	GOOD(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	/* An event that was never recorded is no reason to wait. */
	GOOD(cu.cuStreamWaitEvent(second, event, 0));
	GOOD(cu.cuStreamSynchronize(second));
	GOOD(cu.cuLaunchHostFunc(first, stand_at, &gate));
	GOOD(cu.cuEventRecord(event, first));
	GOOD(cu.cuStreamWaitEvent(second, event, 0));
	GOOD(cu.cuStreamWaitEvent(third, event, 0));
	contract_rest_ms(5);
	EQ(cu.cuStreamQuery(second), CUDA_ERROR_NOT_READY);
	EQ(cu.cuStreamQuery(third), CUDA_ERROR_NOT_READY);
	open_gate(&gate);
	GOOD(cu.cuStreamSynchronize(second));
	GOOD(cu.cuStreamSynchronize(third));
	EQ(gate.is_reached, 1);
	GOOD(cu.cuEventDestroy_v2(event));
	GOOD(cu.cuStreamDestroy_v2(first));
	GOOD(cu.cuStreamDestroy_v2(second));
	GOOD(cu.cuStreamDestroy_v2(third));
}

static void the_legacy_stream_waits_for_blocking_ones(void)
{
	struct gate gate = { 0 };
	CUstream blocking = NULL, apart = new_stream();
	CUdeviceptr at = 0;

	GOOD(cu.cuMemAlloc_v2(&at, 4096));
	GOOD(cu.cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	GOOD(cu.cuLaunchHostFunc(blocking, stand_at, &gate));
	GOOD(cu.cuMemsetD8Async(at, 1, 16, NULL));
	GOOD(cu.cuMemsetD8Async(at, 1, 16, apart));
	GOOD(cu.cuStreamSynchronize(apart));
	EQ(cu.cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
	open_gate(&gate);
	GOOD(cu.cuStreamSynchronize(NULL));
	GOOD(cu.cuStreamDestroy_v2(blocking));
	GOOD(cu.cuStreamDestroy_v2(apart));
	GOOD(cu.cuMemFree_v2(at));
}

static void events_keep_time(void)
{
	CUstream stream = new_stream();
	CUevent a = NULL, b = NULL, timeless = NULL;
	float ms = -1;

	GOOD(cu.cuEventCreate(&a, CU_EVENT_DEFAULT));
	GOOD(cu.cuEventCreate(&b, CU_EVENT_DEFAULT));
	GOOD(cu.cuEventCreate(&timeless, CU_EVENT_DISABLE_TIMING));
	EQ(cu.cuEventElapsedTime(&ms, a, b), CUDA_ERROR_INVALID_HANDLE);
	GOOD(cu.cuEventRecord(a, stream));
	GOOD(cu.cuEventRecord(timeless, stream));
	GOOD(cu.cuEventRecord(b, stream));
	GOOD(cu.cuEventSynchronize(b));
	GOOD(cu.cuEventElapsedTime(&ms, a, b));
	OK(ms >= 0);
	EQ(cu.cuEventElapsedTime(&ms, a, timeless), CUDA_ERROR_INVALID_HANDLE);
	GOOD(cu.cuEventDestroy_v2(a));
	GOOD(cu.cuEventDestroy_v2(b));
	GOOD(cu.cuEventDestroy_v2(timeless));
	GOOD(cu.cuStreamDestroy_v2(stream));
}

static bool has_memory_operations(void)
{
	int can = 0;

	cu.cuDeviceGetAttribute(
		&can, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 0);
	if (!can || !cu.cuStreamBatchMemOp_v2)
		SKIP(1, "no stream memory operations");
	return can && cu.cuStreamBatchMemOp_v2;
}

/* The word is written after what the stream did before, as others see it. */
static void a_word_follows_the_bytes_before_it(void)
{
	CUstream stream = new_stream();
	_Atomic uint64_t *word = NULL;
	uint32_t *bytes = NULL;
	CUdeviceptr at = 0, seen = 0;
	int wrong = 0;

	if (!has_memory_operations())
		return;
	GOOD(cu.cuMemHostAlloc((void **)&word, 4096, 0));
	GOOD(cu.cuMemHostAlloc((void **)&bytes, 4096, 0));
	GOOD(cu.cuMemHostGetDevicePointer_v2(&seen, (void *)word, 0));
	GOOD(cu.cuMemAlloc_v2(&at, 4096));
	for (uint32_t i = 1; i <= ROUNDS; i++) {
		cu.cuMemsetD32Async(at, i, 1024, stream);
		cu.cuMemcpyDtoHAsync_v2(bytes, at, 4096, stream);
		cu.cuStreamWriteValue64_v2(stream, seen, i, 0);
		while (*word != i)
			;
		wrong += bytes[0] != i || bytes[1023] != i;
	}
	EQ(wrong, 0);
	GOOD(cu.cuStreamSynchronize(stream));
	GOOD(cu.cuMemFree_v2(at));
	GOOD(cu.cuMemFreeHost((void *)word));
	GOOD(cu.cuMemFreeHost(bytes));
	GOOD(cu.cuStreamDestroy_v2(stream));
}

static CUstreamBatchMemOpParams write_op(CUdeviceptr at, uint64_t value)
{
	CUstreamBatchMemOpParams op = { .pad = { 0 } };

	op.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
	op.writeValue.address = at;
	op.writeValue.value64 = value;
	return op;
}

static void a_batch_writes_in_order(void)
{
	CUstream stream = new_stream();
	CUstreamBatchMemOpParams ops[3];
	_Atomic uint64_t *words = NULL;
	CUdeviceptr seen = 0;

	if (!has_memory_operations())
		return;
	GOOD(cu.cuMemHostAlloc((void **)&words, 4096, 0));
	memset((void *)words, 0, 4096);
	GOOD(cu.cuMemHostGetDevicePointer_v2(&seen, (void *)words, 0));
	ops[0] = write_op(seen, 1);
	ops[1] = write_op(seen + 64, 2);
	ops[2] = write_op(seen, 3);
	GOOD(cu.cuStreamBatchMemOp_v2(stream, 3, ops, 0));
	GOOD(cu.cuStreamSynchronize(stream));
	EQ(words[0], 3);
	EQ(words[8], 2);

	PRESUME(cu.cuStreamBatchMemOp_v2(stream, 0, ops, 0) ==
		CUDA_ERROR_INVALID_VALUE);
	EQ(cu.cuStreamBatchMemOp_v2(stream, 256, ops, 0),
	   CUDA_ERROR_INVALID_VALUE);
	EQ(cu.cuStreamBatchMemOp_v2(stream, 1, ops, 1),
	   CUDA_ERROR_INVALID_VALUE);
	EQ(cu.cuStreamBatchMemOp_v2(stream, 1, NULL, 0),
	   CUDA_ERROR_INVALID_VALUE);
	GOOD(cu.cuMemFreeHost((void *)words));
	GOOD(cu.cuStreamDestroy_v2(stream));
}

/* Comes last: where it is not refused, the device may fault. */
static void a_misaligned_word_is_refused(void)
{
	CUstream stream = new_stream();
	CUstreamBatchMemOpParams op;
	CUdeviceptr seen = 0;
	void *words = NULL;

	if (!has_memory_operations())
		return;
	GOOD(cu.cuMemHostAlloc(&words, 4096, 0));
	GOOD(cu.cuMemHostGetDevicePointer_v2(&seen, words, 0));
	op = write_op(seen + 4, 1);
	PRESUME(cu.cuStreamBatchMemOp_v2(stream, 1, &op, 0) ==
		CUDA_ERROR_INVALID_VALUE);
	cu.cuMemFreeHost(words);
	cu.cuStreamDestroy_v2(stream);
}

static void a_stream_waits_for_a_word(void)
{
	CUstream stream = new_stream();
	_Atomic uint32_t *word = NULL;
	CUdeviceptr seen = 0;

	if (!has_memory_operations())
		return;
	GOOD(cu.cuMemHostAlloc((void **)&word, 4096, 0));
	*word = 6;
	GOOD(cu.cuMemHostGetDevicePointer_v2(&seen, (void *)word, 0));
	GOOD(cu.cuStreamWaitValue32_v2(stream, seen, 7,
				       CU_STREAM_WAIT_VALUE_GEQ));
	GOOD(cu.cuStreamWriteValue32_v2(stream, seen, 100, 0));
	contract_rest_ms(5);
	EQ(cu.cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	EQ(*word, 6);
	*word = 8;
	GOOD(cu.cuStreamSynchronize(stream));
	EQ(*word, 100);
	GOOD(cu.cuMemFreeHost((void *)word));
	GOOD(cu.cuStreamDestroy_v2(stream));
}

/* Interfaces of the first generation need a switch of the kernel module that is
 * off by default. */
static void the_old_forms_refuse(void)
{
	CUdeviceptr at = 0;
	int can = 1;

	GOOD(cu.cuDeviceGetAttribute(
		&can, CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1, 0));
	if (can || !cu.cuStreamWriteValue32) {
		SKIP(1, "this machine has them");
		return;
	}
	GOOD(cu.cuMemAlloc_v2(&at, 4096));
	EQ(cu.cuStreamWriteValue32(NULL, at, 1, 0), CUDA_ERROR_NOT_SUPPORTED);
	GOOD(cu.cuMemFree_v2(at));
}

static void *copy_from_a_thread(void *data)
{
	CUdeviceptr at = 0;
	uint32_t got = 0;

	if (cu.cuCtxSetCurrent(data) || cu.cuMemAlloc_v2(&at, MIB) ||
	    cu.cuMemsetD32_v2(at, 42, MIB / 4) ||
	    cu.cuMemcpyDtoH_v2(&got, at + MIB - 4, 4) || cu.cuMemFree_v2(at))
		return NULL;
	return got == 42 ? data : NULL;
}

static void a_context_serves_many_threads(void)
{
	CUcontext context = NULL;
	pthread_t threads[4];
	void *answer;
	int good = 0;

	GOOD(cu.cuCtxGetCurrent(&context));
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, copy_from_a_thread, context);
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], &answer);
		good += answer == context;
	}
	EQ(good, 4);
}

TAP_CASE_ARGS(argc, argv)
{
	/* Streams are to share no queue: that would be an order of its own. */
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
	if (contract_begin_devices(argv, 1) && contract_context()) {
		streams_say_what_they_are();
		a_call_returns_before_its_work_is_done();
		a_copy_reads_when_it_runs();
		a_stream_keeps_its_order();
		copies_may_come_in_batches();
		an_event_is_over_when_its_stream_is_there();
		streams_wait_for_each_other();
		the_legacy_stream_waits_for_blocking_ones();
		events_keep_time();
		a_word_follows_the_bytes_before_it();
		a_batch_writes_in_order();
		a_stream_waits_for_a_word();
		the_old_forms_refuse();
		a_context_serves_many_threads();
		a_misaligned_word_is_refused();
		contract_end_context();
	}
	return tap_done();
}
