/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A word that a stream writes behind a copy to the host: who sees the word, in
 * another process, sees the whole copy, and sees the shadow word that the same
 * batch writes first.  On this stands every completion.
 */

#include <sched.h>
#include <sys/mman.h>

#include "shm/atomic.h"
#include "tests/gpu/gpu.h"

#define PAGE     4096u
#define PAYLOAD  (64 * GPU_MIB)
#define MAPPED   (3 * PAGE + PAYLOAD)
#define PATIENCE 60e3 /* ms */

/* The words are apart from each other, and from what is copied. */
struct words {
	gm_a64 shadow;
	char apart[PAGE - sizeof(gm_a64)];
	gm_a64 word; /* the device's: rounds that have ended */
	char apart_too[PAGE - sizeof(gm_a64)];
	gm_a64 seen; /* the reader's */
	gm_a64 torn, early;
	gm_a64 bytes; /* of this round, ours */
};

_Static_assert(sizeof(struct words) <= 3 * PAGE, "three pages of words");

static char *memory;

static struct words *words(void)
{
	return (struct words *)memory;
}

static bool wait_until(gm_a64 *at, uint64_t value)
{
	double from = contract_now_ms();

	for (uint64_t n = 0; gm_get_acquire(at) < value; n++) {
		if (n % 4096 == 4095 && contract_now_ms() - from > PATIENCE)
			return false;
		if (n % 64 == 63)
			sched_yield();
	}
	return true;
}

/* The process that looks.  The first and the last bytes come first. */
static int look(uint64_t rounds)
{
	volatile uint32_t *data;
	char byte;
	int fd;

	WANT(gpu_hear(GPU_PART_SOCKET, &byte, 1, &fd) && fd >= 0);
	memory = mmap(NULL, MAPPED, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	WANT(memory != MAP_FAILED);
	data = (volatile uint32_t *)(memory + 3 * PAGE);
	for (uint64_t round = 1; round <= rounds; round++) {
		uint64_t n, torn = 0;

		WANT(wait_until(&words()->word, round));
		n = gm_get_acquire(&words()->bytes) / 4;
		torn += data[n - 1] != (uint32_t)round;
		torn += data[0] != (uint32_t)round;
		for (uint64_t i = n > 16384 ? n - 16384 : 0; i < n; i++)
			torn += data[i] != (uint32_t)round;
		for (uint64_t i = 0; i < n; i += 61)
			torn += data[i] != (uint32_t)round;
		if (gm_get_acquire(&words()->shadow) < round)
			gm_put(&words()->early, gm_get(&words()->early) + 1);
		if (torn)
			gm_put(&words()->torn, gm_get(&words()->torn) + 1);
		gm_put_release(&words()->seen, round);
	}
	return 0;
}

static CUdeviceptr device_of(void *at)
{
	CUdeviceptr device = 0;

	GOOD(cu.cuMemHostGetDevicePointer_v2(&device, at, 0));
	return device;
}

static CUstreamBatchMemOpParams write_of(CUdeviceptr at, uint64_t value)
{
	CUstreamBatchMemOpParams op;

	memset(&op, 0, sizeof(op));
	op.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
	op.writeValue.address = at;
	op.writeValue.value64 = value;
	return op;
}

struct sender {
	CUstream stream;
	CUdeviceptr source, shadow, word;
};

static CUresult send_round(const struct sender *s, uint64_t round, size_t bytes)
{
	CUstreamBatchMemOpParams ops[2] = { write_of(s->shadow, round),
					    write_of(s->word, round) };
	CUresult result = cu.cuMemsetD32Async(s->source, (uint32_t)round,
					      bytes / 4, s->stream);

	if (!result)
		result = cu.cuMemcpyDtoHAsync_v2(memory + 3 * PAGE, s->source,
						 bytes, s->stream);
	return result ? result : cu.cuStreamBatchMemOp_v2(s->stream, 2, ops, 0);
}

static const struct {
	size_t bytes;
	uint64_t real, else_; /* rounds */
} sizes[] = {
	{ 4, 600000, 40 },        { 64, 200000, 20 },
	{ 4096, 150000, 20 },     { 65536, 40000, 10 },
	{ GPU_MIB, 9500, 4 },     { 16 * GPU_MIB, 400, 2 },
	{ 64 * GPU_MIB, 100, 1 },
};

#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static uint64_t all_rounds(void)
{
	uint64_t n = 0;

	for (size_t i = 0; i < SIZES; i++)
		n += gpu_rounds(sizes[i].real, sizes[i].else_);
	return n;
}

static void send_all(const struct sender *s)
{
	uint64_t round = 0;

	for (size_t i = 0; i < SIZES; i++) {
		uint64_t n = gpu_rounds(sizes[i].real, sizes[i].else_);
		double from = contract_now_ms();
		CUresult result = CUDA_SUCCESS;
		bool is_seen = true;

		gm_put_release(&words()->bytes, sizes[i].bytes);
		for (uint64_t k = 0; k < n && !result && is_seen; k++) {
			result = send_round(s, ++round, sizes[i].bytes);
			is_seen = !result && wait_until(&words()->seen, round);
		}
		FACT("\"bytes\":%zu,\"rounds\":%" PRIu64 ",\"us_each\":%.3f",
		     sizes[i].bytes, n,
		     (contract_now_ms() - from) * 1e3 / (double)n);
		if (!EQ(result, CUDA_SUCCESS) || !OK(is_seen))
			return;
	}
}

static void a_word_comes_behind_its_copy(struct gpu_part *reader)
{
	struct sender s = { .stream = NULL };

	if (!contract_context())
		return;
	GOOD(cu.cuMemHostRegister_v2(memory, MAPPED,
				     CU_MEMHOSTREGISTER_DEVICEMAP |
					     CU_MEMHOSTREGISTER_PORTABLE));
	s.shadow = device_of(&words()->shadow);
	s.word = device_of(&words()->word);
	GOOD(cu.cuMemAlloc_v2(&s.source, PAYLOAD));
	GOOD(cu.cuStreamCreate(&s.stream, CU_STREAM_NON_BLOCKING));
	send_all(&s);
	EQ(gpu_part_end(reader), 0);
	EQ(gm_get_acquire(&words()->torn), 0);
	EQ(gm_get_acquire(&words()->early), 0);
	EQ(gm_get_acquire(&words()->seen), all_rounds());
	FACT("\"checks\":%" PRIu64 ",\"torn\":%" PRIu64 ",\"early\":%" PRIu64,
	     gm_get_acquire(&words()->seen), gm_get_acquire(&words()->torn),
	     gm_get_acquire(&words()->early));
	GOOD(cu.cuStreamDestroy_v2(s.stream));
	GOOD(cu.cuMemFree_v2(s.source));
	GOOD(cu.cuMemHostUnregister(memory));
	contract_end_context();
}

TAP_CASE_ARGS(argc, argv)
{
	struct gpu_part reader = { .socket = -1 };
	int fd;

	if (argc == 3)
		return look(strtoull(argv[2], NULL, 10));
	if (!gpu_begin(argv))
		return tap_done();
	if (gpu_attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS) !=
		    1 ||
	    gpu_attribute(CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED) != 1) {
		SKIP(1, "no memory operations, or no registered memory");
		return tap_done();
	}
	fd = memfd_create("gpumap-order", MFD_CLOEXEC);
	if (OK(fd >= 0) && EQ(ftruncate(fd, MAPPED), 0)) {
		memory = mmap(NULL, MAPPED, PROT_READ | PROT_WRITE, MAP_SHARED,
			      fd, 0);
		if (OK(memory != MAP_FAILED) &&
		    OK(gpu_part_begin("look", all_rounds(), &reader)) &&
		    OK(gpu_tell(reader.socket, "m", 1, fd)))
			a_word_comes_behind_its_copy(&reader);
	}
	return tap_done();
}
