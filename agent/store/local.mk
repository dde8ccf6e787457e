# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# agent/store: values that nodes share, in a directory or in etcd.
noinst_LTLIBRARIES += %reldir%/libstore.la
%canon_reldir%_libstore_la_SOURCES =
%canon_reldir%_libstore_la_SOURCES += %reldir%/keys.c %reldir%/keys.h
%canon_reldir%_libstore_la_SOURCES += %reldir%/store.c %reldir%/store.h
%canon_reldir%_libstore_la_SOURCES += %reldir%/store_backend.h
%canon_reldir%_libstore_la_SOURCES += %reldir%/store_file.c
%canon_reldir%_libstore_la_SOURCES += %reldir%/store_folder.c
%canon_reldir%_libstore_la_SOURCES += %reldir%/store_folder.h
%canon_reldir%_libstore_la_SOURCES += %reldir%/store_json.c
%canon_reldir%_libstore_la_SOURCES += %reldir%/store_json.h
%canon_reldir%_libstore_la_CPPFLAGS = $(AM_CPPFLAGS)
%canon_reldir%_libstore_la_LIBADD = $(JANSSON_LIBS)

if ETCD
%canon_reldir%_libstore_la_SOURCES += %reldir%/store_etcd.c
%canon_reldir%_libstore_la_SOURCES += %reldir%/store_etcd.h
%canon_reldir%_libstore_la_SOURCES += %reldir%/store_etcd_watch.c
%canon_reldir%_libstore_la_SOURCES += %reldir%/store_http.c
%canon_reldir%_libstore_la_SOURCES += %reldir%/store_http.h
%canon_reldir%_libstore_la_CPPFLAGS += $(CURL_CFLAGS)
%canon_reldir%_libstore_la_LIBADD += $(CURL_LIBS)
endif
