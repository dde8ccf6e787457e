# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# agent/device: the backends behind device.h, and drivers behind gpu.h.
noinst_LTLIBRARIES += %reldir%/libdevice.la
%canon_reldir%_libdevice_la_SOURCES =
%canon_reldir%_libdevice_la_SOURCES += %reldir%/cuda.c
%canon_reldir%_libdevice_la_SOURCES += %reldir%/cuda.h
%canon_reldir%_libdevice_la_SOURCES += %reldir%/cuda_clique.c
%canon_reldir%_libdevice_la_SOURCES += %reldir%/cuda_memory.c
%canon_reldir%_libdevice_la_SOURCES += %reldir%/device.h
%canon_reldir%_libdevice_la_SOURCES += %reldir%/gpu.h
%canon_reldir%_libdevice_la_SOURCES += %reldir%/host.c
%canon_reldir%_libdevice_la_SOURCES += %reldir%/host_float.h
%canon_reldir%_libdevice_la_SOURCES += %reldir%/host_kernels.c
%canon_reldir%_libdevice_la_SOURCES += %reldir%/host_kernels.h
%canon_reldir%_libdevice_la_SOURCES += %reldir%/host_memory.c
%canon_reldir%_libdevice_la_SOURCES += %reldir%/host_memory.h
%canon_reldir%_libdevice_la_SOURCES += %reldir%/host_reduce.h
%canon_reldir%_libdevice_la_SOURCES += %reldir%/host_vec.h
%canon_reldir%_libdevice_la_SOURCES += %reldir%/reduce.c
%canon_reldir%_libdevice_la_SOURCES += %reldir%/reduce.h
%canon_reldir%_libdevice_la_SOURCES += %reldir%/stream.c
%canon_reldir%_libdevice_la_SOURCES += %reldir%/stream.h
%canon_reldir%_libdevice_la_SOURCES += %reldir%/stream_lanes.c
%canon_reldir%_libdevice_la_SOURCES += %reldir%/stream_mask.c
%canon_reldir%_libdevice_la_SOURCES += %reldir%/stream_memory.c
%canon_reldir%_libdevice_la_SOURCES += %reldir%/stream_reduce.c
%canon_reldir%_libdevice_la_SOURCES += %reldir%/stream_regions.c
%canon_reldir%_libdevice_la_SOURCES += %reldir%/stream_work.c
%canon_reldir%_libdevice_la_SOURCES += %reldir%/task.c
%canon_reldir%_libdevice_la_SOURCES += %reldir%/task.h
# A fused multiply-add rounds once where others round twice: results would
# depend on the CPU.
%canon_reldir%_libdevice_la_CFLAGS = $(AM_CFLAGS) -ffp-contract=off
%canon_reldir%_libdevice_la_LIBADD = agent/cuda/libcu.la -lpthread
EXTRA_DIST += %reldir%/README.md
