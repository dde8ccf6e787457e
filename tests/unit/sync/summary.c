/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Summaries of nodes: written and read again, cut to the room that there is,
 * refused with a reason, and compared.
 */

#include "agent/sync/summary.h"

#include <errno.h>
#include <stdlib.h>

#include "tests/support/tap.h"

#define INSTANCE "0123456789abcdef"
#define BOOT     "01234567-89ab-cdef-0123-456789abcdef"
#define UUID     "00112233445566778899aabbccddeeff"
#define HASH     UUID UUID
#define SIXTY_THREE \
	"abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz01234567890"

/* One of each. */
static const char good[] =
	"{\"format\":1,\"node\":\"a\",\"instance\":\"" INSTANCE "\","
	"\"boot\":\"" BOOT "\",\"version\":200,\"epoch\":3,"
	"\"address\":\"10.0.0.1\",\"gangs\":true,\"draining\":false,"
	"\"rows\":[{\"row\":2,\"uuid\":\"" UUID "\",\"name\":\"NVIDIA H100\","
	"\"kind\":\"cuda\",\"state\":\"ready\",\"flags\":17,\"numa\":0,"
	"\"cc\":\"9.0\",\"total\":1000,\"free\":900,\"reserved\":80,"
	"\"used\":70,\"links\":18}],\"rows_more\":5,"
	"\"shares\":[{\"name\":\"m\",\"bytes\":60,\"uid\":7,\"flags\":4,"
	"\"hash\":\"" HASH "\",\"rows\":[0,255]}],\"shares_more\":6}";

static uint32_t state = 1;

static uint32_t pick(uint32_t below)
{
	state = state * 1664525 + 1013904223;
	return (uint32_t)((uint64_t)(state >> 8) * below >> 24);
}

static uint64_t pick_wide(void)
{
	uint64_t wide = (uint64_t)pick(1u << 24) << 40 |
			(uint64_t)pick(1u << 24) << 16 | pick(1u << 16);

	return wide >> pick(64);
}

/* @good with the first @from of it replaced. */
static char *edit(const char *from, const char *to)
{
	const char *at = strstr(good, from);
	char *text = calloc(sizeof(good) + strlen(to), 1);

	if (OK(at != NULL))
		sprintf(text, "%.*s%s%s", (int)(at - good), good, to,
			at + strlen(from));
	return text;
}

static int decode(const char *text, struct gm_summary *summary, char *why)
{
	return gm_summary_decode(text, strlen(text), "a", summary, why);
}

static void taken(const char *from, const char *to)
{
	struct gm_summary summary = { 0 };
	char why[GM_WHY_BYTES] = "", *text = edit(from, to);

	if (!OK(decode(text, &summary, why) == 0))
		NOTE("%s: %s", to, why);
	gm_summary_free(&summary);
	free(text);
}

static void refused(const char *from, const char *to, const char *want)
{
	struct gm_summary summary = { .node.epoch = 77 };
	char why[GM_WHY_BYTES] = "", *text = edit(from, to);

	EQ(decode(text, &summary, why), -EPROTO);
	if (!OK(strstr(why, want) != NULL))
		NOTE("%s: %s", to, why);
	/* Nothing was stored. */
	EQ(summary.node.epoch, 77);
	OK(summary.devices == NULL && summary.shares == NULL);
	free(text);
}

static void each_member_is_read(void)
{
	struct gm_summary s = { 0 };
	char why[GM_WHY_BYTES] = "";

	if (!EQ(decode(good, &s, why), 0)) {
		NOTE("%s", why);
		return;
	}
	STR(s.node.name, "a");
	STR(s.node.address, "10.0.0.1");
	STR(s.instance, INSTANCE);
	STR(s.boot, BOOT);
	EQ(s.node.state, GPUMAP_CLUSTER_LIVE);
	EQ(s.node.flags, 0);
	EQ(s.node.epoch, 3);
	EQ(s.node.agent_version, 200);
	EQ(s.node.n_devices, 1);
	EQ(s.node.more_devices, 5);
	EQ(s.node.n_shares, 1);
	EQ(s.node.more_shares, 6);
	EQ(s.devices[0].row, 2);
	EQ(s.devices[0].uuid[15], 0xff);
	STR(s.devices[0].name, "NVIDIA H100");
	EQ(s.devices[0].kind, GPUMAP_DEVICE_CUDA);
	EQ(s.devices[0].state, GPUMAP_DEVICE_READY);
	EQ(s.devices[0].flags, 17);
	EQ(s.devices[0].numa_node, 0);
	EQ(s.devices[0].cc_major, 9);
	EQ(s.devices[0].cc_minor, 0);
	EQ(s.devices[0].total_bytes, 1000);
	EQ(s.devices[0].free_bytes, 900);
	EQ(s.devices[0].reserved_bytes, 80);
	EQ(s.devices[0].used_by_holders, 70);
	EQ(s.devices[0].links, 18);
	STR(s.shares[0].name, "m");
	EQ(s.shares[0].bytes, 60);
	EQ(s.shares[0].uid, 7);
	EQ(s.shares[0].flags, 4);
	EQ(s.shares[0].fingerprint[31], 0xff);
	EQ(s.shares[0].rows[0], 1);
	OK(s.shares[0].rows[3] == UINT64_C(1) << 63);
	gm_summary_free(&s);
}

/* Members of later versions are ignored, and some may be missing. */
static void other_members_are_allowed(void)
{
	taken("\"epoch\"", "\"later\":[{\"x\":[]}],\"epoch\"");
	taken("\"flags\":17", "\"flags\":17,\"later\":null");
	taken("\"flags\":4", "\"flags\":4,\"later\":{\"a\":1}");
	taken("\"cc\":\"9.0\",", "");
	taken("\"hash\":\"" HASH "\",", "");
	taken("\"flags\":17", "\"flags\":4294967295");
	taken("[0,255]", "[]");
}

static void limits_are_exact(void)
{
	taken("\"row\":2", "\"row\":255");
	refused("\"row\":2", "\"row\":256", "rows[0].row is too large");
	taken("NVIDIA H100", SIXTY_THREE);
	refused("NVIDIA H100", "", "rows[0].name");
	refused("NVIDIA H100", SIXTY_THREE "x", "rows[0].name");
	taken("\"m\"", "\"" SIXTY_THREE "\"");
	refused("\"m\"", "\"" SIXTY_THREE "x\"", "shares[0].name");
	refused("\"m\"", "\"\"", "shares[0].name");
	refused("\"flags\":17", "\"flags\":4294967296", "rows[0].flags");
	taken("\"numa\":0", "\"numa\":-1");
	taken("\"numa\":0", "\"numa\":2147483647");
	refused("\"numa\":0", "\"numa\":-2", "rows[0].numa");
	refused("\"numa\":0", "\"numa\":2147483648", "rows[0].numa");
	taken("\"total\":1000", "\"total\":18446744073709551615");
	refused("\"total\":1000", "\"total\":18446744073709551616",
		"rows[0].total");
	taken("\"free\":900", "\"free\":1000");
	refused("\"free\":900", "\"free\":1001", "rows[0].free is too large");
	taken("\"used\":70", "\"used\":80");
	refused("\"used\":70", "\"used\":81", "rows[0].used is too large");
	taken("\"rows_more\":5", "\"rows_more\":255");
	refused("\"rows_more\":5", "\"rows_more\":256", "rows_more");
	taken("\"shares_more\":6", "\"shares_more\":4294967295");
	refused("\"shares_more\":6", "\"shares_more\":4294967296",
		"shares_more");
	refused("[0,255]", "[0,256]", "shares[0].rows");
	taken("\"uid\":7", "\"uid\":4294967295");
	refused("\"uid\":7", "\"uid\":4294967296", "shares[0].uid");
	taken("\"cc\":\"9.0\"", "\"cc\":\"999.999\"");
	refused("\"cc\":\"9.0\"", "\"cc\":\"1000.0\"", "rows[0].cc");
	taken("10.0.0.1", SIXTY_THREE);
	refused("10.0.0.1", SIXTY_THREE "x", "address");
}

static void wrong_kinds_are_refused(void)
{
	refused("\"format\":1", "\"format\":2", "its format is 2");
	refused("\"format\":1", "\"format\":2,\"node\":\"a", "JSON");
	refused("\"format\":1,", "", "format");
	refused("\"node\":\"a\"", "\"node\":\"b\"", "node");
	refused("\"node\":\"a\"", "\"node\":\"b\",\"node\":\"a\"", "JSON");
	refused("\"node\":\"a\"", "\"node\":7", "node");
	refused("\"" INSTANCE "\"", "\"0123456789ABCDEF\"", "instance");
	refused("\"" INSTANCE "\"", "\"0123456789abcde\"", "instance");
	refused("\"" BOOT "\"", "\"" BOOT "0\"", "boot");
	refused("\"epoch\":3", "\"epoch\":-3", "epoch");
	refused("\"epoch\":3", "\"epoch\":3.5", "epoch");
	refused("\"epoch\":3", "\"epoch\":\"3\"", "epoch");
	refused("\"epoch\":3", "\"epoch\":NaN", "JSON");
	refused("\"epoch\":3", "\"epoch\":1e999", "JSON");
	refused("\"epoch\":3", "\"epoch\":03", "JSON");
	refused("10.0.0.1", "10.0.0.1;reboot", "address");
	refused("10.0.0.1", "-oProxyCommand", "address");
	refused("10.0.0.1", "", "address");
	refused("\"gangs\":true", "\"gangs\":1", "gangs");
	refused("\"gangs\":true,", "", "gangs is missing");
	refused("\"draining\":false", "\"draining\":null", "draining");
	refused("\"cuda\"", "\"tpu\"", "rows[0].kind");
	refused("\"ready\"", "\"READY\"", "rows[0].state");
	refused("\"ready\"", "\"ready\\u0000\"", "JSON");
	refused(UUID, "00112233445566778899aabbccddeefg", "rows[0].uuid");
	refused(UUID, "00112233445566778899aabbccddeef", "rows[0].uuid");
	refused(UUID, "00112233445566778899aabbccddeeff0", "rows[0].uuid");
	refused("\"" HASH "\"", "\"" UUID "\"", "shares[0].hash");
	refused("NVIDIA H100", "NVIDIA\\u001b[2J", "rows[0].name");
	refused("NVIDIA H100", "NVIDIA\xff", "JSON");
	refused("NVIDIA H100", "\\u202eH100", "rows[0].name");
	refused("\"m\"", "\"m n\"", "shares[0].name");
	refused("\"m\"", "\"\\u200bm\"", "shares[0].name");
	refused("\"m\"", "\"\\ud800\"", "JSON");
	refused("\"cc\":\"9.0\"", "\"cc\":\"9\"", "rows[0].cc");
	refused("\"cc\":\"9.0\"", "\"cc\":\" 9.0\"", "rows[0].cc");
	refused("\"cc\":\"9.0\"", "\"cc\":\"0.9\"", "rows[0].cc");
	refused("\"cc\":\"9.0\"", "\"cc\":\"9.-0\"", "rows[0].cc");
	refused("[0,255]", "[0,0]", "shares[0].rows");
	refused("[0,255]", "[-1]", "shares[0].rows");
	refused("[0,255]", "0", "shares[0].rows");
	refused("\"rows\":[{", "\"rows\":[7,{", "rows has one");
	refused("\"shares\":[{", "\"shares\":[[],{", "shares has one");
	refused("\"shares_more\":6}", "\"shares_more\":6}x", "JSON");
}

static void what_is_no_object_is_refused(void)
{
	static const char *const texts[] = { "",   "null", "[]",   "7",
					     "\"", "{",    "\xff", "{}" };
	struct gm_summary summary = { 0 };
	char why[GM_WHY_BYTES], *deep = malloc(GM_STORE_VALUE_BYTES + 1);

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		EQ(decode(texts[i], &summary, why), -EPROTO);
	memset(deep, '[', GM_STORE_VALUE_BYTES);
	deep[GM_STORE_VALUE_BYTES] = '\0';
	EQ(decode(deep, &summary, why), -EPROTO);
	for (uint32_t i = 0; i < GM_STORE_VALUE_BYTES; i++)
		deep[i] = "{\"a\":"[i % 5];
	EQ(decode(deep, &summary, why), -EPROTO);
	free(deep);
}

/* Exactly as many bytes as there may be. */
static void size_is_limited(void)
{
	struct gm_summary summary = { 0 };
	char why[GM_WHY_BYTES], *text = malloc(GM_STORE_VALUE_BYTES + 1);

	memset(text, ' ', GM_STORE_VALUE_BYTES + 1);
	memcpy(text, good, strlen(good));
	EQ(gm_summary_decode(text, GM_STORE_VALUE_BYTES, "a", &summary, why),
	   0);
	gm_summary_free(&summary);
	EQ(gm_summary_decode(text, GM_STORE_VALUE_BYTES + 1, "a", &summary,
			     why),
	   -EPROTO);
	STR(why, "it has more than 16384 bytes");
	free(text);
}

/* ---- made here ----------------------------------------------------------- */

static void fill_name(char *name, uint32_t bytes, bool has_blanks)
{
	static const char *const some[] = { "a",  "Z",        "0",
					    "\"", "\\",       "/",
					    ".",  "\xc3\xa9", "\xe4\xba\xba" };
	uint32_t n = 0;

	while (n < bytes) {
		const char *one = some[pick(9)];

		if (has_blanks && n > 0 && pick(8) == 0)
			one = " ";
		if (n + strlen(one) > bytes)
			one = "x";
		n += (uint32_t)sprintf(name + n, "%s", one);
	}
}

static void make_device(struct gpumap_cluster_device *device, uint32_t i,
			uint32_t name_bytes)
{
	device->size = sizeof(*device);
	device->row = i * 3;
	for (int byte = 1; byte < 16; byte++)
		device->uuid[byte] = (uint8_t)pick(256);
	device->uuid[0] = (uint8_t)i;
	fill_name(device->name, name_bytes, true);
	device->kind = 1 + pick(3);
	device->state = 1 + pick(6);
	device->flags = (uint32_t)pick_wide();
	device->numa_node = (int32_t)pick(10) - 1;
	device->cc_major = pick(13);
	device->cc_minor = device->cc_major > 0 ? pick(10) : 0;
	device->total_bytes = pick_wide();
	device->free_bytes = device->total_bytes >> pick(9);
	device->reserved_bytes = pick_wide();
	device->used_by_holders = device->reserved_bytes >> pick(9);
	device->links = pick(100);
}

static void make_share(struct gpumap_cluster_share *share, uint32_t i,
		       uint32_t name_bytes)
{
	share->size = sizeof(*share);
	share->uid = (uint32_t)pick_wide();
	share->flags = (uint32_t)pick_wide();
	share->bytes = pick_wide();
	share->name[0] = (char)('0' + i);
	fill_name(share->name + 1, name_bytes - 1, false);
	for (int word = 0; word < 4; word++)
		share->rows[word] = UINT64_C(1) << pick(64);
	for (int byte = 0; byte < 32 && i % 4 != 0; byte++)
		share->fingerprint[byte] = (uint8_t)pick(256);
}

static void make(struct gm_summary *s, uint32_t devices, uint32_t shares,
		 uint32_t name_bytes)
{
	*s = (struct gm_summary){
		.node = { .size = sizeof(s->node),
			  .name = "a",
			  .address = "fe80::1%eth0",
			  .state = GPUMAP_CLUSTER_LIVE,
			  .flags = pick(2) * GPUMAP_CLUSTER_NO_GANGS +
				   pick(2) * GPUMAP_CLUSTER_DRAINING,
			  .epoch = pick_wide(),
			  .agent_version = (uint32_t)pick_wide(),
			  .n_devices = devices,
			  .n_shares = shares,
			  .more_devices = pick(100),
			  .more_shares = pick(100) },
		.instance = INSTANCE,
		.boot = BOOT,
		.devices = calloc(devices + 1, sizeof(*s->devices)),
		.shares = calloc(shares + 1, sizeof(*s->shares)),
	};
	for (uint32_t i = 0; i < devices; i++)
		make_device(&s->devices[i], i, name_bytes);
	for (uint32_t i = 0; i < shares; i++)
		make_share(&s->shares[i], i, name_bytes);
}

/* Encode it, and read that.  Returns its bytes. */
static int pass(const struct gm_summary *s, struct gm_summary *ret_again)
{
	char *value = malloc(GM_STORE_VALUE_BYTES), why[GM_WHY_BYTES] = "";
	int n = gm_summary_encode(s, value);

	OK(n > 0 && n <= (int)GM_STORE_VALUE_BYTES);
	if (!EQ(gm_summary_decode(value, (size_t)n, "a", ret_again, why), 0))
		NOTE("%s: %.*s", why, n, value);
	free(value);
	return n;
}

static bool same(const struct gm_summary *a, const struct gm_summary *b)
{
	return memcmp(&a->node, &b->node, sizeof(a->node)) == 0 &&
	       memcmp(a->devices, b->devices,
		      a->node.n_devices * sizeof(*a->devices)) == 0 &&
	       memcmp(a->shares, b->shares,
		      a->node.n_shares * sizeof(*a->shares)) == 0 &&
	       strcmp(a->instance, b->instance) == 0 &&
	       strcmp(a->boot, b->boot) == 0;
}

static void random_summaries_come_back(void)
{
	for (int round = 0; round < 200; round++) {
		struct gm_summary s, again = { 0 };

		make(&s, pick(20), pick(20), 1 + pick(63));
		pass(&s, &again);
		OK(same(&s, &again));
		EQ(gm_summary_compare(&s, &again), GM_SUMMARY_SAME);
		gm_summary_free(&s);
		gm_summary_free(&again);
	}
}

/* 64 rows and 64 shares with names of 63 bytes do not fit: rows go first, and
 * each that is left out is counted. */
static void the_rest_is_counted(void)
{
	struct gm_summary s, again = { 0 };
	uint32_t rows, shares;
	int n;

	make(&s, GPUMAP_CLUSTER_ROWS_MAX, GPUMAP_CLUSTER_SHARES_MAX,
	     GPUMAP_NAME_MAX);
	n = pass(&s, &again);
	rows = again.node.n_devices;
	shares = again.node.n_shares;
	NOTE("%u rows and %u shares in %d bytes", rows, shares, n);
	OK(rows > 30);
	EQ(rows + again.node.more_devices,
	   GPUMAP_CLUSTER_ROWS_MAX + s.node.more_devices);
	EQ(shares + again.node.more_shares,
	   GPUMAP_CLUSTER_SHARES_MAX + s.node.more_shares);
	OK(memcmp(s.devices, again.devices, rows * sizeof(*s.devices)) == 0);
	OK(memcmp(s.shares, again.shares, shares * sizeof(*s.shares)) == 0);
	gm_summary_free(&again);
	gm_summary_free(&s);

	/* Fewer rows leave room for shares. */
	make(&s, 16, GPUMAP_CLUSTER_SHARES_MAX, GPUMAP_NAME_MAX);
	n = pass(&s, &again);
	NOTE("%u rows and %u shares in %d bytes", again.node.n_devices,
	     again.node.n_shares, n);
	EQ(again.node.n_devices, 16);
	OK(again.node.n_shares > 30);
	gm_summary_free(&again);
	gm_summary_free(&s);

	make(&s, GPUMAP_CLUSTER_ROWS_MAX, 0, 1);
	pass(&s, &again);
	EQ(again.node.n_devices, GPUMAP_CLUSTER_ROWS_MAX);
	gm_summary_free(&again);
	gm_summary_free(&s);
}

static char *row_list(uint32_t n)
{
	char *text = calloc(n + 1, 256), *to = text;

	for (uint32_t i = 0; i < n; i++)
		to += sprintf(to,
			      "%s{\"row\":%u,\"uuid\":\"%032x\",\"name\":\"r\","
			      "\"kind\":\"host\",\"state\":\"ready\","
			      "\"flags\":0,\"numa\":-1,\"total\":0,"
			      "\"free\":0,\"reserved\":0,\"used\":0,"
			      "\"links\":0}",
			      i > 0 ? "," : "", i, i);
	return text;
}

static char *share_list(uint32_t n)
{
	char *text = calloc(n + 1, 128), *to = text;

	for (uint32_t i = 0; i < n; i++)
		to += sprintf(to,
			      "%s{\"name\":\"m%u\",\"bytes\":1,\"uid\":0,"
			      "\"flags\":0,\"rows\":[]}",
			      i > 0 ? "," : "", i);
	return text;
}

static void lists_are_limited(void)
{
	char *rows[] = { row_list(64), row_list(65) };
	char *shares[] = { share_list(64), share_list(65) };
	char head[512], *text = malloc(2 * GM_STORE_VALUE_BYTES);
	struct gm_summary summary = { 0 };
	char why[GM_WHY_BYTES];

	snprintf(head, sizeof(head), "%.*s",
		 (int)(strstr(good, "\"rows\"") - good), good);
	for (int i = 0; i < 2; i++) {
		sprintf(text,
			"%s\"rows\":[%s],\"rows_more\":0,\"shares\":[],"
			"\"shares_more\":0}",
			head, rows[i]);
		EQ(decode(text, &summary, why), i == 0 ? 0 : -EPROTO);
		gm_summary_free(&summary);
		sprintf(text,
			"%s\"rows\":[],\"rows_more\":0,\"shares\":[%s],"
			"\"shares_more\":0}",
			head, shares[i]);
		EQ(decode(text, &summary, why), i == 0 ? 0 : -EPROTO);
		gm_summary_free(&summary);
		free(rows[i]);
		free(shares[i]);
	}
	free(text);
}

static void doubles_are_refused(void)
{
	struct gm_summary s, again = { 0 };
	char value[GM_STORE_VALUE_BYTES], why[GM_WHY_BYTES];
	int n;

	make(&s, 3, 3, 8);
	s.devices[2].row = s.devices[0].row;
	n = gm_summary_encode(&s, value);
	EQ(gm_summary_decode(value, (size_t)n, "a", &again, why), -EPROTO);
	STR(why, "rows[2].row is there twice");
	s.devices[2].row = 200;
	memcpy(s.devices[2].uuid, s.devices[1].uuid, 16);
	n = gm_summary_encode(&s, value);
	EQ(gm_summary_decode(value, (size_t)n, "a", &again, why), -EPROTO);
	STR(why, "rows[2].row is there twice");
	s.devices[2].uuid[0] ^= 0x80;
	memcpy(s.shares[2].name, s.shares[0].name, 64);
	n = gm_summary_encode(&s, value);
	EQ(gm_summary_decode(value, (size_t)n, "a", &again, why), -EPROTO);
	STR(why, "shares[2].name is there twice");
	gm_summary_free(&s);
}

/* ---- comparing ----------------------------------------------------------- */

static void small_moves_are_no_difference(void)
{
	struct gm_summary a, b = { 0 };

	make(&a, 2, 1, 8);
	a.devices[1].total_bytes = 256000;
	a.devices[1].free_bytes = 100000;
	a.devices[1].reserved_bytes = 100000;
	a.devices[1].used_by_holders = 50000;
	pass(&a, &b);
	b.devices[1].free_bytes += 1000;
	b.devices[1].used_by_holders -= 1000;
	b.devices[1].reserved_bytes -= 1000;
	EQ(gm_summary_compare(&a, &b), GM_SUMMARY_SAME);
	b.devices[1].free_bytes++;
	EQ(gm_summary_compare(&a, &b), GM_SUMMARY_FIGURES);
	b.devices[1].free_bytes--;
	b.devices[1].used_by_holders--;
	EQ(gm_summary_compare(&a, &b), GM_SUMMARY_FIGURES);
	b.devices[1].reserved_bytes--;
	EQ(gm_summary_compare(&a, &b), GM_SUMMARY_FACTS);
	gm_summary_free(&a);
	gm_summary_free(&b);
}

#define FACT(member)                                              \
	do {                                                      \
		struct gm_summary a, b = { 0 };                   \
                                                                  \
		make(&a, 2, 1, 8);                                \
		pass(&a, &b);                                     \
		b.member ^= 1;                                    \
		EQ(gm_summary_compare(&a, &b), GM_SUMMARY_FACTS); \
		gm_summary_free(&a);                              \
		gm_summary_free(&b);                              \
	} while (0)

static void each_fact_is_a_difference(void)
{
	FACT(node.epoch);
	FACT(node.agent_version);
	FACT(node.flags);
	FACT(node.more_devices);
	FACT(node.more_shares);
	FACT(node.address[0]);
	FACT(instance[0]);
	FACT(devices[1].row);
	FACT(devices[1].uuid[15]);
	FACT(devices[1].name[0]);
	FACT(devices[1].kind);
	FACT(devices[1].state);
	FACT(devices[1].flags);
	FACT(devices[1].numa_node);
	FACT(devices[1].cc_minor);
	FACT(devices[1].total_bytes);
	FACT(devices[1].links);
	FACT(shares[0].name[0]);
	FACT(shares[0].bytes);
	FACT(shares[0].uid);
	FACT(shares[0].flags);
	FACT(shares[0].rows[3]);
	FACT(shares[0].fingerprint[31]);
}

static void a_count_is_a_difference(void)
{
	struct gm_summary a, b = { 0 };

	make(&a, 2, 1, 8);
	pass(&a, &b);
	b.node.n_shares = 0;
	EQ(gm_summary_compare(&a, &b), GM_SUMMARY_FACTS);
	b.node.n_shares = 1;
	b.node.n_devices = 1;
	EQ(gm_summary_compare(&b, &a), GM_SUMMARY_FACTS);
	gm_summary_free(&a);
	gm_summary_free(&b);
}

TAP_CASE()
{
	each_member_is_read();
	other_members_are_allowed();
	limits_are_exact();
	wrong_kinds_are_refused();
	what_is_no_object_is_refused();
	size_is_limited();
	random_summaries_come_back();
	the_rest_is_counted();
	lists_are_limited();
	doubles_are_refused();
	small_moves_are_no_difference();
	each_fact_is_a_difference();
	a_count_is_a_difference();
	return tap_done();
}
