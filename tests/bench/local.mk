# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# tests/bench: programs whose figures tests/bench/run prints.
gm_bench =
gm_bench += %reldir%/bench_lookup
%canon_reldir%_bench_lookup_SOURCES = %reldir%/bench_lookup.c
%canon_reldir%_bench_lookup_LDADD = tests/libsupport.la \
	agent/bench/libbench.la lib/libgpumap.la shm/libshm.la

gm_bench += %reldir%/bench_collective
EXTRA_DIST += %reldir%/mpi_all_reduce.c
%canon_reldir%_bench_collective_SOURCES = %reldir%/bench_collective.c
%canon_reldir%_bench_collective_LDADD = tests/libsupport.la \
	agent/bench/libbench.la lib/libgpumap.la tests/libptx.la \
	agent/cuda/libcu.la $(JANSSON_LIBS) -lm

gm_bench += %reldir%/bench_masks
%canon_reldir%_bench_masks_SOURCES = %reldir%/bench_masks.c
%canon_reldir%_bench_masks_LDADD = tests/libsupport.la \
	agent/bench/libbench.la lib/libgpumap.la shm/libshm.la

gm_bench += %reldir%/bench_plan
%canon_reldir%_bench_plan_SOURCES = %reldir%/bench_plan.c
%canon_reldir%_bench_plan_LDADD = agent/bench/libbench.la \
	agent/plan/libplan.la agent/mesh/libmesh.la shm/libshm.la

gm_bench += %reldir%/bench_host_kernels
%canon_reldir%_bench_host_kernels_SOURCES = %reldir%/bench_host_kernels.c
%canon_reldir%_bench_host_kernels_LDADD = agent/bench/libbench.la \
	agent/device/libdevice.la agent/common/libcommon.la $(NUMA_LIBS) \
	-lpthread

check_PROGRAMS += $(gm_bench)
GM_BENCH += $(gm_bench)
