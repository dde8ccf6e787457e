# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# agent/sync: stores that nodes share.
noinst_LTLIBRARIES += %reldir%/libsync.la
%canon_reldir%_libsync_la_SOURCES =
%canon_reldir%_libsync_la_SOURCES += %reldir%/keys.c %reldir%/keys.h
%canon_reldir%_libsync_la_SOURCES += %reldir%/store.c %reldir%/store.h
%canon_reldir%_libsync_la_SOURCES += %reldir%/store_backend.h
%canon_reldir%_libsync_la_SOURCES += %reldir%/store_file.c
%canon_reldir%_libsync_la_SOURCES += %reldir%/store_folder.c
%canon_reldir%_libsync_la_SOURCES += %reldir%/store_folder.h
