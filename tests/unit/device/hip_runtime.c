/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * hip_runtime: what HIP's runtime has in its own way, on a machine of the
 * stand-in under HIP's names, and what a runtime says that has no card: the
 * stand-in's, and the system's, where one is installed.  Each part is this
 * program again.
 */

#include <sys/wait.h>

#include "agent/cuda/driver.h"
#include "agent/device/cuda.h"
#include "gpumap/program.h"
#include "tests/support/fake_machine.h"
#include "tests/support/gpu_bench.h"
#include "tests/support/program_kernels.h"

static const struct gm_backend *const hip = &gm_hip_backend;
static struct bench b = { .backend = &gm_hip_backend };

static int end(int line)
{
	bench_close(&b);
	return line;
}

static bool says(const char *part)
{
	int code = 0;
	const char *why = hip->fault(NULL, &code);

	if (!strstr(why, part))
		NOTE("\"%s\" is not in: %s", part, why);
	return strstr(why, part) != NULL;
}

/* ---- parts --------------------------------------------------------------- */

static const struct gm_driver *driver(void)
{
	return ((struct gm_cuda *)((struct gm_stream *)b.dev)->gpu)->driver;
}

static int a_row_copies_and_no_more(void)
{
	struct trial t = { .op = GPUMAP_OP_COPY,
			   .dtype = GPUMAP_DTYPE_U8,
			   .n = 5000,
			   .at = { 3, 5 } };

	WANT(bench_open(&b, NULL) == 0);
	WANT(driver()->is_hip && driver()->version == 7010);
	for (uint32_t i = 0; i < 4; i++) {
		t.on_device[0] = i & 1;
		t.on_device[1] = i & 2;
		WANT(trial_run(&b, &t) == 0 && trial_holds(&b, &t));
	}
	t.op = GPUMAP_OP_FILL;
	WANT(trial_run(&b, &t) == 0 && trial_holds(&b, &t));
	t.op = GPUMAP_OP_SCALE;
	t.dtype = GPUMAP_DTYPE_F32;
	t.n = 100;
	WANT(trial_run(&b, &t) == -EOPNOTSUPP);
	WANT(b.region->address != 0); /* in place */
	for (uint32_t i = 0; i < GM_GPU_LANES; i++)
		WANT(((struct gm_stream *)b.dev)->gpu->words[i] != NULL);
	return end(0);
}

static int without_words_it_waits_for_events(void)
{
	struct trial t = { .op = GPUMAP_OP_COPY,
			   .dtype = GPUMAP_DTYPE_U8,
			   .n = 5000,
			   .on_device = { true, false } };

	WANT(bench_open(&b, NULL) == 0);
	for (uint32_t i = 0; i < GM_GPU_LANES; i++)
		WANT(((struct gm_stream *)b.dev)->gpu->words[i] == NULL);
	b.sleeps = true;
	WANT(trial_holds(&b, &t));
	return end(0);
}

/* The extras of its launch end as HIP's do.  The stand-in reads PTX for a code
 * object. */
static int a_program_runs(void)
{
	static float alpha = 3;
	char why[GM_KERNEL_WHY_BYTES] = "";
	struct gm_kernel *square = NULL;
	struct gm_async_exec flight;
	struct gm_task task;
	float *dst, *src;

	WANT(bench_open(&b, NULL) == 0);
	WANT(hip->load_kernel(b.dev, BENCH_TEXT(KERNEL_ALL, "gpumap_program"),
			      &square, why) == 0);
	dst = (float *)(void *)b.client;
	src = (float *)(void *)(b.client + BENCH_ROOM);
	for (uint32_t i = 0; i < 1000; i++)
		src[i] = (float)i;
	task = (struct gm_task){ .op = GPUMAP_OP_RUN,
				 .dtype = GPUMAP_DTYPE_F32,
				 .n = 1000,
				 .dst = dst,
				 .src = src,
				 .pattern = 4 | UINT64_C(4) << 32,
				 .kernel = square,
				 .mask = &alpha,
				 .mask_n = sizeof(alpha) };
	WANT(bench_start(&b, &task, 0, 1000, &flight) == 0);
	WANT(bench_wait(&b, &flight) == 0);
	for (uint32_t i = 0; i < 1000; i++)
		WANT(dst[i] == alpha * src[i] * src[i]);
	hip->unload_kernel(b.dev, square);
	WANT(hip->load_kernel(b.dev, BENCH_TEXT("odd", "x"), &square, why) ==
	     -ENOEXEC);
	WANT(strstr(why, "HIP 218"));
	return end(0);
}

static int memory_is_shared(void)
{
	struct gm_buffer *maker = NULL, *taker = NULL;
	int fd;

	WANT(bench_open(&b, NULL) == 0);
	WANT(hip->alloc(b.dev, 1, 4096, GPUMAP_BUFFER_EXPORTABLE, &maker) == 0);
	fd = hip->export_fd(b.dev, maker);
	WANT(fd >= 0);
	WANT(hip->import_fd(b.dev, fd, 4096, &taker) == 0);
	close(fd);
	hip->free(b.dev, taker);
	hip->free(b.dev, maker);
	return end(0);
}

/* The descriptor is in memory. */
static int memory_is_shared_before_7_1(void)
{
	setenv("GPUMAP_FAKE_HIP", "60443484", 1);
	return memory_is_shared();
}

static int hip_5_shares_none(void)
{
	struct gm_buffer *none = NULL;
	char why[GM_LIBRARY_WHY_BYTES];

	setenv("GPUMAP_FAKE_HIP", "50221153", 1);
	WANT(bench_open(&b, NULL) == 0);
	WANT(hip->alloc(b.dev, 1, 4096, GPUMAP_BUFFER_EXPORTABLE, &none) ==
	     -EOPNOTSUPP);
	WANT(gm_driver_lack(driver(), GM_DRIVER_VMM, why, sizeof(why)) > 0);
	WANT(strcmp(why, "the runtime brings HIP 5.2 and lacks "
			 "hipMemGetAllocationGranularity: no memory can be "
			 "exported") == 0);
	return end(0);
}

static bool opens(const char *id)
{
	const struct gm_device_config config = { .uuid = id };
	int rc = hip->open(&config, &b.dev);
	bool is = rc == 0;

	if (!is && rc != -ENODEV)
		NOTE("%s: %d", id, rc);
	hip->close(b.dev);
	b.dev = NULL;
	return is;
}

/* By the 16 digits of its number, or by its address. */
static int a_device_is_found(void)
{
	struct gm_cu_uuid uuid;
	char id[21], bus[32], full[64];
	int dev;

	WANT(opens(NULL));
	WANT(bench_open(&b, NULL) == 0);
	WANT(driver()->cuDeviceGet(&dev, 0) == GM_CU_SUCCESS);
	WANT(driver()->cuDeviceGetUuid(&uuid, dev) == GM_CU_SUCCESS);
	WANT(driver()->cuDeviceGetPCIBusId(bus, sizeof(bus), dev) ==
	     GM_CU_SUCCESS);
	bench_close(&b);
	snprintf(id, sizeof(id), "GPU-%.16s", uuid.bytes);
	WANT(opens(id) && opens(bus));
	snprintf(full, sizeof(full), "gfx803:%s", id);
	WANT(opens(full));
	snprintf(full, sizeof(full), "gfx803:%s", bus);
	WANT(opens(full));
	WANT(!opens("gfx803") && !opens("gfx803:"));
	id[19] = id[19] == '0' ? '1' : '0';
	WANT(!opens(id) && says("none is GPU-"));
	id[19] = '\0';
	WANT(!opens(id));
	WANT(!opens("0000:ff:1f.0") && !opens(""));
	return 0;
}

/* Instead of the system's. */
static int a_folder_is_taken(void)
{
	char folder[PATH_MAX];
	struct gm_device_config config = { .library = "/nowhere" };

	WANT(hip->open(&config, &b.dev) == -ELIBBAD);
	WANT(says("/nowhere has no such library"));
	snprintf(folder, sizeof(folder), "%s/tests/fake/.libs",
		 getenv("abs_top_builddir"));
	b.library = folder;
	WANT(bench_open(&b, NULL) == 0);
	WANT(strstr(driver()->library.path, "/libamdhip64.so.7"));
	return end(0);
}

static int no_card_is_no_device(void)
{
	WANT(bench_open(&b, NULL) == -ENODEV);
	WANT(says("hipInit: HIP 101") && says("/dev/kfd"));
	return end(0);
}

static int its_faults_are_told(void)
{
	struct trial t = { .op = GPUMAP_OP_COPY,
			   .dtype = GPUMAP_DTYPE_U8,
			   .n = 5000,
			   .on_device = { true, false } };
	int code = 0;

	WANT(bench_open(&b, NULL) == 0);
	for (int i = 0; i < 20 && trial_run(&b, &t) == 0; i++)
		;
	WANT(trial_run(&b, &t) == -ENOTRECOVERABLE);
	WANT(strstr(hip->fault(b.dev, &code), "HIP 700") && code == 700);
	return end(0);
}

static const struct scene_part parts[] = {
	{ "copies", NULL, a_row_copies_and_no_more },
	{ "events", "attribute 122 is 0", without_words_it_waits_for_events },
	{ "program", NULL, a_program_runs },
	{ "shared", NULL, memory_is_shared },
	{ "shared_before_7_1", NULL, memory_is_shared_before_7_1 },
	{ "hip_5", NULL, hip_5_shares_none },
	{ "found", NULL, a_device_is_found },
	{ "folder", NULL, a_folder_is_taken },
	{ "faults", "copy 7: sticky 700", its_faults_are_told },
	{ "no_card", "init fails 100", no_card_is_no_device },
};

/* ---- the system's -------------------------------------------------------- */

enum { NO_CARD = 10, A_CARD = 11, NO_RUNTIME = 12, SOMETHING_ELSE = 13 };

static int open_real(void)
{
	const struct gm_device_config config = { 0 };
	struct gm_backend_device *dev;
	int code = 0, rc = hip->open(&config, &dev);

	if (rc == -ENOENT)
		return says("no ROCm") ? NO_RUNTIME : SOMETHING_ELSE;
	if (rc == 0)
		return A_CARD;
	printf("# %d, %s\n", rc, hip->fault(NULL, &code));
	return rc == -ENODEV && says("no card for this process")
		       ? NO_CARD
		       : SOMETHING_ELSE;
}

static void the_systems_runtime_has_no_card(void)
{
	int status = -1;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		unsetenv("LD_LIBRARY_PATH");
		execl("/proc/self/exe", "hip_runtime", "real", NULL);
		_exit(99);
	}
	if (pid > 0)
		waitpid(pid, &status, 0);
	if (!OK(WIFEXITED(status)))
		return;
	if (WEXITSTATUS(status) == NO_RUNTIME)
		SKIP(1, "no libamdhip64 is installed here");
	else if (WEXITSTATUS(status) == A_CARD)
		SKIP(1, "there is a card");
	else
		EQ(WEXITSTATUS(status), NO_CARD);
}

TAP_CASE_ARGS(argc, argv)
{
	if (argc == 2 && strcmp(argv[1], "real") == 0)
		return open_real();
	if (argc == 1)
		the_systems_runtime_has_no_card();
	return scene_main(argc, argv, "tests/.libs/operators_kernels.so", parts,
			  sizeof(parts) / sizeof(parts[0]));
}
