# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# shm: what processes share.  No system call, no allocation.
noinst_LTLIBRARIES += %reldir%/libshm.la
%canon_reldir%_libshm_la_SOURCES = \
	%reldir%/atomic.h \
	%reldir%/chars.h \
	%reldir%/control.h \
	%reldir%/control_cluster.h \
	%reldir%/control_comm.h \
	%reldir%/control_mesh.h \
	%reldir%/control_masks.h \
	%reldir%/names.h %reldir%/timens.h \
	%reldir%/point.h \
	%reldir%/queue.h \
	%reldir%/ring.h \
	%reldir%/seq.h \
	%reldir%/tracepoint.h
%canon_reldir%_libshm_la_SOURCES += %reldir%/check.c %reldir%/check.h
%canon_reldir%_libshm_la_SOURCES += %reldir%/cluster.c %reldir%/cluster.h
%canon_reldir%_libshm_la_SOURCES += %reldir%/device_kinds.c
%canon_reldir%_libshm_la_SOURCES += %reldir%/device_kinds.h
%canon_reldir%_libshm_la_SOURCES += %reldir%/journal.c %reldir%/journal.h
%canon_reldir%_libshm_la_SOURCES += %reldir%/layer_name.c
%canon_reldir%_libshm_la_SOURCES += %reldir%/layer_name.h
%canon_reldir%_libshm_la_SOURCES += %reldir%/layers.c %reldir%/layers.h
%canon_reldir%_libshm_la_SOURCES += %reldir%/layout.c %reldir%/layout.h
%canon_reldir%_libshm_la_SOURCES += %reldir%/meshes.c %reldir%/meshes.h
%canon_reldir%_libshm_la_SOURCES += %reldir%/objects.c %reldir%/objects.h
%canon_reldir%_libshm_la_SOURCES += %reldir%/ops.c %reldir%/ops.h
%canon_reldir%_libshm_la_SOURCES += %reldir%/preference.c
%canon_reldir%_libshm_la_SOURCES += %reldir%/preference.h
%canon_reldir%_libshm_la_SOURCES += %reldir%/replicas.c
%canon_reldir%_libshm_la_SOURCES += %reldir%/replicas.h
%canon_reldir%_libshm_la_SOURCES += %reldir%/rows.c %reldir%/rows.h
%canon_reldir%_libshm_la_SOURCES += %reldir%/score.c %reldir%/score.h
%canon_reldir%_libshm_la_SOURCES += %reldir%/split.c %reldir%/split.h
%canon_reldir%_libshm_la_SOURCES += %reldir%/trace.c %reldir%/trace.h
%canon_reldir%_libshm_la_SOURCES += %reldir%/version.c %reldir%/version.h

# Test points make system calls, so a plain build has no trace of them.
if TESTPOINTS
%canon_reldir%_libshm_la_SOURCES += %reldir%/point.c
endif

gm_man += %reldir%/gpumap-shm.5
