/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Records of gangs and answers of members: written and read again, too long,
 * and refused with a reason.
 */

#include "agent/sync/gang_record.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/tap.h"

#define UUID "00112233445566778899aabbccddeeff"

static const char good[] =
	"{\"format\":1,\"name\":\"m\",\"uid\":7,\"members\":[{\"node\":\"a\","
	"\"parts\":[{\"uuid\":\"" UUID "\",\"bytes\":18446744073709551615}]},"
	"{\"node\":\"b\",\"parts\":[{\"uuid\":\"" UUID "\",\"bytes\":1}]}]}";

static const char answer[] =
	"{\"format\":1,\"gang\":\"a/0123456789abcdef\",\"instance\":\""
	"fedcba9876543210\",\"status\":\"refused\",\"errno\":\"ENOSPC\","
	"\"why\":\"no room\"}";

/* A text with the first @from of it replaced. */
static char *edit(const char *text, const char *from, const char *to)
{
	const char *at = strstr(text, from);
	char *edited = calloc(strlen(text) + strlen(to) + 1, 1);

	if (OK(at != NULL))
		sprintf(edited, "%.*s%s%s", (int)(at - text), text, to,
			at + strlen(from));
	return edited;
}

static void is_refused(const char *from, const char *to, const char *says)
{
	char *text = edit(good, from, to), why[GM_WHY_BYTES] = "";
	struct gm_gang_record record = { 0 };

	EQ(gm_gang_record_decode(text, strlen(text), &record, why), -EPROTO);
	if (!OK(strstr(why, says) != NULL))
		NOTE("%s: %s", to, why);
	free(text);
}

static void answer_is_refused(const char *from, const char *to,
			      const char *says)
{
	char *text = edit(answer, from, to), why[GM_WHY_BYTES] = "";
	struct gm_gang_answer read = { 0 };

	EQ(gm_gang_answer_decode(text, strlen(text), &read, why), -EPROTO);
	if (!OK(strstr(why, says) != NULL))
		NOTE("%s: %s", to, why);
	free(text);
}

static void a_record_is_read_as_it_was_written(void)
{
	struct gm_gang_record record = { 0 };
	char why[GM_WHY_BYTES], value[GM_STORE_VALUE_BYTES];
	int n;

	EQ(gm_gang_record_decode(good, strlen(good), &record, why), 0);
	STR(record.name, "m");
	EQ(record.uid, 7);
	EQ(record.n_members, 2);
	STR(record.members[1].node, "b");
	OK(record.members[0].parts[0].bytes == UINT64_MAX);
	EQ(record.members[0].parts[0].uuid[1], 0x11);
	n = gm_gang_record_encode(&record, value);
	EQ(n, strlen(good));
	OK(memcmp(value, good, strlen(good)) == 0);
	gm_gang_record_free(&record);
}

static void a_record_may_be_too_long(void)
{
	struct gm_gang_record record = { .name = "m" };
	char value[GM_STORE_VALUE_BYTES];
	unsigned int n_parts = 0;
	int n = 0;

	while (n >= 0 && record.n_members < GM_GANG_MEMBERS_MAX) {
		struct gm_gang_member *member = gm_gang_record_add(&record, 8);

		if (!OK(member != NULL))
			break;
		snprintf(member->node, sizeof(member->node), "node-%u",
			 record.n_members);
		for (unsigned int i = 0; i < 8; i++)
			member->parts[i].bytes = UINT64_C(80) << 30;
		n = gm_gang_record_encode(&record, value);
		n_parts += n > 0 ? 8 : 0;
	}
	EQ(n, -E2BIG);
	NOTE("%u parts of 8 a node are the most", n_parts);
	OK(n_parts >= 200);
	gm_gang_record_free(&record);
}

static void records_are_refused(void)
{
	is_refused("\"format\":1", "\"format\":2", "format");
	is_refused("\"name\":\"m\"", "\"name\":\"m m\"", "name");
	is_refused("\"uid\":7", "\"uid\":4294967296", "uid");
	is_refused("\"uid\":7,", "", "uid");
	is_refused("\"node\":\"b\"", "\"node\":\"a\"", "twice");
	is_refused("\"node\":\"b\"", "\"node\":\"-b\"", "node");
	is_refused("\"bytes\":1}", "\"bytes\":0}", "at least 1 byte");
	is_refused("\"bytes\":1}", "\"bytes\":-1}", "bytes");
	is_refused("\"bytes\":1}]",
		   "\"bytes\":1},{\"uuid\":\"" UUID "\",\"bytes\":1}]",
		   "twice");
	is_refused(UUID, "00", "hexadecimal");
	is_refused("\"members\":[{", "\"members\":[3,{", "no object");
	is_refused(good, "", "");
	is_refused(good, "[]", "object");
}

static void an_answer_is_read_as_it_was_written(void)
{
	char why[GM_WHY_BYTES], value[GM_STORE_VALUE_BYTES];
	struct gm_gang_answer read = { 0 };

	EQ(gm_gang_answer_decode(answer, strlen(answer), &read, why), 0);
	STR(read.gang, "a/0123456789abcdef");
	EQ(read.status, -ENOSPC);
	STR(read.why, "no room");
	EQ(gm_gang_answer_encode(&read, value), strlen(answer));
	OK(memcmp(value, answer, strlen(answer)) == 0);
	/* An error that has no word is as if the node were not there. */
	read.status = -EXDEV;
	OK(gm_gang_answer_encode(&read, value) > 0);
	OK(strstr(value, "EHOSTUNREACH") != NULL);
}

static void answers_are_refused(void)
{
	answer_is_refused("a/0123", "a/x123", "gang");
	answer_is_refused("fedc", "edc", "instance");
	answer_is_refused("\"refused\"", "\"perhaps\"", "status");
	answer_is_refused("ENOSPC", "ELATE", "errno");
	answer_is_refused("\"why\":\"no room\"", "\"why\":3", "why");
	answer_is_refused("\"format\":1", "\"format\":true", "format");
}

static void keys_are_split(void)
{
	char node[64] = "", id[GM_GANG_ID_BYTES] = "";

	OK(gm_gang_key_split("gangs/a/0123456789abcdef", "gangs/", node, id));
	STR(node, "a");
	STR(id, "0123456789abcdef");
	OK(!gm_gang_key_split("holds/a/0123456789abcdef", "gangs/", node, id));
	OK(!gm_gang_key_split("gangs/a/0123456789abcde", "gangs/", node, id));
	OK(!gm_gang_key_split("gangs/a/0123456789ABCDEF", "gangs/", node, id));
	OK(!gm_gang_key_split("gangs/a", "gangs/", node, id));
	OK(!gm_gang_key_split("gangs/-a/0123456789abcdef", "gangs/", node, id));
}

TAP_CASE()
{
	a_record_is_read_as_it_was_written();
	a_record_may_be_too_long();
	records_are_refused();
	an_answer_is_read_as_it_was_written();
	answers_are_refused();
	keys_are_split();
	return tap_done();
}
