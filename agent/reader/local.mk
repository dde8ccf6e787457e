# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# agent/reader: what the programs share that show what libgpumap reads.
noinst_LTLIBRARIES += %reldir%/libreader.la
%canon_reldir%_libreader_la_SOURCES =
%canon_reldir%_libreader_la_SOURCES += %reldir%/device_text.c
%canon_reldir%_libreader_la_SOURCES += %reldir%/device_text.h
%canon_reldir%_libreader_la_SOURCES += %reldir%/list.c %reldir%/list.h
%canon_reldir%_libreader_la_SOURCES += %reldir%/wide_json.c
%canon_reldir%_libreader_la_SOURCES += %reldir%/wide_json.h
%canon_reldir%_libreader_la_LIBADD = $(JANSSON_LIBS)
