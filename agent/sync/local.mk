# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# agent/sync: gpumap-sync, which sees the agent only through libgpumap.
noinst_LTLIBRARIES += %reldir%/libsync.la
%canon_reldir%_libsync_la_SOURCES =
%canon_reldir%_libsync_la_SOURCES += %reldir%/agent.c
%canon_reldir%_libsync_la_SOURCES += %reldir%/client.c %reldir%/client.h
%canon_reldir%_libsync_la_SOURCES += %reldir%/config.c %reldir%/config.h
%canon_reldir%_libsync_la_SOURCES += %reldir%/node_name.c
%canon_reldir%_libsync_la_SOURCES += %reldir%/node_name.h
%canon_reldir%_libsync_la_SOURCES += %reldir%/feed.c
%canon_reldir%_libsync_la_SOURCES += %reldir%/fields.c %reldir%/fields.h
%canon_reldir%_libsync_la_SOURCES += %reldir%/gang_agent.c
%canon_reldir%_libsync_la_SOURCES += %reldir%/gang_ask.c %reldir%/gang_ask.h
%canon_reldir%_libsync_la_SOURCES += %reldir%/gang_hold.c %reldir%/gang_hold.h
%canon_reldir%_libsync_la_SOURCES += %reldir%/gang_record.c
%canon_reldir%_libsync_la_SOURCES += %reldir%/gang_record.h
%canon_reldir%_libsync_la_SOURCES += %reldir%/gangs.c %reldir%/gangs.h
%canon_reldir%_libsync_la_SOURCES += %reldir%/own.c
%canon_reldir%_libsync_la_SOURCES += %reldir%/parts.c %reldir%/parts.h
%canon_reldir%_libsync_la_SOURCES += %reldir%/peers.c %reldir%/peers.h
%canon_reldir%_libsync_la_SOURCES += %reldir%/peers_recall.c
%canon_reldir%_libsync_la_SOURCES += %reldir%/server.c %reldir%/server.h
%canon_reldir%_libsync_la_SOURCES += %reldir%/summary.c %reldir%/summary.h
%canon_reldir%_libsync_la_SOURCES += %reldir%/summary_read.c
%canon_reldir%_libsync_la_SOURCES += %reldir%/summary_read.h
%canon_reldir%_libsync_la_SOURCES += %reldir%/sync.c %reldir%/sync.h
%canon_reldir%_libsync_la_SOURCES += %reldir%/ephemerals.c
%canon_reldir%_libsync_la_SOURCES += %reldir%/ephemerals.h
%canon_reldir%_libsync_la_SOURCES += %reldir%/values.c
%canon_reldir%_libsync_la_SOURCES += %reldir%/value_waits.c
%canon_reldir%_libsync_la_SOURCES += %reldir%/value_waits.h
%canon_reldir%_libsync_la_LIBADD = $(JANSSON_LIBS)

sbin_PROGRAMS += %reldir%/gpumap-sync
%canon_reldir%_gpumap_sync_SOURCES = %reldir%/main.c
%canon_reldir%_gpumap_sync_LDADD = %reldir%/libsync.la agent/store/libstore.la \
	agent/plan/libplan.la agent/reader/libreader.la \
	agent/common/libcommon.la lib/libgpumap.la shm/libshm.la -lpthread

gm_man += %reldir%/gpumap-sync.8 %reldir%/gpumap-sync.conf.5
