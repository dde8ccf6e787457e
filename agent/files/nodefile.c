/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/files/nodefile.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/files/file.h"
#include "agent/files/yaml.h"
#include "lib/model/plan/number.h"
#include "shm/device_kinds.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Kinds of rows that may have a key. */
#define ON(kind)  (1u << GPUMAP_DEVICE_##kind)
#define ON_GPU    (ON(CUDA) | ON(DUMMY))
#define ON_ANY    (ON(HOST) | ON_GPU)

#define UNITS_MAX 65535

enum row_key {
	KEY_NAME,
	KEY_KIND,
	KEY_COUNT,
	KEY_MEMORY,
	KEY_FREE,
	KEY_NUMA,
	KEY_CC,
	KEY_UNITS,
	KEY_THREADS,
	KEY_INTEGRATED,
	KEY_CPUS,
	KEY_MIG,
	KEYS
};

/* One entry of rows, as the file has it. */
struct entry {
	struct gm_nodefile_row row;
	uint64_t count;
	size_t line;
	size_t lines[KEYS]; /* of each key, 0 where it is not there */
};

struct key {
	const char *name;
	unsigned int on; /* kinds of rows that may have it */
	bool is_needed;  /* kinds of rows that must have it */
	bool (*set)(struct entry *entry, const char *text);
	const char *right;
};

struct reader {
	struct gm_yaml yaml;
	struct gm_nodefile node;
	struct entry entry; /* of the row that is being read */
	unsigned int seen;  /* a bit for each key of the node */
};

/* ---- values ------------------------------------------------------------ */

/* A name goes to logs and tables: one printable line. */
static bool copy_name(const char *text, char ret_name[GPUMAP_NAME_MAX + 1])
{
	size_t n = strlen(text);

	if (n == 0 || n > GPUMAP_NAME_MAX)
		return false;
	/* Controls, also those that UTF-8 has in two bytes. */
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f ||
		    ((unsigned char)text[i] == 0xc2 &&
		     (unsigned char)text[i + 1] < 0xa0))
			return false;
	memcpy(ret_name, text, n + 1);
	return true;
}

static bool read_number(const char *text, uint64_t least, uint64_t most,
			uint64_t *ret_value)
{
	uint64_t value;

	if (text[0] == '+' || gm_number_parse(text, strlen(text), &value) ||
	    value < least || value > most)
		return false;
	*ret_value = value;
	return true;
}

static bool read_units(const char *text, uint32_t *ret_units)
{
	uint64_t value;

	if (!read_number(text, 1, UNITS_MAX, &value))
		return false;
	*ret_units = (uint32_t)value;
	return true;
}

static bool set_name(struct entry *entry, const char *text)
{
	return copy_name(text, entry->row.name);
}

static bool set_kind(struct entry *entry, const char *text)
{
	uint32_t kind = 1;

	while (kind < GM_DEVICE_KINDS &&
	       strcmp(gm_device_kind(kind)->name, text) != 0)
		kind++;
	entry->row.kind = kind;
	return kind < GM_DEVICE_KINDS;
}

static bool set_count(struct entry *entry, const char *text)
{
	return read_number(text, 1, GPUMAP_ROWS_MAX, &entry->count);
}

static bool set_memory(struct entry *entry, const char *text)
{
	return !gm_number_size(text, &entry->row.total_bytes) &&
	       entry->row.total_bytes > 0;
}

static bool set_free(struct entry *entry, const char *text)
{
	return !gm_number_size(text, &entry->row.free_bytes);
}

static bool set_cc(struct entry *entry, const char *text)
{
	const char *dot = strchr(text, '.');
	char major_text[4] = "";
	uint64_t major, minor;

	if (!dot || (size_t)(dot - text) >= sizeof(major_text))
		return false;
	memcpy(major_text, text, (size_t)(dot - text));
	if (!read_number(major_text, 1, 99, &major) ||
	    !read_number(dot + 1, 0, 9, &minor))
		return false;
	entry->row.has_cc = true;
	entry->row.cc_major = (uint32_t)major;
	entry->row.cc_minor = (uint32_t)minor;
	return true;
}

static bool set_units(struct entry *entry, const char *text)
{
	return read_units(text, &entry->row.units);
}

static bool set_threads(struct entry *entry, const char *text)
{
	return read_units(text, &entry->row.threads_per_unit);
}

static bool set_numa(struct entry *entry, const char *text)
{
	uint64_t value;

	if (!read_number(text, 0, 1023, &value))
		return false;
	entry->row.numa_node = (int32_t)value;
	return true;
}

static bool set_integrated(struct entry *entry, const char *text)
{
	entry->row.is_integrated = strcmp(text, "yes") == 0;
	return entry->row.is_integrated || strcmp(text, "no") == 0;
}

static const char *skip_digits(const char *text)
{
	while (isdigit((unsigned char)*text))
		text++;
	return text;
}

/* Parse a MIG profile: "3g.40gb", or with a suffix for engines:
 * "1g.10gb+me". */
static bool set_mig(struct entry *entry, const char *text)
{
	const char *memory = skip_digits(text), *end;

	if (memory == text || memory[0] != 'g' || memory[1] != '.')
		return false;
	memory += 2;
	end = skip_digits(memory);
	if (end == memory || strncmp(end, "gb", 2) != 0)
		return false;
	end += 2;
	end += strspn(end, "+-.abcdefghijklmnopqrstuvwxyz");
	if (*end || (size_t)(end - text) >= sizeof(entry->row.mig))
		return false;
	memcpy(entry->row.mig, text, (size_t)(end - text));
	return true;
}

static const struct key row_keys[KEYS] = {
	[KEY_NAME] = { "name", ON_ANY, true, set_name,
		       "1 to 63 printable bytes" },
	[KEY_KIND] = { "kind", ON_ANY, true, set_kind, "cuda, host or dummy" },
	[KEY_COUNT] = { "count", ON_ANY, false, set_count,
			"a number from 1 to 256" },
	[KEY_MEMORY] = { "memory", ON_ANY, true, set_memory,
			 "a size above 0, as 81559M or 80G" },
	[KEY_FREE] = { "free", ON_ANY, false, set_free,
		       "a size, as 81559M or 80G" },
	[KEY_NUMA] = { "numa-node", ON_ANY, false, set_numa,
		       "a number from 0 to 1023" },
	[KEY_CC] = { "compute-capability", ON(CUDA), true, set_cc,
		     "MAJOR.MINOR, as 9.0" },
	[KEY_UNITS] = { "sm-count", ON_GPU, false, set_units,
			"a number from 1 to 65535" },
	[KEY_THREADS] = { "threads-per-sm", ON_GPU, false, set_threads,
			  "a number from 1 to 65535" },
	[KEY_INTEGRATED] = { "integrated", ON_GPU, false, set_integrated,
			     "yes or no" },
	[KEY_CPUS] = { "cpus", ON(HOST), false, set_units,
		       "a number from 1 to 65535" },
	[KEY_MIG] = { "mig", ON(CUDA), false, set_mig,
		      "a GPU instance's profile, as 3g.40gb" },
};
_Static_assert(GPUMAP_ROWS_MAX == 256 && GPUMAP_NAME_MAX == 63,
	       "what row_keys says is right");

/* ---- rows -------------------------------------------------------------- */

/* The names of the keys that a row of @kind may have, or any row for 0. */
static const char *list_keys(uint32_t kind, char ret_list[256])
{
	int n = 0;

	for (size_t i = 0; i < KEYS; i++)
		if (kind == 0 || row_keys[i].on & 1u << kind)
			n += snprintf(ret_list + n, 256 - (size_t)n, "%s%s",
				      n ? ", " : "", row_keys[i].name);
	return ret_list;
}

/* Returns KEYS if there is no such key. */
static enum row_key find_key(const char *name)
{
	enum row_key i = 0;

	while (i < KEYS && strcmp(row_keys[i].name, name) != 0)
		i++;
	return i;
}

/* Read "memory: 80G"; the current event is the key. */
static int read_field(void *data)
{
	struct reader *rd = data;
	struct entry *entry = &rd->entry;
	const struct key *key;
	const char *text;
	enum row_key i;
	char list[256];
	int r;

	r = gm_yaml_word(&rd->yaml, "a key that is not a word", &text);
	if (r)
		return r;
	i = find_key(text);
	if (i == KEYS)
		return gm_yaml_refuse(&rd->yaml,
				      "a row has no key %.40s: it has %s", text,
				      list_keys(0, list));
	key = &row_keys[i];
	if (entry->lines[i])
		return gm_yaml_refuse(&rd->yaml, "%s twice in one row",
				      key->name);
	entry->lines[i] = gm_yaml_line(&rd->yaml);
	r = gm_yaml_next(&rd->yaml);
	if (r == 0)
		r = gm_yaml_word(&rd->yaml, "a value that is not a word",
				 &text);
	if (r == 0 && !key->set(entry, text))
		r = gm_yaml_refuse(&rd->yaml, "%s: %.40s: it is %s", key->name,
				   text, key->right);
	return r;
}

/* Checks that are possible only after the whole row was read. */
static int check_row(struct reader *rd, const struct entry *entry)
{
	uint32_t kind = entry->row.kind;
	char list[256];

	if (kind == 0)
		return gm_yaml_refuse_at(&rd->yaml, entry->line,
					 "a row without kind: it is %s",
					 row_keys[KEY_KIND].right);
	for (size_t i = 0; i < KEYS; i++) {
		const struct key *key = &row_keys[i];
		bool is_on = key->on & 1u << kind;

		if (entry->lines[i] && !is_on)
			return gm_yaml_refuse_at(
				&rd->yaml, entry->lines[i],
				"a %s row has no %s: it has %s",
				gm_device_kind(kind)->name, key->name,
				list_keys(kind, list));
		if (!entry->lines[i] && is_on && key->is_needed)
			return gm_yaml_refuse_at(&rd->yaml, entry->line,
						 "a %s row without %s: it is "
						 "%s",
						 gm_device_kind(kind)->name,
						 key->name, key->right);
	}
	return 0;
}

static int check_free(struct reader *rd, struct entry *entry)
{
	struct gm_nodefile_row *row = &entry->row;

	if (!entry->lines[KEY_FREE])
		row->free_bytes = row->total_bytes;
	if (row->free_bytes > row->total_bytes)
		return gm_yaml_refuse_at(&rd->yaml, entry->lines[KEY_FREE],
					 "more is free than there is memory");
	return 0;
}

/* An instance is a part of the GPU above it; only other instances may lie in
 * between. */
static int find_parent(struct reader *rd, struct entry *entry)
{
	struct gm_nodefile *node = &rd->node;
	struct gm_nodefile_row *last =
		node->n_rows ? &node->rows[node->n_rows - 1] : NULL;

	if (!last ||
	    (gm_device_kind(last->kind)->flags & GPUMAP_DEVICE_CARD) == 0)
		return gm_yaml_refuse_at(&rd->yaml, entry->lines[KEY_MIG],
					 "a MIG instance that no GPU is above");
	entry->row.parent = last->mig[0] ? last->parent : node->n_rows - 1;
	last = &node->rows[entry->row.parent];
	if (entry->row.total_bytes > last->total_bytes)
		return gm_yaml_refuse_at(&rd->yaml, entry->lines[KEY_MEMORY],
					 "an instance has more memory than its "
					 "GPU");
	last->is_split = true;
	return 0;
}

static int add_rows(struct reader *rd, struct entry *entry)
{
	struct gm_nodefile *node = &rd->node;
	int r = entry->row.mig[0] ? find_parent(rd, entry) : 0;

	if (r)
		return r;

	if (entry->count > GPUMAP_ROWS_MAX - node->n_rows)
		return gm_error_set(rd->yaml.err, -E2BIG,
				    "leave rows out: no device table has more",
				    "%s%zu: more than %d rows in all",
				    rd->yaml.place, entry->line,
				    GPUMAP_ROWS_MAX);
	for (uint64_t i = 0; i < entry->count; i++)
		node->rows[node->n_rows++] = entry->row;
	return 0;
}

/* Read "{ name: ... }" as an element of rows; the current event is its
 * start. */
static int read_row(void *data)
{
	struct reader *rd = data;
	int r;

	rd->entry = (struct entry){ .row = { .numa_node = -1 },
				    .count = 1,
				    .line = gm_yaml_line(&rd->yaml) };
	if (rd->yaml.event.type != YAML_MAPPING_START_EVENT)
		return gm_yaml_refuse(&rd->yaml, "a row that is not a mapping");
	r = gm_yaml_each(&rd->yaml, read_field, rd);
	if (r == 0)
		r = check_row(rd, &rd->entry);
	if (r == 0)
		r = check_free(rd, &rd->entry);
	return r ? r : add_rows(rd, &rd->entry);
}

static int read_rows(struct reader *rd)
{
	if (rd->yaml.event.type != YAML_SEQUENCE_START_EVENT)
		return gm_yaml_refuse(&rd->yaml, "rows is not a list of rows");
	return gm_yaml_each(&rd->yaml, read_row, rd);
}

/* ---- the file ---------------------------------------------------------- */

static int read_name(struct reader *rd)
{
	const char *text;
	int r = gm_yaml_word(&rd->yaml, "name is not a word", &text);

	if (r == 0 && !copy_name(text, rd->node.name))
		r = gm_yaml_refuse(&rd->yaml,
				   "name: %.40s: it is 1 to %d printable bytes",
				   text, GPUMAP_NAME_MAX);
	return r;
}

/* Read "rows: ..."; the current event is the key. */
static int read_key(void *data)
{
	static const struct {
		const char *name;
		int (*read)(struct reader *rd);
	} keys[] = { { "name", read_name }, { "rows", read_rows } };
	struct reader *rd = data;
	const char *text;
	int r = gm_yaml_word(&rd->yaml, "a key that is not a word", &text);

	if (r)
		return r;
	for (size_t i = 0; i < COUNT(keys); i++) {
		if (strcmp(keys[i].name, text) != 0)
			continue;
		if (rd->seen & 1u << i)
			return gm_yaml_refuse(&rd->yaml, "%s is there twice",
					      text);
		rd->seen |= 1u << i;
		r = gm_yaml_next(&rd->yaml);
		return r ? r : keys[i].read(rd);
	}
	return gm_yaml_refuse(&rd->yaml,
			      "a node has no key %.40s: it has name and rows",
			      text);
}

static int read_document(struct reader *rd)
{
	size_t line;
	int r = gm_yaml_begin(&rd->yaml);

	if (r)
		return r;
	line = gm_yaml_line(&rd->yaml);
	if (rd->yaml.event.type != YAML_MAPPING_START_EVENT)
		return gm_yaml_refuse(&rd->yaml,
				      "a node is a mapping with name and rows");
	r = gm_yaml_each(&rd->yaml, read_key, rd);
	if (r)
		return r;
	if (rd->node.n_rows == 0)
		return gm_yaml_refuse_at(&rd->yaml, line,
					 "a node without rows");
	return gm_yaml_end(&rd->yaml);
}

static int parse(const char *text, size_t n, const char *place,
		 struct gm_nodefile *ret_node, struct gm_plan_error *ret_err)
{
	struct reader rd = { .node = { .n_rows = 0 } };
	int r = gm_yaml_open(&rd.yaml, text, n, place, "see gpumap-node(5)",
			     ret_err);

	if (r)
		return r;
	rd.node.rows = calloc(GPUMAP_ROWS_MAX, sizeof(*rd.node.rows));
	r = rd.node.rows ? read_document(&rd) : gm_error_no_memory(ret_err);
	gm_yaml_close(&rd.yaml);
	if (r)
		gm_nodefile_free(&rd.node);
	else
		*ret_node = rd.node;
	return r;
}

int gm_nodefile_parse(const char *text, size_t n, struct gm_nodefile *ret_node,
		      struct gm_plan_error *ret_err)
{
	if (n > GM_NODEFILE_BYTES)
		return gm_error_set(ret_err, -E2BIG, "is this a node file?",
				    "Node file: longer than %u bytes",
				    GM_NODEFILE_BYTES);
	return parse(text, n, "Node file, line ", ret_node, ret_err);
}

int gm_nodefile_read(const char *path, struct gm_nodefile *ret_node,
		     struct gm_plan_error *ret_err)
{
	char place[PATH_MAX + 2];
	char *text;
	size_t n;
	int r;

	r = gm_file_text(path,
			 "write one as gpumap-node(5) says, or correct "
			 "the path",
			 GM_NODEFILE_BYTES, &text, &n, ret_err);
	if (r)
		return r;
	snprintf(place, sizeof(place), "%s:", path);
	r = parse(text, n, place, ret_node, ret_err);
	free(text);
	return r;
}

void gm_nodefile_free(struct gm_nodefile *node)
{
	if (!node)
		return;
	free(node->rows);
	*node = (struct gm_nodefile){ .rows = NULL };
}
