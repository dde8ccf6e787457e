# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# shm: what processes share.  No system call, no allocation.
noinst_LTLIBRARIES += %reldir%/libshm.la
%canon_reldir%_libshm_la_SOURCES = %reldir%/point.h
%canon_reldir%_libshm_la_SOURCES += %reldir%/score.c %reldir%/score.h
%canon_reldir%_libshm_la_SOURCES += %reldir%/split.c %reldir%/split.h
%canon_reldir%_libshm_la_SOURCES = \
	%reldir%/atomic.h \
	%reldir%/check.c %reldir%/check.h \
	%reldir%/control.h \
	%reldir%/journal.c %reldir%/journal.h \
	%reldir%/layers.c %reldir%/layers.h \
	%reldir%/layout.c %reldir%/layout.h \
	%reldir%/objects.c %reldir%/objects.h \
	%reldir%/point.h \
	%reldir%/queue.h \
	%reldir%/ring.h \
	%reldir%/rows.c %reldir%/rows.h \
	%reldir%/score.c %reldir%/score.h \
	%reldir%/seq.h \
	%reldir%/split.c %reldir%/split.h

# Test points make system calls, so a plain build has no trace of them.
if TESTPOINTS
%canon_reldir%_libshm_la_SOURCES += %reldir%/point.c
endif
