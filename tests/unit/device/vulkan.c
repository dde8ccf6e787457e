/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * vulkan: the same of a row of Vulkan, and what is its own.
 *
 * $GM_VULKAN_MANIFEST names the driver's manifest; without it llvmpipe's is
 * taken.  Where Khronos' validation layer is installed it sees every call, and
 * has to stay silent.
 */

#include "tests/support/gpu_cases.h"
#include "tests/support/spirv_kernel.h"

#ifndef HAVE_VULKAN
TAP_CASE()
{
	LACK("vulkan", 1, "this build has no rows of Vulkan");
	return tap_done();
}
#else

#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "agent/cuda/operators.h"
#include "agent/device/ops_vulkan_spirv.h"
#include "agent/device/vulkan.h"
#include "tests/contract/send_fd.h"
#include "tests/support/vulkan_layer.h"
#include "tests/unit/device/vulkan_square.h"

#define PAGE   UINT64_C(4096)
#define SHARED UINT64_C(100000) /* bytes that two processes share */

static struct bench b;
static char manifest[256];
static bool has_layer;

static struct gm_vulkan *device_of(const struct bench *u)
{
	return (struct gm_vulkan *)((struct gm_stream *)u->dev)->gpu;
}

static struct gm_vulkan *vulkan(void)
{
	return device_of(&b);
}

/* ---- the driver, and the layer that looks at its calls ------------------- */

static void find_manifest(void)
{
	const char *named = getenv("GM_VULKAN_MANIFEST");
	glob_t found = { 0 };

	if (named)
		snprintf(manifest, sizeof(manifest), "%s", named);
	else if (glob("/usr/share/vulkan/icd.d/lvp_icd*.json", 0, NULL,
		      &found) == 0)
		snprintf(manifest, sizeof(manifest), "%s", found.gl_pathv[0]);
	globfree(&found);
}

static void show_line(const char *line)
{
	NOTE("%s", line);
}

/* The layer saw all that was done; and it sees a mistake. */
static void the_layer_was_silent(void)
{
	const VkBufferCreateInfo empty = {
		.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
		.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT,
	};
	VkBuffer buffer = VK_NULL_HANDLE;

	if (!has_layer) {
		LACK("vulkan-validation", 1,
		     "there is no VkLayer_khronos_validation.json");
		return;
	}
	EQ(vulkan_layer_complaints(show_line), 0);
	if (vulkan()->vk.vkCreateBuffer(vulkan()->device, &empty, NULL,
					&buffer) == VK_SUCCESS)
		vulkan()->vk.vkDestroyBuffer(vulkan()->device, buffer, NULL);
	OK(vulkan_layer_complaints(NULL) > 0);
}

/* ---- operators ----------------------------------------------------------- */

static const struct {
	const char *name;
	const uint32_t *words;
	size_t n;
	bool by_integers;
} modules[] = {
#define MODULE(name, words, floats, by_integers, is_reduction) \
	{ #name, words, sizeof(words) / sizeof(words[0]), by_integers },
	MODULES
};

/* Sums, differences, products and quotients of floats that may be fused with
 * others, and instructions that are fused by themselves. */
static uint32_t count_loose(const uint32_t *words, size_t n, uint32_t *ret_n)
{
	uint32_t loose = 0;

	*ret_n = 0;
	for (size_t i = 5; i < n && words[i] >> 16; i += words[i] >> 16) {
		uint32_t op = words[i] & 0xffff;
		bool is_kept = false;

		if (op == 12 && words[i + 4] == 50) /* Fma */
			loose++;
		if (op != 129 && op != 131 && op != 133 && op != 136)
			continue;
		++*ret_n;
		for (size_t j = 5; j < i; j += words[j] >> 16)
			is_kept |= words[j] == (3u << 16 | 71u) &&
				   words[j + 1] == words[i + 2] &&
				   words[j + 2] == 42; /* NoContraction */
		loose += !is_kept;
	}
	return loose;
}

/* llvmpipe fuses nothing, so results do not tell. */
static void nothing_may_be_fused(void)
{
	uint32_t n;

	for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++) {
		const char *name = modules[i].name;
		bool is_exact = !modules[i].by_integers;

		if (!EQ(count_loose(modules[i].words, modules[i].n, &n), 0))
			NOTE("%s", name);
		if (strncmp(name, "gm_axpy_", 8) == 0)
			OK(is_exact ? n >= 2 : n <= 1);
		if (strncmp(name, "gm_scale_", 9) == 0)
			OK(is_exact ? n >= 1 : n <= 1);
	}
}

/* All that there are, which the device may have twice. */
static void operators_are_those_of_others(void)
{
	struct gm_gpu *gpu = &vulkan()->gpu;
	char name[GM_OPERATOR_NAME_BYTES];
	size_t n = 0, missing = 0, twice = 0;

	for (uint32_t i = 0; i < GM_OPS * GM_STREAM_DTYPES * GM_STREAM_DTYPES;
	     i++) {
		uint32_t op = i % GM_OPS, dtype = i / GM_OPS % GM_STREAM_DTYPES;
		uint32_t to = i / GM_OPS / GM_STREAM_DTYPES;

		if (gm_operators_name(gm_operators_of(op), dtype, to, name) < 0)
			continue;
		n++;
		missing += gm_vulkan_find(gpu, op, dtype, to) == NULL;
	}
	for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++)
		twice += modules[i].by_integers;
	OK(n + twice >= sizeof(modules) / sizeof(modules[0]));
	OK(twice > 0);
	EQ(missing, 0);
}

/* A device may have fewer groups in a row than a slice has. */
static void groups_go_in_rows(void)
{
	uint32_t most = vulkan()->groups_max;

	vulkan()->groups_max = 3;
	EQ(trials_failed(&b, BENCH_SMALL / 2), 0);
	vulkan()->groups_max = most;
}

static struct gm_gpu_at place_of(const struct gm_buffer *buffer)
{
	const struct gm_stream_place *place = gm_stream_find(
		&((struct gm_stream *)b.dev)->own, buffer->address);

	return (struct gm_gpu_at){ place->mem, buffer->address - place->from };
}

/* Three chunks, and four groups. */
static void a_group_too_many_writes_nothing(void)
{
	const uint64_t n = UINT64_C(3) * GM_REDUCE_CHUNK;
	struct gm_gpu *gpu = &vulkan()->gpu;
	const struct gm_gpu_launch launch = {
		.kernel =
			gm_vulkan_find(gpu, GPUMAP_OP_SUM, GPUMAP_DTYPE_U8, 0),
		.op = GPUMAP_OP_SUM,
		.n = n,
		.n_args = 3,
		.args = { gm_stream_arg(place_of(b.buffer[0]), 24),
			  gm_stream_arg(place_of(b.buffer[1]), n),
			  gm_stream_number(n) },
	};
	uint32_t most = vulkan()->groups_max;
	uint64_t sums[4] = { 0 };

	EQ(gm_vulkan_fill(gpu, GM_GPU_SLOW, place_of(b.buffer[1]), n + 1024, 2),
	   0);
	EQ(gm_vulkan_fill(gpu, GM_GPU_SLOW, place_of(b.buffer[0]), 32, 1), 0);
	vulkan()->groups_max = 2;
	EQ(gm_vulkan_launch(gpu, GM_GPU_SLOW, &launch), 0);
	vulkan()->groups_max = most;
	EQ(gm_vulkan_finish(gpu, GM_GPU_SLOW), 0);
	memset(sums, 0xff, sizeof(sums));
	EQ(gm_device_fetch(b.dev, b.buffer[0]->address, sums, sizeof(sums)), 0);
	for (int i = 0; i < 3; i++)
		EQ(sums[i], 2 * GM_REDUCE_CHUNK);
	EQ(sums[3], INT64_C(0x0101010101010101));
}

/* The last submission waits for these. */
static PFN_vkQueueSubmit submit;
static VkSemaphore waited_for;
static uint64_t waited_value;
static uint32_t n_waited;

static VkResult look_at_waits(VkQueue queue, uint32_t n,
			      const VkSubmitInfo *info, VkFence fence)
{
	const VkTimelineSemaphoreSubmitInfo *timeline = info->pNext;

	n_waited = info->waitSemaphoreCount;
	if (n_waited) {
		waited_for = info->pWaitSemaphores[0];
		waited_value = timeline->pWaitSemaphoreValues[0];
	}
	return submit(queue, n, info, fence);
}

static VkResult not_yet(VkDevice device, VkSemaphore semaphore,
			uint64_t *ret_value)
{
	(void)device;
	(void)semaphore;
	*ret_value = 0;
	return VK_SUCCESS;
}

/* On one queue the order of lanes does not tell. */
static void a_lane_waits_by_a_semaphore(void)
{
	struct gm_vulkan_calls *vk = &vulkan()->vk;
	PFN_vkGetSemaphoreCounterValue value = vk->vkGetSemaphoreCounterValue;
	struct gm_async_exec first, second, third;
	struct gm_task copy = trial_copy(&b, 0, false);
	struct gm_task task = bench_task(&b, 1);

	submit = vk->vkQueueSubmit;
	vk->vkQueueSubmit = look_at_waits;
	vk->vkGetSemaphoreCounterValue = not_yet;
	b.has_last = false;
	EQ(bench_start(&b, &copy, 0, copy.n, &first), 0);
	EQ(n_waited, 0);
	EQ(bench_start(&b, &task, 0, task.n, &second), 0);
	OK(first.lane != second.lane);
	EQ(n_waited, 1);
	OK(waited_for == vulkan()->lanes[first.lane].ended);
	EQ(waited_value, first.value);
	EQ(bench_start(&b, &task, 0, task.n, &third), 0);
	EQ(n_waited, 0); /* their lane has an order */
	vk->vkQueueSubmit = submit;
	vk->vkGetSemaphoreCounterValue = value;
	EQ(bench_wait(&b, &first), 0);
	EQ(bench_wait(&b, &second), 0);
	EQ(bench_wait(&b, &third), 0);
}

/* ---- memory -------------------------------------------------------------- */

/* One piece of memory has an end before all memory has. */
static void a_large_piece_is_refused(void)
{
	uint64_t most = vulkan()->alloc_max;
	struct gm_buffer *none = NULL;
	struct gm_device_memory before, after;

	EQ(b.backend->memory(b.dev, &before), 0);
	EQ(b.backend->alloc(b.dev, 1, most + 1, 0, &none), -ENOMEM);
	vulkan()->alloc_max = UINT64_C(64) << 20;
	EQ(b.backend->alloc(b.dev, 1, (UINT64_C(64) << 20) + 1, 0, &none),
	   -ENOMEM);
	EQ(b.backend->alloc(b.dev, 1, (UINT64_C(64) << 20) + 1,
			    GPUMAP_BUFFER_EXPORTABLE, &none),
	   -ENOMEM);
	vulkan()->can_share = false;
	EQ(b.backend->alloc(b.dev, 1, 4096, GPUMAP_BUFFER_EXPORTABLE, &none),
	   -EOPNOTSUPP);
	vulkan()->can_share = true;
	OK(none == NULL);
	EQ(b.backend->memory(b.dev, &after), 0);
	OK(after.free >= before.free);
	vulkan()->alloc_max = most;
}

/* An import counts again, and may be more than there is. */
static void imports_leave_nothing(void)
{
	VkDeviceSize *all = &vulkan()->types.memoryHeaps[vulkan()->heap].size;
	struct gm_buffer *maker = NULL, *taker = NULL, *none = NULL;
	struct gm_device_memory memory = { 0 };
	VkDeviceSize before = *all;
	int fd;

	*all = gm_get(&vulkan()->used) + 3 * SHARED / 2;
	EQ(b.backend->alloc(b.dev, 1, SHARED, GPUMAP_BUFFER_EXPORTABLE, &maker),
	   0);
	fd = maker ? b.backend->export_fd(b.dev, maker) : -1;
	EQ(b.backend->import_fd(b.dev, fd, SHARED, &taker), 0);
	OK(gm_get(&vulkan()->used) > *all);
	EQ(b.backend->memory(b.dev, &memory), 0);
	EQ(memory.free, 0);
	EQ(b.backend->alloc(b.dev, 1, 1, GPUMAP_BUFFER_EXPORTABLE, &none),
	   -ENOMEM);
	OK(none == NULL);
	close(fd);
	if (maker)
		b.backend->free(b.dev, maker);
	if (taker)
		b.backend->free(b.dev, taker);
	*all = before;
}

/* Within a page the driver would write elsewhere. */
static void memory_within_a_page_is_staged(void)
{
	static const uint64_t wrong[][2] = { { 64, PAGE }, { 0, PAGE + 64 } };
	struct gm_task task = { .op = GPUMAP_OP_COPY,
				.src_address = b.buffer[0]->address,
				.n = PAGE };
	struct gm_region *region = NULL;
	char *at = bench_map(4 * PAGE);

	for (int i = 0; i < 2; i++) {
		memset(at, 1, 4 * PAGE);
		if (!EQ(b.backend->reach(b.dev, at + wrong[i][0], wrong[i][1],
					 true, &region),
			0))
			break;
		EQ(region->address, 0);
		task.dst = at + wrong[i][0];
		EQ(bench_run(&b, &task), 0);
		OK(i == 1 || at[63] == 1);
		OK(at[wrong[i][0] + PAGE] == 1);
		b.backend->unreach(b.dev, region);
	}
	if (EQ(b.backend->reach(b.dev, at, PAGE, true, &region), 0)) {
		OK(region->address);
		b.backend->unreach(b.dev, region);
	}
	munmap(at, 4 * PAGE);
}

/* ---- another process ----------------------------------------------------- */

/* A process of its own has its own device, and its own layer.  As soon as there
 * is a device none is forked: the child would have half of it. */
static pid_t child;
static int wire;

static unsigned char byte_at(uint64_t i, uint32_t turn)
{
	return (unsigned char)(i * 7 + i / 251 + turn);
}

static bool holds(const unsigned char *bytes, uint32_t turn)
{
	for (uint64_t i = 0; i < SHARED; i++)
		if (bytes[i] != byte_at(i, turn))
			return false;
	return true;
}

static void throw(unsigned char *bytes, uint32_t turn)
{
	for (uint64_t i = 0; i < SHARED; i++)
		bytes[i] = byte_at(i, turn);
}

/* Returns the line of this file that failed, or 0. */
static int export_and_look(void)
{
	const struct gm_device_config config = { .library = manifest };
	const struct gm_backend *backend = &gm_vulkan_backend;
	unsigned char *bytes = malloc(SHARED);
	struct gm_backend_device *dev;
	struct gm_buffer *buffer;
	char byte;
	int fd;

#define WANT(condition)                  \
	do {                             \
		if (!(condition))        \
			return __LINE__; \
	} while (0)
	has_layer = vulkan_layer_open();
	WANT(bytes && backend->open(&config, &dev) == 0);
	WANT(backend->alloc(dev, 1, SHARED, GPUMAP_BUFFER_EXPORTABLE,
			    &buffer) == 0);
	throw(bytes, 1);
	WANT(gm_device_store(dev, buffer->address, bytes, SHARED) == 0);
	fd = backend->export_fd(dev, buffer);
	WANT(fd >= 0 && send_fd(wire, fd));
	close(fd);
	/* The other process has written there. */
	WANT(read(wire, &byte, 1) == 1);
	WANT(gm_device_fetch(dev, buffer->address, bytes, SHARED) == 0);
	WANT(holds(bytes, 2));
	backend->free(dev, buffer);
	backend->close(dev);
	free(bytes);
	WANT(!has_layer || vulkan_layer_complaints(NULL) == 0);
	vulkan_layer_close();
	return 0;
}

static bool start_child(void)
{
	int wires[2];
	int line;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, wires) < 0)
		return false;
	fflush(stdout);
	child = fork();
	if (child != 0) {
		close(wires[1]);
		wire = wires[0];
		return child > 0;
	}
	close(wires[0]);
	wire = wires[1];
	line = export_and_look();
	if (line)
		fprintf(stderr, "the child failed in line %d\n", line);
	_exit(line != 0);
}

static void strangers_are_refused(int ours)
{
	struct gm_buffer *none = NULL;
	int fds[7], pair[2];

	fds[0] = memfd_create("empty", MFD_CLOEXEC);
	fds[1] = memfd_create("zeroes", MFD_CLOEXEC);
	EQ(ftruncate(fds[1], 1 << 20), 0);
	fds[2] = open("/dev/null", O_RDWR | O_CLOEXEC);
	fds[3] = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	EQ(pipe2(pair, O_CLOEXEC), 0);
	fds[4] = pair[0];
	fds[5] = pair[1];
	fds[6] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	for (int i = 0; i < 7; i++) {
		EQ(b.backend->import_fd(b.dev, fds[i], SHARED, &none), -EINVAL);
		EQ(b.backend->import_peer(b.dev, fds[i], SHARED, &none),
		   -EINVAL);
		OK(fcntl(fds[i], F_GETFD) >= 0); /* still ours to close */
		close(fds[i]);
	}
	/* One that has fewer bytes. */
	EQ(b.backend->import_fd(b.dev, ours, 16 * SHARED, &none), -EINVAL);
	OK(none == NULL);
	EQ(trials_failed(&b, 100), 0);
}

static void two_processes_share_memory(void)
{
	unsigned char *bytes = malloc(SHARED);
	struct gm_device_memory before, after;
	struct gm_buffer *theirs = NULL, *peer = NULL;
	int status = -1, fd = receive_fd(wire);

	if (!OK(bytes) || !OK(fd >= 0))
		return;
	EQ(b.backend->memory(b.dev, &before), 0);
	throw(bytes, 1);
	EQ(b.backend->try_peer(b.dev, fd, bytes, SHARED), 0);
	bytes[SHARED - 1]++;
	EQ(b.backend->try_peer(b.dev, fd, bytes, SHARED), -EIO);
	EQ(b.backend->copy_peer(b.dev, b.buffer[0]->address, fd, SHARED), 0);
	EQ(gm_device_fetch(b.dev, b.buffer[0]->address, bytes, SHARED), 0);
	OK(holds(bytes, 1));
	EQ(b.backend->import_peer(b.dev, fd, SHARED, &peer), 0);
	EQ(b.backend->import_fd(b.dev, fd, SHARED, &theirs), 0);
	strangers_are_refused(fd);
	close(fd);
	if (theirs && peer) {
		memset(bytes, 0, SHARED);
		EQ(gm_device_fetch(b.dev, theirs->address, bytes, SHARED), 0);
		OK(holds(bytes, 1));
		throw(bytes, 2);
		EQ(gm_device_store(b.dev, theirs->address, bytes, SHARED), 0);
		memset(bytes, 0, SHARED);
		EQ(gm_device_fetch(b.dev, peer->address, bytes, SHARED), 0);
		OK(holds(bytes, 2));
	}
	EQ(write(wire, "", 1), 1);
	EQ(waitpid(child, &status, 0), child);
	EQ(status, 0);
	/* Memory that outlives the process that made it. */
	if (theirs && peer) {
		EQ(gm_device_fetch(b.dev, theirs->address, bytes, SHARED), 0);
		OK(holds(bytes, 2));
		b.backend->free(b.dev, theirs);
		b.backend->free(b.dev, peer);
	}
	EQ(b.backend->memory(b.dev, &after), 0);
	EQ(after.free, before.free);
	free(bytes);
}

/* ---- programs ------------------------------------------------------------ */

#define SQUARE_WORDS (sizeof(vulkan_square) / sizeof(vulkan_square[0]))
#define SQUARE_AS(image, name) \
	(&(const struct gm_kernel_image){ image, sizeof(vulkan_square), name })
/* A NUL follows, and no more. */
#define IMAGE_BYTES (sizeof(vulkan_square) + 1)

static uint32_t *copy_square(void)
{
	uint32_t *image = calloc(1, IMAGE_BYTES);

	if (image)
		memcpy(image, vulkan_square, sizeof(vulkan_square));
	return image;
}

static void clients_kernels_run(struct bench *u)
{
	uint32_t *image = copy_square(), most = device_of(u)->groups_max;
	struct gm_async_exec flight;
	struct gm_kernel *kernel;
	struct gm_task task;
	bool good = OK(image) &&
		    bench_square(u, SQUARE_AS(image, "main"), &kernel, &task);

	free(image);
	if (!good)
		return;
	/* Parameters that there is no room for, and more groups than go. */
	task.mask_n = device_of(u)->push_max - 24;
	EQ(bench_start(u, &task, 0, task.n, &flight), 0);
	EQ(bench_wait(u, &flight), 0);
	task.mask_n++;
	EQ(bench_start(u, &task, 0, task.n, &flight), -EINVAL);
	task.mask_n = sizeof(float);
	device_of(u)->groups_max = 15;
	EQ(bench_start(u, &task, 0, task.n, &flight), -EINVAL);
	device_of(u)->groups_max = 16;
	EQ(bench_start(u, &task, 0, task.n, &flight), 0);
	EQ(bench_wait(u, &flight), 0);
	device_of(u)->groups_max = most;
	u->backend->unload_kernel(u->dev, kernel);
}

static uint32_t *find_word(uint32_t *image, uint32_t op, uint32_t at,
			   uint32_t value)
{
	return spirv_find(image, SQUARE_WORDS, op, at, value);
}

static void is_refused(uint32_t *image, const char *name, int rc,
		       const char *want)
{
	char why[GM_KERNEL_WHY_BYTES] = "";
	struct gm_kernel *none = NULL;

	EQ(b.backend->load_kernel(b.dev, SQUARE_AS(image, name), &none, why),
	   rc);
	if (!OK(strstr(why, want)))
		NOTE("%s", why);
	OK(none == NULL);
	free(image);
}

/* A driver trusts a module, so that these would end the process. */
static void other_modules_are_refused(void)
{
	uint32_t *image = copy_square();

	is_refused(image, "cube", -ENOENT, "cube: no compute shader has this");
	is_refused(copy_square(), "mai", -ENOENT, "no compute shader");
	image = copy_square();
	image[0]++;
	is_refused(image, "main", -ENOEXEC, "it is no SPIR-V");
	image = copy_square();
	image[1] = 0x00010600;
	is_refused(image, "main", -ENOEXEC, "it is no SPIR-V of Vulkan 1.2");
	image = copy_square();
	find_word(image, 17, 1, 11)[1] = 6; /* Kernel, for Int64 */
	is_refused(image, "main", -ENOEXEC, "no capability 6");
	image = copy_square();
	find_word(image, 16, 2, 17)[4] = 2; /* of LocalSize */
	is_refused(image, "main", -ENOEXEC, "another dimension");
	image = copy_square();
	find_word(image, 16, 2, 17)[3] = 1 << 20;
	is_refused(image, "main", -ENOEXEC, "too large");
	image = copy_square();
	find_word(image, 16, 2, 17)[2] = 4446; /* another mode */
	is_refused(image, "main", -ENOEXEC, "is no constant");
	image = copy_square();
	find_word(image, 71, 2, 11)[2] = 34; /* DescriptorSet, for BuiltIn */
	is_refused(image, "main", -ENOEXEC, "it has descriptors");
	image = copy_square();
	image[SQUARE_WORDS - 2] = 0; /* an instruction without words */
	is_refused(image, "main", -ENOEXEC, "cut off");
}

/* ---- faults -------------------------------------------------------------- */

static VkResult lose_submit(VkQueue queue, uint32_t n, const VkSubmitInfo *info,
			    VkFence fence)
{
	(void)queue;
	(void)n;
	(void)info;
	(void)fence;
	return VK_ERROR_DEVICE_LOST;
}

static VkResult lose_value(VkDevice device, VkSemaphore semaphore,
			   uint64_t *ret_value)
{
	(void)device;
	(void)semaphore;
	(void)ret_value;
	return VK_ERROR_DEVICE_LOST;
}

static VkResult lose_wait(VkDevice device, const VkSemaphoreWaitInfo *info,
			  uint64_t ns)
{
	(void)device;
	(void)info;
	(void)ns;
	return VK_ERROR_DEVICE_LOST;
}

static VkResult never_end(VkDevice device, const VkSemaphoreWaitInfo *info,
			  uint64_t ns)
{
	const struct timespec pause = { .tv_nsec = 1000000 };

	(void)device;
	(void)info;
	(void)ns;
	nanosleep(&pause, NULL);
	return VK_TIMEOUT;
}

static VkResult fail_memory(VkDevice device, const VkMemoryAllocateInfo *info,
			    const VkAllocationCallbacks *callbacks,
			    VkDeviceMemory *ret_memory)
{
	(void)device;
	(void)info;
	(void)callbacks;
	(void)ret_memory;
	return VK_ERROR_OUT_OF_DEVICE_MEMORY;
}

static VkResult fail_pointer(VkDevice device,
			     VkExternalMemoryHandleTypeFlagBits kind,
			     const void *at,
			     VkMemoryHostPointerPropertiesEXT *ret_properties)
{
	(void)device;
	(void)kind;
	(void)at;
	(void)ret_properties;
	return VK_ERROR_INVALID_EXTERNAL_HANDLE;
}

static void a_device_is_lost_by_any_call(void)
{
	struct gm_buffer *none = NULL;
	struct gm_task task;
	struct bench other;
	int code;

	for (int i = 0; i < 4; i++) {
		if (bench_again(&b, "vulkan", &other)) {
			struct gm_vulkan_calls *vk = &device_of(&other)->vk;

			task = bench_task(&other, 1);
			if (i == 0)
				vk->vkQueueSubmit = lose_submit;
			if (i == 1)
				vk->vkGetSemaphoreCounterValue = lose_value;
			if (i == 2)
				vk->vkGetSemaphoreCounterValue = not_yet;
			if (i >= 2)
				vk->vkWaitSemaphores = lose_wait;
			gpu_cases_lost(&other,
				       i < 3 ? bench_run(&other, &task)
					     : b.backend->alloc(other.dev, 2,
								UINT64_C(9)
									<< 20,
								0, &none),
				       VK_ERROR_DEVICE_LOST);
			STR(b.backend->fault(other.dev, &code),
			    "Vulkan -4 VK_ERROR_DEVICE_LOST");
		}
		bench_close(&other);
	}
	OK(none == NULL);
}

/* Work of a device that was given up may never end: its threads leave. */
static void what_never_ends_is_not_waited_for(void)
{
	struct gm_async_exec flight;
	struct gm_task task;
	struct bench other;

	if (bench_again(&b, "vulkan", &other)) {
		task = bench_task(&other, 1);
		device_of(&other)->vk.vkGetSemaphoreCounterValue = not_yet;
		device_of(&other)->vk.vkWaitSemaphores = never_end;
		EQ(bench_start(&other, &task, 0, task.n, &flight), 0);
		EQ(b.backend->arm(other.dev), 0);
		(void)gm_stream_lose(&device_of(&other)->gpu, 1, "as asked");
		EQ(b.backend->ended(other.dev, &flight), -ENOTRECOVERABLE);
	}
	bench_close(&other);
}

/* A full device is none that is lost, and memory that the driver refuses to
 * reach is staged. */
static void what_fails_alone_loses_nothing(void)
{
	PFN_vkGetMemoryHostPointerPropertiesEXT reach;
	struct gm_region *region = NULL;
	struct gm_buffer *none = NULL;
	char *client = bench_map(PAGE);
	PFN_vkAllocateMemory allocate = vulkan()->vk.vkAllocateMemory;

	vulkan()->vk.vkAllocateMemory = fail_memory;
	EQ(b.backend->alloc(b.dev, 1, UINT64_C(9) << 20, 0, &none), -ENOMEM);
	EQ(b.backend->alloc(b.dev, 1, PAGE, GPUMAP_BUFFER_EXPORTABLE, &none),
	   -ENOMEM);
	OK(none == NULL);
	vulkan()->vk.vkAllocateMemory = allocate;
	reach = vulkan()->vk.vkGetMemoryHostPointerPropertiesEXT;
	vulkan()->vk.vkGetMemoryHostPointerPropertiesEXT = fail_pointer;
	EQ(b.backend->reach(b.dev, client, PAGE, false, &region), 0);
	vulkan()->vk.vkGetMemoryHostPointerPropertiesEXT = reach;
	if (OK(region)) {
		EQ(region->address, 0);
		b.backend->unreach(b.dev, region);
	}
	munmap(client, PAGE);
	EQ(trials_failed(&b, 100), 0);
}

/* ---- opening ------------------------------------------------------------- */

static void what_is_no_device_is_refused(void)
{
	struct gm_device_config config = { .library = "/no/such.json" };
	struct gm_backend_device *none = NULL;
	int code = 0;

	EQ(gm_vulkan_backend.open(&config, &none), -ENOENT);
	config.library = NULL;
	EQ(gm_vulkan_backend.open(&config, &none), -ENOENT);
	config.library = "/dev/null";
	EQ(gm_vulkan_backend.open(&config, &none), -ELIBBAD);
	OK(strstr(gm_vulkan_backend.fault(NULL, &code), "names no driver"));
	config.library = manifest;
	config.uuid = "77";
	EQ(gm_vulkan_backend.open(&config, &none), -ENODEV);
	OK(strstr(gm_vulkan_backend.fault(NULL, &code), "none is 77"));
	config.uuid = "GPU-1";
	EQ(gm_vulkan_backend.open(&config, &none), -ENODEV);
	/* A second driver in a process is refused. */
	config.uuid = NULL;
	config.library = "/dev/zero";
	EQ(gm_vulkan_backend.open(&config, &none), -EBUSY);
	OK(none == NULL);
}

static void everything_in_place_and_staged(void)
{
	struct {
		uint32_t flags;
		bool is_reached;
	} const ways[] = { { 0, false },
			   { GM_GPU_REACH | GM_GPU_READ_ONLY, true } };

	for (int i = 0; i < 2; i++) {
		if (!bench_reach(&b, ways[i].flags))
			return;
		EQ(b.region->address != 0, ways[i].is_reached);
		gpu_cases_work(&b);
		gpu_cases_large(&b);
		gpu_cases_memory(&b);
		clients_kernels_run(&b);
	}
}

/* As on a device that flushes subnormals and has no f64. */
static void integers_compute_the_same(void)
{
	struct gm_vulkan *device = vulkan();

	gm_vulkan_operators_close(device);
	free(device->kernels);
	device->has_f32 = device->has_f64 = false;
	EQ(gm_vulkan_operators(device), 0);
	operators_are_those_of_others();
	gm_stream_find_kernels((struct gm_stream *)b.dev);
	gpu_cases_work(&b);
}

TAP_CASE()
{
	char cache[] = "/tmp/gpumap-test-mesa.XXXXXX", drop[64];

	find_manifest();
	if (access(manifest, R_OK) < 0) {
		LACK("vulkan", 1, "there is no lvp_icd.json of llvmpipe");
		return tap_done();
	}
	/* Not in the user's home.  Without one each device that is opened
	 * compiles all operators. */
	if (!OK(mkdtemp(cache)))
		return tap_done();
	setenv("MESA_SHADER_CACHE_DIR", cache, 1);
	if (!OK(start_child()))
		return tap_done();
	has_layer = vulkan_layer_open();
	what_is_no_device_is_refused();
	b.backend = &gm_vulkan_backend;
	b.library = manifest;
	if (bench_is_open(&b, "vulkan")) {
		NOTE("%s", b.dev->took);
		EQ(b.region->address != 0, !vulkan()->is_cpu);
		nothing_may_be_fused();
		operators_are_those_of_others();
		gpu_cases_taken_away(&b);
		two_processes_share_memory();
		everything_in_place_and_staged();
		memory_within_a_page_is_staged();
		groups_go_in_rows();
		a_group_too_many_writes_nothing();
		a_lane_waits_by_a_semaphore();
		integers_compute_the_same();
		a_large_piece_is_refused();
		imports_leave_nothing();
		other_modules_are_refused();
		what_fails_alone_loses_nothing();
		a_device_is_lost_by_any_call();
		what_never_ends_is_not_waited_for();
		the_layer_was_silent();
	}
	bench_close(&b);
	vulkan_layer_close();
	snprintf(drop, sizeof(drop), "rm -rf '%s'", cache);
	EQ(system(drop), 0);
	return tap_done();
}

#endif
