/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Programs on CUDA rows: device code of the administrator's directory and of
 * clients, what it does, and what is refused.
 */

#include <sys/mman.h>

#include "lib/internal.h"
#include "tests/support/kernel_agent.h"

#define LARGE (UINT32_C(512) << 10)

/* ---- what it does -------------------------------------------------------- */

static void it_runs(struct gpumap_session *session, uint64_t square)
{
	float *memory = some_memory(session, card);
	struct gpumap_job job = square_job(square, memory);

	EQ(story_run(session, card, &job), 0);
	OK(squared(memory, 3));
	memory[3 * ITEMS] = 0.5f;
	job.dst = memory; /* in place */
	EQ(story_run(session, card, &job), 0);
	memcpy(memory + ITEMS, memory, 4 * ITEMS);
	OK(squared(memory, 0.5f));
	gpumap_free(session, memory);
}

static int copy_job(struct gpumap_session *session, uint64_t to, float *dst,
		    uint64_t from, float *src)
{
	struct gpumap_job job = { .op = GPUMAP_OP_COPY,
				  .dtype = GPUMAP_DTYPE_F32,
				  .dst_buffer = to,
				  .dst = dst,
				  .src_buffer = from,
				  .src = src,
				  .n = ITEMS };

	return story_run(session, card, &job);
}

/* In memory of the card's own, with operators before and behind it. */
static void it_runs_in_buffers(struct gpumap_session *session, uint64_t square)
{
	float *memory = some_memory(session, card);
	struct gpumap_job job = square_job(square, memory);
	uint64_t from = 0, to = 0;

	EQ(gpumap_buffer_alloc(session, card, 4 * ITEMS, 0, GPUMAP_NO_DEADLINE,
			       &from),
	   0);
	EQ(gpumap_buffer_alloc(session, card, 8 * ITEMS, 0, GPUMAP_NO_DEADLINE,
			       &to),
	   0);
	EQ(copy_job(session, from, NULL, 0, memory), 0);
	job.src_buffer = from;
	job.dst_buffer = to;
	EQ(story_run(session, card, &job), 0);
	EQ(copy_job(session, 0, memory + ITEMS, to, NULL), 0);
	OK(squared(memory, 3));
	/* Neither apart nor the same. */
	job.src_buffer = to;
	job.src_at = 4;
	EQ(story_run(session, card, &job), -EINVAL);
	job.src_at = 4 * ITEMS;
	EQ(story_run(session, card, &job), 0);
	job.src_at += 4;
	EQ(story_run(session, card, &job), -ERANGE);
	/* Another card's. */
	EQ(gpumap_buffer_free(session, from), 0);
	EQ(gpumap_buffer_alloc(session, other_card, 4 * ITEMS, 0,
			       GPUMAP_NO_DEADLINE, &from),
	   0);
	job.src_buffer = from;
	job.src_at = 0;
	EQ(story_run(session, card, &job), -EOPNOTSUPP);
	EQ(gpumap_buffer_free(session, from), 0);
	EQ(gpumap_buffer_free(session, to), 0);
	gpumap_free(session, memory);
}

static void the_launch_is_as_promised(struct gpumap_session *session)
{
	float *memory = some_memory(session, card);
	uint32_t *dst = (uint32_t *)(void *)(memory + 2 * ITEMS);
	uint32_t units = story_device(map, card).units;
	struct gpumap_job job;
	uint64_t program = 0;
	void *large = NULL;

	EQ(bring(session, card, "program_geometry", &program), 0);
	job = plain_job(program, memory);
	for (uint32_t n = 1; n <= ITEMS / 2; n += 255) {
		job.n = n;
		EQ(story_run(session, card, &job), 0);
		EQ(dst[0],
		   (n + GPUMAP_KERNEL_THREADS - 1) / GPUMAP_KERNEL_THREADS);
		EQ(dst[1], GPUMAP_KERNEL_THREADS);
	}
	gpumap_free(session, memory);
	/* No more than fill the card. */
	EQ(gpumap_alloc(session, card, LARGE, &large), 0);
	job.dst = large;
	job.dtype = GPUMAP_DTYPE_U8;
	job.dst_item_bytes = 1;
	job.n = LARGE;
	EQ(story_run(session, card, &job), 0);
	OK(8 * units * GPUMAP_KERNEL_THREADS < LARGE);
	EQ(*(uint32_t *)large, 8 * units);
	gpumap_free(session, large);
	/* An operand without bytes is 0, and there this one writes. */
	job.dst_item_bytes = 0;
	EQ(story_run(session, card, &job), -EIO);
	gpumap_program_unload(session, program);
}

static void wrong_jobs_are_refused(struct gpumap_session *session,
				   uint64_t square)
{
	float *memory = some_memory(session, card);
	struct gpumap_job job = square_job(square, memory);

	job.params_bytes = 8; /* the kernel has one float */
	EQ(story_run(session, card, &job), -EINVAL);
	job.params_bytes = 0;
	EQ(story_run(session, card, &job), -EINVAL);
	job.params_bytes = GPUMAP_PARAMS_MAX;
	job.params = memory;
	EQ(story_run(session, card, &job), -EINVAL);
	job = square_job(square, memory);
	job.n = 1 << 28;
	EQ(story_run(session, card, &job), -ERANGE);
	job.n = 0;
	EQ(story_run(session, card, &job), 0);
	/* None of that has harmed any client. */
	job = square_job(square, memory);
	EQ(story_run(session, card, &job), 0);
	OK(squared(memory, 3));
	gpumap_free(session, memory);
}

/* The same name on rows of both kinds: tests/support/programs/square.c and the
 * kernel. */
static void it_is_scattered(struct gpumap_session *session, uint64_t square)
{
	const uint32_t rows[] = { host, card, other_card };
	static const double weights[] = { 1, 2, 1 };
	struct gpumap_scatter_opts opts = { .size = sizeof(opts),
					    .rows = rows,
					    .weights = weights,
					    .n_rows = 3 };
	float *memory = some_memory(session, card);
	struct gpumap_job job = square_job(square, memory);
	struct gpumap_tile tiles[3];

	if (!EQ(gpumap_scatter(session, &job, &opts, tiles, 3), 3))
		NOTE("%s", gpumap_refusal(map));
	EQ(tiles[1].n, ITEMS / 2);
	OK(squared(memory, 3));
	gpumap_free(session, memory);
}

static void it_is_unloaded(struct gpumap_session *session, uint64_t square)
{
	float *memory = some_memory(session, card);
	struct gpumap_job job = square_job(square, memory);

	EQ(gpumap_program_unload(session, square), 0);
	EQ(story_run(session, card, &job), -ESTALE);
	EQ(gpumap_program_unload(session, square), -ESTALE);
	gpumap_free(session, memory);
}

static void they_do_their_work(void)
{
	struct gpumap_session *session;
	uint64_t square = 0, own = 0;
	pid_t worker;

	put("square", "square");
	put_bytes("square.ptx", all, sizeof(all) - 1);
	if (!begin("", "policy = any\n"))
		return;
	session = open_with(true);
	if (!OK(session != NULL) ||
	    !EQ(gpumap_program_load(session, card, "square", &square), 0)) {
		NOTE("%s", gpumap_refusal(map));
		agent_show_log(&agent);
		exit(1);
	}
	worker = program_worker(card);
	OK(worker > 0);
	OK(worker != (pid_t)story_device(map, card).worker_pid);
	it_runs(session, square);
	it_runs_in_buffers(session, square);
	wrong_jobs_are_refused(session, square);
	it_is_scattered(session, square);
	EQ(bring(session, other_card, NULL, &own), 0);
	it_runs(session, own); /* shown to @card by its first job */
	it_is_unloaded(session, own);
	it_is_unloaded(session, square);
	EQ(log_lines("event=worker_died", "", NULL), 0);
	the_launch_is_as_promised(session);
	gpumap_session_close(session);
	OK(gone_soon(program_worker(card)));
	stop();
}

/* ---- what is refused ----------------------------------------------------- */

static struct gpumap_session *asking;

static void refuse(uint32_t row, const void *image, uint64_t bytes,
		   const char *kernel, int want, const char *text)
{
	const struct gpumap_program_image ask = { .size = sizeof(ask),
						  .image = image,
						  .bytes = bytes,
						  .kernel = kernel };
	uint64_t program = 0;

	if (!EQ(gpumap_program_load_image(asking, row, &ask, &program), want) ||
	    !OK(strstr(gpumap_refusal(map), text) != NULL))
		NOTE("\"%s\" instead of \"%s\"", gpumap_refusal(map), text);
	EQ(program, 0);
}

static void refuse_name(const char *name, int want, const char *text)
{
	uint64_t program = 0;

	if (!EQ(gpumap_program_load(asking, card, name, &program), want) ||
	    !OK(strstr(gpumap_refusal(map), text) != NULL))
		NOTE("\"%s\" instead of \"%s\"", gpumap_refusal(map), text);
	EQ(program, 0);
}

static void images_are_checked(void)
{
	static const char broken[] = KERNEL_HEAD ".visible .entry x( {";
	static const char newer[] = ".version 99.0\n.target sm_52\n"
				    ".address_size 64\n";
	char huge[8192];
	uint64_t program = 0;
	struct gpumap_program_image ask = { .size = sizeof(ask) };

	refuse(card, broken, sizeof(broken) - 1, NULL, -ENOEXEC,
	       "CUDA 218 INVALID_PTX: ptxas application ptx input, line 1; "
	       "error : Parsing error near 'stand-in'");
	refuse(card, newer, sizeof(newer) - 1, NULL, -ENOEXEC,
	       "newer than the driver");
	refuse(card, "\177ELF", 4, NULL, -ENOEXEC, "cut off");
	refuse(card, "nothing", 7, NULL, -ENOEXEC, "neither PTX");
	refuse(card, all, sizeof(all) - 1, "absent", -ENOENT,
	       "no kernel absent");
	refuse(card, all, sizeof(all) - 1, "a b", -EINVAL, "a kernel's name");
	refuse(card, all, sizeof(all) - 1, "", -EINVAL, "a kernel's name");
	refuse(host, all, sizeof(all) - 1, NULL, -EOPNOTSUPP,
	       "the administrator's alone");
	memset(huge, '\n', sizeof(huge));
	refuse(card, huge, sizeof(huge), NULL, -EFBIG, "raise image-limit");
	EQ(gpumap_program_load_image(asking, card, &ask, &program), -EINVAL);
	ask.size = 4;
	EQ(gpumap_program_load_image(asking, card, &ask, &program), -EINVAL);
}

static void files_are_checked(void)
{
	static const char elf[] = "\177ELF";
	char huge[8192];

	memset(huge, '\n', sizeof(huge));
	refuse_name("absent", -ENOENT, "No such file");
	put_bytes("huge.ptx", huge, sizeof(huge));
	refuse_name("huge", -EFBIG, "raise image-limit");
	put_bytes("both.ptx", all, sizeof(all) - 1);
	put_bytes("both.cubin", elf, sizeof(elf) - 1);
	refuse_name("both", -ENOEXEC, "cut off");
	put_bytes("kernels.ptx", KERNEL_HEAD KERNEL_SPIN,
		  sizeof(KERNEL_HEAD KERNEL_SPIN) - 1);
	refuse_name("kernels", -ENOENT, "no kernel gpumap_program");
}

/* A fatbin with one text, as nvcc lays it out. */
static void fatbins_are_read(void)
{
	struct {
		uint32_t magic;
		uint16_t version, head_bytes;
		uint64_t bytes;
		uint16_t kind, entry_version;
		uint32_t entry_head_bytes;
		uint64_t entry_bytes;
		char rest[48];
		char text[sizeof(all)];
	} fatbin = {
		.magic = 0xba55ed50,
		.version = 1,
		.head_bytes = 16,
		.bytes = 64 + sizeof(all),
		.kind = 1,
		.entry_version = 0x101,
		.entry_head_bytes = 64,
		.entry_bytes = sizeof(all),
	};
	struct gpumap_program_image ask = { .size = sizeof(ask),
					    .image = &fatbin,
					    .bytes = 80 + sizeof(all) };
	uint64_t program = 0;
	float *memory;
	struct gpumap_job job;

	memcpy(fatbin.text, all, sizeof(all));
	EQ(gpumap_program_load_image(asking, card, &ask, &program), 0);
	memory = some_memory(asking, card);
	job = square_job(program, memory);
	EQ(story_run(asking, card, &job), 0);
	OK(squared(memory, 3));
	EQ(gpumap_program_unload(asking, program), 0);
	ask.bytes--;
	EQ(gpumap_program_load_image(asking, card, &ask, &program), -ENOEXEC);
}

/* Requests that the library does not send. */
static int ask(uint64_t handle, const char *kernel, int fd)
{
	struct gm_program_ask body = { .handle = handle, .row = card };
	struct gm_call call = { .type = GM_CONTROL_PROGRAM,
				.body = &body,
				.body_bytes = sizeof(body),
				.carries = fd >= 0 ? &fd : NULL };

	memcpy(body.name, kernel, strnlen(kernel, sizeof(body.name)));
	return gm_session_call(asking, &call, 0);
}

static int memfd_of(const void *bytes, size_t n, unsigned seals)
{
	int fd = memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || write(fd, bytes, n) != (ssize_t)n ||
	    fcntl(fd, F_ADD_SEALS, seals) != 0)
		exit(99);
	return fd;
}

static void requests_are_checked(void)
{
	const unsigned seals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;
	const uint64_t handle = gm_handle_make(77, GM_BUFFER_PROGRAM, 0, 77);
	char name[65];
	int fd = memfd_of(all, sizeof(all) - 1, seals & ~F_SEAL_WRITE);

	EQ(ask(handle, "gpumap_program", -1), -ENOENT);
	EQ(ask(handle, "gpumap_program", fd), -EPERM);
	OK(strstr(gpumap_refusal(map), "F_SEAL_WRITE") != NULL);
	close(fd);
	fd = memfd_of(all, 0, seals);
	EQ(ask(handle, "gpumap_program", fd), -EINVAL);
	close(fd);
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	EQ(ask(handle, "gpumap_program", fd), -EINVAL);
	close(fd);
	fd = memfd_of(all, sizeof(all) - 1, seals);
	memset(name, 'a', sizeof(name));
	EQ(ask(handle, name, fd), -EINVAL); /* no NUL in it */
	EQ(ask(gm_handle_make(77, GM_BUFFER_FILE, 0, 77), "x", fd), -EINVAL);
	EQ(ask(handle, "gpumap_program", fd), 0);
	EQ(ask(handle, "gpumap_program", fd), -EALREADY);
	EQ(ask(handle, "program_spin", fd), -EEXIST);
	close(fd);
}

static void policies_hold(void)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .flags = GPUMAP_SESSION_PROGRAMS };
	struct gpumap_session *session = NULL;
	uint64_t program = 0;

	if (!begin("", ""))
		return;
	EQ(gpumap_session_open(map, &opts, &session), -EPERM);
	session = open_with(false);
	if (OK(session != NULL))
		EQ(bring(session, card, NULL, &program), -EINVAL);
	gpumap_session_close(session);
	stop();
}

static void only_good_ones_are_loaded(void)
{
	int died = log_lines("event=worker_died", "", NULL);
	uint64_t square = 0;

	put_bytes("square.ptx", all, sizeof(all) - 1);
	if (!begin("", "policy = any\nimage-limit = 4K\n"))
		return;
	asking = open_with(true);
	if (!OK(asking != NULL))
		return;
	images_are_checked();
	files_are_checked();
	fatbins_are_read();
	requests_are_checked();
	EQ(gpumap_program_load(asking, card, "square", &square), 0);
	EQ(log_lines("event=worker_died", "", NULL), died);
	gpumap_session_close(asking);
	stop();
}

/* A client that loads a program for a host row is charged as on a card. */
static void all_kinds_are_paid_for(void)
{
	const size_t bytes = 512 << 10;
	struct gpumap_session *session;
	uint64_t small = 0, large = 0;
	char *padded = malloc(bytes);

	memset(padded, '\n', bytes);
	memcpy(padded, all, sizeof(all) - 1);
	put("square", "padded");
	put_bytes("padded.ptx", padded, bytes);
	free(padded);
	if (!begin("", "policy = any\n[limits]\narena-per-uid = 6M\n"))
		return;
	session = open_with(true);
	if (!OK(session != NULL))
		return;
	EQ(gpumap_program_load(session, host, "square", &small), 0);
	EQ(gpumap_program_load(session, host, "padded", &large), -EDQUOT);
	EQ(gpumap_program_load(session, card, "padded", &large), -EDQUOT);
	OK(strstr(gpumap_refusal(map), "arena-per-uid") != NULL);
	gpumap_session_close(session);
	stop();
}

TAP_CASE()
{
	if (!cuda_scene_make(&scene, "mixed.yaml", NULL))
		return 99;
	make();
	they_do_their_work();
	only_good_ones_are_loaded();
	policies_hold();
	all_kinds_are_paid_for();
	cuda_scene_end(&scene);
	agent_remove(&agent);
	return tap_done();
}
