# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# agent/bench: measuring, for gpumapctl bench and tests/bench.
noinst_LTLIBRARIES += %reldir%/libbench.la
%canon_reldir%_libbench_la_SOURCES =
%canon_reldir%_libbench_la_SOURCES += %reldir%/bracket.c %reldir%/bracket.h
%canon_reldir%_libbench_la_SOURCES += %reldir%/copy.c %reldir%/copy.h
%canon_reldir%_libbench_la_SOURCES += %reldir%/lookup.c %reldir%/lookup.h
%canon_reldir%_libbench_la_SOURCES += %reldir%/peer.c %reldir%/peer.h
%canon_reldir%_libbench_la_SOURCES += %reldir%/raw.c %reldir%/raw.h
%canon_reldir%_libbench_la_SOURCES += %reldir%/reads.c %reldir%/reads.h
%canon_reldir%_libbench_la_SOURCES += %reldir%/series.c %reldir%/series.h
%canon_reldir%_libbench_la_SOURCES += %reldir%/ticks.c %reldir%/ticks.h
%canon_reldir%_libbench_la_CFLAGS = $(AM_CFLAGS) $(GM_BENCH_CFLAGS)
