# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# agent/top: a node as it changes, for gpumapctl top.
noinst_LTLIBRARIES += %reldir%/libtop.la
%canon_reldir%_libtop_la_SOURCES =
%canon_reldir%_libtop_la_SOURCES += %reldir%/drain.c
%canon_reldir%_libtop_la_SOURCES += %reldir%/facts.c
%canon_reldir%_libtop_la_SOURCES += %reldir%/facts_json.c
%canon_reldir%_libtop_la_SOURCES += %reldir%/keys.c
%canon_reldir%_libtop_la_SOURCES += %reldir%/layout.c
%canon_reldir%_libtop_la_SOURCES += %reldir%/layout_detail.c
%canon_reldir%_libtop_la_SOURCES += %reldir%/layout_lists.c
%canon_reldir%_libtop_la_SOURCES += %reldir%/layout_rows.c
%canon_reldir%_libtop_la_SOURCES += %reldir%/page.c %reldir%/page.h
%canon_reldir%_libtop_la_SOURCES += %reldir%/top.h
%canon_reldir%_libtop_la_CPPFLAGS = $(AM_CPPFLAGS) $(NCURSES_CFLAGS)
if NCURSES
%canon_reldir%_libtop_la_SOURCES += %reldir%/screen.c
endif
