# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# agent/common: what daemon, worker and tools share.
noinst_LTLIBRARIES += %reldir%/libcommon.la
%canon_reldir%_libcommon_la_SOURCES = \
	%reldir%/probe_wire.h %reldir%/wire.h %reldir%/write_all.h
%canon_reldir%_libcommon_la_SOURCES += %reldir%/cgroup.c %reldir%/cgroup.h
%canon_reldir%_libcommon_la_SOURCES += %reldir%/close_thread.c %reldir%/close_thread.h
%canon_reldir%_libcommon_la_SOURCES += %reldir%/fds.c %reldir%/fds.h
%canon_reldir%_libcommon_la_SOURCES += %reldir%/idset.c %reldir%/idset.h
%canon_reldir%_libcommon_la_SOURCES += %reldir%/ini.c %reldir%/ini.h
%canon_reldir%_libcommon_la_SOURCES += %reldir%/ini_value.c %reldir%/ini_value.h
%canon_reldir%_libcommon_la_SOURCES += %reldir%/lineage.c %reldir%/lineage.h
%canon_reldir%_libcommon_la_SOURCES += %reldir%/log.c %reldir%/log.h
%canon_reldir%_libcommon_la_SOURCES += %reldir%/manager.c %reldir%/manager.h
%canon_reldir%_libcommon_la_SOURCES += %reldir%/meminfo.c %reldir%/meminfo.h
%canon_reldir%_libcommon_la_SOURCES += %reldir%/memory_file.c
%canon_reldir%_libcommon_la_SOURCES += %reldir%/memory_file.h
%canon_reldir%_libcommon_la_SOURCES += %reldir%/node_clock.c %reldir%/node_clock.h
%canon_reldir%_libcommon_la_SOURCES += %reldir%/refusal.c %reldir%/refusal.h
%canon_reldir%_libcommon_la_SOURCES += %reldir%/running_clock.h
%canon_reldir%_libcommon_la_SOURCES += %reldir%/sched_hint.c %reldir%/sched_hint.h
%canon_reldir%_libcommon_la_SOURCES += %reldir%/text.c %reldir%/text.h
%canon_reldir%_libcommon_la_SOURCES += %reldir%/name.c %reldir%/name.h
%canon_reldir%_libcommon_la_SOURCES += %reldir%/numa_bind.c %reldir%/numa_bind.h
%canon_reldir%_libcommon_la_SOURCES += %reldir%/read_file.c %reldir%/read_file.h
%canon_reldir%_libcommon_la_SOURCES += %reldir%/huge_pages.c %reldir%/huge_pages.h
