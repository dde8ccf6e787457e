/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Reservations of bytes, the line of those that wait for room, and start
 * windows: which row is taken, in which order, and when a request is refused.
 */

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <gpumap/plan.h>

#include "tests/support/plan_agent.h"

#define LONG_NS  UINT64_C(60000000000)
#define SHORT_NS UINT64_C(50000000)

static const uint32_t one[] = { 1 }, both[] = { 0, 1 };

/* ---- processes that reserve --------------------------------------------- */

struct holder {
	pid_t pid;
	int result; /* reads the result, once there is one */
};

static struct gpumap_plan_request reserve(const char *name, uint64_t *bytes,
					  uint32_t n)
{
	return (struct gpumap_plan_request){
		.size = sizeof(struct gpumap_plan_request),
		.name = name,
		.flags = GPUMAP_PLAN_COMMIT | GPUMAP_PLAN_HELD,
		.setting = GPUMAP_SETTING_RESERVE,
		.n_layers = n,
		.layer_bytes = bytes,
	};
}

/* Have a process ask for @request, and live on. */
static struct holder begin(const struct gpumap_plan_request *request)
{
	struct gpumap_plan answer;
	struct holder holder;
	int result[2], ret;

	if (pipe2(result, O_CLOEXEC) != 0)
		return (struct holder){ 0 };
	holder = (struct holder){ .pid = fork(), .result = result[0] };
	if (holder.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		map = story_attach(&agent);
		ret = plan(request, &answer);
		if (write(result[1], &ret, sizeof(ret)) == sizeof(ret))
			pause();
		_exit(1);
	}
	close(result[1]);
	return holder;
}

static int result_of(const struct holder *holder)
{
	int ret = 1;

	OK(read(holder->result, &ret, sizeof(ret)) == sizeof(ret));
	return ret;
}

static bool is_waiting(const struct holder *holder)
{
	struct pollfd ready = { .fd = holder->result, .events = POLLIN };

	return poll(&ready, 1, 0) == 0;
}

static void end(struct holder *holder)
{
	kill(holder->pid, SIGKILL);
	waitpid(holder->pid, NULL, 0);
	close(holder->result);
}

/* Wait until so many are in the line. */
static bool has_line(int n)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	while (gpumap_wait_list(map, NULL, 0) != n && story_now() < until)
		story_nap(1000);
	return EQ(gpumap_wait_list(map, NULL, 0), n);
}

static bool is_free(void)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	while (all_reserved() != 0 && story_now() < until)
		story_nap(1000);
	return EQ(all_reserved(), 0);
}

static int ask(const struct gpumap_plan_request *request)
{
	struct gpumap_plan answer;

	return plan(request, &answer);
}

/* ---- which row ----------------------------------------------------------- */

static void bytes_are_exact(void)
{
	uint64_t bytes[] = { 3 * GIB + 1, 1 };
	struct gpumap_plan_request request = reserve("exact", bytes, 2);
	struct gpumap_charge charges[2];
	struct gpumap_plan answer = { .size = sizeof(answer) };

	request.rows = both;
	request.n_rows = 2;
	EQ(gpumap_plan_make(map, &request, &answer, NULL, 0, charges, 2), 0);
	EQ(answer.n_charges, 2);
	STR(answer.spec, "0:1;1:1");
	EQ(charges[0].weight_bytes, bytes[0]);
	EQ(charges[0].kv_bytes + charges[0].activation_bytes +
		   charges[0].reserve_bytes,
	   0);
	EQ(charges[0].left_bytes, 5 * GIB - 1);
	EQ(charges[1].left_bytes, 8 * GIB - 1);
	EQ(answer.missing_bytes, 0);
	EQ(reserved(0), bytes[0]);
	EQ(reserved(1), 1);
	EQ(head_of("exact").setting, GPUMAP_SETTING_MANUAL);
	EQ(gpumap_layers_release(map, "exact"), 0);
	OK(is_empty());

	/* All that is free, and one byte more. */
	bytes[0] = 8 * GIB;
	request.n_layers = request.n_rows = 1;
	EQ(ask(&request), 0);
	EQ(gpumap_layers_release(map, "exact"), 0);
	bytes[0]++;
	EQ(plan(&request, &answer), -ENOSPC);
	EQ(answer.missing_bytes, 1);
	EQ(answer.missing_row, 0);
	/* And so it is asked for without being taken. */
	request.flags = 0;
	bytes[0] += GIB;
	EQ(gpumap_plan_make(map, &request, &answer, NULL, 0, charges, 2), 0);
	EQ(charges[0].weight_bytes, 9 * GIB + 1);
	EQ(charges[0].left_bytes, 0);
	EQ(answer.missing_bytes, GIB + 1);
	OK(is_empty());
}

/* The row of several that lacks the fewest bytes is told. */
static void what_is_missing_is_the_least(void)
{
	static const uint32_t rows[][2] = { { 0, 3 }, { 3, 0 } };
	uint64_t bytes = 65 * GIB, most = 3 * GIB;
	struct gpumap_plan_request request = reserve("much", &bytes, 1);
	struct gpumap_plan_request ours = reserve("ours", &most, 1);
	struct gpumap_plan answer;

	request.n_rows = ours.n_rows = 2;
	for (int i = 0; i < 2; i++) {
		/* The rows have less in all. */
		request.rows = rows[i];
		bytes = 65 * GIB;
		EQ(plan(&request, &answer), -ENOSPC);
		EQ(answer.missing_bytes, GIB);
		EQ(answer.missing_row, 3);
		OK(strstr(gpumap_refusal(map),
			  "row 3 has 64 GiB in all, the reservation takes "
			  "65 GiB") != NULL);
		/* The rows have less that is free. */
		bytes = 61 * GIB;
		EQ(plan(&request, &answer), -ENOSPC);
		EQ(answer.missing_bytes, GIB);
		EQ(answer.missing_row, 3);
	}
	/* The second row has more, and then the first. */
	bytes = 8 * GIB;
	request.rows = both;
	ours.n_rows = 1;
	ours.rows = both;
	EQ(ask(&ours), 0);
	ours.name = "more";
	most = GIB;
	ours.rows = one;
	EQ(ask(&ours), 0);
	EQ(plan(&request, &answer), -ENOSPC);
	EQ(answer.missing_bytes, GIB);
	EQ(answer.missing_row, 1);
	most = 4 * GIB;
	EQ(ask(&ours), 0);
	EQ(plan(&request, &answer), -ENOSPC);
	EQ(answer.missing_bytes, 3 * GIB);
	EQ(answer.missing_row, 0);
	OK(strstr(gpumap_refusal(map),
		  "row 0, which has the most, has 5 GiB that no map reserves, "
		  "the reservation takes 8 GiB") != NULL);
	EQ(gpumap_layers_release(map, "ours"), 0);
	EQ(gpumap_layers_release(map, "more"), 0);
	OK(is_empty());
}

static void the_row_that_fits_best_is_taken(void)
{
	uint64_t bytes = 9 * GIB;
	struct gpumap_plan_request request = reserve("any", &bytes, 1);
	struct gpumap_plan answer;

	/* B alone has so much; then A's rows have less left; C is a host. */
	EQ(plan(&request, &answer), 0);
	STR(answer.spec, "2:1");
	bytes = GIB / 2;
	request.name = "small";
	EQ(plan(&request, &answer), 0);
	STR(answer.spec, "2:1");
	bytes = GIB;
	request.name = "next";
	EQ(plan(&request, &answer), 0);
	STR(answer.spec, "0:1");
	bytes = 11 * GIB;
	request.name = "never";
	request.wait_ns = LONG_NS;
	EQ(plan(&request, &answer), -ENOSPC);
	EQ(answer.missing_bytes, GIB);
	OK(strstr(gpumap_refusal(map), "in all") != NULL);
	EQ(gpumap_layers_release(map, "any"), 0);
	EQ(gpumap_layers_release(map, "small"), 0);
	EQ(gpumap_layers_release(map, "next"), 0);
	/* All of a row, and all that is left of one. */
	bytes = 10 * GIB;
	request.name = "all";
	request.wait_ns = 0;
	EQ(plan(&request, &answer), 0);
	STR(answer.spec, "2:1");
	bytes = 7 * GIB;
	request.name = "most";
	EQ(plan(&request, &answer), 0);
	STR(answer.spec, "0:1");
	bytes = GIB;
	request.name = "left";
	request.n_rows = 1;
	request.rows = (const uint32_t[]){ 0 };
	EQ(plan(&request, &answer), 0);
	request.n_rows = 2;
	request.rows = (const uint32_t[]){ 2, 0 };
	request.name = "none";
	EQ(plan(&request, &answer), -ENOSPC);
	EQ(answer.missing_bytes, GIB);
	EQ(answer.missing_row, 0);
	EQ(gpumap_layers_release(map, "all"), 0);
	EQ(gpumap_layers_release(map, "most"), 0);
	EQ(gpumap_layers_release(map, "left"), 0);
	OK(is_empty());
}

static void nonsense_is_refused(void)
{
	uint64_t bytes[] = { GIB, 0 };
	struct gpumap_plan_request request = reserve("none", bytes, 2);

	request.rows = both;
	request.n_rows = 2;
	request.flags = GPUMAP_PLAN_COMMIT;
	EQ(ask(&request), -EINVAL); /* no bytes, and no process */
	bytes[1] = GIB;
	bytes[0] = 0;
	EQ(ask(&request), -EINVAL); /* likewise, of the first row */
	bytes[0] = GIB;
	bytes[1] = 0;
	request.flags |= GPUMAP_PLAN_HELD;
	request.n_rows = 1;
	EQ(ask(&request), -EINVAL); /* two sizes, one row */
	request.n_layers = 1;
	request.flags = GPUMAP_PLAN_COMMIT;
	request.start_ns = 1;
	EQ(ask(&request), -EINVAL); /* no process to be watched */
	request.flags |= GPUMAP_PLAN_HELD;
	request.start_ns = UINT64_C(3600000000001);
	EQ(ask(&request), -EINVAL); /* longer than an hour */
	request.start_ns = 0;
	request.flags = GPUMAP_PLAN_PUBLISH;
	request.wait_ns = 1;
	EQ(ask(&request), -EINVAL);
	OK(is_empty());
}

/* ---- the line ------------------------------------------------------------ */

static void the_first_comes_first(void)
{
	uint64_t most = 7 * GIB, much = 15 * GIB / 2, little = 3 * GIB / 4;
	uint64_t tiny = GIB / 4;
	struct gpumap_plan_request ours = reserve("ours", &most, 1);
	struct gpumap_plan_request large = reserve("large", &much, 1);
	struct gpumap_plan_request small = reserve("small", &little, 1);
	struct gpumap_plan_request beside = reserve("beside", &tiny, 1);
	struct gpumap_wait_info line[3] = { { .size = sizeof(line[0]) } };
	struct holder first, second;

	ours.rows = large.rows = small.rows = beside.rows = one;
	ours.n_rows = large.n_rows = small.n_rows = beside.n_rows = 1;
	EQ(ask(&ours), 0);
	large.wait_ns = small.wait_ns = LONG_NS;
	first = begin(&large);
	has_line(1);
	second = begin(&small);
	has_line(2);
	/* There is room for the second, but not beside the first. */
	OK(is_waiting(&second));
	EQ(gpumap_wait_list(map, line, 3), 2);
	STR(line[0].name, "large");
	STR(line[1].name, "small");
	EQ(line[0].pid, first.pid);
	EQ(line[0].bytes, much);
	EQ(line[0].missing_bytes, 13 * GIB / 2);
	EQ(line[0].n_before, 0);
	EQ(line[1].n_before, 1);
	EQ(line[0].missing_row, 1);
	EQ(line[0].rows[0], 2);
	EQ(line[0].n_rows, 1);
	OK(line[0].left_ns > 0 && line[0].left_ns < LONG_NS);
	OK(line[0].age_ns >= line[1].age_ns);
	/* Nor does one that does not wait, unless it is for good. */
	small.wait_ns = 0;
	small.name = "rude";
	EQ(ask(&small), -ENOSPC);
	small.flags = GPUMAP_PLAN_COMMIT;
	EQ(ask(&small), 0);
	EQ(gpumap_layers_release(map, "rude"), 0);
	/* One that fits beside those that wait need not wait. */
	EQ(ask(&beside), 0);
	EQ(gpumap_layers_release(map, "beside"), 0);

	EQ(gpumap_layers_release(map, "ours"), 0);
	EQ(result_of(&first), 0);
	EQ(reserved(1), much);
	OK(is_waiting(&second));
	end(&first);
	EQ(result_of(&second), 0);
	EQ(reserved(1), little);
	end(&second);
	is_free();
}

/* Neither a map of another process, whichever asked first, nor one that no
 * process holds. */
static void a_new_map_replaces_its_own_alone(void)
{
	uint64_t most = 7 * GIB, much = 2 * GIB;
	struct gpumap_plan_request ours = reserve("ours", &most, 1);
	struct gpumap_plan_request same = reserve("same", &much, 1);
	struct holder first, second;

	ours.rows = same.rows = one;
	ours.n_rows = same.n_rows = 1;
	same.flags |= GPUMAP_PLAN_NEW;
	same.wait_ns = STORY_LIMIT_NS;
	EQ(ask(&ours), 0);
	first = begin(&same);
	has_line(1);
	second = begin(&same);
	has_line(2);
	EQ(gpumap_layers_release(map, "ours"), 0);
	EQ(result_of(&first), 0);
	EQ(result_of(&second), -EEXIST);
	EQ(ask(&same), -EEXIST);
	OK(strstr(gpumap_refusal(map), "holds a map of this name") != NULL);
	end(&second);
	EQ(all_reserved(), 2 * GIB);
	end(&first);
	is_free();
	EQ(ask(&same), 0);
	much = GIB;
	EQ(ask(&same), 0);
	EQ(all_reserved(), GIB);
	same.flags = GPUMAP_PLAN_COMMIT | GPUMAP_PLAN_NEW;
	EQ(ask(&same), 0);
	EQ(ask(&same), -EEXIST);
	OK(strstr(gpumap_refusal(map), "there is a map of this name") != NULL);
	EQ(all_reserved(), GIB);
	EQ(gpumap_layers_release(map, "same"), 0);
	OK(is_empty());
}

static void a_place_ends_with_its_process(void)
{
	uint64_t most = 8 * GIB, little = GIB;
	struct gpumap_plan_request ours = reserve("ours", &most, 1);
	struct gpumap_plan_request other = reserve("other", &most, 1);
	struct gpumap_plan_request small = reserve("small", &little, 1);
	struct holder holder, first, second;

	ours.rows = other.rows = small.rows = one;
	ours.n_rows = other.n_rows = small.n_rows = 1;
	other.wait_ns = small.wait_ns = LONG_NS;
	holder = begin(&ours);
	EQ(result_of(&holder), 0);
	first = begin(&other);
	has_line(1);
	second = begin(&small);
	has_line(2);
	end(&first);
	has_line(1);
	end(&holder);
	EQ(result_of(&second), 0);
	EQ(reserved(1), little);
	end(&second);
	is_free();
}

static void one_that_takes_any_row_takes_another(void)
{
	uint64_t most = 8 * GIB, much = 6 * GIB;
	struct gpumap_plan_request ours = reserve("ours", &most, 1);
	struct gpumap_plan_request strict = reserve("strict", &much, 1);
	struct gpumap_plan_request any = reserve("any", &much, 1);
	struct holder first, second;

	ours.rows = strict.rows = one;
	ours.n_rows = strict.n_rows = 1;
	strict.wait_ns = any.wait_ns = LONG_NS;
	any.rows = both;
	any.n_rows = 2;
	EQ(ask(&ours), 0);
	first = begin(&strict);
	has_line(1);
	second = begin(&any);
	EQ(result_of(&second), 0);
	EQ(reserved(0), much);
	OK(is_waiting(&first));
	EQ(gpumap_layers_release(map, "ours"), 0);
	EQ(result_of(&first), 0);
	end(&first);
	end(&second);
	is_free();
}

static void waiting_ends(void)
{
	uint64_t most = 8 * GIB, little = GIB;
	struct gpumap_plan_request ours = reserve("ours", &most, 1);
	struct gpumap_plan_request other = reserve("other", &little, 1);
	struct gpumap_plan answer;

	ours.rows = other.rows = one;
	ours.n_rows = other.n_rows = 1;
	EQ(ask(&ours), 0);
	other.wait_ns = SHORT_NS;
	EQ(plan(&other, &answer), -ETIMEDOUT);
	EQ(answer.missing_bytes, GIB);
	EQ(answer.missing_row, 1);
	OK(strstr(gpumap_refusal(map), "later still: row 1") != NULL);
	EQ(gpumap_wait_list(map, NULL, 0), 0);

	/* The wait does not count against the limit of requests. */
	other.wait_ns = 2 * UINT64_C(1000000000);
	EQ(gpumap_request_limit(map, 0), 0);
	EQ(plan(&other, &answer), -ETIMEDOUT);
	EQ(answer.missing_bytes, GIB);
	OK(strstr(gpumap_refusal(map), "later still: row 1") != NULL);
	EQ(gpumap_request_limit(map, GPUMAP_REQUEST_LIMIT_NS), 0);
	EQ(gpumap_layers_release(map, "ours"), 0);

	/* Plans of models wait, too. */
	ours.name = "a";
	ours.rows = both;
	EQ(ask(&ours), 0);
	other = request_of("model", GPUMAP_PLAN_COMMIT | GPUMAP_PLAN_HELD,
			   GIB / 4);
	other.rows = both;
	other.n_rows = 1;
	other.wait_ns = SHORT_NS;
	EQ(plan(&other, &answer), -ETIMEDOUT);
	other.wait_ns = LONG_NS;
	{
		struct holder holder = begin(&other);

		has_line(1);
		EQ(gpumap_layers_release(map, "a"), 0);
		EQ(result_of(&holder), 0);
		end(&holder);
	}
	is_free();
}

/* A model goes where it need not wait, unless its rows are said. */
static void a_model_leaves_rows_to_others(void)
{
	uint64_t most = 7 * GIB, much = 8 * GIB;
	struct gpumap_plan_request ours = reserve("ours", &most, 1);
	struct gpumap_plan_request large = reserve("large", &much, 1);
	struct gpumap_plan_request model = request_of(
		"model", GPUMAP_PLAN_COMMIT | GPUMAP_PLAN_HELD, GIB / 16);
	struct gpumap_plan answer;
	struct holder first, second;

	ours.rows = large.rows = one;
	ours.n_rows = large.n_rows = 1;
	large.wait_ns = LONG_NS;
	EQ(ask(&ours), 0);
	first = begin(&large);
	has_line(1);
	/* Row 1 would do, which comes first. */
	model.rows = (const uint32_t[]){ 1, 0 };
	model.n_rows = 2;
	EQ(plan(&model, &answer), 0);
	STR(answer.spec, "0:12");
	EQ(gpumap_layers_release(map, "model"), 0);
	model.flags = GPUMAP_PLAN_COMMIT; /* the administrator's */
	EQ(plan(&model, &answer), 0);
	STR(answer.spec, "1:4;0:8");
	EQ(gpumap_layers_release(map, "model"), 0);
	model.flags |= GPUMAP_PLAN_HELD;
	model.setting = GPUMAP_SETTING_MANUAL;
	model.text = "1:1;0:11";
	EQ(ask(&model), -ENOSPC);
	OK(strstr(gpumap_refusal(map), "that came before wait") != NULL);

	/* The other row is full, and then is not. */
	model.setting = GPUMAP_SETTING_AUTO;
	model.text = NULL;
	model.wait_ns = LONG_NS;
	ours.name = "full";
	ours.rows = both;
	most = 8 * GIB;
	EQ(ask(&ours), 0);
	second = begin(&model);
	has_line(2);
	EQ(gpumap_layers_release(map, "full"), 0);
	EQ(result_of(&second), 0);
	EQ(reserved(1), 7 * GIB);
	OK(is_waiting(&first));
	end(&second);
	EQ(gpumap_layers_release(map, "ours"), 0);
	EQ(result_of(&first), 0);
	end(&first);
	is_free();
}

/* A model that fits nowhere now keeps the rows of the map that it could have,
 * whether a strategy places it or a topology that names no device. */
static void a_model_keeps_rows_of_its_own(const char *topology)
{
	uint64_t most[] = { 7 * GIB, 7 * GIB }, little = GIB;
	struct gpumap_plan_request ours = reserve("ours", most, 2);
	struct gpumap_plan_request small = reserve("small", &little, 1);
	struct gpumap_plan_request model =
		request_of("model", GPUMAP_PLAN_COMMIT | GPUMAP_PLAN_HELD, GIB);
	struct gpumap_wait_info line = { .size = sizeof(line) };
	struct holder waits;

	ours.rows = both;
	ours.n_rows = 2;
	EQ(ask(&ours), 0);
	model.rows = (const uint32_t[]){ 1, 0 };
	model.n_rows = 2;
	model.wait_ns = LONG_NS;
	if (topology != NULL) {
		model.setting = GPUMAP_SETTING_TOPOLOGY;
		model.text = topology;
	}
	waits = begin(&model);
	has_line(1);
	EQ(gpumap_wait_list(map, &line, 1), 1);
	EQ(line.rows[0], 3);
	/* Seven of its layers are to be on row 1, five on row 0. */
	small.rows = one;
	small.n_rows = 1;
	EQ(ask(&small), -ENOSPC);
	small.rows = both;
	EQ(ask(&small), 0);
	EQ(gpumap_layers_release(map, "ours"), 0);
	EQ(result_of(&waits), 0);
	EQ(gpumap_layers_release(map, "small"), 0);
	end(&waits);
	is_free();
}

/* Its user may not have so much of the row: no end of others' maps helps. */
static void one_that_its_share_forbids_bars_nobody(void)
{
	uint64_t most = 7 * GIB, little = GIB * 7 / 8;
	struct gpumap_plan_request ours = reserve("ours", &most, 1);
	struct gpumap_plan_request small = reserve("small", &little, 1);
	struct gpumap_plan_request model = request_of(
		"model",
		GPUMAP_PLAN_COMMIT | GPUMAP_PLAN_HELD | GPUMAP_PLAN_FOR,
		GIB * 7 / 12);
	struct holder waits;

	model.owner_uid = 54321;
	ours.rows = small.rows = model.rows = one;
	ours.n_rows = small.n_rows = model.n_rows = 1;
	EQ(ask(&model), -EDQUOT);
	EQ(ask(&ours), 0);
	model.wait_ns = LONG_NS;
	waits = begin(&model);
	has_line(1);
	EQ(ask(&small), 0);
	EQ(gpumap_layers_release(map, "small"), 0);
	EQ(gpumap_layers_release(map, "ours"), 0);
	EQ(result_of(&waits), -EDQUOT);
	end(&waits);
	is_free();
}

/* ---- start windows ------------------------------------------------------- */

static struct gpumap_holder holder_of(const char *name)
{
	struct gpumap_holder holder = { .size = sizeof(holder) };
	uint32_t cursor = 0;

	while (gpumap_holder_next(map, &cursor, &holder) == 1) {
		if (strcmp(holder.name, name) == 0)
			return holder;
	}
	return (struct gpumap_holder){ 0 };
}

static void one_starts_at_a_time(void)
{
	uint64_t bytes = GIB;
	struct gpumap_plan_request a = reserve("a", &bytes, 1);
	struct gpumap_plan_request b = reserve("b", &bytes, 1);
	struct gpumap_plan_request c = reserve("c", &bytes, 1);
	struct gpumap_wait_info line = { .size = sizeof(line) };
	uint64_t until = story_now() + STORY_LIMIT_NS;
	struct holder first, second, third;

	a.rows = b.rows = c.rows = one;
	a.n_rows = b.n_rows = c.n_rows = 1;
	a.start_ns = b.start_ns = LONG_NS;
	c.start_ns = SHORT_NS;
	first = begin(&a);
	EQ(result_of(&first), 0);
	OK(holder_of("a").start_ns > 0 && holder_of("a").start_ns <= LONG_NS);
	EQ(ask(&b), -EBUSY);
	b.wait_ns = c.wait_ns = LONG_NS;
	second = begin(&b);
	has_line(1);
	/* The agent may be about to try again, and knows no obstacle then. */
	do
		EQ(gpumap_wait_list(map, &line, 1), 1);
	while (line.flags == 0 && story_now() < until);
	EQ(line.flags, GPUMAP_WAIT_FOR_START);
	third = begin(&c);
	has_line(2);

	EQ(gpumap_started(map, "no such"), -ENOENT);
	EQ(gpumap_started(map, ""), -EINVAL);
	EQ(gpumap_started(map, "a"), 0);
	EQ(gpumap_started(map, "a"), 0);
	EQ(result_of(&second), 0);
	EQ(holder_of("a").start_ns, 0);
	OK(holder_of("b").start_ns > 0);
	OK(is_waiting(&third));
	/* The process's end ends its window, and time does. */
	end(&second);
	EQ(result_of(&third), 0);
	b.wait_ns = LONG_NS;
	b.start_ns = LONG_NS;
	second = begin(&b);
	EQ(result_of(&second), 0);
	end(&first);
	end(&second);
	end(&third);
	is_free();
}

/* A window without memory is one of a full row, whatever waits for room. */
static void a_window_needs_no_room(void)
{
	uint64_t most = 8 * GIB, none[] = { 0, 0 };
	struct gpumap_plan_request full = reserve("full", &most, 1);
	struct gpumap_plan_request more = reserve("more", &most, 1);
	struct gpumap_plan_request a = reserve("a", none, 1);
	struct gpumap_plan_request b = reserve("b", none, 1);
	struct gpumap_plan_request c = reserve("c", none, 2);
	struct holder waits, second, third;

	full.rows = more.rows = a.rows = b.rows = one;
	full.n_rows = more.n_rows = a.n_rows = b.n_rows = 1;
	c.rows = both;
	c.n_rows = 2;
	EQ(ask(&full), 0);
	more.wait_ns = b.wait_ns = c.wait_ns = LONG_NS;
	waits = begin(&more);
	has_line(1);
	EQ(ask(&a), 0); /* nor any window */
	EQ(reserved(1), most);
	a.start_ns = b.start_ns = c.start_ns = LONG_NS;
	EQ(ask(&a), 0);
	second = begin(&b);
	has_line(2);
	third = begin(&c);
	has_line(3);
	b.wait_ns = 0;
	b.name = "rude";
	EQ(ask(&b), -EBUSY); /* the first comes first */
	EQ(gpumap_started(map, "a"), 0);
	EQ(result_of(&second), 0);
	OK(is_waiting(&third));
	EQ(gpumap_started(map, "b"), 0);
	EQ(result_of(&third), 0);
	EQ(head_of("c").n_rows, 2);
	EQ(all_reserved(), most);
	OK(is_waiting(&waits));
	EQ(gpumap_layers_release(map, "full"), 0);
	EQ(gpumap_started(map, "c"), 0);
	EQ(result_of(&waits), 0);
	EQ(gpumap_layers_release(map, "a"), 0);
	end(&waits);
	end(&second);
	end(&third);
	is_free();
}

/* A model starts where none does. */
static void a_model_starts_elsewhere(void)
{
	uint64_t bytes = GIB;
	struct gpumap_plan_request a = reserve("a", &bytes, 1);
	struct gpumap_plan_request model = request_of(
		"model", GPUMAP_PLAN_COMMIT | GPUMAP_PLAN_HELD, GIB / 16);
	struct gpumap_plan answer;

	a.rows = one;
	a.n_rows = 1;
	a.start_ns = model.start_ns = LONG_NS;
	EQ(ask(&a), 0);
	model.rows = (const uint32_t[]){ 1, 0 };
	model.n_rows = 2;
	EQ(plan(&model, &answer), 0);
	STR(answer.spec, "0:12");
	model.name = "next";
	EQ(ask(&model), -EBUSY);
	model.start_ns = 0;
	EQ(plan(&model, &answer), 0);
	STR(answer.spec, "1:12");
	EQ(gpumap_layers_release(map, "model"), 0);
	EQ(gpumap_layers_release(map, "next"), 0);
	EQ(gpumap_layers_release(map, "a"), 0);
	is_free();
}

static void windows_outlive_the_agent(void)
{
	uint64_t bytes = GIB;
	struct gpumap_plan_request a = reserve("a", &bytes, 1);
	struct gpumap_plan_request b = reserve("b", &bytes, 1);
	struct holder first, second;

	a.rows = b.rows = one;
	a.n_rows = b.n_rows = 1;
	a.start_ns = b.start_ns = LONG_NS;
	b.wait_ns = LONG_NS;
	first = begin(&a);
	EQ(result_of(&first), 0);
	second = begin(&b);
	has_line(1);
	agent_kill(&agent, SIGKILL);
	EQ(result_of(&second), -ECONNRESET);
	end(&second);
	OK(agent_start(&agent));
	gpumap_detach(map);
	map = story_attach(&agent);
	EQ(gpumap_wait_list(map, NULL, 0), 0);
	OK(holder_of("a").start_ns > 0);
	b.wait_ns = 0;
	EQ(ask(&b), -EBUSY);
	EQ(gpumap_started(map, "a"), 0);
	EQ(ask(&b), 0);
	EQ(gpumap_layers_release(map, "b"), 0);
	end(&first);
	is_free();
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

	bytes_are_exact();
	what_is_missing_is_the_least();
	the_row_that_fits_best_is_taken();
	nonsense_is_refused();
	the_first_comes_first();
	a_new_map_replaces_its_own_alone();
	a_place_ends_with_its_process();
	one_that_takes_any_row_takes_another();
	waiting_ends();
	a_model_leaves_rows_to_others();
	a_model_keeps_rows_of_its_own(NULL);
	a_model_keeps_rows_of_its_own("0-12::Q4K");
	one_that_its_share_forbids_bars_nobody();
	one_starts_at_a_time();
	a_window_needs_no_room();
	a_model_starts_elsewhere();
	windows_outlive_the_agent();

	gpumap_detach(map);
	agent_remove(&agent);
	return tap_done();
}
