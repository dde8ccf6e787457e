# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# agent/probe: gpumap-probe.  All but its main() is a library, for tests.
noinst_LTLIBRARIES += %reldir%/libprobe.la
%canon_reldir%_libprobe_la_SOURCES = \
	%reldir%/ask.c \
	%reldir%/card.c %reldir%/card.h \
	%reldir%/census.c \
	%reldir%/child.c %reldir%/child.h \
	%reldir%/facts.c %reldir%/facts.h \
	%reldir%/hear.c \
	%reldir%/mind.c \
	%reldir%/ml.c %reldir%/ml.h \
	%reldir%/note.c %reldir%/note.h \
	%reldir%/peers.c \
	%reldir%/place.c %reldir%/place.h \
	%reldir%/probe.h \
	%reldir%/steward.c %reldir%/steward.h \
	%reldir%/tell.c \
	%reldir%/text.c %reldir%/text.h \
	%reldir%/watch.c
%canon_reldir%_libprobe_la_LIBADD = agent/cuda/libcu.la \
	agent/common/libcommon.la $(NUMA_LIBS) $(DL_LIBS)

pkglibexec_PROGRAMS += %reldir%/gpumap-probe
%canon_reldir%_gpumap_probe_SOURCES = %reldir%/main.c
%canon_reldir%_gpumap_probe_LDADD = %reldir%/libprobe.la
