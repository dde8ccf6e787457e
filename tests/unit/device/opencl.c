/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * opencl: the same of a row of OpenCL, and what is its own.
 *
 * $GM_OPENCL_LIBRARY names the vendor's library; without it PoCL's is taken,
 * which keeps what it compiles in a folder of the test's own.
 */

#include <fcntl.h>
#include <ftw.h>
#include <signal.h>

#include "agent/device/opencl.h"
#include "tests/support/gpu_cases.h"
#include "tests/support/spirv_kernel.h"

static struct bench b;
static char cache[] = "/tmp/gpumap-test-opencl.XXXXXX";

/* ---- the library --------------------------------------------------------- */

static void read_icd(char ret_library[256])
{
	FILE *icd = fopen("/etc/OpenCL/vendors/pocl.icd", "r");
	const char *named = getenv("GM_OPENCL_LIBRARY");

	ret_library[0] = '\0';
	if (icd && fgets(ret_library, 256, icd))
		ret_library[strcspn(ret_library, "\n")] = '\0';
	if (icd)
		fclose(icd);
	if (named)
		snprintf(ret_library, 256, "%s", named);
}

static bool is_pocl(void)
{
	return strstr(b.library, "pocl") != NULL;
}

static int remove_one(const char *path, const struct stat *status, int type,
		      struct FTW *at)
{
	(void)status;
	(void)type;
	(void)at;
	return remove(path);
}

static void cache_drop(void)
{
	nftw(cache, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* For LeakSanitizer: what compilers and Vulkan's libraries, of vulkan.c in the
 * same program, leave behind is no fault of ours. */
__attribute__((visibility("default"))) const char *
__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:libpocl\nleak:libLLVM\nleak:libclang\n"
	       "leak:libvulkan\nleak:libVkLayer\n";
}

/* ---- what is its own ----------------------------------------------------- */

static void on_signal(int number)
{
	(void)number;
}

static bool is_ours(int number)
{
	struct sigaction now;

	return sigaction(number, NULL, &now) == 0 &&
	       now.sa_handler == on_signal;
}

/* As a worker has them. */
static const int ignored[] = { SIGHUP, SIGINT, SIGPIPE, SIGTERM };

static void handlers_stay_ours(void)
{
	struct sigaction now;

	OK(is_ours(SIGBUS));
	OK(is_ours(SIGSEGV));
	OK(is_ours(SIGSYS));
	for (int i = 0; i < 4; i++)
		OK(sigaction(ignored[i], NULL, &now) == 0 &&
		   now.sa_handler == SIG_IGN);
}

static struct gm_opencl *device_of(const struct bench *u)
{
	return (struct gm_opencl *)((struct gm_stream *)u->dev)->gpu;
}

static struct gm_opencl *opencl(void)
{
	return device_of(&b);
}

/* One piece of memory has an end before all memory has. */
static void a_large_piece_is_refused(void)
{
	uint64_t most = opencl()->alloc_max;
	struct gm_buffer *none = NULL;
	struct gm_device_memory before, after;

	EQ(b.backend->memory(b.dev, &before), 0);
	opencl()->alloc_max = UINT64_C(64) << 20;
	EQ(b.backend->alloc(b.dev, 1, (UINT64_C(64) << 20) + 1, 0, &none),
	   -ENOMEM);
	EQ(b.backend->alloc(b.dev, 1, 4096, GPUMAP_BUFFER_EXPORTABLE, &none),
	   -EOPNOTSUPP);
	OK(none == NULL);
	EQ(b.backend->memory(b.dev, &after), 0);
	OK(after.free >= before.free);
	opencl()->alloc_max = most;
}

/* ---- programs ------------------------------------------------------------ */

static const char square[] =
	"struct params { float alpha; };"
	"__kernel void square(__global uchar *dst, ulong dst_at,"
	"		     __global uchar *src, ulong src_at, ulong n,"
	"		     struct params params)"
	"{"
	"	__global float *to = (__global float *)(dst + dst_at);"
	"	__global const float *from ="
	"		(__global const float *)(src + src_at);"
	"	size_t i = get_global_id(0);"
	"	if (i < n)"
	"		to[i] = params.alpha * from[i] * from[i];"
	"}";

static void clients_kernels_run(struct bench *u)
{
	char why[GM_KERNEL_WHY_BYTES] = "";
	struct gm_async_exec flight;
	struct gm_kernel *kernel, *none = NULL;
	struct gm_task task;

	EQ(u->backend->load_kernel(u->dev, BENCH_TEXT(square, "cube"), &none,
				   why),
	   -ENOENT);
	OK(strstr(why, "no kernel cube"));
	EQ(u->backend->load_kernel(u->dev,
				   BENCH_TEXT("kernel void x() { y(); }", "x"),
				   &none, why),
	   -ENOEXEC);
	OK(why[0] && !strpbrk(why, "\n\t"));
	NOTE("%s", why);
	OK(none == NULL);
	if (!bench_square(u, BENCH_TEXT(square, "square"), &kernel, &task))
		return;
	task.mask_n = 0;
	EQ(bench_start(u, &task, 0, task.n, &flight), -EINVAL);
	u->backend->unload_kernel(u->dev, kernel);
}

/* Where the device takes them; elsewhere the refusal names what it takes. */
static void modules_of_spirv_run(void)
{
	uint32_t words[SPIRV_KERNEL_WORDS];
	const struct gm_kernel_image image = {
		words, spirv_kernel(words) * sizeof(words[0]), "square"
	};
	char why[GM_GPU_WHY_BYTES], said[GM_KERNEL_WHY_BYTES] = "";
	struct gm_kernel *kernel, *none = NULL;
	struct gm_async_exec flight;
	struct gm_task task;
	bool takes = gm_opencl_il(opencl()->device, words[1], why);

	if (takes && bench_square(&b, &image, &kernel, &task)) {
		task.mask_n = 0;
		EQ(bench_start(&b, &task, 0, task.n, &flight), -EINVAL);
		b.backend->unload_kernel(b.dev, kernel);
	}
	words[1] = takes ? 0x00020000 : words[1];
	EQ(b.backend->load_kernel(b.dev, &image, &none, said), -ENOEXEC);
	if (!OK(strstr(said, takes ? "of SPIR-V 2.0, and this row takes "
				     "OpenCL C and SPIR-V_1."
				   : "this row takes OpenCL C alone")))
		NOTE("%s", said);
	OK(none == NULL);
	if (!takes)
		LACK("opencl-spirv", 1, "the device takes no SPIR-V");
}

/* A library would take a client's numbers for pointers of its own. */
static void kernels_of_another_form_are_refused(void)
{
#define DST   "__global uchar *dst, ulong dst_at, "
#define SRC   "__global uchar *src, ulong src_at, "
#define OF(a) "typedef sampler_t mine; __kernel void odd(" a ") { }"
	static const struct {
		const char *text, *why;
	} odd[] = {
		{ "__kernel void odd(void) { }", "argument 1 of kernel odd" },
		{ OF("image2d_t dst, ulong dst_at, " SRC "ulong n"),
		  "argument 1 of" },
		{ OF("__global uchar *dst, mine dst_at, " SRC "ulong n"),
		  "argument 2 of" },
		{ OF(DST "ulong src, ulong src_at, ulong n"), "argument 3 of" },
		{ OF(DST "__local uchar *src, ulong src_at, ulong n"),
		  "argument 3 of" },
		{ OF(DST SRC "__global uchar *n"), "argument 5 of" },
		{ OF(DST SRC "ulong n, __global uchar *params"),
		  "argument 6 of" },
		{ OF(DST SRC "ulong n, mine params"), "argument 6 of" },
		{ "struct params { uint x; };" OF(
			  DST SRC "ulong n, struct params params, uint more"),
		  "argument 7 of" },
	};
	char why[GM_KERNEL_WHY_BYTES];
	struct gm_kernel *none = NULL;

	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		why[0] = '\0';
		EQ(b.backend->load_kernel(b.dev, BENCH_TEXT(odd[i].text, "odd"),
					  &none, why),
		   -ENOEXEC);
		if (!OK(strstr(why, odd[i].why)))
			NOTE("%s", why);
	}
	OK(none == NULL);
}

/* A launch would end the process on PoCL 3.1.  PoCL 6 does not say how much a
 * kernel has. */
static void too_much_local_memory_is_refused(void)
{
	static const char text[] = "__kernel void odd(" DST SRC "ulong n)"
				   "{"
				   "	__local uchar all[1 << 30];"
				   "	all[get_local_id(0)] = (uchar)n;"
				   "	barrier(CLK_LOCAL_MEM_FENCE);"
				   "	dst[dst_at + get_local_id(0)] = all[1];"
				   "}";
	char why[GM_KERNEL_WHY_BYTES] = "";
	struct gm_kernel *kernel = NULL;
	int rc = b.backend->load_kernel(b.dev, BENCH_TEXT(text, "odd"), &kernel,
					why);

	if (rc == 0) {
		b.backend->unload_kernel(b.dev, kernel);
		LACK("opencl-local-size", 1,
		     "the library does not say how much local memory a kernel "
		     "has");
		return;
	}
	EQ(rc, -ENOEXEC);
	/* The compilers of others may end at it. */
	if (!OK(strstr(why, "local memory") || (why[0] && !is_pocl())))
		NOTE("%s", why);
}

/* ---- staging ------------------------------------------------------------- */

/* Without memory that the device reaches everything goes through staging, which
 * kernels use in place or, of a device whose memory is apart, in a twin. */
static void staging_makes_no_difference(bool is_apart)
{
	struct bench other;

	if (bench_again(&b, "opencl", &other)) {
		device_of(&other)->is_apart = is_apart;
		OK(bench_reach(&other, 0) && other.region->address == 0);
		EQ(trials_failed(&other, 1000), 0);
		clients_kernels_run(&other);
	}
	bench_close(&other);
}

/* ---- floats -------------------------------------------------------------- */

/* As on a device that flushes subnormals and has no f64. */
static void integers_compute_the_same(void)
{
	struct gm_opencl *device;
	struct bench other;

	if (bench_again(&b, "opencl", &other)) {
		device = device_of(&other);
		gm_opencl_operators_close(device);
		device->has_f32 = device->has_f64 = device->keeps = false;
		device->n_kernels = 0;
		EQ(gm_opencl_operators(device), 0);
		gm_stream_find_kernels((struct gm_stream *)other.dev);
		gpu_cases_work(&other);
	}
	bench_close(&other);
}

/* ---- faults -------------------------------------------------------------- */

/* The library's functions, of which some fail. */
static struct gm_opencl_calls bent;

/* Where the event of a refused launch would go, and how often that moved. */
static gm_cl *place;
static uint32_t n_places;

static gm_cl_int fail_launch(gm_cl queue, gm_cl kernel, gm_cl_uint dimensions,
			     const size_t *first, const size_t *items,
			     const size_t *group, gm_cl_uint n,
			     const gm_cl *after, gm_cl *ret_event)
{
	(void)queue;
	(void)kernel;
	(void)dimensions;
	(void)first;
	(void)items;
	(void)group;
	(void)n;
	(void)after;
	n_places += ret_event != place;
	place = ret_event;
	return GM_CL_OUT_OF_RESOURCES;
}

static gm_cl_int tell_failure(gm_cl event, gm_cl_int status,
			      void (*notify)(gm_cl, gm_cl_int, void *),
			      void *arg)
{
	(void)status;
	notify(event, -9999, arg); /* a vendor's own */
	return GM_CL_SUCCESS;
}

static gm_cl fail_buffer(gm_cl context, gm_cl_ulong flags, size_t bytes,
			 void *host, gm_cl_int *ret_error)
{
	(void)context;
	(void)flags;
	(void)bytes;
	(void)host;
	*ret_error = GM_CL_MEM_OBJECT_ALLOCATION_FAILURE;
	return NULL;
}

static gm_cl (*create_buffer)(gm_cl, gm_cl_ulong, size_t, void *, gm_cl_int *);

static gm_cl fail_read_only(gm_cl context, gm_cl_ulong flags, size_t bytes,
			    void *host, gm_cl_int *ret_error)
{
	if (!(flags & GM_CL_MEM_READ_ONLY))
		return create_buffer(context, flags, bytes, host, ret_error);
	*ret_error = -37; /* CL_INVALID_HOST_PTR */
	return NULL;
}

static bool bend(struct bench *other)
{
	struct gm_opencl *device;

	if (!bench_again(&b, "opencl", other))
		return false;
	device = device_of(other);
	bent = *device->cl;
	device->cl = &bent;
	return true;
}

static gm_cl_int fail_read(gm_cl queue, gm_cl memory, gm_cl_uint blocking,
			   size_t offset, size_t bytes, void *to, gm_cl_uint n,
			   const gm_cl *after, gm_cl *ret_event)
{
	(void)queue;
	(void)memory;
	(void)blocking;
	(void)offset;
	(void)bytes;
	(void)to;
	(void)n;
	(void)after;
	(void)ret_event;
	return GM_CL_OUT_OF_HOST_MEMORY;
}

static gm_cl_int (*finish)(gm_cl queue);
static uint32_t n_finished;

static gm_cl_int count_finish(gm_cl queue)
{
	n_finished++;
	return finish(queue);
}

static gm_cl_int (*release_event)(gm_cl event);
static uint32_t n_released;

static gm_cl_int count_release(gm_cl event)
{
	n_released++;
	return release_event(event);
}

static void faults_are_told_apart(void)
{
	struct gm_buffer *none = NULL;
	struct gm_task task;
	struct bench other;

	if (bend(&other)) {
		task = bench_task(&other, 1);
		bent.clEnqueueNDRangeKernel = fail_launch;
		gpu_cases_lost(&other, bench_run(&other, &task),
			       GM_CL_OUT_OF_RESOURCES);
	}
	bench_close(&other);
	if (bend(&other)) {
		task = bench_task(&other, 1);
		bent.clSetEventCallback = tell_failure;
		gpu_cases_lost(&other, bench_run(&other, &task), -9999);
	}
	bench_close(&other);
	/* A full device is none that is lost. */
	if (bend(&other)) {
		bent.clCreateBuffer = fail_buffer;
		EQ(other.backend->alloc(other.dev, 1, UINT64_C(9) << 20, 0,
					&none),
		   -ENOMEM);
		OK(none == NULL);
		EQ(trials_failed(&other, 100), 0);
	}
	bench_close(&other);
}

/* A kernel whose results cannot be brought back has ended: its staging is the
 * next slice's. */
static void a_launch_that_fails_leaves_nothing(void)
{
	struct gm_async_exec flight;
	struct gm_task task;
	struct bench other;

	if (bend(&other)) {
		task = bench_task(&other, 2);
		device_of(&other)->is_apart = true;
		OK(bench_reach(&other, 0));
		task.dst = other.client;
		finish = bent.clFinish;
		bent.clFinish = count_finish;
		release_event = bent.clReleaseEvent;
		bent.clReleaseEvent = count_release;
		bent.clEnqueueReadBuffer = fail_read;
		EQ(bench_start(&other, &task, 0, task.n, &flight), -ENOMEM);
		EQ(n_finished, 1);
		EQ(n_released, 2); /* of dst's copy and of the kernel */
	}
	bench_close(&other);
}

/* ---- work that fails by itself, later ------------------------------------ */

static gm_cl late_context;
static gm_cl_int (*fill)(gm_cl, gm_cl, const void *, size_t, size_t, size_t,
			 gm_cl_uint, const gm_cl *, gm_cl *);
static gm_cl_int (*launch)(gm_cl, gm_cl, gm_cl_uint, const size_t *,
			   const size_t *, const size_t *, gm_cl_uint,
			   const gm_cl *, gm_cl *);

/* An event of ours: work that is put on its lane behind it fails there. */
static gm_cl event_to_fail(void)
{
	gm_cl (*create)(gm_cl context, gm_cl_int * ret_error);
	gm_cl_int error = GM_CL_SUCCESS;
	gm_cl event;

	memcpy(&create, &late_context->calls[84], sizeof(create));
	event = create(late_context, &error);
	EQ(error, GM_CL_SUCCESS);
	return event;
}

static void fail_event(gm_cl event)
{
	gm_cl_int (*set)(gm_cl event, gm_cl_int status);

	memcpy(&set, &event->calls[85], sizeof(set));
	EQ(set(event, GM_CL_MEM_OBJECT_ALLOCATION_FAILURE), GM_CL_SUCCESS);
	(void)bent.clReleaseEvent(event);
}

static gm_cl_int fail_fill_late(gm_cl queue, gm_cl memory, const void *pattern,
				size_t pattern_bytes, size_t offset,
				size_t bytes, gm_cl_uint n, const gm_cl *after,
				gm_cl *ret_event)
{
	gm_cl event = event_to_fail();
	gm_cl_int error = fill(queue, memory, pattern, pattern_bytes, offset,
			       bytes, 1, &event, ret_event);

	(void)n;
	(void)after;
	fail_event(event);
	return error;
}

static gm_cl_int fail_launch_late(gm_cl queue, gm_cl kernel,
				  gm_cl_uint dimensions, const size_t *first,
				  const size_t *items, const size_t *group,
				  gm_cl_uint n, const gm_cl *after,
				  gm_cl *ret_event)
{
	gm_cl event = event_to_fail();
	gm_cl_int error = launch(queue, kernel, dimensions, first, items, group,
				 1, &event, ret_event);

	(void)n;
	(void)after;
	fail_event(event);
	return error;
}

/* Memory that could not be cleared is not handed out. */
static void what_fails_later_is_met(void)
{
	struct gm_buffer *none = NULL;
	struct bench other;

	if (bend(&other)) {
		late_context = device_of(&other)->context;
		fill = bent.clEnqueueFillBuffer;
		bent.clEnqueueFillBuffer = fail_fill_late;
		EQ(other.backend->alloc(other.dev, 2, UINT64_C(9) << 20, 0,
					&none),
		   -ENOTRECOVERABLE);
		OK(none == NULL);
	}
	bench_close(&other);
}

/* PoCL calls back for an event that failed as if it had not.  Apart, results
 * that were not computed are brought back behind it. */
static void a_slice_that_fails_is_met(bool is_apart)
{
	struct gm_task task;
	struct bench other;

	if (bend(&other)) {
		task = bench_task(&other, 2);
		if (is_apart) {
			device_of(&other)->is_apart = true;
			OK(bench_reach(&other, 0));
			task.dst = other.client;
		}
		late_context = device_of(&other)->context;
		launch = bent.clEnqueueNDRangeKernel;
		bent.clEnqueueNDRangeKernel = fail_launch_late;
		EQ(bench_run(&other, &task), -ENOTRECOVERABLE);
	}
	bench_close(&other);
}

/* The first callback, which comes behind the second. */
static struct held {
	gm_cl event;
	void (*notify)(gm_cl, gm_cl_int, void *);
	void *arg;
} held;
static gm_cl_int (*set_callback)(gm_cl, gm_cl_int,
				 void (*)(gm_cl, gm_cl_int, void *), void *);

static gm_cl_int hold_first(gm_cl event, gm_cl_int status,
			    void (*notify)(gm_cl, gm_cl_int, void *), void *arg)
{
	if (held.event)
		return set_callback(event, status, notify, arg);
	held = (struct held){ event, notify, arg };
	return GM_CL_SUCCESS;
}

/* The word of a lane goes beyond a mark whose callback has not come. */
static void a_slice_that_fails_is_met_in_any_order(void)
{
	struct gm_async_exec first, second;
	struct gm_task task;
	struct bench other;

	if (bend(&other)) {
		task = bench_task(&other, 1);
		late_context = device_of(&other)->context;
		launch = bent.clEnqueueNDRangeKernel;
		set_callback = bent.clSetEventCallback;
		bent.clSetEventCallback = hold_first;
		bent.clEnqueueNDRangeKernel = fail_launch_late;
		EQ(bench_start(&other, &task, 0, task.n, &first), 0);
		bent.clEnqueueNDRangeKernel = launch;
		EQ(bench_start(&other, &task, 0, task.n, &second), 0);
		EQ(first.lane, second.lane);
		EQ(bench_wait(&other, &second), -ENOTRECOVERABLE);
		EQ(bench_wait(&other, &first), -ENOTRECOVERABLE);
		held.notify(held.event, GM_CL_MEM_OBJECT_ALLOCATION_FAILURE,
			    held.arg);
	}
	bench_close(&other);
}

static gm_cl_int (*event_info)(gm_cl, gm_cl_uint, size_t, void *, size_t *);

static gm_cl_int say_running(gm_cl event, gm_cl_uint what, size_t bytes,
			     void *ret, size_t *ret_bytes)
{
	const gm_cl_int running = 1;

	if (event != held.event)
		return event_info(event, what, bytes, ret, ret_bytes);
	memcpy(ret, &running, sizeof(running));
	return GM_CL_SUCCESS;
}

/* A library says that work has not ended, and that what is behind it, on its
 * lane or on another, has. */
static void a_lane_that_is_out_of_order_is_lost(bool is_other)
{
	struct gm_async_exec first, second;
	struct gm_task task, next;
	struct bench other;

	held.event = NULL;
	if (bend(&other)) {
		task = bench_task(&other, 1);
		next = is_other ? trial_copy(&other, 0, false) : task;
		set_callback = bent.clSetEventCallback;
		bent.clSetEventCallback = hold_first;
		event_info = bent.clGetEventInfo;
		bent.clGetEventInfo = say_running;
		EQ(bench_start(&other, &task, 0, task.n, &first), 0);
		EQ(bench_start(&other, &next, 0, next.n, &second), 0);
		EQ(first.lane != second.lane, is_other);
		EQ(bench_wait(&other, &second), -ENOTRECOVERABLE);
		held.notify(held.event, GM_CL_COMPLETE, held.arg);
	}
	bench_close(&other);
}

/* A library may call back when the device is closed; and work of one that is
 * lost may never end, so that it is not waited for. */
static void a_callback_may_come_late(void)
{
	struct gm_async_exec first;
	struct gm_task task;
	struct bench other;

	held.event = NULL;
	if (bend(&other)) {
		task = bench_task(&other, 1);
		set_callback = bent.clSetEventCallback;
		bent.clSetEventCallback = hold_first;
		EQ(bench_start(&other, &task, 0, task.n, &first), 0);
		(void)gm_stream_lose(&device_of(&other)->gpu, 1, "as asked");
		finish = bent.clFinish;
		bent.clFinish = count_finish;
	}
	n_finished = 0;
	bench_close(&other);
	EQ(n_finished, 0);
	if (OK(held.event))
		held.notify(held.event, GM_CL_COMPLETE, held.arg);
}

/* Whatever the library says of it. */
static void what_is_not_reached_is_staged(void)
{
	struct gm_region *region = NULL;
	struct bench other;
	char *client = bench_map(4096);

	if (bend(&other)) {
		create_buffer = bent.clCreateBuffer;
		bent.clCreateBuffer = fail_read_only;
		EQ(other.backend->reach(other.dev, client, 4096, false,
					&region),
		   0);
		if (OK(region)) {
			EQ(region->address, 0);
			other.backend->unreach(other.dev, region);
		}
	}
	bench_close(&other);
	munmap(client, 4096);
}

/* A client's kernel may need more registers, say, than a group has. */
static void a_kernel_that_needs_too_much_is_refused(void)
{
	char why[GM_KERNEL_WHY_BYTES];
	struct gm_kernel *kernel = NULL;
	struct gm_async_exec flight;
	struct bench other;
	float alpha = 1;
	struct gm_task task = { .op = GPUMAP_OP_RUN,
				.dtype = GPUMAP_DTYPE_F32,
				.n = 1,
				.mask = &alpha,
				.mask_n = sizeof(alpha) };

	if (bend(&other) &&
	    EQ(other.backend->load_kernel(
		       other.dev, BENCH_TEXT(square, "square"), &kernel, why),
	       0)) {
		task.kernel = kernel;
		bent.clEnqueueNDRangeKernel = fail_launch;
		n_places = 0;
		for (int i = 0; i < 10; i++)
			EQ(bench_start(&other, &task, 0, 1, &flight), -EINVAL);
		EQ(n_places, 1); /* a client takes no memory so */
		OK(!gm_stream_is_lost(&device_of(&other)->gpu));
		other.backend->unload_kernel(other.dev, kernel);
	}
	bench_close(&other);
}

/* ---- opening ------------------------------------------------------------- */

static void what_is_no_device_is_refused(const char *library)
{
	struct gm_device_config config = { .library = "libno-such.so" };
	struct gm_backend_device *none = NULL;
	int code = 0;

	EQ(gm_opencl_backend.open(&config, &none), -ENOENT);
	config.library = NULL;
	EQ(gm_opencl_backend.open(&config, &none), -ENOENT);
	config.library = "libm.so.6";
	EQ(gm_opencl_backend.open(&config, &none), -ELIBBAD);
	OK(strstr(gm_opencl_backend.fault(NULL, &code), "libm.so.6 is no"));
	config.library = library;
	config.uuid = "77";
	EQ(gm_opencl_backend.open(&config, &none), -ENODEV);
	OK(strstr(gm_opencl_backend.fault(NULL, &code), "none is 77"));
	config.uuid = NULL;
	config.builder = "/no/gpumap-build";
	config.cache = cache;
	EQ(gm_opencl_backend.open(&config, &none), -ENOENT);
	OK(strstr(gm_opencl_backend.fault(NULL, &code),
		  "/no/gpumap-build cannot be started"));
	/* A second library in a process is refused. */
	config.uuid = NULL;
	config.library = "libm.so.6";
	EQ(gm_opencl_backend.open(&config, &none), -EBUSY);
	OK(none == NULL);
}

/* Operators are there without gpumap-build, and without a folder that has this
 * text's they are not. */
static void operators_are_kept(void)
{
	struct gm_device_config config = { .library = b.library,
					   .builder = "/bin/false",
					   .cache = cache,
					   .operators = cache };
	struct gm_backend_device *dev = NULL;
	struct bench other;
	char path[64], byte = 0;
	int fd;

	if (EQ(b.backend->open(&config, &dev), 0))
		b.backend->close(dev);
	snprintf(path, sizeof(path), "%s/operators-any", cache);
	fd = open(path, O_RDWR | O_CLOEXEC);
	/* The device's name, as the file has it, becomes another's. */
	OK(fd >= 0 && pread(fd, &byte, 1, 0) == 1);
	byte ^= 1;
	EQ(pwrite(fd, &byte, 1, 0), 1);
	OK(b.backend->open(&config, &dev) < 0);
	if (bench_again(&b, "opencl", &other))
		EQ(trials_failed(&other, 100), 0);
	bench_close(&other);
	if (EQ(b.backend->open(&config, &dev), 0))
		b.backend->close(dev);
	close(fd);
	config.operators = "/no/folder";
	OK(b.backend->open(&config, &dev) < 0);
}

TAP_CASE()
{
	const struct sigaction action = { .sa_handler = on_signal };
	static char library[256];

	read_icd(library);
	if (!library[0]) {
		LACK("opencl", 1, "there is no /etc/OpenCL/vendors/pocl.icd");
		return tap_done();
	}
	if (!OK(mkdtemp(cache)))
		return tap_done();
	setenv("POCL_CACHE_DIR", cache, 1);
	/* Else each kernel is linked for each size of a launch. */
	setenv("POCL_WORK_GROUP_SPECIALIZATION", "0", 1);
	sigaction(SIGBUS, &action, NULL);
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGSYS, &action, NULL);
	for (int i = 0; i < 4; i++)
		signal(ignored[i], SIG_IGN);
	what_is_no_device_is_refused(library);
	b.backend = &gm_opencl_backend;
	b.library = library;
	b.cache = b.operators = cache;
	if (bench_is_open(&b, "opencl")) {
		NOTE("%s", b.dev->took);
		handlers_stay_ours();
		gpu_cases_work(&b);
		gpu_cases_large(&b);
		gpu_cases_memory(&b);
		a_large_piece_is_refused();
		gpu_cases_taken_away(&b);
		clients_kernels_run(&b);
		modules_of_spirv_run();
		kernels_of_another_form_are_refused();
		too_much_local_memory_is_refused();
		operators_are_kept();
		staging_makes_no_difference(false);
		staging_makes_no_difference(true);
		integers_compute_the_same();
		faults_are_told_apart();
		if (b.region->address)
			a_launch_that_fails_leaves_nothing();
		what_is_not_reached_is_staged();
		what_fails_later_is_met();
		/* OpenCL leaves open what comes behind work that failed. */
		if (is_pocl()) {
			a_slice_that_fails_is_met(false);
			a_slice_that_fails_is_met(true);
			a_slice_that_fails_is_met_in_any_order();
		}
		a_lane_that_is_out_of_order_is_lost(false);
		a_lane_that_is_out_of_order_is_lost(true);
		a_callback_may_come_late();
		a_kernel_that_needs_too_much_is_refused();
		handlers_stay_ours();
	}
	bench_close(&b);
	cache_drop();
	return tap_done();
}
