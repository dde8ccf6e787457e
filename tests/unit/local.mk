# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# tests/unit: one module of the product at a time, and main() of the suites,
# linked in; no agent runs.  In a TSan build the large suites have the cases alone
# whose two ends are threads, and what these link.

gm_suites += tests/suites/unit_support
gm_unit_support = \
	%reldir%/support/suite.c
tests_suites_unit_support_SOURCES = $(gm_unit_support)
tests_suites_unit_support_LDADD = tests/libsupport.la
gm_cases += $(gm_unit_support)

gm_suites += tests/suites/unit_shm
gm_unit_shm = \
	%reldir%/shm/journal.c \
	%reldir%/shm/layer_name.c \
	%reldir%/shm/layout.c \
	%reldir%/shm/map.c \
	%reldir%/shm/ops.c \
	%reldir%/shm/point.c \
	%reldir%/shm/preference.c \
	%reldir%/shm/ring.c \
	%reldir%/shm/seq.c \
	%reldir%/shm/split.c \
	%reldir%/shm/torture_publish.c \
	%reldir%/shm/trace.c
tests_suites_unit_shm_SOURCES = $(gm_unit_shm)
tests_suites_unit_shm_LDADD = tests/libsupport.la shm/libshm.la -lpthread \
	-lm
gm_cases += $(gm_unit_shm)
GM_TSAN_TESTS += %reldir%/shm/ring.c %reldir%/shm/seq.c
gm_tsan_suites += tests/suites/unit_shm
GM_TORTURE += %reldir%/shm/torture_publish.c

# From its archive, so that what the library hides can be reached.  A test that
# has an agent to talk to brings a thread that plays one.
gm_suites += tests/suites/unit_lib
gm_unit_lib = \
	%reldir%/lib/arguments.c \
	%reldir%/lib/attach.c \
	%reldir%/lib/buffers.c \
	%reldir%/lib/comm_open.c \
	%reldir%/lib/completion.c \
	%reldir%/lib/entry_fields.c \
	%reldir%/lib/handle_check.c \
	%reldir%/lib/huge_pages.c \
	%reldir%/lib/mask_nodes.c \
	%reldir%/lib/pins.c \
	%reldir%/lib/plan_request.c \
	%reldir%/lib/ready.c \
	%reldir%/lib/refusal.c \
	%reldir%/lib/share_answers.c \
	%reldir%/lib/second_slot.c \
	%reldir%/lib/session.c \
	%reldir%/lib/shared_memory.c \
	%reldir%/lib/spread.c \
	%reldir%/lib/submit.c \
	%reldir%/lib/threads.c
if !TSAN
gm_unit_lib += \
	%reldir%/lib/arena.c \
	%reldir%/lib/checkpoint.c \
	%reldir%/lib/choose.c \
	%reldir%/lib/container_devices.c \
	%reldir%/lib/cuda_visible_devices.c \
	%reldir%/lib/engine.c \
	%reldir%/lib/engine_forms.c \
	%reldir%/lib/engine_modules.c \
	%reldir%/lib/gguf.c \
	%reldir%/lib/json_scan.c \
	%reldir%/lib/layer_caches.c \
	%reldir%/lib/model_config.c \
	%reldir%/lib/model_table.c \
	%reldir%/lib/no_syscalls.c \
	%reldir%/lib/policy.c \
	%reldir%/lib/safetensors.c \
	%reldir%/lib/scatter_combine.c \
	%reldir%/lib/view.c
endif
tests_suites_unit_lib_SOURCES = $(gm_unit_lib)
tests_suites_unit_lib_LDADD = tests/libsupport.la lib/libmodel.la lib/libclient.la \
	shm/libshm.la -lpthread -lm
gm_cases += $(gm_unit_lib)
GM_TSAN_TESTS += $(gm_unit_lib)
GM_TORTURE += %reldir%/lib/engine.c
gm_tsan_suites += tests/suites/unit_lib

if AGENT
gm_suites += tests/suites/unit_comm
gm_unit_comm = \
	%reldir%/comm/combine.c \
	%reldir%/comm/comm.c \
	%reldir%/comm/comm_init.c
tests_suites_unit_comm_SOURCES = $(gm_unit_comm)
tests_suites_unit_comm_LDADD = tests/libsupport.la agent/comm/libcomm.la \
	tests/libptx.la agent/cuda/libcu.la agent/common/libcommon.la \
	-lpthread -lm
gm_cases += $(gm_unit_comm)
GM_TSAN_TESTS += %reldir%/comm/comm.c %reldir%/comm/comm_init.c
gm_tsan_suites += tests/suites/unit_comm

gm_suites += tests/suites/unit_common
gm_unit_common = \
	%reldir%/common/cgroup.c \
	%reldir%/common/close_thread.c \
	%reldir%/common/huge_pages.c \
	%reldir%/common/memory_file.c \
	%reldir%/common/idset.c \
	%reldir%/common/lineage.c \
	%reldir%/common/log.c \
	%reldir%/common/numa_bind.c \
	%reldir%/common/running_clock.c \
	%reldir%/common/text.c
tests_suites_unit_common_SOURCES = $(gm_unit_common)
tests_suites_unit_common_LDADD = tests/libsupport.la \
	agent/device/libdevice.la agent/common/libcommon.la $(SECCOMP_LIBS) \
	$(NUMA_LIBS) -lpthread -lm
gm_cases += $(gm_unit_common)

gm_suites += tests/suites/unit_ctl
gm_unit_ctl = \
	%reldir%/ctl/parse.c \
	%reldir%/ctl/progress.c
tests_suites_unit_ctl_SOURCES = $(gm_unit_ctl) agent/ctl/parse.c
tests_suites_unit_ctl_SOURCES += agent/ctl/progress_text.c
tests_suites_unit_ctl_LDADD = tests/libsupport.la lib/libplan.la \
	shm/libshm.la
gm_cases += $(gm_unit_ctl)

gm_suites += tests/suites/unit_cuda
gm_unit_cuda = \
	%reldir%/cuda/abi.c \
	%reldir%/cuda/cuerror.c \
	%reldir%/cuda/driver.c \
	%reldir%/cuda/hip_abi.c \
	%reldir%/cuda/nvml.c \
	%reldir%/cuda/operators.c \
	%reldir%/cuda/operators_ptx.c \
	%reldir%/cuda/operators_ptx_lengths.c
tests_suites_unit_cuda_SOURCES = $(gm_unit_cuda)
tests_suites_unit_cuda_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
tests_suites_unit_cuda_LDADD = tests/libsupport.la tests/libptx.la \
	agent/cuda/libcu.la $(DL_LIBS) -lm
gm_cases += $(gm_unit_cuda)

gm_suites += tests/suites/unit_daemon
gm_unit_daemon = \
	%reldir%/daemon/connection.c \
	%reldir%/daemon/deferred_close.c \
	%reldir%/daemon/drain.c \
	%reldir%/daemon/io_thread.c \
	%reldir%/daemon/transaction.c
if !TSAN
gm_unit_daemon += \
	%reldir%/daemon/admit.c \
	%reldir%/daemon/admit_turns.c \
	%reldir%/daemon/block_alloc.c \
	%reldir%/daemon/child.c \
	%reldir%/daemon/cluster_nodes.c \
	%reldir%/daemon/config.c \
	%reldir%/daemon/credit.c \
	%reldir%/daemon/credit_random.c \
	%reldir%/daemon/fd_store.c \
	%reldir%/daemon/home_node.c \
	%reldir%/daemon/ledger.c \
	%reldir%/daemon/ledger_random.c \
	%reldir%/daemon/mask_quota.c \
	%reldir%/daemon/mask_refused.c \
	%reldir%/daemon/p2p.c \
	%reldir%/daemon/publish.c \
	%reldir%/daemon/received_fds.c \
	%reldir%/daemon/retry_queue.c \
	%reldir%/daemon/segment_wakes.c \
	%reldir%/daemon/share_record.c \
	%reldir%/daemon/spawn.c \
	%reldir%/daemon/spin.c \
	%reldir%/daemon/state_dir.c \
	%reldir%/daemon/state_file.c \
	%reldir%/daemon/state_recheck.c \
	%reldir%/daemon/user.c \
	%reldir%/daemon/usage.c \
	%reldir%/daemon/user_queue.c \
	%reldir%/daemon/uuid.c \
	%reldir%/daemon/wait_line.c \
	%reldir%/daemon/watched.c \
	%reldir%/daemon/worker_process.c \
	%reldir%/daemon/worker_process_refused.c \
	%reldir%/daemon/worker_uid.c
endif
tests_suites_unit_daemon_SOURCES = $(gm_unit_daemon) \
	tests/support/standing_clock.c tests/support/standing_clock.h
tests_suites_unit_daemon_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=calloc \
	-Wl,--wrap=clock_gettime -Wl,--wrap=gm_watchers_release \
	-Wl,--wrap=gm_watchers_resume -Wl,--wrap=gm_watchers_look_again
tests_suites_unit_daemon_LDADD = tests/libsupport.la \
	agent/daemon/libdaemon.la agent/files/libfiles.la lib/libplan.la \
	agent/mesh/libmesh.la agent/cuda/libcu.la agent/common/libcommon.la \
	shm/libshm.la $(SECCOMP_LIBS) $(NUMA_LIBS) $(URING_LIBS) -lpthread
gm_cases += $(gm_unit_daemon)
GM_TSAN_TESTS += %reldir%/daemon/deferred_close.c \
	%reldir%/daemon/io_thread.c %reldir%/daemon/transaction.c
gm_tsan_suites += tests/suites/unit_daemon

gm_suites += tests/suites/unit_device
gm_unit_device = \
	%reldir%/device/cuda.c \
	%reldir%/device/stream_told.c
if !TSAN
gm_unit_device += \
	%reldir%/device/cuda_faults.c \
	%reldir%/device/cuda_kernel.c \
	%reldir%/device/cuda_nccl_group.c \
	%reldir%/device/cuda_remote_copy.c \
	%reldir%/device/floats.c \
	%reldir%/device/hip.c \
	%reldir%/device/hip_code.c \
	%reldir%/device/hip_runtime.c \
	%reldir%/device/host.c \
	%reldir%/device/host_operators.c \
	%reldir%/device/host_reduce.c \
	%reldir%/device/opencl.c \
	%reldir%/device/opencl_abi.c \
	%reldir%/device/opencl_card.c \
	%reldir%/device/opencl_module.c \
	%reldir%/device/vulkan.c
endif
tests_suites_unit_device_SOURCES = $(gm_unit_device)
tests_suites_unit_device_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_builddir)
tests_suites_unit_device_LDADD = tests/libsupport.la \
	tests/fake/libmachine.la agent/device/libdevice.la tests/libptx.la \
	agent/cuda/libcu.la agent/common/libcommon.la $(NUMA_LIBS) \
	$(DL_LIBS) -lpthread -lm
EXTRA_DIST += %reldir%/device/vulkan_square.comp
if VULKAN
nodist_tests_suites_unit_device_SOURCES = %reldir%/device/vulkan_square.h
%reldir%/device/vulkan_square.h: %reldir%/device/vulkan_square.comp
	$(AM_V_GEN)$(MKDIR_P) $(@D) && \
	$(GLSLANG) -V --target-env vulkan1.2 --vn vulkan_square -o $@ \
		$(srcdir)/%reldir%/device/vulkan_square.comp >$@.log && \
	rm $@.log
gm_vulkan_test = %reldir%/device/suites_unit_device-vulkan.$(OBJEXT)
$(gm_vulkan_test): %reldir%/device/vulkan_square.h \
	agent/device/ops_vulkan_spirv.h
CLEANFILES += %reldir%/device/vulkan_square.h
endif
if HIP
gm_hip_test = %reldir%/device/suites_unit_device-hip_code.$(OBJEXT)
$(gm_hip_test): agent/device/ops_hip_code.h
endif
gm_cases += $(gm_unit_device)
GM_TSAN_TESTS += %reldir%/device/cuda.c %reldir%/device/stream_told.c
# Their cards are in a process of the stand-in.
gm_tsan_suites += tests/suites/unit_device tests/fake/stand-in

gm_suites += tests/suites/unit_fake
gm_unit_fake = \
	%reldir%/fake/faults.c \
	%reldir%/fake/mig.c \
	%reldir%/fake/nvml.c \
	%reldir%/fake/plan.c
tests_suites_unit_fake_SOURCES = $(gm_unit_fake)
tests_suites_unit_fake_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
tests_suites_unit_fake_LDADD = tests/libcontract.la tests/libsupport.la \
	tests/fake/libmachine.la tests/fake/libhardware.la -ldl -lpthread
gm_cases += $(gm_unit_fake)

gm_suites += tests/suites/unit_mask
gm_unit_mask = \
	%reldir%/mask/mask.c \
	%reldir%/mask/mask_tensor.c \
	%reldir%/mask/npy.c \
	%reldir%/mask/picture.c
tests_suites_unit_mask_SOURCES = $(gm_unit_mask)
tests_suites_unit_mask_LDADD = tests/libsupport.la agent/mask/libmask.la \
	agent/files/libfiles.la lib/libplan.la agent/mesh/libmesh.la \
	lib/libcheckpoint.la shm/libshm.la
gm_cases += $(gm_unit_mask)

gm_suites += tests/suites/unit_mesh
gm_unit_mesh = \
	%reldir%/mesh/mesh.c
tests_suites_unit_mesh_SOURCES = $(gm_unit_mesh)
tests_suites_unit_mesh_LDADD = tests/libsupport.la agent/mesh/libmesh.la \
	lib/libplan.la
gm_cases += $(gm_unit_mesh)

gm_suites += tests/suites/unit_plan
gm_unit_plan = \
	%reldir%/plan/auto.c \
	%reldir%/plan/cache.c \
	%reldir%/plan/cluster.c \
	%reldir%/plan/model_types.c \
	%reldir%/plan/heads.c \
	%reldir%/plan/nodefile.c \
	%reldir%/plan/number.c \
	%reldir%/plan/pipeline.c \
	%reldir%/plan/place.c \
	%reldir%/plan/plan.c \
	%reldir%/plan/published_models.c \
	%reldir%/plan/rule.c \
	%reldir%/plan/sizes.c \
	%reldir%/plan/spec.c \
	%reldir%/plan/strategies.c \
	%reldir%/plan/topology.c
tests_suites_unit_plan_SOURCES = $(gm_unit_plan)
tests_suites_unit_plan_LDADD = tests/libsupport.la \
	agent/files/libfiles.la lib/libplan.la \
	agent/mesh/libmesh.la lib/libcheckpoint.la \
	shm/libshm.la $(JANSSON_LIBS)
gm_cases += $(gm_unit_plan)

gm_suites += tests/suites/unit_probe
gm_unit_probe = \
	%reldir%/probe/kfd.c \
	%reldir%/probe/parse.c \
	%reldir%/probe/processes.c \
	%reldir%/probe/sysfs.c
tests_suites_unit_probe_SOURCES = $(gm_unit_probe)
tests_suites_unit_probe_LDADD = tests/libsupport.la agent/probe/libprobe.la
gm_cases += $(gm_unit_probe)

gm_suites += tests/suites/unit_worker
gm_unit_worker = \
	%reldir%/worker/blocking_thread.c \
	%reldir%/worker/sigbus.c
if !TSAN
gm_unit_worker += \
	%reldir%/worker/aligned_read.c \
	%reldir%/worker/async_exec.c \
	%reldir%/worker/async_exec_abuse.c \
	%reldir%/worker/async_exec_drain.c \
	%reldir%/worker/async_exec_random.c \
	%reldir%/worker/async_exec_second_slot.c \
	%reldir%/worker/build.c \
	%reldir%/worker/code_validate.c \
	%reldir%/worker/decode.c \
	%reldir%/worker/decode_buffers.c \
	%reldir%/worker/decode_operators.c \
	%reldir%/worker/decode_program.c \
	%reldir%/worker/dependency.c \
	%reldir%/worker/io_events.c \
	%reldir%/worker/load_ahead.c \
	%reldir%/worker/job_clock.c \
	%reldir%/worker/nccl_group_init.c \
	%reldir%/worker/quantum.c \
	%reldir%/worker/quantum_slices.c \
	%reldir%/worker/register.c \
	%reldir%/worker/remote_copy_bounce.c \
	%reldir%/worker/sandbox.c \
	%reldir%/worker/schedule.c \
	%reldir%/worker/schedule_collective.c \
	%reldir%/worker/schedule_load.c \
	%reldir%/worker/schedule_remote_copy.c \
	%reldir%/worker/spin.c \
	%reldir%/worker/stall_guard.c \
	%reldir%/worker/uring.c \
	%reldir%/worker/wakeup.c
endif
tests_suites_unit_worker_SOURCES = $(gm_unit_worker)
tests_suites_unit_worker_LDADD = tests/libsupport.la \
	agent/worker/libworker.la tests/libptx.la -lpthread -lm
gm_cases += $(gm_unit_worker)
GM_TSAN_TESTS += %reldir%/worker/blocking_thread.c %reldir%/worker/sigbus.c
gm_tsan_suites += tests/suites/unit_worker
endif
