# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# agent/daemon: gpumapd.  All but its main() is a library, for the tests.
noinst_LTLIBRARIES += %reldir%/libdaemon.la
%canon_reldir%_libdaemon_la_SOURCES = \
	%reldir%/config.h \
	%reldir%/daemon.h \
	%reldir%/devices.h \
	%reldir%/heap.h \
	%reldir%/holders.h \
	%reldir%/loop.c %reldir%/loop.h \
	%reldir%/publish.h \
	%reldir%/segment.h
%canon_reldir%_libdaemon_la_LIBADD = agent/plan/libplan.la \
	agent/common/libcommon.la shm/libshm.la $(INIH_LIBS) $(URING_LIBS)
