/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Masks, published by clients: generated or loaded, for a list of rows or a
 * map's, shared where they are the same, followed by views and pins, kept over
 * agents, and refused where they cannot be.
 */

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "agent/mask/mask.h"
#include "tests/support/story.h"
#include "tests/support/users.h"

#define SIZE 96u

static struct agent agent;
static struct gpumap *map;
static const uint32_t both[] = { 0, 1 };

static struct gpumap_mask_request causal(const char *name, uint64_t n)
{
	return (struct gpumap_mask_request){
		.size = sizeof(struct gpumap_mask_request),
		.name = name,
		.kind = GPUMAP_MASK_CUSTOM,
		.form = GPUMAP_MASK_CAUSAL,
		.dtype = GPUMAP_DTYPE_BF16,
		.tgt_len = n,
		.rows = both,
		.n_rows = 2,
	};
}

static int publish(const struct gpumap_mask_request *request,
		   struct gpumap_mask_result *ret_result)
{
	struct gpumap_mask_result result = { .size = sizeof(result) };
	int ret = gpumap_mask_publish(map, request, &result);

	if (ret_result != NULL)
		*ret_result = result;
	return ret;
}

/* Is what a view shows the mask that the rule makes? */
static bool is_right(const struct gpumap_mask_view *view,
		     const struct gpumap_mask_request *r)
{
	struct gm_mask_spec spec = { .form = (enum gm_mask_form)(r->form - 1),
				     .tgt_len = r->tgt_len,
				     .past_kv_len = r->past_kv_len,
				     .sliding_window = r->sliding_window,
				     .chunk_size = r->chunk_size };
	void *want;
	bool right;

	if (view == NULL)
		return false;
	want = malloc(view->bytes);
	gm_mask_fill(&spec, r->dtype, 0, r->tgt_len, want);
	right = view->data != NULL &&
		memcmp(view->data, want, view->bytes) == 0;
	free(want);
	return right;
}

static void every_form_is_on_every_row(void)
{
	static const uint32_t dtypes[] = { GPUMAP_DTYPE_U8, GPUMAP_DTYPE_F16,
					   GPUMAP_DTYPE_BF16,
					   GPUMAP_DTYPE_F32 };
	const struct gpumap_mask_view *view = NULL;
	int wrong = 0;

	for (uint32_t i = 0; i < 16; i++) {
		struct gpumap_mask_request r = causal("form", 31);
		struct gpumap_mask *mask = NULL;

		r.form = i % 4 + 1;
		r.dtype = dtypes[i / 4];
		r.past_kv_len =
			r.form == GPUMAP_MASK_BIDIRECTIONAL_SLIDING ? 0 : 6;
		r.sliding_window = 5;
		r.chunk_size = 7;
		wrong += publish(&r, NULL) != 0;
		wrong += gpumap_mask_open(map, "form", 0, &mask) != 0;
		for (uint32_t row = 0; row < 2 && mask != NULL; row++)
			wrong += gpumap_mask_get(map, mask, row, &view) != 0 ||
				 !is_right(view, &r) || view->row != row ||
				 view->rank != 2 || view->shape[0] != 31 ||
				 view->shape[1] != 31 + r.past_kv_len ||
				 view->dtype != r.dtype ||
				 view->strides[0] !=
					 view->shape[1] * view->strides[1] ||
				 gpumap_mask_holds(mask) != 1;
		gpumap_mask_close(map, mask);
	}
	EQ(wrong, 0);
	EQ(gpumap_mask_release(map, "form"), 0);
	EQ(gpumap_mask_release(map, "form"), -ENOENT);
}

static void facts_are_told(void)
{
	struct gpumap_mask_request r = causal("facts", SIZE);
	struct gpumap_mask_info info = { .size = sizeof(info) };
	char name[GPUMAP_NAME_MAX + 1] = "";
	uint32_t rows[2] = { 9, 9 }, cursor = 0;

	r.form = GPUMAP_MASK_SLIDING;
	r.past_kv_len = 4;
	r.sliding_window = 3;
	EQ(publish(&r, NULL), 0);
	EQ(gpumap_mask_read(map, "facts", &info, rows, 1), -ENOBUFS);
	EQ(gpumap_mask_read(map, "facts", &info, rows, 2), 0);
	STR(info.name, "facts");
	EQ(info.kind, GPUMAP_MASK_CUSTOM);
	EQ(info.form, GPUMAP_MASK_SLIDING);
	EQ(info.past_kv_len, 4);
	EQ(info.sliding_window, 3);
	EQ(info.bytes, SIZE * (SIZE + 4) * 2);
	EQ(info.n_rows, 2);
	OK(rows[0] == 0 && rows[1] == 1);
	EQ(gpumap_mask_next(map, &cursor, name), 1);
	STR(name, "facts");
	EQ(gpumap_mask_next(map, &cursor, name), 0);
	EQ(gpumap_mask_read(map, "nothing", &info, NULL, 0), -ENOENT);
	EQ(gpumap_mask_release(map, "facts"), 0);
}

static void flash_and_none_have_no_tensor(void)
{
	struct gpumap_mask_request r = causal("flash", 0);
	const struct gpumap_mask_view *view = NULL;
	struct gpumap_mask *mask = NULL;

	r.kind = GPUMAP_MASK_CAUSAL_FLASH;
	r.form = 0;
	EQ(publish(&r, NULL), 0);
	EQ(gpumap_mask_open(map, "flash", 0, &mask), 0);
	if (!EQ(gpumap_mask_get(map, mask, 1, &view), 0))
		return;
	EQ(view->kind, GPUMAP_MASK_CAUSAL_FLASH);
	EQ(view->bytes, 0);
	OK(view->data == NULL);
	EQ(gpumap_mask_get(map, mask, 2, &view), -ENOENT);
	EQ(gpumap_mask_get(map, mask, UINT32_MAX, &view), -ENOENT);
	gpumap_mask_close(map, mask);
	EQ(gpumap_mask_release(map, "flash"), 0);
}

/* One copy per node however many rows, and none where the bytes are there. */
static void the_same_is_written_once(void)
{
	struct gpumap_mask_request r = causal("one", SIZE);
	const struct gpumap_mask_view *first = NULL, *second = NULL;
	struct gpumap_mask *one = NULL, *two = NULL;
	struct gpumap_mask_result result;

	EQ(publish(&r, &result), 0);
	EQ(result.n_copies, 1);
	EQ(result.n_shared, 0);
	EQ(result.bytes, SIZE * SIZE * 2);
	r.name = "two";
	EQ(publish(&r, &result), 0);
	EQ(result.n_copies, 0);
	EQ(result.n_shared, 1);
	EQ(gpumap_mask_open(map, "one", 0, &one), 0);
	EQ(gpumap_mask_open(map, "two", 0, &two), 0);
	if (EQ(gpumap_mask_get(map, one, 0, &first), 0) &&
	    EQ(gpumap_mask_get(map, two, 1, &second), 0))
		OK(first->data == second->data);
	EQ(gpumap_mask_release(map, "one"), 0);
	/* The mask still belongs to the other user alone. */
	r.name = "three";
	for (uint32_t i = 1; i <= 200; i++) {
		r.past_kv_len = i;
		publish(&r, &result);
	}
	EQ(result.n_copies, 1);
	r.past_kv_len = 0;
	if (second != NULL)
		OK(is_right(second, &r));
	EQ(gpumap_mask_get(map, one, 0, &first), -ENOENT);
	gpumap_mask_close(map, one);
	gpumap_mask_close(map, two);
	EQ(gpumap_mask_release(map, "two"), 0);
	EQ(gpumap_mask_release(map, "three"), 0);
}

static void loaded_bytes_are_the_clients(void)
{
	static float data[2 * 30]; /* as many of eight bytes are read, too */
	struct gpumap_mask_request r = causal("loaded", 0);
	const struct gpumap_mask_view *view = NULL;
	struct gpumap_mask *mask = NULL;

	for (uint32_t i = 0; i < 30; i++)
		data[i] = (float)i;
	r.form = GPUMAP_MASK_LOADED;
	r.dtype = GPUMAP_DTYPE_F32;
	r.rank = 3;
	r.shape[0] = 2;
	r.shape[1] = 3;
	r.shape[2] = 5;
	r.data = data;
	EQ(publish(&r, NULL), 0);
	EQ(gpumap_mask_open(map, "loaded", 0, &mask), 0);
	if (EQ(gpumap_mask_get(map, mask, 1, &view), 0)) {
		EQ(view->bytes, 30 * sizeof(data[0]));
		EQ(view->strides[0], 60);
		EQ(view->strides[2], 4);
		OK(memcmp(view->data, data, 30 * sizeof(data[0])) == 0);
	}
	gpumap_mask_close(map, mask);
	r.shape[1] = 0;
	EQ(publish(&r, NULL), -EINVAL);
	r.shape[1] = UINT64_MAX;
	EQ(publish(&r, NULL), -EOVERFLOW);
	r.shape[1] = 3;
	r.dtype = GPUMAP_DTYPE_I64;
	EQ(publish(&r, NULL), -EINVAL);
	EQ(gpumap_mask_release(map, "loaded"), 0);
}

/* The last word makes up for the first: see hash_of() of mask_change.c. */
static uint64_t stir(uint64_t sum, uint64_t word)
{
	sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return sum ^ sum >> 29;
}

/* Masks of the same hash are compared, and shared only if they are equal. */
static void equal_hashes_are_not_enough(void)
{
	static uint64_t data[2][8] = { { 1 }, { 2 } };
	struct gpumap_mask_request r = causal("first", 0);
	struct gpumap_mask_info info[2] = { { .size = sizeof(info[0]) },
					    { .size = sizeof(info[0]) } };
	struct gpumap_mask_result result;

	data[1][4] = stir(1, data[0][0]) ^ stir(1, data[1][0]);
	r.form = GPUMAP_MASK_LOADED;
	r.dtype = GPUMAP_DTYPE_U8;
	r.rank = 1;
	r.shape[0] = sizeof(data[0]);
	for (int i = 0; i < 2; i++) {
		struct gpumap_mask *mask = NULL;
		const struct gpumap_mask_view *view = NULL;

		r.name = i == 0 ? "first" : "second";
		r.data = data[i];
		EQ(publish(&r, &result), 0);
		EQ(result.n_copies, 1);
		EQ(gpumap_mask_read(map, r.name, &info[i], NULL, 0), 0);
		EQ(gpumap_mask_open(map, r.name, 0, &mask), 0);
		if (EQ(gpumap_mask_get(map, mask, 1, &view), 0))
			OK(memcmp(view->data, r.data, sizeof(data[0])) == 0);
		gpumap_mask_close(map, mask);
	}
	OK(info[0].hash == info[1].hash);
	EQ(gpumap_mask_release(map, "first"), 0);
	EQ(gpumap_mask_release(map, "second"), 0);
}

static void a_new_version_is_told_once(void)
{
	struct gpumap_mask_request r = causal("turn", SIZE);
	const struct gpumap_mask_view *view = NULL, *old = NULL;
	struct gpumap_mask *mask = NULL, *pinned = NULL;
	uint64_t before;

	EQ(publish(&r, NULL), 0);
	EQ(gpumap_mask_open(map, "turn", 0, &mask), 0);
	EQ(gpumap_mask_open(map, "turn", GPUMAP_MASK_PIN, &pinned), 0);
	if (!EQ(gpumap_mask_get(map, mask, 0, &view), 0))
		return;
	before = view->version;
	r.past_kv_len = 1;
	EQ(publish(&r, NULL), 0);
	EQ(gpumap_mask_holds(mask), 0);
	EQ(gpumap_mask_get(map, mask, 0, &view), -EAGAIN);
	EQ(gpumap_mask_get(map, mask, 0, &view), 0);
	OK(view->version > before);
	OK(is_right(view, &r));
	/* Nothing is written where the pinned one lies. */
	for (uint32_t i = 0; i < 200; i++) {
		r.past_kv_len = 2 + i;
		publish(&r, NULL);
	}
	r.past_kv_len = 0;
	EQ(gpumap_mask_get(map, pinned, 1, &old), 0);
	OK(is_right(old, &r));
	EQ(gpumap_mask_holds(pinned), 1);
	gpumap_mask_close(map, pinned);
	gpumap_mask_close(map, mask);
	EQ(gpumap_mask_release(map, "turn"), 0);
}

static void a_map_is_followed(void)
{
	struct gpumap_layers_request layers = { .size = sizeof(layers),
						.name = "model",
						.spec = "0:2" };
	struct gpumap_mask_request r = causal("follows", SIZE);
	const struct gpumap_mask_view *view = NULL;
	uint64_t until = story_now() + STORY_LIMIT_NS;
	struct gpumap_mask *mask = NULL;
	const void *before;
	int ret;

	r.n_rows = 0;
	r.map = "model";
	EQ(publish(&r, NULL), -ENOENT);
	EQ(gpumap_layers_publish(map, &layers), 0);
	EQ(publish(&r, NULL), 0);
	EQ(gpumap_mask_open(map, "follows", 0, &mask), 0);
	if (!EQ(gpumap_mask_get(map, mask, 0, &view), 0))
		return;
	before = view->data;
	EQ(gpumap_mask_get(map, mask, 1, &view), -ENOENT);
	layers.spec = "0:1;1:1";
	EQ(gpumap_layers_publish(map, &layers), 0);
	do {
		ret = gpumap_mask_get(map, mask, 1, &view);
	} while (ret != 0 && story_now() < until);
	if (EQ(ret, 0))
		OK(is_right(view, &r));
	/* Not written again: it is where it was. */
	OK(view->data == before);
	EQ(gpumap_mask_release(map, "follows"), 0);
	EQ(gpumap_layers_publish(map, &layers), 0);
	gpumap_mask_close(map, mask);
}

static void what_cannot_be_is_refused(void)
{
	struct gpumap_mask_request r = causal("bad", SIZE);
	static const uint32_t twice[] = { 1, 1 }, far[] = { 0, 77 };

	r.name = "two words";
	EQ(publish(&r, NULL), -EINVAL);
	r.name = "bad";
	r.rows = twice;
	EQ(publish(&r, NULL), -EINVAL);
	r.rows = far;
	EQ(publish(&r, NULL), -ENODEV);
	OK(strstr(gpumap_refusal(map), "row 77") != NULL);
	r.rows = both;
	r.map = "model";
	EQ(publish(&r, NULL), -EINVAL);
	r.map = NULL;
	r.form = 5;
	EQ(publish(&r, NULL), -EINVAL);
	r.form = GPUMAP_MASK_CHUNKED;
	EQ(publish(&r, NULL), -EINVAL);
	r.form = GPUMAP_MASK_CAUSAL;
	r.dtype = GPUMAP_DTYPE_F64;
	EQ(publish(&r, NULL), -EINVAL);
	r.dtype = GPUMAP_DTYPE_F32;
	r.tgt_len = 0;
	EQ(publish(&r, NULL), -EINVAL);
	r.tgt_len = UINT64_C(1) << 40;
	EQ(publish(&r, NULL), -EOVERFLOW);
	r.tgt_len = 1 << 20;
	EQ(publish(&r, NULL), -EFBIG);
	r.kind = 0;
	EQ(publish(&r, NULL), -EINVAL);
	EQ(gpumap_mask_read(map, "bad", NULL, NULL, 0), -ENOENT);
}

#define STRANGER 65531

/* By a user who is neither root nor in a group of ours: a step that went wrong,
 * or 0. */
static int be_stranger(void)
{
	struct gpumap_mask_request r = causal("theirs", 512);
	struct gpumap_mask *mask;

	map = story_attach(&agent);
	if (map == NULL)
		return 2;
	/* Other users may learn the mask's shape, but not its elements. */
	if (gpumap_mask_read(map, "ours", NULL, NULL, 0) != 0)
		return 3;
	if (gpumap_mask_open(map, "ours", 0, &mask) != -EACCES ||
	    strstr(gpumap_refusal(map), "group") == NULL)
		return 4;
	/* Also where a pin was had, and is given back. */
	if (gpumap_mask_open(map, "ours", GPUMAP_MASK_PIN, &mask) != -EACCES ||
	    strstr(gpumap_refusal(map), "group") == NULL)
		return 11;
	if (gpumap_mask_release(map, "ours") != -EPERM)
		return 5;
	/* Two of them are over a megabyte. */
	if (publish(&r, NULL) != 0)
		return 6;
	r.name = "more";
	r.past_kv_len = 1;
	if (publish(&r, NULL) != -EDQUOT ||
	    strstr(gpumap_refusal(map), "bytes-per-uid in [masks]") == NULL)
		return 7;
	/* In place of the first there is room. */
	r.name = "theirs";
	if (publish(&r, NULL) != 0)
		return 8;
	r.tgt_len = 1024;
	if (publish(&r, NULL) != -EFBIG)
		return 9;
	if (gpumap_mask_release(map, "theirs") != 0)
		return 10;
	gpumap_detach(map);
	return 0;
}

static void strangers_are_kept_out(void)
{
	struct gpumap_mask_request r = causal("ours", SIZE);

	if (geteuid() != 0) {
		SKIP(1, "only root can become a stranger");
		return;
	}
	EQ(publish(&r, NULL), 0);
	chmod(agent.dir, 0711);
	EQ(user_run(STRANGER, be_stranger), 0);
	EQ(gpumap_mask_release(map, "ours"), 0);
}

/* Eight megabytes a node: the header and what three of two and a half take. */
static void memory_is_limited_and_comes_back(void)
{
	struct gpumap_mask_request r = causal("", 1024);
	char name[8];
	int ret = 0, n = 0;

	r.name = name;
	for (int round = 0; round < 3; round++) {
		for (n = 0; n < 8 && ret == 0; n++) {
			snprintf(name, sizeof(name), "m%d", n);
			r.past_kv_len = 256 + (uint64_t)n;
			ret = publish(&r, NULL);
		}
		EQ(ret, -ENOSPC);
		EQ(n, 4);
		OK(strstr(gpumap_refusal(map), "raise bytes in [masks]") !=
		   NULL);
		while (n-- > 0) {
			snprintf(name, sizeof(name), "m%d", n);
			ret = gpumap_mask_release(map, name);
		}
		EQ(ret, 0);
	}
}

static void the_next_agent_has_them(void)
{
	struct gpumap_mask_request r = causal("stays", SIZE);
	const struct gpumap_mask_view *view = NULL, *kept = NULL;
	struct gpumap_mask *mask = NULL, *pinned = NULL;
	struct gpumap_mask_result result;

	EQ(publish(&r, NULL), 0);
	EQ(gpumap_mask_open(map, "stays", 0, &mask), 0);
	EQ(gpumap_mask_open(map, "stays", GPUMAP_MASK_PIN, &pinned), 0);
	r.past_kv_len = 9;
	EQ(publish(&r, NULL), 0);
	agent_kill(&agent, SIGKILL);
	if (!OK(agent_start(&agent)))
		return;
	gpumap_mask_get(map, mask, 0, &view);
	EQ(gpumap_mask_get(map, mask, 1, &view), 0);
	OK(is_right(view, &r));
	/* Its memory is in use, and so is the pinned one's. */
	r.name = "more";
	r.past_kv_len = 10;
	EQ(publish(&r, &result), 0);
	EQ(result.n_copies, 1);
	r.past_kv_len = 9;
	r.name = "same";
	EQ(publish(&r, &result), 0);
	EQ(result.n_shared, 1);
	OK(is_right(view, &r));
	r.past_kv_len = 0;
	if (EQ(gpumap_mask_get(map, pinned, 0, &kept), 0))
		OK(is_right(kept, &r));
	EQ(gpumap_mask_release(map, "more"), 0);
	EQ(gpumap_mask_release(map, "same"), 0);
	gpumap_mask_close(map, mask);
	gpumap_mask_close(map, pinned);
}

/* A file that is gone, or another: what it held is not told of any more, and
 * made again, for it can be. */
static void lost_memory_is_noticed(void)
{
	struct gpumap_mask_request r = causal("stays", SIZE);
	const struct gpumap_mask_view *view = NULL;
	struct gpumap_mask *mask = NULL;
	char path[160];
	struct stat st;

	r.past_kv_len = 9;

	shm_names_file(path, agent.instance, "node0");
	EQ(stat(path, &st), 0);
	EQ(st.st_mode & 07777, 0640);
	EQ(agent_kill(&agent, SIGKILL), -SIGKILL);
	EQ(unlink(path), 0);
	if (!OK(agent_start(&agent)))
		return;
	OK(agent_logged(&agent, "event=mask_lost name=stays"));
	EQ(gpumap_mask_open(map, "stays", 0, &mask), 0);
	if (EQ(gpumap_mask_get(map, mask, 1, &view), 0))
		OK(is_right(view, &r));
	gpumap_mask_close(map, mask);
	EQ(agent_kill(&agent, SIGTERM), 0);
	EQ(stat(path, &st), 0);
	EQ(agent_run(&agent, "--remove"), 0);
	EQ(stat(path, &st), -1);
}

TAP_CASE()
{
	agent_make(&agent, "[host]\nrows = 2\n[socket]\nmode = 0666\n"
			   "[masks]\nbytes = 8M\nbytes-per-uid = 768K\n");
	if (OK(agent_start(&agent)) && OK((map = story_attach(&agent)))) {
		every_form_is_on_every_row();
		facts_are_told();
		flash_and_none_have_no_tensor();
		the_same_is_written_once();
		loaded_bytes_are_the_clients();
		equal_hashes_are_not_enough();
		a_new_version_is_told_once();
		a_map_is_followed();
		what_cannot_be_is_refused();
		strangers_are_kept_out();
		memory_is_limited_and_comes_back();
		the_next_agent_has_them();
		lost_memory_is_noticed();
	}
	gpumap_detach(map);
	if (tap_failures)
		agent_show_log(&agent);
	agent_remove(&agent);
	return tap_done();
}
