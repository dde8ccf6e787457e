/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/reader/device_text.h"
#include "agent/top/top.h"

static json_t *known(const struct gpumap_device *d, uint32_t bit, int64_t value)
{
	return (d->known & bit) != 0 ? json_integer(value) : json_null();
}

static json_t *number_or_null(uint64_t number)
{
	return number != 0 ? json_integer((json_int_t)number) : json_null();
}

static json_t *rows_of(const uint64_t rows[GPUMAP_ROWS_MAX / 64])
{
	json_t *list = json_array();

	for (uint32_t row = 0; row < GPUMAP_ROWS_MAX; row++)
		if (gm_top_has_row(rows, row))
			json_array_append_new(list, json_integer(row));
	return list;
}

/* A list that the agent has not given is null. */
static json_t *if_known(json_t *list, int n)
{
	if (n >= 0)
		return list;
	json_decref(list);
	return json_null();
}

static void add_process(json_t *object, const struct gm_top_process *process)
{
	bool is_named = process->command[0] != '-' && process->pid != 0;

	json_object_set_new(object, "uid", json_integer(process->uid));
	json_object_set_new(object, "user", json_string(process->user));
	json_object_set_new(object, "pid", number_or_null(process->pid));
	json_object_set_new(object, "command",
			    is_named ? json_string(process->command)
				     : json_null());
}

static json_t *row_json(const struct gm_top_facts *f,
			const struct gm_top_row *row)
{
	const struct gpumap_device *d = &row->device;

	return json_pack(
		"{s:I, s:s, s:s, s:s, s:s, s:b, s:o, s:I, s:I, s:o, s:I, s:I, "
		"s:o, s:o, s:o, s:I, s:I, s:I, s:I}",
		"row", (json_int_t)d->row, "kind", gm_device_kind(d->kind),
		"name", d->name, "state", gm_device_state(d->state), "reason",
		d->reason, "cordoned",
		(int)((d->flags & GPUMAP_DEVICE_CORDONED) != 0), "numa_node",
		known(d, GPUMAP_KNOWN_NUMA, d->numa_node), "total_bytes",
		(json_int_t)d->total_bytes, "used_bytes", (json_int_t)row->used,
		"session_bytes",
		f->n_usages >= 0 ? json_integer((json_int_t)row->ours)
				 : json_null(),
		"promised_bytes", (json_int_t)row->promised, "free_bytes",
		(json_int_t)row->left, "utilisation",
		known(d, GPUMAP_KNOWN_UTILISATION, d->utilisation),
		"temperature",
		known(d, GPUMAP_KNOWN_TEMPERATURE, d->temperature), "power",
		known(d, GPUMAP_KNOWN_POWER, d->power), "worker_pid",
		(json_int_t)d->worker_pid, "restarts", (json_int_t)d->restarts,
		"jobs", (json_int_t)row->jobs, "jobs_failed",
		(json_int_t)row->failed);
}

static json_t *session_json(const struct gm_top_facts *f,
			    const struct gm_top_session *session)
{
	const struct gpumap_session_info *info = &session->info;
	json_t *has = json_array(), *object;

	for (int i = 0; i < f->n_usages; i++) {
		const struct gpumap_usage *u = &f->usages[i].info;

		if (u->session == info->id)
			json_array_append_new(
				has,
				json_pack("{s:I, s:I, s:I, s:I}", "row",
					  (json_int_t)u->row, "bytes",
					  (json_int_t)u->bytes, "lent_bytes",
					  (json_int_t)u->lent_bytes,
					  "borrowed_bytes",
					  (json_int_t)u->borrowed_bytes));
	}
	object = json_pack("{s:I, s:o, s:I, s:I, s:I, s:I, s:o}", "id",
			   (json_int_t)info->id, "rows", rows_of(info->rows),
			   "arena_bytes", (json_int_t)info->arena_bytes,
			   "age_ns", (json_int_t)info->age_ns, "load_bytes",
			   (json_int_t)info->load_bytes, "load_total_bytes",
			   (json_int_t)info->load_total_bytes, "usage", has);
	add_process(object, &session->process);
	return object;
}

static json_t *holder_json(const struct gm_top_holder *holder)
{
	const struct gpumap_holder *h = &holder->holder;
	json_t *rows = json_array(), *object;

	for (uint32_t i = 0; i < holder->n; i++) {
		const struct gpumap_charge *c = &holder->charges[i];

		json_array_append_new(
			rows,
			json_pack("{s:I, s:I}", "row", (json_int_t)c->row,
				  "bytes",
				  (json_int_t)(c->weight_bytes + c->kv_bytes +
					       c->activation_bytes +
					       c->reserve_bytes)));
	}
	object = json_pack("{s:s, s:I, s:I, s:o, s:o}", "name", h->name,
			   "since_ns", (json_int_t)h->since_ns, "bytes",
			   (json_int_t)holder->bytes, "rows", rows, "start_ns",
			   number_or_null(h->start_ns));
	add_process(object, &holder->process);
	return object;
}

static json_t *share_json(const struct gm_top_share *share)
{
	const struct gpumap_share_info *info = &share->info;
	json_t *object = json_pack(
		"{s:s, s:I, s:I, s:b, s:o, s:I}", "name", info->name, "bytes",
		(json_int_t)info->bytes, "holders", (json_int_t)info->n_holders,
		"kept", (int)((info->flags & GPUMAP_SHARE_KEEP) != 0), "rows",
		rows_of(info->rows), "age_ns", (json_int_t)info->age_ns);

	add_process(object, &share->process);
	return object;
}

static json_t *map_json(const struct gm_top_map *map)
{
	const struct gpumap_layers *l = &map->layers;

	return json_pack("{s:s, s:I, s:I, s:b, s:o, s:I, s:s}", "name", l->name,
			 "n_layers", (json_int_t)l->n_layers, "bytes",
			 (json_int_t)map->bytes, "committed",
			 (int)((l->flags & GPUMAP_LAYERS_COMMITTED) != 0),
			 "rows", rows_of(map->rows), "uid",
			 (json_int_t)l->owner_uid, "user", map->process.user);
}

static json_t *wait_json(const struct gm_top_facts *f, int i)
{
	const struct gpumap_wait_info *info = &f->waits[i].info;
	const struct gm_top_holder *holder;
	json_t *object;
	uint32_t before;

	holder = gm_top_facts_wait(f, i, &before);
	object = json_pack(
		"{s:s, s:o, s:o, s:I, s:I, s:b, s:o, s:o, s:I}", "name",
		info->name, "bytes", number_or_null(info->bytes), "rows",
		rows_of(info->rows), "age_ns", (json_int_t)info->age_ns,
		"left_ns", (json_int_t)info->left_ns, "for_start",
		(int)((info->flags & GPUMAP_WAIT_FOR_START) != 0),
		"missing_bytes", number_or_null(info->missing_bytes), "for",
		holder != NULL ? json_string(holder->holder.name) : json_null(),
		"before", (json_int_t)before);
	add_process(object, &f->waits[i].process);
	return object;
}

json_t *gm_top_facts_json(const struct gm_top_facts *f)
{
	json_t *rows = json_array(), *holders = json_array();
	json_t *maps = json_array(), *sessions = json_array();
	json_t *shares = json_array(), *waits = json_array();

	for (uint32_t i = 0; i < f->n_rows; i++)
		json_array_append_new(rows, row_json(f, &f->rows[i]));
	for (uint32_t i = 0; i < f->n_holders; i++)
		json_array_append_new(holders, holder_json(&f->holders[i]));
	for (uint32_t i = 0; i < f->n_maps; i++)
		json_array_append_new(maps, map_json(&f->maps[i]));
	for (int i = 0; i < f->n_sessions; i++)
		json_array_append_new(sessions,
				      session_json(f, &f->sessions[i]));
	for (int i = 0; i < f->n_shares; i++)
		json_array_append_new(shares, share_json(&f->shares[i]));
	for (int i = 0; i < f->n_waits; i++)
		json_array_append_new(waits, wait_json(f, i));
	return json_pack(
		"{s:s, s:b, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, "
		"s:o}",
		"instance", f->instance, "stale", (int)f->health.stale,
		"age_ns", (json_int_t)f->health.age_ns, "epoch",
		(json_int_t)f->health.epoch, "agent_pid",
		(json_int_t)f->health.agent_pid, "agent_version",
		(json_int_t)f->health.agent_version, "up_s",
		number_or_null(f->up_s), "rows", rows, "reservations", holders,
		"maps", maps, "sessions", if_known(sessions, f->n_sessions),
		"shares", if_known(shares, f->n_shares), "waits",
		if_known(waits, f->n_waits));
}
