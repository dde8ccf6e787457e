/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumapd on a card, in service: its facts of the card beside those of
 * nvidia-smi; a client that sleeps through long work; a small job beside
 * another session's bulk; another session's fault; workers that are killed; two
 * processes that share memory of the card; and a row that is drained until no
 * process of gpumap has the card open.
 */

#include <dirent.h>
#include <errno.h>

#include "tests/gpu/agent.h"

#define NO_LIMIT GPUMAP_NO_DEADLINE

/* ---- what nvidia-smi says ----------------------------------------------- */

/* "GPU-..." of a row. */
static void print_uuid(const struct gpumap_device *d, char text[64])
{
	int at = snprintf(text, 64, "GPU-");

	for (int i = 0; i < 16; i++)
		at += snprintf(text + at, (size_t)(64 - at), "%s%02x",
			       i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			       d->uuid[i]);
}

static bool find_card(const struct gpumap *map, const char *uuid,
		      struct gpumap_device *ret_device)
{
	char text[64];

	for (uint32_t row = 0; row < gpumap_device_count(map); row++) {
		*ret_device = story_device(map, row);
		print_uuid(ret_device, text);
		if (strcmp(text, uuid) == 0)
			return true;
	}
	return false;
}

/* "GPU-..., NVIDIA H200, 00000000:1B:00.0, 143771, 9.0, 0" */
static void compare_line(const struct gpumap *map, char *line)
{
	char *field[6], *rest = NULL;
	struct gpumap_device d;
	unsigned int domain, bus, slot, major, minor;
	unsigned long long mib;
	int n = 0;

	for (char *at = strtok_r(line, ",\n", &rest); at && n < 6;
	     at = strtok_r(NULL, ",\n", &rest))
		field[n++] = at + strspn(at, " ");
	if (!EQ(n, 6) || !OK(find_card(map, field[0], &d)))
		return;
	STR(d.name, field[1]);
	if (EQ(sscanf(field[2], "%x:%x:%x", &domain, &bus, &slot), 3)) {
		EQ(d.pci_domain, domain);
		EQ(d.pci_bus >> 8, bus);
		EQ(d.pci_bus >> 3 & 31, slot);
	}
	mib = strtoull(field[3], NULL, 10);
	/* The one counts what the driver keeps, the other may not. */
	OK(d.total_bytes >> 20 <= mib && d.total_bytes >> 20 >= mib / 10 * 9);
	FACT("\"nvidia_smi_mib\":%llu,\"row_mib\":%" PRIu64, mib,
	     d.total_bytes >> 20);
	if (EQ(sscanf(field[4], "%u.%u", &major, &minor), 2)) {
		EQ(d.cc_major, major);
		EQ(d.cc_minor, minor);
	}
	EQ(d.nvml_index, atoi(field[5]));
}

static void the_row_is_what_nvidia_smi_shows(struct gpu_agent *g)
{
	FILE *answers = popen("nvidia-smi --query-gpu=uuid,name,pci.bus_id,"
			      "memory.total,compute_cap,index "
			      "--format=csv,noheader,nounits 2>/dev/null",
			      "re");
	char line[512];
	int n = 0;

	while (answers && fgets(line, sizeof(line), answers)) {
		compare_line(g->map, line);
		n++;
	}
	if (!answers || pclose(answers) || !n)
		LACK("nvidia-smi", 1, "no nvidia-smi here");
}

/* ---- long work ---------------------------------------------------------- */

/* CPU time of a process so far, in ms; 0: it is gone. */
static double cpu_ms(pid_t pid)
{
	unsigned long user = 0, system_ = 0;
	char path[64], text[512], *at;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	at = fgets(text, sizeof(text), file) ? strrchr(text, ')') : NULL;
	fclose(file);
	if (at)
		sscanf(at + 2,
		       "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u "
		       "%lu %lu",
		       &user, &system_);
	return (double)(user + system_) * 1e3 / (double)sysconf(_SC_CLK_TCK);
}

struct bulk {
	uint64_t from, to;
	size_t bytes;
};

static bool make_bulk(struct gpu_agent *g, struct gpumap_session *session,
		      struct bulk *ret_bulk)
{
	ret_bulk->bytes = gpu_is_real() ? 4 * GPU_GIB : 16 * GPU_MIB;
	return EQ(gpumap_buffer_alloc(session, g->row, ret_bulk->bytes, 0,
				      NO_LIMIT, &ret_bulk->from),
		  0) &&
	       EQ(gpumap_buffer_alloc(session, g->row, ret_bulk->bytes, 0,
				      NO_LIMIT, &ret_bulk->to),
		  0);
}

static struct gpumap_job bulk_job(const struct bulk *b)
{
	return (struct gpumap_job){ .op = GPUMAP_OP_AXPY,
				    .dtype = GPUMAP_DTYPE_F32,
				    .alpha = 0.5,
				    .n = b->bytes / 4,
				    .dst_buffer = b->to,
				    .src_buffer = b->from };
}

/* Until so much time has passed, with a few jobs in flight, asleep between. */
static unsigned int sleep_through(struct gpu_agent *g,
				  struct gpumap_session *session,
				  const struct bulk *b, double ms)
{
	struct gpumap_job job = bulk_job(b);
	double from = contract_now_ms();
	unsigned int sent = 0, ended = 0;

	while (ended < sent || contract_now_ms() - from < ms) {
		struct gpumap_done done[8];
		int r;

		while (contract_now_ms() - from < ms && sent - ended < 4 &&
		       gpumap_submit(session, g->row, &job, 1) == 0)
			sent++;
		if (ended == sent)
			continue;
		r = gpumap_wait(session, done, 8, story_now() + STORY_LIMIT_NS);
		if (!OK(r > 0))
			break;
		for (int i = 0; i < r; i++)
			if (done[i].status)
				EQ(done[i].status, 0);
		ended += (unsigned int)r;
	}
	return ended;
}

static void who_waits_sleeps(struct gpu_agent *g)
{
	double ms = gpu_is_real() ? 10e3 : 100, from, mine, workers;
	struct gpumap_device d = story_device(g->map, g->row);
	struct bulk b;
	unsigned int n;

	if (!make_bulk(g, g->session, &b))
		return;
	d = story_device(g->map, g->row);
	OK(d.worker_pid != 0);
	mine = cpu_ms(getpid());
	workers = cpu_ms((pid_t)d.worker_pid);
	from = contract_now_ms();
	n = sleep_through(g, g->session, &b, ms);
	ms = contract_now_ms() - from;
	mine = cpu_ms(getpid()) - mine;
	workers = cpu_ms((pid_t)d.worker_pid) - workers;
	FACT("\"long_work_ms\":%.0f,\"jobs\":%u,\"client_cpu\":%.4f,"
	     "\"worker_cpu\":%.4f",
	     ms, n, mine / ms, workers / ms);
	EQ(gpumap_buffer_free(g->session, b.from), 0);
	EQ(gpumap_buffer_free(g->session, b.to), 0);
}

/* ---- a small job beside bulk -------------------------------------------- */

/* No-ops of this session until @n have been timed; sorts them. */
static bool time_nops(struct gpu_agent *g, double *times, size_t n,
		      struct gpumap_session *other, const struct bulk *b)
{
	struct gpumap_job nop = { .op = GPUMAP_OP_NOP };
	struct gpumap_job job = b ? bulk_job(b) : nop;
	unsigned int flying = 0;

	for (size_t i = 0; i < n; i++) {
		struct gpumap_done done = { .status = -EIO };
		double from;
		int r;

		while (b && flying < 4 &&
		       gpumap_submit(other, g->row, &job, 1) == 0)
			flying++;
		from = contract_now_ms();
		r = gpumap_submit(g->session, g->row, &nop, 1);
		while (r == 0)
			r = gpumap_poll(g->session, &done, 1);
		times[i] = (contract_now_ms() - from) * 1e3;
		if (r != 1 || done.status)
			return false;
		while (flying && gpumap_poll(other, &done, 1) == 1)
			flying--;
	}
	while (flying) {
		struct gpumap_done done;

		if (gpumap_wait(other, &done, 1,
				story_now() + STORY_LIMIT_NS) != 1)
			return false;
		flying--;
	}
	return true;
}

static void a_small_job_waits_for_no_bulk(struct gpu_agent *g)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts) };
	const size_t n = (size_t)gpu_rounds(20000, 50);
	double *times = calloc(2 * n, sizeof(double));
	struct gpumap_session *other = NULL;
	struct bulk b;

	if (!OK(times != NULL) ||
	    !EQ(gpumap_session_open(g->map, &opts, &other), 0))
		return;
	if (make_bulk(g, other, &b)) {
		OK(time_nops(g, times, n, NULL, NULL));
		OK(time_nops(g, times + n, n, other, &b));
		FACT("\"nop_us\":{%s,%s}", gpu_spread("alone", times, n),
		     gpu_spread("beside_bulk", times + n, n));
	}
	gpumap_session_close(other);
	free(times);
}

/* ---- faults and deaths -------------------------------------------------- */

/* A process that gpumapd does not know stores where nothing is. */
static int fault(char **argv)
{
	CUdeviceptr at = 0x10;
	uint32_t value = 1;
	void *params[] = { &at, &value };
	CUcontext context;
	CUresult error;
	CUmodule module;
	CUfunction f;

	WANT(!contract_load(argv) && !cu.cuInit(0));
	WANT(!cu.cuDevicePrimaryCtxRetain(&context, 0) &&
	     !cu.cuCtxSetCurrent(context));
	WANT(!cu.cuModuleLoadData(&module, CONTRACT_KERNELS) &&
	     !cu.cuModuleGetFunction(&f, module, "contract_store"));
	WANT(!cu.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	error = cu.cuCtxSynchronize();
	WANT(gpu_tell(GPU_PART_SOCKET, &error, sizeof(error), -1));
	_exit(0);
}

/* Xids of all CUDA rows: which of them ordinal 0 is here is no matter. */
static uint64_t count_xids(const struct gpumap *map, uint32_t *ret_last)
{
	uint64_t n = 0;

	for (uint32_t row = 0; row < gpumap_device_count(map); row++) {
		struct gpumap_device d = story_device(map, row);

		if (d.xids)
			*ret_last = d.last_xid;
		n += d.xids;
	}
	return n;
}

static void a_strangers_fault_changes_no_row(struct gpu_agent *g)
{
	uint32_t last = 0;
	uint64_t before = count_xids(g->map, &last);
	CUresult error = CUDA_SUCCESS;
	struct gpu_part part = { .socket = -1 };
	double from;

	if (!OK(gpu_part_begin("fault", 0, &part)))
		return;
	OK(gpu_hear(part.socket, &error, sizeof(error), NULL));
	from = contract_now_ms();
	EQ(error, CUDA_ERROR_ILLEGAL_ADDRESS);
	while (count_xids(g->map, &last) == before &&
	       contract_now_ms() - from < 10e3)
		contract_rest_ms(1);
	OK(count_xids(g->map, &last) > before);
	FACT("\"foreign_xid\":%u,\"seen_after_ms\":%.1f", last,
	     contract_now_ms() - from);
	gpu_part_end(&part);
	EQ(story_device(g->map, g->row).state, GPUMAP_DEVICE_READY);
}

/* Kill the worker with work under way, and wait for the next. */
static bool kill_worker(struct gpu_agent *g, double *ret_ms)
{
	struct gpumap_job nop = { .op = GPUMAP_OP_NOP };
	struct gpumap_device d = story_device(g->map, g->row);
	double from = contract_now_ms();

	if (!OK(d.worker_pid != 0))
		return false;
	kill((pid_t)d.worker_pid, SIGKILL);
	if (!OK(story_back(g->map, g->row, d.restarts)))
		return false;
	*ret_ms = contract_now_ms() - from;
	return EQ(gpu_agent_do(g->session, g->row, &nop), 0);
}

static void a_killed_worker_is_replaced(struct gpu_agent *g)
{
	const size_t n = (size_t)gpu_rounds(5, 1);
	double times[5] = { 0 };
	size_t i = 0;

	while (i < n && kill_worker(g, &times[i])) {
		i++;
		/* Deaths in a row are paced; these are to be single ones. */
		if (gpu_is_real())
			contract_rest_ms(12000);
	}
	EQ(i, n);
	FACT("\"ready_again_ms\":{%s}", gpu_spread("all", times, i));
}

/* ---- memory of two processes -------------------------------------------- */

static void sessions_share_a_buffer(struct gpu_agent *g)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts) };
	struct gpumap_job fill = { .op = GPUMAP_OP_FILL,
				   .dtype = GPUMAP_DTYPE_U32,
				   .n = 1024,
				   .pattern = 0xfeedbeef };
	struct gpumap_job copy = { .op = GPUMAP_OP_COPY,
				   .dtype = GPUMAP_DTYPE_U32,
				   .n = 1024 };
	struct gpumap_session *other = NULL;
	uint64_t buffer = 0, imported = 0, id = 0;
	uint32_t *words = NULL;
	void *memory = NULL;
	int r;

	r = gpumap_buffer_alloc(g->session, g->row, 4096,
				GPUMAP_BUFFER_EXPORTABLE, NO_LIMIT, &buffer);
	if (r == -EOPNOTSUPP) {
		SKIP(1, "this card exports no memory");
		return;
	}
	if (!EQ(r, 0) || !EQ(gpumap_session_open(g->map, &opts, &other), 0))
		return;
	fill.dst_buffer = buffer;
	EQ(gpu_agent_do(g->session, g->row, &fill), 0);
	EQ(gpumap_buffer_export(g->session, buffer, &id), 0);
	EQ(gpumap_buffer_import(other, id, 0, &imported), 0);
	EQ(gpumap_alloc(other, g->row, 4096, &memory), 0);
	copy.src_buffer = imported;
	copy.dst = memory;
	words = memory;
	/* Imported memory outlives its exporter. */
	EQ(gpumap_buffer_free(g->session, buffer), 0);
	if (EQ(gpu_agent_do(other, g->row, &copy), 0)) {
		EQ(words[0], 0xfeedbeef);
		EQ(words[1023], 0xfeedbeef);
	}
	gpumap_session_close(other);
}

/* ---- drain -------------------------------------------------------------- */

/* The parent of a process, 0 where it is gone. */
static pid_t parent_of(pid_t pid)
{
	char path[64], text[512], *at;
	int parent = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	at = fgets(text, sizeof(text), file) ? strrchr(text, ')') : NULL;
	if (at)
		sscanf(at + 2, "%*c %d", &parent);
	fclose(file);
	return parent;
}

static bool descends(pid_t pid, pid_t from)
{
	for (int i = 0; i < 8 && pid > 1; i++) {
		if (pid == from)
			return true;
		pid = parent_of(pid);
	}
	return false;
}

/* Descriptors of the agent's and of its children that are named @what. */
static int count_open(pid_t agent, const char *what)
{
	struct dirent *entry;
	DIR *dir = opendir("/proc");
	int n = 0;

	while (dir && (entry = readdir(dir)) != NULL) {
		pid_t pid = atoi(entry->d_name);
		int held;

		if (pid <= 0 || !descends(pid, agent))
			continue;
		held = story_holds(pid, what);
		n += held > 0 ? held : 0;
	}
	if (dir)
		closedir(dir);
	return n;
}

static void a_drained_row_is_let_go(struct gpu_agent *g)
{
	struct gpumap_device d = story_device(g->map, g->row);
	struct gpumap_job nop = { .op = GPUMAP_OP_NOP };
	int before, after, r;
	char node[96];
	bool sees;

	snprintf(node, sizeof(node), "%s/nvidia%d", gpu_nodes(),
		 d.minor_number);
	sees = story_sees((pid_t)d.worker_pid, 2);
	before = count_open(g->agent.pid, node);
	if (sees)
		OK(before > 0);
	r = gpumap_device_drain(g->map, g->row);
	if (r == -EOPNOTSUPP) {
		SKIP(1, "this agent drains no rows");
		return;
	}
	if (!EQ(r, 0))
		return;
	EQ(story_device(g->map, g->row).state, GPUMAP_DEVICE_DRAINING);
	after = count_open(g->agent.pid, node);
	if (sees)
		EQ(after, 0);
	EQ(story_device(g->map, g->row).worker_pid, 0);
	FACT("\"node\":\"%s\",\"open_before\":%d,\"open_drained\":%d", node,
	     before, after);
	EQ(gpumap_device_undrain(g->map, g->row), 0);
	for (int i = 0; i < 5000; i++) {
		if (story_device(g->map, g->row).state == GPUMAP_DEVICE_READY)
			break;
		story_nap(2000);
	}
	EQ(story_device(g->map, g->row).state, GPUMAP_DEVICE_READY);
	gpumap_session_close(g->session);
	g->session = NULL;
	if (gpu_agent_session(g, 0))
		EQ(gpu_agent_do(g->session, g->row, &nop), 0);
}

TAP_CASE_ARGS(argc, argv)
{
	struct gpu_agent g;

	gpu_agent_go_under(argv);
	if (argc == 3)
		return fault(argv);
	if (!gpu_begin(argv))
		return tap_done();
	if (gpu_agent_make(&g, "") && gpu_agent_session(&g, 0)) {
		the_row_is_what_nvidia_smi_shows(&g);
		who_waits_sleeps(&g);
		a_small_job_waits_for_no_bulk(&g);
		a_strangers_fault_changes_no_row(&g);
		sessions_share_a_buffer(&g);
		a_killed_worker_is_replaced(&g);
		a_drained_row_is_let_go(&g);
	}
	gpu_agent_remove(&g);
	return tap_done();
}
