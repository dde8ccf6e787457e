/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/sync/summary.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/common/name.h"
#include "agent/common/text.h"
#include "agent/sync/fields.h"
#include "agent/sync/node_name.h"

#define FORMAT       1
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *const kinds[] = {
	[GPUMAP_DEVICE_HOST] = "host",
	[GPUMAP_DEVICE_CUDA] = "cuda",
	[GPUMAP_DEVICE_DUMMY] = "dummy",
};

static const char *const states[] = {
	[GPUMAP_DEVICE_PROBING] = "probing",
	[GPUMAP_DEVICE_READY] = "ready",
	[GPUMAP_DEVICE_RESTARTING] = "restarting",
	[GPUMAP_DEVICE_DRAINING] = "draining",
	[GPUMAP_DEVICE_FAILED] = "failed",
	[GPUMAP_DEVICE_LOST] = "lost",
};

void gm_summary_free(struct gm_summary *summary)
{
	free(summary->devices);
	free(summary->shares);
	summary->devices = NULL;
	summary->shares = NULL;
	summary->node.n_devices = 0;
	summary->node.n_shares = 0;
}

/* ---- writing ------------------------------------------------------------- */

static json_t *device_object(const struct gpumap_cluster_device *device)
{
	json_t *object = json_object();
	char cc[24];
	int r = 0;

	snprintf(cc, sizeof(cc), "%u.%u", device->cc_major, device->cc_minor);
	r |= gm_fields_set_number(object, "row", device->row);
	r |= gm_fields_set_hex(object, "uuid", device->uuid,
			       sizeof(device->uuid));
	r |= gm_fields_set_text(object, "name", device->name);
	r |= gm_fields_set_text(object, "kind", kinds[device->kind]);
	r |= gm_fields_set_text(object, "state", states[device->state]);
	r |= gm_fields_set_number(object, "flags", device->flags);
	r |= json_object_set_new(object, "numa",
				 json_integer(device->numa_node));
	if (device->cc_major > 0)
		r |= gm_fields_set_text(object, "cc", cc);
	r |= gm_fields_set_number(object, "total", device->total_bytes);
	r |= gm_fields_set_number(object, "free", device->free_bytes);
	r |= gm_fields_set_number(object, "reserved", device->reserved_bytes);
	r |= gm_fields_set_number(object, "used", device->used_by_holders);
	r |= gm_fields_set_number(object, "links", device->links);
	return gm_fields_or_nothing(object, r);
}

static bool has_bit(const uint64_t *words, uint32_t bit)
{
	return (words[bit / 64] >> bit % 64 & 1) != 0;
}

static json_t *share_object(const struct gpumap_cluster_share *share)
{
	static const uint8_t none[sizeof(share->fingerprint)];
	json_t *object = json_object(), *rows = json_array();
	int r = 0;

	for (uint32_t row = 0; row < GPUMAP_ROWS_MAX; row++)
		if (has_bit(share->rows, row))
			r |= json_array_append_new(rows, json_integer(row));
	r |= gm_fields_set_text(object, "name", share->name);
	r |= gm_fields_set_number(object, "bytes", share->bytes);
	r |= gm_fields_set_number(object, "uid", share->uid);
	r |= gm_fields_set_number(object, "flags", share->flags);
	if (memcmp(share->fingerprint, none, sizeof(none)) != 0)
		r |= gm_fields_set_hex(object, "hash", share->fingerprint,
				       sizeof(none));
	r |= json_object_set_new(object, "rows", rows);
	return gm_fields_or_nothing(object, r);
}

/* The value without its lists, and with the longest counts. */
static json_t *head_object(const struct gm_summary *summary)
{
	const struct gpumap_cluster_node *node = &summary->node;
	json_t *object = json_object();
	int r = 0;

	r |= gm_fields_set_number(object, "format", FORMAT);
	r |= gm_fields_set_text(object, "node", node->name);
	r |= gm_fields_set_text(object, "instance", summary->instance);
	r |= gm_fields_set_text(object, "boot", summary->boot);
	r |= gm_fields_set_number(object, "version", node->agent_version);
	r |= gm_fields_set_number(object, "epoch", node->epoch);
	r |= gm_fields_set_text(object, "address", node->address);
	r |= json_object_set_new(
		object, "gangs",
		json_boolean((node->flags & GPUMAP_CLUSTER_NO_GANGS) == 0));
	r |= json_object_set_new(
		object, "draining",
		json_boolean((node->flags & GPUMAP_CLUSTER_DRAINING) != 0));
	r |= json_object_set_new(object, "rows", json_array());
	r |= gm_fields_set_number(object, "rows_more", UINT32_MAX);
	r |= json_object_set_new(object, "shares", json_array());
	r |= gm_fields_set_number(object, "shares_more", UINT32_MAX);
	return gm_fields_or_nothing(object, r);
}

/* Bytes of the text of a value, 0: out of memory. */
static size_t measure(const json_t *json)
{
	char *text = json != NULL ? gm_wide_dump(json) : NULL;
	size_t n = text != NULL ? strlen(text) : 0;

	free(text);
	return n;
}

/* Append a list's next item, which becomes ours, if @room is left.  Returns 1,
 * 0: there is no room, or -ENOMEM. */
static int append(json_t *object, const char *key, json_t *item, size_t *room)
{
	size_t n = measure(item) + 1; /* and a comma */

	if (n > 1 && n <= *room) {
		*room -= n;
		return json_array_append_new(json_object_get(object, key),
					     item) == 0
			       ? 1
			       : -ENOMEM;
	}
	json_decref(item);
	return n > 1 ? 0 : -ENOMEM;
}

/* Append what finds room, and count the rest. */
static int append_all(json_t *object, const struct gm_summary *summary)
{
	const struct gpumap_cluster_node *node = &summary->node;
	size_t n = measure(object), room = GM_STORE_VALUE_BYTES - n;
	uint32_t rows = 0, shares = 0;
	int r = n > 0 ? 1 : -ENOMEM;

	while (r == 1 && rows < node->n_devices) {
		r = append(object, "rows",
			   device_object(&summary->devices[rows]), &room);
		rows += r == 1;
	}
	r = r == 0 ? 1 : r;
	while (r == 1 && shares < node->n_shares) {
		r = append(object, "shares",
			   share_object(&summary->shares[shares]), &room);
		shares += r == 1;
	}
	if (r < 0 ||
	    gm_fields_set_number(object, "rows_more",
				 node->more_devices +
					 (node->n_devices - rows)) != 0 ||
	    gm_fields_set_number(object, "shares_more",
				 node->more_shares +
					 (node->n_shares - shares)) != 0)
		return -ENOMEM;
	return 0;
}

int gm_summary_encode(const struct gm_summary *summary,
		      char ret_value[GM_STORE_VALUE_BYTES])
{
	json_t *object = head_object(summary);
	char *text = NULL;
	int n = -ENOMEM;

	if (object != NULL && append_all(object, summary) == 0)
		text = gm_wide_dump(object);
	if (text != NULL) {
		n = (int)strlen(text);
		memcpy(ret_value, text, (size_t)n);
	}
	free(text);
	json_decref(object);
	return n;
}

/* ---- reading ------------------------------------------------------------- */

static bool get_bool(struct gm_fields *f, const char *key)
{
	if (!gm_json_field_given(f, key))
		gm_json_field_refuse(f, key, "is missing");
	return gm_json_field_bool_or(f, key, false);
}

/* The place of a word in a list of such. */
static uint32_t get_word(struct gm_fields *f, const char *key,
			 const char *const *words, size_t n)
{
	const char *text = gm_json_field_text(f, key);

	for (uint32_t i = 0; text != NULL && i < n; i++)
		if (words[i] != NULL && strcmp(words[i], text) == 0)
			return i;
	gm_json_field_refuse(f, key, "is no word that is known here");
	return 0;
}

/* A name that a driver gives may have blanks in it.  The agent knows no other
 * names, and takes either all nodes or none. */
static bool is_plain(const char *text)
{
	uint32_t point, n;

	if (text[0] == '\0' || strlen(text) > GPUMAP_NAME_MAX)
		return false;
	for (; *text != '\0'; text += n) {
		n = gm_text_decode(text, &point);
		if (n == 0 || (point != ' ' && !gm_text_is_fit(point)))
			return false;
	}
	return true;
}

static void get_cc(struct gm_fields *f, struct gpumap_cluster_device *device)
{
	const char *text = gm_json_field_text_or(f, "cc", NULL);
	char again[24];

	if (text == NULL)
		return;
	if (sscanf(text, "%3u.%3u", &device->cc_major, &device->cc_minor) == 2)
		snprintf(again, sizeof(again), "%u.%u", device->cc_major,
			 device->cc_minor);
	else
		again[0] = '\0';
	if (device->cc_major == 0 || strcmp(text, again) != 0)
		gm_json_field_refuse(f, "cc", "is no MAJOR.MINOR");
}

static void get_device(struct gm_fields *f,
		       struct gpumap_cluster_device *device)
{
	const char *name = gm_json_field_text(f, "name");

	device->row = (uint32_t)gm_fields_number(f, "row", GPUMAP_ROWS_MAX - 1);
	gm_fields_hex(f, "uuid", device->uuid, sizeof(device->uuid));
	if (name != NULL && is_plain(name))
		memcpy(device->name, name, strlen(name));
	else
		gm_json_field_refuse(f, "name", "is no name of a device");
	device->kind = get_word(f, "kind", kinds, COUNT(kinds));
	device->state = get_word(f, "state", states, COUNT(states));
	device->flags = (uint32_t)gm_fields_number(f, "flags", UINT32_MAX);
	device->numa_node = gm_json_field_signed(f, "numa");
	if (device->numa_node < -1)
		gm_json_field_refuse(f, "numa", "is no node");
	get_cc(f, device);
	device->total_bytes = gm_fields_number(f, "total", UINT64_MAX);
	device->free_bytes = gm_fields_number(f, "free", device->total_bytes);
	device->reserved_bytes = gm_fields_number(f, "reserved", UINT64_MAX);
	device->used_by_holders =
		gm_fields_number(f, "used", device->reserved_bytes);
	device->links = (uint32_t)gm_fields_number(f, "links", UINT32_MAX);
}

static void get_share_rows(struct gm_fields *f, uint64_t *ret_rows)
{
	const json_t *list = gm_json_field_list(f, "rows");

	for (size_t i = 0; i < json_array_size(list); i++) {
		uint64_t row;

		if (!gm_wide_number(json_array_get(list, i), &row) ||
		    row >= GPUMAP_ROWS_MAX ||
		    has_bit(ret_rows, (uint32_t)row)) {
			gm_json_field_refuse(f, "rows",
					     "has one that is none, or twice");
			return;
		}
		ret_rows[row / 64] |= UINT64_C(1) << row % 64;
	}
}

static void get_share(struct gm_fields *f, struct gpumap_cluster_share *share)
{
	const char *name = gm_json_field_text(f, "name");
	char why[GM_WHY_BYTES];

	if (name != NULL && gm_name_check(name, why) != 0)
		gm_json_field_refuse(f, "name", "is no name of a share");
	if (f->r == 0)
		memcpy(share->name, name, strlen(name));
	share->bytes = gm_fields_number(f, "bytes", UINT64_MAX);
	share->uid = (uint32_t)gm_fields_number(f, "uid", UINT32_MAX);
	share->flags = (uint32_t)gm_fields_number(f, "flags", UINT32_MAX);
	if (gm_json_field_given(f, "hash"))
		gm_fields_hex(f, "hash", share->fingerprint,
			      sizeof(share->fingerprint));
	get_share_rows(f, share->rows);
}

static int get_devices(struct gm_fields *f, struct gm_summary *summary)
{
	const json_t *list = gm_fields_list(f, "rows", GPUMAP_CLUSTER_ROWS_MAX);
	size_t n = json_array_size(list);
	struct gpumap_cluster_device *of = calloc(n + 1, sizeof(*of));
	char name[32];

	summary->devices = of;
	if (of == NULL)
		return gm_error_no_memory(f->err);
	for (size_t i = 0; i < n && f->r == 0; i++) {
		struct gm_fields row = gm_fields_item(f, "rows", list, i, name);

		of[i].size = sizeof(of[i]);
		get_device(&row, &of[i]);
		for (size_t j = 0; j < i; j++)
			if (of[j].row == of[i].row ||
			    memcmp(of[j].uuid, of[i].uuid, 16) == 0)
				gm_json_field_refuse(&row, "row",
						     "is there twice");
		f->r = row.r;
	}
	summary->node.n_devices = (uint32_t)n;
	summary->node.more_devices =
		(uint32_t)gm_fields_number(f, "rows_more", GPUMAP_ROWS_MAX - n);
	return f->r;
}

static int get_shares(struct gm_fields *f, struct gm_summary *summary)
{
	const json_t *list =
		gm_fields_list(f, "shares", GPUMAP_CLUSTER_SHARES_MAX);
	size_t n = json_array_size(list);
	struct gpumap_cluster_share *of = calloc(n + 1, sizeof(*of));
	char name[32];

	summary->shares = of;
	if (of == NULL)
		return gm_error_no_memory(f->err);
	for (size_t i = 0; i < n && f->r == 0; i++) {
		struct gm_fields share =
			gm_fields_item(f, "shares", list, i, name);

		of[i].size = sizeof(of[i]);
		get_share(&share, &of[i]);
		for (size_t j = 0; j < i; j++)
			if (strcmp(of[j].name, of[i].name) == 0)
				gm_json_field_refuse(&share, "name",
						     "is there twice");
		f->r = share.r;
	}
	summary->node.n_shares = (uint32_t)n;
	summary->node.more_shares =
		(uint32_t)gm_fields_number(f, "shares_more", UINT32_MAX);
	return f->r;
}

static void get_node(struct gm_fields *f, const char *name,
		     struct gm_summary *summary)
{
	struct gpumap_cluster_node *node = &summary->node;
	const char *text = gm_json_field_text(f, "node");

	if (text != NULL &&
	    (strcmp(text, name) != 0 || !gm_node_name_check(text)))
		gm_json_field_refuse(f, "node", "is not that of its key");
	if (f->r == 0)
		memcpy(node->name, text, strlen(text));
	text = gm_json_field_text(f, "address");
	if (text != NULL && !gm_node_name_check_address(text))
		gm_json_field_refuse(f, "address",
				     "is no IP address and no host's name");
	if (f->r == 0)
		memcpy(node->address, text, strlen(text));
	gm_fields_id(f, "instance", GM_FIELDS_DIGITS, summary->instance,
		     sizeof(summary->instance));
	gm_fields_id(f, "boot", GM_FIELDS_DIGITS "-", summary->boot,
		     sizeof(summary->boot));
	node->size = sizeof(*node);
	node->state = GPUMAP_CLUSTER_LIVE;
	node->agent_version =
		(uint32_t)gm_fields_number(f, "version", UINT32_MAX);
	node->epoch = gm_fields_number(f, "epoch", UINT64_MAX);
	if (!get_bool(f, "gangs"))
		node->flags |= GPUMAP_CLUSTER_NO_GANGS;
	if (get_bool(f, "draining"))
		node->flags |= GPUMAP_CLUSTER_DRAINING;
}

static int decode(const json_t *object, const char *name,
		  struct gm_summary *summary, struct gm_plan_error *err)
{
	struct gm_fields f = { object, "", err, 0 };
	uint64_t format = gm_json_field_number(&f, "format");

	if (f.r == 0 && format != FORMAT)
		return gm_error_set(err, -EPROTO, NULL,
				    "its format is %llu, and this gpumap-sync "
				    "knows format %u: update the older of the "
				    "two nodes",
				    (unsigned long long)format, FORMAT);
	get_node(&f, name, summary);
	if (f.r == 0)
		f.r = get_devices(&f, summary);
	if (f.r == 0)
		f.r = get_shares(&f, summary);
	return f.r;
}

int gm_summary_decode(const void *value, size_t bytes, const char *name,
		      struct gm_summary *ret_summary,
		      char ret_why[GM_WHY_BYTES])
{
	struct gm_summary summary = { 0 };
	struct gm_plan_error err = { 0 };
	json_t *object;
	int r;

	if (bytes > GM_STORE_VALUE_BYTES)
		return gm_why(ret_why, -EPROTO, "it has more than %u bytes",
			      GM_STORE_VALUE_BYTES);
	object = gm_wide_load(value, bytes, &err);
	r = object != NULL ? decode(object, name, &summary, &err) : err.code;
	json_decref(object);
	if (r == 0) {
		*ret_summary = summary;
		return 0;
	}
	gm_summary_free(&summary);
	return gm_why(ret_why, r == -ENOMEM ? r : -EPROTO, "%s", err.text);
}

/* ---- comparing ----------------------------------------------------------- */

static bool has_moved(uint64_t old, uint64_t now, uint64_t total)
{
	return (old > now ? old - now : now - old) > total / 256;
}

static enum gm_summary_difference
compare_devices(const struct gpumap_cluster_device *old,
		const struct gpumap_cluster_device *now)
{
	struct gpumap_cluster_device facts = *old;

	facts.free_bytes = now->free_bytes;
	facts.used_by_holders = now->used_by_holders;
	facts.reserved_bytes = now->reserved_bytes;
	if (memcmp(&facts, now, sizeof(facts)) != 0 ||
	    has_moved(old->reserved_bytes, now->reserved_bytes,
		      now->total_bytes))
		return GM_SUMMARY_FACTS;
	return has_moved(old->free_bytes, now->free_bytes, now->total_bytes) ||
			       has_moved(old->used_by_holders,
					 now->used_by_holders, now->total_bytes)
		       ? GM_SUMMARY_FIGURES
		       : GM_SUMMARY_SAME;
}

enum gm_summary_difference gm_summary_compare(const struct gm_summary *old,
					      const struct gm_summary *now)
{
	const struct gpumap_cluster_node *a = &old->node, *b = &now->node;
	enum gm_summary_difference all = GM_SUMMARY_SAME;

	if (a->epoch != b->epoch || a->agent_version != b->agent_version ||
	    a->flags != b->flags || a->n_devices != b->n_devices ||
	    a->n_shares != b->n_shares || a->more_devices != b->more_devices ||
	    a->more_shares != b->more_shares || strcmp(a->name, b->name) != 0 ||
	    strcmp(a->address, b->address) != 0 ||
	    strcmp(old->instance, now->instance) != 0)
		return GM_SUMMARY_FACTS;
	/* No struct has a hole. */
	if (a->n_shares > 0 && memcmp(old->shares, now->shares,
				      a->n_shares * sizeof(*old->shares)) != 0)
		return GM_SUMMARY_FACTS;
	for (uint32_t i = 0; i < a->n_devices; i++) {
		enum gm_summary_difference one =
			compare_devices(&old->devices[i], &now->devices[i]);

		all = one > all ? one : all;
	}
	return all;
}
