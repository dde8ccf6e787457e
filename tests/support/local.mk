# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# tests/support: what tests share.  A suite is linked with libsupport.la, which
# has its main().  Headers without a source have a state that each test that
# includes them has for itself, or are compiled for host rows and for cards.
check_LTLIBRARIES += tests/libsupport.la
tests_libsupport_la_SOURCES = %reldir%/suite.c \
	%reldir%/tap.c %reldir%/tap.h \
	%reldir%/code_object.c %reldir%/code_object.h \
	%reldir%/dice.c %reldir%/dice.h \
	%reldir%/engine_rules.c %reldir%/engine_rules.h \
	%reldir%/segment.c %reldir%/segment.h \
	%reldir%/spirv_kernel.c %reldir%/spirv_kernel.h \
	%reldir%/segment_file.c %reldir%/segment_file.h \
	%reldir%/shm_names.c %reldir%/shm_names.h \
	%reldir%/huge_pages.c %reldir%/huge_pages.h \
	%reldir%/users.c %reldir%/users.h \
	%reldir%/peer/peer.c %reldir%/peer/peer.h \
	%reldir%/peer/peer_agent.c %reldir%/peer/peer_agent.h \
	%reldir%/peer/peer_state.c %reldir%/peer/peer_state.h \
	%reldir%/peer/peer_worker.c %reldir%/peer/peer_worker.h \
	%reldir%/slow_close.c %reldir%/slow_close.h
tests_libsupport_la_CPPFLAGS = -I$(srcdir)/tests/stubs $(AM_CPPFLAGS) \
	$(CUDA_CPPFLAGS)

EXTRA_DIST += \
	%reldir%/card_user.h \
	%reldir%/collective_nccl.h \
	%reldir%/ctl.h \
	%reldir%/ctl_cluster.h \
	%reldir%/ctl_model.h \
	%reldir%/credit_rig.h \
	%reldir%/cuda_abi.h \
	%reldir%/cuda_shown.h \
	%reldir%/cuda_symbols.h \
	%reldir%/layer_caches.h \
	%reldir%/worker/decode_arena.h \
	%reldir%/worker/gate.h \
	%reldir%/engine_table.h \
	%reldir%/fake_worker_process.h \
	%reldir%/fnv.h \
	%reldir%/gguf_file.h \
	%reldir%/kernel_agent.h \
	%reldir%/kill_points_client.h \
	%reldir%/admit_rig.h \
	%reldir%/ledger_rig.h \
	%reldir%/publish_map.h \
	%reldir%/library_dirs.h \
	%reldir%/worker/load_rig.h \
	%reldir%/nvml_abi.h \
	%reldir%/peer/peer_session.h \
	%reldir%/plan_agent.h \
	%reldir%/program_agent.h \
	%reldir%/program_kernels.h \
	%reldir%/ptx_case.h \
	%reldir%/worker/quantum_rig.h \
	%reldir%/reserve_clients.h \
	%reldir%/run.h \
	%reldir%/scatter_rig.h \
	%reldir%/worker/schedule_rig.h \
	%reldir%/scripted_probe.h \
	%reldir%/scripted_probe_agent.h \
	%reldir%/scripted_worker_agent.h \
	%reldir%/share_manager.h %reldir%/share_sessions.h \
	%reldir%/state_agent.h \
	%reldir%/state_files.h \
	%reldir%/state_objects.h \
	%reldir%/told_stories.h \
	%reldir%/story_rows.h \
	%reldir%/sysfs_tree.h \
	%reldir%/worker_process_rig.h \
	%reldir%/worker/worker_row.h

if AGENT
# A gpumapd of the test's own, and a client made by hand.
tests_libsupport_la_SOURCES += \
	%reldir%/agent.c %reldir%/agent.h \
	%reldir%/agent_segment.c %reldir%/agent_segment.h \
	%reldir%/worker/async_device.c %reldir%/worker/async_device.h \
	%reldir%/worker/async_rig.c %reldir%/worker/async_rig.h \
	%reldir%/collective.c %reldir%/collective.h \
	%reldir%/collective_buffers.c %reldir%/collective_buffers.h \
	%reldir%/combine_ref.c %reldir%/combine_ref.h \
	%reldir%/comm_ranks.c %reldir%/comm_ranks.h \
	%reldir%/cuda_agent.c %reldir%/cuda_agent.h \
	%reldir%/gpu_bench.c %reldir%/gpu_bench.h \
	%reldir%/gpu_cases.c %reldir%/gpu_cases.h \
	%reldir%/vulkan_layer.c %reldir%/vulkan_layer.h \
	%reldir%/gpu_memory_cases.c \
	%reldir%/cuda_session.c %reldir%/cuda_session.h \
	%reldir%/nodes/cluster_nodes.c %reldir%/nodes/cluster_nodes.h \
	%reldir%/damage.c %reldir%/damage.h \
	%reldir%/driver_copy.c %reldir%/driver_copy.h \
	%reldir%/fake_machine.c %reldir%/fake_machine.h \
	%reldir%/fuse.c %reldir%/fuse.h \
	%reldir%/hole_punch.c %reldir%/hole_punch.h \
	%reldir%/load_file.c %reldir%/load_file.h \
	%reldir%/mask_replicas.c %reldir%/mask_replicas.h \
	%reldir%/mesh_agent.c %reldir%/mesh_agent.h \
	%reldir%/operators/operators_case.c %reldir%/operators/operators_case.h \
	%reldir%/page_nodes.c %reldir%/page_nodes.h \
	%reldir%/probe_rig.c %reldir%/probe_rig.h \
	%reldir%/process.c %reldir%/process.h \
	%reldir%/worker/queue_client.c %reldir%/worker/queue_client.h \
	%reldir%/raw.c %reldir%/raw.h \
	%reldir%/shards.c %reldir%/shards.h \
	%reldir%/stand_in.c %reldir%/stand_in.h \
	%reldir%/story.c %reldir%/story.h \
	%reldir%/topology_entries.c %reldir%/topology_entries.h \
	%reldir%/unkillable_child.c %reldir%/unkillable_child.h \
	%reldir%/worker/worker_cuda.c %reldir%/worker/worker_cuda.h \
	%reldir%/worker/worker_row.c %reldir%/worker/worker_row.h

# The operators' definition in C, and a reader of PTX that holds the text to it.
check_LTLIBRARIES += tests/libptx.la
tests_libptx_la_SOURCES = \
	%reldir%/operators/operators_ref.c %reldir%/operators/operators_ref.h \
	%reldir%/ptx.c %reldir%/ptx.h \
	%reldir%/ptx_parse.c %reldir%/ptx_parse.h
tests_libptx_la_CFLAGS = $(AM_CFLAGS) -ffp-contract=off
tests_libptx_la_LIBADD =

# The example of the README; system/jobs/operations.c runs it.
check_PROGRAMS += %reldir%/readme_client
%canon_reldir%_readme_client_SOURCES = %reldir%/readme_client.c
%canon_reldir%_readme_client_LDADD = lib/libgpumap.la

# The loop that gpumap(3) shows; system/ctl/wait.c runs it.
check_PROGRAMS += %reldir%/restart_client
%canon_reldir%_restart_client_SOURCES = %reldir%/restart_client.c
%canon_reldir%_restart_client_LDADD = lib/libgpumap.la

# A probe and a worker that do as a test tells them.
check_PROGRAMS += %reldir%/scripted_probe %reldir%/scripted_worker
%canon_reldir%_scripted_probe_SOURCES = %reldir%/scripted_probe.c
%canon_reldir%_scripted_probe_LDADD =
%canon_reldir%_scripted_worker_SOURCES = %reldir%/scripted_worker.c \
	%reldir%/scripted_worker.h

# Modules that tests have opened for them.
gm_module_flags = $(AM_LDFLAGS) -module -avoid-version -rpath /nowhere

# The operators, as the stand-in for a driver runs them, and from the text that
# code objects for AMD's cards are made of.
check_LTLIBRARIES += tests/operators_hip.la
tests_operators_hip_la_SOURCES = %reldir%/operators/operators_kernels.c \
	%reldir%/operators/operators_hip.c %reldir%/operators/operators_hip.h
tests_operators_hip_la_CPPFLAGS = $(AM_CPPFLAGS) -DOPERATORS_HIP
tests_operators_hip_la_CFLAGS = $(AM_CFLAGS) -ffp-contract=off
tests_operators_hip_la_LDFLAGS = $(gm_module_flags)
tests_operators_hip_la_LIBADD = $(tests_operators_kernels_la_LIBADD)

check_LTLIBRARIES += tests/operators_kernels.la
tests_operators_kernels_la_SOURCES = %reldir%/operators/operators_kernels.c
tests_operators_kernels_la_LDFLAGS = $(gm_module_flags)
tests_operators_kernels_la_LIBADD = tests/libptx.la agent/cuda/libcu.la \
	$(DL_LIBS) -lm

# Programs of an administrator, good and bad.
check_LTLIBRARIES += tests/program_dies.la tests/program_lacks.la tests/program_none.la \
	tests/program_odd.la tests/program_old.la tests/program_square.la \
	tests/program_unlike.la
tests_program_dies_la_SOURCES = %reldir%/programs/dies.c
tests_program_dies_la_LDFLAGS = $(gm_module_flags)
tests_program_dies_la_LIBADD =
tests_program_lacks_la_SOURCES = %reldir%/programs/lacks.c
tests_program_lacks_la_LDFLAGS = $(gm_module_flags)
tests_program_lacks_la_LIBADD =
tests_program_none_la_SOURCES = %reldir%/programs/none.c
tests_program_none_la_LDFLAGS = $(gm_module_flags)
tests_program_none_la_LIBADD =
tests_program_odd_la_SOURCES = %reldir%/programs/odd.c %reldir%/programs/odd.h
tests_program_odd_la_LDFLAGS = $(gm_module_flags)
tests_program_odd_la_LIBADD =
tests_program_old_la_SOURCES = %reldir%/programs/old.c
tests_program_old_la_LDFLAGS = $(gm_module_flags)
tests_program_old_la_LIBADD =
tests_program_square_la_SOURCES = %reldir%/programs/square.c
tests_program_square_la_LDFLAGS = $(gm_module_flags)
tests_program_square_la_LIBADD = -lm
tests_program_unlike_la_SOURCES = %reldir%/programs/unlike.c
tests_program_unlike_la_LDFLAGS = $(gm_module_flags)
tests_program_unlike_la_LIBADD =

# Drivers and NVMLs with names alone, for tests of who finds them.
check_LTLIBRARIES += tests/tiny/driver.la tests/tiny/driver_old.la \
	tests/tiny/driver_else.la tests/tiny/nvml.la tests/tiny/nvml_bare.la
tests_tiny_driver_la_SOURCES = %reldir%/tiny/driver.c %reldir%/tiny/driver.h
tests_tiny_driver_la_LDFLAGS = $(gm_module_flags)
tests_tiny_driver_la_LIBADD =
tests_tiny_driver_old_la_SOURCES = %reldir%/tiny/driver.c %reldir%/tiny/driver.h
tests_tiny_driver_old_la_CPPFLAGS = $(AM_CPPFLAGS) -DTINY_OLD
tests_tiny_driver_old_la_LDFLAGS = $(gm_module_flags)
tests_tiny_driver_old_la_LIBADD =
tests_tiny_driver_else_la_SOURCES = %reldir%/tiny/driver.c %reldir%/tiny/driver.h
tests_tiny_driver_else_la_CPPFLAGS = $(AM_CPPFLAGS) -DTINY_ELSE
tests_tiny_driver_else_la_LDFLAGS = $(gm_module_flags)
tests_tiny_driver_else_la_LIBADD =
tests_tiny_nvml_la_SOURCES = %reldir%/tiny/nvml.c
tests_tiny_nvml_la_LDFLAGS = $(gm_module_flags)
tests_tiny_nvml_la_LIBADD =
tests_tiny_nvml_bare_la_SOURCES = %reldir%/tiny/nvml.c
tests_tiny_nvml_bare_la_CPPFLAGS = $(AM_CPPFLAGS) -DTINY_BARE
tests_tiny_nvml_bare_la_LDFLAGS = $(gm_module_flags)
tests_tiny_nvml_bare_la_LIBADD =
endif
