# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# agent/common: what daemon, worker and tools share.
noinst_LTLIBRARIES += %reldir%/libcommon.la
%canon_reldir%_libcommon_la_SOURCES = \
	%reldir%/probe_wire.h %reldir%/wire.h
%canon_reldir%_libcommon_la_SOURCES += %reldir%/closer.c %reldir%/closer.h
%canon_reldir%_libcommon_la_SOURCES += %reldir%/idset.c %reldir%/idset.h
%canon_reldir%_libcommon_la_SOURCES += %reldir%/log.c %reldir%/log.h
%canon_reldir%_libcommon_la_SOURCES += %reldir%/meminfo.c %reldir%/meminfo.h
%canon_reldir%_libcommon_la_SOURCES += %reldir%/pace.c %reldir%/pace.h
%canon_reldir%_libcommon_la_SOURCES += %reldir%/pin.c %reldir%/pin.h
%canon_reldir%_libcommon_la_SOURCES += %reldir%/sysfile.c %reldir%/sysfile.h
%canon_reldir%_libcommon_la_SOURCES += %reldir%/thp.c %reldir%/thp.h
