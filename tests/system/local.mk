# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# tests/system: gpumapd, its workers and its clients as they are installed, each
# test with an instance of its own on host rows.

gm_suites += tests/suites/system_collectives
gm_system_collectives = \
	%reldir%/collectives/comm_renew.c \
	%reldir%/collectives/death.c \
	%reldir%/collectives/memory.c \
	%reldir%/collectives/operations.c \
	%reldir%/collectives/raw.c \
	%reldir%/collectives/users.c
tests_suites_system_collectives_SOURCES = $(gm_system_collectives)
tests_suites_system_collectives_LDADD = tests/libsupport.la lib/libgpumap.la \
	agent/device/libdevice.la tests/libptx.la agent/cuda/libcu.la \
	shm/libshm.la -lm
gm_cases += $(gm_system_collectives)
GM_TORTURE += %reldir%/collectives/death.c %reldir%/collectives/memory.c \
	%reldir%/collectives/operations.c %reldir%/collectives/raw.c

gm_suites += tests/suites/system_containers
gm_system_containers = \
	%reldir%/containers/agents.c \
	%reldir%/containers/clients.c
gm_containers = \
	%reldir%/containers/client.c %reldir%/containers/client.h \
	%reldir%/containers/container.c %reldir%/containers/container.h
tests_suites_system_containers_SOURCES = $(gm_system_containers) \
	$(gm_containers)
tests_suites_system_containers_LDADD = tests/libsupport.la lib/libgpumap-model.la \
	lib/libgpumap.la \
	shm/libshm.la $(JANSSON_LIBS) $(SECCOMP_LIBS)
gm_cases += $(gm_system_containers)

gm_suites += tests/suites/system_ctl
gm_system_ctl = \
	%reldir%/ctl/collective.c \
	%reldir%/ctl/complete.c \
	%reldir%/ctl/cordon.c \
	%reldir%/ctl/export.c \
	%reldir%/ctl/export_models.c \
	%reldir%/ctl/policy.c \
	%reldir%/ctl/load.c \
	%reldir%/ctl/load_detach.c \
	%reldir%/ctl/load_file.c \
	%reldir%/ctl/map.c \
	%reldir%/ctl/mask.c \
	%reldir%/ctl/mesh.c \
	%reldir%/ctl/plan.c \
	%reldir%/ctl/plan_dummies.c \
	%reldir%/ctl/plan_nodes.c \
	%reldir%/ctl/progress.c \
	%reldir%/ctl/run.c \
	%reldir%/ctl/run_bind.c \
	%reldir%/ctl/run_crowd.c \
	%reldir%/ctl/run_gate.c \
	%reldir%/ctl/run_wait.c \
	%reldir%/ctl/status.c \
	%reldir%/ctl/wait.c
tests_suites_system_ctl_SOURCES = $(gm_system_ctl)
tests_suites_system_ctl_LDADD = tests/libsupport.la lib/libgpumap-model.la \
	lib/libgpumap.la \
	shm/libshm.la $(JANSSON_LIBS) $(SECCOMP_LIBS)
gm_cases += $(gm_system_ctl)
GM_TORTURE += %reldir%/ctl/load.c %reldir%/ctl/run_crowd.c

gm_suites += tests/suites/system_hostile
gm_system_hostile = \
	%reldir%/hostile/control_socket.c \
	%reldir%/hostile/inode_lock.c \
	%reldir%/hostile/isolation.c \
	%reldir%/hostile/mutated_records.c \
	%reldir%/hostile/names.c \
	%reldir%/hostile/unauthenticated.c \
	%reldir%/hostile/unread_fds.c \
	%reldir%/hostile/withheld_memory.c
gm_attacks = \
	%reldir%/hostile/attack.c %reldir%/hostile/attack.h \
	%reldir%/hostile/attack_buffers.c \
	%reldir%/hostile/attack_clients.c \
	%reldir%/hostile/attack_entries.c \
	%reldir%/hostile/attack_memory.c \
	%reldir%/hostile/attack_records.c \
	%reldir%/hostile/honest_client.c %reldir%/hostile/honest_client.h
tests_suites_system_hostile_SOURCES = $(gm_system_hostile) $(gm_attacks)
tests_suites_system_hostile_LDADD = tests/libsupport.la lib/libgpumap-model.la \
	lib/libgpumap.la \
	shm/libshm.la $(SECCOMP_LIBS) -lpthread
gm_cases += $(gm_system_hostile)
GM_TORTURE += %reldir%/hostile/isolation.c \
	%reldir%/hostile/mutated_records.c

gm_suites += tests/suites/system_jobs
gm_system_jobs = \
	%reldir%/jobs/buffers.c \
	%reldir%/jobs/bulk_fairness.c \
	%reldir%/jobs/dependency.c \
	%reldir%/jobs/dependency_raw.c \
	%reldir%/jobs/fairness.c \
	%reldir%/jobs/figures.c \
	%reldir%/jobs/kill_points.c \
	%reldir%/jobs/operations.c \
	%reldir%/jobs/program_death.c \
	%reldir%/jobs/program_scatter.c \
	%reldir%/jobs/programs.c \
	%reldir%/jobs/random_mix.c \
	%reldir%/jobs/remote_copy.c \
	%reldir%/jobs/remote_copy_drain.c \
	%reldir%/jobs/remote_copy_lender_drain.c \
	%reldir%/jobs/scatter.c \
	%reldir%/jobs/scatter_combine.c \
	%reldir%/jobs/trace.c \
	%reldir%/jobs/uring.c
tests_suites_system_jobs_SOURCES = $(gm_system_jobs)
tests_suites_system_jobs_LDADD = tests/libsupport.la lib/libgpumap-model.la \
	lib/libgpumap.la \
	shm/libshm.la $(URING_LIBS) -lpthread
gm_cases += $(gm_system_jobs)
GM_TORTURE += %reldir%/jobs/dependency.c %reldir%/jobs/kill_points.c \
	%reldir%/jobs/program_death.c %reldir%/jobs/program_scatter.c \
	%reldir%/jobs/random_mix.c %reldir%/jobs/remote_copy.c

gm_suites += tests/suites/system_loads
gm_system_loads = \
	%reldir%/loads/concurrent.c \
	%reldir%/loads/death.c \
	%reldir%/loads/files.c \
	%reldir%/loads/hung_filesystem.c \
	%reldir%/loads/hung_registration.c \
	%reldir%/loads/model.c \
	%reldir%/loads/model_faults.c \
	%reldir%/loads/model_file.c \
	%reldir%/loads/model_gguf.c \
	%reldir%/loads/model_real.c \
	%reldir%/loads/model_share.c \
	%reldir%/loads/read_ahead.c
tests_suites_system_loads_SOURCES = $(gm_system_loads)
tests_suites_system_loads_LDADD = tests/libsupport.la lib/libgpumap-model.la \
	lib/libgpumap.la \
	shm/libshm.la $(JANSSON_LIBS)
gm_cases += $(gm_system_loads)
GM_TORTURE += %reldir%/loads/death.c %reldir%/loads/files.c \
	%reldir%/loads/model_file.c \
	%reldir%/loads/model_faults.c %reldir%/loads/model_share.c

gm_suites += tests/suites/system_map
gm_system_map = \
	%reldir%/map/damage.c \
	%reldir%/map/dummy_rows.c \
	%reldir%/map/names.c \
	%reldir%/map/no_syscalls.c \
	%reldir%/map/retired.c \
	%reldir%/map/segment.c \
	%reldir%/map/state.c \
	%reldir%/map/state_damage.c \
	%reldir%/map/state_death.c \
	%reldir%/map/state_disk.c \
	%reldir%/map/state_hung.c \
	%reldir%/map/state_killed.c
tests_suites_system_map_SOURCES = $(gm_system_map)
tests_suites_system_map_LDADD = tests/libsupport.la lib/libgpumap-model.la \
	lib/libgpumap.la \
	shm/libshm.la $(JANSSON_LIBS) $(SECCOMP_LIBS)
gm_cases += $(gm_system_map)
GM_TORTURE += %reldir%/map/state_death.c

gm_suites += tests/suites/system_masks
gm_system_masks = \
	%reldir%/masks/damage.c \
	%reldir%/masks/death.c \
	%reldir%/masks/flood.c \
	%reldir%/masks/jobs.c \
	%reldir%/masks/numa_segment.c \
	%reldir%/masks/publish.c \
	%reldir%/masks/readers.c \
	%reldir%/masks/state.c
tests_suites_system_masks_SOURCES = $(gm_system_masks)
tests_suites_system_masks_LDADD = tests/libsupport.la lib/libgpumap-model.la \
	lib/libgpumap.la \
	agent/mask/libmask.la lib/libplan.la agent/mesh/libmesh.la \
	shm/libshm.la
gm_cases += $(gm_system_masks)
GM_TORTURE += %reldir%/masks/death.c %reldir%/masks/readers.c

gm_suites += tests/suites/system_cluster
gm_system_cluster = \
	%reldir%/cluster/damage.c \
	%reldir%/cluster/death.c \
	%reldir%/cluster/hostile.c \
	%reldir%/cluster/growth.c \
	%reldir%/cluster/publish.c \
	%reldir%/cluster/readers.c \
	%reldir%/cluster/slow_disk.c
tests_suites_system_cluster_SOURCES = $(gm_system_cluster)
tests_suites_system_cluster_LDADD = tests/libsupport.la lib/libgpumap-model.la \
	lib/libgpumap.la \
	shm/libshm.la
gm_cases += $(gm_system_cluster)
GM_TORTURE += %reldir%/cluster/death.c %reldir%/cluster/readers.c

gm_suites += tests/suites/system_meshes
gm_system_meshes = \
	%reldir%/meshes/damage.c \
	%reldir%/meshes/death.c \
	%reldir%/meshes/epoch.c \
	%reldir%/meshes/publish.c \
	%reldir%/meshes/rendezvous.c \
	%reldir%/meshes/rendezvous_abuse.c \
	%reldir%/meshes/rendezvous_death.c
tests_suites_system_meshes_SOURCES = $(gm_system_meshes)
tests_suites_system_meshes_LDADD = tests/libsupport.la lib/libgpumap-model.la \
	lib/libgpumap.la \
	shm/libshm.la
gm_cases += $(gm_system_meshes)
GM_TORTURE += %reldir%/meshes/death.c %reldir%/meshes/epoch.c \
	%reldir%/meshes/rendezvous.c %reldir%/meshes/rendezvous_death.c

gm_suites += tests/suites/system_planning
gm_system_planning = \
	%reldir%/planning/abuse.c \
	%reldir%/planning/concurrent_commits.c \
	%reldir%/planning/crowd.c \
	%reldir%/planning/for_user.c \
	%reldir%/planning/plan.c \
	%reldir%/planning/turns.c \
	%reldir%/planning/wait.c \
	%reldir%/planning/wait_abuse.c \
	%reldir%/planning/wait_concurrent.c \
	%reldir%/planning/wait_ends.c \
	%reldir%/planning/wait_random.c
tests_suites_system_planning_SOURCES = $(gm_system_planning)
tests_suites_system_planning_LDADD = tests/libsupport.la lib/libgpumap-model.la \
	lib/libgpumap.la \
	shm/libshm.la
gm_cases += $(gm_system_planning)
GM_TORTURE += %reldir%/planning/concurrent_commits.c \
	%reldir%/planning/crowd.c \
	%reldir%/planning/wait_concurrent.c %reldir%/planning/wait_random.c

gm_suites += tests/suites/system_sessions
gm_system_sessions = \
	%reldir%/sessions/agent_death.c \
	%reldir%/sessions/change_fd.c \
	%reldir%/sessions/client_death.c \
	%reldir%/sessions/clock_jump.c \
	%reldir%/sessions/exhaustion.c \
	%reldir%/sessions/kept_memory.c \
	%reldir%/sessions/limits.c \
	%reldir%/sessions/memory_group.c \
	%reldir%/sessions/poll_fd.c \
	%reldir%/sessions/reconnect.c \
	%reldir%/sessions/retry.c \
	%reldir%/sessions/service_manager.c \
	%reldir%/sessions/supervisor.c \
	%reldir%/sessions/time_namespace.c
tests_suites_system_sessions_SOURCES = $(gm_system_sessions)
tests_suites_system_sessions_LDADD = tests/libsupport.la lib/libgpumap-model.la \
	lib/libgpumap.la \
	shm/libshm.la
gm_cases += $(gm_system_sessions)
GM_TORTURE += %reldir%/sessions/agent_death.c \
	%reldir%/sessions/client_death.c

gm_suites += tests/suites/system_sharing
gm_system_sharing = \
	%reldir%/sharing/abuse.c \
	%reldir%/sharing/claims.c \
	%reldir%/sharing/death.c \
	%reldir%/sharing/exports.c \
	%reldir%/sharing/kept.c \
	%reldir%/sharing/listed.c \
	%reldir%/sharing/peer_access.c \
	%reldir%/sharing/registrations.c \
	%reldir%/sharing/restart.c \
	%reldir%/sharing/restart_config.c \
	%reldir%/sharing/restart_input.c \
	%reldir%/sharing/restart_rounds.c \
	%reldir%/sharing/shares.c
tests_suites_system_sharing_SOURCES = $(gm_system_sharing) \
	contrib/fdstore/store.c contrib/fdstore/store.h
tests_suites_system_sharing_LDADD = tests/libsupport.la lib/libmodel.la lib/libclient.la \
	agent/common/libcommon.la shm/libshm.la $(JANSSON_LIBS) $(NUMA_LIBS)
gm_cases += $(gm_system_sharing)
GM_TORTURE += %reldir%/sharing/claims.c %reldir%/sharing/death.c \
	%reldir%/sharing/restart_rounds.c

gm_suites += tests/suites/system_workers
gm_system_workers = \
	%reldir%/workers/abuse.c \
	%reldir%/workers/death.c \
	%reldir%/workers/numa.c \
	%reldir%/workers/recovery.c \
	%reldir%/workers/serve.c \
	%reldir%/workers/unkillable.c
tests_suites_system_workers_SOURCES = $(gm_system_workers)
# From its archive: gpumapd starts this binary with an environment of its own.
tests_suites_system_workers_LDADD = tests/libsupport.la lib/libclient.la \
	agent/common/libcommon.la shm/libshm.la $(NUMA_LIBS)
gm_cases += $(gm_system_workers)
GM_TORTURE += %reldir%/workers/death.c %reldir%/workers/recovery.c \
	%reldir%/workers/unkillable.c
