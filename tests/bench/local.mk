# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# tests/bench: programs whose figures tests/bench/run prints.
check_LTLIBRARIES += %reldir%/libmeasure.la
%canon_reldir%_libmeasure_la_SOURCES =
%canon_reldir%_libmeasure_la_SOURCES += %reldir%/measure/bracket.c %reldir%/measure/bracket.h
%canon_reldir%_libmeasure_la_SOURCES += %reldir%/measure/copy.c %reldir%/measure/copy.h
%canon_reldir%_libmeasure_la_SOURCES += %reldir%/measure/lookup.c %reldir%/measure/lookup.h
%canon_reldir%_libmeasure_la_SOURCES += %reldir%/measure/peer.c %reldir%/measure/peer.h
%canon_reldir%_libmeasure_la_SOURCES += %reldir%/measure/raw.c %reldir%/measure/raw.h
%canon_reldir%_libmeasure_la_SOURCES += %reldir%/measure/reads.c %reldir%/measure/reads.h
%canon_reldir%_libmeasure_la_SOURCES += %reldir%/measure/series.c %reldir%/measure/series.h
%canon_reldir%_libmeasure_la_SOURCES += %reldir%/measure/ticks.c %reldir%/measure/ticks.h
%canon_reldir%_libmeasure_la_CFLAGS = $(AM_CFLAGS) $(GM_BENCH_CFLAGS)

gm_bench =
gm_bench += %reldir%/bench_lookup
%canon_reldir%_bench_lookup_SOURCES = %reldir%/bench_lookup.c
%canon_reldir%_bench_lookup_LDADD = tests/libsupport.la \
	tests/bench/libmeasure.la lib/libgpumap.la shm/libshm.la

gm_bench += %reldir%/bench_collective
EXTRA_DIST += %reldir%/mpi_all_reduce.c
%canon_reldir%_bench_collective_SOURCES = %reldir%/bench_collective.c
%canon_reldir%_bench_collective_LDADD = tests/libsupport.la \
	tests/bench/libmeasure.la lib/libgpumap.la tests/libptx.la \
	agent/cuda/libcu.la $(JANSSON_LIBS) -lm

gm_bench += %reldir%/bench_masks
%canon_reldir%_bench_masks_SOURCES = %reldir%/bench_masks.c
%canon_reldir%_bench_masks_LDADD = tests/libsupport.la \
	tests/bench/libmeasure.la lib/libgpumap.la shm/libshm.la

gm_bench += %reldir%/bench_plan
%canon_reldir%_bench_plan_SOURCES = %reldir%/bench_plan.c
%canon_reldir%_bench_plan_LDADD = tests/bench/libmeasure.la \
	tests/libanswers.la

gm_bench += %reldir%/bench_host_kernels
%canon_reldir%_bench_host_kernels_SOURCES = %reldir%/bench_host_kernels.c
%canon_reldir%_bench_host_kernels_LDADD = tests/bench/libmeasure.la \
	agent/device/libdevice.la agent/common/libcommon.la $(NUMA_LIBS) \
	-lpthread

# Run by tests/bench/run, against agents that it starts.
gm_bench_instance = %reldir%/bench_instance
%canon_reldir%_bench_instance_SOURCES = %reldir%/instance/bench.h
%canon_reldir%_bench_instance_SOURCES += %reldir%/instance/crowd.c
%canon_reldir%_bench_instance_SOURCES += %reldir%/instance/load.c
%canon_reldir%_bench_instance_SOURCES += %reldir%/instance/main.c
%canon_reldir%_bench_instance_SOURCES += %reldir%/instance/read.c
%canon_reldir%_bench_instance_SOURCES += %reldir%/instance/scatter.c
%canon_reldir%_bench_instance_SOURCES += %reldir%/instance/sleep.c
%canon_reldir%_bench_instance_SOURCES += %reldir%/instance/trips.c
%canon_reldir%_bench_instance_LDADD = %reldir%/libmeasure.la lib/libgpumap-model.la \
	lib/libgpumap.la \
	shm/libshm.la $(URING_LIBS) -lpthread

check_PROGRAMS += $(gm_bench) $(gm_bench_instance)
GM_BENCH += $(gm_bench)
