/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The reason of a thread's last failed call: while another thread's request
 * waits for the agent, calls that make no request do not wait for it, neither
 * in this process nor in a forked child, and each thread has its own reason.
 * Each call that fails stores its reason, or at least leaves no earlier one.
 */

#include <sys/wait.h>

#include <gpumap/model.h>
#include <gpumap/plan.h>

#include "tests/support/peer/peer_session.h"

#define LIMIT_S 30 /* against hanging */

/* ---- another thread's request ------------------------------------------ */

static struct {
	pthread_t thread;
	int ret;
	char why[256];
} request;

static void *release_theirs(void *unused)
{
	request.ret = gpumap_layers_release(map, "theirs");
	memcpy(request.why, gpumap_refusal(map), sizeof(request.why));
	return unused;
}

/* Returns while the request of another thread waits for the peer. */
static void begin_request(void)
{
	gm_put(&peer.left, 0);
	gm_put(&peer.deaf, PEER_BUSY);
	pthread_create(&request.thread, NULL, release_theirs, NULL);
	while (gm_get(&peer.left) == 0)
		usleep(100);
}

static void end_request(void)
{
	gm_put(&peer.deaf, PEER_HEARS);
	pthread_join(request.thread, NULL);
	EQ(request.ret, -EPERM);
	STR(request.why, "not yours");
}

/* ---- calls beside it ---------------------------------------------------- */

static struct gpumap_session *session;

static void *fail_without_request(void *unused)
{
	struct gpumap_job job = { .op = GPUMAP_OP_FILL, .n = 1 };

	job.dst_buffer = UINT64_MAX;
	EQ(gpumap_submit(session, 0, &job, 1), -ERANGE);
	OK(strstr(gpumap_refusal(map), "no such buffer") != NULL);
	return unused;
}

static void refused_calls_wait_for_no_request(void)
{
	struct timespec until;
	pthread_t thread;
	int waited;

	begin_request();
	pthread_create(&thread, NULL, fail_without_request, NULL);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += LIMIT_S;
	waited = pthread_timedjoin_np(thread, NULL, &until);
	EQ(waited, 0);
	end_request();
	if (waited != 0)
		pthread_join(thread, NULL);
}

static int child_says(void)
{
	struct gpumap_mask *mask;
	uint32_t rows[4];

	alarm(LIMIT_S);
	if (gpumap_device_visible(map, NULL, NULL, rows, 4) != 0)
		return 1;
	if (gpumap_mask_open(map, "none", 0, &mask) != -ENOENT)
		return 2;
	if (gpumap_mask_open(map, "", 0, &mask) != -EINVAL ||
	    gpumap_refusal(map)[0] == '\0')
		return 3;
	if (gpumap_session_list(map, NULL, 0) != -EOWNERDEAD ||
	    gpumap_layers_release(map, "model") != -EOWNERDEAD)
		return 4;
	return 0;
}

static void a_child_does_not_wait_for_a_thread_it_lacks(void)
{
	int status = -1;
	pid_t child;

	begin_request();
	child = fork();
	if (child == 0)
		_exit(child_says());
	waitpid(child, &status, 0);
	OK(WIFEXITED(status));
	EQ(WEXITSTATUS(status), 0);
	end_request();
}

#define NO_NAME "a name has between 1 and 63 bytes"

static void each_thread_has_its_own_reason(void)
{
	EQ(gpumap_layers_release(map, ""), -EINVAL);
	STR(gpumap_refusal(map), NO_NAME);
	begin_request();
	end_request();
	STR(gpumap_refusal(map), NO_NAME);
}

/* ---- each call that fails ------------------------------------------------ */

#define BEFORE "sizes of layers need the number of layers"

/* A reason of another call, which no later one may leave. */
static void refuse_before(void)
{
	static const uint64_t one = 1;
	struct gpumap_layers_request sizes = { .size = sizeof(sizes),
					       .name = "mine",
					       .spec = "1",
					       .layer_bytes = &one };

	if (gpumap_layers_publish(map, &sizes) != -EINVAL ||
	    strcmp(gpumap_refusal(map), BEFORE) != 0)
		OK(!"the call before is refused");
}

/* There is more to say of these errors than gpumap_strerror() does. */
static bool is_explained(int error, const char *why)
{
	return (error != -EINVAL && error != -EDQUOT && error != -ENOMEM) ||
	       strcmp(why, gpumap_strerror(error)) != 0;
}

static void check_call(const char *call, int got, int want)
{
	const char *why = gpumap_refusal(map);

	if (!EQ(got, want) || !OK(strcmp(why, BEFORE) != 0) ||
	    !OK(why[0] != '\0' && is_explained(got, why)))
		NOTE("%s: \"%s\"", call, why);
}

#define FAILS(call, error)                      \
	do {                                    \
		refuse_before();                \
		check_call(#call, call, error); \
	} while (0)

static struct gpumap_job filled(void)
{
	void *memory = NULL;

	gpumap_alloc(session, 0, 64, &memory);
	return (struct gpumap_job){ .op = GPUMAP_OP_FILL,
				    .dtype = GPUMAP_DTYPE_U8,
				    .dst = memory,
				    .n = 64 };
}

static void jobs_that_may_not_be(void)
{
	struct gpumap_time time = { .row = 99 };
	struct gpumap_job job = filled(), bad;
	struct gpumap_done done;

	bad = job;
	bad.op = 31;
	FAILS(gpumap_submit(session, 0, &bad, 1), -EINVAL);
	OK(strstr(gpumap_refusal(map), "op 31") != NULL);
	bad = job;
	bad.dtype = 77;
	FAILS(gpumap_submit(session, 0, &bad, 1), -EINVAL);
	OK(strstr(gpumap_refusal(map), "dtype 77") != NULL);
	FAILS(gpumap_scatter(session, &bad, NULL, NULL, 0), -EINVAL);
	bad = job;
	bad.spare[3] = 1;
	FAILS(gpumap_submit(session, 0, &bad, 1), -EINVAL);
	bad = job;
	bad.dst = &bad;
	FAILS(gpumap_submit(session, 0, &bad, 1), -ERANGE);
	FAILS(gpumap_scatter(session, &bad, NULL, NULL, 0), -ERANGE);
	bad = job;
	bad.n_waits = 1;
	FAILS(gpumap_submit(session, 0, &bad, 1), -EINVAL);
	bad.waits = &time;
	FAILS(gpumap_submit(session, 0, &bad, 1), -EINVAL);
	OK(strstr(gpumap_refusal(map), "row 99") != NULL);
	bad = job;
	bad.op = GPUMAP_OP_RUN;
	FAILS(gpumap_submit(session, 0, &bad, 1), -EINVAL);
	bad = job;
	bad.dst_buffer = UINT64_MAX;
	FAILS(gpumap_submit(session, 0, &bad, 1), -ERANGE);
	FAILS(gpumap_submit(session, 0, &job, 0), -EINVAL);
	FAILS(gpumap_submit(session, 99, &job, 1), -ENODEV);
	FAILS(gpumap_credit(session, 99), -ENODEV);
	FAILS(gpumap_cancel(session, 99), -ENODEV);
	FAILS(gpumap_cancel_job(session, 99, 1), -ENODEV);
	FAILS(gpumap_submitted(session, 99, &time), -ENODEV);
	FAILS(gpumap_poll(session, &done, 0), -EINVAL);
	FAILS(gpumap_wait(session, &done, 0, 0), -EINVAL);
	FAILS(gpumap_wait(session, &done, 1, 0), -ENODATA);
}

static void scatters_that_may_not_be(void)
{
	const uint32_t twice[2] = { 1, 1 };
	struct gpumap_scatter_opts opts = { .size = sizeof(opts),
					    .rows = twice };
	struct gpumap_job job = filled();
	struct gpumap_tile tile;
	uint64_t word;

	FAILS(gpumap_scatter(session, &job, &opts, NULL, 0), -ENODEV);
	opts.n_rows = 2;
	FAILS(gpumap_scatter(session, &job, &opts, NULL, 0), -EINVAL);
	opts.rows = NULL;
	FAILS(gpumap_scatter(session, &job, &opts, NULL, 0), -EINVAL);
	opts.n_rows = 0;
	opts.ret_combined = &word;
	FAILS(gpumap_scatter(session, &job, &opts, NULL, 0), -EINVAL);
	opts.size = 0;
	FAILS(gpumap_scatter(session, &job, &opts, NULL, 0), -EINVAL);
	FAILS(gpumap_scatter(session, &job, NULL, &tile, 1), -ENOBUFS);
}

static void memory_that_may_not_be(void)
{
	struct gpumap_buffer_info info = { .size = 1 };
	struct gpumap_program_image image = { .size = sizeof(image) };
	uint64_t buffer;
	void *memory;

	FAILS(gpumap_alloc(session, 0, 0, &memory), -EINVAL);
	FAILS(gpumap_alloc(session, 0, UINT64_C(1) << 40, &memory), -ENOMEM);
	OK(strstr(gpumap_refusal(map), "1099511627776") != NULL);
	OK(strstr(gpumap_refusal(map), "arena_bytes") != NULL);
	FAILS(gpumap_scatter_alloc(session, 0, 4, NULL, &memory), -EINVAL);
	FAILS(gpumap_scatter_alloc(session, UINT64_MAX, 4, NULL, &memory),
	      -ENOMEM);
	FAILS(gpumap_free(session, &memory), -EINVAL);
	FAILS(gpumap_buffer_alloc(session, 0, 0, 0, GPUMAP_NO_DEADLINE,
				  &buffer),
	      -EINVAL);
	FAILS(gpumap_buffer_alloc(session, 0, PEER_DEVICE + 1, 0,
				  GPUMAP_NO_DEADLINE, &buffer),
	      -ENOMEM);
	OK(strstr(gpumap_refusal(map), "row 0") != NULL);
	gm_put(&peer.status, (uint32_t)-EDQUOT);
	FAILS(gpumap_buffer_alloc(session, 0, 64, 0, GPUMAP_NO_DEADLINE,
				  &buffer),
	      -EDQUOT);
	OK(strstr(gpumap_refusal(map), "--commit") != NULL);
	gm_put(&peer.status, 0);
	FAILS(gpumap_buffer_free(session, UINT64_MAX), -ERANGE);
	FAILS(gpumap_buffer_info(session, UINT64_MAX, &info), -EINVAL);
	FAILS(gpumap_buffer_unregister(session, UINT64_MAX), -ERANGE);
	FAILS(gpumap_buffer_unexport(session, UINT64_MAX), -ERANGE);
	FAILS(gpumap_buffer_register(session, -1, 0, 4096, 0, &buffer), -EBADF);
	FAILS(gpumap_buffer_register(session, 0, 0, 4096,
				     GPUMAP_BUFFER_EXPORTABLE, &buffer),
	      -EINVAL);
	FAILS(gpumap_buffer_register_file(session, -1, 0, &buffer), -EBADF);
	FAILS(gpumap_buffer_export(session, UINT64_MAX, &buffer), -ERANGE);
	FAILS(gpumap_buffer_import(session, 1, GPUMAP_BUFFER_EXPORTABLE,
				   &buffer),
	      -EINVAL);
	FAILS(gpumap_program_load(session, 0, NULL, &buffer), -EINVAL);
	FAILS(gpumap_program_load_image(session, 0, &image, &buffer), -EINVAL);
	FAILS(gpumap_program_unload(session, UINT64_MAX), -ERANGE);
}

static void sessions_and_shares_that_may_not_be(void)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .depth = 100 };
	struct gpumap_share_request share = { .size = sizeof(share) };
	struct gpumap_model_opts model = { .size = sizeof(model) };
	struct gpumap_share_info info = { .size = sizeof(info) };
	struct gpumap_session_counts counts = { .size = 1 };
	struct gpumap_session *none;
	struct gpumap_model *loaded;
	uint64_t id;

	FAILS(gpumap_session_open(map, &opts, &none), -EINVAL);
	OK(strstr(gpumap_refusal(map), "100") != NULL);
	opts.size = 0;
	FAILS(gpumap_session_open(map, &opts, &none), -EINVAL);
	FAILS(gpumap_session_fd(session), -ENOTSUP);
	FAILS(gpumap_session_arm(session), -ENOTSUP);
	FAILS(gpumap_session_counts(session, &counts), -EINVAL);
	FAILS(gpumap_share_publish(session, &share, &id), -EINVAL);
	FAILS(gpumap_share_open(session, "", 0, NULL, &id), -EINVAL);
	FAILS(gpumap_share_info(session, 1, &info), -ENOENT);
	FAILS(gpumap_share_close(session, 1), -ENOENT);
	FAILS(gpumap_model_load(session, &model, &loaded), -EINVAL);
	FAILS(gpumap_model_open(session, NULL, 0, NULL, &loaded), -EINVAL);
}

static void requests_that_may_not_be(void)
{
	struct gpumap_plan plan = { .size = sizeof(plan) };
	struct gpumap_plan_request of = { .size = 0 };
	struct gpumap_mask_request tensor = { .size = 0 };
	struct gpumap_mesh_request ranks = { .size = 0 };
	struct gpumap_mesh_join join = { .size = 0 };
	struct gpumap_cluster_request nodes = { .size = 0 };
	struct gpumap_usage usage = { .size = 1 };
	struct gpumap_share_info info = { .size = 1 };
	struct gpumap_export_info export = { .size = 1 };
	struct gpumap_view view;
	uint8_t id[GPUMAP_MESH_ID_BYTES];
	uint64_t pin;
	int fd;

	FAILS(gpumap_plan_make(map, &of, &plan, NULL, 0, NULL, 0), -EINVAL);
	FAILS(gpumap_mask_publish(map, &tensor, NULL), -EINVAL);
	FAILS(gpumap_mesh_publish(map, &ranks), -EINVAL);
	FAILS(gpumap_cluster_publish(map, &nodes), -EINVAL);
	FAILS(gpumap_mesh_join(map, &join, id, &pin), -EINVAL);
	FAILS(gpumap_mesh_leave(map, 1, 8), -EINVAL);
	FAILS(gpumap_mesh_pin(map, "m", NULL, 9, &view, &pin), -EINVAL);
	FAILS(gpumap_layers_pin(map, "none", &view, &pin), -ENOENT);
	FAILS(gpumap_usage_list(map, &usage, 1), -EINVAL);
	FAILS(gpumap_share_list(map, &info, 1), -EINVAL);
	FAILS(gpumap_export_fd(map, 1, &export, &fd), -EINVAL);
	FAILS(gpumap_share_release(map, ""), -EINVAL);
	FAILS(gpumap_wait_change(map, gpumap_generation(map), 0), -ETIME);
}

static void flags_that_are_not_known(void)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .flags = UINT32_C(1) << 31 };
	struct gpumap_scatter_opts scatter = { .size = sizeof(scatter),
					       .flags = opts.flags };
	struct gpumap_job job = filled();
	struct gpumap_session *none;
	struct gpumap_model *model;
	struct gpumap_mask *mask;
	uint64_t id;

	FAILS(gpumap_session_open(map, &opts, &none), -E2BIG);
	OK(strstr(gpumap_refusal(map), "does not know") != NULL);
	FAILS(gpumap_scatter(session, &job, &scatter, NULL, 0), -E2BIG);
	FAILS(gpumap_buffer_alloc(session, 0, 64, opts.flags,
				  GPUMAP_NO_DEADLINE, &id),
	      -E2BIG);
	FAILS(gpumap_share_open(session, "name", opts.flags, NULL, &id),
	      -E2BIG);
	FAILS(gpumap_model_open(session, "name", opts.flags, NULL, &model),
	      -E2BIG);
	FAILS(gpumap_mask_open(map, "name", opts.flags, &mask), -E2BIG);
}

static void credit_that_is_used_up(void)
{
	struct gpumap_job nops[16] = { { .op = GPUMAP_OP_NOP, .n = 1 } };
	struct gpumap_done done[16];
	int n = 0, ret = 1;

	gm_put(&peer.hold, 1);
	EQ(gpumap_submit(session, 0, nops, 16), 0);
	FAILS(gpumap_submit(session, 0, nops, 1), -EAGAIN);
	FAILS(gpumap_scatter(session, nops, NULL, NULL, 0), -EAGAIN);
	FAILS(gpumap_wait(session, done, 16, 0), -ETIME);
	gm_put(&peer.hold, 0);
	for (; n < 16 && ret > 0; n += ret)
		ret = gpumap_wait(session, done, 16, GPUMAP_NO_DEADLINE);
	EQ(n, 16);
}

/* The last: this session has ended. */
static void a_session_without_an_agent(void)
{
	struct gpumap_job nop = { .op = GPUMAP_OP_NOP };
	struct gpumap_done done;
	uint64_t buffer;
	int ret = 0;

	gm_put(&peer.hang_up, 1);
	while (ret == 0) {
		ret = gpumap_submit(session, 0, &nop, 1);
		if (ret == 0)
			gpumap_wait(session, &done, 1, GPUMAP_NO_DEADLINE);
	}
	FAILS(gpumap_submit(session, 0, &nop, 1), -ECONNRESET);
	OK(strstr(gpumap_refusal(map), "gpumap_wait_ready()") != NULL);
	FAILS(gpumap_poll(session, &done, 1), -ECONNRESET);
	FAILS(gpumap_scatter(session, &nop, NULL, NULL, 0), -ECONNRESET);
	FAILS(gpumap_buffer_alloc(session, 0, 64, 0, GPUMAP_NO_DEADLINE,
				  &buffer),
	      -ECONNRESET);
	gm_put(&peer.lie, PEER_HANG_UP);
	FAILS(gpumap_session_list(map, NULL, 0), -ECONNRESET);
	gm_put(&peer.lie, PEER_HONEST);
}

/* On Linux the two errors are one. */
static void not_supported_has_one_sentence(void)
{
	STR(gpumap_strerror(-ENOTSUP), gpumap_strerror(-EOPNOTSUPP));
	OK(strstr(gpumap_strerror(-EOPNOTSUPP), "the device cannot") != NULL);
	OK(strstr(gpumap_strerror(-EOPNOTSUPP), "session was not opened") !=
	   NULL);
}

TAP_CASE()
{
	if (!client_begin("refusal"))
		return tap_done();
	session = open_session(16, 0);
	EQ(gpumap_session_list(map, NULL, 0), 100); /* connects */
	refused_calls_wait_for_no_request();
	a_child_does_not_wait_for_a_thread_it_lacks();
	each_thread_has_its_own_reason();
	jobs_that_may_not_be();
	scatters_that_may_not_be();
	memory_that_may_not_be();
	sessions_and_shares_that_may_not_be();
	requests_that_may_not_be();
	flags_that_are_not_known();
	not_supported_has_one_sentence();
	credit_that_is_used_up();
	a_session_without_an_agent();
	gpumap_session_close(session);
	return client_end();
}
