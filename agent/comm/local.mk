# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# agent/comm: collectives over the ranks of a group.
noinst_LTLIBRARIES += %reldir%/libcomm.la
%canon_reldir%_libcomm_la_SOURCES =
%canon_reldir%_libcomm_la_SOURCES += %reldir%/request.c
%canon_reldir%_libcomm_la_SOURCES += %reldir%/combine.c
%canon_reldir%_libcomm_la_SOURCES += %reldir%/combine.h
%canon_reldir%_libcomm_la_SOURCES += %reldir%/comm.c
%canon_reldir%_libcomm_la_SOURCES += %reldir%/comm.h
%canon_reldir%_libcomm_la_SOURCES += %reldir%/comm_shm.h
%canon_reldir%_libcomm_la_SOURCES += %reldir%/completion.c
# As agent/device: results must not depend on the CPU.
%canon_reldir%_libcomm_la_CFLAGS = $(AM_CFLAGS) -ffp-contract=off
%canon_reldir%_libcomm_la_LIBADD = agent/device/libdevice.la
