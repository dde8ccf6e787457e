/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The values that another node writes about gangs: a record, and an answer.
 */

#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <string.h>

#include "agent/common/name.h"
#include "agent/sync/gang_record.h"
#include "agent/sync/node_name.h"

static void check_text(const char *text, size_t bytes)
{
	const char *end = memchr(text, 0, bytes);

	MUST(end);
	for (; text < end; text++)
		MUST((unsigned char)*text >= ' ');
}

static void check_record(const struct gm_gang_record *record)
{
	char why[GM_WHY_BYTES];

	MUST(gm_name_check(record->name, why) == 0);
	MUST(record->n_members >= 1 &&
	     record->n_members <= GM_GANG_MEMBERS_MAX);
	for (uint32_t i = 0; i < record->n_members; i++) {
		const struct gm_gang_member *member = &record->members[i];

		MUST(gm_node_name_check(member->node));
		MUST(gm_gang_record_find(record, member->node) == member);
		MUST(member->n_parts >= 1 &&
		     member->n_parts <= GM_GANG_PARTS_MAX);
		for (uint32_t j = 0; j < member->n_parts; j++)
			MUST(member->parts[j].bytes > 0);
	}
}

/* A record that was read can be written, unless the form of another program is
 * shorter. */
static void check_record_again(const struct gm_gang_record *record)
{
	struct gm_gang_record again = { 0 };
	char value[GM_STORE_VALUE_BYTES], why[GM_WHY_BYTES];
	int n = gm_gang_record_encode(record, value);

	MUST(n > 0 || n == -E2BIG);
	if (n < 0)
		return;
	MUST(gm_gang_record_decode(value, (size_t)n, &again, why) == 0);
	MUST(strcmp(again.name, record->name) == 0);
	MUST(again.n_members == record->n_members);
	for (uint32_t i = 0; i < again.n_members; i++)
		MUST(again.members[i].n_parts == record->members[i].n_parts &&
		     memcmp(again.members[i].parts, record->members[i].parts,
			    again.members[i].n_parts *
				    sizeof(*again.members[i].parts)) == 0);
	gm_gang_record_free(&again);
}

static void take_record(const uint8_t *data, size_t size)
{
	struct gm_gang_record record = { 0 };
	char why[GM_WHY_BYTES] = "";
	int r = gm_gang_record_decode(data, size, &record, why);

	if (r == 0) {
		check_record(&record);
		check_record_again(&record);
		gm_gang_record_free(&record);
		return;
	}
	MUST(r == -EPROTO && why[0] != '\0');
	check_text(why, sizeof(why));
	MUST(!record.members);
}

static void take_answer(const uint8_t *data, size_t size)
{
	struct gm_gang_answer answer = { 0 }, again = { 0 };
	char value[GM_STORE_VALUE_BYTES], why[GM_WHY_BYTES] = "";
	char node[64], id[GM_GANG_ID_BYTES];
	int n, r = gm_gang_answer_decode(data, size, &answer, why);

	if (r != 0) {
		MUST(r == -EPROTO && why[0] != '\0');
		check_text(why, sizeof(why));
		return;
	}
	MUST(answer.status <= 0);
	MUST(gm_gang_key_split(answer.gang, "", node, id));
	MUST(strlen(answer.instance) == GM_SYNC_INSTANCE_BYTES - 1);
	check_text(answer.why, sizeof(answer.why));
	n = gm_gang_answer_encode(&answer, value);
	MUST(n > 0);
	MUST(gm_gang_answer_decode(value, (size_t)n, &again, why) == 0);
	MUST(again.status == answer.status);
	MUST(strcmp(again.gang, answer.gang) == 0);
	MUST(strcmp(again.why, answer.why) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	take_record(data, size);
	take_answer(data, size);
	return 0;
}
