/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Plans over the control socket, with a whole agent on dummy rows: every
 * setting, what is published and reserved of it, for whom and for how long.
 */

#include <sys/wait.h>

#include <gpumap/plan.h>

#include "tests/support/layer_caches.h"
#include "tests/support/plan_agent.h"

static struct gpumap_layer_cache caches[N_LAYERS];

/* ---- plans -------------------------------------------------------------- */

static void a_plan_is_told_whole(void)
{
	struct gpumap_plan_request request = request_of(NULL, 0, GIB);
	struct gpumap_plan answer = { .size = sizeof(answer) };
	struct gpumap_charge charges[ROWS];
	uint32_t rows[N_LAYERS], layers = 0, wrong = 0;

	request.n_heads = 8;
	request.caches = fill_caches(caches, N_LAYERS, 4, 128);
	request.n_caches = N_LAYERS;
	request.max_seq_len = 1024;
	EQ(gpumap_plan_make(map, &request, &answer, rows, N_LAYERS, charges,
			    ROWS),
	   0);
	EQ(answer.n_layers, N_LAYERS);
	EQ(answer.version, 0);
	EQ(answer.missing_bytes, 0);
	/* The Turing card has the last word, where it has a part. */
	OK(answer.compute_dtype == GPUMAP_DTYPE_BF16 ||
	   answer.compute_dtype == GPUMAP_DTYPE_F16);
	EQ(answer.kv_bytes, 2 * 1024 * 4 * 128 * 2);
	OK(answer.spec[0] != '\0');
	for (uint32_t i = 0; i < answer.n_charges && i < ROWS; i++) {
		uint32_t n = 0;

		for (uint32_t l = 0; l < N_LAYERS; l++)
			n += rows[l] == charges[i].row;
		wrong += n != charges[i].n_layers;
		wrong += charges[i].kv_bytes != n * answer.kv_bytes;
		wrong += charges[i].weight_bytes <
			 n * GIB; /* and what is no layer's */
		layers += n;
	}
	EQ(wrong, 0);
	EQ(layers, N_LAYERS);
	OK(is_empty());
}

static void arrays_may_be_too_small(void)
{
	struct gpumap_plan_request request =
		request_of("small", GPUMAP_PLAN_PUBLISH, GIB);
	struct gpumap_plan answer = { .size = sizeof(answer) };
	struct gpumap_charge charge = { .row = 77 };
	uint32_t row = 77;

	EQ(gpumap_plan_make(map, &request, &answer, &row, 1, NULL, 0),
	   -ENOBUFS);
	EQ(answer.n_layers, N_LAYERS);
	EQ(row, 77);
	OK(is_published("small"));
	EQ(gpumap_plan_make(map, &request, &answer, NULL, 0, &charge, 1),
	   -ENOBUFS);
	EQ(charge.row, 77);
	EQ(head_of("small").version, answer.version);
	EQ(gpumap_layers_release(map, "small"), 0);
}

static const struct {
	uint32_t setting;
	const char *text, *weights;
	uint32_t first, last; /* rows of the first and the last layer */
} settings[] = {
	{ GPUMAP_SETTING_MANUAL, "1:4;0:4;3:4", NULL, 1, 3 },
	{ GPUMAP_SETTING_TOPOLOGY, "0-5:cuda[2];6-12:cuda[0]", NULL, 2, 0 },
	{ GPUMAP_SETTING_DUMMY, NULL, NULL, 1, 1 },
	{ GPUMAP_SETTING_NCCL, NULL, NULL, 1, 1 },
	{ GPUMAP_SETTING_PIPELINE, "4,4,4", NULL, 1, 2 },
	{ GPUMAP_SETTING_PIPELINE, NULL, "1,2,1", 1, 2 },
};

static void every_setting_is_one(void)
{
	static const uint32_t ranks[] = { 1, 0, 2 };

	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		struct gpumap_plan_request request =
			request_of("set", GPUMAP_PLAN_PUBLISH, GIB / 8);
		struct gpumap_plan answer = { .size = sizeof(answer) };
		uint32_t setting = settings[i].setting, rows[N_LAYERS] = { 0 };

		request.setting = setting;
		request.text = settings[i].text;
		request.weights = settings[i].weights;
		if (setting == GPUMAP_SETTING_PIPELINE ||
		    setting == GPUMAP_SETTING_NCCL) {
			request.rows = ranks;
			request.n_rows = setting == GPUMAP_SETTING_NCCL ? 2 : 3;
		}
		if (setting == GPUMAP_SETTING_DUMMY) {
			request.flags |= GPUMAP_PLAN_BASE;
			request.base_row = 1;
		}
		if (!EQ(gpumap_plan_make(map, &request, &answer, rows, N_LAYERS,
					 NULL, 0),
			0))
			NOTE("setting %u: %s", setting, gpumap_refusal(map));
		EQ(rows[0], settings[i].first);
		EQ(rows[N_LAYERS - 1], settings[i].last);
		EQ(head_of("set").setting, setting);
		EQ(head_of("set").version, answer.version);
	}
	EQ(all_reserved(), 0);
	EQ(gpumap_layers_release(map, "set"), 0);
}

static void maps_say_what_they_are_for(void)
{
	struct gpumap_plan_request request =
		request_of("what", GPUMAP_PLAN_COMMIT, GIB);
	struct gpumap_layers head;
	struct gpumap_plan answer;

	request.strategy = GPUMAP_STRATEGY_BALANCE;
	request.compute_dtype = GPUMAP_DTYPE_F16;
	request.n_heads = 8;
	request.caches = fill_caches(caches, N_LAYERS, 8, 64);
	request.n_caches = N_LAYERS;
	request.max_seq_len = 2048;
	request.max_batch_size = 3;
	EQ(plan(&request, &answer), 0);
	head = head_of("what");
	EQ(head.flags, GPUMAP_LAYERS_COMMITTED);
	EQ(head.setting, GPUMAP_SETTING_AUTO);
	EQ(head.strategy, GPUMAP_STRATEGY_BALANCE);
	EQ(head.dtype, GPUMAP_DTYPE_BF16);
	EQ(head.compute_dtype, GPUMAP_DTYPE_F16);
	EQ(head.max_seq_len, 2048);
	EQ(head.max_batch_size, 3);
	EQ(head.layer_bytes, N_LAYERS * GIB);
	EQ(head.other_bytes, GIB / 4);
	STR(head.spec, answer.spec);
	EQ(gpumap_layers_release(map, "what"), 0);
	OK(is_empty());
}

/* ---- reservations -------------------------------------------------------- */

static void what_is_committed_is_nobody_elses(void)
{
	uint64_t charged = 0;
	struct gpumap_charge charges[ROWS];
	struct gpumap_layers head = { .size = sizeof(head) };
	struct gpumap_plan_request request =
		request_of("second", GPUMAP_PLAN_COMMIT, 2 * GIB);
	struct gpumap_plan answer;

	EQ(commit("first", 0, 2 * GIB), 0);
	EQ(gpumap_layers_read(map, "first", &head, NULL, NULL, 0, charges,
			      ROWS),
	   0);
	for (uint32_t i = 0; i < head.n_rows; i++)
		charged += charges[i].weight_bytes + charges[i].kv_bytes +
			   charges[i].activation_bytes +
			   charges[i].reserve_bytes;
	EQ(all_reserved(), charged);
	OK(charged >= N_LAYERS * 2 * GIB);

	/* The host's 60 GiB are left, which hold two of them. */
	EQ(commit("second", 0, 2 * GIB), 0);
	EQ(commit("third", 0, 2 * GIB), 0);
	charged = all_reserved();
	EQ(commit("fourth", 0, 2 * GIB), -ENOSPC);
	OK(gpumap_refusal(map)[0] != '\0');
	OK(!is_published("fourth"));
	EQ(all_reserved(), charged);

	/* Its own to have again. */
	EQ(commit("third", 0, 2 * GIB), 0);
	EQ(plan(&request, &answer), 0);
	OK(all_reserved() <= charged);
	EQ(gpumap_layers_release(map, "first"), 0);
	EQ(commit("fourth", 0, 2 * GIB), 0);
	EQ(gpumap_layers_release(map, "second"), 0);
	EQ(gpumap_layers_release(map, "third"), 0);
	EQ(gpumap_layers_release(map, "fourth"), 0);
	OK(is_empty());
}

static void what_is_missing_is_said(void)
{
	struct gpumap_plan_request request = request_of("m", 0, GIB);
	struct gpumap_plan answer;

	request.setting = GPUMAP_SETTING_MANUAL;
	request.text = "0:12";
	EQ(plan(&request, &answer), 0); /* it may be asked */
	EQ(answer.missing_row, 0);
	OK(answer.missing_bytes >= 4 * GIB + GIB / 4);
	request.flags = GPUMAP_PLAN_COMMIT;
	EQ(plan(&request, &answer), -ENOSPC);
	EQ(answer.missing_row, 0);
	OK(answer.missing_bytes >= 4 * GIB + GIB / 4);
	OK(strstr(gpumap_refusal(map), "row 0 has 8 GiB that no map "
				       "reserves") != NULL);
	/* A map that was published without a reservation takes no memory from
	 * others. */
	request.flags = GPUMAP_PLAN_PUBLISH;
	EQ(plan(&request, &answer), 0);
	OK(answer.missing_bytes != 0);
	EQ(all_reserved(), 0);
	EQ(gpumap_layers_release(map, "m"), 0);
}

static void a_commitment_wakes_who_waits(void)
{
	uint32_t seen = gpumap_generation(map);

	EQ(commit("w", 0, GIB), 0);
	EQ(gpumap_wait_change(map, seen, 0), 0);
	seen = gpumap_generation(map);
	EQ(gpumap_layers_release(map, "w"), 0);
	EQ(gpumap_wait_change(map, seen, 0), 0);
}

/* ---- holders ------------------------------------------------------------- */

/* A process that commits, says so, and waits to be killed. */
static pid_t start_holder(const char *name)
{
	int said[2];
	char word = 0;
	pid_t pid;

	if (pipe(said) != 0)
		exit(99);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		map = story_attach(&agent);
		word = map != NULL &&
		       commit(name, GPUMAP_PLAN_HELD, GIB / 2) == 0;
		if (write(said[1], &word, 1) == 1)
			pause();
		_exit(0);
	}
	close(said[1]);
	OK(read(said[0], &word, 1) == 1 && word);
	close(said[0]);
	return pid;
}

static void end_holder(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static bool goes(const char *name)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	while (story_now() < until) {
		uint32_t seen = gpumap_generation(map);

		if (!is_published(name))
			return true;
		gpumap_wait_change(map, seen, story_now() + 100000000);
	}
	return false;
}

/* The one of this name, or of version 0. */
static struct gpumap_holder who(const char *name)
{
	struct gpumap_holder holder = { .size = sizeof(holder) };
	uint32_t cursor = 0;

	while (gpumap_holder_next(map, &cursor, &holder) == 1) {
		if (strcmp(holder.name, name) == 0)
			return holder;
	}
	return (struct gpumap_holder){ .version = 0 };
}

static void held_maps_go_with_their_process(void)
{
	pid_t holder;

	EQ(commit("named", 0, GIB / 2), 0);
	holder = start_holder("held");
	EQ(head_of("held").flags, GPUMAP_LAYERS_COMMITTED | GPUMAP_LAYERS_HELD);
	EQ(who("held").pid, holder);
	EQ(who("held").version, head_of("held").version);
	EQ(who("held").since_ns, head_of("held").published_ns);
	EQ(who("named").pid, 0);
	EQ(who("named").uid, getuid());
	end_holder(holder);
	OK(goes("held"));
	OK(is_published("named"));
	EQ(who("held").version, 0);
	EQ(gpumap_layers_release(map, "named"), 0);
	OK(is_empty());

	/* The map is a name's by the time that its process ends. */
	holder = start_holder("m");
	EQ(commit("m", 0, GIB / 2), 0);
	end_holder(holder);
	holder = start_holder("other");
	end_holder(holder);
	OK(goes("other"));
	OK(is_published("m"));
	EQ(who("m").pid, 0);
	EQ(gpumap_layers_release(map, "m"), 0);
}

static void who_takes_what_its_caller_knows(void)
{
	struct gpumap_holder holder = { .size = 4097 };
	uint32_t cursor = 0;

	EQ(gpumap_holder_next(map, &cursor, &holder), -E2BIG);
	holder.size = 8;
	EQ(gpumap_holder_next(map, &cursor, &holder), -EINVAL);
	holder.size = sizeof(holder);
	EQ(gpumap_holder_next(map, &cursor, &holder), 0);
}

/* ---- the next agent ------------------------------------------------------ */

static void restart(void)
{
	gpumap_detach(map);
	agent_kill(&agent, SIGKILL);
	if (!OK(agent_start(&agent)))
		agent_show_log(&agent);
	map = story_attach(&agent);
}

static void reservations_outlive_the_agent(void)
{
	pid_t living, dead;
	uint64_t version, bytes;

	EQ(commit("named", 0, GIB), 0);
	version = head_of("named").version;
	living = start_holder("living");
	bytes = all_reserved();
	dead = start_holder("dead");
	gpumap_detach(map);
	agent_kill(&agent, SIGKILL);
	end_holder(dead);
	OK(agent_start(&agent));
	map = story_attach(&agent);
	OK(agent_logged(&agent, "event=holders_adopted pins=0 held=2 gone=1"));
	OK(agent_logged(&agent, "event=withdrawn name=dead"));
	EQ(head_of("named").version, version);
	EQ(head_of("named").flags, GPUMAP_LAYERS_COMMITTED);
	EQ(who("living").pid, living);
	OK(!is_published("dead"));
	EQ(all_reserved(), bytes);

	/* And the segment: the names are in files, the lives are not. */
	gpumap_detach(map);
	agent_kill(&agent, SIGTERM);
	EQ(agent_run(&agent, "--remove"), 0);
	OK(agent_start(&agent));
	map = story_attach(&agent);
	EQ(head_of("named").flags, GPUMAP_LAYERS_COMMITTED);
	OK(head_of("named").version > version);
	EQ(head_of("named").compute_dtype, GPUMAP_DTYPE_BF16);
	OK(!is_published("living"));
	OK(all_reserved() > 0 && all_reserved() < bytes);
	EQ(gpumap_layers_release(map, "named"), 0);
	OK(is_empty());
	end_holder(living);
	restart();
	OK(is_empty());
}

TAP_CASE()
{
	agent_make(&agent, NULL);
	configure("");
	if (!OK(agent_start(&agent))) {
		agent_show_log(&agent);
		return tap_done();
	}
	map = story_attach(&agent);

	a_plan_is_told_whole();
	arrays_may_be_too_small();
	every_setting_is_one();
	maps_say_what_they_are_for();
	what_is_committed_is_nobody_elses();
	what_is_missing_is_said();
	a_commitment_wakes_who_waits();
	held_maps_go_with_their_process();
	who_takes_what_its_caller_knows();
	reservations_outlive_the_agent();

	gpumap_detach(map);
	agent_remove(&agent);
	return tap_done();
}
