/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Memory that more than one has, against a peer in a thread: files of the
 * client's that workers map, buffers that sessions export and import, and
 * scatters over both.
 */

#include <dirent.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "tests/support/peer/peer_session.h"

#define N     1024u
#define BYTES (N * 4)

static struct gpumap_job copy(uint64_t n)
{
	return (struct gpumap_job){ .op = GPUMAP_OP_COPY,
				    .dtype = GPUMAP_DTYPE_F32,
				    .n = n };
}

/* A sealed file of floats 0, 1, 2 and so on, mapped here. */
static int numbers(uint64_t bytes, float **ret_at)
{
	int fd = peer_memfd(bytes, true);
	float *at =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (at == MAP_FAILED)
		abort();
	for (uint32_t i = 0; i < bytes / 4; i++)
		at[i] = (float)i;
	*ret_at = at;
	return fd;
}

static int open_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	while (dir != NULL && readdir(dir) != NULL)
		n++;
	if (dir != NULL)
		closedir(dir);
	return n;
}

/* ---- registrations ------------------------------------------------------- */

static void only_what_stays_is_registered(void)
{
	struct gpumap_session *s = open_session(16, 0);
	int plain = peer_memfd(2 * 4096, false), good = peer_memfd(8192, true);
	int dir = open("/", O_RDONLY | O_CLOEXEC | O_DIRECTORY), ends[2];
	const struct {
		int fd, error;
		uint64_t at, bytes;
		uint32_t flags;
	} wrong[] = {
		{ plain, -EINVAL, 0, 4096, 0 }, /* it can shrink */
		{ dir, -EINVAL, 0, 1, 0 },
		{ -1, -EBADF, 0, 1, 0 },
		{ good, -EINVAL, 0, 0, 0 },
		{ good, -EINVAL, 1, 64, 0 },   /* not at a page */
		{ good, -EINVAL, 0, 8193, 0 }, /* past the end */
		{ good, -EINVAL, 4096, 4097, 0 },
		{ good, -EINVAL, 8192, 1, 0 },
		{ good, -EINVAL, UINT64_MAX - 4095, 8192, 0 },
		{ good, -EINVAL, 0, UINT64_MAX, 0 },
		{ good, -EINVAL, 0, 64, GPUMAP_BUFFER_EXPORTABLE },
		{ good, -E2BIG, 0, 64, 4 },
	};
	uint64_t buffer = 7;
	int before;

	if (pipe2(ends, O_CLOEXEC) != 0)
		abort();
	before = open_descriptors();
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		EQ(gpumap_buffer_register(s, wrong[i].fd, wrong[i].at,
					  wrong[i].bytes, wrong[i].flags,
					  &buffer),
		   wrong[i].error);
	EQ(gpumap_buffer_register(s, ends[0], 0, 1, 0, &buffer), -EINVAL);
	EQ(gpumap_buffer_register(s, plain, 0, 64, 0, &buffer), -EINVAL);
	OK(strstr(gpumap_refusal(map), "F_SEAL_SHRINK") != NULL);
	EQ(buffer, 7);
	EQ(open_descriptors(), before);
	EQ(gpumap_buffer_register(s, good, 4096, 4096, 0, &buffer), 0);
	EQ(open_descriptors(), before + 1);
	EQ(gpumap_buffer_unregister(s, buffer), 0);
	EQ(open_descriptors(), before);
	EQ(gpumap_buffer_register(s, good, 0, 1, 0, &buffer), 0);
	close(plain);
	close(good);
	close(dir);
	close(ends[0]);
	close(ends[1]);
	gpumap_session_close(s);
}

static void a_row_is_told_with_the_first_job(void)
{
	struct gpumap_session *s = open_session(16, 0);
	uint32_t asked = gm_get(&peer.registered), let_go;
	struct gpumap_job in = copy(N / 2), out = copy(N / 2), nop = { 0 };
	uint64_t shared = 0;
	float *at, *x;
	int fd = numbers(2 * BYTES, &at);

	x = floats(s, 0, N);
	EQ(gpumap_buffer_register(s, fd, BYTES, BYTES, 0, &shared), 0);
	close(fd); /* it has its own */
	EQ(gm_get(&peer.registered), asked);
	in.src_buffer = shared;
	in.src_at = BYTES / 2;
	in.dst = x;
	EQ(run_job(s, 0, &in), 0);
	OK(x[0] == (float)(N + N / 2) && x[N / 2 - 1] == (float)(2 * N - 1));
	EQ(gm_get(&peer.registered), asked + 1);
	out.src = x;
	out.dst_buffer = shared;
	EQ(run_job(s, 0, &out), 0);
	OK(at[N] == (float)(N + N / 2) && at[N - 1] == (float)(N - 1));
	EQ(gm_get(&peer.registered), asked + 1);
	/* A job that does not use it causes no message. */
	nop.op = GPUMAP_OP_NOP;
	nop.src_buffer = shared;
	EQ(run_job(s, 1, &nop), 0);
	EQ(gm_get(&peer.registered), asked + 1);
	in.dst_buffer = shared;
	in.dst_at = 0;
	EQ(run_job(s, 1, &in), 0);
	EQ(gm_get(&peer.registered), asked + 2);
	/* The registration outlives a worker: the agent tells the next one. */
	gm_put(&peer.die, 3);
	while (gm_get(&peer.die) != 0)
		usleep(100);
	EQ(run_job(s, 0, &out), 0);
	EQ(gm_get(&peer.registered), asked + 2);
	EQ(gpumap_buffer_free(s, shared), -EINVAL);
	EQ(gpumap_buffer_unexport(s, shared), -EINVAL);
	let_go = gm_get(&peer.forgotten);
	EQ(gpumap_buffer_unregister(s, shared), 0);
	EQ(gm_get(&peer.forgotten), let_go + 1);
	EQ(gm_get(&peer.n_buffers), 0);
	EQ(gpumap_submit(s, 0, &out, 1), -ESTALE);
	EQ(gpumap_buffer_unregister(s, shared), -ESTALE);
	EQ(gpumap_buffer_unregister(s, 0), 0);
	munmap(at, 2 * BYTES);
	gpumap_session_close(s);
}

static void what_nobody_was_told_is_forgotten_alone(void)
{
	struct gpumap_session *s = open_session(16, 0);
	uint32_t let_go = gm_get(&peer.forgotten);
	int fd = peer_memfd(BYTES, true);
	uint64_t shared = 0, last = 0;
	bool good = true;

	for (int i = 0; i < 10000 && good; i++) {
		good = gpumap_buffer_register(s, fd, 0, BYTES, 0, &shared) ==
			       0 &&
		       shared != last &&
		       gpumap_buffer_unregister(s, shared) == 0;
		last = shared;
	}
	OK(good);
	EQ(gm_get(&peer.forgotten), let_go);
	close(fd);
	gpumap_session_close(s);
}

static void what_the_agent_refuses_is_not_submitted(void)
{
	struct gpumap_session *s = open_session(16, 0);
	struct gpumap_session_counts counts = { .size = sizeof(counts) };
	struct gpumap_job jobs[2] = { { .op = GPUMAP_OP_NOP }, copy(4) };
	struct gpumap_done done[2];
	uint64_t shared = 0;
	int fd = peer_memfd(BYTES, true);

	EQ(gpumap_buffer_register(s, fd, 0, BYTES, GPUMAP_BUFFER_READ_ONLY,
				  &shared),
	   0);
	jobs[1].src_buffer = shared;
	jobs[1].dst = floats(s, 0, 4);
	gm_put(&peer.refuse, (uint32_t)-EDQUOT);
	EQ(gpumap_submit(s, 0, jobs, 2), -EDQUOT);
	STR(gpumap_refusal(map), "not this file");
	EQ(gpumap_session_counts(s, &counts), 0);
	EQ(counts.submitted, 0);
	gm_put(&peer.refuse, 0);
	EQ(gpumap_submit(s, 0, jobs, 2), 0);
	EQ(gpumap_wait(s, done, 1, GPUMAP_NO_DEADLINE), 1);
	EQ(gpumap_wait(s, done, 1, GPUMAP_NO_DEADLINE), 1);
	EQ(done[0].status, 0);
	/* The memory was registered read-only. */
	jobs[1].dst_buffer = shared;
	jobs[1].src_buffer = 0;
	jobs[1].src = jobs[1].dst;
	EQ(gpumap_submit(s, 0, jobs, 2), -EACCES);
	/* The agent goes instead of answering. */
	jobs[1].dst_buffer = 0;
	jobs[1].src_buffer = shared;
	gm_put(&peer.lie, PEER_HANG_UP);
	EQ(gpumap_submit(s, 1, &jobs[1], 1), -ECONNRESET);
	gm_put(&peer.lie, PEER_HONEST);
	EQ(gpumap_submit(s, 0, jobs, 1), -ECONNRESET); /* the session is over */
	close(fd);
	gpumap_session_close(s);
}

/* ---- exports ------------------------------------------------------------- */

static uint64_t exportable(struct gpumap_session *s, uint32_t row,
			   uint64_t *ret_export)
{
	uint64_t buffer = 0;

	EQ(gpumap_buffer_alloc(s, row, BYTES, GPUMAP_BUFFER_EXPORTABLE,
			       GPUMAP_NO_DEADLINE, &buffer),
	   0);
	EQ(gpumap_buffer_export(s, buffer, ret_export), 0);
	return buffer;
}

static void what_is_not_exported_is_not_imported(void)
{
	struct gpumap_session *s = open_session(16, 0),
			      *t = open_session(16, 0);
	uint64_t mine, number = 0, again = 0, theirs = 0, other = 0;

	EQ(gpumap_buffer_alloc(s, 2, BYTES, 0, GPUMAP_NO_DEADLINE, &other), 0);
	EQ(gpumap_buffer_export(s, other, &number), -EINVAL);
	EQ(gpumap_buffer_export(s, other + 1, &number), -ESTALE);
	EQ(number, 0);
	mine = exportable(s, 2, &number);
	EQ(gpumap_buffer_export(s, mine, &again), 0);
	EQ(number, again);
	EQ(gpumap_buffer_import(t, number + 1, 0, &theirs), -ENOENT);
	EQ(gpumap_buffer_import(t, UINT64_C(200) << 56 | 1, 0, &theirs),
	   -ENODEV);
	EQ(gpumap_buffer_import(t, number, GPUMAP_BUFFER_EXPORTABLE, &theirs),
	   -EINVAL);
	EQ(gpumap_buffer_import(t, number, 4, &theirs), -E2BIG);
	gm_put(&peer.lie, PEER_WRONG_ROW);
	EQ(gpumap_buffer_import(t, number, 0, &theirs), -EPROTO);
	gm_put(&peer.lie, PEER_HONEST);
	EQ(theirs, 0);
	gpumap_session_close(s);
	gpumap_session_close(t);
}

static void a_buffer_is_two_sessions(void)
{
	struct gpumap_session *s = open_session(16, 0),
			      *t = open_session(16, 0);
	uint64_t number = 0, again = 0, theirs = 0;
	uint64_t mine = exportable(s, 2, &number);
	struct gpumap_job job;
	uint32_t held;
	float *x = NULL;

	EQ(gpumap_buffer_import(t, number, GPUMAP_BUFFER_READ_ONLY, &theirs),
	   0);
	/* One session finds the bytes that the other has written. */
	job = fill(NULL, N, 6);
	job.dst_buffer = mine;
	EQ(run_job(s, 2, &job), 0);
	x = floats(t, 2, N);
	job = copy(N);
	job.dst = x;
	job.src_buffer = theirs;
	EQ(run_job(t, 2, &job), 0);
	OK(x[0] == 6 && x[N - 1] == 6);
	job.src_at = 4;
	EQ(gpumap_submit(t, 2, &job, 1), -ERANGE);
	job = fill(NULL, N, 6);
	job.dst_buffer = theirs;
	EQ(gpumap_submit(t, 2, &job, 1), -EACCES);
	EQ(gpumap_buffer_export(t, theirs, &again), -EINVAL);
	/* One goes, the other stays. */
	EQ(gpumap_buffer_free(s, mine), 0);
	job = copy(1);
	job.dst = x;
	job.src_buffer = theirs;
	EQ(run_job(t, 2, &job), 0);
	EQ(gpumap_buffer_import(t, number, 0, &again), -ENOENT);
	/* The agent, which handed it over, takes it back. */
	job = (struct gpumap_job){ .op = GPUMAP_OP_NOP };
	EQ(run_job(s, 2, &job), 0); /* behind what frees @mine */
	held = gm_get(&peer.n_buffers);
	EQ(gpumap_buffer_unregister(t, theirs), -EINVAL);
	OK(strstr(gpumap_refusal(map), "gpumap_buffer_free()") != NULL);
	EQ(gpumap_buffer_unexport(t, theirs), -EINVAL);
	EQ(gpumap_buffer_free(t, theirs), 0);
	EQ(gm_get(&peer.n_buffers), held - 1);
	EQ(gpumap_buffer_free(t, theirs), -ESTALE);
	job = copy(1);
	job.dst = x;
	job.src_buffer = theirs;
	EQ(run_job(t, 2, &job), -ESTALE);
	gpumap_session_close(s);
	gpumap_session_close(t);
}

static void an_export_ends_by_itself_or_with_its_buffer(void)
{
	struct gpumap_session *s = open_session(16, 0);
	uint32_t let_go = gm_get(&peer.forgotten);
	uint64_t a = 0, b = 0, number = 0, got = 0;

	EQ(gpumap_buffer_alloc(s, 0, 64, GPUMAP_BUFFER_EXPORTABLE,
			       GPUMAP_NO_DEADLINE, &a),
	   0);
	EQ(gpumap_buffer_alloc(s, 0, 64, GPUMAP_BUFFER_EXPORTABLE,
			       GPUMAP_NO_DEADLINE, &b),
	   0);
	EQ(gpumap_buffer_unexport(s, a), 0); /* it never was exported */
	EQ(gpumap_buffer_unregister(s, a), -EINVAL);
	EQ(gpumap_buffer_unexport(s, 0), 0);
	EQ(gm_get(&peer.forgotten), let_go);
	EQ(gpumap_buffer_export(s, a, &number), 0);
	EQ(gpumap_buffer_unexport(s, a), 0);
	EQ(gm_get(&peer.forgotten), let_go + 1);
	EQ(gpumap_buffer_import(s, number, 0, &got), -ENOENT);
	EQ(gpumap_buffer_free(s, a), 0);
	EQ(gm_get(&peer.forgotten), let_go + 1);
	EQ(gpumap_buffer_export(s, b, &number), 0);
	/* With its worker, of which the agent knows before we do. */
	gm_put(&peer.die, 1);
	while (gm_get(&peer.die) != 0)
		usleep(100);
	EQ(gpumap_buffer_export(s, b, &got), -ESTALE);
	EQ(gpumap_buffer_free(s, b), 0);
	EQ(gm_get(&peer.forgotten), let_go + 2);
	gpumap_session_close(s);
}

static void a_descriptor_stands_for_an_export(void)
{
	struct gpumap_session *s = open_session(16, 0);
	struct gpumap_export_info info = { .size = sizeof(info) };
	uint64_t mine = 0, number = 0;
	struct gpumap_job job = fill(NULL, N, 8);
	int fd = -1, before;
	float x = 0;

	EQ(gpumap_buffer_alloc(s, 1, BYTES, GPUMAP_BUFFER_EXPORTABLE,
			       GPUMAP_NO_DEADLINE, &mine),
	   0);
	EQ(gpumap_buffer_export(s, mine, &number), 0);
	job.dst_buffer = mine;
	EQ(run_job(s, 1, &job), 0);
	EQ(gpumap_export_fd(map, number + 1, &info, &fd), -ENOENT);
	STR(gpumap_refusal(map), "nothing is exported so");
	before = open_descriptors();
	info.size = 8;
	EQ(gpumap_export_fd(map, number, &info, &fd), -EINVAL);
	info.size = 4097;
	EQ(gpumap_export_fd(map, number, &info, &fd), -E2BIG);
	info.size = sizeof(info);
	EQ(open_descriptors(), before);
	EQ(fd, -1);
	EQ(gpumap_export_fd(map, number, &info, &fd), 0);
	OK(info.bytes == BYTES && info.row == 1);
	OK((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
	EQ(gpumap_buffer_free(s, mine), 0);
	EQ(pread(fd, &x, sizeof(x), BYTES - 4), 4);
	OK(x == 8);
	close(fd);
	gpumap_session_close(s);
}

/* ---- scatters ------------------------------------------------------------ */

/* From then on this thread can add no seals. */
static int forbid_seals(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fcntl, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_ADD_SEALS, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = { sizeof(code) / sizeof(code[0]), code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return -errno;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0
		       ? 0
		       : -errno;
}

static struct {
	struct gpumap_session *session;
	struct gpumap_share_request request;
	uint64_t share;
	int forbidden;
	int ret;
} sharer = { .share = 7 };

static void *share_without_seals(void *unused)
{
	sharer.forbidden = forbid_seals();
	if (sharer.forbidden == 0)
		sharer.ret = gpumap_share_publish(
			sharer.session, &sharer.request, &sharer.share);
	return unused;
}

/* A description that cannot be sealed is not shared. */
static void a_description_is_sealed(void)
{
	uint64_t buffer = 0;
	pthread_t thread;
	int before;

	sharer.session = open_session(16, 0);
	EQ(gpumap_buffer_alloc(sharer.session, 0, 64, GPUMAP_BUFFER_EXPORTABLE,
			       GPUMAP_NO_DEADLINE, &buffer),
	   0);
	sharer.request = (struct gpumap_share_request){
		.size = sizeof(sharer.request),
		.name = "described",
		.buffers = &buffer,
		.n_buffers = 1,
		.about = "it",
		.about_bytes = 3,
	};
	before = open_descriptors();
	EQ(pthread_create(&thread, NULL, share_without_seals, NULL), 0);
	pthread_join(thread, NULL);
	EQ(open_descriptors(), before);
	EQ(sharer.share, 7);
	if (sharer.forbidden == 0)
		EQ(sharer.ret, -ENOMEM);
	else
		SKIP(1, "this kernel filters no system calls");
	gpumap_session_close(sharer.session);
}

static void a_scatter_splits_registered_memory(void)
{
	struct gpumap_session *s = open_session(16, 0);
	uint32_t asked = gm_get(&peer.registered);
	struct gpumap_job job = copy(N);
	struct gpumap_tile tiles[2];
	float *from, *to, *x = floats(s, 0, N);
	int in = numbers(BYTES, &from), out = numbers(2 * BYTES, &to);

	memset(to, 0, 2 * BYTES);
	EQ(gpumap_buffer_register(s, in, 0, BYTES, GPUMAP_BUFFER_READ_ONLY,
				  &job.src_buffer),
	   0);
	EQ(gpumap_buffer_register(s, out, 0, 2 * BYTES, 0, &job.dst_buffer), 0);
	job.dst_at = 4 * 16;
	EQ(gpumap_scatter(s, &job, NULL, tiles, 2), 2);
	EQ(gm_get(&peer.registered), asked + 4);
	OK(memcmp(to + 16, from, BYTES) == 0 && to[15] == 0 && to[N + 16] == 0);
	/* One of the two, the other from the arena. */
	job.dst_buffer = 0;
	job.dst = x;
	EQ(gpumap_scatter(s, &job, NULL, tiles, 2), 2);
	EQ(gm_get(&peer.registered), asked + 4);
	OK(memcmp(x, from, BYTES) == 0);
	job.src_at = 4;
	EQ(gpumap_scatter(s, &job, NULL, tiles, 2), -ERANGE);
	job.src_at = 0;
	job.src_buffer++;
	EQ(gpumap_scatter(s, &job, NULL, tiles, 2), -ESTALE);
	close(in);
	close(out);
	munmap(from, BYTES);
	munmap(to, 2 * BYTES);
	gpumap_session_close(s);
}

static void a_scatter_fills_a_buffer_per_row(void)
{
	static const uint32_t rows[] = { 2, 0, 1 };
	static const double weights[] = { 1, 0, 3 };
	struct gpumap_session *s = open_session(16, 0);
	struct gpumap_scatter_opts opts = { .size = sizeof(opts),
					    .rows = rows,
					    .weights = weights,
					    .n_rows = 3 };
	struct gpumap_job in = copy(N), out = copy(N);
	uint64_t buffers[3] = { 0 };
	struct gpumap_tile tiles[3];
	float *x = floats(s, 0, N), *y = floats(s, 0, N);

	/* Room for a tile each; row 0 gets none, and needs no buffer. */
	EQ(gpumap_buffer_alloc(s, 2, 8 + BYTES / 4, 0, GPUMAP_NO_DEADLINE,
			       &buffers[0]),
	   0);
	EQ(gpumap_buffer_alloc(s, 1, 8 + BYTES / 4 * 3, 0, GPUMAP_NO_DEADLINE,
			       &buffers[2]),
	   0);
	for (uint32_t i = 0; i < N; i++)
		x[i] = (float)i;
	memset(y, 0, BYTES);
	in.src = x;
	in.dst_at = 8;
	opts.dst_buffers = buffers;
	EQ(gpumap_scatter(s, &in, &opts, tiles, 3), 2);
	OK(tiles[0].row == 2 && tiles[0].n == N / 4 && tiles[1].row == 1);
	/* And back: the same rows and weights split in the same way. */
	opts.dst_buffers = NULL;
	opts.src_buffers = buffers;
	out.src_at = 8;
	out.dst = y;
	EQ(gpumap_scatter(s, &out, &opts, tiles, 3), 2);
	OK(memcmp(x, y, BYTES) == 0);
	out.src_at = 12;
	EQ(gpumap_scatter(s, &out, &opts, tiles, 3), -ERANGE);
	out.src_at = 8;
	buffers[2] = buffers[0];
	EQ(gpumap_scatter(s, &out, &opts, tiles, 3), -EOPNOTSUPP);
	buffers[2]++;
	EQ(gpumap_scatter(s, &out, &opts, tiles, 3), -ESTALE);
	opts.rows = NULL;
	opts.weights = NULL;
	opts.n_rows = 0;
	EQ(gpumap_scatter(s, &out, &opts, tiles, 3), -EINVAL);
	gpumap_session_close(s);
}

/* ---- rows ---------------------------------------------------------------- */

static void rows_are_drained(void)
{
	EQ(gpumap_device_drain(map, 1), 0);
	EQ(gm_get(&peer.drained), 2);
	EQ(gpumap_device_drain(map, 2), 0);
	EQ(gpumap_device_undrain(map, 1), 0);
	EQ(gm_get(&peer.drained), 4);
	EQ(gpumap_device_drain(map, 99), -ENODEV);
	STR(gpumap_refusal(map), "there is no such row");
	EQ(gpumap_device_undrain(map, 2), 0);
	STR(gpumap_refusal(map), "");
}

TAP_CASE()
{
	if (!client_begin("shared"))
		return tap_done();
	only_what_stays_is_registered();
	a_row_is_told_with_the_first_job();
	what_nobody_was_told_is_forgotten_alone();
	what_the_agent_refuses_is_not_submitted();
	what_is_not_exported_is_not_imported();
	a_buffer_is_two_sessions();
	an_export_ends_by_itself_or_with_its_buffer();
	a_descriptor_stands_for_an_export();
	a_description_is_sealed();
	a_scatter_splits_registered_memory();
	a_scatter_fills_a_buffer_per_row();
	rows_are_drained();
	return client_end();
}
