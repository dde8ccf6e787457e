/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* state_text: what is written is read, and nothing else is. */

#include <errno.h>

#include "agent/daemon/map/state_text.h"
#include "tests/support/dice.h"
#include "tests/support/fnv.h"
#include "tests/support/tap.h"

static char why[GM_WHY_BYTES];

/* A map and all that it points to. */
struct made {
	struct gm_state_map map;
	char name[GM_NAME_BYTES];
	char spec[64];
	uint32_t rows[GM_LAYERS_MAX];
	uint64_t bytes[GM_LAYERS_MAX];
	struct gm_charge_image charges[GM_ROWS];
	uint8_t uuids[GM_ROWS][16];
};

static uint64_t number(void)
{
	return dice(2) ? UINT64_MAX - dice(9) : dice(1000);
}

/* Rows have numbers of their own, which no file has. */
static void make_rows(struct made *m, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		for (int j = 0; j < 16; j++)
			m->uuids[i][j] = (uint8_t)dice(256);
		m->uuids[i][15] = (uint8_t)i; /* each another */
		m->charges[i] = (struct gm_charge_image){
			.row = n - 1 - i,
			.n_layers = (uint32_t)dice(9),
			.weight_bytes = number(),
			.kv_bytes = number(),
			.activation_bytes = number(),
			.reserve_bytes = number(),
		};
	}
}

static void make_map(struct made *m)
{
	uint32_t n_rows = 1 + (uint32_t)dice(dice(20) ? 4 : GM_ROWS);
	uint32_t n_layers = 1 + (uint32_t)dice(dice(50) ? 100 : GM_LAYERS_MAX);
	size_t n = 1 + dice(GM_NAME_BYTES - 1);

	memset(m->name, 0, sizeof(m->name));
	for (size_t i = 0; i < n; i++) {
		m->name[i] = (char)('!' + dice(256 - '!'));
		if (m->name[i] == 0x7f)
			m->name[i] = '/';
	}
	snprintf(m->spec, sizeof(m->spec), "0:%u;1:1 \"%%\\\x01\xff", n_layers);
	make_rows(m, n_rows);
	for (uint32_t i = 0; i < n_layers; i++) {
		m->rows[i] = (uint32_t)dice(n_rows);
		m->bytes[i] = dice(3) ? 7 : number();
		if (i != 0 && dice(3))
			m->rows[i] = m->rows[i - 1];
	}
	m->map = (struct gm_state_map){
		.layers = { .name = m->name,
			    .spec = m->spec,
			    .owner_uid = (uint32_t)number(),
			    .flags = (uint32_t)dice(2),
			    .n_layers = n_layers,
			    .n_rows = n_rows,
			    .base = (uint32_t)dice(n_rows),
			    .setting = (uint32_t)dice(9),
			    .dtype = (uint32_t)dice(9),
			    .strategy = (uint16_t)dice(4),
			    .compute_dtype = (uint16_t)dice(9),
			    .max_batch_size = (uint32_t)number(),
			    .max_seq_len = number(),
			    .published = number(),
			    .other_bytes = number(),
			    .rows = m->rows,
			    .bytes = dice(3) ? m->bytes : NULL,
			    .charges = m->charges },
		.version = 1 + dice((UINT64_C(1) << 40) - 1),
		.uuids = m->uuids
	};
}

/* Rows that are read are places: back to the rows that were written. */
static void number_rows(const struct made *m, struct gm_state_map *map)
{
	struct gm_layers *layers = &map->layers;
	struct gm_charge_image *charges = (void *)(uintptr_t)layers->charges;
	uint32_t *rows = (void *)(uintptr_t)layers->rows;

	for (uint32_t i = 0; i < layers->n_layers; i++)
		rows[i] = m->charges[rows[i]].row;
	layers->base = m->charges[layers->base].row;
	for (uint32_t i = 0; i < layers->n_rows; i++)
		charges[i].row = m->charges[charges[i].row].row;
}

/* As blocks: whatever a reader can see of a map is in there. */
static bool are_one(const struct gm_layers *a, const struct gm_layers *b)
{
	uint64_t bytes = gm_layers_bytes(a);
	uint64_t *words = calloc(2, bytes);
	bool same = words != NULL && gm_layers_bytes(b) == bytes;

	if (same) {
		gm_layers_build(a, 1, words);
		gm_layers_build(b, 1, words + bytes / 8);
		same = memcmp(words, words + bytes / 8, bytes) == 0;
	}
	free(words);
	return same;
}

static bool comes_back(struct made *m)
{
	char file[GM_STATE_NAME_BYTES], *text;
	struct gm_state_map map;
	size_t bytes;
	bool same;

	gm_map_text_name(m->name, file);
	if (gm_map_text_make(&m->map, &text, &bytes) != 0 ||
	    strlen(text) != bytes)
		return false;
	if (gm_map_text_read(file, text, bytes, &map, why) != 0) {
		NOTE("%s: %s", file, why);
		free(text);
		return false;
	}
	number_rows(m, &map);
	same = are_one(&m->map.layers, &map.layers) &&
	       map.version == m->map.version &&
	       memcmp(map.uuids, m->uuids, 16 * map.layers.n_rows) == 0 &&
	       (m->map.layers.bytes == NULL) == (map.layers.bytes == NULL);
	gm_state_map_free(&map);
	free(text);
	return same;
}

static void every_map_comes_back(void)
{
	struct made *m = calloc(1, sizeof(*m));
	int wrong = 0;

	for (int i = 0; m != NULL && i < 300; i++) {
		make_map(m);
		wrong += !comes_back(m);
	}
	OK(m != NULL);
	EQ(wrong, 0);
	free(m);
}

/* The largest file that can be is one that would be read. */
static void the_largest_map_comes_back(void)
{
	struct made *m = calloc(1, sizeof(*m));
	size_t bytes = 0;
	char *text;

	if (!OK(m != NULL))
		return;
	make_map(m);
	make_rows(m, GM_ROWS);
	m->map.layers.n_rows = GM_ROWS;
	m->map.layers.n_layers = GM_LAYERS_MAX;
	m->map.layers.bytes = m->bytes;
	for (uint32_t i = 0; i < GM_LAYERS_MAX; i++) {
		m->rows[i] = GM_ROWS - 1 - i % 156;
		m->bytes[i] = UINT64_MAX - i;
	}
	m->map.layers.base = 0;
	EQ(gm_map_text_make(&m->map, &text, &bytes), 0);
	OK(bytes < GM_STATE_TEXT_MAX / 2);
	free(text);
	OK(comes_back(m));
	free(m);
}

static void names_are_files(void)
{
	char file[GM_STATE_NAME_BYTES], widest[GM_NAME_BYTES];

	gm_map_text_name("llama-2.70b_f16", file);
	STR(file, "llama-2.70b_f16.layers");
	gm_map_text_name("../x", file);
	STR(file, "%2E.%2Fx.layers");
	gm_map_text_name("a%/\xfe", file);
	STR(file, "a%25%2F%FE.layers");
	memset(widest, 0xff, sizeof(widest));
	widest[sizeof(widest) - 1] = '\0';
	gm_map_text_name(widest, file);
	EQ(strlen(file), 3 * (GM_NAME_BYTES - 1) + 7);
}

static void files_are_names(void)
{
	static const char *const nobodys[] = {
		".layers",    "layers",     "a.layers.replaced",
		"%2Ex",       "a/b.layers", "%61.layers", /* an a */
		"%00.layers", "%2.layers",  "..layers",
	};
	char file[3 * GM_STATE_NAME_BYTES], name[GM_NAME_BYTES];
	char widest[GM_NAME_BYTES + 1];

	OK(gm_map_text_owner("llama-2.70b_f16.layers", name));
	STR(name, "llama-2.70b_f16");
	OK(gm_map_text_owner("%2E.%2Fx.layers", name));
	STR(name, "../x");
	memset(widest, 0xff, sizeof(widest));
	widest[GM_NAME_BYTES - 1] = '\0';
	gm_map_text_name(widest, file);
	OK(gm_map_text_owner(file, name));
	STR(name, widest);
	memset(widest, 'w', sizeof(widest));
	widest[GM_NAME_BYTES] = '\0';
	snprintf(file, sizeof(file), "%s.layers", widest);
	OK(!gm_map_text_owner(file, name));
	memset(file, 'w', sizeof(file));
	strcpy(file + sizeof(file) - 8, ".layers");
	OK(!gm_map_text_owner(file, name));
	for (size_t i = 0; i < sizeof(nobodys) / sizeof(nobodys[0]); i++)
		OK(!gm_map_text_owner(nobodys[i], name));
}

/* ---- what is refused --------------------------------------------------- */

static const char good[] =
	"{\"name\":\"m\",\"spec\":\"2\",\"owner_uid\":7,\"flags\":0,"
	"\"version\":3,\"published\":9,\"setting\":1,\"strategy\":0,"
	"\"dtype\":2,\"compute_dtype\":0,\"max_seq_len\":0,"
	"\"max_batch_size\":0,\"other_bytes\":0,\"base\":0,"
	"\"rows\":[{\"uuid\":\"00112233-4455-8677-8899-aabbccddeeff\","
	"\"n_layers\":2,\"weight_bytes\":10,\"kv_bytes\":0,"
	"\"activation_bytes\":0,\"reserve_bytes\":0}],"
	"\"layers\":[[0,2]],\"layer_bytes\":[[5,2]]}";

static int read_text(const char *text, size_t bytes)
{
	struct gm_state_map map;
	int ret;

	why[0] = '\0';
	ret = gm_map_text_read("m.layers", text, bytes, &map, why);
	if (ret == 0)
		gm_state_map_free(&map);
	return ret;
}

/* With a first line that is right. */
static int read_body(const char *body)
{
	char text[2048];
	int n = snprintf(text, sizeof(text),
			 "gpumap-state 1 %zu %016" PRIx64 "\n%s", strlen(body),
			 fnv(body, strlen(body)), body);

	return read_text(text, (size_t)n);
}

/* The good one with @was replaced. */
static int read_with(const char *was, const char *by)
{
	const char *at = strstr(good, was);
	char body[1024];

	if (at == NULL) {
		NOTE("%s is not in it", was);
		return 1;
	}
	snprintf(body, sizeof(body), "%.*s%s%s", (int)(at - good), good, by,
		 at + strlen(was));
	return read_body(body);
}

static void torn_texts_are_refused(void)
{
	char text[2048];
	int n = snprintf(text, sizeof(text),
			 "gpumap-state 1 %zu %016" PRIx64 "\n%s", strlen(good),
			 fnv(good, strlen(good)), good);
	int passed = 0;

	EQ(read_text(text, (size_t)n), 0);
	for (int cut = 0; cut < n; cut++)
		passed += read_text(text, (size_t)cut) == 0;
	EQ(passed, 0);
	EQ(read_text(text, (size_t)n - 1), -EBADMSG);
	STR(why, "its length or its sum is wrong: it was cut, or changed");
	text[n] = ' ';
	EQ(read_text(text, (size_t)n + 1), -EBADMSG);
	for (int at = 0; at < n; at++) {
		for (int bit = 0; bit < 8; bit++) {
			text[at] = (char)(text[at] ^ (1 << bit));
			passed += read_text(text, (size_t)n) == 0;
			text[at] = (char)(text[at] ^ (1 << bit));
		}
	}
	EQ(passed, 0);
	EQ(read_text(text, 20), -EBADMSG);
	STR(why, "it ends in its first line");
}

static void foreign_texts_are_refused(void)
{
	static const char other[] = "[Unit]\nDescription=none of ours\n";
	static const char later[] = "gpumap-state 2 0 0\n";

	EQ(read_text(other, strlen(other)), -EPROTO);
	STR(why, "it is no state file");
	EQ(read_text("", 0), -EPROTO);
	EQ(read_text(later, strlen(later)), -EPROTO);
	STR(why, "it is of a version that this agent does not know");
	EQ(read_body("{"), -EPROTO);
	EQ(read_body("[]"), -EPROTO);
	EQ(read_body("{}"), -EPROTO);
}

static void senseless_maps_are_refused(void)
{
	static const char *const changes[][2] = {
		{ "\"m\"", "\"n\"" },
		{ "\"m\"", "\"\"" },
		{ "\"m\"", "\"%6D%0\"" },
		{ "\"m\"", "\"m%00\"" },
		{ "\"m\"", "7" },
		{ "\"2\"", "\"%zz\"" },
		{ "\"owner_uid\":7", "\"owner_uid\":4294967296" },
		{ "\"owner_uid\":7", "\"owner_uid\":-1" },
		{ "\"flags\":0", "\"flags\":2" },
		{ "\"flags\":0", "\"flags\":4" },
		{ "\"version\":3", "\"version\":0" },
		{ "\"version\":3", "\"version\":1099511627776" },
		{ "\"version\":3", "\"version\":3,\"version\":4" },
		{ "\"strategy\":0", "\"strategy\":65536" },
		{ "\"base\":0", "\"base\":1" },
		{ "aabbccddeeff", "aabbccddee" },
		{ "aabbccddeeff", "aabbccddeeff0" },
		{ "0011", "00g1" },
		{ "\"rows\":[", "\"rows\":[{\"uuid\":\"00112233-4455-8677-8899"
				"-aabbccddeeff\",\"n_layers\":2,"
				"\"weight_bytes\":10,\"kv_bytes\":0,"
				"\"activation_bytes\":0,"
				"\"reserve_bytes\":0}," },
		{ "\"kv_bytes\":0,", "" },
		{ "[[0,2]]", "[]" },
		{ "[[0,2]]", "[[1,2]]" },
		{ "[[0,2]]", "[[0,0],[0,2]]" },
		{ "[[0,2]]", "[[0,65537]]" },
		{ "[[0,2]]", "[[0,18446744073709551615],[0,3]]" },
		{ "[[5,2]]", "[[5,1]]" },
		{ "[[5,2]]", "[[5,2],[5,18446744073709551615]]" },
		{ "[[5,2]]", "[[18446744073709551616,2]]" },
		{ "[[5,2]]", "7" },
	};
	int passed = 0;

	EQ(read_body(good), 0);
	EQ(read_with("[[5,2]]", "null"), 0);
	EQ(read_with("\"flags\":0", "\"flags\":1"), 0);
	EQ(read_with("\"flags\":0", "\"flags\":0,\"later\":[1]"), 0);
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		int ret = read_with(changes[i][0], changes[i][1]);

		if (ret == -EPROTO && why[0] != '\0')
			continue;
		passed++;
		NOTE("%s: %d", changes[i][1], ret);
	}
	EQ(passed, 0);
	EQ(read_with("\"m\"", "\"n\""), -EPROTO);
	STR(why, "name is not its file's");
	EQ(read_with("\"flags\":0", "\"flags\":3"), -EPROTO);
	STR(why, "flags has some that no file can have");
}

TAP_CASE()
{
	every_map_comes_back();
	the_largest_map_comes_back();
	names_are_files();
	files_are_names();
	torn_texts_are_refused();
	foreign_texts_are_refused();
	senseless_maps_are_refused();
	return tap_done();
}
