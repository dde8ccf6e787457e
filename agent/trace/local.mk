# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# agent/trace: recorded jobs as a file for Perfetto, for gpumapctl trace.
noinst_LTLIBRARIES += %reldir%/libtrace.la
%canon_reldir%_libtrace_la_SOURCES =
%canon_reldir%_libtrace_la_SOURCES += %reldir%/chrome_trace.c
%canon_reldir%_libtrace_la_SOURCES += %reldir%/chrome_trace.h
