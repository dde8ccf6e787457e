/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * layout: prints every size and offset that processes agree on, and compares
 * with tests/abi/layout.golden.  A difference is a decision: raise a version in
 * shm/layout.h or shm/control.h, and copy this program's output over the file.
 */

#include <stdlib.h>

#include "agent/common/wire.h"
#include "include/gpumap/view.h"
#include "shm/control_cluster.h"
#include "shm/journal.h"
#include "shm/layout.h"
#include "shm/queue.h"
#include "shm/trace.h"
#include "tests/support/tap.h"

#define LINE_BYTES 128
#define LINES      256

static char lines[LINES][LINE_BYTES];
static int n_lines;

static void line(const char *what, size_t value)
{
	if (n_lines < LINES)
		snprintf(lines[n_lines++], LINE_BYTES, "%-44s %zu", what,
			 value);
}

#define SIZE(type)      line("sizeof " #type, sizeof(struct type))
#define AT(type, field) line(#type "." #field, offsetof(struct type, field))
#define VALUE(name)     line(#name, name)

static void map_segment(void)
{
	VALUE(GM_LAYOUT_MAJOR);
	VALUE(GM_LAYOUT_MINOR);
	VALUE(GM_ROWS_AT);
	VALUE(GM_OBJECTS_AT);
	VALUE(GM_HOLDERS_AT);
	VALUE(GM_HEAP_AT);
	SIZE(gm_header);
	AT(gm_header, magic);
	AT(gm_header, major);
	AT(gm_header, minor);
	AT(gm_header, byte_order);
	AT(gm_header, state);
	AT(gm_header, size);
	AT(gm_header, layout);
	AT(gm_header, boot_id);
	AT(gm_header, agent_start);
	AT(gm_header, epoch);
	AT(gm_header, agent_pid);
	AT(gm_header, n_rows);
	AT(gm_header, rows_at);
	AT(gm_header, n_objects);
	AT(gm_header, n_holders);
	AT(gm_header, objects_at);
	AT(gm_header, holders_at);
	AT(gm_header, heap_at);
	AT(gm_header, heap_bytes);
	AT(gm_header, generation);
	AT(gm_header, rows_used);
	AT(gm_header, heartbeat);
	AT(gm_header, tick);
	AT(gm_header, rotor);
	SIZE(gm_row);
	AT(gm_row, facts);
	AT(gm_row, version);
	AT(gm_row, least);
	AT(gm_row, calibrated);
	AT(gm_row, moving);
	AT(gm_row, jobs);
	AT(gm_row, job_times);
	AT(gm_row, paths);
	AT(gm_row, loaded_bytes);
	SIZE(gm_object_slot);
	AT(gm_object_slot, key);
	SIZE(gm_holder);
}

static void images(void)
{
	SIZE(gm_object_image);
	AT(gm_object_image, bytes);
	AT(gm_object_image, version);
	AT(gm_object_image, published);
	AT(gm_object_image, owner_uid);
	AT(gm_object_image, flags);
	AT(gm_object_image, name);
	AT(gm_object_image, image_bytes);
	AT(gm_header, agent_version);
	SIZE(gm_row_image);
	AT(gm_row_image, uuid);
	AT(gm_row_image, kind);
	AT(gm_row_image, numa_node);
	AT(gm_row_image, mig_ci);
	AT(gm_row_image, units);
	AT(gm_row_image, total_bytes);
	AT(gm_row_image, cpus);
	AT(gm_row_image, mig_profile);
	AT(gm_row_image, recovery);
	AT(gm_row_image, last_xid);
	AT(gm_row_image, xids);
	SIZE(gm_moving_image);
	AT(gm_moving_image, free_bytes);
	AT(gm_moving_image, score);
	AT(gm_moving_image, worker_pid);
	AT(gm_moving_image, since);
	AT(gm_moving_image, reason);
	AT(gm_moving_image, used_by_holders);
	AT(gm_moving_image, figures);
	SIZE(gm_layers_image);
	AT(gm_layers_image, n_layers);
	AT(gm_layers_image, base);
	AT(gm_layers_image, weight_bytes);
	AT(gm_layers_image, rows_at);
	AT(gm_layers_image, spec_at);
	AT(gm_layers_image, max_seq_len);
	AT(gm_layers_image, max_batch_size);
	AT(gm_layers_image, strategy);
	AT(gm_layers_image, compute_dtype);
}

static void images_of_meshes_and_masks(void)
{
	SIZE(gm_mesh_image);
	AT(gm_mesh_image, topology);
	AT(gm_mesh_image, world);
	AT(gm_mesh_image, tp);
	AT(gm_mesh_image, n_groups);
	AT(gm_mesh_image, n_added);
	AT(gm_mesh_image, groups_at);
	SIZE(gm_group_image);
	AT(gm_group_image, name);
	AT(gm_group_image, backend);
	AT(gm_group_image, n);
	AT(gm_group_image, ranks_at);
	AT(gm_group_image, rows_at);
	AT(gm_group_image, epoch);
	SIZE(gm_cluster_image);
	AT(gm_cluster_image, cluster);
	AT(gm_cluster_image, node);
	AT(gm_cluster_image, limit);
	AT(gm_cluster_image, heard);
	AT(gm_cluster_image, n_nodes);
	AT(gm_cluster_image, nodes_at);
	AT(gm_cluster_image, shares_at);
	SIZE(gm_cluster_node_image);
	AT(gm_cluster_node_image, address);
	AT(gm_cluster_node_image, state);
	AT(gm_cluster_node_image, since);
	AT(gm_cluster_node_image, n_devices);
	AT(gm_cluster_node_image, first_device);
	SIZE(gm_cluster_device_image);
	AT(gm_cluster_device_image, uuid);
	AT(gm_cluster_device_image, kind);
	AT(gm_cluster_device_image, total_bytes);
	AT(gm_cluster_device_image, links);
	SIZE(gm_cluster_share_image);
	AT(gm_cluster_share_image, name);
	AT(gm_cluster_share_image, bytes);
	AT(gm_cluster_share_image, fingerprint);
	SIZE(gm_charge_image);
	AT(gm_charge_image, weight_bytes);
	SIZE(gm_mask_image);
	AT(gm_mask_image, kind);
	AT(gm_mask_image, shape);
	AT(gm_mask_image, strides);
	AT(gm_mask_image, hash);
	AT(gm_mask_image, chunk_size);
	AT(gm_mask_image, n_replicas);
	AT(gm_mask_image, map);
	AT(gm_mask_image, homes);
	SIZE(gm_replica_image);
	AT(gm_replica_image, place);
	AT(gm_replica_image, at);
	SIZE(gm_node_header);
	AT(gm_node_header, node);
	AT(gm_node_header, made);
	SIZE(gm_holder_image);
	AT(gm_holder_image, unit);
	AT(gm_holder_image, start);
	AT(gm_holder_image, slot);
	AT(gm_holder_image, claim);
}

static void session_memory(void)
{
	SIZE(gm_client);
	AT(gm_client, parked);
	AT(gm_client, cpu);
	AT(gm_client, by_fd);
	AT(gm_client, wake);
	SIZE(gm_queue);
	AT(gm_queue, parked);
	AT(gm_queue, cpu);
	AT(gm_queue, incarnation);
	SIZE(gm_timeline);
	AT(gm_timeline, ended);
	AT(gm_timeline, cancel);
	line("queue bytes at depth 256", gm_queue_bytes(256));
	line("second queue at depth 256", gm_queue_at(1, 256));
	VALUE(GM_ENTRY_WORDS);
	VALUE(GM_ENTRY_MORE);
	VALUE(GM_OP_MORE);
	VALUE(GM_DONE_WORDS);
	VALUE(GM_TRACE_BYTES);
	SIZE(gm_trace);
	AT(gm_trace, written);
	SIZE(gm_trace_record);
	AT(gm_trace_record, ended_ns);
	AT(gm_trace_record, op);
	SIZE(gm_journal);
	SIZE(gm_journal_queue);
	AT(gm_journal_queue, next);
	AT(gm_journal_queue, word);
	SIZE(gm_group_page);
	AT(gm_group_page, spinning);
	AT(gm_group_page, awaited);
	SIZE(gm_awaited);
}

static void messages(void)
{
	VALUE(GM_CONTROL_VERSION);
	SIZE(gm_control);
	AT(gm_control, bytes);
	AT(gm_control, version);
	AT(gm_control, type);
	AT(gm_control, serial);
	AT(gm_control, status);
	AT(gm_control, body);
	SIZE(gm_refusal);
	SIZE(gm_hello);
	SIZE(gm_hello_reply);
	SIZE(gm_object_name);
	SIZE(gm_pin_reply);
	SIZE(gm_unpin);
	SIZE(gm_trace_ask);
	SIZE(gm_session_open);
	SIZE(gm_session_reply);
	SIZE(gm_queue_open);
	SIZE(gm_queue_reply);
	SIZE(gm_list_ask);
	SIZE(gm_list_reply);
	SIZE(gm_session_item);
	SIZE(gm_usage_item);
	SIZE(gm_wait_item);
	SIZE(gm_shares_item);
	SIZE(gm_loading);
	SIZE(gm_room);
	AT(gm_room, flags);
	AT(gm_room, wait_ns);
	SIZE(gm_room_reply);
	SIZE(gm_room_row);
	AT(gm_room_row, total_bytes);
	AT(gm_room_row, most_bytes);
	SIZE(gm_publish);
	AT(gm_publish, n_layers);
	AT(gm_publish, n_runs);
	AT(gm_publish, spec_bytes);
	AT(gm_publish, missing_bytes);
	AT(gm_publish, rows_given);
	SIZE(gm_plan_run);
	SIZE(gm_publish_reply);
	SIZE(gm_publish_refusal);
	SIZE(gm_reserve_ask);
	SIZE(gm_reserve_reply);
	SIZE(gm_reserved_row);
	SIZE(gm_reservation_item);
	AT(gm_reservation_item, version);
	AT(gm_reservation_item, own_bytes);
	SIZE(gpumap_charge);
	SIZE(gpumap_layer_cache);
	AT(gpumap_layer_cache, token_elements);
}

static void messages_about_objects(void)
{
	SIZE(gm_mask_publish);
	AT(gm_mask_publish, shape);
	AT(gm_mask_publish, n_rows);
	SIZE(gm_mask_publish_reply);
	SIZE(gm_mask_node);
	SIZE(gm_mesh_publish);
	AT(gm_mesh_publish, topology);
	AT(gm_mesh_publish, tp);
	AT(gm_mesh_publish, n_groups);
	SIZE(gm_mesh_publish_group);
	AT(gm_mesh_publish_group, n);
	SIZE(gm_mesh_publish_reply);
	SIZE(gm_cluster_publish);
	AT(gm_cluster_publish, limit_ns);
	AT(gm_cluster_publish, flags);
	SIZE(gpumap_view);
	AT(gpumap_view, check);
	AT(gpumap_view, expect);
	AT(gpumap_view, table);
	AT(gpumap_view, name);
	AT(gpumap_view, group);
	AT(gpumap_view, n);
	SIZE(gpumap_mask);
	AT(gpumap_mask, views);
	SIZE(gpumap_mask_view);
	AT(gpumap_mask_view, version);
	AT(gpumap_mask_view, kind);
}

static void the_golden_file_agrees(const char *path)
{
	char got[LINE_BYTES + 2];
	FILE *file = fopen(path, "re");
	int wrong = 0, i = 0;

	if (!OK(file != NULL))
		return;
	while (fgets(got, sizeof(got), file)) {
		got[strcspn(got, "\n")] = '\0';
		if (got[0] == '#')
			continue;
		if (i >= n_lines || strcmp(got, lines[i]) != 0) {
			NOTE("golden \"%s\", now \"%s\"", got,
			     i < n_lines ? lines[i] : "");
			wrong++;
		}
		i++;
	}
	fclose(file);
	EQ(i, n_lines);
	EQ(wrong, 0);
}

static void the_hash_is_the_golden_one(void)
{
	/* The map segment's own guard: it moves when a listed offset does. */
	OK(gm_layout_hash() == UINT64_C(0x7017f5cde55b4d45));
	OK(gm_object_key(1, "a") != gm_object_key(2, "a"));
	OK(gm_object_key(1, "a") != gm_object_key(1, "b"));
	OK(gm_object_key(1, "a") == gm_object_key(1, "a"));
}

TAP_CASE_ARGS(argc, argv)
{
	const char *top = getenv("abs_top_srcdir");
	char path[4096];

	map_segment();
	images();
	images_of_meshes_and_masks();
	session_memory();
	messages();
	messages_about_objects();
	if (argc > 1 && strcmp(argv[1], "--print") == 0) {
		printf("# SPDX-License-Identifier: CC0-1.0\n");
		for (int i = 0; i < n_lines; i++)
			puts(lines[i]);
		return 0;
	}
	OK(n_lines < LINES);
	the_hash_is_the_golden_one();
	snprintf(path, sizeof(path), "%s/tests/abi/layout.golden",
		 top ? top : ".");
	the_golden_file_agrees(path);
	return tap_done();
}
