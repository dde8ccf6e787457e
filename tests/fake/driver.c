/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/fake/driver.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_VERSION 13000

struct fake_driver fake;
pthread_mutex_t fake_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t fake_moved = PTHREAD_COND_INITIALIZER;

/* The machine is joined by the first call that needs it. */
static bool join(void)
{
	const struct fake_fault *fault;

	if (fake.hw.board)
		return true;
	if (fake_hardware_join(false, &fake.hw))
		return false;
	fake_lock(&fake.hw);
	fault = fake_fault(&fake.hw, FAKE_DRIVER, FAKE_ANY_GPU);
	fake.version = fault ? (int)fault->value : DEFAULT_VERSION;
	fake_unlock(&fake.hw);
	return true;
}

/* Checks that come before the first card is looked at. */
static CUresult power_on(void)
{
	const struct fake_fault *takes, *fails, *exit_takes;
	uint64_t takes_ns, exit_ns;
	CUresult result;

	fake_lock(&fake.hw);
	takes = fake_fault(&fake.hw, FAKE_INIT_TAKES, FAKE_ANY_GPU);
	fails = fake_fault(&fake.hw, FAKE_INIT_FAILS, FAKE_ANY_GPU);
	exit_takes = fake_fault(&fake.hw, FAKE_EXIT_TAKES, FAKE_ANY_GPU);
	takes_ns = takes ? takes->value : 0;
	exit_ns = exit_takes ? exit_takes->value : 0;
	result = fails ? (CUresult)fails->value : CUDA_SUCCESS;
	fake_unlock(&fake.hw);
	fake_take_time(takes_ns);
	if (!result && exit_ns)
		fake_exit_slowly(exit_ns);
	return result;
}

static CUresult init(void)
{
	uint32_t gpus[FAKE_GPUS];
	CUresult result;

	if (!join())
		return CUDA_ERROR_NO_DEVICE;
	result = power_on();
	if (result)
		return result;
	if (!fake_space_init())
		return CUDA_ERROR_OUT_OF_MEMORY;

	fake_lock(&fake.hw);
	fake.n_devices = fake_visible(fake.hw.board, fake.version, gpus);
	fake_unlock(&fake.hw);
	if (fake.n_devices == 0)
		return CUDA_ERROR_NO_DEVICE;
	for (uint32_t i = 0; i < fake.n_devices; i++)
		fake.devices[i] = (struct fake_device){ .gpu = gpus[i],
							.ordinal = (CUdevice)i,
							.node = -1 };
	fake.pid = getpid();
	return CUDA_SUCCESS;
}

CUresult cuInit(unsigned int flags)
{
	CUresult result = CUDA_SUCCESS;

	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&fake_mutex);
	if (fake.pid && fake.pid != getpid())
		result = CUDA_ERROR_NOT_INITIALIZED; /* a forked child */
	else if (!fake.pid)
		result = init();
	pthread_mutex_unlock(&fake_mutex);
	return result;
}

CUresult cuDriverGetVersion(int *version)
{
	CUresult result = CUDA_SUCCESS;

	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&fake_mutex);
	*version = join() ? fake.version : DEFAULT_VERSION;
	pthread_mutex_unlock(&fake_mutex);
	return result;
}

CUresult fake_enter(void)
{
	pthread_mutex_lock(&fake_mutex);
	if (fake.pid == getpid())
		return CUDA_SUCCESS;
	pthread_mutex_unlock(&fake_mutex);
	return CUDA_ERROR_NOT_INITIALIZED;
}

CUresult fake_enter_context(struct fake_context **ret_ctx)
{
	CUresult result = fake_enter();

	if (result)
		return result;
	/* The context may be destroyed while another call has it. */
	while (!(result = fake_current(ret_ctx)) && (*ret_ctx)->is_taken)
		fake_wait();
	if (!result)
		result = fake_health((*ret_ctx)->dev);
	return result ? fake_leave(result) : CUDA_SUCCESS;
}

CUresult fake_leave(CUresult result)
{
	pthread_mutex_unlock(&fake_mutex);
	return result;
}

struct fake_device *fake_device(CUdevice ordinal)
{
	return ordinal >= 0 && (uint32_t)ordinal < fake.n_devices
		       ? &fake.devices[ordinal]
		       : NULL;
}

CUresult fake_health(struct fake_device *dev)
{
	bool is_lost;

	fake_lock(&fake.hw);
	is_lost = fake.hw.board->gpus[dev->gpu].is_lost;
	fake_unlock(&fake.hw);
	if (is_lost && !dev->error)
		dev->error = CUDA_ERROR_UNKNOWN;
	return dev->error;
}

void fake_wait(void)
{
	struct timespec until;

	/* A card can be lost by another process's hand: look now and then. */
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += 20000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	pthread_cond_timedwait(&fake_moved, &fake_mutex, &until);
}

void fake_sleep_ns(uint64_t ns)
{
	struct timespec ts = { .tv_sec = (time_t)(ns / 1000000000),
			       .tv_nsec = (long)(ns % 1000000000) };

	while (ns && nanosleep(&ts, &ts))
		;
}

static void report(const char *what, unsigned int n)
{
	char line[160];

	if (n == 0)
		return;
	snprintf(line, sizeof(line), "pid %d ended with %u left: %s", getpid(),
		 n, what);
	fprintf(stderr, "stand-in: %s\n", line);
	fake_lock(&fake.hw);
	fake_note(&fake.hw, line);
	fake_unlock(&fake.hw);
}

/*
 * Give back everything at a process's orderly end.  After a sticky error
 * nothing can be given back, so nothing is tried.
 */
__attribute__((destructor)) static void look_behind(void)
{
	static const struct {
		enum fake_kind kind;
		const char *name;
	} kinds[] = {
		{ FAKE_CONTEXT, "contexts" },      { FAKE_STREAM, "streams" },
		{ FAKE_EVENT, "events" },          { FAKE_MODULE, "modules" },
		{ FAKE_HANDLE, "memory handles" },
	};

	if (fake.pid != getpid())
		return;
	for (uint32_t i = 0; i < fake.n_devices; i++)
		if (fake.devices[i].error)
			return;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		report(kinds[i].name, fake_handles_left(kinds[i].kind));
	report("ranges of addresses", fake_space_left());
}
