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

gm_tests += %reldir%/unit/shm/point
%canon_reldir%_unit_shm_point_SOURCES = %reldir%/unit/shm/point.c %reldir%/support/tap.h

# The protocols of shm/.  Both ends of seq and ring run as threads too.
gm_tests += %reldir%/unit/shm/seq
%canon_reldir%_unit_shm_seq_SOURCES = %reldir%/unit/shm/seq.c %reldir%/support/tap.h
%canon_reldir%_unit_shm_seq_LDADD = shm/libshm.la -lpthread
GM_TSAN_TESTS += %reldir%/unit/shm/seq

gm_tests += %reldir%/unit/shm/ring
%canon_reldir%_unit_shm_ring_SOURCES = %reldir%/unit/shm/ring.c %reldir%/support/tap.h
%canon_reldir%_unit_shm_ring_LDADD = shm/libshm.la -lpthread
GM_TSAN_TESTS += %reldir%/unit/shm/ring

gm_tests += %reldir%/unit/shm/journal
%canon_reldir%_unit_shm_journal_SOURCES = %reldir%/unit/shm/journal.c %reldir%/support/tap.h

gm_tests += %reldir%/unit/shm/layout
%canon_reldir%_unit_shm_layout_SOURCES = %reldir%/unit/shm/layout.c %reldir%/support/tap.h
EXTRA_DIST += %reldir%/abi/layout.golden

gm_tests += %reldir%/unit/shm/map
%canon_reldir%_unit_shm_map_SOURCES = %reldir%/unit/shm/map.c %reldir%/support/segment.h \
	%reldir%/support/tap.h

gm_tests += %reldir%/unit/shm/torture_publish
%canon_reldir%_unit_shm_torture_publish_SOURCES = %reldir%/unit/shm/torture_publish.c \
	%reldir%/support/segment.h %reldir%/support/tap.h
GM_TORTURE += %reldir%/unit/shm/torture_publish

gm_tests += %reldir%/unit/shm/split
%canon_reldir%_unit_shm_split_SOURCES = %reldir%/unit/shm/split.c %reldir%/support/tap.h
%canon_reldir%_unit_shm_split_LDADD = shm/libshm.la -lm

# The library: from its archive, so that what it hides can be reached.
gm_client = lib/libclient.la shm/libshm.la

gm_tests += %reldir%/unit/lib/arena
%canon_reldir%_unit_lib_arena_SOURCES = %reldir%/unit/lib/arena.c %reldir%/support/tap.h
%canon_reldir%_unit_lib_arena_LDADD = $(gm_client)

gm_tests += %reldir%/unit/lib/attach
%canon_reldir%_unit_lib_attach_SOURCES = %reldir%/unit/lib/attach.c \
	%reldir%/support/segment_file.h %reldir%/support/segment.h %reldir%/support/tap.h
%canon_reldir%_unit_lib_attach_LDADD = $(gm_client) -lpthread
GM_TSAN_TESTS += %reldir%/unit/lib/attach

gm_tests += %reldir%/unit/lib/view
%canon_reldir%_unit_lib_view_SOURCES = %reldir%/unit/lib/view.c \
	%reldir%/support/segment_file.h %reldir%/support/segment.h %reldir%/support/tap.h
%canon_reldir%_unit_lib_view_LDADD = $(gm_client)

gm_tests += %reldir%/unit/lib/cuda_visible_devices
%canon_reldir%_unit_lib_cuda_visible_devices_SOURCES = %reldir%/unit/lib/cuda_visible_devices.c %reldir%/support/tap.h
%canon_reldir%_unit_lib_cuda_visible_devices_LDADD = $(gm_client)

gm_tests += %reldir%/unit/lib/container_devices
%canon_reldir%_unit_lib_container_devices_SOURCES = %reldir%/unit/lib/container_devices.c \
	%reldir%/support/segment_file.h %reldir%/support/segment.h %reldir%/support/tap.h
%canon_reldir%_unit_lib_container_devices_LDADD = $(gm_client)

gm_tests += %reldir%/unit/lib/no_syscalls
%canon_reldir%_unit_lib_no_syscalls_SOURCES = %reldir%/unit/lib/no_syscalls.c \
	%reldir%/support/segment_file.h %reldir%/support/segment.h %reldir%/support/tap.h
%canon_reldir%_unit_lib_no_syscalls_LDADD = $(gm_client)

# The peer is a thread, so TSan sees both ends.
gm_peer = %reldir%/support/peer_session.h %reldir%/support/peer.h %reldir%/support/peer_agent.h \
	%reldir%/support/peer_state.h %reldir%/support/peer_worker.h

gm_tests += %reldir%/unit/lib/buffers
%canon_reldir%_unit_lib_buffers_SOURCES = %reldir%/unit/lib/buffers.c \
	$(gm_peer) %reldir%/support/segment_file.h %reldir%/support/segment.h %reldir%/support/tap.h
%canon_reldir%_unit_lib_buffers_LDADD = $(gm_client) -lpthread
GM_TSAN_TESTS += %reldir%/unit/lib/buffers

gm_tests += %reldir%/unit/lib/handle_check
%canon_reldir%_unit_lib_handle_check_SOURCES = %reldir%/unit/lib/handle_check.c \
	$(gm_peer) %reldir%/support/segment_file.h %reldir%/support/segment.h %reldir%/support/tap.h
%canon_reldir%_unit_lib_handle_check_LDADD = $(gm_client) -lpthread
GM_TSAN_TESTS += %reldir%/unit/lib/handle_check

gm_tests += %reldir%/unit/lib/shared_memory
%canon_reldir%_unit_lib_shared_memory_SOURCES = %reldir%/unit/lib/shared_memory.c \
	$(gm_peer) %reldir%/support/segment_file.h %reldir%/support/segment.h %reldir%/support/tap.h
%canon_reldir%_unit_lib_shared_memory_LDADD = $(gm_client) -lpthread
GM_TSAN_TESTS += %reldir%/unit/lib/shared_memory

gm_tests += %reldir%/unit/lib/submit
%canon_reldir%_unit_lib_submit_SOURCES = %reldir%/unit/lib/submit.c \
	$(gm_peer) %reldir%/support/segment_file.h \
	%reldir%/support/segment.h %reldir%/support/tap.h
%canon_reldir%_unit_lib_submit_LDADD = $(gm_client) -lpthread
GM_TSAN_TESTS += %reldir%/unit/lib/submit

gm_tests += %reldir%/unit/lib/second_slot
%canon_reldir%_unit_lib_second_slot_SOURCES = %reldir%/unit/lib/second_slot.c \
	$(gm_peer) %reldir%/support/segment_file.h \
	%reldir%/support/segment.h %reldir%/support/tap.h
%canon_reldir%_unit_lib_second_slot_LDADD = $(gm_client) -lpthread
GM_TSAN_TESTS += %reldir%/unit/lib/second_slot

gm_tests += %reldir%/unit/lib/completion
%canon_reldir%_unit_lib_completion_SOURCES = %reldir%/unit/lib/completion.c \
	$(gm_peer) %reldir%/support/segment_file.h \
	%reldir%/support/segment.h %reldir%/support/tap.h
%canon_reldir%_unit_lib_completion_LDADD = $(gm_client) -lpthread

gm_tests += %reldir%/unit/lib/entry_fields
%canon_reldir%_unit_lib_entry_fields_SOURCES = %reldir%/unit/lib/entry_fields.c \
	$(gm_peer) %reldir%/support/segment_file.h \
	%reldir%/support/segment.h %reldir%/support/tap.h
%canon_reldir%_unit_lib_entry_fields_LDADD = $(gm_client) -lpthread
gm_tests += %reldir%/unit/lib/huge_pages
%canon_reldir%_unit_lib_huge_pages_SOURCES = %reldir%/unit/lib/huge_pages.c %reldir%/support/huge_pages.h \
	$(gm_peer) %reldir%/support/segment_file.h \
	%reldir%/support/segment.h %reldir%/support/tap.h
%canon_reldir%_unit_lib_huge_pages_LDADD = $(gm_client) -lpthread
GM_TSAN_TESTS += %reldir%/unit/lib/huge_pages

gm_tests += %reldir%/unit/lib/plan_request
%canon_reldir%_unit_lib_plan_request_SOURCES = %reldir%/unit/lib/plan_request.c \
	$(gm_peer) %reldir%/support/segment_file.h \
	%reldir%/support/segment.h %reldir%/support/tap.h
%canon_reldir%_unit_lib_plan_request_LDADD = $(gm_client) -lpthread
GM_TSAN_TESTS += %reldir%/unit/lib/plan_request

gm_tests += %reldir%/unit/lib/session
%canon_reldir%_unit_lib_session_SOURCES = %reldir%/unit/lib/session.c \
	$(gm_peer) %reldir%/support/segment_file.h \
	%reldir%/support/segment.h %reldir%/support/tap.h
%canon_reldir%_unit_lib_session_LDADD = $(gm_client) -lpthread
GM_TSAN_TESTS += %reldir%/unit/lib/session
gm_tests += %reldir%/unit/lib/comm_open
%canon_reldir%_unit_lib_comm_open_SOURCES = %reldir%/unit/lib/comm_open.c \
	$(gm_peer) %reldir%/support/segment_file.h \
	%reldir%/support/segment.h %reldir%/support/tap.h
%canon_reldir%_unit_lib_comm_open_LDADD = $(gm_client) -lpthread
GM_TSAN_TESTS += %reldir%/unit/lib/comm_open

if AGENT
gm_tests += %reldir%/unit/ctl/parse
%canon_reldir%_unit_ctl_parse_SOURCES = %reldir%/unit/ctl/parse.c \
	agent/ctl/parse.c %reldir%/support/tap.h

gm_tests += %reldir%/unit/plan/spec
%canon_reldir%_unit_plan_spec_SOURCES = %reldir%/unit/plan/spec.c %reldir%/support/tap.h
%canon_reldir%_unit_plan_spec_LDADD = agent/plan/libplan.la

gm_tests += %reldir%/unit/plan/placement
%canon_reldir%_unit_plan_placement_SOURCES = %reldir%/unit/plan/placement.c \
	%reldir%/support/tap.h
%canon_reldir%_unit_plan_placement_LDADD = agent/plan/libplan.la

gm_tests += %reldir%/unit/plan/sizes
%canon_reldir%_unit_plan_sizes_SOURCES = %reldir%/unit/plan/sizes.c %reldir%/support/tap.h
%canon_reldir%_unit_plan_sizes_LDADD = agent/plan/libplan.la

gm_tests += %reldir%/unit/plan/fill
%canon_reldir%_unit_plan_fill_SOURCES = %reldir%/unit/plan/fill.c %reldir%/support/dice.h \
	%reldir%/support/tap.h
%canon_reldir%_unit_plan_fill_LDADD = agent/plan/libplan.la

gm_tests += %reldir%/unit/plan/balance
%canon_reldir%_unit_plan_balance_SOURCES = %reldir%/unit/plan/balance.c \
	%reldir%/support/dice.h %reldir%/support/tap.h
%canon_reldir%_unit_plan_balance_LDADD = agent/plan/libplan.la

gm_tests += %reldir%/unit/plan/topology
%canon_reldir%_unit_plan_topology_SOURCES = %reldir%/unit/plan/topology.c \
	%reldir%/support/dice.h %reldir%/support/tap.h
%canon_reldir%_unit_plan_topology_LDADD = agent/plan/libplan.la

gm_tests += %reldir%/unit/plan/nodefile
%canon_reldir%_unit_plan_nodefile_SOURCES = %reldir%/unit/plan/nodefile.c %reldir%/support/tap.h
%canon_reldir%_unit_plan_nodefile_LDADD = agent/plan/libplan.la

gm_tests += %reldir%/unit/plan/mapper
%canon_reldir%_unit_plan_mapper_SOURCES = %reldir%/unit/plan/mapper.c %reldir%/support/tap.h
%canon_reldir%_unit_plan_mapper_LDADD = agent/plan/libplan.la

gm_tests += %reldir%/unit/plan/batch
%canon_reldir%_unit_plan_batch_SOURCES = %reldir%/unit/plan/batch.c %reldir%/support/tap.h
%canon_reldir%_unit_plan_batch_LDADD = agent/plan/libplan.la \
	agent/mesh/libmesh.la shm/libshm.la

gm_tests += %reldir%/unit/mesh/mesh
%canon_reldir%_unit_mesh_mesh_SOURCES = %reldir%/unit/mesh/mesh.c %reldir%/support/tap.h
%canon_reldir%_unit_mesh_mesh_LDADD = agent/mesh/libmesh.la agent/plan/libplan.la

gm_tests += %reldir%/unit/mask/mask
%canon_reldir%_unit_mask_mask_SOURCES = %reldir%/unit/mask/mask.c %reldir%/support/tap.h
%canon_reldir%_unit_mask_mask_LDADD = agent/mask/libmask.la agent/plan/libplan.la

gm_tests += %reldir%/unit/mask/mask_batch
%canon_reldir%_unit_mask_mask_batch_SOURCES = %reldir%/unit/mask/mask_batch.c \
	%reldir%/support/tap.h
%canon_reldir%_unit_mask_mask_batch_LDADD = agent/mask/libmask.la \
	agent/plan/libplan.la agent/mesh/libmesh.la shm/libshm.la \
	$(JANSSON_LIBS)

gm_tests += %reldir%/unit/mask/npy
%canon_reldir%_unit_mask_npy_SOURCES = %reldir%/unit/mask/npy.c %reldir%/support/tap.h
%canon_reldir%_unit_mask_npy_LDADD = agent/mask/libmask.la agent/plan/libplan.la

gm_tests += %reldir%/unit/mask/mask_tensor
%canon_reldir%_unit_mask_mask_tensor_SOURCES = %reldir%/unit/mask/mask_tensor.c \
	%reldir%/support/tap.h
%canon_reldir%_unit_mask_mask_tensor_LDADD = agent/mask/libmask.la \
	agent/plan/libplan.la

gm_tests += %reldir%/unit/mask/picture
%canon_reldir%_unit_mask_picture_SOURCES = %reldir%/unit/mask/picture.c %reldir%/support/tap.h
%canon_reldir%_unit_mask_picture_LDADD = agent/mask/libmask.la agent/plan/libplan.la

gm_tests += %reldir%/unit/plan/pipeline
%canon_reldir%_unit_plan_pipeline_SOURCES = %reldir%/unit/plan/pipeline.c \
	%reldir%/support/dice.h %reldir%/support/tap.h
%canon_reldir%_unit_plan_pipeline_LDADD = agent/plan/libplan.la

gm_tests += %reldir%/unit/plan/model_config
%canon_reldir%_unit_plan_model_config_SOURCES = %reldir%/unit/plan/model_config.c \
	%reldir%/support/tap.h
%canon_reldir%_unit_plan_model_config_LDADD = agent/plan/libplan.la $(JANSSON_LIBS)

gm_tests += %reldir%/unit/plan/gguf
%canon_reldir%_unit_plan_gguf_SOURCES = %reldir%/unit/plan/gguf.c %reldir%/support/tap.h
%canon_reldir%_unit_plan_gguf_LDADD = agent/plan/libplan.la

gm_tests += %reldir%/unit/plan/auto
%canon_reldir%_unit_plan_auto_SOURCES = %reldir%/unit/plan/auto.c %reldir%/support/dice.h \
	%reldir%/support/tap.h
%canon_reldir%_unit_plan_auto_LDADD = agent/plan/libplan.la

gm_tests += %reldir%/unit/plan/plan
%canon_reldir%_unit_plan_plan_SOURCES = %reldir%/unit/plan/plan.c %reldir%/support/dice.h \
	%reldir%/support/tap.h
%canon_reldir%_unit_plan_plan_LDADD = agent/plan/libplan.la shm/libshm.la

gm_tests += %reldir%/unit/plan/published_models
%canon_reldir%_unit_plan_published_models_SOURCES = %reldir%/unit/plan/published_models.c \
	%reldir%/support/tap.h
%canon_reldir%_unit_plan_published_models_LDADD = agent/plan/libplan.la shm/libshm.la

gm_tests += %reldir%/unit/plan/strategies
%canon_reldir%_unit_plan_strategies_SOURCES = %reldir%/unit/plan/strategies.c \
	%reldir%/support/dice.h %reldir%/support/tap.h
%canon_reldir%_unit_plan_strategies_LDADD = agent/plan/libplan.la shm/libshm.la

gm_tests += %reldir%/unit/common/close_thread
%canon_reldir%_unit_common_close_thread_SOURCES = %reldir%/unit/common/close_thread.c %reldir%/support/tap.h
%canon_reldir%_unit_common_close_thread_LDADD = agent/common/libcommon.la $(NUMA_LIBS) \
	-lpthread

gm_tests += %reldir%/unit/comm/combine
%canon_reldir%_unit_comm_combine_SOURCES = %reldir%/unit/comm/combine.c \
	%reldir%/support/combine_ref.h %reldir%/support/dice.h \
	%reldir%/support/operators_ref.c %reldir%/support/operators_ref.h \
	%reldir%/support/operators_case.h %reldir%/support/tap.h
%canon_reldir%_unit_comm_combine_LDADD = agent/comm/libcomm.la \
	agent/common/libcommon.la -lm
gm_tests += %reldir%/unit/comm/comm
%canon_reldir%_unit_comm_comm_SOURCES = %reldir%/unit/comm/comm.c %reldir%/support/comm_ranks.h \
	%reldir%/support/dice.h %reldir%/support/operators_ref.c %reldir%/support/operators_ref.h \
	%reldir%/support/operators_case.h %reldir%/support/tap.h
%canon_reldir%_unit_comm_comm_LDADD = agent/comm/libcomm.la \
	agent/common/libcommon.la -lm -lpthread
GM_TSAN_TESTS += %reldir%/unit/comm/comm
gm_tests += %reldir%/unit/comm/comm_init
%canon_reldir%_unit_comm_comm_init_SOURCES = %reldir%/unit/comm/comm_init.c \
	%reldir%/support/comm_ranks.h %reldir%/support/dice.h %reldir%/support/tap.h
%canon_reldir%_unit_comm_comm_init_LDADD = agent/comm/libcomm.la \
	agent/common/libcommon.la -lm -lpthread
GM_TSAN_TESTS += %reldir%/unit/comm/comm_init

gm_tests += %reldir%/unit/device/host_reduce
%canon_reldir%_unit_device_host_reduce_SOURCES = %reldir%/unit/device/host_reduce.c \
	%reldir%/support/dice.h %reldir%/support/operators_ref.c %reldir%/support/operators_ref.h \
	%reldir%/support/operators_case.h %reldir%/support/tap.h
%canon_reldir%_unit_device_host_reduce_LDADD = agent/device/libdevice.la \
	agent/common/libcommon.la -lm
gm_tests += %reldir%/unit/device/host_operators
%canon_reldir%_unit_device_host_operators_SOURCES = %reldir%/unit/device/host_operators.c \
	%reldir%/support/dice.h %reldir%/support/operators_ref.c %reldir%/support/operators_ref.h \
	%reldir%/support/operators_case.h %reldir%/support/tap.h
%canon_reldir%_unit_device_host_operators_LDADD = agent/device/libdevice.la \
	agent/common/libcommon.la -lm
gm_tests += %reldir%/unit/device/host
%canon_reldir%_unit_device_host_SOURCES = %reldir%/unit/device/host.c %reldir%/support/tap.h
%canon_reldir%_unit_device_host_LDADD = agent/device/libdevice.la \
	agent/common/libcommon.la $(NUMA_LIBS) -lm

gm_tests += %reldir%/unit/common/huge_pages
%canon_reldir%_unit_common_huge_pages_SOURCES = %reldir%/unit/common/huge_pages.c %reldir%/support/huge_pages.h \
	%reldir%/support/tap.h
%canon_reldir%_unit_common_huge_pages_LDADD = agent/device/libdevice.la \
	agent/common/libcommon.la $(NUMA_LIBS) -lm

# NVIDIA's libraries, as little of them as each test needs.
gm_cuda = agent/cuda/libcu.la $(DL_LIBS)
gm_tiny_flags = $(AM_LDFLAGS) -module -avoid-version -rpath /nowhere
check_LTLIBRARIES += %reldir%/tiny/driver.la %reldir%/tiny/driver_old.la \
	%reldir%/tiny/driver_else.la %reldir%/tiny/nvml.la \
	%reldir%/tiny/nvml_bare.la
%canon_reldir%_tiny_driver_la_SOURCES = %reldir%/support/tiny/driver.c \
	%reldir%/support/tiny/driver.h
%canon_reldir%_tiny_driver_la_LDFLAGS = $(gm_tiny_flags)
%canon_reldir%_tiny_driver_la_LIBADD =
%canon_reldir%_tiny_driver_old_la_SOURCES = %reldir%/support/tiny/driver.c
%canon_reldir%_tiny_driver_old_la_CPPFLAGS = $(AM_CPPFLAGS) -DTINY_OLD
%canon_reldir%_tiny_driver_old_la_LDFLAGS = $(gm_tiny_flags)
%canon_reldir%_tiny_driver_old_la_LIBADD =
%canon_reldir%_tiny_driver_else_la_SOURCES = %reldir%/support/tiny/driver.c
%canon_reldir%_tiny_driver_else_la_CPPFLAGS = $(AM_CPPFLAGS) -DTINY_ELSE
%canon_reldir%_tiny_driver_else_la_LDFLAGS = $(gm_tiny_flags)
%canon_reldir%_tiny_driver_else_la_LIBADD =
%canon_reldir%_tiny_nvml_la_SOURCES = %reldir%/support/tiny/nvml.c
%canon_reldir%_tiny_nvml_la_LDFLAGS = $(gm_tiny_flags)
%canon_reldir%_tiny_nvml_la_LIBADD =
%canon_reldir%_tiny_nvml_bare_la_SOURCES = %reldir%/support/tiny/nvml.c
%canon_reldir%_tiny_nvml_bare_la_CPPFLAGS = $(AM_CPPFLAGS) -DTINY_BARE
%canon_reldir%_tiny_nvml_bare_la_LDFLAGS = $(gm_tiny_flags)
%canon_reldir%_tiny_nvml_bare_la_LIBADD =

gm_tests += %reldir%/unit/cuda/abi
%canon_reldir%_unit_cuda_abi_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_unit_cuda_abi_SOURCES = %reldir%/unit/cuda/abi.c \
	%reldir%/support/tap.h
%canon_reldir%_unit_cuda_abi_LDADD =

gm_tests += %reldir%/unit/cuda/cuerror
%canon_reldir%_unit_cuda_cuerror_SOURCES = %reldir%/unit/cuda/cuerror.c %reldir%/support/tap.h
%canon_reldir%_unit_cuda_cuerror_LDADD = $(gm_cuda)

gm_tests += %reldir%/unit/cuda/driver
%canon_reldir%_unit_cuda_driver_SOURCES = %reldir%/unit/cuda/driver.c \
	%reldir%/support/library_dirs.h %reldir%/support/tap.h
%canon_reldir%_unit_cuda_driver_LDADD = $(gm_cuda)

gm_tests += %reldir%/unit/cuda/nvml
%canon_reldir%_unit_cuda_nvml_SOURCES = %reldir%/unit/cuda/nvml.c %reldir%/support/library_dirs.h \
	%reldir%/support/tap.h
%canon_reldir%_unit_cuda_nvml_LDADD = $(gm_cuda)

gm_tests += %reldir%/unit/cuda/operators
%canon_reldir%_unit_cuda_operators_SOURCES = %reldir%/unit/cuda/operators.c \
	%reldir%/support/tap.h
%canon_reldir%_unit_cuda_operators_LDADD = $(gm_cuda)

# The operators' definition in C, and a reader of PTX that holds the text to it.
check_LTLIBRARIES += %reldir%/libptx.la
%canon_reldir%_libptx_la_SOURCES = %reldir%/support/operators_ref.c \
	%reldir%/support/operators_ref.h %reldir%/support/ptx.c %reldir%/support/ptx.h \
	%reldir%/support/ptx_parse.c %reldir%/support/ptx_parse.h
%canon_reldir%_libptx_la_CFLAGS = $(AM_CFLAGS) -ffp-contract=off
%canon_reldir%_libptx_la_LIBADD =
gm_tests += %reldir%/unit/cuda/operators_ptx
%canon_reldir%_unit_cuda_operators_ptx_SOURCES = %reldir%/unit/cuda/operators_ptx.c %reldir%/support/ptx_case.h \
	%reldir%/support/dice.h %reldir%/support/operators_case.h %reldir%/support/tap.h
%canon_reldir%_unit_cuda_operators_ptx_LDADD = %reldir%/libptx.la $(gm_cuda) -lm
gm_tests += %reldir%/unit/cuda/operators_ptx_lengths
%canon_reldir%_unit_cuda_operators_ptx_lengths_SOURCES = %reldir%/unit/cuda/operators_ptx_lengths.c \
	%reldir%/support/ptx_case.h %reldir%/support/dice.h %reldir%/support/operators_case.h \
	%reldir%/support/tap.h
%canon_reldir%_unit_cuda_operators_ptx_lengths_LDADD = %reldir%/libptx.la $(gm_cuda) -lm

gm_tests += %reldir%/contract/cuda_visible_devices
%canon_reldir%_contract_cuda_visible_devices_SOURCES = %reldir%/contract/cuda_visible_devices.c \
	%reldir%/support/tap.h
%canon_reldir%_contract_cuda_visible_devices_LDADD = $(gm_client) $(gm_cuda)

# The operators on a device, and what the stand-in runs for them.
gm_tests += %reldir%/contract/operators
%canon_reldir%_contract_operators_SOURCES = %reldir%/contract/operators.c \
	%reldir%/support/dice.h %reldir%/support/operators_case.h %reldir%/support/tap.h
%canon_reldir%_contract_operators_LDADD = %reldir%/libptx.la $(gm_cuda) -lm
check_LTLIBRARIES += %reldir%/operators_kernels.la
%canon_reldir%_operators_kernels_la_SOURCES = %reldir%/support/operators_kernels.c
%canon_reldir%_operators_kernels_la_LDFLAGS = $(gm_tiny_flags)
%canon_reldir%_operators_kernels_la_LIBADD = %reldir%/libptx.la $(gm_cuda) -lm

# The backend of CUDA rows, on the stand-in or on a card.
gm_cuda_backend = agent/device/libdevice.la agent/common/libcommon.la \
	$(gm_cuda) $(NUMA_LIBS) -lpthread
gm_tests += %reldir%/unit/device/cuda
%canon_reldir%_unit_device_cuda_SOURCES = %reldir%/unit/device/cuda.c \
	%reldir%/support/cuda_backend.h %reldir%/support/dice.h %reldir%/support/tap.h
%canon_reldir%_unit_device_cuda_LDADD = $(gm_cuda_backend)
gm_tests += %reldir%/unit/device/cuda_memory
%canon_reldir%_unit_device_cuda_memory_SOURCES = \
	%reldir%/unit/device/cuda_memory.c \
	%reldir%/support/cuda_backend.h %reldir%/support/dice.h %reldir%/support/tap.h
%canon_reldir%_unit_device_cuda_memory_LDADD = $(gm_cuda_backend)
GM_TSAN_TESTS += %reldir%/unit/device/cuda %reldir%/unit/device/cuda_memory
gm_tests += %reldir%/unit/device/cuda_faults
%canon_reldir%_unit_device_cuda_faults_SOURCES = \
	%reldir%/unit/device/cuda_faults.c %reldir%/support/fake_machine.h \
	%reldir%/support/cuda_backend.h %reldir%/support/dice.h %reldir%/support/tap.h
%canon_reldir%_unit_device_cuda_faults_LDADD = $(gm_cuda_backend) \
	tests/fake/libmachine.la
gm_tests += %reldir%/unit/device/cuda_kernel
%canon_reldir%_unit_device_cuda_kernel_SOURCES = \
	%reldir%/unit/device/cuda_kernel.c %reldir%/support/fake_machine.h %reldir%/support/program_kernels.h \
	%reldir%/support/cuda_backend.h %reldir%/support/dice.h %reldir%/support/tap.h
%canon_reldir%_unit_device_cuda_kernel_LDADD = $(gm_cuda_backend) \
	tests/fake/libmachine.la

gm_tests += %reldir%/unit/device/cuda_remote_copy
%canon_reldir%_unit_device_cuda_remote_copy_SOURCES = %reldir%/unit/device/cuda_remote_copy.c \
	%reldir%/support/fake_machine.h %reldir%/support/cuda_backend.h %reldir%/support/dice.h \
	%reldir%/support/tap.h
%canon_reldir%_unit_device_cuda_remote_copy_LDADD = $(gm_cuda_backend) \
	tests/fake/libmachine.la

gm_tests += %reldir%/unit/device/cuda_nccl_group
%canon_reldir%_unit_device_cuda_nccl_group_SOURCES = %reldir%/unit/device/cuda_nccl_group.c \
	%reldir%/support/fake_machine.h %reldir%/support/cuda_backend.h %reldir%/support/dice.h \
	%reldir%/stubs/nccl.h %reldir%/support/tap.h
%canon_reldir%_unit_device_cuda_nccl_group_LDADD = $(gm_cuda_backend) \
	tests/fake/libmachine.la

gm_tests += %reldir%/unit/plan/safetensors
%canon_reldir%_unit_plan_safetensors_SOURCES = %reldir%/unit/plan/safetensors.c \
	%reldir%/support/tap.h
%canon_reldir%_unit_plan_safetensors_LDADD = agent/plan/libplan.la

gm_tests += %reldir%/unit/plan/checkpoint
%canon_reldir%_unit_plan_checkpoint_SOURCES = %reldir%/unit/plan/checkpoint.c \
	%reldir%/support/tap.h
%canon_reldir%_unit_plan_checkpoint_LDADD = agent/plan/libplan.la

gm_tests += %reldir%/unit/common/idset
%canon_reldir%_unit_common_idset_SOURCES = %reldir%/unit/common/idset.c %reldir%/support/tap.h
%canon_reldir%_unit_common_idset_LDADD = agent/common/libcommon.la

gm_tests += %reldir%/unit/common/numa_bind
%canon_reldir%_unit_common_numa_bind_SOURCES = %reldir%/unit/common/numa_bind.c %reldir%/support/tap.h
%canon_reldir%_unit_common_numa_bind_LDADD = agent/common/libcommon.la $(NUMA_LIBS) \
	$(SECCOMP_LIBS)

gm_daemon = agent/daemon/libdaemon.la agent/mesh/libmesh.la \
	agent/plan/libplan.la \
	agent/cuda/libcu.la agent/common/libcommon.la shm/libshm.la \
	$(NUMA_LIBS) $(URING_LIBS)

gm_tests += %reldir%/unit/common/log
%canon_reldir%_unit_common_log_SOURCES = %reldir%/unit/common/log.c %reldir%/support/tap.h
%canon_reldir%_unit_common_log_LDADD = agent/common/libcommon.la

gm_tests += %reldir%/unit/daemon/block_alloc
%canon_reldir%_unit_daemon_block_alloc_SOURCES = %reldir%/unit/daemon/block_alloc.c %reldir%/support/tap.h
%canon_reldir%_unit_daemon_block_alloc_LDADD = $(gm_daemon)

gm_tests += %reldir%/unit/daemon/publish
%canon_reldir%_unit_daemon_publish_SOURCES = %reldir%/unit/daemon/publish.c %reldir%/support/tap.h
%canon_reldir%_unit_daemon_publish_LDADD = $(gm_daemon)

gm_tests += %reldir%/unit/daemon/ledger
%canon_reldir%_unit_daemon_ledger_SOURCES = %reldir%/unit/daemon/ledger.c \
	%reldir%/support/ledger_rig.h %reldir%/support/tap.h
%canon_reldir%_unit_daemon_ledger_LDADD = $(gm_daemon)

gm_tests += %reldir%/unit/daemon/ledger_random
%canon_reldir%_unit_daemon_ledger_random_SOURCES = %reldir%/unit/daemon/ledger_random.c \
	%reldir%/support/ledger_rig.h %reldir%/support/dice.h %reldir%/support/tap.h
%canon_reldir%_unit_daemon_ledger_random_LDADD = $(gm_daemon)

# One row's processes, played by the tests.
gm_keeper_scene = %reldir%/support/unkillable_child.h %reldir%/support/fake_worker_process.h \
	%reldir%/support/worker_process_rig.h %reldir%/support/tap.h
gm_tests += %reldir%/unit/daemon/worker_process %reldir%/unit/daemon/worker_process_refused %reldir%/unit/daemon/drain
gm_tests += %reldir%/unit/daemon/user_queue
%canon_reldir%_unit_daemon_worker_process_SOURCES = %reldir%/unit/daemon/worker_process.c $(gm_keeper_scene)
%canon_reldir%_unit_daemon_worker_process_LDADD = $(gm_daemon)
%canon_reldir%_unit_daemon_user_queue_SOURCES = %reldir%/unit/daemon/user_queue.c $(gm_keeper_scene)
%canon_reldir%_unit_daemon_user_queue_LDADD = $(gm_daemon)
%canon_reldir%_unit_daemon_worker_process_refused_SOURCES = %reldir%/unit/daemon/worker_process_refused.c \
	$(gm_keeper_scene)
%canon_reldir%_unit_daemon_worker_process_refused_LDADD = $(gm_daemon)
%canon_reldir%_unit_daemon_drain_SOURCES = %reldir%/unit/daemon/drain.c $(gm_keeper_scene)
%canon_reldir%_unit_daemon_drain_LDADD = $(gm_daemon)
%canon_reldir%_unit_daemon_drain_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=calloc
gm_tests += %reldir%/unit/daemon/received_fds
%canon_reldir%_unit_daemon_received_fds_SOURCES = %reldir%/unit/daemon/received_fds.c \
	%reldir%/support/slow_close.h %reldir%/support/tap.h
%canon_reldir%_unit_daemon_received_fds_LDADD = $(gm_daemon)
gm_tests += %reldir%/unit/daemon/mask_quota
%canon_reldir%_unit_daemon_mask_quota_SOURCES = %reldir%/unit/daemon/mask_quota.c \
	$(gm_keeper_scene)
%canon_reldir%_unit_daemon_mask_quota_LDADD = $(gm_daemon)

gm_tests += %reldir%/unit/daemon/mask_refused
%canon_reldir%_unit_daemon_mask_refused_SOURCES = %reldir%/unit/daemon/mask_refused.c \
	%reldir%/support/tap.h
%canon_reldir%_unit_daemon_mask_refused_LDADD = $(gm_daemon)

gm_tests += %reldir%/unit/daemon/spawn
%canon_reldir%_unit_daemon_spawn_SOURCES = %reldir%/unit/daemon/spawn.c \
	%reldir%/support/unkillable_child.h %reldir%/support/tap.h
%canon_reldir%_unit_daemon_spawn_LDADD = $(gm_daemon)

gm_tests += %reldir%/unit/daemon/deferred_close
%canon_reldir%_unit_daemon_deferred_close_SOURCES = %reldir%/unit/daemon/deferred_close.c \
	%reldir%/support/slow_close.h %reldir%/support/tap.h
%canon_reldir%_unit_daemon_deferred_close_LDADD = $(gm_daemon) -lpthread
GM_TSAN_TESTS += %reldir%/unit/daemon/deferred_close

gm_tests += %reldir%/unit/daemon/uuid
%canon_reldir%_unit_daemon_uuid_SOURCES = %reldir%/unit/daemon/uuid.c %reldir%/support/tap.h
%canon_reldir%_unit_daemon_uuid_LDADD = $(gm_daemon)

gm_tests += %reldir%/unit/daemon/p2p
%canon_reldir%_unit_daemon_p2p_SOURCES = %reldir%/unit/daemon/p2p.c %reldir%/support/tap.h
%canon_reldir%_unit_daemon_p2p_LDADD = $(gm_daemon)

gm_tests += %reldir%/unit/daemon/config
%canon_reldir%_unit_daemon_config_SOURCES = %reldir%/unit/daemon/config.c %reldir%/support/tap.h
%canon_reldir%_unit_daemon_config_LDADD = $(gm_daemon)

gm_tests += %reldir%/unit/daemon/io_thread
%canon_reldir%_unit_daemon_io_thread_SOURCES = %reldir%/unit/daemon/io_thread.c %reldir%/support/tap.h
%canon_reldir%_unit_daemon_io_thread_LDADD = $(gm_daemon) -lpthread
GM_TSAN_TESTS += %reldir%/unit/daemon/io_thread

gm_tests += %reldir%/unit/daemon/transaction
%canon_reldir%_unit_daemon_transaction_SOURCES = %reldir%/unit/daemon/transaction.c %reldir%/support/tap.h
%canon_reldir%_unit_daemon_transaction_LDADD = $(gm_daemon) -lpthread
GM_TSAN_TESTS += %reldir%/unit/daemon/transaction

gm_tests += %reldir%/unit/daemon/state_dir
%canon_reldir%_unit_daemon_state_dir_SOURCES = %reldir%/unit/daemon/state_dir.c %reldir%/support/tap.h
%canon_reldir%_unit_daemon_state_dir_LDADD = $(gm_daemon) $(SECCOMP_LIBS)

gm_tests += %reldir%/unit/daemon/map_text
%canon_reldir%_unit_daemon_map_text_SOURCES = %reldir%/unit/daemon/map_text.c \
	%reldir%/support/dice.h %reldir%/support/tap.h
%canon_reldir%_unit_daemon_map_text_LDADD = $(gm_daemon)

# A gpumapd of the test's own, for every story that needs one.
check_LTLIBRARIES += %reldir%/libagent.la
%canon_reldir%_libagent_la_SOURCES = %reldir%/support/agent.c %reldir%/support/agent.h \
	%reldir%/support/process.h
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
	%reldir%/bench/bench_collective.c %reldir%/support/collective.h \
	%reldir%/support/operators_ref.c
%canon_reldir%_bench_bench_collective_LDADD = agent/bench/libbench.la \
	%reldir%/libagent.la lib/libgpumap.la agent/cuda/libcu.la \
	$(JANSSON_LIBS) -lm
GM_BENCH += %reldir%/bench/bench_masks
check_PROGRAMS += %reldir%/bench/bench_masks
%canon_reldir%_bench_bench_masks_CPPFLAGS = $(AM_CPPFLAGS) \
	-I$(srcdir)/%reldir%
%canon_reldir%_bench_bench_masks_SOURCES = %reldir%/bench/bench_masks.c \
	%reldir%/support/agent.h %reldir%/support/story.h
%canon_reldir%_bench_bench_masks_LDADD = agent/bench/libbench.la \
	%reldir%/libagent.la lib/libgpumap.la shm/libshm.la

gm_tests += %reldir%/system/map/segment
%canon_reldir%_system_map_segment_SOURCES = %reldir%/system/map/segment.c \
	%reldir%/support/agent_segment.h %reldir%/support/tap.h
%canon_reldir%_system_map_segment_LDADD = %reldir%/libagent.la shm/libshm.la

gm_tests += %reldir%/system/jobs/operations
%canon_reldir%_system_jobs_operations_SOURCES = %reldir%/system/jobs/operations.c %reldir%/support/tap.h
%canon_reldir%_system_jobs_operations_LDADD = %reldir%/libagent.la lib/libgpumap.la

# As the README shows it; agent_client runs it.
check_PROGRAMS += %reldir%/support/readme_client
%canon_reldir%_support_readme_client_SOURCES = %reldir%/support/readme_client.c
%canon_reldir%_support_readme_client_LDADD = lib/libgpumap.la

# gpumapctl as its users call it.
gm_tests += %reldir%/system/ctl/status %reldir%/system/ctl/map \
	%reldir%/system/ctl/mask %reldir%/system/ctl/plan
%canon_reldir%_system_ctl_status_SOURCES = %reldir%/system/ctl/status.c %reldir%/support/ctl.h \
	%reldir%/support/tap.h
%canon_reldir%_system_ctl_status_LDADD = %reldir%/libagent.la lib/libgpumap.la \
	$(JANSSON_LIBS)
%canon_reldir%_system_ctl_map_SOURCES = %reldir%/system/ctl/map.c \
	%reldir%/support/ctl.h %reldir%/support/ctl_model.h %reldir%/support/tap.h
%canon_reldir%_system_ctl_map_LDADD = %reldir%/libagent.la \
	lib/libgpumap.la $(JANSSON_LIBS)
%canon_reldir%_system_ctl_mask_SOURCES = %reldir%/system/ctl/mask.c \
	%reldir%/support/ctl.h %reldir%/support/tap.h
%canon_reldir%_system_ctl_mask_LDADD = %reldir%/libagent.la $(JANSSON_LIBS)
%canon_reldir%_system_ctl_plan_SOURCES = %reldir%/system/ctl/plan.c \
	%reldir%/support/ctl.h %reldir%/support/ctl_model.h %reldir%/support/tap.h
%canon_reldir%_system_ctl_plan_LDADD = %reldir%/libagent.la $(JANSSON_LIBS)

gm_tests += %reldir%/system/map/dummy_rows
%canon_reldir%_system_map_dummy_rows_SOURCES = %reldir%/system/map/dummy_rows.c %reldir%/support/ctl.h \
	%reldir%/support/story.h %reldir%/support/tap.h
%canon_reldir%_system_map_dummy_rows_LDADD = %reldir%/libagent.la lib/libgpumap.la \
	$(JANSSON_LIBS)

# A probe whose words are the test's.
check_PROGRAMS += %reldir%/support/scripted_probe
%canon_reldir%_support_scripted_probe_SOURCES = %reldir%/support/scripted_probe.c
%canon_reldir%_support_scripted_probe_LDADD =

gm_puppet = %reldir%/support/scripted_probe_agent.h %reldir%/support/ctl.h %reldir%/support/scripted_probe.h \
	%reldir%/support/story.h %reldir%/support/tap.h
gm_puppet_libs = %reldir%/libagent.la lib/libgpumap.la $(JANSSON_LIBS)
gm_tests += %reldir%/cuda/rows
%canon_reldir%_cuda_rows_SOURCES = %reldir%/cuda/rows.c \
	$(gm_puppet)
%canon_reldir%_cuda_rows_LDADD = $(gm_puppet_libs)
gm_tests += %reldir%/cuda/mig_reuse
GM_TORTURE += %reldir%/cuda/mig_reuse
%canon_reldir%_cuda_mig_reuse_SOURCES = %reldir%/cuda/mig_reuse.c \
	%reldir%/support/story_rows.h $(gm_puppet)
%canon_reldir%_cuda_mig_reuse_LDADD = $(gm_puppet_libs)
gm_tests += %reldir%/cuda/health
%canon_reldir%_cuda_health_SOURCES = %reldir%/cuda/health.c \
	$(gm_puppet)
%canon_reldir%_cuda_health_LDADD = $(gm_puppet_libs)
gm_tests += %reldir%/cuda/row_drain
%canon_reldir%_cuda_row_drain_SOURCES = %reldir%/cuda/row_drain.c \
	$(gm_puppet)
%canon_reldir%_cuda_row_drain_LDADD = $(gm_puppet_libs)

gm_tests += %reldir%/system/map/damage
%canon_reldir%_system_map_damage_SOURCES = %reldir%/system/map/damage.c \
	%reldir%/support/agent_segment.h %reldir%/support/tap.h
%canon_reldir%_system_map_damage_LDADD = %reldir%/libagent.la shm/libshm.la

gm_tests += %reldir%/system/jobs/uring
%canon_reldir%_system_jobs_uring_SOURCES = %reldir%/system/jobs/uring.c %reldir%/support/tap.h
%canon_reldir%_system_jobs_uring_LDADD = %reldir%/libagent.la lib/libgpumap.la \
	$(URING_LIBS)

gm_tests += %reldir%/system/workers/numa
%canon_reldir%_system_workers_numa_SOURCES = %reldir%/system/workers/numa.c %reldir%/support/tap.h
%canon_reldir%_system_workers_numa_LDADD = %reldir%/libagent.la lib/libgpumap.la \
	agent/common/libcommon.la $(NUMA_LIBS)

gm_tests += %reldir%/unit/daemon/spin
%canon_reldir%_unit_daemon_spin_SOURCES = %reldir%/unit/daemon/spin.c %reldir%/support/tap.h
%canon_reldir%_unit_daemon_spin_LDADD = agent/daemon/libdaemon.la \
	agent/common/libcommon.la

# A client made by hand, and what it can do to the others.
check_LTLIBRARIES += %reldir%/libraw.la
%canon_reldir%_libraw_la_SOURCES = %reldir%/support/raw.c %reldir%/support/raw.h

gm_tests += %reldir%/system/sessions/exhaustion
%canon_reldir%_system_sessions_exhaustion_SOURCES = %reldir%/system/sessions/exhaustion.c %reldir%/support/tap.h
%canon_reldir%_system_sessions_exhaustion_LDADD = %reldir%/libraw.la \
	%reldir%/libagent.la lib/libgpumap.la shm/libshm.la

gm_tests += %reldir%/system/sessions/poll_fd
%canon_reldir%_system_sessions_poll_fd_SOURCES = %reldir%/system/sessions/poll_fd.c \
	%reldir%/support/slow_close.h %reldir%/support/tap.h
%canon_reldir%_system_sessions_poll_fd_LDADD = %reldir%/libraw.la \
	%reldir%/libagent.la lib/libgpumap.la shm/libshm.la

gm_tests += %reldir%/system/meshes/publish
%canon_reldir%_system_meshes_publish_SOURCES = %reldir%/system/meshes/publish.c %reldir%/support/story.h \
	%reldir%/support/tap.h
%canon_reldir%_system_meshes_publish_LDADD = $(gm_story_libs)

gm_tests += %reldir%/system/meshes/damage
%canon_reldir%_system_meshes_damage_SOURCES = %reldir%/system/meshes/damage.c \
	%reldir%/support/damage.h %reldir%/support/agent_segment.h %reldir%/support/story.h %reldir%/support/tap.h
%canon_reldir%_system_meshes_damage_LDADD = %reldir%/libagent.la \
	lib/libgpumap.la shm/libshm.la

gm_tests += %reldir%/system/meshes/death
GM_TORTURE += %reldir%/system/meshes/death
%canon_reldir%_system_meshes_death_SOURCES = %reldir%/system/meshes/death.c \
	%reldir%/support/dice.h %reldir%/support/story.h %reldir%/support/tap.h
%canon_reldir%_system_meshes_death_LDADD = $(gm_story_libs)

gm_tests += %reldir%/system/meshes/epoch
GM_TORTURE += %reldir%/system/meshes/epoch
%canon_reldir%_system_meshes_epoch_SOURCES = %reldir%/system/meshes/epoch.c \
	%reldir%/support/story_rows.h $(gm_story)
%canon_reldir%_system_meshes_epoch_LDADD = $(gm_story_libs)

gm_tests += %reldir%/system/map/no_syscalls
%canon_reldir%_system_map_no_syscalls_SOURCES = %reldir%/system/map/no_syscalls.c \
	%reldir%/support/story.h %reldir%/support/tap.h
%canon_reldir%_system_map_no_syscalls_LDADD = $(gm_story_libs)

gm_tests += %reldir%/system/meshes/rendezvous
GM_TORTURE += %reldir%/system/meshes/rendezvous
%canon_reldir%_system_meshes_rendezvous_SOURCES = %reldir%/system/meshes/rendezvous.c \
	%reldir%/support/mesh_agent.h %reldir%/support/story.h %reldir%/support/tap.h
%canon_reldir%_system_meshes_rendezvous_LDADD = $(gm_story_libs)
gm_tests += %reldir%/system/meshes/rendezvous_abuse
%canon_reldir%_system_meshes_rendezvous_abuse_SOURCES = \
	%reldir%/system/meshes/rendezvous_abuse.c %reldir%/support/mesh_agent.h \
	%reldir%/support/story.h %reldir%/support/tap.h
%canon_reldir%_system_meshes_rendezvous_abuse_LDADD = %reldir%/libraw.la \
	$(gm_story_libs) shm/libshm.la

gm_tests += %reldir%/system/meshes/rendezvous_death
GM_TORTURE += %reldir%/system/meshes/rendezvous_death
%canon_reldir%_system_meshes_rendezvous_death_SOURCES = \
	%reldir%/system/meshes/rendezvous_death.c %reldir%/support/mesh_agent.h \
	%reldir%/support/story.h %reldir%/support/tap.h
%canon_reldir%_system_meshes_rendezvous_death_LDADD = %reldir%/libraw.la \
	$(gm_story_libs) shm/libshm.la

# NCCL's stub, wherever there is another.
gm_tests += %reldir%/cuda/nccl_api
GM_TORTURE += %reldir%/cuda/nccl_api
%canon_reldir%_cuda_nccl_api_SOURCES = %reldir%/cuda/nccl_api.c %reldir%/contract/contract.h \
	%reldir%/support/story.h %reldir%/support/tap.h
%canon_reldir%_cuda_nccl_api_CPPFLAGS = -I$(srcdir)/%reldir%/stubs $(AM_CPPFLAGS) \
	$(CUDA_CPPFLAGS)
%canon_reldir%_cuda_nccl_api_LDADD = %reldir%/libcontract.la \
	%reldir%/fake/libranks.la $(gm_story_libs)

gm_tests += %reldir%/cuda/nccl_api_republish
%canon_reldir%_cuda_nccl_api_republish_SOURCES = %reldir%/cuda/nccl_api_republish.c \
	%reldir%/contract/contract.h %reldir%/support/story.h %reldir%/support/tap.h
%canon_reldir%_cuda_nccl_api_republish_CPPFLAGS = -I$(srcdir)/%reldir%/stubs \
	$(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_cuda_nccl_api_republish_LDADD = %reldir%/libcontract.la \
	%reldir%/fake/libranks.la $(gm_story_libs)

gm_tests += %reldir%/system/ctl/mesh
%canon_reldir%_system_ctl_mesh_SOURCES = %reldir%/system/ctl/mesh.c \
	%reldir%/support/ctl.h %reldir%/support/tap.h
%canon_reldir%_system_ctl_mesh_LDADD = %reldir%/libagent.la \
	lib/libgpumap.la $(JANSSON_LIBS)
gm_tests += %reldir%/system/ctl/collective
%canon_reldir%_system_ctl_collective_SOURCES = \
	%reldir%/system/ctl/collective.c %reldir%/support/ctl.h %reldir%/support/story_rows.h \
	$(gm_story)
%canon_reldir%_system_ctl_collective_LDADD = $(gm_story_libs) $(JANSSON_LIBS)
gm_tests += %reldir%/cuda/ctl_collective
%canon_reldir%_cuda_ctl_collective_CPPFLAGS = $(AM_CPPFLAGS) \
	-DSTAGE_CUDA
%canon_reldir%_cuda_ctl_collective_SOURCES = \
	%reldir%/system/ctl/collective.c %reldir%/support/ctl.h $(gm_cuda_story)
%canon_reldir%_cuda_ctl_collective_LDADD = $(gm_cuda_story_libs) \
	$(JANSSON_LIBS)

gm_tests += %reldir%/system/workers/unkillable
GM_TORTURE += %reldir%/system/workers/unkillable
%canon_reldir%_system_workers_unkillable_SOURCES = %reldir%/system/workers/unkillable.c %reldir%/support/tap.h
%canon_reldir%_system_workers_unkillable_LDADD = %reldir%/libraw.la %reldir%/libagent.la \
	shm/libshm.la

gm_tests += %reldir%/system/sessions/limits
%canon_reldir%_system_sessions_limits_SOURCES = %reldir%/system/sessions/limits.c %reldir%/support/tap.h
%canon_reldir%_system_sessions_limits_LDADD = %reldir%/libraw.la \
	%reldir%/libagent.la lib/libgpumap.la shm/libshm.la

gm_tests += %reldir%/unit/daemon/retry_queue
%canon_reldir%_unit_daemon_retry_queue_SOURCES = %reldir%/unit/daemon/retry_queue.c %reldir%/support/tap.h
%canon_reldir%_unit_daemon_retry_queue_LDADD = $(gm_daemon) -lpthread
gm_tests += %reldir%/system/sessions/retry
%canon_reldir%_system_sessions_retry_SOURCES = %reldir%/system/sessions/retry.c %reldir%/support/process.h \
	%reldir%/support/tap.h
%canon_reldir%_system_sessions_retry_LDADD = %reldir%/libraw.la %reldir%/libagent.la \
	lib/libgpumap.la shm/libshm.la

gm_tests += %reldir%/system/hostile/isolation
GM_TORTURE += %reldir%/system/hostile/isolation
%canon_reldir%_system_hostile_isolation_SOURCES = %reldir%/system/hostile/isolation.c \
	%reldir%/system/hostile/attack.c %reldir%/system/hostile/attack.h %reldir%/system/hostile/attack_buffers.c \
	%reldir%/system/hostile/attack_clients.c %reldir%/system/hostile/attack_entries.c \
	%reldir%/system/hostile/honest_client.c %reldir%/system/hostile/honest_client.h \
	%reldir%/system/hostile/attack_memory.c %reldir%/system/hostile/attack_records.c %reldir%/support/tap.h
%canon_reldir%_system_hostile_isolation_LDADD = %reldir%/libraw.la \
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
gm_tests += %reldir%/unit/worker/decode
%canon_reldir%_unit_worker_decode_SOURCES = %reldir%/unit/worker/decode.c \
	%reldir%/support/decode_arena.h %reldir%/support/tap.h
%canon_reldir%_unit_worker_decode_LDADD = agent/worker/libworker.la

gm_tests += %reldir%/unit/worker/decode_buffers
%canon_reldir%_unit_worker_decode_buffers_SOURCES = %reldir%/unit/worker/decode_buffers.c \
	%reldir%/support/decode_arena.h %reldir%/support/tap.h
%canon_reldir%_unit_worker_decode_buffers_LDADD = agent/worker/libworker.la

gm_tests += %reldir%/unit/worker/decode_operators
%canon_reldir%_unit_worker_decode_operators_SOURCES = \
	%reldir%/unit/worker/decode_operators.c %reldir%/support/decode_arena.h %reldir%/support/tap.h
%canon_reldir%_unit_worker_decode_operators_LDADD = agent/worker/libworker.la

gm_tests += %reldir%/unit/worker/decode_program
%canon_reldir%_unit_worker_decode_program_SOURCES = %reldir%/unit/worker/decode_program.c %reldir%/support/tap.h
%canon_reldir%_unit_worker_decode_program_LDADD = agent/worker/libworker.la

gm_tests += %reldir%/unit/worker/spin
%canon_reldir%_unit_worker_spin_SOURCES = %reldir%/unit/worker/spin.c %reldir%/support/tap.h
%canon_reldir%_unit_worker_spin_LDADD = agent/worker/libworker.la

gm_tests += %reldir%/unit/worker/wakeup
%canon_reldir%_unit_worker_wakeup_SOURCES = %reldir%/unit/worker/wakeup.c \
	%reldir%/support/tap.h
%canon_reldir%_unit_worker_wakeup_LDADD = agent/worker/libworker.la

gm_tests += %reldir%/unit/worker/uring
%canon_reldir%_unit_worker_uring_SOURCES = %reldir%/unit/worker/uring.c \
	%reldir%/support/tap.h
%canon_reldir%_unit_worker_uring_LDADD = agent/worker/libworker.la

gm_tests += %reldir%/unit/worker/sandbox
%canon_reldir%_unit_worker_sandbox_SOURCES = %reldir%/unit/worker/sandbox.c %reldir%/support/tap.h
%canon_reldir%_unit_worker_sandbox_LDADD = agent/worker/libworker.la

gm_tests += %reldir%/unit/worker/schedule
%canon_reldir%_unit_worker_schedule_SOURCES = %reldir%/unit/worker/schedule.c \
	%reldir%/support/schedule_rig.h %reldir%/support/async_rig.h %reldir%/support/async_device.h \
	%reldir%/support/queue_client.h %reldir%/support/tap.h
%canon_reldir%_unit_worker_schedule_LDADD = agent/worker/libworker.la
gm_tests += %reldir%/unit/worker/schedule_collective
%canon_reldir%_unit_worker_schedule_collective_SOURCES = %reldir%/unit/worker/schedule_collective.c \
	%reldir%/support/schedule_rig.h %reldir%/support/async_rig.h %reldir%/support/async_device.h \
	%reldir%/support/queue_client.h %reldir%/support/tap.h
%canon_reldir%_unit_worker_schedule_collective_LDADD = agent/worker/libworker.la
gm_tests += %reldir%/unit/worker/schedule_load
%canon_reldir%_unit_worker_schedule_load_SOURCES = %reldir%/unit/worker/schedule_load.c \
	%reldir%/support/schedule_rig.h %reldir%/support/async_rig.h %reldir%/support/async_device.h \
	%reldir%/support/queue_client.h %reldir%/support/tap.h
%canon_reldir%_unit_worker_schedule_load_LDADD = agent/worker/libworker.la
gm_tests += %reldir%/unit/worker/load_ahead
%canon_reldir%_unit_worker_load_ahead_SOURCES = %reldir%/unit/worker/load_ahead.c \
	%reldir%/support/load_rig.h %reldir%/support/async_rig.h \
	%reldir%/support/async_device.h %reldir%/support/queue_client.h %reldir%/support/tap.h
%canon_reldir%_unit_worker_load_ahead_LDADD = agent/worker/libworker.la
gm_tests += %reldir%/unit/worker/schedule_remote_copy
%canon_reldir%_unit_worker_schedule_remote_copy_SOURCES = %reldir%/unit/worker/schedule_remote_copy.c \
	%reldir%/support/schedule_rig.h %reldir%/support/async_rig.h %reldir%/support/async_device.h \
	%reldir%/support/queue_client.h %reldir%/support/tap.h
%canon_reldir%_unit_worker_schedule_remote_copy_LDADD = agent/worker/libworker.la

gm_tests += %reldir%/unit/worker/remote_copy_bounce
%canon_reldir%_unit_worker_remote_copy_bounce_SOURCES = %reldir%/unit/worker/remote_copy_bounce.c \
	%reldir%/support/schedule_rig.h %reldir%/support/async_rig.h %reldir%/support/async_device.h \
	%reldir%/support/queue_client.h %reldir%/support/tap.h
%canon_reldir%_unit_worker_remote_copy_bounce_LDADD = agent/worker/libworker.la

gm_tests += %reldir%/unit/worker/sigbus
%canon_reldir%_unit_worker_sigbus_SOURCES = %reldir%/unit/worker/sigbus.c %reldir%/support/tap.h
%canon_reldir%_unit_worker_sigbus_LDADD = agent/worker/libworker.la -lpthread
GM_TSAN_TESTS += %reldir%/unit/worker/sigbus

gm_tests += %reldir%/unit/worker/async_exec
%canon_reldir%_unit_worker_async_exec_SOURCES = %reldir%/unit/worker/async_exec.c \
	%reldir%/support/async_rig.h %reldir%/support/async_device.h %reldir%/support/queue_client.h \
	%reldir%/support/tap.h
%canon_reldir%_unit_worker_async_exec_LDADD = agent/worker/libworker.la

gm_tests += %reldir%/unit/worker/async_exec_abuse
%canon_reldir%_unit_worker_async_exec_abuse_SOURCES = %reldir%/unit/worker/async_exec_abuse.c \
	%reldir%/support/async_rig.h %reldir%/support/async_device.h %reldir%/support/queue_client.h \
	%reldir%/support/tap.h
%canon_reldir%_unit_worker_async_exec_abuse_LDADD = agent/worker/libworker.la

gm_tests += %reldir%/unit/worker/async_exec_random
%canon_reldir%_unit_worker_async_exec_random_SOURCES = %reldir%/unit/worker/async_exec_random.c \
	%reldir%/support/dice.h %reldir%/support/async_rig.h %reldir%/support/async_device.h \
	%reldir%/support/queue_client.h %reldir%/support/tap.h
%canon_reldir%_unit_worker_async_exec_random_LDADD = agent/worker/libworker.la

gm_tests += %reldir%/unit/worker/dependency
%canon_reldir%_unit_worker_dependency_SOURCES = %reldir%/unit/worker/dependency.c \
	%reldir%/support/async_rig.h %reldir%/support/async_device.h \
	%reldir%/support/queue_client.h %reldir%/support/tap.h
%canon_reldir%_unit_worker_dependency_LDADD = agent/worker/libworker.la

gm_tests += %reldir%/unit/worker/async_exec_second_slot
%canon_reldir%_unit_worker_async_exec_second_slot_SOURCES = %reldir%/unit/worker/async_exec_second_slot.c \
	%reldir%/support/async_rig.h %reldir%/support/async_device.h \
	%reldir%/support/queue_client.h %reldir%/support/tap.h
%canon_reldir%_unit_worker_async_exec_second_slot_LDADD = agent/worker/libworker.la

gm_tests += %reldir%/unit/worker/aligned_read
%canon_reldir%_unit_worker_aligned_read_SOURCES = %reldir%/unit/worker/aligned_read.c %reldir%/support/dice.h \
	%reldir%/support/tap.h
%canon_reldir%_unit_worker_aligned_read_LDADD = agent/worker/libworker.la

gm_tests += %reldir%/unit/worker/async_exec_drain
%canon_reldir%_unit_worker_async_exec_drain_SOURCES = %reldir%/unit/worker/async_exec_drain.c \
	%reldir%/support/async_rig.h %reldir%/support/async_device.h %reldir%/support/queue_client.h \
	%reldir%/support/tap.h
%canon_reldir%_unit_worker_async_exec_drain_LDADD = agent/worker/libworker.la

gm_tests += %reldir%/unit/worker/quantum
%canon_reldir%_unit_worker_quantum_SOURCES = %reldir%/unit/worker/quantum.c \
	%reldir%/support/quantum_rig.h %reldir%/support/queue_client.h %reldir%/support/tap.h
%canon_reldir%_unit_worker_quantum_LDADD = agent/worker/libworker.la
gm_tests += %reldir%/unit/worker/quantum_slices
%canon_reldir%_unit_worker_quantum_slices_SOURCES = %reldir%/unit/worker/quantum_slices.c \
	%reldir%/support/quantum_rig.h %reldir%/support/queue_client.h %reldir%/support/tap.h
%canon_reldir%_unit_worker_quantum_slices_LDADD = agent/worker/libworker.la

# Somebody is killed, and everybody else is looked at.
gm_stories =
gm_stories += %reldir%/system/sessions/agent_death
gm_stories += %reldir%/system/sessions/client_death
gm_stories += %reldir%/system/collectives/death
gm_stories += %reldir%/system/map/state_death
gm_stories += %reldir%/system/planning/concurrent_commits
gm_stories += %reldir%/system/jobs/random_mix
gm_stories += %reldir%/system/jobs/kill_points
gm_stories += %reldir%/system/masks/death
gm_stories += %reldir%/system/masks/readers
gm_stories += %reldir%/system/jobs/dependency
gm_stories += %reldir%/system/workers/death
gm_tests += $(gm_stories)
GM_TORTURE += $(gm_stories)
gm_story = %reldir%/support/story.h %reldir%/support/agent.h %reldir%/support/users.h \
	%reldir%/support/tap.h
gm_story_libs = %reldir%/libagent.la lib/libgpumap.la

# The same stories on four stand-in cards, and some that only cards have.
gm_cuda_story = %reldir%/support/cuda_agent.h %reldir%/support/driver_copy.h \
	%reldir%/support/story_rows.h $(gm_story)
gm_cuda_story_libs = $(gm_story_libs) %reldir%/fake/libmachine.la -lpthread
gm_cuda_stories = %reldir%/cuda/sessions_agent_death \
	%reldir%/cuda/sessions_client_death %reldir%/cuda/workers_death \
	%reldir%/cuda/collectives_death \
	%reldir%/cuda/jobs_random_mix %reldir%/cuda/jobs_dependency
gm_tests += %reldir%/cuda/probe
%canon_reldir%_cuda_probe_SOURCES = %reldir%/cuda/probe.c \
	%reldir%/support/cuda_agent.h %reldir%/support/driver_copy.h %reldir%/support/story.h %reldir%/support/tap.h
%canon_reldir%_cuda_probe_LDADD = %reldir%/libagent.la \
	lib/libgpumap.la %reldir%/fake/libmachine.la -lpthread
gm_tests += $(gm_cuda_stories) %reldir%/cuda/faults \
	%reldir%/cuda/two_models %reldir%/cuda/slices \
	%reldir%/cuda/load_unregister
gm_tests += %reldir%/cuda/jobs_scatter
%canon_reldir%_cuda_jobs_scatter_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_cuda_jobs_scatter_SOURCES = %reldir%/system/jobs/scatter.c \
	%reldir%/support/scatter_rig.h $(gm_cuda_story)
%canon_reldir%_cuda_jobs_scatter_LDADD = $(gm_cuda_story_libs)
gm_tests += %reldir%/cuda/jobs_scatter_combine
%canon_reldir%_cuda_jobs_scatter_combine_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_cuda_jobs_scatter_combine_SOURCES = \
	%reldir%/system/jobs/scatter_combine.c %reldir%/support/scatter_rig.h \
	$(gm_cuda_story)
%canon_reldir%_cuda_jobs_scatter_combine_LDADD = $(gm_cuda_story_libs)
GM_TORTURE += $(gm_cuda_stories) %reldir%/cuda/faults
gm_tests += %reldir%/cuda/hostile_isolation
GM_TORTURE += %reldir%/cuda/hostile_isolation
%canon_reldir%_cuda_hostile_isolation_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_cuda_hostile_isolation_SOURCES = \
	$(%canon_reldir%_system_hostile_isolation_SOURCES) $(gm_cuda_story)
%canon_reldir%_cuda_hostile_isolation_LDADD = %reldir%/libraw.la \
	$(gm_cuda_story_libs) shm/libshm.la
%canon_reldir%_cuda_sessions_agent_death_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_cuda_sessions_agent_death_SOURCES = \
	%reldir%/system/sessions/agent_death.c $(gm_cuda_story)
%canon_reldir%_cuda_sessions_agent_death_LDADD = $(gm_cuda_story_libs)
%canon_reldir%_cuda_sessions_client_death_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_cuda_sessions_client_death_SOURCES = \
	%reldir%/system/sessions/client_death.c $(gm_cuda_story)
%canon_reldir%_cuda_sessions_client_death_LDADD = $(gm_cuda_story_libs)
%canon_reldir%_cuda_workers_death_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_cuda_workers_death_SOURCES = \
	%reldir%/system/workers/death.c $(gm_cuda_story)
%canon_reldir%_cuda_workers_death_LDADD = $(gm_cuda_story_libs)
%canon_reldir%_cuda_jobs_random_mix_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_cuda_jobs_random_mix_SOURCES = %reldir%/system/jobs/random_mix.c \
	%reldir%/support/dice.h %reldir%/support/load_file.h %reldir%/support/program_agent.h \
	%reldir%/support/programs/odd.h $(gm_cuda_story)
%canon_reldir%_cuda_jobs_random_mix_LDADD = $(gm_cuda_story_libs)
%canon_reldir%_cuda_jobs_dependency_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_cuda_jobs_dependency_SOURCES = %reldir%/system/jobs/dependency.c \
	%reldir%/support/dice.h $(gm_cuda_story)
%canon_reldir%_cuda_jobs_dependency_LDADD = $(gm_cuda_story_libs)
%canon_reldir%_cuda_faults_SOURCES = \
	%reldir%/cuda/faults.c %reldir%/support/cuda_session.h $(gm_cuda_story)
%canon_reldir%_cuda_faults_LDADD = $(gm_cuda_story_libs)
gm_tests += %reldir%/cuda/mask_jobs
%canon_reldir%_cuda_mask_jobs_SOURCES = \
	%reldir%/cuda/mask_jobs.c $(gm_cuda_story)
%canon_reldir%_cuda_mask_jobs_LDADD = $(gm_cuda_story_libs)
gm_tests += %reldir%/cuda/mask_death
GM_TORTURE += %reldir%/cuda/mask_death
%canon_reldir%_cuda_mask_death_SOURCES = \
	%reldir%/cuda/mask_death.c $(gm_cuda_story)
%canon_reldir%_cuda_mask_death_LDADD = $(gm_cuda_story_libs)
gm_tests += %reldir%/cuda/mask_replicas
%canon_reldir%_cuda_mask_replicas_SOURCES = \
	%reldir%/cuda/mask_replicas.c %reldir%/support/ctl.h $(gm_cuda_story)
%canon_reldir%_cuda_mask_replicas_LDADD = $(gm_cuda_story_libs) \
	agent/mask/libmask.la $(JANSSON_LIBS)
gm_tests += %reldir%/cuda/mask_copy
GM_TORTURE += %reldir%/cuda/mask_copy
%canon_reldir%_cuda_mask_copy_SOURCES = \
	%reldir%/cuda/mask_copy.c %reldir%/support/mask_replicas.h $(gm_cuda_story)
%canon_reldir%_cuda_mask_copy_LDADD = $(gm_cuda_story_libs) \
	agent/mask/libmask.la
gm_tests += %reldir%/cuda/mask_copy_death
%canon_reldir%_cuda_mask_copy_death_SOURCES = \
	%reldir%/cuda/mask_copy_death.c %reldir%/support/mask_replicas.h \
	$(gm_cuda_story)
%canon_reldir%_cuda_mask_copy_death_LDADD = $(gm_cuda_story_libs) \
	agent/mask/libmask.la
gm_tests += %reldir%/cuda/mask_copy_paths
%canon_reldir%_cuda_mask_copy_paths_SOURCES = \
	%reldir%/cuda/mask_copy_paths.c %reldir%/support/mask_replicas.h \
	$(gm_cuda_story)
%canon_reldir%_cuda_mask_copy_paths_LDADD = $(gm_cuda_story_libs) \
	agent/mask/libmask.la
gm_tests += %reldir%/cuda/mask_full
%canon_reldir%_cuda_mask_full_SOURCES = %reldir%/cuda/mask_full.c \
	%reldir%/support/mask_replicas.h $(gm_cuda_story)
%canon_reldir%_cuda_mask_full_LDADD = $(gm_cuda_story_libs) \
	agent/mask/libmask.la
gm_tests += %reldir%/cuda/mask_charge
%canon_reldir%_cuda_mask_charge_SOURCES = %reldir%/cuda/mask_charge.c \
	%reldir%/support/mask_replicas.h $(gm_cuda_story)
%canon_reldir%_cuda_mask_charge_LDADD = $(gm_cuda_story_libs) \
	agent/mask/libmask.la
gm_tests += %reldir%/cuda/mask_idle
%canon_reldir%_cuda_mask_idle_SOURCES = %reldir%/cuda/mask_idle.c \
	%reldir%/support/mask_replicas.h $(gm_cuda_story)
%canon_reldir%_cuda_mask_idle_LDADD = $(gm_cuda_story_libs) \
	agent/mask/libmask.la
gm_tests += %reldir%/cuda/mask_superseded
%canon_reldir%_cuda_mask_superseded_SOURCES = \
	%reldir%/cuda/mask_superseded.c %reldir%/support/mask_replicas.h \
	$(gm_cuda_story)
%canon_reldir%_cuda_mask_superseded_LDADD = $(gm_cuda_story_libs) \
	agent/mask/libmask.la
gm_tests += %reldir%/cuda/mask_copy_drain
%canon_reldir%_cuda_mask_copy_drain_SOURCES = \
	%reldir%/cuda/mask_copy_drain.c %reldir%/support/mask_replicas.h \
	$(gm_cuda_story)
%canon_reldir%_cuda_mask_copy_drain_LDADD = $(gm_cuda_story_libs) \
	agent/mask/libmask.la
gm_tests += %reldir%/cuda/usage
%canon_reldir%_cuda_usage_SOURCES = %reldir%/cuda/usage.c %reldir%/support/ctl.h \
	$(gm_cuda_story)
%canon_reldir%_cuda_usage_LDADD = $(gm_cuda_story_libs) $(JANSSON_LIBS)
%canon_reldir%_cuda_slices_SOURCES = \
	%reldir%/cuda/slices.c $(gm_cuda_story)
%canon_reldir%_cuda_slices_LDADD = $(gm_cuda_story_libs)
%canon_reldir%_cuda_load_unregister_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_cuda_load_unregister_SOURCES = \
	%reldir%/cuda/load_unregister.c %reldir%/support/load_file.h $(gm_cuda_story)
%canon_reldir%_cuda_load_unregister_LDADD = $(gm_cuda_story_libs)
gm_tests += %reldir%/cuda/alloc
%canon_reldir%_cuda_alloc_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_cuda_alloc_SOURCES = %reldir%/cuda/alloc.c \
	$(gm_cuda_story)
%canon_reldir%_cuda_alloc_LDADD = $(gm_cuda_story_libs)
%canon_reldir%_cuda_two_models_SOURCES = \
	%reldir%/cuda/two_models.c $(gm_cuda_story)
%canon_reldir%_cuda_two_models_LDADD = $(gm_cuda_story_libs)
%canon_reldir%_system_sessions_agent_death_SOURCES = %reldir%/system/sessions/agent_death.c \
	$(gm_story)
%canon_reldir%_system_sessions_agent_death_LDADD = $(gm_story_libs)
gm_tests += %reldir%/system/masks/publish
%canon_reldir%_system_masks_publish_SOURCES = %reldir%/system/masks/publish.c $(gm_story)
%canon_reldir%_system_masks_publish_LDADD = $(gm_story_libs) agent/mask/libmask.la \
	agent/plan/libplan.la
gm_tests += %reldir%/system/masks/flood
%canon_reldir%_system_masks_flood_SOURCES = %reldir%/system/masks/flood.c $(gm_story)
%canon_reldir%_system_masks_flood_LDADD = $(gm_story_libs)

gm_tests += %reldir%/system/masks/jobs
%canon_reldir%_system_masks_jobs_SOURCES = %reldir%/system/masks/jobs.c \
	$(gm_story)
%canon_reldir%_system_masks_jobs_LDADD = %reldir%/libraw.la $(gm_story_libs) shm/libshm.la
gm_tests += %reldir%/system/masks/damage
%canon_reldir%_system_masks_damage_SOURCES = %reldir%/system/masks/damage.c \
	%reldir%/support/damage.h %reldir%/support/agent_segment.h %reldir%/support/story.h %reldir%/support/tap.h
%canon_reldir%_system_masks_damage_LDADD = %reldir%/libagent.la \
	lib/libgpumap.la shm/libshm.la agent/mask/libmask.la \
	agent/plan/libplan.la
gm_tests += %reldir%/system/masks/state
%canon_reldir%_system_masks_state_SOURCES = %reldir%/system/masks/state.c \
	$(gm_story)
%canon_reldir%_system_masks_state_LDADD = $(gm_story_libs) \
	agent/mask/libmask.la agent/plan/libplan.la
%canon_reldir%_system_masks_death_SOURCES = %reldir%/system/masks/death.c \
	$(gm_story)
%canon_reldir%_system_masks_death_LDADD = $(gm_story_libs) \
	agent/mask/libmask.la agent/plan/libplan.la
%canon_reldir%_system_masks_readers_SOURCES = %reldir%/system/masks/readers.c \
	$(gm_story)
%canon_reldir%_system_masks_readers_LDADD = $(gm_story_libs)
%canon_reldir%_system_jobs_random_mix_SOURCES = %reldir%/system/jobs/random_mix.c \
	%reldir%/support/dice.h %reldir%/support/load_file.h %reldir%/support/program_agent.h \
	%reldir%/support/programs/odd.h $(gm_story)
%canon_reldir%_system_jobs_random_mix_LDADD = $(gm_story_libs)
%canon_reldir%_system_jobs_random_mix_DEPENDENCIES = $(gm_story_libs) \
	%reldir%/program_square.la
%canon_reldir%_system_jobs_kill_points_SOURCES = %reldir%/system/jobs/kill_points.c \
	%reldir%/support/dice.h %reldir%/support/load_file.h %reldir%/support/kill_points_client.h \
	%reldir%/support/story_rows.h $(gm_story)
%canon_reldir%_system_jobs_kill_points_LDADD = %reldir%/libraw.la $(gm_story_libs) \
	shm/libshm.la
gm_tests += %reldir%/cuda/jobs_kill_points
GM_TORTURE += %reldir%/cuda/jobs_kill_points
%canon_reldir%_cuda_jobs_kill_points_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_cuda_jobs_kill_points_SOURCES = %reldir%/system/jobs/kill_points.c \
	%reldir%/support/dice.h %reldir%/support/load_file.h %reldir%/support/kill_points_client.h \
	$(gm_cuda_story)
%canon_reldir%_cuda_jobs_kill_points_LDADD = %reldir%/libraw.la \
	$(gm_cuda_story_libs) shm/libshm.la
gm_tests += %reldir%/system/loads/hung_registration
%canon_reldir%_system_loads_hung_registration_SOURCES = %reldir%/system/loads/hung_registration.c \
	%reldir%/support/fuse.h %reldir%/support/load_file.h %reldir%/support/raw.h $(gm_story)
%canon_reldir%_system_loads_hung_registration_LDADD = %reldir%/libraw.la $(gm_story_libs) \
	shm/libshm.la
gm_tests += %reldir%/system/hostile/unauthenticated
%canon_reldir%_system_hostile_unauthenticated_SOURCES = %reldir%/system/hostile/unauthenticated.c \
	%reldir%/support/slow_close.h %reldir%/support/raw.h $(gm_story)
%canon_reldir%_system_hostile_unauthenticated_LDADD = %reldir%/libraw.la $(gm_story_libs) \
	shm/libshm.la $(SECCOMP_LIBS)
gm_tests += %reldir%/system/masks/numa_segment
%canon_reldir%_system_masks_numa_segment_SOURCES = %reldir%/system/masks/numa_segment.c \
	%reldir%/support/raw.h $(gm_story)
%canon_reldir%_system_masks_numa_segment_LDADD = %reldir%/libraw.la $(gm_story_libs) \
	shm/libshm.la
gm_tests += %reldir%/system/hostile/unread_fds
%canon_reldir%_system_hostile_unread_fds_SOURCES = %reldir%/system/hostile/unread_fds.c \
	%reldir%/support/raw.h $(gm_story)
%canon_reldir%_system_hostile_unread_fds_LDADD = %reldir%/libraw.la $(gm_story_libs) \
	shm/libshm.la
gm_tests += %reldir%/system/sessions/reconnect
%canon_reldir%_system_sessions_reconnect_SOURCES = %reldir%/system/sessions/reconnect.c \
	%reldir%/support/raw.h $(gm_story)
%canon_reldir%_system_sessions_reconnect_LDADD = %reldir%/libraw.la $(gm_story_libs) \
	shm/libshm.la
gm_tests += %reldir%/system/jobs/dependency_raw
%canon_reldir%_system_jobs_dependency_raw_SOURCES = %reldir%/system/jobs/dependency_raw.c $(gm_story)
%canon_reldir%_system_jobs_dependency_raw_LDADD = %reldir%/libraw.la $(gm_story_libs) \
	shm/libshm.la -lpthread
gm_tests += %reldir%/system/collectives/operations
GM_TORTURE += %reldir%/system/collectives/operations
%canon_reldir%_system_collectives_operations_SOURCES = %reldir%/system/collectives/operations.c \
	%reldir%/support/collective.h %reldir%/support/story_rows.h %reldir%/support/combine_ref.h %reldir%/support/dice.h \
	%reldir%/support/operators_ref.c %reldir%/support/operators_ref.h \
	%reldir%/support/operators_case.h $(gm_story)
%canon_reldir%_system_collectives_operations_LDADD = $(gm_story_libs) \
	agent/cuda/libcu.la -lm
%canon_reldir%_system_collectives_death_SOURCES = \
	%reldir%/system/collectives/death.c %reldir%/support/story_rows.h \
	%reldir%/support/collective.h %reldir%/support/combine_ref.h %reldir%/support/dice.h \
	%reldir%/support/operators_ref.c %reldir%/support/operators_ref.h \
	%reldir%/support/operators_case.h $(gm_story)
%canon_reldir%_system_collectives_death_LDADD = $(gm_story_libs) \
	agent/cuda/libcu.la -lm
gm_tests += %reldir%/system/collectives/comm_renew
%canon_reldir%_system_collectives_comm_renew_SOURCES = %reldir%/system/collectives/comm_renew.c \
	%reldir%/support/collective.h %reldir%/support/story_rows.h %reldir%/support/combine_ref.h %reldir%/support/dice.h \
	%reldir%/support/operators_ref.c %reldir%/support/operators_ref.h \
	%reldir%/support/operators_case.h $(gm_story)
%canon_reldir%_system_collectives_comm_renew_LDADD = $(gm_story_libs) \
	agent/cuda/libcu.la -lm
# The same with cards among the ranks, and memory of the cards' own.
gm_tests += %reldir%/cuda/collectives_operations %reldir%/cuda/collective_buffers
GM_TORTURE += %reldir%/cuda/collectives_operations %reldir%/cuda/collective_buffers
gm_collective = %reldir%/support/collective.h %reldir%/support/combine_ref.h \
	%reldir%/support/dice.h %reldir%/support/operators_ref.c %reldir%/support/operators_ref.h \
	%reldir%/support/operators_case.h
%canon_reldir%_cuda_collectives_operations_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_cuda_collectives_operations_SOURCES = %reldir%/system/collectives/operations.c \
	$(gm_collective) $(gm_cuda_story)
%canon_reldir%_cuda_collectives_operations_LDADD = $(gm_cuda_story_libs) \
	agent/cuda/libcu.la -lm
%canon_reldir%_cuda_collectives_death_CPPFLAGS = $(AM_CPPFLAGS) \
	-DSTAGE_CUDA
%canon_reldir%_cuda_collectives_death_SOURCES = \
	%reldir%/system/collectives/death.c $(gm_collective) $(gm_cuda_story)
%canon_reldir%_cuda_collectives_death_LDADD = $(gm_cuda_story_libs) \
	agent/cuda/libcu.la -lm
%canon_reldir%_cuda_collective_buffers_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_cuda_collective_buffers_SOURCES = \
	%reldir%/cuda/collective_buffers.c %reldir%/support/collective_buffers.h \
	$(gm_collective) $(gm_cuda_story)
%canon_reldir%_cuda_collective_buffers_LDADD = $(gm_cuda_story_libs) \
	agent/cuda/libcu.la -lm
gm_tests += %reldir%/system/collectives/users
%canon_reldir%_system_collectives_users_SOURCES = \
	%reldir%/system/collectives/users.c %reldir%/support/story_rows.h \
	$(gm_collective) $(gm_story)
%canon_reldir%_system_collectives_users_LDADD = $(gm_story_libs) \
	agent/device/libdevice.la
gm_tests += %reldir%/cuda/collectives_users
%canon_reldir%_cuda_collectives_users_CPPFLAGS = $(AM_CPPFLAGS) \
	-DSTAGE_CUDA
%canon_reldir%_cuda_collectives_users_SOURCES = \
	%reldir%/system/collectives/users.c $(gm_collective) $(gm_cuda_story)
%canon_reldir%_cuda_collectives_users_LDADD = $(gm_cuda_story_libs) \
	agent/device/libdevice.la
gm_collective_nccl = %reldir%/support/collective_nccl.h %reldir%/support/collective_buffers.h \
	$(gm_collective) $(gm_cuda_story)
gm_tests += %reldir%/cuda/nccl
%canon_reldir%_cuda_nccl_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_cuda_nccl_SOURCES = \
	%reldir%/cuda/nccl.c $(gm_collective_nccl)
%canon_reldir%_cuda_nccl_LDADD = $(gm_cuda_story_libs) \
	agent/cuda/libcu.la -lm
gm_tests += %reldir%/cuda/nccl_order
%canon_reldir%_cuda_nccl_order_CPPFLAGS = $(AM_CPPFLAGS) \
	-DSTAGE_CUDA
%canon_reldir%_cuda_nccl_order_SOURCES = \
	%reldir%/cuda/nccl_order.c $(gm_collective_nccl)
%canon_reldir%_cuda_nccl_order_LDADD = $(gm_cuda_story_libs) \
	agent/cuda/libcu.la -lm
gm_tests += %reldir%/cuda/nccl_send
%canon_reldir%_cuda_nccl_send_CPPFLAGS = $(AM_CPPFLAGS) \
	-DSTAGE_CUDA
%canon_reldir%_cuda_nccl_send_SOURCES = \
	%reldir%/cuda/nccl_send.c tests/stubs/nccl.h \
	$(gm_collective_nccl)
%canon_reldir%_cuda_nccl_send_LDADD = $(gm_cuda_story_libs) \
	agent/cuda/libcu.la -lm
gm_tests += %reldir%/cuda/nccl_death
GM_TORTURE += %reldir%/cuda/nccl_death
%canon_reldir%_cuda_nccl_death_CPPFLAGS = $(AM_CPPFLAGS) \
	-DSTAGE_CUDA
%canon_reldir%_cuda_nccl_death_SOURCES = \
	%reldir%/cuda/nccl_death.c %reldir%/support/process.h \
	$(gm_collective_nccl)
%canon_reldir%_cuda_nccl_death_LDADD = $(gm_cuda_story_libs) \
	agent/cuda/libcu.la -lm
gm_tests += %reldir%/cuda/nccl_init
%canon_reldir%_cuda_nccl_init_CPPFLAGS = $(AM_CPPFLAGS) \
	-DSTAGE_CUDA
%canon_reldir%_cuda_nccl_init_SOURCES = \
	%reldir%/cuda/nccl_init.c $(gm_collective_nccl)
%canon_reldir%_cuda_nccl_init_LDADD = $(gm_cuda_story_libs) \
	agent/cuda/libcu.la -lm
gm_tests += %reldir%/cuda/nccl_drain
%canon_reldir%_cuda_nccl_drain_CPPFLAGS = $(AM_CPPFLAGS) \
	-DSTAGE_CUDA
%canon_reldir%_cuda_nccl_drain_SOURCES = \
	%reldir%/cuda/nccl_drain.c $(gm_collective_nccl)
%canon_reldir%_cuda_nccl_drain_LDADD = $(gm_cuda_story_libs) \
	agent/cuda/libcu.la -lm
gm_tests += %reldir%/system/collectives/raw
GM_TORTURE += %reldir%/system/collectives/raw
%canon_reldir%_system_collectives_raw_SOURCES = \
	%reldir%/system/collectives/raw.c %reldir%/support/dice.h %reldir%/support/story_rows.h \
	$(gm_story)
%canon_reldir%_system_collectives_raw_LDADD = %reldir%/libraw.la \
	$(gm_story_libs) shm/libshm.la
gm_tests += %reldir%/system/collectives/memory
GM_TORTURE += %reldir%/system/collectives/memory
%canon_reldir%_system_collectives_memory_SOURCES = \
	%reldir%/system/collectives/memory.c %reldir%/support/story_rows.h $(gm_story)
%canon_reldir%_system_collectives_memory_LDADD = %reldir%/libraw.la \
	$(gm_story_libs) shm/libshm.la
gm_tests += %reldir%/cuda/collectives_memory
GM_TORTURE += %reldir%/cuda/collectives_memory
%canon_reldir%_cuda_collectives_memory_CPPFLAGS = $(AM_CPPFLAGS) \
	-DSTAGE_CUDA
%canon_reldir%_cuda_collectives_memory_SOURCES = \
	%reldir%/system/collectives/memory.c $(gm_cuda_story)
%canon_reldir%_cuda_collectives_memory_LDADD = %reldir%/libraw.la \
	$(gm_cuda_story_libs) shm/libshm.la
gm_tests += %reldir%/cuda/collectives_raw
GM_TORTURE += %reldir%/cuda/collectives_raw
%canon_reldir%_cuda_collectives_raw_CPPFLAGS = $(AM_CPPFLAGS) \
	-DSTAGE_CUDA
%canon_reldir%_cuda_collectives_raw_SOURCES = \
	%reldir%/system/collectives/raw.c %reldir%/support/dice.h $(gm_cuda_story)
%canon_reldir%_cuda_collectives_raw_LDADD = %reldir%/libraw.la \
	$(gm_cuda_story_libs) shm/libshm.la
%canon_reldir%_system_jobs_dependency_SOURCES = %reldir%/system/jobs/dependency.c \
	%reldir%/support/dice.h $(gm_story)
%canon_reldir%_system_jobs_dependency_LDADD = $(gm_story_libs)
%canon_reldir%_system_sessions_client_death_SOURCES = %reldir%/system/sessions/client_death.c \
	$(gm_story)
%canon_reldir%_system_sessions_client_death_LDADD = $(gm_story_libs)
%canon_reldir%_system_map_state_death_SOURCES = %reldir%/system/map/state_death.c \
	%reldir%/support/dice.h $(gm_story)
%canon_reldir%_system_map_state_death_LDADD = $(gm_story_libs)
%canon_reldir%_system_planning_concurrent_commits_SOURCES = %reldir%/system/planning/concurrent_commits.c \
	%reldir%/support/dice.h $(gm_story)
%canon_reldir%_system_planning_concurrent_commits_LDADD = $(gm_story_libs)
%canon_reldir%_system_workers_death_SOURCES = %reldir%/system/workers/death.c \
	$(gm_story)
%canon_reldir%_system_workers_death_LDADD = $(gm_story_libs)

gm_tests += %reldir%/system/map/state
%canon_reldir%_system_map_state_SOURCES = %reldir%/system/map/state.c \
	%reldir%/support/state_agent.h $(gm_story)
%canon_reldir%_system_map_state_LDADD = $(gm_story_libs)
gm_tests += %reldir%/system/map/state_disk
%canon_reldir%_system_map_state_disk_SOURCES = %reldir%/system/map/state_disk.c \
	%reldir%/support/state_agent.h $(gm_story)
%canon_reldir%_system_map_state_disk_LDADD = $(gm_story_libs) $(SECCOMP_LIBS)
gm_tests += %reldir%/system/map/state_hung
%canon_reldir%_system_map_state_hung_SOURCES = %reldir%/system/map/state_hung.c \
	%reldir%/support/state_agent.h $(gm_story)
%canon_reldir%_system_map_state_hung_LDADD = $(gm_story_libs) $(SECCOMP_LIBS)
# Programs, and stories about them.
gm_programs = %reldir%/program_square.la %reldir%/program_odd.la \
	%reldir%/program_old.la %reldir%/program_none.la \
	%reldir%/program_dies.la %reldir%/program_lacks.la \
	%reldir%/program_unlike.la
check_LTLIBRARIES += $(gm_programs)
%canon_reldir%_program_square_la_SOURCES = %reldir%/support/programs/square.c
%canon_reldir%_program_square_la_LDFLAGS = $(gm_tiny_flags)
%canon_reldir%_program_square_la_LIBADD = -lm
%canon_reldir%_program_odd_la_SOURCES = %reldir%/support/programs/odd.c
%canon_reldir%_program_odd_la_LDFLAGS = $(gm_tiny_flags)
%canon_reldir%_program_odd_la_LIBADD =
%canon_reldir%_program_old_la_SOURCES = %reldir%/support/programs/old.c
%canon_reldir%_program_old_la_LDFLAGS = $(gm_tiny_flags)
%canon_reldir%_program_old_la_LIBADD =
%canon_reldir%_program_none_la_SOURCES = %reldir%/support/programs/none.c
%canon_reldir%_program_none_la_LDFLAGS = $(gm_tiny_flags)
%canon_reldir%_program_none_la_LIBADD =
%canon_reldir%_program_dies_la_SOURCES = %reldir%/support/programs/dies.c
%canon_reldir%_program_dies_la_LDFLAGS = $(gm_tiny_flags)
%canon_reldir%_program_dies_la_LIBADD =
%canon_reldir%_program_lacks_la_SOURCES = %reldir%/support/programs/lacks.c
%canon_reldir%_program_lacks_la_LDFLAGS = $(gm_tiny_flags)
%canon_reldir%_program_lacks_la_LIBADD =
%canon_reldir%_program_unlike_la_SOURCES = %reldir%/support/programs/unlike.c
%canon_reldir%_program_unlike_la_LDFLAGS = $(gm_tiny_flags)
%canon_reldir%_program_unlike_la_LIBADD =
EXTRA_DIST += %reldir%/support/programs/odd.h
gm_program_story = %reldir%/support/program_agent.h %reldir%/support/programs/odd.h $(gm_story)
gm_tests += %reldir%/system/jobs/programs %reldir%/system/jobs/program_death
GM_TORTURE += %reldir%/system/jobs/program_death
%canon_reldir%_system_jobs_programs_SOURCES = %reldir%/system/jobs/programs.c \
	$(gm_program_story)
%canon_reldir%_system_jobs_programs_LDADD = $(gm_story_libs)
%canon_reldir%_system_jobs_programs_DEPENDENCIES = $(gm_story_libs) $(gm_programs)
%canon_reldir%_system_jobs_program_death_SOURCES = %reldir%/system/jobs/program_death.c \
	$(gm_program_story)
%canon_reldir%_system_jobs_program_death_LDADD = $(gm_story_libs)
%canon_reldir%_system_jobs_program_death_DEPENDENCIES = $(gm_story_libs) $(gm_programs)
gm_tests += %reldir%/system/jobs/remote_copy_lender_drain
%canon_reldir%_system_jobs_remote_copy_lender_drain_SOURCES = %reldir%/system/jobs/remote_copy_lender_drain.c \
	$(gm_program_story)
%canon_reldir%_system_jobs_remote_copy_lender_drain_LDADD = $(gm_story_libs)
%canon_reldir%_system_jobs_remote_copy_lender_drain_DEPENDENCIES = $(gm_story_libs) $(gm_programs)
gm_tests += %reldir%/system/jobs/program_scatter
GM_TORTURE += %reldir%/system/jobs/program_scatter
%canon_reldir%_system_jobs_program_scatter_SOURCES = %reldir%/system/jobs/program_scatter.c \
	$(gm_program_story)
%canon_reldir%_system_jobs_program_scatter_LDADD = $(gm_story_libs)
%canon_reldir%_system_jobs_program_scatter_DEPENDENCIES = $(gm_story_libs) $(gm_programs)
gm_tests += %reldir%/unit/worker/code_validate
%canon_reldir%_unit_worker_code_validate_SOURCES = %reldir%/unit/worker/code_validate.c \
	%reldir%/support/program_kernels.h %reldir%/support/ptx.h %reldir%/support/tap.h
%canon_reldir%_unit_worker_code_validate_LDADD = %reldir%/libptx.la agent/worker/libworker.la -lm
gm_tests += %reldir%/cuda/programs %reldir%/cuda/program_death
gm_kernel_story = %reldir%/support/kernel_agent.h %reldir%/support/program_kernels.h \
	$(gm_program_story) $(gm_cuda_story)
%canon_reldir%_cuda_programs_SOURCES = %reldir%/cuda/programs.c \
	$(gm_kernel_story)
%canon_reldir%_cuda_programs_LDADD = %reldir%/libagent.la \
	lib/libclient.la shm/libshm.la %reldir%/fake/libmachine.la -lpthread
%canon_reldir%_cuda_programs_DEPENDENCIES = \
	%reldir%/libagent.la lib/libclient.la %reldir%/fake/libmachine.la \
	$(gm_programs)
%canon_reldir%_cuda_program_death_SOURCES = \
	%reldir%/cuda/program_death.c $(gm_kernel_story)
%canon_reldir%_cuda_program_death_LDADD = $(gm_cuda_story_libs)
%canon_reldir%_cuda_program_death_DEPENDENCIES = %reldir%/libagent.la \
	%reldir%/fake/libmachine.la lib/libgpumap.la $(gm_programs)
gm_tests += %reldir%/cuda/program_mig_removed
%canon_reldir%_cuda_program_mig_removed_SOURCES = \
	%reldir%/cuda/program_mig_removed.c %reldir%/support/scripted_probe.h $(gm_cuda_story)
%canon_reldir%_cuda_program_mig_removed_LDADD = $(gm_cuda_story_libs)
gm_tests += %reldir%/unit/lib/scatter_combine
%canon_reldir%_unit_lib_scatter_combine_SOURCES = %reldir%/unit/lib/scatter_combine.c \
	%reldir%/support/tap.h
%canon_reldir%_unit_lib_scatter_combine_LDADD = $(gm_client) -lm
gm_tests += %reldir%/system/jobs/scatter
%canon_reldir%_system_jobs_scatter_SOURCES = %reldir%/system/jobs/scatter.c \
	%reldir%/support/scatter_rig.h %reldir%/support/story_rows.h $(gm_story)
%canon_reldir%_system_jobs_scatter_LDADD = $(gm_story_libs)
gm_tests += %reldir%/system/jobs/scatter_combine
%canon_reldir%_system_jobs_scatter_combine_SOURCES = \
	%reldir%/system/jobs/scatter_combine.c %reldir%/support/scatter_rig.h \
	%reldir%/support/story_rows.h $(gm_story)
%canon_reldir%_system_jobs_scatter_combine_LDADD = $(gm_story_libs)
gm_tests += %reldir%/system/planning/plan
%canon_reldir%_system_planning_plan_SOURCES = %reldir%/system/planning/plan.c \
	%reldir%/support/plan_agent.h $(gm_story)
%canon_reldir%_system_planning_plan_LDADD = $(gm_story_libs)
gm_tests += %reldir%/system/planning/abuse
%canon_reldir%_system_planning_abuse_SOURCES = %reldir%/system/planning/abuse.c \
	%reldir%/support/plan_agent.h %reldir%/support/dice.h $(gm_story)
%canon_reldir%_system_planning_abuse_LDADD = $(gm_story_libs)

gm_tests += %reldir%/system/hostile/control_socket
%canon_reldir%_system_hostile_control_socket_SOURCES = %reldir%/system/hostile/control_socket.c $(gm_story)
%canon_reldir%_system_hostile_control_socket_LDADD = $(gm_story_libs) shm/libshm.la \
	-lpthread

# Memory that is not the arena's.
gm_tests += %reldir%/system/jobs/buffers
%canon_reldir%_system_jobs_buffers_SOURCES = %reldir%/system/jobs/buffers.c \
	%reldir%/support/story_rows.h $(gm_story)
%canon_reldir%_system_jobs_buffers_LDADD = $(gm_story_libs)
gm_tests += %reldir%/system/jobs/remote_copy %reldir%/cuda/jobs_remote_copy
GM_TORTURE += %reldir%/system/jobs/remote_copy %reldir%/cuda/jobs_remote_copy
%canon_reldir%_system_jobs_remote_copy_SOURCES = %reldir%/system/jobs/remote_copy.c \
	%reldir%/support/story_rows.h $(gm_story)
%canon_reldir%_system_jobs_remote_copy_LDADD = $(gm_story_libs)
gm_tests += %reldir%/system/jobs/remote_copy_drain %reldir%/cuda/jobs_remote_copy_drain
%canon_reldir%_system_jobs_remote_copy_drain_SOURCES = %reldir%/system/jobs/remote_copy_drain.c \
	%reldir%/support/story_rows.h $(gm_story)
%canon_reldir%_system_jobs_remote_copy_drain_LDADD = $(gm_story_libs)
%canon_reldir%_cuda_jobs_remote_copy_drain_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_cuda_jobs_remote_copy_drain_SOURCES = %reldir%/system/jobs/remote_copy_drain.c \
	$(gm_cuda_story)
%canon_reldir%_cuda_jobs_remote_copy_drain_LDADD = $(gm_cuda_story_libs)
%canon_reldir%_cuda_jobs_remote_copy_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_cuda_jobs_remote_copy_SOURCES = %reldir%/system/jobs/remote_copy.c \
	$(gm_cuda_story)
%canon_reldir%_cuda_jobs_remote_copy_LDADD = $(gm_cuda_story_libs)
gm_tests += %reldir%/cuda/jobs_buffers
%canon_reldir%_cuda_jobs_buffers_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_cuda_jobs_buffers_SOURCES = %reldir%/system/jobs/buffers.c \
	$(gm_cuda_story)
%canon_reldir%_cuda_jobs_buffers_LDADD = $(gm_cuda_story_libs)

# Buffers that have a name.
gm_shares = %reldir%/support/share_sessions.h %reldir%/support/ctl.h %reldir%/support/story_rows.h $(gm_story)
gm_tests += %reldir%/system/sharing/shares %reldir%/cuda/sharing_shares
%canon_reldir%_system_sharing_shares_SOURCES = %reldir%/system/sharing/shares.c $(gm_shares)
%canon_reldir%_system_sharing_shares_LDADD = $(gm_story_libs) $(JANSSON_LIBS)
%canon_reldir%_cuda_sharing_shares_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_cuda_sharing_shares_SOURCES = %reldir%/system/sharing/shares.c \
	%reldir%/support/share_sessions.h %reldir%/support/ctl.h $(gm_cuda_story)
%canon_reldir%_cuda_sharing_shares_LDADD = $(gm_cuda_story_libs) $(JANSSON_LIBS)
gm_tests += %reldir%/cuda/full
%canon_reldir%_cuda_full_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_cuda_full_SOURCES = %reldir%/cuda/full.c \
	%reldir%/support/share_sessions.h %reldir%/support/ctl.h $(gm_cuda_story)
%canon_reldir%_cuda_full_LDADD = $(gm_cuda_story_libs) $(JANSSON_LIBS)
gm_tests += %reldir%/system/sharing/abuse
%canon_reldir%_system_sharing_abuse_SOURCES = %reldir%/system/sharing/abuse.c \
	$(gm_shares)
%canon_reldir%_system_sharing_abuse_LDADD = %reldir%/libagent.la \
	lib/libclient.la shm/libshm.la $(JANSSON_LIBS)
gm_tests += %reldir%/system/sharing/death %reldir%/cuda/sharing_death
GM_TORTURE += %reldir%/system/sharing/death %reldir%/cuda/sharing_death
%canon_reldir%_system_sharing_death_SOURCES = %reldir%/system/sharing/death.c \
	$(gm_shares)
%canon_reldir%_system_sharing_death_LDADD = $(gm_story_libs) $(JANSSON_LIBS)
%canon_reldir%_cuda_sharing_death_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_cuda_sharing_death_SOURCES = \
	%reldir%/system/sharing/death.c %reldir%/support/share_sessions.h %reldir%/support/ctl.h \
	$(gm_cuda_story)
%canon_reldir%_cuda_sharing_death_LDADD = $(gm_cuda_story_libs) \
	$(JANSSON_LIBS)

# Files that are loaded.
gm_load = %reldir%/support/load_file.h %reldir%/support/story_rows.h
gm_tests += %reldir%/system/loads/files
GM_TORTURE += %reldir%/system/loads/files
%canon_reldir%_system_loads_files_SOURCES = %reldir%/system/loads/files.c $(gm_load) $(gm_story)
%canon_reldir%_system_loads_files_LDADD = $(gm_story_libs)
gm_tests += %reldir%/cuda/loads_files
GM_TORTURE += %reldir%/cuda/loads_files
%canon_reldir%_cuda_loads_files_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_cuda_loads_files_SOURCES = %reldir%/system/loads/files.c $(gm_load) \
	$(gm_cuda_story)
%canon_reldir%_cuda_loads_files_LDADD = $(gm_cuda_story_libs)

gm_tests += %reldir%/system/jobs/bulk_fairness %reldir%/cuda/jobs_bulk_fairness
%canon_reldir%_system_jobs_bulk_fairness_SOURCES = %reldir%/system/jobs/bulk_fairness.c \
	$(gm_load) $(gm_story)
%canon_reldir%_system_jobs_bulk_fairness_LDADD = $(gm_story_libs)
%canon_reldir%_cuda_jobs_bulk_fairness_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_cuda_jobs_bulk_fairness_SOURCES = %reldir%/system/jobs/bulk_fairness.c \
	$(gm_load) $(gm_cuda_story)
%canon_reldir%_cuda_jobs_bulk_fairness_LDADD = $(gm_cuda_story_libs)

gm_tests += %reldir%/system/loads/death
GM_TORTURE += %reldir%/system/loads/death
%canon_reldir%_system_loads_death_SOURCES = %reldir%/system/loads/death.c \
	$(gm_load) $(gm_story)
%canon_reldir%_system_loads_death_LDADD = $(gm_story_libs)
gm_tests += %reldir%/cuda/loads_death
GM_TORTURE += %reldir%/cuda/loads_death
%canon_reldir%_cuda_loads_death_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_cuda_loads_death_SOURCES = %reldir%/system/loads/death.c \
	$(gm_load) $(gm_cuda_story)
%canon_reldir%_cuda_loads_death_LDADD = $(gm_cuda_story_libs)
gm_tests += %reldir%/system/loads/read_ahead %reldir%/cuda/loads_read_ahead
%canon_reldir%_system_loads_read_ahead_SOURCES = %reldir%/system/loads/read_ahead.c \
	%reldir%/support/fuse.h $(gm_load) $(gm_story)
%canon_reldir%_system_loads_read_ahead_LDADD = $(gm_story_libs)
%canon_reldir%_cuda_loads_read_ahead_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_cuda_loads_read_ahead_SOURCES = %reldir%/system/loads/read_ahead.c \
	%reldir%/support/fuse.h $(gm_load) $(gm_cuda_story)
%canon_reldir%_cuda_loads_read_ahead_LDADD = $(gm_cuda_story_libs)
gm_tests += %reldir%/system/loads/hung_filesystem
%canon_reldir%_system_loads_hung_filesystem_SOURCES = %reldir%/system/loads/hung_filesystem.c \
	%reldir%/support/fuse.h %reldir%/support/load_file.h $(gm_story)
%canon_reldir%_system_loads_hung_filesystem_LDADD = $(gm_story_libs)

# Checkpoints that are loaded.
gm_model = %reldir%/support/shards.h $(gm_load)
gm_tests += %reldir%/system/loads/concurrent %reldir%/cuda/loads_concurrent
%canon_reldir%_system_loads_concurrent_SOURCES = %reldir%/system/loads/concurrent.c \
	%reldir%/support/fuse.h $(gm_model) $(gm_story)
%canon_reldir%_system_loads_concurrent_LDADD = $(gm_story_libs)
%canon_reldir%_cuda_loads_concurrent_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_cuda_loads_concurrent_SOURCES = \
	%reldir%/system/loads/concurrent.c %reldir%/support/fuse.h $(gm_model) \
	$(gm_cuda_story)
%canon_reldir%_cuda_loads_concurrent_LDADD = $(gm_cuda_story_libs)
gm_tests += %reldir%/system/loads/model
%canon_reldir%_system_loads_model_SOURCES = %reldir%/system/loads/model.c $(gm_model) \
	$(gm_story)
%canon_reldir%_system_loads_model_LDADD = $(gm_story_libs)
gm_tests += %reldir%/cuda/loads_model
%canon_reldir%_cuda_loads_model_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_cuda_loads_model_SOURCES = %reldir%/system/loads/model.c $(gm_model) \
	$(gm_cuda_story)
%canon_reldir%_cuda_loads_model_LDADD = $(gm_cuda_story_libs)

gm_tests += %reldir%/system/loads/model_gguf
%canon_reldir%_system_loads_model_gguf_SOURCES = %reldir%/system/loads/model_gguf.c \
	%reldir%/support/gguf_file.h $(gm_model) $(gm_story)
%canon_reldir%_system_loads_model_gguf_LDADD = $(gm_story_libs)
gm_tests += %reldir%/system/loads/model_real
%canon_reldir%_system_loads_model_real_SOURCES = %reldir%/system/loads/model_real.c \
	$(gm_model) $(gm_story)
%canon_reldir%_system_loads_model_real_LDADD = $(gm_story_libs)
gm_tests += %reldir%/system/loads/model_faults
GM_TORTURE += %reldir%/system/loads/model_faults
%canon_reldir%_system_loads_model_faults_SOURCES = %reldir%/system/loads/model_faults.c \
	%reldir%/support/fuse.h $(gm_model) $(gm_story)
%canon_reldir%_system_loads_model_faults_LDADD = $(gm_story_libs)

gm_tests += %reldir%/system/ctl/load
GM_TORTURE += %reldir%/system/ctl/load
%canon_reldir%_system_ctl_load_SOURCES = %reldir%/system/ctl/load.c $(gm_model) \
	$(gm_story)
%canon_reldir%_system_ctl_load_LDADD = $(gm_story_libs) $(JANSSON_LIBS)

gm_tests += %reldir%/system/loads/model_share %reldir%/cuda/loads_model_share
GM_TORTURE += %reldir%/system/loads/model_share %reldir%/cuda/loads_model_share
%canon_reldir%_system_loads_model_share_SOURCES = %reldir%/system/loads/model_share.c \
	$(gm_model) $(gm_shares)
%canon_reldir%_system_loads_model_share_LDADD = $(gm_story_libs) $(JANSSON_LIBS)
%canon_reldir%_cuda_loads_model_share_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
%canon_reldir%_cuda_loads_model_share_SOURCES = \
	%reldir%/system/loads/model_share.c $(gm_model) %reldir%/support/share_sessions.h \
	%reldir%/support/ctl.h $(gm_cuda_story)
%canon_reldir%_cuda_loads_model_share_LDADD = $(gm_cuda_story_libs) \
	$(JANSSON_LIBS)
gm_tests += %reldir%/system/jobs/fairness
%canon_reldir%_system_jobs_fairness_SOURCES = %reldir%/system/jobs/fairness.c $(gm_story)
%canon_reldir%_system_jobs_fairness_LDADD = $(gm_story_libs)
gm_tests += %reldir%/unit/lib/model_table
%canon_reldir%_unit_lib_model_table_SOURCES = %reldir%/unit/lib/model_table.c \
	%reldir%/support/tap.h
%canon_reldir%_unit_lib_model_table_LDADD = lib/libclient.la shm/libshm.la

# What gpumapd keeps of buffers, with workers that do as they are told.
gm_claims = %reldir%/support/scripted_worker_agent.h %reldir%/support/scripted_worker.h %reldir%/support/raw.h \
	$(gm_story)
gm_claims_libs = %reldir%/libraw.la $(gm_story_libs) shm/libshm.la
gm_tests += %reldir%/system/sharing/registrations
%canon_reldir%_system_sharing_registrations_SOURCES = %reldir%/system/sharing/registrations.c \
	%reldir%/support/slow_close.h $(gm_claims)
%canon_reldir%_system_sharing_registrations_LDADD = $(gm_claims_libs)
gm_tests += %reldir%/system/sharing/exports
%canon_reldir%_system_sharing_exports_SOURCES = %reldir%/system/sharing/exports.c $(gm_claims)
%canon_reldir%_system_sharing_exports_LDADD = $(gm_claims_libs)
gm_tests += %reldir%/system/sharing/peer_access
%canon_reldir%_system_sharing_peer_access_SOURCES = %reldir%/system/sharing/peer_access.c \
	$(gm_claims)
%canon_reldir%_system_sharing_peer_access_LDADD = $(gm_claims_libs)
check_PROGRAMS += %reldir%/support/scripted_worker
%canon_reldir%_support_scripted_worker_SOURCES = %reldir%/support/scripted_worker.c \
	%reldir%/support/scripted_worker.h

gm_row = %reldir%/support/worker_row.h %reldir%/support/queue_client.h %reldir%/support/tap.h

gm_tests += %reldir%/system/workers/serve
%canon_reldir%_system_workers_serve_SOURCES = %reldir%/system/workers/serve.c $(gm_row)

gm_tests += %reldir%/system/workers/abuse
%canon_reldir%_system_workers_abuse_SOURCES = %reldir%/system/workers/abuse.c \
	$(gm_row)

gm_tests += %reldir%/cuda/worker_buffers
%canon_reldir%_cuda_worker_buffers_SOURCES = %reldir%/cuda/worker_buffers.c \
	%reldir%/support/worker_cuda.h $(gm_row)
%canon_reldir%_cuda_worker_buffers_LDADD = shm/libshm.la $(gm_cuda)
gm_tests += %reldir%/cuda/worker
%canon_reldir%_cuda_worker_SOURCES = %reldir%/cuda/worker.c \
	%reldir%/support/worker_cuda.h $(gm_row)
%canon_reldir%_cuda_worker_LDADD = shm/libshm.la $(gm_cuda)
gm_tests += %reldir%/system/workers/recovery
GM_TORTURE += %reldir%/system/workers/recovery
%canon_reldir%_system_workers_recovery_SOURCES = \
	%reldir%/system/workers/recovery.c $(gm_row)

gm_tests += %reldir%/unit/probe/parse
%canon_reldir%_unit_probe_parse_SOURCES = %reldir%/unit/probe/parse.c \
	%reldir%/support/tap.h
%canon_reldir%_unit_probe_parse_LDADD = agent/probe/libprobe.la

gm_tests += %reldir%/unit/probe/device
%canon_reldir%_unit_probe_device_SOURCES = %reldir%/unit/probe/device.c \
	%reldir%/support/sysfs_tree.h %reldir%/support/tap.h
%canon_reldir%_unit_probe_device_LDADD = agent/probe/libprobe.la

# gpumap-probe over the stand-ins.
gm_tests += %reldir%/probe/idle_cards
%canon_reldir%_probe_idle_cards_SOURCES = %reldir%/probe/idle_cards.c \
	%reldir%/support/probe_rig.h %reldir%/support/fake_machine.h %reldir%/support/tap.h
%canon_reldir%_probe_idle_cards_LDADD = %reldir%/fake/libmachine.la -lpthread

gm_tests += %reldir%/probe/faults
%canon_reldir%_probe_faults_SOURCES = %reldir%/probe/faults.c \
	%reldir%/support/probe_rig.h %reldir%/support/fake_machine.h %reldir%/support/tap.h
%canon_reldir%_probe_faults_LDADD = %reldir%/fake/libmachine.la -lpthread

gm_tests += %reldir%/probe/mig
%canon_reldir%_probe_mig_SOURCES = %reldir%/probe/mig.c \
	%reldir%/support/probe_rig.h %reldir%/support/fake_machine.h %reldir%/support/tap.h
%canon_reldir%_probe_mig_LDADD = %reldir%/fake/libmachine.la -lpthread

gm_tests += %reldir%/probe/release
%canon_reldir%_probe_release_SOURCES = %reldir%/probe/release.c \
	%reldir%/support/probe_rig.h %reldir%/support/fake_machine.h %reldir%/support/tap.h
%canon_reldir%_probe_release_LDADD = %reldir%/fake/libmachine.la -lpthread

gm_tests += %reldir%/probe/abuse
%canon_reldir%_probe_abuse_SOURCES = %reldir%/probe/abuse.c \
	%reldir%/support/probe_rig.h %reldir%/support/fake_machine.h %reldir%/support/tap.h
%canon_reldir%_probe_abuse_LDADD = %reldir%/fake/libmachine.la -lpthread

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
