/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/sync/gang_record.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/common/name.h"
#include "agent/common/text.h"
#include "agent/sync/fields.h"
#include "agent/sync/node_name.h"

#define FORMAT 1u

/* The errors of answers, which every machine numbers for itself. */
static const struct {
	const char *word;
	int number;
} errors[] = {
	{ "ENOSPC", ENOSPC },       { "EEXIST", EEXIST },
	{ "ENODEV", ENODEV },       { "EPERM", EPERM },
	{ "EINVAL", EINVAL },       { "EHOSTUNREACH", EHOSTUNREACH },
	{ "ENOMEM", ENOMEM },       { "ETIMEDOUT", ETIMEDOUT },
	{ "EPROTO", EPROTO },       { "ENOLINK", ENOLINK },
	{ "ECANCELED", ECANCELED },
};

#define N_ERRORS (sizeof(errors) / sizeof(errors[0]))

/* ---- keys ---------------------------------------------------------------- */

bool gm_gang_key_split(const char *key, const char *prefix, char ret_node[64],
		       char ret_id[GM_GANG_ID_BYTES])
{
	size_t n = strlen(prefix);
	const char *id;

	if (strncmp(key, prefix, n) != 0)
		return false;
	key += n;
	id = strchr(key, '/');
	if (id == NULL || id - key > 63 ||
	    strlen(id + 1) != GM_GANG_ID_BYTES - 1 ||
	    strspn(id + 1, GM_FIELDS_DIGITS) != GM_GANG_ID_BYTES - 1)
		return false;
	memcpy(ret_node, key, (size_t)(id - key));
	ret_node[id - key] = '\0';
	memcpy(ret_id, id + 1, GM_GANG_ID_BYTES);
	return gm_node_name_check(ret_node);
}

static bool is_path(const char *path)
{
	char node[64], id[GM_GANG_ID_BYTES];

	return gm_gang_key_split(path, "", node, id);
}

/* ---- members ------------------------------------------------------------- */

struct gm_gang_member *gm_gang_record_add(struct gm_gang_record *record,
					  uint32_t n_parts)
{
	struct gm_gang_member *member;

	if (record->members == NULL)
		record->members =
			calloc(GM_GANG_MEMBERS_MAX, sizeof(*record->members));
	if (record->members == NULL || record->n_members == GM_GANG_MEMBERS_MAX)
		return NULL;
	member = &record->members[record->n_members];
	member->parts = calloc((size_t)n_parts + 1, sizeof(*member->parts));
	if (member->parts == NULL)
		return NULL;
	member->n_parts = n_parts;
	record->n_members++;
	return member;
}

const struct gm_gang_member *
gm_gang_record_find(const struct gm_gang_record *record, const char *node)
{
	for (uint32_t i = 0; i < record->n_members; i++)
		if (strcmp(record->members[i].node, node) == 0)
			return &record->members[i];
	return NULL;
}

void gm_gang_record_free(struct gm_gang_record *record)
{
	for (uint32_t i = 0; i < record->n_members; i++)
		free(record->members[i].parts);
	free(record->members);
	*record = (struct gm_gang_record){ 0 };
}

static int check_parts(const struct gm_gang_member *member,
		       char ret_why[GM_WHY_BYTES])
{
	const struct gm_sync_gang_part *parts = member->parts;

	if (member->n_parts == 0 || member->n_parts > GM_GANG_PARTS_MAX)
		return gm_why(ret_why, -EINVAL,
			      "node %s: 1 to %u devices can be reserved",
			      member->node, GM_GANG_PARTS_MAX);
	for (uint32_t i = 0; i < member->n_parts; i++) {
		if (parts[i].bytes == 0)
			return gm_why(ret_why, -EINVAL,
				      "node %s: at least 1 byte of a device "
				      "can be reserved",
				      member->node);
		for (uint32_t j = 0; j < i; j++)
			if (memcmp(parts[i].uuid, parts[j].uuid,
				   sizeof(parts[i].uuid)) == 0)
				return gm_why(ret_why, -EINVAL,
					      "node %s: a device is there "
					      "twice",
					      member->node);
	}
	return 0;
}

int gm_gang_record_check(const struct gm_gang_record *record,
			 char ret_why[GM_WHY_BYTES])
{
	if (gm_name_check(record->name, ret_why) != 0)
		return -EINVAL;
	if (record->n_members == 0)
		return gm_why(ret_why, -EINVAL, "a gang has at least one node");
	for (uint32_t i = 0; i < record->n_members; i++) {
		const struct gm_gang_member *member = &record->members[i];

		if (!gm_node_name_check(member->node))
			return gm_why(ret_why, -EINVAL,
				      "a node's name is 1 to 63 of "
				      "A-Z a-z 0-9 . _ -");
		if (gm_gang_record_find(record, member->node) != member)
			return gm_why(ret_why, -EINVAL,
				      "node %s is there twice", member->node);
		if (check_parts(member, ret_why) != 0)
			return -EINVAL;
	}
	return 0;
}

/* ---- writing ------------------------------------------------------------- */

static json_t *part_object(const struct gm_sync_gang_part *part)
{
	json_t *object = json_object();
	int r = gm_fields_set_hex(object, "uuid", part->uuid,
				  sizeof(part->uuid));

	r |= gm_fields_set_number(object, "bytes", part->bytes);
	return gm_fields_or_nothing(object, r);
}

static json_t *member_object(const struct gm_gang_member *member)
{
	json_t *object = json_object(), *parts = json_array();
	int r = gm_fields_set_text(object, "node", member->node);

	for (uint32_t i = 0; i < member->n_parts; i++)
		r |= json_array_append_new(parts,
					   part_object(&member->parts[i]));
	r |= json_object_set_new(object, "parts", parts);
	return gm_fields_or_nothing(object, r);
}

static int dump(json_t *object, char ret_value[GM_STORE_VALUE_BYTES])
{
	char *text = object != NULL ? gm_wide_dump(object) : NULL;
	size_t n = text != NULL ? strlen(text) : 0;

	json_decref(object);
	if (n <= GM_STORE_VALUE_BYTES)
		memcpy(ret_value, text != NULL ? text : "", n);
	free(text);
	return n == 0 ? -ENOMEM : n > GM_STORE_VALUE_BYTES ? -E2BIG : (int)n;
}

int gm_gang_record_encode(const struct gm_gang_record *record,
			  char ret_value[GM_STORE_VALUE_BYTES])
{
	json_t *object = json_object(), *members = json_array();
	int r = gm_fields_set_number(object, "format", FORMAT);

	r |= gm_fields_set_text(object, "name", record->name);
	r |= gm_fields_set_number(object, "uid", record->uid);
	for (uint32_t i = 0; i < record->n_members; i++)
		r |= json_array_append_new(members,
					   member_object(&record->members[i]));
	r |= json_object_set_new(object, "members", members);
	return dump(gm_fields_or_nothing(object, r), ret_value);
}

static const char *word_of(int status)
{
	for (size_t i = 0; i < N_ERRORS; i++)
		if (errors[i].number == -status)
			return errors[i].word;
	return "EHOSTUNREACH";
}

int gm_gang_answer_encode(const struct gm_gang_answer *answer,
			  char ret_value[GM_STORE_VALUE_BYTES])
{
	bool is_held = answer->status == 0;
	json_t *object = json_object();
	int r = gm_fields_set_number(object, "format", FORMAT);

	r |= gm_fields_set_text(object, "gang", answer->gang);
	r |= gm_fields_set_text(object, "instance", answer->instance);
	r |= gm_fields_set_text(object, "status", is_held ? "held" : "refused");
	if (!is_held) {
		r |= gm_fields_set_text(object, "errno",
					word_of(answer->status));
		r |= gm_fields_set_text(object, "why", answer->why);
	}
	return dump(gm_fields_or_nothing(object, r), ret_value);
}

/* ---- reading ------------------------------------------------------------- */

static void get_name(struct gm_fields *f, const char *key,
		     bool (*check)(const char *), char *ret_name, size_t room)
{
	const char *text = gm_json_field_text(f, key);

	if (text != NULL && (strlen(text) >= room || !check(text)))
		gm_json_field_refuse(f, key, "is none");
	if (f->r == 0)
		memcpy(ret_name, text, strlen(text) + 1);
}

static bool is_name(const char *text)
{
	char why[GM_WHY_BYTES];

	return gm_name_check(text, why) == 0;
}

static void get_part(struct gm_fields *f, struct gm_sync_gang_part *part)
{
	gm_fields_hex(f, "uuid", part->uuid, sizeof(part->uuid));
	part->bytes = gm_json_field_number(f, "bytes");
}

static void get_member(struct gm_fields *f, struct gm_gang_record *record)
{
	const json_t *list = gm_fields_list(f, "parts", GM_GANG_PARTS_MAX);
	struct gm_gang_member *member;
	char name[32];

	if (f->r != 0)
		return;
	member = gm_gang_record_add(record, (uint32_t)json_array_size(list));
	if (member == NULL) {
		f->r = gm_error_no_memory(f->err);
		return;
	}
	get_name(f, "node", gm_node_name_check, member->node,
		 sizeof(member->node));
	for (uint32_t i = 0; i < member->n_parts && f->r == 0; i++) {
		struct gm_fields part =
			gm_fields_item(f, "parts", list, i, name);

		get_part(&part, &member->parts[i]);
		f->r = part.r;
	}
}

static void get_record(struct gm_fields *f, struct gm_gang_record *record)
{
	const json_t *list = gm_fields_list(f, "members", GM_GANG_MEMBERS_MAX);
	char name[32];

	get_name(f, "name", is_name, record->name, sizeof(record->name));
	record->uid = (uint32_t)gm_fields_number(f, "uid", UINT32_MAX);
	for (size_t i = 0; i < json_array_size(list) && f->r == 0; i++) {
		struct gm_fields member =
			gm_fields_item(f, "members", list, i, name);

		get_member(&member, record);
		f->r = member.r;
	}
}

static void get_answer(struct gm_fields *f, struct gm_gang_answer *answer)
{
	const char *status = gm_json_field_text(f, "status"), *text;

	get_name(f, "gang", is_path, answer->gang, sizeof(answer->gang));
	gm_fields_id(f, "instance", GM_FIELDS_DIGITS, answer->instance,
		     sizeof(answer->instance));
	if (status == NULL || strcmp(status, "held") == 0)
		return;
	if (strcmp(status, "refused") != 0)
		gm_json_field_refuse(f, "status", "is no word that is known");
	text = gm_json_field_text(f, "errno");
	for (size_t i = 0; text != NULL && i < N_ERRORS; i++)
		if (strcmp(errors[i].word, text) == 0)
			answer->status = -errors[i].number;
	if (text != NULL && answer->status == 0)
		gm_json_field_refuse(f, "errno", "is none that is known");
	text = gm_json_field_text(f, "why");
	if (text == NULL)
		return;
	snprintf(answer->why, sizeof(answer->why), "%s", text);
	gm_text_make_plain(answer->why, strlen(answer->why));
}

/* Parse the value, and call one of the two. */
static int decode(const void *value, size_t bytes,
		  struct gm_gang_record *record, struct gm_gang_answer *answer,
		  char ret_why[GM_WHY_BYTES])
{
	struct gm_plan_error err = { 0 };
	struct gm_fields f = { .name = "", .err = &err };
	json_t *object;

	if (bytes > GM_STORE_VALUE_BYTES)
		return gm_why(ret_why, -EPROTO, "it has more than %u bytes",
			      GM_STORE_VALUE_BYTES);
	object = gm_wide_load(value, bytes, &err);
	f.object = object;
	f.r = object != NULL ? 0 : err.code;
	if (f.r == 0 && gm_json_field_number(&f, "format") != FORMAT)
		gm_json_field_refuse(&f, "format",
				     "is not 1: update the older of the two "
				     "nodes");
	if (f.r == 0 && record != NULL)
		get_record(&f, record);
	else if (f.r == 0)
		get_answer(&f, answer);
	json_decref(object);
	if (f.r == 0)
		return 0;
	return gm_why(ret_why, f.r == -ENOMEM ? f.r : -EPROTO, "%s", err.text);
}

int gm_gang_record_decode(const void *value, size_t bytes,
			  struct gm_gang_record *ret_record,
			  char ret_why[GM_WHY_BYTES])
{
	struct gm_gang_record record = { 0 };
	int r = decode(value, bytes, &record, NULL, ret_why);

	if (r == 0 && gm_gang_record_check(&record, ret_why) != 0)
		r = -EPROTO;
	if (r == 0)
		*ret_record = record;
	else
		gm_gang_record_free(&record);
	return r;
}

int gm_gang_answer_decode(const void *value, size_t bytes,
			  struct gm_gang_answer *ret_answer,
			  char ret_why[GM_WHY_BYTES])
{
	struct gm_gang_answer answer = { 0 };
	int r = decode(value, bytes, NULL, &answer, ret_why);

	if (r == 0)
		*ret_answer = answer;
	return r;
}
