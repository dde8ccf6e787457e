# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# agent/sync: gpumap-sync, which sees the agent only through libgpumap.
noinst_LTLIBRARIES += %reldir%/libsync.la
%canon_reldir%_libsync_la_SOURCES =
%canon_reldir%_libsync_la_SOURCES += %reldir%/client.c %reldir%/client.h
%canon_reldir%_libsync_la_SOURCES += %reldir%/parts.c
%canon_reldir%_libsync_la_SOURCES += %reldir%/sync.c %reldir%/sync.h
