# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# agent/plan: pure, no I/O but reading models.
noinst_LTLIBRARIES += %reldir%/libplan.la
%canon_reldir%_libplan_la_SOURCES =
