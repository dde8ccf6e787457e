# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# shm: what processes share.  No system call, no allocation.
noinst_LTLIBRARIES += %reldir%/libshm.la
%canon_reldir%_libshm_la_SOURCES = %reldir%/point.h
%canon_reldir%_libshm_la_SOURCES += %reldir%/score.c %reldir%/score.h
%canon_reldir%_libshm_la_SOURCES += %reldir%/split.c %reldir%/split.h

# Test points make system calls, so a plain build has no trace of them.
if TESTPOINTS
%canon_reldir%_libshm_la_SOURCES += %reldir%/point.c
endif
