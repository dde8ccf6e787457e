# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# agent/probe: gpumap-probe.  All but its main() is a library, for tests.
noinst_LTLIBRARIES += %reldir%/libprobe.la
%canon_reldir%_libprobe_la_SOURCES = \
	%reldir%/driver_query.c \
	%reldir%/enumerate.c \
	%reldir%/facts.c %reldir%/facts.h \
	%reldir%/kfd.c %reldir%/kfd.h \
	%reldir%/list.c \
	%reldir%/nvml_session.c %reldir%/nvml_session.h \
	%reldir%/peers.c \
	%reldir%/processes.c %reldir%/processes.h \
	%reldir%/say.c %reldir%/say.h \
	%reldir%/sysfs.c %reldir%/sysfs.h \
	%reldir%/probe.h \
	%reldir%/parse.c %reldir%/parse.h \
	%reldir%/watch_device.c
%canon_reldir%_libprobe_la_LIBADD = agent/device/libdevice.la \
	agent/cuda/libcu.la \
	agent/common/libcommon.la $(NUMA_LIBS) $(DL_LIBS)

pkglibexec_PROGRAMS += %reldir%/gpumap-probe
%canon_reldir%_gpumap_probe_SOURCES = %reldir%/main.c
%canon_reldir%_gpumap_probe_LDADD = %reldir%/libprobe.la
