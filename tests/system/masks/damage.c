/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks masks that were damaged after an agent left them: the next agent
 * notices each kind of damage, retires the segment and makes the mask anew from
 * its file, and no reader accepts the damaged one meanwhile.  The memory of a
 * node may be another's, too: readers check the mask's references to it.
 */

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "agent/mask/mask.h"
#include "shm/replicas.h"
#include "tests/support/damage.h"

#define SIZE 40u

static struct agent agent;

/* ---- words of the mask --------------------------------------------------- */

static void set(const struct agent_map *m, size_t at, uint32_t value)
{
	damage_set(m, GM_KIND_MASK, at, value);
}

static void set_wide(const struct agent_map *m, size_t at, uint64_t value)
{
	gm_put(damage_word(m, GM_KIND_MASK, at / 8), value);
}

#define IMAGE(field) offsetof(struct gm_mask_image, field)
#define REPLICA(i, field)                        \
	(sizeof(struct gm_mask_image) +          \
	 (i) * sizeof(struct gm_replica_image) + \
	 offsetof(struct gm_replica_image, field))

/* ---- damages ------------------------------------------------------------- */

static void no_replicas(struct agent_map *m)
{
	set(m, IMAGE(n_replicas), 0);
}

static void too_many_replicas(struct agent_map *m)
{
	set(m, IMAGE(n_replicas), GM_ROWS + 1);
}

static void replicas_leave_the_block(struct agent_map *m)
{
	set(m, IMAGE(replicas_at), UINT32_MAX - 7);
}

static void replicas_within_the_image(struct agent_map *m)
{
	set(m, IMAGE(replicas_at), 128);
}

static void too_many_dimensions(struct agent_map *m)
{
	set(m, IMAGE(rank), 5);
}

static void tensor_is_too_large(struct agent_map *m)
{
	set_wide(m, IMAGE(shape), 1000000);
}

static void strides_overflow(struct agent_map *m)
{
	set_wide(m, IMAGE(strides), UINT64_MAX / 2);
}

/* The last element of each dimension alone lies inside the bytes, that of both
 * together does not. */
static void tensor_ends_behind_its_bytes(struct agent_map *m)
{
	set_wide(m, IMAGE(strides), SIZE + 1);
}

static void map_has_no_end(struct agent_map *m)
{
	for (size_t i = 0; i < GM_NAME_BYTES; i += 4)
		set(m, IMAGE(map) + i, 0x61616161);
}

static void flags_of_a_map(struct agent_map *m)
{
	set(m, IMAGE(object.flags), GM_OBJECT_COMMITTED);
}

static void replica_is_nowhere(struct agent_map *m)
{
	set(m, REPLICA(0, place), GM_REPLICA_NOWHERE);
}

static void place_is_none(struct agent_map *m)
{
	set(m, REPLICA(1, place), GM_REPLICA_DEVICE + 1);
}

static void node_is_too_large(struct agent_map *m)
{
	set(m, REPLICA(0, node), GM_NODES);
}

static void span_is_no_unit(struct agent_map *m)
{
	set_wide(m, REPLICA(0, at), GM_SPAN_UNIT + 8);
}

static void span_is_the_header(struct agent_map *m)
{
	set_wide(m, REPLICA(0, at), 0);
}

static void bytes_are_others(struct agent_map *m)
{
	set_wide(m, REPLICA(1, bytes), SIZE * SIZE - 1);
}

static void row_is_not_there(struct agent_map *m)
{
	set(m, REPLICA(1, row), 2);
}

static void row_is_no_row(struct agent_map *m)
{
	set(m, REPLICA(1, row), GM_ROWS);
}

static void row_is_there_twice(struct agent_map *m)
{
	set(m, REPLICA(1, row), 0);
}

static const struct damage damages[] = {
	{ no_replicas, "is damaged", false },
	{ too_many_replicas, "is damaged", false },
	{ replicas_leave_the_block, "is damaged", false },
	{ replicas_within_the_image, "is damaged", false },
	{ too_many_dimensions, "is damaged", false },
	{ tensor_is_too_large, "is damaged", false },
	{ strides_overflow, "is damaged", false },
	{ tensor_ends_behind_its_bytes, "is damaged", false },
	{ map_has_no_end, "is damaged", false },
	{ flags_of_a_map, "is damaged", true },
	{ replica_is_nowhere, "is nowhere", false },
	{ place_is_none, "is nowhere", false },
	{ node_is_too_large, "is nowhere", false },
	{ span_is_no_unit, "is nowhere", false },
	{ span_is_the_header, "is nowhere", false },
	{ bytes_are_others, "is nowhere", false },
	{ row_is_not_there, "for a row that is not there", true },
	{ row_is_no_row, "is nowhere", false },
	{ row_is_there_twice, "or twice for one", true },
};

/* ---- each damage --------------------------------------------------------- */

static bool start(struct gpumap **ret_map)
{
	if (!agent_start(&agent))
		return false;
	*ret_map = story_attach(&agent);
	return *ret_map != NULL;
}

static bool publish(struct gpumap *map)
{
	static const uint32_t rows[] = { 0, 1 };
	const struct gpumap_mask_request request = {
		.size = sizeof(request),
		.name = "m",
		.kind = GPUMAP_MASK_CUSTOM,
		.form = GPUMAP_MASK_CAUSAL,
		.dtype = GPUMAP_DTYPE_U8,
		.tgt_len = SIZE,
		.rows = rows,
		.n_rows = 2,
	};

	return gpumap_mask_publish(map, &request, NULL) == 0;
}

static volatile char sink;

/* Returns the status of opening the mask: 0 only if every view can be read to
 * its end. */
static int open_and_read(struct gpumap *map)
{
	struct gpumap_mask *mask;
	const struct gpumap_mask_view *view;
	int ret = gpumap_mask_open(map, "m", 0, &mask);

	if (ret != 0)
		return ret;
	for (uint32_t row = 0; row < GPUMAP_ROWS_MAX; row++) {
		if (gpumap_mask_get(map, mask, row, &view) != 0 ||
		    view->data == NULL)
			continue;
		for (uint64_t i = 0; i < view->bytes; i++)
			sink ^= ((const char *)view->data)[i];
	}
	gpumap_mask_close(map, mask);
	return 0;
}

static bool is_as_published(struct gpumap *map)
{
	const struct gm_mask_spec spec = { .form = GM_MASK_CAUSAL,
					   .tgt_len = SIZE };
	const struct gpumap_mask_view *view = NULL;
	struct gpumap_mask *mask;
	char want[SIZE * SIZE];
	bool right = true;

	gm_mask_fill(&spec, GPUMAP_DTYPE_U8, 0, SIZE, want);
	if (gpumap_mask_open(map, "m", 0, &mask) != 0)
		return false;
	for (uint32_t row = 0; row < 2; row++)
		right = right && gpumap_mask_get(map, mask, row, &view) == 0 &&
			view->bytes == sizeof(want) &&
			memcmp(view->data, want, sizeof(want)) == 0;
	gpumap_mask_close(map, mask);
	return right;
}

static bool reads_right(struct gpumap *map, bool is_readable)
{
	return open_and_read(map) == (is_readable ? 0 : -EPROTO);
}

/* ---- the memory of a node ------------------------------------------------ */

static const char *node_path(void)
{
	static char path[128];

	shm_names_file(path, agent.instance, "node0");
	return path;
}

/* A span lies behind the end of the file.  The agent notices, and so does a
 * reader that has not mapped the file yet. */
static void span_past_the_end(void)
{
	struct gpumap *map = NULL;
	struct agent_map m;

	if (!start(&map) || !publish(map) || !agent_map_open(&agent, &m)) {
		OK(!"the agent starts");
		return;
	}
	agent_kill(&agent, SIGKILL);
	for (uint32_t i = 0; i < 2; i++)
		set_wide(&m, REPLICA(i, at), UINT64_C(1) << 40);
	EQ(open_and_read(map), -EPROTO);
	gpumap_detach(map);
	OK(start(&map));
	OK(agent_logged(&agent, "event=mask_lost name=m"));
	OK(is_as_published(map));
	gpumap_detach(map);
	agent_kill(&agent, SIGKILL);
	agent_map_close(&m);
}

/* The file with the name is no segment, or belongs to another instance or to an
 * earlier time. */
static void file_of_a_node(size_t at, uint64_t value, int want)
{
	struct gm_node_header *header;
	struct gpumap *map = NULL;
	int fd;

	if (!start(&map) || !publish(map)) {
		OK(!"the agent starts");
		return;
	}
	agent_kill(&agent, SIGKILL);
	fd = open(node_path(), O_RDWR | O_CLOEXEC);
	header = mmap(NULL, sizeof(*header), PROT_READ | PROT_WRITE, MAP_SHARED,
		      fd, 0);
	close(fd);
	if (!OK(header != MAP_FAILED))
		return;
	gm_put((gm_a64 *)(void *)((char *)header + at), value);
	munmap(header, sizeof(*header));
	EQ(open_and_read(map), want);
	gpumap_detach(map);
	OK(start(&map));
	OK(agent_logged(&agent, "event=mask_lost name=m"));
	OK(is_as_published(map));
	gpumap_detach(map);
	agent_kill(&agent, SIGKILL);
}

TAP_CASE()
{
	static const struct damaged mask = { &agent, start, publish,
					     reads_right, is_as_published };

	agent_make(&agent, "[host]\nrows = 2\n");
	for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++)
		damage_is_noticed(&mask, &damages[i]);
	span_past_the_end();
	file_of_a_node(offsetof(struct gm_node_header, magic), 1, -EPROTO);
	file_of_a_node(offsetof(struct gm_node_header, size), 65536, -EPROTO);
	file_of_a_node(offsetof(struct gm_node_header, made), 0, -EPROTO);
	file_of_a_node(offsetof(struct gm_node_header, made), 12345, -EAGAIN);
	agent_remove(&agent);
	return tap_done();
}
