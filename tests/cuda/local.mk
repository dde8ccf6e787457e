# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# tests/cuda: rows of cards, which the stand-ins of tests/fake play.

gm_suites += tests/suites/cuda
gm_cuda = \
	%reldir%/alloc.c \
	%reldir%/collective_buffers.c \
	%reldir%/compile_cache.c \
	%reldir%/credit.c \
	%reldir%/driver_lock.c \
	%reldir%/faults.c \
	%reldir%/full.c \
	%reldir%/health.c \
	%reldir%/load_unregister.c \
	%reldir%/mask_charge.c \
	%reldir%/mask_copy.c \
	%reldir%/mask_copy_death.c \
	%reldir%/mask_copy_drain.c \
	%reldir%/mask_copy_paths.c \
	%reldir%/mask_death.c \
	%reldir%/mask_full.c \
	%reldir%/mask_idle.c \
	%reldir%/mask_jobs.c \
	%reldir%/mask_replicas.c \
	%reldir%/mask_superseded.c \
	%reldir%/mig_reuse.c \
	%reldir%/mps.c \
	%reldir%/nccl.c \
	%reldir%/nccl_api.c \
	%reldir%/nccl_api_republish.c \
	%reldir%/nccl_death.c \
	%reldir%/nccl_drain.c \
	%reldir%/nccl_init.c \
	%reldir%/nccl_order.c \
	%reldir%/nccl_raw.c \
	%reldir%/nccl_send.c \
	%reldir%/probe.c \
	%reldir%/program_death.c \
	%reldir%/program_mig_removed.c \
	%reldir%/programs.c \
	%reldir%/row_drain.c \
	%reldir%/rows.c \
	%reldir%/slices.c \
	%reldir%/two_models.c \
	%reldir%/usage.c \
	%reldir%/worker.c \
	%reldir%/worker_buffers.c
tests_suites_cuda_SOURCES = $(gm_cuda)
tests_suites_cuda_CPPFLAGS = -I$(srcdir)/tests/stubs $(AM_CPPFLAGS) \
	$(CUDA_CPPFLAGS)
tests_suites_cuda_LDADD = tests/libcontract.la tests/libsupport.la \
	lib/libplan.la agent/reader/libreader.la \
	agent/common/libcommon.la \
	tests/fake/libmachine.la tests/fake/libranks.la lib/libmodel.la \
	lib/libclient.la \
	agent/mask/libmask.la tests/libptx.la agent/cuda/libcu.la \
	shm/libshm.la $(JANSSON_LIBS) $(DL_LIBS) -lpthread -lm
gm_cases += $(gm_cuda)
GM_TORTURE += %reldir%/collective_buffers.c %reldir%/faults.c \
	%reldir%/mask_copy.c %reldir%/mask_death.c %reldir%/mig_reuse.c \
	%reldir%/nccl_api.c %reldir%/nccl_death.c

# Tests of tests/system, which run on host rows there and on cards here.
gm_suites += tests/suites/cuda_collectives
gm_cuda_collectives = \
	%reldir%/collectives/death.c \
	%reldir%/collectives/memory.c \
	%reldir%/collectives/operations.c \
	%reldir%/collectives/raw.c \
	%reldir%/collectives/users.c
tests_suites_cuda_collectives_SOURCES = $(gm_cuda_collectives)
tests_suites_cuda_collectives_LDADD = tests/libsupport.la \
	tests/fake/libmachine.la lib/libgpumap.la agent/device/libdevice.la \
	tests/libptx.la agent/cuda/libcu.la shm/libshm.la -lpthread -lm
gm_cases += $(gm_cuda_collectives)
GM_TORTURE += %reldir%/collectives/death.c %reldir%/collectives/memory.c \
	%reldir%/collectives/operations.c %reldir%/collectives/raw.c

gm_suites += tests/suites/cuda_ctl
gm_cuda_ctl = \
	%reldir%/ctl/collective.c \
	%reldir%/ctl/export.c \
	%reldir%/ctl/run.c
tests_suites_cuda_ctl_SOURCES = $(gm_cuda_ctl)
tests_suites_cuda_ctl_LDADD = tests/libsupport.la tests/fake/libmachine.la \
	agent/cuda/libcu.la lib/libgpumap-model.la lib/libgpumap.la \
	$(JANSSON_LIBS) $(DL_LIBS) -lpthread
gm_cases += $(gm_cuda_ctl)

gm_suites += tests/suites/cuda_hostile
gm_cuda_hostile = \
	%reldir%/hostile/isolation.c
tests_suites_cuda_hostile_CPPFLAGS = $(AM_CPPFLAGS) -DSTAGE_CUDA
tests_suites_cuda_hostile_SOURCES = $(gm_cuda_hostile) $(gm_attacks)
tests_suites_cuda_hostile_LDADD = tests/libsupport.la \
	tests/fake/libmachine.la lib/libgpumap.la shm/libshm.la -lpthread
gm_cases += $(gm_cuda_hostile)
GM_TORTURE += %reldir%/hostile/isolation.c

gm_suites += tests/suites/cuda_jobs
gm_cuda_jobs = \
	%reldir%/jobs/buffers.c \
	%reldir%/jobs/bulk_fairness.c \
	%reldir%/jobs/dependency.c \
	%reldir%/jobs/figures.c \
	%reldir%/jobs/kill_points.c \
	%reldir%/jobs/random_mix.c \
	%reldir%/jobs/remote_copy.c \
	%reldir%/jobs/remote_copy_drain.c \
	%reldir%/jobs/scatter.c \
	%reldir%/jobs/scatter_combine.c \
	%reldir%/jobs/trace.c
tests_suites_cuda_jobs_SOURCES = $(gm_cuda_jobs)
tests_suites_cuda_jobs_LDADD = tests/libsupport.la tests/fake/libmachine.la \
	lib/libgpumap-model.la lib/libgpumap.la shm/libshm.la -lpthread
gm_cases += $(gm_cuda_jobs)
GM_TORTURE += %reldir%/jobs/dependency.c %reldir%/jobs/kill_points.c \
	%reldir%/jobs/random_mix.c %reldir%/jobs/remote_copy.c

gm_suites += tests/suites/cuda_loads
gm_cuda_loads = \
	%reldir%/loads/concurrent.c \
	%reldir%/loads/death.c \
	%reldir%/loads/files.c \
	%reldir%/loads/model.c \
	%reldir%/loads/model_share.c \
	%reldir%/loads/read_ahead.c
tests_suites_cuda_loads_SOURCES = $(gm_cuda_loads)
tests_suites_cuda_loads_LDADD = tests/libsupport.la tests/fake/libmachine.la \
	lib/libgpumap-model.la lib/libgpumap.la $(JANSSON_LIBS) -lpthread
gm_cases += $(gm_cuda_loads)
GM_TORTURE += %reldir%/loads/death.c %reldir%/loads/files.c \
	%reldir%/loads/model_share.c

gm_suites += tests/suites/cuda_sessions
gm_cuda_sessions = \
	%reldir%/sessions/agent_death.c \
	%reldir%/sessions/client_death.c \
	%reldir%/sessions/clock_jump.c
tests_suites_cuda_sessions_SOURCES = $(gm_cuda_sessions)
tests_suites_cuda_sessions_LDADD = tests/libsupport.la lib/libgpumap-model.la \
	tests/fake/libmachine.la lib/libgpumap.la shm/libshm.la -lpthread
gm_cases += $(gm_cuda_sessions)
GM_TORTURE += %reldir%/sessions/agent_death.c \
	%reldir%/sessions/client_death.c

gm_suites += tests/suites/cuda_sharing
gm_cuda_sharing = \
	%reldir%/sharing/claims.c \
	%reldir%/sharing/death.c \
	%reldir%/sharing/kept.c \
	%reldir%/sharing/restart.c \
	%reldir%/sharing/shares.c
tests_suites_cuda_sharing_SOURCES = $(gm_cuda_sharing)
tests_suites_cuda_sharing_LDADD = tests/libsupport.la \
	tests/fake/libmachine.la lib/libgpumap.la $(JANSSON_LIBS) -lpthread
gm_cases += $(gm_cuda_sharing)
GM_TORTURE += %reldir%/sharing/claims.c %reldir%/sharing/death.c

gm_suites += tests/suites/cuda_workers
gm_cuda_workers = \
	%reldir%/workers/death.c
tests_suites_cuda_workers_SOURCES = $(gm_cuda_workers)
tests_suites_cuda_workers_LDADD = tests/libsupport.la \
	tests/fake/libmachine.la lib/libgpumap.la -lpthread
gm_cases += $(gm_cuda_workers)
GM_TORTURE += %reldir%/workers/death.c
