# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# agent/worker: gpumap-worker.  It joins with its main():
#   pkglibexec_PROGRAMS += %reldir%/gpumap-worker
#   %canon_reldir%_gpumap_worker_SOURCES = %reldir%/main.c
#   %canon_reldir%_gpumap_worker_LDADD = agent/device/libdevice.la \
#	agent/common/libcommon.la shm/libshm.la $(URING_LIBS) $(NUMA_LIBS)
