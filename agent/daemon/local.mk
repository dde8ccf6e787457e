# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# agent/daemon: gpumapd.  It joins with its main():
#   sbin_PROGRAMS += %reldir%/gpumapd
#   %canon_reldir%_gpumapd_SOURCES = %reldir%/main.c
#   %canon_reldir%_gpumapd_LDADD = agent/plan/libplan.la \
#	agent/common/libcommon.la shm/libshm.la $(NUMA_LIBS) $(INIH_LIBS)
