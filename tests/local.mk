# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# tests: TAP programs and scripts, run by make check.
#
# A test of one module is two or three lines: its name in gm_tests, its
# _SOURCES, and an _LDADD where shm/libshm.la is not what it tests.  A name
# that is also in GM_TORTURE or GM_TSAN_TESTS runs there too.  What links or
# starts anything from agent/ stands inside "if AGENT".
LDADD = shm/libshm.la

gm_tests =
check_LTLIBRARIES =

gm_tests += %reldir%/test_point
%canon_reldir%_test_point_SOURCES = %reldir%/test_point.c %reldir%/tap.h

# The protocols of shm/.  Both ends of seq and ring run as threads too.
gm_tests += %reldir%/test_seq
%canon_reldir%_test_seq_SOURCES = %reldir%/test_seq.c %reldir%/tap.h
%canon_reldir%_test_seq_LDADD = shm/libshm.la -lpthread
GM_TSAN_TESTS += %reldir%/test_seq

gm_tests += %reldir%/test_ring
%canon_reldir%_test_ring_SOURCES = %reldir%/test_ring.c %reldir%/tap.h
%canon_reldir%_test_ring_LDADD = shm/libshm.la -lpthread
GM_TSAN_TESTS += %reldir%/test_ring

gm_tests += %reldir%/test_journal
%canon_reldir%_test_journal_SOURCES = %reldir%/test_journal.c %reldir%/tap.h

gm_tests += %reldir%/test_layout
%canon_reldir%_test_layout_SOURCES = %reldir%/test_layout.c %reldir%/tap.h
EXTRA_DIST += %reldir%/abi/layout.golden

gm_tests += %reldir%/test_map
%canon_reldir%_test_map_SOURCES = %reldir%/test_map.c %reldir%/segment.h \
	%reldir%/tap.h

gm_tests += %reldir%/torture_publish
%canon_reldir%_torture_publish_SOURCES = %reldir%/torture_publish.c \
	%reldir%/segment.h %reldir%/tap.h
GM_TORTURE += %reldir%/torture_publish

gm_tests += %reldir%/test_split
%canon_reldir%_test_split_SOURCES = %reldir%/test_split.c %reldir%/tap.h
%canon_reldir%_test_split_LDADD = shm/libshm.la -lm

# The library: from its archive, so that what it hides can be reached.
gm_client = lib/libclient.la shm/libshm.la

gm_tests += %reldir%/test_arena
%canon_reldir%_test_arena_SOURCES = %reldir%/test_arena.c %reldir%/tap.h
%canon_reldir%_test_arena_LDADD = $(gm_client)

gm_tests += %reldir%/test_attach
%canon_reldir%_test_attach_SOURCES = %reldir%/test_attach.c \
	%reldir%/segment_file.h %reldir%/segment.h %reldir%/tap.h
%canon_reldir%_test_attach_LDADD = $(gm_client) -lpthread
GM_TSAN_TESTS += %reldir%/test_attach

gm_tests += %reldir%/test_view
%canon_reldir%_test_view_SOURCES = %reldir%/test_view.c \
	%reldir%/segment_file.h %reldir%/segment.h %reldir%/tap.h
%canon_reldir%_test_view_LDADD = $(gm_client)

gm_tests += %reldir%/test_visible
%canon_reldir%_test_visible_SOURCES = %reldir%/test_visible.c %reldir%/tap.h
%canon_reldir%_test_visible_LDADD = $(gm_client)

gm_tests += %reldir%/test_exposed
%canon_reldir%_test_exposed_SOURCES = %reldir%/test_exposed.c \
	%reldir%/segment_file.h %reldir%/segment.h %reldir%/tap.h
%canon_reldir%_test_exposed_LDADD = $(gm_client)

gm_tests += %reldir%/test_strict
%canon_reldir%_test_strict_SOURCES = %reldir%/test_strict.c \
	%reldir%/segment_file.h %reldir%/segment.h %reldir%/tap.h
%canon_reldir%_test_strict_LDADD = $(gm_client)

# The peer is a thread, so TSan sees both ends.
gm_peer = %reldir%/client.h %reldir%/peer.h %reldir%/peer_agent.h \
	%reldir%/peer_state.h %reldir%/peer_worker.h

gm_tests += %reldir%/test_buffers
%canon_reldir%_test_buffers_SOURCES = %reldir%/test_buffers.c \
	$(gm_peer) %reldir%/segment_file.h %reldir%/segment.h %reldir%/tap.h
%canon_reldir%_test_buffers_LDADD = $(gm_client) -lpthread
GM_TSAN_TESTS += %reldir%/test_buffers

gm_tests += %reldir%/test_named
%canon_reldir%_test_named_SOURCES = %reldir%/test_named.c \
	$(gm_peer) %reldir%/segment_file.h %reldir%/segment.h %reldir%/tap.h
%canon_reldir%_test_named_LDADD = $(gm_client) -lpthread
GM_TSAN_TESTS += %reldir%/test_named

gm_tests += %reldir%/test_shared
%canon_reldir%_test_shared_SOURCES = %reldir%/test_shared.c \
	$(gm_peer) %reldir%/segment_file.h %reldir%/segment.h %reldir%/tap.h
%canon_reldir%_test_shared_LDADD = $(gm_client) -lpthread
GM_TSAN_TESTS += %reldir%/test_shared

gm_tests += %reldir%/test_client
%canon_reldir%_test_client_SOURCES = %reldir%/test_client.c \
	$(gm_peer) %reldir%/segment_file.h \
	%reldir%/segment.h %reldir%/tap.h
%canon_reldir%_test_client_LDADD = $(gm_client) -lpthread
GM_TSAN_TESTS += %reldir%/test_client

gm_tests += %reldir%/test_second
%canon_reldir%_test_second_SOURCES = %reldir%/test_second.c \
	$(gm_peer) %reldir%/segment_file.h \
	%reldir%/segment.h %reldir%/tap.h
%canon_reldir%_test_second_LDADD = $(gm_client) -lpthread
GM_TSAN_TESTS += %reldir%/test_second

gm_tests += %reldir%/test_reap
%canon_reldir%_test_reap_SOURCES = %reldir%/test_reap.c \
	$(gm_peer) %reldir%/segment_file.h \
	%reldir%/segment.h %reldir%/tap.h
%canon_reldir%_test_reap_LDADD = $(gm_client) -lpthread

gm_tests += %reldir%/test_packed
%canon_reldir%_test_packed_SOURCES = %reldir%/test_packed.c \
	$(gm_peer) %reldir%/segment_file.h \
	%reldir%/segment.h %reldir%/tap.h
%canon_reldir%_test_packed_LDADD = $(gm_client) -lpthread
gm_tests += %reldir%/test_huge
%canon_reldir%_test_huge_SOURCES = %reldir%/test_huge.c %reldir%/huge_pages.h \
	$(gm_peer) %reldir%/segment_file.h \
	%reldir%/segment.h %reldir%/tap.h
%canon_reldir%_test_huge_LDADD = $(gm_client) -lpthread
GM_TSAN_TESTS += %reldir%/test_huge

gm_tests += %reldir%/test_plan_client
%canon_reldir%_test_plan_client_SOURCES = %reldir%/test_plan_client.c \
	$(gm_peer) %reldir%/segment_file.h \
	%reldir%/segment.h %reldir%/tap.h
%canon_reldir%_test_plan_client_LDADD = $(gm_client) -lpthread
GM_TSAN_TESTS += %reldir%/test_plan_client

gm_tests += %reldir%/test_session
%canon_reldir%_test_session_SOURCES = %reldir%/test_session.c \
	$(gm_peer) %reldir%/segment_file.h \
	%reldir%/segment.h %reldir%/tap.h
%canon_reldir%_test_session_LDADD = $(gm_client) -lpthread
GM_TSAN_TESTS += %reldir%/test_session
gm_tests += %reldir%/test_comm_open
%canon_reldir%_test_comm_open_SOURCES = %reldir%/test_comm_open.c \
	$(gm_peer) %reldir%/segment_file.h \
	%reldir%/segment.h %reldir%/tap.h
%canon_reldir%_test_comm_open_LDADD = $(gm_client) -lpthread
GM_TSAN_TESTS += %reldir%/test_comm_open

if AGENT
gm_tests += %reldir%/test_parse
%canon_reldir%_test_parse_SOURCES = %reldir%/test_parse.c \
	agent/ctl/parse.c %reldir%/tap.h

gm_tests += %reldir%/test_spec
%canon_reldir%_test_spec_SOURCES = %reldir%/test_spec.c %reldir%/tap.h
%canon_reldir%_test_spec_LDADD = agent/plan/libplan.la

gm_tests += %reldir%/test_placement
%canon_reldir%_test_placement_SOURCES = %reldir%/test_placement.c \
	%reldir%/tap.h
%canon_reldir%_test_placement_LDADD = agent/plan/libplan.la

gm_tests += %reldir%/test_sizes
%canon_reldir%_test_sizes_SOURCES = %reldir%/test_sizes.c %reldir%/tap.h
%canon_reldir%_test_sizes_LDADD = agent/plan/libplan.la

gm_tests += %reldir%/test_fill
%canon_reldir%_test_fill_SOURCES = %reldir%/test_fill.c %reldir%/dice.h \
	%reldir%/tap.h
%canon_reldir%_test_fill_LDADD = agent/plan/libplan.la

gm_tests += %reldir%/test_balance
%canon_reldir%_test_balance_SOURCES = %reldir%/test_balance.c \
	%reldir%/dice.h %reldir%/tap.h
%canon_reldir%_test_balance_LDADD = agent/plan/libplan.la

gm_tests += %reldir%/test_topology
%canon_reldir%_test_topology_SOURCES = %reldir%/test_topology.c \
	%reldir%/dice.h %reldir%/tap.h
%canon_reldir%_test_topology_LDADD = agent/plan/libplan.la

gm_tests += %reldir%/test_nodefile
%canon_reldir%_test_nodefile_SOURCES = %reldir%/test_nodefile.c %reldir%/tap.h
%canon_reldir%_test_nodefile_LDADD = agent/plan/libplan.la

gm_tests += %reldir%/test_mapper
%canon_reldir%_test_mapper_SOURCES = %reldir%/test_mapper.c %reldir%/tap.h
%canon_reldir%_test_mapper_LDADD = agent/plan/libplan.la

gm_tests += %reldir%/test_batch
%canon_reldir%_test_batch_SOURCES = %reldir%/test_batch.c %reldir%/tap.h
%canon_reldir%_test_batch_LDADD = agent/plan/libplan.la \
	agent/mesh/libmesh.la shm/libshm.la

gm_tests += %reldir%/test_mesh
%canon_reldir%_test_mesh_SOURCES = %reldir%/test_mesh.c %reldir%/tap.h
%canon_reldir%_test_mesh_LDADD = agent/mesh/libmesh.la agent/plan/libplan.la

gm_tests += %reldir%/test_mask
%canon_reldir%_test_mask_SOURCES = %reldir%/test_mask.c %reldir%/tap.h
%canon_reldir%_test_mask_LDADD = agent/mask/libmask.la agent/plan/libplan.la

gm_tests += %reldir%/test_mask_batch
%canon_reldir%_test_mask_batch_SOURCES = %reldir%/test_mask_batch.c \
	%reldir%/tap.h
%canon_reldir%_test_mask_batch_LDADD = agent/mask/libmask.la \
	agent/plan/libplan.la agent/mesh/libmesh.la shm/libshm.la \
	$(JANSSON_LIBS)

gm_tests += %reldir%/test_npy
%canon_reldir%_test_npy_SOURCES = %reldir%/test_npy.c %reldir%/tap.h
%canon_reldir%_test_npy_LDADD = agent/mask/libmask.la agent/plan/libplan.la

gm_tests += %reldir%/test_mask_tensor
%canon_reldir%_test_mask_tensor_SOURCES = %reldir%/test_mask_tensor.c \
	%reldir%/tap.h
%canon_reldir%_test_mask_tensor_LDADD = agent/mask/libmask.la \
	agent/plan/libplan.la

gm_tests += %reldir%/test_picture
%canon_reldir%_test_picture_SOURCES = %reldir%/test_picture.c %reldir%/tap.h
%canon_reldir%_test_picture_LDADD = agent/mask/libmask.la agent/plan/libplan.la

gm_tests += %reldir%/test_pipeline
%canon_reldir%_test_pipeline_SOURCES = %reldir%/test_pipeline.c \
	%reldir%/dice.h %reldir%/tap.h
%canon_reldir%_test_pipeline_LDADD = agent/plan/libplan.la

gm_tests += %reldir%/test_model_config
%canon_reldir%_test_model_config_SOURCES = %reldir%/test_model_config.c \
	%reldir%/tap.h
%canon_reldir%_test_model_config_LDADD = agent/plan/libplan.la $(JANSSON_LIBS)

gm_tests += %reldir%/test_gguf
%canon_reldir%_test_gguf_SOURCES = %reldir%/test_gguf.c %reldir%/tap.h
%canon_reldir%_test_gguf_LDADD = agent/plan/libplan.la

gm_tests += %reldir%/test_auto
%canon_reldir%_test_auto_SOURCES = %reldir%/test_auto.c %reldir%/dice.h \
	%reldir%/tap.h
%canon_reldir%_test_auto_LDADD = agent/plan/libplan.la

gm_tests += %reldir%/test_plan
%canon_reldir%_test_plan_SOURCES = %reldir%/test_plan.c %reldir%/dice.h \
	%reldir%/tap.h
%canon_reldir%_test_plan_LDADD = agent/plan/libplan.la shm/libshm.la

gm_tests += %reldir%/test_plan_models
%canon_reldir%_test_plan_models_SOURCES = %reldir%/test_plan_models.c \
	%reldir%/tap.h
%canon_reldir%_test_plan_models_LDADD = agent/plan/libplan.la shm/libshm.la

gm_tests += %reldir%/test_strategies
%canon_reldir%_test_strategies_SOURCES = %reldir%/test_strategies.c \
	%reldir%/dice.h %reldir%/tap.h
%canon_reldir%_test_strategies_LDADD = agent/plan/libplan.la shm/libshm.la

gm_tests += %reldir%/test_closer
%canon_reldir%_test_closer_SOURCES = %reldir%/test_closer.c %reldir%/tap.h
%canon_reldir%_test_closer_LDADD = agent/common/libcommon.la $(NUMA_LIBS) \
	-lpthread

gm_tests += %reldir%/test_combine
%canon_reldir%_test_combine_SOURCES = %reldir%/test_combine.c \
	%reldir%/combine_ref.h %reldir%/dice.h \
	%reldir%/operators_ref.c %reldir%/operators_ref.h \
	%reldir%/operators_trial.h %reldir%/tap.h
%canon_reldir%_test_combine_LDADD = agent/comm/libcomm.la \
	agent/common/libcommon.la -lm
gm_tests += %reldir%/test_comm
%canon_reldir%_test_comm_SOURCES = %reldir%/test_comm.c %reldir%/comm_world.h \
	%reldir%/dice.h %reldir%/operators_ref.c %reldir%/operators_ref.h \
	%reldir%/operators_trial.h %reldir%/tap.h
%canon_reldir%_test_comm_LDADD = agent/comm/libcomm.la \
	agent/common/libcommon.la -lm -lpthread
GM_TSAN_TESTS += %reldir%/test_comm
gm_tests += %reldir%/test_comm_meet
%canon_reldir%_test_comm_meet_SOURCES = %reldir%/test_comm_meet.c \
	%reldir%/comm_world.h %reldir%/dice.h %reldir%/tap.h
%canon_reldir%_test_comm_meet_LDADD = agent/comm/libcomm.la \
	agent/common/libcommon.la -lm -lpthread
GM_TSAN_TESTS += %reldir%/test_comm_meet

gm_tests += %reldir%/test_host_reduce
%canon_reldir%_test_host_reduce_SOURCES = %reldir%/test_host_reduce.c \
	%reldir%/dice.h %reldir%/operators_ref.c %reldir%/operators_ref.h \
	%reldir%/operators_trial.h %reldir%/tap.h
%canon_reldir%_test_host_reduce_LDADD = agent/device/libdevice.la \
	agent/common/libcommon.la -lm
gm_tests += %reldir%/test_host_numbers
%canon_reldir%_test_host_numbers_SOURCES = %reldir%/test_host_numbers.c \
	%reldir%/dice.h %reldir%/operators_ref.c %reldir%/operators_ref.h \
	%reldir%/operators_trial.h %reldir%/tap.h
%canon_reldir%_test_host_numbers_LDADD = agent/device/libdevice.la \
	agent/common/libcommon.la -lm
gm_tests += %reldir%/test_host
%canon_reldir%_test_host_SOURCES = %reldir%/test_host.c %reldir%/tap.h
%canon_reldir%_test_host_LDADD = agent/device/libdevice.la \
	agent/common/libcommon.la $(NUMA_LIBS) -lm

gm_tests += %reldir%/test_thp
%canon_reldir%_test_thp_SOURCES = %reldir%/test_thp.c %reldir%/huge_pages.h \
	%reldir%/tap.h
%canon_reldir%_test_thp_LDADD = agent/device/libdevice.la \
	agent/common/libcommon.la $(NUMA_LIBS) -lm

# NVIDIA's libraries, as little of them as each test needs.
gm_cuda = agent/cuda/libcu.la $(DL_LIBS)
gm_tiny_flags = $(AM_LDFLAGS) -module -avoid-version -rpath /nowhere
check_LTLIBRARIES += %reldir%/tiny/driver.la %reldir%/tiny/driver_old.la \
	%reldir%/tiny/driver_else.la %reldir%/tiny/nvml.la \
	%reldir%/tiny/nvml_bare.la
%canon_reldir%_tiny_driver_la_SOURCES = %reldir%/tiny/driver.c \
	%reldir%/tiny/driver.h
%canon_reldir%_tiny_driver_la_LDFLAGS = $(gm_tiny_flags)
%canon_reldir%_tiny_driver_la_LIBADD =
%canon_reldir%_tiny_driver_old_la_SOURCES = %reldir%/tiny/driver.c
%canon_reldir%_tiny_driver_old_la_CPPFLAGS = $(AM_CPPFLAGS) -DTINY_OLD
%canon_reldir%_tiny_driver_old_la_LDFLAGS = $(gm_tiny_flags)
%canon_reldir%_tiny_driver_old_la_LIBADD =
%canon_reldir%_tiny_driver_else_la_SOURCES = %reldir%/tiny/driver.c
%canon_reldir%_tiny_driver_else_la_CPPFLAGS = $(AM_CPPFLAGS) -DTINY_ELSE
%canon_reldir%_tiny_driver_else_la_LDFLAGS = $(gm_tiny_flags)
%canon_reldir%_tiny_driver_else_la_LIBADD =
%canon_reldir%_tiny_nvml_la_SOURCES = %reldir%/tiny/nvml.c
%canon_reldir%_tiny_nvml_la_LDFLAGS = $(gm_tiny_flags)
%canon_reldir%_tiny_nvml_la_LIBADD =
%canon_reldir%_tiny_nvml_bare_la_SOURCES = %reldir%/tiny/nvml.c
%canon_reldir%_tiny_nvml_bare_la_CPPFLAGS = $(AM_CPPFLAGS) -DTINY_BARE
%canon_reldir%_tiny_nvml_bare_la_LDFLAGS = $(gm_tiny_flags)
%canon_reldir%_tiny_nvml_bare_la_LIBADD =

gm_tests += %reldir%/test_cuda_abi
%canon_reldir%_test_cuda_abi_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_test_cuda_abi_SOURCES = %reldir%/test_cuda_abi.c \
	%reldir%/tap.h
%canon_reldir%_test_cuda_abi_LDADD =

gm_tests += %reldir%/test_cuerror
%canon_reldir%_test_cuerror_SOURCES = %reldir%/test_cuerror.c %reldir%/tap.h
%canon_reldir%_test_cuerror_LDADD = $(gm_cuda)

gm_tests += %reldir%/test_driver
%canon_reldir%_test_driver_SOURCES = %reldir%/test_driver.c \
	%reldir%/shelf.h %reldir%/tap.h
%canon_reldir%_test_driver_LDADD = $(gm_cuda)

gm_tests += %reldir%/test_nvml
%canon_reldir%_test_nvml_SOURCES = %reldir%/test_nvml.c %reldir%/shelf.h \
	%reldir%/tap.h
%canon_reldir%_test_nvml_LDADD = $(gm_cuda)

gm_tests += %reldir%/test_operators
%canon_reldir%_test_operators_SOURCES = %reldir%/test_operators.c \
	%reldir%/tap.h
%canon_reldir%_test_operators_LDADD = $(gm_cuda)

# The operators' definition in C, and a reader of PTX that holds the text to it.
check_LTLIBRARIES += %reldir%/libptx.la
%canon_reldir%_libptx_la_SOURCES = %reldir%/operators_ref.c \
	%reldir%/operators_ref.h %reldir%/ptx.c %reldir%/ptx.h \
	%reldir%/ptx_parse.c %reldir%/ptx_parse.h
%canon_reldir%_libptx_la_CFLAGS = $(AM_CFLAGS) -ffp-contract=off
%canon_reldir%_libptx_la_LIBADD =
gm_tests += %reldir%/test_ptx
%canon_reldir%_test_ptx_SOURCES = %reldir%/test_ptx.c %reldir%/ptx_trial.h \
	%reldir%/dice.h %reldir%/operators_trial.h %reldir%/tap.h
%canon_reldir%_test_ptx_LDADD = %reldir%/libptx.la $(gm_cuda) -lm
gm_tests += %reldir%/test_ptx_lengths
%canon_reldir%_test_ptx_lengths_SOURCES = %reldir%/test_ptx_lengths.c \
	%reldir%/ptx_trial.h %reldir%/dice.h %reldir%/operators_trial.h \
	%reldir%/tap.h
%canon_reldir%_test_ptx_lengths_LDADD = %reldir%/libptx.la $(gm_cuda) -lm

gm_tests += %reldir%/contract_visible
%canon_reldir%_contract_visible_SOURCES = %reldir%/contract_visible.c \
	%reldir%/tap.h
%canon_reldir%_contract_visible_LDADD = $(gm_client) $(gm_cuda)

# The operators on a device, and what the stand-in runs for them.
gm_tests += %reldir%/contract_operators
%canon_reldir%_contract_operators_SOURCES = %reldir%/contract_operators.c \
	%reldir%/dice.h %reldir%/operators_trial.h %reldir%/tap.h
%canon_reldir%_contract_operators_LDADD = %reldir%/libptx.la $(gm_cuda) -lm
check_LTLIBRARIES += %reldir%/operators_kernels.la
%canon_reldir%_operators_kernels_la_SOURCES = %reldir%/operators_kernels.c
%canon_reldir%_operators_kernels_la_LDFLAGS = $(gm_tiny_flags)
%canon_reldir%_operators_kernels_la_LIBADD = %reldir%/libptx.la $(gm_cuda) -lm

# The backend of CUDA rows, on the stand-in or on a card.
gm_cuda_backend = agent/device/libdevice.la agent/common/libcommon.la \
	$(gm_cuda) $(NUMA_LIBS) -lpthread
gm_tests += %reldir%/test_cuda_backend
%canon_reldir%_test_cuda_backend_SOURCES = %reldir%/test_cuda_backend.c \
	%reldir%/cuda_backend.h %reldir%/dice.h %reldir%/tap.h
%canon_reldir%_test_cuda_backend_LDADD = $(gm_cuda_backend)
gm_tests += %reldir%/test_cuda_backend_memory
%canon_reldir%_test_cuda_backend_memory_SOURCES = \
	%reldir%/test_cuda_backend_memory.c \
	%reldir%/cuda_backend.h %reldir%/dice.h %reldir%/tap.h
%canon_reldir%_test_cuda_backend_memory_LDADD = $(gm_cuda_backend)
GM_TSAN_TESTS += %reldir%/test_cuda_backend %reldir%/test_cuda_backend_memory
gm_tests += %reldir%/test_cuda_backend_faults
%canon_reldir%_test_cuda_backend_faults_SOURCES = \
	%reldir%/test_cuda_backend_faults.c %reldir%/scene.h \
	%reldir%/cuda_backend.h %reldir%/dice.h %reldir%/tap.h
%canon_reldir%_test_cuda_backend_faults_LDADD = $(gm_cuda_backend) \
	tests/fake/libmachine.la
gm_tests += %reldir%/test_cuda_kernel
%canon_reldir%_test_cuda_kernel_SOURCES = \
	%reldir%/test_cuda_kernel.c %reldir%/scene.h %reldir%/program_kernels.h \
	%reldir%/cuda_backend.h %reldir%/dice.h %reldir%/tap.h
%canon_reldir%_test_cuda_kernel_LDADD = $(gm_cuda_backend) \
	tests/fake/libmachine.la

gm_tests += %reldir%/test_cuda_across
%canon_reldir%_test_cuda_across_SOURCES = %reldir%/test_cuda_across.c \
	%reldir%/scene.h %reldir%/cuda_backend.h %reldir%/dice.h \
	%reldir%/tap.h
%canon_reldir%_test_cuda_across_LDADD = $(gm_cuda_backend) \
	tests/fake/libmachine.la

gm_tests += %reldir%/test_cuda_clique
%canon_reldir%_test_cuda_clique_SOURCES = %reldir%/test_cuda_clique.c \
	%reldir%/scene.h %reldir%/cuda_backend.h %reldir%/dice.h \
	%reldir%/stubs/nccl.h %reldir%/tap.h
%canon_reldir%_test_cuda_clique_LDADD = $(gm_cuda_backend) \
	tests/fake/libmachine.la

gm_tests += %reldir%/test_safetensors
%canon_reldir%_test_safetensors_SOURCES = %reldir%/test_safetensors.c \
	%reldir%/tap.h
%canon_reldir%_test_safetensors_LDADD = agent/plan/libplan.la

gm_tests += %reldir%/test_checkpoint
%canon_reldir%_test_checkpoint_SOURCES = %reldir%/test_checkpoint.c \
	%reldir%/tap.h
%canon_reldir%_test_checkpoint_LDADD = agent/plan/libplan.la

gm_tests += %reldir%/test_idset
%canon_reldir%_test_idset_SOURCES = %reldir%/test_idset.c %reldir%/tap.h
%canon_reldir%_test_idset_LDADD = agent/common/libcommon.la

gm_tests += %reldir%/test_pin
%canon_reldir%_test_pin_SOURCES = %reldir%/test_pin.c %reldir%/tap.h
%canon_reldir%_test_pin_LDADD = agent/common/libcommon.la $(NUMA_LIBS) \
	$(SECCOMP_LIBS)

gm_daemon = agent/daemon/libdaemon.la agent/mesh/libmesh.la \
	agent/plan/libplan.la \
	agent/cuda/libcu.la agent/common/libcommon.la shm/libshm.la \
	$(NUMA_LIBS) $(URING_LIBS)

gm_tests += %reldir%/test_log
%canon_reldir%_test_log_SOURCES = %reldir%/test_log.c %reldir%/tap.h
%canon_reldir%_test_log_LDADD = agent/common/libcommon.la

gm_tests += %reldir%/test_heap
%canon_reldir%_test_heap_SOURCES = %reldir%/test_heap.c %reldir%/tap.h
%canon_reldir%_test_heap_LDADD = $(gm_daemon)

gm_tests += %reldir%/test_publish
%canon_reldir%_test_publish_SOURCES = %reldir%/test_publish.c %reldir%/tap.h
%canon_reldir%_test_publish_LDADD = $(gm_daemon)

gm_tests += %reldir%/test_ledger
%canon_reldir%_test_ledger_SOURCES = %reldir%/test_ledger.c \
	%reldir%/ledger_scene.h %reldir%/tap.h
%canon_reldir%_test_ledger_LDADD = $(gm_daemon)

gm_tests += %reldir%/test_ledger_room
%canon_reldir%_test_ledger_room_SOURCES = %reldir%/test_ledger_room.c \
	%reldir%/ledger_scene.h %reldir%/dice.h %reldir%/tap.h
%canon_reldir%_test_ledger_room_LDADD = $(gm_daemon)

# One row's processes, played by the tests.
gm_keeper_scene = %reldir%/keeper_hold.h %reldir%/keeper_play.h \
	%reldir%/keeper_scene.h %reldir%/tap.h
gm_tests += %reldir%/test_keeper %reldir%/test_keeper_barred %reldir%/test_drains
gm_tests += %reldir%/test_askers
%canon_reldir%_test_keeper_SOURCES = %reldir%/test_keeper.c $(gm_keeper_scene)
%canon_reldir%_test_keeper_LDADD = $(gm_daemon)
%canon_reldir%_test_askers_SOURCES = %reldir%/test_askers.c $(gm_keeper_scene)
%canon_reldir%_test_askers_LDADD = $(gm_daemon)
%canon_reldir%_test_keeper_barred_SOURCES = %reldir%/test_keeper_barred.c \
	$(gm_keeper_scene)
%canon_reldir%_test_keeper_barred_LDADD = $(gm_daemon)
%canon_reldir%_test_drains_SOURCES = %reldir%/test_drains.c $(gm_keeper_scene)
%canon_reldir%_test_drains_LDADD = $(gm_daemon)
%canon_reldir%_test_drains_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=calloc
gm_tests += %reldir%/test_given_fds
%canon_reldir%_test_given_fds_SOURCES = %reldir%/test_given_fds.c \
	%reldir%/lingering.h %reldir%/tap.h
%canon_reldir%_test_given_fds_LDADD = $(gm_daemon)
gm_tests += %reldir%/test_mask_quota
%canon_reldir%_test_mask_quota_SOURCES = %reldir%/test_mask_quota.c \
	$(gm_keeper_scene)
%canon_reldir%_test_mask_quota_LDADD = $(gm_daemon)

gm_tests += %reldir%/test_mask_staging
%canon_reldir%_test_mask_staging_SOURCES = %reldir%/test_mask_staging.c \
	%reldir%/tap.h
%canon_reldir%_test_mask_staging_LDADD = $(gm_daemon)

gm_tests += %reldir%/test_spawn
%canon_reldir%_test_spawn_SOURCES = %reldir%/test_spawn.c \
	%reldir%/keeper_hold.h %reldir%/tap.h
%canon_reldir%_test_spawn_LDADD = $(gm_daemon)

gm_tests += %reldir%/test_gutter
%canon_reldir%_test_gutter_SOURCES = %reldir%/test_gutter.c \
	%reldir%/lingering.h %reldir%/tap.h
%canon_reldir%_test_gutter_LDADD = $(gm_daemon) -lpthread
GM_TSAN_TESTS += %reldir%/test_gutter

gm_tests += %reldir%/test_identity
%canon_reldir%_test_identity_SOURCES = %reldir%/test_identity.c %reldir%/tap.h
%canon_reldir%_test_identity_LDADD = $(gm_daemon)

gm_tests += %reldir%/test_paths
%canon_reldir%_test_paths_SOURCES = %reldir%/test_paths.c %reldir%/tap.h
%canon_reldir%_test_paths_LDADD = $(gm_daemon)

gm_tests += %reldir%/test_config
%canon_reldir%_test_config_SOURCES = %reldir%/test_config.c %reldir%/tap.h
%canon_reldir%_test_config_LDADD = $(gm_daemon)

gm_tests += %reldir%/test_clerk
%canon_reldir%_test_clerk_SOURCES = %reldir%/test_clerk.c %reldir%/tap.h
%canon_reldir%_test_clerk_LDADD = $(gm_daemon) -lpthread
GM_TSAN_TESTS += %reldir%/test_clerk

gm_tests += %reldir%/test_changes
%canon_reldir%_test_changes_SOURCES = %reldir%/test_changes.c %reldir%/tap.h
%canon_reldir%_test_changes_LDADD = $(gm_daemon) -lpthread
GM_TSAN_TESTS += %reldir%/test_changes

gm_tests += %reldir%/test_state_dir
%canon_reldir%_test_state_dir_SOURCES = %reldir%/test_state_dir.c %reldir%/tap.h
%canon_reldir%_test_state_dir_LDADD = $(gm_daemon) $(SECCOMP_LIBS)

gm_tests += %reldir%/test_state_text
%canon_reldir%_test_state_text_SOURCES = %reldir%/test_state_text.c \
	%reldir%/dice.h %reldir%/tap.h
%canon_reldir%_test_state_text_LDADD = $(gm_daemon)

# A gpumapd of the test's own, for every story that needs one.
check_LTLIBRARIES += %reldir%/libagent.la
%canon_reldir%_libagent_la_SOURCES = %reldir%/agent.c %reldir%/agent.h \
	%reldir%/process.h
GM_BENCH += %reldir%/bench/bench_lookup
check_PROGRAMS += %reldir%/bench/bench_lookup
%canon_reldir%_bench_bench_lookup_CPPFLAGS = $(AM_CPPFLAGS) \
	-I$(srcdir)/%reldir%
%canon_reldir%_bench_bench_lookup_SOURCES = %reldir%/bench/bench_lookup.c
%canon_reldir%_bench_bench_lookup_LDADD = agent/bench/libbench.la \
	lib/libgpumap.la shm/libshm.la

GM_BENCH += %reldir%/bench/bench_collective
check_PROGRAMS += %reldir%/bench/bench_collective
EXTRA_DIST += %reldir%/bench/mpi_all_reduce.c
%canon_reldir%_bench_bench_collective_CPPFLAGS = $(AM_CPPFLAGS) \
	-I$(srcdir)/%reldir%
%canon_reldir%_bench_bench_collective_SOURCES = \
	%reldir%/bench/bench_collective.c %reldir%/collective.h \
	%reldir%/operators_ref.c
%canon_reldir%_bench_bench_collective_LDADD = agent/bench/libbench.la \
	%reldir%/libagent.la lib/libgpumap.la agent/cuda/libcu.la \
	$(JANSSON_LIBS) -lm
GM_BENCH += %reldir%/bench/bench_masks
check_PROGRAMS += %reldir%/bench/bench_masks
%canon_reldir%_bench_bench_masks_CPPFLAGS = $(AM_CPPFLAGS) \
	-I$(srcdir)/%reldir%
%canon_reldir%_bench_bench_masks_SOURCES = %reldir%/bench/bench_masks.c \
	%reldir%/agent.h %reldir%/story.h
%canon_reldir%_bench_bench_masks_LDADD = agent/bench/libbench.la \
	%reldir%/libagent.la lib/libgpumap.la shm/libshm.la

gm_tests += %reldir%/agent_segment
%canon_reldir%_agent_segment_SOURCES = %reldir%/agent_segment.c \
	%reldir%/agent_map.h %reldir%/tap.h
%canon_reldir%_agent_segment_LDADD = %reldir%/libagent.la shm/libshm.la

gm_tests += %reldir%/agent_client
%canon_reldir%_agent_client_SOURCES = %reldir%/agent_client.c %reldir%/tap.h
%canon_reldir%_agent_client_LDADD = %reldir%/libagent.la lib/libgpumap.la

# As the README shows it; agent_client runs it.
check_PROGRAMS += %reldir%/readme_client
%canon_reldir%_readme_client_SOURCES = %reldir%/readme_client.c
%canon_reldir%_readme_client_LDADD = lib/libgpumap.la

# gpumapctl as its users call it.
gm_tests += %reldir%/agent_ctl %reldir%/agent_ctl_maps \
	%reldir%/agent_ctl_masks %reldir%/agent_ctl_plan
%canon_reldir%_agent_ctl_SOURCES = %reldir%/agent_ctl.c %reldir%/ctl.h \
	%reldir%/tap.h
%canon_reldir%_agent_ctl_LDADD = %reldir%/libagent.la lib/libgpumap.la \
	$(JANSSON_LIBS)
%canon_reldir%_agent_ctl_maps_SOURCES = %reldir%/agent_ctl_maps.c \
	%reldir%/ctl.h %reldir%/ctl_model.h %reldir%/tap.h
%canon_reldir%_agent_ctl_maps_LDADD = %reldir%/libagent.la \
	lib/libgpumap.la $(JANSSON_LIBS)
%canon_reldir%_agent_ctl_masks_SOURCES = %reldir%/agent_ctl_masks.c \
	%reldir%/ctl.h %reldir%/tap.h
%canon_reldir%_agent_ctl_masks_LDADD = %reldir%/libagent.la $(JANSSON_LIBS)
%canon_reldir%_agent_ctl_plan_SOURCES = %reldir%/agent_ctl_plan.c \
	%reldir%/ctl.h %reldir%/ctl_model.h %reldir%/tap.h
%canon_reldir%_agent_ctl_plan_LDADD = %reldir%/libagent.la $(JANSSON_LIBS)

gm_tests += %reldir%/agent_dummy
%canon_reldir%_agent_dummy_SOURCES = %reldir%/agent_dummy.c %reldir%/ctl.h \
	%reldir%/story.h %reldir%/tap.h
%canon_reldir%_agent_dummy_LDADD = %reldir%/libagent.la lib/libgpumap.la \
	$(JANSSON_LIBS)

# A probe whose words are the test's.
check_PROGRAMS += %reldir%/puppet_probe
%canon_reldir%_puppet_probe_SOURCES = %reldir%/puppet_probe.c
%canon_reldir%_puppet_probe_LDADD =

gm_puppet = %reldir%/puppet_scene.h %reldir%/ctl.h %reldir%/puppet.h \
	%reldir%/story.h %reldir%/tap.h
gm_puppet_libs = %reldir%/libagent.la lib/libgpumap.la $(JANSSON_LIBS)
gm_tests += %reldir%/agent_cuda_rows
%canon_reldir%_agent_cuda_rows_SOURCES = %reldir%/agent_cuda_rows.c \
	$(gm_puppet)
%canon_reldir%_agent_cuda_rows_LDADD = $(gm_puppet_libs)
gm_tests += %reldir%/agent_cuda_reuse
GM_TORTURE += %reldir%/agent_cuda_reuse
%canon_reldir%_agent_cuda_reuse_SOURCES = %reldir%/agent_cuda_reuse.c \
	%reldir%/stage.h $(gm_puppet)
%canon_reldir%_agent_cuda_reuse_LDADD = $(gm_puppet_libs)
gm_tests += %reldir%/agent_cuda_health
%canon_reldir%_agent_cuda_health_SOURCES = %reldir%/agent_cuda_health.c \
	$(gm_puppet)
%canon_reldir%_agent_cuda_health_LDADD = $(gm_puppet_libs)
gm_tests += %reldir%/agent_cuda_drain
%canon_reldir%_agent_cuda_drain_SOURCES = %reldir%/agent_cuda_drain.c \
	$(gm_puppet)
%canon_reldir%_agent_cuda_drain_LDADD = $(gm_puppet_libs)

gm_tests += %reldir%/agent_damage
%canon_reldir%_agent_damage_SOURCES = %reldir%/agent_damage.c \
	%reldir%/agent_map.h %reldir%/tap.h
%canon_reldir%_agent_damage_LDADD = %reldir%/libagent.la shm/libshm.la

gm_tests += %reldir%/agent_uring
%canon_reldir%_agent_uring_SOURCES = %reldir%/agent_uring.c %reldir%/tap.h
%canon_reldir%_agent_uring_LDADD = %reldir%/libagent.la lib/libgpumap.la \
	$(URING_LIBS)

gm_tests += %reldir%/agent_numa
%canon_reldir%_agent_numa_SOURCES = %reldir%/agent_numa.c %reldir%/tap.h
%canon_reldir%_agent_numa_LDADD = %reldir%/libagent.la lib/libgpumap.la \
	agent/common/libcommon.la $(NUMA_LIBS)

gm_tests += %reldir%/test_spin
%canon_reldir%_test_spin_SOURCES = %reldir%/test_spin.c %reldir%/tap.h
%canon_reldir%_test_spin_LDADD = agent/daemon/libdaemon.la \
	agent/common/libcommon.la

# A client made by hand, and what it can do to the others.
check_LTLIBRARIES += %reldir%/libraw.la
%canon_reldir%_libraw_la_SOURCES = %reldir%/raw.c %reldir%/raw.h

gm_tests += %reldir%/agent_scarce
%canon_reldir%_agent_scarce_SOURCES = %reldir%/agent_scarce.c %reldir%/tap.h
%canon_reldir%_agent_scarce_LDADD = %reldir%/libraw.la \
	%reldir%/libagent.la lib/libgpumap.la shm/libshm.la

gm_tests += %reldir%/agent_pollable
%canon_reldir%_agent_pollable_SOURCES = %reldir%/agent_pollable.c \
	%reldir%/lingering.h %reldir%/tap.h
%canon_reldir%_agent_pollable_LDADD = %reldir%/libraw.la \
	%reldir%/libagent.la lib/libgpumap.la shm/libshm.la

gm_tests += %reldir%/agent_mesh
%canon_reldir%_agent_mesh_SOURCES = %reldir%/agent_mesh.c %reldir%/story.h \
	%reldir%/tap.h
%canon_reldir%_agent_mesh_LDADD = $(gm_story_libs)

gm_tests += %reldir%/agent_mesh_damage
%canon_reldir%_agent_mesh_damage_SOURCES = %reldir%/agent_mesh_damage.c \
	%reldir%/damage.h %reldir%/agent_map.h %reldir%/story.h %reldir%/tap.h
%canon_reldir%_agent_mesh_damage_LDADD = %reldir%/libagent.la \
	lib/libgpumap.la shm/libshm.la

gm_tests += %reldir%/agent_mesh_death
GM_TORTURE += %reldir%/agent_mesh_death
%canon_reldir%_agent_mesh_death_SOURCES = %reldir%/agent_mesh_death.c \
	%reldir%/dice.h %reldir%/story.h %reldir%/tap.h
%canon_reldir%_agent_mesh_death_LDADD = $(gm_story_libs)

gm_tests += %reldir%/agent_mesh_epoch
GM_TORTURE += %reldir%/agent_mesh_epoch
%canon_reldir%_agent_mesh_epoch_SOURCES = %reldir%/agent_mesh_epoch.c \
	%reldir%/stage.h $(gm_story)
%canon_reldir%_agent_mesh_epoch_LDADD = $(gm_story_libs)

gm_tests += %reldir%/agent_strict
%canon_reldir%_agent_strict_SOURCES = %reldir%/agent_strict.c \
	%reldir%/story.h %reldir%/tap.h
%canon_reldir%_agent_strict_LDADD = $(gm_story_libs)

gm_tests += %reldir%/agent_mesh_join
GM_TORTURE += %reldir%/agent_mesh_join
%canon_reldir%_agent_mesh_join_SOURCES = %reldir%/agent_mesh_join.c \
	%reldir%/mesh_story.h %reldir%/story.h %reldir%/tap.h
%canon_reldir%_agent_mesh_join_LDADD = $(gm_story_libs)
gm_tests += %reldir%/agent_mesh_join_abuse
%canon_reldir%_agent_mesh_join_abuse_SOURCES = \
	%reldir%/agent_mesh_join_abuse.c %reldir%/mesh_story.h \
	%reldir%/story.h %reldir%/tap.h
%canon_reldir%_agent_mesh_join_abuse_LDADD = %reldir%/libraw.la \
	$(gm_story_libs) shm/libshm.la

gm_tests += %reldir%/agent_mesh_join_death
GM_TORTURE += %reldir%/agent_mesh_join_death
%canon_reldir%_agent_mesh_join_death_SOURCES = \
	%reldir%/agent_mesh_join_death.c %reldir%/mesh_story.h \
	%reldir%/story.h %reldir%/tap.h
%canon_reldir%_agent_mesh_join_death_LDADD = %reldir%/libraw.la \
	$(gm_story_libs) shm/libshm.la

# NCCL's stub, wherever there is another.
gm_tests += %reldir%/agent_nccl
GM_TORTURE += %reldir%/agent_nccl
%canon_reldir%_agent_nccl_SOURCES = %reldir%/agent_nccl.c %reldir%/contract.h \
	%reldir%/story.h %reldir%/tap.h
%canon_reldir%_agent_nccl_CPPFLAGS = -I$(srcdir)/%reldir%/stubs $(AM_CPPFLAGS) \
	$(CUDA_CPPFLAGS)
%canon_reldir%_agent_nccl_LDADD = %reldir%/libcontract.la \
	%reldir%/fake/libranks.la $(gm_story_libs)

gm_tests += %reldir%/agent_nccl_moves
%canon_reldir%_agent_nccl_moves_SOURCES = %reldir%/agent_nccl_moves.c \
	%reldir%/contract.h %reldir%/story.h %reldir%/tap.h
%canon_reldir%_agent_nccl_moves_CPPFLAGS = -I$(srcdir)/%reldir%/stubs \
	$(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_agent_nccl_moves_LDADD = %reldir%/libcontract.la \
	%reldir%/fake/libranks.la $(gm_story_libs)

gm_tests += %reldir%/agent_ctl_mesh
%canon_reldir%_agent_ctl_mesh_SOURCES = %reldir%/agent_ctl_mesh.c \
	%reldir%/ctl.h %reldir%/tap.h
%canon_reldir%_agent_ctl_mesh_LDADD = %reldir%/libagent.la \
	lib/libgpumap.la $(JANSSON_LIBS)
gm_tests += %reldir%/agent_ctl_collective
%canon_reldir%_agent_ctl_collective_SOURCES = \
	%reldir%/agent_ctl_collective.c %reldir%/ctl.h %reldir%/stage.h \
	$(gm_story)
%canon_reldir%_agent_ctl_collective_LDADD = $(gm_story_libs) $(JANSSON_LIBS)
gm_tests += %reldir%/agent_cuda_ctl_collective
%canon_reldir%_agent_cuda_ctl_collective_CPPFLAGS = $(AM_CPPFLAGS) \
	-DSTAGE_CUDA
%canon_reldir%_agent_cuda_ctl_collective_SOURCES = \
	%reldir%/agent_ctl_collective.c %reldir%/ctl.h $(gm_cuda_story)
%canon_reldir%_agent_cuda_ctl_collective_LDADD = $(gm_cuda_story_libs) \
	$(JANSSON_LIBS)

gm_tests += %reldir%/agent_stuck
GM_TORTURE += %reldir%/agent_stuck
%canon_reldir%_agent_stuck_SOURCES = %reldir%/agent_stuck.c %reldir%/tap.h
%canon_reldir%_agent_stuck_LDADD = %reldir%/libraw.la %reldir%/libagent.la \
	shm/libshm.la

gm_tests += %reldir%/agent_limits
%canon_reldir%_agent_limits_SOURCES = %reldir%/agent_limits.c %reldir%/tap.h
%canon_reldir%_agent_limits_LDADD = %reldir%/libraw.la \
	%reldir%/libagent.la lib/libgpumap.la shm/libshm.la

gm_tests += %reldir%/test_room
%canon_reldir%_test_room_SOURCES = %reldir%/test_room.c %reldir%/tap.h
%canon_reldir%_test_room_LDADD = $(gm_daemon) -lpthread
gm_tests += %reldir%/agent_room
%canon_reldir%_agent_room_SOURCES = %reldir%/agent_room.c %reldir%/process.h \
	%reldir%/tap.h
%canon_reldir%_agent_room_LDADD = %reldir%/libraw.la %reldir%/libagent.la \
	lib/libgpumap.la shm/libshm.la

gm_tests += %reldir%/agent_hostile
GM_TORTURE += %reldir%/agent_hostile
%canon_reldir%_agent_hostile_SOURCES = %reldir%/agent_hostile.c \
	%reldir%/hostile.c %reldir%/hostile.h %reldir%/hostile_buffers.c \
	%reldir%/hostile_clients.c %reldir%/hostile_entries.c \
	%reldir%/hostile_good.c %reldir%/hostile_good.h \
	%reldir%/hostile_memory.c %reldir%/hostile_records.c %reldir%/tap.h
%canon_reldir%_agent_hostile_LDADD = %reldir%/libraw.la \
	%reldir%/libagent.la lib/libgpumap.la shm/libshm.la -lpthread

GM_BENCH += %reldir%/bench/bench_plan
check_PROGRAMS += %reldir%/bench/bench_plan
%canon_reldir%_bench_bench_plan_SOURCES = %reldir%/bench/bench_plan.c
%canon_reldir%_bench_bench_plan_LDADD = agent/bench/libbench.la \
	agent/plan/libplan.la agent/mesh/libmesh.la shm/libshm.la

GM_BENCH += %reldir%/bench/bench_host_kernels
check_PROGRAMS += %reldir%/bench/bench_host_kernels
%canon_reldir%_bench_bench_host_kernels_SOURCES = \
	%reldir%/bench/bench_host_kernels.c
%canon_reldir%_bench_bench_host_kernels_LDADD = agent/bench/libbench.la \
	agent/device/libdevice.la agent/common/libcommon.la $(NUMA_LIBS) \
	-lpthread
gm_tests += %reldir%/test_judge
%canon_reldir%_test_judge_SOURCES = %reldir%/test_judge.c \
	%reldir%/judging.h %reldir%/tap.h
%canon_reldir%_test_judge_LDADD = agent/worker/libworker.la

gm_tests += %reldir%/test_judge_buffers
%canon_reldir%_test_judge_buffers_SOURCES = %reldir%/test_judge_buffers.c \
	%reldir%/judging.h %reldir%/tap.h
%canon_reldir%_test_judge_buffers_LDADD = agent/worker/libworker.la

gm_tests += %reldir%/test_judge_operators
%canon_reldir%_test_judge_operators_SOURCES = \
	%reldir%/test_judge_operators.c %reldir%/judging.h %reldir%/tap.h
%canon_reldir%_test_judge_operators_LDADD = agent/worker/libworker.la

gm_tests += %reldir%/test_judge_run
%canon_reldir%_test_judge_run_SOURCES = %reldir%/test_judge_run.c %reldir%/tap.h
%canon_reldir%_test_judge_run_LDADD = agent/worker/libworker.la

gm_tests += %reldir%/test_worker_spin
%canon_reldir%_test_worker_spin_SOURCES = %reldir%/test_worker_spin.c %reldir%/tap.h
%canon_reldir%_test_worker_spin_LDADD = agent/worker/libworker.la

gm_tests += %reldir%/test_worker_wakers
%canon_reldir%_test_worker_wakers_SOURCES = %reldir%/test_worker_wakers.c \
	%reldir%/tap.h
%canon_reldir%_test_worker_wakers_LDADD = agent/worker/libworker.la

gm_tests += %reldir%/test_worker_uring
%canon_reldir%_test_worker_uring_SOURCES = %reldir%/test_worker_uring.c \
	%reldir%/tap.h
%canon_reldir%_test_worker_uring_LDADD = agent/worker/libworker.la

gm_tests += %reldir%/test_confine
%canon_reldir%_test_confine_SOURCES = %reldir%/test_confine.c %reldir%/tap.h
%canon_reldir%_test_confine_LDADD = agent/worker/libworker.la

gm_tests += %reldir%/test_fair
%canon_reldir%_test_fair_SOURCES = %reldir%/test_fair.c \
	%reldir%/fair.h %reldir%/flight_rig.h %reldir%/late_device.h \
	%reldir%/hand_client.h %reldir%/tap.h
%canon_reldir%_test_fair_LDADD = agent/worker/libworker.la
gm_tests += %reldir%/test_fair_groups
%canon_reldir%_test_fair_groups_SOURCES = %reldir%/test_fair_groups.c \
	%reldir%/fair.h %reldir%/flight_rig.h %reldir%/late_device.h \
	%reldir%/hand_client.h %reldir%/tap.h
%canon_reldir%_test_fair_groups_LDADD = agent/worker/libworker.la
gm_tests += %reldir%/test_fair_loads
%canon_reldir%_test_fair_loads_SOURCES = %reldir%/test_fair_loads.c \
	%reldir%/fair.h %reldir%/flight_rig.h %reldir%/late_device.h \
	%reldir%/hand_client.h %reldir%/tap.h
%canon_reldir%_test_fair_loads_LDADD = agent/worker/libworker.la
gm_tests += %reldir%/test_load_ahead
%canon_reldir%_test_load_ahead_SOURCES = %reldir%/test_load_ahead.c \
	%reldir%/load_rig.h %reldir%/flight_rig.h \
	%reldir%/late_device.h %reldir%/hand_client.h %reldir%/tap.h
%canon_reldir%_test_load_ahead_LDADD = agent/worker/libworker.la
gm_tests += %reldir%/test_fair_copies
%canon_reldir%_test_fair_copies_SOURCES = %reldir%/test_fair_copies.c \
	%reldir%/fair.h %reldir%/flight_rig.h %reldir%/late_device.h \
	%reldir%/hand_client.h %reldir%/tap.h
%canon_reldir%_test_fair_copies_LDADD = agent/worker/libworker.la

gm_tests += %reldir%/test_stages
%canon_reldir%_test_stages_SOURCES = %reldir%/test_stages.c \
	%reldir%/fair.h %reldir%/flight_rig.h %reldir%/late_device.h \
	%reldir%/hand_client.h %reldir%/tap.h
%canon_reldir%_test_stages_LDADD = agent/worker/libworker.la

gm_tests += %reldir%/test_fault
%canon_reldir%_test_fault_SOURCES = %reldir%/test_fault.c %reldir%/tap.h
%canon_reldir%_test_fault_LDADD = agent/worker/libworker.la -lpthread
GM_TSAN_TESTS += %reldir%/test_fault

gm_tests += %reldir%/test_flight
%canon_reldir%_test_flight_SOURCES = %reldir%/test_flight.c \
	%reldir%/flight_rig.h %reldir%/late_device.h %reldir%/hand_client.h \
	%reldir%/tap.h
%canon_reldir%_test_flight_LDADD = agent/worker/libworker.la

gm_tests += %reldir%/test_flight_abuse
%canon_reldir%_test_flight_abuse_SOURCES = %reldir%/test_flight_abuse.c \
	%reldir%/flight_rig.h %reldir%/late_device.h %reldir%/hand_client.h \
	%reldir%/tap.h
%canon_reldir%_test_flight_abuse_LDADD = agent/worker/libworker.la

gm_tests += %reldir%/test_flight_crowd
%canon_reldir%_test_flight_crowd_SOURCES = %reldir%/test_flight_crowd.c \
	%reldir%/dice.h %reldir%/flight_rig.h %reldir%/late_device.h \
	%reldir%/hand_client.h %reldir%/tap.h
%canon_reldir%_test_flight_crowd_LDADD = agent/worker/libworker.la

gm_tests += %reldir%/test_wait
%canon_reldir%_test_wait_SOURCES = %reldir%/test_wait.c \
	%reldir%/flight_rig.h %reldir%/late_device.h \
	%reldir%/hand_client.h %reldir%/tap.h
%canon_reldir%_test_wait_LDADD = agent/worker/libworker.la

gm_tests += %reldir%/test_flight_second
%canon_reldir%_test_flight_second_SOURCES = %reldir%/test_flight_second.c \
	%reldir%/flight_rig.h %reldir%/late_device.h \
	%reldir%/hand_client.h %reldir%/tap.h
%canon_reldir%_test_flight_second_LDADD = agent/worker/libworker.la

gm_tests += %reldir%/test_cut
%canon_reldir%_test_cut_SOURCES = %reldir%/test_cut.c %reldir%/dice.h \
	%reldir%/tap.h
%canon_reldir%_test_cut_LDADD = agent/worker/libworker.la

gm_tests += %reldir%/test_flight_drain
%canon_reldir%_test_flight_drain_SOURCES = %reldir%/test_flight_drain.c \
	%reldir%/flight_rig.h %reldir%/late_device.h %reldir%/hand_client.h \
	%reldir%/tap.h
%canon_reldir%_test_flight_drain_LDADD = agent/worker/libworker.la

gm_tests += %reldir%/test_turn
%canon_reldir%_test_turn_SOURCES = %reldir%/test_turn.c \
	%reldir%/turn.h %reldir%/hand_client.h %reldir%/tap.h
%canon_reldir%_test_turn_LDADD = agent/worker/libworker.la
gm_tests += %reldir%/test_turn_slices
%canon_reldir%_test_turn_slices_SOURCES = %reldir%/test_turn_slices.c \
	%reldir%/turn.h %reldir%/hand_client.h %reldir%/tap.h
%canon_reldir%_test_turn_slices_LDADD = agent/worker/libworker.la

# Somebody is killed, and everybody else is looked at.
gm_stories =
gm_stories += %reldir%/agent_agent_death
gm_stories += %reldir%/agent_client_death
gm_stories += %reldir%/agent_collective_death
gm_stories += %reldir%/agent_state_death
gm_stories += %reldir%/agent_ledger
gm_stories += %reldir%/agent_history
gm_stories += %reldir%/agent_points
gm_stories += %reldir%/agent_mask_death
gm_stories += %reldir%/agent_mask_readers
gm_stories += %reldir%/agent_waits
gm_stories += %reldir%/agent_worker_death
gm_tests += $(gm_stories)
GM_TORTURE += $(gm_stories)
gm_story = %reldir%/story.h %reldir%/agent.h %reldir%/users.h \
	%reldir%/tap.h
gm_story_libs = %reldir%/libagent.la lib/libgpumap.la

# The same stories on four stand-in cards, and some that only cards have.
gm_cuda_story = %reldir%/cuda_scene.h %reldir%/driver_copy.h \
	%reldir%/stage.h $(gm_story)
gm_cuda_story_libs = $(gm_story_libs) %reldir%/fake/libmachine.la -lpthread
gm_cuda_stories = %reldir%/agent_cuda_agent_death \
	%reldir%/agent_cuda_client_death %reldir%/agent_cuda_worker_death \
	%reldir%/agent_cuda_collective_death \
	%reldir%/agent_cuda_history %reldir%/agent_cuda_waits
gm_tests += %reldir%/agent_cuda_probe
%canon_reldir%_agent_cuda_probe_SOURCES = %reldir%/agent_cuda_probe.c \
	%reldir%/cuda_scene.h %reldir%/driver_copy.h %reldir%/story.h %reldir%/tap.h
%canon_reldir%_agent_cuda_probe_LDADD = %reldir%/libagent.la \
	lib/libgpumap.la %reldir%/fake/libmachine.la -lpthread
gm_tests += $(gm_cuda_stories) %reldir%/agent_cuda_faults \
	%reldir%/agent_cuda_models %reldir%/agent_cuda_slices \
	%reldir%/agent_cuda_forget
gm_tests += %reldir%/agent_cuda_scatter
%canon_reldir%_agent_cuda_scatter_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_agent_cuda_scatter_SOURCES = %reldir%/agent_scatter.c \
	%reldir%/scatter_story.h $(gm_cuda_story)
%canon_reldir%_agent_cuda_scatter_LDADD = $(gm_cuda_story_libs)
gm_tests += %reldir%/agent_cuda_scatter_results
%canon_reldir%_agent_cuda_scatter_results_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_agent_cuda_scatter_results_SOURCES = \
	%reldir%/agent_scatter_results.c %reldir%/scatter_story.h \
	$(gm_cuda_story)
%canon_reldir%_agent_cuda_scatter_results_LDADD = $(gm_cuda_story_libs)
GM_TORTURE += $(gm_cuda_stories) %reldir%/agent_cuda_faults
gm_tests += %reldir%/agent_cuda_hostile
GM_TORTURE += %reldir%/agent_cuda_hostile
%canon_reldir%_agent_cuda_hostile_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_agent_cuda_hostile_SOURCES = \
	$(%canon_reldir%_agent_hostile_SOURCES) $(gm_cuda_story)
%canon_reldir%_agent_cuda_hostile_LDADD = %reldir%/libraw.la \
	$(gm_cuda_story_libs) shm/libshm.la
%canon_reldir%_agent_cuda_agent_death_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_agent_cuda_agent_death_SOURCES = \
	%reldir%/agent_agent_death.c $(gm_cuda_story)
%canon_reldir%_agent_cuda_agent_death_LDADD = $(gm_cuda_story_libs)
%canon_reldir%_agent_cuda_client_death_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_agent_cuda_client_death_SOURCES = \
	%reldir%/agent_client_death.c $(gm_cuda_story)
%canon_reldir%_agent_cuda_client_death_LDADD = $(gm_cuda_story_libs)
%canon_reldir%_agent_cuda_worker_death_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_agent_cuda_worker_death_SOURCES = \
	%reldir%/agent_worker_death.c $(gm_cuda_story)
%canon_reldir%_agent_cuda_worker_death_LDADD = $(gm_cuda_story_libs)
%canon_reldir%_agent_cuda_history_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_agent_cuda_history_SOURCES = %reldir%/agent_history.c \
	%reldir%/dice.h %reldir%/load_story.h %reldir%/program_story.h \
	%reldir%/programs/odd.h $(gm_cuda_story)
%canon_reldir%_agent_cuda_history_LDADD = $(gm_cuda_story_libs)
%canon_reldir%_agent_cuda_waits_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_agent_cuda_waits_SOURCES = %reldir%/agent_waits.c \
	%reldir%/dice.h $(gm_cuda_story)
%canon_reldir%_agent_cuda_waits_LDADD = $(gm_cuda_story_libs)
%canon_reldir%_agent_cuda_faults_SOURCES = \
	%reldir%/agent_cuda_faults.c %reldir%/cuda_side.h $(gm_cuda_story)
%canon_reldir%_agent_cuda_faults_LDADD = $(gm_cuda_story_libs)
gm_tests += %reldir%/agent_mask_device_jobs
%canon_reldir%_agent_mask_device_jobs_SOURCES = \
	%reldir%/agent_mask_device_jobs.c $(gm_cuda_story)
%canon_reldir%_agent_mask_device_jobs_LDADD = $(gm_cuda_story_libs)
gm_tests += %reldir%/agent_mask_device_death
GM_TORTURE += %reldir%/agent_mask_device_death
%canon_reldir%_agent_mask_device_death_SOURCES = \
	%reldir%/agent_mask_device_death.c $(gm_cuda_story)
%canon_reldir%_agent_mask_device_death_LDADD = $(gm_cuda_story_libs)
gm_tests += %reldir%/agent_mask_devices
%canon_reldir%_agent_mask_devices_SOURCES = \
	%reldir%/agent_mask_devices.c %reldir%/ctl.h $(gm_cuda_story)
%canon_reldir%_agent_mask_devices_LDADD = $(gm_cuda_story_libs) \
	agent/mask/libmask.la $(JANSSON_LIBS)
gm_tests += %reldir%/agent_mask_peers
GM_TORTURE += %reldir%/agent_mask_peers
%canon_reldir%_agent_mask_peers_SOURCES = \
	%reldir%/agent_mask_peers.c %reldir%/mask_cards.h $(gm_cuda_story)
%canon_reldir%_agent_mask_peers_LDADD = $(gm_cuda_story_libs) \
	agent/mask/libmask.la
gm_tests += %reldir%/agent_mask_peer_death
%canon_reldir%_agent_mask_peer_death_SOURCES = \
	%reldir%/agent_mask_peer_death.c %reldir%/mask_cards.h \
	$(gm_cuda_story)
%canon_reldir%_agent_mask_peer_death_LDADD = $(gm_cuda_story_libs) \
	agent/mask/libmask.la
gm_tests += %reldir%/agent_mask_peer_ways
%canon_reldir%_agent_mask_peer_ways_SOURCES = \
	%reldir%/agent_mask_peer_ways.c %reldir%/mask_cards.h \
	$(gm_cuda_story)
%canon_reldir%_agent_mask_peer_ways_LDADD = $(gm_cuda_story_libs) \
	agent/mask/libmask.la
gm_tests += %reldir%/agent_mask_room
%canon_reldir%_agent_mask_room_SOURCES = %reldir%/agent_mask_room.c \
	%reldir%/mask_cards.h $(gm_cuda_story)
%canon_reldir%_agent_mask_room_LDADD = $(gm_cuda_story_libs) \
	agent/mask/libmask.la
gm_tests += %reldir%/agent_mask_charge
%canon_reldir%_agent_mask_charge_SOURCES = %reldir%/agent_mask_charge.c \
	%reldir%/mask_cards.h $(gm_cuda_story)
%canon_reldir%_agent_mask_charge_LDADD = $(gm_cuda_story_libs) \
	agent/mask/libmask.la
gm_tests += %reldir%/agent_mask_idle
%canon_reldir%_agent_mask_idle_SOURCES = %reldir%/agent_mask_idle.c \
	%reldir%/mask_cards.h $(gm_cuda_story)
%canon_reldir%_agent_mask_idle_LDADD = $(gm_cuda_story_libs) \
	agent/mask/libmask.la
gm_tests += %reldir%/agent_mask_overtaken
%canon_reldir%_agent_mask_overtaken_SOURCES = \
	%reldir%/agent_mask_overtaken.c %reldir%/mask_cards.h \
	$(gm_cuda_story)
%canon_reldir%_agent_mask_overtaken_LDADD = $(gm_cuda_story_libs) \
	agent/mask/libmask.la
gm_tests += %reldir%/agent_mask_peer_drain
%canon_reldir%_agent_mask_peer_drain_SOURCES = \
	%reldir%/agent_mask_peer_drain.c %reldir%/mask_cards.h \
	$(gm_cuda_story)
%canon_reldir%_agent_mask_peer_drain_LDADD = $(gm_cuda_story_libs) \
	agent/mask/libmask.la
gm_tests += %reldir%/agent_usage
%canon_reldir%_agent_usage_SOURCES = %reldir%/agent_usage.c %reldir%/ctl.h \
	$(gm_cuda_story)
%canon_reldir%_agent_usage_LDADD = $(gm_cuda_story_libs) $(JANSSON_LIBS)
%canon_reldir%_agent_cuda_slices_SOURCES = \
	%reldir%/agent_cuda_slices.c $(gm_cuda_story)
%canon_reldir%_agent_cuda_slices_LDADD = $(gm_cuda_story_libs)
%canon_reldir%_agent_cuda_forget_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_agent_cuda_forget_SOURCES = \
	%reldir%/agent_cuda_forget.c %reldir%/load_story.h $(gm_cuda_story)
%canon_reldir%_agent_cuda_forget_LDADD = $(gm_cuda_story_libs)
gm_tests += %reldir%/agent_cuda_alloc
%canon_reldir%_agent_cuda_alloc_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_agent_cuda_alloc_SOURCES = %reldir%/agent_cuda_alloc.c \
	$(gm_cuda_story)
%canon_reldir%_agent_cuda_alloc_LDADD = $(gm_cuda_story_libs)
%canon_reldir%_agent_cuda_models_SOURCES = \
	%reldir%/agent_cuda_models.c $(gm_cuda_story)
%canon_reldir%_agent_cuda_models_LDADD = $(gm_cuda_story_libs)
%canon_reldir%_agent_agent_death_SOURCES = %reldir%/agent_agent_death.c \
	$(gm_story)
%canon_reldir%_agent_agent_death_LDADD = $(gm_story_libs)
gm_tests += %reldir%/agent_masks
%canon_reldir%_agent_masks_SOURCES = %reldir%/agent_masks.c $(gm_story)
%canon_reldir%_agent_masks_LDADD = $(gm_story_libs) agent/mask/libmask.la \
	agent/plan/libplan.la
gm_tests += %reldir%/agent_mask_flood
%canon_reldir%_agent_mask_flood_SOURCES = %reldir%/agent_mask_flood.c $(gm_story)
%canon_reldir%_agent_mask_flood_LDADD = $(gm_story_libs)

gm_tests += %reldir%/agent_mask_jobs
%canon_reldir%_agent_mask_jobs_SOURCES = %reldir%/agent_mask_jobs.c \
	$(gm_story)
%canon_reldir%_agent_mask_jobs_LDADD = %reldir%/libraw.la $(gm_story_libs) shm/libshm.la
gm_tests += %reldir%/agent_mask_damage
%canon_reldir%_agent_mask_damage_SOURCES = %reldir%/agent_mask_damage.c \
	%reldir%/damage.h %reldir%/agent_map.h %reldir%/story.h %reldir%/tap.h
%canon_reldir%_agent_mask_damage_LDADD = %reldir%/libagent.la \
	lib/libgpumap.la shm/libshm.la agent/mask/libmask.la \
	agent/plan/libplan.la
gm_tests += %reldir%/agent_mask_state
%canon_reldir%_agent_mask_state_SOURCES = %reldir%/agent_mask_state.c \
	$(gm_story)
%canon_reldir%_agent_mask_state_LDADD = $(gm_story_libs) \
	agent/mask/libmask.la agent/plan/libplan.la
%canon_reldir%_agent_mask_death_SOURCES = %reldir%/agent_mask_death.c \
	$(gm_story)
%canon_reldir%_agent_mask_death_LDADD = $(gm_story_libs) \
	agent/mask/libmask.la agent/plan/libplan.la
%canon_reldir%_agent_mask_readers_SOURCES = %reldir%/agent_mask_readers.c \
	$(gm_story)
%canon_reldir%_agent_mask_readers_LDADD = $(gm_story_libs)
%canon_reldir%_agent_history_SOURCES = %reldir%/agent_history.c \
	%reldir%/dice.h %reldir%/load_story.h %reldir%/program_story.h \
	%reldir%/programs/odd.h $(gm_story)
%canon_reldir%_agent_history_LDADD = $(gm_story_libs)
%canon_reldir%_agent_history_DEPENDENCIES = $(gm_story_libs) \
	%reldir%/program_square.la
%canon_reldir%_agent_points_SOURCES = %reldir%/agent_points.c \
	%reldir%/dice.h %reldir%/load_story.h %reldir%/points_play.h \
	%reldir%/stage.h $(gm_story)
%canon_reldir%_agent_points_LDADD = %reldir%/libraw.la $(gm_story_libs) \
	shm/libshm.la
gm_tests += %reldir%/agent_cuda_points
GM_TORTURE += %reldir%/agent_cuda_points
%canon_reldir%_agent_cuda_points_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_agent_cuda_points_SOURCES = %reldir%/agent_points.c \
	%reldir%/dice.h %reldir%/load_story.h %reldir%/points_play.h \
	$(gm_cuda_story)
%canon_reldir%_agent_cuda_points_LDADD = %reldir%/libraw.la \
	$(gm_cuda_story_libs) shm/libshm.la
gm_tests += %reldir%/agent_file_stuck
%canon_reldir%_agent_file_stuck_SOURCES = %reldir%/agent_file_stuck.c \
	%reldir%/fuse.h %reldir%/load_story.h %reldir%/raw.h $(gm_story)
%canon_reldir%_agent_file_stuck_LDADD = %reldir%/libraw.la $(gm_story_libs) \
	shm/libshm.la
gm_tests += %reldir%/agent_strangers
%canon_reldir%_agent_strangers_SOURCES = %reldir%/agent_strangers.c \
	%reldir%/lingering.h %reldir%/raw.h $(gm_story)
%canon_reldir%_agent_strangers_LDADD = %reldir%/libraw.la $(gm_story_libs) \
	shm/libshm.la $(SECCOMP_LIBS)
gm_tests += %reldir%/agent_mask_node
%canon_reldir%_agent_mask_node_SOURCES = %reldir%/agent_mask_node.c \
	%reldir%/raw.h $(gm_story)
%canon_reldir%_agent_mask_node_LDADD = %reldir%/libraw.la $(gm_story_libs) \
	shm/libshm.la
gm_tests += %reldir%/agent_unread
%canon_reldir%_agent_unread_SOURCES = %reldir%/agent_unread.c \
	%reldir%/raw.h $(gm_story)
%canon_reldir%_agent_unread_LDADD = %reldir%/libraw.la $(gm_story_libs) \
	shm/libshm.la
gm_tests += %reldir%/agent_newcomers
%canon_reldir%_agent_newcomers_SOURCES = %reldir%/agent_newcomers.c \
	%reldir%/raw.h $(gm_story)
%canon_reldir%_agent_newcomers_LDADD = %reldir%/libraw.la $(gm_story_libs) \
	shm/libshm.la
gm_tests += %reldir%/agent_waits_raw
%canon_reldir%_agent_waits_raw_SOURCES = %reldir%/agent_waits_raw.c $(gm_story)
%canon_reldir%_agent_waits_raw_LDADD = %reldir%/libraw.la $(gm_story_libs) \
	shm/libshm.la -lpthread
gm_tests += %reldir%/agent_collective
GM_TORTURE += %reldir%/agent_collective
%canon_reldir%_agent_collective_SOURCES = %reldir%/agent_collective.c \
	%reldir%/collective.h %reldir%/stage.h %reldir%/combine_ref.h %reldir%/dice.h \
	%reldir%/operators_ref.c %reldir%/operators_ref.h \
	%reldir%/operators_trial.h $(gm_story)
%canon_reldir%_agent_collective_LDADD = $(gm_story_libs) \
	agent/cuda/libcu.la -lm
%canon_reldir%_agent_collective_death_SOURCES = \
	%reldir%/agent_collective_death.c %reldir%/stage.h \
	%reldir%/collective.h %reldir%/combine_ref.h %reldir%/dice.h \
	%reldir%/operators_ref.c %reldir%/operators_ref.h \
	%reldir%/operators_trial.h $(gm_story)
%canon_reldir%_agent_collective_death_LDADD = $(gm_story_libs) \
	agent/cuda/libcu.la -lm
gm_tests += %reldir%/agent_comm_renew
%canon_reldir%_agent_comm_renew_SOURCES = %reldir%/agent_comm_renew.c \
	%reldir%/collective.h %reldir%/stage.h %reldir%/combine_ref.h %reldir%/dice.h \
	%reldir%/operators_ref.c %reldir%/operators_ref.h \
	%reldir%/operators_trial.h $(gm_story)
%canon_reldir%_agent_comm_renew_LDADD = $(gm_story_libs) \
	agent/cuda/libcu.la -lm
# The same with cards among the ranks, and memory of the cards' own.
gm_tests += %reldir%/agent_cuda_collective %reldir%/agent_collective_cards
GM_TORTURE += %reldir%/agent_cuda_collective %reldir%/agent_collective_cards
gm_collective = %reldir%/collective.h %reldir%/combine_ref.h \
	%reldir%/dice.h %reldir%/operators_ref.c %reldir%/operators_ref.h \
	%reldir%/operators_trial.h
%canon_reldir%_agent_cuda_collective_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_agent_cuda_collective_SOURCES = %reldir%/agent_collective.c \
	$(gm_collective) $(gm_cuda_story)
%canon_reldir%_agent_cuda_collective_LDADD = $(gm_cuda_story_libs) \
	agent/cuda/libcu.la -lm
%canon_reldir%_agent_cuda_collective_death_CPPFLAGS = $(AM_CPPFLAGS) \
	-DSTAGE_CUDA
%canon_reldir%_agent_cuda_collective_death_SOURCES = \
	%reldir%/agent_collective_death.c $(gm_collective) $(gm_cuda_story)
%canon_reldir%_agent_cuda_collective_death_LDADD = $(gm_cuda_story_libs) \
	agent/cuda/libcu.la -lm
%canon_reldir%_agent_collective_cards_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_agent_collective_cards_SOURCES = \
	%reldir%/agent_collective_cards.c %reldir%/collective_cards.h \
	$(gm_collective) $(gm_cuda_story)
%canon_reldir%_agent_collective_cards_LDADD = $(gm_cuda_story_libs) \
	agent/cuda/libcu.la -lm
gm_tests += %reldir%/agent_collective_users
%canon_reldir%_agent_collective_users_SOURCES = \
	%reldir%/agent_collective_users.c %reldir%/stage.h \
	$(gm_collective) $(gm_story)
%canon_reldir%_agent_collective_users_LDADD = $(gm_story_libs) \
	agent/device/libdevice.la
gm_tests += %reldir%/agent_cuda_collective_users
%canon_reldir%_agent_cuda_collective_users_CPPFLAGS = $(AM_CPPFLAGS) \
	-DSTAGE_CUDA
%canon_reldir%_agent_cuda_collective_users_SOURCES = \
	%reldir%/agent_collective_users.c $(gm_collective) $(gm_cuda_story)
%canon_reldir%_agent_cuda_collective_users_LDADD = $(gm_cuda_story_libs) \
	agent/device/libdevice.la
gm_collective_nccl = %reldir%/collective_nccl.h %reldir%/collective_cards.h \
	$(gm_collective) $(gm_cuda_story)
gm_tests += %reldir%/agent_collective_nccl
%canon_reldir%_agent_collective_nccl_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_agent_collective_nccl_SOURCES = \
	%reldir%/agent_collective_nccl.c $(gm_collective_nccl)
%canon_reldir%_agent_collective_nccl_LDADD = $(gm_cuda_story_libs) \
	agent/cuda/libcu.la -lm
gm_tests += %reldir%/agent_collective_nccl_order
%canon_reldir%_agent_collective_nccl_order_CPPFLAGS = $(AM_CPPFLAGS) \
	-DSTAGE_CUDA
%canon_reldir%_agent_collective_nccl_order_SOURCES = \
	%reldir%/agent_collective_nccl_order.c $(gm_collective_nccl)
%canon_reldir%_agent_collective_nccl_order_LDADD = $(gm_cuda_story_libs) \
	agent/cuda/libcu.la -lm
gm_tests += %reldir%/agent_collective_nccl_pairs
%canon_reldir%_agent_collective_nccl_pairs_CPPFLAGS = $(AM_CPPFLAGS) \
	-DSTAGE_CUDA
%canon_reldir%_agent_collective_nccl_pairs_SOURCES = \
	%reldir%/agent_collective_nccl_pairs.c tests/stubs/nccl.h \
	$(gm_collective_nccl)
%canon_reldir%_agent_collective_nccl_pairs_LDADD = $(gm_cuda_story_libs) \
	agent/cuda/libcu.la -lm
gm_tests += %reldir%/agent_collective_nccl_death
GM_TORTURE += %reldir%/agent_collective_nccl_death
%canon_reldir%_agent_collective_nccl_death_CPPFLAGS = $(AM_CPPFLAGS) \
	-DSTAGE_CUDA
%canon_reldir%_agent_collective_nccl_death_SOURCES = \
	%reldir%/agent_collective_nccl_death.c %reldir%/process.h \
	$(gm_collective_nccl)
%canon_reldir%_agent_collective_nccl_death_LDADD = $(gm_cuda_story_libs) \
	agent/cuda/libcu.la -lm
gm_tests += %reldir%/agent_collective_nccl_meet
%canon_reldir%_agent_collective_nccl_meet_CPPFLAGS = $(AM_CPPFLAGS) \
	-DSTAGE_CUDA
%canon_reldir%_agent_collective_nccl_meet_SOURCES = \
	%reldir%/agent_collective_nccl_meet.c $(gm_collective_nccl)
%canon_reldir%_agent_collective_nccl_meet_LDADD = $(gm_cuda_story_libs) \
	agent/cuda/libcu.la -lm
gm_tests += %reldir%/agent_collective_nccl_leave
%canon_reldir%_agent_collective_nccl_leave_CPPFLAGS = $(AM_CPPFLAGS) \
	-DSTAGE_CUDA
%canon_reldir%_agent_collective_nccl_leave_SOURCES = \
	%reldir%/agent_collective_nccl_leave.c $(gm_collective_nccl)
%canon_reldir%_agent_collective_nccl_leave_LDADD = $(gm_cuda_story_libs) \
	agent/cuda/libcu.la -lm
gm_tests += %reldir%/agent_collective_raw
GM_TORTURE += %reldir%/agent_collective_raw
%canon_reldir%_agent_collective_raw_SOURCES = \
	%reldir%/agent_collective_raw.c %reldir%/dice.h %reldir%/stage.h \
	$(gm_story)
%canon_reldir%_agent_collective_raw_LDADD = %reldir%/libraw.la \
	$(gm_story_libs) shm/libshm.la
gm_tests += %reldir%/agent_collective_memory
GM_TORTURE += %reldir%/agent_collective_memory
%canon_reldir%_agent_collective_memory_SOURCES = \
	%reldir%/agent_collective_memory.c %reldir%/stage.h $(gm_story)
%canon_reldir%_agent_collective_memory_LDADD = %reldir%/libraw.la \
	$(gm_story_libs) shm/libshm.la
gm_tests += %reldir%/agent_cuda_collective_memory
GM_TORTURE += %reldir%/agent_cuda_collective_memory
%canon_reldir%_agent_cuda_collective_memory_CPPFLAGS = $(AM_CPPFLAGS) \
	-DSTAGE_CUDA
%canon_reldir%_agent_cuda_collective_memory_SOURCES = \
	%reldir%/agent_collective_memory.c $(gm_cuda_story)
%canon_reldir%_agent_cuda_collective_memory_LDADD = %reldir%/libraw.la \
	$(gm_cuda_story_libs) shm/libshm.la
gm_tests += %reldir%/agent_cuda_collective_raw
GM_TORTURE += %reldir%/agent_cuda_collective_raw
%canon_reldir%_agent_cuda_collective_raw_CPPFLAGS = $(AM_CPPFLAGS) \
	-DSTAGE_CUDA
%canon_reldir%_agent_cuda_collective_raw_SOURCES = \
	%reldir%/agent_collective_raw.c %reldir%/dice.h $(gm_cuda_story)
%canon_reldir%_agent_cuda_collective_raw_LDADD = %reldir%/libraw.la \
	$(gm_cuda_story_libs) shm/libshm.la
%canon_reldir%_agent_waits_SOURCES = %reldir%/agent_waits.c \
	%reldir%/dice.h $(gm_story)
%canon_reldir%_agent_waits_LDADD = $(gm_story_libs)
%canon_reldir%_agent_client_death_SOURCES = %reldir%/agent_client_death.c \
	$(gm_story)
%canon_reldir%_agent_client_death_LDADD = $(gm_story_libs)
%canon_reldir%_agent_state_death_SOURCES = %reldir%/agent_state_death.c \
	%reldir%/dice.h $(gm_story)
%canon_reldir%_agent_state_death_LDADD = $(gm_story_libs)
%canon_reldir%_agent_ledger_SOURCES = %reldir%/agent_ledger.c \
	%reldir%/dice.h $(gm_story)
%canon_reldir%_agent_ledger_LDADD = $(gm_story_libs)
%canon_reldir%_agent_worker_death_SOURCES = %reldir%/agent_worker_death.c \
	$(gm_story)
%canon_reldir%_agent_worker_death_LDADD = $(gm_story_libs)

gm_tests += %reldir%/agent_state
%canon_reldir%_agent_state_SOURCES = %reldir%/agent_state.c \
	%reldir%/state_story.h $(gm_story)
%canon_reldir%_agent_state_LDADD = $(gm_story_libs)
gm_tests += %reldir%/agent_state_disk
%canon_reldir%_agent_state_disk_SOURCES = %reldir%/agent_state_disk.c \
	%reldir%/state_story.h $(gm_story)
%canon_reldir%_agent_state_disk_LDADD = $(gm_story_libs) $(SECCOMP_LIBS)
gm_tests += %reldir%/agent_state_hung
%canon_reldir%_agent_state_hung_SOURCES = %reldir%/agent_state_hung.c \
	%reldir%/state_story.h $(gm_story)
%canon_reldir%_agent_state_hung_LDADD = $(gm_story_libs) $(SECCOMP_LIBS)
# Programs, and stories about them.
gm_programs = %reldir%/program_square.la %reldir%/program_odd.la \
	%reldir%/program_old.la %reldir%/program_none.la \
	%reldir%/program_dies.la %reldir%/program_lacks.la \
	%reldir%/program_unlike.la
check_LTLIBRARIES += $(gm_programs)
%canon_reldir%_program_square_la_SOURCES = %reldir%/programs/square.c
%canon_reldir%_program_square_la_LDFLAGS = $(gm_tiny_flags)
%canon_reldir%_program_square_la_LIBADD = -lm
%canon_reldir%_program_odd_la_SOURCES = %reldir%/programs/odd.c
%canon_reldir%_program_odd_la_LDFLAGS = $(gm_tiny_flags)
%canon_reldir%_program_odd_la_LIBADD =
%canon_reldir%_program_old_la_SOURCES = %reldir%/programs/old.c
%canon_reldir%_program_old_la_LDFLAGS = $(gm_tiny_flags)
%canon_reldir%_program_old_la_LIBADD =
%canon_reldir%_program_none_la_SOURCES = %reldir%/programs/none.c
%canon_reldir%_program_none_la_LDFLAGS = $(gm_tiny_flags)
%canon_reldir%_program_none_la_LIBADD =
%canon_reldir%_program_dies_la_SOURCES = %reldir%/programs/dies.c
%canon_reldir%_program_dies_la_LDFLAGS = $(gm_tiny_flags)
%canon_reldir%_program_dies_la_LIBADD =
%canon_reldir%_program_lacks_la_SOURCES = %reldir%/programs/lacks.c
%canon_reldir%_program_lacks_la_LDFLAGS = $(gm_tiny_flags)
%canon_reldir%_program_lacks_la_LIBADD =
%canon_reldir%_program_unlike_la_SOURCES = %reldir%/programs/unlike.c
%canon_reldir%_program_unlike_la_LDFLAGS = $(gm_tiny_flags)
%canon_reldir%_program_unlike_la_LIBADD =
EXTRA_DIST += %reldir%/programs/odd.h
gm_program_story = %reldir%/program_story.h %reldir%/programs/odd.h $(gm_story)
gm_tests += %reldir%/agent_programs %reldir%/agent_program_death
GM_TORTURE += %reldir%/agent_program_death
%canon_reldir%_agent_programs_SOURCES = %reldir%/agent_programs.c \
	$(gm_program_story)
%canon_reldir%_agent_programs_LDADD = $(gm_story_libs)
%canon_reldir%_agent_programs_DEPENDENCIES = $(gm_story_libs) $(gm_programs)
%canon_reldir%_agent_program_death_SOURCES = %reldir%/agent_program_death.c \
	$(gm_program_story)
%canon_reldir%_agent_program_death_LDADD = $(gm_story_libs)
%canon_reldir%_agent_program_death_DEPENDENCIES = $(gm_story_libs) $(gm_programs)
gm_tests += %reldir%/agent_drain_lends
%canon_reldir%_agent_drain_lends_SOURCES = %reldir%/agent_drain_lends.c \
	$(gm_program_story)
%canon_reldir%_agent_drain_lends_LDADD = $(gm_story_libs)
%canon_reldir%_agent_drain_lends_DEPENDENCIES = $(gm_story_libs) $(gm_programs)
gm_tests += %reldir%/agent_program_scatter
GM_TORTURE += %reldir%/agent_program_scatter
%canon_reldir%_agent_program_scatter_SOURCES = %reldir%/agent_program_scatter.c \
	$(gm_program_story)
%canon_reldir%_agent_program_scatter_LDADD = $(gm_story_libs)
%canon_reldir%_agent_program_scatter_DEPENDENCIES = $(gm_story_libs) $(gm_programs)
gm_tests += %reldir%/test_image
%canon_reldir%_test_image_SOURCES = %reldir%/test_image.c \
	%reldir%/program_kernels.h %reldir%/ptx.h %reldir%/tap.h
%canon_reldir%_test_image_LDADD = %reldir%/libptx.la agent/worker/libworker.la -lm
gm_tests += %reldir%/agent_cuda_programs %reldir%/agent_cuda_program_death
gm_kernel_story = %reldir%/kernel_story.h %reldir%/program_kernels.h \
	$(gm_program_story) $(gm_cuda_story)
%canon_reldir%_agent_cuda_programs_SOURCES = %reldir%/agent_cuda_programs.c \
	$(gm_kernel_story)
%canon_reldir%_agent_cuda_programs_LDADD = %reldir%/libagent.la \
	lib/libclient.la shm/libshm.la %reldir%/fake/libmachine.la -lpthread
%canon_reldir%_agent_cuda_programs_DEPENDENCIES = \
	%reldir%/libagent.la lib/libclient.la %reldir%/fake/libmachine.la \
	$(gm_programs)
%canon_reldir%_agent_cuda_program_death_SOURCES = \
	%reldir%/agent_cuda_program_death.c $(gm_kernel_story)
%canon_reldir%_agent_cuda_program_death_LDADD = $(gm_cuda_story_libs)
%canon_reldir%_agent_cuda_program_death_DEPENDENCIES = %reldir%/libagent.la \
	%reldir%/fake/libmachine.la lib/libgpumap.la $(gm_programs)
gm_tests += %reldir%/agent_cuda_program_reuse
%canon_reldir%_agent_cuda_program_reuse_SOURCES = \
	%reldir%/agent_cuda_program_reuse.c %reldir%/puppet.h $(gm_cuda_story)
%canon_reldir%_agent_cuda_program_reuse_LDADD = $(gm_cuda_story_libs)
gm_tests += %reldir%/test_scatter_combine
%canon_reldir%_test_scatter_combine_SOURCES = %reldir%/test_scatter_combine.c \
	%reldir%/tap.h
%canon_reldir%_test_scatter_combine_LDADD = $(gm_client) -lm
gm_tests += %reldir%/agent_scatter
%canon_reldir%_agent_scatter_SOURCES = %reldir%/agent_scatter.c \
	%reldir%/scatter_story.h %reldir%/stage.h $(gm_story)
%canon_reldir%_agent_scatter_LDADD = $(gm_story_libs)
gm_tests += %reldir%/agent_scatter_results
%canon_reldir%_agent_scatter_results_SOURCES = \
	%reldir%/agent_scatter_results.c %reldir%/scatter_story.h \
	%reldir%/stage.h $(gm_story)
%canon_reldir%_agent_scatter_results_LDADD = $(gm_story_libs)
gm_tests += %reldir%/agent_plan
%canon_reldir%_agent_plan_SOURCES = %reldir%/agent_plan.c \
	%reldir%/plan_story.h $(gm_story)
%canon_reldir%_agent_plan_LDADD = $(gm_story_libs)
gm_tests += %reldir%/agent_plan_abuse
%canon_reldir%_agent_plan_abuse_SOURCES = %reldir%/agent_plan_abuse.c \
	%reldir%/plan_story.h %reldir%/dice.h $(gm_story)
%canon_reldir%_agent_plan_abuse_LDADD = $(gm_story_libs)

gm_tests += %reldir%/agent_control
%canon_reldir%_agent_control_SOURCES = %reldir%/agent_control.c $(gm_story)
%canon_reldir%_agent_control_LDADD = $(gm_story_libs) shm/libshm.la \
	-lpthread

# Memory that is not the arena's.
gm_tests += %reldir%/agent_buffers
%canon_reldir%_agent_buffers_SOURCES = %reldir%/agent_buffers.c \
	%reldir%/stage.h $(gm_story)
%canon_reldir%_agent_buffers_LDADD = $(gm_story_libs)
gm_tests += %reldir%/agent_across %reldir%/agent_cuda_across
GM_TORTURE += %reldir%/agent_across %reldir%/agent_cuda_across
%canon_reldir%_agent_across_SOURCES = %reldir%/agent_across.c \
	%reldir%/stage.h $(gm_story)
%canon_reldir%_agent_across_LDADD = $(gm_story_libs)
gm_tests += %reldir%/agent_across_drain %reldir%/agent_cuda_across_drain
%canon_reldir%_agent_across_drain_SOURCES = %reldir%/agent_across_drain.c \
	%reldir%/stage.h $(gm_story)
%canon_reldir%_agent_across_drain_LDADD = $(gm_story_libs)
%canon_reldir%_agent_cuda_across_drain_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_agent_cuda_across_drain_SOURCES = %reldir%/agent_across_drain.c \
	$(gm_cuda_story)
%canon_reldir%_agent_cuda_across_drain_LDADD = $(gm_cuda_story_libs)
%canon_reldir%_agent_cuda_across_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_agent_cuda_across_SOURCES = %reldir%/agent_across.c \
	$(gm_cuda_story)
%canon_reldir%_agent_cuda_across_LDADD = $(gm_cuda_story_libs)
gm_tests += %reldir%/agent_cuda_buffers
%canon_reldir%_agent_cuda_buffers_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_agent_cuda_buffers_SOURCES = %reldir%/agent_buffers.c \
	$(gm_cuda_story)
%canon_reldir%_agent_cuda_buffers_LDADD = $(gm_cuda_story_libs)

# Buffers that have a name.
gm_shares = %reldir%/shares.h %reldir%/ctl.h %reldir%/stage.h $(gm_story)
gm_tests += %reldir%/agent_shares %reldir%/agent_cuda_shares
%canon_reldir%_agent_shares_SOURCES = %reldir%/agent_shares.c $(gm_shares)
%canon_reldir%_agent_shares_LDADD = $(gm_story_libs) $(JANSSON_LIBS)
%canon_reldir%_agent_cuda_shares_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_agent_cuda_shares_SOURCES = %reldir%/agent_shares.c \
	%reldir%/shares.h %reldir%/ctl.h $(gm_cuda_story)
%canon_reldir%_agent_cuda_shares_LDADD = $(gm_cuda_story_libs) $(JANSSON_LIBS)
gm_tests += %reldir%/agent_cuda_full
%canon_reldir%_agent_cuda_full_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_agent_cuda_full_SOURCES = %reldir%/agent_cuda_full.c \
	%reldir%/shares.h %reldir%/ctl.h $(gm_cuda_story)
%canon_reldir%_agent_cuda_full_LDADD = $(gm_cuda_story_libs) $(JANSSON_LIBS)
gm_tests += %reldir%/agent_shares_abuse
%canon_reldir%_agent_shares_abuse_SOURCES = %reldir%/agent_shares_abuse.c \
	$(gm_shares)
%canon_reldir%_agent_shares_abuse_LDADD = %reldir%/libagent.la \
	lib/libclient.la shm/libshm.la $(JANSSON_LIBS)
gm_tests += %reldir%/agent_shares_death %reldir%/agent_cuda_shares_death
GM_TORTURE += %reldir%/agent_shares_death %reldir%/agent_cuda_shares_death
%canon_reldir%_agent_shares_death_SOURCES = %reldir%/agent_shares_death.c \
	$(gm_shares)
%canon_reldir%_agent_shares_death_LDADD = $(gm_story_libs) $(JANSSON_LIBS)
%canon_reldir%_agent_cuda_shares_death_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_agent_cuda_shares_death_SOURCES = \
	%reldir%/agent_shares_death.c %reldir%/shares.h %reldir%/ctl.h \
	$(gm_cuda_story)
%canon_reldir%_agent_cuda_shares_death_LDADD = $(gm_cuda_story_libs) \
	$(JANSSON_LIBS)

# Files that are loaded.
gm_load = %reldir%/load_story.h %reldir%/stage.h
gm_tests += %reldir%/agent_load
GM_TORTURE += %reldir%/agent_load
%canon_reldir%_agent_load_SOURCES = %reldir%/agent_load.c $(gm_load) $(gm_story)
%canon_reldir%_agent_load_LDADD = $(gm_story_libs)
gm_tests += %reldir%/agent_cuda_load
GM_TORTURE += %reldir%/agent_cuda_load
%canon_reldir%_agent_cuda_load_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_agent_cuda_load_SOURCES = %reldir%/agent_load.c $(gm_load) \
	$(gm_cuda_story)
%canon_reldir%_agent_cuda_load_LDADD = $(gm_cuda_story_libs)

gm_tests += %reldir%/agent_bulk_users %reldir%/agent_cuda_bulk_users
%canon_reldir%_agent_bulk_users_SOURCES = %reldir%/agent_bulk_users.c \
	$(gm_load) $(gm_story)
%canon_reldir%_agent_bulk_users_LDADD = $(gm_story_libs)
%canon_reldir%_agent_cuda_bulk_users_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_agent_cuda_bulk_users_SOURCES = %reldir%/agent_bulk_users.c \
	$(gm_load) $(gm_cuda_story)
%canon_reldir%_agent_cuda_bulk_users_LDADD = $(gm_cuda_story_libs)

gm_tests += %reldir%/agent_load_death
GM_TORTURE += %reldir%/agent_load_death
%canon_reldir%_agent_load_death_SOURCES = %reldir%/agent_load_death.c \
	$(gm_load) $(gm_story)
%canon_reldir%_agent_load_death_LDADD = $(gm_story_libs)
gm_tests += %reldir%/agent_cuda_load_death
GM_TORTURE += %reldir%/agent_cuda_load_death
%canon_reldir%_agent_cuda_load_death_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_agent_cuda_load_death_SOURCES = %reldir%/agent_load_death.c \
	$(gm_load) $(gm_cuda_story)
%canon_reldir%_agent_cuda_load_death_LDADD = $(gm_cuda_story_libs)
gm_tests += %reldir%/agent_load_ahead %reldir%/agent_cuda_load_ahead
%canon_reldir%_agent_load_ahead_SOURCES = %reldir%/agent_load_ahead.c \
	%reldir%/fuse.h $(gm_load) $(gm_story)
%canon_reldir%_agent_load_ahead_LDADD = $(gm_story_libs)
%canon_reldir%_agent_cuda_load_ahead_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_agent_cuda_load_ahead_SOURCES = %reldir%/agent_load_ahead.c \
	%reldir%/fuse.h $(gm_load) $(gm_cuda_story)
%canon_reldir%_agent_cuda_load_ahead_LDADD = $(gm_cuda_story_libs)
gm_tests += %reldir%/agent_load_stuck
%canon_reldir%_agent_load_stuck_SOURCES = %reldir%/agent_load_stuck.c \
	%reldir%/fuse.h %reldir%/load_story.h $(gm_story)
%canon_reldir%_agent_load_stuck_LDADD = $(gm_story_libs)

# Checkpoints that are loaded.
gm_model = %reldir%/shards.h $(gm_load)
gm_tests += %reldir%/agent_load_beside %reldir%/agent_cuda_load_beside
%canon_reldir%_agent_load_beside_SOURCES = %reldir%/agent_load_beside.c \
	%reldir%/fuse.h $(gm_model) $(gm_story)
%canon_reldir%_agent_load_beside_LDADD = $(gm_story_libs)
%canon_reldir%_agent_cuda_load_beside_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_agent_cuda_load_beside_SOURCES = \
	%reldir%/agent_load_beside.c %reldir%/fuse.h $(gm_model) \
	$(gm_cuda_story)
%canon_reldir%_agent_cuda_load_beside_LDADD = $(gm_cuda_story_libs)
gm_tests += %reldir%/agent_model
%canon_reldir%_agent_model_SOURCES = %reldir%/agent_model.c $(gm_model) \
	$(gm_story)
%canon_reldir%_agent_model_LDADD = $(gm_story_libs)
gm_tests += %reldir%/agent_cuda_model
%canon_reldir%_agent_cuda_model_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_agent_cuda_model_SOURCES = %reldir%/agent_model.c $(gm_model) \
	$(gm_cuda_story)
%canon_reldir%_agent_cuda_model_LDADD = $(gm_cuda_story_libs)

gm_tests += %reldir%/agent_model_gguf
%canon_reldir%_agent_model_gguf_SOURCES = %reldir%/agent_model_gguf.c \
	%reldir%/gguf_file.h $(gm_model) $(gm_story)
%canon_reldir%_agent_model_gguf_LDADD = $(gm_story_libs)
gm_tests += %reldir%/agent_model_real
%canon_reldir%_agent_model_real_SOURCES = %reldir%/agent_model_real.c \
	$(gm_model) $(gm_story)
%canon_reldir%_agent_model_real_LDADD = $(gm_story_libs)
gm_tests += %reldir%/agent_model_faults
GM_TORTURE += %reldir%/agent_model_faults
%canon_reldir%_agent_model_faults_SOURCES = %reldir%/agent_model_faults.c \
	%reldir%/fuse.h $(gm_model) $(gm_story)
%canon_reldir%_agent_model_faults_LDADD = $(gm_story_libs)

gm_tests += %reldir%/agent_ctl_load
GM_TORTURE += %reldir%/agent_ctl_load
%canon_reldir%_agent_ctl_load_SOURCES = %reldir%/agent_ctl_load.c $(gm_model) \
	$(gm_story)
%canon_reldir%_agent_ctl_load_LDADD = $(gm_story_libs) $(JANSSON_LIBS)

gm_tests += %reldir%/agent_model_share %reldir%/agent_cuda_model_share
GM_TORTURE += %reldir%/agent_model_share %reldir%/agent_cuda_model_share
%canon_reldir%_agent_model_share_SOURCES = %reldir%/agent_model_share.c \
	$(gm_model) $(gm_shares)
%canon_reldir%_agent_model_share_LDADD = $(gm_story_libs) $(JANSSON_LIBS)
%canon_reldir%_agent_cuda_model_share_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_agent_cuda_model_share_SOURCES = \
	%reldir%/agent_model_share.c $(gm_model) %reldir%/shares.h \
	%reldir%/ctl.h $(gm_cuda_story)
%canon_reldir%_agent_cuda_model_share_LDADD = $(gm_cuda_story_libs) \
	$(JANSSON_LIBS)
gm_tests += %reldir%/agent_crowd
%canon_reldir%_agent_crowd_SOURCES = %reldir%/agent_crowd.c $(gm_story)
%canon_reldir%_agent_crowd_LDADD = $(gm_story_libs)
gm_tests += %reldir%/test_model_table
%canon_reldir%_test_model_table_SOURCES = %reldir%/test_model_table.c \
	%reldir%/tap.h
%canon_reldir%_test_model_table_LDADD = lib/libclient.la shm/libshm.la

# What gpumapd keeps of buffers, with workers that do as they are told.
gm_claims = %reldir%/claims.h %reldir%/odd_worker.h %reldir%/raw.h \
	$(gm_story)
gm_claims_libs = %reldir%/libraw.la $(gm_story_libs) shm/libshm.la
gm_tests += %reldir%/agent_claims
%canon_reldir%_agent_claims_SOURCES = %reldir%/agent_claims.c \
	%reldir%/lingering.h $(gm_claims)
%canon_reldir%_agent_claims_LDADD = $(gm_claims_libs)
gm_tests += %reldir%/agent_exports
%canon_reldir%_agent_exports_SOURCES = %reldir%/agent_exports.c $(gm_claims)
%canon_reldir%_agent_exports_LDADD = $(gm_claims_libs)
gm_tests += %reldir%/agent_crossings
%canon_reldir%_agent_crossings_SOURCES = %reldir%/agent_crossings.c \
	$(gm_claims)
%canon_reldir%_agent_crossings_LDADD = $(gm_claims_libs)
check_PROGRAMS += %reldir%/odd_worker
%canon_reldir%_odd_worker_SOURCES = %reldir%/odd_worker.c \
	%reldir%/odd_worker.h

gm_row = %reldir%/worker_row.h %reldir%/hand_client.h %reldir%/tap.h

gm_tests += %reldir%/agent_worker
%canon_reldir%_agent_worker_SOURCES = %reldir%/agent_worker.c $(gm_row)

gm_tests += %reldir%/agent_worker_abuse
%canon_reldir%_agent_worker_abuse_SOURCES = %reldir%/agent_worker_abuse.c \
	$(gm_row)

gm_tests += %reldir%/agent_worker_buffers
%canon_reldir%_agent_worker_buffers_SOURCES = %reldir%/agent_worker_buffers.c \
	%reldir%/worker_cuda.h $(gm_row)
%canon_reldir%_agent_worker_buffers_LDADD = shm/libshm.la $(gm_cuda)
gm_tests += %reldir%/agent_worker_cuda
%canon_reldir%_agent_worker_cuda_SOURCES = %reldir%/agent_worker_cuda.c \
	%reldir%/worker_cuda.h $(gm_row)
%canon_reldir%_agent_worker_cuda_LDADD = shm/libshm.la $(gm_cuda)
gm_tests += %reldir%/agent_worker_burial
GM_TORTURE += %reldir%/agent_worker_burial
%canon_reldir%_agent_worker_burial_SOURCES = \
	%reldir%/agent_worker_burial.c $(gm_row)

gm_tests += %reldir%/test_probe_text
%canon_reldir%_test_probe_text_SOURCES = %reldir%/test_probe_text.c \
	%reldir%/tap.h
%canon_reldir%_test_probe_text_LDADD = agent/probe/libprobe.la

gm_tests += %reldir%/test_probe_card
%canon_reldir%_test_probe_card_SOURCES = %reldir%/test_probe_card.c \
	%reldir%/probe_tree.h %reldir%/tap.h
%canon_reldir%_test_probe_card_LDADD = agent/probe/libprobe.la

# gpumap-probe over the stand-ins.
gm_tests += %reldir%/test_probe
%canon_reldir%_test_probe_SOURCES = %reldir%/test_probe.c \
	%reldir%/probe_scene.h %reldir%/scene.h %reldir%/tap.h
%canon_reldir%_test_probe_LDADD = %reldir%/fake/libmachine.la -lpthread

gm_tests += %reldir%/test_probe_faults
%canon_reldir%_test_probe_faults_SOURCES = %reldir%/test_probe_faults.c \
	%reldir%/probe_scene.h %reldir%/scene.h %reldir%/tap.h
%canon_reldir%_test_probe_faults_LDADD = %reldir%/fake/libmachine.la -lpthread

gm_tests += %reldir%/test_probe_mig
%canon_reldir%_test_probe_mig_SOURCES = %reldir%/test_probe_mig.c \
	%reldir%/probe_scene.h %reldir%/scene.h %reldir%/tap.h
%canon_reldir%_test_probe_mig_LDADD = %reldir%/fake/libmachine.la -lpthread

gm_tests += %reldir%/test_probe_release
%canon_reldir%_test_probe_release_SOURCES = %reldir%/test_probe_release.c \
	%reldir%/probe_scene.h %reldir%/scene.h %reldir%/tap.h
%canon_reldir%_test_probe_release_LDADD = %reldir%/fake/libmachine.la -lpthread

gm_tests += %reldir%/test_probe_abuse
%canon_reldir%_test_probe_abuse_SOURCES = %reldir%/test_probe_abuse.c \
	%reldir%/probe_scene.h %reldir%/scene.h %reldir%/tap.h
%canon_reldir%_test_probe_abuse_LDADD = %reldir%/fake/libmachine.la -lpthread

include $(top_srcdir)/tests/fake/local.mk
include $(top_srcdir)/tests/gpu.mk
endif

EXTRA_DIST += %reldir%/nodes/cpu-only.yaml
EXTRA_DIST += %reldir%/nodes/eight-gpu.yaml
EXTRA_DIST += %reldir%/nodes/halves.yaml
EXTRA_DIST += %reldir%/nodes/laptop.yaml
EXTRA_DIST += %reldir%/nodes/mixed.yaml
EXTRA_DIST += %reldir%/nodes/scarce.yaml
EXTRA_DIST += %reldir%/nodes/small.yaml
EXTRA_DIST += %reldir%/nodes/split.yaml
EXTRA_DIST += %reldir%/nodes/unified.yaml

include $(top_srcdir)/tests/fuzz/local.mk

gm_scripts =
gm_scripts += %reldir%/check_cuda_stub.sh
gm_scripts += %reldir%/check_nccl_stub.sh
gm_scripts += %reldir%/check_docs.sh
gm_scripts += %reldir%/check_examples.sh
gm_scripts += %reldir%/check_headers.sh
gm_scripts += %reldir%/check_labels.sh
gm_scripts += %reldir%/check_operators.sh
gm_scripts += %reldir%/check_pages.sh
gm_scripts += %reldir%/check_points.sh
gm_scripts += %reldir%/check_shm_pure.sh
gm_scripts += %reldir%/check_symbols.sh
gm_scripts += %reldir%/check_torture.sh

check_PROGRAMS += $(gm_tests)
TESTS += $(gm_tests) $(gm_scripts)
EXTRA_DIST += $(gm_scripts) %reldir%/tap.sh
EXTRA_DIST += %reldir%/model/run
EXTRA_DIST += %reldir%/model/collective.pml
EXTRA_DIST += %reldir%/model/credit.pml
EXTRA_DIST += %reldir%/model/journal.pml
EXTRA_DIST += %reldir%/model/ledger.pml
EXTRA_DIST += %reldir%/model/park_client.pml
EXTRA_DIST += %reldir%/model/park_worker.pml
EXTRA_DIST += %reldir%/model/publish.pml
EXTRA_DIST += %reldir%/model/relacy/shm/atomic.h
EXTRA_DIST += %reldir%/model/relacy/test.h
EXTRA_DIST += %reldir%/model/relacy_ring.cpp
EXTRA_DIST += %reldir%/model/relacy_seq.cpp
EXTRA_DIST += %reldir%/model/rows.pml
EXTRA_DIST += %reldir%/model/state.pml

TEST_EXTENSIONS = .sh
LOG_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) \
	$(top_srcdir)/contrib/build-aux/tap-driver.sh
LOG_DRIVER_FLAGS = --comments
SH_LOG_DRIVER = $(LOG_DRIVER)
SH_LOG_DRIVER_FLAGS = $(LOG_DRIVER_FLAGS)

# What a test may ask its environment for.  GM_BUILD names what this build is
# instrumented with (asan tsan coverage fuzz testpoints), empty in a plain one.
AM_TESTS_ENVIRONMENT = \
	abs_top_srcdir='$(abs_top_srcdir)'; export abs_top_srcdir; \
	abs_top_builddir='$(abs_top_builddir)'; export abs_top_builddir; \
	GPUMAPD='$(abs_top_builddir)/agent/daemon/gpumapd'; export GPUMAPD; \
	GPUMAP_WORKER='$(abs_top_builddir)/agent/worker/gpumap-worker'; \
	export GPUMAP_WORKER; \
	GPUMAP_PROBE='$(abs_top_builddir)/agent/probe/gpumap-probe'; \
	export GPUMAP_PROBE; \
	GPUMAP_FAKE_NODE='$(abs_top_srcdir)/tests/nodes/mixed.yaml'; \
	export GPUMAP_FAKE_NODE; \
	CONTRACT_UNDER='$(abs_top_builddir)/tests/fake/stand-in run'; \
	export CONTRACT_UNDER; \
	GPUMAPCTL='$(abs_top_builddir)/agent/ctl/gpumapctl'; export GPUMAPCTL; \
	CUDA_CPPFLAGS='$(CUDA_CPPFLAGS)'; export CUDA_CPPFLAGS; \
	CC='$(CC)'; export CC; NM='$(NM_PROGRAM)'; export NM; \
	GM_STORIES='$(gm_tests)'; export GM_STORIES; \
	GM_TORTURE='$(GM_TORTURE)'; export GM_TORTURE; \
	GM_BUILD='$(GM_BUILD)'; export GM_BUILD;

# The stories of make check that kill and stop, in many more rounds: GM_ROUNDS
# says how many, and HOURS=n goes through the list again until n hours are over.
HOURS = 0
check-torture: all
	@$(MAKE) $(AM_MAKEFLAGS) $(GM_TORTURE)
	@$(AM_TESTS_ENVIRONMENT) \
	GM_ROUNDS=$${GM_ROUNDS-200}; export GM_ROUNDS; \
	end=$$(($$(date +%s) + $(HOURS) * 3600)); failed=; \
	while :; do \
	  for t in $(GM_TORTURE); do \
	    echo "# $$t, $$GM_ROUNDS rounds"; \
	    ./$$t || failed="$$failed $$t"; \
	  done; \
	  test -z "$$failed" && test $$(date +%s) -lt $$end || break; \
	done; \
	test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }

# In a tree configured with --enable-tsan: the tests whose two ends are threads.
check-tsan: $(GM_TSAN_TESTS)
	@$(MAKE) $(AM_MAKEFLAGS) check-TESTS TESTS='$(GM_TSAN_TESTS)'

# A staged install with every test program beside it, for a machine that has no
# build tools: another kernel, or several NUMA nodes.  There,
# $(pkglibexecdir)/staged/run runs them.
gm_staged = $(DESTDIR)$(pkglibexecdir)/staged
stage: all
	$(MAKE) $(AM_MAKEFLAGS) $(check_PROGRAMS) $(check_LTLIBRARIES)
	$(MAKE) $(AM_MAKEFLAGS) install DESTDIR='$(DESTDIR)'
	$(MKDIR_P) '$(gm_staged)/tests/abi'
	for t in $(check_PROGRAMS); do \
	  $(LIBTOOL) --quiet --mode=install $(INSTALL_PROGRAM) $$t \
	    '$(gm_staged)/tests' 2>/dev/null || exit 1; \
	done
	cp $(srcdir)/%reldir%/abi/layout.golden '$(gm_staged)/tests/abi'
	$(MKDIR_P) '$(gm_staged)/tests/nodes' '$(gm_staged)/tests/.libs' \
	  '$(gm_staged)/tests/fake/.libs'
	cp $(srcdir)/%reldir%/nodes/*.yaml '$(gm_staged)/tests/nodes'
	cp %reldir%/.libs/*.so '$(gm_staged)/tests/.libs'
	cp %reldir%/fake/.libs/*.so* '$(gm_staged)/tests/fake/.libs'
	mv '$(gm_staged)/tests/stand-in' '$(gm_staged)/tests/fake'
	$(SED) -e 's|@sbindir[@]|$(sbindir)|; s|@bindir[@]|$(bindir)|' \
	  -e 's|@pkglibexecdir[@]|$(pkglibexecdir)|' \
	  $(srcdir)/%reldir%/staged.in >'$(gm_staged)/run'
	chmod +x '$(gm_staged)/run'
EXTRA_DIST += %reldir%/staged.in

# One JSON object per line.
EXTRA_DIST += %reldir%/bench/run
bench: all
	@$(MAKE) $(AM_MAKEFLAGS) $(GM_BENCH) >&2
	@$(AM_TESTS_ENVIRONMENT) \
	for b in $(GM_BENCH); do ./$$b || exit 1; done; \
	$(SHELL) $(srcdir)/%reldir%/bench/run

# The library against the one of the last release, see .github/CONTRIBUTING.md.
# Locations stay in the record: by them abidiff tells public types from ours.
GM_ABI = $(srcdir)/%reldir%/abi/libgpumap.abi
abi-check: lib/libgpumap.la
	abidiff --drop-private-types --headers-dir2 $(srcdir)/include \
		$(GM_ABI) lib/.libs/libgpumap.so
abi-baseline: lib/libgpumap.la
	abidw --exported-interfaces-only --drop-private-types \
		--no-corpus-path --no-comp-dir-path \
		--headers-dir $(srcdir)/include --out-file $(GM_ABI) \
		lib/.libs/libgpumap.so

format:
	cd $(srcdir) && git ls-files -z '*.c' '*.h' | \
		xargs -0 clang-format -i

.PHONY: check-torture check-tsan check-gpu gm_gpu_programs gm_gpu_install \
	stage bench fuzz-targets abi-check abi-baseline format
