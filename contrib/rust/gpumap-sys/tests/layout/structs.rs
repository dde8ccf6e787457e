// SPDX-FileCopyrightText: 2026 The gpumap authors
// SPDX-License-Identifier: MIT

// Made by contrib/rust/bindings from include/gpumap: run it again
// when a header changes.

structs! {
gpumap_session_opts { size, depth, flags, arena_bytes, }
gpumap_session_info { id, pid, uid, n_queues, depth, arena_bytes, age_ns, rows, load_bytes, load_total_bytes, }
gpumap_usage { size, session, pid, uid, row, importers, bytes, lent_bytes, borrowed_bytes, }
gpumap_session_counts { size, submitted, completed, doorbells, parks, }
gpumap_buffer_info { size, bytes, row, kind, flags, reserved, }
gpumap_program_image { size, image, bytes, kernel, }
gpumap_export_info { size, bytes, row, reserved, }
gpumap_cluster { size, name, node, version, published_ns, age_ns, limit_ns, stale, n_nodes, n_gone, n_refused, n_devices, n_shares, }
gpumap_cluster_node { size, version, name, address, state, flags, age_ns, epoch, agent_version, n_devices, n_shares, more_devices, more_shares, index, }
gpumap_cluster_device { size, version, node, row, uuid, name, kind, state, flags, numa_node, cc_major, cc_minor, total_bytes, free_bytes, reserved_bytes, used_by_holders, links, reserved, }
gpumap_cluster_share { size, version, node, uid, flags, reserved, name, bytes, rows, fingerprint, }
gpumap_cluster_entry { node, devices, shares, n_devices, n_shares, remove, reserved, }
gpumap_cluster_request { size, name, node, limit_ns, entries, n_entries, flags, }
gpumap_time { row, reserved, value, }
gpumap_job { op, dtype, dst, src, n, alpha, pattern, cookie, dst_buffer, src_buffer, dst_at, src_at, deadline_ns, waits, n_waits, to, mask_n, mask_first, mask, mask_buffer, mask_at, program, src_item_bytes, dst_item_bytes, params, params_bytes, reserved, spare, }
gpumap_done { cookie, row, status, spare, }
gpumap_tile { row, status, first, n, value, spare, }
gpumap_scatter_opts { size, rows, weights, n_rows, flags, deadline_ns, dst_buffers, src_buffers, ret_combined, }
gpumap_comm_opts { size, flags, reserved, }
gpumap_rank { send, recv, send_buffer, recv_buffer, send_at, recv_at, spare, }
gpumap_collective { size, op, dtype, reduce, root, peer, n_waits, n, ranks, waits, deadline_ns, cookie, }
gpumap_attach_opts { size, instance, runtime_dir, flags, }
gpumap_health { size, state, stale, age_ns, epoch, tick, generation, agent_pid, bytes, agent_version, layout_minor, }
gpumap_device { size, row, generation, kind, known, flags, numa_node, uuid, name, cpus, pci_domain, pci_bus, nvml_index, minor_number, ordinal_pci, ordinal_fastest, mig_gi, mig_ci, mig_profile, cc_major, cc_minor, units, threads_per_unit, shared_bytes, l2_bytes, total_bytes, driver_version, cuda_version, state, error, reason, since_ns, free_bytes, reserved_bytes, budget_bytes, score, utilisation, temperature, power, worker_pid, restarts, recovery, last_xid, reserved, xids, used_by_holders, figures, reserved_too, }
gpumap_device_path { size, to, from, nvlinks, peer, }
gpumap_device_jobs { size, row, generation, ended, failed, ns, times, loaded_bytes, }
gpumap_choice { size, prefer, compute_capability, cuda_version, total_bytes, free_bytes, rows, n_rows, by, }
gpumap_engine_request { size, engine, flags, model, file_name, rows, layer_bytes, n_layers, base_row, devices, n_devices, reserved, }
gpumap_engine_settings { exact, n_argv, n_env, n_notes, argv, env, notes, file, rows, n_rows, reserved, }
gpumap_policy { size, row, generation, calibrated_ns, least, }
gpumap_policy_view { least, row, reserved, spare, }
gpumap_view { entries, check, expect, n, table, name, group, spare, }
gpumap_mask_view { data, export_id, at, bytes, version, shape, strides, kind, dtype, rank, row, spare, }
gpumap_mask { check, expect, views, n_rows, reserved, spare, }
gpumap_layers { size, name, version, published_ns, owner_uid, setting, n_layers, n_rows, base_row, dtype, layer_bytes, other_bytes, spec, flags, strategy, compute_dtype, max_batch_size, max_seq_len, }
gpumap_layer_cache { n_layers, n_heads, window, reserved, token_elements, conv_elements, state_elements, }
gpumap_charge { row, n_layers, weight_bytes, kv_bytes, activation_bytes, reserve_bytes, left_bytes, spare, }
gpumap_mask_request { size, name, kind, form, dtype, tgt_len, past_kv_len, sliding_window, chunk_size, rank, shape, data, map, rows, n_rows, }
gpumap_mask_result { size, version, bytes, n_copies, n_shared, }
gpumap_mask_info { size, name, version, published_ns, owner_uid, kind, form, dtype, rank, n_rows, shape, strides, bytes, hash, tgt_len, past_kv_len, sliding_window, chunk_size, map, }
gpumap_mesh { size, name, version, published_ns, owner_uid, topology, world, expected, tp, pp, dp, n_groups, n_added, reserved, }
gpumap_mesh_group { size, name, version, epoch, backend, n, index, within, whole, reserved, }
gpumap_mesh_place { tp, pp, dp, }
gpumap_mesh_stats { size, world, n_groups, total_bytes, units, n_cards, n_host, n_dummy, n_ready, }
gpumap_mesh_added { name, ranks, n, backend, spare, }
gpumap_mesh_request { size, name, topology, n_rows, tp, pp, dp, rows, added, n_added, reserved, }
gpumap_mesh_join { size, mesh, group, epoch, deadline_ns, rank, version, id, }
gpumap_fingerprint { size, hash, fields, }
gpumap_share_request { size, name, buffers, n_buffers, flags, about, about_bytes, uids, n_uids, reserved, fingerprint, }
gpumap_share_info { size, share, name, uid, flags, n_buffers, n_holders, bytes, about_bytes, about, age_ns, pid, reserved, rows, fingerprint, }
gpumap_model_opts { size, path, layers, rows, n_rows, flags, name, uids, n_uids, share_flags, fingerprint, }
gpumap_model_progress { size, state, status, bytes, total_bytes, elapsed_ns, bytes_per_second, left_ns, n_tensors, n_buffers, was_there, reserved, share, }
gpumap_tensor { size, name, type_, dtype, n_dims, shape, row, layer, buffer, at, bytes, data, part, reserved, }
gpumap_model_meta { size, format, reserved, data, bytes, }
gpumap_model_sizes { n_layers, n_files, n_tensors, layer_bytes, other_bytes, tied_bytes, total_bytes, type_, dtype, n_heads, caches, n_caches, n_extra_layers, architecture, conv_taps, state_bytes, }
gpumap_model_buffer { buffer, bytes, row, reserved, spare, }
gpumap_plan_request { size, name, flags, setting, strategy, base_row, text, weights, rows, n_rows, n_layers, layer_bytes, other_bytes, tied_bytes, dtype, n_heads, caches, n_caches, compute_dtype, max_seq_len, max_batch_size, paged, paged_amount, paged_share, paged_block, paged_element_bytes, owner_uid, wait_ns, start_ns, engine, conv_taps, state_bytes, reserved, }
gpumap_plan { size, n_layers, n_charges, base_row, compute_dtype, kv_bytes, version, missing_bytes, missing_row, reserved, spec, warnings, }
gpumap_layers_request { size, name, spec, n_layers, dtype, layer_bytes, other_bytes, }
gpumap_program_tile { size, row, dtype, n, dst, src, dst_item_bytes, src_item_bytes, params, params_bytes, }
gpumap_program { abi, reserved, run, }
gpumap_holder { size, name, version, since_ns, uid, pid, start_ns, }
gpumap_reservation { size, name, version, row, uid, pid, reserved, bytes, own_bytes, session_bytes, }
gpumap_wait_info { size, name, uid, pid, flags, n_rows, rows, missing_bytes, missing_row, n_before, bytes, age_ns, left_ns, }
gpumap_trace_job { session, read_ns, started_ns, ended_ns, n, row, uid, status, op, dtype, reserved, }
}
